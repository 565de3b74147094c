// SPDX-License-Identifier: Apache-2.0
// What the views share.
#include "views/common.h"

#include <inttypes.h>

#include "base/utf8.h"

// ---- text ------------------------------------------------------------------------------------------

void ct_print_label(struct ct_view *v, const char *label, size_t column) {
    const size_t width = v->term->width;
    if (!v->term->is_terminal || column + ct_utf8_columns(label) <= width) {
        fputs(label, v->out);
        return;
    }
    for (size_t at = column; *label && at + 3 < width; at++) {
        putc(*label++, v->out);
        while (((unsigned char)*label & 0xC0) == 0x80)
            putc(*label++, v->out);
    }
    fputs("...", v->out);
}

struct ct_human_text ct_label_time(const struct ct_view *v, uint64_t t_ns) {
    const uint64_t start = v->trace->start_ns;
    return ct_human_elapsed(t_ns > start ? t_ns - start : 0);
}

struct ct_human_text ct_label_size(const struct ct_view *v, uint64_t bytes) {
    return ct_human_bytes(bytes, v->options->units);
}

struct ct_human_text ct_label_device(int device) {
    struct ct_human_text s = {"GPU ?"};
    if (device < CT_MAX_DEVICES)
        (void)snprintf(s.text, sizeof s.text, "GPU %d", device);
    return s;
}

struct ct_human_text ct_label_wall_clock(const struct ct_view *v, uint64_t t_ns) {
    uint64_t monotonic, realtime;
    struct ct_human_text none = {""};
    if (!ct_definitions_info_number(&v->trace->definitions, "clock.monotonic_ns", &monotonic) ||
        !ct_definitions_info_number(&v->trace->definitions, "clock.realtime_ns", &realtime))
        return none;
    return ct_human_utc(realtime + (t_ns - monotonic));
}

void ct_label_api(const struct ct_view *v, uint32_t api, char *to, size_t size) {
    const struct ct_string *s = &v->trace->definitions.strings[api];
    if (api)
        ct_utf8_sanitize(to, size, s->at, s->length);
    else
        (void)snprintf(to, size, "an unknown call");
}

// What is behind the frames that were shown: `more` of those that say who asked, and what the stack ends with.
static void rest_of(struct ct_view *v, const struct ct_shown_frames *a, unsigned more, char *to,
                    size_t size) {
    const char *end = ct_call_sites_end_text(&v->trace->definitions, a->stack);
    const uint32_t hidden = ct_call_sites_count_hidden(a);
    size_t at = 0;
    *to = 0;
    if (more)
        at += (size_t)snprintf(to + at, size - at, "%u more", more);
    else if (end)
        at += (size_t)snprintf(to + at, size - at, "%s", end);
    if (hidden)
        (void)snprintf(to + at, size - at, "%s%" PRIu32 " hidden", at ? ", " : "", hidden);
}

static unsigned count_rest(struct ct_shown_frames a) {
    unsigned n = 0;
    for (; a.node; ct_call_sites_next_frame(&a))
        n++;
    return n;
}

// The frame's label, and how often it comes in a row (a recursion); goes on to the next one.
static void next_label(struct ct_shown_frames *a, char *to, size_t size) {
    const struct ct_call_tree_node *nodes = a->sites->definitions->nodes;
    const struct ct_shown_frames first = *a;
    unsigned times = 0;
    ct_call_sites_shown_label(a, to, size - 24);
    for (; a->node && nodes[a->node].frame == nodes[first.node].frame && a->location == first.location;
         ct_call_sites_next_frame(a))
        times++;
    const size_t n = strlen(to);
    if (times > 1)
        (void)snprintf(to + n, size - n, " (%u times)", times);
}

void ct_print_callers(struct ct_view *v, uint32_t stack, unsigned most, size_t column) {
    char line[2000] = "", label[400], rest[100];
    struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, stack);
    size_t at = 0;
    for (unsigned i = 0; a.node && i < most; i++) {
        next_label(&a, label, sizeof label);
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", i ? " <- " : "", label);
    }
    rest_of(v, &a, count_rest(a), rest, sizeof rest);
    if (*rest)
        (void)snprintf(line + at, sizeof line - at, " ... %s", rest);
    ct_print_label(v, line, column);
}

