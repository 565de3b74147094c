// SPDX-License-Identifier: Apache-2.0
#include "sites/growth_shape.h"

#include <limits.h>

#include "base/heap.h"
#include "base/search.h"

enum {
    PARTS = CT_SITE_HISTORY_PARTS,
    LATEST_BEGIN = PARTS / 4 * 3, // a growth takes at least a quarter of the time that is judged
    NEARBY = 16,                  // to a part: what is taken within a 16th of one is one moment
};
// The largest distance of a growth from an even one that is still even: in thirds of the time work
// and pauses of equal length (three days and nights) are 1/6 away, and five steps 1/5.
#define MOST_UNEVEN 0.25
// Among the begins of a growth that fit nearly as well as the best, the first one counts.
#define NEARLY_AS_GOOD 0.05

// The live allocations that are judged, in the order of time.
struct kept {
    int is_by_parts; // as in the limits
    const struct ct_site_birth *list;
    size_t count;
    uint64_t *before; // bytes of those before each; one more than `count`
    struct ct_least_stretch
        parts; // of the time that is judged, up to where all are older than uses
};

static uint64_t bytes_of(const struct kept *k, size_t from, size_t to) {
    return k->before[to] - k->before[from];
}

static uint64_t end_of(const struct kept *k) {
    return k->parts.to_ns;
}

// The position of the first one that was taken at a time or later.
static size_t find_position(const struct kept *k, uint64_t t_ns) {
    return CT_COUNT_BELOW(k->list, k->count, t_ns, t_ns);
}

// In how many parts of a stretch some were taken; counts up to `most`.
static unsigned count_parts_of(const struct kept *k, const struct ct_least_stretch *s, size_t from,
                               size_t to, unsigned most) {
    unsigned n = 0, last = 0;
    for (size_t i = from; i < to && n < most; i++) {
        const unsigned part = ct_least_stretch_part(s, k->list[i].t_ns);
        n += i == from || part != last;
        last = part;
    }
    return n;
}

// The same of the time that is judged, in parts that are each a `fine`th of one.
static unsigned count_parts(const struct kept *k, size_t from, size_t to, unsigned fine,
                            unsigned most) {
    const struct ct_least_stretch s = {k->parts.from_ns, k->parts.to_ns, PARTS * fine};
    return count_parts_of(k, &s, from, to, most);
}

// The end of a step: after the last one that was taken in the same part or, of a growth in steps,
// in the parts that follow without a gap.
static size_t find_end_of_step(const struct kept *k, size_t first, enum ct_growth_kind kind) {
    unsigned last = ct_least_stretch_part(&k->parts, k->list[first].t_ns);
    const unsigned more = kind == CT_GROWTH_KIND_STEPWISE;
    size_t i = first;
    for (; i < k->count; i++) {
        const unsigned part = ct_least_stretch_part(&k->parts, k->list[i].t_ns);
        if (part > last + more)
            break;
        last = more ? part : last;
    }
    return i;
}

static unsigned count_steps(const struct kept *k, size_t first, enum ct_growth_kind kind) {
    unsigned n = 0;
    for (size_t i = first; i < k->count; n++)
        i = find_end_of_step(k, i, kind);
    return n;
}

static struct kept select_kept(const struct ct_site_history *h, uint64_t from_ns, uint64_t to_ns) {
    struct kept k = {.parts = {from_ns, to_ns, PARTS}};
    size_t first = 0;
    while (first < h->birth_count && h->births[first].t_ns < from_ns)
        first++;
    k.list = h->births + first;
    while (first + k.count < h->birth_count && k.list[k.count].t_ns <= to_ns)
        k.count++;
    k.before = ct_heap_alloc_zeroed(k.count + 1, sizeof *k.before);
    for (size_t i = 0; i < k.count; i++)
        k.before[i + 1] = k.before[i] + k.list[i].bytes;
    return k;
}

// ---- where an even growth begins ----------------------------------------------------------------

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double distance_of(double a, double b) {
    return a > b ? a - b : b - a;
}

// The largest distance from an even growth that begins at a time, with the allocation `first`.
static double measure_unevenness(const struct kept *k, size_t first, uint64_t begin_ns) {
    const double whole = (double)bytes_of(k, first, k->count),
                 time = (double)(end_of(k) - begin_ns);
    double most = 0;
    for (size_t i = first; i < k->count; i++) {
        const double even = (double)(k->list[i].t_ns - begin_ns) / time;
        most = larger(most, distance_of((double)bytes_of(k, first, i) / whole, even));
        most = larger(most, distance_of((double)bytes_of(k, first, i + 1) / whole, even));
    }
    return most;
}

struct begin {
    size_t first; // of `kept`; its count: there is no growth
    double uneven;
};

static int can_begin(const struct kept *k, size_t first) {
    return bytes_of(k, first, k->count) >= CT_GROWTH_LEAST_BYTES &&
           count_parts(k, first, k->count, 1, CT_GROWTH_LEAST_STEPS) == CT_GROWTH_LEAST_STEPS;
}

