#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --seal: what killed processes left is sealed, also from other containers (here: name spaces of processes
and mounts), by several sealers at once, on a full disk, among files that somebody else has put there; and a process that
lives is let alone. Each sealed trace is compared with the simulated driver's ledger, which outlives the process."""
import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import death  # noqa: E402
from death import Mounted, journals, kill, program, start, traces, wait_for_calls, whole  # noqa: E402
from live import CUTRACE, Holder, all_at_once, elsewhere, service, wait_for, written  # noqa: E402
from scrape import Served  # noqa: E402
from tap import FULL, REPORT, Skip, case, check, dice, equal, main, read_json  # noqa: E402
from traces import G, M  # noqa: E402
from ways import HANG, folder  # noqa: E402


def seal(where, *words, before=(), **kw):
    """(exit code, lines)"""
    done = subprocess.run([*before, CUTRACE, "watch", "--seal", "--once", *words, where], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False, **kw)
    equal(done.stderr, "")
    return done.returncode, done.stdout.splitlines()


def left(where, words="worker 2 0 64 0", calls=4000, **env):
    """Starts a process and kills it when it has made so many calls. Its ledger lies beside its trace."""
    p = start(where, program(words.split()[0]), *words.split()[1:], "1", env=env)
    wait_for_calls(where, p, calls, p.pid)
    kill(p, False)
    return p.pid


def left_in_journal(where):
    """Kills a process that has everything in its journal: it waits, after calls that the writer leaves for later. None of
    them fails, as a failure puts all that came before into the trace."""
    p = start(where, program("worker"), 1, 0, 64, 2 * 2000, 1, stdin=subprocess.PIPE,
              env={"WORKER_PAUSE": "1", "WORKER_REFUSALS": "0", "CUTRACE_FLUSH_MS": "3600000", "CUTRACE_UPDATE_MS": "0"})
    wait_for(lambda: death.said(where, "out"))
    kill(p, False)
    p.stdin.close()
    (path,) = traces(where).values()
    check(json.loads(read_json("summary", path))["trace"]["events"] >= 2000)
    return path


def check_all_added(sealed):
    """Every event of the sealed trace came from its journal."""
    code, lines = sealed
    found = re.fullmatch(r"sealed: .*: added ([0-9,]+) events from its journal, ([0-9,]+) in all", "".join(lines))
    check(code == 0 and found and found[1] == found[2], sealed)


def is_sealed(path):
    trace = json.loads(read_json("summary", path))["trace"]
    return not trace["clean_end"] and not trace["incomplete"] and not trace["running"]


def all_sealed(where, n):
    equal((journals(where), len(traces(where))), ({}, n))
    check(all(is_sealed(path) for path in traces(where).values()))
    return whole(where, killed=True)


# ---- which process has ended -----------------------------------------------------------------------------------------


@case("a killed process's trace is sealed, as the ledger has it; a second look finds nothing to do")
def once():
    where = folder()
    left(where)
    (path,) = traces(where).values()
    equal(seal(where, "--dry-run"), (0, [f"would seal: {path}"]))
    equal(len(journals(where)), 1)
    code, lines = seal(where)
    events = json.loads(read_json("summary", path))["trace"]["events"]
    equal((code, len(lines)), (0, 1), lines)
    check(lines[0].startswith(f"sealed: {path}: added ") and lines[0].replace(" ", "").endswith(f",{events}inall"), lines)
    equal(seal(where), (0, []))
    return all_sealed(where, 1)


@case("the same from another container, which does not see the process; in memory, and with nothing in the trace yet")
def from_elsewhere():
    where = folder()
    left(where, calls=1000)
    left(where, calls=1000, CUTRACE_MEMORY="1")
    left(where, calls=20)
    left(where, "worker 8 10 64 0", calls=1000, CUTRACE_FLUSH_MS="10", CUTRACE_UPDATE_MS="10")
    code, lines = seal(where, before=elsewhere())
    equal((code, len(lines)), (0, 4), lines)
    return all_sealed(where, 4)


