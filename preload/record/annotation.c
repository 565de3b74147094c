// SPDX-License-Identifier: Apache-2.0
// Records what a program says of itself.
#include "record/annotation.h"

#include <errno.h>

#include "record/annotation_state.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"

// Whether to record: counts the call.
static int is_heard(void) {
    if (!ct_tracing_is_on())
        return 0;
    ct_annotation_count_call();
    return 1;
}

// An annotation opens no trace. Before one, what begins or is handed out is counted.
static int has_trace(enum ct_op op, const struct ct_annotation *a) {
    const int is_open = ct_tracing_is_open();
    if (!is_open && (op == CT_OP_MARK || op == CT_OP_RANGE_START || CT_HAS(a, bytes)))
        ct_annotation_count_early();
    return is_open;
}

void ct_annotation_record(enum ct_op op, const struct ct_annotation *a) {
    struct ct_event e;
    const int saved = errno;
    if (is_heard() && has_trace(op, a)) {
        ct_annotation_fill(&e, op, a);
        if (op == CT_OP_SUBALLOC)
            CT_SET(&e, stack, ct_capture_stack());
        ct_publish(&e);
    }
    errno = saved;
}

int ct_annotation_push(const struct ct_annotation *a) {
    struct ct_event e;
    int is_left_out;
    const int saved = errno;
    const int is_on = is_heard();
    const int published = is_on && ct_tracing_is_open();
    if (published) { // before it is noted: publishing it publishes what is pending
        ct_annotation_fill(&e, CT_OP_RANGE_PUSH, a);
        ct_publish(&e);
    }
    errno = saved;
    const int level = ct_annotation_push_open(a, published, &is_left_out);
    if (is_on && is_left_out)
        ct_annotation_count_early();
    return level;
}

int ct_annotation_pop(const struct ct_annotation *a) {
    struct ct_event e;
    const int saved = errno;
    int was_published;
    const int level = ct_annotation_pop_open(a->domain, &was_published);
    if (is_heard() && was_published && ct_tracing_is_open()) {
        ct_annotation_fill(&e, CT_OP_RANGE_POP, a);
        ct_publish(&e);
    }
    errno = saved;
    return level;
}
