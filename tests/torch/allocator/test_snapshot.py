#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: node
"""`cutrace-report export --format=torch` of the real allocator's work, against the allocator's own snapshot() at the
same moments, and by the rules of PyTorch's viewer. test_snapshot.py [WORD]... runs the cases whose names contain one of
the words."""
import functools
import glob
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
import test_blocks  # noqa: E402
import wheels  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
VIEWER = os.path.join(HERE, "../export/viewer.js")
CASES = [c for c in test_blocks.CASES if tap.FULL or c[0] in (
    "one stream, more than fits", "blocks that another stream uses", "expandable segments, several streams",
    "private pools and captures", "refusals by the driver", "threads on two devices")]
MOMENTS = 6 if tap.FULL else 4  # of each run


def export(run, *options):
    out = os.path.join(run.folder.name, "snapshot.pickle")
    code, said, error = tap.report("export", "--format=torch", "--json", "--force", "-o", out, *options, run.trace)
    tap.equal(code, 0, error)
    with open(out, "rb") as f:
        return json.loads(said), pickle.load(f), out


KEPT = tempfile.TemporaryDirectory(prefix="torch.")


def for_viewer(out):
    """Kept for the test of all files, which needs node."""
    shutil.copy(out, os.path.join(KEPT.name, str(len(os.listdir(KEPT.name)))))


def check_viewer():
    """the viewer's way backwards works in each of these files"""
    if not shutil.which("node"):
        raise tap.Skip("node is not installed, which runs the viewer's rules")
    if not os.listdir(KEPT.name):
        raise tap.Skip("no case could be run")
    for path in sorted(glob.glob(KEPT.name + "/*")):
        done = subprocess.run(["node", VIEWER, path], capture_output=True, text=True, check=False, timeout=test_blocks.HANG)
        tap.equal(done.returncode, 0, [line for line in done.stderr.splitlines() if "Error" in line])


def joined(ranges):
    """Neighbours as one: the allocator has an expandable segment for each stream and pool, and they may lie side by side."""
    out = []
    for address, size in sorted(ranges):
        if out and sum(out[-1]) == address:
            out[-1] = (out[-1][0], out[-1][1] + size)
        else:
            out.append((address, size))
    return out


def outside(snapshot, device):
    """Addresses of segments that hold no block of PyTorch's."""
    state = {}
    for e in snapshot["device_traces"][device]:
        if e["action"] == "alloc":
            state[e["addr"]] = e["category"].startswith("outside the pool")
    return {a for a, is_outside in state.items() if is_outside}


def compare(snapshot, truth):
    """Problems, at one moment of one device."""
    device = truth["device"]
    others = outside(snapshot, device) if device < len(snapshot["device_traces"]) else set()
    mine = [s for s in snapshot["segments"] if s["device"] == device and s["address"] not in others]
    kinds = [[joined((s["address"], s["total_size"]) for s in mine if s["is_expandable"] == kind) for kind in (False, True)],
             [joined((s[0], s[1]) for s in truth["segments"] if s[4] == kind) for kind in (False, True)]]
    blocks = [[(b["address"], b["size"]) for s in mine for b in s["blocks"] if b["state"] == "active_allocated"],
              [b[:2] for s in truth["segments"] for b in test_blocks.blocks_of(s) if b[2] == test_blocks.HANDED_OUT]]
    pairs = [("segments", *kinds), ("blocks", *map(sorted, blocks)),
             ("reserved", sum(s["total_size"] for s in mine), truth["reserved"]),
             ("allocated", sum(s["allocated_size"] for s in mine), truth["allocated"])]
    if not any(s["is_expandable"] for s in mine):
        pairs.append(("segments one by one", sorted((s["address"], s["total_size"], s["segment_type"] == "large") for s in mine),
                      sorted((s[0], s[1], bool(s[3])) for s in truth["segments"])))
    return [f"{what}: the file has {ours!r:.300}, the allocator {its!r:.300}" for what, ours, its in pairs if ours != its]


def check_case(version, case):
    run = test_blocks.Run(test_blocks.ready(version), case, seed=5)
    marks = {e["bytes"]: e["t_ns"] for e in run.events() if e["op"] == "alloc" and e["api"] == "cudaMalloc"}
    start = json.loads(tap.report("info", "--json", run.trace)[1])["start_ns"]
    draw, compared, seen = random.Random(case[0]), 0, 0
    for truth in draw.sample(run.moments, min(MOMENTS, len(run.moments))) + [run.moments[-1]]:
        since = marks[truth["marker"]] - start
        window = draw.choice(["--top=all", "--top=300"])
        said, snapshot, out = export(run, "--to=%d.%09d" % divmod(since, 10**9), window)
        if said["oom_event"] is not None and window != "--top=all":
            said, snapshot, out = export(run, "--to=%d.%09d" % divmod(since, 10**9))
        for_viewer(out)
        for device in truth["devices"]:
            problems = compare(snapshot, device)
            tap.check(not problems, f"moment {truth['marker']}: " + "\n".join(problems))
            compared += 1
            seen += len(device["segments"])
    tap.check(compared > MOMENTS and seen, "nothing was compared")
    said, snapshot, out = export(run)
    for_viewer(out)
    if case[0] == "one stream, more than fits":
        kinds = [e["user_metadata"] for t in snapshot["device_traces"] for e in t if e["action"] == "oom"]
        tap.check(kinds and kinds[-1].startswith("allocation failed in PyTorch"), kinds[-3:])


def main():
    versions = wheels.versions()
    for version in versions if tap.FULL else [versions[0], versions[-1]]:
        for case in (c for c in CASES if c in test_blocks.cases(version)):
            tap.case(f"PyTorch {version}: {case[0]}")(functools.partial(check_case, version, case))
    tap.case(check_viewer.__doc__)(check_viewer)
    tap.main()


if __name__ == "__main__":
    main()
