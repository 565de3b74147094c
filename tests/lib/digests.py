# SPDX-License-Identifier: Apache-2.0
"""What the digests of a trace must say, by FORMAT.md alone: from the records of each chunk, in the order of the file.

It shares nothing with the recorder or the report. What is live is followed from the first event of the process on, so
that a trace that has lost its beginning is compared in what needs no state only."""
import collections

import read_trace

NO_MEMORY = 1 << 4 | 1 << 5 | 1 << 6  # deferred, multicast, foreign
ASYNC, NVML = 1 << 2, 1 << 10
OOM_OPS = set("alloc create graph-alloc map reserve register retain export access pool-create ipc-open import "
              "context-create module-load limit memory-sample block-alloc".split())


class Object:
    def __init__(self, e, kind, site):
        flags = e.get("flags", 0)
        device = e.get("device", -1)
        self.kind, self.site, self.size = kind, site, e.get("bytes", 0)
        self.device = device if 0 <= device < 64 else 64
        self.counts = kind in "ahv" and e.get("space") != 3 and not flags & NO_MEMORY
        self.context, self.survives = e.get("context", 0), bool(flags & ASYNC) or kind == "v"
        self.refs, self.maps, self.handle, self.mapped = 1, 0, e.get("handle", 0), None


class Chunk:
    """What the digest of a chunk must say."""

    def __init__(self, head, live):
        self.ops, self.lost, self.failed = collections.Counter(), 0, []
        self.before = collections.Counter(live)
        self.taken, self.given = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
        self.sites = collections.defaultdict(lambda: [0, 0, 0, 0])
        self.peak, self.lowest, self.last, self.reported, self.most = {}, {}, {}, {}, {}
        self.head = head


