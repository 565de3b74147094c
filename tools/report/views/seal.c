// SPDX-License-Identifier: Apache-2.0
// seal: puts what a journal has beyond its trace into the trace. An interrupted seal is done again from the journal,
// which goes last.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/journal_probe.h"
#include "base/utf8.h"
#include "read/new_file.h"
#include "views/common.h"

struct seal {
    struct ct_view *v;
    struct ct_error error;
    const struct ct_source *source;
    uint64_t at; // where the new chunks go in the file
};

static int cannot(struct seal *s, const char *what, const char *path) {
    return ct_error_set(&s->error, CT_EXIT_OUTPUT, "%s: %s: %s", path, what, strerror(errno));
}

static int write_all(int fd, const void *bytes, size_t n, uint64_t at) {
    for (size_t done = 0; done < n;) {
        const ssize_t got = pwrite(fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

// The new chunks, from a multiple of 8 on.
static int append(struct seal *s, int fd) {
    const uint32_t fill[4] = {CT_FILLER_MAGIC, (uint32_t)(0 - s->at) & (CT_CHUNK_ALIGN - 1), 0, 0};
    const uint64_t from = s->at % CT_CHUNK_ALIGN ? s->at + 8 + fill[1] : s->at;
    if (from != s->at && write_all(fd, fill, 8 + fill[1], s->at))
        return -1;
    return write_all(fd, s->source->added, (size_t)(s->source->bytes - s->source->added_at), from);
}

// ---- into the trace itself -------------------------------------------------------------------------

// A chunk that was being written when the process was killed goes; if that fails, it comes back.
static int seal_file(struct seal *s, int fd) {
    struct stat st;
    const uint64_t end = s->source->file_bytes;
    const size_t n = (size_t)(end - s->at);
    if (fstat(fd, &st) || (uint64_t)st.st_size != end)
        return ct_error_set(&s->error, CT_EXIT_OUTPUT, "%s: has changed meanwhile; try again",
                       s->source->name);
    uint8_t *rest = ct_heap_resize(NULL, n, 1);
    const int kept = ct_source_read(s->source, s->at, rest, n) == n;
    int rc = kept ? 0 : cannot(s, "cannot be read", s->source->name);
    if (!rc && ((n && ftruncate(fd, (off_t)s->at)) || append(s, fd) || fsync(fd)))
        rc = cannot(s, "cannot be written; trace and journal are as they were", s->source->name);
    if (rc && kept && (ftruncate(fd, (off_t)s->at) || write_all(fd, rest, n, s->at)))
        rc = cannot(s, "cannot be restored; its journal has everything", s->source->name);
    free(rest);
    return rc;
}

static int sync_folder(const char *path) {
    char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        slash[slash == folder] = 0;
    const int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int rc = fd < 0 ? -1 : fsync(fd);
    if (fd >= 0)
        close(fd);
    free(folder);
    return rc;
}

// The journal, and what leads to it.
static int remove_journal(struct seal *s, const char *path) {
    char target[4200];
    const char *place = ct_journal_probe_path(path, target, sizeof target);
    if (place != path && unlink(place) && errno != ENOENT)
        return cannot(s, "cannot be removed", place);
    return unlink(path) ? cannot(s, "cannot be removed", path) : 0;
}

static int seal_in_place(struct seal *s) {
    const char *journal = s->v->trace->journal.path;
    if (s->source->added) {
        const int fd = open(s->source->name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd < 0)
            return cannot(s, "cannot be written", s->source->name);
        const int rc = seal_file(s, fd);
        close(fd);
        if (rc)
            return rc;
    }
    (void)sync_folder(s->source->name); // or else a trace that is new might go with the journal
    return remove_journal(s, journal);
}

// ---- into another file -----------------------------------------------------------------------------

static int seal_to(struct seal *s, const char *path) {
    const struct ct_source *from = s->source;
    struct ct_new_file f;
    const int rc = ct_new_file_open(&f, path) || ct_new_file_copy(&f, from, 0, s->at) ||
                   (from->added && (ct_new_file_align(&f) ||
                                    ct_new_file_copy(&f, from, from->added_at, from->bytes))) ||
                   ct_new_file_commit(&f);
    if (rc)
        s->error = f.error;
    return rc ? -1 : 0;
}

// ---- the command -----------------------------------------------------------------------------------

// 0: there is something to do; 1: there is not; -1: it cannot be done.
static int examine(struct seal *s) {
    const struct ct_trace *t = s->v->trace;
    const char *name = t->source.name;
    if (!t->journal.path)
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                       "%s: name the file of a trace: its journal lies beside it", name);
    if (t->journal_found < 0)
        return ct_error_set(&s->error, CT_EXIT_BAD_TRACE, "%s", t->journal_error.text);
    if (!t->journal_found && !t->ended && !t->sealed)
        return ct_error_set(&s->error, CT_EXIT_INCOMPLETE,
                       "%s: no clean end, and no journal %s%s: nothing can be added", name, name,
                       CT_JOURNAL_SUFFIX);
    if (t->journal_found && t->journal.alive)
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                       "%s: process %" PRIu32 " still records; end it first (or --force)", name,
                       t->journal.head.pid);
    return !t->journal_found && !s->v->options->output;
}

static void put_done(const struct seal *s, int nothing) {
    struct ct_view *v = s->v;
    struct ct_json json = {.out = v->out}, *j = &json;
    if (v->options->json) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "schema", "cutrace.seal/1");
        ct_json_text(j, "file", s->source->name);
        ct_json_number(j, "events", v->trace->events);
        ct_json_number(j, "torn_events", v->trace->torn);
        ct_json_close(j, '}');
        ct_json_end_line(j);
        return;
    }
    ct_utf8_print_sanitized(v->out, s->source->name, strlen(s->source->name));
    if (nothing)
        fputs(": needs no seal\n", v->out);
    else
        fprintf(v->out, ": sealed with %s event%s of its journal, %s in all\n",
                ct_human_count(v->trace->journal.folded).text, ct_human_plural(v->trace->journal.folded),
                ct_human_count(v->trace->events).text);
}

int ct_view_seal(struct ct_view *v) {
    struct seal s = {.v = v, .source = &v->trace->source, .at = ct_trace_append_offset(v->trace)};
    const char *output = v->options->output;
    signal(SIGXFSZ, SIG_IGN);
    const int nothing = examine(&s);
    if (nothing < 0 || (!nothing && (output ? seal_to(&s, output) : seal_in_place(&s)))) {
        ct_say(s.error.text);
        return s.error.status;
    }
    put_done(&s, nothing);
    return CT_EXIT_OK;
}
