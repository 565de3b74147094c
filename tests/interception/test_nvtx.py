#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: nvtx
"""NVTX: what real users of it say is in the trace. They are NVIDIA's Python package, a program with NVIDIA's C headers, and
PyTorch's torch.cuda.nvtx. scripts/fetch-nvtx.sh fetches the first two; a case whose user cannot be had is skipped."""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Skip, case, check, equal, fetched, main, report  # noqa: E402
from ways import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
DEPS = os.environ.get("CUTRACE_DEPS") or os.path.join(ROOT, "build/deps")
INJECTED = {"NVTX_INJECTION64_PATH": LIBRARY}
M = 1 << 20
subprocess.run([os.path.join(ROOT, "scripts/fetch-nvtx.sh"), DEPS], check=False)


def packages():
    return fetched(os.path.join(DEPS, "nvtx"), "scripts/fetch-nvtx.sh")


def compiled(name, *more, source=None):
    where = folder()
    (headers,) = glob.glob(os.path.join(packages(), "nvidia/*/include"))
    out = os.path.join(where, name)
    # (the headers are NVIDIA's: no warnings of theirs)
    if source:
        with open(out + ".c", "w", encoding="ascii") as f:
            f.write(source)
    subprocess.run(["gcc", "-w", "-O1", "-isystem", headers, out + ".c" if source else os.path.join(HERE, name + ".c"), *more, "-o", out,
                    "-ldl", "-pthread"], check=True)
    return out


def said(done):
    """(op, name, domain, category) of what the program said of itself, and its allocations, in order."""
    (trace,) = done.traces.values()
    out, base = [], None
    for line in report("dump", trace, "--json")[1].decode().splitlines():
        e = json.loads(line)
        if e["op"] in ("mark", "range-push", "range-pop", "range-start", "range-end"):
            out.append((e["op"], e["text"], e["domain"], e["category"]))
        elif e["op"].startswith("sub"):
            out.append((e["op"], e["text"], e["domain"], e["bytes"], at(e, base), e["handle"] is not None))
        elif e["op"] == "alloc":
            out.append(e["bytes"])
            base = e["ptr"]
    return out


def started(done):
    """The names of the ranges of the process in the order of their ends, by the handles of both events."""
    (trace,) = done.traces.values()
    names, ends = {}, []
    for e in map(json.loads, report("dump", trace, "--json")[1].decode().splitlines()):
        if e["op"] == "range-start":
            check(e["handle"] not in names, "a handle of its own")
            names[e["handle"]] = e["text"]
        elif e["op"] == "range-end":
            ends.append(names.get(e["handle"]))
    return ends


def at(e, base):
    """Where a sub-allocation lies in the memory that was allocated last."""
    return None if e["ptr"] is None else int(e["ptr"], 16) - int(base, 16)


def of_the_program():
    return [
        ("range-push", "before CUDA", None, None), ("mark", "a mark", None, None), ("mark", "w\u00e4ide \U0001F600", None, None),
        ("range-start", "process-wide", None, None), ("range-start", "second", None, None), 3 * M, ("range-end", None, None, None),
        ("range-end", None, None, None),
        ("range-push", "registered", "my.domain", "seven"), M, ("mark", "registered", "my.domain", "category 8"),
        ("mark", "registered", "other.domain", "category 7"),
        ("range-push", "of another domain", None, None), ("range-pop", None, "my.domain", None), 2 * M, ("range-pop", None, None, None),
        4 * M, ("subpool", "my heap", "pool", 4 * M, 0, True), ("suballoc", "my heap", "pool", 256, 0, True),
        ("suballoc", "my heap", "pool", 512, 256, True), ("subname", "my region", "pool", None, 0, False),
        ("suballoc", None, "pool", 200, 0, False), ("subfree", None, "pool", None, 256, False), ("subfree", None, "pool", None, 256, False),
        ("subfree", None, "pool", None, None, True), ("suballoc", "my heap", "pool", 256, 0, True),
        ("suballoc", "my heap", "pool", 1024, 256, True), ("subpool", None, "pool", None, None, True),
        ("suballoc", None, "pool", 1, 0, True), ("range-pop", None, None, None)]


@case("a C program with NVIDIA's headers: marks, ranges, domains, registered strings, categories, heaps; wide characters; a range that "
      "ends in another thread")
def c_program():
    path = compiled("nvtx_program", os.path.join(SIM, "libcuda.so.1"))
    done = run(path, env=INJECTED)
    equal(said(done), of_the_program())
    equal(started(done), ["process-wide", "second"])
    equal([line for line in done.out.splitlines() if line.startswith("level")], ["level 0", "level 0"])
    check(int(done.info()["info"]["nvtx.modules"]) >= 1)
    return good(done)


