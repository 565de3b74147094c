// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)

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

static const char *skip_blanks(const char *p) {
    while (*p == ' ')
        p++;
    return p;
}

// ---- sizes --------------------------------------------------------------------------------------

static uint64_t power_of(uint64_t base, long exponent) {
    uint64_t v = 1;
    while (exponent-- > 0)
        v *= base;
    return v;
}

enum ct_parse_result ct_parse_size(const char *text, struct ct_parsed_size *size) {
    static const char letters[] = "kmgtp";
    uint64_t whole, billionths, unit = 1;
    const char *p = parse_decimal(text, &whole, &billionths);
    *size = (struct ct_parsed_size){0};
    if (!p)
        return CT_PARSE_WRONG;
    p = skip_blanks(p);
    const int has_unit = *p != 0;
    const char *letter = has_unit ? strchr(letters, tolower((unsigned char)*p)) : NULL;
    if (letter) {
        const char *ending = ++p;
        size->decimal = tolower((unsigned char)*ending) == 'b';
        unit = power_of(size->decimal ? 1000 : 1024, letter - letters + 1);
        p += *p == 'i';
    }
    p += tolower((unsigned char)*p) == 'b';
    if (*p || scale(whole, billionths, unit, &size->bytes))
        return CT_PARSE_WRONG;
    return has_unit ? CT_PARSE_OK : CT_PARSE_NO_UNIT;
}

// ---- times --------------------------------------------------------------------------------------

// Parses "1h30m", "90", "4.05 s" to the end of the text.
static int parse_duration(const char *text, uint64_t *ns) {
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},          {"us", 1000},  {"ms", 1000000},      {"min", 60 * SECOND},
                 {"m", 60 * SECOND}, {"s", SECOND}, {"h", 3600 * SECOND}, {"d", 86400 * SECOND}};
    *ns = 0;
    do {
        uint64_t whole, billionths, unit = SECOND, part;
        const char *p = parse_decimal(text, &whole, &billionths);
        if (!p)
            return -1;
        const char *name = skip_blanks(p);
        for (size_t i = 0; *name && i < sizeof units / sizeof *units; i++)
            if (strncmp(name, units[i].name, strlen(units[i].name)) == 0) {
                unit = units[i].ns;
                p = name + strlen(units[i].name);
                break;
            }
        if (scale(whole, billionths, unit, &part) || *ns > UINT64_MAX - part)
            return -1;
        *ns += part;
        text = p;
    } while (isdigit((unsigned char)*text));
    return *text ? -1 : 0;
}

// Parses "H:MM:SS" or "M:SS", with a fraction, up to `end`. `of_day`: only "H:MM:SS" before 24:00.
static int parse_clock(const char *p, const char *end, int of_day, uint64_t *ns) {
    const uint64_t first_end = of_day ? 24 : UINT64_MAX;
    uint64_t seconds = 0, fraction = 0;
    for (unsigned fields = 1;; fields++) {
        uint64_t field;
        p = parse_decimal(p, &field, &fraction);
        if (!p || field >= (fields > 1 ? 60 : first_end) || scale(seconds, 0, 60, &seconds) ||
            seconds > UINT64_MAX - field)
            return -1;
        seconds += field;
        if (p == end)
            return fields < (of_day ? 3 : 2) ? -1 : scale(seconds, fraction, SECOND, ns);
        if (*p++ != ':' || fields == 3 || fraction)
            return -1;
    }
}

// Parses "1:02:03" or "3d05:49:47".
static int parse_elapsed_clock(const char *text, uint64_t *ns) {
    uint64_t days = 0, part, rest;
    const char *p = parse_decimal(text, &days, &rest);
    if (!p || *p != 'd' || rest)
        return parse_clock(text, text + strlen(text), 0, ns);
    p = skip_blanks(p + 1);
    if (parse_clock(p, p + strlen(p), 1, &rest) || scale(days, 0, 86400 * SECOND, &part) ||
        part > UINT64_MAX - rest)
        return -1;
    *ns = part + rest;
    return 0;
}

// Parses "2026-11-22T" up to the "T"; seconds since 1970 at the beginning of that day.
static int parse_date(const char *text, uint64_t *seconds) {
    struct tm tm = {.tm_isdst = 0};
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (!end || end != text + 10 || (*end != 'T' && *end != ' '))
        return -1;
    const struct tm asked = tm;
    const time_t day = timegm(&tm);
    if (day < 0 || tm.tm_mday != asked.tm_mday || tm.tm_mon != asked.tm_mon)
        return -1;
    *seconds = (uint64_t)day;
    return 0;
}

static int parse_utc(const char *text, size_t length, struct ct_time *time) {
    const char *end = text + length - 1; // its "Z"
    uint64_t day = 0, clock;
    if (!memchr(text, '-', length)) {
        time->kind = CT_TIME_OF_DAY;
        return parse_clock(text, end, 1, &time->ns);
    }
    time->kind = CT_TIME_UTC;
    if (length < 12 || parse_date(text, &day) || parse_clock(text + 11, end, 1, &clock) ||
        scale(day, 0, SECOND, &time->ns) || time->ns > UINT64_MAX - clock)
        return -1;
    time->ns += clock;
    return 0;
}

// Parses "#1822" or "event:1822" up to `end`. 0, or -1: it is no event, or not the number of one.
static int parse_event(const char *text, const char *end, uint64_t *number) {
    static const char word[] = "event:";
    const char *p = text;
    if (*p == '#')
        p++;
    else if (strncmp(p, word, sizeof word - 1) == 0)
        p += sizeof word - 1;
    if (p == text || p == end || end - p > 19)
        return -1;
    for (*number = 0; p < end && isdigit((unsigned char)*p); p++)
        *number = *number * 10 + (uint64_t)(*p - '0');
    return p == end ? 0 : -1;
}

// Parses "oom", "peak", "#1822", and a time before or after one of these: "oom-60s".
static int parse_moment(const char *text, struct ct_time *time) {
    const size_t n = strcspn(text, "+-");
    uint64_t shift = 0;
    if (n == 3 && memcmp(text, "oom", n) == 0)
        time->kind = CT_TIME_OF_CROSSING;
    else if (n == 4 && memcmp(text, "peak", n) == 0)
        time->kind = CT_TIME_OF_PEAK;
    else if (parse_event(text, text + n, &time->ns) == 0)
        time->kind = CT_TIME_OF_EVENT;
    else
        return -1;
    if (text[n] && (parse_duration(text + n + 1, &shift) || shift > INT64_MAX))
        return -1;
    time->shift_ns = text[n] == '-' ? -(int64_t)shift : (int64_t)shift;
    return 0;
}

int ct_parse_time(const char *text, struct ct_time *time) {
    const size_t length = strlen(text);
    *time = (struct ct_time){.kind = CT_TIME_ELAPSED};
    if (parse_moment(text, time) == 0)
        return 0;
    if (length && text[length - 1] == 'Z')
        return parse_utc(text, length, time);
    if (strchr(text, ':'))
        return parse_elapsed_clock(text + (*text == '+'), &time->ns);
    return parse_duration(text + (*text == '+'), &time->ns);
}

enum ct_time_kind ct_time_kind_of(const struct ct_time *time) {
    return time->shift_ns ? CT_TIME_ELAPSED : time->kind;
}

int ct_parse_choice(const char *text, const char *choices) {
    const size_t length = strlen(text);
    for (int i = 0;; i++) {
        const size_t n = strcspn(choices, "|");
        if (n == length && strncmp(text, choices, n) == 0)
            return i;
        if (!choices[n])
            return -1;
        choices += n + 1;
    }
}
