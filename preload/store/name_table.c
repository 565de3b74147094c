// SPDX-License-Identifier: Apache-2.0
// Interns names and short texts: a lock-free hash table keyed by the address of the literal, and an
// array of copied texts.
#include "store/name_table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/print.h"
#include "store/journal.h"

#define TEXT_BYTES 200u

static const char *_Atomic literals[CT_NAME_MAX_LITERALS];
static const char *_Atomic texts[CT_NAME_MAX_TEXTS];
static _Atomic uint32_t texts_used;
static struct ct_arena copies = {.bytes = CT_NAME_MAX_TEXTS * (TEXT_BYTES + 8)};

uint32_t ct_name_intern(const char *literal) {
    uint64_t h = (uintptr_t)literal * UINT64_C(0x9E3779B97F4A7C15);
    if (!literal)
        return 0;
    // At most a quarter of the slots is probed, which bounds the time that a full table costs.
    for (uint32_t i = (uint32_t)(h >> 40), probes = 0; probes < CT_NAME_MAX_LITERALS / 4;
         i++, probes++) {
        const char *_Atomic *slot = &literals[i % CT_NAME_MAX_LITERALS];
        const char *there = atomic_load_explicit(slot, memory_order_acquire);
        if (!there && atomic_compare_exchange_strong(slot, &there, literal))
            there = literal;
        if (there == literal) {
            // Also if another thread interned the literal: it may not have added the name to the
            // journal yet, and the process may be killed before it does (journal.c, J3).
            ct_journal_add_name(i % CT_NAME_MAX_LITERALS + 1, literal);
            return i % CT_NAME_MAX_LITERALS + 1;
        }
    }
    return 0;
}

uint32_t ct_name_intern_format(const char *format, ...) {
    char line[TEXT_BYTES + 1];
    const int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    const size_t n = ct_print_va(line, sizeof line, format, arguments);
    va_end(arguments);
    uint32_t id = 0;
    if (atomic_load(&texts_used) < CT_NAME_MAX_TEXTS) {
        const uint32_t i = atomic_fetch_add(&texts_used, 1);
        const char *copy = i < CT_NAME_MAX_TEXTS ? ct_arena_copy_text(&copies, line, n) : NULL;
        if (copy) {
            atomic_store(&texts[i], copy);
            id = 1 + CT_NAME_MAX_LITERALS + i;
            ct_journal_add_name(id, copy);
        }
    }
    errno = saved;
    return id;
}

const char *ct_name_get_text(uint32_t id) {
    if (id == 0 || id >= CT_NAME_IDS)
        return NULL;
    // Sequentially consistent, like the stores above (journal.c, J3).
    if (id <= CT_NAME_MAX_LITERALS)
        return atomic_load(&literals[id - 1]);
    return atomic_load(&texts[id - 1 - CT_NAME_MAX_LITERALS]);
}
