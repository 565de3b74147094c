// SPDX-License-Identifier: Apache-2.0
#include "processes/neighbours.h"

#include <string.h>

#include "base/heap.h"
#include "base/search.h"

#define LARGE ((uint64_t)32 << 20) // a change, and more than what a reading can be wrong by
#define CLOSE ((uint64_t)8 << 20)  // rounding to pages, a module that was loaded meanwhile
enum { TIMES = 2, CLOSE_PART = 16 };

#define GROUP_NS UINT64_C(5000000)  // events of one answer of NVML's are no further apart
#define QUIET_NS UINT64_C(20000000) // so long before, nothing may have changed

// ---- the curve of a process ---------------------------------------------------------------------

static void thin(struct ct_neighbour *p) {
    size_t n = 0;
    for (size_t i = 1; i < p->count; i += 2) {
        p->points[n] = p->points[i];
        p->points[n++].before_ns = p->points[i - 1].before_ns;
    }
    p->count = n;
    p->is_thinned = 1;
}

static void add_point(struct ct_neighbour *p, uint64_t t_ns, uint64_t before_ns, uint64_t value) {
    if (p->count && p->points[p->count - 1].value == value)
        return;
    if (p->count == CT_NEIGHBOUR_POINTS)
        thin(p);
    CT_HEAP_GROW(p->points, p->count, p->room);
    p->points[p->count++] = (struct ct_neighbour_point){t_ns, before_ns, value};
}

static uint64_t value_now(const struct ct_neighbour *p) {
    return p->count ? p->points[p->count - 1].value : CT_NEIGHBOUR_LOST;
}

uint64_t ct_neighbour_at(const struct ct_neighbour *p, uint64_t t_ns) {
    const size_t n = CT_COUNT_UP_TO(p->points, p->count, t_ns, t_ns);
    return n ? p->points[n - 1].value : CT_NEIGHBOUR_LOST;
}

struct ct_neighbour_rise ct_neighbour_find_rise(const struct ct_neighbour *p, uint64_t until_ns) {
    struct ct_neighbour_rise best = {0};
    uint64_t least = UINT64_MAX, least_until_ns = 0;
    for (size_t i = 0; i < p->count && p->points[i].t_ns <= until_ns; i++) {
        const struct ct_neighbour_point *at = &p->points[i];
        if (i && p->points[i - 1].value == least)
            least_until_ns =
                at->before_ns > p->points[i - 1].t_ns ? at->before_ns : p->points[i - 1].t_ns;
        if (!CT_NEIGHBOUR_IS_BYTES(at->value)) {
            least = UINT64_MAX;
        } else if (at->value <= least) {
            least = at->value;
            least_until_ns = at->t_ns;
        } else if (at->value - least > best.bytes) {
            best = (struct ct_neighbour_rise){at->value - least, least_until_ns, at->t_ns};
        }
    }
    return best;
}

// ---- matching by memory -------------------------------------------------------------------------
// At each time that NVML was asked and no call was under way, a process has `bytes` by NVML and
// this one has `tracked` by its own events. This process holds what it tracks, and its contexts and
// code beyond that. Where what is tracked changes by much, so must the bytes of this process, and
// by as much. A process with fewer bytes than are tracked is another one. What is found is
// inferred; where two processes fit, or one fits too seldom, nothing is.

static uint64_t apart(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

// Whether two values changed by as much, in the same direction.
static int changes_match(uint64_t a, uint64_t a_before, uint64_t b, uint64_t b_before) {
    const uint64_t by_a = apart(a, a_before), by_b = apart(b, b_before);
    const uint64_t room = by_b / CLOSE_PART > CLOSE ? by_b / CLOSE_PART : CLOSE;
    return (a > a_before) == (b > b_before) && apart(by_a, by_b) <= room;
}

// Compares the figures of a time that counts with those before.
static void compare_figures(struct ct_neighbour_match *m, uint64_t bytes, uint64_t tracked) {
    if (tracked > bytes && tracked - bytes >= LARGE)
        m->is_excluded = 1;
    if (m->known && apart(tracked, m->tracked) >= LARGE) {
        if (changes_match(bytes, m->bytes, tracked, m->tracked))
            m->matched++;
        else
            m->missed++;
    } else if (m->known && apart(bytes, m->bytes) >= LARGE * 4) {
        m->missed++; // (contexts and code do not take so much at once)
    }
    m->known = 1;
    m->bytes = bytes;
    m->tracked = tracked;
}

// Whether the figures alone would do. `is_only`: no other process was ever listed.
static int match_fits(const struct ct_neighbour_match *m, int is_only) {
    return !m->is_excluded && m->matched >= (is_only ? 1 : TIMES) && m->missed * 4 <= m->matched;
}

// Whether it speaks against another process that it is not excluded itself.
static int match_competes(const struct ct_neighbour_match *m) {
    return !m->is_excluded && m->matched && m->matched >= m->missed;
}

// ---- the events ---------------------------------------------------------------------------------

static struct ct_neighbour *find(struct ct_neighbours *n, int device, uint32_t pid) {
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].device == device && n->list[i].pid == pid)
            return &n->list[i];
    if (n->count == CT_NEIGHBOURS_MOST) {
        n->left_out = 1;
        return NULL;
    }
    CT_HEAP_GROW(n->list, n->count, n->room);
    n->list[n->count] = (struct ct_neighbour){.device = device, .pid = pid};
    return &n->list[n->count++];
}

