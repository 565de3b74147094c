# SPDX-License-Identifier: Apache-2.0
"""Traces with digests, and whether these are right: shared by test_digests.py and test_quick.py."""
import os
import subprocess

import digests
import tap
from death import folder, program, run, traces
from tap import REPORT, equal

SMALL = {"SIM_LEDGER_MAP": None, "SIM_BACKED": "0", "CUTRACE_NVML": "0"}


def report(*arguments, env=None):
    return subprocess.run([REPORT, *arguments], capture_output=True, text=True, env={**tap.PLAIN, **(env or {})}, check=False)


def the(found):
    (one,) = found.values()
    return one


def written(where, data, name="edited.zst"):
    path = os.path.join(where, name)
    with open(path, "wb") as f:
        f.write(data)
    return path


def logged(where=None, calls=20000, threads=2, **env):
    """A trace of many allocations and frees; one allocation in 2000 fails."""
    where = where or folder()
    _, status = run(program("alloc_free_logged"), threads, calls // threads, 2000, os.path.join(where, "log"), 2000, where=where,
                    env={**SMALL, "SIM_MEM_MB": "65536", "CUTRACE_SAMPLE_MS": "20", "CUTRACE_FLUSH_MS": "20", **env})
    equal(status, 0)
    return the(traces(where))


def judged(path, ring=False, least=1, full=1):
    """Problems of the digests of a trace. At least so many there are; of these so many in full."""
    problems, count, compared = digests.check(path, ring)
    done = report("info", "--json", path)
    if done.returncode:
        problems.append(f"info: exit {done.returncode}: {done.stdout[-600:]}{done.stderr}")
    if count < least or compared < full:
        problems.append(f"{count} digests, {compared} compared in full: not {least} and {full}")
    return problems
