// SPDX-License-Identifier: Apache-2.0
// Pickle protocol 2.
#include "export/pickle.h"

#include <cutrace/format/assert.h>

#include "base/heap.h"
#include "base/utf8.h"

static void flush(struct ct_pickle *p) {
    if (!p->failed && ct_new_file_write(p->file, p->buffer, p->used))
        p->failed = 1;
    p->used = 0;
}

static uint8_t *reserve(struct ct_pickle *p, size_t n) {
    CT_ASSERT(n <= sizeof p->buffer);
    if (sizeof p->buffer - p->used < n)
        flush(p);
    return p->buffer + p->used;
}

void ct_pickle_op(struct ct_pickle *p, unsigned op) {
    *reserve(p, 1) = (uint8_t)op;
    p->used++;
}

// Writes an opcode and the `n` low bytes of its argument.
static void put_op(struct ct_pickle *p, unsigned op, uint64_t value, unsigned n) {
    uint8_t *to = reserve(p, 9);
    *to++ = (uint8_t)op;
    for (unsigned i = 0; i < n; i++)
        *to++ = (uint8_t)(value >> 8 * i);
    p->used += 1 + n;
}

void ct_pickle_begin(struct ct_pickle *p, struct ct_new_file *file) {
    p->file = file;
    p->failed = 0;
    p->used = 0;
    put_op(p, CT_PICKLE_PROTO, 2, 1);
}

int ct_pickle_end(struct ct_pickle *p) {
    ct_pickle_op(p, CT_PICKLE_STOP);
    flush(p);
    return p->failed ? -1 : 0;
}

void ct_pickle_number(struct ct_pickle *p, uint64_t value) {
    if (value > INT64_MAX)
        value = INT64_MAX;
    if (value <= UINT8_MAX) {
        put_op(p, CT_PICKLE_BININT1, value, 1);
    } else if (value <= UINT16_MAX) {
        put_op(p, CT_PICKLE_BININT2, value, 2);
    } else if (value <= INT32_MAX) {
        put_op(p, CT_PICKLE_BININT, value, 4);
    } else {
        // the length includes a sign bit
        const unsigned n = (unsigned)(64 - __builtin_clzll(value)) / 8 + 1;
        put_op(p, CT_PICKLE_LONG1, n, 1);
        uint8_t *to = reserve(p, 8);
        for (unsigned i = 0; i < n; i++)
            to[i] = (uint8_t)(value >> 8 * i);
        p->used += n;
    }
}

static size_t replace_invalid(const char *bytes, size_t length, char *to) {
    static const char wrong[] = "\xEF\xBF\xBD"; // U+FFFD
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code;
        const unsigned one = ct_utf8_decode((const unsigned char *)bytes + i, length - i, &code);
        memcpy(to + n, one ? bytes + i : wrong, one ? one : 3);
        n += one ? one : 3;
        i += one ? one : 1;
    }
    return n;
}

void ct_pickle_bytes(struct ct_pickle *p, const char *bytes, size_t length) {
    char few[3072], *text = length <= sizeof few / 3 ? few : ct_heap_resize(NULL, length, 3);
    const size_t n = replace_invalid(bytes, length, text);
    put_op(p, CT_PICKLE_BINUNICODE, n, 4);
    for (size_t done = 0; done < n;) {
        const size_t part = n - done < sizeof p->buffer ? n - done : sizeof p->buffer;
        memcpy(reserve(p, part), text + done, part);
        p->used += part;
        done += part;
    }
    if (text != few)
        free(text);
}

void ct_pickle_text(struct ct_pickle *p, const char *text) {
    ct_pickle_bytes(p, text, strlen(text));
}

void ct_pickle_memoize(struct ct_pickle *p, uint32_t memo) {
    if (memo <= UINT8_MAX)
        put_op(p, CT_PICKLE_BINPUT, memo, 1);
    else
        put_op(p, CT_PICKLE_LONG_BINPUT, memo, 4);
}

void ct_pickle_recall(struct ct_pickle *p, uint32_t memo) {
    if (memo <= UINT8_MAX)
        put_op(p, CT_PICKLE_BINGET, memo, 1);
    else
        put_op(p, CT_PICKLE_LONG_BINGET, memo, 4);
}
