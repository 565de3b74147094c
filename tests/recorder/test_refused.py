#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is said on standard error about refused memory: that every failure is said before its call returns, with figures of
its moment. Compared with the simulated driver's ledger, which has free memory and all allocations at each call."""
import json
import os
import re
import signal
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import ways  # noqa: E402
from tap import BUILD, FULL, case, check, equal, main, read_json, repeat  # noqa: E402

PROGRAM = os.path.join(BUILD, "tests/recorder/refused_calls")
M, G = 1 << 20, 1 << 30
A_SIZE = r"[\d.]+ (?:B|[KMG]iB)"
LINE = re.compile(rf"cutrace: (?:(?P<more>\d+) more failed, the last of them: )?GPU 0 out of memory: (?P<api>\w+) of (?P<size>{A_SIZE}) "
                  rf"failed(?: \((?P<caller>[^)]*)\))?: free (?P<free>{A_SIZE}) of (?P<total>{A_SIZE}), "
                  rf"this process (?P<tracked>{A_SIZE}) tracked(?: \+ (?P<flight>{A_SIZE}) in flight)?(?: \+ (?P<untracked>{A_SIZE}) untracked)?"
                  rf"(?:, others (?P<others>{A_SIZE}))?(?:, (?P<either>{A_SIZE}) untracked or of others)?; run: cutrace-report (?P<path>\S+)")
SEPARATE = {"CUTRACE_STACKS": "off"}  # failures of one call site are summed up, but for those whose call site is not known


def run(*words, memory=8 << 10, **env):
    """A run in which each refused call returned in time, as it does but for a busy machine; with a slow NVML it cannot."""
    env = {"CUTRACE_QUIET": None, "SIM_MEM_MB": str(memory), "SLOW_CALL_FILE": "slow", **env}
    return repeat(lambda: ways.run(PROGRAM, *words, env=env),
                  lambda done: not os.path.exists(os.path.join(done.folder, "slow")) or env.get("SIM_NVML") == "slow")


def gib(text):
    number, unit = text.split()
    return float(number) / {"B": G, "KiB": 1 << 20, "MiB": 1 << 10, "GiB": 1}[unit]


def parsed(text):
    out = []
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        check(found, "not understood: " + line)
        out.append({k: v if k in ("api", "caller", "path") else v and (gib(v) if " " in v else int(v)) for k, v in found.groupdict().items()})
    return out


def asked(line):
    """What a call of this suite asked for beyond 1 TiB; its line has GiB with two decimals."""
    return line["size"] - 1024


def whole(line):
    """The parts and the free memory, in GiB."""
    return sum(line[k] or 0 for k in ("free", "tracked", "flight", "untracked", "others", "either"))


def refused(done):
    """The refused calls of the ledger, each with what this process held and what was free then, in GiB."""
    held, out, at = 0, [], {}
    for e in done.ledger():
        if e["op"] == "alloc" and not e["result"]:
            at[e["ptr"]] = e["bytes"]
            held += e["bytes"]
        elif e["op"] == "free":
            held -= at.pop(e["ptr"])
        elif e["op"] == "alloc":
            out.append((e["bytes"], held / G, e["free"] / G))
    return out


def is_of(line, truth):
    """Whether the figures are those of a moment of the ledger, as far as their decimals tell."""
    _, held, free = truth
    return abs(line["free"] - free) <= 0.0051 and abs(line["tracked"] - held) <= 0.0051


@case("a process that ends right behind the refused call, in any way: the line is there, with the figures of the ledger")
def at_once():
    for how, status in (("_exit", 0), ("kill", -signal.SIGKILL), ("abort", -signal.SIGABRT), ("exit", 0)):
        for _ in range(20 if FULL else 3):
            done = run("alloc:3072", "fail:2097152", how)
            equal(done.rc, status, done.err)
            (line,), (truth,) = parsed(done.err), refused(done)
            check(is_of(line, truth) and abs(whole(line) - 8) < 0.16, f"{done.err}, the ledger: {truth}")
            equal((line["api"], line["size"], line["path"]), ("cuMemAlloc_v2", 1026.0, *done.traces.values()))


