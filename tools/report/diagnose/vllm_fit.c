// SPDX-License-Identifier: Apache-2.0
// One run has one point of each relation. Where a relation is known (the cache is the rest of a
// budget, tokens have a fixed size), a bound is exact to a block. Where only that it grows at most
// in proportion is known (activations, buffers of requests), the proportion gives a value that is
// certain to fit, and none that is certain not to.
#include "diagnose/vllm_fit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MILLION 1000000
#define CENT 10000 // a hundredth, in millionths
#define MOST (INT64_C(1) << 50)

// So many times the recorded value is as far as one point is carried on.
enum { FARTHEST = 4 };

struct fit {
    struct ct_vllm_fit *to;
    const struct ct_vllm_budget *b;
    enum ct_human_units units;
    // The memory for the cache while it serves: so much for certain, and no more than that. May be
    // negative.
    int64_t room_low, room_high;
    int64_t one; // bytes of one request of max_model_len; 0: not known
};

struct ct_human_text ct_vllm_fit_value(const struct ct_fit_setting *s, int64_t value) {
    if (!value)
        return (struct ct_human_text){""};
    if (s->is_share)
        return ct_human_format("%.2f", (double)value / MILLION);
    return ct_human_format("%" PRId64, value);
}

const struct ct_fit_setting *ct_vllm_fit_setting(const struct ct_vllm_fit *f, const char *flag) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->list[i].flag, flag) == 0)
            return &f->list[i];
    return NULL;
}

int64_t ct_vllm_fit_recorded(const struct ct_fit_setting *s) {
    const int64_t n = s->now->number > 0 ? s->now->number : 0;
    return s->is_share ? n : n / MILLION;
}

static struct ct_human_text size(const struct fit *f, int64_t bytes) {
    return ct_human_bytes(bytes > 0 ? (uint64_t)bytes : 0, f->units);
}

