#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace run: what it says of the traces of its run, and that the program cannot tell it from one that took its place."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from tap import Skip, case, check, equal, read_json  # noqa: E402

CUTRACE = os.path.join(BUILD, "cutrace")
DEMO = os.path.join(BUILD, "tests/demo/demo")
SOME_CALLS = f"{program('worker')} 1 0 64 100"
NO_TRACE = "cutrace: no trace: "


def settings(where, **env):
    return environment(where, preload=False, env={"CUTRACE_QUIET": None, "WORKER_REFUSALS": "0", "SIM_MEM_MB": "24576",
                                                  "TMPDIR": where, **env})


def under(*command, where=None, cutrace=CUTRACE, options=(), **env):
    """Runs a command under cutrace run. Returns the folder, the exit status and the lines after those of the beginning."""
    where = where or folder()
    with open(os.path.join(where, "err"), "wb") as err:
        done = subprocess.run([cutrace, "run", *options, "--", *command], env=settings(where, **env), cwd=where, stderr=err,
                              stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=HANG, check=False)
    lines = [line for line in said(where).splitlines() if not line.startswith("cutrace: writing ")]
    return where, done.returncode, [line for line in lines if line.startswith("cutrace: ") and " out of memory: " not in line]


def events_of(path):
    done = subprocess.run([REPORT, "dump", "--json", path], capture_output=True, text=True, check=False)
    return len(done.stdout.splitlines())


def line_of(path, end):
    """What is said of a trace, made from the file and from another view."""
    n = events_of(path)
    size = os.path.getsize(path)
    hundredths = (size * 100 + 512) // 1024  # halves are rounded up: a size of 4736 bytes is 4.63 KiB
    shown = f"{hundredths // 100}.{hundredths % 100:02} KiB" if size >= 1024 else f"{size} B"
    return f"cutrace: {path}: {shown}, {n} event{'s' * (n != 1)}, {end}"


def python(text):
    return sys.executable, "-u", "-c", text


@case("one line for each trace of the run: path, size, events and how the process ended; no others of the folder")
def lines():
    where, status, _ = under("sh", "-c", SOME_CALLS)
    old = set(traces(where))
    equal((status, len(old)), (0, 1))
    where, status, said_lines = under("sh", "-c", f"{SOME_CALLS}; {SOME_CALLS}; exit 0", where=where)
    new = {pid: path for pid, path in traces(where).items() if pid not in old}
    equal((status, len(new)), (0, 2))
    equal(sorted(said_lines), sorted(line_of(path, "exited") for path in new.values()))
    where, status, said_lines = under("sh", "-c", f"exec {SOME_CALLS}")
    equal(said_lines, [line_of(path, "exit code 0") for path in traces(where).values()])


@case("traces are found whatever the pattern is, and with a process in another folder")
def patterns():
    where = folder()
    os.mkdir(os.path.join(where, "in"))
    pattern = os.path.join(where, "a b/%q{KIND}-%n.%h.zst")
    _, status, said_lines = under("sh", "-c", f"KIND=x {SOME_CALLS}; cd in; KIND=y {SOME_CALLS}", where=where, CUTRACE_OUTPUT=pattern)
    found = sorted(os.path.join(where, "a b", n) for n in os.listdir(os.path.join(where, "a b")))
    equal((status, len(found)), (0, 2))
    equal(sorted(said_lines), sorted(line_of(path, "exited") for path in found))


def change_of(*paths):
    """The line of cutrace-report's first screen that says what to change."""
    done = subprocess.run([REPORT, *paths], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "1000"})
    (found,) = re.findall(r"^  change +(.*)$", done.stdout, re.M)
    return "cutrace: change " + found


@case("the verdict's sentence when memory ran out, as cutrace-report says it, of one trace and of two")
def verdict():
    where, status, said_lines = under(DEMO)
    (path,) = traces(where).values()
    first = json.loads(read_json("summary", path))["verdicts"][0]
    equal(status, 3)
    equal(said_lines, [line_of(path, "exit code 3"),
                       f"cutrace: verdict {first['scenario']}, {first['sureness']}: {first['summary']}",
                       change_of(path), f"cutrace: the evidence: cutrace-report {path}"])
    where, status, said_lines = under("sh", "-c", f"{SOME_CALLS}; {DEMO}; exit 0")
    paths = [re.match(r"cutrace: (.*?\.zst): ", line)[1] for line in said_lines[:2]]
    equal((status, sorted(paths)), (0, sorted(traces(where).values())))
    first = json.loads(read_json("summary", *paths))["processes"]["verdicts"][0]
    check(first["scenario"] != "none", first)
    equal(said_lines[2:], [f"cutrace: verdict {first['scenario']}, {first['sureness']}: {first['summary']}",
                           change_of(*paths), "cutrace: the evidence: cutrace-report " + " ".join(paths)])


