#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds cutrace traces in Python, from the words of include/cutrace/FORMAT.md and nothing else.

The C code is not asked: its constants are not read and its coders are not called, so that a mistake
which both directions of it share shows. Needs Python's standard library and the zstd program.
"""
import struct
import subprocess

MASK = (1 << 64) - 1

OPS = {name: i + 1 for i, name in enumerate(
    "amend alloc free reserve unreserve create release map unmap register unregister retain export access "
    "graph-alloc graph-free pool-create pool-destroy pool-trim pool-sample ipc-open ipc-close import "
    "context-create context-destroy module-load module-unload limit memory-sample lost note".split())}
# field -> (number, coding): 0 varint, 1 zigzag of the difference to the value before it
FIELDS = {
    "t_ns": (1, 1), "thread": (2, 0), "op": (3, 0), "api": (4, 0), "result": (5, 1), "device": (6, 1),
    "context": (7, 1), "ptr": (8, 1), "bytes": (9, 0), "stack": (10, 1), "duration_ns": (11, 0),
    "handle": (12, 1), "stream": (13, 1), "pool": (14, 1), "space": (15, 0), "flags": (16, 0),
    "free_bytes": (17, 1), "total_bytes": (18, 1), "free_before_bytes": (19, 1), "process_bytes": (20, 1),
    "reserved_bytes": (21, 1), "used_bytes": (22, 1), "offset": (23, 0), "text": (24, 0), "count": (25, 0),
    "amends_ns": (26, 1)}
FLAGS = {name: 1 << i for i, name in enumerate(
    "runtime captured async array deferred multicast foreign primary green reset nvml graph derived".split())}
SPACES = {"device": 1, "managed": 2, "host": 3}
LAST, AMENDS = 1, 2


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


def columns(records):
    """records: dictionaries of numbers by field name."""
    out = varint(len(records))
    masks = [sum(1 << FIELDS[k][0] for k in r) for r in records]
    column = b"".join(varint(m) for m in masks)
    out += varint(0) + varint(0) + struct.pack("<I", len(column)) + column
    for name, (number, coding) in sorted(FIELDS.items(), key=lambda f: f[1][0]):
        values = [r[name] for r in records if name in r]
        if not values:
            continue
        last, column = 0, b""
        for v in values:
            column += varint(zigzag(v - last) if coding else v)
            last = v
        out += varint(number) + varint(coding) + struct.pack("<I", len(column)) + column
    return out


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
    frames, innermost first: (symbol, module path[, offset]) or (function, file, line) for Python.
    """

    def __init__(self, trace_id=0x1234, compress=raw_zstd_frame):
        self.trace_id, self.compress = trace_id, compress
        self.out = []
        self.seq = self.number = 0
        self.info = {}
        self.checkpoint()
        self.pending = []

    def checkpoint(self):
        """A new generation of dictionaries begins with the next chunk."""
        self.dict_seq = self.seq
        self.ids = {k: {} for k in range(2, 7)}
        self.new = {k: [] for k in range(2, 7)}

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
        if len(f) == 3 and isinstance(f[1], str) and f[1].endswith(".py"):
            function, file, line = self.string(f[0]), self.string(f[1]), f[2]
            return self.define(4, f, lambda: varint(1) + varint(function) + varint(file) + varint(line))
        symbol, path = f[0], f[1]
        offset = f[2] if len(f) > 2 else 0x1000 + sum(symbol if isinstance(symbol, bytes) else (symbol or "").encode()) * 16
        module, base = self.module(path) if path else (0, 0)
        name = self.string(symbol) if symbol else 0
        return self.define(4, f, lambda: varint(0) + varint(base + offset) + varint(module) + varint(offset) +
                           varint(name) + varint(5 if name else 0))

    def stack(self, frames):
        ids = [self.frame(tuple(f)) for f in frames]
        payload, last = varint(len(ids)), 0
        for i in ids:
            payload += varint(zigzag(i - last))
            last = i
        return self.define(5, tuple(tuple(f) for f in frames), lambda: payload)

    def thread(self, tid, name=None):
        number = self.string(name) if name else 0
        return self.define(6, tid, lambda: varint(tid) + varint(number))

    def event(self, op, t_ns, tid=100, thread_name=None, api=None, stack=None, text=None, flags=None,
              space=None, **fields):
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
        self.pending.append(r)
        return self.number + sum(1 for p in self.pending if p["op"] != OPS["amend"]) - 1

    def flush(self, last=False, **overrides):
        """Ends a chunk."""
        body = info_section(self.info) if self.info else b""
        self.info = {}
        for kind in range(2, 7):
            if self.new[kind]:
                body += section(kind, b"".join(self.new[kind]))
                self.new[kind] = []
        counted = [r for r in self.pending if r["op"] != OPS["amend"]]
        if self.pending:
            body += section(7, columns(self.pending))
        flags = (LAST if last else 0) | (AMENDS if len(counted) != len(self.pending) else 0)
        times = (counted[0]["t_ns"], counted[-1]["t_ns"]) if counted else (0, 0)
        keywords = {"dict_seq": self.dict_seq, "first_event": self.number, "events": len(counted),
                    "times": times, "flags": flags, "trace_id": self.trace_id, "compress": self.compress}
        keywords.update(overrides)
        self.out.append(chunk(self.seq, body, **keywords))
        self.seq += 1
        self.number += len(counted)
        self.pending = []

    def bytes(self):
        return b"".join(self.out)
