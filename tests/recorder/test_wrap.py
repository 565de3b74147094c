#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces that wrap many times: the state at each checkpoint that is left, the final state and the history agree with
the program's own log of every call (ring_checker.py). With CUTRACE_FULL=1: 5 million events in a file of 8 MiB."""
import glob
import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import ring_checker  # noqa: E402
from death import *  # noqa: E402,F403
from tap import case, note, read_json  # noqa: E402

CALLS, SIZE = (5_000_000, "8M") if FULL else (300_000, "1M")
# Failures on the way, so that checkpoints come between a give-back and its failure, too.
FAILURES = ",".join(f"cuMemFree_v2:{n}-{n + 3}:1" for n in range(CALLS // 64, CALLS // 2, CALLS // 64))


def live_once(threads, slots, refused, env):
    """(folder, trace) of a run, None if events were lost: what a machine that is busy elsewhere may do, and counts."""
    where = folder()
    _, status = run(program("alloc_free_logged"), threads, CALLS // threads, slots, os.path.join(where, "log"), refused, where=where,
                    hang=7200 if FULL else HANG,
                    env={"SIM_LEDGER_MAP": None, "SIM_BACKED": 0, "SIM_MEM_MB": 65536, "CUTRACE_MAX_SIZE": SIZE, "CUTRACE_NVML": 0,
                         "CUTRACE_SAMPLE_MS": 3600000, **env})
    if status:
        raise RuntimeError(f"exit status {status}: {said(where)[-500:]}")
    (path,) = traces(where).values()
    info = json.loads(read_json("info", path))["info"]
    return where, path if info["recorder.lost_events"] == "0" else None


def churned(threads, slots, refused=0, **env):
    started = time.monotonic()
    for _ in range(5):
        where, path = live_once(threads, slots, refused, env)
        if path:
            break
        note("events were lost: once more")
        shutil.rmtree(where)
    else:
        return ["events are lost every time"], {}
    ran = time.monotonic() - started
    problems, done = ring_checker.judge(path, os.path.join(glob.escape(where), "log.*"))
    problems += accepted(path)
    if not problems:
        summary = json.loads(read_json("summary", path))
        device = summary["devices"][0]
        if (device["live_allocations"], device["live_bytes"]) != (done["live"], done["bytes"]):
            problems.append(f"summary: {device['live_allocations']} allocations, {device['live_bytes']} bytes; the log: {done}")
        if not summary["trace"]["wrapped"] or not summary["trace"]["exact"]:
            problems.append(f"{summary['trace']}")
    if done["checkpoints"] < 3:
        problems.append(f"only {done['checkpoints']} checkpoints are left: nothing was tested")
    note(f"{threads} threads, {slots} slots: {dict(done)} in {ran:.0f} s, judged in {time.monotonic() - started - ran:.0f} s")
    return problems, done


def alone(**how):
    problems, done = churned(1, 3000, **how)
    return problems + ([] if done.get("buckets", 0) >= 20 else ["the history was not compared"])


@case("one thread: each event that is left, each checkpoint, the end, and the history", long=True)
def _():
    return alone(refused=CALLS // 5)


@case("two threads that share their addresses: each event that is left, each checkpoint, the end")
def _():
    return churned(2, 3000, refused=CALLS // 5)[0]


@case("one thread, give-backs that fail, and each call its own chunk now and then: the same, and the history")
def _():
    return alone(SIM_FAIL=FAILURES, CUTRACE_FLUSH_MS=10)


end()
