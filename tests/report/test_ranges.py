#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranges of a program as phases (PHASES.md): traces that are written here say which range each allocation is in."""
import csv
import io
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "exports"))
import traces as made_traces  # noqa: E402
from mktrace import Trace  # noqa: E402
from perfetto_reader import perfetto  # noqa: E402
from sources import export  # noqa: E402
from tap import case, check, equal, main, report  # noqa: E402

SECOND, MEBI = 10**9, 1 << 20
VLLM = (("execute_model", "/x/vllm/v1/worker/gpu_worker.py", 10),)
OTHER = (("step", "/x/train.py", 5),)


class Made:
    def __init__(self, heard=20):
        self.trace, self.at, self.events = Trace(), 60 * SECOND, []
        made_traces.begin(self.trace)
        if heard:
            self.trace.info.update({"annotations.calls": str(heard), "annotations.early": "0"})
        self.address = 0x7F0000000000

    def say(self, op, name=None, tid=100, domain=None, **fields):
        self.at += SECOND
        if domain:
            fields["domain"] = self.trace.string(domain)
        return self.trace.event(op, self.at, tid=tid, api="nvtxRangePushA", text=name, **fields)

    def alloc(self, mebi, tid=100, stack=None, result=0):
        self.at += SECOND
        self.address += 1 << 30
        return self.trace.event("alloc", self.at, tid=tid, api="cuMemAlloc_v2", ptr=self.address, bytes=mebi * MEBI, space="device",
                                device=0, context=1, result=result, stack=stack)

    def write(self):
        return self.trace.save(os.path.join(tempfile.mkdtemp(), "made.zst"))


def phases(path):
    return json.loads(report("phases", path, "--json")[1])


