#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several traces as one table, against a world that the traces were drawn from.

The world knows what each process holds on each GPU at any time, what others hold and what is free. The traces have only
what their processes could see. So the report's sums are compared with what is true, and the moment with a search over
all times of the world.
"""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from make_checkpoint import state_at  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, ROOT, case, check, dice, dumped, equal, main, report, sample, scratch  # noqa: E402

M, G, S = 1 << 20, 1 << 30, 10**9
BOOT = 1795000000 * S  # time of day at which the monotonic clock was 0
NVML_ONLY = 480 * M  # of a GPU: NVML counts it, CUDA never sees it


def info(pid, uuids, boot=BOOT, host="cafe", start=40 * S, total=80 * G, **more):
    """uuids: of the process's devices by ordinal; None: unknown."""
    facts = {"process.pid": str(pid), "process.exe": "worker", "process.start_ns": str(start),
             "clock.monotonic_ns": str(50 * S), "clock.realtime_ns": str(boot + 50 * S), "host.name_hash": host}
    for ordinal, uuid in enumerate(uuids):
        facts["device.%d.name" % ordinal] = "Test GPU"
        facts["device.%d.total_bytes" % ordinal] = str(total)
        facts["device.%d.meminfo_total_bytes" % ordinal] = str(total)
        if uuid is not None:
            facts["device.%d.uuid_hash" % ordinal] = "%016x" % uuid
    facts.update({k.replace("__", "."): v for k, v in more.items()})
    return facts


class Process:
    """Its trace, and what it really holds at each time."""

    def __init__(self, pid, gpus, **facts):
        self.pid, self.gpus = pid, gpus  # gpus: of the world, by ordinal
        self.trace = Trace(trace_id=0x1000 + pid)
        self.trace.info = info(pid, [0xAB00000000000000 + (g << 48) for g in gpus], **facts)
        self.live = {}  # ptr -> (ordinal, bytes)
        self.held = {g: 0 for g in gpus}
        self.untracked = {g: 0 for g in gpus}
        self.born = {}  # gpu -> when its context was created
        self.curve = []  # (t_ns, {gpu: bytes})
        self.first_ns = self.last_ns = None
        self.next_ptr = 0x7F0000000000
        self.peak = {g: 0 for g in gpus}

    def note(self, t):
        self.first_ns = t if self.first_ns is None else self.first_ns
        self.last_ns = t
        self.curve.append((t, dict(self.held)))

    def at(self, gpu, t):
        """What is known to be held behind all events up to a time."""
        if self.first_ns is None or not self.first_ns <= t <= self.last_ns:
            return 0
        return [held[gpu] for at, held in self.curve if at <= t][-1]


