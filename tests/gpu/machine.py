# SPDX-License-Identifier: Apache-2.0
"""Paths on this machine; compiles and runs programs on it."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(ROOT, "build")
LIBRARY = os.path.join(BUILD, "libcutrace.so")
REPORT = os.path.join(BUILD, "cutrace-report")
SIM = os.path.join(BUILD, "sim")
SIMULATED = os.environ.get("GPU_CHECK_SIMULATED") == "1"
QUICK = os.environ.get("GPU_CHECK_QUICK") == "1"
OUT = os.environ.get("GPU_CHECK_OUT", ".")
# Faults for the test of these checks; none of them is ever set by gpu-check.sh.
PLANTS = set(filter(None, os.environ.get("GPU_CHECK_PLANT", "").split(",")))
MIB = 1 << 20

sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
sys.dont_write_bytecode = True


class Skip(Exception):
    """The check cannot run here; the text says why."""


class Fail(Exception):
    """The check does not hold; the text says what was seen."""


def need(condition, text):
    if not condition:
        raise Fail(text)


_work = None


def work():
    """A folder of this run; programs are compiled into it."""
    global _work
    if _work is None:
        _work = os.environ.get("GPU_CHECK_WORK") or tempfile.mkdtemp(prefix="gpu-check.")
        os.makedirs(_work, exist_ok=True)
        os.chmod(_work, 0o755)
    return _work


def folder(name):
    path = tempfile.mkdtemp(prefix=re.sub(r"\W+", "-", name) + ".", dir=work())
    os.chmod(path, 0o755)
    return path


# ---- what the machine has -------------------------------------------------------------------------

def cuda_home():
    for path in [os.environ.get("CUDA_HOME"), "/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)]:
        if path and os.path.exists(os.path.join(path, "include", "cuda.h")):
            return path
    return None


def nvcc():
    home = cuda_home()
    inside = os.path.join(home, "bin", "nvcc") if home else ""
    return inside if os.access(inside, os.X_OK) else shutil.which("nvcc")


def python_packages():
    """Folders in which pip keeps NVIDIA's libraries."""
    return [p for base in sys.path for p in glob.glob(os.path.join(base, "nvidia", "*")) if os.path.isdir(p)]


def cuda_include():
    candidates = [os.path.join(ROOT, "include", "cuda"), os.path.join(cuda_home() or "/nonexistent", "include"),
                  "/usr/include", *glob.glob(os.path.join(BUILD, "deps", "cuda-*", "include")),
                  *(os.path.join(p, "include") for p in python_packages()),
                  *(os.path.join(b, "triton", "backends", "nvidia", "include") for b in sys.path)]
    for path in candidates:
        if all(os.path.exists(os.path.join(path, h)) for h in ("cuda.h", "cudaTypedefs.h")):
            return path
    raise Skip("no cuda.h and cudaTypedefs.h on this machine or in the pack")


def find_library(pattern):
    """The newest library file of that name in the toolkit, in pip's folders or in the system's."""
    places = [SIM] if SIMULATED else []
    if not SIMULATED:
        home = cuda_home()
        places = [os.path.join(home, d) for d in ("lib64", "lib", "targets/x86_64-linux/lib")] if home else []
        places += [os.path.join(p, "lib") for p in python_packages()]
        places += ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"]
    for place in places:
        found = sorted(p for p in glob.glob(os.path.join(place, pattern)) if os.path.isfile(p))
        if found:
            return found[-1]
    return None


def driver_file():
    if SIMULATED:
        return os.path.join(SIM, "libcuda.so.1")
    listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, errors="replace",
                             env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/sbin:/usr/sbin"}).stdout
    found = [line.split("=>")[1].strip() for line in listing.splitlines() if "libcuda.so.1 " in line and "=>" in line]
    wanted = [f for f in found if "i386" not in f and "/lib32" not in f] + [
        p for d in os.environ.get("LD_LIBRARY_PATH", "").split(":") if d
        for p in glob.glob(os.path.join(d, "libcuda.so.1"))] + glob.glob("/usr/local/nvidia/lib64/libcuda.so.1")
    return wanted[0] if wanted else None


# ---- compiling ------------------------------------------------------------------------------------

def compiled(name, sources, *flags, compiler=None):
    """A program built from sources beside this file (or ../interception/...); built once."""
    target = os.path.join(work(), name)
    if os.path.exists(target):
        return target
    paths = [os.path.join(HERE, s) for s in sources]
    compiler = compiler or [shutil.which("gcc") or shutil.which("cc") or "cc", "-std=gnu11", "-Wall", "-O1",
                            "-rdynamic", "-pthread"]
    command = [*compiler, "-o", target + ".new", *paths, *flags]
    try:
        r = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=180)
    except (FileNotFoundError, PermissionError):
        raise Skip(f"no compiler: {command[0]}")
    need(r.returncode == 0, f"{name} does not compile: {r.stderr.strip()[-600:]}")
    os.rename(target + ".new", target)
    return target


def driver_program(name, sources, *flags):
    return compiled(name, sources, "-isystem", cuda_include(), *flags, "-ldl")


# ---- running --------------------------------------------------------------------------------------

