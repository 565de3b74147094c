// SPDX-License-Identifier: Apache-2.0
// Checkpointing of this process by itself: its device memory goes away and comes back.
#include "sim.h"

#include <unistd.h>

#if CUDA_VERSION >= 12080

static CUprocessState state = CU_PROCESS_STATE_RUNNING;
static uint64_t saved[SIM_MAX_DEVICES];

static void step(struct sim_call *c, const char *api, int pid, CUprocessState from) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    SIM_REFUSE_IF(c, pid != getpid(), CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(c, state != from, CUDA_ERROR_ILLEGAL_STATE);
}

CUresult CUDAAPI cuCheckpointProcessGetState(int pid, CUprocessState *out) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !out || pid != getpid(), CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *out = state;
    return sim_end(&c);
}

CUresult CUDAAPI cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args) {
    struct sim_call c;
    step(&c, __func__, pid, CU_PROCESS_STATE_RUNNING);
    if (!c.result)
        state = CU_PROCESS_STATE_LOCKED;
    return sim_end(&c);
}

CUresult CUDAAPI cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args) {
    struct sim_call c;
    step(&c, __func__, pid, CU_PROCESS_STATE_LOCKED);
    if (!c.result) {
        for (int i = 0; i < sim_param.devices; i++) {
            saved[i] = sim_used_by_me(i);
            sim_discharge(i, saved[i]);
        }
        state = CU_PROCESS_STATE_CHECKPOINTED;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args) {
    struct sim_call c;
    step(&c, __func__, pid, CU_PROCESS_STATE_CHECKPOINTED);
    int done = 0;
    while (!c.result && done < sim_param.devices)
        if (sim_charge(done, saved[done]))
            done++;
        else
            c.result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!c.result)
        state = CU_PROCESS_STATE_LOCKED;
    while (c.result && done > 0) {
        done--;
        sim_discharge(done, saved[done]);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args) {
    struct sim_call c;
    step(&c, __func__, pid, CU_PROCESS_STATE_LOCKED);
    if (!c.result)
        state = CU_PROCESS_STATE_RUNNING;
    return sim_end(&c);
}

#else
typedef int sim_no_checkpoints; // these headers have none
#endif
