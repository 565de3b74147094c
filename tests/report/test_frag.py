#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The moment that frag describes: against PyTorch's own figures of a full GPU, the other views, and the events."""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
from mktrace import Trace, packed_columns  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, equal, main, report, sample, scratch  # noqa: E402

M, S = 1 << 20, 10**9
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
(FULL_GPU,) = [p for p in RECORDED if p.endswith("/exhausted.zst")]
POOL = ("reserved_bytes", "allocated_bytes", "free_bytes", "free_blocks", "largest_free_bytes", "unreconciled_bytes")


def read(view, path, *more, warns=False):
    code, out, err = report(view, "--json", *more, path)
    equal((code, bool(err)), (0, warns), (view, more, err))
    return json.loads(out)


def text(view, path, *more):
    return report(view, *more, path)[1].decode()


def events_of(path):
    return check_ledger.read_trace(REPORT, path)


@case("a full GPU: frag describes what PyTorch held when it gave up, not what was left after the program")
def the_failure():
    with open(FULL_GPU[:-4] + ".jsonl") as f:
        refused = [p for p in map(json.loads, f) if p.get("name") == "refused"][-1]
    pool = read("frag", FULL_GPU)["devices"][0]["pool"]
    equal((pool["reserved_bytes"], pool["allocated_bytes"]), (refused["reserved"], refused["allocated"]))
    equal(pool["segment_bytes"] - pool["block_bytes"], pool["free_bytes"])
    check(pool["idle_bytes"] < 24 * M, "PyTorch had given back what was idle: %d" % pool["idle_bytes"])
    equal(pool["idle_bytes"] + pool["held_free_bytes"], pool["free_bytes"])
    check("78.46 GiB  in 264 segments without blocks" not in text("frag", FULL_GPU))
    check("GPU 0 at the OOM, +5.944 s" in text("frag", FULL_GPU), text("frag", FULL_GPU))


@case("a full GPU: summary, oom and frag give one figure for the free memory; a part of it is labelled")
def one_figure():
    for view in ("summary", "oom", "frag"):
        check("542.53 MiB" in text(view, FULL_GPU), view)
        lines = [line for line in text(view, FULL_GPU).splitlines() if "541.59 MiB" in line]
        equal(len(lines), {"summary": 0, "oom": 1, "frag": 3}[view], lines)  # (the first screen has no line left for it)
        check(all("large requests" in line or "in PyTorch's segments" in line for line in lines), lines)
    device = read("frag", FULL_GPU)["devices"][0]
    pool = device["pool"]
    equal(pool["small"]["free_bytes"] + pool["large"]["free_bytes"], pool["free_bytes"])
    equal([r["free_bytes"] for r in device["requests"] if r["outcome"] == "oom"], [pool["large"]["free_bytes"]])


@case("a full GPU: what it says of the driver and of the pool can both be true")
def two_levels():
    lines = text("frag", FULL_GPU).splitlines()
    check(lines[1].startswith("  fragmentation may have caused 1 of 1 OOM, for enough memory was free in total: "), lines)
    (pool,) = [line for line in lines if line.startswith("  pool OOM ")]
    check("0 with too little free, 1 with enough free but in pieces" in pool, pool)
    check(not any(line.startswith("  OOM") for line in lines), "no line without a level")


@case("a failure for which too little was free: fragmentation was not its cause, by these figures; without one it says so")
def the_conclusion():
    def said(name):
        return " ".join(text("frag", os.path.join(ROOT, "tests/report/vllm", name, "trace.zst")).split())
    check(": 23.45 GiB in 168 allocations fragmentation was not the cause of 1 OOM: 96.00 MiB was asked for, 27.00 MiB was free on" in said("leak"),
          said("leak")[:300])
    check(" fragmentation made no request fail " in said("sleep-1"), said("sleep-1")[:300])


@case("on a GPU: the moment is the crossing of summary, else the peak, and the figures are summary's")
def the_default_moment():
    kinds = set()
    for path in RECORDED:
        frag, summary = read("frag", path), read("summary", path)
        moment, crossing = frag["moment"], summary["crossing"]
        kinds.add(moment["what"])
        if crossing:
            equal(moment, {"what": "oom", "device": crossing["device"], "event": crossing["event"], "t_ns": crossing["t_ns"], "known": True}, path)
        else:
            peak = max(summary["devices"], key=lambda d: d["peak_bytes"])
            equal((moment["what"], moment["t_ns"]), ("peak", peak["peak_t_ns"]), path)
            equal(frag["devices"][0]["live_bytes"], peak["peak_bytes"], path)
        for f, d in zip(frag["devices"], summary["devices"]):
            want = d["pool"]["crossing" if crossing else "peak"]
            equal(f["pool"] and {k: f["pool"][k] for k in POOL}, want and {k: want[k] for k in POOL}, path)
    equal(kinds, {"oom", "peak"})


