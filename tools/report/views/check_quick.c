// SPDX-License-Identifier: Apache-2.0
// Each statement is about prefixes and digests alone. What only the bodies show is named as not
// checked.
#include "views/check_quick.h"

#include <inttypes.h>

#include "base/human.h"
#include "cli/terminal.h"
#include "read/digest.h"

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

static int print(const struct ct_index *x, size_t digests, FILE *out) {
    const struct ct_chunk *last = &x->chunks[x->count - 1].head;
    const int ok = !x->damages && !x->missing;
    const uint64_t events = count_events(x);
    for (size_t i = 0; i < x->damages; i++)
        fprintf(out, "offset %" PRIu64 ": %s (%" PRIu64 " bytes)\n", x->damage[i].offset,
                x->damage[i].what, x->damage[i].bytes);
    if (x->missing)
        fprintf(out, "%" PRIu64 " chunks are missing between others\n", x->missing);
    if (x->foreign)
        fprintf(out, "%" PRIu64 " chunks of another trace were skipped\n", x->foreign);
    if (!(last->flags & (CT_CHUNK_LAST | CT_CHUNK_SEALED)))
        fputs("the last chunk is not the end of the trace; the journal was not read\n", out);
    fprintf(out,
            "not checked: the bodies of the chunks; no event was read. %zu of %zu chunk%s %s a "
            "digest\n",
            digests, x->count, ct_human_plural(x->count), x->count == 1 ? "has" : "have");
    fprintf(out, "%s: %" PRIu64 " event%s in %zu chunk%s, by the prefixes\n",
            ok ? "no damage found" : "damaged", events, ct_human_plural(events), x->count,
            ct_human_plural(x->count));
    return ok ? CT_EXIT_OK : CT_EXIT_BAD_TRACE;
}

int ct_check_quick(const struct ct_arguments *options, FILE *out, const char *path) {
    struct ct_source source = {.fd = -1};
    struct ct_index index = {0};
    struct ct_error error;
    int status;
    if (options->json) {
        ct_terminal_warn("check: --quick has no JSON");
        return CT_EXIT_USAGE;
    }
    if (ct_source_open(&source, path, &error)) {
        ct_terminal_warn(error.text);
        return (int)error.status;
    }
    ct_index_scan(&index, &source, 0, source.bytes);
    if (ct_index_sort(&index, &source, &error)) {
        ct_terminal_warn(error.text);
        status = (int)error.status;
    } else {
        check_numbers(&index);
        status = print(&index, ct_digest_check_chain(&index, &source), out);
    }
    ct_index_free(&index);
    ct_source_close(&source);
    return status;
}
