#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ledger checker finds every way in which a trace can differ from the ledger."""
import copy
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Skip, case, main  # noqa: E402
from ways import *  # noqa: E402,F403

_runs = {}


def recorded(*scenarios):
    if scenarios not in _runs:
        done = run("driver_elf", *scenarios)
        (trace,), (ledger,) = done.traces.values(), done.ledgers.values()
        _runs[scenarios] = (check_ledger.read_trace(REPORT, trace), check_ledger.read_ledger(ledger),
                            json.loads(check_ledger.report(REPORT, "summary", trace)))
    return copy.deepcopy(_runs[scenarios])


def find(ledger, **want):
    return next(i for i, e in enumerate(ledger) if all(e.get(k) == v for k, v in want.items()))


@case("what the driver did is accepted")
def _():
    return check_ledger.compare(*recorded("device", "vmm", "async"))


def mutation(name, change, *scenarios):
    @case(f"seen: {name}")
    def _():
        events, ledger, summary = recorded(*(scenarios or ("device", "vmm")))
        change(events, ledger, summary)
        return [] if check_ledger.compare(events, ledger, summary) else ["the checker saw nothing"]


def drop(op):
    return lambda events, ledger, summary: ledger.pop(find(ledger, op=op, result=0))


def repeat(op):
    def change(events, ledger, summary):
        i = find(ledger, op=op, result=0)
        ledger.insert(i, dict(ledger[i]))
    return change


def field(op, key, value):
    def change(events, ledger, summary):
        ledger[find(ledger, op=op, result=0)][key] = value
    return change


for op in ("alloc", "free", "map", "release", "context-create"):
    mutation(f"a {op} that is not in the ledger", drop(op))
    mutation(f"a {op} that is not in the trace", repeat(op))
for op, key, value in (("alloc", "bytes", 12345), ("alloc", "ptr", "0x7000"), ("alloc", "result", 2),
                       ("alloc", "device", 3), ("alloc", "api", "cuMemAllocManaged"), ("alloc", "t_ns", 1 << 62),
                       ("alloc", "context", "0x77"), ("free", "ptr", "0x1000"), ("free", "t_ns", 1),
                       ("create", "handle", "0x99"), ("map", "bytes", 1)):
    mutation(f"a {op} with another {key}", field(op, key, value))


def swap(events, ledger, summary):
    i = find(ledger, op="alloc", result=0)
    ledger[i], ledger[i + 1] = ledger[i + 1], ledger[i]


def swap_threads(events, ledger, summary):
    """A free and the next allocation at its address by another thread, in the other order."""
    for i, e in enumerate(ledger):
        for j in range(i + 1, len(ledger)):
            f = ledger[j]
            if f.get("ptr") == e.get("ptr") and e["op"] == "free" and f["op"] == "alloc" and e["tid"] != f["tid"] \
                    and e["result"] == f["result"] == 0 and e.get("ptr"):
                if not any(x["tid"] in (e["tid"], f["tid"]) for x in ledger[i + 1:j]):
                    ledger[i], ledger[j] = f, e
                    return
    raise Skip("no address went from thread to thread")


def lost(events, ledger, summary):
    events.append(dict(events[-1], op="lost", event=len(events)))


def live(events, ledger, summary):
    summary["devices"][0]["live_bytes"] += 1


mutation("two calls of a thread in the other order", swap)
mutation("two calls of two threads on one address in the other order", swap_threads, "threads")
mutation("lost events", lost)
mutation("live bytes that are off by one", live)
mutation("a missing event number", lambda e, l, s: e[-1].update(event=e[-1]["event"] + 1))

main()
