// SPDX-License-Identifier: Apache-2.0
// vLLM measures itself with cuMemGetInfo and with what PyTorch says of its blocks: the same
// readings and the same blocks are in the trace. Its own arithmetic is diagnose/vllm_fit.c.
#include "analyze/server_memory.h"

#include <string.h>

#include "analyze/live_at.h"

// Before it loads. (What is of no phase can be anywhere.)
static int is_start(enum ct_phase phase) {
    return phase == CT_PHASE_INIT || phase == CT_PHASE_INIT_COMM || phase == CT_PHASE_UNKNOWN ||
           phase == CT_PHASE_OTHER;
}

// Free memory now: of the last reading, moved on by what was tracked since.
static int read_free(const struct ct_replay *r, int device, uint64_t *free) {
    const struct ct_breakdown s = ct_replay_split(r, device);
    if (!s.used_known || s.with_host)
        return 0;
    *free = s.free;
    return 1;
}

// ---- before the cache ---------------------------------------------------------------------------

// The program's own reading, as opposed to one that the recorder makes at a call or by NVML.
static int is_own_reading(const struct ct_phases *phases, const struct ct_event *e) {
    if (e->op != CT_OP_MEMORY_SAMPLE || !CT_HAS(e, api))
        return 0;
    const struct ct_string *api = &phases->definitions->strings[e->api];
    return api->length > 10 && memmem(api->at, api->length, "MemGetInfo", 10) != NULL;
}

static void note_start(struct ct_server_memory *m, const struct ct_phases *phases,
                       const struct ct_replay *r, int device, const struct ct_event *e) {
    const int is_read = is_own_reading(phases, e);
    if (m->start_is_read && !is_read)
        return;
    m->start_is_read = is_read;
    m->start_known = read_free(r, device, &m->start_free);
}

static void note_profile(struct ct_server_memory *m, const struct ct_replay *r, int device) {
    const uint64_t blocks = r->live.device[device].block_bytes;
    m->profile_most = m->has_profile && m->profile_most > blocks ? m->profile_most : blocks;
    m->has_profile = 1;
    m->profile_bytes = m->profile_most - blocks;
    m->behind_known = read_free(r, device, &m->behind_free);
}

// ---- the cache ----------------------------------------------------------------------------------

// After the last event of its allocation: everything that a rule names the cache.
static void note_cache(struct ct_server_memory *m, struct ct_phases *phases,
                       const struct ct_replay *r, int device) {
    struct ct_live_totals live;
    m->cache_bytes = m->cache_count = m->buffers_bytes = m->sampler_bytes = m->weights_bytes = 0;
    ct_live_at_read(&live, r, device, CT_ROWS_BY_BLOCK);
    for (size_t i = 0; i < live.holding_count; i++) {
        const struct ct_holding *h = &live.holdings[i];
        if (h->kind != CT_HOLDING_ALLOCATION && h->kind != CT_HOLDING_BLOCK)
            continue;
        const enum ct_component of = ct_phases_find_component(phases, h->stack);
        if (of == CT_COMPONENT_KV_CACHE) {
            m->cache_bytes += h->bytes;
            m->cache_count += h->count;
        }
        m->buffers_bytes += of == CT_COMPONENT_INPUT_BUFFERS ? h->bytes : 0;
        m->sampler_bytes += of == CT_COMPONENT_LOGITS ? h->bytes : 0;
        m->weights_bytes += of == CT_COMPONENT_WEIGHTS ? h->bytes : 0;
    }
    ct_live_at_free(&live);
    m->has_cache = m->cache_bytes != 0;
    memset(&m->since, 0, sizeof m->since);
    m->window.known = m->serves = 0;
}

// ---- after it -----------------------------------------------------------------------------------

static void begin_window(struct ct_server_window *w, uint64_t bytes) {
    *w = (struct ct_server_window){
        .known = 1, .least = bytes, .before = UINT64_MAX, .pending = UINT64_MAX};
}

