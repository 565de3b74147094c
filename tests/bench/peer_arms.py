# SPDX-License-Identifier: Apache-2.0
"""Runs the measured work under one tracer or none, and counts what the tracer's trace holds."""
import collections
import json
import os
import subprocess
import time

ROOT = os.environ.get("CUTRACE_ROOT") or os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(ROOT, "build")
PROGRAMS = os.path.join(BUILD, "tests/bench")
LIBRARY = os.path.join(BUILD, "libcutrace.so")
REPORT = os.path.join(BUILD, "cutrace-report")
HEAPTRACK = "/usr/lib/heaptrack"
INTERPRET = os.path.join(HEAPTRACK, "libexec/heaptrack_interpret")
STUB_SIZE = b"14"  # STUB_BYTES of stub_driver.h, as heaptrack writes it
HANG = 300  # a guard, no measure


class Unequal(Exception):
    """A trace does not hold what was done, so that its price says nothing; the text says what is missing."""


def heaptrack_is_there():
    return os.path.exists(os.path.join(HEAPTRACK, "libheaptrack_preload.so"))


def run_work(work, environment):
    """What the program tells about itself, and the time that it took as a whole."""
    arguments = [os.path.join(PROGRAMS, "peer_work")] + ["%s=%d" % item for item in work.items()]
    start = time.monotonic_ns()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("CUTRACE")}
    done = subprocess.run(arguments, env={**ours, **environment}, capture_output=True, timeout=HANG)
    if done.returncode:
        raise Unequal("the work failed: %s" % done.stderr.decode(errors="replace").strip())
    told = json.loads(done.stdout)
    if told["refused"]:
        raise Unequal("the stub driver refused %d calls" % told["refused"])
    told["whole_ns"] = time.monotonic_ns() - start
    return told


def must_hold(who, told, allocs, frees):
    if (allocs, frees) != (told["allocs"], told["frees"]):
        raise Unequal("%s has %d allocations and %d releases of %d and %d" %
                      (who, allocs, frees, told["allocs"], told["frees"]))


# ---- the arms: each runs the work once, in a folder of its own ----------------------------------

def untraced(work, _):
    return run_work(work, {})


def heaptrack_environment(output):
    return {"LD_PRELOAD": os.path.join(HEAPTRACK, "libheaptrack_preload.so"), "DUMP_HEAPTRACK_OUTPUT": output}


def heaptrack_sink(work, _):
    """heaptrack's own recording without what comes behind it: its raw data go nowhere."""
    return run_work(work, heaptrack_environment("/dev/null"))


def heaptrack_raw(work, folder):
    """The same into a file, to be counted; not measured."""
    path = os.path.join(folder, "raw")
    told = run_work(work, heaptrack_environment(path))
    with open(path, "rb") as f:
        must_hold("heaptrack's raw trace", told, *count_raw(f))
    return told


def heaptrack_default(work, folder):
    """As the script `heaptrack` does it: a pipe, the interpreter and zstd."""
    fifo, path = os.path.join(folder, "fifo"), os.path.join(folder, "trace.zst")
    os.mkfifo(fifo)
    start = time.monotonic_ns()
    with subprocess.Popen(["sh", "-c", '"$0" <"$1" 2>/dev/null | zstd -q -c >"$2"', INTERPRET, fifo, path]) as behind:
        told = run_work(work, heaptrack_environment(fifo))
        behind.wait(timeout=HANG)
        told["whole_ns"] = time.monotonic_ns() - start
    interpreted = subprocess.run(["zstd", "-q", "-dc", path], capture_output=True, check=True).stdout
    must_hold("heaptrack's trace", told, *count_interpreted(interpreted))
    return told


def cutrace(work, folder):
    path = os.path.join(folder, "trace.zst")
    told = run_work(work, {"LD_PRELOAD": LIBRARY, "CUTRACE_OUTPUT": path})
    must_hold("cutrace's trace", told, *count_cutrace(path))
    told["trace_bytes"] = os.path.getsize(path)
    return told


# ---- counting -----------------------------------------------------------------------------------

def count_raw(lines):
    """Allocations and releases of the stub's size. A raw line is `+ SIZE TRACE ADDRESS` or `- ADDRESS`."""
    live, allocs, frees = set(), 0, 0
    for line in lines:
        words = line.split()
        if words[:2] == [b"+", STUB_SIZE]:
            live.add(words[3])
            allocs += 1
        elif words[:1] == [b"-"] and words[1] in live:
            live.remove(words[1])
            frees += 1
    return allocs, frees


def count_interpreted(text):
    """The same of interpreted data: `a SIZE TRACE` gives the next number to a kind, `+ KIND` and `- KIND` use it."""
    lines = collections.Counter(text.split(b"\n"))
    kinds = [line.split()[1] for line in text.split(b"\n") if line.startswith(b"a ")]
    counts = {b"+": 0, b"-": 0}
    for line, times in lines.items():
        words = line.split()
        if len(words) == 2 and words[0] in counts and kinds[int(words[1], 16)] == STUB_SIZE:
            counts[words[0]] += times
    return counts[b"+"], counts[b"-"]


def count_cutrace(path):
    done = subprocess.run([REPORT, "top", "--json", "--top=1000000", path], capture_output=True, timeout=HANG)
    if done.returncode:
        raise Unequal("cutrace's trace cannot be read: %s" % done.stderr.decode(errors="replace").strip())
    told = json.loads(done.stdout)
    if told["trace"]["lost_events"] or not told["trace"]["complete"]:
        raise Unequal("cutrace's trace lost %s events" % told["trace"]["lost_events"])
    sites = [site for device in told["devices"] for site in device["sites"]]
    allocs = sum(site["total_allocated_count"] for site in sites)
    frees = allocs - sum(site["live_count"] for site in sites)
    if told["trace"]["events"] < allocs + frees:
        raise Unequal("cutrace's trace has %d events only" % told["trace"]["events"])
    return allocs, frees
