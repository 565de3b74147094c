// SPDX-License-Identifier: Apache-2.0
#include "diagnose/trace_verdicts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "diagnose/server_settings.h"
#include "diagnose/vllm_budget.h"

#define MILLION 1000000
#define MIB (UINT64_C(1) << 20)

static const char kv_flag[] = "--kv-cache-memory-bytes", kv_versions[] = "vLLM 0.10.2 and later";

static struct ct_setting find_setting(const struct ct_judged *j, enum ct_text_flag flag) {
    return ct_server_settings_find(j->c->facts, j->c->log, flag);
}

// The server that made the KV cache.
static enum ct_framework find_owner(const struct ct_judged *j) {
    const struct ct_live_totals *live = j->c->live;
    for (size_t i = 0; i < live->holding_count; i++) {
        const struct ct_holding *h = &live->holdings[i];
        if (h->kind < CT_HOLDING_STACKS &&
            ct_phases_find_component(j->c->phases, h->stack) == CT_COMPONENT_KV_CACHE)
            return ct_phases_find(j->c->phases, h->stack).framework;
    }
    return CT_FRAMEWORK_NONE;
}

static struct ct_server find_server(const struct ct_judged *j) {
    const struct ct_trace_case *c = j->c;
    struct ct_server s = {ct_server_of_request(j->oom->phase.framework, c->facts->program, c->log),
                          c->facts, c->log};
    if (!s.is)
        s.is = find_owner(j); // where the program's own code asked
    return s;
}

// The value of the server's option for a role; unknown: of no setting that is known.
static struct ct_setting find_option(const struct ct_judged *j, enum ct_option_role role) {
    const struct ct_server s = find_server(j);
    return ct_server_find_option(&s, role);
}

// The bound that fit names for an option of a server that has served; NULL: it names none. Advice
// takes its value, because a value of its own arithmetic would be another one.
static const struct ct_fit_setting *find_bound(const struct ct_judged *j, const char *flag) {
    return j->c->fit ? ct_vllm_fit_setting(j->c->fit, flag) : NULL;
}

// The value to which it must come down; "" where that is not known.
static struct ct_human_text value_of(const struct ct_fit_setting *s) {
    const int is_less = s->safe && s->safe < ct_vllm_fit_recorded(s);
    return ct_vllm_fit_value(s, is_less ? s->safe : 0);
}

// What activations can have: what they have now, idle segments, which PyTorch can free, and what is
// free. Idle parts of other segments rarely fit.
static uint64_t find_room(const struct ct_judged *j) {
    return ct_judged_row(j, (enum ct_account_row_kind)CT_COMPONENT_ACTIVATIONS) +
           (j->oom->pool.known ? j->oom->pool.idle_bytes : 0) + ct_judged_row(j, CT_ACCOUNT_FREE);
}

// What the profile run took, and more for the pieces that another order of requests leaves in
// PyTorch's pool: an eighth, and for steps of changing numbers of tokens half.
static uint64_t find_profile(const struct ct_judged *j) {
    const uint64_t bytes = j->c->profile_bytes;
    const int changes = j->phase == CT_PHASE_SERVE && j->component == CT_COMPONENT_ACTIVATIONS;
    return ct_vllm_budget_pieces(bytes,
                                 changes ? CT_VLLM_PIECES_CHANGING : CT_VLLM_PIECES_ONE_STEP);
}

// What of the KV cache is still to come where its allocation failed: by its size as set, else what
// was asked for.
static uint64_t find_cache_to_come(const struct ct_judged *j) {
    const struct ct_setting s = find_setting(j, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES);
    const uint64_t whole = s.number > 0 ? (uint64_t)s.number / MILLION : 0,
                   have = ct_judged_row(j, (enum ct_account_row_kind)CT_COMPONENT_KV_CACHE);
    if (j->phase != CT_PHASE_KV_CACHE)
        return 0;
    return whole > have ? whole - have : j->oom->bytes;
}

// ---- graphs that are still to come -------------------------------------------------------------

// How many numbers a list has: [1, 2, 4] or 1 2 4. As many as a real list has.
static uint64_t count_numbers(const char *list) {
    enum { MOST = 1024 };
    uint64_t count = 0;
    int inside = 0;
    for (; *list && count < MOST; list++) {
        const int digit = *list >= '0' && *list <= '9';
        count += digit && !inside;
        inside = digit;
    }
    return count;
}

