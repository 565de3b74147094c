#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`summary --quick` says nothing that `summary` does not find: each figure is the same, or is marked as less. Of traces
that the recorder wrote, and of golden ones of PyTorch, vLLM and real GPUs, whose digests lib/add_digests.py writes. The truth is `summary` (which reads no digest), `top`, and the independent reader."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from noted import *  # noqa: E402,F403
from tap import case, check, equal, note  # noqa: E402

import add_digests  # noqa: E402
import digests  # noqa: E402
import mktrace  # noqa: E402
import read_trace  # noqa: E402
import schema  # noqa: E402
from terminal import run_on_terminal  # noqa: E402

def read(*arguments):
    done = report(*arguments)
    if done.returncode not in (0, 4):
        raise RuntimeError(f"{arguments}: exit {done.returncode}: {done.stderr}")
    schema.check_run(arguments, done.stdout)
    return json.loads(done.stdout)


# ---- the comparison --------------------------------------------------------------------------------


def with_summary(q, path):
    """What summary contradicts."""
    full = read("summary", "--json", "--no-journal", path)
    state = full["trace"]
    for name in ("events", "chunks", "missing_chunks", "t_first_ns", "t_last_ns", "overwritten_events"):
        if q[name] != state[name]:
            yield f"{name}: {q[name]}, summary: {state[name]}"
    for name in ("process", "start_ns", "start_utc_ns"):
        if q[name] != full[name]:
            yield f"{name}: {q[name]}, summary: {full[name]}"
    if q["lost_events"] > state["lost_events"]:
        yield f"{q['lost_events']} lost events, summary: {state['lost_events']}"
    if full["ooms"] is None:
        return
    ooms = [o["event"] for o in full["ooms"]]
    failed = q["failed_requests"]
    if failed["count"] != len(ooms) if q["whole"] else failed["count"] > len(ooms):
        yield f"{failed['count']} failed requests, summary: {len(ooms)}"
    if q["whole"] and failed["first_events"] != ooms[:64] or not set(failed["first_events"]) <= set(ooms):
        yield f"failed {failed['first_events']}, summary: {ooms[:64]}"
    devices = {d["ordinal"]: d for d in full["devices"]}
    for d in q["devices"]:
        yield from of_device(q, d, devices.get(d["device"]))
    if q["whole"]:
        unnamed = {d for d, f in devices.items() if f["peak_bytes"]} - {d["device"] for d in q["devices"]}
        if unnamed:
            yield f"devices {unnamed} are missing"


def of_device(q, d, full):
    peak = d["peak"]
    if full is None:
        if peak and peak["bytes"]:
            yield f"summary does not know device {d['device']}, which had {peak}"
        return
    if peak and (peak["bytes"] != full["peak_bytes"] if peak["exact"] else peak["bytes"] > full["peak_bytes"]):
        yield f"device {d['device']}: peak {peak}, summary: {full['peak_bytes']}"
    if peak and peak["exact"] and peak["bytes"] and peak["t_ns"] > full["peak_t_ns"] + 2000:
        yield f"device {d['device']}: peak {peak}, summary: at {full['peak_t_ns']}"
    if q["whole"] and q["has_end"] and d["live_bytes"] not in (None, full["live_bytes"]):
        yield f"device {d['device']}: {d['live_bytes']} live at the end, summary: {full['live_bytes']}"


class Found:
    """What the independent reader finds in a trace whose state it knows."""

    def __init__(self, path):
        trace = read_trace.Trace(path, True)
        self.known = not trace.missing
        self.ops, self.lowest, self.most, self.peak, self.lost = collections.Counter(), {}, {}, {}, 0
        state = digests.Live(trace)
        for _, c in digests.follow(state, trace):
            self.join(c)
        self.live = state.live

    def join(self, c):
        self.ops += c.ops
        self.lost += c.lost
        for d, e in c.lowest.items():
            if e["free_bytes"] < self.lowest.get(d, {"free_bytes": 1 << 64})["free_bytes"]:
                self.lowest[d] = e
        for key, (most, event) in c.most.items():
            if most > self.most.get(key, (-1, 0))[0]:
                self.most[key] = most, event
        for d, peak in c.peak.items():
            if peak[0] > self.peak.get(d, (0,))[0]:
                self.peak[d] = peak


