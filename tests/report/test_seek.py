#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# long: the next redesign removes what it tests
"""Views of a moment, whose second replay begins at a checkpoint (tools/report/replay/SEEK.md): they print what they print
when every replay begins at the start, byte by byte, and what an independent model says is live.

The traces of vLLM are written again by lib/whole_trace.py with the checkpoints of lib/make_checkpoint.py, which share
nothing with the recorder; others are recorded. CUTRACE_REPORT_SEEK=tell says where replays begin, so that no case
passes because nothing was sought.
"""
import glob
import json
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import checkpoint_program  # noqa: E402
import make_checkpoint  # noqa: E402
import whole_trace  # noqa: E402
from checkpoint_program import STACKS  # noqa: E402
from death import record_ring  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace  # noqa: E402
from tap import FULL, ROOT, case, check, equal, main, report  # noqa: E402
from whole_trace import Whole  # noqa: E402

FOLDER = tempfile.mkdtemp()
VLLM = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/trace.zst")))
VIEWS = (("top",), ("top", "--json"), ("top", "--tree"), ("top", "--segments", "--json"), ("frag",), ("frag", "--json"),
         ("export", "--format=folded"))
K, M = 1 << 10, 1 << 20


def write(data, name="t.zst"):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def sought(view, path, mode="tell"):
    """What a view prints and its exit code; and at which events its replays began."""
    to = os.path.join(FOLDER, "exported")
    more = ("--force", "-o", to) if view[0] == "export" else ()
    code, out, err = report(*view, *more, path, env={"CUTRACE_REPORT_SEEK": mode})
    if more:
        with open(to, "rb") as f:
            out = f.read()
    told = [line for line in err.decode().splitlines() if line.startswith("seek: ")]
    err = [line for line in err.decode().splitlines() if not line.startswith("seek: ")]
    return (code, out, err), [int(line.split()[-1]) if "event" in line else 0 for line in told]


def difference(got, want):
    a, b = (str(x) for x in (got, want))
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return ": ...%s, and from the start: ...%s" % (a[max(at - 300, 0):at + 60], b[max(at - 10, 0):at + 60])


def compare(path, moments, views=VIEWS):
    """Compares the views at each moment; how many replays there were, and how many began at a checkpoint."""
    replays = begun = 0
    for moment in moments:
        for view in views:
            command = [*view, *("--at=" + m for m in (moment if isinstance(moment, tuple) else (moment,)))]
            got, events = sought(command, path)
            want, full = sought(command, path, "no")
            what = "%s of %s" % (" ".join(command), os.path.basename(path))
            equal(full, [])
            check(got == want, "%s: begins %r" % (what, events) + difference(got, want))
            replays += len(events)
            begun += sum(e > 0 for e in events)
    return replays, begun


def elapsed(whole, number):
    """The time of a record as an option has it."""
    start = int(whole.info.get("process.start_ns", 0)) or whole.records[0]["t_ns"]
    return "%d.%09d" % divmod(max(whole.records[number]["t_ns"] - start, 0), 10**9)


def numbered(whole):
    """The positions of records that are events."""
    return [i for i, r in enumerate(whole.records) if r["op"] != "amend"]


# ---- traces of vLLM -----------------------------------------------------------------------------

def moments_of(whole, edges, r, count):
    events = numbered(whole)
    return [elapsed(whole, r.choice(events)) for _ in range(count)] + \
        [elapsed(whole, edges[-1]), elapsed(whole, edges[-1] - 1), "oom", "peak"]


