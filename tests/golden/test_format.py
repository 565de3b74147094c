#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The format: the worked example of FORMAT.md, versions, and everything that can be wrong with a file.

Whatever a file holds, cutrace-report ends with 0 (and says in one line what is missing) or with 3 and one
line that names the file and the place; it never crashes, and what it prints stays valid.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import example  # noqa: E402
import traces  # noqa: E402
from mktrace import OPS, Trace, chunk, columns, entry, info_section, raw_zstd_frame, section, varint, xxh64, zstd_frame  # noqa: E402
from tap import FULL, ROOT, check, equal, main, report, test  # noqa: E402

FOLDER = tempfile.mkdtemp()


def write(data, name="t.zst"):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def sane(data, what, codes=(0, 3)):
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


@test
def worked_example():
    """the worked example of FORMAT.md decodes to what it says"""
    with open(os.path.join(ROOT, "include/cutrace/FORMAT.md"), encoding="utf-8") as f:
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
    equal(got[0]["stack"], [
        {"name": "load", "file": None, "line": None, "module": "/bin/app", "offset": 0x1234},
        {"name": "load", "file": "train.py", "line": 7, "module": None, "offset": None}])
    equal((got[1]["op"], got[1]["result"], got[1]["ptr"]), ("free", 700, "0x7f0000000000"))


@test
def zstd_accepts():
    """zstd -t and zstd -dc accept what the builder writes, stored and compressed"""
    for compress in (raw_zstd_frame, zstd_frame):
        data = small(compress).bytes()
        subprocess.run(["zstd", "-tq", write(data)], check=True)
        equal(len(events(data)[1]), 3)


@test
def xxh64_of_the_builder():
    """the builder's XXH64 gives the published values"""
    equal(xxh64(b""), 0xEF46DB3751D8E999)
    equal(xxh64(b"abc"), 0x44BC2CF5AD770999)
    equal(xxh64(b"0123456789abcdef" * 10), int(subprocess.run(
        ["xxhsum", "-H64"], input=b"0123456789abcdef" * 10, stdout=subprocess.PIPE, check=True).stdout.split()[0], 16)
        if subprocess.run(["which", "xxhsum"], stdout=subprocess.DEVNULL, check=False).returncode == 0
        else xxh64(b"0123456789abcdef" * 10))


@test
def truncated_everywhere():
    """a trace cut at any byte: what is whole before the cut is reported"""
    t = small()
    data, first = t.bytes(), len(t.out[0])
    step = 1 if FULL else 3
    body_end = 104 + int.from_bytes(data[72:80], "little")  # of the first chunk: here nothing is seen to be missing
    for n in list(range(0, len(data), step)) + [body_end, first - 1, first, first + 1]:
        code, d, err = sane(data[:n], "cut at %d of %d" % (n, len(data)))
        whole_first = n >= first - 8 - 7  # the filler behind the body may be missing
        if n >= first:
            equal(code, 0, "cut at %d" % n)
        if code == 0:
            check(whole_first, "cut at %d is read" % n)
            if n not in (body_end, first, len(data)) and n < len(data) - 15:
                check(b"warning" in err, "cut at %d warns: %r" % (n, err))
            if n < len(data) - 15:
                equal((d["trace"]["events"], d["trace"]["complete"], d["trace"]["truncated"]), (2, False, True),
                      "cut at %d" % n)


@test
def flipped_everywhere():
    """one bit flipped at any byte never crashes the report"""
    data = small().bytes()
    for n in range(0, len(data), 1 if FULL else 2):
        for bit in range(8) if FULL else (n % 8,):
            bad = bytearray(data)
            bad[n] ^= 1 << bit
            sane(bytes(bad), "bit %d of byte %d" % (bit, n))


@test
def flipped_prefix():
    """a chunk whose prefix has one wrong bit anywhere is not believed"""
    first, second = small().out
    for n in range(8, 104):
        bad = bytearray(second)
        bad[n] ^= 1 << n % 8
        code, d, err = sane(first + bytes(bad), "byte %d of the prefix" % n)
        equal((code, d["trace"]["events"], d["trace"]["damaged_places"]), (0, 2, 1), "byte %d" % n)
        check(b"offset %d" % len(first) in err, err)


@test
def newer_version():
    """a newer version is refused by naming both versions"""
    for data in (small(version=2).bytes(), chunk(0, b"", version=7)):
        code, _, err = sane(data, "version", (3,))
        check(re.search(rb"version [27]\b.* 1\b", err), err)


@test
def longer_header():
    """a longer header of the same version is read, its new fields are skipped"""
    t = Trace()
    t.event("note", 5, text="hello")
    t.flush(last=True, header_extra=b"new field ")
    equal([e["text"] for e in events(t.bytes())[1]], ["hello"])


@test
def unknown_kinds():
    """unknown sections, columns, operations, frame kinds and longer dictionary entries are skipped"""
    body = section(99, b"whatever") + section(2, entry(1, b"name")) + section(6, entry(1, varint(5) + varint(0) + b"\x07\x08"))
    body += section(4, entry(1, varint(9) + b"????")) + section(5, entry(1, varint(1) + varint(2)))
    record = columns([{"t_ns": 10, "op": 77, "api": 1, "thread": 1, "stack": 1}])
    record += varint(60) + varint(0) + struct.pack("<I", 0)
    code, got, err = events(chunk(0, body + section(7, record), events=1, times=(10, 10), flags=1))
    equal((code, err, len(got)), (0, b"", 1))
    equal((got[0]["op"], got[0]["api"], got[0]["tid"]), ("unknown-77", "name", 5))


