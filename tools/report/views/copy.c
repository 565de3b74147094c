// SPDX-License-Identifier: Apache-2.0
// copy: writes a copy of a trace, whole or of a range of time, without names that say who or where,
// with source lines. --seal writes none: it puts what only the journal has into the trace itself.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/journal_file.h"
#include "base/utf8.h"
#include "copy/seal_trace.h"
#include "views/copy_result.h"
#include "views/views.h"

// ---- a new file ---------------------------------------------------------------------------------

static int write_file(struct ct_view *v, struct ct_copy_request *request, struct ct_copy_result *r,
                      struct ct_error *error) {
    struct ct_new_file file;
    request->put = ct_new_trace_put;
    request->user = &file;
    const int rc =
        ct_new_trace_write(v->trace, &file, v->options->output, request, &r->parts->copied, error);
    r->bytes = file.bytes;
    return rc;
}

// Copies the file in memory to its place.
static int put_file(const struct ct_memory_copy *copy, const char *path, struct ct_error *error) {
    const struct ct_source from = {
        .name = path, .fd = copy->fd, .bytes = copy->bytes, .file_bytes = copy->bytes};
    struct ct_new_file file;
    if (ct_new_file_open(&file, path) || ct_new_file_copy(&file, &from, 0, copy->bytes) ||
        ct_new_file_commit(&file)) {
        *error = file.error;
        return -1;
    }
    return 0;
}

// In memory first: nothing is written while a name is left.
static int write_scrubbed(struct ct_view *v, struct ct_copy_request *request, struct ct_scrub *s,
                          struct ct_copy_result *r, struct ct_error *error) {
    struct ct_memory_copy copy;
    ct_scrub_learn(s, &v->trace->definitions);
    int rc = ct_new_trace_in_memory(v->trace, request, s, &copy, error);
    if (!rc)
        rc = put_file(&copy, v->options->output, error);
    r->parts->copied = copy.copied;
    r->bytes = copy.bytes;
    ct_new_trace_close(&copy);
    return rc;
}

static int copy(struct ct_view *v) {
    const struct ct_arguments *o = v->options;
    struct ct_copy_request request = {.to_ns = UINT64_MAX};
    struct ct_copy_part part = {0};
    struct ct_scrub s;
    struct ct_copy_result r = {.options = o, .scrub = &s, .parts = &part, .count = 1};
    struct ct_error error;
    ct_scrub_init(&s, o->level, o->salt, o->words);
    int rc = ct_new_trace_check(v, &error);
    if (!rc)
        rc = ct_new_trace_prepare(v, &request, &part.lines, &error);
    if (!rc)
        rc = o->level == CT_SCRUB_NO ? write_file(v, &request, &r, &error)
                                     : write_scrubbed(v, &request, &s, &r, &error);
    ct_copy_part_note(&part, v->trace);
    if (rc)
        ct_terminal_warn(error.text);
    else
        ct_copy_result_print(&r, v->out);
    ct_copy_part_free(&part);
    ct_scrub_free(&s);
    return rc ? (int)error.status : CT_EXIT_OK;
}

// ---- the trace itself ---------------------------------------------------------------------------

static int fail_with_errno(struct ct_error *error, const char *what, const char *path) {
    return ct_error_set(error, CT_EXIT_OUTPUT, "%s: %s: %s", path, what, strerror(errno));
}

static int sync_folder(const char *path) {
    char *folder = ct_heap_copy_text(path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    const int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int rc = fd < 0 ? -1 : fsync(fd);
    if (fd >= 0)
        close(fd);
    free(folder);
    return rc;
}

// With --force the lock does not count: a process that outlived the traced one may have inherited
// it.
static int lock(const struct ct_view *v, int fd, struct ct_error *error) {
    if (!ct_seal_trace_lock(fd) || v->options->force)
        return 0;
    return ct_error_set(error, CT_EXIT_OUTPUT,
                        "%s: another program has locked it, perhaps to seal it; try again (or "
                        "--force)",
                        v->trace->source.name);
}

// The journal is removed last, so that a seal that was interrupted can be repeated.
static int put_journal_into_trace(const struct ct_view *v, struct ct_error *error) {
    const struct ct_source *s = &v->trace->source;
    const struct ct_journal_contents *journal = &v->trace->journal;
    if (s->added) {
        const int fd = open(s->name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd < 0)
            return fail_with_errno(error, "cannot be written", s->name);
        const int rc = lock(v, fd, error) || ct_seal_trace_append(v->trace, fd, error);
        close(fd);
        if (rc)
            return rc;
    }
    // A new trace must survive a crash that follows the removal of the journal.
    (void)sync_folder(s->name);
    return ct_journal_remove(AT_FDCWD, journal->path, journal->file.fd)
               ? fail_with_errno(error, "cannot be removed", journal->path)
               : 0;
}

// Returns 0 if the trace can be sealed, 1 if it needs no seal, -1 on an error.
static int check_seal(const struct ct_trace *t, struct ct_error *error) {
    const char *name = t->source.name;
    if (!t->journal.path)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%s: name a trace's file: its journal lies next to it", name);
    if (t->journal_found < 0)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s", t->journal_error.text);
    if (!t->journal_found && !t->ended && !t->sealed)
        return ct_error_set(error, CT_EXIT_INCOMPLETE,
                            "%s: no clean end, and no journal %s%s: nothing can be added", name,
                            name, CT_JOURNAL_SUFFIX);
    if (t->journal_found && t->journal.alive)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%s: process %" PRIu32 " is still recording; end it first (or --force)",
                            name, t->journal.head.pid);
    return !t->journal_found;
}

static void print_sealed(const struct ct_trace *t, FILE *out) {
    ct_utf8_print_sanitized(out, t->source.name, strlen(t->source.name));
    if (!t->journal_found)
        fputs(": needs no seal\n", out);
    else
        fprintf(out, ": added %s event%s from its journal, %s in all\n",
                ct_human_count(t->journal.folded).text, ct_human_plural(t->journal.folded),
                ct_human_count(t->events).text);
}

static int seal(struct ct_view *v) {
    struct ct_copy_part part = {.copied.events = v->trace->events};
    struct ct_copy_result r = {.options = v->options, .parts = &part, .count = 1};
    struct stat st;
    struct ct_error error;
    signal(SIGXFSZ, SIG_IGN);
    const int nothing = check_seal(v->trace, &error);
    if (nothing < 0 || (!nothing && put_journal_into_trace(v, &error))) {
        ct_terminal_warn(error.text);
        return error.status;
    }
    ct_copy_part_note(&part, v->trace);
    r.bytes = stat(v->trace->source.name, &st) ? 0 : (uint64_t)st.st_size;
    if (v->options->json)
        ct_copy_result_print(&r, v->out);
    else
        print_sealed(v->trace, v->out);
    return CT_EXIT_OK;
}

int ct_view_copy(struct ct_view *v) {
    return v->options->seal ? seal(v) : copy(v);
}
