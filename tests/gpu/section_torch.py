# SPDX-License-Identifier: Apache-2.0
"""torch: what the trace says equals PyTorch's own statistics, however it gets its memory."""
import functools
import json
import os
import re
import subprocess
import sys

import account
from account import check_ledger
import machine
from gpu_check import check
from machine import MIB, Fail, Skip, mib, need

SCRIPT = os.path.join(machine.HERE, "torch_work.py")
ALWAYS = {"training", "inference", "expandable", "refused", "recovered"}  # also with --quick


@functools.lru_cache(None)
def reason_against():
    r = subprocess.run([sys.executable, "-c", "import torch; print(torch.version.cuda, torch.cuda.is_available())"],
                       capture_output=True, text=True, env=machine.environment(), timeout=90)
    if "No module named 'torch'" in r.stderr:
        return "PyTorch is not installed"
    if r.returncode:
        return f"PyTorch cannot be imported: {r.stderr.strip()[-200:]}"
    cuda, usable = r.stdout.split()[-2:]
    if cuda == "None":
        return "this PyTorch has no CUDA"
    return None if usable == "True" else "PyTorch cannot use this GPU"


def available():
    if reason_against():
        raise Skip(reason_against())


def run(mode, conf=None):
    """A mode under the library; what fails without it as well is no finding."""
    env = {"PYTORCH_CUDA_ALLOC_CONF": conf, "PYTORCH_ALLOC_CONF": conf} if conf else {}
    done = machine.run(f"torch-{mode}", [sys.executable, SCRIPT, mode], timeout=90, **env)
    if done.rc == 77:
        raise Skip(done.err.strip()[-200:])
    if done.rc > 0:
        plain = machine.run(f"plain-{mode}", [sys.executable, SCRIPT, mode], traced=False, timeout=90, **env)
        if plain.rc:
            raise Skip(f"fails without cutrace, too: {plain.err.strip()[-300:]}")
        raise Fail(f"fails under cutrace only: {done.err.strip()[-300:]}")
    return done


def main_trace(done):
    """The trace of the process that wrote checkpoints: compilers that it starts may leave their own."""
    (pid,) = done.own()
    traces = [t for t in done.traces if f".{pid}." in os.path.basename(t)]
    need(len(traces) == 1, f"{len(traces)} traces of process {pid}")
    return traces[0]


def by_torch(event):
    """Whether PyTorch's allocator made the call: its library is among the callers."""
    return any(os.path.basename(f.get("module") or "").startswith("libc10_cuda") for f in event.get("stack") or [])


def torch_bytes(events, until_ns):
    """Device bytes that PyTorch's allocator holds at that time, by the trace."""
    keep, handles = [], set()
    for e in account.calls_of(events):
        if e["t_ns"] > until_ns or e.get("space") in ("host", "managed"):
            continue
        if e["op"] in ("alloc", "create") and not by_torch(e):
            continue
        keep.append(e)
    return sum(b for b, _ in check_ledger.replay(keep).values())


def compare(events, points):
    """At each checkpoint: tracked bytes of PyTorch's allocator = its reserved bytes; the rest is explained."""
    need(points, "the program wrote no checkpoint")
    first, most, rest = points[0], 0, 0
    for p in points:
        ours, all_ = torch_bytes(events, p["t_ns"]), account.live_bytes(events, p["t_ns"])
        if p.get("backend") == "cudaMallocAsync":  # reserved is the pool's, which grows in larger steps
            need(all_ <= p["reserved"] + 64 * MIB, f"{p['name']}: {mib(all_)} tracked, {mib(p['reserved'])} in the pool")
            need(ours >= p["allocated"] * 0.9 - MIB, f"{p['name']}: {mib(ours)} tracked, {mib(p['allocated'])} allocated")
        else:
            need(ours == p["reserved"], f"{p['name']}: the trace has {ours} bytes of PyTorch's allocator, PyTorch says "
                                        f"{p['reserved']} ({mib(ours - p['reserved'])} apart)")
        used = first["free"] - p["free"]
        tracked = all_ - account.live_bytes(events, first["t_ns"])
        need(used + 64 * MIB >= tracked, f"{p['name']}: {mib(tracked)} tracked, and only {mib(used)} left free")
        most, rest = max(most, p["reserved"]), used - tracked
    others = account.live_bytes(events, points[-1]["t_ns"]) - torch_bytes(events, points[-1]["t_ns"])
    return (f"{len(points)} checkpoints, tracked = reserved (up to {mib(most)}); other libraries' {mib(others)}, modules "
            f"and the like {mib(rest)}"), {"checkpoints": len(points), "reserved_most": most, "others": others,
                                           "untracked_growth": rest}


