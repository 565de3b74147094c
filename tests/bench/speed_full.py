# SPDX-License-Identifier: Apache-2.0
"""The second table: passes over all events, their memory and their speed beside heaptrack's."""
import statistics

import peer_arms as arms
from peer_figures import Row, ratios
from speed_runs import FEW, MANY, figure, in_turns, report, run

TITLE = "Passes over all events (`cutrace-report stats`)"
VIEW = "stats"  # lifetimes: each needs its allocation and its free
HEAPTRACK_PRINT = "/usr/bin/heaptrack_print"
AT_LEAST = {FEW: 5, MANY: 3}  # times as fast as heaptrack_print


def seconds(runs):
    return [r.wall for r in runs]


def memory(traces):
    """Of the resident memory, what a million live allocations add. (All of it holds pages of the trace, too: the difference
    between the two rings does not.)"""
    many, few = (report(VIEW, traces.ring(live)[0], environment={"CUTRACE_REPORT_WORKERS": "0"}).memory for live in (MANY, FEW))
    return [Row("memory by million live", " MiB", 48, None, [(many - few) / (MANY - FEW) * 1e6],
                "%.0f MiB with %d live, %.0f with %d" % (many, MANY, few, FEW))]


def against_heaptrack(traces, live):
    name = "speed of heaptrack_print's, %d live" % live
    if not arms.heaptrack_is_there():
        return Row(name, "x", AT_LEAST[live], None, [], reason="heaptrack is not installed (scripts/setup.sh bench)",
                   at_least=True)
    ours, theirs, events = traces.peers(live)
    told = in_turns({"ours": lambda: report(VIEW, ours), "theirs": lambda: run([HEAPTRACK_PRINT, theirs])}, rounds=5)
    us, them = seconds(told["ours"]), seconds(told["theirs"])
    beside = "%.2f s, heaptrack_print %.2f s; %.1f M events in both" % (statistics.median(us), statistics.median(them),
                                                                        events / 1e6)
    return Row(name, "x", AT_LEAST[live], None, ratios(them, us), beside, at_least=True)


def measure(traces):
    return memory(traces) + [figure("speed of heaptrack_print's", lambda live=live: against_heaptrack(traces, live))
                             for live in (FEW, MANY)]
