#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the advice of the report helps: each failed run of tests/report/vllm, again with each setting that the first
verdict names a value for. It has to survive; a search then finds the smallest change that survives, and the advice has
to be within 1 GiB or one step of it.

Usage: test_advice.py [WORD...]    the cases whose names have one of the words
Needs real vLLM (scripts/fetch-vllm.py). The margins go to stdout as a table."""
import concurrent.futures
import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import vllm_log  # noqa: E402
from tap import Skip, case, check, main, note, report, skip_all  # noqa: E402

import bed  # noqa: E402
from cases import cases_of, golden_name  # noqa: E402

WORDS = sys.argv[1:]
if not WORDS and not os.environ.get("CUTRACE_VLLM"):
    skip_all("`make check-vllm-advice` runs it: vLLM to fetch, and half an hour")
try:
    BED = bed.Bed()
except bed.Unavailable as why:
    skip_all(str(why))
GOLDEN = os.path.join(bed.ROOT, "tests/report/vllm")
MIB, GIB = 1 << 20, 1 << 30
# The step of the search for each setting, and of the advice where that is coarser.
STEPS = {"--gpu-memory-utilization": 0.01, "--kv-cache-memory-bytes": 64 * MIB, "--max-num-batched-tokens": 256,
         "--max-model-len": 128, "--max-num-seqs": 8, "--tensor-parallel-size": 1}
# The devices of these cases are so small that other limits come next: these settings, which do not change what the
# weights and the profile run take, leave them enough. (Two ranks hold 0.6 GiB each for NCCL.)
BESIDE = {"profile-run": {"max_model_len": 512, "gpu_memory_utilization": 0.95},
          "load-model": {"max_model_len": 512, "max_num_batched_tokens": 512, "max_num_seqs": 16,
                         "gpu_memory_utilization": 0.85, "kv_cache_memory_bytes": 192 * MIB},
          "process-weights": {"max_model_len": 512, "max_num_batched_tokens": 512, "max_num_seqs": 16,
                              "gpu_memory_utilization": 0.75}}


# What cannot be run: (version, case) -> why.
IMPOSSIBLE = {("0.11.2", "load-model"): "two ranks of it do not start in this bed (README.md)"}


# ---- the case again --------------------------------------------------------------------------------

def folder_of(row):
    return os.path.join(GOLDEN, golden_name(row.name, bed.VERSION))


def first_run(row):
    """(trace, log) of the case as it is: the golden one, or, of a version that has none of it, made now."""
    folder = folder_of(row)
    if os.path.isdir(folder):
        return os.path.join(folder, "trace.zst"), os.path.join(folder, "log.txt")
    run = BED.serve(f"advice-{row.name}-first", row)
    return run.traces[0], run.path("log.txt")


def fixed(row, log):
    """The steps, and what takes the room in them as large as it was in the first run. Otherwise less for vLLM would be
    more for it."""
    figures = {m["moment"]: m["allocated"] for m in vllm_log.moments(log)}
    moments = list(figures)
    steps = []
    for name, words in row.steps:
        if name == "leave_free":
            before = moments[moments.index(name) - 1]
            name, words = "take", {"size": figures[name] - figures[before]}
        elif name == "neighbour":
            words = {"size": int(re.search(r"^NEIGHBOUR holds (\d+) bytes", log, re.M)[1])}
        steps.append([name, words])
    return steps


def survives(row, flag, value):
    name = flag[2:].replace("-", "_")
    value = round(value, 4) if isinstance(value, float) else int(value)
    arguments, environment = {**row.arguments, **BESIDE.get(row.name, {}), name: value}, dict(row.environment)
    if name == "tensor_parallel_size" and value > 1:
        environment.update({"SIM_DEVICES": value, "VLLM_ENABLE_V1_MULTIPROCESSING": 1})
        if bed.VERSION == "0.11.2":  # it compiles a kernel of the host's, for which PyTorch's headers are not unpacked
            environment["TORCHDYNAMO_DISABLE"] = 1
    run = BED.serve(f"advice-{row.name}", dataclasses.replace(row, arguments=arguments, environment=environment))
    done = ended_well(row, run)
    note(f"{row.name}: {flag} {value}: {'survives' if done else 'fails'}")
    return done


def ended_well(row, run):
    """Whether it served to its end; a server that preempts nobody, if that is what the case is of."""
    if run.status or not re.search(r"^DONE", run.log, re.M):
        return False
    if row.metrics:
        return not preemptions(run.path("metrics.txt"))
    return not re.search(r"^COUNTER vllm:num_preemptions [1-9]", run.log, re.M)


def preemptions(path):
    with open(path, encoding="utf-8") as f:
        return int(max(float(line.split()[-1]) for line in f if line.startswith("vllm:num_preemptions_total")))


# ---- the advice ------------------------------------------------------------------------------------

def advice_of(row, trace, log):
    """The first verdict and its advice with values: of the trace with vLLM's log, and of one with a command line
    of the trace alone."""
    beside = [] if row.program == "http_server.py" else ["--log", log]
    if row.metrics:
        beside = ["--log", os.path.join(os.path.dirname(trace), "metrics.txt")]
    shown = json.loads(report("summary", "--json", "--sysroot=/nowhere", trace, *beside)[1])
    first = shown["verdicts"][0]
    return shown, first, [a for a in first["advice"] if a["flag"] in STEPS and a["to"]]


def step_of(flag, from_, to):
    """Of the search: of a small KV cache a smaller one."""
    if flag != "--kv-cache-memory-bytes":
        return STEPS[flag]
    return max(MIB, min(STEPS[flag], abs(from_ - to) // 8))


def find_smallest_change(row, flag, good, bad):
    """The value next to `bad` that survives, by halves, to a step."""
    step = step_of(flag, good, bad)
    while abs(bad - good) > step * 1.5:
        steps = round((bad - good) / step / 2)
        middle = good + (steps or (1 if bad > good else -1)) * step
        if survives(row, flag, middle):
            good = middle
        else:
            bad = middle
    return good


def margin_in_bytes(shown, flag, from_, value, best):
    """What lies between two values of a setting; of one that counts rows by the bytes of the failed request."""
    if flag == "--kv-cache-memory-bytes":
        return abs(best - value)
    if flag == "--gpu-memory-utilization":
        return abs(best - value) * shown["devices"][0]["capacity_bytes"]
    asked = (shown["crossing"] or {}).get("requested_bytes")
    return abs(best - value) / from_ * asked if asked else None


def judge(row):
    if (bed.VERSION, row.name) in IMPOSSIBLE:
        raise Skip(IMPOSSIBLE[bed.VERSION, row.name])
    trace, log = first_run(row)
    with open(log, encoding="utf-8") as f:
        again = dataclasses.replace(row, steps=fixed(row, f.read()))
    shown, first, advice = advice_of(row, trace, log)
    if row.name == "wake-up":
        return judge_given_back(again, first)
    if not advice:
        note(f"MARGIN {row.name}: {first['scenario']}: no value is named")
    return [p for a in advice for p in judge_value(again, shown, a)]


def judge_value(row, shown, advice):
    flag, number = advice["flag"], float if advice["flag"] == "--gpu-memory-utilization" else int
    from_, to = number(advice["from"]), number(advice["to"])
    if not survives(row, flag, to):
        return [f"{flag} {from_} -> {to} does not help"]
    best = find_smallest_change(row, flag, to, from_)
    margin = margin_in_bytes(shown, flag, from_, to, best)
    more = "" if margin is None else f": {margin / MIB:.0f} MiB more than needed"
    note(f"MARGIN {row.name}: {flag} {from_} -> {to}; {best} is enough{more}")
    if (margin is None or margin > GIB) and abs(best - to) > STEPS[flag] * 1.5:
        return [f"{flag}: {to} is more than needed: {best}"]
    return []


def judge_given_back(row, first):
    """Advice without a setting: to wake up only when what took the place was given back. Without that it fails."""
    check(any("wake_up" in a["text"] for a in first["advice"]), first["advice"])
    at = [name for name, _ in row.steps].index("wake_up")
    for steps, want in ((row.steps, False), ([*row.steps[:at], ["give_back", {}], *row.steps[at:]], True)):
        run = BED.serve(f"advice-{row.name}", dataclasses.replace(row, steps=steps))
        check(ended_well(row, run) == want, f"{[name for name, _ in steps]}: {'fails' if want else 'survives'}")
    note(f"MARGIN {row.name}: given back before: survives; else it fails")
    return []


def is_wanted(row):
    failed = row.scenario != "none" or row.log_scenario or row.metrics not in ("", "none")
    return failed and (not WORDS or any(w in row.name for w in WORDS))


wanted = [row for row in cases_of(bed.VERSION).values() if is_wanted(row)]
pool = concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1))
searches = {row.name: pool.submit(judge, row) for row in wanted}
for each in wanted:
    case(f"{each.name}: the advice helps")(lambda row=each: searches[row.name].result())
main()
