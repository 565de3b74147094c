// SPDX-License-Identifier: Apache-2.0
// Addresses. One large range of the process's address space, reserved at first use, from which
// everything on every device comes: first fit, so that a freed address is soon given out again.
#include "sim.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define UNIT (2ull << 20)

struct sim_range *sim_ranges;

static struct sim_extents space;
static uint64_t space_base, space_size;
static bool backed;
static void *tree; // of ranges, by address; they never overlap
static uint64_t serials;

// ---- free ranges --------------------------------------------------------------------------

static void insert_extent(struct sim_extents *e, size_t at, uint64_t base, uint64_t size) {
    if (e->n == e->capacity) {
        e->capacity = e->capacity ? 2 * e->capacity : 8;
        e->v = realloc(e->v, e->capacity * sizeof *e->v);
        if (!e->v)
            abort();
    }
    memmove(e->v + at + 1, e->v + at, (e->n - at) * sizeof *e->v);
    e->v[at] = (struct sim_extent){base, size};
    e->n++;
}

static void remove_extent(struct sim_extents *e, size_t at) {
    memmove(e->v + at, e->v + at + 1, (e->n - at - 1) * sizeof *e->v);
    e->n--;
}

// Index of the first free range that begins above the address.
static size_t above(const struct sim_extents *e, uint64_t address) {
    size_t low = 0, high = e->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (e->v[middle].base > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void cut(struct sim_extents *e, size_t i, uint64_t base, uint64_t size) {
    struct sim_extent was = e->v[i];
    uint64_t end = base + size, was_end = was.base + was.size;
    if (was.base < base)
        e->v[i].size = base - was.base;
    else
        remove_extent(e, i);
    if (end < was_end)
        insert_extent(e, was.base < base ? i + 1 : i, end, was_end - end);
}

bool sim_extents_take(struct sim_extents *e, uint64_t size, uint64_t align, uint64_t *base) {
    for (size_t i = 0; i < e->n; i++) {
        uint64_t from = sim_round_up(e->v[i].base, align), gap = from - e->v[i].base;
        if (e->v[i].size < gap || e->v[i].size - gap < size)
            continue;
        *base = from;
        cut(e, i, from, size);
        return true;
    }
    return false;
}

bool sim_extents_take_at(struct sim_extents *e, uint64_t base, uint64_t size) {
    size_t i = above(e, base);
    if (i == 0)
        return false;
    struct sim_extent *x = &e->v[i - 1];
    if (base - x->base > x->size || x->size - (base - x->base) < size)
        return false;
    cut(e, i - 1, base, size);
    return true;
}

void sim_extents_give(struct sim_extents *e, uint64_t base, uint64_t size) {
    size_t i = above(e, base);
    bool joins_before = i > 0 && e->v[i - 1].base + e->v[i - 1].size == base;
    bool joins_after = i < e->n && base + size == e->v[i].base;
    if (joins_before && joins_after) {
        e->v[i - 1].size += size + e->v[i].size;
        remove_extent(e, i);
    } else if (joins_before) {
        e->v[i - 1].size += size;
    } else if (joins_after) {
        e->v[i].base = base;
        e->v[i].size += size;
    } else {
        insert_extent(e, i, base, size);
    }
}

// ---- the reserved address space ------------------------------------------------------------

static void *reserve(uint64_t size, int protection) {
    void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// Host-readable where that is possible, so that copies and managed memory work; pages that nobody
// touches cost nothing.
static void open_space(void) {
    char *p = NULL;
    for (uint64_t size = sim_param.space; !p && size >= 4ull << 30; size /= 4) {
        space_size = size;
        backed = sim_param.backed && (p = reserve(size, PROT_READ | PROT_WRITE));
        if (!p)
            p = reserve(size, PROT_NONE);
    }
    if (!p) {
        fprintf(stderr, "sim: no address space\n");
        abort();
    }
    madvise(p, space_size, MADV_DONTDUMP);
    madvise(p, space_size, MADV_NOHUGEPAGE);
    space_base = sim_round_up((uint64_t)(uintptr_t)p, UNIT);
    space_size -= UNIT;
    sim_extents_give(&space, space_base, space_size);
}

void sim_space_open(void) {
    if (!space_base)
        open_space();
}

bool sim_space_take(uint64_t size, uint64_t align, uint64_t *base) {
    sim_space_open();
    return sim_extents_take(&space, sim_round_up(size, UNIT), align < UNIT ? UNIT : align, base);
}

bool sim_space_take_at(uint64_t base, uint64_t size) {
    sim_space_open();
    return base % UNIT == 0 && sim_extents_take_at(&space, base, sim_round_up(size, UNIT));
}

void sim_space_give(uint64_t base, uint64_t size) {
    size = sim_round_up(size, UNIT);
    if (backed)
        madvise((void *)(uintptr_t)base, size, MADV_DONTNEED);
    sim_extents_give(&space, base, size);
}

bool sim_space_backed(uint64_t base, uint64_t size) {
    return backed && base >= space_base && size <= space_size &&
           base - space_base <= space_size - size;
}

bool sim_space_touches(uint64_t base, uint64_t size) {
    return space_base && base < space_base + space_size && base + size > space_base;
}

// ---- what has an address ------------------------------------------------------------------------

static int compare(const void *a, const void *b) {
    const struct sim_range *x = a, *y = b;
    if (x->base + x->size <= y->base)
        return -1;
    return x->base >= y->base + y->size;
}

struct sim_range *sim_range_new(enum sim_range_kind kind, uint64_t base, uint64_t size) {
    struct sim_range *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->kind = kind;
    r->base = base;
    r->size = size;
    r->requested = size;
    r->device = -1;
    r->serial = ++serials;
    struct sim_range **node = tsearch(r, &tree, compare);
    if (!node || *node != r) {
        fprintf(stderr, "sim: overlapping ranges at %#llx\n", (unsigned long long)base);
        abort();
    }
    r->next = sim_ranges;
    if (sim_ranges)
        sim_ranges->prev = r;
    sim_ranges = r;
    return r;
}

struct sim_range *sim_range_overlap(uint64_t base, uint64_t size) {
    if (size > UINT64_MAX - base)
        size = UINT64_MAX - base;
    struct sim_range key = {.base = base, .size = size};
    struct sim_range **found = size ? tfind(&key, &tree, compare) : NULL;
    return found ? *found : NULL;
}

struct sim_range *sim_range_at(uint64_t address) {
    return sim_range_overlap(address, 1);
}

void sim_range_delete(struct sim_range *r) {
    tdelete(r, &tree, compare);
    if (r->prev)
        r->prev->next = r->next;
    else
        sim_ranges = r->next;
    if (r->next)
        r->next->prev = r->prev;
    free(r);
}
