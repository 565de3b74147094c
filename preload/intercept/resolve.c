// SPDX-License-Identifier: Apache-2.0
// Which function a look-up gets: the real one, or our wrapper of the same ABI.
//
// The real resolver is always asked first, with the host's arguments; its answer is replaced only if it is a
// function that we have a wrapper of that very ABI for. Everything else passes, and is counted. See the
// failures behind each rule in HAMi-core#57, #233, #279, #326, lupine#570, vcuda-controller#32.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cutrace/format/hot.h>

#include "base/real_dlsym.h"
#include "intercept/driver.h"
#include "intercept/hooks.h"

#define DRIVER_SONAME "libcuda.so.1"

static _Atomic(void *) next_of[CT_HOOKS];     // behind the exported wrappers
static _Atomic(void *) resolved_of[CT_HOOKS]; // behind the handed-out entries
static _Atomic(void *) export_of[CT_HOOKS];   // what the driver exports under the row's symbol
static atomic_uint handed_out[CT_HOOKS];      // look-ups that got our entry
static atomic_int exports_known;
static atomic_int driver_version;

// ---- this library ---------------------------------------------------------------------------

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char ct_image_end[] __asm__("_end") __attribute__((visibility("hidden")));

int ct_is_own(const void *address) {
    const char *p = address;
    return p >= __ehdr_start && p < ct_image_end;
}

// ---- names without a hook -------------------------------------------------------------------

#define NAME_BYTES 56
#define NAMES 1024 // cudart asks for about 440

static struct unwrapped {
    atomic_int state; // 0 empty, 1 being filled, 2 valid
    int version;
    atomic_uint count;
    char name[NAME_BYTES];
} unwrapped[NAMES];

// Lock-free and without allocation: it runs inside dlsym.
static void count_unwrapped(const char *name, int version) {
    const size_t length = strnlen(name, NAME_BYTES);
    if (length == 0 || length == NAME_BYTES)
        return;
    unsigned h = (unsigned)version;
    for (size_t i = 0; i < length; i++)
        h = h * 31 + (unsigned char)name[i];
    for (unsigned i = 0; i < 64; i++) {
        struct unwrapped *u = &unwrapped[(h + i) % NAMES];
        int expected = 0;
        if (atomic_compare_exchange_strong(&u->state, &expected, 1)) {
            memcpy(u->name, name, length);
            u->version = version;
            atomic_store_explicit(&u->count, 1, memory_order_relaxed);
            atomic_store_explicit(&u->state, 2, memory_order_release);
            return;
        }
        if (expected == 2 && u->version == version && !strcmp(u->name, name)) {
            atomic_fetch_add_explicit(&u->count, 1, memory_order_relaxed);
            return;
        }
    }
}

// ---- the functions behind ours --------------------------------------------------------------

void *ct_real_dlsym_call(void *handle, const char *name) {
    return ct_real_dlsym_get_libc()(handle, name);
}

static void *driver_handle(void) {
    static _Atomic(void *) handle;
    void *h = atomic_load(&handle);
    // Kept open: the driver stays loaded for as long as its functions are remembered here.
    if (!h && (h = dlopen(DRIVER_SONAME, RTLD_NOLOAD | RTLD_LAZY)))
        atomic_store(&handle, h);
    return h;
}

static void *search_next(const char *symbol) {
    void *p = ct_real_dlsym_get_libc()(RTLD_NEXT, symbol);
    if (p && !ct_is_own(p))
        return p;
    // Not in the global scope: libcuda came in under an RTLD_LOCAL dlopen.
    void *h = driver_handle();
    p = h ? ct_real_dlsym_get_libc()(h, symbol) : NULL;
    return p && !ct_is_own(p) ? p : NULL;
}

void *ct_next_function(enum ct_hook_id id) {
    void *p = atomic_load_explicit(&next_of[id], memory_order_acquire);
    if (!p && (p = search_next(ct_hook_table[id].symbol)))
        atomic_store_explicit(&next_of[id], p, memory_order_release);
    return p;
}

void *ct_next_resolved(enum ct_hook_id id) {
    return atomic_load_explicit(&resolved_of[id], memory_order_acquire);
}

void *ct_next_driver_symbol(const char *symbol) {
    void *h = driver_handle();
    void *p = h ? ct_real_dlsym_get_libc()(h, symbol) : NULL;
    return p && !ct_is_own(p) ? p : search_next(symbol);
}

// ---- substitution ---------------------------------------------------------------------------

