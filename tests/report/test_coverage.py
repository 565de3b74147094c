#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The coverage that `info` tells of: what is concluded from the recorder's facts, from older traces and from hostile ones, and that every view
says the same sentence. What the recorder finds is tested in tests/interception/test_coverage.py."""
import html
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import traces  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, Trace  # noqa: E402
from tap import case, check, equal, main, read_view, report, scratch  # noqa: E402
from traces import G, M, S, begin  # noqa: E402

CLEAN = "no call that bypasses cutrace was found"
UNKNOWN = "this older trace did not record which calls bypassed cutrace"
LOOKED = {"coverage.looks": "2", "coverage.modules": "9", "coverage.drivers": "1", "coverage.children": "0",
          "coverage.children_without_library": "0"}


def made(facts, events=None, name="made.zst", **options):
    t = Trace(**options)
    begin(t, exe="serve")
    t.info.update(facts)
    for e in events or [("alloc", 60 * S, {"api": "cuMemAlloc_v2", "ptr": 0x1000, "bytes": M, "space": "device"})]:
        t.event(e[0], e[1], device=0, result=0, context=1, **e[2])
    return t.save(scratch(name))


def document_of(view, path):
    return read_view(view, path, codes=(0, 3, 4))  # 3: damaged


def coverage(path):
    return document_of("info", path)["coverage"]


def limits(facts):
    return coverage(made(facts))["limits"]


def joined(text):
    """A text without the breaks of its lines."""
    return re.sub(r"\n +", " ", text)


def limits_of_text(view, path):
    found = re.search(r"^limits: (.*)$", joined(report(view, path)[1].decode()), re.M)
    return found and found.group(1)


# ---- the sentence -------------------------------------------------------------------------------

for builder in traces.ALL:
    @case(f"{builder.__name__}: summary, oom, info, their JSON and the page say the same sentence")
    def _(build=builder):
        path = scratch(build.__name__ + ".zst", build())
        said = coverage(path)["limits"]
        check(said)
        for view in ("summary", "oom", "info"):
            shown = limits_of_text(view, path)
            left_out = view == "summary" and shown is None and said in (CLEAN, UNKNOWN)  # the screen is full
            check(shown == said or left_out, (view, shown, said))
        for view in ("summary", "oom", "top", "leaks", "stats", "timeline", "frag", "phases"):
            equal(document_of(view, path)["trace"]["limits"], said, view)
        page = scratch("page.html")
        check(report("html", "--force", "-o", page, path)[0] in (0, 4))
        with open(page, encoding="utf-8") as f:
            text = re.search(r'<p class="limits">Limits: (.*?)\.</p>', f.read(), re.S).group(1)
        equal(html.unescape(text), said)


@case("an older trace says that nothing is recorded, of each part, and concludes nothing")
def older():
    path = made({"hook.cuMemAlloc_v2.calls": "1", "unwrapped.cuInit.2000": "1"})
    document = coverage(path)
    equal(document["limits"], UNKNOWN)
    equal([document[k] for k in ("recorded", "look_ups", "looks", "modules_seen", "drivers", "children", "modules")],
          [False, None, None, None, None, None, []])
    equal([p["name"] for p in document["passed"]], ["cuInit"])
    text = report("info", path)[1].decode()
    equal(text.count("not recorded by this version"), 3)
    check("none" not in text, text)


@case("without a look nothing is concluded, not from a parent's facts either")
def no_look():
    path = made({**LOOKED, "coverage.looks": "0"})
    equal(coverage(path)["limits"], "the process ended before a look for calls that bypass cutrace")
    equal((coverage(path)["children"], coverage(path)["modules_seen"]), (None, None))


@case("nothing amiss is one short sentence; children that the kernel does not tell are not known")
def clean():
    equal(limits(LOOKED), CLEAN)
    equal([limits_of_text(view, made(LOOKED)) for view in ("summary", "oom", "info")], [CLEAN] * 3)
    path = made({k: v for k, v in LOOKED.items() if "children" not in k})
    equal(coverage(path)["children"], None)
    check(re.search(r"^child processes not known$", report("info", path)[1].decode(), re.M))


@case("a recorder that could not read the modules concludes nothing of them")
def unreadable():
    for facts in ({k: v for k, v in LOOKED.items() if k != "coverage.modules"}, {**LOOKED, "coverage.modules": "0"}):
        equal(limits(facts), "the loaded modules could not be read")
        equal(coverage(made(facts))["modules_seen"], None)
        check(re.search(r"^modules not known", report("info", made(facts))[1].decode(), re.M))


def module(key, name, to, n=0):
    return {f"coverage.{key}.{n}": name, f"coverage.{key}.{n}.to": to}


PAST, FIRST = "calls of lib.so bypass cutrace", "calls of lib.so go to another interposer first"
PARTS = [
    ("calls of CUDA's libraries", module("bound_elsewhere", "lib.so", "libcudart.so.13 2"), PAST),
    ("calls of the driver", module("bound_elsewhere", "lib.so", "libcuda.so.1 1"), PAST),
    ("calls of an interposer", module("bound_elsewhere", "lib.so", "libx.so 1"), FIRST),
    ("calls of an interposer and of the driver", module("bound_elsewhere", "lib.so", "libx.so 1, libcuda.so.1 1"), PAST),
    ("an interposer whose name ends as the driver's", module("bound_elsewhere", "lib.so", "my-libcuda.so 1"), FIRST),
    ("look-ups that go to the C library", module("looks_up_elsewhere", "lib.so", "libc.so.6"), PAST),
    ("look-ups that go to an interposer", module("looks_up_elsewhere", "lib.so", "libvgpu.so"), FIRST),
    ("a runtime whose look-ups got wrappers", {"look_ups.resolver.0": "lib.so"}, CLEAN),
    ("CUPTI beside one driver hears calls", {**module("bound_elsewhere", "lib.so", "libcuda.so.1 1"), "cupti.state": "on"}, CLEAN),
    ("CUPTI beside two drivers does not hear all",
     {**module("bound_elsewhere", "lib.so", "libcuda.so.1 1"), "cupti.state": "on", "coverage.drivers": "2"}, PAST),
    ("CUPTI that was given away", {"cupti.state": "given to libtorch.so"}, "CUPTI was given to libtorch.so"),
    ("a memory function without a hook", {"look_ups.hooked_passed.cuMemAlloc.0": "1"}, "look-ups of cuMemAlloc got no wrapper"),
    ("another function without one", {"look_ups.hooked_passed.cuDevicePrimaryCtxRelease.0": "1"}, CLEAN),
    ("a child without the library", {"coverage.children": "2", "coverage.children_without_library": "1"},
     "1 child process used CUDA without cutrace"),
    ("lost events", {"recorder.lost_events": "7"}, "7 events were lost"),
    ("a recording that was switched off", {"recorder.switched_off": "2"}, "the recording was switched off 2 times"),
    ("modules that could not be read", {"coverage.modules_unreadable": "3"}, "3 modules could not be read"),
]
for what_, facts_, want_ in PARTS:
    @case(f"the sentence: {what_}")
    def _(facts=facts_, want=want_):
        equal(limits({**LOOKED, **facts}), want)


@case("three parts at most, and how many more there are")
def many_parts():
    said = limits({**LOOKED, **module("bound_elsewhere", "lib.so", "libcuda.so.1 1"), "recorder.lost_events": "1",
                   "recorder.switched_off": "1", "coverage.children_without_library": "1", "cupti.state": "given to x"})
    equal(said, PAST + "; 1 child process used CUDA without cutrace; CUPTI was given to x; 2 more: see info")


# ---- several traces -----------------------------------------------------------------------------

def several(*facts):
    """A trace for each, of processes 101, 102, ... of one host and one GPU."""
    clock = {"clock.monotonic_ns": str(50 * S), "clock.realtime_ns": str(1795000050 * S), "host.boot_hash": "b007"}
    fields = {"api": "cuMemAlloc_v2", "ptr": 0x1000, "space": "device"}
    return [made({**clock, "process.pid": str(101 + i), "process.start_ns": str((10 + i) * S), **f}, name=f"several-{i}.zst",
                 events=[("alloc", 60 * S, {**fields, "bytes": (1 + i) * 100 * M})], trace_id=0x5000 + i)
            for i, f in enumerate(facts)]


def lines_of_limits(paths):
    return re.findall(r"^limits: (.*)$", joined(report("summary", *paths, columns=200)[1].decode()), re.M)


LIMITED = {**LOOKED, **module("bound_elsewhere", "lib.so", "libcuda.so.1 1")}


@case("several traces: each process has in JSON and in the page the sentence of its own report; the text has each sentence once")
def together():
    paths = several(LOOKED, LIMITED, {**LOOKED, "recorder.lost_events": "7"}, LIMITED, {})
    want = [coverage(p)["limits"] for p in paths]
    equal(want, [CLEAN, PAST, "7 events were lost", PAST, UNKNOWN])
    said = json.loads(report("summary", "--json", *paths)[1])
    equal([p["limits"] for p in said["processes"]["processes"]], want)
    equal([d["trace"]["limits"] for d in said["documents"]], want)
    equal(lines_of_limits(paths), [f"pid 102 (serve), pid 104 (serve): {PAST}", "pid 103 (serve): 7 events were lost",
                                   f"pid 101 (serve): {CLEAN}", "1 more sentence of other processes (--json)"])
    page = scratch("several.html")
    equal(report("html", "--force", "-o", page, *paths)[0], 0)
    with open(page, encoding="utf-8") as f:
        text = f.read()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))
    equal([p["limits"] for p in data["processes"]["processes"]], want)
    equal([t["info"]["coverage"] for t in data["traces"]], [coverage(p) for p in paths])
    equal([html.unescape(x) for x in re.findall(r'<p class="limits">Limits: (.*?)\.</p>', text, re.S)], want)


@case("several traces with one sentence: it is said once, of no process; a copy and an unreadable trace have none")
def together_alike():
    equal(lines_of_limits(several(LOOKED, LOOKED)), [CLEAN])
    paths = several(LIMITED, LIMITED)
    equal(lines_of_limits(paths), [PAST])
    copy = scratch("copy.zst")
    shutil.copy(paths[0], copy)
    equal(lines_of_limits([*paths, copy]), [PAST])
    processes = json.loads(report("summary", "--json", *paths, copy, "/proc/none.zst")[1])["processes"]["processes"]
    equal([p["limits"] for p in processes], [PAST, PAST, None, None])
    many = several(*[LIMITED] * 5, LOOKED)
    equal(lines_of_limits(many), [f"pid 101 (serve), pid 102 (serve), pid 103 (serve), 2 more: {PAST}", f"pid 106 (serve): {CLEAN}"])


@case("several traces that fill the screen leave out sentences only where none names a limit")
def together_full():
    for last, count in ((LOOKED, 0), (LIMITED, 2)):
        out = report("summary", "-n", "20", *several(*[LOOKED] * 30, last))[1].decode()
        equal(len(re.findall("^limits: ", out, re.M)), count, out)


# ---- hostile traces -----------------------------------------------------------------------------

EVIL = "\x1b]0;owned\x07<script>alert(1)</script>\u202e\"\\\n"


@case("hostile names: no control character and no markup gets out, and a view stays small")
def hostile():
    facts = {**LOOKED, "coverage.children": "9", "coverage.children_without_library": "9", "torch.version": EVIL * 300,
             "coverage.children_without_library_names": EVIL * 300, "cupti.state": "given to " + EVIL * 300}
    for n in range(3000):
        facts.update(module("bound_elsewhere", EVIL + "x" * 2000, EVIL * 9, n))
        facts[f"look_ups.hooked_passed.{EVIL}cuMem{n}.1"] = "1"
    path = made(facts)
    code, out, err = report("info", path)
    equal((code, err), (0, b""))
    check(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", out), out[:500])
    heard = out[out.index(b"\nheard"):]  # (the facts before that are as recorded)
    check("\u202e" not in out.decode() and len(heard) < 16000, len(heard))
    said = coverage(path)["limits"]
    check(len(said) < 400 and not re.search(r"[\x00-\x1f\u202e]", said), said)
    page = scratch("evil.html")
    equal(report("html", "--force", "-o", page, path)[0], 0)
    with open(page, encoding="utf-8") as f:
        text = f.read()
    check("<script>alert" not in text and "&lt;script&gt;alert" in text)


@case("damaged facts: numbers that are none, targets that are missing, keys without an end")
def damaged():
    facts = {"coverage.looks": "two", "coverage.modules": "-1", "coverage.drivers": "9" * 40, "coverage.children": "",
             "coverage.bound_elsewhere.0": "lib.so", "coverage.bound_elsewhere.": "x", "coverage.bound_elsewhere.0.to.to": "y",
             "look_ups.hooked_passed.": "1", "look_ups.hooked_passed.x": "1", "unwrapped.x.": "1", "unwrapped..1": "1",
             "unwrapped.x.-99999999999999999999": "1", "unwrapped.x.99999999999999999999": "9" * 40, "hook..calls": "x",
             "look_ups.dlsym": "x" * 5000, "audit.both.": "1", "look_ups.": "", "coverage." + "k" * 3000: "v"}
    code, out, err = report("info", made(facts))
    equal((code, err), (0, b""))
    document = coverage(made(facts))
    equal((document["recorded"], document["looks"], document["children"]), (False, None, None))
    equal([(m["module"], m["to"]) for m in document["modules"] if m["module"] == "lib.so"], [("lib.so", None)])
    check(out)


# ---- untracked memory -----------------------------------------------------------------------------

@case("the share of untracked memory over time: the last reading in each eighth, to the byte")
def share():
    events, want = [], {}
    begin_ns, end_ns = 60 * S, 60 * S + 79 * S // 10
    for i in range(80):
        at, used = begin_ns + i * S // 10, G + i * M
        events.append(("alloc", at, {"api": "cuMemAlloc_v2", "ptr": 0x100000000 + i * G, "bytes": 2 * M, "space": "device",
                                     "free_bytes": 8 * G - used, "total_bytes": 8 * G}))
        want[(at - begin_ns) * 8 // (end_ns - begin_ns + 1)] = (at, used)
    path = made(LOOKED, events)
    (device,) = coverage(path)["devices"]
    equal([(r["t_ns"], r["used_bytes"]) for r in device["readings"]], [want[i] for i in range(8)])
    for r in device["readings"]:
        equal(r["used_bytes"] - r["tracked_bytes"], r["untracked_or_others_bytes"])
        equal(r["untracked_bytes"], None)


@case("a device whose memory was never read is named, also when nothing is left on it")
def unread():
    path = made(LOOKED, [("alloc", 60 * S, {"ptr": 0x1000, "bytes": M, "space": "device"}), ("free", 61 * S, {"ptr": 0x1000})])
    equal(coverage(path)["devices"], [{"ordinal": 0, "readings": []}])
    check("untracked memory of GPU 0\n  not known: the device's memory was not read\n" in report("info", path)[1].decode())


@case("a device that only events before a gap name is named, too")
def before_a_gap():
    t = Trace()
    begin(t, exe="serve")
    t.event("alloc", 60 * S, ptr=0x1000, bytes=M, space="device", device=1, result=0)
    t.event("free", 61 * S, ptr=0x1000, device=1, result=0)
    t.flush()
    t.seq, t.number = t.seq + 1, t.number + 5
    t.restart()
    t.event("alloc", 62 * S, ptr=0x2000, bytes=M, space="device", device=0, result=0)
    t.flush(last=True, checkpoint=(FIRST_PART | LAST_PART, []))
    path = scratch("gap.zst", t.bytes())
    equal([d["ordinal"] for d in coverage(path)["devices"]], [0, 1])


# ---- copies -----------------------------------------------------------------------------------------

@case("copy --scrub=strict leaves no name of a module or child that is not public")
def scrubbed():
    path = made({**LOOKED, **module("bound_elsewhere", "libsecret.so", "libhidden.so 2"), "look_ups.resolver.0": "librocket.so",
                 "look_ups.resolver.1": "libcudart.so.13", **module("looks_up_elsewhere", "libsecret2.so", "libc.so.6"),
                 "coverage.children_without_library": "1", "coverage.children_without_library_names": "engine"})
    to = scratch("scrubbed.zst")
    equal(report("copy", path, "--scrub=strict", "--force", "-o", to)[0], 0)
    document = coverage(to)
    check(not re.search(r"secret|hidden|rocket|engine", json.dumps(document)), document)
    check("libcudart.so.13" in [m["module"] for m in document["modules"]])
    equal(document["children"]["untraced"], 1)


main()
