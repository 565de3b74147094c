# SPDX-License-Identifier: Apache-2.0
"""vllm: the cases of tests/vllm on this GPU, wherever `import vllm` works. The trace equals PyTorch's own figures, its
exception, and vLLM's log."""
import collections
import dataclasses
import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import time

import machine
from gpu_check import LIMITS, check
from machine import MIB, QUICK, Fail, Skip, mib, need

VLLM = os.path.join(machine.ROOT, "tests", "vllm")
sys.path.append(VLLM)
import cases  # noqa: E402
import golden  # noqa: E402
import vllm_judge  # noqa: E402
import vllm_log  # noqa: E402
import vllm_memory  # noqa: E402
import vllm_trace  # noqa: E402
import segments  # noqa: E402 (vllm_judge made it findable)

WORK = os.path.join(machine.HERE, "vllm_work.py")
MODEL = "/opt/bed/models/"  # of the cases, where the simulated GPU is
DEVICE_MIB = 24576
PATIENCE = 200  # seconds for a run
CACHES = ("XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "PYTHONPYCACHEPREFIX")
SLACK = 64 * MIB  # of free memory: what the driver may have kept of what was freed
# The most telling ones first: what no longer fits into the section's time is skipped.
FIRST = ["eager", "ballast", "full-graphs", "profile-run", "eager-first-runner", "sleep-2", "wake-up",
         "initialize-kv-cache", "capture-model", "warm-up-sampler", "neighbour", "leak", "burst-of-prefills"]
ALWAYS = ("eager", "ballast")  # also with --quick
NAMES = FIRST + [c.name for c in cases.TABLE if c.name not in FIRST]
_end = time.monotonic() + float(os.environ.get("GPU_CHECK_SECONDS", LIMITS["vllm"][QUICK]))


_longest = 0  # seconds that a case has taken


def seconds_left():
    return _end - time.monotonic() - 5


def has_time():
    """Whether one more case fits: one takes less than twice what the longest took, which is known after the first."""
    return seconds_left() >= (2 * _longest or PATIENCE)


# ---- whether a case can run here --------------------------------------------------------------------------

PROBE = "import torch, vllm; print('\\nvllm', torch.__version__, torch.cuda.is_available())"


@functools.lru_cache(None)
def version():
    """Of the vLLM that Python finds, without importing it; None: there is none."""
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:  # (a mere folder of that name is none)
        return None
    try:
        return importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return cases.NEWEST


def torch_of_vllm():
    """The version of PyTorch that this vLLM is built for, if it says so."""
    try:
        wanted = importlib.metadata.requires("vllm") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((m[1] for m in (re.match(r"torch\s*==\s*([\d.]+)", w) for w in wanted) if m), None)


@functools.lru_cache(None)
def reason_against():
    """Why no case can run here, or None."""
    if version() is None:
        return "vLLM is not installed (scripts/gpu-pack.sh --vllm=VERSION takes it along)"
    if sys.version_info < (3, 10):
        return "vLLM needs Python 3.10"
    try:
        r = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, errors="replace",
                           env=machine.environment(**settings()), timeout=max(1, min(PATIENCE, seconds_left())))
    except subprocess.TimeoutExpired:
        return f"vLLM was not imported within {PATIENCE} s"
    if r.returncode:
        return f"vLLM cannot be imported: {r.stderr.strip()[-200:]}"
    torch, usable = r.stdout.split()[-2:]
    wanted = torch_of_vllm()
    if wanted and cases.numbers_of(torch)[:2] != cases.numbers_of(wanted)[:2]:
        return f"this vLLM ({version()}) is built for PyTorch {wanted}, and here is {torch}"
    return None if usable == "True" else "PyTorch cannot use this GPU"


def known_version():
    """The one of the table of cases that this vLLM is like."""
    return cases.version_of_table(version())


def table():
    return cases.cases_of(known_version())


def room_of(row):
    """What the case is made for; the figures of the simulated GPU are in its environment."""
    device = int(row.environment.get("SIM_MEM_MB", DEVICE_MIB))
    return {"device_mib": device, "leaves_mib": device - int(row.environment.get("SIM_NEIGHBOUR_MB", 0)),
            "total_bytes": int(os.environ.get("GPU_CHECK_TOTAL", 0)),
            "devices": int(row.environment.get("SIM_DEVICES", 1))}


