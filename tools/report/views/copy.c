// SPDX-License-Identifier: Apache-2.0
// copy: writes a copy of a trace, whole or of a range of time, without names that say who or where,
// with source lines. --seal writes none: it puts what only the journal has into the trace itself.
#include "views/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/journal_file.h"
#include "base/utf8.h"
#include "copy/seal_trace.h"
#include "print/document.h"
#include "read/new_file.h"
#include "views/views.h"

// ---- what is said of the copies -----------------------------------------------------------------

void ct_copy_part_note(struct ct_copy_part *part, const struct ct_trace *t) {
    part->trace = t->source.name;
    part->has_journal = t->journal_found > 0;
    part->added_events = t->journal.folded;
    part->torn_events = t->torn;
}

void ct_copy_part_free(struct ct_copy_part *part) {
    ct_source_locations_free(&part->lines);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_replaced(struct ct_json *j, const struct ct_scrub *s) {
    ct_json_text(j, "scrub", ct_scrub_level_name(s ? s->level : CT_SCRUB_NO));
    ct_json_open(j, "replaced", '[');
    for (unsigned i = 0; i < CT_SCRUB_CLASS_COUNT && s && s->level != CT_SCRUB_NO; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "class", ct_scrub_class_name((enum ct_scrub_class)i));
        ct_json_number(j, "names", s->replaced[i]);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_lines(struct ct_json *j, const struct ct_source_locations *l, int symbolize) {
    ct_json_number_or_null(j, "frames", symbolize, l->frames);
    ct_json_number_or_null(j, "frames_with_lines", symbolize, l->with_lines);
    ct_json_open(j, "modules_without_lines", '[');
    for (size_t i = 0; i < l->module_count; i++) {
        const struct ct_module_without_lines *m = &l->modules[i];
        ct_json_open(j, NULL, '{');
        ct_document_add_string(j, "module", &m->path);
        ct_json_number(j, "frames", m->frames);
        ct_json_text_or_null(j, "why", m->why);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_part(struct ct_json *j, const struct ct_copy_part *p, int symbolize) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "trace", p->trace);
    ct_json_number(j, "events", p->copied.events);
    ct_json_number(j, "events_before", p->copied.before);
    ct_json_number(j, "events_after", p->copied.after);
    ct_json_bool(j, "begins_earlier", p->copied.moved);
    ct_json_number_or_null(j, "added_events", p->has_journal, p->added_events);
    ct_json_number(j, "torn_events", p->torn_events);
    add_lines(j, &p->lines, symbolize);
    ct_json_close(j, '}');
}

static void print_json(const struct ct_copy_result *r, FILE *out) {
    const struct ct_arguments *o = r->options;
    struct ct_json json = {.out = out}, *j = &json;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", "cutrace.copy/1");
    ct_json_text_or_null(j, "output", o->output);
    ct_json_number(j, "bytes", r->bytes);
    add_replaced(j, r->scrub);
    ct_json_open(j, "traces", '[');
    for (size_t i = 0; i < r->count; i++)
        add_part(j, &r->parts[i], o->symbolize);
    ct_json_close(j, ']');
    ct_document_end(j);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_written(const struct ct_copy_result *r, FILE *out) {
    const struct ct_arguments *o = r->options;
    struct ct_copied all = {0};
    for (size_t i = 0; i < r->count; i++) {
        all.events += r->parts[i].copied.events;
        all.before += r->parts[i].copied.before;
        all.after += r->parts[i].copied.after;
        all.moved |= r->parts[i].copied.moved;
    }
    fputs("wrote ", out);
    ct_utf8_print_sanitized(out, o->output, strlen(o->output));
    fprintf(out, " (%s): ", ct_human_bytes(r->bytes, o->units).text);
    if (r->count > 1)
        fprintf(out, "%zu traces, ", r->count);
    fprintf(out, "%s", ct_human_counted(all.events, "event").text);
    if (o->from.kind || o->to.kind)
        fprintf(out, "; left out: %s before, %s after", ct_human_count(all.before).text,
                ct_human_count(all.after).text);
    fputc('\n', out);
    if (all.moved)
        fputs("it begins earlier than asked for: there the state is not known in full\n", out);
}

static void print_replaced(const struct ct_copy_result *r, FILE *out) {
    const struct ct_scrub *s = r->scrub;
    fprintf(out, "--scrub=%s replaced these different names:\n", ct_scrub_level_name(s->level));
    for (unsigned i = 0; i < CT_SCRUB_CLASS_COUNT; i++)
        fprintf(out, "%8" PRIu64 "  %s\n", s->replaced[i],
                ct_scrub_class_plural((enum ct_scrub_class)i));
}

static void print_lines(const struct ct_source_locations *l, FILE *out) {
    fprintf(out, "lines for %s of %s native frames that had none\n",
            ct_human_count(l->with_lines).text, ct_human_count(l->frames).text);
    for (size_t i = 0; i < l->module_count; i++) {
        const struct ct_module_without_lines *m = &l->modules[i];
        fprintf(out, "%8s without: ", ct_human_count(m->frames).text);
        ct_utf8_print_sanitized(out, m->path.at, m->path.length);
        fprintf(out, "%s%s\n", m->why ? ": " : "", m->why ? m->why : "");
    }
}

static void print_text(const struct ct_copy_result *r, FILE *out) {
    print_written(r, out);
    if (r->scrub && r->scrub->level != CT_SCRUB_NO)
        print_replaced(r, out);
    for (size_t i = 0; i < r->count && r->options->symbolize; i++) {
        if (r->count > 1) {
            ct_utf8_print_sanitized(out, r->parts[i].trace, strlen(r->parts[i].trace));
            fputs(": ", out);
        }
        print_lines(&r->parts[i].lines, out);
    }
}

void ct_copy_result_print(const struct ct_copy_result *r, FILE *out) {
    if (r->options->json)
        print_json(r, out);
    else
        print_text(r, out);
}

// ---- a new file ---------------------------------------------------------------------------------

static int put(void *file, const void *bytes, size_t n) {
    return ct_new_file_write(file, bytes, n);
}

// Without success nothing is left of the file.
static int write_file(struct ct_view *v, struct ct_copy_request *request, struct ct_copy_result *r,
                      struct ct_error *error) {
    struct ct_new_file file;
    *error = (struct ct_error){.status = CT_EXIT_OK};
    request->put = put;
    request->user = &file;
    const int rc = ct_new_file_open(&file, v->options->output) ||
                   ct_copy_trace(v->trace, request, &r->parts->copied, error) ||
                   ct_new_file_commit(&file);
    if (rc && !*error->text)
        *error = file.error;
    ct_new_file_discard(&file);
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
        fprintf(out, ": added %s from its journal, %s in all\n",
                ct_human_counted(t->journal.folded, "event").text, ct_human_count(t->events).text);
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
