// SPDX-License-Identifier: Apache-2.0
// The bundle itself says that it was made: a watch that is started again finds it. The trace is
// locked meanwhile, so that two watches do not make the same one, and nobody removes or seals it.
#include "watch/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/human.h"
#include "base/now.h"
#include "bundle/bundle.h"
#include "watch/files.h"
#include "watch/folder.h"

#define SETTLE_NS UINT64_C(3000000000)  // a retry has got its memory by then, or has failed
#define BUNDLE_BYTES UINT64_C(25000000) // as cutrace-report bundle
enum { SHARE = 4 };                     // a bundle may take that part of --keep=SIZE

struct look {
    struct ct_oom_bundles *of;
    const char *path;
    struct ct_folder folder;
    struct ct_budget *budget;
    struct ct_told *told;
    int is_once;
    int has_failed;
};

// ---- who needs one ------------------------------------------------------------------------------

static struct ct_oom_suspect *find_suspect(struct ct_oom_bundles *b, ino_t inode) {
    for (size_t i = 0; i < CT_OOM_BUNDLE_RUNNING; i++)
        if (b->suspects[i].inode == inode)
            return &b->suspects[i];
    struct ct_oom_suspect *s = &b->suspects[b->next_suspect++ % CT_OOM_BUNDLE_RUNNING];
    *s = (struct ct_oom_suspect){.inode = inode};
    return s;
}

static uint64_t count_ooms(const struct look *l, const char *name) {
    struct ct_watch_journal j;
    char why[CT_WATCH_WHY];
    uint64_t ooms = 0;
    if (ct_watch_journal_open(&j, l->path, name, why))
        return 0;
    for (int i = 0; i < CT_JOURNAL_DEVICES; i++)
        ooms += j.head.device[i].ooms;
    ct_watch_journal_close(&j);
    return ooms;
}

// By the counters of its journal first: the events are read when there are more failed calls.
static int needs_one_running(const struct look *l, const struct ct_folder_file *f) {
    const uint64_t ooms = count_ooms(l, f->name), now = ct_now_ns(CLOCK_MONOTONIC);
    if (!ooms)
        return 0;
    struct ct_oom_suspect *s = find_suspect(l->of, f->inode);
    if (s->ooms != ooms)
        *s = (struct ct_oom_suspect){.inode = f->inode, .ooms = ooms, .since_ns = now};
    if (s->is_judged || (!l->is_once && now - s->since_ns < SETTLE_NS))
        return 0;
    s->is_judged = 1;
    return ct_failures_read(l->folder.fd, l->path, f->name) == CT_FAILURES_LASTING;
}

static int needs_one(const struct look *l, const struct ct_folder_file *f) {
    if (f->kind != CT_FOLDER_TRACE || strlen(f->name) > 200 ||
        ct_folder_has(l->folder.fd, f->name, CT_FOLDER_BUNDLE_SUFFIX))
        return 0;
    if (!ct_finished_is(l->folder.fd, l->path, f->name))
        return needs_one_running(l, f);
    return ct_failures_find(&l->budget->failures, &l->folder, l->path, f) == CT_FAILURES_LASTING;
}

// ---- making one ---------------------------------------------------------------------------------

// What a watch that was killed has left of this one.
static void remove_parts(const struct look *l, const char *name) {
    const size_t n = strlen(name);
    for (size_t i = 0; i < l->folder.count; i++) {
        const char *part = l->folder.files[i].name;
        if (l->folder.files[i].kind != CT_FOLDER_BUNDLE || strncmp(part, name, n) != 0 ||
            strncmp(part + n, CT_FOLDER_BUNDLE_SUFFIX ".", sizeof CT_FOLDER_BUNDLE_SUFFIX) != 0)
            continue;
        if (ct_folder_is_unused(l->folder.fd, part))
            (void)unlinkat(l->folder.fd, part, 0);
    }
}

static uint64_t most_bytes(const struct ct_budget *budget) {
    const uint64_t total = budget->rules.keep_bytes;
    return total && total / SHARE < BUNDLE_BYTES ? total / SHARE : BUNDLE_BYTES;
}

static _Noreturn void make(const struct ct_oom_bundles *b, const struct ct_budget *budget,
                           int errors) {
    char *paths[] = {(char *)b->trace};
    const struct ct_arguments options = {.command = CT_COMMAND_bundle,
                                         .have_command = 1,
                                         .output = b->file,
                                         .device = -1,
                                         .level = CT_SCRUB_PATHS,
                                         .max_bytes = most_bytes(budget),
                                         .color = CT_NEVER,
                                         .while_running = 1,
                                         .paths = paths,
                                         .path_count = 1};
    const struct ct_phase_rules rules = {.count = 0};
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setpriority(PRIO_PROCESS, 0, 19);
    (void)dup2(nothing, STDOUT_FILENO);
    (void)dup2(errors, STDERR_FILENO);
    const int code = ct_bundle_write(&options, &rules);
    (void)fflush(stderr);
    _exit(code);
}

