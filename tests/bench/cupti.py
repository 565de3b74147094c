#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call costs with the CUPTI backend, beside preload alone, on the simulated driver and the stand-in libcupti
(cupti.c). All arms run by turns; a price is the median over the rounds of what a call takes more than untraced in the
same round. The stand-in's own price is an arm of its own: NVIDIA's library costs what it costs."""
import os
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")
PROGRAM = os.path.join(BUILD, "tests/bench/cupti")
ROUNDS, PAIRS = (5, 20000) if os.environ.get("BENCH") == "quick" else (15, 20000)

#       label, how the program calls, environment
ARMS = [("untraced", "symbol", None),
        ("preload", "symbol", {}),
        ("both: a call that a wrapper records", "symbol", {"CUTRACE_BACKEND": "cupti"}),
        ("the same with CUTRACE_AUDIT=1", "symbol", {"CUTRACE_AUDIT": "1"}),
        ("cupti: a call that no wrapper sees", "hidden", {"CUTRACE_BACKEND": "cupti"}),
        ("the stand-in libcupti, an empty call-back", "empty", None)]


def run(how, options):
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "SIM_", "LD_"))}
        env["LD_LIBRARY_PATH"] = os.path.join(BUILD, "sim") + ":" + os.path.join(BUILD, "sim/cupti")
        if options is not None:
            env.update(options, LD_PRELOAD=os.path.join(BUILD, "libcutrace.so"), CUTRACE_NVML="0",
                       CUTRACE_OUTPUT=os.path.join(folder, "cupti.zst"))
        return float(subprocess.run([PROGRAM, how, str(PAIRS)], env=env, check=True, capture_output=True,
                                    text=True).stdout)


def main():
    if not os.path.exists(PROGRAM):
        sys.exit("built without CUPTI's headers: nothing to measure")
    rounds = []
    for i in range(ROUNDS):
        order = ARMS if i % 2 == 0 else ARMS[::-1]
        times = {label: run(how, options) for label, how, options in order}
        rounds.append({label: ns - times["untraced"] for label, ns in times.items()})
    preload = statistics.median(r["preload"] for r in rounds)
    for label, _, _ in ARMS[1:]:
        more = statistics.median(r[label] for r in rounds)
        print(f"a call, {label + ':':45} {more:6.0f} ns more than untraced   {more / preload:5.1f} times preload")


main()
