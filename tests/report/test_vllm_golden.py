#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report on traces of real vLLM (tests/report/vllm, made by `make vllm-golden`): figures of the trace against those
of vLLM's log, and the failure that `oom` shows against the one that the case is of. A sample; with CUTRACE_FULL=1 all."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import vllm_judge  # noqa: E402
import vllm_log  # noqa: E402
import vllm_trace  # noqa: E402
from tap import REPORT, ROOT, case, main, read_json, report, sample  # noqa: E402

FOLDER = os.path.join(ROOT, "tests/report/vllm")
NAMING = ("summary", "oom", "top", "frag")  # views that name places in code, here without looking for debug files
GIB = 1 << 30
VIEWS = (*NAMING, "phases", "stats", "timeline", "info", "check")


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


def shown_failure(golden, events):
    """`oom` shows the refused call of the case as what failed; its size is the one of PyTorch's exception."""
    number = [i for i, e in enumerate(events) if vllm_trace.refused_calls(e)]
    if not number:
        return ["no trace has a refused call"]
    shown = json.loads(read_json("oom", "--sysroot=/nowhere", golden.traces[number[0]]))
    failed = [i for i in shown["incidents"] if i["outcome"] == "failed"]
    last = {failed[-1]["event"], *failed[-1]["parts"]} if failed else set()
    calls = [o for o in shown["ooms"] if o["api"] and o["event"] in last]
    if not calls:
        return [f"oom shows no failure; vLLM's log says {golden.case['said']!r}"]
    said, problems = vllm_log.refusal(golden.log), []
    if said:
        problems += vllm_judge.compare_size("asked", said["asked"], calls[-1]["requested_bytes"])
    if golden.case["refused"] != calls[-1]["api"]:
        problems.append(f"refused was {golden.case['refused']}, oom shows {calls[-1]['api']}")
    return problems


# The recorder's line on stderr; sizes are GiB unless they say a unit.
LINE = re.compile(r"^cutrace: GPU \d+ out of memory: (PyTorch's allocation|\w+) of (unknown size|[\d.]+ \w+) failed \(.*?\): "
                  r"free ([\d.]+) (\w+) of ([\d.]+)(?: GiB)?, this process ([\d.]+) tracked \+ ([\d.]+) untracked, "
                  r"others ([\d.]+)(?:, ([\d.]+) untracked or of others)?; run: cutrace-report \S+$", re.M)


def said_on_stderr(golden, events):
    """One line of the recorder's: of the failure that ended the run, not of those that a retry healed; the size is that
    of the request, and what it says of the device is of one moment."""
    lines, problems = LINE.findall(golden.log), []
    if len(lines) != 1 or golden.log.count("cutrace: GPU") != 1:
        return [f"{golden.log.count('cutrace: GPU')} lines of the recorder's, {len(lines)} of a known form"]
    who, size, free, unit, total, *held = lines[0]
    events = next(e for e in events if vllm_trace.refused_calls(e))
    requests = vllm_trace.requests_refused(events)
    asked = events[(requests or vllm_trace.refused_calls(events))[-1]]
    if who != ("PyTorch's allocation" if requests else asked["api"]):
        problems.append(f"{who} failed, the trace has {asked['api'] or asked['op']}")
    known = size != "unknown size"
    if known != (asked["op"] != "memory-sample") or (known and not vllm_log.Size(*size.split()).is_of(asked["bytes"])):
        problems.append(f"the size is {size}, the request had {asked['bytes']}")
    sizes = [float(free) * vllm_log.UNITS[unit] / GIB, *(float(h) for h in held if h)]
    if abs(sum(sizes) - float(total)) > 0.005 + 0.005 + 0.05 * len(sizes[1:]):
        problems.append(f"{sizes} do not add up to {total}")
    return problems


def no_failure(golden):
    """Where the device refused nothing for good, no view speaks of a failure that nobody healed."""
    problems = []
    for trace in golden.traces:
        ooms = json.loads(read_json("oom", "--sysroot=/nowhere", trace))
        failed = [i["event"] for i in ooms["incidents"] if i["outcome"] == "failed"]
        if failed:
            problems.append(f"{trace}: oom shows failures that the run did not have: events {failed}")
    return problems


def judge(golden):
    events = golden.events()
    problems = vllm_judge.judge(golden.log, events, golden.case)
    if golden.case["refused"]:
        return problems + shown_failure(golden, events) + said_on_stderr(golden, events)
    return problems + no_failure(golden)


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
