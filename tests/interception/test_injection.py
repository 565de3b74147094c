#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libcutrace.so as CUDA_INJECTION64_PATH: the (simulated) driver loads it in cuInit, and the stand-in libcupti shows it
the calls. Alone, it records what no preloaded library could see; with LD_PRELOAD there is one start and one trace."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, main, repeat, skip_all  # noqa: E402
from ways import *  # noqa: E402,F403

CUPTI = os.path.join(SIM, "cupti")
if not os.path.exists(os.path.join(CUPTI, "libcupti.so.13")):
    skip_all("built without CUPTI's headers")

INJECTED = {"CUDA_INJECTION64_PATH": LIBRARY}
SCENARIOS = ("device invalid no_context fill async pools vmm retained expandable multicast arrays sparse host share "
             "graphics graph instantiate capture limits modules code streams").split()


def injected(*command, env=None, preload=False, libraries=(CUPTI,), **kw):
    return run(*command, preload=preload, libraries=libraries, env={**INJECTED, **(env or {})}, **kw)


def fact(done, key):
    return done.info()["info"].get(key)


def loaded_by(done, *ways):
    found = fact(done, "load.ways")
    return [] if found == ", ".join(ways) else [f"load.ways: {found}"]


ALONE, BOTH = ("CUDA_INJECTION64_PATH",), ("LD_PRELOAD", "CUDA_INJECTION64_PATH")


# ---- alone --------------------------------------------------------------------------------------

def alone_case(*command, **kw):
    @case(f"{' '.join(command[:2])}, injected alone: trace = ledger, output as without")
    def _():
        done = injected(*command, **kw)
        return good(done) + same_as_without(done, *command, **kw) + loaded_by(done, *ALONE)


alone_case("driver_elf", *SCENARIOS, env={"SIM_DEVICES": 2})
for _s in ("contexts", "reset", "green"):
    alone_case("driver_elf", _s, env={"SIM_DEVICES": 2})
alone_case("driver", "hidden", *SCENARIOS, env={"SIM_DEVICES": 2})
for _p in ("runtime", "runtime_static"):
    alone_case(_p, "device", "async", "host", "arrays", "threads")
alone_case("driver_elf", "threads")
alone_case("random_calls", "11", "20", "60", "8")


# ---- plugins that the linker hides --------------------------------------------------------------

def plugin_case(how, what, plugin, kind, preload):
    @case(f"seen: a plugin that {kind}, opened with {what}, injected {'with LD_PRELOAD' if preload else 'alone'}")
    def _():
        command = ("host_of_plugins", how, program(plugin))
        done = injected(*command, preload=preload)
        takes = [e for e in done.calls() if e["op"] == "alloc"]
        problems = good(done) + same_as_without(done, *command)
        if len(done.traces) != 1 or len(takes) != 2:
            problems.append(f"{len(done.traces)} traces, {len(takes)} allocations")
        inner = [f["name"] for e in takes for f in (e["stack"] or [])[:6]]
        return problems + ([] if inner.count("plugin_run") == 2 else [f"stacks: {inner}"])


for _how, _what in (("deepbind", "RTLD_DEEPBIND"), ("newlm", "dlmopen into a new namespace")):
    for _plugin, _kind in (("libplugin13.so", "needs the runtime"), ("libplugin_static.so", "has a static runtime")):
        for _preload in (False, True):
            plugin_case(_how, _what, _plugin, _kind, _preload)


@case("a thread of another name space: the program's C library knows of it, else the loader's lock is broken")
def _():
    command = ("host_of_plugins", "newlm", program("libplugin13.so"))
    said = [p.out.splitlines()[-1] for preload in (False, True)
            for p in [injected(*command, env={"WAYS_THREADS": "1"}, preload=preload)]]
    return [] if said == ["knows its threads"] * 2 else [f"{said}"]


@case("a plugin in another name space: the program's thread-specific data is as it was")
def _():
    # (the C library of each name space counts keys from 0, and their values lie at one place of a thread)
    command = ("host_of_plugins", "newlm", program("libplugin13.so"))
    said = [injected(*command, env={"WAYS_KEYS": "1"}, preload=preload).out.splitlines()[-1] for preload in (False, True)]
    return [] if said == ["changed keys: 0"] * 2 else [f"{said}"]


for _how in ("exit", "_exit"):
    @case("the program forks while the recorder of another name space is inside the loader: the fork waits; the child, which ends "
          f"by {_how}(), loads a library")
    def _(how=_how):
        problems = []
        for preload in (False, True):
            def fork_while_loading(preload=preload):
                where = folder()
                slow = os.path.join(where, "slow")
                os.mkdir(slow)
                os.symlink(program("libslow_load.so"), os.path.join(slow, "libnvidia-ml.so.1"))
                # Without LD_PRELOAD the copy in the other name space is the only one.
                return injected("host_of_plugins", "newlm", program("libplugin13.so"), preload=preload, where=where, libraries=(CUPTI, slow),
                                env={"WAYS_FORK": how, "WAYS_SLOW_LOAD": os.path.join(where, "meet")})

            # (99: it was not waited for. A fork waits for 50 ms; the thread in the loader may have no core for longer.)
            done = repeat(fork_while_loading, lambda done: done.out.splitlines()[-1] != f"child: {99 << 8}")
            # (CUDA does not work in the child of a process that has used it: 3, CUDA_ERROR_NOT_INITIALIZED)
            problems += good(done) + ([] if done.out.splitlines()[-1] == f"child: {3 << 8}" else [done.out])
        return problems


