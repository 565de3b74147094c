// SPDX-License-Identifier: Apache-2.0
// The moment comes from the curves, the sums from the states at it. Only the newest reading of a
// GPU counts, because each process's reading knows nothing of what the others did since.
#include "processes/processes.h"

static const struct ct_process_device *device_of(const struct ct_processes *all, size_t index,
                                                 size_t device) {
    return &all->list[index].devices[device];
}

// ---- GPUs ---------------------------------------------------------------------------------------

// Without a UUID a device is told apart by its host and its ordinal alone. Memory of unknown
// devices is none of a GPU that is known.
static int is_of(const struct ct_gpu *g, size_t host, const struct ct_process_device *d) {
    if (g->uuid_known || d->uuid_known)
        return g->uuid_known && d->uuid_known && g->uuid == d->uuid;
    return g->host == host && g->ordinal == d->ordinal;
}

static struct ct_gpu *find_gpu(struct ct_processes *all, size_t host,
                               const struct ct_process_device *d) {
    for (size_t g = 0; g < all->gpu_count; g++)
        if (is_of(&all->gpus[g], host, d))
            return &all->gpus[g];
    all->gpus = ct_heap_resize(all->gpus, all->gpu_count + 1, sizeof *all->gpus);
    struct ct_gpu *made = &all->gpus[all->gpu_count++];
    *made = (struct ct_gpu){.uuid = d->uuid,
                            .uuid_known = d->uuid_known,
                            .nvml_index = d->nvml_index,
                            .index_known = d->index_known,
                            .ordinal = d->ordinal,
                            .host = host,
                            .kind = d->kind,
                            .same_ordinals = 1};
    return made;
}

// The number by which a GPU is sorted: NVML's, or else the first ordinal.
static uint64_t order_of(const struct ct_gpu *g) {
    return g->index_known ? g->nvml_index : (uint64_t)g->ordinal;
}

static int compare_gpus(const void *a, const void *b) {
    const struct ct_gpu *x = a, *y = b;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    if (order_of(x) != order_of(y))
        return order_of(x) < order_of(y) ? -1 : 1;
    if (x->uuid_known != y->uuid_known)
        return x->uuid_known ? -1 : 1;
    return x->uuid < y->uuid ? -1 : x->uuid > y->uuid;
}

// Whether no trace before it is of the same process, on the same GPU.
static int is_first_on(const struct ct_processes *all, size_t index, int gpu) {
    for (size_t i = 0; i < index; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++)
            if (all->list[i].first_trace == all->list[index].first_trace &&
                device_of(all, i, k)->gpu == gpu)
                return 0;
    return 1;
}

static void group(struct ct_processes *all) {
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++)
            (void)find_gpu(all, all->list[i].host, device_of(all, i, k));
    if (all->gpu_count)
        qsort(all->gpus, all->gpu_count, sizeof *all->gpus, compare_gpus);
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++) {
            struct ct_process_device *d = &all->list[i].devices[k];
            struct ct_gpu *g = find_gpu(all, all->list[i].host, d);
            d->gpu = (int)(g - all->gpus);
            g->traces++;
            g->processes += is_first_on(all, i, d->gpu);
            g->same_ordinals &= g->ordinal == d->ordinal;
            if (!g->name)
                g->name = d->name;
            if (ct_device_kind_is_card(&g->kind))
                g->kind = d->kind;
        }
}

// ---- the moment ---------------------------------------------------------------------------------

static void align(struct ct_processes *all, size_t reference) {
    all->reference = reference;
    all->alignment = ct_hosts_align(all->list, all->count, all->hosts, all->host_count, reference);
}

static void shift_curve(struct ct_tracked_curve *c, const struct ct_process *p) {
    for (size_t i = 0; i < c->count; i++) {
        struct ct_tracked_point *point = &c->points[i];
        point->t_ns = ct_process_to_moment(p, point->t_ns);
        point->began_ns = ct_process_to_moment(p, point->began_ns);
        point->earliest_ns = ct_process_to_moment(p, point->earliest_ns);
    }
}

// Puts all curves on the clock of the moment.
static void shift_curves(struct ct_processes *all) {
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count && all->list[i].shift_ns; k++) {
            shift_curve(&all->list[i].devices[k].curve, &all->list[i]);
            shift_curve(&all->list[i].devices[k].untracked_curve, &all->list[i]);
        }
}

static uint64_t failed_at(const struct ct_process *p) {
    return ct_process_to_moment(p, p->crossing.t_ns);
}

