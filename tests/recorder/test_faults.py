#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Full disks, limits and failing system calls, all provoked for real: the host does not notice, the recorder prints at
most one line for each fault, and recorded events stay readable."""
import itertools
import os
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from life import *  # noqa: E402,F403
from tap import Skip, case  # noqa: E402

EIO, ENOSPC, EDQUOT, EPERM, ENOSYS, ENOMEM = 5, 28, 122, 1, 38, 12
# ---- full disks -----------------------------------------------------------------------------------

SIZES = "0k", "64k", "1m", "3m", "5m", "6m", "7m", "8m"
for _size in SIZES:
    def _full(size=_size):
        with Mounted(f"size={size}" if size != "0k" else "size=4k,nr_inodes=1") as place:
            life = Life(1, 0, 64, CALLS, place=place).end()
            return unharmed(life, 1, 0, 64, CALLS) + readable(life) + (counted(life) if life.trace() else [])
    if _size in sample(SIZES, 3):
        case(f"a disk of {_size}")(_full)

    def _killed(size=_size):
        with Mounted(f"size={size}" if size != "0k" else "size=4k,nr_inodes=1") as place:
            life = Life(2, 0, 64, 0, place=place)
            wait_for_calls(life.where, life.process, 30000)
            kill(life.process, group=True)
            life.end()
            return readable(life) + ([] if len(life.lines()) < 3 else life.lines()[:5])
    if _size in sample(("64k", "5m", "7m"), 1, 1):
        case(f"a disk of {_size}, and SIGKILL")(_killed)


@case("a disk that becomes full, and has room again")
def _():
    with Mounted("size=24m") as place:
        life = Life(1, 10, 64, CALLS, place=place)
        wait_for_calls(life.where, life.process, 2000)
        with open(os.path.join(place, "filler"), "wb") as f:
            try:
                for _ in range(64):
                    f.write(b"x" * (1 << 20))
                    f.flush()
            except OSError:
                pass
        wait_for_calls(life.where, life.process, 8000)
        os.unlink(os.path.join(place, "filler"))
        life.end()
        return unharmed(life, 1, 10, 64, CALLS) + readable(life, needed=True) + counted(life)


# ---- calls that fail ------------------------------------------------------------------------------

FAULTS = library = os.path.join(BUILD, "tests/recorder/libfaults.so")
for _calls, _errno, _what in (("fallocate", ENOSPC, "full disk"), ("pwrite", ENOSPC, "full disk"),
                              ("fallocate,pwrite,write,ftruncate", EDQUOT, "quota"), ("pwrite", EIO, "input/output error"),
                              ("mmap", ENOMEM, "no memory"), ("mmap", 19, "a file system that cannot map"),
                              ("open", 24, "no file descriptors"), ("ftruncate", EIO, "input/output error"),
                              ("fallocate", 95, "a file system without fallocate")):
    def _fault(calls=_calls, errno=_errno):
        problems = []
        for after, most in sample(itertools.product((0, 1, 2, 3, 5, 9), (0, 3)), 2, errno):
            env = {"FAULT_CALLS": calls, "FAULT_ERRNO": errno, "FAULT_AFTER": after, "FAULT_FOR": most}
            life = Life(1, 0, 64, 8000, env=env, before=[FAULTS]).end()
            bad = unharmed(life, 1, 0, 64, 8000) + readable(life)
            problems += [f"after {after}, for {most or 'ever'}: {p}" for p in bad]
        return problems
    case(f"{_calls} fails: {_what} ({_errno})")(_fault)


@case("events were lost, and the ring file has overwritten the records of it: the report counts them all the same")
def _():
    where = folder()
    fault = os.path.join(where, "fault")
    env = {"CUTRACE_MAX_SIZE": "1M", "CUTRACE_TICK_NS": "1", "CUTRACE_NVML": "0",
           "FAULT_CALLS": "pwrite", "FAULT_ERRNO": ENOSPC, "FAULT_WHILE": fault}
    life = Life(1, 0, 4000, 0, where=where, env=env, before=[FAULTS])
    wait_for_calls(where, life.process, 20000)
    with open(fault, "wb"):
        wait_for_calls(where, life.process, calls_so_far(where) + 40000)
    os.unlink(fault)
    wait_for_calls(where, life.process, calls_so_far(where) + 400000)
    kill(life.process, group=True)
    life.end()
    trace, calls = judge.Trace(REPORT, life.trace()), calls_so_far(where)
    told, last = trace.summary["trace"]["lost_events"], trace.events[-1]["event"]
    left = sum(e["count"] for e in trace.events if e["op"] == "lost")  # (of a machine that is busy elsewhere)
    # Some of what was lost, or is numbered, were no calls: AMEND records, readings.
    right = calls - 2 <= told + last + 1 <= calls + told / 4 + 200 and told - left > 10000
    alone = shutil.copy(life.trace(), os.path.join(folder(), "trace.zst"))  # (without its journal, which counts them, too)
    by_file = judge.Trace(REPORT, alone, may_lack=True).summary["trace"]["lost_events"]
    return [] if right and by_file + left >= told else [
        f"{calls} calls, events up to {last}, {told} told as lost, {by_file} by the file; records of {left} are left"]


# ---- limits ---------------------------------------------------------------------------------------

def limited(what, value):
    return lambda: resource.setrlimit(what, (value, value))


for _limit in sample((64, 4096, 65536, 1 << 20, 5 << 20, 6 << 20, 8 << 20), 3):
    def _fsize(limit=_limit):
        where = folder()
        ledger = os.path.join(where, "ledger.0")
        with open(ledger, "wb") as f:
            f.truncate(64 << 20)
        life = Life(1, 0, 64, CALLS, where=where, env={"SIM_LEDGER_MAP": ledger},
                    preexec_fn=limited(resource.RLIMIT_FSIZE, limit)).end()
        want = plain(1, 0, 64, CALLS, preexec_fn=limited(resource.RLIMIT_FSIZE, 1 << 30))
        return unharmed(life, want=want) + readable(life)
    case(f"files may not be longer than {_limit} bytes")(_fsize)


@case("no file descriptor is left, from the start and later")
def _():
    problems = []
    for which in ("1", "2"):
        env = {"WORKER_FILES": which}
        where = folder()
        ledger = None if which == "1" else os.path.join(where, "ledger.%p")  # (the ledger needs one, too)
        life = Life(1, 0, 64, CALLS, where=where, env={**env, "SIM_LEDGER_MAP": ledger},
                    preexec_fn=limited(resource.RLIMIT_NOFILE, 64)).end()
        problems += unharmed(life, 1, 0, 64, CALLS, env=env, preexec_fn=limited(resource.RLIMIT_NOFILE, 64))
        problems += readable(life)
    return problems


@case("little address space: the program runs, whatever we get of it")
def _():
    """The driver has reserved its own before the first event. The library and what it maps come on top of what the program
    needs, and all of ours may be refused."""
    def live(more, preload):
        return Life(1, 0, 16, 3000, preload=preload, env={"SIM_BACKED": "0", "SIM_LEDGER_MAP": None},
                    preexec_fn=limited(resource.RLIMIT_AS, (4 << 30) + (more << 20))).end()
    base = next(more for more in range(0, 200, 2) if live(more, False).status == 0)
    want, problems = live(base, False), []
    for more in range(base + 8, base + 300, 6 if FULL else 20):
        life = live(more, True)
        problems += [f"4 GiB + {more} MiB: {p}" for p in unharmed(life, want=(0, want.out)) + readable(life)]
    return problems


# ---- files that others change ---------------------------------------------------------------------

def changed(change, **env):
    """At half of its calls somebody changes the files. The life, what it should have done, and its trace."""
    life = Life(1, 0, 64, CALLS, env={"WORKER_PAUSE": "1", **env}, stdin=subprocess.PIPE)
    wait_until(lambda: "half" in said(life.where, "out"), life.process, "half of the calls")
    time.sleep(0.4)  # (the trace is written every now and then)
    (path,) = traces(life.where).values()
    change(path)
    life.process.stdin.write(b"x")
    life.process.stdin.close()
    life.end()
    status, out = plain(1, 0, 64, CALLS)
    return life, unharmed(life, want=(status, "half\n" + out)), path


def meddled(change, needed=False, **env):
    life, problems, _ = changed(change, **env)
    return life, problems + readable(life, needed)


def truncate(path):
    os.truncate(path, os.path.getsize(path) // 2)


def replace(path):
    os.unlink(path)
    with open(path, "w", encoding="ascii") as f:
        f.write("somebody else's")


def is_theirs(path):
    with open(path, "rb") as f:
        return [] if f.read() == b"somebody else's" else [f"{path}: somebody else's file was changed"]


@case("the trace is deleted while it is written")
def _():
    return meddled(os.unlink)[1]


@case("the journal is deleted while it is written: the trace is whole at the end")
def _():
    life, problems = meddled(lambda p: os.unlink(p + ".journal"), needed=True)
    return problems + counted(life)


@case("trace and journal are deleted while they are written")
def _():
    return meddled(lambda p: (os.unlink(p), os.unlink(p + ".journal")))[1]


@case("the folder is deleted")
def _():
    where = folder()
    place = os.path.join(where, "gone")
    os.mkdir(place)
    life = Life(2, 100, 64, 5000, place=place)
    wait_for_calls(life.where, life.process, 3000)
    shutil.rmtree(place, ignore_errors=True)  # (its process may be removing the journal)
    life.end()
    return unharmed(life, want=(0, ""))


@case("the trace is cut off in the middle while it is written")
def _():
    # The middle of a chunk is gone: damage that the report tells of; the host is unharmed.
    _, problems, path = changed(truncate)
    r = subprocess.run([REPORT, "info", path], capture_output=True, text=True)
    return problems + (
        [] if r.returncode in (0, 3) else [f"check: exit {r.returncode}: {r.stderr[-300:]}"])


@case("the journal is somebody else's file by now: it stays")
def _():
    kept = []
    life, problems = meddled(lambda p: (replace(p + ".journal"), kept.append(p + ".journal")))
    return problems + is_theirs(kept[0])


# ---- folders that cannot be written ---------------------------------------------------------------

@case("a read-only file system")
def _():
    with Mounted("size=1m,ro") as place:
        life = Life(1, 0, 64, CALLS, place=place, env={"TMPDIR": place}).end()
        return unharmed(life, 1, 0, 64, CALLS)


@case("a read-only file system, with a substitute elsewhere")
def _():
    with Mounted("size=1m,ro") as place:
        other = folder()
        life = Life(1, 0, 64, CALLS, place=place, env={"TMPDIR": other}).end()
        life.place = other
        return unharmed(life, 1, 0, 64, CALLS) + readable(life, needed=True) + counted(life)


# ---- calls that a filter refuses ------------------------------------------------------------------

_fences = subprocess.run([program("with_syscall_denied"), "list"], capture_output=True, text=True, check=True).stdout.split()
for _fence in _fences:
    def _fenced(fence=_fence):
        problems = []
        ledger = None if fence in ("mmap-shared", "ftruncate") else "ledger.%p"
        ways = itertools.product((EPERM, ENOSYS), ((1, 0, 64, 5000), (2, 0, 64, 2000)))
        for error, arguments in sample(ways, 1, _fences.index(fence)):
            where = folder()
            env = {"SIM_LEDGER_MAP": ledger and os.path.join(where, ledger)}
            prefix = [program("with_syscall_denied"), fence, error]
            want = Life(*arguments, preload=False, env={"SIM_LEDGER_MAP": None}, prefix=prefix).end()
            if want.status == 77:
                raise Skip("seccomp is not to be had")
            life = Life(*arguments, where=where, env={**env, "FENCED_PRELOAD": LIBRARY}, preload=False, prefix=prefix).end()
            if want.status:  # this program cannot live without the call
                continue
            bad = unharmed(life, want=(want.status, want.out)) + readable(life)
            problems += [f"error {error}, {arguments[0]} threads: {p}" for p in bad]
        return problems
    case(f"{_fence} is refused by a filter")(_fenced)

if os.geteuid() and not os.environ.get("DEATH_NAMESPACE") and \
        not subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
    os.environ["DEATH_NAMESPACE"] = "1"  # there it may mount
    os.execvp("unshare", ["unshare", "-rm", "python3", *os.sys.argv])
end()
