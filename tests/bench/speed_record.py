# SPDX-License-Identifier: Apache-2.0
"""The third table: what recording costs. (Against heaptrack: peer.py.)"""
import os
import re
import statistics
import subprocess

import peer
import peer_arms as arms
from peer_figures import Row, ratios
from speed_runs import PROCESSORS, QUICK, figure, in_turns, plain_environment

TITLE = "Recording"
ROUNDS = 3 if QUICK else 9
EVENTS = 1000000 if QUICK else 4000000
THREADS = 8 if PROCESSORS >= 16 else 2
# What the threads record in a burst waits in their rings: the pause is long enough for the one writer, at 0.5 us an event.
# (Threads that record faster for long are held back to its speed, which is no contention among them.)
BURST = 3000  # pairs of each thread: 420 KiB of its ring
PAUSE_US = BURST * THREADS
DEPTHS = ((10, 32), (40, 256))  # frames, different stacks
MEMORY_DISK = "/dev/shm"


def hooks(depth, paths):
    """The hook's price in one thread alone, and in the slowest of several, for an event."""
    name = "hook, depth %d, slowest of %d threads" % (depth, THREADS)
    if PROCESSORS < THREADS:
        return Row(name, "x", 1.2, None, [], reason="not here: this machine has %d processor" % PROCESSORS)
    shape = {"pairs": 60000 if QUICK else 240000, "burst": BURST, "pause_us": PAUSE_US, "depth": depth, "paths": paths}
    told = peer.series([peer.Entry((traced, n), arms.cutrace if traced else arms.untraced, {**shape, "threads": n})
                        for n in (1, THREADS) for traced in (0, 1)], rounds=ROUNDS)

    def price(n):
        return [(on["slowest_ns"] - off["slowest_ns"]) * n / on["events"] for on, off in zip(told[1, n], told[0, n])]
    alone, together = price(1), price(THREADS)
    return Row(name, "x", 1.2, None, ratios(together, alone), "of one alone; %.0f and %.0f ns a call" %
               (statistics.median(together), statistics.median(alone)))


def writer(traces, program, stream):
    """The writer's processor time for an event, in ns, and the size of the trace."""
    path = os.path.join(MEMORY_DISK, "%s.%s.zst" % (os.path.basename(traces.folder), program))
    environment = plain_environment({"CUTRACE_OUTPUT": path, "CUTRACE_MAX_SIZE": "0", "CUTRACE_QUIET": "1"})
    told = subprocess.run([os.path.join(arms.PROGRAMS, program), stream, str(EVENTS), "2"], env=environment,
                          capture_output=True, check=True, text=True).stdout
    size = os.path.getsize(path)
    os.unlink(path)
    return float(re.search(r"([\d.]+) ns an event", told).group(1)), size


def writers(traces, stream, wanted):
    told = in_turns({program: lambda program=program: writer(traces, program, stream)
                     for program in ("drain_cost", "drain_cost_plain")}, ROUNDS)
    ours, plain = ([ns for ns, _ in told[program]] for program in ("drain_cost", "drain_cost_plain"))
    sizes = [told[program][0][1] for program in ("drain_cost", "drain_cost_plain")]
    return [Row("writer, `%s`, an event" % stream, " ns", wanted, None, ours, "least %.1f ns" % min(ours)),
            Row("  of that the digests", " %", None, None, [100 * (1 - b / a) for a, b in zip(ours, plain)],
                "%.2f %% of the file's %.1f MiB" % (100 * (1 - sizes[1] / sizes[0]), sizes[0] / 2**20))]


def measure(traces):
    rows = [figure("hooks, depth %d" % shape[0], lambda shape=shape: hooks(*shape)) for shape in DEPTHS]
    for stream, wanted in (("peer", 80), ("iid", None), ("periodic", None)):
        rows += writers(traces, stream, wanted)
    return rows
