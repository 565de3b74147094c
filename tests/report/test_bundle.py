#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bundle and merge, read by Python's zipfile and hashlib; hostile zip files; outputs that cannot be written.

optional: libdw (elfutils), for the case of source lines
"""
import glob
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import read_trace  # noqa: E402
import whole_trace  # noqa: E402
from tap import PLAIN, REPORT, ROOT, Skip, case, check, check_json, equal, main, no_lines, read_json, report, sample, scratch  # noqa: E402

VLLM = os.path.join(ROOT, "tests/report/vllm")
ONE = os.path.join(VLLM, "profile-run", "trace.zst")
RANKS = [os.path.join(VLLM, "weight-update-refused", n) for n in ("trace.zst", "trace-1.zst")]
KILLED = os.path.join(ROOT, "tests/report/golden/traces/killed.zst")


def bundle(name, *args, command="bundle", code=0):
    got, out, err = report(command, "--force", "-o", scratch(name), *args)
    equal(got, code, err.decode())
    return scratch(name), out.decode(), err.decode()


def read(path):
    with open(path, "rb") as f:
        return f.read()


@case("a bundle has the traces, the page, the summaries and a manifest whose sizes and SHA-256 are right")
def contents():
    path, out, _ = bundle("all.zip", *RANKS)
    check("--scrub=paths" in out, out)
    with zipfile.ZipFile(path) as z:
        equal(z.testzip(), None)
        equal(sorted(z.namelist()), sorted(["MANIFEST.json", "summary.md", "summary.json", "summary-1.json", "summary-2.json", "report.html",
                                            "trace-1.zst", "trace-2.zst"]))
        check(all(i.date_time[0] == 1980 for i in z.infolist()), "dates")
        equal({i.filename for i in z.infolist() if i.compress_type == zipfile.ZIP_STORED}, {"trace-1.zst", "trace-2.zst"}, "stored")
        manifest = json.loads(z.read("MANIFEST.json"))
        equal((manifest["schema"], manifest["scrub"]), ("cutrace.manifest/1", "paths"))
        for f in manifest["files"] + manifest["traces"]:
            data = z.read(f["name"])
            equal((len(data), hashlib.sha256(data).hexdigest()), (f["bytes"], f["checksum"]), f["name"])
        equal({f["name"] for f in manifest["files"] + manifest["traces"]} | {"MANIFEST.json"}, set(z.namelist()))
        check(z.read("report.html").startswith(b"<!doctype html>"), "page")
        for name, source in (("trace-1.zst", RANKS[0]), ("trace-2.zst", RANKS[1])):
            copy = scratch(name, z.read(name))
            got, want = whole_trace.Whole(copy), whole_trace.Whole(source)
            equal(len(got.records), sum(r["op"] != "amend" for r in want.records), name)
        markdown = z.read("summary.md").decode()
    check(len(markdown.splitlines()) <= 60 and markdown.count("~~~") in (2, 4) and "<details>" in markdown, markdown)


@case("of several traces each has the summary that it has alone, beside that of all")
def summaries():
    path, _, _ = bundle("each.zip", RANKS[0], ONE, RANKS[1])
    with zipfile.ZipFile(path) as z:
        for i in (1, 2, 3):
            want = json.loads(report("summary", "--json", f"{path}/trace-{i}.zst")[1])
            got = json.loads(check_json(["summary", "--json"], z.read(f"summary-{i}.json")))
            equal(os.path.basename(want.pop("file")), got.pop("file"))
            equal(got, want, i)
        alone = bundle("alone.zip", ONE)[0]
        with zipfile.ZipFile(alone) as single:
            check("summary-1.json" not in single.namelist(), "one trace has one summary")
        equal(json.loads(z.read("summary.json"))["schema"], "cutrace.processes/2")


def recorder_lines(path):
    """What summary.md says that the recorder wrote."""
    with zipfile.ZipFile(path) as z:
        markdown = z.read("summary.md").decode()
    return [line for line in markdown.splitlines() if line.startswith("cutrace: ") and "out of memory: " in line]


def logged():
    """Real runs: the recorder's line in the log of a process, without the path that it names, and the process's trace."""
    found = []
    for name in sorted(os.listdir(VLLM)):
        log, trace = (os.path.join(VLLM, name, n) for n in ("log.txt", "trace.zst"))
        if os.path.isfile(log) and os.path.isfile(trace):
            with open(log, encoding="utf-8", errors="replace") as f:
                lines = [line.strip().split("; run: ")[0] for line in f if line.startswith("cutrace: ") and " out of memory: " in line]
            found += [(name, lines, trace)] if lines else []
    return found


def figures(line):
    """A line's text and its sizes in GiB. Before 2026-11-30 the figures of the device had one unit, the last that is said."""
    own, of_device = line.split(" failed", 1)
    sizes = [(float(number), unit) for number, unit in re.findall(r" ([\d.]+)(?: ([KMG]iB|B))?(?=[ ,]|$)", of_device)]
    unit = [u for _, u in sizes if u][-1] if any(not u for _, u in sizes) else ""
    return own, [number / {"B": 1 << 30, "KiB": 1 << 20, "MiB": 1 << 10, "GiB": 1}[u or unit] for number, u in sizes], unit


