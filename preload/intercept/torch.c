// SPDX-License-Identifier: Apache-2.0
// Inside PyTorch: what its allocator tells its profiler of every block is recorded, and told to the profiler all the same.
//
// libc10_cuda calls these functions of libc10 at the end of every allocation and of every free, whether or not a profiler
// runs, and for a request that it refuses (CUDACachingAllocator.cpp: alloc_found_block, free, malloc). All are called
// under the allocator's mutex of the device, mostly without the GIL. So nothing here waits for anybody: no lock, no system
// call and no memory of the host's. The mutex also puts the reports of a device in order: a block is given back
// in a report that ends before its address can be handed out again, so that the events' times, which are taken in
// the reports, are in that order as well (ring.c tells why times of different threads can be compared).
//
// Where a report goes on to. The real functions are out of reach of RTLD_NEXT: Python opens libtorch with RTLD_LOCAL. They
// have to be looked for among the loaded objects. A thread that runs a constructor inside dlopen holds the loader's lock,
// and may wait for the allocator's mutex, which the thread in the report holds: so a report must never wait for that
// lock, which dlopen, dlsym and dladdr take. dl_iterate_phdr does not: it takes another one, which the loader holds only while
// it changes the list of objects (glibc, elf/dl-iteratephdr.c and the comment at dl_load_write_lock), and no constructor
// runs meanwhile. So a report may look through the list, but that takes microseconds, and what it finds may be gone
// at the next report. Therefore libc10 is looked for and kept open beforehand, where the recorder starts and by the writer
// thread, and a report looks for itself only until that is done, each time anew, and asks for it. (Reports of
// memory of the CPU come without the mutex: they may see to it themselves.)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cutrace/format/hot.h>

#include "base/loader_gate.h"
#include "base/options.h"
#include "base/real_dlsym.h"
#include "intercept/hooks.h"
#include "record/rescan.h"

// ---- copies of libc10 -----------------------------------------------------------------------

#define COPIES 8
#define CALLERS 64
#define PATH_BYTES 1024

static const char *const symbols[CT_TORCH_HOOKS] = {
#define CT_TORCH(symbol, params, args, effect) #symbol,
#include "intercept/hooks.def"
};

struct copy {
    void *real[CT_TORCH_HOOKS];
    char path[PATH_BYTES]; // "": the program itself
};

static struct copy copies[COPIES];
static atomic_uint copies_n; // those are complete, and stay as they are
// Objects that have called, and the copy that each of them needs; the newest one last.
static struct caller {
    uintptr_t start, end;
    unsigned copy;
} callers[CALLERS];
static atomic_uint callers_n;
// What an interposer behind us has; it comes before every copy.
static _Atomic(void *) next_of[CT_TORCH_HOOKS];
static atomic_uint not_forwarded;

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static size_t folder_bytes(const char *path) {
    return (size_t)(base_name(path) - path);
}

static int same_folder(const char *a, const char *b) {
    return folder_bytes(a) == folder_bytes(b) && !strncmp(a, b, folder_bytes(a));
}

// ---- looking for them -----------------------------------------------------------------------

static struct copy found[COPIES]; // of the thread that looks
static unsigned found_n;
static atomic_int
    looking; // only between ct_loader_gate_enter and leave, so that a fork does not copy it
static _Atomic uint64_t seen; // objects that were ever loaded, at the last look

static int is_known(const char *path) {
    for (unsigned i = 0; i < atomic_load(&copies_n); i++)
        if (!strcmp(copies[i].path, path))
            return 1;
    return 0;
}

static int define_of(struct dl_phdr_info *info, struct copy *c) {
    int any = 0;
    for (int i = 0; i < CT_TORCH_HOOKS; i++) {
        uint64_t bytes;
        void *p = ct_real_dlsym_find_in_object(info, symbols[i], &bytes);
        c->real[i] = p && !ct_is_own(p) ? p : NULL;
        any |= c->real[i] != NULL;
    }
    return any;
}

static int visit(struct dl_phdr_info *info, size_t size, void *first) {
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    const int is_program = *(int *)first;
    (void)size;
    *(int *)first = 0;
    if (strlen(path) >= PATH_BYTES)
        return 0;
    struct copy *c = &found[found_n];
    if (found_n < COPIES && (*path || is_program) && define_of(info, c)) {
        memcpy(c->path, path, strlen(path) + 1);
        found_n++;
    }
    return 0;
}

