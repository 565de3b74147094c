#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random sequences of events: summary, top, oom and frag against a replay in Python (lib/lifetimes.py)."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import incidents  # noqa: E402
from lifetimes import Lifetimes  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, case, check, dice, equal, main, report, scratch  # noqa: E402

K, M, G = 1 << 10, 1 << 20, 1 << 30
SITES = [[("site%d" % i, "/opt/app%d" % (i % 3)), ("main", "/opt/app0")] for i in range(12)]
TAKES = {"alloc", "create", "reserve", "map", "register", "graph-alloc", "import"}


def counted(model, device):
    """What of the device's memory is the process's own."""
    return [o for o in model.objects.values() if o["counts"] and o["device"] == device]


def follow(model, e):
    model.follow({**e, "flags": set(e.get("flags", ()))})


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
    return t.save(scratch("random.zst"))


def expected(events):
    model, ooms, taken = Lifetimes(), [], {}
    for number, e in enumerate(events):
        d = e["device"]
        if e.get("result", 0) == 2:
            ooms.append({"event": number, "device": d, "bytes": e["bytes"], "recovered": None, "free": e["free_bytes"],
                         "live": list(counted(model, d))})
        follow(model, e)
        for o in counted(model, d):
            if o["event"] == number:
                row = taken.setdefault((d, o["stack"][0][0]), [0, 0])
                row[0] += o["bytes"]
                row[1] += 1
        if e.get("result", 0) == 0 and e["op"] in TAKES and "bytes" in e:
            for r in ooms:
                if r["recovered"] is None and r["device"] == d and r["bytes"] == e["bytes"] and e.get("space") != "host":
                    r["recovered"] = number
    return model, ooms, taken


def by_stack(objects):
    rows = {}
    for o in objects:
        row = rows.setdefault(o["stack"][0][0] if o["stack"] else None, [0, 0])
        row[0] += o["bytes"]
        row[1] += 1
    return rows


def gaps(objects):
    at = sorted((o["key"], o["bytes"]) for o in objects if o["space"] not in ("host", "managed"))
    sizes = [b[0] - a[0] - a[1] for a, b in zip(at, at[1:])]
    sizes = [s for s in sizes if 0 < s <= G]  # not farther apart than the device is large
    return len(sizes), sum(sizes), max(sizes, default=0)


def compare(seed, n):
    rng = dice(seed)
    events = generate(rng, n)
    path = write(rng, events)
    model, ooms, taken = expected(events)

    def read(view, *more):
        code, out, err = report(view, "--json", *more, path)
        equal((code, err), (0, b""), "seed %d %s" % (seed, view))
        return json.loads(out)

    d = read("summary")
    equal(d["trace"]["events"], n)
    for device in d["devices"]:
        o = device["ordinal"]
        objects = counted(model, o)
        what = "seed %d device %d" % (seed, o)
        equal((device["live_bytes"], device["live_allocations"]), (sum(x["bytes"] for x in objects), len(objects)), what)
        peak, number = model.peak[o]
        equal((device["peak_bytes"], device["peak_t_ns"]), (peak, events[number]["t_ns"] if peak else device["peak_t_ns"]), what)
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
            live = by_stack(counted(model, device["ordinal"])).get(name, [0, 0])
            equal([site["live_bytes"], site["live_count"]], live, "seed %d top" % seed)
        equal({k: v for k, v in got.items() if v[1]},
              {k[1]: v for k, v in taken.items() if k[0] == device["ordinal"]}, "seed %d taken" % seed)
    for device in read("frag", "--at=end")["devices"]:
        f = device["address_layout"]
        objects = [o for (space, _), o in model.objects.items() if space == "address" and o["device"] == device["ordinal"]]
        equal((f["gaps"], f["gap_bytes"], f["gap_max_bytes"]), gaps(objects), "seed %d frag" % seed)
        despite = {r["event"] for r in ooms if r["device"] == device["ordinal"] and -(-r["bytes"] // (2 * M)) * 2 * M <= r["free"]}
        equal([r["event"] for r in device["ooms_despite_free"]],
              [max(despite & set(i["parts"])) for i in incidents.find(events) if despite & set(i["parts"])], "seed %d" % seed)
    budget = rng.randrange(1, max(2, model.peak.get(0, (2, 0))[0] + 50 * M))
    budgeted(events, read("summary", "--capacity=%dB" % budget, "--device=0"), budget, seed)


def budgeted(events, d, budget, seed):
    """The first event behind which device 0 is known to have more in use than a budget, or would, if it had not failed."""
    model, reading = Lifetimes(), None
    for number, e in enumerate(events):
        follow(model, e)
        tracked = sum(o["bytes"] for o in counted(model, 0) if o["space"] != "managed")
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
    model, ooms, taken = expected(events)
    check(len(ooms) > 50 and any(r["recovered"] is None for r in ooms) and any(r["recovered"] for r in ooms))
    check(any("fails" in e for e in events) and len(taken) == 24 and model.peak[0][0] and model.peak[1][0] and model.objects)


main()
