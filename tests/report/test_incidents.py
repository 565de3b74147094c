#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which failed calls are one incident: against PyTorch's own counters, and against sequences whose truth is in their words."""
import glob
import json
import os
import re
import pickle
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import incidents  # noqa: E402
from mktrace import Trace, packed_columns  # noqa: E402
from tap import REPORT, ROOT, case, check, equal, main, report, sample, scratch  # noqa: E402

M, S = 1 << 20, 10**9
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))


def read(view, path, *more):
    code, out, err = report(view, "--json", *more, path)
    equal((code, err), (0, b""), view)
    return json.loads(out)


def text(view, path):
    return report(view, path)[1].decode()


def exported(path):
    """The `oom` entries of the snapshot for PyTorch's viewer, of all devices: [(size, text)]."""
    out = scratch("out.pickle")
    equal(report("export", "--force", "--top=all", "-o", out, path)[0], 0)
    with open(out, "rb") as f:
        return [(e["size"], e["user_metadata"]) for trace in pickle.load(f)["device_traces"] for e in trace if e["action"] == "oom"]


# ---- what PyTorch counted ----------------------------------------------------------------------------------

def torch_counts(path):
    with open(path[:-4] + ".jsonl") as f:
        points = [p for p in map(json.loads, f) if p.get("kind") == "torch"]
    return points[-1]["retries"], points[-1]["ooms"]


def count_told(path):
    """The incidents that the text tells of: its entries, and what these say of more like them."""
    lines = text("oom", path).splitlines()
    more = [int(m[1]) - 1 for m in (re.match(r"  in all +(\d+) of this call(?: site)? and outcome", line) for line in lines) if m]
    more += [int(m[1]) for m in (re.match(r"(\d+) more incidents?, of other", line) for line in lines) if m]
    return len([line for line in lines if re.match(r"GPU .* at \+", line)]) + sum(more)


def grouped(document):
    """The groups of a document's incidents, that of the crossing first."""
    ooms, groups = {o["event"]: o for o in document["ooms"]}, {}
    for i in document["incidents"]:
        o = ooms[i["event"]]
        key = json.dumps([o[k] for k in ("device", "api", "op", "result", "stack")] +
                         [o["requested_bytes"] is None] + [i[k] for k in ("outcome", "freed_before_retry", "recovered")])
        groups.setdefault(key, []).append((i, o))
    crossing = document["crossing"] and document["crossing"]["event"]
    out = []
    for members in sorted(groups.values(), key=lambda g: all(o["event"] != crossing for _, o in g)):
        i, o = next((m for m in members if m[1]["event"] == crossing), members[0])
        sizes = [o["requested_bytes"] for _, o in members if o["requested_bytes"] is not None]
        out.append({"event": o["event"], "device": o["device"], "api": o["api"], "outcome": i["outcome"], "recovered": i["recovered"],
                    "count": len(members), "smallest_bytes": min(sizes, default=None), "largest_bytes": max(sizes, default=None),
                    "first_event": members[0][1]["event"], "last_event": members[-1][1]["event"], "stack": o["stack"]})
    return out


@case("on a GPU: an incident, which the timeline marks, for each OutOfMemoryError and each retry of PyTorch's, and no others; the "
      "snapshot for PyTorch's viewer has an entry for each error, as PyTorch's own")
def against_pytorch():
    total = 0
    for path in RECORDED:
        retries, ooms = torch_counts(path)
        for view in ("summary", "oom"):
            found = read(view, path)["incidents"]
            failed = [i for i in found if i["outcome"] == "failed"]
            equal((len(failed), len(found), all(i["pytorch"] for i in found)), (ooms, retries, True), path)
        equal(sum(d["retries"] or 0 for d in read("summary", path)["devices"]), retries, path)
        equal([t.partition(" failed in ")[2].partition(";")[0] for _, t in exported(path)], ["PyTorch"] * ooms, path)
        equal(sum(c["oom_count"] for d in read("timeline", path)["devices"] for c in d["columns"]), retries, path)
        total += retries
    check(len(RECORDED) >= 13 and total >= 4, "%d traces, %d retries" % (len(RECORDED), total))


