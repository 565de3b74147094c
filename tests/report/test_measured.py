#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is untracked, in parts that calls were measured to take: against the truth of a device that is made up here, and against
a second implementation over dump --json."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import Trace, zstd_frame  # noqa: E402
from tap import case, check, dice, equal, main, read_json, report, scratch  # noqa: E402

M = 1 << 20
TOTAL = 24576 * M
PARTS = ("graph_bytes", "context_bytes", "module_bytes", "limit_bytes")


class Device:
    """A GPU with one process, whose events are written with what the device had free before and after them."""

    def __init__(self, name, nvml=True):
        self.trace, self.t, self.free, self.nvml, self.name = Trace(compress=zstd_frame), 1000, TOTAL, nvml, name
        self.next, self.tracked = 0x700000000000, 0

    def call(self, op, cost, tid=1, duration=1000, advance=None, measured=True, **more):
        """A call that takes memory, or gives some back. With `advance` it began before the last events."""
        before, self.free = self.free, self.free - cost
        self.t += advance or duration + 10
        if measured:
            more.update(free_before_bytes=before, free_bytes=self.free, total_bytes=TOTAL)
        self.trace.event(op, self.t, tid=tid, device=0, duration_ns=duration, **more)

    def graph(self, cost, **more):
        self.call("memory-sample", cost, flags=["graph"], api="cudaGraphInstantiateWithFlags", **more)

    def destroy(self, cost, **more):
        self.call("memory-sample", -cost, flags=["graph"], api="cuGraphExecDestroy", handle=0x1234, **more)

    def alloc(self, size, tid=1, began=None):
        self.next += 1 << 32
        self.free -= size
        self.tracked += size
        self.t += 10
        self.trace.event("alloc", self.t, tid=tid, device=0, duration_ns=self.t - (began or self.t - 5), ptr=self.next, bytes=size, space="device")

    def read(self):
        self.t += 10
        more = {"flags": ["nvml"], "process_bytes": TOTAL - self.free} if self.nvml else {}
        self.trace.event("memory-sample", self.t, tid=9, device=0, free_bytes=self.free, total_bytes=TOTAL, **more)

    def memory(self):
        self.read()
        self.alloc(2 * M)
        self.read()
        path = self.trace.save(scratch(self.name + ".zst"))
        (device,) = json.loads(read_json("summary", path))["devices"]
        memory = device["memory"]["end"]
        parts = memory["untracked_parts"]
        whole = memory["untracked_bytes"] if self.nvml else memory["untracked_or_others_bytes"]
        equal(sum(parts[k] or 0 for k in PARTS) + parts["unmeasured_bytes"], whole, "the parts add up")
        text = report("summary", "--units=bytes", path)[1].decode()
        return parts, text


@case("graph executables, contexts, modules and limits are rows; the rest is not measured, to the byte")
def rows():
    for nvml in (True, False):
        d = Device(f"rows{nvml}", nvml)
        d.call("context-create", 64 * M, context=7)
        for _ in range(10):
            d.graph(64 * M)
        for _ in range(3):
            d.call("module-load", 5 * M, handle=3)
        d.call("module-unload", -4 * M, handle=3, measured=False)  # of all modules that were there nothing is known then
        d.call("module-load", 9 * M, handle=3)
        d.call("limit", 11 * M)
        d.free -= 13 * M  # what no call shows
        parts, text = d.memory()
        equal(parts, {"graph_bytes": 640 * M, "context_bytes": 64 * M, "module_bytes": 9 * M, "limit_bytes": 11 * M,
                      "unmeasured_bytes": 24 * M, "graphs_measured": 10, "graphs_not_measured": 0})
        rows_of = [line.split()[:1] + [" ".join(line.split()[3:])] for line in text.splitlines() if " % " in line]
        for size, what in ((640, "graph executables (10 instantiations measured)"), (64, "contexts: measured when they were created"),
                           (9, "modules: measured when they were loaded"), (11, "limits (stack, heap): measured when they were set"),
                           (24, "the rest, of no measured call")):
            check([str(size * M), what] in rows_of, text)
    d = Device("limit")
    d.free -= 2048 * M  # (else the rows are too small to be shown)
    d.call("limit", M)
    _, text = d.memory()
    equal(re.findall(r"(\w+)(?: \(stack, heap\))?: measured when they were", text), ["limits"], "what took nothing has no row")


