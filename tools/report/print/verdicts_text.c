// SPDX-License-Identifier: Apache-2.0
#include "print/verdicts_text.h"

#include <inttypes.h>

#include "print/label.h"
#include "print/print.h"

static void print_head(struct ct_view *v, const struct ct_verdict *one, int is_first) {
    const struct ct_terminal *t = v->terminal;
    fprintf(v->out, "%s%s%s: " CT_WRAP_HANG "%s", is_first ? t->bold : "",
            is_first ? "verdict" : "also possible", is_first ? t->reset : "",
            ct_scenario_title(one->scenario));
    if (one->device >= 0)
        fprintf(v->out, ", %s", ct_label_device(one->device).text);
    fprintf(v->out, " (%s)\n", ct_verdict_name(one).text);
    fprintf(v->out, "  %s\n", one->summary);
}

static void print_evidence(struct ct_view *v, const struct ct_evidence *e) {
    fprintf(v->out, "  evidence  " CT_WRAP_HANG "%s", e->text);
    if (e->stack && v->trace) {
        fputs(": ", v->out);
        ct_print_callers(v, e->stack, 3);
    }
    if (e->event_known && v->trace)
        fprintf(v->out, " (event %" PRIu64 " at %s)", e->event, ct_label_time(v, e->t_ns).text);
    putc('\n', v->out);
}

// "--kv-cache-memory-bytes 8G -> 7G (vLLM 0.10.2 and later): why".
void ct_verdicts_print_advice(struct ct_view *v, const struct ct_advice *a) {
    if (a->flag) {
        fputs(a->flag, v->out);
        if (a->from)
            fprintf(v->out, " %s", a->from);
        // (a variable of the environment that was not set: as it is set)
        if (a->to)
            fprintf(v->out, "%s%s", a->from || *a->flag == '-' ? " -> " : "=", a->to);
        if (a->versions)
            fprintf(v->out, " (%s)", a->versions);
        fputs(": ", v->out);
    }
    fputs(a->text, v->out);
}

void ct_verdicts_print(struct ct_view *v, const struct ct_verdicts *l, size_t most) {
    for (size_t i = 0; i < l->count && i < most; i++) {
        const struct ct_verdict *one = &l->list[i];
        if (i && one->scenario == CT_SCENARIO_NONE)
            continue; // beside a problem it is none of the possibilities
        print_head(v, one, i == 0);
        for (size_t k = 0; k < one->evidence_count; k++)
            print_evidence(v, &one->evidence[k]);
        for (size_t k = 0; k < one->advice_count; k++) {
            fputs("  change    " CT_WRAP_HANG, v->out);
            ct_verdicts_print_advice(v, &one->advice[k]);
            putc('\n', v->out);
        }
        if (one->refuted_by)
            fprintf(v->out, "  wrong if  " CT_WRAP_HANG "there is %s\n", one->refuted_by);
    }
}
