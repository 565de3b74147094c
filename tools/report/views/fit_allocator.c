// SPDX-License-Identifier: Apache-2.0
#include "views/fit_parts.h"

#include <inttypes.h>

#include "print/label.h"
#include "print/table.h"

int ct_fit_allocator_run(struct ct_view *v, struct ct_what_if *w, int device) {
    if (!v->options->allocator)
        return 0;
    *w = (struct ct_what_if){.request = {.device = device,
                                         .capacity = v->options->capacity,
                                         .asked = v->options->allocator_settings}};
    ct_what_if_run(w, v->trace);
    return 1;
}

// ---- the answer ---------------------------------------------------------------------------------

// Why there is none: a reason without figures, else NULL.
static const char *find_why(const struct ct_what_if *w) {
    switch (w->state) {
    case CT_WHAT_IF_NO_SETTINGS:
        return w->settings_error;
    case CT_WHAT_IF_NO_BLOCKS:
        return "no block of PyTorch's allocator was recorded on the device";
    case CT_WHAT_IF_NO_BEGINNING:
        return "events are missing, so that blocks of before are not known";
    case CT_WHAT_IF_NO_CAPACITY:
        return "the memory of the device was not read; --capacity names a size";
    case CT_WHAT_IF_TOO_MANY_STREAMS:
        return "the blocks are of more streams than the model follows";
    case CT_WHAT_IF_OOM_NOT_REPRODUCED:
        return "in the model of the recorded settings, other requests fail than in the recording";
    case CT_WHAT_IF_DEVIATES:
    case CT_WHAT_IF_DONE:
        return NULL;
    }
    return NULL;
}

// The least and the most of the models with the asked settings.
static void find_ends(const uint64_t of[CT_WHAT_IF_SIDES], uint64_t *low, uint64_t *high) {
    *low = *high = of[CT_WHAT_IF_ASKED];
    for (int i = CT_WHAT_IF_ASKED; i < CT_WHAT_IF_SIDES; i++) {
        *low = of[i] < *low ? of[i] : *low;
        *high = of[i] > *high ? of[i] : *high;
    }
}

static struct ct_human_text range(const struct ct_view *v, const uint64_t of[CT_WHAT_IF_SIDES]) {
    uint64_t a, b;
    find_ends(of, &a, &b);
    const struct ct_human_text low = ct_label_size(v, a), high = ct_label_size(v, b);
    return strcmp(low.text, high.text) ? ct_human_format("%.17s to %.17s", low.text, high.text)
                                       : low;
}

static void print_fits(const struct ct_view *v, const struct ct_what_if *w) {
    fputs("every request would have got its memory", v->out);
    if (w->recorded_ooms == 1)
        fputs(", also the one that failed", v->out);
    else if (w->recorded_ooms)
        fprintf(v->out, ", also the %" PRIu64 " that failed", w->recorded_ooms);
}

static void print_fits_not(const struct ct_view *v, const struct ct_what_if *w) {
    const struct ct_what_if_failure *f = &w->side[CT_WHAT_IF_ASKED].first_failure;
    fprintf(v->out, "the request of %s at %s (#%" PRIu64 ") would fail%s: %s would be missing",
            ct_label_size(v, f->bytes).text, ct_label_time(v, f->t_ns).text, f->event,
            f->recorded ? ", as it did" : ", which got its memory",
            ct_label_size(v, f->missing).text);
}

static void print_unknown(const struct ct_view *v, const struct ct_what_if *w) {
    const char *why = find_why(w);
    fputs("whether it would have fitted is not known, because ", v->out);
    if (why)
        fputs(why, v->out);
    else if (w->state == CT_WHAT_IF_DEVIATES)
        fprintf(v->out,
                "the model of the recorded settings deviates by %s (%u.%u %% of the most that was "
                "reserved, at #%" PRIu64 ") from what PyTorch reported; more than %d %% is not "
                "trusted",
                ct_label_size(v, w->deviation).text, ct_what_if_permille(w) / 10,
                ct_what_if_permille(w) % 10, w->deviation_event, CT_WHAT_IF_BOUND_PERMILLE / 10);
    else if (w->ambiguous)
        fputs("it depends on the streams of requests that failed, which the trace does not have",
              v->out);
    else
        fputs("it depends on the sizes of requests, of which the trace has bounds only", v->out);
}

static void print_answer(const struct ct_view *v, const struct ct_what_if *w) {
    fprintf(v->out, "%s%s, PyTorch's allocator with %.200s%s%s: ", v->terminal->bold,
            ct_label_device(w->request.device).text,
            *v->options->allocator ? v->options->allocator : "its defaults",
            v->options->capacity ? " on " : "",
            v->options->capacity ? ct_label_budget(v).text : "");
    switch (ct_what_if_judge(w)) {
    case CT_WHAT_IF_FITS:
        print_fits(v, w);
        break;
    case CT_WHAT_IF_FITS_NOT:
        print_fits_not(v, w);
        break;
    case CT_WHAT_IF_UNKNOWN:
        print_unknown(v, w);
        break;
    }
    fprintf(v->out, "%s\n", v->terminal->reset);
}