@case("what the process does after the refused call is not in its line")
def one_moment():
    done = run("alloc:3072", "fail:2097152", "free", "alloc:1024", "fail:3145728", "alloc:2048", "kill", **SEPARATE)
    lines = parsed(done.err)
    equal([asked(line) for line in lines], [2.0, 3.0])
    for line, truth in zip(lines, refused(done)):
        check(is_of(line, truth), f"{done.err}, the ledger: {truth}")


@case("beside a thread that allocates and frees all the time: tracked and free memory are of one moment, and all adds up")
def beside_another():
    done = run("alloc:1024", "toggle:8", "_exit", **SEPARATE)
    lines, truths = parsed(done.err), refused(done)
    equal(len(lines), 8, done.err)
    for line, truth in zip(lines, truths):
        # The other thread's call may have ended between the driver's answer and the reading.
        check(abs(whole(line) - 8) < 0.26, f"{whole(line)} GiB of 8: {line}")
        check(abs(line["tracked"] + (line["flight"] or 0) - truth[1]) <= 0.31, f"{line}, the ledger: {truth}")


@case("each of several failures is said, in their order, and a flood is summed up: no failure is missing")
def each():
    done = run(*(f"fail:{n << 20}" for n in range(1, 10)), "kill", **SEPARATE)
    equal([asked(line) for line in parsed(done.err)], [float(n) for n in range(1, 10)])
    for n in (100, 5000):
        done = run(f"loop:{n}", "exit", **SEPARATE)
        lines = parsed(done.err)
        equal(sum(line["more"] or 1 for line in lines), n, done.err[-1000:])
        equal([line["more"] for line in lines[:10]], [None] * 10)
        check(abs(asked(lines[-1]) - (n << 10) / G) < 0.01, f"the last line: {lines[-1]}")


@case("a call site that fails again within a second is said once, then summed up")
def again_and_again():
    done = run("loop:100", "fail:2097152", "exit")
    lines = parsed(done.err)
    equal(sum(line["more"] or 1 for line in lines), 101, done.err)
    # (one a second at most has a line of its own: six would be a run of five seconds)
    check(lines[0]["more"] is None and sum(line["more"] is None for line in lines) < 6, done.err)
    equal(asked(lines[-1]), 2.0, "the last one is described")


@case("threads that fail at once: each failure has its line before the process ends")
def threads():
    for _ in range(20 if FULL else 3):
        done = run("alloc:1024", "threads:9", "_exit", **SEPARATE)
        lines = parsed(done.err)
        equal(len(lines), 9, done.err)
        check(all(abs(whole(line) - 8) < 0.16 for line in lines), done.err)


@case("two processes: each says its own failure and names its own trace")
def processes():
    done = run("fork", "fail:2097152", "_exit")
    lines = parsed(done.err)
    equal(sorted(line["path"] for line in lines), sorted(done.traces.values()))
    equal(len(lines), 2)


@case("with CUTRACE_QUIET nothing is said, and the failure is in the trace")
def quiet():
    done = run("fail:1", "kill", CUTRACE_QUIET="1")
    equal((done.rc, done.err), (-signal.SIGKILL, ""))
    equal([e["result"] for e in done.events() if e["op"] == "alloc"], [2])