@case("on a GPU: the incidents are those of the other implementation")
def against_the_model():
    for path in sample(RECORDED, 4):
        events = check_ledger.read_trace(REPORT, path)
        equal(shape(read("oom", path)), [(i["parts"], i["head"], i["pytorch"], i["retried"], i["recovered"])
                                         for i in incidents.find(events, [e["event"] for e in events])], path)


@case("on a GPU: the text counts one error and two retries where five calls failed")
def in_words():
    (path,) = [p for p in RECORDED if p.endswith("/exhausted.zst")]
    words = "1 incident (2 more recovered by PyTorch freeing memory and retrying)"
    check(text("oom", path).startswith(words + "\n"), text("oom", path))
    equal(count_told(path), 3)


# ---- sequences ---------------------------------------------------------------------------------------------

class Story:
    """Events a millisecond apart. A call is "fails" or "gets"; PyTorch's blocks are of device `device`."""

    def __init__(self):
        self.t = Trace()
        self.t.version, self.t.columns = 3, packed_columns
        self.t.info = {"process.start_ns": "0", "device.0.total_bytes": str(1 << 30), "device.1.total_bytes": str(1 << 30)}
        self.now, self.ptr = S, 0x7000000000
        self.events = []

    def event(self, op, **fields):
        self.now += 10**6
        self.events.append({"op": op, **fields})
        self.t.event(op, self.now, **fields)
        return len(self.events) - 1

    def fails(self, size, tid=1, device=0, op="alloc", api="cudaMalloc", **more):
        more = {"space": "device", "free_bytes": M, "total_bytes": 1 << 30, **more}
        return self.event(op, tid=tid, device=device, bytes=size, result=2, api=api, **more)

    def gets(self, size, tid=1, device=0, op="alloc", api="cudaMalloc", **more):
        self.ptr += 1 << 32
        return self.event(op, tid=tid, device=device, bytes=size, result=0, ptr=self.ptr, api=api, **{"space": "device", **more})

    def frees(self, tid=1):
        return self.event("free", tid=tid, ptr=0x123, api="cudaFree")

    def block(self, size, tid=1, device=0, at=None):
        return self.event("block-alloc", tid=tid, device=device, bytes=size, ptr=at or self.ptr, allocated_bytes=size, reserved_bytes=size)

    def block_free(self, tid=1):
        return self.event("block-free", tid=tid, device=0, bytes=512, ptr=0x99, allocated_bytes=0, reserved_bytes=0)

    def block_oom(self, size, tid=1, device=0):
        return self.event("block-oom", tid=tid, device=device, bytes=size, allocated_bytes=0, reserved_bytes=0)

    def save(self, name="story.zst"):
        return self.t.save(scratch(name))


def shape(document):
    return [(i["parts"], i["event"], i["pytorch"], i["outcome"] == "retried", i["recovered"]) for i in document["incidents"]]


def tell(story, want, crossing, exports=None):
    """want: [(parts, head, pytorch, retried, recovered)]; every view tells the same."""
    path = story.save()
    summary, oom = read("summary", path), read("oom", path)
    equal(shape(summary), want)
    equal(shape(oom), want)
    equal([(i["parts"], i["head"], i["pytorch"], i["retried"], i["recovered"]) for i in incidents.find(story.events)], want,
          "the other implementation")
    for d in (summary, oom):
        equal(d["crossing"] and d["crossing"]["event"], crossing)
        equal(d["incident_groups"], grouped(d))
        equal(sorted(e for i in d["incidents"] for e in i["parts"]), [o["event"] for o in d["ooms"]], "each in one incident")
        for o in d["ooms"]:
            check(o["event"] in d["incidents"][o["incident"]]["parts"], o)
    equal(sum(c["oom_count"] for d in read("timeline", path)["devices"] for c in d["columns"]), len(want))
    if any(e["op"] in ("block-alloc", "block-free") for e in story.events):  # (else retries is null)
        equal(sum(d["retries"] or 0 for d in summary["devices"]), sum(w[2] for w in want), "retries")
    equal(len(exported(path)), len([w for w in want if not w[3]]) if exports is None else exports, "exported")
    equal(count_told(path), len(want), text("oom", path))
    check("of this call site" not in text("oom", path) or any(o["stack"] for o in oom["ooms"]), "a call site that is not known")
    return path


