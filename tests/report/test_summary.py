#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What summary and oom conclude: the cause of a failed request, who holds the device, and what is not memory of the GPU.

Most traces are made here, so that the truth is what was put in; of the recorded ones it is counted from their events.
"""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lifetimes import lifetimes_of  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import ROOT, case, check, equal, main, report, sample, scratch  # noqa: E402

M, G, S = 1 << 20, 1 << 30, 10**9
TOTAL = 80 * G
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))


def text(view, path, *options):
    code, out, _ = report(view, *options, path)
    check(code in (0, 4), "%s %s: exit status %d" % (view, path, code))
    return out.decode()


def read(view, path, *options):
    return json.loads(text(view, path, "--json", *options))


def recorded(name):
    return next(path for path in RECORDED if os.path.basename(path) == name)


def save(events):
    """A trace of events, a second apart, on a device of 80 GiB."""
    t = Trace()
    t.info = {"device.0.total_bytes": str(TOTAL)}
    for i, e in enumerate(events):
        fields = {"device": 0, **{k: v for k, v in e.items() if k != "op"}}
        if e.get("op", "alloc") == "alloc":
            fields = {"api": "cuMemAlloc_v2", "result": 0, "space": "device", **fields}
        t.event(e.get("op", "alloc"), S * (i + 1), **fields)
    return t.save(scratch("t.zst"))


def reading(free, own):
    return {"op": "memory-sample", "free_bytes": free, "total_bytes": TOTAL, "process_bytes": own, "flags": ["nvml"], "tid": 9}


def refused(size, free):
    return {"bytes": size, "result": 2, "free_bytes": free, "total_bytes": TOTAL}


def cause_of(path):
    """The sentence of summary, which oom has too, and the object in JSON, without what would not have been enough."""
    (said,) = re.findall(r"^  cause +(.*)$", text("summary", path), re.M)
    check("  cause     %s\n" % said in text("oom", path), text("oom", path))
    document = read("summary", path)["crossing"]["cause"]
    equal(read("oom", path)["crossing"]["cause"], document)
    return said, {k: v for k, v in (document or {}).items() if v not in (None, False)}


# ---- the cause -----------------------------------------------------------------------------------

@case("other processes are a cause where they hold what was missing and at least a twentieth of the device")
def others():
    for held, named in ((20 * G, True), (4 * G, True), (4 * G - 4 * M, False), (8 * M, False)):
        path = save([{"ptr": G, "bytes": 10 * G}, reading(TOTAL - 10 * G - held, 10 * G), refused(TOTAL - 10 * G - held + 6 * M,
                                                                                                TOTAL - 10 * G - held)])
        said, document = cause_of(path)
        equal((said.startswith("6.00 MiB was missing"), "other processes held" in said), (True, named), said)
        equal(document, {"missing_bytes": 6 * M, **({"other_processes_bytes": held} if named else {})}, said)
    for missing, named in ((69 * G, True), (69 * G + 2 * M, False)):
        path = save([{"ptr": G, "bytes": 10 * G}, reading(G, 10 * G), refused(missing + G, G)])
        equal(cause_of(path)[1], {"missing_bytes": missing, **({"other_processes_bytes": 69 * G} if named else {})})


@case("what was missing is of the rounded request, and a request larger than the device has no other cause")
def rounded():
    said, document = cause_of(save([{"ptr": G, "bytes": 60 * G}, refused(10 * G + 1, 10 * G)]))
    equal(document, {"missing_bytes": 2 * M})
    check(said.startswith("2.00 MiB was missing: rounded up to 2 MiB it takes 10.00 GiB (inferred); "), said)
    said, document = cause_of(save([reading(4 * G, 2 * G), refused(81 * G, 4 * G)]))
    equal(document, {"missing_bytes": 77 * G, "exceeds_device": True}, said)


@case("this process's own allocations are named where they hold more than half of the device and nothing else explains it")
def own_allocations():
    for held, named in ((41 * G, True), (40 * G, False)):
        said, _ = cause_of(save([{"ptr": G, "bytes": held}, refused(30 * G, 20 * G)]))
        equal("this process's allocations held" in said, named, said)
    check("held 51.3 % of the device" in cause_of(save([{"ptr": G, "bytes": 41 * G}, refused(30 * G, 20 * G)]))[0])


@case("idle memory of CUDA's pools is a cause where it would have been enough")
def idle_mempool():
    for idle, named in ((512 * M, True), (511 * M, False)):
        path = save([{"op": "pool-create", "pool": 0x900}, {"ptr": G, "bytes": 64 * M, "pool": 0x900, "flags": ["async"]},
                     {"op": "pool-sample", "pool": 0x900, "reserved_bytes": 64 * M + idle, "used_bytes": 64 * M},
                     refused(2 * G, 2 * G - 512 * M)])
        equal(cause_of(path)[1], {"missing_bytes": 512 * M, **({"mempool_idle_bytes": idle} if named else {})})


def pool_events(free_pieces, asked):
    """Segments of 100 MiB whose free ends have these sizes, and a request of PyTorch's that the driver refuses."""
    events, reserved, held = [], 0, 0
    for i, piece in enumerate(free_pieces):
        reserved, held = reserved + 100 * M, held + 100 * M - piece
        at = (64 + i) * G
        events.append({"ptr": at, "bytes": 100 * M, "api": "cudaMalloc", "flags": ["runtime"]})
        events.append({"op": "block-alloc", "ptr": at, "bytes": 100 * M - piece, "reserved_bytes": reserved, "allocated_bytes": held})
    call = {"api": "cudaMalloc", "flags": ["runtime"], **refused(asked, 2 * M)}
    return events + [call, call, {"op": "block-oom", "bytes": asked, "reserved_bytes": reserved, "allocated_bytes": held}]


