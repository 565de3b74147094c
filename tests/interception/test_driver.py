#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every way to reach the driver, and every function of the hook table: the trace equals the ledger."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, main, read_json  # noqa: E402
from ways import *  # noqa: E402,F403

SCENARIOS = ("device invalid no_context fill async pools pool_shrinks default_pool_shrinks vmm retained expandable multicast arrays "
             "sparse host share graphics graph instantiate capture contexts reset green limits modules code streams").split()
# Those with much in them: run through each of the ways, one process for each.
WAYS = ("dlsym", "default", "dlvsym", "getproc1", "getproc2", "chain1", "chain2", "entry", "entry-version")


def rows():
    """The symbols of the hook table for the headers in use."""
    text = open(os.path.join(BUILD, "exports.txt")).read().split()
    return [s for s in text if re.match(r"cu[A-Z]", s)]


def elf(*scenarios, **kw):
    return run("driver_elf", *scenarios, **kw)


seen = {}  # api -> results seen in traces of the ELF runs, and calls counted by the hooks


def remember(done):
    for e in done.calls():
        seen.setdefault(e["api"], set()).add(e["result"] == 0)
    for key, value in flatten(done.info()).items():
        m = re.search(r"hook\.(\w+)\.calls$", key)
        if m and int(value):
            seen.setdefault(m.group(1), set())


def flatten(tree, prefix=""):
    if not isinstance(tree, dict):
        return {prefix.rstrip("."): tree}
    out = {}
    for k, v in tree.items():
        out.update(flatten(v, f"{prefix}{k}."))
    return out


def elf_case(name):
    @case(f"ELF-linked, {name}: trace = ledger, output as without")
    def _():
        env = {"SIM_DEVICES": 2}
        done = elf(name, env=env)
        problems = good(done) + same_as_without(done, "driver_elf", name, env=env)
        if not problems:
            remember(done)
        return problems


for s in SCENARIOS:
    elf_case(s)


@case("every row of the hook table was called by these programs")
def _():
    # No driver of today exports it, so nothing can link to it; see the resolvers' cases.
    resolvers = {"cuGetProcAddress", "cuGetProcAddress_v2"}
    return [f"{s} was never called" for s in rows() if s not in seen and s not in resolvers]


@case("every function that makes events made one with success and one with failure")
def _():
    # A release is an event when it was the last one, which a failed one is not.
    never_fail = {"cuCtxDetach", "cuDevicePrimaryCtxRelease_v2"}
    for e in run("ipc", env={"SIM_SHM": os.path.join(folder(), "shm")}).calls():
        seen.setdefault(e["api"], set()).add(e["result"] == 0)
    return [f"{api}: only {'success' if True in r else 'failure'} was seen" for api, r in sorted(seen.items())
            if r and len(r) < 2 and api not in never_fail]


def way_case(way):
    @case(f"{way}: every scenario, trace = ledger, output as without")
    def _():
        problems = []
        libraries = [os.path.join(PROGRAMS, "versioned")] if way == "dlvsym" else []
        for group in (["device", "invalid", "async", "vmm"], ["pools", "arrays", "host", "share", "graph"],
                      ["capture", "contexts", "reset", "modules", "limits", "code", "streams"]):
            env = {"SIM_DEVICES": 2}
            program_of = "driver_entry" if way.startswith("entry") else "driver"
            kw = {"env": env, "libraries": libraries}
            done = run(program_of, way, *group, **kw)
            problems += good(done) + same_as_without(done, program_of, way, *group, **kw)
        return problems


for w in WAYS:
    way_case(w)


@case("two devices: each event on its own, a free in the other's context")
def _():
    env = {"SIM_DEVICES": 2}
    done = elf("two_devices", env=env)
    problems = good(done) + same_as_without(done, "driver_elf", "two_devices", env=env)
    live = {d["ordinal"]: d["live_bytes"] >> 20 for d in done.summary()["devices"]}
    return problems + ([] if live == {0: 30, 1: 40} else [f"live MiB by device: {live}"])


@case("eight threads that free each other's addresses, reused at once")
def _():
    return [p for _ in range(3) for p in good(elf("threads"))]


@case("eight threads with a slow driver: events keep the driver's order")
def _():
    return good(elf("threads", env={"SIM_LATENCY_NS": "cuMemFree_v2:200000,20000"}))


@case("eight threads by cuGetProcAddress with flags for per-thread streams")
def _():
    return good(run("driver", "chain2", "threads", "per_thread"))


@case("per-thread default streams: events name the thread's stream")
def _():
    done = elf("per_thread")
    streams = {e["stream"] for e in done.calls() if "Async_ptsz" in e["api"]}
    return good(done) + ([] if streams == {"0x2"} else [f"streams {streams}"])


@case("growth like expandable segments: live = handles not given back")
def _():
    done = elf("expandable", env={"SIM_MEM_MB": 400})
    refused = [e for e in done.calls() if e["op"] == "create" and e["result"] == 2]
    return good(done) + ([] if refused else ["nothing was refused: the device is too large for this test"])


