# SPDX-License-Identifier: Apache-2.0
"""Traces of processes with a small caching allocator that has the rules of PyTorch's.

Small blocks get segments of 2 MiB, large ones of 20 MiB or more, by best fit; blocks are split and merged. Or each
device has one reserved range that grows by mappings (expandable). A request that does not fit is tried again after all
unused memory was freed, and is then reported as out of memory.
"""
import random

from mktrace import FIRST_PART, LAST_PART, Trace, packed_columns

K, M, G, S = 1 << 10, 1 << 20, 1 << 30, 10**9
CUDA = [("cuMemAlloc_v2", "/usr/lib/libcuda.so.1"), ("cudaMalloc", "/opt/cuda/libcudart.so.13")]
C10 = CUDA + [("_ZN3c104cuda20CUDACachingAllocator6mallocEm", "/x/libc10_cuda.so")]
# Names that PyTorch's viewer leaves out, wherever they stand in a name or a file.
SITES = [[("load_weights", "/m/loader.py", 120), ("main", "/m/api.py", 3)],
         [("forward", "/m/model.py", 40), ("on_train_start", "/m/trainer.py", 7), ("main", "/m/api.py", 3)],
         [("Registry.make", "/m/Registers/ceval.cache.py", 9), ("main", "/m/api.py", 3)],
         [("PyObject_maker", "/m/made.py", 2)], [("backward", "/m/model.py", 77), ("main", "/m/api.py", 3)],
         [("step", "/m/\u00fcber/optim.py", 12), ("main", "/m/api.py", 3)]]
NCCL = CUDA + [("ncclCommInitRank", "/x/libnccl.so.2"), ("init_process_group", "/m/dist.py", 5)]
CUBLAS = CUDA + [("cublasCreate_v2", "/x/libcublas.so.12")]


class Versioned(Trace):
    columns, version = staticmethod(packed_columns), 3


