#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export: each format is parsed with Python's own library and compared with lifetimes.py, which reads the trace by itself,
and with the figures of top and summary."""
import collections
import csv
import functools
import gzip
import io
import json
import os
import pickle
import re
import resource
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import mktrace  # noqa: E402
import protobuf  # noqa: E402
from perfetto_reader import perfetto  # noqa: E402
import sources  # noqa: E402
import whole_trace  # noqa: E402
from lifetimes import lifetimes_of  # noqa: E402
from sources import export  # noqa: E402
from tap import PLAIN, REPORT, ROOT, case, check, equal, main, read_view, report, scratch  # noqa: E402

MOMENTS = ("oom", "peak", "end")
TABLES = "allocations events memory sites failed stacks devices info".split()
NUMBERS = {"event", "device", "bytes", "count", "alloc_ns", "end_event", "end_ns", "lifetime_ns", "live_at_peak", "live_at_oom",
           "live_at_end", "t_ns", "peak_bytes", "live_bytes", "live_count", "stack_id", "depth", "line", "result", "tid", "pid",
           "process_bytes"}


@functools.lru_cache(maxsize=None)
def read_csv(path, table, *options):
    text = export(path, "csv:" + table, *options).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    return [{k: None if v == "" else int(v) if k in NUMBERS else v for k, v in row.items()} for row in rows]


@functools.lru_cache(maxsize=None)
def said(*arguments):
    """What the report says in JSON, also of a trace whose end is missing."""
    return read_view(*arguments)


def top(path, moment):
    """What top says that each device holds, in bytes."""
    return {d["ordinal"]: d["bytes"] for d in said("top", "--at=" + moment, path)["devices"] or []}


def has_oom(path):
    return said("summary", path)["crossing"] is not None


def moments(path):
    return MOMENTS if has_oom(path) else MOMENTS[1:]


def plain(text):
    """Without the apostrophe before what a spreadsheet would compute."""
    return text[1:] if text[:1] == "'" and text[1:2] in tuple("=+-@") else text


def add_up(pairs):
    sums = collections.Counter()
    for key, value in pairs:
        sums[key] += value
    return dict(sums)


def not_empty(sums):
    return {k: v for k, v in sums.items() if v}


@functools.lru_cache(maxsize=None)
def dump(path):
    return [json.loads(line) for line in report("dump", "--json", path)[1].splitlines()]


@case("csv: the rows of allocations are those of a second reader of the file, with their lifetimes")
def lifetimes():
    count = 0
    for path in sources.whole():
        model = lifetimes_of(path)
        want = sorted(((r["kind"], r["device"], r["key"], r["bytes"], r["event"], r["t_ns"], r["end_event"], r["end_t_ns"])
                       for r in model.rows), key=str)
        got = sorted((("block" if r["kind"] == "block" else "memory", r["device"], int(r["address"] or r["handle"], 16), r["bytes"],
                       r["event"], r["alloc_ns"], r["end_event"], r["end_ns"]) for r in read_csv(path, "allocations")), key=str)
        equal(got, want, os.path.basename(path))
        count += len(got)
    return "%d rows" % count


@case("csv: what was live at a moment sums up to the figures of top and of a second reader")
def live_at():
    for path in sources.whole():
        rows = read_csv(path, "allocations")
        for moment in moments(path):
            got = add_up((r["device"], r["bytes"]) for r in rows if r["kind"] != "block" and r["live_at_" + moment])
            equal(not_empty(got), not_empty(top(path, moment)), "%s at %s" % (os.path.basename(path), moment))
        model = lifetimes_of(path)
        got = add_up((r["device"], r["bytes"]) for r in rows if r["kind"] != "block" and r["live_at_peak"])
        equal(not_empty(got), not_empty({d: v[0] for d, v in model.peak.items()}), path)


@case("a trace with gaps: an allocation has one row, and those that live at the end sum up to what top says")
def gaps():
    for path in sources.broken():
        rows = read_csv(path, "allocations")
        ids = [(r["event"], r["kind"] == "block") for r in rows if r["event"] is not None]
        equal(len(ids), len(set(ids)), path)
        for moment in ("peak", "end"):
            got = add_up((r["device"], r["bytes"]) for r in rows if r["kind"] != "block" and r["live_at_" + moment])
            equal(not_empty(got), not_empty(top(path, moment)), "%s at %s" % (path, moment))


@case("csv: kinds: a segment holds blocks, and no block lies in an allocation")
def kinds():
    for path in [sources.pools(1), sources.pools(2)]:
        rows = read_csv(path, "allocations")
        blocks = [(int(r["address"], 16), r["alloc_ns"]) for r in rows if r["kind"] == "block"]
        check(blocks)
        for r in rows:
            if r["kind"] == "block":
                continue
            start, end = int(r["address"], 16), r["end_ns"] or 1 << 63
            holds = any(start <= at < start + r["bytes"] and r["alloc_ns"] <= t <= end for at, t in blocks)
            equal(r["kind"], "segment" if holds else "allocation", "%s %s" % (path, r))


@case("csv and ndjson have the same rows, for each table of each trace")
def ndjson():
    for path in sources.whole()[:10] + sources.broken():
        for table in TABLES:
            lines = [json.loads(line) for line in export(path, "ndjson:" + table).decode().split("\n")[:-1]]
            rows = list(csv.DictReader(io.StringIO(export(path, "csv:" + table).decode(), newline=""), strict=True))
            equal(len(lines), len(rows), table)
            for line, row in zip(lines, rows):
                equal(list(line), list(row), table)
                for key, value in line.items():
                    equal(plain(row[key]), "" if value is None else str(value), "%s %s" % (table, key))


@case("the events of csv are those of dump: also negative results, the processes of NVML, and names of marks, ranges and pools")
def events():
    seen = collections.Counter()
    for path in sources.whole() + sources.broken():
        want = dump(path)
        got = read_csv(path, "events")
        equal(len(got), len(want), path)
        for g, w in zip(got, want):
            for key, other in (("event", "event"), ("t_ns", "t_ns"), ("tid", "tid"), ("device", "device"), ("op", "op"),
                               ("result", "result"), ("bytes", "bytes"), ("address", "ptr"), ("handle", "handle"), ("pid", "pid"), ("process_bytes", "process_bytes")):
                equal(g[key], w[other], "%s event %d %s" % (path, w["event"], key))
            for key in ("text", "domain"):
                if not w[key] or w[key].isprintable():  # (control characters are not written to other programs)
                    equal(plain(g[key] or ""), w[key] or "", "%s event %d %s" % (path, w["event"], key))
                    seen[key] += bool(w[key])
            seen["negative"] += (w["result"] or 0) < 0
    check(all(seen[what] for what in ("text", "domain", "negative")), seen)


def fold(text):
    """Device and bytes of each line, as flamegraph.pl splits it; a stack is there once."""
    seen = set()
    for line in text.split("\n")[:-1]:
        stack, count = line.rsplit(" ", 1)
        check(stack not in seen, line)
        seen.add(stack)
        yield int(stack.split(";")[0].replace("GPU ", "").replace("unknown", "-1")), int(count), stack.split(";")[1:]


@case("folded: the lines of a device sum up to the bytes of top at the same moment, and are sorted")
def folded():
    for path in sources.whole() + sources.broken():
        for moment in moments(path):
            text = export(path, "folded", "--at=" + moment).decode()
            got = add_up((device, count) for device, count, _ in fold(text))
            equal(not_empty(got), not_empty(top(path, moment)), "%s at %s" % (path, moment))
            stacks = [line.rsplit(" ", 1)[0].encode() for line in text.split("\n")[:-1]]
            equal(stacks, sorted(stacks))


@case("folded: the frames are those that dump does not hide, outermost first")
def folded_frames():
    for name in ("refused", "recovered"):
        path = sources.golden(name)
        want = collections.Counter()
        model = lifetimes_of(path)
        stacks = {e["event"]: e["stack"] for e in dump(path)}
        for r in model.rows:
            frames = [f for f in reversed(stacks[r["event"]] or []) if not f["hidden"]]
            if r["end_event"] is None and frames and all(f["name"] and not f["inlined"] for f in frames):
                want[tuple(f["name"].split("(")[0] for f in frames)] += r["bytes"]
        lines = collections.Counter()
        for _, count, frames in fold(export(path, "folded", "--at=end").decode()):
            lines[tuple(f.split(" (")[0].split(" ")[-1] for f in frames)] += count
        check(want, name)
        for stack, size in want.items():
            equal(lines[stack], size, "%s %s" % (name, stack))


def profiles(path):
    """Of speedscope: title -> [(names outermost first, bytes)]."""
    document = json.loads(export(path, "speedscope"))
    frames = document["shared"]["frames"]
    out = {}
    for p in document["profiles"]:
        equal((p["type"], p["unit"], p["startValue"], len(p["samples"])), ("sampled", "bytes", 0, len(p["weights"])))
        equal(p["endValue"], sum(p["weights"]))
        check(p["name"] not in out, p["name"])
        out[p["name"]] = [([frames[i] for i in s], w) for s, w in zip(p["samples"], p["weights"])]
    return out


@case("speedscope: the profiles sum up to top at each moment, and to all that stats says was allocated")
def speedscope():
    title = {"oom": "live at the OOM", "peak": "live at the peak", "end": "live at the end"}
    for path in sources.whole() + sources.broken():
        of = profiles(path)
        for moment in moments(path):
            for device, held in top(path, moment).items():
                name = "GPU %s: %s" % ("unknown" if device is None else device, title[moment])
                equal(sum(w for _, w in of[name]), held, "%s %s" % (path, name))
        for device in said("stats", path)["devices"] or []:
            name = "GPU %s: allocated in all, freed or not" % device["ordinal"]
            if name in of and not device["blocks"]["allocated"]["count"]:
                equal(sum(w for _, w in of[name]), device["allocations"]["allocated"]["bytes"], "%s %s" % (path, name))


@case("the sites of csv sum up to top, to the byte and by kind")
def sites():
    for path in sources.whole() + sources.broken():
        rows = read_csv(path, "sites")
        for moment in moments(path):
            devices = said("top", "--at=" + moment, path)["devices"] or []
            want = add_up(((d["ordinal"], s["kind"], s["site"]), s["bytes"]) for d in devices for s in d["sites"])
            got = add_up(((r["device"], r["kind"], plain(r["site"])), r["bytes"]) for r in rows if r["moment"] == moment)
            equal(not_empty(got), not_empty(want), "%s %s" % (path, moment))


@case("perfetto: counters are the memory of csv, ids are defined before they are used, and slices nest")
def perfetto_counters():
    for path in sources.whole() + sources.broken():
        counters, events = perfetto(path).counters, perfetto(path).events
        want = collections.defaultdict(list)
        for r in read_csv(path, "memory"):
            for title, column in (("live (this process)", "live_bytes"), ("used (device)", "used_bytes"),
                                  ("PyTorch reserved", "torch_reserved_bytes")):
                name = "GPU %s %s" % ("unknown" if r["device"] is None else r["device"], title)
                if r[column] not in (None, ""):
                    value = int(r[column]), int(r["t_ns"])
                    if not want[name] or want[name][-1][0] != value[0]:
                        want[name].append(value)
        for name, values in want.items():
            equal(counters[name], [(t, v) for v, t in values], "%s %s" % (path, name))
        for track in events.values():
            open_slices, last = 0, 0
            for t, kind, _, _, _ in sorted((e for e in track if e[1] != 3), key=lambda e: e[0]):
                open_slices += {1: 1, 2: -1}[kind]
                check(0 <= open_slices <= 1 and t >= last, path)
                last = t
            equal(open_slices, 0)


@case("perfetto: each call of dump is a slice as long as it took or an instant, with its size and its stack")
def perfetto_calls():
    for path in sources.whole():
        events, tracks = perfetto(path).events, perfetto(path).tracks
        calls, lengths = {}, {}
        for uuid, track in events.items():
            if 4 not in tracks[uuid] and 3 not in tracks[uuid]:
                continue
            begun = None
            for t, kind, name, stack, notes in track:
                if kind == 2:
                    lengths[begun] = t - calls[begun][2]
                else:
                    begun = notes["event"]
                    calls[begun] = name, notes.get("bytes"), t, len(stack)
        # (ranges are slices of their own)
        want = [e for e in dump(path) if e["op"] not in ("block-alloc", "block-free") and not e["op"].startswith("range-")]
        equal(sorted(calls), [e["event"] for e in want], path)
        for e in want:
            name, size, _, frames = calls[e["event"]]
            equal(size, e["bytes"], path)
            if e["op"] == "mark":
                equal(name, e["text"], path)
            elif e["api"] and e["api"].isalnum():
                equal(name, e["api"][:1023], path)
            if e["stack"]:
                shown = [f for f in e["stack"] if not f["hidden"]]
                if shown and all(f["name"] and not f["inlined"] for f in shown):
                    equal(frames, len(shown), path)
            if e["event"] in lengths:
                check(lengths[e["event"]] <= e["duration_ns"], path)


@case("perfetto: each frame has the file, the line and the address of dump")
def frames_of_perfetto():
    seen = collections.Counter()
    for path in sources.whole():
        stacks = {notes["event"]: stack for track in perfetto(path).events.values() for _, kind, _, stack, notes in track
                  if kind in (1, 3) and "op" in notes and stack}
        for e in dump(path):
            shown = [f for f in e["stack"] or [] if not f["hidden"]]
            if e["event"] not in stacks or not shown or any(f["inlined"] or not f["name"] or not plain(f["name"]).isprintable() for f in shown):
                continue
            got = stacks[e["event"]][::-1]
            equal([(line, address) for _, _, line, address in got],
                  [(f["line"] or None, f["offset"] if f["kind"] == "native" else 0) for f in shown], path)
            for f, (_, file, *_) in zip(shown, got):
                check(not f["file"] or f["file"] == file or not f["file"].isascii() or not f["file"].isprintable() or len(f["file"]) > 900, (f["file"], file))
                seen[f["kind"], f["line"] is not None] += 1
    check(len(seen) > 1, seen)


@case("perfetto: times are of the monotonic clock, and its first packet says which time of day that is")
def clocks_of_perfetto():
    known = 0
    for path in sources.whole():
        first = perfetto(path).first
        snapshot, of = protobuf.fields(first[6][0]), said("summary", path)
        times = {c[1][0]: c[2][0] for c in map(protobuf.fields, snapshot[1])}
        equal((snapshot[2], protobuf.fields(first[59][0])[58]), ([3], [3]))
        equal(times[3], of["trace"]["t_first_ns"])
        equal(1 in times, of["start_utc_ns"] is not None)
        if 1 in times:
            known += 1
            equal(times[1] - times[3], of["start_utc_ns"] - of["start_ns"], path)
    check(known)


@case("perfetto: failed requests are instants of a track of their own, with what csv says of each")
def failures_of_perfetto():
    crossed = 0
    for path in sources.whole() + sources.broken():
        events, tracks = perfetto(path).events, perfetto(path).tracks
        (track,) = (uuid for uuid, t in tracks.items() if t.get(2) == [b"out of memory"])
        got = sorted((n["event"], t, kind, name, n.get("bytes"), n.get("free_bytes"), n.get("live_bytes"), n.get("retried"))
                     for t, kind, name, _, n in events[track])
        rows = read_csv(path, "failed")
        number = lambda r, key: None if r[key] in (None, "") else int(r[key])  # noqa: E731
        equal(got, sorted((r["event"], r["t_ns"], 3, "OOM that crossed capacity" if int(r["crossed"]) else "OOM",
                           *(number(r, key) for key in ("bytes", "free_bytes", "live_bytes", "retried"))) for r in rows), path)
        crossed += sum(int(r["crossed"]) for r in rows)
    check(crossed)


# Recorded when they begin: what they end may be taken by another thread before they return.
ENDING = ("free", "unreserve", "release", "unmap", "unregister", "pool-destroy", "ipc-close", "context-destroy", "pool-trim", "module-unload")


@case("perfetto: a call that ends something lasts from its event on, any other until its event")
def sides_of_perfetto():
    t, begin = mktrace.Trace(), {}
    for i, op in enumerate(ENDING + ("alloc", "reserve", "create", "map", "register", "pool-create", "ipc-open", "context-create", "module-load")):
        at = (60 + i) * 10**9
        t.event(op, at, api="cuCall", device=0, tid=100 + i, ptr=(1 << 40) + i * 4096, handle=7 + i, bytes=4096, result=0, duration_ns=1000)
        begin[i] = at if op in ENDING else at - 1000
    path = t.save(scratch("sides.zst"))
    got = {}
    for track in perfetto(path).events.values():
        for (t0, one, _, _, notes), (t1, two, *_) in zip(track[::2], track[1::2]):
            if (one, two) == (1, 2) and "op" in notes:
                equal(t1 - t0, 1000)
                got[notes["event"]] = t0
    equal(got, begin)


def lifetimes_of_perfetto(path):
    """By the name of the tracks without their numbers: (event, bytes, begin, end, freed) of each slice; and the names."""
    events, tracks = perfetto(path).events, perfetto(path).tracks
    found, names = collections.defaultdict(list), {}
    for uuid, track in events.items():
        title = tracks[uuid].get(2, [b""])[0].decode()
        kind = re.match(r"(GPU \S+ (?:driver allocations|PyTorch blocks)): ", title)
        if not kind:
            continue
        equal(names.setdefault(kind.group(1), title), title, "the tracks of a list have one name")
        for (begin, one, name, stack, notes), (end, two, *_) in zip(track[::2], track[1::2], strict=True):
            equal((one, two), (1, 2))
            check(name and (not stack or stack), name)
            found[kind.group(1)].append((notes["event"], notes["bytes"], begin, end, notes["freed"]))
    return found, names


@case("perfetto: the lifetimes of the 500 largest allocations of a device, and of PyTorch's blocks, are those of csv")
def perfetto_lifetimes():
    most = 0
    for path in sources.whole() + sources.broken() + [os.path.join(ROOT, "tests/report/vllm/eager/trace.zst")]:
        last = int(said("summary", path)["trace"]["t_last_ns"] or 0)
        want, count = collections.defaultdict(list), collections.Counter()
        for r in read_csv(path, "allocations"):
            name = "GPU %s %s" % ("unknown" if r["device"] in (None, "") else r["device"], "PyTorch blocks" if r["kind"] == "block" else "driver allocations")
            count[name] += 1
            known = {k: r[k] not in (None, "") for k in ("event", "alloc_ns", "end_ns")}
            if known["event"] and known["alloc_ns"] and r["end"] != "unknown":
                begin, end = int(r["alloc_ns"]), int(r["end_ns"]) if known["end_ns"] else last
                want[name].append((int(r["event"]), int(r["bytes"]), begin, max(begin, end), int(known["end_ns"])))
        got, names = lifetimes_of_perfetto(path)
        for name, rows in want.items():
            rows.sort(key=lambda r: (-r[1], r[0]))
            equal(sorted(got[name]), sorted(rows[:500]), (path, name))
            said_of = f"the {len(rows[:500])} largest of {count[name]}" if count[name] > len(rows[:500]) else f"all {len(rows)}"
            equal(names[name], f"{name}: {said_of}")
            most = max(most, len(rows))
        equal(set(got), set(want), path)
    check(most > 1000, most)


@case("sqlite: the tables are those of csv, its integrity holds, and it says what it is")
def database():
    for path in sources.whole() + sources.broken():
        db = open_database(path)
        equal(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        equal(db.execute("PRAGMA application_id").fetchone()[0].to_bytes(4, "big"), b"CTRC")
        equal(db.execute("PRAGMA user_version").fetchone(), (1,))
        for table in TABLES:
            rows = csv.reader(io.StringIO(export(path, "csv:" + table).decode(), newline=""), strict=True)
            equal([c[1] for c in db.execute("PRAGMA table_info(%s)" % table)], next(rows))
            got = [["" if v is None else str(v) for v in row] for row in db.execute("SELECT * FROM " + table)]
            equal(got, [[plain(v) for v in row] for row in rows], "%s %s" % (path, table))


def open_database(path):
    return sqlite3.connect(scratch("open.sqlite", export(path, "sqlite")))


@case("sqlite: its views answer as top, oom and timeline do")
def views():
    for path in sources.whole():
        db = open_database(path)
        for moment in moments(path):
            got = dict(db.execute("SELECT device, sum(bytes) FROM %s_sites GROUP BY device" % moment))
            equal(not_empty(got), not_empty(top(path, moment)), "%s %s" % (path, moment))
            best = db.execute("SELECT max(bytes) FROM %s_sites" % moment).fetchone()[0]
            equal(best or 0, max([s["bytes"] for d in said("top", "--at=" + moment, path)["devices"] for s in d["sites"]] or [0]))
        requests = db.execute("SELECT event, bytes, missing_bytes FROM failed_requests").fetchall()
        equal(len(requests), len(said("oom", path)["incidents"]))
        held = dict(db.execute("SELECT device, sum(held_at_the_end) FROM growth GROUP BY device"))
        blocks = add_up((r["device"], r["bytes"]) for r in read_csv(path, "allocations") if r["live_at_end"] and r["kind"] != "segment")
        equal(not_empty(held), not_empty(blocks), path)
        for view in ("pool", "churn", "stack_text"):
            db.execute("SELECT * FROM " + view).fetchall()
    db = open_database(sources.golden("refused"))
    equal([s for _, s in db.execute("SELECT * FROM stack_text")][0], "main;__init__;load_weights")
    pool_rows = open_database(sources.pools(1)).execute("SELECT reserved_bytes, allocated_bytes, idle_bytes FROM pool").fetchall()
    check(pool_rows and all(r - a == i for r, a, i in pool_rows))


def read_pprof(path, *options):
    """The sample types, and the samples: frames innermost first, labels, values."""
    profile = protobuf.fields(gzip.decompress(export(path, "pprof", *options)))
    strings = [s.decode() for s in profile[6]]
    equal(strings[0], "")
    kinds = [tuple(strings[t[n][0]] for n in (1, 2)) for t in map(protobuf.fields, profile[1])]
    functions = {f[1][0]: strings[f[2][0]] for f in map(protobuf.fields, profile.get(5, []))}
    locations = {}
    for place in map(protobuf.fields, profile.get(4, [])):
        locations[place[1][0]] = [functions[protobuf.fields(line)[1][0]] for line in place[4]]
    samples = []
    for sample in map(protobuf.fields, profile.get(2, [])):
        labels = {strings[l[1][0]]: strings[l[2][0]] for l in map(protobuf.fields, sample[3])}
        samples.append(([locations[i] for i in protobuf.packed(sample[1][0])], labels, protobuf.packed(sample[2][0])))
    equal(strings[profile[14][0]], "inuse_space")
    return kinds, samples


@case("pprof: inuse sums up to top at the moment, alloc to stats, and the stacks are those of folded")
def pprof():
    for path in sources.whole() + sources.broken():
        for moment in moments(path):
            kinds, samples = read_pprof(path, "--at=" + moment)
            equal(kinds, [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")])
            got = add_up((labels["device"], values[3]) for _, labels, values in samples)
            want = {"GPU %s" % ("unknown" if d is None else d): v for d, v in top(path, moment).items()}
            equal(not_empty(got), not_empty(want), "%s %s" % (path, moment))
            counts = add_up((labels["device"], values[2]) for _, labels, values in samples)
            want = {"GPU %s" % ("unknown" if d["ordinal"] is None else d["ordinal"]): sum(s["count"] for s in d["sites"])
                    for d in said("top", "--at=" + moment, path)["devices"] or []}
            equal(not_empty(counts), not_empty(want), "%s %s" % (path, moment))
            folded_depths = collections.Counter()
            for _, count, frames in fold(export(path, "folded", "--at=" + moment).decode()):
                folded_depths[len(frames)] += count
            depths = collections.Counter()
            for frames, _, values in samples:
                depths[len(frames)] += values[3]
            equal(not_empty(depths), not_empty(folded_depths))
        for device in said("stats", path)["devices"] or []:
            mine = [v for _, labels, v in samples if labels["device"] == "GPU %s" % device["ordinal"]]
            if not device["blocks"]["allocated"]["count"]:
                equal((sum(v[1] for v in mine), sum(v[0] for v in mine)),
                      (device["allocations"]["allocated"]["bytes"], device["allocations"]["allocated"]["count"]), path)


@case("pprof: its time is the time of day of the first event, it lasts to the last one, and each sample has its kind")
def pprof_frame():
    known, kinds = 0, set()
    for path in sources.whole():
        profile, of = protobuf.fields(gzip.decompress(export(path, "pprof", "--at=end"))), said("summary", path)
        first, last = of["trace"]["t_first_ns"] or 0, of["trace"]["t_last_ns"] or 0
        equal(profile.get(10, [0]), [last - first], path)
        equal(9 in profile, of["start_utc_ns"] is not None, path)
        if 9 in profile:
            known += 1
            equal(profile[9], [of["start_utc_ns"] - of["start_ns"] + first], path)
        got = add_up(((labels["device"], labels["kind"]), values[3]) for _, labels, values in read_pprof(path, "--at=end")[1])
        want = add_up((("GPU %s" % ("unknown" if d["ordinal"] is None else d["ordinal"]), s["kind"]), s["bytes"])
                      for d in said("top", "--at=end", path)["devices"] or [] for s in d["sites"])
        equal(not_empty(got), not_empty(want), path)
        kinds |= {kind for _, kind in want}
    check(known and len(kinds) > 2, (known, kinds))


def samples_of(text):
    """Of OpenMetrics: (name, labels) -> value; the lines are checked against the grammar."""
    out, family, done = {}, None, set()
    lines = text.split("\n")
    equal(lines[-2:], ["# EOF", ""])
    for line in lines[:-2]:
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            check(word in ("TYPE", "UNIT", "HELP"), line)
            if word == "TYPE":
                check(name not in done, "a family is there once")
                family, kind = name, rest
                done.add(name)
            equal(name, family)
            continue
        name, value = re.fullmatch(r'(\w+(?:\{\w+="(?:[^"\\\n]|\\["\\n])*"(?:,\w+="(?:[^"\\\n]|\\["\\n])*")*\})?) ([0-9.]+)( [0-9.]+)?', line).groups()[:2]
        suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
        check(name.split("{")[0] == family + suffix, line)
        check(name not in out, name)
        out[name] = float(value)
    return out


@case("openmetrics: well-formed, with the figures of summary, and no label but devices, operations and outcomes")
def openmetrics():
    for path in sources.whole() + sources.broken():
        got = samples_of(export(path, "openmetrics").decode())
        for d in said("summary", path)["devices"] or []:
            label = '{device="%s"}' % ("unknown" if d["ordinal"] is None else d["ordinal"])
            equal(got["cutrace_process_live_bytes" + label], d["live_bytes"], path)
            equal(got["cutrace_process_live_peak_bytes" + label], d["peak_bytes"], path)
        equal(sum(v for k, v in got.items() if k.startswith("cutrace_events_total")), len(read_csv(path, "events")), path)
        equal(sum(v for k, v in got.items() if k.startswith("cutrace_failed_requests")), len(read_csv(path, "failed")), path)
        for name in got:
            check(re.fullmatch(r'\w+|\w+\{(device|op|outcome)="[\w-]+"\}|cutrace_device_info\{device="\d+",name="[^\n]*"\}', name), name)


@case("openmetrics: the samples are of the end of the run or of --to, it began when it began; outcomes, lost events and calls are those of summary")
def openmetrics_times():
    outcomes, lost, known = collections.Counter(), 0, 0
    for path in sources.whole() + sources.broken():
        of = said("summary", path)
        text, trace = export(path, "openmetrics").decode(), of["trace"]
        got, times = samples_of(text), set(re.findall(r"^\w[^\n]* (?:[\d.]+) ([\d.]+)$", text, re.M))
        lost += got["cutrace_lost_events_total"]
        if not trace["missing_chunks"] and not trace["damaged_places"]:
            equal(got["cutrace_lost_events_total"], trace["lost_events"], path)
        counts = of["incident_counts"] or {}
        for outcome, number in (("failed", counts.get("failed", 0) - counts.get("recovered_later", 0)), ("recovered_later", counts.get("recovered_later", 0)),
                                ("retried", counts.get("retried", 0))):
            equal(got['cutrace_failed_requests_total{outcome="%s"}' % outcome], number, (path, outcome))
            outcomes[outcome] += number
        last = trace["t_last_ns"] or of["start_ns"]  # (without an event, of its start)
        if of["start_utc_ns"] is None:
            equal(times, set(), path)
            continue
        known += 1
        utc = of["start_utc_ns"] - of["start_ns"]
        equal(times, {"%d.%03d" % divmod((last + utc) // 10**6, 1000)}, path)
        equal(round(got["cutrace_start_time_seconds"] * 1000), round(of["start_utc_ns"] / 10**6), path)
        first = trace["t_first_ns"]
        if first and last > first + 10**9:
            to = (first - of["start_ns"]) // 10**6 + 500
            part = re.findall(r"^\w[^\n]* (?:[\d.]+) ([\d.]+)$", export(path, "openmetrics", f"--to={to}ms").decode(), re.M)
            equal(set(part), {"%d.%03d" % divmod((of["start_ns"] + utc) // 10**6 + to, 1000)}, path)
    check(known and lost and outcomes["failed"] and outcomes["recovered_later"] + outcomes["retried"], (known, lost, outcomes))


@case("the release of the driver is in summary, in the tables, on the metric of the device and in profiles; unknown, it is nowhere")
def driver_release():
    whole = whole_trace.Whole(sources.whole()[0])
    for release in (None, "580.159.04"):
        whole.info.pop("nvidia.driver_version", None)
        if release:
            whole.info["nvidia.driver_version"] = release
        path = scratch(f"release-{release}.zst", b"".join(whole_trace.write(whole)))
        (metric,) = (name for name in samples_of(export(path, "openmetrics").decode()) if name.startswith("cutrace_device_info"))
        equal(re.findall('driver="([^"]*)"', metric), [release] if release else [])
        equal([r["value"] for r in read_csv(path, "info") if r["key"] == "nvidia.driver_version"], [release] if release else [])
        equal(said("summary", path)["driver_version"], release)
        equal(driver_of_profiles(path), [f"NVIDIA driver {release}"] * 2 + [release] if release else [])


def driver_of_profiles(path):
    """What pprof's comments, the labels of Perfetto's process and PyTorch's settings say of a driver."""
    profile = protobuf.fields(gzip.decompress(export(path, "pprof")))
    comments = [profile[6][c].decode() for c in profile[13]]
    processes = [protobuf.fields(track[3][0]) for track in perfetto(path).tracks.values() if 3 in track]
    settings = pickle.loads(export(path, "torch"))["allocator_settings"]["cutrace"]
    return [c for c in comments if "driver" in c] + [label.decode() for p in processes for label in p.get(8, [])] + \
        [settings[key] for key in ("nvidia_driver",) if key in settings]


