// SPDX-License-Identifier: Apache-2.0
// The state of the process and its devices after the events that are drained: live objects,
// readings of the devices, and the coarse history of both.
//
// Values of one cell of the history are gathered (least, most, last) and added to it once: before
// the cell ends, before another reading is known, and before the history is read.
#include "write/live_state.h"

#include <errno.h>

#include <cutrace/model/failures.h>

#include "base/clock.h"
#include "base/pages.h"
#include "store/journal.h"
#include "write/host_memory.h"
#include "write/nvml.h"

#define RESAMPLE_BYTES ((uint64_t)16 << 20) // after such a change, NVML is sampled at once
#define GAPS_NS UINT64_C(10000000)          // gaps between addresses are recorded this often

static struct {
    struct ct_live live;
    struct ct_readings readings;
    struct ct_address_map ranges;
    struct ct_history *history;
    uint64_t gaps_ns; // when gaps were recorded
    // Objects of events before this one are known to a reader in sums only; 0: none are.
    uint64_t summed_before;
    struct device {
        uint64_t tracked, peak, ooms;
        // Gathered for one cell of the history, which ends at until_ns; 0: nothing is.
        uint64_t t_ns, until_ns, events;
        int changed;
        struct ct_device_counts least, most, last;
        // Used but not tracked, when NVML was sampled.
        uint64_t sampled_untracked;
    } device[CT_MAX_DEVICES];
    int no_digests;
} s;

// Of the open chunk. (Each chunk begins it, also the first one of a forked child.)
static struct ct_digest_maker digest;

// A bit for each device; read without the lock.
static _Atomic uint64_t wants_nvml;
_Static_assert(CT_MAX_DEVICES <= 64, "bits");

static void *allocate(void *user, void *old, size_t old_bytes, size_t bytes) {
    (void)user;
    if (bytes)
        return ct_pages_map(bytes);
    ct_pages_unmap(old, old_bytes);
    return NULL;
}

static void update_address_map(void *unused, const struct ct_object *object,
                               const struct ct_traits *from, int sign) {
    (void)unused;
    ct_address_map_update(&s.ranges, object, from, sign);
}

static void add_change_to_digest(void *unused, const struct ct_object *object, int sign) {
    (void)unused;
    ct_digest_note_change(&digest, &s.live, object, sign);
}

static void add_owner_to_digest(void *unused, const struct ct_object *object, uint32_t by) {
    (void)unused;
    ct_digest_note_owner(&digest, object, by);
}

int ct_live_state_init(void) {
    if (!s.history && !(s.history = ct_pages_map(sizeof *s.history)))
        return -ENOMEM;
    struct ct_tentative *tentative = ct_pages_map(CT_JOURNAL_MAX_RINGS * sizeof *tentative);
    ct_live_init(&s.live, allocate, NULL);
    s.live.tentative = tentative;
    s.live.tentative_room = tentative ? CT_JOURNAL_MAX_RINGS : 0;
    ct_address_map_init(&s.ranges, allocate, NULL);
    s.live.address_changed = update_address_map;
    s.live.total_changed = add_change_to_digest;
    s.live.owner_changed = add_owner_to_digest;
    ct_history_begin(s.history, ct_clock_read());
    return 0;
}

// Adds what was gathered to the history. All quantities of the history rise with these counts, so
// the bounds of the counts give the bounds of the quantities.
static void flush_to_history(int device) {
    struct device *d = &s.device[device];
    const struct ct_device_counts *const bounds[] = {&d->least, &d->most, &d->last};
    if (d->events)
        ct_history_count(s.history, d->t_ns, device, d->events, 0);
    for (size_t i = 0; d->changed && i < 3; i++) {
        const struct ct_quantities q = ct_quantities_of(bounds[i], &s.readings, device, NULL);
        ct_history_add(s.history, d->t_ns, device, &q);
    }
    d->until_ns = d->events = 0;
    d->changed = 0;
}