static int same_object(const void *a, const void *b) {
    Dl_info of_a, of_b;
    return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

// Our entry for a row, in place of `answer`, which becomes the function behind it. A second answer from the
// same object (an export here, an internal address there) is the same function; one from another object (a
// second interposer) cannot have the same entry, and passes.
static void *hand_out(enum ct_hook_id id, void *answer) {
    void *expected = NULL;
    if (!atomic_compare_exchange_strong(&resolved_of[id], &expected, answer) &&
        expected != answer && !same_object(expected, answer)) {
        count_unwrapped(ct_hook_table[id].symbol, -1);
        return answer;
    }
    atomic_fetch_add_explicit(&handed_out[id], 1, memory_order_relaxed);
    return ct_hook_table[id].handed_out;
}

// Reads what the driver exports under the rows' symbols; the driver is the object that `answer` is in.
static void learn_exports(void *answer) {
    Dl_info info;
    if (atomic_load_explicit(&exports_known, memory_order_acquire))
        return;
    void *h = dladdr(answer, &info) && info.dli_fname
                  ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY)
                  : NULL;
    if (!h && !(h = driver_handle()))
        return;
    for (int i = 0; i < CT_HOOKS; i++) {
        void *p = ct_real_dlsym_get_libc()(h, ct_hook_table[i].symbol);
        if (p && !ct_is_own(p))
            atomic_store_explicit(&export_of[i], p, memory_order_relaxed);
    }
    CUresult(CUDAAPI * version)(int *) = ct_real_dlsym_get_libc()(h, "cuDriverGetVersion");
    int v = 0;
    if (version && version(&v) == CUDA_SUCCESS)
        atomic_store(&driver_version, v);
    atomic_store_explicit(&exports_known, 1, memory_order_release);
}

static int row_by_address(const void *answer) {
    for (int i = 0; i < CT_HOOKS; i++)
        if (atomic_load_explicit(&export_of[i], memory_order_relaxed) == answer)
            return i;
    return -1;
}

// The row of a function that an interposer exports under a driver function's name: not the driver's address.
static int row_by_symbol(const char *symbol) {
    for (int i = 0; i < CT_HOOKS; i++)
        if (!strcmp(ct_hook_table[i].symbol, symbol))
            return i;
    return -1;
}

static int row_by_exported_name(void *answer) {
    Dl_info info;
    return dladdr(answer, &info) && info.dli_sname && info.dli_saddr == answer
               ? row_by_symbol(info.dli_sname)
               : -1;
}

// The row whose ABI a request for base + version + flags means, by the rule of cuGetProcAddress: the newest
// ABI that is not newer than the version asked for. Trusted only while the driver is no newer than
// the headers that we were built with, which may not know its latest ABI.
static int row_by_name(const char *base, int version, uint64_t flags) {
    const int driver = atomic_load(&driver_version);
    const int ptsz = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    int best = -1;
    if (driver == 0 || driver > CUDA_VERSION || version <= 0 || version > CUDA_VERSION)
        return -1;
    for (int i = 0; i < CT_HOOKS; i++) {
        const struct ct_hook *h = &ct_hook_table[i];
        if (strcmp(h->base, base) || h->abi > version || (h->ptsz && !ptsz))
            continue;
        // Of the same ABI, the per-thread variant is the one that the flags mean.
        if (best < 0 || h->abi > ct_hook_table[best].abi || (h->abi == ct_hook_table[best].abi && h->ptsz))
            best = i;
    }
    return best;
}

// The exported symbol that begins at an address; NULL if there is none.
static const ElfW(Sym) * symbol_at(void *address) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    return dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) && info.dli_saddr == address
               ? symbol
               : NULL;
}

void *ct_resolve_substitute(const char *base, int version, uint64_t flags, void *answer) {
    if (!answer || !base || !*base || ct_is_own(answer) || !ct_tracing_is_on())
        return answer; // a driver linked without -Bsymbolic hands back our own wrapper
    learn_exports(answer);
    int row = row_by_address(answer);
    if (row < 0)
        row = row_by_exported_name(answer);
    // An export without a row is a function that we do not wrap; only an address that is no export may be one
    // that we do, under cover.
    if (row < 0 && !symbol_at(answer))
        row = row_by_name(base, version, flags);
    if (row < 0) {
        count_unwrapped(base, version);
        return answer;
    }
    return hand_out((enum ct_hook_id)row, answer);
}

// ---- dlsym and dlvsym -----------------------------------------------------------------------

