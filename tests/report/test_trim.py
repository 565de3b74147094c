#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""copy: a copy of a range of time has the same events, and begins with the state that a second implementation finds.

The second implementation is lib/whole_trace.py, which reads by FORMAT.md, with the state of lib/make_checkpoint.py.
"""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import make_checkpoint  # noqa: E402
import read_trace  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import ROOT, case, check, dumped as events, equal, main, read_view, report, sample, scratch  # noqa: E402
from whole_trace import Whole  # noqa: E402

GOLDEN = os.path.join(ROOT, "tests/report/golden/traces")
VLLM = os.path.join(ROOT, "tests/report/vllm")
# (sleep-1 maps and unmaps memory, speculative has frees that stay, leak grows)
REAL = [os.path.join(VLLM, name, "trace.zst") for name in ("sleep-1", "profile-run", "graphs-uncounted")]
SOURCES = sorted(glob.glob(os.path.join(GOLDEN, "*.zst"))) + REAL


def start(path):
    return json.loads(report("info", "--json", path)[1])["start_ns"]


def trim(path, name, *args):
    """The copy of a range, and what the command says of it."""
    to = scratch(name)
    code, out, err = report("copy", path, "--force", "-o", to, "--json", *args)
    equal(code, 0, err.decode())
    return to, json.loads(out)["traces"][0]


def since(path, t_ns):
    return f"{(t_ns - start(path)) // 10**9}.{(t_ns - start(path)) % 10**9:09}"


class Copy(Whole):
    """A trace that may begin late, with its checkpoint in `objects` and the numbers of its first events."""

    def __init__(self, path):  # pylint: disable=super-init-not-called
        with open(path, "rb") as f:
            found = read_trace.chunks(f.read())
        self.info, self.records, self.stacks, self.objects = {}, [], [], []
        self.heads = [head for head, _ in found]
        for head, raw in found:
            if head["dict_seq"] == head["seq"]:
                self.tables = {k: {} for k in [*range(2, 7), "nodes"]}
            self.read_chunk(read_trace.Cursor(raw), head["version"])
            self.read_objects(read_trace.Cursor(raw))
        numbers = {}
        for r in self.records + self.objects:
            if "stack" in r:
                r["stack"] = self.stack_number(*r["stack"], numbers)
            r.pop("span_ns", None)

    def read_objects(self, body):
        while body.more():
            kind = body.varint()
            section = read_trace.Cursor(body.take(body.u32()))
            if kind != 8:
                continue
            section.varint()
            for r in read_trace.events_of(section):
                for field, table in (("api", 2), ("thread", 6)):
                    if field in r:
                        r[field] = self.tables[table].get(r[field])
                if "stack" in r:
                    r["stack"] = self.tables, r["stack"]
                self.objects.append(r)


def amended(whole):
    """The records without the amends, which are applied: what the copy has."""
    by = {}
    for r in whole.records:
        if r["op"] == "amend":
            by.setdefault((r["thread"], r["amends_ns"]), []).append(r)
    found = []
    for r in whole.records:
        if r["op"] == "amend":
            continue
        r = dict(r)
        for a in by.get((r.get("thread"), r["t_ns"]), []):
            r.update({k: a[k] for k in ("result", "duration_ns", "stack") if k in a})
        found.append(r)
    return found


def readable(r, stacks, but=()):
    return {k: stacks[v] if k == "stack" else v for k, v in r.items() if k not in but}


@case("a copy of everything has every event and every fact, for a reader that shares nothing with the writer")
def whole():
    problems = []
    for path in sample(SOURCES[:-len(REAL)], 6) + sample(REAL, 1):
        copy, _ = trim(path, "all.zst", "--from=0s")
        check(events(path) or path.endswith("empty.zst"), path)
        if events(copy) != events(path):
            problems.append(f"{path}: other events")
        try:
            source = Whole(path)
        except ValueError:
            continue  # (it lacks chunks)
        again = Copy(copy)
        if source.info != again.info:
            problems.append(f"{path}: other facts")
        if [readable(r, source.stacks) for r in amended(source)] != [readable(r, again.stacks) for r in again.records]:
            problems.append(f"{path}: other records")
    return problems


def said(view, path, of, without=()):
    """What a view says, as JSON, without what a copy has of its own: its name, its chunks, the order of its dictionaries."""
    code, out, _ = report(view, "--json", path)
    document = json.loads(out.replace(path.encode(), of.encode()))
    for part in (document, document.get("trace", {})):
        for key in ("chunks", "first_chunk", "last_chunk", "format_version", "damaged_places", "first_damage_offset", "damage",
                    "missing_chunks", *without):  # (a damaged one is missing in the copy)
            part.pop(key, None)
        if part.get("incomplete"):  # (missing in both, of the copy because it was missing before)
            part["incomplete"].pop("reason")
    document.get("info", {}).pop("trim.end_missing", None)
    if "modules" in document:
        document["modules"].sort(key=json.dumps)
    return code, document


@case("a copy of everything says the same in every view: of rings, of killed processes, of every version of the format")
def same():
    path, problems = scratch("same.zst"), []
    for source in sample(SOURCES, 8) + [os.path.join(GOLDEN, n + ".zst") for n in ("ringed", "killed-2")]:
        equal(report("copy", source, "--force", "-o", path)[0], 0)
        equal(events(path), events(source), source)
        for view in ("summary", "oom", "top", "leaks", "stats", "timeline", "frag", "phases", "fit", "info"):
            if said(view, path, source) != said(view, source, source):
                problems.append(f"{source}: {view}")
    return problems


@case("what a damaged trace lacks is lost in the copy, too, and what a ring overwrote is overwritten")
def lacking():
    path, source, problems = scratch("same.zst"), scratch("lacking.zst"), []
    for name in REAL[:2] + [os.path.join(GOLDEN, "ringed.zst")]:
        with open(name, "rb") as f:
            data = f.read()
        cuts = [i for i in range(8, len(data)) if data[i + 8:i + 16] == b"CUTRCHNK"]
        # (Of a ring each chunk, also the one before a generation.)
        hurt = cuts if name.endswith("ringed.zst") else cuts[:1]
        edges = [f"a damaged chunk at {at}" for at in hurt[1:]]  # of what it retained, the copy has what is left
        for what, bytes_ in (("no first chunk", data[cuts[0]:]), ("no second chunk", data[:cuts[0]] + data[cuts[1]:]),
                             *((f"a damaged chunk at {at}", data[:at + 140] + b"\xee" + data[at + 141:]) for at in hurt)):
            scratch("lacking.zst", bytes_)
            equal(report("copy", source, "--force", "-o", path)[0], 0)
            equal(events(path), events(source), what)
            problems += [f"{name}, {what}: {view}" for view in ("summary", "top", "timeline", "frag")
                         if said(view, path, source, ["retained"] * (what in edges)) !=
                         said(view, source, source, ["retained"] * (what in edges))]
            a, b = (json.loads(report("info", "--json", p)[1]) for p in (path, source))
            equal(a["coverage"], b["coverage"], what)
            equal(*([d["integrity"][k] for k in ("missing_events", "lost_events")] for d in (a, b)), what)
    return problems


@case("a copy ends when its trace does, exactly: the time of the last event may be rounded")
def exact_end():
    t = Trace()
    t.event("alloc", 1000, ptr=1 << 30, bytes=4096, device=0, result=0, space="device")
    t.event("free", 2000, ptr=1 << 30)
    t.flush(last=True, times=(1000, 2057))
    source, path = scratch("exact.zst", t.bytes()), scratch("exact-copy.zst")
    equal(report("copy", source, "--force", "-o", path)[0], 0)
    equal([json.loads(report("info", "--json", p)[1])["t_last_ns"] for p in (source, path)], [2057] * 2)


def crossing_of(path):
    """Number and time of the event."""
    crossing = read_view("summary", path)["crossing"]
    return crossing["event"], crossing["t_ns"]


@case("a range, names and source lines go together in one pass, into a file and into a zip file")
def together():
    path = REAL[1]
    whole_copy = scratch("whole.zst")
    equal(report("copy", path, "--scrub=strict:x", "-o", whole_copy)[0], 0)
    _, apart = trim(whole_copy, "apart.zst", "--from=oom-100ms", "--to=oom+100ms")
    how = ("--from=oom-100ms", "--to=oom+100ms", "--scrub=strict:x", "--symbolize", "--sysroot=/nowhere", "--force", "--json")
    for name, inside in (("part.zst", ""), ("part.zip", "/trace-1.zst")):
        part = scratch(name)
        code, out, err = report("copy", path, *how, "-o", part)
        equal((code, err), (0, b""))
        d = json.loads(out)
        equal((d["scrub"], d["output"], d["bytes"]), ("strict", part, os.path.getsize(part)))
        one, = d["traces"]
        check(one["events_before"] > 0 and one["frames"] > one["frames_with_lines"] == 0, one)
        equal(sum(m["frames"] for m in one["modules_without_lines"]), one["frames"])
        check(sum(r["names"] for r in d["replaced"]) > 0, d)
        equal([one[k] for k in ("trace", "events", "events_before", "events_after")],
              [path] + [apart[k] for k in ("events", "events_before", "events_after")])
        equal(events(part + inside), events(scratch("apart.zst")), name)
        equal(crossing_of(part + inside), crossing_of(path), name)
        check(all(abs(e["t_ns"] - crossing_of(path)[1]) <= 10**8 for e in events(part + inside)), name)


def normal(record, stacks):
    """An object as it can be compared: what has no value of its own is left out."""
    return sorted((k, str(v)) for k, v in readable(record, stacks).items() if v or k not in ("flags", "t_ns"))


@case("a trimmed trace begins with the state that the second implementation finds, object by object")
def state():
    problems = []
    for path in sample(REAL, 2):
        source = Whole(path)
        records = [r for r in source.records if r["op"] != "amend"]
        for part in (0.35, 0.8):
            edge = int(len(records) * part)
            while records[edge]["t_ns"] == records[edge - 1]["t_ns"]:
                edge += 1
            copy, _ = trim(path, "late.zst", "--from=" + since(path, records[edge]["t_ns"]))
            s = make_checkpoint.State()
            for r in amended(source)[:edge]:
                s.apply(r)
            want = [normal(r, source.stacks) for r in s.checkpoint()]
            late = Copy(copy)
            got = [normal(r, late.stacks) for r in late.objects]
            only = [x for x in want if x not in got], [x for x in got if x not in want]
            if any(only):
                problems.append(f"{path} from {edge}: {len(only[0])} objects missing, {len(only[1])} more: "
                                f"{only[0][:2]} / {only[1][:2]}")
            equal(late.heads[0]["first_event"], edge)
    return problems


@case("the state at later moments is that of the whole trace, to the byte: to trim twice is to trim once")
def twice():
    problems = []
    for path in sample(REAL, 1) + [os.path.join(GOLDEN, n + ".zst") for n in ("blocks", "mixed", "pools", "ringed", "killed")]:
        all_events = events(path)
        first, second = (all_events[len(all_events) * k // 4]["t_ns"] for k in (1, 3))
        once, _ = trim(path, "once.zst", "--from=" + since(path, second))
        part, _ = trim(path, "part.zst", "--from=" + since(path, first))
        again, _ = trim(part, "again.zst", "--from=" + since(path, second))
        with open(once, "rb") as a, open(again, "rb") as b:
            if a.read() != b.read():
                problems.append(f"{path}: another state at {second}")
    return problems


def live(path, moment):
    """What is live by call site, as `top` sees it."""
    code, out, err = report("top", "--json", "--all-frames", "-n", 100000, "--at=" + moment, path)
    check(code in (0, 4), err.decode())
    return [(d["ordinal"], sorted((s["site"], s["live_bytes"], s["live_count"]) for s in d["sites"] if s["live_bytes"]))
            for d in json.loads(out)["devices"]]


@case("what is live by call site at each kept moment is the same")
def views():
    problems = []
    for path in (os.path.join(GOLDEN, n + ".zst") for n in ("mixed", "recovered", "elsewhere")):
        all_events = events(path)
        begin = all_events[len(all_events) // 2]["t_ns"]
        part, _ = trim(path, "views.zst", "--from=" + since(path, begin))
        for e in all_events:
            moment = since(path, e["t_ns"])
            if e["t_ns"] >= begin and live(path, moment) != live(part, moment):
                problems.append(f"{path} at {moment}: {live(path, moment)} / {live(part, moment)}")
    return problems


@case("memory without a stack keeps the name of the thread that allocated it")
def thread_names():
    path = os.path.join(GOLDEN, "python.zst")
    moment = since(path, events(path)[8]["t_ns"])
    part, _ = trim(path, "threads.zst", "--from=" + moment)
    check(("thread pt_nccl_watchdg (no stack)", 512 << 20, 1) in live(part, moment)[0][1], live(part, moment))


@case("a range has the events of the range; what was cut is counted, and every view says it first")
def stated():
    path = os.path.join(GOLDEN, "mixed.zst")
    everything = events(path)
    first, last = everything[len(everything) // 3]["t_ns"], everything[len(everything) * 2 // 3]["t_ns"]
    part, said = trim(path, "range.zst", "--from=" + since(path, first), "--to=" + since(path, last))
    kept = [e for e in everything if first <= e["t_ns"] <= last]
    equal(events(part), kept)
    before, after = sum(e["t_ns"] < first for e in everything), sum(e["t_ns"] > last for e in everything)
    equal((said["events"], said["events_before"], said["events_after"]), (len(kept), before, after))
    problems = []
    for view in ("summary", "oom", "top", "leaks", "stats", "timeline", "frag", "phases", "explain", "dump", "info"):
        code, out, _ = report(view, part)
        text = out.decode()
        equal(code, 4, view)
        if "INCOMPLETE" not in text.splitlines()[0] or f"PART of a trace: {before} of its events before" not in text:
            problems.append(f"{view}: {text[:300]}")
    trace = json.loads(report("top", "--json", part)[1])["trace"]
    equal((trace["trimmed"], trace["incomplete"]["reason"], trace["overwritten_events"]),
          ({"events_before": before, "events_after": after}, "trimmed", before))
    return problems


@case("without its end nothing is claimed beyond it; a part up to the end ends as the whole")
def ends():
    path = os.path.join(GOLDEN, "mixed.zst")
    everything = events(path)
    part, _ = trim(path, "end.zst", "--from=" + since(path, everything[3]["t_ns"]))
    code, out, _ = report("summary", part)
    equal(code, 0)
    check(b"INCOMPLETE" not in out and b"PART of a trace" in out, out)
    killed, _ = trim(os.path.join(GOLDEN, "killed.zst"), "killed.zst", "--from=0s")
    reason = json.loads(report("info", "--json", killed)[1])["incomplete"]
    want = json.loads(report("info", "--json", os.path.join(GOLDEN, "killed.zst"))[1])["incomplete"]
    equal(reason and reason["reason"], want and "was_missing")


main()
