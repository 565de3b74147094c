#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verdicts and accounts over several traces: the ranks of a job, on one device or several, on one host or two.

The truth is a ledger that is kept while the traces are written: who holds how much of each device at any time. What the
traces of two hosts show at one moment is computed a second time by lib/make_checkpoint.State. Of real vLLM it is the log."""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import whole_trace  # noqa: E402
from make_checkpoint import state_at  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import ROOT, case, check, equal, main, read_json, report, scratch  # noqa: E402

VLLM = os.path.join(ROOT, "tests/report/vllm")
M, G, S = 1 << 20, 1 << 30, 10**9
TOTAL, CONTEXT = 80 * G, 500 * M
BOOT = 1795000000 * S  # time of day at which the first host's clock was 0
WORKER = "/x/vllm/v1/worker/gpu_worker.py"
LINEAR = ("f", "/x/vllm/model_executor/layers/linear.py", 9)
LOAD = [LINEAR, ("Worker.load_model", WORKER, 594), ("<module>", "/me/serve.py", 3)]
CACHE = [("allocate_kv_cache", "/x/vllm/v1/worker/utils.py", 596), ("Worker.initialize_from_config", WORKER, 700),
         ("<module>", "/me/serve.py", 3)]
SERVE = [LINEAR, ("Worker.execute_model", WORKER, 1334), ("<module>", "/me/serve.py", 9)]


class Device:
    """held: bytes by holder, of everyone's memory; the ledger."""

    def __init__(self, uuid):
        self.uuid, self.held = uuid, {}

    def free(self):
        return TOTAL - sum(self.held.values())


class Rank:
    """A process on one device, whose calls and readings are those of the ledger."""

    def __init__(self, number, device, pid=None, ppid=77, boot=BOOT, host="cafe", ranked=True, **info):
        self.number, self.device, self.pid, self.offset = number, device, pid or 1000 + number, boot
        self.trace, self.next = Trace(trace_id=0x9000 + self.pid), 0x7F0000000000
        self.tracked = 0
        self.trace.info = {
            "process.pid": str(self.pid), "process.ppid": str(ppid), "process.exe": "worker",
            "process.start_ns": str(40 * S),
            "clock.monotonic_ns": str(50 * S), "clock.realtime_ns": str(boot + 50 * S), "host.name_hash": host,
            "device.0.total_bytes": str(TOTAL), "device.0.meminfo_total_bytes": str(TOTAL)}
        if device.uuid is not None:
            self.trace.info["device.0.uuid_hash"] = "%016x" % device.uuid
        if ranked:
            self.trace.info.update({"process.env.RANK": str(number), "process.env.WORLD_SIZE": "4"})
        self.trace.info.update(info)

    def begin(self, t):
        before = self.device.free()
        self.device.held[self, "context"] = CONTEXT
        self.trace.event("context-create", int(t * S), api="cuDevicePrimaryCtxRetain", device=0, context=7, result=0,
                         free_before_bytes=before, free_bytes=self.device.free(), total_bytes=TOTAL)
        return self

    def take(self, t, size, stack=None):
        self.next += 4 * TOTAL
        self.tracked += size
        self.device.held[self, "tracked"] = self.tracked
        more = {"stack": stack} if stack else {}
        self.trace.event("alloc", int(t * S), api="cuMemAlloc_v2", device=0, ptr=self.next, bytes=size, space="device",
                         result=0, context=7, **more)
        return self

    def read(self, t):
        self.trace.event("memory-sample", int(t * S), tid=9, device=0, flags=["nvml"], free_bytes=self.device.free(),
                         total_bytes=TOTAL, process_bytes=self.tracked + CONTEXT)
        return self

    def fail(self, t, size, stack=None):
        more = {"stack": stack} if stack else {}
        self.trace.event("alloc", int(t * S), api="cudaMalloc", device=0, bytes=size, space="device", result=2,
                         context=7, free_bytes=self.device.free(), total_bytes=TOTAL, **more)
        return self

    def note(self, t):
        self.trace.event("note", int(t * S), text="the end")
        return self

    def die(self):
        for key in [k for k in self.device.held if k[0] is self]:
            del self.device.held[key]

    def save(self, name):
        return self.trace.save(scratch("%s-%d.zst" % (name, self.number)))


def together(*arguments, command="summary"):
    """The documents of the traces, and that of all of them."""
    code, out, err = report(command, "--json", *arguments)
    check(code == 0 and not err, (code, err))
    said = json.loads(out)
    return said["documents"], said["processes"]


def text_of(*arguments, command="summary", columns=80):
    os.chdir(scratch())
    code, out, _ = report(command, *arguments, columns=columns)
    equal(code, 0)
    return out.decode()


def flat(text):
    return " ".join(text.split())


def rows_of(account):
    equal(sum(r["bytes"] for r in account["rows"]), account["capacity_bytes"], account)
    return {r["component"]: r["bytes"] for r in account["rows"]}


def names(verdicts):
    return [v["scenario"] for v in verdicts]


def said(verdict):
    return [e["text"] for e in verdict["evidence"]]


# ---- two ranks on one device ---------------------------------------------------------------------

def pair(name, stranger=0, ask=30 * G, sibling=50 * G, kin=None, also=None):
    """Rank 1 holds memory of the device, and rank 0 fails. Returns paths and the free bytes at the failure."""
    device = Device(0xAB << 48)
    device.held["stranger"] = stranger
    other = Rank(1, device, **{**(kin or {}), **(also or {})}).begin(60).take(61, sibling, CACHE).read(62)
    one = Rank(0, device, **(kin or {})).begin(62.5).take(63, 8 * G, LOAD).read(64)
    one.fail(65, ask, SERVE).read(65.1)
    free = device.free()
    other.note(66)
    one.note(66)
    return [one.save(name), other.save(name)], free


