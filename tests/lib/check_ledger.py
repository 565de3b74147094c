#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a trace with the simulated driver's ledger, event by event.

Usage: check_ledger.py TRACE LEDGER [cutrace-report]

The ledger is the truth: what reached the driver, in the order in which the driver did it. Shares no
code with the recorder or the report; reads the trace through `dump --json` and `summary --json`.
"""
import collections
import json
import re
import struct
import subprocess
import sys

try:
    import schema
except ImportError as e:  # (a GPU's machine may lack the schemas or the validator; the suites' own tap.py needs both)
    if e.name not in ("schema", "fastjsonschema"):
        raise
    schema = None

# Lines of a dump that are no call of the program.
# (Blocks are PyTorch's: the driver hears nothing of them.)
NOT_CALLS = {"memory-sample", "pool-sample", "note", "lost", "block-alloc", "block-free", "block-oom",
             "mark", "range-push", "range-pop", "range-start", "range-end", "suballoc", "subfree",
             "subpool", "subname", "process", "process-gone", "host-sample"}
# Look-ups of code, recorded where they loaded it or ran out of memory: the ledger has no line for them, SIM_LOG has.
LOOK_UPS = re.compile(r"cu(Module|Library|Kernel)Get|cuFuncLoad")
# What gives back carries the time of the call's start, everything else that of its return.
GIVES = {"free", "release", "unmap", "unreserve", "unregister", "ipc-close", "pool-destroy",
         "pool-trim", "context-destroy", "module-unload"}
# ...except where only the return tells that this release was the last one.
KNOWN_AFTERWARDS = {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2"}
# One runtime function may come out as one of several driver functions.
RUNTIME = {
    # The virtual memory calls are those of torch_memory_saver, inside our wrapper.
    "cudaMalloc": "cuMemAlloc_v2 cuMemAddressReserve cuMemCreate cuMemMap cuMemSetAccess cuMemAddressFree",
    "cudaMallocPitch": "cuMemAllocPitch_v2",
    "cudaMalloc3D": "cuMemAllocPitch_v2", "cudaMallocManaged": "cuMemAllocManaged",
    "cudaMallocAsync": "cuMemAllocAsync", "cudaMallocAsync_ptsz": "cuMemAllocAsync_ptsz",
    "cudaMallocFromPoolAsync": "cuMemAllocFromPoolAsync",
    "cudaMallocFromPoolAsync_ptsz": "cuMemAllocFromPoolAsync_ptsz", "cudaFree": "cuMemFree_v2 cuMemUnmap cuMemRelease cuMemAddressFree",
    "cudaFreeAsync": "cuMemFreeAsync", "cudaFreeAsync_ptsz": "cuMemFreeAsync_ptsz",
    "cudaMemPoolCreate": "cuMemPoolCreate", "cudaMemPoolDestroy": "cuMemPoolDestroy",
    "cudaMemPoolTrimTo": "cuMemPoolTrimTo", "cudaMemPoolSetAccess": "cuMemPoolSetAccess",
    "cudaMemPoolExportToShareableHandle": "cuMemPoolExportToShareableHandle",
    "cudaMemPoolImportFromShareableHandle": "cuMemPoolImportFromShareableHandle",
    "cudaMemPoolExportPointer": "cuMemPoolExportPointer",
    "cudaMemPoolImportPointer": "cuMemPoolImportPointer",
    "cudaMallocArray": "cuArrayCreate_v2 cuArray3DCreate_v2", "cudaMalloc3DArray": "cuArray3DCreate_v2",
    "cudaMallocMipmappedArray": "cuMipmappedArrayCreate", "cudaFreeArray": "cuArrayDestroy",
    "cudaFreeMipmappedArray": "cuMipmappedArrayDestroy", "cudaHostAlloc": "cuMemHostAlloc",
    "cudaMallocHost": "cuMemHostAlloc cuMemAllocHost_v2", "cudaFreeHost": "cuMemFreeHost",
    "cudaHostRegister": "cuMemHostRegister_v2", "cudaHostUnregister": "cuMemHostUnregister",
    "cudaIpcGetMemHandle": "cuIpcGetMemHandle",
    "cudaIpcOpenMemHandle": "cuIpcOpenMemHandle_v2 cuIpcOpenMemHandle",
    "cudaIpcCloseMemHandle": "cuIpcCloseMemHandle", "cudaImportExternalMemory": "cuImportExternalMemory",
    "cudaExternalMemoryGetMappedBuffer": "cuExternalMemoryGetMappedBuffer",
    "cudaExternalMemoryGetMappedMipmappedArray": "cuExternalMemoryGetMappedMipmappedArray",
    "cudaDestroyExternalMemory": "cuDestroyExternalMemory",
    "cudaGraphAddMemAllocNode": "cuGraphAddMemAllocNode", "cudaGraphAddMemFreeNode": "cuGraphAddMemFreeNode",
    "cudaDeviceGraphMemTrim": "cuDeviceGraphMemTrim",
    "cudaDeviceReset": "cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2",
    "cudaDeviceSetLimit": "cuCtxSetLimit",
}
# Fields that only one side has, by the meaning of the call: a member's address bound to a multicast
# object, the first of a list of tiles, a green context that is handle and context in one.
ONE_SIDED = {("cuMulticastBindAddr", "ptr"), ("cuMulticastBindAddr_v2", "ptr"),
             ("cuMemMapArrayAsync", "handle"), ("cuMemMapArrayAsync_ptsz", "handle"),
             ("cuGreenCtxCreate", "handle"), ("cuGreenCtxDestroy", "handle")}
# Operations on memory that lies on one device, whatever the thread's current context is.
OF_A_DEVICE = {"alloc", "free", "create", "release", "graph-alloc", "context-create", "context-destroy",
               "module-load", "limit", "pool-create", "import", "ipc-open", "ipc-close"}
PER_THREAD_STREAM = 2
# The recorder's clock is calibrated against the ledger's (CLOCK_MONOTONIC), and ticks of 100 ns are rounded down.
CLOCK_NS = 1000
INVALID_DEVICE = 101


def number(x):
    return int(x, 16) if isinstance(x, str) else x


def read_ledger(path):
    """The driver's ledger, as text (SIM_LEDGER) or binary (SIM_LEDGER_MAP)."""
    with open(path, "rb") as f:
        is_map = f.read(8) == b"SIMLEDG1"
    return read_map(path)[0] if is_map else list(read_lines(path))