static struct begin find_begin(const struct kept *k) {
    double uneven[LATEST_BEGIN + 1], best = 1;
    size_t first[LATEST_BEGIN + 1];
    for (unsigned i = 0; i <= LATEST_BEGIN; i++) {
        const uint64_t begin_ns = ct_least_stretch_begin(&k->parts, i);
        first[i] = find_position(k, begin_ns);
        uneven[i] = can_begin(k, first[i]) ? measure_unevenness(k, first[i], begin_ns) : 1;
        best = uneven[i] < best ? uneven[i] : best;
    }
    for (unsigned i = 0; i <= LATEST_BEGIN && best <= MOST_UNEVEN; i++)
        if (uneven[i] <= MOST_UNEVEN && uneven[i] <= best + NEARLY_AS_GOOD)
            return (struct begin){first[i], uneven[i]};
    return (struct begin){k->count, 1};
}

// ---- a growth that ends or slows down -----------------------------------------------------------

// Whether nothing was kept for longer at the end than ever between two before.
static int has_stopped(const struct kept *k, size_t first) {
    uint64_t longest = 0;
    const uint64_t tail = end_of(k) - k->list[k->count - 1].t_ns;
    for (size_t i = first + 1; i < k->count; i++) {
        const uint64_t gap = k->list[i].t_ns - k->list[i - 1].t_ns;
        longest = gap > longest ? gap : longest;
    }
    return tail / 2 > longest && tail > (end_of(k) - k->parts.from_ns) / 16;
}

// Whether the last quarter of the time kept less than half as much as the second one, by more than
// chance makes of it (twice the root of the number of moments).
static int has_slowed(const struct kept *k) {
    size_t at[5];
    for (unsigned i = 0; i < 4; i++)
        at[i] = find_position(k, ct_least_stretch_begin(&k->parts, PARTS / 4 * i));
    at[4] = k->count;
    const uint64_t then = count_parts(k, at[1], at[2], NEARBY, UINT_MAX),
                   now = count_parts(k, at[3], at[4], NEARBY, UINT_MAX);
    return bytes_of(k, at[3], at[4]) < bytes_of(k, at[1], at[2]) / 2 && then > now &&
           (then - now) * (then - now) > 4 * (then + now);
}

// Whether it has filled and stays: all but a twentieth was kept before the last quarter, and not at
// once.
static int has_filled(const struct kept *k) {
    const size_t last = find_position(k, ct_least_stretch_begin(&k->parts, LATEST_BEGIN));
    const uint64_t whole = bytes_of(k, 0, k->count);
    return bytes_of(k, last, k->count) <= whole / 20 &&
           count_parts(k, 0, last, 1, CT_GROWTH_LEAST_STEPS) == CT_GROWTH_LEAST_STEPS;
}

static void set_saturating(struct ct_growth_shape *s, const struct kept *k, int is_slowing) {
    const uint64_t whole = bytes_of(k, 0, k->count);
    size_t i = 0;
    while (k->before[i + 1] < whole - whole / 20)
        i++;
    s->kind = CT_GROWTH_KIND_SATURATING;
    s->since_ns = k->list[0].t_ns;
    s->is_slowing = is_slowing;
    s->filled_ns = is_slowing ? 0 : k->list[i].t_ns;
    s->kept_bytes = whole;
}

// ---- a growth that goes on ----------------------------------------------------------------------

// Steps of several allocations leave most of the time empty. (With two in each part on average, an
// even growth by chance leaves one of seven empty.)
static enum ct_growth_kind name_leak(const struct kept *k, size_t first) {
    const size_t n = k->count - first;
    const unsigned left = PARTS - ct_least_stretch_part(&k->parts, k->list[first].t_ns),
                   half = n / 2 < PARTS ? (unsigned)(n / 2) : PARTS,
                   parts = k->is_by_parts ? left : half;
    const struct ct_least_stretch s = {k->list[first].t_ns, end_of(k), parts};
    const unsigned used = count_parts_of(k, &s, first, k->count, UINT_MAX);
    return 3 * used >= 2 * parts ? CT_GROWTH_KIND_STEADY : CT_GROWTH_KIND_STEPWISE;
}

// What is kept after the first step, in the time after it.
static void measure_rate(struct ct_growth_shape *s, const struct kept *k, size_t first) {
    const size_t next = find_end_of_step(k, first, s->kind);
    s->grown_bytes = bytes_of(k, next, k->count);
    s->grown_ns = k->list[k->count - 1].t_ns - k->list[next - 1].t_ns;
}

static void set_leak(struct ct_growth_shape *s, const struct kept *k, size_t first) {
    s->kind = name_leak(k, first);
    s->since_ns = k->list[first].t_ns;
    s->steps = count_steps(k, first, s->kind);
    s->kept_bytes = bytes_of(k, first, k->count);
    for (size_t i = first; i < k->count; i++)
        s->kept_count += k->list[i].count;
    measure_rate(s, k, first);
}