@case("another trace of the same device is a sibling: named with its bytes, and no co-tenant; alone it is a stranger")
def sibling():
    paths, free = pair("pair")
    alone = json.loads(read_json("summary", "--sysroot=/nowhere", paths[0]))
    equal(alone["verdicts"][0]["scenario"], "co-tenant")
    check("whether they are of the same job is not known" in said(alone["verdicts"][0]), said(alone["verdicts"][0]))
    (one, _), document = together(*paths)
    for verdicts in (one["verdicts"], document["verdicts"]):
        equal(names(verdicts), ["burst-prefill"])
        (held,) = [e for e in verdicts[0]["evidence"] if e["text"].startswith("rank 1 (pid 1001) held ")]
        equal((held["bytes"], held["text"].endswith(" of the device, of the same job")), (50 * G + CONTEXT, True), held)
    equal(document["verdicts"][0]["process_indexes"], [0])
    rows = rows_of(one["devices"][0]["account"]["crossing"])
    equal((rows["siblings"], rows.get("others", 0), rows["free"]), (50 * G + CONTEXT, 0, free))
    equal(rows["siblings"], one["devices"][0]["memory"]["crossing"]["other_processes_bytes"])
    (gpu,) = document["gpus"]
    rows = rows_of(gpu["account"])
    equal(gpu["account"]["capacity_bytes"], TOTAL)
    equal((rows["kv-cache"], rows["weights"], rows["free"]), (50 * G, 8 * G, free))
    equal(rows["contexts"] + rows.get("unmeasured", 0), 2 * CONTEXT)
    check("rank 1 (pid 1001) held" in flat(text_of(*paths, command="explain")))
    check("other processes held 50.49 GiB, of that traced ones 50.49 GiB" in flat(text_of(*paths)), text_of(*paths))
    (device,) = document["processes"][1]["devices"]
    equal(device["tracked_bytes"] + device["untracked_bytes"], 50 * G + CONTEXT)


@case("what is left of others without the siblings is of strangers: co-tenant for their bytes alone")
def strangers():
    paths, free = pair("strangers", stranger=10 * G, ask=15 * G)
    (one, _), document = together(*paths)
    for verdicts in (one["verdicts"], document["verdicts"]):
        first = verdicts[0]
        equal(first["scenario"], "co-tenant")
        (others,) = [e["bytes"] for e in first["evidence"] if "and the driver hold, by NVML" in e["text"]]
        equal(others, 10 * G)
        check("that is without what the other traced processes held" in said(first), said(first))
        check("whether they are of the same job is not known" in said(first), said(first))
    equal(rows_of(document["gpus"][0]["account"])["others"], 10 * G)
    equal(rows_of(one["devices"][0]["account"]["crossing"])["siblings"], 50 * G + CONTEXT)
    # What strangers hold would not have been enough without the sibling's: they are no cause.
    paths, free = pair("few", stranger=5 * G, ask=50 * G)
    check(5 * G < 50 * G - free < 50 * G)
    equal(names(together(*paths)[1]["verdicts"]), ["burst-prefill"])
    equal(names(json.loads(read_json("summary", paths[0]))["verdicts"]), ["co-tenant", "burst-prefill"])


@case("of the same job is what traces prove: ranks of one parent, parent and child, vLLM's workers; else it is unknown")
def jobs():
    server = {"process.program": "vllm", "process.program.from": "parent"}
    for name, kin, also, same in (
            ("ranks", {}, {}, True),
            ("parents", {}, {"ppid": 78}, False),
            ("child", {"ranked": False}, {"ppid": 1000}, True),
            ("shell", {"ranked": False}, {}, False),
            ("server", {"ranked": False, **server}, {}, True),
            ("servers", {"ranked": False, **server, "process.program.from": "self"}, {}, False),
            ("init", {"ppid": 1}, {}, False),
            ("worlds", {}, {"process.env.WORLD_SIZE": "8"}, False),
            ("containers", {"host.boot_hash": "77"}, {"host": "beef"}, False),
            ("fork", {"ranked": False, "ppid": 5}, {"ppid": 6, "process.parent_trace": "%x" % 0x93E8}, True),
            # PID namespaces: numbers of one are not compared with those of another one, where both are known.
            ("pods", {"process.pid_namespace_hash": "aa"}, {"process.pid_namespace_hash": "bb"}, False),
            ("pod", {"process.pid_namespace_hash": "aa"}, {"process.pid_namespace_hash": "aa"}, True),
            ("half a pod", {}, {"process.pid_namespace_hash": "aa"}, True),
            ("pods of hosts", {"host.boot_hash": "77"}, {"process.pid_namespace_hash": "aa", "host": "beef"}, False),
            ("pods' child", {"ranked": False, "process.pid_namespace_hash": "aa"},
             {"ppid": 1000, "process.pid_namespace_hash": "bb"}, False),
            ("pods' workers", {"ranked": False, **server, "process.pid_namespace_hash": "aa"},
             {"process.pid_namespace_hash": "bb"}, False),
            ("fork into a pod", {"ranked": False, "ppid": 5, "process.pid_namespace_hash": "aa"},
             {"ppid": 0, "process.pid_namespace_hash": "bb", "process.parent_trace": "%x" % 0x93E8}, True),
            ("a number used again", {"ranked": False}, {"ppid": 1000, "process.start_ns": str(30 * S)}, False)):
        paths, _ = pair("job-" + name, kin=kin, also=also)
        _, document = together(*paths)
        equal([p["job_index"] for p in document["processes"]], [0, 0] if same else [None, None], name)
        held = [t for t in said(document["verdicts"][0]) if "pid 1001" in t]
        equal(len(held), 1, (name, said(document["verdicts"][0])))
        held = held[0]
        equal("of the same job" in held and "not known" not in held, same, held)
        equal("another traced process" in held, not same, held)
    paths = sorted(glob.glob(os.path.join(VLLM, "tensor-parallel/*.zst")))
    equal([p["job_index"] for p in together(*paths)[1]["processes"]], [0, 0])
    paths = sorted(glob.glob(os.path.join(VLLM, "weight-update/*.zst")))
    equal([p["job_index"] for p in together(*paths)[1]["processes"]], [0, 0])


def copies(name, readers=(0, 1), also=None):
    """One process with two traces, each of which tracks a part of it, and a rank that failed on the same device."""
    device = Device(0xAD << 48)
    process = {"process.nvml_pids": "own", **(also or {})}
    a = Rank(1, device, **process).begin(60).take(61, 30 * G, CACHE)
    b = Rank(2, device, pid=a.pid, **{**process, "process.env.RANK": "1", "process.start_ns": str(40 * S + 777)})
    b.trace.trace_id += 0x1000
    b.take(61.5, 12 * G, LOAD)
    one = Rank(0, device).begin(62).take(62.5, 8 * G, LOAD)
    for rank, t in [((a, 63), (b, 63.1))[i] for i in readers]:  # NVML knows nothing of traces: it reports what the process holds
        rank.trace.event("memory-sample", int(t * S), tid=9, device=0, flags=["nvml"], free_bytes=device.free(), total_bytes=TOTAL,
                         process_bytes=42 * G + CONTEXT)
    one.read(64).fail(65, 40 * G, SERVE).read(65.1)
    a.note(66)
    b.note(66)
    return [one.save(name), a.save(name), b.save(name)]