// Graphs of whole steps: one for each size that the command line lists. 0: not known.
static uint64_t find_graph_count(const struct ct_facts *f) {
    const char *mode = ct_facts_find_flag(f, "compilation-config.cudagraph-mode"),
               *sizes = ct_facts_find_flag(f, "compilation-config.cudagraph-capture-sizes");
    sizes = sizes ? sizes : ct_facts_find_flag(f, "cudagraph-capture-sizes");
    if (!sizes || !mode || strncmp(mode, "FULL", 4) != 0 || strstr(mode, "PIECEWISE"))
        return 0;
    return count_numbers(sizes);
}

// What the executables of the other sizes take, by those that were measured.
static uint64_t find_graphs_to_come(const struct ct_judged *j) {
    const struct ct_graph_captures *g = &j->c->graphs;
    const uint64_t all = find_graph_count(j->c->facts), most = UINT64_C(1) << 40;
    if (!g->measured || all <= g->count)
        return 0;
    const uint64_t each = g->bytes / g->measured;
    return (all - g->count) * (each < most ? each : most);
}

// By how much a cache is too large of a server that has served, as fit has it; else by its profile
// run, which shows what its largest step takes: what of that is not there now (in use by a step,
// idle, or free) has to be left as well.
uint64_t ct_trace_advice_need(const struct ct_judged *j) {
    if (j->c->fit && j->c->fit->cache_excess > 0)
        return (uint64_t)j->c->fit->cache_excess;
    const uint64_t there = find_room(j),
                   wanted = find_profile(j) + find_cache_to_come(j) + find_graphs_to_come(j),
                   more = wanted > there ? wanted - there : 0;
    return more > j->cause.missing ? more : j->cause.missing;
}

// ---- the size of the KV cache ------------------------------------------------------------------

static void say_no_cache_helps(struct ct_verdict *v, uint64_t bytes, const char *has,
                               uint64_t cache) {
    (void)ct_verdict_add_advice(
        v, "no smaller KV cache is enough, because %s more is needed, and it %s %s",
        ct_iec(bytes).text, has, ct_iec(cache).text);
}

// vLLM rounds what it is given down to whole blocks of all layers. `purpose`: as of
// ct_trace_advice_leave.
static void lower_kv_bytes(const struct ct_setting *s, struct ct_verdict *v, uint64_t bytes,
                           const char *purpose) {
    const uint64_t now = s->number > 0 ? (uint64_t)s->number / MILLION : 0;
    char to[24] = "";
    if (now && bytes > now - now / 8) { // what is left holds no request
        say_no_cache_helps(v, bytes, "is to have", now);
        return;
    }
    if (now)
        (void)snprintf(to, sizeof to, "%" PRIu64, (now - bytes) / (16 * MIB) * (16 * MIB));
    struct ct_advice *a = ct_verdict_add_advice(
        v, "%smake the KV cache smaller by %s%s; without this flag vLLM measures what fits",
        v->advice_count ? "or " : "", ct_iec(bytes).text, purpose);
    ct_advice_set(a, kv_flag, s->text, to, kv_versions);
}

// Where the command line is not known, the size of the cache may be set, and the share unused.
static int may_be_unused(const struct ct_judged *j) {
    return find_server(j).is == CT_FRAMEWORK_VLLM && !ct_facts_has_all_flags(j->c->facts);
}

// Advice of a share whose new value is not known: by how much it has to be less.
static struct ct_advice *add_difference(const struct ct_judged *j, struct ct_verdict *v,
                                        int64_t cents, uint64_t bytes, const char *purpose,
                                        int is_set) {
    const char * or = v->advice_count ? "or " : "";
    const char *unknown = is_set ? "" : " (its value is not in the trace; pass --log)";
    const struct ct_human_text less = ct_iec(bytes);
    if (!cents)
        return ct_verdict_add_advice(v, "%slower it, to make the KV cache smaller by %s%s%s", or,
                                     less.text, purpose, unknown);
    if (!is_set && may_be_unused(j))
        return ct_verdict_add_advice(
            v,
            "%slower it by %.2f (%s), or --kv-cache-memory-bytes if that is set%s; pass --log "
            "for their values",
            or, (double)cents / 100, less.text, purpose);
    return ct_verdict_add_advice(v, "%slower it by %.2f, to make the KV cache smaller by %s%s%s",
                                 or, (double)cents / 100, less.text, purpose, unknown);
}

