# SPDX-License-Identifier: Apache-2.0
"""One of NVIDIA's libraries at work, through ctypes, with checkpoints of free memory: libraries.py NAME FILE.

Exit status 77: the library cannot be loaded or used here; stderr says why.
"""
import ctypes
import json
import os
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")
ledger = open(f"{os.environ['GPU_LEDGER']}.{os.getpid()}", "w", buffering=1)
BUFFER = 8 << 20


def checkpoint(name, kind):
    cuda.cuCtxSynchronize()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    if cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
        raise SystemExit("cuMemGetInfo failed")
    ledger.write(json.dumps(dict(t_ns=time.monotonic_ns(), op="checkpoint", name=name, kind=kind, free=free.value,
                                 total=total.value, reserved=0)) + "\n")


def ok(status, what):
    if status:
        sys.exit(f"{what} returns {status}")


def cublas(lib, p):
    handle, one = ctypes.c_void_p(), ctypes.c_float(1.0)
    ok(lib.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
    checkpoint("cublasCreate", "library")
    n = ctypes.c_int(512)
    pointers = [ctypes.c_void_p(p.value + i * (2 << 20)) for i in range(3)]
    ok(lib.cublasSgemm_v2(handle, 0, 0, n, n, n, ctypes.byref(one), pointers[0], n, pointers[1], n,
                          ctypes.byref(one), pointers[2], n), "cublasSgemm")
    checkpoint("cublasSgemm", "library")
    ok(lib.cublasDestroy_v2(handle), "cublasDestroy")


def cufft(lib, p):
    plan = ctypes.c_int()
    ok(lib.cufftPlan1d(ctypes.byref(plan), 1000003, 0x29, 1), "cufftPlan1d")  # a prime: needs a work area
    checkpoint("cufftPlan1d", "library")
    ok(lib.cufftExecC2C(plan, ctypes.c_void_p(p.value), ctypes.c_void_p(p.value), -1), "cufftExecC2C")
    checkpoint("cufftExecC2C", "library")
    ok(lib.cufftDestroy(plan), "cufftDestroy")


def cusolver(lib, p):
    handle, size = ctypes.c_void_p(), ctypes.c_int()
    ok(lib.cusolverDnCreate(ctypes.byref(handle)), "cusolverDnCreate")
    checkpoint("cusolverDnCreate", "library")
    ok(lib.cusolverDnSgetrf_bufferSize(handle, 512, 512, ctypes.c_void_p(p.value), 512, ctypes.byref(size)),
       "cusolverDnSgetrf_bufferSize")
    ok(lib.cusolverDnDestroy(handle), "cusolverDnDestroy")


def nccl(lib, p):
    comm, device = ctypes.c_void_p(), ctypes.c_int(0)
    ok(lib.ncclCommInitAll(ctypes.byref(comm), 1, ctypes.byref(device)), "ncclCommInitAll")
    checkpoint("ncclCommInitAll", "library")
    ok(lib.ncclAllReduce(ctypes.c_void_p(p.value), ctypes.c_void_p(p.value), ctypes.c_size_t(1 << 20), 7, 0, comm,
                         None), "ncclAllReduce")
    checkpoint("ncclAllReduce", "library")
    ok(lib.ncclCommDestroy(comm), "ncclCommDestroy")


def main():
    name, path = sys.argv[1:3]
    context, p = ctypes.c_void_p(), ctypes.c_uint64()
    ok(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context),
       "the context")
    checkpoint("context", "context")
    ok(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(BUFFER)), "cuMemAlloc")
    checkpoint("own buffer", "tracked")
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        print(f"{path}: {e}", file=sys.stderr)
        sys.exit(77)
    globals()[name](lib, p)
    checkpoint("destroyed", "library")


main()