def mode_check(name, mode, conf=None, more=None):
    @check("torch", name, gpu=True)
    def one():
        available()
        if machine.QUICK and name not in ALWAYS:
            raise Skip("left out by --quick")
        done = run(mode, conf)
        events = machine.events(main_trace(done))
        detail, figures = compare(events, next(iter(done.own().values())))
        if more:
            detail += "; " + more(done, events)
        return detail, figures


def was_refused(done, events):
    crossing = machine.summary(main_trace(done))["crossing"]
    need(crossing and not crossing["recovered"], f"the verdict is {crossing}")
    return f"{crossing['api']} of {mib(crossing['requested_bytes'])} was refused"


def was_recovered(done, events):
    ooms = machine.summary(main_trace(done))["ooms"]
    need(ooms and all(o["recovered"] for o in ooms), f"refusals: {len(ooms)}, not all recovered")
    return f"{len(ooms)} refusals, all recovered"


def was_profiled(done, events):
    seen = json.loads(done.out.splitlines()[-1])
    need(seen["on_device"] > 0, "torch.profiler has no event of the device")
    return f"torch.profiler has {seen['on_device']} events of the device"


def has_op(*ops):
    def more(done, events):
        count = {op: sum(e["op"] == op for e in events) for op in ops}
        need(all(count.values()), f"events: {count}")
        return ", ".join(f"{n} {op}" for op, n in count.items())
    return more


mode_check("training", "training")
mode_check("inference", "inference")
mode_check("expandable", "training", "expandable_segments:True", has_op("create", "map"))
mode_check("refused", "refused", more=was_refused)
mode_check("recovered", "recovered", more=was_recovered)
mode_check("malloc-async", "training", "backend:cudaMallocAsync")
mode_check("mempool", "mempool")
mode_check("graphs", "graphs")
mode_check("profiler", "profiled", more=was_profiled)
mode_check("paged-batching", "paged")


@check("torch", "processes", gpu=True)
def several():
    available()
    if machine.QUICK:
        raise Skip("left out by --quick")
    done = run("processes")
    own = done.own()
    need(len(own) == 2, f"{len(own)} processes wrote checkpoints")
    for pid, points in own.items():
        traces = [t for t in done.traces if f".{pid}." in os.path.basename(t)]
        need(len(traces) == 1, f"{len(traces)} traces of process {pid}")
        compare(machine.events(traces[0]), points)
    return f"{len(own)} processes, each with its own trace and tracked = reserved", {}


@check("torch", "blocks", gpu=True)
def blocks():
    """Allocated bytes by block events."""
    available()
    done = run("refused")
    events = machine.events(main_trace(done))
    if not any(e["op"] == "block-alloc" for e in events):
        raise Skip("not built yet: events of PyTorch's blocks")
    for p in next(iter(done.own().values())):
        alive = {}
        for e in events:
            if e["t_ns"] <= p["t_ns"] and e["op"] == "block-alloc":
                alive[e["ptr"]] = e["bytes"]
            elif e["t_ns"] <= p["t_ns"] and e["op"] == "block-free":
                alive.pop(e["ptr"], None)
        need(sum(alive.values()) == p["allocated"], f"{p['name']}: {sum(alive.values())} bytes in blocks, PyTorch says "
                                                   f"{p['allocated']}")
    return "allocated = torch.cuda.memory_stats() at every checkpoint", {}


@check("torch", "python-lines", gpu=True)
def python_lines():
    """The lines of two allocations that this project chose."""
    available()
    with open(SCRIPT) as f:
        marks = {m.group(1): n for n, line in enumerate(f, 1) for m in [re.search(r"# mark: (\w+)", line)] if m}
    events = machine.events(main_trace(run("refused")))
    if not any((f.get("file") or "").endswith(".py") for e in events for f in e.get("stack") or []):
        raise Skip("not built yet: Python stacks")
    for name, bytes_ in (("first", 34 * MIB), ("second", 66 * MIB)):
        lines = [f["line"] for e in events if e["op"] == "alloc" and e["bytes"] == bytes_ for f in e["stack"] or []
                 if (f.get("file") or "").endswith("torch_work.py")]
        need(lines and lines[0] == marks[name], f"the {name} allocation is said to be on lines {lines[:3]}, it is on line "
                                                f"{marks[name]}")
    return f"lines {sorted(marks.values())}", {}


mode_check("compile", "compiled")
