#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runtime API, by the stand-in: each event carries the name that the program called, once."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Skip, case, main  # noqa: E402
from ways import *  # noqa: E402,F403

PARTS = "device async host arrays entry reset errors".split()
STATIC = ("runtime_static",)


def runtime_names(done, static=False):
    """With a shared runtime every memory call is named as the program called it; a static one's calls
    are bound inside the program, so that only the driver's names can be seen."""
    apis = {e["api"] for e in done.calls() if e["op"] in ("alloc", "free", "register", "unregister")}
    wrong = {a for a in apis if a.startswith("cuda") == static}
    return [f"named {sorted(wrong)}"] if wrong else []


def runtime_case(part):
    @case(f"shared runtime, gcc: {part}: trace = ledger, runtime names, output as without")
    def _():
        done = run("runtime", part)
        problems = good(done) + same_as_without(done, "runtime", part)
        return problems + (runtime_names(done) if part != "entry" else [])

    @case(f"static runtime, gcc: {part}: trace = ledger, driver names, output as without")
    def _():
        done = run("runtime_static", part)
        return good(done) + same_as_without(done, "runtime_static", part) + runtime_names(done, static=True)


for p in PARTS:
    runtime_case(p)


@case("runtime: each allocation is one event, with the runtime's name and the driver's result")
def _():
    done = run("runtime", "device")
    got = [(e["api"], e["bytes"], e["result"]) for e in done.calls() if e["op"] == "alloc"]
    want = [("cudaMalloc", 3 << 20, 0), ("cudaMalloc", 1 << 50, 2)]
    return [] if got[:2] == want else [f"{got}"]


@case("runtime: the program's stack frames are its own, not ours")
def _():
    done = run("runtime", "device")
    stack = [e for e in done.calls() if e["op"] == "alloc"][0]["stack"]
    problems = [] if any(f["name"] in ("main", "device") for f in stack) else [f"{stack}"]
    return problems + [f"a frame of ours: {f}" for f in stack if f["module"] and "libcutrace" in f["module"]]


@case("a runtime function that the program fetched by dlsym: seen, by the driver's name")
def _():
    done = run("runtime_by_dlsym")
    apis = [e["api"] for e in done.calls() if e["op"] in ("alloc", "free")]
    return good(done) + same_as_without(done, "runtime_by_dlsym") + (
        [] if apis == ["cuMemAlloc_v2", "cuMemFree_v2"] else [f"{apis}"])


@case("runtime: eight threads")
def _():
    return good(run("runtime", "threads")) + good(run("runtime_static", "threads"))


@case("runtime: two devices")
def _():
    done = run("runtime", "two_devices", env={"SIM_DEVICES": 2})
    devices = [e["device"] for e in done.calls() if e["op"] == "alloc"]
    return good(done) + ([] if devices == [1, 0] else [f"devices {devices}"])


@case("entry points handed out by the runtime are ours, and named as the driver's")
def _():
    done = run("runtime", "entry")
    apis = [e["api"] for e in done.calls() if e["op"] == "alloc"]
    return good(done) + ([] if apis == ["cuMemAlloc_v2"] else [f"{apis}"])


@case("a plugin opened RTLD_LOCAL that needs the runtime")
def _():
    args = ("host_of_plugins", "local", program("libplugin13.so"))
    done = run(*args)
    apis = [e["api"] for e in done.calls() if e["op"] in ("alloc", "free")]
    return good(done) + same_as_without(done, *args) + (
        [] if apis == ["cudaMalloc", "cudaMalloc", "cudaFree"] else [f"{apis}"])


@case("a plugin with a static runtime, opened RTLD_LOCAL")
def _():
    args = ("host_of_plugins", "local", program("libplugin_static.so"))
    done = run(*args)
    return good(done) + same_as_without(done, *args)


