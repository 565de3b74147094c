#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: nvcc
"""The CUPTI backend, by the stand-in libcupti: calls that no wrapper sees are recorded like all others, a call that both
ways see is recorded once, the audit counts who saw what, and another subscriber is never in its way."""
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Skip, case, main, skip_all  # noqa: E402
from ways import *  # noqa: E402,F403

CUPTI = os.path.join(SIM, "cupti")
if not os.path.exists(os.path.join(CUPTI, "libcupti.so.13")):
    skip_all("built without CUPTI's headers")

# Each makes calls of another kind; together all that make events, on success and on failure.
SCENARIOS = ("device invalid no_context fill async pools pool_shrinks default_pool_shrinks vmm retained expandable multicast arrays sparse "
             "host share graphics graph instantiate capture contexts reset green limits modules code streams").split()


def with_cupti(*command, env=None, libraries=(CUPTI,), **kw):
    return run(*command, libraries=libraries, env={"CUTRACE_BACKEND": "cupti", **(env or {})}, **kw)


def audited(*command, env=None, **kw):
    return with_cupti(*command, env={"CUTRACE_AUDIT": 1, **(env or {})}, **kw)


def facts(done):
    return done.info()["info"]


def audit(done, side):
    """Calls that were seen by `side` (both, only_cupti, only_preload), by function."""
    start = f"audit.{side}."
    return {k[len(start):]: int(v) for k, v in facts(done).items() if k.startswith(start)}


def state(done):
    return facts(done).get("cupti.state")


# ---- calls that no wrapper sees ---------------------------------------------------------------

def hidden_case(name):
    @case(f"calls through the driver's own symbol table, {name}: trace = ledger")
    def _():
        env = {"SIM_DEVICES": 2}
        done = with_cupti("driver", "hidden", name, env=env)
        return good(done) + same_as_without(done, "driver", "hidden", name, env=env)


for s in SCENARIOS:
    hidden_case(s)


@case("without CUPTI the same calls are not seen (what the cases above rest on)")
def _():
    done = run("driver", "hidden", "device")
    return ([] if done.rc == 0 and done.ledger() else [f"{done.rc} {done.err}"]) + (
        ["there are events"] if done.traces and done.calls() else [])


def stacks(done):
    """Of each call: function and the innermost frames."""
    return [(e["api"], [f["name"] for f in e["stack"] or []]) for e in done.calls() if e["op"] == "alloc"]


@case("the stack of a call that only CUPTI sees begins at the program, and is what a wrapper records")
def _():
    seen, hidden = run("driver", "dlsym", "device"), with_cupti("driver", "hidden", "device")
    inner = [e["stack"][0] for e in hidden.calls() if e["op"] == "alloc"]
    problems = [] if stacks(seen) == stacks(hidden) and inner else [f"{stacks(seen)} but {stacks(hidden)}"]
    return problems + [f"{f}" for f in inner if not f["module"].endswith("/driver")]


@case("eight threads through the symbol table: trace = ledger")
def _():
    return good(with_cupti("driver", "hidden", "threads"))


# ---- exactly once, and the audit --------------------------------------------------------------

def audited_case(name, *command, **kw):
    @case(f"audit of {name}: trace = ledger, output as without, both ways saw every call")
    def _():
        done = audited(*command, **kw)
        problems = good(done) + same_as_without(done, *command, **kw)
        both = audit(done, "both")
        problems += [] if sum(both.values()) > 0 else ["nothing was compared"]
        return problems + [f"{side}: {audit(done, side)}" for side in ("only_cupti", "only_preload")
                           if audit(done, side)]


ALONE = ("contexts", "reset", "green")
TOGETHER = [s for s in SCENARIOS if s not in ALONE]
audited_case("the linked driver", "driver_elf", *TOGETHER, env={"SIM_DEVICES": 2})
for s in ALONE:
    audited_case(f"the linked driver, {s}", "driver_elf", s, env={"SIM_DEVICES": 2})
audited_case("look-ups by cuGetProcAddress", "driver", "chain2", *TOGETHER, env={"SIM_DEVICES": 2})
audited_case("a driver that answers with the wrappers", "driver", "getproc2", "device", "async", "vmm",
             env={"SIM_BSYMBOLIC": 0})
