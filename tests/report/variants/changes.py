# SPDX-License-Identifier: Apache-2.0
"""What a variant changes in the records of a trace. A change is a function of a Whole trace and of a random generator.
It returns another Whole, or None if the trace has nothing to change in this way."""
import fractions
import random

import mktrace

HOST, NVML = mktrace.SPACES["host"], mktrace.FLAGS["nvml"]
BLOCKS = ("block-alloc", "block-free", "block-oom")
SIZES = ("bytes", "free_bytes", "total_bytes", "free_before_bytes", "process_bytes", "reserved_bytes", "used_bytes",
         "allocated_bytes", "offset")
TOTALS = ("total_bytes", "meminfo_total_bytes", "nvml_total_bytes")
OUT_OF_MEMORY = 2
MAIN = ("native", 0x401000, None, 0x1000, "main", 16, ())


def is_failure(record):
    return record["op"] == "block-oom" or record.get("result") == OUT_OF_MEMORY


def without(fields, records):
    return [{k: v for k, v in r.items() if k not in fields} for r in records]


# ---- evidence that is taken away -------------------------------------------------------------------
def restack(whole, change, info=None):
    """Stacks of which nothing is left are gone."""
    stacks = [change(s) for s in whole.stacks]
    return whole.copy([r if "stack" not in r or stacks[r["stack"]] else {k: v for k, v in r.items() if k != "stack"}
                       for r in whole.records], stacks, info)


def no_python(whole, _):
    """As with an interpreter that cannot be read: a native frame in place of each Python frame, like those between."""
    if not any(f[0] == "python" for s in whole.stacks for f in s):
        return None
    info = {**{k: v for k, v in whole.info.items() if k != "python.version"}, "option.STACKS": "native"}
    eval_frame = ("native", 0x402000, None, 0x2000, "_PyEval_EvalFrameDefault", 64, ())
    return restack(whole, lambda s: tuple(eval_frame if f[0] == "python" else f for f in s), info)


def no_stacks(whole, _):
    return whole.copy(without(("stack",), whole.records), [], {**whole.info, "option.STACKS": "off"})


def python_only(whole, _):
    """CUTRACE_STACKS=python: no native frames."""
    return restack(whole, lambda s: tuple(f for f in s if f[0] == "python"), {**whole.info, "option.STACKS": "python"})


def shallow(whole, _):
    """CUTRACE_STACK_DEPTH=12: the innermost frames."""
    info = {**whole.info, "option.STACK_DEPTH": "12"}
    return restack(whole, lambda s: s if len(s) <= 12 else s[:12] + (("end", 1),), info)


def no_symbols(whole, _):
    """The process was killed before the writer named native frames."""
    return restack(whole, lambda s: tuple(f[:4] + (None, 0) + f[6:] if f[0] == "native" else f for f in s))


def no_blocks(whole, _):
    """PyTorch's allocator is not seen."""
    if not any(r["op"] in BLOCKS for r in whole.records):
        return None
    info = {k: v for k, v in whole.info.items() if k != "torch.version"}
    return whole.copy([r for r in whole.records if r["op"] not in BLOCKS], info=info)


def no_capacity(whole, _):
    """Nobody says how large the device is, nor what is free."""
    info = {k: v for k, v in whole.info.items() if not k.endswith(TOTALS)}
    return no_readings(whole.copy(info=info), _)


def no_readings(whole, _):
    """The size of the device is known, and what is free is not."""
    fields = ("total_bytes", "free_bytes", "free_before_bytes", "process_bytes")
    return whole.copy(without(fields, [r for r in whole.records if r["op"] != "memory-sample" or "result" in r]))


def no_nvml(whole, _):
    if not any(r.get("flags", 0) & NVML for r in whole.records):
        return None
    info = {k: v for k, v in whole.info.items() if "nvml" not in k}
    return whole.copy([r for r in whole.records if not r.get("flags", 0) & NVML], info=info)


def private(whole, _):
    """CUTRACE_PRIVATE: no versions, flags and environment."""
    gone = ("version.", "flag.", "process.env.", "process.argv", "process.program")
    return whole.copy(info={k: v for k, v in whole.info.items() if not k.startswith(gone)})


def only_large(whole, _):
    """CUTRACE_MIN_SIZE=4M: smaller allocations of the driver are not recorded."""
    small, records = set(), []
    for r in whole.records:
        if r["op"] == "alloc" and r["bytes"] < 4 << 20:
            small.add(r.get("ptr"))
        elif r["op"] == "alloc":
            small.discard(r.get("ptr"))
        if r["op"] not in ("alloc", "free") or r.get("ptr") not in small:
            records.append(r)
    return whole.copy(records, info={**whole.info, "option.MIN_SIZE": "4M"})


def lost(whole, rng):
    """A thread's ring was full: events are missing, and the trace says how many."""
    runs, first = [], None
    for i, r in enumerate(whole.records):
        if r["op"] not in BLOCKS[:2]:
            first = None
            continue
        first = i if first is None else first
        if i - first == 19:
            runs.append(first)
            first = None
    if not runs:
        return None
    at, records = rng.choice(runs), list(whole.records)
    mark = {"op": "lost", "t_ns": records[at + 19]["t_ns"], "thread": records[at]["thread"], "count": 20}
    records[at:at + 20] = [mark]
    return whole.copy(records, info={**whole.info, "recorder.lost_events": "20"})


