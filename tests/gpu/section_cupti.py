# SPDX-License-Identifier: Apache-2.0
"""cupti: CUPTI shows the calls that the hooks see and those that they do not, and is left to PyTorch's profiler."""
import glob
import json
import os
import sys

import machine
import section_torch
import section_ways_in
from gpu_check import check
from machine import Skip, need

PROFILER = """
import json, torch
from torch.profiler import ProfilerActivity, profile
a = torch.randn(512, 512, device="cuda")
with profile(activities=[ProfilerActivity.CUDA]) as p:
    for _ in range(8):
        a = (a @ a).add_(1)
    torch.cuda.synchronize()
print(json.dumps({"kernels": sum(e.count for e in p.key_averages())}))
"""


def library():
    pattern = "cupti/libcupti.so.13" if machine.SIMULATED else "libcupti.so.1[23]"
    given = [p for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d and not machine.SIMULATED
             for p in sorted(glob.glob(os.path.join(d, pattern)))]
    found = given[0] if given else machine.find_library(pattern) or machine.find_library("../extras/CUPTI/lib64/libcupti.so.1[23]")
    if not found:
        raise Skip("no libcupti.so.12 or .13 on this machine")
    return found


def run(name, command, **env):
    """A program under the audit; CUPTI was on, or the check says why not."""
    done = machine.run(f"cupti-{name}", command, CUTRACE_AUDIT="1", CUTRACE_CUPTI=library(), **env)
    if done.rc == 77:
        raise Skip(done.err.strip()[-200:])
    return done.good()


def facts(trace):
    found = machine.info(trace)
    need(found.get("cupti.state"), "the trace says nothing of CUPTI")
    return found


def side(found, which):
    start = f"audit.{which}."
    return {k[len(start):]: int(v) for k, v in found.items() if k.startswith(start)}


def agree(traces):
    """Both ways saw every call of these traces; returns how many."""
    calls, differences = 0, []
    for trace in traces:
        found = facts(trace)
        need(found["cupti.state"] == "on", f"CUPTI: {found['cupti.state']}")
        calls += sum(side(found, "both").values())
        differences += [f"{which} {api} {n} ({found.get(f'audit.{which}_callers.{api}')})"
                        for which in ("only_cupti", "only_preload") for api, n in side(found, which).items()]
    need(calls, "nothing was compared")
    need(not differences, f"{len(differences)} differences: {', '.join(differences)}")
    return calls


def program(way):
    return [machine.driver_program("ways", ["ways.c", "../interception/load.c"]), way]


def driver_check(way):
    @check("cupti", f"audit-driver-{way}")
    def one():
        done = run(way, program(way))
        n, _ = section_ways_in.compare(done)
        calls = agree(done.traces)
        return f"{n} calls as in the program's ledger, none twice; hooks and CUPTI saw the same {calls}", {"calls": calls}


for _way in ("dlsym", "chain2"):
    driver_check(_way)


@check("cupti", "hidden-calls")
def hidden():
    """Calls through the driver's own symbol table: no hook sees them."""
    done = run("hidden", program("hidden"))
    n, _ = section_ways_in.compare(done)
    only = sum(side(facts(done.trace()), "only_cupti").values())
    need(only >= n, f"CUPTI alone saw {only} of {n} calls: the hooks saw the others")
    return f"{n} calls as in the program's ledger, all through CUPTI", {"calls": n}


def left_after_context(done):
    (lines,) = done.good().own().values()
    return next(line["free"] for line in lines if line["op"] == "checkpoint" and line["name"] == "context")


@check("cupti", "own-memory")
def own_memory():
    """What the subscription itself takes of the device until the context is there. No activity is enabled."""
    alone = machine.run("plain", program("dlsym"), traced=False)
    beside = machine.run("beside", program("dlsym"), CUTRACE_BACKEND="cupti", CUTRACE_CUPTI=library())
    need(facts(beside.trace())["cupti.state"] == "on", "CUPTI is not on")
    taken = left_after_context(alone) - left_after_context(beside)
    return f"{machine.mib(taken)} of the device", {"bytes": taken}


@check("cupti", "audit-torch", gpu=True)
def torch():
    section_torch.available()
    calls = 0
    for mode in ("training", "inference"):
        calls += agree(run(f"torch-{mode}", [sys.executable, section_torch.SCRIPT, mode], timeout=90).traces)
    return f"hooks and CUPTI saw the same {calls} calls of PyTorch", {"calls": calls}


@check("cupti", "audit-libraries", gpu=True)
def libraries():
    calls = {}
    for name, file in section_ways_in.LIBRARIES:
        path = machine.find_library(file)
        if path:
            done = run(name, [sys.executable, f"{machine.HERE}/libraries.py", name, path], timeout=60)
            calls[name] = agree(done.traces)
    if not calls:
        raise Skip("none of the libraries is here")
    return "hooks and CUPTI saw the same calls: " + ", ".join(f"{n} of {k}" for k, n in calls.items()), {"calls": calls}


@check("cupti", "profiler", gpu=True)
def profiler():
    """PyTorch's profiler beside the backend finds what it finds alone."""
    section_torch.available()
    command = [sys.executable, "-c", PROFILER]
    alone = machine.run("profiler-alone", command, traced=False).good()
    beside = machine.run("profiler", command, CUTRACE_BACKEND="cupti", CUTRACE_CUPTI=library()).good()
    kernels = [json.loads(done.out.splitlines()[-1])["kernels"] for done in (alone, beside)]
    state = facts(beside.trace())["cupti.state"]
    need(kernels[0] and kernels[0] == kernels[1], f"{kernels[0]} records alone, {kernels[1]} beside cutrace ({state})")
    return f"{kernels[0]} records alone and beside cutrace ({state})", {"records": kernels, "state": state}