@case("two copies of the runtime in one process: each plugin gets its own")
def _():
    problems = []
    for order in (["libplugin12.so", "libplugin13.so"], ["libplugin13.so", "libplugin12.so"],
                  ["libplugin13.so", "libplugin12.so", "libplugin_static.so"]):
        args = ("host_of_plugins", "local", *map(program, order))
        done = run(*args)
        problems += good(done) + same_as_without(done, *args)
        told = {k for k in json.dumps(done.info()).split('"') if k.startswith("cuda.runtime.")}
        if told != {f"cuda.runtime.libcudart.so.{n}" for n in (12, 13)}:
            problems.append(f"{order}: versions told: {told}")
        takes = [e["api"] for e in done.calls() if e["op"] == "alloc"]
        want = ["cudaMalloc" if "static" not in o else "cuMemAlloc_v2" for o in order for _ in (0, 1)]
        if takes != want:
            problems.append(f"{order}: {takes}")
    return problems


@case("two copies of the runtime: the call reaches the copy that the plugin was linked to")
def _():
    log = os.path.join(folder(), "log")
    order = [program("libplugin12.so"), program("libplugin13.so")]
    done = run("host_of_plugins", "local", *order, env={"SIM_LOG": log})
    # Each copy does its own 440 look-ups when it is first called; one that is never called does none.
    first = sum(1 for line in open(log) if " look-up cuGetProcAddress_v2  " in line or
                line.rstrip().endswith("look-up cuGetProcAddress_v2  0 0"))
    return good(done) + ([] if first == 2 else [f"{first} copies of the runtime were in use"])


@case("a runtime whose driver calls cannot be seen: recorded once, with the flag")
def _():
    done = run("runtime", "device", env={"SIMRT_HIDDEN": 1})
    events = [e for e in done.events() if e["op"] in ("alloc", "free")]
    ledger = [e for e in done.ledger() if e["op"] in ("alloc", "free")]
    problems = same_as_without(done, "runtime", "device", env={"SIMRT_HIDDEN": 1})
    if not ledger:
        problems.append("nothing was tested")
    bad = [e["api"] for e in events if "runtime" not in (e["flags"] or []) or not e["api"].startswith("cuda")]
    if bad:
        problems.append(f"not recorded by the runtime wrapper: {bad}")
    took = [(e["ptr"], e["bytes"]) for e in events if e["op"] == "alloc" and e["result"] == 0]
    want = [(e["ptr"], e["bytes"]) for e in ledger if e["op"] == "alloc" and e["result"] == 0]
    if took != want:
        problems.append(f"allocations {took}, the driver did {want}")
    gave = [e["ptr"] for e in events if e["op"] == "free" and e["result"] == 0]
    want = [e["ptr"] for e in ledger if e["op"] == "free" and e["result"] == 0]
    # Before the first sign that calls are hidden a free of nothing is not worth an event.
    if [p for p in gave if p != "0x0"] != [p for p in want if p != "0x0"]:
        problems.append(f"frees {gave}, the driver did {want}")
    return problems


@case("the same runtime, seen: no flag, no second event")
def _():
    done = run("runtime", "device")
    return [f"{e}" for e in done.events() if "runtime" in (e["flags"] or [])]


for name, what in (("nvcc_shared", "-cudart shared"), ("nvcc_static", "-cudart none + our static stand-in")):
    def _nvcc(name=name):
        if not os.path.exists(os.path.join(PROGRAMS, name)):
            raise Skip("nvcc is not installed")
        done = run(name)
        return good(done) + same_as_without(done, name) + runtime_names(done, static=name.endswith("static"))
    case(f"nvcc-built program, {what}: trace = ledger, output as without")(_nvcc)


@case("no device: clean errors, no trace")
def _():
    problems = []
    for name in ("runtime", "runtime_static"):
        done = run(name, "device", env={"SIM_DEVICES": 0})
        problems += same_as_without(done, name, "device", env={"SIM_DEVICES": 0})
        if done.traces:
            problems.append(f"{name}: traces {done.traces}")
    return problems


main()
