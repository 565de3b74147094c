// SPDX-License-Identifier: Apache-2.0
// Synthetic streams of allocations and frees, always the same ones, to measure the size of a trace
// with.
//
//   iid       40 % of the allocations from 300 hot pairs of size and stack, the others from 20,000
//             stacks with two sizes each; lifetimes short, middle and long, about 4,900 alive; gaps
//             lognormal (median 2.5 us, mean 4.1 us)
//   periodic  an iteration of 6,000 calls repeated: half of its allocations short-lived, half freed
//             in the mirrored order, above 2,400 that stay; 2 % of the sizes differ in an
//             iteration; gaps jittered by 10 % and 50 ns
//
// Addresses are those of a best-fit allocator with splitting and merging, in 25 segments of 20 MiB.
#ifndef CT_BENCH_STREAMS_H
#define CT_BENCH_STREAMS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cutrace/format/format.h>

#include "../lib/draw.h"

enum {
    HOT_PAIRS = 300,
    COLD_STACKS = 20000,
    SEGMENTS = 25,
    UNITS = (20 << 20) / 512, // of a segment; sizes are multiples of 512
    ITERATION = 6000,
    STAYING = 2400,
    LIVE_MAX = 1 << 20,
};

// ---- chance -------------------------------------------------------------------------------------

static double uniform(void) {
    return ((double)draw(UINT64_C(1) << 52) + 0.5) / (double)(UINT64_C(1) << 52);
}

static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double lognormal(double median, double sigma) {
    return median * exp(sigma * normal());
}

static uint64_t exponential(double mean) {
    return 1 + (uint64_t)(-mean * log(uniform()));
}

// ---- the allocator ------------------------------------------------------------------------------

// Free extents of a segment by size and address: best fit is the first one that is large enough.
struct extent {
    uint32_t units, at; // at: unit in all segments
};

static struct {
    struct extent free[1 << 16];
    size_t count;
    uint32_t begins[SEGMENTS * UNITS],
        ends[SEGMENTS * UNITS + 1]; // size of the free extent there, or 0
} heap;

