#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: tmux
"""The live view of cutrace watch in tmux: what its screens show is what the processes were told to hold, and keys, sizes
and signals do what WATCH.md and the view's own help say."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from live import Holder, wait_for, written  # noqa: E402
from screen import Screen, rows  # noqa: E402
from tap import BUILD, Skip, case, check, equal, main, skip_all  # noqa: E402
from traces import G, M  # noqa: E402
from ways import folder  # noqa: E402

if not shutil.which("tmux"):
    skip_all("tmux is not installed")


@case("one process at 80 and at 160 columns: the list, the parts of its memory, its call sites; q leaves the terminal as it was")
def one():
    for columns in (80, 160):
        with Holder() as h, Screen(h.where, columns) as s:
            equal((h.tell("first", 48 * M), h.tell("block", 5 * M), h.tell("second", 2000 * M)), (0, 0, 2))
            s.wait(r"^ +48.00 MiB +\+48.00 MiB +1  holder.py:\d+ first_site")
            text = s.wait(r"^> +\d+ python\S* +recording +68.00 MiB")  # of the header, which may have been read before
            equal([(m, rest.split()[1:4]) for m, rest in rows(text).values()], [(True, ["recording", "68.00", "MiB"])])
            for part in (r"5.00 MiB +0.5 %  # in use by PyTorch", r"15.00 MiB +1.5 %  - idle in PyTorch's pool",
                         r"48.00 MiB +4.7 %  \+ other allocations", r"^verdict: a request larger than the device"):
                text = s.wait(part)  # (what was read before PyTorch's reports has 68 MiB of other allocations)
            bar = re.search(r"^  \[(.*)\]$", text, re.M).group(1)
            equal((len(bar), abs(bar.count("+") - len(bar) * 48 / 1024) <= 1), (columns - 5, True), bar)
            check(("PHASE" in text) == (columns == 160), text)
            s.press("q")
            s.ended(0)


@case("one thing has one figure: allocated and free, in the list and in the parts, where the header is older than the events")
def one_figure():
    with Screen(written([G] * 20, pending=[48 * M]), 160) as s:
        text = s.wait(r"% +\. free")
        held, free = (re.search(rf"^ +(\S+ \S+) +\S+ % +{part}", text, re.M)[1] for part in (r"\+ other allocations", r"\. free"))
        row = re.search(r"^> .*$", text, re.M)[0]
        check(f" {held} " in row and f" {free} " in row, text)


@case("m: gains count from then on")
def mark():
    with Holder() as h, Screen(h.where) as s:
        equal((h.tell("first", 48 * M), h.tell("second", 2 * M)), (0, 0))
        s.wait(r"\+48.00 MiB +1  holder.py:\d+ first_site")
        s.press("m")
        s.wait(r" 48.00 MiB +- +1  holder.py:\d+ first_site")
        equal((h.tell("second", 6 * M)), 0)
        text = s.wait(r" 8.00 MiB +\+6.00 MiB +2  holder.py:\d+ second_site")
        check(re.search(r" 48.00 MiB +- +1  holder.py:\d+ first_site", text), text)


@case("while a trace is read, as long as that takes, keys are answered: help, details, pause, the end")
def reading():
    library = os.path.join(BUILD, "tests/watch/libholds.so")
    if not os.path.exists(library):
        raise Skip("needs a library that cannot be preloaded into this build")
    held, said = (os.path.join(folder(), name) for name in ("held", "said"))
    with Holder() as h, Screen(h.where, env=f"LC_ALL=C.UTF-8 LD_PRELOAD={library} HOLDS_WHILE={held} HOLDS_SAID={said}") as s:
        equal(h.tell("first", 48 * M), 0)
        s.wait(r"48.00 MiB.* other allocations")
        with open(held, "wb"):
            pass
        equal(h.tell("first", 16 * M), 0)
        wait_for(lambda: os.path.exists(said))
        s.press("h")
        s.wait("from now on count what call sites gain")
        s.press("h")
        s.wait(rf"^> +{h.process.pid} (.*\n)*.*48.00 MiB.* other allocations")
        s.press("Enter")
        s.wait(r"^cutrace watch.*\npython")
        s.press("Space")
        s.wait("PAUSED")
        s.press("Space", "m", "Enter")
        s.wait_while("PAUSED")
        os.unlink(held)
        s.wait(r" 64.00 MiB +- +2  holder.py:\d+ first_site")  # (gains count since m)
        os.unlink(said)
        with open(held, "wb"):
            pass
        equal(h.tell("first", 8 * M), 0)
        wait_for(lambda: os.path.exists(said))
        s.press("q")
        s.ended(0)


@case("a process that begins is shown, but not while space pauses")
def paused():
    with Holder() as a, Screen(a.where) as s:
        s.wait(rf"^> +{a.process.pid} .*recording")
        s.press("Space")
        s.wait("PAUSED")
        with Holder(a.where) as b:
            s.press("Down")
            equal(b.process.pid in rows(s.text()), False)
            s.press("Space")
            s.wait(rf"^[ >] +{b.process.pid} .*recording")


@case("a folder without a process: it waits for one; a window that changes its size is drawn anew")
def resized():
    where = folder()
    with Screen(where) as s:
        s.wait("no traced process yet")
        with Holder(where) as h:
            equal(h.tell("first", 48 * M), 0)
            s.wait(r"48.00 MiB.* other allocations")
            for columns, rows_, has_phase in ((160, 40, True), (60, 12, False), (80, 24, False)):
                s.columns = max(s.columns, columns)
                s.tmux("resize-window", "-x", columns, "-y", rows_)
                text = s.wait(rf"(?s)^cutrace watch.*^  \[[^\n]{{{columns - 5}}}\]$" if rows_ > 12 else r"^cutrace watch.* 1 process")
                s.columns = columns
                s.wait("q end")
                check(("PHASE" in text) == has_phase, text)


@case("signals and a closed input end it, and the terminal is as it was")
def signals():
    where = written([G] * 20)
    for name, status in (("INT", 0), ("TERM", 143), ("HUP", 129), ("QUIT", 131)):
        with Screen(where) as s:
            s.wait("q end")
            subprocess.run(["kill", f"-{name}", str(s.pid())], check=True)
            s.ended(status)


@case("colours where the terminal has them, none with NO_COLOR and --color=never; names from a trace are cleaned")
def colours():
    where = written([G] * 20, function="evil\x1b[2J\x1b]0;title\x07\u202ename")
    for options, env, want in (("", "", True), ("", "TERM=vt100", False), ("", "NO_COLOR=1", False), ("--color=never", "", False)):
        with Screen(where, options=options, env="LC_ALL=C.UTF-8 " + env) as s:
            text = s.wait(r"evil.*name", "-e")
            equal(bool(re.search("\x1b\\[[0-9;]*3[0-9]m", text)), want, (options, env))
            check("title" in text and "\u202e" not in text and "\x07" not in text, text)


main()
