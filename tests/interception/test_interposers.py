#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: libjemalloc libtcmalloc
"""Other preloaded libraries, before and after libcutrace.so: the chain works, and no call is counted twice."""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Skip, case, main  # noqa: E402
from ways import *  # noqa: E402,F403

PLACES = ("before", "after")


def library(name):
    found = glob.glob(f"/usr/lib/*/{name}*") + glob.glob(f"/usr/lib/{name}*")
    # CUTRACE_WITHOUT: what is to be taken for absent
    if not found or any(word in name for word in os.environ.get("CUTRACE_WITHOUT", "").split()):
        raise Skip(f"{name} is not installed")
    return sorted(found, key=len)[0]


def asan():
    r = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True)
    path = os.path.realpath(r.stdout.strip())
    if not os.path.exists(path):
        raise Skip("libasan is not installed")
    return path


def ops(done):
    return [(e["api"], e["op"]) for e in done.calls()]


for place in PLACES:
    def _tms(place=place):
        kw = {place: [program("liblike_tms.so")]}
        done = run("memory_saver", **kw)
        problems = good(done) + same_as_without(done, "memory_saver", **kw)
        maps = [e for e in done.calls() if e["op"] == "map"]
        if len(maps) != 8:  # four of cudaMalloc, four of the resume
            problems.append(f"{len(maps)} mappings")
        # Behind us it is inside our cudaMalloc; before us the program's call never reaches us.
        want = "cudaMalloc" if place == "after" else "cuMemMap"
        if maps and maps[0]["api"] != want:
            problems.append(f"a mapping is named {maps[0]['api']}")
        return problems
    case(f"like torch_memory_saver, {place} us: its VMM calls are the events, sleep and wake-up too")(_tms)

    def _hami(place=place):
        kw = {place: [program("liblike_hami.so")]}
        problems = []
        for command in (("driver_elf", "limited"), ("driver", "dlsym", "limited"), ("driver", "chain2", "limited")):
            done = run(*command, **kw)
            problems += [f"{command[:2]}: {p}" for p in limited(done, place) + same_as_without(done, *command, **kw)]
        return problems

    def limited(done, place):
        """What the limiter refuses does not reach the driver, but is a refusal to the program."""
        problems = [] if done.rc == 0 else [f"exit status {done.rc}: {done.err}"]
        events = done.calls()
        taken = [e["bytes"] for e in events if e["op"] == "alloc" and e["result"] == 0]
        true = [e["bytes"] for e in done.ledger() if e["op"] == "alloc" and e["result"] == 0]
        # In front of us it asks the C library for its dlsym by version, and goes to the driver around us.
        want = true if place == "after" else []
        if taken != want or not true:
            problems.append(f"allocations {taken}, the driver did {true}")
        if place == "after":
            refused = [e for e in events if e["result"] == 2]
            if len(refused) != 1 or refused[0]["total_bytes"] != 100 << 20:
                problems.append(f"the limiter's refusal, with the limit as total: {refused}")
        elif [e for e in events if e["result"] == 2]:
            problems.append("a refusal that did not happen")
        return problems
    case("like HAMi-core, after us: allocations equal the driver's, its limit is what binds" if place == "after" else
         "like HAMi-core, before us: nothing breaks; what it takes over is not seen (documented)")(_hami)

    for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "our look-alike"):
        def _malloc(place=place, name=name):
            path = program("liblike_malloc.so") if name.startswith("our") else library(name)
            kw = {place: [path]}
            problems = []
            for command in (("driver_elf", "device", "threads"), ("driver", "chain2", "device", "vmm"),
                            ("runtime", "device", "threads")):
                done = run(*command, **kw)
                problems += good(done)
                if "threads" not in command:
                    problems += same_as_without(done, *command, **kw)
            return problems
        case(f"allocator {name} {place} us")(_malloc)


@case("a program built with AddressSanitizer, its library first: no complaint, trace = ledger")
def _():
    kw = {"before": [asan()], "env": {"ASAN_OPTIONS": "detect_leaks=0"}}
    done = run("driver_asan", "device", "async", "vmm", "capture", **kw)
    return good(done) + same_as_without(done, "driver_asan", "device", "async", "vmm", "capture", **kw) + (
        [done.err] if "AddressSanitizer" in done.err else [])


@case("a program built with AddressSanitizer, its library last")
def _():
    kw = {"after": [asan()], "env": {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}}
    done = run("driver_asan", "device", "vmm", **kw)
    return good(done) + ([done.err] if "AddressSanitizer" in done.err else [])


@case("all of them at once")
def _():
    # Behind a dlsym that calls instead of jumping (HAMi-core's) no RTLD_NEXT works, with us or without.
    kw = {"before": [program("liblike_malloc.so")], "after": [program("liblike_hami.so"), program("libcalls_back.so")]}
    done = run("driver_elf", "limited", **kw)
    return limited(done, "after") + same_as_without(done, "driver_elf", "limited", **kw)


main()
