// SPDX-License-Identifier: Apache-2.0
// Copies of rows with pitches. Arrays have no contents here: copies from and to them are checked.
#include "copy.h"

struct side {
    CUmemorytype type;
    uint64_t base; // of the first row that is copied
    CUarray array;
    size_t pitch;
};

static struct side side_of(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
                           size_t pitch, size_t x, size_t y) {
    const uint64_t base = type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
    return (struct side){type, base + y * pitch + x, array, pitch};
}

static enum sim_side kind(const struct side *s) {
    switch (s->type) {
    case CU_MEMORYTYPE_HOST:
        return SIM_SIDE_HOST;
    case CU_MEMORYTYPE_DEVICE:
        return SIM_SIDE_DEVICE;
    default:
        return SIM_SIDE_ANY;
    }
}

static bool valid(const struct side *s, size_t width, size_t height) {
    if (s->type == CU_MEMORYTYPE_ARRAY)
        return sim_object_find(s->array, SIM_ARRAY);
    if (s->type < CU_MEMORYTYPE_HOST || s->type > CU_MEMORYTYPE_UNIFIED)
        return false;
    if (!width || !height)
        return true;
    if ((height > 1 && s->pitch < width) || height > SIZE_MAX / (s->pitch ? s->pitch : 1))
        return false;
    return sim_copy_accepts(s->base, (height - 1) * s->pitch + width, kind(s));
}

static void copy_rows(const struct side *to, const struct side *from, size_t width, size_t height) {
    if (to->type == CU_MEMORYTYPE_ARRAY || from->type == CU_MEMORYTYPE_ARRAY)
        return;
    const bool whole = to->pitch == width && from->pitch == width; // one run of bytes
    for (size_t i = 0; i < (whole ? 1 : height); i++)
        sim_copy_do(&(struct sim_copy){to->base + i * to->pitch, from->base + i * from->pitch,
                                       whole ? width * height : width, kind(to), kind(from)});
}

static CUresult run(const char *api, const CUDA_MEMCPY2D *m, CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    struct side to = {0}, from = {0};
    if (m) {
        to = side_of(m->dstMemoryType, m->dstHost, m->dstDevice, m->dstArray, m->dstPitch,
                     m->dstXInBytes, m->dstY);
        from = side_of(m->srcMemoryType, m->srcHost, m->srcDevice, m->srcArray, m->srcPitch,
                       m->srcXInBytes, m->srcY);
    }
    SIM_REFUSE_IF(&c,
                  !m || !valid(&to, m->WidthInBytes, m->Height) ||
                      !valid(&from, m->WidthInBytes, m->Height),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result && capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_MEMCPY);
    else if (!c.result)
        copy_rows(&to, &from, m->WidthInBytes, m->Height);
    return sim_end(&c);
}

SIM_FORWARD(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *pCopy), run, pCopy, NULL)
SIM_FORWARD(cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *pCopy), run, pCopy, NULL)
SIM_FORWARD(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *pCopy), run, pCopy, NULL)
SIM_FORWARD(cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *pCopy), run, pCopy, NULL)

SIM_FORWARD_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *pCopy, CUstream hStream), run, pCopy,
                 hStream)
