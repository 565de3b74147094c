// SPDX-License-Identifier: Apache-2.0
// Formatting without stdio: against the C library's snprintf.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/unit.h"
#include "base/print.h"
#include "store/name_table.h"

#define SAME(...)                                                   \
    do {                                                            \
        char ours[128], theirs[128];                                \
        const size_t n = ct_print(ours, sizeof ours, __VA_ARGS__);  \
        const int m = snprintf(theirs, sizeof theirs, __VA_ARGS__); \
        assert_string_equal(ours, theirs);                          \
        assert_int_equal(n, m);                                     \
    } while (0)

TEST(like_snprintf) {
    SAME("plain %% %s|%10s|%-10s|%.3s|%.*s", "text", "right", "left", "cut off", 2, "cut");
    SAME("%d %i %u %x %c", -5, 0, 4294967295u, 0xdeadbeefu, 'x');
    SAME("%ld %lu %lx %zu", INT64_MIN, UINT64_MAX, UINT64_MAX, (size_t)7);
    SAME("%08x|%8d|%-8d|%08d|%016lx", 0xabcu, -12, -12, -12, UINT64_C(0x123));
    SAME("%.2f %.1f %.0f %f %8.3f", 79.15, 0.449, 2.6, 3.25, -1.5);
    SAME("%.2f %.2f %.2f", 0.0449, 0.07, 1023.999);
    for (int i = 0; i < 20000; i++) {
        const double v = (double)rand() / 1000.0 + 0.0001;
        SAME("%.2f", v);
    }
}

TEST(is_cut_at_the_end) {
    char small[8];
    memset(small, 'x', sizeof small);
    assert_int_equal(ct_print(small, 5, "%s", "longer than that"), 4);
    assert_memory_equal(small, "long\0xxx", 8);
    assert_int_equal(ct_print(small, 1, "%d", 12345), 0);
}

TEST(names_are_numbers) {
    static char many[CT_NAME_MAX_LITERALS * 2][4];
    const char *one = "one";
    const uint32_t id = ct_name_intern(one);
    assert_int_not_equal(id, 0);
    assert_int_equal(ct_name_intern(one), id);
    assert_int_equal(ct_name_intern(NULL), 0);
    assert_string_equal(ct_name_get_text(id), "one");
    assert_null(ct_name_get_text(0));
    assert_null(ct_name_get_text(UINT32_MAX));
    unsigned full = 0;
    for (size_t i = 0; i < CT_NAME_MAX_LITERALS * 2; i++) {
        const uint32_t some = ct_name_intern(many[i]);
        full += some == 0;
        if (some)
            assert_ptr_equal(ct_name_get_text(some), many[i]);
    }
    assert_true(full >= CT_NAME_MAX_LITERALS); // bounded, and it says so
    assert_int_equal(ct_name_intern(one), id);
}

TEST(texts_are_copied) {
    char text[300];
    memset(text, 'a', sizeof text);
    text[299] = 0;
    const uint32_t id = ct_name_intern_format("%s %d", "note", 5),
                   cut = ct_name_intern_format("%s", text);
    assert_string_equal(ct_name_get_text(id), "note 5");
    assert_int_equal(strlen(ct_name_get_text(cut)), 200);
    uint32_t last = 1;
    for (unsigned i = 0; i < CT_NAME_MAX_TEXTS + 10; i++)
        last = ct_name_intern_format("%u", i);
    assert_int_equal(last, 0);
    assert_string_equal(ct_name_get_text(id), "note 5");
}
