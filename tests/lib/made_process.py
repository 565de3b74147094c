# SPDX-License-Identifier: Apache-2.0
"""A process that is made up: its allocations, PyTorch's blocks and readings on one device."""
from mktrace import Trace
from tap import scratch

M, G, SECOND = 1 << 20, 1 << 30, 10**9
OUT_OF_MEMORY = 2


class Process:
    """A process that allocates on device 0, event by event."""

    def __init__(self, total, **info):
        self.t, self.total, self.at = Trace(), total, 60 * SECOND
        self.tracked = self.blocks = self.segments = 0
        self.next_ptr, self.size = 0x7F0000000000, {}
        self.info = {"process.pid": "100", "process.start_ns": str(50 * SECOND), "clock.monotonic_ns": str(50 * SECOND),
                     "device.0.total_bytes": str(total), "device.0.meminfo_total_bytes": str(total), **info}
        self.t.info = dict(self.info)

    def event(self, op, **fields):
        self.at += 10**6
        self.t.event(op, self.at, tid=100, device=0, **fields)

    def alloc(self, size, stack=None, result=0, space="device", **fields):
        ptr = self.next_ptr
        more = {} if result else {"ptr": ptr}
        self.event("alloc", api="cudaMalloc", bytes=size, space=space, result=result, stack=stack, **more, **fields)
        if not result:
            self.next_ptr += size + 2 * M
            self.size[ptr] = size
            self.tracked += size if space == "device" else 0
        return ptr

    def free(self, ptr):
        self.event("free", api="cudaFree", ptr=ptr, result=0)
        self.tracked -= self.size.pop(ptr)

    def block(self, ptr, size, stack=None):
        self.blocks += size
        self.event("block-alloc", ptr=ptr, bytes=size, stack=stack, allocated_bytes=self.blocks, reserved_bytes=self.segments)

    def unblock(self, ptr, size):
        self.blocks -= size
        self.event("block-free", ptr=ptr, bytes=size, allocated_bytes=self.blocks, reserved_bytes=self.segments)

    def tensor(self, size, stack=None):
        """A block that is all of its segment."""
        ptr = self.alloc(size, stack)
        self.segments += size
        self.block(ptr, size, stack)
        return ptr, size

    def drop(self, tensor):
        """Frees it, and gives its segment back."""
        self.unblock(*tensor)
        self.segments -= tensor[1]
        self.free(tensor[0])

    def nvml(self, own, others=0):
        """NVML's report: `own` bytes of this process that are in no allocation."""
        self.event("memory-sample", flags=["nvml"], free_bytes=self.left(own + others), total_bytes=self.total,
                   process_bytes=self.tracked + own)

    def left(self, outside):
        """What a reading calls free: never less than nothing, also where a run is made to need more than there is."""
        return max(0, self.total - self.tracked - outside)

    def reads(self, outside, stack=None):
        """The program's own cudaMemGetInfo; it can come late, with nothing new in it."""
        self.event("memory-sample", api="cudaMemGetInfo", free_bytes=self.left(outside), total_bytes=self.total, stack=stack)

    def save(self, name):
        return self.t.save(scratch(name + ".zst"))