@case("a process that lives is not sealed, and is known to live, wherever it is looked from")
def alive():
    with Holder() as h:
        equal(h.tell("first", 48 * M), 0)
        before = sorted(os.listdir(h.where))
        for where_from in ([], elsewhere()):
            equal(seal(h.where, before=where_from), (0, []))
            equal(seal(h.where, "--dry-run", before=where_from), (0, []))
            done = subprocess.run([*where_from, CUTRACE, "watch", "--once", "--json", h.where], stdout=subprocess.PIPE, check=True)
            (process,) = json.loads(done.stdout)["processes"]
            equal((process["state"], process["pid"], process["problem"]), ("recording", h.process.pid, None))
            check(process["program"].startswith("python"), process["program"])
            done = subprocess.run([*where_from, REPORT, "summary", "--json", h.trace], stdout=subprocess.PIPE, check=True)
            equal(json.loads(done.stdout)["trace"]["running"], True)
            done = subprocess.run([*where_from, REPORT, "copy", "--seal", h.trace], capture_output=True, text=True, check=False)
            check(done.returncode == 2 and "still recording" in done.stderr, done)
        equal(sorted(os.listdir(h.where)), before)
        equal(h.tell("free"), 0)
        h.process.stdin.close()
        equal(h.process.wait(HANG), 0)
        check(not os.path.exists(h.trace + ".journal"))
        equal(json.loads(read_json("summary", h.trace))["trace"]["clean_end"], True)
    return whole_holder(h)


def whole_holder(h):
    import check_ledger  # pylint: disable=import-outside-toplevel
    return check_ledger.compare(check_ledger.read_trace(REPORT, h.trace), h.ledger())


@case("a sealer that happens to have the pid and the start time of a dead process of another container")
def namesake():
    where = folder()
    script = "import os, sys; from live import written; written([1 << 30] * 3, where=sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
    done = subprocess.run([sys.executable, "-c", script, where, CUTRACE, "watch", "--seal", "--once", where], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, check=False)
    equal((done.returncode, done.stdout.count("sealed: "), done.stderr), (0, 1, ""), done.stdout)
    equal(sorted(os.listdir(where)), ["live.zst"])


@case("while sealers of two containers look all the time, processes record and are killed: each trace is its ledger")
def kills():
    where, n = folder(), 60 if FULL else 7
    choice = dice()
    kinds = ({}, {"CUTRACE_MEMORY": "1"}, {"CUTRACE_FLUSH_MS": "10"}, {"CUTRACE_FLUSH_MS": "40", "CUTRACE_UPDATE_MS": "10"})
    sealer = [CUTRACE, "watch", "--seal", "--interval=100ms", where]
    with contextlib.ExitStack() as stack, service(sealer, stderr=subprocess.STDOUT) as here, \
            service([*elsewhere(), *sealer], stderr=subprocess.STDOUT) as there:
        survivor = start(where, program("worker"), 2, 1000, 64, 0, 1)
        stack.callback(survivor.kill)
        for i in range(n):
            left(where, choice.choice(("worker 2 0 64 0", "worker 1 1000 64 0", "worker 8 100 64 0")), choice.randrange(100, 4000),
                 **kinds[i % len(kinds)])
        wait_for(lambda: len(journals(where)) <= 1)
        check(survivor.poll() is None and list(journals(where)) == [survivor.pid], (survivor.poll(), journals(where)))
        kill(survivor, False)
    said = here + there  # (the last look comes with SIGTERM)
    equal(len([line for line in said if line.startswith("sealed: ")]), len(said), said)
    equal(len(said), n + 1)
    return all_sealed(where, n + 1)


@case("many sealers at once: one of them seals a trace, the others let it be")
def at_once():
    where, n = folder(), 8
    for i in range(n):
        left(where, calls=500, **({"CUTRACE_MEMORY": "1"} if i % 2 else {}))
    said = all_at_once(6, "--seal", where)
    sealed = sorted(line.split(": ")[1] for line in said)
    equal(sealed, sorted(traces(where).values()), said)
    return all_sealed(where, n)


@case("a journal in memory whose file another program has just removed, and the link not yet: nothing is said")
def half_removed():
    where = folder()
    left(where, calls=500, CUTRACE_MEMORY="1")
    (path,), (link,) = traces(where).values(), journals(where).values()
    wait_for(lambda: time.time() - os.lstat(link).st_ctime > 1.1)  # (a younger link is one whose file comes)
    os.unlink(os.readlink(link))
    with open(path, "r+b"):  # as a sealer has it
        equal(seal(where), (0, []))
    code, (line,) = seal(where)
    check(code == 0 and line.startswith(f"not sealed: {path}: ") and "in memory that is not here" in line, line)


@case("a trace that another program has locked is let be, and cutrace-report copy --seal says so")
def locked():
    where = folder()
    left(where, calls=500)
    (path,) = traces(where).values()
    holder = subprocess.Popen(["flock", "--no-fork", path, "sleep", str(HANG)])
    try:
        wait_for(lambda: subprocess.run(["flock", "-n", path, "true"], check=False).returncode)
        equal(seal(where), (0, []))
        done = subprocess.run([REPORT, "copy", "--seal", path], capture_output=True, text=True, check=False)
        check(done.returncode == 5 and "locked" in done.stderr, done)
        equal(len(journals(where)), 1)
    finally:
        holder.kill()
        holder.wait()
    equal(seal(where)[0], 0)
    return all_sealed(where, 1)