// Called by the assembly for names `cu[A-Z]...`: whether the look-up is one for ct_resolve_dlsym.
int ct_resolve_wants_dlsym(void *handle, const char *name);
int ct_resolve_wants_dlsym(void *handle, const char *name) {
    if (handle == RTLD_NEXT || !ct_tracing_is_on())
        return 0;
    if (row_by_symbol(name) >= 0)
        return 1;
    count_unwrapped(name, 0);
    return 0;
}

// A library may export a variable under a driver function's name: loaders such as cuew do.
static int is_function(void *address) {
    const ElfW(Sym) *symbol = symbol_at(address);
    return symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
}

static void *answer_for(const char *name, void *answer) {
    const int row = row_by_symbol(name);
    if (!answer || ct_is_own(answer) || row < 0 || !is_function(answer))
        return answer;
    return hand_out((enum ct_hook_id)row, answer);
}

// For RTLD_DEFAULT our own wrapper stands in front of the global scope. It may be handed out only if
// there is something behind it: a program that probes for a driver must not find one that is not there.
static void *default_answer(const char *name) {
    const int row = row_by_symbol(name);
    return row >= 0 && ct_next_function((enum ct_hook_id)row) ? ct_hook_table[row].exported : NULL;
}

void *ct_resolve_dlsym(void *handle, const char *name);
void *ct_resolve_dlsym(void *handle, const char *name) {
    if (handle == RTLD_DEFAULT)
        return default_answer(name);
    return answer_for(name, ct_real_dlsym_get_next()(handle, name));
}

void *ct_resolve_dlvsym(void *handle, const char *name, const char *version);
void *ct_resolve_dlvsym(void *handle, const char *name, const char *version) {
    if (handle == RTLD_DEFAULT)
        return default_answer(name);
    return answer_for(name, ct_real_dlvsym_get_next()(handle, name, version));
}

// ---- the resolvers themselves ---------------------------------------------------------------

static CUresult substituted(CUresult result, const char *symbol, void **pfn, int version,
                            cuuint64_t flags) {
    if (result == CUDA_SUCCESS && pfn)
        *pfn = ct_resolve_substitute(symbol, version, flags, *pfn);
    return result;
}

CUresult ct_on_cuGetProcAddress(ct_fn_cuGetProcAddress *real, const char *symbol, void **pfn,
                                int cudaVersion, cuuint64_t flags) {
    return substituted(real(symbol, pfn, cudaVersion, flags), symbol, pfn, cudaVersion, flags);
}

CUresult ct_on_cuGetProcAddress_v2(ct_fn_cuGetProcAddress_v2 *real, const char *symbol, void **pfn,
                                   int cudaVersion, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult *symbolStatus) {
    return substituted(real(symbol, pfn, cudaVersion, flags, symbolStatus), symbol, pfn,
                       cudaVersion, flags);
}

// ---- for the INFO section -------------------------------------------------------------------

void ct_resolve_publish_info(void) {
    char key[128];
    for (int i = 0; i < CT_HOOKS; i++) {
        const unsigned n = atomic_load_explicit(&handed_out[i], memory_order_relaxed);
        if (!n)
            continue;
        snprintf(key, sizeof key, "way.resolved.%s", ct_hook_table[i].symbol);
        ct_info_set(key, "%u", n);
    }
    for (int i = 0; i < NAMES; i++) {
        struct unwrapped *u = &unwrapped[i];
        if (atomic_load_explicit(&u->state, memory_order_acquire) != 2)
            continue;
        snprintf(key, sizeof key, "unwrapped.%s.%d", u->name, u->version);
        ct_info_set(key, "%u", atomic_load_explicit(&u->count, memory_order_relaxed));
    }
}

// ---- what cutrace itself calls --------------------------------------------------------------

static struct ct_driver driver;
static atomic_int driver_is_known; // two threads may both look up: they find the same

CT_COLD void look_up_driver(void) {
    struct ct_driver found;
#define CT_LOOK_UP(member, symbol, prototype) found.member = ct_next_driver_symbol(#symbol);
    CT_DRIVER_FUNCTIONS(CT_LOOK_UP)
#undef CT_LOOK_UP
    if (!found.ctx_get_current)
        return; // the driver is not loaded yet: ask again next time
    memcpy(&driver, &found, sizeof driver);
    atomic_store_explicit(&driver_is_known, 1, memory_order_release);
}

const struct ct_driver *ct_driver(void) {
    if (__builtin_expect(!atomic_load_explicit(&driver_is_known, memory_order_acquire), 0))
        look_up_driver();
    return &driver;
}
