// SPDX-License-Identifier: Apache-2.0
// Finds symbols for the frames of stacks: which objects the loader has loaded, and their symbol
// tables. One thread at a time is the resolver; it takes the drain lock only to look up frames and
// to store results, not while it reads a file.
#ifndef CT_WRITE_SYMBOLIZER_H
#define CT_WRITE_SYMBOLIZER_H

#include <stdint.h>

// Takes over the loader's list of objects if it has changed. Drain lock not held. Returns 1 if it
// has, 0 if not, or -EBUSY.
int ct_symbolizer_rescan_modules(void);

// Resolves the frames that have no symbol yet and defines them in the open chunk. Drain lock not
// held; waits up to `ms` milliseconds for another resolver. Sets *modules_changed if it took over a
// changed list of objects. Returns 1 if frames were defined, which the next drain commits; 0; or
// -EBUSY.
int ct_symbolizer_resolve(unsigned ms, int *modules_changed);

// Resolves the caller of a stack, if that takes a few milliseconds at most. Drain lock held.
void ct_symbolizer_resolve_caller(uint32_t stack);

// Symbol tables stay loaded for a while after the last new address. The deadline (of ct_clock_read)
// after which ct_symbolizer_free_idle_tables frees them; 0: no table is loaded. Drain lock not
// held.
uint64_t ct_symbolizer_deadline_ns(void);
void ct_symbolizer_free_idle_tables(void);

void ct_symbolizer_reinit_child(void);

#endif
