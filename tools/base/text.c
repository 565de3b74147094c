// SPDX-License-Identifier: Apache-2.0
// Sizes and times as text and back, and the cleaning of strings that somebody else's program wrote.
#include "base/human.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#define FORMAT(s, ...) ((void)snprintf((s).text, sizeof(s).text, __VA_ARGS__))

// Integer arithmetic throughout: the last digit is the same on every machine.
struct ct_human_text ct_human_bytes(uint64_t bytes, enum ct_human_units units) {
    static const char *const iec[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static const char *const si[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    struct ct_human_text s;
    const uint64_t step = units == CT_UNITS_SI ? 1000 : 1024;
    if (units == CT_UNITS_BYTES || bytes < step) {
        FORMAT(s, "%" PRIu64 "%s", bytes, units == CT_UNITS_BYTES ? "" : " B");
        return s;
    }
    int power = 0;
    uint64_t unit = step;
    while (power < 5 && bytes / unit >= step) {
        unit *= step;
        power++;
    }
    const uint64_t whole = bytes / unit, rest = bytes % unit;
    const unsigned hundredths = (unsigned)((unsigned __int128)rest * 100 / unit);
    FORMAT(s, "%" PRIu64 ".%02u %s", whole, hundredths, (units == CT_UNITS_SI ? si : iec)[power]);
    return s;
}

struct ct_human_text ct_human_seconds(uint64_t ns) {
    struct ct_human_text s;
    const uint64_t seconds = ns / 1000000000;
    if (seconds < 600)
        FORMAT(s, "%" PRIu64 ".%" PRIu64 " s", seconds, ns / 100000000 % 10);
    else if (seconds < 86400)
        FORMAT(s, "%" PRIu64 " h %02" PRIu64 " min", seconds / 3600, seconds / 60 % 60);
    else
        FORMAT(s, "%" PRIu64 " d %" PRIu64 " h", seconds / 86400, seconds / 3600 % 24);
    return s;
}

struct ct_human_text ct_human_elapsed(uint64_t ns) {
    struct ct_human_text s;
    FORMAT(s, "+%" PRIu64 ".%03" PRIu64 " s", ns / 1000000000, ns / 1000000 % 1000);
    return s;
}

struct ct_human_text ct_human_duration(uint64_t ns) {
    struct ct_human_text s;
    if (ns < 10000)
        FORMAT(s, "%" PRIu64 " ns", ns);
    else if (ns < 10000000)
        FORMAT(s, "%" PRIu64 " us", ns / 1000);
    else if (ns < 1000000000)
        FORMAT(s, "%" PRIu64 " ms", ns / 1000000);
    else
        return ct_human_seconds(ns);
    return s;
}

struct ct_human_text ct_human_utc(uint64_t realtime_ns) {
    struct ct_human_text s = {"-"};
    const time_t t = (time_t)(realtime_ns / 1000000000);
    struct tm tm;
    if (gmtime_r(&t, &tm))
        strftime(s.text, sizeof s.text, "%Y-%m-%d %H:%M:%S UTC", &tm);
    return s;
}

struct ct_human_text ct_human_count(uint64_t n) {
    struct ct_human_text s;
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && length > 4)
            s.text[at++] = ' ';
        s.text[at++] = digits[i];
    }
    s.text[at] = 0;
    return s;
}

struct ct_human_text ct_human_percent(uint64_t part, uint64_t whole) {
    struct ct_human_text s = {"-"};
    if (whole) {
        const uint64_t tenths = (uint64_t)((unsigned __int128)part * 1000 / whole);
        FORMAT(s, "%" PRIu64 ".%" PRIu64 " %%", tenths / 10, tenths % 10);
    }
    return s;
}

unsigned ct_utf8_decode(const unsigned char *p, size_t left, uint32_t *code) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned n = p[0] < 0x80   ? 1
                       : p[0] < 0xC2 ? 0
                       : p[0] < 0xE0 ? 2
                       : p[0] < 0xF0 ? 3
                       : p[0] < 0xF5 ? 4
                                     : 0;
    if (!n || n > left)
        return 0;
    uint32_t c = n == 1 ? p[0] : p[0] & (0xFFu >> (n + 1));
    for (unsigned i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3F);
    }
    *code = c;
    return c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF) ? 0 : n;
}

// Characters that move the cursor, start a sequence, or make text read other than it is.
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
            memcpy(to + used, p + i, n);
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
        // Not in the middle of a character.
        for (int i = 0; n < length && i < 3 && ((unsigned char)from[n] & 0xC0) == 0x80; i++)
            n--;
        ct_utf8_sanitize(text, sizeof text, from, n);
        fputs(text, out);
        from += n;
        length -= n;
    }
}

size_t ct_columns(const char *text) {
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

// A decimal number without sign, as integer part and billionths. The text behind it, or NULL.
static const char *parse_decimal(const char *p, uint64_t *whole, uint64_t *billionths) {
    uint64_t unit = 1000000000;
    int digits = 0;
    *whole = *billionths = 0;
    for (; isdigit((unsigned char)*p); p++, digits++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (*whole > (UINT64_MAX - digit) / 10)
            return NULL;
        *whole = *whole * 10 + digit;
    }
    if (*p == '.')
        for (p++; isdigit((unsigned char)*p); p++, digits++)
            *billionths += (uint64_t)(*p - '0') * (unit /= 10);
    return digits ? p : NULL;
}

static int scale(uint64_t whole, uint64_t billionths, uint64_t unit, uint64_t *to) {
    const unsigned __int128 v =
        (unsigned __int128)whole * unit + (unsigned __int128)billionths * unit / 1000000000;
    if (v > UINT64_MAX)
        return -1;
    *to = (uint64_t)v;
    return 0;
}

int ct_human_parse_bytes(const char *text, uint64_t *bytes) {
    static const char letters[] = "kmgtp";
    uint64_t whole, billionths, unit = 1;
    const char *p = parse_decimal(text, &whole, &billionths);
    if (!p)
        return -1;
    while (*p == ' ')
        p++;
    const char *letter = *p ? strchr(letters, tolower((unsigned char)*p)) : NULL;
    if (letter) {
        unit <<= 10 * (letter - letters + 1);
        p++;
        if (*p == 'i')
            p++;
    }
    if (*p == 'B' || *p == 'b')
        p++;
    return *p ? -1 : scale(whole, billionths, unit, bytes);
}

int ct_human_parse_duration(const char *text, uint64_t *ns) {
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},
                 {"us", 1000},
                 {"ms", 1000000},
                 {"min", UINT64_C(60000000000)},
                 {"m", UINT64_C(60000000000)},
                 {"s", 1000000000},
                 {"h", UINT64_C(3600000000000)},
                 {"d", UINT64_C(86400000000000)}};
    uint64_t total = 0;
    if (*text == '+')
        text++;
    do {
        uint64_t whole, billionths, unit = 1000000000, part;
        const char *p = parse_decimal(text, &whole, &billionths);
        if (!p)
            return -1;
        for (size_t i = 0; *p && i < sizeof units / sizeof *units; i++)
            if (strncmp(p, units[i].name, strlen(units[i].name)) == 0) {
                unit = units[i].ns;
                p += strlen(units[i].name);
                break;
            }
        if (scale(whole, billionths, unit, &part) || total > UINT64_MAX - part)
            return -1;
        total += part;
        text = p;
    } while (isdigit((unsigned char)*text));
    *ns = total;
    return *text ? -1 : 0;
}
