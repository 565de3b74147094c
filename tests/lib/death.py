# SPDX-License-Identifier: Apache-2.0
"""What the suites of tests/recorder share: they start, kill and judge programs."""
import ctypes
import glob
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import judge
import tap
import ways
from tap import BUILD, FULL, LIBRARY, REPORT, ROOT, SEED, Skip, dice, sample  # noqa: F401
from ways import HANG, folder

HERE = os.path.join(ROOT, "tests/recorder")


def undisturbed(function):
    """Calls a case's function, again if events were lost, at most three times.

    On a busy machine the writer may have no core until a ring is full. Then the recorder counts events as lost, as
    documented, and the run decides nothing."""
    for _ in range(3):
        try:
            problems = list(function() or [])
        except AssertionError as e:
            problems = [str(e)]
            if not judge.has_losses(problems):
                raise
        if not judge.has_losses(problems):
            break
        tap.note("events were lost: once more")
    return problems


def program(name):
    path = os.path.join(BUILD, "tests/recorder", name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not built")
    return path


def environment(where, preload=True, env=None, **kw):
    """As for tests/interception, with the ledger that outlives the process."""
    e = ways.environment(where, preload, env={"SIM_LEDGER": None, "SIM_LEDGER_MAP": os.path.join(where, "ledger.%p"),
                                              "SIM_LEDGER_MAP_MB": "256", **(env or {})}, **kw)
    return e


def start(where, *command, **kw):
    """In a group (and session) of its own, so that the whole group can be killed."""
    keep = {k: kw.pop(k) for k in ("stdin", "preexec_fn", "pass_fds", "cwd") if k in kw}
    keep.setdefault("cwd", where)
    with open(os.path.join(where, "out"), "wb") as out, open(os.path.join(where, "err"), "wb") as err:
        return subprocess.Popen(list(map(str, command)), env=environment(where, **kw), start_new_session=True,
                                stdout=out, stderr=err, **keep)


def said(where, name="err"):
    with open(os.path.join(where, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def adopt():
    """Orphans become children of this process, which can wait for them."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def kill(process, group):
    """Ends the process, or all of its group, and returns when they are gone."""
    (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
    status = process.wait()
    while group:
        try:
            os.waitpid(-process.pid, 0)
        except ChildProcessError:
            break
    return status


def by_pid(where, pattern):
    return {int(re.search(r"\.(\d+)", os.path.basename(p)).group(1)): p
            for p in glob.glob(os.path.join(glob.escape(where), pattern))}


def ledgers(where):
    """Those that a process has begun."""
    return {pid: p for pid, p in by_pid(where, "ledger.*").items() if os.path.getsize(p)}


def traces(where):
    return {pid: p for pid, p in by_pid(where, "trace.*.zst").items()}


def journals(where):
    return by_pid(where, "trace.*.zst.journal")


def calls_so_far(where, pid=None):
    """How many calls all ledgers of the folder have by now, or that of one process."""
    total = 0
    for path in (path for of, path in ledgers(where).items() if pid in (None, of)):
        with open(path, "rb") as f:
            head = f.read(32)
        total += struct.unpack_from("<Q", head, 24)[0] if len(head) == 32 else 0
    return total


def wait_until(condition, process=None, what="the condition", pause=0.01, where=None):
    """What the condition returned when it came true, as it does before the process, if one is given, has ended.

    where: the folder whose `err` is shown if it does not."""
    end = time.monotonic() + HANG
    while not (found := condition()):
        if (process and process.poll() is not None) or time.monotonic() > end:
            raise TimeoutError(f"{what} did not come true: status {process and process.poll()}: {said(where)[-800:] if where else ''}")
        time.sleep(pause)
    return found


def wait_for_calls(where, process, n, pid=None):
    end = time.monotonic() + HANG
    while calls_so_far(where, pid) < n and process.poll() is None:
        if time.monotonic() > end:
            raise TimeoutError(f"{n} calls were not made")
        time.sleep(0.0005)


def remove(where):
    """A folder, and the journals that it leads to."""
    for path in journals(where).values():
        if os.path.islink(path) and os.path.exists(path):
            os.unlink(os.readlink(path))
    shutil.rmtree(where)


def run(*command, where=None, hang=HANG, **kw):
    """To its end. Returns (folder, exit status)."""
    where = where or folder()
    p = start(where, *command, **kw)
    try:
        return where, p.wait(hang)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        raise TimeoutError(f"{command} did not end: {said(where)[-1000:]}") from None


def accepted(path):
    """zstd and the report accept the trace as it is on the disk; one in memory (CUTRACE_MEMORY) may have nothing there yet."""
    out = []
    in_memory = not os.path.getsize(path) and os.path.exists(path + ".journal")
    lacks_end = 0 if os.path.exists(path + ".journal") else 4  # (whether it may is the caller's question)
    for command in ([REPORT, "info", path], *([] if in_memory else [["zstd", "-tq", path]])):
        r = subprocess.run(command, capture_output=True, text=True)
        if r.returncode not in (0, lacks_end):
            out.append(f"{' '.join(command[:2])}: {r.returncode}: {(r.stdout + r.stderr)[-600:]}")
    return out


def whole(where, killed=False, **kw):
    """Each process of the folder: its trace is its ledger; the journal is there only if the process was killed."""
    problems, files, kept = [], traces(where), journals(where)
    if not killed and not ledgers(where):
        problems.append("no ledger: nothing was tested")
    for pid, ledger in ledgers(where).items():
        path = files.get(pid, os.path.join(where, f"trace.{pid}.zst"))
        found, (_, returned, _) = judge.judge(REPORT, path, ledger, **kw)
        if pid in files and returned:
            found += accepted(path)
        if not killed and pid in kept:
            found.append("the journal is still there")
        problems += [f"process {pid}: {p}" for p in found]
    for pid in set(files) - set(ledgers(where)):
        problems.append(f"process {pid} has a trace and made no call")
    return problems


class Mounted:
    """A small file system."""

    def __init__(self, options):
        self.path = folder()
        r = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", self.path], capture_output=True, text=True)
        if r.returncode:
            raise Skip(f"cannot mount a small file system: {r.stderr.strip()}")

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=True)


def end():
    """Runs the cases."""
    tap.main(undisturbed)
