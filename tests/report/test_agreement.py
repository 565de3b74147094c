#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recorded traces (all of the tree with CUTRACE_FULL=1), in all commands: a quantity that several of them state has one value
in all of them.

Sizes, counts and times are compared between the JSON documents; the golden outputs have what the text says of them. The events
themselves, read by `dump` and added up here, are the truth for what they can tell: counts of calls.
"""
import collections
import functools
import glob
import itertools
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import traces  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, main, no_lines, read_view, report, sample, scratch, without_lines  # noqa: E402

COMMANDS = "summary oom explain top leaks stats timeline phases frag fit info".split()
WITHOUT_STATE = ("info",)  # their document is the trace's


def generated():
    """Traces that are written here: what no recording of the tree has."""
    for name in ("growing", "on_streams", "on_an_instance"):
        yield scratch(name + ".zst", getattr(traces, name)())


def kept(folder):
    return sorted(glob.glob(os.path.join(ROOT, folder, "**/*.zst"), recursive=True))


RECORDED = kept("tests/report/golden") + kept("tests/report/pytorch") + kept("tests/gpu/results")
VLLM = kept("tests/report/vllm")
TRACES = sample(RECORDED, 9) + (VLLM if FULL else sample(VLLM[::3], 2, 1)) + list(generated())


def title(path):
    return os.path.relpath(path, ROOT) if path.startswith(ROOT) else os.path.basename(path)


@functools.lru_cache(maxsize=None)
def said(command, path, *options):
    """The document of a command."""
    return read_view(command, *no_lines(command), *options, path, codes=(0, 3, 4))


@functools.lru_cache(maxsize=None)
def told(command, path, *options):
    """The lines of its text, with sizes in bytes."""
    units = () if command == "explain" else ("--units=bytes",)
    code, out, err = report(command, *no_lines(command), *units, *options, path)
    check(code in (0, 3, 4), "%s %s: exit %d, %s" % (command, title(path), code, err))
    return out.decode().splitlines()


@functools.lru_cache(maxsize=None)
def events_of(path):
    return check_ledger.read_trace(REPORT, path)


@functools.lru_cache(maxsize=None)
def difference(path):
    """diff of a trace and itself."""
    return json.loads(report("diff", "--json", *no_lines("diff"), path, path)[1])


def compare(problems, path, what, got, want):
    if got != want:
        problems.append("%s: %s: %s, but %s" % (title(path), what, str(got)[:200], str(want)[:200]))


def devices_of(document):
    return {d["ordinal"]: d for d in document["devices"] or []}


# ---- the trace ----------------------------------------------------------------------------------

@case("the trace: each document describes it as the others do, and dump has as many events")
def same_trace():
    problems = []
    for path in TRACES:
        want = said("summary", path)["trace"]
        for command in COMMANDS:
            document = said(command, path)
            got = document if command in WITHOUT_STATE else document["trace"]
            for key in want.keys() & got.keys():
                compare(problems, path, "%s: trace.%s" % (command, key), got[key], want[key])
        compare(problems, path, "lines of dump", len(events_of(path)), want["events"])
    return problems or "%d traces" % len(TRACES)


# ---- what failed --------------------------------------------------------------------------------

def failures(problems, path):
    summary, oom, explained = (said(c, path) for c in ("summary", "oom", "explain"))
    for key in ("ooms", "incidents", "crossing"):
        compare(problems, path, "oom: " + key, oom[key], summary[key])
    compare(problems, path, "explain: verdicts", without_lines(explained["verdicts"]), without_lines(summary["verdicts"]))
    compare(problems, path, "frag: moment",
            summary["crossing"] and said("frag", path)["moment"]["t_ns"], summary["crossing"] and summary["crossing"]["t_ns"])
    of_event = {o["event"]: o for o in summary["ooms"]}
    heads = collections.Counter(of_event[i["event"]]["device"] for i in summary["incidents"])
    failed = collections.Counter(of_event[i["event"]]["device"] for i in summary["incidents"] if i["outcome"] == "failed")
    compare(problems, path, "incident_counts", oom["incident_counts"]["failed"], sum(failed.values()))
    for ordinal, d in devices_of(said("timeline", path)).items():
        fine = sum(c["oom_count"] for c in d["columns"] if not c["coarse"])
        compare(problems, path, "timeline: OOMs of GPU %s" % ordinal, fine, heads[ordinal])
    for d in difference(path)["devices"] or []:
        figures = {f["figure"]: f["a"] for f in d["figures"]}
        if "ooms" in figures:
            compare(problems, path, "diff: OOMs of GPU %s" % d["a"]["ordinal"], figures["ooms"], failed[d["a"]["ordinal"]])
    return summary


@case("what failed: OOMs, incidents, their number on each device, the crossing, verdicts and causes")
def same_failures():
    problems, count = [], 0
    for path in TRACES:
        summary = failures(problems, path)
        count += len(summary["incidents"])
    check(count > (30 if FULL else 3), count)
    return problems or "%d incidents" % count


# ---- what was allocated -------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def data_of_page(path):
    out = scratch("page.html")
    code, _, err = report("html", *no_lines("html"), "--force", "-o", out, path)
    check(code in (0, 4), err)
    with open(out, encoding="utf-8") as f:
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', f.read(), re.S).group(1))["traces"][0]


def holdings(problems, path):
    """Peaks, live memory at the end, and what was allocated and freed."""
    summary, last = devices_of(said("summary", path)), devices_of(said("top", path, "--segments"))
    at_end = {c: devices_of(said(c, path, "--at=end")) for c in ("top", "frag", "leaks")}
    stats, timeline = devices_of(said("stats", path)), devices_of(said("timeline", path))
    for ordinal, d in summary.items():
        where, peak, live = "GPU %s: " % ordinal, (d["peak_bytes"], d["peak_t_ns"]), d["live_bytes"]
        compare(problems, path, where + "peak of top", (last[ordinal]["peak_bytes"], last[ordinal]["peak_t_ns"]), peak)
        compare(problems, path, where + "live in top", at_end["top"][ordinal]["bytes"], live)
        compare(problems, path, where + "live in leaks", at_end["leaks"][ordinal]["bytes"], live)
        compare(problems, path, where + "live in frag", (at_end["frag"][ordinal]["live_bytes"], at_end["frag"][ordinal]["live_allocations"]),
                (live, d["live_allocations"]))
        if ordinal in stats:
            compare(problems, path, where + "live in stats", stats[ordinal]["allocations"]["live"],
                    {"count": d["live_allocations"], "bytes": live})
        columns = timeline[ordinal]["columns"]
        if columns[-1]["live_bytes_min"] is not None:
            compare(problems, path, where + "the end in timeline",
                    columns[-1]["live_bytes_min"] <= live <= columns[-1]["live_bytes_max"], True)
        if not any(c["coarse"] for c in columns) and said("summary", path)["trace"]["exact_from_t_ns"] is None:
            compare(problems, path, where + "the highest column", max(c["live_bytes_max"] or 0 for c in columns), peak[0])
        for other in (timeline[ordinal], devices_of(said("fit", path)).get(ordinal)):
            if other:
                compare(problems, path, where + "capacity", (other["capacity_bytes"], other["capacity"]), (d["capacity_bytes"], d["capacity"]))


@case("what was allocated: peaks and their times, live memory at the end and capacities")
def same_holdings():
    problems = []
    for path in TRACES:
        holdings(problems, path)
    return problems


@case("calls: stats counts those that dump has, and no fewer failed than ran out of memory")
def same_calls():
    problems, count = [], 0
    for path in TRACES:
        events = events_of(path)
        want = collections.Counter((e["api"], e["op"]) for e in events)
        failed = collections.Counter((e["api"], e["op"]) for e in events if e["result"])
        calls = said("stats", path)["calls"] or []
        for c in calls:
            key = (c["api"], c["op"])
            compare(problems, path, "calls of %s" % c["api"], (c["count"], c["failed_count"]), (want[key], failed[key]))
            compare(problems, path, "OOMs of %s" % c["api"], c["oom_count"] <= c["failed_count"], True)
        count += len(calls)
    check(count > (200 if FULL else 20), count)
    return problems or "%d functions" % count


# ---- how a device is used -----------------------------------------------------------------------

def rows_of(account):
    return {r["component"]: r["bytes"] for r in account["rows"]}


def rows_of_page(path, ordinal, event):
    """What the page draws of a device at an event."""
    for d in data_of_page(path)["devices"]:
        events = list(itertools.accumulate(d["event"]))
        if d["device"] == ordinal and event in events:
            rows, at = collections.Counter(), events.index(event)
            for row, deltas in zip(d["rows"], d["bytes"]):
                rows[row["key"]] += sum(deltas[:at + 1])
            return {key: size for key, size in rows.items() if size}
    return None


def uses(problems, path):
    """The division of the device's memory at the crossing."""
    summary = said("summary", path)
    crossing = summary["crossing"]
    ordinal = crossing["device"]
    memory, account, pool = (devices_of(summary)[ordinal][key]["crossing"] for key in ("memory", "account", "pool"))
    compare(problems, path, "memory of the crossing", crossing["memory"], memory)
    compare(problems, path, "pool of the crossing", crossing["pool"], pool)
    page = rows_of_page(path, ordinal, crossing["event"])
    if page is not None and page.get("siblings") is None:
        compare(problems, path, "the page at the crossing", page, rows_of(account))
    frag = devices_of(said("frag", path))[ordinal]
    compare(problems, path, "frag: live at the crossing", frag["live_bytes"], crossing["live_bytes"])
    if pool is not None:
        compare(problems, path, "frag: the pool", {key: frag["pool"][key] for key in pool}, pool)
    for d in difference(path)["devices"] or []:
        if d["a"]["ordinal"] != ordinal or d["a"]["moment"]["what"] != "oom":
            continue
        figures = {f["figure"]: f["a"] for f in d["figures"]}
        compare(problems, path, "diff: the account", {r["component"]: r["a_bytes"] for r in d["account"] if r["a_bytes"]}, rows_of(account))
        for figure, key in (("tracked", "tracked_bytes"), ("untracked", "untracked_bytes"), ("free", "free_bytes")):
            compare(problems, path, "diff: " + figure, figures.get(figure), memory[key])
    fit = devices_of(said("fit", path)).get(ordinal)
    if fit and fit["as_recorded"]["event"] == crossing["event"] and memory["untracked_bytes"] is not None:
        compare(problems, path, "fit: what is untracked", [fit["as_recorded"][key] for key in ("untracked_bytes", "untracked_or_others_bytes")],
                [memory[key] for key in ("untracked_bytes", "unattributed_bytes")])


