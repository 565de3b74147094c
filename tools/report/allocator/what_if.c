// SPDX-License-Identifier: Apache-2.0
#include "allocator/what_if.h"

#include <stdio.h>
#include <string.h>

#include "allocator/model_pass.h"
#include "allocator/placements.h"

// The settings of the recorded process. Returns -1, with the reason, if they are not modelled.
static int read_settings(struct ct_what_if *w, const struct ct_trace *t) {
    const struct ct_string *set =
        ct_definitions_info(&t->definitions, "process.env.PYTORCH_CUDA_ALLOC_CONF");
    char error[CT_ALLOCATOR_SETTINGS_ERROR];
    if (!set)
        set = ct_definitions_info(&t->definitions, "process.env.PYTORCH_ALLOC_CONF");
    w->recorded = ct_allocator_settings_default();
    if (!set || !ct_allocator_settings_parse(&w->recorded, set->at, set->length, error))
        return 0;
    snprintf(w->settings_error, sizeof w->settings_error, "of the recorded settings: %s", error);
    return -1;
}

static uint64_t find_total(const struct ct_what_if *w, const struct ct_trace *t) {
    char key[64];
    uint64_t bytes = 0;
    snprintf(key, sizeof key, "device.%d.total_bytes", w->request.device);
    return ct_definitions_info_number(&t->definitions, key, &bytes) ? bytes : 0;
}

// ---- the answer ---------------------------------------------------------------------------------

static enum ct_what_if_state judge(const struct ct_what_if *w) {
    if (!w->blocks)
        return CT_WHAT_IF_NO_BLOCKS;
    if (!w->capacity)
        return CT_WHAT_IF_NO_CAPACITY;
    if (ct_what_if_permille(w) > CT_WHAT_IF_BOUND_PERMILLE)
        return CT_WHAT_IF_DEVIATES;
    if (w->not_reproduced)
        return CT_WHAT_IF_OOM_NOT_REPRODUCED;
    return CT_WHAT_IF_DONE;
}

unsigned ct_what_if_permille(const struct ct_what_if *w) {
    const uint64_t peak = w->recorded_reserved_peak;
    if (!w->deviation)
        return 0;
    if (!peak || w->deviation > peak)
        return 1000;
    return (unsigned)(((double)w->deviation * 1000 + (double)peak - 1) / (double)peak);
}

static int serves_all(const struct ct_what_if *w) {
    for (int i = CT_WHAT_IF_ASKED; i < CT_WHAT_IF_SIDES; i++)
        if (w->side[i].failures)
            return 0;
    return 1;
}

static int fails_surely(const struct ct_what_if *w) {
    for (int i = CT_WHAT_IF_ASKED; i < CT_WHAT_IF_SIDES; i++)
        if (!w->side[i].failures)
            return 0;
    return 1;
}

// Whatever the requests may have been must lead to the answer, and the margin must
// not change it.
enum ct_what_if_answer ct_what_if_judge(const struct ct_what_if *w) {
    if (w->state != CT_WHAT_IF_DONE || w->ambiguous)
        return CT_WHAT_IF_UNKNOWN;
    if (serves_all(w) && w->serves_with_less)
        return CT_WHAT_IF_FITS;
    return fails_surely(w) && !w->serves_with_more ? CT_WHAT_IF_FITS_NOT : CT_WHAT_IF_UNKNOWN;
}

// ---- the passes ---------------------------------------------------------------------------------

static void run_all(struct ct_what_if *w, struct ct_trace *t, const struct ct_stream_groups *g,
                    uint64_t total, uint64_t less, uint64_t more) {
    ct_model_pass_run(w, t, g, total, less, more);
    w->state = judge(w);
}

// The N of PyTorch 2.N; 0: not known, or older.
static unsigned minor_version(const struct ct_trace *t) {
    const struct ct_string *version = ct_definitions_info(&t->definitions, "torch.version");
    unsigned minor = 0;
    if (!version || version->length < 3 || memcmp(version->at, "2.", 2) != 0)
        return 0;
    for (size_t i = 2;
         i < version->length && i < 5 && version->at[i] >= '0' && version->at[i] <= '9'; i++)
        minor = minor * 10 + (unsigned)(version->at[i] - '0');
    return minor;
}

// The asked settings once more, with what the driver has less or more by a margin.
static void try_margins(struct ct_what_if *w, const struct ct_what_if *before, struct ct_trace *t,
                        const struct ct_stream_groups *g, uint64_t total) {
    struct ct_what_if margin = *before;
    const int serves = serves_all(w);
    const uint64_t least = w->capacity / 1000 * CT_WHAT_IF_MARGIN_PERMILLE;
    margin.by_creation = w->by_creation;
    margin.each = NULL;
    w->serves_with_less = w->serves_with_more = serves;
    w->margin = w->uncertain_sizes && w->deviation < least ? least : w->deviation;
    if (w->state != CT_WHAT_IF_DONE || !w->margin)
        return;
    run_all(&margin, t, g, total, serves ? w->margin : 0, serves ? 0 : w->margin);
    if (serves)
        w->serves_with_less = serves_all(&margin);
    else
        w->serves_with_more = !fails_surely(&margin);
}

// Of two free blocks of one size, that with the lower address was taken, until a change of May 2026
// (pull request 183591) made it that of the older segment: between 2.11 and 2.15.
static void set_order(struct ct_what_if *w, unsigned minor) {
    w->by_creation = minor >= 13;
    w->order_is_known = (minor && minor <= 11) || minor == 15;
}

void ct_what_if_run(struct ct_what_if *w, struct ct_trace *t) {
    struct ct_stream_groups groups;
    if (t->overwritten_events || t->missing_events || t->trimmed_before) {
        w->state = CT_WHAT_IF_NO_BEGINNING;
        return;
    }
    if (read_settings(w, t)) {
        w->state = CT_WHAT_IF_NO_SETTINGS;
        return;
    }
    const unsigned minor = minor_version(t);
    ct_allocator_settings_fit_version(&w->recorded, minor);
    ct_allocator_settings_fit_version(&w->request.asked, minor);
    set_order(w, minor);
    const uint64_t total = find_total(w, t);
    w->limit = ct_model_pass_allowed(w, CT_WHAT_IF_CHECK, total);
    if (ct_placements_find_groups(&groups, w, t, total)) {
        ct_stream_groups_free(&groups);
        w->state = CT_WHAT_IF_TOO_MANY_STREAMS;
        return;
    }
    w->passed_over = groups.passed_over;
    w->contradicted = groups.contradicted;
    w->waited = groups.waited;
    const struct ct_what_if before = *w;
    run_all(w, t, &groups, total, 0, 0);
    if (!w->order_is_known &&
        (w->state == CT_WHAT_IF_DEVIATES || w->state == CT_WHAT_IF_OOM_NOT_REPRODUCED)) {
        struct ct_what_if other = before;
        other.by_creation = !other.by_creation;
        other.each = NULL;
        run_all(&other, t, &groups, total, 0, 0);
        if (other.state == CT_WHAT_IF_DONE) {
            *w = before;
            w->by_creation = !before.by_creation;
            run_all(w, t, &groups, total, 0, 0);
        }
    }
    try_margins(w, &before, t, &groups, total);
    ct_stream_groups_free(&groups);
}
