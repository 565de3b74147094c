#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Journals that lie, end anywhere, never end, change while they are read or belong to somebody else: cutrace watch says what
is there or one line, and neither crashes, hangs, takes a lot of memory nor leaves its folder. It runs with a sanitized
program, too: CUTRACE_BUILD=build/san-address-undefined."""
import os
import resource
import shutil
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import mkjournal  # noqa: E402
from live import once, written  # noqa: E402
from tap import BUILD, FULL, Skip, case, check, dice, equal, main  # noqa: E402
from traces import G, M  # noqa: E402
from ways import HANG, folder  # noqa: E402

PENDING = 48 * M, 5 * M  # in the journal's rings
STATES = {G, G + 48 * M, G + 5 * M, G + 53 * M}  # with all of them, or some
TEBI = 1 << 40


def limit():
    """Of memory and of processor time: guards, that a header cannot make it take more."""
    if "san" not in os.path.basename(BUILD):  # (which reserves terabytes)
        resource.setrlimit(resource.RLIMIT_AS, (4 * G, 4 * G))
    resource.setrlimit(resource.RLIMIT_CPU, (HANG, HANG))


def put(where, data, size=None, name="live"):
    with open(os.path.join(where, name + ".zst.journal"), "wb") as f:
        f.write(data)
        if size is not None:
            f.truncate(size)


def good_one():
    where = written([G] * 20, pending=PENDING)
    with open(os.path.join(where, "live.zst.journal"), "rb") as f:
        return where, f.read()


def look(where, what):
    """The only process, or None: it was skipped. What is said of its memory is what some of its events say."""
    code, document, err = once(where, preexec_fn=limit)
    equal((code, err), (0 if document["processes"] else 3, ""), what)
    equal(len(document["processes"]) + document["skipped_count"], 1, (what, document))
    if not document["processes"]:
        return None
    (process,) = document["processes"]
    check((process["details"] is None) == (process["problem"] is not None), (what, process))
    for device in process["details"]["devices"] if process["details"] else ():
        check(device["tracked_bytes"] in STATES, (what, device))
    return process


@case("a journal of every length: up to that of its header one line, then what the trace and the whole rings have")
def lengths():
    where, data = good_one()
    equal(look(where, "whole")["details"]["devices"][0]["tracked_bytes"], G + sum(PENDING))
    many = folder()
    for n in range(mkjournal.HEAD_BYTES):
        put(many, data[:n], name=f"t{n}")
    code, document, err = once(many)
    equal((code, err, document["processes"], document["skipped_count"]), (3, "", [], mkjournal.HEAD_BYTES))
    places = struct.unpack_from("<8Q", data, mkjournal.HEAD.size - 16 - 24 - 64)
    cuts = {at + by for at in (mkjournal.HEAD_BYTES, 2 * mkjournal.PAGE, *places, places[-1] + mkjournal.PAGE, len(data))
            for by in (-8, -1, 0, 1, 8) if mkjournal.HEAD_BYTES <= at + by <= len(data)}
    for n in sorted(cuts | set(range(mkjournal.HEAD_BYTES, len(data), 509 if FULL else 4099))):
        put(where, data[:n])
        check(look(where, f"cut at {n}"), n)


@case("an endless journal (1 TiB) and a short one whose header's fields are any: one line, or what the events say")
def lying():
    where, data = good_one()
    (rings_at,) = struct.unpack_from("<Q", data, 136)
    wide = 0, 1, 1 << 31, (1 << 32) - 1, (1 << 48) - 1, 1 << 63, (1 << 64) - 1
    fields = [(at, "<I", v) for at in (12, 64, 68, 72, 76, *range(168, 184, 4)) for v in wide[:4]]
    fields += [(at, "<Q", v) for at in (*range(24, 64, 8), *range(80, 168, 8), *range(mkjournal.SHELF, mkjournal.SHELF + 32, 8),
                                        *(rings_at + i for i in (0, 8, 16, 64, 72))) for v in wide]
    others = [(at, "<Q", v) for at in range(mkjournal.COMMITTED, mkjournal.COUNTERS + 120, 8) for v in wide[-3:]]
    end = 0
    for at, form, v in fields + (others if FULL else dice(5).sample(others, 60)):
        bad = bytearray(data)
        struct.pack_into(form, bad, at, v)
        for size in (None, TEBI):
            put(where, bad, size)
            end += look(where, f"{v:#x} at {at}, {size} bytes") is not None
    check(end > 100, end)


@case("a header that claims 2^63 events, lost ones and bytes: the details are those of the events")
def claims():
    where, data = good_one()
    bad = bytearray(data)
    for at in range(mkjournal.COUNTERS, mkjournal.COUNTERS + 4 * 8 + 48, 8):
        struct.pack_into("<Q", bad, at, 1 << 63)
    put(where, bad)
    process = look(where, "2^63")
    equal((process["now"]["events"], process["details"]["events"], process["details"]["lost_events"],
           process["details"]["devices"][0]["tracked_bytes"]), (1 << 63, 2 + 2, 0, G + sum(PENDING)))
    code, text, err = once(where, json_too=False)
    equal((code, err), (0, ""))
    check(" lost" not in text and "53.00 MiB" not in text.split("GPU 0")[0], text)


class Changing:
    """A thread that writes into a journal at random, cuts it and makes it long, until it is told to stop."""

    def __init__(self, path, data, seed):
        self.path, self.data, self.random, self.count, self.stop = path, data, dice(seed), 0, False
        self.thread = threading.Thread(target=self.run)

    def change(self, f):
        at = self.random.choice((0, 8, 12, 32, mkjournal.COMMITTED, self.random.randrange(mkjournal.HEAD_BYTES // 8) * 8,
                                 self.random.randrange(len(self.data) // 8) * 8))
        if self.random.random() < .05:
            f.truncate(self.random.choice((0, mkjournal.HEAD_BYTES, len(self.data), self.random.randrange(len(self.data)), TEBI)))
        if self.random.random() < .5:
            os.pwrite(f.fileno(), self.random.randbytes(8), at)
        else:
            os.pwrite(f.fileno(), self.data, 0)

    def run(self):
        with open(self.path, "r+b", buffering=0) as f:
            while not self.stop:
                self.change(f)
                self.count += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()


@case("a journal that somebody rewrites while it is read: no crash, no hang, and at the end its figures again")
def changing():
    where, data = good_one()
    with Changing(os.path.join(where, "live.zst.journal"), data, 9) as thread:
        for i in range(400 if FULL else 60):
            before = thread.count
            code, document, err = once(where, preexec_fn=limit)
            check(code in (0, 3) and err == "", (i, code, err))
            equal(len(document["processes"]) + document["skipped_count"], 1, document)
            while thread.count == before:  # it did change
                os.sched_yield()
    put(where, data)
    equal(look(where, "at the end")["details"]["devices"][0]["tracked_bytes"], G + sum(PENDING))


def seconds(where):
    """Of a processor, for the details of a trace."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    check(look(where, "corrections")["details"])
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


