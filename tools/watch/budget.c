// SPDX-License-Identifier: Apache-2.0
#include "watch/keeper.h"

#include <cutrace/format/journal.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/human.h"
#include "base/journal_file.h"
#include "base/now.h"
#include "watch/folder.h"

struct enforcement {
    struct ct_budget *of;
    const char *path, *spare;
    struct ct_told *told;
    struct ct_folder folder;
    uint64_t bytes; // that are left
    int has_failed;
    // Indexes of what may be removed, the oldest first, and of what goes last; `count`: none.
    size_t *removable, count;
    size_t last_trace, last_bundle;
};

int ct_budget_is_given(const struct ct_budget_rules *r) {
    return r->keep_count || r->keep_ns || r->keep_bytes;
}

// ---- what goes last -----------------------------------------------------------------------------

static const struct ct_folder_file *file_at(const struct enforcement *e, size_t i) {
    return &e->folder.files[e->removable[i]];
}

static void find_last(struct enforcement *e) {
    e->last_trace = e->last_bundle = e->count;
    for (size_t i = e->count; i-- && e->last_bundle == e->count;)
        if (file_at(e, i)->kind == CT_FOLDER_BUNDLE)
            e->last_bundle = i;
    for (size_t i = e->count; i-- && e->last_trace == e->count;)
        if (file_at(e, i)->kind == CT_FOLDER_TRACE &&
            ct_failures_find(&e->of->failures, &e->folder, e->path, file_at(e, i)) !=
                CT_FAILURES_NONE)
            e->last_trace = i;
}

// ---- what may be removed ------------------------------------------------------------------------

static int may_remove(const struct enforcement *e, const struct ct_folder_file *f) {
    if (f->kind == CT_FOLDER_BUNDLE) // (one that is being written is open)
        return ct_folder_is_unused(e->folder.fd, f->name);
    return f->kind == CT_FOLDER_TRACE && (!e->spare || strcmp(e->spare, f->name) != 0) &&
           ct_finished_is(e->folder.fd, e->path, f->name);
}

static void find_removable(struct enforcement *e) {
    e->removable = ct_heap_alloc_zeroed(e->folder.count, sizeof *e->removable);
    for (size_t i = 0; i < e->folder.count; i++)
        if (may_remove(e, &e->folder.files[i]))
            e->removable[e->count++] = i;
    find_last(e);
}

// ---- removing -----------------------------------------------------------------------------------

// The bytes of what goes with a trace: its journal, if it lies in the folder.
static uint64_t count_bytes(const struct enforcement *e, const struct ct_folder_file *f) {
    const size_t n = strlen(f->name);
    uint64_t bytes = f->bytes;
    for (size_t i = 0; f->kind == CT_FOLDER_TRACE && i < e->folder.count; i++) {
        const struct ct_folder_file *o = &e->folder.files[i];
        if (o->kind == CT_FOLDER_JOURNAL && ct_journal_stem(o->name) == n &&
            memcmp(o->name, f->name, n) == 0)
            bytes += o->bytes;
    }
    return bytes;
}

// The trace goes last: a journal without a trace would not be found again.
static int unlink_file(const struct enforcement *e, const struct ct_folder_file *f) {
    char journal[512];
    (void)snprintf(journal, sizeof journal, "%s%s", f->name, CT_JOURNAL_SUFFIX);
    if (f->kind == CT_FOLDER_TRACE)
        (void)ct_journal_remove(e->folder.fd, journal, -1);
    return unlinkat(e->folder.fd, f->name, 0);
}

// Removes the file under a lock, so that no other program seals it. 0, or -1 with errno.
static int lock_and_unlink(const struct enforcement *e, const struct ct_folder_file *f) {
    struct stat st;
    const int fd = ct_folder_open_own(e->folder.fd, f->name, &st);
    int rc = -1;
    errno = EBUSY;
    if (fd >= 0 && st.st_dev == f->device && st.st_ino == f->inode &&
        !(flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK))
        rc = unlink_file(e, f);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return rc;
}

// Returns whether it is gone, or would be.
static int remove_file(struct enforcement *e, size_t i, const char *why) {
    const struct ct_folder_file *f = file_at(e, i);
    const uint64_t bytes = count_bytes(e, f);
    if (!e->of->dry_run && lock_and_unlink(e, f)) {
        if (errno == EBUSY) // somebody is at it
            return 0;
        e->has_failed = 1;
        ct_told_print_once(e->told, "cannot remove: %s/%s: %s", e->path, f->name, strerror(errno));
        return 0;
    }
    e->bytes -= bytes < e->bytes ? bytes : e->bytes;
    ct_told_print(e->told, "%s: %s/%s (%s, last written %s): %s",
                  e->of->dry_run ? "would remove" : "removed", e->path, f->name,
                  ct_human_bytes(bytes, CT_UNITS_IEC).text,
                  ct_human_date_and_time((uint64_t)f->changed_ns).text, why);
    return 1;
}