static void put_line(struct ct_view *v, const char *text, size_t column, unsigned *lines) {
    if ((*lines)++)
        fprintf(v->out, "\n%*s", (int)column, "");
    ct_print_label(v, text, column);
}

void ct_print_stack(struct ct_view *v, uint32_t stack, unsigned most, size_t column) {
    char text[400], rest[100];
    struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, stack);
    unsigned lines = 0;
    while (a.node && (lines < most || v->sites->all_frames)) {
        next_label(&a, text, sizeof text);
        put_line(v, text, column, &lines);
    }
    rest_of(v, &a, count_rest(a), rest, sizeof rest);
    (void)snprintf(text, sizeof text, "... %s%s", rest,
                   strstr(rest, "hidden") ? " (--all-frames)" : "");
    if (*rest)
        put_line(v, text, column, &lines);
}

void ct_print_oom_reason(struct ct_view *v, const struct ct_refusal *r, const struct ct_oom_reason *w) {
    switch (w->why) {
    case CT_OOM_REASON_NOT_ENOUGH_FREE:
        fprintf(v->out, "%s more than the %s that was free", ct_label_size(v, w->rounded - w->free).text,
                ct_label_size(v, w->free).text);
        if (r->reading_known && w->rounded > r->total)
            fputs("; the whole device has less", v->out);
        break;
    case CT_OOM_REASON_ENOUGH_FREE:
        fprintf(v->out,
                "%s was free in total: in pieces, needed by the driver itself, or held back by a "
                "limit (inferred)",
                ct_label_size(v, w->free).text);
        break;
    case CT_OOM_REASON_HOST_MEMORY:
        fputs("page-locked host memory was refused; the GPU's memory is not the reason", v->out);
        break;
    case CT_OOM_REASON_ADDRESS_SPACE:
        fputs("address space was refused, not memory", v->out);
        break;
    case CT_OOM_REASON_BUDGET:
        fprintf(v->out, "%s of the %s asked about was in use (%s)",
                ct_label_size(v, r->split.used_known ? r->split.used : r->split.tracked).text,
                ct_label_size(v, v->options->capacity).text,
                !r->split.used_known ? "this process's allocations alone"
                : r->split.moved_on  ? "last reading and what was allocated since"
                                     : "as read from the device");
        break;
    case CT_OOM_REASON_POOL_LIMIT:
        fputs("PyTorch refused it without asking the driver: a limit of its own, as a memory "
              "fraction is (inferred)",
              v->out);
        break;
    case CT_OOM_REASON_UNKNOWN:
        fputs("how much was free is not known", v->out);
        break;
    }
}

void ct_print_site_groups(struct ct_view *v, const struct ct_site_groups *g, uint64_t whole, unsigned rows) {
    uint64_t bytes = 0, count = 0;
    const size_t shown = g->count <= rows + 1u ? g->count : rows;
    fprintf(v->out, "  %s%12s %8s %9s  call site%s\n", v->term->dim, "bytes", "share", "count",
            v->term->reset);
    for (size_t i = 0; i < g->count; i++) {
        if (i >= shown) {
            bytes += g->list[i].bytes;
            count += g->list[i].count;
            continue;
        }
        fprintf(v->out, "  %12s %8s %9s  ", ct_label_size(v, g->list[i].bytes).text,
                ct_human_percent(g->list[i].bytes, whole).text, ct_human_count(g->list[i].count).text);
        ct_print_label(v, g->list[i].label, 35);
        putc('\n', v->out);
    }
    if (g->count > shown)
        fprintf(v->out, "  %12s %8s %9s  %zu more call sites\n", ct_label_size(v, bytes).text,
                ct_human_percent(bytes, whole).text, ct_human_count(count).text, g->count - shown);
}

// ---- the scan -------------------------------------------------------------------------------------

struct ct_scan_request ct_view_scan_request(const struct ct_view *v) {
    return (struct ct_scan_request){.from_ns = v->from_ns,
                                    .to_ns = v->to_ns,
                                    .device = v->options->device,
                                    .capacity = v->options->capacity};
}

struct ct_scan_request ct_view_scan_request_pools(const struct ct_view *v) {
    struct ct_scan_request request = ct_view_scan_request(v);
    request.points = CT_POINTS;
    return request;
}