audited_case("a driver that calls itself", "driver_elf", "device", env={"SIM_REENTRANT": 1})
audited_case("an interposer between two wrappers", "driver_elf", "device", after=[program("libforwarder.so")])
audited_case("the shared runtime", "runtime", "device", "async", "host", "arrays", "threads")
audited_case("the static runtime", "runtime_static", "device", "async", "host", "arrays", "threads")


@case("calls by the hooks and in the audit: the same numbers")
def _():
    done = audited("driver_elf", "device", "async")
    calls = {k[5:-6]: int(v) for k, v in facts(done).items() if k.startswith("hook.") and k.endswith(".calls")}
    wrong = {a: (n, calls.get(a)) for a, n in audit(done, "both").items() if n > calls.get(a, 0)}
    asked = {a for a in audit(done, "both") if a.startswith("cuMem")}
    return ([f"{wrong}"] if wrong else []) + ([] if "cuMemAlloc_v2" in asked else [f"{asked}"])


@case("info as text says how many calls both saw, and has a line for each function that one side missed")
def _():
    done = audited("driver_elf", "device", env={"SIM_CUPTI_IDS": 300})
    (path,) = done.traces.values()
    text = subprocess.run([REPORT, "info", path], capture_output=True, text=True).stdout
    both = sum(audit(done, "both").values())
    return ([] if both and re.search(rf"audit: both\s+saw\s+{both},", text) and "audit.both" not in text else [f"both saw {both}"]) + (
        [] if re.search(r"^audit\.only_preload\.cuMemAllocManaged +3$", text, re.M) else [text])


@case("the audit names what the wrappers missed, and who called it")
def _():
    done = audited("driver", "hidden", "device")
    missed = audit(done, "only_cupti")
    calls = [e["api"] for e in done.ledger() if e["op"] == "alloc"]
    who = facts(done).get("audit.only_cupti_callers.cuMemAlloc_v2", "")
    return ([] if missed.get("cuMemAlloc_v2") == calls.count("cuMemAlloc_v2") else [f"{missed} of {calls}"]) + (
        [] if who == f"driver {missed.get('cuMemAlloc_v2')}" else [who])


@case("the audit names what CUPTI missed: an older library, which knows no memory pools")
def _():
    done = audited("driver_elf", "device", "async", env={"SIM_CUPTI_IDS": 590})
    missed = audit(done, "only_preload")
    calls = [e["api"] for e in done.ledger()]
    return good(done) + ([] if missed.get("cuMemAllocAsync") == calls.count("cuMemAllocAsync") > 0 else [f"{missed}"]) + (
        ["cuMemAlloc_v2, too"] if "cuMemAlloc_v2" in missed else []) + (
        [] if int(facts(done).get("cupti.unknown_functions", 0)) > 0 else ["no unknown functions"])


@case("a call that comes when the driver has ended, at the exit, is compared by nobody")
def _():
    done = audited("frees_at_exit", env={"SIM_EXIT": 1})
    missed = audit(done, "only_preload")
    refused = [e for e in done.ledger() if e["api"] == "cuMemFree_v2" and e["result"] == 4]
    return ([] if done.rc == 0 and len(refused) == 1 else [f"exit status {done.rc}: {done.ledger()}"]) + (
        [] if audit(done, "both").get("cuMemAlloc_v2") == 1 and not missed else [f"{audit(done, 'both')}, {missed}"])


# ---- plugins ------------------------------------------------------------------------------------

def plugin_case(plugin, kind):
    @case(f"a plugin that {kind}, opened with RTLD_DEEPBIND: seen through CUPTI")
    def _():
        args = ("host_of_plugins", "deepbind", program(plugin))
        env = {"WAYS_LOOK_UP": 1}
        done = audited(*args, env=env)
        plain = run(*args, env=env)
        problems = good(done) + same_as_without(done, *args, env=env)
        if plain.traces and [e for e in plain.calls() if e["op"] == "alloc"]:
            problems.append("seen without CUPTI: nothing is tested")
        missed = audit(done, "only_cupti")
        return problems + ([] if missed.get("cuMemAlloc_v2") == 2 else [f"{missed}"])


