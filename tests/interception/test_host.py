#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs behave as without the library, and programs without CUDA do not notice it."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, main  # noqa: E402
from ways import *  # noqa: E402,F403

SOURCE = os.path.dirname(os.path.realpath(__file__))


def plain_run(command, preload, where, **env):
    e = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "SIM_", "LD_"))}
    e.update(env)
    if preload:
        e["LD_PRELOAD"] = LIBRARY
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, cwd=where, env=e)


def untouched(command, setup=None, **env):
    """Same result with and without; nothing beside it: no file, no output."""
    results = []
    for preload in (False, True):
        where = folder()
        if setup:
            setup(where)
        r = plain_run(command, preload, where, **env)
        files = sorted(os.path.relpath(os.path.join(d, f), where) for d, _, fs in os.walk(where) for f in fs)
        results.append((r.returncode, r.stdout.replace(where, "."), r.stderr.replace(where, "."),
                        [f for f in files if ".git/" not in f]))
    return [f"{what}: {a!r:.500} without, {b!r:.500} with" for what, a, b in
            zip(("exit status", "stdout", "stderr", "files"), *results) if a != b]


def write_c(where):
    with open(os.path.join(where, "x.c"), "w") as f:
        f.write('#include <stdio.h>\nint main(void) { puts("hello"); return 7; }\n')


for name, command, setup in (
        ("bash", ["bash", "-c", "x=1; (echo sub; exit 3); echo $? $x; echo /proc/$$/task/* | wc -w; ls -d / | cat"],
         None),
        ("bash, a failing command", ["bash", "-c", "no_such_command_here; exit 9"], None),
        ("sh with a pipe", ["sh", "-c", "seq 1 1000 | sort -rn | head -n 3"], None),
        ("gcc", ["sh", "-c", "gcc -O1 -o x x.c && ./x; echo $?"], write_c),
        ("gcc with an error", ["gcc", "-c", "-o", "x.o", "nothing.c"], None),
        ("ls", ["ls", "-la", "/usr/lib"], None),
        ("ls of nothing", ["ls", "/nonexistent"], None),
        ("git", ["sh", "-c", "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m c && "
                 "git log --format=%s && git status --short"], None),
        ("python3", ["python3", "-c", "import os, ctypes, json, ssl, threading, multiprocessing; "
                     "print(len(os.listdir('/proc/self/task')), ctypes.CDLL(None).getpid() == os.getpid())"], None),
        ("python3, an exception", ["python3", "-c", "raise SystemExit(5)"], None),
        ("python3, killed by a signal", ["python3", "-c", "import os; os.kill(os.getpid(), 15)"], None),
        ("true with all options on", ["true"], None)):
    def _make(command=command, setup=setup, name=name):
        env = {"CUTRACE_OUTPUT": "trace.zst"} if "options" in name else {}
        return untouched(command, setup, **env)
    case(f"without CUDA: {name}: no file, no output, same result")(_make)


@case("without CUDA: one thread, and no open file of ours, while it runs")
def _():
    where = folder()
    script = "import os; print(len(os.listdir('/proc/self/task')), sorted(os.readlink(f'/proc/self/fd/{f}') " \
             "for f in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{f}') and int(f) > 2))"
    a, b = (plain_run(["python3", "-c", script], p, where).stdout for p in (False, True))
    return [] if a == b and a.startswith("1 ") else [f"without {a}, with {b}"]


@case("without CUDA: the environment is not read for options, and warnings are not given")
def _():
    return untouched(["bash", "-c", "echo x"], None, CUTRACE_NO_SUCH_OPTION="1", CUTRACE_OUTPUT="/nonexistent/x")


@case("look-ups of driver functions without a driver find nothing")
def _():
    where = folder()
    a, b = (plain_run([program("absent_driver")], p, where) for p in (False, True))
    out = [] if a.stdout == b.stdout and a.returncode == b.returncode == 0 else [f"without {a}, with {b}"]
    return out + ([f"files {os.listdir(where)}"] if os.listdir(where) else [])


@case("cuInit and look-ups alone leave no file")
def _():
    done = run("lookups_only")
    problems = [] if done.rc == 0 else [f"exit status {done.rc} {done.err}"]
    return problems + ([f"traces {done.traces}"] if done.traces else [])


@case("a library that exports a variable named like a driver function keeps it")
def _():
    done = run("fills_function_pointers", program("libfunction_pointers.so"))
    return ([] if done.rc == 0 else [f"{done.rc} {done.out} {done.err}"]) + same_as_without(
        done, "fills_function_pointers", program("libfunction_pointers.so"))


