#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Phases, components and accounts of the golden traces against vLLM's log, the case that each trace is of, and a second
reading in Python of what `dump` says."""
import glob
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import traces as made_traces  # noqa: E402
import vllm_judge  # noqa: E402
import vllm_log  # noqa: E402
import vllm_trace  # noqa: E402
from lifetimes import lifetimes_of  # noqa: E402
from mktrace import Trace as MadeTrace  # noqa: E402
from tap import REPORT, ROOT, case, check, equal, main, report, sample  # noqa: E402

FOLDER = os.path.join(ROOT, "tests/report/vllm")
SECOND = 10**9
MOMENTS = ("crossing", "peak", "end")
# The function that a case is of, and the phase and the component of what was refused there. What is captured belongs to
# the graphs, whichever operation asked for it. A wake-up asks for what sleeps: its stack does not say whose that was.
TRUTH = {
    "load_model": ("weights", {"weights": "weights"}),
    "process_weights_after_loading": ("repack", {"weights": "weights"}),
    "profile_run": ("profile", {"activations": "activations", "vision encoder": "vision"}),
    "initialize_kv_cache": ("kv-cache", {"KV cache": "kv-cache"}),
    "capture_model": ("graphs", {"attention": "cuda-graphs", "CUDA graphs": "cuda-graphs"}),
    "_dummy_sampler_run": ("warmup-sampler", {"sampler": "logits"}),
    "execute_model": ("serve", {"activations": "activations"}),
    "sample_tokens": ("serve", {"logits": "logits"}),
    "wake_up": ("wake-up", {"weights": None}),
    "update_weights": ("weight-sync", {"weights": "weights"}),
}
# Cases without a KV cache at their peak: it is refused as a whole, it sleeps, the profile run is higher.
WITHOUT_CACHE = ("initialize-kv-cache", "wake-up", "preemption")
# The second reading: functions of the worker, and inside of one of them the functions of a part of it.
OF_WORKER = {
    "init_device": "init", "load_model": "weights", "determine_available_memory": "profile",
    "initialize_from_config": "kv-cache", "compile_or_warm_up_model": "warmup", "execute_model": "serve",
    "sample_tokens": "serve", "sleep": "sleep", "wake_up": "wake-up", "update_weights": "weight-sync",
    "start_weight_update": "weight-sync", "finish_weight_update": "weight-sync", "_start_weight_update": "weight-sync",
    "init_weight_transfer_engine": "weight-sync", "reload_weights": "weight-sync", "take_draft_token_ids": "serve",
}
PARTS = (
    ("profile", "profile_cudagraph_memory", "profile-graphs"), ("warmup", "capture_model", "graphs"),
    ("warmup", "kernel_warmup", "warmup-kernels"), ("warmup", "warmup_kernels", "warmup-kernels"),
    ("warmup", "_dummy_sampler_run", "warmup-sampler"), ("weights", "load_lora_model", "lora-load"),
    ("weights", "process_weights_after_loading", "repack"), ("weight-sync", "process_weights_after_loading", "repack"),
    ("init", "init_worker_distributed_environment", "init-comm"), ("serve", "set_active_adapters", "lora-load"),
)


class Trace:
    """What the report says of a trace, each document read once. (test_vllm_golden.py validates them.)"""

    def __init__(self, path):
        self.path = path
        self.documents = {}

    def view(self, name):
        if name not in self.documents:
            self.documents[name] = json.loads(report(name, "--json", "--sysroot=/nowhere", self.path)[1])
        return self.documents[name]

    def events(self):
        if "dump" not in self.documents:
            self.documents["dump"] = check_ledger.read_trace(REPORT, self.path)
        return self.documents["dump"]


class Golden:
    def __init__(self, name):
        self.folder = os.path.join(FOLDER, name)
        with open(os.path.join(self.folder, "case.json"), encoding="utf-8") as f:
            self.case = json.load(f)
        with open(os.path.join(self.folder, "log.txt"), encoding="utf-8") as f:
            self.log = f.read()
        self.traces = [Trace(os.path.join(self.folder, t)) for t in self.case["traces"]]


def rows_of(account):
    return {row["component"]: row["bytes"] for row in account["rows"]}


# ---- the phase of what was refused ---------------------------------------------------------------------------------

def of_failure(golden):
    """The phase and the component of the crossing are those that the case was made for."""
    if golden.case["phase"] not in TRUTH or not golden.case["refused"]:
        return []
    phase, components = TRUTH[golden.case["phase"]]
    crossings = [c for c in (t.view("summary")["crossing"] for t in golden.traces) if c]
    if not crossings:
        return ["no trace has a crossing"]
    said = crossings[0]["phase"] or {"key": None}
    problems = [] if said["key"] == phase else [f"the case is of {golden.case['phase']}, the phase {said}"]
    if said.get("inferred"):
        problems.append("a stack with frames of the phase is said to have none")
    want = components[golden.case["component"]]
    if crossings[0]["component"] != want:
        problems.append(f"the case is of {golden.case['component']}, the component {crossings[0]['component']}")
    text = report("summary", "--sysroot=/nowhere", golden.traces[0].path)[1].decode()
    if len(golden.traces) == 1 and f"), {said.get('title')}; event {crossings[0]['event']}" not in text:
        problems.append(f"the summary does not say during {said.get('title')}")
    return problems


# ---- accounts ------------------------------------------------------------------------------------------------------

def of_accounts(trace):
    """Every account adds up, to the byte, and its parts are those of the memory split of the same moment."""
    problems = []
    for device in trace.view("summary")["devices"] or []:
        for moment in MOMENTS:
            account, memory = device["account"][moment], device["memory"][moment]
            if (account is None) != (memory is None):
                problems.append(f"{moment}: only one of account and memory is known")
            if account is None or memory is None:
                continue
            problems += [f"{trace.path} {moment}: {p}" for p in of_account(account, memory)]
    return problems


def of_account(account, memory):
    rows, problems = rows_of(account), []
    whole = account["capacity_bytes"]
    if memory["used_bytes"] is not None and whole != memory["used_bytes"] + memory["free_bytes"]:
        problems.append(f"capacity {whole}, but {memory['used_bytes']} used and {memory['free_bytes']} free")
    if sum(rows.values()) != (account["tracked_bytes"] if whole is None else whole):
        problems.append(f"the rows add up to {sum(rows.values())} of {whole}")
    outside = ("in-flight", "graph-executables", "contexts", "modules", "limits", "unmeasured", "siblings", "others",
               "unattributed", "free")
    tracked = sum(b for name, b in rows.items() if name not in outside)
    for name, said, want in (("tracked", account["tracked_bytes"], memory["tracked_bytes"]),
                             ("the tracked rows", tracked, memory["tracked_bytes"])):
        if said != want:
            problems.append(f"{name}: {said}, the split has {want}")
    if whole is not None:
        known = memory["untracked_bytes"] is not None
        untracked = sum(rows.get(n, 0) for n in ("graph-executables", "contexts", "modules", "limits", "unmeasured"))
        for name, said, want in (
                ("free", rows.get("free", 0), memory["free_bytes"]),
                ("in flight", rows.get("in-flight", 0), memory["in_flight_bytes"]),
                ("untracked", untracked, memory["untracked_bytes" if known else "untracked_or_others_bytes"]),
                ("others", rows.get("others", 0), memory["other_processes_bytes"] or 0)):
            if said != want:
                problems.append(f"{name}: {said}, the split has {want}")
    return problems


def of_capacity(trace):
    """The capacity is what a reading of the device said."""
    document = trace.view("summary")
    read = {(e["device"], e["total_bytes"]) for e in trace.events() if e["total_bytes"] is not None}
    return [f"GPU {d['ordinal']} {m}: no reading has {d['account'][m]['capacity_bytes']}"
            for d in document["devices"] or [] for m in MOMENTS
            if d["account"][m] and d["account"][m]["capacity_bytes"] is not None and
            (d["ordinal"], d["account"][m]["capacity_bytes"]) not in read]


def of_log(golden):
    """Weights (with LoRA's and a draft model's) and KV cache of the account at the peak against vLLM's log."""
    said, problems = vllm_log.figures(golden.log), []
    # What a draft model's proposer holds beside its weights is speculative, too.
    more = 16 << 20 if "speculative_config" in golden.case["arguments"] else 0
    if any(name == "update_weights" for name, _ in golden.case["steps"]):  # at its peak, a new layer is beside the old one
        config = vllm_judge.config_of(golden.case["model"])
        more = 2 * config["vocab_size"] * config["hidden_size"]
    slept = golden.case["name"] == "wake-up"  # at its peak, part of the weights still sleeps
    for trace in golden.traces:
        device = max(trace.view("summary")["devices"], key=lambda d: d["peak_bytes"] or 0)
        rows = {r["component"]: r for r in device["account"]["peak"]["rows"]}
        if "kv-cache" not in rows and "weights" not in rows:
            continue  # (a process that only trains)
        weights = sum(rows[n]["bytes"] for n in ("weights", "lora", "speculative") if n in rows)
        if not slept:
            problems += vllm_judge.compare_size("weights", said.get("weights"), weights, more)
        if "tokens" not in said or not golden.case.get("uniform", True):
            continue
        if "kv-cache" not in rows:
            problems += [] if golden.case["name"] in WITHOUT_CACHE else ["the account at the peak has no KV cache"]
            continue
        count, want = rows["kv-cache"]["count"], said["tokens"] * vllm_judge.bytes_of_token(golden.case)
        if golden.case["phase"] == "initialize_kv_cache":
            want = want * count // vllm_judge.config_of(golden.case["model"])["num_hidden_layers"]
        if not want <= rows["kv-cache"]["bytes"] <= want + count * vllm_judge.UNSPLIT:
            problems.append(f"KV cache: {rows['kv-cache']['bytes']} in {count}, vLLM's tokens are {want}")
    return problems


