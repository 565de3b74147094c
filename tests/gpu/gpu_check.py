#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can decide. Started by scripts/gpu-check.sh; see README.md."""
import argparse
import datetime
import importlib
import itertools
import json
import os
import platform
import re
import selectors
import signal
import subprocess
import sys
import time

USAGE = "gpu-check.sh [--out DIR] [--quick] [--only NAME]... [--simulated] [--list]"
# Seconds for each section: in full, and with --quick. Together no more than twelve minutes, and ten more for the cases
# of vLLM where it is installed.
LIMITS = {"ways-in": (60, 60), "look-ups": (25, 25), "physics": (25, 25), "torch": (250, 60),
          "cupti": (60, 40), "deepbind": (20, 20), "dlmopen": (10, 10), "nvtx": (20, 20), "overhead": (170, 60), "death": (55, 25), "users": (15, 10), "vllm": (580, 300)}
assert sum(full for full, _ in LIMITS.values()) <= 710 + LIMITS["vllm"][0]
HANG_FACTOR = 6  # on the simulated driver the limit is a mere guard: the machine may be slow and busy

_checks = []  # (section, name, needs a GPU, function)


def check(section, name, gpu=False):
    """Registers a check: a function that returns its detail, or (detail, figures), or raises Skip or Fail."""
    def register(function):
        _checks.append((section, name, gpu, function))
        return function
    return register


def module_of(section):
    return importlib.import_module("section_" + section.replace("-", "_"))


def load_sections():
    sys.modules["gpu_check"] = sys.modules[__name__]
    for section in LIMITS:
        module_of(section)
    return _checks


def wanted(only, section, name):
    return not only or any(o in (section, f"{section}.{name}") for o in only)


# ---- one section, in a process of its own --------------------------------------------------------------

def run_section(section, only):
    """Prints a JSON line when a check begins and one with its result; what programs print there goes to stderr."""
    import machine
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for of, name, gpu, function in load_sections():
        if of != section or not wanted(only, section, name):
            continue
        print(json.dumps({"begin": f"{section}.{name}"}), file=out, flush=True)
        start, figures = time.monotonic(), {}
        try:
            if f"hang-{section}" in machine.PLANTS:
                time.sleep(3600)
            if gpu and machine.SIMULATED:
                raise machine.Skip("needs a GPU: the simulated driver cannot tell")
            answer = function()
            detail, figures = answer if isinstance(answer, tuple) else (answer or "", {})
            result = "ok"
        except machine.Skip as e:
            result, detail = "skip", str(e)
        except machine.Fail as e:
            result, detail = "not ok", str(e)
        except Exception as e:  # a fault of the check itself, or of a program's output
            import traceback
            where = traceback.extract_tb(e.__traceback__)[-1]
            result = "not ok"
            detail = f"{type(e).__name__}: {e} ({os.path.basename(where.filename)}:{where.lineno})"
        print(json.dumps({"name": f"{section}.{name}", "section": section, "result": result,
                          "detail": " ".join(detail.split())[:900], "figures": figures,
                          "seconds": round(time.monotonic() - start, 2)}), file=out, flush=True)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        pass  # stuck in the driver: left behind, the other sections go on


def section_results(section, names, only, limit, env):
    """Starts the section and yields its results; what had no result in time is a failure."""
    command = [sys.executable, os.path.abspath(__file__), "--section", section]
    for o in only:
        command += ["--only", o]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env, start_new_session=True,
                               stdin=subprocess.DEVNULL)
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    deadline, pending, begun, ended, rest = time.monotonic() + limit, list(names), None, False, b""
    while not ended and time.monotonic() < deadline:
        if not selector.select(max(0.0, deadline - time.monotonic())):
            break
        data = os.read(process.stdout.fileno(), 65536)
        ended = not data
        *lines, rest = (rest + data).split(b"\n")
        for line in map(json.loads, lines):
            if "begin" in line:
                begun = line["begin"]
            else:
                pending.remove(line["name"])
                yield line
    kill_group(process)
    for name in pending:
        why = "the section's process ended" if ended else f"the section's {limit} s were over"
        detail = f"{'did not end' if name == begun else 'not run'}: {why}"
        yield {"name": name, "section": section, "result": "not ok", "detail": detail, "figures": {}, "seconds": None}


# ---- the whole -------------------------------------------------------------------------------------------

PROBE = r"""
import ctypes, json
out = {}
class Memory(ctypes.Structure):
    _fields_ = [(n, ctypes.c_ulonglong) for n in ("total", "free", "used")]
try:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2() == 0:
        text = ctypes.create_string_buffer(96)
        if nvml.nvmlSystemGetDriverVersion(text, 96) == 0:
            out["driver"] = text.value.decode()
except (OSError, AttributeError):
    pass
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as e:
    out["reason"] = f"no NVIDIA driver: {e}"
else:
    n, device, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name, total = ctypes.create_string_buffer(200), ctypes.c_size_t()
    r = cuda.cuInit(0)
    if r:
        out["reason"] = f"the driver cannot be used: cuInit returns {r}"
    elif cuda.cuDeviceGetCount(ctypes.byref(n)) or n.value < 1:
        out["reason"] = "the driver sees no GPU"
    else:
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        cuda.cuDeviceGetName(name, 200, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
        cuda.cuDriverGetVersion(ctypes.byref(version))
        out.update(gpu=name.value.decode(), devices=n.value, total_bytes=total.value, cuda=version.value)
print(json.dumps(out))
"""


def probe(env):
    try:
        r = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, env=env, timeout=90)
        return json.loads(r.stdout)
    except subprocess.TimeoutExpired:
        return {"reason": "the driver did not answer within 90 s"}
    except ValueError:
        return {"reason": f"the driver could not be asked: {(r.stderr or 'no output').strip()[-200:]}"}


