#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUTRACE_MEMORY=1: the trace's file is written when an allocation fails, at the exit and on request, and at no other
time. What a killed process leaves in memory is as complete. (SIGKILL at random points is in test_kill.py.)"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
import tap  # noqa: E402
from tap import Skip, case  # noqa: E402

CUTRACE = os.path.join(BUILD, "cutrace")
HERE_MEMORY = {"CUTRACE_MEMORY": "1", "CUTRACE_FLUSH_MS": "10", "CUTRACE_QUIET": None}
OBEY = "exec('for line in sys.stdin:\\n exec(line)\\n print(1, flush=True)')"  # each line is done before its answer


def find_disk():
    """A folder for temporary files that is not in memory, where a trace has its journal beside it; None: there is none."""
    for place in (tempfile.gettempdir(), BUILD, "/var/tmp"):
        kind = subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True, check=False).stdout.strip()
        if os.access(place, os.W_OK) and kind not in ("", "tmpfs", "ramfs"):
            return place
    return None


tempfile.tempdir = find_disk() or tempfile.gettempdir()  # (/tmp may be a tmpfs, or a whole root folder)


def needs_disk():
    if not find_disk():
        raise Skip("every folder for temporary files is in memory, as /dev/shm is: the journal lies beside the trace")


class Host:
    """A program that makes the calls it is told to: some(N), take(BYTES), give(P)."""

    def __init__(self, where=None, place=None, before=(), **env):
        self.where = where or folder()
        self.path = os.path.join(place or self.where, "trace.zst")
        self.lines = 0
        self.process = start(self.where, sys.executable, os.path.join(HERE, "ctypes_calls.py"), OBEY, stdin=subprocess.PIPE, before=list(before),
                             env={**HERE_MEMORY, "CUTRACE_OUTPUT": self.path, **env})
        self.tell("some(100)")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            kill(self.process, group=True)
        if os.path.islink(self.path + ".journal") and os.path.exists(self.path + ".journal"):
            os.unlink(os.readlink(self.path + ".journal"))

    def wait(self, condition, what):
        wait_until(condition, self.process, what, 0.005, self.where)

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        self.lines += 1
        self.wait(lambda: said(self.where, "out").count("1") >= self.lines, line)

    def end(self):
        self.process.stdin.close()
        return self.process.wait(HANG)

    def ctl(self, request):
        r = subprocess.run([CUTRACE, "ctl", self.path, request], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(f"ctl {request}: {r.stderr}")
        return r.stdout

    def in_memory(self):
        """Bytes on the shelf and its size, in MiB."""
        m = re.search(r"^in memory +([\d.]+) (\w+) of ([\d.]+) (\w+)$", self.ctl("status"), re.M)
        return m and tuple(float(n) * {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 1024}[u]
                           for n, u in (m.group(1, 2), m.group(3, 4)))

    def file(self):
        st = os.stat(self.path)
        return st.st_size, st.st_mtime_ns

    def target(self):
        return os.readlink(self.path + ".journal") if os.path.islink(self.path + ".journal") else None

    def is_written(self, before):
        self.wait(lambda: self.file() != before, "the file is written")
        self.ctl("flush")  # (and wholly)

    def judge(self):
        (ledger,) = ledgers(self.where).values()
        return judge.judge(REPORT, self.path, ledger)[0] + accepted(self.path)

    def notes(self):
        events = judge.Trace(REPORT, self.path).events
        return [e["text"] for e in events if e["op"] == "note"]


def report(*arguments):
    try:
        done = subprocess.run([REPORT, *arguments], capture_output=True, text=True, timeout=HANG)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{arguments} hangs") from None
    tap.check_json(arguments, done.stdout)
    return done


def gone(host):
    return [f"{p} is still there" for p in (host.path + ".journal", host.link) if p and os.path.lexists(p)]


# ---- when it is written ---------------------------------------------------------------------------

@case("the file is not touched while the process records")
def _():
    with Host() as h:
        before = h.file()
        for _ in range(10):
            h.tell("some(1000)")
            time.sleep(0.03)
        h.wait(lambda: h.in_memory()[0] > 0.02, "chunks are in memory")
        problems = [] if h.file() == before == (0, before[1]) else [f"the file: {before}, then {h.file()}"]
        kill(h.process, group=True)
        return problems + h.judge()


def written(process):
    """Bytes that the process has made the disks write."""
    with open(f"/proc/{process.pid}/io", encoding="ascii") as f:
        return int(re.search(r"^write_bytes: (\d+)$", f.read(), re.M).group(1))


@case("nothing else reaches a disk, at any rate")
def _():
    where = folder()
    p = start(where, program("worker"), 2, 0, 64, 0, env={**HERE_MEMORY, "WORKER_REFUSALS": "0", "SIM_LEDGER_MAP": None})
    try:
        wait_until(lambda: traces(where), p)
        (path,) = traces(where).values()

        def events():
            r = subprocess.run([CUTRACE, "ctl", path, "status"], capture_output=True, text=True)
            return int((re.findall(r"^events +(\d+)", r.stdout, re.M) or [0])[0])

        wait_until(lambda: events() >= 100000, p)  # (the journal is there)
        before = written(p)
        wait_until(lambda: events() >= 400000, p)
        after = written(p)
        return [] if after == before else [f"{after - before} bytes were written"]
    finally:
        kill(p, group=True)
        remove(where)


@case("ctl flush writes it, once")
def _():
    with Host() as h:
        h.tell("some(5000)")
        before = h.file()
        h.ctl("flush")
        after, left = h.file(), h.in_memory()[0]
        # (what the writer learns of names afterwards comes later)
        problems = [] if after[0] > 1000 and left < 0.002 else [f"written: {before}, {after}; still in memory: {left} MiB"]
        shutil.copy(h.path, h.path + ".copy")
        problems += accepted(h.path + ".copy")
        events = judge.Trace(REPORT, h.path + ".copy", may_lack=True).calls
        problems += [] if len(events) > 5000 else [f"{len(events)} calls are in the file"]
        h.tell("some(1000)")
        time.sleep(0.2)
        problems += [] if h.file() == after else ["the file is written without having been asked for"]
        kill(h.process, group=True)
        return problems + h.judge()


@case("a refused request writes everything before it and itself; a storm of them nothing twice")
def _():
    with Host() as h:
        for _ in range(3):
            h.tell("some(3000)")
        before = h.file()
        h.tell("take(1 << 50)")
        h.is_written(before)
        first = h.file()
        problems = [] if before[0] == 0 else ["it was written before"]
        shutil.copy(h.path, h.path + ".copy")
        calls = judge.Trace(REPORT, h.path + ".copy", may_lack=True).calls
        problems += accepted(h.path + ".copy")
        if not any(e["bytes"] == 1 << 50 for e in calls) or len(calls) < 9000:
            problems.append(f"the file has {len(calls)} calls, with the refused one or not")
        for _ in range(30):
            h.tell("take(1 << 50); some(10)")
        h.ctl("flush")
        if h.file()[0] - first[0] > first[0]:
            problems.append(f"{h.file()[0]} bytes after 30 refusals with 300 calls, {first[0]} bytes with 9000 before")
        time.sleep(0.1)
        second = h.file()
        h.tell("some(1000)")
        time.sleep(0.2)
        problems += [] if h.file() == second else ["the file is written without having been asked for"]
        kill(h.process, group=True)
        return problems + h.judge()


@case("the exit writes it, and nothing is left in memory")
def _():
    needs_disk()
    with Host() as h:
        h.tell("some(5000)")
        h.link = h.target()
        problems = [] if h.link and os.path.exists(h.link) else [f"the journal is {h.link}"]
        status = h.end()
        problems += [] if status == 0 and not said(h.where) else [f"status {status}: {said(h.where)}"]
        if '"clean_end":true' not in report("info", "--json", h.path).stdout.replace(" ", ""):
            problems.append("no clean end")
        return problems + h.judge() + gone(h)


@case("an exit on a full disk leaves it in memory")
def _():
    problems = []
    for after in sample((0, 10, 100), 2):
        faults = {"FAULT_CALLS": "pwrite", "FAULT_ERRNO": 28, "FAULT_AFTER": after}
        with Host(before=[os.path.join(BUILD, "tests/recorder/libfaults.so")], **faults) as h:
            h.tell("some(5000); take(1 << 50)")
            for _ in range(5):
                h.tell("some(1000)")
            status = h.end()
            if status or (not after and not os.path.exists(h.path + ".journal")):
                problems.append(f"status {status}; the journal is {h.target()}")
            problems += [f"after {after} writes: {p}" for p in h.judge()]
    return problems


# ---- what a killed process leaves -------------------------------------------------------------------

@case("a seal puts what was in memory into the file, and removes journal and link")
def _():
    problems = []
    for flush in (False, True):
        with Host() as h:
            h.tell("some(4000)")
            if flush:
                h.ctl("flush")
                h.tell("some(2000)")
            time.sleep(0.1)
            kill(h.process, group=True)
            h.link = h.target()
            said_ = report("dump", "--json", "--sysroot=/nowhere", h.path).stdout
            problems += h.judge()
            other = os.path.join(h.where, "other.zst")
            for how in (["-o", other], ["--seal"]):
                r = report("copy", *how, h.path)
                problems += [] if r.returncode == 0 else [f"copy {how}: {r.stderr}"]
            problems += gone(h) + h.judge() + accepted(other)
            problems += [f"{p} says something else" for p in (h.path, other)
                         if report("dump", "--json", "--sysroot=/nowhere", p).stdout != said_]
    return problems


@case("beside a trace that lies in memory itself there is no link")
def _():
    with Mounted("size=64m") as place, Host(place=place) as h:
        h.tell("some(5000)")
        h.link = None
        problems = [] if h.target() is None and os.path.isfile(h.path + ".journal") else ["there is a link"]
        problems += [] if h.file()[0] == 0 and h.in_memory()[1] == 32 else [f"{h.file()}, {h.in_memory()}"]
        kill(h.process, group=True)
        problems += h.judge()
        return problems + ([] if report("copy", "--seal", h.path).returncode == 0 else ["seal"]) + h.judge() + gone(h)


for _kind in ("exit-of-thread", "exit-in-callback", "exit-in-crowd", "_exit-in-crowd", "abort-in-crowd", "calls-at-exit",
              "crash-in-driver", "main-leaving"):
    def _ends(kind=_kind):
        where, _ = run(program("exit_kinds"), kind, 0, env={**HERE_MEMORY, "CUTRACE_QUIET": "1"})
        problems = whole(where, killed=True) + ([f"on stderr: {said(where)[:300]}"] if said(where) else [])
        remove(where)
        return problems
    case(f"a program that ends by {_kind}")(_ends)


@case("a child has its own, its parent's stays")
def _():
    where, status = run(program("fork_kinds"), "fork", env=HERE_MEMORY)
    problems = [] if status == 0 and len(traces(where)) == 2 else [f"status {status}, {traces(where)}"]
    problems += whole(where, killed=True)
    remove(where)
    return problems


@case("CUTRACE_KEEP removes what is in memory, too")
def _():
    needs_disk()
    where, earlier = folder(), set(os.listdir("/dev/shm"))
    for i in range(6):
        env = {**HERE_MEMORY, "CUTRACE_KEEP": "2"}
        p = start(where, program("worker"), 1, 0, 64, 0, i, env=env)
        wait_for_calls(where, p, calls_so_far(where) + 500)
        kill(p, group=True)
    left = {os.readlink(j): os.path.exists(j) for j in journals(where).values()}
    mine = [f for f in set(os.listdir("/dev/shm")) - earlier if re.match(r"cutrace-\d+-\d+-", f) and
            int(f.split("-")[2]) in ledgers(where)]
    problems = [] if len(traces(where)) == len(left) == len(mine) == 2 and all(left.values()) else [
        f"{len(traces(where))} traces, {left}, in memory: {mine}"]
    gone_one = sorted(journals(where).values())[0]
    os.unlink(os.readlink(gone_one))  # the machine has started again
    p = start(where, program("worker"), 1, 0, 64, 100, env={**HERE_MEMORY, "CUTRACE_KEEP": "1"})
    p.wait(HANG)
    problems += [] if len(traces(where)) == 1 and not os.path.lexists(gone_one) else [f"left: {os.listdir(where)}"]
    remove(where)
    return problems


@case("while it goes round, the report has it whole")
def _():
    problems, looks, events = [], 0, 0
    where = folder()
    env = {**HERE_MEMORY, "CUTRACE_MAX_SIZE": "1M", "WORKER_REFUSALS": "0", "CUTRACE_QUIET": "1"}
    p = start(where, program("worker"), 2, 0, 64, 0, env=env)
    try:
        wait_for_calls(where, p, 1000)
        (path,) = traces(where).values()
        end = time.monotonic() + HANG
        while looks < 10 or events < 300000:
            if time.monotonic() > end:
                raise TimeoutError("it does not go round")
            r = report("info", "--json", path)
            if "faster than it can be read" in r.stderr:
                continue
            found = json.loads(r.stdout or "{}")
            looks += 1
            if r.returncode or r.stderr or not found["integrity"]["ok"] or found["integrity"]["damage"] or found["missing_chunks"]:
                problems.append(f"look {looks}: exit {r.returncode}: {r.stderr}{found}")
            events = max(events, found.get("events", 0) + found.get("overwritten_events", 0))
    finally:
        kill(p, group=True)
        remove(where)
    return problems[:5]


# ---- little memory ----------------------------------------------------------------------------------

def small(size, action):
    """`action` with a /dev/shm of that size."""
    if os.environ.get("DEATH_NAMESPACE") != "2":
        raise Skip("no mount namespace of its own")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", "/dev/shm"], check=True)
    try:
        return action()
    finally:
        subprocess.run(["umount", "-l", "/dev/shm"], check=True)


def told(h, words):
    """On stderr, in one line, and in the trace."""
    lines = [line for line in said(h.where).splitlines() if " out of memory: " not in line]
    notes = [n for n in h.notes() if "CUTRACE_MEMORY" in n]
    if words is None:
        return [] if not lines and not notes else [f"said: {lines}, notes: {notes}"]
    return [] if len(lines) == len(notes) == 1 and words in lines[0] and words in notes[0] else [
        f"said: {lines}, notes: {notes}, not once {words!r}"]


for _size, _kept, _words in sample((("600m", 256, None), ("64m", 32, "keeps 32 MiB, not 256"), ("20m", 8, "keeps 8 MiB"),
                             ("12m", None, "not in force"), ("4k", None, "not in force")), 2):
    def _little(size=_size, kept=_kept, words=_words):
        def action():
            with Host() as h:
                h.tell("some(5000)")
                problems = []
                if kept is None:
                    h.wait(lambda: h.file()[0] > 1000, "the file is written as without it")
                    problems += [] if h.target() is None else ["there is a link"]
                elif not h.in_memory() or h.in_memory()[1] != kept or h.file()[0]:
                    problems.append(f"in memory: {h.in_memory()}, not {kept} MiB; the file: {h.file()}")
                h.tell("some(5000)")
                if words:  # the writer says it when it comes to it
                    h.wait(lambda: not told(h, words), f"said: {words}")
                else:
                    problems += told(h, words)
                kill(h.process, group=True)
                return problems + h.judge()
        return small(size, action)
    case(f"a /dev/shm of {_size}: {_words or 'enough'}")(_little)


@case("/dev/shm becomes full later: what was in memory is written, and it goes on with what it has")
def _():
    def action():
        env = {**HERE_MEMORY, "WORKER_REFUSALS": "0", "CUTRACE_FREE_STACKS": "1", "CUTRACE_TICK_NS": "1",
               "CUTRACE_MAX_SIZE": "12M", "SIM_LEDGER_MAP": None}  # (too many calls to compare them one by one)
        where = folder()
        p = start(where, program("worker"), 1, 0, 4000, 0, env=env)
        # (the shelf's first 8 MiB)
        wait_until(lambda: sum(f.stat().st_blocks for f in os.scandir("/dev/shm")) * 512 > 10 << 20, p, pause=0, where=where)
        with open("/dev/shm/filler", "wb", buffering=0) as f:
            try:
                while f.write(b"x" * (1 << 16)):
                    pass
            except OSError:
                pass
        (path,) = traces(where).values()
        wait_until(lambda: os.path.getsize(path), p)
        wait_until(lambda: "from now on" in said(where), p)
        kill(p, group=True)
        lines = said(where).splitlines()
        problems = [] if len(lines) == 1 and "from now on" in lines[0] else [f"said: {lines}"]
        found = json.loads(report("info", "--json", path).stdout)
        whole = found["integrity"]
        # (A fast machine overwrites the oldest meanwhile; the kill may meet an event that is being recorded; a ring may become
        # full while a slow disk takes what was in memory. All that was in memory is half a million events.)
        all_there = (found["wrapped"] or whole["complete"] or
                     (found["torn_events"] or whole["lost_events"]) and whole["lost_events"] < 100000)
        if not whole["ok"] or whole["missing_events"] or not all_there or found["events"] < 500000:
            problems.append(f"{found}")
        r = report("copy", "--seal", path)
        return problems + accepted(path) + ([r.stderr] if r.returncode else [])
    return small("80m", action)


# ---- links that lead elsewhere ----------------------------------------------------------------------

@case("links that lead nowhere, or to what is no journal: a line, no hang, and nothing is removed")
def _():
    needs_disk()
    problems = []
    with Host() as h:
        h.tell("some(1000)")
        h.ctl("flush")
        h.tell("some(1000)")
        kill(h.process, group=True)
        link, real = h.path + ".journal", h.target()
        os.mkfifo(os.path.join(h.where, "fifo"))
        with open(os.path.join(h.where, "text"), "w", encoding="ascii") as f:
            f.write("x" * 100000)
        targets = ["/nowhere", "/dev/zero", "/dev/null", "/dev/tty", "fifo", "text", ".", "trace.zst", "trace.zst.journal",
                   "/dev/shm/cutrace-0-1-0000000000000000.journal", real + ".journal", "/dev/shm/cutrace-x/../../etc/passwd"]
        for target in targets:
            os.unlink(link)
            os.symlink(target, link)
            for command in (["info"], ["dump"], ["copy", "--seal"]):
                r = report(*command, h.path)
                want = (3,) if "--seal" in command else (4,)
                if r.returncode not in want or r.stderr.count("\n") != 1 or "trace.zst.journal" not in r.stderr + target:
                    problems.append(f"{command} with {target}: exit {r.returncode}: {r.stderr[:300]}")
            r = subprocess.run([CUTRACE, "ctl", h.path, "status"], capture_output=True, text=True, timeout=HANG)
            if r.returncode not in (3, 5) or r.stderr.count("\n") != 1:
                problems.append(f"ctl with {target}: exit {r.returncode}: {r.stderr[:300]}")
            if not os.path.lexists(link):
                problems.append(f"{target}: the link is gone")
                os.symlink(target, link)
        if not os.path.exists(os.path.join(h.where, "text")) or not os.path.exists(real):
            problems.append("something was removed")
        os.unlink(link)
        os.symlink(real, link)
        return problems + h.judge()


@case("without it, nothing is put into /dev/shm")
def _():
    def action():
        where, _ = run(program("worker"), 1, 0, 64, 5000)
        return whole(where) + [f"there is {f}" for f in os.listdir("/dev/shm")]
    return small("64m", action)


if os.environ.get("DEATH_NAMESPACE") != "2" and not subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
    os.environ["DEATH_NAMESPACE"] = "2"  # there it may mount
    os.execvp("unshare", ["unshare", "-rm", "python3", *sys.argv])
end()
