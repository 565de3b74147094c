// SPDX-License-Identifier: Apache-2.0
#include "views/explain_trace.h"

#include <string.h>

#include "base/utf8.h"
#include "print/companions.h"
#include "print/document.h"
#include "print/summary_read.h"
#include "print/trace_state.h"
#include "print/verdict.h"
#include "print/verdicts_json.h"
#include "print/verdicts_text.h"

static void print_text(struct ct_view *v, const struct ct_summary *s) {
    enum { MOST = 3 };
    if (s->has_moment)
        ct_verdict_print_moment(v, &s->moment);
    ct_verdicts_print(v, &s->verdicts, MOST);
    ct_companions_print(v, NULL);
    ct_trace_state_print_line(v, &s->scan);
    fprintf(v->out, "%snext: cutrace-report %s ", v->terminal->dim, s->crossing ? "oom" : "top");
    ct_utf8_print_sanitized(v->out, v->trace->source.name, strlen(v->trace->source.name));
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_json(struct ct_view *v, const struct ct_summary *s) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, &s->scan);
    ct_document_add_moment_or_null(j, s->v->trace, s->has_moment ? &s->moment : NULL);
    ct_verdicts_add_json(j, "verdicts", &s->verdicts, v->sites);
    ct_companions_add_json(j, v, &s->scan.incidents);
    ct_document_end(j);
}

int ct_explain_trace(struct ct_view *v) {
    struct ct_summary s;
    ct_summary_read(&s, v);
    if (v->options->json)
        print_json(v, &s);
    else
        print_text(v, &s);
    ct_summary_free(&s);
    return CT_EXIT_OK;
}
