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
    SIM_REFUSE_IF(&c, !stateOut, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *stateOut = (CUlinkState)sim_object_new(sizeof(struct link), SIM_LINK, NULL, c.device);
    return sim_end(&c);
}

static CUresult on_link(const char *api, CUlinkState state, void **image, size_t *size, bool end) {
    SIM_BEGIN_AS(api, NULL, CONTEXT);
    struct link *l = sim_object_find(state, SIM_LINK);
    SIM_REFUSE_IF(&c, !l, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result && image)
        *image = l->image;
    if (!c.result && size)
        *size = sizeof l->image;
    if (!c.result && end)
        sim_object_delete(l);
    return sim_end(&c);
}

SIM_FORWARD(cuLinkAddData_v2,
            (CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
             unsigned int numOptions, CUjit_option *options, void **optionValues),
            on_link, state, NULL, NULL, false)
SIM_FORWARD(cuLinkComplete, (CUlinkState state, void **cubinOut, size_t *sizeOut), on_link, state,
            cubinOut, sizeOut, false)
SIM_FORWARD(cuLinkDestroy, (CUlinkState state), on_link, state, NULL, NULL, true)
