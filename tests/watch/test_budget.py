#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --keep: what is removed from a folder of traces, against the rule written down here a
second time (tools/watch/SIDECAR.md); and real processes, which record while it is enforced."""
import contextlib
import os
import shutil
import stat
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import death  # noqa: E402
import mkjournal  # noqa: E402
from live import CUTRACE, Holder, elsewhere, service, wait_for  # noqa: E402
from mktrace import SEALED, Trace  # noqa: E402
from tap import FULL, case, check, dice, equal, main  # noqa: E402
from traces import G, K, M, S, begin  # noqa: E402
from ways import HANG, folder  # noqa: E402

NOW = time.time_ns()


def enforce(where, *words, code=0):
    done = subprocess.run([CUTRACE, "watch", "--once", *words, where], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          check=False)
    equal((done.returncode, done.stderr), (code, ""), done.stdout)
    return done.stdout.splitlines()


# ---- folders -------------------------------------------------------------------------------------------------------------


def trace(oom=False, end=True, sealed=False, trace_id=0x1234):
    t = Trace(trace_id=trace_id)
    begin(t)
    t.event("alloc", 51 * S, device=0, ptr=1 << 36, bytes=M, result=0, space="device", api="cudaMalloc")
    if oom:
        t.event("alloc", 52 * S, device=0, bytes=G, result=2, space="device", api="cudaMalloc")
    t.flush(last=end and not sealed, **({"flags": SEALED} if sealed else {}))
    return t


def filler(n):
    return struct.pack("<II", 0x184D2A5F, n) + b"\x5a" * n


class Folder:
    """Files of all kinds. `files`: kind, whether memory ran out, and the names that go together, by the first one's name."""

    def __init__(self, choice):
        self.where, self.choice, self.files, self.open = folder(), choice, {}, []

    def put(self, name, data, age_s):
        path = os.path.join(self.where, name)
        with open(path, "wb") as f:
            f.write(data)
        os.utime(path, ns=(NOW - age_s * S,) * 2)
        return path

    def add(self, kind, i):
        """A file of a kind, of some size and age."""
        choice, name = self.choice, f"{kind}-{i}"
        age, pad = choice.randrange(1, 10**6), filler(choice.choice((0, 3 * K, 40 * K, 200 * K)))
        oom = choice.random() < .2
        names = [name]
        if kind in ("ended", "sealed", "held"):
            path = self.put(name, trace(oom, sealed=kind == "sealed").bytes() + pad, age)
            if kind == "held":
                self.open.append(os.open(path, os.O_WRONLY))
        elif kind == "endless":
            self.put(name, trace(oom, end=False).bytes() + pad, age)
        elif kind in ("alive", "left"):
            t = trace(oom, end=False, trace_id=0x1000 + i)
            j = mkjournal.Journal(trace_id=t.trace_id, seq=t.seq, dict_seq=t.dict_seq, first_event=t.number)
            if kind == "alive":
                j.alive()
            names.append(name + ".journal")
            self.put(name, choice.choice((b"", t.bytes() + pad)) if not oom else t.bytes() + pad, age)
            self.put(names[1], j.bytes(), age)
        elif kind == "bundle":
            names = [name + ".oom.zip"]
            self.put(names[0], b"PK\3\4" + pad, age)
        elif kind == "part":
            names = [name + ".oom.zip.4711.part"]
            path = self.put(names[0], pad, age)
            if i % 2:
                self.open.append(os.open(path, os.O_WRONLY))
        self.files[names[0]] = (kind if kind != "part" or not i % 2 else "part-open", oom, names)

    def clutter(self):
        """What is not cutrace's, or not to be followed."""
        elsewhere = folder()
        kept = os.path.join(elsewhere, "kept.zst")
        with open(kept, "wb") as f:
            f.write(trace().bytes())
        os.utime(kept, ns=(1, 1))
        self.put("thesis.zst", b"my thesis\n" * 9999, 10**7)
        self.put("other.zst", bytes.fromhex("28b52ffd") + b"x" * 9999, 10**7)
        self.put("photos.zip", b"PK\3\4" + b"x" * 9999, 10**7)
        self.put("empty", b"", 10**7)
        self.put("stranger.journal", b"x" * 9999, 10**7)
        self.put("text.oom.zip", b"text" * 999, 10**7)
        os.symlink(kept, os.path.join(self.where, "link.zst"))
        os.symlink(kept, os.path.join(self.where, "link.oom.zip"))
        os.mkfifo(os.path.join(self.where, "fifo.zst"))
        os.mkdir(os.path.join(self.where, "folder.zst"))
        shutil.copy(kept, os.path.join(self.where, "folder.zst"))
        return kept

    def disk(self, name):
        return os.lstat(os.path.join(self.where, name)).st_blocks * 512

    def total(self):
        return sum(self.disk(n) for _, _, names in self.files.values() for n in names if os.path.exists(os.path.join(self.where, n)))

    def close(self):
        for fd in self.open:
            os.close(fd)


