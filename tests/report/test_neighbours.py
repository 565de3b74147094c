#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The processes that NVML lists, MIG instances and memory of the host, in every view. The truth is a machine that is made up
here: who holds how much, under which number, and when NVML was asked."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import Trace  # noqa: E402
from tap import case, check, equal, main, read_json, report, scratch  # noqa: E402

M, G, S = 1 << 20, 1 << 30, 10**9
TOTAL, CONTEXT = 80 * G, 500 * M
STACK = [("f", "/x/model.py", 9), ("<module>", "/x/serve.py", 3)]


class Machine:
    """A GPU, the processes on it by NVML's number, and the trace of one of them. Times are seconds from the start."""

    def __init__(self, name, me=100, pid=None, numbers="own", memory=True, total=TOTAL, own=True, **info):
        self.held, self.names, self.me, self.free_is_read, self.total = {me: CONTEXT}, {}, me, memory, total
        self.tracked, self.address, self.trace = 0, 0x700000000000, Trace(trace_id=0x7000 + me)
        self.own = numbers == "own" and own
        self.path, self.told = scratch(name + ".zst"), {}
        self.trace.info = {
            "process.pid": str(pid or me), "process.ppid": "7", "process.exe": "worker", "process.start_ns": str(100 * S),
            "process.nvml_pids": numbers, "clock.monotonic_ns": str(S), "clock.realtime_ns": str(1795000001 * S),
            "host.name_hash": "cafe", "host.boot_hash": "b007", "device.0.name": "NVIDIA X",
            "device.0.uuid_hash": "%016x" % 0xABCD,
            "device.0.total_bytes": str(total), "device.0.meminfo_total_bytes": str(total),
            **{k.replace("__", "."): v for k, v in info.items()}}

    def free(self):
        return self.total - sum(v for v in self.held.values() if v is not None)

    def at(self, t, duration=0):
        return int((100 + t) * S)

    def alloc(self, t, size, fails=False, duration=1000):
        if not fails:
            self.held[self.me] += size
            self.tracked += size
            self.address += 1 << 36
        self.trace.event("alloc", self.at(t), tid=1, device=0, api="cudaMalloc", result=2 if fails else 0, bytes=size, space="device",
                         stack=STACK, duration_ns=duration, free_bytes=self.free(), total_bytes=self.total,
                         **({} if fails else {"ptr": self.address}))

    def ask(self, t, names=True):
        """NVML is asked: how much is free, and which processes hold what; those that have changed are told."""
        at = self.at(t)
        if self.free_is_read:
            more = {"process_bytes": self.held[self.me]} if self.own else {}
            self.trace.event("memory-sample", at, tid=9, device=0, flags=["nvml"], free_bytes=self.free(), total_bytes=self.total,
                             **more)
        for pid in sorted({*self.told, *self.held}):
            at += 100
            fields = {"tid": 9, "device": 0, "flags": ["nvml"], "pid": pid}
            if pid not in self.held:
                self.trace.event("process-gone", at, **fields)
                del self.told[pid]
            elif self.told.get(pid, -1) != self.held[pid]:
                if self.held[pid] is not None:
                    fields["process_bytes"] = self.held[pid]
                if pid in self.names:
                    fields["text"] = self.names[pid]
                self.trace.event("process", at, **fields)
                self.told[pid] = self.held[pid]

    def write(self):
        return self.trace.save(self.path)


def text(view, *paths):
    code, out, err = report(view, *paths)
    check(code == 0, err)
    return re.sub(r"\s+", " ", out.decode())


def page(path):
    code, out, err = report("html", path, "-o", "-")
    check(code == 0, err)
    return out.decode()


def device(*paths, view="summary"):
    return json.loads(read_json(view, *paths))["devices"][0]


def listed(d):
    return {p["pid"]: p for p in d["processes"]}


