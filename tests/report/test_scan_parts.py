#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# long: the next redesign removes what it tests
"""The first pass over a trace in parts, between checkpoints (tools/report/replay/SEEK.md, analyze/scan_run.c): each view
prints what it prints of a pass over the whole, byte by byte, and what an independent model counts. What a part cannot know
makes it prove nothing: each such thing has a case here, that is in parts without it.

CUTRACE_REPORT_PARTS=tell divides small traces, and says how many parts there were: no case passes because there was one.
"""
import glob
import json
import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import add_digests  # noqa: E402
import make_checkpoint  # noqa: E402
from death import record_ring  # noqa: E402
from part_program import CHUNK, G, K, M, NATIVE, PHASES, SPACE, TOTAL, Program  # noqa: E402
from tap import FULL, ROOT, case, check, equal, main, report  # noqa: E402
from whole_trace import Whole  # noqa: E402

FOLDER = tempfile.mkdtemp()
VLLM = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/trace.zst")))
TRACE = "TRACE"  # a second time, in a command
VIEWS = (("top", "--json"), ("frag", "--json"), ("summary", "--json"), ("timeline", "--json"), ("oom", "--json"), ("top", "--at=end"),
         ("frag", "--at=peak"), ("top", "--json", "--at=0.0001"), ("summary",), ("timeline",), ("frag",), ("oom",), ("leaks", "--json"),
         ("diff", "--json", TRACE), ("diff", "--at=0.0001", "--at=end"), ("frag", "--from=0.0001", "--json"), ("top", "--device=0", "--json"),
         ("top", "--segments", "--json"), ("summary", "--json", "--from=0.00007"), ("timeline", "--from=0.0001", "--device=0"),
         ("export", "--format=torch"), ("export", "--format=folded"), ("export", "--format=csv"),
         ("frag", "--json", "--at=0.0002"), ("explain", "--json"), ("export", "--format=openmetrics"))
FIRST = VIEWS[:5]
WORKERS = (2, 7, 16)


def write(data, name):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else b"".join(data))
    return path


def printed(view, path, workers, mode="tell", **env):
    """Exit code, output and messages; and what was told of each pass in parts, this kind's and the other kind's."""
    to = os.path.join(FOLDER, "exported")
    more = ("--force", "-o", to) if view[0] == "export" else ()
    code, out, err = report(*(path if a is TRACE else a for a in view), *more, path,
                            env={"CUTRACE_REPORT_PARTS": mode, "CUTRACE_REPORT_WORKERS": str(workers), **env})
    if more:
        with open(to, "rb") as f:
            out = f.read()
        os.unlink(to)
    lines = err.decode().splitlines()
    scans = [line for line in lines if line.startswith("scan parts: ")]
    return (code, out, [line for line in lines if not line.startswith(("scan parts: ", "parts: "))]), scans


def difference(got, want):
    a, b = (str(x) for x in (got, want))
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return ": ...%s, and as a whole: ...%s" % (a[max(at - 300, 0):at + 60], b[max(at - 10, 0):at + 60])


def compare(path, views=VIEWS, workers=WORKERS):
    """The number of parts of each pass: 0 where they proved nothing."""
    found = []
    for view in views:
        want, none = printed(view, path, 0, "no")
        equal(none, [])
        check(len(want[1]) > 30 or want[0], "%r of %s" % (want, path))
        for n in workers:
            got, scans = printed(view, path, n)
            check(got == want, "%s of %s, %d workers, %r" % (" ".join(view), os.path.basename(path), n, scans) + difference(got, want))
            parts = [int(s.split()[-1]) if s[-1].isdigit() else 0 for s in scans]
            check(all(p <= n for p in parts), "%r parts of %d workers" % (parts, n))
            found += parts or [1]
    return found


def in_parts(found):
    return sum(p > 1 for p in found)


def program(seed, name="program.zst", rounds=True, edit=None, **how):
    p = Program(seed, **how)
    return p, write(p.chunks(rounds=rounds, edit=edit), name)


# ---- traces of programs that a model knows --------------------------------------------------------

def check_model(p, path, workers):
    """What `summary` says of each device: peak, lowest reading, what is live, and the number of events."""
    document = json.loads(printed(("summary", "--json"), path, workers)[0][1])
    equal(document["trace"]["events"], len(p.records))
    for d, device in enumerate(document["devices"]):
        equal((device["live_bytes"], device["peak_bytes"], device["free_bytes_min"]), (p.tracked[d], p.peak[d][0], p.low[d]))
        # The peak moves on to the block for which its memory was allocated.
        at = [r["t_ns"] for r in p.records[p.peak[d][1]:] if r["op"] == "block-alloc" or r is p.records[p.peak[d][1]]]
        check(device["peak_t_ns"] in at[:2], "%r of %r" % (device["peak_t_ns"], at[:2]))


