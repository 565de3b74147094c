// SPDX-License-Identifier: Apache-2.0
// Interns names and short texts: a lock-free hash table keyed by the address of the literal, and an
// array of copied texts.
#define _GNU_SOURCE
#include "store/name_table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

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

// Keeps a copy of a text, and returns its id; 0: there is no room.
static uint32_t add_text(const char *text, size_t n) {
    if (atomic_load(&texts_used) >= CT_NAME_MAX_TEXTS)
        return 0;
    const uint32_t i = atomic_fetch_add(&texts_used, 1);
    const char *copy = i < CT_NAME_MAX_TEXTS ? ct_arena_copy_text(&copies, text, n) : NULL;
    if (!copy)
        return 0;
    atomic_store(&texts[i], copy);
    ct_journal_add_name(1 + CT_NAME_MAX_LITERALS + i, copy);
    return 1 + CT_NAME_MAX_LITERALS + i;
}

uint32_t ct_name_intern_format(const char *format, ...) {
    char line[TEXT_BYTES + 1];
    const int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    const size_t n = ct_print_va(line, sizeof line, format, arguments);
    va_end(arguments);
    const uint32_t id = add_text(line, n);
    errno = saved;
    return id;
}

// ---- texts of the program -------------------------------------------------------------------

#define COPIES_MOST (CT_NAME_MAX_TEXTS / 4 * 3) // texts; the rest is for notes
#define COPIES_EXACT (COPIES_MOST / 4 * 3)      // ... that keep their digits
#define COPY_SLOTS 8192u                        // a power of two, more than twice COPIES_MOST
#define COPY_PROBES 64u

// Open addressing by content: 1 + the index of a text, 0: free. Two threads may add the same text
// at a time; then one of the copies is never used.
static _Atomic uint32_t copy_slots[COPY_SLOTS];
static _Atomic uint32_t copies_used;

uint32_t ct_name_hash(const char *text, size_t n) {
    uint64_t h = UINT64_C(0xCBF29CE484222325); // FNV-1a
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
    return (uint32_t)(h ^ h >> 32);
}

// The text with n bytes: its id; 0 if there is none, then *slot is where it belongs, or NULL.
static uint32_t find_copy(const char *text, size_t n, _Atomic uint32_t **slot) {
    const uint32_t at = ct_name_hash(text, n);
    *slot = NULL;
    for (uint32_t i = 0; i < COPY_PROBES; i++) {
        _Atomic uint32_t *const s = &copy_slots[(at + i) % COPY_SLOTS];
        const uint32_t there = atomic_load_explicit(s, memory_order_acquire);
        if (!there) {
            *slot = s;
            return 0;
        }
        const char *const known = atomic_load(&texts[there - 1]);
        if (known && strlen(known) == n && !memcmp(known, text, n))
            return CT_NAME_MAX_LITERALS + there;
    }
    return 0;
}

static uint32_t add_copy(const char *text, size_t n, _Atomic uint32_t *slot, uint32_t most) {
    uint32_t empty = 0;
    const uint32_t id = slot && atomic_load(&copies_used) < most ? add_text(text, n) : 0;
    if (!id)
        return 0;
    atomic_fetch_add(&copies_used, 1);
    // If another thread has taken the slot, this text is found under no slot, and is used once.
    (void)atomic_compare_exchange_strong(slot, &empty, id - CT_NAME_MAX_LITERALS);
    return id;
}

// Replaces runs of digits; returns the new length.
static size_t without_digits(char *text, size_t n) {
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        const int is_digit = text[i] >= '0' && text[i] <= '9';
        if (!is_digit || !to || text[to - 1] != '#')
            text[to++] = is_digit ? '#' : text[i];
    }
    return to;
}

uint32_t ct_name_intern_copy(const char *text, size_t most) {
    char line[TEXT_BYTES];
    _Atomic uint32_t *slot;
    if (!text)
        return 0;
    const int saved = errno;
    size_t n = strnlen(text, most <= TEXT_BYTES ? most : TEXT_BYTES + 1);
    if (n > TEXT_BYTES)
        for (n = TEXT_BYTES; n && ((unsigned char)text[n] & 0xC0) == 0x80;)
            n--; // not in the middle of a character
    uint32_t id = find_copy(text, n, &slot);
    if (!id && !(id = add_copy(text, n, slot, COPIES_EXACT))) {
        memcpy(line, text, n);
        n = without_digits(line, n);
        if (!(id = find_copy(line, n, &slot)))
            id = add_copy(line, n, slot, COPIES_MOST);
    }
    errno = saved;
    return id ? id : ct_name_intern(CT_NAME_TOO_MANY);
}

const char *ct_name_get_text(uint32_t id) {
    if (id == 0 || id >= CT_NAME_IDS)
        return NULL;
    // Sequentially consistent, like the stores above (journal.c, J3).
    if (id <= CT_NAME_MAX_LITERALS)
        return atomic_load(&literals[id - 1]);
    return atomic_load(&texts[id - 1 - CT_NAME_MAX_LITERALS]);
}
