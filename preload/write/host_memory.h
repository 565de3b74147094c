// SPDX-License-Identifier: Apache-2.0
// The host's memory, where a device uses it: HOST_SAMPLE events.
#ifndef CT_WRITE_HOST_MEMORY_H
#define CT_WRITE_HOST_MEMORY_H

#include <cutrace/format/format.h>

// A device (an ordinal) shares the host's memory. Any thread.
void ct_host_memory_watch(int device);
int ct_host_memory_is_shared(int device);
// Passes an event to `record` if a device shares the host's memory and what is available differs
// from the last event by 1/256 of all, or 30 s have passed. Writer thread only.
void ct_host_memory_sample(void (*record)(struct ct_event *));

#endif