@case("failed requests, devices and memory agree with summary and oom")
def others():
    for path in sources.whole():
        summary = said("summary", path)
        failed = read_csv(path, "failed")
        equal(len(failed), len(said("oom", path)["incidents"]), path)
        equal([r["event"] for r in failed if r["crossed"] == "1"], [summary["crossing"]["event"]] if summary["crossing"] else [], path)
        devices = {r["device"]: r for r in read_csv(path, "devices")}
        last = {int(r["device"]): r for r in read_csv(path, "memory")}
        for d in summary["devices"]:
            mine = devices[d["ordinal"]]
            equal((mine["peak_bytes"], mine["live_bytes"]), (d["peak_bytes"], d["live_bytes"]), path)
            equal(int(last[d["ordinal"]]["live_bytes"]), d["live_bytes"], path)


@case("names of a stranger stay in their field, and no control character is in a file")
def names():
    path = sources.hostile()
    rows = read_csv(path, "allocations")
    equal(len(rows), len(sources.NASTY))
    for form in ["folded", "speedscope", "openmetrics", *[f"{f}:{t}" for f in ("csv", "ndjson") for t in TABLES]]:
        data = export(path, form)
        data.decode("utf-8")
        bad = [b for b in data if (b < 32 and b != 10) or b == 127]
        check(not bad, "%s: %s" % (form, bad[:5]))
        check("\u202e" not in data.decode() and "\\u202e" not in data.decode(), form)
        check(max(map(len, data.split(b"\n"))) < 60000 or form == "speedscope", form)
    for table in TABLES:
        for row in csv.reader(io.StringIO(export(path, "csv:" + table).decode(), newline="")):
            for field in row:
                check(field[:1] not in ("=", "+", "@"), field)
    for line in export(path, "folded", "--at=end").decode().split("\n")[:-1]:
        check(line.count(";") <= 2, line)  # the device and two frames, of which one may be hidden