def growing(name, **more):
    """A neighbour that grows from 1 to 6.3 GiB while this process fails in the end."""
    m = Machine(name, **more)
    m.names = {100: "me", 123: "python3"} if more.get("numbers", "own") == "own" else {}
    m.held[123] = G
    m.ask(0)
    m.alloc(1, 4 * G)
    m.ask(2)
    m.ask(10)
    m.held[123] = 3 * G
    m.ask(15)
    m.held[123] = 6 * G + 307 * M
    m.ask(20)
    m.alloc(25, 8 * G)
    m.ask(26)
    m.alloc(30, 2 * G)
    m.ask(31)
    m.alloc(40, 79 * G, fails=True)
    return m


@case("a neighbour is named with what it held and when it grew, in summary, timeline, page and JSON, and this process is none")
def neighbour():
    path = growing("grows").write()
    said = text("summary", path)
    check("other processes by NVML at that moment: python3 (pid 123) 6.30 GiB, grew by 5.30 GiB between +10.000 s and +20.000 s live"
          in said, said)
    d = device(path)
    them, start = listed(d), json.loads(read_json("summary", path))["start_ns"]
    equal(set(them), {100, 123})
    equal({k: them[123][k] for k in ("name", "whose", "crossing_bytes", "end_bytes", "rise_bytes", "rise_from_t_ns", "rise_to_t_ns")},
          {"name": "python3", "whose": "other", "crossing_bytes": 6 * G + 307 * M, "end_bytes": 6 * G + 307 * M,
           "rise_bytes": 5 * G + 307 * M, "rise_from_t_ns": start + 10 * S, "rise_to_t_ns": start + 20 * S + 200})
    equal((them[100]["whose"], them[100]["crossing_bytes"]), ("this", CONTEXT + 14 * G))
    # What NVML lists besides this process is what the account has of others: nothing else is on this GPU.
    equal(d["memory"]["crossing"]["other_processes_bytes"], them[123]["crossing_bytes"])
    plot = device(path, view="timeline")
    (column,) = [p["bytes"] for p in plot["processes"] if p["pid"] == 123]
    ends = [plot["columns"][i + 1]["t_ns"] - 1 for i in range(len(column) - 1)]
    equal(column[:-1], [G if t < start + 15 * S + 200 else 3 * G if t < start + 20 * S + 200 else 6 * G + 307 * M for t in ends])
    drawn = text("timeline", path)
    check("process 1 by NVML: python3 (pid 123), up to 6.30 GiB, grew by 5.30 GiB between +10.000 s and +20.000 s" in drawn, drawn)
    check("process 2" not in drawn, drawn)
    body = page(path)
    check("<td>python3 (pid 123)</td><td>grew by 5.30 GiB between +10.000 s and +20.000 s</td>" in body, "the page")
    check("me (pid 100, this process)" in body, "the page names this process")
    embedded = re.search(r'"processes":(\[\{"pid":.*?\}\])', body)
    equal(json.loads(embedded.group(1)), d["processes"], "the page's data are those of --json")


@case("what is held at a moment is what NVML said before it; what ended is not listed, and memory that is not said is unknown")
def moments():
    m = Machine("moments")
    m.names = {5: "early", 6: "late", 8: "mute"}
    m.held.update({5: 2 * G, 8: None})
    m.ask(0)
    m.alloc(1, 30 * G)  # the peak
    m.ask(2)
    del m.held[5]
    m.held[6] = 3 * G
    m.ask(50)
    path = m.write()
    them = listed(device(path))
    equal([them[5][k] for k in ("peak_bytes", "end_bytes", "crossing_bytes")], [2 * G, 0, None])
    equal([them[6][k] for k in ("peak_bytes", "end_bytes")], [None, 3 * G], "nothing was heard of it at the peak")
    equal([them[8][k] for k in ("peak_bytes", "end_bytes", "rise_bytes")], [None, None, None])
    said = text("summary", path)
    check("other processes by NVML at the peak: early (pid 5) 2.00 GiB; mute (pid 8) of unknown size live" in said, said)


@case("a trace without lists says nothing of processes: null, and no line")
def none():
    m = Machine("none")
    m.alloc(1, G)
    m.trace.event("memory-sample", m.at(2), tid=9, device=0, flags=["nvml"], free_bytes=m.free(), total_bytes=TOTAL)
    path = m.write()
    equal(device(path)["processes"], None)
    check("by NVML at" not in text("summary", path), "nothing is listed")
    check("process 1" not in text("timeline", path), "nothing is drawn")


