#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--at in all views that have it: one moment has the same figures in each, and those of an independent replay.

Truth is lib/make_checkpoint.State behind lib/read_trace.py, which share nothing with the report. What summary and explain
say of a trace up to a moment is also what they say of a trace that ends there (lib/whole_trace.py writes it).
"""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import whole_trace  # noqa: E402
from checkpoint_program import Program  # noqa: E402
from make_checkpoint import FOREIGN, HOST, State  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, ROOT, case, check, dice, equal, main, no_lines, read_view, report, scratch  # noqa: E402
from whole_trace import Whole  # noqa: E402

VLLM = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/trace.zst")))
SMALL = [p for p in VLLM if os.path.getsize(p) < 35000]
K, M, G = 1 << 10, 1 << 20, 1 << 30


def read(view, path, *options):
    return read_view(view, *no_lines(view), *options, path)


def write(data, name="t.zst"):
    return scratch(name, data)


def replayed(whole, number):
    """The state behind an event, of the driver's allocations on each device: {device: (bytes, count)}."""
    state, live = State(), {}
    for record in whole.records:
        if record["op"] != "amend" and state.number > number:
            break
        state.apply(record)
    for (kind, _), r in state.live.items():
        if kind in ("address", "handle") and r.get("space") != HOST and not r.get("flags", 0) & FOREIGN and "device" in r:
            had = live.get(r["device"], (0, 0))
            live[r["device"]] = had[0] + r.get("bytes", 0), had[1] + 1
    return state, live


def numbers(whole):
    """The record of each event, by its number."""
    return [r for r in whole.records if r["op"] != "amend"]


def by_device(document):
    return {d["ordinal"]: d for d in document["devices"]}