@case("free memory of PyTorch's pool: in pieces, not enough, or in one piece that was not used")
def pool_in_pieces():
    said, document = cause_of(save(pool_events([30 * M, 20 * M, 30 * M], 40 * M)))
    equal(document["pool"], {"cause": "fragmented", "class": "large", "free_bytes": 80 * M, "free_blocks": 3,
                             "largest_free_bytes": 30 * M, "other_streams": None})
    check("PyTorch's pool had 80.00 MiB free for large requests, but in 3 pieces of at most 30.00 MiB" in said, said)
    said, document = cause_of(save(pool_events([10 * M, 20 * M], 40 * M)))
    check("pool" not in document and "PyTorch's pool" not in said, said)
    said, document = cause_of(save(pool_events([50 * M, 20 * M], 40 * M)))
    equal(document["pool"]["cause"], "fit_unused")
    check("but did not use it (see frag)" in said, said)


@case("on a GPU: pieces of a full pool are those that frag has, and idle segments are those without a block")
def causes_on_a_gpu():
    path = recorded("exhausted.zst")
    document = read("summary", path)
    request = next(r for r in read("frag", path)["devices"][0]["requests"] if r["event"] == document["crossing"]["event"])
    equal({k: request[k] for k in ("cause", "class", "free_bytes", "free_blocks", "largest_free_bytes", "other_streams")},
          document["crossing"]["cause"]["pool"])
    path = recorded("recovered.zst")
    crossing = read("summary", path)["crossing"]
    events = [e for e in map(json.loads, text("dump", path, "--json").splitlines()) if e["event"] < crossing["event"]]
    live = {e["ptr"]: e["bytes"] for e in events if e["op"] == "alloc" and e["result"] == 0}
    blocks = {e["ptr"] for e in events if e["op"] == "block-alloc"} - {e["ptr"] for e in events if e["op"] == "block-free"}
    equal((blocks, crossing["cause"]["pool_idle_bytes"]), (set(), sum(live.values())))
    first = text("summary", path).splitlines()[0]
    check(first.startswith("Recovered from OUT OF MEMORY on GPU 0: ") and "PyTorch's retry succeeded" in first, first)


