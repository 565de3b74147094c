// SPDX-License-Identifier: Apache-2.0
#include "views/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/start_up.h"
#include "answer/summary_read.h"
#include "base/input_file.h"
#include "base/utf8.h"
#include "diagnose/text_verdicts.h"
#include "print/companions_print.h"
#include "print/document.h"
#include "print/trace_state.h"
#include "print/verdict.h"
#include "question/pass.h"
#include "text/read_text.h"
#include "views/views.h"

static const char adds[] =
    "which call sites held the device when it failed, what its pools and everything outside of "
    "them had, who else was there, and what grew before";

// ---- a trace ------------------------------------------------------------------------------------

static void print_command(struct ct_view *v, const char *command) {
    fprintf(v->out, "cutrace-report %s ", command);
    ct_utf8_print_sanitized(v->out, v->trace->source.name, strlen(v->trace->source.name));
    putc('\n', v->out);
}

static int note_start_up(void *self, const struct ct_replay *r, const struct ct_event *e,
                         uint64_t number) {
    (void)r;
    (void)number;
    ct_start_up_note_event(self, e);
    return 1;
}

// When the start-up before the OOM ended, in a pass of its own; 0: not known.
static uint64_t find_start_up(struct ct_view *v, const struct ct_summary *s) {
    struct ct_start_up u = {.phases = v->phases};
    const struct ct_listener listener = {
        .self = &u, .end_ns = s->crossing->t_ns, .before = note_start_up};
    ct_pass_run_one(NULL, v->trace, &listener);
    const uint64_t end = ct_start_up_end(&u);
    ct_start_up_free(&u);
    return end;
}

// What the OOM's moment has more than the end of the start-up, part by part.
static void print_difference(struct ct_view *v, const struct ct_summary *s) {
    char command[64];
    if (!s->crossing || ct_start_up_has_phase(s->crossing->phase.phase))
        return;
    const uint64_t start = v->trace->start_ns, end = find_start_up(v, s);
    if (end <= start || end >= s->crossing->t_ns)
        return;
    const uint64_t ms = (end - start + 999999) / 1000000;
    (void)snprintf(command, sizeof command, "diff --at=%" PRIu64 ".%03u --at=oom", ms / 1000,
                   (unsigned)(ms % 1000));
    fputs("since the start-up: ", v->out);
    print_command(v, command);
}

static void print_trace_text(struct ct_view *v, const struct ct_summary *s) {
    enum { MOST = 3 };
    if (s->has_moment)
        ct_verdict_print_moment(v, &s->moment);
    ct_verdicts_print(v, &s->verdicts, MOST);
    ct_companions_print(v, NULL);
    ct_trace_state_print_line(v, &s->scan);
    fputs(v->terminal->dim, v->out);
    print_difference(v, s);
    fputs("next: ", v->out);
    print_command(v, s->crossing ? "oom" : "top");
    fputs(v->terminal->reset, v->out);
}

static void print_trace_json(struct ct_view *v, const struct ct_summary *s) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, &s->scan);
    ct_document_add_moment_or_null(j, s->v->trace, s->has_moment ? &s->moment : NULL);
    ct_verdicts_add_json(j, &s->verdicts, v->sites);
    ct_companions_add_json(j, v, &s->scan.incidents);
    ct_document_end(j);
}

// The verdicts of an open trace in full, with their evidence and advice.
int ct_view_explain(struct ct_view *v) {
    struct ct_summary s;
    ct_summary_read(&s, v);
    if (v->options->json)
        print_trace_json(v, &s);
    else
        print_trace_text(v, &s);
    ct_summary_free(&s);
    return CT_EXIT_OK;
}

// ---- a text -------------------------------------------------------------------------------------

// Whether a trace of GPU memory would say more: not where none was missing.
static int helps(const struct ct_verdicts *l) {
    const enum ct_scenario first = l->count ? l->list[0].scenario : CT_SCENARIO_UNKNOWN;
    return first != CT_SCENARIO_NONE && first != CT_SCENARIO_HOST_MEMORY &&
           first != CT_SCENARIO_DRIVER_MISMATCH;
}

static void print_json(const struct ct_view *v, const char *path, const struct ct_text_facts *f,
                       const struct ct_verdicts *l) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_explain_begin_json(j, path, l);
    ct_log_add_json(j, f, v->options);
    ct_json_null(j, "snapshot");
    ct_explain_end_json(j, adds);
}

