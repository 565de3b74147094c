#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The number of threads decides on nothing but the time: every view, of one trace and of several, prints the same bytes
and ends in the same way with 0, 1, 2, 7 and 16 workers (tools/base/workers.h).

The traces are large enough for threads: more than 4,096 events for the one that reads ahead (replay/readahead.c), more
than 256 KiB together for those that read several traces (views/processes.c).
"""
import functools
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import FIRST_PART, LAST_PART, Trace  # noqa: E402
from tap import FULL, case, check, dice, equal, main, report, sample, scratch  # noqa: E402

K, M, G = 1 << 10, 1 << 20, 1 << 30
CHUNKS, EVENTS = 24, 250
STACKS = [[("f%d" % i, "/opt/app", 0x1000 + 16 * i), ("step", "/m/loop.py", 7 + i % 3), ("main", "/opt/app", 0x900)]
          for i in range(9)]
VIEWS = [("summary",), ("oom",), ("top",), ("top", "--at=oom"), ("top", "--tree"), ("frag",), ("timeline",), ("leaks",),
         ("stats",), ("phases",), ("dump", "--top=200"), ("info",), ("explain",),
         ("diff", "--at=0.001", "--at=end")]
WORKERS = (1, 2, 7, 16)


class Program:
    """Allocates, frees, fails and reads its device at random, in chunks; a checkpoint begins in every sixth."""

    def __init__(self, seed, fails=True, gpu=0):
        self.random, self.live, self.fails = dice(seed), {}, fails
        self.trace = Trace(trace_id=0x7000 + seed)
        self.trace.info = {"process.start_ns": "500", "process.pid": str(4000 + seed), "process.exe": "worker",
                           "host.name_hash": "cafe", "clock.monotonic_ns": "500", "clock.realtime_ns": "1795000000000000500",
                           "device.0.total_bytes": str(80 * G), "device.0.uuid_hash": "%016x" % (0xAB0 + gpu),
                           "device.0.name": "Test GPU", "device.0.meminfo_total_bytes": str(80 * G)}
        self.t, self.top = 1000, 1 << 40
        info = self.trace.info
        for n in range(CHUNKS):
            checkpoint = None
            if n and n % 6 == 0:
                self.trace.restart()
                checkpoint = FIRST_PART | LAST_PART, [self.record(p) for p in sorted(self.live)]
            self.trace.info = info
            for _ in range(EVENTS):
                self.step()
            self.trace.flush(checkpoint=checkpoint, last=n + 1 == CHUNKS)
        self.chunks = self.trace.out

    def record(self, ptr):
        number, t_ns, size, stack = self.live[ptr]
        return self.trace.record("alloc", t_ns, ptr=ptr, bytes=size, device=0, space="device", stack=STACKS[stack],
                                 event=number, tid=1 + stack % 3)

    def step(self):
        t, r = self.trace, self.random
        self.t += r.randrange(9000)
        if r.random() < 0.03:
            t.event("memory-sample", self.t, device=0, free_bytes=40 * G - r.randrange(G), total_bytes=80 * G)
        elif self.fails and r.random() < 0.004:
            t.event("alloc", self.t, device=0, result=2, bytes=r.randrange(50, 60) * G, space="device", stack=STACKS[8],
                    tid=3, free_bytes=30 * G, total_bytes=80 * G)
        elif self.live and r.random() < 0.47:
            ptr = r.choice(sorted(self.live))
            t.event("free", self.t, ptr=ptr, tid=2)
            del self.live[ptr]
        else:
            size, stack = r.choice((M, M, 2 * M, 4 * K, r.randrange(1, 9 * M))), r.randrange(len(STACKS))
            # Some calls take so long that readings of 1,000 events before lie in them: a replay looks ahead so far.
            duration = min(self.t - 600, 4 * M) if r.random() < 0.01 else r.randrange(3000)
            self.top += 16 * M
            number = t.event("alloc", self.t, ptr=self.top, bytes=size, device=0, result=0, space="device",
                             stack=STACKS[stack], duration_ns=duration, tid=1 + stack % 3)
            self.live[self.top] = number, self.t, size, stack


def damaged(chunk):
    return chunk[:-40] + bytes(b ^ 0x55 for b in chunk[-40:])


def variants(program):
    """The trace as it may be found."""
    c = program.chunks
    yield "whole", b"".join(c)
    yield "wrapped", b"".join(c[6:])
    yield "cut", b"".join(c[:-1]) + c[-1][:len(c[-1]) // 2]
    yield "killed", b"".join(c[:-1])
    yield "damaged", b"".join(damaged(x) if i in (3, 13) else x for i, x in enumerate(c))
    yield "garbled", b"".join(bytes(len(x)) if i == 9 else x for i, x in enumerate(c))


def printed(view, paths, workers):
    """Exit code, output and messages of a view; of an export and a page the file."""
    to, more = scratch("out"), ()
    if view[0] in ("export", "html"):
        if os.path.exists(to):
            os.remove(to)
        more = ("--force", "-o", to)
    code, out, err = report(*view, *more, *paths, env={"CUTRACE_REPORT_WORKERS": str(workers)})
    if more and os.path.exists(to):
        with open(to, "rb") as f:
            out = f.read()
    return code, out, err


def difference(got, want):
    for name, a, b in zip(("exit", "out", "err"), got, want):
        if a == b:
            continue
        a, b = str(a), str(b)
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return "%s: ...%s, and without threads: ...%s" % (name, a[max(at - 200, 0):at + 60], b[max(at - 10, 0):at + 60])
    return ""


def compare(view, paths, workers):
    want = printed(view, paths, 0)
    for n in workers:
        got = printed(view, paths, n)
        check(got == want, "%s with %d workers: " % (" ".join(view), n) + difference(got, want))
    return want


# ---- one trace ------------------------------------------------------------------------------------

@case("every view of a whole, wrapped, cut, killed or damaged trace")
def one_trace():
    r, codes = dice(5), set()
    for name, data in variants(Program(1)):
        path = scratch(name + ".zst", data)
        for view in sample(VIEWS, 8, len(name)):
            view = view if view[0] in ("dump", "info") or r.random() < 0.5 else (*view, "--json")
            want = compare(view, [path], WORKERS if FULL else [r.choice(WORKERS[1:])])
            codes.add(want[0])
            check(len(want[1]) > 20, "%s of %s prints %r" % (view, name, want))
    check({0, 4} <= codes <= {0, 3, 4}, codes)


@case("every export and the page")
def exports():
    r = dice(6)
    for name, data in variants(Program(2)):
        if name not in ("whole", "damaged", "wrapped") and not FULL:
            continue
        path = scratch(name + ".zst", data)
        for view in [("export", "--format=" + f) for f in ("torch", "folded", "speedscope", "csv", "ndjson", "sqlite", "pprof",
                                                           "openmetrics", "perfetto")] + [("html",)]:
            want = compare(view, [path], WORKERS if FULL else [r.choice(WORKERS[1:])])
            check(view[1:] == ("--format=torch",) or len(want[1]) > 200, "%s of %s: %r" % (view, name, want[1:]))


# ---- several traces ---------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def ranks():
    """Traces of one job: whole ones, two that are damaged, one that cannot be read, and copies of two with more and with
    fewer events."""
    programs = [Program(seed, fails=seed % 2, gpu=seed) for seed in range(10, 15)]
    found = [dict(variants(p)) for p in programs]
    paths = [scratch("rank0.zst", found[0]["whole"]), scratch("copy-less.zst", found[1]["killed"]),
             scratch("rank1.zst", found[1]["whole"]), scratch("none.zst", b"no trace at all" * 100),
             scratch("rank2.zst", found[2]["damaged"]), scratch("rank3.zst", found[3]["cut"]),
             scratch("copy-more.zst", found[0]["killed"]), scratch("rank4.zst", found[4]["garbled"]),
             scratch("missing.zst")]
    check(sum(os.path.getsize(p) for p in paths[:-1]) > 256 * K, "they are too small for threads")
    return paths


@case("several traces: the table, the verdicts, the page, the list of documents; messages come in the order of the traces")
def several():
    paths = ranks()
    for view in (("summary",), ("summary", "--json"), ("explain",), ("explain", "--json"), ("html",),
                 ("summary", "--fail-on=oom")):
        of = paths[:3] + paths[4:-1] if view[0] == "explain" else paths
        for order in sample((of, of[::-1]), 1, len(view)):
            want = compare(view, order, sample(WORKERS, 2, len(view)))
    _, out, err = printed(("summary",), paths, 7)
    names = [os.path.basename(x) for x in re.findall(r"cutrace-report: (?:warning: )?(\S+?):", err.decode())]
    equal(names, ["none.zst", "rank2.zst", "rank3.zst", "rank4.zst", "missing.zst"])
    check(want and out.count(b"worker") >= 5, out)


@case("of two copies of a trace the one with more events counts, in any order; a copy has nothing of its own")
def copies():
    paths = ranks()
    for order in (paths, paths[::-1]):
        _, out, _ = printed(("summary", "--json"), order, 16)
        processes = json.loads(out)["processes"]["processes"]
        pids = [p["pid"] for p in processes if p["pid"]]
        equal(pids, [4010, 4011, 4012, 4013, 4014][::1 if order is paths else -1])
        equal([p["state"] for p in processes if p["pid"] in (4010, 4011)], ["complete"] * 2)
        for path, p in zip(order, processes):
            if "copy" in path:
                equal((p["pid"], p["state"], p["limits"], p["recorder_line"], p["crossing"]), (None, None, None, None, None))
                same = os.path.basename(order[p["same_as"]])
                equal(same, "rank1.zst" if "less" in path else "rank0.zst")


@case("a number that is none or out of range stands for a possible one")
def numbers():
    path = scratch("whole.zst", b"".join(Program(3).chunks))
    want = printed(("summary",), [path], 0)
    for text in ("", "-5", "many", "99999"):
        equal(printed(("summary",), [path], text), want, text)


main()
