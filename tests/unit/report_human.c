// SPDX-License-Identifier: Apache-2.0
// Sizes, shares and times as text, and strings without what a terminal must not receive.
#include <stdio.h>
#include <string.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "base/human.h"
#include "base/utf8.h"

#define GIB (UINT64_C(1) << 30)

TEST(sizes) {
    static const struct {
        uint64_t bytes;
        enum ct_human_units units;
        const char *text;
    } rows[] = {
        {0, CT_UNITS_IEC, "0 B"},
        {1023, CT_UNITS_IEC, "1023 B"},
        {1024, CT_UNITS_IEC, "1.00 KiB"},
        {1536, CT_UNITS_IEC, "1.50 KiB"},
        {GIB - 1, CT_UNITS_IEC, "1.00 GiB"}, // (1024.00 MiB)
        {GIB, CT_UNITS_IEC, "1.00 GiB"},
        {8585216, CT_UNITS_IEC, "8.19 MiB"},     // 8.1875
        {643683451, CT_UNITS_IEC, "613.86 MiB"}, // 613.8644
        {UINT64_MAX, CT_UNITS_IEC, "16.00 EiB"},
        {1000, CT_UNITS_SI, "1.00 kB"},
        {UINT64_C(79999999999), CT_UNITS_SI, "80.00 GB"},
        {UINT64_MAX, CT_UNITS_SI, "18.45 EB"},
        {GIB, CT_UNITS_BYTES, "1073741824"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(ct_human_bytes(rows[i].bytes, rows[i].units).text, rows[i].text);
}

// A line of a table: its total and parts, and what of them is shown.
static void parts(const char *total, const uint64_t *bytes, size_t n, uint64_t whole,
                  size_t residual, const char *shown) {
    struct ct_human_text text[8];
    char line[400] = "";
    ct_human_bytes_of_parts(text, bytes, n, whole, CT_UNITS_IEC, residual);
    for (size_t i = 0; i < n; i++)
        (void)snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s", i ? ", " : "",
                       text[i].text);
    assert_string_equal(ct_human_bytes(whole, CT_UNITS_IEC).text, total);
    assert_string_equal(line, shown);
}

TEST(shown_parts) {
    const uint64_t mib = UINT64_C(1) << 20;
    // The request of 24 MiB on a full H100: 15.8125 more than the 8.1875 that was free.
    parts("24.00 MiB", (const uint64_t[]){253 * mib / 16, 131 * mib / 16}, 2, 24 * mib, 0,
          "15.81 MiB, 8.19 MiB");
    // Thirds: in a smaller unit than the total; the largest takes the missing digit; the last.
    parts("1.00 GiB", (const uint64_t[]){GIB / 3, GIB / 3, GIB / 3 + 1}, 3, GIB, 3,
          "341.33 MiB, 341.33 MiB, 341.33 MiB");
    parts("10.00 MiB", (const uint64_t[]){10 * mib / 3, 10 * mib / 3 + 1, 10 * mib / 3}, 3,
          10 * mib, 3, "3.33 MiB, 3.34 MiB, 3.33 MiB");
    parts("10.00 MiB", (const uint64_t[]){10 * mib / 3, 10 * mib / 3 + 1, 10 * mib / 3}, 3,
          10 * mib, 2, "3.33 MiB, 3.33 MiB, 3.34 MiB");
    const uint64_t up = 1054867; // 1.006 MiB, so that three of them are rounded up once too often
    parts("3.02 MiB", (const uint64_t[]){up, up, up}, 3, 3 * up, 3, "1.00 MiB, 1.01 MiB, 1.01 MiB");
    // Parts that do not add up, parts of nothing, bytes.
    parts("2.00 MiB", (const uint64_t[]){up, up}, 2, 2 * mib, 2, "1.01 MiB, 1.01 MiB");
    parts("0 B", (const uint64_t[]){0, 0}, 2, 0, 2, "0 B, 0 B");
    parts("1000 B", (const uint64_t[]){1, 999}, 2, 1000, 0, "1 B, 999 B");
}

// Whatever the parts are, what is shown of them adds up in hundredths of the total's unit, and no
// part is shown more than one digit away from its value.
TEST(parts_add_up) {
    chance = 1 + test_seed();
    for (int round = 0; round < 20000; round++) {
        uint64_t bytes[8], whole = 0, sum = 0;
        const size_t n = 2 + (size_t)(round % 7);
        struct ct_human_text text[8];
        for (size_t i = 0; i < n; i++) {
            bytes[i] = GIB + draw(GIB) * 7; // 1 to 8 GiB: all with the total's unit
            whole += bytes[i];
        }
        ct_human_bytes_of_parts(text, bytes, n, whole, CT_UNITS_IEC, n);
        for (size_t i = 0; i < n; i++) {
            unsigned long gib, hundredths;
            assert_int_equal(sscanf(text[i].text, "%lu.%lu GiB", &gib, &hundredths), 2);
            const double error = (double)(gib * 100 + hundredths) - (double)bytes[i] * 100 / GIB;
            assert_true(error > -1 && error < 1);
            sum += gib * 100 + hundredths;
        }
        unsigned long gib, hundredths;
        assert_int_equal(
            sscanf(ct_human_bytes(whole, CT_UNITS_IEC).text, "%lu.%lu GiB", &gib, &hundredths), 2);
        assert_int_equal(sum, gib * 100 + hundredths);
    }
}

TEST(shares) {
    static const struct {
        uint64_t part, whole;
        const char *text;
    } rows[] = {{757, 100000, "0.8 %"},
                {1, 3, "33.3 %"},
                {2, 3, "66.7 %"},
                {1, 0, "-"},
                {0, 5, "0.0 %"},
                {1, 1000000, "<0.1 %"},
                {1, 2000, "0.1 %"},
                {4999, 10000000, "<0.1 %"},
                {9999, 10000, ">99.9 %"},
                {9995, 10000, ">99.9 %"},
                {9994, 10000, "99.9 %"},
                {7, 7, "100.0 %"},
                {10001, 10000, ">100.0 %"},
                {3256, 1000, "325.6 %"},
                {UINT64_MAX, UINT64_MAX, "100.0 %"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(ct_human_percent(rows[i].part, rows[i].whole).text, rows[i].text);
    struct ct_human_text text[4];
    ct_human_percent_of_parts(text, (const uint64_t[]){1, 1, 1}, 3, 3, 3);
    assert_string_equal(text[0].text, "33.4 %");
    assert_string_equal(text[1].text, "33.3 %");
    ct_human_percent_of_parts(text, (const uint64_t[]){1, 1, 1}, 3, 3, 2);
    assert_string_equal(text[0].text, "33.3 %");
    assert_string_equal(text[2].text, "33.4 %");
    ct_human_percent_of_parts(text, (const uint64_t[]){99990, 10, 0}, 3, 100000, 1);
    assert_string_equal(text[0].text, ">99.9 %");
    assert_string_equal(text[1].text, "<0.1 %");
    assert_string_equal(text[2].text, "0.0 %");
}

TEST(times_and_counts) {
    static const struct {
        uint64_t ns;
        const char *text;
    } elapsed[] = {{UINT64_C(4160500000), "+4.161 s"},
                   {UINT64_C(59999499999), "+59.999 s"},
                   {UINT64_C(59999500000), "+0:01:00.000"},
                   {UINT64_C(312400500000), "+0:05:12.401"},
                   {UINT64_C(86399999000000), "+23:59:59.999"},
                   {UINT64_C(280187500000000), "+3d 05:49:48"}},
      seconds[] = {{UINT64_C(59949999999), "59.9 s"},
                   {UINT64_C(59950000000), "0:01:00"},
                   {UINT64_C(7500000000000), "2:05:00"},
                   {UINT64_C(200000000000000), "2d 07:33:20"}},
      durations[] = {{9999, "9999 ns"},   {10499, "10 us"},     {10500, "11 us"},
                     {12345678, "12 ms"}, {999500000, "1.0 s"}, {4000000000, "4.0 s"}};
    for (size_t i = 0; i < sizeof elapsed / sizeof *elapsed; i++)
        assert_string_equal(ct_human_elapsed(elapsed[i].ns).text, elapsed[i].text);
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
        assert_string_equal(ct_human_seconds(seconds[i].ns).text, seconds[i].text);
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++)
        assert_string_equal(ct_human_duration(durations[i].ns).text, durations[i].text);
    const uint64_t utc = UINT64_C(1700000000999999999);
    assert_string_equal(ct_human_time_of_day(utc).text, "22:13:20Z");
    assert_string_equal(ct_human_date_and_time(utc).text, "2023-11-14T22:13:20Z");
    assert_string_equal(ct_human_count(999).text, "999");
    assert_string_equal(ct_human_count(1234).text, "1234");
    assert_string_equal(ct_human_count(12345).text, "12 345");
    assert_string_equal(ct_human_count(UINT64_MAX).text, "18 446 744 073 709 551 615");
    assert_string_equal(ct_human_counted(1, "free block").text, "1 free block");
    assert_string_equal(ct_human_counted(12345, "free block").text, "12 345 free blocks");
    assert_string_equal(ct_human_counted(0, "event").text, "0 events");
}

static void cleaned(const char *from, size_t n, const char *want) {
    char to[64];
    const size_t length = ct_utf8_sanitize(to, sizeof to, from, n);
    assert_int_equal(length, strlen(want));
    assert_string_equal(to, want);
}

TEST(cleaning) {
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
