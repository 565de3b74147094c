// SPDX-License-Identifier: Apache-2.0
// Finds the real report functions of libc10 in the list of loaded objects. RTLD_NEXT does not reach
// them, because Python opens libtorch with RTLD_LOCAL.
#define _GNU_SOURCE
#include "intercept/torch.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cutrace/format/assert.h>

#include "base/loader_gate.h"
#include "base/read_file.h"
#include "base/real_dlsym.h"
#include "intercept/own_image.h"
#include "record/rescan.h"
#include "write/info_table.h"
#include "write/package_versions.h"

// ---- locks ----------------------------------------------------------------------------------
// A thread that reports holds the mutex of PyTorch's allocator. Another thread that runs a
// constructor inside dlopen holds the loader's lock, and may wait for that mutex. Therefore:
//
// 1. A report of GPU memory never takes the loader's lock, which dlopen, dlsym and dladdr take.
// 2. A report may call dl_iterate_phdr. It takes another lock, which the loader holds only while it
//    changes the list of objects (glibc: elf/dl-iteratephdr.c, comment at dl_load_write_lock); no
//    constructor runs meanwhile.
// 3. An object that dl_iterate_phdr finds may be closed before the next report. Only copies that
//    this library keeps open are remembered.
// 4. ct_libc10_rescan opens the copies, where the recorder starts and in the writer thread. Until
//    then each report searches the list, which takes microseconds, and requests a rescan.
// 5. A report of CPU memory comes without the mutex, so it may rescan.

#define COPIES 8
#define CALLERS 64
#define PATH_BYTES 1024

static const char *const symbols[CT_TORCH_HOOKS] = {
#define CT_TORCH(symbol, params, args, effect) #symbol,
#include "intercept/torch_hooks.def"
};

struct copy {
    void *real[CT_TORCH_HOOKS];
    char path[PATH_BYTES]; // "": the program itself
};

// The copies that are kept open. An entry is complete before it is counted, and never changes.
static struct copy copies[COPIES];
static atomic_uint copies_n;

// The address ranges that reports came from, and the copy that each goes on to; the newest one
// last.
static struct caller {
    uintptr_t start, end;
    unsigned copy;
} callers[CALLERS];
static atomic_uint callers_n;

// The functions of an interposer behind this library; they come before every copy.
static _Atomic(void *) next_of[CT_TORCH_HOOKS];

static atomic_uint not_forwarded;

// Of the tables above.
static struct ct_loaded_tables tables;

static size_t folder_bytes(const char *path) {
    return (size_t)(ct_base_name(path) - path);
}

static int is_same_folder(const char *a, const char *b) {
    return folder_bytes(a) == folder_bytes(b) && !strncmp(a, b, folder_bytes(a));
}

// ---- rescan ---------------------------------------------------------------------------------

// Of the thread that holds `tables.changing`.
static struct copy found[COPIES];
static unsigned found_n;

static int is_known(const char *path) {
    for (unsigned i = 0; i < atomic_load(&copies_n); i++)
        if (!strcmp(copies[i].path, path))
            return 1;
    return 0;
}

static int read_functions(struct dl_phdr_info *info, struct copy *c) {
    int any = 0;
    for (int i = 0; i < CT_TORCH_HOOKS; i++) {
        uint64_t bytes;
        void *p = ct_real_dlsym_find_in_object(info, symbols[i], &bytes);
        c->real[i] = p && !ct_own_image_has(p) ? p : NULL;
        any |= c->real[i] != NULL;
    }
    return any;
}

static int visit_copy(struct dl_phdr_info *info, size_t size, void *first) {
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    const int is_program = *(int *)first;
    (void)size;
    *(int *)first = 0;
    if (strlen(path) >= PATH_BYTES)
        return 0;
    struct copy *c = &found[found_n];
    if (found_n < COPIES && (*path || is_program) && read_functions(info, c)) {
        memcpy(c->path, path, strlen(path) + 1);
        found_n++;
    }
    return 0;
}

