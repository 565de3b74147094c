// SPDX-License-Identifier: Apache-2.0
// What a trace holds of a code object: function, file and line; and a hash of them. Reads the
// interpreter's memory, calls nothing in it. For the safety of these reads see python_walk.h.
#include "stack/python_code.h"

#include <cutrace/format/journal.h>

#include "base/print.h"
#include "store/stack_hash.h"
#include "store/stack_table.h"

// ---- lines --------------------------------------------------------------------------------------
// Each function is CPython's PyCode_Addr2Line (Objects/codeobject.c) of the versions that have this
// kind of table. A frame that has not executed its first instruction is at the function's first
// line.

#define NO_LINE (-1)

struct table {
    const uint8_t *at, *end;
};

static struct table line_table(const struct ct_python_layout *l, uintptr_t code) {
    const uintptr_t bytes = ct_python_load_word(code + l->linetable);
    const uint8_t *at = (const uint8_t *)(bytes + l->bytes);
    return (struct table){at, at + ct_python_load_word(bytes + l->bytes_size)};
}

static int line_by_lnotab(struct table t, int line, long offset) {
    for (long at = 0; t.end - t.at >= 2; t.at += 2) {
        at += t.at[0];
        if (at > offset)
            break;
        line += (int8_t)t.at[1];
    }
    return line;
}

static int line_by_ranges(struct table t, int line, long offset) {
    for (long end = 0; t.end - t.at >= 2; t.at += 2) {
        const int8_t change = (int8_t)t.at[1];
        end += t.at[0];
        line += change == -128 ? 0 : change;
        if (end > offset)
            return change == -128 ? NO_LINE : line;
    }
    return NO_LINE;
}

