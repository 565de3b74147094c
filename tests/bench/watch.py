#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what cutrace watch costs the process that it watches, ten looks a second beside 100,000 events a second, and what
it costs itself, a look a second at 16 processes. BENCH=quick measures less, BENCH_ROUNDS sets the pairs of windows."""
import contextlib
import fcntl
import os
import pty
import signal
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
WINDOWS = int(os.environ.get("BENCH_ROUNDS", "10" if QUICK else "60"))
WINDOW, VIEWS = 1, 10  # seconds; views at a time
MANY, SECONDS = 16, 10 if QUICK else 60
RATE, PACE = 100_000, ("burst=500", "every_us=10000")


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
    """The view on a terminal; `cost` gets its processor time, the wall time and the bytes that it wrote."""
    ours, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    watch = subprocess.Popen([os.path.join(BUILD, "cutrace"), "watch", "--interval=" + interval, folder], stdin=side, stdout=side,
                             start_new_session=True)
    os.close(side)
    begun, seen = time.monotonic(), []
    reader = threading.Thread(target=drain, args=(ours, seen))
    reader.start()
    yield watch
    watch.terminate()
    wall = time.monotonic() - begun
    cost.append((wait(watch), wall, sum(seen)))
    reader.join()
    os.close(ours)


def used_ns(pid):
    """Processor time of all threads so far."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total


def measure_window(pid):
    """Processor time for each second of the clock."""
    begun, before = time.monotonic_ns(), used_ns(pid)
    time.sleep(WINDOW)
    return (used_ns(pid) - before) / (time.monotonic_ns() - begun)


def measure_watched():
    """One process at a fixed rate, and ten views of it, which look or are stopped by turns: one view costs less than what can be
    measured, and two processes with the same work differ by more."""
    plain, watched = [], []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        work = begin_work(folder, "pairs=100000000", *PACE)
        stack.callback(wait, work)
        stack.callback(work.kill)
        views = [stack.enter_context(watching(folder, "100ms", [])) for _ in range(VIEWS)]
        time.sleep(2)
        for i in range(WINDOWS):
            for series in ((plain, watched) if i % 2 else (watched, plain)):
                for view in views:
                    view.send_signal(signal.SIGCONT if series is watched else signal.SIGSTOP)
                time.sleep(0.15)
                series.append(measure_window(work.pid))
        for view in views:
            view.send_signal(signal.SIGCONT)
    more = [(w / p - 1) * 100 / VIEWS for p, w in zip(plain, watched)]
    print(f"watched 10 times a second, at {RATE:,} events/s: {statistics.median(plain) * 1e9 / RATE:.0f} ns of a processor for an "
          f"event; a view adds {statistics.mean(more):+.2f} % +- {2 * statistics.stdev(more) / len(more) ** 0.5:.2f}   (target: 1 %; "
          f"{WINDOWS} pairs of {WINDOW} s with and without {VIEWS} views; two standard errors; median "
          f"{statistics.median(more):+.2f} %)")


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
