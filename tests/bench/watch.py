#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what cutrace watch costs the process that it watches, ten looks a second beside 100,000 events a second, and what
it costs itself, a look a second at 16 processes. BENCH=quick measures less."""
import contextlib
import fcntl
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")
QUICK = os.environ.get("BENCH") == "quick"
RUNS, PAIRS = (3, 100_000) if QUICK else (int(os.environ.get("BENCH_ROUNDS", "9")), 250_000)
MANY, SECONDS = 16, 10 if QUICK else 60
PACE = "burst=50", "pause_us=930"  # 100,000 events a second where the machine has nothing else to do


def begin_work(folder, *words):
    env = {**os.environ, "LD_PRELOAD": os.path.join(BUILD, "libcutrace.so"), "CUTRACE_NVML": "0", "CUTRACE_QUIET": "1",
           "CUTRACE_OUTPUT": os.path.join(folder, "trace.%p.zst")}
    return subprocess.Popen([os.path.join(BUILD, "tests/bench/peer_work"), *words], env=env, stdout=subprocess.DEVNULL)


def wait(process):
    """Its processor time in seconds."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def drain(fd, seen):
    with contextlib.suppress(OSError):
        while data := os.read(fd, 65536):
            seen.append(len(data))


@contextlib.contextmanager
def watching(folder, interval, cost):
    """The view on a terminal; `cost` gets its processor time and the wall time."""
    ours, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    watch = subprocess.Popen([os.path.join(BUILD, "cutrace"), "watch", "--interval=" + interval, folder], stdin=side, stdout=side,
                             start_new_session=True)
    os.close(side)
    begun, seen = time.monotonic(), []
    reader = threading.Thread(target=drain, args=(ours, seen))
    reader.start()
    yield
    watch.terminate()
    wall = time.monotonic() - begun
    cost.append((wait(watch), wall, sum(seen)))
    reader.join()
    os.close(ours)


def one_run(is_watched, cost):
    """(processor time, wall time) of a fixed number of events."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if is_watched:
            stack.enter_context(watching(folder, "100ms", cost))
        begun = time.monotonic()
        work = begin_work(folder, f"pairs={PAIRS}", *PACE)
        used = wait(work)
        if work.returncode:
            sys.exit(f"peer_work ended with {work.returncode}")
        return used, time.monotonic() - begun


def measure_watched():
    plain, watched, cost = [], [], []
    for i in range(RUNS):
        for series in ((plain, watched) if i % 2 else (watched, plain)):
            series.append(one_run(series is watched, cost))
    (cpu, wall), (cpu_w, wall_w) = ([statistics.median(c) for c in zip(*s)] for s in (plain, watched))
    ratios = sorted((w[0] / p[0] - 1) * 100 for p, w in zip(plain, watched))
    print(f"watched 10 times a second, {2 * PAIRS / wall:,.0f} events/s: {cpu * 1e9 / PAIRS / 2:.1f} ns an event without, "
          f"{cpu_w * 1e9 / PAIRS / 2:.1f} with: {(cpu_w / cpu - 1) * 100:+.1f} %   (target: 1 %; pairs of runs "
          f"{ratios[0]:+.1f} to {ratios[-1]:+.1f}, median {statistics.median(ratios):+.1f} %)")
    print(f"   wall time of {2 * PAIRS:,} events: {wall:.2f} s without, {wall_w:.2f} s with: {(wall_w / wall - 1) * 100:+.1f} %; "
          f"the view itself {statistics.median(c / w for c, w, _ in cost) * 100:.1f} % of a core")


def measure_view(what, *words):
    cost = []
    with tempfile.TemporaryDirectory() as folder:
        processes = [begin_work(folder, "pairs=100000000", *words) for _ in range(MANY)]
        try:
            with watching(folder, "1s", cost):
                time.sleep(SECONDS)
        finally:
            for p in processes:
                p.kill()
                wait(p)
    (cpu, wall, bytes_) = cost[0]
    print(f"the view of {MANY} processes, once a second, {what}: {cpu / wall * 100:.2f} % of a core   (target: 2 %), "
          f"{bytes_ / wall / 1024:.1f} KiB/s to the terminal")


measure_watched()
measure_view("all idle", "warm=1000", "burst=1", "pause_us=100000000")
measure_view("200 events/s each", "burst=10", "pause_us=100000")
measure_view("2,000 events/s each", "burst=10", "pause_us=10000")
