// SPDX-License-Identifier: Apache-2.0
#include "run/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/left_traces.h"
#include "run/preload.h"
#include "run/supervise.h"

// Exit codes of its own failures, as env(1) and timeout(1) have them.
enum { OWN_FAILURE = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

// Returns 0, or the exit code; -1: the help was asked for.
static int read_words(struct ct_words *w, struct ct_preload *p) {
    for (;;) {
        switch (ct_words_next(w)) {
        case CT_WORD_RUN_OUTPUT:
            p->output = w->value;
            break;
        case CT_WORD_RUN_QUIET:
            p->quiet = 1;
            break;
        case CT_WORD_RUN_INJECT:
            p->inject = 1;
            break;
        case CT_WORD_PLAIN: // the command, and all after it is its own
            w->at--;
            return 0;
        case CT_WORD_HELP:
            return -1;
        case CT_WORD_END:
            return ct_words_fail(OWN_FAILURE, "run: no command given; see cutrace run --help");
        default:
            return ct_words_fail_wrong(OWN_FAILURE, w);
        }
    }
}

static int set_environment(void *cookie) {
    return ct_preload_set_environment(cookie);
}

static int fail_start(const struct ct_supervised *s) {
    const char *why = strerror(s->start_errno);
    if (!s->pid || s->pid < 0)
        return ct_words_fail(OWN_FAILURE, "cannot start a process: %s", why);
    if (!s->is_prepared)
        return ct_words_fail(OWN_FAILURE, "cannot set the environment: %s", why);
    return ct_words_fail(s->start_errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE, "%s: %s",
                         s->command[0], why);
}

// CUTRACE_QUIET as the recorder reads it.
static int is_quiet(const struct ct_preload *p) {
    const char *set = getenv("CUTRACE_QUIET");
    return p->quiet || (set && *set && strcmp(set, "0") != 0 && strcasecmp(set, "off") != 0 &&
                        strcasecmp(set, "no") != 0 && strcasecmp(set, "false") != 0);
}

static int run(char **command, struct ct_preload *p) {
    struct ct_supervised s = {.command = command, .prepare = set_environment, .cookie = p};
    struct ct_trace_list list = {.path = ""};
    const int quiet = is_quiet(p);
    if (!quiet && ct_trace_list_create(&list) == 0)
        p->trace_list = list.path;
    const int failed = ct_supervise(&s);
    ct_trace_list_take(&list);
    if (!failed && !quiet && p->trace_list)
        ct_left_traces_print(&list, s.pid, s.status);
    ct_trace_list_free(&list);
    return failed ? fail_start(&s) : ct_supervise_end_alike(s.status);
}

int ct_run_main(int argc, char **argv) {
    struct ct_words words = ct_words_of(CT_RUN_run, argc, argv);
    struct ct_preload preload = {.quiet = 0};
    int code = read_words(&words, &preload);
    if (code < 0)
        return ct_words_print_help(CT_RUN_run) ? OWN_FAILURE : 0;
    if (code)
        return code;
    const char *folder = ct_preload_own_folder();
    char *library = ct_preload_find_library();
    if (!folder)
        return ct_words_fail(OWN_FAILURE, "cannot find the folder of this program: %s",
                             strerror(errno));
    if (!library)
        return ct_words_fail(
            OWN_FAILURE,
            "libcutrace.so is neither in %s nor in the lib folder beside it; install it "
            "there",
            folder);
    if (!ct_preload_can_hold(library))
        code = ct_words_fail(
            OWN_FAILURE,
            "%s: LD_PRELOAD cannot hold a path with a blank or a colon; move the library", library);
    preload.library = library;
    if (!code)
        code = run(argv + words.at, &preload);
    free(library);
    return code;
}
