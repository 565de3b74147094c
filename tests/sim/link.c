// SPDX-License-Identifier: Apache-2.0
// The linker. What it makes is host memory.
#include "sim.h"

struct link {
    struct sim_object o;
    char image[64];
};

CUresult CUDAAPI cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options,
                                 void **optionValues, CUlinkState *stateOut) {
    SIM_BEGIN(NULL, CONTEXT);
    (void)numOptions, (void)options, (void)optionValues;
    if (!c.result && !stateOut)
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result)
        *stateOut = (CUlinkState)sim_object_new(sizeof(struct link), SIM_LINK, NULL, c.device);
    return sim_end(&c);
}

static CUresult on_link(const char *api, CUlinkState state, void **image, size_t *size, bool end) {
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_CONTEXT);
    struct link *l = sim_object_find(state, SIM_LINK);
    if (!c.result && !l)
        c.result = CUDA_ERROR_INVALID_HANDLE;
    if (!c.result && image)
        *image = l->image;
    if (!c.result && size)
        *size = sizeof l->image;
    if (!c.result && end)
        sim_object_delete(l);
    return sim_end(&c);
}

CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                                  const char *name, unsigned int numOptions, CUjit_option *options,
                                  void **optionValues) {
    (void)type, (void)data, (void)size, (void)name;
    (void)numOptions, (void)options, (void)optionValues;
    return on_link(__func__, state, NULL, NULL, false);
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
    return on_link(__func__, state, cubinOut, sizeOut, false);
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
    return on_link(__func__, state, NULL, NULL, true);
}