class Live:
    def __init__(self, trace):
        self.trace, self.objects, self.live = trace, {}, collections.Counter()
        self.tentative, self.names = {}, {}  # thread -> (time, key, object)
        self.chunk = None

    def site(self, tables, ident):
        """A call site, the same in all generations: its frames."""
        if not ident:
            return None
        key = id(tables), ident
        if key not in self.names:
            node, frames = tables[5][ident], []
            while node:
                node, i = tables["nodes"][node]
                frames.append(repr(sorted(tables[4][i].items(), key=str)))
            self.names[key] = tuple(frames)
        return self.names[key]

    # ---- what joins and leaves

    def count(self, o, sign):
        if not o.counts:
            return
        self.live[o.device] += sign * o.size
        flow = (self.chunk.taken if sign > 0 else self.chunk.given)[o.device]
        flow[0] += o.size
        flow[1] += 1
        self.move(o, o.site, sign)
        if sign > 0:
            level, (highest, *_) = self.live[o.device], self.chunk.peak.get(o.device, (self.chunk.before[o.device],))
            if level > highest:
                self.chunk.peak[o.device] = level, self.number, self.event["t_ns"]

    def move(self, o, site, sign):
        flow, at = self.chunk.sites[site], 0 if sign > 0 else 2
        flow[at] += o.size
        flow[at + 1] += 1

    def add(self, kind, key, e):
        self.remove((kind, key))
        o = self.objects[kind, key] = Object(e, kind, self.site(*e["at"]) if "at" in e else None)
        self.count(o, +1)
        return o

    def remove(self, key):
        o = self.objects.pop(key, None)
        if o:
            self.count(o, -1)
        return o

    def end_memory(self, key):
        o = self.objects.get(key)
        if o and o.kind == "v" and not o.refs and not o.maps:
            self.remove(key)

    def unmap(self, key):
        m = self.remove(key)
        memory = self.objects.get(("v", m.handle))
        if memory and memory.maps:
            memory.maps -= 1
        self.end_memory(("v", m.handle))

    def free(self, key, e):
        """Of an address, array, reservation or registration: final when the thread frees again."""
        self.tentative.pop(e["thread"]["tid"], None)
        if key in self.objects:
            o = self.remove(key)
            self.tentative[e["thread"]["tid"]] = e, key, o
        else:  # two threads free the same: only if both fail it lives
            last = [t for t in self.tentative.values() if t[1] == key]
            if last:
                self.tentative[e["thread"]["tid"]] = e, key, last[-1][2]

    def amend(self, a):
        free, key, o = self.tentative.get(a["thread"]["tid"], (None, None, None))
        if free is None or not a.get("result") or not 0 <= a["amends_ns"] - free["t_ns"] < free["span_ns"]:
            return
        del self.tentative[a["thread"]["tid"]]
        if any(t[2] is o for t in self.tentative.values()) or key in self.objects:
            return
        self.objects[key] = o
        self.count(o, +1)

    def map(self, e):
        if not e.get("ptr") or "bytes" not in e:
            return
        if ("m", e["ptr"]) in self.objects:
            self.unmap(("m", e["ptr"]))
        m = self.add("m", e["ptr"], e)
        memory = self.objects.get(("v", m.handle))
        is_new = memory and not memory.maps
        if memory:
            memory.maps += 1
        r = self.objects.get(("r", e["ptr"]))
        if r and r.mapped is None:
            r.mapped = (m.site,)
        elif r and is_new and r.size == m.size and memory.counts:
            self.move(memory, memory.site, -1)
            memory.site = r.mapped[0]
            self.move(memory, memory.site, +1)

    def apply(self, e, number):
        op, ptr, handle = e["op"], e.get("ptr", 0), e.get("handle", 0)
        self.event, self.number = e, number
        if op == "amend":
            self.amend(e)
            return
        if e.get("result"):
            return
        key = {"alloc": ("a", ptr) if ptr else ("h", handle), "create": ("v", handle), "import": ("v", handle),
               "reserve": ("r", ptr), "register": ("g", ptr)}.get(op)
        if op in ("create", "import") and handle:
            o = self.objects.get(key)
            if o and (o.refs or o.maps):
                o.refs += 1
            else:
                self.add("v", handle, e)
        elif key and key[1]:
            self.add(*key, e)
        elif op == "free":
            key = ("h", handle) if handle else ("a", ptr)
            if key not in self.objects and ("m", ptr) in self.objects:
                self.tentative.pop(e["thread"]["tid"], None)
                self.unmap(("m", ptr))
            elif key[1]:
                self.free(key, e)
            else:
                self.tentative.pop(e["thread"]["tid"], None)
        elif op in ("unreserve", "unregister"):
            self.free(("r" if op == "unreserve" else "g", ptr), e)
        elif op == "retain" and ("v", handle) in self.objects:
            self.objects["v", handle].refs += 1
        elif op == "release" and ("v", handle) in self.objects:
            o = self.objects["v", handle]
            o.refs -= bool(o.refs)
            self.end_memory(("v", handle))
        elif op == "map":
            self.map(e)
        elif op == "unmap" and ptr and "bytes" in e:
            for k in sorted(k for k in self.objects if k[0] == "m" and ptr <= k[1] < ptr + e["bytes"]):
                self.unmap(k)
        elif op == "context-destroy" and "context" in e:
            for k in [k for k, o in self.objects.items() if k[0] in "ahg" and o.context == e["context"] and not o.survives]:
                self.remove(k)

    def note(self, e, number):
        c, device = self.chunk, e.get("device", -1)
        device = device if 0 <= device < 64 else 64
        c.ops[e["op"]] += 1
        if e["op"] == "lost":
            c.lost += e["count"]
        if e["op"] == "block-oom" or (e.get("result") == 2 and e["op"] in OOM_OPS):
            c.failed.append(number)
        if "free_bytes" in e and "total_bytes" in e:
            c.last[device] = e
            if not e.get("flags", 0) & NVML and e["free_bytes"] < c.lowest.get(device, {}).get("free_bytes", 1 << 64):
                c.lowest[device] = e
        if e["op"].startswith("block-") and "allocated_bytes" in e and "reserved_bytes" in e and not e.get("result"):
            c.reported[device] = e
            for name in ("allocated", "reserved"):
                if e[name + "_bytes"] > c.most.get((device, name), (-1, 0))[0]:
                    c.most[device, name] = e[name + "_bytes"], number


def is_time(claimed, e):
    return 0 <= claimed - e["t_ns"] < e["span_ns"]


