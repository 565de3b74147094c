#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what recording costs, against heaptrack on the same work, and prints one table.

usage: peer.py [--json FILE] [SERIES...]     (without names: all; BENCH=quick: a minute; BENCH_ROUNDS=9)

The work (peer_work.c) calls a driver whose allocation is one malloc and whose release is one free: heaptrack sees
the mallocs, cutrace the driver calls. The arms of a series run by turns (ABBA), each in a fresh process, with one
thread for each processor. A price is the threads' own processor time for an event beyond that of the same round's
untraced run. The hooks are measured in bursts that a ring holds, with pauses for what comes behind them; the whole
pipeline without any pause, until the trace is complete. A run whose trace does not hold all events does not
count; it is repeated and told of, and where that happens thrice in a row there is no ratio.
"""
import argparse
import collections
import contextlib
import glob
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import peer_arms as arms
from peer_figures import Row, ratios, table

QUICK = os.environ.get("BENCH") == "quick"
ROUNDS = int(os.environ.get("BENCH_ROUNDS") or (3 if QUICK else 9))
PAIRS = 60000 if QUICK else 240000
MEMORY_DISK = "/dev/shm"  # a tmpfs

PACED = {"pairs": PAIRS, "burst": 3000, "pause_us": 1500}
SHALLOW = {**PACED, "depth": 10, "paths": 32}
DEEP = {**PACED, "depth": 40, "paths": 256}
DEEP2 = {**DEEP, "threads": 2}
COLD = {**DEEP, "fresh": 100, "again": 50}
FULL_RATE = {"pairs": PAIRS * 2, "threads": 2, "depth": 40, "paths": 256}

Entry = collections.namedtuple("Entry", "label arm work")


@contextlib.contextmanager
def folder_on(where):
    path = tempfile.mkdtemp(prefix="cutrace-bench-", dir=where)
    try:
        yield path
    finally:
        shutil.rmtree(path)


REPEATED = collections.Counter()  # runs of this series whose trace was not whole


def run_entry(entry, where, beside):
    for again in (True, True, False):
        with folder_on(where) as folder, beside(folder) if beside else contextlib.nullcontext():
            try:
                return entry.arm(entry.work, folder)
            except arms.Unequal:
                REPEATED["runs"] += 1
                if not again:
                    raise
    return None


def series(entries, where=MEMORY_DISK, rounds=ROUNDS, beside=None):
    """Runs the entries by turns, forwards and backwards. Label -> what each round's run told."""
    told = {entry.label: [] for entry in entries}
    for i in range(rounds):
        for entry in entries if i % 2 == 0 else reversed(entries):
            told[entry.label].append(run_entry(entry, where, beside))
    return told


def price(told, arm, base, what="cpu_ns"):
    """For each round, nanoseconds for an event beyond the untraced run's."""
    return [(a[what] - b[what]) / a["events"] for a, b in zip(told[arm], told[base])]


def beside_ns(ours, theirs=None):
    text = "cutrace %.0f ns" % statistics.median(ours)
    return text + (", heaptrack %.0f ns" % statistics.median(theirs) if theirs else "")


# ---- the series: each returns its rows ----------------------------------------------------------

def against_sink(name, work, wanted, stretch, limit_ns=None):
    """A row of the hook's ratio to heaptrack's, and one of its own price where there is a limit for it."""
    arms.heaptrack_raw(work, FOLDER)
    told = series([Entry("base", arms.untraced, work), Entry("heap", arms.heaptrack_sink, work),
                   Entry("ours", arms.cutrace, work)])
    ours, heap = price(told, "ours", "base"), price(told, "heap", "base")
    rows = [Row(name + ", CPU against heaptrack's raw sink", "x", wanted, stretch, ratios(ours, heap),
                beside_ns(ours, heap))]
    if limit_ns:
        rows.append(Row(name + ", an event", " ns", limit_ns, None, ours))
    return rows


def hook_shallow():
    return against_sink("hook, hot stack, depth 10", SHALLOW, 0.30, 0.17, 30)


def hook_cold():
    return against_sink("hook, many distinct stacks", COLD, 1.0, 0.7)


def hook_deep():
    arms.heaptrack_raw(DEEP2, FOLDER)
    told = series([Entry(label + threads, arm, work) for threads, work in (("1", DEEP), ("2", DEEP2))
                   for label, arm in (("base", arms.untraced), ("heap", arms.heaptrack_sink), ("ours", arms.cutrace))])
    ours, heap = price(told, "ours1", "base1"), price(told, "heap1", "base1")
    ours2, heap2 = price(told, "ours2", "base2"), price(told, "heap2", "base2")
    return [Row("hook, hot stack, depth 40, CPU against heaptrack's raw sink", "x", 0.25, 0.15, ratios(ours, heap),
                beside_ns(ours, heap)),
            Row("hook, hot stack, depth 40, an event", " ns", 60, None, ours),
            Row("the same with 2 threads against heaptrack's 2", "x", 0.20, 0.12, ratios(ours2, heap2),
                beside_ns(ours2, heap2)),
            Row("2 threads against own 1 thread", "x", 1.3, 1.1, ratios(ours2, ours))]