@test
def required_flag():
    """a chunk with an unknown required flag is passed over with a warning"""
    t = small(flags=0x10001)
    code, d, err = sane(t.bytes(), "flag")
    equal((code, d["trace"]["events"]), (0, 2))
    check(b"unknown feature" in err, err)
    code, d, err = sane(small(flags=0x8001).bytes(), "unknown lower flag")
    equal((code, d["trace"]["complete"]), (0, True))


@test
def order_and_foreign():
    """chunks in any order, doubled, missing, and of another trace"""
    t = small()
    other = Trace(trace_id=99)
    other.event("alloc", 1, ptr=5, bytes=1 << 30, device=0)
    other.flush(last=True)
    a, b = t.out
    equal([e["event"] for e in events(b + a)[1]], [0, 1, 2])
    code, d, err = sane(a + other.bytes() + b, "foreign")
    equal((d["trace"]["events"], d["trace"]["complete"], err), (3, True, b""))
    code, d, err = sane(a + b + a, "doubled")
    equal((d["trace"]["events"], d["trace"]["complete"]), (3, False))
    check(b"occurred before" in err, err)
    code, d, err = sane(b, "only the end")
    equal((d["trace"]["wrapped"], d["trace"]["events"]), (True, 1))


@test
def skippable_frames():
    """frames that other tools put into a file are passed over; garbage between chunks costs nothing else"""
    a, b = small().out
    free = struct.pack("<II", 0x184D2A50, 24) + bytes(24)
    equal(len(events(a + free + b)[1]), 3)
    for garbage in (bytes(64), b"\xff" * 40, b"CUTRCHNK" * 8, struct.pack("<II", 0x184D2A5C, 96) + b"CUTRCHNK" + bytes(88)):
        code, d, err = sane(a + garbage + b, "garbage")
        equal((code, d["trace"]["events"], d["trace"]["damaged_places"]), (0, 3, 1), repr(garbage[:8]))
        check(b"offset %d" % len(a) in err, err)


@test
def bombs():
    """sizes that lie: nothing is allocated or decompressed on a file's word"""
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


@test
def malformed_bodies():
    """bodies whose inside is wrong: counts, lengths, ids and codings"""
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
                            "body %d behind others" % i, (0,))
        check(d["trace"]["events"] >= 3, "body %d hides others" % i)
        for view in ("dump", "top", "frag", "timeline", "oom", "info"):
            code, _, err = report(view, "--json", os.path.join(FOLDER, "t.zst"))
            check(code == 0, "body %d: %s exits %d %r" % (i, view, code, err))


@test
def extreme_values():
    """fields with the largest values keep every view alive"""
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
    t.flush(last=True)
    path = write(t.bytes())
    for view in ("summary", "oom", "top", "timeline", "frag", "dump", "info", "check"):
        for more in ((), ("--json",), ("--capacity=1",), ("--from=1", "--to=2"), ("--device=63",), ("--top=1",)):
            code, out, err = report(view, *more, path)
            check(code in (0, 3), "%s %s: %d %r" % (view, more, code, err))
            if "--json" in more and code == 0:
                for line in out.splitlines():
                    json.loads(line)


@test
def dictionary_generations():
    """ids mean what their generation says, and definitions may be replaced or come late"""
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
    equal(got[0]["stack"], [{"name": "foo::bar()", "file": None, "line": None, "module": "/lib/x.so", "offset": 0x99}])


@test
def amendments():
    """an AMEND corrects the event of its own thread, before or behind it in the file"""
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


@test
def not_a_trace():
    """files that are no traces, folders, and what cannot be opened: one line and 3"""
    for data in (b"", b"\x00" * 200, b"hello world\n" * 30, zstd_frame(b"some text")):
        sane(data, repr(data[:10]), (3,))
    for path in (os.path.join(FOLDER, "missing.zst"), FOLDER):
        code, out, err = report("summary", path)
        equal((code, out, err.count(b"\n")), (3, b"", 1), path)


@test
def standard_input():
    """a trace from a pipe and from a redirected file is the same as from its path"""
    data = traces.refused()
    path = write(data)
    want = report("top", path)[1]
    equal(report("top", "-", data=data)[1], want)
    done = subprocess.run("%s top - < %s; %s top /dev/stdin < %s" % ((report.__globals__["REPORT"], path) * 2), shell=True,
                          stdout=subprocess.PIPE, check=True)
    equal(done.stdout, want * 2)


@test
def several_traces():
    """several traces: each is reported, a bad one does not hide the others"""
    a, bad = write(traces.refused(), "a.zst"), write(b"nothing", "bad.zst")
    code, out, err = report("summary", a, bad, a)
    equal((code, out.count(b"refused 4.30 GiB"), err.count(b"\n")), (3, 2, 1))
    code, out, err = report("summary", "--json", a, bad, a)
    d = json.loads(out)
    equal((code, len(d), d[1], d[0] == d[2]), (3, 3, None, True))


main()