MIXES = {"all": {}, "blocks": {"kinds": {"plain": 0, "space": 0}}, "driver": {"kinds": {"block": 0, "space": 0}},
         "spaces": {"kinds": {"space": 9}}, "native": {"stacks": list(NATIVE)}, "phases": {"stacks": list(PHASES)},
         "ranges": {"kinds": {"range": 9}, "stacks": list(NATIVE)}, "NVML": {"kinds": {"nvml": 9, "process": 5}},
         "few readings": {"kinds": {"nvml": 0, "reading": 0.5}}, "frees that fail": {"kinds": {"failed-free": 3}},
         "two devices": {"devices": 2}, "slow": {"slow": True}, "modules": {"kinds": {"module": 6}}}


@case("generated programs without failures: the same, and what the model counts")
def programs():
    found, shown = {}, random.Random(1)
    for seed in range(20 if FULL else 2):
        for name, how in MIXES.items():
            p, path = program(seed, rounds=seed % 2 == 0, **how)
            views = VIEWS if FULL else [*shown.sample(FIRST, 2), *shown.sample(VIEWS[5:], 2)]
            parts = compare(path, views, WORKERS if FULL else (shown.choice(WORKERS),))
            for n in (0, 7):
                check_model(p, path, n)
            found.setdefault(name, []).extend(parts)
    share = {name: "%d/%d" % (in_parts(parts), len(parts)) for name, parts in found.items()}
    check(sum(map(in_parts, found.values())) > sum(map(len, found.values())) / 3, "in parts: %r" % share)
    return "in parts: %r" % share


# ---- what parts can know, and what they cannot ----------------------------------------------------

# A program whose parts can be joined, whatever is put into it.
CALM = {"kinds": {"space": 0, "range": 0, "failed-free": 0, "module": 0}, "quiet": True}
SEAMS = Program(0, **CALM).seams
SEAM = SEAMS[2]
WARM = SEAM - 60  # the checkpoint of that part


def prove(wanted, at=None, seed=0, edit=None, rounds=True, views=FIRST, **how):
    """All passes are in parts, or all prove nothing; and the same is printed."""
    p, path = program(seed, "calm.zst", rounds, edit, at=at, **{**CALM, **how})
    for n in WORKERS if FULL else (7,):
        found = compare(path, views, (n,))
        want = min(n, 6) * wanted
        check(all(parts == want for parts in found), "%d workers: %r, not %d" % (n, found, want))
    return p, path


@case("the peak lies in each of the parts, or in two of them: that of the first one")
def peaks():
    views = (*FIRST[:4], ("top", "--at=peak"), ("frag",))
    for seed, places in enumerate([[30], *([s + 30] for s in SEAMS), [SEAMS[0] + 20, SEAMS[2] + 20], [SEAMS[1], SEAMS[4] + 9], [40, SEAMS[3] - 1]]):
        p, path = prove(True, {n: lambda p: p.fill_to(2 * G) for n in places}, 10 + seed, views=views)
        equal(p.peak[0][0], 2 * G)
        check(places[0] <= p.peak[0][1] < places[0] + 15, "%r" % (p.peak,))
        check_model(p, path, 7)
        equal(json.loads(printed(("top", "--json"), path, 7)[0][1])["devices"][0]["moment"]["event"], p.peak[0][1])


@case("how the fragmentation of PyTorch's pool developed: its worst moments and requests in each stretch, as in the whole")
def fragmentation():
    def long_ago(p):
        p.t += 10 ** 9

    def stop(p):
        p.kinds.update(block=0, plain=0)

    def free(p):
        for ptr in sorted(p.blocks)[::2]:
            p.free_block(ptr)
    found = []
    for seed in range(60 if FULL else 12):
        events = (12, 30, 60)[seed % 3]  # so many stretches have few events, or many
        _, path = program(seed, "curve.zst", chunks=24, events=events, kinds={**CALM["kinds"], "plain": 1, "mark": 9 * (seed % 2)})
        found += compare(path, (("frag", "--json"), ("timeline", "--json")), (7,))
        # One stretch has most of the trace: what counts in it is the worst moment before its last request, in whichever part that is.
        stops = SEAMS[-1] + (seed % 5 - 3) * 40
        _, path = program(seed, "curve.zst", kinds={**CALM["kinds"], "plain": 1}, at={30: long_ago, stops: stop, stops + 5 + seed % 7 * 9: free},
                          touch=False, stacks=list(NATIVE))
        found += compare(path, (("frag", "--json"),), (7,))
    check(in_parts(found) * 2 > len(found), "in parts: %d of %d" % (in_parts(found), len(found)))
    return "%d of %d in parts" % (in_parts(found), len(found))