@case("a failure that is none of GPU memory: the verdict says that no request failed")
def other_failure():
    where, status, said_lines = under("sh", "-c", f"{SOME_CALLS}; exit 3")
    first = json.loads(read_json("summary", *traces(where).values()))["verdicts"][0]
    equal((status, first["scenario"]), (3, "none"))
    check(said_lines[1].endswith(first["summary"]), said_lines)


@case("a process that was killed, and one that still runs, are called so; the program's own signal is named")
def ends():
    worker = program("worker")
    where, status, said_lines = under("sh", "-c", f"exec {sys.executable} -c 'import os, signal, subprocess as s, time\n"
                                      f"p = s.Popen([\"{worker}\", \"1\", \"0\", \"64\", \"100\"], stdin=s.PIPE, stdout=s.PIPE)\n"
                                      "p.stdout.readline(); p.kill(); p.wait()'", WORKER_PAUSE="1")
    equal((status, len(said_lines)), (0, 1), said_lines)
    check("killed, crashed, or it executed another program" in said_lines[0], said_lines)
    where, status, said_lines = under("sh", "-c", f"mkfifo in out; {SOME_CALLS} <>in >out & read line <out", WORKER_PAUSE="1")
    pids = list(traces(where))
    equal((status, len(said_lines)), (0, 1), said_lines)
    check("still running" in said_lines[0], said_lines)
    os.kill(pids[0], signal.SIGKILL)
    where, status, said_lines = under("sh", "-c", f"exec {sys.executable} -c 'import os, sys\n"
                                      f"import ctypes; c = ctypes.CDLL(\"libcuda.so.1\"); c.cuInit(0)\n"
                                      "x = ctypes.c_void_p(); c.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0); c.cuCtxSetCurrent(x)\n"
                                      "p = ctypes.c_uint64(); c.cuMemAlloc_v2(ctypes.byref(p), 4096)\nos.kill(os.getpid(), 9)'")
    equal(status, -9)
    check("ended by SIGKILL" in said_lines[0], said_lines)


@case("a run without a trace says so; --quiet and CUTRACE_QUIET=1 say nothing; no file is left")
def nothing():
    where, status, said_lines = under("true")
    equal((status, len(said_lines), said_lines[0].startswith(NO_TRACE)), (0, 1, True))
    for options, env in ((["--quiet"], {}), (["-q"], {}), ([], {"CUTRACE_QUIET": "yes"})):
        where, status, said_lines = under("sh", "-c", f"{SOME_CALLS}; exit 4", options=options, **env)
        equal((status, said(where), len(traces(where))), (4, "", 1))
    equal([n for n in os.listdir(where) if n.startswith("cutrace-run")], [])
    gone = os.path.join(where, "gone")
    run(program("worker"), "1", "0", "64", "100", where=where, env={"CUTRACE_TRACE_LIST": gone})
    check(not os.path.exists(gone), "the recorder made a list that nobody reads")


