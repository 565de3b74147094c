#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's pools: frag, summary and top against a second implementation that keeps plain lists and sorts them.

The model was written from FORMAT.md, JSON.md and POOL.md. It shares no code and no data structure with the report. The
events come from a small caching allocator with streams, on several devices, with segments of all kinds. Some calls are
missing from the trace, and some of its events are impossible.
"""
import collections
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import incidents  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace, packed_columns, zstd_frame  # noqa: E402
from tap import FULL, ROOT, case, check, dice, equal, main, report, scratch  # noqa: E402

K, M, G = 1 << 10, 1 << 20, 1 << 30
SITES = [[("site%d" % i, "/m/model%d.py" % (i % 3), i + 1), ("main", "/m/main.py", 9)] for i in range(10)]
C10 = [("cudaMalloc", "/x/libcudart.so.12"), ("_ZN3c104cuda4mallocEm", "/x/libc10_cuda.so")]
PLUGIN = [("cuMemMap", "/x/libcuda.so.1"), ("my_malloc", "/x/cumem_allocator.so")]
POINTS = 60
TAKES = ("alloc", "create", "map")


def own_bytes(segments):
    """Of those that PyTorch itself has from the driver."""
    return sum(s["bytes"] for s in segments if not s["foreign"])


def add(rows, name, size):
    row = rows.setdefault(name, [0, 0])
    row[0] += size
    row[1] += 1


def sums(rows):
    return {kind: names for kind, names in rows.items() if names}


class Model:
    """What is alive, in lists."""

    def __init__(self):
        self.memory = []  # {kind, start, bytes, device, reservation, held, host}
        self.reservations = []  # (start, bytes)
        self.owners = {}  # start of a reservation that has had memory -> whose that was
        self.slept = {}  # the same where a segment that filled it was unmapped -> (bytes, device)
        self.handles = {}
        self.taken = []  # of the driver: {kind, name, bytes, device, was_segment}
        self.blocks_taken = {}  # device -> {name: [bytes, number]}
        self.blocks = {}  # ptr -> {start, bytes, device, t_ns, event, site}
        self.stated = {}  # device -> (allocated, reserved, unreconciled, bytes of PyTorch's own segments)
        self.seen = set()

    def device(self, e):
        return self.handles[e["handle"]][0] if e["op"] == "map" and e["handle"] in self.handles else e["device"]

    def reservation(self, address):
        return next((start for start, size in self.reservations if start <= address < start + size), 0)

    def runs(self):
        """Pieces of driver memory: allocations, and mappings side by side in one reservation."""
        out = []
        for m in sorted(self.memory, key=lambda m: m["start"]):
            last = out[-1] if out else None
            if last and m["kind"] == last[-1]["kind"] == "map" and m["reservation"] == last[-1]["reservation"] \
                    and last[-1]["start"] + last[-1]["bytes"] == m["start"]:
                last.append(m)
            else:
                out.append([m])
        return out

    def settle(self, start, end):
        """All of a piece has held a block if a part of it has; only where something has come to [start, end)."""
        for run in self.runs():
            low, high = run[0]["start"], run[-1]["start"] + run[-1]["bytes"]
            if all(m["held"] for m in run) or low > end or high < start:
                continue
            if any(m["held"] for m in run) or any(b["start"] < high and b["start"] + b["bytes"] > low
                                                  for b in self.blocks.values()):
                for m in run:
                    m["held"] = True
                    if self.gift(m):
                        self.gift(m)["was_segment"] = True

    def gift(self, m):
        """What was taken from the driver for a piece of memory."""
        return m["gift"] if m["kind"] == "alloc" else self.handles.get(m["handle"], (0, 0, None))[2]

    def resume(self, e):
        """Memory that fills a reservation belongs to whoever mapped the first there."""
        start, gift = e["ptr"], self.handles.get(e["handle"], (0, 0, None))[2]
        woken = [at for at, s in self.slept.items() if at < start + e["bytes"] and start < at + s[0]]
        self.slept = {at: s for at, s in self.slept.items() if at not in woken}
        if woken and gift:
            gift["was_segment"] = True
        if start not in [r[0] for r in self.reservations]:
            return woken
        if start not in self.owners:
            self.owners[start] = e["stack"][0][0] if "stack" in e else None
        elif (start, e["bytes"]) in self.reservations and gift and not any(m["handle"] == e["handle"] for m in self.memory if m["kind"] == "map"):
            gift["name"] = self.owners[start]
        return woken

    def asleep(self, device):
        """Of blocks: what lies in no memory, in a reservation that has had some."""
        total = 0
        for b in self.blocks.values():
            if b["device"] != device:
                continue
            end = b["start"] + b["bytes"]
            for start, size in self.reservations:
                low, high = max(b["start"], start), min(end, start + size)
                if start in self.owners and low < high:
                    total += high - low - sum(max(0, min(high, m["start"] + m["bytes"]) - max(low, m["start"]))
                                              for m in self.memory if not m["host"])
        return total

    def take(self, e):
        self.taken.append({"name": e["stack"][0][0] if "stack" in e else None, "bytes": e["bytes"], "device": e["device"],
                           "was_segment": False})
        return self.taken[-1]

    def apply(self, e, number):
        if e.get("result", 0):
            return
        op = e["op"]
        woken = op == "map" and self.resume(e)
        if op in ("alloc", "map"):
            gift = self.take(e) if op == "alloc" and e.get("space") != "host" else None
            self.memory.append({"kind": op, "gift": gift, "start": e["ptr"], "bytes": e["bytes"], "device": self.device(e), "held": bool(woken),
                                "reservation": self.reservation(e["ptr"]) if op == "map" else None,
                                "host": e.get("space") == "host", "foreign": e.get("stack") == PLUGIN, "event": number, "t_ns": e["t_ns"], "handle": e.get("handle")})
        elif op == "free":
            self.memory = [m for m in self.memory if m["start"] != e["ptr"] or m["kind"] != "alloc"]
        elif op == "unmap":
            for m in self.memory:
                whole = (m["start"], m["bytes"]) in self.reservations
                if m["kind"] == "map" and whole and m["held"] and e["ptr"] <= m["start"] < e["ptr"] + e["bytes"]:
                    self.slept[m["start"]] = (m["bytes"], m["device"])
            self.memory = [m for m in self.memory
                           if m["kind"] != "map" or not e["ptr"] <= m["start"] < e["ptr"] + e["bytes"]]
        elif op == "reserve":
            self.reservations.append((e["ptr"], e["bytes"]))
        elif op == "unreserve":
            self.reservations = [r for r in self.reservations if r[0] != e["ptr"]]
            self.slept.pop(e["ptr"], None)
            self.owners.pop(e["ptr"], None)
        elif op == "create":
            self.handles[e["handle"]] = (e["device"], e["bytes"], self.take(e))
        elif op == "release":
            self.handles.pop(e["handle"], None)
        elif op == "block-alloc":
            self.blocks[e["ptr"]] = {"start": e["ptr"], "bytes": e["bytes"], "device": e["device"], "t_ns": e["t_ns"],
                                     "event": number, "site": e["stack"][0][0]}
        elif op == "block-free":
            self.blocks.pop(e["ptr"], None)
        if op in ("alloc", "map", "block-alloc"):
            self.settle(e["ptr"], e["ptr"] + e["bytes"])
        if op == "block-alloc" and self.inside(self.blocks[e["ptr"]]):
            add(self.blocks_taken.setdefault(e["device"], {}), e["stack"][0][0], e["bytes"])
        if op.startswith("block"):
            self.seen.add(e["device"])
            self.state(e["device"], e["allocated_bytes"], e["reserved_bytes"])

    def state(self, device, allocated, reserved):
        segments = self.segments(device)
        slept = sum(size for size, d in self.slept.values() if d == device)
        self.stated[device] = (allocated, reserved, reserved - sum(s["bytes"] for s in segments) - slept, own_bytes(segments))

    def live_bytes(self, device):
        return sum(m["bytes"] for m in self.memory if m["kind"] == "alloc" and m["device"] == device and not m["host"]) + \
            sum(size for d, size, _ in self.handles.values() if d == device)

    def segments(self, device, blocks=False):
        out, free = [], []
        mine = sorted((b for b in self.blocks.values()), key=lambda b: b["start"]) if blocks else []
        for run in self.runs():
            if not run[0]["held"] or run[0]["device"] != device or run[0]["host"]:
                continue
            low, high = run[0]["start"], run[-1]["start"] + run[-1]["bytes"]
            s = {"start": low, "bytes": high - low, "foreign": run[0]["foreign"], "class": "small" if run[0]["bytes"] == 2 * M else "large",
                 "blocks": [b for b in mine if b["start"] < high and b["start"] + b["bytes"] > low], "gaps": []}
            at = low
            for b in s["blocks"]:
                if b["start"] > at:
                    s["gaps"].append((at, b["start"] - at))
                at = max(at, b["start"] + b["bytes"])
            if high > at and blocks:
                s["gaps"].append((at, high - at))
            s["free"] = sum(g[1] for g in s["gaps"])
            out.append(s)
        return out

    def figures(self, device):
        """The keys of a pool, and a few of `frag`; None before the first block."""
        if device not in self.seen:
            return None
        segments = self.segments(device, True)
        f = {}
        f["allocated_bytes"], f["reserved_bytes"], f["unreconciled_bytes"], then = self.stated.get(device, (None,) * 4)
        if then is not None:
            f["reserved_bytes"] = max(0, f["reserved_bytes"] + own_bytes(segments) - then)
        f["small"], f["large"] = ([g[1] for s in segments if s["class"] == c for g in s["gaps"]] for c in ("small", "large"))
        gaps = f["small"] + f["large"]
        f["free_bytes"], f["free_blocks"], f["largest_free_bytes"] = sum(gaps), len(gaps), max(gaps, default=0)
        f["external_fragmentation"] = (sum(gaps) - max(gaps)) * 10000 // sum(gaps) / 10000 if gaps else 0
        f["segments"], f["segment_bytes"] = len(segments), sum(s["bytes"] for s in segments)
        idle = [s for s in segments if s["free"] == s["bytes"]]
        f["idle_segments"], f["idle_bytes"] = len(idle), sum(s["bytes"] for s in idle)
        pinned = [s for s in segments if 0 < s["free"] < s["bytes"]]
        f["held_segment_count"], f["held_free_bytes"] = len(pinned), sum(s["free"] for s in pinned)
        mine = [b for b in self.blocks.values() if b["device"] == device]
        f["blocks"], f["block_bytes"] = len(mine), sum(b["bytes"] for b in mine)
        inside = 0
        for run in self.runs():
            low, high = run[0]["start"], run[-1]["start"] + run[-1]["bytes"]
            inside += sum(max(0, min(high, b["start"] + b["bytes"]) - max(low, b["start"])) for b in mine
                          if not run[0]["host"])
        f["asleep_bytes"] = self.asleep(device)
        f["asleep_segment_bytes"] = sum(size for size, d in self.slept.values() if d == device)
        f["outside_segments_bytes"] = f["block_bytes"] - inside - f["asleep_bytes"]
        return f

    def inside(self, block):
        """Whether all of a block lies in memory that is known."""
        return sum(max(0, min(m["start"] + m["bytes"], block["start"] + block["bytes"]) - max(m["start"], block["start"]))
                   for m in self.memory if not m["host"]) == block["bytes"]

    def holders(self, device, segments=False):
        """Who holds what: {kind: {name: [bytes, number]}}, by POOL.md; and how segments are divided."""
        out = {kind: {} for kind in ("allocation", "block", "segment", "idle")}
        mapped = {m["handle"] for m in self.memory if m["kind"] == "map" and m["held"]}
        for m in self.memory:
            if m["kind"] == "alloc" and m["device"] == device and not m["host"]:
                add(out["segment" if m["held"] else "allocation"], m["gift"] and m["gift"]["name"], m["bytes"])
        for h, (d, size, gift) in self.handles.items():
            if d == device:
                add(out["segment" if h in mapped else "allocation"], gift and gift["name"], size)
        for b in self.blocks.values():
            if b["device"] == device and self.inside(b):
                add(out["block"], b["site"], b["bytes"])
        gaps = [g[1] for s in self.segments(device, True) for g in s["gaps"]]
        if gaps:
            out["idle"] = {None: [sum(gaps), len(gaps)]}
        amount = {kind: sum(row[0] for row in rows.values()) for kind, rows in out.items()}
        if segments or amount["block"] + amount["idle"] != amount["segment"]:
            return {"allocation": out["allocation"], "segment": out["segment"]}, "segments"
        return {kind: out[kind] for kind in ("allocation", "block", "idle")}, "blocks"

    def totals(self, device, rows):
        """What each has taken since the beginning, in the kinds of these rows."""
        out = {kind: {} for kind in rows}
        if "block" in rows:
            out["block"] = self.blocks_taken.get(device, {})
        for g in self.taken:
            kind = "segment" if g["was_segment"] else "allocation"
            if g["device"] == device and kind in rows:
                add(out[kind], g["name"], g["bytes"])
        return out

    def pinned(self, device):
        """By segment, and by call site."""
        pinned = [s for s in self.segments(device, True) if s["free"] and s["blocks"]]
        sites = {}
        for s in pinned:
            names = {b["site"] for b in s["blocks"]}
            for n in names:
                row = sites.setdefault(n, dict.fromkeys(("blocks", "block_bytes", "segments", "free_bytes", "exclusive_bytes"), 0))
                mine = [b for b in s["blocks"] if b["site"] == n]
                row["blocks"] += len(mine)
                row["block_bytes"] += sum(b["bytes"] for b in mine)
                row["segments"] += 1
                row["free_bytes"] += s["free"]
                row["exclusive_bytes"] += s["bytes"] if len(names) == 1 else 0
                row["oldest_t_ns"] = min([b["t_ns"] for b in mine] + ([row["oldest_t_ns"]] if "oldest_t_ns" in row else []))
        return {s["start"]: [s["bytes"], s["free"], len(s["blocks"])] for s in pinned}, sites

    def in_the_way(self, device, kind, request):
        """The fewest bytes of blocks between two blocks (or ends) of a segment that lie as far apart as is asked for."""
        best = None
        for s in self.segments(device, True):
            edges = [s["start"]] + [b["start"] + b["bytes"] for b in s["blocks"]]
            starts = [b["start"] for b in s["blocks"]] + [s["start"] + s["bytes"]]
            for i, left in enumerate(edges):
                for j in range(i, len(starts)):
                    if s["class"] == kind and s["blocks"] and starts[j] - left >= request:
                        cost = sum(b["bytes"] for b in s["blocks"][i:j])
                        best = cost if best is None else min(best, cost)
                        break
        return best


def no_requests():
    return {"retries": 0, **{o: dict.fromkeys(("not_enough_free", "fragmented", "fit_unused"), 0) for o in ("growth_causes", "oom_causes")}}


class Requests:
    """Which requests made a pool grow, from what each thread did since its last block."""

    def __init__(self):
        self.since = {}
        self.counts, self.found = {}, []

    def see(self, model, e, number, details):
        calls = self.since.setdefault(e["tid"], [])
        if e["op"] in TAKES:
            if e.get("space") != "host" and (e["op"] != "create" or e["result"]):
                small_large = model.figures(model.device(e)) if model.seen else None
                e = {**e, "device": model.device(e)}
                calls.append((number, e, small_large, details and json.loads(json.dumps(model.__dict__, default=list))))
            return
        if not e["op"].startswith("block"):
            return
        self.since[e["tid"]] = []
        if e["op"] == "block-free":
            return
        calls = [c for c in calls if c[1]["result"] in (0, 2)]
        got = []
        while calls and not calls[-1][1]["result"]:  # what was got last, in one piece
            c = calls[-1][1]
            if got and not (c["op"] == got[0][1]["op"] == "map" and c["ptr"] + c["bytes"] == got[0][1]["ptr"]):
                break
            if c["device"] != e["device"] and got:
                break
            got.insert(0, calls.pop())
            if c["op"] == "alloc":
                break
        refused = []
        # (PyTorch repeats the same call: of the size that it got, or of one that has room for the block)
        size = got[0][1]["bytes"] if got else calls[-1][1]["bytes"] if calls else 0
        big_enough = got or calls and (calls[-1][1]["op"] == "create" or size >= e["bytes"])
        while big_enough and calls and calls[-1][1]["result"] and (calls[-1][1]["device"], calls[-1][1]["bytes"]) == (e["device"], size):
            refused.insert(0, calls.pop())
        if e["op"] == "block-alloc":
            low, high = (got[0][1]["ptr"], got[-1][1]["ptr"] + got[-1][1]["bytes"]) if got else (0, 0)
            if not got or got[0][1]["device"] != e["device"] or not (e["ptr"] < high and e["ptr"] + e["bytes"] > low):
                return
            first = refused[0] if refused else got[0]
        elif got or not refused:
            first = (number, e, model.figures(e["device"]), details and json.loads(json.dumps(model.__dict__, default=list)))
            refused = []
        else:
            first = refused[0]
        kind = "small" if e["bytes"] <= M else "large"
        gaps = (first[2] or {"small": [], "large": []})[kind]
        cause = "not_enough_free" if e["bytes"] > sum(gaps) else "fragmented" if e["bytes"] > max(gaps) else "fit_unused"
        outcome = "oom" if e["op"] == "block-oom" else "grown"
        row = self.counts.setdefault(e["device"], no_requests())
        row[{"grown": "growth_causes", "oom": "oom_causes"}[outcome]][cause] += 1
        row["retries"] += outcome == "oom" or bool(refused)
        if cause == "fragmented" or outcome == "oom":
            self.found.append({"event": number, "device": e["device"], "outcome": outcome, "cause": cause, "class": kind,
                               "requested_bytes": e["bytes"], "free_bytes": sum(gaps), "free_blocks": len(gaps),
                               "largest_free_bytes": max(gaps, default=0), "driver_oom": bool(refused),
                               "obtained_bytes": None if outcome == "oom" else high - low, "then": first[3]})


class Allocator:
    """A caching allocator: best fit in the segments of a stream and class, which it gets from a driver that may refuse."""

    def __init__(self, rng, devices, crowded):
        self.rng, self.out, self.t = rng, [], 10**9
        self.devices, self.capacity = devices, {d: (300 if crowded else 3000) * M for d in range(devices)}
        self.segments = []  # {start, size, page, stream, device, small, pages: set of mapped offsets, free: [(start, size)], kind}
        self.blocks, self.next_address, self.next_handle = {}, {d: 0x7F0000000000 + d * 0x10000000000 for d in range(devices)}, 100
        self.hidden = {d: 0 for d in range(devices)}
        self.others, self.mapped = [], {}

    def emit(self, op, tid, **fields):
        self.t += self.rng.randrange(10, 500) * 100  # (ticks)
        self.out.append({"op": op, "t_ns": self.t, "tid": tid, **fields})

    def address(self, device, size):
        at = self.next_address[device]
        self.next_address[device] += size + self.rng.choice([0, 0, 2 * M, 64 * M])
        return at

    def used(self, device):
        return sum(s["size"] if s["kind"] != "expandable" else len(s["pages"]) * s["page"]
                   for s in self.segments if s["device"] == device) + self.hidden[device]

    def totals(self, device):
        return {"allocated_bytes": sum(b[1] for b in self.blocks.values() if b[0]["device"] == device),
                "reserved_bytes": self.used(device), "device": device}

    def block(self, tid, segment, start, size):
        self.blocks[start] = (segment, size)
        self.emit("block-alloc", tid, ptr=start, bytes=size, stack=self.rng.choice(SITES), **self.totals(segment["device"]))

    def find(self, device, stream, small, size):
        fits = [(f[1], f[0], s) for s in self.segments if (s["device"], s["stream"], s["small"]) == (device, stream, small)
                for f in s["free"] if f[1] >= size]
        return min(fits, key=lambda f: f[:2]) if fits else None

    def take(self, tid, device, stream, size):
        small = size <= M
        for attempt in range(3):
            fit = self.find(device, stream, small, size)
            if fit:
                room, start, s = fit
                s["free"].remove((start, room))
                if room - size >= (512 if small or s["kind"] == "expandable" else M + 1):
                    s["free"].append((start + size, room - size))
                else:
                    size = room
                self.block(tid, s, start, size)
                return
            if attempt < 2 and self.grow(tid, device, stream, small, size):
                continue
            if attempt == 0:
                self.release(tid, device)
        self.emit("block-oom", tid, bytes=size, stack=self.rng.choice(SITES), **self.totals(device))

    def grow(self, tid, device, stream, small, size):
        piece = 2 * M if small else 20 * M if size < 10 * M else -(-size // (2 * M)) * 2 * M
        if self.used(device) + piece > self.capacity[device] // 2 and self.rng.random() < 0.1:
            return False  # a limit of its own: the driver is not asked
        refuse = self.used(device) + piece > self.capacity[device]
        kind = self.rng.choice(["malloc", "malloc", "expandable", "plugin", "hidden"] if self.rng.random() < 0.8 else ["malloc"])
        if kind == "hidden" and self.rng.random() < 0.7:
            kind = "malloc"
        if self.rng.random() < 0.2:  # somebody else asks meanwhile, on the same thread
            self.other(tid, device)
        if kind in ("malloc", "hidden", "plugin"):
            start = self.address(device, piece)
            if kind == "malloc":
                self.emit("alloc", tid, device=device, bytes=piece, space="device", api="cudaMalloc", stack=C10,
                          **({"result": 2} if refuse else {"result": 0, "ptr": start}))
            if refuse:
                return False
            if kind == "plugin":
                self.map(tid, device, start, piece, piece)
            self.segments.append({"start": start, "size": piece, "page": piece, "stream": stream, "device": device, "small": small,
                                  "pages": {0}, "free": [(start, piece)], "kind": kind})
            return True
        page = 2 * M if small else 20 * M
        mine = [s for s in self.segments if s["kind"] == "expandable" and (s["device"], s["stream"], s["small"]) == (device, stream, small)]
        if mine:
            s = mine[0]
        else:
            s = {"start": self.address(device, 400 * M), "size": 400 * M, "page": page, "stream": stream, "device": device,
                 "small": small, "pages": set(), "free": [], "kind": "expandable"}
            self.emit("reserve", tid, ptr=s["start"], bytes=s["size"], device=device, result=0, api="cuMemAddressReserve")
            self.segments.append(s)
        if refuse:
            self.emit("create", tid, device=device, bytes=page, space="device", api="cuMemCreate", result=2)
            return False
        n = -(-size // page)
        for first in range(s["size"] // page - n):
            pages = range(first, first + n)
            if not any(p in s["pages"] for p in pages):
                for p in pages:
                    self.map(tid, device, s["start"] + p * page, page, None)
                    s["pages"].add(p)
                self.give(s, s["start"] + first * page, n * page)
                return True
        return False

    def map(self, tid, device, start, size, reserve):
        if reserve:
            self.emit("reserve", tid, ptr=start, bytes=reserve, device=device, result=0, api="cuMemAddressReserve")
        self.next_handle += 1
        self.mapped[start] = self.next_handle
        self.emit("create", tid, device=device, bytes=size, handle=self.next_handle, space="device", api="cuMemCreate", result=0)
        self.emit("map", tid, ptr=start, bytes=size, handle=self.next_handle, api="cuMemMap", result=0,
                  stack=PLUGIN if reserve else C10)

    def give(self, s, start, size):
        for f in list(s["free"]):
            if f[0] + f[1] == start:
                s["free"].remove(f)
                start, size = f[0], f[1] + size
            elif start + size == f[0]:
                s["free"].remove(f)
                size += f[1]
        s["free"].append((start, size))

    def free(self, tid):
        start = self.rng.choice(list(self.blocks))
        s, size = self.blocks.pop(start)
        if self.rng.random() < 0.995:  # else the call is missing from the trace
            self.emit("block-free", tid, ptr=start, bytes=size, **self.totals(s["device"]))
            self.give(s, start, size)

    def other(self, tid, device):
        if self.others and self.rng.random() < 0.5:
            self.emit("free", tid, ptr=self.others.pop(self.rng.randrange(len(self.others))), api="cuMemFree_v2")
            return
        size = self.rng.choice([512, 2 * M, 3 * M])
        self.others.append(self.address(device, 4 * M))
        self.emit("alloc", tid, ptr=self.others[-1], bytes=size, device=device, result=0, api="cuMemAlloc_v2",
                  space=self.rng.choice(["device", "device", "host"]))

    def release(self, tid, device):
        """What holds no block goes back to the driver, from whatever end."""
        for s in [s for s in self.segments if s["device"] == device]:
            if s["kind"] == "expandable":
                for p in self.rng.sample(sorted(s["pages"]), len(s["pages"])):
                    at = s["start"] + p * s["page"]
                    inside = [f for f in s["free"] if f[0] <= at and at + s["page"] <= f[0] + f[1]]
                    if inside and self.rng.random() < 0.7:
                        (start, size), = inside
                        s["free"].remove((start, size))
                        s["free"] += [f for f in ((start, at - start), (at + s["page"], start + size - at - s["page"])) if f[1]]
                        self.unmap(tid, at, s["page"])
                        s["pages"].remove(p)
            elif s["free"] == [(s["start"], s["size"])] and s["kind"] != "hidden":
                if s["kind"] == "plugin":
                    self.unmap(tid, s["start"], s["size"])
                    self.emit("unreserve", tid, ptr=s["start"], bytes=s["size"], api="cuMemAddressFree")
                else:
                    self.emit("free", tid, ptr=s["start"], api="cudaFree")
                self.segments.remove(s)

    def unmap(self, tid, start, size):
        self.emit("unmap", tid, ptr=start, bytes=size, api="cuMemUnmap")
        self.emit("release", tid, handle=self.mapped.pop(start), api="cuMemRelease")

    def odd(self, tid):
        """What a whole trace of a sound program would not have."""
        what, device = self.rng.randrange(3), self.rng.randrange(self.devices)
        if what == 0:  # memory goes while it holds blocks
            s = self.rng.choice([s for s in self.segments if s["kind"] == "malloc"] or [None])
            if s:
                self.emit("free", tid, ptr=s["start"], api="cudaFree")
                self.segments.remove(s)
                self.segments.append({**s, "kind": "hidden"})
        elif what == 1:  # a block before its memory
            at = self.address(device, 20 * M)
            s = {"start": at, "size": 20 * M, "page": 20 * M, "stream": 0, "device": device, "small": False, "pages": {0},
                 "free": [(at + 3 * M, 17 * M)], "kind": "malloc"}
            self.segments.append(s)
            self.block(tid, s, at, 3 * M)
            self.emit("alloc", tid, device=device, bytes=20 * M, space="device", api="cudaMalloc", result=0, ptr=at, stack=C10)
        else:  # a block again where one is: its end was missed
            if self.blocks:
                at = self.rng.choice(list(self.blocks))
                s, size = self.blocks[at]
                self.block(tid, s, at, size)

    def run(self, n):
        rng = self.rng
        while len(self.out) < n:
            tid, device, stream = rng.randrange(1, 4), rng.randrange(self.devices), rng.randrange(2)
            want = 60 if len(self.out) // 700 % 2 else 25  # it fills, and empties
            if self.blocks and rng.random() * 100 >= want:
                self.free(tid)
            elif rng.random() < 0.01:
                self.release(tid, device)
            elif rng.random() < 0.01:
                self.odd(tid)
            elif rng.random() < 0.05:
                self.other(tid, device)
            else:
                size = rng.choice([512, 3 * K, 64 * K, M, M + 512, 2 * M, 5 * M, 9 * M, 10 * M, 30 * M, 33 * M + 512])
                self.take(tid, device, stream, size)
        return self.out[:n]


def trace_with(compress=None):
    t = Trace(**({"compress": compress} if compress else {}))
    t.version, t.columns = 3, packed_columns
    t.info = {"process.start_ns": "0"}
    return t


def save(t, name):
    return t.save(scratch(name))


def write(rng, events, name, chunk=250, **more):
    t = trace_with(**more)
    for i, e in enumerate(events):
        t.event(**e)
        if i % chunk == chunk - 1 or rng.random() < 0.001:
            t.flush()
    return save(t, name)


def read(view, path, *more):
    code, out, err = report(view, "--json", *more, path)
    equal((code, err), (0, b""), view)
    return json.loads(out)


def same_figures(got, want, what, more=()):
    if want is None or got is None:
        equal(got, want, what)
        return
    for key in ("allocated_bytes", "reserved_bytes", "unreconciled_bytes", "free_bytes", "free_blocks", "largest_free_bytes",
                "external_fragmentation", *more):
        equal(got[key], want[key], "%s %s" % (what, key))
    equal((got["largest_free_is_bound"], got["internal_bytes"]), (True, None), what)


FRAG = ("segments", "segment_bytes", "idle_segments", "idle_bytes", "held_segment_count", "held_free_bytes", "blocks",
        "block_bytes", "outside_segments_bytes")


DIVIDED = collections.Counter()


def columns(sites, column):
    """A column of `top` as {kind: {name of the innermost function: [bytes, number]}}."""
    out = {}
    for s in sites:
        if s[column + "_count"]:
            name = s["stack"][0]["name"] if s["stack"] else None
            equal(out.setdefault(s["kind"], {}).get(name), None, "one row for each call site")
            out[s["kind"]][name] = [s[column + "_bytes"], s[column + "_count"]]
    return out


def same_holders(model, path, what, *more):
    """What `top` says of the last moment and of the total. Returns how many devices had rows by block and by segment."""
    seen = collections.Counter()
    for segments in (False, True):
        for d in read("top", path, *more, *(["--segments"] if segments else []))["devices"]:
            want, divided = model.holders(d["ordinal"], segments)
            here = "%s device %d holders" % (what, d["ordinal"])
            if d["rows"] != divided:  # (the rows at the peak must be of the same kind)
                equal((d["rows"], divided), ("segments", "blocks"), here)
                want, divided = model.holders(d["ordinal"], True)
            seen[divided if not segments else None] += 1
            equal(columns(d["sites"], "live"), sums(want), here)
            equal(sum(s["live_bytes"] for s in d["sites"]), model.live_bytes(d["ordinal"]), here)
            equal(sum(s["peak_bytes"] for s in d["sites"]), d["peak_bytes"], here)
            equal(columns(d["sites"], "total_allocated"), sums(model.totals(d["ordinal"], want)), here)
    return seen


def same_end(model, path, what, *more):
    """Everything that frag, summary and top say of the last moment."""
    seen = same_holders(model, path, what, *more)
    DIVIDED.update(seen)
    for d in read("frag", path, "--at=end", *more)["devices"]:
        want = model.figures(d["ordinal"])
        here = "%s device %d" % (what, d["ordinal"])
        same_figures(d["pool"], want, here, FRAG)
        if want is None:
            continue
        for kind in ("small", "large"):
            equal([d["pool"][kind][k] for k in ("free_bytes", "free_blocks", "largest_free_bytes")],
                  [sum(want[kind]), len(want[kind]), max(want[kind], default=0)], here + kind)
        segments, sites = model.pinned(d["ordinal"])
        got = {int(s["ptr"], 16): [s["bytes"], s["free_bytes"], s["blocks"]] for s in d["pool"]["held_segments"]}
        if len(got) < 64:
            equal(got, segments, here)
        equal({p["site"].split(" ")[1]: {k: p[k] for k in sites[p["site"].split(" ")[1]]} for p in d["pool"]["held_by"]},
              sites, here)
        equal(sum(o["bytes"] for o in d["pool"]["segment_kinds"]), want["segment_bytes"], here)
    for d in read("summary", path, *more)["devices"]:
        same_figures(d["pool"]["end"], model.figures(d["ordinal"]), "%s summary %d" % (what, d["ordinal"]))


def at(t_ns):
    return "--to=%d.%09d" % (t_ns // 10**9, t_ns % 10**9)


def restored(data):
    m = Model()
    for k, v in data.items():
        setattr(m, k, v)
    m.blocks = {int(k): v for k, v in data["blocks"].items()}
    m.reservations = [tuple(r) for r in data["reservations"]]
    return m


def whole(seed, n, moments, details=True):
    """A run, compared at its end, at random moments, along its curve, at its peaks and refusals, request by request."""
    rng = dice(seed)
    events = Allocator(rng, 1 + seed % 3, seed % 2).run(n)
    path = write(rng, events, "whole.zst", **({} if n < 10000 else {"compress": zstd_frame}))
    model, requests = Model(), Requests()
    stops = sorted(rng.sample(range(n), moments))
    first, span = events[0]["t_ns"], events[-1]["t_ns"] - events[0]["t_ns"]
    instants = [first + span * (i + 1) // POINTS for i in range(POINTS)]
    curve, worst, state, settled = [], [], {}, {}  # settled: up to the last request of a device, (stretch, worst)
    peaks, refusals, coming, completed = {}, [], {}, 0
    devices = range(1 + seed % 3)
    for number, e in enumerate(events):
        while len(curve) < POINTS and e["t_ns"] > instants[len(curve)]:
            curve.append({d: model.figures(d) for d in devices})
            worst.append(dict(state))
            state = {d: curve[-1][d]["free_bytes"] - curve[-1][d]["largest_free_bytes"] for d in devices if curve[-1][d]}
        requests.see(model, e, number, details)
        model.apply(e, number)
        if e.get("result") == 2 or e["op"] == "block-oom":
            refusals.append({"event": number, "then": model.figures(e["device"]), "device": e["device"]})
        if e["op"] in TAKES and not e.get("result"):
            d = model.device(e)
            live = model.live_bytes(d)
            if live > peaks.get(d, (0,))[0]:
                peaks[d] = (live, model.figures(d), e["t_ns"], model.holders(d))
                coming[d] = dict(e)
        for d in [d for d in coming if e["op"].startswith("block") and coming[d]["tid"] == e["tid"] and e["device"] == d]:
            new = next((m for m in model.memory if (m["handle"] or m["start"]) == coming[d].get("handle", coming[d].get("ptr"))), None)
            del coming[d]
            # The block that made the memory belongs to the same moment.
            if e["op"] == "block-alloc" and model.live_bytes(d) == peaks[d][0] and new and \
                    new["start"] < e["ptr"] + e["bytes"] and e["ptr"] < new["start"] + new["bytes"]:
                peaks[d] = (peaks[d][0], model.figures(d), e["t_ns"], model.holders(d))
                completed += 1
        if details and model.seen and "device" in e:
            d = e["device"]
            f = model.figures(d)
            if f:
                state[d] = max(state.get(d, 0), f["free_bytes"] - f["largest_free_bytes"])
                if e["op"] in TAKES + ("block-alloc", "block-oom") and e.get("space") != "host":
                    settled[d] = len(curve), state[d]
        if number in stops:
            same_end(model, path, "seed %d event %d" % (seed, number), at(e["t_ns"]))
    while len(curve) < POINTS:
        curve.append({d: model.figures(d) for d in devices})
        worst.append(dict(state))
        state = {d: curve[-1][d]["free_bytes"] - curve[-1][d]["largest_free_bytes"] for d in devices if curve[-1][d]}
    same_end(model, path, "seed %d" % seed)

    summary = read("summary", path)
    found = incidents.find(events)
    listed = read("oom", path)["incidents"]  # (summary has the first 1000)
    equal([(i["event"], i["parts"], i["outcome"], i["pytorch"], i["recovered"]) for i in listed],
          [(i["head"], i["parts"], "retried" if i["retried"] else "failed", i["pytorch"], i["recovered"]) for i in found], "seed %d" % seed)
    equal(sorted(p for i in found for p in i["parts"]), [r["event"] for r in refusals], "seed %d" % seed)
    equal(sum(d["retries"] or 0 for d in summary["devices"]), sum(i["pytorch"] for i in found), "seed %d: PyTorch's incidents" % seed)
    crossing = next((r for r in refusals if r["event"] == incidents.crossing(found, events)), None)
    equal((summary["crossing"] or {}).get("event"), crossing and crossing["event"], "seed %d crossing" % seed)
    for device in summary["devices"]:
        d = device["ordinal"]
        what = "seed %d device %d" % (seed, d)
        same_figures(device["pool"]["peak"], peaks[d][1], what + " peak")
        equal((device["peak_bytes"], device["peak_t_ns"]), (peaks[d][0], peaks[d][2]), what)
        same_figures(device["pool"]["crossing"], crossing["then"] if crossing and crossing["device"] == d else None, what + " crossing")
        points = {p["t_ns"]: p for p in device["fragmentation"]}
        last, at_last = settled.get(d, (-1, None))
        for i, (t, f, w) in enumerate(zip(instants, curve, worst)):
            if f[d] is None:
                check(t not in points, what)
                continue
            same_figures(points[t], f[d], "%s at %d" % (what, t))
            if details:
                p, want = points[t]["worst"], w[d] if i < last else at_last if i == last else None
                equal(p and p["free_bytes"] - p["largest_free_bytes"], want, "%s worst before %d" % (what, t))
    for device in read("top", path)["devices"]:
        want, divided = peaks[device["ordinal"]][3]
        equal(device["peak_t_ns"], peaks[device["ordinal"]][2])
        if device["rows"] == divided:
            equal(columns(device["sites"], "peak"), sums(want), "seed %d device %d at the peak" % (seed, device["ordinal"]))
    check(n < 1000 or completed, "seed %d: a peak was completed by its block" % seed)
    named = 0
    for device in read("frag", path, "--at=end")["devices"]:
        d = device["ordinal"]
        want = requests.counts.get(d, no_requests())
        what = "seed %d device %d requests" % (seed, d)
        equal({k: device[k] for k in want} if device["pool"] else no_requests(), want, what)
        of_summary = next(s for s in summary["devices"] if s["ordinal"] == d)
        equal({k: of_summary[k] for k in want}, {k: device[k] for k in want}, what + " in summary")
        found = {r["event"]: r for r in requests.found if r["device"] == d}
        equal(len(device["requests"]), min(100, len(found)), what)
        for r in device["requests"]:
            w = found[r["event"]]
            equal({k: r[k] for k in w if k not in ("device", "then")}, {k: w[k] for k in w if k not in ("device", "then")}, what)
            if details and w["cause"] == "fragmented":
                named += 1
                cost = restored(w["then"]).in_the_way(d, w["class"], w["requested_bytes"])
                equal(r["in_the_way"] and r["in_the_way"]["block_bytes"], cost, "%s event %d" % (what, r["event"]))
        weights = [(r["outcome"] == "oom", r["free_bytes"] - r["largest_free_bytes"]) for r in device["requests"]]
        others = [(r["outcome"] == "oom", r["free_bytes"] - r["largest_free_bytes"]) for r in found.values()]
        equal(sorted(weights, reverse=True), sorted(others, reverse=True)[:100], what)
    return requests, refusals, named


def wrapped(seed, n):
    """The first part is gone; what was alive then is in a checkpoint, in parts between which life goes on."""
    rng = dice(seed)
    events = Allocator(rng, 2, 0).run(n)
    model, t, cut = Model(), trace_with(), n // 2 if seed % 2 else n - 10  # (then many segments are empty)
    for number, e in enumerate(events):
        if number == cut:
            t.flush()
            t.restart()
            t.info = {"process.start_ns": "0"}
            gone = len(t.out)
            records = []
            for start, size in model.reservations:
                records.append(t.record("reserve", 10**9, ptr=start, bytes=size))
            for m in model.memory:
                flags = ["segment"] if m["held"] else None
                if m["kind"] == "alloc":
                    records.append(t.record("alloc", m["t_ns"], ptr=m["start"], bytes=m["bytes"], device=m["device"], flags=flags,
                                            space="host" if m["host"] else "device", event=m["event"]))
            for b in model.blocks.values():
                site = next(s for s in SITES if s[0][0] == b["site"])
                records.append(t.record("block-alloc", b["t_ns"], ptr=b["start"], bytes=b["bytes"], device=b["device"], stack=site,
                                        event=b["event"]))
            rng.shuffle(records)
            for m in model.memory:
                if m["kind"] == "map":
                    records.append(t.record("map", m["t_ns"], ptr=m["start"], bytes=m["bytes"],
                                            handle=m["handle"], flags=["segment"] if m["held"] else None, event=m["event"]))
            for h, (device, size, _) in model.handles.items():
                mappings = sum(m["kind"] == "map" and m["handle"] == h for m in model.memory)
                records.append(t.record("create", 10**9, handle=h, bytes=size, device=device, space="device",
                                        **({"count": mappings} if mappings else {})))
            for m in model.memory:
                m["foreign"] = False  # (no record has a stack)
                if m["gift"]:
                    m["gift"]["name"] = None
            model.taken, model.blocks_taken = [], {}
            for h, (device, size, gift) in model.handles.items():
                gift["name"] = None
            for d, (allocated, reserved, *_) in model.stated.items():
                records.append(t.record("pool-sample", 10**9, tid=None, device=d, allocated_bytes=allocated, reserved_bytes=reserved))
                model.state(d, allocated, reserved)
        t.event(**e)
        model.apply(e, number)
        if number == cut:
            t.flush(checkpoint=(FIRST_PART | LAST_PART, records))
    t.flush(last=True)
    path = scratch("wrapped.zst", b"".join(t.out[gone:]))
    same_end(model, path, "wrapped seed %d" % seed)


@case("runs of some thousand events: all figures at the end and at random moments, curves, peaks, refusals, requests")
def short_runs():
    requests, retries = {o: dict.fromkeys(("not_enough_free", "fragmented", "fit_unused"), 0) for o in ("growth_causes", "oom_causes")}, 0
    named = refused = 0
    for seed in range(10 if FULL else 5):
        r, refusals, n = whole(seed, 1800 if seed % 2 else 1000, 2)
        named += n
        refused += len(refusals)
        for row in r.counts.values():
            retries += row["retries"]
            for outcome in requests:
                for cause, count in row[outcome].items():
                    requests[outcome][cause] += count
    for outcome, causes in requests.items():
        check(all(causes.values()), "the runs have %s of all kinds: %r" % (outcome, causes))
    check(named > 20 and refused > 20, "%d named requests, %d refusals" % (named, refused))
    check(DIVIDED["blocks"] > 20, "rows by block: %r" % DIVIDED)
    check(retries > sum(requests["oom_causes"].values()), "some of %d retries succeeded" % retries)


@case("the largest free block is exact only where no stream was created and nothing of that is missing")
def bounds():
    events = Allocator(dice(3), 1, 0).run(200)
    for info, last, bound in (({}, True, True), ({"hook.cuMemAlloc_v2.calls": "7"}, True, False),
                              ({"hook.cuMemAlloc_v2.calls": "7"}, False, True),
                              ({"hook.cuMemAlloc_v2.calls": "7", "hook.cuStreamCreateWithPriority.calls": "1"}, True, True)):
        t = trace_with()
        t.info.update(info)
        for e in events:
            t.event(**e)
        t.flush(last=last)
        path = scratch("bound.zst", t.bytes())
        code, out, _ = report("summary", "--json", path)
        equal((code, json.loads(out)["devices"][0]["pool"]["end"]["largest_free_is_bound"]), (0 if last else 4, bound), info)
        equal("largest at most" in report("frag", path)[1].decode(), bound, info)


@case("where PyTorch was told to do without blocks, frag says so")
def settings():
    for info, want in (({}, None), ({"process.env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, None),
                       ({"process.env.PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, "backend:cudaMallocAsync"),
                       ({"process.env.PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}, "backend:cudaMallocAsync"),
                       ({"process.env.PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "PYTORCH_NO_CUDA_MEMORY_CACHING")):
        t = trace_with()
        t.info.update(info)
        t.event("alloc", 10**9, device=0, bytes=M, ptr=0x7000000000, space="device", result=0)
        path = save(t, "settings.zst")
        got, text = read("frag", path)["without_blocks"], report("frag", path)[1].decode()
        check((got or "").startswith(want or "") and (got is None) == (want is None), info)
        equal(("PyTorch has no blocks: " + (want or "") in text), want is not None, info)


@case("what the driver refused is recovered by what the driver grants, what PyTorch refused by a block")
def recoveries():
    t = trace_with()
    driver = {"device": 0, "bytes": 10 * M, "space": "device", "api": "cudaMalloc", "tid": 1}
    totals = {"device": 0, "bytes": 10 * M, "tid": 1, "allocated_bytes": 0, "reserved_bytes": 0}
    t.event("alloc", 10**9, **driver, result=2)
    t.event("block-oom", 2 * 10**9, **totals)
    t.event("block-alloc", 3 * 10**9, ptr=0x7000000000, **totals)
    t.event("alloc", 4 * 10**9, **driver, result=2)
    t.event("alloc", 5 * 10**9, **driver, result=0, ptr=0x7100000000)
    t.event("block-oom", 6 * 10**9, **totals)
    t.event("alloc", 7 * 10**9, **driver, result=0, ptr=0x7200000000)
    ooms = read("summary", save(t, "recoveries.zst"))["ooms"]
    equal([(o["op"], o["reason"], o["recovered_event"]) for o in ooms],
          [("alloc", "unknown", 4), ("block-oom", "unknown", 2), ("alloc", "unknown", 4), ("block-oom", "pool-limit", None)])


@case("of more than a thousand segments and a thousand call sites: who pins which, each segment counted once")
def many_of_both():
    rng, t, rows, held = dice(11), trace_with(), {}, {}
    for i in range(1100):
        t.event("alloc", 10**9 + i * 100, device=0, bytes=2 * M, ptr=0x7000000000 + i * 4 * M, space="device", result=0)
    for i in range(6000):
        segment, site, now = rng.randrange(1100), rng.randrange(1000), 2 * 10**9 + i * 100
        place = held.setdefault(segment, [])
        place.append(site)
        hidden = [("Module._call_impl", "/x/torch/nn/modules/module.py", i % 3 + 1)] * (i % 2)  # no other call site
        t.event("block-alloc", now, ptr=0x7000000000 + segment * 4 * M + len(place) * 1024, bytes=512, device=0, tid=1,
                stack=hidden + [("site%d" % site, "/m/model.py", site + 1)])
    for segment, sites in held.items():
        for site in set(sites):
            row = rows.setdefault("site%d" % site, [0, 0, 0, 0])
            row[0] += sites.count(site)
            row[1] += 1
            row[2] += 2 * M - 512 * len(sites)
            row[3] += 2 * M * (len(set(sites)) == 1)
    pool = read("frag", save(t, "many.zst"), "--at=end")["devices"][0]["pool"]
    equal(pool["held_segment_count"], len(held))
    equal(len(pool["held_by"]), len(rows))
    equal({p["site"].split(" ")[1]: [p["blocks"], p["segments"], p["free_bytes"], p["exclusive_bytes"]] for p in pool["held_by"]}, rows)


def small(name, *events, **info):
    t = trace_with()
    t.info.update(info)
    for number, (op, fields) in enumerate(events):
        t.event(op, (number + 1) * 10**9, **{"device": 0, "tid": 1, **fields})
    return save(t, name)


def rows_of(path, number=None, *more):
    """The rows that hold something, behind an event of a trace of small()."""
    (d,) = read("top", path, *more, *([] if number is None else ["--to=%d" % (number + 1)]))["devices"]
    return d["rows"], sorted((s["kind"], s["site"].split(" ")[-1], s["live_bytes"], s["total_allocated_bytes"])
                             for s in d["sites"] if s["live_bytes"])


def memory(start, size, **more):
    return "alloc", {"ptr": start, "bytes": size, "result": 0, "space": "device", "stack": [("grow", "/m/torch.py", 1)], **more}


def block(start, size, site=0, **more):
    return "block-alloc", {"ptr": start, "bytes": size, "stack": SITES[site], **more}


@case("inside PyTorch's pool memory belongs to whoever holds a block, and the rest of it is idle; others keep theirs")
def who_holds():
    at, nccl = 0x7000000000, [("nccl", "/m/comm.py", 7)]
    path = small("holders.zst", memory(at, 20 * M), memory(at + G, 8 * M, stack=nccl), block(at, 3 * M, 1), block(at + 3 * M, M, 2),
                 ("block-free", {"ptr": at, "bytes": 3 * M}), block(at, 2 * M, 2))
    other = ("allocation", "nccl", 8 * M, 8 * M)
    equal(rows_of(path, 1), ("blocks", [("allocation", "grow", 20 * M, 20 * M), other]))
    equal(rows_of(path, 3), ("blocks", [other, ("block", "site1", 3 * M, 3 * M), ("block", "site2", M, M), ("idle", "pool", 16 * M, None)]))
    equal(rows_of(path), ("blocks", [other, ("block", "site2", 3 * M, 3 * M), ("idle", "pool", 17 * M, None)]))
    equal(rows_of(path, None, "--segments"), ("segments", [other, ("segment", "grow", 20 * M, 20 * M)]))
    oom = "block-oom", {"bytes": G, "stack": SITES[3]}
    d = read("summary", small("crossing.zst", memory(at, 20 * M), memory(at + G, 8 * M, stack=nccl), block(at, 3 * M, 1), oom))
    equal([(r["kind"], r["bytes"], r["count"], r["site"].split(" ")[-1], r["stack"] and r["stack"][0]["name"])
           for r in d["live_at_crossing"]],
          [("idle", 17 * M, 1, "pool", None), ("allocation", 8 * M, 1, "nccl", "nccl"), ("block", 3 * M, 1, "site1", "site1")])


@case("the block for which the driver was asked belongs to the peak that its memory made, if nothing has changed")
def the_peak_has_its_block():
    at = 0x7000000000

    def peak(*events):
        (d,) = read("summary", small("peak.zst", *events))["devices"]
        return d["peak_t_ns"] // 10**9 - 1, d["peak_bytes"] // M, (d["pool"]["peak"] or {}).get("free_bytes")
    first = memory(at, 2 * M), block(at, M)
    equal(peak(*first), (1, 2, M))
    equal(peak(memory(at, 2 * M), ("memory-sample", {"free_bytes": G, "total_bytes": 2 * G}), block(at, M)), (2, 2, M))
    equal(peak(*first, memory(at + G, 20 * M), block(at + G, 5 * M)), (3, 22, 16 * M))
    equal(peak(*first, memory(at + G, 20 * M), block(at + M, M)), (2, 22, M))  # not in the new memory
    equal(peak(*first, memory(at + G, 20 * M), block(at + M, M), block(at + G, M)), (2, 22, M))  # not the next one
    equal(peak(*first, memory(at + G, 20 * M), block(at + G, M, tid=2)), (2, 22, M))  # of another thread
    equal(peak(*first, memory(at + G, 20 * M), ("free", {"ptr": at}), block(at + G, M)), (2, 22, M))  # lower by then
    equal(peak(*first, memory(at + G, 20 * M), memory(at + 2 * G, M, tid=2), block(at + G, M)), (3, 23, M))  # higher by then
    page = {"bytes": 2 * M, "result": 0}
    expandable = (("reserve", {"ptr": at + G, "bytes": G, "result": 0}), ("create", {"handle": 7, "space": "device", **page}),
                  ("map", {"ptr": at + G, "handle": 7, **page}), ("create", {"handle": 8, "space": "device", **page}),
                  ("map", {"ptr": at + G + 2 * M, "handle": 8, **page}))
    equal(peak(*first, *expandable, block(at + G, 3 * M)), (7, 6, 2 * M))


@case("who made the pool grow stays visible: segments by the stack that called the driver; VMM objects while they are mapped")
def vmm_objects():
    at, page = 0x7000000000, {"bytes": 2 * M, "result": 0}
    create = "create", {"handle": 7, "space": "device", "stack": [("grow", "/m/torch.py", 1)], **page}
    path = small("vmm.zst", ("reserve", {"ptr": at, "bytes": G, "result": 0}), create, ("map", {"ptr": at, "handle": 7, **page}),
                 block(at, M), ("block-free", {"ptr": at, "bytes": M}), ("unmap", {"ptr": at, "bytes": 2 * M}),
                 ("map", {"ptr": at, "handle": 7, **page}), block(at, 512), ("block-free", {"ptr": at, "bytes": 512}),
                 ("unmap", {"ptr": at, "bytes": 2 * M}), ("release", {"handle": 7}))
    for to, rows in ((2, [("allocation", "grow", 2 * M, 2 * M)]), (3, [("block", "site0", M, M), ("idle", "pool", M, None)]),
                     (4, [("idle", "pool", 2 * M, None)]), (5, [("allocation", "grow", 2 * M, 0)]),
                     (7, [("block", "site0", 512, M + 512), ("idle", "pool", 2 * M - 512, None)]), (10, [])):
        equal(rows_of(path, to), ("blocks", rows), to)
        equal(rows_of(path, to, "--segments")[1],
              [("segment" if to in (3, 4, 7) else "allocation", "grow", 2 * M, 2 * M if to < 5 or to in (3, 4, 7) else 0)][:len(rows)], to)


UNKNOWN = 2**64 - 1
STREAMS = {"torch.block_streams": "current"}


def beside_streams(name, first, second, failed, more=(), **info):
    """15 MiB are free in a segment with blocks of the first stream, 2 MiB in one of the second; then 12 MiB are refused."""
    at = 0x7000000000
    first, second, failed = ({"stream": n} if n else {} for n in (first, second, failed))
    fails = "alloc", {"api": "cudaMalloc", "bytes": 12 * M, "space": "device", "result": 2}
    return small(name, ("memory-sample", {"api": "cudaMemGetInfo", "free_bytes": 83 * M, "total_bytes": 83 * M}), memory(at, 40 * M),
                 block(at, 25 * M, **first), memory(at + G, 40 * M), block(at + G, 38 * M, 1, **second), *more,
                 ("memory-sample", {"api": "cudaMemGetInfo", "free_bytes": 3 * M, "total_bytes": 83 * M}), fails, fails,
                 ("block-oom", {"bytes": 12 * M, "stack": SITES[2], "allocated_bytes": 63 * M, "reserved_bytes": 80 * M, **failed}),
                 **info)


def free_on_others(path):
    (d,) = read("frag", path)["devices"]
    (r,) = [r for r in d["requests"] if r["outcome"] == "oom"]
    o = r["other_streams"]
    return o and [o["free_bytes"] // M, o["free_blocks"], o["largest_free_bytes"] // M, o["unknown_free_bytes"] // M]


@case("what was free in segments of other streams when a request failed; nothing of that where a stream is not known")
def other_streams():
    at, page = 0x7000000000, {"bytes": 20 * M, "result": 0}
    path = beside_streams("others.zst", 0, 3, 3, **STREAMS)
    equal(free_on_others(path), [15, 1, 15, 0])
    cause = read("summary", path)["crossing"]["cause"]["pool"]
    equal((cause["cause"], cause["other_streams"]["largest_free_bytes"]), ("fit_unused", 15 * M))
    sentence = "a free block of 15.00 MiB was in a segment of another stream, whose memory no request of this stream gets"
    check(sentence in " ".join(report("oom", path)[1].decode().split()), "oom")
    check("other streams when it failed: 15.00 MiB was free, largest 15.00 MiB" in " ".join(report("frag", path)[1].decode().split()), "frag")
    (v,) = [v for v in read("explain", path)["verdicts"] if v["scenario"] == "fragmentation"]
    check(any(e["bytes"] == 15 * M and "15.00 MiB" in e["text"] for e in v["evidence"]), v)

    equal(free_on_others(beside_streams("same.zst", 3, 3, 3, **STREAMS)), [0, 0, 0, 0])
    other = free_on_others(beside_streams("smaller.zst", 3, 0, 3, **STREAMS))
    equal(other, [2, 1, 2, 0])
    path = beside_streams("smaller.zst", 3, 0, 3, **STREAMS)
    check("of another stream" not in report("oom", path)[1].decode(), "2 MiB are not enough for 12")
    check(not any("another stream" in v["summary"] for v in read("explain", path)["verdicts"]), "nor are they a cause")
    equal(free_on_others(beside_streams("older.zst", 0, 3, 3)), None)
    equal(free_on_others(beside_streams("unknown.zst", 0, 3, UNKNOWN, **STREAMS)), None)
    equal(free_on_others(beside_streams("part.zst", UNKNOWN, 3, 3, **STREAMS)), [0, 0, 0, 15])
    # Blocks of one segment with two streams: requests name theirs.
    equal(free_on_others(beside_streams("named.zst", 0, 3, 3, [block(at + 30 * M, M, stream=5)], **STREAMS)), None)
    # A new segment in the place of an earlier one is of its own blocks' stream; so is new address space.
    again = [("block-free", {"ptr": at, "bytes": 25 * M}), ("free", {"ptr": at, "result": 0}), memory(at, 40 * M), block(at, 30 * M, stream=3)]
    equal(free_on_others(beside_streams("again.zst", 0, 3, 3, again, **STREAMS)), [0, 0, 0, 0])
    space = at + 2 * G

    def one(stream, size):
        return [("reserve", {"ptr": space, "bytes": G, "result": 0}), ("create", {"handle": 7, "space": "device", **page}),
                ("map", {"ptr": space, "handle": 7, **page}), block(space, size, stream=stream)]

    gone = [("block-free", {"ptr": space, "bytes": 13 * M}), ("unmap", {"ptr": space, **page}), ("release", {"handle": 7, "result": 0}),
            ("unreserve", {"ptr": space, "bytes": G, "result": 0})]
    equal(free_on_others(beside_streams("space.zst", 3, 3, 3, one(5, 13 * M), **STREAMS)), [7, 1, 7, 0])
    equal(free_on_others(beside_streams("new-space.zst", 3, 3, 3, one(5, 13 * M) + gone + one(6, 14 * M), **STREAMS)), [6, 1, 6, 0])
    equal(free_on_others(beside_streams("unknown-space.zst", 3, 3, 3, one(5, 13 * M) + gone + one(UNKNOWN, 14 * M), **STREAMS)), [0, 0, 0, 6])


@case("blocks that overlap, because a free was lost, do not add up: then the rows are by segment, and still add up")
def overlapping_blocks():
    at = 0x7000000000
    path = small("overlap.zst", memory(at, 20 * M), block(at, 3 * M, 1), block(at + M, M, 2))
    equal(rows_of(path), ("segments", [("segment", "grow", 20 * M, 20 * M)]))
    equal(rows_of(path, 1), ("blocks", [("block", "site1", 3 * M, 3 * M), ("idle", "pool", 17 * M, None)]))


@case("blocks in memory whose allocation was not recorded are nobody's part of what is tracked")
def outside():
    at = 0x7000000000
    path = small("outside.zst", memory(at, 20 * M), block(at, M, 1), block(at + G, 5 * M, 2), block(at + 19 * M, 2 * M, 3))
    rows = "blocks", [("block", "site1", M, M), ("idle", "pool", 19 * M, None)]
    equal([rows_of(path, 1), rows_of(path, 2)], [rows, rows])
    # One block reaches beyond its segment, so its part of the segment belongs to nobody.
    equal(rows_of(path)[0], "segments")
    path = small("later.zst", block(at, M, 1), memory(at, 20 * M), ("free", {"ptr": at}), memory(at - M, 20 * M))
    rows = [("block", "site1", M, 0), ("idle", "pool", 19 * M, None)]
    equal([rows_of(path, i)[1] for i in range(4)], [[], rows, [], rows])


@case("recorded on a GPU: PyTorch's own figures at the peak, and the call sites of a model's weights")
def recorded():
    def at_peak(name):
        (path,) = glob.glob(os.path.join(ROOT, "tests/gpu/results/*", name + ".zst"))
        (d,) = read("top", path)["devices"]
        return read("summary", path)["devices"][0]["pool"]["peak"], {s["site"]: s["peak_bytes"] for s in d["sites"]}
    equal(at_peak("recovered")[0]["reserved_bytes"], 60416 * M)  # right after PyTorch's last growth
    pool, _ = at_peak("mempool")
    equal((pool["reserved_bytes"], pool["allocated_bytes"]), (66 * M, 64 * M))
    _, held = at_peak("training")
    weights = held["modeling_utils.py:3706 PreTrainedModel.to"]
    check(0 <= 15259648 - weights <= K, weights)  # torch's checkpoint of the model alone
    equal([held["adam.py:%d Adam._init_group" % line] for line in (178, 182)], [weights, weights])


@case("traces that begin with a checkpoint")
def checkpoints():
    for seed in range(14 if FULL else 4):
        wrapped(seed, 2100)


@case("a million events, in runs of 50 thousand, at random moments", long=True)
def long_run():
    for seed in range(100, 120):
        whole(seed, 50000, 4, details=False)


main()