# ---- the rule ------------------------------------------------------------------------------------------------------------

REMOVABLE = ("ended", "sealed", "left", "bundle", "part")


def is_bundle(name):
    return ".oom.zip" in name


def expect(f, keep_count=0, keep_s=0, max_total=0):
    """Names that are removed."""
    def age_of(name):
        return os.lstat(os.path.join(f.where, name)).st_mtime_ns
    candidates = sorted((n for n, (kind, _, _) in f.files.items() if kind in REMOVABLE), key=lambda n: (age_of(n), n))
    last_bundle = next((n for n in reversed(candidates) if is_bundle(n)), None)
    last_trace = next((n for n in reversed(candidates) if not is_bundle(n) and f.files[n][1]), None)
    gone = []

    def go(name):
        candidates.remove(name)
        gone.append(name)
    usual = [n for n in candidates if n not in (last_bundle, last_trace)]
    for n in usual if keep_s else []:
        if NOW - age_of(n) > keep_s * S:
            go(n)
    for of_bundles in (False, True):
        for n in usual if keep_count else []:
            if n in candidates and is_bundle(n) == of_bundles and sum(is_bundle(c) == of_bundles for c in candidates) > keep_count:
                go(n)
    for n in [*usual, last_trace, last_bundle] if max_total else []:
        left = f.total() - sum(f.disk(x) for g in gone for x in f.files[g][2])
        if n in candidates and left > max_total:
            go(n)
    return gone


def list_all(where):
    return sorted(os.listdir(where))


@case("random folders: what is removed is what the rule says, in its order, and nothing else")
def rule():
    kinds = "ended ended ended sealed held endless alive left bundle part".split()
    removed = 0
    for seed in range(300 if FULL else 60):
        choice = dice(seed)
        f = Folder(choice)
        for i in range(choice.randrange(1, 14)):
            f.add(choice.choice(kinds), i)
        kept = f.clutter()
        kw = choice.choice(({"max_total": choice.randrange(1, 1 + f.total())}, {"max_total": choice.randrange(1, 1 + f.total())},
                            {"keep_count": choice.randrange(1, 5)}, {"keep_s": choice.randrange(1, 10**6)},
                            {"keep_count": 2, "max_total": choice.randrange(1, 1 + f.total())}))
        words = [{"max_total": f"--keep={v}B", "keep_count": f"--keep={v}", "keep_s": f"--keep={v}s"}[k] for k, v in kw.items()]
        gone = expect(f, **kw)
        before = list_all(f.where)
        would = enforce(f.where, "--dry-run", *words, code=status(f, gone, kw))
        equal(list_all(f.where), before, seed)
        lines = enforce(f.where, *words, code=status(f, gone, kw))
        equal([line.split(" ")[1] for line in lines if line.startswith("removed: ")], [os.path.join(f.where, g) for g in gone], (seed, kw))
        equal([line.replace("would remove", "removed") for line in would], lines, seed)
        equal(list_all(f.where), sorted(set(before) - {x for g in gone for x in f.files[g][2]}), seed)
        check(os.path.exists(kept))
        f.close()
        removed += len(gone)
        shutil.rmtree(f.where)
    check(removed > 60, removed)
    return f"{removed} removed"


def status(f, gone, kw):
    """5 where more is left than the size of --keep."""
    left = f.total() - sum(f.disk(x) for g in gone for x in f.files[g][2])
    return 5 if kw.get("max_total") and left > kw["max_total"] else 0


