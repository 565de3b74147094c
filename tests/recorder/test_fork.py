#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that fork: each writes a complete trace of its own, and no other process's files."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import ways  # noqa: E402
from death import *  # noqa: E402,F403
from tap import case, read_json  # noqa: E402


def info(path):
    return json.loads(read_json("info", path))


def parents(where, expected):
    """Each trace but the first names the trace of its parent, where the parent had one."""
    told = {pid: info(path) for pid, path in traces(where).items()}
    ids = {i["trace_id"] for i in told.values()}
    named = [i["info"].get("process.parent_trace") for i in told.values()]
    out = [f"a trace names {n}, which is no trace here ({ids})" for n in named if n and n not in ids]
    n = sum(1 for x in named if x)
    return out + ([] if n == expected else [f"{n} traces name a parent, not {expected}"])


def multiplies(kind, processes, with_parent):
    plain = run(program("fork_kinds"), kind, preload=False, env={"SIM_LEDGER_MAP": None})[1]
    where, status = run(program("fork_kinds"), kind)
    problems = [] if status == plain == 0 else [f"exit status {status}, {plain} without: {said(where)[:500]}"]
    if said(where):
        problems.append(f"on stderr: {said(where)[:500]}")
    if len(traces(where)) != processes:
        problems.append(f"{len(traces(where))} traces of {processes} processes with calls")
    problems += whole(where, killed=True)
    return problems or parents(where, with_parent)


# kind: processes that make calls, children of one that had made some
KINDS = {"fork": (2, 1), "clone": (2, 1), "fork-and-exit": (2, 1), "quiet-fork": (1, 0), "early-fork": (2, 0),
         "generations": (3, 2), "double-fork": (2, 1), "daemon": (1, 0), "vfork": (2, 0), "spawn": (2, 0),
         "system": (3, 0), "fork-in-crowd": (21, 20)}
for _kind, _counts in KINDS.items():
    case(f"{_kind}: each process has its trace, whole, and names its parent's")(
        lambda kind=_kind, counts=_counts: multiplies(kind, *counts))


@case("a child does not say its parent's failed allocations again")
def _():
    where, status = run(program("fork_kinds"), "fork-after-failures", env={"CUTRACE_QUIET": None})
    told, _ = ways.count_said(said(where))
    return [f"exit status {status}, {told} failures are said of 15: {said(where)}"] if status or told != 15 else []


@case("a storm of forks under load: no deadlock, nothing lost")
def _():
    n = 1000 if FULL else 40
    where, status = run(program("fork_kinds"), "storm", n, env={"SIM_LEDGER_MAP_MB": 2048 if FULL else 64, "CUTRACE_STACKS": "off"},
                        hang=HANG)
    problems = [] if status == 0 else [f"exit status {status}: {said(where)[:500]}"]
    with_calls = sum(1 for i in range(n) if i % 2 or (i % 4 == 3 and i % 5 != 4))
    if len(traces(where)) != 1 + with_calls:
        problems.append(f"{len(traces(where))} traces of {1 + with_calls} processes with calls")
    return problems + whole(where, killed=True, live=False)


def digest(pid, where):
    """What the parent's files hold, and how long they are."""
    out = {}
    for name in sorted(os.listdir(where)):
        if f"trace.{pid}.zst" in name:
            with open(os.path.join(where, name), "rb") as f:
                data = f.read()
            out[name] = (len(data), hashlib.sha256(data).hexdigest())
    return out


def leaves_alone(kind, env):
    where = folder()
    p = start(where, program("fork_kinds"), kind, stdin=subprocess.PIPE, env=env)
    try:
        pid, status = os.waitpid(p.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return [f"the parent ended with {status}"]
        before = digest(pid, where)
        p.stdin.write(b"x")
        p.stdin.flush()
        wait_until(lambda: said(where, "out"))
        time.sleep(0.3)  # its end
        after = digest(pid, where)
        os.kill(pid, signal.SIGCONT)
        status = p.wait(HANG)
    finally:
        kill(p, group=True) if p.poll() is None else p.stdin.close()
    problems = [] if status == 0 else [f"exit status {status}: {said(where)[:500]}"]
    if not before:
        problems.append("the parent had no file")
    problems += [f"{name} was changed by the child: {before.get(name)}, {after.get(name)}"
                 for name in sorted(set(before) | set(after)) if before.get(name) != after.get(name)]
    return problems + whole(where, killed=True) + parents(where, 1)


# A bare clone copies the loader's lock as it is, and the child's exit takes it: the writer thread, which loads NVML some
# time after the first call, must not hold it then.
for _kind, _env in (("stopped-fork", {}), ("stopped-clone", {"CUTRACE_NVML": 0})):
    case(f"{_kind}: while the parent is stopped, its child changes no byte of its files")(
        lambda kind=_kind, env=_env: leaves_alone(kind, env))


def served(method, how):
    """Python's multiprocessing. Everybody may be killed; nobody's calls may be lost."""
    where = folder()
    adopt()
    p = start(where, "python3", os.path.join(HERE, "model_server.py"), method, how)
    if how == "wait":
        wait_until(lambda: said(where, "out") or p.poll() is not None)
        kill(p, group=True)
        status, right = 0, 0
    else:
        try:
            status = p.wait(HANG)
        except subprocess.TimeoutExpired:
            kill(p, group=True)
            return [f"it hangs: {said(where)[-800:]}"]
        right = -9 if how == "group" else 0
        kill_rest(p)
    problems = [] if status == right else [f"exit status {status}, not {right}: {said(where)[-800:]}"]
    if len(traces(where)) != 2:
        problems.append(f"{len(traces(where))} traces of two workers")
    return problems + whole(where, killed=True)


def kill_rest(p):
    """Helpers of multiprocessing (the fork server, the resource tracker) end when their pipes do."""
    while True:
        try:
            os.waitpid(-p.pid, 0)
        except ChildProcessError:
            return


for _number, _how in enumerate(("close", "kill", "group", "wait")):
    for _method in sample(("fork", "spawn", "forkserver"), 1, _number):
        case(f"multiprocessing by {_method}, its workers' end: {_how}")(lambda m=_method, h=_how: served(m, h))

end()
