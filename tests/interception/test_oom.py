#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that take memory beside their work: each that runs out of memory is an event, and no other result makes one.

The truth is SIM_LOG, where the simulated driver writes each call with its result.
"""
import collections
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, main  # noqa: E402
from ways import *  # noqa: E402,F403

OOM, MIB = 2, 1 << 20
LOOK_UPS = ("cuModuleGetFunction cuModuleGetGlobal_v2 cuLibraryGetKernel cuLibraryGetModule cuLibraryGetGlobal cuLibraryGetManaged "
            "cuKernelGetFunction cuFuncLoad").split()
LAUNCHES = ("cuLaunchKernel cuLaunchKernel_ptsz cuLaunchKernelEx cuLaunchKernelEx_ptsz cuLaunchCooperativeKernel "
            "cuLaunchCooperativeKernel_ptsz cuLaunchCooperativeKernelMultiDevice cuLaunch cuLaunchGrid cuLaunchGridAsync").split()
ATTRIBUTES = ("cuFuncGetAttribute cuFuncSetAttribute cuKernelGetAttribute cuKernelSetAttribute "
              "cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags").split()
STREAMS = "cuStreamCreate cuStreamCreateWithPriority cuGreenCtxStreamCreate cuEventCreate cuCtxEnablePeerAccess".split()
GRAPHS = ("cuGraphInstantiate cuGraphInstantiate_v2 cuGraphInstantiateWithFlags cuGraphInstantiateWithParams "
          "cuGraphInstantiateWithParams_ptsz cuGraphUpload cuGraphUpload_ptsz cuGraphLaunch cuGraphLaunch_ptsz cuGraphExecUpdate "
          "cuGraphExecUpdate_v2").split()
LOADS = "cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuLibraryLoadData cuLibraryLoadFromFile".split()
CONTEXTS = "cuCtxCreate cuCtxCreate_v2 cuCtxCreate_v3 cuCtxCreate_v4 cuGreenCtxCreate".split()
REST = ("cuMemPoolCreate cuMemPoolSetAccess cuMemHostRegister cuMemHostRegister_v2 cuMemHostAlloc cuMemAllocHost_v2 cuCtxSetLimit "
        "cuMemAddressReserve cuMemMap cuMemSetAccess cuMemCreate cuMemExportToShareableHandle").split()
# What to fail, and the scenarios that call it.
GROUPS = {"code": (LOOK_UPS + ATTRIBUTES + LAUNCHES, ["code"]), "streams": (STREAMS + GRAPHS, ["streams", "graph", "instantiate"]),
          "loads": (LOADS, ["modules"]), "contexts": (CONTEXTS, ["contexts", "green"]),
          "rest": (REST, ["pools", "host", "limits", "vmm"])}


def op_of(api):
    for apis, op in ((LOOK_UPS + LOADS, "module-load"), (ATTRIBUTES + LAUNCHES + STREAMS + GRAPHS, "memory-sample"), (CONTEXTS, "context-create")):
        if api in apis:
            return op
    return None


def failing(apis, result):
    return ",".join("%s:*:%d" % (api, result) for api in apis)


def logged(done, apis, result):
    """How often each function returned the result, by the driver's own log."""
    with open(os.path.join(done.folder, "log")) as f:
        calls = [line.split() for line in f if "look-up" not in line]
    return collections.Counter(name for _, _, name, got in calls if name in apis and int(got) == result)


def scripted(program_and_way, apis, scenarios, result):
    """Runs the scenarios with every call of the functions failing: what happened, and what is wrong beside that."""
    env = {"SIM_DEVICES": 2, "SIM_FAIL": failing(apis, result), "SIM_LOG": "log"}
    done = run(*program_and_way, *scenarios, env=env)
    problems = [] if done.rc == 0 else ["exit status %d: %s" % (done.rc, done.err[-300:])]
    return done, problems + same_as_without(done, *program_and_way, *scenarios, env=env)


def ooms_of(done):
    """Calls that ran out of memory by the trace, and by the views."""
    (path,) = done.traces.values()
    events = [e for e in done.events() if e["result"] == OOM]
    listed = json.loads(check_ledger.report(REPORT, "oom", path))["ooms"]
    return events, listed


