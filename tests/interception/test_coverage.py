#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `info` says of calls that bypass the recorder: the simulated driver's ledger knows them, and the sentence of
the limits names who made them, or says that none was found."""
import ctypes
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import PLAIN, Skip, case, main  # noqa: E402
from ways import *  # noqa: E402,F403

CUPTI = os.path.join(SIM, "cupti")
CLEAN = "no call that bypasses cutrace was found"
PLUGINS = {"libplugin13.so": "needs the runtime", "libplugin_static.so": "has a static runtime"}


def report(*words):
    r = subprocess.run([REPORT, *words], capture_output=True, text=True, env=PLAIN)
    return r.stdout


def coverage(done):
    (path,) = done.traces.values()
    return json.loads(check_ledger.validated("info", report("info", "--json", path)))["coverage"]


def limits(done):
    return coverage(done)["limits"]


def sizes(events):
    return sorted(e["bytes"] for e in events if e["op"] == "alloc")


def past(document):
    """Modules whose calls are not seen, by kind."""
    return {(m["module"], m["kind"]) for m in document["modules"] if m["seen"] is False}


def expect(what, got, want):
    return [] if got == want else [f"{what}: {got!r}, not {want!r}"]


# ---- modules ------------------------------------------------------------------------------------

def plugin_case(how, plugin, other):
    @case(f"a plugin that {PLUGINS[plugin]}, opened with {how}: works, is named, and its allocations are those that the trace lacks")
    def _():
        args = ("host_of_plugins", "local", program(other), how, program(plugin))
        done = run(*args)
        missing = sizes(done.ledger())
        for n in sizes(done.calls()):
            missing.remove(n)
        document = coverage(done)
        problems = expect("exit status", done.rc, 0) + same_as_without(done, *args)
        problems += expect("missing from the trace", missing, [4 << 20, (4 << 20) + 1])
        want = {("libplugin13.so", "calls"), ("libcudart.so.13", "look-ups")} if plugin == "libplugin13.so" else {
            ("libplugin_static.so", "look-ups")}
        problems += expect("past the hooks", past(document), want)
        problems += expect("copies of the driver", document["drivers"], 2 if how == "newlm" else 1)
        names = [name for name, _ in want]
        said = document["limits"]
        return problems + ([] if "bypass cutrace" in said and any(n in said for n in names) else [said])


for h in ("deepbind", "newlm"):
    plugin_case(h, "libplugin13.so", "libplugin_static.so")
    plugin_case(h, "libplugin_static.so", "libplugin13.so")


@case("the same plugins opened as usual: trace = ledger, nothing is said to go past, both runtimes are named")
def _():
    done = run("host_of_plugins", "local", *map(program, PLUGINS))
    document = coverage(done)
    runtimes = {m["module"] for m in document["modules"] if m["kind"] == "runtime" and m["seen"]}
    return good(done) + expect("limits", document["limits"], CLEAN) + expect(
        "runtimes", runtimes, {"libcudart.so.13", "libplugin_static.so"}) + expect("past", past(document), set())


@case("a plugin opened while the symbols of the first one are read: its runtime is named, and so are the frames of its calls")
def _():
    slow, where = program("libplugin13.so"), folder()
    said = os.path.join(where, "opened")
    done = run("host_of_plugins", "local", *map(program, PLUGINS), where=where, before=[program("libslow_open.so")],
               env={"SLOW_OPEN": slow, "SLOW_SAID": said, "WAYS_WAIT": said})
    runtimes = {m["module"] for m in coverage(done)["modules"] if m["kind"] == "runtime" and m["seen"]}
    stacks = [[f["name"] for f in e["stack"] or []] for e in done.events() if e["op"] == "alloc"]
    return good(done) + expect("runtimes", runtimes, {"libcudart.so.13", "libplugin_static.so"}) + expect(
        "allocations with their caller", [any(n == "plugin_run" for n in s) for s in stacks], [True] * 4)


@case("a plugin whose runtime looks the driver up and allocates nothing is named, too")
def _():
    done = run("host_of_plugins", "local", *map(program, PLUGINS), env={"WAYS_LAST": "plugin_count"})
    runtimes = {m["module"] for m in coverage(done)["modules"] if m["kind"] == "runtime" and m["seen"]}
    callers = {f["module"] for e in done.events() for f in e["stack"] or []}
    return good(done) + expect("runtimes", runtimes, {"libcudart.so.13", "libplugin_static.so"}) + [
        f"it is in a stack: nothing is tested: {m}" for m in callers if "libplugin_static" in (m or "")]


@case("RTLD_DEEPBIND with CUPTI: it hears the calls, so that trace = ledger, and nothing is said to be missing")
def _():
    if not os.path.exists(os.path.join(CUPTI, "libcupti.so.13")):
        raise Skip("built without CUPTI's headers")
    done = run("host_of_plugins", "local", program("libplugin_static.so"), "deepbind", program("libplugin13.so"),
               libraries=(CUPTI,), env={"CUTRACE_BACKEND": "cupti"})
    document = coverage(done)
    return good(done) + expect("limits", document["limits"], CLEAN) + expect("past", past(document), set()) + (
        [] if any(m["kind"] == "calls" and m["seen"] for m in document["modules"]) else [f"{document['modules']}"])


@case("an interposer before us that calls on: trace = ledger, it is named as one that may call on")
def _():
    done = run("driver_elf", "device", before=[program("libforwarder.so")])
    document = coverage(done)
    found = [(m["module"], m["kind"], m["seen"]) for m in document["modules"]]
    return good(done) + expect("modules", found, [("driver_elf", "calls-interposer", None)]) + expect(
        "limits", document["limits"], "calls of driver_elf go to another interposer first")


@case("an interposer before us that does not call on: the trace lacks calls, and the limits say who has them first")
def _():
    done = run("driver_elf", "device", before=[program("liblike_hami.so")])
    said = limits(done)
    return ([] if len(done.ledger()) > len(done.calls()) else ["it calls on: nothing is tested"]) + expect(
        "limits", said, "calls of driver_elf go to another interposer first")


@case("a program that the linker bound: nothing is past, and no module is unreadable")
def _():
    done = run("driver_elf", "device", "vmm", "async")
    document = coverage(done)
    return good(done) + expect("limits", document["limits"], CLEAN) + expect(
        "modules", (document["modules"], document["modules_unreadable"]), ([], 0)) + (
        [] if document["looks"] >= 1 and document["modules_seen"] >= 4 else [f"{document['looks']}"])


# ---- child processes ------------------------------------------------------------------------------

def child_case(how, what, untraced):
    @case(f"a child that {what}: {untraced} of those that used CUDA had no libcutrace.so, as ledgers and traces say")
    def _():
        done = run("starts_child", how)
        documents = [json.loads(report("info", "--json", path))["coverage"] for path in done.traces.values()]
        children = [d["children"] for d in documents if d["children"]["seen"]]
        problems = expect("exit status", done.rc, 0) + expect("parents", len(children), 1)
        truth = [pid for pid, path in done.ledgers.items()
                 if pid not in done.traces and check_ledger.read_ledger(path)]
        problems += expect("ledgers without a trace", len(truth), untraced)
        if children:
            problems += expect("children", children[0], {"seen": 1, "untraced": untraced, "unreadable": 0,
                                                         "untraced_names": "starts_child" if untraced else None})
        said = {d["limits"] for d in documents}
        want = "1 child process (starts_child) used CUDA without cutrace" if untraced else CLEAN
        return problems + ([] if want in said else [f"{said}"])


child_case("keeps", "keeps LD_PRELOAD", 0)
child_case("loses", "loses LD_PRELOAD", 1)
child_case("idle", "loses it and does not use CUDA", 0)


@case("CUTRACE_PRIVATE: a child without the library is counted and has no name")
def _():
    done = run("starts_child", "loses", env={"CUTRACE_PRIVATE": 1})
    children = coverage(done)["children"]
    return expect("children", (children["untraced"], children["untraced_names"]), (1, None)) + expect(
        "limits", limits(done), "1 child process used CUDA without cutrace")


# ---- look-ups -------------------------------------------------------------------------------------

def answers():
    """(how many of the runtime's look-ups the driver answers, how many with a function that has a hook). The driver is
    asked by this process, without the library."""
    driver = ctypes.CDLL(os.path.join(SIM, "libcuda.so.1"))
    with open(os.path.join(ROOT, "tests/sim/runtime/lookups.def"), encoding="ascii") as f:
        asked = re.findall(r"^SIMRT_LOOKUP\((\w+), (\d+), (\d+)\)", f.read(), re.M)
    exported = dict(re.findall(r"^(\w+) T (\w+)", "\n".join(
        f"{line.split()[0]} T {line.split()[2].split('@')[0]}" for line in subprocess.run(
            ["nm", "-D", "--defined-only", os.path.join(SIM, "libcuda.so.1")], capture_output=True, text=True,
            check=True).stdout.splitlines() if line.split()[1] == "T"), re.M))
    by_address = {int(a, 16): name for a, name in exported.items()}
    names = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    hooks = {line.split()[2] for line in names.splitlines()}
    base = ctypes.cast(driver.cuInit, ctypes.c_void_p).value - next(a for a, n in by_address.items() if n == "cuInit")
    found = hooked = 0
    for name, version, flags in asked:
        p, status = ctypes.c_void_p(), ctypes.c_int()
        r = driver.cuGetProcAddress_v2(name.encode(), ctypes.byref(p), int(version), ctypes.c_uint64(int(flags)),
                                       ctypes.byref(status))
        if r == 0 and p.value:
            found += 1
            hooked += by_address.get(p.value - base) in hooks
    return found, hooked


@case("look-ups by cuGetProcAddress: as many as the driver answers, and those with a hook got it")
def _():
    found, hooked = answers()
    done = run("runtime", "device")
    ways = {w["way"]: (w["seen"], w["wrapped"]) for w in coverage(done)["look_ups"]}
    return ([] if found > hooked > 50 else [f"{found} {hooked}"]) + expect(
        "cuGetProcAddress", ways["cuGetProcAddress"], (found, hooked)) + expect("dlsym", ways["dlsym"], (1, 1))


@case("names that passed are those without a hook, and no hooked one is among them")
def _():
    document = coverage(run("runtime", "device"))
    names = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    hooks = {line.split()[2] for line in names.splitlines()}
    passed = {p["name"] for p in document["passed"]}
    return [f"{n} passed, and has a hook" for n in passed & hooks] + ([] if "cuInit" in passed else ["cuInit is not there"]) + [
        f"{p}" for p in document["passed"] if p["is_hooked"]]


# ---- what was heard -------------------------------------------------------------------------------

@case("without an injection NVTX was not heard, and the page says so")
def _():
    done = run("driver_elf", "device")
    (path,) = done.traces.values()
    document = coverage(done)
    return expect("modules", document["nvtx_modules"], 0) + (
        [] if re.search(r"^ +NVTX +not heard$", report("info", path), re.M) else [report("info", path)])


@case("CUPTI and the audit: the counts are those of info")
def _():
    if not os.path.exists(os.path.join(CUPTI, "libcupti.so.13")):
        raise Skip("built without CUPTI's headers")
    done = run("driver", "hidden", "device", libraries=(CUPTI,), env={"CUTRACE_AUDIT": 1})
    facts = done.info()["info"]
    sums = {side: sum(int(v) for k, v in facts.items() if k.startswith(f"audit.{side}."))
            for side in ("both", "only_cupti", "only_preload")}
    document = coverage(done)
    return good(done) + expect("audit", document["audit"], {
        "both": sums["both"], "only_cupti": sums["only_cupti"], "only_hooks": sums["only_preload"]}) + (
        [] if sums["only_cupti"] else ["nothing is tested"]) + expect("state", document["cupti_state"], "on")


@case("the exit waits for the look: forty short programs all have one")
def _():
    looks = [coverage(run("driver_elf", "device"))["looks"] for _ in range(40)]
    return [] if min(looks) >= 1 else [f"{looks}"]


main()