# ---- phases over time ----------------------------------------------------------------------------------------------

def read_phase(event):
    """(whether the event says a phase, the phase or None) by the outermost function of the worker."""
    frames = [(f["file"] or "", f["name"].rsplit(".", 1)[-1]) for f in reversed(event["stack"] or [])
              if f["kind"] == "python" and f["name"]]
    for at, (file, name) in enumerate(frames):
        if file.endswith(vllm_trace.WORKER) and name in OF_WORKER:
            phase = OF_WORKER[name]
            for _, inner in frames[at + 1:]:
                phase = next((to for of, function, to in PARTS if of == phase and function == inner), phase)
            return True, phase
    return bool(frames), None


def moves(path):
    """What events take and give back of blocks, and of the driver's allocations that hold none: by the number of an event, its
    bytes; and (bytes, number of the event that took them) of what it gives back."""
    rows = lifetimes_of(path).rows
    blocks = [r for r in rows if r["kind"] == "block"]

    def holds(r):
        return any(b["device"] == r["device"] and r["key"] <= b["key"] < r["key"] + r["bytes"] and
                   r["event"] <= b["event"] and (r["end_event"] is None or b["event"] <= r["end_event"]) for b in blocks)
    rows = blocks + [r for r in rows if r["kind"] == "memory" and not holds(r)]
    return {r["event"]: r["bytes"] for r in rows}, {r["end_event"]: (r["bytes"], r["event"]) for r in rows}


