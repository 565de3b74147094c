#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces and logs of real PyTorch in plain programs (tests/report/pytorch, made by `make pytorch-golden`): the first verdict
against what each program was written to do, and its figures against PyTorch's own message."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import ROOT, case, check, equal, main, read_json, report  # noqa: E402

FOLDER = os.path.join(ROOT, "tests/report/pytorch")
VIEWS = ("summary", "oom", "top", "leaks", "stats", "timeline", "phases", "frag", "info", "explain")
NAMING = ("summary", "oom", "top", "frag")  # views that name places in code, here without looking for debug files
SERVER = re.compile(r"vllm|sglang|tgi|sleep mode|wake_up|--[a-z]", re.IGNORECASE)  # what a plain program does not have
UNSURE = {"unknown", "incomplete", "none"}


def read(name):
    with open(os.path.join(FOLDER, name, "case.json"), encoding="utf-8") as f:
        return json.load(f)


def check_advice(verdicts):
    """No advice to a plain program speaks of a server."""
    for advice in (a for v in verdicts for a in v["advice"]):
        check(not SERVER.search(f"{advice['flag']} {advice['text']}"), advice)


def judge_trace(run, trace):
    verdicts = json.loads(read_json("summary", "--sysroot=/nowhere", trace))["verdicts"]
    check_advice(verdicts)
    first = verdicts[0]
    equal(first["scenario"], run["scenario"], [(v["scenario"], v["confidence"]) for v in verdicts])
    check(all(v["confidence"] < 0.5 for v in verdicts[1:] if first["scenario"] in ("none", "recovered")), verdicts)
    said = re.search(r"Tried to allocate (\S+ \S+)\. .* of which (\S+ \S+) is free", run["said"])
    if said and first["scenario"] != "recovered":
        equal(first["evidence"][0]["text"], f"asked for {said[1]}; {said[2]} was free")
    for view in VIEWS:
        code, out, err = report(view, *(["--sysroot=/nowhere"] if view in NAMING else []), trace)
        check(code == 0 and out and not err, (view, code, err))


def judge_log(run, log):
    verdicts = json.loads(read_json("explain", log))["verdicts"]
    check_advice(verdicts)
    if run["log_scenario"]:
        equal(verdicts[0]["scenario"], run["log_scenario"], [(v["scenario"], v["confidence"]) for v in verdicts])
    elif run["scenario"] != "recovered":  # the message does not tell it: then no other scenario is claimed
        check(verdicts[0]["scenario"] in UNSURE, verdicts[0])


@case("SCENARIOS.md has a row for each scenario, and the runs that it names are of it")
def table():
    with open(os.path.join(ROOT, "tools/report/diagnose/scenarios.def"), encoding="utf-8") as f:
        names = re.findall(r'^CT_SCENARIO\(\w+, "([\w-]+)"', f.read(), re.M)
    with open(os.path.join(ROOT, "tests/report/SCENARIOS.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| ([\w-]+) \| (.*?) \|", f.read(), re.M)
    equal([name for name, _ in rows[1:]], names)
    for name, runs in rows[1:]:
        for folder, run, source in re.findall(r"(vllm|pytorch)/([\w-]+)(?: \((\w+)\))?", runs):
            with open(os.path.join(ROOT, "tests/report", folder, run, "case.json"), encoding="utf-8") as f:
                said = json.load(f)
            equal({"": said["scenario"], "log": said["log_scenario"], "metrics": said.get("metrics")}[source], name, run)


for each in sorted(os.listdir(FOLDER)):
    path = os.path.join(FOLDER, each, "trace.zst")
    if os.path.exists(path):
        case(f"{each}: the right scenario is the first, with PyTorch's figures; every view ends well")(
            lambda run=read(each), trace=path: judge_trace(run, trace))
    case(f"{each}: what its log alone shows")(lambda run=read(each), log=os.path.join(FOLDER, each, "log.txt"): judge_log(run, log))

main()
