// SPDX-License-Identifier: Apache-2.0
// Names and short texts by number: a lock-free table keyed by the literal's address, and copied
// texts.
#include "store/name_table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "base/pages.h"
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
    // A quarter of the table at most is looked at, so that a full one costs a bounded time.
    for (uint32_t i = (uint32_t)(h >> 40), tries = 0; tries < CT_NAME_MAX_LITERALS / 4; i++, tries++) {
        const char *_Atomic *slot = &literals[i % CT_NAME_MAX_LITERALS];
        const char *there = atomic_load_explicit(slot, memory_order_acquire);
        if (!there && atomic_compare_exchange_strong(slot, &there, literal))
            there = literal;
        if (there == literal) {
            // Also where another thread has just put it there: that one may not have come as far as the journal, and an
            // event with this number may be all that a killed process leaves.
            ct_journal_add_name(i % CT_NAME_MAX_LITERALS + 1, literal);
            return i % CT_NAME_MAX_LITERALS + 1;
        }
    }
    return 0;
}

uint32_t ct_text(const char *format, ...) {
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
    // In one order with the stores above and with the journal's opening (journal.c, put_names).
    return id <= CT_NAME_MAX_LITERALS ? atomic_load(&literals[id - 1]) : atomic_load(&texts[id - 1 - CT_NAME_MAX_LITERALS]);
}
