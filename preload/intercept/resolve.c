// SPDX-License-Identifier: Apache-2.0
// Decides what a look-up of a driver function gets: the real function, or the wrapper of its ABI.
//
// The real resolver is always asked first, with the host's arguments. Its answer is replaced only
// if it is a function that has a wrapper of that very ABI; every other answer passes, and is
// counted. The failures behind each rule: HAMi-core#57, #233, #279, #326, lupine#570,
// vcuda-controller#32. The resolvers' own wrappers are defined here, because this file knows the
// addresses of all others.
#define _GNU_SOURCE
#include "intercept/resolve.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "base/real_dlsym.h"
#include "intercept/cupti.h"
#include "intercept/look_ups.h"
#include "intercept/own_image.h"
#include "intercept/wrappers.h"
#include "record/tracing.h"
#include "write/info_table.h"

// The addresses of a row's entries (wrappers.h).
static const struct entries {
    void *exported, *resolved;
} entries[CT_HOOKS] = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    {(void *)symbol, (void *)ct_resolved_##symbol},
#include "intercept/hooks.def"
};

static atomic_uint resolved_count[CT_HOOKS]; // look-ups that got the row's resolved entry

// What the driver exports under each row's symbol, and the driver's version; valid once known.
static _Atomic(void *) export_of[CT_HOOKS];
static atomic_int driver_version;
static atomic_int exports_are_known;

// ---- the row of an answer -------------------------------------------------------------------

#define NO_ROW (-1)

// The driver is the object that `answer` lies in.
static void learn_exports(const void *answer) {
    Dl_info info;
    void *h = NULL;
    if (atomic_load_explicit(&exports_are_known, memory_order_acquire))
        return;
    if (dladdr(answer, &info) && info.dli_fname)
        h = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (!h && !(h = ct_next_driver_handle()))
        return;
    for (int i = 0; i < CT_HOOKS; i++) {
        void *const p = ct_own_image_look_beyond(h, ct_hook_table[i].symbol);
        if (p)
            atomic_store_explicit(&export_of[i], p, memory_order_relaxed);
    }
    CUresult(CUDAAPI * get_version)(int *) = ct_real_dlsym_get_libc()(h, "cuDriverGetVersion");
    int version = 0;
    if (get_version && get_version(&version) == CUDA_SUCCESS)
        atomic_store(&driver_version, version);
    atomic_store_explicit(&exports_are_known, 1, memory_order_release);
}

static int find_row_by_export(const void *address) {
    for (int i = 0; i < CT_HOOKS; i++)
        if (atomic_load_explicit(&export_of[i], memory_order_relaxed) == address)
            return i;
    return NO_ROW;
}

static int find_row_by_symbol(const char *symbol) {
    for (int i = 0; i < CT_HOOKS; i++)
        if (!strcmp(ct_hook_table[i].symbol, symbol))
            return i;
    return NO_ROW;
}

// An interposer's function has the symbol of the driver's, but not its address.
static int find_row_by_symbol_at(const void *address) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_sname || info.dli_saddr != address)
        return NO_ROW;
    return find_row_by_symbol(info.dli_sname);
}

// The rule of cuGetProcAddress: a request for base, version and flags means the newest ABI that is
// not newer than the version. The rule is applied only while the driver is no newer than the
// headers of this build, which may lack the driver's latest ABI.
static int find_row_by_request(const char *base, int version, uint64_t flags) {
    const int driver = atomic_load(&driver_version);
    const int ptsz = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    int best = NO_ROW;
    if (driver == 0 || driver > CUDA_VERSION || version <= 0 || version > CUDA_VERSION)
        return NO_ROW;
    for (int i = 0; i < CT_HOOKS; i++) {
        const struct ct_hook *h = &ct_hook_table[i];
        if (strcmp(h->base, base) || h->abi > version || (h->ptsz && !ptsz))
            continue;
        // Of two rows with the same ABI, the flags mean the per-thread variant.
        if (best == NO_ROW || h->abi > ct_hook_table[best].abi ||
            (h->abi == ct_hook_table[best].abi && h->ptsz))
            best = i;
    }
    return best;
}

// The exported symbol that begins at an address, or NULL.
static const ElfW(Sym) * find_symbol_at(const void *address) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || info.dli_saddr != address)
        return NULL;
    return symbol;
}

static int find_row(const char *base, int version, uint64_t flags, const void *answer) {
    int row = find_row_by_export(answer);
    if (row == NO_ROW)
        row = find_row_by_symbol_at(answer);
    // An exported function without a row has no wrapper. Only an address that is no exported symbol
    // may be a row's function under another name.
    if (row == NO_ROW && !find_symbol_at(answer))
        row = find_row_by_request(base, version, flags);
    return row;
}

// ---- substitution ---------------------------------------------------------------------------

// Returns the row's resolved entry, which from now on goes on to `answer`, or else the answer.
static void *hand_out(enum ct_look_up_way way, enum ct_hook_id id, void *answer) {
    ct_cupti_start();
    if (!ct_next_set_resolved(id, answer)) {
        ct_unwrapped_count(ct_hook_table[id].symbol, -1);
        return answer;
    }
    atomic_fetch_add_explicit(&resolved_count[id], 1, memory_order_relaxed);
    ct_look_ups_count_wrapped(way);
    return entries[id].resolved;
}

