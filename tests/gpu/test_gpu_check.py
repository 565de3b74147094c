#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu-check on the simulated driver: every check passes, and each one fails on a planted fault."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import BUILD, FULL, ROOT, Skip, case, dice, main, sample  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(ROOT, "scripts", "gpu-check.sh")
FOLDER = tempfile.mkdtemp(prefix="gpu-check-test.")
sys.dont_write_bytecode = True
os.environ.update(CUTRACE_BUILD=BUILD, GPU_CHECK_SIMULATED="1")
os.environ["GPU_CHECK_WORK"] = os.path.join(FOLDER, "work")  # programs are compiled once

def run(*arguments, **env):
    """(exit status, stdout, {check: result})."""
    base = {k: v for k, v in os.environ.items() if not k.startswith(("SIM_", "LD_", "GPU_CHECK_SIM"))}
    r = subprocess.run(["sh", SCRIPT, *arguments], capture_output=True, text=True, cwd=FOLDER, env={**base, **env})
    results = {}
    for line in r.stdout.splitlines():
        for word in ("ok ", "not ok ", "skip "):
            if line.startswith(word):
                results[line[len(word):].split(" - ")[0]] = (word.strip(), line)
    return r.returncode, r.stdout + r.stderr, results


def simulated(*only, **env):
    arguments = [a for o in only for a in ("--only", o)]
    return run("--simulated", "--out", os.path.join(FOLDER, "out"), *arguments, **env)


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


_passed = set()  # checks that pass without a fault
# make check leaves out what takes longest and repeats a shorter check (and PyTorch and vLLM, which the cases below have)
SECTIONS = () if FULL else ("ways-in", "look-ups", "physics", "cupti", "deepbind", "dlmopen", "nvtx", "users",
                            "death.killed-at-refusal", "death.process-killed")


@case("without a fault everything passes")
def healthy():
    rc, out, results = simulated(*SECTIONS)
    bad = [line for word, line in results.values() if word == "not ok"]
    expect(rc == 0 and not bad, "\n".join(bad) or out[-2000:])
    _passed.update(name for name, (word, _) in results.items() if word == "ok")
    count = {w: sum(word == w for word, _ in results.values()) for w in ("ok", "not ok", "skip")}
    last = f"{count['ok']} passed, {count['not ok']} failed, {count['skip']} skipped"
    expect(out.rstrip().splitlines()[-1] == last, f"the last line is not {last!r}: {out[-200:]}")
    expect(count["ok"] >= 40, f"only {count['ok']} checks ran")
    expect(all(" - " in line for word, line in results.values() if word == "skip"), "a skip without a reason")


@case("a machine without a validator of JSON needs none")
def without_validator():
    packages = os.path.join(FOLDER, "no-validator")
    os.makedirs(packages)
    with open(os.path.join(packages, "fastjsonschema.py"), "w", encoding="utf-8") as f:
        f.write("raise ImportError('is not here')\n")
    rc, out, results = run("--simulated", "--out", packages, "--only", "ways-in.driver-elf", PYTHONPATH=packages)
    expect(rc == 0 and results["ways-in.driver-elf"][0] == "ok", out[-2000:])


@case("results are written as JSON and as text")
def written():
    (path,) = glob.glob(os.path.join(FOLDER, "out", "*.json"))
    with open(path) as f:
        data = json.load(f)
    expect(data["simulated"] is True and data["schema"] == "cutrace.gpu-check/1", str(data)[:300])
    names = {c["name"] for c in data["checks"] if c["result"] == "ok"}
    expect(names == _passed, f"differ: {names ^ _passed}")
    with open(path[:-5] + ".md") as f:
        text = f.read()
    expect("no GPU: no figure on this page" in text and all(n.split(".", 1)[1] in text for n in names), text[:500])
    expect(os.path.basename(path).count("-") >= 4, f"the file is called {path}")


@case("the parameter file steers the simulated driver")
def parameters():
    with open(os.path.join(FOLDER, "out", "physics.params")) as f:
        lines = f.read().splitlines()
    expect("SIM_CTX_MB 98  # source: " in "\n".join(lines), str(lines))
    expect(all("# source: " in line for line in lines if not line.startswith("#")), "a value without its source")


# ---- planted faults -------------------------------------------------------------------------------------

_failed = set()  # checks seen to fail
PLANTED = sample(("not-preloaded", "lost-event", "wrong-ledger", "wrong-figure", "wrong-calibration", "wrong-look-up", "lost-refusal",
                  "a driver whose look-ups return no exports", "a driver that loads no tool"), 3)


