#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stats: sizes, lifetimes and calls, against sums over the events of `dump --json`.

What the driver frees follows cuda.h: references and mappings of VMM objects, contexts that end. The model shares nothing
with the report.
"""
import collections
import glob
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import Trace  # noqa: E402
from tap import ROOT, case, check, dumped as dump, equal, main, report, sample  # noqa: E402

K, M, S = 1 << 10, 1 << 20, 10 ** 9
FOLDER = tempfile.TemporaryDirectory()
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))
CALLS = {"alloc", "free", "reserve", "unreserve", "create", "release", "map", "unmap", "register", "unregister", "import", "ipc-open",
         "ipc-close", "graph-alloc", "graph-free"}
TAKES = {"alloc", "reserve", "create", "map", "register", "import", "ipc-open", "graph-alloc"}


def read(path, *more):
    code, out, err = report("stats", "--json", *more, path)
    check(code in (0, 4), "%s %s: exit status %d, %s" % (path, more, code, err))
    return json.loads(out)


class Objects:
    """Allocations, or blocks, of one device."""

    def __init__(self):
        self.made, self.freed, self.live = [], [], {}  # sizes; (size, lifetime); key -> (size, t_ns)

    def make(self, key, size, t_ns, in_range=True):
        self.live[key] = size, t_ns
        if in_range:
            self.made.append(size)

    def free(self, key, t_ns, in_range=True):
        size, born = self.live.pop(key, (None, None))
        if size is not None and in_range:
            self.freed.append((size, t_ns - born))

    def figures(self):
        sizes, lifetimes = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
        for size in self.made:
            row = sizes[1 << (len(bin(size)) - 3) if size else 0]
            row[0] += 1
            row[1] += size
        for size, ns in self.freed:
            bound = 0 if ns < 1000 else min(10 ** (len(str(ns)) - 1), 10 ** 13)
            row = lifetimes[bound]
            row[0] += 1
            row[1] += size
        by_size = collections.Counter(self.made)
        return {"allocated": [len(self.made), sum(self.made)], "freed": [len(self.freed), sum(s for s, _ in self.freed)],
                "live": [len(self.live), sum(s for s, _ in self.live.values())], "sizes": dict(sizes), "lifetimes": dict(lifetimes),
                "top_sizes": sorted(by_size.items(), key=lambda x: (-x[0] * x[1], -x[0]))}


class Driver:
    """Which calls end which allocations."""

    def __init__(self, begin):
        self.begin, self.objects, self.blocks = begin, collections.defaultdict(Objects), collections.defaultdict(Objects)
        self.home = {}  # key -> [device, context, is async, references, mappings, counted]
        self.mapped = {}  # address -> (handle, bytes)

    def make(self, key, e):
        counted = e["space"] != "host" and not {"foreign", "multicast", "deferred"} & set(e["flags"])
        self.home[key] = [e["device"], e["context"], "async" in e["flags"], 1, 0, counted]
        if counted:
            self.objects[e["device"]].make(key, e["bytes"] or 0, e["t_ns"], e["t_ns"] >= self.begin)

    def end(self, key, e):
        device, *_, counted = self.home.pop(key)
        if counted:
            self.objects[device].free(key, e["t_ns"], e["t_ns"] >= self.begin)

    def settle(self, key, e):
        if key in self.home and self.home[key][3] <= 0 and self.home[key][4] <= 0:
            self.end(key, e)

    def unmap(self, at, e):
        handle, _ = self.mapped.pop(at)
        if ("handle", handle) in self.home:
            self.home["handle", handle][4] -= 1
            self.settle(("handle", handle), e)

    def apply(self, e):
        if e["result"]:
            return
        op, ptr, handle = e["op"], e["ptr"], e["handle"]
        key = ("array" if op in ("alloc", "free") else "handle", handle) if handle and not (op == "alloc" and ptr) else ("address", ptr)
        if op == "alloc" and (ptr or handle):
            if key in self.home:
                self.end(key, e)
            self.make(key, e)
        elif op in ("create", "import"):
            if key in self.home:
                self.home[key][3] += 1
            else:
                self.make(key, e)
        elif op == "free" and key in self.home:
            self.end(key, e)
        elif op in ("retain", "release") and ("handle", handle) in self.home:
            self.home["handle", handle][3] += 1 if op == "retain" else -1
            self.settle(("handle", handle), e)
        elif op == "map" and ptr:
            self.mapped[ptr] = handle, e["bytes"]
            if ("handle", handle) in self.home:
                self.home["handle", handle][4] += 1
        elif op == "unmap":
            for at in [a for a in self.mapped if int(ptr, 16) <= int(a, 16) < int(ptr, 16) + e["bytes"]]:
                self.unmap(at, e)
        elif op == "context-destroy":
            for k in [k for k, h in self.home.items() if k[0] != "handle" and h[1] == e["context"] and not h[2]]:
                self.end(k, e)
        elif op == "block-alloc":
            for b in self.blocks.values():
                b.live.pop(ptr, None)  # its end was missed
            self.blocks[e["device"]].make(ptr, e["bytes"], e["t_ns"], e["t_ns"] >= self.begin)
        elif op == "block-free":
            for b in self.blocks.values():
                b.free(ptr, e["t_ns"], e["t_ns"] >= self.begin)


def figures(o):
    out = {what: [o[what]["count"], o[what]["bytes"]] for what in ("allocated", "freed", "live")}
    for what, key in (("sizes", "from_bytes"), ("lifetimes", "from_ns")):
        out[what] = {b[key]: [b["count"], b["bytes"]] for b in o[what]}
    out["top_sizes"] = [(s["bytes"], s["count"]) for s in o["top_sizes"]]
    return out


def compare(path, begin=0, end=1 << 64, *more):
    document, driver = read(path, *more), Driver(begin)
    calls = collections.defaultdict(lambda: [0] * 7)
    for e in dump(path):
        if e["t_ns"] > end:
            break
        driver.apply(e)
        if e["op"] not in CALLS or e["t_ns"] < begin:
            continue
        row = calls[e["api"], e["op"]]
        row[0] += 1
        row[1] += bool(e["result"])
        row[2] += e["result"] == 2 and e["op"] in TAKES
        row[3] += 0 if e["result"] else e["bytes"] or 0
        row[4] += e["duration_ns"] is not None
        row[5] += e["duration_ns"] or 0
        row[6] = max(row[6], e["duration_ns"] or 0)
    here = "%s %s: " % (os.path.basename(path), more)
    got = {(c["api"], c["op"]): [c["count"], c["failed_count"], c["oom_count"], c["bytes"], c["timed_count"], c["duration_ns"] or 0,
                                 c["longest_ns"] or 0] for c in document["calls"]}
    equal(got, dict(calls), here + "calls")
    equal([c["duration_ns"] is None for c in document["calls"]], [not c["timed_count"] for c in document["calls"]], here)
    times = [c["duration_ns"] or 0 for c in document["calls"]]
    equal(times, sorted(times, reverse=True), here + "order")
    devices = {d["ordinal"]: d for d in document["devices"]}
    nothing = Objects().figures()
    for device in set(devices) | set(driver.objects) | set(driver.blocks):
        for kind, model in (("allocations", driver.objects[device]), ("blocks", driver.blocks[device])):
            want = model.figures()
            if device not in devices:
                equal(want, nothing, here)
                continue
            equal(figures(devices[device][kind]), want, "%s GPU %s %s" % (here, device, kind))
    return len(calls), sum(d["allocations"]["allocated"]["count"] + d["blocks"]["allocated"]["count"] for d in document["devices"])


@case("recorded and golden traces: sizes, lifetimes, most frequent sizes and calls are those of the events")
def recorded():
    calls = objects = 0
    check(len(RECORDED) >= 13)
    for path in sample(RECORDED, 7) + GOLDEN:
        if os.path.basename(path)[:-4] in ("blocks", "ringed", "killed", "killed-2", "killed-3"):
            continue  # their events do not begin with the process
        n, m = compare(path)
        calls, objects = calls + n, objects + m
    return "%d functions, %d objects" % (calls, objects)


@case("a range: what is allocated and freed in it, and what is live at its end")
def ranges():
    for path in sample(RECORDED, 4):
        trace = read(path)
        start, first, last = trace["start_ns"], trace["trace"]["t_first_ns"], trace["trace"]["t_last_ns"]
        begin, end = first + (last - first) // 3, first + (last - first) * 2 // 3
        compare(path, begin, end, "--from=%.9f" % ((begin - start) / 1e9), "--to=%.9f" % ((end - start) / 1e9))


@case("what a checkpoint restored is not allocated again, but its end has a lifetime")
def after_a_checkpoint():
    for name in ("blocks", "ringed"):
        path = os.path.join(ROOT, "tests/report/golden/traces", name + ".zst")
        live = {d["ordinal"]: (d["live_allocations"], d["live_bytes"]) for d in json.loads(report("--json", path)[1])["devices"]}
        made = collections.Counter(e["device"] for e in dump(path) if e["op"] == "alloc" and not e["result"])
        for d in read(path)["devices"]:
            a = d["allocations"]
            equal((a["live"]["count"], a["live"]["bytes"]), live[d["ordinal"]], path)
            equal(a["allocated"]["count"], made[d["ordinal"]], path)


def example(*events):
    t = Trace()
    for e in events:
        t.event(**e)
    t.flush(last=True)
    path = os.path.join(FOLDER.name, "example.zst")
    with open(path, "wb") as f:
        f.write(t.bytes())
    return path


@case("bounds of sizes and lifetimes: 0 bytes, powers of two, one less, the largest, those that cannot be; 999 ns, 1 us, three hours")
def bounds():
    sizes = (0, 1, 2, 3, 4, M - 1, M, 1 << 59, 1 << 63, (1 << 64) - 1)
    events = [{"op": "alloc", "t_ns": S + i, "ptr": (i + 1) << 30, "bytes": n, "device": 0, "result": 0, "space": "device"} for i, n in
              enumerate(sizes)]
    (d,) = read(example(*events))["devices"]
    equal({s["from_bytes"]: s["count"] for s in d["allocations"]["sizes"]},
          {0: 3, 1: 1, 2: 2, 4: 1, M // 2: 1, M: 1, 1 << 59: 1})  # (what cannot be is not known)
    check(b"from 512.00 PiB" in report("stats", example(*events))[1])
    lives = (0, 999, 1000, 9999, 10 ** 13 - 1, 10 ** 13, 10 ** 13 * 11)
    events = []
    for i, ns in enumerate(lives):
        events.append({"op": "alloc", "t_ns": S, "ptr": (i + 1) << 30, "bytes": 1, "device": 0, "result": 0, "space": "device"})
    for i, ns in enumerate(lives):
        events.append({"op": "free", "t_ns": S + ns, "tid": 1, "ptr": (i + 1) << 30})
    (d,) = read(example(*events))["devices"]
    equal({s["from_ns"]: s["count"] for s in d["allocations"]["lifetimes"]}, {0: 2, 1000: 2, 10 ** 12: 1, 10 ** 13: 2})


@case("the duration of a free comes after it, with a correction")
def late_durations():
    path = example({"op": "alloc", "t_ns": S, "api": "cuMemAlloc_v2", "ptr": 1 << 30, "bytes": M, "device": 0, "result": 0, "duration_ns": 70},
                   {"op": "free", "t_ns": 2 * S, "api": "cuMemFree_v2", "tid": 7, "ptr": 1 << 30},
                   {"op": "amend", "t_ns": 3 * S, "tid": 7, "amends_ns": 2 * S, "duration_ns": 4000})
    equal([(c["api"], c["duration_ns"], c["longest_ns"]) for c in read(path)["calls"]],
          [("cuMemFree_v2", 4000, 4000), ("cuMemAlloc_v2", 70, 70)])


@case("the text has the same figures: rows, a bar for each, the most frequent sizes, times")
def text():
    path = next(p for p in RECORDED if p.endswith("exhausted.zst"))
    out = report("stats", path)[1].decode()
    (d,) = read(path)["devices"]
    rows = re.findall(r"^ *from ([\d.]+ \w+) +(\d+) +[\d.]+ \w+  (▇+)$", out, re.M)
    equal(len(rows), len(d["allocations"]["sizes"]) + len(d["blocks"]["sizes"]))
    equal([int(r[1]) for r in rows], [s["count"] for kind in ("allocations", "blocks") for s in d[kind]["sizes"]])
    equal(max(len(r[2]) for r in rows), 39)
    check("52.00 MiB x 65" in out and "  cudaMalloc (alloc)" in out, out)
    check(max(map(len, out.splitlines())) <= 120 and report("stats", path, env={"LC_ALL": "C"})[1].isascii())
    check("No GPU memory was allocated" in report("stats", example())[1].decode())
    (line,) = [x for x in out.splitlines() if x.endswith("cudaMalloc (alloc)")]
    equal(line.split()[:2], ["274", "4"])


main()
