// SPDX-License-Identifier: Apache-2.0
// dump: every event in one line, unless the terminal is too narrow. As JSON it is a contract for
// other programs (JSON.md).
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "print/document.h"
#include "print/label.h"
#include "read/event_names.h"
#include "views/views.h"

static const struct {
    uint32_t bit;
    const char *name;
} flags[] = {
#define CT_FLAG(bit, NAME, name) {UINT32_C(1) << (bit), name},
#include <cutrace/format/events.def>
};

static void add_flags(struct ct_json *j, const struct ct_event *e) {
    ct_json_open(j, "flags", '[');
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (CT_HAS(e, flags) && e->flags & flags[i].bit)
            ct_json_text(j, NULL, flags[i].name);
    ct_json_close(j, ']');
}

#define ADD(kind, member, key)                 \
    do {                                       \
        if (CT_HAS(e, member))                 \
            ct_json_##kind(j, key, e->member); \
        else                                   \
            ct_json_null(j, key);              \
    } while (0)

static void print_json(struct ct_view *v, struct ct_json *j, const struct ct_event *e,
                       uint64_t number) {
    const struct ct_definitions *n = &v->trace->definitions;
    ct_json_open(j, NULL, '{');
    ct_json_number(j, "event", number);
    ct_json_number(j, "t_ns", e->t_ns);
    const uint32_t thread = CT_GET(e, thread);
    ct_json_number_or_null(j, "tid", thread != 0, n->threads[thread].tid);
    ADD(signed, device, "device");
    ct_document_add_string(j, "api", &n->strings[CT_GET(e, api)]);
    ct_document_add_name(j, "op", ct_event_names_op(e->op), e->op);
    ADD(hex, ptr, "ptr");
    ADD(number, bytes, "bytes");
    ADD(signed, result, "result");
    ADD(number, duration_ns, "duration_ns");
    ct_call_sites_json_stack(j, v->sites, "stack", CT_GET(e, stack));
    ADD(hex, handle, "handle");
    ADD(hex, context, "context");
    ADD(hex, stream, "stream");
    ADD(hex, pool, "pool");
    ADD(number, offset, "offset");
    if (CT_HAS(e, space))
        ct_document_add_name(j, "space", ct_event_names_space(e->space), e->space);
    else
        ct_json_null(j, "space");
    add_flags(j, e);
    ADD(number, free_bytes, "free_bytes");
    ADD(number, total_bytes, "total_bytes");
    ADD(number, free_before_bytes, "free_before_bytes");
    ADD(number, process_bytes, "process_bytes");
    ADD(number, reserved_bytes, "reserved_bytes");
    ADD(number, allocated_bytes, "allocated_bytes");
    ADD(number, used_bytes, "used_bytes");
    ADD(number, count, "count");
    ADD(number, pid, "pid");
    ct_document_add_string(j, "text", &n->strings[CT_GET(e, text)]);
    ct_document_add_string(j, "domain", &n->strings[CT_GET(e, domain)]);
    ct_document_add_string(j, "category", &n->strings[CT_GET(e, category)]);
    ct_document_add_string(j, "thread_name", &n->strings[n->threads[thread].name]);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

// A string, if there is one, between two others.
static void print_string(struct ct_view *v, uint32_t id, const char *before, const char *behind) {
    const struct ct_string *s = &v->trace->definitions.strings[id];
    if (!id)
        return;
    fputs(before, v->out);
    ct_utf8_print_sanitized(v->out, s->at, s->length);
    fputs(behind, v->out);
}

static void print_text(struct ct_view *v, const struct ct_event *e, uint64_t number) {
    const struct ct_definitions *n = &v->trace->definitions;
    const enum ct_human_units units = v->options->units;
    char api[80] = "-", site[300], result[80];
    const char *op = ct_event_names_op(e->op);
    if (CT_HAS(e, api) && e->api)
        ct_utf8_sanitize(api, sizeof api, n->strings[e->api].at, n->strings[e->api].length);
    if (!v->terminal->is_terminal) // an event is a line for other programs
        fputs(CT_WRAP_ROW, v->out);
    fprintf(v->out, "%8" PRIu64 " %14s " CT_WRAP_HANG, number, ct_label_time(v, e->t_ns).text);
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
    if (CT_HAS(e, result) && e->result) {
        ct_label_result(v, CT_GET(e, api), e->result, result, sizeof result);
        fprintf(v->out, " %s%s%s", v->terminal->red, result, v->terminal->reset);
    }
    if (CT_HAS(e, free_bytes))
        fprintf(v->out, " free %s", ct_human_bytes(e->free_bytes, units).text);
    if (CT_HAS(e, reserved_bytes))
        fprintf(v->out, " reserved %s", ct_human_bytes(e->reserved_bytes, units).text);
    if (CT_HAS(e, allocated_bytes))
        fprintf(v->out, " allocated %s", ct_human_bytes(e->allocated_bytes, units).text);
    if (CT_HAS(e, pid))
        fprintf(v->out, " pid %" PRIu32, e->pid);
    if (CT_HAS(e, process_bytes) && CT_HAS(e, pid))
        fprintf(v->out, " holds %s", ct_human_bytes(e->process_bytes, units).text);
    if (e->op == CT_OP_HOST_SAMPLE && CT_HAS(e, used_bytes) && CT_HAS(e, total_bytes))
        fprintf(v->out, " host memory: %s of %s not available",
                ct_human_bytes(e->used_bytes, units).text,
                ct_human_bytes(e->total_bytes, units).text);
    if (CT_HAS(e, count))
        fprintf(v->out, " count %" PRIu64, e->count);
    if (CT_HAS(e, stack) && e->stack) {
        ct_call_sites_label(v->sites, e->stack, site, sizeof site);
        fprintf(v->out, "  " CT_WRAP_NAME "%s" CT_WRAP_NAME_END, site);
    }
    print_string(v, CT_GET(e, text), "  ", "");
    print_string(v, CT_GET(e, domain), "  [", "]");
    print_string(v, CT_GET(e, category), "  (", ")");
    putc('\n', v->out);
}

int ct_view_dump(struct ct_view *v) {
    struct ct_json j = {.out = v->out};
    struct ct_event e;
    uint64_t number, left = v->options->events ? v->options->events : UINT64_MAX;
    ct_trace_rewind(v->trace);
    while (left && ct_trace_next(v->trace, &e, &number)) {
        if (e.t_ns < v->from_ns || e.t_ns > v->to_ns)
            continue;
        if (v->options->device >= 0 && CT_HAS(&e, device) && e.device != v->options->device)
            continue;
        left--;
        if (v->options->json)
            print_json(v, &j, &e, number);
        else
            print_text(v, &e, number);
        if (ferror(v->out))
            return CT_EXIT_OUTPUT;
    }
    return CT_EXIT_OK;
}