@case("without NVTX_INJECTION64_PATH nothing is heard, and the trace says so by the absence of nvtx.modules")
def not_injected():
    done = run(compiled("nvtx_program", os.path.join(SIM, "libcuda.so.1")))
    equal(said(done), [3 * M, M, 2 * M, 4 * M])
    check("nvtx.modules" not in done.info()["info"])
    return good(done)


@case("another tool is called first: it hears all of what it listens to, and its results and handles are what the program gets")
def other_tool():
    path = compiled("nvtx_program", os.path.join(SIM, "libcuda.so.1"))
    tool = compiled("nvtx_other_tool", "-shared", "-fPIC")
    alone = run(path, preload=False, env={"NVTX_INJECTION64_PATH": tool})
    done = run(path, env={**INJECTED, "CUTRACE_NVTX_NEXT": tool})
    check("tool: domain my.domain" in alone.err and "tool: mark in domain 0" in alone.err and "level 42" in alone.out, alone.err)
    # (the other tool does not listen to ranges of domains: their level is ours)
    equal((done.out, done.err), (alone.out.replace("level -2", "level 0"), alone.err))
    equal(said(done), of_the_program())
    gone = run(path, env={**INJECTED, "CUTRACE_NVTX_NEXT": "/proc/nowhere/tool.so"})
    equal(said(gone), of_the_program())
    switched_off = run(path, env={**INJECTED, "CUTRACE_NVTX_NEXT": tool, "CUTRACE": "0"})
    equal((switched_off.out, switched_off.err, switched_off.traces), (alone.out, alone.err, {}))
    plain, off = run(path, preload=False), run(path, env={**INJECTED, "CUTRACE": "0"})
    equal((off.out, off.err, off.traces), (plain.out, plain.err, {}), "CUTRACE=0 without another tool")
    return good(done)


@case("a call with very many regions: 65536 are recorded, the rest is counted")
def many_regions():
    done = run_undisturbed(compiled("nvtx_program", os.path.join(SIM, "libcuda.so.1")), env={**INJECTED, "MANY_REGIONS": "1"})
    regions = [e for e in said(done) if not isinstance(e, int) and e[0] == "suballoc" and e[3] == 1]
    equal([e[4] for e in regions], list(range(65536)))
    equal(done.info()["info"]["annotations.skipped"], str(100000 - 65536))
    return good(done)


@case("CUTRACE_PRIVATE=1: no name of NVTX is in the file, and heaps are told apart by their handles")
def private():
    done = run(compiled("nvtx_program", os.path.join(SIM, "libcuda.so.1")), env={**INJECTED, "CUTRACE_PRIVATE": "1"})
    (trace,) = done.traces.values()
    raw = subprocess.run(["zstd", "-dcq", trace], capture_output=True, check=False).stdout
    left = [n for n in ("before CUDA", "a mark", "ide \U0001F600", "process-wide", "registered", "my.domain", "seven", "category", "my heap",
                        "my region", "of another domain") if n.encode() in raw]
    equal(left, [])
    equal([e if isinstance(e, int) else (e[0], *e[3:]) if e[0].startswith("sub") else e[0] for e in said(done)],
          [e if isinstance(e, int) else (e[0], *e[3:]) if e[0].startswith("sub") else e[0] for e in of_the_program()])
    # (a domain is left out of the trace, not of what the program is answered)
    equal([line for line in done.out.splitlines() if line.startswith("level")], ["level 0", "level 0"])
    return good(done)


STATIC_TOOL = """
#include <stdio.h>
static int start(void *table) { (void)table; fputs("started\\n", stderr); return 0; }
int (*InitializeInjectionNvtx2_fnptr)(void *) = start;
int (*InitializeInjectionNvtxExtension_fnptr)(void *) = start;
"""


@case("no preloaded library can provide the symbol by which NVTX finds an injection that is linked in: NVIDIA's headers hide it, and so do "
      "PyTorch's libraries")
