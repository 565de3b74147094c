#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces that lack chunks in between. What is live at a time between the last event before a gap and the first one behind it is
not known, and behind a gap without a checkpoint it is not, either: views that sample the state by time say so, and what they do
say is what a model of the whole trace has at that time. The model reads the trace by FORMAT.md alone (lib/read_trace.py)."""
import bisect
import functools
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import read_trace  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace, packed_columns  # noqa: E402
from tap import FULL, case, check, dice, equal, main, read_view, report, sample, scratch  # noqa: E402

Trace.version, Trace.columns = 3, staticmethod(packed_columns)  # as lib/read_trace.py reads
M, S, START = 1 << 20, 10**9, 500
STACKS = [[("f%d" % i, "/opt/app", 0x1000 + 16 * i), ("main", "/opt/app", 0x1900)] for i in range(5)]
SEGMENT, CHUNKS, EVENTS = 1 << 40, 12, 30
OF = {"device": 0, "space": "device", "tid": 1}


class Program:
    """Allocates and frees at random, and in a segment of PyTorch's blocks; a checkpoint in parts begins in every `every`th chunk.
    Between two chunks nothing happens for some seconds."""

    def __init__(self, seed, every, parts=1):
        self.random, self.trace, self.live, self.blocks, self.t = dice(seed), Trace(), {}, {}, S
        self.segment = None
        left = []
        for n in range(CHUNKS):
            checkpoint = None
            if n and n % every == 0:
                self.trace.restart()
                keys = [(self.live, p) for p in sorted(self.live)] + [(self.blocks, p) for p in sorted(self.blocks)]
                left = [keys[k * len(keys) // parts:(k + 1) * len(keys) // parts] for k in range(parts)]
            if left:
                part = left.pop(0)
                checkpoint = ((FIRST_PART if n % every == 0 else 0) | (0 if left else LAST_PART),
                              [self.record(of, p) for of, p in part if p in of])
            self.trace.info = {"process.start_ns": str(START), "device.0.total_bytes": str(1 << 35)}
            for _ in range(EVENTS):
                self.step()
            self.t += self.random.randrange(2, 5) * S
            self.trace.flush(checkpoint=checkpoint, last=n + 1 == CHUNKS)
        self.chunks = list(self.trace.out)

    def record(self, of, ptr):
        number, t_ns, size, stack = of[ptr]
        more = {"flags": ("segment",)} if of is self.live and ptr == SEGMENT else {}
        op = "block-alloc" if of is self.blocks else "alloc"
        return self.trace.record(op, t_ns, ptr=ptr, bytes=size, device=0, stack=STACKS[stack], event=number, tid=1, **more)

    def step(self):
        t, r = self.trace, self.random
        self.t += r.randrange(1000, 3 * S // 10)
        if self.segment is None:
            self.segment = t.event("alloc", self.t, ptr=SEGMENT, bytes=64 * M, result=0, stack=STACKS[4], **OF)
            self.live[SEGMENT] = self.segment, self.t, 64 * M, 4
        elif len(self.blocks) < 8 and (not self.blocks or r.random() < 0.3):
            ptr = r.choice([SEGMENT + k * 8 * M for k in range(8) if SEGMENT + k * 8 * M not in self.blocks])
            size = r.randrange(1, 8) * M
            self.blocks[ptr] = None
            number = t.event("block-alloc", self.t, ptr=ptr, bytes=size, device=0, stack=STACKS[3], tid=1, reserved_bytes=64 * M,
                             allocated_bytes=sum(b[2] for b in self.blocks.values() if b) + size)
            self.blocks[ptr] = number, self.t, size, 3
        elif self.blocks and r.random() < 0.4:
            ptr = r.choice(sorted(self.blocks))
            size = self.blocks.pop(ptr)[2]
            t.event("block-free", self.t, ptr=ptr, bytes=size, device=0, tid=1, reserved_bytes=64 * M,
                    allocated_bytes=sum(b[2] for b in self.blocks.values()))
        elif len(self.live) > 4 and r.random() < 0.45:
            ptr = r.choice(sorted(set(self.live) - {SEGMENT}))
            del self.live[ptr]
            t.event("free", self.t, ptr=ptr, device=0, tid=1)
        else:
            ptr = r.choice([p for p in range(2 * M, 1000 * M, 2 * M) if p not in self.live])
            size, stack = r.choice((M, 2 * M, 64 * M, 512 * M)), r.randrange(3)
            self.live[ptr] = t.event("alloc", self.t, ptr=ptr, bytes=size, result=0, stack=STACKS[stack], **OF), self.t, size, stack


def damaged(chunk):
    return chunk[:8] + bytes(b ^ 0x55 for b in chunk[8:104]) + chunk[104:]


def write(chunks, name):
    return scratch(name, b"".join(chunks))


class Model:
    """What is live at each time of the whole trace, and when that is known without the chunks of `lost`."""

    def __init__(self, whole, lost, every, parts):
        trace = read_trace.Trace(whole)
        self.times, self.live, self.blocks, self.told = [], [], [], []
        sizes = {"alloc": {}, "block-alloc": {}}
        for e in trace.events:
            of = sizes["block-alloc" if e["op"].startswith("block") else "alloc"]
            if e["op"] in sizes:
                of[e["ptr"]] = e["bytes"]
            else:
                del of[e["ptr"]]
            self.times.append(e["t_ns"])
            self.told += [e["t_ns"]] if e["op"].startswith("block") else []
            self.live.append(sum(sizes["alloc"].values()))
            self.blocks.append(sum(sizes["block-alloc"].values()))
        heads = [(self.times[n * EVENTS], self.times[n * EVENTS + EVENTS - 1]) for n in range(CHUNKS)]
        self.known, self.restored, exact, restoring = [], {self.times[0]}, True, 0  # [from, to]
        for n, (first, last) in enumerate(heads):
            if n in lost:
                exact, restoring = False, 0
                continue
            begins = not exact and n and n % every == 0
            restoring = parts if begins else restoring
            if restoring:
                restoring -= 1
                exact = not restoring
                begins |= exact
            if exact and n and n - 1 not in lost and not begins:
                self.known[-1][1] = last
            elif exact and parts == 1:
                self.restored.add(first)
                self.known.append([first, last])
            elif exact:  # what the last part restores is the state since the last event before it
                self.known.append([heads[n - 1][1] if n else first, last])
        self.gaps = [(heads[min(lost) - 1][1], heads[max(lost) + 1][0])]

    def is_known(self, t_ns):
        return any(a <= t_ns <= b for a, b in self.known)

    def is_told(self, t_ns):
        """Whether a block came since this part of the trace began."""
        begin = max(a for a, b in self.known if a <= t_ns)
        return bool(self.told) and begin <= self.told[bisect.bisect_right(self.told, t_ns) - 1] <= t_ns

    def at(self, t_ns):
        """Position of the last event up to a time."""
        return bisect.bisect_right(self.times, t_ns) - 1


def elapsed(t_ns):
    return "%d.%09d" % divmod(t_ns - START, S)


# Which chunks are lost, how often a checkpoint begins, in how many parts: right before a checkpoint, in the midst of a segment,
# two of them, before a checkpoint in parts.
HOW = [({3}, 4, 1), ({5}, 4, 1), ({2, 3}, 4, 1), ({5, 6}, 4, 3), ({3}, 4, 3)]


@functools.lru_cache(maxsize=None)
def cases():
    return list(make_cases())


def make_cases():
    for seed, (lost, every, parts) in enumerate(HOW):
        program = Program(seed, every, parts)
        whole = write(program.chunks, "whole-%d.zst" % seed)
        for name, chunks in (("damaged", [damaged(c) if n in lost else c for n, c in enumerate(program.chunks)]),
                             ("lacks", [c for n, c in enumerate(program.chunks) if n not in lost])):
            yield write(chunks, "%s-%d.zst" % (name, seed)), Model(whole, lost, every, parts)


@case("frag samples what is live and PyTorch's pool where it is known, and nowhere else")
def samples():
    known = unknown = 0
    for path, m in cases():
        d = read_view("frag", path)["devices"][0]
        first, last = m.times[0], m.times[-1]
        instants = [first + (last - first) * (i + 1) // 64 for i in range(64)]
        equal([h["t_ns"] for h in d["history"]], [t for t in instants if m.is_known(t)], path)
        for h in d["history"]:
            equal(h["live_bytes"], m.live[m.at(h["t_ns"])], "%s at %d" % (path, h["t_ns"]))
        curve = d["fragmentation"]
        instants = [first + (last - first) * (i + 1) // 60 for i in range(60)]
        equal([p["t_ns"] for p in curve], [t for t in instants if m.is_known(t)], path)
        for p in curve:
            if p["allocated_bytes"] is not None or m.is_told(p["t_ns"]):  # (it comes with a block)
                equal(p["allocated_bytes"], m.blocks[m.at(p["t_ns"])], "%s at %d" % (path, p["t_ns"]))
            worst = p["worst_t_ns"]
            check(worst is None or m.is_known(worst), "%s: worst at %r" % (path, worst))
        known += len(curve)
        unknown += 60 - len(curve)
        said = re.search(r"\n  \+[^\n]*\S( +-){5} *\n", report("frag", path)[1].decode())
        equal(bool(said), not all(m.is_known(first + (last - first) * (i + 1) // 12) for i in range(12)), "the text says it")
    return "%d points known, %d not" % (known, unknown)


@case("a column of the timeline has the least and the most of what is known in it, or says that nothing is")
def columns():
    empty = 0
    for path, m in cases():
        d = read_view("timeline", path)["devices"][0]["columns"]
        ends = [c["t_ns"] for c in d[1:]] + [m.times[-1] + 1]
        for c, end in zip(d, ends):
            begin = c["t_ns"]
            spans = [(max(a, begin), min(b, end - 1)) for a, b in m.known if a < end and b >= begin]
            empty += not spans
            if not spans:
                equal((c["live_bytes_min"], c["live_bytes_max"]), (None, None), "%s at %d" % (path, begin))
                continue
            states = [m.live[k] for a, b in spans for k in range(m.at(a), m.at(b) + 1)]
            low, high = c["live_bytes_min"], c["live_bytes_max"]
            # A checkpoint has the state before its first event, too.
            states += [m.live[m.at(a) - 1] if m.at(a) else 0 for a, _ in spans if a in m.restored]
            equal((low, high), (min(states), max(states)), "%s at %d" % (path, begin))
        text = report("timeline", path)[1].decode()
        check("not known |" in text and "?" in text, text)
    check(empty > 100, "%d columns" % empty)
    return "%d columns of which nothing is known" % empty


VIEWS = ("summary", "top", "frag", "leaks", "stats", "phases", "timeline")


def without(document):
    """Without what differs between a time in a gap and the last event before it."""
    trace = {k: v for k, v in document["trace"].items() if k != "gap"}
    return {k: v for k, v in {**document, "trace": trace}.items() if k != "file"}


def behind_of(path, m):
    """The first event behind the gap that views count: not of a chunk between the part that a ring retained and the ring."""
    times = [json.loads(line)["t_ns"] for line in report("dump", "--json", path)[1].splitlines()]
    return min(t for t in times if t > m.gaps[0][0])


def gap_of(m, t_ns, behind):
    """The key `gap` at a time that is not known: behind the last event before the gap, or behind the gap."""
    (before, _), = m.gaps
    return {"t_ns": t_ns, "known_until_ns": before, "as_of_ns": before if t_ns < behind else None,
            "known_from_ns": min((a for a, _ in m.known if a > t_ns), default=None)}


@case("--to and --at in a gap show the last event before it, in every view, and say that the time asked for is not known")
def ends_in_gap():
    for path, m in sample(cases(), 2, 1):
        (before, behind), = m.gaps
        for t_ns in (before + 1, (before + behind) // 2, behind - 1):
            for view in VIEWS:
                asked, shown = (read_view(view, path, "--to", elapsed(t)) for t in (t_ns, before))
                equal(without(asked), without(shown), "%s %s --to %s" % (path, view, elapsed(t_ns)))
                equal((asked["trace"]["gap"], shown["trace"]["gap"]), (gap_of(m, t_ns, behind), None), "%s %s" % (path, view))
            text = report("top", "--to", elapsed(t_ns), path)[1].decode()
            check(text.startswith("NOT KNOWN: what was live at +"), text)
            live = m.live[m.at(before)]
            equal(read_view("summary", path, "--to", elapsed(t_ns))["devices"][0]["live_bytes"], live)
            equal(read_view("stats", path, "--to", elapsed(t_ns))["devices"][0]["allocations"]["live"]["bytes"], live)
            equal(read_view("frag", path, "--to", elapsed(t_ns), "--at=end")["devices"][0]["live_bytes"], live)
            for view in ("top", "frag", "leaks"):
                d = read_view(view, path, "--at", elapsed(t_ns))
                equal(without(d), without(read_view(view, path, "--at", elapsed(before))), "%s %s --at" % (path, view))
                equal(d["trace"]["gap"], gap_of(m, t_ns, behind), "%s %s --at" % (path, view))
            equal(read_view("frag", path, "--at", elapsed(t_ns))["devices"][0]["live_bytes"], live)
        for t_ns in (before, m.times[-1]):
            text = report("top", "--to", elapsed(t_ns), path)[1].decode()
            check("NOT KNOWN" not in text, text)


@case("where nothing restores what is live, its time says so, and the figures are those of the events")
def behind_gap():
    said = 0
    for path, m in sample(cases(), 4):
        behind = behind_of(path, m)
        for t_ns in sample(m.times[::7], 12, m.times[9]):
            code, out, _ = report("top", "--at", elapsed(t_ns), path)
            equal(code, 0)
            equal("NOT KNOWN" in out.decode(), not m.is_known(t_ns), "%s at %s" % (path, elapsed(t_ns)))
            for view in ("top", "frag", "leaks"):
                d = read_view(view, path, "--at", elapsed(t_ns))
                for moment in [d["moment"]] if "moment" in d else [x["moment"] for x in d["devices"]]:
                    # (in the gap, the moment is that of the last event before it)
                    shown = m.gaps[0][0] if m.gaps[0][0] < t_ns < behind else t_ns
                    equal((moment["t_ns"], moment["known"]), (shown, m.is_known(shown)), "%s %s" % (path, view))
                equal(d["trace"]["gap"], None if m.is_known(t_ns) else gap_of(m, t_ns, behind), "%s %s" % (path, view))
            said += not m.is_known(t_ns)
    check(said > (20 if FULL else 1), said)


def without_checkpoints():
    """Traces that nothing restores behind their gap."""
    for seed in range(100, 112):
        lost = {dice(seed).randrange(1, CHUNKS - 1)}
        program = Program(seed, 1000)
        whole = write(program.chunks, "whole-%d.zst" % seed)
        yield write([c for n, c in enumerate(program.chunks) if n not in lost], "bare-%d.zst" % seed), Model(whole, lost, 1000, 1)


@case("an export at a time in a gap has the state before the gap, and its document says so")
def exports():
    out = scratch("snapshot")
    for path, m in cases():
        behind = behind_of(path, m)
        t_ns, files = (m.gaps[0][0] + behind) // 2, []
        for form in ("torch", "folded"):
            for asked, gap in ((t_ns, gap_of(m, t_ns, behind)), (m.gaps[0][0], None)):
                option = "--to" if form == "torch" else "--at"
                d = read_view("export", path, "--format=" + form, option, elapsed(asked), "-o", out, "--force")
                equal(d["gap"], gap, "%s %s" % (path, form))
                if form == "torch":
                    equal(d["devices"][0]["live_bytes"], m.live[m.at(m.gaps[0][0])], path)
                with open(out, "rb") as f:
                    files.append(f.read())
        equal((files[0] == files[1], files[2] == files[3]), (True, True), path)


DOUBT = " (not known: events are missing after "


@case("a peak, an end or a comparison behind a gap that nothing restores says that it is not known, in text and in JSON")
def peaks():
    count = {True: 0, False: 0}
    for path, m in without_checkpoints():
        (device,), (top,) = (read_view(view, path)["devices"] for view in ("summary", "top"))
        known = m.is_known(device["peak_t_ns"])
        equal((device["peak_known"], top["peak_known"], top["moment"]["known"]), (known,) * 3, path)
        equal(read_view("frag", path)["moment"]["known"], known, path)
        equal(read_view("leaks", path)["moment"], {"what": "end", "device": None, "event": None, "t_ns": m.times[-1], "known": False}, path)
        for view in ("summary", "top", "frag"):
            lines = [line for line in report(view, path)[1].decode().splitlines() if DOUBT in line]
            equal(bool(lines), not known, "%s %s" % (path, view))
        explained = report("explain", path)[1].decode()
        equal("allocated at the peak, by the events that are not missing" in explained, not known, path)
        check(DOUBT in report("leaks", path)[1].decode(), path)
        (side,) = json.loads(report("diff", "--json", path, path)[1])["devices"]
        equal((side["a"]["moment"]["known"], DOUBT in report("diff", path, path)[1].decode()), (known, not known), path)
        if known:
            equal(device["peak_bytes"], max(m.live[:m.at(m.gaps[0][0]) + 1]), path)
        count[known] += 1
    check(min(count.values()) > 1, count)
    return "%d known, %d not" % (count[True], count[False])


@case("a phase ends before a gap, and the time in the gap is no phase")
def phases():
    for path, m in cases():
        (before, behind), = m.gaps
        for p in read_view("phases", path)["phases"]:
            if p["stretches"] == 1:
                check(not (p["begin_t_ns"] < behind - 1 and p["end_t_ns"] > before), "%s: %r" % (path, p))


@case("copy: a part that begins behind a gap, or has one, does not say that nothing failed")
def parts():
    for seed, (lost, every, in_parts) in enumerate(HOW):
        program = Program(seed, every, in_parts)
        whole = write(program.chunks, "trimmed-%d.zst" % seed)
        lacks = write([c for n, c in enumerate(program.chunks) if n not in lost], "lacking-%d.zst" % seed)
        m = Model(whole, lost, every, in_parts)
        (before, behind), = m.gaps
        for begin in ((m.times[0] + before) // 2, (behind + m.times[-1]) // 2):
            said = []
            for path in (whole, lacks):
                part = "%s-%d" % (path, begin)
                code, _, err = report("copy", "--from=" + elapsed(begin - START), "-o", part, path)
                equal(code, 0, err)
                said += re.findall(r"No OOM occurred.*?\.\s", report("summary", part)[1].decode(), re.DOTALL)
            equal(["as far as the trace goes" in " ".join(text.split()) for text in said], [False, True], said)


@case("a damaged chunk before a checkpoint is missing, and overwritten only in a file that has gone round")
def damaged_or_overwritten():
    for seed, at in ((5, 2), (6, 5)):
        chunks = list(Program(seed, 3).chunks)
        chunks[at] = damaged(chunks[at])
        for path, gone_round in ((write(chunks, "damaged.zst"), False), (write(chunks[9:] + chunks[:9], "round.zst"), True)):
            trace = read_view("summary", path)["trace"]
            overwritten = EVENTS if gone_round else 0
            equal((trace["overwritten_events"], trace["lost_events"]), (overwritten, EVENTS - overwritten), "%d %s" % (at, path))
            text = " ".join(report("summary", path)[1].decode().split())
            equal(" overwritten (the file is a ring" in text, bool(overwritten), text)


@case("what comes after a budget was exceeded would not have happened, also behind a gap: the devices are those before it")
def exceeded_before_a_gap():
    t = Trace()
    t.info = {"process.start_ns": str(START), "device.0.total_bytes": str(1 << 35)}
    t.event("alloc", S, ptr=2 * M, bytes=100 * M, result=0, stack=STACKS[0], **OF)
    kept = t.event("alloc", 2 * S, ptr=1000 * M, bytes=300 * M, result=0, stack=STACKS[1], **OF)
    t.flush()
    t.event("free", 3 * S, ptr=2 * M, device=0, tid=1)
    t.flush()
    t.restart()
    left = t.record("alloc", 2 * S, ptr=1000 * M, bytes=300 * M, device=0, stack=STACKS[1], event=kept, tid=1)
    t.event("alloc", 9 * S, ptr=5000 * M, bytes=900 * M, result=0, stack=STACKS[2], **OF)
    t.flush(checkpoint=(FIRST_PART | LAST_PART, [left]), last=True)
    devices = []
    for name, chunks in (("budget.zst", [t.out[0], damaged(t.out[1]), t.out[2]]), ("before.zst", t.out[:1])):
        devices.append(read_view("summary", write(chunks, name), "--capacity=256MiB")["devices"])
    equal(devices[0], devices[1], "with and without what comes behind the gap")
    equal(devices[0][0]["memory"]["end"]["tracked_bytes"], 400 * M, "tracked at the crossing")


main()
