// SPDX-License-Identifier: Apache-2.0
// One run has one point of each relation, and a second recording (vllm_slope.h) another one. Where
// a relation is known (the cache is the rest of a budget, tokens have a fixed size), a bound is
// exact to a block. Where only that it grows at most in proportion is known (activations, buffers
// of requests), the proportion gives a value that is certain to fit, and none that is certain not
// to.
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
    const struct ct_vllm_slope *slope; // or NULL
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
    "how many bytes a token takes is not in the trace: --log FILE or --metrics FILE has it (the "
    "log line \"GPU KV cache size\", or vllm:cache_config_info of record-metrics)";

// ---- gpu_memory_utilization and kv_cache_memory_bytes -------------------------------------------

static void explain_room(const struct fit *f, struct ct_fit_setting *s) {
    const struct ct_vllm_budget *b = f->b;
    add(s->because,
        "serving needs %s to %s beside the cache: %s that stays, %s outside of allocations%s, and "
        "for the largest step the %s of the profile run, or up to twice that where requests of "
        "many lengths leave it in pieces (by experience: PyTorch has no bound)%s",
        size(f, b->need_low).text, size(f, b->need_high).text, size(f, b->stays).text,
        size(f, b->outside).text, b->others ? ", with other processes" : "", size(f, b->step).text,
        b->need_by_run ? "; the recorded run needed the larger figure itself" : "");
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
        add(s->unknown, "it cannot be judged: %s", b->why_not_by_utilization);
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

// ---- the same by two recordings -----------------------------------------------------------------

// By utilization the cache gives what activations take, and steps take it once more in pieces;
// without that bound, whether the sum fits does not change. Where the size of the cache is set,
// only the room beside it counts.
static int fits_at(const struct fit *f, int64_t at) {
    const struct ct_vllm_budget *b = f->b;
    const int is_set = b->cache_size.source != CT_SETTING_UNKNOWN;
    int64_t more = ct_vllm_slope_most(f->slope, at);
    const int64_t room = f->room_low - b->cache_high;
    // What falls with the number of requests may be buffers, which leave no pieces.
    if (more < 0 && !f->slope->is_step)
        more = 0;
    if (is_set)
        return 2 * more <= room;
    return more <= room && more <= b->cache_low - f->one;
}

// Where the size of the cache is set: a step has no more tokens than the cache, and the profile run
// comes before it. What the number of requests takes at once is not known then.
static int fails_with_set_cache(const struct fit *f, int64_t at) {
    const struct ct_vllm_budget *b = f->b;
    const int64_t in_step = ct_vllm_slope_least(f->slope, smaller(at, b->tokens)),
                  in_profile = ct_vllm_slope_least(f->slope, at);
    return f->slope->is_step && (in_step > f->room_high - b->cache_low ||
                                 in_profile > f->room_high + b->outside + b->buffers);
}

// By utilization, vLLM does not start where the cache has no room for one request.
static int fails_at(const struct fit *f, int64_t at) {
    const struct ct_vllm_budget *b = f->b;
    if (b->cache_size.source != CT_SETTING_UNKNOWN)
        return fails_with_set_cache(f, at);
    return ct_vllm_slope_least(f->slope, at) > b->cache_high - f->one;
}

// The largest number of whole steps that fits; 0: none does.
static int64_t find_safe(const struct fit *f, int64_t step, int64_t farthest) {
    int64_t low = 0, high = farthest / step + 1; // `low` fits, `high` does not
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (fits_at(f, middle * step))
            low = middle;
        else
            high = middle;
    }
    return low * step;
}

