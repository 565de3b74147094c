# SPDX-License-Identifier: Apache-2.0
"""A trace as a whole: read by FORMAT.md alone, changed as a list of records, and written anew.

It is what tests need that take evidence away from a real trace: whatever is left is a valid trace again.
"""
import mkjournal
import mktrace
import read_trace
from mktrace import OPS, Known, chunk, columns, section, text, varint
from read_trace import Cursor

LAST, RESTART, SEALED, PROVISIONAL = mktrace.LAST, mktrace.SEGMENT, mktrace.SEALED, mktrace.PROVISIONAL
AT_THE_END = ("recorder.end", "recorder.bytes_written", "recorder.lost_events", "recorder.stacks_full")


class Module(tuple):
    """(path, base, start, end, build-id)"""


class Whole:
    """info; records: dictionaries by field name, with op by name, api and text as strings, thread as (tid, name) and
    stack as an index of `stacks`. A stack is a tuple of frames, innermost first: ("native", pc, Module or None, offset,
    symbol, symbol offset, places), ("python", function, file, line) or ("end", reason)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            found = read_trace.chunks(f.read())
        self.info, self.records, self.stacks = {}, [], []
        self.sealed = bool(found[-1][0]["flags"] & SEALED)
        for number, (head, raw) in enumerate(found):
            if head["seq"] != number:
                raise ValueError(f"{path}: chunk {number} is missing")
            if head["dict_seq"] == number:
                self.tables = {k: {} for k in [*range(2, 7), "nodes"]}
            self.read_chunk(Cursor(raw), head["version"])
        numbers = {}
        for r in self.records:
            if "stack" in r:
                r["stack"] = self.stack_number(*r["stack"], numbers)
        self.read_amends()
        for r in self.records:
            del r["span_ns"]

    def read_chunk(self, body, version):
        events = []
        while body.more():
            kind = body.varint()
            section = Cursor(body.take(body.u32()))
            if kind == 1:
                while section.more():
                    key = section.text().decode("utf-8", "surrogateescape")
                    self.info[key] = section.text().decode("utf-8", "surrogateescape")
            elif kind == 7:
                events += read_trace.events_of(section)
            while 2 <= kind <= 6 and section.more():
                ident = section.varint()
                self.tables[kind][ident] = self.define(kind, Cursor(section.text()), version)
        for e in events:
            for field, kind in (("api", 2), ("text", 2), ("domain", 2), ("category", 2), ("thread", 6)):
                if field in e:
                    e[field] = self.tables[kind].get(e[field])
            if "stack" in e:
                e["stack"] = self.tables, e["stack"]
            self.records.append(e)

    def define(self, kind, p, version):
        def string():
            return self.tables[2].get(p.varint())
        if kind == 2:
            return p.data.decode("utf-8", "surrogateescape")
        if kind == 3:
            return Module((string(), p.varint(), p.varint(), p.varint(), bytes(p.text())))
        if kind == 6:
            return p.varint(), string()
        if kind == 5:
            return self.flat(p) if version < 3 else self.branch(p)
        what = p.varint()
        if what == 1:
            return "python", string(), string(), p.varint()
        if what == 2:
            return "end", p.varint()
        pc, module, offset = p.varint(), self.tables[3].get(p.varint()), p.varint()
        symbol, beyond = string(), p.varint()
        places = tuple((string(), string(), p.varint()) for _ in range(p.varint())) if p.more() else ()
        return "native", pc, module, offset, symbol, beyond, places

    @staticmethod
    def flat(p):
        """A stack before version 3: the numbers of its frames, innermost first."""
        frames, last = [], 0
        for _ in range(p.varint()):
            last += read_trace.unzigzag(p.varint())
            frames.append(last)
        return tuple(frames)

    def branch(self, p):
        """A stack's innermost node."""
        node, new = p.varint(), p.varint()
        number, frame = p.varint() if new else 0, 0
        for i in range(number, number + new):
            frame += read_trace.unzigzag(p.varint())
            self.tables["nodes"][i] = node, frame
            node = i
        return node

    def stack_number(self, tables, ident, numbers):
        """Index of a stack in `stacks`. Its frames are looked up when all chunks are read: names come late."""
        key = id(tables), ident
        if key not in numbers:
            node, frames = tables[5][ident], []
            if isinstance(node, tuple):
                frames = [tables[4][i] for i in node]
            while isinstance(node, int) and node:
                node, i = tables["nodes"][node]
                frames.append(tables[4][i])
            numbers[key] = len(self.stacks)
            self.stacks.append(tuple(frames))
        return numbers[key]

    def read_amends(self):
        """Times of plain columns are exact: what an amend refers to gets the time that is written."""
        spans = {r["span_ns"] for r in self.records}
        by = {(r["thread"], r["t_ns"] // r["span_ns"], r["span_ns"]): r["t_ns"]
              for r in self.records if r["op"] != "amend" and "thread" in r}
        for a in self.records:
            if a["op"] == "amend":
                t_ns = a["amends_ns"]
                a["amends_ns"] = next((by[k] for k in ((a["thread"], t_ns // s, s) for s in spans) if k in by), t_ns)

    def copy(self, records=None, stacks=None, info=None):
        other = Whole.__new__(Whole)
        other.sealed = self.sealed
        other.info = dict(self.info if info is None else info)
        other.records = self.records if records is None else records
        other.stacks = self.stacks if stacks is None else stacks
        return other


class Writer(mktrace.Trace):
    """Chunks of version 3 with plain columns, one after the other. Records are those of Whole."""

    version = 3

    def __init__(self, stacks, compress=mktrace.zstd_frame):
        super().__init__(trace_id=0x1234, compress=compress)
        self.stacks = stacks

    def checkpoint(self):
        super().checkpoint()
        self.known = {"op": OPS, "api": Known(self.string), "text": Known(self.string), "domain": Known(self.string),
                      "category": Known(self.string), "thread": Known(self.thread),
                      "stack": Known(lambda number: self.stack(self.stacks[number]))}

    def numbers(self, record):
        """A record in the numbers of the file."""
        return {k: self.known[k][v] if k in self.known else v for k, v in record.items()}

    def end_chunk(self, records, flags=0, checkpoint=None, history=None):
        """checkpoint: the records of a whole one."""
        sections = b""
        if checkpoint is not None:
            sections += section(8, varint(mktrace.FIRST_PART | mktrace.LAST_PART) + columns(checkpoint, self.known))
        if history is not None:
            sections += section(9, history)
        if records:
            sections += section(7, columns(records, self.known))
        body = mktrace.info_section(self.info) if self.info else b""
        for kind in range(2, 7):
            body += section(kind, b"".join(self.new[kind])) if self.new[kind] else b""
            self.new[kind] = []
        times = [r["t_ns"] for r in records if r["op"] != "amend"]
        flags |= (RESTART if self.segment else 0) | (mktrace.AMENDS if len(times) < len(records) else 0)
        self.out.append(chunk(self.seq, body + sections, dict_seq=self.dict_seq, first_event=self.number,
                              events=len(times), times=(times[0], times[-1]) if times else (0, 0), flags=flags,
                              trace_id=self.trace_id, compress=self.compress, version=self.version))
        self.seq, self.number, self.segment, self.info = self.seq + 1, self.number + len(times), False, {}

    def string(self, s):
        return super().string(s.encode("utf-8", "surrogateescape") if isinstance(s, str) else s)

    def module(self, path):
        """path: a Module, in place of the path that the tests' own traces have."""
        name = self.string(path[0])
        return self.define(3, path, lambda: varint(name) + b"".join(map(varint, path[1:4])) + text(path[4]))

    def frame(self, f):
        if f[0] == "end":
            payload = varint(2) + varint(f[1])
        elif f[0] == "python":
            payload = varint(1) + varint(self.string(f[1])) + varint(self.string(f[2])) + varint(f[3])
        else:
            _, pc, module, offset, symbol, beyond, places = f
            numbers = [0, pc, self.module(module) if module else 0, offset, self.string(symbol), beyond]
            if places:
                numbers.append(len(places))
                numbers += [v for p in places for v in (self.string(p[0]), self.string(p[1]), p[2])]
            payload = b"".join(map(varint, numbers))
        return self.define(4, f, lambda: payload)

    def thread(self, tid, name=None):
        """tid: (tid, name), in place of both."""
        number = self.string(tid[1]) if tid[1] else 0
        return self.define(6, tid, lambda: varint(tid[0]) + varint(number))

    def stack(self, frames):
        ids = [self.ids[4].get(f) or self.frame(f) for f in frames]
        return self.define(5, tuple(ids), lambda: self.branch(ids))


def encoded(info, is_chosen):
    return {k.encode("utf-8", "surrogateescape"): v.encode("utf-8", "surrogateescape")
            for k, v in info.items() if is_chosen(k)}


def write(whole, breaks=(), end="clean", restarts=None, provisional=False):
    """The chunks of a trace as a list of bytes.

    breaks: numbers of records with which a chunk begins, but the first one. end: clean, sealed or None, of the last
    chunk. restarts: {number of a chunk: (checkpoint, history)}, for chunks that begin a new generation. provisional:
    the last chunk is.
    """
    w = Writer(whole.stacks)
    edges = [0, *breaks, len(whole.records)]
    for number, (first, behind) in enumerate(zip(edges, edges[1:])):
        checkpoint, history = (restarts or {}).get(number, (None, None))
        flags = 0
        if checkpoint is not None or not number:
            w.restart()
            w.info = encoded(whole.info, lambda k: k not in AT_THE_END)
        if behind == len(whole.records):
            flags = {"clean": LAST, "sealed": SEALED, None: 0}[end] | (PROVISIONAL if provisional else 0)
            w.info.update(encoded(whole.info, lambda k: k in AT_THE_END) if end == "clean" else {})
        w.end_chunk(whole.records[first:behind], flags, checkpoint, history)
    return w.out


def write_with_journal(whole, at):
    """(the chunks, the journal) of a process that was killed: its records from `at` on were in the open chunk."""
    w = Writer(whole.stacks)
    w.restart()
    w.info = encoded(whole.info, lambda k: k not in AT_THE_END)
    w.end_chunk(whole.records[:at])
    records = [w.numbers(r) for r in whole.records[at:]]
    times = [r["t_ns"] for r in records if r["op"] != OPS["amend"]]
    j = mkjournal.Journal(trace_id=w.trace_id, seq=1, dict_seq=0, first_event=w.number, drained_ns=records[-1]["t_ns"])
    for kind in range(2, 7):
        if w.new[kind]:
            j.section(kind, b"".join(w.new[kind]))
    packed = mktrace.Packed(1)
    for r in records:
        packed.put(r)
    j.streams.update({mkjournal.COLUMNS + number: bytes(data) for number, data in packed.out.items()})
    j.records, j.events, j.times = len(records), len(times), (times[0], times[-1])
    j.flags = mktrace.AMENDS if len(times) < len(records) else 0
    j.block_count = sum(len(data) // (mkjournal.BLOCK - 8) + 1 for data in j.streams.values())
    return w.out, j.bytes()
