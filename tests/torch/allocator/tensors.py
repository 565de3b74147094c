# SPDX-License-Identifier: Apache-2.0
"""Lifetimes of tensors in real PyTorch, and what it says of them itself: tensors.py TRUTH [bench ROUNDS COUNT|sleep LIBRARY]

The truth is one line of JSON: `asked`, for tensors made by lines of this file in the order in which they were made, [address,
thread, innermost line and function of this file]; `history`, all allocations as torch's own history has them, [address, bytes
requested, [[file, line, function]...]]; `segments` and `stats` at the end, while some tensors are alive; `marker`: before they were read,
cudaMalloc was asked for so many bytes. Of sleep: a list of `marker`, `segments` and `stats`, before, during and after a sleep of a
memory pool whose allocator is liblike_cumem.c."""
import ctypes
import gc
import json
import sys
import threading
import time

import torch

HERE = __file__
MARKER = 77
asked = []


def note(tensor, depth=1):
    """Who made it: the line of the caller."""
    frame = sys._getframe(depth)
    asked.append([tensor.untyped_storage().data_ptr(), threading.get_native_id(), frame.f_lineno, frame.f_code.co_name])
    return tensor


def cuda(*shape, **more):
    return torch.empty(*shape, device="cuda", **more)


class Model:
    """Attributes, methods, a cycle."""

    def __init__(self, width):
        self.itself = self
        self.weights = [note(torch.empty(width, width, device="cuda")) for _ in range(4)]
        self.bias = note(torch.zeros(width, device="cuda"))

    def forward(self, x):
        for w in self.weights:
            x = note(x + w)
            x = note(torch.relu(x))
        return x

    @property
    def doubled(self):
        return note(self.bias * 2)


def generated(n):
    for i in range(n):
        yield note(torch.empty(1000 * (i + 1), device="cuda"))


def deep(n):
    if n:
        return deep(n - 1)
    return note(torch.empty(12345, device="cuda"))


def backward():
    weight = note(torch.empty(300, 300, device="cuda", requires_grad=True))
    loss = weight * weight
    loss.backward(torch.empty(300, 300, device="cuda"))
    return weight


def refused():
    kept = []
    try:
        while True:
            kept.append(note(torch.empty(100 << 20, dtype=torch.uint8, device="cuda")))
    except torch.OutOfMemoryError:
        return len(kept)


def streams():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = note(torch.empty(1 << 20, device="cuda"))
    x.record_stream(torch.cuda.current_stream())
    del x
    return note(torch.empty(1 << 20, device="cuda"))


def graph():
    """A capture: what is made in it comes from a pool of its own."""
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, capture_error_mode="thread_local"):
        x = note(torch.empty(1 << 21, device="cuda"))
        y = note(x + 1)
    return g, x, y


def own_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = note(torch.empty(3 << 20, device="cuda"))
    return pool, x


def in_thread():
    for i in range(20):
        x = note(torch.empty(5000 + i, device="cuda"))
        del x


def lifetimes():
    model = Model(200)
    x = note(torch.empty(200, 200, device="cuda"))
    for _ in range(5):
        y = model.forward(x)
    keep = [model.doubled, y, *generated(6), deep(40)]
    keep.append((lambda n: note(torch.empty(n, device="cuda")))(999))
    keep.append(backward())
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    keep += [streams(), graph(), own_pool()]
    keep.append(refused())
    torch.cuda.empty_cache()
    del model
    gc.collect()
    return keep


def mark(marker=MARKER):
    runtime, p = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(marker)) == 0
    runtime.cudaFree(p)
    return {"marker": marker, "segments": torch.cuda.memory_snapshot(), "stats": torch.cuda.memory_stats()}


def history():
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    return [[e["addr"], e["size"], [[f["filename"], f["line"], f["name"]] for f in e["frames"]]] for e in entries
            if e["action"] == "alloc"]


def tell(path):
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python")
    keep = lifetimes()
    torch.cuda.synchronize()
    truth = {**mark(), "asked": asked, "history": history()}
    with open(path, "w", encoding="utf-8") as out:
        json.dump(truth, out)
    assert keep


def sleep(path, library):
    """As vLLM does: the weights in a pool, which sleeps while something else needs the memory."""
    calls = ctypes.CDLL(library)
    plugin = torch.cuda.memory.CUDAPluggableAllocator(library, "like_cumem_alloc", "like_cumem_free")
    pool = torch.cuda.MemPool(plugin.allocator())
    with torch.cuda.use_mem_pool(pool):
        weights = [torch.empty(n << 20, dtype=torch.uint8, device="cuda") for n in (30, 3, 1, 50)]
    others = [torch.empty(7 << 20, dtype=torch.uint8, device="cuda")]
    moments = [mark(101)]
    assert calls.like_cumem_sleep() == 0
    others.append(torch.empty(9 << 20, dtype=torch.uint8, device="cuda"))
    moments.append(mark(102))
    assert calls.like_cumem_wake() == 0
    others.append(torch.empty(800000, dtype=torch.uint8, device="cuda"))
    moments.append(mark(103))
    with open(path, "w", encoding="utf-8") as out:
        json.dump(moments, out)
    assert weights and others


# ---- what listening costs --------------------------------------------------------------------------------

def deeper(n, what):
    return deeper(n - 1, what) if n else what()


def churn(count):
    kept = [None] * 64
    for i in range(count):
        kept[i * 7 % 64] = torch.empty(1000 + i * 131 % 50000, device="cuda")


def seconds(count):
    start = time.thread_time()
    deeper(20, lambda: churn(count))
    return time.thread_time() - start


def bench(rounds, count):
    """Nanoseconds an allocation with its free: without torch's history, and with it."""
    deeper(20, lambda: churn(count))
    for _ in range(rounds):
        without = seconds(count)
        torch.cuda.memory._record_memory_history(context="alloc", stacks="python", max_entries=100000)
        with_it = seconds(count)
        torch.cuda.memory._record_memory_history(enabled=None)
        print(without / count * 1e9, with_it / count * 1e9)


if __name__ == "__main__":
    if sys.argv[2:3] == ["bench"]:
        bench(int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[2:3] == ["sleep"]:
        sleep(sys.argv[1], sys.argv[3])
    else:
        tell(sys.argv[1])