def read_stretches(path, events):
    """[phase, taken, kept, given back] of each stretch, by the events alone."""
    (takes, gives), stretches, first = moves(path), [], 0
    for number, e in enumerate(events):
        says, phase = read_phase(e)
        if says and (not stretches or stretches[-1][0] != phase):
            stretches.append([phase, 0, 0, 0])
            first = number
        taken, (back, of) = takes.get(number, 0), gives.get(number, (0, -1))
        if not stretches:
            continue
        stretches[-1][1] += taken
        stretches[-1][2] += taken - (back if of >= first else 0)
        stretches[-1][3] += back
    return stretches


def sum_by_phase(stretches):
    out = {}
    for phase, *figures in stretches:
        out[phase] = [a + b for a, b in zip(out.get(phase, [0, 0, 0]), figures)]
    return out


def of_times(trace):
    """The phases in their order, and what each took, kept and gave back."""
    events, said = trace.events(), trace.view("phases")
    if not said["by_frames"] or any(e["op"] == "create" for e in events):  # (VMM objects: test_sleep.py)
        return []
    known = set(OF_WORKER.values()) | {to for _, _, to in PARTS}
    shown = [[p["phase"]["key"] if p["phase"] and p["phase"]["key"] in known else None, p["taken_bytes"],
              p["kept_bytes"], p["given_back_bytes"]] for p in said["phases"]]
    want = sum_by_phase(read_stretches(trace.path, events))
    have = sum_by_phase(shown)
    # (None: what vLLM does outside of its phases has stretches of its own in the report: what these kept may differ)
    problems = [f"{phase}: taken, kept, given back {have.get(phase)}, by the events {want.get(phase)}"
                for phase in sorted(set(want) | set(have), key=str)
                if phase and have.get(phase) != want.get(phase)]
    order = list(dict.fromkeys(p for p, *_ in shown if p))
    if order != list(dict.fromkeys(p for p, *_ in read_stretches(trace.path, events) if p)):
        problems.append(f"their order is {order}")
    return problems