// By how much of what is kept the least held has risen, 0 to 1: where as much was given back as was
// kept, nothing grew.
static double measure_rise(const struct ct_site_history *h, const struct ct_least_stretch *window,
                           const struct kept *k, size_t first) {
    const unsigned part = ct_least_stretch_part(window, k->list[first].t_ns);
    const uint64_t last_ns = ct_least_stretch_begin(window, PARTS - 1), from = h->least[part],
                   to = h->least[PARTS - 1];
    const uint64_t kept = bytes_of(k, first, find_position(k, last_ns));
    if (to <= from || !kept)
        return 0;
    return to - from < kept ? (double)(to - from) / (double)kept : 1;
}

static void judge(struct ct_growth_shape *s, const struct ct_growth_limits *l, double uneven,
                  double rise) {
    const double steps = s->steps, seen = (double)s->grown_ns, use = (double)s->lifetime_ns;
    const double lost = s->kept_count ? (double)l->lost / (double)s->kept_count : 1;
    s->confidence = (steps + 1) / (steps + 2) * (1 - uneven) * rise * (seen / (seen + use)) *
                    (lost < 1 ? 1 - lost : 0);
    if (rise < 0.5 || s->steps < CT_GROWTH_LEAST_STEPS) // (steps are fewer than their parts)
        s->kind = CT_GROWTH_KIND_NONE;
    else if (s->grown_ns < l->least_ns || lost >= 0.5)
        s->kind = CT_GROWTH_KIND_UNTOLD;
}

static void find_shape(struct ct_growth_shape *s, const struct ct_site_history *h,
                       const struct ct_least_stretch *window, const struct kept *k,
                       const struct ct_growth_limits *l) {
    if (!can_begin(k, 0))
        return;
    const struct begin b = find_begin(k);
    const int is_even = b.first < k->count;
    if (has_slowed(k)) {
        set_saturating(s, k, !has_stopped(k, 0));
    } else if (is_even && !has_stopped(k, b.first)) {
        set_leak(s, k, b.first);
        s->is_older_than_known = s->since_ns < l->exact_from_ns;
        judge(s, l, b.uneven, s->is_older_than_known ? 1 : measure_rise(h, window, k, b.first));
    } else if (is_even || has_filled(k)) {
        set_saturating(s, k, 0);
    }
}

// ---- interface ----------------------------------------------------------------------------------

void ct_growth_shape_find(struct ct_growth_shape *s, const struct ct_site_history *h,
                          const struct ct_least_stretch *window, const struct ct_growth_limits *l) {
    *s = (struct ct_growth_shape){0};
    // A few that were given back late do not say that the others will be: of those that are live
    // every twentieth, of those that were given back every hundredth.
    s->lifetime_ns = ct_site_history_lifetime(h, h->birth_count / 20 + h->given_back / 100);
    const uint64_t time = l->to_ns > l->from_ns ? l->to_ns - l->from_ns : 0;
    const int is_short = s->lifetime_ns > time / 2;
    struct kept k = select_kept(h, l->from_ns, is_short ? l->to_ns : l->to_ns - s->lifetime_ns);
    k.is_by_parts = l->is_by_parts;
    if (!time || !k.count)
        s->kind = CT_GROWTH_KIND_NONE;
    else if (is_short)
        s->kind = can_begin(&k, 0) ? CT_GROWTH_KIND_UNTOLD : CT_GROWTH_KIND_NONE;
    else
        find_shape(s, h, window, &k, l);
    free(k.before);
}

void ct_growth_shape_find_reserved(struct ct_growth_shape *s, const struct ct_pool_history *p,
                                   const struct ct_least_stretch *window,
                                   const struct ct_growth_limits *l) {
    struct ct_site_birth births[PARTS];
    struct ct_site_history h = {.births = births};
    uint64_t least = UINT64_MAX, kept[PARTS];
    for (unsigned i = PARTS; i-- > 0;) {
        least = p->least_reserved[i] < least ? p->least_reserved[i] : least;
        kept[i] = least;
    }
    for (unsigned i = ct_least_stretch_part(window, l->from_ns) + 1; i < PARTS; i++)
        if (kept[i] > kept[i - 1])
            births[h.birth_count++] =
                (struct ct_site_birth){ct_least_stretch_begin(window, i), kept[i] - kept[i - 1], 1};
    memcpy(h.least, kept, sizeof kept);
    ct_growth_shape_find(s, &h, window, l);
}

uint64_t ct_growth_shape_in(const struct ct_growth_shape *s, uint64_t ns) {
    if (!s->grown_ns)
        return 0;
    const unsigned __int128 grown =
        ((unsigned __int128)s->grown_bytes * ns + s->grown_ns / 2) / s->grown_ns;
    return grown > UINT64_MAX ? UINT64_MAX : (uint64_t)grown;
}

int ct_growth_kind_is_leak(enum ct_growth_kind kind) {
    return kind == CT_GROWTH_KIND_STEADY || kind == CT_GROWTH_KIND_STEPWISE;
}

const char *ct_growth_kind_name(enum ct_growth_kind kind) {
    static const char *const names[] = {"none", "steady", "stepwise", "saturating", "untold"};
    return names[kind];
}
