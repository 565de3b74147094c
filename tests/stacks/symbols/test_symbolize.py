#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: clang++ dwz libdebuginfod
"""Source locations: against addr2line, with debug files that are elsewhere, of another build, damaged or missing; and
the traces that copy --symbolize writes."""
import glob
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from elf_programs import (Frames, SOURCE, addr2line, addresses, build, build_id, corrupt, demangled, endless, places, run, symbolize,  # noqa: E402
                          trace_of)
import read_trace  # noqa: E402
from tap import BUILD, FULL, ROOT, Skip, case, check, equal, main, report  # noqa: E402

WORK = tempfile.mkdtemp()
COUNT = 20000 if FULL else 3000


def at(*names):
    return os.path.join(WORK, *names)


def program(name="program", *options, **keywords):
    path = at(name)
    return path if os.path.exists(path) else build(path, "-gdwarf-4", *options, **keywords)


def looked_up(path, wanted, name="look", options=(), **keywords):
    """Places by copy --symbolize, of the addresses of a file."""
    trace, out = at(name + ".zst"), at(name + ".out.zst")
    trace_of(path, wanted, trace, **keywords)
    status, _, error = symbolize(trace, out, "--force", *options)
    equal((status, error), (0, b""), "symbolize")
    return places(out)


def base(found):
    return {a: [(f, os.path.basename(file or ""), line) for f, file, line in p] for a, p in found.items()}


def same_name(ours, theirs):
    """What has no symbol in the debug information has its name with its namespaces; there addr2line has the bare name or a symbol."""
    return ours is None or ours == theirs or ours.endswith("::" + theirs) or (theirs.startswith(ours) and theirs[len(ours)] in "(<.")


def may_differ(n):
    """Of how many of n addresses addr2line may have another place: that of binutils 2.38 (Ubuntu 22.04) has for one in 2,500."""
    version = re.search(rb"(\d+)\.(\d+)", run("addr2line", "--version"))
    return n // 1000 if tuple(map(int, version.groups())) < (2, 40) else 0


