#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command with a terminal of 100 x 40 as its output (and errors, with -e) and copies what it writes.

Exits with the command's exit code. What the terminal made of newlines (CR LF) is undone.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from terminal import run_on_terminal  # noqa: E402

arguments = sys.argv[1:]
errors = arguments[:1] == ["-e"]
code, written = run_on_terminal(arguments[1:] if errors else arguments, stderr="terminal" if errors else None)
sys.stdout.buffer.write(written)
sys.stdout.buffer.flush()
sys.exit(code if code >= 0 else 128 - code)
