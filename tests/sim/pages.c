// SPDX-License-Identifier: Apache-2.0
// Copies, and fills with zeros, that skip untouched pages. Device memory and the driver's
// page-locked memory are private anonymous mappings: a page that is neither present nor swapped out
// was never written, and reads as zeros. /proc/self/pagemap says which (mincore would not do: it
// says of a page in the swap what it says of one that never was). Where it cannot be read, all
// pages count as touched.
#define _GNU_SOURCE
#include "pages.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define WINDOW 4096 // pages that are asked for at once
#define SMALL 4096  // bytes: less is not worth the question
#define PRESENT_OR_SWAPPED (3ull << 62)

struct window { // what is known of some pages
    int fd;
    uint64_t page; // size of one
    uint64_t first, count;
    uint64_t entries[WINDOW];
};

static struct window source, target; // under the driver's lock

static void look(struct window *w, uint64_t page, uint64_t end) {
    uint64_t n = end - page < WINDOW ? end - page : WINDOW;
    ssize_t got = pread(w->fd, w->entries, n * sizeof *w->entries, (off_t)(page * 8));
    w->first = page;
    w->count = n;
    for (uint64_t i = got > 0 ? (uint64_t)got / 8 : 0; i < n; i++)
        w->entries[i] = PRESENT_OR_SWAPPED;
}

// Whether the file speaks of this process's addresses (an emulator may have others): a page that
// was written is there.
static bool is_right(struct window *w) {
    w->entries[0] = 0;
    const uint64_t page = (uint64_t)(uintptr_t)w->entries / w->page;
    look(w, page, page + 1);
    return w->entries[0] & PRESENT_OR_SWAPPED;
}

// Opened for each use: the program may close descriptors that it did not open.
static bool begin(struct window *w) {
    static bool wrong;
    w->page = (uint64_t)sysconf(_SC_PAGESIZE);
    w->fd = wrong ? -1 : open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (w->fd < 0)
        return false;
    wrong = !is_right(w);
    w->count = 0;
    if (wrong)
        close(w->fd);
    return !wrong;
}

// Bytes from the address on whose pages are alike; *touched says how.
static uint64_t run_at(struct window *w, uint64_t address, uint64_t end, bool *touched) {
    const uint64_t page = address / w->page, last = (end - 1) / w->page + 1;
    if (page < w->first || page >= w->first + w->count)
        look(w, page, last);
    uint64_t i = page - w->first;
    *touched = w->entries[i] & PRESENT_OR_SWAPPED;
    while (i < w->count && *touched == !!(w->entries[i] & PRESENT_OR_SWAPPED))
        i++;
    const uint64_t stop = (w->first + i) * w->page;
    return (stop < end ? stop : end) - address;
}

// Whether the driver made the mapping, of which it knows that it is private and anonymous.
static bool is_ours(uint64_t base, uint64_t size) {
    if (sim_space_backed(base, size))
        return true;
    const struct sim_range *r = sim_range_at(base);
    return r && r->kind == SIM_RANGE_HOST && size <= r->size && base - r->base <= r->size - size;
}

// Whole pages are given back, which makes zeros of them.
static void clear(const struct window *w, uint64_t base, uint64_t size) {
    const uint64_t first = sim_round_up(base, w->page), end = (base + size) / w->page * w->page;
    if (first >= end || madvise((void *)(uintptr_t)first, end - first, MADV_DONTNEED)) {
        memset((void *)(uintptr_t)base, 0, size);
        return;
    }
    memset((void *)(uintptr_t)base, 0, first - base);
    memset((void *)(uintptr_t)end, 0, base + size - end);
}

static void zero(struct window *w, uint64_t to, size_t n) {
    bool touched;
    for (const uint64_t end = to + n; to < end;) {
        const uint64_t run = run_at(w, to, end, &touched);
        if (touched)
            clear(w, to, run);
        to += run;
    }
}

void sim_pages_zero(uint64_t to, size_t n) {
    if (n < SMALL || !is_ours(to, n) || !begin(&target)) {
        memset((void *)(uintptr_t)to, 0, n);
        return;
    }
    zero(&target, to, n);
    close(target.fd);
}

static void copy_runs(uint64_t to, uint64_t from, size_t n, bool sparse) {
    bool touched;
    for (const uint64_t end = from + n; from < end;) {
        const uint64_t run = run_at(&source, from, end, &touched);
        if (touched)
            memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, run);
        else if (sparse)
            zero(&target, to, run);
        else
            memset((void *)(uintptr_t)to, 0, run);
        from += run;
        to += run;
    }
}

void sim_pages_copy(uint64_t to, uint64_t from, size_t n) {
    const bool overlap = from < to + n && to < from + n;
    if (overlap || n < SMALL || !is_ours(from, n) || !begin(&source)) {
        memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
        return;
    }
    const bool sparse = is_ours(to, n) && begin(&target);
    copy_runs(to, from, n, sparse);
    if (sparse)
        close(target.fd);
    close(source.fd);
}