def plant(name, only, spared=(), **env):
    """With the fault, every check of these sections that passes otherwise fails, but for those spared."""
    if name not in PLANTED:
        return

    @case(f"fault {name}: {', '.join(only)}")
    def one():
        settings = {k: v for k, v in env.items()} or {"GPU_CHECK_PLANT": name}
        asked = [o for o in only if FULL or o not in ("overhead", "death")] + ["death.process-killed"] * ("death" in only)
        rc, out, results = simulated(*asked, **settings)
        expect(rc == 1, f"exit status {rc}: {out[-1500:]}")
        wanted = {n for n in results if n in _passed and not any(n.startswith(s) for s in spared)}
        fooled = sorted(n for n in wanted if results[n][0] != "not ok")
        expect(wanted, f"nothing ran: {out[-500:]}")
        expect(not fooled, f"not noticed by {fooled}")
        _failed.update(n for n, (word, _) in results.items() if word == "not ok")


plant("not-preloaded", ["ways-in", "look-ups", "cupti", "deepbind", "dlmopen", "nvtx", "overhead", "death", "users"],
      spared=["look-ups.addresses", "look-ups.table", "look-ups.memory-functions"])
plant("lost-event", ["ways-in", "overhead", "death"], spared=["death.killed-at-refusal"])
plant("wrong-ledger", ["ways-in.driver-dlsym", "ways-in.ctypes", "ways-in.runtime-shared-gcc",
                       "ways-in.runtime-static-gcc", "death.process-killed"])
plant("wrong-figure", ["physics", "ways-in.driver-dlsym", "ways-in.ctypes"], spared=["physics.calibrated"])
plant("wrong-calibration", ["physics.calibrated"])
plant("wrong-look-up", ["look-ups.addresses-are-exports", "look-ups.table-against-driver",
                        "look-ups.every-way-is-wrapped", "look-ups.memory-functions-known"])
plant("lost-refusal", ["death.killed-at-refusal"])
plant("a driver whose look-ups return no exports", ["look-ups.addresses-are-exports"], SIM_GETPROC_ALIAS="1")


plant("a driver that loads no tool", ["deepbind.driver-calls-the-tool", "deepbind.shared-injected", "dlmopen"],
      SIM_INJECTION="0")


@case("a tracer that is switched off is noticed")
def switched_off():
    rc, out, results = simulated("ways-in.driver-dlsym", "users.root", "users.ordinary", GPU_CHECK_PLANT="untraced")
    expect(rc == 1 and all(w == "not ok" for n, (w, _) in results.items() if n in _passed), out[-1500:])


@case("each check that passes has been seen to fail", long=True)
def each():
    left = _passed - _failed
    expect(not left, f"never failed: {sorted(left)}")


@case("one that hangs costs no other section")
def hangs():
    rc, out, results = simulated("death.killed-at-refusal", "death.process-killed", "users.ordinary",
                                 GPU_CHECK_PLANT="hang-death", GPU_CHECK_LIMIT="death=3")
    word = {n: w for n, (w, _) in results.items()}
    expect(word.get("users.ordinary") == "ok", out[-1500:])
    expect(rc == 1 and word.get("death.process-killed") == "not ok" and "did not end" in results["death.process-killed"][1]
           and word.get("death.killed-at-refusal") == "not ok", out[-1500:])


# ---- PyTorch's checker, on made-up events ------------------------------------------------------------------

def torch_events():
    c10 = [{"name": None, "file": None, "line": None, "module": "/x/libc10_cuda.so", "offset": 1}]
    blas = [{"name": None, "file": None, "line": None, "module": "/x/libcublas.so.12", "offset": 1}]
    base = {"tid": 1, "device": 0, "result": 0, "handle": None, "context": "0x1", "space": "device", "bytes": None}
    rows = [("alloc", "cudaMalloc", 10, "0x1000", 20 << 20, c10), ("alloc", "cuMemAlloc_v2", 20, "0x9000", 8 << 20, blas),
            ("alloc", "cudaMalloc", 30, "0x2000", 2 << 20, c10), ("free", "cudaFree", 40, "0x1000", None, None)]
    rows += [("block-alloc", None, 31, "0x2000", 512, None), ("block-alloc", None, 32, "0x2200", 1024, None),
             ("block-free", None, 41, "0x2000", 512, None)]
    return [{**base, "op": op, "api": api, "t_ns": t, "ptr": ptr, "bytes": n, "stack": stack}
            for op, api, t, ptr, n, stack in rows]


