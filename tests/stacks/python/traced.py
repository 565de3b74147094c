# SPDX-License-Identifier: Apache-2.0
"""A program to be traced: each of its allocations has a different size, and the program logs Python's own frames beside
it: traced.py TRUTH STACKS [gil]. A line of the file: [bytes, [[function, file, line], ...]]."""
import ctypes
import json
import sys
import threading

import shapes
from walker import truth, written

LAST = 1 << 21  # bytes of what a thread without Python gives back


class Driver:
    def __init__(self, path, keep_gil):
        self.lib = (ctypes.PyDLL if keep_gil else ctypes.CDLL)("libcuda.so.1")
        self.out = open(path, "w", encoding="utf-8")
        self.lock = threading.RLock()
        self.local = threading.local()
        self.stacks = 0
        context = ctypes.c_void_p()
        assert self.lib.cuInit(0) == 0
        assert self.lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        self.context = context

    def prepare(self):
        if not hasattr(self.local, "ready"):
            self.local.ready = self.lib.cuCtxSetCurrent(self.context) == 0

    def number(self):
        with self.lock:
            self.stacks += 1
            return self.stacks

    def here(self):
        self.prepare()
        bytes_wanted = self.number()
        frames = [(written(function).decode("utf-8", "replace"), written(file).decode("utf-8", "replace"), line)
                  for function, file, line in truth(sys._getframe().f_back)]
        self.allocate(bytes_wanted)
        with self.lock:
            self.out.write(json.dumps([bytes_wanted, frames]) + "\n")

    def allocate(self, bytes_wanted):
        p = ctypes.c_uint64()
        assert self.lib.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(bytes_wanted)) == 0
        assert self.lib.cuMemFree_v2(p) == 0

    def give_back_elsewhere(self):
        """In a thread that Python does not know: its start routine is the driver's."""
        p, thread = ctypes.c_uint64(), ctypes.c_ulong()
        assert self.lib.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(LAST)) == 0
        libc = ctypes.CDLL(None)
        assert libc.pthread_create(ctypes.byref(thread), None, self.lib.cuMemFree_v2, p) == 0
        libc.pthread_join(thread, None)


def main():
    d = Driver(sys.argv[1], "gil" in sys.argv[3:])
    most = int(sys.argv[2])
    sys.setrecursionlimit(5000)

    def deep(n):
        return deep(n - 1) if n else d.here()
    deep(200)
    deep(1000)
    for s in shapes.SHAPES:
        s(d.here)
    seed = 0
    while d.stacks < most:
        seed += 1
        shapes.by_chance(d.here, seed)
    d.give_back_elsewhere()
    d.out.close()
    print(d.stacks)


main()
