#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: nvcc
"""The simulated driver and the stand-in runtime against rules written by hand."""
import ctypes as C
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from alone import *  # noqa: E402,F403
from driver import *  # noqa: E402,F403
from tap import ROOT, SIM, Skip  # noqa: E402

CUDA_LIB = "/usr/local/cuda/lib64"


# ---- devices, contexts ----------------------------------------------------------------------------------------

@alone("nothing works before cuInit", SIM_DEVICES="2", SIM_MEM_MB="512,256")
def nothing_works_before_cuInit():
    d = Driver()
    count = C.c_int()
    eq(d.cuDeviceGetCount(count), NOT_INIT)
    eq(d.alloc(100)[0], NOT_INIT)
    eq(d.cuInit(1), INVALID)
    eq(d.cuInit(0), SUCCESS)
    eq(d.value("cuDeviceGetCount", kind=C.c_int), 2)
    eq(d.value("cuDeviceTotalMem_v2", 1), 256 * MB)
    eq(d.cuDeviceGet(count, 2), 101)
    eq(d.alloc(100)[0], BAD_CONTEXT)
    eq(d.value("cuDriverGetVersion", kind=C.c_int), 13000)


@alone("parameters from a file", SIM_PARAMS="@/parameters", SIM_CTX_MB="10")
def parameters_from_a_file():
    with open(os.environ["SIM_PARAMS"], "w") as f:
        f.write("# measured\nSIM_MEM_MB 300 # and so on\nSIM_CTX_MB 20\n")
    d = Driver()
    d.start()
    eq(d.info(), (290 * MB, 300 * MB))


@started("parameters hold when the program overwrites its environment")
def environment_overwritten(d):
    path, find = os.environ["SIM_LEDGER"], C.CDLL(None).getenv
    find.restype = C.c_void_p
    child = os.fork()
    if not child:
        C.memset(find(b"SIM_LEDGER"), 0, len(path))  # as setproctitle does
        d.alloc(MB)  # (fails after a fork, and is in the ledger)
        os._exit(0)
    os.waitpid(child, 0)
    eq(os.path.exists(path.replace("%p", str(child))), True)


@alone("no device", SIM_DEVICES="0")
def no_device():
    d = Driver()
    eq(d.cuInit(0), NO_DEVICE)
    eq(d.alloc(1)[0], NOT_INIT)


@alone("the primary context is counted", SIM_CTX_MB="64")
def the_primary_context_is_counted():
    d = Driver()
    d.cuInit(0)
    a = d.value("cuDevicePrimaryCtxRetain", 0)
    eq(d.value("cuDevicePrimaryCtxRetain", 0), a)
    d.cuCtxSetCurrent(a)
    free, total = d.info()
    eq(total - free, 64 * MB)
    p = d.take(10 * MB)
    eq(d.cuDevicePrimaryCtxRelease_v2(0), SUCCESS)
    eq(total - d.free(), 74 * MB)
    eq(d.cuDevicePrimaryCtxRelease_v2(0), SUCCESS)
    eq(d.cuMemFree_v2(p), DESTROYED)
    eq(d.cuDevicePrimaryCtxRelease_v2(0), BAD_CONTEXT)
    eq(d.value("cuDevicePrimaryCtxRetain", 0), a)  # alive again, at the same address, and empty
    eq(d.info(), (total - 64 * MB, total))
    eq(d.cuMemFree_v2(p), INVALID)
    eq([e["op"] for e in ledger() if "context" in e["op"]], ["context-create", "context-destroy", "context-create"])


@alone("destroying a context ends its memory but no pool and no vmm memory")
def destroying_a_context_ends_its_memory_but_no_pool_and_no_vmm_memory():
    d = Driver()
    d.cuInit(0)
    ctx = d.value("cuCtxCreate_v2", 0, 0)
    before = d.free()
    d.take(20 * MB)
    d.value("cuMemHostAlloc", 4096, 0)
    d.value("cuArrayCreate_v2", ArrayDesc(1024, 1024, 0x20, 1))
    a = d.value("cuMemAllocAsync", 1 * MB, 0)
    h = d.value("cuMemCreate", 4 * MB, device_prop(), 0)
    other = d.value("cuCtxCreate_v2", 0, 0)
    eq(d.cuCtxDestroy_v2(ctx), SUCCESS)
    eq(d.free(), before - 64 * MB - 32 * MB - 4 * MB + 64 * MB)  # the pool's block and the handle stay
    eq(d.cuMemFreeAsync(a, 0), SUCCESS)
    eq(d.cuMemRelease(h), SUCCESS)
    eq(d.cuCtxSynchronize(), SUCCESS)
    eq(d.free(), before)
    eq(d.cuCtxDestroy_v2(ctx), BAD_CONTEXT)
    eq(d.cuCtxDestroy_v2(other), SUCCESS)
    eq(d.alloc(1)[0], BAD_CONTEXT if d.value("cuCtxGetCurrent") == 0 else DESTROYED)


@alone("resetting the device ends everything of the context and the pools")
def resetting_the_device_ends_everything_of_the_context_and_the_pools():
    d = Driver()
    ctx = d.start()
    start = d.free()
    p, a = d.take(20 * MB), d.value("cuMemAllocAsync", 1 * MB, 0)
    eq(d.cuDevicePrimaryCtxReset_v2(0), SUCCESS)
    eq(d.alloc(1)[0], DESTROYED)
    eq(d.value("cuDevicePrimaryCtxRetain", 0), ctx)
    eq(d.free(), start)
    eq(d.cuMemFree_v2(p), INVALID)
    eq(d.cuMemFree_v2(a), INVALID)


@alone("a stack of contexts per thread")
def a_stack_of_contexts_per_thread():
    d = Driver()
    d.cuInit(0)
    a, b = d.value("cuCtxCreate_v2", 0, 0), d.value("cuCtxCreate_v2", 0, 0)
    eq(d.value("cuCtxGetCurrent"), b)
    eq(d.value("cuCtxPopCurrent_v2"), b)
    eq(d.value("cuCtxGetCurrent"), a)
    eq(d.cuCtxPushCurrent_v2(b), SUCCESS)
    seen = []
    t = threading.Thread(target=lambda: seen.append(d.alloc(1)[0]))
    t.start()
    t.join()
    eq(seen, [BAD_CONTEXT])
    eq(d.cuCtxPushCurrent_v2(0x1234), BAD_CONTEXT)


@started("a context that does not fit is refused", SIM_MEM_MB="256", SIM_CTX_MB="200")
def a_context_that_does_not_fit_is_refused(d):
    out = C.c_uint64()
    eq(d.cuCtxCreate_v2(out, 0, 0), OOM)
    eq(ledger()[-1]["result"], OOM)


@alone("green contexts retain the primary context")
def green_contexts_retain_the_primary_context():
    d = Driver()
    d.cuInit(0)
    resource = (C.c_ubyte * 512)()
    if not hasattr(d.lib, "cuGreenCtxCreate"):
        raise Skip("the headers are older than green contexts")
    eq(d.cuDeviceGetDevResource(0, resource, 1), SUCCESS)
    desc = d.value("cuDevResourceGenerateDesc", resource, 1)
    green = d.value("cuGreenCtxCreate", desc, 0, 1)
    ctx = d.value("cuCtxFromGreenCtx", green)
    eq(d.cuCtxSetCurrent(ctx), SUCCESS)
    free, total = d.info()
    eq(total - free, 64 * MB)
    d.take(MB)
    eq(d.cuGreenCtxDestroy(green), SUCCESS)
    eq(ledger()[-1]["free"], total)  # it was the last reference to the primary context


@started("limits take memory")
def limits_take_memory(d):
    free = d.free()
    eq(d.cuCtxSetLimit(2, 72 * MB), SUCCESS)  # the malloc heap, 8 MiB of which the context has
    eq(free - d.free(), 64 * MB)
    eq(d.cuCtxSetLimit(2, 8 * MB), SUCCESS)
    eq(d.free(), free)
    eq(d.cuCtxSetLimit(2, 1 << 39), OOM)
    eq(d.cuCtxSetLimit(99, 1), 215)
    eq(ops()[-4:], ["limit"] * 4)


@started("a child after fork has no cuda")
def a_child_after_fork_has_no_cuda(d):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if d.alloc(1)[0] == NOT_INIT and d.cuInit(0) == NOT_INIT else 1)
    eq(os.waitpid(pid, 0)[1], 0)
    d.take(1)


# ---- device memory ---------------------------------------------------------------------------------------------

@started("memory is counted by the chunk and addresses are used again")
def memory_is_counted_by_the_chunk_and_addresses_are_used_again(d):
    start = d.free()
    a, b = d.take(1), d.take(513)
    eq((a % 512, b - a), (0, 512))
    eq(start - d.free(), 2 * MB)
    eq(d.cuMemFree_v2(a), SUCCESS)
    eq(start - d.free(), 2 * MB)
    eq(d.take(512), a)
    big = d.take(3 * MB)
    eq(start - d.free(), 6 * MB)
    for p in (a, b, big):
        eq(d.cuMemFree_v2(p), SUCCESS)
    eq(d.free(), start)
    eq(d.take(3 * MB) in (a, big), True, "first fit gives an address that was free'd")


@started("what cannot be freed")
def what_cannot_be_freed(d):
    p = d.take(4096)
    eq(d.cuMemFree_v2(0), SUCCESS)
    eq(d.cuMemFree_v2(p + 512), INVALID)
    eq(d.cuMemFree_v2(0xdead000), INVALID)
    eq(d.cuMemFree_v2(p), SUCCESS)
    eq(d.cuMemFree_v2(p), INVALID)
    eq(d.alloc(0)[0], INVALID)
    eq([(e["op"], e["result"]) for e in ledger()[-6:]],
       [("free", 0), ("free", 1), ("free", 1), ("free", 0), ("free", 1), ("alloc", 1)])


@started("an allocation over capacity is refused", SIM_MEM_MB="256", SIM_CTX_MB="56")
def an_allocation_over_capacity_is_refused(d):
    p = d.take(150 * MB)
    eq(d.alloc(51 * MB)[0], OOM)
    eq(d.free(), 50 * MB)
    e = ledger()[-1]
    eq((e["op"], e["bytes"], e["result"], e["free"], e["total"], "ptr" in e),
       ("alloc", 51 * MB, OOM, 50 * MB, 256 * MB, False))
    d.take(50 * MB)
    eq(d.alloc(1)[0], OOM)
    d.cuMemFree_v2(p)
    d.take(150 * MB)
    eq(d.alloc(1 << 63)[0], OOM)