def torch_points():
    total = 1 << 30
    return [{"name": "a", "t_ns": 5, "free": total, "reserved": 0, "allocated": 0},
            {"name": "b", "t_ns": 35, "free": total - (40 << 20), "reserved": 22 << 20, "allocated": 1536},
            {"name": "c", "t_ns": 45, "free": total - (20 << 20), "reserved": 2 << 20, "allocated": 1024}]


def must_fail(compare, events, said, text):
    import machine
    try:
        compare(events, said)
    except machine.Fail as e:
        return expect(text in str(e), str(e))
    raise AssertionError(f"not noticed: {text}")


@case("PyTorch's reserved bytes are compared with the trace")
def torch_compare():
    import section_torch
    section_torch.compare(torch_events(), torch_points())

    def fails(events, points, text):
        must_fail(section_torch.compare, events, points, text)
    fails(torch_events()[1:], torch_points(), "b: the trace has")
    fails(torch_events()[:3] + torch_events()[4:], torch_points(), "c: the trace has")
    fails(torch_events()[:4] + torch_events()[5:], torch_points(), "b: 1024 bytes in blocks")
    fails(torch_events()[:6], torch_points(), "c: 1536 bytes in blocks")
    leaky = torch_points()
    leaky[1]["free"] += 200 << 20
    fails(torch_events(), leaky, "left free")
    fails(torch_events(), [], "no checkpoint")
    lazy = torch_points()
    lazy[1].update(backend="cudaMallocAsync", reserved=0, allocated=100 << 20)
    fails(torch_events(), lazy, "allocated")


@case("the streams of PyTorch's blocks are compared with the program's list")
def torch_stream_compare():
    import section_torch
    numbers = {"default": 0, "first": 3, "second": 35, "external": 0x55d0c0ffee10}
    said = {"blocks": [], "segments": [[n << 20, 1 << 20, handle] for n, handle in ((1, 0), (2, 0x91), (3, 0x92), (4, 0x93))]}
    events = []
    for n, (what, number) in enumerate(numbers.items(), 1):
        said["blocks"] += [[what, (n << 20) + 512 * k, 500, number] for k in range(2)]
        for k in range(2):
            events += [{"op": "block-alloc", "ptr": hex((n << 20) + 512 * k), "bytes": 512, "stream": hex(s) if s else None}
                       for s in (7, number)]  # the block before it at the address had another one
    unknown = {**events[3], "stream": hex(section_torch.STREAM_UNKNOWN)}
    detail, figures = section_torch.compare_streams(events[:3] + [unknown] + events[4:], said)
    expect(figures["unknown"] == 1 and "7 blocks of 4 streams" in detail and "unknown: 1" in detail, detail)

    def fails(events, said, text):
        must_fail(section_torch.compare_streams, events, said, text)
    fails(events[:5] + [{**events[5], "stream": "0x23"}] + events[6:], said, "first: recorded with stream 0x23")
    fails([{**events[1], "stream": "0x3"} if e is events[1] else e for e in events], said, "default: recorded with stream 0x3")
    fails([e if e["stream"] != "0x3" else {**e, "stream": unknown["stream"]} for e in events], said, "no stream is known of: ['first']")
    fails(events[2:], said, "default: no block of 500 bytes at 0x100000")
    fails(events, {**said, "segments": said["segments"][:3] + [[4 << 20, 1 << 20, 0x92]]}, "not one to one")
    fails(events, {**said, "segments": said["segments"][:3]}, "in 0 of PyTorch's segments")


# ---- what a GPU left behind ----------------------------------------------------------------------------------

RESULTS = os.path.join(HERE, "results")


def recorded():
    """Traces that a GPU was recorded in, each with PyTorch's own figures: {name: (trace, checkpoints)}."""
    found = {}
    for trace in sorted(glob.glob(os.path.join(RESULTS, "*", "*.zst"))):
        with open(trace[:-4] + ".jsonl") as f:
            found[os.path.basename(trace)[:-4]] = trace, [json.loads(line) for line in f]
    return found


@case("what PyTorch said on a GPU is what the report says of its traces")
def from_a_gpu():
    import machine
    import section_torch
    traces = recorded()
    expect(len(traces) >= 13, f"only {sorted(traces)}")
    for name, (trace, points) in sample(traces.items(), 4):
        try:
            section_torch.compare(machine.events(trace), points)
        except machine.Fail as e:
            raise AssertionError(f"{name}: {e}") from None


