# SPDX-License-Identifier: Apache-2.0
# Allocates and frees blocks from lines that a test knows: lines.py LIBC10_CUDA.
import ctypes
import sys
import threading

torch = ctypes.CDLL(sys.argv[1])
torch.fake_alloc.restype = ctypes.c_void_p
torch.fake_alloc.argtypes = [ctypes.c_int, ctypes.c_size_t]
torch.fake_free.argtypes = [ctypes.c_int, ctypes.c_void_p]


def inner(size):
    return torch.fake_alloc(0, size)  # line: inner


def outer(size):
    p = inner(size)  # line: outer
    torch.fake_free(0, p)


class Work:
    def method(self, size):
        outer(size)  # line: method
        deep(50, size)


def deep(n, size):
    if n:
        deep(n - 1, size)  # line: deep
    else:
        outer(size * 2)  # line: deepest


for i in range(3):
    Work().method(512 * (i + 1))  # line: module
thread = threading.Thread(target=outer, args=(1 << 20,))
thread.start()
thread.join()