@case("without cutrace-report: the path, and what reads it; a report that does not end can be interrupted")
def no_report():
    where = folder()
    place = os.path.join(where, "with'quote")
    os.mkdir(place)
    for name in ("cutrace", "libcutrace.so"):
        shutil.copy(os.path.join(BUILD, name), place)
    own = os.path.join(place, "cutrace")
    pattern = os.path.join(place, "t.%p.zst")
    _, status, said_lines = under("sh", "-c", f"{SOME_CALLS}; exit 7", where=where, cutrace=own, CUTRACE_OUTPUT=pattern)
    equal((status, len(said_lines)), (7, 1))
    check(said_lines[0].endswith("t.%s.zst'" % re.search(r"t\.(\d+)", said_lines[0])[1]), said_lines)
    check("read it with: cutrace-report '" + where + "/with'\\''quote/" in said_lines[0], said_lines)
    stuck = os.path.join(place, "cutrace-report")
    with open(stuck, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\ntouch {where}/begun\nexec sleep 1000\n")
    os.chmod(stuck, 0o755)
    with open(os.path.join(where, "err"), "wb") as err:
        p = subprocess.Popen([own, "run", "sh", "-c", f"{SOME_CALLS}; exit 7"], env=settings(where, CUTRACE_OUTPUT=pattern),
                             cwd=where, stderr=err, stdout=subprocess.DEVNULL)
    wait_until(lambda: os.path.exists(os.path.join(where, "begun")))
    p.terminate()
    equal(p.wait(HANG), 7)
    check("read it with: cutrace-report" in said(where), said(where))


# The programs below block the signals and wait for them. With Python's handlers and pause(), a signal that arrives between the
# interpreter's look at its flags and pause() itself is heard only after the next one.

# Writes the names of the signals that it gets, one a line.
CATCHER = """
import os, signal
caught = [getattr(signal, "SIG" + name) for name in "HUP INT QUIT TERM USR1 USR2 WINCH CONT ALRM".split()]
signal.pthread_sigmask(signal.SIG_BLOCK, caught)
os.write(1, b"ready\\n")
while True:
    os.write(1, (signal.Signals(signal.sigwait(caught)).name + "\\n").encode())
"""


@case("each signal for cutrace reaches the program once; SIGKILL for cutrace ends the program, too")
def signals():
    where = folder()
    p = subprocess.Popen([CUTRACE, "run", *python(CATCHER)], env=settings(where), cwd=where, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
    equal(p.stdout.readline(), "ready\n")
    for name in "SIGHUP SIGINT SIGQUIT SIGTERM SIGUSR1 SIGUSR2 SIGWINCH SIGCONT SIGALRM".split():
        os.kill(p.pid, getattr(signal, name))
        equal(p.stdout.readline(), name + "\n")
    p.kill()
    equal((p.stdout.read(), p.wait()), ("", -9))  # (the end of the pipe: the program is gone)


@case("a signal that the program sends to its parent does not come back to it")
def own_signal():
    code = ("import os, signal\nboth = signal.SIGUSR1, signal.SIGUSR2\nsignal.pthread_sigmask(signal.SIG_BLOCK, both)\n"
            "os.kill(os.getppid(), signal.SIGUSR1)\nos.write(1, b'sent\\n')\nprint(signal.Signals(signal.sigwait(both)).name)")
    p = subprocess.Popen([CUTRACE, "run", "-q", *python(code)], env=settings(folder()), stdout=subprocess.PIPE, text=True)
    equal(p.stdout.readline(), "sent\n")
    os.kill(p.pid, signal.SIGUSR2)  # (cutrace takes the lower number first, if both are there)
    equal((p.stdout.read(), p.wait()), ("SIGUSR2\n", 0))


@case("as the first process of a container: an orphan's end is not the program's")
def orphans():
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        raise Skip("no process namespace of its own")
    where = folder()
    orphan = "(while [ ! -e go ]; do :; done; exit 3) >/dev/null 2>&1 & echo $!"
    script = f"p=$(sh -c '{orphan}'); : >go; while kill -0 $p 2>/dev/null; do :; done; exit 7"
    equal(subprocess.run([*inside, CUTRACE, "run", "-q", "sh", "-c", script], env=settings(where), cwd=where, check=False).returncode, 7)


@case("the program's view: group, session, terminal, open files, signals and environment are as without cutrace")
def view():
    look = ("import json, os, signal; e = dict(os.environ); s = open('/proc/self/status').read()\n"
            "print(json.dumps([os.getpgid(0) == os.getppid(), os.getsid(0), sorted(os.listdir('/proc/self/fd')),"
            " [l for l in s.splitlines() if l.startswith(('SigBlk', 'SigIgn', 'SigCgt', 'Shd', 'Groups', 'Cap', 'NoNew'))],"
            " sorted(k for k in e), os.getcwd(), os.readlink('/proc/self/fd/0')]))")

    def ask(*before):
        def odd():
            os.setpgid(0, 0)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        out = subprocess.run([*before, *python(look)], env=settings(folder()), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             stdin=subprocess.DEVNULL, preexec_fn=odd, check=False).stdout
        return json.loads(out)

    plain, ours = ask(), ask(CUTRACE, "run")
    equal(ours[0], True, "the program is in cutrace's group")
    equal(set(ours[4]) - set(plain[4]), {"CUTRACE_ANNOUNCE", "CUTRACE_TRACE_LIST", "LD_PRELOAD", "NVTX_INJECTION64_PATH"})
    equal(ours[1:4] + ours[5:], plain[1:4] + plain[5:])


@case("a parent that ignores SIGCHLD still gets the exit code")
def ignored_children():
    done = subprocess.run([CUTRACE, "run", "-q", "sh", "-c", "exit 9"], env=settings(folder()), check=False,
                          preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    equal(done.returncode, 9)


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, where, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(where)
            mode = termios.tcgetattr(0)
            mode[3] &= ~termios.ECHO
            termios.tcsetattr(0, termios.TCSANOW, mode)
            os.execvpe(command[0], command, {**settings(where), "PS1": "", "TERM": "dumb"})
        self.text = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, word):
        """Reads until a line is this word, to its end: a terminal that is closed before fails the program's write. Returns the
        lines before it."""
        while not re.search(rf"^{word}\r?\n", self.text, re.M):
            if not select.select([self.fd], [], [], HANG)[0]:
                raise TimeoutError(f"{word} did not come; the terminal has {self.text!r}")
            try:
                self.text += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"{word} did not come; the terminal has {self.text!r}") from None
        before, self.text = re.split(rf"^{word}\r?\n", self.text, 1, re.M)
        return before

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(c) for c in f.read().split()]


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def with_race(name):
    return {"RACE": name, "LD_PRELOAD": os.path.join(BUILD, "tests/recorder/libsupervise_races.so")}


