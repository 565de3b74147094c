// SPDX-License-Identifier: Apache-2.0
#include "run/words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

// Exit codes of its own failures, as env(1) and timeout(1) have them.
enum { OWN_FAILURE = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

struct request {
    struct ct_preload preload;
    char **command;
};

static int set_word(void *to, int word, const struct ct_words *w) {
    struct request *r = to;
    if (word == CT_WORD_PLAIN) { // the command, and all after it is its own
        r->command = w->argv + w->at - 1;
        return CT_WORDS_ENOUGH;
    }
    if (word == CT_WORD_RUN_OUTPUT)
        r->preload.output = w->value;
    r->preload.quiet |= word == CT_WORD_RUN_QUIET;
    r->preload.inject |= word == CT_WORD_RUN_INJECT;
    return 0;
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
    struct request r = {.command = NULL};
    int code;
    if (ct_words_read(CT_RUN_run, argc, argv, &code, set_word, &r))
        return code;
    if (!r.command)
        return ct_words_fail(OWN_FAILURE, "run: no command given; see cutrace run --help");
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
    r.preload.library = library;
    if (ct_preload_can_hold(library))
        code = run(r.command, &r.preload);
    else
        code = ct_words_fail(
            OWN_FAILURE,
            "%s: LD_PRELOAD cannot hold a path with a blank or a colon; move the library", library);
    free(library);
    return code;
}