@case("the verdict on a GPU that was really full")
def full_gpu():
    import machine
    trace, points = recorded()["exhausted"]
    last = points[-1]
    summary = machine.summary(trace)
    crossing = summary["crossing"]
    memory, pool = crossing["memory"], summary["devices"][0]["pool"]["crossing"]
    expect(crossing["requested_bytes"] == 24 << 20 and not crossing["recovered"] and crossing["reason"] == "not-enough-free",
           f"{crossing['requested_bytes']}, {crossing['recovered']}, {crossing['reason']}")
    expect(memory["free_bytes"] == last["free"] and not memory["inferred"], f"{memory}, {last}")
    expect((pool["reserved_bytes"], pool["allocated_bytes"]) == (last["reserved"], last["allocated"]), f"{pool}, {last}")
    expect(pool["unreconciled_bytes"] == 0 and pool["largest_free_bytes"] < 24 << 20, f"{pool}")
    # The machine had no other process; 9 MiB of the driver's are of none by NVML.
    expect(memory["other_processes_bytes"] < 16 << 20, f"{memory}")
    expect(memory["tracked_bytes"] + memory["untracked_bytes"] + memory["other_processes_bytes"] + memory["free_bytes"]
           == last["total"], f"{memory}")
    expect(summary["live_at_crossing"][0]["site"].startswith("torch_work.py:"), f"{summary['live_at_crossing'][0]}")


# ---- vLLM: what needs neither vLLM nor a GPU -----------------------------------------------------------------

sys.path.append(os.path.join(HERE, "../vllm"))
VLLM_TRACES = os.path.join(ROOT, "tests/report/vllm")
MIB = 1 << 20
# A package of that name, as far as the section looks at it before it starts a case.
TORCH = """import types
__version__ = "%s"
version = types.SimpleNamespace(cuda="13.0")
cuda = types.SimpleNamespace(is_available=lambda: %s)
"""
ENGINE = {"vllm/engine/__init__.py": "", "vllm/engine/arg_utils.py": "class EngineArgs: gpu_memory_utilization = 0.9\n"}


def posing(packages, *only, **env):
    """The checks of vLLM where the simulated driver poses as a GPU; packages: {path: text} on PYTHONPATH."""
    folder = tempfile.mkdtemp(prefix="packages.", dir=FOLDER)
    for path, text in packages.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "w") as f:
            f.write(text)
    arguments = [a for o in only or ["vllm"] for a in ("--only", o)]
    return run("--out", os.path.join(FOLDER, "posing"), *arguments, PYTHONPATH=folder, PYTHON=sys.executable,
               **{"LD_LIBRARY_PATH": os.path.join(BUILD, "sim"), "SIM_MEM_MB": "24576", **env})


def fake_vllm(text, version="0.26.0", torch="2.11.0+cu130", usable="True"):
    about = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\nRequires-Dist: torch==2.11.0\n"
    return {"vllm/__init__.py": text, f"vllm-{version}.dist-info/METADATA": about,
            "torch/__init__.py": TORCH % (torch, usable)}


@case("vllm: where vLLM is not installed each case is skipped, and says so")
def no_vllm():
    rc, out, results = posing({"torch/__init__.py": "raise SystemExit('imported for nothing')\n"})
    expect(rc == 0 and len(results) > 30, out[-1500:])
    bad = [line for word, line in results.values() if word != "skip" or "vLLM is not installed" not in line]
    expect(not bad, "\n".join(bad))


@case("vllm: a vLLM that cannot be used is skipped with the reason")
def unusable_vllm():
    for packages, reason in ((fake_vllm("raise ImportError('libnothing.so')\n"), "libnothing.so"),
                             (fake_vllm("", torch="2.14.0"), "is built for PyTorch 2.11.0, and here is 2.14.0"),
                             (fake_vllm("", usable="False"), "PyTorch cannot use this GPU")):
        rc, out, results = posing(packages, "vllm.eager", "vllm.ballast")
        bad = [line for word, line in results.values() if word != "skip" or reason not in line]
        expect(rc == 0 and len(results) == 2 and not bad, out[-1500:])


