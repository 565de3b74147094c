# SPDX-License-Identifier: Apache-2.0
"""The third table: passes over all events with more and more workers, in parts between checkpoints: `stats` has one that
needs little more than what is live; `summary` scans; `top --at=end` scans, and then measures growth by call site."""
import statistics

from peer_figures import Row, ratios
from speed_full import VIEW, seconds, with_workers
from speed_runs import FEW, MANY, PROCESSORS, in_turns

TITLE = "Passes over all events by workers (`cutrace-report %s`, and views that scan)" % VIEW
SCANS = (("summary",), ("top", "--at=end"))
NUMBERS = (2, 4, 8, 16)
WANTED = {(FEW, 2): 1.8, (MANY, 2): 1.8, (FEW, 16): 10}


def by_workers(traces, live, *view):
    path, info = traces.ring(live)
    numbers = [n for n in NUMBERS if n <= PROCESSORS]
    told = in_turns({n: with_workers(path, n, *view) for n in [1, *numbers]})
    rows = []
    for n in NUMBERS:
        name = "speed-up %swith %d workers, %d live" % ("of %s " % view[0] if view else "", n, live)
        wanted = WANTED.get((live, n))
        if n not in numbers:
            rows.append(Row(name, "x", wanted, None, [], reason="this machine has %d processors" % PROCESSORS,
                            at_least=True))
            continue
        one, several = seconds(told[1]), seconds(told[n])
        beside = "%.2f s instead of %.2f; %.1f M events; %.0f MiB instead of %.0f" % (
            statistics.median(several), statistics.median(one), info["events"] / 1e6, told[n][0].memory, told[1][0].memory)
        rows.append(Row(name, "x", wanted, None, ratios(one, several), beside, at_least=True))
    return rows


def measure(traces):
    return [row for live in (FEW, MANY) for view in ((), *SCANS) for row in by_workers(traces, live, *view)]