WAYS = {"symbols": ["driver_elf"], "dlsym": ["driver", "dlsym"], "cuGetProcAddress": ["driver", "getproc2"]}


def group_case(way, name):
    apis, scenarios = GROUPS[name]

    @case("%s, %s: each call that runs out of memory is one event and one failure" % (way, name))
    def _():
        done, problems = scripted(WAYS[way], apis, scenarios, OOM)
        events, listed = ooms_of(done)
        truth = logged(done, apis, OOM)
        got = collections.Counter(e["api"] for e in events if e["api"] in apis)
        if got != truth or set(truth) != set(apis):
            problems.append("not recorded: %s; recorded too often: %s; never called: %s" % (truth - got, got - truth, set(apis) - set(truth)))
        if collections.Counter(o["event"] for o in listed) != collections.Counter(e["event"] for e in events):
            problems.append("the view oom has other events")
        for e in events:
            if op_of(e["api"]) not in (None, e["op"]):
                problems.append("%s is a %s" % (e["api"], e["op"]))
            if not e["stack"]:
                problems.append("%s has no stack" % e["api"])
        for o in listed:
            if op_of(o["api"]) and (o["requested_bytes"], o["reason"], o["recovered"]) != (None, "size-unknown", None):
                problems.append("%s: %s" % (o["api"], o))
        return problems


for a_way in WAYS:
    for a_group in GROUPS:
        group_case(a_way, a_group)


def other_result_case(result):
    @case("result %d of the same calls makes no failure" % result)
    def _():
        problems = []
        for name in ("code", "streams", "loads", "contexts"):
            apis, scenarios = GROUPS[name]
            done, more = scripted(WAYS["symbols"], apis, scenarios, result)
            events, listed = ooms_of(done)
            truth = logged(done, apis, result)
            problems += more + ([] if set(truth) == set(apis) else ["never called: %s" % (set(apis) - set(truth))])
            problems += ["%s counts as a failure" % e["api"] for e in (*events, *listed) if e["api"] in apis]
            problems += ["%s is recorded" % e["api"] for e in done.events()
                         if e["result"] == result and e["api"] in LOOK_UPS + ATTRIBUTES + LAUNCHES + STREAMS]
        return problems


other_result_case(1)
other_result_case(400)


@case("without a failure only look-ups that loaded code are events, and what they took is what was charged")
def what_is_loaded():
    kib = 768
    done = run("driver_elf", "code", env={"SIM_MODULE_KB": kib, "SIM_LOG": "log", "CUDA_MODULE_LOADING": "LAZY"})
    events = [e for e in done.events() if e["api"] in LOOK_UPS + LAUNCHES]
    costs = {e["api"]: e["free_before_bytes"] - e["free_bytes"] for e in events}
    # The variable takes its own chunk, and the kernel's module is loaded for the context.
    want = {"cuModuleGetFunction": kib << 10, "cuModuleGetGlobal_v2": 2 * MIB, "cuKernelGetFunction": kib << 10}
    took = {d["module_bytes"] for d in done.summary()["devices"]}
    problems = [] if costs == want and len(events) == 3 else ["%s, not %s" % (costs, want)]
    return problems + ([] if took == {sum(want.values())} else ["the summary says %s" % took]) + good(done)


@case("of look-ups that load nothing, sixteen and then one in sixteen are measured")
def few_are_measured():
    done = run("driver_elf", "look_ups", env={"SIM_LOG": "log"})
    asked = logged(done, ["cuMemGetInfo_v2"], 0)["cuMemGetInfo_v2"]
    # Two readings each; and those of the context, of the module's load and at intervals.
    return [] if 2 * (16 + 100) <= asked <= 2 * (16 + 102) + 12 else ["%d readings" % asked]


def exhausted_case(name, way, api, env):
    @case("%s no longer fits, %s: the driver's free memory is in the event" % (api, name))
    def _():
        done = run(*way, env={"SIM_LOG": "log", "CUDA_MODULE_LOADING": "LAZY", **env})
        events, listed = ooms_of(done)
        last = [e for e in events if e["api"] == api]
        if not last or logged(done, [api], OOM)[api] != len(last):
            return ["%s by the driver, recorded %s" % (logged(done, [api], OOM), [e["api"] for e in events])]
        free = [e for e in done.ledger() if e["result"] == OOM and e["op"] == "alloc"][-1]["free"]
        got = {e["free_bytes"] for e in last}
        return good(done) + ([] if got == {free} else ["free %s, not %s" % (got, free)])


