#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cutrace-report html`: the document and its data, without a browser (tests/page has one).

The figures of the data are computed once more in Python from the events, and compared with what other views say.
"""
import base64
import collections
import functools
import glob
import hashlib
import html.parser
import itertools
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, dice, equal, main, no_lines, report, sample, scratch  # noqa: E402

VLLM = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/trace.zst")))
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))
SMALL = VLLM + RECORDED if FULL else sample([p for p in VLLM + RECORDED if 15000 < os.path.getsize(p) <= 40000], 5)
SECTIONS = ["verdict", "timeline", "live", "growth", "map", "fragmentation", "failed", "phases", "environment", "method"]
TRACKED, HELD = ("torch", "idle", "driver"), ("torch", "idle")
G, M = 1 << 30, 1 << 20


pages = {}


def make(*paths, more=()):
    """The page of these traces, as text; each is made once."""
    if paths not in pages or paths[0].startswith(scratch()):
        pages[paths] = make_again(*paths, more=more)
    return pages[paths]


def make_again(*paths, more=()):
    code, page, err = report("html", *no_lines("html"), "-o", "-", *more, *paths)
    check(code in (0, 4), (code, err))
    return page.decode()


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))


def name(path):
    return os.path.basename(path[:-4]) if not path.endswith("/trace.zst") else os.path.basename(os.path.dirname(path))


@functools.lru_cache(maxsize=None)
def events_of(path):
    """The events of a small trace, without their stacks; None for a large one."""
    if os.path.getsize(path) > 80000:
        return None
    return [{k: v for k, v in e.items() if k != "stack"} for e in check_ledger.read_trace(REPORT, path)]


def moments(device):
    """[(event, t_ns, {group: bytes}, is_read)] of a device."""
    rows = [list(itertools.accumulate(deltas)) for deltas in device["bytes"]]
    at = zip(itertools.accumulate(device["event"]), itertools.accumulate(device["t_ns"]), device["read"])
    # (memory of calls that had not returned is none of the tracked memory yet)
    groups = ["in-flight" if row["key"] == "in-flight" else row["group"] for row in device["rows"]]
    return [(event, t_ns, {g: sum(rows[k][i] for k, of in enumerate(groups) if of == g) for g in set(groups)}, is_read)
            for i, (event, t_ns, is_read) in enumerate(at)]


# ---- the document --------------------------------------------------------------------------------------------

class Elements(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.handlers, self.ids, self.links, self.text = [], [], [], [], []
        self.stack = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.stack.append(tag)
        for key, value in attrs:
            if key.startswith("on") or key in ("style", "src", "srcdoc", "formaction"):
                self.handlers.append((tag, key, value))
            if key == "id":
                self.ids.append(value)
            if key == "href":
                self.links.append(value)

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data):
        if "script" not in self.stack and "style" not in self.stack:
            self.text.append(data)


def elements(page):
    e = Elements()
    e.feed(page)
    return e


@case("every golden trace makes a page: its sections, two scripts, no handler, the policy with their hashes, at most 3 MB")
def every_trace():
    found = []
    for path in sample(VLLM, 4) + sample(RECORDED, 3) + sample(GOLDEN, 8):
        page = make(path)
        e = elements(page)
        ids, want = [i for i in e.ids if i in SECTIONS], list(SECTIONS)
        trace, = data_of(page)["traces"]
        if trace["summary"]["verdicts"][0]["scenario"] == "none":
            want.remove("failed")  # the verdict has said it
        bodies = [re.search(rf"<{tag}>(.*?)</{tag}>", page, re.S).group(1) for tag in ("style", "script")]
        hashes = ["'sha256-%s'" % base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies]
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
        if ids != want or e.tags.count("script") != 2 or e.handlers or len(page) > 3 << 20 or \
           not all(h in policy for h in hashes) or "default-src 'none'" not in policy or "unsafe" in policy:
            found.append((name(path), ids, e.tags.count("script"), e.handlers, len(page), policy))
        found += [f"{name(path)}: {link}" for link in e.links if not re.fullmatch(r"#t=\d+(&gpu=\d+)?", link)]
    return found


@case("a page of several real traces is at most 3 MB, too")
def ranks():
    for folder in ("tensor-parallel", "http-server-tensor-parallel", "weight-update"):
        paths = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm", folder, "*.zst")))
        equal((len(paths), len(make(*paths)) <= 3 << 20), (2, True), folder)


@case("without a script: the verdict, its evidence and advice, the account, the call sites and the failed allocations")
def without_script():
    for path in sample(VLLM[::2], 5):
        verdicts = json.loads(report("explain", "--json", path)[1])["verdicts"]
        text = " ".join("".join(elements(make(path)).text).split())
        for one in verdicts[:3]:
            for part in [one["summary"][1:], one['sureness'] or one['scenario']] + [e["text"] for e in one["evidence"]] + \
                    [a["text"] for a in one["advice"]] + [a["to"] for a in one["advice"] if a["to"]]:
                check(" ".join(part.split()) in text, (name(path), part))


def document_of(command, *arguments):
    """What a command writes, as the page has it: without stacks."""
    def strip(part):
        if isinstance(part, list):
            return [strip(each) for each in part]
        if isinstance(part, dict):
            return {k: None if k in ("stack", "resumed_stack") else strip(v) for k, v in part.items()}
        return part
    return strip(json.loads(report(command, "--json", *no_lines(command), *arguments)[1]))


def same_documents(trace, path, *options):
    """(What `info` says is of the whole recording.)"""
    for command in ("summary", "phases", "leaks", "frag"):
        equal(trace[command], document_of(command, *options, path), (path, options, command))
    equal(trace["info"], {**document_of("info", path), "integrity": None}, (path, options))


@case("the data have what the commands' JSON has, word for word, but for the stacks")
def documents():
    for path in sample(VLLM[::6], 2) + sample(RECORDED[::3], 2):
        trace, = data_of(make(path))["traces"]
        same_documents(trace, path)


@case("with --device and --all-frames, too")
def documents_with_options():
    for options, drawn in (("--device=0", [0]), ("--all-frames", [0])):
        trace, = data_of(make_again(VLLM[0], more=[options]))["traces"]
        equal([device["device"] for device in trace["devices"]], drawn, options)
        same_documents(trace, VLLM[0], options)


class Rows(html.parser.HTMLParser):
    """The cells of the rows of the table of a class, and the links in them."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.inside, self.rows, self.links, self.lists = kind, False, [], [], 0

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "table":
            self.inside = attrs.get("class") == self.kind
        self.lists += tag == "ul"
        if self.inside and tag == "tr":
            self.rows.append([])
            self.links.append([])
        if self.inside and tag == "td":
            self.rows[-1].append("")
        if self.inside and tag == "a":
            self.links[-1].append(attrs["href"])

    def handle_endtag(self, tag):
        self.lists -= tag == "ul"
        self.inside = self.inside and tag != "table"

    def handle_data(self, data):
        if self.inside and self.rows and self.rows[-1] and not self.lists:
            self.rows[-1][-1] += data


