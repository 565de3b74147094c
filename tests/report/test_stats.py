#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stats: calls against sums over the events of `dump --json`, sizes and lifetimes against lib/lifetimes.py, which reads the trace
by itself."""
import collections
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lifetimes import lifetimes_of  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import ROOT, case, check, dumped as dump, equal, main, read_view, report, sample, scratch  # noqa: E402

M, S = 1 << 20, 10 ** 9
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))
CALLS = {"alloc", "free", "reserve", "unreserve", "create", "release", "map", "unmap", "register", "unregister", "import", "ipc-open",
         "ipc-close", "graph-alloc", "graph-free"}
TAKES = {"alloc", "reserve", "create", "map", "register", "import", "ipc-open", "graph-alloc"}


def read(path, *more):
    return read_view("stats", *more, path)


def figures_of(rows, begin, end):
    """What is to be said of the allocations of a device, or of its blocks, in a range."""
    made = [r["bytes"] for r in rows if begin <= r["t_ns"] <= end]
    freed = [(r["bytes"], r["end_t_ns"] - r["t_ns"]) for r in rows if r["end_t_ns"] and begin <= r["end_t_ns"] <= end]
    live = [r["bytes"] for r in rows if r["t_ns"] <= end and not (r["end_t_ns"] and r["end_t_ns"] <= end)]
    sizes, lifetimes = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
    for size in made:
        row = sizes[1 << (len(bin(size)) - 3) if size else 0]
        row[0] += 1
        row[1] += size
    for size, ns in freed:
        bound = 0 if ns < 1000 else min(10 ** (len(str(ns)) - 1), 10 ** 13)
        row = lifetimes[bound]
        row[0] += 1
        row[1] += size
    by_size = collections.Counter(made)
    return {"allocated": [len(made), sum(made)], "freed": [len(freed), sum(size for size, _ in freed)], "live": [len(live), sum(live)],
            "sizes": dict(sizes), "lifetimes": dict(lifetimes), "top_sizes": sorted(by_size.items(), key=lambda x: (-x[0] * x[1], -x[0]))}


def figures(o):
    out = {what: [o[what]["count"], o[what]["bytes"]] for what in ("allocated", "freed", "live")}
    for what, key in (("sizes", "from_bytes"), ("lifetimes", "from_ns")):
        out[what] = {b[key]: [b["count"], b["bytes"]] for b in o[what]}
    out["top_sizes"] = [(s["bytes"], s["count"]) for s in o["top_sizes"]]
    return out


def compare(path, begin=0, end=1 << 64, *more):
    document, rows = read(path, *more), lifetimes_of(path).rows
    calls = collections.defaultdict(lambda: [0] * 7)
    for e in dump(path):
        if e["op"] not in CALLS or not begin <= e["t_ns"] <= end:
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
    nothing = figures_of([], begin, end)
    for device in set(devices) | {r["device"] for r in rows}:
        for kind, of in (("allocations", "memory"), ("blocks", "block")):
            want = figures_of([r for r in rows if (r["device"], r["kind"]) == (device, of)], begin, end)
            equal(figures(devices[device][kind]) if device in devices else nothing, want, "%s GPU %s %s" % (here, device, kind))
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
    return t.save(scratch("example.zst"))


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