@case("beside --serve: a process whose journal was sealed counts as killed, not as one that ended well")
def served():
    with Holder() as h, Served("--seal", h.where, log=os.path.join(h.where, "said")) as s:
        def state():
            status, _, body = s.ask("/verdict.json")
            return [(p["state"], bool(p["details"])) for p in json.loads(body)["processes"]] if status == 200 else None
        equal([h.tell("first", 900 * M), h.tell("second", 500 * M)], [0, 2])
        wait_for(lambda: state() == [("recording", True)])
        h.process.kill()
        h.process.wait()
        wait_for(lambda: not os.path.exists(h.trace + ".journal"))
        wait_for(lambda: state() != [("recording", True)])
        for _ in range(3):
            equal(state(), [("killed", True)])
        equal(s.stop(), (0, ""))
        with open(s.log, encoding="utf-8") as f:
            equal([line.split(": ")[0] for line in f], ["sealed"])


# ---- what does not go well -----------------------------------------------------------------------------------------------


def contents(where):
    out = {}
    for name in sorted(os.listdir(where)):
        path = os.path.join(where, name)
        if os.path.isfile(path):
            with open(path, "rb") as f:
                out[name] = os.path.getsize(path), f.read(1 << 26)
    return out


@case("a file that must not grow: trace and journal stay as they are, and are sealed when there is room")
def no_room():
    where = folder()
    path = left_in_journal(where)
    before = contents(where)
    code, lines = seal(where, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path),) * 2))
    equal((code, len(lines)), (5, 1), lines)
    check("cannot be written" in lines[0] and lines[0].startswith("cannot seal: "), lines)
    check(contents(where) == before)
    check_all_added(seal(where))
    return all_sealed(where, 1)


@case("a full disk: the same")
def full_disk():
    where = folder()
    left_in_journal(where)
    with Mounted("size=64m") as small:
        for name in os.listdir(where):
            if ".zst" in name:
                subprocess.run(["cp", "--sparse=always", os.path.join(where, name), small], check=True)
        with open(os.path.join(small, "rest"), "wb", buffering=0) as f, contextlib.suppress(OSError):
            while f.write(bytes(4096)):
                pass
        before = contents(small)
        code, lines = seal(small)
        equal((code, len(lines)), (5, 1), lines)
        check("No space left" in lines[0], lines)
        check(contents(small) == before)
        os.unlink(os.path.join(small, "rest"))
        check_all_added(seal(small))
        for name in os.listdir(small):
            shutil.copy(os.path.join(small, name), where)
        os.unlink(*journals(where).values())
    return all_sealed(where, 1)


@case("a folder that may not be written to: nothing is touched")
def read_only():
    where = folder()
    left(where, calls=500)
    before = contents(where)
    if os.geteuid() == 0:
        script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        code, lines = seal(where, before=[*elsewhere(), "sh", "-c", script, where])
    else:
        os.chmod(where, 0o500)
        code, lines = seal(where)
        os.chmod(where, 0o700)
    equal((code, len(lines)), (5, 1), lines)
    check(lines[0].startswith("cannot seal: "), lines)
    check(contents(where) == before)


@case("a journal that cannot be removed: the trace is the same when that is repeated")
def interrupted():
    where = folder()
    left(where, calls=500)
    (path,) = traces(where).values()
    code, lines = seal(where, before=[program("with_syscall_denied"), "unlinkat", "1"])
    equal(code, 5, lines)
    check("removed" in lines[0], lines)
    with open(path, "rb") as f:
        first = f.read()
    equal(seal(where)[0], 0)
    with open(path, "rb") as f:
        check(f.read() == first)
    return all_sealed(where, 1)


@case("where nothing proves that a process has ended, its journal stays, and why is said")
def unproven():
    if os.geteuid():
        raise Skip("needs root")
    where = folder()
    left(where, calls=500)
    for name in ("upper", "scratch", "merged"):
        os.mkdir(os.path.join(where, name))
    script = ('mount -t tmpfs none "$0/scratch" && mkdir "$0/scratch/u" "$0/scratch/w" && '
              'mount -t overlay -o "lowerdir=$0,upperdir=$0/scratch/u,workdir=$0/scratch/w" none "$0/merged" && exec "$@"')
    merged = os.path.join(where, "merged")
    done = subprocess.run([*elsewhere(), "sh", "-c", script, where, CUTRACE, "watch", "--seal", "--once", merged], capture_output=True,
                          text=True, check=False)
    if "mount" in done.stderr:
        raise Skip(done.stderr.strip())
    check(done.returncode == 0 and "nothing proves that its process has ended" in done.stdout, done)
    equal(len(journals(where)), 1)
    equal(seal(where)[0], 0)