@started("pitch and managed")
def pitch_and_managed(d):
    p, pitch = C.c_uint64(), C.c_size_t()
    eq(d.cuMemAllocPitch_v2(p, pitch, 1000, 10, 4), SUCCESS)
    eq(pitch.value, 1024)
    eq(ledger()[-1]["bytes"], 10240)
    eq(d.cuMemAllocPitch_v2(p, pitch, 1000, 10, 3), INVALID)
    free = d.free()
    m = d.value("cuMemAllocManaged", 5 * MB, 1)
    eq(d.free(), free)
    C.memset(m, 7, 100)  # the host can touch it
    eq(d.cuMemPrefetchAsync(m, 5 * MB, 0, 0), SUCCESS)
    eq(free - d.free(), 6 * MB)
    eq(d.cuMemPrefetchAsync(m, 5 * MB, -1, 0), SUCCESS)
    eq(d.free(), free)
    kind = C.c_uint()
    eq(d.cuPointerGetAttribute(kind, 8, m + 5), SUCCESS)
    eq(kind.value, 1)
    eq(d.cuMemFree_v2(m), SUCCESS)


@alone("two devices", SIM_DEVICES="2", SIM_MEM_MB="256,128")
def two_devices():
    d = Driver()
    a = d.start(0)
    b = d.value("cuDevicePrimaryCtxRetain", 1)
    p = d.take(100 * MB)
    d.cuCtxSetCurrent(b)
    eq(d.alloc(100 * MB)[0], OOM)
    q = d.take(50 * MB)
    eq(d.info(), (14 * MB, 128 * MB))
    eq(d.cuMemFree_v2(p), SUCCESS)  # with the other device's context current
    eq((ledger()[-1]["device"], ledger()[-1]["free"]), (0, 192 * MB))
    d.cuCtxSetCurrent(a)
    eq(d.free(), 192 * MB)
    eq(d.cuMemFree_v2(q), SUCCESS)


@started("copies are done")
def copies_are_done(d):
    p, q = d.take(64), d.take(64)
    back = C.create_string_buffer(6)
    eq(d.cuMemcpyHtoD_v2(p, b"hello", 6), SUCCESS)
    eq(d.cuMemcpyDtoD_v2(q, p, 6), SUCCESS)
    eq(d.cuMemcpyDtoH_v2(back, q, 6), SUCCESS)
    eq(back.value, b"hello")
    eq(d.cuMemcpyHtoD_v2(p + 60, b"hello", 6), INVALID)
    eq(d.cuMemsetD8_v2(p, ord("x"), 5), SUCCESS)
    d.cuMemcpyDtoH_v2(back, p, 5)
    eq(back.value, b"xxxxx")


class Rows(C.Structure):
    """CUDA_MEMCPY2D: of each side x, y, memory type (1 host, 2 device, 3 array, 4 unified), and what is of that type."""
    _fields_ = [(side + name, kind) for side in ("from_", "to_") for name, kind in
                (("x", C.c_size_t), ("y", C.c_size_t), ("type", C.c_int), ("host", C.c_void_p), ("device", C.c_uint64),
                 ("array", C.c_void_p), ("pitch", C.c_size_t))] + [("width", C.c_size_t), ("height", C.c_size_t)]


@started("rows are copied with their pitches")
def rows_are_copied_with_their_pitches(d):
    size = 64 << 10
    text = C.create_string_buffer(bytes(i * 7 % 256 for i in range(size)), size)
    p, q = d.take(size), d.take(size)

    def moved(was, at, pitch, to, to_pitch, width, height):
        now = bytearray(was)
        for i in range(height):
            now[to + i * to_pitch:to + i * to_pitch + width] = text.raw[at + i * pitch:at + i * pitch + width]
        return bytes(now)

    rows = Rows(from_type=1, from_host=C.addressof(text), from_x=5, from_y=3, from_pitch=100, to_type=2, to_device=p,
                to_x=9, to_y=2, to_pitch=512, width=64, height=40)
    wanted = moved(bytes(size), 305, 100, 1033, 512, 64, 40)
    eq(d.cuMemcpy2D_v2(rows), SUCCESS)
    eq(C.string_at(p, size) == wanted, True)
    back = Rows(from_type=2, from_device=p, from_pitch=512, to_type=4, to_device=q, to_pitch=64, width=64, height=128)
    eq(d.cuMemcpy2DAsync_v2(back, 0), SUCCESS)
    eq(C.string_at(q, 64 * 128), b"".join(wanted[i * 512:i * 512 + 64] for i in range(128)))
    whole = Rows(from_type=1, from_host=C.addressof(text), from_pitch=256, to_type=2, to_device=q, to_pitch=256,
                 width=256, height=256)
    eq(d.cuMemcpy2DUnaligned_v2(whole), SUCCESS)
    eq(C.string_at(q, size) == text.raw, True)
    array = d.value("cuArrayCreate_v2", ArrayDesc(64, 64, 0x01, 1))
    rows = Rows(from_type=3, from_array=array, to_type=2, to_device=p, to_pitch=64, width=64, height=64)
    eq(d.cuMemcpy2D_v2(rows), SUCCESS)
    for wrong in ({"width": 513}, {"height": 128}, {"to_device": 64}, {"to_type": 9}, {"to_type": 3, "to_array": p}):
        rows = Rows(from_type=1, from_host=C.addressof(text), from_pitch=64, to_type=2, to_device=p + 4096,
                    to_pitch=512, width=64, height=100)
        for name, value in wrong.items():
            setattr(rows, name, value)
        eq(d.cuMemcpy2D_v2(rows), INVALID, wrong)


@started("old abis fail and are no allocation")
def old_abis_fail_and_are_no_allocation(d):
    out = C.c_uint()
    eq(d.cuMemAlloc(out, 100), 801)
    eq(ops(), ["context-create"])


@started("host memory is real")
def host_memory_is_real(d):
    p = d.value("cuMemHostAlloc", 10000, 3)
    C.memset(p, 1, 10000)
    eq(d.cuMemHostAlloc(C.c_uint64(), 10, 0x80), INVALID)
    eq(d.value("cuMemHostGetDevicePointer_v2", p + 8, 0), p + 8)
    mine = C.create_string_buffer(1 << 16)
    at = C.addressof(mine)
    eq(d.cuMemHostRegister_v2(at, 4096, 0), SUCCESS)
    eq(d.cuMemHostRegister_v2(at + 100, 4096, 0), 712)
    eq(d.cuMemHostUnregister(at + 100), 713)
    eq(d.cuMemHostUnregister(at), SUCCESS)
    eq(d.cuMemHostUnregister(at), 713)
    eq(d.cuMemFree_v2(p), INVALID)
    eq(d.cuMemFreeHost(p), SUCCESS)
    eq(d.cuMemFreeHost(p), INVALID)


# ---- pools -----------------------------------------------------------------------------------------------------

THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = 4, 5, 6, 7, 8


@started("a pool reserves and gives back at a synchronise")
def a_pool_reserves_and_gives_back_at_a_synchronise(d):
    pool, start = d.value("cuDeviceGetDefaultMemPool", 0), d.free()
    p = d.value("cuMemAllocAsync", 1000, 0)
    eq((d.pool_attribute(pool, RESERVED), d.pool_attribute(pool, USED)), (32 * MB, 1024))
    eq(start - d.free(), 32 * MB)
    q = d.value("cuMemAllocAsync", 40 * MB, 0)
    eq(d.pool_attribute(pool, RESERVED), 72 * MB)
    eq(d.cuMemFreeAsync(q, 0), SUCCESS)
    eq(d.pool_attribute(pool, RESERVED), 72 * MB)
    eq(d.cuStreamSynchronize(0), SUCCESS)
    eq((d.pool_attribute(pool, RESERVED), d.pool_attribute(pool, RESERVED_HIGH)), (32 * MB, 72 * MB))
    eq(d.cuMemFree_v2(p), SUCCESS)
    eq(d.pool_attribute(pool, USED), 0)
    eq(d.cuMemFreeAsync(p, 0), INVALID)
    eq(d.cuMemPoolSetAttribute(pool, THRESHOLD, C.c_uint64(1 << 40)), SUCCESS)
    p = d.value("cuMemAllocAsync", 1000, 0)
    eq(d.cuMemFreeAsync(p, 0), SUCCESS)
    eq(d.cuCtxSynchronize(), SUCCESS)
    eq(start - d.free(), 32 * MB)
    eq(d.cuMemPoolTrimTo(pool, 1), SUCCESS)
    eq(d.pool_attribute(pool, RESERVED), 32 * MB)  # a block cannot be given back in part
    eq(d.cuMemPoolTrimTo(pool, 0), SUCCESS)
    eq(d.free(), start)
    eq(d.cuMemPoolSetAttribute(pool, USED_HIGH, C.c_uint64(5)), INVALID)
    eq(d.cuMemPoolSetAttribute(pool, USED_HIGH, C.c_uint64(0)), SUCCESS)
    eq(d.pool_attribute(pool, USED_HIGH), 0)
    eq(d.cuMemPoolDestroy(pool), INVALID)


@started("a destroyed pool lives until its last allocation is freed")
def a_destroyed_pool_lives_until_its_last_allocation_is_freed(d):
    start = d.free()
    pool = d.value("cuMemPoolCreate", pool_props())
    p = d.value("cuMemAllocFromPoolAsync", 5 * MB, pool, 0)
    eq(ledger()[-1]["pool"], hex(pool))
    eq(d.cuMemPoolDestroy(pool), SUCCESS)
    eq(d.cuMemAllocFromPoolAsync(C.c_uint64(), 1, pool, 0), INVALID)
    eq(start - d.free(), 32 * MB)
    eq(d.cuMemFreeAsync(p, 0), SUCCESS)
    eq(d.free(), start)
    eq(d.cuMemPoolDestroy(pool), INVALID)


@started("a pool on a full device grows by less and then fails", SIM_MEM_MB="128", SIM_CTX_MB="64")
def a_pool_on_a_full_device_grows_by_less_and_then_fails(d):
    d.take(40 * MB)
    p = d.value("cuMemAllocAsync", 10 * MB, 0)
    eq(d.free(), 14 * MB)
    eq(d.cuMemAllocAsync(C.c_uint64(), 20 * MB, 0), OOM)
    eq((ledger()[-1]["op"], ledger()[-1]["result"]), ("alloc", OOM))
    eq(d.cuMemFreeAsync(p, 0), SUCCESS)
    d.value("cuMemAllocAsync", 20 * MB, 0)  # what the pool has cached makes room