def read_lines(path):
    """That of text, call by call: a long one need not be held. A process that was killed may leave the beginning of a
    line; that call had not returned, so that no trace has it."""
    with open(path, "rb") as f:
        for line in f:
            if line.endswith(b"\n") and (e := json.loads(line))["depth"] == 0:
                yield e


MAP_KEYS = ("device", "context", "ptr", "bytes", "handle", "pool", "stream", "offset")  # bits of enum sim_has


def read_map(path):
    """The binary ledger (tests/sim/ledger_map.h): the calls, and for each thread how many of them have returned."""
    with open(path, "rb") as f:
        pid, _, room, records, names, threads, full = struct.unpack_from("<IIQQQQQ", f.read(4096), 8)
        text = [n.split(b"\0")[0].decode() for n, in struct.iter_unpack("64s", f.read(64 * 1024)[:64 * names])]
        slots = list(struct.iter_unpack("<IIQQ40x", f.read(64 * 4096)[:64 * threads]))
        data = f.read(120 * records)
    if full:
        raise RuntimeError(f"{path} has room for {room} calls, and there were {full} more")
    calls = []
    for t, tid, api, op, has, device, result, depth, context, ptr, size, offset, handle, pool, stream, free, total in \
            struct.iter_unpack("<QIHHIiii9Q16x", data):
        if depth:
            continue
        e = {"seq": len(calls), "t_ns": t, "pid": pid, "tid": tid, "api": text[api], "op": text[op], "result": result,
             "depth": 0, "free": free, "total": total}
        for bit, (key, v) in enumerate(zip(MAP_KEYS, (device, context, ptr, size, handle, pool, stream, offset))):
            if has >> bit & 1:
                e[key] = v
        calls.append(e)
    returned, before = {}, collections.Counter()
    for tid, _, count, back in slots:  # of two threads with one number the first has ended
        # A program that never tells: all but the last call must have returned, since the next one was made.
        returned[tid] = before[tid] + (back or max(count - 1, 0))
        before[tid] += count
    return calls, returned


