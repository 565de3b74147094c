#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`top --quick` and `frag --quick`: what they say is live at a moment is what `top` and `frag` find by all events, and what
an independent model says; or they say that it is not known, and why.

Traces of vLLM are written again with checkpoints (lib/make_checkpoint.py) and digests (lib/add_digests.py) that share
nothing with the recorder; others are small programs with a model, or recorded.
"""
import collections
import glob
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import add_digests  # noqa: E402
import make_checkpoint  # noqa: E402
from checkpoint_program import STACKS, Program  # noqa: E402
from death import kill, program, run, start, traces, wait_for_calls  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace, packed_columns  # noqa: E402
from tap import FULL, ROOT, case, check, dice, equal, main, no_lines, report, sample, scratch  # noqa: E402
from ways import folder  # noqa: E402
from whole_trace import Whole  # noqa: E402

VLLM = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/trace.zst")))
SMALL = [p for p in VLLM if os.path.getsize(p) < 35000]
K, M = 1 << 10, 1 << 20
Trace.version, Trace.columns = 3, staticmethod(packed_columns)  # as lib/read_trace.py reads


def write(data, name="t.zst"):
    return scratch(name, data)


def noted(data, name="t.zst"):
    """The trace with digests."""
    return write(add_digests.add(write(data, "plain-" + name), True), name)


def pieces(data):
    """The file cut before each chunk."""
    at = [i for i in range(0, len(data), 8) if data[i + 8:i + 16] == b"CUTRCHNK"]
    return [data[a:b] for a, b in zip([0] + at[1:], at[1:] + [len(data)])]


def read(*arguments):
    code, out, err = report(*arguments, *no_lines(arguments[0]), "--json")
    check(code in (0, 4), "%r: exit %d: %s" % (arguments, code, err.decode()))
    return code, json.loads(out)


def sites(d):
    """Bytes and count by kind and innermost frame: how many callers a label has depends on what else a view shows."""
    found = collections.Counter(), collections.Counter()
    for s in d["sites"]:
        key = s["kind"], s["site"].split(" <- ")[0].split(", resumed")[0]
        found[0][key] += s["bytes"]
        found[1][key] += s["count"]
    return tuple(+f for f in found)


def of_top(path, option, *more):
    code, q = read("top", "--quick", option, *more, path)
    _, full = read("top", "--no-journal", option, *more, path)
    if not q["known"]:
        equal((code, q["devices"]), (4, None))
        return q, ["not known: " + q["unknown"]]
    want = {d["ordinal"]: d for d in full["devices"]}
    problems = ["the moment: %r, top: %r" % (q["moment"], d["moment"]) for d in want.values() if q["moment"] != d["moment"]]
    for d in q["devices"]:
        w = want.pop(d["ordinal"])
        if (d["bytes"], d["asleep_bytes"]) != (w["bytes"], w["asleep_bytes"]):
            problems.append("bytes %d, top: %d" % (d["bytes"], w["bytes"]))
        elif d["rows"] == w["rows"] and sites(d) != sites(w):
            problems.append("sites %r, top: %r" % (sites(d), sites(w)))
    problems += ["top has %d bytes of a device more" % w["bytes"] for w in want.values() if w["bytes"] or w["asleep_bytes"]]
    return q, problems


def strip(value):
    """Without times, which a checkpoint may have rounded; and what is equal in size may come in another order, and show
    another of its stacks."""
    if isinstance(value, dict):
        return {k: strip(v) for k, v in value.items() if k != "stack" and not k.endswith("t_ns")}
    return sorted((strip(v) for v in value), key=json.dumps) if isinstance(value, list) else value


def of_frag(path, option):
    _, q = read("frag", "--quick", option, path)
    if not q["known"]:
        return
    _, full = read("frag", "--no-journal", option, path)
    want = {d["ordinal"]: d for d in full["devices"]}
    for d in q["devices"]:
        w = want.pop(d["ordinal"])
        for key in ("live_bytes", "live_allocations", "address_layout"):
            if d[key] != w[key]:
                yield "frag: %s %r, all events: %r" % (key, d[key], w[key])
        for key, value in (d["pool"] or {}).items():
            if strip(value) != strip(w["pool"][key]):
                yield "frag: pool's %s %.300r, all events: %.300r" % (key, value, w["pool"][key])
    yield from ("frag has %d bytes of a device more" % w["live_bytes"] for w in want.values() if w["live_bytes"])


def compare(path, option):
    """What is wrong, or ["not known: ..."]; and the event of the checkpoint."""
    q, problems = of_top(path, option, "--segments")
    problems += of_top(path, option)[1][:0 if not q["known"] else None]
    problems += of_frag(path, option)
    return ["%s of %s: %s" % (option, os.path.basename(path), p) for p in problems] if q["known"] else problems, \
        q["checkpoint_event"]


def elapsed(whole, number):
    start_ns = int(whole.info.get("process.start_ns", 0)) or whole.records[0]["t_ns"]
    return "--at=%d.%09d" % divmod(max(whole.records[number]["t_ns"] - start_ns, 0), 10**9)


# ---- traces of vLLM -----------------------------------------------------------------------------


@case("at random moments of whole traces: the same, from a checkpoint or from the start")
def whole_traces():
    r, begun, count, problems = dice(1), 0, 0, []
    for path in VLLM if FULL else r.sample(SMALL, 2):
        whole = Whole(path)
        n = len(whole.records)
        edges = sorted(r.sample(range(n // 4, n - 1), 3))
        made = noted(b"".join(make_checkpoint.insert(whole, edges)), os.path.basename(os.path.dirname(path)) + ".zst")
        for moment in [elapsed(whole, r.randrange(n)) for _ in range(3 if FULL else 2)] + ["--at=end"]:
            found, checkpoint = compare(made, moment)
            problems, begun, count = problems + found, begun + (checkpoint is not None), count + 1
    check(0 < begun and (begun < count or not FULL), "%d of %d began at a checkpoint" % (begun, count))
    return problems[:5] or "%d of %d began at a checkpoint" % (begun, count)


@case("wrapped, cut, killed, with a damaged prefix or body, or without a chunk: the same, or it says what is not known")
def hurt():
    r, problems = dice(3), []
    known, unknown = collections.Counter(), collections.Counter()
    for path in VLLM if FULL else sample(SMALL, 1):
        whole = Whole(path)
        n = len(whole.records)
        edges = [n * k // 12 for k in range(4, 12)]
        with open(noted(b"".join(make_checkpoint.insert(whole, edges))), "rb") as f:
            chunks = pieces(f.read())

        def changed(k, at):
            return b"".join(c if i != k else c[:at] + bytes((c[at] ^ 0x55,)) + c[at + 1:] for i, c in enumerate(chunks))
        for name, data in (("wrapped", b"".join(chunks[2:])), ("cut", b"".join(chunks)[:-len(chunks[-1]) // 2]),
                           ("killed", b"".join(chunks[:-1])), ("body", changed(6, 160)), ("prefix", changed(6, 40)),
                           ("lacks one", b"".join(chunks[:3] + chunks[4:]))):
            made = write(data, name.replace(" ", "-") + ".zst")
            moments = edges[0], edges[2] + n // 24, edges[5] - 1, edges[5] + n // 24, edges[6] + r.randrange(n // 12), n - 1
            for i in [moments[0], *sample(moments[1:], 1, len(name))]:
                found, _ = compare(made, elapsed(whole, i))
                is_known = not (found and found[0].startswith("not known"))
                (known if is_known else unknown)[name] += 1
                problems += found if is_known else []
    check(not FULL and known and unknown or len(known) == 6 and set(unknown) == {"wrapped", "cut", "killed", "body", "prefix", "lacks one"},
          "known %r, not known %r" % (known, unknown))
    return problems[:5] or "known %r, not known %r" % (dict(known), dict(unknown))


@case("between a damaged chunk and the checkpoint behind it nothing is known, as top says; from its first event on all is")
def behind_damage():
    (path,) = (p for p in VLLM if "/less-than-desired/" in p)
    whole = Whole(path)
    n = len(whole.records)
    edges = [n * k // 12 for k in range(4, 12)]
    with open(noted(b"".join(make_checkpoint.insert(whole, edges))), "rb") as f:
        chunks = pieces(f.read())
    hurt_chunk = bytearray(chunks[6])
    hurt_chunk[160] ^= 0x55
    made = write(b"".join(chunks[:6]) + bytes(hurt_chunk) + b"".join(chunks[7:]), "damaged.zst")
    _, q = read("top", "--quick", elapsed(whole, edges[5]), made)  # the last record of that chunk
    check(not q["known"] and "damaged" in q["unknown"], q)
    found, checkpoint = compare(made, elapsed(whole, edges[5] + 1))
    equal((found, checkpoint is not None), ([], True))


# ---- small programs -----------------------------------------------------------------------------


@case("of events and times: the bytes are the model's, from checkpoints in one part and in several")
def programs():
    begun = 0
    for seed in range(10 if FULL else 3):
        p = Program(seed, parts=1 + seed % 3)
        path = noted(p.trace.bytes(), "program-%d.zst" % seed)
        for event in (0, 299, 300, 366, 668, p.random.randrange(1200), 1199):
            d = read("top", "--quick", "--at=#%d" % event, path)[1]
            equal(d["unknown"], None, "seed %d, event %d" % (seed, event))
            equal(sum(x["bytes"] for x in d["devices"]), p.at[event][1], "seed %d, event %d" % (seed, event))
            check(0 <= p.at[event][0] - d["moment"].pop("t_ns") < 100, "event %d: %r" % (event, p.at[event]))  # (rounded)
            equal(d["moment"], {"what": "time", "device": None, "event": event, "known": True})
            begun += d["checkpoint_event"] is not None
            live = [live for at, live in p.at if at <= p.at[event][0]][-1]
            d = read("top", "--quick", "--at=%d.%09d" % divmod(p.at[event][0] - 500, 10**9), path)[1]
            equal(sum(x["bytes"] for x in d["devices"]), live, "seed %d, time of event %d" % (seed, event))
        equal(compare(path, "--at=end")[0], [])
        equal(compare(path, "--at=#700")[0], [])

    check(begun > 9, "%d began at a checkpoint" % begun)


@case("a free before the moment that failed, as only a later chunk says: its memory is live, and what cannot be read is said")
def failed_free():
    t = Trace()
    t.info = {"process.start_ns": "500"}
    of = {"device": 0, "result": 0, "space": "device", "tid": 7}
    first = t.event("alloc", 1000, ptr=M, bytes=8 * M, stack=STACKS[0], **of)
    t.flush()
    t.restart()
    t.event("alloc", 2000, ptr=99 * M, bytes=K, stack=STACKS[1], **of)
    t.flush(checkpoint=(FIRST_PART | LAST_PART, [t.record("alloc", 1000, ptr=M, bytes=8 * M, device=0, space="device",
                                                         stack=STACKS[0], event=0, tid=7)]))
    t.event("free", 3000, ptr=M, device=0, tid=7)
    t.event("alloc", 4000, ptr=200 * M, bytes=2 * K, stack=STACKS[2], **of)
    t.flush()
    t.event("alloc", 5000, ptr=300 * M, bytes=4 * K, stack=STACKS[3], **of)
    t.flush()
    t.event("amend", 6000, tid=7, amends_ns=3000, result=1)
    t.event("alloc", 7000, ptr=400 * M, bytes=8 * K, stack=STACKS[3], **of)
    t.flush(last=True)
    equal(first, 0)
    path = noted(t.bytes(), "failed.zst")
    for moment in ("--at=#3", "--at=0.0000035", "--at=#4", "--at=end"):
        equal(compare(path, moment), ([], 1), moment)
    d = read("top", "--quick", "--at=#3", path)[1]
    equal((d["devices"][0]["bytes"], d["failed_frees"], d["unread_amends"]), (8 * M + 3 * K, 1, 0))
    code, out, _ = report("top", "--quick", "--at=#3", path)
    check(code == 0 and "1 call to free failed" in out.decode(), out.decode())


@case("a checkpoint with a malformed section is damage: what was live at the moment is not known")
def malformed():
    for records in None, b"\x01\x01\x00\xff\xff\xff\xff":  # (a column that is longer than its section)
        t = Trace()
        t.info = {"process.start_ns": "500"}
        of = {"device": 0, "result": 0, "space": "device", "tid": 7}
        t.event("alloc", 1000, ptr=M, bytes=8 * M, stack=STACKS[0], **of)
        t.flush()
        t.restart()
        t.event("alloc", 2000, ptr=99 * M, bytes=K, stack=STACKS[1], **of)
        was = [t.record("alloc", 1000, ptr=M, bytes=8 * M, device=0, space="device", stack=STACKS[0], event=0, tid=7)]
        t.flush(checkpoint=(FIRST_PART | LAST_PART, records or was))
        t.event("alloc", 3000, ptr=200 * M, bytes=2 * K, stack=STACKS[2], **of)
        t.flush(last=True)
        code, d = read("top", "--quick", "--at=#2", noted(t.bytes(), "malformed.zst"))
        if records:
            check(d["unknown"] and not d["devices"], d)
        else:
            equal((d["unknown"], d["checkpoint_event"] is None, d["devices"][0]["bytes"]), (None, False, 8 * M + 3 * K))


# ---- recorded -----------------------------------------------------------------------------------


def recorded(size="0", threads=2, calls=150_000):
    where = folder()
    _, status = run(program("alloc_free_logged"), threads, calls, 3000, os.path.join(where, "log"), 0, where=where,
                    env={"SIM_LEDGER_MAP": None, "SIM_BACKED": 0, "SIM_MEM_MB": 65536, "CUTRACE_MAX_SIZE": size,
                         "CUTRACE_NVML": 0, "CUTRACE_SAMPLE_MS": 10})
    equal(status, 0)
    path, = traces(where).values()
    return path


@case("a ring that the recorder wrote, and a whole trace: the same at random moments, few events are read")
def rings():
    problems, r = [], dice(5)
    for size in ("1M", "0"):
        path = recorded(size, calls=150_000 if FULL or size != "0" else 20_000)
        d = json.loads(report("summary", "--json", path)[1])["trace"]
        first = d["first_event"] if "first_event" in d else d["overwritten_events"]
        for event in [first + d["events"] * k // 20 for k in (9, 15, 19)] + [first + d["events"] // 2 + r.randrange(d["events"] // 2)]:
            found, checkpoint = compare(path, "--at=#%d" % event)
            problems += found
            check(checkpoint is None if size == "0" else checkpoint, "event %d from %r" % (event, checkpoint))
            q = read("top", "--quick", "--at=#%d" % event, path)[1]
            check(size == "0" or q["replayed_events"] < d["events"] // 2, q["replayed_events"])
        equal(report("top", "--quick", "--at=#%d" % (first + d["events"]), path)[0], 2)
    return problems


@case("killed: the end is that of the file, and a moment behind it is not known")
def killed():
    where = folder()
    p = start(where, program("worker"), "2", "300", "64", "0", "7", env={"CUTRACE_FLUSH_MS": "40", "CUTRACE_UPDATE_MS": "10"})
    wait_for_calls(where, p, 1500)
    path, = traces(where).values()
    while os.path.getsize(path) < 4096 and p.poll() is None:  # the writer's first events come 250 ms after its start, or later
        time.sleep(0.005)
    kill(p, group=False)
    equal(compare(path, "--at=end")[0], [])
    code, out, _ = report("top", "--quick", path)
    check(code == 4 and "no clean end, and the journal was not read" in out.decode(), out.decode())
    code, out, _ = report("frag", "--quick", "--at=99:00:00", path)
    check(code == 4 and "is not known: the trace has no clean end" in out.decode(), out.decode())


# ---- the command line ---------------------------------------------------------------------------


@case("whose figures they are, and what proves them, is in the text; a moment that only all events tell is refused")
def words():
    p = Program(3)
    path = noted(p.trace.bytes(), "words.zst")
    text = report("top", "--quick", "--at=#700", path)[1].decode()
    check("By the recorder's checkpoint before event 660 and 41 events after it" in text.replace("\n  ", " "), text)
    check("not known: peaks, totals and growth" in text and "proof: the same without --quick" in text, text)
    check("By the first 101 events" in report("top", "--quick", "--at=#100", path)[1].decode())
    tree = read("top", "--quick", "--tree", "--at=#700", path)[1]["devices"][0]
    equal((tree["sites"], tree["tree"]["bytes"]), (None, p.at[700][1]))
    for more in ("--at=oom", "--at=peak", "--from=1s", "--to=1s"):
        for view in ("top", "frag"):
            code, _, err = report(view, "--quick", more, path)
            check(code == 2 and b"all events" in err, err)
    code, _, err = report("top", "--quick", "--at=#1200", path)
    equal((code, err.endswith(b"event 1200 is not in this trace\n")), (2, True), err)
    without = report("top", "--quick", "--at=end", "--json", os.path.join(ROOT, "tests/report/golden/traces/ringed.zst"))
    d = json.loads(without[1])
    check(d["known"] or without[0] == 4, d)


main()