def is_same_line(got, line):
    """But for the call site, because the recorders of these runs left out fewer frames (noise.def), and unless the recorder
    wrote it before NVML's answer was there (BUNDLE.md): then what it could not split is split."""
    got, line = (re.sub(r" failed \([^()]*\.py:\d+ [^()]*\)", " failed (a line)", text) for text in (got, line))
    (own, now, _), (as_then, then, unit) = figures(got), figures(line)
    if len(then) == len(now) + 1 and line.endswith(" untracked or of others"):
        then[-2:] = [then[-2] + then[-1]]
    return own == as_then and len(now) == len(then) and all(abs(a - b) < (0.101 if unit else 0.011) for a, b in zip(now, then))


@case("the document of several traces has each one's line of the recorder, to the letter of the runs' logs; none where nothing failed")
def line_of_each():
    check(len(logged()) > 12, logged())
    runs, healthy = sample(logged(), 4, 1), os.path.join(VLLM, "eager", "trace.zst")
    code, out, _ = report("summary", *no_lines("summary"), "--json", healthy, *(trace for _, _, trace in runs))
    equal(code, 0)
    said = json.loads(out)
    alone, processes = said["documents"], said["processes"]["processes"]
    equal((os.path.basename(os.path.dirname(processes[0]["file"])), processes[0]["recorder_line"]), ("eager", None))
    for got, (name, lines, _) in zip(processes[1:], runs, strict=True):
        check(any(is_same_line(got["recorder_line"], line) for line in lines), f"{name}: {got['recorder_line']!r} is not in {lines}")
    equal([got["recorder_line"] for got in processes], [one["recorder_line"] for one in alone])


@case("more than three traces that failed are counted; where nothing was written there is no line, and a name is scrubbed in it")
def lines_of_recorder():
    runs = [trace for _, _, trace in logged()[:5]]
    path, _, _ = bundle("many.zip", *no_lines("bundle"), *runs)
    with zipfile.ZipFile(path) as z:
        markdown = z.read("summary.md").decode()
    equal(len(recorder_lines(path)), 3)
    check("... (2 more traces)" in markdown and len(markdown.splitlines()) <= 60, markdown)
    equal(recorder_lines(bundle("none.zip", os.path.join(VLLM, "eager", "trace.zst"))[0]), [])
    whole = whole_trace.Whole(ONE)
    whole.info["option.QUIET"] = "1"
    quiet = scratch("quiet.zst", b"".join(whole_trace.write(whole)))
    equal(recorder_lines(bundle("quiet.zip", quiet)[0]), [])
    secret = "LlamaAttention"
    (open_line,) = recorder_lines(bundle("open.zip", ONE, "--scrub=no")[0])
    (strict,) = recorder_lines(bundle("strict.zip", ONE, "--scrub=strict", "--words=" + secret)[0])
    for name, line in ("open.zip", open_line), ("strict.zip", strict), ("none.zip", None), ("quiet.zip", None):
        with zipfile.ZipFile(scratch(name)) as z:
            equal(json.loads(z.read("summary.json"))["recorder_line"], line, name)
    check(secret in open_line and secret not in strict and open_line.split(" (")[0] == strict.split(" (")[0], strict)


