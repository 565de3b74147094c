# SPDX-License-Identifier: Apache-2.0
"""Traces for the page, beside the golden ones: a pool that fragments, names that would be markup, no event at all."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import Trace, packed_columns  # noqa: E402
from traces import CUDA, G, K, M, S, begin  # noqa: E402

MARKUP = ["</script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">",
          "\"></style><h1 id=owned>owned</h1>", "<!--<script>", "${document.title='owned'}", "&lt;b&gt;&#x3c;"]
CONTROL = b"\x1b]0;owned\x07\xff\xfe\xc0\x80\xed\xa0\x80\x00\r\n" + "\u202egnp\u2066\u2028\u2029\U0001f600".encode()


class Pool:
    """A caching allocator that gives nothing back to the driver, and writes what it does into a trace."""

    def __init__(self, trace, total):
        self.trace, self.total, self.at = trace, total, 51 * S
        self.segments, self.blocks = {}, {}  # address -> bytes; address -> (bytes, the segment)
        self.reserved = self.allocated = 0
        self.next = 0x7E0000000000

    def event(self, op, **fields):
        self.at += 3 * 10**6
        self.trace.event(op, self.at, device=0, **fields)

    def totals(self):
        return {"allocated_bytes": self.allocated, "reserved_bytes": self.reserved}

    def holes(self):
        """(bytes, address, segment) of what is free."""
        for start, size in self.segments.items():
            at = start
            for block in sorted(b for b in self.blocks if self.blocks[b][1] == start):
                if block > at:
                    yield block - at, at, start
                at = block + self.blocks[block][0]
            if start + size > at:
                yield start + size - at, at, start

    def take(self, size, stack):
        """An address, or None: out of memory."""
        fits = min((h for h in self.holes() if h[0] >= size), default=None)
        if not fits:
            room = max(20 * M, (size + 2 * M - 1) // (2 * M) * 2 * M)
            if self.reserved + room > self.total - G:
                self.event("alloc", api="cudaMalloc", bytes=room, result=2, space="device", stack=CUDA + stack,
                           free_bytes=self.total - G - self.reserved, total_bytes=self.total)
                self.event("block-oom", bytes=size, stack=stack, **self.totals())
                return None
            self.event("alloc", api="cudaMalloc", ptr=self.next, bytes=room, result=0, space="device", stack=CUDA + stack)
            self.segments[self.next] = room
            self.reserved += room
            fits = room, self.next, self.next
            self.next += room
        self.blocks[fits[1]] = size, fits[2]
        self.allocated += size
        self.event("block-alloc", ptr=fits[1], bytes=size, stack=stack, **self.totals())
        return fits[1]

    def give(self, at):
        size = self.blocks.pop(at)[0]
        self.allocated -= size
        self.event("block-free", ptr=at, bytes=size, **self.totals())


def fragmented():
    """A server whose requests each leave a small block behind, so that a large one fits nowhere in the end."""
    t = Trace()
    t.version, t.columns = 3, packed_columns
    begin(t, total=11 * G)
    t.info["device.0.meminfo_total_bytes"] = str(11 * G)
    pool, dice = Pool(t, 11 * G), random.Random(7)
    main = [("main", "/srv/serve.py", 9)]
    pool.event("memory-sample", tid=101, flags=["nvml"], free_bytes=10 * G, total_bytes=11 * G, process_bytes=G)
    for _ in range(24):
        pool.take(256 * M, [("create_weights", "/srv/model.py", 40)] + main)
    t.flush()
    kept = []
    for step in range(400):
        busy = [pool.take(dice.randrange(8, 40 + step // 3) * M, [("attention", "/srv/model.py", 77), ("step", "/srv/serve.py", 31)] + main)
                for _ in range(dice.randrange(2, 7))]
        small = pool.take(dice.randrange(2, 6) * M, [("remember", "/srv/history.py", 12), ("step", "/srv/serve.py", 33)] + main)
        for at in busy:
            if at:
                pool.give(at)
        if not small or not all(busy):
            break
        kept.append(small)
        if dice.random() < 0.45:
            pool.give(kept.pop(dice.randrange(len(kept))))
        if step % 100 == 99:
            t.flush()
    pool.event("memory-sample", tid=101, flags=["nvml"], free_bytes=10 * G - pool.reserved, total_bytes=11 * G, process_bytes=pool.reserved + G)
    t.flush(last=True)
    return t.bytes()


def hostile():
    """Every name is an attempt to be markup, a control sequence, very long, or no UTF-8."""
    t = Trace()
    begin(t, exe=MARKUP[0])
    t.info["device.0.name"] = MARKUP[1]
    t.info["process.env.VLLM_" + MARKUP[2]] = MARKUP[1]
    names = MARKUP + [CONTROL, "x" * 10000, "\U0001f600" * 2500, b"\xf0\x9f\x98" * 40]
    for i, name in enumerate(names):
        stack = [(name, "/lib/" + (name if isinstance(name, str) else "y")[:200] + ".so"), (MARKUP[i % 6], "/m/%s.py" % MARKUP[0], 3)]
        t.event("alloc", (60 + i) * S, api=name, thread_name=MARKUP[0], bytes=(i + 1) * 64 * K, ptr=0x1000000 + i * M, device=0,
                result=0, space="device", stack=stack)
        t.event("block-alloc", (60 + i) * S + 9, ptr=0x1000000 + i * M, bytes=32 * K, device=0, stack=stack,
                allocated_bytes=M, reserved_bytes=M)
        t.event("mark", (60 + i) * S + 99, api="nvtxMarkA", text=name, domain=t.string(MARKUP[1]))
    t.event("alloc", 90 * S, api=MARKUP[0], bytes=90 * G, device=0, result=2, space="device",
            stack=[(MARKUP[1], "/m/<b>.py", 7)], free_bytes=G, total_bytes=80 * G)
    t.flush(last=True)
    return t.bytes()


def marked():
    """A run with marks of the program, one of which has a name that would be markup."""
    t = Trace()
    begin(t)
    for i in range(40):
        t.event("alloc", (60 + i) * S, api="cuMemAlloc_v2", bytes=64 * M, ptr=0x1000000 + i * G, device=0, result=0, space="device",
                stack=[("main", "/srv/serve.py", 9)])
        if i % 10 == 5:
            t.event("mark", (60 + i) * S + S // 2, api="nvtxMarkA", text=MARKUP[1] if i == 35 else f"epoch {i // 10}")
    t.flush(last=True)
    return t.bytes()


def empty():
    """A process that never used its GPU."""
    t = Trace()
    begin(t)
    t.flush(last=True)
    return t.bytes()