@case("in a container this process is found by its memory, said to be inferred, and never called a stranger")
def container():
    path = growing("container", me=4711, pid=12, numbers="other").write()
    them = listed(device(path))
    equal((them[4711]["whose"], them[123]["whose"]), ("this-inferred", "other"))
    said = text("summary", path)
    check("other processes by NVML at that moment: pid 123 6.30 GiB" in said and "4711" not in said, said)
    check("pid 4711, this process, inferred from its memory" in page(path), "said to be inferred")


@case("in a container where two processes change alike, none is called this one, and none another one")
def twins():
    m = Machine("twins", me=4711, pid=12, numbers="other")
    m.held[4712] = CONTEXT
    for i in range(1, 5):
        m.alloc(10 * i, i * G)
        m.held[4712] += i * G
        m.ask(10 * i + 5)
    path = m.write()
    equal({p["whose"] for p in device(path)["processes"]}, {"unknown"})
    said = text("summary", path)
    check("processes (one of them may be this one) by NVML at the peak: pid 4711" in said and "other processes by" not in said, said)


@case("in a container, a process that changes alike half of the time leaves it open which one this is")
def half_a_twin():
    m = Machine("half", me=4711, pid=12, numbers="other")
    m.held[4712] = 90 * G
    for i in range(1, 9):
        m.alloc(10 * i, G)
        m.held[4712] += G * (1 + i % 2)
        m.ask(10 * i + 5)
    equal({p["pid"]: p["whose"] for p in device(m.write())["processes"]}, {4711: "unknown", 4712: "unknown"})


@case("in a container, the number of this process there may be another one's: it is none of this process's")
def collision():
    m = growing("collision", me=4711, pid=123, numbers="other")
    equal({p["pid"]: p["whose"] for p in device(m.write())["processes"]}, {123: "other", 4711: "this-inferred"})


@case("calls that were under way, and changes while nobody asked, find nobody; a smaller process is another one")
def no_evidence():
    m = Machine("thin", me=4711, pid=12, numbers="other")
    m.held[50] = 60 * M
    m.ask(0)
    m.alloc(1, 4 * G, duration=int(2 * S))  # began before NVML was asked
    m.ask(1.001)
    for i in range(2, 6):
        m.alloc(i, 4 * G)
        m.ask(i + 0.005)  # too soon
    them = listed(device(m.write()))
    equal(them[4711]["whose"], "unknown")


@case("the one process with fewer bytes than are tracked is another one, whatever else is known")
def smaller():
    m = Machine("smaller", me=4711, pid=12, numbers="other")
    m.held[50] = 60 * M
    m.alloc(1, 4 * G)
    m.ask(2)
    m.ask(3)
    them = listed(device(m.write()))
    equal((them[50]["whose"], them[4711]["whose"]), ("other", "unknown"))


@case("processes that NVML does not number are no strangers")
def zero():
    m = Machine("zero", me=0, pid=12, numbers="other")
    for i in range(1, 4):
        m.alloc(10 * i, G)
        m.ask(10 * i + 5)
    path = m.write()
    (p,) = device(path)["processes"]
    equal((p["pid"], p["whose"]), (None, "unknown"))
    check("processes (one of them may be this one) by NVML at the peak: processes without a number" in text("summary", path), "the text")


def two(name, numbers, pids, inferred):
    """Two processes on one GPU, each of which records; each changes at its own times."""
    a, b = (Machine(f"{name}{i}", me=me, pid=pid, numbers=numbers) for i, (me, pid) in enumerate(zip((801, 802), pids)))
    for i in range(1, 5):
        a.alloc(10 * i, i * G)
        b.held[801] = a.held[801]
        b.trace.event("note", b.at(10 * i), tid=1, text="turn")
        b.alloc(10 * i + 4, (5 - i) * G)
        a.held[802] = b.held[802]
        a.ask(10 * i + 5)
        b.ask(10 * i + 5.1)
    return a.write(), b.write()