// Events are missing: of what was listed nothing is known until its next event.
static void note_gap(struct ct_neighbours *n, uint64_t t_ns) {
    for (size_t i = 0; i < n->count; i++) {
        struct ct_neighbour *p = &n->list[i];
        if (value_now(p) != CT_NEIGHBOUR_GONE)
            add_point(p, t_ns, t_ns, CT_NEIGHBOUR_LOST);
        p->match.known = 0;
    }
    for (int d = 0; d < CT_DEVICES; d++)
        n->device[d].tick.is_open = 0;
}

// The answer of NVML's has ended without a call in between.
static void close_tick(struct ct_neighbours *n, int device) {
    struct ct_match_tick *tick = &n->device[device].tick;
    if (!tick->is_open)
        return;
    tick->is_open = 0;
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].device == device && n->list[i].pid &&
            CT_NEIGHBOUR_IS_BYTES(value_now(&n->list[i])))
            compare_figures(&n->list[i].match, value_now(&n->list[i]), tick->tracked);
}

// An answer of NVML's begins, unless the event is a part of the one before.
static void note_nvml(struct ct_neighbours *n, int device, const struct ct_event *e,
                      uint64_t tracked) {
    struct ct_neighbour_device *d = &n->device[device];
    if (!d->nvml_ns || e->op == CT_OP_MEMORY_SAMPLE || e->t_ns - d->nvml_ns > GROUP_NS) {
        close_tick(n, device);
        d->before_ns = d->nvml_ns ? d->nvml_ns : e->t_ns;
        d->tick.is_open = e->t_ns - d->tick.changed_ns >= QUIET_NS;
        d->tick.t_ns = e->t_ns;
        d->tick.tracked = tracked;
    }
    d->nvml_ns = e->t_ns;
}

// A call that changed what is tracked: did NVML answer before it began?
static void note_call(struct ct_neighbours *n, int device, const struct ct_event *e,
                      uint64_t tracked) {
    struct ct_match_tick *tick = &n->device[device].tick;
    if (tracked == tick->tracked)
        return;
    tick->changed_ns = e->t_ns;
    if (!tick->is_open)
        return;
    if (e->t_ns - CT_GET(e, duration_ns) <= n->device[device].nvml_ns)
        tick->is_open = 0;
    else
        close_tick(n, device);
    tick->tracked = tracked;
}

static uint64_t read_value(const struct ct_event *e) {
    if (e->op == CT_OP_PROCESS_GONE)
        return CT_NEIGHBOUR_GONE;
    return CT_HAS(e, process_bytes) ? e->process_bytes : CT_NEIGHBOUR_UNSAID;
}

static void note_process(struct ct_neighbours *n, int device, const struct ct_event *e) {
    struct ct_neighbour_device *d = &n->device[device];
    struct ct_neighbour *p = find(n, device, e->pid);
    d->has_list = 1;
    if (!p)
        return;
    if (CT_HAS(e, text) && e->text)
        p->name = e->text;
    if (e->op == CT_OP_PROCESS_GONE)
        p->match.known = 0;
    add_point(p, e->t_ns, d->before_ns, read_value(e));
}

void ct_neighbours_note_slow(struct ct_neighbours *n, const struct ct_replay *r, int device,
                             const struct ct_event *e) {
    const uint64_t tracked = ct_live_tracked(&r->live.device[device]);
    if (r->gaps != n->gaps)
        note_gap(n, e->t_ns);
    n->gaps = r->gaps;
    if (!CT_HAS(e, flags) || !(e->flags & CT_FLAG_NVML)) {
        note_call(n, device, e, tracked);
        return;
    }
    note_nvml(n, device, e, tracked);
    if ((e->op == CT_OP_PROCESS || e->op == CT_OP_PROCESS_GONE) && CT_HAS(e, pid))
        note_process(n, device, e);
}

// ---- whose it is --------------------------------------------------------------------------------

// The number of this process where it was inferred; all devices must agree. 0: it was not.
static uint32_t infer_own_pid(const struct ct_neighbours *n) {
    uint32_t own = 0;
    for (size_t i = 0; i < n->count; i++) {
        const struct ct_neighbour *p = &n->list[i];
        int is_only = 1, competes = 0;
        for (size_t k = 0; k < n->count; k++)
            if (k != i && n->list[k].device == p->device) {
                is_only = 0;
                competes |= match_competes(&n->list[k].match);
            }
        if (!p->pid || competes || !match_fits(&p->match, is_only))
            continue;
        if (own && own != p->pid)
            return 0;
        own = p->pid;
    }
    return own;
}

