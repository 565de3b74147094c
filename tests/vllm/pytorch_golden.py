#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the traces of plain PyTorch programs (pytorch_programs.py) anew: tests/report/pytorch/NAME/{trace.zst,log.txt,case.json}

pytorch_golden.py [NAME...]. PyTorch is the one of vLLM's packages, on the simulated GPU (bed.py). case.json comes from the table
below and from PyTorch's own words in the log, never from cutrace."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import bed

HERE = os.path.dirname(os.path.realpath(__file__))
TARGET = os.path.join(HERE, "../report/pytorch")
# name: (the scenario by the trace, by the log, the environment, what the program's log says)
CASES = {
    "healthy": ("none", "", {}, "DONE"),
    "training_step": ("training-step", "training-step", {}, "CUDA out of memory"),
    "adam_of_many": ("training-step", "training-step", {}, "CUDA out of memory"),
    "first_forward": ("training-step", "", {}, "CUDA out of memory"),
    "halving": ("recovered", "", {}, "DONE"),
    "validation": ("leak", "", {}, "CUDA out of memory"),
    "scattered": ("fragmentation", "", {}, "CUDA out of memory"),
    "fragmentation": ("fragmentation", "fragmentation", {}, "CUDA out of memory"),
    "leak": ("leak", "", {}, "CUDA out of memory"),
    "untracked_growth": ("untracked-growth", "graph-capture", {"SIM_GRAPH_KB": 32768}, "CUDA error: out of memory|CUDA out of memory"),
    "host_pinned": ("host-pinned", "host-pinned", {"SIM_FAIL": "cuMemHostAlloc:9-:2"}, "out of memory"),
    "impossible_request": ("impossible-request", "impossible-request", {}, "CUDA out of memory"),
    "recovered": ("recovered", "", {}, "DONE"),
    "unknown": ("unknown", "", {}, "CUDA out of memory"),
    "driver_mismatch": ("", "driver-mismatch", {"SIM_DRIVER_VERSION": 11040}, "driver on your system is too old"),
    "host_memory": ("", "host-memory", {}, "can't allocate memory"),
}


def write(name, run, torch):
    by_trace, by_log, environment, says = CASES[name]
    folder = os.path.join(TARGET, name)
    found = re.findall(f"[^\n]*(?:{says})[^\n]*", run.log)
    if not found:
        sys.exit(f"{name}: the log does not say {says!r}:\n{run.log[-3000:]}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if by_trace:
        trace, = run.traces
        shutil.copyfile(trace, os.path.join(folder, "trace.zst"))
        if os.path.exists(trace + ".journal"):
            shutil.copyfile(trace + ".journal", os.path.join(folder, "trace.zst.journal"))
            subprocess.run([os.path.join(bed.BUILD, "cutrace-report"), "copy", "--seal", os.path.join(folder, "trace.zst")], check=True)
    shutil.copyfile(run.path("log.txt"), os.path.join(folder, "log.txt"))
    with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
        json.dump({"torch": torch, "name": name, "scenario": by_trace, "log_scenario": by_log, "environment": environment,
                   "status": run.status, "said": found[-1].strip()}, f, indent=1)
        f.write("\n")


def main(*names):
    machine = bed.Bed()
    torch, = [re.sub(r"torch-([\d.]+)\.dist-info", r"\1", n) for n in os.listdir(machine.packages) if re.match(r"torch-[\d.]+\.d", n)]
    for name in names or CASES:
        with tempfile.TemporaryDirectory(prefix="pytorch.") as folder:
            run = machine.run(os.path.join(folder, "run"), ["/opt/bed/pytorch_programs.py", name], CASES[name][2])
            write(name, run, torch)
            print(name, run.status, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