@case("the same input gives the same bytes")
def deterministic():
    first = read(bundle("a.zip", ONE, KILLED)[0])
    equal(first == read(bundle("b.zip", ONE, KILLED)[0]), True)


@case("every command reads a bundle, and says what it says of the traces in it")
def read_back():
    path, _, _ = bundle("read.zip", ONE, "--scrub=no")
    for view in (("summary",), ("explain",), ("top",), ("oom",), ("frag",), ("dump",), ("info",)):
        a, b = report(*view, path), report(*view, ONE)
        names = (path + "/trace-1.zst").encode(), ONE.encode()
        if view[0] in ("info", "dump"):  # (another encoding of the same events; no amends)
            equal(a[0], 0, view)
            continue
        equal(a[1].replace(names[0], b"TRACE"), b[1].replace(names[1], b"TRACE"), view)
    with zipfile.ZipFile(path) as z:
        mine = json.loads(z.read("summary.json"))
    again = json.loads(report("summary", "--json", path)[1])
    mine.pop("file"), again.pop("file")
    equal(mine, again)
    ranks, _, _ = bundle("ranks.zip", *RANKS)
    check(b"2 traces" in report(ranks)[1], "table")
    one = report("info", ranks + "/trace-2.zst")
    check(one[0] == 0 and report("info", ranks + "/trace-9.zst")[0] == 3, "a trace by its name")


def traced_self():
    """A trace with a frame in this build's own program, which has source lines here."""
    names = subprocess.run(["nm", REPORT], stdout=subprocess.PIPE, check=True, text=True).stdout.split("\n")
    offset = next(int(n.split()[0], 16) for n in names if n.endswith(" T main"))
    notes = subprocess.run(["readelf", "-n", REPORT], stdout=subprocess.PIPE, check=True, text=True).stdout
    if "Build ID:" not in notes:
        raise Skip("the program has no build-id")
    ident = bytes.fromhex(notes.split("Build ID:")[1].split()[0])
    whole = whole_trace.Whole(os.path.join(ROOT, "tests/report/golden/traces/mixed.zst"))
    module = whole_trace.Module((REPORT, 0, offset, offset + 4096, ident))
    whole.stacks = [(("native", offset + 5, module, offset + 5, "main", 5, ()),) for _ in whole.stacks]
    path = scratch("self.zst", b"".join(whole_trace.write(whole)))
    return path


@case("source lines are in the bundle: where no library is, the summary is identical")
def elsewhere():
    if b"not available" in report("--version")[1]:
        raise Skip("libdw is not installed")
    source = traced_self()
    path, _, _ = bundle("lines.zip", source)
    empty = scratch("empty")
    os.makedirs(empty, exist_ok=True)
    for view in ("summary", "top", "oom"):
        here, there = (report(view, path, *more) for more in ((), (f"--sysroot={empty}", f"--debug-dir={empty}")))
        equal(here, there, view)
    check(b"main.c" in report("top", path, "--sysroot=" + empty)[1], "lines")
    check(b"main.c" not in report("top", source, "--sysroot=" + empty)[1], "the source has none")