def with_reader(q, path):
    """What the independent reader contradicts."""
    found = Found(path)
    ops = {o["op"]: o["events"] for o in q["operations"]}
    if ops != dict(found.ops) if q["whole"] else any(n > found.ops[op] for op, n in ops.items()):
        yield f"{ops}, found {found.ops}"
    if q["whole"] and q["lost_events"] != found.lost:
        yield f"{q['lost_events']} lost, found {found.lost}"
    for d in q["devices"]:
        device = 64 if d["device"] is None else d["device"]
        lowest, e = d["least_free"], found.lowest.get(device)
        if q["whole"] and (lowest is None) != (e is None):
            yield f"device {device}: least free {lowest}, found {e}"
        elif lowest and not lowest["free_bytes"] >= e["free_bytes"]:
            yield f"device {device}: least free {lowest}, found {e}"
        if q["whole"] and e and (lowest["free_bytes"], lowest["total_bytes"]) != (e["free_bytes"], e["total_bytes"]):
            yield f"device {device}: least free {lowest}, found {e}"
        for name in ("allocated", "reserved"):
            most = d["pytorch"] and (d["pytorch"][f"most_{name}_bytes"], d["pytorch"][f"most_{name}_event"])
            if q["whole"] and most != found.most.get((device, name)):
                yield f"device {device}: PyTorch's most {name} {most}, found {found.most.get((device, name))}"
        peak = d["peak"]
        if found.known and peak and peak["exact"] and peak["bytes"] and (peak["bytes"], peak["event"]) != found.peak[device][:2]:
            yield f"device {device}: peak {peak}, found {found.peak[device]}"
        if found.known and q["whole"] and q["has_end"] and d["live_bytes"] not in (None, found.live[device]):
            yield f"device {device}: {d['live_bytes']} live, found {found.live[device]}"


def sites_of(path):
    """What each call site gained, by `top`, of a trace that begins with the process."""
    total = collections.Counter()
    for d in read("top", "--segments", "--at=end", "--json", "--no-journal", "-n", "100000", path)["devices"]:
        for s in d["sites"]:
            total[s["site"]] += s["live_bytes"]
    return +total


def with_top(q, path):
    """What top contradicts. A label of top may show callers; without a stack it has the thread's name."""
    if not q["whole"] or q["call_sites"]["figure"] != "gained" or q["overwritten_events"]:
        return
    gained = collections.Counter()
    for s in q["call_sites"]["sites"]:
        gained[s["site"]] += s["bytes"]
    top = collections.Counter()
    for site, n in sites_of(path).items():
        top[site.split(" <- ")[0]] += n
    unknown = {s for s in gained if "no stack" in s or s not in top}
    problems = [f"{s}: gained {n}, top: {top[s]}" for s, n in gained.items() if s not in unknown and n != top[s]]
    if sum(gained.values()) != sum(top.values()):
        problems.append(f"gained {sum(gained.values())} in all, top: {sum(top.values())}")
    yield from problems[:3]


def contradictions(path, reader=True, full=None):
    """What the quick screen of a trace says and the others do not find. `full`: a whole copy of it."""
    q = read("summary", "--quick", "--json", path)
    problems = [*with_summary(q, full or path), *with_top(q, full or path)]
    if reader:
        problems += with_reader(q, full or path)
    done = report("summary", "--quick", path)
    if done.returncode != (0 if q["whole"] and q["has_end"] else 4):
        problems.append(f"exit {done.returncode}: whole {q['whole']}, end {q['has_end']}")
    if not re.search("no event was read", done.stdout) or "proof: cutrace-report summary" not in done.stdout:
        problems.append(f"does not say whose figures they are: {done.stdout}")
    if q["noted_chunks"] != q["chunks"] and "ha" not in done.stdout.split("not known:")[1]:
        problems.append(f"does not say what is not known: {done.stdout}")
    if "differs from the events" in report("summary", "--no-journal", full or path).stderr:
        problems.append("summary says that honest notes differ")
    return problems


# ---- traces of the recorder ------------------------------------------------------------------------


def both(path, **how):
    """The digests are right, and what is said by them is not contradicted."""
    return judged(path, **how) + contradictions(path)


@case("a whole trace: every chunk has a digest; all figures are those of summary, top and the independent reader")
def whole_trace():
    path = logged()
    chunks = len(read_trace.Trace(path).heads)
    q = read("summary", "--quick", "--json", path)
    check(q["whole"] and q["devices"][0]["peak"]["exact"] and q["devices"][0]["live_bytes"] is not None, q)
    equal(q["call_sites"]["figure"], "gained")
    return both(path, least=chunks, full=chunks)


