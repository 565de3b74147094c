#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process under cutrace run says where its trace is, if there is one, and nothing where stderr is not its own any more.

(What cutrace run itself says when all is over is test_run.py's.)"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from tap import case, equal  # noqa: E402

CUTRACE = os.path.join(BUILD, "cutrace")
SOME_CALLS = [program("worker"), "1", "0", "64", "100"]


def begun(where):
    """What the processes said: the last lines are of cutrace run."""
    return "".join(line for line in said(where).splitlines(True) if line.startswith("cutrace: writing "))


def under(*command, **env):
    where, status = run(CUTRACE, "run", *command, preload=False, env={"CUTRACE_QUIET": None, "WORKER_REFUSALS": "0", **env})
    equal(status, 0)
    return where


@case("a process that records says where, once")
def records():
    where = under(*SOME_CALLS)
    (path,) = traces(where).values()
    equal(begun(where), f"cutrace: writing {path}\n")


@case("each of several processes says where its trace is; those without one say nothing")
def several():
    where = under("sh", "-c", "true; " + 2 * (" ".join(SOME_CALLS) + "; ") + "ls >/dev/null")
    equal(sorted(begun(where).splitlines()), sorted(f"cutrace: writing {path}" for path in traces(where).values()))
    equal(len(traces(where)), 2)


@case("a program that records nothing says nothing, and CUTRACE_QUIET is quiet")
def nothing():
    equal(begun(under("true")), "")
    where = under(*SOME_CALLS, CUTRACE_QUIET="1")
    equal((len(traces(where)), said(where)), (1, ""))


@case("a file that the program has put in the place of stderr gets nothing, nor does a pipe that is full")
def not_our_stderr():
    where = under("sh", "-c", "exec 2>own; " + " ".join(SOME_CALLS))
    equal((said(where, "own"), begun(where), len(traces(where))), ("", "", 1))
    where = folder()
    fill = "import fcntl, os; fcntl.fcntl(2, fcntl.F_SETFL, os.O_NONBLOCK | os.O_WRONLY)\n" \
        "try:\n while os.write(2, bytes(1)): pass\nexcept BlockingIOError: fcntl.fcntl(2, fcntl.F_SETFL, os.O_WRONLY)\n" \
        "os.execv(os.sys.argv[1], os.sys.argv[1:])"
    p = subprocess.Popen([CUTRACE, "run", sys.executable, "-c", fill, *SOME_CALLS], stderr=subprocess.PIPE, cwd=where,
                         stdout=subprocess.DEVNULL, env=environment(where, preload=False, env={"CUTRACE_QUIET": None, "WORKER_REFUSALS": "0"}))
    equal(p.wait(HANG), 0)
    equal(set(p.stderr.read()), {0})


end()
