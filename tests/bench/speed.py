#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast a trace is read and written, beside what was wanted: three tables (README.md here).

usage: speed.py [--json FILE] [first|full|record]...     (without names: all three; BENCH=quick: a shorter run)

first   the first screen of a ring of 256 MiB, with a warm and a cold page cache, and single moments
full    passes over all events: their memory, and against heaptrack_print
record  the hook's cost by threads, the writer's time for an event, and what the digests are of that

Each figure is the median of its rounds; what is compared runs by turns. What this machine cannot measure says so.
"""
import argparse
import json
import os
import platform
import sys

import peer_arms as arms
import speed_first
import speed_full
import speed_record
from peer_figures import narrow_table
from speed_runs import Traces

TABLES = {"first": speed_first, "full": speed_full, "record": speed_record}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="the figures of all rounds")
    parser.add_argument("tables", nargs="*", metavar="TABLE", default=list(TABLES), help=", ".join(TABLES))
    wanted = parser.parse_args()
    if set(wanted.tables) - set(TABLES):
        parser.error("a table is one of %s" % ", ".join(TABLES))
    figures = {}
    print("%s, %d processors, kernel %s" % (platform.machine(), len(os.sched_getaffinity(0)), platform.release()))
    with Traces(arms.PROGRAMS) as traces:
        for name in wanted.tables:
            rows = TABLES[name].measure(traces)
            print("\n%s\n%s" % (TABLES[name].TITLE, narrow_table(rows)), flush=True)
            figures[name] = [row.for_machines() for row in rows]
    if wanted.json:
        with open(wanted.json, "w", encoding="utf-8") as f:
            json.dump(figures, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
