# SPDX-License-Identifier: Apache-2.0
"""Memory of a run of vLLM that is not PyTorch's: what libraries hold, by library; what calls were measured to take, by
function; and what nothing tracks. The stand-ins of tests/vllm (stand_ins.py) are calibrated with it.

A figure is {"who", "memory", "calls", "bytes"}."""
import collections
import os
import re

import account
from account import check_ledger
from machine import mib

PYTORCH = "PyTorch's allocator"
REST = "contexts, modules, graphs, rounding"
DEVICE, HOST, MEASURED, UNTRACKED = "device", "page-locked", "device, measured", "device, not tracked"
# Between the program and the library that allocates.
BETWEEN = re.compile(r"lib(cuda|cudart|cutrace|c|pthread|dl)[.-]")


def holder(event):
    """The library that allocates: the innermost one that is neither driver nor runtime."""
    modules = [os.path.basename(f["module"]) for f in event["stack"] or [] if f.get("module")]
    if any(m.startswith("libc10_cuda") for m in modules):
        return PYTORCH
    return next((m.partition(".")[0] for m in modules if not BETWEEN.match(m)), "unknown")


def is_taking(event):
    """An allocation that succeeded. (Multicast objects are no memory.)"""
    return event["op"] in ("alloc", "create") and not event["result"] and not event["api"].startswith("cuMulticast")


def live_on_device(calls, left_out):
    """Bytes that live at the end of the calls, without those that these of them allocated."""
    keep = [e for e in calls if id(e) not in left_out and e["space"] not in ("host", "managed")]
    return sum(size for size, _ in check_ledger.replay(keep).values())


def live_on_host(calls):
    live = {}
    for e in calls:
        if e["op"] == "alloc" and e["space"] == "host" and not e["result"]:
            live[e["ptr"]] = e["bytes"]
        elif e["op"] == "free":
            live.pop(e["ptr"], None)
    return sum(live.values())


def held(calls):
    """A figure for each library that is not PyTorch's allocator, and kind of memory."""
    taking = collections.defaultdict(list)
    for e in filter(is_taking, calls):
        taking[holder(e), e["space"] == "host"].append(e)
    every = {id(e) for events in taking.values() for e in events}
    for (name, on_host), events in sorted(taking.items()):
        others = every - {id(e) for e in events}
        if name != PYTORCH:
            size = live_on_host([e for e in calls if id(e) not in others]) if on_host else live_on_device(calls, others)
            yield {"who": name, "memory": HOST if on_host else DEVICE, "calls": len(events), "bytes": size}


def measured(events):
    """A figure for each function of which free memory was read before and after a call."""
    found = collections.defaultdict(list)
    for e in events:
        if None not in (e["free_before_bytes"], e["free_bytes"]) and not e["result"]:
            found[e["api"]].append(e["free_before_bytes"] - e["free_bytes"])
    for name, sizes in sorted(found.items()):
        yield {"who": name, "memory": MEASURED, "calls": len(sizes), "bytes": sum(sizes)}


def untracked(events, moments, free_before):
    """Bytes that left "free" until the process wrote PyTorch's figures first, less what is tracked then."""
    if not moments or free_before is None:
        return None
    return free_before - moments[0]["free"] - account.live_bytes(events, moments[0]["t_ns"])


def figures(events, moments, refused, free_before):
    """At the last moment at which the program wrote PyTorch's figures, else at the refused call, else at the end."""
    last = events[refused[-1] if refused else -1]["t_ns"]
    until = moments[-1]["t_ns"] if moments else last
    calls = [e for e in account.calls_of(events) if e["t_ns"] <= until]
    found = [*held(calls), *measured([e for e in events if e["t_ns"] <= until])]
    rest = untracked(events, moments, free_before)
    return found + ([{"who": REST, "memory": UNTRACKED, "calls": None, "bytes": rest}] if rest is not None else [])


def say(found):
    """In words, for one case; what is nothing is in the table only."""
    def one(f):
        kind = "" if f["memory"] == DEVICE else f" ({f['memory']})"
        return f"{f['who']} {mib(f['bytes'])}{kind}" + (f" in {f['calls']} calls" if f["calls"] else "")
    return ", ".join(one(f) for f in found if f["bytes"])


def between(values, text=str):
    """The least and the most of some values, in words."""
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def rows(results):
    """{(who, memory): [(calls, bytes, bytes on the simulated GPU) of each case]}"""
    found = collections.defaultdict(list)
    for r in results:
        there = {(f["who"], f["memory"]): f["bytes"] for f in r["figures"].get("simulated") or []}
        for f in r["figures"].get("not_pytorch", []):
            key = f["who"], f["memory"]
            found[key].append((f["calls"], f["bytes"], there.get(key)))
    return found


def table(results):
    """Lines of Markdown for the results, or none."""
    lines = []
    for (who, memory), of in sorted(rows(results).items()):
        calls, *sizes = zip(*of)
        columns = [who, memory, len(of), between(calls), *(between(s, mib) for s in sizes)]
        lines.append(f"| {' | '.join(map(str, columns))} |")
    head = ["", "What is not of PyTorch's allocator, from the least to the most of the cases. On the simulated GPU, in",
            "the golden traces of the same cases, libraries hold what tests/vllm/stand_ins.py lets them take.", "",
            "| library or call | memory | cases | calls | bytes | on the simulated GPU |", "|---|---|---|---|---|---|"]
    return head + lines if lines else []