@case("vllm: cases that this version or this machine cannot have are skipped with the reason")
def unusable_cases():
    everything = ("vllm.eager", "vllm.awq", "vllm.tensor-parallel", "vllm.graphs-uncounted")
    raises = "class LLM:\n    def __init__(self, **words): raise RuntimeError('is a fake')\n"
    rc, out, results = posing(fake_vllm(raises), *everything)
    expect(rc == 0 and "fails without cutrace, too" in results["vllm.eager"][1]
           and "is a fake" in results["vllm.eager"][1], out[-1500:])
    for name in everything[1:]:
        expect("not one of the cases of vLLM 0.26.0" in results[name][1], out[-1500:])
    rc, out, results = posing(fake_vllm("", "0.34.0"), *everything[2:])
    expect("needs 2 GPUs" in results["vllm.tensor-parallel"][1]
           and "executable graphs" in results["vllm.graphs-uncounted"][1], out[-1500:])
    rc, out, results = posing(fake_vllm(raises), "vllm.eager", SIM_MEM_MB="16384")
    expect(results["vllm.eager"][0] == "skip" and "the case is of 24576 MiB" in results["vllm.eager"][1], out[-1500:])


@case("vllm: a run that fails under cutrace only is a failure, also beside another process that holds the rest")
def fails_under_cutrace():
    text = """import os
class LLM:
    llm_engine = None
    def __init__(self, **words):
        if "LD_PRELOAD" in os.environ:
            raise RuntimeError("is not wanted")
        print("DONE", flush=True)
"""
    rc, out, results = posing({**fake_vllm(text), **ENGINE}, "vllm.eager", SIM_MEM_MB="98304")
    line = results["vllm.eager"][1]
    expect(rc == 1 and results["vllm.eager"][0] == "not ok" and "fails under cutrace only" in line
           and "is not wanted" in line, out[-1500:])


@case("vllm: what vLLM takes from the size of the GPU is given to it on a larger one")
def larger_gpu():
    import vllm_work
    scaled = vllm_work.scaled({"max_num_seqs": 512, "gpu_memory_utilization": 0.8}, "serve.py", 0.9, 24 << 30, 96 << 30)
    expect(abs(scaled.pop("gpu_memory_utilization") - 0.2) < 1e-9, str(scaled))
    expect(scaled == {"max_num_seqs": 512, "max_num_batched_tokens": 8192}, str(scaled))
    scaled = vllm_work.scaled({}, "http_server.py", 0.5, 24 << 30, 48 << 30)
    expect(scaled["gpu_memory_utilization"] == 0.25 and scaled["max_num_batched_tokens"] == 2048, str(scaled))


class VllmTrace:
    """A run of vLLM that was kept (a golden trace of the simulated GPU, or one of a real GPU): its case, log, and events
    without a planted fault."""

    def __init__(self, folder):
        import cases
        import machine
        with open(os.path.join(folder, "case.json")) as f:
            words = json.load(f)
        with open(os.path.join(folder, "log.txt")) as f:
            self.log = f.read()
        self.row = cases.cases_of(words["vllm"])[words["name"]]
        machine.PLANTS = set()
        self.events = [machine.events(os.path.join(folder, t), stacks_of_blocks=True) for t in words["traces"]]

    def compare(self, plant="", log=None):
        """What the section says; a text if it fails."""
        import machine
        import section_vllm
        machine.PLANTS = {plant}
        try:
            return section_vllm.compare(self.row, log or self.log, [machine.planted(list(e)) for e in self.events])
        except machine.Fail as e:
            return f"{e}"
        finally:
            machine.PLANTS = set()


LOST = ("lost-event", "wrong-size", "lost-block", "wrong-block")


def golden_case(name, *plants):
    @case(f"vllm: {name} of the simulated GPU is as PyTorch and vLLM say, and a fault is found: {', '.join(plants)}")
    def one():
        os.environ["GPU_CHECK_TOTAL"] = str(24576 * MIB)
        judge(VllmTrace(os.path.join(VLLM_TRACES, name)), plants)


def judge(trace, plants):
    answer = trace.compare()
    expect(isinstance(answer, tuple) and "UNUSUAL" not in answer[0], str(answer))
    fooled = [p for p in plants if not isinstance(trace.compare(p), str)]
    expect(not fooled, f"not noticed: {fooled}")


for _name, *_plants in sample((("eager", *LOST), ("ballast", *LOST, "lost-refusal"), ("eager-0.11", *LOST),
                               ("initialize-kv-cache", *LOST, "lost-refusal"),
                               ("wake-up", "lost-block", "wrong-block", "lost-refusal"), ("no-cache-blocks", *LOST)), 2):
    golden_case(_name, *_plants)


