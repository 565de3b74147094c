#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every view of recorded and golden traces on terminals of 80, 100 and 160 columns, and in a pipe.

What a terminal shows is compared with what a pipe gets, where nothing is elided, with JSON, and with rules for lines
that are written here once more.
"""
import glob
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from mktrace import Trace, packed_columns  # noqa: E402
from tap import PLAIN, REPORT, ROOT, case, check, dumped, equal, main, report, sample  # noqa: E402
from terminal import run_on_terminal  # noqa: E402

RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
GOLDEN = sorted(p for p in glob.glob(os.path.join(ROOT, "tests/report/golden/traces/*.zst")) if not p[:-4].endswith(("-2", "-3")))
TRACES = sample(RECORDED, 2) + sample(GOLDEN, 6)
WIDTHS, PIPE = (80, 100, 160), 100
# Their text is the same at all widths but for line breaks and elided names (and the rows of summary's table, of which
# there are as many as a screen has room for); the others leave out columns of tables or scale a plot.
PROSE = [("dump",), ("dump", "--all-frames"), ("summary",), ("oom",), ("oom", "--all-frames")]
TABLES = [("top",), ("top", "--all-frames"), ("top", "--segments"), ("top", "--tree"), ("stats",), ("frag",), ("frag", "--at=end"), ("top", "--quick"), ("frag", "--quick"),
          ("timeline",), ("leaks",), ("phases",), ("fit",), ("info",),
          ("diff", GOLDEN[0])]
EXCEPTIONS = []  # commands whose text does not keep these rules yet
COMMANDS = [c for c in PROSE + TABLES if c[0] not in EXCEPTIONS]
UNITS = "B|KiB|MiB|GiB|TiB|KB|MB|GB|TB|s|ms|us|ns|%"
COLOUR = re.compile("\033\\[[0-9;]*m")
# A figure stands alone: it is no part of a name, a path or an address.
FIGURE = re.compile(r"(?<![\w.:/+#<>…-])[+<>]?(?:\d{1,3}(?: \d{3})+(?![.\d])|\d+(?:[.:]\d+)*)(?: (?:%s))?(?![\w/:])" % UNITS)
texts = {}


def on_terminal(width, *args, env=None):
    """What cutrace-report writes to a terminal of so many columns, without colours."""
    code, written = run_on_terminal([REPORT, *args], width, stderr=subprocess.DEVNULL,
                                    env={**PLAIN, "TERM": "xterm", **(env or {})})
    check(code >= 0 and written, f"cutrace-report {' '.join(args)} ended with {code} on a terminal of {width} columns")
    return COLOUR.sub("", written.decode())


def text(width, *args):
    """The same; None: of a pipe. Each is run once."""
    key = (width, *args)
    if key not in texts:
        texts[key] = report(*args, columns=None)[1].decode() if width is None else on_terminal(width, *args)
    return texts[key]


def screens(commands=None, widths=WIDTHS):
    for path, command, width in itertools.product(TRACES, commands or COMMANDS, widths):
        yield f"{' '.join(command)} {os.path.basename(path)} at {width}", text(width, *command, path), (command, path, width)


def one_word(line):
    """A word that is no path and no symbol, which is longer than a line, is written whole."""
    return " " not in line.strip() and "/" not in line and "::" not in line


@case("no line is wider than the terminal")
def no_line_is_wider():
    return [f"{name}: {len(line)}: {line!r}" for name, out, (_, _, width) in screens() for line in out.splitlines()
            if len(line) > width and not one_word(line)]


def sites_in(value):
    if isinstance(value, list):
        return set().union(*map(sites_in, value))
    if isinstance(value, dict):
        own = {value["site"]} if isinstance(value.get("site"), str) else set()
        return own | sites_in(list(value.values()))
    return set()


def sites(command, path):
    """The labels of call sites that the command's JSON has: whole."""
    return sites_in(json.loads(report(command[0], "--json", *command[1:], path)[1]))


def ends_with_site(line, whole):
    """A row of a table; a label may have callers that JSON has in `stack` only."""
    return any(re.search("  " + re.escape(site) + "( <- .*)?$", line) for site in whole)


def is_frame(line):
    """A line of a stack: one name, and nothing to wrap at."""
    return re.fullmatch(r"\s+(stack\s+)?(\S+:\d+ \S.*|\S.* \(\S+\)|\S+\+0x[0-9a-f]+)( \(\d+ times\))?", line)


def is_row(command, line):
    """A row of callers in the tree, that of what top leaves out, one of a function, and one of diff: they need no call site at the end."""
    return command == ("top", "--tree") and "─ " in line or command[0] == "top" and line.endswith(" shows all") \
        or command[0] == "stats" and line.endswith(")") or command[0] == "diff" and re.match(r"  +(change |[-+]?\d|- )", line)


