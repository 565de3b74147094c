// SPDX-License-Identifier: Apache-2.0
// Memory for the state of a replay; that of a large one in huge pages where the system gives them:
// with a million live objects each event needs cache lines anywhere in it, and to find their pages
// took much of the time.
#ifndef CT_SLAB_MEMORY_H
#define CT_SLAB_MEMORY_H

#include <stddef.h>

// The allocator that ct_live_init asks for: memory at multiples of 64 bytes, whose content a change
// of its size does not keep. `user` is not used; new_bytes 0 only frees, and `old_bytes` must be
// what was asked for. The first slabs come from malloc: a small state takes no huge page. Slabs
// that are freed are kept until none is in use any more. For any thread.
void *ct_slab_memory_resize(void *user, void *old, size_t old_bytes, size_t new_bytes);

#endif
