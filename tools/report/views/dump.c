// SPDX-License-Identifier: Apache-2.0
// dump: every event, one line each; as JSON the contract that other programs build on (JSON.md).
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "views/views.h"

const char *ct_event_names_op(uint32_t op) {
    switch (op) {
#define CT_OP(number, NAME, name) \
    case number:                  \
        return name;
#include <cutrace/format/events.def>
    default:
        return NULL;
    }
}

static const char *space_name(uint32_t space) {
    switch (space) {
#define CT_SPACE(number, NAME, name) \
    case number:                     \
        return name;
#include <cutrace/format/events.def>
    default:
        return NULL;
    }
}

static const struct {
    uint32_t bit;
    const char *name;
} flags[] = {
#define CT_FLAG(bit, NAME, name) {UINT32_C(1) << (bit), name},
#include <cutrace/format/events.def>
};

static void json_string(struct ct_json *j, const char *key, const struct ct_string *s) {
    if (s->length)
        ct_json_bytes(j, key, s->at, s->length);
    else
        ct_json_null(j, key);
}

static void json_named(struct ct_json *j, const char *key, const char *name, uint32_t number) {
    char text[24];
    (void)snprintf(text, sizeof text, "unknown-%" PRIu32, number);
    ct_json_text(j, key, name ? name : text);
}

static void json_flags(struct ct_json *j, const struct ct_event *e) {
    ct_json_open(j, "flags", '[');
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (CT_HAS(e, flags) && e->flags & flags[i].bit)
            ct_json_text(j, NULL, flags[i].name);
    ct_json_close(j, ']');
}

#define PUT(kind, member, key)                 \
    do {                                       \
        if (CT_HAS(e, member))                 \
            ct_json_##kind(j, key, e->member); \
        else                                   \
            ct_json_null(j, key);              \
    } while (0)

static void json_event(struct ct_view *v, struct ct_json *j, const struct ct_event *e,
                       uint64_t number) {
    const struct ct_definitions *n = &v->trace->definitions;
    ct_json_open(j, NULL, '{');
    ct_json_number(j, "event", number);
    ct_json_number(j, "t_ns", e->t_ns);
    if (CT_HAS(e, thread) && e->thread)
        ct_json_number(j, "tid", n->threads[e->thread].tid);
    else
        ct_json_null(j, "tid");
    PUT(signed, device, "device");
    if (CT_HAS(e, api))
        json_string(j, "api", &n->strings[e->api]);
    else
        ct_json_null(j, "api");
    json_named(j, "op", ct_event_names_op(e->op), e->op);
    PUT(hex, ptr, "ptr");
    PUT(number, bytes, "bytes");
    PUT(signed, result, "result");
    PUT(number, duration_ns, "duration_ns");
    ct_call_sites_json_stack(j, v->sites, "stack", CT_HAS(e, stack) ? e->stack : 0);
    PUT(hex, handle, "handle");
    PUT(hex, context, "context");
    PUT(hex, stream, "stream");
    PUT(hex, pool, "pool");
    PUT(number, offset, "offset");
    if (CT_HAS(e, space))
        json_named(j, "space", space_name(e->space), e->space);
    else
        ct_json_null(j, "space");
    json_flags(j, e);
    PUT(number, free_bytes, "free_bytes");
    PUT(number, total_bytes, "total_bytes");
    PUT(number, free_before_bytes, "free_before_bytes");
    PUT(number, process_bytes, "process_bytes");
    PUT(number, reserved_bytes, "reserved_bytes");
    PUT(number, allocated_bytes, "allocated_bytes");
    PUT(number, used_bytes, "used_bytes");
    PUT(number, count, "count");
    if (CT_HAS(e, text))
        json_string(j, "text", &n->strings[e->text]);
    else
        ct_json_null(j, "text");
    json_string(j, "thread_name", &n->strings[n->threads[CT_HAS(e, thread) ? e->thread : 0].name]);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

static void text_event(struct ct_view *v, const struct ct_event *e, uint64_t number) {
    const struct ct_definitions *n = &v->trace->definitions;
    const enum ct_human_units units = v->options->units;
    char api[80] = "-", site[300];
    const char *op = ct_event_names_op(e->op);
    if (CT_HAS(e, api) && e->api)
        ct_utf8_sanitize(api, sizeof api, n->strings[e->api].at, n->strings[e->api].length);
    fprintf(v->out, "%8" PRIu64 " %14s ", number,
            ct_human_elapsed(e->t_ns > v->trace->start_ns ? e->t_ns - v->trace->start_ns : 0).text);
    if (CT_HAS(e, device))
        fprintf(v->out, "gpu%-2d ", e->device);
    else
        fputs("-     ", v->out);
    fprintf(v->out, "%-15s %-26s %12s", op ? op : "?", api,
            CT_HAS(e, bytes) ? ct_human_bytes(e->bytes, units).text : "-");
    if (CT_HAS(e, ptr))
        fprintf(v->out, " 0x%" PRIx64, e->ptr);
    if (CT_HAS(e, handle))
        fprintf(v->out, " handle 0x%" PRIx64, e->handle);
    if (CT_HAS(e, result) && e->result)
        fprintf(v->out, " %sresult %d%s", v->term->red, e->result, v->term->reset);
    if (CT_HAS(e, free_bytes))
        fprintf(v->out, " free %s", ct_human_bytes(e->free_bytes, units).text);
    if (CT_HAS(e, reserved_bytes))
        fprintf(v->out, " reserved %s", ct_human_bytes(e->reserved_bytes, units).text);
    if (CT_HAS(e, allocated_bytes))
        fprintf(v->out, " allocated %s", ct_human_bytes(e->allocated_bytes, units).text);
    if (CT_HAS(e, count))
        fprintf(v->out, " count %" PRIu64, e->count);
    if (CT_HAS(e, stack) && e->stack) {
        ct_call_sites_label(v->sites, e->stack, site, sizeof site);
        fprintf(v->out, "  %s", site);
    }
    if (CT_HAS(e, text) && e->text) {
        fputs("  ", v->out);
        ct_utf8_print_sanitized(v->out, n->strings[e->text].at, n->strings[e->text].length);
    }
    putc('\n', v->out);
}

int ct_view_dump(struct ct_view *v) {
    struct ct_json j = {.out = v->out};
    struct ct_event e;
    uint64_t number;
    ct_trace_rewind(v->trace);
    while (ct_trace_next(v->trace, &e, &number)) {
        if (e.t_ns < v->from_ns || e.t_ns > v->to_ns)
            continue;
        if (v->options->device >= 0 && CT_HAS(&e, device) && e.device != v->options->device)
            continue;
        if (v->options->json)
            json_event(v, &j, &e, number);
        else
            text_event(v, &e, number);
        if (ferror(v->out))
            return CT_EXIT_OUTPUT;
    }
    return CT_EXIT_OK;
}
