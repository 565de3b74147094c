# SPDX-License-Identifier: Apache-2.0
"""death: what a trace has after the process was killed."""
import os
import signal
import subprocess
import sys
import time

import account
import machine
from gpu_check import check
from machine import need

# A trace may lack what happened in the last moment: the writer's longest pause, and the slowness of the disk.
LAST_NS = 1_000_000_000


def program():
    return machine.driver_program("work", ["work.c", "../interception/load.c"])


def killed(name, command, seconds, group, processes=1):
    """Starts the command, kills it (and its group) after some time of work of all its processes; what is left."""
    where = machine.folder(name)
    process = subprocess.Popen(command, cwd=where, env=machine.traced_environment(where), start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done = machine.Run(where, None, "", "")
    begin = time.monotonic()
    while time.monotonic() - begin < 40 and process.poll() is None:
        if sum(os.path.getsize(p) > 2000 for p in done.files("own.*")) >= processes:
            break
        time.sleep(0.05)
    time.sleep(seconds)
    at = time.monotonic_ns()
    alive = process.poll() is None
    (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
    err = process.communicate(timeout=30)[1].decode(errors="replace")
    need(alive, f"ended by itself with {process.returncode}: {err.strip()[-300:]}")
    return done, at


def whole_until(done, at, processes):
    """Each trace equals its ledger up to a moment before the kill."""
    own = done.own()
    need(len(own) == processes, f"{len(own)} ledgers")
    need(len(done.traces) == processes, f"{len(done.traces)} traces of {processes} processes")
    compared = 0
    lost_ms = 0.0
    for pid, lines in own.items():
        (trace,) = [t for t in done.traces if f".{pid}." in os.path.basename(t)]
        events = machine.events(trace)
        due = [line for line in lines if line["t_ns"] < at - LAST_NS]
        n, _ = account.match(events, due, and_more=True)
        compared += n
        last = max((e["t_ns"] for e in account.calls_of(events)), default=0)
        lost_ms = max(lost_ms, (at - last) / 1e6)
    return f"{compared} calls of {processes} process{'es' if processes > 1 else ''} before the last second are in the " \
           f"trace; it ends {lost_ms:.0f} ms before the kill", {"compared": compared, "missing_ms": lost_ms}


@check("death", "process-killed")
def one():
    return whole_until(*killed("killed", [program(), "busy"], 2.0, False), 1)


@check("death", "group-killed")
def group():
    return whole_until(*killed("group", [program(), "busy-two"], 2.0, True, 2), 2)


def refused_once():
    """Whether the refusal is in the trace of a process that is gone in the next instruction."""
    done = machine.run("refused", [program(), "refused"])
    need(done.rc == -signal.SIGKILL, f"exit status {done.rc}: {done.err.strip()[-300:]}")
    events, summary = machine.events(done.trace()), machine.summary(done.trace())
    refused = [e for e in events if e["op"] == "alloc" and e["result"] not in (0, None)]
    if not refused:
        return False
    need(len(refused) == 1 and refused[0]["bytes"] == 1 << 50, f"refusals in the trace: {refused}")
    need(refused[0]["free_bytes"] is not None, "the refusal does not say what was free")
    need(len(summary["ooms"]) == 1 and summary["crossing"], "the summary has no verdict")
    account.match([e for e in events if e not in refused], next(iter(done.own().values())))
    return True


@check("death", "killed-at-refusal")
def refusal():
    """It may be missed where another thread is just writing, for which the refused one does not wait."""
    runs = 10
    kept = sum(refused_once() for _ in range(runs))
    need(kept > runs / 2, f"the refusal is in {kept} of {runs} traces")
    return f"the refusal and the calls before it are in {kept} of {runs} traces", {"kept": kept, "runs": runs}


@check("death", "torch-killed", gpu=True)
def torch_killed():
    import section_torch
    section_torch.available()
    command = [sys.executable, os.path.join(machine.HERE, "torch_work.py"), "endless"]
    done, at = killed("torch-killed", command, 3.0, True)
    events = machine.events(section_torch.main_trace(done))
    points = [p for p in next(iter(done.own().values())) if p["t_ns"] < at - LAST_NS]
    need(points, "the program wrote no checkpoint before its last second")
    return section_torch.compare(events, points)


@check("death", "torch-killed-at-refusal", gpu=True)
def torch_refused():
    import section_torch
    section_torch.available()
    done = section_torch.run("refused-killed")
    need(done.rc == -signal.SIGKILL, f"exit status {done.rc}: {done.err.strip()[-300:]}")
    summary = machine.summary(section_torch.main_trace(done))
    need(summary["crossing"], "the summary has no verdict")
    crossing = summary["crossing"]
    return f"{crossing['api']} of {machine.mib(crossing['requested_bytes'])} refused", {}