def vllm_version():
    import importlib.metadata
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return None


def describe(gpu, simulated):
    import machine
    torch = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"],
                           capture_output=True, text=True).stdout.split()
    return {"schema": "cutrace.gpu-check/1", "simulated": simulated, "gpu": gpu.get("gpu"),
            "driver": gpu.get("driver") or str(gpu.get("cuda")), "cuda_driver_version": gpu.get("cuda"),
            "devices": gpu.get("devices"), "total_bytes": gpu.get("total_bytes"),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "machine": {"kernel": platform.release(), "processor": platform.machine(),
                        "libc": "-".join(platform.libc_ver()), "python": platform.python_version(),
                        "torch": torch[0] if torch else None, "torch_cuda": torch[1] if len(torch) > 1 else None,
                        "vllm": vllm_version(),
                        "nvcc": machine.nvcc(), "root": os.geteuid() == 0}}


def text_of_section(section, results):
    """Lines of Markdown; a section may have more_of(results), lines below its table."""
    yield from ("", f"## {section}", "", "| check | result | detail |", "|---|---|---|")
    for r in results:
        detail = r["detail"].replace("|", "\\|")
        yield f"| {r['name'].split('.', 1)[1]} | {r['result']} | {detail} |"
    yield from getattr(module_of(section), "more_of", lambda _: [])(results)


def write_results(out, head, results, last):
    stem = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", str(head[k])) for k in ("gpu", "driver")) + "-" + head["date"]
    path = os.path.join(out, stem)
    with open(path + ".json", "w") as f:
        json.dump({**head, "checks": results, "summary": last}, f, indent=1)
        f.write("\n")
    with open(path + ".md", "w") as f:
        f.write(f"# gpu-check: {head['gpu']}, driver {head['driver']}, {head['date']}\n\n")
        if head["simulated"]:
            f.write("**The simulated driver, no GPU: no figure on this page is one of a GPU.**\n\n")
        for key, value in head["machine"].items():
            f.write(f"- {key}: {value}\n")
        for section, of in itertools.groupby(results, key=lambda r: r["section"]):
            f.writelines(line + "\n" for line in text_of_section(section, list(of)))
        f.write(f"\n{last}\n")
    return path + ".json"


def main():
    parser = argparse.ArgumentParser(prog="gpu-check.sh", usage=USAGE, add_help=True)
    parser.add_argument("--out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--section", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.section:
        run_section(a.section, a.only)
        return 0

    if a.simulated:
        os.environ["GPU_CHECK_SIMULATED"] = "1"
    if a.quick:
        os.environ["GPU_CHECK_QUICK"] = "1"
    import machine  # reads the environment
    a.out = a.out or os.path.join(machine.BUILD, "gpu-check-results")
    os.environ["GPU_CHECK_OUT"] = os.path.abspath(a.out)
    checks = [(s, n) for s, n, _, _ in load_sections()]
    unknown = [o for o in a.only if not any(wanted([o], s, n) for s, n in checks)]
    if unknown:
        print(f"gpu-check.sh: no such check: {unknown[0]}; --list names them", file=sys.stderr)
        return 2
    checks = [c for c in checks if wanted(a.only, *c)]
    if a.list:
        print("\n".join(f"{s}.{n}" for s, n in checks))
        return 0

    for path in (machine.LIBRARY, machine.REPORT, *((machine.driver_file(),) if a.simulated else ())):
        if not os.path.exists(path):
            print(f"gpu-check.sh: {path} is missing: build first (make), or use the pack of scripts/gpu-pack.sh",
                  file=sys.stderr)
            return 2
    gpu = probe(machine.environment())
    if "reason" in gpu:
        print(f"gpu-check.sh: no GPU here: {gpu['reason']}")
        return 77
    os.makedirs(a.out, exist_ok=True)
    keep = "GPU_CHECK_WORK" in os.environ
    os.environ["GPU_CHECK_WORK"] = machine.work()
    # One that poses as a GPU says what it is all the same.
    head = describe(gpu, a.simulated or "simulated" in str(gpu.get("driver")).lower())
    print(f"# {head['gpu']}, driver {head['driver']}, {head['date']}", flush=True)
    os.environ.update(GPU_CHECK_TOTAL=str(gpu["total_bytes"]), GPU_CHECK_DEVICES=str(gpu["devices"]))
    results = []
    for section in LIMITS:
        names = [f"{s}.{n}" for s, n in checks if s == section]
        if not names:
            continue
        limit = LIMITS[section][a.quick] * (HANG_FACTOR if a.simulated else 1)
        of, _, seconds = os.environ.get("GPU_CHECK_LIMIT", "").rpartition("=")  # SECONDS, or SECTION=SECONDS
        limit = int(seconds) if seconds and of in ("", section) else limit
        env = {**os.environ, "GPU_CHECK_SECONDS": str(limit)}
        for r in section_results(section, names, a.only, limit, env):
            results.append(r)
            print(f"{r['result']} {r['name']}{' - ' if r['detail'] else ''}{r['detail']}", flush=True)
    count = {k: sum(r["result"] == k for r in results) for k in ("ok", "not ok", "skip")}
    last = f"{count['ok']} passed, {count['not ok']} failed, {count['skip']} skipped"
    print(f"# results: {write_results(a.out, head, results, last)}")
    if not keep:
        import shutil
        shutil.rmtree(machine.work(), ignore_errors=True)
    print(last)
    return 1 if count["not ok"] else 0


if __name__ == "__main__":
    sys.exit(main())