@case("a trace of corrections of one time, by which nothing was freed: 8 times as many take no more than 20 times as long")
def corrections():
    def flood(n):
        return written([G] * 20, version=1, behind=[
            *({"op": "free", "t_ns": 0, "ptr": 1 << 36, "result": 0} for _ in range(n)),
            *({"op": "amend", "t_ns": 1 + i, "amends_ns": 0, "result": 1} for i in range(n))])
    one = look(flood(1), "a correction")
    equal(one["details"]["devices"][0]["tracked_bytes"], G)
    least, took = seconds(flood(2500)), seconds(flood(20000))
    check(took <= 20 * max(least, .01), f"{least:.3f} s, and {took:.3f} s")


@case("a link to a journal in memory is followed only if both are of one user")
def links():
    if os.geteuid():
        raise Skip("needs root")
    where, data = good_one()
    path, target = os.path.join(where, "live.zst.journal"), f"/dev/shm/cutrace-test-{os.getpid()}.journal"
    shutil.move(path, target)
    try:
        os.chown(target, 1, 1)
        os.chown(os.path.join(where, "live.zst"), 1, 1)
        os.symlink(target, path)
        for owner, shown in ((1, True), (2, False)):
            os.chown(path, owner, owner, follow_symlinks=False)
            _, document, _ = once(where)
            equal((len(document["processes"]), document["skipped_count"]), (1, 0) if shown else (0, 1), (owner, document))
        check(data and "is a link, which is not followed" in document["skipped"][0], document)
    finally:
        os.unlink(target)


@case("what a journal becomes while it is known: a FIFO, a folder, a link out of the folder, /dev/zero")
def becomes():
    where, _ = good_one()
    elsewhere = written([3 * G] * 20, name="secret", trace_id=0x99)
    path = os.path.join(where, "live.zst.journal")
    for make in (os.mkfifo, os.mkdir, lambda p: os.symlink(os.path.join(elsewhere, "secret.zst.journal"), p),
                 lambda p: os.symlink("/dev/zero", p)):
        subprocess.run(["rm", "-rf", path], check=True)
        make(path)
        equal(look(where, make), None)


main()