def reason_against_case(name):
    """Why this case cannot run here, or None."""
    row = table().get(name)
    if row is None:
        return f"not one of the cases of vLLM {known_version()} (tests/vllm/cases.py)"
    if "SIM_GRAPH_KB" in row.environment:
        return "the case is of a size of executable graphs that only the simulated driver has"
    room = room_of(row)
    if room["devices"] > int(os.environ.get("GPU_CHECK_DEVICES", 1)):
        return f"needs {room['devices']} GPUs"
    if room["total_bytes"] < 0.9 * room["leaves_mib"] * MIB:
        return f"the GPU has {mib(room['total_bytes'])}, the case is of {room['leaves_mib']} MiB"
    return None


# ---- one run ----------------------------------------------------------------------------------------------

def settings(**more):
    """Environment of a run: nothing is written beside the packages, and nothing into the home."""
    caches = {name: os.path.join(machine.work(), "caches", name) for name in CACHES}
    if "PYTHONPYCACHEPREFIX" in os.environ:
        del caches["PYTHONPYCACHEPREFIX"]
    # (To compile vLLM anew for each case takes too long.)
    return {**cases.options_of(known_version()), **caches, "PYTHONDONTWRITEBYTECODE": "", **more}


def words_of(row):
    words = json.dumps({"program": row.program, "model": MODEL + row.model, "arguments": row.arguments,
                        "steps": row.steps, "room": room_of(row)})
    return words.replace(MODEL, os.path.join(VLLM, "models") + os.sep)


def run(row, traced=True):
    mine = {k: v for k, v in row.environment.items() if not k.startswith("SIM_")}
    need(seconds_left() > 10, "the section's time is over")
    done = machine.run(f"vllm-{row.name}", [sys.executable, WORK, words_of(row)], traced=traced,
                       timeout=min(PATIENCE, seconds_left()), **settings(**mine))
    done.log = done.out + "\n" + done.err
    return done


def ended_well(log):
    return re.search("^DONE$", log, re.M) is not None


def run_or_skip(row):
    """A run that ended well or out of memory; what fails otherwise, and without cutrace as well, is no finding."""
    done = run(row)
    if done.rc == 77:
        raise Skip(done.err.strip()[-200:])
    if ended_well(done.log) or vllm_log.refusal(done.log) or re.search(row.error or "^$", done.log):
        return done
    plain = run(row, traced=False)
    if ended_well(plain.log):
        raise Fail(f"fails under cutrace only: {done.log.strip()[-300:]}")
    raise Skip(f"fails without cutrace, too: {plain.log.strip()[-300:]}")


# ---- what it is compared with -----------------------------------------------------------------------------

def judge_exception(log, traces):
    """PyTorch's exception fits one request that failed, of one of the processes."""
    said = vllm_log.refusal(log)
    if not said:
        return []
    found = [vllm_judge.judge_exception(said, events, request) if vllm_trace.refused_calls(events) else
             ["the trace has no refused call"] for events in traces for request in vllm_trace.requests_refused(events)]
    return min(found, key=len) if found else ["PyTorch raised out of memory, and no trace has a request that failed"]


def free_before(row):
    """Free memory of the GPU before vLLM started; known where a neighbour has left so much, else None."""
    room = room_of(row)
    return room["leaves_mib"] * MIB if room["total_bytes"] > room["leaves_mib"] * MIB else None


def judge_free(log, traces, row):
    """What is tracked is not more than what left "free"."""
    rest = vllm_memory.untracked(traces[0], vllm_log.moments(log), free_before(row)) if len(traces) == 1 else None
    return [f"{mib(-rest)} more are tracked than left free"] if rest is not None and rest < -SLACK else []


def without_foreign(events):
    """Without mappings of memory of other processes and of multicast objects, in which no block lies."""
    own, foreign = set(), set()
    for e in events:
        if e["op"] == "create" and not e["api"].startswith("cuMulticast"):
            own.add(e["handle"])
        elif e["op"] == "map" and e["handle"] not in own:
            foreign.add(e["ptr"])
            continue
        elif e["op"] == "unmap" and e["ptr"] in foreign:
            foreign.discard(e["ptr"])
            continue
        yield e


def judge_segments(events, words):
    """Segments and blocks: what PyTorch says with each block, and each block lies in memory of the driver's. (In sleep
    mode the driver takes back what is reserved for PyTorch.)"""
    replay = segments.Replay()
    for e in without_foreign(events):
        replay.event(e)
    return [] if words["arguments"].get("enable_sleep_mode") else replay.problems


