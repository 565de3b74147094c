# SPDX-License-Identifier: Apache-2.0
"""Writes digests into a trace, by FORMAT.md alone: what tests/lib/digests.py finds in each chunk.

So traces that no recorder wrote, as those of tests/lib/traces.py, have notes, and honest ones. `edit` changes what a
digest says before it is written: then it lies under a right checksum."""
import struct

import digests
import mktrace
import read_trace

PREFIX, DIGEST, FILLER = 0x184D2A5C, 0x184D2A5D, 0x184D2A5F
varint = mktrace.varint


def part(kind, content):
    return mktrace.section(kind, content)


def flow(values):
    return b"".join(varint(v) for v in values)


def steps(values, first=0):
    """Each as its difference to the one before."""
    out, last = b"", first
    for v in values:
        out += varint(v - last)
        last = v
    return out


def time(head, t_ns):
    return varint(mktrace.zigzag(t_ns - head["t_first"]))


def reading(head, e):
    return varint(e["free_bytes"]) + varint(e["total_bytes"]) + time(head, e["t_ns"])


def device(c, live, d):
    """The entry of a device, None: it was not used."""
    head, given, taken = c.head, c.given[d], c.taken[d]
    peak, lowest, last, reported = c.peak.get(d), c.lowest.get(d), c.last.get(d), c.reported.get(d)
    if not (live[d] or taken[1] or given[1] or lowest or last or reported):
        return None
    has = bool(peak) | bool(lowest) << 1 | bool(last) << 2 | bool(reported) << 3
    out = varint(has) + varint(live[d]) + flow([*taken, *given])
    if peak:
        out += varint(peak[0]) + varint(peak[1] - head["first_event"]) + time(head, peak[2])
    for e in (lowest, last):
        out += reading(head, e) if e else b""
    if reported:
        out += varint(reported["allocated_bytes"]) + varint(reported["reserved_bytes"])
        for name in ("allocated", "reserved"):
            most, event = c.most[d, name]
            out += varint(most) + varint(event - head["first_event"])
    return out


def devices(c, live):
    out, after = b"", 0
    for d in range(65):
        entry = device(c, live, d)
        if entry is not None:
            out += varint(d - after) + entry
            after = d + 1
    return out


def sites(state, c, tables):
    """Those that have an id in the dictionaries; the others are in the rest."""
    ids = {state.site(tables, i): i for i in tables[5]}
    ids[None] = 0
    found = [(f, ids[name]) for name, f in c.sites.items() if name in ids]
    found.sort(key=lambda s: (-s[0][0] - s[0][2], s[1]))
    listed = b"".join(varint(i) + flow(f) for f, i in found[:64])
    others = [f for f, _ in found[64:]] + [f for name, f in c.sites.items() if name not in ids]
    rest = [sum(f[i] for f in others) for i in range(4)]
    return part(5, listed) + part(6, flow(rest))


def parts(state, c, live):
    head = c.head
    flags = [struct.unpack_from("<B", s)[0] for s in checkpoints(head["raw_body"])]
    checkpoint = 0
    for f in flags:
        checkpoint |= f
    ops = sorted((read_trace.OPS.index(op), n) for op, n in c.ops.items())
    out = part(1, varint(1 + checkpoint if flags else 0) + varint(digests.definition_bytes(head["raw_body"])))
    counts, last = b"", 0
    for op, n in ops:
        counts += varint(op - last) + varint(n)
        last = op
    out += part(2, counts)
    if c.lost or c.failed:
        out += part(3, varint(c.lost) + varint(len(c.failed)) + steps(c.failed[:64], head["first_event"]))
    out += part(4, devices(c, live)) + sites(state, c, head["tables"])
    failed = sum(e["op"] == "amend" and bool(e.get("result")) for e in head["records"])
    return out + (part(7, varint(failed)) if failed else b"")


def checkpoints(raw):
    p = read_trace.Cursor(raw)
    while p.more():
        kind = p.varint()
        content = p.take(p.u32())
        if kind == 8:
            yield content


def frame(head, content):
    content = struct.pack("<QHH", head["sum"], 1, 0) + content
    content = b"CUTRDGST" + struct.pack("<Q", read_trace.xxh64(content)) + content
    return struct.pack("<II", DIGEST, len(content)) + content


def add(path, ring=False, edit=None):
    """The bytes of the trace with a digest in each chunk. `edit(c, live)` may change what it will say."""
    trace = read_trace.Trace(path, ring)
    state, notes = digests.Live(trace), {}
    for head, c in digests.follow(state, trace):
        live = {d: state.live.get(d, 0) for d in range(65)}
        if edit:
            edit(c, live)
        notes[head["sum"]] = frame(head, parts(state, c, live))
    return insert(trace.data, notes)


def insert(data, notes):
    """A trace with the frames of digests, by the checksums of their chunks, in place of those that it has."""
    at, out = 0, b""
    while at < len(data):
        magic, length = struct.unpack_from("<II", data, at)
        if magic == PREFIX:
            end = at + 104 + struct.unpack_from("<Q", data, at + 72)[0]
            magic, length = struct.unpack_from("<II", data, end)
            own = data[end:end + 8 + length] if magic == DIGEST else b""
            out += data[at:end] + notes.get(struct.unpack_from("<Q", data, at + 96)[0], own)
            at = end + len(own)
            length = struct.unpack_from("<I", data, at + 4)[0]
            pad = -len(out) % 8
            out += struct.pack("<II", FILLER, pad) + bytes(pad)
        else:
            out += data[at:at + 8 + length]
        at += 8 + length
    return out
