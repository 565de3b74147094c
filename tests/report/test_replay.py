#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random sequences of events: summary, top, oom and frag against a replay in Python that keeps plain lists.

The model was written from FORMAT.md and JSON.md. It shares no code and no data structure with the report.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import incidents  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, case, check, dice, equal, main, report  # noqa: E402

K, M, G = 1 << 10, 1 << 20, 1 << 30
FOLDER = tempfile.mkdtemp()
SITES = [[("site%d" % i, "/opt/app%d" % (i % 3)), ("main", "/opt/app0")] for i in range(12)]
TAKES = {"alloc", "create", "reserve", "map", "register", "graph-alloc", "import"}


class Model:
    """What is alive, as a list that is searched from one end to the other."""

    def __init__(self):
        self.objects = []  # dictionaries: kind, key, device, bytes, space, flags, context, stack, refs, maps, link

    def find(self, kind, key):
        for o in self.objects:
            if o["kind"] == kind and o["key"] == key:
                return o
        return None

    def drop(self, o):
        self.objects = [p for p in self.objects if p is not o]

    def add(self, kind, key, e, **more):
        old = self.find(kind, key)
        if old:
            self.drop(old)
        o = {"kind": kind, "key": key, "device": e.get("device"), "bytes": e.get("bytes", 0), "space": e.get("space"),
             "flags": e.get("flags") or [], "context": e.get("context", 0), "stack": e.get("stack"), "refs": 0, "maps": 0,
             "link": 0, **more}
        self.objects.append(o)
        return o

    def settle(self, handle):
        o = self.find("handle", handle)
        if o and not o["refs"] and not o["maps"]:
            self.drop(o)

    def unmap(self, m):
        self.drop(m)
        o = self.find("handle", m["link"])
        if o and o["maps"]:
            o["maps"] -= 1
        self.settle(m["link"])

    def apply(self, e):
        if e.get("result", 0) != 0:
            return
        op = e["op"]
        if op == "alloc":
            self.add("address", e["ptr"], e)
        elif op == "free":
            o = self.find("address", e["ptr"])
            if o:
                self.drop(o)
        elif op == "create":
            o = self.find("handle", e["handle"])
            if o:
                o["refs"] += 1
            else:
                self.add("handle", e["handle"], e, refs=1)
        elif op == "retain":
            o = self.find("handle", e["handle"])
            if o:
                o["refs"] += 1
        elif op == "release":
            o = self.find("handle", e["handle"])
            if o:
                o["refs"] = max(0, o["refs"] - 1)
                self.settle(e["handle"])
        elif op == "map":
            old = self.find("mapping", e["ptr"])
            if old:
                self.unmap(old)
            self.add("mapping", e["ptr"], e, link=e["handle"])
            o = self.find("handle", e["handle"])
            if o:
                o["maps"] += 1
        elif op == "unmap":
            for m in [o for o in self.objects if o["kind"] == "mapping" and e["ptr"] <= o["key"] < e["ptr"] + e["bytes"]]:
                self.unmap(m)
        elif op == "context-destroy":
            self.objects = [o for o in self.objects if not (
                o["kind"] == "address" and o["context"] == e["context"] and "async" not in o["flags"])]

    def counted(self, device):
        return [o for o in self.objects if o["device"] == device and o["kind"] in ("address", "handle")
                and o["space"] != "host" and not {"foreign", "multicast", "deferred"} & set(o["flags"])]