void ct_view_scan_run(const struct ct_view *v, struct ct_scan *s,
                  const struct ct_scan_request *request) {
    char text[100];
    const int device = v->options->device;
    ct_scan_run(s, v->trace, request);
    if (device < 0 || s->device[device].seen)
        return;
    (void)snprintf(text, sizeof text, "warning: --device=%d: no event is of this GPU", device);
    ct_say(text);
}

uint64_t ct_view_scan_lost_events(const struct ct_view *v, const struct ct_scan *s) {
    uint64_t counted = 0;
    (void)ct_definitions_info_number(&v->trace->definitions, "recorder.lost_events", &counted);
    return (counted > s->lost ? counted : s->lost) + v->trace->missing_events;
}

int ct_view_scan_main_device(const struct ct_view *v, const struct ct_scan *s) {
    int best = -1;
    if (v->options->device >= 0)
        return v->options->device;
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].seen && (best < 0 || s->device[d].peak_bytes > s->device[best].peak_bytes))
            best = d;
    return best;
}

int ct_trace_state_estimate(const struct ct_trace *t, char *to, size_t size) {
    const struct ct_string *sample = ct_definitions_info(&t->definitions, "option.SAMPLE"),
                           *least = ct_definitions_info(&t->definitions, "option.MIN_SIZE");
    char n[40], bytes[40];
    if (!sample && !least)
        return 0;
    if (sample)
        ct_utf8_sanitize(n, sizeof n, sample->at, sample->length);
    if (least)
        ct_utf8_sanitize(bytes, sizeof bytes, least->at, least->length);
    size_t at = (size_t)snprintf(to, size, "an estimate: ");
    if (sample)
        at +=
            (size_t)snprintf(to + at, size - at,
                             "one allocation in %s was recorded (CUTRACE_SAMPLE=%s): multiply what "
                             "is allocated by %s%s",
                             n, n, n, least ? "; " : "");
    if (least)
        (void)snprintf(to + at, size - at,
                       "smaller allocations were not recorded (CUTRACE_MIN_SIZE=%s)", bytes);
    return 1;
}

void ct_trace_state_print_estimate(struct ct_view *v) {
    char text[400];
    if (ct_trace_state_estimate(v->trace, text, sizeof text))
        fprintf(v->out, "%s%s%s\n", v->term->bold, text, v->term->reset);
}

int ct_trace_state_print_overwritten(struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    if (!t->overwritten_events && t->index.chunks[0].head.seq == 0)
        return 0;
    if (!(t->index.chunks[0].head.flags & CT_CHUNK_RESTART) && t->index.chunks[0].head.seq) {
        fputs("the beginning was overwritten", v->out);
        return 1;
    }
    const struct ct_index_chunk *from = &t->index.chunks[0];
    for (size_t i = 0; i < t->index.count; i++)
        if (t->index.chunks[i].overwritten)
            from = &t->index.chunks[i];
    if (t->index.chunks[0].head.first_event == 0 || from != &t->index.chunks[0])
        fprintf(v->out, "%s of the events before %" PRIu64 " were overwritten",
                ct_human_count(t->overwritten_events).text, from->head.first_event);
    else
        fprintf(v->out, "events 0 to %" PRIu64 " were overwritten", t->overwritten_events - 1);
    fprintf(v->out, " (the file is a ring of %s)", ct_label_size(v, t->source.bytes).text);
    if (t->exact)
        fprintf(v->out, ", exact from %s on", ct_label_time(v, t->exact_from_ns).text);
    else
        fputs(", what was live then is not known in full", v->out);
    return 1;
}

int ct_trace_state_print_torn(struct ct_view *v) {
    const uint64_t n = v->trace->torn;
    if (n)
        fprintf(v->out, "%" PRIu64 " event%s being recorded when the process died", n,
                n == 1 ? " was" : "s were");
    return n != 0;
}

const char *ct_trace_state_end(const struct ct_trace *t) {
    return t->ended     ? NULL
           : t->running ? "still recording"
           : t->sealed  ? "the process was killed"
                        : "killed, or still running";
}

