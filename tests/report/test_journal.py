#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The journal beside a trace: its contents are reported and sealed, whatever state its process left it in."""
import json
import mmap
import multiprocessing
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import mkjournal  # noqa: E402
import read_trace  # noqa: E402
from mkjournal import Journal, Shelf, numbers  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, PROVISIONAL, SEGMENT, Trace, entry  # noqa: E402
from tap import BUILD, FULL, REPORT, ROOT, case, check, equal, main, report, scratch  # noqa: E402

with open(os.path.join(ROOT, "include/cutrace/format/format.h"), encoding="utf-8") as head_file:
    VERSION = int(re.search(r"CT_FORMAT_VERSION (\d+)", head_file.read()).group(1))
TRACE = scratch("t.zst")
JOURNAL = TRACE + ".journal"
K = 1 << 10
ALL = FULL and "san-" not in BUILD  # a sanitizer is ten times slower


def write(trace, journal=None):
    for path, data in ((TRACE, trace), (JOURNAL, journal)):
        if os.path.exists(path):
            os.remove(path)
        if data is not None:
            with open(path, "wb") as f:
                f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def dump(*options, status=0):
    """The events by what they mean, without what only numbers them in the file."""
    code, out, err = report("dump", "--json", *options, TRACE)
    equal(code, status, err)
    return [json.loads(line) for line in out.splitlines()], err


def summary(*options):
    code, out, err = report("summary", "--json", *options, TRACE)
    return code, json.loads(out) if out.strip() else None, err


def begun():
    """A trace of a killed process: one chunk, three events."""
    t = Trace()
    t.version = VERSION
    t.info = {"process.pid": "42", "process.start_ns": "500", "device.0.total_bytes": str(1 << 30)}
    for i in range(3):
        t.event("alloc", 1000 + i, api="cuMemAlloc_v2", ptr=0x10000 + i * K, bytes=K, device=0, result=0, space="device",
                stack=[("allocate", "/opt/app", 0x1234)])
    t.flush()
    return t


left = mkjournal.example
WANT = [(0, "alloc", 1000, 0x10000, K), (1, "alloc", 1001, 0x10000 + K, K), (2, "alloc", 1002, 0x10000 + 2 * K, K),
        (3, "free", 2000, 0x10000, None), (4, "alloc", 2003, 0x90000, 5 * K), (5, "alloc", 2010, 0xA0000, 7 * K),
        (6, "alloc", 2011, 0xB0000, 9 * K), (7, "free", 2012, 0xA0000, None), (8, "alloc", 2013, None, 1 << 40)]


def brief(events):
    return [(e["event"], e["op"], e["t_ns"], int(e["ptr"], 16) if e["ptr"] else None, e["bytes"]) for e in events]


@case("the generator's offsets are the C structures'")
def layout():
    program = scratch("layout")
    source = r"""
#include <cutrace/format/journal.h>
#include <stdio.h>
int main(void) {
    printf("%zu %zu %zu %zu %zu %zu %zu %lu\n", sizeof(struct ct_journal_open), offsetof(struct ct_journal, committed),
           offsetof(struct ct_journal, wanted), offsetof(struct ct_journal, events), sizeof(struct ct_journal),
           sizeof(struct ct_event), sizeof(struct ct_journal_module), (unsigned long)ct_journal_layout());
    printf("%zu\n", offsetof(struct ct_journal, chunks_at));
}"""
    subprocess.run([os.environ.get("CC", "cc").split()[0], "-std=gnu11", "-I" + os.path.join(ROOT, "include"), "-x", "c", "-", "-o", program],
                   input=source.encode(), check=True)
    got = list(map(int, subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout.split()))
    equal(got, [mkjournal.OPEN_BYTES, mkjournal.COMMITTED, mkjournal.WANTED, mkjournal.COUNTERS, mkjournal.HEAD_BYTES,
                mkjournal.EVENT_BYTES, 24 + 8 + 64, mkjournal.layout_hash(), mkjournal.SHELF])


@case("every event of the open chunk and of the rings is there, in order, with its names, stack and thread")
def folded():
    write(begun().bytes(), left().bytes())
    events, err = dump()
    equal(err, b"")
    equal(brief(events), WANT)
    equal([e["tid"] for e in events], [100] * 3 + [4711, 100, 4711, 4712, 4711, 4712])
    equal([e["api"] for e in events[3:]], ["cuMemFree_v2", None, "cuMemAlloc_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAlloc_v2"])
    equal(events[7]["result"], 700, "an amendment in a ring")
    equal([(f["module"], f["offset"]) for f in events[5]["stack"]], [("/opt/lib.so", 0x1234), ("/opt/later.so", 0x2000)])
    code, d, err = summary()
    equal((code, err), (0, b""))
    equal((d["trace"]["complete"], d["trace"]["truncated"], d["trace"]["clean_end"], d["trace"]["events"]), (True, False, False, 9))
    equal(d["crossing"]["event"], 8)
    equal(d["crossing"]["live_bytes"], 2 * K + 5 * K + 9 * K + 7 * K)
    equal(report("info", TRACE)[0], 0)
    equal(report("--strict", TRACE)[0], 0)


def frames_of(event):
    return [(f["name"], f["file"], f["line"], f["module"], f["offset"]) for f in event["stack"] or []]