@case("a range and a device restrict the rows; the moment is chosen by --at")
def ranges():
    path = sources.golden("refused")
    model = lifetimes_of(path)
    cut = model.rows[60]["t_ns"]
    start = 50 * 10**9
    text = "%.9f" % ((cut - start) / 1e9)
    got = read_csv(path, "allocations", "--to=" + text)
    equal(len(got), len([r for r in model.rows if r["t_ns"] <= cut]))
    equal(sum(c for _, c, _ in fold(export(path, "folded", "--at=" + text).decode())),
          sum(r["bytes"] for r in model.rows if r["t_ns"] <= cut))
    equal(report("export", "--format=csv", "--device=7", "-o", "-", path)[:2], (2, b""))
    equal(report("export", "--format=csv", "-o", "-", path)[1].decode(), export(path, "csv:allocations").decode())


@case("a format refuses the options that it has no use for, and a wrong name lists the right ones")
def refusals():
    path = sources.golden("refused")
    for options, word in [(["--format=folded:events"], b"expected no table, which csv and ndjson have"),
                          (["--format=csv", "--top=7"], b"--format=csv has no use"),
                          (["--format=torch", "--at=end"], b"--format=torch has no use"),
                          (["--format=speedscope", "--at=end"], b"--format=speedscope has no use"),
                          (["--format=nonsense"], b"torch|folded|speedscope|csv|ndjson|sqlite|pprof|openmetrics|perfetto"),
                          (["--format=csv:x"], b"allocations|events|memory|sites|failed|stacks|devices|info")]:
        code, _, error = report("export", *options, "-o", scratch("none"), path)
        equal(code, 2, options)
        check(word in error, error)
        check(not os.path.exists(scratch("none")))