void ct_trace_state_print_line(struct ct_view *v, const struct ct_scan *s) {
    const struct ct_trace *t = v->trace;
    const uint64_t lost = ct_view_scan_lost_events(v, s);
    const char *end = ct_trace_state_end(t), *unclean = end && !t->running ? "no clean end: " : "";
    fprintf(v->out, "trace: %s event%s over %s; ", ct_human_count(t->events).text, ct_human_plural(t->events),
            ct_human_seconds(t->t_last_ns > t->t_first_ns ? t->t_last_ns - t->t_first_ns : 0).text);
    const int whole = ct_trace_is_complete(t) && !lost && !t->torn;
    if (whole) {
        fprintf(v->out, "whole, from start to end%s%s%s\n", end ? "; " : "", unclean,
                end ? end : "");
        return;
    }
    const char *comma = "";
    fputs(v->term->bold, v->out);
    if (ct_trace_state_print_overwritten(v))
        comma = ", ";
    if (lost)
        comma = fprintf(v->out, "%s%s event%s lost", comma, ct_human_count(lost).text, ct_human_plural(lost))
                    ? ", "
                    : "";
    if (t->index.damages)
        comma = fprintf(v->out, "%sdamaged at offset %" PRIu64, comma, t->index.damage[0].offset)
                    ? ", "
                    : "";
    if (t->torn) {
        fputs(comma, v->out);
        comma = ct_trace_state_print_torn(v) ? ", " : "";
    }
    if (end)
        fprintf(v->out, "%s%s%s", comma, unclean, end);
    fprintf(v->out, "%s\n", v->term->reset);
}

// ---- JSON ------------------------------------------------------------------------------------------

void ct_document_add_device(struct ct_json *j, const char *key, int device) {
    ct_json_number_or_null(j, key, device < CT_MAX_DEVICES, (uint64_t)device);
}

static void json_process(struct ct_json *j, const struct ct_view *v) {
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_string *exe = ct_definitions_info(n, "process.exe");
    uint64_t pid = 0;
    ct_json_open(j, "process", '{');
    const int known = ct_definitions_info_number(n, "process.pid", &pid);
    ct_json_number_or_null(j, "pid", known, pid);
    if (exe)
        ct_json_bytes(j, "exe", exe->at, exe->length);
    else
        ct_json_null(j, "exe");
    ct_json_close(j, '}');
}

void ct_document_begin(struct ct_json *j, const struct ct_view *v) {
    char schema[64];
    (void)snprintf(schema, sizeof schema, "cutrace.%s/1", ct_arguments_command_name(v->options->command));
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", schema);
    ct_json_text(j, "file", v->trace->source.name);
    json_process(j, v);
    ct_json_number(j, "start_ns", v->trace->start_ns);
}

void ct_document_add_trace(struct ct_json *j, const struct ct_view *v, const struct ct_scan *s) {
    const struct ct_trace *t = v->trace;
    const uint64_t lost = ct_view_scan_lost_events(v, s);
    ct_json_open(j, "trace", '{');
    ct_json_bool(j, "complete", ct_trace_is_complete(t) && !lost);
    ct_json_bool(j, "truncated", !t->ended && !t->sealed);
    ct_json_number(j, "lost_events", lost);
    ct_document_add_recording(j, t);
    ct_json_number(j, "events", t->events);
    ct_json_number(j, "chunks", t->index.count);
    ct_json_number(j, "missing_chunks", t->index.missing);
    ct_json_number(j, "damaged_places", t->index.damages);
    ct_json_number_or_null(j, "t_first_ns", t->t_first_ns != 0, t->t_first_ns);
    ct_json_number_or_null(j, "t_last_ns", t->t_last_ns != 0, t->t_last_ns);
    ct_json_close(j, '}');
}

static void json_fact(struct ct_json *j, const struct ct_trace *t, const char *key,
                      const char *fact) {
    const struct ct_string *s = ct_definitions_info(&t->definitions, fact);
    if (s)
        ct_json_bytes(j, key, s->at, s->length);
    else
        ct_json_null(j, key);
}

// Unbroken runs of chunks that stand alone before the one at the end: what surrounds refused allocations.
static void json_kept(struct ct_json *j, const struct ct_trace *t) {
    const struct ct_index_chunk *c = t->index.chunks;
    ct_json_open(j, "kept", '[');
    for (size_t from = 0, i = 1; i < t->index.count; i++) {
        if (!c[i].overwritten)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "from_event", c[from].head.first_event);
        ct_json_number(j, "to_event", c[i - 1].head.first_event + c[i - 1].head.events);
        ct_json_number(j, "from_ns", ct_index_first_ns(&t->index, from));
        ct_json_number(j, "to_ns", ct_index_last_ns(&t->index, i - 1));
        ct_json_close(j, '}');
        from = i;
    }
    ct_json_close(j, ']');
}

