// SPDX-License-Identifier: Apache-2.0
#include "run/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/findings.h"
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

// Returns 0, an exit code, or -1: the help was asked for.
static int read_words(struct request *r, struct ct_words *w) {
    int code = 0;
    while (!code) {
        switch (ct_words_next(w)) {
        case CT_WORD_DOCTOR_JSON:
            r->json = 1;
            break;
        case CT_WORD_DOCTOR_OUTPUT:
            r->output = w->value;
            break;
        case CT_WORD_DOCTOR_PID:
            code = set_pid(r, w->value);
            break;
        case CT_WORD_PLAIN:
            r->command = w->argv + w->at - 1;
            return r->pid ? fail("a command or --pid, not both") : 0;
        case CT_WORD_HELP:
            return -1;
        case CT_WORD_END:
            return r->pid ? 0 : fail("no command given; see cutrace doctor --help");
        default:
            return ct_words_fail_wrong(USAGE, w);
        }
    }
    return code;
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
    struct ct_words words = ct_words_of(CT_RUN_doctor, argc, argv);
    struct request r = {.json = 0};
    struct ct_findings f = {.count = 0};
    int code = read_words(&r, &words);
    if (code > 0)
        return code;
    if (code < 0)
        return ct_words_print_help(CT_RUN_doctor) ? CANNOT_PRINT : WORKS;
    inspect(&f, &r);
    (r.json ? ct_findings_print_json : ct_findings_print)(&f, stdout);
    code = ct_findings_work(&f) ? WORKS : DOES_NOT_WORK;
    ct_findings_free(&f);
    return fflush(stdout) ? CANNOT_PRINT : code;
}
