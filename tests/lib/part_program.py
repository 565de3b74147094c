# SPDX-License-Identifier: Apache-2.0
"""Programs as lists of records, and their traces with the checkpoints that lib/make_checkpoint.py makes of these: for tests of
passes in parts (tools/report/replay/SEEK.md). As a program: part_program.py FOLDER writes some that fuzz_seek mutates.

A checkpoint lies in every `every`th chunk, and a part's own events begin with the chunk behind it: at Program.seams.
"""
import os
import random
import sys

import make_checkpoint
import mktrace
import whole_trace
from whole_trace import Module, Whole

K, M, G = 1 << 10, 1 << 20, 1 << 30
TOTAL = 80 * G
APP = Module(("/opt/app", 0x7F0000000000, 0x7F0000001000, 0x7F0000900000, b"\x01" * 20))


def native(i):
    return "native", 0x7F0000001000 + 16 * i, APP, 0x1000 + 16 * i, "f%d" % i, 5, ()


def python(function, path, line):
    return "python", function, "/opt/vllm/vllm/" + path, line


WORKER = "v1/worker/gpu_worker.py"
# Of programs without Python, and of phases of vLLM and PyTorch; the last one names none.
STACKS = [(native(i), native(90)) for i in range(5)] + [
    (native(10), python("Worker.load_model", WORKER, 300), native(90)),
    (native(11), python("Worker.determine_available_memory", WORKER, 400), native(90)),
    (native(12), python("GPUModelRunner.execute_model", "v1/worker/gpu/model_runner.py", 500), python("Worker.execute_model", WORKER, 500)),
    (native(13), ("python", "Tensor.backward", "/opt/torch/_tensor.py", 60), native(90)),
    (native(14), ("python", "helper", "/opt/own/helper.py", 3), native(90))]
NATIVE, PHASES = range(5), range(5, 10)
SEGMENT, CHUNK = 20 * M, 2 * M  # of PyTorch's pool; of VMM memory
PLAIN, POOL, SPACE = 1 << 36, 1 << 40, 1 << 44  # where addresses begin