def judge_blocks(events):
    """Blocks: what PyTorch says with each that it has handed out."""
    blocks, sums, problems = {}, collections.Counter(), []
    for e in events:
        if e["op"] == "block-alloc":
            blocks[e["device"], e["ptr"]] = e["bytes"]
            sums[e["device"]] += e["bytes"]
        elif e["op"] == "block-free":
            sums[e["device"]] -= blocks.pop((e["device"], e["ptr"]), 0)
        if e["op"].startswith("block-") and sums[e["device"]] != e["allocated_bytes"]:
            problems.append(f"event {e['event']} ({e['op']}): PyTorch says that {e['allocated_bytes']} bytes are "
                            f"allocated, the trace has {sums[e['device']]}")
    return problems[:5]


def problems_of(log, traces, words):
    """What must be so on every GPU."""
    problems = judge_exception(log, traces)
    for events in traces:
        problems += vllm_judge.judge_figures(log, events, words)
    if words["refused"] and re.search(words["error"], log) and not any(map(vllm_trace.refused_calls, traces)):
        problems.append("vLLM ran out of memory, and no trace has a refused call")
    if len(traces) == 1:
        problems += vllm_judge.judge_moments(log, traces[0], words)
    for events in traces:
        problems += judge_segments(events, words) + judge_blocks(events)
    return list(dict.fromkeys(problems))


def unusual_in(log, traces, words):
    """Where the case ends otherwise than on the simulated GPU, which is no fault."""
    failed = [events for events in traces if vllm_trace.refused_calls(events)]
    problems = vllm_judge.judge_end(log, (failed or traces)[0], words)
    if len(traces) != words["processes"]:
        problems.append(f"{len(traces)} processes used the GPU, {words['processes']} on the simulated one")
    return problems


def simulated_figures(row):
    """What libraries hold in the golden trace of the case, or None."""
    folder = os.path.join(golden.TARGET, cases.golden_name(row.name, known_version()))
    if not os.path.exists(os.path.join(folder, "case.json")):
        return None
    with open(os.path.join(folder, "log.txt"), encoding="utf-8") as f:
        log = f.read()
    return not_pytorch(log, [machine.events(os.path.join(folder, "trace.zst"), stacks_of_blocks=True)],
                       room_of(row)["leaves_mib"] * MIB)


def not_pytorch(log, traces, free):
    events = max(traces, key=len)
    return vllm_memory.figures(events, vllm_log.moments(log), vllm_trace.refused_calls(events), free)


def with_blocks(done):
    """The events of each process in which PyTorch used the GPU."""
    read = [machine.events(trace, stacks_of_blocks=True) for trace in done.traces]
    return [events for events in read if any(e["op"].startswith("block-") for e in events)] or read[:1]


def compare(row, log, traces):
    """(detail, figures)"""
    need(traces, "no trace")
    words = dataclasses.asdict(row)
    problems = judge_free(log, traces, row) + problems_of(log, traces, words)
    need(not problems, "; ".join(problems))
    moments, refused = vllm_log.moments(log), sum(len(vllm_trace.refused_calls(e)) for e in traces)
    said, unusual = vllm_log.figures(log), unusual_in(log, traces, words)
    need(moments or refused or said or not unusual, "the run has no figure to compare with")
    found = not_pytorch(log, traces, free_before(row))
    detail = (f"{len(moments)} checkpoints of PyTorch's figures, {refused} refused calls, vLLM's log says "
              f"{', '.join(f'{name} {size}' for name, size in said.items()) or 'no figure'}; not PyTorch's: "
              f"{vllm_memory.say(found) or 'none'}")
    return (f"UNUSUAL ({'; '.join(unusual)}): " if unusual else "") + detail, {
        "moments": len(moments), "refused": refused, "said": {k: str(v) for k, v in said.items()}, "not_pytorch": found,
        "unusual": unusual}


def keep(row, done):
    """The trace and the log, as tests/report/vllm has those of the simulated GPU."""
    golden.write(row, done, known_version(), machine.REPORT, os.path.join(machine.OUT, "vllm"))


def case_check(name):
    @check("vllm", name, gpu=True)
    def one():
        reason = reason_against() or reason_against_case(name)
        if reason:
            raise Skip(reason)
        if QUICK and name not in ALWAYS:
            raise Skip("left out by --quick")
        if not has_time() and name not in ALWAYS:
            raise Skip(f"no time is left: --only vllm.{name}")
        global _longest  # pylint: disable=global-statement
        row, start = table()[name], time.monotonic()
        done = run_or_skip(row)
        _longest = max(_longest, time.monotonic() - start)
        keep(row, done)
        detail, figures = compare(row, done.log, with_blocks(done))
        return detail, {**figures, "simulated": simulated_figures(row)}


for each in NAMES:
    case_check(each)


def more_of(results):
    """Lines of Markdown below the table of results."""
    return vllm_memory.table(results)