@case("cutrace that is killed before the program's process has asked for a signal at its end leaves no program behind")
def orphan_race():
    where = folder()
    for code, race in ((0, "none"), (-9, "orphan")):
        p = subprocess.Popen([CUTRACE, "run", "-q", *python("print('runs', flush=True)")], env=settings(where, **with_race(race)), cwd=where,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        equal((p.stdout.read(), p.wait()), ("runs\n" if race == "none" else "", code), race)


# Says what it is told by a line of its standard input, and stops when that is "stop". A thread of its own says its signals.
STOPPER = """
import os, signal, sys, threading
said = signal.SIGCONT, signal.SIGWINCH
signal.pthread_sigmask(signal.SIG_BLOCK, said)
def say_signals():
    while True:
        os.write(1, signal.Signals(signal.sigwait(said)).name.encode() + b"\\n")
threading.Thread(target=say_signals, daemon=True).start()
os.write(1, b"ready\\n")
for line in sys.stdin:
    if line == "stop\\n":
        os.kill(os.getpid(), signal.SIGTSTP)
    os.write(1, line.encode())
sys.exit(7)
"""


def stopper(**env):
    """The launcher, and the program below it, in a group of their own: one whose leader's parent is not in it can be stopped."""
    where = folder()
    p = subprocess.Popen([CUTRACE, "run", "-q", *python(STOPPER)], env=settings(where, **env), cwd=where, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1, preexec_fn=lambda: os.setpgid(0, 0))
    equal(p.stdout.readline(), "ready\n")
    return p, *children_of(p.pid)


def is_stopped(pid):
    """Each of its threads: one that still runs would take a signal that is pending."""
    return all(state_of(int(thread)) == "T" for thread in os.listdir(f"/proc/{pid}/task"))


def is_pending(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        (mask,) = re.findall(r"^ShdPnd:\s*(\w+)", f.read(), re.M)
    return int(mask, 16) >> (number - 1) & 1


def ends(p):
    p.stdin.close()
    equal((p.stdout.read(), p.wait(HANG)), ("", 7))


@case("a program that runs again before cutrace hears that it had stopped: cutrace does not stop")
def continued_race():
    p, _ = stopper(**with_race("continued"))
    p.stdin.write("stop\n")
    equal(sorted(p.stdout.readline() for _ in range(2)), ["SIGCONT\n", "stop\n"])
    ends(p)  # (a cutrace that had stopped would not end)


@case("SIGTSTP for cutrace alone stops both, SIGCONT for it continues both; SIGSTOP for the program stops the program alone")
def stop_signals():
    p, child = stopper()
    os.kill(p.pid, signal.SIGTSTP)
    wait_until(lambda: state_of(child) == state_of(p.pid) == "T")
    os.kill(p.pid, signal.SIGCONT)
    equal(p.stdout.readline(), "SIGCONT\n")
    wait_until(lambda: state_of(p.pid) != "T")
    os.kill(child, signal.SIGSTOP)
    wait_until(lambda: is_stopped(child))
    os.kill(p.pid, signal.SIGWINCH)  # (taken behind SIGCHLD; passed on by a cutrace that runs alone)
    wait_until(lambda: is_pending(child, signal.SIGWINCH))
    check(state_of(p.pid) != "T")
    os.kill(child, signal.SIGCONT)
    equal(sorted(p.stdout.readline() for _ in range(2)), ["SIGCONT\n", "SIGWINCH\n"])
    ends(p)


@case("in a shell: a program in the background that reads the terminal stops with cutrace; fg gives it the line")
def background_read():
    t = Terminal(folder(), "bash", "--norc", "--noprofile", "-i")
    try:
        t.type("stty -echo; echo begun\n")
        t.expect("begun")
        t.type(f"{CUTRACE} run -q {sys.executable} -c 'print(input()[::-1])' &\n")
        wait_until(lambda: children_of(t.pid) and children_of(children_of(t.pid)[0]))
        launcher = children_of(t.pid)[0]
        (child,) = children_of(launcher)
        wait_until(lambda: state_of(child) == state_of(launcher) == "T")
        t.type("fg\n")
        wait_until(lambda: os.tcgetpgrp(t.fd) == os.getpgid(child))
        t.type("nekoms\n")
        t.expect("smoken")
    finally:
        t.close()


@case("on a terminal: Ctrl-C and a new size reach the program once, from the terminal alone")
def terminal():
    t = Terminal(folder(), CUTRACE, "run", "-q", *python(CATCHER))
    try:
        t.expect("ready")
        # While cutrace is stopped, the program has the terminal's signal alone; what cutrace makes of it comes before SIGCONT.
        for act, name in ((lambda: t.type("\x03"), "SIGINT"), (lambda: t.type("\x1c"), "SIGQUIT"),
                          (lambda: fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0)), "SIGWINCH")):
            os.kill(t.pid, signal.SIGSTOP)
            wait_until(lambda: state_of(t.pid) == "T")
            act()
            t.expect(name)
            os.kill(t.pid, signal.SIGCONT)
            equal(re.findall("SIG[A-Z]+", t.expect("SIGCONT")), [], "signals behind " + name)
    finally:
        t.close()


