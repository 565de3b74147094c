#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host notices nothing: programs that do what servers and daemons do find the same of themselves with the library as
without it: results, output, exit status, files, descriptors, locks, limits, timers, signals. What is recorded is their ledger."""
import collections
import errno
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import death  # noqa: E402
import ways  # noqa: E402
from tap import FULL, Skip, case, dice, main, repeat  # noqa: E402

# The library's own mappings (its segments, journal, tables, three stacks, NVML). Beside them each thread that calls the
# driver has a ring; those of threads that have ended are used again.
MAPPINGS, MAPPINGS_OF_A_THREAD = 60, 3
STUCK = 60  # seconds, for what ends in one without the library
OURS = re.compile(r"(trace|ledger)\.|out$|err$|state$")
# The driver's memory is not there and its ledger is small, for mlockall. Without a ledger: it takes a free descriptor, too.
DRIVER = {"SIM_BACKED": "0", "SIM_LEDGER_MAP_MB": "16", "CUTRACE_QUIET": None}
NO_LEDGER = {"SIM_LEDGER_MAP": None}
# Where the library opens its files: in a descriptor table of its own, or where a filter refuses that, beside the host's.
WAYS = {"": (), ", where the library has no table of its own": (
    os.path.join(ways.BUILD, "tests/recorder/with_syscall_denied"), "close_range", str(errno.EPERM))}
KEPT_OPEN = re.compile(r"^descriptor \d{3,} \./trace\..*\n", re.M)
IS_ROOT = os.geteuid() == 0


class Run:
    """What a program left behind: `left` is what must be the same, by its name; the rest is the library's."""

    def __init__(self, command, preload, closed=(), env=None, way=()):
        self.where = ways.folder()
        try:
            self.rc = death.run(*way, *command, where=self.where, hang=STUCK, preload=preload, env={**DRIVER, **(env or {})},
                                preexec_fn=lambda: [os.close(fd) for fd in closed])[1]
        except TimeoutError:
            self.rc = None
        state = self.read("state")
        if way:
            state = KEPT_OPEN.sub("", state)
        self.mappings = [int(n) for n in re.findall(r"^mappings (\d+)$", state, re.M)]
        self.left = {"exit status": "it does not end" if self.rc is None else self.rc, "stdout": self.read("out"),
                     "stderr": self.said(), "state": re.sub(r"^mappings .*\n", "", state, flags=re.M)}
        self.left.update({f: self.read(f) for f in os.listdir(self.where) if not OURS.match(f)})

    def read(self, name):
        """The text of a file, without what differs from run to run: numbers of processes and pipes, how much is on stderr by
        now, and the C library's own two signals: handled where there are threads, and ignored in children of posix_spawn (make)."""
        path = os.path.join(self.where, name)
        if not os.path.isfile(path):
            return ""
        text = death.said(self.where, name).replace(self.where, ".")
        text = re.sub(r"(?<=pipe:)\[\d+\]|(?<=socket:)\[\d+\]|(?<=/proc/)\d+|(?<=pid\.)\d+|(?<=ledger\.)\d+", "N", text)
        text = re.sub(r"(/err .*) offset \d+", r"\1", text)
        return re.sub(r"(Sig(?:Cgt|Ign):\s*)(\w+)", lambda m: f"{m.group(1)}{int(m.group(2), 16) & ~(3 << 31):x}", text)

    def said(self):
        return "".join(line for line in self.read("err").splitlines(True) if " out of memory: " not in line)


def lines_that_differ(name, without, with_):
    if not with_:
        return [f"{name}: nothing with the library"]
    a, b = (collections.Counter(str(text).splitlines()) for text in (without, with_))
    return [f"{name}: {line}  (only without the library)" for line in a - b] + [
        f"{name}: {line}  (only with it)" for line in b - a] or [f"{name}: the order differs"]


def differences(plain, run, threads=0):
    """What the host can tell apart; `threads` is how many call the driver at a time."""
    problems = []
    for name in sorted(set(plain.left) | set(run.left)):
        if plain.left.get(name) != run.left.get(name):
            problems += lines_that_differ(name, plain.left.get(name, "no file"), run.left.get(name, "no file"))
    more = MAPPINGS + MAPPINGS_OF_A_THREAD * threads
    problems += [f"{b - a} mappings more than without the library, not {more} at most"
                 for a, b in zip(plain.mappings, run.mappings) if b - a > more]
    return problems + (["it does not end without the library either"] if plain.rc is None else [])


def recorded(run, trace):
    """Whether the traces are as they should be: "whole", also of a "killed" process, "readable" or whatever they are, "any"."""
    if trace in ("whole", "killed"):
        return death.whole(run.where, killed=trace == "killed")
    found = death.traces(run.where).values() if trace == "readable" else [None]
    return [p for path in found if path for p in death.accepted(path)] + ([] if found else ["there is no trace"])