@case("a neighbour that was traced, too, is named by its trace, over two containers as inferred, and is no stranger")
def siblings():
    for name, numbers, pids, whose in (("host", "own", (801, 802), "traced"), ("pods", "other", (1, 1), "traced-inferred")):
        paths = two(name, numbers, pids, whose)
        reports = json.loads(read_json("summary", *paths))
        seen = [{p["pid"]: (p["whose"], p["traced_pid"]) for p in r["devices"][0]["processes"]}
                for r in reports["documents"]]
        self = "this" if numbers == "own" else "this-inferred"
        equal(seen, [{801: (self, None), 802: (whose, pids[1])}, {801: (whose, pids[0]), 802: (self, None)}], name)


@case("hostile names and numbers of processes are printed without their markup")
def hostile():
    m = growing("hostile")
    m.names[666] = "\x1b]0;x\x07<script>&'\"\u202e" + "n" * 100
    m.held[666] = 30 * G
    m.ask(41)
    m.alloc(45, 60 * G, fails=True)
    path = m.write()
    for view in ("summary", "timeline", "oom"):
        out = report(view, path)[1].decode()
        check("\x1b" not in out and "\u202e" not in out, view)
        check(len(max(re.findall("n+", out), key=len)) < 40, "a name grows without bound")
    check("<script>&" not in page(path), "markup in the page")


@case("thousands of processes: a bound of what is followed, said as such")
def many():
    m = Machine("many")
    for i in range(1, 401):
        m.held[10_000 + i] = 4 * M
    m.ask(1)
    m.alloc(2, G)
    path = m.write()
    equal(len(device(path)["processes"]), 256)
    said = text("summary", path)
    check(re.search(r"; \d+ more or more", said), said)


@case("the verdict of a co-tenant names the neighbour, what it held and when it grew")
def verdict():
    m = growing("verdict")
    m.held[123] = 64 * G
    m.ask(41)
    m.alloc(45, 20 * G, fails=True)
    said = text("explain", m.write())
    check("neighbour python3 (pid 123) held 64.00 GiB; it grew by 63.00 GiB between +10.000 s and +41.000 s" in said, said)


@case("a MIG instance is named in every view, with its own capacity")
def mig():
    m = growing("mig", total=40 * G, device__0__mig="1", device__0__mig_gpu_instance="3", device__0__mig_compute_instance="0",
                device__0__mig_card="1", device__0__nvml_total_bytes=str(40 * G))
    path = m.write()
    d = device(path)
    equal((d["mig"], d["capacity_bytes"]), ({"gpu_instance": 3, "compute_instance": 0, "card": 1}, 40 * G))
    equal(device(path, view="timeline")["mig"], d["mig"])
    check("GPU 0 (NVIDIA X, MIG instance 3/0 of card 1) at that moment: 40.00 GiB" in text("summary", path), text("summary", path))
    check("GPU 0 (MIG instance 3/0 of card 1), capacity 40.00 GiB" in text("timeline", path), text("timeline", path))
    for view, name in (("oom", "{} at +40.000 s"), ("frag", "{} at the OOM, +40.000 s"), ("top", "{}: 14.00 GiB at the OOM"),
                       ("leaks", "{}: "), ("top --tree", "{}: 14.00 GiB at the OOM")):
        said = text(*view.split(), path)
        check(name.format("GPU 0 (MIG instance 3/0 of card 1, 40.00 GiB)") in said, (view, said))
    for view in ("info", "stats"):
        check("GPU 0 (MIG instance 3/0 of card 1)" in text(view, path), view)
    check("GPU 0 (MIG instance 3/0 of card 1) at the failed allocation" in page(path), "the page")


