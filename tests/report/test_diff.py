#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""diff: two traces, or two moments of one, side by side.

The truth about generated traces is what they were built of. Of golden and recorded ones, what each side holds is what
`top` says (test_top.py has the model of that), and the pairs are found here once more, by names of functions and files.
"""
import collections
import csv
import glob
import itertools
import json
import os
import re
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import traces  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, ROOT, case, check, equal, main, no_lines, report, sample, scratch  # noqa: E402

K, M, G, S, HOUR = 1 << 10, 1 << 20, 1 << 30, 10**9, 3600 * 10**9
GOLDEN = [os.path.join(ROOT, "tests/report/golden/traces", name + ".zst") for name in
          ("refused", "recovered", "mixed", "hostile", "elsewhere", "ringed", "python", "pools", "blocks")]
VLLM = [os.path.join(ROOT, "tests/report/vllm", name, "trace.zst") for name in ("load-model", "load-model-0.11", "eager", "eager-0.11", "leak")]
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))[:4]
PAIRS = list(itertools.combinations(GOLDEN, 2))[::3] + list(itertools.combinations(VLLM, 2)) + list(itertools.pairwise(RECORDED)) + \
    [(GOLDEN[0], VLLM[2]), (GOLDEN[7], VLLM[2])]


def diff(*arguments):
    code, out, err = report("diff", "--json", *no_lines("diff"), *arguments)
    check(code in (0, 4), "%s: exit status %d, %s" % (arguments, code, err))
    return json.loads(out)


def save(t, name):
    return t.save(scratch(name + ".zst"))


def one_device(*arguments):
    devices = diff(*arguments)["devices"]
    equal(len(devices), 1)
    return devices[0]


# ---- traces that are built here -----------------------------------------------------------------

CUDA = [("cuMemAlloc_v2", "/usr/lib/libcuda.so.1"), ("cudaMalloc", "/opt/cuda/libcudart.so.13")]
MAIN = ("main", "/job/main.py", 1)


def built(name, sites, device=0, info=None, callers=True):
    """A trace in which each site, a frame, allocates sizes: {frame: [sizes]}."""
    t = Trace(trace_id=zlib.crc32(name.encode()))
    traces.begin(t, devices=device + 1)
    t.info.update(info or {})
    at, ptr = 51 * S, 1 << 40
    for frame, sizes in sites.items():
        for size in sizes:
            at += 10**7
            ptr += G
            t.event("alloc", at, api="cuMemAlloc_v2", ptr=ptr, bytes=size, device=device, result=0, space="device",
                    stack=CUDA + [frame] + [MAIN] * callers)
    return save(t, name)


def rows(device):
    """(state, bytes of A, bytes of B, sites of A, sites of B, moved, merged) by the function of the site."""
    found = {}
    for r in device["sites"]:
        sides = [r[k] or {"bytes": 0, "count": 0, "sites": 0} for k in ("a", "b")]
        name = next(f["name"] for f in (r["b"] or r["a"])["stack"] if not f["hidden"])
        found.setdefault(name, []).append((r["state"], sides[0]["bytes"], sides[1]["bytes"], sides[0]["sites"], sides[1]["sites"],
                                           r["moved"], r["merged"]))
        equal(r["change_bytes"], sides[1]["bytes"] - sides[0]["bytes"])
        equal(r["change_count"], sides[1]["count"] - sides[0]["count"])
    return {k: sorted(v) for k, v in found.items()}


def text(*arguments):
    code, out, err = report("diff", *arguments)
    check(code == 0, err)
    return out.decode()


@case("new, gone, more and less: by call site, bytes and count as allocated")
def states():
    a = built("a", {("keep", "/x/m.py", 1): [3 * M], ("less", "/x/m.py", 2): [8 * M, M], ("gone", "/x/m.py", 3): [M]})
    b = built("b", {("keep", "/x/m.py", 1): [3 * M], ("less", "/x/m.py", 2): [8 * M], ("new", "/x/m.py", 4): [2 * M, 5 * M]})
    d = one_device(a, b)
    equal(rows(d), {"keep": [("both", 3 * M, 3 * M, 1, 1, False, False)], "less": [("both", 9 * M, 8 * M, 1, 1, False, False)],
                    "gone": [("gone", M, 0, 1, 0, False, False)], "new": [("new", 0, 7 * M, 0, 1, False, False)]})
    counts = {r["b"]["site"] if r["b"] else r["a"]["site"]: r["change_count"] for r in d["sites"]}
    equal(counts, {"m.py:1 keep": 0, "m.py:2 less": -1, "m.py:3 gone": -1, "m.py:4 new": 2})
    changes = [abs(r["change_bytes"]) for r in d["sites"]]
    equal(changes, sorted(changes, reverse=True))
    out = text(a, b)
    check("+7.00 MiB" in out and " new " in out and " gone " in out, out)


@case("moved lines: one function whose line differs is one row that says so, also deeper in the stack")
def moved_lines():
    a = built("a", {("f", "/x/m.py", 10): [M], ("g", "/x/m.py", 30): [M]})
    b = built("b", {("f", "/x/m.py", 12): [2 * M], ("g", "/x/m.py", 30): [M]})
    equal(rows(one_device(a, b)), {"f": [("both", M, 2 * M, 1, 1, True, False)], "g": [("both", M, M, 1, 1, False, False)]})
    out = text(a, b)
    check("m.py:12 f [A: line 10]" in out and "m.py:30 g\n" in out, out)
    callers = [(("alloc", "/x/own.py", 1), ("one", "/x/m.py", n), ("two", "/x/m.py", n + 50)) for n in (5, 7)]
    paths = []
    for name, (alloc, one, two) in zip("ab", callers):
        t = Trace(trace_id=ord(name))
        traces.begin(t)
        for i, caller in enumerate((one, two)):
            t.event("alloc", (51 + i) * S, ptr=(i + 1) << 32, bytes=(i + 1) * M, device=0, result=0, space="device", stack=CUDA + [alloc, caller, MAIN])
        paths.append(save(t, name))
    sites = one_device(*paths)["sites"]
    equal([(r["state"], r["moved"], r["change_bytes"]) for r in sites], [("both", True, 0)] * 2)
    equal([r["b"]["site"] for r in sites], ["own.py:1 alloc <- m.py:57 two", "own.py:1 alloc <- m.py:7 one"])
    check("[A: own.py:1 alloc <- m.py:5 one]" in text(*paths), text(*paths))


@case("a changed function with several call sites is one row that says how many; one that only has more lines is not changed")
def merged_lines():
    a = built("a", {("f", "/x/m.py", 10): [M], ("f", "/x/m.py", 20): [2 * M]})
    b = built("b", {("f", "/x/m.py", 20): [M], ("f", "/x/m.py", 30): [4 * M], ("f", "/x/m.py", 40): [8 * M]})
    equal(rows(one_device(a, b)), {"f": [("both", 3 * M, 13 * M, 2, 3, True, True)]})
    check("2 call sites of A, 3 of B" in text(a, b), text(a, b))
    c = built("c", {("f", "/x/m.py", 10): [M], ("f", "/x/m.py", 20): [2 * M], ("f", "/x/m.py", 30): [4 * M]})
    equal(rows(one_device(a, c)), {"f": [("both", M, M, 1, 1, False, False), ("both", 2 * M, 2 * M, 1, 1, False, False),
                                         ("new", 0, 4 * M, 0, 1, False, False)]})


@case("other functions of a file, and files of one name, are never one call site")
def told_apart():
    a = built("a", {("f", "/x/one/utils.py", 10): [M], ("f", "/x/two/utils.py", 10): [2 * M], ("g", "/x/one/utils.py", 10): [4 * M]})
    b = built("b", {("f", "/x/one/utils.py", 10): [M], ("f", "/x/two/utils.py", 10): [2 * M], ("h", "/x/one/utils.py", 10): [4 * M]})
    equal(rows(one_device(a, b)), {"f": [("both", M, M, 1, 1, False, False), ("both", 2 * M, 2 * M, 1, 1, False, False)],
                                   "g": [("gone", 4 * M, 0, 1, 0, False, False)], "h": [("new", 0, 4 * M, 0, 1, False, False)]})
    # one of A could be either of B: the file is not guessed
    c = built("c", {("f", "/y/p/utils.py", 10): [M]})
    d = built("d", {("f", "/z/q/utils.py", 10): [M], ("f", "/z/r/utils.py", 11): [2 * M]})
    equal(rows(one_device(c, d)), {"f": [("gone", M, 0, 1, 0, False, False), ("new", 0, M, 0, 1, False, False),
                                         ("new", 0, 2 * M, 0, 1, False, False)]})


@case("renamed paths: packages elsewhere are the same files; another folder is said, and the nearest path is taken")
def renamed_paths():
    a = built("a", {("f", "/home/u/venv/lib/python3.11/site-packages/pkg/core/linear.py", 10): [M], ("f", "/home/u/job/linear.py", 10): [2 * M],
                    ("g", "/home/u/job/train.py", 5): [4 * M]})
    b = built("b", {("f", "/usr/lib/python3/dist-packages/pkg/core/linear.py", 10): [M], ("f", "/data/v/job/linear.py", 10): [2 * M],
                    ("g", "/data/v/job/train.py", 5): [4 * M]})
    d = diff(a, b)
    equal(rows(d["devices"][0]), {"f": [("both", M, M, 1, 1, False, False), ("both", 2 * M, 2 * M, 1, 1, False, False)],
                                  "g": [("both", 4 * M, 4 * M, 1, 1, False, False)]})
    equal(sorted((f["a"], f["b"]) for f in d["files"]), [("/home/u/job/linear.py", "/data/v/job/linear.py"), ("/home/u/job/train.py", "/data/v/job/train.py")])
    out = text(a, b)
    check("taken for one file: /home/u/job/train.py in A, /data/v/job/train.py in B" in out, out)


@case("native functions: the version and the tag of a library do not count, a function in another one is said, addresses are of one build")
def native():
    a = built("a", {("_ZN3lib4initEv", "/opt/a/libfoo.so.12"): [M], ("_ZN3lib4moveEv", "/opt/a/libold-1a2b3c4d.so"): [2 * M],
                    ("_ZN3lib4keepEv.cold", "/opt/a/libfoo-1a2b3c4d.so.1"): [4 * M]}, callers=False)
    b = built("b", {("_ZN3lib4initEv", "/opt/b/libfoo.so.13.2"): [M], ("_ZN3lib4moveEv", "/opt/b/libnew.so"): [3 * M],
                    ("_ZN3lib4keepEv", "/opt/b/libfoo-ffff0000.so.2"): [4 * M]}, callers=False)
    found = {r["b"]["site"]: (r["state"], r["moved"], r["change_bytes"]) for r in one_device(a, b)["sites"]}
    equal({k.split(" ")[0]: v for k, v in found.items()}, {"lib::init": ("both", False, 0), "lib::move": ("both", True, M), "lib::keep": ("both", False, 0)})
    check("[A: lib::move (libold-1a2b3c4d.so)]" in text(a, b), text(a, b))
    c = built("c", {("_ZN3lib4moveEv", "/opt/a/libone.so"): [M], ("_ZN3lib4moveEv", "/opt/a/libtwo.so"): [2 * M]}, callers=False)
    equal(sorted(r["state"] for r in one_device(c, b)["sites"] if "move" in (r["a"] or r["b"])["site"]), ["gone", "gone", "new"])


@case("versions, flags, variables, options and the device that differ are named first; what is the same is not")
def facts():
    info = {"version.vllm": "0.11.0", "flag.max-num-seqs": "256", "flag.max-num-seqs.from": "self", "process.env.CUDA_VISIBLE_DEVICES": "0",
            "version.torch": "2.9.0", "nvidia.driver_version": "570.86.15", "option.MIN_SIZE": "1K", "hook.cuMemAlloc_v2.calls": "7"}
    a = built("a", {("f", "/x/m.py", 10): [M]}, info=info)
    b = built("b", {("f", "/x/m.py", 10): [M]}, info={**info, "version.vllm": "0.12.0", "nvidia.driver_version": "580.159.04", "flag.max-num-seqs": "512", "flag.max-num-seqs.from": "parent",
              "process.env.CUDA_VISIBLE_DEVICES": "1", "flag.enforce-eager": "<given>", "device.0.name": "Other GPU", "hook.cuMemAlloc_v2.calls": "9"})
    d = diff(a, b)
    equal([tuple(f.values()) for f in d["facts"]], [("version", "nvidia.driver_version", "570.86.15", "580.159.04"), ("version", "vllm", "0.11.0", "0.12.0"), ("flag", "enforce-eager", None, "<given>"),
          ("flag", "max-num-seqs", "256", "512"), ("environment", "CUDA_VISIBLE_DEVICES", "0", "1")])
    equal([tuple(f.values()) for f in d["devices"][0]["facts"]], [("device", "name", "Test GPU", "Other GPU")])
    lines = [line for line in text(a, b).splitlines() if line.startswith("differs: ")]
    equal(lines[:2], ["differs: version nvidia.driver_version: 570.86.15 in A, 580.159.04 in B", "differs: version vllm: 0.11.0 in A, 0.12.0 in B"])
    check("differs: flag enforce-eager: (none) in A, <given> in B" in lines and len(lines) == 6, lines)


@case("two ranks see their GPUs under different numbers: the one of each is compared; of several, those of one number")
def ranks():
    a = built("a", {("f", "/x/m.py", 10): [M]})
    b = built("b", {("f", "/x/m.py", 10): [3 * M]}, device=1)
    d = one_device(a, b)
    equal((d["a"]["ordinal"], d["b"]["ordinal"], d["a"]["bytes"], d["b"]["bytes"]), (0, 1, M, 3 * M))
    check("GPU 0 of A, GPU 1 of B" in text(a, b), text(a, b))
    both = diff(GOLDEN[7], b)["devices"]  # pools, on GPU 0 and 1
    equal([(x["a"]["ordinal"], (x["b"] or {}).get("ordinal")) for x in both], [(0, None), (1, 1)])
    equal({r["state"] for r in both[0]["sites"]}, {"gone"})


@case("rates and ages: as they were allocated, null where the time is too short")
def rates():
    path = scratch("growing.zst", traces.growing())
    d = one_device(path, path, "--at=3:00:00", "--at=end")
    leak = next(r for r in d["sites"] if "leak" in (r["b"]["site"] if r["b"] else ""))
    for side, hours in (("a", 3), ("b", 6)):  # 2 MiB in five minutes
        equal((leak[side]["bytes_per_hour"], leak[side]["oldest_t_ns"]), (24 * M, 51 * S), side)
        # (the last event of a range is at most that of its end)
        check(abs(leak[side]["age_ns"] - hours * HOUR) <= 60 * S, leak[side]["age_ns"])
    equal((leak["a"]["count"], leak["b"]["count"]), (36, 72))
    a = built("a", {("f", "/x/m.py", 10): [M]})
    short = one_device(a, a)
    equal([(s["sites"][0][k]["bytes_per_hour"]) for s in (short,) for k in ("a", "b")], [None, None])
    equal((short["a"]["too_short"], [f["figure"] for f in short["figures"] if f["figure"] == "growth"]), (True, []))


@case("two moments of one trace: what was live at each; the same is no difference")
def two_moments():
    t = Trace(trace_id=99)
    traces.begin(t)
    live, at = {}, {}
    for i in range(40):  # ten call sites; each frees its oldest when it has three
        now, site = (51 + i) * S, i % 10
        if len(live.setdefault(site, [])) == 3:
            t.event("free", now, ptr=live[site].pop(0)[0])
        size, ptr = (i % 7 + 1) * M, (i + 1) << 32
        live[site].append((ptr, size))
        t.event("alloc", now + 1, ptr=ptr, bytes=size, device=0, result=0, space="device", stack=CUDA + [("f%d" % site, "/x/m.py", site + 1), MAIN])
        at[i] = {s: (sum(n for _, n in l), len(l)) for s, l in live.items()}
    path = save(t, "moments")
    for first, second in ((4, 25), (38, 12), (20, 21)):
        d = one_device(path, "--at=%d.5" % (1 + first), "--at=%d.5" % (1 + second))
        found = {int((r["a"] or r["b"])["site"].rsplit("f", 1)[1]): tuple((r[k]["bytes"], r[k]["count"]) if r[k] else (0, 0) for k in ("a", "b"))
                 for r in d["sites"]}
        equal(found, {s: (at[first].get(s, (0, 0)), at[second].get(s, (0, 0))) for s in set(at[first]) | set(at[second])})
    check("two moments of one process" in text(path, "--at=5.5", "--at=9.5"))
    check("no difference" in text(path, "--at=5.5", "--at=5.5"))
    equal(diff(path, "--at=5.5", "--at=end")["same_trace"], True)


# ---- golden and recorded traces ----------------------------------------------------------------------

def sum_of(rows_, side, key="bytes"):
    return sum(r[side][key] for r in rows_ if r[side])


@case("the rows of each side add up to the byte: sites and phases to what is live, purposes to the capacity or what is tracked")
def sums():
    seen = collections.Counter()
    for a, b in sample(PAIRS, 7, 1):
        for d in diff(a, b)["devices"]:
            for side in ("a", "b"):
                held = d[side]
                if not held:
                    equal(sum_of(d["sites"], side), 0)
                    continue
                equal(sum_of(d["sites"], side), held["bytes"], (a, b, side))
                equal(sum(p[side]["bytes"] or 0 for p in d["phases"]), held["bytes"], (a, b, side))
                whole = held["tracked_bytes"] if held["capacity_bytes"] is None else held["capacity_bytes"]
                equal(sum(p[side + "_bytes"] or 0 for p in d["account"]), whole, (a, b, side))
                seen[held["capacity_bytes"] is None, held["rows"]] += 1
            for r in d["figures"]:
                equal(r["change"], None if None in (r["a"], r["b"]) else r["b"] - r["a"])
            for r in d["account"]:
                equal(r["change_bytes"], None if None in (r["a_bytes"], r["b_bytes"]) else r["b_bytes"] - r["a_bytes"])
            changes = [(d[k] or {"bytes": 0})["bytes"] for k in ("a", "b")]
            equal(sum(r["change_bytes"] for r in d["sites"]), changes[1] - changes[0])
    check(len(seen) >= 2 or not FULL, seen)


@case("where the blocks of one side contradict its segments, both are shown by segment, and the rows add up")
def by_segment():
    paths = []
    for name, second in (("a", 8 * M), ("b", 4 * M)):  # the free of the first block was lost in b
        t = Trace(trace_id=ord(name))
        traces.begin(t)
        t.event("alloc", 51 * S, ptr=1 << 40, bytes=16 * M, device=0, result=0, space="device", stack=CUDA + [("grow", "/x/m.py", 1), MAIN])
        for i, at in enumerate((0, second)):
            t.event("block-alloc", (52 + i) * S, ptr=(1 << 40) + at, bytes=8 * M, device=0, stack=[("block%d" % i, "/x/m.py", 5 + i), MAIN],
                    allocated_bytes=8 * M * (i + 1), reserved_bytes=16 * M)
        paths.append(save(t, name))
    seen = set()
    for a, b, *more in ((paths[0], paths[0]), (*paths,), (*reversed(paths),), (paths[0], paths[0], "--segments")):
        d = one_device(a, b, "--at=end", *more)
        equal((d["a"]["rows"], sum_of(d["sites"], "a"), sum_of(d["sites"], "b")), (d["b"]["rows"], 16 * M, 16 * M))
        seen.add((d["a"]["rows"], a == b, bool(more)))
    equal(seen, {("blocks", True, False), ("segments", False, False), ("segments", True, True)})


def turned(d):
    """A diff of B and A, from that of A and B: comparable, as order and merged labels may differ."""
    def swap(r):
        return {**{k: v for k, v in r.items() if k not in ("a", "b", "a_bytes", "b_bytes")}, "a": r.get("b"), "b": r.get("a"),
                "a_bytes": r.get("b_bytes"), "b_bytes": r.get("a_bytes")}
    out = []
    for x in d["devices"]:
        y = swap(x)
        y["facts"] = [swap(r) for r in x["facts"]]
        for key in ("figures", "account", "sites", "phases"):
            y[key] = [swap(r) for r in x[key]]
            for r in y[key]:
                for change in ("change", "change_bytes", "change_count"):
                    r[change] = -r[change] if r.get(change) is not None else None
                r["state"] = {"new": "gone", "gone": "new"}.get(r.get("state"), r.get("state"))
        out.append(y)
    return out


def canonical(devices):
    return [{k: sorted(json.dumps(r, sort_keys=True) for r in v) if isinstance(v, list) else json.dumps(v, sort_keys=True) for k, v in x.items()}
            for x in devices]


def both_ways(d):
    return {"devices": turned({"devices": turned(d)})}


@case("diff A B is the negative of diff B A, row by row")
def symmetric():
    for a, b in sample(PAIRS, 6, 2):
        equal(canonical(turned(diff(a, b))), canonical(both_ways(diff(b, a))["devices"]), (a, b))


@case("diff A A says that there is no difference; a byte more is one")
def no_difference():
    for path in GOLDEN + VLLM[:1]:
        d = diff(path, path)
        equal((d["facts"], d["files"], {x["equal"] for x in d["devices"]}), ([], [], {True}), path)
        out = report("diff", *no_lines("diff"), path, path)[1].decode()
        check("no difference: " in out and "change" not in out, out)
    a, b = built("a", {("f", "/x/m.py", 10): [M]}), built("b", {("f", "/x/m.py", 10): [M + 1]})
    check(not one_device(a, b)["equal"] and "no difference" not in text(a, b))


@case("an asked-for moment that a side has not is said, and what is compared instead; failed requests are of the run, not of a moment")
def moments_that_are_not():
    plain = built("plain", {("f", "/x/m.py", 1): [M, M]})
    for at, said in ((["--at=oom"], True), ([], False), (["--at=end"], False), (["--at=peak"], False)):
        code, _, err = report("diff", GOLDEN[0], plain, *at)
        equal(code, 0)
        equal(re.findall(r"warning: --at: (\S+) has no such moment; diff compares its (\w+)", err.decode()), [(plain, "peak")] if said else [], at)
    title = "requests that ran out of memory"
    check(title in text(plain, GOLDEN[0]), "of two traces")
    check(title not in text(GOLDEN[0], "--at=peak", "--at=end"), "of two moments")


@case("the same bytes in another number of allocations are a difference")
def other_counts():
    d = one_device(built("in-two", {("f", "/x/m.py", 1): [M, M]}), built("in-one", {("f", "/x/m.py", 1): [2 * M]}))
    equal((d["equal"], [f["change"] for f in d["figures"] if f["change"]]), (False, []))


@case("what no reading says is null, not 0: untracked and free memory of a side whose device was not read")
def figures_not_known():
    plain = built("unread", {("f", "/x/m.py", 1): [M]})
    d = one_device(plain, GOLDEN[0], "--device=0")
    figures = {f["figure"]: (f["a"], f["b"]) for f in d["figures"]}
    for name in ("untracked", "free"):
        equal(figures[name][0], None, name)
        check(figures[name][1] is not None, name)
    equal(figures["live"][0], M)


@case("each side is what top says at that moment: the OOM that was not recovered, else the peak, unless --at asks for another")
def sides_of_top():
    kinds = set()
    for a, b, *more in sample(PAIRS, 6, 3) + [(VLLM[0], VLLM[2], "--at=end"), (GOLDEN[0], GOLDEN[1], "--at=peak"), (GOLDEN[0], GOLDEN[7], "--at=end")]:
        d = diff(a, b, *more)
        for x, side, path in ((x, s, p) for x in d["devices"] for s, p in (("a", a), ("b", b)) if x[s]):
            held, crossing = x[side], json.loads(report("summary", "--json", *no_lines("summary"), path)[1])["crossing"]
            is_oom = crossing and not crossing["recovered"] and crossing["reason"] not in ("host-memory", "address-space")
            wanted = more or ["--at=oom" if is_oom else "--at=peak"]
            segments = ["--segments"] if held["rows"] == "segments" else []
            top = next(t for t in json.loads(report("top", "--json", *no_lines("top"), *wanted, *segments, path)[1])["devices"] if t["ordinal"] == held["ordinal"])
            equal((held["bytes"], held["moment"]), (top["bytes"], top["moment"]), (path, wanted))
            stacks = collections.Counter()
            for r in top["sites"]:
                stacks[r["kind"]] += r["bytes"]
            mine = collections.Counter()
            for r in x["sites"]:
                if r[side]:
                    mine[r["kind"]] += r[side]["bytes"]
            equal(mine, stacks, path)
            kinds.add(held["moment"]["what"])
    check({"peak", "end"} <= kinds, kinds)


def name_of(site):
    """Functions and file names of a call site, from its stack as JSON has it, with callers as far as its label shows them."""
    shown = [f for f in site["stack"] or [] if not f["hidden"]][:site["site"].count(" <- ") + 1]
    return tuple((f["name"], os.path.basename(f["file"] or "")) for f in shown if f["kind"] == "python")


@case("two versions of vLLM: no call sites of other functions or files are paired, and none of the same that each has once is not")
def versions():
    count = 0
    for a, b in ((VLLM[0], VLLM[1]), (VLLM[2], VLLM[3])):
        for r in one_device(a, b)["sites"]:
            if r["a"] and r["b"] and r["kind"] != "idle" and name_of(r["b"]):
                equal(name_of(r["a"]), name_of(r["b"]))
                count += 1
        alone = collections.defaultdict(lambda: {"a": [], "b": []})
        for r in one_device(a, b)["sites"]:
            for side in ("a", "b"):
                if r[side] and name_of(r[side]):
                    alone[r["kind"], name_of(r[side])][side].append(r)
        for key, sides in alone.items():
            if len(sides["a"]) == len(sides["b"]) == 1:
                check(sides["a"][0] is sides["b"][0], key)
    check(count > 9, count)


@case("phases: taken, kept and given back as phases says of the time up to the moment")
def phases():
    count = 0
    for a, b in ((VLLM[2], VLLM[0]), (VLLM[3], VLLM[2])):
        d = one_device(a, b)
        for side, path in (("a", a), ("b", b)):
            start = json.loads(report("info", "--json", path)[1])["start_ns"]
            want = collections.defaultdict(collections.Counter)
            until = "--to=%.9f" % ((d[side]["moment"]["t_ns"] - start) / S)
            for p in json.loads(report("phases", "--json", "--device=%d" % d[side]["ordinal"], until, path)[1])["phases"]:
                for key in ("taken_bytes", "taken_count", "kept_bytes", "given_back_bytes", "stretches", "duration_ns"):
                    want[p["phase"] and p["phase"]["title"]][key] += p[key]
            for p in d["phases"]:
                if p[side]["stretches"]:
                    got = {k: p[side][k] for k in want[p["phase"] and p["phase"]["title"]]}
                    equal(got, dict(want[p["phase"] and p["phase"]["title"]]), (path, p["phase"]))
                    count += 1
    check(count > 8, count)


def phases_of_export(path, moment):
    """What each phase has allocated of what is live at a moment of a trace, and since when, by export's table of allocations."""
    to = scratch("allocations.csv")
    code, out, err = report("export", *no_lines("export"), "--format=csv", "--force", "-o", to, path)
    equal(code, 0, (out, err))
    found = collections.defaultdict(lambda: [0, []])
    with open(to, encoding="utf-8", newline="") as f:
        for r in csv.DictReader(f):
            if r["live_at_" + moment] == "1" and r["kind"] != "segment":
                found[r["phase"] or None][0] += int(r["bytes"])
                found[r["phase"] or None][1].append(int(r["alloc_ns"]))
    return {k: (size, min(times)) for k, (size, times) in found.items()}


