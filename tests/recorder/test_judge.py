#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of killed processes: it finds every lost and invented call, and tolerates only calls that were under
way."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from mktrace import FIRST_PART, INEXACT, LAST_PART, Trace  # noqa: E402
from tap import case  # noqa: E402

_RECORD, _RECORDS_AT, _THREADS_AT = 120, 4096 + 65536 + 4096 * 64, 4096 + 65536
_made = {}


def recorded(threads=2):
    """A life that ended well: folder, trace and ledger of its process."""
    if threads not in _made:
        where, status = run(program("worker"), threads, 0, 16, 300, 5)
        (trace,), (ledger,) = traces(where).values(), ledgers(where).values()
        assert status == 0
        _made[threads] = (where, trace, ledger)
        ways._folders.remove(where)  # it is used again
    return _made[threads]


def changed(change, threads=2):
    """Problems after change(bytearray of the ledger)."""
    where, trace, ledger = recorded(threads)
    with open(ledger, "rb") as f:
        data = bytearray(f.read(_RECORDS_AT + 4000 * _RECORD))
    change(data)
    path = os.path.join(where, "changed")
    with open(path, "wb") as f:
        f.write(data)
    return judge.judge(REPORT, trace, path)[0]


def count(data):
    return struct.unpack_from("<Q", data, 24)[0]


def put(data, at, kind, value):
    struct.pack_into(kind, data, at, value)


def last_call_was_under_way(data):
    for i in range(2):
        at = _THREADS_AT + 64 * i + 16
        put(data, at, "<Q", struct.unpack_from("<Q", data, at)[0] - 1)


@case("what was recorded whole is accepted")
def _():
    return changed(lambda data: None) + changed(lambda data: None, 8)


@case("who of several threads made the primary context is not asked, but that it was made once, and ended")
def _():
    def of(tid, op, seq, t_ns=0):
        return {"tid": tid, "op": op, "seq": seq, "event": seq, "t_ns": t_ns, "device": 0, "context": 16, "api": "x", "result": 0}
    true = [of(1, "context-create", 1, 10), of(1, "context-destroy", 2, 20), of(2, "context-create", 3, 30)]
    seen = [{**e, "tid": 7} for e in true]

    def wrong(events, sure=(1, 2, 3), wrapped=0):
        return len(judge.compare_primaries(events, true, set(sure), wrapped)[0])
    found = [wrong(seen), wrong(seen[:2], (1, 2)), wrong(seen[2:], wrapped=25 - judge.check_ledger.CLOCK_NS),  # right
             wrong(seen[:2]), wrong(seen[1:]), wrong(seen + seen[:1]), wrong([seen[0], seen[0], *seen[1:]]), wrong([])]
    return [] if found[:3] == [0] * 3 and all(found[3:]) else [f"problems: {found}"]


@case("a call under way may be in the trace")
def _():
    return changed(last_call_was_under_way)


def cut_ledger(kind):
    """The ledger without its last call, whose event is in the trace."""
    def change(data):
        n = count(data)
        put(data, 24, "<Q", n - 1)
        api = struct.unpack_from("<H", data, _RECORDS_AT + (n - 1) * _RECORD + 12)[0]
        name = data[4096 + 64 * api:4096 + 64 * api + 64].split(b"\0")[0].decode()
        kind.append(name)
        at = _THREADS_AT + 16
        for i in range(2):  # the call had not returned
            tid = struct.unpack_from("<I", data, _THREADS_AT + 64 * i)[0]
            if tid == struct.unpack_from("<I", data, _RECORDS_AT + (n - 1) * _RECORD + 8)[0]:
                at = _THREADS_AT + 64 * i + 16
        put(data, at, "<Q", struct.unpack_from("<Q", data, at)[0] - 1)
    return change


@case("a give-back that the driver has not done may be in the trace, an allocation not")
def _():
    kind = []
    problems = changed(cut_ledger(kind))
    return [] if bool(problems) == (kind[0] == "cuMemAlloc_v2") else [f"{kind}: {problems}"]


def seen(name, change, word=""):
    @case(f"seen: {name}")
    def _():
        found = changed(change)
        return [] if found and word in found[0] else [f"nothing about {word}: {found}"]