@case("two traces of one process are one process: neither siblings nor ranks, and what it holds counts once")
def one_process():
    paths = copies("copies")
    documents, document = together(*paths)
    processes, (gpu,) = document["processes"], document["gpus"]
    equal([p["same_process"] for p in processes], [None, None, 1])
    equal([p["job_index"] for p in processes], [0, 0, 0], "each is a rank beside rank 0")
    equal([p["devices"][0]["untracked_bytes"] for p in processes], [CONTEXT, CONTEXT, 0])
    equal((gpu["process_count"], gpu["tracked_bytes"], gpu["untracked_bytes"], gpu["other_processes_bytes"]),
          (2, 50 * G, 2 * CONTEXT, 0))
    rows_of(gpu["account"])
    # For rank 0 the other one is one sibling, with all that it holds.
    equal(rows_of(documents[0]["devices"][0]["account"]["crossing"])["siblings"], 42 * G + CONTEXT)
    held = [t for t in said(document["verdicts"][0]) if "rank 1" in t]
    check(len(held) == 1 and " held 42.49 GiB of the device, of the same job" in held[0], held)
    for reader in (0, 1):
        (first, *_), _ = together(*copies("read-by-one", [reader]))
        equal(rows_of(first["devices"][0]["account"]["crossing"])["siblings"], 42 * G + CONTEXT, reader)
    # Alone they are no job, and nobody's siblings.
    of_server = copies("of-server", also={"process.program": "vllm", "process.program.from": "parent"})
    equal([p["job_index"] for p in together(*of_server[1:])[1]["processes"]], [None, None])
    documents, document = together(*paths[1:])
    equal([(p["same_process"], p["job_index"]) for p in document["processes"]], [(None, None), (0, None)])
    for d in documents:
        check("siblings" not in rows_of(d["devices"][0]["account"]["end"]), d["devices"][0]["account"]["end"])
    check("rank 1 (pid 1001) is one process with 2 traces: what it does not track is in the first one's row"
          in flat(text_of(*paths[1:])), text_of(*paths[1:]))
    check("is one process" not in text_of(*paths[:2]), "two processes")
    log = scratch("copies.log", "(Worker_TP1 pid=1001) INFO 11-25 10:00:00 [x.py:1] hello\n" * 3)
    (part,) = [p for p in together(*paths, "--log", log)[1]["log_lines"] if p["lines"]]
    equal((part["by"], part["process_index"]), ("tag", 1), "its lines are no other process's")


@case("a process that failed in two of its traces is one of those that ran out of memory, and one of those with the verdict")
def failed_twice():
    device, own = Device(0xAD << 48), {"process.nvml_pids": "own"}
    a = Rank(1, device, **own).begin(60).take(61, 30 * G, CACHE)
    b = Rank(2, device, pid=a.pid, **own, **{"process.env.RANK": "1"}).take(61.5, 10 * G, LOAD)
    b.trace.trace_id += 0x1000
    one, other = (Rank(n, Device((0xB0 + n) << 48)).begin(62).take(62.5, 70 * G, CACHE) for n in (0, 3))
    for rank, t in ((b, 64), (a, 65), (one, 66)):
        rank.trace.event("memory-sample", int((t - 0.5) * S), tid=9, device=0, flags=["nvml"], free_bytes=rank.device.free(),
                         total_bytes=TOTAL, process_bytes=TOTAL - rank.device.free())  # of all traces of the process
        rank.fail(t, 60 * G, SERVE)
    other.note(67)
    paths = [rank.save("twice") for rank in (one, a, b, other)]
    said = flat(text_of(*paths))
    check("2 of 3 ran out of memory; first: rank 1 (pid 1001), at 11:07:44Z" in said, said)
    two = flat(text_of(*paths[1:]))
    check("ran out of memory; first" not in two and "OUT OF MEMORY: rank 1" in two, two)
    for command in ("summary", "explain"):
        said = flat(text_of(*paths, command=command))
        named = re.findall(r"(\d) of (\d) processes: ([^:;]*\))", said)
        check(not any(names.count("pid 1001") > 1 or int(of) != 3 for _, of, names in named), said)
        check("rank 1 (pid 1001), rank 1" not in said, said)
    verdict = together(*paths)[1]["verdicts"][0]
    equal(sorted(verdict["process_indexes"]), [0, 1, 2], said)


def replaced(name, images, dead=True):
    """A process that executes another program: what the first one held is gone. Then a sibling on the device fails."""
    device, own = Device(0xAF << 48), {"process.nvml_pids": "own"}
    facts = [{"process.image_hash": i} if i else {} for i in images]
    a = Rank(1, device, **own, **facts[0]).begin(60).take(61, 30 * G, CACHE).read(62)
    a.note(63)
    if dead:
        a.die()
        device.held["stranger"] = 25 * G  # what is gone would still fit
    b = Rank(2, device, pid=a.pid, **own, **facts[1], **{"process.env.RANK": "1"})
    b.trace.trace_id += 0x1000
    b.begin(64).take(64.5, 10 * G, LOAD)
    b.trace.event("memory-sample", 65 * S, tid=9, device=0, flags=["nvml"], free_bytes=device.free(), total_bytes=TOTAL,
                  process_bytes=TOTAL - device.free() - device.held.get("stranger", 0))
    one = Rank(0, device).begin(66).take(66.5, 20 * G, LOAD).read(67).fail(68, 70 * G, SERVE)
    b.note(70)
    return [one.save(name), a.save(name), b.save(name)]


@case("a process that executed another program: one process, and what its first program held is gone")
def executed():
    paths = replaced("executed", ("aa", "bb"))
    for order in (paths, paths[::-1]):
        documents, document = together(*order)
        by = {p["file"].rsplit("/", 1)[-1]: p for p in document["processes"]}
        first, second = by["executed-1.zst"], by["executed-2.zst"]
        equal((first["knowledge"], second["knowledge"]), ("ended", "known"))
        equal([p["same_process"] is None for p in (first, second)], [order is paths, order is not paths])
        (gpu,) = document["gpus"]
        equal((gpu["process_count"], gpu["tracked_bytes"], gpu["untracked_bytes"], gpu["other_processes_bytes"]),
              (2, 30 * G, 2 * CONTEXT, 25 * G))
        own = documents[order.index(paths[0])]
        equal(rows_of(own["devices"][0]["account"]["crossing"])["siblings"], 10 * G + CONTEXT)
    # Two copies of the library in one program are there both. Without the fact it is not known.
    for name, images, dead, knowledge in (("both", ("aa", "aa"), False, "last_seen"), ("older", ("aa", None), True, "unknown")):
        (first,) = [p for p in together(*replaced(name, images, dead))[1]["processes"] if p["file"].endswith("-1.zst")]
        equal(first["knowledge"], knowledge, name)


