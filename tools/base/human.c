// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic throughout: the last digit is the same on every machine.
#include "base/human.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/heap.h"

#define FORMAT(s, ...) ((void)snprintf((s).text, sizeof(s).text, __VA_ARGS__))

typedef unsigned __int128 wide;

static uint64_t round_quotient(wide dividend, uint64_t divisor) {
    return (uint64_t)((dividend + divisor / 2) / divisor);
}

// ---- sizes --------------------------------------------------------------------------------------

// A size as it is shown: in hundredths of a unit; of bytes there are only whole ones.
struct figure {
    uint64_t unit;
    int power; // 0: bytes
    uint64_t hundredths;
};

static struct figure make_figure(uint64_t bytes, enum ct_human_units units) {
    const uint64_t step = units == CT_UNITS_SI ? 1000 : 1024;
    struct figure f = {.unit = 1, .hundredths = bytes};
    if (units == CT_UNITS_BYTES || bytes < step)
        return f;
    while (f.power < 6 && bytes / f.unit >= step) {
        f.unit *= step;
        f.power++;
    }
    f.hundredths = round_quotient((wide)bytes * 100, f.unit);
    if (f.hundredths >= step * 100 && f.power < 6) { // rounded up to the next unit
        f.unit *= step;
        f.power++;
        f.hundredths = 100;
    }
    return f;
}

