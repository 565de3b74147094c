#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu-check on the simulated driver: every check passes, and each one fails on a planted fault."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import BUILD, ROOT, Skip, case, main  # noqa: E402

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


@case("without a fault everything passes")
def healthy():
    rc, out, results = simulated()
    bad = [line for word, line in results.values() if word == "not ok"]
    expect(rc == 0 and not bad, "\n".join(bad) or out[-2000:])
    _passed.update(name for name, (word, _) in results.items() if word == "ok")
    count = {w: sum(word == w for word, _ in results.values()) for w in ("ok", "not ok", "skip")}
    last = f"{count['ok']} passed, {count['not ok']} failed, {count['skip']} skipped"
    expect(out.rstrip().splitlines()[-1] == last, f"the last line is not {last!r}: {out[-200:]}")
    expect(count["ok"] >= 40, f"only {count['ok']} checks ran")
    expect(all(" - " in line for word, line in results.values() if word == "skip"), "a skip without a reason")


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


def plant(name, only, spared=(), **env):
    """With the fault, every check of these sections that passes otherwise fails, but for those spared."""
    @case(f"fault {name}: {', '.join(only)}")
    def one():
        settings = {k: v for k, v in env.items()} or {"GPU_CHECK_PLANT": name}
        rc, out, results = simulated(*only, **settings)
        expect(rc == 1, f"exit status {rc}: {out[-1500:]}")
        wanted = {n for n in results if n in _passed and not any(n.startswith(s) for s in spared)}
        fooled = sorted(n for n in wanted if results[n][0] != "not ok")
        expect(wanted, f"nothing ran: {out[-500:]}")
        expect(not fooled, f"not noticed by {fooled}")
        _failed.update(n for n, (word, _) in results.items() if word == "not ok")


plant("not-preloaded", ["ways-in", "look-ups", "overhead", "death", "users"],
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


@case("a tracer that is switched off is noticed")
def switched_off():
    rc, out, results = simulated("ways-in.driver-dlsym", "users.root", "users.ordinary", GPU_CHECK_PLANT="untraced")
    expect(rc == 1 and all(w == "not ok" for n, (w, _) in results.items() if n in _passed), out[-1500:])


@case("each check that passes has been seen to fail")
def each():
    left = _passed - _failed
    expect(not left, f"never failed: {sorted(left)}")


@case("one that hangs costs no other section")
def hangs():
    rc, out, results = simulated("death.killed-at-refusal", "death.process-killed", "users.ordinary",
                                 GPU_CHECK_PLANT="hang-death", GPU_CHECK_LIMIT="15")
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


@case("PyTorch's reserved bytes are compared with the trace")
def torch_compare():
    import machine
    import section_torch
    section_torch.compare(torch_events(), torch_points())

    def fails(events, points, text):
        try:
            section_torch.compare(events, points)
        except machine.Fail as e:
            return expect(text in str(e), str(e))
        raise AssertionError(f"not noticed: {text}")
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
    for name, (trace, points) in traces.items():
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


# ---- the command -------------------------------------------------------------------------------------------

@case("usage")
def usage():
    expect(run("--wrong")[0] == 2, "an unknown option")
    rc, out, _ = run("--only", "nothing")
    expect(rc == 2 and "no such check: nothing" in out, out)
    rc, out, _ = run("--list")
    expect(rc == 0 and {line.split(".")[0] for line in out.split()} ==
           {"ways-in", "look-ups", "physics", "torch", "overhead", "death", "users", "vllm"}, out)
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


@case("the pack runs on its own")
def pack():
    rc, out = make_pack("pack")
    expect(rc == 0, out)
    away = os.path.join(FOLDER, "away")
    os.mkdir(away)
    subprocess.run(["tar", "-C", away, "-xzf", os.path.join(FOLDER, "pack.tar.gz")], check=True)
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


@case("the parts of a pack make the same pack again, and a damaged part is refused")
def parts():
    rc, out = make_pack("cut", "--part-size=700K")
    expect(rc == 0, out)
    made = sorted(glob.glob(os.path.join(FOLDER, "cut.tar.gz.*")))
    expect(len(made) > 2 and all(os.path.getsize(p) <= 700 << 10 for p in made), str(made))
    away = os.path.join(FOLDER, "joined")
    os.mkdir(away)
    for path in [*made, os.path.join(FOLDER, "cut.join.sh")]:
        shutil.move(path, away)
    join = ["sh", os.path.join(away, "cut.join.sh"), away]
    r = subprocess.run(join, capture_output=True, text=True)
    expect(r.returncode == 0, r.stderr)
    r = subprocess.run(["diff", "-r", os.path.join(FOLDER, "cut"), os.path.join(away, "cut")], capture_output=True, text=True)
    expect(r.returncode == 0, r.stdout)
    with open(os.path.join(away, os.path.basename(made[1])), "r+b") as f:
        f.write(b"?")
    shutil.rmtree(os.path.join(away, "cut"))
    r = subprocess.run(join, capture_output=True, text=True)
    expect(r.returncode and "cut.tar.gz.001" in r.stdout + r.stderr and not os.path.exists(os.path.join(away, "cut")), r.stdout)


@case("a pack that is too large is refused")
def large_pack():
    rc, out = make_pack("large", GPU_PACK_MOST="1000000")
    expect(rc == 1 and "are the limit" in out, f"{rc}: {out}")


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
