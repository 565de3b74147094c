# SPDX-License-Identifier: Apache-2.0
"""What the suites of cutrace watch share: a process that holds memory as it is told, traces that are written here as if
this process recorded them."""
import contextlib
import os
import subprocess
import sys
import time

import check_ledger
import mkjournal
import ways
from mktrace import Trace, packed_columns
from tap import BUILD, Skip, check, equal
from traces import G, M, S, begin
from ways import HANG, folder

CUTRACE = os.path.join(BUILD, "cutrace")
TORCH = os.path.join(BUILD, "tests/torch/blocks/first")
HOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "holder.py")


class Holder:
    """A process that holds what it is told to hold."""

    def __init__(self, where=None, **env):
        self.where = where or folder()
        env = {"BLOCKS_LEDGER": os.path.join(self.where, "blocks"), **env}
        self.process = subprocess.Popen([sys.executable, HOLDER, os.path.join(TORCH, "libc10_cuda.so")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=self.where,
                                        env=ways.environment(self.where, libraries=(TORCH,), env=env))
        equal(self.process.stdout.readline(), "ready\n")
        self.trace = os.path.join(self.where, f"trace.{self.process.pid}.zst")

    def tell(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()

    def ledger(self):
        return check_ledger.read_ledger(os.path.join(self.where, f"ledger.{self.process.pid}"))

    def blocks(self):
        """(allocated, reserved) by the allocator's last report."""
        with open(os.path.join(self.where, f"blocks.{self.process.pid}"), encoding="ascii") as f:
            _, _, _, _, allocated, reserved, _ = f.read().splitlines()[-1].split()
        return int(allocated), int(reserved)


def written(levels, step_s=5.0, where=None, name="live", trace_id=0x77, function="grow", file="/m/grow.py", is_alive=True, ahead_s=0, **more):
    """A process that records (this one, as its journal says), whose allocations had these bytes, one after the other."""
    where = where or folder()
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + ahead_s * S
    t = Trace(trace_id=trace_id)
    t.version, t.columns = 3, packed_columns
    begin(t, pid=os.getpid(), **more)
    first = now - int(step_s * len(levels) * S)
    t.event("memory-sample", first - 1000, device=0, free_bytes=80 * G - M, total_bytes=80 * G)
    before, held = 0, []
    for i, level in enumerate(levels):
        at = first + int(step_s * i * S)
        while held and before > level:
            ptr, size = held.pop()
            t.event("free", at, ptr=ptr)
            before -= size
            at += 1000
        if level > before:
            held.append(((i + 1) << 36, level - before))
            t.event("alloc", at, device=0, ptr=held[-1][0], bytes=held[-1][1], result=0, space="device", api="cudaMalloc",
                    stack=[(function, file, 1), ("main", "/m/main.py", 2)])
            before = level
    t.flush()
    j = mkjournal.Journal(trace_id=trace_id, seq=t.seq, dict_seq=t.dict_seq, first_event=t.number, drained_ns=now)
    if is_alive:
        j.alive()
    for suffix, data in (("", t.bytes()), (".journal", j.bytes())):
        with open(os.path.join(where, name + ".zst" + suffix), "wb") as f:
            f.write(data)
    return where


# ---- other containers ----------------------------------------------------------------------------------------------------

# In name spaces of its own, as in another container of the pod: it shares the folder and nothing else.
_ELSEWHERE = ["unshare", *([] if os.geteuid() == 0 else ["--map-current-user"]), "--pid", "--mount", "--fork", "--mount-proc"]


def elsewhere():
    if subprocess.run([*_ELSEWHERE, "true"], capture_output=True, check=False).returncode:
        raise Skip("unshare: no name spaces here")
    return _ELSEWHERE


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except FileNotFoundError:
        return []


def wait_for(condition):
    end = time.monotonic() + HANG
    while not condition():
        check(time.monotonic() < end, condition)
        time.sleep(.02)


def ended_by(process, number):
    """Sends a signal to a process that elsewhere() started, or to one without it."""
    for pid in [*children(process.pid), process.pid]:  # (unshare waits for its child)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
