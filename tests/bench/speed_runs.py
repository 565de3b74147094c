# SPDX-License-Identifier: Apache-2.0
"""Traces to measure with, and what one run of a program took."""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

import peer_arms as arms
from peer_figures import Row

QUICK = os.environ.get("BENCH") == "quick"
ROUNDS = int(os.environ.get("BENCH_ROUNDS") or 3)
FEW, MANY = 5000, 1000000  # live allocations
RING = "32M" if QUICK else "256M"
# Events that fill the ring: 3.3 bytes each with FEW, 6 with MANY, whose addresses and checkpoints take more.
FILLS = {FEW: 11000000 if QUICK else 86000000, MANY: 8000000 if QUICK else 46000000}
PROCESSORS = len(os.sched_getaffinity(0))

# Seconds on the clock and of the processors; bytes that came from the disk; the most memory at a time, in MiB.
Run = collections.namedtuple("Run", "wall cpu disk_bytes memory")


def plain_environment(more=()):
    return {**{name: value for name, value in os.environ.items() if not name.startswith("CUTRACE")}, **dict(more)}


def say(what):
    print("speed: %s" % what, file=sys.stderr, flush=True)


def run(command, environment=()):
    """Runs a program to its end, without its output."""
    told = subprocess.run([sys.executable, "-I", "-S", os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure_run.py"), *command],
                          stdout=subprocess.PIPE, check=True, env=plain_environment(environment)).stdout
    wall, cpu, disk_bytes, kib, status = json.loads(told)
    if status:
        raise arms.Unequal("%s ended with status %d" % (" ".join(command), status))
    return Run(wall, cpu, disk_bytes, kib / 1024)


def report(*arguments, environment=()):
    return run([arms.REPORT, *arguments], environment)


def in_turns(arms_by_name, rounds=ROUNDS):
    """Runs functions by turns, forwards and backwards. Name -> what each round's call returned."""
    told = {name: [] for name in arms_by_name}
    for i in range(rounds):
        for name in list(arms_by_name)[::1 if i % 2 == 0 else -1]:
            told[name].append(arms_by_name[name]())
    return told


def figure(name, measure):
    """A row, or why there is none."""
    try:
        return measure()
    except (arms.Unequal, OSError, subprocess.SubprocessError) as e:
        return Row(name, "", None, None, [], reason="no figure: %s" % e)


class Traces:
    """Traces in a folder of their own, each made when it is first asked for."""

    def __init__(self, where):
        self.folder = tempfile.mkdtemp(prefix="cutrace-speed-", dir=where)
        self.made = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def ring(self, live):
        """A full ring as the recorder writes it, and what `info` says of it."""
        if live not in self.made:
            path = os.path.join(self.folder, "ring%d.zst" % live)
            say("writing a ring of %s, %d live" % (RING, live))
            run([os.path.join(arms.PROGRAMS, "drain_cost"), "live%d" % live, str(FILLS[live]), "2"],
                {"CUTRACE_OUTPUT": path, "CUTRACE_MAX_SIZE": RING, "CUTRACE_QUIET": "1"})
            info = subprocess.run([arms.REPORT, "info", "--json", path], capture_output=True, check=True,
                                  env=plain_environment()).stdout
            self.made[live] = path, json.loads(info)
        return self.made[live]

    def peers(self, live):
        """The same work recorded by cutrace and by heaptrack: both traces and the number of events."""
        if ("peers", live) not in self.made:
            say("recording %d live with cutrace and with heaptrack" % live)
            folders = [os.path.join(self.folder, "%s%d" % (who, live)) for who in ("cutrace", "heaptrack")]
            # In bursts, so that no ring overflows; each allocation is freed at the end.
            work = {"pairs": 500000 if QUICK else 2000000, "live": live, "depth": 10, "paths": 300, "burst": 3000,
                    "pause_us": 1500}
            for folder in folders:
                os.mkdir(folder)
            told = arms.cutrace(work, folders[0])
            arms.heaptrack_default(work, folders[1])
            self.made["peers", live] = (*(os.path.join(folder, "trace.zst") for folder in folders),
                                        told["allocs"] + told["frees"])
        return self.made["peers", live]