static void print_text(struct ct_view *v, const struct ct_text_facts *f,
                       const struct ct_verdicts *l) {
    ct_verdicts_print(v, l, 3);
    fprintf(v->out, "from %s of text, with %s; no trace was read\n",
            ct_human_counted(f->lines, "line").text,
            ct_human_counted(f->found, "known statement").text);
    (void)ct_log_print(v, f);
    if (helps(l))
        ct_explain_print_adds(v, adds);
}

static void print_facts(struct ct_view *v, const char *path, const struct ct_text_facts *f) {
    struct ct_verdicts l = {0};
    ct_text_verdicts_find(f, &l);
    v->out = v->options->json ? stdout : ct_terminal_open_text(v->terminal, stdout);
    if (v->options->json)
        print_json(v, path, f, &l);
    else
        print_text(v, f, &l);
    ct_verdicts_free(&l);
}

// ---- the input ----------------------------------------------------------------------------------

static int fail_read(const char *path, struct ct_error *error) {
    return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: %s", path, strerror(errno));
}

int ct_explain_open(struct ct_explain_input *i, const char *path, struct ct_error *error) {
    const char *why = "no reason is known";
    i->path = path;
    i->in = strcmp(path, "-") == 0 ? stdin : ct_input_file_open_stream(path, &why);
    if (!i->in)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: cannot be opened: %s", path, why);
    i->n = fread(i->ahead, 1, sizeof i->ahead, i->in);
    return ferror(i->in) ? fail_read(path, error) : 0;
}

void ct_explain_close(struct ct_explain_input *i) {
    if (i->in && i->in != stdin)
        fclose(i->in);
    i->in = NULL;
}

int ct_explain_is_trace(const struct ct_explain_input *i) {
    return ct_file_kind_find(i->ahead, i->n) == CT_FILE_TRACE;
}

int ct_explain_is_trace_file(const char *path) {
    struct ct_explain_input i = {.n = 0};
    struct ct_error error;
    if (ct_source_is_named(path))
        return 1;
    if (strcmp(path, "-") == 0 || ct_explain_open(&i, path, &error))
        return 0;
    const int is_trace = ct_explain_is_trace(&i);
    ct_explain_close(&i);
    return is_trace;
}

// Copies what was read and the rest.
static int copy(struct ct_explain_input *i, FILE *to) {
    char bytes[1 << 16];
    size_t n;
    (void)fwrite(i->ahead, 1, i->n, to);
    while (!ferror(to) && (n = fread(bytes, 1, sizeof bytes, i->in)) > 0)
        (void)fwrite(bytes, 1, n, to);
    return fflush(to) || ferror(to) || ferror(i->in) ? -1 : 0;
}

int ct_explain_make_seekable(struct ct_explain_input *i, struct ct_error *error) {
    struct stat st;
    if (fstat(fileno(i->in), &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    const int fd = memfd_create("trace", MFD_CLOEXEC);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    int status = to && copy(i, to) == 0 && dup2(fd, STDIN_FILENO) >= 0 ? 0 : -1;
    if (status)
        status = fail_read(i->path, error);
    i->path = "-";
    if (to)
        fclose(to);
    return status;
}

// ---- what it is ---------------------------------------------------------------------------------

static int explain_as_text(struct ct_view *v, const struct ct_explain_input *i,
                           struct ct_error *error) {
    struct ct_text_facts f;
    ct_text_facts_init(&f);
    const int status = ct_read_text_rest(i->ahead, i->n, i->in, &f) ? fail_read(i->path, error) : 0;
    if (!status)
        print_facts(v, i->path, &f);
    ct_text_facts_free(&f);
    return status;
}

// Explains a stream by what its first bytes say that it is.
static int explain(struct ct_view *v, const struct ct_explain_input *i, struct ct_error *error) {
    const enum ct_file_kind kind = ct_file_kind_find(i->ahead, i->n);
    switch (kind) {
    case CT_FILE_TEXT:
        return explain_as_text(v, i, error);
    case CT_FILE_PICKLE:
        return ct_explain_snapshot(v, i->path, i->ahead, i->n, i->in, error);
    default:
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: %s", i->path,
                            ct_file_kind_remedy(kind));
    }
}

int ct_explain_print(const struct ct_arguments *o, const struct ct_terminal *terminal,
                     struct ct_explain_input *i, struct ct_error *error) {
    struct ct_view v = {.options = o, .terminal = terminal};
    const int status = explain(&v, i, error);
    if (v.out && v.out != stdout)
        fclose(v.out);
    return status ? (int)error->status : CT_EXIT_OK;
}