# ---- sizes -----------------------------------------------------------------------------------------
def device_range(records):
    """Lowest and highest address of device memory."""
    at = [(r["ptr"], r["ptr"] + r.get("bytes", 0)) for r in records if r.get("ptr") and not r.get("result") and (
        r["op"] in ("reserve", "block-alloc") or r["op"] == "alloc" and r.get("space") != HOST)]
    return (min(a for a, _ in at), max(b for _, b in at)) if at else (0, 0)


def scaled(numerator, denominator):
    """A device, and all that is asked of it, of another size."""
    factor = fractions.Fraction(numerator, denominator)

    def change(whole, _):
        low, high = device_range(whole.records)
        if not low:
            return None

        def grow(v):
            return v * numerator // denominator

        def moved(r):
            if r.get("space") == HOST or r["op"] in ("register", "unregister"):
                sizes = [k for k in SIZES if k in r and k != "bytes"]
            else:
                sizes = [k for k in SIZES if k in r]
            out = {**r, **{k: grow(r[k]) for k in sizes}}
            if low <= r.get("ptr", 0) <= high:
                out["ptr"] = low + grow(r["ptr"] - low)
            return out
        info = {k: str(grow(int(v))) if k.endswith(TOTALS) else v for k, v in whole.info.items()}
        return whole.copy([moved(r) for r in whole.records], info=info)
    change.__name__ = f"sizes times {factor}"
    return change


def totals_again(records):
    """PyTorch's own totals of allocated bytes, summed anew."""
    totals, live, out = {}, {}, []
    for r in records:
        if r["op"] not in BLOCKS:
            out.append(r)
            continue
        device = r["device"]
        total = totals.get(device)
        if total is None:  # what was allocated before the first block
            total = r["allocated_bytes"] - (r["bytes"] if r["op"] == "block-alloc" else 0)
        if r["op"] == "block-alloc":
            live[device, r["ptr"]] = r["bytes"]
            total += r["bytes"]
        elif r["op"] == "block-free":
            total -= live.pop((device, r["ptr"]), r["bytes"])
        totals[device] = total
        out.append({**r, "allocated_bytes": total})
    return out


def rounded(whole, rng):
    """One block in twenty is some steps of 512 bytes smaller: at most 1 MiB in all."""
    smaller, left, out = {}, 1 << 20, []
    for r in whole.records:
        key = r.get("device"), r.get("ptr")
        if r["op"] == "block-alloc" and r["bytes"] > 1 << 16 and rng.random() < 0.05:
            less = 512 * rng.randrange(1, 9)
            if less <= left:
                smaller[key] = less
                left -= less
                r = {**r, "bytes": r["bytes"] - less}
        elif r["op"] == "block-free" and key in smaller:
            less = smaller.pop(key)
            left += less
            r = {**r, "bytes": r["bytes"] - less}
        out.append(r)
    return whole.copy(totals_again(out)) if out != whole.records else None


# ---- order and time --------------------------------------------------------------------------------
def outer_frames(whole, r):
    """Functions that say what a thread is at: two events with the same ones can have come in either order."""
    return whole.stacks[r["stack"]][-24:] if "stack" in r else None


def are_independent(whole, a, b):
    """Two events, one behind the other. (What PyTorch has reserved changes for the first block of a new segment.)"""
    if a["op"] not in BLOCKS[:2] or b["op"] not in BLOCKS[:2] or a["reserved_bytes"] != b["reserved_bytes"]:
        return False
    if a["ptr"] < b["ptr"] + b["bytes"] and b["ptr"] < a["ptr"] + a["bytes"]:
        return False
    outer = outer_frames(whole, a), outer_frames(whole, b)
    return a["thread"] != b["thread"] or None in outer or outer[0] == outer[1]


def swapped(whole, rng):
    """Neighbouring blocks that do not depend on each other, in another order."""
    records, count = list(whole.records), 0
    behind = next((i for i, r in enumerate(records) if is_failure(r)), len(records)) - 1
    for at in range(1, max(behind - 1, 1)):
        a, b = records[at], records[at + 1]
        if rng.random() < 0.5 and records[at - 1]["op"] in BLOCKS and are_independent(whole, a, b):
            records[at], records[at + 1] = {**b, "t_ns": a["t_ns"]}, {**a, "t_ns": b["t_ns"]}
            count += 1
    return whole.copy(totals_again(records)) if count else None


def slower(whole, _, times=10):
    """Everything takes as many times as long."""
    start = min(int(whole.info.get("process.start_ns", 0)) or whole.records[0]["t_ns"], whole.records[0]["t_ns"])

    def later(r):
        out = {**r, "t_ns": start + (r["t_ns"] - start) * times}
        if "duration_ns" in r:
            out["duration_ns"] = r["duration_ns"] * times
        if "amends_ns" in r:
            out["amends_ns"] = start + (r["amends_ns"] - start) * times
        return out
    return whole.copy([later(r) for r in whole.records])