@case("PyTorch's two calls and its report are one incident")
def one_error():
    s = Story()
    parts = [s.fails(24 * M), s.frees() and s.fails(24 * M), s.block_oom(24 * M)]
    tell(s, [(parts, parts[2], True, False, False)], parts[2])


@case("a retry that gets the memory is one incident that the program did not notice; it is no entry of the snapshot")
def one_retry():
    s = Story()
    first = s.fails(24 * M)
    s.frees()
    second = s.fails(24 * M)
    s.frees()
    s.gets(24 * M)
    s.block(23 * M)
    path = tell(s, [([first, second], first, True, True, True)], first)
    check("1 incident, recovered by PyTorch freeing memory and retrying\n" in text("oom", path))
    check("PyTorch's retry succeeded" in text("summary", path))


@case("where nothing was freed in between, nothing is said to have been")
def a_retry_without_frees():
    s = Story()
    first = s.fails(24 * M)
    s.gets(24 * M)
    s.block(24 * M)
    path = tell(s, [([first], first, True, True, True)], first)
    check("1 incident, recovered by PyTorch retrying\n" in text("oom", path), text("oom", path))
    check("freed" not in text("oom", path))


@case("two threads out of memory at the same time are two incidents, whatever the order of their calls")
def interleaved():
    s = Story()
    a = [s.fails(24 * M, tid=1)]
    b = [s.fails(24 * M, tid=2)]
    a.append(s.fails(24 * M, tid=1))
    b.append(s.fails(24 * M, tid=2))
    b.append(s.block_oom(24 * M, tid=2))
    a.append(s.block_oom(24 * M, tid=1))
    tell(s, [(a, a[2], True, False, False), (b, b[2], True, False, False)], a[2])


@case("one thread gets its memory while the other fails")
def one_of_two():
    s = Story()
    a, b = s.fails(24 * M, tid=1), s.fails(30 * M, tid=2)
    s.frees(tid=1)
    s.gets(24 * M, tid=1)
    again = s.fails(30 * M, tid=2)
    s.block(24 * M, tid=1)
    end = s.block_oom(30 * M, tid=2)
    tell(s, [([a], a, True, True, True), ([b, again, end], end, True, False, False)], end)


@case("without PyTorch: attempts of one size are one incident, a smaller size is another")
def halved():
    s = Story()
    a = [s.fails(64 * M), s.fails(64 * M)]
    b, c = s.fails(32 * M), s.fails(16 * M)
    s.gets(8 * M)
    d = s.fails(64 * M)
    tell(s, [(a, a[1], False, False, False), ([b], b, False, False, False), ([c], c, False, False, False), ([d], d, False, False, False)], d)


@case("without PyTorch: a later success of the same size recovers the incident, one of another size does not")
def later_success():
    s = Story()
    a = [s.fails(64 * M), s.fails(64 * M)]
    s.gets(64 * M)
    b = s.fails(48 * M)
    s.gets(32 * M)
    path = tell(s, [(a, a[0], False, False, True), ([b], b, False, False, False)], b)
    check("2 incidents, 1 followed by a success of the same size\n" in text("oom", path), text("oom", path))