def compared(command, threads=20, trace="whole", **kw):
    plain, run = (Run([ways.program(command[0]), *command[1:]], preload, **kw) for preload in (False, True))
    return differences(plain, run, threads) + recorded(run, trace)


def noticed(name, *command, needs_root=False, **kw):
    """A case: the program finds the same with the library and without it, and the trace is its ledger."""
    @case(name)
    def _():
        if needs_root and not IS_ROOT:
            raise Skip("this user may change neither the root folder nor its own number")
        return repeat(lambda: compared(command, **kw), lambda problems: not death.judge.has_losses(problems))


# ---- descriptors --------------------------------------------------------------------------------

for closed, they in (((1,), "stdout is"), ((1, 2), "stdout and stderr are"), ((0, 1, 2), "all standard descriptors are")):
    for name, way in WAYS.items():
        noticed(f"{they} closed from the start, and a thread prints all the same{name}", "host", "prints-nowhere",
                trace="readable", closed=closed, env=NO_LEDGER, way=way)
noticed("locks on its own executable, the driver's library and files of /proc are held on", "host", "locks")
noticed("the descriptor that was stderr is a database: no line lands in it", "host", "opens-database")
noticed("threads with descriptor tables of their own: none has a descriptor more", "host", "own-tables", trace="readable",
        env={"CUTRACE_FLUSH_MS": "10", "CUTRACE_UPDATE_MS": "0"})  # (who drains writes)
noticed("no descriptor is free: there is a trace all the same", "host", "fills-table", "0", trace="readable", env=NO_LEDGER)
noticed("one descriptor is free: it stays the host's, and everything is recorded", "host", "fills-table", "1")
noticed("whoever reads from a pipe or socket sees that its last writer has closed", "host", "closes-pipes")


@case("a daemon that closes descriptors in bulk and opens files: each has the number that it has without the library")
def closes_and_opens():
    rng, problems = dice(), []
    for n in range(2000 if FULL else 40):
        command = [ways.program("host"), "closes-and-opens", str(rng.randrange(300))]
        if not n:
            plain = Run(command, False)
        run = Run(command, True)
        found = differences(plain, run) + recorded(run, "whole" if n < 3 else "readable")
        problems += [f"round {n}, after {command[2]} pairs: {p}" for p in found]
        death.remove(run.where)
    return problems


def watched(closed, way):
    """Problems of what the library does to the host's descriptors. Without a table of its own it may, but to no standard one."""
    command = [ways.program("watch_files"), "opened", ways.program("host"), "opens-nothing"]
    plain, run = (Run(command, preload, closed=closed, way=way) for preload in (False, True))
    if plain.rc == 77:
        raise Skip("no system call can be watched here")
    if way:
        for r in (plain, run):
            r.left["opened"] = "".join(line for line in r.left["opened"].splitlines(True)
                                       if line[1:5] == " is " and line[5:].strip() != "/")  # (an O_PATH descriptor)
    return differences(plain, run) + recorded(run, "whole") + ([] if plain.read("opened") else ["nothing was watched"])


for name, way in WAYS.items():
    case("no call of the driver opens or closes a descriptor where the host has its own; standard descriptors stay closed" + name)(
        lambda way=way: [f"closed {closed}: {p}" for closed in ((), (1, 2)) for p in watched(closed, way)])

# ---- the process --------------------------------------------------------------------------------

noticed("limits, timers, signals, masks, names, folder and umask of the process stay its own", "host", "has-settings")
noticed("children by fork, vfork, system and posix_spawn find what they find without the library", "host", "starts-children")
noticed("a program that becomes another one by exec leaves it no descriptor", "host", "becomes-another", trace="readable")
noticed("daemon(3)", "host", "daemonises")
for how in ("", "root", "user", "files"):
    after = {"": "", "root": " after chroot", "user": " after setuid", "files": " after it has closed all descriptors"}[how]
    noticed(f"the main thread leaves{after}, and the last worker ends the process", "host", "main-leaves", how,
            trace="killed" if how == "user" else "whole", needs_root=how in ("root", "user"))  # (it may not remove the journal)
noticed("the driver is opened and closed many times", "reopens_driver")

# ---- threads, stacks, code and memory -----------------------------------------------------------

noticed("1,000 short-lived threads", "host", "short-threads")
for which in ("first", "many", "refused", "exit"):
    noticed(f"stacks of 16 KiB: {which}", "host", "small-stacks", which)
for which in ("many", "refused"):
    noticed(f"threads with a pending cancellation: {which}", "host", "cancelled-threads", which)
noticed("coroutines that any thread resumes", "host", "has-coroutines")
noticed("code without unwinding information, with wild frame pointers", "host", "jit-code")
noticed("5,000 mappings", "host", "many-mappings")
noticed("mlockall", "host", "locks-memory")
noticed("somebody punches holes into the files of the library", "host", "has-holes-punched", trace="any")

main()
