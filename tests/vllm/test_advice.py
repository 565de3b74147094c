#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the advice of the report helps: each failed run of tests/report/vllm, again with the first setting that the
report names a value for. It has to survive; a search then finds the smallest change that survives, and the advice has
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
from tap import case, check, main, note, report, skip_all  # noqa: E402

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
         "--max-model-len": 16, "--max-num-seqs": 8}
# The device of this case is so small that the KV cache is the next limit: these settings, which do not change what the
# profile run takes, leave it enough.
BESIDE = {"profile-run": {"max_model_len": 512, "gpu_memory_utilization": 0.95}}
# What takes the room in these cases makes itself as large as what is left: less for vLLM is more for it.
ADAPTIVE = {"ballast", "neighbour", "wake-up"}


def advice_of(row):
    """The first verdict of the trace with vLLM's log, and its first advice with a value."""
    folder = os.path.join(GOLDEN, golden_name(row.name, bed.VERSION))
    shown = json.loads(report("summary", "--json", "--sysroot=/nowhere", os.path.join(folder, "trace.zst"),
                              "--log", os.path.join(folder, "log.txt"))[1])
    first = shown["verdicts"][0]
    valued = [a for a in first["advice"] if a["flag"] in STEPS and a["to"]]
    return shown, first, valued[0] if valued else None


def survives(row, flag, value):
    name = flag[2:].replace("-", "_")
    value = round(value, 4) if isinstance(value, float) else int(value)
    changed = dataclasses.replace(row, arguments={**row.arguments, **BESIDE.get(row.name, {}), name: value})
    run = BED.serve(f"advice-{row.name}", changed)
    done = run.status == 0 and re.search(r"^DONE", run.log, re.M) is not None
    note(f"{row.name}: {flag} {value}: {'survives' if done else 'fails'}")
    return done


def find_smallest_change(row, flag, good, bad):
    """The value next to `bad` that survives, by halves, to a step."""
    step = STEPS[flag]
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
    asked = (shown["crossing"] or {}).get("requested_bytes") or 0
    return abs(best - value) / from_ * asked


def judge(row):
    shown, first, advice = advice_of(row)
    if not advice:
        note(f"{row.name}: {first['scenario']}: no value is named")
        return []
    number = float if advice["flag"] == "--gpu-memory-utilization" else int
    from_, to = number(advice["from"]), number(advice["to"])
    if not survives(row, advice["flag"], to):
        return [f"{advice['flag']} {from_} -> {to} does not help"]
    best = find_smallest_change(row, advice["flag"], to, from_)
    margin = margin_in_bytes(shown, advice["flag"], from_, to, best)
    note(f"MARGIN {row.name}: {advice['flag']} {from_} -> {to}; {best} is enough: "
         f"{margin / MIB:.0f} MiB more than needed")
    check(margin <= GIB or abs(best - to) <= STEPS[advice["flag"]] * 1.5, f"{margin / GIB:.2f} GiB more than needed")
    return []


def is_wanted(row):
    failed = row.scenario != "none" or row.log_scenario
    return failed and row.name not in ADAPTIVE and (not WORDS or any(w in row.name for w in WORDS))


wanted = [row for row in cases_of(bed.VERSION).values() if is_wanted(row)]
pool = concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1))
searches = {row.name: pool.submit(judge, row) for row in wanted}
for each in wanted:
    case(f"{each.name}: the advice helps")(lambda row=each: searches[row.name].result())
main()
