#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranges of a program as phases (PHASES.md): traces that are written here say which range each allocation is in."""
import csv
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import traces as made_traces  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import case, check, equal, main, report  # noqa: E402

SECOND, MEBI = 10**9, 1 << 20
VLLM = (("execute_model", "/x/vllm/v1/worker/gpu_worker.py", 10),)
OTHER = (("step", "/x/train.py", 5),)


class Made:
    def __init__(self, heard=20):
        self.trace, self.at, self.events = Trace(), 60 * SECOND, []
        made_traces.begin(self.trace)
        if heard:
            self.trace.info.update({"annotations.calls": str(heard), "annotations.early": "0"})
        self.address = 0x7F0000000000

    def say(self, op, name=None, tid=100, domain=None, **fields):
        self.at += SECOND
        if domain:
            fields["domain"] = self.trace.string(domain)
        return self.trace.event(op, self.at, tid=tid, api="nvtxRangePushA", text=name, **fields)

    def alloc(self, mebi, tid=100, stack=None, result=0):
        self.at += SECOND
        self.address += 1 << 30
        return self.trace.event("alloc", self.at, tid=tid, api="cuMemAlloc_v2", ptr=self.address, bytes=mebi * MEBI, space="device",
                                device=0, context=1, result=result, stack=stack)

    def write(self):
        self.trace.flush(last=True)
        path = os.path.join(tempfile.mkdtemp(), "made.zst")
        with open(path, "wb") as f:
            f.write(self.trace.bytes())
        return path


def phases(path):
    return json.loads(report("phases", path, "--json")[1])


def taken(path):
    """(range or key of the phase, MiB taken) of each stretch."""
    return [((p["phase"] or {}).get("range") or (p["phase"] or {}).get("key"), p["taken_bytes"] // MEBI) for p in phases(path)["phases"]]


@case("a range without frames of a phase is the phase; the outermost one counts; behind it none is known")
def plain():
    m = Made()
    m.say("range-push", "load")
    m.say("range-push", "layer 1")
    m.alloc(1)
    m.say("range-pop")
    m.alloc(2)
    m.say("range-pop")
    m.alloc(4)
    m.say("range-push", "train")
    m.alloc(8, stack=OTHER)
    m.say("range-pop")
    path = m.write()
    equal(taken(path), [("load", 3), (None, 4), ("train", 8), (None, 0)])
    check(phases(path)["by_frames"])
    out = report("phases", path)[1].decode()
    check('range "load"' in out and "the ranges of the program" in out, out)


@case("frames that name a phase keep it; the range is beside it")
def beside():
    m = Made()
    m.say("range-push", "request 7")
    m.alloc(1, stack=VLLM)
    m.alloc(100000, stack=VLLM, result=2)
    m.say("range-pop")
    path = m.write()
    equal([t for t in taken(path) if t[1]], [("serve", 1)])
    (oom,) = json.loads(report("oom", path, "--json")[1])["ooms"]
    equal((oom["phase"]["key"], oom["phase"]["range"]), ("serve", "request 7"))
    for view in ("summary", "oom"):
        out = report(view, path)[1].decode()
        check('vLLM serving, in range "request 7"' in out, out)


@case("an OOM in a range says so")
def failure():
    m = Made()
    m.say("range-push", "evil\x1b[31m\"name")
    m.alloc(1)
    m.alloc(100000, result=2)
    path = m.write()
    (oom,) = json.loads(report("oom", path, "--json")[1])["ooms"]
    equal((oom["phase"]["key"], oom["phase"]["range"], oom["phase"]["inferred"]), ("range", "evil\x1b[31m\"name", False))
    out = report("oom", path)[1]
    check(b"during" in out and b"\x1b[31m" not in out and b"range \"evil" in out, out)


@case("ranges of other threads, of libraries and of PyTorch's operators are no phases; those of the process are")
def noise():
    m = Made()
    m.say("range-push", "mine")
    m.alloc(1, tid=100)
    m.say("range-pop")
    m.say("range-push", "ncclAllReduce", domain="NCCL")
    m.say("range-push", "aten::add, seq = 3")
    m.alloc(2)
    m.say("range-pop")
    m.say("range-pop", domain="NCCL")
    m.say("range-start", "save", handle=5)
    m.alloc(4, tid=200)
    m.say("range-end", tid=300, handle=5)
    m.alloc(8, tid=200)
    equal([t for t in taken(m.write()) if t[1]], [("mine", 1), (None, 2), ("save", 4), (None, 8)])


@case("ranges of two domains end each for itself; an end that belongs to none is ignored")
def domains():
    m = Made()
    m.say("range-pop")
    m.say("range-push", "a", domain="one")
    m.say("range-push", "b", domain="two")
    m.alloc(1)
    m.say("range-pop", domain="one")
    m.alloc(2)
    m.say("range-pop", domain="two")
    m.alloc(4)
    equal([t for t in taken(m.write()) if t[1]], [("a", 1), ("b", 2), (None, 4)])


@case("a thousand different ranges are a bounded table, whose rows add up")
def many():
    m = Made()
    for i in range(1000):
        m.say("range-push", f"step {i}")
        m.alloc(1)
        m.say("range-pop")
    rows = taken(m.write())
    check(len(rows) <= 48 + 128 + 2, len(rows))
    equal(sum(mebi for _, mebi in rows), 1000)
    check(("(other ranges)", 1000 - sum(mebi for name, mebi in rows if name != "(other ranges)")) in rows, rows[-3:])


@case("exports: the columns text, domain and range of events; marks and ranges for Perfetto")
def exports():
    m = Made()
    m.say("range-push", "load", domain="d")
    m.alloc(1)
    m.say("mark", "half")
    m.say("range-pop", domain="d")
    path = m.write()
    out = os.path.join(os.path.dirname(path), "out")
    equal(report("export", "--format=csv", "--table=events", path, "-o", out)[0], 0)
    with open(out, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    got = [(r["op"], r["text"], r["domain"], r["range"], r["phase"]) for r in rows if r["op"] in ("alloc", "mark", "range-push", "range-pop")]
    equal(got, [("range-push", "load", "d", "load", "range"), ("alloc", "", "", "load", "range"), ("mark", "half", "", "load", "range"),
                ("range-pop", "", "d", "", "")])
    equal(report("export", "--format=perfetto", path, "-o", out + ".pftrace")[0], 0)
    with open(out + ".pftrace", "rb") as f:
        written = f.read()
    check(all(word in written for word in (b"ranges", b"load", b"half")), written)


main()
