#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: node chromium
"""export --format=torch: against an independent reader of the trace, by the rules of PyTorch's viewer, and by PyTorch's
own module."""
import base64
import contextlib
import importlib.util
import inspect
import io
import json
import os
import pickle
import pickletools
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../allocator"))
import model  # noqa: E402
import pool  # noqa: E402
import traces  # noqa: E402
import wheels  # noqa: E402
from tap import FULL, PLAIN, REPORT, Skip, case, check, equal, main, report, sample  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp()
VIEWER = os.path.join(HERE, "viewer.js")
REAL_NS, MONOTONIC_NS = 1795000000 * 10**9, 50 * 10**9
OPCODES = set("PROTO EMPTY_DICT EMPTY_LIST MARK SETITEMS SETITEM APPENDS TUPLE2 NEWTRUE NEWFALSE BINUNICODE BININT BININT1 BININT2 "
              "LONG1 BINPUT LONG_BINPUT BINGET LONG_BINGET STOP".split())
BREAK = "\u200b"  # in names that the viewer would leave out


def save(name, data):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def export(path, *options):
    """What the program says of it, and the snapshot."""
    out = path + ".pickle"
    code, said, error = report("export", "--format=torch", "--json", "--force", "--output", out, *options, path)
    said = json.loads(said)
    equal(code, 4 if said["incomplete"] else 0, error)
    equal(said["bytes"], os.path.getsize(out))
    return said, again_from(out), out


def node():
    """The program that runs the viewer's rules. A test that needs it asks first: it is skipped as a whole."""
    path = shutil.which("node")
    if not path:
        raise Skip("node is not installed, which runs the viewer's rules")
    return path


_kept = []


def for_viewer(path):
    """Keeps a file for the test of all files, which needs node; the others do without."""
    _kept.append(shutil.copy(path, os.path.join(FOLDER, "viewed.%d" % len(_kept))))


