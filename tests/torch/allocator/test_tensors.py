#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch in Python on the simulated driver: the Python stack of every allocation against torch's own history, the
line that made each tensor, and its segments and blocks."""
import collections
import functools
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
import test_blocks  # noqa: E402
import wheels  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
LIBRARY = os.path.join(tap.BUILD, "libcutrace.so")
PROGRAM = os.path.join(HERE, "tensors.py")
MAY_FETCH = tap.FULL or os.environ.get("CI") == "true"
STATES = {"inactive": test_blocks.FREE, "active_pending_free": test_blocks.WAITS, "active_awaiting_free": test_blocks.WAITS,
          "active_allocated": test_blocks.HANDED_OUT}


def view(name, trace, *more):
    """The documents of cutrace-report."""
    return [json.loads(line) for line in tap.read_json(name, *more, trace).splitlines()]


def program(folder, settings, *words, python=""):
    """Runs tensors.py; (what PyTorch says, the trace)."""
    try:
        package = wheels.Package(MAY_FETCH, python)
    except wheels.Unavailable as reason:
        raise tap.Skip(f"{reason}") from None
    truth, trace = os.path.join(folder, "truth"), os.path.join(folder, "trace.zst")
    package.run(PROGRAM, truth, *words, LD_PRELOAD=LIBRARY, CUTRACE_OUTPUT=trace, CUTRACE_QUIET="1", SIM_MEM_MB="1024",
                PYTORCH_CUDA_ALLOC_CONF=settings or None)
    with open(truth, encoding="utf-8") as f:
        return json.load(f), trace


@functools.cache
def run(settings, python):
    """(what PyTorch says, events) of one run."""
    with tempfile.TemporaryDirectory(prefix="torch.") as folder:
        said, trace = program(folder, settings, python=python)
        return said, view("dump", trace)


def python_frames(event):
    return [(f["file"], f["line"], f["name"].rsplit(".", 1)[-1]) for f in event["stack"] or [] if f["kind"] == "python"]


def allocations(events):
    return [e for e in events if e["op"] == "block-alloc"]


def check_history(*how):
    """every block has the Python stack that torch's own history has"""
    said, events = run(*how)
    ours, its = allocations(events), said["history"]
    tap.check(len(its) > 80, f"{len(its)} allocations")
    tap.equal(len(ours), len(its), "allocations")
    for e, (address, size, frames) in zip(ours, its):
        tap.equal(int(e["ptr"], 16), address, f"address of event {e['event']}")
        tap.check(e["bytes"] >= size, f"event {e['event']}: {e['bytes']} bytes for {size}")
        tap.equal(python_frames(e), [(file, line, name) for file, line, name in frames], f"stack of event {e['event']}")
    depths = [len(frames) for _, _, frames in its]
    tap.check(max(depths) > 40 and min(depths) == 0, f"neither deep stacks nor a thread without Python: {sorted(set(depths))}")


def check_lines(*how):
    """each tensor is attributed to the line that made it"""
    said, events = run(*how)
    left = collections.defaultdict(collections.deque)
    for e in allocations(events):
        left[int(e["ptr"], 16)].append(e)
    for address, thread, line, function in said["asked"]:
        at = left[address]
        while at and (at[0]["tid"], python_frames(at[0])[:1]) != (thread, [(PROGRAM, line, function)]):
            at.popleft()
        tap.check(at, f"{function}, line {line}: no block at {address:#x}")
        at.popleft()
    tap.check(len({(line, function) for _, _, line, function in said["asked"]}) > 15, "too few places")


def as_truth(said):
    """In the form of caching.cpp."""
    stats = said["stats"]
    counts = [stats["allocation.all.allocated"], stats["allocation.all.freed"], stats["num_ooms"]]
    segments = [[s["address"], s["total_size"], s["stream"], s["segment_type"] == "large", s["is_expandable"], s["segment_pool_id"],
                 [[b["size"], STATES[b["state"]], b["requested_size"]] for b in s["blocks"]]] for s in said["segments"]]
    return {"marker": said["marker"], "devices": [{
        "device": 0, "blocks": counts, "profiler": counts, "ooms": stats["num_ooms"], "segments": segments,
        "allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"]}]}


def check_segments(*how):
    """segments, blocks and totals are torch.cuda.memory_snapshot's and memory_stats'"""
    said, events = run(*how)
    truth = as_truth(said)
    problems = test_blocks.compare(events, [truth])
    tap.check(not problems, "\n".join(problems[:8]))
    pools = {tuple(s[5]) for s in truth["devices"][0]["segments"]}
    tap.check(len(pools) >= 3 and truth["devices"][0]["ooms"] == 1, f"pools {pools}")


def check_sleep():
    """a memory pool of another allocator, as vLLM's: what sleeps is no segment of the device, and is said to sleep"""
    with tempfile.TemporaryDirectory(prefix="torch.") as folder:
        library = os.path.join(folder, "liblike_cumem.so")
        subprocess.run([os.environ.get("CC", "gcc").split()[0], "-shared", "-fPIC", "-isystem", wheels.cuda_headers(), "-o", library,
                        os.path.join(HERE, "liblike_cumem.c"), os.path.join(wheels.SIM, "libcuda.so.1")], check=True)
        moments, trace = program(folder, "", "sleep", library)
        times = {e["bytes"]: e["t_ns"] for e in view("dump", trace) if e["op"] == "alloc"}
        start = view("frag", trace)[0]["start_ns"]
        for number, said in enumerate(moments):
            t = times[said["marker"]] - start
            (device,) = view("frag", trace, f"--at={t // 10**9}.{t % 10**9:09}")[0]["devices"]
            pool, foreign = device["pool"], [s["total_size"] for s in said["segments"] if any(s["segment_pool_id"])]
            asleep = number == 1
            tap.check(len(foreign) == 4, f"{foreign}")
            wanted = {"reserved_bytes": said["stats"]["reserved_bytes.all.current"],
                      "allocated_bytes": said["stats"]["allocated_bytes.all.current"],
                      "segments": len(said["segments"]) - (len(foreign) if asleep else 0),
                      "unreconciled_bytes": 0, "asleep_segment_bytes": sum(foreign) if asleep else 0,
                      "segment_bytes": said["stats"]["reserved_bytes.all.current"] - (sum(foreign) if asleep else 0)}
            tap.equal({k: pool[k] for k in wanted}, wanted, f"moment {said['marker']}")
            origins = [(o["module"], o["segments"], o["bytes"]) for o in pool["segment_kinds"] if o["custom_allocator"]]
            tap.equal(origins, [] if asleep else [(library, len(foreign), sum(foreign))], f"moment {said['marker']}")


# The allocator's settings, and the interpreter: 3.11, or (half a gigabyte more to fetch) one that keeps its frames and code in another
# way.
for name, chosen, checks in (("", ("", ""), (check_history, check_lines, check_segments)),
                             ("expandable_segments:True: ", ("expandable_segments:True", ""),
                              (check_history, check_lines, check_segments)),
                             ("Python 3.12: ", ("", "3.12"), (check_history, check_lines))):
    for check in checks:
        tap.case(name + check.__doc__, long=chosen[1] != "")(functools.partial(check, *chosen))
tap.case(check_sleep.__doc__)(check_sleep)
if __name__ == "__main__":
    tap.main()