@started("the current pool and a maximum size")
def the_current_pool_and_a_maximum_size(d):
    pool = d.value("cuMemPoolCreate", pool_props(max_size=40 * MB))
    eq(d.cuDeviceSetMemPool(C.c_int(0).value, pool), SUCCESS)
    eq(d.value("cuDeviceGetMemPool", 0), pool)
    d.value("cuMemAllocAsync", 30 * MB, 0)
    eq(d.cuMemAllocAsync(C.c_uint64(), 30 * MB, 0), OOM)
    eq(d.cuMemPoolDestroy(pool), SUCCESS)
    eq(d.value("cuDeviceGetMemPool", 0), d.value("cuDeviceGetDefaultMemPool", 0))


@started("per thread streams")
def per_thread_streams(d):
    p = d.value("cuMemAllocAsync_ptsz", 100, 0)
    eq(d.cuMemFreeAsync_ptsz(p, 0), SUCCESS)
    eq([e["api"] for e in ledger()[-2:]], ["cuMemAllocAsync_ptsz", "cuMemFreeAsync_ptsz"])
    eq(d.cuMemAllocAsync(C.c_uint64(), 100, 0x1234), 400)


# ---- VMM -------------------------------------------------------------------------------------------------------

@started("memory goes with the last of handle and mapping")
def memory_goes_with_the_last_of_handle_and_mapping(d):
    start = d.free()
    va, h = mapped(d)
    eq(start - d.free(), 4 * MB)
    eq(d.cuMemRelease(h), SUCCESS)
    eq(d.cuMemRelease(h), INVALID)
    eq(start - d.free(), 4 * MB)
    again = C.c_uint64()
    eq(d.cuMemRetainAllocationHandle(again, va + 100), SUCCESS)
    eq(again.value, h)
    eq(d.cuMemUnmap(va, 4 * MB), SUCCESS)
    eq(start - d.free(), 4 * MB)
    eq(d.cuMemRelease(h), SUCCESS)
    eq(d.free(), start)
    va, h = mapped(d)
    eq(d.cuMemRelease(h), SUCCESS)
    eq(d.cuMemUnmap(va, 4 * MB), SUCCESS)
    eq(ledger()[-1]["free"], start)  # the unmap was the free


@started("what vmm refuses")
def what_vmm_refuses(d):
    out = C.c_uint64()
    eq(d.cuMemCreate(out, MB, device_prop(), 0), INVALID)
    eq(d.cuMemCreate(out, 2 * MB, device_prop(7), 0), 101)
    eq(d.cuMemCreate(out, 1 << 40, device_prop(), 0), OOM)
    eq(d.cuMemAddressReserve(out, MB, 0, 0, 0), INVALID)
    eq(d.cuMemAddressReserve(out, 2 * MB, 3, 0, 0), INVALID)
    eq(d.value("cuMemGetAllocationGranularity", device_prop(), 0), 2 * MB)
    va, h = mapped(d)
    eq(d.cuMemMap(va, 2 * MB, 0, h, 0), INVALID)  # something is there
    eq(d.cuMemUnmap(va, 2 * MB), INVALID)  # a mapping goes as a whole
    eq(d.cuMemUnmap(va + 2 * MB, 2 * MB), INVALID)
    eq(d.cuMemAddressFree(va, 4 * MB), INVALID)  # still mapped
    eq(d.cuMemFree_v2(va), INVALID)
    eq(d.cuMemSetAccess(va, 4 * MB, AccessDesc(Location(1, 0), 3), 1), SUCCESS)
    eq(d.cuMemUnmap(va, 4 * MB), SUCCESS)
    eq(d.cuMemUnmap(va, 4 * MB), INVALID)
    eq(d.cuMemSetAccess(va, 4 * MB, AccessDesc(Location(1, 0), 3), 1), INVALID)
    eq(d.cuMemMap(va, 4 * MB, 2 * MB, h, 0), INVALID)  # beyond the memory
    eq(d.cuMemMap(va, 2 * MB, 2 * MB, h, 0), SUCCESS)
    eq(d.cuMemMap(va + 2 * MB, 2 * MB, 0, h, 0), SUCCESS)
    eq(d.cuMemUnmap(va, 4 * MB), SUCCESS)  # two whole mappings
    eq(d.cuMemAddressFree(va, 2 * MB), INVALID)
    eq(d.cuMemAddressFree(va, 4 * MB), SUCCESS)
    eq(d.value("cuMemAddressReserve", 4 * MB, 0, va, 0), va)


@alone("vmm memory needs no context and host memory no device")
def vmm_memory_needs_no_context_and_host_memory_no_device():
    d = Driver()
    d.cuInit(0)
    h = d.value("cuMemCreate", 2 * MB, device_prop(), 0)
    host = d.value("cuMemCreate", 2 * MB, AllocationProp(type=1, location=Location(2, 0)), 0)
    d.start()
    eq(d.info()[1] - d.free(), 66 * MB)
    eq((d.cuMemRelease(h), d.cuMemRelease(host)), (SUCCESS, SUCCESS))


@started("a descriptor is a reference")
def a_descriptor_is_a_reference(d):
    start, fd, h2 = d.free(), C.c_int(), C.c_uint64()
    h = d.value("cuMemCreate", 4 * MB, device_prop(), 0)
    eq(d.cuMemExportToShareableHandle(fd, h, 1, 0), SUCCESS)
    eq(d.cuMemRelease(h), SUCCESS)
    eq(start - d.free(), 4 * MB)
    more = os.dup(fd.value)
    os.close(fd.value)
    eq(start - d.free(), 4 * MB)
    eq(d.cuMemImportFromShareableHandle(h2, more, 1), SUCCESS)
    os.close(more)
    eq(start - d.free(), 4 * MB)
    eq(d.cuMemRelease(h2.value), SUCCESS)
    eq(d.free(), start)
    eq(d.cuMemImportFromShareableHandle(h2, 0, 1), INVALID)
    unshared = d.value("cuMemCreate", 2 * MB, device_prop(handles=0), 0)
    eq(d.cuMemExportToShareableHandle(fd, unshared, 1, 0), INVALID)


@started("multicast keeps its members", SIM_DEVICES="2")
def multicast_keeps_its_members(d):
    start = d.free()
    mc = d.value("cuMulticastCreate", MulticastProp(2, 4 * MB, 0, 0))
    h = d.value("cuMemCreate", 4 * MB, device_prop(), 0)
    eq(d.cuMulticastBindMem(mc, 0, h, 0, 4 * MB, 0), INVALID)  # the device has not been added
    eq(d.cuMulticastAddDevice(mc, 0), SUCCESS)
    eq(d.cuMulticastBindMem(mc, 0, h, 0, 4 * MB, 0), SUCCESS)
    eq(d.cuMemRelease(h), SUCCESS)
    eq(start - d.free(), 4 * MB)
    eq(d.cuMulticastUnbind(mc, 0, 0, 4 * MB), SUCCESS)
    eq(d.free(), start)
    eq(d.cuMemRelease(mc), SUCCESS)
    eq(ops()[1:], ["create", "create", "map", "access", "map", "release", "unmap", "release"])


@started("a multicast object is shared between processes, each of which adds its device",
         SIM_DEVICES="2", SIM_SHM="@/shm", SIM_NVLINK="1")
def a_multicast_object_is_shared_between_processes(d):
    eq(d.value("cuDeviceGetAttribute", 132, 0, kind=C.c_int), 1)
    mc, fd, h = d.value("cuMulticastCreate", MulticastProp(2, 4 * MB, 1, 0)), C.c_int(), C.c_uint64()
    eq(d.cuMemExportToShareableHandle(fd, mc, 1, 0), SUCCESS)
    eq(d.cuMulticastAddDevice(mc, 0), SUCCESS)
    eq(in_child(f"""
d.start(1)
mc = C.c_uint64()
print(d.cuMemImportFromShareableHandle(mc, {fd.value}, 1), d.cuMulticastAddDevice(mc.value, 1))
h = d.value("cuMemCreate", 4 * MB, device_prop(1), 0)
print(d.cuMulticastBindMem(mc.value, 0, h, 0, 4 * MB, 0), d.cuMulticastUnbind(mc.value, 1, 0, 4 * MB))
""", pass_fds=(fd.value,)).split(), ["0"] * 4)
    eq(d.cuMemImportFromShareableHandle(h, fd.value, 1), SUCCESS)
    eq((d.cuMulticastAddDevice(h.value, 0), d.cuMulticastAddDevice(h.value, 1)), (INVALID, SUCCESS))
    os.close(fd.value)


# ---- arrays, external memory -------------------------------------------------------------------------------------

@started("arrays are padded by row")
def arrays_are_padded_by_row(d):
    start = d.free()
    a = d.value("cuArrayCreate_v2", ArrayDesc(100, 8192, 0x20, 1))  # 400 bytes a row, 512 with padding
    eq((ledger()[-1]["bytes"], ledger()[-1]["handle"]), (400 * 8192, hex(a)))
    eq(start - d.free(), 4 * MB)
    m = d.value("cuMipmappedArrayCreate", Array3DDesc(64, 64, 0, 0x01, 4, 0), 3)
    eq(ledger()[-1]["bytes"], 4 * (64 * 64 + 32 * 32 + 16 * 16))
    level = d.value("cuMipmappedArrayGetLevel", m, 1)
    eq(d.cuArrayDestroy(level), 400)
    eq(d.cuMipmappedArrayDestroy(m), SUCCESS)
    eq(d.cuArrayDestroy(a), SUCCESS)
    eq(d.cuArrayDestroy(a), 400)
    eq(d.free(), start)
    s = d.value("cuArray3DCreate_v2", Array3DDesc(4096, 4096, 0, 0x20, 4, 0x40))
    eq((ledger()[-1]["bytes"], d.free()), (0, start))  # sparse
    eq(d.cuArrayDestroy(s), SUCCESS)
    eq(d.cuArrayCreate_v2(C.c_uint64(), ArrayDesc(0, 1, 0x20, 1)), INVALID)


@started("external memory belongs to others")
def external_memory_belongs_to_others(d):
    start, e, p = d.free(), C.c_uint64(), C.c_uint64()
    desc = ExternalHandle(type=1, size=8 * MB)
    desc.handle.fd = os.open("/dev/null", os.O_RDONLY)
    eq(d.cuImportExternalMemory(e, desc), SUCCESS)
    eq(d.cuExternalMemoryGetMappedBuffer(p, e.value, ExternalBuffer(4 * MB, 8 * MB)), INVALID)
    eq(d.cuExternalMemoryGetMappedBuffer(p, e.value, ExternalBuffer(4 * MB, 4 * MB)), SUCCESS)
    eq(d.free(), start)
    eq(d.cuMemFree_v2(p.value), SUCCESS)
    eq(d.cuDestroyExternalMemory(e.value), SUCCESS)
    eq(ops()[1:], ["import", "map", "map", "free", "release"])