static struct ct_human_text format_figure(struct figure f, enum ct_human_units units) {
    static const char *const iec[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static const char *const si[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    const char *const *const names = units == CT_UNITS_SI ? si : iec;
    struct ct_human_text s;
    if (!f.power)
        FORMAT(s, "%" PRIu64 "%s", f.hundredths, units == CT_UNITS_BYTES ? "" : " B");
    else
        FORMAT(s, "%" PRIu64 ".%02u %s", f.hundredths / 100, (unsigned)(f.hundredths % 100),
               names[f.power - 1]);
    return s;
}

struct ct_human_text ct_human_bytes(uint64_t bytes, enum ct_human_units units) {
    return format_figure(make_figure(bytes, units), units);
}

// What a figure shows, in hundredths of a byte.
static wide shown_value(struct figure f) {
    return (wide)f.hundredths * f.unit * (f.power ? 1 : 100);
}

// Returns by how much a figure exceeds its part, in hundredths of a byte.
static __int128 rounding_error(struct figure f, uint64_t part) {
    return (__int128)shown_value(f) - (__int128)((wide)part * 100);
}

// Moves the figure with the total's unit that has the largest error in the direction `sign` back by
// one digit. Returns 0 if there is none.
static int move_one(struct figure *figures, const uint64_t *parts, size_t n, uint64_t unit,
                    int sign) {
    size_t best = n;
    __int128 most = 0;
    for (size_t i = 0; i < n; i++) {
        const __int128 error = sign * rounding_error(figures[i], parts[i]);
        if (figures[i].unit == unit && figures[i].power && error > most) {
            most = error;
            best = i;
        }
    }
    if (best == n)
        return 0;
    figures[best].hundredths -= (uint64_t)sign;
    return 1;
}

// Takes the excess of the parts over the total, in hundredths of a byte, out of the figures.
static void take_excess(struct figure *figures, const uint64_t *parts, size_t n, uint64_t unit,
                        __int128 excess, size_t residual) {
    const int sign = excess > 0 ? 1 : -1;
    uint64_t digits = (uint64_t)((wide)(sign * excess) / unit);
    if (residual >= n) {
        while (digits && move_one(figures, parts, n, unit, sign))
            digits--;
    } else if (figures[residual].unit == unit && figures[residual].hundredths > digits) {
        figures[residual].hundredths -= (uint64_t)sign * digits;
    }
}

void ct_human_bytes_of_parts(struct ct_human_text *to, const uint64_t *parts, size_t n,
                             uint64_t total, enum ct_human_units units, size_t residual) {
    const struct figure whole = make_figure(total, units);
    struct figure *figures = ct_heap_resize(NULL, n, sizeof *figures);
    __int128 excess = -(__int128)shown_value(whole);
    wide sum = 0;
    for (size_t i = 0; i < n; i++) {
        figures[i] = make_figure(parts[i], units);
        excess += (__int128)shown_value(figures[i]);
        sum += parts[i];
    }
    if (sum == total && whole.power)
        take_excess(figures, parts, n, whole.unit, excess, residual);
    for (size_t i = 0; i < n; i++)
        to[i] = format_figure(figures[i], units);
    free(figures);
}

// ---- shares -------------------------------------------------------------------------------------

static struct ct_human_text format_share(uint64_t tenths, uint64_t part, uint64_t whole) {
    struct ct_human_text s;
    if (tenths == 0 && part)
        FORMAT(s, "<0.1 %%");
    else if (tenths >= 1000 && part < whole)
        FORMAT(s, ">99.9 %%");
    else if (tenths == 1000 && part > whole)
        FORMAT(s, ">100.0 %%");
    else
        FORMAT(s, "%" PRIu64 ".%" PRIu64 " %%", tenths / 10, tenths % 10);
    return s;
}

struct ct_human_text ct_human_percent(uint64_t part, uint64_t whole) {
    struct ct_human_text s = {"-"};
    if (!whole)
        return s;
    return format_share(round_quotient((wide)part * 1000, whole), part, whole);
}

// Returns by how much a share in tenths of a percent exceeds its part, in 1/1000 of bytes.
static __int128 share_error(uint64_t tenths, uint64_t part, uint64_t whole) {
    return (__int128)((wide)tenths * whole) - (__int128)((wide)part * 1000);
}

// Returns the share that can best be moved by a tenth against the direction `sign`.
static size_t find_share(const uint64_t *tenths, const uint64_t *parts, size_t n, uint64_t whole,
                         int sign) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (sign * share_error(tenths[i], parts[i], whole) >
            sign * share_error(tenths[best], parts[best], whole))
            best = i;
    return best;
}

void ct_human_percent_of_parts(struct ct_human_text *to, const uint64_t *parts, size_t n,
                               uint64_t whole, size_t residual) {
    uint64_t *tenths = ct_heap_resize(NULL, n, sizeof *tenths);
    int64_t excess = -1000;
    wide sum = 0;
    for (size_t i = 0; i < n; i++) {
        tenths[i] = whole ? round_quotient((wide)parts[i] * 1000, whole) : 0;
        excess += (int64_t)tenths[i];
        sum += parts[i];
    }
    const int can_add_up = whole && sum == whole;
    if (can_add_up && residual < n && parts[residual] && (int64_t)tenths[residual] > excess) {
        tenths[residual] -= (uint64_t)excess;
        excess = 0;
    }
    while (can_add_up && excess) {
        const int sign = excess > 0 ? 1 : -1;
        tenths[find_share(tenths, parts, n, whole, sign)] -= (uint64_t)sign;
        excess -= sign;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = whole ? format_share(tenths[i], parts[i], whole) : (struct ct_human_text){"-"};
    free(tenths);
}

// ---- times --------------------------------------------------------------------------------------

// "1:02:03", from a day on "3d 05:49:47".
static struct ct_human_text format_clock(uint64_t seconds) {
    struct ct_human_text s;
    const uint64_t days = seconds / 86400, hours = seconds / 3600 % 24;
    const unsigned minutes = (unsigned)(seconds / 60 % 60);
    if (days)
        FORMAT(s, "%" PRIu64 "d %02u:%02u:%02u", days, (unsigned)hours, minutes,
               (unsigned)(seconds % 60));
    else
        FORMAT(s, "%u:%02u:%02u", (unsigned)hours, minutes, (unsigned)(seconds % 60));
    return s;
}

struct ct_human_text ct_human_seconds(uint64_t ns) {
    struct ct_human_text s;
    const uint64_t tenths = round_quotient(ns, 100000000);
    if (tenths >= 600)
        return format_clock(round_quotient(ns, 1000000000));
    FORMAT(s, "%" PRIu64 ".%" PRIu64 " s", tenths / 10, tenths % 10);
    return s;
}

struct ct_human_text ct_human_elapsed(uint64_t ns) {
    struct ct_human_text s;
    const uint64_t ms = round_quotient(ns, 1000000);
    if (ms < 60000)
        FORMAT(s, "+%" PRIu64 ".%03u s", ms / 1000, (unsigned)(ms % 1000));
    else if (ms < 86400000)
        FORMAT(s, "+%.30s.%03u", format_clock(ms / 1000).text, (unsigned)(ms % 1000));
    else
        FORMAT(s, "+%.30s", format_clock(round_quotient(ns, 1000000000)).text);
    return s;
}

struct ct_human_text ct_human_duration(uint64_t ns) {
    struct ct_human_text s;
    const uint64_t us = round_quotient(ns, 1000), ms = round_quotient(ns, 1000000);
    if (ns < 10000)
        FORMAT(s, "%" PRIu64 " ns", ns);
    else if (us < 10000)
        FORMAT(s, "%" PRIu64 " us", us);
    else if (ms < 1000)
        FORMAT(s, "%" PRIu64 " ms", ms);
    else
        return ct_human_seconds(ns);
    return s;
}

static struct ct_human_text format_utc(uint64_t utc_ns, const char *format) {
    struct ct_human_text s = {"-"};
    const time_t t = (time_t)(utc_ns / 1000000000);
    struct tm tm;
    if (gmtime_r(&t, &tm)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        strftime(s.text, sizeof s.text, format, &tm);
#pragma GCC diagnostic pop
    }
    return s;
}

struct ct_human_text ct_human_time_of_day(uint64_t utc_ns) {
    return format_utc(utc_ns, "%H:%M:%SZ");
}

struct ct_human_text ct_human_date_and_time(uint64_t utc_ns) {
    return format_utc(utc_ns, "%Y-%m-%dT%H:%M:%SZ");
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

struct ct_human_text ct_human_counted(uint64_t n, const char *noun) {
    return ct_human_format("%s %s%s", ct_human_count(n).text, noun, ct_human_plural(n));
}

struct ct_human_text ct_human_format(const char *format, ...) {
    struct ct_human_text t;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(t.text, sizeof t.text, format, list);
    va_end(list);
    return t;
}
