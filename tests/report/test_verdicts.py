#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verdicts of a trace: the scenario, its evidence, and the arithmetic of its advice.

The scenarios of real runs are those of tests/vllm/cases.py (case.json), which say what each run was made to fail of.
The other traces are made here. Advice is computed a second time, from the other views. Whether it helps is tested by
running vLLM again (make check-vllm-advice)."""
import functools
import json
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import vllm_log  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, equal, main, read_json, report, sample, scratch  # noqa: E402

VLLM = os.path.join(ROOT, "tests/report/vllm")
M, G, S = 1 << 20, 1 << 30, 10**9
TOTAL = 80 * G
WORKER = "/x/vllm/v1/worker/gpu_worker.py"
PYTHON = [("f", "/x/vllm/model_executor/layers/linear.py", 9)]
LOAD = PYTHON + [("Worker.load_model", WORKER, 594), ("<module>", "/home/me/serve.py", 3)]
CACHE = [("allocate_kv_cache", "/x/vllm/v1/worker/utils.py", 596),
         ("Worker.initialize_from_config", WORKER, 700), ("<module>", "/home/me/serve.py", 3)]
SERVE = PYTHON + [("Worker.execute_model", WORKER, 1334), ("<module>", "/home/me/serve.py", 9)]
MINE = [("keep", "/home/me/serve.py", 12), ("<module>", "/home/me/serve.py", 9)]


def save(events, info=(), last=True, name="t.zst"):
    """A trace of (event, seconds), on a device of 80 GiB."""
    t = Trace()
    t.info = {"device.0.total_bytes": str(TOTAL), **dict(info)}
    for i, e in enumerate(events):
        fields = {"device": 0, **{k: v for k, v in e.items() if k not in ("op", "t")}}
        if e.get("op", "alloc") == "alloc":
            fields = {"api": "cuMemAlloc_v2", "result": 0, "space": "device", **fields}
        t.event(e.get("op", "alloc"), S + int(e.get("t", i) * S), **fields)
    t.flush(last=last)
    return scratch(name, t.bytes())


def refused(size, free, **more):
    return {"bytes": size, "result": 2, "free_bytes": free, "total_bytes": TOTAL, **more}


def reading(free, own):
    return {"op": "memory-sample", "free_bytes": free, "total_bytes": TOTAL, "process_bytes": own,
            "flags": ["nvml"], "tid": 9}


def summary(path, *options):
    return (read_once if path.startswith(VLLM) else read_summary)(path, *options)


def read_summary(path, *options):
    return json.loads(read_json("summary", "--sysroot=/nowhere", path, *options))


read_once = functools.lru_cache(maxsize=None)(read_summary)


def verdicts(path, *options):
    return summary(path, *options)["verdicts"]


def names(list_of_verdicts):
    return [v["scenario"] for v in list_of_verdicts]


def settings(**flags):
    """What the recorder writes of a command line of `vllm serve`."""
    return {"process.program": "vllm", "version.vllm": "0.33.0",
            **{"flag." + k.replace("_", "-"): str(v) for k, v in flags.items()}}


# ---- real runs -----------------------------------------------------------------------------------

class Run:
    def __init__(self, name):
        self.folder = os.path.join(VLLM, name)
        with open(os.path.join(self.folder, "case.json"), encoding="utf-8") as f:
            self.case = json.load(f)
        self.traces = [os.path.join(self.folder, t) for t in self.case["traces"]]
        self.log_path = os.path.join(self.folder, "log.txt")
        with open(self.log_path, encoding="utf-8") as f:
            self.log = f.read()


def first_of(run, *options):
    """The scenario of each of the run's traces that has one; none, if none has."""
    found = {verdicts(t, *options)[0]["scenario"] for t in run.traces}
    return found - {"none"} or {"none"}


def judge_scenario(run):
    problems, want = [], run.case["scenario"]
    if (got := first_of(run)) != {want}:
        problems.append(f"the trace alone: {got}, not {want}")
    with_log = run.case["log_scenario"] or want
    if (got := first_of(run, "--log", run.log_path)) != {with_log}:
        problems.append(f"with the log: {got}, not {with_log}")
    for trace in run.traces:
        found = verdicts(trace)
        if want == "none" and len(found) > 1:
            problems.append(f"an invented problem: {names(found)}")
        problems += [f"confidence {v['confidence']}" for v in found if not 0 < v["confidence"] < 1]
        if [v["confidence"] for v in found] != sorted((v["confidence"] for v in found), reverse=True):
            problems.append("the strongest is not the first")
    return problems


def counted(path, name):
    """By how much a counter grew from the first scrape that has it to the last one."""
    with open(path, encoding="utf-8") as f:
        values = [float(line.split()[-1]) for line in f if line.startswith(name)]
    return int(values[-1] - values[0])


def judge_metrics(run):
    """The verdict with the server's metrics, whose counters are read here a second time."""
    path, want = os.path.join(run.folder, "metrics.txt"), run.case["metrics"]
    preempted, hits = counted(path, "vllm:num_preemptions_total"), counted(path, "vllm:prefix_cache_hits_total")
    equal(preempted > 0, want == "preemption")
    check(hits > 0 or want != "prefix-cache-pressure")
    problems = []
    for options in (("--log", path), ("--log", path, "--log", run.log_path)):
        found = verdicts(run.traces[0], *options)
        if names(found)[0] != want or (want == "none" and len(found) > 1):
            problems.append(f"{options}: {names(found)}, not {want}")
        if preempted and not any(f"grew by {preempted} " in e["text"] for e in found[0]["evidence"]):
            problems.append(f"{preempted} preemptions: {found[0]['evidence']}")
    said = re.sub(r"\s+", " ", report("explain", run.traces[0], "--log", path)[1].decode())
    check(re.search(rf"\({want}[,)]", said.split("wrong if")[0]), said)
    check(want == "none" or "no out-of-memory" not in said, said)
    return problems


def wanted_of_cache(path):
    """(requests that fit, bytes of the cache that all wanted for one that it has), from the scrapes alone: a request takes
    blocks of 16 tokens for what the mean one had when it ended, or what one has been seen to have."""
    share, most, at = 0, 0, {}
    with open(path, encoding="utf-8") as f:
        for line in [*f, "# scraped"]:
            if line.startswith("# scraped") and at.get("running"):
                most = max(most, at["running"] + at["waiting"])
                share = max(share, at["usage"] / at["running"] if at["usage"] >= 0.9 else 0)
            found = re.match(r"vllm:(?:num_requests_|kv_cache_|request_)(running|waiting|usage|\w+_sum|generation_tokens_count)\S* (\S+)", line)
            if found:
                at[found[1]] = float(found[2])
    tokens = (at["prompt_tokens_sum"] + at["generation_tokens_sum"]) / at["generation_tokens_count"]
    share = max(share, math.ceil(tokens / 16) / (256 - 1))
    return int(1 / share), share * most


def judge_preemption(run):
    fits, wanted = wanted_of_cache(os.path.join(run.folder, "metrics.txt"))
    found = verdicts(run.traces[0], "--log", os.path.join(run.folder, "metrics.txt"))[0]
    values = {a["flag"]: (a["from"], a["to"]) for a in found["advice"]}
    words, now = run.case["command"], run.case["arguments"]["kv_cache_memory_bytes"]
    equal(values["--max-num-seqs"], (words[words.index("--max-num-seqs") + 1], str(fits)))
    from_, to = map(int, values["--kv-cache-memory-bytes"])
    equal(from_, now)
    check(0 <= to - now * wanted <= M, values)