# ---- streams, capture, graphs --------------------------------------------------------------------------------------

def stream(d, flags=1):
    return d.value("cuStreamCreate", flags)


GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2


@started("an allocation in a capture breaks it")
def an_allocation_in_a_capture_breaks_it(d):
    s, g, status = stream(d), C.c_uint64(), C.c_int()
    eq(d.cuStreamBeginCapture_v2(s, GLOBAL), SUCCESS)
    eq(d.cuStreamIsCapturing(s, status), SUCCESS)
    eq(status.value, 1)
    eq(d.alloc(100)[0], 900)
    eq(d.cuStreamIsCapturing(s, status), SUCCESS)
    eq(status.value, 2)
    eq(d.cuMemAllocAsync(C.c_uint64(), 100, s), 901)
    eq(d.cuStreamEndCapture(s, g), 901)
    d.take(100)
    eq(d.cuStreamBeginCapture_v2(s, RELAXED), SUCCESS)
    d.take(100)
    eq(d.cuStreamSynchronize(s), 900)
    eq(d.cuStreamEndCapture(s, g), 901)
    eq(d.cuStreamBeginCapture_v2(0, GLOBAL), 900)


@alone("capture modes and other threads")
def capture_modes_and_other_threads():
    d = Driver()
    ctx = d.start()
    s, g, seen = stream(d), C.c_uint64(), []

    def other():
        d.cuCtxSetCurrent(ctx)
        seen.append(d.alloc(100)[0])

    for mode in (THREAD_LOCAL, GLOBAL):
        eq(d.cuStreamBeginCapture_v2(s, mode), SUCCESS)
        t = threading.Thread(target=other)
        t.start()
        t.join()
        eq(d.cuStreamEndCapture(s, g), 0 if mode == THREAD_LOCAL else 901)
    eq(seen, [0, 900])


@alone("a thread may choose what captures forbid")
def a_thread_may_choose_what_captures_forbid():
    d = Driver()
    ctx = d.start()
    s, g, seen = stream(d), C.c_uint64(), []

    def exchange(mode):
        mode = C.c_int(mode)
        eq(d.cuThreadExchangeStreamCaptureMode(mode), SUCCESS)
        return mode.value

    def other():
        d.cuCtxSetCurrent(ctx)
        for mode in (THREAD_LOCAL, RELAXED):
            exchange(mode)
            seen.append(d.alloc(100)[0])
        seen.append(exchange(GLOBAL))

    eq(d.cuStreamBeginCapture_v2(s, GLOBAL), SUCCESS)
    t = threading.Thread(target=other)
    t.start()
    t.join()
    eq(seen, [0, 0, RELAXED])
    eq(exchange(RELAXED), GLOBAL)
    d.take(100)  # even in the thread that captures
    eq(exchange(THREAD_LOCAL), RELAXED)
    eq(d.alloc(100)[0], 900)
    eq(d.cuStreamEndCapture(s, g), 901)
    eq(d.cuThreadExchangeStreamCaptureMode(C.c_int(7)), INVALID)


@started("the legacy stream cannot be used beside the capture of a blocking stream")
def the_legacy_stream_cannot_be_used_beside_the_capture_of_a_blocking_stream(d):
    s, g = stream(d, flags=0), C.c_uint64()
    eq(d.cuStreamBeginCapture_v2(s, RELAXED), SUCCESS)
    d.value("cuMemAllocAsync_ptsz", 100, 0)  # the thread's own
    eq(d.cuMemAllocAsync(C.c_uint64(), 100, 0), 906)
    eq(d.cuStreamEndCapture(s, g), 901)
    s = stream(d, flags=1)
    eq(d.cuStreamBeginCapture_v2(s, RELAXED), SUCCESS)
    d.value("cuMemAllocAsync", 100, 0)
    eq(d.cuStreamEndCapture(s, g), SUCCESS)


@started("captured allocations are graph memory")
def captured_allocations_are_graph_memory(d):
    start, s, g, x = d.free(), stream(d), C.c_uint64(), C.c_uint64()
    pool = d.value("cuDeviceGetDefaultMemPool", 0)
    eq(d.cuStreamBeginCapture_v2(s, GLOBAL), SUCCESS)
    p = d.value("cuMemAllocAsync", 6 * MB, s)
    eq(d.cuMemFreeAsync(p, s), SUCCESS)
    eq(d.cuStreamEndCapture(s, g), SUCCESS)
    eq(ops()[-2:], ["graph-alloc", "graph-free"])
    eq((d.free(), d.pool_attribute(pool, RESERVED)), (start, 0))
    eq(d.cuGraphInstantiateWithFlags(x, g.value, 0), SUCCESS)
    eq(start - d.free(), 64 << 10)
    eq(d.cuGraphInstantiateWithFlags(C.c_uint64(), g.value, 0), 801)  # only once at a time
    for _ in range(3):
        eq(d.cuGraphLaunch(x.value, s), SUCCESS)
        eq(start - d.free(), (6 << 20) + (64 << 10))

    def graph_memory(attribute):
        out = C.c_uint64()
        eq(d.cuDeviceGetGraphMemAttribute(0, attribute, out), SUCCESS)
        return out.value

    eq([graph_memory(i) for i in range(4)], [0, 6 * MB, 6 * MB, 6 * MB])
    eq(d.cuMemFree_v2(p), INVALID)  # the graph has freed it
    eq(d.cuDeviceGraphMemTrim(0), SUCCESS)
    eq(start - d.free(), 64 << 10)
    eq([graph_memory(i) for i in range(4)], [0, 6 * MB, 0, 6 * MB])
    eq((d.cuGraphExecDestroy(x.value), d.cuGraphDestroy(g.value)), (SUCCESS, SUCCESS))
    eq(d.free(), start)


@started("a graph may leave its memory to the program")
def a_graph_may_leave_its_memory_to_the_program(d):
    g, n, x = d.value("cuGraphCreate", 0), C.c_uint64(), C.c_uint64()
    params = MemAllocNode(pool=pool_props(handles=0), bytes=3 * MB)
    eq(d.cuGraphAddMemAllocNode(n, g, None, 0, params), SUCCESS)
    eq((ledger()[-1]["ptr"], ledger()[-1]["bytes"]), (hex(params.dptr), 3 * MB))
    eq(d.cuGraphInstantiateWithFlags(x, g, 0), SUCCESS)
    eq(d.cuMemFree_v2(params.dptr), INVALID)
    eq(d.cuGraphLaunch(x.value, 0), SUCCESS)
    eq(d.cuGraphLaunch(x.value, 0), INVALID)  # the first launch's memory is not freed yet
    eq(d.cuDeviceGraphMemTrim(0), SUCCESS)
    eq(d.info()[1] - d.free(), (64 << 20) + (4 << 20) + (64 << 10))
    eq(d.cuMemFree_v2(params.dptr), SUCCESS)
    eq(d.cuGraphLaunch(x.value, 0), SUCCESS)
    eq(d.cuMemFreeAsync(params.dptr, 0), SUCCESS)
    eq(d.cuGraphAddMemFreeNode(n, g, None, 0, 0x1000), INVALID)


@started("a graph keeps a user object until the last reference has gone")
def a_graph_keeps_a_user_object(d):
    gone = []

    def destroyed(what):
        gone.append((what, d.free() > 0))  # the driver may be called from here

    destroy = C.CFUNCTYPE(None, C.c_void_p)(destroyed)

    def new(what, references=1):
        return d.value("cuUserObjectCreate", what, destroy, references, 1)

    u = new(11, 2)
    eq(d.cuUserObjectRetain(u, 3), SUCCESS)
    eq((d.cuUserObjectRelease(u, 4), gone), (SUCCESS, []))
    eq((d.cuUserObjectRelease(u, 1), gone), (SUCCESS, [(11, True)]))
    eq(d.cuUserObjectRelease(u, 1), INVALID)
    gone.clear()
    g, u = d.value("cuGraphCreate", 0), new(22)
    eq(d.cuGraphRetainUserObject(g, u, 1, 0), SUCCESS)  # a new reference beside the program's
    eq((d.cuGraphDestroy(g), gone), (SUCCESS, []))
    eq((d.cuUserObjectRelease(u, 1), gone), (SUCCESS, [(22, True)]))
    gone.clear()
    g, u, other, x = d.value("cuGraphCreate", 0), new(33), new(44), C.c_uint64()
    for one in (u, other):
        eq(d.cuGraphRetainUserObject(g, one, 1, 1), SUCCESS)  # the program's own
        eq(d.cuUserObjectRelease(one, 1), INVALID)
    eq(d.cuGraphInstantiateWithFlags(x, g, 0), SUCCESS)
    eq((d.cuGraphReleaseUserObject(g, other, 1), d.cuGraphReleaseUserObject(g, other, 1)), (SUCCESS, INVALID))
    eq((d.cuGraphDestroy(g), gone), (SUCCESS, []))  # the executable has its own references
    eq((d.cuGraphExecDestroy(x.value), sorted(gone)), (SUCCESS, [(33, True), (44, True)]))
    gone.clear()
    g, h, u = d.value("cuGraphCreate", 0), d.value("cuGraphCreate", 0), new(55)
    eq(d.cuGraphRetainUserObject(g, u, 1, 1), SUCCESS)
    eq(d.cuGraphInstantiateWithFlags(x, g, 0), SUCCESS)
    eq((d.cuGraphDestroy(g), gone), (SUCCESS, []))
    eq((d.cuGraphExecUpdate_v2(x.value, h, None), gone), (SUCCESS, [(55, True)]))  # by those of the new graph
    for wrong in ((0, destroy, 0, 1), (0, destroy, 1, 0), (0, destroy, 1 << 31, 1), (0, None, 1, 1)):
        eq(d.cuUserObjectCreate(C.c_uint64(), *wrong), INVALID, wrong[2:])
    eq((d.cuUserObjectRetain(new(1), 0), d.cuGraphRetainUserObject(h, 0x1230, 1, 0)), (INVALID, INVALID))
    eq(d.cuGraphRetainUserObject(h, new(1), 2, 1), INVALID)  # more than the program has


class ConditionalNode(C.Structure):
    """CUgraphNodeParams of a conditional node."""
    _fields_ = [("type", C.c_int), ("reserved", C.c_int * 3), ("handle", C.c_uint64), ("kind", C.c_int),
                ("size", C.c_uint), ("graphs", C.POINTER(C.c_uint64)), ("context", C.c_uint64),
                ("rest", C.c_longlong * 26)]


