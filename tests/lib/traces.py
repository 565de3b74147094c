# SPDX-License-Identifier: Apache-2.0
"""The traces of the golden tests: small, each with something of its own."""
from mktrace import FIRST_PART, LAST_PART, Trace, packed_columns, raw_zstd_frame

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


def bypassed():
    """Whose recorder looked at its modules: calls and look-ups of some go past it, one child lost it."""
    t = Trace()
    begin(t, exe="serve", total=8 * G)
    t.info.update({
        "hook.cuMemAlloc_v2.calls": "2", "hook.cuMemFree_v2.calls": "1", "nvtx.modules": "2", "torch.version": "2.9.0",
        "cupti.state": "given to libtorch_cuda.so", "recorder.lost_events": "0", "recorder.switched_off": "1",
        "option.AUDIT": "1", "audit.both.cuMemAlloc_v2": "40", "audit.only_cupti.cuMemFree_v2": "2",
        "audit.only_preload.cuMemCreate": "1", "look_ups.dlsym": "9", "look_ups.dlsym.wrapped": "5", "look_ups.cuGetProcAddress": "544",
        "look_ups.cuGetProcAddress.wrapped": "214", "look_ups.cudaGetDriverEntryPoint": "1",
        "look_ups.cudaGetDriverEntryPoint.wrapped": "1", "look_ups.names_dropped": "3",
        "unwrapped.cuInit.2000": "1", "unwrapped.cuMemAlloc.0": "2", "look_ups.hooked_passed.cuMemAlloc.0": "2",
        "unwrapped.cuMemCreate.-1": "1", "look_ups.hooked_passed.cuMemCreate.-1": "1",
        "look_ups.resolver.0": "libcudart.so.13", "look_ups.resolver.1": "libnccl.so.2",
        "coverage.looks": "4", "coverage.modules": "212", "coverage.modules_unreadable": "1", "coverage.drivers": "2",
        "coverage.bound_elsewhere.0": "libplugin.so", "coverage.bound_elsewhere.0.to": "libcudart.so.13 2",
        "coverage.bound_elsewhere.1": "serve", "coverage.bound_elsewhere.1.to": "libvgpu.so 7, libcuda.so.1 1",
        "coverage.looks_up_elsewhere.0": "libengine.so", "coverage.looks_up_elsewhere.0.to": "libc.so.6",
        "coverage.children": "3", "coverage.children_without_library": "2",
        "coverage.children_without_library_names": "worker, python3.12", "coverage.children_unreadable": "1"})
    d = {"device": 0, "context": 1, "result": 0, "space": "device"}
    for i in range(3):
        at = (60 + i) * S
        t.event("alloc", at, api="cuMemAlloc_v2", ptr=0x10000000 + i * G, bytes=256 * M, stack=PLAIN, **d)
        t.event("memory-sample", at + S // 2, tid=101, device=0, flags=["nvml"], free_bytes=7 * G - i * G,
                total_bytes=8 * G, **({"process_bytes": (1 + i) * G} if i else {}))
    t.flush(last=True)
    return t.bytes()


def ringed():
    """A file that went round: the surroundings of a refusal were kept, the end is exact from a checkpoint on."""
    t = Trace()
    d = {"device": 0, "context": 1, "space": "device", "api": "cuMemAlloc_v2", "stack": PLAIN}
    live = {}
    for c in range(12):
        if c % 3 == 0:
            t.restart()
            begin(t, exe="ringed", total=1 * G)
            t.info["option.SAMPLE"] = "64K"
        state = [t.record("alloc", live[p][1], ptr=p, bytes=M, event=live[p][0], **d) for p in sorted(live)]
        for i in range(10):
            at = (60 + c) * S + i * 10**6
            if (c, i) == (4, 5):
                t.event("alloc", at, bytes=2 * G, result=2, free_bytes=M, total_bytes=G, **d)
                continue
            p = 0x1000000 + (c * 10 + i) * 2 * M
            live[p] = (t.event("alloc", at, ptr=p, bytes=M, result=0, **d), at)
            if i % 2:
                t.event("free", at + 1000, ptr=p)
                del live[p]
        t.flush(checkpoint=(FIRST_PART | LAST_PART, state) if c % 3 == 0 else None)
    return b"".join(t.out[3:6] + t.out[8:])


