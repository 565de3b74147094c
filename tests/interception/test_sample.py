#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sampling (CUTRACE_SAMPLE, CUTRACE_MIN_SIZE): which allocations and frees are recorded, and that every report names
the sample. The truth is the driver's ledger, which has every call."""
import collections
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, check_json, main  # noqa: E402
from ways import *  # noqa: E402,F403

SIGMAS = 6  # a fair draw is further off once in 500 million times, one that favours anything by far more


def sampled(threads, rounds, period, *more, **env):
    """(folder, recorded allocations and frees, the ledger's) of a run."""
    where = folder()
    e = {"SIM_LEDGER": None, "SIM_LEDGER_MAP": os.path.join(where, "ledger.%p"), "SIM_BACKED": 0, "CUTRACE_NVML": 0, **env}
    done = run("periodic_sizes", threads, rounds, period, *more, where=where, env=e)
    assert done.rc == 0, done.err
    (trace,), (ledger,) = done.traces.values(), done.ledgers.values()
    return done, check_ledger.read_trace(REPORT, trace), check_ledger.read_ledger(ledger)


def far_off(what, got, of, n):
    """`got` of `of` were drawn, each with a chance of 1/n."""
    expected, sigma = of / n, math.sqrt(of / n * (1 - 1 / n))
    return [] if abs(got - expected) <= SIGMAS * sigma + 1 else [
        f"{what}: {got} of {of} recorded, {expected:.0f} +- {sigma:.0f} are one in {n}"]


def drawn(events, ledger):
    """For each of the ledger's successful allocations and frees, whether it is in the trace. The threads of the program come one
    after the other, so the time says which call an event is: an allocation's comes before the next call, a give-back's behind the
    one before."""
    calls = [e for e in ledger if e["op"] in ("alloc", "free")]
    left = collections.deque(e for e in events if e["op"] in ("alloc", "free") and not e["result"])
    out, slack = [], check_ledger.CLOCK_NS
    for i, true in enumerate(calls):
        if true["result"]:
            continue
        e = left[0] if left else None
        hit = e is not None and e["op"] == true["op"] and check_ledger.number(e["ptr"]) == true["ptr"]
        if hit and true["op"] == "alloc":
            hit = e["bytes"] == true["bytes"] and true["t_ns"] - slack <= e["t_ns"] and (
                i + 1 == len(calls) or e["t_ns"] <= calls[i + 1]["t_ns"] + slack)
        elif hit:
            hit = e["t_ns"] <= true["t_ns"] + slack and e["t_ns"] >= calls[i - 1]["t_ns"] - slack
        if hit:
            left.popleft()
        out.append((true, hit))
    return out, list(left)


def pairs(events, ledger):
    """What was recorded happened, and each recorded allocation has its give-back, where it had one; nothing else has."""
    problems, seen = [], {}
    calls, left = drawn(events, ledger)
    for true, hit in calls:
        if true["op"] == "alloc":
            seen[true["ptr"]] = hit
        elif seen.pop(true["ptr"]) != hit:
            problems.append(f"{'the give-back of a recorded allocation is missing' if not hit else 'a give-back of nothing'}: "
                            f"{check_ledger.show(true)}")
    if left:
        problems.append(f"{len(left)} events are not in the ledger, first {check_ledger.show(left[0])}")
    return problems[:4]


def by_size(events):
    return collections.Counter(e["bytes"] for e in events if e["op"] == "alloc" and not e["result"])


def unbiased(threads, rounds, period, n):
    done, events, ledger = sampled(threads, rounds, period, CUTRACE_SAMPLE=n)
    seen, true = by_size(events), by_size(ledger)
    problems = far_off("all", sum(seen.values()), sum(true.values()), n)
    for size in true:
        problems += far_off(f"{size} bytes", seen[size], true[size], n)
    per = threads * rounds
    if sum(true.values()) != per:
        problems.append(f"{sum(true.values())} allocations, not {per}")
    # What is drawn does not depend on what was drawn before: chance says how often two in succession are.
    taken = [hit for true, hit in drawn(events, ledger)[0] if true["op"] == "alloc"]
    for gap in sorted({1, 2, 3, period}):
        both = sum(a and b for a, b in zip(taken, taken[gap:]))
        problems += far_off(f"both of two allocations {gap} apart", both, max(len(taken) - gap, 0), n * n)
    return problems + pairs(events, ledger)


# A sampler that counts takes one phase of a program whose rhythm is its own, or a divisor of it.
for _period, _n in ((1, 10), (2, 2), (7, 10), (10, 10), (20, 10), (100, 100), (3, 64)):
    case(f"one in {_n}, a program with a period of {_period}: every phase has the same chance")(
        lambda p=_period, n=_n: unbiased(1, 40000, p, n))


@case("one in 10, the first allocations of 3000 threads: they have the same chance as any")
def _():
    return unbiased(3000, 1, 1, 10)


@case("one in 4, 500 threads of 20 allocations: each place in a thread has the same chance")
def _():
    return unbiased(500, 20, 20, 4)


