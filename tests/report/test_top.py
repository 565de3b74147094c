#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""top: what call sites hold at a moment, took and gave back, since when, and how it grew; and the tree of callers.

The model was written from JSON.md and POOL.md. It reads the events of `dump --json` and shares nothing with the report:
pieces of memory and blocks are in dictionaries, and what a site held is a list of all its changes.
"""
import collections
import functools
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import Trace  # noqa: E402
from tap import FULL, ROOT, case, check, dumped, equal, main, report, sample, scratch  # noqa: E402

K, M, S, PARTS, SHORTEST = 1 << 10, 1 << 20, 10 ** 9, 8, 10 ** 8
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
GOLDEN = [os.path.join(ROOT, "tests/report/golden/traces", name + ".zst") for name in ("pools", "python", "refused", "recovered", "mixed")]


def read(path, *more):
    code, out, err = report("top", "--json", *more, path)
    check(code in (0, 4), "%s %s: exit status %d, %s" % (path, more, code, err))
    return json.loads(out)


@functools.lru_cache(maxsize=2)
def dump(path, *more):
    """The events, with handles and addresses as numbers."""
    return [{k: int(v, 16) if k in ("ptr", "handle", "context", "pool") and isinstance(v, str) else v for k, v in e.items()}
            for e in dumped(*more, path)]


def own_frames(stack):
    """The frames of a stack that views show, innermost first: with a name, else without, else lines of Python, else one frame."""
    frames = [f for f in stack or [] if f["kind"] != "end"]
    visible = [f for f in frames if not f["hidden"]]
    named = [f for f in visible if f["name"]]
    return named or visible or [f for f in frames if f["kind"] == "python"] or frames[:1]


def frame_key(f):
    if f["kind"] == "python":
        return os.path.basename(f["file"] or "?"), f["line"], f["name"]
    return f["name"] or (os.path.basename(f["module"] or ""), f["offset"])


def site_key(stack):
    frames = own_frames(stack)
    return frame_key(frames[0]) if frames else None


class Model:
    """What is held by kind and call site on one device, event by event; PyTorch's memory by block."""

    def __init__(self, device, from_ns=0):
        self.device, self.from_ns, self.now = device, from_ns, 0
        self.pieces = {}  # start -> {bytes, of (an object of the driver), reservation}
        self.reservations, self.arrays, self.handles, self.blocks = [], {}, {}, {}
        self.changes = collections.defaultdict(list)  # (kind, site) -> [(t_ns, bytes)]
        self.held, self.taken, self.given = ({} for _ in range(3))

    def add(self, rows, kind, o, sign=1):
        row = rows.setdefault((kind, o["site"]), [0, 0])
        row[0] += sign * o["bytes"]
        row[1] += sign
        if rows is self.held:
            self.changes[kind, o["site"]].append((self.now, row[0]))

    def make(self, e):
        counted = e["space"] != "host" and not {"foreign", "multicast", "deferred"} & set(e["flags"]) and e["device"] == self.device
        o = {"bytes": e["bytes"] or 0, "site": site_key(e["stack"]), "t_ns": e["t_ns"], "counted": counted, "segment": False,
             "was_segment": False, "refs": 1, "maps": 0, "context": e["context"], "async": "async" in e["flags"]}
        if counted:
            self.add(self.held, "allocation", o)
            if self.now >= self.from_ns:
                self.add(self.taken, "allocation", o)
        return o

    def end(self, o):
        if not o["counted"]:
            return
        if not o["segment"]:
            self.add(self.held, "allocation", o, -1)
        if self.now >= self.from_ns and not o["was_segment"]:
            self.add(self.given, "allocation", o)

    def settle(self, handle):
        o = self.handles.get(handle)
        if o and o["maps"] == 0:
            self.unmark(o)
        if o and o["refs"] == 0 and o["maps"] == 0:
            self.end(self.handles.pop(handle))

    def unmark(self, o):
        if o["segment"] and o["counted"]:
            self.add(self.held, "allocation", o)
        o["segment"] = False

    def mark(self, o):
        if not o["segment"] and o["counted"]:
            self.add(self.held, "allocation", o, -1)
            if not o["was_segment"] and self.now >= self.from_ns and o["t_ns"] >= self.from_ns:
                self.add(self.taken, "allocation", o, -1)
        o["segment"] = o["was_segment"] = True

    def covering(self, start, size):
        """The pieces of memory below a block; whether these are all of it."""
        found = [(s, p) for s, p in self.pieces.items() if s < start + size and s + p["bytes"] > start]
        covered = sum(min(s + p["bytes"], start + size) - max(s, start) for s, p in found)
        return found, covered == size

    def mark_run(self, start, piece):
        """A piece and, of mappings, those beside it in the same reservation are a segment."""
        self.mark(piece["of"])
        for step in (1, -1):
            at, p = start, piece
            while p["mapping"]:
                ends = {s + q["bytes"]: s for s, q in self.pieces.items()}
                at = at + p["bytes"] if step == 1 else ends.get(at)
                p = self.pieces.get(at)
                if not p or not p["mapping"] or p["reservation"] != piece["reservation"] or p["of"]["segment"]:
                    break
                self.mark(p["of"])

    def block(self, e):
        old = self.blocks.pop(e["ptr"], None)
        if old and old["inside"]:
            self.add(self.held, "block", old, -1)
            if self.now >= self.from_ns:
                self.add(self.given, "block", old)
        if e["op"] == "block-free" or e["device"] != self.device:
            return
        found, inside = self.covering(e["ptr"], e["bytes"])
        for start, piece in found:
            self.mark_run(start, piece)
        o = {"bytes": e["bytes"], "site": site_key(e["stack"]), "t_ns": e["t_ns"], "inside": inside}
        self.blocks[e["ptr"]] = o
        if inside:
            self.add(self.held, "block", o)
            if self.now >= self.from_ns:
                self.add(self.taken, "block", o)

    def unmap(self, start, size):
        for s in [s for s, p in self.pieces.items() if p["mapping"] and start <= s < start + size]:
            p = self.pieces.pop(s)
            p["of"]["maps"] -= 1
            self.settle(p["handle"])

    def apply(self, e):
        self.now = e["t_ns"]
        if e["result"]:
            return
        op, ptr, handle = e["op"], e["ptr"], e["handle"]
        if op in ("block-alloc", "block-free"):
            self.block(e)
        elif op == "alloc" and ptr:
            if ptr in self.pieces:
                self.end(self.pieces.pop(ptr)["of"])
            self.pieces[ptr] = {"bytes": e["bytes"], "of": self.make(e), "mapping": False}
        elif op == "alloc":
            self.arrays[handle] = self.make(e)
        elif op == "free" and handle in self.arrays:
            self.end(self.arrays.pop(handle))
        elif op == "free" and ptr in self.pieces:
            self.end(self.pieces.pop(ptr)["of"])
        elif op in ("create", "import"):
            if handle in self.handles:
                self.handles[handle]["refs"] += 1
            else:
                self.handles[handle] = self.make(e)
        elif op == "retain" and handle in self.handles:
            self.handles[handle]["refs"] += 1
        elif op == "release" and handle in self.handles:
            self.handles[handle]["refs"] -= 1
            self.settle(handle)
        elif op == "map" and ptr:
            reservation = next((r for r, n in self.reservations if r <= ptr < r + n), None)
            o = self.handles.setdefault(handle, {**dict.fromkeys(("segment", "was_segment", "counted"), False), "maps": 0, "refs": 0})
            o["maps"] += 1
            self.pieces[ptr] = piece = {"bytes": e["bytes"], "of": o, "mapping": True, "reservation": reservation, "handle": handle}
            beside = [p for s, p in self.pieces.items() if p["mapping"] and p["reservation"] == reservation and p["of"]["segment"]
                      and (s + p["bytes"] == ptr or s == ptr + piece["bytes"])]
            if beside:
                self.mark(o)
        elif op == "unmap":
            self.unmap(ptr, e["bytes"])
        elif op == "reserve":
            self.reservations.append((ptr, e["bytes"]))
        elif op == "context-destroy":
            for s in [s for s, p in self.pieces.items() if not p["mapping"] and p["of"]["context"] == e["context"] and not p["of"]["async"]]:
                self.end(self.pieces.pop(s)["of"])
            for handle in [h for h, o in self.arrays.items() if o["context"] == e["context"]]:
                self.end(self.arrays.pop(handle))

    def oldest(self):
        out = {}
        live = [p["of"] for p in self.pieces.values() if not p["mapping"]] + list(self.handles.values()) + list(self.arrays.values())
        rows = [("allocation", o) for o in live if o["counted"] and not o["segment"]]
        rows += [("block", b) for b in self.blocks.values() if b["inside"]]
        for kind, o in rows:
            key = kind, o["site"]
            out[key] = min(out.get(key, o["t_ns"]), o["t_ns"])
        return out


