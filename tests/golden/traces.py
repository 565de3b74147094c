# SPDX-License-Identifier: Apache-2.0
"""The traces of the golden tests: small, each with something of its own."""
from mktrace import Trace, raw_zstd_frame

K, M, G, S = 1 << 10, 1 << 20, 1 << 30, 10**9

CUDA = [("cuMemAlloc_v2", "/usr/lib/libcuda.so.1"), ("cudaMalloc", "/opt/cuda/libcudart.so.13"),
        ("_ZN3c104cuda20CUDACachingAllocator6mallocEm", "/x/libc10_cuda.so")]
LOAD = CUDA + [("load_weights", "/m/loader.py", 120), ("__init__", "/m/worker.py", 33), ("main", "/m/api.py", 3)]
CACHE = CUDA + [("_ZN2at5zerosEN3c108ArrayRefIlEE", "/x/libtorch.so"), ("initialize_kv_cache", "/m/runner.py", 900)]
NCCL = [("cuMemCreate", "/usr/lib/libcuda.so.1"), ("ncclCuMemAlloc", "/x/libnccl.so.2"),
        ("ncclCommInitRank", "/x/libnccl.so.2")]
LOGITS = CUDA + [("compute_logits", "/m/logits.py", 77), ("execute_model", "/m/runner.py", 1500)]
PLAIN = [("allocate", "/opt/app"), ("main", "/opt/app"), ("__libc_start_main", "/lib/libc.so.6"),
         ("_start", "/opt/app", 0x900)]


def begin(trace, pid=4711, exe="python3", devices=1, total=80 * G):
    trace.info = {"cutrace.version": "0.1.0", "process.pid": str(pid), "process.exe": exe,
                  "process.start_ns": str(50 * S), "clock.monotonic_ns": str(50 * S),
                  "clock.realtime_ns": str(1795000000 * S), "cuda.driver_version": "13000"}
    for d in range(devices):
        trace.info["device.%d.name" % d] = "Test GPU"
        trace.info["device.%d.total_bytes" % d] = str(total)


def refused():
    """Weights, a cache, NCCL's VMM memory, then a request larger than what is free, twice."""
    t = Trace()
    begin(t)
    t.info["device.0.meminfo_total_bytes"] = str(80 * G - 800 * M)
    t.info["device.0.nvml_total_bytes"] = str(80 * G)
    d = {"device": 0, "context": 0x55AA, "result": 0}
    at = 51 * S
    t.event("context-create", at, api="cuDevicePrimaryCtxRetain", free_before_bytes=79 * G + 100 * M,
            free_bytes=79 * G - 400 * M, total_bytes=80 * G - 800 * M, duration_ns=10**8, **d)
    ptr = 0x7F0000000000
    for i in range(80):
        at += 10**7
        t.event("alloc", at, api="cudaMalloc", bytes=400 * M, ptr=ptr, space="device", stack=LOAD,
                duration_ns=90000, **d)
        ptr += 400 * M
    t.flush()
    for i in range(64):
        at += 10**7
        t.event("alloc", at, api="cudaMalloc", bytes=512 * M, ptr=ptr, space="device", stack=CACHE,
                duration_ns=90000, **d)
        ptr += 512 * M
    for i in range(9):
        at += 10**7
        t.event("create", at, api="cuMemCreate", bytes=G, handle=0x100 + i, space="device", stack=NCCL, **d)
        t.event("map", at + 5, api="cuMemMap", bytes=G, handle=0x100 + i, ptr=0x600000000000 + i * 2 * G, **d)
    t.event("memory-sample", at + 10**6, tid=101, thread_name="cutrace", device=0, flags=["nvml"],
            free_bytes=4 * G, total_bytes=80 * G, process_bytes=75 * G)
    d["result"] = 2
    for _ in range(2):
        at += 30 * S
        t.event("alloc", at, api="cudaMalloc", bytes=4617089848, space="device", stack=LOGITS,
                duration_ns=2000000, free_bytes=4 * G - 200 * M, total_bytes=80 * G - 800 * M,
                thread_name="worker", **d)
    t.flush(last=True)
    return t.bytes()