def generate(rng, n):
    """Events as dictionaries; some fail, some frees are amended, some name what is not there."""
    out, t = [], 10**9
    for _ in range(n):
        t += rng.randrange(1, 10**7)
        device = rng.randrange(2)
        e = {"t_ns": t, "tid": rng.randrange(1, 4), "device": device, "result": 0}
        kind = rng.random()
        slot = rng.randrange(40)
        size = rng.choice([512, 4 * K, M, 2 * M, 3 * M + 17, 20 * M, 64 * M])
        if kind < 0.35:
            e.update(op="alloc", api="cuMemAlloc_v2", ptr=0x7000000000 + device * G * 64 + slot * 80 * M, bytes=size,
                     space=rng.choice(["device"] * 8 + ["managed", "host"]), context=rng.choice([1, 2]),
                     stack=rng.choice(SITES), flags=rng.choice([[]] * 6 + [["async"], ["foreign"]]))
        elif kind < 0.6:
            e.update(op="free", api="cuMemFree_v2", ptr=0x7000000000 + device * G * 64 + slot * 80 * M)
            del e["result"]
            if rng.random() < 0.1:
                e["fails"] = 1
        elif kind < 0.7:
            e.update(op="create", api="cuMemCreate", handle=100 + slot, bytes=size, space="device", stack=rng.choice(SITES),
                     flags=rng.choice([[]] * 9 + [["multicast"]]))
        elif kind < 0.76:
            e.update(op="release", api="cuMemRelease", handle=100 + slot)
        elif kind < 0.78:
            e.update(op="retain", api="cuMemRetainAllocationHandle", handle=100 + slot)
        elif kind < 0.86:
            e.update(op="map", api="cuMemMap", handle=100 + slot, ptr=0x6000000000 + rng.randrange(30) * 64 * M, bytes=64 * M)
        elif kind < 0.92:
            start = rng.randrange(30)
            e.update(op="unmap", api="cuMemUnmap", ptr=0x6000000000 + start * 64 * M, bytes=64 * M * rng.randrange(1, 4))
        elif kind < 0.93:
            e.update(op="context-destroy", api="cuCtxDestroy_v2", context=rng.choice([1, 2]))
        else:
            e.update(op="alloc", api="cudaMalloc", bytes=rng.choice([M, 20 * M, 64 * M, 100 * M]), space="device",
                     stack=rng.choice(SITES), result=2, free_bytes=rng.choice([0, 30 * M, 90 * M]), total_bytes=G)
        if e["op"] in TAKES and e["result"] == 0 and rng.random() < 0.05:
            e["result"] = rng.choice([1, 999])
        if e["result"] if "result" in e else 0:
            e.pop("ptr", None)
        out.append(e)
    return out


def write(rng, events):
    t = Trace()
    t.info = {"device.0.total_bytes": str(G), "device.1.total_bytes": str(G)}
    for e in events:
        fields = {k: v for k, v in e.items() if k not in ("fails",)}
        if e["op"] == "free":
            fields.pop("device")  # as the hooks record it
        t.event(**fields)
        if "fails" in e:
            t.event("amend", e["t_ns"] + 1, tid=e["tid"], amends_ns=e["t_ns"], result=1)
            e["result"] = 1
        if rng.random() < 0.02:
            t.flush()
            if rng.random() < 0.3:
                t.checkpoint()
    t.flush(last=True)
    path = os.path.join(FOLDER, "random.zst")
    with open(path, "wb") as f:
        f.write(t.bytes())
    return path


def expected(events):
    model, peaks, ooms, taken = Model(), {}, [], {}
    for number, e in enumerate(events):
        d = e["device"]
        refused = e.get("result", 0) == 2
        if refused:
            ooms.append({"event": number, "device": d, "bytes": e["bytes"], "recovered": None, "free": e["free_bytes"],
                         "live": [dict(o) for o in model.counted(d)], "host": False})
        before = {id(o) for o in model.objects}
        model.apply(e)
        for o in model.counted(0) + model.counted(1):
            if id(o) not in before:
                row = taken.setdefault((o["device"], o["stack"][0][0]), [0, 0])
                row[0] += o["bytes"]
                row[1] += 1
        if e.get("result", 0) == 0 and e["op"] in TAKES and "bytes" in e:
            for r in ooms:
                if r["recovered"] is None and r["device"] == d and r["bytes"] == e["bytes"] and e.get("space") != "host":
                    r["recovered"] = number
        for device in (0, 1):
            live = sum(o["bytes"] for o in model.counted(device))
            if device not in peaks or live > peaks[device][0]:
                peaks[device] = (live, e["t_ns"])
    return model, peaks, ooms, taken


def by_stack(objects):
    rows = {}
    for o in objects:
        row = rows.setdefault(o["stack"][0][0] if o["stack"] else None, [0, 0])
        row[0] += o["bytes"]
        row[1] += 1
    return rows


def gaps(objects):
    at = sorted((o["key"], o["bytes"]) for o in objects
                if o["kind"] == "address" and o["space"] not in ("host", "managed"))
    sizes = [b[0] - a[0] - a[1] for a, b in zip(at, at[1:])]
    sizes = [s for s in sizes if 0 < s <= G]  # not farther apart than the device is large
    return len(sizes), sum(sizes), max(sizes, default=0)


