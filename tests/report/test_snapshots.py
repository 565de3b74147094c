#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`explain` of memory snapshots of PyTorch: those that real PyTorch wrote (snapshots/VERSION, by
tests/torch/allocator/test_explained.py), against what that process said of itself; random ones, against a model of the
allocator; traces exported and read back; and hostile files."""
import glob
import gzip
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import snapshots  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, dice, dumped, equal, main, read_json, read_view, report, sample, scratch  # noqa: E402

KEPT = sorted(glob.glob(os.path.join(HERE, "snapshots/*/*.pickle")))
MIB = 1 << 20
EVIL = "\x1b]0;x\x07\u202e\x9b31m\n\x00"


def save(name, data):
    return scratch(name, data if isinstance(data, bytes) else pickle.dumps(data, protocol=4))


def explain(path):
    return read_view("explain", path, codes=(0,))


@case("real PyTorch: pools, blocks and the scenario of each snapshot, at the end and at the failure")
def real():
    problems, versions = [], set()
    for path in KEPT:
        with open(path[:-len("pickle")] + "json", encoding="utf-8") as f:
            truth = json.load(f)
        versions.add(truth["torch"])
        problems += snapshots.compare(os.path.basename(path)[:-len(".pickle")], path, truth)
    check(len(versions) >= 2 and len(KEPT) >= 24, versions)
    return problems


# ---- a model of the allocator ------------------------------------------------------------------------------


class Model:
    """Segments and blocks of a device that change at random, with the history that PyTorch would write."""

    def __init__(self, rng, device):
        self.rng, self.device, self.next = rng, device, 0x7F0000000000 + device * (1 << 40)
        self.segments, self.history, self.time = {}, [], 1795000000000000 + device
        self.at_oom, self.peak = None, (0, 0, None)

    def note(self, action, address, size, stream, **more):
        self.time += self.rng.randrange(1, 1000)
        entry = {"action": action, "size": size, "stream": stream, "time_us": self.time, "frames": [], **more}
        entry["device_free" if action == "oom" else "addr"] = address
        self.history.append(entry)

    def add_segment(self):
        size, stream = self.rng.choice((2, 20, 20, 64)) * MIB, self.rng.choice((0, 0, 5))
        self.segments[self.next] = {"size": size, "stream": stream, "blocks": {}}
        self.note("segment_alloc", self.next, size, stream)
        self.next += size + self.rng.choice((0, 0, 2 * MIB))

    def gaps(self, start):
        segment, at = self.segments[start], start
        for address in sorted(segment["blocks"]):
            if address > at:
                yield at, address - at
            at = address + segment["blocks"][address]["size"]
        if at < start + segment["size"]:
            yield at, start + segment["size"] - at

    def alloc(self):
        start = self.rng.choice(list(self.segments))
        free = list(self.gaps(start))
        if not free:
            return
        address, room = self.rng.choice(free)
        size = min(room, 512 * self.rng.randrange(1, 20000))
        asked = size - self.rng.randrange(512)
        self.segments[start]["blocks"][address] = {"size": size, "asked": asked, "state": "active_allocated"}
        self.note("alloc", address, asked, self.segments[start]["stream"])

    def free(self):
        segment = self.segments[self.rng.choice(list(self.segments))]
        if not segment["blocks"]:
            return
        address = self.rng.choice(list(segment["blocks"]))
        block = segment["blocks"][address]
        if block["state"] == "active_allocated":
            self.note("free_requested", address, block["asked"], segment["stream"])
            block["state"] = "active_pending_free"
        if self.rng.random() < 0.8:
            self.note("free_completed", address, block["asked"], segment["stream"])
            del segment["blocks"][address]

    def release(self):
        for start in [s for s, g in self.segments.items() if not g["blocks"]][:1]:
            self.note("segment_free", start, self.segments[start]["size"], self.segments[start]["stream"])
            del self.segments[start]

    def figures(self):
        free = [size for start in self.segments for _, size in self.gaps(start)]
        blocks = [b for g in self.segments.values() for b in g["blocks"].values()]
        allocated = [b for b in blocks if b["state"] == "active_allocated"]
        return {"reserved": sum(g["size"] for g in self.segments.values()), "segments": len(self.segments),
                "allocated": sum(b["size"] for b in allocated), "active": sum(b["size"] for b in blocks),
                "requested": sum(b["asked"] for b in allocated), "free": (sum(free), len(free), max(free, default=0))}

    def oom(self):
        size, stream = 512 * self.rng.randrange(1 << 11, 1 << 18), self.rng.choice((0, 5))
        mine = [n for start, g in self.segments.items() if g["stream"] == stream and g["size"] > 2 * MIB for _, n in self.gaps(start)]
        self.at_oom = (self.time, len(self.history), size, self.figures(), (sum(mine), len(mine), max(mine, default=0)))
        self.note("oom", 12345 * 512, size, stream)

    def work(self, steps, ooms=0.2):
        self.ooms = ooms
        self.add_segment()
        for _ in range(steps):
            if not self.segments or self.rng.random() < 0.05:
                self.add_segment()
            self.rng.choices((self.alloc, self.free, self.release, self.oom), (8, 6, 1, self.ooms))[0]()
            figures = self.figures()
            if figures["active"] > self.peak[0]:  # the first time that it is so high
                self.peak = figures["active"], len(self.history), figures

    def segment_list(self):
        for start in sorted(self.segments):
            g = self.segments[start]
            parts = {a: (n, 0, "inactive") for a, n in self.gaps(start)}
            parts.update({a: (b["size"], b["asked"], b["state"]) for a, b in g["blocks"].items()})
            yield {"device": self.device, "address": start, "total_size": g["size"], "stream": g["stream"],
                   "segment_type": "large" if g["size"] > 2 * MIB else "small", "segment_pool_id": (0, 0), "is_expandable": False,
                   "frames": [], "blocks": [{"address": a, "size": n, "requested_size": r, "state": s, "frames": []}
                                            for a, (n, r, s) in sorted(parts.items())]}


@case("random histories: the pool just before the last failure, at the peak and at the end, as the model had it, in each protocol")
def histories():
    undone = failures = peaks = 0
    for seed in range(400 if FULL else 60):
        rng = dice(seed)
        models = [Model(rng, device) for device in range(1 + seed % 3)]
        for model in models:
            model.work(rng.choice((20, 200, 600)), 0.2 if seed % 4 else 0)
        data = pickle.dumps({"segments": [s for m in models for s in m.segment_list()], "device_traces": [m.history for m in models]},
                            protocol=2 + seed % 4)
        got = explain(save("random.pickle", data))["snapshot"]
        equal({d["ordinal"]: snapshots.pool_of(d["end"]) for d in got["devices"]}, {m.device: m.figures() for m in models}, seed)
        equal((got["entries"], got["ooms"]), (sum(len(m.history) for m in models),
                                              sum(e["action"] == "oom" for m in models for e in m.history)))
        failed = [m for m in models if m.at_oom]
        equal(got["oom"] is not None, bool(failed))
        if failed:
            last = max(failed, key=lambda m: m.at_oom[0])
            _, entry, size, figures, usable = last.at_oom
            equal((got["oom"]["ordinal"], got["oom"]["entry"], got["oom"]["asked_bytes"], got["oom"]["free_bytes"]),
                  (last.device, entry, size, 12345 * 512))
            equal(snapshots.pool_of(got["oom"]["pool"]), figures, seed)
            equal((got["oom"]["usable"]["bytes"], got["oom"]["usable"]["blocks"], got["oom"]["usable"]["largest_bytes"]), usable, seed)
            undone += got["oom"]["pool"]["undone_entries"]
            failures += 1
        else:
            highest = max(models, key=lambda m: m.peak[0])  # (the first of several)
            if highest.peak[0]:
                equal((got["peak"]["ordinal"], got["peak"]["entry"]), (highest.device, highest.peak[1]), seed)
                equal(snapshots.pool_of(got["peak"]["pool"]), highest.peak[2], seed)
                peaks += got["peak"]["pool"]["undone_entries"] > 0
        equal(got["peak"] is None, bool(failed), seed)
    check(undone > 1000 and failures > 20 and peaks > 5, (undone, failures, peaks))


# ---- traces, exported and read back ------------------------------------------------------------------------

# What each run of real vLLM was, where PyTorch's allocator has what decides: by the phase of the request that failed.
PHASES = {"load_model": "startup-weights", "process_weights_after_loading": "repack", "profile_run": "startup-profile",
          "initialize_kv_cache": "startup-kv-pool", "capture_model": "graph-capture", "_dummy_sampler_run": "warmup",
          "warmup_kernels": "warmup",
          "wake_up": "sleep-wake", "execute_model": "burst-prefill", "sample_tokens": "logits", "determine_available_memory": "none",
          "init_device": "none", "update_weights": "weight-sync"}
COMPONENTS = {"vision encoder": "multimodal"}


def has_refusal(trace):
    """Of a block. (Not by report(), which validates each line, nor by dumped(), as bombs() looks at this process's memory.)"""
    done = subprocess.run([REPORT, "dump", "--json", "--sysroot=/nowhere", trace], stdout=subprocess.PIPE, check=False)
    return b'"op":"block-oom"' in done.stdout


@case("exported traces of real vLLM: the scenario that the phase of the failed request is, none where none failed")
def exported():
    problems, by_want = [], {}
    for trace in sorted(glob.glob(os.path.join(HERE, "vllm/*/trace*.zst"))):
        with open(os.path.join(os.path.dirname(trace), "case.json"), encoding="utf-8") as f:
            run = json.load(f)
        want = "unknown" if run["error"] else "none"
        if run["processes"] > 1 and not has_refusal(trace):
            want = "none"  # another one of the run's processes failed
        elif run["phase"]:
            want = COMPONENTS.get(run["component"]) or PHASES[run["phase"]]
        by_want.setdefault(want, []).append(trace)
    check(len(by_want) >= 9, by_want)
    for want, trace in [(want, trace) for want, traces_ in by_want.items() for trace in sample(traces_, 1)]:
        out = scratch("exported.pickle")
        code, said, error = report("export", "--format=torch", "--json", "--force", "-o", out, trace)
        check(code in (0, 4), error)
        document = explain(out)
        first = document["verdicts"][0]
        if first["scenario"] != want:
            problems.append(f"{trace}: {first['scenario']}, not {want}")
        snapshot, said = document["snapshot"], json.loads(said)
        equal((snapshot["by_cutrace"], snapshot["entries"]), (True, said["entries"]))
        equal(snapshot["oom"] is None, said["oom_event"] is None)
        for d in snapshot["devices"]:
            shown, = [m for m in said["devices"] if m["ordinal"] == d["ordinal"]]
            equal(d["end"]["reserved_bytes"], shown["segment_bytes"], trace)
            equal(d["end"]["allocated_bytes"], shown["block_bytes"] + shown["segment_bytes"] - shown["torch_segment_bytes"], trace)
    return problems


@case("exported golden traces: the request that failed has the size and the stack that the trace has")
def golden():
    failed = 0
    for trace in sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst"))):
        out = scratch("golden.pickle")
        code, said, _ = report("export", "--format=torch", "--json", "--force", "-o", out, trace)
        if code not in (0, 4):
            continue
        said, snapshot = json.loads(said), explain(out)["snapshot"]
        equal(snapshot["oom"] is None, said["oom_event"] is None, trace)
        if snapshot["oom"]:
            event, = [e for e in dumped(trace) if e["event"] == said["oom_event"]]
            equal(snapshot["oom"]["asked_bytes"], event["bytes"], trace)
            failed += 1
    check(failed >= 3, failed)


# ---- hostile files -----------------------------------------------------------------------------------------


def refused(data, *words):
    """Exit code 3 and one line, which has these words."""
    code, out, said = report("explain", save("hostile", data))
    said = said.decode()
    equal((code, out, said.count("\n")), (3, b"", 1), f"{data[:60]!r}: {said}")
    for word in words:
        check(word in said, said)


class Runs:
    def __init__(self, *how):
        self.how = how

    def __reduce__(self):
        return self.how


@case("a pickle that names a class or calls a function is refused, and nothing is called")
def objects():
    marker = scratch("was.run")
    for protocol in range(2, 6):
        for how in ((os.system, ("touch " + marker,)), (eval, ("1",)), (getattr, ("x", "upper"))):
            data = pickle.dumps({"segments": [Runs(*how)], "device_traces": []}, protocol=protocol)
            refused(data, "names a class")
        refused(pickle.dumps({"segments": {1, 2}}, protocol=protocol), "no memory snapshot" if protocol > 3 else "class")
        refused(pickle.dumps(io.BytesIO(b""), protocol=protocol), "class")
    check(not os.path.exists(marker), "it was run")
    for code in b"cRbioPQ\x81\x82\x83\x84\x92\x93\x97\x98":
        refused(b"\x80\x02" + bytes([code]) + b"os\nsystem\n\0\0\0\0.", "names a class")


@case("a pickle that is cut anywhere, or ends too early, is refused; so is one of no snapshot")
def cut():
    with open(KEPT[0], "rb") as f:
        whole = f.read()
    for n in dice(1).sample(range(2, len(whole)), 40):
        refused(whole[:n])
    for value in ([], 7, "x", {}, {"segments": 5}, {"segments": [], "device_traces": 5}, {"segments": None}, {1: 2}, ((), {})):
        refused(pickle.dumps(value, protocol=2), "no memory snapshot")
    refused(b"\x80\x02\x80\x06K\x01.", "protocol")


@case("malformed pickles are refused: stack, marks, memo, lengths, integers")
def malformed():
    u32, u64 = struct.Struct("<I").pack, struct.Struct("<Q").pack
    for body in (b".", b"(.", b"K\x01K\x02.", b"s.", b"}s.", b"}K\x01s.", b"u.", b"e.", b"(e.", b"K\x01(e.", b"a.", b"K\x01K\x02a.", b"t.",
                 b"\x85.", b"\x87.", b"(K\x01d.", b"}(K\x01u.", b"h\x05.", b"j" + u32(1 << 31) + b".", b"q\x00.", b"]r" + u32(0xFFFFFFFF) + b".",
                 b"X" + u32(0xFFFFFFFF) + b"x.", b"\x8d" + u64(1 << 63) + b"x.", b"\x8e" + u64(2**64 - 1) + b".", b"C\xff.",
                 b"\x8a\x14" + b"\x01" * 20 + b".", b"\x8b" + u32(0xFFFFFFFF) + b".", b"\x8a\x09" + b"\xff" * 9 + b".", b"G1234567",
                 b"\x95" + b"\xff" * 7, b"(" * 1000 + b".", b"", b"\xff.", b"\x00.", b"I1\n."):
        refused(b"\x80\x02" + body)


@case("numbers at their limits, wrong types and names in themselves: an answer, and all of it harmless")
def limits():
    huge = (0, -1, 1 << 62, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 512, True, None, 1.5, "7", [], {})
    rng = dice(2)
    for _ in range(400 if FULL else 150):
        def value(rng=rng):
            return rng.choice(huge)
        blocks = [{"address": value(), "size": value(), "requested_size": value(), "state": rng.choice(("active_allocated", "inactive", 3)),
                   "frames": rng.choice(([], None, [5], [{"name": EVIL, "filename": EVIL + ".py", "line": value()}]))} for _ in range(3)]
        segments = [{"device": value(), "address": value(), "total_size": value(), "stream": value(), "segment_type": value(),
                     "segment_pool_id": rng.choice(((0, 0), (), None, 5)), "is_expandable": value(), "blocks": rng.choice((blocks, None, 5))}
                    for _ in range(3)]
        actions = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", 5)
        trace = [{"action": rng.choice(actions), "addr": value(), "device_free": value(), "size": value(), "stream": value(),
                  "time_us": value(), "frames": []} for _ in range(8)]
        path = save("limits", {"segments": segments, "device_traces": [trace, 5, None], "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": EVIL, "max_split_size": value(), "expandable_segments": value()}})
        code, out, said = report("explain", path)
        equal((code, said), (0, b""))
        check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out.decode()), out)
        explain(path)
    itself = {"segments": [], "device_traces": [[]]}
    itself["segments"].append(itself["segments"])
    itself["device_traces"].append(itself["device_traces"])
    itself["device_traces"][0].append(itself)
    explain(save("itself", itself))