def without_lines(command):
    """The option by which a command looks for no source lines: to read the debug files of all libraries takes most of the time."""
    return [] if command in ("info", "timeline") else ["--sysroot=/nowhere"]


def report(tool, command, trace):
    r = subprocess.run([tool, command, "--json", *without_lines(command), trace], capture_output=True, text=True)
    if r.returncode not in (0, 4):  # (4: a part is missing, which the caller finds by the ledger)
        raise RuntimeError(f"{command} {trace}: exit {r.returncode}: {r.stderr.strip()}")
    return r.stdout if command == "dump" else validated(command, r.stdout)


def validated(command, text):
    """The JSON of a command, which must be what its schema says."""
    if schema:
        schema.check_output(command, text)
    return text


def read_dump(text):
    """The events of a `dump --json`. Each is json.loads(line), but a stack is parsed (and kept) once, however many events
    have it: most of the text is stacks. (Neither mark can stand inside a string, where quotes are escaped.)"""
    lines, place, stacks = [], {}, []
    for line in text.splitlines():
        before, found, rest = line.partition('"stack":[')
        if found:
            stack, _, rest = rest.partition('],"handle":')
            if stack not in place:
                place[stack] = len(stacks)
                stacks.append(json.loads(f"[{stack}]"))
            line = f'{before}"stack":{place[stack]},"handle":{rest}'
        lines.append(line)
    events = json.loads(f"[{','.join(lines)}]")
    for e in events:
        if e["stack"] is not None:
            e["stack"] = stacks[e["stack"]]
    if schema:
        schema.check_events(events)
    return events


def read_trace(tool, trace):
    return read_dump(report(tool, "dump", trace))


def same_api(seen, driver):
    return seen == driver or driver in RUNTIME.get(seen, "").split() or (
        seen.startswith("cuda") and seen not in RUNTIME) or (
        # whatever a runtime call does on its way, e.g. the primary context at the first one
        seen.startswith("cuda") and driver.startswith(("cuDevicePrimaryCtx", "cuLibrary", "cuModule")))


def is_call(e):
    """Whether an event is a call that the ledger has."""
    return e["op"] not in NOT_CALLS and not (e["op"] == "module-load" and LOOK_UPS.match(e["api"] or ""))


def show(e):
    keys = ("api", "op", "ptr", "handle", "offset", "bytes", "pool", "device", "context", "stream", "result")
    return " ".join(f"{k}={e[k]}" for k in keys if e.get(k) is not None)


def is_give(e):
    """Whether the event is published before its call."""
    if e["op"] == "graph-free":  # captured, or added as a node
        return "FreeAsync" in e["api"]
    return e["op"] in GIVES and e["api"] not in KNOWN_AFTERWARDS


def stream(e, true):
    """Stream 0 of a _ptsz function is the thread's own."""
    n = number(e["stream"])
    return PER_THREAD_STREAM if n == 0 and true["api"].endswith("_ptsz") else n


def is_size_of(seen, true):
    """Whether the size that the trace states is the ledger's. The ledger has none for a free. A free that the trace takes
    out of a sum states the size of its allocation, which is `freed` where the caller has looked that up."""
    return seen.get("bytes") == true.get("bytes") or ("freed" in true and seen.get("bytes") == true["freed"].get("bytes"))