@case("at random moments, and at the checkpoint itself, every view prints the same")
def whole_traces():
    r, replays, begun = random.Random(1), 0, 0
    for path in VLLM if FULL else r.sample(VLLM, 5):
        whole = Whole(path)
        n = len(whole.records)
        edges = sorted(r.sample(range(n // 4, n - 1), 3))
        made = write(b"".join(make_checkpoint.insert(whole, edges)), os.path.basename(os.path.dirname(path)) + ".zst")
        a, b = compare(made, moments_of(whole, edges, r, 4 if FULL else 1), VIEWS if FULL else r.sample(VIEWS, 3))
        replays, begun = replays + a, begun + b
    check(begun > replays // 4, "%d of %d replays began at a checkpoint" % (begun, replays))
    return "%d of %d replays began at a checkpoint" % (begun, replays)


@case("the same of diff, at two moments of one trace")
def two_moments():
    r = random.Random(2)
    whole = Whole(VLLM[0])
    n = len(whole.records)
    path = write(b"".join(make_checkpoint.insert(whole, [n // 3, n // 2])))
    pairs = [tuple(elapsed(whole, i) for i in (n // 2 + k, n - 1 - k)) for k in (0, r.randrange(n // 4))]
    begun = compare(path, pairs, (("diff",), ("diff", "--json")))[1]
    check(begun > 0, "nothing was sought")


@case("wrapped, cut, killed, and with a damaged chunk before or behind the checkpoint: the same, damage and exit code, too")
def hurt():
    r, begun = random.Random(3), {}
    for path in VLLM if FULL else VLLM[::24]:
        whole = Whole(path)
        n = len(whole.records)
        edges = [n * k // 12 for k in range(4, 12)]
        chunks = make_checkpoint.insert(whole, edges)

        def damaged(k):
            return b"".join(c if i != k else c[:-40] + bytes(b ^ 0x55 for b in c[-40:]) for i, c in enumerate(chunks))
        for name, data in (("wrapped", b"".join(chunks[2:])), ("cut", b"".join(chunks)[:-len(chunks[-1]) // 2]),
                           ("killed", b"".join(chunks[:-1])), ("damaged before", damaged(2)), ("damaged at", damaged(6)),
                           ("damaged behind", damaged(8)), ("lacks one", b"".join(chunks[:3] + chunks[4:]))):
            made = write(data, name.replace(" ", "-") + ".zst")
            moments = [elapsed(whole, i) for i in (edges[3] + 1, edges[5] - 1, edges[6] + r.randrange(n // 12))]
            begun[name] = begun.get(name, 0) + compare(made, moments, r.sample(VIEWS, 2))[1]
    check(all(begun.values()), "sought: %r" % begun)
    return "sought: %r" % begun


# ---- small programs -----------------------------------------------------------------------------

class Program(checkpoint_program.Program):
    """The same, written to a file."""

    def __init__(self, seed, **how):
        super().__init__(seed, **how)
        self.path = write(self.trace.bytes(), "program-%d.zst" % seed)


@case("readings with calls under way and objects of equal size: the same, and the bytes are the model's")
def programs():
    begun = 0
    for seed in range(40 if FULL else 5):
        p = Program(seed)
        for event in (366, 668, p.random.randrange(400, 1200)):  # soon behind a checkpoint, and anywhere
            t = p.at[event][0]
            moment = "%d.%09d" % divmod(t - 500, 10**9)
            live = [live for at, live in p.at if at == t][-1]
            device, = json.loads(report("top", "--json", "--at=" + moment, p.path)[1])["devices"]
            equal(device["bytes"], live, "seed %d at %s" % (seed, moment))
            begun += compare(p.path, [moment], p.random.sample(VIEWS, 1))[1]
            begun += compare(p.path, [("0.0", moment)], (("diff", "--json"),))[1]  # with the account and the readings
    check(begun > 10, "%d replays began at a checkpoint" % begun)


@case("summary's own moment: what was live before an OOM that is not the last one, and registered memory at the peak: the same")
def own_moment():
    for seed in range(6 if FULL else 2):
        failed = Program(seed + 100, failing={700: 512 * M, 730: M})  # (many requests of 1 MiB succeed later)
        registered = Program(seed + 200, registered=3 * M)
        for p in failed, registered:
            for view in ("summary", "--json"), ("summary",):
                got, events = sought(view, p.path)
                want, none = sought(view, p.path, "no")
                equal(none, [])
                check(got == want, "seed %d: %s" % (seed, difference(got, want)))
                check(any(e > 0 for e in events), "seed %d: begins %r" % (seed, events))
            d = json.loads(report("summary", "--json", p.path)[1])
            if p is failed:
                equal(d["crossing"]["event"], 700)
                equal(sum(h["bytes"] for h in d["live_at_crossing"]), p.at[699][1])
            else:
                equal(d["host_registered_bytes_at_moment"], 3 * M)


@case("a checkpoint that has another state than the events is not used")
def lies():
    for how in True, "swapped":
        p = Program(99, lies=how, parts=1)
        t, live = p.at[-40]
        moment = "--at=%d.%09d" % divmod(t - 500, 10**9)
        (_, out, _), events = sought(("top", "--json", moment), p.path)
        equal(events, [0], how)
        equal(json.loads(out)["devices"][0]["bytes"], live)


@case("what is under way at a reading is known as far ahead as from the start, although batches begin elsewhere")
def under_way():
    t = Trace()
    t.info = {"process.start_ns": "500"}
    late = {256 * k + 20: k * M for k in range(2, 40)}  # their calls begin before the reading, and end far behind it
    held = None
    for i in range(256 * 41):
        now = 1000 * i + 1000
        if i == 300:
            t.flush()
            t.restart()
        if i in (310, 400):
            taken = 0 if i == 310 else sum(late.values())
            t.event("memory-sample", now, device=0, free_bytes=(1 << 40) - taken, total_bytes=1 << 40, tid=1)
        elif i in late:
            t.event("alloc", now, ptr=i << 40, bytes=late[i], device=0, result=0, space="device", tid=100 + i, duration_ns=now - 400000)
        elif held is None:
            held = t.event("alloc", now, ptr=M, bytes=K, device=0, result=0, space="device", stack=STACKS[0], tid=1), now
        else:
            t.event("free", now, ptr=M, tid=1)
            held = None
        if i == 299:
            equal(held, None)
    t.flush(checkpoint=(FIRST_PART | LAST_PART, []), last=True)
    path = write(t.bytes(), "under-way.zst")
    for view in ("diff", "--json"), ("diff",):
        begun = compare(path, [("#401", "#402")], (view,))[1]
        equal(begun, 2, view)


@case("PyTorch's pool, of which memory was freed since its last event and before the checkpoint: what does not add up is the same")
def unreconciled():
    t = Trace()
    t.info = {"process.start_ns": "500"}

    def block(op, now, ptr, allocated, reserved):
        t.event(op, now, ptr=ptr, bytes=M, device=0, stack=STACKS[1], allocated_bytes=allocated * M, reserved_bytes=reserved * M, tid=1)
    one, two = 100 * M, 200 * M
    segment = {}
    for now, ptr in (1000, one), (1100, two):
        segment[ptr] = t.event("alloc", now, ptr=ptr, bytes=20 * M, device=0, result=0, space="device", stack=STACKS[0], tid=1)
    block("block-alloc", 1200, one, 1, 43)
    block("block-alloc", 1300, two, 2, 43)
    block("block-free", 1400, two, 1, 43)
    t.event("free", 1500, ptr=two, tid=1)
    for i in range(30):
        t.event("alloc", 1600 + i, ptr=(1000 + 2 * i) * M, bytes=K, device=0, result=0, space="device", stack=STACKS[2], tid=1)
        t.event("free", 1600 + i, ptr=(1000 + 2 * i) * M, tid=1)
    t.flush()
    t.restart()
    records = [t.record("alloc", 1000, ptr=one, bytes=20 * M, device=0, space="device", stack=STACKS[0], event=0, tid=1, flags=["segment"]),
               t.record("block-alloc", 1200, ptr=one, bytes=M, device=0, stack=STACKS[1], event=2, tid=1),
               t.record("pool-sample", 0, device=0, reserved_bytes=43 * M, allocated_bytes=M)]
    for i in range(10):
        t.event("alloc", 2000 + i, ptr=(5000 + i) * M, bytes=K, device=0, result=0, space="device", stack=STACKS[2], tid=1)
    t.flush(checkpoint=(FIRST_PART | LAST_PART, records), last=True)
    path = write(t.bytes(), "unreconciled.zst")
    number = len(segment) + 4 + 60 + 3
    equal(compare(path, ["#%d" % number], (("frag",), ("frag", "--json"))), (2, 2))
    pool = json.loads(report("frag", "--json", "--at=#%d" % number, path)[1])["devices"][0]["pool"]
    equal((pool["reserved_bytes"], pool["unreconciled_bytes"]), (23 * M, 3 * M))  # 43 were reported, 20 are given back


@case("an event names the state behind it, also among others of the same time")
def of_event():
    t = Trace()
    t.info = {"process.start_ns": "500"}
    for i in range(4):
        t.event("alloc", 1000 + i // 2, ptr=(i + 1) * M, bytes=(i + 1) * K, device=0, result=0, space="device", stack=STACKS[i])
    t.flush(last=True)
    path = write(t.bytes())
    for i in range(4):
        for name in ("#%d", "event:%d"):
            d = json.loads(report("top", "--json", "--at=" + name % i, path)[1])["devices"][0]
            equal((d["bytes"], d["moment"]), (sum(range(1, i + 2)) * K, {"what": "time", "device": None, "event": i,
                                                                       "t_ns": 1000 + i // 2, "known": True}))
    for view in (("frag",), ("leaks",), ("export", "--format=folded"), ("diff", "--at=#0")):
        (code, out, err), _ = sought((*view, "--at=#2"), path)
        equal((code, err), (0, []), view)
        check(view[0] != "export" or sum(int(line.split()[-1]) for line in out.splitlines()) == 6 * K, out)
    for view in ("top", "dump"):
        option = "--from" if view == "dump" else "--at"
        code, _, err = report(view, option + "=#4", path)
        equal((code, err.endswith(b"%s: event 4 is not in this trace\n" % option.encode())), (2, True), err)
    equal(len(report("dump", "--json", "--from=#2", path)[1].splitlines()), 2)
    p = Program(12)
    for i in (500, 900, 1199):
        (_, out, _), events = sought(("top", "--json", "--at=#%d" % i), p.path)
        equal(json.loads(out)["devices"][0]["bytes"], p.at[i][1])
        equal(events, [(i + 1 - 60) // 300 * 300 + 60])
    equal(p.at[658][0] == p.at[659][0], True)  # (an event of the same time is not behind it)
    compare(p.path, ["#658", "#659", "#660", "#700"], (("top", "--json"), ("frag",)))


# ---- recorded -----------------------------------------------------------------------------------

@case("a ring that the recorder wrote, whose checkpoints have rounded times: the same")
def recorded():
    path = record_ring("1M", 150_000)
    d = json.loads(report("summary", "--json", path)[1])
    t = d["trace"]
    times = [t["exact_from_t_ns"] + (t["t_last_ns"] - t["exact_from_t_ns"]) * k // 10 for k in (5, 8, 9)]
    moments = ["%d.%09d" % divmod(x - d["start_ns"], 10**9) for x in times]
    replays, begun = compare(path, moments, (("frag", "--json"), ("top", "--json"), ("frag",)))
    check(begun > replays // 2, "%d of %d" % (begun, replays))


main()