@case("vllm: what real GPUs ran is as PyTorch and vLLM say, and a fault is found")
def on_gpus():
    folders = sorted(map(os.path.dirname, glob.glob(os.path.join(RESULTS, "*", "vllm", "*", "case.json"))))
    expect(len(folders) >= 2, f"only {folders}")
    for folder in sample(folders, 1):
        with open(glob.glob(os.path.dirname(os.path.dirname(folder)) + "*.json")[0], encoding="utf-8") as f:
            os.environ["GPU_CHECK_TOTAL"] = str(json.load(f)["total_bytes"])
        try:
            judge(VllmTrace(folder), LOST)
        except AssertionError as e:
            raise AssertionError(f"{folder}: {e}") from None


@case("vllm: figures of the log, of PyTorch's exception and of free memory that are not the trace's are found")
def wrong_logs():
    os.environ["GPU_CHECK_TOTAL"] = str(24576 * MIB)
    trace = VllmTrace(os.path.join(VLLM_TRACES, "ballast"))
    for pattern, problem in sample(((r"loading took 12\.5", "weights"), (r"KV cache size: 17,", "KV cache"),
                             (r"Tried to allocate \d+", "asked"), (r"allocated memory \d+", "allocated"),
                             (r"PyTorch, and \d+", "reserved but unallocated"), (r"of which \d+", "free")), 2):
        changed = re.sub(pattern, lambda m: m[0][:-1] + str(9 - int(m[0][-1])) if m[0][-1].isdigit() else
                         m[0].replace("17", "18"), trace.log)
        expect(changed != trace.log, f"the log has no {pattern!r}")
        answer = trace.compare(log=changed)
        expect(isinstance(answer, str) and f"{problem}: " in answer, f"{problem}: {answer}")
    # A GPU of which a neighbour left 24 GiB, as the simulated one has: what nothing tracks is the context of 527 MiB
    # (bed.py) and some modules. With 650 MiB more that are free, more is tracked than left "free".
    os.environ["GPU_CHECK_TOTAL"] = str(81920 * MIB)
    _, figures = trace.compare()
    rest = [f["bytes"] for f in figures["not_pytorch"] if f["memory"] == "device, not tracked"]
    expect(len(rest) == 1 and 527 * MIB <= rest[0] < 550 * MIB, str(figures))
    first = json.loads(trace.log.partition("FIGURES ")[2].partition("\n")[0])
    answer = trace.compare(log=trace.log.replace(f'"free": {first["free"]}', f'"free": {first["free"] + 650 * MIB}'))
    expect(isinstance(answer, str) and "more are tracked than left free" in answer, str(answer))


@case("vllm: an end that is not the simulated GPU's is UNUSUAL, and no failure")
def unusual():
    import dataclasses
    os.environ["GPU_CHECK_TOTAL"] = str(24576 * MIB)
    trace = VllmTrace(os.path.join(VLLM_TRACES, "eager"))
    trace.row = dataclasses.replace(trace.row, error="CUDA out of memory", refused="cudaMalloc")
    answer = trace.compare()
    expect(isinstance(answer, tuple) and answer[0].startswith("UNUSUAL (the log does not say"), str(answer))


def event(op, api, ptr, size, module, **more):
    stack = [{"module": m} for m in ("/x/libcudart.so.13", module)]
    return {"op": op, "api": api, "ptr": ptr, "bytes": size, "stack": stack, "result": 0, "device": 0, "handle": None,
            "context": "0x1", "space": "device", "t_ns": 1, "tid": 1, "free_before_bytes": None, "free_bytes": None,
            **more}


@case("vllm: what libraries hold is named by library")
def libraries():
    import stand_ins
    import vllm_memory
    os.environ["GPU_CHECK_TOTAL"] = str(24576 * MIB)
    _, figures = VllmTrace(os.path.join(VLLM_TRACES, "tensor-parallel")).compare()
    seen = {f["who"]: (f["calls"], f["bytes"]) for f in figures["not_pytorch"] if f["memory"] == "device"}
    nccl = next(sizes for pattern, _, sizes, _ in stand_ins.MEMORY if "ncclCommInitRank" in pattern)
    for name, sizes in (("libcublas", stand_ins.CUBLAS), ("libnccl", nccl)):
        expect(seen.get(name) == (len(sizes), sum(sizes)), f"{name} {seen}")
    made_up = [event("alloc", "cudaMalloc", "0x1000", 5, "/x/libcublas.so.13"),
               event("alloc", "cudaMalloc", "0x2000", 7, "/x/libcublasLt.so.13"),
               event("free", "cudaFree", "0x1000", None, "/x/libcublas.so.13"),
               event("alloc", "cudaHostAlloc", "0x3000", 11, "/x/libnccl.so.2", space="host"),
               event("create", "cuMemCreate", None, 13, "/x/libnccl.so.2", handle="0x9"),
               event("create", "cuMulticastCreate", None, 17, "/x/libnccl.so.2", handle="0xa"),
               event("alloc", "cudaMalloc", "0x4000", 19, "/x/libc10_cuda.so"),
               event("alloc", "cudaMalloc", "0x5000", 23, "/x/libcudnn_graph.so.9", result=2),
               event("module-load", "cuLibraryLoadData", None, 1, "/x/libcublas.so.13", handle="0xb",
                     free_before_bytes=100, free_bytes=60)]
    seen = {(f["who"], f["memory"]): (f["calls"], f["bytes"]) for f in vllm_memory.figures(made_up, [], [], None)}
    wanted = {("libcublas", "device"): (1, 0), ("libcublasLt", "device"): (1, 7), ("libnccl", "device"): (1, 13),
              ("libnccl", "page-locked"): (1, 11), ("cuLibraryLoadData", "device, measured"): (1, 40)}
    expect(seen == wanted, f"{seen}")