def taken(path):
    """(range or key of the phase, MiB taken) of each stretch."""
    return [((p["phase"] or {}).get("range") or (p["phase"] or {}).get("key"), p["taken_bytes"] // MEBI) for p in phases(path)["phases"]]


@case("a range without frames of a phase is the phase; the outermost one counts; behind it none is known")
def plain():
    m = Made()
    m.say("range-push", "load")
    m.say("range-push", "layer 1")
    m.alloc(1)
    m.say("range-pop")
    m.alloc(2)
    m.say("range-pop")
    m.alloc(4)
    m.say("range-push", "train")
    m.alloc(8, stack=OTHER)
    m.say("range-pop")
    path = m.write()
    equal(taken(path), [("load", 3), (None, 4), ("train", 8), (None, 0)])
    check(phases(path)["by_frames"])
    out = report("phases", path)[1].decode()
    check('range "load"' in out and "the ranges of the program" in out, out)


@case("frames that name a phase keep it; the range is beside it")
def beside():
    m = Made()
    m.say("range-push", "request 7")
    m.alloc(1, stack=VLLM)
    m.alloc(100000, stack=VLLM, result=2)
    m.say("range-pop")
    path = m.write()
    equal([t for t in taken(path) if t[1]], [("serve", 1)])
    (oom,) = json.loads(report("oom", path, "--json")[1])["ooms"]
    equal((oom["phase"]["key"], oom["phase"]["range"]), ("serve", "request 7"))
    for view in ("summary", "oom"):
        out = report(view, path)[1].decode()
        check('vLLM serving, in range "request 7"' in out, out)


@case("an OOM in a range says so")
def failure():
    m = Made()
    m.say("range-push", "evil\x1b[31m\"name")
    m.alloc(1)
    m.alloc(100000, result=2)
    path = m.write()
    (oom,) = json.loads(report("oom", path, "--json")[1])["ooms"]
    equal((oom["phase"]["key"], oom["phase"]["range"], oom["phase"]["inferred"]), ("range", "evil\x1b[31m\"name", False))
    out = report("oom", path)[1]
    check(b"during" in out and b"\x1b[31m" not in out and b"range \"evil" in out, out)


@case("ranges of other threads, of libraries and of PyTorch's operators are no phases; those of the process are")
def noise():
    m = Made()
    m.say("range-push", "mine")
    m.alloc(1, tid=100)
    m.say("range-pop")
    m.say("range-push", "ncclAllReduce", domain="NCCL")
    m.say("range-push", "aten::add, seq = 3")
    m.alloc(2)
    m.say("range-pop")
    m.say("range-pop", domain="NCCL")
    m.say("range-start", "save", handle=5)
    m.alloc(4, tid=200)
    m.say("range-end", tid=300, handle=5)
    m.alloc(8, tid=200)
    equal([t for t in taken(m.write()) if t[1]], [("mine", 1), (None, 2), ("save", 4), (None, 8)])


@case("a thread that is in no range is in none, while another one is")
def other_thread():
    m = Made()
    m.say("range-push", "mine", tid=100)
    m.alloc(1, tid=100, stack=OTHER)
    m.alloc(2, tid=200, stack=OTHER)
    m.say("range-push", "its own", tid=200)
    m.alloc(4, tid=200, stack=OTHER)
    m.alloc(8, tid=100, stack=OTHER)
    equal([t for t in taken(m.write()) if t[1]], [("mine", 1), (None, 2), ("its own", 4), ("mine", 8)])


@case("ranges of two domains end each for itself; an end that belongs to none is ignored")
def domains():
    m = Made()
    m.say("range-pop")
    m.say("range-push", "a", domain="one")
    m.say("range-push", "b", domain="two")
    m.alloc(1)
    m.say("range-pop", domain="one")
    m.alloc(2)
    m.say("range-pop", domain="two")
    m.alloc(4)
    equal([t for t in taken(m.write()) if t[1]], [("a", 1), ("b", 2), (None, 4)])


@case("a thousand different ranges are a bounded table, whose rows add up")
def many():
    m = Made()
    for i in range(1000):
        m.say("range-push", f"step {i}")
        m.alloc(1)
        m.say("range-pop")
    rows = taken(m.write())
    check(len(rows) <= 48 + 128 + 2, len(rows))
    equal(sum(mebi for _, mebi in rows), 1000)
    check(("(other ranges)", 1000 - sum(mebi for name, mebi in rows if name != "(other ranges)")) in rows, rows[-3:])


EVIL = "evil\x1b[31m<script>\"name"


def marked():
    m = Made()
    m.alloc(1)
    m.say("mark", "first", tid=100)
    m.say("mark", "ncclAllReduce", domain="NCCL")
    m.say("mark", EVIL, domain="training", tid=200)
    m.say("mark")
    m.alloc(2)
    return m


@case("marks: in the timeline's text and JSON, in phases, on the page without its script; those of libraries are left out")
def marks():
    path = marked().write()
    found = json.loads(report("timeline", path, "--json")[1])
    equal([(e["text"], e["domain"], e["tid"], e["count"]) for e in found["marks"]],
          [("first", None, 100, 1), (EVIL, "training", 200, 1), (None, None, 100, 1)])
    equal(found["mark_count"], 3)
    times = {e["event"]: e["t_ns"] for e in map(json.loads, report("dump", path, "--json")[1].decode().splitlines()) if e["op"] == "mark"}
    equal({e["event"]: e["t_ns"] for e in found["marks"]}, {n: t for n, t in times.items() if n in {e["event"] for e in found["marks"]}})
    for view in ("timeline", "phases"):
        out = report(view, path)[1]
        at = [out.index(b"marks of the program"), out.index(b"  first\n"), out.index(b"<script>\"name"), out.index(b"(no name)")]
        check(at == sorted(at) and b"\x1b[31m" not in out and b"ncclAllReduce" not in out, out)
    (row,) = [line for line in report("timeline", path)[1].decode().splitlines() if line.lstrip().startswith("marks |")]
    equal(row.count("M"), 3)
    equal(report("html", path, "-o", path + ".html")[0], 0)
    with open(path + ".html", encoding="utf-8") as f:
        page = f.read()
    check('<td class="mark">first</td>' in page and "&lt;script&gt;&quot;name</td>" in page.replace("&#34;", "&quot;"), "the page's table")
    check("<script>\"name" not in page and "\x1b" not in page, "the page escapes names")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    device = data["traces"][0]["devices"][0]
    events, last = [], 0
    for delta in device["event"]:
        last += delta
        events.append(last)
    equal([events[mark["at"]] for mark in device["marks"] if mark["kind"] == "mark"], [e["event"] for e in found["marks"]])


@case("5000 marks are a bounded list that counts them all, and --from and --to choose")
def many_marks():
    m = Made()
    m.alloc(1)
    for i in range(5000):
        m.at += SECOND // 100
        m.trace.event("mark", m.at, tid=100, api="nvtxMarkA", text=f"step {i}")
    m.alloc(1)
    path = m.write()
    found = json.loads(report("timeline", path, "--json")[1])
    equal((found["mark_count"], len(found["marks"]) <= 100, sum(e["count"] for e in found["marks"])), (5000, True, 5000))
    equal(found["marks"][0]["text"], "step 0")
    out = report("timeline", path)[1].decode()
    check("  step 0" in out and ", and 5" in out and "more\n" in out, out)
    late = json.loads(report("timeline", path, "--json", "--from=40", "--to=41")[1])
    check(0 < late["mark_count"] <= 101, late["mark_count"])
    check(late["marks"][0]["text"] != "step 0", late["marks"][0])


@case("exports: the columns text, domain and range of events; marks and ranges for Perfetto")
def exports():
    m = Made()
    m.say("range-push", "load", domain="d")
    m.alloc(1)
    m.say("mark", "half")
    m.say("range-pop", domain="d")
    path = m.write()
    rows = csv.DictReader(io.StringIO(export(path, "csv:events").decode(), newline=""))
    got = [(r["op"], r["text"], r["domain"], r["range"], r["phase"]) for r in rows if r["op"] in ("alloc", "mark", "range-push", "range-pop")]
    equal(got, [("range-push", "load", "d", "load", "range"), ("alloc", "", "", "load", "range"), ("mark", "half", "", "load", "range"),
                ("range-pop", "", "d", "", "")])
    written = export(path, "perfetto")
    check(all(word in written for word in (b"ranges", b"load", b"half")), written)


def perfetto_slices(path, title):
    """[track, begin, end or None, name] of the slices in the tracks of a title, by their begin."""
    drawn, slices = perfetto(path), []
    for number, track in drawn.events.items():
        open_ = []
        for t_ns, kind, name, *_ in track if drawn.tracks[number].get(2) == [title.encode()] else ():
            if kind == 1:
                open_.append([number, t_ns, None, name])
                slices.append(open_[-1])
            elif kind == 2:
                open_.pop()[2] = t_ns
    return sorted(slices, key=lambda s: s[1])


@case("Perfetto: ranges of the process are slices from start to end, which may overlap; an end that belongs to none is no end")
def started():
    m = Made()
    m.alloc(1)
    m.say("range-start", "one", handle=1, tid=100)
    m.say("range-start", "two", handle=2, tid=100)
    m.say("range-end", handle=9, tid=100)
    m.say("range-end", handle=1, tid=200)
    m.say("range-start", "three", handle=3, tid=100)
    m.say("range-end", handle=2, tid=100)
    m.say("range-start", "two", handle=2, tid=100)
    got = perfetto_slices(m.write(), "ranges of the process")
    equal([(name, end is not None) for _, _, end, name in got], [("one", True), ("two", True), ("three", False), ("two", False)])
    one, two, three, again = got
    check(one[1] < two[1] < one[2] < three[1] < two[2] < again[1], got)
    check(one[0] != two[0] and three[0] == one[0] and again[0] == two[0], "one track for those that are open at a time")


@case("Perfetto: a second start of a handle whose range is open begins no slice, and the end is that of the first")
def started_twice():
    m = Made()
    m.alloc(1)
    m.say("range-start", "one", handle=1, tid=100)
    m.say("range-start", "again", handle=1, tid=100)
    m.say("range-end", handle=1, tid=100)
    got = perfetto_slices(m.write(), "ranges of the process")
    equal([(name, end is not None) for _, _, end, name in got], [("one", True)])


@case("Perfetto: a thousand ranges of the process that never end take 64 tracks")
def started_without_end():
    m = Made()
    for i in range(1000):
        m.say("range-start", f"r{i}", handle=i)
    got = perfetto_slices(m.write(), "ranges of the process")
    equal((len(got), len({track for track, *_ in got})), (64, 64))


main()
