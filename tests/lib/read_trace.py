#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a trace by FORMAT.md alone: a second implementation, to check the recorder with.

Usage: read_trace.py TRACE   prints events as JSON lines. It shares nothing with the C sources: the numbers of
fields and operations and the checksum are mktrace.py's, and the bodies are decompressed by the zstd program.
"""
import collections
import functools
import json
import struct
import subprocess
import sys

import mktrace
from mktrace import xxh64

OPS, FIELDS = ["-", *mktrace.OPS], ["-", *mktrace.FIELDS]
SIGNED = {"result", "device"}
M64 = (1 << 64) - 1


class Bad(Exception):
    pass


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


DIGEST = 0x184D2A5D
FLOW = "taken_bytes taken given_bytes given".split()


def flow(p):
    return {name: p.varint() for name in FLOW}


def sections(p):
    while p.more():
        kind = p.varint()
        yield kind, Cursor(p.take(p.u32()))


def digest_device(p, head):
    """A device's entry: FORMAT.md, section 10."""
    has, d = p.varint(), {"live": p.varint()}
    d.update(flow(p))
    if has & 1:
        d["peak"] = p.varint(), head["first_event"] + p.varint(), head["t_first"] + unzigzag(p.varint())
    for bit, name in ((2, "lowest"), (4, "last")):
        if has & bit:
            d[name] = p.varint(), p.varint(), head["t_first"] + unzigzag(p.varint())
    if has & 8:
        allocated, reserved = p.varint(), p.varint()
        d["reported"] = allocated, reserved
        d["most_allocated"] = p.varint(), head["first_event"] + p.varint()
        d["most_reserved"] = p.varint(), head["first_event"] + p.varint()
    return d


def digest(data, head):
    """What the frame behind a chunk's body says of its events."""
    if data[:8] != b"CUTRDGST" or len(data) + 8 > 8192:
        raise Bad("digest")
    total, chunk, version, zero = struct.unpack_from("<QQHH", data, 8)
    if xxh64(data[16:]) != total or chunk != head["sum"] or version != 1 or zero:
        raise Bad("head of a digest")
    g = {"lost": 0, "failed_frees": 0, "failed": 0, "failed_events": [], "devices": {}, "sites": []}
    seen = []
    for kind, p in sections(Cursor(data[28:])):
        seen.append(kind)
        if kind == 1:
            g["checkpoint"], g["definitions"] = p.varint() - 1, p.varint()
        elif kind == 2:
            g["ops"], op = {}, 0
            while p.more():
                op += p.varint()
                g["ops"][OPS[op]] = p.varint()
        elif kind == 3:
            g["lost"], g["failed"], last = p.varint(), p.varint(), head["first_event"]
            while p.more():
                last += p.varint()
                g["failed_events"].append(last)
        elif kind == 4:
            index = -1
            while p.more():
                index += 1 + p.varint()
                g["devices"][index] = digest_device(p, head)
        elif kind == 5:
            while p.more():
                g["sites"].append((p.varint(), flow(p)))
        elif kind == 6:
            g["rest"] = flow(p)
        elif kind == 7:
            g["failed_frees"] = p.varint()
        if p.more():
            raise Bad(f"part {kind} of a digest is too long")
    if [kind for kind in seen if kind not in (3, 7)] != [1, 2, 4, 5, 6] or seen != sorted(set(seen)):
        raise Bad(f"parts of a digest: {seen}")
    return g


def chunks(data):
    """Headers and bodies in the order of their numbers; everything between them must be free space."""
    at, found = 0, []
    while at < len(data):
        if at % 8:
            raise Bad(f"chunk at {at} is not aligned")
        magic, length = struct.unpack_from("<II", data, at)
        if magic == 0x184D2A50:
            at += 8 + length
            continue
        if magic != 0x184D2A5C or length != 96:
            raise Bad(f"no chunk at {at}")
        head = data[at + 8:at + 104]
        f = dict(zip("magic version header flags seq dict_seq first_event events reserved t_first t_last body raw trace_id sum".split(),
                     struct.unpack("<8sHHIQQQIIQQQQQQ", head)))
        if f["magic"] != b"CUTRCHNK" or f["version"] not in (1, 2, 3) or f["header"] != 96 or f["reserved"]:
            raise Bad(f"header at {at}")
        if xxh64(head[:88]) != f["sum"]:
            raise Bad(f"checksum at {at}")
        body = data[at + 104:at + 104 + f["body"]]
        raw = subprocess.run(["zstd", "-dcq"], input=body, stdout=subprocess.PIPE, check=True).stdout
        if len(raw) != f["raw"] or len(raw) > 64 << 20:
            raise Bad(f"body at {at}")
        at += 104 + f["body"]
        magic, length = struct.unpack_from("<II", data, at)
        f["digest"] = None
        if magic == DIGEST:
            f["digest"] = digest(data[at + 8:at + 8 + length], f)
            at += 8 + length
            magic, length = struct.unpack_from("<II", data, at)
        if magic != 0x184D2A5F or length > 7 or any(data[at + 8:at + 8 + length]):
            raise Bad(f"filler at {at}")
        at += 8 + length
        found.append((f, raw))
    return replaced(found)


