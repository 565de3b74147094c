// SPDX-License-Identifier: Apache-2.0
// Once the journal is unused it stays so: a recorder has it mapped from its creation on, and opens
// it again only while it has. Two sealers exclude each other by a lock on the trace. The second one
// finds the journal gone when it has the lock.
#include "watch/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/human.h"
#include "base/journal_file.h"
#include "base/now.h"
#include "copy/seal_trace.h"
#include "watch/files.h"
#include "watch/folder.h"

#define MAKING_NS INT64_C(1000000000)

struct seal {
    struct ct_told *told;
    char path[4400]; // of the trace
    const char *name;
    int folder, trace; // descriptors
    int was_created;   // the trace's file
    struct ct_watch_journal journal;
};

static enum ct_seal_result refuse(const struct seal *s, const char *why) {
    ct_told_print_once(s->told, "not sealed: %s: %s", s->path, why);
    return CT_SEAL_NOTHING;
}

static enum ct_seal_result fail(const struct seal *s, const char *why) {
    ct_told_print_once(s->told, "cannot seal: %s: %s", s->path, why);
    return CT_SEAL_FAILED;
}

// ---- whether it may be sealed -------------------------------------------------------------------

// 1: it may; 0: its process still records, or why not was told.
static int may_seal(const struct seal *s) {
    const enum ct_file_use use = ct_file_use_find(s->journal.fd);
    if (use == CT_FILE_IN_USE || ct_process_alive_pid(&s->journal.head))
        return 0;
    if (s->journal.owner != geteuid())
        (void)refuse(s, "its journal belongs to another user");
    else if (use == CT_FILE_USE_UNKNOWN)
        (void)refuse(s, "nothing proves that its process has ended: the file system does not say "
                        "whether a file is mapped (tmpfs, ext4, xfs, btrfs and f2fs do)");
    else
        return 1;
    return 0;
}

// ---- the trace ----------------------------------------------------------------------------------

enum { FLAGS = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

// Whether a process has a file open for writing: the trace another sealer, or a recorder that has
// taken the name.
static int is_in_use(const struct seal *s, const char *name) {
    const int fd = openat(s->folder, name, O_RDONLY | FLAGS);
    const int in_use = fd >= 0 && ct_file_use_find(fd) == CT_FILE_IN_USE;
    if (fd >= 0)
        close(fd);
    return in_use;
}

// Opens the trace, which may not be there: its first chunk may have met a full disk.
static int open_trace(struct seal *s, char why[CT_WATCH_WHY]) {
    struct stat st;
    s->trace = openat(s->folder, s->name, O_RDWR | FLAGS);
    if (s->trace < 0 && errno == ENOENT) {
        s->trace = openat(s->folder, s->name, O_RDWR | O_CREAT | O_EXCL | FLAGS, 0600);
        s->was_created = s->trace >= 0;
    }
    const char *wrong = NULL;
    if (s->trace < 0 && errno == EWOULDBLOCK) // another sealer asks whether it is in use
        return 0;
    if (s->trace < 0)
        wrong = errno == ELOOP ? "is a link, which is not followed" : strerror(errno);
    else if (fstat(s->trace, &st))
        wrong = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        wrong = "is no regular file";
    else if (st.st_uid != geteuid())
        wrong = "belongs to another user";
    else if (ct_trace_magic_find(s->trace) == CT_TRACE_MAGIC_NONE)
        wrong = "is no trace";
    if (wrong)
        (void)snprintf(why, CT_WATCH_WHY, "%s", wrong);
    return wrong ? -1 : 0;
}

// Locks the trace. 0, or -1: another sealer has locked it, or was faster altogether. A file that it
// could not fill has lost its name by now.
static int lock_trace(const struct seal *s) {
    struct stat named, opened;
    return ct_seal_trace_lock(s->trace) || ct_watch_journal_is_gone(&s->journal) ||
           fstatat(s->folder, s->name, &named, AT_SYMLINK_NOFOLLOW) || fstat(s->trace, &opened) ||
           named.st_dev != opened.st_dev || named.st_ino != opened.st_ino;
}

// ---- the journal --------------------------------------------------------------------------------

static int remove_journal(const struct seal *s) {
    char name[512];
    (void)snprintf(name, sizeof name, "%s%s", s->name, CT_JOURNAL_SUFFIX);
    return ct_journal_remove(s->folder, name, s->journal.fd);
}

// Whether a journal that cannot be read may become one, or is none any more: its process is just
// making it, has ended well, or another program has sealed it.
static int is_passing(const struct seal *s) {
    char name[512];
    struct stat st;
    (void)snprintf(name, sizeof name, "%s%s", s->name, CT_JOURNAL_SUFFIX);
    // A sealer and a recorder that ends have the trace open while they remove a journal in memory,
    // its file before the link. So this comes first: if neither has, a link that is there stays.
    const int trace_in_use = is_in_use(s, s->name);
    if (fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW))
        return 1;
    const int64_t made_ns = st.st_ctim.tv_sec * INT64_C(1000000000) + st.st_ctim.tv_nsec;
    if (S_ISLNK(st.st_mode)) // (the recorder makes the link before the file)
        return trace_in_use || (int64_t)ct_now_ns(CLOCK_REALTIME) - made_ns < MAKING_NS;
    return is_in_use(s, name);
}