static size_t extent_place(struct extent e) {
    size_t low = 0, high = heap.count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct extent m = heap.free[middle];
        if (m.units < e.units || (m.units == e.units && m.at < e.at))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void extent_add(struct extent e) {
    const size_t i = extent_place(e);
    if (heap.count == sizeof heap.free / sizeof *heap.free)
        abort();
    memmove(&heap.free[i + 1], &heap.free[i], (heap.count++ - i) * sizeof e);
    heap.free[i] = e;
    heap.begins[e.at] = heap.ends[e.at + e.units] = e.units;
}

static void extent_remove(struct extent e) {
    const size_t i = extent_place(e);
    memmove(&heap.free[i], &heap.free[i + 1], (--heap.count - i) * sizeof e);
    heap.begins[e.at] = heap.ends[e.at + e.units] = 0;
}

static void heap_begin(void) {
    memset(&heap, 0, sizeof heap);
    for (uint32_t s = 0; s < SEGMENTS; s++)
        extent_add((struct extent){UNITS, s * UNITS});
}

static uint32_t heap_take(uint32_t units) {
    const size_t i = extent_place((struct extent){units, 0});
    if (i == heap.count)
        abort(); // the streams are made so that this does not happen
    const struct extent e = heap.free[i];
    extent_remove(e);
    if (e.units > units)
        extent_add((struct extent){e.units - units, e.at + units});
    return e.at;
}

static void heap_give(uint32_t at, uint32_t units) {
    struct extent e = {units, at};
    const uint32_t after = (at + units) % UNITS ? heap.begins[at + units] : 0;
    const uint32_t before = at % UNITS ? heap.ends[at] : 0;
    if (after) {
        extent_remove((struct extent){after, at + units});
        e.units += after;
    }
    if (before) {
        extent_remove((struct extent){before, at - before});
        e.units += before;
        e.at -= before;
    }
    extent_add(e);
}

static uint64_t address(uint32_t unit) {
    return UINT64_C(0x7f1200000000) + (uint64_t)(unit / UNITS) * (64 << 20) + unit % UNITS * 512;
}

// ---- what is alive ------------------------------------------------------------------------------

struct object {
    uint64_t dies; // number of the allocation before which it is freed
    uint32_t at, units;
};

static struct object live[LIVE_MAX]; // iid: a heap by `dies`; periodic: by slot
static size_t live_count;

static void live_push(struct object o) {
    size_t i = live_count++;
    if (live_count == LIVE_MAX)
        abort();
    for (; i && live[(i - 1) / 2].dies > o.dies; i = (i - 1) / 2)
        live[i] = live[(i - 1) / 2];
    live[i] = o;
}

static struct object live_pop(void) {
    const struct object first = live[0], last = live[--live_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < live_count; i = child) {
        if (child + 1 < live_count && live[child + 1].dies < live[child].dies)
            child++;
        if (last.dies <= live[child].dies)
            break;
        live[i] = live[child];
    }
    live[i] = last;
    return first;
}

// ---- events -------------------------------------------------------------------------------------

static uint64_t now_ns, allocations, frees;

// The fields that the hooks of cuMemAllocAsync and cuMemFreeAsync set.
static void as_either(struct ct_event *e, enum ct_op op, uint32_t api, uint32_t unit) {
    *e = (struct ct_event){.present = 0};
    CT_SET(e, t_ns, now_ns);
    CT_SET(e, thread, 1);
    CT_SET(e, op, op);
    CT_SET(e, api, api);
    CT_SET(e, result, 0);
    CT_SET(e, device, 0);
    CT_SET(e, ptr, address(unit));
}

static void as_alloc(struct ct_event *e, uint32_t unit, uint32_t units, uint32_t stack) {
    as_either(e, CT_OP_ALLOC, 1, unit);
    CT_SET(e, context, UINT64_C(0x55d0c0ffee00));
    CT_SET(e, bytes, (uint64_t)units * 512);
    CT_SET(e, stack, stack);
    CT_SET(e, duration_ns, (uint64_t)lognormal(1500, 0.5));
    CT_SET(e, space, CT_SPACE_DEVICE);
    CT_SET(e, flags, CT_FLAG_ASYNC);
    CT_SET(e, stream, 2);
    allocations++;
}

static void as_free(struct ct_event *e, uint32_t unit) {
    as_either(e, CT_OP_FREE, 2, unit);
    if (frees++ % 64 == 0) // the recorder measures some
        CT_SET(e, duration_ns, (uint64_t)lognormal(800, 0.5));
    CT_SET(e, flags, CT_FLAG_ASYNC);
    CT_SET(e, stream, 2);
}

static uint32_t some_units(void) {
    const double u = lognormal(40, 1.4);
    return u < 1 ? 1 : u > 4000 ? 4000 : (uint32_t)u;
}

// ---- iid ----------------------------------------------------------------------------------------

static uint32_t hot_units[HOT_PAIRS], hot_stack[HOT_PAIRS], cold_units[COLD_STACKS][2];

static void iid_begin(void) {
    for (size_t i = 0; i < HOT_PAIRS; i++) {
        hot_units[i] = some_units();
        hot_stack[i] = (uint32_t)(1 + draw(COLD_STACKS));
    }
    for (size_t i = 0; i < COLD_STACKS; i++)
        for (size_t k = 0; k < 2; k++)
            cold_units[i][k] = some_units();
}

static void iid_next(struct ct_event *e) {
    now_ns += 1 + (uint64_t)lognormal(2500, 1);
    if (live_count && live[0].dies <= allocations) {
        const struct object o = live_pop();
        heap_give(o.at, o.units);
        as_free(e, o.at);
        return;
    }
    uint32_t stack, units;
    if (draw(100) < 40) {
        const uint64_t i = draw(HOT_PAIRS);
        stack = hot_stack[i];
        units = hot_units[i];
    } else {
        const uint64_t i = draw(COLD_STACKS);
        stack = (uint32_t)(1 + i);
        units = cold_units[i][draw(4) == 0];
    }
    const uint64_t kind = draw(10);
    const uint64_t age = exponential(kind < 7 ? 20 : kind < 9 ? 1000 : 46000);
    const uint32_t at = heap_take(units);
    as_alloc(e, at, units, stack);
    live_push((struct object){allocations + age, at, units});
}

// ---- periodic -----------------------------------------------------------------------------------

static struct {
    uint32_t slot, units, stack; // units 0: frees what is in the slot
    double gap;
} iteration[ITERATION];
static size_t step, stayed;

// Calls come in pairs of an allocation and its free: temporaries close together, the others like
// brackets.
static void periodic_begin(void) {
    uint32_t open[ITERATION], depth = 0, slots = 0;
    struct {
        uint32_t slot;
        size_t at;
    } soon[ITERATION];
    size_t waiting = 0;
    for (size_t i = 0; i < ITERATION; i++) {
        const size_t left = ITERATION - i;
        size_t due = waiting;
        for (size_t k = 0; k < waiting; k++)
            if (soon[k].at <= i || left <= waiting + depth)
                due = k;
        iteration[i].gap = lognormal(2500, 1);
        if (due < waiting) {
            iteration[i].slot = soon[due].slot;
            soon[due] = soon[--waiting];
        } else if (depth && (left <= waiting + depth || (i > ITERATION / 2 && draw(3) == 0))) {
            iteration[i].slot = open[--depth];
        } else {
            iteration[i].slot = slots;
            iteration[i].units = some_units();
            iteration[i].stack = (uint32_t)(1 + draw(COLD_STACKS));
            if (draw(2)) {
                soon[waiting].at = i + exponential(30);
                soon[waiting++].slot = slots;
            } else {
                open[depth++] = slots;
            }
            slots++;
        }
    }
}

static void periodic_next(struct ct_event *e) {
    if (stayed < STAYING) { // weights, at first
        const uint32_t units = some_units();
        stayed++;
        now_ns += 1 + (uint64_t)lognormal(2500, 1);
        as_alloc(e, heap_take(units), units, (uint32_t)(1 + draw(COLD_STACKS)));
        return;
    }
    const size_t i = step++ % ITERATION;
    struct object *o = &live[iteration[i].slot];
    const double gap = iteration[i].gap * (1 + 0.1 * normal()) + 50 * fabs(normal());
    now_ns += gap < 1 ? 1 : (uint64_t)gap;
    if (!iteration[i].units) {
        heap_give(o->at, o->units);
        as_free(e, o->at);
        return;
    }
    o->units = draw(100) < 2 ? some_units() : iteration[i].units;
    o->at = heap_take(o->units);
    as_alloc(e, o->at, o->units, iteration[i].stack);
}

static const struct stream {
    const char *name;
    void (*begin)(void);
    void (*next)(struct ct_event *e);
} streams[] = {{"iid", iid_begin, iid_next}, {"periodic", periodic_begin, periodic_next}};

static void stream_begin(const struct stream *s) {
    chance = 1;
    now_ns = UINT64_C(1000000000);
    allocations = frees = step = stayed = live_count = 0;
    heap_begin();
    s->begin();
}

#endif
