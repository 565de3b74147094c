// SPDX-License-Identifier: Apache-2.0
// The release of NVIDIA's driver (580.159.04), which decides what CUDA does more than the version
// of CUDA that it supports. INFO has it as nvidia.driver_version.
#ifndef CT_WRITE_DRIVER_RELEASE_H
#define CT_WRITE_DRIVER_RELEASE_H

#include <stddef.h>

// Publishes what the kernel says of its driver: a file of /proc, which needs neither NVML nor a
// context. Containers have it, too. Writer thread; the first call counts.
void ct_driver_release_publish(void);

// Finds the release in the text of /proc/driver/nvidia/version. Returns its length, 0: none is
// there. The text holds also who built the driver, and where, which is nobody's business. Pure.
size_t ct_driver_release_find(const char *text, size_t n, const char **release);

#endif
