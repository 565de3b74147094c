#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --serve: its metrics against the ledgers of the simulated driver and of the stand-in for PyTorch's
allocator, and clients of all kinds, of which none may disturb another one."""
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import schema  # noqa: E402
from live import Holder, written  # noqa: E402
from scrape import METRICS, OPENMETRICS, Served, of, one, parse  # noqa: E402
from tap import ROOT, case, check, equal, main  # noqa: E402
from traces import M  # noqa: E402
from ways import HANG, folder  # noqa: E402

PARTS = "torch_used torch_idle allocations mempool_idle in_flight untracked unattributed others free".split()
with open(os.path.join(ROOT, "tools/watch/schema.json"), encoding="utf-8") as schema_file:
    VALID = schema.fastjsonschema.compile(json.load(schema_file), use_default=False)


def last_reading(h):
    return [e for e in h.ledger() if "free" in e][-1]


def settled(h, s, accept=None):
    """The samples when the events of the ledger have been read, and the device behind the last of them."""
    pid, last = str(h.process.pid), last_reading(h)
    tracked = check_ledger.replay(h.ledger())[0][0]

    def holds(samples):
        free = of(samples, "cutrace_device_free_bytes", pid=pid)
        return of(samples, "cutrace_process_live_bytes", pid=pid) == {("0",): tracked} and free == {("0",): last["free"]}
    return s.wait(holds, accept)


@case("in both formats every figure is that of the ledgers, to the byte, and what --once --json says of it")
def figures():
    with Holder() as h, Served(h.where) as s:
        equal([h.tell("first", 48 * M), h.tell("second", 6 * M), h.tell("block", 5 * M), h.tell("block", 3 * M),
               h.tell("unblock")], [0] * 5)
        pid, last = str(h.process.pid), last_reading(h)
        for accept in (None, OPENMETRICS):
            samples = settled(h, s, accept)
            tracked = check_ledger.replay(h.ledger())[0][0]
            allocated, reserved = h.blocks()
            parts = {k[1]: v for k, v in of(samples, "cutrace_device_memory_bytes", pid=pid).items()}
            equal({p: parts[p] for p in PARTS[:4]},
                  {"torch_used": allocated, "torch_idle": reserved - allocated, "allocations": tracked - reserved, "mempool_idle": 0})
            equal((set(parts), sum(parts.values()), parts["free"]), (set(PARTS), last["total"], last["free"]))
            equal([one(samples, f"cutrace_{n}_bytes", pid=pid, device="0") for n in
                   ("process_live", "device_capacity", "torch_allocated", "torch_reserved", "torch_largest_free", "torch_held_open")],
                  [tracked, last["total"], allocated, reserved, reserved - allocated, reserved - allocated])
            equal(of(samples, "cutrace_process_state", pid=pid), {("recording",): 1, ("paused",): 0, ("killed",): 0, ("ended",): 0})
            equal(set(of(samples, "cutrace_failed_requests_total", pid=pid).values()), {0})
            equal(one(samples, "cutrace_lost_events_total", pid=pid), 0)
            check(abs(one(samples, "cutrace_watch_last_look_timestamp_seconds") - time.time()) < HANG)
            check(0 <= one(samples, "cutrace_details_age_seconds", pid=pid) < HANG)
        equal(s.stop(), (0, ""))


@case("every metric of a page is in the table with its type and labels, in the older format, too; SERVE.md has the table")
def table():
    where = written([i * 100 * M for i in range(1, 125)])
    with Holder(where) as h, Served(where) as s:
        equal((h.tell("block", 5 * M), h.tell("first", 2000 * M)), (0, 2))
        samples = s.wait(lambda x: of(x, "cutrace_incidents_total") and of(x, "cutrace_time_to_full_seconds"))
        own = {"cutrace_watch_", "cutrace_build_"}
        for (name, pairs) in samples:
            wanted = set(METRICS[name][1]) | (set() if name[:14] in own else {"pid", "program"})
            equal({k for k, _ in pairs}, wanted, name)
        equal(set(METRICS) - {name for name, _ in samples}, set())
        per_process = sum(dict(pairs).get("pid") == str(h.process.pid) for _, pairs in samples)
        check(per_process < 60, per_process)
        for accept, page in ((None, s.ask()[2]), (OPENMETRICS, s.ask(accept=OPENMETRICS)[2])):
            kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page.decode(), re.M))
            cut = {} if not accept else {"counter": 6, "info": 5}
            equal(kinds, {n[:len(n) - cut.get(k, 0)]: "gauge" if k == "info" and not accept else k for n, (k, _, _) in METRICS.items()})
    with open(os.path.join(ROOT, "tools/watch/SERVE.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `(cutrace_\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", f.read(), re.M)
    equal([(n, k, re.findall(r"`(\w+)`", labels), text) for n, k, labels, text in rows], [(n, *v) for n, v in METRICS.items()])


@case("names that the export has, too, have its units and types")
def shared():
    with open(os.path.join(ROOT, "tools/report/export/openmetrics.def"), encoding="utf-8") as f:
        export = re.findall(r'^CT_METRIC\(\w+, "(\w+)", "(\w*)", "(\w+)",', f.read(), re.M)
    with open(os.path.join(ROOT, "tools/watch/metrics.def"), encoding="utf-8") as f:
        watch = re.findall(r'^CT_WATCH_METRIC\(\w+, "(\w+)", "(\w*)", "(\w+)",', f.read(), re.M)
    common = {n for n, _, _ in export} & {n for n, _, _ in watch}
    check(len(common) >= 9, common)
    equal({r for r in export if r[0] in common}, {r for r in watch if r[0] in common})


@case("the format is the one that the field Accept asks for, and has its content type")
def formats():
    old, new = "text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8"
    prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    wanted = {None: old, "*/*": old, "text/plain": old, OPENMETRICS: new, OPENMETRICS + ";version=1.0.0": new, prometheus: new,
              OPENMETRICS + ";q=0": old, f"{OPENMETRICS};q=0.3, text/plain;q=0.4": old, f"text/plain;q=0.4 , {OPENMETRICS} ; q=0.41": new,
              OPENMETRICS + "2": old, OPENMETRICS + ";version=2.0.0": old, "," * 500: old, "text/html;q=1": old,
              ";;;q=,": old, OPENMETRICS.upper(): new}
    with Served(folder()) as s:
        s.wait(lambda samples: True)
        for accept, kind in wanted.items():
            status, fields, body = s.ask(accept=accept)
            equal((status, fields["content-type"]), (200, kind), accept)
            parse(body.decode(), kind == new)
        _, fields, body = s.ask("/metrics", "HEAD", accept=OPENMETRICS)
        equal((fields["content-type"], body), (new, b""))
        check(int(fields["content-length"]) > 1000)


main()