@case("the same number is one process only with the same start, host and PID namespace")
def same_number():
    for name, also, same in (("start", {"process.start_ns": str(41 * S)}, False), ("space", {"process.pid_namespace_hash": "bb"}, False),
                             ("boot", {"host.boot_hash": "78"}, False), ("host", {"host.name_hash": "beef", "host.boot_hash": "77"}, False),
                             ("same", {}, True), ("unknown", {"process.start_ns": "x"}, False)):
        common = {"host.boot_hash": "77", "process.pid_namespace_hash": "aa"}
        device = Device(0xAE << 48)
        a = Rank(1, device, **common).begin(60).take(61, G, CACHE)
        b = Rank(2, device, pid=a.pid, **{**common, **also}).take(62, G, CACHE)
        b.trace.trace_id += 0x1000
        paths = [a.save("number-" + name), b.save("number-" + name)]
        equal([p["same_process"] for p in together(*paths)[1]["processes"]], [None, 0 if same else None], name)


@case("others are no ranks of the job where all of its ranks are traced, by WORLD_SIZE, or by LOCAL_WORLD_SIZE of this machine")
def whole_job():
    none = "they are of none of its job's ranks: "
    unknown = "whether they are of the same job is not known"
    for i, (kin, alone, both) in enumerate((
            ({"process.env.WORLD_SIZE": "1"}, none + "it has one process (WORLD_SIZE)", unknown),
            ({"process.env.WORLD_SIZE": "2"}, unknown, none + "all of them are traced (WORLD_SIZE)"),
            ({"process.env.WORLD_SIZE": "16", "process.env.LOCAL_WORLD_SIZE": "2"}, unknown,
             none + "all of them are traced (WORLD_SIZE)"),
            ({"process.env.WORLD_SIZE": "3"}, unknown, unknown), ({"process.env.WORLD_SIZE": "-2"}, unknown, unknown))):
        paths, _ = pair("world%d" % i, stranger=10 * G, ask=15 * G, kin=kin)
        first = json.loads(read_json("summary", "--sysroot=/nowhere", paths[0]))["verdicts"][0]
        check(alone in said(first), (kin, said(first)))
        first = together(*paths)[1]["verdicts"][0]
        check(both in said(first), (kin, said(first)))


@case("a rank that died first has given its memory back: it is no sibling where the reading shows that, or after a minute")
def died_first():
    for name, dead, gap, left in (("gone", True, 4, None), ("there", False, 4, "last_seen"), ("long", True, 90, "ended")):
        device = Device(0xAC << 48)
        other = Rank(1, device).begin(60).take(61, 50 * G, CACHE).read(62)
        one = Rank(0, device).begin(62.5).take(63, 8 * G, LOAD).read(63.5)
        if dead:
            other.die()
        one.read(62 + gap).take(62.2 + gap, 60 * G if dead else G, LOAD).read(62.4 + gap).fail(63 + gap, 40 * G, SERVE)
        free = device.free()
        paths = [one.save("died-" + name), other.save("died-" + name)]
        (first, _), document = together(*paths)
        equal(names(document["verdicts"])[:1], ["burst-prefill"], name)
        equal(document["verdicts"][0]["process_indexes"], [0])
        held = [t for t in said(document["verdicts"][0]) if "rank 1" in t]
        equal(bool(held), not dead, (name, held))
        if not dead:
            check(held[0].endswith("it may have ended since its last event"), held)
        equal(rows_of(first["devices"][0]["account"]["crossing"]).get("siblings", 0), 0 if dead else 50 * G + CONTEXT)
        equal(document["processes"][1]["knowledge"], left or "unknown", name)
        (gpu,) = document["gpus"]
        rows = rows_of(gpu["account"])
        equal((gpu["account"]["capacity_bytes"], rows["free"], rows.get("kv-cache", 0)), (TOTAL, free, 0 if dead else 50 * G), name)
        equal(gpu["account"]["tracked_bytes"], one.tracked + (0 if dead else 50 * G))


@case("what a sibling held before its ring begins, or long after its trace without an end, is said to be unknown")
def unknown_sibling():
    for name, begins in (("wrapped", 70), ("cut", 61)):
        device = Device(0xAD << 48)
        device.held["someone"] = 50 * G
        other = Rank(1, device)
        if name == "wrapped":
            other.trace.seq = 3  # the chunks before are overwritten
        other.trace.event("note", begins * S, text="x", device=0)
        other.trace.event("memory-sample", begins * S + 1, device=0, free_bytes=device.free(), total_bytes=TOTAL)
        one = Rank(0, device).begin(62.5).take(63, 8 * G, LOAD).read(64)
        one.fail(65 if name == "wrapped" else 165, 60 * G, SERVE).note(180)
        other.trace.flush(last=name == "wrapped")
        path = scratch(name + ".zst", other.trace.bytes())
        document = json.loads(report("--json", one.save(name), path)[1])["processes"]
        texts = said(document["verdicts"][0])
        check(any(t.startswith("what 1 other traced process held then is not known") for t in texts), (name, texts))
        equal(document["processes"][1]["knowledge"], "unknown", name)


@case("a process on a clock that cannot be compared is no sibling, and that is said")
def no_clock():
    paths, _ = pair("clock", also={"clock.realtime_ns": "x"})
    (one, _), document = together(*paths)
    equal((document["alignment"], names(one["verdicts"])[0]), (None, "co-tenant"))
    check(any("on a clock that cannot be compared" in t for t in said(document["verdicts"][0])), said(document["verdicts"][0]))


# ---- ranks on devices of their own ---------------------------------------------------------------

