// SPDX-License-Identifier: Apache-2.0
// Sizes, times and counts as text and back. Integer arithmetic throughout: the last digit is the
// same on every machine.
#include "base/human.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FORMAT(s, ...) ((void)snprintf((s).text, sizeof(s).text, __VA_ARGS__))

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

// Parses a decimal number without sign into its integer part and billionths. Returns the text after
// it, or NULL.
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