@case("a terminal that is gone: the program hears of it, although the kernel tells cutrace alone, the session's leader")
def lost_terminal():
    where = folder()
    code = ("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])\n"
            "print('ready', flush=True)\nsignal.sigwait([signal.SIGHUP])\nopen('heard', 'w').close()")
    t = Terminal(where, CUTRACE, "run", "-q", *python(code))
    t.expect("ready")
    os.close(t.fd)
    wait_until(lambda: os.path.exists(os.path.join(where, "heard")))
    os.waitpid(t.pid, 0)


@case("in a shell: Ctrl-Z stops both, and the shell has the terminal; fg continues both; $? is the program's")
def job_control():
    where = folder()
    with open(os.path.join(where, "catch.py"), "w", encoding="utf-8") as f:
        f.write(CATCHER)
    t = Terminal(where, "bash", "--norc", "--noprofile", "-i")
    try:
        t.type("stty -echo; echo begun\n")
        t.expect("begun")
        t.type(f"{CUTRACE} run -q {sys.executable} catch.py\n")
        t.expect("ready")
        (launcher,) = children_of(t.pid)
        (child,) = children_of(launcher)
        equal(os.tcgetpgrp(t.fd), os.getpgid(child), "the foreground group")
        t.type("\x1a")
        wait_until(lambda: state_of(child) == state_of(launcher) == "T")
        t.type("echo prompt\n")
        t.expect("prompt")
        t.type("fg\n")
        t.expect("SIGCONT")
        wait_until(lambda: state_of(child) != "T" and state_of(launcher) != "T")
        equal(os.tcgetpgrp(t.fd), os.getpgid(child), "the foreground group")
        os.kill(child, signal.SIGKILL)
        t.type("echo $?\n")
        t.expect("137")
    finally:
        t.close()


end()
