#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's memory outside its caching allocator's blocks: other allocators, memory of another process, host memory.
test_others.py [WORD]... runs the cases whose names contain one of the words."""
import collections
import functools
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
import wheels  # noqa: E402
from test_blocks import HANG, LIBRARY, Run, check_ledger, ready  # noqa: E402
from test_pools import view  # noqa: E402

OPERATIONS, MOMENTS = (20000, 40) if tap.FULL else (1500, 12)


def until(trace, t_ns):
    """The option that makes an event the moment of frag."""
    return "--at=%d.%09d" % divmod(t_ns - view("frag", trace)["start_ns"], 10**9)


def text(name, trace, *more):
    code, out, _ = tap.report(name, *more, trace)
    tap.equal(code, 0, name)
    return out.decode()


class Tally:
    """What tensors took, from the events of the driver's calls."""

    def __init__(self, api):
        self.api, self.live, self.count, self.host = api, {}, collections.Counter(), {}

    def event(self, e):
        if e["result"]:
            self.count["refused"] += e["op"] == "alloc" and e["api"] == self.api
        elif e["op"] == "alloc" and e["space"] == "host":
            self.host[e["ptr"]] = e["bytes"]
        elif e["op"] == "alloc" and e["api"] == self.api:
            self.live[e["ptr"]] = e
            self.count["alloc"] += 1
        elif e["op"] == "free" and e["ptr"] in self.host:
            del self.host[e["ptr"]]
        elif e["op"] == "free" and self.live.pop(e["ptr"], None):
            self.count["free"] += 1

    def bytes(self, multiple):
        return sum(-(-e["bytes"] // multiple) * multiple for e in self.live.values())


def moments(run, tally):
    """(what the allocator says, the tally then, the mark) at each moment; marks are no tensors."""
    left, marks = list(reversed(run.moments)), set()
    for e in run.events():
        if left and e["op"] == "alloc" and e["api"] == "cudaMalloc" and e["bytes"] == left[-1]["marker"]:
            yield left.pop(), e
            marks.add(e["ptr"])
        elif e["ptr"] in marks and e["op"] == "free":
            marks.remove(e["ptr"])
        else:
            tally.event(e)
    tap.equal(left, [], "moments that are not in the trace")


def check_text(run, wanted):
    for name in ("summary", "frag"):
        tap.check("PyTorch has no blocks: " + wanted in text(name, run.trace), f"{name} says that there are no blocks")
    tap.check(view("frag", run.trace)["without_blocks"].startswith(wanted), wanted)


def check_async(version):
    """stream-ordered allocations in place of blocks"""
    run = Run(ready(version), ("", "backend:cudaMallocAsync", {"streams": 2, "snapshots": 0, "record": 50, "live_mb": 1500}, {}), 7,
              operations=OPERATIONS, moments=MOMENTS)
    tally, refused = Tally("cudaMallocAsync"), 0
    for truth, mark in moments(run, tally):
        device = truth["devices"][0]
        tap.equal([tally.count[k] for k in ("alloc", "free")], device["blocks"][:2], "tensors")
        tap.check(tally.count["refused"] >= device["blocks"][2], "refusals")
        tap.equal(tally.bytes(512), device["allocated"], "PyTorch says what the driver's pool has handed out")
        frag = view("frag", run.trace, until(run.trace, mark["t_ns"]))
        of_pools = sum(p["used_bytes"] for p in frag["devices"][0]["pools"])
        tap.equal(of_pools, sum(e["bytes"] for e in tally.live.values()), "handed out by pools, as requested")
        refused = device["blocks"][2]
    tap.check(tally.count["alloc"] > OPERATIONS / 4 and refused, "too few tensors or refusals")
    labels = collections.Counter((e["op"], *e["flags"]) for e in run.events()
                                 if e["op"] in ("alloc", "free") and e["api"] != "cudaMalloc" and e["api"] != "cudaFree")
    tap.equal(set(labels), {("alloc", "async"), ("free", "async")}, "labels")
    # (where the device is full, a mark is refused, too)
    apis = {o["api"] for o in view("oom", run.trace)["ooms"] if o["api"] != "cudaMalloc" or o["requested_bytes"] > MOMENTS + 1}
    tap.equal(apis, {"cudaMallocAsync"}, "oom")
    check_text(run, "backend:cudaMallocAsync")
    problems = check_ledger.check(run.trace, run.ledger, tap.REPORT)
    tap.check(not problems, "\n".join(map(str, problems[:8])))


def check_uncached(version):
    """PYTORCH_NO_CUDA_MEMORY_CACHING: each tensor is an allocation of the driver's; and page-locked host memory"""
    run = Run(ready(version), ("", "", {"streams": 1, "raw": 0, "host": 5000},
                               {"PYTORCH_NO_CUDA_MEMORY_CACHING": 1}), 7, operations=OPERATIONS, moments=MOMENTS,
              CUTRACE_STACKS="native")
    tally, most = Tally("cudaMalloc"), 0
    for truth, mark in moments(run, tally):
        device = truth["devices"][0]
        tap.equal([tally.count[k] for k in ("alloc", "free")], device["blocks"][:2], "tensors")
        tap.equal([len(tally.host), sum(tally.host.values())], truth["host"], "page-locked host memory")
        frag = view("frag", run.trace, until(run.trace, mark["t_ns"]))
        tap.equal(frag["devices"][0]["live_bytes"], tally.bytes(1) + (0 if mark["result"] else mark["bytes"]), "bytes that tensors have")
        host = [(h["kind"], os.path.basename(h["module"] or "-"), [h["ranges"], h["bytes"]]) for h in frag["host"]]
        tap.equal(host, [("allocated", "caching", truth["host"])] if truth["host"][0] else [], "host memory in frag")
        most = max(most, truth["host"][0])
    tap.check(tally.count["alloc"] > OPERATIONS / 4 and most > 2, "too few tensors or host memory")
    check_text(run, "PYTORCH_NO_CUDA_MEMORY_CACHING")
    problems = check_ledger.check(run.trace, run.ledger, tap.REPORT)
    tap.check(not problems, "\n".join(map(str, problems[:8])))


# ---- another process --------------------------------------------------------------------------------------

def shared_in(ledger, marker):
    """What `shared` must say of all devices together, behind the driver's allocation of `marker` bytes."""
    memory, exported, opened, foreign, mapped = {}, set(), collections.Counter(), {}, {}
    with open(ledger, encoding="utf-8") as lines:
        for e in map(json.loads, lines):
            if e["result"]:
                continue
            key = e.get("handle") or e.get("ptr")
            if e["op"] in ("alloc", "create"):
                memory[key] = e["bytes"]
            elif e["op"] == "export":
                exported.add(key)
            elif e["op"] in ("free", "release"):
                memory.pop(key, None)
                exported.discard(key)
                if e["op"] == "release":
                    foreign.pop(key, None)
            elif e["op"] == "ipc-open":
                opened[key] += 1
            elif e["op"] == "ipc-close":
                opened[key] -= 1
            elif e["op"] == "import":
                foreign[key] = True
            elif e["op"] == "map" and e["handle"] in foreign:
                mapped[e["ptr"]] = (e["bytes"], e["handle"])
            elif e["op"] == "unmap":
                mapped.pop(e["ptr"], None)
            if e["op"] == "alloc" and e["bytes"] == marker:
                break
    return {"exported": len(exported), "exported_bytes": sum(memory[k] for k in exported), "opened": sum(n > 0 for n in opened.values()),
            "imported": len(foreign), "imported_bytes": sum(size for size, _ in mapped.values())}


def summed(frag):
    total = collections.Counter(frag["shared"])
    for device in frag["devices"]:
        total.update(device["shared"])
    return dict(total)


def check_process(folder, truth, marks):
    """One of the two processes; the figures while memory is shared."""
    with open(truth, encoding="utf-8") as lines:
        told = [json.loads(line) for line in lines]
    trace = next(t for t in glob.glob(folder + "/trace.*.zst") if marks[t]["peer" if truth.endswith("peer") else "own"])
    ledger = trace.replace("/trace.", "/ledger.").replace(".zst", "")
    at = marks[trace]["t_ns"]
    figures = []
    for moment in told:
        frag = view("frag", trace, until(trace, at[moment["marker"]]))
        figures.append(summed(frag))
        tap.equal(figures[-1], shared_in(ledger, moment["marker"]), f"{trace}, moment {moment['marker']}")
    tap.equal(sum(figures[1].values()), 0, "nothing is shared any more")
    problems = check_ledger.check(trace, ledger, tap.REPORT)
    tap.check(not problems, "\n".join(map(str, problems[:8])))
    return told[0]["shared"], figures[0], text("frag", trace, until(trace, at[1]))


def marks_of(folder):
    """Of each trace: when its marks were, and whether it is the one that opens what the other offers."""
    out = {}
    for trace in glob.glob(folder + "/trace.*.zst"):
        code, lines, _ = tap.report("dump", "--json", trace)
        tap.equal(code, 0, "dump")
        events = list(map(json.loads, lines.splitlines()))
        peer = any(e["op"] in ("ipc-open", "import") for e in events)
        out[trace] = {"peer": peer, "own": not peer, "t_ns": {e["bytes"]: e["t_ns"] for e in events
                                                              if e["op"] == "alloc" and e["api"] == "cudaMalloc" and e["bytes"] < 3}}
    tap.equal(sorted(m["peer"] for m in out.values()), [False, True], "traces of two processes")
    return out


def check_sharing(version, settings):
    """blocks that another process opens"""
    wheel = ready(version)
    with tempfile.TemporaryDirectory(prefix="torch.") as folder:
        env = wheel.environment(LD_PRELOAD=LIBRARY, CUTRACE_OUTPUT=folder + "/trace.%p.zst", CUTRACE_QUIET=1, CUTRACE_STACKS="native",
                                SIM_MEM_MB=1024, SIM_SHM=folder + "/shm", SIM_LEDGER=folder + "/ledger.%p",
                                PYTORCH_CUDA_ALLOC_CONF=settings)
        done = subprocess.run([wheel.program(), folder + "/truth", "peer=1"], env=env, capture_output=True, text=True, timeout=HANG,
                              check=False)
        tap.equal(done.returncode, 0, done.stderr[-2000:])
        marks = marks_of(folder)
        exported, own, own_text = check_process(folder, folder + "/truth", marks)
        opened, its, its_text = check_process(folder, folder + "/truth.peer", marks)
    largest = {}  # (an expandable segment grows from one to the next)
    for address, size in exported:
        largest[address] = max(size, largest.get(address, 0))
    tap.equal(own["exported_bytes"], sum(largest.values()), "what the allocator shares: whole segments")
    tap.check("exported for other processes" in own_text, own_text)
    if settings:
        tap.check(its["imported"] and its["imported_bytes"] >= own["exported_bytes"], "all of it is mapped in the other process")
        tap.check("from other processes" in its_text, its_text)
    else:
        tap.equal((own["exported"], its["opened"]), (len(exported), len({a for a, _ in opened})), "allocations that are shared")
        tap.check("of other processes, by CUDA IPC" in its_text, its_text)


def cases():
    for number, check in enumerate((check_async, check_uncached, functools.partial(check_sharing, settings=None))):
        for version in tap.sample(wheels.versions(), 1, number):
            yield version, getattr(check, "func", check), functools.partial(check, version)
    newest = wheels.versions()[-1]
    yield f"{newest}, expandable segments", check_sharing, functools.partial(check_sharing, newest, "expandable_segments:True")


def main():
    for version, function, run in cases():
        tap.case(f"PyTorch {version}: {function.__doc__}")(run)
    tap.main()


if __name__ == "__main__":
    main()