# ---- programs without frames ---------------------------------------------------------------------------------------

MEBI = 1 << 20
ALLOCATE = [("allocate", "/opt/app"), ("main", "/opt/app")]
WORKER = "/x/vllm/v1/worker/gpu_worker.py"
LOAD = ALLOCATE + [("Worker.load_model", WORKER, 594), ("<module>", "/home/me/serve.py", 3)]
SERVE = ALLOCATE + [("Worker.execute_model", WORKER, 1334), ("<module>", "/home/me/serve.py", 9)]


def write_trace(events):
    """A trace of (operation, seconds, fields)."""
    trace = MadeTrace()
    made_traces.begin(trace)
    for op, seconds, fields in events:
        trace.event(op, 60 * SECOND + int(seconds * SECOND), **{"device": 0, "context": 1, "result": 0, **fields})
    return Trace(trace.save(os.path.join(tempfile.mkdtemp(), "made.zst")))


def allocation(seconds, place, mebi, **fields):
    return ("alloc", seconds, {"api": "cuMemAlloc_v2", "bytes": mebi * MEBI, "space": "device", "stack": ALLOCATE,
                               **({} if fields.get("result") else {"ptr": place << 32}), **fields})


def free(seconds, place):
    return ("free", seconds, {"api": "cuMemFree_v2", "ptr": place << 32})


