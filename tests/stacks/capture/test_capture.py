#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: clang gdb
"""Stacks of real programs, each compared with full unwinding: all are equal, and a planted fault is found."""
import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from tap import BUILD, FULL, ROOT, Skip, case, dice, main, note, sample  # noqa: E402

PROGRAMS = os.path.join(BUILD, "tests/stacks/capture")
HANG = 500  # a guard, no measure
SLOT, FRAME_POINTER = 1, 2  # faults, as in walk_fault.h

PLUGINS = [os.path.join(PROGRAMS, f"plugin_{n}.so") for n in (40, 72, 136)]
KINDS = ("O0", "O2", "O2fp")
TIMES = 10 if FULL else 0.2

PYTHON = """
import json, re
def nested(n):
    return [n, nested(n - 1)] if n else {}
for i in range(100000):
    text = json.dumps({str(k): nested(k % 20) for k in range(30)})
    json.loads(text)
    re.sub(r"([0-9]+)", lambda m: m.group(1) * 2, text[:2000])
    sorted((str(k) for k in range(300)), key=lambda s: s[::-1])
    if i % 7 == 0:
        try:
            nested(-1)
        except RecursionError:
            pass
    if i == ROUNDS:
        break
"""


def run(command, check=1, fault=0, most=0, **environment):
    """Counts of all processes that came of a command, which has to succeed."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, LD_PRELOAD=os.path.join(PROGRAMS, "libcapture.so"), CAPTURE_REPORT=folder,
                   CAPTURE_MOST=str(most), CAPTURE_FAULT=str(fault), CUTRACE_CHECK_STACKS=str(check),
                   CUTRACE_QUIET="1", CUTRACE_OUTPUT=os.path.join(folder, "%p.zst"), **environment)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 0, f"{command[0]}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        counts = {}
        for path in glob.glob(os.path.join(folder, "*.txt")):
            with open(path) as f:
                for line in f:
                    name, value = line.split()
                    counts[name] = counts.get(name, 0) + int(value)
    assert counts, "no process has left a report"
    return counts


total = {}  # of the programs that every machine has


def clean(command, least, everywhere=True, **how):
    """Every stack was compared, and none differed; most of them were recalled or walked."""
    counts = run(command, **how)
    note(" ".join(f"{k} {v}" for k, v in sorted(counts.items())))
    for name, value in counts.items() if everywhere else ():
        total[name] = total.get(name, 0) + value
    assert counts["captures"] >= least, counts
    assert counts["mismatches"] == 0, counts
    assert counts["allocations_inside"] == 0, "a capture has allocated from the program's heap"
    assert counts["errno_changed"] == 0 and counts["none"] == 0, counts
    assert counts["checks"] >= counts["captures"] - counts["unwound"], counts
    assert counts["recalled"] > 0.5 * counts["captures"], "hardly anything was recalled"
    assert counts["unwound"] < 0.1 * counts["captures"], "too much was left to libunwind"


def source(folder):
    """A C file that keeps a compiler busy."""
    draw = dice()
    statements = ["for (int i = 0; i < a; i++) r += i * %d;", "if (a > %d) r ^= b; else r += a;",
                  "switch (b & 3) { case 0: r += %d; break; case 1: r -= a; break; default: c[r & 7] += 1.5; }",
                  "while (r > %d) r = r / 2 - 1;"]
    path = os.path.join(folder, "much.c")
    with open(path, "w") as f:
        for n in range(400 if FULL else 80):
            body = "\n".join(draw.choice(statements) % draw.randint(1, 999) for _ in range(draw.randint(3, 12)))
            f.write(f"int f{n}(int a, int b, double *c) {{ int r = {n};\n{body}\nreturn r; }}\n")
    return path


def case_frames(kind):
    clean([os.path.join(PROGRAMS, f"frames_{kind}"), str(int(340 * TIMES)), *PLUGINS], 100000 * TIMES)
    assert total["unwound"], "signal frames have no simple rule"


def case_exceptions(kind):
    clean([os.path.join(PROGRAMS, f"exceptions_{kind}"), str(int(400 * TIMES))], 20000 * TIMES)


def case_python(allocator):
    clean([sys.executable, "-S", "-c", PYTHON.replace("ROUNDS", str(int(60 * TIMES)))], 150000 if FULL else 5000,
          most=int(150000 * TIMES), PYTHONMALLOC=allocator)


def case_compiler(name):
    if not shutil.which(name):
        raise Skip(f"no {name}")
    with tempfile.TemporaryDirectory() as folder:
        clean([name, "-O2", "-c", source(folder), "-o", os.path.join(folder, "o")], 10000, name == "gcc",
              most=1200000 if FULL else 24000)


def case_fault(kind, fault):
    counts = run([os.path.join(PROGRAMS, f"frames_{kind}"), "20", *PLUGINS], fault=fault)
    assert counts["mismatches"] > 0, counts
    # Found out, it is not used any more.
    assert counts["recalled"] + counts["walked"] < 0.1 * counts["captures"], counts
    assert counts["none"] == 0, counts


def case_glibc(command, least, **how):
    """One in seven is compared with what glibc's backtrace() finds by libgcc; no frame is cut off."""
    counts = run(command, check=0, CAPTURE_GLIBC="7", CUTRACE_STACK_DEPTH="4000", CUTRACE_STACKS="native", **how)
    note(" ".join(f"{k} {v}" for k, v in sorted(counts.items())))
    assert counts["compared"] >= least and not counts["different"], counts