def begin(t, devices=1, total=G):
    t.info = {"cutrace.version": "0.1.0", "process.pid": "4711", "process.exe": "python3", "process.start_ns": str(50 * S),
              "clock.monotonic_ns": str(50 * S), "clock.realtime_ns": str(1795000000 * S),
              "torch.version": "2.9.1", "process.env.PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}
    for d in range(devices):
        t.info["device.%d.total_bytes" % d] = str(total)


class Process:
    """One process: its time, its driver and the pools of its devices."""

    def __init__(self, seed, devices=1, capacity=256 * M, expandable=False, trace=None):
        self.draw = random.Random(seed)
        self.trace = trace or Versioned()
        begin(self.trace, devices, capacity)
        self.t = 51 * S
        self.used = [0] * devices
        self.capacity = capacity
        self.at = 0x7F0000000000
        self.given_back = []  # addresses of the driver, to be handed out again
        self.handles = 0x100
        self.pools = [Pool(self, d, expandable) for d in range(devices)]
        self.driver = {}  # address -> (bytes, device)

    def event(self, op, device, **fields):
        self.t += self.draw.choice((700, 1900, 5000, 123456))
        return self.trace.event(op, self.t, device=device, context=0x55AA, **fields)

    def refuse(self, device, size, stack):
        self.event("alloc", device, api="cudaMalloc", bytes=size, result=2, space="device", stack=stack,
                   free_bytes=self.capacity - self.used[device], total_bytes=self.capacity)

    def driver_malloc(self, device, size, stack):
        if self.used[device] + size > self.capacity:
            self.refuse(device, size, stack)
            return None
        fits = [a for a in self.given_back if a[1] >= size]
        if fits and self.draw.random() < 0.7:
            found = self.draw.choice(fits)
            self.given_back.remove(found)
            ptr = found[0]
        else:
            ptr = self.at
            self.at += size + self.draw.choice((0, 0, 2 * M))
        self.event("alloc", device, api="cudaMalloc", bytes=size, ptr=ptr, result=0, space="device", stack=stack)
        self.used[device] += size
        self.driver[ptr] = size, device
        return ptr

    def driver_free(self, ptr):
        size, device = self.driver.pop(ptr)
        self.event("free", device, api="cudaFree", ptr=ptr, result=0)
        self.used[device] -= size
        self.given_back.append((ptr, size))

    def driver_map(self, device, at, size, stack):
        if self.used[device] + size > self.capacity:
            self.refuse(device, size, stack)
            return False
        self.handles += 1
        both = {"device": device, "result": 0, "handle": self.handles, "bytes": size}
        self.event("create", api="cuMemCreate", space="device", stack=stack, **both)
        self.event("map", api="cuMemMap", ptr=at, **both)
        self.used[device] += size
        return self.handles

    def driver_unmap(self, device, at, size, handle):
        self.event("unmap", device, api="cuMemUnmap", ptr=at, bytes=size, result=0)
        self.event("release", device, api="cuMemRelease", handle=handle, result=0)
        self.used[device] -= size

    def work(self, steps, outside=0.02, largest=24 * M):
        """Steps of a program: blocks come and go, now and then so does memory of libraries."""
        others = []
        for _ in range(steps):
            pool = self.draw.choice(self.pools)
            dice = self.draw.random()
            if dice < outside:
                if others and self.draw.random() < 0.4:
                    self.driver_free(others.pop(self.draw.randrange(len(others))))
                else:
                    ptr = self.driver_malloc(pool.device, self.draw.choice((4 * K, 512 * K, 3 * M)),
                                             self.draw.choice((NCCL, CUBLAS)))
                    others += [ptr] if ptr else []
            elif dice < outside + 0.005:
                pool.empty()
            elif pool.alive and dice < 0.5:
                pool.free(self.draw.choice(list(pool.alive)))
            else:
                size = int(512 * 2**self.draw.uniform(0, (largest // 512).bit_length() - 1))
                pool.malloc(size, C10 + self.draw.choice(SITES))

    def done(self, **keywords):
        self.trace.flush(last=True, **keywords)
        return self.trace.bytes()


class Pool:
    """blocks: address -> [bytes, free]; a segment is the blocks from its start up to its end."""

    def __init__(self, process, device, expandable):
        self.process, self.device, self.expandable = process, device, expandable
        self.segments = {}  # start -> bytes
        self.free_blocks, self.alive = {}, {}
        self.pages = {}  # start -> (bytes, handle)
        self.base = 0x600000000000 + device * (1 << 40)
        self.end = self.base

    def stated(self):
        reserved = sum(b for b, _ in self.pages.values()) if self.expandable else sum(self.segments.values())
        return {"reserved_bytes": reserved, "allocated_bytes": sum(self.alive.values())}

    def find(self, size):
        fits = [(b, a) for a, b in self.free_blocks.items() if b >= size]
        return min(fits)[1] if fits else None

    def grow(self, size, stack):
        if self.expandable:
            page = 2 * M if size <= M else 20 * M
            tail = max((a for a, b in self.free_blocks.items() if a + b == self.end), default=self.end)
            while self.end - tail < size:
                handle = self.process.driver_map(self.device, self.end, page, stack)
                if not handle:
                    return None
                self.pages[self.end] = page, handle
                self.free_blocks[self.end] = page
                self.end += page
                self.join()
            return self.find(size)
        want = 2 * M if size <= M else 20 * M if size < 10 * M else (size + 2 * M - 1) // (2 * M) * 2 * M
        ptr = self.process.driver_malloc(self.device, want, stack)
        if ptr:
            self.segments[ptr] = want
            self.free_blocks[ptr] = want
        return ptr

    def join(self):
        """Neighbours of one segment that are both free become one block."""
        for a in sorted(self.free_blocks):
            b = self.free_blocks.get(a)
            while b and a + b in self.free_blocks and a + b not in self.segments:
                b += self.free_blocks.pop(a + b)
                self.free_blocks[a] = b

    def malloc(self, size, stack):
        size = max(512, (size + 511) // 512 * 512)
        at = self.find(size) or self.grow(size, stack)
        if at is None:
            self.empty()
            at = self.grow(size, stack)
        if at is None:
            self.process.event("block-oom", self.device, bytes=size, stack=stack[2:], **self.stated())
            return None
        whole = self.free_blocks.pop(at)
        if whole - size >= 512:
            self.free_blocks[at + size] = whole - size
        else:
            size = whole
        self.alive[at] = size
        self.process.event("block-alloc", self.device, ptr=at, bytes=size, stack=stack[3:], **self.stated())
        return at

    def free(self, at):
        size = self.alive.pop(at)
        self.process.event("block-free", self.device, ptr=at, bytes=size, stack=SITES[4], **self.stated())
        self.free_blocks[at] = size
        self.join()

    def empty(self):
        """Gives back what holds no block."""
        for start, size in list(self.segments.items()):
            if self.free_blocks.get(start) == size:
                del self.segments[start], self.free_blocks[start]
                self.process.driver_free(start)
        for start in sorted(self.pages, reverse=True):
            size, handle = self.pages[start]
            tail = [a for a, b in self.free_blocks.items() if a <= start and a + b == self.end]
            if start + size != self.end or not tail:
                break
            at = tail[0]
            self.process.driver_unmap(self.device, start, size, handle)
            del self.pages[start]
            self.end = start
            if at == start:
                del self.free_blocks[at]
            else:
                self.free_blocks[at] = start - at


def checkpoint(process, made):
    """The records of what is alive, for a segment of a ring; made: (kind, address) -> (number, time, fields)."""
    return FIRST_PART | LAST_PART, [process.trace.record(**fields, event=number, t_ns=t)
                                    for number, t, fields in sorted(made, key=lambda m: m[0])]


def chaos(seed, events):
    """Events in any order at a few addresses, as where most others were lost."""
    p = Process(seed)
    d = p.draw
    for _ in range(events):
        at = 0x10000000 + d.randrange(48) * M
        size = d.choice((M, 2 * M, 3 * M, 512))
        op = d.choice(("alloc", "alloc", "free", "map", "unmap", "block-alloc", "block-alloc", "block-alloc", "block-free",
                       "block-free", "create", "release", "block-oom"))
        fields = {"ptr": at} if op not in ("create", "release", "block-oom") else {}
        if op not in ("free", "release"):
            fields["bytes"] = size
        if op in ("create", "map", "release"):
            fields["handle"] = 0x100 + d.randrange(8)
        if op in ("alloc", "create"):
            fields["space"] = d.choice(("device", "device", "managed", "host"))
        if not op.startswith("block"):
            fields["result"] = d.choice((0, 0, 0, 2))
        p.event(op, d.choice((0, 0, 0, 1)), api="cuX", stack=d.choice(SITES), **fields)
    return p.done()
