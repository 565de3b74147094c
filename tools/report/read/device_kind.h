// SPDX-License-Identifier: Apache-2.0
// What kind of device it is: a card, a MIG instance of one, or one that shares the host's memory.
#ifndef CT_DEVICE_KIND_H
#define CT_DEVICE_KIND_H

#include <stddef.h>

#include "read/definitions.h"

struct ct_device_kind {
    int is_mig;
    int gpu_instance, compute_instance, card; // of a MIG instance, as NVML has them; -1: unknown
    int is_shared_with_host;                  // it has no memory of its own
    int numa_node;                            // of the host, which its memory is; -1: none
};

struct ct_device_kind ct_device_kind_read(const struct ct_definitions *definitions, int device);
// Whether it is a card with memory of its own, as far as is known.
int ct_device_kind_is_card(const struct ct_device_kind *kind);
// Prints "MIG instance 3/0 of card 1", "memory shared with the host" or "host NUMA node 1"; an
// empty text for a card with memory of its own.
void ct_device_kind_describe(const struct ct_device_kind *kind, char *to, size_t size);

#endif