@case("what a graph executable gives back is no part any more; unmeasured, all of them are unknown; more than there is is no part")
def given_back():
    d = Device("back")
    for _ in range(4):
        d.graph(64 * M)
    d.destroy(64 * M)
    equal(d.memory()[0]["graph_bytes"], 192 * M)
    d = Device("unmeasured")
    for _ in range(4):
        d.graph(64 * M)
    d.destroy(64 * M, measured=False)
    d.graph(32 * M)
    parts, _ = d.memory()
    equal((parts["graph_bytes"], parts["unmeasured_bytes"], parts["graphs_measured"], parts["graphs_not_measured"]),
          (32 * M, 192 * M, 1, 4))
    d = Device("unseen")
    d.graph(256 * M)
    d.free += 128 * M  # by no call that is recorded
    parts, text = d.memory()
    equal([parts[k] for k in PARTS], [None] * 4)
    check("part of it given back" in " ".join(text.split()), text)


@case("a measurement during which another call of the device ran is no evidence, whichever of the two returned first")
def overlapping():
    d = Device("overlap")
    d.graph(128 * M)
    began = d.t + 5
    d.graph(128 * M)  # alloc of another thread began before its end, and returns later
    d.alloc(100 * M, tid=2, began=began)
    d.graph(128 * M)
    d.t += 1000
    d.alloc(100 * M, tid=2)  # returns during the next one
    d.graph(128 * M, duration=40, advance=20)
    d.graph(128 * M, measured=False)  # a stream was capturing: nothing was read
    parts, text = d.memory()
    equal((parts["graph_bytes"], parts["graphs_measured"], parts["graphs_not_measured"]), (256 * M, 2, 3))
    check("graph executables (2 of 5 instantiations measured)" in text, text)


@case("a refused instantiation took nothing, and the end of the only context ends what was in it")
def refused():
    d = Device("refused")
    d.call("context-create", 64 * M, context=7)
    d.graph(64 * M)
    d.graph(0, result=2)
    equal((lambda p: (p["graph_bytes"], p["graphs_measured"]))(d.memory()[0]), (64 * M, 1))
    d = Device("ended")
    d.call("context-create", 64 * M, context=7)
    d.graph(64 * M)
    d.call("context-destroy", -128 * M, context=7, measured=False)
    equal((lambda p: (p["graph_bytes"], p["context_bytes"]))(d.memory()[0]), (0, 0))


@case("random calls of one thread: each part is the sum of what its calls took and gave back")
def sums():
    for seed in range(40):
        rng, d = dice(seed), Device(f"random{seed}")
        truth, unmeasured = dict.fromkeys(PARTS, 0), 0
        live = []
        for _ in range(rng.randrange(1, 60)):
            kind = rng.choice(("graph", "destroy", "module-load", "module-unload", "limit", "alloc", "read"))
            cost = rng.randrange(0, 40) * M
            if kind == "graph":
                d.graph(cost)
                live.append(("graph_bytes", cost))
                truth["graph_bytes"] += cost
            elif kind == "module-load":
                d.call(kind, cost, handle=5)
                live.append(("module_bytes", cost))
                truth["module_bytes"] += cost
            elif kind == "limit":
                d.call(kind, cost)
                truth["limit_bytes"] += cost
            elif kind == "alloc":
                d.alloc(2 * M * rng.randrange(1, 20))
            elif kind == "read":
                d.read()
            else:
                part = "graph_bytes" if kind == "destroy" else "module_bytes"
                mine = [one for one in live if one[0] == part]
                if mine:
                    one = rng.choice(mine)
                    live.remove(one)
                    truth[part] -= one[1]
                    if kind == "destroy":
                        d.destroy(one[1])
                        continue
                    d.call(kind, -one[1], handle=5, measured=False)
                    unmeasured, truth[part] = unmeasured + truth[part], 0
                    live = [("not measured", size) if name == part else (name, size) for name, size in live]
        parts, _ = d.memory()
        equal({k: parts[k] for k in PARTS}, truth, f"seed {seed}")
        equal(parts["unmeasured_bytes"], unmeasured, f"seed {seed}")


main()
