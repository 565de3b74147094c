// SPDX-License-Identifier: Apache-2.0
// Events for other processes. Work is done at once, so what another process opens has happened.
#include "stream.h"

#include <string.h>
#include <unistd.h>

struct content { // of a CUipcEventHandle
    char magic[8];
    int64_t pid;
    uint64_t serial;
};

_Static_assert(sizeof(struct content) <= sizeof(CUipcEventHandle), "fits");

static const char magic[8] = "SIMEVNT";

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event) {
    SIM_BEGIN(NULL, CONTEXT);
    const struct sim_event *e = sim_object_find(event, SIM_EVENT);
    SIM_REFUSE_IF(&c, !e || !(e->flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(&c, !pHandle, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        struct content content = {.pid = getpid(), .serial = e->o.serial};
        memcpy(content.magic, magic, sizeof magic);
        memset(pHandle, 0, sizeof *pHandle);
        memcpy(pHandle, &content, sizeof content);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle) {
    SIM_BEGIN(NULL, CONTEXT);
    SIM_REFUSE_IF(&c, !phEvent || memcmp(&handle, magic, sizeof magic) != 0,
                  CUDA_ERROR_INVALID_VALUE);
    const unsigned flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    struct sim_event *e = c.result ? NULL : sim_event_new(c.ctx, flags);
    SIM_REFUSE_IF(&c, !e, CUDA_ERROR_OUT_OF_MEMORY);
    if (e)
        *phEvent = (CUevent)e;
    return sim_end(&c);
}
