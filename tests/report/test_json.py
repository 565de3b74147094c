#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON contract: tools/report/views/JSON.md against the program's output for the golden traces."""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import traces  # noqa: E402
from mktrace import OPS, Trace  # noqa: E402
from tap import ROOT, case, check, equal, main, report  # noqa: E402

FOLDER = tempfile.mkdtemp()
VIEWS = ("summary", "oom", "top", "stats", "timeline", "frag", "info", "check")
FILES = []
for build in traces.ALL:
    FILES.append(os.path.join(FOLDER, build.__name__ + ".zst"))
    with open(FILES[-1], "wb") as out_file:
        out_file.write(build())

with open(os.path.join(ROOT, "tools/report/views/JSON.md"), encoding="utf-8") as page_file:
    PAGE = page_file.read()
NAMED = set(re.findall(r"`([a-z_]+)`", PAGE))


def keys(value, path, found):
    """All keys of a document, except those that come from the trace."""
    if isinstance(value, dict):
        for k, v in value.items():
            found.setdefault(k, path)
            if k != "info":
                keys(v, path + "." + k, found)
    elif isinstance(value, list):
        for v in value:
            keys(v, path + "[]", found)
    else:
        check(not isinstance(value, float) or path.endswith("_fragmentation"), "%s is not a whole number" % path)


def read(view, path, *more):
    code, out, _ = report(view, "--json", *more, path)
    check(code in (0, 3, 4), "%s %s" % (view, path))
    equal(out.count(b"\n"), 1)
    return json.loads(out)


@case("every key that any view writes is on the page, and every key on the page is written")
def every_key_is_documented():
    found = {}
    for path in FILES:
        for view in VIEWS:
            d = read(view, path)
            equal(d["schema"], "cutrace.%s/2" % view)
            check("`cutrace.%s/2`" % view in PAGE)
            keys(d, view, found)
        keys(read("top", path, "--tree"), "top", found)
        for line in report("dump", "--json", path)[1].splitlines():
            keys(json.loads(line), "dump", found)
    missing = {k: p for k, p in found.items() if k not in NAMED}
    check(not missing, "not on the page: %r" % missing)
    # damage[] has elements only in damaged traces
    with open(FILES[0], "rb") as f:
        data = f.read()
    cut = os.path.join(FOLDER, "cut.zst")
    with open(cut, "wb") as f:
        f.write(data[:-300])
    keys(read("check", cut), "check", found)
    keys(read("symbolize", FILES[0], "--output=" + os.path.join(FOLDER, "lines.zst")), "symbolize", found)
    keys(read("export", FILES[0], "--output=" + os.path.join(FOLDER, "new.pickle")), "export", found)
    unused = {n for n in NAMED if "_" in n} - set(found)
    check(not unused, "on the page, but never written: %r" % unused)


@case("the keys of a view do not depend on the trace")
def same_keys_always():
    def same(value, path):
        if isinstance(value, dict):
            equal(seen.setdefault(path, list(value)), list(value), path)
            for k, v in value.items():
                if k != "info":
                    same(v, path + "." + k)
        elif isinstance(value, list):
            for v in value:
                same(v, path + "[]")
    for view in VIEWS:
        seen = {}
        for path in FILES:
            same({k: v for k, v in read(view, path).items() if k != "crossing"}, view)


@case("dump: the contract's keys, types and order of events")
def dump_contract():
    contract = ["event", "t_ns", "tid", "device", "api", "op", "ptr", "bytes", "result", "duration_ns", "stack"]
    ops = set(OPS) - {"amend"}
    for path in FILES:
        last = -1
        for line in report("dump", "--json", path)[1].splitlines():
            e = json.loads(line)
            equal(list(e)[:len(contract)], contract)
            check(e["event"] > last)
            last = e["event"]
            check(e["op"] in ops, e["op"])
            check(e["op"] in PAGE, "%s on the page" % e["op"])
            check(e["ptr"] is None or re.fullmatch("0x[0-9a-f]+", e["ptr"]), e["ptr"])
            for k in ("t_ns", "event"):
                check(isinstance(e[k], int), k)
            for k in ("tid", "device", "bytes", "result", "duration_ns"):
                check(e[k] is None or isinstance(e[k], int), k)
            for f in e["stack"] or []:
                equal(list(f), ["name", "file", "line", "module", "offset", "kind", "inlined", "end", "hidden"])
                check(f["kind"] in ("native", "python", "end"), f)
                equal((f["end"] is not None, f["end"] in ("deeper", "lost", None)), (f["kind"] == "end", True))
                for i in f["inlined"]:
                    equal(list(i), ["name", "file", "line"])