// ---- rules --------------------------------------------------------------------------------------

static int is_last(const struct enforcement *e, size_t i) {
    return i == e->last_trace || i == e->last_bundle;
}

// Takes one out of the list.
static void forget(struct enforcement *e, size_t i) {
    const size_t none = e->count;
    memmove(e->removable + i, e->removable + i + 1, (e->count - i - 1) * sizeof *e->removable);
    e->count--;
    size_t *const last[] = {&e->last_trace, &e->last_bundle};
    for (size_t k = 0; k < 2; k++)
        if (*last[k] == i || *last[k] == none)
            *last[k] = e->count;
        else
            *last[k] -= *last[k] > i;
}

static void remove_old(struct enforcement *e) {
    const int64_t now = (int64_t)ct_now_ns(CLOCK_REALTIME);
    for (size_t i = 0; e->of->rules.keep_ns && i < e->count;) {
        const int64_t age = now - file_at(e, i)->changed_ns;
        if (age > 0 && (uint64_t)age > e->of->rules.keep_ns && !is_last(e, i) &&
            remove_file(e, i, "older than --keep"))
            forget(e, i);
        else
            i++;
    }
}

static void remove_beyond_count(struct enforcement *e, enum ct_folder_kind kind) {
    size_t have = 0;
    for (size_t i = 0; i < e->count; i++)
        have += file_at(e, i)->kind == kind;
    for (size_t i = 0; e->of->rules.keep_count && have > e->of->rules.keep_count && i < e->count;)
        if (file_at(e, i)->kind == kind && !is_last(e, i) &&
            remove_file(e, i, "more than --keep")) {
            forget(e, i);
            have--;
        } else {
            i++;
        }
}

static void remove_beyond_total(struct enforcement *e, uint64_t most) {
    static const char why[] = "more than --keep";
    for (size_t i = 0; e->bytes > most && i < e->count;)
        if (!is_last(e, i) && remove_file(e, i, why))
            forget(e, i);
        else
            i++;
    if (e->bytes > most && e->last_trace < e->count && remove_file(e, e->last_trace, why))
        forget(e, e->last_trace);
    if (e->bytes > most && e->last_bundle < e->count)
        (void)remove_file(e, e->last_bundle, why);
}

// Whether a rule may be broken: only then every file is looked into.
static int is_too_much(const struct enforcement *e, uint64_t most) {
    const int64_t now = (int64_t)ct_now_ns(CLOCK_REALTIME);
    const int64_t age = e->folder.count ? now - e->folder.files[0].changed_ns : 0;
    return (e->of->rules.keep_bytes && e->bytes > most) ||
           (e->of->rules.keep_count && e->folder.count > e->of->rules.keep_count) ||
           (e->of->rules.keep_ns && age > 0 && (uint64_t)age > e->of->rules.keep_ns);
}

int ct_budget_enforce(struct ct_budget *b, const char *folder, uint64_t reserve, const char *spare,
                      struct ct_told *told) {
    struct enforcement e = {.of = b, .path = folder, .spare = spare, .told = told};
    const uint64_t most = b->rules.keep_bytes > reserve ? b->rules.keep_bytes - reserve : 0;
    if (ct_folder_read(&e.folder, folder)) {
        ct_told_print_once(told, "cannot read: %s: %s", folder, strerror(errno));
        return -1;
    }
    e.bytes = e.folder.bytes;
    if (is_too_much(&e, most)) {
        find_removable(&e);
        remove_old(&e);
        remove_beyond_count(&e, CT_FOLDER_TRACE);
        remove_beyond_count(&e, CT_FOLDER_BUNDLE);
        if (b->rules.keep_bytes)
            remove_beyond_total(&e, most);
    }
    const int is_over = b->rules.keep_bytes && e.bytes > most;
    if (is_over && !reserve)
        ct_told_print_once(told,
                           "more than --keep: %s: what is left is being recorded, or it is not "
                           "certain that it is over",
                           folder);
    free(e.removable);
    ct_folder_free(&e.folder);
    return is_over || e.has_failed ? -1 : 0;
}

void ct_budget_free(struct ct_budget *b) {
    ct_map_free(&b->failures);
}
