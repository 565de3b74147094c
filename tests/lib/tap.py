# SPDX-License-Identifier: Apache-2.0
"""The cases of a suite in Python and their TAP, where things are built, and running cutrace-report.

Nothing else in tests/ prints TAP. A suite registers functions with @case("what holds") and ends with main().
"""
import faulthandler
import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback

ROOT = os.environ.get("CUTRACE_ROOT") or os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(ROOT, "build")
FULL = bool(os.environ.get("CUTRACE_FULL"))  # make check-long: all of everything
SEED = int(os.environ.get("CUTRACE_SEED") or 0)  # of every random input; check-long draws one
LIBRARY = os.path.join(BUILD, "libcutrace.so")
REPORT = os.environ.get("CUTRACE_READER") or os.path.join(BUILD, "cutrace-report")
SIM = os.path.join(BUILD, "sim")
PLAIN = {k: v for k, v in os.environ.items()
         if not k.startswith(("CUTRACE_", "LC_", "LANG")) and k not in ("NO_COLOR", "COLUMNS")}
PLAIN["LC_ALL"] = "C.UTF-8"
PROBLEMS, LETTERS, LINES = 12, 3000, 40  # shown of a failed case: problems, letters of each, lines of a traceback

_cases = []
_after = []


class Skip(Exception):
    """Raised by a case that cannot run here; the text says why."""


def case(name, long=False):
    """Registers a function as the case of this name, which says what holds. A long one is make check-long's.

    The case fails by an exception or by a list of problems that it returns. A text that it returns is added to the name
    in its result: what was counted, for instance.
    """
    def register(function):
        if FULL or not long:
            _cases.append((name, function))
        return function
    return register


def dice(number=0):
    """Random numbers that follow from the seed and this number alone. All random inputs come from here."""
    return random.Random(SEED + number)


def sample(items, count, number=0):
    """So many of these, drawn by the seed, in their order; with CUTRACE_FULL=1 all of them."""
    items = list(items)
    if FULL or count >= len(items):
        return items
    return [items[i] for i in sorted(dice(number).sample(range(len(items)), count))]


def after_case(function):
    """Registers a function that is called after each case, with whether the case passed."""
    _after.append(function)
    return function


def note(text):
    """Prints lines that are no result."""
    print("".join(f"# {line}\n" for line in str(text).splitlines()), end="", flush=True)


def repeat(run, decides, most=5):
    """Runs until a run decides something, at most so many times. Returns what the last one returned.

    For runs that a busy machine may disturb in a way that the recorder documents: it gives an event up or goes without a stack
    when another thread has no core for longer than it waits. A fault that is always there is in the last run, too.
    """
    for _ in range(most):
        done = run()
        if decides(done):
            break
    return done


@functools.lru_cache(maxsize=None)
def _folder():
    return tempfile.TemporaryDirectory(prefix="cutrace-suite-")  # pylint: disable=consider-using-with


def scratch(name="", data=None):
    """A path in a folder that goes with the suite. With data, bytes or text, they are in a file there."""
    path = os.path.join(_folder().name, name)
    if data is not None:
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
    return path


def skip_all(reason):
    """Ends a suite that cannot run here."""
    print(f"1..0 # SKIP {reason}", flush=True)
    sys.exit(0)


def _call(function):
    return function()


def _outcome(name, function, run):
    """The name that the result has, the problems, and why the case was skipped."""
    try:
        found = run(function)
        if isinstance(found, str):
            return f"{name}: {found}", [], None
        return name, [str(p)[:LETTERS] for p in found or []], None
    except Skip as reason:
        return name, [], str(reason)
    except Exception:  # pylint: disable=broad-except
        return name, ["\n".join(traceback.format_exc().splitlines()[-LINES:])], None


