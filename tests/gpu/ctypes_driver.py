# SPDX-License-Identifier: Apache-2.0
"""The driver API through ctypes, with a ledger of its own."""
import ctypes
import json
import os
import threading
import time

cuda = ctypes.CDLL("libcuda.so.1")
ledger = open(f"{os.environ['GPU_LEDGER']}.{os.getpid()}", "w", buffering=1)


def write(**line):
    ledger.write(json.dumps(line) + "\n")


def checkpoint(name, kind):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
        raise SystemExit("cuMemGetInfo failed")
    write(t_ns=time.monotonic_ns(), op="checkpoint", name=name, kind=kind, free=free.value, total=total.value,
          reserved=0)


def alloc(bytes_):
    p, before = ctypes.c_uint64(), time.monotonic_ns()
    r = cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(bytes_))
    line = {"ptr": hex(p.value)} if r == 0 else {}
    write(t_ns=before, pid=os.getpid(), tid=threading.get_native_id(), api="cuMemAlloc_v2", op="alloc", result=r,
          bytes=bytes_, **line)
    return p


def free(p):
    r = cuda.cuMemFree_v2(p)
    write(t_ns=time.monotonic_ns(), pid=os.getpid(), tid=threading.get_native_id(), api="cuMemFree_v2", op="free",
          result=r, ptr=hex(p.value))


context = ctypes.c_void_p()
if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
    raise SystemExit("no context")
checkpoint("context", "context")
kept = [alloc(n) for n in (1, 4096, 3 << 20, 33 << 20)]
checkpoint("allocated", "tracked")
for p in kept[1:3]:
    free(p)
checkpoint("half freed", "tracked")
alloc(1 << 50)
found, status, q = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
if cuda.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(found), 12000, ctypes.c_uint64(0), ctypes.byref(status)):
    raise SystemExit("cuGetProcAddress failed")
resolved = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(found.value)
before = time.monotonic_ns()
r = resolved(ctypes.addressof(q), 5 << 20)
write(t_ns=before, pid=os.getpid(), tid=threading.get_native_id(), api="cuMemAlloc_v2", op="alloc", result=r,
      bytes=5 << 20, ptr=hex(q.value))
checkpoint("by cuGetProcAddress", "tracked")
