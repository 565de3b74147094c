// SPDX-License-Identifier: Apache-2.0
// Another NVTX tool: prints what it hears on stderr, and hands out handles of its own. Compiled by
// test_nvtx.py.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

static int heard_push(const char *message) {
    fprintf(stderr, "tool: push %s\n", message);
    return 41;
}
static int heard_pop(void) {
    fprintf(stderr, "tool: pop\n");
    return 42;
}
static char handles[8];
static nvtxDomainHandle_t heard_domain(const char *name) {
    static int used;
    fprintf(stderr, "tool: domain %s\n", name);
    return (nvtxDomainHandle_t)(void *)&handles[used++ & 7];
}

// It gets the handle that it handed out.
static void heard_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes) {
    (void)attributes;
    fprintf(stderr, "tool: mark in domain %td\n", (const char *)(const void *)domain - handles);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core = NULL, core2 = NULL;
    unsigned size = 0;
    callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size);
    callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size);
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)heard_push;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)heard_pop;
    *core2[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)heard_domain;
    *core2[NVTX_CBID_CORE2_DomainMarkEx] = (NvtxFunctionPointer)heard_mark;
    return 1;
}
