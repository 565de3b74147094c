#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of `frag` and `summary` on PyTorch's pools, against the allocator's own snapshots at some of the moments.
test_pools.py [WORD]... runs the cases whose names contain one of the words."""
import collections
import functools
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
import wheels  # noqa: E402
from test_blocks import CASES, FREE, HANDED_OUT, WAITS, Run, blocks_of, drawn, ready, whole_gaps  # noqa: E402

OPERATIONS, MOMENTS = (36000, 24) if tap.FULL else (2500, 6)


def view(name, trace, *more):
    code, out, err = tap.report(name, "--json", *more, trace)
    tap.equal((code, err), (0, b""), name)
    return json.loads(out)


def figures(truth):
    """The keys of a pool from a snapshot; a device without a block has none."""
    own = truth["segments"]
    gaps = [size for s in own for _, size in whole_gaps(s)]
    handed = [b for s in own for b in blocks_of(s) if b[2] == HANDED_OUT]
    idle = [s[1] for s in own if all(b[2] != HANDED_OUT for b in blocks_of(s))]
    return {"allocated_bytes": truth["allocated"], "reserved_bytes": truth["reserved"], "unreconciled_bytes": 0,
            "free_bytes": sum(gaps), "free_blocks": len(gaps), "largest_free_bytes": max(gaps, default=0),
            "segments": len(own), "segment_bytes": sum(s[1] for s in own), "blocks": len(handed),
            "block_bytes": sum(b[1] for b in handed), "idle_segments": len(idle), "idle_bytes": sum(idle), "outside_segments_bytes": 0}


def check_incidents(found, device, retries):
    """An incident for each OutOfMemoryError, and for each retry that the report counts (check_retries: PyTorch's)."""
    of_device = {o["event"] for o in found["ooms"] if o["device"] == device["device"]}
    mine = [i["outcome"] for i in found["incidents"] if i["pytorch"] and i["event"] in of_device]
    tap.equal((mine.count("failed"), len(mine)), (device["ooms"], retries), "incidents of PyTorch's on device %d" % device["device"])


def compare(run, moments, streams, whole=True, retries=None):
    """At each of the moments; whole: nothing of the trace is missing, so that all refusals can be counted. Notes retries:
    [ours, the allocator's, whether ours is a bound]."""
    retries = [] if retries is None else retries
    at = {e["bytes"]: e["t_ns"] for e in run.events() if e["op"] == "alloc" and e["api"] == "cudaMalloc"}
    start = view("frag", run.trace)["start_ns"]
    seen = 0
    for truth in moments:
        t = at[truth["marker"]] - start
        to = "--to=%d.%09d" % divmod(t, 10**9)
        devices = {d["ordinal"]: d for d in view("frag", run.trace, "--at=end", to)["devices"]}
        found = view("oom", run.trace, to)
        for device in truth["devices"]:
            if not sum(device["blocks"]):
                continue
            ours, want = devices[device["device"]], figures(device)
            pool = ours["pool"]
            tap.equal({k: pool[k] for k in want}, want, "moment %d, device %d" % (truth["marker"], device["device"]))
            if whole:
                tap.equal(sum(ours["oom_causes"].values()), device["ooms"], "refused")
                check_incidents(found, device, ours["retries"])
                retries.append((ours["retries"], device["retries"], ours["retries_is_bound"]))
            states = [b for s in device["segments"] for b in blocks_of(s)]
            largest = max([b[1] for b in states if b[2] == FREE], default=0)
            if any(b[2] == WAITS for b in states):
                tap.check(largest <= pool["largest_free_bytes"], "the bound holds")
            else:
                tap.equal(pool["largest_free_bytes"], largest, "largest free block")
            tap.equal(pool["largest_free_is_bound"], streams, "it is a bound if there are streams besides the default one")
            seen += 1
    return seen


def check_retries(case, retries):
    """Those of PyTorch are told, or a bound of them."""
    _, settings, options, _ = case
    bound = "max_split_size" in settings or "captures" in options
    # Between the driver's refusal and PyTorch's report of the block, each of the threads may be under way.
    threads = options.get("threads", 1)
    under_way = threads if threads > 1 else 0
    for ours, its, is_bound in retries:
        tap.equal(is_bound, bound, "it is a bound where PyTorch may have asked again without a retry")
        if "fraction" in options:  # that PyTorch then fulfils by what it gives back, nobody is asked for
            tap.check(ours <= its + under_way, f"{ours} retries, PyTorch says {its}")
        else:  # (while a pool is filled, PyTorch before 2.2 gives nothing back, capture or not)
            tap.check(ours >= its - under_way and (bound or "pools" in options or ours <= its + under_way),
                      f"{ours} retries, PyTorch says {its}")
    tap.note(f"{case[0]}: retries at the end: {[r[0] for r in retries[-2:]]}, PyTorch says {[r[1] for r in retries[-2:]]}")


def check_case(version, case):
    run = Run(ready(version), case, 7, operations=OPERATIONS)
    step, retries = max(1, len(run.moments) // MOMENTS), []
    tap.check(compare(run, run.moments[::step] + run.moments[-1:], case[2].get("streams") != 0, retries=retries) >= MOMENTS,
              "too few moments")
    check_retries(case, retries)
    requests = {k: 0 for k in ("not_enough_free", "fragmented", "fit_unused")}
    for device in view("frag", run.trace)["devices"]:
        for k in requests:
            requests[k] += device["growth_causes"][k] if device["growth_causes"] else 0
    tap.note("%s: requests that made the pool grow: %s" % (case[0], ", ".join("%d %s" % (n, k) for k, n in requests.items())))
    if case[2].get("streams") == 0:
        tap.check(requests["fragmented"], "free memory lay in pieces")
        tap.equal(requests["fit_unused"], 0, "on one stream, no large enough free block is passed over")
    limits = {o["reason"] == "pool-limit" for o in view("summary", run.trace)["ooms"] if o["op"] == "block-oom"}
    tap.check(limits <= {"fraction" in case[2]}, "only a memory fraction refuses without asking the driver")


def check_wrapped(version, case):
    """in a file whose beginning was overwritten"""
    length = {"operations": 600000, "moments": 200} if tap.FULL else {"operations": 130000, "moments": 50}
    run = Run(ready(version), case, 7, CUTRACE_MAX_SIZE="1M", CUTRACE_TICK_NS="1", **length)
    tap.check(view("frag", run.trace)["trace"]["wrapped"], "the file has room for all of it")
    present = {e["bytes"] for e in run.events() if e["op"] == "alloc" and e["api"] == "cudaMalloc"}
    left = [truth for truth in run.moments if truth["marker"] in present]
    tap.note("%s: %d of %d moments are left" % (case[0], len(left), len(run.moments)))
    tap.check(5 < len(left) < len(run.moments), "some moments are left")
    compare(run, left[1:4] + left[-4:] if tap.FULL else left[1:2] + left[-2:], case[2].get("streams") != 0, whole=False)


def other_streams(moment):
    """What is free in segments of other streams than that of the request that failed: large and small segments'."""
    free = {}
    for large in (True, False):
        gaps = [size for s in moment["devices"][0]["segments"] if s[3] == large and s[2] != moment["failed"]
                for _, size in whole_gaps(s)]
        free["large" if large else "small"] = {"free_bytes": sum(gaps), "free_blocks": len(gaps),
                                               "largest_free_bytes": max(gaps, default=0), "unknown_free_bytes": 0}
    return free


def check_other_streams(version):
    """what was free on other streams when a request failed is what the allocator's snapshot right behind it has"""
    seen = collections.Counter()
    for settings in "", "max_split_size_mb:128", "expandable_segments:True":
        for seed in tap.sample(range(8), 3):
            options = {"streams": 1 + seed % 3, "raw": 0, "live_mb": 2000, "largest_mb": 128, "stop": 1}
            run = Run(ready(version), ("", settings, options, {}), seed, operations=3000, moments=4)
            ooms = [r for r in view("frag", run.trace)["devices"][0]["requests"] if r["outcome"] == "oom"]
            behind = [m for m in run.moments if m["failed"] is not None]
            tap.equal(len(ooms), bool(behind), f"{settings} {seed}: requests failed")
            if not behind:
                continue
            want = other_streams(behind[0])[ooms[0]["class"]]
            tap.equal(ooms[0]["other_streams"], want, f"{settings} {seed}")
            seen.update(all=1, some=want["free_bytes"] > 0, fits=want["largest_free_bytes"] >= ooms[0]["requested_bytes"])
    tap.note(f"{seen['some']} of {seen['all']} requests failed beside free memory of other streams, {seen['fits']} beside a large enough block")
    tap.check(seen["some"] > (12 if tap.FULL else 1) and (seen["fits"] or not tap.FULL), f"{seen}")
    named = Run(ready(version), ("", "", {"streams": 3, "live_mb": 1400, "stop": 1}, {}), 1, operations=3000, moments=4)
    tap.equal({r["other_streams"] for r in view("frag", named.trace)["devices"][0]["requests"]}, {None}, "requests that name their stream")


def main():
    for version, case in drawn():
        tap.case(f"PyTorch {version}: {case[0]}")(functools.partial(check_case, version, case))
    for version in tap.sample(wheels.versions(), 1):
        tap.case(f"PyTorch {version}: {check_other_streams.__doc__}")(functools.partial(check_other_streams, version))
    version = wheels.versions()[-1]
    for case in (CASES[0], CASES[5]) if tap.FULL else (CASES[5],):
        name = f"PyTorch {version}: {case[0]}, {check_wrapped.__doc__}"
        tap.case(name)(functools.partial(check_wrapped, version, case))
    tap.main()


if __name__ == "__main__":
    main()
