// SPDX-License-Identifier: Apache-2.0
// Decodes UTF-8, and makes strings that another program wrote harmless for a terminal.
#include "base/utf8.h"

#include <string.h>

// By the first byte: how long its sequence is, 0 if none begins with it.
static unsigned sequence_length(unsigned char first) {
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first >= 0xF5)
        return 0;
    if (first < 0xE0)
        return 2;
    return first < 0xF0 ? 3 : 4;
}

unsigned ct_utf8_decode(const unsigned char *p, size_t left, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; // shorter forms are invalid
    const unsigned n = sequence_length(p[0]);
    if (!n || n > left)
        return 0;
    uint32_t c = n == 1 ? p[0] : p[0] & (0xFFu >> (n + 1));
    for (unsigned i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3F);
    }
    *code = c;
    const int is_surrogate = c >= 0xD800 && c <= 0xDFFF;
    return c < least[n] || c > 0x10FFFF || is_surrogate ? 0 : n;
}

// Characters that move the cursor, start an escape sequence, or change the order in which text is
// shown.
static int is_unsafe(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x200E || c == 0x200F || c == 0x2028 ||
           c == 0x2029 || (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
           c == 0xFEFF || c == 0x61C;
}

size_t ct_utf8_sanitize(char *to, size_t size, const char *from, size_t length) {
    const unsigned char *p = (const unsigned char *)from;
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        uint32_t code = 0;
        const unsigned n = ct_utf8_decode(p + i, length - i, &code);
        const int plain = n && !is_unsafe(code);
        const size_t room = plain ? n : 1;
        if (used + room >= size)
            break;
        if (plain)
            memmove(to + used, p + i, n);
        else
            to[used] = '?';
        used += room;
        i += n ? n : 1;
    }
    to[used] = 0;
    return used;
}

void ct_utf8_print_sanitized(FILE *out, const char *from, size_t length) {
    char text[1024];
    while (length) {
        size_t n = length < 900 ? length : 900;
        // Do not cut a character in two.
        for (int i = 0; n < length && i < 3 && ((unsigned char)from[n] & 0xC0) == 0x80; i++)
            n--;
        ct_utf8_sanitize(text, sizeof text, from, n);
        fputs(text, out);
        from += n;
        length -= n;
    }
}

size_t ct_utf8_columns(const char *text) {
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}