// Finds the last OOM that was not recovered, of any process. Device memory comes before host memory
// and address space.
static const struct ct_process *find_failed(const struct ct_processes *all) {
    const struct ct_process *best = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const struct ct_process *p = &all->list[i];
        if (!p->is_usable || !ct_process_has_failed(p))
            continue;
        const int of_device = ct_incidents_is_device_memory(&p->crossing);
        const int best_of_device = best && ct_incidents_is_device_memory(&best->crossing);
        if (!best || of_device > best_of_device ||
            (of_device == best_of_device && failed_at(p) > failed_at(best)))
            best = p;
    }
    return best;
}

// A process in the sum of a GPU's curves. Nothing is known of it before its first event and after
// its last one.
struct member {
    const struct ct_process_device *device;
    size_t next;
    uint64_t level, first_ns, end_ns;
    int has_begun, is_active;
};

static struct member *list_members(const struct ct_processes *all, int gpu, size_t *count) {
    struct member *m = ct_heap_alloc_zeroed(all->gpus[gpu].traces, sizeof *m);
    *count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct ct_process *p = &all->list[i];
        for (size_t k = 0; k < p->device_count; k++)
            if (p->devices[k].gpu == gpu)
                m[(*count)++] = (struct member){
                    .device = &p->devices[k],
                    .first_ns = ct_process_to_moment(p, p->t_first_ns),
                    .end_ns = p->running ? UINT64_MAX : ct_process_to_moment(p, p->t_last_ns)};
    }
    return m;
}

// The time of a member's next change; UINT64_MAX: there is none.
static uint64_t find_next_change(const struct member *m) {
    uint64_t t = m->is_active && m->end_ns < UINT64_MAX ? m->end_ns + 1 : UINT64_MAX;
    if (!m->has_begun)
        t = m->first_ns;
    if (m->next < m->device->curve.count && m->device->curve.points[m->next].t_ns < t)
        t = m->device->curve.points[m->next].t_ns;
    return t;
}

static void apply_changes(struct member *m, uint64_t t_ns) {
    if (find_next_change(m) != t_ns)
        return;
    m->has_begun = 1;
    m->is_active = t_ns <= m->end_ns;
    if (m->next < m->device->curve.count && m->device->curve.points[m->next].t_ns <= t_ns)
        m->level = m->device->curve.points[m->next++].bytes;
    if (!m->is_active)
        m->level = 0;
}

// Finds the highest sum of the curves of a GPU: of all times at which it was reached, the first one
// at which the most processes were active. Changes at the same time count together.
static void find_highest_sum(struct ct_processes *all, int gpu) {
    size_t n, most_active = 0;
    struct member *m = list_members(all, gpu, &n);
    for (;;) {
        uint64_t sum = 0, t = UINT64_MAX;
        size_t active = 0;
        for (size_t i = 0; i < n; i++)
            t = find_next_change(&m[i]) < t ? find_next_change(&m[i]) : t;
        if (t == UINT64_MAX)
            break;
        for (size_t i = 0; i < n; i++) {
            apply_changes(&m[i], t);
            sum += m[i].level;
            active += m[i].is_active != 0;
        }
        if (sum > all->sum || (sum && sum == all->sum && all->gpu == gpu && active > most_active)) {
            all->sum = sum;
            all->gpu = gpu;
            all->t_ns = t;
            most_active = active;
        }
    }
    for (size_t i = 0; i < n; i++)
        all->is_about_sum |= m[i].device->curve.is_thinned;
    free(m);
}

// Without any tracked memory, the moment is the last event of all.
static void use_last_event(struct ct_processes *all) {
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].is_usable &&
            ct_process_to_moment(&all->list[i], all->list[i].t_last_ns) > all->t_ns)
            all->t_ns = ct_process_to_moment(&all->list[i], all->list[i].t_last_ns);
}

void ct_processes_find_moment(struct ct_processes *all) {
    all->hosts = ct_hosts_group(all->list, all->count, &all->host_count);
    align(all, all->host_count ? all->hosts[0].first : 0);
    const struct ct_process *failed = find_failed(all);
    group(all);
    all->gpu = -1;
    all->event = UINT64_MAX;
    all->has_moment = all->alignment != CT_NOT_ALIGNED;
    if (!all->has_moment) {
        all->what = CT_PROCESSES_OWN;
        return;
    }
    if (failed)
        align(all, (size_t)(failed - all->list));
    shift_curves(all);
    if (failed) {
        all->what = CT_PROCESSES_OOM;
        all->process = (size_t)(failed - all->list);
        all->t_ns = failed->crossing.t_ns;
        all->event = failed->crossing.event;
        return;
    }
    all->what = CT_PROCESSES_PEAK;
    for (size_t g = 0; g < all->gpu_count; g++)
        if (all->gpus[g].ordinal < CT_MAX_DEVICES)
            find_highest_sum(all, (int)g);
    if (all->gpu < 0)
        use_last_event(all);
}

