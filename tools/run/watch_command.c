// SPDX-License-Identifier: Apache-2.0
#include "run/words.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "watch/watch.h"

enum { LEAST_MS = 100, USUAL_MS = 1000, MOST_MS = 3600000 };

static int set_interval(struct ct_watch_options *o, const char *text) {
    struct ct_time t;
    if (ct_parse_time(text, &t) || t.kind != CT_TIME_ELAPSED)
        return -1;
    o->interval_ms = t.ns <= MOST_MS * UINT64_C(1000000) ? (unsigned)(t.ns / 1000000) : 0;
    return o->interval_ms < LEAST_MS ? -1 : 0;
}

static int set_color(struct ct_watch_options *o, const char *text) {
    o->color = ct_parse_choice(text, "auto|always|never"); // enum ct_choice
    return o->color < 0 ? -1 : 0;
}

static int set_keep(struct ct_watch_options *o, const char *text) {
    return ct_keeper_set_keep(&o->keeper, text);
}

static int set_bundle_on(struct ct_watch_options *o, const char *text) {
    o->keeper.bundle_on_oom = 1;
    return ct_parse_choice(text, "oom");
}

static int set_log(struct ct_watch_options *o, const char *text) {
    const int choice = text ? ct_parse_choice(text, "text|json") : 0;
    o->log = choice ? CT_WATCH_LOG_JSON : CT_WATCH_LOG_TEXT;
    return choice < 0 ? -1 : 0;
}

static int set_serve(struct ct_watch_options *o, const char *text) {
    o->serve = text;
    return 0;
}

// By word: how an option with a value is set (-1: it is none of it), and what is said then.
static const struct {
    int (*set)(struct ct_watch_options *o, const char *text);
    const char *needs;
} setters[CT_RUN_WORDS] = {
    [CT_WORD_WATCH_INTERVAL] = {set_interval, "--interval needs a time from 100ms to 1h"},
    [CT_WORD_WATCH_SERVE] = {set_serve, ""},
    [CT_WORD_WATCH_LOG] = {set_log, "--log is text or json"},
    [CT_WORD_WATCH_COLOR] = {set_color, "--color is auto, always or never"},
    [CT_WORD_WATCH_KEEP] = {set_keep, "--keep is a number of traces (5), a time (7d) or a size "
                                      "(4GiB)"},
    [CT_WORD_WATCH_BUNDLE_ON] = {set_bundle_on, "--bundle-on is oom"},
};

static int set_word(void *to, int word, const struct ct_words *w) {
    struct ct_watch_options *o = to;
    int *const flags[CT_RUN_WORDS] = {[CT_WORD_WATCH_ONCE] = &o->once,
                                      [CT_WORD_WATCH_JSON] = &o->json,
                                      [CT_WORD_WATCH_I_KNOW] = &o->may_be_public,
                                      [CT_WORD_WATCH_SEAL] = &o->keeper.seal,
                                      [CT_WORD_WATCH_DRY_RUN] = &o->keeper.dry_run};
    if (word == CT_WORD_PLAIN && o->target)
        return ct_words_fail(CT_WATCH_WRONG_USAGE, "watch: one DIR, PID or PATTERN: %.40s",
                             w->value);
    if (word == CT_WORD_PLAIN)
        o->target = w->value;
    else if (!setters[word].set)
        *flags[word] = 1;
    else if (setters[word].set(o, w->value))
        return ct_words_fail(CT_WATCH_WRONG_USAGE, "watch: %s: %.40s", setters[word].needs,
                             w->value);
    return 0;
}

// Options that change a folder need one.
static int check_keeper(const struct ct_watch_options *o) {
    struct stat st;
    const int is_wanted = ct_keeper_is_wanted(&o->keeper);
    if (is_wanted && o->target && (stat(o->target, &st) || !S_ISDIR(st.st_mode)))
        return ct_words_fail(
            CT_WATCH_WRONG_USAGE,
            "watch: --seal, --keep and --bundle-on are of a folder: %.400s is none", o->target);
    if (is_wanted && o->json)
        return ct_words_fail(CT_WATCH_WRONG_USAGE,
                             "watch: --json goes without --seal, --keep and --bundle-on");
    if (o->keeper.dry_run && (!is_wanted || !o->once))
        return ct_words_fail(CT_WATCH_WRONG_USAGE,
                             "watch: --dry-run needs --once, and --seal, --keep or --bundle-on");
    return 0;
}

// Returns 0, or an exit code.
static int check(const struct ct_watch_options *o) {
    const int is_service = ct_service_is_wanted(o);
    if (o->json && !o->once)
        return ct_words_fail(CT_WATCH_WRONG_USAGE, "watch: --json needs --once");
    if (o->once && is_service)
        return ct_words_fail(CT_WATCH_WRONG_USAGE, "watch: --once goes without --serve and --log");
    if (o->may_be_public && !o->serve)
        return ct_words_fail(CT_WATCH_WRONG_USAGE, "watch: --i-know needs --serve");
    if (!o->once && !is_service && !ct_keeper_is_wanted(&o->keeper) &&
        (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)))
        return ct_words_fail(CT_WATCH_WRONG_USAGE,
                             "watch: needs a terminal; --once prints what it shows");
    return check_keeper(o);
}

int ct_watch_main(int argc, char **argv) {
    struct ct_watch_options o = {.interval_ms = USUAL_MS};
    int code;
    if (ct_words_read(CT_RUN_watch, argc, argv, &code, set_word, &o))
        return code;
    return check(&o) ? CT_WATCH_WRONG_USAGE : ct_watch(&o);
}
