// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress: from a base name, a version and flags to the function of the newest ABI that
// is not newer than the version, by the table in symbols.def.
#define _GNU_SOURCE
#include "sim.h"

#include <dlfcn.h>
#include <string.h>

struct symbol {
    const char *base;
    int version;
    bool per_thread; // the _ptsz or _ptds variant
    const char *exported;
    void (*function)(void);
    void (*thunk)(void);
};

// An address that is no export, for SIM_GETPROC_ALIAS: a jump to the function.
#if defined(__x86_64__)
#define JUMP "jmp "
#elif defined(__aarch64__)
#define JUMP "b "
#else
#error "no thunks for this machine"
#endif
#define SIM_SYMBOL(base, version, per_thread, exported)                    \
    void sim_thunk_##exported(void);                                       \
    __asm__(".pushsection .text\n"                                         \
            ".balign 16\n"                                                 \
            ".hidden sim_thunk_" #exported "\n"                            \
            ".globl sim_thunk_" #exported "\n"                             \
            ".type sim_thunk_" #exported ", %function\n"                   \
            "sim_thunk_" #exported ": " JUMP #exported "\n"                \
            ".size sim_thunk_" #exported ", . - sim_thunk_" #exported "\n" \
            ".popsection\n");
#include "symbols.def"
#undef SIM_SYMBOL

static const struct symbol symbols[] = {
#define SIM_SYMBOL(base, version, per_thread, exported) \
    {#base, version, per_thread, #exported, (void (*)(void))exported, sim_thunk_##exported},
#include "symbols.def"
#undef SIM_SYMBOL
};

#define COUNT (sizeof symbols / sizeof symbols[0])

// The newest ABI up to the version; *known says whether the name exists at all.
static const struct symbol *find(const char *base, int version, bool per_thread, bool *known) {
    const struct symbol *best = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        const struct symbol *s = &symbols[i];
        if (s->per_thread != per_thread || strcmp(s->base, base) != 0)
            continue;
        *known = true;
        if (s->version <= version && (!best || s->version > best->version))
            best = s;
    }
    return best;
}

static void *address_of(const struct symbol *s) {
    void *p = NULL;
    if (sim_param.alias)
        *(void (**)(void)) & p = s->thunk;
    else if (!sim_param.symbolic)
        p = dlsym(RTLD_DEFAULT, s->exported);
    if (!p)
        *(void (**)(void)) & p = s->function;
    return p;
}

static CUresult resolve(const char *symbol, void **pfn, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status) {
    const cuuint64_t streams =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    CUdriverProcAddressQueryResult unused;
    if (!status)
        status = &unused;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (pfn)
        *pfn = NULL;
    if (!symbol || flags & ~streams || flags == streams)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = false;
    const struct symbol *s = NULL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        s = find(symbol, version, true, &known);
    if (!s) // most functions have no variant for the per-thread stream
        s = find(symbol, version, false, &known);
    if (!s) {
        if (known)
            *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        return CUDA_ERROR_NOT_FOUND;
    }
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (!pfn)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = address_of(s);
    return CUDA_SUCCESS;
}

// Without the driver's lock: look-ups happen inside other look-ups.
static CUresult look_up(const char *api, const char *symbol, void **pfn, int version,
                        cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    sim_param_read();
    CUresult result = resolve(symbol, pfn, version, flags, status);
    SIM_BEGIN_AS(api, NULL, NOTHING);
    if (c.result && pfn)
        *pfn = NULL;
    if (!c.result)
        c.result = result;
    sim_log("look-up %s %s %d %llu", api, symbol ? symbol : "(null)", version,
            (unsigned long long)flags);
    return sim_end(&c);
}

SIM_FORWARD(cuGetProcAddress, (const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags),
            look_up, symbol, pfn, cudaVersion, flags, NULL)
SIM_FORWARD(cuGetProcAddress_v2,
            (const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
             CUdriverProcAddressQueryResult *symbolStatus),
            look_up, symbol, pfn, cudaVersion, flags, symbolStatus)

// Private tables: there are none.
CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    SIM_BEGIN(NULL, NOTHING);
    if (ppExportTable)
        *ppExportTable = NULL;
    if (!c.result)
        c.result =
            ppExportTable && pExportTableId ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    return sim_end(&c);
}
