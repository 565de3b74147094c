#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random sequences of valid and invalid calls, against the ledger: 100,000 in check-long, fewer otherwise."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, main  # noqa: E402
from ways import *  # noqa: E402,F403

SEQUENCES, CALLS = 250, 20  # of one process
PROCESSES = 160 if FULL else 10
GROUP = 40 if FULL else 5
FIRST = int(os.environ.get("WAYS_SEED", 1))


def batch(first, count, threads):
    problems = []
    for seed in range(first, first + count):
        args = ("random_calls", seed, SEQUENCES // threads, CALLS, threads)
        env = {"SIM_DEVICES": 2}
        done = run(*args, env=env)
        found = good(done)
        if threads == 1 and seed % 5 == 0:
            found += same_as_without(done, *args, env=env)
        problems += [f"{' '.join(map(str, args))}: {p}" for p in found]
        if problems:
            break
        for path in done.traces.values():  # they are large
            os.unlink(path)
        for path in done.ledgers.values():
            os.unlink(path)
    return problems


for start in range(FIRST, FIRST + PROCESSES, GROUP):
    threads = 1 if (start - FIRST) // GROUP % 2 == 0 else 4
    case(f"{GROUP * SEQUENCES} random sequences from seed {start}, {threads} thread(s): trace = ledger")(
        lambda start=start, threads=threads: batch(start, GROUP, threads))

main()