@case("phases: since when each holds its memory, new and gone ones, and the growth of its call sites")
def phases_of_time():
    leak = next(path for path in VLLM if "/leak/" in path)
    for a, b in ((VLLM[0], leak), (leak, VLLM[0]), (VLLM[3], VLLM[2])):
        d = one_device(a, b)
        for side, path in (("a", a), ("b", b)):
            moment, now = d[side]["moment"]["what"], d[side]["moment"]["t_ns"]
            got = {p["phase"] and p["phase"]["key"]: (p[side]["bytes"], p[side]["oldest_t_ns"])
                   for p in d["phases"] if p[side]["bytes"] and not p["idle"]}
            equal(got, phases_of_export(path, moment), path)
            for p in d["phases"]:
                equal(p[side]["age_ns"], None if p[side]["oldest_t_ns"] is None else now - p[side]["oldest_t_ns"])
            rates = [r[side]["bytes_per_hour"] for r in d["sites"] if r[side] and r[side]["bytes_per_hour"]]
            equal(sum(p[side]["bytes_per_hour"] or 0 for p in d["phases"]), sum(rates), path)
        for p in d["phases"]:
            there = [bool(p[side]["bytes"] or p[side]["stretches"]) for side in ("a", "b")]
            want = {(True, True): "both", (False, True): "new", (True, False): "gone"}[tuple(there)]
            equal(p["state"], None if p["idle"] or p["phase"] is None else want, p)
    (grows,) = (p for p in one_device(VLLM[0], leak)["phases"] if p["b"]["bytes_per_hour"])
    check(grows["phase"] is None and grows["b"]["bytes_per_hour"] > M, grows)
    lines = text(VLLM[0], leak).splitlines()
    check(any(" new " in line and line.endswith("vLLM profile run") for line in lines), lines)
    check(any("/h" in line or re.search(r"\+[\d.]+ [GT]iB .*\(no known phase\)$", line) for line in lines), lines)