// Keeps the object open; it may have been closed since it was seen.
static int keep(const struct copy *c) {
    void *handle = *c->path ? dlopen(c->path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    for (int i = 0; i < CT_TORCH_HOOKS && handle; i++)
        if (c->real[i] && ct_real_dlsym_get_libc()(handle, symbols[i]) == c->real[i])
            return 1;
    return !*c->path;
}

static void search(void) {
    int first = 1;
    found_n = 0;
    dl_iterate_phdr(visit, &first);
    for (unsigned i = 0; i < found_n; i++) {
        const unsigned n = atomic_load(&copies_n);
        if (n == COPIES || is_known(found[i].path) || !keep(&found[i]))
            continue;
        copies[n] = found[i];
        atomic_store_explicit(&copies_n, n + 1, memory_order_release);
    }
    for (int i = 0; i < CT_TORCH_HOOKS && atomic_load(&copies_n); i++) {
        void *p = ct_real_dlsym_get_libc()(RTLD_NEXT, symbols[i]);
        if (p && !ct_is_own(p))
            atomic_store(&next_of[i], p);
    }
}

static int count_loaded(struct dl_phdr_info *info, size_t size, void *loaded) {
    (void)size;
    *(uint64_t *)loaded = info->dlpi_adds;
    return 1;
}

static void look_for_c10(void) {
    const int saved = errno;
    uint64_t loaded = 0;
    if (!ct_loader_gate_enter()) {
        (void)dl_iterate_phdr(count_loaded, &loaded);
        if (atomic_load(&seen) != loaded && !atomic_exchange(&looking, 1)) {
            search();
            atomic_store(&seen, loaded);
            atomic_store(&looking, 0);
        }
        ct_loader_gate_leave();
    }
    errno = saved;
}

// ---- looking for one, in a report -----------------------------------------------------------

struct quest {
    const char *symbol, *path; // path: of the object that calls
    uintptr_t caller;
    uintptr_t start, end; // of that object
    void *beside, *any;   // what lies in the same folder, as PyTorch's libraries do; what there is
};

static int visit_caller(struct dl_phdr_info *info, size_t size, void *quest) {
    struct quest *q = quest;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && !q->path; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || q->caller - start >= p->p_memsz)
            continue;
        q->path = info->dlpi_name; // stays, because we return there
        q->start = start;
        q->end = start + p->p_memsz;
    }
    return q->path != NULL;
}

static int visit_real(struct dl_phdr_info *info, size_t size, void *quest) {
    struct quest *q = quest;
    uint64_t bytes;
    void *p = ct_real_dlsym_find_in_object(info, q->symbol, &bytes);
    (void)size;
    if (!p || ct_is_own(p))
        return 0;
    if (!q->any)
        q->any = p;
    if (q->path && info->dlpi_name && same_folder(q->path, info->dlpi_name))
        q->beside = p;
    return q->beside != NULL;
}

// The caller goes that way from now on, if that is a copy that stays.
static void add_caller(const struct quest *q, enum ct_torch_id id, const void *real) {
    const unsigned copies_now = atomic_load(&copies_n);
    unsigned copy = 0;
    while (copy < copies_now && copies[copy].real[id] != real)
        copy++;
    if (copy == copies_now) {
        ct_rescan_request();
    } else if (!atomic_exchange(&looking, 1)) {
        const unsigned n = atomic_load(&callers_n);
        if (n < CALLERS) {
            callers[n] = (struct caller){q->start, q->end, copy};
            atomic_store_explicit(&callers_n, n + 1, memory_order_release);
        }
        atomic_store(&looking, 0);
    }
}

static __attribute__((noinline)) void *find_now(enum ct_torch_id id, struct ct_torch_device device,
                                                const void *caller) {
    struct quest q = {.symbol = symbols[id], .caller = (uintptr_t)caller};
    const int saved = errno;
    if (device.type != CT_TORCH_CUDA)
        look_for_c10();
    if (!ct_loader_gate_enter()) { // else a fork is being prepared
        dl_iterate_phdr(visit_caller, &q);
        dl_iterate_phdr(visit_real, &q);
        void *real = q.beside ? q.beside : q.any;
        q.any = real;
        if (real && q.path)
            add_caller(&q, id, real);
        ct_loader_gate_leave();
    }
    if (!q.any)
        atomic_fetch_add_explicit(&not_forwarded, 1, memory_order_relaxed);
    errno = saved;
    return q.any;
}

// ---- going on -------------------------------------------------------------------------------

static inline void *real_of(enum ct_torch_id id, struct ct_torch_device device,
                            const void *caller) {
    void *real = atomic_load_explicit(&next_of[id], memory_order_relaxed);
    unsigned i = atomic_load_explicit(&callers_n, memory_order_acquire);
    while (!real && i-- > 0)
        if ((uintptr_t)caller - callers[i].start < callers[i].end - callers[i].start)
            real = copies[callers[i].copy].real[id];
    return __builtin_expect(real != NULL, 1) ? real : find_now(id, device, caller);
}

// ---- recording ------------------------------------------------------------------------------

struct totals {
    uint64_t allocated, reserved;
};

static void set_common(struct ct_event *e, struct ct_torch_device device,
                       const struct totals *totals) {
    if (device.index >= 0)
        CT_SET(e, device, (int32_t)device.index);
    if (totals) {
        CT_SET(e, allocated_bytes, totals->allocated);
        CT_SET(e, reserved_bytes, totals->reserved);
    }
}