@case("a MIG instance is named in the headline of summary, with and without a failure or a budget, by diff, by --fail-on")
def mig_elsewhere():
    facts = {**MIG, **IDS, "device__0__nvml_total_bytes": str(40 * G)}
    name = "GPU 0 (MIG instance 3/0 of card 1)"
    failed = growing("mig-failed", total=40 * G, **facts).write()
    quiet = Machine("mig-quiet", total=40 * G, **facts)
    quiet.alloc(1, 10 * G)
    quiet = quiet.write()
    card = Machine("card-quiet", total=80 * G)
    card.alloc(1, 10 * G)
    card = card.write()
    first = [text("summary", *words)[:200] for words in ((failed,), (quiet,), (quiet, "--capacity=5GiB"))]
    for said, wanted in zip(first, (f"OUT OF MEMORY on {name}:", f"No OOM occurred. {name}: 10.00 GiB of 40.00 GiB",
                                    f"{name} would have exceeded 5 GiB")):
        check(wanted in said, said)
    instance = name[:-1] + ", 40.00 GiB)"
    for a, b, wanted in ((quiet, failed, f" {instance}: 10.00 GiB live in A"), (card, quiet, f" GPU 0 of A, {instance} of B"),
                         (quiet, quiet, f" {instance}: no difference"), (card, card, " GPU 0: no difference")):
        check(wanted in text("diff", a, b), text("diff", a, b))
    for condition, wanted in (("peak>5GiB", f"{name}: the most that was allocated at once is 10.00 GiB"),
                              ("growth>0GiB/h", f"{name}: growth is not known")):
        status, _, said = report("summary", "--fail-on=" + condition, quiet)
        check(status in (1, 4) and wanted in " ".join(str(said, "utf-8").split()), said)
    a_less = Machine("no-device").write()
    said = report("diff", "--fail-on=peak>+1GiB", a_less, quiet)[2]
    check(f"{name}: A has no memory of this device" in " ".join(str(said, "utf-8").split()), said)


MIG = {"device__0__mig": "1", "device__0__mig_card": "1"}
IDS = {"device__0__mig_gpu_instance": "3", "device__0__mig_compute_instance": "0"}


@case("a MIG instance that is not known by its numbers, and one without a card, are named as far as they are known")
def unknown_mig():
    for name, facts, label, mig in (
            ("mode", {"device__0__mig": "1"}, "MIG instance", (None, None, None)),
            ("card", MIG, "MIG instance of card 1", (None, None, 1)),
            ("ids", {**IDS, "device__0__mig": "1"}, "MIG instance 3/0", (3, 0, None)),
            ("half", {**MIG, "device__0__mig_gpu_instance": "3"}, "MIG instance of card 1", (3, None, 1)),
            ("none", {**MIG, **IDS, "device__0__mig": "0"}, None, None)):
        path = growing("mig-" + name, total=40 * G, **facts).write()
        d = device(path)
        equal(d["mig"] and tuple(d["mig"][k] for k in ("gpu_instance", "compute_instance", "card")), mig, name)
        said = text("oom", path)
        check(f"GPU 0 ({label}, 40.00 GiB) at" in said if label else "GPU 0 at" in said, (name, said))
    none = growing("mig-bare", total=40 * G, device__0__mig="1")
    del none.trace.info["device.0.total_bytes"], none.trace.info["device.0.meminfo_total_bytes"]
    none.trace.pending = [{k: v for k, v in r.items() if k not in ("free_bytes", "total_bytes")} for r in none.trace.pending]
    said = text("oom", none.write())
    check("GPU 0 (MIG instance) at" in said, said)


@case("several traces on the instances of one card: each is a GPU of its own with its name and capacity, and none is counted twice")
def several_mig():
    paths = []
    for i, (uuid, gib) in enumerate(((0x1111 << 48, 10), (0x2222 << 48, 20))):
        m = Machine(f"slice{i}", me=301 + i, total=gib * G, **MIG, device__0__mig_gpu_instance=str(5 + i),
                    device__0__mig_compute_instance="0", device__0__uuid_hash="%016x" % uuid)
        m.alloc(1, (i + 1) * G)
        m.ask(2)
        m.alloc(3, G)
        paths.append(m.write())
    gpus = json.loads(read_json("summary", *paths))["processes"]["gpus"]
    equal([(g["mig"]["gpu_instance"], g["mig"]["compute_instance"], g["mig"]["card"], g["total_bytes"], g["tracked_bytes"], g["process_count"])
           for g in gpus], [(5, 0, 1, 10 * G, 2 * G, 1), (6, 0, 1, 20 * G, 3 * G, 1)])
    said = text("summary", *paths)
    check("GPU 0/1111: MIG instance 5/0 of card 1, 0/2222: MIG instance 6/0 of card 1" in said, said)
    check(re.search(r"0/1111 1 10\.00 GiB", said) and re.search(r"0/2222 1 20\.00 GiB", said), said)


