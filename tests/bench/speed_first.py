# SPDX-License-Identifier: Apache-2.0
"""The first table: the first screen, and single moments."""
import os
import subprocess

from peer_figures import Row
from speed_runs import FEW, MANY, QUICK, RING, ROUNDS, in_turns, report, run

TITLE = "The first screen of a ring of %siB, and single moments" % RING
WANTED_SECONDS = {FEW: 0.5, MANY: 1.0, "moment": 1.0}
MOMENTS = (("frag", "--quick"), ("top", "--quick"), ("frag",), ("top",))
if QUICK:  # a smaller ring says nothing about these
    WANTED_SECONDS = dict.fromkeys(WANTED_SECONDS)


def moment_of(info, share=0.6):
    """A moment inside the trace, as --at takes it."""
    ns = info["t_first_ns"] - info["start_ns"] + (info["t_last_ns"] - info["t_first_ns"]) * share
    return "--at=%.9f" % (ns / 1e9)


def drop_from_cache(path):
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm(traces, live):
    path, info = traces.ring(live)
    at = moment_of(info)
    told = in_turns({"summary": lambda: report("summary", path), "quick": lambda: report("summary", "--quick", path),
                     **{" ".join(view): lambda view=view: report(*view, at, path) for view in MOMENTS}})
    whole = report("info", path)
    size = "%.1f M events, %.0f MiB" % (info["events"] / 1e6, os.path.getsize(path) / 2**20)
    rows = [Row("first screen, %d live" % live, " s", WANTED_SECONDS[live], None, [r.wall for r in told["summary"]],
                "%s; `info`, which reads all: %.2f s" % (size, whole.wall)),
            Row("the recorder's own (summary --quick), %d live" % live, " s", WANTED_SECONDS[live], None,
                [r.wall for r in told["quick"]])]
    for view in map(" ".join, MOMENTS):
        rows.append(Row("%s at one moment, %d live" % (view, live), " s", WANTED_SECONDS["moment"], None,
                        [r.wall for r in told[view]]))
    return rows


def file_system_of(path):
    told = subprocess.run(["df", "--output=fstype", path], capture_output=True, text=True, check=True).stdout
    return told.split()[1]


def cold(traces, live, *options):
    path, _ = traces.ring(live)
    size = os.path.getsize(path)
    name = " ".join(["summary", *options]) + ", cold page cache, bytes read"
    drop_from_cache(path)
    control = run(["/bin/cat", path]).disk_bytes
    if control < 0.9 * size:
        return Row(name, " %", 10, None, [], reason="not here: a cold `cat` reads %d %% of the file from the disk (%s)"
                   % (100 * control / size, file_system_of(path)))
    shares, walls = [], []
    for _ in range(ROUNDS):
        drop_from_cache(path)
        took = report("summary", *options, path)
        shares.append(100 * took.disk_bytes / size)
        walls.append(took.wall)
    return Row(name, " %", 10, None, shares, "in %.2f s; a cold `cat` reads %d %%" %
               (sorted(walls)[len(walls) // 2], 100 * control / size))


def measure(traces):
    rows = []
    for live in (FEW, MANY):
        first, quick, *moments = warm(traces, live)
        rows += [first, cold(traces, live), quick, cold(traces, live, "--quick"), *moments]
    return rows
