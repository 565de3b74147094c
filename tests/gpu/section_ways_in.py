# SPDX-License-Identifier: Apache-2.0
"""ways-in: programs that reach the driver in every way; truth is their own ledger and free memory."""
import functools
import json
import os
import sys

import account
import machine
from gpu_check import check
from machine import Fail, Skip, mib, need

WAYS = ["dlsym", "default", "dlvsym", "getproc1", "getproc2", "chain1", "chain2"]


def compare(done, static=False):
    """Each process's trace equals its own ledger; returns (calls compared, events by themselves)."""
    compared, by_itself = 0, []
    own = done.good().own()
    need(own, "the program wrote no ledger")
    need(len(done.traces) == len(own), f"{len(own)} processes and {len(done.traces)} traces")
    for pid, lines in own.items():
        (trace,) = [t for t in done.traces if f".{pid}." in os.path.basename(t)] or [None]
        need(trace, f"no trace of process {pid}")
        if any(line["op"] != "checkpoint" for line in lines):
            n, extra = account.match(machine.events(trace), lines, static)
            compared, by_itself = compared + n, by_itself + extra
    return compared, by_itself


def explained(done, limit_mib=16):
    """What left "free", step by step; fails if much of it cannot be explained."""
    (lines,), trace = done.own().values(), done.trace()
    steps, totals = account.explain(machine.events(trace), lines)
    if "wrong-figure" in machine.PLANTS:
        steps[0]["unexplained"] += 1 << 30
    for s in steps:
        if abs(s["unexplained"]) > limit_mib * machine.MIB:
            raise Fail(f"step {s['step']}: {mib(s['left_free'])} left free, {mib(s['tracked'])} tracked, "
                       f"{mib(s['unexplained'])} unexplained")
    return steps, totals


@functools.lru_cache(None)
def driver(way, *arguments):
    if way == "elf":
        library = machine.driver_file()
        if not library:
            raise Skip("libcuda.so.1 was not found by name, so nothing can be linked to it")
        program = machine.driver_program("ways_elf", ["ways.c"], "-DWAYS_ELF", library)
        return machine.run("elf", [program, *arguments])
    program = machine.driver_program("ways", ["ways.c", "../interception/load.c"])
    return machine.run(way, [program, way, *arguments])


def driver_check(way):
    @check("ways-in", f"driver-{way}")
    def one():
        done = driver(way)
        if done.rc == 77:
            raise Skip(done.err.strip())
        n, extra = compare(done)
        steps, totals = explained(done)
        return f"{n} calls as in the program's ledger; left free: {account.say(steps)}", {
            "calls": n, "by_itself": len(extra), "steps": steps, "taken": totals}


for _way in ["elf", *WAYS]:
    driver_check(_way)


@check("ways-in", "ipc-two-processes")
def ipc():
    n, _ = compare(driver("dlsym", "ipc"))
    return f"{n} calls of two processes as in their ledgers", {"calls": n}


@check("ways-in", "ctypes")
def ctypes_program():
    done = machine.run("ctypes", [sys.executable, os.path.join(machine.HERE, "ctypes_driver.py")])
    n, _ = compare(done)
    steps, totals = explained(done)
    return f"{n} calls as in the program's ledger; left free: {account.say(steps)}", {
        "calls": n, "steps": steps, "taken": totals}


def modules(mode):
    @check("ways-in", f"module-loading-{mode.lower()}", gpu=True)
    def one():
        program = machine.driver_program("ways", ["ways.c", "../interception/load.c"])
        done = machine.run(mode, [program, "getproc2"], CUDA_MODULE_LOADING=mode)
        compare(done)
        steps, _ = explained(done)
        taken = {s["step"]: s["left_free"] for s in steps if s["kind"] in ("module", "context")}
        return ", ".join(f"{k} {mib(v)}" for k, v in taken.items()), taken


for _mode in ("LAZY", "EAGER"):
    modules(_mode)


# ---- the runtime API ----------------------------------------------------------------------------------

def runtime_flags(linkage):
    if linkage == "static":
        name = "libsimcudart.a" if machine.SIMULATED else "libcudart_static.a"
        library = machine.find_library(name)
        if not library:
            raise Skip(f"no {name} here")
        # The symbols of NVIDIA's are local; those of the stand-in become so.
        return [library, "-Wl,--exclude-libs,ALL", "-lrt", "-ldl", "-lpthread"]
    library = machine.find_library("libcudart.so.1[0-9]")
    if not library:
        raise Skip("no libcudart.so here")
    return [library, "-Wl,-rpath," + os.path.dirname(library)]


