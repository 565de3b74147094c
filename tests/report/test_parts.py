#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# long: the next redesign removes what it tests
"""Full passes in parts, between checkpoints (tools/report/replay/SEEK.md): they print what a pass over the whole trace
prints, byte by byte, with 1, 2, 7 and 16 workers; and what an independent model counts.

CUTRACE_REPORT_PARTS=tell divides small traces, and says how many parts there were: no case passes because there was one.
"""
import collections
import glob
import json
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import make_checkpoint  # noqa: E402
from death import record_ring  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace  # noqa: E402
from tap import FULL, ROOT, case, check, equal, main, report  # noqa: E402
from whole_trace import Whole  # noqa: E402

FOLDER = tempfile.mkdtemp()
VLLM = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/trace.zst")))
VIEWS = (("stats",), ("stats", "--json"), ("leaks", "--json"), ("top", "--json", "--at=end"), ("leaks",), ("top", "--json"),
         ("summary", "--json", "--fail-on=growth>1MiB/h"))
WORKERS = (1, 2, 7, 16)
K, M = 1 << 10, 1 << 20
BLOCKS = 1 << 40  # where blocks lie: in no memory of the driver's, so that no allocation is a segment
STACKS = [[("f%d" % i, "/opt/app", 0x1000 + 16 * i), ("main", "/opt/app", 0x1900)] for i in range(5)]


def write(data, name):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def printed(view, path, workers, mode="tell"):
    """Exit code, output and messages; and how many parts each pass that has parts had: 0, the trace was read as a whole."""
    code, out, err = report(*view, path, env={"CUTRACE_REPORT_PARTS": mode, "CUTRACE_REPORT_WORKERS": str(workers)})
    lines = [line for line in err.decode().splitlines() if not line.startswith("scan parts: ")]  # (test_scan_parts.py's)
    told, err = ([line for line in lines if line.startswith("parts: ") == is_told] for is_told in (True, False))
    check(len(told) <= (1 if view[0] == "stats" else 4), told)  # leaks and top: one for each GPU
    return (code, out, err), min([int(line.split()[-1]) if line[-1].isdigit() else 0 for line in told], default=0), told


def compare(path, views=VIEWS, workers=WORKERS):
    """The most parts of a pass, and what was told of parts."""
    most, told = 0, []
    for view in views:
        want, none, _ = printed(view, path, 0, "no")
        equal(none, 0)
        check(len(want[1]) > 100, "%r of %s" % (want, path))
        for n in workers:
            got, parts, says = printed(view, path, n)
            check(got == want, "%s of %s, %d workers, %r: %r, not %r" % (" ".join(view), os.path.basename(path), n, says, got, want))
            check(parts <= n, "%d parts for %d workers" % (parts, n))
            most, told = max(most, parts), told + says
    return most, told


# ---- programs whose figures a model counts --------------------------------------------------------

