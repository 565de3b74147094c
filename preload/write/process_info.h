// SPDX-License-Identifier: Apache-2.0
// INFO about the process, its machine and its command lines, without anything private.
#ifndef CT_WRITE_PROCESS_INFO_H
#define CT_WRITE_PROCESS_INFO_H

#include <stddef.h>

// Sets the keys process.*, host.*, option.* and clock.* (FORMAT.md, section 4). Reads /proc: not
// for hot paths. Drain lock held.
void ct_process_info_publish(void);

// Publishes the release of NVIDIA's driver (580.159.04), which decides what CUDA does more than the
// version of CUDA that it supports, as the kernel says it: in a file of /proc, which needs neither
// NVML nor a context. Containers have it, too. Writer thread; the first call counts.
void ct_process_info_publish_release(void);

// Finds the release in the text of /proc/driver/nvidia/version. Returns its length, 0: none is
// there. The text holds also who built the driver, and where, which is nobody's business. Pure.
size_t ct_process_info_find_release(const char *text, size_t n, const char **release);

// ---- command lines (command_line.c) ----------------------------------------------------------

// INFO about the command lines that started the process: process.argv, and flag.NAME,
// flag.NAME.from and process.program by cutrace/format/cli_flags.def. Servers start their workers
// by multiprocessing, whose command lines have no flags, and give them titles: the flags are on the
// command line of an ancestor.

// Publishes the process's own command line. Drain lock held.
void ct_command_line_publish(void);

// Publishes the flags of its ancestors that are not on its own command line. Writer thread only,
// without the drain lock: the kernel reads the memory of another process, which may take as long as
// that process has it locked.
void ct_command_line_read_ancestors(void);

#endif