// ---- sealing ------------------------------------------------------------------------------------

static enum ct_seal_result append(struct seal *s, const struct ct_trace *t) {
    struct ct_error error = {.text = ""};
    if (t->journal_found <= 0)
        return fail(s, t->journal_error.text);
    if (t->journal.alive)
        return CT_SEAL_NOTHING;
    if (t->source.added && ct_seal_trace_append(t, s->trace, &error))
        return fail(s, error.text);
    (void)fsync(s->folder); // a new trace must survive a crash that follows the journal's removal
    if (remove_journal(s))
        return fail(s, "its journal cannot be removed");
    ct_told_print(s->told, "sealed: %s: added %s event%s from its journal, %s in all", s->path,
                  ct_human_count(t->journal.folded).text, ct_human_plural(t->journal.folded),
                  ct_human_count(t->events).text);
    return CT_SEAL_DONE;
}

// Reads both, and appends. Takes the journal over.
static enum ct_seal_result read_and_append(struct seal *s) {
    struct ct_trace t;
    struct ct_error error = {.text = ""};
    enum ct_seal_result result;
    const struct ct_trace_files files = {s->path, dup(s->trace), dup(s->journal.fd)};
    if (ct_trace_open_files(&t, &files, &error))
        result = fail(s, error.text);
    else
        result = append(s, &t);
    ct_trace_close(&t);
    return result;
}

static enum ct_seal_result seal(struct seal *s) {
    char why[CT_WATCH_WHY];
    // Else the trace would be written, again and again.
    if (faccessat(s->folder, ".", W_OK, AT_EACCESS))
        return fail(s, strerror(errno));
    if (is_in_use(s, s->name))
        return CT_SEAL_NOTHING;
    if (open_trace(s, why))
        return fail(s, why);
    if (s->trace < 0 || lock_trace(s))
        return CT_SEAL_NOTHING;
    const enum ct_seal_result result = read_and_append(s);
    if (result != CT_SEAL_DONE && s->was_created)
        (void)unlinkat(s->folder, s->name, 0);
    return result;
}

enum ct_seal_result ct_seal_trace(const char *folder, const char *name, int dry_run,
                                  struct ct_told *told) {
    struct seal s = {.told = told, .name = name, .trace = -1};
    enum ct_seal_result result = CT_SEAL_NOTHING;
    char why[CT_WATCH_WHY];
    (void)snprintf(s.path, sizeof s.path, "%s/%s", folder, name);
    s.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s.folder < 0)
        return fail(&s, strerror(errno));
    if (ct_watch_journal_open(&s.journal, folder, name, why)) {
        if (!is_passing(&s))
            result = refuse(&s, why);
    } else if (may_seal(&s)) {
        if (dry_run)
            ct_told_print_once(told, "would seal: %s", s.path);
        else
            result = seal(&s);
    }
    if (s.trace >= 0)
        close(s.trace);
    close(s.folder);
    ct_watch_journal_close(&s.journal);
    return result;
}
