// SPDX-License-Identifier: Apache-2.0
// Names for addresses: which objects the loader has loaded, and their symbols.
#ifndef CT_NAMING_H
#define CT_NAMING_H

#include <stdint.h>

// Takes over the loader's list of objects if it has changed. Lock not held. Returns 1 if it has, 0 if not, or -EBUSY.
int ct_symbolizer_rescan_modules(void);

// Gives symbols to the frames that have none. Lock not held; one thread at a time, others wait for
// it up to `ms` milliseconds. Returns 1 if it took over a changed list of objects on the way, else 0, or -EBUSY.
int ct_name_pending_resolve(unsigned ms);

// Names the caller of a stack, if that takes no more than a moment. Drain lock held.
void ct_symbolizer_resolve_caller(uint32_t stack);

// Symbol tables stay for a while behind the last new address. The time (of ct_clock) from which on tidy gives them back; 0: there
// are none. Lock not held.
uint64_t ct_symbolizer_deadline_ns(void);
void ct_symbolizer_free_idle_tables(void);

void ct_symbolizer_reinit_child(void);

#endif
