#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces that somebody else made to be slow or large: no command's time grows faster than n log n, and none takes more than
50 times the file's bytes and 100 MB of memory.

Each shape is made at two sizes, of which the second has 8 times as much. What is compared is processor time, the least of
some tries where it looks too long; the smaller one is made and read only where the larger one took long at all. Some shapes and
commands, which the seed draws; with CUTRACE_FULL=1 all."""
import functools
import os
import resource
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import mktrace  # noqa: E402
from mktrace import FLAGS, MASK, OPS, entry, section, text, varint, zigzag  # noqa: E402
from tap import BUILD, PLAIN, REPORT, case, main, sample  # noqa: E402
from ways import folder  # noqa: E402

MIB, T0, BASE = 1 << 20, 51 * 10**9, 0x7F0000000000
SMALL, TIMES = 1500, 8
MOST_TIMES = 20  # (n log n: 11)
FLOOR_S = 0.01  # a smaller time is one of starting
MEMORY, FACTOR = 100 * 10**6, 50
TRIES = 3
GUARD_S = 20  # of a processor's time: ends what has no end
IS_PLAIN = "san" not in os.path.basename(BUILD)
INFO = {"cutrace.version": "0.1.0", "process.pid": "4711", "process.exe": "python3", "process.start_ns": str(50 * 10**9),
        "clock.monotonic_ns": str(50 * 10**9), "clock.realtime_ns": str(1795 * 10**15), "device.0.name": "T",
        "device.0.total_bytes": str(80 << 30)}
OUT = ("-o", "OUT", "--force")
COMMANDS = [["summary"], ["oom"], ["top", "--tree"], ["leaks"], ["stats"], ["timeline"], ["frag"], ["phases"], ["fit"],
            ["fit", "--allocator=expandable_segments:True"], ["explain"], ["info"], ["html", *OUT],
            *(["export", "--format=" + f, *OUT] for f in ("perfetto", "sqlite", "csv", "torch", "openmetrics", "pprof")),
            ["copy", "--scrub=paths", *OUT], ["copy", "--from=10ms", *OUT], ["dump", "--json"]]
# Of what every command reads alike, these read it in each way that there is.
READERS = [["summary"], ["info"], ["html", *OUT], ["export", "--format=sqlite", *OUT], ["copy", "--from=10ms", *OUT],
           ["dump", "--json"]]

# ---- making traces ----------------------------------------------------------------------------------------------------


def compressed(body):
    return subprocess.run(["zstd", "-q", "-c", "-3", "--check", "--stream-size=%d" % len(body)], input=body,
                          stdout=subprocess.PIPE, check=True).stdout


def write(path, *bodies):
    """bodies: (definitions, records), or (definitions, a whole section of events, how many)."""
    first = 0
    with open(path, "wb") as f:
        for i, (definitions, records, *count) in enumerate(bodies):
            counted = [] if count else [r for r in records if r["op"] != OPS["amend"]]
            n = count[0] if count else len(counted)
            events = records if count else section(7, mktrace.columns(records)) if records else b""
            times = (counted[0]["t_ns"], counted[-1]["t_ns"]) if counted else (T0, T0 + n) if n else (0, 0)
            flags = (mktrace.LAST if i == len(bodies) - 1 else 0) | (0 if n == len(records) or count else mktrace.AMENDS)
            f.write(mktrace.chunk(i, (b"" if i else mktrace.info_section(INFO)) + definitions + events, first_event=first,
                                  events=n, times=times, flags=flags, version=3, compress=compressed))
            first += n


def define(kind, entries):
    return section(kind, b"".join(entry(number, payload) for number, payload in entries))


def strings(*names):
    return define(2, enumerate(names, 1))


def modules(*ends):
    return define(3, ((i, b"".join(map(varint, (1, 0x1000, 0x1000, end))) + text(b"\1" * 20)) for i, end in enumerate(ends, 1)))


def frames(fields):
    """fields: module, offset, pc, function and symbol's offset as in the file's order: of native frames."""
    return define(4, ((i, varint(0) + b"".join(map(varint, f))) for i, f in enumerate(fields, 1)))


def event(op, i, **fields):
    return {"op": OPS[op], "t_ns": T0 + i * 1000, "thread": 1, **fields}


def alloc(i, **fields):
    return event("alloc", i, **{"ptr": BASE + i * 4096, "bytes": 4096, "device": 0, "result": 0, "space": 1, **fields})


THREAD = define(6, [(1, varint(100) + varint(0))])
FEW = [alloc(i) for i in range(10)]
shapes = []


def shape(name, times=1):
    """times: so much larger than others, because little is done for each."""
    def register(function):
        shapes.append((name, function, int(SMALL * times)))
        return function
    return register


@functools.cache
def inverse_of(factor):
    return pow(factor, -1, 1 << 64)


def inverse(h, *factors):
    """What a hash of multiplications and shifts by half makes h of."""
    for factor in factors:
        h = (h ^ h >> 32) * inverse_of(factor) & MASK
    return h


def like_key(i):
    """Keys whose low bits are the same when they are mixed with constants that everybody knows."""
    mixed = inverse((i + 1) << 40, 0xD6E8FEB86659FD93, 0xD6E8FEB86659FD93)
    return mixed ^ mixed >> 32


def like_object(i, kind):
    """The same of the index of what is live."""
    return inverse((i + 1) << 30, 0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15) ^ kind << 56


# ---- definitions ------------------------------------------------------------------------------------------------------


@shape("frames of one pc, that differ in their offset", 2.5)
def frames_of_a_pc(n):
    return [(strings(b"/lib/x.so") + modules(0x900000) + frames((0x2000, 1, i, 0, 0) for i in range(n)) + THREAD, FEW)]


@shape("modules that differ in their end", 2.5)
def modules_alike(n):
    return [(strings(b"/lib/x.so") + modules(*range(0x2000, 0x2000 + n)) + THREAD, FEW)]


@shape("numbers of threads that collide", 2.5)
def threads_collide(n):
    return [(define(6, [(1, varint(100) + varint(0))] + [(i + 2, varint(like_key(i)) + varint(0)) for i in range(n)]), FEW)]


@shape("ids of strings that collide", 2.5)
def ids_collide(n):
    return [(define(2, ((like_key(i), b"s%d" % i) for i in range(n))) + THREAD, FEW)]


@shape("threads, each with a name and an allocation", 0.75)
def threads(n):
    return [(strings(*(b"thread-%d" % i for i in range(n))) + define(6, ((i, varint(i + 100) + varint(i)) for i in range(1, n + 1))),
             [alloc(i, thread=i + 1) for i in range(n)])]


@shape("deep stacks that share nothing", 8)
def deep_stacks(n):
    """n is the number of their frames."""
    stacks = [b"".join(map(varint, (0, 4000, 1 + 4000 * i, zigzag(1 + i)))) + b"\2\1" * 1999 + b"\2" for i in range(n // 4000)]
    return [(strings(b"f") + frames((1, 1, i, 1, 0) for i in range(200)) + define(5, enumerate(stacks, 1)) + THREAD,
             [alloc(i, stack=i % len(stacks) + 1) for i in range(n // 10)])]


@shape("call sites, one for each allocation")
def call_sites(n):
    return [(strings(*(b"function_%d" % i for i in range(n))) + frames((0, 0, i, i, 0) for i in range(1, n + 1)) +
             define(5, ((i, b"".join(map(varint, (0, 1, i, zigzag(i))))) for i in range(1, n + 1))) + THREAD,
             [alloc(i, stack=i + 1) for i in range(n)])]


@shape("facts of many devices")
def facts_of_devices(n):
    return [(section(1, b"".join(text(b"device.%d.name" % i) + text(b"x") for i in range(n))) + THREAD, FEW)]


@shape("facts of many hooks, variables and modules")
def facts(n):
    keys = [key % i for i in range(n // 4) for key in (b"hook.f%d", b"env.CUDA_%d", b"coverage.f%d", b"module.%d")]
    return [(section(1, b"".join(text(k) + text(b"1") for k in keys)) + THREAD, FEW)]


@shape("a chunk for each event")
def small_chunks(n):
    return [(b"" if i else THREAD, [alloc(i)]) for i in range(n // 50)]


# ---- objects ----------------------------------------------------------------------------------------------------------


@shape("addresses that collide", 2)
def addresses_collide(n):
    return [(THREAD, [alloc(i, ptr=like_object(i, 1)) for i in range(n)])]


@shape("handles that collide", 2)
def handles_collide(n):
    return [(THREAD, [event("create", i, handle=like_object(i, 3), bytes=2 * MIB, device=0, result=0, space=1) for i in range(n)])]


@shape("allocations that overlap")
def overlapping(n):
    return [(THREAD, [alloc(i, ptr=BASE + i * 8, bytes=1 << 40) for i in range(n)])]


def allocations(n):
    return [(THREAD, [alloc(i) for i in range(n)])]


@shape("allocations of one address")
def one_address(n):
    return [(THREAD, [alloc(i, ptr=BASE, bytes=1 << 30) for i in range(n)])]


@shape("blocks of many segments and streams", 0.75)
def blocks(n):
    return [(THREAD, [alloc(i, bytes=2 * MIB, ptr=BASE + i * 2 * MIB) for i in range(n)] +
             [event("block-alloc", n + i, ptr=BASE + i * 2 * MIB, bytes=512, device=0, stream=i, reserved_bytes=n * 2 * MIB,
                    allocated_bytes=i * 512) for i in range(n)])]


@shape("allocations of graphs")
def graphs(n):
    return [(THREAD, [event("graph-alloc", i, ptr=BASE + i * 4096, bytes=4096, handle=i + 1, device=0, result=0) for i in range(n)])]


@shape("one handle that is mapped at many addresses")
def mappings(n):
    where = 0x600000000000
    return [(THREAD, [event("reserve", 0, ptr=where, bytes=n << 21, result=0),
                      event("create", 1, handle=7, bytes=2 * MIB, device=0, result=0, space=1)] +
             [event("map", 2 + i, ptr=where + (i << 21), bytes=2 * MIB, handle=7, device=0, result=0) for i in range(n)] +
             [event("unmap", 2 + n + i, ptr=where + (n - 1 - i << 21), bytes=2 * MIB, result=0) for i in range(n)])]


@shape("a handle that is retained often")
def retains(n):
    return [(THREAD, [event("create", 0, handle=7, bytes=2 * MIB, device=0, result=0, space=1)] +
             [event("retain", 1 + i, handle=7, result=0) for i in range(n)])]


@shape("pools, each with an allocation")
def pools(n):
    return [(THREAD, [event("pool-create", i, pool=1000 + i, device=0, result=0) for i in range(n)] +
             [alloc(n + i, pool=1000 + i, flags=FLAGS["async"]) for i in range(n)])]


@shape("contexts, each with an allocation")
def contexts(n):
    return [(THREAD, [event("context-create", i, context=1000 + i, device=0, result=0, free_before_bytes=1 << 33,
                            free_bytes=(1 << 33) - 1000, total_bytes=80 << 30) for i in range(n)] +
             [alloc(n + i, context=1000 + i) for i in range(n)])]


@shape("memory that other processes share")
def shared(n):
    return [(THREAD, [event("ipc-open", i, ptr=BASE, bytes=4096, handle=i, device=0, result=0) for i in range(n)])]


@shape("modules that are loaded")
def loads(n):
    return [(THREAD, [event("module-load", i, handle=i + 1, device=0, result=0, free_before_bytes=1 << 33,
                            free_bytes=(1 << 33) - 4096, total_bytes=80 << 30) for i in range(n)])]


@shape("pools of the program over one range, with an allocation and a name each")
def program_pools(n):
    return [(strings(b"sub") + THREAD, [alloc(0, bytes=1 << 40)] +
             [event("subpool", 1 + i, handle=i + 1, ptr=BASE, bytes=1 << 40, device=0, text=1) for i in range(n)] +
             [event("suballoc", 1 + n + i, handle=i + 1, pool=i + 1, ptr=BASE + i * 512, bytes=512, device=0) for i in range(n)] +
             [event("subname", 1 + 2 * n + i, handle=i + 1, ptr=BASE + i * 512, text=1) for i in range(n)])]


@shape("pools of the program side by side")
def many_program_pools(n):
    return [(strings(*(b"name-%d" % i for i in range(n))) + THREAD, [alloc(0, bytes=1 << 40)] +
             [event("subpool", 1 + i, handle=i + 1, pool=i + 1, device=0, text=i + 1, ptr=BASE + i * 4096, bytes=4096)
              for i in range(n)])]


# ---- events -----------------------------------------------------------------------------------------------------------


@shape("corrections of one thread and one time")
def amends(n):
    at = T0 + n * 1000 + 5
    return [(THREAD, [alloc(i) for i in range(n)] +
             [{"op": OPS["free"], "t_ns": at, "ptr": BASE + i * 4096, "thread": 1, "result": 0} for i in range(n)] +
             [{"op": OPS["amend"], "t_ns": at + 1 + i, "amends_ns": at, "thread": 1, "result": 1} for i in range(n)])]


@shape("corrections of one thread within a millisecond")
def near_amends(n):
    """Some set nothing that another one does not."""
    at = T0 + n * 1000
    return [(THREAD, [alloc(i) for i in range(n)] +
             [{"op": OPS["free"], "t_ns": at + i, "ptr": BASE + i * 4096, "thread": 1, "result": 0} for i in range(n)] +
             [{"op": OPS["amend"], "t_ns": at + n + i, "amends_ns": at + 3 * i % n, "thread": 1, "duration_ns": 1} for i in range(n)])]


@shape("failed requests of many sizes")
def failures(n):
    return [(THREAD, FEW + [alloc(100 + i, bytes=(1 << 40) + i * 512, result=2, free_bytes=MIB, total_bytes=80 << 30) for i in range(n)])]


@shape("failed blocks of many sizes")
def failed_blocks(n):
    return [(THREAD, [event("block-oom", i, bytes=(1 << 40) + i * 512, device=0, free_bytes=MIB, total_bytes=80 << 30,
                            reserved_bytes=1 << 30, allocated_bytes=1 << 29) for i in range(n)])]


@shape("ranges in ranges")
def nested_ranges(n):
    return [(strings(b"r") + THREAD, [event("range-push", i, text=1) for i in range(n)] + [alloc(n + i) for i in range(10)])]


@shape("ranges that are all open at once", 0.75)
def open_ranges(n):
    return [(strings(b"r") + THREAD, [event("range-start", i, text=1, handle=i + 1) for i in range(n)] +
             [event("range-end", n + i, handle=i + 1) for i in range(n)])]


@shape("marks, each with a name of its own")
def marks(n):
    return [(strings(*(b"mark-%d" % i for i in range(n))) + THREAD, [event("mark", i, text=i + 1) for i in range(n)])]


@shape("notes of the recorder")
def notes(n):
    return [(strings(*(b"note number %d of the recorder" % i for i in range(n))) + THREAD,
             [event("note", i, text=i + 1, count=1) for i in range(n)])]


@shape("lost events, as many as can be said")
def lost(n):
    return [(THREAD, [event("lost", i, count=MASK) for i in range(n)])]


@shape("other processes on the device")
def processes(n):
    return [(strings(*(b"proc-%d" % i for i in range(n))) + THREAD,
             [event("process", i, pid=i + 1, device=i % 8, text=i + 1, process_bytes=i * 4096) for i in range(n)] + FEW)]


@shape("readings of many devices")
def readings(n):
    return [(THREAD, [event("memory-sample", i * 1000, device=i % 64, flags=FLAGS["nvml"], free_bytes=i * 7919 % (80 << 30),
                            total_bytes=80 << 30, process_bytes=i * 4096) for i in range(n)])]


@shape("a clock that goes back")
def backwards(n):
    return [(THREAD, [alloc(i, t_ns=10**15 - i * 10**9) for i in range(n)])]


# ---- what unpacks to much ---------------------------------------------------------------------------------------------


def long_strings(chunks):
    """60 MiB in each chunk."""
    return [((b"" if i else THREAD) + define(2, ((i << 10 | k, b"A" * 60000 + b"%d" % (i << 10 | k)) for k in range(1, 1024))),
             [alloc(i)]) for i in range(chunks)]


def many_nodes(stacks):
    """Of 4000 frames each: the outermost ones are a number in binary."""
    def steps(path):
        return bytes(zigzag(b - a) for a, b in zip(path, path[1:]))
    end = steps([1 + j % 2 for j in range(3976)])

    def stack(i):
        path = [1 + (i >> j & 1) for j in range(24)] + [1]
        return b"".join(map(varint, (0, 4000, 1 + 4000 * i))) + bytes([2 * path[0]]) + steps(path) + end
    return [(strings(b"f") + frames((1, 1, i, 1, 0) for i in range(2)) + THREAD +
             define(5, ((i, stack(i)) for i in range(1, stacks))), [alloc(0, stack=1)])]


def short_records(chunks):
    """900,000 in each chunk, all of the same bytes."""
    n = 900000

    def column(number, coding, data):
        return varint(number) + varint(coding) + struct.pack("<I", len(data)) + data

    def steps(first, step):
        return varint(zigzag(first)) + varint(zigzag(step)) * (n - 1)
    mask = varint(sum(1 << mktrace.FIELDS[name][0] for name in ("op", "t_ns", "ptr", "bytes", "device", "space")))
    events = section(7, varint(n) + column(0, 0, mask * n) + column(1, 1, steps(T0, 1)) + column(3, 0, varint(2) * n) +
                     column(6, 1, varint(0) * n) + column(8, 1, steps(BASE, 4096)) + column(9, 0, varint(4096) * n) +
                     column(15, 0, varint(1) * n))
    return [(b"", events, n)] * chunks


BOMBS = [("strings", long_strings, 4), ("nodes of the call tree", many_nodes, 4000), ("records", short_records, 8)]

# ---- measuring --------------------------------------------------------------------------------------------------------


def made(where, name, make, n):
    """A trace, made in another process: the memory of this one is counted as that of a program that it starts."""
    path = os.path.join(where, name + ".zst")
    child = os.fork()
    if not child:
        try:
            write(path, *make(n))
        finally:
            os._exit(not os.path.exists(path) or sys.exc_info()[0] is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, name
    return path


def run(command, path):
    """Processor time, the most memory in bytes, the exit code."""
    args = [path + ".out" if a == "OUT" else a for a in command]
    with subprocess.Popen([REPORT, *args, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**PLAIN, "COLUMNS": "100", "CUTRACE_REPORT_WORKERS": "1"},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (GUARD_S, GUARD_S))) as p:
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime, used.ru_maxrss * 1024, p.returncode


def problem_of(command, small, large):
    """`small`: makes the same at the smaller size, or None: only memory is asked for."""
    took, memory, code = run(command, large)
    what, size = " ".join(a for a in command if a not in OUT), os.path.getsize(large)
    if code not in (0, 1, 3, 4):
        return f"{what}: exit code {code}"
    if IS_PLAIN and memory > MEMORY + FACTOR * size:
        return f"{what}: {memory / 1e6:.0f} MB for {size} bytes"
    least = FLOOR_S
    for _ in range(TRIES if small else 0):
        if took > MOST_TIMES * least:
            least = max(run(command, small())[0], FLOOR_S)
        if took > MOST_TIMES * least:
            took = min(took, run(command, large)[0])
    return f"{what}: {least:.3f} s, and {took:.3f} s for {TIMES} times as much" if small and took > MOST_TIMES * least else None


def first_problem(commands, small, large):
    """(What all commands share takes long in all.)"""
    return next(([p] for p in (problem_of(command, small, large) for command in commands) if p), [])


def add_shape(name, make, n):
    @case(f"{name}: time and memory grow with the file")
    def grows():
        where = folder()
        small = functools.cache(lambda: made(where, "small", make, n))
        # (times that go back lie outside of the trace's: a range has none of them, and is refused)
        fits = [c for c in COMMANDS if make is not backwards or "--from=10ms" not in c]
        return first_problem(sample(fits, 5, n), small, made(where, "large", make, n * TIMES))


def add_bomb(name, make, n):
    @case(f"a small file of many {name}: memory has a bound")
    def holds():
        return first_problem(sample(READERS, 2, n), None, made(folder(), "large", make, n))


for args in sample(shapes, 12):
    add_shape(*args)
for args in sample(BOMBS, 1):
    add_bomb(*args)


@case("a text of one line of words that all may matter: time and memory grow with it")
def words():
    where = folder()

    def text(n):
        path = os.path.join(where, "%d.txt" % n)
        with open(path, "w") as f:
            f.write("error: if out of memory, gpu out of memory " * n)
        return path
    return first_problem([["explain"]], lambda: text(600), text(600 * TIMES))


@case("allocations that overlap take a page no longer than those that do not")
def overlap():
    """(However many rows each of them is in.)"""
    where = folder()
    over, apart = (made(where, make.__name__, make, 4 * SMALL) for make in (overlapping, allocations))
    took, least = run(["html", *OUT], over)[0], max(run(["html", *OUT], apart)[0], FLOOR_S)
    return [f"{took:.3f} s, and {least:.3f} s"] if took > MOST_TIMES * least else []


main()
