# SPDX-License-Identifier: Apache-2.0
"""Runs recorder_program and compares a trace with its account; test_recorder.py and test_output.py share this."""
import collections
import os
import re
import subprocess
import tempfile

import read_trace
from tap import BUILD, REPORT

PROGRAM = os.path.join(BUILD, "tests", "unit", "programs", "recorder_program")
OPS = {2: "alloc", 3: "free"}


class Run:
    """One run of the program in a folder of its own."""

    def __init__(self, *arguments, env=None, status=0, output="t.zst", before=(), preexec=None, folder=None):
        self.folder = folder or tempfile.mkdtemp()
        e = {k: v for k, v in os.environ.items() if not k.startswith("CUTRACE_") and k != "LD_PRELOAD"}
        # The account is kept to the nanosecond.
        e.update(CUTRACE_OUTPUT=os.path.join(self.folder, output), CUTRACE_TICK_NS="1")
        e["TSAN_OPTIONS"] = e.get("TSAN_OPTIONS", "") + " die_after_fork=0"
        e.update(env or {})
        p = subprocess.run([*before, PROGRAM, *map(str, arguments)], cwd=self.folder, env=e, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=500, preexec_fn=preexec)
        self.stderr = p.stderr.decode()
        self.stdout = p.stdout.decode()
        assert p.returncode == status, f"exit status {p.returncode}\n{self.stderr}"
        self.account = collections.defaultdict(list)  # tid -> events of this thread
        for line in self.stdout.splitlines():
            if re.fullmatch(r"[-\d ]+", line) and line.count(" ") == 5:
                tid, t, op, ptr, size, result = map(int, line.split())
                self.account[tid].append((t, OPS[op], ptr, size, result))

    def files(self):
        return sorted(f for f in os.listdir(self.folder) if ".zst" in f and not f.endswith(".journal"))

    def trace(self, name="t.zst", ring=False):
        path = os.path.join(self.folder, name)
        subprocess.run(["zstd", "-tq", path], check=True)
        if os.path.exists(path + ".journal"):  # of a process that was killed
            subprocess.run([REPORT, "copy", "--seal", path], check=True, stdout=subprocess.DEVNULL)
        return read_trace.Trace(path, ring)


def by_thread(trace):
    out = collections.defaultdict(list)
    for e in trace.amended():
        if e["op"] in OPS.values():
            out[e["thread"]["tid"]].append((e["t_ns"], e["op"], e.get("ptr", 0), e.get("bytes", 0), e.get("result", 0)))
    return out


def lost(trace):
    n = collections.Counter()
    for e in trace.events:
        if e["op"] == "lost":
            n[e["thread"]["tid"] if "thread" in e else 0] += e["count"]
    return n


def equal(run, trace, amends_may_be_lost=False):
    """Every event of the account is in the trace, in the thread's order, or counted as lost."""
    got, gone = by_thread(trace), lost(trace)
    assert sum(map(len, run.account.values())) > 0
    for tid, told in run.account.items():
        told_by_time = dict((e[0], e) for e in told)
        differing = sum(told_by_time.get(e[0]) != e for e in got[tid])
        missing = len(told) - len(got[tid])
        assert trace.orphans[tid] <= gone[tid], f"thread {tid}: {trace.orphans[tid]} amend what is not there, {gone[tid]} lost"
        assert missing + differing <= gone[tid], f"thread {tid}: {missing} missing, {differing} differ, {gone[tid]} lost"
        if not gone[tid]:
            assert got[tid] == told
        times = [e[0] for e in got[tid]]
        assert all(a < b for a, b in zip(times, times[1:])), "times of a thread do not increase"
    assert set(got) <= set(run.account)


def ordered(trace):
    times = [e["t_ns"] for e in trace.events]
    assert all(a <= b for a, b in zip(times, times[1:])), "the stream is not in the order of time"


def replays(trace):
    """No address is taken while it is taken, or given back while it is not."""
    live = set()
    for e in trace.amended():
        if e.get("result", 0) != 0 or "ptr" not in e:
            continue
        if e["op"] == "alloc":
            assert e["ptr"] not in live, f"{e['ptr']:x} taken twice at {e['t_ns']}"
            live.add(e["ptr"])
        elif e["op"] == "free":
            assert e["ptr"] in live, f"{e['ptr']:x} given back twice at {e['t_ns']}"
            live.remove(e["ptr"])