void *ct_resolve_substitute(enum ct_look_up_way way, const char *base, int version, uint64_t flags,
                            void *answer) {
    if (!answer || !base || !*base || !ct_tracing_is_on())
        return answer;
    ct_look_ups_count(way);
    // A driver that was linked without -Bsymbolic answers with this library's own wrapper.
    if (ct_own_image_has(answer)) {
        ct_look_ups_count_wrapped(way);
        return answer;
    }
    learn_exports(answer);
    const int row = find_row(base, version, flags, answer);
    if (row == NO_ROW) {
        ct_unwrapped_count(base, version);
        return answer;
    }
    return hand_out(way, (enum ct_hook_id)row, answer);
}

// ---- dlsym and dlvsym -----------------------------------------------------------------------

// Of other names than the driver's, CUPTI's are looked at, if its backend is on.
static int is_of_cupti(const char *name) {
    return !strncmp(name, "cupti", 5);
}

// Each copy of the runtime asks for one of them, and no other part of it asks dlsym.
static int is_resolver(const char *name) {
    return !strncmp(name, "cuGetProcAddress", sizeof "cuGetProcAddress" - 1);
}

int ct_resolve_wants_dlsym(void *handle, const char *name, const void *caller) {
    if (handle == RTLD_NEXT || !ct_tracing_is_on())
        return 0;
    if (is_of_cupti(name))
        return handle != RTLD_DEFAULT && ct_cupti_is_wanted();
    ct_look_ups_count(CT_LOOK_UP_DLSYM);
    if (is_resolver(name))
        ct_look_ups_note_resolver(caller);
    if (find_row_by_symbol(name) != NO_ROW)
        return 1;
    ct_unwrapped_count(name, 0);
    return 0;
}

// A library may export a variable under a driver function's name, as loaders such as cuew do.
static int is_function(const void *address) {
    const ElfW(Sym) *symbol = find_symbol_at(address);
    return symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
}

static void *substitute_by_symbol(const char *name, void *answer) {
    if (is_of_cupti(name))
        return ct_cupti_hooks_substitute(name, answer);
    const int row = find_row_by_symbol(name);
    if (answer && ct_own_image_has(answer))
        ct_look_ups_count_wrapped(CT_LOOK_UP_DLSYM);
    if (!answer || ct_own_image_has(answer) || row == NO_ROW || !is_function(answer))
        return answer;
    return hand_out(CT_LOOK_UP_DLSYM, (enum ct_hook_id)row, answer);
}

// In the global scope this library's wrapper comes first. It is handed out only if there is a
// function behind it: a program that probes for a driver must not find one that is not there.
static void *resolve_default(const char *name) {
    const int row = find_row_by_symbol(name);
    if (row == NO_ROW || !ct_next_function((enum ct_hook_id)row))
        return NULL;
    ct_look_ups_count_wrapped(CT_LOOK_UP_DLSYM);
    return entries[row].exported;
}

void *ct_resolve_dlsym(void *handle, const char *name) {
    if (handle == RTLD_DEFAULT)
        return resolve_default(name);
    return substitute_by_symbol(name, ct_real_dlsym_get_next()(handle, name));
}

void *ct_resolve_dlvsym(void *handle, const char *name, const char *version) {
    if (handle == RTLD_DEFAULT)
        return resolve_default(name);
    return substitute_by_symbol(name, ct_real_dlvsym_get_next()(handle, name, version));
}

// ---- cuGetProcAddress -----------------------------------------------------------------------

static CUresult substitute_result(CUresult result, const char *symbol, void **pfn, int version,
                                  cuuint64_t flags) {
    const int left_errno = errno;
    if (result == CUDA_SUCCESS && pfn)
        *pfn = ct_resolve_substitute(CT_LOOK_UP_PROC_ADDRESS, symbol, version, flags, *pfn);
    errno = left_errno;
    return result;
}

CUresult ct_on_cuGetProcAddress(ct_fn_cuGetProcAddress *real, const char *symbol, void **pfn,
                                int cudaVersion, cuuint64_t flags) {
    return substitute_result(real(symbol, pfn, cudaVersion, flags), symbol, pfn, cudaVersion,
                             flags);
}

CUresult ct_on_cuGetProcAddress_v2(ct_fn_cuGetProcAddress_v2 *real, const char *symbol, void **pfn,
                                   int cudaVersion, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult *symbolStatus) {
    return substitute_result(real(symbol, pfn, cudaVersion, flags, symbolStatus), symbol, pfn,
                             cudaVersion, flags);
}

#define CT_RESOLVER_HOOK(symbol, base, abi, ptsz, params, args) \
    CT_DEFINE_WRAPPERS(symbol, params, (real, CT_ARGS args))
#include "intercept/hooks.def"

// ---- INFO -----------------------------------------------------------------------------------

void ct_resolve_publish_info(void) {
    for (int i = 0; i < CT_HOOKS; i++) {
        const unsigned n = atomic_load_explicit(&resolved_count[i], memory_order_relaxed);
        if (n)
            ct_info_set_number(n, "way.resolved.%s", ct_hook_table[i].symbol);
    }
    ct_unwrapped_publish_info();
    ct_look_ups_publish_info();
}
