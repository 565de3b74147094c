#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The format: the worked example of FORMAT.md, versions, and every kind of damaged file.

Whatever a file holds, cutrace-report exits with 0 (and prints one line about what is missing) or with 3 (and prints one
line with the file and the offset). It never crashes, and its output stays valid.
"""
import json
import os
import re
import resource
import sqlite3
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import example  # noqa: E402
import traces  # noqa: E402
from mktrace import (FIELDS, OPS, PROVISIONAL, Trace, chunk, columns, entry, packed_columns, raw_zstd_frame,  # noqa: E402
                     section, varint, zstd_frame)
from tap import BUILD, FULL, PLAIN, REPORT, ROOT, case, check, dice, equal, main, report, sample, scratch  # noqa: E402
from ways import HANG  # noqa: E402

# Of the bytes of a trace so many are drawn to be cut at, or wrong: fewer where each run takes a sanitizer's time.
PLACES = 60 if os.environ.get("SAN") else 150


def write(data, name="t.zst"):
    return scratch(name, data)


def sane(data, what, codes=(0, 3, 4)):
    """The report of any bytes: an exit code that is meant, at most one line on stderr, valid JSON."""
    path = write(data)
    code, out, err = report("summary", "--json", path)
    check(code in codes, "%s: exit %d, stderr %r" % (what, code, err))
    equal(err.count(b"\n"), 1 if err else 0, "%s: lines on stderr" % what)
    if code == 3:
        equal(out, b"", "%s: stdout" % what)
        check(path.encode() in err, "%s: the line names the file: %r" % (what, err))
        check(err.startswith(b"cutrace-report: "), what)
        return code, None, err
    return code, json.loads(out), err


def events(data):
    code, out, err = report("dump", "--json", write(data))
    return code, [json.loads(line) for line in out.splitlines()], err


def small(compress=raw_zstd_frame, **flush):
    t = Trace(compress=compress)
    t.info = {"process.pid": "7", "process.exe": "small"}
    t.event("alloc", 1000, api="cuMemAlloc_v2", ptr=0x1000, bytes=100, device=0, result=0, space="device",
            stack=traces.PLAIN)
    t.event("alloc", 2000, api="cuMemAlloc_v2", ptr=0x2000, bytes=200, device=0, result=0, space="device",
            stack=traces.PLAIN)
    t.flush()
    t.event("free", 3000, api="cuMemFree_v2", ptr=0x1000)
    t.flush(last=True, **flush)
    return t


@case("the worked example of FORMAT.md decodes to what it says")
def worked_example():
    with open(os.path.join(ROOT, "include/cutrace/format/FORMAT.md"), encoding="utf-8") as f:
        page = f.read()
    listing = page[page.index("## 6."):].split("```")[1]
    data = b""
    for line in listing.strip().splitlines():
        m = re.match(r"([0-9a-f]{4,})  ((?:[0-9a-f]{2} ?)+)", line)
        check(m, "line %r" % line)
        equal(int(m.group(1), 16), len(data), "offset of %r" % line)
        data += bytes.fromhex(m.group(2))
    equal(data, example.build()[0], "the listing is what example.py prints")
    code, got, err = events(data)
    equal((code, err), (0, b""))
    equal(len(got), 2)
    equal((got[0]["op"], got[0]["t_ns"], got[0]["tid"], got[0]["api"], got[0]["ptr"], got[0]["bytes"], got[0]["result"],
           got[0]["device"], got[0]["duration_ns"], got[0]["space"]),
          ("alloc", 1000, 4242, "cuMemAlloc_v2", "0x7f0000000000", 4096, 0, 0, 300, "device"))
    same = {"inlined": [], "end": None, "hidden": False}
    equal(got[0]["stack"], [
        {"name": "load", "file": None, "line": None, "module": "/bin/app", "offset": 0x1234, "kind": "native", **same},
        {"name": "load", "file": "train.py", "line": 7, "module": None, "offset": None, "kind": "python", **same}])
    equal((got[1]["op"], got[1]["result"], got[1]["ptr"]), ("free", 700, "0x7f0000000000"))


@case("a trace cut at any byte: what is whole before the cut is reported")
def truncated_everywhere():
    t = small()
    data, first = t.bytes(), len(t.out[0])
    body_end = 104 + int.from_bytes(data[72:80], "little")  # of the first chunk: here nothing is seen to be missing
    for n in sample(range(len(data)), PLACES) + [body_end, first - 1, first, first + 1]:
        code, d, err = sane(data[:n], "cut at %d of %d" % (n, len(data)))
        whole_first = n >= first - 8 - 7  # the filler behind the body may be missing
        if n >= first:
            equal(code, 4 if d["trace"]["truncated"] else 0, "cut at %d" % n)
        if code != 3:
            check(whole_first, "cut at %d is read" % n)
            if n not in (body_end, first, len(data)) and n < len(data) - 15:
                check(b"warning" in err, "cut at %d warns: %r" % (n, err))
            if n < len(data) - 15:
                equal((d["trace"]["events"], d["trace"]["complete"], d["trace"]["truncated"]), (2, False, True),
                      "cut at %d" % n)


@case("one bit flipped at any byte never crashes the report")
def flipped_everywhere():
    data = small().bytes()
    for n in sample(range(len(data)), PLACES, 1):
        for bit in range(8) if FULL and "san-" not in BUILD else (n % 8,):  # (a sanitizer is ten times slower)
            bad = bytearray(data)
            bad[n] ^= 1 << bit
            sane(bytes(bad), "bit %d of byte %d" % (bit, n))


@case("a chunk whose prefix has one wrong bit anywhere is not believed")
def flipped_prefix():
    first, second = small().out
    for n in sample(range(8, 104), PLACES // 2):
        bad = bytearray(second)
        bad[n] ^= 1 << n % 8
        code, d, err = sane(first + bytes(bad), "byte %d of the prefix" % n)
        equal((code, d["trace"]["events"], d["trace"]["damaged_places"]), (4, 2, 1), "byte %d" % n)
        check(b"offset %d" % len(first) in err, err)


@case("a newer version is refused by naming both versions")
def newer_version():
    for data in (small(version=4).bytes(), chunk(0, b"", version=7)):
        code, _, err = sane(data, "version", (3,))
        check(re.search(rb"version [47]\b.* 3\b", err), err)


@case("a longer header of the same version is read, its new fields are skipped")
def longer_header():
    t = Trace()
    t.event("note", 5, text="hello")
    t.flush(last=True, header_extra=b"new field ")
    equal([e["text"] for e in events(t.bytes())[1]], ["hello"])


@case("unknown sections, columns, operations, frame kinds and longer dictionary entries are skipped")
def unknown_kinds():
    body = section(99, b"whatever") + section(2, entry(1, b"name")) + section(6, entry(1, varint(5) + varint(0) + b"\x07\x08"))
    body += section(4, entry(1, varint(9) + b"????")) + section(5, entry(1, varint(1) + varint(2)))
    record = columns([{"t_ns": 10, "op": 77, "api": 1, "thread": 1, "stack": 1}])
    record += varint(60) + varint(0) + struct.pack("<I", 0)
    code, got, err = events(chunk(0, body + section(7, record), events=1, times=(10, 10), flags=1))
    equal((code, err, len(got)), (0, b"", 1))
    equal((got[0]["op"], got[0]["api"], got[0]["tid"]), ("unknown-77", "name", 5))


@case("a chunk with an unknown required flag is passed over with a warning")
def required_flag():
    t = small(flags=0x10001)
    code, d, err = sane(t.bytes(), "flag")
    equal((code, d["trace"]["events"]), (4, 2))  # (it was the last one)
    check(b"unknown feature" in err, err)
    code, d, err = sane(small(flags=0x8001).bytes(), "unknown lower flag")
    equal((code, d["trace"]["complete"]), (0, True))


@case("chunks in any order, doubled, missing, and of another trace")
def order_and_foreign():
    t = small()
    other = Trace(trace_id=99)
    other.event("alloc", 1, ptr=5, bytes=1 << 30, device=0)
    other.flush(last=True)
    a, b = t.out
    equal([e["event"] for e in events(b + a)[1]], [0, 1, 2])
    code, d, err = sane(a + other.bytes() + b, "foreign")
    equal((d["trace"]["events"], d["trace"]["complete"], err), (3, True, b""))
    code, d, err = sane(a + b + a, "doubled")
    equal((d["trace"]["events"], d["trace"]["complete"], err), (3, True, b""))
    again = Trace()
    again.event("note", 1, text="another one")
    again.flush()
    code, d, err = sane(a + b + again.bytes(), "the same number again")
    equal((d["trace"]["events"], d["trace"]["complete"]), (3, False))
    check(b"occurred before" in err, err)
    code, d, err = sane(b, "only the end")
    equal((d["trace"]["wrapped"], d["trace"]["events"]), (True, 1))


def versions():
    """Chunk 0; chunk 1 with one, two and three events as it was written before it was complete; chunk 1 complete."""
    out = []
    for n in (1, 2, 3, 4):
        t = Trace()
        t.event("alloc", 1, ptr=4096, bytes=4096, device=0)
        t.flush()
        for i in range(n):
            t.event("alloc", 10 + i, ptr=0x10000 * (i + 1), bytes=8192, device=0, stack=[("f%d" % i, "/opt/app")])
        t.flush(last=n == 4, **({"flags": PROVISIONAL} if n < 4 else {}))
        out.append(t.out[1])
    return t.out[0], out


@case("of the chunks with a number the complete one counts, else the longest provisional one, wherever they are")
def provisional():
    first, (one, two, three, complete) = versions()
    for parts, want, whole in (([one], 2, False), ([one, two], 3, False), ([two, one], 3, False), ([two, three], 4, False),
                               ([one, three, two], 4, False), ([complete], 5, True), ([complete, three], 5, True),
                               ([three, complete], 5, True), ([two, three, complete], 5, True), ([three, complete, complete], 5, True)):
        for data in (first + b"".join(parts), b"".join(parts) + first):
            code, d, err = sane(data, "provisional")
            found = events(data)[1]
            equal((len(found), d["trace"]["events"], d["trace"]["complete"], d["trace"]["damaged_places"]),
                  (want, want, whole, 0), str(parts))
            equal([e["event"] for e in found], list(range(want)))
            equal([e["t_ns"] for e in found], [1, 10, 11, 12, 13][:want])


@case("frames that other tools put into a file are passed over; garbage between chunks costs nothing else")
def skippable_frames():
    a, b = small().out
    free = struct.pack("<II", 0x184D2A50, 24) + bytes(24)
    equal(len(events(a + free + b)[1]), 3)
    for garbage in (bytes(64), b"\xff" * 40, b"CUTRCHNK" * 8, struct.pack("<II", 0x184D2A5C, 96) + b"CUTRCHNK" + bytes(88)):
        code, d, err = sane(a + garbage + b, "garbage")
        equal((code, d["trace"]["events"], d["trace"]["damaged_places"]), (0, 3, 1), repr(garbage[:8]))
        check(b"offset %d" % len(a) in err, err)


@case("sizes that lie: nothing is allocated or decompressed on a file's word")
def bombs():
    huge = zstd_frame(bytes(64 << 20)) if FULL else zstd_frame(bytes(1 << 20))
    cases = {
        "raw_bytes says 2**63": chunk(0, b"x" * 100, raw_bytes=1 << 63),
        "raw_bytes says 64 MiB": chunk(0, b"x" * 100, raw_bytes=64 << 20),
        "raw_bytes too small": chunk(0, b"", compress=lambda b: huge, raw_bytes=100),
        "frame without its size": chunk(0, b"x" * 50, compress=lambda b: b"\x28\xb5\x2f\xfd\x00\x58" + struct.pack("<I", 50 << 3 | 1)[:3] + b),
        "2**32 - 1 events": chunk(0, b"", events=0xFFFFFFFF),
        "body that is no frame": chunk(0, b"x", compress=lambda b: b"nothing here"),
        "empty body": chunk(0, b"", compress=lambda b: b"", raw_bytes=0),
    }
    for what, data in cases.items():
        code, d, err = sane(data, what, (3,))
        check(b"offset 0" in err, "%s: %r" % (what, err))
    body = zstd_frame(bytes(1 << 20))
    sane(chunk(0, b"", compress=lambda b: body, raw_bytes=1 << 20), "zeros", (3,))


@case("bodies whose inside is wrong: counts, lengths, ids and codings")
def malformed_bodies():
    def column(number, coding, data):
        return varint(number) + varint(coding) + struct.pack("<I", len(data)) + data
    bodies = [
        b"\x07", section(7, b""), section(7, varint(1)), section(7, varint(1 << 40)), section(7, varint((1 << 20))),
        section(7, varint(1) + column(1, 0, b"\x01")),                          # no mask
        section(7, varint(1) + column(0, 0, varint(1 << 1))),                   # a field without a column
        section(7, varint(1) + column(0, 0, varint(1))),                        # bit 0
        section(7, varint(1) + column(0, 2, varint(2)) + column(1, 0, b"\x01")),  # coding 2
        section(7, varint(1) + column(0, 0, varint(2)) + column(0, 0, varint(2))),  # twice
        section(7, varint(2) + column(0, 0, varint(2) * 2) + column(1, 0, b"\x01")),  # too short
        section(7, varint(1) + column(0, 0, b"\xff" * 10)), section(7, varint(1) + column(0, 0, b"\x80")),
        section(2, b"\x01\xff"), section(2, varint(1) + varint(70000) + b"x"), section(2, varint(1 << 63) + varint(1) + b"x"),
        section(2, entry(1, b"x" * 65536)), section(3, entry(1, varint(1))), section(3, entry(1, varint(1) * 4 + varint(1 << 40))),
        section(4, entry(1, b"")), section(5, entry(1, varint(513) + b"\x00" * 513)), section(5, entry(1, varint(1 << 50))),
        section(5, entry(1, varint(3) + b"\x02")), section(6, entry(1, b"\x80")), section(1, b"\x05abc"),
        section(1, varint(1 << 60)), struct.pack("<BI", 7, 0xFFFFFFFF), b"\x80" * 12, section(7, varint(3)) * 50,
    ]
    good = small().out
    for i, body in enumerate(bodies):
        sane(chunk(0, body, events=1, times=(1, 1), flags=1), "body %d alone" % i)
        code, d, err = sane(good[0] + good[1] + chunk(2, body, events=1, times=(4000, 4000)),
                            "body %d behind others" % i, (4,))
        check(d["trace"]["events"] >= 3, "body %d hides others" % i)
        for view in sample(("dump", "top", "leaks", "frag", "timeline", "oom", "info"), 2, i):
            code, _, err = report(view, "--json", scratch("t.zst"))
            check(code == (3 if view == "info" else 4), "body %d: %s exits %d %r" % (i, view, code, err))


@case("fields with the largest values keep every view alive")
def extreme_values():
    t = Trace()
    top = (1 << 64) - 1
    for op in list(OPS) + [0, 200]:
        if op == "amend":
            continue
        for v in (0, 1, top, 1 << 63):
            t.event(op, v, ptr=v, bytes=v, handle=v, pool=v, stream=v, context=v, offset=v, duration_ns=v, free_bytes=v,
                    total_bytes=v, free_before_bytes=v, process_bytes=v, reserved_bytes=v, used_bytes=v, count=v,
                    device=v, result=0, tid=v)
            t.event(op, v, result=2, bytes=v, device=-1, flags=["async", "nvml"], space="host")
    t.event("amend", 5, amends_ns=top, result=1)
    path = t.save(scratch("t.zst"))
    for view in ("summary", "oom", "top", "leaks", "stats", "timeline", "frag", "dump", "info"):
        for more in ((), ("--json",), ("--capacity=1B",), ("--from=1", "--to=2"), ("--device=63",), ("--top=1",)):
            code, out, err = report(view, *more, path)
            refused = code == 2 and (b" has no use for it; " in err or b": no event is of " in err)
            check(code in (0, 3) or refused, "%s %s: %d %r" % (view, more, code, err))
            if "--json" in more and code == 0:
                for line in out.splitlines():
                    json.loads(line)


@case("sizes that cannot be are not known, and the chunk is damaged; those of failed requests may be any, and so may the sum of a year")
def impossible_sizes():
    def trace(sizes, **extra):
        t = Trace()
        t.info = {"process.start_ns": "1", "device.0.total_bytes": str(1 << 30)}
        for i, size in enumerate(sizes):
            t.event("alloc", 1000 + i, ptr=(i + 1) << 50, bytes=size, device=0, result=0, space="device", stack=[("f%d" % i, "/lib/x.so", i)])
        for i, size in enumerate((1 << 63, (1 << 64) - 1) if sizes else ()):
            t.event("alloc", 2000 + i, bytes=size, device=0, result=2, space="device", stack=[("g", "/lib/x.so", 99)])
        if extra:
            t.event("memory-sample", 3000, device=0, **extra)
        t.flush(last=True)
        return t.bytes()
    top = 1 << 64
    for sizes, known, extra in (([5, 1 << 50], 5 + (1 << 50), {}), ([5, top - 1], 5, {}), ([5, 1 << 63, 1 << 63, 7], 12, {}),
                                ([1 << 59] * 3, 1 << 60, {}), ([5], 5, {"free_bytes": 1 << 40, "total_bytes": 1 << 41}),
                                ([5], 5, {"free_bytes": 1 << 63, "total_bytes": top - 1})):
        path = write(trace(sizes, **extra))
        damaged = sum(sizes) != known or max(extra.values(), default=0) >= 1 << 63
        code, out, _ = report("info", "--json", path)
        equal((code, [x["what"] for x in json.loads(out)["integrity"]["damage"]]), (3, ["chunk with sizes that cannot be"]) if damaged else (0, []), sizes)
        equal(json.loads(report("top", "--json", "--at=end", path)[1])["devices"][0]["bytes"], known, sizes)
        equal([e["bytes"] for e in events(trace(sizes, **extra))[1]][len(sizes):len(sizes) + 2], [1 << 63, top - 1], sizes)
        database = scratch("t.db")
        equal(report("export", "--format=sqlite", "--force", "-o", database, path)[0], 0)
        with sqlite3.connect(database) as db:
            for (view,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
                db.execute(f"SELECT * FROM {view}").fetchall()


@case("times that cannot be have no time of day, in no export")
def impossible_times():
    for monotonic, realtime, at in ((5, 1795 * 10**15, (1 << 63) - 1), (5, 1795 * 10**15, (1 << 64) - 1), (10, 5, 1), ((1 << 64) - 1, 0, 1)):
        t = Trace()
        t.info = {"process.start_ns": str(at), "clock.monotonic_ns": str(monotonic), "clock.realtime_ns": str(realtime)}
        t.event("alloc", at, ptr=1, bytes=5, device=0, result=0, space="device")
        path = t.save(scratch("t.zst"))

        def export(*words, path=path):
            to = scratch("exported")
            equal(report("export", *words, "--force", "-o", to, path)[0], 0, words)
            with open(to, "rb") as f:
                return f.read()
        equal([(e["t_ns"], e["utc_ns"]) for e in map(json.loads, export("--format=ndjson:events").splitlines())], [(at, None)])
        page = export("--format=openmetrics")
        check(b"cutrace_start_time" not in page and re.search(rb'^cutrace_\w+\{device="0"\} 5$', page, re.M), page)
        for form in ("torch", "perfetto", "pprof"):
            export("--format=" + form)
        equal(json.loads(report("summary", "--json", path)[1])["start_utc_ns"], None)


@case("ids mean what their generation says, and definitions may be replaced or come late")
def dictionary_generations():
    t = Trace()
    t.event("note", 1, text="first")
    t.flush()
    t.checkpoint()
    t.event("note", 2, text="second")
    t.flush()
    t.event("note", 3, text="second")
    t.flush(last=True)
    equal([e["text"] for e in events(t.bytes())[1]], ["first", "second", "second"])
    # a frame without symbol, used, and the symbol in a later chunk
    unresolved = section(2, entry(1, b"/lib/x.so")) + section(3, entry(1, varint(1) + varint(0) * 3 + varint(0)))
    unresolved += section(4, entry(1, varint(0) + varint(0x999) + varint(0) + varint(0) + varint(0) + varint(0)))
    unresolved += section(5, entry(1, varint(1) + varint(2)))
    unresolved += section(7, columns([{"t_ns": 5, "op": 2, "stack": 1, "bytes": 1, "ptr": 1}]))
    late = section(2, entry(2, b"_ZN3foo3barEv"))
    late += section(4, entry(1, varint(0) + varint(0x999) + varint(1) + varint(0x99) + varint(2) + varint(3)))
    got = events(chunk(0, unresolved, events=1, times=(5, 5)) + chunk(1, late, first_event=1, flags=1))[1]
    equal(got[0]["stack"], [{"name": "foo::bar()", "file": None, "line": None, "module": "/lib/x.so", "offset": 0x99, "kind": "native",
                             "inlined": [], "end": None, "hidden": False}])


@case("an AMEND corrects the event of its own thread, before or behind it in the file")
def amendments():
    t = Trace()
    t.event("free", 1000, tid=1, ptr=1)
    t.event("free", 1000, tid=2, ptr=2)
    t.event("free", 2000, tid=1, ptr=3)
    t.flush()
    t.event("amend", 2500, tid=2, amends_ns=1000, result=700)
    t.event("amend", 2500, tid=1, amends_ns=2000, duration_ns=77)
    t.flush(last=True)
    equal([(e["tid"], e["result"], e["duration_ns"]) for e in events(t.bytes())[1]],
          [(1, None, None), (2, 700, None), (1, None, 77)])


@case("a stack that is not defined is found by check where an AMEND names it, too; a copy has the same finding, no other one")
def undefined_stacks():
    for last, found in (({"stack": 99}, 1), ({"stack": 0}, 1), ({"duration_ns": 5}, 0)):
        own = [{"op": 2, "t_ns": 1000, "ptr": 1, "bytes": 1}, {"op": 3, "t_ns": 2000, "ptr": 1}]
        amend = {"op": 1, "t_ns": 2500, "amends_ns": 2000, **last}
        for records, n in ((own + [amend], 2), ([own[0], {**own[1], **last}], 2)):
            data = chunk(0, section(7, columns(records)), events=n, times=(1000, 2000), flags=3)
            copies = [write(data)]
            for how in ((), ("--from=0s",), ("--scrub=paths",), ("--scrub=strict",)):
                copies.append(scratch("copy%d.zst" % len(copies)))
                equal(report("copy", *how, "--force", "-o", copies[-1], copies[0])[0], 0, how)
            for path in copies:
                code, out, _ = report("info", "--json", path)
                equal((code, json.loads(out)["integrity"]["unresolved_stacks"]), (3 if found else 0, found), (path, records))


@case("stacks that share frames are the same, written flat and as a tree, also behind a new generation and a lost chunk")
def stacks_in_all_versions():
    rng = dice(5)
    tops = [("f%d" % i, "/lib/x.so", 0x1000 + i) for i in range(6)] + [("g", "/m/a.py", n) for n in range(6)]
    pool = [[rng.choice(tops) for _ in range(rng.randrange(1, 40))] for _ in range(20)]
    stacks = [rng.choice(pool)[rng.randrange(0, 5):] or [tops[0]] for _ in range(60)]
    stacks += [rng.choices(tops, k=3) + rng.choice(pool) for _ in range(60)]
    said = []
    for version in (1, 2, 3):
        t = Trace()
        t.version = version
        for i, stack in enumerate(stacks):
            t.event("alloc", 1000 + i, ptr=0x1000 * i, bytes=1, device=0, result=0, space="device", stack=stack)
            if i % 30 == 29:
                t.flush()
            if i == 89:
                t.checkpoint()
        t.flush(last=True)
        got = events(t.bytes())[1]
        equal([[f["name"] for f in e["stack"]] for e in got], [[f[0] for f in stack] for stack in stacks], "version %d" % version)
        said.append(got)
        if version == 3:
            stored = json.loads(report("info", "--json", write(t.bytes()))[1])["stacks"]
            equal(stored, len({tuple(stack) for stack in stacks}))
            # Without the second chunk what branches off its nodes begins with an unknown frame.
            code, lost, _ = events(t.out[0] + b"".join(t.out[2:]))
            equal((code, len(lost)), (0, 90))
            for e in lost:
                want = [f[0] for f in stacks[e["event"]]]
                names = [f["name"] for f in e["stack"] or []]
                if None in names:  # (frames of that chunk are unknown, too)
                    check(e["event"] // 30 == 2, e)
                    equal([n for n, w in zip(names, want) if n not in (None, w)], [])
                else:
                    equal(names, want)
    check(said[0] == said[1] == said[2], "the versions differ")


@case("a trace of 400 MB of frames in stacks that share nearly all of them takes memory for what it holds")
def deep_stacks_cost_their_bytes():
    body = section(4, b"".join(entry(i, varint(0) + varint(0x1000 + i) + varint(0) * 4) for i in (1, 2)))
    trunk = entry(1, varint(0) + varint(4000) + varint(1) + varint(2) + b"\0" * 3999)
    twigs = b"".join(entry(2 + i, varint(4000 - i % 50) + varint(1) + varint(5000 + i) + varint(4)) for i in range(100000))
    body += section(5, trunk + twigs)
    body += section(7, columns([{"t_ns": 5, "op": 2, "stack": 100, "bytes": 1, "ptr": 1}]))
    path = write(chunk(0, body, events=1, times=(5, 5), flags=1, version=3, compress=zstd_frame))
    for view in (("summary",), ("top", "--json"), ("dump", "--json")):
        pid = os.posix_spawn(REPORT, [REPORT, *view, path], PLAIN, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
        _, status, usage = os.wait4(pid, 0)
        equal(status, 0, view)
        check(usage.ru_maxrss < 200 << 10, "%s: %d KiB" % (view, usage.ru_maxrss))


@case("stacks that cannot be are malformed, those that refer to nothing have unknown frames; never a crash")
def malformed_stacks():
    frames = section(4, entry(1, varint(0) + varint(0x999) + varint(0) * 4))
    event = section(7, columns([{"t_ns": 5, "op": 2, "stack": 1, "bytes": 1, "ptr": 1}]))

    def read(payload):
        data = chunk(0, frames + section(5, entry(1, payload)) + event, events=1, times=(5, 5), flags=1, version=3)
        code, got, _ = events(data)
        return code, [[f["offset"] for f in e["stack"]] if e["stack"] else None for e in got]

    one = varint(2)
    equal(read(varint(0) + varint(1) + varint(1) + one), (0, [[0x999]]))
    equal(read(varint(0) + varint(1) + varint(1) + one + b"later versions append"), (0, [[0x999]]))
    equal(read(varint(9) + varint(1) + varint(1) + one), (0, [[0x999, None]]))
    equal(read(varint(1) + varint(1) + varint(1) + one), (0, [[0x999, None]]), "its own child")
    equal(read(varint(0) + varint(1) + varint(0) + one), (0, [[0x999]]), "node 0")
    equal(read(varint(0) + varint(2) + varint((1 << 64) - 1) + one + b"\0"), (0, [[0x999, 0x999]]), "numbers that go round")
    equal(read(varint(0) + varint(1) + varint(1) + varint(4)), (0, [[None]]), "an unknown frame")
    equal(read(varint(7) + varint(0)), (0, [[None]]))
    equal(read(varint(0) + varint(0)), (0, [None]))
    for bad in (b"", varint(0), varint(0) + varint(1), varint(0) + varint(1) + varint(1), varint(0) + varint(2) + varint(1) + one,
                varint(0) + varint(4097) + varint(1) + one * 4097, varint(0) + varint(1 << 60) + varint(1) + one):
        data = chunk(0, frames + section(5, entry(1, bad)) + event, events=1, times=(5, 5), flags=1, version=3)
        equal(report("info", write(data))[0], 3, bad[:20])


def packed_trace(tick_ns=100):
    t = Trace()
    t.version = 2
    t.columns = lambda records: packed_columns(records, tick_ns)
    return t


@case("random events say the same in plain and in packed columns")
def packed_is_plain():
    rng = dice(7)
    for _ in range(20 if FULL else 4):
        both, at = [Trace(), packed_trace(1)], 10**9
        where = [rng.randrange(1 << 47) & -512 for _ in range(40)]
        for _ in range(rng.randrange(1, 1200)):
            at += rng.choice((0, 1, 50, 5000, 10**7, 10**11))
            op = rng.choice(list(OPS))
            if op == "amend":
                continue
            event = {"bytes": rng.choice((0, 1, 512 * rng.randrange(1, 99), rng.randrange(1 << 64), (1 << 63) + 1)),
                     "ptr": rng.choice(where) + rng.choice((0, 0, 512 * rng.randrange(1, 99))), "device": rng.randrange(-1, 3), "result": rng.choice((0, 2)),
                     "duration_ns": rng.choice((0, rng.randrange(9999), rng.randrange(1 << 64))), "context": rng.randrange(3),
                     "handle": rng.randrange(1 << 64), "pool": rng.randrange(2), "offset": rng.randrange(99)}
            event = {k: v for k, v in event.items() if rng.random() < 0.7}
            more = {"stack": [("f%d" % rng.randrange(9), "/lib")] if rng.random() < 0.5 else None, "tid": rng.randrange(1, 4),
                    "flags": ["async"] if rng.random() < 0.3 else None, "space": rng.choice((None, "device", "host")),
                    "api": rng.choice((None, "a", "b"))}
            for t in both:
                t.event(op, at, **more, **event)
        for t in both:
            t.flush(last=True)
        plain, packed = (events(t.bytes()) for t in both)
        equal(plain[0], 0)
        equal(packed, plain)


@case("times are rounded down to ticks, durations too; neighbours in a tick stay apart and in order")
def rounded_times():
    t = packed_trace()
    for at in (1040, 2010, 2050, 2099, 2100, 16390, 1 << 40, (1 << 40) + 70001):
        t.event("note", at, text="x", duration_ns=777)
    t.flush(last=True)
    equal([(e["t_ns"], e["duration_ns"]) for e in events(t.bytes())[1]],
          [(at, 700) for at in (1040, 2010, 2050, 2099, 2100, 16300, (1 << 40) // 100 * 100, (1 << 40) + 70001)])


@case("a first event behind an AMEND may have a rounded time and is not outside of its chunk; others are said to be")
def rounded_first_time():
    def outside(first_ns, last_ns, *, leading=True, tick_ns=100, first=1040):
        t = packed_trace(tick_ns)
        t.event("free", 500, tid=1, ptr=1)
        t.flush()
        if leading:
            t.event("amend", 900, tid=1, amends_ns=500, result=7)
        for at in (first, 2010, 3070):
            t.event("free", at, tid=1, ptr=at)
        t.flush(last=True, times=(first_ns, last_ns))
        done = report("info", "--json", "-", data=t.bytes())
        said = report("info", "-", data=t.bytes())[1]
        n = json.loads(done[1])["integrity"]["outside_chunk"]
        equal(b"outside the times of their chunk" in said, n > 0, said)
        check(not n or b"%d event" % n in said, said)
        return n, [e["t_ns"] for e in events(t.bytes())[1]][1]
    equal(outside(1040, 3070), (0, 1000), "the prefix is exact, the record is rounded down")
    equal(outside(1099, 3070), (0, 1000), "the last time that it can have been")
    equal(outside(1100, 3070), (1, 1000), "in the next tick")
    equal(outside(1040, 3070, tick_ns=1), (0, 1040))
    equal(outside(1041, 3070, tick_ns=1), (1, 1040), "a tick of 1 rounds nothing")
    equal(outside(1040, 3070, leading=False), (0, 1040), "the first record of its section is exact")
    equal(outside(1041, 3070, leading=False), (1, 1040), "an exact time is not taken for a rounded one")
    equal(outside(1040, 3069), (1, 1000), "the last time is exact here")
    equal(outside(5000, 6000), (3, 1000), "all of them")


@case("an AMEND names a time to the nanosecond; an event whose time was rounded down is found by it")
def amendments_of_rounded_times():
    t = packed_trace()
    times = (500, 1040, 2010, 2050, 3070, 16390, 20000)
    for at in times:
        t.event("free", at, tid=1, ptr=at)
    for at in (1040, 2050, 16390):
        t.event("amend", 30000, tid=1, amends_ns=at, result=at)
    t.event("amend", 30000, tid=2, amends_ns=3070, result=9)  # the other thread's: nothing
    t.event("amend", 30000, tid=1, amends_ns=2020, result=9)  # between two that are exact: lost, and not one of them
    t.flush(last=True)
    got = events(t.bytes())[1]
    equal([(e["t_ns"], e["result"]) for e in got if e["tid"] == 1],
          [(500, None), (1000, 1040), (2010, None), (2050, 2050), (3000, None), (16300, 16390), (20000, None)])
    # a tick that is longer than everything
    t = packed_trace(1 << 20)
    for i in range(1, 50):
        t.event("free", (i << 20) + i * 20000, tid=1, ptr=i)
    for i in range(1, 50, 2):
        t.event("amend", 1 << 28, tid=1, amends_ns=(i << 20) + i * 20000, result=i)
    t.flush(last=True)
    equal([(e["t_ns"], e["result"]) for e in events(t.bytes())[1]][1:], [(i << 20, i if i % 2 else None) for i in range(2, 50)])
    # plain columns in a later chunk, as of a journal that was folded in
    t = packed_trace()
    t.event("free", 500, tid=1, ptr=1)
    t.event("free", 1040, tid=1, ptr=1)
    t.event("free", 2040, tid=1, ptr=1)
    t.flush()
    t.columns = columns
    t.event("amend", 9000, tid=1, amends_ns=1040, result=4)
    t.flush(last=True)
    equal([(e["t_ns"], e["result"]) for e in events(t.bytes())[1]], [(500, None), (1000, 4), (2040, None)])


@case("packed columns whose codes lead nowhere")
def malformed_packed_columns():
    def block(records, **named):
        out = varint(records)
        for name, data in named.items():
            number = int(name[1:])
            out += varint(number) + varint(1 if number in (5, 6, 7, 13, 14) else 0 if number in (2, 3, 4, 15, 16) else 2)
            out += struct.pack("<I", len(data)) + data
        return section(7, out)

    def shape(*names):
        return varint(0) + varint(sum(1 << FIELDS[n][0] for n in names))
    time, taken, given = {"c43": b"\x64\x00", "c42": b"\xff", "c1": b"\x00"}, shape("op", "ptr"), shape("op", "ptr")
    good = [block(1, c0=b"\x01", c41=shape("op", "t_ns"), c3=b"\x02", **time),
            block(2, c0=b"\x01\x02", c41=taken, c3=b"\x02", c43=b"\x64", c8=b"\x01\x02")]
    bad = [
        block(1, c0=b"\x01", c43=b"\x64"),                                                       # no shape
        block(1, c0=b"", c41=shape("op"), c3=b"\x02", c43=b"\x64"),                              # no template
        block(1, c0=b"\x01", c41=shape("op"), c3=b"\x02"),                                       # no tick
        block(1, c0=b"\x01", c41=shape("op"), c3=b"\x02", c43=b"\x00"),                         # tick 0
        block(1, c0=b"\x01", c41=shape("op"), c43=b"\x64"),                                      # no op
        block(1, c0=b"\x01", c41=varint(1), c3=b"\x02", c43=b"\x64"),                           # shape 0 of none
        block(1, c0=b"\x01", c41=varint(0) + varint(1), c3=b"\x02", c43=b"\x64"),               # bit 0
        block(1, c0=b"\x01", c41=varint(0) + varint(1 << 40), c3=b"\x02", c43=b"\x64"),         # bit 40
        block(1, c0=b"\x02", c41=shape("op"), c3=b"\x02", c43=b"\x64"),                         # template 0 of none
        block(2, c0=b"\x01\x03", c41=shape("op"), c3=b"\x02", c43=b"\x64"),                    # template 1 of one
        block(2, c0=b"\x01\xff", c40=b"\xff", c41=shape("op"), c3=b"\x02", c43=b"\x64"),      # 16573 of one
        block(2, c0=b"\x00\x02", c41=shape("op"), c3=b"\x02", c43=b"\x64"),                    # that had no number
        block(1, c0=b"\x01", c41=taken, c3=b"\x02", c43=b"\x64", c8=b"\x06"),                  # one give ago of none
        block(1, c0=b"\x01", c41=taken, c3=b"\x02", c43=b"\x64", c8=b"\xc7", c48=b"\xff"),
        block(1, c0=b"\x01", c41=taken, c3=b"\x02", c43=b"\x64", c8=b"\xff", c48=b"\xff"),
        block(1, c0=b"\x01", c41=taken, c3=b"\x02", c43=b"\x64", c8=b"\xc8"),                  # no low byte
        block(1, c0=b"\x01", c41=taken, c3=b"\x02", c43=b"\x64", c8=b"\x00", c49=b"\x00"),    # part of an address
        block(1, c0=b"\x01", c41=given, c3=b"\x03", c43=b"\x64", c47=b"\x01"),                 # one take ago of none
        block(1, c0=b"\x01", c41=given, c3=b"\x03", c43=b"\x64", c47=b"\xff", c48=b"\xff"),
        block(1, c0=b"\x01", c41=given, c3=b"\x03", c43=b"\x64"),                               # no address
        block(1, c0=b"\x01", c41=shape("bytes"), c43=b"\x64"), block(1, c0=b"\x01", c41=shape("bytes"), c43=b"\x64", c9=b"\xbf\x01"),
        block(1, c0=b"\x01", c41=shape("stack"), c43=b"\x64"), block(1, c0=b"\x01", c41=shape("duration_ns"), c43=b"\x64", c45=b"\xff", c11=b"\x00"),
        block(1, c0=b"\x01", c41=shape("t_ns"), c43=b"\x64"), block(1, c0=b"\x01", c41=shape("t_ns"), c43=b"\x64", c42=b"\x00", c1=b"\x00"),
        section(7, varint(1) + varint(0) + varint(2) + struct.pack("<I", 1) + b"\x01" + varint(41) + varint(0) + struct.pack("<I", 1) + b"\x00"),
        section(7, varint(1) + varint(0) + varint(0) + struct.pack("<I", 1) + b"\x02" + varint(1) + varint(2) + struct.pack("<I", 1) + b"\x00"),
    ]
    for i, body in enumerate(good + bad):
        n = body[5]  # its records
        data = chunk(0, body, events=n, times=(1, 1), flags=1, version=2)
        code, got, err = events(data)
        equal((code, len(got) == n), (0, body in good), "body %d: %r" % (i, err))
        equal(report("info", write(data))[0], 0 if body in good else 3, "body %d: check" % i)


@case("files that are no traces, folders, and what cannot be opened: one line and 3")
def not_a_trace():
    for data in (b"", b"\x00" * 200, b"hello world\n" * 30, zstd_frame(b"some text")):
        sane(data, repr(data[:10]), (3,))
    for path in (scratch("missing.zst"), scratch()):
        code, out, err = report("summary", path)
        equal((code, out, err.count(b"\n")), (3, b"", 1), path)


def limited():
    """Of memory: a guard, that a device without an end does not take all of it."""
    if "san" not in os.path.basename(BUILD):  # (which reserves terabytes)
        resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))


@case("a FIFO, a link to a device without an end and a folder, where a file is named: one line at once, and no other file is lost")
def endless_files():
    fifo, zero, trace = scratch("fifo"), scratch("zero"), write(traces.refused())
    os.mkfifo(fifo)
    os.symlink("/dev/zero", zero)
    for path in (fifo, zero, scratch()):
        for code, args in ((3, ("summary", path)), (3, ("explain", path)), (3, ("oom", trace, path)), (3, ("top", "--quick", path)),
                           (3, ("summary", "--log", path, trace)), (3, ("summary", "--log", path, trace)),
                           (2, ("summary", "--rules", path, trace))):
            done = subprocess.run([REPORT, *args], env=PLAIN, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=HANG, preexec_fn=limited, check=False)
            equal((done.returncode, done.stderr.count(b"\n")), (code, 1), (args, done.stderr))
            check(os.fsencode(path) + b": cannot be opened: it is " in done.stderr, done.stderr)


@case("a trace from a pipe and from a redirected file is the same as from its path")
def standard_input():
    data = traces.refused()
    path = write(data)
    want = report("top", path)[1]
    equal(report("top", "-", data=data)[1], want)
    done = subprocess.run("%s top - < %s; %s top /dev/stdin < %s" % ((report.__globals__["REPORT"], path) * 2), shell=True,
                          stdout=subprocess.PIPE, check=True)
    equal(done.stdout, want * 2)


@case("several traces: each is a row of summary and a report of its own elsewhere, a bad one does not hide the others")
def several_traces():
    a, bad = write(traces.refused(), "a.zst"), write(b"nothing", "bad.zst")
    code, out, err = report("summary", a, bad, a)
    words = [line.split()[-1] for line in out.splitlines() if b" complete" in line or b" unreadable:" in line or b" the same" in line]
    equal((code, len(words), err.count(b"\n")), (3, 3, 1), out)
    check(out.startswith(b"OUT OF MEMORY: pid ") and b"cudaMalloc asked for 4.30 GiB: " in out, out)
    code, out, err = report("oom", a, bad, a)
    equal((code, len(re.findall(rb"cudaMalloc asked for 4.30 GiB", out)), err.count(b"\n")), (3, 2, 1))
    code, out, err = report("summary", "--json", a, bad, a)
    said = json.loads(out)
    d = said["documents"]
    equal((code, len(d), d[1], d[0] == d[2], said["processes"]["schema"]), (3, 3, None, True, "cutrace.processes/2"))


main()
