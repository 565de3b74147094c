// SPDX-License-Identifier: Apache-2.0
// seal: appends the events that only the journal has to the trace. The journal is removed last, so
// that an interrupted seal can be repeated.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/journal_remove.h"
#include "base/utf8.h"
#include "copy/seal_trace.h"
#include "print/document.h"
#include "read/new_file.h"
#include "views/views.h"

struct seal {
    struct ct_view *v;
    struct ct_error error;
    const struct ct_source *source;
    uint64_t at; // where the new chunks go in the file
};

static int fail_with_errno(struct seal *s, const char *what, const char *path) {
    return ct_error_set(&s->error, CT_EXIT_OUTPUT, "%s: %s: %s", path, what, strerror(errno));
}

// ---- into the trace itself ----------------------------------------------------------------------

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
static int lock(struct seal *s, int fd) {
    if (!ct_seal_trace_lock(fd) || s->v->options->force)
        return 0;
    return ct_error_set(&s->error, CT_EXIT_OUTPUT,
                        "%s: another program has locked it, perhaps to seal it; try again (or "
                        "--force)",
                        s->source->name);
}

static int seal_in_place(struct seal *s) {
    const char *journal = s->v->trace->journal.path;
    if (s->source->added) {
        const int fd = open(s->source->name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd < 0)
            return fail_with_errno(s, "cannot be written", s->source->name);
        const int rc = lock(s, fd) || ct_seal_trace_append(s->v->trace, fd, &s->error);
        close(fd);
        if (rc)
            return rc;
    }
    // A new trace must survive a crash that follows the removal of the journal.
    (void)sync_folder(s->source->name);
    return ct_journal_remove(AT_FDCWD, journal, s->v->trace->journal.file.fd)
               ? fail_with_errno(s, "cannot be removed", journal)
               : 0;
}

// ---- into another file --------------------------------------------------------------------------

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

// ---- the command --------------------------------------------------------------------------------

// Returns 0 if the trace can be sealed, 1 if it needs no seal, -1 on an error.
static int check_trace(struct seal *s) {
    const struct ct_trace *t = s->v->trace;
    const char *name = t->source.name;
    if (!t->journal.path)
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                            "%s: name a trace's file: its journal lies next to it", name);
    if (t->journal_found < 0)
        return ct_error_set(&s->error, CT_EXIT_BAD_TRACE, "%s", t->journal_error.text);
    if (!t->journal_found && !t->ended && !t->sealed)
        return ct_error_set(&s->error, CT_EXIT_INCOMPLETE,
                            "%s: no clean end, and no journal %s%s: nothing can be added", name,
                            name, CT_JOURNAL_SUFFIX);
    if (t->journal_found && t->journal.alive)
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                            "%s: process %" PRIu32 " is still recording; end it first (or --force)",
                            name, t->journal.head.pid);
    return !t->journal_found && !s->v->options->output;
}

static void print_result(const struct seal *s, int nothing) {
    struct ct_view *v = s->v;
    struct ct_json json = {.out = v->out}, *j = &json;
    if (v->options->json) {
        ct_document_begin_bare(j, v);
        if (v->options->output)
            ct_json_text(j, "output", v->options->output);
        else
            ct_json_null(j, "output");
        ct_json_number_or_null(j, "added_events", !nothing, v->trace->journal.folded);
        ct_json_number(j, "events", v->trace->events);
        ct_json_number(j, "torn_events", v->trace->torn);
        ct_document_end(j);
        return;
    }
    ct_utf8_print_sanitized(v->out, s->source->name, strlen(s->source->name));
    if (nothing)
        fputs(": needs no seal\n", v->out);
    else
        fprintf(v->out, ": added %s event%s from its journal, %s in all\n",
                ct_human_count(v->trace->journal.folded).text,
                ct_human_plural(v->trace->journal.folded), ct_human_count(v->trace->events).text);
}

int ct_view_seal(struct ct_view *v) {
    struct seal s = {.v = v, .source = &v->trace->source, .at = ct_trace_append_offset(v->trace)};
    const char *output = v->options->output;
    signal(SIGXFSZ, SIG_IGN);
    const int nothing = check_trace(&s);
    if (nothing < 0 || (!nothing && (output ? seal_to(&s, output) : seal_in_place(&s)))) {
        ct_terminal_warn(s.error.text);
        return s.error.status;
    }
    print_result(&s, nothing);
    return CT_EXIT_OK;
}
