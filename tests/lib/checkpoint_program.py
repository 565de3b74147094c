# SPDX-License-Identifier: Apache-2.0
"""Small traces with checkpoints, for tests of replays that begin at one (--quick)."""
import os
import random
import sys

from mktrace import FIRST_PART, LAST_PART, Trace

K, M = 1 << 10, 1 << 20
STACKS = [[("f%d" % i, "/opt/app", 0x1000 + 16 * i), ("main", "/opt/app", 0x1900)] for i in range(5)]


class Program:
    """Allocates and frees at random, most of it of equal sizes; a checkpoint begins in every fifth chunk, in parts. At the
    events `failing` a request of the size fails, and the fourth event registers memory of the host if so many bytes are
    asked for. `rounds`: checkpoints have times as ticks. `readings`: they have the lowest and the last reading."""

    def __init__(self, seed, chunks=20, parts=2, events=60, lies=False, failing=None, registered=0, rounds=False, readings=False):
        self.random, self.trace, self.live, self.at = random.Random(seed), Trace(), {}, []
        self.t, self.lies, parts_left, self.failing, self.registered = 1000, lies, [], failing or {}, registered
        self.rounds, self.readings, self.lowest, self.last, self.freeing = rounds, readings, None, None, set()
        for n in range(chunks):
            checkpoint = None
            if n and n % 5 == 0:
                self.trace.restart()
                keys = sorted(self.live)
                self.random.shuffle(keys)
                parts_left = [set(keys[k::parts]) for k in range(parts)]
            if parts_left:
                part = parts_left.pop(0)
                flags = (FIRST_PART if n % 5 == 0 else 0) | (0 if parts_left else LAST_PART)
                checkpoint = flags, [self.record(p) for p in sorted(part) if p in self.live] + \
                    ([self.registration()] if registered and flags & FIRST_PART else []) + (self.read() if flags & LAST_PART else [])
            self.trace.info = {"process.start_ns": "500"}
            for _ in range(events):
                self.step()
            self.trace.flush(checkpoint=checkpoint, last=n + 1 == chunks)

    def record(self, ptr):
        number, t_ns, size, stack, tid = self.live[ptr]
        if self.lies == "swapped":  # two sizes, so that all sums are right
            small, large = (next(p for p in sorted(self.live) if self.live[p][2] == size) for size in (4 * K, 2 * M))
            size = {small: 2 * M, large: 4 * K}.get(ptr, size)
        else:
            size += self.lies * K
        t_ns -= t_ns % 100 if self.rounds else 0
        return self.trace.record("alloc", t_ns, ptr=ptr, bytes=size, device=0, space="device", stack=STACKS[stack], event=number,
                                 tid=tid)

    def registration(self):
        return self.trace.record("register", self.held, ptr=1 << 46, bytes=self.registered, event=3, tid=1, result=0)

    def read(self):
        """The records of the readings, if a checkpoint has them."""
        both = (self.lowest, self.last) if self.readings and self.last else ()
        return [self.trace.record("memory-sample", r["t_ns"] - (r["t_ns"] % 100 if self.rounds else 0), **{k: v for k, v in r.items() if k != "t_ns"},
                                  tid=None) for r in both]

    def sample(self):
        if self.readings:  # no free is under way at it: its thread goes on
            for tid in sorted(self.freeing):
                self.trace.event("mark", self.t, tid=tid, text="freed")
        free = {"t_ns": self.t, "device": 0, "free_bytes": (1 << 34) - self.random.randrange(M), "total_bytes": 1 << 34}
        self.last = {**free, "used_bytes": sum(v[2] for v in self.live.values())}
        self.lowest = min(self.lowest or free, free, key=lambda r: r["free_bytes"])
        self.trace.event("memory-sample", self.t, **{k: v for k, v in free.items() if k != "t_ns"}, tid=1 + self.random.randrange(4))

    def step(self):
        t, r = self.trace, self.random
        self.t += r.choice((0, r.randrange(2000)))
        if len(self.at) in self.failing:
            t.event("alloc", self.t, bytes=self.failing[len(self.at)], device=0, result=2, space="device", stack=STACKS[0], tid=1)
        elif self.registered and len(self.at) == 3:
            self.held = self.t
            t.event("register", self.t, ptr=1 << 46, bytes=self.registered, result=0, tid=1)
        elif r.random() < 0.05:
            self.sample()
        elif self.live and r.random() < 0.45:
            ptr = r.choice(sorted(self.live))
            del self.live[ptr]
            tid = 1 + r.randrange(4)
            t.event("free", self.t, ptr=ptr, tid=tid)
            self.freeing.add(tid)
        else:
            ptr = r.choice([p for p in range(2 * M, 1000 * M, 2 * M) if p not in self.live])
            size, stack, tid = r.choice((M, M, M, 2 * M, 4 * K)), r.randrange(len(STACKS)), 1 + r.randrange(4)
            lasts = r.randrange(1 if self.readings else 3000)
            number = t.event("alloc", self.t, ptr=ptr, bytes=size, device=0, result=0, space="device", stack=STACKS[stack],
                             duration_ns=lasts, tid=tid)
            self.live[ptr] = number, self.t, size, stack, tid
        self.at.append((self.t, sum(v[2] for v in self.live.values())))


def main(where):
    for seed, how in enumerate(({}, {"parts": 1}, {"parts": 3}, {"failing": {130: 512 * M, 150: M}}, {"registered": 3 * M}, {"rounds": True},
                                {"readings": True}, {"readings": True, "rounds": True})):
        program = Program(seed, chunks=11, events=30, **how)
        with open(os.path.join(where, "seek-%d.zst" % seed), "wb") as f:
            f.write(program.trace.bytes())


if __name__ == "__main__":
    main(sys.argv[1])
