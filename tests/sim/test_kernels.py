#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels: their attributes and occupancy (against figures of an H100, by hand), when their code takes memory, and what
keeps it from fitting."""
import ctypes as C
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from alone import *  # noqa: E402,F403
from driver import *  # noqa: E402,F403
from tap import SIM  # noqa: E402

KB, HANDLE, NOT_LOADED, CLUSTER, CAPTURED = 1 << 10, 400, 913, 912, 900
THREADS, SHARED, REGISTERS, DYNAMIC, CARVEOUT, WIDTH, NON_PORTABLE = 0, 1, 4, 8, 9, 11, 14


def launch(d, f, stream=0):
    return d.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, None, None)


def library(d):
    return d.value("cuLibraryLoadData", b"image", None, None, 0, None, None, 0)


def function(d):
    return d.value("cuModuleGetFunction", d.value("cuModuleLoadData", b"image"), b"kernel")


def attribute(d, f, which):
    return d.value("cuFuncGetAttribute", which, f, kind=C.c_int)


# ---- attributes ------------------------------------------------------------------------------------------------------

@started("attributes of a function are kept, within what the device has")
def attributes_of_a_function(d):
    f, out = function(d), C.c_int(77)
    eq([attribute(d, f, i) for i in (THREADS, SHARED, REGISTERS, DYNAMIC, CARVEOUT)], [1024, 0, 32, 48 * KB, -1])
    eq(d.cuFuncSetAttribute(f, DYNAMIC, 227 * KB), SUCCESS)
    eq(d.cuFuncSetAttribute(f, CARVEOUT, 100), SUCCESS)
    eq((attribute(d, f, DYNAMIC), attribute(d, f, CARVEOUT)), (227 * KB, 100))
    eq(d.cuFuncSetAttribute(f, DYNAMIC, 227 * KB + 1), INVALID)
    eq(d.cuFuncSetAttribute(f, THREADS, 100), INVALID)  # cannot be set
    eq(d.cuFuncSetAttribute(f, 16, 1), INVALID)
    eq(d.cuFuncGetAttribute(out, -1, f), INVALID)
    eq(d.cuFuncGetAttribute(out, THREADS, 0x1230), HANDLE)
    eq((d.cuFuncSetCacheConfig(f, 3), d.cuFuncSetCacheConfig(f, 4)), (SUCCESS, INVALID))
    eq((d.cuFuncSetSharedMemConfig(f, 2), d.cuFuncSetSharedMemConfig(f, 3)), (SUCCESS, INVALID))
    eq(out.value, 77)


@started("a kernel's attributes are those of its functions", SIM_DEVICES="2")
def a_kernels_attributes(d):
    lib = library(d)
    k = d.value("cuLibraryGetKernel", lib, b"kernel")
    eq(d.cuKernelSetAttribute(DYNAMIC, 99 * KB, k, 0), SUCCESS)
    f = d.value("cuKernelGetFunction", k)
    eq(attribute(d, f, DYNAMIC), 99 * KB)
    eq(d.cuFuncSetAttribute(f, DYNAMIC, 100 * KB), SUCCESS)
    out = C.c_int()
    eq(d.cuKernelGetAttribute(out, DYNAMIC, k, 1), SUCCESS)
    eq(out.value, 100 * KB)
    eq(d.cuKernelGetAttribute(out, DYNAMIC, k, 2), 101)
    eq(d.cuKernelGetAttribute(out, DYNAMIC, f, 0), HANDLE)
    eq(d.cuKernelSetCacheConfig(k, 1, 0), SUCCESS)
    for name, handle in (("cuKernelGetName", k), ("cuFuncGetName", f)):
        text = C.c_char_p()
        eq(getattr(d, name)(text, handle), SUCCESS)
        eq(text.value, b"kernel")
    eq(d.value("cuFuncGetModule", f), d.value("cuLibraryGetModule", lib))
    if hasattr(d.lib, "cuKernelGetLibrary"):  # since CUDA 12.5
        eq(d.value("cuKernelGetLibrary", k), lib)


@started("functions are listed, and say whether they are loaded")
def functions_are_listed(d):
    start, m = d.free(), d.value("cuModuleLoadData", b"image")
    eq(d.value("cuModuleGetFunctionCount", m, kind=C.c_uint), 1)
    f, out = C.c_uint64(), C.c_int(-1)
    eq(d.cuModuleEnumerateFunctions(f, 1, m), SUCCESS)
    eq(d.value("cuFuncIsLoaded", f.value, kind=C.c_int), 0)
    eq(d.cuFuncGetAttribute(out, THREADS, f.value), NOT_LOADED)
    eq(attribute(d, f.value, REGISTERS), 32)
    eq(d.free(), start)
    eq(d.cuFuncLoad(f.value), SUCCESS)
    eq(start - d.free(), 256 * KB)
    eq(d.cuFuncLoad(f.value), SUCCESS)
    eq(start - d.free(), 256 * KB)
    eq(d.value("cuFuncIsLoaded", f.value, kind=C.c_int), 1)
    eq(attribute(d, f.value, THREADS), 1024)
    eq(d.value("cuModuleGetFunction", m, b"kernel"), f.value)
    lib = library(d)
    d.value("cuLibraryGetKernel", lib, b"another")
    eq(d.value("cuLibraryGetKernelCount", lib, kind=C.c_uint), 2)
    two = (C.c_uint64 * 2)()
    eq(d.cuLibraryEnumerateKernels(two, 2, lib), SUCCESS)
    eq(d.value("cuLibraryGetKernel", lib, b"another") in list(two), True)
    eq((d.cuModuleGetFunctionCount(C.c_uint(), lib), d.cuLibraryGetKernelCount(C.c_uint(), m)), (HANDLE, HANDLE))


# ---- occupancy -------------------------------------------------------------------------------------------------------

class LaunchAttribute(C.Structure):
    _fields_ = [("id", C.c_uint), ("pad", C.c_char * 4), ("x", C.c_uint), ("y", C.c_uint), ("z", C.c_uint),
                ("rest", C.c_char * 52)]


class LaunchConfig(C.Structure):
    _fields_ = [("grid", C.c_uint * 3), ("block", C.c_uint * 3), ("shared", C.c_uint), ("stream", C.c_void_p),
                ("attributes", C.POINTER(LaunchAttribute)), ("count", C.c_uint)]


def config(threads, cluster=0):
    one = LaunchAttribute(id=4, x=cluster, y=1, z=1)  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    return LaunchConfig((1, 1, 1), (threads, 1, 1), 0, None, C.pointer(one), 1 if cluster else 0)


@started("as many blocks fit as threads, registers and shared memory allow")
def as_many_blocks_fit(d):
    f, n = function(d), C.c_int()

    def blocks(threads, dynamic=0):
        eq(d.cuOccupancyMaxActiveBlocksPerMultiprocessor(n, f, threads, dynamic), SUCCESS)
        return n.value

    # 2048 threads, 65536 registers of which each thread has 32, 228 KiB less 1 for each block, at most 32 blocks
    eq([blocks(t) for t in (1, 32, 64, 65, 256, 1000, 1024, 1025)], [32, 32, 32, 21, 8, 2, 2, 0])
    eq([blocks(32, s * KB) for s in (6, 7, 48, 100, 113, 114, 227, 228)], [32, 28, 4, 2, 2, 1, 1, 0])
    eq(d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, 256, 0, 1), SUCCESS)
    eq(n.value, 8)
    eq(d.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, 256, 0, 2), INVALID)
    eq(d.cuOccupancyMaxActiveBlocksPerMultiprocessor(n, f, 0, 0), INVALID)
    eq(d.cuOccupancyMaxActiveBlocksPerMultiprocessor(n, 0x1230, 1, 0), HANDLE)
    eq(d.value("cuOccupancyAvailableDynamicSMemPerBlock", f, 2, 256), 113 * KB)
    eq(d.value("cuOccupancyAvailableDynamicSMemPerBlock", f, 1, 256), 227 * KB)
    eq(d.cuOccupancyAvailableDynamicSMemPerBlock(C.c_uint64(), f, 3, 1024), INVALID)


@started("the block size with the most threads")
def the_block_size_with_the_most_threads(d):
    f, grid, block = function(d), C.c_int(), C.c_int()
    eq(d.cuOccupancyMaxPotentialBlockSize(grid, block, f, None, 0, 0), SUCCESS)
    eq((grid.value, block.value), (264, 1024))
    eq(d.cuOccupancyMaxPotentialBlockSize(grid, block, f, None, 0, 200), SUCCESS)
    eq((grid.value, block.value), (2112, 128))  # 16 blocks of 128 are 2048 threads, 10 of 192 are not
    each = C.CFUNCTYPE(C.c_size_t, C.c_int)(lambda size: size * 300)  # 227 KiB are 774 threads'
    eq(d.cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, each, 0, 0, 0), SUCCESS)
    eq((grid.value, block.value), (132, 768))


@started("clusters")
def clusters(d):
    f, n = function(d), C.c_int()
    eq(d.cuOccupancyMaxPotentialClusterSize(n, f, config(128)), SUCCESS)
    eq(n.value, 8)
    eq(d.cuFuncSetAttribute(f, NON_PORTABLE, 1), SUCCESS)
    eq(d.cuOccupancyMaxPotentialClusterSize(n, f, config(128)), SUCCESS)
    eq(n.value, 16)
    eq(d.cuOccupancyMaxActiveClusters(n, f, config(1024, 2)), SUCCESS)
    eq(n.value, 132)  # 132 multiprocessors with 2 blocks each
    eq(d.cuOccupancyMaxActiveClusters(n, f, config(1024)), CLUSTER)
    eq(d.cuOccupancyMaxActiveClusters(n, f, config(1024, 17)), CLUSTER)
    for i in range(3):
        eq(d.cuFuncSetAttribute(f, WIDTH + i, 2 if i < 2 else 1), SUCCESS)
    eq(d.cuOccupancyMaxPotentialClusterSize(n, f, config(128)), SUCCESS)
    eq(n.value, 4)
    eq(d.cuOccupancyMaxActiveClusters(n, f, config(1024)), SUCCESS)
    eq(n.value, 66)
    eq(d.cuOccupancyMaxActiveClusters(n, f, config(1024, 2)), CLUSTER)  # not what it requires


@started("tensor maps are checked")
def tensor_maps_are_checked(d):
    room = (C.c_ubyte * 256)()
    at = C.addressof(room) + 63 & ~63
    data = d.take(MB)

    def tiled(map_at=at, rank=2, address=data, sizes=(1024, 64), strides=(2048,), box=(64, 64), steps=(1, 1),
              interleave=0):
        return d.cuTensorMapEncodeTiled(map_at, 6, rank, address, (C.c_uint64 * 5)(*sizes), (C.c_uint64 * 4)(*strides),
                                        (C.c_uint * 5)(*box), (C.c_uint * 5)(*steps), interleave, 0, 0, 0)

    eq(tiled(), SUCCESS)
    eq(C.c_uint64.from_address(at).value, data)
    for wrong in ({"map_at": at + 8}, {"rank": 0}, {"rank": 6}, {"address": data + 8}, {"sizes": (0, 64)},
                  {"sizes": (1024, (1 << 32) + 1)}, {"strides": (2056,)}, {"strides": (1 << 40,)}, {"box": (64, 257)},
                  {"box": (0, 64)}, {"steps": (1, 9)}, {"steps": (1, 0)}, {"interleave": 1}):
        eq(tiled(**wrong), INVALID, wrong)
    eq(tiled(steps=(0, 1)), SUCCESS)  # without interleaving the first is ignored
    low = (C.c_int * 3)(0, 0, 0)
    for rank, wanted in ((2, INVALID), (3, SUCCESS), (5, SUCCESS)):
        sizes, strides, steps = (C.c_uint64 * 5)(*[64] * 5), (C.c_uint64 * 4)(*[128] * 4), (C.c_uint * 5)(*[1] * 5)
        eq(d.cuTensorMapEncodeIm2col(at, 6, rank, data, sizes, strides, low, low, 64, 64, steps, 0, 0, 0, 0), wanted)
    eq(d.cuTensorMapReplaceAddress(at, data + 4096), SUCCESS)
    eq(C.c_uint64.from_address(at).value, data + 4096)
    eq(d.cuTensorMapReplaceAddress(at, data + 1), INVALID)


# ---- code that is loaded when it is needed ---------------------------------------------------------------------------

def full(d):
    """Takes all but less than a module's memory."""
    return d.take((d.free() - 2 * MB) // (2 * MB) * 2 * MB)


LAZY = {"SIM_MODULE_KB": "4096", "SIM_MEM_MB": "256"}


@started("code that does not fit at its first use is refused there, and nothing is taken", **LAZY)
def code_that_does_not_fit(d):
    modules = [d.value("cuModuleLoadData", b"image") for _ in range(2)]
    f = C.c_uint64()
    eq(d.cuModuleEnumerateFunctions(f, 1, modules[1]), SUCCESS)
    lib = library(d)
    k, out = d.value("cuLibraryGetKernel", lib, b"kernel"), C.c_uint64(5)
    held, free = full(d), d.free()
    uses = [("cuModuleGetFunction", lambda: d.cuModuleGetFunction(out, modules[0], b"kernel")),
            ("cuModuleGetGlobal_v2", lambda: d.cuModuleGetGlobal_v2(out, None, modules[0], b"variable")),
            ("cuFuncLoad", lambda: d.cuFuncLoad(f.value)), ("launch", lambda: launch(d, f.value)),
            ("launch of a kernel", lambda: launch(d, k)),
            ("cuKernelGetFunction", lambda: d.cuKernelGetFunction(out, k)),
            ("cuLibraryGetModule", lambda: d.cuLibraryGetModule(out, lib)),
            ("cuLibraryGetGlobal", lambda: d.cuLibraryGetGlobal(out, None, lib, b"variable"))]
    for name, use in uses:
        eq(use(), OOM, name)
        eq((out.value, d.free()), (5, free), name)
    eq(d.cuLibraryGetKernel(out, lib, b"another"), SUCCESS)  # needs no context, and no memory
    eq(d.cuMemFree_v2(held), SUCCESS)
    start = d.free()
    for name, use in uses:
        eq(use(), SUCCESS, name)
    eq(start - d.free(), 3 * 4096 * KB + 2 * MB)  # two modules, the library's, and a chunk for two variables
    eq((d.cuModuleUnload(modules[0]), d.cuModuleUnload(modules[1]), d.cuLibraryUnload(lib)), (SUCCESS,) * 3)
    eq(d.free(), start)


@alone("code may be loaded with the kernel's handle", SIM_KERNELS_LOAD="1", **LAZY)
def code_may_be_loaded_with_the_handle():
    d = Driver()
    d.cuInit(0)
    early, out = library(d), C.c_uint64()
    eq(d.cuLibraryGetKernel(out, early, b"kernel"), SUCCESS)  # there is no context yet
    d.start()
    held = full(d)
    lib = library(d)
    eq(d.cuLibraryGetKernel(out, lib, b"kernel"), OOM)
    d.cuMemFree_v2(held)
    start = d.free()
    eq(d.cuLibraryGetKernel(out, lib, b"kernel"), SUCCESS)
    eq(start - d.free(), 4096 * KB)


@started("the runtime's first launch says that the code does not fit", **LAZY)
def the_runtimes_first_launch(d):
    rt = C.CDLL(os.path.join(SIM, "libcudart.so.13"))
    rt.__cudaRegisterFatBinary.restype = C.c_void_p
    host = C.c_char_p(b"a host function")
    image = C.c_void_p(rt.__cudaRegisterFatBinary(b"image"))
    rt.__cudaRegisterFunction(image, host, b"kernel", b"kernel", -1, None, None, None, None, None)

    class Dim3(C.Structure):
        _fields_ = [("x", C.c_uint), ("y", C.c_uint), ("z", C.c_uint)]

    def call():
        return rt.cudaLaunchKernel(host, Dim3(1, 1, 1), Dim3(1, 1, 1), None, C.c_size_t(0), None)

    attributes, n = (C.c_int * 40)(), C.c_int()
    held = full(d)
    free = d.free()
    eq((call(), rt.cudaGetLastError()), (OOM, OOM))
    eq(rt.cudaFuncGetAttributes(attributes, host), OOM)
    eq(rt.cudaFuncSetAttribute(host, DYNAMIC, 64 * KB), SUCCESS)  # of the kernel: no code is needed
    eq(d.free(), free)
    d.cuMemFree_v2(held)
    eq(rt.cudaFuncGetAttributes(attributes, host), SUCCESS)
    eq(list(attributes[6:12]), [1024, 32, 90, 90, 0, 64 * KB])  # threads, registers, PTX, binary, cache, dynamic
    eq(call(), SUCCESS)
    eq(rt.cudaOccupancyMaxActiveBlocksPerMultiprocessor(C.byref(n), host, 256, C.c_size_t(48 * KB)), SUCCESS)
    eq(n.value, 4)
    eq(rt.cudaFuncGetAttributes(attributes, C.c_char_p(b"no function")), 98)


# ---- streams, events and graphs take memory, too ---------------------------------------------------------------------

@alone("streams and events may take memory, and end with their context",
       SIM_STREAM_KB="1024", SIM_EVENT_KB="64", SIM_MEM_MB="256")
def streams_and_events_may_take_memory():
    d = Driver()
    ctx = d.start()
    start = d.free()
    s, e = d.value("cuStreamCreate", 0), d.value("cuEventCreate", 0)
    t = d.value("cuStreamCreateWithPriority", 1, -1)
    eq(start - d.free(), 2 * MB + 64 * KB)
    eq((d.cuMemAllocAsync(C.c_uint64(), 1, 2), d.cuEventRecord(e, 0)), (SUCCESS, SUCCESS))  # the streams that are there
    eq(d.cuStreamDestroy_v2(s), SUCCESS)
    eq(d.cuEventDestroy_v2(e), SUCCESS)
    eq(start - d.free(), MB + 32 * MB)  # and the pool
    held = d.take(d.free() // (2 * MB) * 2 * MB)
    kept = []
    while d.free() >= MB:
        kept.append(d.value("cuStreamCreate", 0))
    while d.free() >= 64 * KB:
        kept.append(d.value("cuEventCreate", 0))
    out = C.c_uint64(5)
    eq([d.cuStreamCreate(out, 0), d.cuStreamCreateWithPriority(out, 0, 0), d.cuEventCreate(out, 0), out.value],
       [OOM, OOM, OOM, 5])
    eq(d.cuStreamQuery(t), SUCCESS)
    eq(d.cuMemFree_v2(held), SUCCESS)
    other = d.value("cuCtxCreate_v2", 0, 0)
    before = d.free()
    d.value("cuStreamCreate", 0)
    d.value("cuEventCreate", 0)
    eq(before - d.free(), MB + 64 * KB)
    eq(d.cuCtxDestroy_v2(other), SUCCESS)
    eq(d.cuCtxSetCurrent(ctx), SUCCESS)
    eq(d.free(), before + 64 * MB)
    eq(d.cuDevicePrimaryCtxReset_v2(0), SUCCESS)
    d.start()
    eq(d.free(), start)


@started("streams and events take nothing unless it is asked for", SIM_NEIGHBOUR_MB="2000", SIM_CTX_MB="0")
def streams_and_events_take_nothing(d):
    eq(d.free(), 0)  # the neighbour has more than there is
    d.value("cuStreamCreate", 0)
    d.value("cuEventCreate", 0)


@started("an executable graph is charged when it is made, and given back when it ends",
         SIM_GRAPH_KB="3072", SIM_MEM_MB="128")
def an_executable_graph_is_charged(d):
    start, g, made = d.free(), d.value("cuGraphCreate", 0), []
    x = C.c_uint64()
    while d.free() >= 3 * MB:
        eq(d.cuGraphInstantiateWithFlags(x, g, 0), SUCCESS)
        made.append(x.value)
        eq(start - d.free(), len(made) * 3 * MB)
    for again in (lambda: d.cuGraphInstantiateWithFlags(x, g, 0), lambda: d.cuGraphInstantiateWithParams(x, g, None)):
        eq(again(), OOM)
    eq(x.value, made[-1])
    eq(d.cuGraphLaunch(made[0], 0), SUCCESS)
    eq(d.cuGraphDestroy(g), SUCCESS)
    eq(start - d.free(), len(made) * 3 * MB)
    for one in made:
        eq(d.cuGraphExecDestroy(one), SUCCESS)
    eq((d.free(), d.cuGraphExecDestroy(made[0])), (start, INVALID))


run_suite()