PROVISIONAL = 16


def replaced(found):
    """One chunk for each number: the complete one, else the longest provisional one."""
    best = {}
    for f, raw in found:
        rank = (not f["flags"] & PROVISIONAL, f["raw"])
        before = best.get(f["seq"])
        if before and rank == before[0] and rank[0] and before[2] != raw:
            raise Bad(f"chunk {f['seq']} is there twice")
        if not before or rank > before[0]:
            best[f["seq"]] = (rank, f, raw)
    return [(f, raw) for _, (_, f, raw) in sorted(best.items())]


SHAPE = "op api result device context stream pool space flags".split()
TAKES = "alloc reserve map register graph-alloc ipc-open block-alloc".split()
BLOCKS = "block-alloc block-free block-oom".split()
M32 = (1 << 32) - 1


class Columns:
    """The columns of an EVENTS section, and what reading them in order needs to remember."""

    def __init__(self, section):
        self.left, self.columns, self.last = section.varint(), {}, collections.Counter()
        while section.more():
            column, coding = section.varint(), section.varint()
            self.columns[column] = (coding, Cursor(section.take(section.u32())))
        self.packed = 0 in self.columns and self.columns[0][0] == 2

    def varint(self, column):
        return self.columns[column][1].varint()

    def byte(self, column):
        cursor = self.columns[column][1]
        cursor.at += 1
        return cursor.data[cursor.at - 1]

    def value(self, field):
        """The next value of a field that has one for each record."""
        v = self.varint(field)
        if self.columns[field][0] == 1:
            self.last[field] = v = (self.last[field] + unzigzag(v)) & M64
        return v - (1 << 64) if FIELDS[field] in SIGNED and v >> 63 else v

    def end(self):
        for number, (_, values) in self.columns.items():
            if values.more():
                raise Bad(f"column {number} is longer than its records")


@functools.lru_cache(maxsize=None)
def fields_of(mask):
    return tuple(f for f in range(1, 64) if mask >> f & 1)


@functools.lru_cache(maxsize=None)
def names_of(mask):
    """The number of each field, by its name."""
    return {FIELDS[f]: f for f in fields_of(mask)}


def plain_events(columns):
    for _ in range(columns.left):
        yield {FIELDS[f]: columns.value(f) for f in fields_of(columns.varint(0))}


