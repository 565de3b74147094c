#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pools of the program (cutrace.h, NVTX heaps) in frag: what they have handed out, and what is unused of their memory. The truth is a
model of the pools in this file, by FORMAT.md."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import traces as made_traces  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace  # noqa: E402
from tap import case, check, dice, equal, main, report, scratch  # noqa: E402

SECOND, MEBI, BASE = 10**9, 1 << 20, 0x7F0000000000


class Made:
    def __init__(self, **info):
        self.trace, self.at = Trace(), 60 * SECOND
        made_traces.begin(self.trace)
        self.trace.info.update({"annotations.calls": "20", "annotations.early": "0", **info})

    def say(self, op, name=None, domain=None, **fields):
        self.at += SECOND // 1000
        if domain:
            fields["domain"] = self.trace.string(domain)
        self.trace.event(op, self.at, tid=100, api="cutrace_pool_alloc", text=name, **fields)

    def alloc(self, ptr, mebi, **fields):
        self.at += SECOND // 1000
        self.trace.event("alloc", self.at, tid=100, api="cuMemAlloc_v2", ptr=ptr, bytes=mebi * MEBI, space="device", device=0,
                         context=1, result=0, **fields)

    def write(self):
        return self.trace.save(os.path.join(tempfile.mkdtemp(), "made.zst"))


def frag(path, *options):
    """frag at the end, and its pools by (domain, name, handle)."""
    found = json.loads(report("frag", path, "--json", *(options or ("--at=end",)))[1])["program_pools"]
    return found, {(p["domain"], p["name"], p["handle"]): p for p in found["pools"]}


@case("of an arena in one allocation: what is handed out, the most, the number, and what is unused of the allocation; the text has it, too")
def arena():
    m = Made()
    m.alloc(BASE, 64)
    m.say("suballoc", "arena", ptr=BASE, bytes=8 * MEBI)
    m.say("suballoc", "arena", ptr=BASE + 8 * MEBI, bytes=24 * MEBI)
    peak = m.at - 60 * SECOND
    m.say("subfree", ptr=BASE)
    m.say("suballoc", "arena", ptr=BASE + 40 * MEBI, bytes=MEBI)
    path = m.write()
    whole, pools = frag(path)
    p = pools[None, "arena", None]
    equal((p["live_bytes"], p["live_count"], p["peak_bytes"]), (25 * MEBI, 2, 32 * MEBI))
    equal((p["memory_bytes"], p["unused_bytes"]), (64 * MEBI, 39 * MEBI))
    equal((p["handed_out_count"], p["taken_back_count"], whole["unknown_count"], whole["replaced_count"]), (3, 1, 0, 0))
    check(p["peak_t_ns"] % SECOND == peak % SECOND, p)
    check(whole["complete"])
    out = report("frag", path, "--at=end")[1].decode()
    (row,) = [line.split() for line in out.splitlines() if line.endswith(" arena")]
    equal(row, "25.00 MiB 2 32.00 MiB 64.00 MiB 39.00 MiB arena".split())


@case("the first screen has a row of what the pools handed out at its moment, and one of managed memory; both are in no sum")
def first_screen():
    m = Made()
    m.alloc(BASE, 64)
    m.say("suballoc", "arena", ptr=BASE, bytes=8 * MEBI)
    m.say("suballoc", "second", ptr=BASE + 40 * MEBI, bytes=2 * MEBI)
    m.trace.event("alloc", m.at, tid=100, api="cudaMallocManaged", ptr=BASE + (1 << 40), bytes=160 * MEBI, space="managed", device=0,
                  context=1, result=0)
    m.say("subfree", ptr=BASE + 40 * MEBI)
    path = m.write()
    rows = {at: [line.split("  ")[-1].strip() + ": " + line[:12].strip() for line in report("summary", path, f"--at={at}")[1].decode().splitlines()
                 if "in the program's pools" in line or "managed memory: it migrates" in line or "tracked: this" in line]
            for at in ("peak", "end")}
    both = ["tracked: this process's allocations: 64.00 MiB", "managed memory: it migrates, and is in no row above: 160.00 MiB"]
    equal(rows["peak"], [*both, "in the program's pools: arena 8.00 MiB, 1 more (see frag): 10.00 MiB"])
    equal(rows["end"], [*both, "in the program's pools: arena 8.00 MiB of 64.00 MiB (see frag): 8.00 MiB"])
    check("program's pools" not in report("summary", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                                   "vllm/leak/trace.zst"))[1].decode())


@case("a moment before the end has the figures of that moment")
def moment():
    m = Made()
    m.alloc(BASE, 64)
    m.say("suballoc", "arena", ptr=BASE, bytes=MEBI)
    m.alloc(BASE + (1 << 30), 1)  # the peak of tracked memory
    m.say("suballoc", "arena", ptr=BASE + MEBI, bytes=MEBI)
    path = m.write()
    equal([frag(path, f"--at={at}")[1][None, "arena", None]["live_bytes"] for at in ("peak", "end")], [MEBI, 2 * MEBI])