@case("a moment that the trace does not have is said, and is no usage error; a view of a period has no --at")
def no_such_moment():
    (path,) = [p for p in RECORDED if p.endswith("/training.zst")]
    equal(read("frag", path, "--at=oom", warns=True)["moment"]["what"], "peak")
    equal(report("timeline", "--at=end", path)[0], 2)
    equal(report("frag", "--at=never", path)[0], 2)


@case("on a GPU: no worst moment lies behind the last request for memory")
def teardown():
    behind = 0
    for path in sample(RECORDED, 4):
        asked = {}
        for e in events_of(path):
            if e["op"] in ("alloc", "create", "map", "graph-alloc", "block-alloc", "block-oom") and e["space"] != "host":
                asked[e["device"]] = e["t_ns"]
        for view in ("frag", "summary"):
            for d in read(view, path)["devices"]:
                for p in d["fragmentation"]:
                    equal(p["worst"] is None, p["worst_t_ns"] is None)
                    check(p["worst"] is None or p["worst_t_ns"] <= asked[d["ordinal"]], "%s %s: %r" % (view, path, p))
                    behind += p["worst"] is None
    check(behind > (30 if FULL else 5), "traces end with frees: %d instants" % behind)


@case("a retry that failed although enough was free counts for the driver, whatever its incident ended in; devices are named")
def despite_free():
    t = Trace()
    t.info = {"process.start_ns": "0", "device.0.total_bytes": str(1 << 30), "device.1.total_bytes": str(1 << 30)}
    common = {"api": "cuMemAlloc_v2", "space": "device", "tid": 1}
    t.event("alloc", S, device=1, ptr=0x7000000000, bytes=M, result=0, **common)
    for i, free in enumerate((10 * M, 300 * M, 20 * M)):
        t.event("alloc", 2 * S + i, device=0, bytes=200 * M, result=2, free_bytes=free, total_bytes=1 << 30, **common)
    path = t.save(scratch("despite.zst"))
    zero, one = read("frag", path)["devices"]
    equal([[o["event"] for o in d["ooms_despite_free"]] for d in (zero, one)], [[2], []])
    check("  driver           1 OOM although the device had enough free memory in total:\n" in text("frag", path), text("frag", path))
    check("GPU 0 at the OOM, +2.000 s: 0 B" in text("frag", path) and "GPU 1 at the OOM of GPU 0, +2.000 s: 1.00 MiB" in text("frag", path))


@case("where free memory is not known, nothing is said about whether it was enough")
def unknown_free():
    t = Trace()
    t.info = {"process.start_ns": "0"}
    t.event("alloc", S, device=0, tid=1, bytes=200 * M, result=2, api="cuMemAlloc_v2", space="device")
    path = t.save(scratch("unknown.zst"))
    check("1 OOM, where the device's free memory is not known\n" in text("frag", path), text("frag", path))
    check("although" not in text("frag", path), text("frag", path))


@case("what is freed at the end is no worst moment, but what lies idle before a later request is")
def a_request_after_the_frees():
    def told(again):
        t = Trace()
        t.version, t.columns = 3, packed_columns
        t.info = {"process.start_ns": "0"}
        for i in range(4):
            ptr = 0x7000000000 + (i << 32)
            t.event("alloc", S + i * 10**6, device=0, tid=1, bytes=20 * M, ptr=ptr, space="device", result=0, api="cudaMalloc")
            t.event("block-alloc", S + i * 10**6 + 1000, device=0, tid=1, bytes=20 * M, ptr=ptr, allocated_bytes=20 * M * (i + 1),
                    reserved_bytes=20 * M * (i + 1))
        for i in range(4):
            t.event("block-free", 2 * S + i * 10**6, device=0, tid=1, bytes=20 * M, ptr=0x7000000000 + (i << 32),
                    allocated_bytes=20 * M * (3 - i), reserved_bytes=80 * M)
        if again:
            t.event("block-alloc", 3 * S, device=0, tid=1, bytes=20 * M, ptr=0x7000000000, allocated_bytes=20 * M, reserved_bytes=80 * M)
        path = t.save(scratch("frees.zst"))
        points = [p["worst"] for p in read("frag", path)["devices"][0]["fragmentation"] if p["worst"]]
        return max(w["free_bytes"] - w["largest_free_bytes"] for w in points)
    equal((told(False), told(True)), (0, 60 * M))


main()
