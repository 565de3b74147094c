#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the hook on a launch of a kernel costs, beside a driver whose launch returns at once (launches.c)."""
import os
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")
RUNS, LIMIT_NS = 5, 2.0


def main():
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "LD_PRELOAD": os.path.join(BUILD, "libcutrace.so"), "CUTRACE_NVML": "0",
               "CUTRACE_OUTPUT": os.path.join(folder, "launches.zst")}
        for _ in range(RUNS):
            out = subprocess.run([os.path.join(BUILD, "tests/bench/launches")], env=env, check=True, capture_output=True, text=True)
            *ns, hooked = out.stdout.split()
            if hooked != "1":
                sys.exit("the launch is not hooked")
            runs.append([float(n) for n in ns])
    plain, by_symbol, resolved = (statistics.median(run) for run in zip(*runs))
    for name, ns in (("by its symbol", by_symbol), ("by dlsym or cuGetProcAddress", resolved)):
        print("launch of a kernel, %-29s %4.2f ns more than the %.2f ns of the driver's   (target: %.0f)" % (
            name + ":", ns - plain, plain, LIMIT_NS))


main()
