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
from tap import BUILD, LIBRARY, SIM, case, main, read_json  # noqa: E402
from test_frames import HANG, HERE  # noqa: E402
from test_traces import python_frames  # noqa: E402

PROGRAMS = os.path.join(BUILD, "tests/stacks/python")


def traced(*command, before=(), **env):
    """What the program printed, its events, and INFO."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.zst")
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "PYTHON", "LD_", "SIM_"))}
        plain.update(LD_LIBRARY_PATH=SIM, CUTRACE_OUTPUT=path, CUTRACE_QUIET="1", LD_PRELOAD=":".join([LIBRARY, *before]),
                     PYTHONUTF8="1", **env)
        done = subprocess.run(command, env=plain, cwd=folder, capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 0, f"{done.returncode} {done.stdout[-1000:]} {done.stderr[-3000:]}"
        said = [read_json(what, path) for what in ("dump", "info")]
    return done.stdout, [json.loads(line) for line in said[0].splitlines()], said[1]


# ---- refusals -----------------------------------------------------------------------------------
def refusal(library, version, why):
    @case(f"an interpreter {version or 'without a version'}: native frames, and one note: {why}")
    def _():
        program = os.path.join(BUILD, "tests/interception/driver_elf")
        _, events, info = traced(program, "device", "device", before=[os.path.join(PROGRAMS, library)],
                                 FAKE_VERSION=version)
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
def embedded(version, command):
    @case(f"{version} in another program, in no global scope, begun and ended three times")
    def _():
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(command[-1])))
        minor = ".".join(version.split(".")[:2])
        for wait in ("0.3", "3", "30"):  # a busy machine may need longer
            out, events, info = traced(os.path.join(PROGRAMS, "local_interpreter"), f"{prefix}/lib/libpython{minor}.so.1.0",
                                       os.path.join(HERE, "local_interpreter.py"), "3", PYTHONHOME=prefix, INSIDE_WAIT=wait)
            truth = dict(map(ast.literal_eval, out.splitlines()))
            stacks = {e["bytes"]: e["stack"] for e in events if e["op"] == "alloc"}
            assert set(stacks) == set(truth) and len(truth) > 3 * 16, (len(stacks), len(truth))
            found = {size: [list(f) for f in python_frames(stack)][1:] for size, stack in stacks.items()}
            begun = min((size for size in found if found[size]), default=0)
            if 0 < begun < 16:
                break
        assert 0 < begun < 16, f"first frames at {begun}: {info}"  # until the recorder has looked what was loaded
        for size, want in truth.items():
            assert size < begun or found[size] == want, (size, found[size], want)


for _version, _kind, _command in test_frames.interpreters():
    if _kind == "shared" and len(_command) == 1:
        embedded(_version, _command)
main()