@functools.lru_cache(None)
def runtime(linkage, by):
    flags = runtime_flags(linkage)
    if by == "nvcc":
        nvcc = machine.nvcc()
        if not nvcc:
            raise Skip("no nvcc here")
        if machine.SIMULATED:
            how = [nvcc, "-x", "cu", "-cudart", "none"]
        else:
            how = [nvcc, "-x", "cu", "-cudart", linkage]
            if linkage == "shared":
                how += ["-Xlinker", "-rpath", "-Xlinker", os.path.dirname(flags[0])]
        # -x cu would make CUDA sources of the libraries behind it, too.
        if machine.SIMULATED:
            machine.compiled("runtime.o", ["runtime.c"], "-c", compiler=how)
            return machine.compiled(f"runtime-{linkage}-nvcc", [], os.path.join(machine.work(), "runtime.o"), *flags,
                                    "-lstdc++")
        return machine.compiled(f"runtime-{linkage}-nvcc", ["runtime.c"], compiler=how)
    return machine.compiled(f"runtime-{linkage}-gcc", ["runtime.c"], *flags)


def runtime_check(linkage, by):
    @check("ways-in", f"runtime-{linkage}-{by}")
    def one():
        done = machine.run(f"runtime-{linkage}", [runtime(linkage, by), "all"])
        n, extra = compare(done, static=linkage == "static")
        steps, totals = explained(done)
        return f"{n} calls as in the program's ledger; left free: {account.say(steps)}", {
            "calls": n, "by_itself": sorted({e["api"] or e["op"] for e in extra}), "steps": steps, "taken": totals}


for _linkage in ("shared", "static"):
    for _by in ("gcc", "nvcc"):
        runtime_check(_linkage, _by)


# ---- NVIDIA's libraries -------------------------------------------------------------------------------

@functools.lru_cache(None)
def run_of(name, path):
    done = machine.run(name, [sys.executable, os.path.join(machine.HERE, "libraries.py"), name, path])
    if done.rc == 77:
        raise Skip(done.err.strip()[-200:])
    return done.good()


def library_check(name, file):
    @check("ways-in", f"nvidia-{name}", gpu=True)
    def one():
        path = machine.find_library(file)
        if not path:
            raise Skip(f"no {file} here")
        done = run_of(name, path)
        trace = done.trace()
        events = machine.events(trace)
        (lines,) = done.own().values()
        steps, _ = account.explain(events, lines)
        calls = [e for e in account.calls_of(events) if e["op"] in ("alloc", "create") and e["result"] == 0]
        need(any(e["bytes"] == 8 << 20 for e in calls), "the program's own buffer is not in the trace")
        figures = {"allocations": len(calls), "bytes": sum(e["bytes"] for e in calls), "steps": steps,
                   "apis": sorted({e["api"] for e in calls if e["api"]}), "unwrapped": unwrapped(trace)}
        return f"{len(calls)} allocations, {mib(figures['bytes'])}; left free: {account.say(steps)}", figures


def unwrapped(trace):
    return sorted({k.split(".")[1] for k in machine.info(trace) if k.startswith("unwrapped.")})


LIBRARIES = (("cublas", "libcublas.so.1[0-9]"), ("cufft", "libcufft.so.1[0-9]"),
             ("cusolver", "libcusolver.so.1[0-9]"), ("nccl", "libnccl.so.2"))
for _name, _file in LIBRARIES:
    library_check(_name, _file)


# ---- frameworks that are not PyTorch --------------------------------------------------------------------

def framework_check(name):
    @check("ways-in", f"framework-{name}", gpu=True)
    def one():
        command = [sys.executable, os.path.join(machine.HERE, "frameworks.py"), name]
        done = machine.run(name, command)
        if done.rc == 77:
            raise Skip(done.err.strip()[-200:])
        if done.rc:
            plain = machine.run(name, command, traced=False)
            raise (Skip if plain.rc else Fail)(f"fails with{'out' if plain.rc else ''} cutrace: {done.err.strip()[-300:]}")
        said, most = json.loads(done.out.splitlines()[-1]), 0
        for trace in done.traces:
            summary = machine.summary(trace)
            most = max([most, *(d["peak_bytes"] + d["pooled_bytes"] for d in summary["devices"])])
        need(most >= said["holds"], f"{mib(most)} at the peak of the trace, {name} says that it holds {mib(said['holds'])}")
        return f"{mib(most)} at the peak of the trace; {name} holds {mib(said['holds'])}", {"peak": most, **said}


for _name in ("cupy", "jax", "numba"):
    framework_check(_name)