def recovered():
    """Refusals that a free and a retry of the same size settle; enough was free at the second."""
    t = Trace()
    begin(t, exe="trainer", total=1 * G)
    d = {"device": 0, "context": 0x10, "space": "device"}
    for i in range(7):
        t.event("alloc", 60 * S + i * S, api="cuMemAlloc_v2", bytes=128 * M, ptr=0x10000000 + i * 128 * M,
                result=0, stack=PLAIN, **d)
    t.event("alloc", 70 * S, api="cuMemAlloc_v2", bytes=256 * M, result=2, stack=PLAIN, free_bytes=100 * M,
            total_bytes=G, **d)
    t.event("free", 71 * S, api="cuMemFree_v2", ptr=0x10000000)
    t.event("free", 71 * S + 5, api="cuMemFree_v2", ptr=0x10000000 + 2 * 128 * M)
    t.event("alloc", 72 * S, api="cuMemAlloc_v2", bytes=256 * M, result=2, stack=PLAIN, free_bytes=356 * M,
            total_bytes=G, **d)
    t.event("free", 73 * S, api="cuMemFree_v2", ptr=0x10000000 + 3 * 128 * M)
    t.event("alloc", 74 * S, api="cuMemAlloc_v2", bytes=256 * M, result=0, ptr=0x10000000 + 2 * 128 * M,
            stack=PLAIN, **d)
    t.flush(last=True)
    return t.bytes()


def mixed():
    """Every kind of object on two devices: what counts as live and what does not."""
    t = Trace()
    begin(t, exe="mixed", devices=2, total=16 * G)
    at = [60 * S]

    def e(op, **k):
        at[0] += S // 10
        k.setdefault("result", 0)
        k.setdefault("device", 0)
        t.event(op, at[0], **k)

    e("alloc", api="cuMemAlloc_v2", ptr=0x1000000, bytes=10 * M, context=1, space="device", stack=PLAIN)
    e("alloc", api="cuMemAllocManaged", ptr=0x9000000, bytes=30 * M, context=1, space="managed", stack=PLAIN)
    e("alloc", api="cuMemHostAlloc", ptr=0xA000000, bytes=50 * M, context=1, space="host", stack=PLAIN)
    e("register", api="cuMemHostRegister_v2", ptr=0xB000000, bytes=70 * M, context=1, space="host")
    e("alloc", api="cuArrayCreate_v2", handle=0x77, bytes=5 * M, context=1, space="device", flags=["array"])
    e("alloc", api="cuArray3DCreate_v2", handle=0x78, bytes=0, context=1, space="device", flags=["deferred"])
    e("reserve", api="cuMemAddressReserve", ptr=0x700000000, bytes=G, device=1)
    e("create", api="cuMemCreate", handle=0x501, bytes=20 * M, space="device", device=1, stack=NCCL)
    e("create", api="cuMemCreate", handle=0x502, bytes=20 * M, space="device", device=1, stack=NCCL)
    e("map", api="cuMemMap", handle=0x501, ptr=0x700000000, bytes=20 * M, device=1)
    e("map", api="cuMemMap", handle=0x502, ptr=0x700000000 + 20 * M, bytes=20 * M, device=1)
    e("release", api="cuMemRelease", handle=0x501, device=1)  # still mapped: still there
    e("access", api="cuMemSetAccess", ptr=0x700000000, bytes=40 * M, device=1)
    e("retain", api="cuMemRetainAllocationHandle", ptr=0x700000000 + 20 * M, handle=0x502, device=1)
    e("release", api="cuMemRelease", handle=0x502, device=1)
    t.flush()
    t.checkpoint()
    e("unmap", api="cuMemUnmap", ptr=0x700000000, bytes=40 * M, device=1)  # 0x501 goes, 0x502 is held
    e("create", api="cuMulticastCreate", handle=0x601, bytes=2 * M, space="device", flags=["multicast"])
    e("import", api="cuMemImportFromShareableHandle", handle=0x701, bytes=8 * M, flags=["foreign"], space="device")
    e("ipc-open", api="cuIpcOpenMemHandle_v2", ptr=0xC000000, flags=["foreign"])
    e("pool-create", api="cuMemPoolCreate", pool=0x900)
    e("alloc", api="cuMemAllocFromPoolAsync", ptr=0xD000000, bytes=3 * M, context=1, space="device", pool=0x900,
      stream=0x44, flags=["async"], stack=PLAIN)
    e("pool-sample", pool=0x900, reserved_bytes=32 * M, used_bytes=3 * M)
    e("graph-alloc", api="cuGraphAddMemAllocNode", ptr=0xE000000, bytes=6 * M, flags=["graph"])
    e("free", api="cuMemFree_v2", ptr=0)
    e("free", api="cuMemFree_v2", ptr=0x123)
    failing = at[0] + S // 10
    e("free", api="cuMemFree_v2", ptr=0x1000000)
    t.event("amend", failing + 5, amends_ns=failing, result=700)  # that free failed: still live
    e("memory-sample", api="cuMemGetInfo_v2", free_bytes=15 * G, total_bytes=16 * G)
    e("note", text="something to say")
    e("lost", count=3)
    e("context-destroy", api="cuCtxDestroy_v2", context=1)  # ends all but the async and the VMM ones
    t.flush(last=True)
    return t.bytes()


