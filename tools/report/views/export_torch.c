// SPDX-License-Identifier: Apache-2.0
// export --format=torch: a window of the trace as a memory snapshot for PyTorch's own viewer.
#include "views/export_torch.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "export/torch_snapshot.h"
#include "print/document.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "question/question.h"

// The viewer takes seconds for each 100,000 entries, and fails at some hundred megabytes.
enum { DEFAULT_EVENTS = 100000 };

struct export {
    struct ct_view *v;
    struct ct_torch_snapshot snapshot;
    struct ct_new_file out;
    struct ct_error error;
    const char *path;
    char note[400];
    int some, oom_known; // the window has events; an OOM is among them
    uint64_t oom;
};

// ---- the window ---------------------------------------------------------------------------------

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

static void choose_window(struct export *x) {
    struct ct_view *v = x->v;
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
    choose_ooms(&x->snapshot, &s.incidents);
    x->oom_known = p.oom_known;
    x->oom = p.crossing ? p.crossing->event : 0;
    ct_scan_free(&s);
    // The window ends with the OOM, unless all events or those of a range are asked for.
    if (p.oom_known && !(ranged && !o->events) && o->events != UINT64_MAX)
        p.last = x->oom;
    if (p.last - p.first >= most)
        p.first = p.last - most + 1;
    if (!p.some) // only the state at that time
        p.first = p.last = UINT64_MAX;
    x->some = p.some;
    x->snapshot.window = (struct ct_export_window){p.first, p.last, v->from_ns, v->to_ns};
}

// ---- the file -----------------------------------------------------------------------------------

static int make_file(struct export *x) {
    struct ct_pickle *p = ct_heap_resize(NULL, 1, sizeof *p);
    int rc = ct_new_file_open(&x->out, x->path);
    if (!rc) {
        ct_pickle_begin(p, &x->out);
        ct_torch_snapshot_export(&x->snapshot, x->v->trace, p);
        rc = ct_pickle_end(p) || ct_new_file_commit(&x->out);
    }
    if (rc)
        x->error = x->out.error;
    free(p);
    return rc;
}

// ---- what was written ---------------------------------------------------------------------------

static int is_shown(const struct ct_export_shown *d) {
    return d->segments || d->live_bytes;
}

static void print_text(struct export *x) {
    struct ct_view *v = x->v;
    const struct ct_torch_snapshot *s = &x->snapshot;
    ct_utf8_print_sanitized(v->out, x->path, strlen(x->path));
    fprintf(v->out, ": %s entries", ct_human_count(s->entries).text);
    if (x->some)
        fprintf(v->out, ", from event %" PRIu64 " to %" PRIu64 "%s", s->window.first,
                s->window.last, x->oom_known && x->oom == s->window.last ? ", the OOM" : "");
    putc('\n', v->out);
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_export_shown *shown = &s->shown[d];
        if (!is_shown(shown))
            continue;
        fprintf(v->out, "  %s at its end: %s in %s segment%s; PyTorch's: %s with %s in %s block%s",
                ct_label_device(d).text, ct_label_size(v, shown->segment_bytes).text,
                ct_human_count(shown->segments).text, ct_human_plural(shown->segments),
                ct_label_size(v, shown->torch_segment_bytes).text,
                ct_label_size(v, shown->block_bytes).text, ct_human_count(shown->blocks).text,
                ct_human_plural(shown->blocks));
        if (shown->segment_bytes != shown->live_bytes)
            fprintf(v->out, "; allocated from the driver: %s",
                    ct_label_size(v, shown->live_bytes).text);
        putc('\n', v->out);
    }
    fputs(
        "  drop it on https://pytorch.org/memory_viz, or: python -m torch.cuda._memory_viz stats FILE\n",
        v->out);
}

static void print_json(struct export *x) {
    struct ct_view *v = x->v;
    const struct ct_torch_snapshot *s = &x->snapshot;
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_json_text(j, "output", x->path);
    ct_json_text(j, "format", "torch");
    ct_json_number(j, "bytes", x->out.bytes);
    ct_json_number(j, "entries", s->entries);
    ct_json_number_or_null(j, "from_event", x->some, s->window.first);
    ct_json_number_or_null(j, "to_event", x->some, s->window.last);
    ct_json_number_or_null(j, "oom_event", x->oom_known, x->oom);
    ct_document_add_recording(j, v->trace);
    ct_document_add_gap(j, v);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_export_shown *shown = &s->shown[d];
        if (!is_shown(shown))
            continue;
        ct_json_open(j, NULL, '{');
        ct_document_add_device(j, "ordinal", d);
        ct_json_number(j, "live_bytes", shown->live_bytes);
        ct_json_number(j, "segments", shown->segments);
        ct_json_number(j, "segment_bytes", shown->segment_bytes);
        ct_json_number(j, "torch_segment_bytes", shown->torch_segment_bytes);
        ct_json_number(j, "blocks", shown->blocks);
        ct_json_number(j, "block_bytes", shown->block_bytes);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_document_end(j);
}

int ct_export_torch(struct ct_view *v, const char *path) {
    struct export *x = ct_heap_alloc_zeroed(1, sizeof *x);
    x->v = v;
    x->snapshot.sites = v->sites;
    x->snapshot.device = v->options->device;
    x->path = path;
    choose_window(x);
    x->snapshot.note = ct_trace_state_estimate(v->trace, x->note, sizeof x->note) ? x->note : NULL;
    ct_torch_snapshot_prepare(&x->snapshot, v->trace);
    const int rc = make_file(x);
    if (rc)
        ct_terminal_warn(x->error.text);
    else if (v->options->json)
        print_json(x);
    else
        print_text(x);
    const int status = rc ? (int)x->error.status : CT_EXIT_OK;
    ct_torch_snapshot_free(&x->snapshot);
    free(x);
    return status;
}
