// SPDX-License-Identifier: Apache-2.0
// The shared objects of the process: where they lie, which files they are, and how addresses find
// them.
#define _GNU_SOURCE
#include "store/loaded_modules.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/pages.h"
#include "store/journal.h"

#define MODULES_MAX 8192u

static struct ct_arena texts = {.bytes = 4u << 20};

// What a look found, until it is merged: the looking thread's, then the drainer's.
static struct {
    struct ct_module *found; // MODULES_MAX
    size_t n;
    unsigned long long adds, subs;
    int fresh;
} look;

static struct ct_module **modules; // MODULES_MAX, in the order of finding
static size_t modules_n;
static struct ct_module **sorted; // those that are there now, by start
static size_t sorted_n;

// ---- the loader's locks and fork ------------------------------------------------------------

enum { GATE_FORK = -1, GATE_OPEN };
static _Atomic int gate; // how many threads are in there; or GATE_FORK

int ct_loader_gate_enter(void) {
    int inside = atomic_load(&gate);
    while (inside != GATE_FORK)
        if (atomic_compare_exchange_weak(&gate, &inside, inside + 1))
            return 0;
    return -EBUSY;
}

void ct_loader_gate_leave(void) {
    atomic_fetch_sub(&gate, 1);
}

int ct_loader_gate_close(void) {
    const struct timespec pause = {0, 100000};
    for (int i = 0; i < 500; i++) {
        int open = GATE_OPEN;
        if (atomic_compare_exchange_strong(&gate, &open, GATE_FORK))
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

int ct_loader_gate_is_busy(void) {
    return atomic_load(&gate) > GATE_OPEN;
}

void ct_loader_gate_open(void) {
    int fork = GATE_FORK;
    (void)atomic_compare_exchange_strong(&gate, &fork, GATE_OPEN);
}

// ---- looking --------------------------------------------------------------------------------

static void read_build_id(struct ct_module *m, const char *at, size_t bytes) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        const size_t name = (note.n_namesz + 3u) & ~(size_t)3,
                     value = (note.n_descsz + 3u) & ~(size_t)3;
        if (name > bytes - sizeof note || value > bytes - sizeof note - name)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            !memcmp(at + sizeof note, "GNU", 4) && note.n_descsz <= CT_BUILD_ID_MAX) {
            memcpy(m->build_id, at + sizeof note + name, note.n_descsz);
            m->build_id_bytes = note.n_descsz;
            return;
        }
        at += sizeof note + name + value;
        bytes -= sizeof note + name + value;
    }
}

static const char *path_of(const char *name, int first) {
    static char exe[4096]; // one thread looks at a time
    if (*name || !first)
        return ct_arena_copy_text(&texts, name, strnlen(name, sizeof exe));
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe);
    return ct_arena_copy_text(&texts, exe, n > 0 ? (size_t)n : 0);
}

static const struct ct_module *known(uint64_t base, const char *name) {
    for (size_t i = 0; i < sorted_n; i++)
        if (sorted[i]->base == base && (!*name || !strcmp(sorted[i]->path, name)))
            return sorted[i];
    return NULL;
}

static void (*_Atomic on_unload)(void);

void ct_loaded_modules_on_unload(void (*forget)(void)) {
    atomic_store(&on_unload, forget);
}

static void report_unload(void) {
    void (*forget)(void) = atomic_load(&on_unload);
    if (forget)
        forget();
}

