#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Divides the writer's time for an event by stage: stages.py [STREAM] [EVENTS] (peer, 8000000; needs perf, addr2line).

drain_cost runs under `perf record`, on the processor's clock, so that it needs no counters of the hardware. Each sample
belongs to the stage of its source file; of inlined code, to that of the innermost file which has one. What makes the
events, in the same thread, does not count.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

import peer_arms as arms
from speed_runs import plain_environment

PROGRAM = os.path.join(arms.PROGRAMS, "drain_cost")
BASE = 0x555555554000  # of a program without randomised addresses (setarch -R)
STAGES = {
    "take from the rings, in order": "ring_merge.c ring.h journal.h",
    "live memory": "live.h live_memory.h live_segments.h live_state.c objects.h slot_index.h tentative.h "
                   "failures.h measured.h",
    "address map": "address_map.h",
    "readings and history": "readings.h device_use.h history.h",
    "digest": "digest.h digest_code.h",
    "names, stacks, threads": "dictionary.c stack_table.c hash_slots.c",
    "columns (encode)": "encode.h columns.h event_match.h open_chunk.c bytes.h",
    "from stage to stage": "drain.c drain_lock.c",
    "zstd": "chunk_encode.c",
    "the rest": "",
}
MAKERS = {"drain_cost.c", "streams.h", "draw.h", "name_table.c"}
ZSTD = re.compile(r"(ZSTD|HUF|FSE|HIST|XXH)_")
STAGE_OF = {name: stage for stage, names in STAGES.items() for name in names.split()}


def record(stream, events, data):
    """Runs drain_cost under perf. Returns the ns for an event that it tells."""
    trace = data + ".zst"
    environment = plain_environment({"CUTRACE_OUTPUT": trace, "CUTRACE_MAX_SIZE": "0", "CUTRACE_QUIET": "1"})
    sampling = ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-o", data]
    done = subprocess.run([*sampling, "setarch", "-R", PROGRAM, stream, str(events), "2"], check=True, capture_output=True,
                          text=True, env=environment)
    os.unlink(trace)
    return float(re.search(r"([\d.]+) ns an event", done.stdout).group(1))


def samples_of(data):
    """(address, symbol) -> samples in the program itself; other libraries are the events' makers or the C library."""
    lines = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym,dso"], check=True, capture_output=True,
                           text=True).stdout
    counts = collections.Counter()
    for line in lines.splitlines():
        found = re.match(r"\s*([0-9a-f]+) (\S+).*\((.*)\)$", line)
        if found and found.group(3) == PROGRAM:
            counts[int(found.group(1), 16) - BASE, found.group(2)] += 1
    return counts


def files_of(addresses):
    """Address -> names of its source files, the innermost one first."""
    told = subprocess.run(["addr2line", "-a", "-i", "-e", PROGRAM], input="\n".join("%#x" % a for a in addresses),
                          check=True, capture_output=True, text=True).stdout
    files, at = {}, None
    for line in told.splitlines():
        if line.startswith("0x"):
            at = files.setdefault(int(line, 16), [])
        else:
            at.append(os.path.basename(line.split(":")[0]))
    return files


def stage_of(symbol, files):
    """None: it makes events."""
    if ZSTD.match(symbol):
        return "zstd"
    if files[-1] in MAKERS and "drain.c" not in files:
        return None
    return next((STAGE_OF[f] for f in files if f in STAGE_OF), "the rest")


def main():
    stream = sys.argv[1] if len(sys.argv) > 1 else "peer"
    events = int(sys.argv[2]) if len(sys.argv) > 2 else 8000000
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        data = os.path.join(folder, "perf.data")
        ns = record(stream, events, data)
        samples = samples_of(data)
    files = files_of(sorted({address for address, _ in samples}))
    stages = collections.Counter()
    for (address, symbol), count in samples.items():
        stages[stage_of(symbol, files[address])] += count
    del stages[None]
    whole = sum(stages.values())
    print("writer, `%s`: %.1f ns an event, %d samples" % (stream, ns, whole))
    for stage in STAGES:
        print("  %-30s %5.1f ns %5.1f %%" % (stage, ns * stages[stage] / whole, 100 * stages[stage] / whole))


if __name__ == "__main__":
    main()
