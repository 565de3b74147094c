# SPDX-License-Identifier: Apache-2.0
"""Holds GPU memory as it is told: a command a line on standard input, an answer a line when it was done."""
import ctypes
import random
import sys

cuda = ctypes.CDLL("libcuda.so.1")
context, held, blocks = ctypes.c_void_p(), [], []
scattered, choice = {}, random.Random(1)
assert not (cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
torch = ctypes.CDLL(sys.argv[1])
torch.fake_alloc.restype = ctypes.c_void_p
torch.fake_alloc.argtypes = ctypes.c_int, ctypes.c_size_t
torch.fake_free.argtypes = ctypes.c_int, ctypes.c_void_p


def first_site(n):
    p = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(n)), p


def second_site(n):
    p = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(n)), p


def replace(among, i, n):
    result = cuda.cuMemFree_v2(among.pop(i)) if i in among else 0
    new, among[i] = first_site(n)
    return result or new


def do(word, n=0):
    if word in ("first", "second"):
        result, p = (first_site if word == "first" else second_site)(n)
        if not result:
            held.append(p)
        return result
    if word == "free":
        return cuda.cuMemFree_v2(held.pop())
    if word == "block":
        blocks.append(torch.fake_alloc(0, n))
        return 0 if blocks[-1] else 2
    if word == "unblock":
        torch.fake_free(0, blocks.pop())
        return 0
    if word == "churn":  # so many allocations and frees
        return sum(first_site(512 + i % 64)[0] + cuda.cuMemFree_v2(first_site(512)[1]) for i in range(n))
    if word == "scatter":  # so many allocations of sizes that hardly compress, each of which replaces any of the last ones
        return sum(replace(scattered, choice.randrange(64), choice.randrange(1, 1 << 20)) for _ in range(n))
    raise ValueError(word)


print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    print(do(words[0], *map(int, words[1:])), flush=True)
