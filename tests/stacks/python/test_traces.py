#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: python3.*
"""Traces of Python programs: the Python frames of each event against those that the program noted at the same point, in
each installed interpreter: test_traces.py [WORD]..."""
import functools
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
import test_frames  # noqa: E402
from tap import FULL, SIM  # noqa: E402
from test_frames import HERE, traced  # noqa: E402

STACKS = 8000 if FULL else 100
LAST = 1 << 21  # as in traced.py


class Trace:
    """A traced run: what it wrote down, what the trace has, by the sizes of allocations."""

    def __init__(self, command, stacks, *more, **env):
        with tempfile.TemporaryDirectory() as folder:
            path, written = os.path.join(folder, "trace.zst"), os.path.join(folder, "truth")
            command = [f"{w}:{SIM}" if w.startswith("LD_LIBRARY_PATH=") else w for w in command]
            if "--library-path" in command:
                command[command.index("--library-path") + 1] += f":{SIM}"
            _, error = traced(path, *command, os.path.join(HERE, "traced.py"), written, str(stacks), *more, CUTRACE_QUIET="1",
                              CUTRACE_FREE_STACKS="1", **env)
            assert "Error" not in error, error[-3000:]
            with open(written, encoding="utf-8") as f:
                self.truth = {size: [tuple(frame) for frame in frames] for size, frames in map(json.loads, f)}
            self.info = tap.read_json("info", path)
            self.events = [json.loads(line) for line in tap.read_json("dump", "--sysroot=/nowhere", path).splitlines()]
        self.allocations = {e["bytes"]: e["stack"] for e in self.events
                            if e.get("op") == "alloc" and e["bytes"] in self.truth}
        self.notes = [e.get("text") for e in self.events if e.get("op") == "note"]

    def frees_of_last(self):
        last = [e["ptr"] for e in self.events if e.get("op") == "alloc" and e["bytes"] == LAST]
        return [e["stack"] for e in self.events if e.get("op") == "free" and last and e["ptr"] == last[0]][-1:]


def python_frames(stack):
    return [(f["name"] or "", f["file"] or "", f["line"] or 0) for f in stack if f["kind"] == "python"]


def same(found, want):
    """Names that no UTF-8 can say are shown in one way or another."""
    return found == want or (found[2] == want[2] and "\ufffd" in want[0] + want[1])


def problems(trace):
    """Every allocation whose Python frames are not those that were written down."""
    out = []
    if set(trace.allocations) != set(trace.truth):
        out.append(f"{len(trace.allocations)} allocations in the trace, {len(trace.truth)} were made")
    for size, stack in sorted(trace.allocations.items()):
        found, want = python_frames(stack)[2:], trace.truth[size]  # without those of traced.py's own
        ended = any(f["end"] for f in stack)
        if ended and len(stack) < 1000:
            out.append(f"{size}: ended after {len(stack)} frames")
        if len(found) != len(want) and not (ended and len(found) < len(want)):
            out.append(f"{size}: {len(found)} Python frames, not {len(want)}: {found[:3]}, {want[:3]}")
        for a, b in zip(found, want):
            if not same(a, b):
                out.append(f"{size}: {a}, not {b}")
                break
    return out


# ---- cases --------------------------------------------------------------------------------------
def both(command):
    """each event's Python frames, and native ones around them"""
    trace = Trace(command, STACKS)
    out = problems(trace)
    for size, stack in trace.allocations.items():
        kinds = [f["kind"] for f in stack]
        if kinds[0] != "native" or (kinds[-1] != "native" and not stack[-1]["end"]):
            out.append(f"{size}: kinds {kinds}")
        # 3.9 itself loses frames behind a generator that waits for another one and into which an exception is thrown.
        whole = trace.truth[size][-1][0] in ("<module>", "_bootstrap", "Thread._bootstrap")
        if whole and any(f["name"] == "_PyEval_EvalFrameDefault" for f in stack):
            out.append(f"{size}: a loop that runs no frame: {[f['name'] for f in stack]}")
    for stack in trace.frees_of_last() or [[]]:
        if not stack or any(f["kind"] == "python" for f in stack):
            out.append(f"the stack of a thread without Python: {stack}")
    if '"on"' not in trace.info or trace.notes:
        out.append(f"notes {trace.notes}, {trace.info}")
    return out, trace


def with_the_gil(command):
    """the same while the GIL is held"""
    trace = Trace(command, 0, "gil")
    return problems(trace), trace


def python_only(command):
    """CUTRACE_STACKS=python: no native frames, but where there are no Python frames"""
    trace = Trace(command, 0, CUTRACE_STACKS="python")
    out = problems(trace)
    for size, stack in trace.allocations.items():
        if any(f["kind"] == "native" for f in stack):
            out.append(f"{size}: native frames")
    for stack in trace.frees_of_last() or [[]]:
        if not stack or any(f["kind"] != "native" for f in stack):
            out.append(f"the stack of a thread without Python: {stack}")
    return out, trace


def native_only(command):
    """CUTRACE_STACKS=native and off: no Python frames, no frames"""
    trace, off = Trace(command, 0, CUTRACE_STACKS="native"), Trace(command, 0, CUTRACE_STACKS="off")
    out = [f"{size}: {stack}" for size, stack in trace.allocations.items() if not stack or python_frames(stack)]
    return out + [f"off, {size}: {stack}" for size, stack in off.allocations.items() if stack], trace


CASES = (both, with_the_gil, python_only, native_only)


def events_of(function, command):
    """Fails by the problems that were found, or says how many events there were."""
    wrong, trace = function(command)
    return wrong or f"{len(trace.allocations)} events"


def main():
    test_frames.fetch()
    for number, (version, kind, command) in enumerate(test_frames.interpreters()):
        for function in CASES[:1] + tuple(tap.sample(CASES[1:], 1, number)):
            tap.case(f"{version} {kind}: {function.__doc__}")(functools.partial(events_of, function, command))
    tap.main()


if __name__ == "__main__":
    main()
