// SPDX-License-Identifier: Apache-2.0
// The environment's options, and file names from patterns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/unit.h"
#include "base/options.h"
#include "base/process_id.h"
#include "store/file_pattern.h"

static char said[16384];

static void say(const char *line) {
    assert_true(strlen(said) + strlen(line) < sizeof said);
    strcat(said, line);
}

static int read_options(const char *a, const char *b) {
    static char home[] = "HOME=/x", bare[] = "CUTRACE";
    char *environment[] = {home, bare, (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
    said[0] = 0;
    return ct_options_read(environment, say);
}

TEST(defaults) {
    assert_int_equal(read_options(NULL, NULL), 1);
    assert_string_equal(said, "");
    assert_string_equal(CT_OPTION_TEXT(OUTPUT), "cutrace.%e.%p.zst");
    assert_int_equal(CT_OPTION_NUMBER(SAMPLE_MS), 100000000);
    assert_int_equal(CT_OPTION_NUMBER(STACK_MEMORY), 32 << 20);
    assert_int_equal(CT_OPTION_NUMBER(STACKS), CT_STACKS_OF_BOTH);
    assert_int_equal(CT_OPTION_NUMBER(STACK_DEPTH), 1024);
    assert_int_equal(CT_OPTION_NUMBER(ARGV), CT_ARGV_OF_FLAGS);
    for (int i = 0; i < CT_OPTIONS; i++)
        assert_false(ct_options[i].given);
}

TEST(values) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"65536", 65536},    {"64K", 65536},   {"64k", 65536},  {"1M", 1 << 20},
                 {"1MiB", 1 << 20},   {"2mb", 2000000}, {"1G", 1 << 30}, {"1gib", 1 << 30},
                 {"1GB", 1000000000}, {"70000B", 70000}};
    char line[100];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(line, sizeof line, "CUTRACE_STACK_MEMORY=%s", sizes[i].text);
        assert_int_equal(read_options(line, NULL), 1);
        assert_string_equal(said, "");
        assert_int_equal(CT_OPTION_NUMBER(STACK_MEMORY), sizes[i].bytes);
    }
    read_options("CUTRACE_STACKS=OFF", "CUTRACE_FREE_STACKS=yes");
    assert_int_equal(CT_OPTION_NUMBER(STACKS), CT_STACKS_OF_OFF);
    assert_int_equal(CT_OPTION_NUMBER(FREE_STACKS), 1);
    assert_true(ct_options[CT_OPTION_STACKS].given);
}

TEST(values_are_copied) {
    char line[] = "CUTRACE_OUTPUT=/somewhere/x";
    read_options(line, NULL);
    memset(line, 'z', sizeof line - 1);
    assert_string_equal(CT_OPTION_TEXT(OUTPUT), "/somewhere/x");
}

TEST(bad_values) {
    static const char *const bad[] = {"CUTRACE_STACK_DEPTH=0",
                                      "CUTRACE_STACK_DEPTH=4096",
                                      "CUTRACE_STACK_DEPTH=",
                                      "CUTRACE_STACK_DEPTH=-1",
                                      "CUTRACE_STACK_DEPTH=4K",
                                      "CUTRACE_STACK_MEMORY=1KK",
                                      "CUTRACE_STACK_MEMORY=9999999999999999999999",
                                      "CUTRACE_STACKS=all",
                                      "CUTRACE_QUIET=maybe",
                                      "CUTRACE_STACK_MEMORY=99999999999T"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_options(bad[i], NULL), 1);
        assert_non_null(strstr(said, "is no valid value, using "));
        assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said)); // one line
        assert_int_equal(CT_OPTION_NUMBER(STACK_DEPTH), 1024);
        assert_int_equal(CT_OPTION_NUMBER(STACK_MEMORY), 32 << 20);
    }
}

TEST(unknown_names) {
    read_options("CUTRACE_OUPUT=x", NULL);
    assert_string_equal(said,
                        "cutrace: unknown variable CUTRACE_OUPUT (did you mean CUTRACE_OUTPUT?)\n");
    read_options("CUTRACE_SOMETHING_ELSE=x", NULL);
    assert_string_equal(
        said, "cutrace: unknown variable CUTRACE_SOMETHING_ELSE (CUTRACE_HELP=1 lists them)\n");
}

TEST(off) {
    static const char *const words[] = {"CUTRACE=0", "CUTRACE=off", "CUTRACE=No"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(read_options("CUTRACE_NOTHING=1", words[i]), 0);
        assert_string_equal(said, "");
    }
    assert_int_equal(read_options("CUTRACE=1", NULL), 1);
    assert_int_equal(read_options("CUTRACE_HELP=1", NULL), 1);
    for (int i = 0; i < CT_OPTIONS; i++)
        assert_int_equal(strstr(said, ct_options_get_name((enum ct_option)i)) != NULL,
                         i < CT_OPTION_ANNOUNCE); // (the first one that is not for users)
}

static void expand(const char *pattern, const char *want) {
    char out[256];
    assert_int_equal(ct_file_pattern_expand(pattern, 7, out, sizeof out), strlen(want));
    assert_string_equal(out, want);
}

TEST(patterns) {
    char want[256], name[65], small[4];
    ct_process_id_get_program_name(name, sizeof name);
    assert_string_equal(name, "preload_options");
    snprintf(want, sizeof want, "a.%d.%d.b", (int)getpid(), (int)getppid());
    expand("a.%p.%P.b", want);
    expand("%e-%n-%%", "preload_options-7-%");
    setenv("PATTERN_TEST", "../../etc/x\ny", 1);
    expand("%q{PATTERN_TEST}", "_._.._etc_x_y");
    expand("%q{PATTERN_TEST", "%q{PATTERN_TEST");
    expand("%q{NOT_THERE_AT_ALL}.", ".");
    expand("%z%", "%z%");
    unsetenv("RANK");
    setenv("LOCAL_RANK", "3", 1);
    expand("r%r", "r3");
    assert_int_equal(ct_file_pattern_expand("much too long", 0, small, sizeof small), 0);
    assert_true(ct_file_pattern_has_counter("x%n"));
    assert_false(ct_file_pattern_has_counter("x%%n"));
}