void ct_document_add_recording(struct ct_json *j, const struct ct_trace *t) {
    ct_json_bool(j, "clean_end", t->ended);
    ct_json_bool(j, "running", t->running);
    ct_json_number(j, "torn_events", t->torn);
    ct_json_bool(j, "wrapped", t->index.chunks[0].head.seq != 0 || t->overwritten_events);
    ct_json_number(j, "overwritten_events", t->overwritten_events);
    ct_json_bool(j, "exact", t->exact);
    ct_json_number_or_null(j, "exact_from_t_ns", t->exact && t->exact_from_ns, t->exact_from_ns);
    json_kept(j, t);
    json_fact(j, t, "sample", "option.SAMPLE");
    json_fact(j, t, "min_size", "option.MIN_SIZE");
}

void ct_document_add_oom(struct ct_json *j, struct ct_view *v, const char *key,
                     const struct ct_refusal *r, int budget) {
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_oom_reason w = ct_oom_reason_find(r, budget);
    const struct ct_string *api = &n->strings[r->api];
    ct_json_open(j, key, '{');
    ct_json_number(j, "event", r->event);
    ct_json_number(j, "t_ns", r->t_ns);
    ct_document_add_device(j, "device", r->device);
    if (r->api)
        ct_json_bytes(j, "api", api->at, api->length);
    else
        ct_json_null(j, "api");
    ct_json_text(j, "op", ct_event_names_op(r->op) ? ct_event_names_op(r->op) : "unknown");
    ct_json_number_or_null(j, "requested_bytes", r->bytes_known, r->bytes);
    ct_json_number_or_null(j, "rounded_bytes", w.rounded_known, w.rounded);
    ct_json_number_or_null(j, "free_bytes", r->reading_known, r->free);
    ct_json_number_or_null(j, "total_bytes", r->reading_known, r->total);
    ct_json_signed(j, "result", r->result);
    ct_json_number_or_null(j, "tid", r->thread != 0, n->threads[r->thread].tid);
    ct_json_text(j, "why", ct_oom_reason_name(w.why));
    ct_json_bool(j, "recovered", r->recovered);
    ct_json_number_or_null(j, "recovered_event", r->recovered, r->recovered_event);
    ct_json_number(j, "live_bytes", r->live_bytes);
    ct_json_number(j, "live_allocations", r->live_allocations);
    ct_document_add_memory(j, "memory", &r->split);
    ct_call_sites_json_stack(j, v->sites, "stack", r->stack);
    ct_json_close(j, '}');
}

void ct_document_add_capacity(struct ct_json *j, const struct ct_capacity *c) {
    ct_json_number_or_null(j, "capacity_bytes", c->bytes != 0, c->bytes);
    ct_json_open(j, "capacity", '{');
    ct_json_number_or_null(j, "total_bytes", c->total != 0, c->total);
    ct_json_number_or_null(j, "meminfo_total_bytes", c->meminfo != 0, c->meminfo);
    ct_json_number_or_null(j, "nvml_total_bytes", c->nvml != 0, c->nvml);
    if (c->binds)
        ct_json_text(j, "binds", c->binds);
    else
        ct_json_null(j, "binds");
    ct_json_bool(j, "disagree", c->disagree);
    ct_json_close(j, '}');
}

void ct_document_add_memory(struct ct_json *j, const char *key, const struct ct_breakdown *s) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "tracked_bytes", s->tracked);
    ct_json_number(j, "managed_bytes", s->managed);
    ct_json_number_or_null(j, "used_bytes", s->used_known, s->used);
    ct_json_number_or_null(j, "free_bytes", s->used_known, s->free);
    ct_json_number_or_null(j, "untracked_bytes", s->split_known, s->untracked);
    ct_json_number_or_null(j, "other_processes_bytes", s->split_known, s->others);
    ct_json_number_or_null(j, "untracked_or_others_bytes", s->used_known, s->unexplained);
    ct_json_bool(j, "inferred", s->moved_on);
    ct_json_number_or_null(j, "read_t_ns", s->used_known, s->reading_t_ns);
    ct_json_close(j, '}');
}
