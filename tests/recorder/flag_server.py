# SPDX-License-Identifier: Apache-2.0
"""A server whose workers use the driver; for test_facts.py, which installs it as a module of a package.

How it runs its workers is in FACTS_SHAPE, because its command line is what is tested: `alone` (it works itself), or
fork, spawn or forkserver with a process between (and two workers), or `shell`, `python` or `other` (one worker as a
program of its own, under a shell, under another Python, or under something else, which has flags of its own). With
FACTS_TITLES every process but the first overwrites its arguments with a title, as setproctitle does. A worker prints
its pid, what is left of its command line, and how many processes are above it up to the server; then it waits for the
file FACTS_STAYS, if that is given. FACTS_CALLS: how many calls it makes; FACTS_LIBRARY: a library that makes one more
(libcalls_driver.c).
"""
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import time


def retitle(title):
    """Overwrites the arguments of this process in its memory."""
    if not os.environ.get("FACTS_TITLES"):
        return
    with open("/proc/self/stat", encoding="ascii", errors="replace") as f:
        fields = f.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end
    text = title.encode()[:end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


def levels_up(to):
    pid, n = os.getpid(), 0
    while pid != to:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
            pid = next(int(line.split()[1]) for line in f if line.startswith("PPid:"))
        n += 1
        if not pid:
            return None
    return n


def work(number):
    import ctypes_calls
    retitle(f"VLLM::Worker_TP{number}")
    ctypes_calls.begin()
    ctypes_calls.some(int(os.environ.get("FACTS_CALLS", "30")) + number)
    if os.environ.get("FACTS_LIBRARY"):
        ctypes.CDLL(os.environ["FACTS_LIBRARY"]).take_memory(ctypes.c_size_t(4096))
        ctypes_calls.cuda.sim_driver_returned()
    with open("/proc/self/cmdline", "rb") as f:
        left = f.read().rstrip(b"\0").split(b"\0")
    line = {"pid": os.getpid(), "left": [x.decode() for x in left],
            "levels": levels_up(int(os.environ.get("FACTS_SERVER", os.getpid())))}
    os.write(1, json.dumps(line).encode() + b"\n")
    while os.environ.get("FACTS_STAYS") and not os.path.exists(os.environ["FACTS_STAYS"]):
        time.sleep(0.005)


def engine(method):
    retitle("VLLM::EngineCore")
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=work, args=(n,)) for n in range(2)]
    for p in workers:
        p.start()
    for p in workers:
        p.join()
    sys.exit(max(p.exitcode for p in workers))


def main():
    shape = os.environ["FACTS_SHAPE"]
    code = [sys.executable, "-c", f"import {__spec__.name} as server; server.work(0)"]
    if shape == "alone":
        work(0)
        return 0
    os.environ["FACTS_SERVER"] = str(os.getpid())
    if shape in ("fork", "spawn", "forkserver"):
        p = multiprocessing.get_context(shape).Process(target=engine, args=(shape,))
        p.start()
        p.join()
        return p.exitcode
    caller = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    commands = {"shell": ["sh", "-c", '"$@"; exit $?', "sh", *code], "python": [sys.executable, "-c", caller, *code],
                "other": ["perl", "-e", "exit(system(@ARGV[2..$#ARGV]) >> 8)", "--", "--dtype", "half", *code]}
    return subprocess.call(commands[shape])


if __name__ == "__main__":
    sys.exit(main())