FORMATS = ("folded", "speedscope", "csv", "ndjson", "perfetto", "sqlite", "pprof", "openmetrics")


@case("a file is replaced only with --force, is private, and appears only when it is complete")
def files():
    path = sources.pools(1)
    for form in FORMATS:
        out = scratch("mine." + form)
        equal(report("export", "--format=" + form, "-o", out, path)[0], 0)
        equal(os.stat(out).st_mode & 0o777, 0o600, form)
        with open(out, "rb") as f:
            before = f.read()
        code, _, error = report("export", "--format=" + form, "-o", out, path)
        equal(code, 2)
        check(b"exists already; --force" in error, error)
        done = subprocess.run([REPORT, "export", "--format=" + form, "--force", "-o", out, path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=PLAIN, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
        equal((done.returncode, b"cannot be written" in done.stderr), (5, True), form + done.stderr.decode())
        with open(out, "rb") as f:
            equal(f.read(), before, form)
    equal([n for n in os.listdir(scratch()) if ".part" in n], [])


@case("a full device ends with exit code 5 and one line")
def full():
    path = sources.pools(1)
    for form in FORMATS:
        code, _, error = report("export", "--format=" + form, "--force", "-o", "/dev/full", path)
        equal((code, error.count(b"\n")), (5, 1), "%s %s" % (form, error))
        check((b"needs a regular file" if form == "sqlite" else b"No space left") in error, error)


@case("EXPORT.md has each format, each table with its columns, each view and each metric; help lists formats and tables")
def documents():
    folder = os.path.join(ROOT, "tools/report/export")
    texts = {}
    for name in ("EXPORT.md", "tables.def", "formats.def", "sqlite_views.def", "openmetrics.def"):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            texts[name] = f.read()
    document = texts["EXPORT.md"]
    described, table = {}, None
    for line in document.split("\n"):
        if re.match(r"\*\*\w+\*\*: ", line):
            table = line.split("*")[2]
        row = re.match(r"\| `(\w+)` \| (number|address|text|flag) \| (.*) \|", line)
        if row:
            described.setdefault(table, []).append((row.group(1), row.group(2).upper(), row.group(3)))
    want = {}
    for table, column, kind, text in re.findall(r'CT_EXPORT_COLUMN\((\w+), (\w+), ([A-Z]+), "(.*)"\)', texts["tables.def"]):
        want.setdefault(table, []).append((column, kind, text))
    equal(described, want)
    equal(list(want), TABLES)
    formats = re.findall(r'CT_EXPORT_FORMAT\((\w+), "([^"]*)", [A-Z]', texts["formats.def"])
    helped = report("help", "export")[1].decode()
    for name, ending in formats:
        check("`%s`" % name in document and "`%s`" % ending in document and re.search(r"^  %s +\w" % name, helped, re.M), name)
    for table in TABLES:
        check(re.search(r"^  %s +\w" % table, helped, re.M), table)
    for view in re.findall(r'CT_SQL_VIEW\((\w+), "', texts["sqlite_views.def"]):
        check("SELECT * FROM %s`" % view in document, view)
    for name, unit in re.findall(r'CT_METRIC\(\w+, "(\w+)", "(\w*)"', texts["openmetrics.def"]):
        check("`%s%s" % (name, "_" * bool(unit) + unit) in document, name)


@case("the same trace gives the same bytes")
def stable():
    path = sources.pools(2)
    for form in FORMATS:
        equal(export.__wrapped__(path, form), export.__wrapped__(path, form), form)


main()