def _say_where_it_stands():
    """The hang guard ends a suite with SIGTERM: then its standard error has where it stood still. (A pool ends its processes
    so, too, which say nothing.)

    `timeout` sends the signal twice, to the suite and to its group. faulthandler.register(chain=True) would end the process
    by the second one, in the middle of what it says about the first.
    """
    def say(number, _frame):
        faulthandler.dump_traceback()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    signal.signal(signal.SIGTERM, say)
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def main(run=_call):
    """Runs the cases, or those whose names have one of the words of the command line, and ends the process.

    `run` calls a case's function, and returns what that returned.
    """
    _say_where_it_stands()
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    chosen = [c for c in _cases if not words or any(w in c[0] for w in words)]
    print(f"1..{len(chosen)}\n# seed {SEED}", flush=True)
    failed, process = 0, os.getpid()
    for number, (name, function) in enumerate(chosen, 1):
        title, problems, skipped = _outcome(name, function, run)
        if os.getpid() != process:  # a child of the case came back: the results are its parent's
            note("\n".join(problems))
            os._exit(1)
        failed += bool(problems)
        title += "" if skipped is None else f" # SKIP {skipped}"
        print(f"{'not ok' if problems else 'ok'} {number} - {title}", flush=True)
        for problem in problems[:PROBLEMS]:
            note(problem)
        for follow in _after:
            follow(not problems)
    sys.exit(failed > 0)


def check_json(args, out):
    """Validates what cutrace-report wrote, if these arguments ask for JSON, and returns it."""
    if "--json" in map(str, args):
        import schema  # pylint: disable=import-outside-toplevel # (it needs a package, and JSON alone needs it)
        schema.check_run(args, out)
    return out


def report(*args, data=None, env=None, columns=400):
    """Runs cutrace-report; (exit code, stdout, stderr) as bytes. JSON is validated against its schema.

    Lines are so wide that a sentence is one line: most suites test what it says. With columns=None they are what a
    pipe gets.
    """
    width = {} if columns is None else {"COLUMNS": str(columns)}
    done = subprocess.run([REPORT, *map(str, args)], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**PLAIN, **width, **(env or {})}, check=False)
    return done.returncode, check_json(args, done.stdout), done.stderr


def no_lines(command):
    """The option by which a command looks for no source lines: to read the debug files of the machine takes most of its time."""
    places = ("summary", "oom", "top", "leaks", "phases", "frag", "dump", "diff", "html", "export", "bundle")
    return ["--sysroot=/nowhere"] if command in places else []


def without_lines(verdicts):
    """Verdicts without what debug files of the machine say of native frames."""
    for e in (e for v in verdicts for e in v["evidence"] if e["stack"]):
        e["stack"] = [(f["module"], f["offset"]) if f["kind"] == "native" else (f["name"], f["file"], f["line"]) for f in e["stack"]]
    return verdicts


def fetched(path, script):
    """The folder that a script of the project fetched, or a skip with the reason why it could not."""
    if not os.path.exists(path):
        try:
            with open(path + ".skipped", encoding="utf-8") as f:
                raise Skip(f.read().strip())
        except FileNotFoundError:
            raise Skip(script + " cannot run") from None
    return path


def read_json(*args):
    """What cutrace-report writes with these arguments and --json, validated, as text; it ends well."""
    code, out, err = report(*args, "--json")
    if code:
        raise RuntimeError(f"{' '.join(map(str, args))}: exit {code}: {err.decode(errors='replace').strip()}")
    return out.decode()


def read_view(*args, codes=(0, 4)):
    """The same, parsed; it may end with these exit codes: with 4 where the trace's end is missing."""
    code, out, err = report(*args, "--json")
    check(code in codes, f"{' '.join(map(str, args))}: exit {code}: {err.decode(errors='replace').strip()}")
    return json.loads(out)


@functools.lru_cache(maxsize=2)
def _dumped(args, _stamps):
    done = subprocess.run([REPORT, "dump", "--json", *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=PLAIN, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def dumped(*args):
    """The events of `dump --json` with these arguments, asked once as long as the files are the same.

    Its lines are not validated: the suites of dump and of the schemas do that.
    """
    stats = [os.stat(arg) for arg in map(str, args) if os.path.exists(arg)]
    return _dumped(tuple(map(str, args)), tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in stats))


def equal(got, want, what=""):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def check(condition, what=""):
    if not condition:
        raise AssertionError(what)