static const struct ct_tracked_curve *find_highest_curve(const struct ct_process *p) {
    const struct ct_tracked_curve *best = NULL;
    for (size_t k = 0; k < p->device_count; k++)
        if (!best || p->devices[k].curve.high > best->high)
            best = &p->devices[k].curve;
    return best && best->high ? best : NULL;
}

uint64_t ct_processes_moment_of(const struct ct_processes *all, size_t index, uint64_t *last) {
    const struct ct_process *p = &all->list[index];
    *last = UINT64_MAX;
    if (all->has_moment && (all->what != CT_PROCESSES_OOM || index != all->process))
        return ct_process_from_moment(p, all->t_ns);
    if (ct_process_has_failed(p)) {
        *last = p->crossing.event;
        return p->crossing.t_ns;
    }
    const struct ct_tracked_curve *highest = find_highest_curve(p);
    return highest ? highest->high_t_ns : p->t_last_ns;
}

// ---- sums ---------------------------------------------------------------------------------------

static int counts(const struct ct_process *p) {
    return p->knowledge == CT_PROCESS_KNOWN || p->knowledge == CT_PROCESS_LAST_SEEN;
}

// Adds what other traces of the same process had tracked on the GPU. Returns 0 if one had a call
// under way.
static int add_other_traces(const struct ct_processes *all, size_t index, int gpu, uint64_t t_ns,
                            uint64_t *tracked) {
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++) {
            const struct ct_process_device *d = device_of(all, i, k);
            if (i == index || d->gpu != gpu ||
                all->list[i].first_trace != all->list[index].first_trace ||
                ct_process_is_replaced(&all->list[i], t_ns))
                continue;
            if (ct_tracked_curve_in_flight(&d->curve, t_ns))
                return 0;
            *tracked += ct_tracked_curve_at(&d->curve, t_ns);
        }
    return 1;
}

// Whether another trace of the same process, before this one, has counted what is not tracked.
static int is_counted_before(const struct ct_processes *all, size_t index, int gpu) {
    for (size_t i = 0; i < index; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++)
            if (all->list[i].first_trace == all->list[index].first_trace && counts(&all->list[i]) &&
                device_of(all, i, k)->gpu == gpu)
                return 1;
    return 0;
}

// What a process of its own does not track. Where it shares the GPU with another one, this is by
// NVML's figures alone: the model of a single process does not know the other one's memory.
static int find_untracked(const struct ct_processes *all, size_t index,
                          const struct ct_process_device *d, uint64_t *bytes) {
    const struct ct_process_reading *r;
    *bytes = d->split.untracked;
    if (d->split.with_host)
        return 0;
    if (all->gpus[d->gpu].traces < 2)
        return d->split.split_known;
    for (size_t back = 0; (r = ct_process_readings_get(&d->nvml_readings, back)); back++) {
        uint64_t tracked = r->tracked;
        if (r->frees || ct_tracked_curve_in_flight(&d->curve, r->t_ns) ||
            !add_other_traces(all, index, d->gpu, r->t_ns, &tracked))
            continue;
        *bytes = r->process_bytes > tracked ? r->process_bytes - tracked : 0;
        return 1;
    }
    return 0;
}

// What calls of a process were measured to take, if that was not more than there is.
static void add_measured(struct ct_gpu *g, const struct ct_process_device *d) {
    int exceeds;
    (void)ct_breakdown_unmeasured(&d->split, &exceeds);
    for (unsigned part = 0; part < CT_MEASURED_PARTS && !exceeds; part++)
        g->measured[part] += d->split.measured[part];
}

// Adds the state of a process to its GPU. Memory of another process is counted there alone.
static void add_state(struct ct_processes *all, size_t index, struct ct_process_device *d) {
    const struct ct_process *p = &all->list[index];
    struct ct_gpu *g = &all->gpus[d->gpu];
    g->unknown += p->knowledge == CT_PROCESS_UNKNOWN;
    g->last_seen += p->knowledge == CT_PROCESS_LAST_SEEN;
    if (!counts(p))
        return;
    d->untracked_known = 1;
    d->untracked = 0;
    if (!is_counted_before(all, index, d->gpu))
        d->untracked_known = find_untracked(all, index, d, &d->untracked);
    g->tracked += d->split.tracked;
    ct_account_add_tracked(&g->account, &d->account);
    add_measured(g, d);
    g->untracked += d->untracked;
    g->others += d->split.others;
    g->with_host |= d->split.with_host;
    g->split_known &= d->untracked_known;
    g->is_shared |= d->shared.imported || d->shared.opened || d->shared.exported;
}

