#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Growth of memory that no allocation explains: made traces of hours, in which what grows, whose it is and how fast is
known beforehand (real ones are in test_leaks). A second implementation computes it from the readings of `dump --json`."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from story import CAPACITY, START, Story  # noqa: E402
from tap import FULL, PLAIN, REPORT, case, check, dice, dumped, equal, main, report  # noqa: E402
from terminal import run_on_terminal  # noqa: E402

M, G, S = 1 << 20, 1 << 30, 10**9
MINUTE, HOUR = 60 * S, 3600 * S
WORKER, CORE = "/env/vllm/v1/worker/gpu_worker.py", ("run_engine_core", "/env/vllm/v1/engine/core.py", 1)
SERVING, LOADING = [("execute_model", WORKER, 30), CORE], [("load_model", WORKER, 20), CORE]
NONE = "none"


class Untracked(Story):
    """A process on a device: its allocations, what it holds beside them (own), and what others hold.

    `own` and `others` are functions of the time since the start. They change at any time, and a reading shows the sum.
    """

    def __init__(self, own, others=lambda t: 0, hours=10, every=60, seed=0, nvml=True, phases=False, until=None):
        super().__init__(seed)
        self.own, self.others, self.nvml = own, others, nvml
        self.take(0, "load", 16 * G, below=LOADING if phases else ())
        at, last = MINUTE, int(hours * HOUR)
        while at < last:
            at += int(self.random.expovariate(1 / 120) * S)
            size, gone = self.random.randrange(1, 64) * 2 * M, at + int(self.random.uniform(1, 90) * S)
            if at <= last:
                self.take(at, "step", size, gone if gone < last else None, below=SERVING if phases else ())
        for t in range(0, int((until or hours) * HOUR), every * S):
            self.sample(t + self.random.randrange(S))
        self.end(last)

    def sizes(self, at, held):
        """Bytes beside its allocations, and the free ones."""
        own, others = int(self.own(at)), int(self.others(at))
        return own, CAPACITY - held - own - others

    def sample(self, at):
        def fields(held):
            own, free = self.sizes(at, held)
            return {"device": 0, "free_bytes": free, "total_bytes": CAPACITY, "tid": 9,
                    **({"process_bytes": held + own, "flags": ["nvml"]} if self.nvml else {})}
        self.add(at, "memory-sample", fields)

    def refuse(self, at, size, below=()):
        self.add(at, "alloc", lambda held: {"bytes": size, "device": 0, "result": 2, "space": "device", "total_bytes": CAPACITY,
                                            "free_bytes": self.sizes(at, held)[1], "stack": [("step", "/m/step.py", 5), *below]})

    def graph(self, at, size):
        """An instantiation, as it is measured: `own` has to have the same."""
        def fields(held):
            free = self.sizes(at, held)[1]
            return {"device": 0, "flags": ["graph"], "free_before_bytes": free + size, "free_bytes": free, "total_bytes": CAPACITY}
        self.add(at, "memory-sample", fields)

    def write(self, **how):
        return super().write(info={"device.0.total_bytes": str(CAPACITY)}, **how)


def read(view, path, *more):
    code, out, err = report(view, "--json", *more, path)
    check(code in (0, 4), "%s %s: exit status %d, %s" % (view, path, code, err))
    return json.loads(out)


def leaks(path, *more):
    (d,) = read("leaks", path, *more)["devices"]
    return d


def growth(path, *more):
    return leaks(path, *more)["untracked"]


def text(view, path, columns=160):
    return report(view, path, columns=columns)[1].decode()


def verdicts(path):
    return [v["scenario"] for v in read("summary", path)["verdicts"]]


def near(got, want, within=0.02):
    check(abs(got - want) <= within * want, "%s, want %s" % (got, want))


def steady(rate=100 * M, base=512 * M):
    """Grows by the rate in an hour, from the first minute on."""
    return lambda t: base + rate * t // HOUR


# ---- a second implementation ----------------------------------------------------------------------------

def unexplained(path, own):
    """(t_ns, bytes) of each reading: what the process's allocations leave unexplained, from the events alone."""
    live, points = {}, []
    for e in dumped(path):
        if e["op"] == "alloc" and not e["result"]:
            live[e["ptr"]] = e["bytes"]
        elif e["op"] == "free":
            live.pop(e["ptr"], None)
        elif e["op"] == "memory-sample" and e["free_bytes"] is not None:
            if not own:
                points.append((e["t_ns"], e["total_bytes"] - e["free_bytes"] - sum(live.values())))
            elif e["process_bytes"] is not None:
                points.append((e["t_ns"], e["process_bytes"] - sum(live.values())))
    return points


