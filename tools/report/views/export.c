// SPDX-License-Identifier: Apache-2.0
// export: writes the trace in the format of another tool.
#include <inttypes.h>
#include <string.h>

#include "answer/new_trace.h"
#include "answer/view.h"
#include "base/utf8.h"
#include "export/tables.h"
#include "export/torch_snapshot.h"
#include "print/document.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "question/question.h"
#include "read/new_file.h"
#include "views/views.h"

// The keys of --json are those of every format; the snapshot for PyTorch has values for all.
struct job {
    struct ct_export x;
    struct ct_new_file file;
    struct ct_error error;
    char path[4200];
    // Of --format=torch: a window of the trace as a memory snapshot for PyTorch's own viewer.
    struct ct_torch_snapshot snapshot;
    int some, oom_known; // the window has events; an OOM is among them
    uint64_t oom;
};

// ---- a snapshot for PyTorch ---------------------------------------------------------------------

// The viewer takes seconds for each 100,000 entries, and fails at some hundred megabytes.
enum { DEFAULT_EVENTS = 100000 };

// The events without a gap before them up to the end of the window: nothing before a gap counts.
struct part {
    const struct ct_view *v;
    const struct ct_oom_event *crossing;
    uint64_t first, last; // events in the range
    int some, oom_known;  // there are any; the crossing is among them
};

static void find_part(struct part *p, struct ct_trace *t) {
    const struct ct_view *v = p->v;
    struct ct_event e;
    uint64_t number;
    int gap = 0;
    ct_trace_rewind(t);
    for (enum ct_step step; (step = ct_trace_step(t, &e, &number)) != CT_STEP_END;) {
        if (step == CT_STEP_RESET && p->oom_known)
            return;
        gap |= step == CT_STEP_RESET;
        if (step != CT_STEP_EVENT)
            continue;
        if (e.t_ns > v->to_ns)
            return;
        if (gap || (!p->some && e.t_ns >= v->from_ns))
            p->first = number;
        gap = 0;
        if (e.t_ns < v->from_ns)
            continue;
        p->some = 1;
        p->last = number;
        p->oom_known |= p->crossing && number == p->crossing->event;
    }
}

// PyTorch has one entry for each OutOfMemoryError, and none where its retry succeeded.
static void choose_ooms(struct ct_torch_snapshot *to, const struct ct_incidents *n) {
    for (size_t k = 0; k < n->count; k++) {
        const struct ct_oom_event *head = ct_incidents_head(n, k);
        if (!n->list[k].retried && ct_incidents_is_device_memory(head))
            *ct_map_add(&to->ooms, head->event) = 1;
    }
}

static void choose_window(struct ct_view *v, struct job *j) {
    const struct ct_arguments *o = v->options;
    struct ct_scan s;
    struct part p = {.v = v};
    const struct ct_scan_request request = ct_view_scan_request(v);
    const int ranged = o->from.kind || o->to.kind;
    uint64_t most = ranged ? UINT64_MAX : DEFAULT_EVENTS;
    if (o->events)
        most = o->events;
    ct_question_scan(&s, v->trace, &request, NULL);
    p.crossing = ct_scan_find_crossing(&s);
    find_part(&p, v->trace);
    choose_ooms(&j->snapshot, &s.incidents);
    j->oom_known = p.oom_known;
    j->oom = p.crossing ? p.crossing->event : 0;
    ct_scan_free(&s);
    // The window ends with the OOM, unless all events or those of a range are asked for.
    if (p.oom_known && !(ranged && !o->events) && o->events != UINT64_MAX)
        p.last = j->oom;
    if (p.last - p.first >= most)
        p.first = p.last - most + 1;
    if (!p.some) // only the state at that time
        p.first = p.last = UINT64_MAX;
    j->some = p.some;
    j->snapshot.window = (struct ct_export_window){p.first, p.last, v->from_ns, v->to_ns};
}

static int write_snapshot(struct ct_view *v, struct job *j) {
    struct ct_torch_snapshot *s = &j->snapshot;
    struct ct_pickle *p = ct_heap_resize(NULL, 1, sizeof *p);
    char note[400];
    s->sites = v->sites;
    s->device = v->options->device;
    choose_window(v, j);
    s->note = ct_trace_state_estimate(v->trace, note, sizeof note) ? note : NULL;
    ct_torch_snapshot_prepare(s, v->trace);
    ct_pickle_begin(p, &j->file);
    ct_torch_snapshot_export(s, v->trace, p);
    const int rc = ct_pickle_end(p);
    j->x.entries = s->entries;
    ct_torch_snapshot_free(s);
    free(p);
    return rc;
}

// ---- other formats ------------------------------------------------------------------------------

enum { BUFFER = 1 << 16 }; // of a stream

#define CT_WRITER_STREAM(name) ct_export_write_##name
#define CT_WRITER_FILE(name) ct_export_write_##name
#define CT_WRITER_SNAPSHOT(name) NULL
static ct_export_write *const writers[CT_EXPORT_FORMATS] = {
#define CT_EXPORT_FORMAT(name, ending, output, options, help) CT_WRITER_##output(name),
#include "export/formats.def"
};

// After the first failure the file is closed, and nothing more is written.
static ssize_t write_bytes(void *cookie, const char *bytes, size_t n) {
    struct ct_new_file *file = cookie;
    return file->fd < 0 || ct_new_file_write(file, bytes, n) ? 0 : (ssize_t)n;
}

// A stream into the file, which must be open, and stay so until the stream is closed. A failed
// write is an error of the stream (ferror), and `error` of the file has the reason.
static FILE *open_stream(struct ct_new_file *file) {
    FILE *out = fopencookie(file, "w", (cookie_io_functions_t){.write = write_bytes});
    if (!out)
        ct_heap_exhausted();
    (void)setvbuf(out, NULL, _IOFBF, BUFFER);
    return out;
}

