// SPDX-License-Identifier: Apache-2.0
// allocator_program TRACE [SETTINGS [CAPACITY]]: the model of PyTorch's allocator on a trace, for
// tests: one line for each event of a block ("EVENT REPORTED CHECK RECORDED ASKED LEAST", bytes
// reserved), and one of JSON at the end. Driven by tests/torch/allocator/test_model.py.
#include <inttypes.h>

#include "allocator/what_if.h"

static FILE *out;

static void print(void *user, uint64_t event, uint64_t reported,
                  const uint64_t reserved[CT_WHAT_IF_SIDES]) {
    (void)user;
    fprintf(out, "%" PRIu64 " %" PRIu64, event, reported);
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++)
        fprintf(out, " %" PRIu64, reserved[i]);
    putc('\n', out);
}

static void print_side(const char *name, const struct ct_what_if_side *s) {
    fprintf(out,
            ", \"%s\": {\"reserved_peak\": %" PRIu64 ", \"allocated_peak\": %" PRIu64
            ", \"allocs\": %" PRIu64 ", \"frees\": %" PRIu64 ", \"retries\": %" PRIu64
            ", \"served\": %" PRIu64 ", \"failures\": %" PRIu64
            ", \"stopped\": %d, \"failed_event\": %" PRIu64 "}",
            name, s->reserved_peak, s->allocated_peak, s->driver_allocs, s->driver_frees,
            s->retries, s->served, s->failures, s->stopped, s->first_failure.event);
}

static const char *const answers[] = {
    [CT_WHAT_IF_FITS] = "yes", [CT_WHAT_IF_FITS_NOT] = "no", [CT_WHAT_IF_UNKNOWN] = "unknown"};

int main(int argc, char **argv) {
    static struct ct_trace t;
    struct ct_error error = {0};
    struct ct_what_if w = {.each = print};
    char why[CT_ALLOCATOR_SETTINGS_ERROR] = "";
    out = stdout;
    if (argc < 2 || ct_trace_open(&t, argv[1], &error)) {
        fprintf(stderr, "allocator_program: %s\n", argc < 2 ? "no trace" : error.text);
        return 1;
    }
    const char *asked = argc > 2 ? argv[2] : "";
    if (ct_allocator_settings_parse(&w.request.asked, asked, strlen(asked), why)) {
        fprintf(stderr, "allocator_program: %s\n", why);
        return 1;
    }
    if (argc > 3)
        w.request.capacity = strtoull(argv[3], NULL, 10);
    ct_what_if_run(&w, &t);
    if (w.state == CT_WHAT_IF_NO_SETTINGS) {
        fprintf(stderr, "allocator_program: %s\n", w.settings_error);
        return 1;
    }
    fprintf(out,
            "{\"state\": %d, \"fits\": \"%s\", \"deviation\": %" PRIu64
            ", \"permille\": %u, \"peak\": %" PRIu64 ", \"blocks\": %" PRIu64
            ", \"outside\": %" PRIu64 ", \"not_reproduced\": %" PRIu64 ", \"ooms\": %" PRIu64
            ", \"oom_event\": %" PRIu64 ", \"capacity\": %" PRIu64 ", \"others\": %" PRIu64
            ", \"groups\": [%u, %u], \"passed_over\": %" PRIu64 ", \"contradicted\": %" PRIu64
            ", \"waited\": %" PRIu64,
            (int)w.state, answers[ct_what_if_judge(&w)], w.deviation, ct_what_if_permille(&w),
            w.recorded_reserved_peak, w.blocks, w.outside, w.not_reproduced, w.recorded_ooms,
            w.recorded_oom.event, w.capacity, w.other_bytes, w.groups[0], w.groups[1],
            w.passed_over, w.contradicted, w.waited);
    print_side("check", &w.side[CT_WHAT_IF_CHECK]);
    print_side("recorded", &w.side[CT_WHAT_IF_RECORDED]);
    print_side("asked", &w.side[CT_WHAT_IF_ASKED]);
    print_side("least", &w.side[CT_WHAT_IF_ASKED_LEAST]);
    fputs("}\n", out);
    ct_trace_close(&t);
    return 0;
}
