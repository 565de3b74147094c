// SPDX-License-Identifier: Apache-2.0
#include "analyze/program_marks.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/utf8.h"
#include "symbols/ranges.h"

void ct_program_marks_init(struct ct_program_marks *m, const struct ct_definitions *n,
                           uint64_t from_ns, uint64_t to_ns) {
    *m = (struct ct_program_marks){.definitions = n, .from_ns = from_ns, .to_ns = to_ns};
    if (to_ns - from_ns == UINT64_MAX) // its parts could not be counted
        m->to_ns--;
}

void ct_program_marks_note(struct ct_program_marks *m, const struct ct_event *e, uint64_t number) {
    if (e->op != CT_OP_MARK || e->t_ns < m->from_ns || e->t_ns > m->to_ns)
        return;
    const uint32_t text = CT_GET(e, text), domain = CT_GET(e, domain);
    if (ct_ranges_is_noise(m->definitions, text, domain))
        return;
    const unsigned __int128 in = e->t_ns - m->from_ns;
    const uint64_t at = (uint64_t)(in * CT_PROGRAM_MARKS / (m->to_ns - m->from_ns + 1));
    struct ct_program_mark *mark = &m->part[at];
    m->count++;
    if (mark->count++)
        return;
    mark->t_ns = e->t_ns;
    mark->event = number;
    mark->text = text;
    mark->domain = domain;
    mark->thread = CT_GET(e, thread);
}

void ct_program_marks_label(const struct ct_program_marks *m, const struct ct_program_mark *mark,
                            char *to, size_t size) {
    char name[80] = "(no name)", more[40] = "";
    const struct ct_string *text = &m->definitions->strings[mark->text];
    if (mark->text && text->length)
        ct_utf8_sanitize(name, sizeof name, text->at, text->length);
    if (mark->count > 1)
        (void)snprintf(more, sizeof more, ", and %" PRIu64 " more", mark->count - 1);
    (void)snprintf(to, size, "%s%s", name, more);
}