@alone("a conditional node has the graphs of its bodies")
def a_conditional_node_has_the_graphs_of_its_bodies():
    d = Driver()
    ctx = d.start()
    g, h, n, s = d.value("cuGraphCreate", 0), C.c_uint64(), C.c_uint64(), stream(d)
    eq(d.cuGraphConditionalHandleCreate(h, g, ctx, 1, 1), SUCCESS)
    eq((d.cuGraphConditionalHandleCreate(h, 0x1230, ctx, 1, 1), d.cuGraphConditionalHandleCreate(h, g, ctx, 1, 2)),
       (INVALID, INVALID))
    for kind, size, wanted in ((0, 1, SUCCESS), (0, 2, SUCCESS), (0, 3, INVALID), (1, 1, SUCCESS), (1, 2, INVALID),
                               (2, 5, SUCCESS), (3, 1, INVALID), (0, 0, INVALID)):
        node = ConditionalNode(type=13, handle=h.value, kind=kind, size=size, context=ctx)
        eq(d.cuGraphAddNode_v2(n, g, None, None, 0, node), wanted, (kind, size))
    node = ConditionalNode(type=13, handle=h.value, kind=0, size=2, context=ctx)
    eq(d.cuGraphAddNode_v2(n, g, None, None, 0, node), SUCCESS)
    eq(len({node.graphs[0], node.graphs[1], g}), 3)
    eq(d.cuStreamBeginCaptureToGraph(s, node.graphs[1], None, None, 0, RELAXED), SUCCESS)
    eq((d.cuStreamUpdateCaptureDependencies_v2(s, None, None, 0, 1),
        d.cuStreamUpdateCaptureDependencies(s, None, 0, 2)), (SUCCESS, INVALID))
    eq(d.cuMemsetD8Async(d.take(10), 0, 10, s), SUCCESS)
    eq(d.cuStreamEndCapture(s, C.c_uint64()), SUCCESS)
    eq(d.cuStreamUpdateCaptureDependencies(s, None, 0, 1), 401)
    eq(d.cuGraphGetNodes(node.graphs[1], None, n), SUCCESS)
    eq(n.value, 1)
    body = node.graphs[0]
    eq(d.cuGraphDestroy(g), SUCCESS)
    eq(d.cuGraphGetNodes(body, None, n), INVALID)  # it went with the node


@started("asking for free memory in a capture is counted")
def asking_for_free_memory_in_a_capture_is_counted(d):
    s, g = stream(d), C.c_uint64()
    d.free()
    eq("violation" in ops(), False)
    eq(d.cuStreamBeginCapture_v2(s, GLOBAL), SUCCESS)
    d.free()
    eq([(e["op"], e["api"]) for e in ledger()[-1:]], [("violation", "cuMemGetInfo_v2")])
    eq(d.cuStreamEndCapture(s, g), SUCCESS)
    d.free()
    eq(ops().count("violation"), 1)


@started("capture forks and joins by events")
def capture_forks_and_joins_by_events(d):
    a, b, e, g = stream(d), stream(d), d.value("cuEventCreate", 0), C.c_uint64()

    def fork():
        eq(d.cuStreamBeginCapture_v2(a, GLOBAL), SUCCESS)
        eq(d.cuEventRecord(e, a), SUCCESS)
        eq(d.cuStreamWaitEvent(b, e, 0), SUCCESS)
        d.value("cuMemAllocAsync", 100, b)
        eq(ops()[-1], "graph-alloc")

    fork()
    eq(d.cuStreamEndCapture(a, g), 904)  # not joined
    fork()
    eq(d.cuStreamEndCapture(b, g), 903)  # begun on another stream
    eq(d.cuEventRecord(e, b), SUCCESS)
    eq(d.cuStreamWaitEvent(a, e, 0), SUCCESS)
    eq(d.cuEventSynchronize(e), 907)
    eq(d.cuStreamEndCapture(a, g), SUCCESS)
    d.value("cuMemAllocAsync", 100, b)
    eq(ops()[-1], "alloc")


# ---- code --------------------------------------------------------------------------------------------------------

@started("lazy code takes memory at its first function")
def lazy_code_takes_memory_at_its_first_function(d):
    start = d.free()
    m = d.value("cuModuleLoadData", b"image")
    eq(d.free(), start)
    f = d.value("cuModuleGetFunction", m, b"kernel")
    eq(start - d.free(), 256 << 10)
    eq(d.cuModuleGetFunction(C.c_uint64(), m, b"missing"), 500)
    eq(d.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, None, None), SUCCESS)
    eq(d.cuModuleUnload(m), SUCCESS)
    eq(d.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, None, None), 400)
    eq(d.free(), start)
    lib = d.value("cuLibraryLoadData", b"image", None, None, 0, None, None, 0)
    k = d.value("cuLibraryGetKernel", lib, b"kernel")
    eq(d.free(), start)
    eq(d.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, 0, None, None), SUCCESS)
    eq(start - d.free(), 256 << 10)
    eq(d.cuLibraryUnload(lib), SUCCESS)
    eq(d.free(), start)
    eq(d.cuModuleLoad(C.c_uint64(), b"/no/such/file"), 301)
    eq(ops()[1:], ["module-load", "module-unload", "module-load", "module-unload", "module-load"])


@started("eager code takes memory at once", CUDA_MODULE_LOADING="EAGER")
def eager_code_takes_memory_at_once(d):
    start = d.free()
    d.value("cuModuleLoadData", b"image")
    eq(start - d.free(), 256 << 10)


# ---- several processes ---------------------------------------------------------------------------------------------

@started("processes share the device", SIM_SHM="@/shm")
def processes_share_the_device(d):
    free, total = d.info()
    child = in_child("d.start(); d.take(100 * MB); print(d.free()); sys.stdout.flush(); os.kill(os.getpid(), 9)"
                     .replace("os.kill(os.getpid(), 9)", "pass"))
    eq(int(child), free - 164 * MB)
    eq(d.free(), free)  # it has ended
    env = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
    p = subprocess.Popen([sys.executable, "-c", "from driver import *\nd = Driver(); d.start(); d.take(100 * MB)\n"
                          "print('ready', flush=True)\nimport time; time.sleep(100)"], env=env, stdout=subprocess.PIPE)
    p.stdout.readline()
    eq(d.free(), free - 164 * MB)
    eq(d.alloc(total - 200 * MB)[0], OOM)
    nvml = Nvml()
    eq(nvml.processes(), {os.getpid(): 64 * MB, p.pid: 164 * MB})
    p.send_signal(signal.SIGKILL)
    while d.free() != free:  # not waited for: a zombie holds nothing
        pass
    p.wait()
    eq(nvml.processes(), {os.getpid(): 64 * MB})


@started("ipc between two processes", SIM_SHM="@/shm")
def ipc_between_two_processes(d):
    p, h = d.take(3 * MB), IpcHandle()
    eq(d.cuIpcGetMemHandle(h, p), SUCCESS)
    mine = C.c_uint64()
    h.by_value = True
    eq(d.cuIpcOpenMemHandle_v2(mine, h, 1), BAD_CONTEXT)  # one's own cannot be opened
    code = f"""
d.start()
h = IpcHandle.from_buffer_copy(bytes.fromhex("{bytes(h).hex()}")); h.by_value = True
a, b = C.c_uint64(), C.c_uint64()
before = d.free()
print(d.cuIpcOpenMemHandle_v2(a, h, 1), d.cuIpcOpenMemHandle_v2(b, h, 1), a.value == b.value,
      before == d.free(), d.cuMemFree_v2(a.value), d.cuIpcCloseMemHandle(a.value), d.cuIpcCloseMemHandle(a.value),
      d.cuIpcCloseMemHandle(a.value))
"""
    eq(in_child(code).split(), ["0", "0", "True", "True", "1", "0", "0", "1"])
    d.cuMemFree_v2(p)
    eq(in_child(code).split()[0], "1")  # what it names is gone


@started("an event is opened by another process")
def an_event_is_opened_by_another_process(d):
    h = IpcHandle()
    eq(d.cuEventCreate(C.c_uint64(), 4), INVALID)  # such an event keeps no times
    eq(d.cuIpcGetEventHandle(h, d.value("cuEventCreate", 2)), 400)
    e = d.value("cuEventCreate", 4 | 2)
    eq((d.cuEventRecord(e, 0), d.cuIpcGetEventHandle(h, e)), (SUCCESS, SUCCESS))
    eq(in_child(f"""
d.start()
h = IpcHandle.from_buffer_copy(bytes.fromhex("{bytes(h).hex()}")); h.by_value = True
e, bad = C.c_uint64(), IpcHandle(); bad.by_value = True
print(d.cuIpcOpenEventHandle(e, h), d.cuStreamWaitEvent(0, e.value, 0), d.cuEventQuery(e.value),
      d.cuEventDestroy_v2(e.value), d.cuIpcOpenEventHandle(e, bad))
""").split(), ["0", "0", "0", "0", "1"])


class Nvml:
    class Info(C.Structure):
        _fields_ = [("pid", C.c_uint), ("used", C.c_ulonglong), ("gpu", C.c_uint), ("compute", C.c_uint)]

    class Memory(C.Structure):
        _fields_ = [("total", C.c_ulonglong), ("free", C.c_ulonglong), ("used", C.c_ulonglong)]

    def __init__(self, device=0, init=0):
        self.lib = C.CDLL("libnvidia-ml.so.1")
        eq(self.lib.nvmlInit_v2(), init)
        self.device = C.c_void_p()
        if not init:
            eq(self.lib.nvmlDeviceGetHandleByIndex_v2(device, C.byref(self.device)), 0)

    def memory(self):
        m = self.Memory()
        eq(self.lib.nvmlDeviceGetMemoryInfo(self.device, C.byref(m)), 0)
        return m.total, m.free, m.used

    def processes(self):
        n, infos = C.c_uint(64), (self.Info * 64)()
        eq(self.lib.nvmlDeviceGetComputeRunningProcesses_v3(self.device, C.byref(n), infos), 0)
        return {infos[i].pid: infos[i].used for i in range(n.value)}


@alone("nvml sees what the driver has", SIM_NEIGHBOUR_MB="100", SIM_MEM_MB="512")
def nvml_sees_what_the_driver_has():
    nvml = Nvml()
    eq(nvml.memory(), (512 * MB, 412 * MB, 100 * MB))
    d = Driver()
    d.start()
    d.take(10 * MB)
    eq(nvml.memory(), (512 * MB, 338 * MB, 174 * MB))
    eq(d.free(), 338 * MB)
    eq(nvml.processes(), {os.getpid(): 74 * MB, 4194304: 100 * MB})
    old, n, version = (C.c_ulonglong * 8)(), C.c_uint(4), C.c_int()
    eq(nvml.lib.nvmlDeviceGetComputeRunningProcesses(nvml.device, C.byref(n), old), 0)
    eq((n.value, sorted(zip(old[0:4:2], old[1:4:2]))), (2, sorted({os.getpid(): 74 * MB, 4194304: 100 * MB}.items())))
    n.value = 1
    eq(nvml.lib.nvmlDeviceGetComputeRunningProcesses(nvml.device, C.byref(n), old), 7)
    eq(n.value, 2)
    eq((nvml.lib.nvmlSystemGetCudaDriverVersion_v2(C.byref(version)), version.value), (0, 13000))


