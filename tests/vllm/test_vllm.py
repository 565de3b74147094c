#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real vLLM on the simulated GPU: each case of cases.py against the driver's ledger, vLLM's log and PyTorch's figures.

Usage: test_vllm.py [WORD...]            the cases whose names have one of the words
       test_vllm.py --golden [WORD...]   the same, and what passes becomes tests/report/vllm/NAME
       test_vllm.py --kept ...           judges what the last runs have left, and runs nothing"""
import concurrent.futures
import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import vllm_judge  # noqa: E402
from tap import REPORT, after_case, case, main, note, skip_all  # noqa: E402

import bed  # noqa: E402
import golden  # noqa: E402
from cases import cases_of  # noqa: E402

GOLDEN, KEPT = "--golden" in sys.argv, "--kept" in sys.argv
WORDS = [w for w in sys.argv[1:] if not w.startswith("--")]
if not GOLDEN and not KEPT and not WORDS and not os.environ.get("CUTRACE_VLLM"):
    skip_all("`make check-vllm` runs it: 1.2 GB to fetch, and a quarter of an hour")
try:
    BED = bed.Bed()
except bed.Unavailable as why:
    skip_all(str(why))

CASES = cases_of(bed.VERSION)
pool = concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1))
runs = {}


def run_of(name):
    """The run of a case. All runs begin with the first case that asks for one; two at a time use two cores."""
    if KEPT:
        return bed.Run(BED.folder_of(name), None)
    if not runs:
        for other, row in CASES.items():
            if not WORDS or any(w in title(row) for w in WORDS):
                runs[other] = pool.submit(BED.serve, other, row)
    return runs[name].result()


def title(row):
    return f"{row.name}: {row.what}"


def judge_ranges(run, traces):
    """The ranges of the trace are those that vLLM asked PyTorch for, one after the other. Of a name it has the first 200 bytes,
    and of many different names no digits (FORMAT.md)."""
    def plain(name):
        return re.sub("[0-9#]+", "#", name.encode()[:200].decode(errors="ignore"))

    with open(run.path("ranges.txt"), encoding="utf-8") as f:
        asked = [tuple(json.loads(line)) for line in f]
    found = [(e["op"], e["text"]) for trace in traces for e in trace if e["op"] in ("range-push", "range-pop")]
    problems = [] if len(asked) > 1000 else [f"vLLM asked for {len(asked)} ranges only"]
    if len(found) != len(asked):
        problems.append(f"{len(found)} begins and ends of ranges, vLLM asked for {len(asked)}")
    for i, ((op, text), (want, name)) in enumerate(zip(found, asked)):
        if op != want or (name and (not text or not plain(name).startswith(plain(text)) or len(text) < min(len(name), 150))):
            return problems + [f"range {i}: {op} {text!r}, vLLM asked for {want} {name!r}"]
    return problems


def judge(row):
    run = run_of(row.name)
    words, log, problems = dataclasses.asdict(row), run.log, []
    if len(run.traces) != row.processes:
        problems.append(f"{len(run.traces)} processes have a trace, {row.processes} use the GPU")
    for trace in run.traces:
        problems += check_ledger.check(trace, run.ledger(trace), REPORT)
    traces = [check_ledger.read_trace(REPORT, trace) for trace in run.traces]
    problems += vllm_judge.judge(log, traces, words)
    if row.ranges:
        problems += judge_ranges(run, traces)
    if problems:
        return problems
    if GOLDEN:
        golden.write(row, run, bed.VERSION, REPORT)
    return []


for each in CASES.values():
    case(title(each))(lambda row=each: judge(row))


@after_case
def keep_what_failed(passed):
    if not passed:
        note(f"runs are kept in {bed.FOLDER}/runs")


main()
