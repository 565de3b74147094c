# SPDX-License-Identifier: Apache-2.0
"""Driver calls through ctypes: ctypes_calls.py STATEMENT makes some, then runs the statement. For model_server.py."""
import ctypes
import os  # noqa: F401 (for the statement)
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def begin():
    context = ctypes.c_void_p()
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0):
        raise RuntimeError("no device")
    cuda.sim_driver_returned()
    cuda.cuCtxSetCurrent(context)


def take(size):
    p = ctypes.c_uint64()
    cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(size))
    cuda.sim_driver_returned()
    return p


def give(p):
    cuda.cuMemFree_v2(p)
    cuda.sim_driver_returned()


def some(n):
    kept = []
    for i in range(n):
        kept.append(take(1000 + i))
        if i % 3 == 2:
            give(kept.pop(0))


if __name__ == "__main__":
    begin()
    some(100)
    exec(sys.argv[1])