def compare_facts(c, d, device):
    for name, found in (("lowest", c.lowest), ("last", c.last)):
        e = found.get(device)
        if (e is None) != (name not in d):
            yield f"device {device}: {name} reading: {d.get(name)}, found {e}"
        elif e and (d[name][:2] != (e["free_bytes"], e["total_bytes"]) or not is_time(d[name][2], e)):
            yield f"device {device}: {name} reading: {d[name]}, found {e}"
    e = c.reported.get(device)
    found = e and (e["allocated_bytes"], e["reserved_bytes"])
    if d.get("reported") != found:
        yield f"device {device}: PyTorch's totals {d.get('reported')}, found {found}"
    for name in ("allocated", "reserved"):
        if d.get("most_" + name) != c.most.get((device, name)):
            yield f"device {device}: PyTorch's highest {name} {d.get('most_' + name)}, found {c.most.get((device, name))}"


def compare_live(c, d, device, live):
    found = [*c.taken[device], *c.given[device]]
    if [d.get(name, 0) for name in read_trace.FLOW] != found or d.get("live", 0) != live[device]:
        yield f"device {device}: {d}, found {found} and {live[device]} live"
    peak = c.peak.get(device)
    if (peak is None) != ("peak" not in d) or peak and (d["peak"][:2] != peak[:2] or not 0 <= d["peak"][2] - peak[2] < 2000):
        yield f"device {device}: peak {d.get('peak')}, found {peak}"


def compare_sites(state, c, g, tables):
    total, listed, used = [0] * 4, collections.defaultdict(lambda: [0] * 4), collections.Counter()
    for ident in tables[5]:
        used[state.site(tables, ident)] += 1
    last = None
    for ident, flow in [*g["sites"], (None, g["rest"])]:
        values = [flow[name] for name in read_trace.FLOW]
        total = [a + b for a, b in zip(total, values)]
        if ident is None:
            break
        if last is not None and values[0] + values[2] > last:
            yield "sites that are not in their order"
        last = values[0] + values[2]
        name = state.site(tables, ident)
        listed[name] = [a + b for a, b in zip(listed[name], values)]
    for name, values in listed.items():
        if values != c.sites[name] and used[name] < 2:
            yield f"a call site: {values}, found {c.sites[name]}"
    found = [sum(flow[i] for flow in c.sites.values()) for i in range(4)]
    if total != found:
        yield f"all call sites: {total}, found {found}"
    if len(c.sites) <= 1024 and listed and "lost" not in c.ops:
        most = sorted((f[0] + f[2] for f in c.sites.values()), reverse=True)[:len(listed)]
        if last < most[-1] and all(used[name] == 1 for name in c.sites if name):
            yield f"a site with {most[-1]} bytes is not listed, one with {last} is"


def definition_bytes(raw):
    p, end = read_trace.Cursor(raw), 0
    while p.more():
        kind = p.varint()
        p.take(p.u32())
        if kind < 7:
            end = p.at
    return end


def follow(state, trace):
    """Each chunk's head, and what its events are, with the state behind it."""
    for head in trace.heads:
        c = state.chunk = Chunk(head, state.live)
        number = head["first_event"]
        for e in head["records"]:
            state.apply(e, number)
            if e["op"] != "amend":
                state.note(e, number)
                number += 1
        yield head, c


def check(path, ring=False):
    """(problems, how many chunks have digests, how many of these were compared in full)"""
    trace = read_trace.Trace(path, ring)
    state, known, problems, digests, full = Live(trace), not trace.missing, [], 0, 0
    for head, c in follow(state, trace):
        g = head["digest"]
        if not g:
            continue
        digests += 1
        found = []
        if (g["ops"], g["lost"], g["failed"], g["failed_events"]) != (dict(c.ops), c.lost, len(c.failed), c.failed[:64]):
            found.append(f"{g['ops']}, {g['lost']} lost, {g['failed_events']} failed; found {c.ops}, {c.lost}, {c.failed}")
        failed_frees = sum(e["op"] == "amend" and bool(e.get("result")) for e in head["records"])
        if g["failed_frees"] != failed_frees:
            found.append(f"{g['failed_frees']} frees that failed, found {failed_frees}")
        if g["definitions"] != definition_bytes(head["raw_body"]):
            found.append(f"{g['definitions']} bytes of definitions, found {definition_bytes(head['raw_body'])}")
        for device in range(65):
            d = g["devices"].get(device, {})
            found += compare_facts(c, d, device)
            found += compare_live(c, d, device, state.live) if known else []
        if known:
            found += compare_sites(state, c, g, head["tables"])
            full += 1
        problems += [f"chunk {head['seq']}: {p}" for p in found]
    return problems[:5], digests, full