def four(name, failing, stack=LOAD, gpus=4, **info):
    """failing: rank -> (seconds, asked bytes)."""
    devices = [Device((0xB0 + i) << 48) for i in range(gpus)]
    ranks = [Rank(i, devices[i % gpus], **{"device.0.nvml_index": str(i % gpus)}, **info).begin(60 + i / 100) for i in range(4)]
    for i, r in enumerate(ranks):
        r.take(61 + i / 100, 70 * G // (4 // gpus), stack).read(62 + i / 100)
    for i in sorted(failing, key=failing.get):
        ranks[i].fail(*failing[i], stack)
    for r in ranks:
        r.note(90)
    return [r.save(name) for r in ranks]


@case("what several ranks failed of is said once, of the first that failed; a rank that did not fail has no verdict")
def merged():
    paths = four("merged", {1: (70, 12 * G), 0: (71, 13 * G), 3: (72, 14 * G)})
    documents, document = together(*paths)
    equal([names(d["verdicts"]) for d in documents], [["startup-weights"]] * 2 + [["none"]] + [["startup-weights"]])
    (verdict,) = document["verdicts"]
    equal((verdict["scenario"], verdict["process_indexes"]), ("startup-weights", [1, 0, 3]))
    equal(verdict["evidence"][0]["t_ns"], 70 * S)
    for i, size in ((0, "13.00"), (3, "14.00")):
        check(any(t.startswith("rank %d (pid %d): asked for %s GiB" % (i, 1000 + i, size)) for t in said(verdict)), said(verdict))
    text = text_of(*[os.path.relpath(p, scratch()) for p in paths])  # (a long path costs a line)
    check("startup-weights" in text and "3 of 4 processes: rank 1 (pid 1001), rank 0 (pid 1000), 1 more" in flat(text), text)
    text = text_of(*paths, command="explain")
    check("of 3 of 4 processes: rank 1 (pid 1001), rank 0 (pid 1000), rank 3 (pid 1003)" in flat(text), text)
    equal(text.count("verdict: "), 1)
    (verdict,) = together(*four("fine", {}))[1]["verdicts"]
    equal((verdict["scenario"], sorted(verdict["process_indexes"])), ("none", [0, 1, 2, 3]))


@case("two devices and no neighbour: no siblings; each GPU's account is that of its rank's own document")
def own_devices():
    paths = four("own", {2: (70, 12 * G)})
    documents, document = together(*paths)
    for gpu in document["gpus"]:
        i = int(gpu["uuid_hash"][:4], 16) - 0xB0
        rows = rows_of(gpu["account"])
        equal((rows["weights"], rows["free"]), (70 * G, TOTAL - 70 * G - CONTEXT), i)
        own = documents[i]["devices"][0]["account"]["crossing" if i == 2 else "end"]
        equal([(r["component"], r["bytes"], r["count"]) for r in gpu["account"]["rows"]],
              [(r["component"], r["bytes"], r["count"]) for r in own["rows"]], i)


@case("of ranks that need different values of one setting, the one that is enough for all is named")
def strictest():
    flags = {"process.program": "vllm", "version.vllm": "0.33.0", "flag.gpu-memory-utilization": "0.95", "process.program.from": "self"}
    paths = four("strict", {0: (70, 12 * G), 1: (71, 40 * G)}, stack=CACHE, **flags)
    values = []
    for path in paths[:2]:
        advice = json.loads(read_json("summary", "--sysroot=/nowhere", path))["verdicts"][0]["advice"]
        values.append(float([a["to"] for a in advice if a["flag"] == "--gpu-memory-utilization"][0]))
    check(values[1] < values[0], values)
    verdict = together(*paths)[1]["verdicts"][0]
    equal(verdict["process_indexes"], [0, 1])
    equal([float(a["to"]) for a in verdict["advice"] if a["flag"] == "--gpu-memory-utilization"], [values[1]])


@case("what a rank recovered from stands behind what another one failed of")
def recovered():
    devices = [Device((0xC0 + i) << 48) for i in range(2)]
    a = Rank(0, devices[0]).begin(60).take(61, 70 * G, LOAD).read(62).fail(63, 12 * G, LOAD)
    b = Rank(1, devices[1]).begin(60).take(61, 60 * G, LOAD).read(62).fail(63, 20 * G, LOAD).take(64, 20 * G - CONTEXT, LOAD)
    b.trace.event("alloc", 65 * S, api="cudaMalloc", device=0, ptr=0x1000, bytes=20 * G, space="device", result=0, context=7)
    (_, alone), document = together(a.save("back"), b.save("back"))
    equal(names(alone["verdicts"]), ["recovered"])
    equal([(v["scenario"], v["process_indexes"]) for v in document["verdicts"]], [("startup-weights", [0]), ("recovered", [1])])
    equal(document["verdicts"][1]["confidence"], alone["verdicts"][0]["confidence"] / 2)


@case("the log stands beside all traces once; explain's list ends with summary's document of all")
def log_beside():
    paths = four("log", {1: (70, 12 * G)})
    log = scratch("log.txt", "ERROR 09-01 10:00:00 [core.py:7] ValueError: To serve at least one request with the models's max seq len (32768), "
                  "(4.00 GiB KV cache is needed, which is larger than the available KV cache memory (2.00 GiB).\n")
    _, document = together(*paths, "--log=" + log)
    found = {v["scenario"]: v["process_indexes"] for v in document["verdicts"]}
    equal(found, {"startup-weights": [1], "no-room-for-kv-cache": []})
    documents, same = together(*paths, "--log=" + log, command="explain")
    equal([d["schema"] for d in documents], ["cutrace.explain/2"] * 4)
    equal(same, document)
    text = text_of(*paths, "--log=" + log, command="explain")
    equal(text.count("the log says"), 1)
    check("also possible" in text and "of no process alone" in flat(text), text)


# ---- the lines of a log --------------------------------------------------------------------------

def traceback_of(frames, error):
    """The lines that Python prints of an error in these frames, outermost first."""
    lines = ["Traceback (most recent call last):"]
    for name, path, number in frames:
        lines += ['  File "%s", line %d, in %s' % (path, number, name), "    return self.call()"]
    return lines + [error]


OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %s. GPU 0 has a total capacity of 80.00 GiB of which 9.51 GiB is "
       "free. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.")
IN_LOAD = traceback_of([("worker_main", "/x/vllm/v1/executor/multiproc_executor.py", 9), ("load_model", WORKER, 594)], OOM % "12.00 GiB")
IN_SERVE = traceback_of([("worker_busy_loop", "/x/vllm/v1/executor/multiproc_executor.py", 9), ("execute_model", WORKER, 1334),
                         ("compute_logits", "/x/vllm/model_executor/models/llama.py", 9)], OOM % "40.00 GiB")


def tagged(tag, lines):
    return ["%sERROR 09-01 10:00:0%d [core.py:7] %s" % (tag, i % 10, line) for i, line in enumerate(lines)]


def interleave(a, b):
    """The lines of both in turn, as two processes write them."""
    return [line for pair in zip(a, b) for line in pair] + a[len(b):] + b[len(a):]


def two(name, **more):
    """Rank 0 failed while it loaded, and rank 1 while it allocated the cache."""
    paths = []
    for i, stack in enumerate((LOAD, CACHE)):
        rank = Rank(i, Device((0xA0 + i) << 48), **{"device.0.nvml_index": str(i)}, **more).begin(60 + i)
        paths.append(rank.take(62, 70 * G, stack).read(63).fail(70 + i, 12 * G, stack).note(90).save(name))
    return paths