def figures(trace):
    said = trace.view("phases")
    return said["by_frames"], [
        (p["phase"] and p["phase"]["key"], p["phase"] and p["phase"]["inferred"], p["duration_ns"] // (SECOND // 10),
         p["taken_bytes"] // MEBI, p["kept_bytes"] // MEBI, p["given_back_bytes"] // MEBI,
         p["peak_tracked_bytes"] // MEBI) for p in said["phases"]]


@case("a program without frames of phases: start-up, steady state and idle")
def without_frames():
    trace = write_trace([allocation(0, 1, 400), allocation(0.8, 2, 400), allocation(1.5, 3, 100), allocation(2, 4, 100),
                         free(2.9, 4), allocation(3.8, 5, 60), free(9.8, 5), allocation(10.5, 6, 50), free(11, 6)])
    equal(figures(trace), (False, [
        ("startup", True, 15, 800, 800, 0, 800),  # 900 of the peak of 1000 are reached after 1.5 s
        ("steady", True, 23, 260, 160, 100, 1000),
        ("idle", True, 60, 0, 0, 0, 960),
        ("steady", True, 12, 50, 0, 110, 960)]))


@case("a failed allocation without Python frames has the phase of its thread, by time")
def by_time():
    failed = {"result": 2, "free_bytes": MEBI, "total_bytes": 2 << 30}
    path = write_trace([allocation(0, 1, 400, stack=LOAD, tid=1), allocation(1, 2, 100, stack=SERVE, tid=2),
                        allocation(2, 3, 900, tid=1, **failed), allocation(3, 4, 901, tid=3, **failed),
                        allocation(4, 5, 902, tid=3, stack=LOAD, **failed),
                        allocation(5, 6, 903, stack=[("f", "/home/me/a.py", 1)], **failed)])
    ooms = path.view("oom")["ooms"]
    equal([(o["phase"] and (o["phase"]["key"], o["phase"]["inferred"])) for o in ooms],
          [("weights", True), ("serve", True), ("weights", False), None])  # the last one: code that no rule knows
    check(b"during    vLLM serving (by time" in report("oom", "--at=end", "--top=all", path.path)[1])


@case("what one phase took and another gave back; more stretches than rows are summed")
def given_back_later():
    trace = write_trace([allocation(0, 1, 400, stack=LOAD), allocation(1, 2, 100, stack=SERVE), free(2, 1), free(3, 2),
                         allocation(4, 3, 7, stack=LOAD)])
    equal(figures(trace), (True, [("weights", False, 10, 400, 400, 0, 400), ("serve", False, 30, 100, 0, 500, 500),
                                  ("weights", False, 0, 7, 7, 0, 7)]))
    later = Trace(trace.path)
    later.documents["phases"] = json.loads(report("phases", "--json", "--from=12", trace.path)[1])
    equal(figures(later)[1], [("serve", False, 20, 0, 0, 500, 500), ("weights", False, 0, 7, 7, 0, 7)])
    many = []
    for i in range(40):
        many += [allocation(2 * i, 1, 3, stack=LOAD), allocation(2 * i + 1, 2, 5, stack=SERVE)]
        many += [free(2 * i + 1.5, 1), free(2 * i + 1.6, 2)]
    trace = write_trace(many)
    equal(figures(trace)[1], [("weights", False, 400, 120, 120, 0, 3), ("serve", False, 396, 200, 0, 320, 8)])
    check(trace.view("phases")["summed"] and [p["stretches"] for p in trace.view("phases")["phases"]] == [40, 40])


@case("the account of a trace without a reading adds up to what is tracked")
def without_reading():
    trace = write_trace([allocation(0, 1, 400, stack=LOAD), allocation(1, 2, 100)])
    account = trace.view("summary")["devices"][0]["account"]["end"]
    equal(account, {"capacity_bytes": None, "tracked_bytes": 500 * MEBI, "managed_bytes": 0, "rows": [
        {"component": "weights", "bytes": 400 * MEBI, "count": 1, "inferred": False},
        {"component": "other", "bytes": 100 * MEBI, "count": 1, "inferred": False}]})


@case("--rules: rows of a file come first; a bad line is one error that names file and line")
def rules_of_a_file():
    made = LOAD[:2] + [("f", "/m/cache.py", 1)]
    trace = write_trace([allocation(0, 1, 400, stack=LOAD), allocation(1, 2, 100, stack=made)])
    path = trace.path + ".rules"
    with open(path, "w", encoding="utf-8") as f:
        f.write("# mine\nphase,init,verl,,m/cache.py,f,from me\ncomponent,kv-cache,,init,cache.py,f*\n")
    said = json.loads(report("phases", "--json", "--rules", path, trace.path)[1])
    equal([p["phase"]["title"] for p in said["phases"]], ["vLLM weight loading", "verl initialization"])
    account = json.loads(report("summary", "--json", "--rules=" + path, trace.path)[1])["devices"][0]["account"]["end"]
    equal(rows_of(account), {"weights": 400 * MEBI, "kv-cache": 100 * MEBI})
    with open(path, "a", encoding="utf-8") as f:
        f.write("phase,no-such-phase,,,a.py,f\n")
    for view in ("summary", "oom", "phases"):
        code, out, err = report(view, "--rules", path, trace.path)
        equal((code, out), (2, b""))
        equal(err.decode(), f"cutrace-report: {path}:4: unknown phase 'no-such-phase'\n")
    equal(report("phases", "--rules=/nowhere/rules", trace.path)[0], 2)
    equal(report("top", "--rules", path, trace.path)[0], 2)  # has no use for it


@case("the accounts of small and hostile traces, and of a real GPU's, add up, too")
def small_traces():
    problems = []
    for path in sample(sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")) +
                              glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst"))), 8):
        trace = Trace(path)
        problems += of_accounts(trace)
        budget = Trace(path)
        budget.documents["summary"] = json.loads(report("summary", "--json", "--capacity=512MiB", path)[1])
        problems += of_accounts(budget)
        at_end = [rows_of(d["account"]["end"]) for d in trace.view("summary")["devices"]]
        problems += [f"{path}: an empty row" for rows in at_end if 0 in rows.values()]
    return problems


def judge(golden):
    return of_failure(golden) + of_log(golden) + [p for trace in golden.traces for p in of_accounts(trace)]


def judge_events(golden):
    return [p for trace in golden.traces for p in of_capacity(trace) + of_times(trace)]


NAMES = sorted(os.listdir(FOLDER))
for each in NAMES:
    case(f"{each}: components and accounts, and the phase of what was refused")(lambda name=each: judge(Golden(name)))
for each in sample(NAMES, 3, 3):
    case(f"{each}: capacity and phases over time are those of a second reading")(lambda name=each: judge_events(Golden(name)))
main()
