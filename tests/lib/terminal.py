# SPDX-License-Identifier: Apache-2.0
"""Running a command with a terminal as its output, and getting all that it wrote there."""
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading

END = b"\0end\0"  # written behind the output: a terminal that its last writer closes may lose what was not read yet


def run_on_terminal(arguments, columns=100, rows=40, stderr=None, env=None):
    """(exit code, bytes) of a command on a terminal of this size; stderr: as of subprocess, or "terminal".

    What the terminal made of newlines (CR LF) is undone. There is no pager but that of `env`.
    """
    env = {"PAGER": "cat", **(os.environ if env is None else env)}
    ours, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    child = subprocess.Popen(arguments, stdin=side, stdout=side, stderr=side if stderr == "terminal" else stderr, env=env,
                             start_new_session=True)

    def finish():
        child.wait()
        os.write(side, END)
    finisher = threading.Thread(target=finish)
    finisher.start()
    got = b""
    while not got.endswith(END):
        got += os.read(ours, 65536)
    finisher.join()
    os.close(side)
    os.close(ours)
    return child.returncode, got[:-len(END)].replace(b"\r\n", b"\n")