// The object may have been closed since it was found, and another one opened from the same path.
static int keep_open(const struct copy *c) {
    void *handle = *c->path ? dlopen(c->path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    for (int i = 0; i < CT_TORCH_HOOKS && handle; i++)
        if (c->real[i] && ct_real_dlsym_get_libc()(handle, symbols[i]) == c->real[i])
            return 1;
    return !*c->path;
}

static void add_copies(void) {
    int first = 1;
    CT_ASSERT(ct_loader_gate_is_busy() && atomic_load(&tables.changing));
    found_n = 0;
    dl_iterate_phdr(visit_copy, &first);
    for (unsigned i = 0; i < found_n; i++) {
        const unsigned n = atomic_load(&copies_n);
        if (n == COPIES || is_known(found[i].path) || !keep_open(&found[i]))
            continue;
        copies[n] = found[i];
        atomic_store_explicit(&copies_n, n + 1, memory_order_release);
    }
    for (int i = 0; i < CT_TORCH_HOOKS && atomic_load(&copies_n); i++) {
        void *p = ct_own_image_look_beyond(RTLD_NEXT, symbols[i]);
        if (p)
            atomic_store(&next_of[i], p);
    }
}

void ct_libc10_rescan(void) {
    ct_rescan_tables(&tables, add_copies);
}

// ---- the search of a report -----------------------------------------------------------------

struct search {
    const char *symbol;
    uintptr_t caller;
    // The object that the caller lies in, and the segment of it.
    const char *caller_path;
    uintptr_t start, end;
    // The function in the caller's folder, where PyTorch's libraries lie together, and the first
    // one that was found.
    void *beside, *any;
};

static int visit_caller(struct dl_phdr_info *info, size_t size, void *user) {
    struct search *s = user;
    const ElfW(Phdr) *const p = ct_real_dlsym_find_segment(info, s->caller);
    (void)size;
    if (!p)
        return 0;
    // The path stays valid: the report returns into this object.
    s->caller_path = info->dlpi_name;
    s->start = info->dlpi_addr + p->p_vaddr;
    s->end = s->start + p->p_memsz;
    return s->caller_path != NULL;
}

static int visit_real(struct dl_phdr_info *info, size_t size, void *user) {
    struct search *s = user;
    uint64_t bytes;
    void *p = ct_real_dlsym_find_in_object(info, s->symbol, &bytes);
    (void)size;
    if (!p || ct_own_image_has(p))
        return 0;
    if (!s->any)
        s->any = p;
    if (s->caller_path && info->dlpi_name && is_same_folder(s->caller_path, info->dlpi_name))
        s->beside = p;
    return s->beside != NULL;
}

// Later reports of the caller go on to the same copy without a search, if the copy is kept open.
static void remember_caller(const struct search *s, enum ct_torch_id id, const void *real) {
    const unsigned copies_now = atomic_load(&copies_n);
    unsigned copy = 0;
    CT_ASSERT(ct_loader_gate_is_busy());
    while (copy < copies_now && copies[copy].real[id] != real)
        copy++;
    if (copy == copies_now) {
        ct_rescan_request();
    } else if (!atomic_exchange(&tables.changing, 1)) {
        const unsigned n = atomic_load(&callers_n);
        if (n < CALLERS) {
            callers[n] = (struct caller){s->start, s->end, copy};
            atomic_store_explicit(&callers_n, n + 1, memory_order_release);
        }
        atomic_store(&tables.changing, 0);
    }
}

static __attribute__((noinline)) void *search_real(enum ct_torch_id id,
                                                   struct ct_torch_device device,
                                                   const void *caller) {
    struct search s = {.symbol = symbols[id], .caller = (uintptr_t)caller};
    void *real = NULL;
    const int saved = errno;
    if (device.type != CT_TORCH_CUDA)
        ct_libc10_rescan();
    // Where a fork is being prepared, the report goes nowhere.
    if (!ct_loader_gate_enter()) {
        dl_iterate_phdr(visit_caller, &s);
        dl_iterate_phdr(visit_real, &s);
        real = s.beside ? s.beside : s.any;
        if (real && s.caller_path)
            remember_caller(&s, id, real);
        ct_loader_gate_leave();
    }
    if (!real)
        atomic_fetch_add_explicit(&not_forwarded, 1, memory_order_relaxed);
    errno = saved;
    return real;
}

void *ct_libc10_next(enum ct_torch_id id, struct ct_torch_device device, const void *caller) {
    void *real = atomic_load_explicit(&next_of[id], memory_order_relaxed);
    unsigned i = atomic_load_explicit(&callers_n, memory_order_acquire);
    while (!real && i-- > 0)
        if ((uintptr_t)caller - callers[i].start < callers[i].end - callers[i].start)
            real = copies[callers[i].copy].real[id];
    return __builtin_expect(real != NULL, 1) ? real : search_real(id, device, caller);
}

static int visit_oom_report(struct dl_phdr_info *info, size_t size, void *any) {
    static const enum ct_torch_id reports[] = {
        CT_TORCH_ID__ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE,
        CT_TORCH_ID__ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE};
    (void)size;
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        uint64_t bytes;
        const void *p = ct_real_dlsym_find_in_object(info, symbols[reports[i]], &bytes);
        *(int *)any |= p && !ct_own_image_has(p);
    }
    return *(int *)any;
}

// The copies may not be known yet: a first allocation that fails comes before any report.
int ct_libc10_reports_oom(void) {
    static atomic_int known;
    int any = 0;
    if (atomic_load(&known) || ct_loader_gate_enter())
        return atomic_load(&known);
    dl_iterate_phdr(visit_oom_report, &any);
    ct_loader_gate_leave();
    if (any)
        atomic_store(&known, 1);
    return any;
}

// ---- INFO -----------------------------------------------------------------------------------

// Reads '2.5.1+cu124' from `__version__ = '2.5.1+cu124'` in torch/version.py. The library lies in
// torch/lib.
int ct_libc10_read_version(const char *library, char *version, size_t size) {
    static const char assignment[] = "__version__ = ";
    char path[PATH_BYTES + 16], text[2048];
    size_t folder = folder_bytes(library);
    while (folder && library[folder - 1] == '/')
        folder--;
    while (folder && library[folder - 1] != '/')
        folder--;
    snprintf(path, sizeof path, "%.*sversion.py", (int)folder, library);
    text[folder ? ct_read_file(path, text, sizeof text - 1) : 0] = 0;
    const char *value = strstr(text, assignment);
    if (!value)
        return 0;
    value += strlen(assignment);
    if (*value != '\'' && *value != '"')
        return 0;
    const size_t length = strcspn(value + 1, "'\"\n");
    if (!length || length >= size)
        return 0;
    snprintf(version, size, "%.*s", (int)length, value + 1);
    return 1;
}

void ct_libc10_publish_info(void) {
    static unsigned published;
    char version[64];
    const unsigned n = atomic_load_explicit(&copies_n, memory_order_acquire);
    const unsigned missed = atomic_load_explicit(&not_forwarded, memory_order_relaxed);
    if (n)
        ct_info_set("torch.block_streams", "current");
    CT_ASSERT(published <= n);
    for (; published < n; published++)
        if (ct_libc10_read_version(copies[published].path, version, sizeof version))
            ct_package_versions_publish("torch.version", version);
    if (missed)
        ct_info_set("torch.not_forwarded", "%u", missed);
}