def log_of(lines, name="tags.txt"):
    path = scratch(name, "\n".join(lines) + "\n")
    return "--log=" + path


def lines_of_log(document, process):
    """Numbers of the lines of the log that the verdicts of one process rest on: of it alone, or named in one of several."""
    def begin(verdict):
        return r"^(?:the log: )?" if verdict["process_indexes"] == [process] else rf"^rank {process} .*?: "
    return {int(n) for v in document["verdicts"] for e in v["evidence"] for n in re.findall(begin(v) + r"line (\d+)", e["text"])}


def owners(document):
    return {(part["pid"], part["rank"]): (part["by"], part["process_index"]) for part in document["log_lines"]}


@case("each process has the errors of its own lines, although the lines of both alternate; swapped pids swap them")
def lines_by_pid():
    paths = two("lines")
    for first, second, tag in ((1000, 1001, "(Worker_TP%d pid=%d) "), (1001, 1000, "\x1b[0;36m(Worker_TP%d pid=%d)\x1b[0;0m "),
                               (1000, 1001, "vllm-1  | (EngineCore pid=7) (RayWorkerWrapper %d pid=%d) ")):
        lines = interleave(tagged(tag % (0, first), IN_LOAD), tagged(tag % (1, second), IN_SERVE))
        document = together(*paths, log_of(lines))[1]
        where = {first - 1000: lines.index([x for x in lines if "12.00 GiB" in x][0]) + 1,
                 second - 1000: lines.index([x for x in lines if "40.00 GiB" in x][0]) + 1}
        for process, line in where.items():
            equal(lines_of_log(document, process), {line}, (tag, process, document["verdicts"]))
        found = {(v["scenario"], i) for v in document["verdicts"] for i in v["process_indexes"]}
        check(("startup-weights", first - 1000) in found, found)
        check(("logits", second - 1000) in found, found)
        equal({k: v for k, v in owners(document).items() if k[0]}, {(1000, None): ("tag", 0), (1001, None): ("tag", 1)})
        text = flat(text_of(*paths, log_of(lines)))
        check("log: %d lines of rank" % [x["lines"] for x in document["log_lines"] if x["pid"]][0] in text, text)


@case("pids that no trace has: nothing is any process's, and that is said; untagged lines are of all")
def lines_of_strangers():
    paths = two("strangers")
    lines = interleave(tagged("(Worker_TP0 pid=17) ", IN_LOAD), tagged("(Worker_TP1 pid=18) ", IN_SERVE))
    document = together(*paths, log_of(lines))[1]
    equal(owners(document), {(None, None): ("no-tag", None), (17, None): ("no-trace", None), (18, None): ("no-trace", None)})
    text = flat(text_of(*paths, log_of(lines)))
    check("its tags (pid 17, pid 18) name none of these processes: every line counts for all of them" in text, text)
    bare = ["ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"]
    for untagged in (tagged("", bare), bare):  # (a bare one may be the rest of the long line before it)
        document = together(*paths, log_of(tagged("(Worker pid=1000) ", IN_LOAD) + untagged))[1]
        (exhausted,) = [v for v in document["verdicts"] if v["scenario"] == "no-room-for-kv-cache"]
        equal(exhausted["process_indexes"], [])
    check("the log: " not in " ".join(t for v in document["verdicts"] if v["process_indexes"] == [1] for t in said(v)), document)


@case("the same pid on two machines, in two services or of two traces tells nothing apart")
def lines_of_namesakes():
    paths = two("namesakes")
    for one, other in (("(RayWorkerWrapper pid=1000) ", "(RayWorkerWrapper pid=1000, ip=10.0.0.2) "),
                       ("vllm-1  | (Worker pid=1000) ", "vllm-2  | (Worker pid=1000) "),
                       ("[pod/a/server] (Worker pid=1000) ", "[pod/b/server] (Worker pid=1000) ")):
        document = together(*paths, log_of(tagged(one, IN_LOAD) + tagged(other, IN_SERVE)))[1]
        equal({v for k, v in owners(document).items() if k[0]}, {("ambiguous", None)}, one)
        equal([lines_of_log(document, i) for i in (0, 1)], [set(), set()], one)
        text = flat(text_of(*paths, log_of(tagged(one, IN_LOAD) + tagged(other, IN_SERVE))))
        check("pid 1000 is that of several processes, so its lines count for all" in text or
              "pid 1000, pid 1000 is that of several processes" in text, text)
    device = Device(0xA7 << 48)
    twins = [Rank(i, device, pid=500, host=h, boot=BOOT + i) for i, h in ((0, "cafe"), (1, "beef"))]
    twins[1].trace.trace_id = 0x77  # else it would be a copy of the first
    document = together(*[t.begin(60).take(61, 9 * G, LOAD).note(70).save("twins") for t in twins], log_of(tagged("(Worker pid=500) ", IN_LOAD)))[1]
    equal(owners(document)[(500, None)], ("ambiguous", None))


@case("ranks of torchrun; a message that a terminal wrapped is that of the process whose line it goes on from")
def lines_by_rank():
    paths = two("by-rank")
    lines = interleave(["[rank0]: " + x for x in IN_LOAD], ["[rank1]: " + x for x in IN_SERVE])
    document = together(*paths, log_of(lines))[1]
    equal({k: v for k, v in owners(document).items() if k[1] is not None}, {(None, 0): ("tag", 0), (None, 1): ("tag", 1)})
    equal([len(lines_of_log(document, i)) for i in (0, 1)], [1, 1], document["verdicts"])
    wrapped = []
    for line in tagged("(Worker_TP1 pid=1001) ", IN_SERVE):
        wrapped += [line[i:i + 80] for i in range(0, len(line), 80)]
    document = together(*paths, log_of(wrapped))[1]
    (logits,) = [v for v in document["verdicts"] if v["scenario"] == "logits"]
    equal(logits["process_indexes"], [1])
    check(any("9.51 GiB" in t for t in said(logits)), said(logits))


def alone(path, *arguments):
    """The document of one trace alone, and the scenarios that the log has a part in."""
    document = json.loads(read_json("summary", path, *arguments))
    return document, {v["scenario"] for v in document["verdicts"] for e in v["evidence"]
                      if re.match(r"(the log: )?line \d", e["text"])}


