// SPDX-License-Identifier: Apache-2.0
// What a suite in C is besides its tests: cmocka's headers, the list of the tests, in the order in
// which they are written, and main.
//
//   TEST(what_it_proves) {
//       assert_int_equal(f(), 0);
//   }
//
// BEFORE_EACH and AFTER_EACH { ... return 0; } run around each test, BEFORE_ALL and AFTER_ALL
// around all of them, wherever they stand in the file.
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct {
    struct CMUnitTest tests[64];
    size_t count;
    CMFixtureFunction before_each, after_each, before_all, after_all;
} suite;

#define TEST(test)                                                                          \
    static void test(void **state);                                                         \
    __attribute__((constructor)) static void add_##test(void) {                             \
        if (suite.count == sizeof suite.tests / sizeof *suite.tests)                        \
            abort();                                                                        \
        suite.tests[suite.count++] = (struct CMUnitTest){.name = #test, .test_func = test}; \
    }                                                                                       \
    static void test(void **state __attribute__((unused)))

#define SUITE_FIXTURE(when)                                     \
    static int when(void **state);                              \
    __attribute__((constructor)) static void add_##when(void) { \
        suite.when = when;                                      \
    }                                                           \
    static int when(void **state __attribute__((unused)))
#define BEFORE_EACH SUITE_FIXTURE(before_each)
#define AFTER_EACH SUITE_FIXTURE(after_each)
#define BEFORE_ALL SUITE_FIXTURE(before_all)
#define AFTER_ALL SUITE_FIXTURE(after_all)

int main(void) {
    for (size_t i = 0; i < suite.count; i++) {
        suite.tests[i].setup_func = suite.before_each;
        suite.tests[i].teardown_func = suite.after_each;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("tests", suite.tests, suite.count, suite.before_all,
                                   suite.after_all);
}

#endif
