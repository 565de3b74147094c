#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: python3.*
"""The Python frames that the library finds without the GIL, in each installed interpreter, against the interpreter's
own, frame by frame and line by line: test_frames.py [WORD]..."""
import functools
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
from tap import BUILD, FULL, ROOT, SIM, Skip  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
DEPS = os.environ.get("CUTRACE_DEPS") or os.path.join(ROOT, "build/deps")
LIBRARY = os.path.join(BUILD, "tests/stacks/python/libwalk.so")
FETCH = os.path.join(ROOT, "scripts/fetch-pythons.sh")
HANG = 600 if FULL else 300  # a guard, no measure
SUITES = ("bullseye", "trixie", "sid", "packages")


def fetch():
    """Interpreters of other suites, once; afterwards they are there."""
    missing = [s for s in SUITES if not any(map(os.path.exists, (f"{DEPS}/pythons/{s}/done", f"{DEPS}/pythons/{s}.done",
                                                                 f"{DEPS}/pythons/{s}.skipped")))]
    if missing:
        subprocess.run([FETCH, DEPS, *missing], check=False, timeout=900)


def installed():
    """(version, shared or static, command) of all interpreters that run, the oldest first."""
    lines = subprocess.run([FETCH, "--list", DEPS], capture_output=True, text=True, check=True).stdout.splitlines()
    found = [(version, kind, command) for version, kind, *command in (line.split("\t") for line in lines)]
    return sorted(found, key=lambda one: [int(n) if n.isdigit() else n for n in re.split(r"[.\D]+", one[0])])


def interpreters():
    """The oldest, the newest and one more, or all."""
    found = installed()
    return found[:1] + tap.sample(found[1:-1], 1) + found[1:][-1:]


def sanitizer():
    """The address sanitizer's library, if the library under test was built with it."""
    if "address" not in BUILD.rsplit("san-", 1)[-1] or "san-" not in BUILD:
        return None
    return subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True,
                          check=True).stdout.strip()


def run(command, minor, name, stacks):
    """The two counts that the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "PYTHON", "LD_", "ASAN"))}
        env.update(WALK_LIBRARY=LIBRARY, CUTRACE_OUTPUT=os.path.join(folder, "%p.zst"), CUTRACE_QUIET="1",
                   PYTHONDONTWRITEBYTECODE="1", PYTHONUTF8="1",
                   PYTHONPATH=os.path.join(DEPS, f"pythons/packages-{minor}"))
        if sanitizer():
            # Each object is a piece of memory of its own, of which the sanitizer knows.
            env.update(LD_PRELOAD=sanitizer(), PYTHONMALLOC="malloc",
                       ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0")
        done = subprocess.run([*command, os.path.join(HERE, "cases.py"), name, str(stacks)], env=env, cwd=folder,
                              capture_output=True, text=True, errors="replace", timeout=HANG)
    if "No module named" in done.stderr:
        raise Skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}"
    assert "Error" not in done.stderr and "Wrong" not in done.stderr, done.stderr[-3000:]
    return [int(n) for n in done.stdout.split()]


def traced(trace, *command, **env):
    """The outputs of a program under libcutrace.so and the simulated driver, which writes this trace and ends well."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "PYTHON", "LD_", "SIM_"))}
    plain.update(LD_LIBRARY_PATH=SIM, LD_PRELOAD=tap.LIBRARY, CUTRACE_OUTPUT=trace, PYTHONDONTWRITEBYTECODE="1", PYTHONUTF8="1")
    done = subprocess.run(command, env={**plain, **env}, cwd=os.path.dirname(trace), capture_output=True, text=True,
                          errors="replace", timeout=HANG, check=False)
    if re.search("version `GLIBC_.*not found", done.stderr):
        raise Skip("its C library is older than the one that the simulated driver was built with")
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout, done.stderr


def several(command, minor, name, stacks, times=1):
    total = [0, 0]
    for _ in range(times):
        total = [a + b for a, b in zip(total, run(command, minor, name, stacks))]
    assert total[0] >= stacks, f"only {total[0]} stacks were compared"
    return f"{total[0]} stacks, {total[1]} frames"


# (case, part of the stacks, times)
CASES = (("shapes_one_by_one", 1, 1), ("at_exit", 0, 30 if FULL else 2), ("subinterpreter", 0, 1), ("greenlets", 0, 1),
         ("in_eight_threads", 5, 1), ("beside_a_spinning_thread", 5, 1), ("with_the_gil", 5, 1),
         ("in_forked_children", 50, 1), ("at_most_so_many", 0, 1), ("gate_forgotten", 0, 1), ("numpy", 0, 1))
UNSANITIZED = ("greenlets", "subinterpreter", "numpy", "beside_a_spinning_thread", "with_the_gil")


def cases_of(number, interpreter):
    """What runs there. The sanitizer is this machine's, and does not know of stacks that are switched."""
    if not sanitizer():
        return tap.sample(CASES, 5, number)
    return [c for c in CASES if c[0] not in UNSANITIZED and "ld-linux" not in interpreter[2][0]]


def skipped_suites():
    for suite in SUITES:
        path = f"{DEPS}/pythons/{suite}.skipped"
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                yield suite, f.read().strip()


def skip(reason):
    raise Skip(reason)


def main():
    stacks = 1000 if not FULL else 5000 if sanitizer() else 50000
    fetch()
    for number, (version, kind, command) in enumerate(interpreters()):
        for name, part, times in cases_of(number, (version, kind, command)):
            tap.case(f"{version} {kind}: {name}")(functools.partial(
                several, command, ".".join(version.split(".")[:2]), name, stacks // part if part else 0, times))
    for suite, reason in skipped_suites():
        tap.case(suite)(functools.partial(skip, reason))
    tap.main()


if __name__ == "__main__":
    main()
