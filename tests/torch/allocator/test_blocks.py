#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real caching allocator from PyTorch's wheels, under the library: segments, blocks and totals of the trace,
against the allocator's own at random moments. test_blocks.py [WORD]... runs the cases whose names contain one of
the words."""
import collections
import functools
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import check_ledger  # noqa: E402
import schema  # noqa: E402
import segments  # noqa: E402
import tap  # noqa: E402
import ways  # noqa: E402
import wheels  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
OPERATIONS = 36000 if tap.FULL else 2500  # of each case
MOMENTS = 150 if tap.FULL else 40
LIBRARY = os.path.join(tap.BUILD, "libcutrace.so")
HANG = 600  # a guard, no measure

# Name, PYTORCH_CUDA_ALLOC_CONF, options of the program, variables of the simulated driver.
WAITING = ",".join(f"cuEventQuery:{n}-{n + 40}:600" for n in range(20, 2000, 100))[:1900].rsplit(",", 1)[0]
REFUSED = ",".join(f"cuMemAlloc_v2:{n}-{n + n % 3}:2" for n in range(12, 300, 19))
CASES = [
    ("one stream", "", {"streams": 0, "others": 100}, {}),
    ("one stream, more than fits", "", {"streams": 0, "live_mb": 2000, "largest_mb": 300}, {}),
    ("several streams", "", {"streams": 4, "others": 100}, {}),
    ("blocks that another stream uses", "", {"streams": 3, "record": 200}, {"SIM_FAIL": WAITING}),
    ("expandable segments", "expandable_segments:True", {"streams": 0, "live_mb": 2000, "largest_mb": 300}, {}),
    ("expandable segments, several streams", "expandable_segments:True", {"streams": 3, "record": 100, "live_mb": 900},
     {"SIM_FAIL": WAITING}),
    ("max_split_size", "max_split_size_mb:24", {"live_mb": 1000, "largest_mb": 200}, {}),
    ("garbage collection below a memory fraction", "garbage_collection_threshold:0.6", {"fraction": 60, "live_mb": 1100}, {}),
    ("rounding to parts of powers of two", "roundup_power2_divisions:4", {"streams": 2}, {}),
    ("private pools and captures", "", {"pools": 1000, "captures": 1, "record": 50, "streams": 2}, {}),
    ("private pools of expandable segments", "expandable_segments:True", {"pools": 1000, "captures": 1, "streams": 2}, {}),
    ("private pools that go back to checkpoints", "", {"pools": 1000, "checkpoints": 1, "streams": 2}, {}),
    ("refusals by the driver", "", {"streams": 1}, {"SIM_FAIL": REFUSED}),
    ("threads on two devices", "", {"threads": 4, "devices": 2, "streams": 3, "record": 50, "pools": 300, "others": 100,
                                   "live_mb": 1000}, {}),
    ("threads, the lock released while the driver allocates", "release_lock_on_cudamalloc:True",
     {"threads": 4, "streams": 2, "live_mb": 1000}, {"SIM_LATENCY_NS": "cuMemAlloc_v2:100000,0"}),
]


def cases(version):
    """Those that the version can run."""
    old = [int(n) for n in version.split(".")] < [2, 2]
    return [c for c in CASES if not (old and "release_lock" in c[1])]


def drawn():
    """(version, case): each case with one version that can run it, or with all of these."""
    for number, case in enumerate(CASES):
        for version in tap.sample([v for v in wheels.versions() if case in cases(v)], 1, number):
            yield version, case


class Run:
    """A run of the program: its trace's events, what the allocator said, and the driver's ledger."""

    def __init__(self, wheel, case, seed, operations=OPERATIONS, moments=MOMENTS, preload=LIBRARY, **library):
        _, settings, options, driver = case
        self.folder = tempfile.TemporaryDirectory(prefix="torch.")
        self.trace, self.ledger, truth = (os.path.join(self.folder.name, n) for n in ("trace.zst", "ledger", "truth"))
        env = wheel.environment(**{
            "LD_PRELOAD": preload, "CUTRACE_OUTPUT": self.trace, "CUTRACE_QUIET": 1, "CUTRACE_MAX_SIZE": 0, "CUTRACE_STACKS": "off",
            "SIM_MEM_MB": 1024, "SIM_DEVICES": 2, "SIM_LEDGER": self.ledger, "PYTORCH_CUDA_ALLOC_CONF": settings or None,
            **library, **driver})
        options = {"seed": seed, "operations": operations, "moments": moments, **options}
        words = [wheel.program(), truth, *(f"{k}={v}" for k, v in options.items())]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=HANG, check=False)
        tap.equal(done.returncode, 0, f"{' '.join(words)}: {done.stderr[-2000:]}")
        with open(truth, encoding="utf-8") as lines:
            self.moments = [json.loads(line) for line in lines]
        self.said = done.stderr

    def events(self):
        with subprocess.Popen([tap.REPORT, "dump", "--json", self.trace], stdout=subprocess.PIPE, env=tap.PLAIN) as dump:
            for line in dump.stdout:
                e = json.loads(line)
                schema.check_document("dump", e)
                yield e
        tap.equal(dump.returncode, 0, "cutrace-report dump")


# ---- the comparison -------------------------------------------------------------------------------------

HANDED_OUT, WAITS, FREE = 2, 1, 0


def blocks_of(segment):
    """(address, bytes, state) of each block."""
    at = segment[0]
    for size, state, _ in segment[6]:
        yield at, size, state
        at += size


def whole_gaps(segment):
    """(address, bytes) of what is not handed out: neighbours as one."""
    gaps = []
    for address, size, state in blocks_of(segment):
        if state == HANDED_OUT:
            continue
        if gaps and sum(gaps[-1]) == address:
            gaps[-1] = (gaps[-1][0], gaps[-1][1] + size)
        else:
            gaps.append((address, size))
    return gaps


def differences(device, truth):
    """Of one device at one moment; device: segments.Device."""
    own = sorted(truth["segments"])
    blocks = [b for s in own for b in blocks_of(s)]
    free = [b[:2] for b in blocks if b[2] == FREE]
    ranges = device.free_ranges()
    pairs = [
        ("block events", [device.count[op] for op in ("block-alloc", "block-free", "block-oom")], truth["blocks"]),
        ("refusals", device.count["block-oom"], truth["ooms"]),
        ("what PyTorch's profiler was told", truth["blocks"], truth["profiler"]),
        ("allocated", device.allocated, truth["allocated"]),
        ("reserved", device.reserved, truth["reserved"]),
        ("stated by PyTorch", device.stated, (truth["allocated"], device.stated[1])),
        ("segments", device.segments(), [tuple(s[:2]) for s in own]),
        ("blocks", sorted(device.blocks.items()), [b[:2] for b in blocks if b[2] == HANDED_OUT]),
        ("what is not handed out", ranges, [g for s in own for g in whole_gaps(s)]),
    ]
    if all(b[2] != WAITS for b in blocks):
        pairs.append(("free blocks", ranges, free))
    out = [f"{what}: the trace has {ours!r:.300}, the allocator {its!r:.300}" for what, ours, its in pairs if ours != its]
    largest, bound = max([n for _, n in free], default=0), max([n for _, n in ranges], default=0)
    if largest > bound:
        out.append(f"the largest free block has {largest} bytes, the bound is {bound}")
    return out


def compare(events, moments, seen=None):
    """Problems; stops at the first moment that differs. seen counts what occurred."""
    replay, left = segments.Replay(), list(reversed(moments))
    for e in events:
        if left and e["op"] == "alloc" and e["bytes"] == left[-1]["marker"]:
            truth = left.pop()
            for device in truth["devices"]:
                out = differences(replay.devices[device["device"]], device)
                if out:
                    return [f"moment {truth['marker']}, device {device['device']}, event {e['event']}: {d}" for d in out]
            if seen is not None:
                seen.append(truth)
        replay.event(e)
        if replay.problems:
            return replay.problems
    return [f"{len(left)} moments are not in the trace"] if left else []


# ---- streams ---

NO_STREAM = "0xffffffffffffffff"


def stream_pairs(events, moments):
    """How often a live block had which recorded stream in a segment of which stream, by device."""
    pairs, live, left = collections.Counter(), {}, list(reversed(moments))
    for e in events:
        if left and e["op"] == "alloc" and e["bytes"] == left[-1]["marker"]:
            for device in left.pop()["devices"]:
                for s in device["segments"]:
                    for address, _, state in blocks_of(s):
                        if state == HANDED_OUT:
                            pairs[device["device"], live[address], s[2]] += 1
        elif e["op"] == "block-alloc":
            live[segments.number(e["ptr"])] = e["stream"]
    return pairs


def mixed(pairs):
    """Problems: recorded streams that are more than one of PyTorch's, and the other way round."""
    return [f"{side}: {one} is {sorted(others, key=str)}" for side in (1, 2)
            for one in sorted({(p[0], p[side]) for p in pairs}, key=str)
            for others in [{p[3 - side] for p in pairs if (p[0], p[side]) == one}] if len(others) > 1]


