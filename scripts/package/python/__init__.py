# SPDX-License-Identifier: Apache-2.0
"""cutrace: finds out what filled the GPU. The programs and the library of this package are native; `cutrace --help`."""
import os
import signal
import sys

__all__ = ["LIBRARY", "main", "report"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(_FOLDER, "lib", "libcutrace.so")  # what `cutrace run` puts into LD_PRELOAD


def _environment():
    """The environment that Python was started with: in the C locale it sets LC_CTYPE, which no traced program shall see."""
    try:
        with open("/proc/self/environ", "rb") as f:
            pairs = [pair.partition(b"=") for pair in f.read().split(b"\0")]
    except OSError:
        return os.environb
    return {name: value for name, equals, value in reversed(pairs) if equals}


def _become(name):
    """Puts a program in place of Python, as the shell would have started it."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and what is ignored stays so in a new program
        signal.signal(ignored, signal.SIG_DFL)
    program = os.path.join(_FOLDER, "bin", name)
    try:
        os.execve(program, [name, *sys.argv[1:]], _environment())
    except OSError as e:
        print(f"{name}: cannot start {program}: {e.strerror}", file=sys.stderr)
        sys.exit(126)


def main():
    """The command cutrace."""
    _become("cutrace")


def report():
    """The command cutrace-report."""
    _become("cutrace-report")
