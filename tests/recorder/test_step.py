#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL between two instructions: a thread is single-stepped through the recorder. At each stop the files hold what a
kill there would leave. The other threads stand still, so that none of them repairs the files."""
import os
import re
import select
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from tap import case  # noqa: E402

STOPS = 400 if FULL else 20
# The keepers of files stand still, too: what the writer does to files it does itself where it is refused a table for them.
ITSELF = [program("with_syscall_denied"), "close_range", "1"]


class Stepped:
    """A worker that stands still at each stop."""

    def __init__(self, mark, *arguments, **env):
        self.where = folder()
        e = environment(self.where, preload=False, env={"STEPPER_PRELOAD": LIBRARY, "CUTRACE_NVML": "0",
                                                        "SIM_LEDGER_MAP_MB": "16", **env})
        self.process = subprocess.Popen([program("stops_between_instructions"), str(mark), str(STOPS), *(ITSELF if mark < 2 else ()),
                                         program("worker"), *map(str, arguments)], env=e, cwd=self.where, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)

    def stops(self, most, rng):
        """At each stop its number; then on, by a random number of instructions."""
        total = 0
        while self.is_ready():
            line = self.process.stdout.readline()
            if not line.startswith(b"stop"):
                return
            yield total
            n = rng.randrange(1, most)
            total += n
            self.process.stdin.write(b"g%d\n" % n)
            self.process.stdin.flush()

    def is_ready(self):
        """Whether it comes to a stop. Its thread may wait for one that stands still: then the stepper stands still, too."""
        before, now = None, self.switches()
        while before != now:
            if select.select([self.process.stdout], [], [], 3)[0]:
                return True
            before, now = now, self.switches()
        return False

    def switches(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return re.findall(r"ctxt_switches:\s*(\d+)", f.read())

    def end(self):
        kill(self.process, group=True)
        self.process.stdin.close()
        self.process.stdout.close()


def remains(where):
    """What is wrong with what is there."""
    problems = []
    for pid, ledger in ledgers(where).items():
        path = os.path.join(where, f"trace.{pid}.zst")
        found, (_, returned, _) = judge.judge(REPORT, path, ledger, live=False)
        problems += found
        if returned and subprocess.run(["zstd", "-tq", path], capture_output=True).returncode:
            problems.append("zstd -t refuses the trace")
    return problems


def walk_once(mark, most, rng, arguments, env):
    """Through the code from the mark on. How often it was stopped, and what was wrong."""
    life = Stepped(mark, *arguments, **env)
    stops, seen = 0, []
    try:
        for at in life.stops(most, rng):
            stops += 1
            wrong = remains(life.where)
            if wrong:
                seen.append(f"{at} instructions behind the mark: {wrong[0]}")
                if os.environ.get("WAYS_KEEP"):
                    shutil.copytree(life.where, f"{life.where}.{at}")
            if len(seen) > 2:
                break
    finally:
        life.end()
    return stops, seen


def walk(mark, most, *arguments, **env):
    """A life ends early where its thread waits for one that stands still: then another one is begun."""
    rng = dice(mark)
    adopt()
    total = 0
    for _ in range(8):
        stops, seen = walk_once(mark, most, rng, arguments, env)
        total += stops
        if seen or total >= STOPS // 2:
            return seen
    return [f"only {total} stops"]


case("through some hooks, a few instructions at a time")(lambda: walk(150, 60, 1, 0, 16, 400))
case("through many hooks")(lambda: walk(151, 2000, 1, 0, 16, 400))
case("through the beginning: the files are made")(lambda: walk(1, 5000, 1, 0, 16, 400))
case("through the writer, which moves events into the open chunk")(lambda: walk(-1, 3000, 2, 200, 16, 4000))
case("through the writer, which writes chunks")(
    lambda: walk(-2, 5000, 2, 200, 16, 4000, CUTRACE_FLUSH_MS="10"))
case("through the writer, which writes a chunk for each wake-up")(
    lambda: walk(-3, 3000, 1, 2000, 16, 4000, CUTRACE_FLUSH_MS="10"))

end()