def judge_command(run):
    """Advice on a flag of the command line says from which value, without a log."""
    words, seen = run.case["command"], 0
    for trace in run.traces:
        for a in verdicts(trace)[0]["advice"]:
            if a["flag"] in words:
                equal(a["from"], words[words.index(a["flag"]) + 1])
                seen += 1
    check(seen or not run.case["error"], "no advice names a flag of the command line")


def judge_evidence(run):
    """The first evidence of a failed run is its refused request: of the size that PyTorch's message names."""
    said, problems = vllm_log.refusal(run.log), []
    for trace in run.traces:
        shown = summary(trace)
        if not shown["crossing"]:
            continue
        evidence, crossing = shown["verdicts"][0]["evidence"], shown["crossing"]
        if evidence[0]["event"] != crossing["event"] or evidence[0]["bytes"] != crossing["requested_bytes"]:
            problems.append(f"the first evidence is {evidence[0]}")
        # PyTorch's message has what it asked of the driver: its own request in steps of 2 MiB.
        if said and evidence[0]["bytes"] and not said["asked"].is_of(-(-evidence[0]["bytes"] // (2 * M)) * 2 * M):
            problems.append(f"the log asked for {said['asked']}, the evidence for {evidence[0]['bytes']}")
    return problems


# ---- advice, computed a second time ----------------------------------------------------------------

def need_of(trace, shown, log_settings, given=()):
    """How much more than is free has to be left outside of the KV cache, by PHASES.md and VERDICTS.md."""
    rows = {r["component"]: r["bytes"] for r in shown["devices"][0]["account"]["crossing"]["rows"]}
    phases = json.loads(read_json("phases", "--sysroot=/nowhere", trace))["phases"]
    dump = check_ledger.read_trace(REPORT, trace)
    stack = (shown["crossing"]["phase"] or {}).get("key")
    profile = rise_of_profile(dump, phases)
    there = rows.get("activations", 0) + idle_segments(dump, shown["crossing"]["event"]) + rows.get("free", 0)
    whole = int(log_settings.get("kv_cache_memory_bytes", 0))
    to_come = 0
    if stack == "kv-cache":
        have = rows.get("kv-cache", 0)
        to_come = whole - have if whole > have else shown["crossing"]["requested_bytes"]
    if stack == "graphs":
        to_come = graphs_to_come(dump, shown["crossing"]["event"], given)
    serves = stack == "serve" and shown["crossing"]["component"] == "activations"
    missing = (shown["crossing"]["cause"] or {}).get("missing_bytes") or 0
    return max(missing, profile + profile // (2 if serves else 8) + to_come - there)


def idle_segments(dump, until):
    """Live allocations in which PyTorch had blocks, and has none: from the dump alone."""
    live, blocks, used = {}, set(), set()
    for e in dump[:until]:
        at = int(e.get("ptr") or "0", 16)
        if e["op"] == "alloc" and e.get("result") == 0:
            live[at] = e["bytes"]
        elif e["op"] == "free" and e.get("result") == 0:
            live.pop(at, None)
        elif e["op"] == "block-alloc":
            blocks.add(at)
            used.add(at)
        elif e["op"] == "block-free":
            blocks.discard(at)

    def has(ptrs, start):
        return any(start <= p < start + live[start] for p in ptrs)
    return sum(n for start, n in live.items() if has(used, start) and not has(blocks, start))


def graphs_to_come(dump, until, given):
    """What the executables of the sizes that are left take, if each takes what those so far did. given: the words of a
    command line."""
    config = json.loads(given[given.index("--compilation-config") + 1]) if "--compilation-config" in given else {}
    sizes = config.get("cudagraph_capture_sizes", []) if config.get("cudagraph_mode") == "FULL_DECODE_ONLY" else []
    made = [e["free_before_bytes"] - e["free_bytes"] for e in dump[:until]
            if (e["api"] or "").startswith("cudaGraphInstantiate") and e["result"] == 0
            and not any("profile" in (f["name"] or "") for f in e["stack"])]
    return max(0, len(sizes) - len(made)) * sum(made) // len(made) if made else 0


def rise_of_profile(dump, phases):
    """What driver allocations rose by in the profile run: from the dump alone, by the times of that phase."""
    spans = [(p["begin_t_ns"], p["begin_t_ns"] + p["duration_ns"]) for p in phases
             if p["phase"] and p["phase"]["key"] == "profile"]
    live, sizes, begun, most = 0, {}, None, 0
    for e in dump:
        inside = any(a <= e["t_ns"] < b for a, b in spans)
        if inside and begun is None:
            begun = live
        if e["op"] == "alloc" and e.get("result") == 0 and e.get("space") != "host":
            sizes[e["ptr"]] = e["bytes"]
            live += e["bytes"]
        elif e["op"] == "free" and e.get("result") == 0:
            live -= sizes.pop(e.get("ptr"), 0)
        if inside:
            most = max(most, live - begun)
    return most


def bounds_of(trace, *options):
    """What fit calls safe, by flag. (test_fit.py computes that once more.)"""
    devices = json.loads(read_json("fit", trace, *options))["devices"]
    return {b["flag"]: b["safe"] for d in devices if d["vllm"] for b in d["vllm"]["bounds"]}


def judge_advice(run):
    problems = []
    for trace in run.traces:
        shown = summary(trace, "--log", run.log_path)
        if not shown["crossing"]:
            continue
        log_settings = shown["companions"]["log"]["settings"]
        bounds = bounds_of(trace, "--log", run.log_path)
        for a in shown["verdicts"][0]["advice"]:
            if bounds.get(a["flag"]):
                if a["to"] != bounds[a["flag"]]:
                    problems.append(f"{a}: fit says {bounds[a['flag']]}")
                continue
            if a["flag"] == "--gpu-memory-utilization" and a["to"]:
                need = need_of(trace, shown, log_settings, run.case.get("command", ()))
                cents = math.ceil(need * 100 / shown["devices"][0]["capacity_bytes"])
                if round((float(a["from"]) - float(a["to"])) * 100) != cents:
                    problems.append(f"{a}: {cents} hundredths were computed")
            if a["flag"] != "--kv-cache-memory-bytes" or not a["to"]:
                continue
            want = (int(a["from"]) - need_of(trace, shown, log_settings)) // (16 * M) * (16 * M)
            if int(a["to"]) != want or a["from"] != log_settings["kv_cache_memory_bytes"]:
                problems.append(f"{a}: {want} was computed")
    return problems


def smaller_by(trace, *options):
    """By how much the KV cache has to be smaller, where the first verdict says it."""
    said = " ".join(a["text"] for a in verdicts(trace, *options)[0]["advice"])
    return re.findall(r"(?:KV cache smaller by |lower it by [\d.]+ \()([\d.]+ \w+)", said)[:1]


@case("by how much a cache is too large is one figure, with the log and without it")
def one_arithmetic():
    compared = 0
    for run in map(Run, sorted(os.listdir(VLLM))):
        alone, both = (smaller_by(run.traces[0], *more) for more in ((), ("--log", run.log_path)))
        said = " ".join(a["text"] for a in verdicts(run.traces[0])[0]["advice"])
        if alone and both and "and by more if parts of it were still to come" not in said:
            equal(alone, both, run.folder)
            compared += 1
    check(compared >= 5, compared)


@case("advice on the KV cache of real runs: from the setting of the log to what the account leaves")
def advice_of_runs():
    problems, seen = [], 0
    for name in sample([name for name in sorted(os.listdir(VLLM)) if Run(name).case["refused"]], 8):
        problems += [f"{name}: {p}" for p in judge_advice(Run(name))]
        seen += 1
    check(seen >= (15 if FULL else 8), seen)
    return problems


# ---- made traces: causes -------------------------------------------------------------------------

@case("another process: named first where it holds what was missing, and only possible while weights are loaded")
def co_tenant():
    events = [{"ptr": G, "bytes": 40 * G, "stack": LOAD}, reading(10 * G, 40 * G), refused(11 * G, 10 * G, stack=SERVE)]
    equal(names(verdicts(save(events))), ["co-tenant", "burst-prefill"])
    events[2] = refused(11 * G, 10 * G, stack=LOAD)
    equal(names(verdicts(save(events)))[0], "co-tenant")
    events = [{"ptr": G, "bytes": 69 * G, "stack": LOAD}, reading(10 * G, 69 * G), refused(12 * G, 10 * G, stack=LOAD)]
    equal(names(verdicts(save(events))), ["startup-weights"])  # 1 GiB of others is less than what was missing


@case("the missing bytes are one figure in summary and explain: with what was free, to the last digit, what was asked for")
def one_missing():
    own = G * 7 // 2
    for size, free in ((12 * G + 802 * M, 2504 * M), (12 * G + 802 * M, 2515 * M), (11 * G, 2598 * M), (5 * G, 37 * M)):
        events = [{"ptr": G, "bytes": 40 * G, "stack": LOAD}, reading(free, own), refused(size, free, stack=SERVE)]
        path = save(events)
        said = re.search(r"([\d.]+ [KMG]iB) was missing", report("summary", "--sysroot=/nowhere", path)[1].decode()).group(1)
        for command in (("summary", "--sysroot=/nowhere"), ("explain",)):
            found = [e["text"] for v in json.loads(read_json(*command, path))["verdicts"] for e in v["evidence"]
                     if e["text"].startswith("missing: ")]
            equal(set(found), {"missing: " + said}, f"{command[0]}, {size} of {free}")
        if said.endswith("GiB") and free >= G:  # (an independent sum, in hundredths of GiB)
            equal(round(float(said.split()[0]) * 100), round(size * 100 / G + 1e-9) - int(free * 100 / G + 0.5), said)


@case("a call of unknown size that fails although gigabytes are free is no phase that needs more than was left")
def despite_free():
    for free, want in ((40 * M, "burst-prefill"), (9 * G, "unknown")):
        events = [{"ptr": G, "bytes": 69 * G, "stack": LOAD},
                  {"op": "module-load", "api": "cuModuleGetFunction", "result": 2, "free_bytes": free, "free_before_bytes": free,
                   "total_bytes": TOTAL, "stack": SERVE}]
        first = verdicts(save(events))[0]
        equal(first["scenario"], want, free)
        check(bool(first["advice"]) == (want != "unknown"), first)
    events = [{"ptr": G, "bytes": 30 * G, "stack": LOAD}, reading(45 * G, 31 * G),
              {"op": "module-load", "api": "cuModuleGetFunction", "result": 2, "stack": SERVE}]
    equal(names(verdicts(save(events))), ["burst-prefill"])  # what was free at the call is not known


def outside(total, own, asked=None, stack=None):
    """Verdicts of a device where a process has allocated 1 GiB and has `own` by NVML; the rest is of others but 256 MiB.
    asked: bytes of the refused request; None: a module, whose size no call says."""
    free = 256 * M
    failed = {"total_bytes": total, "free_bytes": free, "free_before_bytes": free, "result": 2, "stack": stack or MINE}
    call = {"bytes": asked} if asked else {"op": "module-load", "api": "cuModuleLoadData"}
    events = [{"ptr": G, "bytes": G, "stack": MINE}, {**reading(free, own), "total_bytes": total}, {**failed, **call}]
    return verdicts(save(events, {"device.0.total_bytes": str(total)}))


@case("memory outside of any allocation is the cause where it holds what was missing, or most of the device if that is not known")
def untracked_is_enough():
    def is_cause(*arguments, **more):
        return "untracked-growth" in names(outside(*arguments, **more))
    found = outside(TOTAL, 70 * G)
    equal(names(found)[0], "untracked-growth")
    check("most of the device" in found[0]["summary"] and 69 * G in [e["bytes"] for e in found[0]["evidence"]], found[0])
    equal([is_cause(TOTAL, G + n) for n in (40 * G, 40 * G + M)], [False, True])  # half of the device
    found = outside(TOTAL, 31 * G, asked=20 * G)
    check("is more than was missing" in next(v for v in found if v["scenario"] == "untracked-growth")["summary"], found)
    equal([is_cause(TOTAL, G + n, asked=20 * G) for n in (19 * G, 20 * G)], [False, True])  # less than was missing, and more
    equal([is_cause(TOTAL, G + n, asked=G) for n in (8 * G - M, 8 * G)], [False, True])  # a tenth of the device
    equal([is_cause(16 * G, G + n, asked=G) for n in (2 * G - M, 2 * G)], [False, True])  # 2 GiB of a small one
    equal(is_cause(TOTAL, 31 * G, asked=20 * G, stack=SERVE), False)  # a server's budget leaves room for it


@case("a device full of roundings has no untracked memory that grows")
def roundings():
    def found(size, n, freed=0):
        events = [{"ptr": (i + 1) * 4 * M, "bytes": freed, "stack": MINE} for i in range(n if freed else 0)]
        events += [{"op": "free", "ptr": (i + 1) * 4 * M} for i in range(n if freed else 0)]
        events += [{"ptr": (i + 1) * 4 * M, "bytes": size, "stack": MINE} for i in range(n)]
        held = n * size
        used = n * 4 * M
        events += [{**reading(16 * G - used, used), "total_bytes": 16 * G}, refused(16 * G - used + G, 16 * G - used, total_bytes=16 * G, stack=MINE)]
        return names(verdicts(save(events, {"device.0.total_bytes": str(16 * G)}))), used - held
    scenarios, apart = found(2 * M + 4096, 3900)
    check(apart > 7 * G and "untracked-growth" not in scenarios, (scenarios, apart))  # nearly 2 MiB of each are rounding
    scenarios, apart = found(2 * M, 3900)
    check(apart > 7 * G and "untracked-growth" in scenarios, (scenarios, apart))  # of 2 MiB nothing is
    scenarios, apart = found(2 * M, 3900, freed=2 * M + 4096)
    check(apart > 7 * G and "untracked-growth" in scenarios, (scenarios, apart))  # what was freed has none


@case("another process that sends new weights by CUDA IPC is no surprise on the device: it comes behind what the update needed")
def sender_of_weights():
    update = PYTHON + [("Worker.update_weights", WORKER, 1623), ("<module>", "/home/me/serve.py", 9)]
    events = [{"ptr": G, "bytes": 40 * G, "stack": LOAD}, reading(10 * G, 40 * G), refused(11 * G, 10 * G, stack=update)]
    equal(names(verdicts(save(events))), ["co-tenant", "weight-sync"])  # received from elsewhere
    opened = {"op": "ipc-open", "api": "cuIpcOpenMemHandle_v2", "ptr": 900 * G, "flags": ["foreign"]}
    found = verdicts(save(events[:2] + [{**opened, "device": 0}] + events[2:]))
    equal(names(found), ["weight-sync", "co-tenant"])
    check(any("1 allocation of another process is open by CUDA IPC" == e["text"] for e in found[1]["evidence"]), found[1])
    check(not found[1]["advice"], found[1]["advice"])
    # Memory of another GPU, as tensor parallel opens it, is not the weights; neither is what is closed again.
    equal(names(verdicts(save(events[:2] + [{**opened, "device": 1}] + events[2:]))), ["co-tenant", "weight-sync"])
    closed = {"op": "ipc-close", "api": "cuIpcCloseMemHandle", "ptr": 900 * G, "device": 0}
    equal(names(verdicts(save(events[:2] + [{**opened, "device": 0}, closed] + events[2:]))), ["co-tenant", "weight-sync"])
    events[2] = refused(11 * G, 10 * G, stack=SERVE)
    equal(names(verdicts(save(events[:2] + [{**opened, "device": 0}] + events[2:])))[0], "co-tenant")


@case("more than the device has: no advice on the budget")
def impossible():
    found = verdicts(save([reading(79 * G, G), refused(200 * G, 79 * G, stack=SERVE)]))
    equal(names(found), ["impossible-request"])
    equal([a["flag"] for a in found[0]["advice"]], [None])


@case("host memory, addresses, a limit of PyTorch's own: none is a device that was full")
def not_full():
    for event, scenario in (({"api": "cuMemHostAlloc", "bytes": G, "result": 2, "space": "host"}, "host-pinned"),
                            ({"op": "reserve", "api": "cuMemAddressReserve", "bytes": G, "result": 2}, "unknown"),
                            ({"op": "block-oom", "bytes": G, "reserved_bytes": 0, "allocated_bytes": 0}, "mis-budget")):
        (found,) = verdicts(save([{"ptr": G, "bytes": M}, event]))
        equal(found["scenario"], scenario)
        check(scenario != "unknown" or "addresses were refused" in found["summary"], found)


@case("PyTorch's pool in pieces: fragmentation where the pieces are a tenth of the pool, else only possible")
def fragmentation():
    def pool(free_pieces, asked):
        events, reserved, held = [], 0, 0
        for i, piece in enumerate(free_pieces):
            reserved, held = reserved + 100 * M, held + 100 * M - piece
            events += [{"ptr": (64 + i) * G, "bytes": 100 * M, "api": "cudaMalloc", "flags": ["runtime"]},
                       {"op": "block-alloc", "ptr": (64 + i) * G, "bytes": 100 * M - piece, "reserved_bytes": reserved,
                        "allocated_bytes": held}]
        call = {"api": "cudaMalloc", "flags": ["runtime"], **refused(asked, 2 * M, stack=SERVE)}
        return events + [call, call, {"op": "block-oom", "bytes": asked, "stack": SERVE, "reserved_bytes": reserved,
                                      "allocated_bytes": held}]
    found = verdicts(save(pool([30 * M, 20 * M, 30 * M], 40 * M)))
    equal(names(found)[0], "fragmentation")
    equal([e["bytes"] for e in found[0]["evidence"] if "free blocks" in e["text"]], [80 * M])
    equal([(a["flag"], a["from"], a["to"]) for a in found[0]["advice"] if a["flag"]],
          [("PYTORCH_CUDA_ALLOC_CONF", None, "expandable_segments:True")])

    def advised(**info):
        found = verdicts(save(pool([30 * M, 20 * M, 30 * M], 40 * M), {k.replace("__", "."): v for k, v in info.items()}))
        return [(a["flag"], a["from"], a["to"]) for a in found[0]["advice"] if a["flag"]], found[0]["advice"][0]["text"]
    old = "process__env__PYTORCH_CUDA_ALLOC_CONF"
    flags, said = advised(**{old: "expandable_segments:True"})
    check(not flags and "are on already" in said, said)
    equal(advised(**{old: "max_split_size_mb:128"})[0], [("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128", "expandable_segments:True")])
    equal(advised(version__torch="2.10.0")[0], [("PYTORCH_ALLOC_CONF", None, "expandable_segments:True")])
    sleeps = {"version.vllm": "0.11.2", "flag.enable-sleep-mode": "true"}
    flags, said = advised(**sleeps)
    check(not flags and "sleep mode refuses it before 0.20" in said, said)
    equal(len(advised(**{**sleeps, "version.vllm": "0.33.0"})[0]), 1)
    shown_ = report("explain", save(pool([30 * M, 20 * M, 30 * M], 40 * M)))[1].decode()
    check("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (torch 2.1" in shown_, shown_)
    found = verdicts(save(pool([5 * M] * 9, 40 * M)))
    equal((names(found)[0], "fragmentation" in names(found)), ("burst-prefill", True))
    check(found[0]["confidence"] > 0.8, "the pieces of a full pool make the phase less sure")
    equal("fragmentation" in names(verdicts(save(pool([5 * M] * 4, 40 * M)))), False)  # not enough in all


@case("a request that a retry served is recovered, and nothing has to change")
def recovered():
    found = verdicts(save([{"ptr": G, "bytes": 40 * G}, refused(50 * G, 40 * G), {"op": "free", "ptr": G, "result": 0},
                           {"ptr": G, "bytes": 50 * G}]))
    equal((names(found), found[0]["advice"]), (["recovered"], []))
    check("one of the same size succeeded later" in found[0]["summary"], found[0])
    equal([e["event"] for e in found[0]["evidence"] if "was served" in e["text"]], [3])


@case("a tensor of the program's own is a wrong budget where it holds what was missing")
def mis_budget():
    def serving(extra, missing):
        return [{"ptr": G, "bytes": 20 * G, "stack": LOAD}, {"ptr": 30 * G, "bytes": 30 * G, "stack": CACHE},
                *extra, refused(2 * G, 2 * G - missing, stack=SERVE)]
    mine = {"ptr": 90 * G, "bytes": 4 * G, "stack": MINE}
    equal(names(verdicts(save(serving([mine], G))))[0], "mis-budget")
    mine["bytes"] = 17 * G // 10  # more than a fiftieth of the device, and less than was missing
    equal(names(verdicts(save(serving([mine], 19 * G // 10)))), ["burst-prefill"])
    mine["bytes"] = G  # however small a part of the device it is
    equal(names(verdicts(save(serving([mine], G // 2))))[0], "mis-budget")
    equal(names(verdicts(save(serving([], G)))), ["burst-prefill"])


@case("many pieces of the program's own are a wrong budget where they were made at once; over half the time they may be a leak")
def pieces_of_its_own():
    def run(seconds):
        events = [{"ptr": G, "bytes": 20 * G, "stack": LOAD, "t": 0}, {"ptr": 30 * G, "bytes": 30 * G, "stack": CACHE, "t": 1},
                  *({"ptr": (90 + i) * G, "bytes": G // 4 + i * M, "stack": MINE, "t": 2 + i * seconds / 20} for i in range(20)),
                  refused(2 * G, G, stack=SERVE, t=101)]
        return names(verdicts(save(events)))[0]
    equal([run(2), run(50)], ["mis-budget", "burst-prefill"])


@case("another model of the program's own is no part of the server's weights; where its own load fails, no value is named")
def second_model():
    layer = [("Linear.__init__", "/x/torch/nn/modules/linear.py", 109), ("Judge.__init__", "/home/me/judge.py", 15), ("<module>", "/home/me/serve.py", 9)]
    def run(asker, missing):
        return verdicts(save([{"ptr": G, "bytes": 20 * G, "stack": LOAD}, {"ptr": 30 * G, "bytes": 30 * G, "stack": CACHE},
                              *({"ptr": (90 + i) * G, "bytes": G, "stack": layer} for i in range(3)),
                              refused(G, G - missing, stack=asker)], settings(gpu_memory_utilization=0.9)))[0]
    for asker in (SERVE, layer):
        found = run(asker, G // 2)
        equal(found["scenario"], "mis-budget")
        (own,) = [e for e in found["evidence"] if e["text"].startswith("allocated by code outside of the server")]
        equal(own["bytes"], (4 if asker is layer else 3) * G)
        check("judge.py" in str(own["stack"]), own)
        advice = [a for a in found["advice"] if a["flag"] == "--gpu-memory-utilization"]
        equal([(a["from"], a["to"] is None) for a in advice], [("0.9", asker is layer)])


OTHERS = {"process.pid": "4711", "process.nvml_pids": "own", "device.0.meminfo_total_bytes": str(TOTAL)}


def neighbour(bytes_):
    return {"op": "process", "pid": 123, "process_bytes": bytes_, "text": "trainer", "flags": ["nvml"], "tid": 9}


@case("what another process held before the server made its cache is in its plan; what it took later is the cause, and named")
def planned_neighbour():
    def run(grown):
        own, missing = 25 * G, G
        free = TOTAL - own - 40 * G - grown
        return save([reading(TOTAL - 45 * G, 5 * G), neighbour(40 * G), {"ptr": G, "bytes": 5 * G, "stack": LOAD},
                     {"ptr": 30 * G, "bytes": 20 * G, "stack": CACHE}, reading(free, own), neighbour(40 * G + grown),
                     refused(free + missing, free, stack=SERVE)], OTHERS)
    equal(names(verdicts(run(0))), ["burst-prefill"])
    found = verdicts(run(6 * G))
    equal(names(found)[0], "co-tenant")
    check("end process trainer (pid 123), which held 46.00 GiB" in found[0]["advice"][0]["text"], found[0]["advice"])


@case("a wake-up that this process's own code left no room for says what that code holds, and to free it")
def own_before_wake_up():
    wake = [("Worker.wake_up", WORKER, 200), ("<module>", "/home/me/serve.py", 9)]
    found = verdicts(save([{"ptr": G, "bytes": 30 * G, "stack": LOAD}, {"ptr": 50 * G, "bytes": 40 * G, "stack": MINE},
                           refused(20 * G, 9 * G, stack=wake)]))[0]
    equal(found["scenario"], "sleep-wake")
    (own,) = [e for e in found["evidence"] if e["text"].startswith("allocated by code outside of the server")]
    equal((own["bytes"], own["stack"][0]["name"]), (40 * G, "keep"))
    check("let this process free that before wake_up" in found["advice"][0]["text"], found["advice"])


@case("a request that failed, after which the same lines got less, was caught by the program; without them it is unknown")
def caught():
    first = [{"ptr": G, "bytes": 40 * G, "stack": MINE, "t": 0}, refused(60 * G, 39 * G, stack=MINE, t=1)]
    found = verdicts(save([*first, {"ptr": 100 * G, "bytes": 30 * G, "stack": MINE, "t": 2}]))
    equal(names(found), ["recovered"])
    check("the program caught that" in found[0]["summary"], found)
    equal(names(verdicts(save(first))), ["unknown"])
    other = {"ptr": 100 * G, "bytes": 30 * G, "stack": [("other", "/home/me/serve.py", 99)], "t": 2}
    equal(names(verdicts(save([*first, other]))), ["unknown"])
    # What is native between the lines differs; a program that ended with an error, or was killed, did not go on.
    later = {"ptr": 100 * G, "bytes": 30 * G, "stack": [MINE[0], (None, "/x/libpython.so", 7), MINE[1]], "t": 2}
    equal(names(verdicts(save([*first, later]))), ["recovered"])
    equal(names(verdicts(save([*first, later], {"process.exit_status": "1"}))), ["unknown"])
    cut = json.loads(report("summary", "--json", save([*first, later], last=False))[1])["verdicts"]
    equal(names(cut), ["unknown"])
    # Also in a phase that has a scenario of its own, which then is only possible.
    step = [("Tensor.backward", "/x/torch/_tensor.py", 5), ("<module>", "/home/me/train.py", 3)]
    found = verdicts(save([{"ptr": G, "bytes": 40 * G, "stack": step, "t": 0}, refused(60 * G, 39 * G, stack=step, t=1),
                           {"ptr": 100 * G, "bytes": 30 * G, "stack": step, "t": 2}]))
    equal(names(found), ["recovered", "training-step"])
    check(found[1]["confidence"] <= 0.5, found)


@case("one call site that takes equal pieces until the device is full: a leak or too much data, however short it was watched")
def hoard():
    def run(sizes, asked):
        return verdicts(save([*({"ptr": G + i * 8 * G, "bytes": n, "stack": MINE, "t": i / 100} for i, n in enumerate(sizes)),
                              refused(asked, G, stack=MINE, t=1)]))
    found = run([3 * G] * 26, 3 * G)
    equal((names(found)[0], found[0]["sureness"]), ("leak", "possible"))
    check("a leak, or more data than the device holds" in found[0]["summary"], found)
    equal(names(run([3 * G, 4 * G] * 11, 3 * G)), ["unknown"])
    equal(names(run([3 * G] * 26, 4 * G)), ["unknown"])


@case("a training step whose parameters, gradients and states are the device alone: no batch size is advised")
def training_states():
    def frames(file, function):
        return [(function, file, 5), ("<module>", "/home/me/train.py", 3)]
    def run(weights, gradients, states, rest):
        free = TOTAL - weights - gradients - states - rest - G
        held = [(weights, "/x/torch/nn/modules/linear.py", "Linear.__init__"), (gradients, "/x/torch/_tensor.py", "Tensor.backward"),
                (states, "/x/torch/optim/adam.py", "Adam.step"), (rest, "/x/torch/nn/modules/module.py", "Module._call_impl")]
        return verdicts(save([*({"ptr": G + i * 100 * G, "bytes": n, "stack": frames(file, function)}
                                for i, (n, file, function) in enumerate(held) if n),
                              refused(free + 2 * G, free, stack=frames("/x/torch/optim/adam.py", "Adam.step"))]))[0]
    full, large = run(28 * G, 28 * G, 14 * G, 0), run(10 * G, 10 * G, 5 * G, 50 * G)
    equal([full["scenario"], large["scenario"]], ["training-step"] * 2)
    check("no batch size helps" in full["advice"][0]["text"] and "81.00 GiB" in full["advice"][0]["text"], full["advice"])
    check("lower the batch size" in large["advice"][0]["text"], large["advice"])


@case("what PyTorch was refused is the segment that it asked the driver for, not its own smaller request")
def refused_segment():
    free = 17 * M + M // 2
    crossing = summary(save([{"ptr": G, "bytes": 60 * G, "stack": LOAD}, refused(20 * M, free, stack=SERVE, tid=7, api="cudaMalloc"),
                             {"op": "block-oom", "bytes": 9 * M, "stack": SERVE, "tid": 7, "free_bytes": free, "total_bytes": TOTAL}
                             ]))["crossing"]
    equal((crossing["op"], crossing["requested_bytes"], crossing["rounded_bytes"], crossing["reason"]),
          ("block-oom", 9 * M, 20 * M, "not-enough-free"))
    equal(crossing["cause"]["missing_bytes"], 20 * M - free)


@case("a refusal by a framework's own pool, which no call shows, is what the log says; the first line does not deny it")
def own_pool():
    path = save([{"ptr": G, "bytes": 60 * G, "stack": MINE}])
    for line, scenario in (("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 60.00MiB with allocator GPU_0_bfc on device 0.", "unknown"),
                           ("Maximum pool size exceeded (failed to allocate 60.000000 MiB): Not enough room to grow, current/max/try size = "
                            "680.500000 MiB, 700.000000 MiB, 60.000000 MiB", "mis-budget")):
        beside = log(f"step 1\n{line}\n")
        equal(names(verdicts(path, *beside))[0], scenario)
        text = report("summary", *beside, path)[1].decode()
        check("No OOM occurred" not in text and "the log says that memory ran out (line 2)" in re.sub(r"\s+", " ", text), text)
    check("No OOM occurred" in report("summary", path)[1].decode())


@case("a request that no rule knows, of a pool that is full of pieces: what would have served it is said, however little it is of the pool")
def pieces_of_no_rule():
    def run(free):
        events, held = [], 0
        for i in range(100):
            held += 800 * M - free
            events += [{"ptr": (64 + i) * G, "bytes": 800 * M, "api": "cudaMalloc", "flags": ["runtime"], "stack": MINE},
                       {"op": "block-alloc", "ptr": (64 + i) * G, "bytes": 800 * M - free, "reserved_bytes": (i + 1) * 800 * M,
                        "allocated_bytes": held, "stack": MINE}]
        call = {"api": "cudaMalloc", "flags": ["runtime"], **refused(200 * M, 2 * M, stack=MINE)}
        last = {"op": "block-oom", "bytes": 200 * M, "stack": MINE, "reserved_bytes": 80000 * M, "allocated_bytes": held}
        return names(verdicts(save([*events, call, call, last])))
    equal((run(10 * M)[0], run(0)), ("fragmentation", ["unknown"]))


@case("what no rule knows is unknown, with what filled the device; --capacity has no verdicts")
def unknown():
    path = save([{"ptr": G, "bytes": 60 * G, "stack": MINE}, refused(30 * G, 20 * G, stack=MINE)])
    found = verdicts(path)
    equal(names(found), ["unknown"])
    check(found[0]["confidence"] < 0.5)
    equal(verdicts(path, "--capacity=10GiB"), [])


@case("nothing failed: none; a trace without its end says so, and is less sure")
def none():
    whole = verdicts(save([{"ptr": G, "bytes": G}]))
    code, out, _ = report("summary", "--json", save([{"ptr": G, "bytes": G}], last=False))
    cut = json.loads(out)["verdicts"]
    equal(code, 4)
    equal((names(whole), names(cut)), (["none"], ["none"]))
    check(cut[0]["confidence"] < whole[0]["confidence"] and "as far as the trace goes" in cut[0]["summary"])
    for status, said in (("0", False), ("1", True)):  # of a server that refuses to start, too
        path = save([{"ptr": G, "bytes": G}], {"process.exit_status": status})
        (found,) = verdicts(path)
        equal([a["text"].startswith("give the log") for a in found["advice"]], [True] * said)
        equal(f"exit status {status}" in " ".join(e["text"] for e in found["evidence"]), said)
        text = re.sub(r"\s+", " ", report("summary", path)[1].decode())
        equal("No OOM occurred, but the process ended with exit status 1 (why: add --log=LOG). " in text, said)


@case("a leak: of hours before anything failed, and at the failure; a cache that is filled at the start is none")
def leak():
    def serve(hours, failed, size=40 * M):
        events = [{"t": 0, "ptr": G, "bytes": 20 * G, "stack": LOAD},
                  {"t": 1, "ptr": 40 * G, "bytes": 30 * G, "stack": CACHE}]
        for i in range(int(hours * 60)):
            t = 60 + i * 60
            events += [{"t": t, "ptr": 100 * G, "bytes": G, "stack": SERVE},
                       {"t": t + 1, "op": "free", "ptr": 100 * G, "result": 0},
                       {"t": t + 2, "ptr": (200 + i) * G, "bytes": size, "stack": MINE}]
        return events + ([refused(G, 8 * M, stack=SERVE, t=t + 10)] if failed else [])
    for failed in (False, True):
        found = verdicts(save(serve(4, failed)))
        equal(names(found)[0], "leak")
        (grown,) = [e for e in found[0]["evidence"] if e["stack"] and not e["text"].startswith("asked for")]
        equal(grown["bytes"], 240 * 40 * M)
        check([f["name"] for f in grown["stack"]][:1] == ["keep"], grown["stack"])
        check("2.34 GiB an hour" in grown["text"], grown["text"])
    equal(names(verdicts(save(serve(4, False, 3 * M)))), ["none"])  # 720 MiB: less than a hundredth of the device
    start = [{"t": i / 100, "ptr": (1 + i) * G, "bytes": 300 * M, "stack": MINE} for i in range(100)]
    equal(names(verdicts(save(start + [refused(60 * G, 50 * G, stack=MINE, t=2)]))), ["unknown"])


@case("the KV cache is said to be none of the growth only where it was allocated once")
def kv_cache():
    def said(more):
        path = save([{"ptr": G, "bytes": 20 * G, "stack": LOAD}, {"ptr": 100 * G, "bytes": 30 * G, "stack": CACHE},
                     *more, refused(4 * G, G, stack=SERVE)])
        return [e["bytes"] for e in verdicts(path)[0]["evidence"] if "allocated once" in e["text"]]
    equal(said([]), [30 * G])
    equal(said([{"ptr": 200 * G, "bytes": G, "stack": CACHE}, {"op": "free", "ptr": 200 * G, "result": 0}]), [])
    # one that takes more while it serves has grown, though nothing was given back
    equal(said([{"ptr": 200 * G, "bytes": G, "stack": CACHE, "t": 8}, {"ptr": 300 * G, "bytes": M, "t": 9, "stack": SERVE}]), [])
    path = save([{"ptr": 100 * G, "bytes": 30 * G, "stack": CACHE, "t": 3}, refused(4 * G, G, stack=SERVE, t=20)])
    (at,) = [(e["event"], e["t_ns"]) for e in verdicts(path)[0]["evidence"] if "allocated once" in e["text"]]
    equal(at, (0, 4 * S))


@case("what no rule names is said with the stack that holds the most of it")
def other_memory():
    path = save([{"ptr": G, "bytes": 30 * G, "stack": MINE}, {"ptr": 100 * G, "bytes": 10 * G, "stack": LOAD},
                 refused(40 * G, 39 * G, stack=LOAD)])
    (other,) = [e for e in verdicts(path)[0]["evidence"] if e["text"].startswith("unrecognized: 30.00 GiB")]
    check("one stack holds 30.00 GiB" in other["text"] and other["stack"][0]["name"] == "keep", other)
    shown_ = report("explain", path, columns=80)[1].decode()
    (line,) = [n for n, text in enumerate(shown_.splitlines()) if "unrecognized: 30.00" in text]
    check(shown_.splitlines()[line + 1].startswith(" " * 12), shown_)


# ---- made traces: advice ------------------------------------------------------------------------

STEP = [{"ptr": G, "bytes": 40 * G, "stack": LOAD}, {"ptr": 100 * G, "bytes": 30 * G, "stack": CACHE},
        refused(4 * G, G, stack=SERVE)]


def advice(path, flag, *options):
    return [(a["from"], a["to"]) for a in verdicts(path, *options)[0]["advice"] if a["flag"] == flag]


@case("the settings of the command line: from and to; of a default only where nothing else can have set it")
def from_and_to():
    cents = math.ceil(3 * G * 100 / TOTAL)
    equal(advice(save(STEP, settings(gpu_memory_utilization=0.95)), "--gpu-memory-utilization"),
          [("0.95", f"{0.95 - cents / 100:.2f}")])
    equal(advice(save(STEP, settings(max_num_seqs=8)), "--gpu-memory-utilization"),
          [("0.92", f"{0.92 - cents / 100:.2f}")])
    equal(advice(save(STEP, {**settings(), "version.vllm": "0.11.2"}), "--gpu-memory-utilization"),
          [("0.9", f"{0.9 - cents / 100:.2f}")])
    for unknown_ in ({}, settings(config="<given>"), {"process.program": "vllm"},
                     {**settings(), "version.vllm": "0.19"}):
        equal(advice(save(STEP, unknown_), "--gpu-memory-utilization"), [(None, None)], unknown_)
    equal(advice(save(STEP, settings(gpu_memory_utilization=0.03)), "--gpu-memory-utilization"), [("0.03", None)])
    equal(advice(save(STEP, settings(max_num_batched_tokens=8192)), "--max-num-batched-tokens"),
          [("8192", "512")])  # 1 GiB is there, and no profile run says that a step takes less than 4 x 4 GiB
    kv = settings(kv_cache_memory_bytes=30 * G)
    equal(advice(save(STEP, kv), "--kv-cache-memory-bytes"), [(str(30 * G), str(27 * G))])
    equal(advice(save(STEP, kv), "--gpu-memory-utilization"), [])  # which vLLM then leaves unused


@case("a setting that is no number, or a stranger's, is printed harmlessly and computed with never")
def hostile_settings():
    for value in ("nan", "-1", "1e400", "0.9\x1b[31m", "9" * 400, ""):
        path = save(STEP, settings(gpu_memory_utilization=value))
        ((_, to),) = advice(path, "--gpu-memory-utilization")
        equal(to, None, value)
        check(b"\x1b" not in report("summary", path)[1])


# A scenario that no real run here is of, by the frames inside of a method of vLLM's worker, or of another program.
RUNNER = "/x/vllm/v1/worker/gpu_model_runner.py"
OF_FRAMES = [
    ("communication", [("init_worker_distributed_environment", WORKER, 9), ("Worker.init_device", WORKER, 9)]),
    ("communication", [("PyNcclCommunicator._init_comm", "/x/vllm/distributed/device_communicators/pynccl.py", 9),
                       ("Worker.execute_model", WORKER, 9)]),
    ("lora", [("Worker.add_lora", WORKER, 9)]),
    ("lora", [("LRUCacheWorkerLoRAManager.add_adapter", "/x/vllm/lora/worker_manager.py", 9), ("Worker.execute_model", WORKER, 9)]),
    ("multimodal", [("GPUModelRunner._execute_mm_encoder", RUNNER, 9), ("Worker.execute_model", WORKER, 9)]),
    ("speculative", [("EagleProposer.propose", "/x/vllm/v1/spec_decode/eagle.py", 9), ("Worker.execute_model", WORKER, 9)]),
    ("weight-sync", [("Worker.update_weights", WORKER, 9)]),
    ("sleep-wake", [("Worker.wake_up", WORKER, 9)]),
    ("repack", [("process_weights_after_loading", "/x/vllm/model_executor/model_loader/utils.py", 9),
                ("Worker.load_model", WORKER, 9)]),
    ("burst-prefill", [("Worker.execute_dummy_batch", WORKER, 9)]),
    ("training-step", [("Trainer._inner_training_loop", "/x/transformers/trainer.py", 9)]),
    ("training-step", [("Adam.step", "/x/torch/optim/adam.py", 9)]),
    ("training-step", [("Tensor.backward", "/x/torch/_tensor.py", 9)]),
]


@case("what asked for it names the scenario where nothing else explains the failure; served, it is none")
def by_frames():
    for scenario, frames in OF_FRAMES:
        stack = frames + [("<module>", "/home/me/serve.py", 3)]
        events = [{"ptr": G, "bytes": 40 * G, "stack": LOAD}, {"ptr": 100 * G, "bytes": 30 * G, "stack": CACHE}]
        first = verdicts(save([*events, refused(10 * G, 9 * G, stack=stack)]))[0]
        equal(first["scenario"], scenario, frames)
        check(first["confidence"] > 0.8 and first["advice"], first)
        equal(names(verdicts(save([*events, {"ptr": 200 * G, "bytes": 9 * G, "stack": stack}]))), ["none"], frames)


# Frames of programs that are not vLLM: the options that advice may name.
SGLANG = "/x/sglang/srt/model_executor/model_runner.py"
PROGRAMS = [
    ("startup-weights", [("ModelRunner.load_model", SGLANG, 9)], {"--tensor-parallel-size", "--quantization"}),
    ("startup-kv-pool", [("ModelRunner.init_memory_pool", SGLANG, 9)], {"--mem-fraction-static"}),
    ("startup-kv-pool", [("ModelRunner.alloc_memory_pool", SGLANG, 9)], {"--mem-fraction-static"}),  # 0.5.23
    ("graph-capture", [("ModelRunner.init_device_graphs", SGLANG, 9)],
     {"--mem-fraction-static", "--cuda-graph-max-bs", "--disable-cuda-graph"}),
    ("burst-prefill", [("Scheduler.run_batch", "/x/sglang/srt/managers/scheduler.py", 9)],
     {"--mem-fraction-static", "--chunked-prefill-size"}),
    ("burst-prefill", [("Model.generate_token", "/x/text_generation_server/models/flash_causal_lm.py", 9)],
     {"--cuda-memory-fraction", "--max-batch-prefill-tokens"}),
    ("startup-weights", [("Module._apply", "/x/torch/nn/modules/module.py", 9)], set()),
    ("startup-weights", [("from_pretrained", "/x/transformers/modeling_utils.py", 9)], set()),
    ("burst-prefill", [("generate", "/x/transformers/generation/utils.py", 9)], set()),
]


@case("advice names options of the program that failed: none of vLLM's to SGLang, TGI, or a program of PyTorch's")
def of_program():
    for scenario, frames, options in PROGRAMS:
        path = save([{"ptr": G, "bytes": 70 * G, "stack": LOAD}, refused(20 * G, 9 * G, stack=frames + MINE)])
        first = verdicts(path)[0]
        equal(first["scenario"], scenario, frames)
        equal({a["flag"] for a in first["advice"]} - {None}, options, frames)
        check(first["advice"], frames)
    # the share that SGLang was given is lowered by what its step lacks
    given = {"process.program": "sglang", "version.sglang": "0.5.17", "flag.mem-fraction-static": "0.85"}
    path = save([{"ptr": G, "bytes": 70 * G, "stack": LOAD}, refused(20 * G, 9 * G, stack=PROGRAMS[3][1] + MINE)], given)
    equal(advice(path, "--mem-fraction-static"), [("0.85", f"{0.85 - math.ceil(11 * 100 / 80) / 100:.2f}")])


@case("where the command line is not known, advice on the share says that a set size of the cache counts instead")
def other_flag():
    def said(info):
        (text,) = [a["text"] for a in verdicts(save(STEP, info))[0]["advice"] if a["flag"] == "--gpu-memory-utilization"]
        return "--kv-cache-memory-bytes" in text
    equal([said(i) for i in ({}, settings(), settings(gpu_memory_utilization=0.9))], [True, False, False])


@case("the warm-up of kernels gets no advice about the sampler's rows")
def kernels():
    def flags(*frames):
        stack = list(frames) + [("Worker.compile_or_warm_up_model", WORKER, 800), ("<module>", "/home/me/serve.py", 3)]
        found = verdicts(save([*STEP[:2], refused(4 * G, G, stack=stack)], settings(max_num_seqs=256)))[0]
        equal(found["scenario"], "warmup")
        return [a["flag"] for a in found["advice"]]
    equal(flags(("kernel_warmup", "/x/vllm/model_executor/warmup/kernel_warmup.py", 9)), ["--gpu-memory-utilization"])
    equal(flags(("GPUModelRunner._dummy_sampler_run", "/x/vllm/v1/worker/gpu_model_runner.py", 9)),
          ["--gpu-memory-utilization", "--max-num-seqs"])


# ---- the log beside it --------------------------------------------------------------------------

def log(text):
    path = scratch("log.txt", text)
    return "--log", path


@case("a trace in which nothing failed does not contradict a server that refused to start by itself")
def joined_without_failure():
    quiet = save([{"ptr": G, "bytes": G}])
    said = log("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
               "initializing the engine.\n")
    equal(names(verdicts(quiet, *said))[0], "no-room-for-kv-cache")
    for name in ("driver_mismatch", "host_memory"):  # of real programs
        (first, *_) = verdicts(quiet, "--log", os.path.join(ROOT, "tests/report/pytorch", name, "log.txt"))
        equal(first["scenario"], name.replace("_", "-"))
        check(first["confidence"] > 0.8, first)
    # A device that refused a request is not seen in this trace: another process, or another run.
    said = log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
               "79.11 GiB of which 1.00 GiB is free.\n")
    equal(names(verdicts(quiet, *said))[0], "none")


@case("where trace and log say the same, it is one verdict with the evidence of both, and surer")
def joined_same():
    path = save(STEP)
    alone = verdicts(path)[0]
    both = verdicts(path, *log('  File "/x/vllm/v1/worker/gpu_worker.py", line 1334, in execute_model\n'
                               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a "
                               "total capacity of 80.00 GiB of which 1.00 GiB is free.\n"))
    equal(names(both)[0], alone["scenario"])
    check(both[0]["confidence"] > alone["confidence"])
    check([e["text"] for e in both[0]["evidence"] if e["text"].startswith("the log: line ")])


@case("a log adds the process that its message names, and nothing of another device or of what the trace knows better")
def log_beside_trace():
    said = log(' File "/x/vllm/v1/worker/gpu_worker.py", line 9, in execute_model\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate '
               "4.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 40.00 "
               "GiB memory in use. Process 8194 has 39.00 GiB memory in use. Of the allocated memory 39.00 GiB is allocated by PyTorch.\n")
    others = [{"ptr": G, "bytes": 39 * G, "stack": LOAD, "t": 0}, reading(G, 40 * G), refused(4 * G, G, stack=SERVE, t=9)]
    found = verdicts(save(others), *said)[0]
    equal((found["scenario"], found["advice"][0]["text"]), ("co-tenant", "end process 8194, which held 39.00 GiB by the log"))
    retried = "[W1129 19:36:38 CUDACachingAllocator.cpp:3934] memory allocation failed with OOM on device %d while trying to allocate 37748736 bytes\n"
    quiet = save([{"ptr": G, "bytes": G}])
    equal([names(verdicts(quiet, *log(retried % gpu))) for gpu in (0, 1)], [["none", "recovered"], ["none"]])
    # Less free than wanted, in a process that NVML lists alone.
    wanted = log("ValueError: Free memory on device cuda:0 (78.9/80.0 GiB) on startup is less than desired GPU memory utilization (0.99, 79.2 GiB).\n")
    listed = [{"op": "process", "pid": 4711, "process_bytes": G, "flags": ["nvml"], "tid": 9}, {"ptr": G, "bytes": G}, reading(79 * G, G)]
    equal([names(verdicts(save(events, OTHERS), *wanted)) for events in (listed, listed[1:])],
          [["mis-budget", "none"], ["mis-budget", "co-tenant", "none"]])


@case("no KV cache is advised that holds nothing")
def nothing_left():
    for missing, is_advised in ((G, True), (9 * G, False)):
        found = verdicts(save([{"ptr": G, "bytes": 60 * G, "stack": LOAD}, {"ptr": 70 * G, "bytes": 10 * G, "stack": CACHE},
                               refused(missing + M, M, stack=[("f", "/x/f.py", 1), ("GPUModelRunner._dummy_sampler_run", WORKER, 5)])],
                              settings(kv_cache_memory_bytes=10 * G)))[0]
        equal("--kv-cache-memory-bytes" in [a["flag"] for a in found["advice"]], is_advised)
        check(is_advised or found["advice"][0]["text"].startswith("no smaller KV cache is enough"), found["advice"])


@case("where the weights alone are more than the budget, no smaller profile run is advised")
def budget_below_weights():
    start = ("INFO 05-14 09:30:00 [core.py:119] Initializing a V1 LLM engine (v0.33.0) with config: model='/m'\n"
             "INFO 05-14 09:30:01 [utils.py:9] non-default args: {{'gpu_memory_utilization': {}}}\n"
             "INFO 05-14 09:30:02 [gpu_model_runner.py:5061] Model loading took 40.00 GiB memory and 3.3 seconds\n"
             "INFO 05-14 09:30:03 [gpu_worker.py:500] Available KV cache memory: -1.00 GiB\n"
             "ValueError: No available memory for the cache blocks.\n")
    for share, is_advised in (("0.46", False), ("0.55", True)):
        found = verdicts(save([{"ptr": G, "bytes": G}]), *log(start.format(share)))[0]
        equal((found["scenario"], "--max-num-batched-tokens" in [a["flag"] for a in found["advice"]]), ("no-room-for-kv-cache", is_advised))


@case("a draft model's weights are no matter of the budget; a call of unknown size is none of 0 B")
def draft():
    loading = [("f", "/x/vllm/v1/spec_decode/eagle.py", 9), *LOAD[1:]]
    found = verdicts(save([{"ptr": G, "bytes": 70 * G, "stack": LOAD}, refused(2 * G, G, stack=loading)], settings(max_num_batched_tokens=8192)))[0]
    equal((found["scenario"], [a["flag"] for a in found["advice"] if a["flag"]]), ("speculative", ["--tensor-parallel-size"]))
    graph = {"api": "cudaGraphInstantiate", "result": 2, "free_bytes": M, "total_bytes": TOTAL, "stack": SERVE, "op": "alloc", "tid": 7}
    found = verdicts(save([{"ptr": G, "bytes": 79 * G, "stack": LOAD}, graph]))[0]
    equal(found["evidence"][0]["text"], "asked for an unknown size; 1.00 MiB was free")


@case("metrics: requests that were preempted, beside a trace in which nothing failed")
def joined_metrics():
    found = verdicts(save([{"ptr": G, "bytes": G}]), *log("".join(
        f"# scraped {1795000000 + second}\nvllm:kv_cache_usage_perc 0.99\n"
        f"vllm:num_preemptions_total {second * 7}\n"
        "vllm:num_requests_running 4\nvllm:num_requests_waiting 30\n" for second in range(5))))[0]
    equal(found["scenario"], "preemption")
    # How long a request is when it ends is not known here: four fill the cache now, and each still grows.
    equal((found["advice"][0]["flag"], found["advice"][0]["to"]), ("--max-num-seqs", None))
    check("fewer than 4 requests" in found["advice"][0]["text"] and "more than 8.4 times" in found["advice"][1]["text"], found["advice"])


# ---- the text -----------------------------------------------------------------------------------

@case("the summary names the first verdict and its first advice, at any width; explain of a trace has the evidence")
def shown():
    path = save(STEP, settings(gpu_memory_utilization=0.95))
    first = verdicts(path)[0]
    os.chdir(scratch())  # (the path is a line of its own, which cannot be broken)
    for columns in (80, 160):
        out = report("summary", os.path.basename(path), columns=columns)[1].decode()
        check(max(map(len, out.splitlines())) <= columns)
        words = re.sub(r"\s+", " ", out)
        check(f"verdict {first['scenario']}, {first['sureness']}: {first['summary']}" in words, words)
        check("change --gpu-memory-utilization 0.95 -> 0.91: make the KV cache smaller by 3.00 GiB" in words, words)
    quiet = report("summary", save([{"ptr": G, "bytes": G}]))[1].decode()
    check("  verdict  " not in quiet, quiet)


for each in sorted(os.listdir(VLLM)):
    case(f"{each}: the right scenario is the first")(lambda name=each: judge_scenario(Run(name)))
    if Run(each).case.get("metrics"):
        case(f"{each}: with the server's metrics it is the right scenario")(lambda name=each: judge_metrics(Run(name)))
    if Run(each).case.get("metrics") == "preemption":
        case(f"{each}: the advice fits the scrapes")(lambda name=each: judge_preemption(Run(name)))
    if Run(each).case.get("command"):
        case(f"{each}: advice begins at the value of the command line")(lambda name=each: judge_command(Run(name)))
    case(f"{each}: the evidence is of the request that failed")(lambda name=each: judge_evidence(Run(name)))
main()