static void lower_share(const struct ct_judged *j, struct ct_verdict *v,
                        const struct ct_server_option *o, uint64_t bytes, const char *purpose) {
    const struct ct_setting s = find_setting(j, o->flag);
    const uint64_t capacity = j->c->capacity;
    const int64_t cents = capacity ? (int64_t)((bytes * 100 + capacity - 1) / capacity) : 0;
    const int64_t lowered = s.number / (MILLION / 100) - cents;
    char to[24] = "";
    if (s.number > 0 && s.number <= MILLION && cents && lowered > 0)
        (void)snprintf(to, sizeof to, "%.2f", (double)lowered / 100);
    struct ct_advice *a =
        *to ? ct_verdict_add_advice(v, "%smake the KV cache smaller by %s%s",
                                    v->advice_count ? "or " : "", ct_iec(bytes).text, purpose)
            : add_difference(j, v, cents, bytes, purpose, s.source != CT_SETTING_UNKNOWN);
    ct_advice_set(a, o->name, s.text, to, o->versions);
}

// Lowers the budget or the size of the cache to what fit calls safe. Returns 0 where fit does not
// know that.
static int lower_to_bound(const struct ct_judged *j, struct ct_verdict *v, const char *flag,
                          const char *versions) {
    const struct ct_fit_setting *s = find_bound(j, flag);
    if (!s || !s->safe)
        return 0;
    const struct ct_human_text to = value_of(s);
    const char * or = v->advice_count ? "or " : "";
    const struct ct_human_text less = ct_iec((uint64_t)j->c->fit->cache_excess);
    if (s->safe < s->least) {
        (void)ct_verdict_add_advice(v,
                                    "a KV cache that leaves enough has no room for one request of "
                                    "max_model_len (cutrace-report fit has the arithmetic); make "
                                    "requests shorter, or steps smaller");
        return 1;
    }
    struct ct_advice *a =
        *to.text
            ? ct_verdict_add_advice(v,
                                    "%smake the KV cache smaller by %s at least, so that steps of "
                                    "the largest size fit (cutrace-report fit has the arithmetic)",
                                    or, less.text)
            : ct_verdict_add_advice(v, "%slower it; how far is not known", or);
    ct_advice_set(a, flag, s->now->text, to.text, versions);
    return 1;
}

void ct_trace_advice_leave(const struct ct_judged *j, struct ct_verdict *v, uint64_t bytes,
                           const char *purpose) {
    const enum ct_framework server = find_server(j).is;
    const struct ct_server_option *o = ct_server_option_find(server, CT_OPTION_BUDGET);
    const struct ct_setting kv = find_setting(j, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES);
    if (!o || !bytes)
        return;
    const int has_size = server == CT_FRAMEWORK_VLLM && kv.source != CT_SETTING_UNKNOWN;
    const uint64_t cache = ct_judged_row(j, (enum ct_account_row_kind)CT_COMPONENT_KV_CACHE);
    if (cache && bytes >= cache && j->phase != CT_PHASE_KV_CACHE)
        say_no_cache_helps(v, bytes, "has", cache);
    else if (has_size && !lower_to_bound(j, v, kv_flag, kv_versions))
        lower_kv_bytes(&kv, v, bytes, purpose);
    else if (!has_size && !lower_to_bound(j, v, o->name, o->versions))
        lower_share(j, v, o, bytes, purpose);
}

void ct_trace_advice_room(const struct ct_judged *j, struct ct_verdict *v) {
    const enum ct_framework server = find_server(j).is;
    const struct ct_server_option *o = ct_server_option_find(server, CT_OPTION_BUDGET);
    const struct ct_setting kv = find_setting(j, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES);
    const int has_size = server == CT_FRAMEWORK_VLLM && kv.source != CT_SETTING_UNKNOWN;
    if (!o)
        return;
    const struct ct_setting now = has_size ? kv : find_setting(j, o->flag);
    ct_verdict_add_setting(v, has_size ? kv_flag : o->name, now.text, NULL,
                           has_size ? kv_versions : o->versions,
                           "lower it by more than the %s that was missing for this request, "
                           "because what that code would have asked for next is not known",
                           ct_iec(j->cause.missing).text);
}

