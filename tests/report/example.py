#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The worked example of FORMAT.md, section 6: prints it from the builder, annotated."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from mktrace import FIELDS, OPS, chunk, entry, packed_columns, raw_zstd_frame, section, text, varint, zigzag  # noqa: E402

BASE = 0x7F0000001000


def sections():
    """(section bytes, [(bytes, meaning)...]) for each section of the example's body."""
    def parts(kind, name, pieces):
        content = b"".join(b for b, _ in pieces)
        whole = section(kind, content)
        return [(whole[:1], "section kind %d: %s" % (kind, name)), (whole[1:5], "length %d" % len(content))] + pieces

    pc = BASE + 0x1234
    yield parts(1, "INFO", [
        (text("process.pid"), "key, 11 bytes: process.pid"),
        (text("42"), "value, 2 bytes: 42")])
    yield parts(2, "STRINGS", [
        (entry(1, b"cuMemAlloc_v2"), "id 1, 13 bytes: cuMemAlloc_v2"),
        (entry(2, b"cuMemFree_v2"), "id 2, 12 bytes: cuMemFree_v2"),
        (entry(3, b"/bin/app"), "id 3, 8 bytes: /bin/app"),
        (entry(4, b"load"), "id 4, 4 bytes: load"),
        (entry(5, b"train.py"), "id 5, 8 bytes: train.py")])
    module = varint(3) + varint(BASE) + varint(BASE + 0x1000) + varint(BASE + 0x2000) + text(b"\xab\xcd")
    yield parts(3, "MODULES", [
        (entry(1, module), "%d bytes: path 3, base 0x%x, start, end, build-id ab cd"
         % (len(module), BASE))])
    native = varint(0) + varint(pc) + varint(1) + varint(0x1234) + varint(4) + varint(0x34)
    python = varint(1) + varint(4) + varint(5) + varint(7)
    yield parts(4, "FRAMES", [
        (entry(1, native), "native, pc 0x%x, module 1 + 0x1234, symbol 4 + 0x34" % pc),
        (entry(2, python), "id 2, %d bytes: Python, function 4, file 5, line 7" % len(python))])
    yield parts(5, "STACKS", [
        (entry(1, varint(0) + varint(2) + varint(1) + varint(zigzag(2)) + varint(zigzag(-1))),
         "no parent, 2 nodes from 1 on: frames 2 (0 + 2), 1 (2 - 1)")])
    yield parts(6, "THREADS", [(entry(1, varint(4242) + varint(0)), "id 1, 3 bytes: tid 4242, name unknown")])

    records = [
        {"t_ns": 1000, "thread": 1, "op": OPS["alloc"], "api": 1, "result": 0, "device": 0, "ptr": 0x7F0000000000,
         "bytes": 4096, "stack": 1, "duration_ns": 300, "space": 1},
        {"t_ns": 2000, "thread": 1, "op": OPS["free"], "api": 2, "ptr": 0x7F0000000000},
        {"t_ns": 2500, "thread": 1, "op": OPS["amend"], "result": 700, "amends_ns": 2000}]
    content = packed_columns(records)
    masks = ", ".join("0x%x" % sum(1 << FIELDS[k][0] for k in r) for r in records)
    meaning = {
        0: "templates: three new ones, which get the numbers 0, 1, 2",
        1: "times, low bytes of the ticks: exact, 10, 5",
        3: "ops of the shapes, values: 2, 3, 1",
        4: "apis of the shapes, values: 1, 2",
        5: "results of the shapes, differences: 0, 700",
        6: "device of the first shape: 0",
        2: "thread, values: 1, 1, 1",
        8: "address of the allocation: in full",
        9: "bytes of the first template: 1 and 12 zeros: 0 << 6 | 12",
        10: "stack of the first template: 0 + 1 - 1",
        11: "duration, low byte of the ticks: 3 (300 ns)",
        15: "space of the first shape: 1",
        26: "amends_ns, differences: 2000",
        41: "three new shapes (0), masks " + masks,
        42: "times, high bytes: 255 (see column 43), 0, 254 (exact)",
        43: "tick of 100 ns; the first record is 10 ticks after 0 (zigzag)",
        44: "beyond the ticks of exact times: 0, 0 ns",
        45: "duration, high byte: 0",
        47: "address of the free: of the last allocation",
        49: "address in full, lowest byte", 50: "the next one", 51: "the next one", 52: "the next one",
        53: "and the rest, a difference to 0: 0x7f00",
    }
    names = {number: name for name, (number, _) in FIELDS.items()}
    pieces = [(content[:1], "3 records: alloc at 1000, free at 2000, amend at 2500")]
    at = 1
    while at < len(content):
        column, coding = content[at], content[at + 1]
        length = struct.unpack_from("<I", content, at + 2)[0]
        pieces.append((content[at:at + 6], "column %d%s, %s, %d byte%s" % (
            column, " " + names[column] if column in names else "", ("values", "differences", "packed")[coding], length, "" if length == 1 else "s")))
        pieces.append((content[at + 6:at + 6 + length], meaning[column]))
        at += 6 + length
    yield parts(7, "EVENTS", pieces)


def build():
    """(file bytes, [(bytes, meaning)...])"""
    body_parts = [p for s in sections() for p in s]
    body = b"".join(b for b, _ in body_parts)
    whole = chunk(0, body, events=2, times=(1000, 2000), flags=3, trace_id=0x1122334455667788, version=3)
    frame = raw_zstd_frame(body)
    names = [(4, "skippable frame 0x184D2A5C"), (4, "its length: 96"), (8, "magic CUTRCHNK"), (2, "version 3"),
             (2, "header_bytes 96"), (4, "flags: LAST, AMENDS"), (8, "seq 0"), (8, "dict_seq 0"), (8, "first_event 0"),
             (4, "events 2"), (4, "reserved"), (8, "t_first_ns 1000"), (8, "t_last_ns 2000"),
             (8, "body_bytes %d" % len(frame)), (8, "raw_bytes %d" % len(body)), (8, "trace_id"), (8, "checksum: XXH64 of the 88 bytes from the magic on"),
             (4, "zstd frame 0xFD2FB528"), (1, "one segment, 8-byte content size, checksum"), (8, "content size %d" % len(body)),
             (3, "last block, stored, %d bytes" % len(body))]
    out, at = [], 0
    for n, meaning in names:
        out.append((whole[at:at + n], meaning))
        at += n
    out += body_parts
    at += len(body)
    out.append((whole[at:at + 4], "checksum of the content: XXH64, low 4 bytes"))
    out.append((whole[at + 4:at + 12], "filler frame 0x184D2A5F, length %d" % (len(whole) - at - 12)))
    if len(whole) > at + 12:
        out.append((whole[at + 12:], "zeros up to a multiple of 8"))
    assert b"".join(b for b, _ in out) == whole
    return whole, out


def lines():
    at = 0
    for data, meaning in build()[1]:
        for i in range(0, len(data), 16):
            yield "%04x  %-47s  %s" % (at + i, data[i:i + 16].hex(" "), meaning if i == 0 else "")
        at += len(data)


if __name__ == "__main__":
    print("\n".join(line.rstrip() for line in lines()))