// `bytes` are negative of a block that is given back. Every block is recorded, whatever CUTRACE_SAMPLE and CUTRACE_MIN_SIZE
// say: blocks tile their segment, and with some of them missing nothing could be said of the rest.
CT_WHOLE static __attribute__((noinline)) void on_block(const void *ptr, int64_t bytes,
                                                        struct ct_torch_device device,
                                                        const struct totals *totals) {
    struct ct_event e;
    if (device.type != CT_TORCH_CUDA || !bytes || !ct_tracing_is_on())
        return;
    const int saved = errno;
    ct_event_init(&e);
    CT_SET(&e, op, bytes > 0 ? CT_OP_BLOCK_ALLOC : CT_OP_BLOCK_FREE);
    CT_SET(&e, ptr, (uintptr_t)ptr);
    CT_SET(&e, bytes, bytes > 0 ? (uint64_t)bytes : 0 - (uint64_t)bytes);
    set_common(&e, device, totals);
    if (bytes > 0 || CT_OPTION_NUMBER(FREE_STACKS))
        CT_SET(&e, stack, ct_capture_python_stack());
    ct_publish(&e);
    errno = saved;
}

// PyTorch refuses, for the driver's sake or for a limit of its own.
static void on_out_of_memory(int64_t bytes, struct ct_torch_device device,
                             const struct totals *totals) {
    struct ct_event e;
    if (device.type != CT_TORCH_CUDA || !ct_tracing_is_on())
        return;
    const int saved = errno;
    ct_event_init(&e);
    CT_SET(&e, op, CT_OP_BLOCK_OOM);
    CT_SET(&e, bytes, (uint64_t)bytes);
    set_common(&e, device, totals);
    CT_SET(&e, stack, ct_capture_stack());
    ct_publish(&e);
    errno = saved;
}

// ---- streams --------------------------------------------------------------------------------

CUresult ct_on_cuStreamCreate(ct_fn_cuStreamCreate *real, CUstream *phStream, unsigned int Flags) {
    return real(phStream, Flags);
}

CUresult ct_on_cuStreamCreateWithPriority(ct_fn_cuStreamCreateWithPriority *real,
                                          CUstream *phStream, unsigned int flags, int priority) {
    return real(phStream, flags, priority);
}

// ---- the exported functions -----------------------------------------------------------------

#define CT_TORCH_BLOCK(ptr, bytes, device) on_block(ptr, bytes, device, NULL)
#define CT_TORCH_BLOCK_TOTALS(ptr, bytes, allocated, reserved, device) \
    on_block(ptr, bytes, device, &(struct totals){(uint64_t)(allocated), (uint64_t)(reserved)})
#define CT_TORCH_OOM(bytes, allocated, reserved, device) \
    on_out_of_memory(bytes, device, &(struct totals){(uint64_t)(allocated), (uint64_t)(reserved)})

#define CT_TORCH(symbol, params, args, effect)                                                    \
    __attribute__((visibility("default"))) void symbol params {                                   \
        effect;                                                                                   \
        ct_fn_##symbol *real =                                                                    \
            (ct_fn_##symbol *)real_of(CT_TORCH_ID_##symbol, device, __builtin_return_address(0)); \
        if (real)                                                                                 \
            real args;                                                                            \
    }
#include "intercept/hooks.def"

// ---- INFO -----------------------------------------------------------------------------------

// The text of `__version__ = '2.5.1+cu124'` in torch/version.py, beside the folder that libc10 lies in. 0: there is none.
static int read_version(const char *c10, char *version, size_t size) {
    char path[PATH_BYTES + 16], text[2048];
    size_t folder = folder_bytes(c10);
    while (folder && c10[folder - 1] == '/')
        folder--;
    while (folder && c10[folder - 1] != '/')
        folder--;
    snprintf(path, sizeof path, "%.*sversion.py", (int)folder, c10);
    const int fd = folder ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strstr(text, "__version__ = ");
    at = at ? at + strlen("__version__ = ") : "";
    const size_t length = *at == '\'' || *at == '"' ? strcspn(at + 1, "'\"\n") : 0;
    if (length && length < size)
        snprintf(version, size, "%.*s", (int)length, at + 1);
    return length && length < size;
}

void ct_torch_publish_info(void) {
    static unsigned told; // copies whose version is known
    char version[64];
    const unsigned n = atomic_load_explicit(&copies_n, memory_order_acquire),
                   missed = atomic_load_explicit(&not_forwarded, memory_order_relaxed);
    for (; told < n; told++)
        if (read_version(copies[told].path, version, sizeof version))
            ct_info_set("torch.version", "%s", version);
    if (missed)
        ct_info_set("torch.not_forwarded", "%u", missed);
}

__attribute__((constructor)) static void register_look(void) {
    ct_rescan_set(look_for_c10);
}