@case("different runs draw differently")
def _():
    drawn = []
    for _ in range(3):
        _, events, ledger = sampled(1, 2000, 1, CUTRACE_SAMPLE=10)
        start = next(e["ptr"] for e in ledger if e["op"] == "alloc")
        drawn.append(tuple(check_ledger.number(e["ptr"]) - start for e in events if e["op"] == "alloc"))
    return [] if len(set(drawn)) == 3 else ["the same ones were drawn"]


@case("what is left alive is one in 10 as well, by the report's own figures")
def _():
    done, _, _ = sampled(200, 64, 1, "keep", CUTRACE_SAMPLE=10)
    (device,) = done.summary()["devices"]
    return far_off("live", device["live_allocations"], 200 * 64, 10) + (
        [] if device["live_bytes"] == 512 * device["live_allocations"] else [f"{device}"])


@case("CUTRACE_MIN_SIZE: exactly what is as large or larger, and what gives it back")
def _():
    done, events, ledger = sampled(3, 4000, 16, CUTRACE_MIN_SIZE="4K")
    seen, true = by_size(events), by_size(ledger)
    want = {size: n for size, n in true.items() if size >= 4096}
    return ([] if seen == want else [f"{dict(seen)}, not {want}"]) + pairs(events, ledger)


@case("both: one in 5 of what is large enough")
def _():
    _, events, ledger = sampled(1, 40000, 16, CUTRACE_MIN_SIZE=4096, CUTRACE_SAMPLE=5)
    seen, true = by_size(events), by_size(ledger)
    problems = [] if all(size >= 4096 for size in seen) else ["small ones, too"]
    for size in (s for s in true if s >= 4096):
        problems += far_off(f"{size} bytes", seen[size], true[size], 5)
    return problems + pairs(events, ledger)


@case("a refused allocation is always recorded")
def _():
    _, events, ledger = sampled(1, 3000, 4, CUTRACE_SAMPLE=1000, CUTRACE_MIN_SIZE="1M", SIM_FAIL="cuMemAlloc_v2:1000-1019:2")
    refused = [e for e in events if e["op"] == "alloc" and e["result"] == 2]
    return [] if len(refused) == 20 else [f"{len(refused)} of 20 refusals"]


@case("memory whose driver calls are hidden is drawn as well")
def _():
    env = {"SIMRT_HIDDEN": 1}
    taken = [[(e["api"], e["bytes"]) for e in run("runtime", "device", env={**env, **more}).calls()
              if e["op"] == "alloc" and not e["result"]] for more in ({}, {"CUTRACE_MIN_SIZE": "1G"})]
    return [] if taken[0] and not taken[1] else [f"{taken}"]


COMMANDS = ("summary", "oom", "top", "timeline", "frag", "info", "dump")


def said_by(path, command, *flags):
    # (So wide that a sentence is one line.)
    r = subprocess.run([REPORT, command, *flags, path], capture_output=True, text=True, env={**os.environ, "COLUMNS": "400"})
    return check_json((command, *flags), r.stdout), r.stderr


@case("every view says that it is an estimate, as text and as JSON; and of a whole trace none does")
def _():
    problems = []
    done, _, _ = sampled(1, 3000, 4, CUTRACE_SAMPLE=20, CUTRACE_MIN_SIZE="1K", SIM_FAIL="cuMemAlloc_v2:1000:2")
    whole, _, _ = sampled(1, 300, 4, SIM_FAIL="cuMemAlloc_v2:100:2")
    (path,), (whole_path,) = done.traces.values(), whole.traces.values()
    for command in COMMANDS:
        text, _ = said_by(path, command)
        first = text.splitlines()[0] if text else ""
        if not ("an estimate" in first and "CUTRACE_SAMPLE=20" in first and "CUTRACE_MIN_SIZE=1K" in first):
            problems.append(f"{command}: begins with {first!r}")
        if "an estimate" in "".join(said_by(whole_path, command)):
            problems.append(f"{command} calls a whole trace an estimate")
        out, err = said_by(path, command, "--json")
        if command == "dump":  # lines are events, and nothing else
            told = "an estimate" in err and "CUTRACE_SAMPLE=20" in err
        else:
            document = json.loads(out)
            place = document if command == "info" else document["trace"]
            told = (place["sample"], place["min_size"]) == ("20", "1K")
        if not told:
            problems.append(f"{command} --json does not say that not everything was recorded")
        out, err = said_by(whole_path, command, "--json")
        if "an estimate" in err or '"sample": "' in out or '"sample":"' in out:
            problems.append(f"{command} --json calls a whole trace an estimate")
    info = json.loads(said_by(path, "info", "--json")[0])["info"]
    if (info.get("option.SAMPLE"), info.get("option.MIN_SIZE")) != ("20", "1K"):
        problems.append(f"INFO: {info.get('option.SAMPLE')}, {info.get('option.MIN_SIZE')}")
    return problems


main()