class World:
    def __init__(self, seed, count, gpus):
        self.random = dice(seed)
        self.gpus = gpus
        self.now = 60 * S
        self.outside = self.random.choice((9, 300)) * M  # of a GPU: held by processes that are not traced
        self.processes = []
        for i in range(count):
            seen = list(range(gpus))
            self.random.shuffle(seen)
            self.processes.append(Process(1000 + i, seen[:self.random.randint(1, gpus)]))

    def free(self, gpu, t=None):
        """Now, or at a time, as far as processes are known then."""
        if t is not None:
            there = [p for p in self.processes if gpu in p.gpus]
            return 80 * G - self.outside - sum(p.at(gpu, t) + p.untracked[gpu] * (p.born[gpu] <= t) for p in there)
        return 80 * G - self.outside - sum(p.held.get(gpu, 0) + p.untracked.get(gpu, 0) for p in self.processes)

    def step(self):
        self.now += self.random.randint(1, 40) * 10**7
        return self.now

    def begin(self, p):
        for ordinal, gpu in enumerate(p.gpus):
            before = self.free(gpu)
            p.untracked[gpu] = self.random.randint(200, 600) * M
            t = p.born[gpu] = self.step()
            p.trace.event("context-create", t, api="cuDevicePrimaryCtxRetain", device=ordinal, context=7 + ordinal,
                          result=0, free_before_bytes=before, free_bytes=self.free(gpu), total_bytes=80 * G)
            p.note(t)
            self.sample(p, ordinal)

    def sample(self, p, ordinal):
        gpu, t = p.gpus[ordinal], self.step()
        p.trace.event("memory-sample", t, tid=9, device=ordinal, flags=["nvml"], free_bytes=self.free(gpu),
                      total_bytes=80 * G + NVML_ONLY, process_bytes=p.held[gpu] + p.untracked[gpu])
        p.note(t)

    def read(self, p, ordinal):
        """As sample, by cuMemGetInfo: nothing of the process itself."""
        t = self.step()
        p.trace.event("memory-sample", t, api="cuMemGetInfo_v2", device=ordinal, free_bytes=self.free(p.gpus[ordinal]),
                      total_bytes=80 * G)
        p.note(t)

    def allocate(self, p):
        ordinal = self.random.randrange(len(p.gpus))
        gpu, size, t = p.gpus[ordinal], self.random.randint(1, 2000) * M, self.step()
        if size > self.free(gpu):
            return
        p.next_ptr += 4 * G
        p.live[p.next_ptr] = ordinal, size
        p.held[gpu] += size
        p.peak[gpu] = max(p.peak[gpu], p.held[gpu])
        p.trace.event("alloc", t, api="cuMemAlloc_v2", device=ordinal, ptr=p.next_ptr, bytes=size, space="device",
                      result=0, context=7 + ordinal, duration_ns=1000)
        p.note(t)

    def release(self, p):
        ptr = self.random.choice(sorted(p.live))
        ordinal, size = p.live.pop(ptr)
        t = self.step()
        p.held[p.gpus[ordinal]] -= size
        p.trace.event("free", t, api="cuMemFree_v2", ptr=ptr)
        p.note(t)

    def fail(self, p):
        """A request that is larger than what is free; (time, event)."""
        ordinal, t = self.random.randrange(len(p.gpus)), self.step()
        free = self.free(p.gpus[ordinal])
        number = p.trace.event("alloc", t, api="cudaMalloc", device=ordinal, bytes=free + G, space="device", result=2,
                               context=7 + ordinal, free_bytes=free, total_bytes=80 * G)
        p.note(t)
        return t, number, p.gpus[ordinal]

    def run(self, steps):
        for p in self.processes:
            self.begin(p)
        for _ in range(steps):
            p = self.random.choice(self.processes)
            choice = self.random.random()
            if choice < 0.2:
                self.random.choice((self.sample, self.read))(p, self.random.randrange(len(p.gpus)))
            elif choice < 0.6 or not p.live:
                self.allocate(p)
            else:
                self.release(p)

    def write(self, name):
        paths = []
        for i, p in enumerate(self.processes):
            paths.append(p.trace.save(scratch("%s-%d.zst" % (name, i))))
        return paths


def table(*arguments):
    """The document of all traces, and the exit code."""
    code, out, _ = report("--json", *arguments)
    return json.loads(out)["processes"], code


def search_highest(world):
    """(sum, GPU) over all times, and the times at which it was reached."""
    times = sorted({t for p in world.processes for t, _ in p.curve} | {p.last_ns + 1 for p in world.processes})
    sums = {}
    for g in range(world.gpus):
        for t in times:
            sums[t, g] = sum(p.at(g, t) for p in world.processes if g in p.gpus)
    highest = max(sums.values())
    return highest, {k for k, v in sums.items() if v == highest}


def compare_state(world, document, t):
    """What each process and each GPU had at a time, against the world."""
    problems = []

    def expect(what, got, want):
        if got != want:
            problems.append("%s: got %r, want %r" % (what, got, want))

    for p, shown in zip(world.processes, document["processes"]):
        equal(shown["pid"], p.pid)
        for device in shown["devices"]:
            gpu = p.gpus[device["ordinal"]]
            what = "pid %d GPU %d" % (p.pid, gpu)
            expect(what + " peak", device["tracked_peak_bytes"], p.peak[gpu])
            equal(int(document["gpus"][device["gpu_index"]]["uuid_hash"], 16), 0xAB00000000000000 + (gpu << 48))
            if shown["knowledge"] == "known":
                expect(what, device["tracked_bytes"], p.at(gpu, t))
                expect(what + " parts", sum(part["bytes"] for part in device["tracked_parts"]), p.at(gpu, t))
    for shown in document["gpus"]:
        gpu = (int(shown["uuid_hash"], 16) >> 48) - 0xAB00
        what = "GPU %d" % gpu
        there = [p for p in world.processes if gpu in p.gpus]
        expect(what + " processes", shown["process_count"], len(there))
        if shown["unknown_count"] or shown["last_seen_count"]:
            continue
        expect(what + " tracked", shown["tracked_bytes"], sum(p.at(gpu, t) for p in there))
        expect(what + " parts", sum(part["bytes"] for part in shown["tracked_parts"]), shown["tracked_bytes"])
        if shown["free_bytes"] is None:
            problems.append(what + ": no free memory")
            continue
        equal(shown["tracked_bytes"] + shown["untracked_or_others_bytes"] + shown["free_bytes"],
              shown["total_bytes"], what)
        rows = {r["component"]: r["bytes"] for r in shown["account"]["rows"]}
        expect(what + " account", (shown["account"]["capacity_bytes"], sum(rows.values())), (80 * G, 80 * G))
        expect(what + " free of the account", rows.get("free", 0), world.free(gpu, t))
        if all(p.first_ns < t for p in there):
            expect(what + " rest", shown["untracked_or_others_bytes"], world.outside + sum(p.untracked[gpu] for p in there))
        if shown["untracked_bytes"] is not None:
            expect(what + " untracked", shown["untracked_bytes"], sum(p.untracked[gpu] for p in there))
            expect(what + " others", shown["other_processes_bytes"], world.outside)
            expect(what + " others of the account", rows["others"], world.outside)
            expect(what + " untracked of the account", sum(rows.get(k, 0) for k in ("contexts", "unmeasured")),
                   sum(p.untracked[gpu] for p in there))
    return problems