class Program:
    """Allocates at times between two ticks, and frees when a lifetime is a power of ten or just not: a checkpoint has the
    times of objects only to a tick, so that it does not say on which side of a bound such a lifetime lies."""

    def __init__(self, seed, chunks=24, every=4, events=80, rounds=True, lie=None):
        self.random, self.trace, self.live, self.blocks = random.Random(seed), Trace(), {}, {}
        self.due = []  # (time, address, is it a block)
        self.t, self.rounds, self.lie, self.frees = 1000, rounds, lie, 0
        self.made, self.freed = [], []  # (kind, bytes); (kind, bytes, lifetime)
        self.log = []  # of the driver's memory: (time, stack, what it takes, when that was allocated)
        self.fails, self.reported = 0, False
        parts_left = []
        for n in range(chunks):
            checkpoint = None
            if n and n % every == 0:
                self.trace.restart()
                keys = [("address", p) for p in sorted(self.live)] + [("block", p) for p in sorted(self.blocks)]
                self.random.shuffle(keys)
                parts_left = [keys[0::2], keys[1::2]]
            if parts_left:
                keys = parts_left.pop(0)
                flags = (LAST_PART if not parts_left else 0) | (FIRST_PART if parts_left else 0)
                checkpoint = flags, [self.describe(*k) for k in keys if k[1] in (self.live if k[0] == "address" else self.blocks)]
                if flags & LAST_PART and self.reported:
                    checkpoint[1].append(self.trace.record("pool-sample", 0, device=0, reserved_bytes=2 * M, allocated_bytes=M))
            self.trace.info = {"process.start_ns": "500"}
            for _ in range(events):
                self.step()
            self.trace.flush(checkpoint=checkpoint, last=n + 1 == chunks)
        self.chunks = self.trace.out

    def describe(self, kind, ptr):
        is_block = kind == "block"
        number, t_ns, size, stack, tid, api = (self.blocks if is_block else self.live)[ptr]
        if self.rounds:
            t_ns = t_ns // 100 * 100
        if self.lie and not is_block:
            t_ns, size, number = self.lie(t_ns, size, number)
        return self.trace.record("block-alloc" if is_block else "alloc", t_ns, ptr=ptr, bytes=size, device=0,
                                 stack=STACKS[stack], event=number, tid=tid, api=api, **({} if is_block else {"space": "device"}))

    def step(self):
        t, r = self.trace, self.random
        self.t += r.choice((1, 40, r.randrange(300), r.randrange(3000)))
        due = [d for d in self.due if d[0] <= self.t + 3000]
        if due:
            self.due.remove(due[0])
            self.t = max(self.t, due[0][0])
            self.free(due[0][1], due[0][2])
        elif r.random() < 0.05:
            t.event("alloc", self.t, bytes=1 << 50, device=0, result=2, space="device", stack=STACKS[0], api="cuMemAlloc", tid=1)
            self.fails += 1
        elif r.random() < 0.3 and self.live:
            self.reported = True
            self.allocate(self.blocks, "block-alloc", api=None, allocated_bytes=M, reserved_bytes=2 * M)
        else:
            self.allocate(self.live, "alloc", api=r.choice(("cuMemAlloc", "cudaMalloc")), space="device",
                          duration_ns=100 * r.randrange(30))

    def allocate(self, kind, op, api, **more):
        r = self.random
        first = BLOCKS if kind is self.blocks else 2 * M
        ptr = r.choice([p for p in range(first, first + 1000 * M, 2 * M) if p not in kind])
        size, stack, tid = r.choice((M, M, 2 * M, 4 * K, r.randrange(1, M))), r.randrange(len(STACKS)), 1 + r.randrange(4)
        number = self.trace.event(op, self.t, ptr=ptr, bytes=size, device=0, result=0, stack=STACKS[stack], tid=tid, api=api, **more)
        kind[ptr] = number, self.t, size, stack, tid, api
        self.made.append((op, size))
        if kind is self.live:
            self.log.append((self.t, stack, size, self.t))
        if r.random() < 0.95:
            lives = 10 ** r.choice((3, 4, 5, 5, 6, 6)) + r.choice((0, -1, 1, -99, 99, -50, r.randrange(-200, 200)))
            self.due.append((self.t + lives, ptr, kind is self.blocks))
            self.due.sort()

    def free(self, ptr, is_block):
        kind = self.blocks if is_block else self.live
        _, born, size, stack, *_ = kind.pop(ptr)
        if is_block:
            self.trace.event("block-free", self.t, ptr=ptr, bytes=size, device=0, tid=2, allocated_bytes=M, reserved_bytes=2 * M)
        else:
            self.trace.event("free", self.t, ptr=ptr, api="cuMemFree", tid=2)
            self.log.append((self.t, stack, -size, born))
            self.frees += 1
        self.freed.append(("block-alloc" if is_block else "alloc", size, self.t - born))

    def write(self, name):
        return write(b"".join(self.chunks), name)


class Leak(Program):
    """A program of half an hour, that keeps some of what f0 allocates. It gives other memory back after lifetimes at the
    bounds of the classes by which leaks counts them, quarters of octaves: there again ticks decide."""

    def step(self):
        r = self.random
        then = self.t + r.randrange(600_000_000, 1_400_000_000)
        if self.due and self.due[0][0] <= then:
            lasts, ptr, _ = self.due.pop(0)
            self.t = max(self.t, lasts)
            return self.free(ptr, False)
        self.t = then
        stack, ptr = r.randrange(len(STACKS)), r.choice([p for p in range(4 * M, 9000 * M, 4 * M) if p not in self.live])
        size = 4 * M - 4 * K * r.randrange(3)
        number = self.trace.event("alloc", self.t, ptr=ptr, bytes=size, device=0, result=0, stack=STACKS[stack], tid=1,
                                  api="cuMemAlloc", space="device")
        self.live[ptr] = number, self.t, size, stack, 1, "cuMemAlloc"
        self.log.append((self.t, stack, size, self.t))
        if stack or r.random() < 0.5:
            # Nearly all that f0 gives back was allocated before a checkpoint, and is a class older by the checkpoint's time.
            lives = (5 << 36) - r.randrange(1, 100) if not stack else (r.choice((4, 5, 6, 7)) << r.randrange(29, 34)) + r.randrange(-99, 100)
            self.due.append((self.t + lives, ptr, False))
            self.due.sort()
        return None


