#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that fill a device within minutes: a loop that leaks, a server that leaks, and start-ups that need that much.

The traces are made here, twenty of each kind, so that what each program does is known."""
import itertools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import Trace  # noqa: E402
from tap import case, check, dice, equal, main, read_view, scratch  # noqa: E402

M, G, S = 1 << 20, 1 << 30, 10**9
FILES = itertools.count()
SEEDS = range(20)
APP, WORKER = "/opt/app", "/env/vllm/v1/worker/gpu_worker.py"
CORE = ("run_engine_core", "/env/vllm/v1/engine/core.py", 1)


class Program:
    """A program on a device of its own, which refuses what does not fit."""

    def __init__(self, seed, total=80 * G):
        self.random = dice(seed)
        self.trace, self.total, self.free = Trace(), total, total - 512 * M
        self.trace.info = {"device.0.total_bytes": str(total)}
        self.t, self.next, self.taken = S, 1 << 40, {}

    def wait(self, seconds):
        self.t += int(seconds * self.random.uniform(0.7, 1.3) * S)

    def take(self, size, stack):
        """Its address, or None: it was refused."""
        fields = {"bytes": size, "device": 0, "space": "device", "stack": stack, "tid": 1, "api": "cudaMalloc"}
        self.t += 1000
        if size > self.free:
            self.trace.event("alloc", self.t, result=2, free_bytes=self.free, total_bytes=self.total, **fields)
            return None
        self.trace.event("alloc", self.t, result=0, ptr=self.next, **fields)
        self.free -= size
        self.taken[self.next] = size
        self.next += size
        return self.next - size

    def give(self, ptr):
        self.t += 1000
        self.trace.event("free", self.t, ptr=ptr, tid=1)
        self.free += self.taken.pop(ptr)

    def work(self, size, stack):
        """Something that is taken and given back."""
        ptr = self.take(size, stack)
        if ptr is not None:
            self.give(ptr)
        return ptr

    def write(self):
        self.trace.event("note", self.t + S, text="end")
        return self.trace.save(scratch("fills-%d.zst" % next(FILES)))


def read(view, path):
    return read_view(view, "--sysroot=/nowhere", path, codes=(0,))


def verdicts(path):
    return read("summary", path)["verdicts"]


def first(path):
    return verdicts(path)[0]["scenario"]


def grown(path):
    (d,) = read("leaks", path)["devices"]
    return [(x["stack"][0]["name"], x["kept_bytes"], x["confidence"]) for x in d["growing"]]


def native(*names):
    return [(name, APP) for name in names]


@case("a loop of a C program that fills the device within minutes: a leak, and how sure that can be")
def loops():
    for seed in SEEDS:
        p = Program(seed)
        stack = native("grab") if seed % 2 else native("grab", "main")
        size, pause = p.random.randrange(64, 1024) * M + p.random.choice((0, 512)), 10 ** p.random.uniform(-3, -0.3)
        if seed % 3 == 0:
            p.take(p.random.randrange(1, 64) * M, native("prepare"))
        count = 0
        while p.take(size, stack) is not None:
            count += 1
            p.wait(pause)
            if seed % 4 == 0:
                p.work(p.random.randrange(1, 32) * M, native("compute"))
        path = p.write()
        ((name, kept, confidence),) = grown(path)
        equal((name, kept), ("grab", count * size), seed)
        v = verdicts(path)[0]
        equal((v["scenario"], v["confidence"], v["evidence"][1]["bytes"]), ("leak", confidence, kept), seed)
        check(confidence <= 0.5 and "weights" in v["refuted_by"], v)


@case("a loop of a C program that takes an hour until the device is full: a leak")
def slow_loops():
    for seed in SEEDS:
        p = Program(seed)
        size = p.random.randrange(64, 1024) * M
        while p.take(size, native("grab", "main")) is not None:
            p.wait(3600 / (80 * G / size))
        path = p.write()
        ((name, _, confidence),) = grown(path)
        equal((name, first(path)), ("grab", "leak"), seed)
        check(confidence > 0.85 and "weights" not in verdicts(path)[0]["refuted_by"], confidence)


def load_model(p, sites):
    """Tensors of a transformer, layer by layer. Whether they fit."""
    hidden = p.random.choice((4096, 5120, 8192))
    shapes = [2 * hidden * n for n in (hidden * 3, hidden, hidden * 7, hidden * 7 // 2)]
    if p.take(128256 * hidden * 2, native("load_tensor", *sites)) is None:
        return False
    for _ in range(p.random.randrange(28, 120)):
        for k, size in enumerate(shapes):
            if p.take(size, native(f"load_{k}" if sites else "load_tensor")) is None:
                return False
            p.wait(0.02)
            p.work(64 * M, native("convert"))
    return True


@case("weights that fill the device at the start are no leak, whether they fit or not, and by one call site or by many")
def weights():
    failed = 0
    for seed in SEEDS:
        p = Program(seed, (40 if seed % 2 else 96) * G)
        fits = load_model(p, ["main"] if seed % 3 else [])
        failed += not fits
        while fits and seed % 4 and p.work(p.free + M, native("forward")) is not None:
            p.wait(0.01)
        path = p.write()
        equal(grown(path), [], seed)
        check(first(path) != "leak", "%d: %s" % (seed, first(path)))
    check(4 < failed < 20, failed)


@case("an activation behind weights in equal pieces that does not fit: no leak; a cache in equal layers: at most a possible one")
def layers():
    for seed in SEEDS:
        p = Program(seed)
        size = p.random.randrange(100, 400) * 2 * M
        if seed % 2:
            while p.free > 30 * G:  # weights of several sizes first
                p.take(p.random.randrange(20, 500) * M, native("load"))
                p.wait(0.1)
            while p.take(size, native("make_cache")) is not None:
                p.wait(0.001)
        else:
            while p.free > 3 * size:
                p.take(size, native("load"))
                p.wait(0.1)
            p.wait(0.1)
            p.take(p.free + 3 * M, native("forward"))
        path = p.write()
        equal(grown(path), [], seed)
        if seed % 2:  # (by its calls alone, a cache of equal layers that asks for one more is a list that grows)
            check(first(path) != "leak" or "or more data than the device holds" in verdicts(path)[0]["summary"], seed)
            check(verdicts(path)[0]["sureness"] in (None, "possible"), seed)
        else:
            check(first(path) != "leak", "%d: %s" % (seed, first(path)))


@case("a server in which a thread leaks: a leak, by short stacks that are whole; tensors taken at once: a wrong budget")
def servers():
    for leaks, seed in itertools.product((True, False), SEEDS):
        p = Program(seed, 24 * G)
        mine = [("keep", "/home/me/plugin.py", 12), ("run", "/usr/lib/python3.11/threading.py", 982)][:1 + seed % 2]
        serve = [("forward", "/env/vllm/model.py", 9), ("Worker.execute_model", WORKER, 1334), CORE]
        for _ in range(30):
            p.take(p.random.randrange(100, 500) * M, [("Worker.load_model", WORKER, 594), CORE])
        p.take(p.free - 2600 * M, [("allocate_kv_cache", "/env/vllm/v1/worker/utils.py", 596),
                                   ("Worker.initialize_from_config", WORKER, 700), CORE])
        if not leaks:
            p.take(2500 * M, mine)
        size = p.random.randrange(100, 300) * M
        while p.work(200 * M, serve) is not None:
            p.wait(0.3)
            if leaks and p.take(size, mine) is None:
                break
        path = p.write()
        found = [v["scenario"] for v in verdicts(path)]
        equal(found[0], "leak" if leaks else "mis-budget", seed)
        equal("mis-budget" in found, not leaks, seed)
        equal([g[0] for g in grown(path)], ["keep"] if leaks else [], seed)


main()