for p, k in (("libplugin13.so", "needs the runtime"), ("libplugin_static.so", "has a static runtime")):
    plugin_case(p, k)


# ---- another subscriber -------------------------------------------------------------------------

def profiler_case(way):
    @case(f"a profiler subscribes later ({way}): it is unharmed, ours ends first, preload goes on")
    def _():
        where = folder()
        log = os.path.join(where, "cupti.log")
        done = audited("profiler", way, where=where, env={"SIM_CUPTI_LOG": log})
        plain = run("profiler", way, preload=False, libraries=(CUPTI,))
        problems = good(done) + ([] if done.out == plain.out and done.rc == plain.rc else [
            f"with {done.out!r}, without {plain.out!r}"])
        if plain.out != "subscribe 0\nprofiled 5 5\nrecords 5 5\n":
            problems.append(f"the stand-in profiler does not work: {plain.out!r}")
        lines = open(log).read().splitlines()
        want = ["subscribe cutrace 0", "unsubscribe CUPTI for cutrace", "subscribe - 0", "unsubscribe -"]
        problems += [] if lines == want else [f"{lines}"]
        notes = [e["text"] for e in done.events() if e["op"] == "note"]
        problems += [] if any("CUPTI was given to profiler" in n for n in notes) else [f"{notes}"]
        return problems + ([] if state(done) == "given to profiler" else [f"{state(done)}"])


for w in ("symbol", "dlsym"):
    profiler_case(w)


@case("with cutrace's backend off, a profiler is not in its way either")
def _():
    done, plain = run("profiler", "symbol", libraries=(CUPTI,)), run("profiler", "symbol", preload=False, libraries=(CUPTI,))
    return good(done) + ([] if done.out == plain.out else [f"{done.out!r} {plain.out!r}"]) + (
        [] if state(done) is None else [f"{state(done)}"])


@case("PyTorch with a CUPTI inside, whose subscription nobody sees: ours does not start")
def _():
    where = folder()
    names = [os.path.join(where, n) for n in ("libtorch_cuda.so", "libtorch_cpu.so")]
    for n in names:
        shutil.copy(program("librtld_next_O2.so"), n)
    done = with_cupti("driver_elf", "device", after=names, env={"CUTRACE_QUIET": 0})
    return good(done) + ([] if re.fullmatch(r"libtorch_cpu.so has a CUPTI of its own.*", state(done) or "") else [
        f"{state(done)}"]) + said(done, "libtorch_cpu.so has a CUPTI of its own")


# ---- static data --------------------------------------------------------------------------------

DEVICE, INITIALIZED, CODE, MANAGED = 1, 2, 3, 4  # where a variable of `cubin` lies


def cubin(symbols, machine=190, links=(6, 5, 0, 0), cut=None):
    """An ELF file with the sections of a cubin, and symbols (name, bytes, where). links: of the symbol table to its
    strings, of the header to the sections' names; what is added to the offsets of both string tables."""
    names = b"\0.nv.global\0.nv.global.init\0.text.k\0.symtab\0.shstrtab\0.strtab\0"
    strings, entries = b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, size, where in symbols:
        entries += struct.pack("<IBBHQQ", len(strings), 1, 4 if where == MANAGED else 0,
                               DEVICE if where == MANAGED else where, 0, size)
        strings += name + b"\0"
    parts = [b"", b"", b"", b"", entries, names, strings]
    kinds, offset, table = [0, 8, 1, 1, 2, 3, 3], 64, b""
    for i, (kind, part) in enumerate(zip(kinds, parts)):
        name = names.index((b"", b".nv.global", b".nv.global.init", b".text.k", b".symtab", b".shstrtab", b".strtab")[i] + b"\0")
        at = offset + (links[2] if i == 5 else links[3] if i == 6 else 0)
        table += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, at, len(part), links[0] if i == 4 else 0, 0, 1, 24 if i == 4 else 0)
        offset += len(part)
    head = b"\x7fELF\2\1" + bytes(10) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, offset, 0, 64, 0, 0, 64, 7, links[1])
    return (head + b"".join(parts) + table)[:cut]