@case("the newest trace in which memory ran out goes last, the newest bundle after it")
def last():
    f = Folder(dice(1))
    for i, (name, oom) in enumerate((("a", True), ("b", False), ("c", True), ("d", False), ("e", False))):
        f.put(name, trace(oom).bytes() + filler(40 * K), 1000 - i)
    for i, name in enumerate(("a.oom.zip", "c.oom.zip")):
        f.put(name, b"PK\3\4" + b"x" * 40 * K, 500 - i)
    one = f.disk("a")
    order = []
    for n in range(6, -1, -1):
        lines = enforce(f.where, f"--keep={n * one + 1}B")
        order += [os.path.basename(line.split(" ")[1]) for line in lines]
    equal(order, ["a", "b", "d", "e", "a.oom.zip", "c", "c.oom.zip"])


@case("neither age nor number removes the newest trace in which memory ran out")
def kept_oom():
    for words in (["--keep=1"], ["--keep=1h"]):
        f = Folder(dice(1))
        for i, oom in enumerate((True, True, False, False)):
            f.put(f"t{i}", trace(oom).bytes(), 10**5 - i)
        f.put("new", trace().bytes(), 10)
        enforce(f.where, *words)
        equal(list_all(f.where), ["t1"] if words == ["--keep=1"] else ["new", "t1"], words)


@case("a file that another user owns, or that changes into something else, is let be")
def others():
    if os.geteuid():
        return
    f = Folder(dice(1))
    for name in ("a", "b"):
        f.put(name, trace().bytes() + filler(40 * K), 100)
    os.chown(os.path.join(f.where, "a"), 1, 1)
    lines = enforce(f.where, "--keep=1B")
    equal((len(lines), list_all(f.where)), (1, ["a"]), lines)


# ---- processes -----------------------------------------------------------------------------------------------------------


def bytes_in(where):
    total = 0
    for name in os.listdir(where):
        with contextlib.suppress(FileNotFoundError):
            st = os.lstat(os.path.join(where, name))
            if ".zst" in name and stat.S_ISREG(st.st_mode):
                total += st.st_blocks * 512
    return total


@case("processes that record are never touched, whatever the budget is; killed ones make room, and the rest is in the budget")
def recording():
    where = folder()
    with contextlib.ExitStack() as stack, Holder(where) as h:
        h.tell("churn", 5000)
        before = os.stat(h.trace).st_ino, os.stat(h.trace + ".journal").st_ino
        lines = enforce(where, "--seal", "--keep=1B", code=5)
        check(len(lines) == 1 and lines[0].startswith("more than --keep: "), lines)
        equal((os.stat(h.trace).st_ino, os.stat(h.trace + ".journal").st_ino), before)
        most = bytes_in(where) + M
        # (elsewhere, where it sees no pid of theirs)
        with service([*elsewhere(), CUTRACE, "watch", "--seal", f"--keep={most}B", "--interval=100ms", where]) as said:
            for i in range(40 if FULL else 12):
                p = death.start(where, death.program("worker"), 2, 0, 64, 0, 1, env={"CUTRACE_FLUSH_MS": "10"})
                stack.callback(p.kill)
                calls = death.calls_so_far(where)
                death.wait_for_calls(where, p, calls + 20000)
                # It is beyond the budget by then: what is finished has gone, and this one stays.
                while bytes_in(where) <= most or len(death.traces(where)) > 2:
                    check(p.poll() is None and os.path.exists(os.path.join(where, f"trace.{p.pid}.zst")), i)
                    time.sleep(.02)
                death.kill(p, False)
                wait_for(lambda: bytes_in(where) <= most and len(death.journals(where)) <= 1)
                for name in os.listdir(where):  # (the simulator's, which nobody keeps in order)
                    if name.startswith("ledger.") and str(h.process.pid) not in name:
                        os.unlink(os.path.join(where, name))
        removed = [line for line in said if line.startswith("removed: ")]
        check(removed and not any(h.trace in line for line in said), said)
        equal((os.stat(h.trace).st_ino, os.stat(h.trace + ".journal").st_ino), before)
        equal(h.tell("churn", 10), 0)
        h.process.stdin.close()
        equal(h.process.wait(HANG), 0)
        check(bytes_in(where) <= most + 64 * K)
        return f"{len(removed)} removed"


@case("options: what is wrong ends with 2 and one line")
def usage():
    where = folder()
    for words in (["--keep=0"], ["--keep=many"], ["--keep=-1"], ["--keep="], ["--keep=4XB"], ["--keep=0B"], ["--keep=x"],
                  ["--keep=oom"]):
        done = subprocess.run([CUTRACE, "watch", "--once", *words, where], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), words)


main()
