# SPDX-License-Identifier: Apache-2.0
"""One run of a worker that meets a fault, and what the fault may cost: shared by test_faults.py and test_quota.py."""
import glob
import os
import subprocess

import tap
from death import *

CALLS = 20000  # of a single worker: enough for several chunks
MUCH = {"CUTRACE_FLUSH_MS": "10", "CUTRACE_QUIET": None}


class Life:
    """One run of a worker, whose trace may lie elsewhere than its ledger."""

    def __init__(self, *arguments, where=None, place=None, env=None, prefix=(), hang=HANG, **kw):
        self.where = where or folder()
        self.place = place or self.where
        e = {**MUCH, "CUTRACE_OUTPUT": os.path.join(self.place, "trace.%p.zst"), **(env or {})}
        self.process = start(self.where, *prefix, program("worker"), *map(str, arguments), env=e, **kw)
        self.hang = hang

    def end(self):
        try:
            self.status = self.process.wait(self.hang)
        except subprocess.TimeoutExpired:
            kill(self.process, group=True)
            raise TimeoutError("the host hangs") from None
        self.out, self.err = said(self.where, "out"), said(self.where)
        return self

    def lines(self):
        return [line for line in self.err.splitlines() if " out of memory: " not in line]

    def trace(self):
        found = [p for p in glob.glob(os.path.join(glob.escape(self.place), "trace.*.zst")) if os.path.getsize(p)]
        return found[0] if found else None

    def ledger(self):
        return next(iter(ledgers(self.where).values()), None)


_plain = {}


def plain(*arguments, env=None, **kw):
    """Status and output without the library."""
    key = (arguments, repr(env), repr(sorted(kw)))
    if key not in _plain:
        life = Life(*arguments, preload=False, env={"SIM_LEDGER_MAP": None, **(env or {})}, **kw).end()
        _plain[key] = (life.status, life.out)
    return _plain[key]


def unharmed(life, *arguments, most=2, env=None, want=None, **kw):
    """The host's own results, and what is on stderr."""
    want = want or plain(*arguments, env=env, **kw)
    problems = []
    if (life.status, life.out) != want:
        problems.append(f"the host: {(life.status, life.out)}, without the library {want}; {life.err[-500:]}")
    said_lines = life.lines()
    if len(said_lines) > most or len(set(said_lines)) < len(said_lines):
        problems.append(f"on stderr: {said_lines[:6]}")
    return problems


def readable(life, needed=False):
    """What is in the trace did happen."""
    path = life.trace()
    if not path:
        return ["there is no trace"] if needed else []
    problems, counts = judge.part(REPORT, path, life.ledger()) if life.ledger() else ([], None)
    if os.environ.get("WAYS_KEEP"):
        tap.note(f"{life.place}: in the trace, lost, in the ledger: {counts}; said: {life.lines()}")
    return problems + accepted(path)


def counted(life):
    """Besides, nothing is missing that is not counted, and nothing is counted twice."""
    got, lost, all_ = judge.part(REPORT, life.trace(), life.ledger())[1]
    trace = judge.Trace(REPORT, life.trace(), may_lack=True)
    numbers = [e["event"] for e in trace.events]
    told = trace.json("info")["info"].get("recorder.lost_events") or 0
    lost = max(lost, int(told))  # where the record of it was overwritten, too
    gone = numbers[-1] + 1 - len(numbers) if numbers else 0  # the ring shrank: what was overwritten has had its number
    # (Some of what was lost or overwritten were no calls: AMEND records, readings.)
    return [] if all_ <= got + lost + gone <= all_ + lost / 4 + 200 else [
        f"{all_} calls, {got} in the trace, {lost} counted as lost, {gone} overwritten"]