// ---- the figures --------------------------------------------------------------------------------

static void add_sizes(const struct ct_view *v, struct ct_table *t, const char *title,
                      const char *reported, const uint64_t of[CT_WHAT_IF_SIDES]) {
    ct_table_add_row(t, title, reported, ct_label_size(v, of[CT_WHAT_IF_RECORDED]).text,
                     range(v, of).text, NULL);
}

static void add_counts(struct ct_table *t, const char *title, const char *reported,
                       const uint64_t of[CT_WHAT_IF_SIDES]) {
    uint64_t low, high;
    find_ends(of, &low, &high);
    const struct ct_human_text asked = low == high
                                           ? ct_human_format("%" PRIu64, low)
                                           : ct_human_format("%" PRIu64 " to %" PRIu64, low, high);
    ct_table_add_row(t, title, reported, ct_human_format("%" PRIu64, of[CT_WHAT_IF_RECORDED]).text,
                     asked.text, NULL);
}

static void print_figures(struct ct_view *v, const struct ct_what_if *w) {
    static const struct ct_table_column columns[] = {{"", 0, CT_TABLE_LEFT},
                                                     {"reported", 1, CT_TABLE_RIGHT},
                                                     {"recorded settings", 0, CT_TABLE_RIGHT},
                                                     {"these settings", 0, CT_TABLE_RIGHT}};
    uint64_t of[6][CT_WHAT_IF_SIDES];
    struct ct_table t;
    for (int i = 0; i < CT_WHAT_IF_SIDES; i++) {
        const struct ct_what_if_side *s = &w->side[i];
        of[0][i] = s->reserved_peak;
        of[1][i] = s->allocated_peak;
        of[2][i] = s->largest_free_end;
        of[3][i] = s->driver_allocs + s->driver_frees;
        of[4][i] = s->retries;
        of[5][i] = s->failures;
    }
    ct_table_init(&t, columns, 4, 2);
    add_sizes(v, &t, "reserved at most", ct_label_size(v, w->recorded_reserved_peak).text, of[0]);
    add_sizes(v, &t, "allocated at most", ct_label_size(v, w->recorded_allocated_peak).text, of[1]);
    add_sizes(v, &t, "largest free block at the end", "-", of[2]);
    add_counts(&t, "calls to the driver for memory", "-", of[3]);
    add_counts(&t, "requests that freed all that was cached", "-", of[4]);
    add_counts(&t, "requests that fail", ct_human_format("%" PRIu64, w->recorded_ooms).text, of[5]);
    ct_table_print(v, &t);
}

static void print_stops(const struct ct_view *v, const struct ct_what_if *w) {
    const struct ct_what_if_side *s = &w->side[CT_WHAT_IF_ASKED];
    if (w->side[CT_WHAT_IF_RECORDED].stopped)
        fprintf(v->out,
                "  " CT_WRAP_HANG "the recorded settings fail there, too, at #%" PRIu64
                ": their figures are up to then\n",
                w->side[CT_WHAT_IF_RECORDED].first_failure.event);
    if (s->stopped)
        fputs("  " CT_WRAP_HANG "what the program would have done after the request that fails is "
              "not known: the figures are up to then\n",
              v->out);
    else if (w->recorded_ooms)
        fputs("  " CT_WRAP_HANG
              "what the program would have done with a request that failed is not "
              "known: the model frees it at once\n",
              v->out);
}

static void print_notes(const struct ct_view *v, const struct ct_what_if *w) {
    const unsigned permille = ct_what_if_permille(w);
    fprintf(v->out,
            "  " CT_WRAP_HANG "uncertain by %s: by so much (%u.%u %%) the model of the recorded "
            "settings deviates at most from what PyTorch reported, at %" PRIu64 " blocks\n",
            ct_label_size(v, w->deviation).text, permille / 10, permille % 10, w->blocks);
    print_stops(v, w);
    fprintf(v->out,
            "  " CT_WRAP_HANG "streams and private pools that were told apart by where blocks were "
            "placed: %u with large segments, %u with small ones\n",
            w->groups[0], w->groups[1]);
    if (w->limit_is_inferred)
        fprintf(v->out,
                "  " CT_WRAP_HANG "PyTorch refused requests that the driver was not asked for: the "
                "model limits it to %s\n",
                ct_label_size(v, w->limit).text);
    if (w->outside)
        fprintf(v->out,
                "  " CT_WRAP_HANG "%" PRIu64 " blocks lie in memory of another allocator, which is "
                "taken as it was recorded\n",
                w->outside);
    fputs("  " CT_WRAP_HANG
          "not known: requested sizes, where a block was not split; work of other "
          "streams that delays a free block; which pools of CUDA graphs may be freed; "
          "empty_cache() that freed nothing\n",
          v->out);
}

