// SPDX-License-Identifier: Apache-2.0
// Sizes and times as people type them, and the word that was meant.
#include <string.h>

#include "../lib/unit.h"
#include "base/command_line.h"
#include "base/human.h"
#include "base/parse.h"

#define GIB (UINT64_C(1) << 30)
#define SECOND UINT64_C(1000000000)

TEST(sizes) {
    static const struct {
        const char *text;
        uint64_t bytes;
        int decimal;
    } good[] = {{"24GiB", 24 * GIB, 0},
                {"24G", 24 * GIB, 0},
                {"24Gi", 24 * GIB, 0},
                {"24GB", UINT64_C(24000000000), 1},
                {"24 gb", UINT64_C(24000000000), 1},
                {"1.5K", 1536, 0},
                {"1.5kB", 1500, 1},
                {"0.5 GiB", GIB / 2, 0},
                {"100B", 100, 0},
                {"0b", 0, 0},
                {"2MB", 2000000, 1},
                {"3tb", UINT64_C(3000000000000), 1},
                {"16383P", UINT64_C(16383) << 50, 0}};
    static const char *const bad[] = {"",
                                      "G",
                                      "-1",
                                      "1x",
                                      "1GiBs",
                                      "1 2",
                                      "0x10",
                                      "1e9",
                                      ".",
                                      "16384P",
                                      "18446744073709551616",
                                      "99999999999999999999999",
                                      "1GBi",
                                      "1iB"};
    static const char *const bare[] = {"24", "0", "1.5", "18446744073709551615", "24 "};
    struct ct_parsed_size v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(ct_parse_size(good[i].text, &v), CT_PARSE_OK);
        assert_int_equal(v.bytes, good[i].bytes);
        assert_int_equal(v.decimal, good[i].decimal);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ct_parse_size(bad[i], &v), CT_PARSE_WRONG);
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        assert_int_equal(ct_parse_size(bare[i], &v), CT_PARSE_NO_UNIT);
}

