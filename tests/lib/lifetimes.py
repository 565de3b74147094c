# SPDX-License-Identifier: Apache-2.0
"""What lives from when to when, from the file itself as lib/read_trace.py reads it (files of older versions: from what dump
says of each event): written from FORMAT.md and the rules of cuda.h, with a dictionary and loops. For traces from the start of
a process."""
import collections
import functools
import json

import read_trace
from tap import report

NO_MEMORY = {"deferred", "multicast", "foreign"}
FLAGS = {2: "async", 4: "deferred", 5: "multicast", 6: "foreign"}
SPACES = {1: "device", 2: "managed", 3: "host"}


def from_file(path):
    """Events with the names that dump has for flags and spaces."""
    for e in read_trace.Trace(path).amended():
        flags = e.get("flags", 0)
        yield dict(e, flags={name for bit, name in FLAGS.items() if flags >> bit & 1}, space=SPACES.get(e.get("space")))


def from_dump(path):
    for e in map(json.loads, report("dump", "--json", path)[1].splitlines()):
        e.update({k: int(e[k], 16) for k in ("ptr", "handle", "context") if e[k]}, flags=set(e["flags"]))
        yield {k: v for k, v in e.items() if v is not None}


def read_events(path):
    try:
        return list(from_file(path))
    except (read_trace.Bad, UnicodeDecodeError):  # (of an older version; with facts that are no text)
        return list(from_dump(path))


class Lifetimes:
    """`objects`: what lives behind the events that were followed, by (name space, key). `live[d]`: driver memory of a device
    then; `peak[d]`: (bytes, event)."""

    def __init__(self):
        self.objects, self.ended = {}, []
        self.live, self.peak = collections.Counter(), {}
        self.now = -1, None

    def follow(self, e):
        self.now = self.now[0] + 1, e["t_ns"]
        self.apply(e)
        device = e.get("device")
        if device is not None and (device not in self.peak or self.live[device] > self.peak[device][0]):
            self.peak[device] = self.live[device], self.now[0]

    @property
    def rows(self):
        """Dictionaries with kind ("block" or "memory"), key, device, bytes, event, t_ns, end_event and end_t_ns (None: live
        at the end) of all that counts as memory of the device."""
        return self.ended + [dict(o, end_event=None, end_t_ns=None) for o in self.objects.values() if o["counts"]]

    def begin(self, space, key, e):
        self.end(space, key)
        kind = "block" if space == "block" else "memory"
        counts = kind == "block" or (space in ("address", "array", "handle") and e.get("space") != "host" and
                                     not e["flags"] & NO_MEMORY)
        self.objects[space, key] = {"kind": kind, "key": key, "device": e.get("device"), "bytes": e.get("bytes", 0),
                                    "event": self.now[0], "t_ns": self.now[1], "counts": counts, "refs": 1, "maps": 0,
                                    "context": e.get("context"), "flags": e["flags"], "space": e.get("space"), "stack": e.get("stack")}
        if counts and kind == "memory":
            self.live[e.get("device")] += e.get("bytes", 0)

    def end(self, space, key):
        o = self.objects.pop((space, key), None)
        if o and o["counts"]:
            if o["kind"] == "memory":
                self.live[o["device"]] -= o["bytes"]
            self.ended.append(dict(o, end_event=self.now[0], end_t_ns=self.now[1]))

    def settle(self, handle):
        o = self.objects.get(("handle", handle))
        if o and o["refs"] <= 0 and not o["maps"]:
            self.end("handle", handle)

    def unmap(self, at):
        mapping = self.objects.pop(("mapping", at))
        o = self.objects.get(("handle", mapping["link"]))
        if o and o["maps"]:
            o["maps"] -= 1
        self.settle(mapping["link"])

    def apply(self, e):
        op, ptr, handle = e["op"], e.get("ptr", 0), e.get("handle", 0)
        o = self.objects.get(("handle", handle))
        if e.get("result", 0):
            return
        if op == "alloc":
            self.begin(*(("array", handle) if handle else ("address", ptr)), e)
        elif op == "free":
            self.end(*(("array", handle) if handle else ("address", ptr)))
        elif op == "block-alloc" and ptr:
            self.begin("block", ptr, e)
        elif op == "block-free":
            self.end("block", ptr)
        elif op in ("create", "import"):
            if o:
                o["refs"] += 1
            else:
                self.begin("handle", handle, e)
        elif op == "retain" and o:
            o["refs"] += 1
        elif op == "release" and o:
            o["refs"] = max(0, o["refs"] - 1)
            self.settle(handle)
        elif op == "map" and ptr:
            if ("mapping", ptr) in self.objects:
                self.unmap(ptr)
            self.objects["mapping", ptr] = {"link": handle, "counts": False, "bytes": e.get("bytes", 0)}
            if o:
                o["maps"] += 1
        elif op == "unmap":
            for at in [k for s, k in self.objects if s == "mapping" and ptr <= k < ptr + e.get("bytes", 0)]:
                self.unmap(at)
        elif op == "context-destroy":
            for space, key in [k for k, o in self.objects.items() if k[0] in ("address", "array") and
                               o["context"] == e.get("context") and "async" not in o["flags"]]:
                self.end(space, key)


@functools.lru_cache(maxsize=None)
def lifetimes_of(path):
    found = Lifetimes()
    for e in read_events(path):
        found.follow(e)
    return found
