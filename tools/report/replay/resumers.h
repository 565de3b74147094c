// SPDX-License-Identifier: Apache-2.0
// Which code resumed memory that had slept: by the stack that the memory, or the block in it,
// belongs to, the stack of the last mapping that gave it new memory.
#ifndef CT_RESUMERS_H
#define CT_RESUMERS_H

#include "base/map.h"

enum ct_resumed_kind { CT_RESUMED_MEMORY, CT_RESUMED_BLOCK, CT_RESUMED_KINDS };

struct ct_resumers {
    struct ct_map of[CT_RESUMED_KINDS];
};

static inline void ct_resumers_note(struct ct_resumers *r, enum ct_resumed_kind kind,
                                    uint32_t stack, uint32_t by) {
    *ct_map_add(&r->of[kind], stack) = by;
}

// The stack, or 0 if it is not known.
static inline uint32_t ct_resumers_find(const struct ct_resumers *r, enum ct_resumed_kind kind,
                                        uint32_t stack) {
    const uint64_t *by = ct_map_find(&r->of[kind], stack);
    return by ? (uint32_t)*by : 0;
}

static inline int ct_resumers_are_any(const struct ct_resumers *r) {
    size_t count = 0;
    for (unsigned kind = 0; kind < CT_RESUMED_KINDS; kind++)
        count += r->of[kind].count;
    return count != 0;
}

static inline void ct_resumers_free(struct ct_resumers *r) {
    for (unsigned kind = 0; kind < CT_RESUMED_KINDS; kind++)
        ct_map_free(&r->of[kind]);
}

#endif