static int look_at(struct dl_phdr_info *info, size_t size, void *first) {
    struct ct_module *m = &look.found[look.n];
    const int has_counts =
        size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs;
    if (*(int *)first && has_counts) {
        if (look.adds == info->dlpi_adds && look.subs == info->dlpi_subs && sorted_n)
            return 1; // nothing was loaded or unloaded
        if (look.subs != info->dlpi_subs)
            report_unload();
        look.adds = info->dlpi_adds;
        look.subs = info->dlpi_subs;
    }
    memset(m, 0, sizeof *m);
    m->base = info->dlpi_addr;
    m->start = UINT64_MAX;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uint64_t start = m->base + p->p_vaddr;
        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            m->start = start < m->start ? start : m->start;
            m->end = start + p->p_memsz > m->end ? start + p->p_memsz : m->end;
        } else if (p->p_type == PT_NOTE && !m->build_id_bytes) {
            read_build_id(m, (const char *)start, p->p_memsz);
        }
    }
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    const struct ct_module *before = known(m->base, name);
    m->path = before ? before->path : path_of(name, *(int *)first);
    *(int *)first = 0;
    if (m->path && m->start < m->end && look.n < MODULES_MAX - 1)
        look.n++;
    return 0;
}

int ct_loaded_modules_scan(void) {
    int first = 1;
    if (!look.found && !(look.found = ct_pages_map(MODULES_MAX * sizeof *look.found)))
        return -ENOMEM;
    if (ct_loader_gate_enter())
        return -EBUSY;
    look.n = 0;
    const int unchanged = dl_iterate_phdr(look_at, &first);
    ct_loader_gate_leave();
    look.fresh = !unchanged && look.n > 0;
    return look.fresh;
}

// ---- merging --------------------------------------------------------------------------------

static int same(const struct ct_module *a, const struct ct_module *b) {
    return a->base == b->base && a->start == b->start && a->end == b->end &&
           !strcmp(a->path, b->path) && a->build_id_bytes == b->build_id_bytes &&
           !memcmp(a->build_id, b->build_id, a->build_id_bytes);
}

static size_t place_of(uint64_t address) {
    size_t low = 0, high = sorted_n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (sorted[middle]->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low; // of the first that starts behind the address
}

// Puts a module in its place; what overlapped it is gone. Returns whether there was something.
static int insert(struct ct_module *m) {
    size_t at = place_of(m->start), from = at, to = at;
    while (from > 0 && sorted[from - 1]->end > m->start)
        from--;
    while (to < sorted_n && sorted[to]->start < m->end)
        to++;
    memmove(&sorted[from + 1], &sorted[to], (sorted_n - to) * sizeof *sorted);
    sorted[from] = m;
    sorted_n = sorted_n - (to - from) + 1;
    return to != from;
}

static int tables(void) {
    if (!modules)
        modules = ct_pages_map(MODULES_MAX * sizeof *modules);
    if (!sorted)
        sorted = ct_pages_map((MODULES_MAX + 1) * sizeof *sorted);
    return modules && sorted ? 0 : -ENOMEM;
}

int ct_loaded_modules_merge(void) {
    static struct ct_arena kept = {.bytes = MODULES_MAX * (sizeof(struct ct_module) + 8)};
    int moved = 0;
    if (!look.fresh || tables())
        return 0;
    look.fresh = 0;
    for (size_t i = 0; i < look.n; i++) {
        const struct ct_module *found = &look.found[i];
        struct ct_module *there = ct_loaded_modules_find(found->start);
        if (there && same(there, found))
            continue;
        struct ct_module *m = modules_n < MODULES_MAX ? ct_arena_alloc(&kept, sizeof *m) : NULL;
        if (!m)
            break;
        *m = *found;
        modules[modules_n++] = m;
        ct_journal_module(m->base, m->start, m->end, m->path, m->build_id, m->build_id_bytes);
        moved |= insert(m);
    }
    return moved;
}

struct ct_module *ct_loaded_modules_find(uint64_t address) {
    const size_t at = place_of(address);
    return at && address < sorted[at - 1]->end ? sorted[at - 1] : NULL;
}

struct ct_module *ct_loaded_modules_get(size_t n) {
    return n < modules_n ? modules[n] : NULL;
}

void ct_loaded_modules_reinit_child(void) {
    // The child's objects are the parent's, but a table may be half changed. Its memory is left
    // alone.
    atomic_store(&gate, GATE_OPEN);
    look.found = NULL;
    look.n = 0;
    look.fresh = 0;
    look.adds = look.subs = 0;
    modules = sorted = NULL;
    modules_n = sorted_n = 0;
}