@case("a full pipe holds nobody up, and has the lines later")
def full_pipe():
    where = ways.folder()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = 0
    try:
        while True:
            filled += os.write(writer, bytes(1))
    except BlockingIOError:
        os.set_blocking(writer, True)
    p = subprocess.Popen([PROGRAM, "fail:1048576", "loop:30", "say", "wait", "_exit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=writer, env=ways.environment(where, env={"CUTRACE_QUIET": None}))
    os.close(writer)
    equal(p.stdout.readline(), b"said\n")  # it has returned from all calls, with nobody reading
    text = b""
    while len(text) < filled or text.count(b"\n") < 2:
        more = os.read(reader, 65536)
        check(more, f"it ended: {text[filled:]}")
        text += more
    lines = parsed(text[filled:].decode())
    equal(asked(lines[0]), 1.0)
    p.communicate(b"\n")
    os.close(reader)
    equal(p.returncode, 0)


@case("without NVML, and without its figures for processes, nobody is named; a slow one is not waited for")
def without_nvml():
    for how in ("absent", "refused", "noprocesses", "lost"):
        done = run("alloc:3072", "fail:2097152", "kill", SIM_NVML=how, SIM_NEIGHBOUR_MB="1024")
        (line,) = parsed(done.err)
        equal((line["untracked"], line["others"], line["either"]), (None, None, 1.06), how)
        check(is_of(line, refused(done)[0]), f"{how}: {done.err}")
    done = run("alloc:3072", "fail:2097152", "kill", SIM_NVML="slow")
    equal(len(parsed(done.err)), 1)


def said_again(path):
    """The line that a bundle of the trace says the recorder wrote; None: none."""
    to = os.path.join(ways.folder(), "bug.zip")
    subprocess.run([os.path.join(BUILD, "cutrace-report"), "bundle", "--scrub=no", "-o", to, path], check=True, stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(to) as z:
        lines = [line for line in z.read("summary.md").decode().splitlines() if line.startswith("cutrace: ")]
    return lines[0] if lines else None


def without_caller(line):
    """Its name is in the line or in the trace only, where the process ends before the symbols of its file are read."""
    return re.sub(r" failed \([^)]*\)", " failed", line)


@case("a bundle of the trace says the line again, to the letter but for the caller, and none where none was written")
def again():
    for words, env in ((("alloc:3072", "fail:2097152", "kill"), {"SIM_NVML": "absent", "SIM_NEIGHBOUR_MB": "1024"}),
                       (("alloc:1", "fail:1", "kill"), {"SIM_NVML": "noprocesses"}), (("fail:3145728", "exit"), {"SIM_NVML": "absent"}),
                       (("alloc:3072", "fail:2097152", "abort"), {"CUTRACE_STACKS": "off", "SIM_NVML": "lost"})):
        done = run(*words, **env)
        (line,) = done.err.splitlines()
        equal(without_caller(said_again(*done.traces.values())), without_caller(line.split("; run: ")[0]), words)
    done = run("fail:1", "kill", CUTRACE_QUIET="1")
    equal(said_again(*done.traces.values()), None)


def is_trusted():
    """NVML's process numbers are those of the first namespace."""
    return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"


@case("a neighbour that comes between two readings of NVML is never this process's: not in the line, and not in the report")
def neighbour():
    where, shm = ways.folder(), os.path.join(ways.folder(), "shm")
    env = ways.environment(where, env={"CUTRACE_QUIET": None, "SIM_SHM": shm, "SIM_MEM_MB": str(8 << 10)})
    mine = subprocess.Popen([PROGRAM, "alloc:2048", "say", "wait", "fail:2097152", "kill"], stdin=subprocess.PIPE, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    equal(mine.stdout.readline(), "said\n")
    other = subprocess.Popen([PROGRAM, "alloc:3072", "say", "wait", "_exit"], stdin=subprocess.PIPE, text=True,
                             stdout=subprocess.PIPE, env={k: v for k, v in env.items() if k != "LD_PRELOAD"})
    equal(other.stdout.readline(), "said\n")
    _, err = mine.communicate("\n")
    other.communicate("\n")
    (line,) = parsed(err)
    neighbours = 3 + 64 / 1024  # and its context
    check((line["untracked"] or 0) <= 0.1 and (line["others"] or 0) <= neighbours + 0.051 and abs(whole(line) - 8) < 0.26, err)
    (path,) = [os.path.join(where, n) for n in os.listdir(where) if n.endswith(f".{mine.pid}.zst")]
    split = json.loads(read_json("summary", path))["devices"][0]["memory"]["crossing"]
    check((split["untracked_bytes"] or 0) <= 64 * M and (split["other_processes_bytes"] or 0) <= neighbours * G, split)
    equal(split["untracked_or_others_bytes"], int(neighbours * G) + 64 * M, "with this process's context")
    if is_trusted() and split["unattributed_bytes"] == 0:  # NVML was asked again in time
        equal((split["untracked_bytes"], split["other_processes_bytes"]), (64 * M, int(neighbours * G)))


main()