def with_stacks(*make):
    """The example, and an allocation for each stack, whose words a function of the journal makes."""
    j = left()
    r = j.ring(j.thread(4713))
    for i, words in enumerate(make):
        r.put(numbers("alloc", 3000 + i, ptr=0x100000 * (i + 1), bytes=K, device=0, result=0, space="device",
                      stack=words if isinstance(words, int) else j.stack(words(j))))
    write(begun().bytes(), j.bytes())
    code, out, err = report("dump", "--json", TRACE)
    equal((code, err), (0, b""))
    got = [json.loads(line) for line in out.splitlines()][len(WANT):]
    equal(len(got), len(make))
    equal(report("info", TRACE)[0], 0)
    equal(report("copy", "--seal", TRACE)[0], 0)
    sealed = dump()[0][len(WANT):]
    equal([e["stack"] for e in sealed], [e["stack"] for e in got], "sealed")
    return [frames_of(e) for e in got]


@case("Python frames have the names of their texts, frames are shared, and ends say why")
def python_frames():
    lib = 0x7F0000000000

    def deep(j):
        texts = [j.text("f%d" % i, "/m/%s.py" % ("x" * (i % 9))) for i in range(50)]
        return [mkjournal.python_word(texts[i % 50], i + 1) for i in range(4095)] + [mkjournal.end_word(1)]
    got = with_stacks(
        lambda j: [lib + 0x1234, j.python("Model.forward", "/m/model.py", 77), j.python("main", "/m/api.py", 0), lib + 0x1300],
        lambda j: [j.python("f\u00fc", "", 0x7FFFFFFE), mkjournal.end_word(2)],
        lambda j: [j.python("x" * 4095, "y" * 4095, 1)],
        deep, deep)
    native = [(None, None, None, "/opt/lib.so", at) for at in (0x1234, 0x1300)]
    equal(got[0], [native[0], ("Model.forward", "/m/model.py", 77, None, None), ("main", "/m/api.py", None, None, None), native[1]])
    equal(got[1][0], ("f\u00fc", None, 0x7FFFFFFE, None, None))
    equal(len(got[1]), 2)
    equal(got[2], [("x" * 4095, "y" * 4095, 1, None, None)])
    equal([f[:3] for f in got[3][:4095]], [("f%d" % (i % 50), "/m/%s.py" % ("x" * (i % 50 % 9)), i + 1) for i in range(4095)])
    equal((len(got[3]), got[4]), (4096, got[3]))


@case("words that refer to nothing, texts that are none and stacks beyond all bounds: never a crash, never a wrong name")
def impossible_words():
    nameless = [(None, None, 7, None, None)]

    def of_text(make):
        return lambda j: [mkjournal.python_word(make(j), 7)]
    got = with_stacks(
        of_text(lambda j: 0x7FFFFFFF), of_text(lambda j: 1 << 20),
        of_text(lambda j: j.stack([4096])), of_text(lambda j: j.stack([9, 0])), of_text(lambda j: j.stack([1 << 32 | 8, 0])),
        of_text(lambda j: j.stack([0xFFFFFFFF00000001, 0])), of_text(lambda j: j.stack([])),
        lambda j: [mkjournal.end_word(77)], lambda j: [mkjournal.end_word(0), mkjournal.end_word(1)],
        lambda j: [0x1234] * 4097, 0x7FFFFFFF, lambda j: [])
    equal(got[:7], [nameless] * 7)
    equal([len(s) for s in got[7:]], [1, 2, 0, 0, 0])


@case("a small journal cannot be made to hold many large texts by letting them lie upon each other")
def texts_that_overlap():
    both = 4090 << 32 | 1000  # as a hash, as a length in words and as the lengths of two names

    def words(j):
        at = j.stack([both] * 8000)
        return [mkjournal.python_word(at + 3 + i, 7) for i in range(4000)]
    frames = with_stacks(words)[0]
    check(len(frames) in (0, 4000))
    named = [f for f in frames if f[0]]
    check(all(len(f[0]) == 1000 for f in named) and len(named) < 20, "%d frames have names" % len(named))


TEXTS = ("summary", "oom", "top", "leaks", "stats", "timeline", "frag", "dump", "info")


def first_lines(*options, data=None, name=TRACE):
    """Of all views, as text. The exit code is 4 exactly if the line says INCOMPLETE."""
    found = set()
    for view in TEXTS:
        code, out, err = report(view, *options, name, data=data)
        line = out.splitlines()[0] if out else b""
        equal((code, err), (4 if line.startswith(b"INCOMPLETE: ") else 0, b""), view)
        found.add(line)
    return found


def only(found):
    (one,) = found
    return one.decode()


@case("without its journal every view of the trace begins with INCOMPLETE: since when, and what to do; exit code 4")
def without():
    t = begun()
    line = "INCOMPLETE: no clean end, and what happened after +0.000 s is unknown: "
    write(t.bytes())
    equal(only(first_lines()), f"{line}{TRACE}.journal is not here; put it beside the trace")
    write(t.bytes(), left().bytes())
    equal(only(first_lines("--no-journal")), f"{line}{TRACE}.journal was not read; omit --no-journal")
    equal(only(first_lines(data=read(TRACE), name="-")), line + "standard input has no journal; name the file")
    check(all(not x.startswith(b"INCOMPLETE") for x in first_lines()), "with its journal nothing is missing")
    t.event("note", 5000, text="end")
    t.flush(last=True)
    write(t.bytes())
    check(all(not x.startswith(b"INCOMPLETE") for x in first_lines()), "after a clean end nothing is missing")


