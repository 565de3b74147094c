# SPDX-License-Identifier: Apache-2.0
"""Runs a program and writes what it took, as one line of JSON. The system counts what a process held before it became another
program, so that a program is started by one that is as small as this.

usage: measure_run.py PROGRAM [ARGUMENT]...     (its output is thrown away)
"""
import os
import sys
import time


def main():
    start = time.monotonic()
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(sys.argv[1], sys.argv[1:])
    _, status, used = os.wait4(pid, 0)
    print("[%r, %r, %d, %d, %d]" % (time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_inblock * 512, used.ru_maxrss,
                                    os.waitstatus_to_exitcode(status)))


main()