def static(*files, **kw):
    """What the trace says of static data after these files were loaded; a file may be "-"."""
    where, words = folder(), []
    for i, f in enumerate(files):
        words.append(f if isinstance(f, str) else os.path.join(where, str(i)))
        if not isinstance(f, str):
            with open(words[-1], "wb") as out:
                out.write(f)
    done = with_cupti("loads_modules", *words, where=where, **kw)
    found = facts(done)
    largest = [found[k] for k in sorted(found) if k.startswith("static.largest.") and found[k] != "none"]
    return good(done), [int(found.get(f"static.{k}", 0)) for k in ("modules", "variables", "bytes", "peak_bytes")], largest


@case("static data of modules: names and sizes, not managed data, not code; an unloaded module takes its own away")
def _():
    one = cubin([(b"table", 4 << 20, DEVICE), (b"init", 12, INITIALIZED), (b"far", 1 << 30, MANAGED), (b"k", 128, CODE)])
    two = cubin([(b"table", 4 << 20, DEVICE), (b"other\x1b[31m\xff", 100, DEVICE)])
    problems, sums, largest = static(one, two)
    if (sums, largest) != ([2, 4, (8 << 20) + 112, (8 << 20) + 112], ["4194304 x 2 table", "100 x 1 other?[31m?", "12 x 1 init"]):
        problems.append(f"{sums} {largest}")
    more, sums, largest = static(one, two, "-")
    if (sums, largest) != ([2, 2, (4 << 20) + 12, (8 << 20) + 112], ["4194304 x 1 table", "12 x 1 init"]):
        problems.append(f"unloaded: {sums} {largest}")
    return problems + more


@case("static data of a module that nvcc made: what readelf finds in it")
def _():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        raise Skip("no nvcc")
    where = folder()
    source, out = os.path.join(where, "s.cu"), os.path.join(where, "s.cubin")
    with open(source, "w", encoding="ascii") as f:
        f.write("__device__ char table[4 << 20];\n__device__ int init[3] = {1, 2, 3};\nstatic __device__ double own[50];\n"
                "__managed__ int managed[1000];\nextern \"C\" __global__ void k(int *p) "
                "{ p[0] = table[p[1]] + init[p[2]] + managed[p[4]] + own[p[5]]; }\n")
    r = subprocess.run([nvcc, "-arch=sm_90", "-cubin", "-o", out, source], capture_output=True, text=True)
    if r.returncode:
        raise Skip(f"nvcc: {r.stderr.strip()[-200:]}")
    text = subprocess.run(["readelf", "-sW", out], capture_output=True, text=True).stdout
    sizes = dict((m[1], int(m[0], 0)) for m in re.findall(r" ((?:0x)?[0-9a-f]+) OBJECT .* (table|init|own|managed)$", text, re.M))
    with open(out, "rb") as f:
        problems, sums, largest = static(f.read())
    total = sum(sizes[n] for n in ("table", "init", "own"))
    want = [f"{sizes[n]} x 1 {n}" for n in ("table", "own", "init")]
    return problems + ([] if (sums, largest) == ([1, 3, total, total], want) and sizes["managed"] == 4000 else [
        f"{sums} {largest}, readelf: {sizes}"])


@case("code that is no cubin, or a broken one: nothing is said of it, the program as without")
def _():
    symbols = [(b"table", 4 << 20, DEVICE)]
    whole = cubin(symbols)
    broken = [b"PTX or what else it is", cubin(symbols, machine=62), cubin(symbols, links=(99, 5, 0, 0)),
              cubin(symbols, links=(6, 99, 0, 0)), cubin(symbols, links=(6, 5, 1 << 62, 0)),
              cubin(symbols, links=(6, 5, 0, 0), cut=len(whole) - 200)]
    problems, sums, largest = static(*broken)
    if sums[1:] != [0, 0, 0] or largest:
        problems.append(f"{sums} {largest}")
    more, sums, largest = static(cubin(symbols, links=(6, 5, 0, 1 << 62)))
    return problems + more + ([] if (sums, largest) == ([1, 1, 4 << 20, 4 << 20], ["4194304 x 1 "]) or
                              (sums, largest) == ([1, 1, 4 << 20, 4 << 20], ["4194304 x 1"]) else [f"{sums} {largest}"])


# ---- libraries that cannot be used --------------------------------------------------------------