def fit(points, since):
    """Bytes in an hour, by least squares."""
    points = [(t / HOUR, b) for t, b in points if t >= since]
    n = len(points)
    x, y = sum(p[0] for p in points) / n, sum(p[1] for p in points) / n
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


# ---- what grows -----------------------------------------------------------------------------------------

@case("100 MiB an hour of this process's: found, with its rate, since when, and when the device is full")
def steady_growth():
    for phases in (False, True):
        path = Untracked(steady(), seed=1, phases=phases).write()
        d = leaks(path)
        g = d["untracked"]
        equal((g["whose"], g["shape"], d["growing"]), ("process", "steady", []))
        points = unexplained(path, own=True)
        near(g["bytes_per_hour"], fit(points, g["since_t_ns"]))
        near(g["bytes_per_hour"], 100 * M)
        equal((g["bytes"], g["read_t_ns"]), (points[-1][1], points[-1][0]))
        check(g["since_t_ns"] < START + HOUR and g["kept_bytes"] > 900 * M and g["confidence"] > 0.9, g)
        near(g["full_in_ns"], d["free_bytes"] / (100 * M) * HOUR)
        near(d["full_in_ns"], g["full_in_ns"], 1e-6)
        equal([g[k] for k in ("context_bytes", "module_bytes", "limit_bytes", "graph_bytes")], [0] * 4)
        shown = text("leaks", path)
        check("no call site grows, but untracked memory does" in shown and "per hour, steady" in shown, shown)
        check("untracked memory of this process grows" in shown, shown)
        first, second = read("summary", path)["verdicts"]
        equal((first["scenario"], second["scenario"]), ("untracked-growth", "none"))
        equal(first["evidence"][0]["bytes"], g["kept_bytes"])
        near(first["confidence"] + second["confidence"], 1, 1e-6)
        check("\nnext: cutrace-report leaks " in text("summary", path), text("summary", path))