@case("a pipe has lines of 100 columns, but for rows of tables, frames and events, which are whole")
def pipe_has_lines_of_100():
    found = []
    for name, out, (command, path, _) in screens(widths=[None]):
        if command[0] == "dump":
            continue
        check("…" not in out, name)
        wide = [line for line in out.splitlines() if len(line) > PIPE]
        whole = sites(command, path) if wide else ()
        found += [f"{name}: {line!r}" for line in wide
                  if " " in line.strip() and not ends_with_site(line, whole) and not is_row(command, line)
                  and not (command[0] in ("oom", "summary") and is_frame(line))]
    return found


def is_event(line):
    return bool(re.match(r" *\d+ +\+", line))


@case("in a pipe dump has a line for each event")
def dump_has_a_line_for_each_event():
    for path in TRACES:
        lines = text(None, "dump", path).splitlines()
        events = list(itertools.dropwhile(lambda line: not is_event(line), lines))  # first, what restricts all
        equal(len(events), len(dumped(path)), path)
        check(all(map(is_event, events)), path)


def parted(line, following):
    """Whether a figure is broken between two lines."""
    last = line.rstrip().rsplit(" ", 1)[-1]
    first = following.strip().split(" ", 1)[0].rstrip(".,;:)")
    deeper = len(following) - len(following.lstrip()) > len(line) - len(line.lstrip())  # it continues the line
    if re.fullmatch(r"[(+<>]*\d[\d.,:]*", last) and re.fullmatch(UNITS, first):
        return True
    if last in ("GPU", "event", "thread") and first[:1].isdigit():
        return True
    if deeper and re.fullmatch(r"\d{1,3}", last) and re.fullmatch(r"\d{3}", first):
        return True
    return deeper and bool(re.fullmatch(r"\d+d", last)) and first[:1].isdigit()


@case("no number is parted from its unit, nor GPU from its number, at the end of a line")
def no_number_is_parted():
    found = []
    for name, out, _ in screens(widths=WIDTHS + (None,)):
        lines = out.splitlines()
        found += [f"{name}: {a!r}, {b!r}" for a, b in zip(lines, lines[1:]) if parted(a, b)]
    return found


def without_sites(out):
    """A summary without its table of call sites."""
    return re.sub(r"^ +bytes +share +count +call site\n(?: .*\n)*", "", out, flags=re.M)


def words(out):
    return " ".join(without_sites(out).split())


def is_elided(shown, whole):
    """Whether a text is another one that lacks what marks stand for, and that lies within a name."""
    at = 0
    pieces = shown.split("…")
    if not whole.startswith(pieces[0]) or not whole.endswith(pieces[-1]):
        return False
    for piece in pieces:
        found = whole.find(piece, at)
        if found < 0 or found - at > 400:
            return False
        at = found + len(piece)
    return at == len(whole)


@case("the words of text are the same at all widths, but for the middle of names")
def words_are_the_same():
    prose = [c for c in PROSE if c in COMMANDS]
    found = [name for name, out, (command, path, _) in screens(prose)
             if not is_elided(words(out), words(text(None, *command, path)))]
    for width in WIDTHS:
        for args in (["--help"], ["help", "frag"], ["top", "--help"]):
            equal(words(on_terminal(width, *args)), words(report(*args, columns=None)[1].decode()), args)
    return found


def figures(out):
    """Those of a text, but of the rows of summary's table: the last one is what the others leave of the total."""
    return {m.group() for line in without_sites(out).splitlines() for m in FIGURE.finditer(line)}


@case("every figure that a narrow terminal shows is shown on a wide one and in a pipe")
def figures_are_the_same():
    found, count = [], 0
    for path, command in itertools.product(TRACES, COMMANDS):
        if command[0] == "dump":  # compared by its words
            continue
        # (A chain of callers in the tree has as many names as there is room for, and says how many it leaves out.)
        narrow, middle, wide, pipe = (figures(re.sub(r"\(\d+ more\) >", "", text(w, *command, path))) for w in (*WIDTHS, None))
        count += len(narrow)
        for less, more in ((narrow, middle), (middle, wide), (wide, pipe)):
            if less - more:
                found.append(f"{command} {path}: {sorted(less - more)[:5]}")
    check(count > 400, count)
    return found


def ends_of(label, before, after):
    """Whether a label begins before an ellipsis and ends after it."""
    begins = any(before.endswith(" " + label[:n]) for n in range(1, len(label)))
    ends = any(after == label[-n:] for n in range(3, len(label)))
    return begins and ends