@alone("nvml says how devices reach each other", SIM_DEVICES="2")
def nvml_says_how_devices_reach_each_other():
    ok, unsupported, switch = 0, 5, 2
    for nvlink in ("0", "1"):
        out = in_child(f"""
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
lib, a, b, status = C.CDLL("libnvidia-ml.so.1"), C.c_void_p(), C.c_void_p(), C.c_int(-1)
major, minor, text = C.c_int(), C.c_int(), (C.c_char * 68)()
lib.nvmlInit_v2()
lib.nvmlDeviceGetHandleByIndex_v2(0, C.byref(a)); lib.nvmlDeviceGetHandleByIndex_v2(1, C.byref(b))
for index in range(5):
    print(lib.nvmlDeviceGetP2PStatus(a, b, index, C.byref(status)), status.value)
print(lib.nvmlDeviceGetP2PStatus(a, a, 0, C.byref(status)), lib.nvmlDeviceGetP2PStatus(a, b, 5, C.byref(status)))
print(lib.nvmlDeviceGetNvLinkRemoteDeviceType(a, 0, C.byref(status)), status.value)
print(lib.nvmlDeviceGetCudaComputeCapability(b, C.byref(major), C.byref(minor)), major.value, minor.value)
print(lib.nvmlDeviceGetPciInfo_v3(b, text), text.raw[36:].split(b"\\0")[0].decode())
""", SIM_NVLINK=nvlink).split("\n")
        links = ["0 0", "0 0", f"0 {ok if nvlink == '1' else unsupported}", "0 5", "0 5"]
        eq(out[:5], links)
        eq(out[5:9], ["2 2", f"0 {switch}" if nvlink == "1" else "3 5", "0 9 0", "0 00000000:02:00.0"])


@alone("nvml knows instances of a card by their UUIDs and ids, and what is of the card alone is refused of them",
       SIM_DEVICES="2", SIM_MIG_CARD_MB="4096", SIM_MEM_MB="1024,2048")
def nvml_knows_instances():
    nvml, n, other = Nvml(), C.c_uint(), C.c_void_p()
    lib, card = nvml.lib, nvml.device

    def asked(name, of):
        n.value = 99
        return getattr(lib, "nvmlDevice" + name)(of, C.byref(n)), n.value
    eq((lib.nvmlDeviceGetCount_v2(C.byref(n)), n.value, lib.nvmlDeviceGetHandleByIndex_v2(1, C.byref(other))), (0, 1, 2))
    eq(lib.nvmlDeviceGetMigMode(card, C.byref(n), C.byref(C.c_uint())), 0)
    eq(n.value, 1)
    eq([asked(name, card) for name in ("IsMigDeviceHandle", "GetIndex", "GetMaxMigDeviceCount", "GetGpuInstanceId")],
       [(0, 0), (0, 0), (0, 2), (2, 99)])
    eq(nvml.memory(), (4096 * MB, 4096 * MB, 0))
    d = Driver()
    d.start()
    d.take(10 * MB)
    for i, free in ((0, 1024 - 74), (1, 2048)):
        text, one = C.create_string_buffer(96), C.c_void_p()
        eq(lib.nvmlDeviceGetMigDeviceHandleByIndex(card, i, C.byref(one)), 0)
        eq(lib.nvmlDeviceGetUUID(one, text, 96), 0)
        eq((text.value[:4], lib.nvmlDeviceGetHandleByUUID(text, C.byref(other)), other.value), (b"MIG-", 0, one.value))
        eq(lib.nvmlDeviceGetHandleByUUID(text.value.replace(b"MIG-", b"GPU-"), C.byref(other)), 6)
        eq([asked(name, one) for name in ("IsMigDeviceHandle", "GetGpuInstanceId", "GetComputeInstanceId", "GetIndex")],
           [(0, 1), (0, i + 1), (0, 0), (2, 99)])
        eq((lib.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(one, C.byref(other)), other.value), (0, card.value))
        nvml.device = one
        eq(nvml.memory(), ((1024, 2048)[i] * MB, free * MB, ((1024, 2048)[i] - free) * MB))
        eq(nvml.processes(), {os.getpid(): 74 * MB} if not i else {})
    nvml.device = card
    eq(nvml.memory(), (4096 * MB, (4096 - 74) * MB, 74 * MB))
    eq(nvml.processes(), {os.getpid(): 74 * MB})
    eq(lib.nvmlDeviceGetMigDeviceHandleByIndex(card, 2, C.byref(other)), 6)
    eq((lib.nvmlDeviceGetUUID(card, text, 96), text.value[:4]), (0, b"GPU-"))


@alone("nvml lists a process of each kind in its list, and the number of a NUMA node where there is one",
       SIM_NEIGHBOUR_MB="100", SIM_NEIGHBOUR_KIND="mps", SIM_NUMA_NODE="3")
def nvml_lists_kinds():
    nvml, node = Nvml(), C.c_uint()
    for name, want in (("ComputeRunningProcesses_v2", 0), ("ComputeRunningProcesses_v3", 0), ("GraphicsRunningProcesses_v3", 0),
                       ("MPSComputeRunningProcesses_v3", 1)):
        n, infos = C.c_uint(4), (nvml.Info * 4)()
        eq(getattr(nvml.lib, "nvmlDeviceGet" + name)(nvml.device, C.byref(n), infos), 0, name)
        eq([(infos[i].pid, infos[i].used) for i in range(n.value)], [(4194304, 100 * MB)] * want, name)
    eq((nvml.lib.nvmlDeviceGetNumaNodeId(nvml.device, C.byref(node)), node.value), (0, 3))


@alone("nvml may refuse", SIM_NVML="refused")
def nvml_may_refuse():
    Nvml(init=4)


# ---- resolver -------------------------------------------------------------------------------------------------------

@alone("look ups give the newest abi that was asked for")
def look_ups_give_the_newest_abi_that_was_asked_for():
    d = Driver()
    for name, version, flags, export in [
            ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"), ("cuMemAlloc", 13000, 0, "cuMemAlloc_v2"),
            ("cuMemAlloc", 3010, 0, "cuMemAlloc"), ("cuMemAlloc", 3020, 2, "cuMemAlloc_v2"),
            ("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"), ("cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"),
            ("cuMemAllocAsync", 12000, 1, "cuMemAllocAsync"), ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
            ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"), ("cuStreamSynchronize", 7000, 2, "cuStreamSynchronize_ptsz"),
            ("cuIpcOpenMemHandle", 4010, 0, "cuIpcOpenMemHandle"), ("cuIpcOpenMemHandle", 11000, 0, "cuIpcOpenMemHandle_v2"),
            ("cuDevicePrimaryCtxRelease", 7000, 0, "cuDevicePrimaryCtxRelease"),
            ("cuMemPrefetchAsync", 12010, 2, "cuMemPrefetchAsync_ptsz"),
            ("cuMemPrefetchAsync", 12020, 2, "cuMemPrefetchAsync_v2_ptsz"), ("cuCtxCreate", 3020, 0, "cuCtxCreate_v2"),
            ("cuCtxCreate", 11040, 0, "cuCtxCreate_v3"), ("cuGraphInstantiate", 10000, 0, "cuGraphInstantiate"),
            ("cuGraphInstantiate", 12000, 0, "cuGraphInstantiate_v2"), ("cuMemHostRegister", 6050, 0, "cuMemHostRegister_v2")]:
        eq(d.resolve(name, version, flags), (SUCCESS, d.address(export), 0), f"{name} {version} {flags}")
    eq(d.resolve("", 0), (500, None, 1))
    eq(d.resolve("cuMemAlloc_v2", 12000), (500, None, 1))  # bare names only
    eq(d.resolve("cuNoSuch", 12000), (500, None, 1))
    eq(d.resolve("cuMemAllocAsync", 11010), (500, None, 2))  # the name is newer
    eq(d.resolve("cuMemAlloc", 12000, 8)[0], INVALID)
    out = C.c_void_p()
    eq(d.cuGetProcAddress(b"cuMemAlloc", out, 3020, 0), SUCCESS)
    eq(out.value, d.address("cuMemAlloc_v2"))


@started("look ups may give addresses that are no exports", SIM_GETPROC_ALIAS="1")
def look_ups_may_give_addresses_that_are_no_exports(d):
    result, address, _ = d.resolve("cuMemAlloc", 3020)
    eq(result, SUCCESS)
    eq(address == d.address("cuMemAlloc_v2"), False)
    p = C.c_uint64()
    eq(C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_size_t)(address)(C.addressof(p), 100), SUCCESS)
    eq(ledger()[-1]["ptr"], hex(p.value))


