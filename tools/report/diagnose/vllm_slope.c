// SPDX-License-Identifier: Apache-2.0
#include "diagnose/vllm_slope.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compare/fact_differences.h"

#define MILLION 1000000
#define MIB (INT64_C(1) << 20)
#define MOST (INT64_C(1) << 50)
#define MOST_AT (INT64_C(1) << 40)

// Real runs of 2,048 to 16,384 tokens were up to 16 MiB apart from a line.
static const int64_t least_error = 32 * MIB;

static int refuse(struct ct_vllm_slope *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(struct ct_vllm_slope *s, const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(s->why, sizeof s->why, format, list);
    va_end(list);
    return -1;
}

// ---- whether it is the same server --------------------------------------------------------------

static const char *const flag_names[] = {
#define CT_TEXT_FLAG(ID, name, dashed, source) "--" dashed,
#include "text/flags.def"
};

static int is_searched(enum ct_text_flag flag) {
    return flag == CT_TEXT_FLAG_MAX_NUM_SEQS || flag == CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS;
}

// Finds the one setting that differs.
static int compare_settings(struct ct_vllm_slope *s, const struct ct_vllm_recording *a,
                            const struct ct_vllm_recording *b) {
    for (int i = 0; i < CT_TEXT_FLAGS; i++) {
        const enum ct_text_flag flag = (enum ct_text_flag)i;
        const struct ct_setting x = ct_server_settings_find(a->facts, a->log, flag),
                                y = ct_server_settings_find(b->facts, b->log, flag);
        const int is_same = x.number && y.number ? x.number == y.number : !strcmp(x.text, y.text);
        if (is_same || flag == CT_TEXT_FLAG_NUM_GPU_BLOCKS) // (that is a result)
            continue;
        if (!*x.text || !*y.text)
            return refuse(s,
                          "%s is known of one recording alone (--log and --other-log may have it)",
                          flag_names[i]);
        if (!is_searched(flag) || s->flag)
            return refuse(s, "%s differs%s%s", flag_names[i], s->flag ? ", and " : "",
                          s->flag ? s->flag : "");
        s->flag = flag_names[i];
        s->is_step = flag == CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS;
    }
    return s->flag ? 0
                   : refuse(s, "neither --max-num-batched-tokens nor --max-num-seqs is known to "
                               "differ");
}

static int is_name(struct ct_string name, const char *wanted) {
    return name.length == strlen(wanted) && memcmp(name.at, wanted, name.length) == 0;
}

// What changes no memory of the server: how it was recorded, and by what.
static int is_of_recorder(const struct ct_fact_difference *d) {
    if (d->kind == CT_FACT_OPTION)
        return !is_name(d->name, "SAMPLE") && !is_name(d->name, "MIN_SIZE");
    return d->kind == CT_FACT_VERSION &&
           (is_name(d->name, "cutrace.version") || is_name(d->name, "host.kernel"));
}

static int compare_facts(struct ct_vllm_slope *s, const struct ct_definitions *a,
                         const struct ct_definitions *b) {
    struct ct_fact_differences found;
    int result = 0;
    ct_fact_differences_find(&found, a, b);
    for (size_t i = 0; i < found.count && !result; i++) {
        const struct ct_fact_difference *d = &found.list[i];
        if (is_of_recorder(d) || (d->kind == CT_FACT_FLAG && is_name(d->name, s->flag + 2)))
            continue;
        result = refuse(s, "a %s differs, too (cutrace-report diff shows it)",
                        d->kind == CT_FACT_ENVIRONMENT ? "variable of the environment"
                                                       : ct_fact_kind_name(d->kind));
    }
    ct_fact_differences_free(&found);
    return result;
}

static int compare_devices(struct ct_vllm_slope *s, const struct ct_vllm_recording *a,
                           const struct ct_vllm_recording *b) {
    struct ct_fact_differences found;
    ct_fact_differences_find_device(&found, a->definitions, a->device, b->definitions, b->device);
    const size_t count = found.count;
    ct_fact_differences_free(&found);
    return count || a->budget->recorded_capacity != b->budget->recorded_capacity
               ? refuse(s, "it was recorded on another device")
               : 0;
}

static int compare_memory(struct ct_vllm_slope *s, const struct ct_vllm_recording *a,
                          const struct ct_vllm_recording *b) {
    if (!a->memory->weights_bytes || a->memory->weights_bytes != b->memory->weights_bytes)
        return refuse(s, "its weights are not of the same size");
    if (a->memory->has_trial != b->memory->has_trial ||
        a->memory->has_graphs != b->memory->has_graphs)
        return refuse(s, "one of the recordings alone captured CUDA graphs");
    if (!a->budget->has_step || !b->budget->has_step)
        return refuse(s, "one of the recordings has no profile run");
    return 0;
}

// ---- the slope ----------------------------------------------------------------------------------

int64_t ct_vllm_slope_bytes(const struct ct_vllm_budget *b, int is_step) {
    return is_step ? b->step : b->step + b->buffers + b->sampler + b->graphs;
}

static struct ct_vllm_point make_point(const struct ct_vllm_budget *b, int is_step) {
    const struct ct_setting *s = is_step ? &b->step_tokens : &b->requests;
    return (struct ct_vllm_point){.at = s->number / MILLION,
                                  .bytes = ct_vllm_slope_bytes(b, is_step),
                                  .graphs = is_step ? 0 : b->graphs};
}

void ct_vllm_slope_find(struct ct_vllm_slope *s, const struct ct_vllm_recording *now,
                        const struct ct_vllm_recording *other) {
    *s = (struct ct_vllm_slope){.known = 0};
    if (!other->budget->known) {
        (void)refuse(s, "%s", other->budget->why);
        return;
    }
    if (compare_settings(s, now, other) || compare_facts(s, now->definitions, other->definitions) ||
        compare_devices(s, now, other) || compare_memory(s, now, other))
        return;
    s->now = make_point(now->budget, s->is_step);
    s->other = make_point(other->budget, s->is_step);
    const int64_t at[] = {s->now.at, s->other.at};
    if (at[0] <= 0 || at[1] <= 0 || at[0] == at[1] || at[0] > MOST_AT || at[1] > MOST_AT) {
        (void)refuse(s, "the values of %s are no numbers that can be compared", s->flag);
        return;
    }
    const int64_t most = s->now.bytes > s->other.bytes ? s->now.bytes : s->other.bytes;
    s->error = most / 32 > least_error ? most / 32 : least_error;
    s->known = 1;
}

static int64_t limit(__int128 bytes) {
    return bytes > MOST ? MOST : bytes < -MOST ? -MOST : (int64_t)bytes;
}

static void sort(const struct ct_vllm_slope *s, struct ct_vllm_point *low,
                 struct ct_vllm_point *high) {
    const int is_higher = s->now.at > s->other.at;
    *high = is_higher ? s->now : s->other;
    *low = is_higher ? s->other : s->now;
}

int64_t ct_vllm_slope_least(const struct ct_vllm_slope *s, int64_t at) {
    struct ct_vllm_point low, high;
    sort(s, &low, &high);
    high.bytes -= high.graphs;
    low.bytes -= low.graphs;
    const __int128 rise = (__int128)high.bytes - low.bytes - s->error, run = high.at - low.at;
    __int128 bytes = at > s->now.at ? s->now.graphs : 0;
    if (at == s->now.at)
        return 0;
    if (at >= high.at)
        bytes += high.bytes + (rise > 0 ? rise * (at - high.at) / run : 0);
    else // (more than in proportion it cannot fall)
        bytes +=
            at > low.at ? (__int128)high.bytes * at / high.at : (__int128)low.bytes * at / low.at;
    return limit(bytes - s->error - s->now.bytes);
}

int64_t ct_vllm_slope_most(const struct ct_vllm_slope *s, int64_t at) {
    struct ct_vllm_point low, high;
    sort(s, &low, &high);
    if (high.bytes < low.bytes)
        high.bytes = low.bytes;
    const __int128 rise = high.bytes - low.bytes, run = high.at - low.at;
    __int128 bytes;
    if (at == s->now.at)
        return 0;
    if (at <= low.at)
        bytes = low.bytes + s->error;
    else if (at <= high.at)
        bytes = low.bytes + rise * (at - low.at) / run + s->error;
    else
        bytes = ((__int128)high.bytes + s->error) * at / high.at;
    return limit(bytes - s->now.bytes);
}