def more(data):
    """One more call that had returned, and is in no trace."""
    n = count(data)
    data[_RECORDS_AT + n * _RECORD:_RECORDS_AT + (n + 1) * _RECORD] = data[_RECORDS_AT + (n - 1) * _RECORD:
                                                                            _RECORDS_AT + n * _RECORD]
    put(data, 24, "<Q", n + 1)
    tid = struct.unpack_from("<I", data, _RECORDS_AT + n * _RECORD + 8)[0]
    for i in range(2):
        if struct.unpack_from("<I", data, _THREADS_AT + 64 * i)[0] == tid:
            for at in (_THREADS_AT + 64 * i + 8, _THREADS_AT + 64 * i + 16):
                put(data, at, "<Q", struct.unpack_from("<Q", data, at)[0] + 1)


def fewer(data):
    """Two calls of a thread that the ledger does not know."""
    put(data, 24, "<Q", count(data) - 40)


seen("a call that had returned is not in the trace", more, "lost")
seen("calls that were never made", fewer, "invented")
def an_allocation(data):
    """Where the record of one that succeeded lies."""
    for n in range(20, count(data)):
        at = _RECORDS_AT + n * _RECORD
        has, _, result = struct.unpack_from("<Iii", data, at + 16)
        if has & 12 == 12 and not result:
            return at
    raise ValueError("none")


for at, kind, value, what in ((0, "<Q", 1 << 62, "t_ns"), (24, "<i", 7, "result"), (28, "<i", 1, ""),
                              (40, "<Q", 4096, "ptr"), (48, "<Q", 12345, "bytes")):
    seen(f"an allocation that differs at byte {at}",
         lambda d, at=at, k=kind, v=value: put(d, an_allocation(d) + at, k, v), what)


def written_ledger(path, calls):
    """calls: (time, thread, api, op, ptr), and a size if it is not 512; all of them had returned."""
    names = ["cuMemAlloc_v2", "cuMemFree_v2", "alloc", "free"]
    made = {tid: sum(1 for c in calls if c[1] == tid) for tid in sorted({c[1] for c in calls})}
    data = bytearray(_RECORDS_AT)
    struct.pack_into("<8sIIQQQQQ", data, 0, b"SIMLEDG1", 1, 0, 100, len(calls), len(names), len(made), 0)
    for i, name in enumerate(names):
        data[4096 + 64 * i:4096 + 64 * i + len(name)] = name.encode()
    for i, (tid, n) in enumerate(made.items()):
        struct.pack_into("<IIQQ", data, _THREADS_AT + 64 * i, tid, 0, n, n)
    for t_ns, tid, api, op, ptr, *size in calls:  # (device and address are known, and of an allocation its bytes)
        data += struct.pack("<QIHHIiii9Q16x", t_ns, tid, names.index(api), names.index(op), 13 if op == "alloc" else 5, 0, 0, 0, 0,
                            ptr, *(size or [512]), *[0] * 6)
    with open(path, "wb") as f:
        f.write(data)


ABOUT = {"device": 0, "space": "device"}


def judge_ring(calls, events, records, flags=0):
    """Of a ring that has gone round, before these calls: `records` of its checkpoint, then `events`."""
    where = folder()
    trace, ledger = os.path.join(where, "trace.1.zst"), os.path.join(where, "ledger.1")
    written_ledger(ledger, calls)
    t = Trace()
    t.seq, t.number = 7, 50
    t.checkpoint()
    state = [t.record(op, t_ns, **fields) for op, t_ns, fields in records]
    for op, t_ns, fields in events:
        t.event(op, t_ns, **fields)
    t.segment = True
    t.flush(last=True, checkpoint=(FIRST_PART | LAST_PART | flags, state))
    with open(trace, "wb") as f:
        f.write(t.bytes())
    return judge.judge(REPORT, trace, ledger, may_wrap=True)[0]