# What a line of Python that makes a tensor looks like, innermost first: CUDA, PyTorch's layers, the interpreter.
TENSOR = [("cuMemAlloc_v2", "/usr/lib/libcuda.so.1"), (None, "/opt/cuda/libcudart.so.12", 0x4411), ("cudaMalloc", "/opt/cuda/libcudart.so.12"),
          ("_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator8allocateEm", "/x/libc10_cuda.so"),
          (None, "/x/libtorch_cuda.so", 0x77000),
          ("_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorE", "/x/libtorch_cpu.so"),
          ("_ZN2at4_ops19empty_memory_format4callEN3c108ArrayRefIlEE", "/x/libtorch_cpu.so"),
          ("_ZN5torch8autogradL17THPVariable_zerosEP7_objectS2_S2_", "/x/libtorch_python.so"),
          ("cfunction_call.lto_priv.0", "/usr/bin/python3.12")]
RUN = [("GPUModelRunner.initialize_kv_cache", "/v/vllm/v1/worker/gpu_model_runner.py", 2071)]
SERVE = [("Module._call_impl", "/x/torch/nn/modules/module.py", 1747), ("Worker.determine_available_memory", "/v/vllm/v1/worker/gpu_worker.py", 183),
         ("_call_with_frames_removed", "<frozen importlib._bootstrap>", 241), ("run_engine_core", "/v/vllm/v1/engine/core.py", 609),
         ("Py_RunMain", "/usr/bin/python3.12"), ("__libc_start_main", "/lib/libc.so.6"), ("_start", "/usr/bin/python3.12", 0x900)]
BACKWARD = TENSOR[:7] + [("_ZN5torch8autograd9generated11MmBackward05applyEOSt6vectorIN2at6TensorESaIS4_EE", "/x/libtorch_cpu.so"),
                         ("_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEE", "/x/libtorch_cpu.so"),
                         ("execute_native_thread_routine", "/usr/lib/libstdc++.so.6"), ("start_thread", "/lib/libc.so.6")]
INLINED = TENSOR[:3] + [("_ZN6loader4readEm", "/opt/app/libloader.so", 0x2000,
                         [("_ZN3std3newEm", "/usr/include/new", 12), ("_ZN6loader4growEm", "/src/loader/grow.h", 31),
                          ("_ZN6loader4readEm", "/src/loader/read.cc", 88)]),
                        ("main", "/opt/app/bin", 0x100, [("main", "/src/main.cc", 5)])]