static int write_stream(struct job *j, ct_export_write *write) {
    j->x.out = open_stream(&j->file);
    int rc = write(&j->x, &j->error);
    if (fclose(j->x.out) || j->file.fd < 0)
        rc = -1;
    return rc;
}

static int write_format(struct job *j, enum ct_export_format format) {
    ct_export_prepare(&j->x);
    j->x.file = &j->file;
    const int rc = ct_export_formats[format].output == CT_OUTPUT_STREAM
                       ? write_stream(j, writers[format])
                       : writers[format](&j->x, &j->error);
    ct_export_release(&j->x);
    return rc;
}

static int write_file(struct ct_view *v, struct job *j) {
    const enum ct_export_format format = v->options->format;
    const int is_snapshot = ct_export_formats[format].output == CT_OUTPUT_SNAPSHOT;
    const int rc = ct_new_file_open(&j->file, j->path) ||
                   (is_snapshot ? write_snapshot(v, j) : write_format(j, format)) ||
                   ct_new_file_commit(&j->file);
    if (rc && !*j->error.text)
        j->error = j->file.error;
    ct_new_file_discard(&j->file); // nothing after a commit
    return rc;
}

// ---- what was written ---------------------------------------------------------------------------

static int is_shown(const struct ct_export_shown *d) {
    return d->segments || d->live_bytes;
}

static void print_snapshot(const struct ct_view *v, const struct job *j) {
    const struct ct_torch_snapshot *s = &j->snapshot;
    fprintf(v->out, ": %s entries", ct_human_count(s->entries).text);
    if (j->some)
        fprintf(v->out, ", from event %" PRIu64 " to %" PRIu64 "%s", s->window.first,
                s->window.last, j->oom_known && j->oom == s->window.last ? ", the OOM" : "");
    putc('\n', v->out);
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_export_shown *shown = &s->shown[d];
        if (!is_shown(shown))
            continue;
        fprintf(v->out, "  %s at its end: %s in %s; PyTorch's: %s with %s in %s",
                ct_label_device(d).text, ct_label_size(v, shown->segment_bytes).text,
                ct_human_counted(shown->segments, "segment").text,
                ct_label_size(v, shown->torch_segment_bytes).text,
                ct_label_size(v, shown->block_bytes).text,
                ct_human_counted(shown->blocks, "block").text);
        if (shown->segment_bytes != shown->live_bytes)
            fprintf(v->out, "; allocated from the driver: %s",
                    ct_label_size(v, shown->live_bytes).text);
        putc('\n', v->out);
    }
    fputs(
        "  drop it on https://pytorch.org/memory_viz, or: python -m torch.cuda._memory_viz stats FILE\n",
        v->out);
}

static void print_text(const struct ct_view *v, const struct job *j) {
    const struct ct_export_format_row *row = &ct_export_formats[v->options->format];
    ct_utf8_print_sanitized(v->out, j->path, strlen(j->path));
    if (row->output == CT_OUTPUT_SNAPSHOT)
        print_snapshot(v, j);
    else
        fprintf(v->out, ": %s, %s\n", ct_label_size(v, j->file.bytes).text, row->help);
}

static void add_shown(struct ct_json *j, int device, const struct ct_export_shown *shown) {
    if (!is_shown(shown))
        return;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_json_number(j, "live_bytes", shown->live_bytes);
    ct_json_number(j, "segments", shown->segments);
    ct_json_number(j, "segment_bytes", shown->segment_bytes);
    ct_json_number(j, "torch_segment_bytes", shown->torch_segment_bytes);
    ct_json_number(j, "blocks", shown->blocks);
    ct_json_number(j, "block_bytes", shown->block_bytes);
    ct_json_close(j, '}');
}

static void print_json(const struct ct_view *v, const struct job *job) {
    const struct ct_torch_snapshot *s = &job->snapshot;
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_json_text(j, "output", job->path);
    ct_json_text(j, "format", ct_export_formats[v->options->format].name);
    ct_json_number(j, "bytes", job->file.bytes);
    ct_json_number(j, "entries", job->x.entries);
    ct_json_number_or_null(j, "from_event", job->some, s->window.first);
    ct_json_number_or_null(j, "to_event", job->some, s->window.last);
    ct_json_number_or_null(j, "oom_event", job->oom_known, job->oom);
    ct_document_add_recording(j, v->trace);
    ct_document_add_gap(j, v);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        add_shown(j, d, &s->shown[d]);
    ct_json_close(j, ']');
    ct_document_end(j);
}

static int export(struct ct_view *v, struct job *j) {
    j->x = (struct ct_export){.trace = v->trace,
                              .sites = v->sites,
                              .phases = v->phases,
                              .from_ns = v->from_ns,
                              .to_ns = v->to_ns,
                              .device = v->options->device,
                              .wanted = ct_view_scan_wanted_moment(v->options, CT_MOMENT_OOM),
                              .at = v->at,
                              .table = v->options->table};
    return write_file(v, j);
}

int ct_view_export(struct ct_view *v) {
    struct job *j = ct_heap_alloc_zeroed(1, sizeof *j);
    int status = CT_EXIT_OK;
    if (ct_output_name(v->options, v->trace->source.name,
                       ct_export_formats[v->options->format].ending, j->path, sizeof j->path,
                       &j->error) ||
        export(v, j)) {
        ct_terminal_warn(j->error.text);
        status = (int)j->error.status;
    } else if (v->options->json) {
        print_json(v, j);
    } else {
        print_text(v, j);
    }
    free(j);
    return status;
}
