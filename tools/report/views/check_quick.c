// SPDX-License-Identifier: Apache-2.0
// Each statement is about prefixes and digests alone. What only the bodies show is named as not
// checked.
#include "views/check_quick.h"

#include <inttypes.h>

#include "base/human.h"
#include "cli/terminal.h"
#include "print/document.h"
#include "read/digest.h"
#include "read/trace_headers.h"

static uint64_t count_events(const struct ct_index *x) {
    uint64_t n = 0;
    for (size_t i = 0; i < x->count; i++)
        n += x->chunks[i].head.events;
    return n;
}

// Chunks whose numbers follow one another, but not those of their events.
static void check_numbers(struct ct_index *x) {
    for (size_t i = 1; i < x->count; i++) {
        const struct ct_index_chunk *c = &x->chunks[i], *before = c - 1;
        if (!c->gap && c->head.first_event != before->head.first_event + before->head.events)
            ct_index_add_damage(x, c->offset, CT_PREFIX_BYTES,
                                "prefix whose events do not follow those of the chunk before");
    }
}

static int is_ok(const struct ct_index *x) {
    return !x->damages && !x->missing;
}

static int has_end(const struct ct_index *x) {
    return (x->chunks[x->count - 1].head.flags & (CT_CHUNK_LAST | CT_CHUNK_SEALED)) != 0;
}

static void print_text(const struct ct_index *x, size_t digests, FILE *out) {
    const uint64_t events = count_events(x);
    for (size_t i = 0; i < x->damages; i++)
        fprintf(out, "offset %" PRIu64 ": %s (%" PRIu64 " bytes)\n", x->damage[i].offset,
                x->damage[i].what, x->damage[i].bytes);
    if (x->missing)
        fprintf(out, "%" PRIu64 " chunk%s missing between others\n", x->missing,
                x->missing == 1 ? " is" : "s are");
    if (x->foreign)
        fprintf(out, "%" PRIu64 " chunk%s of another trace %s skipped\n", x->foreign,
                ct_human_plural(x->foreign), x->foreign == 1 ? "was" : "were");
    if (!has_end(x))
        fputs("the last chunk is not the end of the trace; the journal was not read\n", out);
    fprintf(out,
            "not checked: the bodies of the chunks; no event was read. %zu of %zu chunk%s %s a "
            "digest\n",
            digests, x->count, ct_human_plural(x->count), x->count == 1 ? "has" : "have");
    fprintf(out, "%s: %" PRIu64 " event%s in %zu chunk%s, by the prefixes\n",
            is_ok(x) ? "no damage found" : "damaged", events, ct_human_plural(events), x->count,
            ct_human_plural(x->count));
}

static void print_json(const struct ct_view *v, size_t digests) {
    struct ct_json json = {.out = stdout}, *j = &json;
    const struct ct_index *x = &v->trace->index;
    ct_document_begin_bare(j, v);
    ct_json_bool(j, "ok", is_ok(x));
    ct_json_bool(j, "has_end", has_end(x));
    ct_json_number(j, "events", count_events(x));
    ct_json_number(j, "chunks", x->count);
    ct_json_number(j, "noted_chunks", digests);
    ct_json_number(j, "missing_chunks", x->missing);
    ct_json_number(j, "foreign_chunks", x->foreign);
    ct_document_add_damage(j, x);
    ct_document_end(j);
}

int ct_check_quick(const struct ct_arguments *options, const char *path, int in_list) {
    struct ct_trace trace = {.source.fd = -1};
    const struct ct_view view = {.options = options, .trace = &trace};
    struct ct_error error;
    int status;
    if (ct_trace_headers_open_index(&trace.index, &trace.source, path, &error)) {
        ct_terminal_warn(error.text);
        fputs(in_list ? "null" : "", stdout);
        status = (int)error.status;
    } else {
        check_numbers(&trace.index);
        const size_t digests = ct_digest_check_chain(&trace.index, &trace.source);
        if (options->json)
            print_json(&view, digests);
        else
            print_text(&trace.index, digests, stdout);
        status = is_ok(&trace.index) ? CT_EXIT_OK : CT_EXIT_BAD_TRACE;
    }
    ct_index_free(&trace.index);
    ct_source_close(&trace.source);
    return status;
}