static inline void widen(uint64_t value, uint64_t *least, uint64_t *most) {
    if (__builtin_expect(value < *least, 0))
        *least = value;
    if (__builtin_expect(value > *most, 0))
        *most = value;
}

static inline void gather(struct device *d, const struct ct_device_counts *to) {
    if (!d->changed)
        d->least = d->most = *to;
    d->changed = 1;
    widen(to->tracked, &d->least.tracked, &d->most.tracked);
    widen(to->reserved, &d->least.reserved, &d->most.reserved);
    widen(to->allocated, &d->least.allocated, &d->most.allocated);
    d->last = *to;
}

static inline int same_counts(const struct ct_device_counts *a, const struct ct_device_counts *b) {
    return a->tracked == b->tracked && a->reserved == b->reserved && a->allocated == b->allocated;
}

// Gathers the values after an event. The history keeps its bounds for ever, so no value may be left
// out, also not that of a cell's first event, which may be that of the cell before.
static inline void note_history(const struct ct_event *e, int device) {
    struct device *d = &s.device[device];
    const struct ct_device_counts now = ct_device_counts_now(&s.live.device[device]);
    if (e->t_ns >= d->until_ns) {
        flush_to_history(device);
        ct_history_count(s.history, e->t_ns, device, 0, 0);
        d->until_ns = s.history->until_ns[device];
    }
    d->t_ns = e->t_ns;
    d->events++;
    if (ct_event_is_oom(e)) {
        ct_history_count(s.history, e->t_ns, device, 0, 1);
        d->ooms++;
    }
    if (d->changed && same_counts(&now, &d->last) && !CT_HAS(e, free_bytes))
        return;
    d->tracked = now.tracked;
    d->peak = now.tracked > d->peak ? now.tracked : d->peak;
    gather(d, &now);
}

// To find gaps takes microseconds: too long for each event or each batch.
void ct_live_state_sample_gaps(uint64_t t_ns) {
    if (t_ns - s.gaps_ns < GAPS_NS)
        return;
    s.gaps_ns = t_ns;
    for (int i = 0; i < CT_MAX_DEVICES; i++) {
        const struct ct_device_usage *d = &s.readings.device[i];
        if (!d->seen)
            continue;
        flush_to_history(i);
        const uint64_t total = d->total ? d->total : ct_nvml_get_total_bytes(i);
        const struct ct_gaps gaps = ct_address_map_gaps(&s.ranges, i, total);
        const struct ct_quantities now = ct_quantities_now(&s.live, &s.readings, i, &gaps);
        ct_history_add(s.history, t_ns, i, &now);
    }
}

static void report_device(struct ct_journal_device *to, const struct ct_device_usage *d, int i) {
    atomic_store_explicit(&to->tracked, s.device[i].tracked, memory_order_relaxed);
    atomic_store_explicit(&to->peak, s.device[i].peak, memory_order_relaxed);
    atomic_store_explicit(&to->ooms, s.device[i].ooms, memory_order_relaxed);
    if (!d->last.known)
        return;
    atomic_store_explicit(&to->free_bytes, d->last.free, memory_order_relaxed);
    atomic_store_explicit(&to->total, d->last.total, memory_order_relaxed);
    atomic_store_explicit(&to->sampled_ns, d->last.t_ns, memory_order_relaxed);
}

// A hook of a free does not ask for the device, because that would cost more than the rest of the
// hook: the freed object knows it.
static inline void describe(struct ct_event *e, const struct ct_object *freed) {
    if (e->op == CT_OP_FREE && ct_object_event(freed) < s.summed_before)
        ct_site_sum_describe(&s.live, freed, e);
    else if (!CT_HAS(e, device) && freed->device != CT_NO_DEVICE)
        CT_SET(e, device, (int)freed->device);
}

void ct_live_state_set_summed_before(uint64_t event) {
    s.summed_before = event;
}

static uint64_t untracked(const struct ct_reading *r) {
    return r->used > r->tracked ? r->used - r->tracked : 0;
}

