#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the traces of gate.bats into the present folder. What each holds stands beside it: gate.bats has these figures."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import traces  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace, history  # noqa: E402

M, G, S = 1 << 20, 1 << 30, 10**9
numbers = iter(range(1, 100))


def new(**begin):
    t = Trace(trace_id=next(numbers))
    traces.begin(t, **begin)
    return t


def alloc(t, seconds, number, size, function="f", result=0, device=0):
    where = {"ptr": number << 32} if result == 0 else {}
    t.event("alloc", int(seconds * S), api="cuMemAlloc_v2", bytes=size, device=device, result=result, space="device",
            stack=[(function, "/x/m.py", 1), ("main", "/x/m.py", 9)], **where)


def peak(name, size, device=0):
    """At most `size` bytes, then half of them."""
    t = new(devices=device + 1)
    alloc(t, 51, 1, size // 2, device=device)
    alloc(t, 52, 2, size - size // 2, device=device)
    t.event("free", 53 * S, ptr=2 << 32)
    t.save(name + ".zst")


def nothing(name):
    """No GPU memory."""
    t = new()
    t.event("mark", 51 * S, tid=100, api="nvtxMarkA", text="start")
    t.save(name + ".zst")


def growing(name, site_bytes, hours=6, with_sessions=False):
    """Hours in which a call site keeps so much each five minutes; `with_sessions`: and 1 MiB of another one is held for five hours."""
    t, end = new(), 51 + 3600 * hours
    for i in range(12 * hours + 1):
        now = 51 + 300 * i
        alloc(t, now, 2 * i + 2, site_bytes, "leak")
        if with_sessions and i >= 60:
            t.event("free", (now + 1) * S, ptr=(2 * (i - 60) + 3) << 32)
        if with_sessions and now + 2 < end:
            alloc(t, now + 2, 2 * i + 3, M, "session")
    t.event("memory-sample", (end + 3) * S, device=0, free_bytes=20 * G, total_bytes=80 * G)
    t.save(name + ".zst")


def frag(name, free_block):
    """At the peak 100 MiB in segments, of which 20 MiB and `free_block` are free: that is outside the largest free block."""
    t = new()
    at = 1 << 40
    alloc(t, 51, 256, 64 * M)
    seconds = iter(range(52, 90))

    def block(op, start, size):
        t.event(op, next(seconds) * S, ptr=at + start, bytes=size, device=0, stack=[("b", "/x/m.py", 3)])
    for op in ("block-alloc", "block-free"):
        block(op, 0, free_block)
        if op == "block-alloc":
            block(op, free_block, 20 * M - free_block)
        block(op, 20 * M, 20 * M)
        if op == "block-alloc":
            block(op, 40 * M, 24 * M)
    alloc(t, 90, 512, 36 * M)
    t.event("block-alloc", 90 * S + 1000, ptr=512 << 32, bytes=36 * M, device=0, stack=[("b", "/x/m.py", 4)])
    t.save(name + ".zst")


def oom(name, succeeds_later):
    t = new()
    alloc(t, 51, 1, M)
    alloc(t, 52, 2, 3 * M, result=2)
    if succeeds_later:
        alloc(t, 53, 3, 3 * M)
    t.save(name + ".zst")


def lost():
    t = new()
    alloc(t, 51, 1, M)
    t.event("lost", 52 * S, count=7)
    t.save("lost.zst")


def sampled():
    t = new()
    t.info["option.SAMPLE"] = "10"
    alloc(t, 51, 1, M)
    t.save("sampled.zst")


def overwritten(name, refused):
    """Of the first second only the coarse history is left: at most 50 MiB, and requests that were refused; then 1 MiB in a block."""
    t = new()
    alloc(t, 51, 1, 50 * M)
    for _ in range(refused):
        alloc(t, 51.5, 2, G, result=2)
    t.event("free", int(51.6 * S), ptr=1 << 32)
    t.flush()
    t.restart()
    traces.begin(t)
    alloc(t, 61, 3, 2 * M)
    t.event("block-alloc", 62 * S, ptr=3 << 32, bytes=M, device=0, stack=[("b", "/x/m.py", 3)])
    t.flush(last=True, checkpoint=(FIRST_PART | LAST_PART, []), history=history(51 * S, S, [(0, 0, 2 + refused, refused, {4: (0, 50 * M, 0)})]))
    with open(name + ".zst", "wb") as f:
        f.write(b"".join(t.out[1:]))


overwritten("overwritten", 0)
overwritten("overwritten-oom", 2)
nothing("nothing")
peak("peak", 10 * M)
peak("peak-more", 10 * M + M // 2)
peak("rank1", 12 * M, device=1)
growing("growing", 2 * M)
growing("growing-more", 3 * M)
growing("untold", 2 * M, hours=8, with_sessions=True)
frag("frag", 10 * M)
frag("frag-more", 15 * M)
frag("frag-half", 10 * M + M // 2)
oom("oom", False)
oom("recovered", True)
lost()
sampled()
new().save("nothing.zst")
