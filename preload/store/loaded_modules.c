// SPDX-License-Identifier: Apache-2.0
// The table of modules that the process has loaded. The scanning thread fills `scan`; the drainer
// merges it into `modules` (in the order of finding) and `sorted` (the modules that are loaded now,
// by address).
#define _GNU_SOURCE
#include "store/loaded_modules.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/loader_gate.h"
#include "base/pages.h"
#include "store/journal.h"

#define MODULES_MAX 8192u

static struct ct_arena texts = {.bytes = 4u << 20};

// What a scan found. The scanning thread writes it, then the drainer merges it.
static struct {
    struct ct_loaded_module *found; // MODULES_MAX of them
    size_t n;
    unsigned long long adds, subs; // the loader's counters at that time
    int is_new;                    // not merged yet
} scan;

static struct ct_loaded_module **modules; // MODULES_MAX, in the order of finding
static size_t modules_n;
static struct ct_loaded_module **sorted; // by start, without overlaps
static size_t sorted_n;

// ---- scanning -------------------------------------------------------------------------------

static void read_build_id(struct ct_loaded_module *m, const uint8_t *notes, size_t bytes) {
    size_t n;
    const uint8_t *const id = ct_elf_symbols_find_build_id(notes, bytes, &n);
    if (!id || n > CT_BUILD_ID_MAX)
        return;
    memcpy(m->build_id, id, n);
    m->build_id_bytes = (uint32_t)n;
}

static const char *copy_path(const char *name, int first) {
    static char exe[4096]; // one thread scans at a time
    if (*name || !first)
        return ct_arena_copy_text(&texts, name, strnlen(name, sizeof exe));
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe);
    return ct_arena_copy_text(&texts, exe, n > 0 ? (size_t)n : 0);
}

static const struct ct_loaded_module *find_known(uint64_t base, const char *name) {
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

// Returns 1, which ends the scan, if no object was loaded or unloaded since the last one.
static int scan_object(struct dl_phdr_info *info, size_t size, void *first) {
    struct ct_loaded_module *m = &scan.found[scan.n];
    const int has_counts =
        size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs;
    if (*(int *)first && has_counts) {
        if (scan.adds == info->dlpi_adds && scan.subs == info->dlpi_subs && sorted_n)
            return 1;
        if (scan.subs != info->dlpi_subs)
            report_unload();
        scan.adds = info->dlpi_adds;
        scan.subs = info->dlpi_subs;
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
            read_build_id(m, (const uint8_t *)start, p->p_memsz);
        }
    }
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    const struct ct_loaded_module *before = find_known(m->base, name);
    m->path = before ? before->path : copy_path(name, *(int *)first);
    *(int *)first = 0;
    if (m->path && m->start < m->end && scan.n < MODULES_MAX - 1)
        scan.n++;
    return 0;
}

static int read_load_counter(struct dl_phdr_info *info, size_t size, void *loads) {
    (void)size;
    *(uint64_t *)loads = info->dlpi_adds;
    return 1;
}

uint64_t ct_loaded_modules_count_loads(void) {
    uint64_t loads = 0;
    (void)dl_iterate_phdr(read_load_counter, &loads);
    return loads;
}

int ct_loaded_modules_scan(void) {
    int first = 1;
    if (!scan.found && !(scan.found = ct_pages_map(MODULES_MAX * sizeof *scan.found)))
        return -ENOMEM;
    if (ct_loader_gate_enter())
        return -EBUSY;
    const size_t before = scan.n;
    scan.n = 0;
    const int unchanged = dl_iterate_phdr(scan_object, &first);
    ct_loader_gate_leave();
    if (unchanged) // what the last scan found may still wait for the drain lock
        scan.n = before;
    else
        scan.is_new = scan.n > 0;
    return scan.is_new;
}

// ---- merging --------------------------------------------------------------------------------

static int modules_are_equal(const struct ct_loaded_module *a, const struct ct_loaded_module *b) {
    return a->base == b->base && a->start == b->start && a->end == b->end &&
           !strcmp(a->path, b->path) && a->build_id_bytes == b->build_id_bytes &&
           !memcmp(a->build_id, b->build_id, a->build_id_bytes);
}

// Index in `sorted` of the first module that starts after the address.
static size_t find_index(uint64_t address) {
    size_t low = 0, high = sorted_n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (sorted[middle]->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Puts a module into `sorted` and removes the modules that it overlaps, which were unloaded.
// Returns whether there were any.
static int insert_sorted(struct ct_loaded_module *m) {
    size_t at = find_index(m->start), from = at, to = at;
    while (from > 0 && sorted[from - 1]->end > m->start)
        from--;
    while (to < sorted_n && sorted[to]->start < m->end)
        to++;
    memmove(&sorted[from + 1], &sorted[to], (sorted_n - to) * sizeof *sorted);
    sorted[from] = m;
    sorted_n = sorted_n - (to - from) + 1;
    return to != from;
}

static int make_tables(void) {
    if (!modules)
        modules = ct_pages_map(MODULES_MAX * sizeof *modules);
    if (!sorted)
        sorted = ct_pages_map((MODULES_MAX + 1) * sizeof *sorted);
    return modules && sorted ? 0 : -ENOMEM;
}

int ct_loaded_modules_merge(void) {
    static struct ct_arena copies = {.bytes = MODULES_MAX * (sizeof(struct ct_loaded_module) + 8)};
    int moved = 0;
    if (!scan.is_new || make_tables())
        return 0;
    scan.is_new = 0;
    for (size_t i = 0; i < scan.n; i++) {
        const struct ct_loaded_module *found = &scan.found[i];
        struct ct_loaded_module *there = ct_loaded_modules_find(found->start);
        if (there && modules_are_equal(there, found))
            continue;
        struct ct_loaded_module *m =
            modules_n < MODULES_MAX ? ct_arena_alloc(&copies, sizeof *m) : NULL;
        if (!m)
            break;
        *m = *found;
        modules[modules_n++] = m;
        ct_journal_add_module(m->base, m->start, m->end, m->path, m->build_id, m->build_id_bytes);
        moved |= insert_sorted(m);
    }
    return moved;
}

struct ct_loaded_module *ct_loaded_modules_find(uint64_t address) {
    const size_t at = find_index(address);
    return at && address < sorted[at - 1]->end ? sorted[at - 1] : NULL;
}

struct ct_loaded_module *ct_loaded_modules_get(size_t n) {
    return n < modules_n ? modules[n] : NULL;
}

void ct_loaded_modules_reinit_child(void) {
    // The tables are not unmapped: the parent's scan may have been cut in the midst.
    ct_loader_gate_reinit_child();
    scan.found = NULL;
    scan.n = 0;
    scan.is_new = 0;
    scan.adds = scan.subs = 0;
    modules = sorted = NULL;
    modules_n = sorted_n = 0;
}
