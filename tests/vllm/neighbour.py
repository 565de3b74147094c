# SPDX-License-Identifier: Apache-2.0
"""Another process on the same simulated device (SIM_SHM): takes all but so many MiB, or so many bytes, says how much,
and holds it until its standard input ends.  neighbour.py MIB|=BYTES [DEVICE]"""
import ctypes
import sys

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *words):
    result = getattr(cuda, name)(*words)
    if result:
        sys.exit(f"{name}: {result}")


context, free, total, pointer = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), int((sys.argv[2:] or [0])[0]))
call("cuCtxSetCurrent", context)
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
wanted = sys.argv[1]
size = int(wanted[1:]) if wanted.startswith("=") else free.value - int(wanted) * MIB
if size <= 0:
    sys.exit(f"only {free.value} bytes are free")
call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
print(f"holds {size} bytes", flush=True)
sys.stdin.read()
