#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: python3.*
"""Stacks of libcutrace.so in each installed interpreter: the interpreter's own Python frames, between them the native
frames of the C code that they called, and no frame of either missing: test_merged.py [WORD]..."""
import functools
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
from tap import BUILD, FULL, REPORT, SIM  # noqa: E402
from test_frames import HERE, fetch, interpreters, traced  # noqa: E402

ALLOCATIONS = 8000 if FULL else 200
DRIVER = os.path.join(SIM, "libcuda.so.1")
# What lies between two Python frames, where the symbols of the interpreter are there to tell.
BETWEEN = {"sorted": "sort", "map": "map_next|list_", "reduce": "reduce", "callback": "ffi|closure|_CallPythonObject",
           "generator": "gen_|list_"}
INSIDE = re.compile("^_?(Py|method_|function_|cfunction_|vectorcall|object_vacall)")  # the interpreter's own


def life(command, stacks, folder, allocations, depth="1024"):
    """What the program wrote down, and the events of its trace by bytes."""
    out, trace = os.path.join(folder, f"{stacks}.{depth}.out"), os.path.join(folder, f"{stacks}.{depth}.zst")
    # (the loader of another C library, or env, is not traced: it is the same process)
    _, error = traced(trace, *command, os.path.join(HERE, "merged.py"), out, str(tap.SEED), str(allocations), DRIVER,
                      CUTRACE_STACKS=stacks, CUTRACE_STACK_DEPTH=depth)
    assert not error, error[-2000:]
    with open(out, encoding="utf-8") as f:
        told = [json.loads(line) for line in f]
    said = tap.read_json("dump", "--sysroot=/nowhere", trace)
    events = (json.loads(line) for line in said.splitlines())
    seen = {e["bytes"]: e["stack"] for e in events if e["op"] == "alloc"}
    assert len(seen) == len(told) == allocations
    return told, seen


def is_python(frame):
    return frame["module"] is None and frame["file"] is not None


def check_stack(told, stack, nested):
    """The stack of one allocation. `nested`: a direct call goes through C, too (before 3.11)."""
    python = [[f["name"], f["file"], f["line"]] for f in stack if is_python(f)]
    assert python == told["frames"], f"{python}\n{told['frames']}"
    assert not any((f["name"] or "").startswith("_PyEval_EvalFrame") for f in stack), "a loop was left"
    places = [i for i, f in enumerate(stack) if is_python(f)]
    assert places[0] > 0 and places[-1] < len(stack) - 1, "the frames of ctypes and of the start are missing"
    for way, a, b in zip(told["ways"], places, places[1:]):
        names = [f["name"] or "" for f in stack[a + 1:b]]
        if way == "direct":
            assert not names or (nested and all(INSIDE.match(n) or not n for n in names)), f"direct: {names}"
        else:
            assert names, f"{way}: nothing between"
            assert re.search(BETWEEN[way], " ".join(names)) or not all(names), f"{way}: {names}"


def place_of(frame):
    return frame["module"], frame["offset"]


def whole(version, command):
    with tempfile.TemporaryDirectory() as folder:
        told, seen = life(command, "both", folder, ALLOCATIONS)
        for t in told:
            assert len(t["ways"]) == len(t["frames"]) - 1, t
            check_stack(t, seen[t["bytes"]], version < (3, 11))
        same_natives(command, folder, seen)
        return f"{len(told)} stacks, {sum(len(s) for s in seen.values())} frames"


def same_natives(command, folder, seen):
    """A run without Python frames has the same native ones, and the loops."""
    _, native = life(command, "native", folder, ALLOCATIONS)
    for size, stack in native.items():
        rest = iter(map(place_of, stack))
        mine = [place_of(f) for f in seen[size] if not is_python(f)]
        assert all(place in rest for place in mine), f"{size}: native frames that the other run does not have, or in another order"
        loops = sum(1 for a, b in zip([None, *seen[size]], seen[size]) if is_python(b) and not (a and is_python(a)))
        # (side by side, two loops are one group: a direct call before 3.11 is never so, it goes through C)
        assert len(stack) - len(mine) >= loops, f"{size}: {len(stack)} native frames, {len(mine)} of them kept, {loops} groups"
        if all(f["name"] for f in stack if "python" in (f["module"] or "")):  # not stripped
            named = sum(f["name"].startswith("_PyEval_EvalFrame") for f in stack if f["name"])
            assert len(stack) - len(mine) == named, f"{size}: {len(stack) - len(mine)} gave way, {named} were loops"


def cut(_, command):
    """At each depth the innermost frames, and then the mark."""
    with tempfile.TemporaryDirectory() as folder:
        told, seen = life(command, "both", folder, 60)
        for depth in (1, 7, 20):
            _, short = life(command, "both", folder, 60, str(depth))
            for t in told:
                all_, mine = seen[t["bytes"]], short[t["bytes"]]
                if len(all_) <= depth:
                    assert len(mine) == len(all_)
                    continue
                assert [(f["name"], f["line"]) for f in mine[:depth]] == [(f["name"], f["line"]) for f in all_[:depth]], \
                    f"{depth}: {mine}"
                assert len(mine) == depth + 1, f"{len(mine)} at {depth}"
    return "180 stacks"


LOST = """
import ctypes, mmap, struct, sys
cuda, context, p = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_uint64()
assert not (cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
room = mmap.mmap(-1, 4096, prot=7)
target = ctypes.cast(cuda.cuMemAlloc_v2, ctypes.c_void_p).value
# sub $8,%rsp; movabs $target,%rax; call *%rax; add $8,%rsp; ret
room.write(bytes.fromhex("4883ec0848b8") + struct.pack("<Q", target) + bytes.fromhex("ffd04883c408c3"))
Call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
call = Call(ctypes.addressof(ctypes.c_char.from_buffer(room)))
def inner():
    call(ctypes.addressof(p), 1 << 50)
def outer(_):
    inner()
sorted([1], key=outer)
"""


def lost(_, command):
    """Called through code without unwind information: the native stack ends there with a mark, Python's is whole."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "t.zst")
        _, error = traced(trace, *command, "-c", LOST, DRIVER, CUTRACE_QUIET="1")
        assert not error, error[-2000:]
        lines = tap.read_json("dump", trace)
        (stack,) = [e["stack"] for e in map(json.loads, lines.splitlines()) if e["result"]]
        assert [f["kind"] for f in stack] == ["native", "end"] + ["python"] * 3, stack
        assert stack[1]["end"] == "lost" and [f["name"] for f in stack[2:]] == ["inner", "outer", "<module>"], stack
        oom = subprocess.run([REPORT, "oom", "--all-frames", trace], capture_output=True, text=True, check=True).stdout
        assert re.search(r"0x[0-9a-f]+\s+\(caller unknown\)\s+<string>:\d+ inner\s+<string>:\d+ outer\s+<string>", oom), oom
    return "1 stack"


CASES = {"whole": whole, "lost": lost, "cut": cut}


def main():
    if "san-" in BUILD:
        tap.skip_all("a sanitised library cannot be preloaded")
    fetch()
    for version, kind, command in interpreters():
        for name, function in CASES.items():
            tap.case(f"{version} {kind}: {name}")(functools.partial(
                function, tuple(map(int, version.split(".")[:2])), command))
    tap.main()


if __name__ == "__main__":
    main()