static void replace_by_bound(struct ct_advice *a, const struct ct_fit_setting *s) {
    static const char text[] = "lower it; the trace has more than the log, and cutrace-report fit "
                               "the arithmetic";
    const struct ct_human_text to = value_of(s);
    if (!a->to || strcmp(a->to, to.text) == 0)
        return;
    free(a->text);
    a->text = ct_heap_copy_text(text);
    free(a->to);
    a->to = *to.text ? ct_heap_copy_text(to.text) : NULL;
}

void ct_trace_advice_bound(const struct ct_vllm_fit *f, struct ct_verdicts *of_log) {
    for (size_t i = 0; i < of_log->count; i++)
        for (size_t k = 0; k < of_log->list[i].advice_count; k++) {
            struct ct_advice *a = &of_log->list[i].advice[k];
            const struct ct_fit_setting *s = a->flag ? ct_vllm_fit_setting(f, a->flag) : NULL;
            if (s)
                replace_by_bound(a, s);
        }
}

// ---- settings of which a request has a row each ------------------------------------------------

// How advice on such a setting begins: the values say what to do, if the new one is known. (No
// colon, because one stands after the setting.)
static const char *begin_lower(const struct ct_verdict *v, const char *to) {
    if (*to)
        return v->advice_count ? "or this, because " : "";
    return v->advice_count ? "or lower it, because " : "lower it, because ";
}

static void lower_rows(const struct ct_judged *j, struct ct_verdict *v, enum ct_option_role role,
                       int64_t step, const char *why) {
    const struct ct_server server = find_server(j);
    const int64_t now = ct_server_find_option(&server, role).number / MILLION,
                  lowered = ct_plain_advice_scale(now, step, j->n.tried, j->n.free);
    char to[24] = "", text[200];
    if (lowered)
        (void)snprintf(to, sizeof to, "%" PRId64, lowered);
    (void)snprintf(text, sizeof text, "%s%s", begin_lower(v, to), why);
    ct_plain_advice_option(v, &server, role, to, text);
}

// Sets what a step of the largest size takes: of the profile run, where that came to its end.
// Returns 0 where it failed: its later buffers are not known then. Four times of what it had got to
// is an estimate: a layer's feed-forward part takes two to four times of its attention, which comes
// first.
static int find_step(const struct ct_judged *j, uint64_t *bytes) {
    const uint64_t so_far =
        ct_judged_row(j, (enum ct_account_row_kind)CT_COMPONENT_ACTIVATIONS) + j->oom->bytes;
    const int is_known = j->phase != CT_PHASE_PROFILE && j->c->profile_bytes > so_far;
    *bytes = is_known ? find_profile(j) : 4 * so_far;
    return is_known;
}

// The same by fit's figures. What a lower value would give back, the trace of one run does not
// tell.
static void lower_tokens_to_bound(const struct ct_judged *j, struct ct_verdict *v,
                                  const struct ct_fit_setting *s, const char *why,
                                  const char *versions) {
    const struct ct_vllm_budget *b = j->c->budget;
    const struct ct_human_text to = value_of(s);
    const uint64_t step = (uint64_t)b->step;
    struct ct_advice *a = ct_verdict_add_advice(
        v, "%s%s; the largest takes %s to %s", begin_lower(v, to.text), why, ct_iec(step).text,
        ct_iec(ct_vllm_budget_pieces(step, CT_VLLM_PIECES_ANY)).text);
    ct_advice_set(a, s->flag, s->now->text, to.text, versions);
}

// vLLM refuses fewer tokens in a step than requests.
static int64_t find_least_tokens(const struct ct_judged *j) {
    const struct ct_setting s = find_option(j, CT_OPTION_REQUESTS);
    return s.number > 0 ? s.number / MILLION : 0;
}