def empty_root():
    """A command that runs in a root with nothing but this program and what it is linked with, and that root."""
    root = scratch("root")
    linked = subprocess.run(["ldd", REPORT], stdout=subprocess.PIPE, check=True, text=True).stdout
    for path in [REPORT] + [word for word in linked.split() if word.startswith("/")]:
        to = root + (os.path.join("/", os.path.basename(path)) if path == REPORT else path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(path, to)
    for way in (["unshare", "-r", "chroot"], ["chroot"]):
        if subprocess.run([*way, root, "/cutrace-report", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return [*way, root, "/cutrace-report"], root
    raise Skip("this user may not change its root: no user namespaces")


@case("on a machine with none of the libraries, an empty root with libc alone, every view of a bundle is the same to the byte")
def empty_machine():
    command, root = empty_root()
    try:
        traces = [ONE, traced_self()]
    except Skip:
        traces = [ONE]
    for trace in traces + [RANKS]:
        bundle("elsewhere.zip", *(trace if isinstance(trace, list) else [trace]))
        shutil.copy(scratch("elsewhere.zip"), os.path.join(root, "bug.zip"))
        for view in (("summary",), ("summary", "--json"), ("top",), ("oom",), ("frag",), ("explain",)):
            here = subprocess.run([REPORT, *view, "bug.zip"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN, check=False)
            there = subprocess.run([*command, *view, "bug.zip"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN, check=False)
            equal((there.returncode, there.stdout, there.stderr), (here.returncode, here.stdout, here.stderr), view)
            equal((here.returncode, here.stdout != b""), (0, True), view)


@case("the log is in the bundle without names, and the summary and the page say what it says")
def log_in_bundle():
    with open(os.path.join(VLLM, "profile-run", "log.txt"), encoding="utf-8") as f:
        lines = f.read().splitlines()
    added = ["INFO loading /home/zeinab/models/llama/a.bin", "Zeinab says: at @/root/x/zeinab.py", "throughput: 12.3 tokens/s, 3/12 done, 19.39/24.0 GiB free"]
    log = scratch("server.log", "\n".join(lines[:1] + added + lines[1:]) + "\n")
    path, out, _ = bundle("log.zip", ONE, "--log", log)
    check("log-1.txt" in out, out)
    with zipfile.ZipFile(path) as z:
        files = {name: z.read(name) for name in z.namelist()}
    check(not any(b"zeinab" in data.lower() for data in files.values()), "a name is left")
    text = files["log-1.txt"].decode().splitlines()
    equal(len(text), len(lines) + len(added))
    check(added[2] in text and text[1].startswith("INFO loading ~/dir-") and text[1].endswith("/a.bin"), text[:5])
    alone = report("--json", "--log", *(scratch(name, files[name]) for name in ("log-1.txt", "trace-1.zst")))[1]
    equal(json.loads(files["summary.json"])["companions"], json.loads(alone)["companions"])
    check(json.loads(alone)["companions"] is not None)
    fence = files["summary.md"].decode().split("~~~text\n")[1].split("~~~")[0].splitlines()
    check("  change " in "\n".join(fence), fence)
    bundle("strict.zip", ONE, "--log", log, "--scrub=strict", code=2)


@case("with a log and metrics a bundle concludes and advises what summary does: what is scrubbed is still read")
def same_conclusions():
    def conclusions(document):
        return [(v["scenario"], v["confidence"], [(a["flag"], a["from"], a["to"]) for a in v["advice"]]) for v in document["verdicts"]]
    alone = [os.path.dirname(log) for log in sorted(glob.glob(os.path.join(VLLM, "*/log.txt")))
             if not os.path.exists(os.path.join(os.path.dirname(log), "trace-1.zst"))]
    certain = [os.path.join(VLLM, name) for name in ("less-than-desired", "http-server")]  # free memory of two decimals; metrics
    for folder in {*certain, *sample(alone, 4)}:
        logs = [os.path.join(folder, name) for name in ("log.txt", "metrics.txt") if os.path.exists(os.path.join(folder, name))]
        words = ["--log=" + log for log in logs] + [os.path.join(folder, "trace.zst")]
        path, out, _ = bundle("logs.zip", *words)
        with zipfile.ZipFile(path) as z:
            want = conclusions(json.loads(read_json("summary", *words)))
            equal(conclusions(json.loads(z.read("summary.json"))), want, folder)
            said, at_log = z.read("summary.md").decode(), z.getinfo("log-1.txt")
        for source in (path, path + "/trace-1.zst"):  # the log in the file is read with the trace
            equal(conclusions(json.loads(read_json("summary", source))), want, folder)
        equal(["log-2.txt" in text for text in (out, said)], [len(logs) == 2] * 2, folder)
    with open(path, "r+b") as f:
        f.seek(at_log.header_offset + 30 + len("log-1.txt") + at_log.compress_size // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 0x55]))
    code, out, err = report("summary", path)
    equal((code, err.count(b"\n"), b": a log is damaged in the zip file" in err, b"trace: " in out), (0, 1, True, True), err)


@case("of a long log the beginning and the end are in the bundle")
def long_log():
    log = scratch("long.log", "".join("line %d of a server\n" % i for i in range(400000)))
    path, _, _ = bundle("long.zip", ONE, "--log", log)
    with zipfile.ZipFile(path) as z:
        text = z.read("log-1.txt").decode().splitlines()
    wanted = {"line %d of a server" % i for i in range(400000)}
    equal((text[0], text[-1], len(set(text) - wanted)), ("line 0 of a server", "line 399999 of a server", 1))
    check(len("\n".join(text)) < 6 << 20)


@case("where it does not fit it is cut around the failure, says so, and holds the failure")
def cut():
    whole, _, _ = bundle("whole.zip", ONE)
    size = os.path.getsize(whole)
    path, out, _ = bundle("cut.zip", ONE, f"--max-size={size - 200}B")
    check("cut to fit" in out and os.path.getsize(path) <= size - 200, out)
    equal(json.loads(report("summary", "--json", path)[1])["crossing"]["event"],
          json.loads(report("summary", "--json", ONE)[1])["crossing"]["event"])
    with zipfile.ZipFile(path) as z:
        manifest = json.loads(z.read("MANIFEST.json"))
        check(manifest["traces"][-1]["events_before"] > 0 and b"Cut to fit" in z.read("summary.md"), manifest)
    _, _, err = bundle("never.zip", ONE, "--max-size=1kB", code=5)
    check("--max-size" in err and not os.path.exists(scratch("never.zip")), err)


@case("copy into a zip file keeps names and every event, and its result is read like the traces")
def copies():
    path, out, _ = bundle("job.zip", *RANKS, command="copy")
    check(re.search(r" 2 traces, [0-9,]+ events\n", out), out)
    with zipfile.ZipFile(path) as z:
        equal(z.namelist(), ["MANIFEST.json", "trace-1.zst", "trace-2.zst"])
    names = [p.encode() for p in RANKS], [f"{path}/trace-{i}.zst".encode() for i in (1, 2)]
    a, b = report(*RANKS)[1], report(path)[1]
    for old, new in zip(*names):
        a, b = a.replace(old, b"T"), b.replace(new, b"T")
    equal(a, b)
    _, _, err = bundle("job.zst", *RANKS, command="copy", code=2)
    check("name it FILE.zip" in err, err)


@case("a killed process's journal is sealed into the bundle; one without its end stays incomplete")
def ends():
    sealed = json.loads(report("info", "--json", bundle("k.zip", KILLED)[0])[1])
    want = json.loads(report("info", "--json", KILLED)[1])
    equal(sealed["clean_end"], want["clean_end"])
    whole = whole_trace.Whole(ONE)
    chunks, journal = whole_trace.write_with_journal(whole, 900)
    trace = scratch("journal.zst", b"".join(chunks))
    scratch("journal.zst.journal", journal)
    path, _, _ = bundle("j.zip", trace)
    equal(json.loads(report("info", "--json", path)[1])["events"], sum(r["op"] != "amend" for r in whole.records))
    os.remove(trace + ".journal")
    path, _, _ = bundle("j.zip", trace)
    info = report("info", "--json", path)
    equal((info[0], json.loads(info[1])["incomplete"]["reason"]), (4, "was_missing"))


# ---- hostile zip files ------------------------------------------------------------------------------------------

def stored(entries, **how):
    """A zip file of (name, bytes), by Python."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how.get("method", zipfile.ZIP_STORED)) as z:
        for name, data in entries:
            z.writestr(zipfile.ZipInfo(name), data, compress_type=how.get("method", zipfile.ZIP_STORED))
    return out.getvalue()


def refused(data, word):
    code, out, err = report("summary", scratch("hostile.zip", data))
    ok = code == 3 and len(err.splitlines()) == 1 and word.encode() in err and b"hostile.zip" in err and not out
    return [] if ok else [f"{word}: {code} {err!r} {out[:100]!r}"]


def patched(data, offset, fmt, *values):
    data = bytearray(data)
    struct.pack_into(fmt, data, offset, *values)
    return bytes(data)


@case("a hostile zip file is refused in one line that names the offset")
def hostile():
    trace = read(ONE)
    good = stored([("trace-1.zst", trace)])
    central, end = good.rindex(b"PK\x01\x02"), good.rindex(b"PK\x05\x06")
    problems = refused(stored([("trace-1.zst", trace)], method=zipfile.ZIP_DEFLATED), "compressed")
    problems += refused(stored([("../trace-1.zst", trace), ("/etc/x.zst", trace), ("a/b.zst", trace), (".h.zst", trace),
                                ("trace\n1.zst", trace)]), "no trace is in this zip file")
    problems += refused(good[:len(good) // 2], "cut")
    problems += refused(patched(good, 100, "<I", 0xDEADBEEF), "damaged in the zip file")
    problems += refused(patched(good, central + 20, "<II", 0x7FFFFFFF, 0x7FFFFFFF), "outside of it")
    problems += refused(patched(good, central + 24, "<I", 1 << 30), "impossible sizes")
    problems += refused(patched(good, central + 42, "<I", 0xFFFFFF00), "outside of it")
    problems += refused(patched(good, central + 8, "<H", 1), "encrypted")
    problems += refused(patched(good, end + 8, "<HH", 9, 9), "damaged")
    problems += refused(patched(good, end + 12, "<I", 0x7FFFFFFF), "damaged")
    problems += refused(patched(good, end + 16, "<I", 5), "damaged")
    problems += refused(patched(good, 30, "<c", b"T"), "contradicts")
    # two entries that share their bytes: the second one's head lies in the first one's trace
    inner = struct.pack("<IHHHHHIIIHH", 0x04034b50, 10, 0, 0, 0, 33, 0, 0, 0, 11, 0) + b"trace-2.zst"
    data = trace + inner
    shared = stored([("trace-1.zst", data)])
    at_inner = shared.index(inner)
    start, stop = shared.rindex(b"PK\x01\x02"), shared.rindex(b"PK\x05\x06")
    line = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 10, 10, 0, 0, 0, 33, 0, 0, 0, 11, 0, 0, 0, 0, 0, at_inner) + b"trace-2.zst"
    tail = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, 2, 2, stop - start + len(line), start, 0)
    problems += refused(shared[:stop] + line + tail, "overlap")
    equal(zlib.crc32(trace), struct.unpack_from("<I", good, central + 16)[0])
    return problems


@case("nothing is unpacked, and a trace in a zip file is as untrusted as any")
def untrusted():
    before = set(os.listdir(scratch())) | {"hostile.zip"}
    problems = refused(stored([("trace-1.zst", b"no trace at all, but stored")]), "")
    problems += refused(stored([("trace-1.zst", read(ONE)[:50])]), "")
    path = scratch("hostile.zip", stored([("trace-1.zst", read(ONE)), ("evil.sh", b"x"), ("../up.zst", b"x")]))
    code, out, _ = report("summary", path)
    check(code == 0 and b"OUT OF MEMORY" in out, "the trace is read")
    equal(set(os.listdir(scratch())), before)
    return problems


# ---- outputs that cannot be written -----------------------------------------------------------------------------

def outputs():
    return [("bundle", ONE, "o.zip"), ("copy", ONE, "o.zip"), ("copy", ONE, "o.zst", "--from=peak-1s", "--to=peak+1s"), ("copy", ONE, "o.zst", "--scrub=paths")]


@case("a full disk leaves nothing: no file, no part of one, exit code 5 and one line")
def full():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    problems = []
    for command, trace, name, *args in outputs():
        folder = tempfile.mkdtemp(dir=scratch())
        done = subprocess.run([REPORT, command, trace, "-o", os.path.join(folder, name), *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=PLAIN, preexec_fn=limit, check=False)  # pylint: disable=subprocess-popen-preexec-fn
        if done.returncode != 5 or len(done.stderr.splitlines()) != 1 or os.listdir(folder):
            problems.append(f"{command}: {done.returncode} {done.stderr!r} {os.listdir(folder)}")
    return problems


@case("a lack of memory leaves nothing either: exit code 6, which no condition has, and one line")
def exhausted():
    problems = []
    # (bundle looks for debug information: libdw itself ends the program when it has no memory)
    alone = [o for o in outputs() if o[0] != "bundle"]
    for command, trace, name, *args in [*alone, ("export", ONE, "o.csv", "--format=csv"), ("summary", ONE, None, "--fail-on=oom")]:
        folder = tempfile.mkdtemp(dir=scratch())
        output = ["-o", os.path.join(folder, name)] if name else []
        codes = set()
        for mib in range(1, 400):  # until the command has enough (of its data: a stack that cannot grow is a signal)
            def limit(most=mib << 20):
                resource.setrlimit(resource.RLIMIT_DATA, (most, most))
            done = subprocess.run([REPORT, command, trace, *output, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=PLAIN, preexec_fn=limit, check=False)  # pylint: disable=subprocess-popen-preexec-fn
            codes.add(done.returncode)
            if done.returncode != 6:
                if done.returncode in (0, 1):
                    break
                problems.append(f"{command} in {mib} MiB: {done.returncode} {done.stderr!r}")
            elif len(done.stderr.splitlines()) != 1 or b"out of memory" not in done.stderr or os.listdir(folder):
                problems.append(f"{command} in {mib} MiB: {done.stderr!r} {os.listdir(folder)}")
        if 6 not in codes:
            problems.append(f"{command}: never ran out of memory: {codes}")
    return problems


@case("a signal leaves no part of a file, and ends the program as it does others")
def interrupted():
    for attempt in range(200):  # until one is caught in the midst
        folder = tempfile.mkdtemp(dir=scratch())
        command = subprocess.Popen([REPORT, "export", ONE, "--format=ndjson", "-o", os.path.join(folder, "o")], env=PLAIN)  # pylint: disable=consider-using-with
        while command.poll() is None and not os.listdir(folder):
            pass
        command.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[attempt % 3])
        command.wait()
        if command.returncode and os.listdir(folder) != ["o"]:  # (that is the whole file: the program was on its way out)
            return equal((-command.returncode, os.listdir(folder)), ((2, 15, 1)[attempt % 3], []))
    raise RuntimeError("the export always ended before the signal")


@case("outputs replace nothing without --force, are never the input, and a folder that is not there is said")
def careful():
    problems = []
    made = os.path.basename(ONE)[:-len(".zst")] + ".zip"  # bundle names its file as html does: in the working folder
    equal((report("bundle", ONE)[0], zipfile.is_zipfile(made)), (0, True))
    equal(report("bundle", ONE)[0], 2)
    os.unlink(made)
    for command, trace, name, *args in outputs():
        to = scratch("kept-" + name, b"mine")
        tries = [(report(command, trace, "-o", to, *args), 2, b"--force"),
                 (report(command, trace, "-o", scratch("none/" + name), *args), 5, b"No such file"),
                 (report("copy", trace, *args), 2, b"--output")]
        if name.endswith(".zst"):
            copy = scratch("input.zst", read(ONE))
            tries.append((report(command, copy, "--force", "-o", copy, *args), 2, b"the trace itself"))
            equal(read(copy), read(ONE))
        for (code, _, err), want, word in tries:
            if code != want or word not in err or len(err.splitlines()) != 1:
                problems.append(f"{command}: {code} {err!r}, wanted {want} {word!r}")
        equal(read(to), b"mine")
    return problems


@case("one trace is copied from a bundle; all of it need a zip file, and export asks for one")
def one_of():
    path, _, _ = bundle("two.zip", *RANKS)
    code, _, err = report("export", path, "-o", scratch("x.pickle"))
    check(code == 2 and b"two.zip/trace-1.zst" in err, err)
    code, _, err = report("copy", path, "--from=peak-1s", "--to=peak+1s", "-o", scratch("x.zst"))
    check(code == 2 and b"name it FILE.zip" in err, err)
    code, _, err = report("copy", path + "/trace-1.zst", "--from=peak-1s", "--to=peak+1s", "--force", "-o", scratch("x.zst"))
    equal(code, 0, err)
    read_trace.chunks(read(scratch("x.zst")))


main()