@case("what is missing from a trace without its journal, in JSON")
def without_json():
    t = begun()
    for options, data, reason in (((), None, "journal_missing"), (("--no-journal",), left().bytes(), "journal_not_read"),
                                  ((), b"no journal", "journal_unusable"), ((), left(trace_id=7).bytes(), "journal_unusable")):
        write(t.bytes(), data)
        events, err = dump(*options, status=4)
        equal((len(events), err.count(b"\n")), (3, 1), err)
        if VERSION >= 2 and reason != "journal_unusable":  # there was no journal before
            check(re.search(rb"warning: .*t\.zst.*journal.*may be missing", err), err)
        code, d, _ = summary(*options)
        equal((code, d["trace"]["complete"], d["trace"]["truncated"]), (4, False, True))
        equal(d["trace"]["incomplete"], {"reason": reason, "known_until_ns": 1002})
    whole, j = t.bytes(), left()
    write(whole[:-40])
    t.flush()
    write(t.bytes()[:-100])
    equal(summary()[1]["trace"]["incomplete"], {"reason": "cut", "known_until_ns": 1002})
    for at_end in (False, True):
        if at_end:
            j.alive()
        write(whole, j.bytes())
        code, d, _ = summary()
        equal((code, d["trace"]["incomplete"], d["trace"]["running"]), (0, None, at_end))


@case("a trace of a killed process without any event: nothing is known, and nothing is concluded")
def nothing_is_known():
    t = Trace()
    t.version = VERSION
    t.info = {"process.pid": "42", "device.0.total_bytes": str(1 << 30)}
    t.flush()
    write(t.bytes())
    line = f"INCOMPLETE: no clean end, no event, and nothing is known of GPU memory: {TRACE}.journal is not here; put it beside the trace"
    equal(only(first_lines()), line)
    for view in ("summary", "oom", "top", "leaks", "stats", "timeline", "frag"):
        whats = [(), ("--device=0",), ("--from=0", "--to=1")]
        if view == "summary":
            whats.append(("--capacity=1GiB",))
        for more in whats:
            equal(report(view, *more, TRACE), (4, line.encode() + b"\n", b""), view)
            code, out, _ = report(view, "--json", *more, TRACE)
            d = json.loads(out)
            own = {k: v for k, v in d.items() if k not in ("schema", "file", "process", "start_ns", "trace", "budget_bytes")}
            equal((code, set(own.values()), d["trace"]["incomplete"]), (4, {None}, {"reason": "journal_missing", "known_until_ns": None}))
    want = {view: list(json.loads(report(view, "--json", TRACE)[1])) for view in ("summary", "oom", "top", "leaks", "stats", "timeline", "frag")}
    write(begun().bytes())
    equal({view: list(json.loads(report(view, "--json", TRACE)[1])) for view in want}, want, "the same keys as always")
    write(t.bytes(), left(seq=1, first_event=0).bytes())
    check(all(not x.startswith(b"INCOMPLETE") for x in first_lines()), "with its journal")


@case("that there was no OOM, and no allocation, is said of the part that is there")
def up_to_there():
    t = Trace()
    t.version = VERSION
    t.info = {"process.start_ns": "500"}
    t.event("note", 2000000500, text="begun")
    t.flush()
    for last, until in ((False, b" up to +2.000 s"), (True, b"")):
        if last:
            t.flush(last=True)
        write(t.bytes())
        for view, text in (("summary", b"No GPU memory was allocated, and no OOM occurred"), ("oom", b"No OOM occurred"),
                           ("top", b"No GPU memory was allocated"), ("leaks", b"No GPU memory was allocated"), ("frag", b"No GPU memory was allocated"),
                           ("timeline", b"No GPU memory was allocated")):
            check(text + until + b"\n" in report(view, TRACE)[1], "%s %s" % (view, last))


@case("if the trace has the open chunk already, only what is younger is taken from the rings")
def chunk_is_there():
    t = begun()
    j = left()
    write(t.bytes(), j.bytes())
    want, _ = dump()
    t.event("free", 2000, tid=4711, api="cuMemFree_v2", ptr=0x10000)
    t.event("alloc", 2003, ptr=0x90000, bytes=5 * K, device=0, result=0, space="device")
    t.flush()
    write(t.bytes(), j.bytes())
    equal(brief(dump()[0]), brief(want))
    t.flush(last=True)
    write(t.bytes(), Journal(seq=2, first_event=5, drained_ns=2003).bytes())
    code, d, err = summary()
    equal((code, d["trace"]["clean_end"], d["trace"]["events"], err), (0, True, 5, b""))


@case("a journal whose trace is missing, empty or cut inside the open chunk still tells all it has")
def trace_is_missing():
    j = left(seq=0, first_event=0)
    for data in (None, b""):
        write(data, j.bytes())
        equal(brief(dump()[0])[0][1:], WANT[3][1:])
        equal(len(dump()[0]), 6)
    t = begun()
    whole = t.bytes()
    t.event("note", 2001, text="half written")
    t.flush()
    for n in range(len(whole) + 1, len(t.bytes()) - 16, 7):
        write(t.bytes()[:n], left().bytes())
        events, err = dump()
        equal((brief(events), err), (WANT, b""), "cut at %d" % n)
        equal(summary()[1]["trace"]["complete"], True, "cut at %d" % n)


def amends(*times):
    return [numbers("amend", t, amends_ns=1000, thread=1, result=700) for t in times]


