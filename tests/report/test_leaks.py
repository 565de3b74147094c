#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""leaks: what grows for hours and days, what only seems to, and where there is too little to tell.

Each trace is a story that is written here, so that what grows in it, since when and how fast, is known beforehand. A second
implementation counts over the events of `dump --json` what was taken and never freed, and fits the rate to them.
"""
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "variants")]
import changes  # noqa: E402
import check_ledger  # noqa: E402
import traces  # noqa: E402
import whole_trace  # noqa: E402
from mktrace import Trace, zstd_frame  # noqa: E402
from story import START, Story  # noqa: E402
from tap import FULL, PLAIN, REPORT, ROOT, case, check, equal, main, no_lines, report, sample, scratch  # noqa: E402
from terminal import run_on_terminal  # noqa: E402

M, S = 1 << 20, 10 ** 9
MINUTE, HOUR, DAY = 60 * S, 3600 * S, 86400 * S
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
VLLM = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/*.zst")))
SERVING = [("execute_model", "/env/vllm/v1/worker/gpu_worker.py", 30), ("run_engine_core", "/env/vllm/v1/engine/core.py", 1)]
LOADING = [("load_model", "/env/vllm/v1/worker/gpu_worker.py", 20), ("run_engine_core", "/env/vllm/v1/engine/core.py", 1)]


def read(path, *more, codes=(0, 4)):
    code, out, err = report("leaks", "--json", *no_lines("leaks"), *more, path)
    check(code in codes, "%s %s: exit status %d, %s" % (path, more, code, err))
    return json.loads(out)


def device(path, *more):
    (d,) = read(path, *more)["devices"]
    return d


def grown(path, *more):
    """The names of the functions that grow, in the order of the report."""
    return [s["stack"][0]["name"] for s in device(path, *more)["growing"]]


def text_of(path, *more, columns=160):
    return report("leaks", *more, path, columns=columns)[1].decode()


def on_terminal(width, *args):
    code, written = run_on_terminal([REPORT, "--color=never", *args], width, env={**PLAIN, "TERM": "xterm"})
    equal(code, 0)
    return written.decode()


# ---- a second implementation, over the events ---------------------------------------------------------

def count(path, name, until=None):
    """(taken, its bytes, times and sizes of what was never freed) of the allocations of a function, from the events."""
    live, taken = {}, []
    for e in check_ledger.read_trace(REPORT, path):
        if until is not None and e["event"] > until:
            break
        if e["op"] in ("alloc", "block-alloc") and not e["result"]:
            live[e["op"][:5], e["ptr"]] = e
            taken.append(e) if e["stack"] and e["stack"][0]["name"] == name else None
        elif e["op"] in ("free", "block-free"):
            live.pop(("alloc" if e["op"] == "free" else "block", e["ptr"]), None)
    kept = sorted((e["t_ns"], e["bytes"]) for e in live.values() if e["stack"] and e["stack"][0]["name"] == name)
    return len(taken), sum(e["bytes"] for e in taken), kept


def fit_rate(kept, since, until):
    """Bytes in an hour: the slope of the line through the sums behind each allocation, by least squares."""
    points, total = [], 0
    for t, size in kept:
        if since <= t <= until:
            total += size
            points.append(((t - since) / HOUR, total))
    n = len(points)
    x, y = sum(p[0] for p in points) / n, sum(p[1] for p in points) / n
    return sum((p[0] - x) * (p[1] - y) for p in points) / sum((p[0] - x) ** 2 for p in points)


def compare(path, name, within=0.01, until=None):
    """A site of the report and the second implementation: counts exactly, the rate within a share."""
    d = device(path)
    (s,) = [s for s in d["growing"] if s["stack"][0]["name"] == name]
    taken, taken_bytes, kept = count(path, name, until)
    equal((s["taken_count"], s["taken_bytes"]), (taken, taken_bytes))
    equal((s["count"], s["bytes"]), (len(kept), sum(b for _, b in kept)))
    equal((s["never_freed_count"], s["never_freed_bytes"]), (s["count"], s["bytes"]))
    equal((s["oldest_t_ns"], s["median_t_ns"]), (kept[0][0], kept[(len(kept) - 1) // 2][0]))
    check(s["since_t_ns"] in [t for t, _ in kept], "since when nothing was kept")
    rate = fit_rate(kept, s["since_t_ns"], d["to_t_ns"] - (s["lifetime_ns"] or 0))
    check(abs(s["bytes_per_hour"] - rate) <= within * rate, "%.0f bytes/h, fitted %.0f" % (s["bytes_per_hour"], rate))
    return d, s


def near(got, want, within=0.01):
    check(abs(got - want) <= within * want, "%s, want %s" % (got, want))


# ---- what grows -----------------------------------------------------------------------------------------

def steady(**options):
    """Six hours: weights, requests of a minute, and one block in a minute that nobody gives back."""
    s = Story(1, **options)
    s.take(0, "weights", 4096 * M)
    s.traffic("request", MINUTE, 6 * HOUR, 0.05, 8 * M, lambda: s.random.uniform(1, 60))
    for i in range(360):
        s.take((i + 1) * MINUTE, "leak", 2 * M)
    s.end(6 * HOUR + 30 * S)
    return s


@case("one block a minute for six hours: found alone, with its rate to 1 %, its counts and ages")
def steady_leak():
    for blocks in (False, True):
        path = steady(blocks=blocks).write()
        d, s = compare(path, "leak")
        equal(grown(path), ["leak"])
        near(s["bytes_per_hour"], 120 * M)
        equal((s["shape"], s["kind"], s["past"], s["count"]), ("steady", "block" if blocks else "allocation", "exact", 360))
        equal((s["since_t_ns"], d["too_short"], d["start_up_known"]), (START + MINUTE, False, False))
        check(s["confidence"] > 0.95, s["confidence"])
        text = text_of(path)
        line = next(x for x in text.splitlines() if "leak.py" in x)
        check("+120.00 MiB" in line and "360 of 360" in line and "steady" in line, text)
        check("GPU 0: 1 call site grows" in text, text)


@case("a step of 60 blocks each hour is found as stepwise")
def stepwise():
    s = Story(2)
    s.traffic("request", 0, 7 * HOUR, 0.05, 8 * M, lambda: s.random.uniform(1, 60))
    for hour in range(7):
        for i in range(60):
            s.take(hour * HOUR + HOUR // 2 + i * S, "reload", 4 * M)
    path = s.write()
    _, site = compare(path, "reload", within=0.05)  # (a line through steps is not exactly their rate)
    equal((grown(path), site["shape"], site["steps"]), (["reload"], "stepwise", 7))
    near(site["bytes_per_hour"], 240 * M)
    check(0.6 < site["confidence"] < 0.95, site["confidence"])


@case("a leak below a hundred times as much traffic, of other call sites and of its own")
def hidden():
    for own in sample(("request", "leak"), 1):
        s = Story(3)
        s.traffic(own, 0, HOUR, 100 / 60, M, lambda: s.random.uniform(1, 300))
        for i in range(60):
            s.take(i * MINUTE + 5 * S, "leak", M)
        s.end(HOUR)
        path = s.write()
        d = device(path)
        equal([x["stack"][0]["name"] for x in d["growing"]], ["leak"])
        near(d["growing"][0]["bytes_per_hour"], 60 * M, 0.03)
        if own == "leak":
            x = d["growing"][0]
            check(x["taken_count"] > 5000 and x["never_freed_count"] < 900 and x["lifetime_ns"] >= 290 * S, x)


@case("two leaks: the faster one first, and when the device is full at both rates")
def two():
    s = Story(4)
    s.take(0, "slow", 4000 * M)  # it holds more than the faster one
    for i in range(300):
        s.take(i * MINUTE, "slow", 2 * M)
        s.take(i * MINUTE + S, "fast", 6 * M)
    s.read(5 * HOUR, 9600 * M)
    path = s.write()
    d = device(path)
    equal([x["stack"][0]["name"] for x in d["growing"]], ["fast", "slow"])
    equal(d["free_bytes"], 9600 * M)
    near(d["full_in_ns"], 20 * HOUR)
    near(d["growing"][0]["full_in_ns"], 9600 / 360 * HOUR)
    near(d["growing"][1]["full_in_ns"], 80 * HOUR)
    check("in 20:0" in text_of(path) or "in 19:5" in text_of(path), text_of(path))
    equal((grown(path, "-n", "1"), grown(path, "--top=1")), (["fast"], ["fast"]))
    check("1 more; --top 2" in text_of(path, "-n", "1"))


@case("without a reading of the device when it is full is not known: - and null")
def full_unknown():
    d = device(steady().write())
    equal((d["free_bytes"], d["full_in_ns"], d["growing"][0]["full_in_ns"]), (None, None, None))
    check("full: - (" in text_of(steady().write()))


@case("days: a leak with the load of the day, and nothing of a healthy week")
def days():
    for leaks in (True, False):
        s = Story(5)
        at = 0
        while at < 5 * DAY + 9 * HOUR:  # (by day: what was not kept for a whole night may have stopped)
            night = (at // (12 * HOUR)) % 2
            at += s.random.expovariate(1 / 3000 if night else 1 / 240) * S
            s.take(at, "request", 16 * M, at + s.random.lognormvariate(4, 1) * S)
            if leaks and not night:
                s.take(at + S, "leak", 64 << 10)
        path = s.write()
        equal(grown(path), ["leak"] if leaks else [])
        if leaks:
            _, site = compare(path, "leak", within=0.15)
            check(site["since_t_ns"] < START + DAY // 2 and 0.6 < site["confidence"] < 0.95, site)
        else:
            check("no call site grows" in text_of(path), text_of(path))


@case("a leak that begins after one hour, or two, grows since then")
def late():
    for begin in (HOUR, 2 * HOUR):
        s = Story(6)
        s.take(10 * S, "leak", 3 * M)  # (one of the start, which stays)
        for i in range((6 * HOUR - begin) // MINUTE):
            s.take(begin + i * MINUTE, "leak", 2 * M)
        s.end(6 * HOUR)
        (x,) = device(s.write())["growing"]
        equal((x["since_t_ns"], x["shape"]), (START + begin, "steady"))
        near(x["bytes_per_hour"], 120 * M)


@case("a leak of which a few came back after hours is one all the same")
def few_late():
    s = steady()
    for i in range(10):
        s.take((10 + i) * MINUTE + S, "leak", 2 * M, (310 + i) * MINUTE)
    path = s.write()
    (x,) = device(path)["growing"]
    equal((x["stack"][0]["name"], x["taken_count"], x["never_freed_count"], x["count"]), ("leak", 370, 360, 360))
    near(x["bytes_per_hour"], 120 * M)


# ---- what only seems to -----------------------------------------------------------------------------------

@case("a cache that fills to its bound in an hour and stays is no leak, whether it throws out or not")
def cache():
    s = Story(7)
    for i in range(60):
        s.take(i * MINUTE, "cache", 16 * M)
    s.traffic("request", 0, 6 * HOUR, 0.02, 8 * M, lambda: s.random.uniform(1, 60))
    s.end(6 * HOUR)
    path = s.write()
    d = device(path)
    equal((d["growing"], [x["stack"][0]["name"] for x in d["filled"]]), ([], ["cache"]))
    (x,) = d["filled"]
    equal((x["shape"], x["bytes_per_hour"], x["confidence"], x["kept_bytes"]), ("saturating", None, None, 960 * M))
    check(START + 55 * MINUTE < x["filled_t_ns"] <= START + HOUR, x["filled_t_ns"])
    check("bounded: 960.00 MiB cache.py:7 cache stopped growing" in text_of(path), text_of(path))
    s = Story(21)
    for i in range(320):
        s.take(i * MINUTE, "cache", 4 * M)
    s.end(6 * HOUR)
    d = device(s.write())
    equal((d["growing"], [x["filled_t_ns"] > START + 4 * HOUR for x in d["filled"]]), ([], [True]), "that stopped 40 minutes ago")
    for throw_out in ("oldest", "any"):
        s = Story(8)
        held = []
        for i in range(4000):
            at, gone = i * 6 * HOUR // 4000, None
            if len(held) == 200:
                gone = held.pop(0 if throw_out == "oldest" else s.random.randrange(200))
                s.things[gone] = (s.things[gone][0], START + at, *s.things[gone][2:])
            s.take(at, "cache", 4 * M)
            held.append(len(s.things) - 1)
        s.end(6 * HOUR)
        equal(grown(s.write()), [], throw_out)


@case("what the start-up made is replaced one by one: no leak")
def replaced():
    for grows in (False, True):
        s = Story(20, below=SERVING)
        for i in range(360):
            s.take(i * S // 10, "experts", 32 * M, None if grows else (i + 1) * MINUTE, below=LOADING)
        for i in range(360):
            s.take((i + 1) * MINUTE + S, "experts", 32 * M)
        s.end(6 * HOUR + MINUTE)
        equal(grown(s.write()), ["experts"] if grows else [])


@case("a cache of random keys fills more and more slowly: no leak")
def slowing_cache():
    for seed in range(6):
        s = Story(seed)
        seen = set()
        for i in range(6000):
            key = s.random.randrange(1500)
            if key not in seen:
                seen.add(key)
                s.take(i * 6 * HOUR // 6000, "cache", M)
        s.end(6 * HOUR)
        d = device(s.write())
        equal((d["growing"], len(d["filled"])), ([], 1), seed)


@case("memory that grows and is flushed, whenever the trace ends: no leak")
def sawtooth():
    for ends in (100, 190, 275, 360):
        for period in (20, 45, 80):
            s = Story(9)
            for i in range(ends):
                flush = (i // period + 1) * period * MINUTE
                s.take(i * MINUTE, "batch", 8 * M, flush if flush < ends * MINUTE else None)
            s.end(ends * MINUTE)
            equal(grown(s.write()), [], "%d minutes, flushed each %d" % (ends, period))


@case("healthy services of eight hours, requests of random lengths: none grows")
def healthy():
    for seed in range(40 if FULL else 3):
        s = Story(100 + seed, below=SERVING if seed % 2 else ())
        s.take(0, "weights", 16384 * M, below=LOADING)
        s.take(30 * S, "cache", 32768 * M, below=LOADING)
        spread, typical = s.random.choice((0.5, 1, 1.5)), s.random.uniform(1, 5)
        for site in ("prefill", "decode", "sample"):
            s.traffic(site, MINUTE, 8 * HOUR, s.random.uniform(0.01, 0.05), s.random.randrange(1, 65) * M,
                      lambda: s.random.lognormvariate(typical, spread))
        s.end(8 * HOUR)
        path = s.write()
        d = device(path)
        equal((d["growing"], d["too_short"], d["fragmentation"]), ([], False, None), "seed %d" % seed)
        check("no call site grows" in text_of(path), text_of(path))


@case("what a start-up takes is no growth: with phases, whatever it looks like; without, as a jump, also at the leak's own site")
def start_up():
    s = Story(10)
    for i in range(900):  # a quarter of an hour of weights, evenly
        s.take(i * S, "weights", 64 * M, below=LOADING)
    s.traffic("request", 15 * MINUTE, 30 * MINUTE, 0.2, 8 * M, lambda: s.random.uniform(1, 20))
    s.end(30 * MINUTE)
    d = device(s.write())
    equal((d["growing"], d["start_up_known"], d["from_t_ns"]), ([], True, START + 899 * S))
    s = Story(11)
    for i in range(500):
        s.take(i * S // 10, "empty", 64 * M)
    for i in range(240):
        s.take(MINUTE + i * MINUTE, "empty", M)
    s.end(4 * HOUR + 2 * MINUTE)
    (x,) = device(s.write())["growing"]
    near(x["bytes_per_hour"], 60 * M, 0.02)
    equal((x["count"], x["bytes"]), (740, 32240 * M))


@case("PyTorch's pool that grows while its blocks do not: fragmentation, beside the small leak in it; where blocks need it, none")
def fragmentation():
    for needed in (False, True):
        path = scratch("pool-%d.zst" % needed, traces.growing(needed))
        d, x = compare(path, "leak", 0.05)
        equal((grown(path), x["count"], x["bytes"], x["shape"]), (["leak", "cuMemAlloc_v2"], 72, 144 * M, "steady"))
        near(x["bytes_per_hour"], 24 * M)
        equal((d["growing"][1]["site"], d["growing"][1]["bytes"]), ("cache::put (app)", 72 * M))
        p = d["fragmentation"]
        if needed:
            equal(p, None)
            continue
        equal((p["reserved_bytes"], p["filled_bytes"]), (sum(200 + i for i in range(72)) * M, 216 * M))
        near(p["most_filled_since_bytes"], (216 + 268) * M, 0.02)
        near(p["bytes_per_hour"], 12 * 236 * M, 0.05)
        near(d["full_in_ns"], 20480 / (12 * 236 + 36) * HOUR, 0.05)
        text = text_of(path)
        check("fragmentation: PyTorch's pool has grown by" in text and "see frag" in text and "2 call sites grow" in text, text)


# ---- wrapped rings ------------------------------------------------------------------------------------------

@case("a wrapped ring: the leak since before its first event, by the births of what is live and the coarse history")
def wrapped():
    for at in (3 * HOUR, 5 * HOUR):
        path = steady().write(wrapped_at=at)
        d = device(path)
        (x,) = d["growing"]
        equal((x["stack"][0]["name"], x["past"], x["since_t_ns"]), ("leak", "coarse", START + MINUTE))
        near(x["bytes_per_hour"], 120 * M)
        check(abs(d["exact_from_t_ns"] - START - at) < MINUTE, d["exact_from_t_ns"])
        kept = 360 - at // MINUTE
        check(abs(x["taken_count"] - kept) <= 1 and x["never_freed_count"] == x["taken_count"], x)
        text = text_of(path)
        check("bounded by the coarse history" in text and "overwritten" in text, text)


@case("a wrapped ring of memory that was flushed before: the coarse history shows it; without it nothing is said of then")
def wrapped_sawtooth():
    s = Story(12)
    for i in range(360):  # flushed once, after four hours
        s.take(i * MINUTE, "batch", 8 * M, 4 * HOUR if i < 240 else None)
    s.traffic("request", 0, 6 * HOUR, 0.02, 2 * M, lambda: s.random.uniform(1, 60))
    s.end(6 * HOUR)
    d = device(s.write(wrapped_at=5 * HOUR))
    equal((d["growing"], d["untold"]), ([], 1))
    check("an earlier flush" in text_of(s.write(wrapped_at=5 * HOUR)))
    d = device(s.write(wrapped_at=5 * HOUR, coarse=False))
    check(all(x["since_t_ns"] >= d["exact_from_t_ns"] for x in d["growing"]), "growth of overwritten time is claimed")


@case("a wrapped ring whose growth may only have replaced what the device held: nothing is said of then")
def wrapped_replaced():
    s = steady()
    s.take(0, "scratch", 2048 * M, 4 * HOUR)
    d = device(s.write(wrapped_at=5 * HOUR))
    (x,) = d["growing"]
    equal((x["stack"][0]["name"], x["past"]), ("leak", "exact"))
    check(x["since_t_ns"] >= d["exact_from_t_ns"] >= START + 5 * HOUR, x)


@case("without a coarse history, and after an inexact checkpoint, growth is that of the known time")
def wrapped_without():
    for options in ({"coarse": False}, {"inexact": True}, {"inexact": True, "coarse": False}):
        d = device(steady().write(wrapped_at=3 * HOUR, **options))
        (x,) = d["growing"]
        equal((x["stack"][0]["name"], x["past"]), ("leak", "exact"), options)
        check(x["since_t_ns"] >= d["exact_from_t_ns"] >= START + 3 * HOUR, options)
        near(x["bytes_per_hour"], 120 * M)


# ---- too little ---------------------------------------------------------------------------------------------

@case("seconds and a few steps give no verdict; growth that lost events can explain neither")
def too_little():
    s = Story(13)
    for i in range(400):
        s.take(i * S, "leak", 8 * M)
    path = s.write()
    d = device(path)
    equal((d["growing"], d["too_short"], d["shortest_ns"]), ([], True, 600 * S))
    check("too short to tell whether a call site grows: 0:06:39 of at least 0:10:00" in text_of(path), text_of(path))
    s = Story(14, below=SERVING)
    for i in range(50):
        s.take(i * S, "leak", 8 * M)
    d = device(s.write())
    equal((d["growing"], d["too_short"], d["shortest_ns"]), ([], True, 60 * S))
    s = Story(15)
    for i in range(4):
        s.take(i * HOUR, "leak", 512 * M)
    s.end(6 * HOUR)
    equal((device(s.write())["growing"], device(s.write())["too_short"]), ([], False))
    for lost, want in ((0, ["leak"]), (36, ["leak"]), (300, [])):
        s = steady()
        if lost:
            s.add(HOUR, "lost", {"count": lost})
        path = s.write()
        equal(grown(path), want, lost)
        if lost == 36:
            near(device(path)["growing"][0]["confidence"], device(steady().write())["growing"][0]["confidence"] * 0.9, 0.01)
        if lost == 300:
            equal(device(path)["untold"], 1)
            check("too little to tell: 1 call site" in text_of(path), text_of(path))


@case("sessions of hours: what they hold is not told")
def sessions():
    s = Story(16)
    for i in range(100):
        gone = i * 5 * MINUTE + 5 * HOUR + s.random.uniform(0, 300) * S
        s.take(i * 5 * MINUTE, "session", 16 * M, gone if gone < 8 * HOUR else None)
    s.end(8 * HOUR)
    d = device(s.write())
    equal((d["growing"], d["untold"]), ([], 1))


@case("a trace whose end is missing says up to when nothing grows")
def incomplete():
    s = Story(17)
    s.traffic("request", 0, HOUR, 0.1, 8 * M, lambda: s.random.uniform(1, 60))
    text = text_of(s.write(last=False))
    check("INCOMPLETE" in text and re.search(r"no call site grows up to \+", text), text)


# ---- the moment, the range, the options ---------------------------------------------------------------------

@case("the moment: the OOM that was not recovered, else the end; --at, --from and --to")
def moments():
    s = steady()
    for i, (t, _, size, stack, space) in enumerate(s.things):  # all of it is given back at the end
        if stack[0][0] == "leak":
            s.things[i] = (t, START + 6 * HOUR + 20 * S, size, stack, space)
    path = s.write()
    equal((grown(path), grown(path, "--at=peak"), grown(path, "--at=5:00:00"), grown(path, "--to=5:00:00")), ([], *[["leak"]] * 3))
    d = device(path, "--at=5:00:00")
    equal((d["growing"][0]["count"], d["to_t_ns"]), (300, START + 5 * HOUR))
    d = device(path, "--from=2:00:00", "--to=5:00:00")
    equal((d["growing"][0]["taken_count"], d["growing"][0]["since_t_ns"], d["from_t_ns"]), (181, START + 2 * HOUR, START + 2 * HOUR))
    s.add(6 * HOUR + S, "alloc", {"bytes": 1 << 40, "device": 0, "result": 2, "space": "device"})
    path = s.write()
    document = read(path)
    equal((document["moment"]["what"], grown(path), grown(path, "--at=end")), ("oom", ["leak"], []))
    check("at the OOM, at" in text_of(path), text_of(path))


@case("a growth of seconds that ends in an OOM is told if there was work between its steps, and else not")
def oom():
    for between in (True, False):
        s = Story(18)
        s.take(0, "weights", 4096 * M, below=LOADING)
        s.take(S, "activations", M, S + S // 10, below=SERVING)
        for i in range(30):
            at = 2 * S + i * S // 5
            s.take(at, "leak", 96 * M)
            if between:
                s.take(at + S // 20, "activations", 64 * M, at + S // 10, below=SERVING)
        s.add(8 * S, "alloc", {"bytes": 96 * M, "device": 0, "result": 2, "space": "device"})
        d = device(s.write())
        equal([x["stack"][0]["name"] for x in d["growing"]], ["leak"] if between else [])
        equal((d["untold"], d["too_short"]), (0, False) if between else (1, True))


@case("--segments: by the call site that made PyTorch's pool grow")
def segments():
    t = Trace(compress=zstd_frame)
    t.info = {"process.start_ns": str(START)}
    for i in range(120):
        at = START + i * 3 * MINUTE
        t.event("alloc", at, ptr=(i + 1) << 32, bytes=20 * M, device=0, result=0, space="device", stack=[("grow", "/m/grow.py", 1)])
        t.event("block-alloc", at + 1, ptr=(i + 1) << 32, bytes=12 * M, device=0, stack=[("leak", "/m/leak.py", 1)])
    path = t.save(scratch("segments.zst"))
    (x,) = device(path)["growing"]
    equal((x["kind"], x["stack"][0]["name"]), ("block", "leak"))
    near(x["bytes_per_hour"], 240 * M)
    d = device(path, "--segments")
    equal(([(y["kind"], y["stack"][0]["name"]) for y in d["growing"]], d["rows"]), ([("segment", "grow")], "segments"))
    near(d["growing"][0]["bytes_per_hour"], 400 * M)
    equal(d["fragmentation"], None)


@case("the first screen has at most 24 lines, and lines are as wide as the terminal")
def widths():
    s = Story(19)
    for i in range(30):
        for k in range(40):
            s.take(k * 6 * MINUTE + i, "leak_%d" % i, (i + 1) * M)
        for k in range(20):
            s.take(k * MINUTE + i, "cache_%d" % i, 4 * M)
    s.read(4 * HOUR, 10240 * M)
    path = s.write()
    for columns in (80, 160):
        lines = on_terminal(columns, "leaks", path).splitlines()
        check(len(lines) <= 24, "%d lines" % len(lines))
        check(all(len(line) <= columns for line in lines), [line for line in lines if len(line) > columns])
        check("30 call sites grow" in lines[0] and "20 more; --top 30" in "\n".join(lines), lines)


# ---- other views, and real traces ---------------------------------------------------------------------------

@case("what a site holds, took and gave back is what top says of it")
def same_as_top():
    for path, more in [(steady().write(), ("--at=end",)), (steady().write(wrapped_at=2 * HOUR), ("--at=end",)),
                       *[(p, ("--at=oom",)) for p in VLLM if "/leak/" in p]]:
        (top,) = json.loads(report("top", *no_lines("top"), "--json", *more, path)[1])["devices"]
        rows = {(s["kind"], s["stack"][0]["name"]): s for s in top["sites"] if s["stack"]}
        d = device(path, *more)
        equal(d["bytes"], top["bytes"])
        check(d["growing"])
        for x in d["growing"]:
            row = rows[x["kind"], x["stack"][0]["name"]]
            for key in ("bytes", "count", "taken_bytes", "taken_count", "oldest_t_ns"):
                equal(x[key], row[key], key)
            equal(x["taken_count"] - row["given_back_count"], x["never_freed_count"])
            check(row["growth_bytes"] > 0)


def check_untracked(d, path):
    equal((d["untracked"] or {"shape": "none"})["shape"], "none", path)


@case("vLLM that keeps a tensor each round: found, with what its program says; nothing of all other cases, nor untracked memory")
def real():
    check(len(VLLM) >= 37)
    found, leaking = [], [p for p in VLLM if "/leak/" in p]
    for path in leaking + sample([p for p in VLLM if p not in leaking], 6):
        for d in read(path)["devices"]:
            found += [(path, x) for x in d["growing"]]
            equal(d["fragmentation"], None, path)
            check_untracked(d, path)
    ((path, x),) = found
    with open(os.path.join(os.path.dirname(path), "case.json")) as f:
        asked = json.load(f)
    equal((asked["name"], x["stack"][0]["name"]), ("leak", "leak"))
    equal(x["bytes"], x["count"] * asked["steps"][0][1]["mib"] * M)
    compare(path, "leak", 0.05, read(path)["moment"]["event"])


@case("the same leak over hours: a run of vLLM whose clock is slowed down leaks at a rate that is as much smaller")
def slow():
    path, = (p for p in VLLM if "/leak/" in p)
    whole = whole_trace.Whole(path)
    (quick,), first = device(path)["growing"], read(path)["moment"]
    for times in sample((60, 3600), 1):
        slowed = scratch("slowed.zst", b"".join(whole_trace.write(changes.slower(whole, None, times))))
        (x,), then = device(slowed)["growing"], read(slowed)["moment"]
        for key in ("site", "count", "bytes", "never_freed_count", "shape", "confidence"):
            equal(x[key], quick[key], key)
        near(x["bytes_per_hour"] * times, quick["bytes_per_hour"], 1e-6)
        near(then["t_ns"] - x["since_t_ns"], times * (first["t_ns"] - quick["since_t_ns"]), 1e-6)
        verdict = json.loads(report("summary", "--json", "--sysroot=/nowhere", slowed)[1])["verdicts"][0]
        equal((verdict["scenario"], verdict["confidence"]), ("leak", quick["confidence"]), times)


@case("golden traces, and those of the H100: none of them leaks, nor grows outside of allocations")
def others():
    for path in sample(GOLDEN, 8) + sample(RECORDED, 5):
        for d in read(path)["devices"] or []:
            equal((d["growing"], d["fragmentation"]), ([], None), path)
            check_untracked(d, path)


main()
