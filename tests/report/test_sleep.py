#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that sleeps, in all views: a pool as vLLM's sleep mode has it is made up here, whose allocations go to sleep and wake
up at random, by tags, half-way and twice; the truth is the pool's own. Real traces of vLLM (CUTRACE_TRACES, or those of
tests/report/vllm) are compared with a second implementation over dump --json."""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import make_checkpoint  # noqa: E402
from mktrace import Trace, zstd_frame  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, dice, equal, main, read_json, report, sample, scratch  # noqa: E402
from whole_trace import Whole  # noqa: E402

M = 1 << 20
REAL = sorted(glob.glob(os.path.join(os.environ.get("CUTRACE_TRACES") or os.path.join(ROOT, "tests/report/vllm"), "**/*.zst"), recursive=True))
OWNERS = [("create_weights", "/m/linear.py", 194), ("allocate_kv_cache", "/m/utils.py", 596), ("__init__", "/m/states.py", 48)]
WAKE = ("wake_up", "/m/gpu_worker.py", 342)


def site(frame):
    return f"{os.path.basename(frame[1])}:{frame[2]} {frame[0]}"


class Pool:
    """A MemPool over VMM: each allocation fills a reservation of its own and has one block, or none."""

    def __init__(self, seed):
        self.random = dice(seed)
        self.trace, self.t = Trace(compress=zstd_frame), 10 ** 9
        self.allocations, self.next, self.handle = [], 0x700000000000, 100

    def event(self, op, frame=None, **fields):
        self.t += 1000
        self.trace.event(op, self.t, tid=1, device=0, **({"stack": [frame, ("main", "/m/serve.py", 9)]} if frame else {}), **fields)

    def back(self, a, frame):
        self.handle += 1
        a["handle"] = self.handle
        self.event("create", frame, handle=a["handle"], bytes=a["bytes"], space="device")
        self.event("map", frame, ptr=a["ptr"], bytes=a["bytes"], handle=a["handle"])
        a["asleep"] = False

    def allocate(self, owner, size, used):
        self.next += 1 << 32
        a = {"ptr": self.next, "bytes": size, "owner": owner, "block": used, "asleep": False, "resumed": False}
        self.event("reserve", owner, ptr=a["ptr"], bytes=size)
        self.back(a, owner)
        self.allocations.append(a)
        self.block("block-alloc", owner, a)
        if not used:
            self.block("block-free", owner, a)

    def block(self, op, frame, a):
        reserved = sum(b["bytes"] for b in self.allocations)
        allocated = sum(b["block"] for b in self.allocations)
        self.event(op, frame, ptr=a["ptr"], bytes=a["block"] or M, allocated_bytes=allocated, reserved_bytes=reserved)

    def sleep(self, a):
        self.event("unmap", ("sleep", "/m/cumem.py", 1), ptr=a["ptr"], bytes=a["bytes"])
        self.event("release", ("sleep", "/m/cumem.py", 2), handle=a["handle"])
        a["asleep"] = True

    def wake(self, a):
        self.back(a, WAKE)
        a["resumed"] = True

    def refuse(self, a):
        self.event("create", WAKE, bytes=a["bytes"], space="device", result=2)

    def free(self, a):
        size, a["block"] = a["block"], 0
        reserved = sum(b["bytes"] for b in self.allocations)
        if size:
            self.event("block-free", a["owner"], ptr=a["ptr"], bytes=size, reserved_bytes=reserved,
                       allocated_bytes=sum(b["block"] for b in self.allocations))
        if not a["asleep"]:
            self.sleep(a)
        self.event("unreserve", a["owner"], ptr=a["ptr"], bytes=a["bytes"])
        self.allocations.remove(a)

    def write(self, name):
        return self.trace.save(scratch(name + ".zst"))

    def truth(self):
        """Of now: blocks asleep, segments asleep, and what each site holds and has had resumed, by block and by segment."""
        sleeping = [a for a in self.allocations if a["asleep"]]
        blocks, segments = {}, {}
        for a in self.allocations:
            for rows, size in ((blocks, a["block"]), (segments, a["bytes"])):
                if size and not a["asleep"]:
                    row = rows.setdefault(site(a["owner"]), [0, 0])
                    row[0] += size
                    row[1] += size if a["resumed"] else 0
        return {"asleep": sum(a["block"] for a in sleeping), "segments": sum(a["bytes"] for a in sleeping),
                "block": blocks, "segment": segments}

    def run(self, steps):
        r = self.random
        for _ in range(steps):
            what = r.random()
            awake = [a for a in self.allocations if not a["asleep"]]
            sleeping = [a for a in self.allocations if a["asleep"]]
            if what < 0.4 or not self.allocations:
                size = 2 * M * r.randrange(2, 30)
                self.allocate(r.choice(OWNERS), size, r.choice((0, size, size - M)))
            elif what < 0.55:  # of one tag, or all
                tag = r.choice(OWNERS + [None])
                for a in awake:
                    if tag in (None, a["owner"]):
                        self.sleep(a)
            elif what < 0.8 and sleeping:  # half-way perhaps
                for a in sleeping[:r.randrange(1, len(sleeping) + 1)]:
                    self.wake(a)
                if r.random() < 0.3:
                    self.refuse(sleeping[-1])
            elif self.allocations:
                self.free(r.choice(self.allocations))


def pool_at_end(path, *options):
    return json.loads(read_json("frag", "--at=end", *options, path))["devices"][0]["pool"]


def check_state(path, truth, *options):
    def rows(kind, *more):
        (device,) = json.loads(read_json("top", "--at=end", "--top=1000", *options, *more, path))["devices"]
        equal(device["asleep_bytes"], truth["asleep"], path)
        sites = [s for s in device["sites"] if s["kind"] == kind and s["bytes"]]
        for s in sites:
            equal(s["resumed_by"], site(WAKE) if s["resumed_bytes"] else None, s["site"])
        return {s["site"].split(" <- ")[0]: [s["bytes"], s["resumed_bytes"]] for s in sites}
    equal(rows("block"), truth["block"], "blocks " + path)
    equal(rows("segment", "--segments"), truth["segment"], "segments " + path)
    summary = json.loads(read_json("summary", *options, path))["devices"][0]
    pool = pool_at_end(path, *options)
    for figures in (summary["pool"]["end"], pool):
        equal((figures["asleep_bytes"], figures["asleep_segment_bytes"]), (truth["asleep"], truth["segments"]), path)
    equal(pool["outside_segments_bytes"], 0, path)
    equal(pool["block_bytes"], truth["asleep"] + sum(row[0] for row in truth["block"].values()), path)
    timeline = json.loads(read_json("timeline", *options, path))["devices"][0]["columns"][-1]
    check(timeline["asleep_bytes_max"] >= truth["asleep"], path)
    equal(summary["live_bytes"], sum(row[0] for row in truth["segment"].values()), path)


@case("a made-up pool that sleeps and wakes at random: what sleeps, and whose what is awake is, in every view")
def made_up():
    slept = resumed = 0
    for seed in range(25 if FULL else 6):
        pool = Pool(seed)
        pool.allocate(OWNERS[0], 8 * M, 8 * M)
        pool.run(pool.random.randrange(5, 60))
        truth = pool.truth()
        check_state(pool.write(f"pool{seed}"), truth)
        slept += truth["asleep"] > 0
        resumed += any(row[1] for row in truth["block"].values())
    check(not FULL or slept > 5 and resumed > 5, (slept, resumed))
    return f"{slept} sleep at the end, {resumed} have been resumed"


@case("text says what sleeps and who resumed; PyTorch's blocks in the table of memory are only those that have memory")
def text():
    pool = Pool(1)
    pool.allocate(OWNERS[0], 100 * M, 100 * M)
    pool.allocate(OWNERS[1], 300 * M, 300 * M)
    for a in pool.allocations:
        pool.sleep(a)
    pool.wake(pool.allocations[0])
    path = pool.write("text")
    says = {name: " ".join(report(name, *more, path)[1].decode().split())
            for name, *more in (("summary",), ("top", "--at=end"), ("frag", "--at=end"), ("timeline",))}
    check("; 300.00 MiB of PyTorch's blocks sleep (unmapped)" in says["top"], says["top"])
    check(f"{site(OWNERS[0])}, resumed by {site(WAKE)}" in says["top"], says["top"])
    check("asleep 300.00 MiB of segments" in says["frag"], says["frag"])
    check("of PyTorch's blocks sleep" in says["timeline"], says["timeline"])
    text_at_end = " ".join(report("summary", "--from=0", path)[1].decode().split())
    check("no call was seen" not in text_at_end, text_at_end)


@case("from a checkpoint, taken while segments sleep, on: the same, also of segments without a block")
def from_a_checkpoint():
    for seed in range(20 if FULL else 4):
        pool = Pool(100 + seed)
        pool.run(40)
        pool.allocate(OWNERS[0], 100 * M, 0)
        pool.sleep(pool.allocations[-1])
        edge = len(Whole(pool.write("whole")).records)
        pool.wake(pool.allocations[-1])
        pool.run(seed % 4 * 5)
        path = scratch("wrapped-%d.zst" % seed, make_checkpoint.insert(Whole(pool.write("whole")), [edge])[-1])
        check_state(path, pool.truth())
        equal(pool_at_end(path)["unreconciled_bytes"], 0, path)


@case("the page of an expandable segment that was unmapped and mapped again belongs to whoever asked for it now")
def expandable():
    pool, first, second = Pool(1), OWNERS[0], OWNERS[1]
    pool.event("reserve", first, ptr=1 << 40, bytes=1 << 34)
    for number, owner in enumerate((first, second)):
        pool.event("create", owner, handle=50 + number, bytes=20 * M, space="device")
        pool.event("map", owner, ptr=1 << 40, bytes=20 * M, handle=50 + number)
        pool.event("block-alloc", owner, ptr=1 << 40, bytes=20 * M, allocated_bytes=20 * M, reserved_bytes=20 * M)
        if owner is first:
            pool.event("block-free", owner, ptr=1 << 40, bytes=20 * M, allocated_bytes=0, reserved_bytes=20 * M)
            pool.event("unmap", owner, ptr=1 << 40, bytes=20 * M)
            pool.event("release", owner, handle=50)
    path = pool.write("expandable")
    check_state(path, {"asleep": 0, "segments": 0, "block": {site(second): [20 * M, 0]}, "segment": {site(second): [20 * M, 0]}})


def replay(path):
    """A second implementation: at every event, what of the blocks lies in a reservation and in no mapping."""
    mapped, blocks, reserved, had, high, at = {}, {}, {}, set(), 0, None
    for e in check_ledger.read_trace(REPORT, path):
        if e["result"]:
            continue
        ptr = int(e["ptr"], 16) if e["ptr"] else None
        if e["op"] == "map":
            mapped[ptr] = e["bytes"]
            had.add(ptr)
        elif e["op"] == "unmap":
            mapped = {p: n for p, n in mapped.items() if not ptr <= p < ptr + e["bytes"]}
        elif e["op"] == "reserve":
            reserved[ptr] = e["bytes"]
        elif e["op"] == "unreserve":
            reserved.pop(ptr, None)
            had.discard(ptr)
        elif e["op"] == "block-alloc":
            blocks[ptr] = e["bytes"]
        elif e["op"] == "block-free":
            blocks.pop(ptr, None)
        if e["op"] in ("map", "unmap", "unreserve"):
            asleep = 0
            for start, size in reserved.items():
                if start in had:
                    inside = sum(n for p, n in blocks.items() if start <= p < start + size)
                    asleep += inside if start not in mapped else 0
            if asleep > high:
                high, at = asleep, e["t_ns"]
    return high, at


def declare_real(path):
    name = os.path.basename(os.path.dirname(path)) + "/" + os.path.basename(path)

    @case(f"{name}: the most that sleeps, and nothing of PyTorch's is unaccounted for")
    def real():
        most, t_ns = replay(path)
        columns = json.loads(read_json("timeline", path))["devices"][0]["columns"]
        equal(max(c["asleep_bytes_max"] or 0 for c in columns), most, path)
        if most:
            start = json.loads(read_json("summary", path))["start_ns"]
            (device,) = json.loads(read_json("top", "--at=%.9f" % ((t_ns - start) / 1e9), path))["devices"]
            equal(device["asleep_bytes"], most, path)
            log = os.path.join(os.path.dirname(path), "vllm.log")
            if os.path.exists(log):
                with open(log, encoding="utf-8", errors="replace") as f:
                    freed = re.findall(r"sleep freed ([\d.]+) GiB memory in total", f.read())
                check(not freed or abs(most / 2 ** 30 - max(map(float, freed))) < 0.1, (most / 2 ** 30, freed))
        return f"{most / 2 ** 20:.0f} MiB"


SLEEPING = [p for p in REAL if re.search("sleep|wake", p)]
for each in sample(SLEEPING, 2) + sample([p for p in REAL if p not in SLEEPING], 1):
    declare_real(each)
main()
