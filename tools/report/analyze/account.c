// SPDX-License-Identifier: Apache-2.0
// Holdings are all live allocations of a device. What is tracked differs from their sum: it has no
// managed memory, and memory pools of CUDA's count with what they reserve.
#include "analyze/account.h"

static const struct {
    const char *name, *title;
} rows[] = {
#define CT_COMPONENT(ID, name, title) {name, title},
#include "symbols/phases.def"
#define CT_ACCOUNT(ID, name, title) {name, title},
#include "analyze/account.def"
};

const char *ct_account_row_name(enum ct_account_row_kind kind) {
    return rows[kind].name;
}

const char *ct_account_row_title(enum ct_account_row_kind kind) {
    return rows[kind].title;
}

uint64_t ct_account_sum(const struct ct_account *a) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < CT_ACCOUNT_ROWS; i++)
        sum += a->row[i].bytes;
    return sum;
}

static enum ct_account_row_kind find_row(struct ct_phases *phases, const struct ct_holding *h) {
    if (h->kind == CT_HOLDING_IDLE)
        return CT_ACCOUNT_POOL_IDLE;
    if (h->kind == CT_HOLDING_SEGMENT)
        return CT_ACCOUNT_SEGMENTS;
    return (enum ct_account_row_kind)ct_phases_find_component(phases, h->stack);
}

// Takes `bytes` out of the rows of components, first out of the one for all that has no name. They
// are of managed memory: which stacks hold it is not known.
static void take_out(struct ct_account *a, uint64_t bytes) {
    for (unsigned i = CT_ACCOUNT_SEGMENTS + 1; i-- > 0 && bytes;) {
        struct ct_account_row *row = &a->row[i];
        const uint64_t part = row->bytes < bytes ? row->bytes : bytes;
        row->bytes -= part;
        row->inferred |= part != 0;
        bytes -= part;
    }
}

static void add_tracked(struct ct_account *a, struct ct_phases *phases,
                        const struct ct_live_totals *t) {
    a->tracked = t->split.tracked;
    a->managed = t->split.managed;
    for (size_t i = 0; i < t->holding_count; i++) {
        struct ct_account_row *row = &a->row[find_row(phases, &t->holdings[i])];
        row->bytes += t->holdings[i].bytes;
        row->count += t->holdings[i].count;
    }
    a->row[CT_ACCOUNT_MEMPOOL_IDLE].bytes = t->split.pool_idle;
    const uint64_t sum = ct_account_sum(a);
    if (sum > a->tracked) {
        take_out(a, sum - a->tracked);
    } else if (sum < a->tracked) {
        a->row[CT_COMPONENT_OTHER].bytes += a->tracked - sum;
        a->row[CT_COMPONENT_OTHER].inferred = 1;
    }
}

static void set_row(struct ct_account *a, enum ct_account_row_kind kind, uint64_t bytes,
                    int inferred) {
    a->row[kind].bytes = bytes;
    a->row[kind].inferred = bytes && inferred;
}

// What calls were measured to take, and the rest.
static void add_untracked(struct ct_account *a, const struct ct_breakdown *m) {
    static const enum ct_account_row_kind parts[CT_MEASURED_PARTS] = {
        [CT_MEASURED_CONTEXTS] = CT_ACCOUNT_CONTEXTS,
        [CT_MEASURED_MODULES] = CT_ACCOUNT_MODULES,
        [CT_MEASURED_LIMITS] = CT_ACCOUNT_LIMITS,
        [CT_MEASURED_GRAPHS] = CT_ACCOUNT_GRAPHS};
    int exceeds;
    const uint64_t unmeasured = ct_breakdown_unmeasured(m, &exceeds);
    for (unsigned part = 0; part < CT_MEASURED_PARTS && !exceeds; part++)
        set_row(a, parts[part], m->measured[part], 0);
    // Where the device has the host's memory, that is no memory of this process's alone.
    set_row(a, m->with_host ? CT_ACCOUNT_HOST : CT_ACCOUNT_UNMEASURED, unmeasured, m->moved_on);
}

void ct_account_add_tracked(struct ct_account *a, const struct ct_account *of) {
    a->tracked += of->tracked;
    a->managed += of->managed;
    for (unsigned i = 0; i < CT_ACCOUNT_TRACKED_ROWS; i++) {
        a->row[i].bytes += of->row[i].bytes;
        a->row[i].count += of->row[i].count;
        a->row[i].inferred |= of->row[i].inferred;
    }
}

void ct_account_complete(struct ct_account *a, const struct ct_breakdown *m) {
    a->split_known = m->split_known;
    a->with_host = m->with_host;
    if (!m->used_known || m->used < m->tracked) // (more than the whole device: contradictory)
        return;
    a->known = 1;
    set_row(a, CT_ACCOUNT_IN_FLIGHT, m->in_flight, 1);
    add_untracked(a, m);
    if (m->split_known) {
        set_row(a, CT_ACCOUNT_OTHERS, m->others, m->moved_on);
        set_row(a, CT_ACCOUNT_UNATTRIBUTED, m->unattributed, 1);
    }
    set_row(a, CT_ACCOUNT_FREE, m->free, m->moved_on);
    a->capacity = m->used + m->free;
    CT_ASSERT(ct_account_sum(a) == a->capacity);
}

void ct_account_make(struct ct_account *a, struct ct_phases *phases,
                     const struct ct_live_totals *totals) {
    *a = (struct ct_account){.tracked = 0};
    add_tracked(a, phases, totals);
    ct_account_complete(a, &totals->split);
}

// Where NVML did not report, what is not measured has the memory of others, too.
static enum ct_account_row_kind find_others(const struct ct_account *a) {
    if (a->with_host)
        return CT_ACCOUNT_HOST;
    return a->split_known ? CT_ACCOUNT_OTHERS : CT_ACCOUNT_UNMEASURED;
}

uint64_t ct_account_others(const struct ct_account *a) {
    return a->row[find_others(a)].bytes;
}

void ct_account_set_siblings(struct ct_account *a, uint64_t bytes) {
    const enum ct_account_row_kind from = find_others(a);
    const uint64_t there = a->row[from].bytes, part = bytes < there ? bytes : there;
    a->row[from].bytes -= part;
    a->row[from].inferred |= part != 0;
    a->row[CT_ACCOUNT_SIBLINGS].bytes += part;
    a->row[CT_ACCOUNT_SIBLINGS].inferred |= part != 0;
}