class Packed:
    """FORMAT.md, "Packed blocks"."""

    def __init__(self, columns):
        self.c = columns
        self.tick_ns = columns.varint(43)
        self.span_ns = 1  # the exact time is one of so many nanoseconds from the one written on
        self.tick = self.stack = self.high = self.end = 0
        self.shapes, self.templates = [], []
        self.taken, self.given = [], []  # (address, end, row); addresses
        self.rows = [[0] * 4 for _ in range(1024)]
        self.stated = collections.Counter()  # (field, device) -> what PyTorch stated last

    def shape(self):
        code = self.c.varint(41)
        if code:
            return code - 1, self.shapes[code - 1]
        mask = self.c.varint(41)
        if mask & 1 or mask >> 40:
            raise Bad("mask")
        shape = mask, {FIELDS[f]: self.c.value(f) for f in fields_of(mask) if FIELDS[f] in SHAPE}
        if len(self.shapes) == 1024:
            return None, shape
        self.shapes.append(shape)
        return len(self.shapes) - 1, shape

    def template(self):
        code = self.c.byte(0)
        if code >= 2:
            number = code - 2 if code < 192 else 190 + (code - 192) * 256 + self.c.byte(40)
            return self.templates[number]
        number, (mask, values) = self.shape()
        values = dict(values)
        if mask >> FIELDS.index("bytes") & 1:
            v = self.c.varint(9)
            values["bytes"] = 0 if v == 127 else self.c.varint(9) if v == 191 else ((v >> 6) * 2 + 1) << (v & 63)
        if mask >> FIELDS.index("stack") & 1:
            values["stack"] = (self.stack + 1 - self.c.varint(10)) & M32
            self.stack = max(self.stack, values["stack"])
        if code == 1:
            if number is None or len(self.templates) == 16574:
                raise Bad("template with a number too many")
            self.templates.append((mask, values))
        return mask, values

    def time(self):
        h, low = self.c.byte(42), self.c.byte(1)
        ticks, exact = h * 256 + low, h * 256 + low == 0
        if h == 254:
            ticks, exact = low, True
        elif h == 255:
            ticks, exact = unzigzag(self.c.varint(43)), low != 0
        self.tick += ticks
        self.span_ns = 1 if exact else self.tick_ns
        return self.tick * self.tick_ns + (self.c.varint(44) if exact and self.tick_ns != 1 else 0)

    def duration(self):
        h, low = self.c.byte(45), self.c.byte(11)
        return (self.c.varint(46) if h == 255 else h * 256 + low) * self.tick_ns

    def plain(self):
        low = sum(self.c.byte(49 + i) << 8 * i for i in range(4))
        self.high += unzigzag(self.c.varint(53))
        return (self.high << 32 | low) & M64

    def stated_total(self, e, name, field):
        device = e.get("device", -1)
        key = name, device if 0 <= device < 64 else None
        sign = {"block-alloc": 1, "block-free": -1}.get(OPS[e["op"]], 0) if name == "allocated_bytes" else 0
        self.stated[key] = self.stated[key] + sign * e.get("bytes", 0) + unzigzag(self.c.varint(field)) & M64
        return self.stated[key]

    def take(self, size):
        row = self.rows[(size * 0x9E3779B97F4A7C15 & M64) >> 54]
        c = self.c.byte(8)
        if c == 0:
            address = self.plain()
        elif c == 1:
            address = self.end
        elif c < 6:
            address = row.pop(c - 2)
            row.append(0)
        elif c < 200:
            address = self.back(self.given, c - 5 if c < 150 else 145 + (c - 150) * 256 + self.c.byte(48))
        else:
            address = self.back(self.taken, 1 + (c - 200) * 256 + self.c.byte(48))[1]
        self.end = address + size & M64
        self.taken.append((address, self.end, row))
        return address

    def give(self):
        c = self.c.byte(47)
        if c == 0:
            address = self.plain()
        else:
            address, _, row = self.back(self.taken, c if c < 192 else 192 + (c - 192) * 256 + self.c.byte(48))
            row.insert(0, address)
            row.pop()
        self.given.append(address)
        return address

    @staticmethod
    def back(things, distance):
        if distance > len(things):
            raise Bad("distance")
        return things[-distance]

    def events(self):
        for _ in range(self.c.left):
            mask, values = self.template()
            e = dict(values)
            names = names_of(mask)
            if "t_ns" in names:
                e["t_ns"] = self.time()
            for name, f in names.items():
                if name in ("reserved_bytes", "allocated_bytes") and OPS[e.get("op", 0)] in BLOCKS:
                    e[name] = self.stated_total(e, name, f)
                elif name not in e and name not in ("ptr", "duration_ns"):
                    e[name] = self.c.value(f)
            if "ptr" in names:
                e["ptr"] = self.take(e.get("bytes", 0)) if OPS[e.get("op", 0)] in TAKES else self.give()
            if "duration_ns" in names:
                e["duration_ns"] = self.duration()
            yield e


def events_of(section):
    columns = Columns(section)
    packed = Packed(columns) if columns.packed else None
    for e in packed.events() if packed else plain_events(columns):
        e["op"] = OPS[e["op"]]
        e["span_ns"] = packed.span_ns if packed else 1
        yield e
    columns.end()