@case("two traces on one instance are one GPU, whichever of them knows what it is")
def one_instance():
    for known in ((0,), (1,), (0, 1)):
        paths = []
        for i in range(2):
            m = Machine(f"same{i}", me=301 + i, total=10 * G, **({**MIG, **IDS} if i in known else {}))
            m.alloc(1 + i, G)
            paths.append(m.write())
        (gpu,) = json.loads(read_json("summary", *paths))["processes"]["gpus"]
        equal((gpu["process_count"], gpu["mig"]), (2, {"gpu_instance": 3, "compute_instance": 0, "card": 1}))
        check("GPU 0: MIG instance 3/0 of card 1" in text("summary", *paths), known)


def shared_with_host(name):
    """A device with the host's memory: 128 GiB, of which programs of the host take more and more."""
    m = Machine(name, memory=False, total=128 * G, device__0__integrated="1", device__0__nvml_memory_error="3")
    m.names = {100: "me"}
    m.ask(0)
    m.alloc(1, 20 * G)
    m.held[-1] = 30 * G  # of the host: NVML does not list it
    m.told[-1] = 30 * G
    m.alloc(10, 2 * G)
    m.held[-1] = m.told[-1] = 95 * G
    m.alloc(20, 2 * G)
    m.alloc(30, 20 * G, fails=True)
    return m


@case("memory that is the host's is said to be shared with it; it is nobody's growth, no co-tenant's, and no untracked memory")
def host():
    path = shared_with_host("unified").write()
    d = device(path)
    split, account = d["memory"]["crossing"], {r["component"]: r["bytes"] for r in d["account"]["crossing"]["rows"]}
    equal((d["shared_with_host"], split["untracked_bytes"], split["other_processes_bytes"]), (True, None, None))
    equal(split["untracked_or_others_bytes"], 95 * G + CONTEXT)
    equal(account["host"], 95 * G + CONTEXT)
    check("unmeasured" not in account and "others" not in account, account)
    said = text("summary", path)
    check("GPU 0 (NVIDIA X, memory shared with the host)" in said, said)
    check("95.49 GiB 74.6 % shared with the host: its programs and page cache, other processes, and contexts, modules" in said, said)
    verdicts = [v["scenario"] for v in json.loads(read_json("summary", path))["verdicts"]]
    check(not {"co-tenant", "untracked-growth"} & set(verdicts), verdicts)
    check("95.49 GiB of the host, untracked or of other processes" in text("oom", path), text("oom", path))
    check("other use, by the host, too" in text("timeline", path), text("timeline", path))
    plain = shared_with_host("discrete")
    plain.trace.info["device.0.integrated"] = "0"
    said = text("summary", plain.write())
    check("shared with the host" not in said and "untracked or of other processes: contexts, modules, graphs, rounding" in said, said)


@case("memory that is a NUMA node of the host: what others hold may be the host's pages, and no co-tenant is blamed")
def node():
    for numa, blamed in ((None, True), ("1", False)):
        m = growing("node%s" % numa, **({} if numa is None else {"device__0__numa_node": numa}))
        m.held[123] = 64 * G
        m.ask(41)
        m.alloc(45, 20 * G, fails=True)
        path = m.write()
        verdicts = [v["scenario"] for v in json.loads(read_json("summary", path))["verdicts"]]
        equal("co-tenant" in verdicts, blamed, verdicts)
        equal("other processes, host pages and the driver, by NVML" in text("summary", path), not blamed)


main()