@case("one trace alone: lines of another rank or worker are left out, and counted; an engine's and those without a tag are not")
def lines_of_one():
    paths = two("alone")
    own, other = ["[rank0]: " + x for x in IN_LOAD], ["[rank1]: " + x for x in IN_SERVE]
    for lines in (interleave(own, other), other + own):
        document, found = alone(paths[0], log_of(lines))
        equal((found, document["companions"]["left_out_lines"]), ({"startup-weights"}, len(other)), lines)
        check("; %d of other processes are left out" % len(other) in flat(text_of(paths[0], log_of(lines))), lines)
    equal(alone(paths[1], log_of(other + own))[1], {"logits"})
    own, other = (tagged("(Worker_TP%d pid=%d) " % (i, 1000 + i), part) for i, part in enumerate((IN_LOAD, IN_SERVE)))
    document, found = alone(paths[0], log_of(interleave(own, other)))
    equal((found, document["companions"]["left_out_lines"], document["companions"]["log"]["lines"]),
          ({"startup-weights"}, len(other), len(own)))
    equal(alone(paths[1], log_of(interleave(own, other)))[1], {"logits"})
    for lines in (IN_SERVE, tagged("(EngineCore_DP0 pid=77) ", IN_SERVE), tagged("(Worker pid=1) ", IN_SERVE) * 2):
        mine = ["INFO loading"] if "Worker pid=1)" in lines[0] else own[:1]
        document, found = alone(paths[0], log_of(mine + lines))
        equal((found, document["companions"]["left_out_lines"]), ({"logits"}, 0), lines[0])


@case("one trace alone: a rank that counts the processes of one machine says nothing of another line's rank")
def lines_of_local_rank():
    (path,) = two("local", **{"process.env.LOCAL_RANK": "0"}, ranked=False)[:1]
    document, found = alone(path, log_of(["[rank8]: " + x for x in IN_SERVE]))
    equal((found, document["companions"]["left_out_lines"]), ({"logits"}, 0))


@case("real vLLM: the document of one worker has its own lines and the engine's, without those of the other worker")
def lines_of_one_of_vllm():
    folder = os.path.join(VLLM, "tensor-parallel")
    with open(os.path.join(folder, "log.txt"), encoding="utf-8") as f:
        lines = f.read().split("\n")[:-1]
    for name in ("trace.zst", "trace-1.zst"):
        path = os.path.join(folder, name)
        pid = json.loads(read_json("info", path))["info"]["process.pid"]
        others = [x for x in lines if re.match(r"\(Worker", x) and "pid=%s)" % pid not in x]
        document = alone(path, "--log=" + os.path.join(folder, "log.txt"))[0]
        check(others)
        equal(document["companions"]["left_out_lines"], len(others), name)
        equal(document["companions"]["log"]["lines"], len(lines) - len(others), name)


@case("real vLLM: the lines of each worker are those with its pid, and the engine's are of all")
def lines_of_vllm():
    for name in ("tensor-parallel", "http-server-tensor-parallel"):
        log = os.path.join(VLLM, name, "log.txt")
        with open(log, encoding="utf-8") as f:
            text = f.read().split("\n")
        _, document = together(*sorted(glob.glob(os.path.join(VLLM, name, "*.zst"))), "--log=" + log)
        pids = [p["pid"] for p in document["processes"]]
        for part in document["log_lines"]:
            if part["pid"] is not None:
                want = sum(bool(re.match(r"\(\S+ pid=%d\)" % part["pid"], line)) for line in text)
                owner = pids.index(part["pid"]) if part["pid"] in pids else None
                equal((part["lines"], part["process_index"]), (want, owner), (name, part))
        equal(sum(part["by"] == "tag" for part in document["log_lines"]), 2, document["log_lines"])
        equal(names(document["verdicts"]), ["none"])


# ---- two hosts -----------------------------------------------------------------------------------

@case("two hosts with times of day 3 s apart: the state at the same time of day, GPUs of their own, and that clocks may differ is said")
def two_hosts():
    for uuids in ((0xD0 << 48, 0xD1 << 48), (None, None)):
        near = Rank(0, Device(uuids[0])).begin(100).take(101, 70 * G, LOAD).fail(130, 12 * G, LOAD)
        # The other host has run for 1000 s less, and its time of day is 3 s ahead.
        far = Rank(1, Device(uuids[1]), boot=BOOT + 1003 * S, host="beef")
        far.trace.info["process.start_ns"] = str(S)
        far.begin(2)
        far_now = 130 * S - 1003 * S  # on the far clock, by the time of day; negative: it had not begun
        paths = [near.save("hosts"), far.note(3).save("hosts")]
        _, document = together(*paths)
        equal((document["same_clock"], document["alignment"], document["host_count"]), (False, "time-of-day", 2))
        equal((document["processes"][1]["knowledge"], far_now < 0), ("not_started", True))
        late = Rank(0, Device(uuids[0]), pid=3000).begin(1100).take(1101, 70 * G, LOAD).fail(1130, 12 * G, LOAD)
        far = Rank(1, Device(uuids[1]), boot=BOOT + 1003 * S, host="beef")
        far.trace.info["process.start_ns"] = str(50 * S)
        far.begin(100)
        for second in range(101, 160):
            far.take(second, G, LOAD)
        paths = [late.save("late"), far.save("late")]
        _, document = together(*paths)
        moment = (1130 - 1003) * S
        equal(document["moment"]["t_ns"], 1130 * S)
        equal(document["processes"][1]["moment_ns"], moment)
        want = state_at(paths[1], moment).devices[0].tracked
        equal(want, 27 * G)
        equal((document["processes"][1]["knowledge"], document["processes"][1]["devices"][0]["tracked_bytes"]), ("known", want))
        equal([(g["host_index"], g["tracked_bytes"], g["process_count"]) for g in document["gpus"]], [(0, 70 * G, 1), (1, want, 1)])
        text = text_of(*paths)
        check("2 hosts (of a GPU behind the @), aligned by wall clock; their clocks may differ" in flat(text), text)
        check(re.search(r"^0@1 +1 +80.00 GiB +27.00 GiB", text, re.M), text)
        equal(names(document["verdicts"]), ["startup-weights"])


@case("two hosts without a failure: the highest sum of one GPU, also where it is on the second host")
def highest_of_hosts():
    near = Rank(0, Device(0xE0 << 48)).begin(1100).take(1101, 10 * G).note(1200)
    far = Rank(1, Device(0xE1 << 48), boot=BOOT + 1000 * S, host="beef", **{"process.start_ns": str(50 * S)})
    far.begin(100).take(110, 20 * G).note(190)
    paths = [near.save("highest"), far.save("highest")]
    _, document = together(*paths)
    moment = document["moment"]
    equal((moment["what"], moment["sum_bytes"], document["gpus"][moment["gpu_index"]]["host_index"]), ("peak", 20 * G, 1))
    equal((moment["t_ns"], document["processes"][1]["moment_ns"]), (1110 * S, 110 * S))
    equal([g["tracked_bytes"] for g in document["gpus"]], [10 * G, 20 * G])