static void advise_tokens(const struct ct_judged *j, struct ct_verdict *v, const char *why) {
    enum { STEP = 256 };
    const struct ct_server_option *o =
        ct_server_option_find(find_server(j).is, CT_OPTION_STEP_TOKENS);
    const struct ct_setting s = find_option(j, CT_OPTION_STEP_TOKENS);
    uint64_t step;
    const int is_known = find_step(j, &step);
    const uint64_t room = find_room(j);
    const int64_t now = s.number / MILLION;
    char to[24] = "";
    const struct ct_fit_setting *bound = o ? find_bound(j, o->name) : NULL;
    if (bound)
        lower_tokens_to_bound(j, v, bound, why, o->versions);
    if (!o || bound)
        return;
    const int64_t fits = ct_plain_advice_scale(now, STEP, ct_figure(step), ct_figure(room));
    if (fits && fits >= find_least_tokens(j))
        (void)snprintf(to, sizeof to, "%" PRId64, fits);
    const char *begin = begin_lower(v, to);
    struct ct_advice *a =
        is_known
            ? ct_verdict_add_advice(v, "%s%s; the largest takes about %s, and %s is left for it",
                                    begin, why, ct_iec(step).text, ct_iec(room).text)
            : ct_verdict_add_advice(v, "%s%s%s", begin, why,
                                    *to ? "; the value is an estimate, because the step "
                                          "failed before it had asked for all of its buffers"
                                        : "");
    ct_advice_set(a, o->name, s.text, to, o->versions);
}

// ---- by scenario -------------------------------------------------------------------------------

static void advise_plainly(const struct ct_judged *j, struct ct_verdict *v) {
    const struct ct_server server = find_server(j);
    ct_plain_advice_add(v, &server);
}

static void advise_weights(const struct ct_judged *j, struct ct_verdict *v) {
    const struct ct_server server = find_server(j);
    ct_plain_advice_weights(v, &server);
}

static void advise_profile(const struct ct_judged *j, struct ct_verdict *v) {
    advise_tokens(j, v,
                  "the profile run takes memory in proportion to it; a lower budget does not help "
                  "before there is a KV cache");
}

static void advise_draft(const struct ct_judged *j, struct ct_verdict *v) {
    const struct ct_server server = find_server(j);
    (void)ct_verdict_add_advice(v, "take a smaller or a quantized draft model, because no smaller "
                                   "budget or KV cache makes room for its weights");
    ct_plain_advice_option(v, &server, CT_OPTION_RANKS, NULL,
                           "or spread both models over more GPUs");
}

static void advise_graphs(const struct ct_judged *j, struct ct_verdict *v) {
    const struct ct_server server = find_server(j);
    ct_trace_advice_leave(j, v, ct_trace_advice_need(j),
                          find_graph_count(j->c->facts)
                              ? ", so that all graphs fit"
                              : ", so that this graph fits (more may come)");
    ct_plain_advice_graphs(v, &server);
    ct_plain_advice_add(v, &server);
}

static void advise_warmup(const struct ct_judged *j, struct ct_verdict *v) {
    ct_trace_advice_leave(j, v, ct_trace_advice_need(j), ", so that the warm-up fits");
    if (j->phase == CT_PHASE_WARMUP_SAMPLER || j->component == CT_COMPONENT_LOGITS)
        lower_rows(j, v, CT_OPTION_REQUESTS, 8,
                   "the sampler's buffers have a row for each request; later ones may need a lower "
                   "value");
    advise_plainly(j, v);
}

static void advise_serving(const struct ct_judged *j, struct ct_verdict *v) {
    if (j->phase == CT_PHASE_WEIGHTS) { // of a draft model
        advise_draft(j, v);
        return;
    }
    ct_trace_advice_leave(j, v, ct_trace_advice_need(j), "");
    advise_tokens(j, v, "a step takes memory in proportion to it");
    if (v->scenario != CT_SCENARIO_SPECULATIVE) // (its row is the cache, too)
        advise_plainly(j, v);
}

// A cache that is allocated layer by layer, of a size that is not known, was not asked for whole.
static void advise_cache(const struct ct_judged *j, struct ct_verdict *v) {
    const int is_part = ct_judged_row(j, (enum ct_account_row_kind)CT_COMPONENT_KV_CACHE) &&
                        !find_setting(j, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES).number;
    ct_trace_advice_leave(j, v, ct_trace_advice_need(j),
                          is_part ? ", and by more if parts of it were still to come" : "");
}