for _how, _rc in (("killed", -9), ("exec", 0), ("exit", 0)):
    @case(f"a plugin in another name space, and the program ends by {_how}: trace = ledger")
    def _(how=_how, rc=_rc):
        return [problem for preload in (False, True) for plugin in ("libplugin13.so", "libplugin_static.so")
                for problem in good(injected("host_of_plugins", "newlm", program(plugin), env={"WAYS_END": how}, preload=preload), rc=rc)]


def of_name_spaces(plugins, **env):
    """A plugin in each of so many name spaces: the traces, and their and the ledger's allocations and frees."""
    command = ("host_of_plugins", "newlm", *[program(("libplugin13.so", "libplugin_static.so")[i % 2]) for i in range(plugins)])
    done = injected(*command, env=env)
    traces = [os.path.join(done.folder, n) for n in os.listdir(done.folder)
              if n.startswith("trace.") and not n.endswith(".journal")]
    calls = [e for t in traces for e in check_ledger.read_trace(REPORT, t) if check_ledger.is_call(e)]
    seen = sorted((e["op"], check_ledger.number(e["ptr"])) for e in calls if e["op"] in ("alloc", "free"))
    true = sorted((e["op"], check_ledger.number(e["ptr"])) for e in done.ledger() if e["op"] in ("alloc", "free"))
    return traces, seen, true


for _n in (2, 4):
    @case(f"plugins in {_n} name spaces: each has a trace of its own, and together they are the ledger")
    def _(n=_n):
        traces, seen, true = of_name_spaces(n)
        return ([] if len(traces) == n else [f"{traces}"]) + (
            [] if seen == true and len(true) == 3 * n else [f"{seen}\n{true}"])


@case("not seen: a name space for which the loader has no thread-local memory left; it works as without")
def _():
    # (the loader keeps 1,664 bytes for the thread-local variables of what is opened later)
    traces, seen, true = of_name_spaces(5)
    return [] if len(traces) == 4 and len(seen) == 12 and len(true) == 15 else [
        f"{traces}: {seen}\n{true}: say so in README.md"]


@case("the traces of two name spaces are said to be of one process, and of no job")
def _():
    traces, _, _ = of_name_spaces(2)
    document = json.loads(subprocess.run([REPORT, "summary", "--json", *traces], stdout=subprocess.PIPE, check=True).stdout)["processes"]
    text = subprocess.run([REPORT, "summary", *traces], stdout=subprocess.PIPE, check=True, text=True).stdout
    found = [(p["same_process"], p["job_index"]) for p in document["processes"]], [g["process_count"] for g in document["gpus"]]
    images = {json.loads(subprocess.run([REPORT, "info", "--json", t], stdout=subprocess.PIPE, check=True).stdout)["info"]["process.image_hash"]
              for t in traces}
    return ([] if found == ([(None, None), (0, None)], [1]) and len(images) == 1 else [f"{found} {images}"]) + (
        [] if "is one process with 2 traces" in text.replace("\n  ", " ") else [text])


@case("a process that lost LD_PRELOAD and kept CUDA_INJECTION64_PATH: trace = ledger")
def _():
    done = injected("/usr/bin/env", "LD_PRELOAD=", program("driver_elf"), "device", "async", preload=True)
    return good(done) + loaded_by(done, *ALONE)


# ---- with LD_PRELOAD ----------------------------------------------------------------------------

for _backend in (None, "cupti"):
    @case(f"with LD_PRELOAD{_backend and ' and CUTRACE_BACKEND=cupti' or ''}: one subscription, one trace, each call once, the hooks' names")
    def _(backend=_backend):
        where = folder()
        log = os.path.join(where, "cupti.log")
        done = injected("runtime", "device", "async", preload=True, where=where, env={"SIM_CUPTI_LOG": log, "CUTRACE_BACKEND": backend})
        apis = {e["api"] for e in done.calls() if e["op"] == "alloc"}
        lines = open(log).read().splitlines()
        return good(done) + loaded_by(done, *BOTH) + (
            [] if lines == ["subscribe cutrace 0"] else [f"{lines}"]) + (
            [] if all(a.startswith("cudaMalloc") for a in apis) else [f"{apis}"]) + (
            [] if len(done.traces) == 1 else [f"{done.traces}"])