def pipeline():
    told = series([Entry("base", arms.untraced, FULL_RATE), Entry("heap", arms.heaptrack_default, FULL_RATE),
                   Entry("ours", arms.cutrace, FULL_RATE)], where=FOLDER)
    ours, heap = price(told, "ours", "base", "whole_ns"), price(told, "heap", "base", "whole_ns")
    cpu = price(told, "ours", "base")
    return [Row("whole pipeline, depth 40, 2 threads, wall against heaptrack's", "x", 0.20, 0.10, ratios(ours, heap),
                beside_ns(ours, heap)),
            Row("its threads' CPU at full rate, an event", " ns", None, None, cpu)]


@contextlib.contextmanager
def writeback(folder):
    """Forces what was written in the folder to the disk, every 50 ms."""
    stop = threading.Event()

    def force():
        while not stop.wait(0.05):
            for path in glob.glob(os.path.join(folder, "*")):
                with contextlib.suppress(OSError):
                    fd = os.open(path, os.O_RDWR)
                    os.fsync(fd)
                    os.close(fd)

    thread = threading.Thread(target=force)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def tail_on(name, where, wanted, stretch, beside=None):
    work = {**SHALLOW, "calls": 1}
    told = series([Entry("base", arms.untraced, work), Entry("ours", arms.cutrace, work)], where, beside=beside)
    values = [(a["p999_ns"] - b["p999_ns"]) / 1000 for a, b in zip(told["ours"], told["base"])]
    base = statistics.median(b["p999_ns"] for b in told["base"]) / 1000
    return Row("p99.9 of one hook, " + name, " us", wanted, stretch, values, "beyond the untraced %.2f us" % base)


def tail():
    kind = subprocess.run(["df", "--output=fstype", FOLDER], capture_output=True, text=True, check=True).stdout.split()[1]
    return [tail_on("journal on tmpfs", MEMORY_DISK, 2, 1),
            tail_on("journal on %s under writeback" % kind, FOLDER, 5, 3, writeback)]


def memory_of(threads, live):
    # Whole bursts of the fill and of the rest: what is in the rings is not the point here.
    work = {**DEEP, "pairs": 60000, "threads": threads, "live": live // threads, "memory": 1}
    told = series([Entry("base", arms.untraced, work), Entry("ours", arms.cutrace, work)], rounds=3)
    values = [(a["rss"] - b["rss"]) / 2**20 for a, b in zip(told["ours"], told["base"])]
    allowed = 4 + 2 * threads + 64 * live / 2**20
    return Row("memory, %d thread%s, %d live" % (threads, "s" if threads > 1 else "", live), " MiB",
               round(allowed, 1), None, values)


def memory():
    return [memory_of(1, 4096), memory_of(2, 8192), memory_of(1, 100000 if QUICK else 1000000)]


def start_of(command, runs):
    program = os.path.join(arms.PROGRAMS, "peer_start")
    empty = os.path.join(arms.PROGRAMS, "libempty.so")
    done = subprocess.run([program, str(runs), empty, arms.LIBRARY, *command], capture_output=True, check=True)
    return json.loads(done.stdout)


def start():
    rows = []
    for command in (["bash", "-c", "true"], ["python3", "-c", "pass"]):
        told = [start_of(command, 20 if QUICK else 50) for _ in range(max(ROUNDS, 5))]
        for what in ("time", "processor time"):
            more, base = ([t[what][key] / 1000 for t in told] for key in ("more_us", "a_us"))
            rows.append(Row("start of %s, %s above an empty preload" % (" ".join(command), what), " ms", 0.1, 0.03,
                            more, "of %.2f ms" % statistics.median(base)))
    return rows


SERIES = {"shallow": hook_shallow, "deep": hook_deep, "pipeline": pipeline, "cold": hook_cold, "tail": tail,
          "memory": memory, "start": start}
NEEDS_HEAPTRACK = {"shallow", "deep", "pipeline", "cold"}


def measure(name):
    if name in NEEDS_HEAPTRACK and not arms.heaptrack_is_there():
        return [Row(name, "", None, None, [], reason="heaptrack is not installed (scripts/setup.sh bench)")]
    REPEATED.clear()
    try:
        rows = SERIES[name]()
        for row in rows if REPEATED["runs"] else ():
            row.beside += "; %d runs repeated, their traces were not whole" % REPEATED["runs"]
        return rows
    except (arms.Unequal, subprocess.SubprocessError) as e:
        return [Row(name, "", None, None, [], reason="no figure: %s" % e)]


def main():
    global FOLDER
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", metavar="FILE", help="the figures of all rounds")
    parser.add_argument("series", nargs="*", default=list(SERIES), help=", ".join(SERIES))
    wanted = parser.parse_args()
    rows = []
    with folder_on(arms.PROGRAMS) as FOLDER:
        for name in wanted.series:
            print("peer: measuring %s" % name, file=sys.stderr, flush=True)
            rows += measure(name)
    print("%s, %d processors, kernel %s; %d rounds" %
          (platform.machine(), len(os.sched_getaffinity(0)), platform.release(), ROUNDS))
    print(table(rows))
    if wanted.json:
        with open(wanted.json, "w", encoding="utf-8") as f:
            json.dump({"rounds": ROUNDS, "rows": [row.for_machines() for row in rows]}, f, indent=1)


if __name__ == "__main__":
    main()