@case("requests that fail: their number and events, more than a digest lists too")
def failed_requests():
    where = folder()
    _, status = run(program("worker"), "2", "1", "64", "3000", "7", where=where,
                    env={**SMALL, "WORKER_REFUSALS": "10", "CUTRACE_FLUSH_MS": "10000"})
    equal(status, 0)
    path = the(traces(where))
    q = read("summary", "--quick", "--json", path)
    check(q["failed_requests"]["count"] > 100 and len(q["failed_requests"]["first_events"]) == 64, q["failed_requests"])
    text = report("summary", "--quick", path).stdout
    check(f"requests for memory that failed: {q['failed_requests']['count']}, events" in text, text)
    return contradictions(path)


@case("random calls on two devices, valid and invalid, in one and four threads: all kinds of objects")
def random_calls():
    problems, kinds = [], set()
    for seed in sample(range(1, 41), 4):
        where = folder()
        _, status = run(os.path.join(BUILD, "tests/interception/random_calls"), seed, 100, 20, 1 if seed % 2 else 4, where=where,
                        env={"SIM_DEVICES": 2, "CUTRACE_FLUSH_MS": "20"})
        equal(status, 0)
        for path in traces(where).values():
            problems += [f"seed {seed}: {p}" for p in both(path)]
            for head in read_trace.Trace(path).heads:
                kinds |= set(head["digest"]["ops"])
        shutil.rmtree(where)
    check({"create", "map", "release", "free", "context-destroy"} <= kinds, f"only {sorted(kinds)}")
    return problems


@case("frees that failed: no peak is exact, because the recorder counted them at first")
def failed_frees():
    where, t = folder(), mktrace.Trace()
    fields = {"device": 0, "tid": 7, "api": "cuMemAlloc_v2", "context": 1, "space": "device", "result": 0}
    t.event("alloc", 1000, ptr=1 << 20, bytes=8 << 20, **fields)
    t.event("free", 2000, ptr=1 << 20, device=0, tid=7)
    t.event("alloc", 3000, ptr=2 << 20, bytes=6 << 20, **{**fields, "tid": 8})
    t.event("free", 4000, ptr=2 << 20, device=0, tid=8)
    t.flush()
    t.event("amend", 5000, tid=7, amends_ns=2000, result=1)
    t.event("alloc", 6000, ptr=3 << 20, bytes=2 << 20, **fields)
    t.flush(last=True)
    plain = written(where, t.bytes(), "plain.zst")
    path = written(where, add_digests.add(plain))
    q = read("summary", "--quick", "--json", path)
    equal((q["failed_frees"], q["devices"][0]["peak"]["exact"], q["devices"][0]["peak"]["bytes"]), (1, False, 10 << 20))
    equal(read("summary", "--json", path)["devices"][0]["peak_bytes"], 14 << 20)
    equal(report("info", path).returncode, 0)
    check("1 free failed" in report("summary", "--quick", path).stdout)
    return contradictions(path)


@case("a ring that went round: figures of what is left, exact where the state is known")
def wrapped():
    problems = []
    for failures in (None, "cuMemFree_v2:100000-100400:1"):
        path = logged(calls=260000, CUTRACE_MAX_SIZE="1M", SIM_FAIL=failures)
        q = read("summary", "--quick", "--json", path)
        check(q["overwritten_events"] and q["whole"], "it has not gone round")
        problems += both(path, ring=True, full=0)
    return problems


@case("killed: with its journal, alone, and sealed; provisional chunks and those of the journal need no digest")
def killed():
    problems = []
    for _ in range(6 if FULL else 1):
        where = folder()
        p = start(where, program("worker"), "2", "300", "64", "0", "7", env={"CUTRACE_FLUSH_MS": "40", "CUTRACE_UPDATE_MS": "10"})
        wait_for_calls(where, p, 1500)
        kill(p, group=False)
        path = the(traces(where))
        alone = shutil.copy(path, os.path.join(where, "alone.zst"))
        found, some, _ = digests.check(alone)
        said_, chunks = report("info", "--no-journal", alone).stdout, len(read_trace.Trace(alone).heads)
        check(f"{some} of {chunks} chunks have one" in said_ or some in (0, chunks), f"info does not say {some} of {chunks}: {said_[:300]}")
        check("the journal was not read" in report("summary", "--quick", path, env={"COLUMNS": "400"}).stdout)
        problems += found + contradictions(path, reader=False)
        equal(report("copy", "--seal", path).returncode, 0)
        problems += [f"sealed: {p}" for p in both(path)]
    return problems