TEST(times) {
    static const struct {
        const char *text;
        enum ct_time_kind kind;
        uint64_t ns;
        int64_t shift_ns;
    } good[] = {{"0", CT_TIME_ELAPSED, 0, 0},
                {"90", CT_TIME_ELAPSED, 90 * SECOND, 0},
                {"4.05", CT_TIME_ELAPSED, UINT64_C(4050000000), 0},
                {"4.05s", CT_TIME_ELAPSED, UINT64_C(4050000000), 0},
                {"+4.050 s", CT_TIME_ELAPSED, UINT64_C(4050000000), 0},
                {"+312.4", CT_TIME_ELAPSED, UINT64_C(312400000000), 0},
                {"200ms", CT_TIME_ELAPSED, SECOND / 5, 0},
                {"5min", CT_TIME_ELAPSED, 300 * SECOND, 0},
                {"90m", CT_TIME_ELAPSED, 5400 * SECOND, 0},
                {"1h30m", CT_TIME_ELAPSED, 5400 * SECOND, 0},
                {"1d", CT_TIME_ELAPSED, 86400 * SECOND, 0},
                {"7us", CT_TIME_ELAPSED, 7000, 0},
                {"0.000000001", CT_TIME_ELAPSED, 1, 0},
                {"02:05", CT_TIME_ELAPSED, 125 * SECOND, 0},
                {"1:02:03", CT_TIME_ELAPSED, 3723 * SECOND, 0},
                {"+1:02:03.123", CT_TIME_ELAPSED, UINT64_C(3723123000000), 0},
                {"3d05:49:47", CT_TIME_ELAPSED, 280187 * SECOND, 0},
                {"+3d 05:49:47", CT_TIME_ELAPSED, 280187 * SECOND, 0},
                {"100:00:00", CT_TIME_ELAPSED, 360000 * SECOND, 0},
                {"16:56:17Z", CT_TIME_OF_DAY, 60977 * SECOND, 0},
                {"00:00:00.5Z", CT_TIME_OF_DAY, SECOND / 2, 0},
                {"2026-11-22T12:52:17Z", CT_TIME_UTC, UINT64_C(1795351937) * SECOND, 0},
                {"2026-11-22 12:52:17.25Z", CT_TIME_UTC, UINT64_C(1795351937250000000), 0},
                {"oom", CT_TIME_OF_CROSSING, 0, 0},
                {"peak", CT_TIME_OF_PEAK, 0, 0},
                {"oom-60s", CT_TIME_OF_CROSSING, 0, -60 * (int64_t)SECOND},
                {"peak+1h30m", CT_TIME_OF_PEAK, 0, 5400 * (int64_t)SECOND},
                {"#1822+0.5", CT_TIME_OF_EVENT, 1822, SECOND / 2},
                {"oom+0s", CT_TIME_OF_CROSSING, 0, 0},
                {"#0", CT_TIME_OF_EVENT, 0, 0},
                {"#1822", CT_TIME_OF_EVENT, 1822, 0},
                {"event:9999999999999999999", CT_TIME_OF_EVENT, UINT64_C(9999999999999999999), 0}};
    static const char *const bad[] = {"",
                                      "s",
                                      "-1",
                                      "1x",
                                      "1s ",
                                      "1h-2m",
                                      "later",
                                      "1:60",
                                      "1:02:60",
                                      "1:2:3:4",
                                      ":1",
                                      "1:",
                                      "3d25:00:00",
                                      "3d05:49",
                                      "24:00:00Z",
                                      "16:56Z",
                                      "Z",
                                      "1.5:02",
                                      "1:02x",
                                      "2026-11-22T12:52:17",
                                      "2026-02-30T00:00:00Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-11-22Z",
                                      "2026-11-22T24:00:00Z",
                                      "1969-01-01T00:00:00Z",
                                      "999999999999d",
                                      "oom ",
                                      "oom-",
                                      "oom-1x",
                                      "oom--1s",
                                      "peak+-1s",
                                      "oom-200000d", // (more than 2^63 ns)
                                      "4s-1s",
                                      "16:56:17Z-1s",
                                      "#",
                                      "event:",
                                      "event:1s",
                                      "#-1",
                                      "#10000000000000000000",
                                      "events:1",
                                      "99999999999999999999:00"};
    struct ct_time t;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(ct_parse_time(good[i].text, &t), 0);
        assert_int_equal(t.kind, good[i].kind);
        assert_int_equal(t.ns, good[i].ns);
        assert_int_equal(t.shift_ns, good[i].shift_ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ct_parse_time(bad[i], &t), -1);
}

// What is printed is read back, to the last digit that is printed.
TEST(printed_times) {
    struct ct_time t;
    for (uint64_t ns = 1; ns < UINT64_C(1) << 62; ns = ns * 3 + 777) {
        const uint64_t digit = ns >= 86399 * SECOND ? SECOND : 1000000;
        assert_int_equal(ct_parse_time(ct_human_elapsed(ns).text, &t), 0);
        assert_true(t.ns + digit / 2 >= ns && ns + digit / 2 >= t.ns);
        assert_int_equal(ct_parse_time(ct_human_date_and_time(ns).text, &t), 0);
        assert_int_equal(t.ns, ns / SECOND * SECOND);
        assert_int_equal(ct_parse_time(ct_human_time_of_day(ns).text, &t), 0);
        assert_int_equal(t.ns, ns / SECOND % 86400 * SECOND);
    }
}

static const char *nearest(const char *typed) {
    static const char *const words[] = {"summary", "top", "timeline", "frag", "oom"};
    struct ct_nearest n = {.typed = typed, .length = strlen(typed)};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ct_nearest_try(&n, words[i]);
    return n.best;
}

TEST(mistyped_words) {
    assert_string_equal(nearest("timelime"), "timeline");
    assert_string_equal(nearest("timelne"), "timeline");
    assert_string_equal(nearest("sumary"), "summary");
    assert_string_equal(nearest("sumamry"), "summary");
    assert_string_equal(nearest("tpo"), "top");
    assert_string_equal(nearest("farg"), "frag");
    assert_null(nearest("trace"));
    assert_null(nearest("xyz")); // three of three letters
    assert_null(nearest("t"));
    assert_null(nearest(""));
    assert_null(nearest("a word that is longer than any that there is"));
}