class Trace:
    """info, events (with names resolved), heads, generations. ring: chunks may be missing, and are `missing`; of the
    others those count of whose generation all are there; `first_event` is the number of events[0]."""

    def __init__(self, path, ring=False):
        with open(path, "rb") as f:
            self.data = f.read()
        self.info, self.events, self.amends, self.heads = {}, [], [], []
        tables, ids = {}, set()
        self.missing = self.first_event = 0
        for f, raw in self.usable(chunks(self.data), ring):
            if self.heads and f["trace_id"] != self.heads[0]["trace_id"]:
                raise Bad("trace id")
            if f["dict_seq"] == f["seq"]:
                tables = {k: {} for k in [*range(2, 7), "nodes", "children"]}
            elif not self.heads or f["dict_seq"] != self.heads[-1]["dict_seq"]:
                raise Bad("dict_seq")
            if self.missing and not self.events:
                self.first_event = f["first_event"]
            self.heads.append(f)
            f["records"], f["tables"], f["raw_body"] = self.body(f, Cursor(raw), tables), tables, raw
        self.ids = ids

    def usable(self, found, ring):
        whole, expected = False, 0  # the generation is, so far
        for f, raw in found:
            self.missing += f["seq"] - expected
            if f["seq"] != expected and not ring:
                raise Bad(f"chunk {f['seq']} where {expected} should be")
            whole = f["dict_seq"] == f["seq"] or (whole and f["seq"] == expected)
            expected = f["seq"] + 1
            if whole:
                yield f, raw

    def body(self, f, body, tables):
        numbered, records = [], []
        if f["first_event"] != self.first_event + len(self.events) and not self.missing:
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
                numbered.append(e)
        self.events += numbered
        if len(numbered) != f["events"] or bool(f["flags"] & 2) != any(e["op"] == "amend" for e in records):
            raise Bad("count of events")
        none = {"t_ns": 0, "span_ns": 1}
        first, last = (numbered[0], numbered[-1]) if numbered else (none, none)
        # (The first event's time may be rounded, too, if an AMEND is the first record.)
        for claimed, e in ((f["t_first"], first), (f["t_last"], last)):
            if not 0 <= claimed - e["t_ns"] < e["span_ns"]:
                raise Bad("times of chunk")
        return records

    @staticmethod
    def branch(p, tables):
        """A stack's node. Whatever the tree has is not to be written again."""
        node, new = p.varint(), p.varint()
        number, frame = p.varint() if new else 0, 0
        nodes, children, frames = tables["nodes"], tables["children"], tables[4]
        if node and node not in nodes or not node and not new:
            raise Bad("stack that grows from nowhere")
        if new and number != len(nodes) + 1:
            raise Bad("node that is there already")
        data, at = p.data, p.at
        for i in range(number, number + new):
            # A varint in place: there are millions of them, most of one or two bytes.
            v = data[at]
            at += 1
            if v > 127:
                v += (data[at] - 1) << 7
                at += 1
                if v >= 1 << 14:
                    p.at = at - 2
                    v, at = p.varint(), p.at
            frame += (v >> 1) ^ -(v & 1)
            if frame not in frames:
                raise Bad("stack with an unknown frame")
            pair = node, frame
            if pair in children:
                raise Bad("node that is there already")
            nodes[i] = pair
            children[pair] = node = i
        p.at = at
        return node

    def define(self, kind, ident, p, tables):
        if not ident:
            raise Bad("id 0")

        def string(i):
            return tables[2][i] if i else None  # a definition must come before its use
        if kind == 2:
            value = p.data.decode("utf-8", "surrogateescape")
        elif kind == 3:
            value = dict(path=string(p.varint()), base=p.varint(), start=p.varint(), end=p.varint(), build_id=p.text().hex())
        elif kind == 4:
            frame = p.varint()
            if frame == 1:
                value = dict(python=string(p.varint()), file=string(p.varint()), line=p.varint(), module=0, symbol=None)
            elif frame == 2:
                value = dict(end={1: "deeper", 2: "lost"}[p.varint()], module=0, symbol=None)
            elif frame:
                raise Bad("frame kind")
            else:
                value = dict(pc=p.varint(), module=p.varint(), offset=p.varint(), symbol=string(p.varint()), symbol_offset=p.varint())
            if value["module"]:
                module = tables[3][value["module"]]
                if not module["start"] <= value["pc"] <= module["end"] or value["pc"] - module["base"] != value["offset"]:
                    raise Bad("frame outside of its module")
        elif kind == 5:
            value = self.branch(p, tables)
            if p.more():
                raise Bad("something behind a stack")
        else:
            value = dict(tid=p.varint(), name=string(p.varint()))
        tables[kind][ident] = value

    @staticmethod
    def resolve(e, tables):
        for field, kind in (("api", 2), ("text", 2), ("domain", 2), ("category", 2), ("thread", 6)):
            if field in e:
                e[field] = tables[kind][e[field]]
        if "stack" in e:
            e["at"] = tables, e["stack"]
            # Frames are replaced later by named ones: the tables are kept, so that they are looked up at the end.
            e["stack"] = (tables, tables[5][e["stack"]])

    def stack(self, e):
        tables, node = e["stack"]
        out = []
        while node:
            node, i = tables["nodes"][node]
            out.append(dict(tables[4][i], module=tables[3].get(tables[4][i]["module"])))
        return out

    def amended(self):
        """Events with their corrections. `orphans` counts by thread those of events that are not there, which must
        have been lost."""
        self.orphans = collections.Counter()
        by = {(e["thread"]["tid"], e["t_ns"] // e["span_ns"], e["span_ns"]): e for e in self.events if "thread" in e}
        spans = {span for _, _, span in by}
        for a in self.amends:
            found = [by.get((a["thread"]["tid"], a["amends_ns"] // span, span)) for span in spans]
            event = next((e for e in found if e), None)
            if event is None:
                self.orphans[a["thread"]["tid"]] += 1
            else:
                event.update({k: a[k] for k in ("result", "duration_ns", "stack") if k in a})
        return self.events


def main():
    trace = Trace(sys.argv[1])
    for e in trace.amended():
        at = e.pop("at", None)
        if at:
            e = dict(e, stack=[f["symbol"] or hex(f["offset"]) for f in trace.stack(e)])
        print(json.dumps(e))
    print(json.dumps(trace.info), file=sys.stderr)


if __name__ == "__main__":
    main()