void ct_fit_allocator_print(struct ct_view *v, const struct ct_what_if *w) {
    print_answer(v, w);
    if (find_why(w) && w->state != CT_WHAT_IF_OOM_NOT_REPRODUCED)
        return;
    if (w->state == CT_WHAT_IF_DONE)
        print_figures(v, w);
    print_notes(v, w);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_failure(struct ct_json *j, const struct ct_what_if_side *s) {
    if (!ct_json_open_or_null(j, "first_failure", s->failures != 0, '{'))
        return;
    ct_json_number(j, "event", s->first_failure.event);
    ct_json_number(j, "t_ns", s->first_failure.t_ns);
    ct_json_number(j, "bytes", s->first_failure.bytes);
    ct_json_number(j, "missing_bytes", s->first_failure.missing);
    ct_json_bool(j, "failed_in_recording", s->first_failure.recorded);
    ct_json_close(j, '}');
}

static void add_side(struct ct_json *j, const char *key, const struct ct_what_if_side *s) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "reserved_peak_bytes", s->reserved_peak);
    ct_json_number(j, "allocated_peak_bytes", s->allocated_peak);
    ct_json_number(j, "reserved_end_bytes", s->reserved_end);
    ct_json_number(j, "largest_free_end_bytes", s->largest_free_end);
    ct_json_number(j, "driver_allocations", s->driver_allocs);
    ct_json_number(j, "driver_frees", s->driver_frees);
    ct_json_number(j, "retries", s->retries);
    ct_json_number_or_null(j, "least_left_bytes", s->least_left != UINT64_MAX, s->least_left);
    ct_json_number(j, "served", s->served);
    ct_json_number(j, "failures", s->failures);
    ct_json_bool(j, "stopped", s->stopped);
    add_failure(j, s);
    ct_json_close(j, '}');
}

static const char *answer_name(const struct ct_what_if *w) {
    switch (ct_what_if_judge(w)) {
    case CT_WHAT_IF_FITS:
        return "yes";
    case CT_WHAT_IF_FITS_NOT:
        return "no";
    case CT_WHAT_IF_UNKNOWN:
        break;
    }
    return "unknown";
}

static const char *state_name(const struct ct_what_if *w) {
    static const char *const names[] = {[CT_WHAT_IF_DONE] = "done",
                                        [CT_WHAT_IF_NO_SETTINGS] = "no_settings",
                                        [CT_WHAT_IF_NO_BLOCKS] = "no_blocks",
                                        [CT_WHAT_IF_NO_BEGINNING] = "no_beginning",
                                        [CT_WHAT_IF_NO_CAPACITY] = "no_capacity",
                                        [CT_WHAT_IF_TOO_MANY_STREAMS] = "too_many_streams",
                                        [CT_WHAT_IF_DEVIATES] = "deviates",
                                        [CT_WHAT_IF_OOM_NOT_REPRODUCED] = "oom_not_reproduced"};
    return names[w->state];
}

void ct_fit_allocator_add_json(struct ct_json *j, const struct ct_view *v,
                               const struct ct_what_if *w) {
    if (!ct_json_open_or_null(j, "allocator", w != NULL, '{'))
        return;
    ct_json_text(j, "settings", v->options->allocator);
    ct_json_text(j, "fits", answer_name(w));
    ct_json_text(j, "state", state_name(w));
    ct_json_number(j, "blocks", w->blocks);
    ct_json_number(j, "outside_blocks", w->outside);
    ct_json_number(j, "deviation_bytes", w->deviation);
    ct_json_number(j, "deviation_event", w->deviation_event);
    ct_json_number(j, "deviation_bound_bytes",
                   w->recorded_reserved_peak / 1000 * CT_WHAT_IF_BOUND_PERMILLE);
    ct_json_number(j, "not_reproduced", w->not_reproduced);
    ct_json_number_or_null(j, "limit_bytes", w->limit && w->limit != UINT64_MAX, w->limit);
    ct_json_bool(j, "limit_is_inferred", w->limit_is_inferred);
    ct_json_number(j, "large_groups", w->groups[0]);
    ct_json_number(j, "small_groups", w->groups[1]);
    ct_json_number(j, "recorded_reserved_peak_bytes", w->recorded_reserved_peak);
    ct_json_number(j, "recorded_allocated_peak_bytes", w->recorded_allocated_peak);
    ct_json_number(j, "recorded_failures", w->recorded_ooms);
    add_side(j, "check", &w->side[CT_WHAT_IF_CHECK]);
    add_side(j, "recorded", &w->side[CT_WHAT_IF_RECORDED]);
    add_side(j, "asked", &w->side[CT_WHAT_IF_ASKED]);
    add_side(j, "asked_least", &w->side[CT_WHAT_IF_ASKED_LEAST]);
    ct_json_open(j, "asked_mixed", '[');
    for (int i = CT_WHAT_IF_ASKED_MIXED; i < (int)CT_WHAT_IF_ASKED_APART; i++)
        add_side(j, NULL, &w->side[i]);
    ct_json_close(j, ']');
    add_side(j, "asked_apart", &w->side[CT_WHAT_IF_ASKED_APART]);
    ct_json_close(j, '}');
}
