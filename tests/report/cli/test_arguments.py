#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line of cutrace-report: each option of each command, words in any order, mistyped ones, help, times.

The tables are read from arguments.def and CUDA's headers, the times from the events that a trace was built of.
"""
import functools
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import check_ledger  # noqa: E402
import traces  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import BUILD, REPORT, ROOT, Skip, case, check, equal, main, report  # noqa: E402

FOLDER = tempfile.mkdtemp()
os.chdir(FOLDER)
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")))
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
TRAINING = [path for path in RECORDED if path.endswith("training.zst")]
REFUSED = os.path.join(ROOT, "tests/report/golden/traces/refused.zst")
SECOND, M, G = 10**9, 1 << 20, 1 << 30
GROWING = os.path.join(FOLDER, "growing.zst")
with open(GROWING, "wb") as growing_file:
    growing_file.write(traces.growing())
STARTED = 1795351937  # 2026-11-22T12:52:17Z

with open(os.path.join(ROOT, "tools/report/cli/arguments.def"), encoding="utf-8") as def_file:
    DEF = def_file.read()
COMMANDS = re.findall(r"^CT_COMMAND\((\w+),", DEF, re.M)
# name -> (letter, argument, commands that take it)
OPTIONS = {}
SETS = {"ALL": set(COMMANDS), "FRAMES": set("summary oom top leaks frag phases diff dump".split())}
SETS["EVENTS"] = SETS["FRAMES"] | {"stats", "timeline", "export"}
for name_, letter_, argument_, where_ in re.findall(
        r'^CT_ARGUMENT\(\w+, "([\w-]+)", (0|\'\w\'), (NULL|"[^"]*"), ([^"]*), "', DEF, re.M):
    taken = set()
    for word in where_.split(" | "):
        taken |= SETS[word] if word in SETS else {re.fullmatch(r"ON\((\w+)\)", word)[1]}
    OPTIONS[name_] = (letter_.strip("'0"), argument_ != "NULL", taken)
VALUES = {"at": "end", "capacity": "100MiB", "device": "1", "from": "5.6", "to": "5.9", "top": "1", "demangle": "no",
          "units": "bytes", "color": "always", "format": "torch", "output": "out",
          "sysroot": "/", "debug-dir": "/", "log": os.path.join(ROOT, "tests/report/vllm/eager/log.txt"),
          "rules": "/dev/null", "lengths": "17", "fail-on": "lost", "scrub": "no", "max-size": "1GB", "words": "x",
          "allocator": "expandable_segments:True"}
COPIES = ("copy", "bundle")  # what they write: test_trim, test_scrub, test_bundle
# Options whose effect is not in the output of these traces: other tests show it.
ELSEWHERE = {"json", "strict", "no-journal", "output", "force", "format", "sysroot", "debug-dir",
             "debuginfod", "help", "version", "rules", "lengths", "fail-on"}


def wrong(*words):
    """The one line that wrong usage says."""
    code, out, err = report(*words)
    equal((code, out, err.count(b"\n")), (2, b"", 1), "%s %r" % (words, err))
    return err.decode().removeprefix("cutrace-report: ").rstrip("\n")


def right(*words):
    code, out, err = report(*words)
    equal((code, err), (0, b""), str(words))
    return out.decode()


def spread(name, seconds, clock=True):
    """A trace with an allocation at each of these seconds after its start at STARTED."""
    t = Trace()
    if clock:
        t.info = {"clock.monotonic_ns": "1000000000", "clock.realtime_ns": str(STARTED * SECOND),
                  "process.start_ns": "1000000000"}
    for i, s in enumerate(seconds):
        t.event("alloc", SECOND + int(s * SECOND), ptr=(i + 1) << 30, bytes=M, device=0, result=0, space="device")
    return t.save(os.path.join(FOLDER, name))


def seen(path, *words):
    """The numbers of the events that dump shows."""
    code, out, err = report("dump", "--json", *words, path)
    equal((code, err), (0, b""), str(words))
    return [json.loads(line)["event"] for line in out.splitlines()]


# ---- each option of each command ---------------------------------------------------------------------

def option(name):
    return ["--" + name + ("=" + VALUES[name] if OPTIONS[name][1] else "")]


@case("an option that a command has no use for is refused, by name, with the list of the commands that have it")
def refused_options():
    check(len(COMMANDS) >= 11 and len(OPTIONS) >= 26, "the table is not read")
    pairs = 0
    for command in COMMANDS:
        for name, (letter, _, commands) in OPTIONS.items():
            if command in commands:
                continue
            said = wrong(command, *option(name), REFUSED)
            check(said.startswith("--%s: %s has no use for it; " % (name, command)), said)
            equal(re.findall(r"\w+", re.sub(r"( alone has it| have it)$", "", said.split("; ")[1]).replace(" and ", ", ")),
                  [c for c in COMMANDS if c in commands], said)
            if letter:
                said = wrong(command, "-" + letter, VALUES[name], REFUSED)
                check(said.startswith("-%s: %s has no use" % (letter, command)), said)
            pairs += 1
    return "%d pairs" % pairs


@case("an option that a command takes changes what it says of some trace")
def options_have_effects():
    @functools.lru_cache(maxsize=None)
    def answer(command, path, *words):
        new = ["--output=out.new", "--force"] if command in ("export", "html") else []
        other = [REFUSED] if command == "diff" else []
        code, out, err = report(command, *words, *new, *other, path)
        if code == 2 and b": no event is of " in err:
            return err
        check(code in (0, 3, 4), "%s %s: %d" % (command, words, code))
        if not new:
            return out
        with open("out.new", "rb") as f:
            return out, f.read()

    problems = []
    for command in sorted(set(COMMANDS) - {*COPIES}):
        paths = TRAINING + GOLDEN + RECORDED[:6] + [GROWING] * (command == "leaks")
        elsewhere = ELSEWHERE | ({"at"} if command == "export" else set())  # test_exports: not of format torch
        for name, (_, _, commands) in OPTIONS.items():
            if command in commands and name not in elsewhere and \
                    all(answer(command, path, *option(name)) == answer(command, path) for path in paths):
                problems.append("%s --%s changes nothing" % (command, name))
    return problems


@case("dump -n N shows the first N events of the range, by each of the option's names")
def dump_some():
    path = spread("many.zst", range(100))
    for words in (("-n", "3"), ("-n3",), ("--top=3",)):
        equal(seen(path, *words), [0, 1, 2])
    equal(seen(path, "-n", "2", "--from=50"), [50, 51])
    equal([len(seen(path, "-n", n)) for n in ("1000", "9999999999", "all")], [100] * 3)
    equal(right("dump", "-n", "3", path).count("\n"), 3)


# ---- words -------------------------------------------------------------------------------------------

@case("command, options and traces come in any order; a trace that has a command's name is ./NAME")
def any_order():
    want = right("top", "-n", "2", REFUSED)
    for words in ((REFUSED, "top", "-n", "2"), ("-n", "2", REFUSED, "top"), (REFUSED, "-n2", "top"), ("-n2", "top", REFUSED)):
        equal(right(*words), want, str(words))
    check("== ./top ==" not in want)
    with open(REFUSED, "rb") as f, open("top", "wb") as g:
        g.write(f.read())
    equal(wrong("top"), "no trace named; usage: cutrace-report top [OPTION...] TRACE...")
    for words in (("./top",), ("--", "top"), ("summary", "./top")):
        check("OUT OF MEMORY" in right(*words), str(words))
    equal(right("top", "./top").splitlines()[1:], right("top", REFUSED).splitlines()[1:])
    equal(wrong("summary", "top"), "two commands, summary and top; a trace of that name is ./top")
    os.unlink("top")


@case("a mistyped value gets the nearest word of those that are taken, on one line")
def mistyped_values():
    for words, meant in ((("export", "--format=foldd"), "folded"), (("export", "--format=csv:evnts"), "events"), (("copy", "--scrub=pths"), "paths"),
                         (("--at=peek",), "peak"), (("--units=ice",), "iec"), (("--color=nevr",), "never")):
        check(f"{words[-1]}: did you mean {meant}? It takes " in wrong(*words, REFUSED), words)
    for word in ("--at=foo", "--units=x", "--color=blue"):
        check(f"{word}: expected " in wrong(word, REFUSED), word)


@case("a mistyped command or option gets the nearest one, and one that is near to nothing gets none")
def mistyped():
    near = {"timelime": "timeline", "sumary": "summary", "tpo": "top", "ooom": "oom", "farg": "frag", "dmup": "dump",
            "exprot": "export"}
    for typed, meant in near.items():
        want = "%s: neither a command nor a file; did you mean `%s`?" % (typed, meant)
        equal(wrong(typed, REFUSED), want)
        equal(wrong(REFUSED, typed), want)
    equal(wrong("nonsense", REFUSED), "nonsense: neither a command nor a file; see cutrace-report --help")
    os.symlink(REFUSED, "sumary")
    check("OUT OF MEMORY" in right("sumary"), "a file of that name is meant")
    os.unlink("sumary")
    equal(wrong("help", "tiemline"), "tiemline: not a command; did you mean `timeline`?")
    for typed, meant in {"--capasity=24GiB": "capacity", "--jsno": "json", "--form=1": "from", "--unit": "units",
                         "-json": "json"}.items():
        if typed != "-json":
            equal(wrong(typed, REFUSED), "unknown option %s; did you mean --%s?" % (typed, meant))
    equal(wrong("--nonsense", REFUSED), "unknown option --nonsense; see cutrace-report --help")
    equal(wrong("-x", REFUSED), "unknown option -x; see cutrace-report --help")


@case("a name of before says what is written now, also where a file has that name; ./NAME is the file")
def old_names():
    for name, now in {"seal": "copy --seal TRACE", "trim": "copy --from=TIME --to=TIME --output=FILE TRACE", "merge": "copy --output=FILE.zip TRACE TRACE",
                      "scrub": "copy --scrub=paths --output=FILE TRACE", "symbolize": "copy --symbolize --output=FILE TRACE",
                      "check": "info TRACE", "coverage": "info TRACE"}.items():
        with open(REFUSED, "rb") as f, open(name, "wb") as g:
            g.write(f.read())
        for words in ((name, REFUSED), (REFUSED, name), (name,), ("help", name)):
            equal(wrong(*words), "%s is the old name; write now: cutrace-report %s" % (name, now))
        for words in (("./" + name,), ("--", name), ("summary", name)):
            check("OUT OF MEMORY" in right(*words), str(words))
        os.unlink(name)
    for name, now in {"level": "--scrub=paths, or --scrub=strict", "around": "--from=oom-60s --to=oom+60s", "limit": "--top=N, or -n N",
                      "events": "--top=N, or -n N", "dry-run": "--output=/dev/null --force", "noise": "cutrace-report help noise",
                      "licenses": "cutrace-report help licenses", "table": "--format=csv:TABLE, or ndjson:TABLE",
                      "metrics": "--log=FILE, also beside a --log of the server's log", "no-pager": "PAGER=cat in the environment"}.items():
        for words in (("copy", f"--{name}=strict", REFUSED), (f"--{name}", "strict", REFUSED)):
            equal(wrong(*words), f"--{name} is the old name; write now: {now}")


@case("options of copy that do not go together are refused in one line")
def copies():
    for name in ("output", "from", "to", "scrub", "symbolize", "no-journal"):
        equal(wrong("copy", "--seal", *option(name), REFUSED), "--%s: --seal writes no copy, it changes the trace itself" % name)
    equal(wrong("copy", *option("words"), "-o", "x", REFUSED), "--words: needs --scrub=paths or --scrub=strict")
    for name in ("sysroot", "debug-dir", "debuginfod"):
        equal(wrong("copy", *option(name), "-o", "x", REFUSED), "--%s: needs --symbolize" % name)
    equal(wrong("copy", REFUSED), "copy: name the new file with --output=FILE")
    check(wrong("copy", "-o", "x.zst", REFUSED, GROWING).startswith("x.zst: the file is a zip file"))


@case("an error names the option that was typed")
def typed_option():
    for words, start in ((("-n", "0", REFUSED), "-n 0: expected N"), (("--top=0", REFUSED), "--top=0: expected N"),
                         (("--device", "x", REFUSED), "--device=x: expected N"), (("top", REFUSED, "-n"), "-n needs a value: N|all"),
                         (("top", REFUSED, "--top"), "--top needs a value: N|all"), (("-d", "x", REFUSED), "-d x: expected N"),
                         (("info", "-d", "0", REFUSED), "-d: info has no use for it"),
                         (("copy", "-o", "-", REFUSED), "-o -: the result must be a file"),
                         (("copy", "--output=-", REFUSED), "--output=-: the result must be a file"),
                         (("--json=yes", REFUSED), "--json takes no value"), ((), "no trace named"), (("summary",), "no trace named"),
                         (("--top",), "--top needs a value"), (("--device=-1", REFUSED), "--device=-1: expected N"),
                         (("--device=99999999999999999999", REFUSED), "--device=99999999999999999999: expected N"),
                         (("--capacity", REFUSED), f"--capacity={REFUSED}: expected SIZE"), (("--capacity=lots", REFUSED), "--capacity=lots: expected SIZE"),
                         (("--capacity=0", REFUSED), "--capacity=0: "), (("--capacity=12x", REFUSED), "--capacity=12x: expected SIZE"),
                         (("--from=later", REFUSED), "--from=later: expected TIME")):
        check(wrong(*words).startswith(start), "%s: %s" % (words, wrong(*words)))


@case("help COMMAND and COMMAND --help: what it takes, exit codes and an example that is accepted")
def help_of_commands():
    equal([right("--help"), right("-h")], [right("help")] * 2)
    for command in COMMANDS:
        check(f"\n  {command} " in right("help"), command)
        text = right("help", command)
        for words in ((command, "--help"), ("--help", command), (command, "-h", "no.zst")):
            equal(right(*words), text)
        files = "[FILE|-]..." if command == "explain" else "TRACE..."
        check(text.startswith("usage: cutrace-report %s [OPTION...] %s\n" % (command, files)), text)
        listed = set(re.findall(r"^  (?:-\w,|   ) --([\w-]+)", text, re.M))
        equal(listed, {n for n, o in OPTIONS.items() if command in o[2]}, command)
        check("\nexit codes: 0 done, " in text, text)
        example = re.search(r"^example: cutrace-report (.*) (?:TRACE|server\.log)$", text, re.M)[1].split()
        equal(example[0], command)
        if command not in ("export", "html", "timeline", "diff", *COPIES):
            check(report(*example, REFUSED)[0] in (0, 3), str(example))


@case("help COMMAND has of each option what is of all commands or of this one, and help has all of it")
def help_of_one():
    names, own, clauses = "(?:%s)" % "|".join(COMMANDS), 0, r"; (?![^(]*\))"
    for name, text in re.findall(r'^CT_ARGUMENT\(\w+, "([\w-]+)", .*, "((?:[^"\\]|\\.)*)"\)$', DEF, re.M):
        check(text in re.sub(r"\s+", " ", right("help")), name)
        for clause in re.split(clauses, text):
            of = re.match(rf"({names}(?:, {names})*): (.*)", clause)
            for command in OPTIONS[name][2]:
                row = re.search(rf"^  (?:-\w,|   ) --{name}\b(?:=\S+)? +(.*(?:\n {{30}}.*)*)", right("help", command), re.M)[1]
                own += bool(of)
                shown, wanted = (of[2], command in of[1].split(", ")) if of else (clause, True)
                equal(shown in re.split(clauses, re.sub(r"\s+", " ", row)), wanted, (command, clause, row))
    check(own > 40, own)


@case("cutrace says which command or request was meant, too, and has help")
def launcher():
    def run(*words):
        done = subprocess.run([os.path.join(BUILD, "cutrace"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    equal(run("rnu", "true")[2], "cutrace: rnu: no such command; did you mean `run`?\n")
    equal(run("clt", "1")[2], "cutrace: clt: no such command; did you mean `ctl`?\n")
    equal(run("ctl", "1", "flsh")[2], "cutrace: ctl: flsh: no such request; did you mean `flush`?\n")
    equal(run("run", "--ouput=x", "true")[2], "cutrace: run: unknown option --ouput=x; did you mean --output?\n")
    equal(run("run", "-o")[2], "cutrace: run: -o needs a value: PATTERN\n")
    equal(run("help"), run("--help"))
    for command in ("run", "doctor", "ctl", "record-metrics"):
        code, text, _ = run(command, "--help")
        equal(code, 0)
        check(text.startswith("usage: cutrace %s " % command), text)
        equal(run("help", command)[:2], (code, text))


# ---- times -------------------------------------------------------------------------------------------

@case("--from and --to take each form of a time, also as it is printed")
def forms_of_times():
    path = spread("days.zst", [0, 4.05, 125, 3723, 5400, 280187, 280188])  # the last at 2026-11-25T18:42:05Z
    for text, n in (("4.05", 1), ("4.05s", 1), ("+4.050 s", 1), ("4050ms", 1), ("0h4050ms", 1), ("0.0675min", 1), ("02:05", 2), ("0:02:05", 2), ("1:02:03", 3),
                    ("+1:02:03.000", 3), ("90m", 4), ("1h30m", 4), ("1:30:00", 4), ("3d05:49:47", 5), ("3d 05:49:47", 5),
                    ("2026-11-22T12:54:22Z", 2), ("2026-11-22T13:54:20Z", 3), ("2026-11-25T18:42:04Z", 5)):
        equal(seen(path, "--from", text), list(range(n, 7)), text)
        equal(seen(path, "--to=" + text), list(range(n + 1)), text)
    for i, line in enumerate(right("dump", path).splitlines()):
        printed = re.match(r" *\d+ +(\+(?:\d+d )?[\d:.]+(?: s)?) gpu0 ", line)[1]
        equal(seen(path, "--from=" + printed, "--to=" + printed), [i], printed)
    check(wrong("--from=13:00:00Z", path).endswith(
        "--from: the trace has this time on several days; add the date, as in 2026-11-22T13:00:00Z"))
    equal(seen(path, "--from=1990-01-01T00:00:00Z"), list(range(7)))
    said = wrong("--from=2200-01-01T00:00:00Z", path)
    check(said.endswith("--from: no event is of that time; the first is at +0.000 s, the last at +3d 05:49:48"), said)
    late = spread("late.zst", [11, 12])
    for at, of in (("999h", path), ("5s", late), ("10.998", late)):
        check("--at: no event is of that time" in wrong("top", "--at=" + at, of), at)
    right("top", "--at=10.999", late)  # (as printed, to a millisecond)


@case("a time of day is of the day on which the trace has it, or of the nearest one")
def times_of_day():
    short = spread("short.zst", range(60))  # 12:52:17Z to 12:53:16Z
    equal(seen(short, "--from=12:53:00Z"), list(range(43, 60)))
    equal(seen(short, "--to=12:52:20Z"), [0, 1, 2, 3])
    equal(seen(short, "--from=12:00:00Z"), list(range(60)))  # before the start: the same day
    check("--from: no event is of that time" in wrong("--from=13:00:00Z", short))
    check("--to: no event is of that time" in wrong("--to=500ms", REFUSED))
    night = spread("night.zst", [3600 * h for h in range(20)])  # till 07:52:17Z
    equal(seen(night, "--from=23:52:17Z", "--to=01:00:00Z"), [11, 12])
    equal(seen(night, "--from=07:52:17Z"), [19])
    check(wrong("--from=12:53:00Z", spread("clockless.zst", [0], clock=False)).endswith(
        "--from: the trace does not have the time of day; give the time since its start"))


@case("a range without the failure has none, and its own peak")
def range_of_summary():
    path = os.path.join(ROOT, "tests/report/golden/traces/recovered.zst")
    after, before = (json.loads(right("summary", "--json", words, path)) for words in ("--from=21", "--to=12.5"))
    equal(([o["event"] for o in after["ooms"]], after["devices"][0]["peak_bytes"]), ([10], 768 * M))
    equal((before["ooms"], before["crossing"], before["devices"][0]["live_bytes"]), ([], None, 3 * 128 * M))


@case("oom and peak are the times that summary gives, and an error says that there is none")
def times_of_events():
    d = json.loads(right("summary", "--json", REFUSED))
    equal(seen(REFUSED, "--from=oom")[0], d["crossing"]["event"])
    check(d["crossing"]["event"] == seen(REFUSED, "--to=oom")[-1])
    path = spread("no-oom.zst", range(9))
    check(wrong("--to=oom", path).endswith("no-oom.zst: --to: no OOM occurred in this trace"))
    equal(seen(path, "--from=peak"), [8])
    equal(json.loads(report("--json", "--from=oom", path, REFUSED)[1])["documents"][0], None)
    for at, since in (("oom", d["crossing"]["t_ns"]), (f"#{d['crossing']['event']}", d["crossing"]["t_ns"])):
        for way, shift in ((f"{at}-1.5s", -1.5), (f"{at}+200ms", 0.2)):
            want = [e["event"] for e in check_ledger.read_trace(REPORT, REFUSED) if e["t_ns"] >= since + shift * SECOND]
            if want:
                equal(seen(REFUSED, f"--from={way}"), want, way)
            else:
                check("--from: no event is of that time" in wrong(f"--from={way}", REFUSED), way)
    equal([json.loads(right("frag", "--json", f"--at={way}", REFUSED))["moment"]["what"] for way in ("oom", "oom-1s")], ["oom", "time"])
    check(wrong("--from=oom-1s", path).endswith("no-oom.zst: --from: no OOM occurred in this trace"))
    for words in (("--from=2", "--to=1"), ("--from=peak+1s", "--to=peak-1s"), ("--from=peak", "--to=1"), ("--from=12:52:20Z", "--to=12:52:19Z")):
        equal(wrong(*words, path), "--from is later than --to")


@case("times of day are shown with their date where the trace lies in several days")
def shown_times():
    for name, seconds, form in (("one-day.zst", [0, 60], "12:53:17Z"), ("two-days.zst", [0, 60, 50000], "2026-11-22T12:53:17Z")):
        t = Trace()
        t.info = {"clock.monotonic_ns": "1000000000", "clock.realtime_ns": str(STARTED * SECOND)}
        t.event("alloc", SECOND, ptr=1 << 30, bytes=M, device=0, result=0, space="device")
        t.event("alloc", 61 * SECOND, bytes=G, device=0, result=2, space="device", free_bytes=M, total_bytes=G)
        if len(seconds) > 2:
            t.event("note", 50001 * SECOND, text="x")
        text = right(t.save(os.path.join(FOLDER, name)))
        check(re.search(r"^  when     \+\S+ \(%s\); event " % form, text, re.M), text)
        check(re.search(r"^start +2026-11-22T12:52:17Z$", right("info", name), re.M), right("info", name))


# ---- results -----------------------------------------------------------------------------------------

def enumerators(path, beginning):
    """name -> number of an enumeration in a header of CUDA's."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            text = re.sub(r"/\*.*?\*/|//[^\n]*", "", f.read(), flags=re.S)
    except OSError as e:
        raise Skip("no %s" % path) from e
    body = text[text.index(beginning):]
    return {n: int(v, 0) for n, v in re.findall(r"(\w+)\s*=\s*(0x\w+|\d+)", body[:body.index("}")])}