@case("memory that two pools lie in, that no call recorded, or that parts overlap in: unused is not known")
def unknown():
    m = Made()
    m.alloc(BASE, 64)
    m.say("suballoc", "one", ptr=BASE, bytes=MEBI)
    m.say("suballoc", "two", ptr=BASE + MEBI, bytes=MEBI)
    m.say("suballoc", "elsewhere", ptr=0x10000, bytes=MEBI)
    m.alloc(BASE + (1 << 30), 2)
    m.say("suballoc", "overlaps", ptr=BASE + (1 << 30), bytes=2 * MEBI)
    m.say("suballoc", "overlaps", ptr=BASE + (1 << 30) + MEBI, bytes=MEBI)
    m.alloc(BASE + (2 << 30), 1)
    m.say("suballoc", "beyond", ptr=BASE + (2 << 30), bytes=2 * MEBI)
    _, pools = frag(m.write())
    equal({name: (p["memory_bytes"], p["unused_bytes"]) for (_, name, _), p in pools.items()},
          dict.fromkeys(("one", "two", "elsewhere", "overlaps", "beyond"), (None, None)))


@case("an arena in a block of PyTorch's: unused is of the block, not of the segment")
def in_block():
    m = Made()
    m.alloc(BASE, 20)
    m.at += SECOND
    m.trace.event("block-alloc", m.at, tid=100, api="c10::reportMemoryUsageToProfiler", ptr=BASE + MEBI, bytes=4 * MEBI, device=0,
                  reserved_bytes=20 * MEBI, allocated_bytes=4 * MEBI)
    m.say("suballoc", "arena", ptr=BASE + 2 * MEBI, bytes=MEBI)
    _, pools = frag(m.write())
    equal(pools[None, "arena", None]["unused_bytes"], 3 * MEBI)


@case("a heap of NVTX: its own range, resized and named regions, reset, an end, a handle that comes again; the heap of the process")
def heap():
    m = Made()
    m.alloc(BASE, 64)
    m.say("subpool", "heap", domain="d", handle=BASE, ptr=BASE, bytes=16 * MEBI)
    m.say("suballoc", "heap", domain="d", handle=BASE, ptr=BASE, bytes=MEBI)
    m.say("subname", "region", ptr=BASE)
    m.say("suballoc", domain="d", ptr=BASE, bytes=3 * MEBI)  # resized
    m.say("suballoc", handle=0, ptr=0x5000, bytes=100)
    path = m.write()
    whole, pools = frag(path)
    p = pools["d", "heap", hex(BASE)]
    equal((p["live_bytes"], p["live_count"], p["memory_bytes"], p["unused_bytes"]), (3 * MEBI, 1, 16 * MEBI, 13 * MEBI))
    equal(pools[None, None, "0x0"]["live_bytes"], 100)
    equal((len(pools), whole["replaced_count"]), (2, 0))
    m = Made()
    m.say("subpool", "heap", handle=7, ptr=BASE, bytes=16 * MEBI)
    for i in range(100):
        m.say("suballoc", "heap", handle=7, ptr=BASE + i, bytes=1)
    m.say("suballoc", handle=0, ptr=0x5000, bytes=100)
    m.say("subfree", handle=7)
    m.say("subfree", ptr=BASE)  # it is gone already
    m.say("suballoc", "heap", handle=7, ptr=BASE + 1, bytes=5)
    whole, pools = frag(m.write())
    equal((pools[None, "heap", "0x7"]["live_bytes"], pools[None, "heap", "0x7"]["taken_back_count"], whole["unknown_count"],
           pools[None, None, "0x0"]["live_bytes"]), (5, 100, 1, 100))


@case("3000 random calls of right and wrong programs, against a model")
def at_random():
    chance = dice(20)
    for _ in range(2):
        m, live, now, peak, unknown_, replaced = Made(), {}, dict.fromkeys("abcd", 0), dict.fromkeys("abcd", 0), 0, 0

        def take(ptr, live=live, now=now):
            pool, size = live.pop(ptr, (None, 0))
            if pool:
                now[pool] -= size
            return pool

        def give(ptr, pool, size, live=live, now=now, peak=peak):
            live[ptr] = pool, size
            now[pool] += size
            peak[pool] = max(peak[pool], now[pool])

        for _ in range(1500):
            ptr, pool = BASE + chance.randrange(200) * 4096, chance.choice("abcd")
            what = chance.random()
            if what < 0.55:
                size = chance.randrange(1, 4096)
                m.say("suballoc", pool, ptr=ptr, bytes=size)
                replaced += take(ptr) is not None
                give(ptr, pool, size)
            elif what < 0.98:
                m.say("subfree", pool, ptr=ptr)
                unknown_ += take(ptr) is None
            else:
                size = chance.randrange(1, 4096)
                if ptr in live:
                    m.say("suballoc", ptr=ptr, bytes=size)
                    give(ptr, take(ptr), size)
        whole, pools = frag(m.write())
        equal({p: (pools[None, p, None]["live_bytes"], pools[None, p, None]["live_count"], pools[None, p, None]["peak_bytes"]) for p in "abcd"},
              {p: (now[p], sum(of == p for of, _ in live.values()), peak[p]) for p in "abcd"})
        equal((whole["unknown_count"], whole["replaced_count"]), (unknown_, replaced))


