# SPDX-License-Identifier: Apache-2.0
"""deepbind: a plugin opened with RTLD_DEEPBIND calls past every preloaded function. CUPTI shows its calls: by
CUTRACE_BACKEND=cupti, or where the driver loads the library (CUDA_INJECTION64_PATH)."""
import machine
import section_cupti
import section_ways_in
from gpu_check import check
from machine import Skip, need

# How the library comes into the process: what the environment has besides, or lacks (None).
WAYS = {
    "backend-cupti": {"CUTRACE_BACKEND": "cupti"},
    "injected": {"LD_PRELOAD": None, "CUDA_INJECTION64_PATH": machine.LIBRARY},
    "injected-and-preloaded": {"CUDA_INJECTION64_PATH": machine.LIBRARY},
}


def program():
    return machine.compiled("opens_plugin", ["opens_plugin.c"], "-ldl")


def plugin(linkage):
    return machine.compiled(f"plugin-{linkage}.so", ["runtime.c"], "-shared", "-fPIC", "-Dmain=plugin_main",
                            *section_ways_in.runtime_flags(linkage))


def run(how, linkage, way):
    """The plugin under the library; what fails without it as well is no finding."""
    command = [program(), how, plugin(linkage)]
    plain = machine.run(f"{how}-plain", command, traced=False)
    if plain.rc:
        raise Skip(f"fails without cutrace, too: {plain.err.strip()[-300:]}")
    return machine.run(f"{how}-{way}", command, CUTRACE_CUPTI=section_cupti.library(), **WAYS[way]).good()


def compare(how, linkage, way):
    done = run(how, linkage, way)
    found = section_cupti.facts(done.trace())
    need(found["cupti.state"] == "on", f"CUPTI: {found['cupti.state']}")
    n, extra = section_ways_in.compare(done, static=True)
    only = sum(section_cupti.side(found, "only_cupti").values())
    need(only >= n, f"CUPTI alone saw {only} of {n} calls: the hooks saw the others")
    return f"{n} calls as in the plugin's ledger, all through CUPTI", {
        "calls": n, "by_itself": sorted({e["api"] or e["op"] for e in extra}), "loaded_by": found.get("load.ways")}


def plugin_check(how, linkage, way):
    @check(how, f"{linkage}-{way}")
    def one():
        return compare(how, linkage, way)


for _linkage in ("shared", "static"):
    for _way in WAYS:
        plugin_check("deepbind", _linkage, _way)


@check("deepbind", "driver-calls-the-tool")
def tool():
    """What the injection rests on: cuInit opens the library that CUDA_INJECTION64_PATH names, and calls it once."""
    library = machine.compiled("injected_tool.so", ["../interception/libinjected_tool.c"], "-shared", "-fPIC", "-ldl")
    ways = [machine.driver_program("ways", ["ways.c", "../interception/load.c"]), "dlsym"]
    done = machine.run("tool", ways, traced=False, CUDA_INJECTION64_PATH=library).good()
    calls = done.err.count("tool: called\n")
    need(calls == 1, f"InitializeInjection was called {calls} times")
    return "cuInit called InitializeInjection once"