@case("a driver that loads no tool, with LD_PRELOAD: the trace says so")
def _():
    done = injected("driver_elf", "device", preload=True, env={"SIM_INJECTION": 0})
    state = fact(done, "cupti.state")
    return good(done) + (
        [] if state == "the driver has not called InitializeInjection" else [f"{state}"]) + (
        [] if fact(done, "load.ways") is None else [f"{fact(done, 'load.ways')}"])


@case("cutrace run --inject: a plugin opened with RTLD_DEEPBIND is seen")
def _():
    command = ("host_of_plugins", "deepbind", program("libplugin13.so"))
    done = run(os.path.join(BUILD, "cutrace"), "run", "--quiet", "--inject", program(command[0]), *command[1:],
               preload=False, libraries=(CUPTI,))
    return good(done) + loaded_by(done, *BOTH)


# ---- another tool -------------------------------------------------------------------------------

TOOL = {"CUTRACE_INJECTION_NEXT": os.path.join(PROGRAMS, "libinjected_tool.so")}

for _preload in (False, True):
    @case(f"another tool is called first, once ({'with LD_PRELOAD' if _preload else 'injected alone'})")
    def _(preload=_preload):
        done = injected("driver_elf", "device", preload=preload, env=TOOL)
        return good(done) + ([] if done.err == "tool: called\n" else [done.err])

    @case(f"another tool that subscribes gets CUPTI ({'with LD_PRELOAD' if _preload else 'injected alone'})")
    def _(preload=_preload):
        done = injected("driver_elf", "device", preload=preload,
                        env={**TOOL, "WAYS_SUBSCRIBE": 1, "CUTRACE_QUIET": int(preload)})
        problems = [] if "tool: called\ntool: subscribe 0\n" in done.err else [done.err]
        return problems + (good(done) if preload else nothing_recorded(done, "uses it, and it serves one at a time"))


@case("with CUTRACE=0 the other tool is called all the same; one that is gone changes nothing")
def _():
    off = injected("driver_elf", "device", env={**TOOL, "CUTRACE": 0})
    gone = injected("driver_elf", "device", env={"CUTRACE_INJECTION_NEXT": "/proc/nowhere/tool.so"})
    plain = run("driver_elf", "device", preload=False)
    return good(gone) + ([] if (off.rc, off.out, off.err, off.traces) == (plain.rc, plain.out, "tool: called\n", {}) else [
        off.err, f"{off.rc} {off.out} {off.traces}"])


# ---- where CUPTI cannot be had ------------------------------------------------------------------

def nothing_recorded(done, text):
    lines = [line for line in done.err.splitlines() if "CUPTI" in line]
    problems = [] if len(lines) == 1 and text in lines[0] and lines[0].endswith(
        "; no call is recorded without LD_PRELOAD") else [f"said: {done.err}"]
    return problems + ([f"there is a trace: {done.traces}"] if done.traces else [])


def unusable_case(what, text, env, libraries=(CUPTI,)):
    @case(f"injected alone, libcupti {what}: one line, the program as without")
    def _():
        done = injected("driver_elf", "device", env={"CUTRACE_QUIET": 0, **env},
                        libraries=libraries() if callable(libraries) else libraries)
        plain = run("driver_elf", "device", preload=False)
        return nothing_recorded(done, text) + (
            [] if (done.rc, done.out) == (plain.rc, plain.out) else [f"{done.rc} {done.out}"])


def without_cupti():
    where = folder()
    for n in ("libcupti.so.12", "libcupti.so.13"):
        open(os.path.join(where, n), "w").close()
    return (where,)


unusable_case("missing", "found no libcupti.so.13 or .12", {}, without_cupti)
unusable_case("busy", "Nsight Systems uses it", {"SIM_CUPTI": "busy Nsight Systems"})
unusable_case("too old", "is too old (interface 17;", {"SIM_CUPTI_VERSION": 17})


@case("injected alone beside a program that needs libcupti: its profiler is unharmed, ours does not start")
def _():
    where = folder()
    log = os.path.join(where, "cupti.log")
    done = injected("profiler", "symbol", where=where, env={"SIM_CUPTI_LOG": log, "CUTRACE_QUIET": 0})
    lines = open(log).read().splitlines()
    return nothing_recorded(done, "the program uses it, and would fail beside us") + (
        [] if done.out == "subscribe 0\nprofiled 5 5\nrecords 5 5\n" else [done.out]) + (
        [] if lines == ["subscribe - 0", "unsubscribe -"] else [f"{lines}"])


# ---- processes ----------------------------------------------------------------------------------

for _program, _kind in (*(("fork_kinds", k) for k in "fork early-fork daemon vfork spawn system fork-in-crowd".split()),
                        ("exit_kinds", "main-leaving")):
    @case(f"{_program} {_kind}, injected alone: a trace for each process, as its ledger")
    def _(command=(os.path.join(BUILD, "tests/recorder", _program), _kind)):
        done = injected(*command)
        return good(done) + same_as_without(done, *command)


main()
