// SPDX-License-Identifier: Apache-2.0
// The bodies of all chunks of a trace, decompressed side by side and handed on one after the other.
#ifndef CT_UNPACK_IN_ORDER_H
#define CT_UNPACK_IN_ORDER_H

#include "read/unpack.h"

struct ct_unpacked {
    int is_left;        // to the caller, because it is large, or because one thread does all
    const char *damage; // else: what is wrong with it, or NULL
    struct ct_in body;
};

// Calls `take` for each chunk in the order of the index, from one thread at a time. It may change
// the index, except its list of chunks and their prefixes.
void ct_unpack_in_order(const struct ct_source *source, const struct ct_index *index,
                        void (*take)(void *user, size_t chunk, const struct ct_unpacked *u),
                        void *user);

#endif
