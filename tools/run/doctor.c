// SPDX-License-Identifier: Apache-2.0
#include "run/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/inspect.h"

// Exit codes, as --help lists them.
enum { WORKS = 0, DOES_NOT_WORK = 1, USAGE = 2, CANNOT_PRINT = 5 };

struct request {
    int json;
    const char *output;
    unsigned long pid; // 0: a command
    char **command;
};

static int fail(const char *what) {
    fprintf(stderr, "cutrace: doctor: %s\n", what);
    return USAGE;
}

static int set_pid(struct request *r, const char *text) {
    char *end;
    r->pid = strtoul(text, &end, 10);
    return *text < '0' || *text > '9' || *end || !r->pid
               ? fail("--pid needs the number of a process")
               : 0;
}

static int set_word(void *to, int word, const struct ct_words *w) {
    struct request *r = to;
    if (word == CT_WORD_PLAIN) { // the command, and all after it is its own
        r->command = w->argv + w->at - 1;
        return CT_WORDS_ENOUGH;
    }
    if (word == CT_WORD_DOCTOR_PID)
        return set_pid(r, w->value);
    if (word == CT_WORD_DOCTOR_OUTPUT)
        r->output = w->value;
    r->json |= word == CT_WORD_DOCTOR_JSON;
    return 0;
}

static void inspect(struct ct_findings *f, const struct request *r) {
    if (r->pid) {
        ct_inspect_process(f, r->pid);
        return;
    }
    ct_inspect_library(f);
    ct_inspect_command(f, r->command);
    ct_inspect_environment(f);
    ct_inspect_driver(f);
    ct_inspect_output(f, r->output);
}

int ct_doctor_main(int argc, char **argv) {
    struct request r = {.json = 0};
    struct ct_findings f = {.count = 0};
    int code;
    if (ct_words_read(CT_RUN_doctor, argc, argv, &code, set_word, &r))
        return code;
    if (r.pid && r.command)
        return fail("a command or --pid, not both");
    if (!r.pid && !r.command)
        return fail("no command given; see cutrace doctor --help");
    inspect(&f, &r);
    (r.json ? ct_findings_print_json : ct_findings_print)(&f, stdout);
    code = ct_findings_work(&f) ? WORKS : DOES_NOT_WORK;
    ct_findings_free(&f);
    return fflush(stdout) ? CANNOT_PRINT : code;
}