// Six bits of the value in each byte, the lowest bits first; bit 6 says that another byte follows.
// Bit 0 of the value is its sign.
static int signed_varint(const uint8_t **at, const uint8_t *end) {
    unsigned value = 0;
    for (unsigned shift = 0; *at < end && shift < 30; shift += 6) {
        const uint8_t byte = *(*at)++;
        value |= (unsigned)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

// Kinds of an entry: bits 3 to 6 of its first byte. Only the first byte of an entry has bit 7 set.
enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, WITHOUT = 15 };

static int line_by_locations(struct table t, int line, long offset) {
    for (long end = 0; t.at < t.end;) {
        const uint8_t first = *t.at++;
        const int kind = first >> 3 & 15;
        if (kind == NO_COLUMNS || kind == LONG)
            line += signed_varint(&t.at, t.end);
        else if (kind >= ONE_LINE && kind < NO_COLUMNS)
            line += kind - ONE_LINE;
        end += ((first & 7) + 1) * 2;
        if (end > offset)
            return kind == WITHOUT ? NO_LINE : line;
        while (t.at < t.end && !(*t.at & 128))
            t.at++;
    }
    return NO_LINE;
}

uint32_t ct_python_code_line(const struct ct_python_layout *l, uintptr_t code, long offset) {
    static int (*const by[])(struct table, int, long) = {
        [CT_LINES_LNOTAB] = line_by_lnotab,
        [CT_LINES_RANGES] = line_by_ranges,
        [CT_LINES_LOCATIONS] = line_by_locations,
    };
    const int first = ct_python_load_int(code + l->first_line);
    const int line = offset < 0 ? first : by[l->lines](line_table(l, code), first, offset);
    return line > 0 ? (uint32_t)line : 0;
}

// ---- strings ------------------------------------------------------------------------------------

// `kind` is the number of bytes of a character; 0: ASCII.
struct string {
    const uint8_t *at;
    size_t characters;
    unsigned kind;
};

static struct string read_string(const struct ct_python_layout *l, uintptr_t object) {
    const unsigned state = (unsigned)ct_python_load_int(object + l->state) >> l->kind_shift;
    const int is_compact = state >> 3 & 1, is_ascii = state >> 4 & 1;
    // A string of a class derived from str has its characters elsewhere.
    uintptr_t at = object + l->compact;
    if (!is_compact)
        at = ct_python_load_word(at);
    else if (is_ascii)
        at = object + l->ascii;
    return (struct string){(const uint8_t *)at, ct_python_load_word(object + l->length),
                           is_ascii ? 0 : state & 7};
}

static uint32_t read_character(const struct string *s, size_t i) {
    uint16_t two;
    uint32_t four;
    switch (s->kind) {
    case 2:
        memcpy(&two, s->at + 2 * i, sizeof two);
        return two;
    case 4:
        memcpy(&four, s->at + 4 * i, sizeof four);
        return four;
    default:
        return s->at[i];
    }
}

static size_t put_utf8(uint8_t *to, uint32_t c) {
    // PEP 383: these stand for the bytes of a file name that is not UTF-8. Other surrogates are no
    // characters.
    if (c >= 0xDC80 && c <= 0xDCFF) {
        to[0] = (uint8_t)c;
        return 1;
    }
    return ct_print_utf8((char *)to, c, 0xFFFD);
}

// Returns the number of bytes. A name that is too long is cut after the last character that fits.
static size_t put_name(uint8_t *to, const struct string *s) {
    size_t n = 0;
    if (!s->kind) {
        n = s->characters < CT_CODE_NAME_MAX_BYTES ? s->characters : CT_CODE_NAME_MAX_BYTES;
        memcpy(to, s->at, n);
        return n;
    }
    for (size_t i = 0; i < s->characters; i++) {
        uint8_t one[4];
        const size_t bytes = put_utf8(one, read_character(s, i));
        if (n + bytes > CT_CODE_NAME_MAX_BYTES)
            break;
        memcpy(to + n, one, bytes);
        n += bytes;
    }
    return n;
}

uint32_t ct_python_code_intern(const struct ct_python_layout *l, uintptr_t code) {
    uint64_t words[1 + (2 * CT_CODE_NAME_MAX_BYTES + 7) / 8];
    uint8_t *const bytes = (uint8_t *)&words[1];
    const struct string function = read_string(l, ct_python_load_word(code + l->name)),
                        file = read_string(l, ct_python_load_word(code + l->filename));
    const size_t function_bytes = put_name(bytes, &function);
    const size_t both_bytes = function_bytes + put_name(bytes + function_bytes, &file);
    const size_t used = (both_bytes + 7) / 8;
    words[0] = function_bytes | (uint64_t)(both_bytes - function_bytes) << 32;
    memset(bytes + both_bytes, 0, used * 8 - both_bytes);
    return ct_stack_table_intern(words, 1 + used);
}

// ---- hash ---------------------------------------------------------------------------------------

// Until 3.11 each walk hashes the line table of each function on the stack. Two lanes, because the
// processor multiplies both at a time.
static uint64_t hash_bytes(uint64_t h, const uint8_t *bytes, size_t n) {
    const uint64_t k = UINT64_C(0xA0761D6478BD642F);
    const uint8_t *at = bytes, *const end = bytes + n;
    uint64_t one = h ^ n, other = UINT64_C(0xE7037ED1A0B428DB), word[4] = {0};
    for (; end - at >= 32; at += 32) {
        memcpy(word, at, 32);
        one = ct_stack_hash_mix(one ^ word[0], k ^ word[1]);
        other = ct_stack_hash_mix(other ^ word[2], k ^ word[3]);
    }
    for (; end - at >= 8; at += 8) {
        memcpy(word, at, 8);
        one = ct_stack_hash_mix(one ^ word[0], k);
    }
    if (at < end) { // the last word may overlap the one before
        word[0] = 0;
        if (n >= 8)
            memcpy(word, end - 8, 8);
        else
            memcpy(word, at, n);
        other ^= word[0];
    }
    return ct_stack_hash_mix(one ^ k, other); // a factor of 0 would hide the other one
}

// A string that was the key of a dictionary knows its own hash, in which all its bytes count.
static uint64_t hash_string(const struct ct_python_layout *l, uintptr_t object) {
    const uint64_t known = l->hash ? ct_python_load_word(object + l->hash) : UINT64_MAX;
    if (known != UINT64_MAX)
        return known;
    const struct string s = read_string(l, object);
    return hash_bytes(s.kind, s.at, s.characters * (s.kind ? s.kind : 1));
}

uint64_t ct_python_code_hash(const struct ct_python_layout *l, uintptr_t code,
                             struct ct_python_code_file *last) {
    const uint64_t k = UINT64_C(0xE7037ED1A0B428DB);
    const uintptr_t file = ct_python_load_word(code + l->filename);
    const struct table lines = line_table(l, code);
    uint64_t h = (uint32_t)ct_python_load_int(code + l->first_line);
    if (file != last->object)
        *last = (struct ct_python_code_file){file, hash_string(l, file)};
    h = ct_stack_hash_mix(h ^ hash_string(l, ct_python_load_word(code + l->name)), k);
    h = ct_stack_hash_mix(h ^ last->hash, k);
    return hash_bytes(h, lines.at, (size_t)(lines.end - lines.at));
}