def check_streams(version):
    """the recorded streams of blocks are those of their segments, one to one; of failed requests, streams that exist"""
    for settings in "", "expandable_segments:True":
        options = {"streams": 4, "raw": 0, "threads": 3, "devices": 2, "live_mb": 1300, "record": 50}
        run = Run(ready(version), ("", settings, options, {}), 5, operations=3000, moments=30)
        events = list(run.events())
        pairs = stream_pairs(events, run.moments)
        known = {(d, stream) for d, stream, _ in pairs}
        tap.equal(mixed(pairs), [], settings)
        tap.check(len(known) > 12 and all((d, None) in known for d in (0, 1)), f"too few streams: {known}")
        tap.check(all((p[1] is None) == (p[2] == 0) for p in pairs), f"the default stream: {pairs}")
        ooms = {(e["device"], e["stream"]) for e in events if e["op"] == "block-oom"}
        tap.check(ooms and all(s != NO_STREAM for _, s in ooms), f"streams of failed requests: {ooms}")
        # The comparison finds a planted fault.
        other = [{**e, "stream": "0x23"} if e["stream"] == "0x3" else e for e in events]
        tap.check(mixed(stream_pairs(other, run.moments)), "two streams as one")


def check_raw_streams(version):
    """a request that names its stream is recorded with the thread's current one, all others with their own"""
    options = {"streams": 3, "live_mb": 800}
    run = Run(ready(version), ("", "", options, {}), 9, operations=3000, moments=30)
    by_segment = collections.defaultdict(collections.Counter)
    for (_, recorded, its), n in stream_pairs(run.events(), run.moments).items():
        by_segment[its][recorded] += n
    first = {its: counts.most_common(1)[0] for its, counts in by_segment.items()}
    tap.equal(len({recorded for recorded, _ in first.values()}), 4, f"{by_segment}")
    for its, (_, n) in first.items():
        tap.check(sum(by_segment[its].values()) * 6 // 10 < n < sum(by_segment[its].values()), f"{its}: {by_segment[its]}")


# ---- the tests ------------------------------------------------------------------------------------------

def ready(version):
    try:
        return wheels.Wheel(version)
    except wheels.Unavailable as reason:
        raise tap.Skip(f"{reason}") from None


def sums(moments):
    """What was there to be seen, over all moments and devices."""
    devices = [d for m in moments for d in m["devices"]]
    states = [b[1] for d in devices for s in d["segments"] for b in s[6]]
    last = moments[-1]["devices"]
    return {"operations": sum(sum(d["blocks"]) for d in last), "retries": sum(d["retries"] for d in last),
            "ooms": sum(d["ooms"] for d in last), "waiting": states.count(WAITS), "free": states.count(FREE),
            "pools": len({tuple(s[5]) for d in devices for s in d["segments"]}),
            "expandable": sum(s[4] for d in devices for s in d["segments"]), "gone_back": moments[-1]["gone_back"]}


def must_occur(case, seen):
    """A case that did not do what it is there for has tested nothing."""
    name, settings, options, driver = case
    wanted = ["operations", "free"]
    wanted += ["retries"] if options.get("live_mb", 0) >= 900 or REFUSED in driver.values() else []
    wanted += ["ooms"] if options.get("live_mb", 0) > 1024 else []
    wanted += ["waiting"] if WAITING in driver.values() else []
    wanted += ["expandable"] if "expandable" in settings else []
    tap.check(all(seen[w] for w in wanted), f"{name}: {wanted} must have occurred: {seen}")
    tap.check("pools" not in options or seen["pools"] > 2, f"no private pool: {seen}")
    tap.check("checkpoints" not in options or seen["gone_back"] > 5, f"no checkpoint: {seen}")


operations = collections.defaultdict(list)  # by version: of each case that was compared


def check_case(version, case):
    seed = 7 + tap.SEED
    run = Run(ready(version), case, seed)
    seen = []
    problems = compare(run.events(), run.moments, seen)
    tap.check(not problems, "\n".join(problems[:8]))
    tap.equal(len(seen), MOMENTS + 1, "moments")
    must_occur(case, sums(seen))
    operations[version].append(sum(sum(d["blocks"]) for d in run.moments[-1]["devices"]))
    if case[2].get("threads", 1) == 1:
        check_driver_calls(version, case, run, seed)


def violations(run):
    """Questions for free memory during a capture: takes them out of the ledger, and counts them."""
    with open(run.ledger, encoding="utf-8") as f:
        lines = f.readlines()
    kept = [line for line in lines if '"violation"' not in line]
    with open(run.ledger, "w", encoding="utf-8") as f:
        f.writelines(kept)
    return len(lines) - len(kept)


def check_driver_calls(version, case, run, seed):
    """The calls of the driver are in the trace as the driver saw them, and none is there because of the library."""
    asked = violations(run)
    if asked:  # by PyTorch itself, when it refuses a request during a capture
        tap.equal(asked, violations(Run(ready(version), case, seed, preload=None)), "questions during captures")
    problems = check_ledger.check(run.trace, run.ledger, tap.REPORT)
    tap.check(not problems, "\n".join(map(str, problems[:8])))


def check_stacks(version):
    """each block that is handed out has the stack of who asked"""
    run = Run(ready(version), CASES[2], seed=11, operations=2000, moments=5, CUTRACE_STACKS="both")
    tap.equal(compare(run.events(), run.moments), [])
    stacks = [e["stack"] for e in run.events() if e["op"] == "block-alloc"]
    tap.check(len(stacks) > 800, f"{len(stacks)} blocks")
    names = [[f["name"] for f in stack or [] if f["kind"] == "native"] for stack in stacks]
    missing = [n for n in names if not any(name and name.startswith("run(") for name in n)]
    tap.check(not missing, f"{len(missing)} of {len(names)} stacks do not reach the thread's function: {missing[:1]}")


def check_said(version):
    """each failure that PyTorch raises is said on standard error, and no driver call that a retry healed"""
    for case in CASES[1], CASES[4], CASES[12]:
        run = Run(ready(version), case, seed=5, operations=1500, moments=5, CUTRACE_STACKS="both", CUTRACE_QUIET="0")
        seen = sums(run.moments)
        failed = sum(e["op"] in ("alloc", "create") and e["result"] == 2 for e in run.events())
        tap.check(seen["retries"] and failed > seen["ooms"], f"{case[0]}: nothing was retried: {seen}, {failed} failed calls")
        tap.equal(ways.count_said(run.said), (seen["ooms"],) * 2, f"{case[0]}: {failed} failed calls, {run.said[-2000:]}")


def check_operations(version):
    """All cases of a version together: another one that cannot be had changes nothing."""
    ready(version)
    done = operations[version]
    tap.note(f"{sum(done)} operations of the allocator were compared, {len(done)} cases")
    tap.check(sum(done) >= 500000, f"too few: {sum(done)}")


def check_faults(version):
    """the comparison finds planted faults out"""
    run = Run(ready(version), CASES[3], seed=3, operations=1500, moments=30)
    events = list(run.events())
    tap.equal(compare(events, run.moments), [])
    rng = tap.dice()

    own = {e["ptr"] for e in events if e["bytes"] and e["bytes"] > 512}  # no marks

    def places(op):
        # Neither in the beginning nor behind the last moment.
        return rng.choice([i for i, e in enumerate(events[:-200]) if i > 30 and e["op"] == op and e["ptr"] in own])

    def changed(i, **values):
        return [*events[:i], {**events[i], **values}, *events[i + 1:]]

    faults = {"a lost " + op: [e for n, e in enumerate(events) if n != i]
              for op in ("block-alloc", "block-free", "alloc", "free") for i in [places(op)]}
    i = places("block-alloc")
    faults["a wrong size"] = changed(i, bytes=events[i]["bytes"] - 512)
    faults["a wrong address"] = changed(i, ptr=hex(int(events[i]["ptr"], 16) + 512))
    faults["a wrong device"] = changed(i, device=1)
    faults["a wrong total"] = changed(i, allocated_bytes=events[i]["allocated_bytes"] + 512)
    faults["a wrong total of segments"] = changed(i, reserved_bytes=events[i]["reserved_bytes"] - (2 << 20))
    for what, tampered in faults.items():
        tap.check(compare(tampered, run.moments), f"{what} was not found out")


def main():
    for version, case in drawn():
        tap.case(f"PyTorch {version}: {case[0]}")(functools.partial(check_case, version, case))
    for number, function in enumerate((check_stacks, check_streams, check_raw_streams, check_said, check_faults)):
        for version in tap.sample(wheels.versions(), 1, number):
            tap.case(f"PyTorch {version}: {function.__doc__}")(functools.partial(function, version))
    if tap.FULL and not sys.argv[1:]:  # the sum over all cases above
        for version in wheels.versions():
            tap.case(f"PyTorch {version}: operations in all")(functools.partial(check_operations, version))
    tap.main()


if __name__ == "__main__":
    main()
