# SPDX-License-Identifier: Apache-2.0
"""Cases that run in a process of their own, because the driver reads its parameters once. Then the process's ledgers
are checked for order and for overlapping allocations."""
import functools
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from driver import Driver  # noqa: E402
from tap import SIM, Skip, case, main, skip_all  # noqa: E402

CUDA_INC = os.environ.get("CUDA_INC") or "/usr/local/cuda/include"
HANG = 500  # a guard, no measure

_alone = {}


def alone(name, **environment):
    """A case that runs in a process of its own, with these parameters; @ is a folder."""
    def register(function):
        _alone[function.__name__] = function
        case(name)(lambda: problems_alone(function.__name__, environment))
        return function
    return register


def started(name, **environment):
    """The same, with a driver that has a context."""
    def register(function):
        @functools.wraps(function)
        def run():
            d = Driver()
            d.start()
            function(d)
        return alone(name, **environment)(run)
    return register


def eq(got, wanted, what=""):
    assert got == wanted, f"{what}: {got!r} is not {wanted!r}"


def ledger():
    path = os.environ["SIM_LEDGER"].replace("%p", str(os.getpid()))
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []


def ops():
    return [e["op"] for e in ledger()]


def in_child(code, pass_fds=(), **environment):
    """Runs Python code with `d` a Driver; its standard output."""
    text = "import sys, os, signal\nfrom driver import *\nd = Driver()\n" + code
    env = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)), **environment)
    return subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=HANG,
                          pass_fds=pass_fds, check=True).stdout


def compile_c(folder, name, source, *flags):
    path = os.path.join(folder, name)
    with open(path + ".c", "w") as f:
        f.write(source)
    # No sanitizer flags: what is compiled here only calls.
    subprocess.run([os.environ.get("CC", "gcc").split()[0], "-I", CUDA_INC, path + ".c", "-o", path, *flags],
                   check=True)
    return path


# ---- what every ledger must satisfy ----------------------------------------------------------------------------------

TAKES = {"alloc": "free", "reserve": "unreserve"}


def check_ledger(path):
    live, last, seqs, at = {}, 0, 0, 0
    for line in open(path):
        e = json.loads(line)
        eq(e["seq"], seqs, "seq")
        seqs += 1
        assert e["t_ns"] >= at, "time goes backwards"
        at = e["t_ns"]
        assert e.get("free", 0) <= e.get("total", 0), e
        if e["result"] or "ptr" not in e:
            if e["op"] == "context-destroy":
                live = {p: x for p, x in live.items() if x[1] not in (None, e.get("context"))}
            continue
        p = int(e["ptr"], 16)
        if e["op"] in TAKES:
            for base, (size, _) in live.items():
                assert p + e["bytes"] <= base or base + size <= p, f"{e} overlaps {base:#x}+{size}"
            live[p] = (e["bytes"], e.get("context"))
        elif e["op"] in TAKES.values() and p:
            live.pop(p, None)
    return seqs


def problems_alone(name, environment):
    """Runs a function in a process of its own; the problems of the function and of its ledgers."""
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SIM_", "SIMRT_", "CUDA_MODULE"))}
        env.update(LD_LIBRARY_PATH=SIM, SIM_LEDGER=folder + "/ledger.%p", CASE_DIR=folder)
        env.update({k: v.replace("@", folder) for k, v in environment.items()})
        try:
            r = subprocess.run([sys.executable, os.path.abspath(sys.argv[0]), "--alone", name], env=env, text=True,
                               capture_output=True, timeout=HANG)
        except subprocess.TimeoutExpired:
            return [f"still running after {HANG} s"]
        if r.returncode == 77:
            raise Skip(r.stdout.splitlines()[0])
        output = r.stdout + r.stderr + f"exit status {r.returncode}"
        if r.returncode:
            return [output]
        try:
            for path in os.listdir(folder):
                if path.startswith("ledger."):
                    check_ledger(os.path.join(folder, path))
        except AssertionError as e:
            return [output + f"\nledger: {e}"]
    return []


def run_suite():
    """Runs the cases of the suite, or one of them in this process for --alone."""
    if sys.argv[1:2] == ["--alone"]:
        try:
            _alone[sys.argv[2]]()
        except Skip as e:
            print(e)
            sys.exit(77)
    elif not os.path.exists(os.path.join(SIM, "libcuda.so.1")):
        skip_all("the simulated driver is not built")
    else:
        main()
