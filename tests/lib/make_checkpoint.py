# SPDX-License-Identifier: Apache-2.0
"""The checkpoint and the history that a chunk of a file that has wrapped begins with, by FORMAT.md, sections 7 and 8.

It knows the events of real vLLM, and ranges: no arrays, memory pools, graph memory, managed memory, and no frees that fail.
"""
import bisect
import collections

import mktrace
import whole_trace

NVML, GRAPH, FOREIGN, SEGMENT, HOLDS = (mktrace.FLAGS[n] for n in ("nvml", "graph", "foreign", "segment", "holds-segment"))
HOST = mktrace.SPACES["host"]
COSTS = {"context-create": "contexts", "module-load": "modules", "limit": "limits"}
KEPT = ("op", "t_ns", "bytes", "stack", "device", "context", "thread", "api", "flags", "space", "pool", "ptr", "handle")
RANGE = ("op", "t_ns", "thread", "api", "handle", "text", "domain", "category")
BUCKETS = 64  # of a history


class Device:
    def __init__(self):
        self.tracked = self.total = 0
        self.last = self.lowest = self.report = self.torch = None
        self.costs = {}  # part -> bytes
        self.contexts = self.graphs = self.unmeasured = 0


class State:
    """What is live, and what was read, after the records that were applied."""

    def __init__(self):
        self.number = 0
        self.live = {}  # (kind, key) -> record of a checkpoint
        self.devices = collections.defaultdict(Device)
        self.starts = []  # sorted addresses of memory that may hold blocks
        self.maps, self.refs = collections.Counter(), collections.Counter()
        self.curve = []  # (t_ns, device, tracked, out of memory)
        self.ranges = []  # that are open, as records of a checkpoint

    # ---- events
    def apply(self, r):
        if r["op"] == "amend":
            return
        if not r.get("result"):
            getattr(self, "on_" + r["op"].replace("-", "_"), lambda r: None)(r)
        if r["op"] in ("block-alloc", "block-free", "block-oom"):
            self.devices[r["device"]].torch = r["reserved_bytes"], r["allocated_bytes"]
        if "free_bytes" in r and "total_bytes" in r:
            self.read(r)
        if r.get("device") in self.devices:
            self.curve.append((r["t_ns"], r["device"], self.devices[r["device"]].tracked, r.get("result") == 2))
        self.number += 1

    def create(self, kind, key, r, **more):
        self.live[kind, key] = {**{k: r[k] for k in KEPT if k in r}, "event": self.number, **more}

    def count(self, record, sign):
        flags, space = record.get("flags", 0), record.get("space")
        if space != HOST and not flags & FOREIGN and "device" in record:
            self.devices[record["device"]].tracked += sign * record.get("bytes", 0)

    def on_alloc(self, r):
        self.create("address", r["ptr"], r)
        self.count(r, +1)
        if r.get("space") != HOST:
            bisect.insort(self.starts, r["ptr"])

    def on_free(self, r):
        gone = self.live.pop(("address", r["ptr"]), None)
        if gone:
            self.count(gone, -1)
            if gone.get("space") != HOST:
                self.starts.remove(r["ptr"])

    def on_register(self, r):
        self.create("registered", r["ptr"], r)

    def on_unregister(self, r):
        self.live.pop(("registered", r["ptr"]), None)

    def on_ipc_open(self, r):
        self.create("ipc", r["ptr"], r)

    def on_ipc_close(self, r):
        self.live.pop(("ipc", r["ptr"]), None)

    def on_reserve(self, r):
        self.create("reserved", r["ptr"], r)

    def on_unreserve(self, r):
        self.live.pop(("reserved", r["ptr"]), None)

    def on_create(self, r):
        self.create("handle", r["handle"], r)
        self.refs[r["handle"]] += 1
        self.count(r, +1)

    on_import = on_create

    def on_retain(self, r):
        self.refs[r["handle"]] += 1

    def on_release(self, r):
        self.refs[r["handle"]] -= 1
        self.end_handle(r["handle"])

    def on_map(self, r):
        self.create("map", r["ptr"], r)
        bisect.insort(self.starts, r["ptr"])
        handle = r["handle"]
        self.maps[handle] += 1
        reserved = self.live.get(("reserved", r["ptr"]))
        memory = self.live.get(("handle", handle))
        if reserved and reserved.get("flags", 0) & HOLDS:
            self.live["map", r["ptr"]].update(flags=SEGMENT, device=reserved["device"])
        if reserved and not reserved.get("flags", 0) & SEGMENT:
            reserved.update(flags=reserved.get("flags", 0) | SEGMENT, t_ns=r["t_ns"])
            reserved.pop("stack", None)
            reserved.update({k: r[k] for k in ("stack",) if k in r})
        elif reserved and memory and self.maps[handle] == 1 and reserved["bytes"] == r["bytes"]:
            memory.pop("stack", None)
            memory.update({k: reserved[k] for k in ("stack",) if k in reserved})

    def on_unmap(self, r):
        for key in [k for k in self.live if k[0] == "map" and r["ptr"] <= k[1] < r["ptr"] + r["bytes"]]:
            handle = self.live.pop(key)["handle"]
            self.starts.remove(key[1])
            self.maps[handle] -= 1
            self.end_handle(handle)

    def end_handle(self, handle):
        if self.refs[handle] <= 0 and self.maps[handle] <= 0 and ("handle", handle) in self.live:
            self.count(self.live.pop(("handle", handle)), -1)

    def on_block_alloc(self, r):
        self.create("block", r["ptr"], r)
        at = bisect.bisect_right(self.starts, r["ptr"]) - 1
        while at >= 0:  # the memory that the block lies in, and on
            start = self.starts[at]
            memory = self.live.get(("address", start)) or self.live.get(("map", start))
            if start + memory["bytes"] > r["ptr"]:
                memory["flags"] = memory.get("flags", 0) | SEGMENT
                if memory["op"] == "map":
                    memory["device"] = r["device"]
                    reserved = self.live.get(("reserved", start))
                    if reserved and reserved["bytes"] == memory["bytes"]:
                        reserved.update(flags=reserved["flags"] | HOLDS, device=r["device"])
            at += 1
            if at == len(self.starts) or self.starts[at] >= r["ptr"] + r["bytes"]:
                break

    def on_block_free(self, r):
        self.live.pop(("block", r["ptr"]), None)

    def on_range_push(self, r):
        self.ranges.append({**{k: r[k] for k in RANGE if k in r}, "event": self.number})

    on_range_start = on_range_push

    def on_range_pop(self, r):
        self.end_range(lambda o: o["op"] == "range-push" and o["thread"] == r["thread"] and o.get("domain") == r.get("domain"))

    def on_range_end(self, r):
        self.end_range(lambda o: o["op"] == "range-start" and o["handle"] == r["handle"])

    def end_range(self, is_it):
        for at in reversed(range(len(self.ranges))):
            if is_it(self.ranges[at]):
                del self.ranges[at]
                return

    def on_context_create(self, r):
        self.devices[r["device"]].contexts += 1
        self.cost("contexts", r)

    def on_context_destroy(self, r):
        d = self.devices[r["device"]]
        d.contexts -= d.contexts > 0
        if not d.contexts:
            d.costs = dict.fromkeys(d.costs, 0)

    def on_module_load(self, r):
        self.cost("modules", r)

    def on_limit(self, r):
        self.cost("limits", r)

    def on_module_unload(self, r):
        if "device" in r and "modules" in self.devices[r["device"]].costs:
            self.devices[r["device"]].costs["modules"] = 0

    def on_memory_sample(self, r):
        if not r.get("flags", 0) & GRAPH:
            return
        d = self.devices[r["device"]]
        known = "free_before_bytes" in r and "free_bytes" in r
        if "handle" in r and not known:
            d.unmeasured, d.graphs = d.unmeasured + d.graphs, 0
            d.costs["graphs"] = 0
        d.graphs += known and "handle" not in r
        d.unmeasured += not known and "handle" not in r
        self.cost("graphs", r, ends="handle" in r)

    def cost(self, part, r, ends=False):
        if "free_before_bytes" in r and "free_bytes" in r:
            costs, took = self.devices[r["device"]].costs, r["free_before_bytes"] - r["free_bytes"]
            took = min(took, 0) if ends else max(took, 0)
            costs[part] = max(costs.get(part, 0) + took, 0)

    def read(self, r):
        d = self.devices[r["device"]]
        is_nvml = bool(r.get("flags", 0) & NVML)
        total = (d.total or r["total_bytes"]) if is_nvml else r["total_bytes"]
        reading = {"t_ns": r["t_ns"], "free_bytes": r["free_bytes"], "total_bytes": total, "used_bytes": d.tracked}
        d.last = reading
        if not is_nvml:
            d.total = r["total_bytes"]
            if not d.lowest or r["free_bytes"] < d.lowest["free_bytes"]:
                d.lowest = {k: reading[k] for k in ("t_ns", "free_bytes", "total_bytes")}
        elif "process_bytes" in r:
            d.report = max(r["process_bytes"] - d.tracked, 0), max(total - r["free_bytes"] - d.tracked, 0)

    # ---- what a chunk begins with
    def objects(self):
        order = {"map": 1, "handle": 2}
        for (kind, key), record in sorted(self.live.items(), key=lambda o: (order.get(o[0][0], 0), o[1]["event"])):
            record = dict(record)
            if kind == "handle":
                record["op"] = "create"
                record.update({"count": self.maps[key]} if self.maps[key] else {})
                record.update({"refs": self.refs[key]} if self.refs[key] != 1 else {})
            yield record

    def readings(self, number, d):
        base = {"device": number}
        if d.torch:
            yield {**base, "op": "pool-sample", "t_ns": 0, "reserved_bytes": d.torch[0], "allocated_bytes": d.torch[1]}
        if d.lowest:
            yield {**base, "op": "memory-sample", **d.lowest}
        if d.last:
            last = {**base, "op": "memory-sample", **d.last}
            if d.report:
                last.update(process_bytes=d.last["used_bytes"] + d.report[0], bytes=d.report[1])
            yield last
        for op, part in COSTS.items():
            if part in d.costs:
                yield {**base, "op": op, "t_ns": 0, "free_before_bytes": d.costs[part], "free_bytes": 0,
                       **({"count": d.contexts} if part == "contexts" else {})}
        if d.graphs or d.unmeasured:
            yield {**base, "op": "memory-sample", "t_ns": 0, "flags": GRAPH, "count": d.graphs, "refs": d.unmeasured,
                   "free_before_bytes": d.costs.get("graphs", 0), "free_bytes": 0}

    def checkpoint(self):
        return [*self.objects(), *(r for n, d in sorted(self.devices.items()) for r in self.readings(n, d)), *reversed(self.ranges)]

    def history(self, start_ns):
        """Tracked memory of each device in buckets of equal width."""
        if not self.curve:
            return None
        width = (self.curve[-1][0] - start_ns) // BUCKETS + 1
        cells = {}
        for t_ns, device, tracked, refused in self.curve:
            c = cells.setdefault((device, (t_ns - start_ns) // width), [0, 0, tracked, tracked, tracked])
            c[0] += 1
            c[1] += refused
            c[2:] = min(c[2], tracked), max(c[3], tracked), tracked
        return mktrace.history(start_ns, width, [(*k, c[0], c[1], {1: tuple(c[2:]), 4: tuple(c[2:])})
                                                 for k, c in sorted(cells.items())])


def state_at(path, t_ns):
    """The state behind all events of a trace up to a time of its clock."""
    state = State()
    for r in whole_trace.Whole(path).records:
        if r["t_ns"] <= t_ns:
            state.apply(r)
    return state


def states(whole, edges):
    """The checkpoint and the history before each of these records, in their order."""
    state, at, start = State(), 0, int(whole.info.get("process.start_ns", 0)) or whole.records[0]["t_ns"]
    start = min(start, whole.records[0]["t_ns"])
    for edge in edges:
        for r in whole.records[at:edge]:
            state.apply(r)
        at = edge
        yield state.checkpoint(), state.history(start)


def insert(whole, edges):
    """The chunks of a trace: one begins at each of the edges, with the state of then."""
    return whole_trace.write(whole, edges, restarts={i + 1: s for i, s in enumerate(states(whole, edges))})
