// SPDX-License-Identifier: Apache-2.0
#include "diagnose/kv_waste.h"

#include "diagnose/text_start.h"

int ct_kv_waste_find(const struct ct_text_facts *f, const char *lengths, struct ct_kv_waste *w) {
    struct ct_text_start s;
    *w = (struct ct_kv_waste){0};
    ct_text_start_find(f, &s);
    const uint64_t block_tokens =
        s.block_tokens.known && s.block_tokens.value > 0 ? (uint64_t)s.block_tokens.value : 0;
    if (lengths)
        return ct_kv_waste_add_list(w, lengths, block_tokens);
    ct_kv_waste_add(w, f->step.lengths, (size_t)f->step.length_count, block_tokens);
    return w->requests ? 0 : -1;
}