def environment(**extra):
    e = {k: v for k, v in os.environ.items()
         if not k.startswith(("CUTRACE", "GPU_")) and k not in ("LD_PRELOAD", "SIM_LEDGER")}
    e["PYTHONDONTWRITEBYTECODE"] = "1"
    if SIMULATED:
        e["LD_LIBRARY_PATH"] = SIM + (":" + e["LD_LIBRARY_PATH"] if e.get("LD_LIBRARY_PATH") else "")
    e.update({k: str(v) for k, v in extra.items() if v is not None})
    return e


class Run:
    """A program that has ended: exit status, output, ledgers and traces of its processes."""

    def __init__(self, where, rc, out, err, seconds=0.0):
        self.where, self.rc, self.out, self.err, self.seconds = where, rc, out, err, seconds

    def files(self, pattern):
        return sorted(glob.glob(os.path.join(self.where, pattern)))

    @property
    def traces(self):
        return self.files("trace.*.zst")

    def trace(self):
        need(self.traces, f"no trace (exit status {self.rc}: {self.err.strip()[-300:]})")
        need(len(self.traces) == 1, f"{len(self.traces)} traces")
        return self.traces[0]

    def own(self):
        """The programs' own ledgers: {pid: [lines]}."""
        found = {}
        for path in self.files("own.*"):
            with open(path) as f:
                found[int(path.rsplit(".", 1)[1])] = [json.loads(line) for line in f]
        if "wrong-ledger" in PLANTS:
            for line in [l for lines in found.values() for l in lines if l.get("op") == "alloc"][2:3]:
                line["bytes"] += 1
        return found

    def good(self):
        need(self.rc == 0, f"exit status {self.rc}: {(self.err or self.out).strip()[-500:]}")
        return self


def traced_environment(where, traced=True, **env):
    extra = {"GPU_LEDGER": os.path.join(where, "own"), "CUTRACE_QUIET": "1"}
    if traced:
        extra.update(LD_PRELOAD=LIBRARY, CUTRACE_OUTPUT=os.path.join(where, "trace.%p.zst"))
        if "untraced" in PLANTS:
            extra["CUTRACE"] = "0"
    extra.update(env)
    if "not-preloaded" in PLANTS:
        for name in ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
            extra.pop(name, None)
    return environment(**extra)


def run(name, command, traced=True, timeout=120, where=None, before=(), **env):
    """Runs a command; one that hangs is killed with its group."""
    where = where or folder(name)
    process = subprocess.Popen([*before, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               cwd=where, env=traced_environment(where, traced, **env), text=True,
                               errors="replace", stdin=subprocess.DEVNULL)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            pass  # stuck in the driver
        raise Fail(f"did not end within {timeout} s")
    return Run(where, process.returncode, out, err)


# ---- reading traces -------------------------------------------------------------------------------

def output_of(command, trace, accept=(0,)):
    r = subprocess.run([REPORT, *command.split(), "--json", trace], capture_output=True, text=True,
                       errors="replace", env=environment(), timeout=120)
    need(r.returncode in accept, f"cutrace-report {command}: exit status {r.returncode}: {r.stderr.strip()[-300:]}")
    return r.stdout


def report(command, trace, accept=(0,)):
    import check_ledger  # (it is found since this module set the path)
    return check_ledger.validated(command.split()[0], output_of(command, trace, accept))


def events(trace, stacks_of_blocks=False):
    if stacks_of_blocks:
        import check_ledger
        return planted(check_ledger.read_dump(output_of("dump", trace)))  # which validates it
    found = []
    for line in report("dump", trace).splitlines():
        e = json.loads(line)
        if e["op"].startswith("block-"):  # there are many of them
            del e["stack"]
        found.append(e)
    return planted(found)


def planted(found):
    """The events, with the faults that a test has planted."""
    blocks = [i for i, e in enumerate(found) if e["op"] == "block-alloc"]
    takes = [i for i, e in enumerate(found) if e["op"] in ("alloc", "create")]
    # Of a trace of PyTorch what PyTorch itself can contradict: its last segment.
    its = [i for i in takes if blocks and any("libc10_cuda" in (f["module"] or "") for f in found[i]["stack"] or [])
           and not found[i]["result"]]
    event = (its[-1:] or takes[1:2] or takes[:1] or [None])[0]
    if "wrong-size" in PLANTS and event is not None:
        found[event] = {**found[event], "bytes": found[event]["bytes"] + 2 * MIB}
    if "wrong-block" in PLANTS and blocks:
        found[blocks[-1]] = {**found[blocks[-1]], "bytes": found[blocks[-1]]["bytes"] + 512}
    if "lost-block" in PLANTS and blocks:
        del found[blocks[-1]]
    if "lost-event" in PLANTS and event is not None:
        del found[event]
    if "lost-refusal" in PLANTS:
        found = [e for e in found if e["result"] in (0, None)]
    return found


def summary(trace):
    found = json.loads(report("summary", trace))
    if "lost-refusal" in PLANTS:
        found["ooms"], found["crossing"] = [], None
    return found


def info(trace):
    return json.loads(report("info", trace))["info"]


def hook_calls(trace):
    """How often each hooked function was called: {symbol: calls}."""
    calls = {k[5:-6]: int(v) for k, v in info(trace).items() if k.startswith("hook.") and k.endswith(".calls")}
    if "lost-event" in PLANTS:
        calls = {k: v for k, v in calls.items() if "Alloc" not in k and "Reset" not in k}
    return calls


def median(values):
    values = sorted(values)
    n = len(values)
    return (values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2) if n else None


def mib(n):
    return "-" if n is None else f"{n / MIB:.2f} MiB"