@case("no cause is made up: host memory, address space, a limit of PyTorch's, free memory that is not known or was enough")
def other_reasons():
    for event, words in (({"api": "cuMemHostAlloc", "bytes": G, "result": 2, "space": "host"}, "page-locked host memory was missing"),
                         ({"op": "reserve", "api": "cuMemAddressReserve", "bytes": G, "result": 2}, "addresses were missing"),
                         ({"op": "block-oom", "bytes": G, "reserved_bytes": 0, "allocated_bytes": 0}, "a limit of its own"),
                         ({"bytes": G, "result": 2}, "not known: the free memory was not read"),
                         (refused(G, 2 * G), "2.00 GiB was free in total, which is enough")):
        said, document = cause_of(save([{"ptr": G, "bytes": M}, event]))
        equal((words in said, document), (True, {}), said)


# ---- the table of a device's memory -------------------------------------------------------------

def held_blocks(path, until):
    """What PyTorch's blocks hold behind an event."""
    return sum(r["bytes"] for r in lifetimes_of(path).rows if (r["kind"], r["device"]) == ("block", 0) and r["event"] <= until and
               (r["end_event"] is None or r["end_event"] > until))


@case("the rows of the memory table add up, indented ones to the row above them; PyTorch's blocks are those of its reports")
def memory_table():
    tables = with_blocks = 0
    for path, options in [(p, ()) for p in RECORDED + GOLDEN] + [(p, ("--capacity=512MiB",)) for p in GOLDEN]:
        out = text("summary", path, "--units=bytes", "--device=0", *options)
        found = re.findall(r"^ +(\d+) +[<>\d.]+ %  ( *)(\w[\w' ]*)", out[:out.find("\nlive ")], re.M)
        if not found:
            continue
        tables += 1
        rows, parts = [], {}
        for n, indent, name in found:
            if indent:
                parts.setdefault(rows[-1], []).append((int(n), name))
            else:
                rows.append((int(n), name))
        for (whole, _), these in parts.items():
            equal(sum(n for n, _ in these), whole, out)
        holders = parts.get(rows[0], [])
        if options:
            continue
        if len(rows) > 1:
            capacity = re.search(r"^GPU 0 .*: (\d+) by ", out, re.M)
            equal(sum(n for n, _ in rows), int(capacity[1]), out)
        blocks = [n for n, name in holders if name == "in PyTorch's blocks"]
        if path in RECORDED and blocks:
            document = read("summary", path)
            until = document["crossing"]["event"] if document["crossing"] else None
            if until is not None:
                equal(blocks, [held_blocks(path, until)], path)
                with_blocks += 1
    check(tables > 15 and with_blocks >= 2, (tables, with_blocks))
    return "%d tables" % tables


