// SPDX-License-Identifier: Apache-2.0
// Reads the calling thread's current stream from the memory of libc10_cuda, inside a report of a
// block. No function of PyTorch is called: c10::cuda::getCurrentCUDAStream would allocate host
// memory and take the loader's lock at a thread's first call, which a report must not (libc10.c,
// "locks"), and how it returns a CUDAStream is PyTorch's business.
//
// CUDAStream.cpp has `thread_local std::unique_ptr<StreamId[]> current_streams`: of each device the
// thread's current stream, as an int64_t. A thread's first call makes the array; until then the
// pointer is NULL, and the stream is not known.
//
// What is verified, by the writer thread, before anything is read:
// - The version of PyTorch beside the library is one whose source has that array (MINOR_MOST).
// - .symtab of the file has the variable, thread-local, with the size of a pointer, and inside the
//   thread-local memory of the loaded object. (PyTorch's wheels keep .symtab.)
// - The file is the loaded one: its getCurrentCUDAStream lies where the object has it.
// Else streams are not known, and no memory is read. What remains assumed:
// - A PyTorch of a known version that somebody has changed still has such an array. (Each version
//   that tests/torch/allocator runs is compared with the streams of the segments.)
// - The array has an element for each device that the allocator reports. PyTorch makes it for all.
// - A thread has its array until it ends. PyTorch's own reads, later destructors of the thread
//   among them, assume the same.
#define _GNU_SOURCE
#include "intercept/torch.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/format.h>

#include "base/loader_gate.h"
#include "base/real_dlsym.h"
#include "record/rescan.h"
#include "store/elf_symbols.h"

#define SOURCES 8
#define PATH_BYTES 1024
#define MOST_REQUESTS 16 // of a rescan
#define TRIES 16         // in a row; later ones at powers of two

// PyTorch 2.0 to 2.15. A later version is added once its source was read and the tests ran with it.
#define MINOR_MOST 15

#define FUNCTION "_ZN3c104cuda20getCurrentCUDAStreamEa"

#define NO_PLACE UINT64_MAX

// Objects that define the function and are kept open. An entry is complete before it is counted,
// and never changes.
struct source {
    char path[PATH_BYTES];
    uintptr_t start, end;     // the segment that the function lies in
    uintptr_t function, base; // its address, and that of the object
    uint64_t local_bytes;     // thread-local memory of the object
    uint64_t array_at;        // where in it the pointer to the array is, or NO_PLACE
};
static struct source sources[SOURCES];
static atomic_uint sources_n;

// ---- rescan ---------------------------------------------------------------------------------

static struct ct_loaded_tables tables;
// Of the thread that holds `tables.changing`.
static struct source found[SOURCES];
static unsigned found_n;

static int visit_object(struct dl_phdr_info *info, size_t size, void *user) {
    uint64_t bytes;
    const char *path = info->dlpi_name ? info->dlpi_name : "";
    const uintptr_t p = (uintptr_t)ct_real_dlsym_find_in_object(info, FUNCTION, &bytes);
    (void)size;
    (void)user;
    if (!p || !*path || strlen(path) >= PATH_BYTES || found_n == SOURCES)
        return 0;
    struct source *s = &found[found_n++];
    *s = (struct source){.function = p, .base = info->dlpi_addr, .array_at = NO_PLACE};
    memcpy(s->path, path, strlen(path) + 1);
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            s->local_bytes = info->dlpi_phdr[i].p_memsz;
    const ElfW(Phdr) *const segment = ct_real_dlsym_find_segment(info, p);
    if (segment) {
        s->start = info->dlpi_addr + segment->p_vaddr;
        s->end = s->start + segment->p_memsz;
    }
    return 0;
}

static int is_known(const struct source *s) {
    for (unsigned i = 0; i < atomic_load(&sources_n); i++)
        if (!strcmp(sources[i].path, s->path))
            return 1;
    return 0;
}

// The object may have been closed since it was found, and another one opened from the same path.
static int keep_open(const struct source *s) {
    void *handle = dlopen(s->path, RTLD_NOLOAD | RTLD_LAZY);
    return handle && (uintptr_t)ct_real_dlsym_get_libc()(handle, FUNCTION) == s->function;
}

