// SPDX-License-Identifier: Apache-2.0
// Identifies a process among all others, also after its number was used again and after a reboot.
// Reads /proc: not for hot paths. Any thread; no lock, no heap.
#ifndef CT_BASE_PROCESS_ID_H
#define CT_BASE_PROCESS_ID_H

#include <stddef.h>
#include <stdint.h>

// Reads what identifies the calling process: its start (kernel ticks since boot) and the boot of
// the machine; and the time now (CLOCK_MONOTONIC, ns).
void ct_process_id_read(uint64_t *now_ns, uint64_t *start_ticks, uint64_t boot_id[2]);

// Whether the process with this identity is still running. Without /proc: yes.
int ct_process_id_is_alive(unsigned pid, uint64_t start_ticks, const uint64_t boot_id[2]);

// The start of a process in kernel ticks since boot; 0 if there is no such process.
uint64_t ct_process_id_read_start_ticks(unsigned pid);

// The base name of the running program, at most 64 bytes of it; "unknown" if /proc does not say.
// Drain lock held.
void ct_process_id_get_program_name(char *out, size_t size);

#endif