@case("results have the names that CUDA 13's headers give them")
def named_results():
    with open(os.path.join(ROOT, "tools/report/print/result_names.def"), encoding="utf-8") as f:
        table = f.read()
    folder = os.environ.get("CUDA_INC") or "/usr/local/cuda/include"
    for kind, header, beginning in (("DRIVER", "cuda.h", "typedef enum cudaError_enum"),
                                    ("RUNTIME", "driver_types.h", "enum __device_builtin__ cudaError")):
        ours = {n: int(v) for v, n in re.findall(r'^CT_%s_RESULT\((\d+), "(\w+)"\)$' % kind, table, re.M)}
        theirs = enumerators(os.path.join(folder, header), beginning)
        with open(os.path.join(folder, "cuda.h"), encoding="utf-8") as f:
            version = int(re.search(r"#define CUDA_VERSION (\d+)", f.read())[1])
        check(len(ours) > 90, kind)
        different = {n for n in set(ours) & set(theirs) if ours[n] != theirs[n]}
        check(not different, str(different))
        if version == 13000:
            equal(set(ours), {n for n, v in theirs.items() if v}, header)


@case("a result is shown by the name that the driver or the runtime gives it, an unknown one as a number")
def shown_results():
    t = Trace()
    for i, (api, result) in enumerate((("cuMemAlloc_v2", 2), ("cudaMalloc", 2), ("cuMemFree_v2", 1), ("cudaFree", 35),
                                       ("cuMemCreate", 801), ("cudaMallocAsync", 98), ("cuMemFree_v2", 4711), ("cudaFree", -3))):
        t.event("alloc", i + 1, api=api, bytes=M, device=0, result=result, space="device")
    t.event("alloc", 50, bytes=M, device=0, result=700, space="device")
    path = t.save(os.path.join(FOLDER, "results.zst"))
    lines = right("dump", path).splitlines()
    for line, want in zip(lines, ("CUDA_ERROR_OUT_OF_MEMORY (2)", "cudaErrorMemoryAllocation (2)", "CUDA_ERROR_INVALID_VALUE (1)",
                                  "cudaErrorInsufficientDriver (35)", "CUDA_ERROR_NOT_SUPPORTED (801)", "cudaErrorInvalidDeviceFunction (98)",
                                  "result 4711", "result -3", "CUDA_ERROR_ILLEGAL_ADDRESS (700)")):
        check(line.endswith(" " + want), line)
    text = right("oom", path)
    check("cuMemAlloc_v2 1.00 MiB: CUDA_ERROR_OUT_OF_MEMORY (2)" in text, text)
    check("cudaMalloc 1.00 MiB: cudaErrorMemoryAllocation (2)" in text, text)


main()