// Only NVML knows how used memory divides between this process and others. If the untracked part
// has changed much since its last sample, a new one is needed.
static void compare_with_nvml(const struct ct_event *e, int device) {
    const struct ct_device_usage *d = &s.readings.device[device];
    const uint64_t now = untracked(&d->last), sampled = s.device[device].sampled_untracked;
    if (CT_HAS(e, process_bytes))
        s.device[device].sampled_untracked = now;
    const uint64_t apart = now > sampled ? now - sampled : sampled - now;
    const uint64_t bit = UINT64_C(1) << device;
    if (d->process_known && apart >= RESAMPLE_BYTES && !CT_HAS(e, process_bytes))
        atomic_fetch_or(&wants_nvml, bit);
    else
        atomic_fetch_and(&wants_nvml, ~bit);
}

int ct_live_state_wants_nvml(void) {
    return atomic_load(&wants_nvml) != 0;
}

uint64_t ct_live_state_prefetch_line(const struct ct_event *e) {
    return ct_slot_index_prefetch_line(&s.live, e);
}

void ct_live_state_prefetch_slots(uint64_t hash) {
    ct_slot_index_prefetch_slots(&s.live, hash);
}

void ct_live_state_apply(struct ct_event *e, uint64_t number, uint64_t hash) {
    const struct ct_found freed = ct_live_find_freed(&s.live, e, hash);
    if (freed.what)
        describe(e, ct_found_object(&freed));
    ct_digest_note_event(&digest, e, number);
    ct_live_apply_at(&s.live, e, number, hash, &freed);
    ct_digest_note_facts(&digest, e);
    const int device = ct_event_device_index(e);
    if (CT_HAS(e, free_bytes) && device != CT_MAX_DEVICES) {
        const uint64_t total = ct_nvml_get_total_bytes(device);
        s.readings.device[device].cuda_total = total == UINT64_MAX ? 0 : total;
        s.readings.device[device].with_host = ct_host_memory_is_shared(device);
        flush_to_history(device);
    }
    ct_readings_apply(&s.readings, &s.live, e);
    if (CT_HAS(e, free_bytes) && device != CT_MAX_DEVICES)
        compare_with_nvml(e, device);
    if (e->op != CT_OP_AMEND && device != CT_MAX_DEVICES && s.readings.device[device].seen)
        note_history(e, device);
}

int ct_live_state_is_unknown_free(const struct ct_event *e) {
    return e->op == CT_OP_FREE && !ct_live_find_freed(&s.live, e, ct_slot_index_hash_event(e)).what;
}

const struct ct_live *ct_live_state_get_live(void) {
    return &s.live;
}

const struct ct_readings *ct_live_state_get_readings(void) {
    return &s.readings;
}

const struct ct_history *ct_live_state_get_history(void) {
    for (int i = 0; i < CT_MAX_DEVICES; i++)
        flush_to_history(i);
    return s.history;
}

void ct_live_state_begin_digest(uint64_t first_event) {
    ct_digest_begin(&digest, &s.live, first_event);
}

const struct ct_digest *ct_live_state_end_digest(uint32_t (*to_id)(uint32_t stack)) {
    if (s.no_digests || s.live.overflow)
        return NULL;
    ct_digest_end(&digest, &s.live);
    ct_digest_choose_sites(&digest, to_id);
    return &digest.digest;
}

void ct_live_state_drop_digests(void) {
    s.no_digests = 1;
}

struct ct_breakdown ct_live_state_get_breakdown(int device) {
    return ct_readings_breakdown(&s.readings, &s.live, device);
}

void ct_live_state_report(struct ct_journal *j) {
    for (int i = 0; i < CT_MAX_DEVICES; i++)
        if (s.readings.device[i].seen)
            report_device(&j->device[i], &s.readings.device[i], i);
}

void ct_live_state_reinit_child(void) {
    atomic_store(&wants_nvml, 0);
    // Its memory leaks: another thread of the parent may have been writing to it.
    memset(&s, 0, sizeof s);
}