def lasting(tid, ns):
    """An allocation whose call began so long ago."""
    def add(p):
        ptr, number = p.alloc(M, tid=tid)
        p.records[number]["duration_ns"] = ns(p) if callable(ns) else ns
        del ptr
    return add


def since(n):
    return lambda p: p.t - p.records[n]["t_ns"]


@case("a call that began before the checkpoint proves nothing; one that began behind it, also before the seam, is known")
def calls():
    def read(p):
        p.do_reading()
        p.slow = False
    for seed in range(4 if FULL else 1):
        prove(False, {SEAM + 3: lasting(1, lambda p: p.t - p.records[WARM]["t_ns"] + 10)}, seed)
        prove(True, {SEAM + 3: lasting(1, lambda p: p.t - p.records[WARM]["t_ns"] - 1)}, seed)
        for behind in 0, 1, 3, 40:
            prove(True, {SEAM - 4: read, SEAM - 2: read, SEAM + behind: lasting(1, since(SEAM - 6))}, seed)
        # What was under way when it was read, and ends behind the seam, as readings do.
        prove(True, {SEAM - 2: read, SEAM + 3: lasting(2, since(SEAM - 6)), SEAM + 9: read, SEAM + 12: lasting(3, since(SEAM + 1))}, seed)


@case("a free that may be under way from before the checkpoint on proves nothing, unless that is ten seconds ago")
def frees():
    def free(p):
        ptr, _ = p.alloc(4 * M, tid=5)
        p.plain.pop(ptr)
        p.tracked[0] -= 4 * M
        p.add("free", 5, api="cuMemFree", ptr=ptr, device=0, result=0)
        p.freeing.discard(5)  # it goes on only where the case says so

    def sleep(ns):
        def add(p):
            p.t += ns
        return add
    how = {"kinds": {**CALM["kinds"], "nvml": 0, "reading": 0}}
    prove(False, {WARM - 9: free}, **how)
    prove(False, {WARM - 9: free, WARM + 9: sleep(9_900_000_000)}, **how)
    prove(True, {WARM - 9: free, SEAM - 1: lambda p: p.add("mark", 5, text="goes on")}, **how)
    prove(True, {WARM + 9: free, SEAM + 30: lambda p: p.add("mark", 5, text="goes on")}, **how)
    prove(True, {WARM - 30: free, WARM - 9: sleep(10_100_000_000)}, **how)


def fail(size, tid=1, op="alloc", **more):
    def add(p):
        more.setdefault("stack", 0)
        p.add(op, tid, api="cuMemAlloc", bytes=size, device=0, space=1, result=2, free_bytes=G, total_bytes=TOTAL, **more)
        p.low[0] = min(p.low[0] or G, G)
    return add


@case("a request that failed proves nothing, but in the last part, with its retries, its OOM of PyTorch's and what follows")
def failures():
    last = SEAMS[-1]
    def oom(p):
        fail(200 * G)(p)
        fail(200 * G)(p)
        p.add("block-oom", 1, bytes=200 * G, device=0, stack=1, allocated_bytes=p.allocated[0], reserved_bytes=p.reserved[0])

    def retry(p):
        fail(30 * M, 1)(p)
        p.block(30 * M, p.grow(30 * M, 1), 1)
    views = (*FIRST, ("oom",), ("summary",), ("frag", "--json", "--at=oom"), ("top", "--at=oom"), ("explain", "--json"))
    for seed, failed in enumerate((oom, retry, fail(5 * G), lambda p: (oom(p), retry(p), fail(7 * G)(p)))):
        prove(True, {last + 40: failed, last + 90: retry}, seed, views=views)
        for place in 40, SEAMS[0] + 20, last - 50, last - 1:
            prove(False, {place: failed}, seed, views=views[:3])


