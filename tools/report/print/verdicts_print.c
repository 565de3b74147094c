// SPDX-License-Identifier: Apache-2.0
#include "print/verdicts_print.h"

#include <inttypes.h>

#include "print/label.h"
#include "print/print.h"

// ---- text ---------------------------------------------------------------------------------------

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

// Prints "--kv-cache-memory-bytes 8G -> 7G (vLLM 0.10.2 and later): why", the end of a line.
static void print_advice(struct ct_view *v, const struct ct_advice *a) {
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
    fprintf(v->out, "%s\n", a->text);
}

void ct_verdicts_print_change(struct ct_view *v, const struct ct_verdict *one) {
    if (!one->advice_count)
        return;
    fprintf(v->out, "  %-8s " CT_WRAP_HANG, "change");
    print_advice(v, &one->advice[0]);
}

void ct_verdicts_print_end(struct ct_view *v, const struct ct_verdict *one) {
    for (size_t i = 0; i < one->advice_count; i++) {
        fputs("  change    " CT_WRAP_HANG, v->out);
        print_advice(v, &one->advice[i]);
    }
    if (one->refuted_by)
        fprintf(v->out, "  wrong if  " CT_WRAP_HANG "there is %s\n", one->refuted_by);
}

void ct_verdicts_print(struct ct_view *v, const struct ct_verdicts *l, size_t most) {
    for (size_t i = 0; i < l->count && i < most; i++) {
        const struct ct_verdict *one = &l->list[i];
        if (i && one->scenario == CT_SCENARIO_NONE)
            continue; // beside a problem it is none of the possibilities
        print_head(v, one, i == 0);
        for (size_t k = 0; k < one->evidence_count; k++)
            print_evidence(v, &one->evidence[k]);
        ct_verdicts_print_end(v, one);
    }
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_evidence(struct ct_json *j, const struct ct_evidence *e,
                         struct ct_call_sites *sites) {
    ct_json_open(j, NULL, '{');
    ct_json_number_or_null(j, "event", e->event_known, e->event);
    ct_json_number_or_null(j, "t_ns", e->event_known, e->t_ns);
    ct_json_number_or_null(j, "bytes", e->bytes_known, e->bytes);
    ct_json_text(j, "text", e->text);
    if (e->stack && sites)
        ct_call_sites_json_stack(j, sites, "stack", e->stack);
    else
        ct_json_null(j, "stack");
    ct_json_close(j, '}');
}

static void add_advice(struct ct_json *j, const struct ct_advice *a) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "text", a->text);
    ct_json_text_or_null(j, "flag", a->flag);
    ct_json_text_or_null(j, "from", a->from);
    ct_json_text_or_null(j, "to", a->to);
    ct_json_text_or_null(j, "versions", a->versions);
    ct_json_close(j, '}');
}

static void add_verdict(struct ct_json *j, const struct ct_verdict *v,
                        struct ct_call_sites *sites) {
    ct_json_text(j, "scenario", ct_scenario_name(v->scenario));
    ct_json_ratio(j, "confidence", (uint64_t)(v->confidence * 10000 + 0.5), 10000);
    ct_json_text_or_null(j, "sureness", ct_verdict_sureness(v));
    ct_json_number_or_null(j, "device", v->device >= 0, (uint64_t)v->device);
    ct_json_text(j, "summary", v->summary);
    ct_json_open(j, "evidence", '[');
    for (size_t i = 0; i < v->evidence_count; i++)
        add_evidence(j, &v->evidence[i], sites);
    ct_json_close(j, ']');
    ct_json_open(j, "advice", '[');
    for (size_t i = 0; i < v->advice_count; i++)
        add_advice(j, &v->advice[i]);
    ct_json_close(j, ']');
    ct_json_text_or_null(j, "refuted_by", v->refuted_by);
}

static void add_verdicts(struct ct_json *j, const struct ct_verdicts *l,
                         struct ct_call_sites *sites, int of_processes) {
    ct_json_open(j, "verdicts", '[');
    for (size_t i = 0; i < l->count; i++) {
        ct_json_open(j, NULL, '{');
        add_verdict(j, &l->list[i], sites);
        if (of_processes) {
            ct_json_open(j, "process_indexes", '[');
            for (size_t k = 0; k < l->list[i].process_count; k++)
                ct_json_number(j, NULL, l->list[i].processes[k]);
            ct_json_close(j, ']');
        }
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

void ct_verdicts_add_json(struct ct_json *j, const struct ct_verdicts *l,
                          struct ct_call_sites *sites) {
    add_verdicts(j, l, sites, 0);
}

void ct_verdicts_add_json_of_processes(struct ct_json *j, const struct ct_verdicts *l) {
    add_verdicts(j, l, NULL, 1);
}