@case("what others have put there: nothing is followed, nothing of theirs is changed, the rest is sealed")
def hostile():
    where = folder()
    left(where, calls=500)
    victims = written([2 * G] * 20, name="secret", trace_id=0x99)
    secret = os.path.join(victims, "secret.zst")
    (good,) = journals(where).values()
    equal(seal(where, "--dry-run")[1], [f"would seal: {good[:-8]}"])
    with open(good, "rb") as f:
        journal = f.read()

    def put(name, data=b"", size=None):
        with open(os.path.join(where, name), "wb") as f:
            f.write(data)
            if size:
                f.truncate(size)
    put("empty.zst.journal")
    put("short.zst.journal", journal[:1000])
    put("noise.zst.journal", dice(3).randbytes(1 << 16))
    put("endless.zst.journal", size=1 << 42)
    put("cut.zst.journal", journal[:40000])  # a header alone
    put("of-another.zst.journal", journal)
    shutil.copy(secret, os.path.join(where, "of-another.zst"))
    put("beside-link.zst.journal", journal)
    os.symlink(secret, os.path.join(where, "beside-link.zst"))
    put("beside-fifo.zst.journal", journal)
    os.mkfifo(os.path.join(where, "beside-fifo.zst"))
    put("beside-text.zst.journal", journal)
    put("beside-text.zst", b"my thesis\n")
    os.mkfifo(os.path.join(where, "fifo.zst.journal"))
    os.mkdir(os.path.join(where, "folder.zst.journal"))
    os.symlink(secret + ".journal", os.path.join(where, "link.zst.journal"))
    os.symlink("/dev/zero", os.path.join(where, "zero.zst.journal"))
    os.symlink("/dev/shm/cutrace-0-1-gone.journal", os.path.join(where, "gone.zst.journal"))
    put("name\x1b[31m\n.zst.journal", b"x" * 20000)
    before, theirs = contents(where), contents(victims)
    gone = os.path.join(where, "gone.zst.journal")  # (a recorder makes such a link just before the file)
    wait_for(lambda: time.time() - os.lstat(gone).st_ctime > 1.1)
    code, lines = seal(where)
    sealed = [line for line in lines if line.startswith("sealed: ")]
    equal(code, 5)
    check(any(os.path.basename(good)[:-8] in line for line in sealed), lines)
    check(not any("\x1b" in line for line in lines), lines)
    after = contents(where)
    equal(contents(victims), theirs)
    for name in set(before) - {os.path.basename(good), os.path.basename(good)[:-8], "cut.zst.journal"}:
        check(after.get(name) == before[name], name)
    equal(after["beside-text.zst"][1], b"my thesis\n")
    check(os.path.basename(good) not in after)
    for name, why in (("gone", "not here"), ("link", "not followed"), ("zero", "not followed"), ("beside-link", "not followed"),
                      ("beside-fifo", "no regular file"), ("beside-text", "no trace"), ("of-another", "another trace"),
                      ("endless", "no journal"), ("short", "too short"), ("fifo", "no regular file"), ("folder", "no regular file")):
        (line,) = [line for line in lines if f"/{name}.zst: " in line]
        check(why in line, line)


@case("another user's journal is not sealed, by root neither")
def another_user():
    if os.geteuid():
        raise Skip("needs root")
    where = folder()
    left(where, calls=500)
    os.chown(*journals(where).values(), 1, 1)
    code, lines = seal(where)
    equal((code, len(lines)), (0, 1), lines)
    check("another user" in lines[0], lines)
    os.chown(*journals(where).values(), 0, 0)
    os.chown(*traces(where).values(), 1, 1)
    code, lines = seal(where)
    check(code == 5 and "another user" in lines[0], lines)
    equal(len(journals(where)), 1)


@case("options: what is wrong ends with 2 and one line")
def usage():
    where = folder()
    for words in (["--seal", "/no/such/folder"], ["--seal", "1"], ["--seal", "--once", "--json", where], ["--dry-run", "--once", where],
                  ["--seal", "--dry-run", where]):
        done = subprocess.run([CUTRACE, "watch", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), words)
    with open("/dev/full", "w", encoding="ascii") as full:
        left(where, calls=100)
        equal(subprocess.run([CUTRACE, "watch", "--seal", "--once", where], stdout=full, check=False).returncode, 5)


main(death.undisturbed)