// PyTorch reads the new name first.
static const char *find_alloc_conf(const struct ct_facts *f, const char **name) {
    static const char new_name[] = "PYTORCH_ALLOC_CONF", old_name[] = "PYTORCH_CUDA_ALLOC_CONF";
    const char *value = ct_facts_find_variable(f, new_name);
    const int is_new = value || ct_facts_has_version(f, "torch", "2.10") == 1;
    *name = is_new ? new_name : old_name;
    return value ? value : ct_facts_find_variable(f, old_name);
}

// vLLM does not start with both: its allocator of sleep mode is a pool of PyTorch's.
static int excludes_expandable(const struct ct_facts *f) {
    return ct_facts_find_flag(f, "enable-sleep-mode") &&
           ct_facts_has_version(f, "vllm", "0.20") == 0;
}

void ct_trace_advice_fragmentation(const void *judged, struct ct_verdict *v) {
    const struct ct_judged *j = judged;
    const char *name, *value = find_alloc_conf(j->c->facts, &name);
    char from[100] = "";
    if (excludes_expandable(j->c->facts)) {
        (void)ct_verdict_add_advice(v, "expandable_segments would help, but vLLM's sleep mode "
                                       "refuses it before 0.20; cutrace-report frag shows which "
                                       "blocks keep segments from being given back");
        return;
    }
    if (value)
        ct_utf8_sanitize(from, sizeof from, value, strlen(value));
    ct_plain_advice_expandable(v, find_server(j).is,
                               strstr(from, "expandable_segments:True") != NULL, name, from);
    (void)ct_verdict_add_advice(v,
                                "cutrace-report frag shows which blocks keep segments from being "
                                "given back");
}

// What a training step keeps whatever its batch is: parameters, gradients and the optimizer's
// state.
static uint64_t find_states(const struct ct_judged *j) {
    static const enum ct_component kept[] = {CT_COMPONENT_WEIGHTS, CT_COMPONENT_GRADIENTS,
                                             CT_COMPONENT_OPTIMIZER};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        bytes += ct_judged_row(j, (enum ct_account_row_kind)kept[i]);
    return bytes + (j->phase == CT_PHASE_TRAIN_OPTIMIZER ? j->oom->bytes : 0);
}

// The batch helps as far as activations are what does not fit.
static void advise_training(const struct ct_judged *j, struct ct_verdict *v) {
    const uint64_t states = find_states(j), capacity = j->c->capacity;
    if (!capacity || states < capacity / 10 * 9) {
        advise_plainly(j, v);
        return;
    }
    ct_judged_add_bytes(j, v, states, "parameters, gradients and optimizer states");
    (void)ct_verdict_add_advice(
        v,
        "no batch size helps: these %s do not depend on it; shard them over GPUs (FSDP, ZeRO), "
        "offload the optimizer's states, or keep them in 8 bits",
        ct_iec(states).text);
}

static void (*const by_scenario[CT_SCENARIOS])(const struct ct_judged *, struct ct_verdict *) = {
    [CT_SCENARIO_STARTUP_WEIGHTS] = advise_weights, [CT_SCENARIO_REPACK] = advise_weights,
    [CT_SCENARIO_STARTUP_PROFILE] = advise_profile, [CT_SCENARIO_STARTUP_KV_POOL] = advise_cache,
    [CT_SCENARIO_GRAPH_CAPTURE] = advise_graphs,    [CT_SCENARIO_WARMUP] = advise_warmup,
    [CT_SCENARIO_BURST_PREFILL] = advise_serving,   [CT_SCENARIO_LOGITS] = advise_serving,
    [CT_SCENARIO_SPECULATIVE] = advise_serving,     [CT_SCENARIO_TRAINING_STEP] = advise_training};

void ct_trace_advice_add(const void *judged, struct ct_verdict *v) {
    const struct ct_judged *j = judged;
    if (by_scenario[v->scenario])
        by_scenario[v->scenario](j, v);
    else
        advise_plainly(j, v);
}
