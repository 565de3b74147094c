# SPDX-License-Identifier: Apache-2.0
"""Segments and blocks from the events of `cutrace-report dump --json`, in the plainest way, without code of the
recorder or the report: which memory the driver allocated, which blocks lie in it, and which of both are live. A segment
is driver memory that has held a block. Mappings side by side in one reservation are one segment."""
import bisect
import collections


def number(x):
    return int(x, 16) if isinstance(x, str) else x


class Device:
    """Memory of one device."""

    def __init__(self, told):
        self.told = told  # for problems
        self.memory = {}  # address -> bytes, from the driver
        self.starts = []  # its addresses, ascending
        self.held = set()  # those of them that have held a block
        self.mapped = {}  # mappings: address -> address of their reservation
        self.blocks = {}  # address -> bytes, handed out
        self.allocated = self.reserved = 0  # sums of blocks, and of the memory that has held one
        self.stated = (0, 0)  # what PyTorch said last
        self.count = collections.Counter()

    def take(self, event, address, size, reservation):
        if address in self.memory:
            self.told(event, f"takes {address:#x}, which is taken")
        self.memory[address] = size
        bisect.insort(self.starts, address)
        if reservation is not None:
            self.mapped[address] = reservation

    def give(self, address):
        size = self.memory.pop(address)
        self.starts.pop(bisect.bisect_left(self.starts, address))
        self.mapped.pop(address, None)
        if address in self.held:
            self.held.remove(address)
            self.reserved -= size

    def touched(self, address, size):
        """The pieces of memory that a block lies in; they must follow one another without a gap."""
        at = bisect.bisect_right(self.starts, address) - 1
        end, covered = address + size, address
        while 0 <= at < len(self.starts) and self.starts[at] < end:
            start = self.starts[at]
            if start > covered or start + self.memory[start] <= covered:
                break
            yield start
            covered = start + self.memory[start]
            at += 1
        if covered < end:
            yield None

    def block_alloc(self, event, address, size):
        if address in self.blocks:
            self.told(event, f"hands out {address:#x}, which is handed out")
        for start in self.touched(address, size):
            if start is None:
                self.told(event, f"hands out {address:#x}, which is no memory of the driver's")
            elif start not in self.held:
                self.held.add(start)
                self.reserved += self.memory[start]
        self.blocks[address] = size
        self.allocated += size

    def block_free(self, event, address, size):
        if self.blocks.get(address) != size:
            self.told(event, f"takes back {size} bytes at {address:#x}, where {self.blocks.get(address)} were handed out")
        self.allocated -= self.blocks.pop(address, 0)

    def block_event(self, event):
        op, address, size = event["op"], number(event["ptr"]), event["bytes"]
        self.count[op] += 1
        if op == "block-alloc":
            self.block_alloc(event, address, size)
        elif op == "block-free":
            self.block_free(event, address, size)
        self.stated = event["allocated_bytes"], event["reserved_bytes"]
        if self.stated != (self.allocated, self.reserved):
            self.told(event, f"PyTorch says that {self.stated} bytes are allocated and reserved; "
                             f"the events before it make {(self.allocated, self.reserved)}")

    def segments(self):
        """(address, bytes) of each, ascending."""
        out, before = [], None
        for start in self.starts:
            if start not in self.held:
                before = None
                continue
            reservation, size = self.mapped.get(start), self.memory[start]
            if before is not None and reservation is not None and before == reservation and sum(out[-1]) == start:
                out[-1] = (out[-1][0], out[-1][1] + size)
            else:
                out.append((start, size))
            before = reservation
        return out

    def free_ranges(self):
        """(address, bytes) of what lies in segments and is not handed out, as long as each can be."""
        out, blocks = [], sorted(self.blocks.items())
        at = 0
        for start, size in self.segments():
            end, free_from = start + size, start
            while at < len(blocks) and blocks[at][0] < end:
                if blocks[at][0] > free_from:
                    out.append((free_from, blocks[at][0] - free_from))
                free_from = sum(blocks[at])
                at += 1
            if free_from < end:
                out.append((free_from, end - free_from))
        return out


class Replay:
    """Of all devices of a process."""

    def __init__(self):
        self.problems = []
        self.devices = collections.defaultdict(lambda: Device(self.problem))
        self.reservations = []  # (address, bytes), ascending
        self.owner = {}  # address -> device, of what was taken
        self.handles = {}  # handle of memory -> its device

    def problem(self, event, text):
        if len(self.problems) < 20:
            self.problems.append(f"event {event['event']} ({event['op']}): {text}")

    def reservation_of(self, address):
        at = bisect.bisect_right(self.reservations, (address, 1 << 64)) - 1
        return self.reservations[at][0] if at >= 0 and address < sum(self.reservations[at]) else None

    def event(self, e):
        op = e["op"]
        if op.startswith("block-"):
            self.devices[e["device"]].block_event(e)
        elif e["result"] or e["space"] == "host":
            pass
        elif op == "reserve":
            bisect.insort(self.reservations, (number(e["ptr"]), e["bytes"]))
        elif op == "unreserve":
            self.reservations.remove((number(e["ptr"]), e["bytes"]))
        elif op == "create":
            self.handles[e["handle"]] = e["device"]
        elif op == "alloc":
            self.take(e, e["device"], None)
        elif op == "map":
            self.take(e, self.handles[e["handle"]], self.reservation_of(number(e["ptr"])))
        elif op == "free" and number(e["ptr"]) == 0:
            pass  # cuMemFree(0) gives nothing back and succeeds: cuBLAS does that (tests/gpu/results)
        elif op in ("free", "unmap"):
            self.give(e, number(e["ptr"]), e["bytes"] if op == "unmap" else 1)

    def take(self, e, device, reservation):
        address = number(e["ptr"])
        self.owner[address] = device
        self.devices[device].take(e, address, e["bytes"], reservation)

    def give(self, e, address, size):
        """A free of one address, or an unmapping of whole mappings in a range."""
        device = self.devices[self.owner.get(address)]
        at = bisect.bisect_left(device.starts, address)
        starts = device.starts[at:bisect.bisect_left(device.starts, address + size)]
        if not starts:
            self.problem(e, f"gives back {address:#x}, which is not taken")
        for start in starts:
            device.give(start)
            del self.owner[start]
