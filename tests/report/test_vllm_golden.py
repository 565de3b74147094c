#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report on traces of real vLLM (tests/report/vllm, made by `make vllm-golden`): figures of the trace against those
of vLLM's log. A sample; with CUTRACE_FULL=1 all. (test_verdicts.py has what failed, test_bundle.py the recorder's line.)"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import vllm_judge  # noqa: E402
from tap import REPORT, ROOT, case, main, read_json, report, sample  # noqa: E402

FOLDER = os.path.join(ROOT, "tests/report/vllm")
NAMING = ("summary", "oom", "top", "frag")  # views that name places in code, here without looking for debug files
VIEWS = (*NAMING, "phases", "stats", "timeline", "info")


class Golden:
    def __init__(self, name):
        self.folder = os.path.join(FOLDER, name)
        with open(self.path("case.json"), encoding="utf-8") as f:
            self.case = json.load(f)
        with open(self.path("log.txt"), encoding="utf-8") as f:
            self.log = f.read()
        self.traces = [self.path(t) for t in self.case["traces"]]

    def path(self, name):
        return os.path.join(self.folder, name)

    def events(self):
        return [check_ledger.read_trace(REPORT, t) for t in self.traces]


def every_view(golden):
    """Each view ends well, as text and as JSON (which read_json validates against its schema)."""
    problems = []
    for trace in golden.traces:
        for view in VIEWS:
            more = ["--sysroot=/nowhere"] if view in NAMING else []
            code, _, err = report(view, *more, trace)
            if code:
                problems.append(f"{view} {trace}: exit {code}: {err.decode()[:200]}")
            read_json(view, *more, trace)
    return problems


def judge(golden):
    return vllm_judge.judge(golden.log, golden.events(), golden.case)


# ---- the command line ------------------------------------------------------------------------------

FLAGS = os.path.join(ROOT, "include/cutrace/format/cli_flags.def")
SAID_FLAGS = ("gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "enforce_eager",
              "kv_cache_memory_bytes", "tensor_parallel_size", "load_format")


def kinds_of_flags():
    with open(FLAGS, encoding="utf-8") as f:
        return dict(re.findall(r'^CT_CLI_FLAG\("([\w.-]+)", (\w+)', f.read(), re.M))


def given(words):
    """Name -> value of what a command line gives; a switch has none."""
    out = {"model": words[2]}
    for i, word in enumerate(words):
        if word.startswith("--"):
            out[word[2:]] = None if words[i + 1:i + 2] == [] or words[i + 1].startswith("--") else words[i + 1]
    return out


def recorded(name, value, kinds):
    """What the recorder may keep of it, by cli_flags.def: flag -> value."""
    if kinds[name] == "SWITCH":
        return {name: "true"}
    if kinds[name] == "NAME":
        return {name: os.path.basename(value)}
    if kinds[name] != "HIDDEN":
        return {name: value}
    inner = {f"{name}.{k.replace('_', '-')}": str(v) for k, v in json.loads(value).items()}
    return {name: "<given>", **{k: v for k, v in inner.items() if k in kinds}}


def flags_of(golden):
    """Every process behind `vllm serve` has the flags of that command line, an ancestor's, and no other ones."""
    kinds, want, problems = kinds_of_flags(), {}, []
    for name, value in given(golden.case["command"]).items():
        if name in kinds:
            want.update(recorded(name, value, kinds))
    for trace in golden.traces:
        info = json.loads(read_json("info", trace))["info"]
        have = {k[5:]: v for k, v in info.items() if k.startswith("flag.") and not k.endswith(".from")}
        if have != want:
            problems.append(f"{trace}: flags {have}, the command line has {want}")
        if info.get("version.vllm") != golden.case["vllm"] or info.get("process.program") != "vllm":
            problems.append(f"{trace}: vLLM {info.get('version.vllm')}, program {info.get('process.program')}")
        said = re.search(r"non-default args: (.*)", golden.log)[1]
        for name in SAID_FLAGS:
            value = re.search(rf"'{name}': '?([\w.]+)", said)
            if value and have.get(name.replace("_", "-"), "").lower() != value[1].lower():
                problems.append(f"{trace}: vLLM says {name} {value[1]}, the trace {have.get(name.replace('_', '-'))}")
    return problems


def without(events, op):
    """The events but the last one of this operation on device memory that has a stack."""
    number = max(i for i, e in enumerate(events) if e["op"] == op and e["stack"] and e["space"] != "host")
    return events[:number] + events[number + 1:]


PLANTED = {  # what is changed in the log, or in the events, and the word of a problem that tells of it
    "weights": (lambda log, events: (log.replace("loading took 12.55", "loading took 12.56"), events)),
    "peak activation": (lambda log, events: (log.replace("0.68 GiB for peak", "0.69 GiB for peak"), events)),
    "KV cache": (lambda log, events: (log.replace("17,984 tokens", "17,968 tokens"), events)),
    "bytes are allocated and reserved": (lambda log, events: (log, without(events, "block-alloc"))),
    "which is no memory of the driver": (lambda log, events: (log, without(events, "alloc"))),
    "the run did not end well": (lambda log, events: (log.replace("\nDONE", ""), events)),
}


@case("the judge finds faults that are planted in a log or a trace")
def planted_faults():
    golden, problems = Golden("eager"), []
    events, = golden.events()
    for word, plant in sample(PLANTED.items(), 3):
        log, changed = plant(golden.log, events)
        found = vllm_judge.judge(log, [changed], golden.case)
        if not any(word in p for p in found):
            problems.append(f"{word}: found is {found[:3]}")
    return problems


NAMES = sorted(os.listdir(FOLDER)) if os.path.isdir(FOLDER) else []
for each in sample(NAMES, 3, 1):
    case(f"{each}: every view reads it")(lambda name=each: every_view(Golden(name)))
for each in sample(NAMES, 5, 2):
    case(f"{each}: it says what vLLM says")(lambda name=each: judge(Golden(name)))
for each in [name for name in NAMES if Golden(name).case.get("command")]:
    case(f"{each}: it has the flags of its command line")(lambda name=each: flags_of(Golden(name)))
main()