@case("contexts that were not measured: unknown behind a checkpoint, and needed where another one begins or ends")
def contexts():
    def create(p):
        p.add("context-create", 1, api="cuCtxCreate", device=0, result=0, context=77)

    def destroy(p):
        p.add("context-destroy", 1, api="cuCtxDestroy", device=0, result=0, context=77)

    def measured(p):
        p.settle()
        free = TOTAL - p.tracked[0] - 600 * M
        p.add("context-create", 1, api="cuCtxCreate", device=0, result=0, context=78, free_before_bytes=free, free_bytes=free - 90 * M,
              total_bytes=TOTAL, duration_ns=0)
        p.low[0] = min(p.low[0] or free, free - 90 * M)
    prove(True, {20: create})
    prove(True, {20: measured, SEAM + 9: destroy})
    prove(True, {20: measured, SEAM - 20: create, SEAM + 9: destroy})
    prove(False, {20: create, SEAM + 9: destroy})
    prove(False, {20: create, SEAM + 9: create})
    prove(False, {20: create, SEAMS[-1] + 9: destroy})


def push(tid, name):
    return lambda p: p.add("range-push", tid, text=name)


def pop(tid):
    return lambda p: p.add("range-pop", tid)


@case("ranges that are open across a seam: known, unless there are too many or their times are rounded")
def ranges():
    native = {"stacks": list(NATIVE)}
    at = {40: push(1, "epoch"), WARM - 20: push(2, "step"), SEAM - 20: push(1, "forward"), SEAM + 20: pop(1), SEAM + 40: pop(2)}
    prove(True, at, **native)
    prove(True, {**at, SEAM + 50: pop(1)}, **native)
    prove(True, at, rounds=False, **native)
    prove(False, at, edit=lambda records, n: [{**r, "t_ns": r["t_ns"] // 100 * 100} for r in records], **native)
    prove(False, {40: lambda p: [p.add("range-push", 1, text="deep") for _ in range(129)], SEAM + 9: pop(1)}, **native)
    prove(True, {40: lambda p: [p.add("range-push", 1, text="deep") for _ in range(128)], SEAM + 9: pop(1)}, **native)


@case("memory that the driver gave before a seam, and what is in it only behind it")
def growth():
    def grow(p):
        p.segment = p.grow(9 * M, 1)

    def use(p):
        p.block(9 * M, p.segment, 1)

    def use_by_other(p):
        p.block(9 * M, p.segment, 2)

    def plain(p):
        p.alloc(M, tid=5)

    def fits(tid):
        def add(p):
            ptr = p.room(512)
            p.block(512, p.grow(512, tid) if ptr is None else ptr, tid)
        return add

    def reserve(p):
        p.space = p.reserve()
        p.map_next(p.space, 5)

    def more(p):
        p.map_next(p.space, 5)

    def inside(p):
        p.block(M, p.space, 5)
    native = {"stacks": list(NATIVE)}
    for seed in range(4 if FULL else 1):
        prove(True, {SEAM - 9: lambda p: (grow(p), use(p))}, seed)
        prove(True, {SEAM: lambda p: (grow(p), use(p))}, seed)
        prove(False, {SEAM - 3: grow, SEAM: use}, seed)  # the segment's first block is behind it
        prove(False, {SEAM - 3: grow, SEAM: use_by_other}, seed)
        # Does the block lie in what the thread got last? That is known from the checkpoint on.
        prove(False, {WARM - 3: plain, SEAM: fits(5)}, seed, **native)
        prove(False, {SEAMS[0] + 9: plain, SEAM: fits(5)}, seed, **native)  # (two parts earlier)
        prove(True, {WARM + 3: plain, SEAM: fits(5)}, seed, **native)
        prove(True, {WARM - 3: plain, SEAM: fits(6)}, seed, **native)
        prove(True, {WARM + 3: fits(5), WARM + 6: plain, SEAM: plain}, seed, **native)
        prove(True, {WARM - 3: plain, SEAM: plain}, seed, **native)
        # Mappings side by side are one request, if no block came between.
        prove(False, {WARM - 3: reserve, SEAM: more}, seed, **native)
        prove(True, {WARM + 3: plain, WARM + 6: reserve, SEAM: more}, seed, **native)
        prove(False, {SEAM - 3: reserve, SEAM: inside}, seed, **native)
        prove(True, {WARM - 15: lambda p: (reserve(p), more(p), inside(p)), SEAM + 3: fits(1), SEAM + 9: more}, seed, **native)


def create(p):
    p.tracked[0] += CHUNK
    p.add("create", 1, api="cuMemCreate", handle=p.next["handle"], bytes=CHUNK, device=0, space=1, result=0, stack=0)


def map_created(p):
    space, has = max(p.spaces.items())
    p.add("map", 1, api="cuMemMap", ptr=space + len(has) * CHUNK, bytes=CHUNK, handle=p.next["handle"], result=0, stack=0)


@case("a peak whose block may come behind the seam proves nothing")
def unfinished_peaks():
    for seed in range(3 if FULL else 1):
        def rise(p):
            p.big = p.alloc(2 * G - p.tracked[0], tid=3)[0]

        def fall(p):
            p.free(p.big)
        prove(False, {SEAM - 2: rise, SEAM: lambda p: (p.free_block(min(p.blocks)), fall(p))}, seed)
        prove(True, {SEAM - 2: rise, SEAM: fall}, seed)
        prove(True, {SEAM - 2: lambda p: (rise(p), fall(p))}, seed)
        still = {"kinds": {**CALM["kinds"], "block": 0, "plain": 0, "reading": 40}, "touch": False, "stacks": list(NATIVE)}
        prove(True, {SEAM - 2: rise, SEAM + 9: fall}, seed, **still)
        # Memory that is mapped behind the seam: the peak moves to the mapping.
        at = {WARM + 3: lambda p: p.alloc(M, tid=1), WARM + 9: Program.do_space, SEAM - 2: create}
        prove(False, {**at, SEAM + 9: map_created}, seed, **still)
        prove(True, at, seed, **still)


@case("a thread that does not show its phase while a part warms up, and needs it: proves nothing")
def phases():
    serve, load = 7, 5

    def call(tid, stack):
        def add(p):
            _, number = p.alloc(M, tid=tid)
            p.records[number]["stack"] = stack
        return add
    how = {"stacks": list(PHASES)}
    prove(True, {WARM - 9: call(4, serve), SEAM + 9: call(4, load)}, **how)
    prove(False, {WARM - 9: call(4, serve), SEAM + 9: call(4, 0)}, **how)
    prove(False, {40: call(4, serve), SEAM + 9: call(4, 0)}, **how)  # (two parts earlier)
    prove(True, {WARM - 9: call(4, serve), WARM + 9: call(4, serve), SEAM + 9: call(4, 0)}, **how)
    prove(True, {SEAM + 9: call(4, 0)}, **how)
    # A range that a checkpoint made up, and that another thread ends while the part warms up: the first one was in it.
    at = {WARM + 9: lambda p: p.add("mark", 6, text="in it"), WARM + 12: lambda p: p.add("range-end", 1, handle=5), SEAM + 9: call(6, 0),
          **{s - 40: call(1, serve) for s in SEAMS}}
    for made_up in 0, 1:
        more = [{"op": "range-start", "t_ns": 999, "thread": (6, "t6"), "event": 0, "text": "none", "handle": 5}] * made_up
        prove(not made_up, at, edit=lambda records, n, more=more: records + (more if n == WARM // 60 else []), touch=False, stacks=list(NATIVE))
    # The last phase of any thread counts for those that never showed one.
    prove(False, {40: call(1, serve)}, touch=False, stacks=list(NATIVE))


@case("memory that slept and was resumed: who did is not in a checkpoint, so nothing is proved")
def resumed():
    def sleep(p):
        p.space = p.address("space", 2 * M)
        p.add("reserve", 1, api="cuMemAddressReserve", ptr=p.space, bytes=2 * M, result=0, stack=5)
        p.spaces[p.space] = []
        p.map_next(p.space)
        (handle, _), = p.spaces[p.space]
        p.add("unmap", 1, api="cuMemUnmap", ptr=p.space, bytes=2 * M, device=0, result=0)
        p.tracked[0] -= 2 * M
        p.add("release", 1, api="cuMemRelease", handle=handle, device=0, result=0)
        p.spaces[p.space] = []

    def wake(p):
        p.map_next(p.space)
    prove(True, {40: sleep})
    prove(False, {40: sleep, 50: wake})
    prove(True, {40: sleep, SEAMS[-1] + 30: wake})
    prove(True, {SEAMS[-1] + 20: lambda p: (sleep(p), wake(p))})


@case("memory that is exported proves nothing, but in the last part")
def exports():
    def export(p):
        ptr = sorted(p.plain)[0]
        p.add("export", 1, api="cuIpcGetMemHandle", ptr=ptr, result=0, device=0)
    views = (*FIRST, ("frag",), ("summary",))
    prove(False, {SEAM + 20: export}, views=views)
    prove(True, {SEAMS[-1] + 20: export}, views=views)


@case("a device that only the first part uses, and a reading that is shown much later: as in the whole")
def early():
    def use(p, size=5 * G):
        p.add("alloc", 1, api="cuMemAlloc", ptr=SPACE, bytes=size, device=1, space=1, result=0, stack=2)
        p.add("free", 1, api="cuMemFree", ptr=SPACE, device=1, result=0)
        p.add("memory-sample", 1, device=1, free_bytes=9 * G, total_bytes=TOTAL)

    def oom(p):
        p.add("block-oom", 1, bytes=200 * G, device=0, stack=1, allocated_bytes=p.allocated[0], reserved_bytes=p.reserved[0])
    still = {"kinds": {**CALM["kinds"], "reading": 0, "nvml": 0}}
    for seed in range(4 if FULL else 2):
        _, path = prove(True, {20: use}, seed)
        found = json.loads(printed(("summary", "--json"), path, 7)[0][1])["devices"]
        equal([(d["ordinal"], d["peak_bytes"]) for d in found][1:], [(1, 5 * G)])
        compare(path, (("top", "--json", "--device=0"), ("export", "--format=openmetrics")), (7,))
        prove(True, {20: use, SEAM + 20: lambda p: use(p, 4 * G)}, seed)
        prove(True, {20: Program.do_reading, SEAMS[-1] + 30: lambda p: p.fill_to(2 * G)}, seed, views=(*FIRST, ("top", "--json", "--at=peak")), **still)
        prove(True, {20: Program.do_reading, SEAMS[-1] + 30: oom}, seed, views=(*FIRST, ("explain", "--json"), ("oom",)), **still)


@case("what is asked for ends before the trace does: it is read as a whole")
def ends():
    _, path = program(0, "ends.zst", **CALM)
    views = [(*view, "--to=0.0001") for view in FIRST[:4]]
    views += [("summary", "--json", how) for how in ("--at=0.0001", "--capacity=20MiB")]
    views.append(("explain", "--json", "--at=#700"))
    for view in views:
        want, _ = printed(view, path, 0, "no")
        check(want[0] != 2, "%r" % (want,))
        got, scans = printed(view, path, 7)
        check(got == want, " ".join(view) + difference(got, want))
        equal(scans, [])
    _, path = prove(True, {30: lambda p: p.add("lost", 1, count=4)}, views=(*FIRST, ("summary",), ("timeline",)))
    check(b"4 events" in printed(("summary",), path, 7)[0][1], "lost events")


@case("blocks of several streams: what an OOM needs of them, and a segment of two streams, prove nothing")
def streams():
    last = SEAMS[-1]

    def use(stream):
        def add(p):
            p.stream = stream
            ptr = p.room(M)
            p.block(M, p.grow(M, 1) if ptr is None else ptr, 1)
        return add

    def oom(p):  # (the free memory of the other streams would be enough)
        fail(20 * M)(p)
        p.add("block-oom", 1, bytes=10 * M, device=0, stack=1, stream=3, allocated_bytes=p.allocated[0], reserved_bytes=p.reserved[0])
    views = (FIRST[2], FIRST[4], ("oom",), ("frag",))
    how = {"kinds": {**CALM["kinds"], "block": 0}, "stacks": list(NATIVE), "views": views, "info": {"torch.block_streams": "current"}}
    prove(True, {20: use(7), last + 5: use(7), last + 30: oom}, **how)
    prove(False, {20: use(7), last + 30: oom}, **how)
    prove(False, {20: use(7), last + 5: use(8), last + 30: oom}, **how)
    prove(False, {20: use(7), SEAM + 9: use(8)}, **how)
    prove(False, {20: use(7), last + 5: use(8)}, **how)
    prove(True, {20: lambda p: (use(7)(p), use(8)(p)), last + 5: use(8), last + 30: oom}, **how)  # (they disagree in the first part)
    prove(True, {20: lambda p: (use(7)(p), use(8)(p)), last + 30: oom}, **{**how, "info": {}})


@case("a checkpoint in the last chunk but one, with no event behind it: no part begins there, or it proves nothing")
def empty():
    for how in ({"chunks": 21}, {"chunks": 20}):
        p = Program(0, **{**CALM, **how})
        path = write(p.chunks(ends_empty=True), "empty.zst")
        found = compare(path, FIRST, (7,))
        equal(in_parts(found), 0 if how["chunks"] == 21 else len(found))


@case("the recorder's notes: parts begin before the first request that failed, and there are none where memory was exported")
def notes():
    def export(p):
        p.add("export", 1, api="cuIpcGetMemHandle", ptr=min(p.plain), result=0, device=0)
    for at, want in (({}, [6]), ({SEAMS[1] + 20: fail(200 * G)}, [3]), ({SEAMS[3] - 20: fail(200 * G)}, [4]), ({SEAM: export}, [])):
        p, path = program(0, "notes.zst", at=at, **CALM)
        data = add_digests.add(path, True)
        path = write(data, "notes.zst")
        for view in FIRST:
            whole, _ = printed(view, path, 0, "no")
            got, scans = printed(view, path, 7)
            check(got == whole, difference(got, whole))
            equal(scans, ["scan parts: %d" % n for n in want])


# ---- checkpoints that lie -------------------------------------------------------------------------

def changed(is_it, **how):
    """A checkpoint with other values in the records that are meant; `how`: field -> function of its value."""
    def edit(records, _):
        return [{**r, **{k: f(r[k]) for k, f in how.items() if k in r}} if is_it(r) else r for r in records]
    return edit


def is_last(r):
    return r["op"] == "memory-sample" and "used_bytes" in r


def is_lowest(r):
    return r["op"] == "memory-sample" and "used_bytes" not in r and "free_before_bytes" not in r


def is_pool(r):
    return r["op"] == "pool-sample"


def is_range(r):
    return r["op"].startswith("range")


def dropped(is_it):
    return lambda records, _: [r for r in records if not is_it(r)]


def more(v):
    return v + 4 * K


def less(v):
    return v - 4 * K


def changed_text(field):
    return lambda records, _: [{**r, field: "other"} if is_range(r) else r for r in records]


LIES = {"free memory": changed(is_last, free_bytes=more), "total": changed(is_last, total_bytes=more), "tracked": changed(is_last, used_bytes=more),
        "tracked, with NVML's": changed(is_last, used_bytes=more, process_bytes=more), "NVML's": changed(is_last, process_bytes=more),
        "unexplained": changed(is_last, bytes=more), "time": changed(is_last, t_ns=lambda t: t - 100),
        "lowest": changed(is_lowest, free_bytes=less), "time of the lowest": changed(is_lowest, t_ns=lambda t: t - 100),
        "no last": dropped(is_last), "no lowest": dropped(is_lowest), "no totals of PyTorch's": dropped(is_pool),
        "reserved": changed(is_pool, reserved_bytes=more), "allocated": changed(is_pool, allocated_bytes=more),
        "modules": changed(lambda r: r["op"] == "module-load", free_before_bytes=more), "no modules": dropped(lambda r: r["op"] == "module-load"),
        "range": changed(is_range, text=lambda s: s + "!"), "event of a range": changed(is_range, event=lambda n: n - 1),
        "thread of a range": changed(is_range, thread=lambda t: (3, "t3")), "no ranges": dropped(is_range),
        "one more range": lambda records, n: records + [{"op": "range-push", "t_ns": 999, "thread": (1, "t1"), "event": 0, "text": "none"}],
        "handle of a range": changed(is_range, handle=lambda h: h + 1), "kind of a range": changed(is_range, op=lambda op: "range-start"),
        "a range's domain": changed_text("domain"), "a range's category": changed_text("category"), "a range's call": changed_text("api")}
# Those that do not matter in the program where blocks and readings come between checkpoint and seam, and tell them anew.
HARMLESS = ["allocated", "no totals of PyTorch's", "reserved", "total", "unexplained"]


@case("a checkpoint that has other readings, ranges or totals than the events: the same, and nothing is proved where it matters")
def lies():
    at = {45: lambda p: p.do_module(), 50: push(1, "epoch"), WARM - 20: push(2, "step"), SEAM + 20: pop(2),
          48: lambda p: p.add("range-start", 1, handle=5, text="run")}
    told = {}
    for what, kinds in (("readings", {}), ("none while it warms up", {"reading": 0, "nvml": 0, "block": 0})):
        def read(p):
            p.settle()
            p.do_reading()
            p.do_nvml()
            p.records[-1]["process_bytes"] = p.tracked[0] + 300 * M
            p.block(M, p.grow(M, 1), 1)
        more_at = {n * 240 + 180: read for n in range(6)}
        how = {"stacks": list(NATIVE), "kinds": {**CALM["kinds"], **kinds}}
        prove(True, {**at, **more_at}, **how)
        for name, edit in LIES.items():
            _, path = program(0, "lie.zst", True, edit, at={**at, **more_at}, **{**CALM, **how})
            found = compare(path, FIRST if FULL else (FIRST[2], random.Random(name).choice(FIRST)), (7,))
            told[name, what] = in_parts(found)
    equal(sorted(name for (name, what), n in told.items() if n and what == "readings"), HARMLESS)
    equal([name for (name, what), n in told.items() if n and what != "readings"], [])


# ---- traces that are found otherwise --------------------------------------------------------------

def divided(path, r):
    """A trace with five checkpoints put into it."""
    whole = Whole(path)
    n = len(whole.records)
    return make_checkpoint.insert(whole, sorted(r.sample(range(n // 5, n - 1), 5)))


@case("traces of vLLM: most are read in parts, and print the same")
def vllm():
    r, found, most = random.Random(3), [], 0
    for path in VLLM if FULL else r.sample(VLLM, 7):
        chunks = divided(path, r)
        views = [v for v in VIEWS if FULL or v in r.sample(FIRST, 2) + r.sample(VIEWS[5:], 1)]
        found.append(compare(write(chunks, "vllm.zst"), views, WORKERS if FULL else (7,)))
        wrapped = compare(write(chunks[1:], "wrapped.zst"), views[:1], (7,))
        check(min(wrapped) > 1 or min(found[-1]) < 2, "in parts, but not behind a gap: %r" % wrapped)
        most += in_parts(found[-1]) * 2 > len(found[-1])
    check(most * 2 >= len(found), "%d of %d in parts" % (most, len(found)))
    return "%d of %d traces, %d of %d passes in parts" % (most, len(found), sum(map(in_parts, found)), sum(map(len, found)))


@case("what call sites have allocated since the start, and when: evidence of a verdict that comes from several parts")
def evidence():
    told = []
    for name in "ballast", "graphs-uncounted", "neighbour":
        path, = [p for p in VLLM if os.path.basename(os.path.dirname(p)) == name]
        told += compare(write(divided(path, random.Random(name)), "evidence.zst"), (("explain", "--json"),), (7,))
    check(in_parts(told) == len(told), "%r" % told)


def replay_moments(p, path, moments):
    """Compares views of each moment with those of replays from the start. The number of replays, and of those from a keyframe."""
    begun = replays = 0
    for n in moments:
        for view in (("top", "--json"), ("frag", "--json"), ("export", "--format=folded")):
            command = (*view, "--at=#%d" % n)
            whole, none = printed(command, path, 7, "no", CUTRACE_REPORT_SEEK="no")
            (code, out, err), scans = printed(command, path, 7, CUTRACE_REPORT_SEEK="tell")
            told = [line for line in err if line.startswith("seek: ")]
            got = code, out, [line for line in err if line not in told]
            equal((none, scans), ([], ["scan parts: 6"]))
            check(got == whole, "%s: %r" % (" ".join(command), told) + difference(got, whole))
            replays += len(told)
            events = [int(line.split()[-1]) for line in told if "event" in line]
            begun += len(events)
            check(n < p.seams[0] or events, "%s: %r" % (" ".join(command), told))
            # No later than the moment, and not before the checkpoint two parts before it.
            check(all(n - 480 < e <= n + 1 for e in events), "%d: %r" % (n, events))
    return replays, begun


@case("replays of a moment begin at keyframes that parts took, and print the same")
def keyframes():
    told = []
    for seed in range(8 if FULL else 2):
        p, path = program(40 + seed, "keyframes.zst", seed % 2 == 0, **CALM)
        told.append(replay_moments(p, path, (60, SEAMS[0] + 20, SEAMS[2] + 70, SEAMS[3] + 5, SEAMS[4] + 20, len(p.records) - 2)))
        # Behind a checkpoint, and behind a seam: the last reading is older, and another one comes before the part's own events.
        at = {n: Program.do_reading for s in SEAMS for n in (s - 65, s - 20)}
        p, path = program(60 + seed, "keyframes.zst", at=at, **{**CALM, "kinds": {**CALM["kinds"], "reading": 0, "nvml": 0}})
        told.append(replay_moments(p, path, [n for s in SEAMS[1:3] for n in (s - 55, s + 9)]))
    return "%d of %d replays" % (sum(begun for _, begun in told), sum(replays for replays, _ in told))


@case("a ring that the recorder wrote, also with bits that are wrong: the same")
def recorded():
    for _ in range(6):  # which readings and calls meet is chance: most rings are read in parts
        path = record_ring("2M", 200_000)
        found = compare(path, VIEWS if FULL else FIRST, WORKERS if FULL else (7,))
        if in_parts(found) > len(found) / 2:
            break
    check(in_parts(found) > len(found) / 2, "parts: %r" % found)
    with open(path, "rb") as f:
        data = bytearray(f.read())
    r = random.Random(9)
    for i in range(12 if FULL else 2):
        hurt = bytearray(data)
        for _ in range(1 + i):
            hurt[r.randrange(len(hurt))] ^= 1 << r.randrange(8)
        compare(write(bytes(hurt), "hurt.zst"), FIRST if FULL else FIRST[i:i + 2], (2, 16) if FULL else (7,))
    return "%d of %d passes in parts" % (in_parts(found), len(found))


if __name__ == "__main__":
    main()