def differences(seen, true):
    """Names of the fields in which a trace event and a ledger line differ."""
    out = [k for k in ("op", "result") if seen[k] != true[k]]
    for k in ("ptr", "handle", "offset"):
        if number(seen.get(k)) != number(true.get(k)) and (true["api"], k) not in ONE_SIDED:
            out.append(k)
    # What an impossible array would have taken is the trace's to say.
    if not is_size_of(seen, true) and not (true["result"] and "Array" in true["api"] and "bytes" not in true):
        out.append("bytes")
    for k in ("pool", "device", "context"):  # where both know it
        if seen.get(k) is not None and k in true and number(seen[k]) != number(true[k]):
            if k == "device" and (true["result"] == INVALID_DEVICE or true["op"] not in OF_A_DEVICE or
                                  "Host" in true["api"]):
                continue  # elsewhere it may be the thread's, the handle's, or one that does not exist
            if k == "context" and "Async" in true["api"]:
                continue  # the thread's, or the stream's
            out.append(k)
    if "FromPool" in true["api"] and true["op"] == "alloc" and "pool" in true and seen.get("pool") is None:
        out.append("pool")
    if seen.get("stream") is not None and "stream" in true and stream(seen, true) != stream(true, true):
        out.append("stream")
    if "device" in true and true["result"] == 0 and seen.get("device") is None:
        if true["op"] in ("alloc", "create", "graph-alloc", "context-create"):
            out.append("device")
    if not same_api(seen["api"], true["api"]):
        out.append("api")
    if not is_give(true):
        if seen["t_ns"] + CLOCK_NS < true["t_ns"]:
            out.append("t_ns (before the driver did it)")
    elif seen["t_ns"] > true["t_ns"] + CLOCK_NS:
        out.append("t_ns (after the driver did it)")
    return out


def by_thread(events):
    threads = collections.defaultdict(list)
    for e in events:
        threads[e["tid"]].append(e)
    return threads


def compare_threads(trace, ledger):
    problems = []
    seen, true = by_thread(trace), by_thread(ledger)
    for tid in sorted(set(seen) | set(true), key=str):
        a, b = seen.get(tid, []), true.get(tid, [])
        for i in range(max(len(a), len(b))):
            if i >= len(a):
                problems.append(f"thread {tid}: not in the trace: {show(b[i])}")
            elif i >= len(b):
                problems.append(f"thread {tid}: not in the ledger: {show(a[i])}")
            else:
                wrong = differences(a[i], b[i])
                if wrong:
                    problems.append(f"thread {tid} call {i}: {', '.join(wrong)} differ:\n"
                                    f"    trace  {show(a[i])}\n    ledger {show(b[i])}")
            if len(problems) > 4:
                return problems
    return problems


def is_primary(e):
    """The beginning or end of a primary context, by a retain or release that succeeded."""
    if e["result"] or e["op"] not in ("context-create", "context-destroy"):
        return False
    if "flags" in e:  # the trace, where the runtime's name may stand
        return "primary" in e["flags"] and "reset" not in e["flags"]
    return e["api"].startswith(("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease"))


def split_primaries(events):
    """(all others, those of primary contexts)"""
    return [e for e in events if not is_primary(e)], [e for e in events if is_primary(e)]


def compare_primaries(trace, ledger):
    """Of threads that retain or release at the same time, only the driver knows which one was first or last: who
    told of it is not compared, all the rest is."""
    def told(events):
        return [(e["op"], e["device"], number(e["context"])) for e in events]
    return [] if told(trace) == told(ledger) else [
        f"primary contexts: trace {told(trace)}, ledger {told(ledger)}"]


def compare_order(trace, ledger):
    """For each address and each handle, what succeeded on it came in the same order."""
    def per_key(events):
        keys = collections.defaultdict(list)
        for e in events:
            if e["result"] == 0 and e["op"] not in ("export", "access", "limit"):
                for k in ("ptr", "handle", "pool"):
                    # A pool's allocations do not change the pool.
                    if number(e.get(k)) and (e["api"], k) not in ONE_SIDED and (
                            k != "pool" or e["op"].startswith("pool")):
                        keys[k, number(e[k])].append((e["tid"], e["op"]))
        return keys
    seen, true = per_key(trace), per_key(ledger)
    return [f"order of events on {k[0]} {k[1]:#x}: trace {seen.get(k)}, ledger {true.get(k)}"
            for k in sorted(set(seen) | set(true)) if seen.get(k) != true.get(k)][:3]