@case("RTLD_NEXT of the host's interposers, before and after us, at -O0 and -O2")
def _():
    problems = []
    for lib in ("librtld_next_O0.so", "librtld_next_O2.so"):
        for place in ("before", "after"):
            kw = {place: [program(lib)]}
            done = run("driver_elf", "device", **kw)
            problems += [f"{lib} {place}: {p}" for p in good(done) + same_as_without(done, "driver_elf", "device", **kw)]
            if not re.search(r"next: getppid [1-9].*", done.err):
                problems.append(f"{lib} {place}: was not in the chain: {done.err!r}")
    both = {"before": [program("librtld_next_O0.so")], "after": [program("librtld_next_O2.so")]}
    done = run("driver_elf", "device", **both)
    return problems + good(done) + same_as_without(done, "driver_elf", "device", **both)


@case("errno and dlerror are what they are without us")
def _():
    problems = []
    for env in ({}, {"SIM_ERRNO": "1"}):  # (the driver's own calls leave something in errno, and so do those that we make)
        done = run("errno_and_dlerror", env=env)
        problems += good(done) + same_as_without(done, "errno_and_dlerror", env=env)
    return problems


@case("a program that changes its folder: the trace is where the program began to use CUDA")
def _():
    where = folder()
    done = run("chdir_after_init", cwd=where, env={"CUTRACE_OUTPUT": "trace.%p.zst"}, where=where)
    # Relative to the folder at the first call that makes the file.
    return good(done)


@case("CUTRACE=0 turns everything off")
def _():
    done = run("driver_elf", "device", "async", "vmm", env={"CUTRACE": 0})
    dlsym = run("driver", "chain2", "device", "async", "vmm", env={"CUTRACE": 0})
    problems = same_as_without(done, "driver_elf", "device", "async", "vmm")
    problems += same_as_without(dlsym, "driver", "chain2", "device", "async", "vmm")
    if done.traces or dlsym.traces:
        problems.append("there is a trace")
    threads = run("counts_threads", env={"CUTRACE": 0})
    return problems + ([] if threads.out.strip() == "1" else [f"threads: {threads.out}"])


@case("with CUDA: exactly three threads more, the writer and the two keepers of files")
def _():
    done, plain = run("counts_threads"), run("counts_threads", preload=False)
    return good(done) + ([] if (plain.out.strip(), done.out.strip()) == ("1", "4") else
                         [f"threads {plain.out!r} without, {done.out!r} with"])


@case("a folder that cannot be written: same result, one line at most")
def _():
    env = {"CUTRACE_OUTPUT": "/proc/nowhere/trace.zst", "TMPDIR": "/proc/nowhere", "CUTRACE_QUIET": None}
    done = run("driver_elf", "device", env=env)
    plain = run("driver_elf", "device", preload=False)
    problems = [] if (done.rc, done.out) == (plain.rc, plain.out) else [f"{done.rc} {done.out}"]
    said = [line for line in done.err.splitlines() if " out of memory: " not in line]
    return problems + ([] if len(said) <= 1 else said)


@case("CUTRACE_OUTPUT is a folder: it gets a trace of the default name; what can hold no trace gets none beside it")
def _():
    where, problems = folder(), []
    os.mkdir(os.path.join(where, "there"))
    os.symlink("/dev/null", os.path.join(where, "link"))
    os.mkfifo(os.path.join(where, "fifo"))
    for output, lies_in, said in (("there", "there", ""), ("there/", "there", ""), ("new/folder/", "new/folder", ""),
                                  ("link", "tmp", "not a regular file"), ("fifo", "tmp", "not a regular file"),
                                  ("/dev/stdout", "tmp", "not a regular file")):
        os.makedirs(os.path.join(where, "tmp"), exist_ok=True)
        done = run("driver_elf", "device", env={"CUTRACE_OUTPUT": os.path.join(where, output), "CUTRACE_QUIET": None,
                                                "TMPDIR": os.path.join(where, "tmp")})
        lines = [line for line in done.err.splitlines() if " out of memory: " not in line]
        made = [os.path.relpath(os.path.join(at, f), where) for at, _, files in os.walk(where) for f in files if ".zst" in f]
        if done.rc or len(made) != 1 or not made[0].startswith(f"{lies_in}/cutrace.driver_elf.") or len(lines) != bool(said) or (
                said and said not in lines[0]):
            problems.append(f"{output}: exit status {done.rc}, traces {made}, said {lines}")
        for name in made:
            os.remove(os.path.join(where, name))
    return problems + [f"/dev/{n}" for n in os.listdir("/dev") if n.startswith("stdout.")]


main()
