#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a trace by FORMAT.md alone: a second implementation, to check the recorder with.

Usage: read_trace.py TRACE   prints events as JSON lines. It shares nothing with the C sources: field and operation
numbers are written out below, and the bodies are decompressed by the zstd program.
"""
import collections
import json
import struct
import subprocess
import sys

OPS = ("- amend alloc free reserve unreserve create release map unmap register unregister retain export access graph-alloc "
       "graph-free pool-create pool-destroy pool-trim pool-sample ipc-open ipc-close import context-create context-destroy "
       "module-load module-unload limit memory-sample lost note").split()
FIELDS = ("- t_ns thread op api result device context ptr bytes stack duration_ns handle stream pool space flags free_bytes "
          "total_bytes free_before_bytes process_bytes reserved_bytes used_bytes offset text count amends_ns").split()
SIGNED = {"result", "device"}
M64 = (1 << 64) - 1


class Bad(Exception):
    pass


def xxh64(data):
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rot(v, n):
        return (v << n | v >> (64 - n)) & M64

    def rnd(acc, lane):
        return rot((acc + lane * p2) & M64, 31) * p1 & M64

    n, i = len(data), 0
    if n >= 32:
        acc = [(p1 + p2) & M64, p2, 0, -p1 & M64]
        while n - i >= 32:
            for k in range(4):
                acc[k] = rnd(acc[k], struct.unpack_from("<Q", data, i + 8 * k)[0])
            i += 32
        h = (rot(acc[0], 1) + rot(acc[1], 7) + rot(acc[2], 12) + rot(acc[3], 18)) & M64
        for a in acc:
            h = ((h ^ rnd(0, a)) * p1 + p4) & M64
    else:
        h = p5
    h = (h + n) & M64
    while n - i >= 8:
        h = (rot(h ^ rnd(0, struct.unpack_from("<Q", data, i)[0]), 27) * p1 + p4) & M64
        i += 8
    if n - i >= 4:
        h = (rot(h ^ (struct.unpack_from("<I", data, i)[0] * p1 & M64), 23) * p2 + p3) & M64
        i += 4
    while i < n:
        h = rot(h ^ (data[i] * p5 & M64), 11) * p1 & M64
        i += 1
    h = ((h ^ h >> 33) * p2) & M64
    h = ((h ^ h >> 29) * p3) & M64
    return h ^ h >> 32


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def more(self):
        return self.at < len(self.data)

    def varint(self):
        v = shift = 0
        while True:
            b = self.data[self.at]
            self.at += 1
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                if v > M64:
                    raise Bad("varint")
                return v

    def take(self, n):
        if self.at + n > len(self.data):
            raise Bad("length")
        piece = self.data[self.at:self.at + n]
        self.at += n
        return piece

    def text(self):
        return self.take(self.varint())

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]


def unzigzag(v):
    return (v >> 1) ^ -(v & 1)


def chunks(data):
    """Headers and bodies as they stand in the file; everything between them must be skippable frames."""
    at, found = 0, []
    while at < len(data):
        if at % 8:
            raise Bad(f"chunk at {at} is not aligned")
        magic, length = struct.unpack_from("<II", data, at)
        if magic != 0x184D2A5C or length != 96:
            raise Bad(f"no chunk at {at}")
        head = data[at + 8:at + 104]
        f = dict(zip("magic version header flags seq dict_seq first_event events reserved t_first t_last body raw trace_id sum".split(),
                     struct.unpack("<8sHHIQQQIIQQQQQQ", head)))
        if f["magic"] != b"CUTRCHNK" or f["version"] != 1 or f["header"] != 96 or f["reserved"]:
            raise Bad(f"header at {at}")
        if xxh64(head[:88]) != f["sum"]:
            raise Bad(f"checksum at {at}")
        body = data[at + 104:at + 104 + f["body"]]
        raw = subprocess.run(["zstd", "-dcq"], input=body, stdout=subprocess.PIPE, check=True).stdout
        if len(raw) != f["raw"] or len(raw) > 64 << 20:
            raise Bad(f"body at {at}")
        at += 104 + f["body"]
        magic, length = struct.unpack_from("<II", data, at)
        if magic != 0x184D2A5F or length > 7 or any(data[at + 8:at + 8 + length]):
            raise Bad(f"filler at {at}")
        at += 8 + length
        found.append((f, raw))
    return found


def events_of(section):
    n, columns = section.varint(), {}
    while section.more():
        field, coding = section.varint(), section.varint()
        columns[field] = (coding, Cursor(section.take(section.u32())), [0])
    for _ in range(n):
        e = {}
        mask = columns[0][1].varint()
        for field in range(1, 64):
            if not mask >> field & 1:
                continue
            coding, values, last = columns[field]
            v = values.varint()
            if coding == 1:
                last[0] = v = (last[0] + unzigzag(v)) & M64
            name = FIELDS[field]
            e[name] = v - (1 << 64) if name in SIGNED and v >> 63 else v
        e["op"] = OPS[e["op"]]
        yield e
    for coding, values, _ in columns.values():
        if values.more():
            raise Bad("column is longer than its records")


class Trace:
    """info, events (with names resolved), heads, generations."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.info, self.events, self.amends, self.heads = {}, [], [], []
        tables, ids = {}, set()
        for f, raw in chunks(self.data):
            if f["seq"] != len(self.heads):
                raise Bad(f"chunk {f['seq']} where {len(self.heads)} should be")
            if self.heads and f["trace_id"] != self.heads[0]["trace_id"]:
                raise Bad("trace id")
            if f["dict_seq"] == f["seq"]:
                tables = {k: {} for k in range(2, 7)}
            elif not self.heads or f["dict_seq"] != self.heads[-1]["dict_seq"]:
                raise Bad("dict_seq")
            self.heads.append(f)
            self.body(f, Cursor(raw), tables)
        self.ids = ids

    def body(self, f, body, tables):
        numbered, records = 0, []
        if f["first_event"] != len(self.events):
            raise Bad("first_event")
        while body.more():
            kind = body.varint()
            section = Cursor(body.take(body.u32()))
            if kind == 1:
                while section.more():
                    key = section.text().decode()
                    self.info[key] = section.text().decode("utf-8", "surrogateescape")
            elif 2 <= kind <= 6:
                while section.more():
                    ident = section.varint()
                    self.define(kind, ident, Cursor(section.text()), tables)
            elif kind == 7:
                records += events_of(section)
        for e in records:
            self.resolve(e, tables)
            if e["op"] == "amend":
                self.amends.append(e)
            else:
                numbered += 1
                self.events.append(e)
        if numbered != f["events"] or bool(f["flags"] & 2) != any(e["op"] == "amend" for e in records):
            raise Bad("count of events")
        if records and (records[0]["t_ns"], records[-1]["t_ns"]) != (f["t_first"], f["t_last"]):
            raise Bad("times of chunk")

    @staticmethod
    def define(kind, ident, p, tables):
        if not ident:
            raise Bad("id 0")

        def string(i):
            return tables[2][i] if i else None  # a definition must come before its use
        if kind == 2:
            value = p.data.decode("utf-8", "surrogateescape")
        elif kind == 3:
            value = dict(path=string(p.varint()), base=p.varint(), start=p.varint(), end=p.varint(), build_id=p.text().hex())
        elif kind == 4:
            if p.varint() != 0:
                raise Bad("frame kind")
            value = dict(pc=p.varint(), module=p.varint(), offset=p.varint(), symbol=string(p.varint()), symbol_offset=p.varint())
            if value["module"]:
                module = tables[3][value["module"]]
                if not module["start"] <= value["pc"] <= module["end"] or value["pc"] - module["base"] != value["offset"]:
                    raise Bad("frame outside of its module")
        elif kind == 5:
            value, last = [], 0
            for _ in range(p.varint()):
                last += unzigzag(p.varint())
                if last not in tables[4]:
                    raise Bad("stack with an unknown frame")
                value.append(last)
        else:
            value = dict(tid=p.varint(), name=string(p.varint()))
        tables[kind][ident] = value

    @staticmethod
    def resolve(e, tables):
        for field, kind in (("api", 2), ("text", 2), ("thread", 6)):
            if field in e:
                e[field] = tables[kind][e[field]]
        if "stack" in e:
            # Frames are replaced later by named ones: the tables are kept, so that they are looked up at the end.
            e["stack"] = (tables, tables[5][e["stack"]])

    def stack(self, e):
        tables, frames = e["stack"]
        return [dict(tables[4][i], module=tables[3].get(tables[4][i]["module"])) for i in frames]

    def amended(self):
        """Events with their corrections. `orphans` counts by thread those of events that are not there, which must
        have been lost."""
        self.orphans = collections.Counter()
        by = {(e["thread"]["tid"], e["t_ns"]): e for e in self.events if "thread" in e}
        for a in self.amends:
            event = by.get((a["thread"]["tid"], a["amends_ns"]))
            if event is None:
                self.orphans[a["thread"]["tid"]] += 1
            else:
                event.update({k: a[k] for k in ("result", "duration_ns", "stack") if k in a})
        return self.events


def main():
    trace = Trace(sys.argv[1])
    for e in trace.amended():
        if "stack" in e:
            e = dict(e, stack=[f["symbol"] or hex(f["offset"]) for f in trace.stack(e)])
        print(json.dumps(e))
    print(json.dumps(trace.info), file=sys.stderr)


if __name__ == "__main__":
    main()