SMALL = {"SIM_MEM_MB": 256}
exhausted_case("ELF", ["driver_elf", "exhaust"], "cuModuleGetFunction", {**SMALL, "SIM_MODULE_KB": 65536})
exhausted_case("ELF", ["driver_elf", "exhaust"], "cuLaunchKernel", {**SMALL, "SIM_MODULE_KB": 65536})
exhausted_case("ELF", ["driver_elf", "exhaust"], "cuGraphInstantiateWithFlags", {**SMALL, "SIM_GRAPH_KB": 65536})
exhausted_case("cuGetProcAddress", ["driver", "getproc2", "exhaust"], "cuLaunchKernel", {**SMALL, "SIM_MODULE_KB": 65536})
exhausted_case("ELF", ["driver_elf", "exhaust"], "cuCtxCreate_v2", SMALL)
exhausted_case("ELF", ["driver_elf", "exhaust"], "cuStreamCreate", {**SMALL, "SIM_STREAM_KB": 65536})
exhausted_case("ELF", ["driver_elf", "exhaust"], "cuEventCreate", {**SMALL, "SIM_EVENT_KB": 65536})


def line_case(api, scenario, request, more=""):
    @case("%s: the line on stderr" % api)
    def _():
        env = {"SIM_FAIL": "%s:1:%d" % (api, OOM), "CUTRACE_QUIET": None, "SIM_LEDGER": None}
        done = run("driver_elf", scenario, env=env)
        lines = [line for line in done.err.splitlines() if re.search(request, line)]
        (path,) = done.traces.values()
        want = r"cutrace: %sout of memory: %s failed( \([^)]*\))?%s; run: cutrace-report %s" % (
            "GPU 0 " if more else "", request, more, re.escape(path))
        return [] if len(lines) == 1 and re.fullmatch(want, lines[0]) else [done.err[-600:]]


for an_api, a_scenario in (("cuLaunchKernel", "code"), ("cuModuleGetFunction", "code"), ("cuModuleLoadData", "code"),
                           ("cuStreamCreate", "streams"), ("cuEventCreate", "streams"),
                           ("cuGraphInstantiateWithFlags", "streams"), ("cuGraphUpload", "streams")):
    line_case(an_api, a_scenario, an_api + " of unknown size", r": free 9[56]\d\.\d\d MiB of 1\.00 GiB, this process .* tracked.*")
line_case("cuMemHostRegister_v2", "host", r"cuMemHostRegister_v2 of [0-9.]+ [MK]iB of page-locked host memory")


def runtime_case(binary, api, seen):
    @case("%s: %s out of memory inside a call of the runtime" % (binary, api))
    def _():
        env = {"SIM_FAIL": "%s:*:%d" % (api, OOM), "SIM_LOG": "log"}
        done = run(binary, "code", env=env)
        events, _ = ooms_of(done)
        truth = logged(done, [api], OOM)[api]
        problems = same_as_without(done, binary, "code", env=env)
        if not truth or [e["api"] for e in events] != [seen] * truth:
            problems.append("%d by the driver, recorded %s" % (truth, [e["api"] for e in events]))
        return problems


for of in ("runtime", "runtime_static"):
    for driver_api, runtime_api in (("cuStreamCreate", None), ("cuEventCreate", None), ("cuGraphLaunch", None), ("cuLaunchKernel", None),
                                    ("cuGraphInstantiateWithFlags", "cudaGraphInstantiateWithFlags")):
        runtime_case(of, driver_api, driver_api if of == "runtime_static" or not runtime_api else runtime_api)


@case("errno is the driver's own, whether a call runs out of memory or not")
def errno_is_kept():
    env = {"SIM_FAIL": failing(["cuLaunchKernel", "cuStreamCreate", "cuEventCreate"], OOM), "SIM_LOG": "log"}
    done = run("errno_and_dlerror", env=env)
    problems = [] if len(ooms_of(done)[0]) == 5 else ["%d events" % len(ooms_of(done)[0])]  # with two of cuMemAlloc
    return problems + same_as_without(done, "errno_and_dlerror", env=env)


main()