def said(done, text):
    lines = [line for line in done.err.splitlines() if "CUPTI" in line]
    return [] if len(lines) == 1 and text in lines[0] and lines[0].endswith("; calls are recorded by preload only") else [
        f"said: {lines}"]


def unusable_case(what, text, env, libraries=(CUPTI,)):
    @case(f"libcupti {what}: one clear line, and a normal trace")
    def _():
        done = with_cupti("driver_elf", "device", "async", env={"CUTRACE_QUIET": 0, **env}, libraries=libraries)
        return good(done) + said(done, text) + ([] if state(done) and text.split(" (")[0] in state(done) else [f"{state(done)}"])


# (Files that are no libraries: a machine with a toolkit has a libcupti where the loader looks.)
empty = tempfile.TemporaryDirectory(prefix="ways.")
for n in ("libcupti.so.12", "libcupti.so.13"):
    open(os.path.join(empty.name, n), "w").close()
unusable_case("missing", "found no libcupti.so.13 or .12", {}, libraries=(empty.name,))
unusable_case("too old", "is too old (interface 17;", {"SIM_CUPTI_VERSION": 17})
unusable_case("too new", "is too new (interface 140000;", {"SIM_CUPTI_VERSION": 140000})
unusable_case("busy, by a tool that has a name", "Nsight Systems uses it", {"SIM_CUPTI": "busy Nsight Systems"})
unusable_case("that refuses", "cuptiSubscribe returned 35, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", {"SIM_CUPTI": 35})


@case("libcupti of CUDA 12, which has no names: used; busy: one line without a name")
def _():
    where = folder()
    os.symlink(os.path.join(CUPTI, "libcupti.so.12"), os.path.join(where, "libcupti.so.12"))
    shutil.copy(os.path.join(empty.name, "libcupti.so.13"), where)
    good_one = with_cupti("driver", "hidden", "device", libraries=(where,))
    busy = with_cupti("driver_elf", "device", libraries=(where,),
                      env={"CUTRACE_QUIET": 0, "SIM_CUPTI": "busy Nsight Systems"})
    version = facts(good_one).get("cupti.version")
    return good(good_one) + good(busy) + said(busy, "another tool (a profiler, a debugger) uses it") + (
        [] if version == "28" or version == 28 else [f"{version}"])


@case("CUTRACE_CUPTI names the library; CUDA_HOME finds it")
def _():
    home = folder()
    os.makedirs(os.path.join(home, "extras/CUPTI"))
    os.symlink(CUPTI, os.path.join(home, "extras/CUPTI/lib64"))
    problems = []
    for env in ({"CUTRACE_CUPTI": os.path.join(CUPTI, "libcupti.so.13")}, {"CUDA_HOME": home}):
        done = with_cupti("driver", "hidden", "device", libraries=(), env=env)
        problems += good(done) + ([] if state(done) == "on" else [f"{env}: {state(done)}"])
    return problems


@case("NVIDIA's libcupti without a device: one line at most, and a normal trace")
def _():
    include = os.environ.get("CUDA_INC") or "/usr/local/cuda/include"
    found = glob.glob(os.path.join(include, "../lib*/libcupti.so.1[23]")) + glob.glob(
        os.path.join(include, "../extras/CUPTI/lib64/libcupti.so.1[23]"))
    if not found:
        raise Skip("no libcupti of NVIDIA's beside the headers")
    env = {"CUTRACE_CUPTI": found[0], "SIM_DEVICES": 0, "CUTRACE_QUIET": 0}
    done = with_cupti("driver_elf", "device", libraries=(), env=env)
    plain = run("driver_elf", "device", preload=False, env={"SIM_DEVICES": 0})
    lines = [line for line in done.err.splitlines() if "CUPTI" in line]
    return ([] if (done.rc, done.out) == (plain.rc, plain.out) else [f"{done.rc} {done.out} {done.err}"]) + (
        [] if len(lines) <= 1 else lines)


# ---- the process ends, forks --------------------------------------------------------------------

for s in ("fork", "system", "daemon"):
    @case(f"fork_kinds {s}: as without the library")
    def _(command=(os.path.join(BUILD, "tests/recorder/fork_kinds"), s)):
        done = audited(*command)
        return good(done) + same_as_without(done, *command)


main()
