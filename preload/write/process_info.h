// SPDX-License-Identifier: Apache-2.0
// What the trace says about the process and its machine, and what it keeps quiet about.
#ifndef CT_PROCESS_H
#define CT_PROCESS_H

#include <stdint.h>

// Sets the facts (FORMAT.md, section 4) through ct_info. Reads /proc; not for hot paths.
void ct_process_info(void);

// What tells this process from all others: now and its start, on their own scales, and the boot of the
// machine. Reads /proc.
void ct_process_identity(uint64_t *now_ns, uint64_t *start_ticks, uint64_t boot_id[2]);

// Whether the process that told this of itself is still there.
int ct_process_is_alive(unsigned pid, uint64_t start_ticks, const uint64_t boot_id[2]);

#endif
