#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the library adds to PyTorch's own caching allocator, out of its wheels: a random mix of allocations and frees on the
simulated driver, with the library against without. torch.py [RUNS [OPERATIONS]]

First in Python 3.12, for which the whole wheel is fetched (half a gigabyte), and in 3.11, where it is here (make check-torch
fetches it): torch.empty under 20 frames, and beside that what torch's own history of Python stacks adds. Then one thread in C++, one device. `warm`: all fits into cached segments, so nearly all operations are blocks only; `mixed`: now
and then a request needs the driver. Processor time of the thread that asks, which is not the one that writes the trace. Each
run is a process; with and without take turns, and the median of the quotients of neighbours counts."""
import itertools
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../torch/allocator"))
import wheels  # noqa: E402

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
OPERATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000000
LIBRARY = os.path.join(wheels.BUILD, "libcutrace.so")
KINDS = {"warm": {"live_mb": 300, "largest_mb": 20, "empty": 0}, "mixed": {"live_mb": 900, "largest_mb": 64, "empty": 20}}


def nanoseconds(wheel, kind, folder, library=None, stacks="both"):
    """An operation; and the size of the trace."""
    trace = os.path.join(folder, "trace.zst")
    env = wheel.environment(SIM_MEM_MB="1024", LD_PRELOAD=library, CUTRACE_OUTPUT=trace, CUTRACE_QUIET="1", CUTRACE_MAX_SIZE="0",
                            CUTRACE_STACKS=stacks)
    words = [f"{k}={v}" for k, v in {"quiet": 1, "moments": 1, "operations": OPERATIONS, "streams": 0, **KINDS[kind]}.items()]
    out = subprocess.run([wheel.program(), os.devnull, *words], env=env, check=True, capture_output=True, text=True).stdout
    return float(out.split()[0]), os.path.getsize(trace) if library else 0


def measure(wheel, kind, stacks):
    with tempfile.TemporaryDirectory() as folder:
        runs = [(nanoseconds(wheel, kind, folder)[0], *nanoseconds(wheel, kind, folder, LIBRARY, stacks)) for _ in range(RUNS)]
    without, with_it, size = zip(*runs)
    times = [b / a for a, b, _ in runs]
    print("torch %-7s %-5s stacks %-4s %5.0f ns an operation, %5.0f with the library: %.2fx (%.2f to %.2f), %4.2f bytes of it on disk" %
          (wheel.version, kind, stacks, statistics.median(without), statistics.median(with_it), statistics.median(times),
           min(times), max(times), statistics.median(size) / OPERATIONS), flush=True)


def pairs(package, folder, library=None):
    """Nanoseconds an allocation with its free: [without torch's history, with it]."""
    out = package.run(os.path.join(wheels.HERE, "tensors.py"), os.devnull, "bench", "5", str(OPERATIONS // 20), SIM_MEM_MB="1024",
                      LD_PRELOAD=library, CUTRACE_OUTPUT=os.path.join(folder, "trace.zst"), CUTRACE_QUIET="1", CUTRACE_MAX_SIZE="0")
    columns = zip(*((float(n) for n in line.split()) for line in out.splitlines()))
    return [statistics.median(c) for c in columns]


def measure_python(package):
    with tempfile.TemporaryDirectory() as folder:
        runs = [(*pairs(package, folder), pairs(package, folder, LIBRARY)[0]) for _ in range(max(RUNS // 3, 3))]
    plain, history, ours = (statistics.median(c) for c in zip(*runs))
    print("torch %-7s in Python %s %5.0f ns a tensor, %5.0f with the library: %.2fx; torch's history adds %5.0f ns, the library %.2fx of that" %
          (package.version, package.python, plain, ours, ours / plain, history - plain, (ours - plain) / (history - plain)), flush=True)


for python, may_fetch in (("3.12", True), ("", False)):
    try:
        measure_python(wheels.Package(may_fetch, python))
    except wheels.Unavailable as why:
        print(f"torch in Python {python or 3.11}: not measured: {why}")
for version in wheels.versions():
    try:
        for kind_and_stacks in itertools.product(KINDS, ("off", "both")):
            measure(wheels.Wheel(version), *kind_and_stacks)
    except wheels.Unavailable as reason:
        print(f"torch {version}: not measured: {reason}")
