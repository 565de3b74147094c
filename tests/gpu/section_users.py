# SPDX-License-Identifier: Apache-2.0
"""users: the same as root and as an ordinary user."""
import atexit
import glob
import os
import shutil
import stat
import tempfile

import account
import machine
from gpu_check import check
from machine import Skip, need

NOBODY = 65534


def reachable(path):
    """Whether anybody may enter the folder."""
    while path != "/":
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return False
        path = os.path.dirname(path)
    return True


def place():
    """A folder that every user can enter, with the library, the program and the simulated driver in it."""
    where = machine.folder("users")
    if not reachable(where):
        where = tempfile.mkdtemp(prefix="gpu-check-users.", dir="/tmp")
        atexit.register(shutil.rmtree, where, ignore_errors=True)
        os.chmod(where, 0o755)
    program = machine.driver_program("ways", ["ways.c", "../interception/load.c"])
    shutil.copy(program, where)
    shutil.copy(machine.LIBRARY, where)
    if machine.SIMULATED:
        for path in glob.glob(os.path.join(machine.SIM, "*.so*")):
            shutil.copy(path, where)
    return where


def as_nobody():
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv"):
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    if shutil.which("runuser"):
        return ["runuser", "-u", "nobody", "--"]
    raise Skip("neither setpriv nor runuser is here to become another user")


def run_as(uid, writable=True, **env):
    """The program as that user (not as root: as an ordinary one), with a folder for its trace."""
    where = place()
    out = os.path.join(where, "out")
    os.mkdir(out)
    if os.geteuid() == 0:
        os.chown(out, uid, -1)
    settings = {"LD_PRELOAD": os.path.join(where, "libcutrace.so"), "TMPDIR": out, **env}
    if not writable:
        closed = os.path.join(where, "closed")
        os.mkdir(closed, 0o555)
        settings["CUTRACE_OUTPUT"] = os.path.join(closed, "trace.%p.zst")
    if machine.SIMULATED:
        settings["LD_LIBRARY_PATH"] = where
    if machine.PLANTS & {"untraced", "not-preloaded"}:
        settings["CUTRACE"] = "0"
    return machine.run("users", [os.path.join(where, "ways"), "dlsym"], where=out,
                       before=as_nobody() if uid else (), **settings)


def compared(done, uid):
    trace = done.good().trace()
    status = os.stat(trace)
    mode = stat.S_IMODE(status.st_mode)
    need(status.st_uid == uid, f"the trace belongs to user {status.st_uid}, not {uid}")
    need(mode == 0o600, f"the trace has mode {mode:o}")
    n, _ = account.match(machine.events(trace), next(iter(done.own().values())))
    return f"user {uid}: {n} calls as in the ledger; trace of mode {mode:o}", {"uid": uid, "calls": n}


@check("users", "root")
def root():
    if os.geteuid() != 0:
        raise Skip("this is not root")
    return compared(run_as(0), 0)


@check("users", "ordinary")
def ordinary():
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
    return compared(run_as(uid), uid)


@check("users", "folder-not-writable")
def not_writable():
    """The trace goes to $TMPDIR, and one line says so."""
    uid = NOBODY if os.geteuid() == 0 else os.geteuid()
    done = run_as(uid, writable=False, CUTRACE_QUIET="0").good()
    need(done.traces, f"no trace in $TMPDIR: {done.err.strip()[-300:]}")
    said = [line for line in done.err.splitlines() if line.startswith("cutrace:") and " out of memory: " not in line]
    need(len(said) == 1, f"{len(said)} lines on stderr: {said}")
    return said[0], {}
