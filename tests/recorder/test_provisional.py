#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trace's file alone, without its journal, while the process runs and after SIGKILL: it lags behind by some seconds
only, and takes no more space for that. The truth is the ledger, and a second reader of the format (tests/lib)."""
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from tap import case, check, equal, note  # noqa: E402

import read_trace  # noqa: E402

OFTEN = {"CUTRACE_FLUSH_MS": "40", "CUTRACE_UPDATE_MS": "10"}
PROVISIONAL = 16


def heads(path):
    """(place, bytes, flags, number, events up to its end) of the chunks in a file, which may grow meanwhile; and the bytes
    of free space."""
    with open(path, "rb") as f:
        data = f.read()
    at, found, free = 0, [], 0
    while at + 104 <= len(data):
        magic, length = struct.unpack_from("<II", data, at)
        size = 8 + length
        if magic == 0x184D2A5C and data[at + 8:at + 16] == b"CUTRCHNK":
            flags, number = struct.unpack_from("<IQ", data, at + 20)
            first, events = struct.unpack_from("<QI", data, at + 40)
            size += struct.unpack_from("<Q", data, at + 72)[0]
            if at + size + 8 > len(data):
                break
            if struct.unpack_from("<I", data, at + size)[0] == 0x184D2A5D:  # a digest
                size += 8 + struct.unpack_from("<I", data, at + size + 4)[0]
            size += 8 + struct.unpack_from("<I", data, at + size + 4)[0]
            found.append((at, size, flags, number, first + events))
        else:
            free += size
        at += size
    return found, free


def the(found):
    (one,) = found.values()
    return one


def newer(path, before):
    """The last chunk, if it is another one than before."""
    last = heads(path)[0][-1]
    return last != before and last


def calls_in(path):
    """Calls in the file, by the second reader."""
    return [e for e in read_trace.Trace(path).events if e["op"] in ("alloc", "free")]


def happened(path, ledger):
    """Problems of a file that is not whole: all in it did happen, in its order."""
    problems, _ = judge.part(REPORT, path, ledger)
    return problems


# ---- killed -----------------------------------------------------------------------------------


@case("killed at 100 calls a second: the file alone has all calls but those since its last provisional chunk")
def killed_slowly():
    where = folder()
    p = start(where, program("worker"), "1", "10000", "64", "0", "1", env={"WORKER_REFUSALS": "0"})
    wait_for_calls(where, p, 50)
    path, provisional, complete = the(traces(where)), 0, 0
    while provisional < 3:
        returned, before = calls_so_far(where), heads(path)[0][-1]
        newest = wait_until(lambda b=before: newer(path, b), p, "a provisional chunk")
        provisional += bool(newest[2] & PROVISIONAL)
        complete += not newest[2] & PROVISIONAL
        check(complete <= 1 + provisional, "the complete chunk came first")
    # The last one was made after the one before it was seen: it has the calls that had returned by then.
    kill(p, group=False)
    os.unlink(path + ".journal")
    problems = happened(path, the(ledgers(where)))
    check(len(calls_in(path)) >= returned, f"{len(calls_in(path))} of {returned} calls")
    return problems


# ---- with the journal -------------------------------------------------------------------------


@case("killed between provisional chunks: the file alone is a part of the truth, with its journal it is the truth")
def with_and_without():
    problems = []
    rng = dice()
    for _ in range(60 if FULL else 3):
        where = folder()
        p = start(where, program("worker"), "2", "300", "64", "0", str(rng.randrange(1 << 30)), env=OFTEN)
        wait_for_calls(where, p, rng.randrange(50, 2000))
        kill(p, group=False)
        path, ledger = the(traces(where)), the(ledgers(where))
        alone = os.path.join(where, "alone.zst")
        shutil.copy(path, alone)
        problems += whole(where, killed=True) + happened(alone, ledger)
        sealed = subprocess.run([REPORT, "copy", "--seal", path], capture_output=True, text=True)
        problems += [sealed.stderr] if sealed.returncode else judge.judge(REPORT, path, ledger)[0] + accepted(path)
        read_trace.Trace(path)
    return problems


# ---- space, and what is written ---------------------------------------------------------------


def ended(pause_us, calls, **env):
    """A process that has ended well: its chunks, and the bytes of chunks that were written before its last one."""
    where, status = run(program("worker"), "1", pause_us, "64", calls, "1", env=env)
    equal(status, 0)
    path = the(traces(where))
    found, free = heads(path)
    equal(free, 0, "free space")
    equal(sum(h[1] for h in found), os.path.getsize(path), "bytes of chunks")
    equal([h for h in found if h[2] & PROVISIONAL], [], "provisional chunks at the end")
    problems = whole(where)
    equal(problems, [])
    info = subprocess.run([REPORT, "info", path], capture_output=True, text=True, check=True).stdout
    written = int(re.search(r"^recorder.bytes_written +(\d+)$", info, re.M).group(1))
    return [h[1] for h in found], written


@case("provisional chunks are gone at the end, and at most 4 bytes were written for each byte of the file")
def four_times():
    # (so seldom that a writer which waits for a core misses none of them; a failed request would close its chunk before one is due)
    chunks, written = ended("500", "10000", CUTRACE_FLUSH_MS="2000", CUTRACE_UPDATE_MS="500", WORKER_REFUSALS="0")
    note(f"{len(chunks)} chunks, {sum(chunks)} bytes, {written} written before the last chunk")
    check(written > 1.2 * sum(chunks), "there were hardly any provisional chunks")
    check(written <= 4 * sum(chunks), "more than 4 times the bytes")
    return []


@case("at full rate there is no provisional chunk, and none with CUTRACE_UPDATE_MS=0")
def none():
    for pause_us, calls, env in (("0", "100000", {}), ("500", "2000", {**OFTEN, "CUTRACE_UPDATE_MS": "0"})):
        chunks, written = ended(pause_us, calls, **env)
        # (The figure is in the last chunk, and was taken some chunks before.)
        check(written in itertools.accumulate(chunks), f"{written} bytes were written for chunks of {chunks}")
    return []


@case("with CUTRACE_MEMORY=1 there is none: the file stays empty")
def in_memory():
    where = folder()
    p = start(where, program("worker"), "1", "300", "64", "0", "1", env={**OFTEN, "CUTRACE_MEMORY": "1", "WORKER_REFUSALS": "0"})
    wait_for_calls(where, p, 3000)
    size = os.path.getsize(the(traces(where)))
    kill(p, group=False)
    equal(size, 0, "bytes of the file")
    problems = whole(where, killed=True)
    remove(where)
    return problems


end()
