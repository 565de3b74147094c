# SPDX-License-Identifier: Apache-2.0
"""torch: the trace equals PyTorch's own statistics, in every mode of its allocator."""
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


def trace_of(done, pid):
    traces = [t for t in done.traces if f".{pid}." in os.path.basename(t)]
    need(len(traces) == 1, f"{len(traces)} traces of process {pid}")
    return traces[0]


def main_trace(done):
    """The trace of the process that wrote checkpoints: compilers that it starts may leave their own."""
    (pid,) = done.own()
    return trace_of(done, pid)


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


def blocks_of(events, until_ns):
    """PyTorch's blocks at that time, by the trace: {address: bytes}."""
    alive = {}
    for e in events:
        if e["t_ns"] <= until_ns and e["op"] == "block-alloc":
            alive[int(e["ptr"], 16)] = e["bytes"]
        elif e["t_ns"] <= until_ns and e["op"] == "block-free":
            alive.pop(int(e["ptr"], 16), None)
    return alive


def compare(events, points):
    """At each checkpoint: tracked bytes of PyTorch's allocator = its reserved bytes, bytes in blocks = its allocated
    bytes; the rest is explained."""
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
            blocks = sum(blocks_of(events, p["t_ns"]).values())
            need(blocks == p["allocated"], f"{p['name']}: {blocks} bytes in blocks, PyTorch says {p['allocated']}")
        used = first["free"] - p["free"]
        tracked = all_ - account.live_bytes(events, first["t_ns"])
        need(used + 64 * MIB >= tracked, f"{p['name']}: {mib(tracked)} tracked, and only {mib(used)} left free")
        most, rest = max(most, p["reserved"]), used - tracked
    others = account.live_bytes(events, points[-1]["t_ns"]) - torch_bytes(events, points[-1]["t_ns"])
    return (f"{len(points)} checkpoints, tracked = reserved, blocks = allocated (up to {mib(most)}); other libraries' {mib(others)}, modules "
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


def marks():
    """The lines of torch_work.py that carry a mark: {mark: line}."""
    with open(SCRIPT) as f:
        return {m.group(1): n for n, line in enumerate(f, 1) for m in [re.search(r"# mark: (\w+)", line)] if m}


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


def two_compared(done):
    """The events of each of two processes, compared with its own checkpoints."""
    own = done.own()
    need(len(own) == 2, f"{len(own)} processes wrote checkpoints")
    for pid, points in own.items():
        events = machine.events(trace_of(done, pid))
        compare(events, points)
        yield events


@check("torch", "processes", gpu=True)
def several():
    available()
    if machine.QUICK:
        raise Skip("left out by --quick")
    seen = len(list(two_compared(run("processes"))))
    return f"{seen} processes, each with its own trace and tracked = reserved", {}


def shared(name, conf, *ops):
    @check("torch", name, gpu=True)
    def one():
        available()
        if machine.QUICK:
            raise Skip("left out by --quick")
        seen = {}
        for events in two_compared(run("shared", conf)):
            for e in events:
                if e["op"] in ops and not e["result"]:
                    seen[e["op"]] = seen.get(e["op"], 0) + 1
        need(len(seen) == len(ops), f"events of sharing: {seen}")
        return ", ".join(f"{n} {op}" for op, n in seen.items()) + "; what is opened is not counted twice", seen


shared("shared", None, "ipc-open", "ipc-close")
shared("shared-expandable", "expandable_segments:True", "import", "map")


@check("torch", "pinned", gpu=True)
def pinned():
    available()
    done = run("pinned")
    trace, stats = main_trace(done), json.loads(done.out.splitlines()[-1])
    line = marks()["pinned"]
    taken = [e for e in machine.events(trace) if e["op"] in ("alloc", "register") and e.get("space") == "host"
             and any(f["line"] == line and (f.get("file") or "").endswith("torch_work.py") for f in e["stack"] or [])]
    bytes_ = sum(e["bytes"] for e in taken)
    need(bytes_ >= 37 * MIB, f"{bytes_} bytes of host memory were taken on line {line}")
    for name in ("allocated_bytes.current", "reserved_bytes.current", "segment_bytes.current"):
        figure = stats.get(name)
        need(not figure or figure <= bytes_, f"PyTorch's {name} is {figure}, the trace has {bytes_}")
    return f"{len(taken)} allocations of page-locked memory, {mib(bytes_)}", {"bytes": bytes_, "stats": stats}


def segments_of(events, until_ns):
    """PyTorch's device memory at that time, by the trace: {address: bytes}."""
    alive = {}
    for e in account.calls_of(events):
        if e["t_ns"] > until_ns or e["result"]:
            continue
        if e["op"] == "alloc" and e.get("space") == "device" and by_torch(e):
            alive[int(e["ptr"], 16)] = e["bytes"]
        elif e["op"] == "free" and e["ptr"]:
            alive.pop(int(e["ptr"], 16), None)
    return alive


@check("torch", "snapshot", gpu=True)
def snapshot():
    """Segments and blocks, one by one."""
    available()
    done = run("snapshot")
    events, said = machine.events(main_trace(done)), json.loads(done.out.splitlines()[-1])
    until = max(p["t_ns"] for points in done.own().values() for p in points)
    blocks = blocks_of(events, until)
    theirs = {b[0]: b[1] for s in said for b in s["blocks"] if b[2] == "active_allocated"}
    need(blocks == theirs, f"{len(blocks)} blocks in the trace, {len(theirs)} in PyTorch's snapshot; "
                           f"{len(set(blocks.items()) ^ set(theirs.items()))} differ")
    segments = {s["address"]: s["size"] for s in said}
    ours = segments_of(events, until)
    need(ours == segments, f"{len(ours)} segments in the trace, {len(segments)} in the snapshot; "
                           f"{len(set(ours.items()) ^ set(segments.items()))} differ")
    return (f"{len(segments)} segments and {len(blocks)} blocks, address and size of each as in torch.cuda."
            f"memory_snapshot(), {len({s['stream'] for s in said})} streams"), {"segments": len(segments),
                                                                               "blocks": len(blocks)}


STREAM_UNKNOWN = (1 << 64) - 1


def stream_of(event):
    """PyTorch's number of the stream that a block was recorded with; None: not known."""
    number = int(event["stream"] or "0", 16)
    return None if number == STREAM_UNKNOWN else number


def compare_streams(events, said):
    """Each block that the program has listed, with the stream that was current; and each segment's blocks with one."""
    recorded = {int(e["ptr"], 16): e for e in events if e["op"] == "block-alloc"}  # the last one at an address
    known, unknown, of_segment = {}, 0, {}
    for what, ptr, bytes_, stream in said["blocks"]:
        need(ptr in recorded and recorded[ptr]["bytes"] >= bytes_, f"{what}: no block of {bytes_} bytes at {ptr:#x}")
        number = stream_of(recorded[ptr])
        if number is None:
            unknown += 1
            continue
        need(number == stream & STREAM_UNKNOWN, f"{what}: recorded with stream {number:#x}, the current one was {stream:#x}")
        known[what] = known.get(what, 0) + 1
        handles = {handle for address, size, handle in said["segments"] if address <= ptr < address + size}
        need(len(handles) == 1, f"{what}: the block at {ptr:#x} is in {len(handles)} of PyTorch's segments")
        of_segment.setdefault(number, set()).update(handles)
    names = {what for what, *_ in said["blocks"]}
    need(names == set(known), f"no stream is known of: {sorted(names - set(known))} (a PyTorch that torch_streams.c does not know?)")
    need(len(of_segment) == 4, f"{len(of_segment)} streams, the program uses 4")
    need(all(len(h) == 1 for h in of_segment.values()) and len(set.union(*of_segment.values())) == 4,
         f"recorded streams and those of PyTorch's segments are not one to one: {of_segment}")
    return (f"{sum(known.values())} blocks of {len(of_segment)} streams, of two threads, each recorded with the current one; "
            f"unknown: {unknown}"), {"blocks": known, "unknown": unknown}


@check("torch", "streams", gpu=True)
def streams():
    available()
    done = run("streams")
    return compare_streams(machine.events(main_trace(done)), json.loads(done.out.splitlines()[-1]))


@check("torch", "exhausted", gpu=True)
def exhausted():
    """The verdict on a device that was really filled: what was held, by whom, and how little was free."""
    available()
    done = run("exhausted")
    trace, said = main_trace(done), json.loads(done.out.splitlines()[-1])
    summary = machine.summary(trace)
    crossing = summary["crossing"]
    need(crossing and not crossing["recovered"], f"the verdict is {crossing}")
    need(crossing["requested_bytes"] >= said["wanted"], f"{crossing['requested_bytes']} bytes were refused, the program "
         f"asked for {said['wanted']}")
    top = summary["live_at_crossing"][0]
    need(top["bytes"] >= said["cache"], f"the largest holder has {top['bytes']} bytes, the cache has {said['cache']}")
    line = marks()["cache"]
    own = [f["line"] for f in top["stack"] if (f.get("file") or "").endswith("torch_work.py")]
    need(own and own[0] == line, f"the largest holder's lines are {own}, the cache is of line {line}")
    return f"{mib(crossing['requested_bytes'])} refused; {mib(top['bytes'])} are of line {line}", {
        "crossing": crossing, "said": said}


@check("torch", "python-lines", gpu=True)
def python_lines():
    """The lines of two allocations that this project chose."""
    available()
    at = marks()
    events = machine.events(main_trace(run("refused")))
    for name, bytes_ in (("first", 34 * MIB), ("second", 66 * MIB)):
        lines = [f["line"] for e in events if e["op"] == "alloc" and e["bytes"] == bytes_ for f in e["stack"] or []
                 if (f.get("file") or "").endswith("torch_work.py")]
        need(lines and lines[0] == at[name], f"the {name} allocation is said to be on lines {lines[:3]}, it is on line "
                                                f"{at[name]}")
    return f"lines {at['first']} and {at['second']}", {}


mode_check("compile", "compiled")
