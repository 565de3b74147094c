#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the report says of a device at every moment: parts that add up, no allocation counted twice, and one figure in all views.

A program (tests/unit/moments_program.c) replays each trace and compares every moment with a second implementation. The
generated traces come from a device that is simulated here: when a call takes or gives back its memory, and what NVML and
cuMemGetInfo see meanwhile, is drawn at random within the call, and what is untracked never changes.
"""
import glob
import heapq
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import Trace, zstd_frame  # noqa: E402
from tap import BUILD, FULL, ROOT, case, check, dice, equal, main, no_lines, report, sample, scratch  # noqa: E402

M = 1 << 20
TOTAL, NVML_TOTAL, CONTEXT, DRIVER = 81079 * M, 81559 * M, 518 * M, 9240576
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))


def moments(*args):
    """The counts that the program prints for each trace, and its problems."""
    done = subprocess.run([os.path.join(BUILD, "tests/unit/programs/moments_program"), *args], capture_output=True, text=True,
                          check=False)
    lines = done.stdout.splitlines()
    counts = [dict(zip(words[::2], map(int, words[1::2]))) for words in
              (re.sub(r"^.*?: ", "", line).split() for line in lines if not line.startswith("problem:"))]
    problems = [line for line in lines if line.startswith("problem:")]
    check(problems or done.returncode == 0, "exit status %d: %s" % (done.returncode, done.stderr))
    return counts, problems


def total(counts, key):
    return sum(c[key] for c in counts)


# ---- a simulated device -------------------------------------------------------------------------

class Device:
    """Threads that allocate and free, an instrument that reads, and the truth about each byte."""

    def __init__(self, seed):
        self.random = dice(seed)
        self.held = 0  # by this process's allocations, in the device
        self.todo = []  # (time, number, function)
        self.events = []  # (time, number, op, fields)
        self.number = 0
        self.live = []

    def at(self, time, function):
        self.number += 1
        heapq.heappush(self.todo, (time, self.number, function))

    def record(self, time, op, **fields):
        self.number += 1
        self.events.append((time, self.number, op, dict(fields, device=0)))

    def hold(self, size):
        self.held += size

    def sample(self, time, reader):
        free = TOTAL - CONTEXT - DRIVER - self.held
        if reader == "nvml":
            self.record(time, "memory-sample", tid=9, flags=["nvml"], free_bytes=free, total_bytes=NVML_TOTAL,
                        process_bytes=CONTEXT + self.held)
        else:
            self.record(time, "memory-sample", tid=reader, free_bytes=free, total_bytes=TOTAL)

    def step(self, time, tid, until):
        """A call of a thread, and when the next one begins."""
        r = self.random
        duration = int(10 ** r.uniform(3.1, 7.5))
        end = time + duration
        if self.live and r.random() < 0.3 + 0.4 * (len(self.live) > 20):
            address, size = self.live.pop(r.randrange(len(self.live)))
            self.record(time, "free", tid=tid, ptr=address)
            self.at(r.randint(time, end), lambda _: self.hold(-size))
        elif self.held > 0.8 * TOTAL:
            free = TOTAL - CONTEXT - DRIVER - self.held
            self.record(end, "alloc", tid=tid, bytes=free + 2 * M, result=2, duration_ns=duration, space="device",
                        free_bytes=free, total_bytes=TOTAL)
            end = time + 1  # what it read is of now
            self.events[-1] = (end,) + self.events[-1][1:]
            self.events[-1][3]["duration_ns"] = 1
        else:
            size = 2 * M * r.choice((1, 1, 2, 10, 100, 1000))
            address = 0x700000000000 + self.number * (1 << 32)
            self.at(r.randint(time, end), lambda _: self.hold(size))
            self.at(end, lambda now: self.live.append((address, size)))
            self.record(end, "alloc", tid=tid, ptr=address, bytes=size, duration_ns=duration, space="device")
        if r.random() < 0.05:
            self.at(end + 1, lambda now: self.sample(now, tid))
        following = end + 2 + int(10 ** r.uniform(2, 7))
        if following < until:
            self.at(following, lambda now: self.step(now, tid, until))

    def run(self, threads, until):
        for reader in (1, "nvml"):
            self.sample(1000 + (reader == 1), reader)
        for tid in range(1, threads + 1):
            self.at(2000 + tid, lambda now, tid=tid: self.step(now, tid, until))
        for time in range(100000, until, 3000000):
            self.at(time + self.random.randrange(1000000), lambda now: self.sample(now, "nvml"))
        while self.todo:
            time, _, function = heapq.heappop(self.todo)
            function(time)

    def write(self, path):
        trace = Trace(compress=zstd_frame)
        trace.info["device.0.meminfo_total_bytes"] = str(TOTAL)
        for i, (time, _, op, fields) in enumerate(sorted(self.events, key=lambda e: e[:2])):
            trace.event(op, time, **fields)
            if i % 2000 == 1999:
                trace.flush()
        return trace.save(path)


# ---- every moment -------------------------------------------------------------------------------

@case("recorded traces, at every event: the parts are the capacity, and the rest is what readings without calls left")
def recorded():
    check(len(RECORDED) >= 13)
    some = sample(RECORDED, 5)
    counts, problems = moments("--torch", *some)
    for path, c in zip(some, counts):
        if not c["most"] <= 2 << 30:
            problems.append("%s: %d bytes untracked" % (path, c["most"]))
    return problems or "%d moments, %d readings" % (total(counts, "moments"), total(counts, "readings"))


@case("golden traces, at every event")
def golden():
    counts, problems = moments(*GOLDEN)
    return problems or "%d moments" % total(counts, "moments")


@case("generated traces of several threads, at every event: what is untracked never changes")
def generated():
    problems, counts = [], []
    for seed in range(200 if FULL else 2):
        device = Device(seed)
        device.run(threads=1 + seed % 5, until=(20 if seed % 2 else 4) * 10 ** 9)
        path = device.write(scratch("generated-%d.zst" % seed))
        found, more = moments(path)
        counts += found
        problems += more
        c = found[0]
        if (c["least"], c["most"]) != (CONTEXT + DRIVER,) * 2:
            problems.append("seed %d: %d to %d bytes untracked, the truth is %d" %
                            (seed, c["least"], c["most"], CONTEXT + DRIVER))
    check(total(counts, "during_calls") > 100, "%d readings fell into calls" % total(counts, "during_calls"))
    return problems or "%d moments, %d readings, %d of them during calls" % tuple(
        total(counts, key) for key in ("moments", "readings", "during_calls"))


# ---- what the views say -------------------------------------------------------------------------

def view(name, path, *options):
    code, out, err = report("--json", name, *no_lines(name), *options, path)
    check(code == 0, "%s %s %s: exit status %d, %s" % (name, options, path, code, err))
    return json.loads(out)


def until(trace, t_ns):
    """The option that ends at a time."""
    return "--to=%.9f" % ((t_ns - trace["start_ns"]) / 1e9)


def recorded_trace(name):
    return next(path for path in RECORDED if os.path.basename(path) == name)


@case("a reading during a cudaMalloc crosses no budget and makes no peak in the timeline")
def no_spike():
    path = recorded_trace("recovered.zst")
    device = view("timeline", path)["devices"][0]
    highest = max(c["used_bytes_max"] or 0 for c in device["columns"])
    peak = view("summary", path)["devices"][0]["peak_bytes"]
    check(highest <= peak + CONTEXT + DRIVER, "%d in use, %d allocated at the peak" % (highest, peak))
    crossing = view("summary", path, "--capacity=62GiB")["crossing"]  # 39.33 GiB more were asked for, and no reading crossed
    equal((crossing["event"], crossing["op"], crossing["result"]), (15, "alloc", 2), "crossing of 62 GiB")
    equal(view("summary", path, "--capacity=58GiB")["crossing"]["op"], "alloc", "what crossed")
    memory = view("summary", path, until({"start_ns": 0}, 4.1605e9))["devices"][0]["memory"]["end"]
    equal((memory["in_flight_bytes"], memory["untracked_bytes"]), (42232446976, CONTEXT), "in flight, untracked")
    code, out, _ = report("--from=4.05", path)
    check(code == 0 and re.search(rb" 518.00 MiB +0.6 %  untracked.*\n.*\n +39.33 GiB +49.7 %  free", out), out)


def torch_checkpoints(path):
    with open(path[:-4] + ".jsonl", encoding="utf-8") as f:
        return [c for c in map(json.loads, f) if c.get("op") == "checkpoint" and c.get("kind") == "torch"]


@case("at PyTorch's own checkpoints: its totals, and its free memory but for modules that were loaded since the last reading")
def at_checkpoints():
    problems, count = [], 0
    for path in sample(RECORDED, 5):
        whole = view("summary", path)
        for mark in sample(torch_checkpoints(path), 4):
            device = view("summary", path, until(whole, mark["t_ns"]))["devices"][0]
            pool, memory = device["pool"]["end"], device["memory"]["end"]
            if pool is not None and (pool["reserved_bytes"], pool["allocated_bytes"]) != (mark["reserved"], mark["allocated"]):
                problems.append("%s %s: pool %s" % (path, mark, pool))
            apart = memory["free_bytes"] - mark["free"]
            if not -64 * M <= apart <= 256 * M:
                problems.append("%s %s: %d bytes more free than PyTorch read" % (path, mark["name"], apart))
            count += 1
    return problems or "%d checkpoints" % count


def rows_of(path, *options):
    """The rows of summary that say how the memory of its device is used, in bytes."""
    code, out, _ = report("summary", *no_lines("summary"), "--units=bytes", *options, path)
    check(code in (0, 4), out)
    names = {"tracked:": "tracked", "idle in CUDA's": "pools idle", "in flight:": "in flight", "untracked:": "untracked",
             "untracked or of": "untracked", "this process's or": "nobody knows",
             "other processes and": "others", "free": "free"}
    rows = re.findall(r"^ +(\d+) +[<>\d.]+ %% +(%s)" % "|".join(names), out.decode(), re.M)
    return {names[name]: int(size) for size, name in rows}


def said_in_json(memory):
    """The same rows by a memory split."""
    rows = {"tracked": memory["tracked_bytes"], "pools idle": memory["pool_idle_bytes"] or None,
            "in flight": memory["in_flight_bytes"] or None, "others": memory["other_processes_bytes"],
            "nobody knows": memory["untracked_bytes"] is not None and memory["unattributed_bytes"] or None,
            "untracked": memory["untracked_or_others_bytes"] if memory["untracked_bytes"] is None else memory["untracked_bytes"],
            "free": memory["free_bytes"]}
    return {name: size for name, size in rows.items() if size is not None}


@case("the memory at the peak is that of its moment, not of the end; text and JSON say the same at the peak and at a crossing")
def memory_of_moments():
    moments_seen, apart = {"crossing": 0, "peak": 0}, 0
    whole = [p for p in GOLDEN if report("info", p)[0] == 0]
    for path in sample(RECORDED, 4) + sample(whole, 6):
        for options in ((), ("--capacity=2GiB",), ("--capacity=500GiB",)):
            summary = view("summary", path, *options)
            crossing = summary["crossing"]
            main = None
            for device in summary["devices"] or []:
                memory = device["memory"]
                here = crossing is not None and crossing["device"] == device["ordinal"]
                equal(memory["crossing"], crossing["memory"] if here else None, path)
                if here or crossing is None and (main is None or device["peak_bytes"] > main["peak_bytes"]):
                    main = device
                peak = memory["peak"]
                equal(peak["tracked_bytes"] - peak["pool_idle_bytes"] + peak["managed_bytes"], device["peak_bytes"], path)
                apart += peak != memory["end"]
                if summary["budget_bytes"] is None and peak["used_bytes"] is not None:
                    then = view("summary", path, until(summary, device["peak_t_ns"]))["devices"]
                    (then,) = [d for d in then if d["ordinal"] == device["ordinal"]]
                    equal(peak, then["memory"]["end"] if then["peak_t_ns"] == device["peak_t_ns"] else peak, path)
                elif peak["used_bytes"] is not None:
                    equal(peak["free_bytes"], max(0, summary["budget_bytes"] - peak["used_bytes"]), path)
            if main is not None:
                when = "crossing" if crossing else "peak"
                equal(rows_of(path, *options), said_in_json(main["memory"][when]), "%s %s" % (path, when))
                moments_seen[when] += 1
    check(min(moments_seen.values()) > (10 if FULL else 0) and apart > (10 if FULL else 0), (moments_seen, apart))
    return "%r" % moments_seen


# ---- whose memory it is -------------------------------------------------------------------------

def shared_device(seed, path):
    """A trace of one thread beside a neighbour; (own untracked, the neighbour's) at each of its OOMs.

    Between two reports of NVML one of the two changes, in one direction: then nothing that is said of one of them may be
    more than it had."""
    draw, trace, now = dice(seed), Trace(compress=zstd_frame), 10 ** 9
    trace.info["device.0.meminfo_total_bytes"] = str(TOTAL)
    own, others, live, truths = 300 * M, draw.choice((0, 2000)) * M, [], []

    def free():
        return TOTAL - own - others - sum(size for _, size in live)

    for interval in range(40):
        now += draw.randrange(10 ** 6, 10 ** 9)
        if interval % 7 != 6:  # a report is missing now and then
            trace.event("memory-sample", now, device=0, tid=9, flags=["nvml"], free_bytes=free(), total_bytes=NVML_TOTAL,
                        process_bytes=own + sum(size for _, size in live))
        whose, sign = draw.random() < 0.5, draw.choice((1, 1, -1))
        if interval % 7 == 6:
            whose, sign = last  # or else both might have changed between two reports
        last = whose, sign
        for _ in range(draw.randrange(1, 6)):
            now += draw.randrange(10 ** 6, 8 * 10 ** 8)
            change = sign * draw.randrange(0, 1500) * M * (draw.random() < 0.6)
            own, others = (max(0, own + change), others) if whose else (own, max(0, others + change))
            if draw.random() < 0.5:
                size = 2 * M * draw.randrange(1, 500)
                live.append((0x700000000000 + now, size))
                trace.event("alloc", now, device=0, tid=1, ptr=live[-1][0], bytes=size, duration_ns=1, space="device")
            elif live:
                trace.event("free", now, device=0, tid=1, ptr=live.pop(0)[0])
            now += 1000
            trace.event("alloc", now, device=0, tid=1, bytes=TOTAL + 2 * M * len(truths), result=2, duration_ns=1, space="device",
                        free_bytes=free(), total_bytes=TOTAL)
            truths.append((own, others))
    trace.save(path)
    return truths


def divided(whole, untracked, others):
    """(untracked, others, of one of them) of a sum, by a division of another moment."""
    less = max(0, untracked + others - whole)
    untracked, others = max(0, untracked - less), max(0, others - less)
    return untracked, others, whole - untracked - others


def expected_splits(path):
    """The same rule once more, over the events: (tracked, untracked, others, of one of them, free) of each OOM."""
    code, out, _ = report("--json", "dump", path)
    check(code == 0)
    live, before, out_of_memory = {}, None, []
    for e in map(json.loads, out.splitlines()):
        if e["op"] == "alloc" and not e["result"]:
            live[e["ptr"]] = e["bytes"]
        elif e["op"] == "free":
            del live[e["ptr"]]
        tracked = sum(live.values())
        if e["free_bytes"] is None:
            continue
        whole = TOTAL - e["free_bytes"] - tracked
        if e["op"] == "memory-sample":
            before = (e["process_bytes"] - tracked, whole - (e["process_bytes"] - tracked))
            for oom in out_of_memory:
                if "after" not in oom:
                    oom["after"] = before if e["t_ns"] - oom["t_ns"] <= 2 * 10 ** 9 else None
        else:
            out_of_memory.append({"t_ns": e["t_ns"], "tracked": tracked, "whole": whole, "free": e["free_bytes"], "before": before})
    for oom in out_of_memory:
        ways = [divided(oom["whole"], *known) for known in (oom["before"], oom.get("after")) if known]
        yield (oom["tracked"], *min(ways, key=lambda parts: parts[2]), oom["free"])


MEMORY = re.compile(r"^ +memory +(\d+) tracked, (\d+) untracked, (\d+) of other processes,(?: (\d+) untracked or of other processes,)? "
                    r"(\d+) free$", re.M)


@case("at an OOM beside a neighbour: what NVML says before or after it, what nobody knows is a part of its own, and no one has more than he had")
def whose_memory():
    problems, count, open_parts = [], 0, 0
    for seed in range(60 if FULL else 3):
        path = scratch("shared-%d.zst" % seed)
        truths = shared_device(seed, path)
        code, out, _ = report("oom", "--units=bytes", "--at=end", "--top=all", path)
        said = [tuple(int(size or 0) for size in sizes) for sizes in MEMORY.findall(re.sub(r"\n {10,}", " ", out.decode()))]
        want = list(expected_splits(path))
        equal((code, len(said), len(want)), (0, len(truths), len(truths)), out.decode()[:600])
        last = view("summary", path)["devices"][0]["memory"]["crossing"]
        equal(tuple(last[key] for key in ("tracked_bytes", "untracked_bytes", "other_processes_bytes", "unattributed_bytes", "free_bytes")),
              want[-1], "summary of seed %d" % seed)
        for got, rule, (own, others) in zip(said, want, truths):
            count, open_parts = count + 1, open_parts + (got[3] > 0)
            if got != rule or sum(got) != TOTAL or got[1] > own or got[2] > others:
                problems.append("seed %d: %s, the rule says %s, there were %d and %d" % (seed, got, rule, own, others))
    check(open_parts > 3 and count - open_parts > 3, (open_parts, count))
    return problems[:10] or "%d OOMs, %d with a part that nobody knows" % (count, open_parts)


@case("the reserve of a memory pool is tracked, and a row of its own")
def idle_reserve():
    path = recorded_trace("malloc-async.zst")
    code, out, _ = report("--to=16.4091", path)
    rows = dict(reversed(row) for row in re.findall(r"^ +([\d.]+ MiB) +[<\d.]+ % +(tracked|idle in CUDA's memory pools)", out.decode(), re.M))
    check(code == 0 and b"377.97 MiB of" in out.splitlines()[0], out)
    equal(rows, {"tracked": "384.25 MiB", "idle in CUDA's memory pools": "6.28 MiB"}, "rows")  # 377.97 + 6.28


main()
