#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies and fills against a model in Python of what the bytes are, and against what the process has in memory: pages
that nobody has touched take none."""
import ctypes as C
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from alone import *  # noqa: E402,F403
from driver import *  # noqa: E402,F403
from tap import Skip  # noqa: E402


def resident():
    """Bytes of this process that are in memory."""
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")


GB, LITTLE = 1 << 30, 64 * MB


@alone("memory that nobody has touched is copied and filled without taking any", SIM_MEM_MB="32768")
def memory_that_nobody_has_touched_is_copied_and_filled_without_taking_any():
    if not os.access("/proc/self/pagemap", os.R_OK):
        raise Skip("/proc/self/pagemap cannot be read")
    d = Driver()
    d.start()
    size = 12 * GB
    a, b, host = d.take(size), d.take(size), d.value("cuMemHostAlloc", size, 0)
    before = resident()
    C.memset(a + 5 * GB + 77, 7, 1000)
    eq(d.cuMemcpyDtoH_v2(host, a, size), SUCCESS)
    eq(C.string_at(host + 5 * GB, 2000), bytes(77) + b"\7" * 1000 + bytes(923))
    eq(d.cuMemcpyDtoD_v2(b, a, size), SUCCESS)
    eq(C.string_at(b + 5 * GB + 1070, 10), b"\7" * 7 + bytes(3))
    C.memset(a + 9 * GB, 1, 4096)
    eq(d.cuMemcpyHtoD_v2(a, host, size), SUCCESS)  # back again: what was written since then goes
    eq(C.string_at(a + 9 * GB, 4096), bytes(4096))
    eq(C.string_at(a + 5 * GB, 2000), bytes(77) + b"\7" * 1000 + bytes(923))
    eq(d.cuMemcpyAsync(b, a, size, 0), SUCCESS)
    for name, value, width in (("cuMemsetD8_v2", 0, 1), ("cuMemsetD32_v2", 0, 4), ("cuMemsetD16_v2", 0, 2)):
        eq(getattr(d, name)(b, value, size // width), SUCCESS)
    eq(d.cuMemsetD32Async(b, 0, size // 4, 0), SUCCESS)
    eq(C.string_at(b + 5 * GB, 2000), bytes(2000))
    assert resident() - before < LITTLE, f"{(resident() - before) >> 20} MiB more"


@started("what was touched is copied beside what was not", SIM_MEM_MB="1024")
def what_was_touched_is_copied_beside_what_was_not(d):
    size, page, choose = 3 * MB, os.sysconf("SC_PAGESIZE"), random.Random(17)

    def fresh(kind):
        if kind == "device":
            return d.take(size)
        if kind == "locked":
            return d.value("cuMemHostAlloc", size, 0)
        va, _ = mapped(d)
        return va

    def scatter(address, model):
        for _ in range(choose.randrange(12)):
            n = choose.choice((1, 100, page, 3 * page, 100 * page))
            at = choose.randrange(size - n)
            C.memset(address + at, value := choose.randrange(1, 256), n)
            model[at:at + n] = bytes([value]) * n

    for kinds in (x for _ in range(4) for x in (("device", "locked"), ("locked", "device"), ("device", "device"),
                                                ("vmm", "locked"), ("locked", "vmm"), ("vmm", "vmm"))):
        (source, was), (target, now) = ((fresh(kind), bytearray(size)) for kind in kinds)
        scatter(source, was)
        scatter(target, now)
        for _ in range(4):
            n = choose.choice((size, choose.randrange(size), choose.randrange(3 * page)))
            at, to = choose.randrange(size - n + 1), choose.randrange(size - n + 1)
            eq(d.cuMemcpy(target + to, source + at, n), SUCCESS)
            now[to:to + n] = was[at:at + n]
            where, n = choose.randrange(size // 2), choose.randrange(4 * page)
            if kinds[1] != "locked":
                eq(d.cuMemsetD8_v2(target + where, fill := choose.choice((0, 0, 9)), n), SUCCESS)
                now[where:where + n] = bytes([fill]) * n
        eq((C.string_at(source, size) == was, C.string_at(target, size) == now), (True, True), kinds)


@started("copies within one range may overlap")
def copies_within_one_range_may_overlap(d):
    p, model = d.take(MB), bytearray(MB)
    for i in range(0, MB, 3 * 4096):
        C.memset(p + i, i // 4096 % 255 + 1, 1000)
        model[i:i + 1000] = bytes([i // 4096 % 255 + 1]) * 1000
    for to, at, n in ((100, 0, 500000), (0, 4096, 900000), (65536, 0, 65536)):
        eq(d.cuMemcpyDtoD_v2(p + to, p + at, n), SUCCESS)
        model[to:to + n] = model[at:at + n]
        eq(C.string_at(p, MB) == model, True)


run_suite()
