# SPDX-License-Identifier: Apache-2.0
"""The expected snapshot, from the lines of `cutrace-report dump --json`: slow, with nothing but dictionaries and loops.

For traces without lost events, in which no address is allocated twice.
"""
import incidents

OURS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "alloc", "free_requested", "free_completed", "oom")
NOT_ITS_OWN = {"foreign", "multicast", "deferred"}


class Region:
    def __init__(self, e, mapped, device):
        self.start, self.bytes, self.event = int(e["ptr"], 16), e["bytes"], e["event"]
        self.device, self.mapped, self.stack, self.t = device, mapped, e["stack"], e["t_ns"]
        self.pool = False  # whether it ever holds a block, up to the end of the window

    def entries(self, sign, e):
        """(event's time, action, address, bytes, stack, category) of what happens to it and, if it holds none, to its own block."""
        t, stack = (self.t, self.stack) if sign > 0 else (e["t_ns"], e["stack"])
        outer = ("segment_map", "segment_unmap") if self.pool and self.mapped else ("segment_alloc", "segment_free")
        mine = [(t, outer[sign < 0], self.start, self.bytes, stack, None)]
        if self.pool:
            return mine
        block = Block({"ptr": hex(self.start), "bytes": self.bytes, "event": self.event, "stack": self.stack, "t_ns": self.t,
                       "device": self.device}, outside=True).entries(sign, e)
        return mine + block if sign > 0 else block + mine


class Block:
    def __init__(self, e, outside=False):
        self.start, self.bytes, self.event = int(e["ptr"], 16), e["bytes"], e["event"]
        self.device, self.stack, self.t, self.outside = e["device"], e["stack"], e["t_ns"], outside

    def entries(self, sign, e):
        if sign > 0:
            return [(self.t, "alloc", self.start, self.bytes, self.stack, self.outside)]
        return [(e["t_ns"], a, self.start, self.bytes, e["stack"], None) for a in ("free_requested", "free_completed")]


class State:
    def __init__(self):
        self.regions, self.blocks, self.handles, self.live = {}, {}, {}, {}

    def apply(self, e):
        """What begins and what ends: [(sign, thing)], in this order."""
        op, changes = e["op"], []
        if e["result"] not in (None, 0):
            return changes
        memory = e["space"] != "host" and not NOT_ITS_OWN & set(e["flags"])
        if op == "alloc" and e["ptr"] and memory:
            changes.append((+1, Region(e, False, e["device"])))
        elif op == "create":
            self.handles[e["handle"]] = (e["device"], memory)
        elif op == "map":
            device, counts = self.handles.get(e["handle"], (e["device"], True))
            changes += [(+1, Region(e, True, device))] if counts and memory else []
        elif op == "free":
            changes += [(-1, self.regions[a]) for a in [int(e["ptr"], 16)] if a in self.regions]
        elif op == "unmap":
            first = int(e["ptr"], 16)
            changes += [(-1, r) for a, r in sorted(self.regions.items()) if r.mapped and first <= a < first + e["bytes"]]
        elif op == "block-alloc":
            changes.append((+1, Block(e)))
        elif op == "block-free":
            changes += [(-1, self.blocks[a]) for a in [int(e["ptr"], 16)] if a in self.blocks]
        for sign, thing in changes:
            of = self.blocks if isinstance(thing, Block) else self.regions
            if sign > 0:
                of[thing.start] = thing
            else:
                del of[thing.start]
            if sign > 0 and isinstance(thing, Block):
                for r in self.regions.values():
                    r.pool |= r.start < thing.start + thing.bytes and thing.start < r.start + r.bytes
        return changes


def expected(events, first, last):
    """(traces by device, final segments) of the window from event `first` to `last`, both included."""
    state, log, before = State(), [], None
    heads = {i["head"] for i in incidents.find(events, [e["event"] for e in events]) if not i["retried"]}
    for e in events:
        if e["event"] > last:
            break
        if e["event"] >= first and before is None:
            before = list(state.regions.values()) + list(state.blocks.values())
        changes = state.apply(e)
        if before is not None:
            refused = e["event"] in heads and incidents.of_device(e)
            log.append((e, changes, refused))
    if before is None:
        before = list(state.regions.values()) + list(state.blocks.values())
    traces, told = {}, set()

    def say(device, entries):
        if told is not None and device not in traces:
            traces[device] = []
        if device not in traces:
            traces[device] = ["snapshot"]
        traces[device] += entries
    for thing in sorted(before, key=lambda x: (isinstance(x, Block), x.event)):
        say(thing.device, thing.entries(+1, None))
    told = None  # (from now on, a list begins with the mark)
    for trace in traces.values():
        trace.append("snapshot")
    for e, changes, refused in log:
        if refused:
            say(e["device"], [(e["t_ns"], "oom", None, e["bytes"], e["stack"], None)])
        for sign, thing in changes:
            say(thing.device, thing.entries(sign, e))
    return traces, segments(state)


def segments(state):
    """[(device, start, bytes, mapped, stack, [(start, bytes, stack or None: free)])], by address."""
    found, regions = [], [state.regions[a] for a in sorted(state.regions)]
    while regions:
        run = [regions.pop(0)]
        while regions and run[0].pool and run[0].mapped and regions[0].pool and regions[0].mapped and \
                regions[0].device == run[0].device and regions[0].start == run[-1].start + run[-1].bytes:
            run.append(regions.pop(0))
        start, end = run[0].start, run[-1].start + run[-1].bytes
        blocks, at = [], start
        inner = sorted((b.start, b.bytes, b.stack) for b in state.blocks.values() if start <= b.start < end) \
            if run[0].pool else [(start, end - start, run[0].stack)]
        for a, b, stack in inner:
            blocks += [(at, a - at, None)] if a > at else []
            blocks.append((a, b, stack))
            at = a + b
        blocks += [(at, end - at, None)] if at < end else []
        found.append((run[0].device, start, end - start, run[0].pool and run[0].mapped, run[0].stack, blocks))
    return found


def frames(stack):
    """(file, line, name) of the frames that are not hidden, innermost first; None: not to be compared."""
    shown = []
    for f in stack or []:
        if not f["hidden"] and f["kind"] != "end":
            shown += [(i["file"] or "", i["line"] or 0, i["name"]) for i in f["inlined"]]
            shown.append((f["file"] or f["module"] or "", f["line"] or 0, f["name"]))
    return shown if shown or not stack else None
