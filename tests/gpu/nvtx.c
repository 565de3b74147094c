// SPDX-License-Identifier: Apache-2.0
// Allocates inside ranges of NVIDIA's NVTX, by its headers.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stddef.h>
#include <stdint.h>

int main(void) {
    int (*init)(unsigned) = NULL, (*retain)(void **, int) = NULL, (*set)(void *) = NULL;
    int (*allocate)(uint64_t *, size_t) = NULL;
    void *context = NULL, *driver = dlopen("libcuda.so.1", RTLD_NOW);
    uint64_t p = 0;
    if (!driver)
        return 77;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(driver, "cuCtxSetCurrent");
    *(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
    if (init(0) || retain(&context, 0) || set(context) || allocate(&p, 1 << 20))
        return 1;
    nvtxRangePushA("outer");
    nvtxRangePushA("inner");
    if (allocate(&p, 2 << 20))
        return 1;
    nvtxRangePop();
    nvtxMarkA("moment");
    nvtxDomainHandle_t domain = nvtxDomainCreateA("domain");
    nvtxEventAttributes_t a = {0};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "of a domain";
    nvtxDomainRangePushEx(domain, &a);
    if (allocate(&p, 3 << 20))
        return 1;
    nvtxDomainRangePop(domain);
    nvtxRangePop();
    return 0;
}