def hidden_symbol():
    path = compiled("nvtx_program", os.path.join(SIM, "libcuda.so.1"))
    tool = compiled("static_tool", "-shared", "-fPIC", source=STATIC_TOOL)
    done = run(path, preload=False, env={"LD_PRELOAD": tool})
    equal((done.rc, "started" in done.err), (0, False))
    linked = compiled("nvtx_program", tool + ".c", os.path.join(SIM, "libcuda.so.1"))
    check("started" in run(linked, preload=False).err, "linked in, the same tool is called: the test can tell")
    symbols = subprocess.run(["readelf", "-Ws", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in symbols.splitlines() if "InitializeInjection" in line and "_fnptr" in line]
    equal({row[5] for row in rows}, {"HIDDEN"})
    problems = []
    for library in glob.glob(os.path.join(DEPS, "torch/*-whole*/torch/lib/libtorch_*.so")):
        exported = subprocess.run(["readelf", "-W", "--dyn-syms", library], capture_output=True, text=True, check=True).stdout
        if "InitializeInjectionNvtx" in exported:
            problems.append(f"{library}: the symbol can be provided")
    return problems


@case("a program whose NVTX looks for a preloaded library (NVTX_SUPPORT_ALREADY_INJECTED_LIBRARY) is heard without a variable")
def preinjected():
    path = compiled("nvtx_program", "-DNVTX_SUPPORT_ALREADY_INJECTED_LIBRARY=1", os.path.join(SIM, "libcuda.so.1"))
    done = run(path)
    equal(said(done), of_the_program())
    tool = compiled("nvtx_other_tool", "-shared", "-fPIC")
    alone = run(path, preload=False, env={"NVTX_INJECTION64_PATH": tool})
    beside = run(path, env={"NVTX_INJECTION64_PATH": tool})
    equal((beside.out, beside.err), (alone.out, alone.err), "a tool that the user names has NVTX to itself")
    equal(said(beside), [3 * M, M, 2 * M, 4 * M])
    return good(done) + good(beside)


PYTHON = """
import ctypes, nvtx
cuda, c, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
def allocate(n): assert not cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(n))
@nvtx.annotate("load", color="green")
def load():
    cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0)
    allocate(1 << 20)
load()
with nvtx.annotate("step", domain="training", category="phases"):
    allocate(2 << 20)
nvtx.mark("done", domain="training")
r = nvtx.start_range("open")
nvtx.end_range(r)
"""


@case("NVIDIA's package for Python")
def python_package():
    if not glob.glob(os.path.join(packages(), "nvtx/_lib/lib.*.so")):
        raise Skip("the package has no module for this Python")
    done = run(sys.executable, "-c", PYTHON, env={**INJECTED, "PYTHONPATH": packages()})
    equal(done.rc, 0, done.err)
    # The package has a default domain of its own making, whose name is its affair.
    equal([e if isinstance(e, int) else (e[0], e[1], e[3]) for e in said(done)], [
        ("range-push", "load", None), M, ("range-pop", None, None), ("range-push", "step", "phases"), 2 * M,
        ("range-pop", None, None), ("mark", "done", None), ("range-start", "open", None), ("range-end", None, None)])
    equal({e[2] for e in said(done) if not isinstance(e, int) and e[1] in ("step", "done")}, {"training"})
    return good(done)


TORCH = """
import ctypes
cuda, c, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0)
from torch.cuda import nvtx
with nvtx.range("epoch {}", 3):
    assert not cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))
nvtx.mark("checkpoint")
nvtx.range_end(nvtx.range_start("save"))
import torch
torch.cuda.synchronize = lambda *_: None  # (NVIDIA's libraries are stand-ins)
with torch.autograd.profiler.emit_nvtx():
    with torch.profiler.record_function("decode step"):
        assert not cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(2 << 20))
"""


@case("torch.cuda.nvtx of a real PyTorch, and torch.profiler.record_function under emit_nvtx")
def torch():
    found = [p for p in sorted(glob.glob(os.path.join(DEPS, "torch/*-whole"))) + sorted(glob.glob(os.path.join(DEPS, "vllm/*")))
             if os.path.exists(os.path.join(p, "torch/lib/libtorch_cuda.so")) and
             glob.glob(os.path.join(p, f"torch/_C.cpython-{sys.version_info[0]}{sys.version_info[1]}-*.so"))]
    if not found:
        raise Skip("no whole PyTorch is here (scripts/fetch-vllm.py, or scripts/fetch-torch.py --whole)")
    sys.path.append(os.path.join(HERE, "../torch/allocator"))
    import absent  # pylint: disable=import-outside-toplevel # (NVIDIA's libraries are not here: stand-ins that fail)
    missing, lib = folder(), os.path.join(found[-1], "torch/lib")
    needed = absent.text_of("readelf", "-d", os.path.join(lib, "libc10_cuda.so"))
    runtime = "libcudart.so.12" if "libcudart.so.12" in needed else "libcudart.so.13"
    absent.build(absent.libraries_in(lib), os.path.join(SIM, runtime), missing)
    done = run(sys.executable, "-c", TORCH, env={**INJECTED, "PYTHONPATH": found[-1]}, libraries=[missing])
    equal(done.rc, 0, done.err)
    equal(said(done), [("range-push", "epoch 3", None, None), M, ("range-pop", None, None, None), ("mark", "checkpoint", None, None),
                       ("range-start", "save", None, None), ("range-end", None, None, None),
                       ("range-push", "decode step, op_id = 1", None, None), 2 * M, ("range-pop", None, None, None)])
    return good(done)


main()
