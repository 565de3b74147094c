# SPDX-License-Identifier: Apache-2.0
"""TAP output for tests in Python, and running cutrace-report."""
import os
import subprocess
import sys
import traceback

BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(os.path.dirname(__file__), "..", "..", "build")
ROOT = os.environ.get("CUTRACE_ROOT") or os.path.join(os.path.dirname(__file__), "..", "..")
FULL = bool(os.environ.get("CUTRACE_FULL"))
REPORT = os.path.join(BUILD, "cutrace-report")
PLAIN = {k: v for k, v in os.environ.items()
         if not k.startswith(("CUTRACE_", "LC_", "LANG")) and k not in ("NO_COLOR", "COLUMNS")}
PLAIN["LC_ALL"] = "C.UTF-8"

_tests = []


class Skip(Exception):
    """Not tried, and why."""


def test(function):
    _tests.append(function)
    return function


def report(*args, data=None, env=None):
    """Runs cutrace-report; (exit code, stdout, stderr) as bytes."""
    done = subprocess.run([REPORT, *map(str, args)], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**PLAIN, **(env or {})}, check=False)
    return done.returncode, done.stdout, done.stderr


def equal(got, want, what=""):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def check(condition, what=""):
    if not condition:
        raise AssertionError(what)


def main():
    bad = 0
    print("1..%d" % len(_tests), flush=True)
    for number, function in enumerate(_tests, 1):
        name = (function.__doc__ or function.__name__.replace("_", " ")).strip().split("\n")[0]
        try:
            function()
            print("ok %d - %s" % (number, name), flush=True)
        except Skip as reason:
            print("ok %d - %s # SKIP %s" % (number, name, reason), flush=True)
        except Exception:  # pylint: disable=broad-except
            bad += 1
            print("not ok %d - %s" % (number, name))
            for line in traceback.format_exc().splitlines():
                print("# " + line, flush=True)
    sys.exit(1 if bad else 0)
