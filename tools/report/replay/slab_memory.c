// SPDX-License-Identifier: Apache-2.0
// Slabs, which hold the objects, are cut from large areas. A head before each says so. All else
// comes from malloc.
#include "replay/slab_memory.h"

#include <cutrace/model/live_memory.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/heap.h"

enum {
    HUGE_PAGE = 2 << 20,
    AREA = 16 << 20,
    FEW_SLABS = 24, // come from malloc before the first area: 4 MiB
    ALIGN = 64,
    SLAB = CT_SLAB_SLOTS * sizeof(union ct_slot),
};

struct head {
    _Alignas(ALIGN) struct head *next; // of a slab that is free
    int is_cut;                        // from an area
};

struct area {
    _Alignas(ALIGN) struct area *previous;
};

enum { CUT = sizeof(struct head) + SLAB };
_Static_assert(CUT % ALIGN == 0, "slabs that follow each other are aligned");

static struct {
    pthread_mutex_t lock;
    size_t used, plain; // slabs in use; those of malloc since none was
    struct head *free;
    struct area *newest;
    size_t cut; // bytes of it
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *allocate(size_t align, size_t bytes) {
    void *made = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (!made)
        ct_heap_exhausted();
    return made;
}

static struct head *cut_slab(void) {
    if (!memory.newest || AREA - memory.cut < CUT) {
        struct area *made = allocate(HUGE_PAGE, AREA);
        (void)madvise(made, AREA, MADV_HUGEPAGE); // where it is refused, pages are small
        made->previous = memory.newest;
        memory.newest = made;
        memory.cut = sizeof *made;
    }
    struct head *h = (struct head *)(void *)((char *)memory.newest + memory.cut);
    memory.cut += CUT;
    h->is_cut = 1;
    return h;
}

static int uses_areas(void) {
#ifdef __SANITIZE_ADDRESS__ // it knows where an allocation ends, and not where a slab does
    return 0;
#else
    return memory.plain >= FEW_SLABS;
#endif
}

static struct head *take_slab(void) {
    struct head *h = memory.free;
    memory.used++;
    if (h) {
        memory.free = h->next;
        return h;
    }
    if (uses_areas())
        return cut_slab();
    memory.plain++;
    h = allocate(ALIGN, CUT);
    h->is_cut = 0;
    return h;
}

static void free_areas(void) {
    while (memory.newest) {
        struct area *previous = memory.newest->previous;
        free(memory.newest);
        memory.newest = previous;
    }
    memory.free = NULL;
    memory.plain = 0;
}

static void give_slab(struct head *h) {
    CT_ASSERT(memory.used);
    memory.used--;
    if (h->is_cut) {
        h->next = memory.free;
        memory.free = h;
    } else {
        free(h);
    }
    if (!memory.used)
        free_areas();
}

static void *take(size_t bytes) {
    if (bytes != SLAB)
        return bytes ? allocate(ALIGN, bytes) : NULL;
    pthread_mutex_lock(&memory.lock);
    struct head *h = take_slab();
    pthread_mutex_unlock(&memory.lock);
    return h + 1;
}

static void give(void *old, size_t bytes) {
    if (bytes != SLAB || !old) {
        free(old);
        return;
    }
    pthread_mutex_lock(&memory.lock);
    give_slab((struct head *)old - 1);
    pthread_mutex_unlock(&memory.lock);
}

void *ct_slab_memory_resize(void *user, void *old, size_t old_bytes, size_t new_bytes) {
    (void)user;
    void *made = take(new_bytes);
    give(old, old_bytes);
    return made;
}