@case("at the highest sum: the moment, each process and each GPU are those of the world")
def highest_sum():
    problems, divided = [], 0
    for seed in range(400 if FULL else 20):
        world = World(seed, 2 + seed % 7, 1 + seed % 3)
        world.run(20 + seed)
        document, code = table(*world.write("peak%d" % seed))
        moment = document["moment"]
        equal((code, moment["what"], moment["sum_is_exact"]), (0, "peak", True))
        highest, times = search_highest(world)
        gpu = (int(document["gpus"][moment["gpu_index"]]["uuid_hash"], 16) >> 48) - 0xAB00
        equal(moment["sum_bytes"], highest, "seed %d" % seed)
        reached = [t for t, g in times if g == gpu]
        check(any(at <= moment["t_ns"] for at in reached) and
              sum(p.at(gpu, moment["t_ns"]) for p in world.processes if gpu in p.gpus) == highest, "seed %d: the moment" % seed)
        problems += ["seed %d: %s" % (seed, p) for p in compare_state(world, document, moment["t_ns"])]
        divided += sum(g["untracked_bytes"] is not None for g in document["gpus"])
    check(divided > 5, "only %d GPUs were divided" % divided)
    return problems


def compare_siblings(world, p, own, t, gpu):
    """What the account of a failure says that other traced processes held, against the world."""
    (device,) = [d for d in own["devices"] if d["ordinal"] == p.gpus.index(gpu)]
    rows = {r["component"]: r["bytes"] for r in device["account"]["crossing"]["rows"]}
    others = device["memory"]["crossing"]["other_processes_bytes"]
    want = sum(q.at(gpu, t) + q.untracked[gpu] for q in world.processes if q is not p and gpu in q.gpus)
    there = rows.get("siblings", 0) + (rows.get("others", 0) if others is not None else rows.get("unmeasured", 0))
    if others is not None and there != others:
        return ["others are %d, but %d in the account" % (others, there)]
    return [] if rows.get("siblings", 0) == min(want, there) else ["siblings: got %r, want %d of %d" % (rows, want, there)]


@case("at the OOM: the last one that was not recovered, with what was free, of any process")
def at_the_oom():
    problems, siblings = [], 0
    for seed in range(400 if FULL else 20):
        world = World(1000 + seed, 2 + seed % 7, 1 + seed % 2)
        world.run(30)
        failed = {}
        for p in world.random.sample(world.processes, 1 + seed % 2):
            failed[p.pid] = world.fail(p)
            for q in world.processes:
                world.sample(q, 0)
        paths = world.write("oom%d" % seed)
        document, _ = table(*paths)
        documents = json.loads(report("--json", *paths)[1])["documents"]
        pid = max(failed, key=lambda k: failed[k][0])
        t, number, gpu = failed[pid]
        moment = document["moment"]
        equal((moment["what"], moment["t_ns"], moment["event"], document["processes"][moment["process_index"]]["pid"]),
              ("oom", t, number, pid))
        for shown in document["processes"]:
            equal(shown["incidents_failed"], int(shown["pid"] in failed))
        problems += ["seed %d: %s" % (seed, p) for p in compare_state(world, document, t)]
        shown = [g for g in document["gpus"] if int(g["uuid_hash"], 16) >> 48 == 0xAB00 + gpu][0]
        crossing = document["processes"][moment["process_index"]]["crossing"]
        equal(shown["free_bytes"], crossing["free_bytes"], "seed %d: free" % seed)
        for p, own in zip(world.processes, documents):
            if p.pid in failed:
                problems += ["seed %d: %s" % (seed, text) for text in compare_siblings(world, p, own, *failed[p.pid][::2])]
                siblings += 1
    check(siblings > 20, siblings)
    return problems


