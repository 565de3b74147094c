#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recorded traces (all of the tree with CUTRACE_FULL=1), in all commands: a quantity that several of them state has one value
in all of them.

Sizes, counts, times and sentences are compared between the JSON documents, and between the text and the JSON. The events
themselves, read by `dump` and added up here, are the truth for what they can tell: counts of calls, live and peak bytes.
"""
import collections
import functools
import glob
import itertools
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import traces  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, main, report, sample  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()
COMMANDS = "summary oom explain top leaks stats timeline phases frag fit coverage info check".split()
WITHOUT_STATE = ("info", "check")  # their document is the trace's
TEXTS = "summary oom explain top leaks stats phases frag fit coverage".split()


def generated():
    """Traces that are written here: what no recording of the tree has."""
    for name in ("growing", "on_streams", "on_an_instance"):
        path = os.path.join(FOLDER.name, name + ".zst")
        with open(path, "wb") as f:
            f.write(getattr(traces, name)())
        yield path


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
    code, out, err = report(command, "--json", *options, path)
    check(code in (0, 3, 4), "%s %s: exit %d, %s" % (command, title(path), code, err))
    return json.loads(out)


@functools.lru_cache(maxsize=None)
def told(command, path, *options):
    """The lines of its text, with sizes in bytes."""
    units = () if command == "explain" else ("--units=bytes",)
    code, out, err = report(command, *units, *options, path)
    check(code in (0, 3, 4), "%s %s: exit %d, %s" % (command, title(path), code, err))
    return out.decode().splitlines()


@functools.lru_cache(maxsize=None)
def events_of(path):
    return check_ledger.read_trace(REPORT, path)


@functools.lru_cache(maxsize=None)
def difference(path):
    """diff of a trace and itself."""
    return json.loads(report("diff", "--json", path, path)[1])


def compare(problems, path, what, got, want):
    if got != want:
        problems.append("%s: %s: %s, but %s" % (title(path), what, str(got)[:200], str(want)[:200]))


def holds(problems, path, what, condition, seen):
    if not condition:
        problems.append("%s: %s: %s" % (title(path), what, str(seen)[:300]))


def devices_of(document):
    return {d["ordinal"]: d for d in document["devices"] or []}


def elapsed(path, t_ns):
    """A time as views print it."""
    since = t_ns - said("summary", path)["start_ns"]
    ms = (since + 500000) // 1000000
    seconds, ms = divmod(ms, 1000)
    if seconds < 60:
        return "+%d.%03d s" % (seconds, ms)
    return "+%d:%02d:%02d.%03d" % (seconds // 3600, seconds // 60 % 60, seconds % 60, ms)


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


def first_of(lines, beginning):
    return next((line for line in lines if line.startswith(beginning)), None)


def without_ring(line):
    """(explain has no --units)"""
    return line and re.sub(r"a ring of [^)]*", "a ring of ...", line)


@case("the sentences on the trace (INCOMPLETE, PART, trace:, limits:) are the same wherever they stand")
def same_sentences():
    problems = []
    for path in TRACES:
        for beginning in ("INCOMPLETE", "PART", "an estimate:", "trace: ", "limits: "):
            seen = {command: without_ring(first_of(told(command, path), beginning)) for command in TEXTS}
            holds(problems, path, beginning, len(set(seen.values()) - {None}) <= 1, seen)
        limits = first_of(told("oom", path), "limits: ")
        compare(problems, path, "limits", limits and limits[8:], said("oom", path)["trace"]["limits"])
    return problems


# ---- what failed --------------------------------------------------------------------------------

def failures(problems, path):
    summary, oom, explained = (said(c, path) for c in ("summary", "oom", "explain"))
    for key in ("ooms", "incidents", "crossing"):
        compare(problems, path, "oom: " + key, oom[key], summary[key])
    compare(problems, path, "explain: verdicts", explained["verdicts"], summary["verdicts"])
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


def failures_in_text(problems, path, summary):
    crossing, lines = summary["crossing"], told("oom", path)
    quiet = [c for c in ("summary", "oom") if any(line.startswith("No OOM occurred") or " no OOM occurred" in line
                                                  for line in told(c, path))]
    compare(problems, path, "No OOM occurred", quiet, [] if summary["ooms"] else ["summary", "oom"])
    if crossing is None:
        return
    head = next(line for line in told("summary", path) if re.match("(Recovered from )?OUT OF", line))
    holds(problems, path, "the first line of summary", "at %s" % elapsed(path, crossing["t_ns"]) in head, head)
    if crossing["requested_bytes"] is not None:
        holds(problems, path, "what was asked for", "asked for %d" % crossing["requested_bytes"] in head, head)
    at = [line for line in lines if re.search(r", event %d: " % crossing["event"], line)]
    compare(problems, path, "the crossing in oom", len(at), 1)
    compare(problems, path, "the same request", at[0].split(": ", 1)[1].replace("  <- crossed capacity", ""),
            head.split(": ", 1)[1].split("; a request of this size succeeded")[0].split("; PyTorch's retry")[0])
    causes = {c: [re.sub(" +", " ", line) for line in told(c, path) if re.match(r" +cause ", line)] for c in ("summary", "oom")}
    if causes["summary"]:  # (it is left out where a screen has no room for it)
        holds(problems, path, "the cause that summary says", causes["summary"][0] in causes["oom"], causes)
    host = crossing["reason"] in ("host-memory", "address-space")
    compare(problems, path, "crossed capacity", sum("<- crossed" in line for line in lines), 0 if host else 1)


@case("what failed: OOMs, incidents, their number on each device, the crossing, verdicts and causes")
def same_failures():
    problems, count = [], 0
    for path in TRACES:
        summary = failures(problems, path)
        failures_in_text(problems, path, summary)
        count += len(summary["incidents"])
    check(count > (30 if FULL else 3), count)
    return problems or "%d incidents" % count


# ---- what was allocated -------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def data_of_page(path):
    out = os.path.join(FOLDER.name, "page.html")
    code, _, err = report("html", "--force", "-o", out, path)
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


def without_mig(lines):
    return [re.sub(r"^(\w.*?) \(MIG [^)]*\)", r"\1", line) for line in lines]


def holdings_in_text(problems, path):
    for ordinal, d in devices_of(said("summary", path)).items():
        gpu, at = "GPU %s" % ordinal, elapsed(path, d["peak_t_ns"]) if d["peak_t_ns"] is not None else None
        top = first_of(without_mig(told("top", path)), gpu + ": ")
        doubt = re.search(r" \(not known: events .*\)$", top)
        compare(problems, path, "the head of top", top[:doubt and doubt.start()], "%s: %d at the peak, at %s" % (gpu, d["peak_bytes"], at))
        compare(problems, path, "whether the peak is known", doubt is None, d["peak_known"])
        stats = without_mig(told("stats", path))
        if gpu + ", allocations of the driver" in stats:
            line = stats[stats.index(gpu + ", allocations of the driver") + 1]
            compare(problems, path, "the head of stats", line.split(", ")[-1], "%d live at the end (%d)" % (d["live_allocations"], d["live_bytes"]))
        frag = first_of(without_mig(told("frag", path, "--at=end")), gpu + " at ")
        compare(problems, path, "the head of frag", re.sub(".*?: ", "", frag),
                "%d in %d allocation%s" % (d["live_bytes"], d["live_allocations"], "" if d["live_allocations"] == 1 else "s"))
        peaks = [line for line in without_mig(told("summary", path)) if re.search(r"allocated (on %s )?at (the peak, at )?\+" % gpu, line)]
        for line in peaks if gpu in "".join(peaks) else []:
            found = re.search(r"(?:peak: )?(\d+)(?: of \d+ \([^)]*\))? allocated (?:on GPU \d+ )?at (?:the peak, at )?(\+[\d:.]+(?: s)?)", line)
            compare(problems, path, "the peak of summary", found and found.groups(), (str(d["peak_bytes"]), at))


@case("what was allocated: peaks and their times, live memory at the end and capacities, in JSON and in text")
def same_holdings():
    problems = []
    for path in TRACES:
        holdings(problems, path)
        holdings_in_text(problems, path)
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
        path = os.path.join(FOLDER.name, name + ".zst")
        with open(path, "wb") as f:
            f.write(traces.unallocated(missing))
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


# ---- one figure in two widths -------------------------------------------------------------------

@case("80 and 160 columns: the same words and figures, but for tables that leave out columns")
def same_at_widths():
    problems = []
    for path in sample(RECORDED, 5):
        for command in ("oom", "explain", "fit"):
            said_at = [" ".join(report(command, path, columns=w)[1].decode().split()) for w in (80, 160)]
            compare(problems, path, command, *said_at)
    return problems


main()
