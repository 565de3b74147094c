# SPDX-License-Identifier: Apache-2.0
"""What the suites of cutrace watch share: a process that holds memory as it is told, traces that are written here as if
this process recorded them."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import check_ledger
import mkjournal
import schema
import ways
from mktrace import Trace, packed_columns
from tap import BUILD, ROOT, Skip, check, equal
from traces import G, M, S, begin
from ways import HANG, folder

CUTRACE = os.path.join(BUILD, "cutrace")
TORCH = os.path.join(BUILD, "tests/torch/blocks/first")
with open(os.path.join(ROOT, "tools/watch/schema.json"), encoding="utf-8") as schema_file:
    VALID = schema.fastjsonschema.compile(json.load(schema_file), use_default=False)
HOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "holder.py")


class Holder:
    """A process that holds what it is told to hold."""
    command = [sys.executable, HOLDER, os.path.join(TORCH, "libc10_cuda.so")]

    def __init__(self, where=None, **env):
        self.where = where or folder()
        env = {"BLOCKS_LEDGER": os.path.join(self.where, "blocks"), **env}
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.where,
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


class Light(Holder):
    """One without an interpreter, of which many run at once: it knows alloc, free and churn (hold.c)."""
    command = [os.path.join(BUILD, "tests/watch/hold")]


@contextlib.contextmanager
def crowd(n, where, **env):
    """n light processes; the i-th one holds i + 1 MiB."""
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(Light(where, **env)) for _ in range(n)]
        for i, h in enumerate(holders):
            equal(h.tell("alloc", (i + 1) << 20), 0)
        yield holders


def once(*words, json_too=True, env=None, **kw):
    """cutrace watch --once: (exit code, document or text, stderr)"""
    done = subprocess.run([CUTRACE, "watch", "--once", *(["--json"] if json_too else []), *map(str, words)], text=True,
                          capture_output=True, env={**os.environ, "COLUMNS": "100", **(env or {})}, check=False, **kw)
    if not json_too:
        return done.returncode, done.stdout, done.stderr
    document = json.loads(done.stdout)
    VALID(document)
    return done.returncode, document, done.stderr


def wait_until_written(where, sizes):
    """Until the headers of all journals say what their processes hold: pid -> bytes."""
    end = time.monotonic() + ways.HANG
    while (found := {p["pid"]: p["now"]["devices"][0]["tracked_bytes"] for p in once(where)[1]["processes"]
                     if p["now"]["devices"]}) != sizes:
        check(time.monotonic() < end, f"{found} instead of {sizes}")
        time.sleep(.02)


def written(levels, step_s=5.0, where=None, name="live", trace_id=0x77, function="grow", file="/m/grow.py", is_alive=True, ahead_s=0,
            version=3, pending=(), behind=(), **more):
    """A process that records (this one, as its journal says), whose allocations had these bytes, one after the other. Its
    last allocations may be pending: in the journal alone, a ring for each. `behind`: events that follow, with times from 0."""
    where = where or folder()
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + ahead_s * S
    t = Trace(trace_id=trace_id)
    t.version = version
    if version == 3:
        t.columns = packed_columns
    begin(t, pid=os.getpid(), **more)
    first = now - int(step_s * len(levels) * S)
    if first < 1000:
        raise Skip(f"a history of {step_s * len(levels):.0f} s, and the machine is up for {now / S:.0f}")
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
    t.pending += [t.record(**{k: v + now if k in ("t_ns", "amends_ns") else v for k, v in e.items()}) for e in behind]
    t.flush()
    j = mkjournal.Journal(trace_id=trace_id, seq=t.seq, dict_seq=t.dict_seq, first_event=t.number, drained_ns=now)
    if is_alive:
        j.alive()
    for i, size in enumerate(pending):
        at = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        ring, api = j.ring(j.thread(4711 + i)), j.name("cuMemAlloc_v2")
        ring.put(mkjournal.numbers("alloc", at, device=0, ptr=0x900 + i << 40, bytes=size, result=0, space="device", api=api))
    j.devices = [(levels[-1], max(levels), 0, 80 * G - M, 80 * G, first - 1000)]
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
    """What it is when it holds."""
    end = time.monotonic() + HANG
    while not (found := condition()):
        check(time.monotonic() < end, condition)
        time.sleep(.02)
    return found


def ended_by(process, number):
    """Sends a signal to a process that elsewhere() started, or to one without it."""
    for pid in [*children(process.pid), process.pid]:  # (unshare waits for its child)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def service(command, **kw):
    """A watch without a terminal, until SIGTERM: then what it said, line by line. (By then it must have done something, so
    that it waits for signals.)"""
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **kw)
    said = []
    try:
        yield said
        ended_by(p, signal.SIGTERM)
        said += p.communicate(timeout=HANG)[0].splitlines()
        equal(p.returncode, 0, said)
    finally:
        ended_by(p, signal.SIGKILL)
        p.wait()
        p.stdout.close()


def all_at_once(count, *words):
    """So many of a watch here, and as many elsewhere, side by side: what they said."""
    running = [subprocess.Popen([*before, CUTRACE, "watch", "--once", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for before in ([], elsewhere()) for _ in range(count)]
    said = []
    for p in running:
        said += p.communicate()[0].splitlines()
        equal(p.returncode, 0, said)
    return said