def simple(pid, sizes, t=60 * S, step=S, last=True, trace_id=None, gpus=(1,), end=None, **facts):
    """A process that allocates sizes on its first device."""
    trace = Trace(trace_id=trace_id or 0x5000 + pid)
    trace.info = info(pid, [g and g << 48 for g in gpus], **facts)
    for i, size in enumerate(sizes):
        trace.event("alloc", t + i * step, api="cuMemAlloc_v2", device=0, ptr=0x7F0000000000 + i * 4 * G, bytes=size,
                    space="device", result=0, context=1)
    if end:
        trace.event("note", end, text="the end")
    trace.flush(last=last)
    return trace


def one(name, *arguments, **keywords):
    return scratch(name, simple(*arguments, **keywords).bytes())


@case("another clock of which the time of day is not known: no common moment, no sums, own peaks")
def no_common_clock():
    a = one("clock-a.zst", 1, [3 * M, 5 * M])
    for name, facts in (("time", {"clock__realtime_ns": "x"}), ("both", {"host": "beef", "clock__realtime_ns": "x"})):
        b = one("clock-%s.zst" % name, 2, [7 * M], **facts)
        document, code = table(a, b)
        equal((code, document["same_clock"], document["alignment"], document["moment"]), (0, False, None, None))
        equal((document["host_count"], document["time_of_day_drift_ns"]), (2, None))
        equal([p["devices"][0]["tracked_bytes"] for p in document["processes"]], [8 * M, 7 * M])
        check(all(g[k] is None for g in document["gpus"]
                  for k in ("tracked_bytes", "account", "free_bytes", "untracked_or_others_bytes")))
        text = report(a, b)[1].decode()
        check("no common time" in text and "capacity" not in text, text)
    for name, facts in (("slew", {"boot": BOOT + S // 2}),
                        ("container", {"host": "beef", "host__boot_hash": "77"})):
        c = one("clock-c.zst", 3, [5 * M], host__boot_hash="77")
        b = one("clock-%s.zst" % name, 2, [7 * M], **facts)
        equal(table(c if name == "container" else a, b)[0]["same_clock"], True, name)


@case("a trace that cannot be read and one that is INCOMPLETE are rows, and hide no other; the exit code is the largest")
def broken_traces():
    a, b = one("good.zst", 1, [3 * M]), one("cut.zst", 2, [5 * M], last=False)
    bad = scratch("bad.zst", b"nothing" * 100)
    for paths, want in (((a, b), 4), ((a, bad), 3), ((a, b, bad), 4), ((bad, bad), 3)):
        code, out, err = report(*paths)
        equal(code, want, paths)
        equal(err.count(b"\n"), sum(p == bad for p in paths), err)
        text = out.decode()
        check(("INCOMPLETE" in text) == (b in paths), text)
        check(("unreadable: " in text) == (bad in paths), text)
        check((" 1  worker" in text) == (a in paths), text)
    check(report(a, b, bad)[1].startswith(b"No OOM occurred, as far as the traces show: 1 cannot be read, 1 INCOMPLETE\n"))
    check(report(a, one("whole.zst", 7, [M]))[1].startswith(b"No OOM occurred\n"))
    document, code = table(a, b, bad)
    equal(code, 4)
    equal([p["state"] for p in document["processes"]], ["complete", "INCOMPLETE", None])
    check(document["processes"][2]["error"] and not document["processes"][0]["error"])
    equal({k for k, v in document["processes"][2].items() if v is not None}, {"file", "error"})
    nothing = scratch("nothing.zst", simple(4, [], last=False).bytes())
    code, out, _ = report(a, nothing)
    equal(code, 4)
    check(b"no event, nothing is known of it" in out, out)


@case("the same trace twice, or a shorter copy of it, counts once")
def same_trace():
    trace = simple(1, [3 * M, 5 * M], last=False)
    short = scratch("short.zst", trace.bytes())
    trace.event("alloc", 70 * S, api="cuMemAlloc_v2", device=0, ptr=0x10000000, bytes=M, space="device", result=0)
    long, other = trace.save(scratch("long.zst")), one("other.zst", 2, [7 * M], end=80 * S)
    for paths, counted in (((long, other, long), 0), ((long, short, other), 0), ((short, other, long), 2),
                           ((short, long, short, other), 1)):
        document, _ = table(*paths)
        equal(document["gpus"][0]["process_count"], 2)
        equal(document["gpus"][0]["tracked_bytes"], 16 * M)
        for i, p in enumerate(document["processes"]):
            copies = paths[i] != other and i != counted
            equal(p["same_as"], counted if copies else None, "%r %d" % (paths, i))
            check(not copies or {k for k, v in p.items() if v is not None} == {"file", "same_as"}, p)
        equal(report(*paths)[1].count(b"the same trace as"), len(paths) - 2)


@case("GPUs are told apart by UUID, not by ordinal; without one by ordinal, and that is said")
def which_gpu():
    a, b = one("gpu-a.zst", 1, [3 * M], gpus=(1, 2)), one("gpu-b.zst", 2, [5 * M], gpus=(2, 1))
    document, _ = table(a, b)
    equal([g["tracked_bytes"] for g in document["gpus"]], [3 * M, 5 * M])
    c, d = one("gpu-c.zst", 3, [3 * M], gpus=(None,)), one("gpu-d.zst", 4, [5 * M], gpus=(None,))
    document, _ = table(c, d)
    equal([g["tracked_bytes"] for g in document["gpus"]], [8 * M])
    check(b"told apart by CUDA's number alone" in report(c, d)[1])
    document, _ = table(a, c)
    equal(sorted((g["uuid_hash"] is None, g["tracked_bytes"]) for g in document["gpus"]), [(False, 3 * M), (True, 3 * M)])


@case("a reading during another process's allocation proves nothing: an older one counts, or nothing is said")
def reading_in_flight():
    a = Trace(trace_id=0x77)
    a.info = info(1, [1 << 48])
    a.event("alloc", 70 * S, api="cuMemAlloc_v2", device=0, ptr=0x7F0000000000, bytes=20 * G, space="device", result=0,
            duration_ns=2 * S)
    a.event("note", 90 * S, text="end")
    path = a.save(scratch("flight-a.zst"))
    for older in (1, 0):
        b = Trace(trace_id=0x78)
        b.info = info(2, [1 << 48])
        if older:
            b.event("memory-sample", 60 * S, device=0, flags=["nvml"], free_bytes=79 * G, total_bytes=80 * G, process_bytes=G)
        b.event("memory-sample", 69 * S, device=0, flags=["nvml"], free_bytes=59 * G, total_bytes=80 * G, process_bytes=G)
        b.event("note", 90 * S, text="end")
        shown = table(path, b.save(scratch("flight-b.zst")))[0]["gpus"][0]
        equal((shown["tracked_bytes"], shown["free_bytes"], shown["untracked_or_others_bytes"], shown["calls_under_way_bytes"]),
              (20 * G, 59 * G, G, 0) if older else (20 * G, None, None, 20 * G))


@case("what follows the OOM at the same time, or after a gap, is no part of its moment")
def behind_the_oom():
    t = Trace(trace_id=0x55)
    t.info = info(1, [1 << 48])
    d = {"api": "cuMemAlloc_v2", "device": 0, "space": "device"}
    t.event("alloc", 60 * S, ptr=0x10000000, bytes=G, result=0, **d)
    t.event("alloc", 61 * S, bytes=90 * G, result=2, free_bytes=70 * G, total_bytes=80 * G, **d)
    t.event("alloc", 61 * S, ptr=0x80000000, bytes=2 * G, result=0, **d)
    document, _ = table(t.save(scratch("behind.zst")), one("beside.zst", 2, [3 * G], end=90 * S))
    equal((document["moment"]["event"], document["gpus"][0]["tracked_bytes"]), (1, 4 * G))


@case("what a process held behind a gap in its trace is said as unknown, and so is a peak there")
def behind_a_gap():
    first = simple(1, [3 * M], last=False)
    first.event("alloc", 63 * S, api="cuMemAlloc_v2", device=0, ptr=0x10000000, bytes=90 * M, space="device", result=0)
    first.flush()
    first.event("alloc", 64 * S, api="cuMemAlloc_v2", device=0, ptr=0x20000000, bytes=2 * M, space="device", result=0)
    whole = first.save(scratch("whole-of-gap.zst"))
    del first.out[1]
    gap, idle = scratch("gap.zst", first.bytes()), scratch("idle.zst", simple(2, []).bytes())
    for path, peak, known in ((whole, 95 * M, True), (gap, 5 * M, False)):
        document, _ = table(path, idle)
        (p, _), (gpu,), (device,) = document["processes"], document["gpus"], document["processes"][0]["devices"]
        equal((p["knowledge"], device["tracked_bytes"]), ("known", peak) if known else ("unknown", None))
        equal((device["tracked_peak_bytes"], device["tracked_peak_known"]), (peak, known))
        equal((gpu["tracked_bytes"], gpu["unknown_count"]), (peak if known else 0, 0 if known else 1))
        text = report(path, idle)[1].decode()
        equal("Most tracked on one GPU by all together: %d.00 MiB on GPU 0, at " % (peak // M) in text, True, text)
        equal((", as far as it is known\n" in text, "1 with events missing\n" in text), (not known, not known), text)
        row = next(line for line in text.splitlines() if re.match(" *1  worker ", line)).split()
        equal(row[2:], ["0", "95.00", "MiB", "-", "95.00", "MiB", "0", "complete"] if known else ["0", "-", "-", "-", "0", "damaged"])


@case("what another process takes between two readings is not a process's own")
def growth_of_others():
    world = World(1, 2, 1)
    world.outside = 9 * M
    a, b = world.processes
    world.begin(a)
    world.begin(b)
    world.read(a, 0)
    for p in (a, b, a):
        world.allocate(p)
    t = world.now
    for p in (a, b):
        p.trace.event("note", world.step(), text="end")
        p.note(world.now)
    document, _ = table(*world.write("growth"))
    equal((document["moment"]["t_ns"], document["gpus"][0]["other_processes_bytes"]), (t, 9 * M))
    return compare_state(world, document, t)


@case("what was last seen before the moment is marked, and dropped where it cannot be there any more")
def last_seen():
    def oom(free):
        t = Trace(trace_id=0x99)
        t.info = info(2, [1 << 48])
        t.event("alloc", 60 * S, api="cuMemAlloc_v2", device=0, ptr=0x7F0000000000, bytes=G, space="device", result=0)
        t.event("alloc", 90 * S, api="cudaMalloc", device=0, bytes=79 * G, space="device", result=2, free_bytes=free,
                total_bytes=80 * G)
        return t.save(scratch("oom-seen.zst"))
    a = one("seen.zst", 1, [30 * G], t=50 * S)
    document, _ = table(a, oom(40 * G))
    equal(document["processes"][0]["knowledge"], "last_seen")
    shown = document["gpus"][0]
    equal((shown["tracked_bytes"], shown["last_seen_count"], shown["untracked_bytes"]), (31 * G, 1, None))
    check(b"30.00 GiB*" in report(a, scratch("oom-seen.zst"))[1])
    document, _ = table(a, oom(70 * G))
    equal(document["processes"][0]["knowledge"], "unknown")
    shown = document["gpus"][0]
    equal((shown["tracked_bytes"], shown["unknown_count"], shown["untracked_or_others_bytes"], shown["free_bytes"]),
          (G, 1, 9 * G, 70 * G))
    old = one("old.zst", 3, [3 * G], t=10 * S, start=5 * S)
    equal(table(old, oom(40 * G))[0]["processes"][0]["knowledge"], "unknown")
    young = one("young.zst", 4, [3 * G], t=200 * S, start=190 * S)
    document, _ = table(young, oom(40 * G))
    equal((document["processes"][0]["knowledge"], document["processes"][0]["devices"][0]["tracked_bytes"]), ("not_started", 0))


@case("processes that see different capacities have no common remainder")
def different_capacities():
    paths = []
    for pid, total in ((1, 80 * G), (2, 40 * G)):
        t = Trace(trace_id=pid)
        t.info = info(pid, [1 << 48], total=total)
        t.event("memory-sample", 60 * S, device=0, free_bytes=10 * G, total_bytes=total)
        t.event("alloc", 61 * S, api="cuMemAlloc_v2", device=0, ptr=0x7F0000000000, bytes=G, space="device", result=0)
        paths.append(t.save(scratch("capacity-%d.zst" % pid)))
    shown = table(*paths)[0]["gpus"][0]
    equal((shown["totals_differ"], shown["free_bytes"], shown["tracked_bytes"]), (True, None, 2 * G))


@case("options about one process are refused with one line, and so is standard input")
def options():
    a, b = one("opt-a.zst", 1, [3 * M]), one("opt-b.zst", 2, [5 * M])
    for option in ("--device=0", "--from=1", "--to=1:00", "--capacity=1GiB"):
        code, out, err = report(option, a, b)
        equal((code, out, err.count(b"\n")), (2, b"", 1), option)
        check(option.split("=", maxsplit=1)[0].encode() in err, err)
        code, out, _ = report("--json", option, a, b)
        equal((code, [d["schema"] for d in json.loads(out)["documents"]]), (0, ["cutrace.summary/2"] * 2), option)
    code, out, err = report(a, "-", data=b"")
    equal((code, out, err.count(b"\n")), (2, b"", 1))
    said = json.loads(report("top", "--json", a, b)[1])
    equal(([d["schema"] for d in said["documents"]], said["processes"]), (["cutrace.top/2"] * 2, None))
    check(b"== " in report("top", a, b)[1] and b"== " not in report(a, b)[1])


def oom_of(api, pid):
    t = Trace(trace_id=pid)
    t.info = info(pid, [1 << 48])
    t.event("alloc", 61 * S, api=api, device=0, bytes=79 * G, space="device", result=2, free_bytes=G, total_bytes=80 * G)
    t.flush(last=True)
    return t.bytes()


def screen(*arguments):
    """In the folder of the traces: a long path takes lines of its own."""
    os.chdir(os.path.dirname(arguments[-1]))
    code, out, _ = report(*map(os.path.basename, arguments), columns=80)
    os.chdir("/")
    equal(code, 0)
    lines = out.decode().splitlines()
    wide = [line for line in lines if len(line) > 80]
    check(not wide, wide)
    return lines


@case("8 processes fit on a screen, on one GPU and on eight; 64 like ones collapse to a row")
def sizes_of_screens():
    for gpus in (1, 8):
        paths = []
        for i in range(8):
            t = Trace(trace_id=i + 1)
            t.info = info(4000000 + i, [(1 + i % gpus) << 48], device__0__nvml_index=str(i % gpus))
            t.info["process.env.RANK"] = str(i)
            t.event("memory-sample", 60 * S + i, device=0, flags=["nvml"], free_bytes=79 * G, total_bytes=80 * G, process_bytes=M)
            t.event("alloc", 61 * S + i, api="cuMemAlloc_v2", device=0, ptr=0x7F0000000000, bytes=(1 + i) * G, space="device", result=0)
            t.event("alloc", 62 * S + i, api="cudaMalloc", device=0, bytes=79 * G, space="device", result=2,
                    free_bytes=70 * G, total_bytes=80 * G)
            t.event("note", 63 * S, text="end")
            paths.append(t.save(scratch("screen-%d-%d.zst" % (gpus, i))))
        lines = screen(*paths)
        check(len(lines) <= 24, "\n".join(lines))
        equal(sum(" worker" in line for line in lines[2:]), 8)
        check("rank 7" in lines[0] and "rank 0" in lines[2], lines)
    paths = [one("many-%d.zst" % i, 5000 + i, [G + i * 4096], end=90 * S) for i in range(64)]
    lines = screen(*paths)
    check(len(lines) <= 12 and any("63 more like this" in line for line in lines), "\n".join(lines))
    paths = [one("many-%d.zst" % i, 5000 + i, [G + i * G // 8], end=90 * S) for i in range(64)]
    lines = screen(*paths)
    check(len(lines) <= 24 and any("more (-n 64 shows all)" in line for line in lines), "\n".join(lines))
    equal(sum(" worker" in line for line in screen("-n", "64", *paths)), 64)


@case("text of a trace moves no cursor, also here")
def hostile():
    evil = "\x1b[2J\x07\u202e"
    a = one("evil.zst", 1, [M], process__exe=evil, process__env__RANK=evil, device__0__name=evil)
    out = report(a, one("tame.zst", 2, [M]))[1]
    check(not [c for c in out if c < 32 and c != 10] and evil[-1].encode() not in out, out)


RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))


@case("a recorded sender and its receiver on an H100: shared memory counts once, and all adds up to 14.4 MiB of the driver's")
def recorded_pair():
    sender, receiver = (p for name in ("sender", "receiver") for p in RECORDED if p.endswith("/expandable-%s.zst" % name))
    document, code = table(sender, receiver)
    equal((code, document["same_clock"]), (0, True))
    t = document["moment"]["t_ns"]
    equal([p["devices"][0]["tracked_bytes"] for p in document["processes"]], [state_at(sender, t).devices[0].tracked, 0])
    gpu = document["gpus"][0]
    # NVML, at the receiver's first event: the sender used 683671552, the receiver 543162368, of 85520809984 were
    # 83775586304 free; CUDA has 85017493504. What no process has is the driver's.
    equal(gpu["free_bytes"], 83775586304)
    equal(gpu["tracked_bytes"] + gpu["untracked_bytes"], 683671552 + 543162368)
    equal(gpu["other_processes_bytes"], 85017493504 - 83775586304 - 683671552 - 543162368)


@case("the OOM of a process is that of its own document, and its figures are those of its event")
def crossings():
    long = scratch("long-name.zst", oom_of("f" * 150, 9))
    paths = [p for p in RECORDED if "exhausted" in p] + [long, one("no-oom.zst", 8, [M])]
    said = json.loads(report("--json", *paths)[1])
    shown = [(p["crossing"], d["crossing"]) for p, d in zip(said["processes"]["processes"], said["documents"])]
    equal([a for a, _ in shown], [b and {k: b[k] for k in a or b} for a, b in shown])
    for path, (crossing, _) in zip(paths[:-1], shown):
        (event,) = [e for e in dumped(path) if e["event"] == crossing["event"]]
        equal([crossing[k] for k in ("t_ns", "device", "api", "requested_bytes")],
              [event[k] for k in ("t_ns", "device", "api", "bytes")], path)
    equal([crossing and crossing["api"] for crossing, _ in shown], [None, "f" * 150, None])


@case("any recorded traces together: every GPU adds up, or says that it does not")
def recorded_mixtures():
    draw, divided = dice(5), 0
    for _ in range(60 if FULL else 12):
        document, _ = table(*draw.sample(RECORDED, draw.randint(2, 6)))
        for gpu in document["gpus"]:
            if gpu["free_bytes"] is None:
                check(gpu["contradictory"] or gpu["calls_under_way_bytes"] or not gpu["total_bytes"], gpu)
                continue
            equal(gpu["tracked_bytes"] + gpu["untracked_or_others_bytes"] + gpu["free_bytes"],
                  gpu["total_bytes"])
            if gpu["untracked_bytes"] is not None:
                divided += 1
                equal(gpu["untracked_bytes"] + gpu["other_processes_bytes"] + gpu["unattributed_bytes"], gpu["untracked_or_others_bytes"])
        known = [p for p in document["processes"] if p["knowledge"] in ("known", "last_seen")]
        equal(document["gpus"][0]["tracked_bytes"], sum(d["tracked_bytes"] for p in known for d in p["devices"]))
    check(divided or not FULL)


def sizes_of_log(folder, pattern):
    with open(os.path.join(ROOT, "tests/report/vllm", folder, "log.txt"), encoding="utf-8") as f:
        return [float(x) for x in re.findall(pattern, f.read())]


@case("real vLLM: what the processes of one GPU hold is named as their logs do; shared memory counts once")
def parts_of_vllm():
    folder = os.path.join(ROOT, "tests/report/vllm")
    document, _ = table(*sorted(glob.glob(os.path.join(folder, "tensor-parallel/*.zst"))))
    weights = sizes_of_log("tensor-parallel", r"Model loading took ([0-9.]+) GiB")
    for gpu in document["gpus"]:
        parts = {p["component"]: p["bytes"] / G for p in gpu["tracked_parts"]}
        check(abs(parts["weights"] - weights[0]) < 0.006, (parts, weights))
    for p in sample(document["processes"], 1):  # each worker has memory of the other one, on the GPU of that
        (device,) = p["devices"]
        events = [e for e in dumped(p["file"]) if e["t_ns"] <= p["moment_ns"] and not e["result"]]
        theirs = [e for e in events if e["op"] in ("import", "ipc-open")]
        equal({e["device"] for e in theirs}, {1 - device["ordinal"]})
        imported = {e["handle"] for e in theirs if e["op"] == "import"} - {e["handle"] for e in events if e["op"] == "release"}
        mapped = sum(e["bytes"] for e in events if e["op"] == "map" and e["handle"] in imported)
        check(mapped)
        shared = p["shared_elsewhere"]
        equal((shared["imported"], shared["imported_bytes"], shared["opened"], shared["exported"]), (len(imported), mapped, 2, 0))
        equal((device["imported_bytes"], device["opened"]), (0, 0))
    document, _ = table(*sorted(glob.glob(os.path.join(folder, "weight-update/*.zst"))))
    (gpu,) = document["gpus"]
    parts = {p["component"]: p["bytes"] for p in gpu["tracked_parts"]}
    of_each = {}
    for p in document["processes"]:
        for part in p["devices"][0]["tracked_parts"]:
            of_each[part["component"]] = of_each.get(part["component"], 0) + part["bytes"]
    equal(parts, of_each)
    check(parts["weights"] / G > sizes_of_log("weight-update", r"Model loading took ([0-9.]+) GiB")[0] - 0.006)


main()