class Program:
    """Random calls of three threads: the driver's memory, PyTorch's blocks in segments and in mappings side by side,
    readings, ranges, marks, modules and lists of processes.

    kinds: what it does, and how often. at: {number of an event: a function that is called with the program before it}.
    slow: calls take so long that readings lie in them. touch: each thread shows its phase while a part warms up. quiet: the
    last five events before a seam are marks, but for what `at` adds."""

    KINDS = {"plain": 8, "block": 20, "space": 2, "reading": 3, "nvml": 2, "range": 2, "mark": 1, "module": 1, "process": 1, "failed-free": 0}

    def __init__(self, seed, chunks=24, every=4, events=60, kinds=None, at=None, slow=False, stacks=None, devices=1, mean=3000, touch=True, quiet=False,
                 info=None):
        self.random, self.records, self.t = random.Random(seed), [], 1000
        self.kinds, self.slow, self.devices, self.mean = {**self.KINDS, **(kinds or {})}, slow, devices, mean
        self.stack_choice = stacks or [*NATIVE, *PHASES]
        self.plain, self.segments, self.spaces, self.blocks = {}, {}, {}, {}  # by address
        self.stream = None  # of PyTorch's blocks, as it notes them
        self.freeing = set()  # threads whose last call frees
        self.failed = set()  # numbers of frees that failed
        self.ranges, self.next, self.device = [], {"plain": PLAIN, "pool": POOL, "space": SPACE, "handle": 1}, 0
        self.tracked, self.reserved, self.allocated = ([0] * devices for _ in range(3))
        self.peak = [(0, None)] * devices  # bytes, number of the event that reached them
        self.low = [None] * devices  # the lowest reading of free memory
        self.info = {"process.start_ns": "500", "process.pid": "7", "process.exe": "server",
                     **{"device.%d.total_bytes" % d: str(TOTAL) for d in range(devices)}, **(info or {})}
        self.per, self.every = events, every
        self.edges = [n * events for n in range(1, chunks)]
        self.seams = [n * events for n in range(every + 1, chunks, every)]
        at, seams = dict(at or {}), list(self.seams)
        while len(self.records) < chunks * events:
            number = len(self.records)
            for n in sorted(n for n in at if n <= number):
                at.pop(n)(self)
            if quiet and any(0 < s - len(self.records) < 6 for s in self.seams):
                self.do_mark()
                continue
            if touch and seams and number >= seams[0] - events // 2:
                seams.pop(0)
                self.touch()
            if number == len(self.records):
                self.step()

    # ---- events
    def add(self, op, tid=None, **more):
        passed = self.random.choice((1, 40, self.random.randrange(300), self.random.randrange(self.mean)))
        self.t += passed
        tid = self.random.choice((1, 1, 1, 2, 3)) if tid is None else tid
        if op in ("alloc", "module-load"):
            is_slow = self.slow and self.random.random() < 0.2
            more["duration_ns"] = self.random.randrange(min(self.t - 600, 3 * self.mean) if is_slow else passed + 1)
        (self.freeing.add if op in ("free", "unmap", "release") else self.freeing.discard)(tid)
        self.records.append({"op": op, "t_ns": self.t, "thread": (tid, "t%d" % tid), **more})
        number = len(self.records) - 1
        for d in range(self.devices):
            if self.tracked[d] > self.peak[d][0]:
                self.peak[d] = self.tracked[d], number
        return number

    def step(self):
        kind, = self.random.choices(list(self.kinds), self.kinds.values())
        self.device = self.random.randrange(self.devices)
        getattr(self, "do_" + kind.replace("-", "_"))()

    def stack(self):
        return self.random.choice(self.stack_choice)

    def settle(self):
        """No free is under way any more: its thread goes on."""
        for tid in sorted(self.freeing) if not self.slow else ():
            self.add("mark", tid, text="freed")

    def address(self, kind, size):
        at = self.next[kind]
        self.next[kind] += (size + 4 * M) // (2 * M) * (2 * M) + 2 * M
        return at

    def alloc(self, size, kind="plain", tid=None, **more):
        ptr, d = self.address(kind, size), self.device
        self.tracked[d] += size
        number = self.add("alloc", tid, api="cuMemAlloc", ptr=ptr, bytes=size, device=d, space=1, result=0, stack=self.stack(),
                          **more)
        (self.segments if kind == "pool" else self.plain)[ptr] = size, d
        return ptr, number

    def free(self, ptr):
        size, d = self.plain.pop(ptr)
        self.tracked[d] -= size
        self.add("free", api="cuMemFree", ptr=ptr, device=d, result=0)

    def do_plain(self):
        if self.plain and self.random.random() < 0.47:
            self.free(self.random.choice(sorted(self.plain)))
        else:
            self.alloc(self.random.choice((M, 2 * M, 4 * K, self.random.randrange(1, 9 * M))))

    def do_failed_free(self):
        """A free that an amend says failed, soon."""
        if not self.plain:
            return
        ptr, tid = self.random.choice(sorted(self.plain)), 2
        self.failed.add(self.add("free", tid, api="cuMemFree", ptr=ptr, device=self.plain[ptr][1], result=0))

    def touch(self):
        """All threads show in which phase they are: a part knows it only if they do while it warms up."""
        for tid in (2, 3, 1):
            stack, self.stack_choice = self.stack_choice, [s for s in self.stack_choice if s in PHASES[:-1]] or self.stack_choice
            self.free(self.alloc(M, tid=tid)[0])
            self.stack_choice = stack

    def room(self, size):
        """Where a block of this size fits, or None."""
        for start, (length, d) in sorted(self.segments.items()):
            at = start
            for ptr in sorted(p for p in self.blocks if start <= p < start + length) + [start + length]:
                if d == self.device and ptr - at >= size:
                    return at
                at = ptr + self.blocks[ptr][0] if ptr in self.blocks else at
        return None

    def block(self, size, ptr, tid):
        d = self.device
        self.blocks[ptr] = size, d
        self.allocated[d] += size
        return self.add("block-alloc", tid, ptr=ptr, bytes=size, device=d, stack=self.stack(), allocated_bytes=self.allocated[d],
                        reserved_bytes=self.reserved[d], **({} if self.stream is None else {"stream": self.stream}))

    def grow(self, size, tid):
        length = max(SEGMENT, size)
        ptr, _ = self.alloc(length, "pool", tid)
        self.reserved[self.device] += length
        return ptr

    def do_block(self):
        if self.blocks and self.random.random() < 0.48:
            return self.free_block(self.random.choice(sorted(self.blocks)))
        size, tid = self.random.choice((512, M, 2 * M, 6 * M, 9 * M)), self.random.choice((1, 1, 2))
        ptr = self.room(size)
        return self.block(size, self.grow(size, tid) if ptr is None else ptr, tid)

    def free_block(self, ptr):
        size, d = self.blocks.pop(ptr)
        self.allocated[d] -= size
        return self.add("block-free", ptr=ptr, bytes=size, device=d, allocated_bytes=self.allocated[d], reserved_bytes=self.reserved[d])

    def reserve(self):
        ptr = self.address("space", 64 * M)
        self.add("reserve", 1, api="cuMemAddressReserve", ptr=ptr, bytes=64 * M, result=0, stack=self.stack())
        self.spaces[ptr] = []
        return ptr

    def map_next(self, space, tid=1):
        """Creates and maps the memory behind what the space has."""
        handle, d, ptr = self.next["handle"], self.device, space + len(self.spaces[space]) * CHUNK
        self.next["handle"] += 1
        self.tracked[d] += CHUNK
        self.add("create", tid, api="cuMemCreate", handle=handle, bytes=CHUNK, device=d, space=1, result=0, stack=self.stack())
        number = self.add("map", tid, api="cuMemMap", ptr=ptr, bytes=CHUNK, handle=handle, result=0, stack=self.stack())
        self.spaces[space].append((handle, d))
        return number

    def unmap(self, space):
        for i, (handle, d) in enumerate(self.spaces.pop(space)):
            self.add("unmap", api="cuMemUnmap", ptr=space + i * CHUNK, bytes=CHUNK, device=d, result=0)
            self.tracked[d] -= CHUNK
            self.add("release", api="cuMemRelease", handle=handle, device=d, result=0)
        self.add("unreserve", api="cuMemAddressFree", ptr=space, bytes=64 * M, result=0)

    def do_space(self):
        if len(self.spaces) > 3:
            return self.unmap(self.random.choice(sorted(self.spaces)))
        space = self.reserve()
        for _ in range(self.random.randrange(1, 5)):
            self.map_next(space)
        return None

    def do_reading(self, free=None):
        self.settle()
        d = self.device
        free = TOTAL - self.tracked[d] - 600 * M - self.random.randrange(90 * M) if free is None else free
        self.low[d] = min(free, self.low[d] or free)
        self.add("memory-sample", device=d, free_bytes=free, total_bytes=TOTAL)

    def do_nvml(self):
        self.settle()
        d, others = self.device, self.random.randrange(90 * M)
        self.add("memory-sample", 9, device=d, free_bytes=TOTAL - self.tracked[d] - 600 * M - others, total_bytes=TOTAL + 480 * M,
                 flags=make_checkpoint.NVML, **({"process_bytes": self.tracked[d] + 500 * M} if self.random.random() < 0.7 else {}))

    def do_range(self):
        r = self.random
        if self.ranges and r.random() < 0.5:
            kind, of = self.ranges.pop()
            self.add("range-pop" if kind == "push" else "range-end", **({"tid": of} if kind == "push" else {"handle": of}))
        elif r.random() < 0.6:
            tid = r.choice((1, 2))
            self.ranges.append(("push", tid))
            self.add("range-push", tid, text="step %d" % r.randrange(5))
        else:
            self.next["handle"] += 1
            self.ranges.append(("start", self.next["handle"]))
            self.add("range-start", handle=self.next["handle"], text="epoch %d" % r.randrange(3))

    def do_mark(self):
        self.add("mark", text="mark %d" % self.random.randrange(9))

    def do_module(self):
        self.settle()
        free = TOTAL - self.tracked[self.device] - 600 * M
        self.add("module-load", api="cuModuleLoadData", device=self.device, result=0, stack=self.stack(), handle=len(self.records) << 20,
                 free_before_bytes=free, free_bytes=free - 2 * M * self.random.randrange(2), total_bytes=TOTAL)

    def do_process(self):
        r = self.random
        if r.random() < 0.3:
            self.add("process-gone", 9, device=self.device, pid=r.choice((8, 9)), flags=make_checkpoint.NVML)
        else:
            self.add("process", 9, device=self.device, pid=r.choice((8, 9)), flags=make_checkpoint.NVML, process_bytes=r.randrange(9) * G,
                     text="other")

    def fill_to(self, size):
        """The driver's memory of the device is so much for a moment."""
        self.free(self.alloc(size - self.tracked[self.device])[0])

    # ---- the trace
    def whole(self, records):
        w = Whole.__new__(Whole)
        w.info, w.records, w.stacks, w.sealed = dict(self.info), records, STACKS, False
        return w

    def amended(self):
        """The records with an amend behind the third event after each free that failed; and the edges among these."""
        records, late, moved = [], [], 0
        edges = []
        for n, r in enumerate(self.records):
            late = [(due, a) for due, a in late if due > n or records.append(a)]
            if n in self.edges:
                edges.append(len(records))
            records.append(r)
            if n in self.failed:
                moved += 1
                late.append((n + 4, {"op": "amend", "t_ns": r["t_ns"] + 1, "thread": r["thread"], "amends_ns": r["t_ns"], "result": 700}))
        return records + [a for _, a in late], edges

    @staticmethod
    def rounded(record):
        """Ranges are not: where a range is open at a checkpoint that rounds its time, no part begins."""
        return record if record["op"].startswith("range") else {**record, "t_ns": record["t_ns"] // 100 * 100}

    def chunks(self, rounds=True, edit=None, ends_empty=False):
        """The chunks of the trace. edit(records of a checkpoint, number of its chunk) returns other ones. ends_empty: one more
        without a record."""
        records, edges = self.amended()
        edges += [len(records)] if ends_empty else []
        truth = [{**r, "result": 700} if n in self.failed else r for n, r in enumerate(self.records)]
        numbers = [n for n in range(1, len(self.edges) + 1) if n % self.every == 0]
        states = make_checkpoint.states(self.whole(truth), [self.edges[n - 1] for n in numbers])
        restarts = {}
        for n, (checkpoint, history) in zip(numbers, states):
            checkpoint = [self.rounded(r) for r in checkpoint] if rounds else checkpoint
            restarts[n] = (edit(checkpoint, n) if edit else checkpoint), history
        return whole_trace.write(self.whole(records), edges, restarts=restarts)


# Programs whose passes are in parts.
SEEDS = ((0, {}), (1, {"block": 0, "space": 0}), (2, {"process": 0, "nvml": 0}), (33, {"space": 8}),
         (14, {"reading": 0, "nvml": 0, "module": 0}), (15, {"nvml": 9}), (6, {"failed-free": 4}), (7, {"range": 9}))


def seeds():
    """These, small enough to be mutated."""
    for seed, kinds in SEEDS:
        yield Program(seed, chunks=11, every=3, events=36, kinds=kinds)


def main(where):
    for seed, program in enumerate(seeds()):
        with open(os.path.join(where, "part-%d.zst" % seed), "wb") as f:
            f.write(b"".join(program.chunks(rounds=seed % 2 == 0)))


if __name__ == "__main__":
    main(sys.argv[1])