static int has_known_version(const struct source *s) {
    char version[64];
    unsigned minor = 0;
    if (!ct_libc10_read_version(s->path, version, sizeof version) || strncmp(version, "2.", 2) != 0)
        return 0;
    const char *at = version + 2;
    for (; *at >= '0' && *at <= '9' && minor <= MINOR_MOST; at++)
        minor = minor * 10 + (unsigned)(*at - '0');
    return at > version + 2 && *at == '.' && minor <= MINOR_MOST;
}

static uint64_t find_place(const struct source *s) {
    struct ct_elf_symbol wanted[] = {
        {.name = FUNCTION, .type = STT_FUNC},
        {.name = "_ZN3c104cuda12_GLOBAL__N_1L15current_streamsE", .type = STT_TLS},
        {.name = "_ZN3c104cuda12_GLOBAL__N_115current_streamsE", .type = STT_TLS},
    };
    if (!has_known_version(s) || ct_elf_symbols_look_up(s->path, wanted, 3) || !wanted[0].found ||
        wanted[0].value != s->function - s->base)
        return NO_PLACE;
    const struct ct_elf_symbol *array = wanted[1].found ? &wanted[1] : &wanted[2];
    if (!array->found || array->bytes != sizeof(void *) || array->value % sizeof(void *) ||
        s->local_bytes < sizeof(void *) || array->value > s->local_bytes - sizeof(void *))
        return NO_PLACE;
    return array->value;
}

static void add_sources(void) {
    CT_ASSERT(ct_loader_gate_is_busy() && atomic_load(&tables.changing));
    found_n = 0;
    dl_iterate_phdr(visit_object, NULL);
    for (unsigned i = 0; i < found_n; i++) {
        const unsigned n = atomic_load(&sources_n);
        if (n == SOURCES || is_known(&found[i]) || !keep_open(&found[i]))
            continue;
        found[i].array_at = find_place(&found[i]);
        sources[n] = found[i];
        atomic_store_explicit(&sources_n, n + 1, memory_order_release);
    }
}

void ct_torch_streams_rescan(void) {
    ct_rescan_tables(&tables, add_sources);
}

// ---- the read in a report -------------------------------------------------------------------

// Where this thread has the pointer to its array: in thread-local memory of the source, which stays
// in its place until the thread ends. NULL: not known.
static __thread struct {
    const struct source *source;
    const int64_t *const *array;
    unsigned tries;
} own;

static int visit_local(struct dl_phdr_info *info, size_t size, void *user) {
    const struct source *source = user;
    if (info->dlpi_addr != source->base || !info->dlpi_name ||
        strcmp(info->dlpi_name, source->path) != 0)
        return 0;
    if (size >= offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof info->dlpi_tls_data &&
        info->dlpi_tls_data) {
        own.source = source;
        own.array = (const int64_t *const *)((const char *)info->dlpi_tls_data + source->array_at);
    }
    return 1;
}

// dl_iterate_phdr tells the thread-local memory of the calling thread. It makes none: a thread that
// used none of libc10_cuda's yet has none.
static __attribute__((noinline)) void find_array(const struct source *source) {
    const int saved = errno;
    if (++own.tries > TRIES && (own.tries & (own.tries - 1)))
        return;
    if (!ct_loader_gate_enter()) {
        dl_iterate_phdr(visit_local, (void *)source);
        ct_loader_gate_leave();
    }
    if (own.source == source)
        own.tries = 0;
    errno = saved;
}

static __attribute__((noinline)) void request_rescan(void) {
    static atomic_uint requests;
    if (atomic_load_explicit(&requests, memory_order_relaxed) < MOST_REQUESTS) {
        atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed);
        ct_rescan_request();
    }
}

static const struct source *find_source(const void *caller) {
    for (unsigned i = atomic_load_explicit(&sources_n, memory_order_acquire); i-- > 0;)
        if ((uintptr_t)caller - sources[i].start < sources[i].end - sources[i].start)
            return &sources[i];
    request_rescan();
    return NULL;
}

uint64_t ct_torch_streams_current(struct ct_torch_device device, const void *caller) {
    const struct source *source = find_source(caller);
    if (!source || source->array_at == NO_PLACE || device.index < 0)
        return CT_STREAM_UNKNOWN;
    if (own.source != source)
        find_array(source);
    const int64_t *array = own.source == source ? *own.array : NULL;
    return array ? (uint64_t)array[device.index] : CT_STREAM_UNKNOWN;
}
