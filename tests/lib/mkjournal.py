# SPDX-License-Identifier: Apache-2.0
"""Builds TRACE.journal files in Python, from the words of include/cutrace/format/journal.h and nothing else.

Offsets of C structures are counted by hand here; a test compares their sizes with what the C compiler says.
"""
import os
import re
import struct
import sys

import mktrace
from mktrace import FLAGS, MASK, OPS, SPACES, Trace, entry, text, varint

PAGE, BLOCK, QUIET, STREAMS, COLUMNS = 4096, 2048, MASK, 64, 8
OPEN_BYTES = 8 * 6 + 4 * 4 + STREAMS * 12 + 8
HEAD = struct.Struct("<8sHHIQQQQ16sIIIIQQQQQQQQQQQIIII")  # up to `modules`
COMMITTED = HEAD.size
OPEN = COMMITTED + 8
WANTED = -(-(OPEN + 2 * OPEN_BYTES) // 64) * 64
COUNTERS = WANTED + 8  # events, lost, bytes_written, flushes, devices
SHELF = -(-(COUNTERS + 4 * 8 + 64 * 48) // 64) * 64
HEAD_BYTES = SHELF + 64

_ROWS = re.findall(r'^CT_FIELD\((\d+), (\w+), (\w+),', open(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include/cutrace/format/events.def"), encoding="utf-8").read(), re.M)


def layout():
    """Of struct ct_event, as a C compiler lays it out: offset and size by field, size of the whole."""
    at, fields = 8, {}
    for number, member, ctype in _ROWS:
        size = {"uint64_t": 8, "uint32_t": 4, "int32_t": 4}[ctype]
        at = -(-at // size) * size
        fields[member] = (int(number), at, size, ctype[0] == "i")
        at += size
    return fields, -(-at // 8) * 8, -(-(at + 8) // 16) * 16  # format.h: a word is left, up to a multiple of 16 bytes


EVENT, EVENT_FIELDS_BYTES, EVENT_BYTES = layout()


def layout_hash():
    h = EVENT_BYTES
    for number, at, size, _ in EVENT.values():
        h = (h ^ (number << 16 | at << 4 | size)) * 0x100000001B3 & MASK
    return h


def record(event):
    """A record of a ring: numbers by field name, cut before `device`, `context`, `stream` or `handle` if it has none from there on."""
    present = sum(1 << EVENT[k][0] for k in event)
    out = bytearray(EVENT_BYTES)
    struct.pack_into("<Q", out, 0, present)
    end = 8
    for k, v in event.items():
        _, at, size, signed = EVENT[k]
        struct.pack_into("<" + ("i" if signed else "I" if size == 4 else "Q"), out, at, v)
        end = max(end, -(-(at + size) // 8) * 8)
    cuts = [EVENT[k][1] for k in ("device", "context", "stream", "handle")] + [EVENT_FIELDS_BYTES]
    return bytes(out[:min(c for c in cuts if c >= end)])


def python_word(text_id, line):
    return 1 << 63 | line << 32 | text_id


def end_word(why):
    return 1 << 63 | why << 32


class Ring:
    def __init__(self, thread, data, tail=0):
        self.thread, self.size = thread, data
        self.head = self.tail = tail
        self.announced, self.last_ns, self.lost = QUIET, 0, 0
        self.data = bytearray(b"\xee" * data)  # what does not count may be anything

    def put(self, event):
        r = record({"thread": self.thread, **event})
        left = self.size - self.head % self.size
        if left < len(r):
            struct.pack_into("<Q", self.data, self.head % self.size, 0)
            self.head += left
        assert self.head + len(r) - self.tail <= self.size, "the ring is full"
        at = self.head % self.size
        self.data[at:at + len(r)] = r
        self.head += len(r)
        self.last_ns = event.get("t_ns", self.last_ns)

    def bytes(self):
        page = bytearray(PAGE)
        struct.pack_into("<QQQII", page, 0, self.head, self.announced, self.last_ns, self.thread, 0)
        struct.pack_into("<QQ", page, 64, self.tail, self.lost)
        struct.pack_into("<Q", page, 128, 1 << 32 | 4242)
        return bytes(page + self.data)


class Shelf:
    """A ring of finished chunks; what falls out of it is gone."""

    def __init__(self, size, at=0):
        self.size, self.head, self.tail = size, at, at
        self.data = bytearray(b"\xee" * size)
        self.entries = []  # (position, bytes)

    def claim(self, n):
        while self.head + n - self.tail > self.size:
            position, bytes_ = self.entries.pop(0)
            self.tail = position + bytes_
        self.entries.append((self.head, n))
        self.head += n
        return (self.head - n) % self.size

    def put(self, chunk):
        left = self.size - self.head % self.size
        if left < 8 + len(chunk):
            struct.pack_into("<Q", self.data, self.claim(left), 0)
        at = self.claim(8 + len(chunk))
        struct.pack_into("<Q", self.data, at, len(chunk))
        self.data[at + 8:at + 8 + len(chunk)] = chunk


class Journal:
    """Collects what a process has: an open chunk with its streams, rings and the tables of its numbers."""

    def __init__(self, trace_id=0x1234, seq=0, dict_seq=0, first_event=0, drained_ns=0, ring_data=PAGE, blocks=64):
        self.trace_id, self.seq, self.dict_seq, self.first_event = trace_id, seq, dict_seq, first_event
        self.drained_ns, self.ring_data, self.block_count = drained_ns, ring_data, blocks
        self.streams = {}
        self.records = self.events = self.flags = 0
        self.times = (0, 0)
        self.rings, self.names, self.threads, self.stacks, self.modules = [], [], [], [], []
        self.pid = self.process_start = 0
        self.boot_id = bytes(16)
        self.version, self.hash = 4, layout_hash()
        self.threads_room, self.counters = 64, (0, 0, 0, 0)
        self.control = 0
        self.devices = []
        self.shelf = Shelf(0)
        self.committed = 1

    # ---- the process's own numbers
    def name(self, s):
        if s not in self.names:
            self.names.append(s)
        return self.names.index(s) + 1

    def thread(self, tid, name="worker"):
        self.threads.append((len(self.threads) + 1, tid, name))
        return len(self.threads)

    def stack(self, frames):
        """Words. Returns its place in units of 8 bytes."""
        at = 1 + sum(3 + len(s) for s in self.stacks)
        self.stacks.append(list(frames))
        return at

    def text(self, function, file):
        """The names of a Python frame. Returns its id."""
        both = function.encode() + file.encode()
        both += bytes(-len(both) % 8)
        return self.stack([len(file.encode()) << 32 | len(function.encode()), *struct.unpack("<%dQ" % (len(both) // 8), both)])

    def python(self, function, file, line):
        return python_word(self.text(function, file), line)

    def module(self, base, start, end, path, build_id=b"\x01" * 20):
        self.modules.append((base, start, end, path, build_id))

    def ring(self, thread, tail=0):
        self.rings.append(Ring(thread, self.ring_data, tail))
        return self.rings[-1]

    # ---- the open chunk
    def section(self, kind, content):
        self.streams[kind] = self.streams.get(kind, b"") + content

    def info(self, pairs):
        self.section(1, b"".join(text(k) + text(v) for k, v in pairs.items()))

    def open_events(self, records):
        """records: dictionaries of numbers of the file."""
        for column, data in mktrace.pack(records, tick_ns=1).out.items():
            self.streams[COLUMNS + column] = bytes(data)
        self.records = len(records)
        counted = [r["t_ns"] for r in records if r["op"] != OPS["amend"]]
        self.events = len(counted)
        self.times = (counted[0], counted[-1]) if counted else (0, 0)
        self.flags = 2 if len(counted) != len(records) else 0

    # ---- the file
    def alive(self):
        """As if this process had written it."""
        with open("/proc/self/stat", encoding="utf-8") as f:
            self.process_start = int(f.read().rpartition(")")[2].split()[19])
        with open("/proc/sys/kernel/random/boot_id", "rb") as f:
            self.boot_id = f.read(16)
        self.pid = os.getpid()

    def open_chunk(self, blocks):
        chains = []
        for s in range(STREAMS):
            data = self.streams.get(s, b"")
            pieces = [data[i:i + BLOCK - 8] for i in range(0, len(data), BLOCK - 8)]
            first = len(blocks) + 1 if pieces else 0
            for i, piece in enumerate(pieces):
                end = i == len(pieces) - 1
                blocks.append(struct.pack("<II", 0 if end else len(blocks) + 2, 0 if end else len(piece)) +
                              piece.ljust(BLOCK - 8, b"\xee"))
            chains.append((first, len(blocks) if pieces else 0, len(pieces[-1]) if pieces else 0))
        out = struct.pack("<QQQQQQIIII", self.seq, self.dict_seq, self.first_event, self.drained_ns, *self.times,
                          self.records, self.events, self.flags, 0)
        return out + b"".join(struct.pack("<III", *c) for c in chains) + bytes(8)

    def bytes(self):
        blocks = []
        chunk = self.open_chunk(blocks)
        assert len(chunk) == OPEN_BYTES and len(blocks) <= self.block_count
        texts, names = b"\0", struct.pack("<I", 0)
        for n in self.names:
            names += struct.pack("<I", len(texts))
            texts += n.encode() + b"\0"
        threads = bytearray(24 * self.threads_room)
        for number, tid, name in self.threads:
            struct.pack_into("<II16s", threads, number % self.threads_room * 24, number, tid, name.encode())
        stacks = bytes(8)
        for s in self.stacks:
            stacks += struct.pack("<QIIII", 0x77, len(s), 0, 0, 0) + struct.pack("<%dQ" % len(s), *s)
        module_texts, modules = b"\0", b""
        for base, start, end, path, build_id in self.modules:
            modules += struct.pack("<QQQII64s", base, start, end, len(module_texts), len(build_id), build_id)
            module_texts += path.encode() + b"\0"
        at, places, parts = 2 * PAGE, [], []
        for part in (b"".join(blocks).ljust(self.block_count * BLOCK, b"\xdd"), names, texts, bytes(threads), modules,
                     module_texts, stacks):
            places.append(at)
            part += bytes(-len(part) % PAGE)
            parts.append(part)
            at += len(part)
        chunks_at = at
        parts.append(bytes(self.shelf.data) + bytes(-self.shelf.size % PAGE))
        at += len(parts[-1])
        head = HEAD.pack(b"CUTRJRNL", self.version, HEAD_BYTES, self.pid, self.hash, self.trace_id, 1,
                         self.process_start, self.boot_id, self.ring_data, self.block_count, len(self.names) + 1,
                         self.threads_room, *places, at, len(texts), len(module_texts), len(stacks),
                         max(len(self.modules), 1), 64, len(self.rings), len(self.modules))
        head += struct.pack("<Q", self.committed)
        other = b"\xff" * OPEN_BYTES  # what does not count may be anything
        head += (other + chunk) if self.committed & 1 else (chunk + other)
        head = head.ljust(WANTED, b"\0") + struct.pack("<IIQQQQ", 0, self.control, *self.counters)
        for d in self.devices:
            head += struct.pack("<QQQQQQ", *d)
        head = head.ljust(SHELF, b"\0") + struct.pack("<QQQQ", chunks_at, self.shelf.size, self.shelf.head, self.shelf.tail)
        return head.ljust(2 * PAGE, b"\0") + b"".join(parts) + b"".join(r.bytes() for r in self.rings)


def numbers(op, t_ns, **fields):
    """An event in numbers; flags as a list and space by name as in mktrace."""
    r = {"t_ns": t_ns, "op": OPS[op]}
    for k, v in fields.items():
        r[k] = sum(FLAGS[f] for f in v) if k == "flags" else SPACES[v] if k == "space" else v
    return r


def example(trace_id=0x1234, seq=1, dict_seq=0, first_event=3, drained_ns=2003, **more):
    """A journal: an open chunk of two events (numbers of the file), two threads with events in their rings."""
    j = Journal(trace_id=trace_id, seq=seq, dict_seq=dict_seq, first_event=first_event, drained_ns=drained_ns, **more)
    j.section(2, entry(90, b"cuMemFree_v2"))
    j.section(6, entry(7, varint(4711) + varint(0)))
    j.open_events([numbers("free", 2000, ptr=0x10000, api=90, thread=7), numbers("alloc", 2003, ptr=0x90000, bytes=5 << 10, device=0,
                                                                                 result=0, space="device", thread=1)])
    one, two = j.thread(4711, "main"), j.thread(4712, "loader")
    lib = 0x7F0000000000
    j.module(lib, lib + 0x1000, lib + 0x9000, "/opt/lib.so")
    j.module(lib, lib + 0x1F00, lib + 0x2F00, "/opt/later.so")
    malloc, free, stack = j.name("cuMemAlloc_v2"), j.name("cuMemFree_v2"), j.stack([lib + 0x1234, lib + 0x2000])
    a, b = j.ring(one, tail=PAGE * 5 - 24), j.ring(two)  # the first one goes round
    a.put(numbers("free", 1999, ptr=1))  # taken out already: it is in the open chunk or before it
    a.put(numbers("alloc", 2003, ptr=0x90000, bytes=5 << 10, device=0, result=0, space="device"))  # likewise
    a.put(numbers("alloc", 2010, ptr=0xA0000, bytes=7 << 10, device=0, result=0, space="device", api=malloc, stack=stack))
    b.put(numbers("alloc", 2011, ptr=0xB0000, bytes=9 << 10, device=0, result=0, space="device", api=malloc, stack=stack))
    a.put(numbers("free", 2012, ptr=0xA0000, api=free))
    b.put(numbers("alloc", 2013, bytes=1 << 40, device=0, result=2, space="device", api=malloc, stack=stack, free_bytes=1 << 10,
                  total_bytes=1 << 30))
    a.put(numbers("amend", 2014, amends_ns=2012, result=700))
    return j


if __name__ == "__main__":  # FILE: an example, as a seed for the fuzzer
    with open(sys.argv[1], "wb") as out_file:
        seed = example(blocks=32)
        seed.shelf = Shelf(PAGE)
        t = Trace()
        for i in range(3):
            t.event("alloc", 1000 + i, ptr=0x10000, bytes=4096, device=0, result=0, space="device")
            t.flush(version=3)
            seed.shelf.put(t.out[-1])
        words = [0x7F0000001234, seed.python("f", "/m/a.py", 7), seed.python("g", "", 0)]
        for end in (1, 2):
            seed.rings[0].put(numbers("alloc", 2020 + end, ptr=0x20000 * end, bytes=1 << 10, device=0, result=0, space="device",
                                      stack=seed.stack(words + [end_word(end)])))
        out_file.write(seed.bytes())
