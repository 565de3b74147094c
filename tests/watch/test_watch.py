#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --once: its figures against the ledgers of the simulated driver and of the stand-in for PyTorch's
allocator, its trends against the line that a trace was written along, and files that somebody else has put there."""
import atexit
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
from live import CUTRACE, Holder, Light, crowd, once, written  # noqa: E402
from tap import Skip, case, check, equal, main, read_json  # noqa: E402
from traces import G, M, S  # noqa: E402
from ways import HANG, folder  # noqa: E402

PARTS = "torch_used torch_idle allocations mempool_idle in_flight untracked unattributed others free".split()


def only(where, code=0):
    status, document, err = once(where)
    equal((status, err, len(document["processes"])), (code, "", 1), document["skipped"])
    return document["processes"][0]


def read_anew(h):
    """The process when its device was read behind its last call. NVML's first reading may have been under way before that,
    as in every report of the trace; the next one comes within a second."""
    end, last = time.monotonic() + HANG, [e for e in h.ledger() if "free" in e][-1]
    while True:
        process = only(h.where)
        now = process["now"]["devices"]  # (none before the writer's first look)
        if now and (now[0]["read_ns"] or 0) > last["t_ns"] and now[0]["free_bytes"] == last["free"]:
            return process, last
        check(time.monotonic() < end, (now, last))
        time.sleep(.02)


def judge(h):
    """The figures of a paused process are those of the ledgers."""
    process, last = read_anew(h)
    (device,) = process["details"]["devices"]
    memory = device["memory"]
    tracked = check_ledger.replay(h.ledger())[0][0]
    allocated, reserved = h.blocks()
    equal((device["tracked_bytes"], process["now"]["devices"][0]["tracked_bytes"]), (tracked, tracked))
    equal({k: memory[k + "_bytes"] for k in PARTS[:4]},
          {"torch_used": allocated, "torch_idle": reserved - allocated, "allocations": tracked - reserved, "mempool_idle": 0})
    equal((memory["free_bytes"], memory["total_bytes"], device["capacity_bytes"]), (last["free"], last["total"], last["total"]))
    equal(sum(memory[k + "_bytes"] for k in PARTS), last["total"])
    return device


@case("a paused process: every part of the memory is that of the ledgers, to the byte; what call sites hold, too")
def paused():
    with Holder() as h:
        equal([h.tell("first", 48 * M), h.tell("second", 6 * M), h.tell("second", 2 * M), h.tell("block", 5 * M),
               h.tell("block", 3 * M), h.tell("unblock")], [0] * 6)
        process = only(h.where)
        equal((process["state"], process["pid"], process["trace"], process["problem"]),
              ("recording", h.process.pid, h.trace, None))
        judge(h)
        sites = {re.search(r"(\w+)_site", s["call_site"]).group(1): (s["bytes"], s["count"], s["gained_bytes"])
                 for s in process["details"]["sites"] if "_site" in s["call_site"]}
        equal(sites, {"first": (48 * M, 1, 48 * M), "second": (8 * M, 2, 8 * M)})
        equal((process["details"]["incident_count"], process["details"]["verdict"]), (0, None))
        equal([h.tell("free"), h.tell("block", 9 * M)], [0, 0])
        judge(h)


@case("a failed request: the incident, and the verdict that cutrace-report gives")
def failed():
    with Holder() as h:
        equal([h.tell("first", 900 * M), h.tell("second", 500 * M)], [0, 2])
        details = only(h.where)["details"]
        truth = [e for e in h.ledger() if e["result"] == 2]
        equal([(i["requested_bytes"], i["outcome"], i["device"]) for i in details["incidents"]], [(e["bytes"], "failed", 0) for e in truth])
        verdict = json.loads(read_json("summary", h.trace))["verdicts"][0]
        equal((details["verdict"]["scenario"], details["verdict"]["summary"]), (verdict["scenario"], verdict["summary"]))
        equal([h.tell("free"), h.tell("second", 500 * M)], [0, 0])
        equal([i["outcome"] for i in only(h.where)["details"]["incidents"]], ["recovered"])


@case("a process that was killed is shown as it was left; one that ended well is not; without one the exit code is 3")
def ends():
    with Holder() as h:
        equal(h.tell("first", 48 * M), 0)
        h.process.kill()
        h.process.wait()
        process = only(h.where)
        equal((process["state"], process["details"]["devices"][0]["tracked_bytes"]), ("killed", 48 * M))
        equal({d["growth"]["device"]["kind"] for d in process["details"]["devices"]}, {"unknown"})
    with Holder() as h:
        h.process.stdin.close()
        equal(h.process.wait(HANG), 0)
        status, document, _ = once(h.where)
        equal((status, document["processes"], document["skipped"]), (3, [], []))


@case("a ring that has gone round, and a trace in memory: what is live is that of the ledger")
def wraps():
    for more in ({}, {"CUTRACE_MEMORY": "1"}):
        with Holder(CUTRACE_MAX_SIZE="1M", CUTRACE_FLUSH_MS="10", CUTRACE_TICK_NS="1", CUTRACE_STACKS="off", **more) as h:
            equal((h.tell("first", 48 * M), h.tell("block", 5 * M)), (0, 0))
            while not read_overwritten(h.trace):
                equal(h.tell("scatter", 10000), 0)
            process = only(h.where)
            ledger = check_ledger.read_lines(os.path.join(h.where, f"ledger.{h.process.pid}"))
            equal(process["details"]["devices"][0]["tracked_bytes"], check_ledger.replay(ledger)[0][0])


def read_overwritten(trace):
    return json.loads(read_json("summary", trace))["trace"]["overwritten_events"]


@case("16 processes, by folder, by pid, by name, and without a word: each with its own figures")
def many():
    where = folder()
    with crowd(16, where) as holders:
        wanted = {h.process.pid: (i + 1) * M for i, h in enumerate(holders)}

        def shown(*words, **kw):
            # (other suites may run beside this one)
            return {p["pid"]: p["details"]["devices"][0]["tracked_bytes"] for p in once(*words, **kw)[1]["processes"]
                    if p["pid"] in wanted}
        equal(shown(where), wanted)
        for word in ((), ("hol",)):
            equal(shown(*word, cwd=where), wanted)
        pid = holders[3].process.pid
        equal(shown(pid, cwd="/"), {pid: 4 * M})
        equal(shown("no-such-name", cwd=where), {})


# ---- trends -------------------------------------------------------------------------------------------------------------


def growth(levels, **kw):
    process = only(written(levels, **kw))
    equal(process["problem"], None)
    (device,) = process["details"]["devices"]
    return device["growth"]["process"], device["growth"]["device"], device["full"], device


@case("a line, and a line with noise: the slope, an interval that has it, and the time to full")
def rising():
    noise = random.Random(7)
    for amplitude in (0, 30):
        levels = [i * 100 * M + noise.randrange(amplitude + 1) * 10 * M for i in range(1, 125)]
        own, whole, full, device = growth(levels)
        equal((own["kind"], whole["kind"]), ("rising", "rising"))
        check(own["low_bytes_per_minute"] <= 1200 * M * (1 if amplitude else 1.001) and own["high_bytes_per_minute"] >= 1199 * M, own)
        check(abs(own["bytes_per_minute"] - 1200 * M) < 30 * M, own)
        if amplitude:  # by theory, from the noise's own deviation: 5.4 MiB a minute
            half = (own["high_bytes_per_minute"] - own["low_bytes_per_minute"]) / 2 / M
            check(3.5 < half < 8, half)
        left = device["memory"]["free_bytes"] / (1200 * M / 60e9)
        check(abs(full["in_ns"] - left) < left * .03 and full["earliest_ns"] <= full["in_ns"] <= full["latest_ns"], (full, left))
        equal(device["memory"]["free_bytes"], 80 * G - M - levels[-1])


@case("noise that follows itself: the interval has the true slope, though neighbouring sizes depend on each other")
def dependent():
    told = hit = 0
    for seed in range(60):
        noise, deviation, levels = random.Random(seed), 0.0, []
        for i in range(1, 125):
            deviation = .8 * deviation + noise.gauss(0, 60)
            levels.append((100 * i + 1000 + int(deviation)) * M)
        own = growth(levels)[0]
        if own["kind"] == "rising":
            told += 1
            hit += own["low_bytes_per_minute"] <= 1200 * M <= own["high_bytes_per_minute"]
    check(told >= 50 and hit >= told * .85, (told, hit))


@case("no trend: a step, a flat line, a see-saw, a cache that fills, growth that has stopped, random walks, too short a time")
def not_rising():
    saw = [G + (i % 24) * 50 * M for i in range(124)]
    shapes = {"step": [G] * 62 + [3 * G] * 62, "flat": [G] * 124, "see-saw": saw,
              "cache": [int(10 * G * (1 - .95 ** i)) + M for i in range(124)],
              "stopped": [i * 100 * M for i in range(1, 60)] + [60 * 100 * M] * 65,
              "begins": [G] * 100 + [G + i * 100 * M for i in range(24)]}
    kinds = {name: growth(levels)[1:3] for name, levels in shapes.items()}
    equal({n: (k["kind"] in ("unclear", "steady"), full) for n, (k, full) in kinds.items()}, {n: (True, None) for n in shapes})
    equal(kinds["flat"][0]["kind"], "steady")
    short = growth([i * 100 * M for i in range(1, 9)])
    equal((short[0]["kind"], short[1]["kind"], short[2]), ("too-short", "too-short", None))
    told = 0
    for seed in range(40):
        walk, level = random.Random(seed), 20 * G
        levels = []
        for _ in range(124):
            level += walk.choice((-1, 1)) * 64 * M
            levels.append(level)
        told += growth(levels)[2] is not None
    check(told <= 4, told)


@case("falling memory is no time to full")
def falling():
    own, whole, full, _ = growth([(130 - i) * 100 * M for i in range(124)])
    equal((own["kind"], whole["kind"], full), ("falling", "falling", None))


@case("a program that loads weights has no trend")
def starting():
    process = only(written([i * 100 * M for i in range(1, 125)], function="load_model", file="/x/vllm/v1/worker/gpu_worker.py"))
    equal(process["details"]["phase"], "vLLM weight loading")
    equal({g["kind"] for g in process["details"]["devices"][0]["growth"].values()}, {"starting"})


@case("what a call site gained counts from ten minutes ago")
def gains():
    details = only(written([i * 100 * M for i in range(1, 241)]))["details"]
    (site,) = details["sites"]
    age = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - details["gained_since_ns"]
    equal(age // (60 * S), 10)
    check(site["bytes"] == 240 * 100 * M and abs(site["gained_bytes"] - 120 * 100 * M) <= 200 * M, site)


# ---- hostile files -------------------------------------------------------------------------------------------------------


@case("what is no journal of ours is skipped with one line each, of which eight are told, and the others are shown")
def hostile():  # (test_hostile.py has journals that are cut, endless or of other kinds)
    where = written([G] * 20)
    for name, data in (*((f"empty{i}", b"") for i in range(8)), ("noise", random.Random(3).randbytes(1 << 16)), ("name\x1b[31m\n", b"x" * 20000)):
        with open(os.path.join(where, name + ".zst.journal"), "wb") as f:
            f.write(data)
    os.symlink("/dev/shm/cutrace-../../etc/passwd.journal", os.path.join(where, "shm.zst.journal"))
    code, document, err = once(where)
    equal((code, err), (0, ""))
    equal([os.path.basename(p["trace"]) for p in document["processes"]], ["live.zst"])
    equal((document["skipped_count"], len(document["skipped"])), (11, 8))
    code, text, err = once(where, json_too=False)
    equal((code, err, text.count("skipped: ")), (0, "", 9))
    check("\x1b" not in text and "passwd" not in text, text)


@case("a journal beside a link, a FIFO, another trace, or rubbish: no details, and why")
def trace_of_another():
    elsewhere = written([2 * G] * 20, name="secret", trace_id=0x99)

    def with_trace(make):
        where = written([G] * 20)
        path = os.path.join(where, "live.zst")
        os.unlink(path)
        make(path)
        process = only(where)
        check(process["problem"] and process["details"] is None, process)
        return process["problem"]
    secret = os.path.join(elsewhere, "secret.zst")
    check("link" in with_trace(lambda p: os.symlink(secret, p)))
    check("regular" in with_trace(os.mkfifo))
    with_trace(lambda p: os.link(secret, p))
    with_trace(lambda p: open(p, "wb").close() or os.truncate(p, 1 << 40))
    check("4 GiB" in with_trace(lambda p: open(p, "wb").close() or os.truncate(p, 5 << 30)))


@case("another user's journal is not read, except by root")
def another_user():
    if os.geteuid():
        raise Skip("needs root")
    where = tempfile.mkdtemp(dir="/tmp")  # the suite's own folder may be root's alone
    atexit.register(shutil.rmtree, where)
    shutil.copytree(written([G] * 20), where, dirs_exist_ok=True)
    os.chmod(where, 0o755)
    for name in os.listdir(where):
        os.chown(os.path.join(where, name), 1, 1)
        os.chmod(os.path.join(where, name), 0o644)
    equal(only(where)["problem"], None)
    os.chown(os.path.join(where, "live.zst"), 2, 2)
    check("another user" in only(where)["problem"])
    binary = os.path.join(where, "cutrace")
    subprocess.run(["cp", CUTRACE, binary], check=True)
    done = subprocess.run([binary, "watch", "--once", "--json", where], capture_output=True, text=True, user=3, group=3,
                          extra_groups=[], check=False)
    document = json.loads(done.stdout)
    equal((done.returncode, document["processes"]), (3, []))
    check("belongs to another user" in document["skipped"][0], document)


@case("one thing has one figure: what is allocated, in the head and in the parts, of a process that allocates meanwhile")
def one_figure():
    figures = r", (\S+ \S+) allocated now.*(?:\n.*)*?\n +(\S+ \S+) +\S+ % +\+ other allocations"
    _, text, _ = once(written([G] * 20, pending=[48 * M]), json_too=False)  # the header knows of 1 GiB
    equal(re.search(figures, text).groups(), ("1.05 GiB", "1.05 GiB"), text)
    seen = set()
    with Light() as h:
        h.tell("alloc", M)
        for _ in range(5):
            print("alloc 65536\n" * 3000, file=h.process.stdin, end="", flush=True)
            _, text, _ = once(h.where, json_too=False)
            head, part = re.search(figures, text).groups()
            equal(head, part, text)
            seen.add(head)
    check(len(seen) > 1, seen)


@case("names of a trace reach the terminal cleaned")
def names():
    where = written([G] * 20, function="evil\x1b[2J\u202e\nname")
    code, text, _ = once(where, json_too=False)
    check(code == 0 and "evil" in text and not re.search("[\x00-\x09\x0b-\x1f\u202e]", text), text)


@case("options: what is wrong ends with 2 and one line")
def usage():
    for words in (["--json"], ["--interval=5ms"], ["--color=red"], ["a", "b"], ["--nonsense"], []):
        done = subprocess.run([CUTRACE, "watch", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), words)
    done = subprocess.run([CUTRACE, "watch", "--help"], capture_output=True, text=True, check=False)
    check(done.returncode == 0 and "--once" in done.stdout)
    with open("/dev/full", "w", encoding="ascii") as full:
        equal(subprocess.run([CUTRACE, "watch", "--once", folder()], stdout=full, check=False).returncode, 5)


main()