@case("summary: the contract's keys")
def summary_contract():
    for path in FILES:
        d = read("summary", path)
        check(set(d) >= {"trace", "process", "devices", "ooms", "crossing", "live_at_crossing"})
        check(set(d["trace"]) >= {"complete", "truncated", "lost_events", "wrapped", "events"})
        check(set(d["process"]) >= {"pid", "exe"})
        for device in d["devices"]:
            check(set(device) >= {"ordinal", "capacity_bytes", "live_bytes", "live_allocations", "peak_bytes", "peak_t_ns", "free_bytes_min"})
        oom = {"event", "t_ns", "device", "api", "requested_bytes", "free_bytes", "total_bytes", "result", "stack"}
        for o in d["ooms"] + ([d["crossing"]] if d["crossing"] else []):
            check(set(o) >= oom)
        for h in d["live_at_crossing"]:
            check(set(h) >= {"bytes", "count", "stack"})
        if d["crossing"]:
            equal(sum(h["bytes"] for h in d["live_at_crossing"]), d["crossing"]["live_bytes"])
            kinds = {h["kind"] for h in d["live_at_crossing"]}
            check(kinds <= {"allocation", "block", "idle"}, kinds)
            if kinds == {"allocation"}:
                equal(sum(h["count"] for h in d["live_at_crossing"]), d["crossing"]["live_allocations"])


@case("crossing: the last OOM without a successful retry, else the first one, recovered")
def crossing_rules():
    d = read("summary", FILES[0])
    equal((d["crossing"]["event"], d["crossing"]["recovered"]), (165, False))
    d = read("summary", FILES[1])
    equal((d["crossing"]["event"], d["crossing"]["recovered"], d["crossing"]["recovered_event"]), (7, True, 12))
    equal([o["reason"] for o in d["ooms"]], ["not-enough-free", "enough-was-free"])
    equal(read("summary", FILES[2])["crossing"], None)
    equal(read("summary", FILES[1], "--capacity=400MiB")["crossing"]["event"], 3)
    # device memory before host memory, which counts only when it is alone
    equal((read("summary", FILES[5])["crossing"]["event"], FILES[5][-13:]), (4, "elsewhere.zst"))
    d = read("summary", FILES[5], "--to=12.5")
    equal((d["crossing"]["event"], d["crossing"]["reason"]), (3, "host-memory"))


@case("the summary names what contexts, modules and limits took, and leaves out what took nothing")
def what_is_not_allocations_is_named():
    def said(**costs):
        t = Trace()
        traces.begin(t)
        free = 70 << 30
        for op in ("context-create", "module-load", "limit"):
            cost = costs.get(op[:5], 0)
            t.event(op, 51 * traces.S, device=0, result=0, free_before_bytes=free, free_bytes=free - cost,
                    total_bytes=80 << 30)
            free -= cost
        t.flush(last=True)
        path = os.path.join(FOLDER, "costs.zst")
        with open(path, "wb") as f:
            f.write(t.bytes())
        code, out, _ = report("summary", path)
        equal(code, 0)
        (line,) = [x for x in out.decode().splitlines() if x.startswith("  untracked")]
        return line.partition(" (measured: ")[2]
    equal(said(conte=500 << 20, modul=4 << 20, limit=1848 << 20), "contexts 500.00 MiB, modules 4.00 MiB, limits 1.80 GiB)")
    equal(said(limit=1 << 20), "limits 1.00 MiB)")
    equal(said(), "")


@case("a site is the line of the program, not JAX's, XLA's or CuPy's")
def layers_of_frameworks_are_hidden():
    t = Trace()
    traces.begin(t)
    for at, layers in enumerate(([("__pyx_f_4cupy_4cuda_6memory_alloc", "/x/memory.so"), ("empty", "/x/cupy/_creation/basic.py", 34)],
                                 [("tsl::BFCAllocator::Extend", "/x/xla_cuda_plugin.so"), ("bind", "/x/jax/_src/core.py", 731)])):
        t.event("alloc", (51 + at) * traces.S, api="cuMemAlloc_v2", bytes=1 << 20, ptr=0x10000000 << at, device=0, result=0,
                space="device", stack=[("cuMemAlloc_v2", "/usr/lib/libcuda.so.1"), *layers, ("main", "/m/user.py", 15 + at)])
    t.flush(last=True)
    path = os.path.join(FOLDER, "layers.zst")
    with open(path, "wb") as f:
        f.write(t.bytes())
    code, out, _ = report("top", path)
    equal((code, sorted(re.findall(r"user.py:\d+ main", out.decode()))), (0, ["user.py:15 main", "user.py:16 main"]))
    check(b"cupy" not in out and b"tsl" not in out and b"jax" not in out, out.decode())


@case("info says how many names a process looked up, and --json which; other keys that begin alike stay as they are")
def look_ups_are_counted_as_text():
    t = Trace()
    traces.begin(t)
    names = {"way.resolved.cuMemAlloc_v2": "3", "unwrapped.cuInit.0": "1", "unwrapped.cuInit.2000": "2"}
    t.info.update(names, **{"unwrapped.": "as it is", "way.other.cuMemFree_v2": "5"})
    t.flush(last=True)
    path = os.path.join(FOLDER, "look-ups.zst")
    with open(path, "wb") as f:
        f.write(t.bytes())
    got = dict(line.split(None, 1) for line in report("info", path)[1].decode().splitlines())
    equal({k: v for k, v in got.items() if k.startswith(("way.", "unwrapped."))},
          {"unwrapped.*": "2 names (--json lists them)", "way.resolved.*": "1 name (--json lists them)",
           "unwrapped.": "as it is", "way.other.cuMemFree_v2": "5"})
    equal({k: v for k, v in read("info", path)["info"].items() if k in names}, names)


main()