@case("the times of a sealed chunk are those of its numbered events, wherever amendments stand")
def times_of_sealed_chunks():
    free = [numbers("free", 2050, ptr=0x10000 + K, thread=1)]
    for before, after in (((), (2060,)), ((2040,), ()), ((2040,), (2060,))):
        for in_open in (True, False):
            records = amends(*before) + free + amends(*after)
            j = Journal(seq=1, first_event=3, drained_ns=2100 if in_open else 1500)
            j.open_events(records if in_open else amends(1400))
            ring = j.ring(j.thread(100))
            for r in amends(2140) if in_open else records:
                ring.put(dict(r, thread=1))
            write(begun().bytes(), j.bytes())
            equal(report("copy", "--seal", TRACE)[0], 0)
            # The second reader compares the times of each chunk with those of its events.
            heads = read_trace.Trace(TRACE).heads
            none, some = (0, 0, 0), (1, 2050, 2050)
            equal([(h["events"], h["t_first"], h["t_last"]) for h in heads[1:]], [some, none] if in_open else [none, some])
            equal(report("info", TRACE)[0], 0)


@case("an event that was being recorded when the process died is counted and told")
def torn():
    j = left()
    j.rings[1].announced = 2020
    write(begun().bytes(), j.bytes())
    equal(summary()[1]["trace"]["torn_events"], 1)
    check(b"1 event was being recorded when the process died" in report("summary", TRACE)[1])
    code, out, _ = report("info", TRACE)
    equal((code, re.findall(rb"^torn events +(\d+)$", out, re.M)), (0, [b"1"]))


@case("events that found their ring full are told as lost")
def lost():
    j = left()
    j.rings[0].lost = 77
    write(begun().bytes(), j.bytes())
    code, d, _ = summary()
    equal((d["trace"]["lost_events"], d["trace"]["complete"]), (77, False))
    checked = json.loads(report("info", "--json", TRACE)[1])["integrity"]
    equal((checked["lost_events"], checked["complete"]), (77, False))
    equal(dump()[0][-1]["op"], "lost")


@case("what was lost before is known to the journal, where no record of it is left; the seal keeps it")
def lost_before():
    t, j = begun(), left()
    j.counters, j.rings[0].lost = (0, 1000, 0, 0), 77
    j.rings[0].put({"t_ns": 2500, "op": mkjournal.OPS["lost"], "count": 5})  # told of in its ring
    write(t.bytes(), j.bytes())
    equal(summary()[1]["trace"]["lost_events"], 1082)
    equal(report("copy", "--seal", TRACE)[0], 0)
    equal(summary()[1]["trace"]["lost_events"], 1082)
    for form, line in (("openmetrics", b"cutrace_lost_events_total 1082"), ("csv:info", b"trace.lost_events,1082")):
        out = scratch("lost.out")
        equal(report("export", "--format=" + form, "--force", "-o", out, TRACE)[0], 0)
        check(line in read(out), read(out))


EACH = 40000 if ALL else 22000  # events of a ring (a chunk holds 65,536)


@case("more events than a chunk holds, in rings that are full, are merged in the order of time")
def many():
    j = Journal(seq=1, first_event=3, drained_ns=1500, ring_data=1 << 23)
    stamps = []
    for r in range(3):
        ring = j.ring(j.thread(100 + r), tail=8 * r)
        for i in range(EACH):
            t = 2000 + i * 7 + r * 3
            stamps.append(t)
            ring.put(numbers("alloc", t, ptr=t << 12, bytes=1, device=0, result=0, space="device"))
    write(begun().bytes(), j.bytes())
    events, _ = dump()
    equal([e["t_ns"] for e in events[3:]], sorted(stamps))
    equal([e["event"] for e in events], list(range(3 * EACH + 3)))
    equal(report("info", TRACE)[0], 0)
    equal(report("copy", "--seal", TRACE)[0], 0)
    # a seal that was interrupted behind the first of its chunks
    want = read(TRACE)
    write(want[:want.rindex(b"CUTRCHNK") - 8], j.bytes())
    equal(summary()[1]["trace"]["events"], 3 * EACH + 3)
    equal(report("copy", "--seal", TRACE)[0], 0)
    check(read(TRACE) == want, "the same bytes")


@case("a journal of another trace, another version or another layout is refused in one line, and the trace reported alone")
def foreign():
    other, newer, different = left(trace_id=99), left(), left()
    newer.version, different.hash = 5, 1
    for what, j, words in (("trace", other, b"another trace"), ("version", newer, b"version 5, this program reads 4"),
                           ("layout", different, b"other events")):
        write(begun().bytes(), j.bytes())
        events, err = dump(status=4)
        equal((len(events), err.count(b"\n")), (3, 1), what)
        check(b"t.zst.journal" in err and words in err, err)
        code, _, err = report("copy", "--seal", TRACE)
        equal((code, err.count(b"\n")), (3, 1), what)
        check(read(JOURNAL) == j.bytes(), what)


@case("a journal cut at every 64th byte: never a crash, never less than the trace alone")
def truncated():
    data = left(blocks=32).bytes()
    write(begun().bytes(), data)
    step = 64 if ALL else 64 * 7
    for n in range(0, len(data), step):
        scratch("t.zst.journal", data[:n])
        code, d, err = summary()
        equal(code, 4 if d["trace"]["incomplete"] else 0, "cut at %d: %r" % (n, err))
        check(3 <= d["trace"]["events"] <= 9, "cut at %d: %r" % (n, d["trace"]))
        check(err.count(b"\n") <= 1, "cut at %d: %r" % (n, err))


def survives(trace, journal, form, at, value, most=1 << 64):
    """What is reported of a trace whose journal has another value at a place: not less than the trace alone has."""
    bad = bytearray(journal)
    struct.pack_into(form, bad, at, value)
    write(trace, bytes(bad))
    code, out, err = report("info", "--json", TRACE)
    check(code in (0, 3, 4), "%d = %d: %d %r" % (at, value, code, err))
    check(3 <= json.loads(out)["events"] <= most, "%d = %d: %r" % (at, value, out))
    check(err.count(b"\n") <= 1, err)