def compare(seed, n):
    rng = dice(seed)
    events = generate(rng, n)
    path = write(rng, events)
    model, peaks, ooms, taken = expected(events)

    def read(view, *more):
        code, out, err = report(view, "--json", *more, path)
        equal((code, err), (0, b""), "seed %d %s" % (seed, view))
        return json.loads(out)

    d = read("summary")
    equal(d["trace"]["events"], n)
    for device in d["devices"]:
        o = device["ordinal"]
        objects = model.counted(o)
        what = "seed %d device %d" % (seed, o)
        equal((device["live_bytes"], device["live_allocations"]), (sum(x["bytes"] for x in objects), len(objects)), what)
        equal((device["peak_bytes"], device["peak_t_ns"]), peaks[o] if peaks[o][0] else (0, device["peak_t_ns"]), what)
    equal([(r["event"], r["requested_bytes"], r["recovered"], r["recovered_event"]) for r in d["ooms"]],
          [(r["event"], r["bytes"], r["recovered"] is not None, r["recovered"]) for r in ooms], "seed %d" % seed)
    if ooms:
        found = incidents.find(events)
        equal([(i["event"], i["parts"], i["recovered"], i["outcome"], i["pytorch"]) for i in d["incidents"]],
              [(i["head"], i["parts"], i["recovered"], "failed", False) for i in found], "seed %d" % seed)
        crossing = next(r for r in ooms if r["event"] == incidents.crossing(found, events))
        equal((d["crossing"]["event"], d["crossing"]["recovered"]), (crossing["event"], crossing["recovered"] is not None))
        equal({(r["stack"][0]["name"] if r["stack"] else None): [r["bytes"], r["count"]] for r in d["live_at_crossing"]},
              by_stack(crossing["live"]), "seed %d live at crossing" % seed)
    else:
        equal((d["crossing"], d["live_at_crossing"]), (None, []))
    for device in read("top")["devices"]:
        got = {}
        for site in device["sites"]:
            name = site["stack"][0]["name"] if site["stack"] else None
            got[name] = [site["total_allocated_bytes"], site["total_allocated_count"]]
            live = by_stack(model.counted(device["ordinal"])).get(name, [0, 0])
            equal([site["live_bytes"], site["live_count"]], live, "seed %d top" % seed)
        equal({k: v for k, v in got.items() if v[1]},
              {k[1]: v for k, v in taken.items() if k[0] == device["ordinal"]}, "seed %d taken" % seed)
    for device in read("frag", "--at=end")["devices"]:
        f = device["address_layout"]
        objects = [o for o in model.objects if o["device"] == device["ordinal"]]
        equal((f["gaps"], f["gap_bytes"], f["gap_max_bytes"]), gaps(objects), "seed %d frag" % seed)
        despite = {r["event"] for r in ooms if r["device"] == device["ordinal"] and -(-r["bytes"] // (2 * M)) * 2 * M <= r["free"]}
        equal([r["event"] for r in device["ooms_despite_free"]],
              [max(despite & set(i["parts"])) for i in incidents.find(events) if despite & set(i["parts"])], "seed %d" % seed)
    budget = rng.randrange(1, max(2, peaks.get(0, (2, 0))[0] + 50 * M))
    budgeted(events, read("summary", "--capacity=%dB" % budget, "--device=0"), budget, seed)


def budgeted(events, d, budget, seed):
    """The first event behind which device 0 is known to have more in use than a budget, or would, if it had not failed."""
    model, reading = Model(), None
    for number, e in enumerate(events):
        model.apply(e)
        tracked = sum(o["bytes"] for o in model.counted(0) if o["space"] != "managed")
        if "free_bytes" in e and e["device"] == 0:
            reading = (e["total_bytes"] - e["free_bytes"], tracked)
        used = max(0, reading[0] + tracked - reading[1]) if reading else tracked
        failed = e.get("result") == 2 and e["op"] == "alloc" and e.get("space") == "device"
        if used + (e["bytes"] if failed else 0) > budget and (e["device"] == 0 and e["op"] != "free"):
            equal(d["crossing"] and d["crossing"]["event"], number, "seed %d budget %d" % (seed, budget))
            return
    equal(d["crossing"], None, "seed %d budget %d" % (seed, budget))


@case("random sequences of events give the numbers of the model")
def random_sequences():
    for seed in range(400 if FULL else 40):
        compare(seed, 40 if seed % 2 else 600)


@case("the random sequences reach what they are to test")
def model_is_exercised():
    rng = dice(1)
    events = generate(rng, 3000)
    write(rng, events)
    model, peaks, ooms, taken = expected(events)
    check(len(ooms) > 50 and any(r["recovered"] is None for r in ooms) and any(r["recovered"] for r in ooms))
    check(any("fails" in e for e in events) and len(taken) == 24 and peaks[0][0] and peaks[1][0] and model.objects)


main()