@case("vllm: the table of libraries in the written result")
def table_of_libraries():
    import gpu_check
    def figure(calls, size):
        return {"who": "libnccl", "memory": "device", "calls": calls, "bytes": size}
    results = [{"name": f"vllm.{n}", "section": "vllm", "result": "ok", "detail": "a|b",
                "figures": {"not_pytorch": [figure(n, n * MIB)], "simulated": simulated}}
               for n, simulated in ((3, [figure(9, 9 * MIB)]), (5, None))]
    text = "\n".join(gpu_check.text_of_section("vllm", [*results, {**results[0], "figures": {}}]))
    expect("| libnccl | device | 2 | 3 to 5 | 3.00 MiB to 5.00 MiB | 9.00 MiB |" in text and "a\\|b" in text, text)
    expect(gpu_check.text_of_section("users", []) is not None, "a section without a table of its own")


@case("vllm: the version of vLLM decides on its cases and on the names of their golden traces")
def versions():
    import cases
    for version, known in (("0.33.0", "0.33.0"), ("0.34.1.dev2+g12", "0.33.0"), ("0.30.0rc1", "0.26.0"),
                           ("0.11.2+cu129", "0.11.2"), ("0.9.1", "0.11.2")):
        expect(cases.version_of_table(version) == known, f"{version}: {cases.version_of_table(version)}")
    for name in os.listdir(VLLM_TRACES):
        with open(os.path.join(VLLM_TRACES, name, "case.json")) as f:
            words = json.load(f)
        expect(cases.golden_name(words["name"], words["vllm"]) == name, name)


# ---- the command -------------------------------------------------------------------------------------------

@case("usage")
def usage():
    expect(run("--wrong")[0] == 2, "an unknown option")
    rc, out, _ = run("--only", "nothing")
    expect(rc == 2 and "no such check: nothing" in out, out)
    rc, out, _ = run("--list")
    expect(rc == 0 and {line.split(".")[0] for line in out.split()} ==
           {"ways-in", "look-ups", "physics", "torch", "cupti", "deepbind", "dlmopen", "nvtx", "overhead", "death", "users",
            "vllm"}, out)
    rc, out, _ = run("--simulated", "--only", "users", CUTRACE_BUILD=FOLDER)
    expect(rc == 2 and "is missing" in out, out)


@case("without a GPU: exit status 77 and the reason")
def no_gpu():
    if os.path.exists("/dev/nvidiactl"):
        raise Skip("there is a GPU here")
    rc, out, _ = run("--out", os.path.join(FOLDER, "none"))
    expect(rc == 77 and "no GPU here: " in out, f"{rc}: {out}")


# ---- the pack ----------------------------------------------------------------------------------------------

def make_pack(name, *options, **env):
    r = subprocess.run(["sh", os.path.join(ROOT, "scripts", "gpu-pack.sh"), *options, os.path.join(FOLDER, name)],
                       capture_output=True, text=True, env={**os.environ, **env})
    return r.returncode, r.stdout + r.stderr