@case("offsets, counts and chains that lie: a line or less events, never a crash, a hang or a lot of memory")
def hostile():
    good = left(blocks=32)
    data = good.bytes()
    open_at = mkjournal.OPEN + mkjournal.OPEN_BYTES  # open[1] counts
    stream = open_at + 64
    blocks_at = 2 * mkjournal.PAGE
    rings_at = struct.unpack_from("<Q", data, 80 + 56)[0]  # the last of eight places from offset 80 on
    huge = [0, 1, 0xFF, 1 << 31, (1 << 32) - 1]
    wide = huge + [(1 << 48) - 1, 1 << 48, 1 << 62, (1 << 64) - 1]
    cases = [(at, "<I", v) for at in (64, 68, 72, 76, 168, 172, 176, 180) for v in huge]
    cases += [(at, "<Q", v) for at in range(80, 168, 8) for v in wide + [rings_at]]
    cases += [(open_at + at, "<Q", v) for at in range(0, 48, 8) for v in wide]
    cases += [(open_at + at, "<I", v) for at in range(48, 64, 4) for v in huge]
    cases += [(stream + at, "<I", v) for at in range(0, STREAMS_TRIED * 12, 4) for v in huge + [2, 9, 2040, 2041]]
    cases += [(blocks_at + i * mkjournal.BLOCK + at, "<I", v) for i in range(32) for at in (0, 4) for v in huge + [2, i + 1]]
    cases += [(rings_at + at, "<Q", v) for at in (0, 8, 16, 64, 72) for v in wide + [8, 12, 1 << 13]]
    cases += [(rings_at + mkjournal.PAGE + at, "<Q", v) for at in (0, 8, mkjournal.PAGE - 24) for v in wide]
    for at, form, v in cases if ALL else cases[::5]:
        survives(begun().bytes(), data, form, at, v)


STREAMS_TRIED = 12


@case("a chain of blocks that leads back to itself ends")
def loops():
    j = left(blocks=32)
    j.streams[2] = j.streams[2] + entry(91, b"x" * 3000) + entry(92, b"y" * 3000)
    data = bytearray(j.bytes())
    for i in range(32):
        struct.pack_into("<I", data, 2 * mkjournal.PAGE + i * mkjournal.BLOCK, 1)
    for used in (2040, 0):
        for i in range(32):
            struct.pack_into("<I", data, 2 * mkjournal.PAGE + i * mkjournal.BLOCK + 4, used)
        write(begun().bytes(), bytes(data))
        events, err = dump(status=4)
        equal(len(events), 3)
        check(b"blocks is impossible" in err and err.count(b"\n") == 1, err)


@case("while the process runs it is said that it is still recording, and a seal is refused")
def running():
    j = left()
    j.alive()
    j.rings[0].announced = 2030
    write(begun().bytes(), j.bytes())
    code, d, err = summary()
    equal((code, d["trace"]["running"], d["trace"]["events"], d["trace"]["torn_events"], err), (0, True, 9, 0, b""))
    for view in ("summary", "info"):
        check(b"still recording" in report(view, TRACE)[1], view)
    before = read(TRACE)
    code, _, err = report("copy", "--seal", TRACE)
    equal((code, err.count(b"\n")), (2, 1))
    check(b"--force" in err, err)
    check(read(TRACE) == before and read(JOURNAL) == j.bytes(), "nothing has changed")
    equal(report("copy", "--seal", "--force", TRACE)[0], 0)
    equal((brief(dump()[0]), os.path.exists(JOURNAL)), (WANT, False))


@case("another process that has the pid now is not the one that recorded")
def recycled_pid():
    j = left()
    j.alive()
    j.process_start -= 1
    write(begun().bytes(), j.bytes())
    equal(summary()[1]["trace"]["running"], False)
    j.alive()
    j.boot_id = b"another boot of t"[:16]
    write(begun().bytes(), j.bytes())
    equal(summary()[1]["trace"]["running"], False)


def with_provisional(events, flags):
    """The trace of begun() and a version of the chunk that left() has as its open one."""
    t = begun()
    for i in range(events):
        t.event("alloc", 1100 + i, ptr=0x700000 + i * K, bytes=K, device=0, result=0, space="device")
    t.flush(flags=flags)
    return t.bytes()


@case("a provisional chunk counts only where the journal has not its chunk, and never twice")
def provisional():
    write(begun().bytes(), left().bytes())
    want = dump()
    for n in (1, 2):
        write(with_provisional(n, PROVISIONAL), left().bytes())
        equal(dump(), want, "%d events" % n)
        sealed_as_folded(with_provisional(n, PROVISIONAL), left().bytes())
        write(with_provisional(n, PROVISIONAL), None)
        equal(len(dump(status=4)[0]), 3 + n)
    # Of a living process, what is read later may be newer: the file.
    many = with_provisional(20, PROVISIONAL)
    j = left()
    j.alive()
    write(many, j.bytes())
    found = brief(dump()[0])
    equal(len([e for e in found if e[1] == "alloc" and e[3] and e[3] >= 0x700000]), 20)


# ---- the shelf ---------------------------------------------------------------------------------------

def chunks():
    """Four chunks of a trace, three and two events each; the journal's open chunk and rings come behind them."""
    t = begun()
    for n in range(1, 4):
        for i in range(2):
            t.event("alloc", 1100 + 10 * n + i, ptr=0x100000 * n + i * K, bytes=K, device=0, result=0, space="device",
                    stack=[("later%d" % n, "/opt/app", 0x2000 + n)])
        t.flush()
    return t.out


