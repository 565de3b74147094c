# SPDX-License-Identifier: Apache-2.0
"""Runs programs under the preload library and the simulated driver."""
import gc
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import check_ledger
import tap
from tap import BUILD, FULL, LIBRARY, REPORT, ROOT, SIM  # noqa: F401

PROGRAMS = os.path.join(BUILD, "tests/interception")
HANG = 300  # a guard, no measure
gc.disable()  # lists of a hundred thousand events, none of them a cycle: it would take more time than all else


def count_said(text):
    """Failures that the lines on standard error say, and those of them that are PyTorch's; a line may sum up."""
    lines = [line for line in text.splitlines() if line.startswith("cutrace: ") and " out of memory: " in line]
    counts = [int((re.match(r"cutrace: (\d+) more failed", line) or [0, 1])[1]) for line in lines]
    return sum(counts), sum(n for n, line in zip(counts, lines) if "PyTorch's allocation of" in line)


class Done:
    """What a program left: exit status, output, and for each of its processes a ledger and a trace."""

    def __init__(self, folder, process):
        self.folder = folder
        self.rc, self.out, self.err = process.returncode, process.stdout, process.stderr

    def _by_pid(self, pattern):
        found = {}
        for path in glob.glob(os.path.join(self.folder, pattern)):
            found.setdefault(int(re.search(r"\.(\d+)", os.path.basename(path)).group(1)), path)
        return found

    @property
    def ledgers(self):
        return self._by_pid("ledger.*")

    @property
    def traces(self):
        return self._by_pid("trace.*.zst")

    def ledger(self):
        return [e for path in self.ledgers.values() for e in check_ledger.read_ledger(path)]

    def events(self):
        """Calls of all processes' traces."""
        return [e for path in sorted(self.traces.values()) for e in check_ledger.read_trace(REPORT, path)]

    def calls(self):
        return [e for e in self.events() if check_ledger.is_call(e)]

    def summary(self):
        (path,) = self.traces.values()
        return json.loads(check_ledger.report(REPORT, "summary", path))

    def info(self):
        """The INFO section of the only trace, as one flat dictionary."""
        (path,) = self.traces.values()
        return json.loads(check_ledger.report(REPORT, "info", path))

    def problems(self):
        """Every way in which the traces are not what the ledgers say."""
        out = []
        for pid in set(self.ledgers) | set(self.traces):
            if pid not in self.traces:
                if check_ledger.read_ledger(self.ledgers[pid]):
                    out.append(f"process {pid} has a ledger and no trace")
            elif pid not in self.ledgers:
                out.append(f"process {pid} has a trace and no ledger")
            else:
                out += check_ledger.check(self.traces[pid], self.ledgers[pid], REPORT)
                r = subprocess.run(["zstd", "-tq", self.traces[pid]], capture_output=True, text=True)
                if r.returncode:
                    out.append("zstd -t: " + r.stderr)
        return out


_folders = []


def folder():
    path = tempfile.mkdtemp(prefix="ways.")
    _folders.append(path)
    return path


@tap.after_case
def _remove_folders(passed):
    """What a failed case left stays if WAYS_KEEP is set."""
    if passed or not os.environ.get("WAYS_KEEP"):
        while _folders:
            shutil.rmtree(_folders.pop(), ignore_errors=True)


def program(name):
    path = os.path.join(PROGRAMS, name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not built")
    return path


def environment(where, preload=True, before=(), after=(), libraries=(), env=None):
    e = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "SIM_", "LD_"))}
    e["LD_LIBRARY_PATH"] = ":".join([*libraries, SIM, PROGRAMS])
    e["SIM_LEDGER"] = os.path.join(where, "ledger.%p")
    e["CUTRACE_OUTPUT"] = os.path.join(where, "trace.%p.zst")
    e["CUTRACE_QUIET"] = "1"
    e["WAYS_SIM"], e["WAYS_PROGRAMS"] = SIM, PROGRAMS
    chain = [*before, *([LIBRARY] if preload else []), *after]
    if chain:
        e["LD_PRELOAD"] = ":".join(chain)
    if AUDIT and preload:
        e["CUTRACE_AUDIT"], e["CUTRACE_CUPTI"] = "1", os.path.join(SIM, "cupti/libcupti.so.13")
    for k, v in (env or {}).items():
        if v is None:
            e.pop(k, None)
        else:
            e[k] = str(v)
    return e


def run(*command, stdin=None, cwd=None, where=None, hang=HANG, **kw):
    where = where or folder()
    command = [program(command[0]) if "/" not in command[0] else command[0], *map(str, command[1:])]
    p = subprocess.run(command, capture_output=True, text=True, timeout=hang, cwd=cwd or where,
                       env=environment(where, **kw), input=stdin, errors="replace")
    done = Done(where, p)
    if AUDIT:
        note_audit(command, done, kw)
    return done


def run_undisturbed(*command, **kw):
    """A run that lost nothing: a full ring waits 100 ms for the thread that drains it, which may get no core for longer."""
    return tap.repeat(lambda: run(*command, **kw), lambda done: not done.summary()["trace"]["lost_events"])


AUDIT = os.environ.get("WAYS_AUDIT")  # interception/test_audit.py: all runs are audited, the facts noted in this file


def note_audit(command, done, kw):
    """A line for each trace: what ran, how, and its facts of CUPTI and the audit."""
    how = [f"{k}={v}" for k, v in sorted((kw.get("env") or {}).items()) if k.startswith("SIM")]
    how += [f"{place} {os.path.basename(p)}" for place in ("before", "after") for p in kw.get(place, ())]
    for path in done.traces.values():
        r = subprocess.run([REPORT, "info", "--json", path], capture_output=True, text=True)
        facts = json.loads(r.stdout)["info"] if r.returncode in (0, 4) else {}
        with open(AUDIT, "a", encoding="ascii") as f:
            f.write(json.dumps({"command": [os.path.basename(command[0]), *command[1:]], "how": how, "facts": {
                k: v for k, v in facts.items() if k.startswith(("audit.", "cupti."))}}) + "\n")


def good(done, rc=0, events=True):
    """The program ended as it should, and its traces equal its ledgers."""
    out = [] if done.rc == rc else [f"exit status {done.rc}, not {rc}: {done.err[-800:]}"]
    if events and not done.ledger():
        out.append("the ledger is empty: nothing was tested")
    return out + done.problems()


def same_as_without(done, *command, **kw):
    """Without the library the program prints and returns the same."""
    plain = run(*command, preload=False, **kw)
    return [f"{what} differs: with {a!r:.600}, without {b!r:.600}"
            for what, a, b in (("exit status", done.rc, plain.rc), ("stdout", done.out, plain.out),
                               ("stderr", done.err, plain.err)) if a != b]
