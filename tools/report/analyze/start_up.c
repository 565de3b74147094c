// SPDX-License-Identifier: Apache-2.0
#include "analyze/start_up.h"

#include "base/heap.h"
#include "base/search.h"

// A server's steps follow each other without anything between; of other passes through a model the
// forward one is counted, where it begins.
enum role { ROLE_NONE, ROLE_START, ROLE_STEP, ROLE_FORWARD };

static const uint8_t roles[CT_PHASES] = {
    [CT_PHASE_INIT] = ROLE_START,
    [CT_PHASE_INIT_COMM] = ROLE_START,
    [CT_PHASE_WEIGHTS] = ROLE_START,
    [CT_PHASE_REPACK] = ROLE_START,
    [CT_PHASE_PROFILE] = ROLE_START,
    [CT_PHASE_PROFILE_GRAPHS] = ROLE_START,
    [CT_PHASE_KV_CACHE] = ROLE_START,
    [CT_PHASE_WARMUP] = ROLE_START,
    [CT_PHASE_WARMUP_KERNELS] = ROLE_START,
    [CT_PHASE_WARMUP_SAMPLER] = ROLE_START,
    [CT_PHASE_GRAPHS] = ROLE_START,
    [CT_PHASE_SERVE] = ROLE_STEP,
    [CT_PHASE_SERVE_DUMMY] = ROLE_STEP,
    [CT_PHASE_FORWARD] = ROLE_FORWARD,
    [CT_PHASE_TRAIN_FORWARD] = ROLE_FORWARD,
};

int ct_start_up_has_phase(enum ct_phase phase) {
    return roles[phase] == ROLE_START;
}

static void note_work(struct ct_start_up *u, uint64_t t_ns) {
    if (u->work_count && t_ns - u->work[u->work_count - 1] < u->spacing_ns)
        return;
    if (!u->work)
        u->work = ct_heap_resize(NULL, CT_START_UP_WORK_TIMES, sizeof *u->work);
    u->work[u->work_count++] = t_ns;
    if (u->work_count < CT_START_UP_WORK_TIMES)
        return;
    u->work_count /= 2;
    for (size_t i = 0; i < u->work_count; i++)
        u->work[i] = u->work[2 * i];
    u->spacing_ns = (t_ns - u->work[0]) / (CT_START_UP_WORK_TIMES / 2);
}

static enum role find_role(const struct ct_start_up *u, uint32_t stack) {
    return stack ? (enum role)roles[ct_phases_find(u->phases, stack).phase] : ROLE_NONE;
}

static void note_start(struct ct_start_up *u, enum role role, uint64_t t_ns) {
    if (role == ROLE_START && t_ns > u->last_start_ns)
        u->last_start_ns = t_ns;
}

void ct_start_up_note_event(struct ct_start_up *u, const struct ct_event *e) {
    if (!u->phases || !CT_HAS(e, stack))
        return;
    const enum role role = find_role(u, e->stack);
    const int is_pass = role == ROLE_FORWARD && !u->is_forward;
    note_start(u, role, e->t_ns);
    u->is_forward = role == ROLE_FORWARD;
    if (role == ROLE_STEP || is_pass)
        note_work(u, e->t_ns);
    if (is_pass && ++u->passes == 2)
        u->second_pass_ns = e->t_ns;
    if (role == ROLE_STEP && !u->first_step_ns)
        u->first_step_ns = e->t_ns;
}

void ct_start_up_note_live(struct ct_start_up *u, const struct ct_live *l) {
    for (uint32_t i = 0; u->phases && i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (o && o->t_ns && !o->resumed) // (it is of its start-up, and its time of a wake-up)
            note_start(u, find_role(u, o->stack), o->t_ns);
    }
}

uint64_t ct_start_up_end(const struct ct_start_up *u) {
    if (!u->last_start_ns && !u->second_pass_ns)
        return u->first_step_ns;
    return u->last_start_ns > u->second_pass_ns ? u->last_start_ns : u->second_pass_ns;
}

size_t ct_start_up_find_work(const struct ct_start_up *u, uint64_t t_ns) {
    return ct_search_up_to(u->work, u->work_count, sizeof *u->work, 0, t_ns);
}

void ct_start_up_free(struct ct_start_up *u) {
    free(u->work);
    *u = (struct ct_start_up){0};
}
