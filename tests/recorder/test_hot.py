#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""After a warm-up, 100,000 hooks make no system call and allocate no memory, except to wake the writer now and then."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
import tap  # noqa: E402
from tap import Skip, case  # noqa: E402

STUB = os.path.join(BUILD, "tests/recorder/stub")


def quiet(*plant, **env):
    e = {"SIM_LEDGER_MAP": None, **env}
    return run(program("hooks_without_syscalls"), *plant, libraries=[STUB], env=e)


def silent(**env):
    where, status = quiet(**env)
    if status == 77:
        raise Skip("seccomp is not to be had")
    problems = [] if status == 0 else [f"exit status {status}: {said(where)[-300:]}"]
    if status == 0 and int(said(where, "out")) > 200:
        problems.append(f"the writer was woken {said(where, 'out').strip()} times by 100,000 calls")
    (path,) = traces(where).values()
    calls = json.loads(tap.read_json("info", path))["events"]
    if calls < 100000:
        problems.append(f"only {calls} calls are in the trace")
    return problems


@case("no system call, no memory")
def _():
    return silent()


@case("nor with stacks of give-backs, nor without stacks")
def _():
    return silent(CUTRACE_FREE_STACKS="1") + silent(CUTRACE_STACKS="off")


@case("nor while chunks are written all the time")
def _():
    return silent(CUTRACE_FLUSH_MS="10", HOOKS_MAY_YIELD="1")


for _plant, _word in (("syscall", "a system call in a hook"), ("malloc", "the allocator in a hook")):
    @case(f"seen: a {_plant}")
    def _(plant=_plant, word=_word):
        where, status = quiet(plant)
        if status == 77:
            raise Skip("seccomp is not to be had")
        return [] if status == 99 and word in said(where) else [f"exit status {status}: {said(where)}"]

end()