@case("cut, or with damage: what is lost is said to be unknown, and the rest is as summary has it")
def cut_and_damaged():
    where = folder()
    path = logged(where)
    with open(path, "rb") as f:
        data = f.read()
    problems = []
    for i in sample(range(1, 10), 3):
        cut = written(where, data[:len(data) * i // 10])
        if report("summary", "--quick", cut).returncode != 3:  # (no chunk is whole)
            problems += [f"cut at {i}/10: {p}" for p in contradictions(cut, reader=False)]
    heads = [i for i in range(0, len(data), 8) if data[i + 8:i + 16] == b"CUTRCHNK"]
    for at in sample(heads[1:-1], 2):  # a prefix: its chunk is not found
        broken = bytearray(data)
        broken[at + 40] ^= 1
        problems += [f"prefix at {at}: {p}" for p in contradictions(written(where, bytes(broken)), reader=False)]
    for at in sample(heads[1:-1], 2, 1):  # a body: the notes are those of the whole trace
        broken = bytearray(data)
        broken[at + 104 + 50] ^= 255
        path_of_body = written(where, bytes(broken), "body.zst")
        problems += [f"body at {at}: {p}" for p in contradictions(path_of_body, full=path)]
    return problems


@case("a trace without notes: nothing is claimed, exit code 4")
def without_notes():
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst"))):
        done = report("summary", "--quick", path)
        if done.returncode == 3:
            continue
        equal(done.returncode, 4, path)
        check("No chunk has notes of the recorder" in done.stdout and "GPU 0" not in done.stdout, done.stdout)


# ---- on a terminal ---------------------------------------------------------------------------------


def screen(written_there):
    """What is left on a terminal: of its sequences those that erase a line, and the one above."""
    lines, column_0 = [""], written_there.decode()
    for part in re.split("(\n|\r\033\\[K|\033\\[A\033\\[K|\033\\[K|\r)", column_0):
        if part == "\n":
            lines.append("")
        elif part == "\033[A\033[K":
            lines.pop()
            lines[-1] = ""
        elif part in ("\r\033[K", "\r"):
            lines[-1] = ""
        elif part != "\033[K":
            lines[-1] += part
    return "\n".join(lines)


@case("while a terminal waits for the answer, it shows the recorder's; that is erased, and nothing else ever has it")
def headline():
    path = os.path.join(folder(), "t.zst")
    with open(path, "wb") as f:
        f.write(add_digests.add(os.path.join(ROOT, "tests/report/pytorch/recovered/trace.zst")))
    env = {**tap.PLAIN, "TERM": "xterm", "CUTRACE_REPORT_HEADLINE": "always"}
    command = [REPORT, "--color=never", "summary", path]
    code, shown = run_on_terminal(command, 100, stderr="terminal", env=env)
    plain = run_on_terminal(command, 100, stderr=subprocess.DEVNULL, env=env)
    equal((code, screen(shown)), (plain[0], plain[1].decode()))
    d = read("summary", "--json", path)["devices"][0]
    first, second = shown.decode().split("\n")[:2]
    check(first.startswith("by the recorder's notes: GPU 0 had ") and f"{d['peak_bytes'] / 2**30:.2f} GiB" in first, first)
    check(re.match(r"\d+ failed requests? noted; reading [\d ]+ events, about \d+ s$", second), second)
    narrow = run_on_terminal(command, 60, stderr="terminal", env=env)[1]
    check(b"by the recorder" not in narrow and b"failed request" in narrow, narrow)  # (a line that does not fit)
    for more in (["--json"], ["--at=end"], ["--to=oom"]):
        check(b"by the recorder" not in run_on_terminal([*command, *more], 100, stderr="terminal", env=env)[1], more)
    read_end, write_end = os.pipe()
    code, alone = run_on_terminal(command, 100, stderr=write_end, env=env)
    os.close(write_end)
    equal(os.read(read_end, 1), b"", "no terminal as stderr")
    equal(alone, plain[1])
    done = subprocess.run(command, capture_output=True, env=env, check=False)
    check(b"by the recorder" not in done.stdout + done.stderr, "no terminal at all")


# ---- forged notes ----------------------------------------------------------------------------------


def forge_peak(c, live):
    c.peak[0] = c.peak[0][0] + (1 << 40), *c.peak[0][1:]


def forge_failed(c, live):
    c.failed = c.failed[1:]


def forge_ops(c, live):
    c.ops["free"] += 1
    c.ops["alloc"] -= 1


def forge_live(c, live):
    live[0] += 4096
    c.taken[0][0] += 4096


def forge_lost(c, live):
    c.lost += 7


@case("a digest that lies: check names its chunk, and summary warns that the recorder's notes differ from the events")
def forged():
    where, problems = folder(), []
    honest = os.path.join(ROOT, "tests/report/pytorch/recovered/trace.zst")
    chunks = len(read_trace.Trace(honest).heads)
    shown = read("summary", "--json", "--no-journal", honest)
    has = {forge_peak: lambda c: 0 in c.peak, forge_failed: lambda c: c.failed, forge_ops: lambda c: c.ops["alloc"],
           forge_live: lambda c: c.head["seq"] == chunks - 1, forge_lost: lambda c: True}
    for forge in has:
        for number in range(chunks):
            changed = []

            def edit(c, live):
                if c.head["seq"] == number and has[forge](c):  # pylint: disable=cell-var-from-loop
                    forge(c, live)  # pylint: disable=cell-var-from-loop
                    changed.append(c.head)  # pylint: disable=cell-var-from-loop
            path = written(where, add_digests.add(honest, edit=edit))
            if not changed:
                continue
            named = [d["what"] for d in json.loads(report("info", "--json", "--no-journal", path).stdout)["integrity"]["damage"]]
            said = report("summary", "--json", "--no-journal", path)
            if not named or "digest" not in named[0]:
                problems.append(f"{forge.__name__}, chunk {number}: info says {named}")
            if "differs from the events" not in said.stderr or {**json.loads(said.stdout), "file": honest} != shown:
                problems.append(f"{forge.__name__}, chunk {number}: summary says {said.stderr}")
    return problems


@case("several traces are shown one by one, null for one that cannot be read; options that need events are refused")
def several():
    where = folder()
    path, bad = logged(where, 2000), written(where, b"no trace", "bad.zst")
    done = report("--quick", "--json", path, bad, path)
    one, none, other = json.loads(done.stdout)["documents"]
    equal((done.returncode, none, one), (3, None, other))
    schema.check_run(("summary", "--quick", "--json"), done.stdout)
    text = report("--quick", path, path).stdout
    equal((text.count("== "), text.count("no event was read")), (2, 2))
    with open(path, "rb") as f:
        piped = subprocess.run([REPORT, "--quick", "--json", "-"], stdin=f, capture_output=True, env=tap.PLAIN, check=False)
    equal({**json.loads(piped.stdout), "file": path}, one)
    for option in ("--at=peak", "--from=1s", "--to=1s", "--device=0", "--capacity=1GiB", "--fail-on=oom", "--log=x"):
        done = report("summary", "--quick", option, path)
        equal((done.returncode, "--quick does not read" in done.stderr), (2, True), option)


# ---- golden traces ---------------------------------------------------------------------------------


@case("traces of PyTorch, vLLM and real GPUs, with digests by a second implementation: nothing is contradicted")
def golden():
    where, problems, count = folder(), [], 0
    kinds = ("report/golden/traces/*.zst", "report/pytorch/*/trace.zst", "report/vllm/*/trace.zst", "gpu/results/*/*.zst")
    paths = sorted(p for kind in kinds for p in glob.glob(os.path.join(ROOT, "tests", kind)))
    for path in sample((p for p in paths if FULL or os.path.getsize(p) < 40000), 20):
        try:
            data = add_digests.add(path, True)
            check(not read_trace.Trace(path, True).missing)
        except (read_trace.Bad, UnicodeDecodeError, AssertionError):
            continue  # made by hand, with what no recorder writes, or without its beginning
        count += 1
        copy = written(where, data)
        equal(report("info", "--no-journal", copy).returncode, report("info", "--no-journal", path).returncode, path)
        problems += [f"{os.path.relpath(path, ROOT)}: {p}" for p in contradictions(copy)]
    check(count > (20 if FULL else 3), f"only {count} traces")
    note(f"{count} traces")
    return problems


end()