@case("a phase of two call sites: a site of two phases that grows has no known share in either, one that does not changes nothing")
def phases_of_growth():
    work, dummy = (("execute_model", "/v/vllm/v1/worker/gpu_worker.py", 9), ("execute_dummy_batch", "/v/vllm/v1/worker/gpu_worker.py", 8))
    for shared in (False, True):
        t = Trace(trace_id=5 + shared)
        traces.begin(t)
        ptr = 1 << 40
        for i in range(240):
            for name, phase in (("grows", work), ("both", dummy), ("both", work if shared else dummy)):
                ptr += G
                t.event("alloc", 51 * S + i * 60 * S + (ptr >> 30) % 7, ptr=ptr, bytes=M, device=0, result=0, space="device",
                        stack=CUDA + [(name, "/x/m.py", 1)] + [(f"layer{n}", "/x/m.py", 50 + n) for n in range(30)] +
                        [(f"one of two{i % 2}", "/x/m.py", 99), phase, MAIN])
        path = save(t, f"growth-{shared}")
        found = {p["phase"] and p["phase"]["title"]: p["b"]["bytes_per_hour"] for p in one_device(path, path, "--at=peak", "--at=end")["phases"]}
        sites = {r["b"]["site"]: r["b"]["bytes_per_hour"] for r in one_device(path, path, "--at=peak", "--at=end")["sites"]}
        check(all(rate and abs(rate - n * 60 * M) < 8 * M for rate, n in ((sites["m.py:1 grows"], 1), (sites["m.py:1 both"], 2))), sites)
        equal((found["vLLM serving"], found["vLLM dummy step while serving"]), (None, None) if shared else (sites["m.py:1 grows"], sites["m.py:1 both"]))


main()