def view(path):
    """The strict reader's figures; it stops at what the viewer could not show."""
    done = subprocess.run([node(), "--max-old-space-size=4096", VIEWER, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    equal(done.returncode, 0, done.stderr.decode()[-400:])
    return json.loads(done.stdout)


def events_of(path):
    return [json.loads(line) for line in report("dump", "--json", path)[1].splitlines()]


def seen_frames(frames):
    return [(f["filename"].replace(BREAK, ""), f["line"], f["name"].replace(BREAK, "")) for f in frames]


def same_frames(got, stack, what):
    want = model.frames(stack)
    if want is None:
        check(got, "%s: no frame at all" % what)
    else:
        equal(seen_frames(got), want, what)


def compare_entries(got, want, device):
    equal([e["action"] for e in got], [e if e == "snapshot" else e[1] for e in want], "actions of device %d" % device)
    for e, w in zip(got, want):
        if w == "snapshot":
            equal((e["category"], e["frames"]), ("unknown", []))
            continue
        t, action, address, size, stack, outside = w
        equal((e.get("addr"), e["size"], e["time_us"]), (address, size, (t + REAL_NS - MONOTONIC_NS) // 1000), action)
        same_frames(e["frames"], stack, action)
        if action == "alloc":
            equal(e["category"].startswith("outside the pool"), outside, e["category"])
            check(not outside or not stack or "lib" in e["category"], e["category"])
        else:
            check("category" not in e, "a category of " + action)


def compare_segments(got, want):
    equal([(s["device"], s["address"], s["total_size"], s["is_expandable"]) for s in got], [w[:4] for w in want])
    for s, (_, _, _, _, stack, blocks) in zip(got, want):
        same_frames(s["frames"], stack, "segment")
        equal([(b["address"], b["size"], b["state"] == "active_allocated") for b in s["blocks"]],
              [(a, n, f is not None) for a, n, f in blocks])
        for b, (_, _, f) in zip(s["blocks"], blocks):
            same_frames(b["frames"], f, "block")


def compare(path, *options):
    said, snapshot, _ = export(path, "--demangle=full", *options)
    events = events_of(path)
    first = said["from_event"] if said["from_event"] is not None else len(events)
    want, segments = model.expected(events, first, said["to_event"] if said["to_event"] is not None else events[-1]["event"])
    equal({d for d, t in enumerate(snapshot["device_traces"]) if t}, set(want))
    for device, entries in want.items():
        compare_entries(snapshot["device_traces"][device], entries, device)
    compare_segments(snapshot["segments"], segments)
    equal(said["entries"], sum(map(len, snapshot["device_traces"])))
    return said, snapshot


def process(seed, steps, **keywords):
    p = pool.Process(seed, **keywords)
    p.work(steps)
    return save("process%d%s.zst" % (seed, keywords.get("expandable", "")), p.done())


@case("every entry, segment, block, frame, time and category is what an independent reading of the events gives")
def against_the_dump():
    refusals = outside = mapped = 0
    for seed in sample(range(12), 3):
        for expandable in (False, True):
            path = process(seed, 700, devices=1 + seed % 2, expandable=expandable, capacity=(48, 96, 400)[seed % 3] << 20)
            for options in ((), ("--top=all",), ("--top=60",), ("--from=1.02", "--to=1.05"), ("--to=1.03", "--top=50")):
                _, snapshot = compare(path, *options)
                entries = [e for t in snapshot["device_traces"] for e in t]
                refusals += sum(e["action"] == "oom" for e in entries)
                outside += sum(e.get("category", "").startswith("outside") for e in entries)
                mapped += sum(e["action"] == "segment_unmap" for e in entries)
    least = 50 if FULL else 3
    check(refusals > least and outside > least and mapped > least // 3, (refusals, outside, mapped))


@case("the viewer's way backwards finds each entry's place, down to nothing; its totals are the report's")
def the_viewer_can_go_back():
    node()
    for seed in sample(range(10, 30), 4):
        path = process(seed, 900, devices=1 + seed % 2, expandable=seed % 4 > 1, capacity=96 << 20)
        for options in (("--top=all",), ("--top=%d" % (50 + 37 * seed),)):
            said, _, out = export(path, *options)
            found = view(out)
            for d in said["devices"]:
                v = found["devices"][d["ordinal"]]
                equal((v["segments"], v["reserved"]), (d["segments"], d["segment_bytes"]))
                equal(v["allocated"], d["block_bytes"] + d["segment_bytes"] - d["torch_segment_bytes"])
                equal(d["segment_bytes"], d["live_bytes"])
        summary = json.loads(report("summary", "--json", path)[1])
        whole = export(path, "--top=all")[0]
        for d in summary["devices"]:
            mine = [m for m in whole["devices"] if m["ordinal"] == d["ordinal"]][0]
            equal(mine["segment_bytes"], d["live_bytes"], "what summary says is live at the end")


@case("events in any order, as where others were lost: the viewer still finds each entry's place")
def whatever_was_lost():
    node()
    for seed in sample(range(200), 6):
        path = save("chaos.zst", pool.chaos(seed, 300))
        for options in sample((("--top=all",), ("--top=120",), ("--device=0",)), 2, seed):
            view(export(path, *options)[2])


@case("by default it ends at the last refusal, which is PyTorch's own report and the only entry of it; blocks that are there before are told")
def the_windows_end():
    p = pool.Process(5, capacity=64 << 20)
    big = p.pools[0].malloc(40 << 20, pool.C10 + pool.SITES[0])
    check(p.pools[0].malloc(30 << 20, pool.C10 + pool.SITES[1]) is None)
    p.pools[0].free(big)
    p.work(100)
    path = save("refused.zst", p.done())
    events = events_of(path)
    last = [e["event"] for e in events if e["op"] == "block-oom"][-1]
    said, snapshot = compare(path)
    equal((said["to_event"], said["oom_event"]), (last, last))
    equal(snapshot["device_traces"][0][-1]["action"], "oom")
    check(snapshot["device_traces"][0][-1]["user_metadata"].startswith("allocation failed in PyTorch"))
    equal([e["action"] for e in snapshot["device_traces"][0]].count("oom"), sum(e["op"] == "block-oom" for e in events[:last + 1]))
    said, snapshot = compare(path, "--top=2")
    equal(said["from_event"], last - 1)
    actions = [e["action"] for e in snapshot["device_traces"][0]]
    check(actions.index("snapshot") >= 2, actions)


@case("behind a gap the window begins with the checkpoint, and never reaches over the gap")
def a_ring():
    path = save("ringed.zst", traces.ringed())
    events = events_of(path)
    numbers = [e["event"] for e in events]
    gap = [i for i in range(1, len(events)) if numbers[i] != numbers[i - 1] + 1]
    equal(len(gap), 1)
    said, _, out = export(path, "--top=all")
    for_viewer(out)
    equal((said["from_event"], said["to_event"]), (numbers[0], numbers[gap[0] - 1]), "the refusal lies before the gap")
    later = "--from=%.3f" % ((events[gap[0]]["t_ns"] - 1 - json.loads(report("info", "--json", path)[1])["start_ns"]) / 1e9)
    said, snapshot, out = export(path, later)
    for_viewer(out)
    equal((said["from_event"], said["to_event"]), (numbers[gap[0]], numbers[-1]))
    equal([e["action"] for e in snapshot["device_traces"][0]].index("snapshot"), 2 * 45, "what the checkpoint says")
    equal(said["devices"][0]["segment_bytes"], said["devices"][0]["live_bytes"])


@case("segments and blocks that a checkpoint restores are told, also where only the flag says that memory has held a block")
def blocks_of_a_checkpoint():
    t = pool.Versioned()
    t.seq = 7
    t.restart()
    pool.begin(t)
    common = {"device": 0, "context": 1, "space": "device", "api": "cudaMalloc", "stack": pool.C10 + pool.SITES[0]}
    state = [t.record("alloc", 51 * 10**9 + i, ptr=0x40000000 + (i << 28), bytes=2 << 20, event=10 + i,
                      flags=["segment"] if i < 2 else None, **common) for i in range(3)]
    state.append(t.record("block-alloc", 51 * 10**9 + 9, ptr=0x40000400, bytes=1024, device=0, event=19, stack=pool.SITES[1]))
    t.number = 1000
    t.event("block-free", 52 * 10**9, ptr=0x40000400, bytes=1024, device=0)
    t.event("block-alloc", 52 * 10**9 + 1000, ptr=0x40000000, bytes=512, device=0, stack=pool.SITES[2])
    t.flush(last=True, checkpoint=(pool.FIRST_PART | pool.LAST_PART, state))
    said, snapshot, out = export(save("restored.zst", t.bytes()))
    for_viewer(out)
    trace = snapshot["device_traces"][0]
    equal([e["action"] for e in trace], ["segment_alloc"] * 3 + ["alloc"] * 2 + ["snapshot", "free_requested", "free_completed", "alloc"])
    equal([e["time_us"] - trace[0]["time_us"] for e in trace if e["action"] != "snapshot"][-1], 1000001)
    equal([(s["total_size"], [(b["size"], b["state"]) for b in s["blocks"]]) for s in snapshot["segments"]],
          [(2 << 20, [(512, "active_allocated"), ((2 << 20) - 512, "inactive")]), (2 << 20, [(2 << 20, "inactive")]),
           (2 << 20, [(2 << 20, "active_allocated")])])
    equal(said["devices"][0]["torch_segment_bytes"], 4 << 20)


@case("pickletools reads it: protocol 2, nothing but the viewer's opcodes, batches of at most 1000, integers of at most 8 bytes")
def opcodes():
    p = pool.Process(31, capacity=4 << 30)
    for _ in range(3000):
        p.pools[0].malloc(4096, pool.C10 + pool.SITES[0])
    _, _, out = export(save("many.zst", p.done()), "--top=all")
    with open(out, "rb") as f:
        data = f.read()
    names, last, marks, batch = set(), 0, [], 0
    with contextlib.redirect_stdout(io.StringIO()):
        pickletools.dis(data, out=io.StringIO())
    for op, argument, at in pickletools.genops(data):
        names.add(op.name)
        if op.name == "MARK":
            marks.append(0)
        elif op.name in ("APPENDS", "SETITEMS"):
            batch = max(batch, marks.pop())
            check(op.proto <= 2)
        if op.name == "SETITEMS" and marks:
            marks[-1] += 1  # an element of the list outside
        if op.name == "PROTO":
            equal((argument, at), (2, 0))
        if op.name == "LONG1":
            check(data[at + 1] <= 8, "an integer of %d bytes" % data[at + 1])
        last = op.name
    check(names <= OPCODES, names - OPCODES)
    equal(last, "STOP")
    equal(batch, 1000)
    for_viewer(out)


@case("frames that PyTorch's tools would leave out by a part of their name are shown, and look the same")
def names_that_the_viewer_leaves_out():
    module, _ = memory_viz()[-1]
    path = process(3, 200)
    _, snapshot, _ = export(path, "--top=all")
    every = {(f["name"], f["filename"]) for t in snapshot["device_traces"] for e in t for f in e["frames"]}
    check(any(BREAK in n for n, _ in every) and any(BREAK in f for _, f in every))
    for name, file in every:
        check(module._frame_filter(name, file), (name, file))


def again_from(path):
    with open(path, "rb") as f:
        return pickle.load(f)


def memory_viz():
    """PyTorch's own module, out of the wheels that are tested with: [(module, version)], oldest first."""
    found = []
    for version in wheels.versions():
        try:
            path = os.path.join(wheels.Wheel(version).folder, "torch", "cuda", "_memory_viz.py")
        except wheels.Unavailable as reason:
            raise Skip(str(reason)) from None
        spec = importlib.util.spec_from_file_location("memory_viz_" + version.replace(".", "_"), path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append((module, version))
    return found


@case("torch.cuda._memory_viz: stats, trace, segments, memory, compare and the plots take it, and its totals are the report's")
def pytorchs_own_module():
    for module, version in memory_viz():
        for seed, expandable in ((1, False), (2, True)):
            path = process(seed, 500, expandable=expandable, capacity=48 << 20)
            said, snapshot, out = export(path, "--top=300")
            d = said["devices"][0]
            text = module.segsum(snapshot)
            check("segments: %d\n" % d["segments"] in text, text[-900:])
            check("total_reserved: %r\n" % module.Bytes(d["segment_bytes"]) in text, text[-900:])
            allocated = d["block_bytes"] + d["segment_bytes"] - d["torch_segment_bytes"]
            check("total_allocated: %r\n" % module.Bytes(allocated) in text, text[-900:])
            text, refused = module.trace(snapshot), any(e["action"] == "oom" for e in snapshot["device_traces"][0])
            check("Device 0" in text and ("raise OutOfMemoryError" in text) == refused, version)

            def lines(folded):
                return folded
            for flame in (module.segments, module.memory):
                folded = flame(snapshot, format_flamegraph=lines)
                equal(sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), d["segment_bytes"], flame.__name__)
            with contextlib.redirect_stdout(io.StringIO()):
                equal(module.compare(snapshot["segments"], snapshot["segments"], format_flamegraph=lines), "")
            for html in (module.trace_plot(snapshot), module.trace_plot(snapshot, plot_segments=True), module.segment_plot(snapshot)):
                at = html.index('"base64": "') + len('"base64": "')
                again = base64.b64decode(html[at:html.index('"', at)])
                equal(pickle.loads(again), snapshot)
            if "filter_freed" in inspect.signature(module.trace_plot).parameters:
                kept = module.filter_alloc_free_pairs(again_from(out))["device_traces"][0]
                equal({e["addr"] for e in kept if e["action"] == "alloc"},
                      {b["address"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"})


@case("a page in a browser reads it, and shows the same totals")
def in_a_browser():
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not browser:
        raise Skip("no chromium is installed")
    path = process(8, 600, capacity=96 << 20)
    said, _, out = export(path)
    with open(out, "rb") as f:
        data = base64.b64encode(f.read()).decode()
    with open(VIEWER, encoding="utf-8") as f:
        script = f.read()
    page = save("page.html", ("<!DOCTYPE html><meta charset=utf-8><pre id=out>nothing</pre><script>%s</script><script>"
                              "const bytes = Uint8Array.from(atob('%s'), c => c.charCodeAt(0));"
                              "const out = document.getElementById('out');"
                              "try { out.textContent = JSON.stringify(read(bytes).devices); } catch (e) { out.textContent = e; }"
                              "</script>" % (script, data)).encode())
    with tempfile.TemporaryDirectory(dir="/tmp") as profile:  # (chromium has a socket in there: a path of at most 108 bytes)
        done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + profile, "--dump-dom",
                               "file://" + page], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": profile}, check=False)
    text = done.stdout.decode().split("<pre id=\"out\">")[-1].split("</pre>")[0]
    found = json.loads(text) if text.startswith("[") else check(False, text[-300:] + done.stderr.decode()[-300:])
    equal([(v["segments"], v["reserved"]) for v in found], [(d["segments"], d["segment_bytes"]) for d in said["devices"]])


@case("allocator_settings has what the process said of PyTorch, and what the file shows")
def settings():
    said, snapshot, _ = export(process(2, 200), "--top=50")
    s = snapshot["allocator_settings"]
    equal((s["torch.version"], s["PYTORCH_CUDA_ALLOC_CONF"]), ("2.9.1", "max_split_size_mb:128"))
    equal((s["cutrace"]["from_event"], s["cutrace"]["to_event"]), (said["from_event"], said["to_event"]))
    equal(s["cutrace"]["device 0"]["shown_bytes"], said["devices"][0]["segment_bytes"])
    equal(snapshot["external_annotations"], [])


def begun():
    """A trace, what its events have in common, and their times."""
    t = pool.Versioned()
    pool.begin(t)
    return t, {"device": 0, "context": 1, "result": 0}, iter(range(51 * 10**9, 52 * 10**9, 1000))


@case("host memory, memory of others and unmapped objects are not shown; several mappings and managed memory are")
def what_is_not_memory_of_the_device():
    t, common, at = begun()
    t.event("alloc", next(at), ptr=0x1000000, bytes=4096, space="host", **common)
    t.event("alloc", next(at), ptr=0x2000000, bytes=8192, space="managed", **common)
    t.event("create", next(at), handle=1, bytes=2 << 20, space="device", **common)
    t.event("import", next(at), handle=2, bytes=2 << 20, flags=["foreign"], **common)
    t.event("map", next(at), handle=2, ptr=0x40000000, bytes=2 << 20, **common)
    t.event("map", next(at), handle=1, ptr=0x50000000, bytes=2 << 20, **common)
    t.event("create", next(at), handle=3, bytes=4 << 20, space="device", **common)
    t.flush(last=True)
    said, snapshot, out = export(save("other.zst", t.bytes()))
    for_viewer(out)
    equal([(s["address"], s["total_size"]) for s in snapshot["segments"]], [(0x2000000, 8192), (0x50000000, 2 << 20)])
    equal((said["devices"][0]["live_bytes"], said["devices"][0]["segment_bytes"]), (8192 + (6 << 20), 8192 + (2 << 20)))


@case("a mapping that ends beside memory that is none is not joined to it by the viewer, which would then not find that any more")
def mappings_beside_other_memory():
    node()
    t, common, at = begun()
    t.event("create", next(at), handle=1, bytes=2 << 20, space="device", **common)
    t.event("map", next(at), handle=1, ptr=0x40200000, bytes=2 << 20, **common)
    t.event("alloc", next(at), ptr=0x40000000, bytes=2 << 20, space="device", **common)
    for i in (0, 1):
        t.event("block-alloc", next(at), device=0, ptr=0x40000000 + (i << 21), bytes=512)
        t.event("block-free", next(at), device=0, ptr=0x40000000 + (i << 21), bytes=512)
    t.event("unmap", next(at), ptr=0x40200000, bytes=2 << 20, **common)
    t.event("free", next(at), ptr=0x40000000, **common)
    t.flush(last=True)
    view(export(save("beside.zst", t.bytes()))[2])


@case("names that are no UTF-8, or long, come through; so do traces without any block, of any kind")
def text_that_is_none():
    for build in traces.ALL:
        path = save(build.__name__ + ".zst", build())
        for options in ((), ("--top=all",), ("--demangle=no",)):
            _, snapshot, out = export(path, *options)
            for_viewer(out)
            for t in snapshot["device_traces"]:
                check(not any(not f["name"] for e in t for f in e["frames"]), "a frame without a name")


@case("the viewer takes every file that the tests before have made")
def every_file_of_these_tests():
    node()
    check(len(_kept) > 20, len(_kept))
    for path in _kept:
        view(path)


@case("one file for each trace; nothing is replaced without --force; nothing half-written stays; exit codes")
def files_and_errors():
    folder, here = tempfile.mkdtemp(), os.getcwd()
    path = process(1, 100)
    two = [shutil.copy(path, os.path.join(folder, name)) for name in ("a.zst", "b.trace")]
    os.chdir(tempfile.mkdtemp())
    code, out, _ = report("export", *two)
    equal(code, 0)
    equal((sorted(os.listdir()), sorted(os.listdir(folder))), (["a.pickle", "b.trace.pickle"], ["a.zst", "b.trace"]))
    check(b"a.pickle" in out and b"b.trace.pickle" in out and b"memory_viz" in out, out)
    equal(report("export", two[0])[0], 2, "it is there already")
    equal(report("export", "--force", two[0])[0], 0)
    equal(report("export", "-o", os.path.join(folder, "c"), *two)[0], 2)
    equal(report("export", "--format=nonsense", two[0])[0], 2)
    for wrong in ("0", "-1", "x", "", "10x"):
        equal(report("export", "--top=" + wrong, two[0])[0], 2, wrong)
    equal(report("timeline", "--top=5", two[0])[0], 2)
    equal(report("export", "-o", os.path.join(folder, "none", "x"), two[0])[0], 5)
    with open(path, "rb") as f:
        data = f.read()
    equal(report("export", "-", data=data)[0], 2)
    equal(report("export", "-", "-o", os.path.join(folder, "stdin.pickle"), data=data)[0], 0)
    again_from(os.path.join(folder, "stdin.pickle"))
    before = sorted(os.listdir(folder))
    os.mkfifo(os.path.join(folder, "pipe"))
    with subprocess.Popen(["cat", os.path.join(folder, "pipe")], stdout=subprocess.PIPE) as cat:
        equal(report("export", "-o", os.path.join(folder, "pipe"), two[0])[0], 0)
        equal(pickle.loads(cat.stdout.read()), again_from("a.pickle"), "through a pipe")
    os.unlink(os.path.join(folder, "pipe"))

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
    done = subprocess.run([REPORT, "export", "-o", os.path.join(folder, "full"), two[0]], preexec_fn=little_room, env=PLAIN,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    equal((done.returncode, b"cannot be written" in done.stderr), (5, True), done.stderr)
    equal(report("export", "-o", os.path.join(folder, "bad"), save("bad.zst", b"no trace"))[0], 3)
    equal(sorted(os.listdir(folder)), before)
    os.chdir(here)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
