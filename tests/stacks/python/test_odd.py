#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: python3.*
"""Libraries that only look like an interpreter, and interpreters inside other programs: test_odd.py [WORD]..."""
import ast
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import test_frames  # noqa: E402
from tap import BUILD, LIBRARY, case, main, read_json, sample  # noqa: E402
from test_frames import HERE  # noqa: E402
from test_traces import python_frames  # noqa: E402

PROGRAMS = os.path.join(BUILD, "tests/stacks/python")


def run(*command, **env):
    """What the program printed, its events, and INFO."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.zst")
        out, _ = test_frames.traced(path, *command, CUTRACE_QUIET="1", **env)
        said = [read_json(what, path) for what in ("dump", "info")]
    return out, [json.loads(line) for line in said[0].splitlines()], said[1]


# ---- refusals -----------------------------------------------------------------------------------
def refusal(library, version, why):
    @case(f"an interpreter {version or 'without a version'}: native frames, and one note: {why}")
    def _():
        program = os.path.join(BUILD, "tests/interception/driver_elf")
        _, events, info = run(program, "device", "device", FAKE_VERSION=version,
                              LD_PRELOAD=LIBRARY + ":" + os.path.join(PROGRAMS, library))
        notes = [e["text"] for e in events if e["op"] == "note"]
        stacks = [e["stack"] for e in events if e["op"] == "alloc"]
        wanted = f"stacks without Python frames: Python {version.split()[0] if version else '?'}, {why}"
        assert notes == [wanted], notes
        assert f"off: {why}" in info, info
        assert stacks and all(s and not python_frames(s) for s in stacks), stacks[:1]


refusal("libfake_interpreter.so", "3.16.0 (main)", "this version's frames are not known")
refusal("libfake_interpreter.so", "3.8.18 (default)", "this version's frames are not known")
refusal("libfake_interpreter.so", "4.0.0 (main)", "this version's frames are not known")
refusal("libfake_interpreter.so", "3.14.0a4 (main)", "this version's frames are not known")
refusal("libfake_interpreter.so", "3.13.1 (main)", "it does not say where its frames are")
refusal("libfake_interpreter_little.so", "", "it lacks functions")
for each in ("3.9.1", "3.10.2", "3.11.3+", "3.12.0rc1"):
    refusal("libfake_interpreter.so", f"{each} (main)", "its frames are not where they should be")


# ---- embedded -------------------------------------------------------------------------------------
def libraries():
    """(version, library, PYTHONHOME) of interpreters that a program can load."""
    ask = "import sys, sysconfig as s; print(s.get_config_var('LIBDIR') + '/' + s.get_config_var('INSTSONAME'), sys.base_prefix)"
    for version, _, command in test_frames.installed():
        library, home = subprocess.run([*command, "-c", ask], capture_output=True, text=True, check=True).stdout.split()
        if len(command) == 1 and os.path.exists(library):
            yield version, library, home


def embedded(version, library, home, scope):
    @case(f"{version} in another program, in a {scope} scope, begun and ended three times; threads without Python")
    def _():
        for wait in ("0.3", "3", "30"):  # a busy machine may need longer
            out, events, info = run(os.path.join(PROGRAMS, "local_interpreter"), library, scope, os.path.join(HERE, "local_interpreter.py"), "3",
                                    PYTHONHOME=home, INSIDE_WAIT=wait)
            truth = dict(map(ast.literal_eval, out.splitlines()))
            stacks = {e["bytes"]: e["stack"] for e in events if e["op"] == "alloc"}
            assert set(stacks) == set(truth) and len(truth) > 3 * 16, (len(stacks), len(truth))
            assert all(any(f["kind"] == "native" for f in stack) for stack in stacks.values()), stacks
            found = {size: [list(f) for f in python_frames(stack)] for size, stack in stacks.items()}
            begun = min((size for size in found if found[size]), default=0)
            if 0 < begun < 16:
                break
        assert 0 < begun < 16, f"first frames at {begun}: {info}"  # until the recorder has looked what was loaded
        for size, want in truth.items():
            # (the innermost frame is that of the function which asks for the others)
            assert size < begun or (found[size][1:], bool(found[size])) == (want, bool(want)), (size, found[size], want)


for _place in sample(libraries(), 2):
    for _scope in ("local", "global"):
        embedded(*_place, _scope)
main()
