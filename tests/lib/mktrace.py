#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds cutrace traces in Python, from the words of include/cutrace/format/FORMAT.md and nothing else.

The C code is not asked: its constants are not read and its coders are not called, so that a mistake
which both directions of it share shows. Needs Python's standard library and the zstd program.
"""
import functools
import struct
import subprocess

MASK = (1 << 64) - 1

OPS = {name: i + 1 for i, name in enumerate(
    "amend alloc free reserve unreserve create release map unmap register unregister retain export access "
    "graph-alloc graph-free pool-create pool-destroy pool-trim pool-sample ipc-open ipc-close import "
    "context-create context-destroy module-load module-unload limit memory-sample lost note block-alloc block-free block-oom "
    "mark range-push range-pop range-start range-end suballoc subfree subpool subname process process-gone host-sample".split())}
# field -> (number, coding): 0 varint, 1 zigzag of the difference to the value before it
FIELDS = {
    "t_ns": (1, 1), "thread": (2, 0), "op": (3, 0), "api": (4, 0), "result": (5, 1), "device": (6, 1),
    "context": (7, 1), "ptr": (8, 1), "bytes": (9, 0), "stack": (10, 1), "duration_ns": (11, 0),
    "handle": (12, 1), "stream": (13, 1), "pool": (14, 1), "space": (15, 0), "flags": (16, 0),
    "free_bytes": (17, 1), "total_bytes": (18, 1), "free_before_bytes": (19, 1), "process_bytes": (20, 1),
    "reserved_bytes": (21, 1), "used_bytes": (22, 1), "offset": (23, 0), "text": (24, 0), "count": (25, 0),
    "amends_ns": (26, 1), "event": (27, 1), "refs": (28, 0), "allocated_bytes": (29, 1),
    "domain": (30, 0), "category": (31, 0), "pid": (32, 1)}
FLAGS = {name: 1 << i for i, name in enumerate(
    "runtime captured async array deferred multicast foreign primary green reset nvml graph derived segment holds-segment".split())}
SPACES = {"device": 1, "managed": 2, "host": 3}
LAST, AMENDS, SEGMENT, SEALED, PROVISIONAL = 1, 2, 4, 8, 16
FIRST_PART, LAST_PART, INEXACT = 1, 2, 4  # of a checkpoint


@functools.lru_cache(1 << 12)
def varint(v):
    out = bytearray()
    v &= MASK
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def zigzag(d):
    """d: a difference modulo 2**64."""
    d &= MASK
    return (d << 1 ^ (MASK if d >> 63 else 0)) & MASK


def xxh64(data):
    """XXH64 with seed 0, from the algorithm's description."""
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                          0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)

    def rol(v, n):
        return (v << n | v >> 64 - n) & MASK

    def lane(acc, v):
        return rol((acc + v * p2) & MASK, 31) * p1 & MASK

    at = 0
    if len(data) >= 32:
        acc = [(p1 + p2) & MASK, p2, 0, -p1 & MASK]
        while len(data) - at >= 32:
            acc = [lane(a, v) for a, v in zip(acc, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rol(a, n) for a, n in zip(acc, (1, 7, 12, 18))) & MASK
        for a in acc:
            h = ((h ^ lane(0, a)) * p1 + p4) & MASK
    else:
        h = p5
    h = (h + len(data)) & MASK
    while len(data) - at >= 8:
        h = (rol(h ^ lane(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & MASK
        at += 8
    if len(data) - at >= 4:
        h = (rol(h ^ struct.unpack_from("<I", data, at)[0] * p1 & MASK, 23) * p2 + p3) & MASK
        at += 4
    for b in data[at:]:
        h = rol(h ^ b * p5 & MASK, 11) * p1 & MASK
    h = (h ^ h >> 33) * p2 & MASK
    h = (h ^ h >> 29) * p3 & MASK
    return h ^ h >> 32


def raw_zstd_frame(body):
    """A zstd frame of stored blocks with content size and checksum: the same bytes on every machine."""
    out = struct.pack("<IBQ", 0xFD2FB528, 0xE4, len(body))  # single segment, 8-byte content size, checksum
    blocks = [body[i:i + 65536] for i in range(0, len(body), 65536)] or [b""]
    for i, block in enumerate(blocks):
        head = len(block) << 3 | (1 if i == len(blocks) - 1 else 0)
        out += struct.pack("<I", head)[:3] + block
    return out + struct.pack("<Q", xxh64(body))[:4]


def zstd_frame(body):
    """A compressed frame with content size and checksum, by the zstd program."""
    return subprocess.run(["zstd", "-q", "-c", "-1", "--check", "--stream-size=%d" % len(body)],
                          input=body, stdout=subprocess.PIPE, check=True).stdout


def section(kind, content):
    return varint(kind) + struct.pack("<I", len(content)) + content


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return varint(len(b)) + b


def entry(number, payload):
    return varint(number) + varint(len(payload)) + payload


def info_section(pairs):
    return section(1, b"".join(text(k) + text(v) for k, v in pairs.items()))


def history(start_ns, width_ns, cells):
    """A HISTORY section's content. cells: (device, bucket, events, refused, {quantity: (min, max, last)}), in order."""
    out = varint(start_ns) + varint(width_ns) + varint(len(cells))

    def row(number, values):
        data = b"".join(map(varint, values))
        return varint(number) + struct.pack("<I", len(data)) + data

    befores = [None] + cells[:-1]
    out += row(0, [c[0] - (b[0] if b else 0) for b, c in zip(befores, cells)])
    out += row(1, [c[1] - (b[1] if b and b[0] == c[0] else 0) for b, c in zip(befores, cells)])
    out += row(2, [sum(1 << q for q in c[4]) for c in cells])
    out += row(3, [c[2] for c in cells]) + row(4, [c[3] for c in cells])
    for q in range(7):
        last, device, lasts, below, above = 0, None, [], [], []
        for c in cells:
            if c[0] != device:
                last, device = 0, c[0]
            if q in c[4]:
                low, high, end = c[4][q]
                lasts.append(zigzag(end - last))
                below.append(end - low)
                above.append(high - end)
                last = end
        out += row(8 + 3 * q, lasts) + row(9 + 3 * q, below) + row(10 + 3 * q, above)
    return out


class Known(dict):
    """What a function makes of a key, computed once."""

    def __init__(self, function, most=1 << 18):
        super().__init__()
        self.function, self.most = function, most

    def __missing__(self, key):
        made = self.function(key)
        if len(self) < self.most:
            self[key] = made
        return made


_varints = Known(varint)
_masks = Known(lambda names: varint(sum(1 << FIELDS[name][0] for name in names)))


def column(number, coding, data):
    data = b"".join(data)
    return varint(number) + varint(coding) + len(data).to_bytes(4, "little") + data


def differences(values):
    """Zigzag numbers of the difference of each value to the one before."""
    found = [v - before for v, before in zip(values, [0] + values)]
    if -1 << 62 < min(found) and max(found) < 1 << 62:
        return [d + d if d >= 0 else -d - d - 1 for d in found]
    return map(zigzag, found)


def columns(records, ids=None):
    """records: dictionaries of numbers by field name. ids: field -> what gives the number of a value that is none."""
    values = {name: [] for name in FIELDS}
    for r in records:
        for name, value in r.items():
            values[name].append(value)
    out = [column(0, 0, map(_masks.__getitem__, map(tuple, records)))]
    for name, (number, coding) in FIELDS.items():
        some = values[name]
        if ids and name in ids:
            some = list(map(ids[name].__getitem__, some))
        if some:
            out.append(column(number, coding, map(_varints.__getitem__, differences(some) if coding else some)))
    return varint(len(records)) + b"".join(out)


class Packed:
    """Packed columns, by FORMAT.md, section 3: every form that a template, a time or an address can have."""

    SHAPE = ("op", "api", "result", "device", "context", "stream", "pool", "space", "flags")
    TAKES = [OPS[op] for op in ("alloc", "reserve", "map", "register", "graph-alloc", "ipc-open", "block-alloc")]

    BLOCKS = [OPS[op] for op in ("block-alloc", "block-free", "block-oom")]

    def __init__(self, tick_ns=100):
        self.tick_ns, self.count = tick_ns, 0
        self.out, self.last = {}, {}
        self.shapes, self.templates = {}, {}
        self.before = None  # time of the record before
        self.stack = self.high = self.end = 0
        self.taken, self.given = [], []  # (address, end, size); addresses
        self.last = {"given": {}, "taken": {}, "end": {}}  # where each address stands last in them
        self.rows = {}
        self.stated = {}  # device -> {field: what PyTorch stated last}
        self.varint(43, tick_ns)

    def bytes(self, column, *values):
        self.out.setdefault(column, bytearray()).extend(values)

    def varint(self, column, v):
        self.bytes(column, *varint(v))

    def value(self, name, v):
        number, coding = FIELDS[name]
        self.varint(number, zigzag(v - self.last.get(name, 0)) if coding else v)
        self.last[name] = v

    def expect(self, record, name):
        """What a block says of its device, against what the blocks before it said."""
        device = record.get("device")
        before = self.stated.setdefault(device if device in range(64) else None, {"reserved_bytes": 0, "allocated_bytes": 0})
        moved = {OPS["block-alloc"]: 1, OPS["block-free"]: -1}.get(record["op"], 0) if name == "allocated_bytes" else 0
        self.varint(FIELDS[name][0], zigzag(record[name] - before[name] - moved * record.get("bytes", 0)))
        before[name] = record[name]

    def define(self, mask, shape, record):
        if shape in self.shapes:
            self.varint(41, self.shapes[shape] + 1)
        else:
            self.varint(41, 0)
            self.varint(41, mask)
            for name, v in sorted(shape[1], key=lambda f: FIELDS[f[0]]):
                self.value(name, v)
            if len(self.shapes) < 1024:
                self.shapes[shape] = len(self.shapes)
        if "bytes" in record:
            size = record["bytes"] & MASK
            zeros = (size & -size).bit_length() - 1
            rest = size >> zeros + 1 if size else 0
            if rest >> 58:
                self.varint(9, 191)
                self.varint(9, size)
            else:
                self.varint(9, rest << 6 | zeros if size else 127)
        if "stack" in record:
            self.varint(10, self.stack + 1 - record["stack"] & 0xFFFFFFFF)
            self.stack = max(self.stack, record["stack"])

    def template(self, record):
        mask = sum(1 << FIELDS[name][0] for name in record)
        shape = mask, tuple((name, record[name]) for name in self.SHAPE if name in record)
        key = shape, record.get("bytes"), record.get("stack")
        number = self.templates.get(key)
        if number is None:
            numbered = (shape in self.shapes or len(self.shapes) < 1024) and len(self.templates) < 16574
            self.bytes(0, 1 if numbered else 0)
            self.define(mask, shape, record)
            if numbered:
                self.templates[key] = len(self.templates)
        elif number < 190:
            self.bytes(0, number + 2)
        else:
            self.bytes(0, 192 + (number - 190) // 256)
            self.bytes(40, (number - 190) % 256)

    def time(self, t, following):
        tick, ns = t // self.tick_ns, self.tick_ns
        first = self.before is None
        ticks = tick - (0 if first else self.before // ns)
        exact = ns > 1 and (first or ticks == 0 or following is None or following // ns == tick)
        if not first and 0 <= ticks < 254 * 256 and (not exact or ticks == 0):
            self.bytes(42, ticks // 256)
            self.bytes(1, ticks % 256)
        elif not first and 0 <= ticks < 256:
            self.bytes(42, 254)
            self.bytes(1, ticks)
        else:
            self.bytes(42, 255)
            self.bytes(1, int(exact))
            self.varint(43, zigzag(ticks))
        if exact:
            self.varint(44, t % ns)
        self.before = t

    def duration(self, ns):
        ticks = ns // self.tick_ns
        self.bytes(45, min(ticks // 256, 255))
        self.bytes(11, ticks % 256 if ticks < 255 * 256 else 0)
        if ticks >= 255 * 256:
            self.varint(46, ticks)

    def plain(self, address):
        for i in range(4):
            self.bytes(49 + i, address >> 8 * i & 255)
        self.varint(53, zigzag((address >> 32) - self.high))
        self.high = address >> 32

    def distance(self, column, first, wide, d):
        """First and wide: the codes of distance 1 and of the first one with a low byte."""
        if d <= wide - first:
            self.bytes(column, first + d - 1)
        else:
            d -= wide - first + 1
            self.bytes(column, wide + d // 256)
            self.bytes(48, d % 256)

    def row(self, size):
        return self.rows.setdefault((size * 0x9E3779B97F4A7C15 & MASK) >> 54, [0] * 4)

    def ago(self, things, what, address, most):
        """How long ago the address was among the last `most` things, or 0."""
        d = len(things) - self.last[what].get(address, len(things))
        return d if d <= most else 0

    def take(self, address, size):
        row = self.row(size)
        freed, end = self.ago(self.given, "given", address, 12944), self.ago(self.taken, "end", address, 14336)
        if address in row:
            i = row.index(address)
            self.bytes(8, 2 + i)
            row[i:] = row[i + 1:] + [0]
        elif address == self.end:
            self.bytes(8, 1)
        elif freed:
            self.distance(8, 6, 150, freed)
        elif end:
            self.distance(8, 200, 200, end)
        else:
            self.bytes(8, 0)
            self.plain(address)
        self.end = address + size & MASK
        self.last["taken"][address] = self.last["end"][self.end] = len(self.taken)
        self.taken.append((address, self.end, size))

    def give(self, address):
        d = self.ago(self.taken, "taken", address, 16575)
        if d:
            self.distance(47, 1, 192, d)
            row = self.row(self.taken[-d][2])
            row[:] = [address] + row[:3]
        else:
            self.bytes(47, 0)
            self.plain(address)
        self.last["given"][address] = len(self.given)
        self.given.append(address)

    def put(self, record, following=None):
        """following: the time of the next record, if there is one."""
        self.count += 1
        self.template(record)
        if "t_ns" in record:
            self.time(record["t_ns"], following)
        for name in sorted(record, key=FIELDS.get):
            if name in ("reserved_bytes", "allocated_bytes") and record.get("op") in self.BLOCKS:
                self.expect(record, name)
            elif name not in self.SHAPE + ("t_ns", "bytes", "stack", "ptr", "duration_ns"):
                self.value(name, record[name])
        if "ptr" in record:
            if record.get("op") in self.TAKES:
                self.take(record["ptr"] & MASK, record.get("bytes", 0))
            else:
                self.give(record["ptr"] & MASK)
        if "duration_ns" in record:
            self.duration(record["duration_ns"])

    def section(self):
        out = varint(self.count)
        plain = dict((number, coding) for number, coding in FIELDS.values() if number not in (1, 8, 9, 10, 11))
        for column, data in sorted(self.out.items()):
            out += varint(column) + varint(plain.get(column, 2)) + struct.pack("<I", len(data)) + data
        return out


def pack(records, tick_ns):
    p = Packed(tick_ns)
    for i, r in enumerate(records):
        p.put(r, records[i + 1].get("t_ns") if i + 1 < len(records) else None)
    return p


def packed_columns(records, tick_ns=100):
    return pack(records, tick_ns).section()


def chunk(seq, body, *, dict_seq=0, first_event=0, events=0, times=(0, 0), flags=0, trace_id=0x1234,
          version=1, compress=raw_zstd_frame, raw_bytes=None, header_extra=b""):
    frame = compress(body)
    head = struct.pack("<8sHHIQQQIIQQQQQ", b"CUTRCHNK", version, 96 + len(header_extra), flags, seq, dict_seq,
                       first_event, events, 0, times[0], times[1], len(frame),
                       len(body) if raw_bytes is None else raw_bytes, trace_id)
    head += struct.pack("<Q", xxh64(head)) + header_extra
    out = struct.pack("<II", 0x184D2A5C, len(head)) + head + frame
    pad = -(len(out) + 8) % 8
    return out + struct.pack("<II", 0x184D2A5F, pad) + bytes(pad)


class Trace:
    """Collects events and definitions, and puts them into chunks.

    Events are given as keywords: op by name, api and text as strings, tid as number, stack as a list of
    frames, innermost first: (symbol, module path[, offset[, [(function, file, line)...]]]), the places innermost first;
    (function, file, line) for Python, whose file ends with .py or >; "deeper" or "lost".
    """

    # How the events of traces are written, for tests that do it in both ways.
    columns, version = staticmethod(columns), 1

    def __init__(self, trace_id=0x1234, compress=raw_zstd_frame):
        self.trace_id, self.compress = trace_id, compress
        self.out = []
        self.seq = self.number = 0
        self.info = {}
        self.checkpoint()
        self.pending = []
        self.seen = self.counted = 0  # of what is pending: how many were looked at, and how many events these are
        self.segment = False

    def checkpoint(self):
        """A new generation of dictionaries begins with the next chunk."""
        self.dict_seq = self.seq
        self.ids = {k: {} for k in range(2, 7)}
        self.new = {k: [] for k in range(2, 7)}
        self.nodes = {}  # (parent, frame) -> number

    def define(self, kind, key, payload):
        ids = self.ids[kind]
        if key not in ids:
            ids[key] = len(ids) + 1
            self.new[kind].append(entry(ids[key], payload()))
        return ids[key]

    def string(self, s):
        return self.define(2, s, lambda: s if isinstance(s, bytes) else s.encode()) if s else 0

    def module(self, path):
        base = 0x7F0000000000 + 0x10000000 * (sum(path.encode()) % 97)
        name = self.string(path)
        return self.define(3, path, lambda: varint(name) + varint(base) + varint(base + 0x1000) +
                           varint(base + 0x900000) + text(b"\x01" * 20)), base

    def frame(self, f):
        if f in ("deeper", "lost"):
            return self.define(4, f, lambda: varint(2) + varint(1 if f == "deeper" else 2))
        if len(f) == 3 and isinstance(f[1], str) and f[1].endswith((".py", ">")):
            function, file, line = self.string(f[0]), self.string(f[1]), f[2]
            return self.define(4, f, lambda: varint(1) + varint(function) + varint(file) + varint(line))
        symbol, path = f[0], f[1]
        offset = f[2] if len(f) > 2 else 0x1000 + sum(symbol if isinstance(symbol, bytes) else (symbol or "").encode()) * 16
        module, base = self.module(path) if path else (0, 0)
        name = self.string(symbol) if symbol else 0
        places = f[3] if len(f) > 3 else ()
        ids = [(self.string(function), self.string(file), line) for function, file, line in places]
        return self.define(4, f, lambda: varint(0) + varint(base + offset) + varint(module) + varint(offset) +
                           varint(name) + varint(5 if name else 0) +
                           (varint(len(ids)) + b"".join(varint(v) for place in ids for v in place) if ids else b""))

    def frame_number(self, f):
        try:
            known = self.ids[4].get(f)
        except TypeError:  # it has a list
            known = None
        return known or self.frame(f if isinstance(f, str) else tuple(tuple(v) if isinstance(v, list) else v for v in f))

    def stack(self, frames):
        ids = [self.frame_number(f) for f in frames]
        return self.define(5, tuple(ids), lambda: self.flat(ids) if self.version < 3 else self.branch(ids))

    @staticmethod
    def flat(ids):
        payload, last = varint(len(ids)), 0
        for i in ids:
            payload += varint(zigzag(i - last))
            last = i
        return payload

    def branch(self, ids):
        """What the tree lacks of a stack."""
        parent, new, last = 0, list(reversed(ids)), 0
        while new and (parent, new[0]) in self.nodes:
            parent = self.nodes[parent, new.pop(0)]
        payload = varint(parent) + varint(len(new)) + (varint(len(self.nodes) + 1) if new else b"")
        for i in new:
            payload += varint(zigzag(i - last))
            last = i
            self.nodes[parent, i] = len(self.nodes) + 1
            parent = len(self.nodes)
        return payload

    def thread(self, tid, name=None):
        number = self.string(name) if name else 0
        return self.define(6, tid, lambda: varint(tid) + varint(number))

    def record(self, op, t_ns, tid=100, thread_name=None, api=None, stack=None, text=None, flags=None,
               space=None, **fields):
        """An event in the numbers of the file."""
        r = {"op": OPS[op] if isinstance(op, str) else op, "t_ns": t_ns, **fields}
        if tid is not None:
            r["thread"] = self.thread(tid, thread_name)
        if api is not None:
            r["api"] = self.string(api)
        if text is not None:
            r["text"] = self.string(text)
        if stack is not None:
            r["stack"] = self.stack(stack)
        if flags is not None:
            r["flags"] = sum(FLAGS[f] for f in flags)
        if space is not None:
            r["space"] = SPACES[space]
        return r

    def event(self, op, t_ns, **fields):
        self.pending.append(self.record(op, t_ns, **fields))
        if self.seen + 1 != len(self.pending):
            self.seen = self.counted = 0
        self.counted += sum(p["op"] != OPS["amend"] for p in self.pending[self.seen:])
        self.seen = len(self.pending)
        return self.number + self.counted - 1

    def restart(self):
        """As checkpoint(), in the words of the format: a segment begins with the next chunk."""
        self.checkpoint()
        self.segment = True

    def save(self, path):
        """Writes the whole trace, as of a process that ended; returns its path."""
        self.flush(last=True)
        with open(path, "wb") as f:
            f.write(self.bytes())
        return path

    def flush(self, last=False, checkpoint=None, history=None, **overrides):
        """Ends a chunk. checkpoint: flags and records, as they are before the chunk's first event."""
        body = info_section(self.info) if self.info else b""
        self.info = {}
        for kind in range(2, 7):
            if self.new[kind]:
                body += section(kind, b"".join(self.new[kind]))
                self.new[kind] = []
        counted = [r for r in self.pending if r["op"] != OPS["amend"]]
        if checkpoint:
            records = checkpoint[1] if isinstance(checkpoint[1], bytes) else columns(checkpoint[1])  # bytes: as they are
            body += section(8, varint(checkpoint[0]) + records)
        if history is not None:
            body += section(9, history)
        if self.pending:
            body += section(7, self.columns(self.pending))
        flags = (LAST if last else 0) | (AMENDS if len(counted) != len(self.pending) else 0) | (SEGMENT if self.segment else 0)
        self.segment = False
        times = (counted[0]["t_ns"], counted[-1]["t_ns"]) if counted else (0, 0)
        keywords = {"dict_seq": self.dict_seq, "first_event": self.number, "events": len(counted),
                    "times": times, "flags": flags, "trace_id": self.trace_id, "compress": self.compress,
                    "version": self.version}
        keywords.update(overrides)
        self.out.append(chunk(self.seq, body, **keywords))
        self.seq += 1
        self.number += len(counted)
        self.pending = []

    def bytes(self):
        return b"".join(self.out)