def replay(ledger):
    """What is alive at the end: {device: [bytes, allocations]}, from the ledger alone."""
    where, arrays, owned = {}, {}, {}  # address -> record; array -> record; handle -> record
    maps = {}                          # address -> (bytes, handle)

    def drop_if_unused(h):
        if owned.get(h) and owned[h]["refs"] <= 0 and owned[h]["maps"] <= 0:
            del owned[h]

    for e in ledger:
        op, ptr, handle, api = e["op"], number(e.get("ptr")), number(e.get("handle")), e["api"]
        if e["result"]:
            continue
        if op == "alloc" and "Host" not in api and e.get("bytes") is not None:
            record = {"bytes": e["bytes"], "device": e.get("device"), "context": e.get("context"),
                      "async": "Async" in api, "counts": not ("handle" in e and e["bytes"] == 0)}
            (arrays if ptr is None else where)[handle if ptr is None else ptr] = record
        elif op == "free":
            where.pop(ptr, None) if ptr is not None else arrays.pop(handle, None)
        elif op == "create":
            owned[handle] = {"bytes": e["bytes"], "device": e.get("device"), "refs": 1, "maps": 0,
                             "counts": not api.startswith("cuMulticast") and e.get("device") is not None}
        elif op == "import" and handle is not None:
            owned.setdefault(handle, {"bytes": 0, "device": None, "refs": 0, "maps": 0, "counts": False})
            owned[handle]["refs"] += 1
        elif op == "retain" and handle in owned:
            owned[handle]["refs"] += 1
        elif op == "release" and handle in owned:
            owned[handle]["refs"] -= 1
            drop_if_unused(handle)
        elif op == "map" and api == "cuMemMap":
            maps[ptr] = (e["bytes"], handle)
            if handle in owned:
                owned[handle]["maps"] += 1
        elif op == "unmap" and api == "cuMemUnmap":
            for p in [p for p in maps if ptr <= p < ptr + e["bytes"]]:
                h = maps.pop(p)[1]
                if h in owned:
                    owned[h]["maps"] -= 1
                    drop_if_unused(h)
        elif op == "context-destroy" and "Green" not in api:
            for table in (where, arrays):
                for k in [k for k, r in table.items() if r["context"] == e.get("context") and not r["async"]]:
                    del table[k]
    live = collections.defaultdict(lambda: [0, 0])
    for r in [*where.values(), *arrays.values(), *owned.values()]:
        if r["counts"] and r["device"] is not None:
            live[r["device"]][0] += r["bytes"]
            live[r["device"]][1] += 1
    return live


def compare_live(summary, ledger):
    live = replay(ledger)
    seen = {d["ordinal"]: [d["live_bytes"], d["live_allocations"]] for d in summary["devices"]}
    return [f"device {d}: live [bytes, allocations] is {seen.get(d)} in summary, {live.get(d)} in the ledger"
            for d in sorted(set(seen) | set(live), key=str) if seen.get(d, [0, 0]) != live.get(d, [0, 0])]


def compare(events, ledger, summary=None):
    calls = [e for e in events if is_call(e)]
    (trace_rest, trace_primaries), (ledger_rest, ledger_primaries) = split_primaries(calls), split_primaries(ledger)
    problems = (compare_threads(trace_rest, ledger_rest) or compare_primaries(trace_primaries, ledger_primaries)
                or compare_order(calls, ledger))
    if any(e["op"] == "lost" for e in events):
        problems.append("the trace has lost events")
    if [e["event"] for e in events] != list(range(len(events))):
        problems.append("events are not numbered from 0 without gaps")
    if any(a["t_ns"] > b["t_ns"] for a, b in zip(events, events[1:])):
        problems.append("events are not in the order of time")
    if summary is not None and not problems:
        problems += compare_live(summary, ledger)
    return problems


def check(trace, ledger, tool):
    return compare(read_trace(tool, trace), read_ledger(ledger), json.loads(report(tool, "summary", trace)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    found = check(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "cutrace-report")
    print("\n".join(found) or "the trace equals the ledger")
    sys.exit(bool(found))
