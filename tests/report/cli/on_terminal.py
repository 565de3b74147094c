#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command with a terminal of 100 x 40 as its output (and errors, with -e) and copies what it writes.

Exits with the command's exit code. What the terminal made of newlines (CR LF) is undone.
"""
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

arguments = sys.argv[1:]
errors = arguments[:1] == ["-e"]
if errors:
    arguments = arguments[1:]
main, side = pty.openpty()
fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
child = subprocess.Popen(arguments, stdin=side, stdout=side, stderr=side if errors else None, start_new_session=True)
os.close(side)
while True:
    try:
        data = os.read(main, 65536)
    except OSError:  # EIO: nobody has the terminal open any more
        break
    if not data:
        break
    sys.stdout.buffer.write(data.replace(b"\r\n", b"\n"))
sys.stdout.buffer.flush()
sys.exit(child.wait())