// The smallest value that does not fit; 0: none is known.
static int64_t find_failing(const struct fit *f, int64_t farthest) {
    int64_t low = 0, high = farthest; // `high` fails
    if (!fails_at(f, farthest))
        return 0;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (fails_at(f, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static void explain_slope(const struct fit *f, struct ct_fit_setting *s, const char *what) {
    const struct ct_vllm_slope *l = f->slope;
    const int64_t farther = larger(l->now.at, l->other.at) * 2;
    add(s->because, "%s: %s at %s, and %s at %s in the other recording, each uncertain by %s", what,
        size(f, l->now.bytes).text, count(l->now.at).text, size(f, l->other.bytes).text,
        count(l->other.at).text, size(f, l->error).text);
    add(s->because,
        "beyond both at least by the line through them and at most in proportion: at %s %s to %s",
        count(farther).text, size(f, l->now.bytes + ct_vllm_slope_least(l, farther)).text,
        size(f, l->now.bytes + ct_vllm_slope_most(l, farther)).text);
}

static void explain_limits(const struct fit *f, struct ct_fit_setting *s) {
    const struct ct_vllm_budget *b = f->b;
    const int64_t room = f->room_low - b->cache_high;
    if (b->cache_size.source != CT_SETTING_UNKNOWN)
        add(s->because,
            "beside the KV cache, which stays as it is set, %s to %s more fit, for certain half of "
            "the first, as steps leave as much again in pieces; a step has at most the %s tokens "
            "of the cache, but the profile run all of them",
            size(f, room).text, size(f, f->room_high - b->cache_low).text, count(b->tokens).text);
    else
        add(s->because,
            "the KV cache of %s gives it, and must keep the %s of one request of %s tokens; pieces "
            "of steps have room for %s more",
            size(f, b->cache_low).text, size(f, f->one).text, count(whole(&b->max_len)).text,
            size(f, room).text);
}

static void fit_by_slope(struct fit *f, struct ct_fit_setting *s, int64_t step, const char *what) {
    const struct ct_vllm_slope *l = f->slope;
    const int64_t farthest = larger(l->now.at, l->other.at) * FARTHEST,
                  most = farthest * FARTHEST * FARTHEST;
    explain_slope(f, s, what);
    explain_limits(f, s);
    s->safe = find_safe(f, step, farthest);
    if (s->safe < l->now.at && fits_at(f, l->now.at))
        s->safe = l->now.at;
    s->fails = find_failing(f, most);
    if (s->fails && s->fails <= s->safe)
        s->fails = s->safe + 1;
    if (!s->fails && !l->is_step && f->b->cache_size.source != CT_SETTING_UNKNOWN)
        add(s->unknown, "from which value on it fails, because the size of the KV cache is set");
    else if (!s->fails)
        add(s->unknown, "whether it fails anywhere up to %s: by the line it does not",
            count(most).text);
    if (!s->safe)
        add(s->unknown, "which value is low enough: a recording with a lower one would tell");
}

// ---- by one recording, else by two --------------------------------------------------------------

// `grows`: bytes that grow at most in proportion to the setting.
static void fit_in_proportion(struct fit *f, struct ct_fit_setting *s, int64_t grows, int64_t step,
                              const char *what) {
    const struct ct_vllm_budget *b = f->b;
    const int64_t now = whole(s->now);
    if (!now) {
        add(s->unknown, "the trace does not have it (--log may)");
        return;
    }
    if (!b->has_step || !b->has_need || !b->has_cache_there) {
        add(s->unknown, "%s",
            !b->has_step  ? "the trace has no profile run"
            : b->has_need ? b->why_not_by_utilization
                          : b->why_no_need);
        return;
    }
    const int is_by_slope = f->slope && f->slope->known && strcmp(f->slope->flag, s->flag) == 0;
    if (!is_by_slope)
        add(s->because, "%s: %s at %s", what, size(f, grows).text, count(now).text);
    if (!f->one) {
        add(s->unknown, "%s", b->tokens ? "max_model_len is not known" : tokens_unknown);
        return;
    }
    if (is_by_slope) {
        fit_by_slope(f, s, step, what);
        return;
    }
    const int64_t slack = find_slack(f);
    const __int128 fits = grows > 0 ? (__int128)now * (grows + slack) / grows : MOST;
    const int64_t value = fits <= 0 ? 0 : fits < MOST ? (int64_t)fits : MOST;
    if (slack < 0) {
        s->fails = 0;
        add(s->unknown,
            "%s is missing, in proportion that of %s; a trace with a lower value would "
            "tell how much that gives back (--other)",
            size(f, -slack).text, count(now - value).text);
        return;
    }
    explain_slack(f, s, slack);
    s->safe = smaller(larger(value / step * step, now), now * FARTHEST);
    add(s->unknown, "how much less it takes than in proportion, and so how far it could go beyond, "
                    "a trace with another value would tell (--other)");
}

static void fit_step(struct fit *f) {
    struct ct_fit_setting *s = begin(f, "--max-num-batched-tokens", &f->b->step_tokens);
    fit_in_proportion(f, s, ct_vllm_slope_bytes(f->b, 1), 256,
                      "the activations of the profile run grow at most in proportion to it");
}

static void fit_requests(struct fit *f) {
    struct ct_fit_setting *s = begin(f, "--max-num-seqs", &f->b->requests);
    fit_in_proportion(f, s, ct_vllm_slope_bytes(f->b, 0), 8,
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
    add(to, "all %" PRId64 " requests together wanted %s of KV cache", d->most,
        size(f, (int64_t)wanted).text);
    if (!b->has_need)
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
                      const struct ct_vllm_slope *slope, const struct ct_metrics *metrics,
                      enum ct_human_units units) {
    struct fit f = {.to = to, .b = b, .slope = slope, .units = units};
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