@case("the ends of an elided label are those of the whole label in JSON")
def ends_are_those_of_the_whole_label():
    found, count = [], 0
    for name, out, (command, path, _) in screens([c for c in COMMANDS if c[0] in ("top", "frag") and "--tree" not in c], (40,) + WIDTHS):
        lines = [line for line in out.splitlines() if "…" in line and ".journal" not in line]
        whole = sites(command, path) if lines else ()
        for line in lines:
            before, after = line.split("…")[0], re.split(r"; ", line.split("…")[-1])[0]
            count += 1
            if not any(ends_of(label, before, after) for label in whole):
                found.append(f"{name}: {line!r}")
    check(count > 1, count)
    return found


@case("without UTF-8 three dots stand for what is elided")
def three_dots():
    path = next(p for p in RECORDED if p.endswith("/training.zst"))
    out = on_terminal(60, "top", path, env={"LC_ALL": "C"})
    check(out.isascii() and "..." in out and max(map(len, out.splitlines())) <= 60, out)


def shortest_end(path, others):
    parts = path.split("/")
    least = 2 if parts[-1] == "__init__.py" and len(parts) > 1 else 1
    for n in range(least, len(parts) + 1):
        if not any(o.split("/")[-n:] == parts[-n:] for o in others):
            return "/".join(parts[-n:])
    return path


def frames_of(path):
    for event in dumped(path):
        for frame in event["stack"] or []:
            yield frame
            yield from frame["inlined"]


def label_problems(path):
    files = {f["file"] for f in frames_of(path) if f["file"]}
    for device in json.loads(report("top", "--json", path)[1])["devices"] or []:
        for site in device["sites"]:
            shown = [f for f in site["stack"] or [] if not f["hidden"] and f["kind"] != "end"]
            if not shown or shown[0]["kind"] != "python" or site["kind"] == "idle":
                continue
            frame = shown[0]
            line = ":%d" % frame["line"] if frame["line"] else ""
            want = "%s%s %s" % (shortest_end(frame["file"], files - {frame["file"]}), line, frame["name"])
            if site["site"].split(" <- ")[0] != want:
                yield f"{path}: {site['site']!r}, want {want!r}"


SITE_PACKAGES = "/opt/venv/lib/python3.12/site-packages/"
NAMESAKES = [("embedding", SITE_PACKAGES + "jax/nn/functional.py", 12), ("embedding", SITE_PACKAGES + "jax/linalg/functional.py", 12),
             ("step", SITE_PACKAGES + "torch/optim/adam.py", 178), ("load", SITE_PACKAGES + "vllm/v1/worker/utils.py", 9),
             ("load", SITE_PACKAGES + "vllm/v2/worker/utils.py", 9), ("init", SITE_PACKAGES + "cupy/cuda/__init__.py", 5),
             ("embedding", "functional.py", 12)]


def write(path, times, stacks):
    """Allocations at these times (s since the start), each with one of the stacks in turn."""
    t = Trace()
    t.version, t.columns = 3, packed_columns
    t.info = {"clock.monotonic_ns": "1", "clock.realtime_ns": str(1795632000 * 10**9 + 1), "process.start_ns": "0"}
    for i, at in enumerate(times):
        t.event("alloc", int(at * 1e9) + 1, api="cuMemAlloc_v2", ptr=0x1000000 + (i << 24), bytes=(i + 1) << 20, device=0, result=0,
                space="device", stack=[stacks[i % len(stacks)], ("main", "/src/main.py", 3)])
    return t.save(path)


@case("a file has as many components of its path as tell it from the others, and so call sites are told apart")
def files_are_told_apart():
    with tempfile.TemporaryDirectory() as folder:
        path = write(os.path.join(folder, "names.zst"), range(7), NAMESAKES)
        got = [site["site"] for site in json.loads(report("top", "--json", path)[1])["devices"][0]["sites"]]
        equal(sorted(got), sorted(["nn/functional.py:12 embedding", "linalg/functional.py:12 embedding", "adam.py:178 step",
                                   "v1/worker/utils.py:9 load", "v2/worker/utils.py:9 load", "cuda/__init__.py:5 init",
                                   "functional.py:12 embedding"]))
        problems = list(label_problems(path))
    return problems + [p for path in TRACES for p in label_problems(path)]


@case("rows of a table over time are aligned however long the run was, and equal neighbours are one row")
def long_runs():
    with tempfile.TemporaryDirectory() as folder:
        path = write(os.path.join(folder, "days.zst"), [1, 2, 280187, 280188], NAMESAKES[:1])
        for width in WIDTHS:
            lines = on_terminal(width, "frag", path).splitlines()
            table = lines[next(i for i, line in enumerate(lines) if "sampled at" in line):]
            table = [line for line in table if line.startswith("  ")]
            check(any("3d 05:49:4" in line for line in table), table)
            equal({len(line) for line in table}, {len(table[0])}, table)
            cells = [re.split("  +", line.strip())[1:] for line in table]
            check(all(a != b for a, b in zip(cells, cells[1:])), table)
            check(any(" to " in line for line in table), table)


main()