static struct ct_human_text count(int64_t n) {
    return ct_human_count(n > 0 ? (uint64_t)n : 0);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t whole(const struct ct_setting *s) {
    const int64_t n = s->number > 0 ? s->number / MILLION : 0;
    return n < MOST ? n : 0;
}

static void add(char *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Appends a sentence.
static void add(char *to, const char *format, ...) {
    const size_t n = strlen(to);
    va_list list;
    if (n + 3 >= CT_FIT_TEXT)
        return;
    if (n)
        memcpy(to + n, "; ", 3);
    va_start(list, format);
    (void)vsnprintf(to + n + (n ? 2 : 0), CT_FIT_TEXT - n - (n ? 2 : 0), format, list);
    va_end(list);
}

static struct ct_fit_setting *begin(struct fit *f, const char *flag, const struct ct_setting *now) {
    struct ct_fit_setting *s = &f->to->list[f->to->count++];
    *s = (struct ct_fit_setting){.flag = flag, .now = now};
    return s;
}

static const char *tokens_unknown =
    "how many bytes a token takes is not in the trace: --log FILE has it (the "
    "log's line \"GPU KV cache size\", or a file of record-metrics)";

// ---- gpu_memory_utilization and kv_cache_memory_bytes -------------------------------------------

static void explain_room(const struct fit *f, struct ct_fit_setting *s) {
    const struct ct_vllm_budget *b = f->b;
    add(s->because,
        "serving needs %s to %s beside the cache: %s that stays, %s outside of allocations%s, and "
        "for the largest step the %s of the profile run, or up to twice that where requests of "
        "many lengths leave it in pieces (by experience: PyTorch has no bound)%s",
        size(f, b->need_low).text, size(f, b->need_high).text, size(f, b->stays).text,
        size(f, b->outside).text, b->others ? ", with other processes" : "", size(f, b->step).text,
        !b->need_by_run        ? ""
        : b->fails_as_recorded ? "; the recorded run needed more, what failed and as much again"
                               : "; the recorded run needed the larger figure itself");
    add(s->because, "that leaves %s to %s of %s for the cache", size(f, f->room_low).text,
        size(f, f->room_high).text, size(f, b->capacity).text);
}

// Hundredths of a share of the device, in millionths: rounded down, or up.
static int64_t share_down(const struct fit *f, int64_t bytes) {
    return bytes <= 0 ? 0 : (int64_t)((__int128)bytes * 100 / f->b->capacity) * CENT;
}

static int64_t share_up(const struct fit *f, int64_t bytes) {
    const int64_t down = share_down(f, bytes);
    return down + ((__int128)down * f->b->capacity < (__int128)bytes * MILLION ? CENT : 0);
}

// vLLM does not start if less is free then than the budget.
static void bound_by_start(const struct fit *f, struct ct_fit_setting *s) {
    const struct ct_vllm_budget *b = f->b;
    if (b->start_used < 0)
        return;
    const int64_t free = b->capacity - b->start_used, most = share_down(f, free);
    if (s->safe > most)
        s->safe = most;
    if (s->fails && s->fails <= most + CENT)
        return;
    s->fails = most + CENT;
    add(s->because, "vLLM does not start with a budget above the %s that are free before it loads",
        size(f, free).text);
}

// The recorded run itself showed that its value is too much.
static void bound_by_run(const struct fit *f, struct ct_fit_setting *s, int64_t now) {
    if (!f->b->fails_as_recorded || now <= 0 || (s->fails && s->fails <= now))
        return;
    s->fails = now;
    add(s->because, "the recorded run failed with its value");
}

static void fit_utilization(struct fit *f) {
    const struct ct_vllm_budget *b = f->b;
    struct ct_fit_setting *s = begin(f, "--gpu-memory-utilization", &b->utilization);
    const int64_t block = b->block ? b->block : 0;
    s->is_share = 1;
    if (!b->by_utilization) {
        add(s->unknown, "%s", b->why_not_by_utilization);
        return;
    }
    add(s->because, "the budget is %s and the KV cache %s, so that vLLM has %s besides",
        size(f, ct_vllm_budget_requested(b->recorded_capacity, b->utilization.number)).text,
        size(f, b->cache).text, size(f, b->besides).text);
    if (f->one)
        s->least = share_up(f, b->besides + f->one);
    if (b->has_need) {
        s->safe = share_down(f, f->room_low + b->besides - block);
        s->fails = share_down(f, f->room_high + b->besides) + CENT;
        explain_room(f, s);
    } else
        add(s->unknown, "%s", b->why_no_need);
    bound_by_start(f, s);
    bound_by_run(f, s, b->utilization.number);
}

static void fit_cache_size(struct fit *f) {
    const struct ct_vllm_budget *b = f->b;
    const int64_t mib = INT64_C(1) << 20;
    if (b->cache_size.source == CT_SETTING_UNKNOWN)
        return;
    struct ct_fit_setting *s = begin(f, "--kv-cache-memory-bytes", &b->cache_size);
    s->least = f->one;
    if (b->has_need) {
        s->safe = larger(f->room_low, 0) / mib * mib;
        s->fails = larger(f->room_high, 0) / mib * mib + mib;
        explain_room(f, s);
    } else
        add(s->unknown, "%s", b->why_no_need);
    bound_by_run(f, s, whole(&b->cache_size));
}

// ---- max_model_len ------------------------------------------------------------------------------

static void fit_length(struct fit *f) {
    const struct ct_vllm_budget *b = f->b;
    struct ct_fit_setting *s = begin(f, "--max-model-len", &b->max_len);
    const int64_t now = whole(&b->max_len);
    if (!b->tokens || !b->has_cache_there) {
        add(s->unknown, "%s", b->tokens ? b->why_not_by_utilization : tokens_unknown);
        return;
    }
    const int64_t most = larger(b->cache_high, 0) / b->block * b->block_tokens;
    // Block tables have an entry for each block of each request: at most all buffers of the runner
    // grow with it.
    int64_t safe = larger(b->cache_low, 0) / b->block * b->block_tokens;
    if (now > 0 && safe > now) {
        const __int128 token = b->block / b->block_tokens + 1,
                       fits =
                           ((__int128)b->cache_low + b->buffers) * now / (token * now + b->buffers);
        safe = smaller(safe, (int64_t)(fits / b->block_tokens * b->block_tokens));
    }
    s->safe = safe;
    s->fails = larger(most, safe) + 1;
    add(s->because, "the KV cache of %s has %s tokens of %s bytes (by %s, in blocks of %s)",
        size(f, b->cache_low).text, count(most).text, count(b->block / b->block_tokens).text,
        b->tokens_source, count(b->block_tokens).text);
    if (now > 0)
        add(s->because, "it holds %.1f requests of %s tokens", (double)most / (double)now,
            count(now).text);
    add(s->because, "this holds where every layer keeps the whole context; a model's own limit is "
                    "not in the trace");
}

// ---- settings with which memory grows at most in proportion -------------------------------------

// What the cache could give to activations: it must hold one request; and of what serving leaves,
// because they take it once more in pieces.
static int64_t find_slack(const struct fit *f) {
    const struct ct_vllm_budget *b = f->b;
    const int64_t of_cache = b->cache_low - f->one, of_room = f->room_low - b->cache_high;
    if (b->cache_size.source != CT_SETTING_UNKNOWN) // the cache stays as large as it is set
        return of_room < 0 ? of_room : of_room / 2;
    return smaller(of_cache, of_room);
}

static void explain_slack(const struct fit *f, struct ct_fit_setting *s, int64_t slack) {
    const struct ct_vllm_budget *b = f->b;
    if (b->cache_size.source != CT_SETTING_UNKNOWN)
        add(s->because, "%s more fit beside the KV cache, which stays as it is set",
            size(f, slack).text);
    else
        add(s->because,
            "%s of the %s of KV cache could go to it, so that one request of %s tokens "
            "still fits",
            size(f, slack).text, size(f, b->cache_low).text, count(whole(&b->max_len)).text);
}

// `grows`: bytes that grow at most in proportion to the setting.
static void fit_in_proportion(struct fit *f, struct ct_fit_setting *s, int64_t grows, int64_t step,
                              const char *what) {
    const struct ct_vllm_budget *b = f->b;
    const int64_t now = whole(s->now);
    if (!now) {
        add(s->unknown, "%s", b->not_given);
        return;
    }
    if (!b->has_step || !b->has_need || !b->has_cache_there) {
        add(s->unknown, "%s",
            !b->has_step  ? "the trace has no profile run"
            : b->has_need ? b->why_not_by_utilization
                          : b->why_no_need);
        return;
    }
    add(s->because, "%s: %s at %s", what, size(f, grows).text, count(now).text);
    if (!f->one) {
        add(s->unknown, "%s", b->tokens ? "max_model_len is not known" : tokens_unknown);
        return;
    }
    const int64_t slack = find_slack(f);
    const __int128 fits = grows > 0 ? (__int128)now * (grows + slack) / grows : MOST;
    const int64_t value = fits <= 0 ? 0 : fits < MOST ? (int64_t)fits : MOST;
    if (slack < 0) {
        s->fails = 0;
        add(s->unknown,
            "%s is missing, in proportion that of %s; a trace with a lower value would "
            "tell how much that gives back",
            size(f, -slack).text, count(now - value).text);
        return;
    }
    explain_slack(f, s, slack);
    s->safe = smaller(larger(value / step * step, now), now * FARTHEST);
    add(s->unknown, "how much less it takes than in proportion, and so how far it could go beyond, "
                    "a trace with another value would tell");
}

static void fit_step(struct fit *f) {
    struct ct_fit_setting *s = begin(f, "--max-num-batched-tokens", &f->b->step_tokens);
    fit_in_proportion(f, s, f->b->step, 256,
                      "the activations of the profile run grow at most in proportion to it");
}

static void fit_requests(struct fit *f) {
    const struct ct_vllm_budget *b = f->b;
    struct ct_fit_setting *s = begin(f, "--max-num-seqs", &b->requests);
    fit_in_proportion(f, s, b->step + b->buffers + b->sampler + b->graphs, 8,
                      "buffers of requests, the sampler and graphs grow at most in proportion to "
                      "it, and the profile run with them");
}

// ---- the load that was served -------------------------------------------------------------------

static void add_wanted(struct fit *f, const struct ct_metrics_demand *d) {
    const struct ct_vllm_budget *b = f->b;
    char *to = f->to->load_change;
    const __int128 wanted = (__int128)b->cache * d->share * d->most / MILLION;
    if (d->share <= 0 || wanted <= b->cache || wanted > MOST)
        return;
    add(to, "all %" PRId64 " requests together wanted %s%s of KV cache", d->most,
        d->is_whole ? "" : "more than ", size(f, (int64_t)wanted).text);
    if (!b->has_need || !d->is_whole)
        return;
    if ((int64_t)wanted <= f->room_low)
        add(to, "that fits: raise the cache");
    else
        add(to, "the %s that fit are not enough: with --max-num-seqs %" PRId64 " none is preempted",
            size(f, larger(f->room_low, b->cache_low)).text,
            larger((int64_t)((__int128)larger(f->room_low, b->cache_low) * MILLION / d->share /
                             b->cache),
                   1));
}

static void add_unused(struct fit *f, int64_t usage) {
    const struct ct_vllm_budget *b = f->b;
    const int64_t used = (int64_t)((__int128)b->cache * usage / MILLION),
                  needed = larger(used, f->one);
    add(f->to->load_change,
        "for this load, a larger cache is worth nothing: %s of it were never in use",
        size(f, b->cache - used).text);
    if (b->by_utilization && f->one)
        add(f->to->load_change, "%.2f would be enough for --gpu-memory-utilization",
            (double)share_up(f, b->besides + needed) / MILLION);
}

static void read_load(struct fit *f, const struct ct_metrics *m) {
    const struct ct_metrics_demand demand = ct_metrics_verdicts_demand(m);
    const int64_t usage = ct_metrics_max(m, CT_METRIC_USAGE, NULL),
                  waiting = ct_metrics_max(m, CT_METRIC_WAITING, NULL) / MILLION,
                  preempted = ct_metrics_growth(m, CT_METRIC_PREEMPTIONS, 0, m->count) / MILLION;
    if (usage < 0 || usage > MILLION)
        return;
    add(f->to->load, "up to %.1f %% of the KV cache was in use in %" PRIu64 " scrapes",
        (double)usage / 10000, m->scrapes);
    if (waiting > 0)
        add(f->to->load, "up to %" PRId64 " requests waited", waiting);
    if (preempted > 0)
        add(f->to->load, "%" PRId64 " requests were preempted", preempted);
    if (preempted > 0)
        add_wanted(f, &demand);
    else if (usage < MILLION / 10 * 9 && waiting <= 0)
        add_unused(f, usage);
}

void ct_vllm_fit_find(struct ct_vllm_fit *to, const struct ct_vllm_budget *b,
                      const struct ct_metrics *metrics, enum ct_human_units units) {
    struct fit f = {.to = to, .b = b, .units = units};
    *to = (struct ct_vllm_fit){.count = 0};
    if (!b->known)
        return;
    f.room_low = b->capacity - b->need_high;
    f.room_high = b->capacity - b->need_low;
    f.one = ct_vllm_budget_request_bytes(b, whole(&b->max_len));
    to->cache_excess = b->has_need && b->has_cache_there ? larger(b->cache_low - f.room_low, 0) : 0;
    fit_utilization(&f);
    fit_cache_size(&f);
    fit_length(&f);
    fit_requests(&f);
    fit_step(&f);
    if (metrics)
        read_load(&f, metrics);
}