def hostile():
    """Strings that would move the cursor, change the title, break JSON or fool the reader."""
    t = Trace()
    evil = b"\x1b]0;owned\x07\x1b[2J\xff\xfe\xc0\x80\xed\xa0\x80\"\\\n\r\t\x00\x9b31m" + "\u202egnp\u202c\u2028ü€😀".encode()
    begin(t, exe=evil)
    t.info["device.0.name"] = evil
    t.info[evil] = evil
    stack = [(evil, b"/x/" .decode() + "lib.so"), ("f" * 3000, "/y/" + "g" * 500 + ".so"), (evil, "/z/\x1b[31mz.py", 7)]
    t.event("alloc", 60 * S, api=evil, thread_name=evil, bytes=M, ptr=0x1000, device=0, result=0, space="device",
            stack=stack)
    t.event("alloc", 61 * S, api=evil, thread_name=evil, bytes=90 * G, device=0, result=2, space="device", stack=stack)
    t.event("note", 62 * S, text=evil)
    t.flush(last=True)
    return t.bytes()


def killed():
    """The end of a ring: earlier chunks overwritten, one missing in the middle, no clean end."""
    t = Trace()
    begin(t, exe="killed", total=1 * G)
    d = {"device": 0, "context": 1, "space": "device", "result": 0}
    for c in range(6):
        t.checkpoint()
        for i in range(10):
            t.event("alloc", (60 + c) * S + i * 10**6, api="cuMemAlloc_v2", bytes=M, stack=PLAIN,
                    ptr=0x1000000 + (c * 10 + i) * 2 * M, **d)
        begin(t, exe="killed", total=1 * G)
        t.flush()
    return b"".join(t.out[2:4] + t.out[5:])


def elsewhere():
    """A pool's idle reserve and a neighbour, each of which would have been enough; and host memory refused."""
    t = Trace()
    begin(t, exe="shared", total=8 * G)
    d = {"device": 0, "context": 1}
    t.event("alloc", 60 * S, api="cuMemAllocFromPoolAsync", ptr=0x10000000, bytes=256 * M, result=0, space="device",
            pool=0x900, flags=["async"], stack=PLAIN, **d)
    t.event("pool-sample", 60 * S + 1, pool=0x900, reserved_bytes=2 * G, used_bytes=256 * M, device=0)
    t.event("memory-sample", 61 * S, tid=101, device=0, flags=["nvml"], free_bytes=G, total_bytes=8 * G,
            process_bytes=3 * G)
    t.event("alloc", 62 * S, api="cuMemHostAlloc", bytes=64 * G, result=2, space="host", stack=PLAIN, **d)
    t.event("alloc", 63 * S, api="cudaMalloc", bytes=1536 * M, result=2, space="device", stack=PLAIN, free_bytes=G,
            total_bytes=8 * G, **d)
    t.flush(last=True)
    return t.bytes()


ALL = [refused, recovered, mixed, hostile, killed, elsewhere]

__all__ = ["ALL", "raw_zstd_frame"]