def python():
    """Native and Python frames in one stack, ends, inlined functions, threads without frames; only in version 3."""
    t = Trace()
    t.version, t.columns = 3, packed_columns
    begin(t)
    d = {"device": 0, "context": 0x55AA, "api": "cudaMalloc", "space": "device"}
    made = [(TENSOR + RUN + SERVE, 40 * G, {}), (TENSOR + RUN + SERVE[:1] + ["deeper"], 20 * G, {}), (BACKWARD, 6 * G, {"thread_name": "pt_autograd_0"}),
            (INLINED, 5 * G, {}), (TENSOR[:4] + ["lost"], 3 * G, {}), (TENSOR[:5], 2 * G, {}), (["lost"], G, {}),
            (None, 512 * M, {"tid": 102, "thread_name": "pt_nccl_watchdg"}), (None, 256 * M, {"tid": 103}),
            ([("g", "/m/x.py", 0), (None, "/x/libtorch_python.so", 0x99)], 128 * M, {})]
    for i, (stack, size, more) in enumerate(made):
        t.event("alloc", 51 * S + i * 10**7, bytes=size, ptr=0x7F0000000000 + i * 64 * G, result=0, stack=stack, **d, **more)
    t.event("free", 52 * S, ptr=0x7F0000000000 + 9 * 64 * G, tid=102)
    t.event("alloc", 53 * S, bytes=9 * G, result=2, stack=TENSOR + RUN + [("layer%d" % (i // 9), "/m/model.py", i // 9) for i in range(20)] + SERVE,
            free_bytes=G, total_bytes=80 * G, **d)
    t.event("alloc", 54 * S, bytes=8 * G, result=2, stack=INLINED[:-1] + ["lost"], free_bytes=G, total_bytes=80 * G, **d)
    t.event("alloc", 55 * S, bytes=7 * G, result=2, tid=102, free_bytes=G, total_bytes=80 * G, **d)
    t.flush(last=True)
    return t.bytes()


def block(op, t, at, ptr, size, device, allocated, reserved, function=None, line=0):
    stack = [(function, "/m/train.py", line), ("main", "/m/train.py", 9)] if function else None
    t.event(op, at, ptr=ptr, bytes=size, device=device, stack=stack, allocated_bytes=allocated * M, reserved_bytes=reserved * M)


def pools():
    """PyTorch's blocks: segments of each kind on two devices, a request that pieces did not serve, a limit, a refusal."""
    t = Trace()
    t.version, t.columns = 3, packed_columns
    begin(t, devices=2, total=256 * M)
    t.info["device.0.meminfo_total_bytes"] = str(256 * M)
    seconds = iter(range(51, 200))

    def driver(op, **fields):
        fields = {"result": 0, "device": 0, "stack": CUDA, "space": "device", **fields}
        t.event(op, next(seconds) * S, **{k: v for k, v in fields.items() if v is not None})

    def alloc(*a):
        block("block-alloc", t, next(seconds) * S, *a)

    def free(*a):
        block("block-free", t, next(seconds) * S, *a)
    a, b, c = 0x7F0000000000, 0x7F0002000000, 0x7F0004000000
    driver("alloc", api="cudaMalloc", bytes=20 * M, ptr=a)
    alloc(a, 8 * M, 0, 8, 20, "activations", 40)
    alloc(a + 8 * M, 4 * M, 0, 12, 20, "optimizer", 77)
    alloc(a + 12 * M, 7 * M, 0, 19, 20, "activations", 40)
    free(a, 8 * M, 0, 11, 20)
    free(a + 12 * M, 7 * M, 0, 4, 20)
    driver("alloc", api="cudaMalloc", bytes=2 * M, ptr=b)
    alloc(b, 512 * K, 0, 5, 22, "scalar", 12)
    # 10 MiB: 16 are free, but in two pieces with 4 MiB between them
    driver("alloc", api="cudaMalloc", bytes=10 * M, ptr=c)
    alloc(c, 10 * M, 0, 15, 34, "logits", 91)  # (2 MiB more reserved than was seen)
    free(c, 10 * M, 0, 5, 34)
    # a MemPool with an allocator of its own
    plugin = [("cuMemMap", "/usr/lib/libcuda.so.1"), ("my_malloc", "/x/cumem_allocator.so")]
    driver("reserve", api="cuMemAddressReserve", ptr=0x600000000000, bytes=24 * M, stack=None, space=None)
    driver("create", api="cuMemCreate", handle=0x11, bytes=24 * M, stack=plugin)
    driver("map", api="cuMemMap", handle=0x11, ptr=0x600000000000, bytes=24 * M, stack=plugin, space=None, device=None)
    alloc(0x600000000000, 24 * M, 0, 29, 58, "weights", 5)
    # an expandable segment, and a block that nobody knows the memory of
    e = 0x700000000000
    driver("reserve", api="cuMemAddressReserve", ptr=e, bytes=G, device=1, stack=None, space=None)
    for i in range(2):
        driver("create", api="cuMemCreate", handle=0x21 + i, bytes=20 * M, device=1)
        driver("map", api="cuMemMap", handle=0x21 + i, ptr=e + i * 20 * M, bytes=20 * M, device=None, space=None)
    alloc(e, 30 * M, 1, 30, 40, "cache", 31)
    alloc(0x7F00F0000000, 2 * M, 1, 32, 42, "cache", 31)
    t.flush()
    # PyTorch's own limit, then the driver's
    t.event("block-oom", next(seconds) * S, bytes=100 * M, device=1, stack=[("cache", "/m/train.py", 31)], allocated_bytes=32 * M,
            reserved_bytes=42 * M)
    driver("alloc", api="cudaMalloc", bytes=220 * M, result=2, free_bytes=196 * M, total_bytes=256 * M)
    driver("free", api="cudaFree", ptr=c, device=None, stack=None, space=None, result=None)
    driver("alloc", api="cudaMalloc", bytes=220 * M, result=2, free_bytes=206 * M, total_bytes=256 * M)
    t.event("block-oom", next(seconds) * S, bytes=220 * M, device=0, stack=[("logits", "/m/train.py", 91)], allocated_bytes=29 * M,
            reserved_bytes=48 * M)
    t.flush(last=True)
    return t.bytes()


STEP = [("forward", "/m/model.py", 51), ("train", "/m/train.py", 9)]
LOSS = [("loss", "/m/loss.py", 7), ("train", "/m/train.py", 12)]


def blocks():
    """PyTorch's blocks in its segments on two devices, and a refusal of its own; the beginning was overwritten."""
    t = Trace()
    t.version, t.columns = 3, packed_columns
    begin(t, devices=2, total=G)
    totals = {d: {"allocated_bytes": 0, "reserved_bytes": 0} for d in (0, 1)}
    at, alive, state = [60 * S], {}, []

    def event(op, **fields):
        at[0] += 1000 * K
        return t.event(op, at[0], **fields)

    def segment(device, ptr, size):
        fields = {"api": "cudaMalloc", "ptr": ptr, "bytes": size, "device": device, "context": 1 + device, "space": "device",
                  "stack": CACHE}
        totals[device]["reserved_bytes"] += size
        state.append(("alloc", event("alloc", result=0, **fields), at[0], dict(fields, flags=["segment"])))

    def block(device, ptr, size, stack):
        totals[device]["allocated_bytes"] += size
        fields = {"ptr": ptr, "bytes": size, "device": device, "stack": stack}
        alive[ptr] = ("block-alloc", event("block-alloc", **fields, **totals[device]), at[0], fields)

    def give(ptr):
        fields = alive.pop(ptr)[3]
        totals[fields["device"]]["allocated_bytes"] -= fields["bytes"]
        event("block-free", ptr=ptr, bytes=fields["bytes"], device=fields["device"], **totals[fields["device"]])

    def work(first):
        for i in range(8):
            block(0, 0x10000000 + (first + i) * 512 * K, 512 * K if i % 3 else 300 * K // 512 * 512, STEP if i % 2 else LOSS)
        for i in range(0, 8, 3):
            give(0x10000000 + (first + i) * 512 * K)

    segment(0, 0x10000000, 20 * M)
    segment(1, 0x40000000, 2 * M)
    other = {"api": "cuMemAlloc_v2", "ptr": 0x20000000, "bytes": 6 * M, "device": 0, "context": 1, "space": "device", "stack": NCCL[:1]}
    state.append(("alloc", event("alloc", result=0, **other), at[0], other))
    work(0)
    block(1, 0x40000000, 512, LOSS)
    t.flush()
    t.restart()
    begin(t, devices=2, total=G)
    records = [t.record(op, t_ns, event=number, **fields) for op, number, t_ns, fields in state + list(alive.values())]
    records += [t.record("pool-sample", at[0], tid=None, device=d, **totals[d]) for d in (0, 1)]
    work(8)
    give(0x40000000)
    event("block-oom", bytes=100 * M, device=0, stack=STEP, **totals[0])
    t.flush(checkpoint=(FIRST_PART | LAST_PART, records), last=True)
    return t.out[1]


def unallocated(missing):
    """Frees of memory that was allocated before; with `missing`, events between them are."""
    t = Trace()
    begin(t)
    t.event("free", 51 * S, api="cudaFree", ptr=0x100)
    if missing:
        t.event("lost", 52 * S, count=3)
    t.event("free", 53 * S, api="cudaFree", ptr=0x200)
    t.flush(last=True)
    return t.bytes()


def on_an_instance():
    """A process on a MIG instance, with another process that NVML lists."""
    t = Trace()
    t.info = {"process.pid": "7", "process.nvml_pids": "own", "device.0.mig": "1", "device.0.mig_gpu_instance": "3",
              "device.0.mig_compute_instance": "0", "device.0.mig_card": "1"}
    t.event("alloc", 1000, tid=7, device=0, api="cudaMalloc", ptr=0x10000, bytes=4096, result=0, space="device")
    t.event("process", 2000, tid=9, device=0, flags=["nvml"], pid=8, process_bytes=1 << 30, text="other")
    t.flush(last=True)
    return t.bytes()


def on_streams():
    """A request of stream 3 that fails beside free memory of the default stream."""
    t = Trace()
    t.info = {"process.pid": "7", "torch.block_streams": "current"}
    for n, stream in enumerate(({}, {"stream": 3})):
        at = {"tid": 7, "device": 0, "ptr": (n + 1) << 32}
        t.event("alloc", 1000 + n * 10, **at, api="cudaMalloc", bytes=40 << 20, result=0, space="device")
        t.event("block-alloc", 1001 + n * 10, **at, bytes=30 << 20, **stream)
    t.event("block-oom", 1030, tid=7, device=0, bytes=9 << 20, stream=3)
    t.flush(last=True)
    return t.bytes()


def growing(needed=False):
    """Six hours: two blocks in five minutes that are never freed, and a pool that grows because each request is larger than what
    those before left idle; `needed`: because none of them ends before the last."""
    t, held = Trace(), []
    begin(t)

    def event(op, minutes, **fields):
        t.event(op, (51 + minutes * 60) * S, device=0, **fields)
    for i in range(72):
        size, ptr = (200 + i) * M, (i + 1) << 32
        event("alloc", 5 * i, ptr=ptr, bytes=size, result=0, space="device", stack=[("grow", "/m/grow.py", 1)])
        event("block-alloc", 5 * i, ptr=ptr, bytes=size - 3 * M, stack=[("activations", "/m/activations.py", 1)])
        event("block-alloc", 5 * i, ptr=ptr + size - 3 * M, bytes=2 * M, stack=[("leak", "/m/leak.py", 1)])
        event("block-alloc", 5 * i, ptr=ptr + size - M, bytes=M, stack=CUDA + [("_ZN5cache3putEi", "/opt/app")])
        held.append((ptr, size - 3 * M))
        for at, n in () if needed and i < 71 else held:
            event("block-free", 5 * i + 1, ptr=at, bytes=n)
        held = held if needed else []
        if i % 8 == 7:
            t.flush()
    event("memory-sample", 360, free_bytes=20 * G, total_bytes=80 * G)
    t.flush(last=True)
    return t.bytes()


def annotated():
    """A program that says what it does: a pool of its own in one allocation, an NVTX heap in another one, marks, ranges of a
    thread, of the process and of a library, and an OOM in a range."""
    t = Trace()
    begin(t)
    t.info.update({"annotations.calls": "18", "annotations.early": "0", "nvtx.modules": "1"})
    used = [500 * M]

    def say(op, ms, name=None, domain=None, tid=4711, api="nvtxDomainRangePushEx", **fields):
        if domain:
            fields["domain"] = t.string(domain)
        t.event(op, 60 * S + ms * S // 1000, tid=tid, api=api, text=name, **fields)

    def alloc(ms, ptr, mebi, function, line, result=0):
        used[0] += 0 if result else mebi * M
        t.event("alloc", 60 * S + ms * S // 1000, tid=4711, api="cuMemAlloc_v2", device=0, context=1, space="device", bytes=mebi * M,
                result=result, free_bytes=80 * G - used[0], total_bytes=80 * G, stack=[(function, "/srv/serve.py", line), ("main", "/srv/serve.py", 9)],
                **({} if result else {"ptr": ptr}))

    say("range-start", 0, "job 7", handle=5, api="nvtxDomainRangeStartEx")
    say("range-push", 1, "load")
    alloc(2, 0x700000000000, 1024, "make_arena", 20)
    say("suballoc", 3, "arena", ptr=0x700000000000, bytes=256 * M, api="cutrace_pool_alloc")
    say("suballoc", 4, "arena", ptr=0x700010000000, bytes=512 * M, api="cutrace_pool_alloc")
    say("range-pop", 5, api="nvtxDomainRangePop")
    say("mark", 1000, "loaded", api="nvtxDomainMarkEx")
    say("range-push", 1001, "serve")
    say("range-push", 1002, "ncclAllReduce", domain="NCCL", tid=4712)
    say("range-pop", 1003, domain="NCCL", tid=4712, api="nvtxDomainRangePop")
    alloc(1004, 0x710000000000, 2048, "make_heap", 40)
    say("subpool", 1005, "kv", domain="engine", handle=0x710000000000, ptr=0x710000000000, bytes=2048 * M, api="nvtxMemHeapRegister")
    for i in range(3):
        say("suballoc", 1006 + i, "kv", domain="engine", handle=0x710000000000, ptr=0x710000000000 + i * 128 * M, bytes=100 * M,
            api="nvtxMemRegionsRegister")
    say("subname", 1009, "request 1", ptr=0x710000000000, api="nvtxMemRegionsName")
    say("subfree", 1010, domain="engine", ptr=0x710008000000, api="nvtxMemRegionsUnregister")
    say("subfree", 1011, "arena", ptr=0x700000000000, api="cutrace_pool_free")
    say("mark", 2000, "request 2", domain="engine", api="nvtxDomainMarkEx")
    alloc(2001, 0, 79 * 1024, "grow", 50, result=2)
    say("range-pop", 2002, api="nvtxDomainRangePop")
    say("range-end", 2003, handle=5, api="nvtxDomainRangeEnd")
    t.flush(last=True)
    return t.bytes()


ALL = [refused, recovered, mixed, hostile, killed, elsewhere, bypassed, ringed, python, pools, blocks, annotated]

__all__ = ["ALL", "growing", "raw_zstd_frame"]
