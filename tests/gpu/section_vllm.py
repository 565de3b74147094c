# SPDX-License-Identifier: Apache-2.0
"""vllm: cases of tests/vllm on this GPU, wherever `import vllm` works. The trace equals PyTorch's own figures between the
steps, and vLLM's log."""
import collections
import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
import time

import machine
from gpu_check import LIMITS, check
from machine import QUICK, Fail, Skip, mib, need

VLLM = os.path.join(machine.ROOT, "tests", "vllm")
sys.path.append(VLLM)
from cases import CASES  # noqa: E402
import vllm_judge  # noqa: E402
import vllm_log  # noqa: E402
import vllm_trace  # noqa: E402

WORK = os.path.join(machine.HERE, "vllm_work.py")
MODEL = "/opt/bed/models/"  # of the cases, where the simulated GPU is
OPTIONS = {"VLLM_ENABLE_V1_MULTIPROCESSING": 0, "VLLM_USE_FLASHINFER_SAMPLER": 0, "VLLM_NO_USAGE_STATS": 1,
           "HF_HUB_OFFLINE": 1, "VLLM_LOGGING_COLOR": 0, "NO_COLOR": 1}
DEVICE_MIB = 24576
PATIENCE = 200  # seconds for a run
# Whose memory the case for the simulated GPU has by assumption (tests/vllm/stand_ins.py).
LIBRARIES = re.compile(r"lib(cublas|cublasLt|cudnn|nccl|cusolver|cusparse|curand)\w*\.so")
# The most telling ones first: what no longer fits into the section's time is skipped.
NAMES = ["eager", "ballast", "full-graphs", "profile-run", "eager-first-runner", "sleep-2", "wake-up", "initialize-kv-cache",
         "capture-model", "warm-up-sampler", "neighbour", "leak", "burst-of-prefills", "prompt-logprobs", "kv-fp8",
         "no-cache-blocks", "load-model", "compile"]
ALWAYS = ("eager", "ballast")  # also with --quick
_end = time.monotonic() + LIMITS["vllm"][QUICK]


@functools.lru_cache(None)
def reason_against():
    if sys.version_info < (3, 10):
        return "vLLM needs Python 3.10"
    r = subprocess.run([sys.executable, "-c", "import torch, vllm; print('vllm', vllm.__version__, torch.cuda.is_available())"],
                       capture_output=True, text=True, env=machine.environment(**OPTIONS), timeout=120)
    if "No module named 'vllm'" in r.stderr:
        return "vLLM is not installed (scripts/gpu-pack.sh --vllm=VERSION takes it along)"
    if r.returncode:
        return f"vLLM cannot be imported: {r.stderr.strip()[-200:]}"
    return None if r.stdout.split()[-1] == "True" else "PyTorch cannot use this GPU"


def words_of(row):
    words = json.dumps({"model": MODEL + row.model, "arguments": row.arguments, "steps": row.steps,
                        "device_mib": int(row.environment.get("SIM_MEM_MB", DEVICE_MIB))})
    return words.replace(MODEL, os.path.join(VLLM, "models") + os.sep)


def run(row, traced=True):
    environment = {k: v for k, v in row.environment.items() if not k.startswith("SIM_")}
    done = machine.run(f"vllm-{row.name}", [sys.executable, WORK, words_of(row)], traced=traced, timeout=PATIENCE,
                       **{**OPTIONS, **environment})
    done.log = done.out + "\n" + done.err
    return done


def ended_well(log):
    return re.search("^DONE$", log, re.M) is not None


def ends_as_said(row, log):
    return re.search(row.error, log) is not None if row.error else ended_well(log)


def libraries(events):
    """Bytes that NVIDIA's libraries took, by library, and what graphs, modules and contexts were measured to take."""
    taken, measured = collections.Counter(), collections.Counter()
    for e in events:
        if e["op"] == "alloc" and e["result"] == 0 and e.get("space") != "host":
            names = [LIBRARIES.match(os.path.basename(f.get("module") or "")) for f in e["stack"] or []]
            for name in filter(None, names):
                taken[name[1]] += e["bytes"]
                break
        if e.get("used_bytes") and e["result"] == 0:
            measured[e["api"]] += e["used_bytes"]
    return {"libraries": dict(taken), "measured": dict(measured)}


def compare(row, done):
    """(detail, figures); what a case of the simulated GPU says of its end need not be true here: that is UNUSUAL."""
    words = dataclasses.asdict(row)
    events = machine.events(done.trace(), stacks_of_blocks=True)
    problems = vllm_judge.judge_moments(done.log, events) + vllm_judge.judge_figures(done.log, events, words)
    need(not problems, "; ".join(problems))
    moments = vllm_log.moments(done.log)
    refused = vllm_trace.refused_calls(events)
    need(moments or refused, "the run has no figure to compare with")
    unusual = vllm_judge.judge_end(done.log, events, words)
    figures = {"moments": len(moments), "refused": len(refused), "weights": vllm_trace.weights(vllm_trace.Moments(events)),
               "kv_cache": vllm_trace.kv_cache(vllm_trace.Moments(events))[0], **libraries(events)}
    detail = (f"{len(moments)} checkpoints of PyTorch's figures, {len(refused)} refused calls; weights {mib(figures['weights'])},"
              f" KV cache {mib(figures['kv_cache'])}; libraries {figures['libraries']}, measured {figures['measured']}")
    return (f"UNUSUAL ({'; '.join(unusual)}): " if unusual else "") + detail, figures


def case_check(row):
    @check("vllm", row.name, gpu=True)
    def one():
        if reason_against():
            raise Skip(reason_against())
        if QUICK and row.name not in ALWAYS:
            raise Skip("not with --quick")
        if time.monotonic() + PATIENCE > _end and row.name not in ALWAYS:
            raise Skip("no time is left: --only vllm." + row.name)
        done = run(row)
        if not ends_as_said(row, done.log) and not ended_well(done.log) and not vllm_log.refusal(done.log):
            plain = run(row, traced=False)
            if not ended_well(plain.log):
                raise Skip(f"fails without cutrace, too: {plain.log.strip()[-300:]}")
            raise Fail(f"fails under cutrace only: {done.log.strip()[-300:]}")
        return compare(row, done)


for each in NAMES:
    case_check(CASES[each])