def compare(found, truth):
    """The same lines at the same depth, and the same names."""
    known, found = demangled(f for p in found.values() for f, _, _ in p), base(found)
    names, other = 0, may_differ(len(truth))
    for a, wanted in truth.items():
        here = [(known.get(f, f), file, line) for f, file, line in found[a]]
        if other and [p[1:] for p in here] != [p[1:] for p in wanted]:
            other -= 1
            continue
        equal([p[1:] for p in here], [p[1:] for p in wanted], "%x: %r, not %r" % (a, here, wanted))
        names += sum(p[0] is not None for p in here)
        for i, ((ours, _, _), (theirs, _, _)) in enumerate(zip(here, wanted)):
            # (addr2line names an innermost function that has no symbol by the symbol of the whole)
            check(same_name(ours, theirs) or (i == 0 and same_name(here[-1][0], theirs)), "%x: %r, not %r" % (a, ours, theirs))
    check(sum(len(p) > 1 for p in truth.values()) > len(truth) // 3, "too few inlined functions to compare")
    check(names > sum(map(len, truth.values())) * 19 // 20, "too few names")


@case("lines and inlined functions are those of addr2line")
def lines_and_inlined_functions_are_those_of_addr2line():
    path = program()
    wanted = addresses(path, COUNT)
    check(len(wanted) > COUNT // 3)
    compare(looked_up(path, wanted), addr2line(path, wanted))


@case("lines of a shared library too")
def lines_of_a_shared_library_too():
    path = program("libplaces.so", "-shared", "-fPIC")
    wanted = addresses(path, COUNT)
    compare(looked_up(path, wanted), addr2line(path, wanted))


@case("dwarf 5 says the same")
def dwarf_5_says_the_same():
    # addr2line before binutils 2.41 misreads it: the truth is what DWARF 4 says of the same code.
    old, new = program(), build(at("dwarf5"), "-gdwarf-5")
    wanted = addresses(old, COUNT)
    equal(addresses(new, COUNT), wanted, "not the same code")
    first, second = base(looked_up(old, wanted)), base(looked_up(new, wanted))
    equal(second, first)
    equal(base(looked_up(build(at("packed"), "-gdwarf-5", "-gz"), wanted)), first, "compressed")


@case("files of clang which have no table of addresses")
def files_of_clang_which_have_no_table_of_addresses():
    if not shutil.which("clang++"):
        raise Skip("no clang++ here")
    path = program("by_clang", compiler="clang++")
    check(b".debug_aranges" not in run("readelf", "-SW", path))
    wanted = addresses(path, COUNT)
    compare(looked_up(path, wanted), addr2line(path, wanted))


# ---- where files are ----------------------------------------------------------------------------

def separated(folder):
    """A stripped program, its debug file, and where the program was."""
    os.makedirs(at(folder), exist_ok=True)
    path, debug = at(folder, "program"), at(folder, "program.debug")
    shutil.copy(program(), path)
    run("objcopy", "--only-keep-debug", path, debug)
    return path, debug


def without(options, path, wanted, word, **keywords):
    """There are no lines, the reason is said, and the trace is whole."""
    trace, out = trace_of(path, wanted, at("none.zst"), **keywords), at("none.out.zst")
    status, text, error = symbolize(trace, out, "--force", *options)
    equal((status, error), (0, b""))
    check(word in text, text)
    equal((any(places(out).values()), dump(out)), (False, dump(trace)), "a trace that learns nothing")


@case("separate debug files")
def separate_debug_files():
    path, debug = separated("separate")
    wanted = addresses(path, 300)
    truth = looked_up(path, wanted)
    check(sum(map(bool, truth.values())) > 250)
    identity = build_id(path).hex()
    run("objcopy", "--strip-debug", "--add-gnu-debuglink=" + debug, path)
    equal(looked_up(path, wanted), truth, "beside it")
    os.makedirs(at("separate", ".debug"))
    os.rename(debug, at("separate", ".debug", "program.debug"))
    equal(looked_up(path, wanted), truth, "in .debug beside it")
    os.makedirs(at("store", ".build-id", identity[:2]))
    os.rename(at("separate", ".debug", "program.debug"), at("store", ".build-id", identity[:2], identity[2:] + ".debug"))
    without([], path, wanted, b"no debug information")
    equal(looked_up(path, wanted, options=["--debug-dir", at("store")]), truth, "by build-id")
    os.rename(path, path + ".gone")
    equal(looked_up(path, wanted, options=["--debug-dir=" + at("store")], identity=bytes.fromhex(identity)), truth, "of a program that is gone")
    os.rename(path + ".gone", path)
    by_path = at("paths") + path + ".debug"
    os.makedirs(os.path.dirname(by_path))
    shutil.copy(at("store", ".build-id", identity[:2], identity[2:] + ".debug"), by_path)
    equal(looked_up(path, wanted, options=["--debug-dir", at("paths")]), truth, "by path")


@case("what dwz moved into a shared file")
def what_dwz_moved_into_a_shared_file():
    if not shutil.which("dwz"):
        raise Skip("no dwz here")
    os.makedirs(at("dwz"))
    one, two, shared = at("dwz/one"), build(at("dwz/two"), "-gdwarf-4", "-fno-inline"), at("dwz/shared")
    shutil.copy(program(), one)
    wanted = addresses(one, 300)
    truth = looked_up(one, wanted)
    run("dwz", "-m", shared, "-M", shared, one, two)
    check(b".gnu_debugaltlink" in run("readelf", "-SW", one))
    equal(looked_up(one, wanted), truth)
    identity = build_id(shared).hex()
    os.makedirs(at("dwz-store/.build-id", identity[:2]))
    os.rename(shared, at("dwz-store/.build-id", identity[:2], identity[2:] + ".debug"))
    without([], one, wanted, b"no debug information")
    equal(looked_up(one, wanted, options=["--debug-dir", at("dwz-store")]), truth, "by its build-id")
    shutil.copy(two, shared)
    without([], one, wanted, b"no debug information")


@case("a sysroot")
def a_sysroot():
    path = program()
    wanted = addresses(path, 300)
    truth = looked_up(path, wanted)
    os.makedirs(at("root/opt/app"))
    shutil.copy(path, at("root/opt/app/server"))
    kept = dict(recorded="/opt/app/server", identity=build_id(path))
    equal(looked_up(path, wanted, options=["--sysroot", at("root")], **kept), truth)
    without([], path, wanted, b"/opt/app/server: its file is not here", **kept)
    identity = build_id(path).hex()
    os.makedirs(at("root/usr/lib/debug/.build-id", identity[:2]))
    os.rename(at("root/opt/app/server"), at("root/usr/lib/debug/.build-id", identity[:2], identity[2:] + ".debug"))
    equal(looked_up(path, wanted, options=["--sysroot", at("root")], **kept), truth, "debug files under it")


@case("never another build id")
def never_another_build_id():
    path = program()
    wanted = addresses(path, 300)
    other = bytearray(build_id(path))
    other[3] ^= 1
    without([], path, wanted, b"its build-id differs", identity=bytes(other))
    without([], path, wanted, b"its build-id differs", identity=bytes(other[:8]))
    without([], path, wanted, b"no build-id", identity=b"")
    # nor in a debug file that lies where the right one should
    name = bytes(other).hex()
    os.makedirs(at("liar/.build-id", name[:2]))
    shutil.copy(path, at("liar/.build-id", name[:2], name[2:] + ".debug"))
    without(["--debug-dir", at("liar")], path, wanted, b"its build-id differs", identity=bytes(other), recorded="/nowhere/x")


@case("what is no elf file")
def what_is_no_elf_file():
    wanted, identity = [0x1000, 0x2000], b"\x11" * 20
    os.mkfifo(at("fifo"))
    with open(at("empty"), "wb"), open(at("text"), "w", encoding="ascii") as f:
        f.write("not at all" * 100)
    for path in (at("empty"), at("text"), "/proc/self/mem"):
        without([], path, wanted, b"its build-id differs", identity=identity)
    for path in (at("fifo"), WORK, "/dev/zero", "relative/path", "[vdso]", "/nowhere/at/all", "/\xff\xfe", "/" + "x" * 5000):
        without([], path, wanted, b"not here" if len(path) < 4096 else b"0 of 0", identity=identity)


@case("damaged files end no program")
def damaged_files_end_no_program():
    path = program()
    wanted, trace, out = addresses(path, 60), at("damaged.zst"), at("damaged.out.zst")
    copy = at("damaged")
    trace_of(path, wanted, trace, recorded=copy)
    with open(path, "rb") as f:
        data = f.read()
    some = 0
    for seed in range(3000 if FULL else 200):
        with open(copy, "wb") as f:
            f.write(corrupt(data, seed))
        status, _, error = symbolize(trace, out, "--force")
        equal((status, error), (0, b""), "seed %d" % seed)
        some += any(places(out).values()) if seed % 20 == 0 else 0
    check(some > 2, "everything is lost with one wrong byte: nothing was tested")
    for cut in (0, 1, 64, 1000, len(data) // 2, len(data) - 1):
        with open(copy, "wb") as f:
            f.write(data[:cut])
        equal(symbolize(trace, out, "--force")[0], 0, "cut at %d" % cut)


@case("debug information that ends its reader costs the lines of its module, and that is said")
def debug_information_that_ends_its_reader():
    new = build(at("dwarf5-of-two"), "-gdwarf-5")
    wanted = [a for a, found in looked_up(new, addresses(new, 60)).items() if found]
    forged, out = endless(new, at("forged")), at("two.out.zst")
    seen = 0  # elfutils reads on into what happens to be mapped behind the file: about one time in a hundred it finds an end there
    for order in ((forged, new), (new, forged), (forged, new, at("forged-too"), at("another"), at("forged-third"))):
        for path in order:
            if not os.path.exists(path):
                os.link(new if path.endswith("another") else forged, path)
        t = Frames({path: build_id(new) for path in order})
        for path in order:
            t.see(path, wanted)
        t.flush(last=True)
        trace = at("two.zst")
        with open(trace, "wb") as f:
            f.write(t.bytes())
        forged_ones = {path for path in order if "forged" in path}
        status, printed, error = symbolize(trace, out, "--json", "--force")
        document = json.loads(printed)["traces"][0]
        equal((status, error), (0, b""), order)
        ended = {m["module"]: m["why"] for m in document["modules_without_lines"]}
        check(ended.keys() <= forged_ones, ended)
        equal(set(ended.values()) - {"its debug information ended the process that read it"}, set())
        equal(document["frames_with_lines"], len(wanted) * (len(order) - len(ended)))
        status, printed, error = report("top", "--top=1000", trace)
        said = re.search(rb"source lines of (\d+) module", error)
        missing = int(said[1]) if said else 0
        equal((status, error.count(b"\n")), (0, 1 if missing else 0), error)
        bare = [printed.count(b" " + os.path.basename(path).encode() + b"+0x") for path in order]
        equal(sum(n == len(wanted) for n in bare), missing, bare)
        seen += len(ended) + missing
    if not seen:
        raise Skip("this elfutils does not read beyond a section")


# ---- the new trace ------------------------------------------------------------------------------

@case("everything else stays")
def everything_else_stays():
    path = program()
    wanted = addresses(path, 2000)
    trace, out, again = at("whole.zst"), at("whole.out.zst"), at("again.out.zst")
    for version in (1, 3):
        Frames.version = version
        trace_of(path, wanted, trace, chunks=8)
        equal(symbolize(trace, out, "--force")[0], 0)
        run("zstd", "-tq", out)
        for view in ("dump", "summary", "top", "oom", "timeline"):
            equal(said(report(view, out), out), said(report(view, trace), trace), view)
        check(len([p for p in places(out).values() if p]) > len(wanted) * 9 // 10)
        equal(symbolize(out, again, "--force")[0], 0)
        with open(out, "rb") as a, open(again, "rb") as b:
            equal(a.read(), b.read(), "the second time")
    Frames.version = 1


def dump(path):
    """The events, with the lines of functions that the trace has itself."""
    return report("dump", "--json", "--sysroot=" + at("nowhere"), path)[1]


def said(result, path):
    """The exit code of a view and what it says, without the file's name and the number of its chunks."""
    return result[0], re.sub(rb'"chunks":\d+| in \d+ chunks?', b"", result[1].replace(path.encode(), b"-"))


@case("as JSON: frames with and without lines add up, and the modules without are those of the text")
def as_json():
    for trace in sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))[:3]:
        out = at("json.out.zst")
        status, text, _ = symbolize(trace, out, "--force")
        equal(status, 0)
        d = json.loads(symbolize(trace, out, "--force", "--json")[1])
        equal((d["traces"][0]["trace"], d["output"]), (trace, out))
        d = d["traces"][0]
        equal(d["frames"] - d["frames_with_lines"], sum(m["frames"] for m in d["modules_without_lines"]))
        wanted = re.findall(r"^ *([0-9,]+) without: ([^:]*)(?:: (.*))?$", text.decode(), re.M)
        check(wanted, text)
        equal([("{:,}".format(m["frames"]), m["module"], m["why"] or "") for m in d["modules_without_lines"]], wanted)


@case("of a damaged trace the copy has what can be read, and its gaps")
def of_a_damaged_trace():
    path = program()
    wanted = addresses(path, 400)
    trace, out = trace_of(path, wanted, at("holes.zst"), chunks=4), at("holes.out.zst")
    with open(trace, "rb") as f:
        data = f.read()
    cuts = [i for i in range(8, len(data)) if data[i + 8:i + 16] == b"CUTRCHNK"]
    equal(len(cuts), 3)
    free = b"\x50\x2a\x4d\x18\x18\x00\x00\x00" + b"old stuff" + bytes(15)
    for name, holed in (("free", data[:cuts[0]] + free + data[cuts[0]:]), ("damage", data[:cuts[2]] + b"\xee" * 64 + data[cuts[2]:]),
                        ("body", data[:cuts[1] + 140] + b"\xee" + data[cuts[1] + 141:]), ("cut", data[:-11]),
                        ("ring", data[cuts[2]:] + data[:cuts[2]])):
        with open(trace, "wb") as f:
            f.write(holed)
        status, _, _ = symbolize(trace, out, "--force")
        equal(status, 0, name)
        before, after = (json.loads(report("info", "--json", p)[1]) for p in (trace, out))
        equal(after["events"], before["events"], name)
        equal([after["integrity"][k] for k in ("missing_events", "lost_events")], [before["integrity"][k] for k in ("missing_events", "lost_events")], name)
        equal((after["integrity"]["damage"], bool(after["incomplete"])), ([], bool(before["incomplete"])), name)
        equal(report("dump", "--json", out)[1], report("dump", "--json", trace)[1], name)


@case("the trace of a killed process with its journal")
def the_trace_of_a_killed_process_with_its_journal():
    path = os.path.join(BUILD, "tests/unit/programs/recorder_program")
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUTRACE_")}
    trace, out, sealed, both = at("killed.zst"), at("killed.out.zst"), at("killed.sealed.zst"), at("killed.both.zst")
    p = subprocess.Popen([path, "wait-and-die", "3000"], env=dict(env, CUTRACE_OUTPUT=trace, CUTRACE_QUIET="1"), stdout=subprocess.PIPE)
    p.stdout.readline()
    status, _, error = symbolize(trace, out)
    equal(status, 2, error)
    check(b"still recording" in error and error.count(b"\n") == 1, error)
    p.kill()
    p.communicate()
    equal(symbolize(trace, out)[0], 0)
    check(os.path.exists(trace + ".journal"), "the journal stays")
    equal(report("copy", "-o", sealed, trace)[0], 0)
    equal(symbolize(sealed, both)[0], 0)
    with open(out, "rb") as a, open(both, "rb") as b:
        equal(a.read(), b.read(), "sealed first, or not")
    run("zstd", "-tq", out)
    check(any(os.path.basename(place[1]) == "recorder_program.c" for p in places(out).values() for place in p), places(out))


@case("views say the same with the files here as with lines in the trace")
def views_say_the_same_with_the_files_here_as_with_lines_in_the_trace():
    path = program()
    wanted = addresses(path, 300)
    trace, out, away = trace_of(path, wanted, at("views.zst"), chunks=3), at("views.out.zst"), "--sysroot=" + at("nowhere")
    equal(symbolize(trace, out, "--force")[0], 0)
    for view in ("summary", "top", "oom", "frag", "dump"):
        for form in ((), ("--json",), ("--all-frames",), ("--json", "--demangle=simple")):
            if view == "frag" and "--all-frames" in form:
                continue
            here, embedded, away_from = (report(view, *form, *options, file) for options, file in
                                         (((), trace), ((away,), out), ((away,), trace)))
            equal(said(here, trace), said(embedded, out), (view, form))
            check(view in ("oom", "frag") or here[1] != away_from[1], (view, form, "no lines"))
    check(b"  places.cpp:" in report("top", trace)[1])
    # A function and what is inlined into it are two lines of the stack.
    found = [f for line in report("dump", "--json", trace)[1].splitlines() for f in json.loads(line)["stack"]]
    equal(sum(len(f["inlined"]) + 1 for f in found if f["line"] is not None), sum(map(len, places(out).values())), "frames")


# ---- what can go wrong --------------------------------------------------------------------------

def refused(status, word, *arguments, **keywords):
    got, text, error = report("copy", "--symbolize", *arguments, **keywords)
    equal((got, text), (status, b""), arguments)
    check(error.startswith(b"cutrace-report: ") and error.count(b"\n") == 1 and word in error, error)


@case("what cannot be written is one clear line")
def what_cannot_be_written_is_one_clear_line():
    path = program()
    trace = trace_of(path, addresses(path, 3000), at("in.zst"))
    folder = at("out")
    os.mkdir(folder)
    out = os.path.join(folder, "out.zst")
    with open(out, "wb") as f:
        f.write(b"precious")
    refused(2, b"--output", trace)
    refused(2, b"--force", "-o", out, trace)
    refused(2, b"is the trace itself", "--force", "-o", trace, trace)
    refused(5, b"cannot be written", "-o", at("no/such/folder"), trace)
    refused(5, b"cannot be written", "-o", "/proc/out.zst", trace)
    refused(3, b"cannot be opened", "-o", at("x.zst"), at("no.zst"))
    limited = subprocess.run(["sh", "-c", 'ulimit -f 8; exec "$0" "$@"', os.path.join(BUILD, "cutrace-report"), "copy", "--symbolize", "--force",
                              "-o", out, trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    equal(limited.returncode, 5, limited.stderr)
    check(b"cannot be written: File too large" in limited.stderr and limited.stderr.count(b"\n") == 1, limited.stderr)
    equal(os.listdir(folder), ["out.zst"], "left behind")
    with open(out, "rb") as f:
        equal(f.read(), b"precious")
    equal(symbolize(trace, out, "--force")[0], 0)
    equal(os.listdir(folder), ["out.zst"], "left behind")


@case("without elfutils only lines are missing")
def without_elfutils_only_lines_are_missing():
    path = program()
    trace = trace_of(path, addresses(path, 10), at("plain.zst"))
    os.mkdir(at("broken"))
    with open(at("broken/libdw.so.1"), "w", encoding="ascii") as f:
        f.write("no library")
    env = {"LD_LIBRARY_PATH": at("broken")}
    refused(2, b"elfutils", "-o", at("never.zst"), trace, env=env)
    equal(report("summary", trace, env=env)[0], 0)
    check(b"elfutils" in report("--version", env=env)[1])
    check(report("--version")[1].splitlines()[1].startswith(b"lines: elfutils 0."))


@case("servers are asked only on request")
def servers_are_asked_only_on_request():
    path, debug = separated("served")
    wanted = addresses(path, 100)
    truth = looked_up(path, wanted)
    run("strip", path)
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            asked.append(self.path)
            if self.path != "/buildid/%s/debuginfo" % build_id(path).hex():
                self.send_error(404)
                return
            with open(debug, "rb") as f:
                data = f.read()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.rename(debug, at("elsewhere.debug"))
    debug = at("elsewhere.debug")
    trace, out = trace_of(path, wanted, at("served.zst")), at("served.out.zst")
    refused(2, b"DEBUGINFOD_URLS", "--debuginfod", "-o", out, trace)
    env = {"DEBUGINFOD_URLS": "http://127.0.0.1:%d" % server.server_port, "DEBUGINFOD_CACHE_PATH": at("cache"), "no_proxy": "127.0.0.1"}
    equal(symbolize(trace, out, "--force", env=env)[0], 0)
    equal((asked, any(places(out).values())), ([], False), "without --debuginfod")
    status, text, error = symbolize(trace, out, "--force", "--debuginfod", env=env)
    equal((status, error), (0, b""))
    if not asked:
        raise Skip("no libdebuginfod here")
    check(len(asked) == 1, asked)
    equal(places(out), truth, "from the server")


if __name__ == "__main__":
    check(os.path.exists(SOURCE))
    try:
        main()
    finally:
        shutil.rmtree(WORK)