@case("lists that name the same parts again and again, and bytes that make many values: bounded time and memory")
def bombs():
    blocks = [{"address": i * 512, "size": 512} for i in range(20000)]
    refused(pickle.dumps({"segments": [{"blocks": blocks}] + [{"blocks": blocks}] * 20000}, protocol=4), "again and again")
    entry = {"action": "alloc", **{str(i): i for i in range(5000)}}
    refused(pickle.dumps({"segments": [], "device_traces": [[entry] * 100000]}, protocol=4), "again and again")
    frames = [{"name": "f", "filename": "x.py", "line": i} for i in range(50000)]
    segments = [{"blocks": [{"address": i * 512, "size": 512, "frames": frames} for i in range(5000)], "address": 0, "total_size": 1 << 30}]
    explain(save("frames", {"segments": segments, "device_traces": []}))
    for data in (b"]" * (4 << 20), b"}" * (4 << 20), b"N" * (4 << 20), b"]q\x00" + b"h\x00" * (2 << 20), b"](" + b"]" * (4 << 20) + b"e",
                 b"\x94".join([b"K\x01"] * (1 << 20))):
        with subprocess.Popen([REPORT, "explain", save("bomb", b"\x80\x02" + data)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            said = p.stderr.read()
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        equal((p.returncode, said.count(b"\n")), (3, 1), said)
        check(usage.ru_maxrss < 80 * len(data) / 1024 + 50000, (data[:4], usage.ru_maxrss))


@case("explain of a trace has the verdicts of its summary, all of them, also of one without its end")
def traces():
    paths = sample(sorted(glob.glob(os.path.join(HERE, "vllm/*/trace.zst"))), 3) + sample(sorted(glob.glob(
        os.path.join(ROOT, "tests/report/golden/traces/*.zst"))), 10)
    for path in paths:
        code, out, _ = report("summary", "--json", path)
        explained = report("explain", "--json", path)
        equal(explained[0], code, path)
        if code not in (0, 4):
            continue
        summary, document = json.loads(out), json.loads(explained[1])
        equal(document["schema"], "cutrace.explain/2")
        for key in document.keys() - {"schema"}:
            equal(document[key], summary[key], f"{path}: {key}")
        text = report("explain", path)[1].decode()
        if summary["verdicts"]:
            check(f"({summary['verdicts'][0]['scenario']}" in text, text)
    with open(paths[0], "rb") as f:
        path = save("cut.zst", f.read()[:-2000])
    equal([report(view, path)[0] for view in ("summary", "explain")], [4, 4])


# ---- what a file is ----------------------------------------------------------------------------------------


@case("explain of a trace names the command for what changed since the start-up: its parts add up to nothing")
def difference():
    grew = {"leak": "other", "neighbour": "others", "ballast": "other", "load-model": None}  # as serve.py had it do
    for name, part in grew.items():
        path = os.path.join(HERE, "vllm", name, "trace.zst")
        said = re.search(r"^since the start-up: cutrace-report (diff .*)$", report("explain", path)[1].decode(), re.M)
        equal(bool(said), part is not None, name)  # (it failed within the start-up)
        if not said:
            continue
        (device,) = json.loads(report(*said[1].split(), "--json")[1])["devices"]
        changes = {row["component"]: row["change_bytes"] for row in device["account"]}
        equal(sum(changes.values()), 0, name)
        equal(max(changes, key=changes.get), part, name)
        check(changes["free"] < -(1 << 30), changes)
        if name == "leak":  # rounds of 96 MiB
            kept = [row["change_bytes"] for row in device["sites"] if row["b"] and row["b"]["site"].startswith("serve.py")]
            equal([n % (96 << 20) for n in kept], [0], kept)


@case("what explain is given, it tells by its first bytes: each other kind gets one line that says what to do")
def kinds():
    trace = os.path.join(ROOT, "tests/report/golden/traces/refused.zst")
    with open(trace, "rb") as f:
        bytes_of_trace = f.read()
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("log", text)
    with open(REPORT, "rb") as f:
        program = f.read(8192)
    for data, word in ((gzip.compress(text.encode()), "zcat"), (archive.getvalue(), "zip"),
                       (b"\x28\xb5\x2f\xfd" + bytes(50), "zstd -dc"), (text.encode("utf-16"), "iconv"), (program, "program"),
                       (dice(1).randbytes(5000), "neither"), (bytes(4096), "neither"),
                       (b"CUTRJRNL" + bytes(4096), "name the trace")):
        refused(data, word)
    code, out, _ = report("explain", "-", data=bytes_of_trace)
    check(code == 0 and b"evidence" in out, (code, out))
    code, _, said = report("explain", scratch())
    equal((code, said.count(b"\n")), (3, 1), said)
    for data in (text.encode(), text.encode() + b"\xe9\xe8\xff" * 10, ("\u4e2d\u6587" * 50 + text).encode(), b"\x80", b""):
        explain(save("text", data))
    for path in KEPT[:2]:
        with open(path, "rb") as f:
            code, out, _ = report("explain", "--json", "-", data=f.read())
        equal({**json.loads(out), "file": path}, explain(path))
    several = json.loads(read_json("explain", KEPT[0], save("log.txt", text.encode())))["documents"]
    equal([d["snapshot"] is None for d in several], [False, True])
    equal([d["log"] is None for d in several], [True, False])


main()
