// SPDX-License-Identifier: Apache-2.0
// Tells one process from all others, also after its number was used again and after a reboot. Reads /proc: not for
// hot paths. Any thread; no lock, no heap.
#ifndef CT_PROCESS_ID_H
#define CT_PROCESS_ID_H

#include <stdint.h>

// What identifies the calling process: the time now (CLOCK_MONOTONIC, ns), its start (kernel ticks since boot) and
// the boot of the machine.
void ct_process_id_read(uint64_t *now_ns, uint64_t *start_ticks, uint64_t boot_id[2]);

// Whether the process that ct_process_id_read described is still running. Without /proc: yes.
int ct_process_id_is_alive(unsigned pid, uint64_t start_ticks, const uint64_t boot_id[2]);

// Start of a process in kernel ticks since boot; 0 if there is no such process.
uint64_t ct_process_id_read_start_ticks(unsigned pid);

#endif
