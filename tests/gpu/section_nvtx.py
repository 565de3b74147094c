# SPDX-License-Identifier: Apache-2.0
"""nvtx: ranges and marks of NVTX are in the trace where the program made them, between its allocations."""
import glob
import os
import sys

import machine
import section_torch
from gpu_check import check
from machine import MIB, Skip, need

OPS = ("mark", "range-push", "range-pop", "range-start", "range-end")


def headers():
    places = [os.path.join(machine.cuda_home() or "/nonexistent", "include"), machine.cuda_include(),
              *(os.path.join(p, "include") for p in machine.python_packages()),
              *glob.glob(os.path.join(machine.BUILD, "deps/nvtx/nvidia/*/include"))]
    for place in places:
        if os.path.exists(os.path.join(place, "nvtx3/nvToolsExt.h")):
            return place
    raise Skip("no nvtx3/nvToolsExt.h on this machine")


def said(done):
    """(op, text, domain) of what the program said, and the sizes of its allocations, in order."""
    out = []
    for e in machine.events(done.trace()):
        if e["op"] in OPS:
            out.append((e["op"], e["text"], e["domain"]))
        elif e["op"] == "alloc" and e["bytes"] in (MIB, 2 * MIB, 3 * MIB):
            out.append(e["bytes"] // MIB)
    return out


def compare(done, expected):
    found = said(done)
    need(found == expected, f"the trace has {found}, the program made {expected}")
    modules = machine.info(done.trace()).get("nvtx.modules")
    need(modules, "no module's NVTX was initialized")
    return f"{sum(isinstance(e, tuple) for e in found)} of NVTX's events, in their places", {"modules": modules}


def run(name, command, **env):
    done = machine.run(name, command, NVTX_INJECTION64_PATH=machine.LIBRARY, **env)
    if done.rc == 77:
        raise Skip(done.err.strip()[-200:])
    return done.good()


C_PROGRAM = [1, ("range-push", "outer", None), ("range-push", "inner", None), 2, ("range-pop", None, None), ("mark", "moment", None),
             ("range-push", "of a domain", "domain"), 3, ("range-pop", None, "domain"), ("range-pop", None, None)]


def c_program():
    return [machine.compiled("nvtx", ["nvtx.c"], "-w", "-isystem", headers(), "-ldl")]


@check("nvtx", "c-program")
def c():
    return compare(run("nvtx-c", c_program()), C_PROGRAM)


@check("nvtx", "c-program-injected")
def both():
    """The driver loads the library, too (CUDA_INJECTION64_PATH): each range once."""
    return compare(run("nvtx-injected", c_program(), CUDA_INJECTION64_PATH=machine.LIBRARY), C_PROGRAM)


TORCH = """
import torch
from torch.cuda import nvtx
keep = [torch.empty(1 << 20, dtype=torch.uint8, device="cuda")]
with nvtx.range("epoch {}", 3):
    keep.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
nvtx.mark("checkpoint")
nvtx.range_end(nvtx.range_start("save"))
"""


@check("nvtx", "torch", gpu=True)
def torch():
    section_torch.available()
    done = run("nvtx-torch", [sys.executable, "-c", TORCH])
    events = machine.events(done.trace())
    expected = [("range-push", "epoch 3", None), ("range-pop", None, None), ("mark", "checkpoint", None),
                ("range-start", "save", None), ("range-end", None, None)]
    found = [e for e in said(done) if isinstance(e, tuple)]
    need(found == expected, f"the trace has {found}")
    t = {e["op"]: e["t_ns"] for e in events if e["op"] in ("range-push", "range-pop")}
    taken = [e for e in events if e["op"] == "alloc" and e["bytes"] == 64 * MIB]
    need(len(taken) == 1 and t["range-push"] <= taken[0]["t_ns"] <= t["range-pop"],
         f"{len(taken)} allocations of 64 MiB; not in the range")
    return f"{len(found)} of torch.cuda.nvtx's events, and the allocation inside its range", {}