@case("the time of day of one host was moved between its traces: by how much is said")
def drift():
    a = Rank(0, Device(0xE2 << 48)).begin(1100).take(1101, 10 * G).note(1200)
    b = Rank(1, Device(0xE3 << 48), boot=BOOT + S // 2).begin(1100).take(1101, 10 * G).note(1200)
    c = Rank(2, Device(0xE4 << 48), boot=BOOT + 1000 * S, host="beef").begin(100).take(110, 20 * G).note(190)
    paths = [a.save("drift"), b.save("drift"), c.save("drift")]
    equal(together(*paths)[1]["time_of_day_drift_ns"], S // 2)
    check("on one host it was moved by 500 ms" in flat(text_of(*paths)), text_of(*paths))
    equal(together(*paths[1:])[1]["time_of_day_drift_ns"], None)


# ---- many, and real ones -------------------------------------------------------------------------

@case("64 ranks on 8 devices: every account is the ledger's, the failures are one verdict, and all fit on a screen")
def many():
    devices = [Device((0x100 + i) << 40) for i in range(8)]
    ranks = [Rank(i, devices[i % 8], **{"device.0.nvml_index": str(i % 8), "process.env.WORLD_SIZE": "64"}) for i in range(64)]
    for i, r in enumerate(ranks):
        r.begin(60 + i / 1000).take(61 + i / 1000, 9 * G, LOAD)
    for i, r in enumerate(ranks):
        r.read(62 + i / 1000)
    for i in range(32):
        ranks[i].fail(63 + i / 1000, 9 * G, LOAD)
    free = [d.free() for d in devices]
    paths = [r.note(70).save("many") for r in ranks]
    documents, document = together(*paths)
    for gpu, left in zip(document["gpus"], free):
        rows = rows_of(gpu["account"])
        equal((rows["weights"], rows["free"]), (72 * G, left))
        equal(gpu["process_count"], 8)
    equal(document["verdicts"][0]["process_indexes"], list(range(32)))
    equal(names(document["verdicts"]), ["startup-weights"])
    rows = rows_of(documents[3]["devices"][0]["account"]["crossing"])
    equal((rows["siblings"], rows.get("others", 0)), (7 * (9 * G + CONTEXT), 0))
    (text,) = [t for t in said(documents[3]["verdicts"][0]) if t.startswith("all other traced processes: ")]
    check(text.endswith("%.2f GiB" % (4 * (9 + CONTEXT / G))), text)
    os.chdir(scratch())
    lines = text_of(*map(os.path.basename, paths)).splitlines()
    os.chdir("/")
    check(len(lines) <= 24 and max(map(len, lines)) <= 80, "\n".join(lines))
    check(any("32 of 64" in line for line in lines), "\n".join(lines))


def layer_of(model):
    """Bytes of the embedding of a model, in 16 bits."""
    with open(os.path.join(ROOT, "tests/vllm/models", model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    return config["vocab_size"] * config["hidden_size"] * 2


@case("real vLLM: the account of each GPU is its capacity, with the weights and the KV cache of the log")
def real_accounts():
    for name, gpus in (("tensor-parallel", 2), ("weight-update", 1)):
        with open(os.path.join(VLLM, name, "log.txt"), encoding="utf-8") as f:
            log = f.read()
        weights = float(re.search(r"Model loading took ([0-9.]+) GiB", log).group(1))
        cache = float(re.search(r"Available KV cache memory: ([0-9.]+) GiB", log).group(1))
        _, document = together(*sorted(glob.glob(os.path.join(VLLM, name, "*.zst"))))
        equal(len(document["gpus"]), gpus)
        for gpu in document["gpus"]:
            rows = rows_of(gpu["account"])
            equal((gpu["account"]["capacity_bytes"], gpu["total_bytes"]), (24 * G, 24 * G))
            check(abs(rows["kv-cache"] / G - cache) < 0.01, (name, rows["kv-cache"] / G, cache))
            # (at the peak of an update vLLM holds a copy of the layer that is replaced: the embedding is the largest one)
            held = rows["weights"] - (layer_of("llama-tiny") if name == "weight-update" else 0)
            check(weights - 0.006 < held / G < weights + 0.006, (name, held / G, weights))
        equal(names(document["verdicts"]), ["none"])


@case("real vLLM: what the sender of new weights held at the peak of the engine, and the other way round, by a second reading")
def real_siblings():
    paths = sorted(glob.glob(os.path.join(VLLM, "weight-update/*.zst")))
    documents, _ = together(*paths)
    for document, other in zip(documents, reversed(paths)):
        (device,) = document["devices"]
        rows = rows_of(device["account"]["peak"])
        then = state_at(other, device["peak_t_ns"]).devices[0]
        tracked, (untracked, _) = then.tracked, then.report  # the last that NVML said
        there = rows.get("siblings", 0) + rows.get("others", 0)
        equal(rows.get("siblings", 0), min(tracked + untracked, there), (other, tracked, untracked, rows))
        check(tracked > 200 * M, tracked)


@case("real vLLM: two ranks that failed alike are one verdict, that of the case; a rank beside them has none")
def real_failures():
    for name in ("initialize-kv-cache", "load-model", "logits"):
        folder = os.path.join(VLLM, name)
        with open(os.path.join(folder, "case.json"), encoding="utf-8") as f:
            wanted = json.load(f)["scenario"]
        original = os.path.join(folder, "trace.zst")
        whole = whole_trace.Whole(original)
        info = {**whole.info, "process.pid": "5", "device.0.uuid_hash": "%016x" % 5, "process.env.RANK": "1"}
        copy = scratch(name + "-copy.zst", b"".join(whole_trace.write(whole.copy(info=info))))
        _, document = together(original, copy)
        equal((document["verdicts"][0]["scenario"], sorted(document["verdicts"][0]["process_indexes"])), (wanted, [0, 1]), name)
        for gpu in document["gpus"]:
            rows_of(gpu["account"])
        _, document = together(original, os.path.join(VLLM, "eager/trace.zst"))
        equal((document["verdicts"][0]["scenario"], document["verdicts"][0]["process_indexes"]), (wanted, [0]), name)
        check("none" not in names(document["verdicts"]), names(document["verdicts"]))


main()