def case_glibc_fault():
    counts = run([os.path.join(PROGRAMS, "frames_O2"), "20", *PLUGINS], check=0, fault=SLOT, CAPTURE_GLIBC="7",
                 CUTRACE_STACK_DEPTH="4000")
    assert counts["different"], counts


def case_gdb(kind, fault):
    if not shutil.which("gdb"):
        raise Skip("no gdb")
    with tempfile.TemporaryDirectory() as folder:
        settings = dict(LD_PRELOAD=os.path.join(PROGRAMS, "libcapture.so"), CAPTURE_REPORT=folder, CAPTURE_STOP="37",
                        CAPTURE_FAULT=fault, CUTRACE_QUIET="1", CUTRACE_OUTPUT=f"{folder}/%p.zst")
        done = subprocess.run(["gdb", "-q", "-nx", "-batch", "-iex", "set auto-load off",
                               *(x for k, v in settings.items() for x in ("-ex", f"set env {k} {v}")),
                               "-x", os.path.join(ROOT, "tests/stacks/capture/in_gdb.py"), "--args",
                               os.path.join(PROGRAMS, f"frames_{kind}"), "60", *PLUGINS],
                              capture_output=True, text=True, timeout=HANG)
        found = re.search(r"^same (\d+) different (\d+)", done.stdout, re.M)
        assert found, (done.stdout + done.stderr)[-2000:]
        same, different = map(int, found.groups())
        assert same + different >= 100 and bool(different) == bool(fault), done.stdout[-2000:]


def case_unchecked():
    counts = run([os.path.join(PROGRAMS, "frames_O2"), "20", *PLUGINS], check=0)
    assert counts["checks"] == 0 and counts["recalled"] > 0.5 * counts["captures"], counts


def case_one_in_n():
    counts = run([os.path.join(PROGRAMS, "frames_O2"), "20", *PLUGINS], check=10)
    assert 0.08 * counts["captures"] < counts["checks"] < 0.11 * counts["captures"], counts


def case_total():
    note(f"{total['checks']} comparisons, {total['mismatches']} mismatches")
    assert total["checks"] > 1000000


CASES = [(f"frames of all kinds, {k}", case_frames, k) for k in KINDS]
CASES += [(f"exceptions in flight, {k}", case_exceptions, k) for k in KINDS]
CASES += [(f"python3, {a}", case_python, a) for a in sample(("malloc", "pymalloc"), 1)]
CASES += [(f"{c} -O2", case_compiler, c) for c in sample(("gcc", "clang"), 1)]
CASES += [("together more than a million comparisons", case_total)] if FULL else []
CASES += [(f"a wrong slot is found, {k}", case_fault, k, SLOT) for k in sample(KINDS, 1)]
CASES += [(f"a frame pointer that is not compared is found, {k}", case_fault, k, FRAME_POINTER) for k in sample(KINDS, 1, 1)]
CASES += [(f"as glibc's backtrace has it: frames of all kinds, {k}", case_glibc,
           [os.path.join(PROGRAMS, f"frames_{k}"), "60", *PLUGINS], 5000) for k in sample(KINDS, 1, 2)]
CASES += [(f"as glibc's backtrace has it: exceptions in flight, {k}", case_glibc,
           [os.path.join(PROGRAMS, f"exceptions_{k}"), "200"], 2000) for k in sample(KINDS, 1, 3)]
CASES += [("as glibc's backtrace has it: python3", case_glibc,
           [sys.executable, "-S", "-c", PYTHON.replace("ROUNDS", "10")], 500),
          ("glibc's backtrace sees a wrong slot", case_glibc_fault)]
CASES += [(f"as gdb has it, {k}", case_gdb, k, 0) for k in sample(KINDS, 1, 4)]
CASES += [("gdb sees a wrong slot", case_gdb, "O2", SLOT)] if FULL else []
CASES += [("nothing is compared by default", case_unchecked), ("one in ten is compared", case_one_in_n)]


for _name, _function, *_arguments in CASES:
    case(_name)(functools.partial(_function, *_arguments))
main()