// A free that began so shortly before a reading of another process may have been under way.
#define FREE_TAKES_NS UINT64_C(2000000)

// The bytes of all calls on a GPU that were under way at a reading.
static uint64_t sum_calls_under_way(const struct ct_processes *all, int gpu,
                                    const struct ct_process_device *of,
                                    const struct ct_process_reading *r) {
    uint64_t bytes = r->frees;
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++) {
            const struct ct_process_device *d = device_of(all, i, k);
            if (d->gpu != gpu || !counts(&all->list[i]))
                continue;
            bytes += ct_tracked_curve_in_flight(&d->curve, r->t_ns);
            if (d != of)
                bytes += ct_tracked_curve_freed(&d->curve, r->t_ns, FREE_TAKES_NS);
        }
    return bytes;
}

// A reading, and the device of the process that read it.
struct source {
    const struct ct_process_device *device;
    const struct ct_process_reading *reading;
    uint64_t calls_under_way;
};

// Chooses between readings: one without calls under way, except that a reading at the moment itself
// needs nothing else. Among equals the newer one.
static int is_better(const struct ct_processes *all, const struct source *a,
                     const struct source *b) {
    const int at_moment = a->reading->t_ns == all->t_ns;
    if (!b->reading || at_moment != (b->reading->t_ns == all->t_ns))
        return !b->reading || at_moment;
    if (!a->calls_under_way != !b->calls_under_way)
        return !a->calls_under_way;
    return a->reading->t_ns > b->reading->t_ns;
}

static struct source find_reading(const struct ct_processes *all, int gpu, int of_nvml,
                                  int *totals_differ) {
    struct source best = {0};
    const struct ct_process_reading *r, *other = NULL;
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++) {
            const struct ct_process_device *d = device_of(all, i, k);
            const struct ct_process_readings *of = of_nvml ? &d->nvml_readings : &d->readings;
            if (d->gpu != gpu || !counts(&all->list[i]))
                continue;
            for (size_t back = 0; (r = ct_process_readings_get(of, back)); back++) {
                const struct source s = {d, r, sum_calls_under_way(all, gpu, d, r)};
                *totals_differ |= !back && other && other->total != r->total;
                other = back ? other : r;
                if (is_better(all, &s, &best))
                    best = s;
            }
        }
    return best;
}

// What all processes have tracked since a reading (negative as two's complement). Clears *is_exact
// if that is not known exactly.
static uint64_t find_tracked_since(const struct ct_processes *all, int gpu, const struct source *s,
                                   int *is_exact) {
    uint64_t since = 0;
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++) {
            const struct ct_process_device *d = device_of(all, i, k);
            if (d->gpu != gpu || !counts(&all->list[i]) || s->reading->t_ns == all->t_ns)
                continue;
            *is_exact &= d == s->device || !d->curve.is_thinned;
            since += d->split.tracked - (d == s->device
                                             ? s->reading->tracked
                                             : ct_tracked_curve_at(&d->curve, s->reading->t_ns));
        }
    return since;
}

// Brings a reading of a GPU up to the moment. Returns 0 if that cannot be done.
static int find_used(const struct ct_processes *all, int gpu, struct ct_gpu *g, uint64_t *used) {
    const struct source s = find_reading(all, gpu, 0, &g->totals_differ);
    int is_exact = 1;
    if (!s.reading || g->totals_differ || s.reading->free > s.reading->total)
        return 0;
    const uint64_t since = find_tracked_since(all, gpu, &s, &is_exact);
    g->total = s.reading->total;
    g->reading_t_ns = s.reading->t_ns;
    g->calls_under_way = s.calls_under_way;
    g->moved_on = since != 0;
    *used = s.reading->total - s.reading->free + since;
    // A call that has returned since would count twice if the reading had its memory already.
    return is_exact && (!g->calls_under_way || s.reading->t_ns == all->t_ns);
}

// What other processes held when NVML was asked last by one of several processes, if it is known.
static int find_others(const struct ct_processes *all, int gpu, const struct ct_gpu *g,
                       uint64_t *others) {
    int differ = 0, is_exact = 1;
    const struct source s = find_reading(all, gpu, 1, &differ);
    if (!s.reading || s.calls_under_way || s.reading->total != g->total)
        return 0;
    const uint64_t used = s.reading->total - s.reading->free +
                          find_tracked_since(all, gpu, &s, &is_exact) - g->tracked;
    *others = used > g->untracked ? used - g->untracked : 0;
    return is_exact && used <= g->total;
}

