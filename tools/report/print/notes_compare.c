// SPDX-License-Identifier: Apache-2.0
#include "print/notes_compare.h"

#include <string.h>

#include "base/heap.h"
#include "read/recorder_notes.h"

static int is_of_whole_trace(const struct ct_summary *s) {
    const struct ct_arguments *o = s->v->options;
    const struct ct_trace *t = s->v->trace;
    return o->device < 0 && !o->capacity && !s->has_moment && o->from.kind == CT_TIME_NONE &&
           o->to.kind == CT_TIME_NONE && !t->index.damages && !t->index.missing &&
           !t->missing_events;
}

// Whether a noted count or size contradicts that of the events, which may be of more chunks.
static int differs(uint64_t noted, uint64_t found, int is_whole) {
    return is_whole ? noted != found : noted > found;
}

static const char *compare_counts(const struct ct_summary *s, const struct ct_recorder_notes *n,
                                  int is_whole) {
    for (unsigned op = 0; op < CT_OPS_END; op++)
        if (op && differs(n->ops[op], s->scan.ops[op], is_whole))
            return "the numbers of events";
    if (differs(n->failed, s->scan.incidents.oom_count, is_whole))
        return "the failed requests";
    if (n->lost > s->scan.lost)
        return "the lost events";
    return NULL;
}

static const char *compare_device(const struct ct_summary *s, const struct ct_recorder_notes *n,
                                  int device, int is_whole) {
    const struct ct_noted_device *d = &n->device[device];
    const struct ct_device_scan *found = &s->scan.device[device];
    if (d->has_peak && differs(d->peak_bytes, found->peak_bytes, d->peak_is_exact))
        return "the peak of live memory";
    if (is_whole && n->live_is_known && !n->failed_frees &&
        d->live_bytes != s->scan.end.live.device[device].live_bytes)
        return "what is live at the end";
    return NULL;
}

static const char *compare(const struct ct_summary *s) {
    struct ct_recorder_notes *n = ct_heap_resize(NULL, 1, sizeof *n);
    ct_recorder_notes_read(n, s->v->trace, NULL);
    const int is_whole = ct_recorder_notes_are_whole(n, s->v->trace);
    const char *what = n->noted ? compare_counts(s, n, is_whole) : NULL;
    for (int i = 0; i < CT_DEVICES && n->noted && !what; i++)
        what = compare_device(s, n, i, is_whole);
    ct_recorder_notes_free(n);
    free(n);
    return what;
}

void ct_notes_compare_warn(const struct ct_summary *s) {
    const char *what = is_of_whole_trace(s) ? compare(s) : NULL;
    struct ct_error text;
    if (!what)
        return;
    (void)ct_error_set(&text, CT_EXIT_OK,
                       "warning: %.300s: what the recorder noted of %s differs from the events, "
                       "which count here; `cutrace-report info` names the chunks",
                       s->v->trace->source.name, what);
    ct_terminal_warn(text.text);
}
