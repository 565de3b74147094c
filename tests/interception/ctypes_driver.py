# SPDX-License-Identifier: Apache-2.0
"""The driver API through ctypes, as Python programs reach it."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context))
p, q = ctypes.c_uint64(), ctypes.c_uint64()
print(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(3 << 20)))
found, status = ctypes.c_void_p(), ctypes.c_int()
print(cuda.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(found), 12000, ctypes.c_uint64(0), ctypes.byref(status)))
alloc = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(found.value)
print(alloc(ctypes.addressof(q), 5 << 20), status.value)
print(cuda.cuMemFree_v2(p))