@case("a step each hour is stepwise; growth that fills to a bound, or slows down, is none")
def shapes():
    path = Untracked(lambda t: 512 * M + t // HOUR * 80 * M, seed=2).write()
    g = growth(path)
    equal((g["whose"], g["shape"], g["steps"]), ("process", "stepwise", 9))
    near(g["bytes_per_hour"], 80 * M, 0.05)
    for seed, own in enumerate((lambda t: 512 * M + min(t, 2 * HOUR) * 1000 * M // HOUR,
                                lambda t: 512 * M + 2000 * M * (1 - 2.718 ** (-t / HOUR)))):
        path = Untracked(own, seed=seed).write()
        g = growth(path)
        equal((g["shape"], g["bytes_per_hour"], g["confidence"]), ("saturating", None, None))
        equal(verdicts(path), [NONE])
        check("bounded: untracked memory of this process" in text("leaks", path), text("leaks", path))
        check("leaks" not in text("summary", path))


@case("graph executables that are made again and again: named as what grows")
def graphs():
    for measured in (1, 2):  # all of them, and every other one
        made = range(10 * MINUTE, 10 * HOUR, 5 * MINUTE)
        s = Untracked(lambda t: 512 * M + sum(at <= t for at in made) * 8 * M, seed=3)
        for at in made[::measured]:
            s.graph(at, 8 * M)
        path = s.write()
        g = growth(path)
        equal((g["whose"], g["shape"]), ("process", "steady"))
        near(g["graph_bytes"], g["kept_bytes"] / measured, 0.03)
        check("graph executables" in text("leaks", path), text("leaks", path))
        equal("of no measured call" in text("leaks", path), measured == 2)
        first = read("summary", path)["verdicts"][0]
        equal(first["scenario"], "untracked-growth")
        equal([e["bytes"] for e in first["evidence"] if e["text"].startswith("graph executables")], [g["graph_bytes"]])


@case("a failure: what grew outside of any allocation is its cause where that is more than was missing")
def failure():
    for rate, size, want in ((2 * G, 62 * G, "untracked-growth"), (50 * M, 62 * G, "unknown"),
                             (200 * M, 70 * G, "unknown")):
        s = Untracked(steady(rate), seed=4)
        s.refuse(10 * HOUR - S, size)
        path = s.write()
        equal(verdicts(path)[0], want)
        equal(read("summary", path)["verdicts"][0]["evidence"][0]["bytes"], size)
        equal(growth(path)["shape"], "steady")


@case("a server whose graph executables are made again and again: growth, and no wrong budget")
def server():
    made = range(10 * MINUTE, 10 * HOUR, 5 * MINUTE)
    s = Untracked(lambda t: 512 * M + sum(at <= t for at in made) * 40 * M, seed=13, phases=True)
    for at in made:
        s.graph(at, 40 * M)
    s.refuse(10 * HOUR - S, 60 * G, SERVING)
    path = s.write()
    found = verdicts(path)
    equal((found[0], "mis-budget" in found), ("untracked-growth", False))


@case("more readings than are kept: the same growth; a single low reading in a part of the time is that part's least")
def many_readings():
    def dips(t):
        return 512 * M + 200 * M * t // HOUR + (4 * G if t // (4 * S) % 75 else 0)
    s = Untracked(dips, seed=14, every=4)
    check(sum(op == "memory-sample" for _, op, _ in s.other) > 8192)
    g = growth(s.write())
    equal((g["shape"], g["since_t_ns"] < START + HOUR), ("steady", True))
    near(g["bytes_per_hour"], 200 * M)


@case("growth beside a leak: both are told, and the device is full at both rates")
def beside_leak():
    s = Untracked(steady(), seed=5)
    for i in range(590):
        s.take(i * MINUTE + S, "keep", 4 * M)
    path = s.write()
    d = leaks(path)
    equal(([x["stack"][0]["name"] for x in d["growing"]], d["untracked"]["shape"]), (["keep"], "steady"))
    near(d["full_in_ns"], d["free_bytes"] / (340 * M) * HOUR, 0.05)
    check("1 call site grows, and untracked memory does" in text("leaks", path), text("leaks", path))
    equal(sorted(verdicts(path)), sorted(["leak", "untracked-growth", NONE]))


# ---- whose it is ----------------------------------------------------------------------------------------

@case("a neighbour that grows: none is claimed where NVML names this process's part; else it is not said whose it is")
def neighbour():
    for own, others in ((lambda t: 512 * M, steady(1 * G)), (steady(1 * G), lambda t: 512 * M)):
        path = Untracked(own, others, seed=6).write()
        equal(growth(path)["whose"], "process")
        equal(growth(path)["shape"], "none" if own(HOUR) == own(0) else "steady")
        equal(verdicts(path)[0], NONE if own(HOUR) == own(0) else "untracked-growth")
        path = Untracked(own, others, seed=6, nvml=False).write()
        g = growth(path)
        equal((g["whose"], g["shape"]), ("process-or-others", "steady"))
        near(g["bytes_per_hour"], fit(unexplained(path, own=False), g["since_t_ns"]))
        shown = text("leaks", path)
        check("of this process or of others, grows" in shown and "this process's memory beyond" not in shown, shown)
        found = read("summary", path)["verdicts"]
        equal([v["scenario"] for v in found], [NONE, "untracked-growth"])
        check("whether it is this process's is not known" in found[1]["summary"], found[1])
        check(found[1]["confidence"] <= 0.5)


# ---- what is known --------------------------------------------------------------------------------------

@case("readings that stop: growth is told up to the last one, and it is said that nothing is known behind it")
def stopped():
    path = Untracked(steady(), seed=7, until=5).write()
    d = leaks(path)
    g = d["untracked"]
    check(START + 4.9 * HOUR < g["read_t_ns"] < START + 5 * HOUR, g)
    equal(g["shape"], "steady")
    near(g["bytes_per_hour"], 100 * M)
    check(g["kept_bytes"] < 510 * M, g)
    check("untracked memory is known up to" in text("leaks", path), text("leaks", path))


@case("a device that was never read: nothing is known of it, and that is said")
def unread():
    s = Untracked(steady(), seed=8)
    s.other = [e for e in s.other if e[1] != "memory-sample"]
    path = s.write()
    equal(growth(path), None)
    check("untracked memory is not known" in text("leaks", path), text("leaks", path))
    equal(verdicts(path), [NONE])


@case("a wrapped ring: since before its first event, by the coarse history; without that of the time that is there")
def wrapped():
    for nvml in (True, False):
        s = Untracked(steady(), seed=9, nvml=nvml)
        path = s.write(wrapped_at=6 * HOUR)
        g = growth(path)
        equal((g["whose"], g["shape"]), ("process" if nvml else "process-or-others", "steady"))
        near(g["bytes_per_hour"], 100 * M)
        check(g["since_t_ns"] < START + HOUR and g["kept_bytes"] > 900 * M, g)
        equal(g["graph_bytes"], None)
        g = growth(Untracked(steady(), seed=9, nvml=nvml).write(wrapped_at=6 * HOUR, coarse=False))
        equal(g["shape"], "steady")
        check(g["since_t_ns"] >= START + 6 * HOUR and g["kept_bytes"] < 410 * M, g)


@case("minutes are too short to tell; lost events that could be all of it, too")
def too_short():
    path = Untracked(steady(6 * G), seed=10, hours=0.15, every=1).write()
    g = growth(path)
    equal((g["shape"], g["bytes_per_hour"], verdicts(path)), ("untold", None, [NONE]))
    s = Untracked(steady(), seed=10)
    s.add(5 * HOUR, "lost", {"count": 200})
    path = s.write()
    equal((growth(path)["shape"], verdicts(path)), ("untold", [NONE]))
    check("too little to tell: untracked memory of this process" in text("leaks", path), text("leaks", path))


# ---- what is no growth ----------------------------------------------------------------------------------

def jump(at, size):
    return lambda t: size if t >= at else 0


@case("graphs that are captured late, a library's first call and modules at the start: jumps are no growth")
def jumps():
    for seed, parts in enumerate((
            [jump(3 * HOUR, 900 * M)],
            [jump(at, 60 * M) for at in range(4 * HOUR, 4 * HOUR + 10 * MINUTE, MINUTE)],
            [jump(10 * S, 400 * M), jump(20 * S, 64 * M), jump(2 * HOUR, 128 * M), jump(6 * HOUR, 128 * M)],
            [jump(i * i * 5 * S, 6 * M) for i in range(40)])):
        path = Untracked(lambda t, parts=parts: 512 * M + sum(p(t) for p in parts), seed=seed).write()
        d = leaks(path)
        check(d["untracked"]["shape"] in ("none", "saturating"), "%d: %s" % (seed, d["untracked"]))
        equal(verdicts(path), [NONE], seed)


@case("healthy services, with what libraries take at the first calls, and neighbours: none grows")
def healthy():
    for seed in range(60 if FULL else 8):
        r = dice(seed)
        modules = [(abs(r.gauss(0, 1)) * HOUR / 3, r.randrange(1, 12) * 2 * M) for _ in range(40)]
        graphs_at, noise = r.uniform(0.1, 6) * HOUR, [r.randrange(0, 6) * 2 * M for _ in range(997)]
        wave = r.choice((0, 2 * G))  # a neighbour that comes and goes, which NVML tells apart

        def own(t, modules=modules, graphs_at=graphs_at, noise=noise):
            loaded = sum(b for at, b in modules if at <= t)
            return 512 * M + loaded + (600 * M if t > graphs_at else 0) + noise[t // S % 997]

        def others(t, wave=wave):
            return wave * (t // (37 * MINUTE) % 2) + (wave and t * G // HOUR)
        path = Untracked(own, others, seed=seed, phases=seed % 2 == 1).write()
        d = leaks(path)
        check(d["untracked"]["shape"] in ("none", "saturating"), "seed %d: %s" % (seed, d["untracked"]))
        equal((verdicts(path), d["growing"], "leaks" in text("summary", path)), ([NONE], [], False), "seed %d" % seed)


@case("managed memory that a program uses more and more of is not called untracked growth")
def managed():
    for nvml in (True, False):
        s = Untracked(steady(2 * G), seed=12, nvml=nvml)
        s.take(1, "use", 40 * G, space="managed")
        path = s.write()
        equal((growth(path)["shape"], verdicts(path)), ("none", [NONE]))


# ---- other views ----------------------------------------------------------------------------------------

@case("untracked bytes at the last reading are those of the summary's end; at most 80 columns on a terminal")
def views():
    for nvml in (True, False):
        path = Untracked(steady(), steady(50 * M), seed=11, nvml=nvml).write()
        g = growth(path)
        end = read("summary", path)["devices"][0]["memory"]["end"]
        equal(g["bytes"], end["untracked_bytes" if nvml else "untracked_or_others_bytes"])
        equal(g["read_t_ns"], end["read_t_ns"])
        for view in ("leaks", "explain"):
            code, written = run_on_terminal([REPORT, "--color=never", view, path], 80,
                                            env={**PLAIN, "TERM": "xterm"})
            lines = written.decode().splitlines()
            equal((code, [x for x in lines if len(x) > 80]), (0, []))
            check("untracked" in written.decode())


main()