def stretch(first, last):
    start = first + (last - first) // 2 if first < last else last
    return (start, last) if last - start >= SHORTEST else None


def growth(changes, start, end):
    """By how much the least of the last part of [start, end] exceeds that of the first, and the number of rises."""
    least = []
    for part in range(PARTS):
        inside = [b for t, b in changes if t >= start and min((t - start) * PARTS // (end - start), PARTS - 1) == part]
        before = [b for t, b in changes if t < start or min((t - start) * PARTS // (end - start), PARTS - 1) < part]
        least.append(min(inside + [before[-1] if before else 0]))
    return least[-1] - least[0], sum(b > a for a, b in zip(least, least[1:]))


def rows(device, *keys):
    """The sites of a device, those with the same innermost frame together."""
    out, number = {}, collections.Counter()
    for s in device["sites"]:
        key = s["kind"], site_key(s["stack"])
        number[key] += 1
        row = out.setdefault(key, [0] * len(keys))
        for i, k in enumerate(keys):
            row[i] += s[k] or 0
    return out, number


def compare_growth(device, model, first, here):
    """What is compared alone: sites of which the report has one row."""
    count, problems = 0, []
    span = stretch(first, device["moment"]["t_ns"])
    equal(device["growth_from_t_ns"], span and span[0], here + "stretch")
    _, number = rows(device)
    for s in device["sites"]:
        key = s["kind"], site_key(s["stack"])
        if s["kind"] == "idle" or span is None:
            equal((s["growth_bytes"], s["rises"]), (None, None), here)
        elif number[key] == 1:
            want = growth(model.changes[key], *span)
            count += want != (0, 0)
            if (s["growth_bytes"], s["rises"]) != want:
                problems.append("%s %s: growth %s in %s steps, want %s" % (here, key, s["growth_bytes"], s["rises"], want))
    return count, problems


def compare(path, *more, from_ns=0):
    """All figures of all devices at one moment; the number of sites that grew or shrank, and the problems."""
    document, grown, problems = read(path, *more), 0, []
    events = dump(path)
    first = max(document["trace"]["t_first_ns"], from_ns)
    for device in document["devices"]:
        model, moment = Model(device["ordinal"], from_ns), device["moment"]
        for e in events:
            if e["t_ns"] > moment["t_ns"] or moment["event"] is not None and e["event"] > moment["event"]:
                break
            model.apply(e)
        here = "%s %s GPU %s: " % (os.path.basename(path), " ".join(more), device["ordinal"])
        equal(device["rows"], "blocks", here)
        idle = ("idle", None)
        for what, want in (("", model.held), ("taken_", model.taken), ("given_back_", model.given)):
            got, _ = rows(device, what + "bytes", what + "count")
            problems += ["%s %s %s: %s, want %s" % (here, what, k, got.get(k), want.get(k)) for k in set(got) | set(want)
                         if k != idle and got.get(k, [0, 0]) != want.get(k, [0, 0])]
        oldest = {}
        for s in device["sites"]:
            if s["oldest_t_ns"] is not None:
                key = s["kind"], site_key(s["stack"])
                oldest[key] = min(oldest.get(key, s["oldest_t_ns"]), s["oldest_t_ns"])
        equal(oldest, model.oldest(), here + "since")
        equal(sum(s["bytes"] for s in device["sites"]), device["bytes"], here + "sum")
        more_grown, wrong = compare_growth(device, model, first, here)
        grown += more_grown
        problems += wrong
    return grown, problems


@case("recorded and golden traces: what each site holds, took, gave back, since when and how it grew; at the peak and the end")
def recorded():
    grown, problems, count = 0, [], 0
    check(len(RECORDED) >= 13)
    for path in sample(RECORDED, 6) + GOLDEN:
        for more in ((), ("--at=end",)):
            n, wrong = compare(path, *more)
            grown += n
            problems += wrong
            count += 1
    check(grown > 5, "%d sites grew" % grown)
    return problems or "%d moments, %d sites grew or shrank" % (count, grown)


@case("recorded traces: the same at any time, and in a range")
def ranges():
    grown, problems, count = 0, [], 0
    for path in sample(RECORDED, 4, 1):
        trace = read(path)
        start, first, last = trace["start_ns"], trace["trace"]["t_first_ns"], trace["trace"]["t_last_ns"]
        for i in range(1, 6 if FULL else 3):
            at = first + (last - first) * (2 * i - 1) // (10 if FULL else 4)
            begin = first + (at - first) // 3
            for more, from_ns in (((), 0), (("--from=%.9f" % ((begin - start) / 1e9),), begin)):
                n, wrong = compare(path, "--at=%.9f" % ((at - start) / 1e9), *more, from_ns=from_ns)
                grown += n
                problems += wrong
                count += 1
    return problems or "%d moments, %d sites grew or shrank" % (count, grown)


# ---- what a person who hunts a leak needs -------------------------------------------------------------

def program(leak, seconds=80, step=S // 10):
    """Each step a tensor comes and goes; one that is kept, and weights at the beginning."""
    t, at, n, kept = Trace(), S, 0, 0

    def alloc(size, name):
        nonlocal n
        n += 1
        t.event("alloc", at, ptr=n << 30, bytes=size, device=0, result=0, space="device",
                stack=[(name, "/m/%s.py" % name, 7), ("main", "/m/main.py", 1)])
        return n << 30
    alloc(100 * M, "weights")
    while at < (1 + seconds) * S:
        at += step
        busy = alloc(30 * M, "activations")
        if leak(n):
            alloc(M, "leak")
            kept += 1
        at += step
        t.event("free", at, ptr=busy, tid=1)
    alloc(500 * M, "last")
    path = t.save(scratch("program.zst"))
    return path, kept


@case("a leak grows in all parts and at its rate, activations and weights do not grow, and since is the oldest that is left")
def leak():
    path, kept = program(lambda n: True)
    (d,) = read(path, "--at=end")["devices"]
    sites = {s["stack"][0]["name"]: s for s in d["sites"]}
    equal({k: (v["bytes"] > 0, v["rises"]) for k, v in sites.items()},
          {"weights": (True, 0), "activations": (False, 0), "leak": (True, 7), "last": (True, 0)})
    grew = sites["leak"]
    rate = grew["growth_bytes"] / ((d["moment"]["t_ns"] - d["growth_from_t_ns"]) * 7 / 8 / 1e9) / M
    check(4.7 < rate < 5.3, rate)  # 1 MiB in 0.2 s
    equal((grew["count"], grew["taken_count"], grew["given_back_count"], grew["oldest_t_ns"]), (kept, kept, 0, S + S // 10))
    equal((sites["activations"]["taken_bytes"], sites["activations"]["oldest_t_ns"]), (sites["activations"]["given_back_bytes"], None))
    text = report("top", "--at=end", path)[1].decode()
    line = next(x for x in text.splitlines() if "leak" in x)
    shown = float(re.search(r"\+(\d+\.\d\d) MiB +7/7", line)[1])
    check(abs(shown - rate) < 0.01 and "growth/s" in text, text)
    slow, _ = program(lambda n: n % 1000 == 1, 40000, 10 * S)
    check("growth/h" in report("top", "--at=end", slow)[1].decode())


@case("where the time is too short, growth is unknown: - in text, null in JSON")
def too_short():
    path, _ = program(lambda n: True, 0, S // 100)
    (d,) = read(path, "--at=end")["devices"]
    equal((d["growth_from_t_ns"], {s["growth_bytes"] for s in d["sites"]}, {s["rises"] for s in d["sites"]}), (None, {None}, {None}))
    check("growth: not known" in report("top", path)[1].decode())


@case("memory that PyTorch gives back to the driver: its blocks were given back by who held them, the segment by who grew the pool")
def segments_given_back():
    t, at = Trace(), S

    def event(op, **fields):
        nonlocal at
        at += S
        t.event(op, at, device=0, **fields)
    driver = {"result": 0, "space": "device", "stack": [("grow", "/m/grow.py", 1)]}
    event("alloc", ptr=1 << 30, bytes=20 * M, **driver)
    event("block-alloc", ptr=1 << 30, bytes=3 * M, stack=[("tensor", "/m/t.py", 1)], allocated_bytes=3 * M, reserved_bytes=20 * M)
    event("alloc", ptr=2 << 30, bytes=5 * M, **driver)
    event("block-free", ptr=1 << 30, bytes=3 * M, allocated_bytes=0, reserved_bytes=20 * M)
    event("free", ptr=1 << 30, tid=1)
    event("free", ptr=2 << 30, tid=1)
    event("alloc", ptr=3 << 30, bytes=M, **driver)
    path = t.save(scratch("segments.zst"))

    def figures(*more):
        (d,) = read(path, "--at=end", *more)["devices"]
        return {s["kind"]: [s[k] for k in ("count", "taken_bytes", "taken_count", "given_back_bytes", "given_back_count")] for s in d["sites"]
                if s["kind"] != "idle"}
    equal(figures(), {"allocation": [1, 6 * M, 2, 5 * M, 1], "block": [0, 3 * M, 1, 3 * M, 1]})
    equal(figures("--segments"), {"allocation": [1, 6 * M, 2, 5 * M, 1], "segment": [0, 20 * M, 1, 20 * M, 1]})


# ---- the tree ---------------------------------------------------------------------------------------

def flatten(node, path=()):
    """(frames from the outermost one to the node, own bytes, own count, bytes, count) of all nodes."""
    path += tuple(node["frames"])
    yield path, node["own_bytes"], node["own_count"], node["bytes"], node["count"]
    for child in node["children"]:
        yield from flatten(child, path)


def check_sums(node, here):
    for what in ("bytes", "count"):
        equal(node["own_" + what] + node["more_" + what] + sum(c[what] for c in node["children"]), node[what], here)
    check(len(node["children"]) + node["more_children"] != 1 or node["own_bytes"] or node["more_children"] or not node["frames"],
          "%s: %s has one child and is no row of its own" % (here, node["frames"]))
    sizes = [c["bytes"] for c in node["children"]]
    equal(sizes, sorted(sizes, reverse=True), here + "order")
    for child in node["children"]:
        check_sums(child, here)


def held_stacks(path, device):
    """What is held at the moment, by whole stack, with names as the text has them."""
    def key(stack):
        return json.dumps(stack)
    moment, out = device["moment"], collections.Counter()
    model = Model(device["ordinal"])
    for e in dump(path, "--demangle=simple"):
        if e["t_ns"] > moment["t_ns"] or moment["event"] is not None and e["event"] > moment["event"]:
            break
        model.apply({**e, "stack": [{"kind": "native", "name": key(e["stack"]), "hidden": False}]})
    for (_, site), (size, _) in model.held.items():
        if size:
            out[site] += size
    return out


@case("the tree of recorded and golden traces: a node is its own and its children's bytes, the root what is live, to the byte")
def tree_sums():
    nodes = 0
    for path in sample(RECORDED, 4, 2) + sample(sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst"))), 8):
        for more in ((), ("--at=end",), ("--segments",), ("--all-frames",), ("-n", "5")):
            flat = read(path, *[m for m in more if m not in ("-n", "5")])
            for device, listed in zip(read(path, "--tree", *more)["devices"], flat["devices"]):
                here = "%s %s: " % (os.path.basename(path), more)
                check_sums(device["tree"], here)
                equal((device["tree"]["bytes"], device["tree"]["count"]), (device["bytes"], sum(s["count"] for s in listed["sites"])), here)
                equal(device["bytes"], listed["bytes"], here)
                found = list(flatten(device["tree"]))
                equal(len({f[0] for f in found}), len(found), here + "merged by frame")
                check(more[:1] != ("-n",) or len(found) <= 1 + 5 + 6, here)  # (with leaves that are alone)
                nodes += len(found)
    return "%d rows" % nodes


@case("the tree divides what is held by caller as the stacks of the events do")
def tree_by_stack():
    for path in sample(RECORDED, 4, 3):
        for device in read(path, "--tree")["devices"]:
            want = collections.Counter()
            for text, size in held_stacks(path, device).items():
                frames = own_frames(json.loads(text))
                want[tuple(f["name"] or "" for f in reversed(frames))] += size
            got = collections.Counter()
            for frames, own, *_ in flatten(device["tree"]):
                if own and frames != ("idle in PyTorch's pool",):
                    got[frames] += own
            rest = sorted(got.values())
            # the label of a frame has its name, so that the paths can be told by it
            match = collections.Counter()
            for names, size in want.items():
                hits = [f for f in got if len(f) == len(names) and all(n[:100] in label for n, label in zip(names, f))]
                check(hits, "%s: no node %s in %s" % (path, names, list(got)))
                match[tuple(sorted(hits))] += size
            for hits, size in match.items():
                equal(sum(got[h] for h in hits), size, path)
            equal(sum(rest), sum(want.values()), path)


def deep(depth, side):
    """A stack of many frames, and one more allocation at each `side`-th of them."""
    t = Trace()
    frames = [("f%d" % i, "/m/deep.py", i) for i in range(depth)]
    for n, i in enumerate([0] + list(range(side, depth, side))):
        t.event("alloc", S + n, ptr=(n + 1) << 30, bytes=M, device=0, result=0, space="device", stack=frames[i:])
    return t.save(scratch("deep.zst"))


@case("thousands of frames: a chain is one row, levels are limited, and the sums hold")
def deep_stacks():
    (d,) = read(deep(4000, 10000), "--tree")["devices"]
    (chain,) = d["tree"]["children"]
    equal((len(chain["frames"]) > 100, chain["children"], chain["own_bytes"]), (True, [], M))
    path = deep(1200, 2)
    (d,) = read(path, "--tree")["devices"]
    check_sums(d["tree"], "deep")
    equal(d["tree"]["bytes"], d["bytes"])
    level, node = 0, d["tree"]
    while node["children"]:
        node, level = node["children"][0], level + 1
    equal((level, node["more_children"] > 0), (64, True))
    code, out, _ = report("top", "--tree", "-n", "100000", path)
    check(code == 0 and b"more, deeper" in out and len(out) < 10 ** 6, len(out))


@case("lines of the tree are ASCII where the terminal is not UTF-8, and the rows of a node add up as they are shown")
def tree_text():
    path = next(p for p in RECORDED if p.endswith("training.zst"))
    plain = report("top", "--tree", path, env={"LC_ALL": "C"})[1]
    check(plain.isascii() and b"|- " in plain and b"`- " in plain, plain)
    fancy = report("top", "--tree", path)[1].decode()
    drawn = fancy.replace("├─ ", "|- ").replace("└─ ", "`- ").replace("│  ", "|  ")
    equal(drawn.encode(), plain)
    rows_of = [re.match(r" *(\d+\.\d\d) MiB +([<\d.]+) % +[\d ]+  ((?:\|  |   )*)[|`]- ", x) for x in plain.decode().splitlines()]
    top = [float(m[1]) for m in rows_of if m and not m[3]]
    check(abs(sum(top) - float(re.search(r"GPU 0: ([\d.]+) MiB", fancy)[1])) < 0.005, top)


main()