@case("a refusal carries free and total bytes, stack and duration; what was live, its call sites")
def _():
    done = elf("fill", env={"SIM_MEM_MB": 1000})
    (oom,) = [e for e in done.calls() if e["result"] == 2][:1]
    ledger = [e for e in done.ledger() if e["result"] == 2][0]
    problems = good(done)
    for key, want in (("free_bytes", ledger["free"]), ("total_bytes", ledger["total"])):
        if oom[key] != want:
            problems.append(f"{key} is {oom[key]}, the driver had {want}")
    if not oom["stack"] or not any(f["name"] and "s_fill" in f["name"] for f in oom["stack"]):
        problems.append(f"the stack lacks the caller: {oom['stack']}")
    if not oom["duration_ns"]:
        problems.append("no duration")
    summary = done.summary()
    if [o["requested_bytes"] for o in summary["ooms"]] != [64 << 20, 512 << 20]:
        problems.append(f"ooms: {summary['ooms']}")
    if not summary["crossing"] or summary["crossing"]["requested_bytes"] != 512 << 20:
        problems.append(f"crossing: {summary['crossing']}")
    return problems


@case("scripted failures and a sticky error: results pass, failed frees are undone")
def _():
    problems = []
    for script in ("cuMemAlloc_v2:3:700", "cuMemAlloc_v2:2-4:2", "cuMemFree_v2:1:1", "cuMemFree_v2:1:719",
                   "cuDevicePrimaryCtxRetain:1:2"):
        env = {"SIM_FAIL": script}
        done = elf("sticky", env=env)
        problems += [f"{script}: {p}" for p in good(done) + same_as_without(done, "driver_elf", "sticky", env=env)]
        if script == "cuMemFree_v2:1:1":
            freed = [e["result"] for e in done.calls() if e["op"] == "free"]
            if freed != [1] or done.summary()["devices"][0]["live_bytes"] == 0:
                problems.append(f"a failed free was not undone: {freed}")
    return problems


@case("pool memory that comes back at a synchronise shows in pool samples, also of a pool that was not created")
def _():
    return [f"{name}: {p}" for name in ("pool_shrinks", "default_pool_shrinks") for p in shrinks(name)]


def shrinks(name):
    done = elf(name)
    samples = [e for e in done.events() if e["op"] == "pool-sample"]
    problems = good(done)
    reserved = [e.get("reserved_bytes") for e in samples]
    given_back = int(re.search(r"given back (\d+)", done.out).group(1))
    if given_back < 100 << 20:
        problems.append("the driver kept the memory: nothing was tested")
    if len(reserved) < 2 or reserved[0] < 100 << 20 or reserved[-1] != 0:
        problems.append(f"reserved bytes by sample: {reserved}")
    if {e.get("device") for e in samples} != {0}:
        problems.append(f"not of device 0: {samples}")
    return problems


@case("capture: allocations are graph nodes, and the driver is not asked how much is free")
def _():
    log = os.path.join(folder(), "log")
    done = elf("capture_long", env={"SIM_LOG": log, "CUTRACE_SAMPLE_MS": 1})
    problems = good(done)
    lines = [line.split()[2:] for line in open(log)]
    names = [line[0] for line in lines]
    begin, end = names.index("cuStreamBeginCapture_v2"), names.index("cuStreamEndCapture")
    forbidden = [n for n in names[begin:end] if n.startswith(("cuMemGetInfo", "cuMemPoolGetAttribute",
                                                              "cuCtxSynchronize", "cuStreamSynchronize"))]
    if forbidden:
        problems.append(f"while capturing: {forbidden}")
    ops = {e["op"] for e in done.calls() if e["api"] in ("cuMemAllocAsync", "cuMemFreeAsync")}
    if ops != {"graph-alloc", "graph-free"}:
        problems.append(f"ops {ops}")
    if any("violation" in line for line in open(log)) or any(e["op"] == "violation" for e in done.ledger()):
        problems.append("the driver saw a call that breaks a capture")
    return problems


@case("what is inside a driver call is not an event of its own (a driver that calls itself)")
def _():
    env = {"SIM_REENTRANT": 1}
    done = elf("device", "contexts", env=env)
    inner = [line for path in done.ledgers.values() for line in open(path) if '"depth":1' in line]
    return good(done) + ([] if inner else ["the driver did not call itself: nothing was tested"])


@case("a driver whose resolver hands out addresses that are no exports: found by name and version")
def _():
    problems = []
    for way in ("getproc2", "chain1", "chain2"):
        env = {"SIM_GETPROC_ALIAS": 1}
        done = run("driver", way, "device", "async", "vmm", "contexts", "host", env=env)
        problems += good(done) + same_as_without(done, "driver", way, "device", "async", "vmm", "contexts", "host",
                                                 env=env)
    return problems