@case("with --from and --to it is of that time: documents, moments, call sites; it says so, and refuses several traces")
def a_range():
    path = next(p for p in VLLM if name(p) == "burst-of-prefills")
    whole = moments(data_of(make(path))["traces"][0]["devices"][0])
    start = json.loads(report("summary", "--json", path)[1])["start_ns"]
    first, last = whole[len(whole) // 4][1] // 10**9 + 1, whole[-1][1] // 10**9
    options = [f"--from={first}s", f"--to={last}s"]
    page = make_again(path, more=options)
    trace, = data_of(page)["traces"]
    same_documents(trace, path, *options)
    device, = trace["devices"]
    times = list(itertools.accumulate(device["t_ns"]))
    check(first * 10**9 <= times[0] <= times[-1] <= last * 10**9, (times[0], times[-1], options))
    seen = [e["t_ns"] for e in check_ledger.read_trace(REPORT, path) if first * 10**9 <= e["t_ns"] - start <= last * 10**9 and e.get("device") == 0]
    equal((times[0], times[-1] >= seen[-1] - start), (seen[0] - start, True), "the first and the last event of the range")
    end = times[device["live"]["at"][-1]]
    top, = json.loads(report("top", "--json", "--at=%d.%09ds" % divmod(end, 10**9), path)[1])["devices"]
    held = {}
    for changes in device["live"]["changes"]:
        for site, size in zip(changes[::3], changes[1::3]):
            held[site] = size
    equal(sum(held.values()), top["bytes"], "what was live at the end of the range")
    check(re.search(r'<p class="range">Of the events from \+%d.000 s up to \+%d.000 s alone' % (first, last), page), "what the page is of")
    check('class="range"' not in make(path), "of all events")
    for option in options:
        code, _, err = report("html", option, "-o", scratch("both.html"), VLLM[0], VLLM[1])
        equal((code, option[:4].encode() in err, os.path.exists(scratch("both.html"))), (2, True, False), err)


@case("--units and --demangle are those of the text, of the data and of the labels")
def units_and_names():
    path = next(p for p in VLLM if name(p) == "burst-of-prefills")
    free = json.loads(report("summary", "--json", path)[1])["crossing"]["memory"]["free_bytes"]
    for units, want in (("si", "%d.%02d MB" % divmod((free + 5000) // 10000, 100)), ("bytes", str(free))):
        page = make_again(path, more=["--units=" + units])
        equal(data_of(page)["units"], units)
        table = Rows("account")
        table.feed(page)
        equal([row[0] for row in table.rows if row and row[2].startswith("free")], [want])
    equal(data_of(make(VLLM[0]))["units"], "iec")
    names = {how: make_again(path, more=["--demangle=" + how, "--all-frames"]) for how in ("no", "simple", "full")}
    for how, page in names.items():  # of frames, too, which the icicle shows
        equal("_ZN2at" in " ".join(data_of(page)["strings"]), how == "no", how)
    check("_ZN2at" in names["no"] and "_ZN2at" not in names["simple"] + names["full"], "mangled")
    check("(at::Tensor const" in names["full"] and "(at::Tensor const" not in names["simple"], "arguments")


@case("the phases are a table: what `phases` prints of each, and a link to its begin")
def phases_table():
    for path in sample(VLLM[::5], 3) + sample(RECORDED[::3], 2):
        table = Rows("phases")
        table.feed(make(path))
        rows, links = [row for row in table.rows if row], [link for link in table.links if link]
        document = json.loads(report("phases", *no_lines("phases"), "--json", path)[1])
        equal(links, [["#t=%d" % (phase["begin_t_ns"] - document["start_ns"])] for phase in document["phases"]], name(path))
        text = report("phases", path)[1].decode()
        lines = [line for line in text.splitlines() if re.match(r" *\+[0-9:.]+( s)? ", line)]
        equal([" ".join(" ".join(row).split()) for row in rows], [" ".join(line.split()) for line in lines], name(path))


@case("the same trace makes the same page, byte for byte")
def the_same():
    for path in sample(VLLM[::12], 1) + sample(RECORDED[::4], 1):
        equal(make_again(path), make(path))


# ---- memory over time ----------------------------------------------------------------------------------------

@case("where the device was read, the rows of each moment add up to its capacity, to the byte")
def rows_add_up():
    found, count = [], 0
    for path in sample(VLLM, 4) + sample(RECORDED, 3) + sample(GOLDEN, 8):
        for trace in data_of(make(path))["traces"]:
            for device in trace["devices"]:
                for event, _, groups, is_read in moments(device):
                    count += is_read
                    if is_read and sum(groups.values()) != device["capacity"]:
                        found.append(f"{name(path)}, event {event}: {sum(groups.values())} of {device['capacity']}")
    check(count > (20000 if FULL else 500), count)
    return found[:10]


def replay(events):
    """What is tracked and what is in blocks behind each event, of traces with calls of these kinds alone; else None."""
    live, blocks, tracked, in_blocks, states = {}, {}, 0, 0, {}
    if not events:
        return None
    known = {"alloc", "free", "block-alloc", "block-free", "memory-sample", "context-create", "module-load", "limit", "note",
             "retain", "block-oom", "amend", "context-destroy", "module-unload"}
    if not {e["op"] for e in events} <= known or any(e["space"] == "managed" for e in events) or \
       len({e["device"] for e in events} - {None}) > 1 or any("async" in (e["flags"] or ()) for e in events):
        return None
    for e in events:
        if e["op"] == "alloc" and not e["result"]:
            live[e["ptr"]] = e["bytes"] if e["space"] != "host" else 0
            tracked += live[e["ptr"]]
        elif e["op"] == "free" and not e["result"]:
            tracked -= live.pop(e["ptr"], 0)
        elif e["op"] == "block-alloc":
            blocks[e["ptr"]] = e["bytes"]
            in_blocks += e["bytes"]
        elif e["op"] == "block-free":
            in_blocks -= blocks.pop(e["ptr"], 0)
        states[e["event"]] = (tracked, in_blocks)
    return states


@case("tracked memory and blocks at each moment are those of a second replay; no peak is lost")
def second_replay():
    found, traces, count = [], 0, 0
    for path in SMALL:
        states = replay(events_of(path))
        if not states:
            continue
        traces += 1
        trace, = data_of(make(path))["traces"]
        device, = trace["devices"]
        highest = [0, 0]
        for event, _, groups, _ in moments(device):
            got = tuple(sum(groups.get(g, 0) for g in of) for of in (TRACKED, ("torch",)))
            count += 1
            highest = [max(a, b) for a, b in zip(highest, got)]
            if got != states[event]:
                found.append(f"{name(path)}, event {event}: {got}, want {states[event]}")
        want = [max(s[k] for s in states.values()) for k in (0, 1)]
        if highest != want:
            found.append(f"{name(path)}: highest {highest}, want {want}")
    check(traces >= (12 if FULL else 1) and count > (8000 if FULL else 200), (traces, count))
    return found[:10]


@case("what call sites held at a moment is what top says of that time")
def call_sites_at_moments():
    rng, count = dice(7), 0
    for path in VLLM[::3] + RECORDED[::2] if FULL else SMALL[:2]:
        if not events_of(path):
            continue
        trace, = data_of(make(path))["traces"]
        for device in trace["devices"]:
            times = [t for _, t, _, _ in moments(device)]
            held, states = {}, []
            for at, changes in zip(device["live"]["at"], device["live"]["changes"]):
                for site, size, number in zip(*[iter(changes)] * 3):
                    held[site] = (size, number)
                states.append((times[at], dict(held)))
            # (--at=TIME is behind all events of that time, so only moments that no other one shares are compared)
            events = sorted(e["t_ns"] for e in events_of(path))
            start = trace["summary"]["start_ns"]
            alone = [s for s in states if events.count(s[0] + start) == 1]
            for t_ns, now in rng.sample(alone, min(4, len(alone))):
                top = json.loads(report("top", *no_lines("top"), "--json", f"--at={t_ns / 1e9:.9f}", "-n", "100000", path)[1])
                # (top may tell call sites apart by more callers)
                want, got = collections.Counter(), collections.Counter()
                for s in [s for d in top["devices"] if d["ordinal"] == device["device"] for s in d["sites"]]:
                    want.update({s["kind"]: s["bytes"], s["kind"] + "s": s["count"]})
                for site, (size, number) in now.items():
                    kind = device["sites"][site]["kind"]
                    got.update({kind: size, kind + "s": number})
                equal(+got, +want, (name(path), t_ns))
                count += 1
    check(count > (25 if FULL else 2), count)


# ---- addresses -----------------------------------------------------------------------------------------------

@case("no state of the map and of the call sites outlasts a part of the run: the last moment of each part is among theirs")
def states_are_fresh():
    for path in sample(VLLM[:12], 4) + sample(RECORDED[:8], 3):
        trace, = data_of(make(path))["traces"]
        start, known = trace["summary"]["start_ns"], trace["summary"]["trace"]
        for device in trace["devices"]:
            times = [m[1] for m in moments(device)]
            for of, parts in ((device["live"], 200), (device["map"], 80)):
                last = {}
                for i, t in enumerate(times):
                    part = (t + start - known["t_first_ns"]) * 600 // (known["t_last_ns"] - known["t_first_ns"] + 1)
                    last[next(g for g in range(parts) if part < 600 * (g + 1) // parts)] = i
                missing = [times[i] for i in last.values() if of and i not in of["at"]]
                check(not missing, (name(path), parts, missing[:5]))


@case("the map at a failure: rows with memory, free memory of the pool and its owners are those of a second reading")
def address_map():
    compared = 0
    for path in SMALL:
        events = events_of(path)
        if not replay(events):
            continue
        trace, = data_of(make(path))["traces"]
        device, = trace["devices"]
        at = [m["at"] for m in device["marks"] if m["kind"] == "crossing"]
        if not at or not device["map"]:
            continue
        last = moments(device)[at[0]][0]
        live, blocks = {}, {}
        for e in events:
            if e["event"] > last:
                break
            of = blocks if e["op"].startswith("block") else live
            if e["op"] in ("alloc", "block-alloc") and not e["result"] and e["space"] != "host":
                of[int(e["ptr"], 16)] = e["bytes"]
            elif e["op"] in ("free", "block-free"):
                of.pop(int(e["ptr"], 16), None)
        column = device["map"]["cells"][device["map"]["at"].index(at[0])]
        cells = [owner for length, owner in zip(*[iter(column)] * 2) for _ in range(length)]
        equal(len(cells), device["map"]["rows"])
        for r in device["map"]["ranges"]:
            for row in range(r["rows"]):
                start = int(r["start"], 16)
                low = start + r["bytes"] * row // r["rows"]
                high = start + r["bytes"] * (row + 1) // r["rows"]

                def within(of, low=low, high=high):
                    return sum(max(0, min(high, p + n) - max(low, p)) for p, n in of.items())
                there, used = within(live), within(blocks)
                owner = cells[r["first_row"] + row]
                segments = [p for p, n in live.items() if p < high and p + n > low]
                if not there:
                    equal(owner, 0, (name(path), row))
                elif all(any(p <= b < p + live[p] for b in blocks) for p in segments):  # (else a part is no segment)
                    equal(owner == 1 or owner < 0, there - used >= used, (name(path), row, there, used))
                    equal(owner == 1, not used, (name(path), row, there, used))
                    compared += 1
    check(compared > (500 if FULL else 10), compared)


# ---- strangers -----------------------------------------------------------------------------------------------

EVIL = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b\"'<!--", "x" * 10000, "\u2028\u2029\ufeff",
        "\x1b[31mred\x00\x07", "]]>", "${1}`", "&lt;b&gt;", "\u202egnp.exe"]


def hostile():
    """A trace of which every name is a stranger's."""
    t = Trace()
    t.info = {"process.exe": EVIL[0], "process.pid": "7", "process.rank": EVIL[1], "device.0.name": EVIL[2],
              "device.0.total_bytes": str(G), "version.vllm": EVIL[6], "flag.model": EVIL[1], "process.program": EVIL[0]}
    for i, text in enumerate(EVIL * 20):
        stack = [(text, EVIL[(i + 1) % len(EVIL)] + ".py", i + 1), (text, "/lib/" + text, 0x1000 + i)]
        t.event("alloc", 1000 * i + 10, tid=5, thread_name=text, api=text, ptr=0x7f0000000000 + i * M, bytes=M, device=0, stack=stack)
    t.event("alloc", 10 ** 6, api="cudaMalloc", bytes=900 * M, device=0, result=2, free_bytes=M, total_bytes=G)
    t.flush(last=True)
    return t.bytes()


@case("names that are markup stay text; what is no UTF-8, control characters and separators of lines do no harm")
def hostile_names():
    path = scratch("<b>hostile&.zst", hostile())
    page = make(path)
    e = elements(page)
    equal(e.tags.count("script"), 2)
    equal((e.handlers, e.tags.count("img"), e.tags.count("b")), ([], 0, 0))
    raw = re.search(r'id="data">(.*?)</script>', page, re.S).group(1)
    check(not re.search("[<>&\u2028\u2029]", raw))
    check(not re.search("[\x00-\x09\x0b-\x1f\x7f]", page), "control characters")
    check("alert(1)" in page)  # it is there, as text
    device, = data_of(page)["traces"][0]["devices"]
    equal(moments(device)[-1][2]["driver"], 200 * M)


@case("an empty trace, one that is cut, one of another program: a page that says so, or one line and no file")
def small_traces():
    path = Trace().save(scratch("empty.zst"))
    equal(data_of(make(path))["traces"][0]["devices"], [])
    equal([i for i in elements(make(path)).ids if i in SECTIONS], ["verdict", "growth", "fragmentation", "phases", "environment", "method"])
    with open(VLLM[0], "rb") as f:
        whole = f.read()
    for part in (len(whole) // 2, len(whole) - 3):
        cut = scratch("cut.zst", whole[:part])
        check("INCOMPLETE" in make(cut) or "truncated" in make(cut), part)
    out = scratch("none.html")
    foreign = scratch("foreign.zst", b"no trace" * 100)
    code, _, err = report("html", "-o", out, foreign)
    equal((code, os.path.exists(out), len(err.splitlines())), (3, False, 1), err)


@case("the file: in the working folder by default, never in place of another without --force, 5 where it cannot be written, - is stdout")
def the_file():
    path, here = scratch("run.zst"), os.getcwd()
    with open(path, "wb") as f, open(VLLM[0], "rb") as from_:
        f.write(from_.read())
    os.chdir(tempfile.mkdtemp())
    equal(report("html", path)[0], 0)
    equal(os.listdir(), ["run.html"])
    equal((report("html", path)[0], report("html", "--force", path)[0]), (2, 0))
    with open(path, "rb") as f:
        equal(report("html", data=f.read())[0], 2)  # standard input has no name
    equal(report("html", "-o", scratch("no/such/folder.html"), path)[0], 5)
    equal(report("html", "-o", "/dev/full", path)[0], 5)
    code, out, _ = report("html", "--json", "--force", path)
    done = json.loads(out)
    equal((code, done["output"], done["traces"], done["bytes"]), (0, "run.html", 1, os.path.getsize("run.html")))
    code, out, err = report("html", "-o", "-", path)
    with open("run.html", "rb") as f:
        equal((code, err, out == f.read()), (0, b"", True))
    equal(report("html", "--json", "-o", "-", path)[0], 2)
    os.chdir(here)


@case("the licence of what is not ours in the page stands in the page")
def license_inside():
    text = re.sub(r"\s+", " ", make(VLLM[0]).replace("*", " "))
    for part in ("Leon Sorokin", "Permission is hereby granted, free of charge", "The above copyright notice and this permission notice shall be"):
        check(part in text, part)


@case("several traces are one page; one that cannot be read is said, and the others are there")
def several():
    foreign = scratch("foreign2.zst", b"no trace" * 100)
    page = make(VLLM[0], RECORDED[0])
    equal(len(data_of(page)["traces"]), 2)
    equal([i for i in elements(page).ids if i in ["ranks"] + SECTIONS], ["ranks"] + SECTIONS)
    out = scratch("several.html")
    code, _, err = report("html", "--force", "-o", out, VLLM[0], foreign)
    equal((code, len(err.splitlines())), (3, 1), err)
    with open(out, encoding="utf-8") as f:
        equal(len(data_of(f.read())["traces"]), 1)


main()
