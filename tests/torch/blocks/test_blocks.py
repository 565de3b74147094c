#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blocks of PyTorch's allocator, by stand-ins for its libraries: the trace against the allocator's own ledger.

The stand-in for libc10_cuda.so writes a ledger line after each report, under the mutex under which it reports. The
events of a device, in the order of the trace, are therefore the lines of that ledger.
"""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import check_ledger  # noqa: E402
import judge  # noqa: E402
import ways  # noqa: E402
from death import undisturbed  # noqa: E402
from tap import BUILD, FULL, REPORT, case, dice, main, read_json, repeat, sample  # noqa: E402
from ways import folder  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(BUILD, "tests/torch/blocks")
FIRST, SECOND = os.path.join(PROGRAMS, "first"), os.path.join(PROGRAMS, "second")
BLOCK_OPS = ("block-alloc", "block-free", "block-oom")
PAGE = 2 << 20


def run(*command, **kw):
    env = {"SIM_DEVICES": "2", **kw.pop("env", {})}
    where = folder()
    env["BLOCKS_LEDGER"] = os.path.join(where, "blocks")
    return ways.run(*(command if "/" in command[0] else (os.path.join(PROGRAMS, command[0]), *command[1:])),
                    where=where, env=env, **kw)


def written_down(done):
    """What the allocator reported: process -> device -> list of reports."""
    out = {}
    for name in os.listdir(done.folder):
        if name.startswith("blocks."):
            devices = collections.defaultdict(list)
            with open(os.path.join(done.folder, name), encoding="ascii") as f:
                for line in f:
                    if not line.endswith("\n"):
                        break  # SIGKILL came while it was written
                    op, device, ptr, size, allocated, reserved, tid = line.split()
                    devices[int(device)].append((op, int(ptr, 16) or None, int(size), int(allocated), int(reserved), int(tid)))
            out[int(name.split(".")[1])] = devices
    return out


def dumped(path):
    return check_ledger.read_trace(REPORT, path)


def reports(events):
    devices = collections.defaultdict(list)
    for e in events:
        if e["op"] in BLOCK_OPS:
            devices[e["device"]].append((e["op"], e["ptr"] and int(e["ptr"], 16), e["bytes"], e["allocated_bytes"],
                                         e["reserved_bytes"], e["tid"]))
    return devices


def compare(want, got, more=0):
    """Problems of one process; `more` reports may be in the trace only (it was killed before they were written down)."""
    out = []
    for device in set(want) | set(got):
        w, g = want.get(device, []), got.get(device, [])
        for i, (a, b) in enumerate(zip(w, g)):
            if a != b:
                out.append(f"device {device}, report {i}: {b}, not {a}")
                break
        if not len(w) <= len(g) <= len(w) + more:
            out.append(f"device {device}: {len(g)} reports, not {len(w)}")
    return out


def lost(path):
    """In the words for which the case is repeated (tests/lib/death.py)."""
    return judge.say_lost(json.loads(read_json("info", path))["integrity"]["lost_events"])


def same_blocks(done, more=0):
    ledgers, out = written_down(done), []
    if not ledgers:
        return ["no ledger: nothing was tested"]
    for pid, want in ledgers.items():
        if pid not in done.traces:
            out.append(f"process {pid} has no trace")
            continue
        out += lost(done.traces[pid]) + compare(want, reports(dumped(done.traces[pid])), more)
    return out


def the_end_of_it(done, more=0, wrapped=True):
    """Of a trace whose beginning was overwritten, but for chunks around a failure, which may stay."""
    (path,), (want,) = done.traces.values(), written_down(done).values()
    events = dumped(path)
    gaps = [i for i, e in enumerate(events) if e["event"] != (events[i - 1]["event"] + 1 if i else 0)]
    out = lost(path) + ([] if gaps or not wrapped else ["nothing was overwritten"])
    events = events[gaps[-1] if gaps else 0:]
    for device, all_reports in want.items():
        got = reports(events).get(device, [])
        at = [n for n in range(more + 1) if got[:len(got) - n][-1000:] == all_reports[-1000:]]
        rest = got[:len(got) - at[0]] if at else []
        if not rest or rest != all_reports[len(all_reports) - len(rest):]:
            out.append(f"device {device}: what is left is not the end of its ledger")
    return out


def alive_at_the_end(done):
    """Blocks by the ledger against what the report has from checkpoint and events: their number and bytes; and all segments."""
    (path,), (want,), out = done.traces.values(), written_down(done).values(), []
    pools = {d["ordinal"]: d["pool"] for d in json.loads(read_json("frag", "--at=end", path))["devices"]}
    for device, all_reports in want.items():
        alive = {}
        for op, ptr, size, *_ in all_reports:
            if op == "block-alloc":
                alive[ptr] = size
            elif op == "block-free":
                del alive[ptr]
        p = pools[device]
        got = p["blocks"], p["block_bytes"], p["unreconciled_bytes"], p["outside_segments_bytes"]
        if got != (len(alive), sum(alive.values()), 0, 0):
            out.append(f"device {device}: blocks, bytes, not reconciled, outside: {got}, not {len(alive), sum(alive.values()), 0, 0}")
    return out


def ended(done, rc=0):
    return [] if done.rc == rc else [f"exit status {done.rc}: {done.err[-500:]}"]


def forwarded(done, who="all"):
    m = re.search(rf"^{who} forwarded (\d+) (\d+) (\d+) (\d+) (\d+) sum (-?\d+)$", done.out, re.M)
    return tuple(map(int, m.groups())) if m else None


def all_forwarded(done):
    """Every report has reached libc10, once and with its sign."""
    want = collections.Counter()
    for devices in written_down(done).values():
        for device in devices.values():
            for op, _, size, *_ in device:
                want[op] += 1
                want["sum"] += size if op == "block-alloc" else -size if op == "block-free" else 0
    want = (0, 0, want["block-alloc"] + want["block-free"], 0, want["block-oom"], want["sum"])
    return [] if forwarded(done) == want else [f"forwarded {forwarded(done)}, not {want}"]


@case("one thread: every report is an event, in order, with the totals that it stated; and is forwarded")
def _():
    done = run("uses_allocator", "threads", FIRST, 1, 30000 if FULL else 10000)
    return ended(done) + same_blocks(done) + alive_at_the_end(done) + all_forwarded(done) + done.problems()


@case("eight threads on two devices, with refusals: the events of a device are its ledger, line by line")
def _():
    done = run("uses_allocator", "threads", FIRST, 8, 12000 if FULL else 3000, 2, env={"SIM_MEM_MB": 640})
    ops = {r[0] for devices in written_down(done).values() for d in devices.values() for r in d}
    return (ended(done) + same_blocks(done) + all_forwarded(done) + done.problems()
            + ([] if ops == set(BLOCK_OPS) else [f"only {ops} were tested"]))


@case("a file that goes round: blocks alive at its end are those of the ledger", long=True)  # (in short: allocator/test_pools.py)
def _():
    done = run("uses_allocator", "threads", FIRST, 4, 110000, env={"CUTRACE_MAX_SIZE": "1M", "SIM_MEM_MB": 4096})
    return ended(done) + the_end_of_it(done) + alive_at_the_end(done)


@case("in memory, killed: sealed from the journal")
def _():
    done = run("uses_allocator", "killed", FIRST, 4, 400000 if FULL else 100000, env={"CUTRACE_MEMORY": "1", "CUTRACE_MAX_SIZE": "1M"})
    return ended(done, -signal.SIGKILL) + (the_end_of_it(done, more=4, wrapped=False) if written_down(done) else [])


@case("killed: no report that was written down is missing")
def _():
    out = []
    for ms in (50, 300, 900) if FULL else (20 + dice().randrange(40),):
        done = run("uses_allocator", "killed", FIRST, 4, ms * 1000)
        out += ended(done, -signal.SIGKILL)
        out += same_blocks(done, more=4) if written_down(done) else []
    return out


@case("fork: parent and child have their own reports")
def _():
    done = run("uses_allocator", "fork", FIRST, 2, 3000)
    pids = len(written_down(done))
    return ended(done) + same_blocks(done) + ([] if pids == 2 else [f"{pids} processes reported"])


@case("a limit of PyTorch's own: block-oom is the only sign, and is in the trace at once")
def _():
    done = run("uses_allocator", "limit", FIRST)
    (path,) = done.traces.values()
    events = dumped(path)
    refused = [e for e in events if e["op"] == "block-oom"]
    out = ended(done) + same_blocks(done)
    if len(refused) != 1 or refused[0]["bytes"] != 50 << 20 or refused[0]["ptr"] or not refused[0]["stack"]:
        out.append(f"{refused}")
    if any(e["result"] for e in events):
        out.append("something else failed")
    return out


@case("a refused call that PyTorch's retry heals is not said; what it raises, and what others are refused, is said before the call returns")
def _():
    out, said = [], re.compile(r"cutrace: GPU 0 out of memory: (PyTorch's allocation|cuMemAlloc_v2) of (\d)\.00 GiB failed")
    for kinds in (["heal"], ["raise"], ["own"], ["heal", "raise"], ["raise", "heal", "own", "heal"], ["own", "heal", "raise"]):
        want = [("PyTorch's allocation" if kind == "raise" else "cuMemAlloc_v2", str(2 + i)) for i, kind in enumerate(kinds) if kind != "heal"]
        # (A failing call waits 150 ms at most for a writer that waits for the disk or has no core.)
        done = repeat(lambda kinds=kinds: run("uses_allocator", "refusals", FIRST, *kinds, env={"SIM_MEM_MB": 1024, "CUTRACE_QUIET": None}),
                      lambda done, want=want: said.findall(done.err) == want, most=3)
        (path,) = done.traces.values()
        failed = sum(e["op"] == "alloc" and e["result"] == 2 for e in dumped(path))
        calls = sum({"heal": 1, "raise": 2, "own": 1}[kind] for kind in kinds)
        out += ended(done, -signal.SIGKILL) + ([] if failed == calls else [f"{failed} refused calls, not {calls}"])
        if said.findall(done.err) != want or len(done.err.splitlines()) != len(want):
            out.append(f"{kinds}: {done.err}")
    return out


@case("a refused call of PyTorch's allocator that it neither repeats nor reports is said at the exit")
def _():
    done = run("uses_allocator", "refusals", FIRST, "heal", "raw", "exit", env={"SIM_MEM_MB": 1024, "CUTRACE_QUIET": None})
    said = re.findall(r"cutrace: GPU 0 out of memory: cudaMalloc of 3\.00 GiB failed", done.err)
    return ended(done) + ([] if len(said) == len(done.err.splitlines()) == 1 else [done.err])


@case("reports of older versions: recorded with what they tell, and forwarded each to its own")
def _():
    done = run("uses_allocator", "old", FIRST)
    (path,) = done.traces.values()
    got = [(e["op"], e["bytes"], e["allocated_bytes"], e["reserved_bytes"]) for e in dumped(path) if e["op"] in BLOCK_OPS][2:]
    want = [("block-alloc", 1024, None, None), ("block-free", 1024, None, None), ("block-alloc", 2048, 4096, 8192),
            ("block-free", 2048, 2048, 8192), ("block-oom", 512, 2048, 8192)]
    return (ended(done) + ([] if got == want else [f"{got}"])
            + ([] if forwarded(done)[:5] == (2, 2, 2, 1, 0) else [f"forwarded {forwarded(done)}"]))


def streams_of(path):
    """Of each size of blocks: the streams that its events have."""
    out = collections.defaultdict(set)
    for e in dumped(path):
        if e["op"] in BLOCK_OPS:
            out[e["op"].split("-")[1], e["bytes"]].add(e["stream"])
    return out


UNKNOWN = "0xffffffffffffffff"


def as_torch(version, first=FIRST):
    """A folder torch/lib with the libraries, beside version.py."""
    lib = os.path.join(folder(), "torch/lib")
    shutil.copytree(first, lib)
    if version:
        with open(os.path.join(lib, "../version.py"), "w", encoding="ascii") as f:
            f.write(f"from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '{version}'\ndebug = False\n")
    return lib


@case("the current stream of the thread, read without a call of PyTorch's; that of a forked process, too")
def _():
    done = run("uses_allocator", "streams", as_torch("2.15.0+cu132"))
    first, child = (streams_of(done.traces[pid]) for pid in sorted(done.traces))
    want = {("alloc", 1024): {None}, ("alloc", 1536): {"0x5"}, ("alloc", 2048): {None}, ("alloc", 2560): {"0x7"},
            ("alloc", 3072): {"0x5"}, ("alloc", 3584): {UNKNOWN}, ("alloc", 4608): {"0xfffffffffffffff7"},
            ("oom", 50 << 20): {"0x5"}, ("alloc", 5120): {None}}
    got = {**first, **child}
    want |= {("alloc", 5632): {None}, ("alloc", 6144): {"0xb"}}
    return (ended(done) + same_blocks(done) + [f"{k}: {got.get(k)}, not {v}" for k, v in want.items() if got.get(k) != v]
            + [f"{k}: {v}" for k, v in got.items() if k[0] == "free" and v != {None}])


@case("a libc10_cuda without symbols, or of a PyTorch whose version is not known to have the array: streams are not known")
def _():
    out = []
    stripped = as_torch("2.15.0")
    subprocess.run(["strip", "--strip-all", os.path.join(stripped, "libc10_cuda.so")], check=True)
    versions = None, "2.16.0a0+git0123456", "2.115.0", "3.0.0", "1.13.1", "2.", "2", "2.x.1"
    for lib in (stripped, *map(as_torch, sample(versions, 2))):
        done = run("uses_allocator", "streams", lib)
        got = {s for path in done.traces.values() for (op, _), streams in streams_of(path).items() if op != "free" for s in streams}
        out += ended(done) + same_blocks(done) + ([] if got == {UNKNOWN} else [f"{lib}: {got}"])
    return out


@case("memory of the CPU: forwarded, not recorded, and no trace where nothing calls the driver")
def _():
    done = run("uses_allocator", "cpu", FIRST)
    return (ended(done) + ([] if forwarded(done)[:5] == (0, 0, 10, 0, 0) else [f"forwarded {forwarded(done)}"])
            + ([f"{done.traces}"] if done.traces else []))


@case("switched off: forwarded, no trace")
def _():
    done = run("uses_allocator", "threads", FIRST, 2, 500, env={"CUTRACE": "0"})
    return ended(done) + all_forwarded(done) + ([f"{done.traces}"] if done.traces else [])


@case("two copies of libc10: each report reaches the one that its caller belongs to")
def _():
    done = run("uses_allocator", "two", FIRST, SECOND)
    a, b = forwarded(done), forwarded(done, "other")
    return ended(done) + ([] if a and b and (a[2], b[2]) == (20, 10) else [f"forwarded {a} and {b}"])


@case("closed and opened again")
def _():
    done = run("uses_allocator", "unload", FIRST)
    return ended(done) + same_blocks(done) + ([] if forwarded(done)[2] in (2, 4) else [f"forwarded {forwarded(done)}"])


@case("a constructor in dlopen waits for the allocator while another thread's first report holds it: nobody hangs")
def _():
    try:
        done = run("uses_allocator", "constructor", FIRST, SECOND, os.path.join(PROGRAMS, "libconstructor.so"), hang=30)
    except subprocess.TimeoutExpired:
        return ["it hangs"]
    want = (2, 2, 1, 1, 0)  # the last one is the block of the constructor
    return ended(done) + ([] if forwarded(done)[:5] == want else [f"forwarded {forwarded(done)}, not {want}"])


@case("stacks: of a thread without Python the native one; CUTRACE_STACKS=off none; of a free none unless asked for")
def _():
    out = []
    for env, of_alloc, of_free in (({}, 1, 0), ({"CUTRACE_STACKS": "off"}, 0, 0), ({"CUTRACE_FREE_STACKS": "1"}, 1, 1)):
        done = run("uses_allocator", "threads", FIRST, 1, 300, env=env)
        (path,) = done.traces.values()
        for e in dumped(path):
            if e["op"] not in ("block-alloc", "block-free"):
                continue
            wanted = of_alloc if e["op"] == "block-alloc" else of_free
            names = [f["name"] for f in e["stack"] or []]
            ours = any(n and ("::work(" in n or n == "main") for n in names)  # (the C library may have no names)
            if bool(e["stack"]) != bool(wanted) or (wanted and not ours):
                out.append(f"{env} {e['op']}: {names}")
                break
    return out


def line_of(mark):
    with open(os.path.join(HERE, "lines.py"), encoding="utf-8") as f:
        return 1 + [i for i, line in enumerate(f) if line.rstrip().endswith("# line: " + mark)][0]


@case("Python: the frames of each block's thread, their functions and lines, and no others; as deep as CUTRACE_STACK_DEPTH")
def _():
    out = []
    for depth in (None, 10):
        done = run(sys.executable, os.path.join(HERE, "lines.py"), os.path.join(FIRST, "libc10_cuda.so"),
                   env={"CUTRACE_STACK_DEPTH": depth})
        (path,) = done.traces.values()
        out += ended(done)
        inner, outer = ("inner", line_of("inner")), ("outer", line_of("outer"))
        name = "Work.method" if sys.version_info >= (3, 11) else "method"  # before, code has no qualified name
        method, module, after = (name, line_of("method")), ("<module>", line_of("module")), (name, line_of("method") + 1)
        deep = [("deep", line_of("deepest"))] + [("deep", line_of("deep"))] * 50
        shallow = [inner, outer, method, module]
        want = [stack for _ in range(3) for stack in (shallow, [inner, outer, *deep, after, module])]
        blocks = [e for e in dumped(path) if e["op"] == "block-alloc"]
        got = [[(f["name"], f["line"]) for f in e["stack"]] for e in blocks]
        ends = [e["stack"][-1]["end"] for e in blocks]
        kinds = {f["kind"] for e in blocks for f in e["stack"]}
        if depth:
            cut = [stack[:depth] for stack in want]
            got = [stack[:depth] if end else stack for stack, end in zip(got, ends)]
            out += [] if got[:6] == cut and ends[:6] == [None, "deeper"] * 3 else [f"depth {depth}: {got[:6]}, {ends}"]
        else:
            out += [] if got[:6] == want and kinds == {"python"} else [f"{got[:6]}, {kinds}"]
            out += [] if got[6][:2] == [inner, outer] and len(got) == 7 else [f"of a thread: {got[6:]}"]
    return out


@case("CUTRACE_MIN_SIZE and CUTRACE_SAMPLE leave no block out")
def _():
    out = []
    for env in ({"CUTRACE_MIN_SIZE": "64M"}, {"CUTRACE_SAMPLE": "100"}):
        done = run("uses_allocator", "threads", FIRST, 2, 2000, env=env)
        out += ended(done) + same_blocks(done)
    return out


@case("INFO: torch's version, the allocator's settings, and streams")
def _():
    lib = as_torch("2.99.1+cu130")
    done = run("uses_allocator", "threads", lib, 1, 50,
               env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_NO_CUDA_MEMORY_CACHING": "0"})
    info = done.info()["info"]
    want = {"torch.version": "2.99.1+cu130", "torch.block_streams": "current",
            "process.env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "process.env.PYTORCH_NO_CUDA_MEMORY_CACHING": "0",
            "torch.not_forwarded": None, "hook.cuStreamCreate.calls": None}
    return ended(done) + [f"{k}: {info.get(k)!r}" for k, v in want.items() if info.get(k) != v]


main(undisturbed)