@case("PyTorch's: a block of up to 1 MiB more may be the request that failed; a larger one, a smaller one and a small block's are not")
def later_block():
    for asked, got, recovered in ((24 * M, 25 * M, True), (24 * M, 25 * M + 512, False), (24 * M, 24 * M - 512, False),
                                  (M // 2, M, False), (M + 512, 2 * M + 512, True)):
        s = Story()
        parts = [s.fails(24 * M), s.fails(24 * M), s.block_oom(asked)]
        s.event("block-free", tid=2, device=0, bytes=512, ptr=0x99, allocated_bytes=0, reserved_bytes=0)
        s.block(got, tid=2, at=0x123000000)
        path = tell(s, [(parts, parts[2], True, False, recovered)], parts[2])
        check(("which may be for this size, was handed out" in text("oom", path)) == recovered, text("oom", path))


@case("a success in between separates two requests of one size")
def success_between():
    s = Story()
    a = s.fails(64 * M)
    s.gets(2 * M)
    b = s.fails(64 * M)
    tell(s, [([a], a, False, False, False), ([b], b, False, False, False)], b)


@case("one thread, two devices: two incidents")
def two_devices():
    s = Story()
    a, b = s.fails(64 * M, device=0), s.fails(64 * M, device=1)
    tell(s, [([a], a, False, False, False), ([b], b, False, False, False)], b)


@case("a library's own failure before PyTorch's request is no part of it, and no retry of PyTorch's")
def a_library_first():
    s = Story()
    s.gets(2 * M)
    s.block(512)
    a = s.fails(64 * M, api="cuMemAlloc_v2")
    s.gets(24 * M)
    s.block(24 * M)
    b = s.fails(8 * M, api="cuMemAlloc_v2")
    c = [s.fails(24 * M), s.fails(24 * M), s.block_oom(24 * M)]
    d = s.fails(8 * M, api="cuMemAlloc_v2")
    e = s.block_oom(24 * M)  # a limit of PyTorch's: 8 MiB cannot have been for it
    path = tell(s, [([a], a, False, False, False), ([b], b, False, False, False), (c, c[2], True, False, False),
                    ([d], d, False, False, False), ([e], e, True, False, False)], e)
    equal([o["reason"] for o in read("oom", path)["ooms"] if o["op"] == "block-oom"], ["not-enough-free", "pool-limit"])


@case("a block that is freed ends a request: what fails next is another")
def a_block_between():
    s = Story()
    a = s.fails(24 * M)
    s.block_free()
    b = s.fails(24 * M)
    c = s.block_oom(24 * M)
    tell(s, [([a], a, False, False, False), ([b, c], c, True, False, False)], c)


@case("an expandable segment: parts that were created and released again are not the memory that was asked for")
def expandable():
    s = Story()

    def attempt(handles, last):
        for h in handles:
            s.event("create", tid=1, device=0, bytes=20 * M, handle=h, result=0, space="device", api="cuMemCreate")
        if last == "fails":
            failed = s.fails(20 * M, op="create", api="cuMemCreate")
            for h in handles:
                s.event("release", tid=1, handle=h, api="cuMemRelease")
            return failed
        for i, h in enumerate(handles):
            s.event("map", tid=1, ptr=0x6000000000 + i * 20 * M, bytes=20 * M, handle=h, result=0, api="cuMemMap")
        return s.block(50 * M, at=0x6000000000)

    s.event("reserve", tid=1, device=0, ptr=0x6000000000, bytes=1 << 32, result=0, api="cuMemAddressReserve")
    a = attempt([11, 12], "fails")
    attempt([13, 14, 15], "maps")
    s.event("block-free", tid=1, device=0, bytes=50 * M, ptr=0x6000000000, allocated_bytes=0, reserved_bytes=60 * M)
    b = [attempt([21, 22], "fails"), attempt([23], "fails"), s.block_oom(80 * M)]
    tell(s, [([a], a, True, True, True), (b, b[2], True, False, False)], b[2])


@case("graphs, IPC and pools: a call that does not say how much it wanted repeats nothing")
def other_calls():
    s = Story()
    a = [s.fails(8 * M, op="graph-alloc", api="cuGraphAddMemAllocNode"), s.fails(8 * M, op="graph-alloc", api="cuGraphAddMemAllocNode")]
    b, c = (s.event("ipc-open", tid=1, device=0, result=2, api="cuIpcOpenMemHandle_v2") for _ in range(2))
    d = s.block_oom(8 * M)  # no graph's call is for a block
    e = [s.fails(9 * M, flags=["async"], api="cudaMallocAsync"), s.fails(9 * M, flags=["async"], api="cudaMallocAsync")]
    tell(s, [(a, a[1], False, False, False), ([b], b, False, False, None), ([c], c, False, False, None),
             ([d], d, True, False, False), (e, e[1], False, False, False)], e[1])


@case("host memory and address space are requests of their own, and cross capacity only alone")
def host():
    s = Story()
    a = s.fails(64 * M)
    h = [s.fails(64 * M, space="host", api="cuMemHostAlloc")]
    b = s.fails(64 * M)
    h.append(s.fails(64 * M, space="host", api="cuMemHostAlloc"))
    s.gets(64 * M, space="host", api="cuMemHostAlloc")
    r = s.fails(1 << 40, op="reserve", api="cuMemAddressReserve", space=None)
    tell(s, [([a, b], b, False, False, False), (h, h[0], False, False, True), ([r], r, False, False, False)], b, exports=1)
    s = Story()
    h = s.fails(64 * M, space="host", api="cuMemHostAlloc")
    tell(s, [([h], h, False, False, False)], h, exports=0)


@case("where all incidents were recovered, the crossing is one that the program noticed, the first of them")
def all_recovered():
    s = Story()
    a = s.fails(24 * M)
    s.gets(24 * M)
    s.block(24 * M)
    b = [s.fails(30 * M), s.block_oom(30 * M)]
    s.block_free()
    s.gets(30 * M)
    s.block(30 * M)
    path = tell(s, [([a], a, True, True, True), (b, b[1], True, False, True)], b[1])
    check("; a request of this size succeeded " in text("summary", path), text("summary", path))
    check("1 incident, followed by a success of the same size (1 more recovered by PyTorch retrying)" in text("oom", path))


@case("a call in another thread that gets the same size is no retry of PyTorch's")
def another_threads_success():
    s = Story()
    a = [s.fails(24 * M, tid=1)]
    s.gets(24 * M, tid=2)
    a += [s.fails(24 * M, tid=1), s.block_oom(24 * M, tid=1)]
    tell(s, [(a, a[2], True, False, False)], a[2])


# ---- calls that take memory and are no allocations ------------------------------------------------------------------

# (op, function, more fields): `bytes` of the last ones are no request.
OTHERS = [("memory-sample", "cudaGraphInstantiateWithFlags", {"flags": ["graph"], "free_before_bytes": 2 * M}),
          ("memory-sample", "cuGraphUpload", {"flags": ["graph"]}), ("memory-sample", "cuGraphLaunch", {"flags": ["graph"]}),
          ("memory-sample", "cuLaunchKernel", {}), ("memory-sample", "cuStreamCreate", {}),
          ("memory-sample", "cuEventCreate", {}), ("module-load", "cuModuleLoadData", {"free_before_bytes": 2 * M}),
          ("module-load", "cuModuleGetFunction", {}), ("pool-create", "cuMemPoolCreate", {}),
          ("import", "cuMemImportFromShareableHandle", {}), ("export", "cuMemExportToShareableHandle", {}),
          ("retain", "cuMemRetainAllocationHandle", {}), ("access", "cuMemSetAccess", {"bytes": 64 * M}),
          ("limit", "cuCtxSetLimit", {"bytes": 4096})]
NONE = ("free", "release", "unmap", "unreserve", "unregister", "graph-free", "pool-destroy", "pool-trim", "ipc-close",
        "context-destroy", "module-unload", "note")


def other(s, op, api, result=2, **more):
    return s.event(op, tid=1, device=0, result=result, api=api, **{"free_bytes": M, "total_bytes": 1 << 30, **more})


def of_other(op, api, more):
    @case("%s of %s: a failed request in every view, of unknown size" % (op, api))
    def _():
        s = Story()
        s.gets(600 * M)
        s.gets(4096)
        a = other(s, op, api, **more)
        s.gets(64 * M)  # neither this success nor the next ones are its repetition
        s.gets(4096)
        for result in (0, 1, 400):
            other(s, op, api, result=result, **more)
        s.frees()
        path = tell(s, [([a], a, False, False, None)], a)
        o = read("oom", path)["ooms"][0]
        equal([o[k] for k in ("op", "api", "requested_bytes", "rounded_bytes", "free_before_bytes", "free_bytes", "reason", "cause",
                              "recovered")],
              [op, api, None, None, more.get("free_before_bytes"), M, "size-unknown", None, None])
        head = "%s asked for an unknown size; 1.00 MiB " % api
        before = "2.00 MiB was free before it, 1.00 MiB after it" if "free_before_bytes" in more else "1.00 MiB was free"
        cause = "the call does not say how much it needs; %s" % before
        for view, free in (("summary", "was free"), ("oom", "of 1.00 GiB was free")):
            told = " ".join(text(view, path).split())
            check(head + free in told and cause in told, told)
        told = " ".join(text("oom", path).split())
        check("%s, size unknown: " % api in told and "failed; whether a later request got this memory is not known" in told, told)
        for moment in (read("frag", path)["moment"], read("top", path, "--at=oom")["devices"][0]["moment"]):
            equal((moment["what"], moment["event"]), ("oom", a))
        device = read("frag", path)["devices"][0]
        equal((device["ooms_size_unknown"], device["ooms_free_unknown"], device["ooms_despite_free"]), (1, 0, []))
        check("1 OOM, where the size of the request is not known" in text("frag", path), text("frag", path))
        equal([size for size, _ in exported(path)], [0])


for other_op, other_api, other_more in OTHERS:
    of_other(other_op, other_api, other_more)


@case("a call that releases, or says nothing of memory, is no request for memory, whatever it returns")
def no_requests():
    s = Story()
    s.gets(600 * M)
    for op in NONE:
        s.event(op, tid=1, device=0, result=2, api="cuX", ptr=0x123, handle=0x55, context=0x77)
    tell(s, [], None)


@case("a context that no longer fits: nothing is known but that it failed")
def a_context():
    s = Story()
    a = s.event("context-create", tid=1, device=0, result=2, api="cuDevicePrimaryCtxRetain", flags=["primary"])
    path = tell(s, [([a], a, False, False, None)], a)
    check("the call does not say how much it needs, and what was free was not read" in " ".join(text("summary", path).split()))


@case("the one that the program died of is the headline, not an earlier one that a retry healed")
def the_fatal_one():
    s = Story()
    first = s.fails(24 * M)
    s.frees()
    s.gets(24 * M)
    s.block(24 * M)
    a = other(s, "memory-sample", "cudaGraphInstantiateWithFlags", flags=["graph"], free_before_bytes=M)
    path = tell(s, [([first], first, True, True, True), ([a], a, False, False, None)], a)
    check("OUT OF MEMORY on GPU 0" in text("summary", path) and "cudaGraphInstantiateWithFlags" in text("summary", path))
    said = text("oom", path)
    check(said.startswith("1 incident (1 more recovered by PyTorch freeing memory and retrying)\n"), said)
    equal([int(n) for n in re.findall(r"^GPU 0 at .*, event (\d+):", said, re.M)], [a, first], "what the program died of comes first")


@case("a program that tries again and again: a few groups, one screen, a page and a bundle of a few MiB")
def again_and_again():
    s, r, want = Story(), random.Random(7), []
    for k in range(4000):
        where = [("grow", "app", 0x10)] if k % 3 else [("fill", "app", 0x20)]
        a = s.fails(r.randrange(1, 1 << 30), tid=1 + k % 2, stack=where)
        want.append(([a], a, False, False, False))
    path = s.save()
    oom, summary = read("oom", path), read("summary", path)
    equal((shape(oom), oom["crossing"]["event"]), (want, 3999))
    equal((shape(summary), [o["event"] for o in summary["ooms"]]), (want[:1000], list(range(1000))))
    equal((oom["incident_groups"], summary["incident_groups"]), (grouped(oom),) * 2)
    equal([g["count"] for g in oom["incident_groups"]], [1334, 2666])  # fill failed last
    said = text("oom", path)
    check(len(said.splitlines()) < 40 and count_told(path) == 4000, said)
    page, bundle = (scratch(name) for name in ("again.html", "again.zip"))
    for command, to in (("html", page), ("bundle", bundle)):
        equal(report(command, "-o", to, path)[0], 0, command)
        check(os.path.getsize(to) < 3000000, f"{to}: {os.path.getsize(to)} bytes")
    with open(page, encoding="utf-8") as f:
        check("1334 of this call site and outcome" in f.read(), "the page's table")


@case("several processes: one that died of a launch has failed")
def in_processes():
    s = Story()
    s.gets(600 * M)
    a = other(s, "memory-sample", "cuLaunchKernel")
    beside = Story()
    beside.t.trace_id = 0x99
    beside.gets(64 * M)
    paths = s.save(), beside.save("beside.zst")
    document = json.loads(report("--json", *paths)[1])["processes"]
    equal(document["schema"], "cutrace.processes/2")
    failed, quiet = document["processes"]
    equal([failed["incidents_failed"], *(failed["crossing"][k] for k in ("event", "requested_bytes", "reason", "recovered"))],
          [1, a, None, "size-unknown", None])
    equal((quiet["incidents_failed"], quiet["crossing"]), (0, None))
    check("cuLaunchKernel asked for an unknown size: " in report(*paths)[1].decode())


main()
