// SPDX-License-Identifier: Apache-2.0
// Sizes and times as text and back, and strings without what a terminal must not receive.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/human.h"
#include "base/utf8.h"

#define GIB (UINT64_C(1) << 30)

static void sizes(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        enum ct_human_units units;
        const char *text;
    } rows[] = {
        {0, CT_UNITS_IEC, "0 B"},
        {1023, CT_UNITS_IEC, "1023 B"},
        {1024, CT_UNITS_IEC, "1.00 KiB"},
        {1536, CT_UNITS_IEC, "1.50 KiB"},
        {GIB - 1, CT_UNITS_IEC, "1023.99 MiB"},
        {GIB, CT_UNITS_IEC, "1.00 GiB"},
        {UINT64_MAX, CT_UNITS_IEC, "15.99 EiB"},
        {1000, CT_UNITS_SI, "1.00 kB"},
        {UINT64_C(79999999999), CT_UNITS_SI, "79.99 GB"},
        {UINT64_MAX, CT_UNITS_SI, "18.44 EB"},
        {GIB, CT_UNITS_BYTES, "1073741824"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(ct_human_bytes(rows[i].bytes, rows[i].units).text, rows[i].text);
}

static void parsed_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"1", 1},
                {"24GiB", 24 * GIB},
                {"24G", 24 * GIB},
                {"24gb", 24 * GIB},
                {"1.5K", 1536},
                {"0.5 GiB", GIB / 2},
                {"100B", 100},
                {"18446744073709551615", UINT64_MAX},
                {"16383P", UINT64_C(16383) << 50}};
    static const char *const bad[] = {"",       "G",
                                      "-1",     "1x",
                                      "1GiBs",  "1 2",
                                      "0x10",   "1e9",
                                      ".",      "18446744073709551616",
                                      "16384P", "99999999999999999999999"};
    uint64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(ct_human_parse_bytes(good[i].text, &v), 0);
        assert_int_equal(v, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ct_human_parse_bytes(bad[i], &v), -1);
}

static void parsed_durations(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"0", 0},
                {"90", UINT64_C(90000000000)},
                {"+312.4", UINT64_C(312400000000)},
                {"90s", UINT64_C(90000000000)},
                {"1.5s", 1500000000},
                {"200ms", 200000000},
                {"5min", UINT64_C(300000000000)},
                {"5m", UINT64_C(300000000000)},
                {"1h30m", UINT64_C(5400000000000)},
                {"1d", UINT64_C(86400000000000)},
                {"7us", 7000},
                {"7ns", 7},
                {"0.000000001", 1}};
    static const char *const bad[] = {"", "s", "-1", "1x", "1s ", "999999999999d", "1h-2m", "1 s"};
    uint64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(ct_human_parse_duration(good[i].text, &v), 0);
        assert_int_equal(v, good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ct_human_parse_duration(bad[i], &v), -1);
}

static void times_and_counts(void **state) {
    (void)state;
    assert_string_equal(ct_human_elapsed(UINT64_C(312400500000)).text, "+312.400 s");
    assert_string_equal(ct_human_seconds(UINT64_C(59950000000)).text, "59.9 s");
    assert_string_equal(ct_human_seconds(UINT64_C(7500000000000)).text, "2 h 05 min");
    assert_string_equal(ct_human_seconds(UINT64_C(200000000000000)).text, "2 d 7 h");
    assert_string_equal(ct_human_duration(9999).text, "9999 ns");
    assert_string_equal(ct_human_duration(12345678).text, "12 ms");
    assert_string_equal(ct_human_duration(4000000000).text, "4.0 s");
    assert_string_equal(ct_human_utc(UINT64_C(1700000000999999999)).text,
                        "2023-11-14 22:13:20 UTC");
    assert_string_equal(ct_human_count(999).text, "999");
    assert_string_equal(ct_human_count(1234).text, "1234");
    assert_string_equal(ct_human_count(12345).text, "12 345");
    assert_string_equal(ct_human_count(UINT64_MAX).text, "18 446 744 073 709 551 615");
    assert_string_equal(ct_human_percent(1, 3).text, "33.3 %");
    assert_string_equal(ct_human_percent(1, 0).text, "-");
    assert_string_equal(ct_human_percent(UINT64_MAX, UINT64_MAX).text, "100.0 %");
}

static void cleaned(const char *from, size_t n, const char *want) {
    char to[64];
    const size_t length = ct_utf8_sanitize(to, sizeof to, from, n);
    assert_int_equal(length, strlen(want));
    assert_string_equal(to, want);
}

static void cleaning(void **state) {
    (void)state;
    char small[4];
    cleaned("plain", 5, "plain");
    cleaned("\x1b[31mred\x1b[0m", 12, "?[31mred?[0m");
    cleaned("a\0b", 3, "a?b");
    cleaned("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
    cleaned("\xc2\x9b", 2, "?");            // C1 control, as UTF-8
    cleaned("\x9b", 1, "?");                // and as a byte
    cleaned("\xc0\xaf", 2, "??");           // overlong
    cleaned("\xed\xa0\x80", 3, "???");      // surrogate
    cleaned("\xf4\x90\x80\x80", 4, "????"); // above U+10FFFF
    cleaned("\xe2\x82", 2, "??");           // cut
    cleaned("\xe2\x80\xae"
            "abc",
            6, "?abc"); // right-to-left override
    cleaned("\xe2\x81\xa6"
            "abc",
            6, "?abc");              // isolate
    cleaned("\xef\xbb\xbf", 3, "?"); // byte order mark
    // Never more than fits, and no part of a character.
    assert_int_equal(ct_utf8_sanitize(small, sizeof small, "ab\xe2\x82\xac", 5), 2);
    assert_string_equal(small, "ab");
    assert_int_equal(ct_utf8_columns("a\xc3\xbc\xe2\x82\xac"), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(parsed_sizes),
        cmocka_unit_test(parsed_durations),
        cmocka_unit_test(times_and_counts),
        cmocka_unit_test(cleaning),
    };
    return cmocka_run_group_tests_name("report_human", tests, NULL, NULL);
}
