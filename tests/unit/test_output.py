#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trace file of whole processes: crash loops with CUTRACE_KEEP, and a file that wraps."""
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from recorder_runs import PROGRAM, Run, by_thread, lost, ordered  # noqa: E402
from tap import case, main  # noqa: E402


def crash_loop(folder, keep, processes, parallel, pattern="t.%p.zst"):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUTRACE_")}
    env.update(CUTRACE_OUTPUT=os.path.join(folder, pattern), CUTRACE_KEEP=str(keep), CUTRACE_QUIET="1")
    running = []
    for _ in range(processes):
        running.append(subprocess.Popen([PROGRAM, "refuse-and-die", "20"], env=env, stdout=subprocess.DEVNULL))
        while len(running) >= parallel:
            assert running.pop(0).wait(500) == -signal.SIGKILL
    for p in running:
        assert p.wait(500) == -signal.SIGKILL


def traces(folder):
    return sorted((f for f in os.listdir(folder) if not f.endswith(".journal")),
                  key=lambda f: os.stat(os.path.join(folder, f)).st_mtime_ns)


@case("a crash loop keeps the newest")
def a_crash_loop_keeps_the_newest():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "t.notes.zst"), "w") as f:
        f.write("mine")
    crash_loop(folder, 0, 5, 1)
    assert len(traces(folder)) == 6
    crash_loop(folder, 3, 20, 1)
    left = traces(folder)
    assert len(left) == 4 and left[0] == "t.notes.zst", left
    for f in left[1:]:
        subprocess.run(["zstd", "-tq", os.path.join(folder, f)], check=True)
    orphans = {f for f in os.listdir(folder) if f.endswith(".journal")} - {f + ".journal" for f in left}
    assert not orphans, orphans


@case("processes side by side leave those that run")
def processes_side_by_side_leave_those_that_run():
    folder = tempfile.mkdtemp()
    crash_loop(folder, 2, 20, 4)
    assert 2 <= len(traces(folder)) <= 2 + 3, traces(folder)
    crash_loop(folder, 1, 1, 1)
    assert len(traces(folder)) == 1


@case("numbered names are used again")
def numbered_names_are_used_again():
    folder = tempfile.mkdtemp()
    crash_loop(folder, 2, 20, 1, "t.zst")
    assert len(traces(folder)) == 2 and set(traces(folder)) <= {"t.zst", "t.zst.1", "t.zst.2"}, traces(folder)


@case("a file that goes round stays within its size")
def a_file_that_goes_round_stays_within_its_size():
    run = Run("threads", 2, 600000, env={"CUTRACE_MAX_SIZE": "1M"})
    trace = run.trace(ring=True)
    assert (900 << 10) < len(trace.data) <= 1 << 20, len(trace.data)
    ordered(trace)
    assert trace.missing and len(trace.events) > 50000 and trace.heads[-1]["flags"] & 1
    # Two threads at full rate: on a machine that has other things to do the writer may not keep up. But what is lost is counted.
    told_lost = lost(trace)
    assert not told_lost[0]  # (each has a ring of its own)
    for tid, got in by_thread(trace).items():
        exact_since_the_first(run.account[tid], got, [e for e in trace.events if e["op"] == "lost" and e["thread"]["tid"] == tid])
    assert set(by_thread(trace)) <= set(run.account)  # (one may have ended long before the other)


def exact_since_the_first(told, got, losses):
    """From the first event of a thread that is left on: each event is there as it was, or counted as lost."""
    there = {e[0]: e for e in got}
    window = told[next(i for i, e in enumerate(told) if e[0] == got[0][0]):]
    missing = [e for e in window if e[0] not in there]
    differing = sum(there[e[0]] != e for e in window if e[0] in there)  # their correction is lost
    counted = sum(e["count"] for e in losses if e["t_ns"] >= got[0][0])
    # (Of one that failed and is missing, the correction may be lost as well.)
    most = len(missing) + differing + sum(e[4] == 1 for e in missing)
    assert len(missing) + differing <= counted <= most, f"{len(missing)} missing, {differing} differ, {counted} counted"
    assert set(there) <= {e[0] for e in window}


main()
