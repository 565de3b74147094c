// SPDX-License-Identifier: Apache-2.0
// Annotates itself by NVIDIA's NVTX headers around driver calls; compiled by test_nvtx.py, which
// fetches them.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// (cuda.h would be another thing to find)
int cuInit(unsigned flags);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuMemAlloc_v2(uint64_t *ptr, size_t bytes);

static nvtxRangeId_t started;

static void *end_elsewhere(void *unused) {
    nvtxRangeEnd(started);
    return unused;
}

static uint64_t allocate(size_t bytes) {
    uint64_t p = 0;
    printf("alloc %d\n", cuMemAlloc_v2(&p, bytes));
    return p;
}

static void domains(void) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("my.domain");
    nvtxStringHandle_t registered = nvtxDomainRegisterStringA(domain, "registered");
    nvtxEventAttributes_t a;
    memset(&a, 0, sizeof a);
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = registered;
    a.category = 7;
    nvtxDomainNameCategoryA(domain, 7, "seven");
    printf("level %d\n", nvtxDomainRangePushEx(domain, &a));
    (void)allocate(1 << 20);
    a.category = 8;
    nvtxDomainMarkEx(domain, &a);
    a.category = 7; // of another domain, where it has no name
    nvtxDomainMarkEx(nvtxDomainCreateA("other.domain"), &a);
    nvtxRangePushA("of another domain");
    nvtxDomainRangePop(domain); // the domains' ranges nest for each by itself
    (void)allocate(2 << 20);
    nvtxRangePop();
}

static void name_region(nvtxDomainHandle_t domain, const void *at) {
    nvtxMemRegionNameDesc_t name;
    memset(&name, 0, sizeof name);
    name.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    name.nameType = NVTX_MESSAGE_TYPE_ASCII;
    name.region.pointer = at;
    name.name.ascii = "my region";
    nvtxMemRegionsNameBatch_t names;
    memset(&names, 0, sizeof names);
    names.extCompatID = NVTX_EXT_COMPATID_MEM;
    names.structSize = sizeof names;
    names.regionCount = 1;
    names.regionElementSize = sizeof name;
    names.regionElements = &name;
    nvtxMemRegionsName(domain, &names);
}

static void resize_region(nvtxDomainHandle_t domain, const void *at) {
    nvtxMemVirtualRangeDesc_t range = {200, at};
    nvtxMemRegionsResizeBatch_t batch;
    memset(&batch, 0, sizeof batch);
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.regionDescCount = 1;
    batch.regionDescElementSize = sizeof range;
    batch.regionDescElements = &range;
    nvtxMemRegionsResize(domain, &batch);
}

// A region of no heap, and very many in one call.
static void process_wide(nvtxDomainHandle_t domain, uint64_t p) {
    static nvtxMemVirtualRangeDesc_t many[100000];
    nvtxMemRegionsRegisterBatch_t regions;
    for (size_t i = 0; i < 100000; i++)
        many[i] = (nvtxMemVirtualRangeDesc_t){1, (void *)(uintptr_t)(p + i)};
    memset(&regions, 0, sizeof regions);
    regions.extCompatID = NVTX_EXT_COMPATID_MEM;
    regions.structSize = sizeof regions;
    regions.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    regions.heap = NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE;
    regions.regionCount = getenv("MANY_REGIONS") ? 100000 : 1;
    regions.regionDescElementSize = sizeof many[0];
    regions.regionDescElements = many;
    nvtxMemRegionsRegister(domain, &regions);
}

static void memory(void) {
    const uint64_t p = allocate(4 << 20);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("pool");
    nvtxMemVirtualRangeDesc_t range = {4 << 20, (void *)(uintptr_t)p};
    nvtxMemHeapDesc_t heap;
    memset(&heap, 0, sizeof heap);
    heap.extCompatID = NVTX_EXT_COMPATID_MEM;
    heap.structSize = sizeof heap;
    heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    heap.typeSpecificDescSize = sizeof range;
    heap.typeSpecificDesc = &range;
    heap.messageType = NVTX_MESSAGE_TYPE_ASCII;
    heap.message.ascii = "my heap";
    nvtxMemHeapHandle_t handle = nvtxMemHeapRegister(domain, &heap);
    nvtxMemVirtualRangeDesc_t parts[2] = {{256, (void *)(uintptr_t)p},
                                          {512, (void *)(uintptr_t)(p + 256)}};
    nvtxMemRegionsRegisterBatch_t regions;
    memset(&regions, 0, sizeof regions);
    regions.extCompatID = NVTX_EXT_COMPATID_MEM;
    regions.structSize = sizeof regions;
    regions.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    regions.heap = handle;
    regions.regionCount = 2;
    regions.regionDescElementSize = sizeof parts[0];
    regions.regionDescElements = parts;
    nvtxMemRegionsRegister(domain, &regions);
    name_region(domain, parts[0].ptr);
    resize_region(domain, parts[0].ptr);
    nvtxMemRegionRef_t reference = {.pointer = parts[1].ptr};
    nvtxMemRegionsUnregisterBatch_t gone;
    memset(&gone, 0, sizeof gone);
    gone.extCompatID = NVTX_EXT_COMPATID_MEM;
    gone.structSize = sizeof gone;
    gone.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    gone.refCount = 1;
    gone.refElementSize = sizeof reference;
    gone.refElements = &reference;
    nvtxMemRegionsUnregister(domain, &gone);
    nvtxMemRegionsUnregister(domain, &gone); // a wrong program: it is gone already
    nvtxMemHeapReset(domain, handle);
    parts[1].size = 1 << 10;
    nvtxMemRegionsRegister(domain, &regions);
    nvtxMemHeapUnregister(domain, handle);
    process_wide(domain, p);
}

int main(void) {
    void *context = NULL;
    pthread_t thread;
    nvtxRangePushA("before CUDA");
    printf("init %d\n", cuInit(0));
    printf("context %d\n", cuCtxCreate_v2(&context, 0, 0));
    nvtxMarkA("a mark");
    nvtxMarkW(L"w\u00e4ide \U0001F600");
    started = nvtxRangeStartA("process-wide");
    const nvtxRangeId_t second = nvtxRangeStartA("second");
    (void)allocate(3 << 20);
    (void)pthread_create(&thread, NULL, end_elsewhere, NULL);
    (void)pthread_join(thread, NULL);
    nvtxRangeEnd(second);
    domains();
    memory();
    printf("level %d\n", nvtxRangePop());
    return 0;
}