def declared():
    """Every function of cuda.h of the families that matter, all variants."""
    text = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
    out = subprocess.run([os.environ.get("CC", "gcc").split()[0], "-E", "-P", "-I", CUDA_INC, "-xc", "-"], input=text,
                         capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b(cu[A-Z]\w+)\s*\(", out))


# Declared in cuda.h and not simulated: pure queries and copies, which take no memory.
NOT_SIMULATED = r"""cuMem(cpy|set|RangeGet|BatchDecompress)\w*|cuArray(3D)?GetDescriptor|cuModule(GetSurfRef|GetTexRef)|cuCtx(GetCacheConfig|SetCacheConfig|GetSharedMemConfig|SetSharedMemConfig|
ResetPersistingL2Cache|GetExecAffinity|SetFlags|RecordEvent|WaitEvent|GetDevResource|\w*Coredump\w*)|cuGreenCtx(GetDevResource|
RecordEvent|WaitEvent|GetId)|cuLibraryGetUnifiedFunction|
cuCheckpointProcessGetRestoreThreadId|cuCheckpointOperationComplete|cuMemGetLocationInfo|cuStreamBeginCaptureToCig(_ptsz)?""".replace("\n", "")


@alone("everything of cuda h that touches memory is exported")
def everything_of_cuda_h_that_touches_memory_is_exported():
    out = subprocess.run(["nm", "-D", "--defined-only", os.path.join(SIM, "libcuda.so.1")], capture_output=True,
                         text=True, check=True).stdout
    exported = {line.split()[2] for line in out.splitlines()}
    family = re.compile(r"cu(Mem|Array|Mipmapped|Ipc|Ctx|GreenCtx|Module|Library|Multicast|Checkpoint|DevicePrimaryCtx)[A-Z]")
    # Whole families, and every variant of what the graph and stream functions do to memory.
    wanted = {n for n in declared() if family.match(n) or re.match(r"cu(Graph(Launch|Upload|Instantiate\w*|AddMem\w+)|"
              r"StreamBeginCapture\w*|DeviceGraphMemTrim|LaunchKernel\w*)$", n)}
    wanted = {n for n in wanted if not n.endswith("_st") and not re.fullmatch(NOT_SIMULATED, n)}
    assert len(wanted) > 150, len(wanted)
    missing = sorted(n for n in wanted - exported if not re.fullmatch(r"cuGraphAddMem(cpy|set)Node", n))
    eq(missing, [])
    own = {"sim_driver_returned", "sim_driver_shared"}
    if os.path.exists(os.path.join(SIM, "cupti")):  # built with CUPTI's headers
        own.add("sim_driver_set_tracer")
    eq({n for n in exported if not n.startswith("cu")}, own)


# ---- scripted behaviour ------------------------------------------------------------------------------------------------

@started("failures by script", SIM_FAIL="cuMemAlloc_v2:2:2,cuMemFree_v2:1-2:1,cuCtxSynchronize:*:700")
def failures_by_script(d):
    p = d.take(100)
    eq(d.alloc(100)[0], OOM)
    q = d.take(100)
    eq((d.cuMemFree_v2(p), d.cuMemFree_v2(p), d.cuMemFree_v2(p)), (1, 1, 0))
    eq(d.cuCtxSynchronize(), 700)
    eq(d.alloc(100)[0], 700)  # it stays
    eq(d.cuMemFree_v2(q), 700)
    eq(d.cuDevicePrimaryCtxReset_v2(0), SUCCESS)
    d.start()
    d.take(100)


@alone("the driver may call itself", SIM_REENTRANT="1")
def the_driver_may_call_itself():
    d = Driver()
    d.cuInit(0)
    d.value("cuCtxCreate_v2", 0, 0)
    d.take(100)
    eq([(e["api"], e["depth"]) for e in ledger()],
       [("cuCtxCreate_v2", 0), ("cuMemAlloc_v2", 1), ("cuMemFree_v2", 1), ("cuMemAlloc_v2", 1), ("cuMemFree_v2", 1),
        ("cuMemAlloc_v2", 0)])


@alone("the ledger is in the order of the driver", SIM_LATENCY_NS="cuMemFree_v2:20000000", SIM_MEM_MB="65536")
def the_ledger_is_in_the_order_of_the_driver():
    d = Driver()
    ctx = d.start()

    def work(seed):
        d.cuCtxSetCurrent(ctx)
        live = []
        for i in range(300):
            seed = (seed * 1103515245 + 12345) & 0x7fffffff
            if live and seed % 3 == 0 and i % 50 == 0:
                d.cuMemFree_v2(live.pop())
            else:
                live.append(d.take(1 + seed % (3 * MB)))
                if len(live) > 10:
                    d.cuMemFreeAsync(live.pop(0), 0)  # fails: not of a pool
                    del live[0:1]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


# ---- runtimes ----------------------------------------------------------------------------------------------------------

def look_ups(path):
    lines = [line.split(" ")[3:] for line in open(path) if " look-up " in line]
    return [(name, version, flags.strip()) for _, name, version, flags in lines]


def recorded():
    rows = re.findall(r"SIMRT_LOOKUP\((\w*), (\d+), (\d+)\)", open(os.path.join(ROOT, "tests/sim/runtime/lookups.def")).read())
    eq(len(rows), 440)
    return rows


PROGRAM = r"""
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void)
{
    void *p = NULL;
    int n = -1;
    cudaError_t a = cudaMalloc(&p, 1000), b = cudaGetDeviceCount(&n);
    if (!a)
        cudaFree(p);
    printf("%d %d\n", (int)a, (int)b);
    return 0;
}
"""


def run_program(path, library_path):
    env = dict(os.environ, LD_LIBRARY_PATH=library_path)
    return subprocess.run([path], env=env, capture_output=True, text=True, timeout=HANG, check=True).stdout.split()


def stand_in(folder, static):
    if static:
        return compile_c(folder, "static", PROGRAM, os.path.join(SIM, "libsimcudart.a"), "-Wl,--exclude-libs,ALL",
                         "-ldl", "-lpthread")
    return compile_c(folder, "shared", PROGRAM, "-L", SIM, "-l:libcudart.so.13")


@alone("the stand in runtime makes the recorded look ups", SIM_LOG="@/log")
def the_stand_in_runtime_makes_the_recorded_look_ups():
    for static in (False, True):
        log = os.environ["SIM_LOG"]
        if os.path.exists(log):
            os.remove(log)
        program = stand_in(os.environ["CASE_DIR"], static)
        eq(run_program(program, SIM), ["0", "0"])
        eq(look_ups(log), recorded())
        calls = [line.split()[2] for line in open(log) if " look-up " not in line]
        eq([c for c in calls if c in ("cuMemAlloc_v2", "cuMemFree_v2", "cuDevicePrimaryCtxRetain")],
           ["cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "cuMemFree_v2"])
        if static:
            symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
            eq(re.findall(r" (\w) cudaMalloc$", symbols, re.M), ["t"])


@alone("two stand in runtimes in one process")
def two_stand_in_runtimes_in_one_process():
    d = Driver()
    for path in ("libcudart.so.13", "libcudart.so.12"):
        lib, p = C.CDLL(os.path.join(SIM, path)), C.c_void_p()
        eq(lib.cudaMalloc(C.byref(p), C.c_size_t(100)), 0)
    eq(ops(), ["context-create", "alloc", "alloc"])
    eq(d.info()[1] - d.free(), 66 * MB)


@started("a stream writes a word")
def a_stream_writes_a_word(d):
    p = d.take(16)
    C.memset(p, 0, 16)
    for name, at in (("cuStreamWriteValue32", 4), ("cuStreamWriteValue32_v2", 8)):
        write = getattr(d, name)
        eq(write(0, p + at, at * 11, 0), 0)
        eq(write(0, p + at + 2, 1, 0), INVALID)
        eq(write(0, 64, 1, 0), INVALID)
    eq(C.string_at(p, 16), struct.pack("<4I", 0, 44, 88, 0))


@alone("what pytorch asks of a runtime", SIM_DEVICES="2", SIM_MEM_MB="512,256")
def what_pytorch_asks_of_a_runtime():
    d = Driver()
    for path, properties, size, processors, bus in (("libcudart.so.13", "cudaGetDeviceProperties", 1008, 384, 568),
                                                    ("libcudart.so.12", "cudaGetDeviceProperties_v2", 1032, 388, 584)):
        lib = C.CDLL(os.path.join(SIM, path))
        text, number = C.create_string_buffer(size), C.c_int()
        lib.cudaSetDevice(0)
        eq(lib.cudaDeviceGetAttribute(C.byref(number), 16, 1), 0)  # processors
        eq(getattr(lib, properties)(text, 1), 0)
        eq(C.c_size_t.from_buffer(text, 288).value, 256 * MB, "totalGlobalMem")
        eq(C.c_int.from_buffer(text, processors).value, number.value, "multiProcessorCount")
        eq(lib.cudaDeviceGetAttribute(C.byref(number), 33, 1), 0)  # bus
        eq(C.c_int.from_buffer(text, bus).value, number.value, "pciBusID")
        eq(list((C.c_int * 7).from_buffer(text, 320)), [1024, 1024, 1024, 64, 0x7fffffff, 65535, 65535], "maxThreadsPerBlock...")
        eq(C.c_int.from_buffer(text, {1008: 604, 1032: 624}[size]).value, 2048, "maxThreadsPerMultiProcessor")
        low, high = C.c_int(7), C.c_int(7)
        eq(lib.cudaDeviceGetStreamPriorityRange(C.byref(low), C.byref(high)), 0)
        assert high.value <= 0 <= low.value, (low, high)
        start, end, ms = C.c_void_p(), C.c_void_p(), C.c_float(-1)
        eq([lib.cudaEventCreateWithFlags(C.byref(e), 0) for e in (start, end)], [0, 0])
        eq(lib.cudaEventElapsedTime(C.byref(ms), start, end), 0)
        assert ms.value >= 0, ms
        here, there = C.c_void_p(), C.c_void_p()
        eq(lib.cudaMalloc(C.byref(here), C.c_size_t(4)), 0)
        eq((lib.cudaSetDevice(1), lib.cudaMalloc(C.byref(there), C.c_size_t(4))), (0, 0))
        attributes = C.create_string_buffer(b"\xff" * 96, 96)  # 24 bytes for CUDA 12
        eq(lib.cudaPointerGetAttributes(attributes, here), 0)
        eq([C.c_int.from_buffer(attributes, 0).value, C.c_void_p.from_buffer(attributes, 8).value], [2, here.value])
        eq(attributes.raw[24:], b"\xff" * 72, "behind CUDA 12's cudaPointerAttributes")
        C.memmove(there.value, b"word", 4)
        eq(lib.cudaMemcpyPeerAsync(here, 0, there, 1, C.c_size_t(4), None), 0)
        eq(C.string_at(here.value, 4), b"word")
    if "cudaStreamGetCaptureInfo" in subprocess.run(["nm", "-D", os.path.join(SIM, "libcudart.so.13")], check=True,
                                                    capture_output=True, text=True).stdout:  # CUDA 13's headers
        stream, status, identity, graph = C.c_void_p(), C.c_int(9), C.c_ulonglong(), C.c_void_p()
        lib = C.CDLL(os.path.join(SIM, "libcudart.so.13"))
        eq(lib.cudaStreamCreateWithFlags(C.byref(stream), 1), 0)
        for wanted in (0, 1):
            eq(lib.cudaStreamGetCaptureInfo(stream, C.byref(status), C.byref(identity), C.byref(graph), None, None, None), 0)
            eq(status.value, wanted)
            eq(lib.cudaStreamBeginCapture(stream, 2) if not wanted else identity.value and 0, 0)
    stream, status, identity, graph = C.c_void_p(), C.c_int(9), C.c_ulonglong(), C.c_void_p()
    nodes, count = C.c_void_p(), C.c_size_t(9)
    lib = C.CDLL(os.path.join(SIM, "libcudart.so.12"))  # whose header gives this name to cudaStreamGetCaptureInfo
    eq(lib.cudaStreamCreateWithFlags(C.byref(stream), 1), 0)
    for wanted in (0, 1):
        eq(lib.cudaStreamGetCaptureInfo_v2(stream, C.byref(status), C.byref(identity), C.byref(graph), C.byref(nodes),
                                           C.byref(count)), 0)
        eq(status.value, wanted)
        eq(lib.cudaStreamBeginCapture(stream, 2) if not wanted else identity.value and count.value, 0)
    eq([e["op"] for e in ledger() if e["op"] == "violation"], [])
    assert d


@alone("what a runtime says of a device is an h100, in both layouts", SIM_DEVICES="2")
def what_a_runtime_says_of_a_device():
    # offset in CUDA 13's structure, in CUDA 12's, type: regsPerBlock, memPitch, totalConstMem, textureAlignment,
    # asyncEngineCount, memoryBusWidth, l2CacheSize, sharedMemPerMultiprocessor, regsPerMultiprocessor,
    # cooperativeLaunch, sharedMemPerBlockOptin, maxBlocksPerMultiProcessor, reservedSharedMemPerBlock, clusterLaunch
    for at13, at12, kind, wanted in (
            (304, 304, C.c_int, 65536), (312, 312, C.c_size_t, 0x7fffffff), (352, 352, C.c_size_t, 65536),
            (368, 368, C.c_size_t, 512), (584, 600, C.c_int, 3), (592, 612, C.c_int, 5120),
            (596, 616, C.c_int, 50 * MB), (624, 640, C.c_size_t, 228 << 10), (632, 648, C.c_int, 65536),
            (668, 688, C.c_int, 1), (672, 696, C.c_size_t, 227 << 10), (688, 712, C.c_int, 32),
            (696, 720, C.c_size_t, 1024), (748, 772, C.c_int, 1)):
        for path, name, size, at in (("libcudart.so.13", "cudaGetDeviceProperties", 1008, at13),
                                     ("libcudart.so.12", "cudaGetDeviceProperties_v2", 1032, at12)):
            lib, text = C.CDLL(os.path.join(SIM, path)), C.create_string_buffer(size)
            if not hasattr(lib, name):  # the headers are older than CUDA 13
                continue
            eq(getattr(lib, name)(text, 1), 0)
            eq(kind.from_buffer(text, at).value, wanted, f"{name} {at}")
            eq(text.raw[256:272], b"simulated-gpu-01")
            eq(getattr(lib, name)(text, 2), 101)


@alone("what frameworks call around their launches")
def what_frameworks_call_around_their_launches():
    d = Driver()
    lib = C.CDLL(os.path.join(SIM, "libcudart.so.13"))
    stream, event, number, seen = C.c_void_p(), C.c_void_p(), C.c_int(7), []
    eq(lib.cudaStreamCreateWithPriority(C.byref(stream), 1, -1), 0)
    eq((lib.cudaStreamGetPriority(stream, C.byref(number)), number.value), (0, -1))
    text = C.create_string_buffer(16)
    eq((lib.cudaDeviceGetPCIBusId(text, 16, 0), text.value), (0, b"0000:01:00.0"))
    eq((lib.cudaDeviceGetByPCIBusId(C.byref(number), text), number.value), (0, 0))
    eq(lib.cudaEventCreateWithFlags(C.byref(event), 2), 0)
    eq(lib.cudaEventRecordWithFlags(event, stream, 0), 0)
    host = C.CFUNCTYPE(None, C.c_void_p)(seen.append)
    callback = C.CFUNCTYPE(None, C.c_void_p, C.c_int, C.c_void_p)(lambda *a: seen.append(a))
    eq(lib.cudaLaunchHostFunc(stream, host, C.c_void_p(12)), 0)
    eq(lib.cudaStreamAddCallback(stream, callback, C.c_void_p(34), 0), 0)
    eq(seen, [12, (stream.value, 0, 34)])
    eq((lib.cudaProfilerStart(), lib.cudaProfilerStop()), (0, 0))
    p = C.c_void_p()
    eq(lib.cudaMalloc(C.byref(p), C.c_size_t(4096)), 0)
    for call, more in ((lib.cudaMemcpy2D, ()), (lib.cudaMemcpy2DAsync, (stream,))):
        eq(lib.cudaMemset(p, 0, C.c_size_t(4096)), 0)
        eq(call(p, C.c_size_t(8), b"abcdefghijkl", C.c_size_t(4), C.c_size_t(3), C.c_size_t(3), 1, *more), 0)
        eq(C.string_at(p.value, 24), b"abc" + bytes(5) + b"efg" + bytes(5) + b"ijk" + bytes(5))
        eq(call(p, C.c_size_t(8), b"abc", C.c_size_t(4), C.c_size_t(9), C.c_size_t(3), 1, *more), INVALID)
    thing, graph = C.c_void_p(), C.c_void_p()
    eq(lib.cudaGraphCreate(C.byref(graph), 0), 0)
    eq(lib.cudaUserObjectCreate(C.byref(thing), C.c_void_p(56), host, 1, 1), 0)
    eq(lib.cudaGraphRetainUserObject(graph, thing, 1, 1), 0)
    eq((lib.cudaGraphDestroy(graph), seen[2:]), (0, [56]))
    handle = IpcHandle()
    eq(lib.cudaIpcGetEventHandle(C.byref(handle), event), 400)
    eq(lib.cudaEventCreateWithFlags(C.byref(event), 2 | 4), 0)
    eq(lib.cudaIpcGetEventHandle(C.byref(handle), event), 0)
    eq(lib.cudaIpcOpenEventHandle(C.byref(event), handle), 0)
    eq(d.cuEventQuery(event.value), SUCCESS)


@alone("a hidden runtime does not call dlsym", SIMRT_HIDDEN="1", LD_PRELOAD="")
def a_hidden_runtime_does_not_call_dlsym():
    folder = os.environ["CASE_DIR"]
    spy = compile_c(folder, "spy.so", """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
void *dlsym(void *h, const char *n)
{
    const char *version = IS_X86 ? "GLIBC_2.2.5" : "GLIBC_2.17";
    void *(*real)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", version);
    if (!strncmp(n, "cuG", 3) && write(1, "seen ", 5)) { }
    return real(h, n);
}
""", "-shared", "-fPIC", "-ldl", f"-DIS_X86={int(os.uname().machine == 'x86_64')}")
    program = stand_in(folder, False)
    for hidden, wanted in (("1", ["0", "0"]), ("0", ["seen", "0", "0"])):
        env = dict(os.environ, SIMRT_HIDDEN=hidden, LD_PRELOAD=spy, LD_LIBRARY_PATH=SIM, ASAN_OPTIONS="")
        out = subprocess.run([program], env=env, capture_output=True, text=True, timeout=HANG, check=True).stdout
        eq(out.split(), wanted)


@alone("look ups go on through the resolver that a look up returned")
def look_ups_go_on_through_the_resolver_that_a_look_up_returned():
    folder = os.environ["CASE_DIR"]
    spy = compile_c(folder, "spy.so", """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
typedef int resolver(const char *, void **, int, unsigned long long, void *);
static resolver *real;
static int first, second;
static int returned(const char *n, void **f, int v, unsigned long long flags, void *s)
{
    second++;
    return real(n, f, v, flags, s);
}
static int obtained(const char *n, void **f, int v, unsigned long long flags, void *s)
{
    int r = real(n, f, v, flags, s);
    first++;
    if (!strcmp(n, "cuGetProcAddress") && v == 12000)
        *f = (void *)returned;
    return r;
}
void *dlsym(void *h, const char *n)
{
    void *(*next)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", IS_X86 ? "GLIBC_2.2.5" : "GLIBC_2.17");
    void *p = next(h, n);
    if (strcmp(n, "cuGetProcAddress_v2"))
        return p;
    real = (resolver *)p;
    return (void *)obtained;
}
__attribute__((destructor)) static void end(void) { printf("%d %d\\n", first, second); }
""", "-shared", "-fPIC", "-ldl", f"-DIS_X86={int(os.uname().machine == 'x86_64')}")
    for static in (False, True):
        program = stand_in(folder, static)
        env = dict(os.environ, LD_PRELOAD=spy, LD_LIBRARY_PATH=SIM)
        out = subprocess.run([program], env=env, capture_output=True, text=True, timeout=HANG, check=True).stdout
        eq(sorted(out.split()), ["0", "0", "4", "436"])


def real_runtime(static):
    name = os.path.join(CUDA_LIB, "libcudart_static.a" if static else "libcudart.so.13")
    if not os.path.exists(name):
        raise Skip(name + " is not here")
    folder, log = os.environ["CASE_DIR"], os.environ["SIM_LOG"]
    if static:
        program = compile_c(folder, "real", PROGRAM, name, "-ldl", "-lpthread", "-lrt")
    else:
        program = compile_c(folder, "real", PROGRAM, "-L", CUDA_LIB, "-l:libcudart.so.13")
    only_driver = os.path.join(folder, "driver")
    os.mkdir(only_driver)
    os.symlink(os.path.join(SIM, "libcuda.so.1"), os.path.join(only_driver, "libcuda.so.1"))
    eq(run_program(program, only_driver + ":" + CUDA_LIB), ["100", "100"])
    eq(look_ups(log), recorded())


@alone("the real shared runtime without a device", SIM_DEVICES="0", SIM_LOG="@/log")
def the_real_shared_runtime_without_a_device():
    real_runtime(static=False)


@alone("the real static runtime without a device", SIM_DEVICES="0", SIM_LOG="@/log")
def the_real_static_runtime_without_a_device():
    real_runtime(static=True)


@alone("an nvcc program runs on the stand in runtime")
def an_nvcc_program_runs_on_the_stand_in_runtime():
    folder = os.environ["CASE_DIR"]
    source = os.path.join(folder, "k.cu")
    with open(source, "w") as f:
        f.write("#include <cstdio>\n__global__ void k(int *p) { *p = 1; }\n__device__ int v;\n"
                "int main() { int *p; int e = cudaMalloc(&p, 1000); k<<<1, 1>>>(p); e |= cudaGetLastError();\n"
                "void *s; e |= cudaGetSymbolAddress(&s, v); cudaFree(p); printf(\"%d\\n\", e); }\n")
    if not shutil.which("nvcc") or subprocess.run(["nvcc", "--version"], capture_output=True, check=False).returncode:
        raise Skip("nvcc is not installed")
    for flags in (["-cudart", "shared"], ["-cudart", "none", os.path.join(SIM, "libsimcudart.a"), "-Xlinker",
                                          "--exclude-libs,ALL", "-ldl"]):
        program = os.path.join(folder, "k" + flags[1])
        subprocess.run(["nvcc", "-o", program, source, *flags], check=True, capture_output=True)
        eq(run_program(program, SIM), ["0"])


run_suite()
