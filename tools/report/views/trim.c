// SPDX-License-Identifier: Apache-2.0
// trim: writes a copy of a range of time of the trace. It begins with the exact state at that
// moment, and every view of it says that it is a part.
#include <inttypes.h>

#include "base/utf8.h"
#include "copy/copy_trace.h"
#include "print/document.h"
#include "print/label.h"
#include "print/new_trace.h"
#include "read/new_file.h"
#include "views/views.h"

static void print_json(struct ct_view *v, const struct ct_copied *c, uint64_t bytes) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin_bare(j, v);
    ct_json_text(j, "output", v->options->output);
    ct_json_number(j, "bytes", bytes);
    ct_json_number(j, "events", c->events);
    ct_json_number(j, "events_before", c->before);
    ct_json_number(j, "events_after", c->after);
    ct_json_bool(j, "begins_earlier", c->moved && v->from_ns);
    ct_document_end(j);
}

static void print_text(struct ct_view *v, const struct ct_copied *c, uint64_t bytes) {
    fputs("wrote ", v->out);
    ct_utf8_print_sanitized(v->out, v->options->output, strlen(v->options->output));
    fprintf(v->out, " (%s): %s event%s; left out: %s before", ct_label_size(v, bytes).text,
            ct_human_count(c->events).text, ct_human_plural(c->events),
            ct_human_count(c->before).text);
    fprintf(v->out, ", %s after\n", ct_human_count(c->after).text);
    if (c->moved && v->from_ns)
        fputs("it begins earlier than asked for: there the state is not known in full\n", v->out);
}

int ct_view_trim(struct ct_view *v) {
    struct ct_new_file file;
    struct ct_copied copied;
    struct ct_error error;
    struct ct_copy_request request = {
        .from_ns = v->from_ns, .to_ns = v->to_ns, .put = ct_new_trace_put, .user = &file};
    if (!v->from_ns && v->to_ns == UINT64_MAX && !v->options->around_ns) {
        ct_terminal_warn("trim: name the range with --from, --to or --around");
        return CT_EXIT_USAGE;
    }
    if (ct_new_trace_check(v, &error) || ct_new_trace_around(v, &request, &error) ||
        ct_new_trace_write(v->trace, &file, v->options->output, &request, &copied, &error)) {
        ct_terminal_warn(error.text);
        return error.status;
    }
    if (v->options->json)
        print_json(v, &copied, file.bytes);
    else
        print_text(v, &copied, file.bytes);
    return CT_EXIT_OK;
}
