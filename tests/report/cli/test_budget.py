#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--capacity, and that shown numbers add up. What is said of a budget is compared with traces that end where it is
exceeded, and with the sizes that the traces were built of; shown parts are added up as a reader would.
"""
import glob
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from mktrace import Trace  # noqa: E402
from tap import ROOT, case, check, equal, main, report  # noqa: E402

os.chdir(tempfile.mkdtemp())
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))
RECORDED = {os.path.basename(p)[:-4]: p for p in glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst"))}
SECOND, M, G = 10**9, 1 << 20, 1 << 30
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": M, "GiB": G}


def summary(path, *words):
    code, out, err = report("summary", *words, path)
    equal((code, err), (0, b""), str(words))
    return out.decode()


def save(events, name="t.zst"):
    t = Trace()
    t.info = {"device.0.total_bytes": str(80 * G), "device.1.total_bytes": str(80 * G)}
    for i, e in enumerate(events):
        e = dict(e)
        op = e.pop("op", "alloc")
        defaults = {"api": "cuMemAlloc_v2", "result": 0, "space": "device"} if op == "alloc" else {}
        t.event(op, SECOND * (i + 1), **{"device": 0, **defaults, **e})
    return t.save(name)


def story():
    """20 GiB in use of which 12 are tracked, 4 more at event 3; then failures, retries, a higher peak, another GPU."""
    segment = {"flags": ["runtime"], "api": "cudaMalloc"}
    events = [{"ptr": 64 * G, "bytes": 8 * G, "stack": [("first", "/a")], **segment},
              {"op": "block-alloc", "ptr": 64 * G, "bytes": 3 * G, "reserved_bytes": 8 * G, "allocated_bytes": 3 * G},
              {"ptr": 96 * G, "bytes": 4 * G, "stack": [("second", "/a")], "free_bytes": 60 * G, "total_bytes": 80 * G},
              {"ptr": 128 * G, "bytes": 4 * G, "stack": [("third", "/a")], "tid": 7, "thread_name": "loader"}]
    later = [{"api": "cudaMalloc", "bytes": 70 * G, "result": 2, "free_bytes": 56 * G, "total_bytes": 80 * G},
             {"op": "free", "ptr": 96 * G},
             {"ptr": 160 * G, "bytes": 40 * G, **segment},
             {"op": "block-alloc", "ptr": 160 * G, "bytes": 39 * G, "reserved_bytes": 48 * G, "allocated_bytes": 42 * G},
             {"op": "block-oom", "bytes": 30 * G},
             {"op": "lost", "count": 3},
             {"device": 1, "ptr": 500 * G, "bytes": 70 * G}]
    return events, later


def parts(line):
    """The sizes in a line, in bytes, with the unit of their last digit."""
    return [(float(n) * UNITS[u], UNITS[u] / 100) for n, u in re.findall(r"([\d.]+) (B|[KMG]iB)\b", line)]


# ---- the budget ----------------------------------------------------------------------------------

@case("a budget is said in both units; GB is a power of 1000 and asks back, G and GiB are powers of 1024")
def both_units():
    path = save(story()[0])
    for typed, shown, asks in (("64GB", "64 GB = 59.60 GiB", True), ("64.5gb", "64.50 GB = 60.07 GiB", True),
                               ("64GiB", "64 GiB = 68.72 GB", False), ("64G", "64 GiB = 68.72 GB", False),
                               ("64Gi", "64 GiB = 68.72 GB", False), ("70000MB", "70 GB = 65.19 GiB", True)):
        text = summary(path, "--capacity=" + typed)
        check(text.startswith("Nothing exceeded %s" % shown), text)
        check("budget %s%s, device " % (shown, " (did you mean %siB?)" % typed[:-1] if asks else "") in text, text)
        check("budget " + shown in report("timeline", "--capacity=" + typed, path)[1].decode().splitlines()[0])
    equal(json.loads(summary(path, "--json", "--capacity=64GB"))["budget_bytes"], 64 * 10**9)
    equal(json.loads(report("timeline", "--json", "--capacity=64GB", path)[1])["budget_bytes"], 64 * 10**9)
    equal(json.loads(summary(path, "--json", "--capacity=64G"))["budget_bytes"], 64 * G)
    for typed in ("24", "0", "1.5"):
        code, out, err = report("--capacity=" + typed, path)
        equal((code, out), (2, b""))
        check(err.decode().endswith(": a size needs its unit: write {0}GiB, {0}GB or {0}B\n".format(typed)), err)


@case("figures under a budget that nothing exceeded are of the budget: shares, and what is free of it")
def below():
    text = summary(save(story()[0]), "--capacity=32GiB")
    check(text.startswith("Nothing exceeded 32 GiB = 34.36 GB. GPU 0: 16.00 GiB of 32.00 GiB (50.0 %) allocated at the peak"), text)
    check(re.search(r"^ +16.00 GiB +50.0 %  tracked", text, re.M), text)
    check(re.search(r"^ +8.00 GiB +25.0 %  untracked or of other processes: contexts, modules, graphs, rounding$", text, re.M), text)
    check(re.search(r"^ +8.00 GiB +25.0 %  free of the budget, inferred", text, re.M), text)


@case("where a budget is exceeded, all figures are those of a trace that ends there")
def up_to_that_moment():
    events, later = story()
    whole = summary(save(events + later), "--capacity=22GiB", "--device=0")
    check(whole.startswith("GPU 0 would have exceeded 22 GiB = 23.62 GB: cuMemAlloc_v2 asked for 4.00 GiB; 2.00 GiB of the budget was free\n"), whole)
    check(re.search(r"^  when +\+3.000 s; event 3$", whole, re.M), whole)
    check(re.search(r"^  cause +20.00 GiB of the budget of 22 GiB = 23.62 GB was in use \(as read from the device\)$", whole, re.M), whole)
    check(re.search(r"^ +2.00 GiB +9.1 %  free of the budget", whole, re.M), whole)
    check(re.search(r"^trace: 11 events, \+\S+ s to \+\S+ s; 3 events lost$", whole, re.M), whole)  # of the whole trace
    check(not re.search("retr|^peak:|OOM [^o]|60.00|52.00|70.00|GPU 1|other devices", whole, re.M), whole)
    for words in (("--device=0",), ()):
        whole = summary(save(events + later), "--capacity=22GiB", *words)
        cut = summary(save(story()[0]), "--capacity=22GiB", *words)

        def without_trace(text):
            return [line for line in text.splitlines() if not line.startswith(("trace: ", "limits: "))]
        equal(without_trace(whole), without_trace(cut), str(words))
        whole, cut = (json.loads(summary(save(e), "--json", "--capacity=22GiB", *words)) for e in (sum(story(), []), story()[0]))
        for key in ("ooms", "crossing", "live_at_crossing", "live_at_peak", "host_bytes"):
            equal(whole[key], cut[key], key)
        for d, c in zip(whole["devices"], cut["devices"]):
            for key in set(d) - {"fragmentation"}:
                equal(d[key], c[key], key)


@case("on the recorded trace that ran full, nothing after the moment is said of a budget")
def recorded():
    text = summary(RECORDED["exhausted"], "--capacity=70GiB")
    check("would have exceeded 70 GiB = 75.16 GB: cudaMalloc asked for 38.00 MiB; 3.19 MiB of the budget was free\n" in text, text)
    check("retr" not in text and "78." not in text and "+5.9" not in text and "(see frag)" in text, text)


@case("a reading by the recorder is no request of the program: it says what was in use")
def by_reading():
    text = summary(save([{"op": "memory-sample", "free_bytes": 70 * G, "total_bytes": 80 * G, "process_bytes": 4 * G,
                          "flags": ["nvml"], "tid": 99, "thread_name": "cutrace"},
                         {"ptr": 64 * G, "bytes": 8 * G}]), "--capacity=8GiB")
    lines = text.splitlines()
    equal(lines[:3], ["GPU 0 would have exceeded 8 GiB = 8.59 GB: a reading showed 10.00 GiB in use",
                      "  cause    10.00 GiB was in use (as read from the device), more than the budget of 8 GiB = 8.59 GB",
                      "  when     +0.000 s; event 0, a reading by NVML"])
    check("cutrace" not in lines[2] and "where" not in text and "thread" not in text, text)
    check(re.search(r"^ +4.00 GiB +50.0 %  untracked", text, re.M) and re.search(r"^ +0 B +0.0 %  free", text, re.M), text)
    d = json.loads(summary("t.zst", "--json", "--capacity=8GiB"))
    equal((d["crossing"]["tid"], d["crossing"]["memory"]["used_bytes"]), (None, 10 * G))


@case("a call that failed, but would have exceeded the budget, exceeded it")
def failed_call():
    path = save([{"ptr": 64 * G, "bytes": 8 * G, "free_bytes": 60 * G, "total_bytes": 80 * G}, {"bytes": 70 * G, "result": 2}])
    check(summary(path, "--capacity=79GiB").startswith(
        "GPU 0 would have exceeded 79 GiB = 84.83 GB: cuMemAlloc_v2 asked for 70.00 GiB; 59.00 GiB of the budget was free, and failed\n"))
    text = summary(path, "--capacity=100GiB")
    check(text.startswith("Nothing exceeded 100 GiB = 107.37 GB, but GPU 0 has only 80.00 GiB, and OOMs occurred. "), text)


# ---- sums ----------------------------------------------------------------------------------------

@case("a request is the sum of what was free and what was missing")
def missing():
    shown = summary(RECORDED["exhausted"])
    check("asked for 24.00 MiB; 8.19 MiB was free\n" in shown and "  cause " not in shown)
    check(re.search(r"\n  cause +15.81 MiB was missing;", report("oom", RECORDED["exhausted"])[1].decode()))
    for k in range(1, 200, 7):
        free = 8 * M + k * M // 200
        text = summary(save([{"ptr": 64 * G, "bytes": M}, {"bytes": 24 * M, "result": 2, "free_bytes": free, "total_bytes": 80 * G}]))
        had, lacks = parts(text.splitlines()[0])[1][0], parts(re.search("^  cause .*", text, re.M)[0])[0][0]
        check(abs(lacks + had - 24 * M) < M / 1000, text)


@case("the call sites of a table add up to its total, and their shares to 100 %")
def tables():
    tables_seen = 0
    for path in list(RECORDED.values()) + GOLDEN:
        text = report("summary", path)[1].decode()
        total = re.search(r"^live .*: ([\d.]+ \w+) in ", text, re.M)
        rows = re.findall(r"^ +([\d.]+ (?:B|\wiB)) +([<>]?[\d.]+) % +[\d ]+  \S", text[total.end():] if total else "", re.M)
        if not rows:
            continue
        tables_seen += 1
        ((whole, digit),) = parts(total[1])
        shown = [parts(row[0])[0] for row in rows]
        in_unit = all(d == digit for _, d in shown)
        off = abs(sum(value for value, _ in shown) - whole)
        check(off <= digit * (0.001 if in_unit else 1.5), "%s: %s\n%s" % (path, off, text))
        shares = [row[1] for row in rows]
        tenths = sum(round(float(s) * 10) for s in shares if s[0] not in "<>") + 1000 * sum(s[0] == ">" for s in shares)
        equal(tenths, 1000, "%s\n%s" % (path, text))
    check(tables_seen > 20, tables_seen)
    return "%d tables" % tables_seen


@case("no share is 0.0 % of more than nothing, nor 100.0 % of less than all")
def honest_shares():
    text = summary(save([{"ptr": 64 * G, "bytes": 1000, "free_bytes": 80 * G - 2000, "total_bytes": 80 * G}]))
    check(re.search(r"^ +1000 B +<0.1 %  tracked", text, re.M) and re.search(r"^ +80.00 GiB +>99.9 %  free", text, re.M), text)


main()