// Divides the rest between the traced processes and others, by NVML.
static void divide_rest(const struct ct_processes *all, int gpu, struct ct_gpu *g,
                        uint64_t others) {
    struct ct_breakdown s = {.unexplained = g->rest};
    if (g->traces > 1 && !find_others(all, gpu, g, &others))
        return;
    ct_breakdown_divide(&s, g->untracked, others);
    g->untracked = s.untracked;
    g->others = s.others;
    g->unattributed = s.unattributed;
    g->split_known = 1;
}

static void divide(const struct ct_processes *all, int gpu, struct ct_gpu *g) {
    uint64_t used = 0;
    const uint64_t others = g->others; // as the only process sees them
    const int may_split = g->split_known && !g->unknown && !g->last_seen;
    g->split_known = 0;
    g->others = 0;
    g->used_known = find_used(all, gpu, g, &used);
    if (!g->used_known)
        return;
    if (used > g->total || used < g->tracked) {
        g->is_contradictory = 1;
        g->used_known = 0;
        return;
    }
    g->free = g->total - used;
    g->rest = used - g->tracked;
    g->unattributed = g->rest;
    if (may_split && !g->calls_under_way && g->untracked <= g->rest)
        divide_rest(all, gpu, g, others);
}

// What is not tracked, as rows of the account.
static void complete_account(struct ct_gpu *g) {
    struct ct_breakdown m = {.used_known = g->used_known,
                             .split_known = g->split_known,
                             .used = g->tracked + g->rest,
                             .free = g->free,
                             .tracked = g->tracked,
                             .untracked = g->untracked,
                             .others = g->others,
                             .unattributed = g->unattributed,
                             .unexplained = g->rest,
                             .with_host = g->with_host,
                             .moved_on = g->moved_on};
    memcpy(m.measured, g->measured, sizeof m.measured);
    ct_account_complete(&g->account, &m);
}

static void clear_sums(struct ct_gpu *g) {
    *g = (struct ct_gpu){.uuid = g->uuid,
                         .nvml_index = g->nvml_index,
                         .uuid_known = g->uuid_known,
                         .index_known = g->index_known,
                         .ordinal = g->ordinal,
                         .host = g->host,
                         .same_ordinals = g->same_ordinals,
                         .name = g->name,
                         .kind = g->kind,
                         .processes = g->processes,
                         .traces = g->traces,
                         .split_known = 1};
}

static void sum_once(struct ct_processes *all) {
    for (size_t g = 0; g < all->gpu_count; g++)
        clear_sums(&all->gpus[g]);
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++)
            add_state(all, i, &all->list[i].devices[k]);
    for (size_t g = 0; g < all->gpu_count; g++)
        if (all->gpus[g].ordinal < CT_MAX_DEVICES)
            divide(all, (int)g, &all->gpus[g]);
    for (size_t g = 0; g < all->gpu_count; g++)
        complete_account(&all->gpus[g]);
}

// Processes were last seen before the moment, and more would be in use than is if all of them still
// held their memory: some had ended, and which ones is unknown. Returns whether there were any.
static int drop_ended(struct ct_processes *all) {
    int dropped = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct ct_process *p = &all->list[i];
        int fits = 1;
        for (size_t k = 0; k < p->device_count; k++) {
            const struct ct_gpu *g = &all->gpus[p->devices[k].gpu];
            fits &= !g->is_contradictory && !(g->used_known && g->untracked > g->rest);
        }
        if (fits || p->knowledge != CT_PROCESS_LAST_SEEN)
            continue;
        p->knowledge = CT_PROCESS_UNKNOWN;
        dropped = 1;
    }
    return dropped;
}

// At moments of their own the processes say nothing of each other.
static void keep_own_untracked(struct ct_processes *all) {
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->list[i].device_count; k++) {
            struct ct_process_device *d = &all->list[i].devices[k];
            d->untracked = d->split.untracked;
            d->untracked_known = d->split.split_known;
        }
}

void ct_processes_sum(struct ct_processes *all) {
    if (!all->has_moment) {
        keep_own_untracked(all);
        return;
    }
    do
        sum_once(all);
    while (drop_ended(all));
}

void ct_processes_free(struct ct_processes *all) {
    for (size_t i = 0; i < all->count; i++)
        ct_process_free(&all->list[i]);
    free(all->list);
    free(all->gpus);
    free(all->hosts);
    *all = (struct ct_processes){0};
}
