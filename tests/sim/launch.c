// SPDX-License-Identifier: Apache-2.0
// Launches. Kernels are not run; a launch loads code that is loaded lazily, or becomes a node of
// the graph that is being captured.
#include "stream.h"

static CUresult launch(const char *api, CUfunction f, CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    if (!c.result)
        c.result = sim_function_load(f, s->o.ctx);
    if (!c.result && capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_KERNEL);
    return sim_end(&c);
}

#define SHAPE                                                                                    \
    unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, \
        unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes

SIM_FORWARD_PTSZ(cuLaunchKernel,
                 (CUfunction f, SHAPE, CUstream hStream, void **kernelParams, void **extra), launch,
                 f, hStream)
SIM_FORWARD_PTSZ(cuLaunchCooperativeKernel,
                 (CUfunction f, SHAPE, CUstream hStream, void **kernelParams), launch, f, hStream)
SIM_FORWARD_PTSZ(cuLaunchKernelEx,
                 (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
                 launch, f, config ? config->hStream : NULL)

CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                      unsigned int numDevices, unsigned int flags) {
    CUresult result = launchParamsList && numDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; !result && i < numDevices; i++)
        result = launch(__func__, launchParamsList[i].function, launchParamsList[i].hStream);
    return result;
}

SIM_FORWARD(cuLaunch, (CUfunction f), launch, f, NULL)
SIM_FORWARD(cuLaunchGrid, (CUfunction f, int grid_width, int grid_height), launch, f, NULL)
SIM_FORWARD(cuLaunchGridAsync, (CUfunction f, int grid_width, int grid_height, CUstream hStream),
            launch, f, hStream)