@case("the parts of a pack make the same pack again, and a damaged part is refused")
def parts():
    rc, out = make_pack("pack", "--part-size=700K")
    expect(rc == 0, out)
    made = sorted(glob.glob(os.path.join(FOLDER, "pack.tar.gz.*")))
    expect(len(made) > 2 and all(os.path.getsize(p) <= 700 << 10 for p in made), str(made))
    away = os.path.join(FOLDER, "joined")
    os.mkdir(away)
    for path in [*made, os.path.join(FOLDER, "pack.join.sh")]:
        shutil.move(path, away)
    join = ["sh", os.path.join(away, "pack.join.sh"), away]
    r = subprocess.run(join, capture_output=True, text=True)
    expect(r.returncode == 0, r.stderr)
    r = subprocess.run(["diff", "-r", os.path.join(FOLDER, "pack"), os.path.join(away, "pack")], capture_output=True, text=True)
    expect(r.returncode == 0, r.stdout)
    with open(os.path.join(away, os.path.basename(made[1])), "r+b") as f:
        at = dice().randrange(os.path.getsize(f.name))
        f.seek(at)
        damaged = f.read(1)[0] ^ 1
        f.seek(at)
        f.write(bytes([damaged]))
    whole = os.path.join(FOLDER, "whole")
    os.rename(os.path.join(away, "pack"), whole)
    r = subprocess.run(join, capture_output=True, text=True)
    expect(r.returncode and "pack.tar.gz.001" in r.stdout + r.stderr and not os.path.exists(os.path.join(away, "pack")), r.stdout)


@case("the pack runs on its own")
def pack():
    away = os.path.join(FOLDER, "away")
    os.mkdir(away)
    os.rename(os.path.join(FOLDER, "whole"), os.path.join(away, "pack"))  # the parts, joined
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "GPU_", "CUDA", "PYTHONPATH"))}
    r = subprocess.run(["sh", os.path.join(away, "pack", "scripts", "gpu-check.sh"), "--simulated", "--quick", "--only",
                        "ways-in.driver-dlsym", "--only", "look-ups", "--only", "physics.calibrated"],
                       capture_output=True, text=True, cwd="/", env=clean)
    expect(r.returncode == 0 and " 0 failed" in r.stdout, r.stdout + r.stderr)
    results = glob.glob(os.path.join(away, "pack", "build", "gpu-check-results", "*.json"))
    expect(len(results) == 1, f"results: {results}")
    left = subprocess.run(["grep", "-rlF", ROOT, os.path.join(away, "pack", "tests"), os.path.join(away, "pack", "scripts")],
                          capture_output=True, text=True).stdout
    expect(not left, f"this tree's path is in {left}")


@case("a pack has vLLM without what the machine has, and its command finds it")
def vllm_pack():
    deps, away = os.path.join(FOLDER, "deps"), os.path.join(FOLDER, "vllm-away")
    packages = {**fake_vllm("raise ImportError('from the pack')\n"), "triton/__init__.py": "", "done": "",
                "nvidia/cu13/lib/x.so": "", "torch-2.11.0.dist-info/METADATA": ""}
    for path, text in packages.items():
        path = os.path.join(deps, "vllm", "0.26.0", path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    rc, out = make_pack("with-vllm", "--vllm=0.26.0", "--part-size=900K", CUTRACE_DEPS=deps)
    expect(rc == 0, out)
    os.mkdir(away)
    subprocess.run(["sh", os.path.join(FOLDER, "with-vllm.join.sh"), away], check=True)
    root = os.path.join(away, "with-vllm")
    expect(sorted(os.listdir(os.path.join(root, "vllm"))) == ["done", "vllm", "vllm-0.26.0.dist-info"],
           str(os.listdir(os.path.join(root, "vllm"))))
    shutil.copytree(os.path.join(deps, "vllm/0.26.0/torch"), os.path.join(FOLDER, "machine/torch"))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "GPU_", "PYTHONPATH"))}
    env.update(LD_LIBRARY_PATH=os.path.join(root, "build/sim"), PYTHON=sys.executable,
               PYTHONPATH=os.path.join(FOLDER, "machine"))
    r = subprocess.run(["sh", os.path.join(root, "scripts/gpu-check.sh"), "--only", "vllm.eager"], capture_output=True,
                       text=True, cwd="/", env=env)
    expect(r.returncode == 0 and "skip vllm.eager - vLLM cannot be imported" in r.stdout
           and "from the pack" in r.stdout, r.stdout + r.stderr)


@case("a pack of a vLLM that is not pinned is refused, and says which are")
def unknown_vllm():
    rc, out = make_pack("unknown", "--vllm=0.0.1")
    expect(rc == 1 and "0.26.0: PyTorch 2.11.0, Python cp312" in out, out)
    expect(not os.path.exists(os.path.join(FOLDER, "unknown")), "a pack was begun")


@case("a pack that is too large is refused")
def large_pack():
    rc, out = make_pack("large", GPU_PACK_MOST="1000000")
    expect(rc == 1 and "are the limit" in out, f"{rc}: {out}")


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
