# SPDX-License-Identifier: Apache-2.0
"""Traces of hours, of which is known beforehand what grows in them: stories of a process that takes memory and gives it back."""
import collections
import itertools

from mktrace import FIRST_PART, INEXACT, LAST_PART, Trace, history, zstd_frame
from tap import dice, scratch

S = 10**9
START, CAPACITY = 7 * S, 80 << 30
FILES = itertools.count()


class Story:
    """Allocations with the times at which they are given back, and other events. Times are since the start of the process."""

    def __init__(self, seed=0, blocks=False, below=()):
        self.random = dice(seed)
        self.below = list(below)  # frames of all stacks
        self.blocks = blocks
        self.things = []  # (taken, given back or None, bytes, stack, space)
        self.other = []  # (t_ns, op, fields)

    def take(self, at, site, size, until=None, below=None, space="device"):
        stack = [(site, "/m/%s.py" % site, 7)] + (self.below if below is None else list(below))
        self.things.append((START + int(at), None if until is None else START + int(until), size, stack, space))

    def traffic(self, site, begin, end, rate, size, life):
        """Memory that comes and goes: `rate` in a second by chance, each for a time that `life` draws."""
        at = begin
        while True:
            at += self.random.expovariate(rate) * S
            if at >= end:
                return
            gone = at + life() * S
            self.take(at, site, size, gone if gone < end else None)

    def add(self, at, op, fields):
        """Another event, with fields or with a function of the bytes that are held then, which makes them."""
        self.other.append((START + int(at), op, fields))

    def read(self, at, free):
        self.add(at, "memory-sample", {"device": 0, "free_bytes": free, "total_bytes": CAPACITY})

    def end(self, at):
        """The last event."""
        self.add(at, "note", {"text": "end"})

    def changes(self):
        """(t_ns, what, thing) in the order of time; what is freed at a time is freed before what is taken then."""
        out = [(t, 1, ("take", i)) for i, (t, *_) in enumerate(self.things)]
        out += [(g, 0, ("give", i)) for i, (_, g, *_) in enumerate(self.things) if g is not None]
        out += [(t, 2, ("other", op, fields)) for t, op, fields in self.other]
        return sorted(out, key=lambda c: (c[0], c[1], c[2][1] if c[2][0] != "other" else 0))

    def write(self, wrapped_at=None, inexact=False, last=True, coarse=True, info=()):
        """`wrapped_at`: the events before that time are gone; the coarse history of them is there, if `coarse`."""
        writer = Writer(self, dict(info))
        for t_ns, _, what in self.changes():
            if wrapped_at is not None and t_ns >= START + wrapped_at and not writer.dropped:
                writer.wrap(t_ns, inexact, coarse)
            writer.put(t_ns, what)
        return writer.close(last)


class Writer:
    """Gives each allocation an address, and keeps what a recorder would: what is live, and the coarse history."""

    def __init__(self, story, info):
        self.story, self.trace = story, Trace(compress=zstd_frame)
        self.info = {"process.start_ns": str(START), **info}
        self.trace.info = dict(self.info)
        self.address, self.free, self.next = {}, collections.defaultdict(list), 1 << 40
        self.live, self.held, self.curve, self.readings = {}, 0, [], []
        self.dropped, self.count = 0, 0
        self.summed = set()  # of the live allocations: those of which an inexact checkpoint has only sums
        if story.blocks:
            self.segment_bytes = 60 << 30
            self.put_segment(START, self.next, self.segment_bytes)

    def put_segment(self, t_ns, at, size):
        self.trace.event("alloc", t_ns, ptr=at, bytes=size, device=0, result=0, space="device", stack=[("grow", "/m/grow.py", 1)])

    def put(self, t_ns, what):
        t = self.trace
        if what[0] == "other":
            fields = what[2](self.held) if callable(what[2]) else what[2]
            t.event(what[1], t_ns, **fields)
            if what[1] == "memory-sample":
                own = fields["process_bytes"] - self.held if "process_bytes" in fields else None
                self.readings.append((t_ns, fields["total_bytes"] - fields["free_bytes"], self.held, own))
        elif what[0] == "take":
            _, _, size, stack, space = self.story.things[what[1]]
            if not self.free[size]:
                self.free[size].append(self.next)
                self.next += size
            at = self.address[what[1]] = self.free[size].pop()
            if self.story.blocks:
                number = t.event("block-alloc", t_ns, ptr=at, bytes=size, device=0, stack=stack)
            else:
                number = t.event("alloc", t_ns, ptr=at, bytes=size, device=0, result=0, space=space, stack=stack)
            self.live[what[1]] = number, t_ns
            self.held += size * (space == "device")
        else:
            _, _, size, stack, space = self.story.things[what[1]]
            at = self.address.pop(what[1])
            more = {"bytes": size, "stack": stack, "device": 0, "space": space} if what[1] in self.summed else {}
            if self.story.blocks:
                t.event("block-free", t_ns, ptr=at, bytes=size, device=0)
            else:
                t.event("free", t_ns, ptr=at, tid=1, **more)
            self.free[size].append(at)
            self.live.pop(what[1])
            self.held -= size * (space == "device")
        self.curve.append((t_ns, self.held))
        self.count += 1
        if self.count % 2000 == 0:
            t.flush()

    def wrap(self, t_ns, inexact, coarse):
        t = self.trace
        t.flush()
        self.dropped = len(t.out)
        t.restart()
        t.info = dict(self.info)
        if inexact:
            sums = {}
            for i, (number, at) in self.live.items():
                _, _, size, stack, _ = self.story.things[i]
                s = sums.setdefault(repr(stack), [number, at, 0, 0, stack])
                s[2] += size
                s[3] += 1
            records = [t.record("alloc", s[1], bytes=s[2], count=s[3], device=0, space="device", stack=s[4], event=s[0])
                       for s in sums.values()]
            self.summed = set(self.live)
        else:
            records = [t.record("alloc", at, ptr=self.address[i], bytes=self.story.things[i][2], device=0, space="device",
                                stack=self.story.things[i][3], event=number) for i, (number, at) in self.live.items()]
        t.event("note", t_ns, text="wrapped")
        t.flush(checkpoint=(FIRST_PART | LAST_PART | (INEXACT if inexact else 0), records),
                history=self.coarse(max((t_ns - START) // 1000, 10 ** 7)) if coarse else None)

    def coarse(self, width):
        """The history in cells of this width: of what is held, and of the readings."""
        cells, before = {}, 0
        for at, held in self.curve:
            c = cells.setdefault((at - START) // width, [0, {4: (before,) * 3}])
            low, high, _ = c[1][4]
            c[0] += 1
            c[1][4] = min(low, held), max(high, held), held
            before = held
        for at, *figures in self.readings:
            cells[(at - START) // width][1].update((kind, (v,) * 3) for kind, v in enumerate(figures) if v is not None)
        return history(START, width, [(0, bucket, n, 0, figures) for bucket, (n, figures) in sorted(cells.items())])

    def close(self, last):
        self.trace.flush(last=last)
        return scratch("story-%d.zst" % next(FILES), b"".join(self.trace.out[self.dropped:]))