def least_held(log, begin, end, parts):
    """The least that was held in each part of a time, with what is held when it begins."""
    least, held = [None] * parts, 0
    for t, size in [*log, (end, 0)]:
        part = min(parts - 1, (t - begin) * parts // (end - begin)) if t > begin else 0
        for i in range(part + 1):
            least[i] = held if least[i] is None else least[i]
        held += size
        least[part] = held if t < begin else min(least[part], held)
        if t < begin:
            least = [held] + [None] * (parts - 1)
    return least


def lifetime_class(ns):
    """The end of the quarter of an octave that a lifetime lies in."""
    quarter = 1 << (ns.bit_length() - 3)
    return (ns // quarter + 1) * quarter


def site_rows(document):
    rows = document["devices"][0]
    return {row["site"].split(" ")[0]: row for row in rows["sites"] if row["kind"] == "allocation"}


def check_growth(p, top, leaks):
    """What each call site took, gave back, and how the least that it held rose: in `top` and in `leaks`."""
    begin, end = p.log[0][0], p.log[-1][0]
    middle = begin + (end - begin) // 2
    rows = site_rows(top)
    equal(sorted(rows), ["f%d" % i for i in range(len(STACKS))])
    for i in range(len(STACKS)):
        log = [e for e in p.log if e[1] == i]
        taken, given = [e for e in log if e[2] > 0], [e for e in log if e[2] < 0]
        live = [v for v in p.live.values() if v[3] == i]
        least = least_held([(t, size) for t, _, size, _ in log], middle, end, 8)
        row = rows["f%d" % i]
        equal([row[k] for k in ("taken_count", "taken_bytes", "given_back_count", "given_back_bytes", "oldest_t_ns")],
              [len(taken), sum(e[2] for e in taken), len(given), -sum(e[2] for e in given), min((v[1] for v in live), default=None)])
        equal((row["growth_bytes"], row["rises"]), (least[7] - least[0], sum(a < b for a, b in zip(least, least[1:]))))
    growing = {row["site"].split(" ")[0]: row for row in leaks["devices"][0]["growing"]}
    equal(list(growing), ["f0"])
    live = sorted(v[1] for v in p.live.values() if v[3] == 0)
    lives = sorted((t - born for t, stack, size, born in p.log if stack == 0 and size < 0), reverse=True)
    row, left_out = growing["f0"], len(live) // 20 + len(lives) // 100
    equal([row[k] for k in ("never_freed_count", "oldest_t_ns", "median_t_ns", "lifetime_ns", "taken_count")],
          [len(live), live[0], live[(len(live) + 1) // 2 - 1], lifetime_class(lives[left_out]), len(live) + len(lives)])


def rows(bars, key):
    return {b[key]: (b["count"], b["bytes"]) for b in bars}


def totals(things, key):
    """Key of each thing -> how many, and their bytes."""
    sums = collections.defaultdict(lambda: (0, 0))
    for thing in things:
        count, size = sums[key(thing)]
        sums[key(thing)] = count + 1, size + thing[1]
    return dict(sums)


def check_model(p, document):
    device, = document["devices"]
    for name, op in ("allocations", "alloc"), ("blocks", "block-alloc"):
        got, made, freed = device[name], [m for m in p.made if m[0] == op], [f for f in p.freed if f[0] == op]
        live = [v[2] for v in (p.live if op == "alloc" else p.blocks).values()]
        equal([got[k]["count"] for k in ("allocated", "freed", "live")], [len(made), len(freed), len(live)])
        equal([got[k]["bytes"] for k in ("allocated", "freed", "live")], [sum(m[1] for m in made), sum(f[1] for f in freed), sum(live)])
        equal(rows(got["lifetimes"], "from_ns"), totals(freed, lambda f: 10 ** (len(str(f[2])) - 1) if f[2] >= 1000 else 0))
        equal(rows(got["sizes"], "from_bytes"), totals(made, lambda m: 1 << (m[1].bit_length() - 1)))
        equal({s["bytes"]: s["count"] for s in got["top_sizes"]}, collections.Counter(m[1] for m in made))
    calls = {(c["api"], c["op"]): c for c in document["calls"]}
    equal(sum(c["count"] for c in calls.values()), sum(m[0] == "alloc" for m in p.made) + p.fails + p.frees)
    equal((calls["cuMemAlloc", "alloc"]["oom_count"], calls["cuMemFree", "free"]["count"]), (p.fails, p.frees))


@case("sizes, lifetimes at the bounds of their classes, blocks, calls and failures are those of the model, in any number of parts")
def programs():
    for seed in range(40 if FULL else 6):
        p = Program(seed, rounds=seed % 3 != 2)
        path = p.write("program-%d.zst" % seed)
        for n in WORKERS if FULL or not seed else (2, 7):
            (code, out, _), parts, told = printed(("stats", "--json"), path, n)
            equal((code, parts), (0, 0 if n == 1 else min(n, 6)), "seed %d, %r" % (seed, told))
            check_model(p, json.loads(out))
        compare(path, workers=WORKERS if FULL else (7,))


@case("what call sites took, gave back, and how the least that they held rose are those of the model, in any number of parts")
def growth():
    for seed in range(20 if FULL else 3):
        p = Leak(900 + seed, rounds=seed % 3 != 2)
        path = p.write("leak-%d.zst" % seed)
        for n in WORKERS if FULL or not seed else (2, 7):
            documents = []
            for view in ("top", "--json", "--at=end"), ("leaks", "--json"):
                (code, out, _), parts, told = printed(view, path, n)
                equal((code, parts), (0, 0 if n == 1 else min(n, 6)), "seed %d, %r" % (seed, told))
                documents.append(json.loads(out))
            check_growth(p, *documents)
        compare(path, workers=WORKERS if FULL else (7,))


@case("a moment in the middle: what lies behind it is not counted, and there are as many parts as lie before it")
def moments():
    p = Leak(55)
    path, span, found = p.write("moments.zst"), p.t - 500, []
    for k in (0, 1, 2, 4, 6, 8, 10):
        at = "--at=%.9f" % (span * k / 10 / 1e9)
        found.append(compare(path, (("top", "--json", at), ("leaks", "--json", at)), (2, 16))[0])
    equal(found, sorted(found))
    check(found[0] == 0 and found[-1] == 6, "parts: %r" % found)
    return "parts: %r" % found


@case("--from, --to and --device: the same, wherever the range ends; what --to leaves out is not read")
def ranges():
    p = Program(77)
    path, span = p.write("range.zst"), p.t - 500
    leak = Leak(78)
    for part in (3, 5, 7):
        at = "--from=%.9f" % (leak.t * part / 10 / 1e9)
        equal(compare(leak.write("range-leak.zst"), (("top", "--json", at), ("leaks", "--json", at)), (2, 16))[0], 6)
    for k in (0, 1, 3, 5, 7, 9, 10):
        at = "%.9f" % (span * k / 10 / 1e9)
        for option in (("--to=" + at,), ("--from=" + at,), ("--from=" + at, "--device=0")):
            most, _ = compare(path, (("stats", "--json", *option),), (2, 16))
            equal(most, 0 if option[0] == "--to=" + at and k < 10 else 6)


@case("a checkpoint that has another state than the events proves nothing, and what is printed is the same")
def lies():
    sizes = {M: 2 * M, 2 * M: M}
    how = {"size": lambda t, size, number: (t, size + K, number), "swapped": lambda t, size, number: (t, sizes.get(size, size), number),
           "time": lambda t, size, number: (t - 100, size, number), "event": lambda t, size, number: (t, size, number ^ 1),
           "later event": lambda t, size, number: (t, size, number + 1000)}
    for name, lie in how.items():
        p = Program(5, lie=lie)
        path = p.write("lie.zst")
        most, told = compare(path)
        check(most == 0 and len(told) >= 3 * len(VIEWS) and all(t.endswith("that prove nothing") for t in told), "%s: %r" % (name, told))
        check_model(p, json.loads(printed(("stats", "--json"), path, 7)[0][1]))


@case("a time that a checkpoint rounds by less than a tick is no lie, whatever it rounds to")
def within_a_tick():
    p = Program(6, lie=lambda t, size, number: (t // 100 * 100 + 99 - t % 97, size, number), rounds=False)
    for n in 2, 7:
        (_, out, _), parts, told = printed(("stats", "--json"), p.write("tick.zst"), n)
        equal(parts, min(n, 6), told)
        check_model(p, json.loads(out))


def misnumbered(first=0, events=0):
    """Four chunks of twenty events, with a checkpoint in the third one, whose prefix numbers its events too low by `first`;
    the second one's counts `events` too few. What the last four events of the second one do cancels out."""
    t, live = Trace(), {}
    for n in range(4):
        checkpoint = None
        if n == 2:
            t.restart()
            checkpoint = FIRST_PART | LAST_PART, [
                t.record("alloc", at, ptr=p, bytes=M, device=0, space="device", stack=STACKS[0], event=number, tid=1)
                for p, (number, at) in live.items()]
        t.info = {"process.start_ns": "500"}
        for i in range(n * 20, n * 20 + 20):
            now = 1000 + i * 1000
            if i in (37, 39):
                t.event("free", now, ptr=i * 4 * M, tid=1)
                continue
            number = t.event("alloc", now, ptr=(i + 1) * 4 * M, bytes=M, device=0, result=0, space="device", stack=STACKS[0], tid=1)
            if i not in (36, 38):
                live[(i + 1) * 4 * M] = number, now
        t.number -= first if n == 2 else 0
        t.flush(checkpoint=checkpoint, last=n == 3, **({"events": 20 - events} if events and n == 1 else {}))
        t.number -= events if n == 1 else 0
    return t.bytes()


@case("prefixes that number or count their events wrongly prove nothing, and what is printed is the same")
def numbers():
    views = ("stats", "--json"), ("top", "--json", "--at=end")
    equal([compare(write(misnumbered(*how), "numbers.zst"), views)[0] for how in ((0, 0), (4, 0), (0, 4))], [2, 0, 0])


# ---- traces that are found otherwise --------------------------------------------------------------

def damaged(chunks, *which):
    return b"".join(c[:-40] + bytes(b ^ 0x55 for b in c[-40:]) if i in which else c for i, c in enumerate(chunks))


def as_found(chunks):
    n = len(chunks)
    yield "whole", b"".join(chunks)
    yield "wrapped", b"".join(chunks[n // 6:])
    yield "rotated", b"".join(chunks[n // 3:] + chunks[n // 6:n // 3])
    yield "cut", b"".join(chunks)[:-len(chunks[-1]) // 2]
    yield "killed", b"".join(chunks[:-1])
    yield "damaged early", damaged(chunks, n // 6)
    yield "damaged late", damaged(chunks, n - 2)
    yield "damaged twice", damaged(chunks, 2, n // 2)
    yield "lacks one", b"".join(chunks[:n // 4] + chunks[n // 4 + 1:])


@case("whole, wrapped, cut, killed, damaged: the same output, messages and exit code")
def hurt():
    found = {}
    for seed in range(12 if FULL else 2):
        for name, data in as_found((Leak if seed % 2 else Program)(200 + seed, chunks=36).chunks):
            shown = VIEWS if FULL else (VIEWS[seed % 2], VIEWS[2 + seed % 2])
            most, _ = compare(write(data, name.replace(" ", "-") + ".zst"), shown, WORKERS if FULL else (2, 7, 16))
            found[name] = max(most, found.get(name, 0))
    check(all(most > 1 for name, most in found.items() if name != "damaged late"), "parts: %r" % found)
    return "parts: %r" % found


@case("traces of vLLM with blocks, VMM objects, shared and sleeping memory: the same")
def vllm():
    r, divided, passes = random.Random(3), 0, 0
    for path in VLLM if FULL else r.sample(VLLM, 6):
        whole = Whole(path)
        n = len(whole.records)
        edges = sorted(r.sample(range(n // 5, n - 1), 5))
        chunks = make_checkpoint.insert(whole, edges)
        name = os.path.basename(os.path.dirname(path))
        for data in (b"".join(chunks), b"".join(chunks[1:])):
            most, _ = compare(write(data, name + ".zst"), VIEWS if FULL else (r.choice(VIEWS),), (2, 7) if FULL else (7,))
            divided, passes = divided + (most > 1), passes + 1
    check(divided > passes // 2, "%d of %d in parts" % (divided, passes))
    return "%d of %d in parts" % (divided, passes)


@case("a ring that the recorder wrote, whose checkpoints have rounded times, also with bits that are wrong: the same")
def recorded():
    path = record_ring("2M", 400_000)
    most, told = compare(path)
    check(most >= 6, told)
    with open(path, "rb") as f:
        data = bytearray(f.read())
    check(len(data) > 1 << 20, "it is too small to be opened by several threads")
    r, read = random.Random(9), []
    for i in range(12 if FULL else 3):
        hurt = bytearray(data)
        for _ in range(1 + i):
            hurt[r.randrange(len(hurt))] ^= 1 << r.randrange(8)
        path = write(hurt, "hurt.zst")
        read.append(compare(path, (*VIEWS, ("info", "--json"), ("check",)), WORKERS if FULL else (2, 16))[0])
    return "%r parts of damaged ones" % read


main()
