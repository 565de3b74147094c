#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that an exception, a jump or a signal handler leaves or interrupts: what follows them is recorded, and what cannot be
is counted as lost."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, main  # noqa: E402
from ways import *  # noqa: E402,F403

HANDLER_CALLS = 10  # that a handler of leaves_calls makes


def lost_events(done):
    return done.summary()["trace"]["lost_events"]


def left(way, **kw):
    return run("leaves_calls", way, after=[program("libcalls_back.so")], **kw)


for name in ("exception", "longjmp", "siglongjmp", "pthread_exit", "cancellation", "coroutine below", "coroutine above",
             "between threads"):
    @case(f"calls from deeper frames after a call was left: {name}")
    def _(name=name):
        done = left(name)
        return good(done) + same_as_without(done, "leaves_calls", name, after=[program("libcalls_back.so")])


for name in ("handler", "handler above"):
    @case(f"calls of a signal handler inside of a call are lost and counted, the call and what follows are not: {name}")
    def _(name=name):
        done = left(name)
        calls, true = len(done.calls()), len(done.ledger())
        lost = lost_events(done)
        return [] if done.rc == 0 and lost == HANDLER_CALLS and calls + lost == true else [
            f"exit status {done.rc} {done.err}: {calls} calls in the trace, {lost} lost, {true} in the ledger"]


def storm(*args):
    """(calls in the trace, lost, calls of the driver, signals)"""
    done = run("signal_storm", *args, libraries=[os.path.join(BUILD, "tests/recorder/stub")])
    if done.rc:
        raise RuntimeError(f"exit status {done.rc}: {done.err}")
    calls, signals = map(int, re.findall(r"\d+", done.out))
    seen = sum(e["op"] in ("alloc", "free") for e in done.events())
    return seen, lost_events(done), calls, signals


@case("a storm of signals whose handler calls the driver: each call is recorded or counted as lost")
def _():
    seen, lost, calls, signals = storm("calls", 150)
    return [] if seen + lost == calls else [f"{seen} in the trace, {lost} lost, {calls} made, {signals} signals"]


@case("a storm of signals whose handler jumps out of whatever runs: each costs one call at most")
def _():
    seen, lost, calls, signals = storm("jumps", 150)
    return [] if seen + signals >= calls and lost <= signals else [
        f"{seen} in the trace, {lost} lost, {calls} made, {signals} signals"]


main()
