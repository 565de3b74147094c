// SPDX-License-Identifier: Apache-2.0
// Launches. Kernels are not run; a launch loads code that is loaded lazily, or becomes a node of
// the graph that is being captured.
#include "stream.h"

static CUresult launch(const char *api, CUfunction f, CUstream stream, bool per_thread) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream, per_thread);
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
#define UNUSED_SHAPE                                                                  \
    (void)gridDimX, (void)gridDimY, (void)gridDimZ, (void)blockDimX, (void)blockDimY, \
        (void)blockDimZ, (void)sharedMemBytes, (void)kernelParams

CUresult CUDAAPI cuLaunchKernel(CUfunction f, SHAPE, CUstream hStream, void **kernelParams,
                                void **extra) {
    UNUSED_SHAPE, (void)extra;
    return launch(__func__, f, hStream, false);
}

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction f, SHAPE, CUstream hStream, void **kernelParams,
                                     void **extra) {
    UNUSED_SHAPE, (void)extra;
    return launch(__func__, f, hStream, true);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, SHAPE, CUstream hStream,
                                           void **kernelParams) {
    UNUSED_SHAPE;
    return launch(__func__, f, hStream, false);
}

CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction f, SHAPE, CUstream hStream,
                                                void **kernelParams) {
    UNUSED_SHAPE;
    return launch(__func__, f, hStream, true);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                                  void **extra) {
    (void)kernelParams, (void)extra;
    return launch(__func__, f, config ? config->hStream : NULL, false);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
                                       void **kernelParams, void **extra) {
    (void)kernelParams, (void)extra;
    return launch(__func__, f, config ? config->hStream : NULL, true);
}

CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                      unsigned int numDevices, unsigned int flags) {
    CUresult result = launchParamsList && numDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    (void)flags;
    for (unsigned i = 0; !result && i < numDevices; i++)
        result = launch(__func__, launchParamsList[i].function, launchParamsList[i].hStream, false);
    return result;
}

CUresult CUDAAPI cuLaunch(CUfunction f) {
    return launch(__func__, f, NULL, false);
}

CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
    (void)grid_width, (void)grid_height;
    return launch(__func__, f, NULL, false);
}

CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height,
                                   CUstream hStream) {
    (void)grid_width, (void)grid_height;
    return launch(__func__, f, hStream, false);
}