def behind(**more):
    return left(seq=4, first_event=9, **more)


def put(j, shelved, size=2 * mkjournal.PAGE, at=0):
    j.shelf = Shelf(size, at)
    for c in shelved:
        j.shelf.put(c)
    return j


@case("chunks of the shelf that the trace does not have are its chunks, wherever they lie in the ring")
def shelf():
    c = chunks()
    write(b"".join(c), behind().bytes())
    want = dump()
    equal((len(want[0]), want[1], summary()[1]["trace"]["complete"]), (15, b"", True))
    biggest = max(map(len, c)) + 8
    for in_file in range(5):
        for first in range(min(in_file, 3) + 1):
            for at in (0, 8, 3 * mkjournal.PAGE - len(c[first]) - 8, 2 * mkjournal.PAGE - 8, 7 * mkjournal.PAGE - 16):
                j = put(behind(), c[first:], at=at)
                equal(len(j.shelf.entries) >= 4 - first, True)
                write(b"".join(c[:in_file]) if in_file else None, j.bytes())
                equal(dump(), want, "%d chunks in the file, shelf from %d on, at %d" % (in_file, first, at))
            sealed_as_folded(b"".join(c[:in_file]), j.bytes())
    j = put(behind(), c, size=-(-biggest // 8) * 8)  # room for the last one only
    equal(len(j.shelf.entries) <= 2, True)
    write(b"".join(c[:3]), j.bytes())
    equal(dump(), want)


@case("a chunk that is on the shelf and still the open one counts once; a clean end on the shelf is one")
def shelf_and_open():
    c = chunks()
    write(b"".join(c), Journal(seq=4, dict_seq=0, first_event=9, drained_ns=1500).bytes())
    want = brief(dump()[0])
    j = put(Journal(seq=3, dict_seq=0, first_event=7, drained_ns=1500), c[1:])
    j.section(2, entry(90, b"twice"))
    write(c[0], j.bytes())
    equal(brief(dump()[0]), want)
    t = begun()
    t.event("note", 1500, text="the end")
    t.flush(last=True, version=VERSION)
    write(t.out[0], put(Journal(seq=1, first_event=3, drained_ns=1500), t.out[1:]).bytes())
    d = summary()[1]["trace"]
    equal((d["clean_end"], d["complete"], d["events"]), (True, True, 4))
    equal(report("copy", "--seal", TRACE)[0], 0)
    d = summary()[1]["trace"]
    equal((d["clean_end"], d["complete"], d["events"], read(TRACE) == t.bytes()), (True, True, 4, True))


@case("what has fallen off the shelf was overwritten: no loss, and the state behind it is exact from the next segment on")
def shelf_went_round():
    t = begun()
    for n in range(1, 7):
        checkpoint = None
        if n in (3, 5):
            t.restart()
            checkpoint = (FIRST_PART | LAST_PART, [t.record("alloc", 1000 + i, ptr=0x10000 + i * K, bytes=K, device=0, event=i,
                                                            space="device") for i in range(3)])
        t.event("alloc", 1100 + 10 * n, ptr=0x100000 * n, bytes=K, device=0, result=0, space="device")
        t.event("free", 1105 + 10 * n, ptr=0x100000 * n)
        t.flush(version=VERSION, checkpoint=checkpoint)
    c = t.out
    end = {"seq": 7, "dict_seq": 5, "first_event": 15, "drained_ns": 1500}
    for in_file, first in ((1, 3), (1, 4), (2, 5), (0, 4), (0, 5), (4, 5)):
        write(b"".join(c[:in_file]), put(Journal(**end), c[first:]).bytes())
        start = first if first in (3, 5) else 5
        numbers_ = [3, 2, 2, 2, 2, 2, 2]
        events = [e["event"] for e in dump()[0]]
        first_event = sum(numbers_[:start]) if start > in_file else 0
        equal(events, list(range(sum(numbers_[:in_file]))) + list(range(first_event, 15)), "%d, %d" % (in_file, first))
        code, out, _ = report("info", "--json", TRACE)
        found = json.loads(out)
        equal((code, found["integrity"]["ok"], found["integrity"]["missing_events"], found["missing_chunks"]), (0, True, 0, 0), out)
        equal(summary()[1]["devices"][0]["live_bytes"], 3 * K)
        sealed_as_folded(b"".join(c[:in_file]), put(Journal(**end), c[first:]).bytes())


@case("killed while the ring's older chunks made room for a restart point: what it overwrote is no loss")
def killed_in_restart():
    t = begun()
    for n in range(1, 7):
        if n == 3:
            t.restart()
        t.event("alloc", 1100 + 10 * n, ptr=0x100000 * n, bytes=K, device=0, result=0, space="device")
        t.flush(version=VERSION, checkpoint=(FIRST_PART | LAST_PART, []) if n == 3 else None)
    c, free = t.out, struct.pack("<II", 0x184D2A50, 24) + bytes(24)
    for kept in ((), (3,)):  # by a refused allocation
        for has_rest in (0, 1):
            j = left(seq=7, dict_seq=7, first_event=9)
            j.flags |= SEGMENT
            write(b"".join(c[n] for n in kept) + free + (c[6] if has_rest else b""), j.bytes())
            code, out, _ = report("info", "--json", TRACE)
            found = json.loads(out)
            equal((code, found["integrity"]["ok"], found["missing_chunks"]), (0, True, 0), out)
            equal([e["event"] for e in dump()[0] if e["event"] < 9], [5] if kept else [])
            equal([e["event"] for e in dump()[0] if e["event"] >= 9], list(range(9, 15)))
            sealed_as_folded(read(TRACE), j.bytes())


def cuts(begin, want):
    """Where the writing of a trace may have ended: at every byte, or at each 37th and in the filler before each chunk."""
    ends = {len(want)} | {m.start() - 8 for m in re.finditer(b"CUTRCHNK", want)}
    near = {n for end in ends for n in range(end - 16, end + 1)}
    return [n for n in range(begin, len(want) + 1) if ALL or n in near or (n - begin) % 37 == 0]


def turn(j, pieces):
    """Puts chunks on the shelf of the journal file for ever, as its process does."""
    with open(JOURNAL, "r+b") as f:
        m = mmap.mmap(f.fileno(), 0)
    at, size, head, tail = struct.unpack_from("<QQQQ", m, mkjournal.SHELF)
    tail_at, head_at = (mkjournal.SHELF + 24) // 8, (mkjournal.SHELF + 16) // 8
    words = memoryview(m).cast("Q")  # each is stored at once, as pack_into does not
    entries = list(j.shelf.entries)
    while True:
        for c in pieces:
            for n, data in ((size - head % size, b""), (8 + len(c), c)):
                if not data and n >= 8 + len(c):
                    continue
                while head + n - tail > size:
                    tail += entries.pop(0)[1]
                words[tail_at] = tail
                words[(at + head % size) // 8] = len(data)
                m[at + head % size + 8:at + head % size + 8 + len(data)] = data
                entries.append((head, n))
                head += n
                words[head_at] = head


@case("chunks that are overwritten while they are read do not count, all others are whole")
def shelf_alive():
    t = Trace()
    for n in range(100):
        t.restart()
        t.info = {"filler": "x" * (1000 if n % 3 else 60000)}
        for i in range(n % 7 + 1):
            t.event("alloc", 1000 + 10 * n + i, ptr=0x10000 * n + i * K, bytes=K, device=0, result=0, space="device")
        t.flush()
    j = put(Journal(seq=1 << 40, dict_seq=1 << 40, first_event=1 << 40, drained_ns=1 << 40), t.out[:3], size=64 * mkjournal.PAGE)
    j.alive()
    write(None, j.bytes())
    process = multiprocessing.Process(target=turn, args=(j, t.out))
    process.start()
    looks = chunks_ = 0
    try:
        while looks < 100:
            code, out, err = report("info", "--json", TRACE)
            if b"faster than it can be read" in err or b"empty" in err:
                continue
            check(out, "exit code %d: %s" % (code, err))
            found = json.loads(out)
            # The process here comes to the same numbers again, many times a second: a look that took so long is no look.
            if [d["what"] for d in found["integrity"]["damage"]] == ["chunk whose number occurred before"]:
                continue
            looks += 1
            equal((code, err, found["integrity"]["damage"], found["missing_chunks"], found["integrity"]["out_of_order"]), (0, b"", [], 0, 0))
            chunks_ += found["events"]
    finally:
        process.kill()
        process.join()
    check(chunks_ > 5 * looks, "%d events in %d looks" % (chunks_, looks))


@case("a shelf that lies: a line or less events, never a crash, a hang or a lot of memory")
def shelf_hostile():
    c = chunks()
    good = put(behind(blocks=32), c[1:], at=mkjournal.PAGE)
    data = good.bytes()
    at = struct.unpack_from("<Q", data, mkjournal.SHELF)[0]
    places = [at + (p % good.shelf.size) for p, _ in good.shelf.entries]
    wide = [0, 1, 7, 8, 16, 104, 112, 4095, 4096, 8192, 1 << 31, 1 << 40, 1 << 48, 1 << 62, (1 << 64) - 8, (1 << 64) - 1]
    cases = [(mkjournal.SHELF + 8 * i, v) for i in range(4) for v in wide] + [(p, v) for p in places for v in wide]
    cases += [(p + 8 + i, v) for p in places for i in range(0, 112, 8) for v in wide]
    for place, v in cases if ALL else cases[::3]:
        survives(c[0], data, "<Q", place, v, 15)
    for n in range(at, at + good.shelf.size, 64 if ALL else 640):
        write(c[0], data[:n])
        check(json.loads(report("info", "--json", TRACE)[1])["events"] >= 3)


# ---- seal -------------------------------------------------------------------------------------------

def sealed_as_folded(t, j):
    """Seals, and finds what was reported before."""
    def said():
        return dump()[0], report("summary", TRACE)[1], summary()[1]

    write(t, j)
    want = said()
    alone = report("dump", "--json", "--no-journal", TRACE)[1].count(b"\n") if os.path.exists(TRACE) else 0
    code, out, err = report("copy", "--seal", "--json", TRACE)
    equal((code, err), (0, b""), out)
    done = json.loads(out)["traces"][0]
    equal(done["events"], len(want[0]))
    check(done["added_events"] >= len(want[0]) - alone, (out, alone))  # (more: of a chunk that it replaced)
    check(not os.path.exists(JOURNAL), "the journal is gone")
    subprocess.run(["zstd", "-tq", TRACE], check=True)
    read_trace.chunks(read(TRACE))  # the second reader takes the frames of FORMAT.md in their order, and nothing else
    equal(said(), want)
    equal(report("info", TRACE)[0], 0)
    equal(dump()[1], b"")


@case("seal writes into the trace what was reported from the journal, and removes that")
def seal():
    sealed_as_folded(begun().bytes(), left().bytes())
    once = read(TRACE)
    code, out, err = report("copy", "--seal", TRACE)
    equal((code, err, read(TRACE) == once), (0, b"", True), out)
    j = left()
    j.rings[1].announced = 2020
    sealed_as_folded(begun().bytes(), j.bytes())
    equal(summary()[1]["trace"]["torn_events"], 1)
    sealed_as_folded(begun().bytes(), Journal(seq=1, first_event=3, drained_ns=1500).bytes())


@case("seal appends behind the free space of a process that was killed while its file grew")
def seal_behind_free_space():
    for frames in ((8,), (512, 512, 24)):
        free = b"".join(struct.pack("<II", 0x184D2A50, n - 8) + bytes(n - 8) for n in frames)
        sealed_as_folded(begun().bytes() + free, left().bytes())


def half_written():
    """A trace with a chunk that is still to be cut, and its bytes before that chunk."""
    t = begun()
    whole = t.bytes()
    t.event("note", 2001, text="half written")
    t.flush()
    return t, whole


@case("a chunk that was cut is replaced by the one from the journal; a trace that is missing comes to be")
def seal_of_cut():
    t, whole = half_written()
    for n in range(len(whole) - 7, len(t.bytes()) - 16, 11):
        sealed_as_folded(t.bytes()[:n], left().bytes())
        equal(brief(dump()[0]), WANT, "cut at %d" % n)
    write(None, left(seq=0, dict_seq=0, first_event=0).bytes())
    equal(report("copy", "--seal", TRACE)[0], 0)
    equal(len(dump()[0]), 6)


@case("a copy has what the journal has and leaves both as they are")
def copied():
    t, j = begun().bytes(), left().bytes()
    write(t, j)
    other = scratch("other.zst")
    equal(report("copy", "-o", other, TRACE)[0], 0)
    check(read(TRACE) == t and read(JOURNAL) == j, "nothing has changed")
    equal(report("copy", "--seal", TRACE)[0], 0)
    for view in (("dump", "--json"), ("summary",), ("timeline",)):
        equal(report(*view, other)[1].replace(other.encode(), TRACE.encode()), report(*view, TRACE)[1], view)
    os.remove(other)
    code, _, err = report("copy", "-o", scratch("no/such/folder.zst"), TRACE)
    equal((code, err.count(b"\n")), (5, 1))


@case("a seal that was interrupted at any byte is done again, to the same bytes, of the open chunk and of the shelf")
def seal_interrupted():
    lossy = left()
    lossy.rings[0].lost = 5
    for t, j, events in ((begun().bytes(), lossy, 10), (chunks()[0], put(behind(), chunks()[1:]), 15)):
        j = j.bytes()
        write(t, j)
        equal(report("copy", "--seal", TRACE)[0], 0)
        want = read(TRACE)
        for n in cuts(len(t), want):
            write(want[:n], j)
            equal(len(dump()[0]), events, "at %d" % n)
            code, _, err = report("copy", "--seal", TRACE)
            equal((code, read(TRACE) == want, os.path.exists(JOURNAL)), (0, True, False), "at %d: %r" % (n, err))
        write(want, j)
        equal(len(dump()[0]), events, "before the journal is removed")


@case("a seal that finds no room leaves trace and journal as they were")
def seal_on_full_disk():
    t, whole = half_written()
    for data in (whole, t.bytes()[:len(whole) + 50]):
        j = left().bytes()
        write(data, j)
        for room in (0, 8, 100, 300):
            done = subprocess.run(
                [sys.executable, "-c", "import os, resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
                 "os.execv(sys.argv[2], sys.argv[2:])", str(len(data) + room), REPORT, "copy", "--seal", TRACE],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            equal((done.returncode, done.stderr.count(b"\n")), (5, 1), "%d: %r" % (room, done.stderr))
            check(read(TRACE) == data and read(JOURNAL) == j, "room %d" % room)


@case("nothing to seal: a whole trace is left alone; one without a clean end and without a journal is not whole")
def seal_without():
    t = begun()
    write(t.bytes())
    code, _, err = report("copy", "--seal", TRACE)
    equal((code, err.count(b"\n")), (4, 1))
    check(b"journal" in err, err)
    t.flush(last=True)
    write(t.bytes())
    equal(report("copy", "--seal", TRACE)[0], 0)
    check(read(TRACE) == t.bytes(), "nothing has changed")
    equal(report("copy", "--seal", "-", data=t.bytes())[0], 2)


@case("seal removes the file in memory that a recorder's journal links to, and the link; no other link is followed")
def linked_journal():
    memory = "/dev/shm/cutrace-0-%d-test.journal" % os.getpid()
    to_link = "/dev/shm/cutrace-0-%d-link.journal" % os.getpid()
    elsewhere = scratch("elsewhere.journal")
    try:
        os.symlink(elsewhere, to_link)
        for target in (memory, elsewhere, "elsewhere.journal", to_link):
            trace, journal = begun().bytes(), left().bytes()
            write(trace)
            with open(memory if target == memory else elsewhere, "wb") as f:
                f.write(journal)
            os.symlink(target, JOURNAL)
            code, _, err = report("copy", "--seal", TRACE)
            if target == memory:
                equal((code, os.path.lexists(JOURNAL), os.path.exists(memory)), (0, False, False))
                continue
            equal((code, err.count(b"\n"), b"is a link, which is not followed" in err), (3, 1, True), (target, err))
            equal((read(TRACE), read(elsewhere), os.readlink(JOURNAL)), (trace, journal, target))
            code, _, err = report("summary", TRACE)
            equal((code, err.count(b"\n"), b"is a link, which is not followed" in err), (4, 1, True), (target, err))
    finally:
        for path in (memory, to_link):
            if os.path.lexists(path):
                os.remove(path)


main()
