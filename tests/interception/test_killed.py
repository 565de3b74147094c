#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL in the middle: the trace is valid and has every event that was flushed."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, dice, main  # noqa: E402
from ways import *  # noqa: E402,F403


# How the library comes into the process: by LD_PRELOAD, or by the driver, and CUPTI shows it the calls.
CUPTI = os.path.join(SIM, "cupti")
WAYS = {"": {}}
if os.path.exists(os.path.join(CUPTI, "libcupti.so.13")):
    WAYS[", injected alone"] = {"preload": False, "libraries": (CUPTI,), "env": {"CUDA_INJECTION64_PATH": LIBRARY}}


def valid(done):
    """zstd and the report accept the trace, whatever its end."""
    (trace,) = done.traces.values()
    problems = []
    for command in (["zstd", "-tq", trace], [REPORT, "info", trace], [REPORT, "summary", trace]):
        r = subprocess.run(command, capture_output=True, text=True)
        if r.returncode:
            problems.append(f"{command[:2]}: {r.returncode} {r.stderr}")
    return problems


def prefix(done, at_least):
    """The trace is what the ledger begins with, for each thread."""
    (trace,), (path,) = done.traces.values(), done.ledgers.values()
    calls = [e for e in check_ledger.read_trace(REPORT, trace) if check_ledger.is_call(e)]
    ledger = check_ledger.read_ledger(path)
    # Of threads that retain a primary context at the same time, only the driver knows which one made it.
    (rest, primaries), (true_rest, true_primaries) = check_ledger.split_primaries(calls), check_ledger.split_primaries(ledger)
    kept, cut = [], []
    for tid, seen in check_ledger.by_thread(rest).items():
        true = check_ledger.by_thread(true_rest)[tid][:len(seen)]
        # A give-back is published before its call: killed in between, it may lack its call or its failure.
        if check_ledger.is_give(seen[-1]):
            seen = seen[:len(seen) - 1]
        kept += seen
        cut += true[:len(seen)]
    problems = check_ledger.compare_threads(kept, cut)
    problems += check_ledger.compare_primaries(primaries, true_primaries[:len(primaries)])
    if len(calls) < at_least:
        problems.append(f"{len(calls)} of {len(ledger)} calls are in the trace")
    return problems


def killed_case(name, kind, check_last=False):
    for text, how in WAYS.items():
        @case(f"{name}{text}")
        def _(how=how):
            done = run("killed_midway", kind, **how)
            problems = valid(done) + prefix(done, len(done.ledger()))
            last = done.calls()[-1]
            if check_last and (last["result"] != 2 or last["bytes"] != 1 << 50 or not last["stack"]):
                problems.append(f"the last event is {last}")
            return problems + ([] if done.rc == -9 else [f"exit status {done.rc}"])


killed_case("a refused allocation and SIGKILL at once: the refusal is in the trace, with all before it", "refused", True)
killed_case("SIGKILL after the flush interval: everything is in the trace", "flushed")


@case("the summary says that there was no clean end, and without the journal that the end is missing")
def _():
    done = run("killed_midway", "refused")
    with_journal = done.summary()["trace"]
    for f in os.listdir(done.folder):
        if f.endswith(".journal"):
            os.unlink(os.path.join(done.folder, f))
    without = done.summary()["trace"]
    return ([] if with_journal["complete"] and not with_journal["clean_end"] else [f"with: {with_journal}"]) + \
        ([] if not without["complete"] else [f"without: {without}"])


def any_moment(how, rounds):
    problems = []
    rng = dice()
    for i in range(rounds):
        where = folder()
        process = subprocess.Popen([program("random_calls"), "3", "100000", "20", "3"], env=environment(where, **how),
                                   stdout=subprocess.DEVNULL, cwd=where)
        # Once something is written, any moment will do.
        end = time.monotonic() + HANG
        while not any(os.path.getsize(os.path.join(where, f)) for f in os.listdir(where) if f.endswith(".zst")) \
                and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(rng.random() * (1.5 if FULL else 0.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout = process.stderr = ""
        done = Done(where, process)
        problems += [f"round {i}: {p}" for p in valid(done) + prefix(done, 0)]
    return problems


for _text, _how in list(WAYS.items())[1:]:  # (the preloaded one: tests/recorder/test_kill.py)
    case(f"SIGKILL at any moment{_text}: valid, and the beginning of the ledger")(
        lambda how=_how: any_moment(how, 12 if FULL else 1))


main()