@case("a driver linked without -Bsymbolic hands back our wrappers: no recursion, each call once")
def _():
    problems = []
    for way in ("getproc2", "chain2"):
        env = {"SIM_BSYMBOLIC": 0}
        done = run("driver", way, "device", "async", "vmm", env=env)
        problems += good(done) + same_as_without(done, "driver", way, "device", "async", "vmm", env=env)
    done = elf("device", "async", "vmm", env={"SIM_BSYMBOLIC": 0})
    return problems + good(done)


@case("a driver newer than the headers: by address, not by name")
def _():
    done = run("driver", "chain2", "device", env={"SIM_DRIVER_VERSION": 99000})
    problems = good(done)
    alias = run("driver", "chain2", "device", env={"SIM_DRIVER_VERSION": 99000, "SIM_GETPROC_ALIAS": 1})
    if alias.rc or alias.out != done.out:
        problems.append(f"with unknown addresses it does not work any more: {alias.rc} {alias.err}")
    if any(e["op"] == "alloc" for e in alias.calls() if alias.traces):
        problems.append("an unknown address was taken for a known function, by its name")
    return problems


@case("resolvers: old ABIs and the newer ones of the same name get what they asked for")
def _():
    done = run("get_proc_address_abis")
    return good(done) + same_as_without(done, "get_proc_address_abis")


@case("ctypes from Python, by name and by cuGetProcAddress")
def _():
    here = os.path.dirname(os.path.realpath(__file__))
    command = ["/usr/bin/env", "python3", os.path.join(here, "ctypes_driver.py")]
    done = run(*command)
    apis = [e["api"] for e in done.calls()]
    problems = good(done) + same_as_without(done, *command)
    if apis.count("cuMemAlloc_v2") != 2 or apis.count("cuMemFree_v2") != 1:
        problems.append(f"apis {apis}")
    return problems


@case("a program with two ways at once: symbol and look-up lead to one trace")
def _():
    done = run("driver", "dlsym", "device", "host", "arrays", before=[program("libearly_allocation.so")])
    return good(done)


@case("IPC between two processes: each has its own trace")
def _():
    shm = os.path.join(folder(), "shm")
    done = run("ipc", env={"SIM_SHM": shm})
    problems = good(done) + ([] if len(done.traces) == 2 else [f"traces {done.traces}"])
    ops = sorted(e["op"] for e in done.calls() if e["op"] in ("export", "import", "ipc-open", "ipc-close"))
    want = ["export", "export", "import", "ipc-close", "ipc-close", "ipc-open", "ipc-open"]
    return problems + ([] if ops == want else [f"operations {ops}"])


@case("memory of another process is on the device where that made it, whichever device this one uses")
def _():
    done = run("ipc", 1, env={"SIM_SHM": os.path.join(folder(), "shm"), "SIM_DEVICES": 2})
    lies = {e["api"]: e["device"] for e in done.calls() if e["op"] in ("import", "ipc-open", "ipc-close")}
    own = {e["device"] for e in done.calls() if e["op"] == "context-create"}
    problems = [] if own == {0, 1} and len(lies) == 4 and set(lies.values()) == {0} else [f"{lies} of {own}"]
    # The second process uses device 1 alone: nothing asks what device 0 is, or samples it.
    facts = [json.loads(read_json("info", t))["info"] for t in done.traces.values()]
    of_device = [{k.split(".")[1] for k in f if k.startswith("device.")} for f in facts]
    return good(done) + problems + ([] if sorted(map(sorted, of_device)) == [["0"], ["1"]] else [f"facts of {of_device}"])


@case("slow calls are all timed; of quick ones the first, and then one in sixteen")
def _durations():
    done = run("periodic_sizes", 1, 1600, 4, env={"SIM_LATENCY_NS": "cuMemAlloc_v2:3000,0"})
    slow = [e["duration_ns"] is not None for e in done.calls() if e["op"] == "alloc"]
    problems = [] if len(slow) == 1600 and all(slow) else [f"{slow.count(False)} of {len(slow)} slow calls have no duration"]
    # A call of the simulated driver is never quick; one of the driver that speed is measured with is one malloc.
    where = folder()
    trace = os.path.join(where, "quick.zst")
    subprocess.run([os.path.join(BUILD, "tests/bench/peer_work"), "pairs=1600", "warm=0", "live=1"], check=True, stdout=subprocess.DEVNULL,
                   env={"LD_PRELOAD": LIBRARY, "CUTRACE_OUTPUT": trace, "CUTRACE_NVML": "0"})
    quick = [e["duration_ns"] is not None for e in check_ledger.read_trace(REPORT, trace) if e["op"] == "alloc"]
    # (a call during which the thread lost its core is a slow one)
    if len(quick) < 1600 or not all(quick[:16]) or not 90 < sum(quick) < 800:
        problems.append(f"{sum(quick)} of {len(quick)} quick calls have a duration; of the first: {quick[:16]}")
    return problems


@case("the symbols of the library are the rows of the hook table")
def _():
    r = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True)
    names = {line.split()[-1] for line in r.stdout.splitlines()}
    return [f"{s} is not exported" for s in rows() if s not in names]


main()