@case("memory of a call that had not returned at the failure has a row of its own")
def in_flight():
    path = save([{"ptr": G, "bytes": 20 * G}, {"bytes": 60 * G, "tid": 5, **refused(60 * G, 49 * G)},
                 {"ptr": 90 * G, "bytes": 10 * G, "duration_ns": 3 * S // 2}])
    rows = re.findall(r"^ +([\d.]+ \w+) +[<>\d.]+ %  (\w[\w ]*\w)", text("summary", path), re.M)
    equal(rows[:3], [("20.00 GiB", "tracked"), ("10.00 GiB", "in flight"), ("1.00 GiB", "untracked or of other processes")])


@case("the driver's release is in the line of the trace; a trace that does not have it says nothing of it")
def driver_release():
    for release, want in ((None, "; complete\n"), ("580.159.04", "; complete; driver 580.159.04\n")):
        t = Trace()
        t.info = {"device.0.name": "Test GPU", **({"nvidia.driver_version": release} if release else {})}
        t.event("alloc", S, api="cuMemAlloc_v2", device=0, bytes=M, ptr=G, result=0, space="device")
        path = t.save(scratch("driver.zst"))
        check(want in text("summary", path), text("summary", path))


@case("page-locked host memory and memory of other processes have lines, as of the moment")
def elsewhere():
    before = [{"api": "cuMemHostAlloc", "ptr": 1 << 40, "bytes": 64 * M, "space": "host"},
              {"op": "register", "api": "cuMemHostRegister_v2", "ptr": 1 << 41, "bytes": 5 * M, "space": "host", "result": 0},
              {"op": "register", "api": "cuMemHostRegister_v2", "ptr": 1 << 42, "bytes": 3 * M, "space": "host", "result": 0},
              {"ptr": G, "bytes": 32 * M}, {"ptr": 2 * G, "bytes": 16 * M},
              {"op": "export", "api": "cuIpcGetMemHandle", "ptr": G, "result": 0},
              {"op": "ipc-open", "api": "cuIpcOpenMemHandle_v2", "ptr": 3 << 40, "flags": ["foreign"], "result": 0},
              refused(100 * G, G)]
    after = [{"op": "free", "ptr": 1 << 40, "result": 0}, {"op": "unregister", "ptr": 1 << 41, "result": 0},
             {"op": "unregister", "ptr": 1 << 42, "result": 0}, {"op": "free", "ptr": G, "result": 0}, {"op": "ipc-close", "ptr": 3 << 40, "result": 0}]
    for events in (before, before + after):
        out = text("summary", save(events))
        check("page-locked host memory at that moment: 64.00 MiB allocated, 8.00 MiB registered (see frag)\n" in out, out)
        check("shared at that moment: 32.00 MiB exported in 1 allocation; 1 allocation of others by CUDA IPC, "
              "sizes unknown\n" in out, out)
        d = read("summary", save(events))
        equal((d["host_bytes_at_moment"], d["host_registered_bytes_at_moment"]), (64 * M, 8 * M))
        equal(d["shared_at_moment"], {"exported": 1, "exported_bytes": 32 * M, "opened": 1, "imported": 0, "imported_bytes": 0})
    equal(read("summary", save(before + after))["host_bytes"], 0)
    out = text("summary", save([{"ptr": G, "bytes": M}]))
    check("page-locked" not in out and "shared" not in out, out)


@case("a device on which the process has memory of others alone is none that it uses: where that lies is said once, in each view")
def memory_of_another_device():
    foreign = {"flags": ["foreign"], "result": 0}
    events = [{"ptr": G, "bytes": 32 * M, "device": 1},
              {"op": "import", "api": "cuMemImportFromShareableHandle", "handle": 7, "device": 0, **foreign},
              {"op": "map", "api": "cuMemMap", "handle": 7, "ptr": 1 << 40, "bytes": 6 * M, "device": 1, "result": 0},
              {"op": "ipc-open", "api": "cuIpcOpenMemHandle_v2", "ptr": 3 << 40, "device": 0, **foreign},
              {"ptr": 2 * G, "bytes": 16 * M, "device": 1}]
    given_back = [{"op": "unmap", "ptr": 1 << 40, "bytes": 6 * M, "device": 1, "result": 0}, {"op": "release", "handle": 7, "device": 0, "result": 0},
                  {"op": "ipc-close", "api": "cuIpcCloseMemHandle", "ptr": 3 << 40, "device": 0, "result": 0}]
    here = {"exported": 0, "exported_bytes": 0, "opened": 1, "imported": 1, "imported_bytes": 6 * M}
    for path in (save(events), save(events + given_back)):
        for view in ("summary", "top", "frag", "timeline"):
            equal([d["ordinal"] for d in read(view, path)["devices"]], [1], view)
        equal(read("summary", path)["shared_at_moment"], here)
        equal(read("frag", path)["shared_elsewhere"], [{"ordinal": 0, "shared": here}])
        equal(text("summary", path).count("GPU 0"), 2)
        check("6.00 MiB imported in 1 handle on GPU 0; 1 allocation of others by CUDA IPC on GPU 0, sizes unknown\n"
              in text("summary", path), text("summary", path))
        check("GPU 0, where this process has memory of others only\n" in text("frag", path), text("frag", path))
        check(b"no event is of this GPU" in report("summary", "--device=0", path)[2])
        check("GPU 0" not in text("top", path) + text("timeline", path))
    equal(read("frag", save(events + given_back), "--at=end")["shared_elsewhere"], [])
    # Of the process's own device nothing more is said.
    own = [{**e, "device": 1} for e in events]
    check("6.00 MiB imported in 1 handle; 1 allocation of others by CUDA IPC, sizes unknown\n" in text("summary", save(own)))
    equal(read("frag", save(own))["shared_elsewhere"], [])


@case("the first screen of a run of vLLM or PyTorch has at most 24 lines of 80 columns, on a simulated GPU and on a real one")
def fits():
    here, problems = os.path.dirname(os.path.abspath(__file__)), []
    real = glob.glob("../gpu/results/*/**/*.zst", root_dir=here, recursive=True)
    for path in sorted(glob.glob("vllm/*/trace.zst", root_dir=here) + glob.glob("pytorch/*/trace.zst", root_dir=here) + real):
        os.chdir(os.path.join(here, os.path.dirname(path)))  # (a long path would be a line of its own)
        path = os.path.basename(path)
        lines = report("summary", path, columns=80)[1].decode().splitlines()
        site = 35  # where call sites begin, which a terminal cuts and a pipe does not
        if len(lines) > 24 or any(len(line) > 80 and not line[:site].endswith("  ") for line in lines):
            problems.append(f"{path}: {len(lines)} lines\n" + "\n".join(lines))
    return problems


@case("what is in no allocation has one name in all views: untracked")
def one_name():
    problems = []
    for path in sample(RECORDED, 3) + [recorded("graphs.zst")]:
        for view in ("summary", "oom", "explain", "frag", "leaks", "top", "timeline", "fit"):
            said = text(view, path)
            problems += [f"{view} {path}: {name}" for name in ("not measured", "no call accounts", "in no allocation", "unaccounted") if name in said]
        check("untracked" in text("summary", path), path)
    return problems


@case("the call site that the verdict is about has a row, marked, however small it is and however narrow the screen")
def verdict_site():
    # What each run was made to do (serve.py); three rows are the fewest.
    for name, site, size in (("leak", "serve.py:115 leak", "2.44 GiB"), ("ballast", "serve.py:60 leave_free", "1.77 GiB"),
                             ("wake-up", "serve.py:60 leave_free", "15.36 GiB")):
        path = os.path.join(ROOT, "tests/report/vllm", name, "trace.zst")
        for args, columns in (((), 80), ((), 200), (("-n", "1"), 80)):
            out = report("summary", *args, path, columns=columns)[1].decode()
            rows = [line.split() for line in out[out.index("call site\n"):out.index("more call sites")].splitlines()[1:-1]]
            marked = [r for r in rows if r[-3:] == ["(of", "the", "verdict)"]]
            equal([(" ".join(r[:2]), " ".join(r[5:-3])) for r in marked], [(size, site)], out)
            sums = [float(line.split()[2]) for line in out[out.index("call site\n"):].splitlines()[1:len(rows) + 2]]
            check(abs(sum(sums) - 100) < 0.25, out)


@case("equal calls and incidents are one line, and none is left out of the numbers")
def collapsed():
    stack = [("f", "/a")]
    events = [{"ptr": G, "bytes": 79 * G}] + [e for i in range(40) for e in
                                              ({"stack": stack, **refused(2 * G, G)}, {"ptr": (200 + i) * G, "bytes": M})]
    path = save(events)
    incidents = read("oom", path)["incidents"]
    out = text("oom", path)
    again = [int(n) - 1 for n in re.findall(r"^  in all +(\d+) of this call site", out, re.M)]
    equal(len(re.findall(r"^GPU 0 at ", out, re.M)) + sum(again), len(incidents), out)
    check(again and len(out.splitlines()) < 40, out)


main()