// A process that holds less than this one tracks is another one, whatever its number is.
static enum ct_neighbour_whose judge(const struct ct_neighbours *n, const struct ct_neighbour *p,
                                     uint32_t own) {
    if (!p->pid)
        return CT_NEIGHBOUR_UNKNOWN;
    if (own && p->pid == own)
        return n->own_numbers ? CT_NEIGHBOUR_SELF : CT_NEIGHBOUR_SELF_INFERRED;
    return n->own_numbers || own || p->match.is_excluded ? CT_NEIGHBOUR_OTHER
                                                         : CT_NEIGHBOUR_UNKNOWN;
}

static uint32_t find_own_pid(const struct ct_neighbours *n,
                             const struct ct_definitions *definitions) {
    uint64_t pid = 0;
    if (!n->own_numbers)
        return infer_own_pid(n);
    (void)ct_definitions_info_number(definitions, "process.pid", &pid);
    return pid <= UINT32_MAX ? (uint32_t)pid : 0;
}

static int has_own_numbers(const struct ct_definitions *definitions) {
    const struct ct_string *s = ct_definitions_info(definitions, "process.nvml_pids");
    return s && s->length == 3 && memcmp(s->at, "own", 3) == 0;
}

void ct_neighbours_identify(struct ct_neighbours *n, const struct ct_definitions *definitions) {
    for (int d = 0; d < CT_DEVICES; d++)
        close_tick(n, d);
    n->own_numbers = has_own_numbers(definitions);
    const uint32_t own = find_own_pid(n, definitions);
    for (size_t i = 0; i < n->count; i++)
        n->list[i].whose = judge(n, &n->list[i], own);
}

int ct_neighbour_is_self(const struct ct_neighbour *p) {
    return p->whose == CT_NEIGHBOUR_SELF || p->whose == CT_NEIGHBOUR_SELF_INFERRED;
}

uint32_t ct_neighbours_own_pid(const struct ct_neighbours *n) {
    for (size_t i = 0; i < n->count; i++)
        if (n->list[i].whose == CT_NEIGHBOUR_SELF_INFERRED)
            return n->list[i].pid;
    return 0;
}

const char *ct_neighbour_whose_name(enum ct_neighbour_whose whose) {
    static const char *const names[] = {
        [CT_NEIGHBOUR_OTHER] = "other",
        [CT_NEIGHBOUR_SELF] = "this",
        [CT_NEIGHBOUR_SELF_INFERRED] = "this-inferred",
        [CT_NEIGHBOUR_SIBLING] = "traced",
        [CT_NEIGHBOUR_SIBLING_INFERRED] = "traced-inferred",
        [CT_NEIGHBOUR_UNKNOWN] = "unknown",
    };
    return names[whose];
}

// ---- at a time ----------------------------------------------------------------------------------

struct listed {
    const struct ct_neighbour *process;
    uint64_t value;
};

// The most first; where the memory is not said, last.
static int compare(const void *a, const void *b) {
    const struct listed *x = a, *y = b;
    const uint64_t left = CT_NEIGHBOUR_IS_BYTES(x->value) ? x->value + 1 : 0,
                   right = CT_NEIGHBOUR_IS_BYTES(y->value) ? y->value + 1 : 0;
    if (left != right)
        return left > right ? -1 : 1;
    return x->process->pid < y->process->pid ? -1 : x->process->pid > y->process->pid;
}

int ct_neighbours_is_alone(const struct ct_neighbours *n, int device) {
    int has_self = 0;
    for (size_t i = 0; i < n->count; i++) {
        const struct ct_neighbour *p = &n->list[i];
        if (p->device == device && !ct_neighbour_is_self(p))
            return 0;
        has_self |= p->device == device;
    }
    return has_self && !n->left_out;
}

const struct ct_neighbour **ct_neighbours_list(const struct ct_neighbours *n, int device,
                                               uint64_t t_ns, size_t *count) {
    struct listed *found = ct_heap_alloc_zeroed(n->count + 1, sizeof *found);
    const struct ct_neighbour **list = ct_heap_alloc_zeroed(n->count + 1, sizeof *list);
    *count = 0;
    for (size_t i = 0; i < n->count; i++) {
        const uint64_t value = ct_neighbour_at(&n->list[i], t_ns);
        if (n->list[i].device == device && value != CT_NEIGHBOUR_GONE && value != CT_NEIGHBOUR_LOST)
            found[(*count)++] = (struct listed){&n->list[i], value};
    }
    if (*count)
        qsort(found, *count, sizeof *found, compare);
    for (size_t i = 0; i < *count; i++)
        list[i] = found[i].process;
    free(found);
    return list;
}

void ct_neighbours_free(struct ct_neighbours *n) {
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i].points);
    free(n->list);
    *n = (struct ct_neighbours){0};
}
