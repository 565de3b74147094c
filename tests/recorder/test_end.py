#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All ends of a process but SIGKILL: no returned call is lost, and the exit status is the program's own."""
import glob
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
import tap  # noqa: E402
from tap import case  # noqa: E402

# Whoever starts us may ignore some (nohup does), and what a process ignores its children ignore.
for _ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(_ignored, signal.SIG_DFL)

CLEAN, DEAD, ANY = "the journal is gone", "the journal is there", ""


def alone(where):
    """The only process of the folder: (pid, trace, whether there is a journal)."""
    (pid,) = ledgers(where)
    path = os.path.join(where, f"trace.{pid}.zst")
    return pid, path, os.path.exists(path + ".journal")


def dies(kind, status, end, argument="0", **env):
    """Repeated, since most of these are races."""
    problems = []
    for i in range(8 if FULL else 1):
        where, seen = run(program("exit_kinds"), kind, argument, env=env)
        if seen != status:
            problems.append(f"exit status {seen}, not {status}: {said(where)[:500]}")
        if said(where):
            problems.append(f"on stderr: {said(where)[:500]}")
        _, path, journal = alone(where)
        if kind == "vanishing-threads":  # one may have held the only lock there is: then events are counted as lost
            problems += judge.part(REPORT, path, ledgers(where)[alone(where)[0]])[0] + accepted(path)
        else:
            problems += whole(where, killed=True)
        if (end == CLEAN and journal) or (end == DEAD and not journal):
            problems.append(f"it is not so that {end}")
        if end == CLEAN and '"clean_end":true' not in report("info", path):
            problems.append("the trace has no clean end")
        if end == CLEAN and f'"process.exit_status":"{status}"' not in report("info", path):
            problems.append(f"the trace does not have the exit status {status}")
        if problems:
            return [f"round {i}: {p}" for p in problems]
    return problems


def report(command, path):
    return tap.report(command, "--json", path)[1].decode().replace(" ", "")


def plain(kind, argument="0", **env):
    """The exit status without the library."""
    return run(program("exit_kinds"), kind, argument, preload=False, env={"SIM_LEDGER_MAP": None, **env})[1]


KINDS = (("return", CLEAN), ("exit", CLEAN), ("exit-of-thread", CLEAN), ("exit-in-callback", CLEAN),
         ("main-leaving", CLEAN), ("main-exit-call", CLEAN), ("dlclose", CLEAN), ("calls-at-exit", ANY),
         ("exit-in-hook", ANY), ("_exit-in-hook", ANY), ("_exit", ANY), ("exit_group", DEAD), ("quick_exit", ANY),
         ("abort", DEAD), ("trap", DEAD), ("crash-in-driver", DEAD), ("kill", DEAD), ("exit-in-crowd", ANY),
         ("_exit-in-crowd", ANY), ("abort-in-crowd", DEAD), ("vanishing-threads", ANY))
for _kind, _end in KINDS:
    case(f"a program that ends by {_kind}{_end and ', ' + _end}")(
        lambda kind=_kind, end=_end: dies(kind, plain(kind), end))
for _signal in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGXCPU", "SIGSEGV", "SIGBUS", "SIGSYS", "SIGPIPE"):
    case(f"a program that ends by {_signal}")(
        lambda n=getattr(signal, _signal): dies("signal", -n, DEAD, argument=str(int(n))))


@case("what else lay on the program's stack is in no file")
def _():
    where, status = run(program("exit_kinds"), "kill-with-secrets")
    problems = [] if status == -signal.SIGKILL else [f"exit status {status}: {said(where)[:500]}"]
    secret = 0x5EC2E7D9.to_bytes(4, "little")
    for path in glob.glob(os.path.join(where, "trace.*")):
        with open(path, "rb") as f:
            n = f.read().count(secret)
        if n > 3:  # (four bytes may be there by chance)
            problems.append(f"{n} times in {os.path.basename(path)}")
    return problems + whole(where, killed=True)


@case("threads that are cancelled inside of the driver")
def _():
    env = {"SIM_LATENCY_NS": "500000"}
    return dies("cancel", plain("cancel", **env), ANY, **env)


def execs(kind):
    where = folder()
    second = os.path.join(where, "second.%p")
    _, status = run(program("exit_kinds"), kind, second, where=where)
    problems = [] if status == 7 else [f"exit status {status}: {said(where)[:500]}"]
    pid, path, journal = alone(where)
    if not journal:
        problems.append("the first image has left no journal")
    problems += [f"first image: {p}" for p in judge.judge(REPORT, path, ledgers(where)[pid])[0] + accepted(path)]
    (second,), after = glob.glob(os.path.join(where, "second.*")), path + ".1"
    problems += [f"second image: {p}" for p in judge.judge(REPORT, after, second)[0]]
    if os.path.exists(after + ".journal"):
        problems.append("the second image has left its journal")
    both = json.loads(tap.report("summary", "--json", path, after)[1])["processes"]["processes"]
    if [p["same_process"] for p in both] != [None, 0]:
        problems.append(f"not one process: {both}")
    images = [json.loads(tap.report("info", "--json", p)[1])["info"]["process.image_hash"] for p in (path, after)]
    if images[0] == images[1]:
        problems.append(f"not two programs: {images}")
    return problems


for _kind in ("exec", "exec-in-crowd"):
    case(f"a program that goes on as another one by {_kind}: each has its trace, whole")(lambda kind=_kind: execs(kind))

PYTHON = {"os._exit": ("os._exit(5)", 5, ANY), "sys.exit": ("sys.exit(5)", 5, CLEAN), "an exception": ("1 / 0", 1, CLEAN),
          "os.abort": ("os.abort()", -6, DEAD), "its end": ("pass", 0, CLEAN)}


def python_dies(text, status, end):
    where, seen = run("python3", os.path.join(HERE, "ctypes_calls.py"), text)
    problems = [] if seen == status else [f"exit status {seen}: {said(where)[:500]}"]
    problems += whole(where, killed=True)
    _, _, journal = alone(where)
    if (end == CLEAN and journal) or (end == DEAD and not journal):
        problems.append(f"it is not so that {end}")
    return problems


for _name, (_text, _status, _end) in PYTHON.items():
    case(f"Python ends by {_name}")(lambda t=_text, s=_status, e=_end: python_dies(t, s, e))

end()
