#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --bundle-on=oom: a process whose request failed has one bundle, and nothing else has; its contents against
the simulated driver's ledger."""
import json
import os
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from live import CUTRACE, Holder, all_at_once, elsewhere, service, wait_for  # noqa: E402
from tap import case, check, equal, main, read_json, report  # noqa: E402
from traces import K, M  # noqa: E402
from ways import HANG, folder  # noqa: E402


def once(where, *words, code=0, before=()):
    done = subprocess.run([*before, CUTRACE, "watch", "--once", "--bundle-on=oom", *words, where], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False)
    equal((done.returncode, done.stderr), (code, ""), done.stdout)
    return done.stdout.splitlines()


def watching(where, *words, before=()):
    return service([*before, CUTRACE, "watch", "--bundle-on=oom", "--interval=100ms", *words, where])


def bundles(where):
    return sorted(name for name in os.listdir(where) if ".oom.zip" in name)


def fails(h):
    """A request for memory that nobody gets later."""
    equal([h.tell("first", 900 * M), h.tell("second", 500 * M)], [0, 2])


def judge(h, is_running=False):
    """The bundle says what the ledger says of the requests that failed, and has no name of a home."""
    path = h.trace + ".oom.zip"
    truth = [e["bytes"] for e in h.ledger() if e["result"] == 2]
    code, out, err = report("oom", "--json", path)
    equal((code, b"may be missing" in err), (4, True) if is_running else (0, False), err)
    told = json.loads(out)
    equal([o["requested_bytes"] for o in told["ooms"]], truth)
    with zipfile.ZipFile(path) as z:
        manifest = json.loads(z.read("MANIFEST.json"))
        equal(manifest["scrub"], "paths")
        check("summary.md" in z.namelist())
    equal(os.stat(path).st_mode & 0o777, 0o600)


@case("a process that goes on after a failed request has its bundle while it runs, and no second one at its end")
def goes_on():
    for before in ([], elsewhere()):
        with Holder() as h:
            with watching(h.where, before=before) as said:
                h.tell("first", 48 * M)
                fails(h)
                wait_for(lambda h=h: bundles(h.where) == [os.path.basename(h.trace) + ".oom.zip"])
                judge(h, is_running=True)
                first = os.stat(h.trace + ".oom.zip")
                equal([h.tell("second", 500 * M), h.tell("free")], [2, 0])
                h.process.stdin.close()
                equal(h.process.wait(HANG), 0)
            equal(os.stat(h.trace + ".oom.zip"), first)
            equal(len(said), 1, said)
            check(said[0].startswith(f"bundle: {h.trace}.oom.zip ("), said)
            equal(json.loads(read_json("summary", h.trace))["trace"]["clean_end"], True)


@case("a process that was killed: sealed, and its bundle says what its trace says")
def killed():
    with Holder() as h:
        fails(h)
        h.process.kill()
        h.process.wait()
        lines = once(h.where, "--seal", "--dry-run")
        equal([line.split(": ")[0] for line in lines], ["would seal", "would make"])
        equal(bundles(h.where), [])
        lines = once(h.where, "--seal")
        equal([line.split(": ")[0] for line in lines], ["sealed", "bundle"])
        judge(h)
        of_trace, of_bundle = (json.loads(read_json("summary", path))["verdicts"][0] for path in (h.trace, h.trace + ".oom.zip"))
        equal((of_bundle["scenario"], of_bundle["summary"]), (of_trace["scenario"], of_trace["summary"]))
        equal(once(h.where, "--seal"), [])


@case("without a failed request, or where a later one got the memory, there is none")
def none():
    with Holder() as h:
        h.tell("first", 48 * M)
        equal(once(h.where), [])
        fails(h)
        equal([h.tell("free"), h.tell("second", 500 * M)], [0, 0])
        equal(once(h.where), [])
        h.process.kill()
        h.process.wait()
        equal(once(h.where), [])
        equal(bundles(h.where), [])


@case("several watches at once make one; what one that was killed has left is removed")
def at_once():
    with Holder() as h:
        fails(h)
        h.process.kill()
        h.process.wait()
        part = h.trace + ".oom.zip.4711.part"
        with open(part, "wb") as f:
            f.write(bytes(K))
        said = all_at_once(4, "--seal", "--bundle-on=oom", h.where)
        said += once(h.where, "--seal")  # (each of them may have met another one that sealed it, or made the bundle)
        equal(sorted(line.split(": ")[0] for line in said), ["bundle", "sealed"], said)
        equal(bundles(h.where), [os.path.basename(h.trace) + ".oom.zip"])
        judge(h)


@case("within --keep=SIZE: older traces make room; where there is none, there is no bundle, and why is said")
def budget():
    with Holder() as h:
        fails(h)
        h.process.kill()
        h.process.wait()
        once(h.where, "--seal", "--dry-run")
        (line,) = once(h.where, "--keep=16KiB", "--dry-run")[:1]
        check(line.startswith("would make"), line)
        size = os.stat(h.trace).st_blocks * 512 + os.stat(h.trace + ".journal").st_blocks * 512
        lines = once(h.where, f"--keep={size + 8 * K}B", code=5)
        check(any("no room in --keep" in line for line in lines), lines)
        equal(bundles(h.where), [])
        lines = once(h.where, "--seal")
        equal([line.split(": ")[0] for line in lines], ["sealed", "bundle"])


@case("a file that cannot be written: why is said, nothing is left, and it is not tried again and again")
def cannot():
    with Holder() as h:
        fails(h)
        h.process.kill()
        h.process.wait()
        with watching(h.where, "--seal", before=["prlimit", "--fsize=40000"]) as said:
            wait_for(lambda: not os.path.exists(h.trace + ".journal"))
            for _ in range(3):  # later looks
                with Holder(h.where) as other:
                    other.process.kill()
                    other.process.wait()
                    wait_for(lambda o=other: not os.path.exists(o.trace + ".journal"))
        equal(sorted(line.split(": ")[0] for line in said), ["no bundle"] + ["sealed"] * 4)
        check(any("cannot be written" in line for line in said), said)
        equal(bundles(h.where), [])


@case("options: what is wrong ends with 2 and one line")
def usage():
    for words in (["--bundle-on=leak", folder()], ["--bundle-on"], ["--bundle-on=oom", "1"]):
        done = subprocess.run([CUTRACE, "watch", "--once", *words], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), words)


main()
