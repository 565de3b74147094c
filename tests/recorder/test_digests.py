#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The digest of each chunk says what its events say. The truth is a second implementation by FORMAT.md alone
(tests/lib/digests.py); `cutrace-report info` must agree with it, and name each digest that is wrong."""
import json
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from noted import *  # noqa: E402,F403
from tap import case, check, equal, note  # noqa: E402

import add_digests  # noqa: E402
import digests  # noqa: E402
import mktrace  # noqa: E402
import read_trace  # noqa: E402

def chunk_frames(data):
    """(place of the digest's frame or None, place of the filler, head) of each chunk."""
    at = 0
    while at < len(data):
        magic, length = struct.unpack_from("<II", data, at)
        if magic == 0x184D2A5C:
            prefix = at + 8
            at += 104 + struct.unpack_from("<Q", data, at + 72)[0]
            found = None
            if struct.unpack_from("<I", data, at)[0] == read_trace.DIGEST:
                found = at
                at += 8 + struct.unpack_from("<I", data, at + 4)[0]
            yield found, at, prefix
            length = struct.unpack_from("<I", data, at + 4)[0]
        at += 8 + length


def with_parts(data, at, parts):
    """The file with other parts in the digest at a place; the checksum is right, and the next chunk aligned."""
    length = struct.unpack_from("<I", data, at + 4)[0]
    content = data[at + 24:at + 36] + parts
    frame = b"CUTRDGST" + struct.pack("<Q", read_trace.xxh64(content)) + content
    after = at + 8 + length
    after += 8 + struct.unpack_from("<I", data, after + 4)[0]
    head = data[:at] + struct.pack("<II", read_trace.DIGEST, len(frame)) + frame
    pad = -len(head) % 8
    return head + struct.pack("<II", 0x184D2A5F, pad) + bytes(pad) + data[after:]


def without(data):
    """The file as it would be without digests."""
    out, last = b"", 0
    for found, filler, _ in list(chunk_frames(data)):
        out += data[last:found if found is not None else filler]
        pad, length = -len(out) % 8, struct.unpack_from("<I", data, filler + 4)[0]
        out += struct.pack("<II", 0x184D2A5F, pad) + bytes(pad)
        last = filler + 8 + length
    return out + data[last:]


# ---- what a recorder writes (other traces of its: test_quick.py) -------------------------------------


@case("frees that fail after their chunk: each digest has what was known then")
def failed_frees():
    where = folder()
    path = logged(where, 60000, SIM_FAIL="cuMemFree_v2:500-503:1,cuMemFree_v2:9000-9060:1", CUTRACE_FLUSH_MS="1")
    return judged(path)


@case("CUTRACE_MEMORY: the ring of chunks in the journal keeps them, sealed or flushed")
def memory():
    problems = []
    for calls in (0, 4000):
        where = folder()
        p = start(where, program("worker"), "2", "50", "64", str(calls), "7",
                  env={"CUTRACE_MEMORY": "1", "CUTRACE_FLUSH_MS": "10", "WORKER_REFUSALS": "0"})
        if calls:
            p.wait(HANG)
        else:
            wait_for_calls(where, p, 3000)
            kill(p, group=False)
        path = the(traces(where))
        if not calls:
            equal(report("copy", "--seal", path).returncode, 0)
        problems += judged(path, ring=True, full=0)
    return problems


# ---- a trace by hand -------------------------------------------------------------------------------

MIB = 1 << 20


def written_by_hand():
    """What a recorder seldom meets: two peaks of one height, the same least reading twice and a lower one by NVML, 70
    failed requests in a chunk, several lost events in a record, PyTorch's highest totals twice."""
    t, at = mktrace.Trace(), iter(range(1000, 1 << 30, 1000))
    t.version, t.columns = 3, mktrace.packed_columns
    call = {"device": 0, "tid": 7, "api": "cuMemAlloc_v2", "context": 1, "space": "device"}

    def alloc(ptr, mib):
        t.event("alloc", next(at), ptr=ptr, bytes=mib * MIB, result=0, stack=[("take", "/x/take.py", 4)], **call)

    def free(ptr):
        t.event("free", next(at), ptr=ptr, device=0, tid=7)

    def sample(free_mib, **more):
        t.event("memory-sample", next(at), tid=None, device=0, free_bytes=free_mib * MIB, total_bytes=900 * MIB, **more)

    def block(op, ptr, allocated, reserved):
        t.event(op, next(at), device=0, tid=7, ptr=ptr, bytes=512, allocated_bytes=allocated, reserved_bytes=reserved)

    alloc(1 << 30, 8)  # event 0
    t.flush()
    alloc(2 << 30, 4)  # 1: 12 MiB, the peak
    free(2 << 30)
    alloc(3 << 30, 4)  # 3: 12 MiB again
    sample(500)  # 4
    sample(300)  # 5: the least
    sample(300)  # 6
    sample(100, flags=["nvml"], process_bytes=MIB)  # 7: not by CUDA
    sample(400)  # 8: the last
    t.event("lost", next(at), tid=7, count=5)  # 9
    t.event("lost", next(at), tid=7, count=2)  # 10
    for i in range(70):  # 11 to 80
        t.event("alloc", next(at), bytes=1 << 50, result=2, **call)
    block("block-alloc", 3 << 30, 900, 2000)  # 81: the most
    block("block-alloc", (3 << 30) + 512, 900, 2000)
    block("block-free", 3 << 30, 500, 1500)  # 83: the last
    t.flush()
    free(1 << 30)  # 84
    failed = next(at)
    t.event("amend", failed, tid=7, amends_ns=failed - 1000, result=700)  # it is taken again
    free(3 << 30)
    done = next(at)
    t.event("amend", done, tid=7, amends_ns=done - 1000, result=0)
    alloc(4 << 30, 1)  # 86: nothing higher than before
    t.flush(last=True)
    return t.bytes()


@case("a trace by hand: the second implementation finds what was written, and check agrees with its digests")
def by_hand():
    where = folder()
    plain, path = written(where, written_by_hand()), os.path.join(where, "noted.zst")
    with open(path, "wb") as f:
        f.write(add_digests.add(plain))
    g = read_trace.Trace(path).heads[1]["digest"]
    equal((g["lost"], g["failed"], g["failed_events"]), (7, 70, list(range(11, 75))))
    d = g["devices"][0]
    equal((d["peak"][:2], d["live"]), ((12 * MIB, 1), 12 * MIB))
    equal((d["lowest"][0], d["last"][0]), (300 * MIB, 400 * MIB))
    equal(d["lowest"][2], d["peak"][2] + 4000)
    equal((d["reported"], d["most_allocated"], d["most_reserved"]), ((500, 1500), (900, 81), (2000, 81)))
    last = read_trace.Trace(path).heads[2]["digest"]
    equal((last["failed_frees"], last["devices"][0]["live"]), (1, 9 * MIB))
    check("peak" not in last["devices"][0])
    return judged(path, least=3, full=3)


# ---- copies ----------------------------------------------------------------------------------------


@case("copies (whole, in part, without names, as zip file) have right digests or none")
def copies():
    where = folder()
    path = logged(where)
    problems = []
    for how in ([], ["--from=0.01s"], ["--scrub=paths"], ["--scrub=strict"]):
        copy = os.path.join(where, "copy.zst")
        done = report("copy", *how, "--force", f"--output={copy}", path)
        equal(done.returncode, 0, done.stderr)
        problems += [f"{how}: {p}" for p in judged(copy, ring=True, least=0, full=0)]
    job = os.path.join(where, "job.zip")
    equal(report("copy", f"--output={job}", path, path).returncode, 0)
    equal(report("info", job).returncode, 0, "info of the zip file")
    return problems


@case("a reader that knows no digests says the same: views of the trace with and without them")
def nobody_needs_them():
    where = folder()
    path, bare = logged(where), os.path.join(where, "bare", "trace.zst")
    os.mkdir(os.path.dirname(bare))
    with open(path, "rb") as f:
        data = f.read()
    stripped = without(data)
    check(len(stripped) < len(data), "there was none")
    with open(bare, "wb") as f:
        f.write(stripped)
    found = os.path.join(where, "found", "trace.zst")
    os.mkdir(os.path.dirname(found))
    shutil.copy(path, found)
    subprocess.run(["zstd", "-tq", found], check=True)
    problems = []
    check("digests" not in report("info", path).stdout, "info names digests, of which none is missing")
    for view in ("summary", "top", "timeline", "oom", "frag", "info", "dump"):
        a, b = (subprocess.run([REPORT, view, "trace.zst"], cwd=os.path.dirname(p), capture_output=True, text=True) for p in (found, bare))
        if (a.returncode, a.stdout, a.stderr) != (b.returncode, b.stdout, b.stderr):
            problems.append(f"{view} differs")
    note(f"{len(data)} bytes, {len(data) - len(stripped)} of them of digests")
    return problems


# ---- wrong and hostile ones ------------------------------------------------------------------------


def varints(data, at, end):
    """Places and ends of the varints in a part."""
    while at < end:
        begin = at
        while data[at] & 128:
            at += 1
        at += 1
        yield begin, at


def encode(v):
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def figures(parts):
    """(kind, place of the part's length, begin, end) of each varint."""
    at = 0
    while at < len(parts):
        length = struct.unpack_from("<I", parts, at + 1)[0]
        for begin, end in varints(parts, at + 5, at + 5 + length):
            yield parts[at], at + 1, begin, end
        at += 5 + length


def edited(parts, length_at, begin, end, value):
    new = encode(value)
    length = struct.unpack_from("<I", parts, length_at)[0] + len(new) - (end - begin)
    return parts[:length_at] + struct.pack("<I", length) + parts[length_at + 4:begin] + new + parts[end:]


def a_trace():
    where = folder()
    path = logged(where, 6000, CUTRACE_FLUSH_MS="10000")
    with open(path, "rb") as f:
        data = f.read()
    places = [p for p, _, _ in chunk_frames(data) if p is not None]
    at = places[len(places) // 2]
    return where, data, at, data[at + 36:at + 8 + struct.unpack_from("<I", data, at + 4)[0]]


@case("each figure of a digest, off by one under a right checksum: info names the digest by its offset")
def off_by_one():
    where, data, at, parts = a_trace()
    problems = []
    for kind, length_at, begin, end in list(figures(parts)):
        value = read_trace.Cursor(parts[begin:end]).varint()
        path = written(where, with_parts(data, at, edited(parts, length_at, begin, end, value + 1)))
        done = report("info", "--json", path)
        damage = json.loads(done.stdout)["integrity"]["damage"]
        if done.returncode != 3 or not any(d["offset"] == at and "digest" in d["what"] for d in damage):
            problems.append(f"part {kind}, byte {begin}, {value} + 1: exit {done.returncode}, {damage}")
    return problems[:5]


@case("a wrong checksum is damage; another chunk's digest, a newer version or another tool's frame are no digests")
def not_counted():
    where, data, at, parts = a_trace()
    flipped = bytearray(data)
    flipped[at + 40] ^= 1
    done = report("info", written(where, bytes(flipped)))
    equal(done.returncode, 3)
    check(f"offset {at}: digest with a wrong checksum" in done.stdout, done.stdout)
    for place, value in ((24, b"12345678"), (32, b"\2\0")):
        other = data[:at + place] + value + data[at + place + len(value):]
        equal(report("info", written(where, with_parts(other, at, parts))).returncode, 0, f"offset {place}")
    named = data[:at + 8] + b"OTHERONE" + data[at + 16:]
    equal(report("info", written(where, named)).returncode, 0, "another tool's frame")


@case("a digest that contradicts the one before is damage, without a body being read; a damaged body is not seen then")
def quick():
    where = folder()
    with open(logged(where), "rb") as f:
        data = f.read()
    found = [(p, head) for p, _, head in chunk_frames(data) if p is not None]

    def judged_by(bytes_):
        of = written(where, bytes(bytes_))
        whole = report("info", "--json", of)
        equal(whole.returncode, 3)
        return (json.loads(whole.stdout)["integrity"]["damage"],
                json.loads(report("summary", "--quick", "--json", of).stdout)["first_damage_offset"])
    body = bytearray(data)
    body[found[2][1] + 96 + 40] ^= 255
    damage, first = judged_by(body)
    equal((len(damage), first), (1, None))
    at = found[2][0]
    parts = data[at + 36:at + 8 + struct.unpack_from("<I", data, at + 4)[0]]
    live = next(f for f in list(figures(parts))[2:] if f[0] == 4 and list(f for f in figures(parts) if f[0] == 4).index(f) == 2)
    value = read_trace.Cursor(parts[live[2]:live[3]]).varint()
    damage, first = judged_by(with_parts(data, at, edited(parts, *live[1:], value + 512)))
    equal((damage[0]["offset"], first), (at, at))


@case("hostile digests: cut, with lengths that lie, device 2^60, 10^9 sites; every view comes to an end")
def hostile():
    where, data, at, parts = a_trace()
    rng = dice()
    bad = [parts[:rng.randrange(len(parts))] for _ in range(10)]
    bad += [b"", parts + parts, parts[:5] + b"\xff" * 40, bytes([4]) + struct.pack("<I", 0xFFFFFFF0) + parts[5:]]
    for kind, length_at, begin, end in list(figures(parts)):
        for value in (1 << 60, (1 << 64) - 1):
            bad.append(edited(parts, length_at, begin, end, value))
    one = bytes([1]) + bytes(4)
    many = b"".join(encode(i) + one for i in range(1, 1000))
    bad.append(bytes([5]) + struct.pack("<I", len(many)) + many)
    wrong = len(bad)  # (one byte more or less of a time may be within its rounding)
    for _ in range(2000 if FULL else 30):
        new = bytearray(parts)
        for _ in range(rng.randrange(1, 6)):
            new[rng.randrange(len(new))] = rng.randrange(256)
        bad.append(bytes(new))
    problems = []
    for number, new in enumerate(bad):
        path = written(where, with_parts(data, at, new))
        for arguments in (("info",), ("info", "--json")):
            done = report(*arguments, path)
            if done.returncode not in (0, 3) or "runtime error" in done.stderr or "Sanitizer" in done.stderr:
                problems.append(f"{number}: {arguments}: exit {done.returncode}: {done.stderr[-500:]}")
        if number < wrong and report("info", path).returncode != 3:
            problems.append(f"{number}: accepted: {new[:60].hex()}")
    return problems[:5]


@case("times of a digest are relative to that of the prefix, where the first record has it rounded down")
def rounded():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "begins_with_amend.zst")  # the oldest chunk of a ring
    problems, count, _ = digests.check(path, True)
    first = next(e for e in read_trace.Trace(path, True).heads[0]["records"] if e["op"] != "amend")
    check(first["t_ns"] < read_trace.Trace(path, True).heads[0]["t_first"], first)
    done = report("info", "--json", path)
    equal((done.returncode, json.loads(done.stdout)["integrity"]["damage"], count), (4, [], 1), done.stderr)  # (it has no end)
    return problems


end()