// What an event leaves counts only where a step allocates after it: after the last one the
// program ends, and frees.
static void note_step(struct ct_server_window *w, uint64_t bytes, int is_certain) {
    if (is_certain && w->pending < w->least)
        w->least = w->pending;
    if (is_certain)
        w->pending = UINT64_MAX;
    w->pending = bytes < w->pending ? bytes : w->pending;
    if (++w->events < CT_SERVER_WINDOW)
        return;
    w->before = w->least;
    w->least = w->pending;
    w->events = 0;
}

static int is_step(enum ct_phase phase) {
    return phase == CT_PHASE_SERVE || phase == CT_PHASE_SERVE_DUMMY;
}

static int is_allocation(const struct ct_event *e) {
    return (e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_ALLOC) &&
           (!CT_HAS(e, result) || !e->result);
}

static void note_serving(struct ct_server_memory *m, const struct ct_phase_at *at,
                         const struct ct_replay *r, const struct ct_event *e, int device) {
    const struct ct_range_tree *torch_free = r->pool.device[device].free;
    const struct ct_breakdown s = ct_replay_split(r, device);
    const uint64_t in_pools = torch_free[0].bytes + torch_free[1].bytes + s.pool_idle,
                   bytes = s.tracked > in_pools ? s.tracked - in_pools : 0;
    if (!m->window.known)
        begin_window(&m->window, bytes);
    note_step(&m->window, bytes, !at->inferred && is_allocation(e));
}

// Begins a phase, of an event whose stack has it: another thread's last phase is none of the
// server's.
static void begin_phase(struct ct_server_memory *m, struct ct_phases *phases,
                        const struct ct_phase_at *at, const struct ct_replay *r,
                        const struct ct_event *e, uint64_t number) {
    if (at->inferred || at->phase == m->phase || (is_step(at->phase) && is_step(m->phase)))
        return;
    // Of what is of no phase, only allocations show that the program does something else.
    if (m->is_loading && is_start(at->phase) && !is_allocation(e))
        return;
    if (m->phase == CT_PHASE_KV_CACHE)
        note_cache(m, phases, r, ct_event_device_index(e));
    if (at->phase == CT_PHASE_KV_CACHE) {
        m->cache_event = number;
        m->cache_t_ns = e->t_ns;
    }
    if (at->framework != CT_FRAMEWORK_NONE)
        m->framework = at->framework;
    if (at->phase == CT_PHASE_SLEEP || at->phase == CT_PHASE_WAKE_UP)
        m->slept = 1;
    if (is_step(at->phase)) // between two steps
        m->window.known = 0;
    m->is_loading |= !is_start(at->phase);
    m->has_trial |= at->phase == CT_PHASE_PROFILE_GRAPHS;
    m->has_graphs |= at->phase == CT_PHASE_GRAPHS;
    m->serves |= is_step(at->phase) && m->has_cache;
    m->phase = at->phase;
}

void ct_server_memories_note(struct ct_server_memories *all, struct ct_phases *phases,
                             const struct ct_phase_at *at, const struct ct_replay *r,
                             const struct ct_event *e, uint64_t number) {
    const int device = ct_event_device_index(e);
    struct ct_server_memory *m = &all->device[device];
    if (device >= CT_MAX_DEVICES)
        return;
    begin_phase(m, phases, at, r, e, number);
    if (!m->is_loading)
        note_start(m, phases, r, device, e);
    else if (m->phase == CT_PHASE_PROFILE)
        note_profile(m, r, device);
    if (m->has_cache) {
        ct_device_need_note(&m->since, r, device, e->t_ns, number);
        note_serving(m, at, r, e, device);
    }
}

void ct_server_memories_finish(struct ct_server_memories *all, const struct ct_scan *s) {
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_server_memory *m = &all->device[d];
        if (m->has_cache)
            ct_device_need_add_failures(&m->since, &s->incidents, d, m->cache_event);
        const struct ct_server_window *w = &m->window;
        m->stays_known = w->known && m->has_cache;
        m->stays = w->before < w->least ? w->before : w->least;
    }
}
