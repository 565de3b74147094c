#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces whose file has wrapped: which events were overwritten, which are left, and that the state is exact
nevertheless."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import FIRST_PART, INEXACT, LAST_PART, Trace, history  # noqa: E402
from tap import FULL, case, check, dice, dumped, equal, main, read_view, report, scratch  # noqa: E402

K = 1 << 10
STACKS = [[("f%d" % i, "/opt/app", 0x1000 + 16 * i), ("main", "/opt/app", 0x900)] for i in range(7)]
EVENTS, PARTS = 40, 3  # events of a chunk, parts of a checkpoint


class Program:
    """A process that allocates and frees at random, and writes a segment every `segment` chunks."""

    def __init__(self, seed, chunks, segment, refusals=(), inexact=()):
        self.random = dice(seed)
        self.trace = Trace()
        self.trace.info = {"process.start_ns": "500", "device.0.total_bytes": str(1 << 30)}
        self.live, self.states, self.ops = {}, [], 0
        self.t, self.parts, self.refusals = 1000, [], refusals
        self.curve = [(500, 0, 0)]  # time, bytes, refusals
        for n in range(chunks):
            if n % segment == 0:
                self.begin(n in inexact)
            self.fill(n)

    def begin(self, inexact):
        t = self.trace
        t.restart()
        t.info = {"process.start_ns": "500", "device.0.total_bytes": str(1 << 30)}
        keys = sorted(self.live)
        if inexact:
            self.parts = [None]
        else:
            step = len(keys) // PARTS + 1
            self.parts = [set(keys[i * step:(i + 1) * step]) for i in range(PARTS)]

    def made(self, ptr):
        number, t_ns, size, stack = self.live[ptr]
        return self.trace.record("alloc", t_ns, ptr=ptr, bytes=size, device=0, space="device", stack=STACKS[stack], event=number)

    def totals(self):
        sums = {}
        for number, t_ns, size, stack in self.live.values():
            at = sums.setdefault(stack, [number, t_ns, 0, 0])
            at[2] += size
            at[3] += 1
        return [self.trace.record("alloc", s[1], bytes=s[2], count=s[3], device=0, space="device", stack=STACKS[k], event=s[0])
                for k, s in sorted(sums.items())]

    def past(self):
        """The curve so far, in buckets of 4 us."""
        cells = {}
        for t_ns, size, refused in self.curve:
            c = cells.setdefault((t_ns - 500) // 4000, [0, 0, size, size, size])
            c[0] += 1
            c[1] += refused
            c[2:] = min(c[2], size), max(c[3], size), size
        return history(500, 4000, [(0, b, c[0], c[1], {4: tuple(c[2:])}) for b, c in sorted(cells.items())])

    def fill(self, chunk):
        t, checkpoint, past = self.trace, None, self.past() if self.trace.segment else None
        if self.parts:
            part = self.parts.pop(0)
            first = FIRST_PART if t.segment else 0
            if part is None:
                checkpoint = (FIRST_PART | LAST_PART | INEXACT, self.totals())
            else:
                checkpoint = (first | (0 if self.parts else LAST_PART), [self.made(p) for p in sorted(part) if p in self.live])
        for i in range(EVENTS):
            self.t += self.random.randrange(1, 1000)
            if (chunk, i) in self.refusals:
                t.event("alloc", self.t, bytes=1 << 40, device=0, result=2, space="device", stack=STACKS[0])
            elif self.live and self.random.random() < 0.45:
                ptr = self.random.choice(sorted(self.live))
                del self.live[ptr]
                t.event("free", self.t, ptr=ptr)
            else:
                ptr = self.random.randrange(1, 400) << 20
                if ptr in self.live:
                    self.curve.append((self.t, self.curve[-1][1], 0))
                    t.event("note", self.t, text="nothing")
                    continue
                size, stack = self.random.randrange(1, 900) * K, self.random.randrange(len(STACKS))
                number = t.event("alloc", self.t, ptr=ptr, bytes=size, device=0, result=0, space="device", stack=STACKS[stack])
                self.live[ptr] = (number, self.t, size, stack)
            self.curve.append((self.t, sum(v[2] for v in self.live.values()), (chunk, i) in self.refusals))
        t.flush(checkpoint=checkpoint, history=past)


def write(chunks, name="t.zst"):
    return scratch(name, b"".join(chunks))


def damaged(chunk):
    """Its prefix is no prefix any more."""
    return chunk[:8] + bytes(b ^ 0x55 for b in chunk[8:104]) + chunk[104:]


def state(d):
    """What lives at the end, by device and by call site."""
    dev = d["devices"][0]
    return dev["live_bytes"], dev["live_allocations"]


def sites(path, *more):
    top = read_view("top", path, *more)["devices"][0]
    return sorted((s["site"], s["live_bytes"], s["live_count"]) for s in top["sites"] if s["live_bytes"])


@case("with event 0 there and no gap, checkpoints change nothing")
def event_zero_is_there():
    p = Program(1, 30, 5)
    path = write(p.trace.out)
    d = read_view("summary", path)
    equal(state(d), (sum(v[2] for v in p.live.values()), len(p.live)))
    equal((d["trace"]["wrapped"], d["trace"]["overwritten_events"], d["trace"]["exact"], d["trace"]["exact_from_t_ns"]),
          (False, 0, True, None))


@case("every suffix that holds a whole checkpoint has the exact state")
def suffixes():
    p = Program(2, 30, 6)
    whole = write(p.trace.out, "whole.zst")
    want, want_sites = state(read_view("summary", whole)), sites(whole)
    equal(want, (sum(v[2] for v in p.live.values()), len(p.live)))
    for first in range(1, 25):
        path = write(p.trace.out[first:])
        d = read_view("summary", path)
        segment = -(-first // 6) * 6
        equal((state(d), sites(path)), (want, want_sites), "from chunk %d" % first)
        t = d["trace"]
        equal((t["wrapped"], t["overwritten_events"], t["exact"], t["missing_chunks"], t["lost_events"]),
              (True, segment * EVENTS, True, 0, 0), "from chunk %d" % first)
        code, out, _ = report("info", "--json", path)
        equal((code, json.loads(out)["integrity"]["ok"]), (4, True))
        text = report("info", path)[1]
        check(re.search(rb"^overwritten +events 0 to %d were overwritten" % (segment * EVENTS - 1), text, re.M), text)


@case("exact_from is where the last part of the checkpoint stands; the state is right at every moment from there on")
def exact_from():
    p = Program(3, 18, 6)
    whole, path = write(p.trace.out, "whole.zst"), write(p.trace.out[7:])
    t = read_view("summary", path)["trace"]
    firsts = [json.loads(line) for line in report("dump", "--json", whole)[1].splitlines()]
    equal(t["exact_from_t_ns"], firsts[(12 + PARTS - 1) * EVENTS]["t_ns"])
    for e in firsts[(12 + PARTS - 1) * EVENTS::7]:
        to = "%d.%09d" % divmod(e["t_ns"] - 500, 10**9)
        equal(state(read_view("summary", path, "--to", to)), state(read_view("summary", whole, "--to", to)), "at event %d" % e["event"])


@case("the surroundings of a refused allocation stand alone before the gap, with the exact state of then")
def kept_surroundings():
    p = Program(4, 40, 5, refusals={(8, 20), (37, 3)})
    whole, path = write(p.trace.out, "whole.zst"), write(p.trace.out[5:10] + p.trace.out[33:])
    a, b = read_view("oom", whole), read_view("oom", path)
    for x, y in zip(a["ooms"], b["ooms"]):
        for key in ("event", "t_ns", "live_bytes", "live_allocations", "requested_bytes"):
            equal(y[key], x[key], key)
    equal(len(b["ooms"]), 2)
    equal(state(read_view("summary", path)), state(read_view("summary", whole)))
    equal(read_view("summary", path)["live_at_crossing"], read_view("summary", whole)["live_at_crossing"])
    t = b["trace"]
    equal((t["overwritten_events"], t["missing_chunks"], t["lost_events"], t["exact"]), ((5 + 25) * EVENTS, 0, 0, True))
    equal([(k["from_event"], k["to_event"]) for k in t["retained"]], [(5 * EVENTS, 10 * EVENTS - 1)])
    equal(report("info", path)[0], 4)
    # the first of them with event 0
    path = write(p.trace.out[:10] + p.trace.out[33:])
    t = read_view("oom", path)["trace"]
    equal((t["overwritten_events"], t["missing_chunks"], t["exact"], t["wrapped"]), (25 * EVENTS, 0, True, True))
    equal(state(read_view("summary", path)), state(read_view("summary", whole)))


@case("behind a gap nothing is carried on, whatever follows")
def no_checkpoint():
    p = Program(10, 10, 5)
    t = p.trace
    t.seq += 7
    t.number += 100
    t.restart()
    t.event("alloc", p.t + 5, ptr=77, bytes=3, device=0, result=0, space="device")
    t.flush()
    d = read_view("summary", write(t.out))
    equal((state(d), d["trace"]["exact"], d["trace"]["overwritten_events"]), ((3, 1), False, 100))


@case("a chunk that is damaged in the middle of a segment is a loss, also in a ring; the next checkpoint mends the state")
def a_hole():
    p = Program(5, 30, 6)
    whole = write(p.trace.out, "whole.zst")
    out = p.trace.out
    path = write(out[6:15] + [damaged(out[15])] + out[16:])
    d = read_view("summary", path)
    equal((d["trace"]["missing_chunks"], d["trace"]["lost_events"], d["trace"]["exact"]), (1, EVENTS, True))
    equal(state(d), state(read_view("summary", whole)))
    equal(report("info", path)[0], 3)
    path = write(out[:27] + out[28:])
    t = read_view("summary", path)["trace"]
    equal((t["missing_chunks"], t["exact"], t["overwritten_events"]), (1, False, 0))
    for n in (11, 15):  # just before a checkpoint, and not: what is lost is lost in a copy, too
        path = write(out[:n] + [damaged(out[n])] + out[n + 1:])
        copy = os.path.join(os.path.dirname(path), "copy.zst")
        equal(report("copy", path, "--force", "-o", copy)[0], 0)
        equal(dumped(copy), dumped(path))
        a, b = (read_view("summary", p)["trace"] for p in (path, copy))
        equal([b[k] for k in ("lost_events", "overwritten_events", "exact")], [a[k] for k in ("lost_events", "overwritten_events", "exact")], n)
        equal(a["lost_events"], EVENTS)


@case("a checkpoint of totals by call site has their sums and says that it is not exact")
def totals():
    p = Program(6, 12, 6, inexact={6})
    path, whole = write(p.trace.out[6:7]), write(p.trace.out[:7], "whole.zst")
    t = read_view("summary", path)["trace"]
    equal((t["exact"], t["exact_from_t_ns"]), (False, None))
    before = json.loads(report("dump", "--json", path)[1].splitlines()[0])
    check(b"not fully known" in report("summary", path)[1], "it is said")
    to = "%d.%09d" % divmod(before["t_ns"] - 500, 10**9)
    # its first event alone may be a free of something that only the sum knows
    got, want = read_view("summary", path, "--to", to)["devices"][0]["live_bytes"], read_view("summary", whole, "--to", to)["devices"][0]["live_bytes"]
    check(abs(got - want) < 900 * K, "%d, %d" % (got, want))


@case("the timeline goes back to the start of the process, by the history where events were overwritten")
def coarse():
    p = Program(8, 40, 5, refusals={(8, 20), (12, 5), (37, 3)})
    whole, path = write(p.trace.out, "whole.zst"), write(p.trace.out[5:10] + p.trace.out[30:])
    a, b = read_view("timeline", whole), read_view("timeline", path)
    equal((b["from_ns"], b["to_ns"]), (500, a["to_ns"]))
    columns = b["devices"][0]["columns"]
    spans = list(zip([c["t_ns"] for c in columns], [c["t_ns"] for c in columns[1:]] + [b["to_ns"] + 1], columns))
    exact = 0
    for low, high, c in spans:
        if any(t in (low, high) for t, _, _ in p.curve):
            continue  # the limits are rounded
        inside = [s for t, s, _ in p.curve if low <= t < high] + [[s for t, s, _ in p.curve if t < max(low, 501)][-1]]
        if c["coarse"]:  # a bucket may be wider than the column, but what happened in it is there
            check(c["live_bytes_min"] <= min(inside) and c["live_bytes_max"] >= max(inside), "%r: %r" % (c, inside))
        else:
            equal((c["live_bytes_min"], c["live_bytes_max"]), (min(inside), max(inside)), c)
            exact += 1
    check(100 < exact < 400, exact)
    equal(sum(c["oom_count"] for c in columns), 3)
    d = read_view("summary", path)["devices"][0]
    before = [s for _, s, _ in p.curve[:1 + 35 * EVENTS]]  # up to the last checkpoint
    equal((d["history_peak_bytes"], d["history_oom_count"]), (max(before), 2))
    text = report("timeline", path)[1]
    check(b"coarse" in text and b"~~~" in text, text)
    equal(read_view("summary", whole)["devices"][0]["history_peak_bytes"], None)


@case("a history that is none is told as damage, and everything else is reported")
def malformed_history():
    for data in (b"", b"\xff" * 30, history(500, 4000, [(0, 1, 1, 0, {4: (0, 5, 3)})])[:-1], history(500, 0, []),
                 history(500, 1 << 63, [(0, 1, 1, 0, {})]), history(500, 4000, [(99, 1, 1, 0, {})])):
        p = Program(9, 6, 6)
        p.trace.restart()
        p.trace.event("note", p.t + 1, text="x")
        p.trace.flush(checkpoint=(FIRST_PART | LAST_PART, [p.made(k) for k in p.live]), history=data)
        code, _, err = report("timeline", write(p.trace.out))
        check(code == 4 and b"malformed" in err, err)


@case("every view of a ring ends well, in any order of its chunks")
def every_view():
    p = Program(7, 24, 6, refusals={(7, 1)})
    for name, chunks in (("ring", p.trace.out[20:] + p.trace.out[6:9] + p.trace.out[13:20]), ("rest", p.trace.out[13:17])):
        path = write(chunks, name + ".zst")
        for view in ("summary", "oom", "top", "leaks", "stats", "timeline", "frag", "dump", "info"):
            for more in ((), ("--json",)):
                code, out, err = report(view, *more, path)
                check(code == 4 or view == "info", "%s %s: %d %r" % (name, view, code, err))
                check(b"arning" not in err or b"journal" in err, err)
    for seed in range(200 if FULL else 12):
        order = list(p.trace.out)
        r = dice(seed)
        r.shuffle(order)
        path = write(order[:r.randrange(1, len(order))])
        for view in ("summary", "info", "timeline"):
            code, _, err = report(view, "--json", path)
            check(code in (0, 3, 4), "seed %d: %s %d %r" % (seed, view, code, err))


@case("a device that only a checkpoint knows: at its peak, it has the memory that the checkpoint restored")
def only_restored():
    t = Trace()
    for device in (0, 1):
        t.event("alloc", 1000 + device, ptr=0x10000 << device, bytes=(3 + device) * K, device=device, result=0, space="device",
                stack=STACKS[device])
    t.flush()
    t.restart()
    t.info = {"process.start_ns": "500"}
    gone = len(t.out)
    known = [t.record("alloc", 1000 + device, ptr=0x10000 << device, bytes=(3 + device) * K, device=device, space="device",
                      stack=STACKS[device], event=device) for device in (0, 1)]
    t.event("alloc", 2000, ptr=0x90000, bytes=K, device=0, result=0, space="device", stack=STACKS[2])
    t.flush(checkpoint=(FIRST_PART | LAST_PART, known))
    t.flush(last=True)
    path = write(t.out[gone:])
    d = read_view("summary", path, "--device=1")
    (device,) = d["devices"]
    equal((device["peak_bytes"], device["memory"]["peak"]["tracked_bytes"], device["memory"]["end"]["tracked_bytes"]), (4 * K,) * 3)
    equal([(h["bytes"], h["count"], h["stack"][0]["name"]) for h in d["live_at_peak"]], [(4 * K, 1, "f1")])
    equal([x["ordinal"] for x in read_view("info", path)["coverage"]["devices"]], [0, 1])


main()