// Returns -1 if it could not begin.
static int begin(struct look *l, const struct ct_folder_file *f) {
    struct ct_oom_bundles *b = l->of;
    struct stat st;
    int out[2];
    (void)snprintf(b->trace, sizeof b->trace, "%s/%s", l->path, f->name);
    (void)snprintf(b->file, sizeof b->file, "%s%s", b->trace, CT_FOLDER_BUNDLE_SUFFIX);
    b->name = b->trace + strlen(l->path) + 1;
    b->hash = ct_folder_hash(f);
    b->lock = ct_folder_open_own(l->folder.fd, f->name, &st);
    if (b->lock < 0 || flock(b->lock, LOCK_EX | LOCK_NB) ||
        ct_folder_has(l->folder.fd, f->name, CT_FOLDER_BUNDLE_SUFFIX) || pipe2(out, O_CLOEXEC)) {
        if (b->lock >= 0)
            close(b->lock);
        return -1;
    }
    (void)fcntl(out[1], F_SETFL, O_NONBLOCK); // nobody reads before its end
    remove_parts(l, f->name);
    (void)fflush(l->told->out); // or the maker would have the same lines to write
    b->maker = fork();
    if (!b->maker)
        make(b, l->budget, out[1]);
    close(out[1]);
    b->errors = out[0];
    if (b->maker > 0)
        return 0;
    b->maker = 0;
    close(b->lock);
    close(b->errors);
    return -1;
}

// ---- the end of one -----------------------------------------------------------------------------

// The first line that the maker has said, without its program's name.
static void read_error(const struct ct_oom_bundles *b, char *to, size_t size) {
    const ssize_t n = read(b->errors, to, size - 1);
    to[n > 0 ? n : 0] = 0;
    to[strcspn(to, "\n")] = 0;
    static const char program[] = "cutrace-report: ";
    if (strncmp(to, program, sizeof program - 1) == 0)
        memmove(to, to + sizeof program - 1, strlen(to) - sizeof program + 2);
}

static void tell(struct look *l, int status) {
    struct ct_oom_bundles *b = l->of;
    char why[700];
    struct stat st;
    read_error(b, why, sizeof why);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && stat(b->file, &st) == 0) {
        ct_told_print(l->told, "bundle: %s (%s): a request for memory failed in %s", b->file,
                      ct_human_bytes((uint64_t)st.st_size, CT_UNITS_IEC).text, b->trace);
        return;
    }
    l->has_failed = 1;
    *ct_map_add(&l->budget->failures, b->hash) = CT_FAILURES_HEALED; // it would fail again
    if (WIFSIGNALED(status))
        (void)snprintf(why, sizeof why, "signal %d ended it", WTERMSIG(status));
    ct_told_print_once(l->told, "no bundle: %s: %s", b->trace, why);
}

// Returns whether the maker has ended, or there is none.
static int reap(struct look *l, int waits) {
    struct ct_oom_bundles *b = l->of;
    int status = 0;
    pid_t ended = b->maker;
    while (b->maker && (ended = waitpid(b->maker, &status, waits ? 0 : WNOHANG)) < 0 &&
           errno == EINTR)
        ;
    if (!b->maker || !ended)
        return !b->maker;
    tell(l, status);
    b->maker = 0;
    close(b->lock);
    close(b->errors);
    return 1;
}

// ---- looks --------------------------------------------------------------------------------------

// Makes room for it. Returns -1 if there is none.
static int make_room(struct look *l, const char *name) {
    if (!l->budget->rules.keep_bytes ||
        !ct_budget_enforce(l->budget, l->path, most_bytes(l->budget), name, l->told))
        return 0;
    l->has_failed = 1;
    ct_told_print_once(l->told, "no bundle: %s/%s: no room in --keep", l->path, name);
    return -1;
}

// Begins the first one that is due. Returns whether it has.
static int begin_next(struct look *l) {
    for (size_t i = 0; i < l->folder.count; i++) {
        const struct ct_folder_file *f = &l->folder.files[i];
        if (!needs_one(l, f))
            continue;
        if (l->budget->dry_run)
            ct_told_print_once(l->told, "would make: %s/%s%s", l->path, f->name,
                               CT_FOLDER_BUNDLE_SUFFIX);
        else if (!make_room(l, f->name) && !begin(l, f))
            return 1;
    }
    return 0;
}

int ct_oom_bundles_look(struct ct_oom_bundles *b, const char *folder, struct ct_budget *budget,
                        int waits, struct ct_told *told) {
    struct look l = {.of = b, .path = folder, .budget = budget, .told = told, .is_once = waits};
    int goes_on = reap(&l, waits);
    while (goes_on && ct_folder_read(&l.folder, folder) == 0) {
        goes_on = begin_next(&l) && waits;
        ct_folder_free(&l.folder);
        if (goes_on)
            (void)reap(&l, waits);
    }
    return l.has_failed ? -1 : 0;
}