@case("summary, top, frag and leaks at one event: the bytes and counts of an independent replay")
def same_moment():
    r, compared = dice(21), 0
    for path in VLLM if FULL else r.sample(SMALL, 2):
        whole = Whole(path)
        events = numbers(whole)
        for number in r.sample(range(len(events) // 8, len(events)), 3 if FULL else 1):
            at = "--at=#%d" % number
            what = "%s %s" % (os.path.basename(os.path.dirname(path)), at)
            state, live = replayed(whole, number)
            summary = read("summary", path, at)
            then = by_device(summary)
            for d, (size, count) in live.items():
                equal((then[d]["live_bytes"], then[d]["live_allocations"]), (size, count), what)
                equal(then[d]["live_bytes"], state.devices[d].tracked, what)
                equal(by_device(read("top", path, at))[d]["bytes"], size, what)
                frag = by_device(read("frag", path, at))[d]
                equal((frag["live_bytes"], frag["live_allocations"]), (size, count), what)
                compared += 1
            rows = summary["live_at_moment"]
            equal(sum(h["bytes"] for h in rows), max(size for size, _ in live.values()) if live else 0, what)
            for view in ("summary", "frag", "leaks", "oom", "explain"):
                moment = read(view, path, at)["moment"]
                equal((moment["what"], moment["event"], moment["t_ns"]), ("time", number, events[number]["t_ns"]), what)
    check(compared >= 2, "%d compared" % compared)


def without(document, *keys):
    for key in keys:
        document.pop(key)
    return document


def alike(value):
    """Rows of equal size have the order of the stacks' numbers, which is not that of another file. A label of a call site
    is as long as tells it from the others of the document, which has those of the moment, too; the stack is in it whole."""
    rows = [json.dumps({k: v for k, v in row.items() if k != "site"}) for row in value] if isinstance(value, list) else value
    return sorted(rows) if isinstance(rows, list) else rows


@case("summary and explain up to an event say what they say of a trace that ends there")
def as_if_ended():
    r, failed, quiet = dice(22), 0, 0
    for path in VLLM if FULL else [p for p in VLLM if "/load-model/" in p] + r.sample(SMALL, 1):
        whole = Whole(path)
        events = numbers(whole)
        ooms = [i for i, e in enumerate(events) if e["op"] == "block-oom" or e.get("result") == 2]
        for number in {ooms[-1] if ooms else len(events) - 1, r.randrange(len(events) // 4, len(events))}:
            position = [i for i, e in enumerate(whole.records) if e["op"] != "amend"][number]
            ended = write(b"".join(whole_trace.write(whole.copy(whole.records[:position + 1]))), "ended.zst")
            for view in ("summary", "explain"):
                got, want = read(view, path, "--at=#%d" % number), read(view, ended)
                what = "%s of %s at %d" % (view, path, number)
                for key in ("verdicts", "crossing", "ooms", "incidents", "live_at_crossing", "live_at_peak"):
                    check(alike(got.get(key)) == alike(want.get(key)), "%s: %s differs" % (what, key))
                if view == "summary":
                    for a, b in zip(got["devices"], want["devices"]):
                        # (at instants spread over each file; by how often hooks were called, to the end)
                        a, b = (without(d, "fragmentation", "retries_is_bound") for d in (a, b))
                        check(a == b, "%s: %r differ" % (what, [k for k in a if a[k] != b[k]]))
                    failed, quiet = failed + bool(got["crossing"]), quiet + (not got["crossing"])
    check(failed and quiet, "%d failed, %d quiet" % (failed, quiet))


# ---- failed requests ----------------------------------------------------------------------------

def failing():
    """Three requests fail: a later one of the second one's size succeeds, and PyTorch reports the last one, too."""
    t = Trace()
    t.info = {"process.start_ns": "1000000000"}
    at = [10**9]

    def event(op, **fields):
        at[0] += 10**9
        return t.event(op, at[0], tid=1, device=0, space="device", stack=[("f", "/opt/app", 0x1000)], **fields)

    def fail(size):
        return event("alloc", bytes=size, result=2, free_bytes=M, total_bytes=G)
    event("alloc", ptr=G, bytes=M, result=0)
    ooms = [fail(2 * M)]
    event("alloc", ptr=2 * G, bytes=3 * M, result=0)
    ooms += [fail(5 * M), fail(5 * M)]
    event("free", ptr=2 * G)
    event("alloc", ptr=3 * G, bytes=5 * M, result=0)
    event("alloc", ptr=4 * G, bytes=K, result=0)
    ooms.append(fail(7 * M))
    event("block-oom", bytes=7 * M, allocated_bytes=0, reserved_bytes=0)
    event("free", ptr=3 * G)
    t.flush(last=True)
    return write(t.bytes(), "failing.zst"), ooms


@case("oom describes the last request that had failed by then, with an outcome that came later")
def of_requests():
    path, ooms = failing()
    whole = read("oom", path)
    first = [next(o for o in whole["ooms"] if o["incident"] == k)["event"] for k in range(len(whole["incidents"]))]
    equal([sum(o["incident"] == k for o in whole["ooms"]) for k in range(3)], [1, 2, 2])
    equal((first[0], first[-1], whole["moment"], whole["described"]), (ooms[0], ooms[-1], None, None))
    for number in range(11):
        d = read("oom", path, "--at=#%d" % number)
        want = [k for k, event in enumerate(first) if event <= number]
        equal(d["described"], want[-1] if want else None, "at %d" % number)
        equal(without(d, "moment", "described"), without(read("oom", path), "moment", "described"))
        out = report("oom", "--at=#%d" % number, path)[1].decode()
        if not want:
            check(out.startswith("No OOM occurred up to +"), out)
            continue
        check("OOM %d of %d\n" % (len(want), len(first)) in out.splitlines(True)[0], out)
        equal(out.count("\n  outcome "), 1, out)
        check("event %d: " % whole["ooms"][0]["event"] not in out or want == [0], out)
    out = report("oom", "--at=#%d" % ooms[1], path)[1].decode()
    check("succeeded" in out and "asked for 5.00 MiB" in out, out)
    out = report("oom", "--at=end", "-n", "2", path)[1].decode()
    check("asked for 7.00 MiB" in out and "asked for 5.00 MiB" in out and "asked for 2.00 MiB" not in out, out)
    equal(read("oom", path, "--at=oom")["described"], whole["crossing"]["incident"])
    equal(read("oom", path, "--at=peak")["described"], 1)


@case("summary at oom, peak and end is of the event that the other views name so")
def named():
    path, ooms = failing()
    for at, number, size in (("oom", ooms[-1] + 1, 6 * M + K), ("peak", 7, 6 * M + K), ("end", None, M + K)):
        d = read("summary", path, "--at=" + at)
        equal((d["moment"]["what"], d["moment"]["event"]), (at, number))
        equal(sum(h["bytes"] for h in d["live_at_moment"]), size)
        equal(d["moment"], read("frag", path, "--at=" + at)["moment"])
    equal(read("summary", path)["moment"], None)
    equal(read("summary", path)["live_at_moment"], None)


@case("a retry that came after the moment is not known, and neither is a later failure")
def future():
    path, ooms = failing()
    d = read("summary", path, "--at=#%d" % ooms[2])
    equal((d["crossing"]["requested_bytes"], d["crossing"]["recovered"]), (5 * M, False))
    d = read("summary", path, "--at=#%d" % (ooms[0] - 1))
    equal((d["crossing"], d["ooms"]), (None, []))
    out = report("summary", "--at=#%d" % (ooms[0] - 1), path)[1].decode()
    check(out.startswith("as of +") and "No OOM occurred up to +" in out, out)


@case("of events of one time, only those up to the moment's count")
def of_one_time():
    t = Trace()
    for i in range(4):
        t.event("alloc", 1000, ptr=(i + 1) * G, bytes=(i + 1) * M, device=0, result=0, space="device")
    t.event("alloc", 1000, bytes=G, device=0, result=2, space="device")
    t.flush(last=True)
    path = write(t.bytes(), "one-time.zst")
    for i in range(4):
        d = read("summary", path, "--at=#%d" % i)
        sums = sum(range(1, i + 2)) * M
        equal((d["devices"][0]["live_bytes"], d["devices"][0]["peak_bytes"], sum(h["bytes"] for h in d["live_at_moment"])),
              (sums, sums, sums), i)
        equal((d["crossing"], read("oom", path, "--at=#%d" % i)["described"]), (None, None), i)
    equal(read("oom", path, "--at=#4")["described"], 0)


@case("an event names the state behind it, also among others of the same time")
def of_event():
    t = Trace()
    t.info = {"process.start_ns": "500"}
    for i in range(4):
        t.event("alloc", 1000 + i // 2, ptr=(i + 1) * M, bytes=(i + 1) * K, device=0, result=0, space="device")
    t.flush(last=True)
    path = write(t.bytes())
    for i in range(4):
        for name in ("#%d", "event:%d"):
            d = read("top", path, "--at=" + name % i)["devices"][0]
            equal((d["bytes"], d["moment"]), (sum(range(1, i + 2)) * K, {"what": "time", "device": None, "event": i,
                                                                       "t_ns": 1000 + i // 2, "known": True}))
    to = scratch("exported")
    for view in (("frag",), ("leaks",), ("export", "--format=folded", "--force", "-o", to), ("diff", "--at=#0")):
        code, _, err = report(*view, "--at=#2", path)
        equal((code, err), (0, b""), view)
    with open(to, "rb") as f:
        equal(sum(int(line.split()[-1]) for line in f), 6 * K)
    for view in ("top", "dump"):
        option = "--from" if view == "dump" else "--at"
        code, _, err = report(view, option + "=#4", path)
        equal((code, err.endswith(b"%s: event 4 is not in this trace\n" % option.encode())), (2, True), err)
    equal(len(report("dump", "--json", "--from=#2", path)[1].splitlines()), 2)
    p = Program(12)
    path = write(p.trace.bytes())
    for i in (500, 658, 659, 900, 1199):
        equal(read("top", path, "--at=#%d" % i)["devices"][0]["bytes"], p.at[i][1])


@case("summary's own moment: what was live before an OOM that is not the last one, and memory that is registered at the peak")
def own_moment():
    for seed in range(2):
        p = Program(seed + 100, failing={700: 512 * M, 730: M})  # (many requests of 1 MiB succeed later)
        d = read("summary", write(p.trace.bytes()))
        equal((d["crossing"]["event"], sum(h["bytes"] for h in d["live_at_crossing"])), (700, p.at[699][1]))
        p = Program(seed + 200, registered=3 * M)
        equal(read("summary", write(p.trace.bytes()))["host_registered_bytes_at_moment"], 3 * M)


@case("what was under way at a reading is what allocates within 2,048 events after it, with other readings between or none")
def under_way():
    for readings in (), range(403, 2500, 10):
        t = Trace()
        t.info = {"process.start_ns": "500"}
        late = {250 * k + 20: 2 * k * M for k in range(2, 20)}  # their calls begin before the reading, most end far behind it
        for i in range(5000):
            now = 1000 * i + 1000
            if i in late:
                t.event("alloc", now, ptr=i << 30, bytes=late[i], device=0, result=0, space="device", tid=100 + i, duration_ns=now - 400000)
            elif i in (310, 400):
                taken = sum(late.values()) if i == 400 else 0
                t.event("memory-sample", now, device=0, free_bytes=(1 << 40) - taken, total_bytes=1 << 40, tid=1)
            elif i in readings:
                t.event("memory-sample", now, device=1, free_bytes=1 << 30, total_bytes=1 << 40, tid=2)
            else:
                t.event("mark", now, tid=1)
        t.flush(last=True)
        found, = [d for d in read("summary", write(t.bytes()), "--at=#400")["devices"] if d["ordinal"] == 0]
        expected = sum(size for i, size in late.items() if 400 < i <= 400 + 2048)
        equal(found["memory"]["end"]["in_flight_bytes"], expected, "with %d more readings" % len(readings))


@case("PyTorch's pool at a moment, of which memory was freed since its last event: what does not add up")
def unreconciled():
    t = Trace()
    t.info = {"process.start_ns": "500"}
    one, two = 100 * M, 200 * M
    for now, ptr in (1000, one), (1100, two):
        t.event("alloc", now, ptr=ptr, bytes=20 * M, device=0, result=0, space="device", tid=1)
    for now, op, ptr, allocated in (1200, "block-alloc", one, 1), (1300, "block-alloc", two, 2), (1400, "block-free", two, 1):
        t.event(op, now, ptr=ptr, bytes=M, device=0, allocated_bytes=allocated * M, reserved_bytes=43 * M, tid=1)
    t.event("free", 1500, ptr=two, tid=1)
    number = t.event("alloc", 1600, ptr=1000 * M, bytes=K, device=0, result=0, space="device", tid=1)
    t.event("free", 1700, ptr=1000 * M, tid=1)
    t.flush(last=True)
    pool = read("frag", write(t.bytes()), "--at=#%d" % number)["devices"][0]["pool"]
    equal((pool["reserved_bytes"], pool["unreconciled_bytes"]), (23 * M, 3 * M))  # 43 were reported, 20 are given back


@case("--at is refused of several traces together, and of a text; a moment that is not there is said")
def refused():
    path, _ = failing()
    code, out, err = report("summary", "--at=end", path, path)
    equal((code, out), (2, b""))
    check(b"--at is about one process" in err, err)
    text = write(b"RuntimeError: CUDA error: out of memory\n", "error.txt")
    code, _, err = report("explain", "--at=end", text)
    check(code == 2 and b"--at need one" in err, err)
    t = Trace()
    t.event("alloc", 1000, ptr=M, bytes=M, device=0, result=0, space="device")
    t.flush(last=True)
    quiet = write(t.bytes(), "quiet.zst")
    for view in ("summary", "oom", "explain"):
        code, _, err = report(view, "--at=oom", quiet)
        check(code == 0 and b"there is no such moment; %s describes the peak" % view.encode() in err, err)


main()