def judge_wrapped(freed_ns, lacks=False):
    """A thread published a free, lost its core before the driver's, and was killed when the file had wrapped. Only the
    checkpoint still names that free; lacks: the checkpoint has neither the free nor its object."""
    about = {"bytes": 512, **ABOUT}
    records = [("alloc", 2000, {"tid": 2, "ptr": 0x20000, "event": 2, **about})]
    if not lacks:
        records += [("amend", freed_ns, {"tid": 1, "amends_ns": freed_ns}),
                    ("alloc", 1000, {"tid": 1, "ptr": 0x10000, "event": 1, **about})]
    return judge_ring([(1000, 1, "cuMemAlloc_v2", "alloc", 0x10000), (2000, 2, "cuMemAlloc_v2", "alloc", 0x20000),
                       (90000, 2, "cuMemAlloc_v2", "alloc", 0x30000)],
                      [("alloc", 90000, {"tid": 2, "api": "cuMemAlloc_v2", "ptr": 0x30000, "result": 0, **about})], records)


@case("a free that the driver has not done may be named by a checkpoint only, if the thread's events were overwritten")
def _():
    return judge_wrapped(freed_ns=3000)


@case("seen: an object that a checkpoint lacks, or a free in it that the driver should have done")
def _():
    wrong = [judge_wrapped(freed_ns=3000, lacks=True), judge_wrapped(freed_ns=500)]
    return [] if all(w and "live" in w[0] for w in wrong) else [f"not found: {wrong}"]


@case("a free from a ring ends what was at its address then, not what the same thread freed there a moment before")
def _():
    near = judge.check_ledger.CLOCK_NS // 4
    return judge_ring([(1000, 1, "cuMemAlloc_v2", "alloc", 0x10000, 600),
                       (90000 - 2 * near, 1, "cuMemFree_v2", "free", 0x10000),
                       (90000 - near, 1, "cuMemAlloc_v2", "alloc", 0x10000),
                       (90000, 1, "cuMemFree_v2", "free", 0x10000),
                       (95000, 1, "cuMemAlloc_v2", "alloc", 0x20000)],
                      [("free", 90000, {"tid": 1, "api": "cuMemFree_v2", "ptr": 0x10000, "result": 0}),
                       ("alloc", 95000, {"tid": 1, "api": "cuMemAlloc_v2", "ptr": 0x20000, "bytes": 512, "result": 0, **ABOUT})],
                      [("alloc", 1000, {"tid": None, "event": 1, "count": 1, "bytes": 512, **ABOUT})], INEXACT)


def judge_sums(summed, freed_ns=90000, **described):
    """One of two allocations before a checkpoint is freed after it. The checkpoint has the sum of `summed` allocations."""
    return judge_ring([(1000, 1, "cuMemAlloc_v2", "alloc", 0x10000), (2000, 1, "cuMemAlloc_v2", "alloc", 0x20000),
                       (90000, 1, "cuMemFree_v2", "free", 0x10000)],
                      [("free", freed_ns, {"tid": 1, "api": "cuMemFree_v2", "ptr": 0x10000, "result": 0, **described})],
                      [("alloc", 1000, {"tid": None, "event": 1, "count": summed, "bytes": 512 * summed, **ABOUT})], INEXACT)


@case("a sum keeps an allocation whose free was in a ring at the kill, and loses one whose free was described")
def _():
    return judge_sums(2) + judge_sums(2, bytes=512, **ABOUT)


@case("a free that states its size may be ahead of the ledger's by what the clocks differ")
def _():
    return judge_sums(2, 90000 + judge.check_ledger.CLOCK_NS, bytes=512, **ABOUT)


@case("seen: a free with the size of another allocation, or further ahead")
def _():
    return [f"nothing about {what}: {found}" for what, found in (
        ("bytes differ", judge_sums(2, bytes=511, **ABOUT)),
        ("t_ns (after", judge_sums(2, 90001 + judge.check_ledger.CLOCK_NS, bytes=512, **ABOUT)))
            if not found or what not in found[0].splitlines()[0]]


@case("seen: a sum of too many, or of too few")
def _():
    wrong = [judge_sums(n, **d) for n in (1, 3) for d in ({}, {"bytes": 512, **ABOUT})]
    return [] if all(w and "live" in w[0] for w in wrong) else [f"not found: {wrong}"]


end()
