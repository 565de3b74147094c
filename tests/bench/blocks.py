#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a report of a block (preload/intercept/torch.c): time with and without the library, bytes on disk, memory of the host."""
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = os.environ.get("CUTRACE_BUILD") or os.environ.get("BENCH_BUILD") or os.path.join(ROOT, "build")
TIMES = 1000
DEPTH = 30
ROUNDS = 9


def memory():
    """Resident memory of this process in bytes, files that it has mapped and writes included."""
    with open("/proc/self/status", encoding="ascii") as f:
        return sum(int(n) << 10 for n in re.findall(r"^(?:RssAnon|RssShmem|RssFile):\s+(\d+) kB", f.read(), re.M))


def at_depth(n, function):
    return function() if n <= 1 else at_depth(n - 1, function)


def work(how, events):
    """In a process of its own: prints what was measured."""
    library = ctypes.CDLL(os.environ.get("BENCH_LIBRARY") or os.path.join(BUILD, "tests/bench/libblocks_report.so"))
    median, least = ctypes.c_double(), ctypes.c_double()

    def bursts(function=library.bench_bursts):
        function(TIMES, ctypes.byref(median), ctypes.byref(least))

    if how == "many":
        library.bench_many(10000, 100)
        start = memory()
        library.bench_many(ctypes.c_long(events), 100)
        print(json.dumps({"memory": memory() - start, "all": memory()}))
        return
    if how == "thread":
        bursts(library.bench_thread)
    elif how == "python":
        for _ in range(1000):  # as functions are that a program calls more than once
            at_depth(DEPTH - 2, int)
        at_depth(DEPTH - 2, bursts)  # this function, the module; `bursts` itself is one of them
    else:
        bursts()
    print(json.dumps({"median": median.value, "least": least.value}))


def run(how, folder, preload, events=0, **env):
    e = {k: v for k, v in os.environ.items() if not k.startswith("CUTRACE")}
    e.update(BENCH_BUILD=BUILD, CUTRACE_OUTPUT=os.path.join(folder, how + ".zst"), CUTRACE_QUIET="1", CUTRACE_NVML="0",
             CUTRACE_MAX_SIZE="0", **env)
    if preload:
        e["LD_PRELOAD"] = os.path.join(BUILD, "libcutrace.so")
    out = subprocess.run([sys.executable, __file__, "--work", how, str(events)], env=e, check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def measure_streams(folder):
    """A report with the stream and without, by turns: the library in a PyTorch of a version that is known, or not."""
    took = {}
    for turn in range(ROUNDS):
        for version in ("2.15.0", "3.0.0") if turn % 2 else ("3.0.0", "2.15.0"):
            lib = os.path.join(folder, version, "torch/lib")
            if not os.path.exists(lib):
                os.makedirs(lib)
                shutil.copy(os.path.join(BUILD, "tests/bench/libblocks_report.so"), lib)
                with open(os.path.join(lib, "../version.py"), "w", encoding="ascii") as f:
                    f.write(f"__version__ = '{version}'\n")
            done = run("off", folder, True, CUTRACE_STACKS="off", BENCH_STREAM="35",
                       BENCH_LIBRARY=os.path.join(lib, "libblocks_report.so"),
                       LD_LIBRARY_PATH=os.path.join(BUILD, "tests/torch/blocks/first"))
            took.setdefault(version, []).append(done["median"])
    known, unknown = (statistics.median(took[v]) for v in ("2.15.0", "3.0.0"))
    print(f"block report with its stream: {known:.1f} ns, without: {unknown:.1f} ns, ratio {known / unknown:.3f} (medians of {ROUNDS} "
          "processes each, by turns)", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        print("Python %s; half of the reports are of blocks that are given back, which have no stack" % sys.version.split()[0])
        rows = [("without stack", "off", {"CUTRACE_STACKS": "off"}, 40), ("Python stack of %d frames" % DEPTH, "python", {}, 250),
                ("native stack, thread without Python", "thread", {}, None)]
        for name, how, env, target in rows:
            plain, with_it = run(how, folder, False), run(how, folder, True, **env)
            more = {k: with_it[k] - plain[k] for k in plain}
            print("block report, %-36s %6.1f ns median, %6.1f ns least, beyond %4.1f ns without the library%s" % (
                name + ":", more["median"], more["least"], plain["median"], "   (target: %d)" % target if target else ""), flush=True)
        measure_streams(folder)
        events = int(os.environ.get("BENCH_EVENTS", 10000000))
        plain, with_it = run("many", folder, False, events), run("many", folder, True, events)
        size = os.path.getsize(os.path.join(folder, "many.zst"))
        lost = subprocess.run([os.path.join(BUILD, "cutrace-report"), "info", "--json", os.path.join(folder, "many.zst")],
                              check=False, capture_output=True, text=True)
        print("block reports, %d: %.2f bytes each on disk (target: 4)" % (events, size / events))
        print("memory of the host: %.1f MiB more than without the library, %.1f MiB of them since the first 10000 (target: 16); "
              "events missing %d" % ((with_it["all"] - plain["all"]) / 2**20, (with_it["memory"] - plain["memory"]) / 2**20,
                                  json.loads(lost.stdout)["missing_events"]))


if sys.argv[1:2] == ["--work"]:
    work(sys.argv[2], int(sys.argv[3]))
else:
    main()
