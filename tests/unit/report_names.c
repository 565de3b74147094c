// SPDX-License-Identifier: Apache-2.0
// Frames that come first without and then with their symbols, generations of ids, labels and demangling.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/demangle.h"
#include "report/sites.h"

static struct ct_names names;
static uint8_t buffer[4096];
static struct ct_out out;

static int set_up(void **state) {
    (void)state;
    ct_names_init(&names);
    ct_names_generation(&names, 0);
    out = (struct ct_out){buffer, buffer + sizeof buffer, 0};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ct_names_free(&names);
    return 0;
}

static int take(unsigned kind) {
    const struct ct_in in = {buffer, out.at, 0};
    out.at = buffer;
    return ct_names_section(&names, kind, in);
}

static void put_entry(uint64_t id, const void *payload, size_t n) {
    ct_put_varint(&out, id);
    ct_put_text(&out, payload, n);
}

static void put_numbers(uint64_t id, const uint64_t *values, size_t n) {
    uint8_t payload[200];
    struct ct_out p = {payload, payload + sizeof payload, 0};
    for (size_t i = 0; i < n; i++)
        ct_put_varint(&p, values[i]);
    put_entry(id, payload, (size_t)(p.at - payload));
}

#define NUMBERS(id, ...)                             \
    put_numbers(id, (const uint64_t[]){__VA_ARGS__}, \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void define_string(uint64_t id, const char *text) {
    put_entry(id, text, strlen(text));
    assert_int_equal(take(CT_SECTION_STRINGS), 0);
}

static void symbols_come_later(void **state) {
    (void)state;
    NUMBERS(7, 0, 0x1234, 0, 0, 0, 0); // a frame of which only the pc is known
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    NUMBERS(1, 1, 14);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    const uint32_t stack = ct_names_id(&names, CT_SECTION_STACKS, 1);
    define_string(1, "_ZN3foo3barEv");
    NUMBERS(7, 0, 0x1234, 0, 0x34, 1, 4);
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    const struct ct_frame *f = ct_stack_frame(&names, stack, 0);
    assert_int_equal(names.strings[f->function].length, 13);
    // Read again from the beginning, as the second pass does: same ids, nothing forgotten.
    ct_names_generation(&names, 1);
    ct_names_generation(&names, 0);
    NUMBERS(7, 0, 0x1234, 0, 0, 0, 0);
    assert_int_equal(take(CT_SECTION_FRAMES), 0);
    NUMBERS(1, 1, 14);
    assert_int_equal(take(CT_SECTION_STACKS), 0);
    assert_int_equal(ct_names_id(&names, CT_SECTION_STACKS, 1), stack);
    assert_int_not_equal(ct_stack_frame(&names, stack, 0)->function, 0);
}

static void generations(void **state) {
    (void)state;
    define_string(1, "one");
    const uint32_t one = ct_names_id(&names, CT_SECTION_STRINGS, 1);
    ct_names_generation(&names, 5);
    assert_int_equal(ct_names_id(&names, CT_SECTION_STRINGS, 1), 0);
    define_string(1, "two");
    define_string(2, "one");
    assert_int_equal(ct_names_id(&names, CT_SECTION_STRINGS, 2), one);
    assert_int_not_equal(ct_names_id(&names, CT_SECTION_STRINGS, 1), one);
}

static void malformed(void **state) {
    (void)state;
    NUMBERS(1, 513);
    assert_int_equal(take(CT_SECTION_STACKS), -1);
    ct_put_varint(&out, 1);
    ct_put_varint(&out, 100); // longer than the section
    assert_int_equal(take(CT_SECTION_STRINGS), -1);
    NUMBERS(1, 0, 5);
    assert_int_equal(take(CT_SECTION_FRAMES), -1);
}

static void facts(void **state) {
    (void)state;
    uint64_t v = 0;
    for (int i = 0; i < 2; i++) {
        ct_put_text(&out, "process.pid", 11);
        ct_put_text(&out, i ? "4712" : "11", i ? 4 : 2);
    }
    ct_put_text(&out, "word", 4);
    ct_put_text(&out, "12x", 3);
    assert_int_equal(take(CT_SECTION_INFO), 0);
    assert_int_equal(ct_names_number(&names, "process.pid", &v), 1);
    assert_int_equal(v, 4712);
    assert_int_equal(ct_names_number(&names, "word", &v), 0);
    assert_null(ct_names_fact(&names, "nothing"));
}

static void label(const char *symbol, const char *want) {
    struct ct_sites sites;
    char text[400];
    define_string(1, symbol);
    ct_sites_init(&sites, &names);
    const struct ct_frame f = {.pc = 1, .function = ct_names_id(&names, CT_SECTION_STRINGS, 1)};
    ct_frame_label(&sites, &f, text, sizeof text);
    assert_string_equal(text, want);
    ct_sites_free(&sites);
}

static void labels(void **state) {
    (void)state;
    char text[100];
    if (!ct_demangle("_Z1fv", 5, text, sizeof text)) {
        print_message("no demangler on this machine\n");
        skip();
    }
    assert_string_equal(text, "f()");
    assert_int_equal(ct_demangle("_Z1fv", 5, text, 3), 2); // cut, not overrun
    assert_int_equal(ct_demangle("main", 4, text, sizeof text), 0);
    label("plain_c", "plain_c (?)");
    label("_ZN2at5emptyEN3c108ArrayRefIlEE", "at::empty (?)");
    label("_ZN2at6native5emptyIfLi3EEEvRKNS_6TensorE", "at::native::empty<..> (?)");
    label("_ZN1AclEv", "A::operator() (?)");
    label("_ZN1AltERKS_", "A::operator< (?)");
    label("_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work (?)");
    label("_ZNSt6vectorIiSaIiEEixEm", "std::vector<..>::operator[] (?)");
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(symbols_come_later), TEST(generations), TEST(malformed), TEST(facts), TEST(labels),
    };
    return cmocka_run_group_tests_name("report_names", tests, NULL, NULL);
}