def coarse_times(whole, _):
    """CUTRACE_TICK_NS=1000000, and many events share a tick."""
    fields = ("t_ns", "duration_ns", "amends_ns")
    return whole.copy([{k: v // 1000000 * 1000000 if k in fields else v for k, v in r.items()} for r in whole.records],
                      info={**whole.info, "option.TICK_NS": "1000000"})


def insert(whole, added):
    """Records among the others, by their times; none inside of what failed, from the first refused call on."""
    records = sorted(enumerate([*whole.records, *added]), key=lambda r: (r[1]["t_ns"], r[0]))
    return whole.copy([r for _, r in records])


def quiet_times(whole, rng, count):
    """Times between events before anything failed."""
    behind = next((i for i, r in enumerate(whole.records) if is_failure(r)), len(whole.records))
    times = [r["t_ns"] for r in whole.records[:behind]]
    if times[-1] - times[0] <= 2 * count:
        return []
    return sorted(rng.randrange(times[0] + 1, times[-1]) for _ in range(count))


def noisy(whole, rng):
    """Another thread page-locks a little memory again and again, frees what it must not, and notes something."""
    added, thread = [], (990001, "loader")
    stacks = [*whole.stacks, (("native", 0x403000, None, 0x3000, "read_ahead", 32, ()), MAIN)]
    common = {"thread": thread, "stack": len(whole.stacks), "context": 1}
    for i, t_ns in enumerate(quiet_times(whole, rng, 60)):
        ptr = 0x10000000 + i * (1 << 20)
        added.append({"op": "alloc", "t_ns": t_ns, "api": "cuMemHostAlloc", "result": 0, "space": HOST, "ptr": ptr,
                      "bytes": 4096 * (1 + i % 7), **common})
        added.append({"op": "free", "t_ns": t_ns + 1, "api": "cuMemFreeHost", "result": 0, "ptr": ptr, "space": HOST,
                      "thread": thread})
        added.append({"op": "free", "t_ns": t_ns + 1, "api": "cuMemFree_v2", "result": 1, "ptr": ptr, "thread": thread})
    added += [{"op": "note", "t_ns": r["t_ns"] + 2, "text": "still reading", "thread": thread} for r in added[::30]]
    return insert(whole.copy(stacks=stacks), added) if added else None


# ---- other machines --------------------------------------------------------------------------------
def other_paths(whole, _):
    """Installed elsewhere, and a few lines away from where they are."""
    def moved(f):
        if f[0] != "python" or not f[2]:
            return f
        return "python", f[1], f[2].replace("/opt/vllm/", "/home/me/env/lib64/python3.13/site-packages/"), f[3] + 7
    return restack(whole, lambda s: tuple(map(moved, s)))


def launched(whole, _):
    """Below the main loop of a launcher's worker process."""
    folder = "/usr/lib/python3/dist-packages/ray/_private/"
    loop = (("python", "CoreWorkerProcess.run", folder + "worker.py", 980),
            ("python", "main_loop", folder + "worker.py", 870),
            ("python", "<module>", folder + "workers/default_worker.py", 297))
    return restack(whole, lambda s: s + loop if any(f[0] == "python" for f in s) else s)


# ---- devices ---------------------------------------------------------------------------------------
def device_3(whole, _):
    info = {k.replace("device.0.", "device.3.", 1): v for k, v in whole.info.items()}
    return whole.copy([{**r, "device": 3} if r.get("device") == 0 else r for r in whole.records], info=info)


def two_devices(whole, rng):
    """Another device is there, with a context, some memory and much that is free."""
    info = {**whole.info, "device.7.name": "Simulated GPU 7", "device.7.total_bytes": str(80 << 30)}
    thread, stacks = (990002, "prober"), [*whole.stacks, (("native", 0x404000, None, 0x4000, "probe", 32, ()), MAIN)]
    common = {"thread": thread, "stack": len(whole.stacks), "device": 7, "context": 0x7777, "result": 0}
    times = quiet_times(whole, rng, 3)
    if not times:
        return None
    added = [{"op": "context-create", "t_ns": times[0], "api": "cuDevicePrimaryCtxRetain", **common},
             {"op": "alloc", "t_ns": times[1], "api": "cuMemAlloc_v2", "ptr": 0x500000000000, "bytes": 64 << 20,
              "space": mktrace.SPACES["device"], **common},
             {"op": "memory-sample", "t_ns": times[2], "api": "cuMemGetInfo_v2", "thread": thread, "device": 7,
              "free_bytes": 79 << 30, "total_bytes": 80 << 30}]
    return insert(whole.copy(info=info, stacks=stacks), added)


def both(first, second):
    def change(whole, rng):
        changed = first(whole, rng)
        return changed and second(changed, rng)
    change.__name__ = f"{first.__name__} + {second.__name__}"
    return change


def again(first):
    """A change with other random numbers."""
    def change(whole, rng):
        return first(whole, random.Random(f"again {rng.random()}"))
    change.__name__ = f"{first.__name__} again"
    return change


def same(whole, _):
    return whole