@case("hostile: a thousand pools, huge sizes, evil names, handles that are not known; the figures say that they are of a part")
def hostile():
    m = Made()
    for i in range(1000):
        m.say("suballoc", f"pool {i}", ptr=0x1000 * (i + 1), bytes=(1 << 64) - 1)
        m.say("subfree", handle=i)
    m.say("suballoc", "evil\x1b[31m<b>\"\n" + "x" * 300, ptr=0x10, bytes=0)
    path = m.write()
    whole, pools = frag(path)
    equal((len(whole["pools"]), whole["complete"], whole["pools"][-1]["is_rest"], whole["pools"][-1]["live_count"]), (256, False, True, 746))
    out = report("frag", path, "--at=end")[1]
    check(b"\x1b[31m" not in out and b"236 more pools" in out and b"of a part of it" in out, out)


@case("what the recorder left out, events that were lost: the figures say that they are of a part")
def part():
    m = Made(**{"annotations.skipped": "5"})
    m.say("suballoc", "arena", ptr=0x1000, bytes=1)
    equal(frag(m.write())[0]["complete"], False)
    m = Made()
    m.say("suballoc", "arena", ptr=0x1000, bytes=1)
    m.trace.event("lost", m.at, tid=100, count=3)
    equal(frag(m.write())[0]["complete"], False)


def two_parts():
    """What a program says before and behind the begin of a checkpoint: the whole trace, and the one that lost the first chunk."""
    m = Made()
    t = m.trace
    info = dict(t.info)
    m.alloc(BASE, 64)
    m.say("suballoc", "arena", ptr=BASE, bytes=40 * MEBI)
    m.say("suballoc", "arena", ptr=BASE + 40 * MEBI, bytes=20 * MEBI)
    t.flush()
    t.restart()
    t.info = info
    block = t.record("alloc", 60 * SECOND, tid=100, ptr=BASE, bytes=64 * MEBI, space="device", device=0, event=0)
    m.say("suballoc", "arena", ptr=BASE + 60 * MEBI, bytes=MEBI)
    m.say("subfree", ptr=BASE + 40 * MEBI)
    t.flush(last=True, checkpoint=(FIRST_PART | LAST_PART, [block]))
    return scratch("whole.zst", b"".join(t.out)), scratch("wrapped.zst", b"".join(t.out[1:]))


@case("a ring that wrapped: the figures are said to be of a part, none to be unused, and no pool is blamed for what was overwritten")
def wrapped():
    whole, part = two_parts()
    of_all, pools = frag(whole)
    p = pools[None, "arena", None]
    equal((of_all["complete"], p["live_bytes"], p["memory_bytes"], p["unused_bytes"], of_all["unknown_count"]),
          (True, 41 * MEBI, 64 * MEBI, 23 * MEBI, 0))
    of_part, pools = frag(part)
    p = pools[None, "arena", None]
    equal((of_part["complete"], p["live_bytes"], p["memory_bytes"], p["unused_bytes"], of_part["unknown_count"]),
          (False, MEBI, None, None, 1))
    live = json.loads(report("summary", part, "--json")[1])["devices"][0]["live_bytes"]
    equal(live, 64 * MEBI, "the allocation itself is in the checkpoint")
    out = report("frag", part, "--at=end")[1].decode()
    (row,) = [line.split() for line in out.splitlines() if line.endswith(" arena")]
    equal(row[-3:], ["-", "-", "arena"])
    check("the figures are of a part of it, and what is unused is not known" in out, out)
    check("1 time a pool took back what this part does not show as handed out" in out and "it had not handed out" not in out, out)
    said = report("frag", whole, "--at=end")[1].decode()
    check("of a part of it" not in said and "took back" not in said, said)


@case("a program without pools has none")
def none():
    m = Made()
    m.alloc(BASE, 1)
    path = m.write()
    equal(json.loads(report("frag", path, "--json")[1])["program_pools"], None)
    check(b"pools of the program" not in report("frag", path)[1])


main()
