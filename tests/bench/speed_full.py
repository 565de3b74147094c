# SPDX-License-Identifier: Apache-2.0
"""The second table: passes over all events."""
import statistics

import peer_arms as arms
from peer_figures import Row, ratios
from speed_runs import FEW, MANY, PROCESSORS, figure, in_turns, report, run

TITLE = "Passes over all events (`cutrace-report leaks`)"
VIEW = "leaks"
WORKERS = "CUTRACE_REPORT_WORKERS"
NOT_THERE = "not there: cutrace-report does not read %s" % WORKERS
HEAPTRACK_PRINT = "/usr/bin/heaptrack_print"
AT_LEAST = {FEW: 5, MANY: 3}  # times as fast as heaptrack_print


def reads_workers():
    with open(arms.REPORT, "rb") as f:
        return WORKERS.encode() in f.read()


def with_workers(path, workers):
    return lambda: report(VIEW, path, environment={WORKERS: str(workers)})


def seconds(runs):
    return [r.wall for r in runs]


def speed_up(traces, live, workers, wanted):
    """One worker is the main thread alone."""
    name = "speed-up with %d workers, %d live" % (workers, live)
    if PROCESSORS < workers:
        return Row(name, "x", wanted, None, [], reason="not claimed: this machine has %d processors" % PROCESSORS,
                   at_least=True)
    if not reads_workers():
        return Row(name, "x", wanted, None, [], reason=NOT_THERE, at_least=True)
    path, info = traces.ring(live)
    told = in_turns({"one": with_workers(path, 0), "all": with_workers(path, workers)})
    one, several = (seconds(told[arm]) for arm in ("one", "all"))
    return Row(name, "x", wanted, None, ratios(one, several),
               "%.2f s instead of %.2f; %.1f M events" % (statistics.median(several), statistics.median(one), info["events"] / 1e6),
               at_least=True)


def memory(traces):
    """Of the resident memory, what a million live allocations add. (All of it holds Python's own, which starts the
    program, and pages of the trace: the difference between the two rings does not.)"""
    def most(live, workers):
        return report(VIEW, traces.ring(live)[0], environment={WORKERS: str(workers)}).memory
    added = [(most(MANY, 0) - most(FEW, 0)) / (MANY - FEW) * 1e6 for _ in range(3)]
    rows = [Row("memory by million live, first worker", " MiB", 48, None, added)]
    name = "a further worker's, of the first one's"
    if not reads_workers():
        return rows + [Row(name, "x", 0.5, None, [], reason=NOT_THERE)]
    further = [(most(MANY, 2) - most(MANY, 0) - most(FEW, 2) + most(FEW, 0)) / (MANY - FEW) * 1e6 for _ in range(3)]
    return rows + [Row(name, "x", 0.5, None, [f / a for f, a in zip(further, added)])]


def against_heaptrack(traces, live):
    name = "speed of heaptrack_print's, %d live" % live
    if not arms.heaptrack_is_there():
        return Row(name, "x", AT_LEAST[live], None, [], reason="heaptrack is not installed (scripts/setup.sh bench)",
                   at_least=True)
    ours, theirs, events = traces.peers(live)
    told = in_turns({"ours": lambda: report(VIEW, ours), "theirs": lambda: run([HEAPTRACK_PRINT, theirs])}, rounds=5)
    us, them = seconds(told["ours"]), seconds(told["theirs"])
    return Row(name, "x", AT_LEAST[live], None, ratios(them, us), "%.2f s, heaptrack_print %.2f s; %.1f M events in both"
               % (statistics.median(us), statistics.median(them), events / 1e6), at_least=True)


def measure(traces):
    rows = [speed_up(traces, live, 2, 1.8) for live in (FEW, MANY)]
    rows.append(speed_up(traces, FEW, 16, 10))
    rows += memory(traces)
    return rows + [figure("speed of heaptrack_print's", lambda live=live: against_heaptrack(traces, live))
                   for live in (FEW, MANY)]