def pools(problems, path):
    """What frag and summary say of PyTorch's pools in the whole range."""
    frag = devices_of(said("frag", path))
    for ordinal, d in devices_of(said("summary", path)).items():
        for key in ("growth_causes", "oom_causes", "retries", "retries_is_bound", "fragmentation"):
            compare(problems, path, "frag: %s of GPU %s" % (key, ordinal), frag[ordinal][key], d[key])


@case("at the crossing: summary, oom, diff, fit, frag and the page divide the device's memory alike")
def same_uses():
    problems, count = [], 0
    for path in TRACES:
        if said("summary", path)["crossing"] and devices_of(said("summary", path)):
            uses(problems, path)
            count += 1
        pools(problems, path)
    check(count > (30 if FULL else 2), count)
    return problems or "%d crossings" % count


@case("where nothing was allocated: all views say it in the same words, and how far the events go")
def nothing_allocated():
    problems = []
    for name, missing, words in (("whole", False, "No GPU memory was allocated"),
                                 ("with_a_gap", True, "No GPU memory was allocated, as far as the trace goes")):
        path = scratch(name + ".zst", traces.unallocated(missing))
        for command in "top leaks frag fit stats timeline".split():
            compare(problems, path, command, [line for line in told(command, path) if "was allocated" in line], [words])
        _, out, _ = report("diff", path, path)
        compare(problems, path, "diff", [line for line in out.decode().splitlines() if "was allocated" in line], [words])
        first = words.replace("allocated", "allocated, and no OOM occurred")
        compare(problems, path, "summary", told("summary", path)[0], first)
        compare(problems, path, "oom", told("oom", path)[0], words.replace("GPU memory was allocated", "OOM occurred"))
    return problems


@case("fit: where its need is the peak, the parts are those of the peak")
def same_peak():
    problems, count = [], 0
    for path in TRACES:
        for ordinal, d in devices_of(said("summary", path)).items():
            need = devices_of(said("fit", path)).get(ordinal, {}).get("as_recorded")
            if not need or need["requested_bytes"] or need["t_ns"] != d["peak_t_ns"] or need["tracked_bytes"] != d["memory"]["peak"]["tracked_bytes"]:
                continue
            idle = d["memory"]["peak"]["pool_idle_bytes"] + (d["pool"]["peak"]["free_bytes"] if d["pool"]["peak"] else 0)
            compare(problems, path, "free in pools at the peak", need["pool_free_bytes"], idle)
            count += 1
    check(count > 15 or not FULL, count)
    return problems or "%d peaks" % count


main()
