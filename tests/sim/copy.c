// SPDX-License-Identifier: Apache-2.0
// Copies and fills. They are done at once, by the host, where the address space is backed.
#include "copy.h"

#include <string.h>

#include "pages.h"

// Whether the driver would accept the range as device memory.
static bool is_device(uint64_t base, uint64_t size) {
    int device;
    struct sim_range *r = sim_range_at(base);
    if (!r || r->kind == SIM_RANGE_ARRAY || size > r->size || base - r->base > r->size - size)
        return false;
    return r->kind != SIM_RANGE_RESERVED || sim_vmm_mapped(base, size, &device);
}

bool sim_copy_accepts(uint64_t base, uint64_t size, enum sim_side side) {
    if (!size)
        return true;
    return base && (side != SIM_SIDE_DEVICE || is_device(base, size));
}

static bool reachable(uint64_t base, uint64_t size, enum sim_side side) {
    if (side == SIM_SIDE_HOST)
        return true;
    struct sim_range *r = sim_range_at(base);
    bool host = !r || r->kind == SIM_RANGE_HOST || r->kind == SIM_RANGE_REGISTERED;
    return host || sim_space_backed(base, size);
}

void sim_copy_do(const struct sim_copy *m) {
    if (m->bytes && reachable(m->to, m->bytes, m->to_side) &&
        reachable(m->from, m->bytes, m->from_side))
        sim_pages_copy(m->to, m->from, m->bytes);
}

static CUresult run(const char *api, const struct sim_copy *m, CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    SIM_REFUSE_IF(&c,
                  !sim_copy_accepts(m->to, m->bytes, m->to_side) ||
                      !sim_copy_accepts(m->from, m->bytes, m->from_side),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result && capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_MEMCPY);
    else if (!c.result)
        sim_copy_do(m);
    return sim_end(&c);
}

#define ADDRESS(p) ((uint64_t)(uintptr_t)(p))

static CUresult to_device(const char *api, CUdeviceptr to, const void *from, size_t n, CUstream s) {
    return run(api, &(struct sim_copy){to, ADDRESS(from), n, SIM_SIDE_DEVICE, SIM_SIDE_HOST}, s);
}

static CUresult to_host(const char *api, void *to, CUdeviceptr from, size_t n, CUstream s) {
    return run(api, &(struct sim_copy){ADDRESS(to), from, n, SIM_SIDE_HOST, SIM_SIDE_DEVICE}, s);
}

static CUresult on_device(const char *api, CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    return run(api, &(struct sim_copy){to, from, n, SIM_SIDE_DEVICE, SIM_SIDE_DEVICE}, s);
}

static CUresult anywhere(const char *api, CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    return run(api, &(struct sim_copy){to, from, n, SIM_SIDE_ANY, SIM_SIDE_ANY}, s);
}

// Each with its two variants of the default stream.
#define COPY(name, helper, to_type, from_type)                                                    \
    SIM_FORWARD(name, (to_type to, from_type from, size_t count), helper, to, from, count, NULL)  \
    SIM_FORWARD(name##_ptds, (to_type to, from_type from, size_t count), helper, to, from, count, \
                NULL)
#define COPY_ASYNC(name, helper, to_type, from_type)                                            \
    SIM_FORWARD_PTSZ(name, (to_type to, from_type from, size_t count, CUstream stream), helper, \
                     to, from, count, stream)

COPY(cuMemcpyHtoD_v2, to_device, CUdeviceptr, const void *)
COPY(cuMemcpyDtoH_v2, to_host, void *, CUdeviceptr)
COPY(cuMemcpyDtoD_v2, on_device, CUdeviceptr, CUdeviceptr)
COPY(cuMemcpy, anywhere, CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, to_device, CUdeviceptr, const void *)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, to_host, void *, CUdeviceptr)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, on_device, CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyAsync, anywhere, CUdeviceptr, CUdeviceptr)

// ---- fills --------------------------------------------------------------------------------------

static void do_fill(CUdeviceptr p, const void *value, size_t width, size_t n) {
    static const char zeros[8];
    char *to = (char *)(uintptr_t)p;
    if (memcmp(value, zeros, width) == 0)
        sim_pages_zero(p, n * width);
    else if (width == 1)
        memset(to, *(const unsigned char *)value, n);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * width, value, width);
}

static CUresult fill(const char *api, CUdeviceptr p, const void *value, size_t width, size_t n,
                     CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream);
    struct sim_capture *capture = c.result ? NULL : sim_stream_use(s, &c.result);
    if (!c.result &&
        (p % width || n > SIZE_MAX / width || !sim_copy_accepts(p, n * width, SIM_SIDE_DEVICE)))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result && capture)
        sim_graph_capture_other(capture->graph, CU_GRAPH_NODE_TYPE_MEMSET);
    else if (!c.result && reachable(p, n * width, SIM_SIDE_DEVICE))
        do_fill(p, value, width, n);
    return sim_end(&c);
}

#define FILL(name, type)                                                                           \
    SIM_FORWARD(name##_v2, (CUdeviceptr p, type value, size_t n), fill, p, &value, sizeof value,   \
                n, NULL)                                                                           \
    SIM_FORWARD(name##_v2_ptds, (CUdeviceptr p, type value, size_t n), fill, p, &value,            \
                sizeof value, n, NULL)                                                             \
    SIM_FORWARD_PTSZ(name##Async, (CUdeviceptr p, type value, size_t n, CUstream stream), fill, p, \
                     &value, sizeof value, n, stream)

FILL(cuMemsetD8, unsigned char)
FILL(cuMemsetD16, unsigned short)
FILL(cuMemsetD32, unsigned int)

// Beside nothing else that happens later: a fill of one word.
#define WRITE_VALUE(name)                                                                          \
    SIM_FORWARD_PTSZ(name, (CUstream stream, CUdeviceptr p, cuuint32_t value, unsigned int flags), \
                     fill, p, &value, sizeof value, 1, stream)

WRITE_VALUE(cuStreamWriteValue32)
WRITE_VALUE(cuStreamWriteValue32_v2)
