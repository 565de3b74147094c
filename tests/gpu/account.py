# SPDX-License-Identifier: Apache-2.0
"""Compares a program's own ledger with its trace, and explains every byte that left "free"."""
import collections

from machine import MIB, need  # first: it makes the next one findable
import check_ledger

# What a program's calls bring about without its asking.
BY_ITSELF = {"context-create", "context-destroy", "module-load", "module-unload", "limit"}
# The program's own name of a call may be that of the runtime; where the runtime is linked into the
# program, the driver's name is all there is.


def number(x):
    return int(x, 16) if isinstance(x, str) else x


def calls_of(trace_events):
    return [e for e in trace_events if check_ledger.is_call(e)]


def equal(seen, own, static):
    if seen["op"] != own["op"] or seen["result"] != own["result"]:
        return False
    if any(k in own and number(seen.get(k)) != number(own[k]) for k in ("ptr", "bytes", "handle")):
        return False
    if seen["op"] in check_ledger.GIVES:
        if seen["t_ns"] > own["t_ns"] + check_ledger.CLOCK_NS:
            return False
    elif seen["t_ns"] < own["t_ns"] - check_ledger.CLOCK_NS:
        return False
    if seen["api"] == own["api"]:
        return True
    return static and seen["api"] in check_ledger.RUNTIME.get(own["api"], "").split()


def match(trace_events, own_lines, static=False, and_more=False):
    """Every line of the ledger is an event of the trace, in order; returns how many were compared and
    the events that the program did not ask for. and_more: the trace may go on where the ledger ends."""
    own = [line for line in own_lines if line["op"] != "checkpoint"]
    threads, extra = collections.defaultdict(list), []
    for e in calls_of(trace_events):
        threads[e["tid"]].append(e)
    for line in own:
        queue = threads[line["tid"]]
        while queue and not equal(queue[0], line, static):
            e = queue.pop(0)
            need(e["op"] in BY_ITSELF, f"next in the ledger: {check_ledger.show(line)}; in the trace: "
                                       f"{check_ledger.show(e)}")
            extra.append(e)
        need(queue, f"not in the trace: {check_ledger.show(line)}")
        queue.pop(0)
    extra += [e for queue in threads.values() for e in queue]
    strange = [e for e in extra if e["op"] not in BY_ITSELF]
    need(and_more or not strange, f"not in the ledger: {check_ledger.show((strange or [None])[0] or {})}")
    need(own, "the program's own ledger is empty")
    return len(own), extra


def live_bytes(trace_events, until_ns=None):
    """Bytes of device memory alive at that time, from the trace alone; managed memory left out, for
    it is on the device only when it was touched there."""
    wanted = [e for e in calls_of(trace_events) if (until_ns is None or e["t_ns"] <= until_ns)
              and e.get("space") not in ("host", "managed")]
    return sum(b for b, _ in check_ledger.replay(wanted).values())


def live_count(trace_events, until_ns=None):
    wanted = [e for e in calls_of(trace_events) if until_ns is None or e["t_ns"] <= until_ns]
    return sum(n for _, n in check_ledger.replay(wanted).values())


def explain(trace_events, own_lines, granularity=2 * MIB):
    """For each step between two checkpoints: how much left "free", and as what.

    tracked   bytes of the trace's events
    rounding  up to one granule for each allocation; inferred
    pool      what pools hold beyond that, by their own attribute
    context, module, graph   what a step took that only creates such a thing
    unexplained  the rest
    """
    points = [line for line in own_lines if line["op"] == "checkpoint"]
    totals = collections.Counter()
    steps = []
    for a, b in zip(points, points[1:]):
        left = a["free"] - b["free"]
        step = collections.Counter(left_free=left)
        step["tracked"] = live_bytes(trace_events, b["t_ns"]) - live_bytes(trace_events, a["t_ns"])
        rest = left - step["tracked"]
        if b["kind"] == "pool":
            step["pool"] = (b["reserved"] - a["reserved"]) - step["tracked"]
            rest -= step["pool"]
        elif b["kind"] in ("context", "module", "graph", "library"):
            step[b["kind"]], rest = rest, 0
        count = abs(live_count(trace_events, b["t_ns"]) - live_count(trace_events, a["t_ns"]))
        if b["kind"] == "managed":
            count += 3  # may come and go as it is touched
        limit = count * granularity
        step["rounding"] = max(-limit, min(limit, rest))
        step["unexplained"] = rest - step["rounding"]
        totals.update({k: v for k, v in step.items() if v > 0})
        steps.append({"step": b["name"], "kind": b["kind"], **step})
    need(len(points) > 1, "the program wrote no checkpoints")
    return steps, {k: v for k, v in totals.items() if v}


def say(steps):
    """The steps' sums of what was taken, in words."""
    keys = ("tracked", "context", "module", "pool", "graph", "library", "rounding", "unexplained")
    sums = {k: sum(s.get(k, 0) for s in steps if s.get(k, 0) > 0) for k in keys}
    return ", ".join(f"{k} {v / MIB:.2f}" for k, v in sums.items() if v or k == "unexplained") + " MiB"
