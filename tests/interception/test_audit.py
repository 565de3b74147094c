#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Suites of this tree under CUTRACE_AUDIT=1 on the simulated GPU: they pass as without, and no call was seen by hooks or
CUPTI alone without a reason that is listed here."""
import collections
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import BUILD, ROOT, case, main, sample, skip_all  # noqa: E402

if not os.path.exists(os.path.join(BUILD, "sim/cupti/libcupti.so.13")):
    skip_all("built without CUPTI's headers")

# Suite, words that choose cases (none: all), and cases that state a miss, which CUPTI does not miss: they fail here.
SUITES = [("interception/test_driver.py", [], ["a driver newer than the headers: by address, not by name"]),
          ("interception/test_runtime.py", [], ["a runtime whose driver calls cannot be seen: recorded once, with the flag"]),
          ("interception/test_interposers.py", [], [
              "like HAMi-core, before us: nothing breaks; what it takes over is not seen (documented)"]),
          ("interception/test_random.py", [], []), ("interception/test_host.py", [], []),
          ("torch/blocks/test_blocks.py", ["pool", "thread", "expandable"], [])]

# Differences that are right, by how the program ran: the side that saw the call, and why the other one did not.
EXPLAINED = {
    "SIM_GETPROC_ALIAS=1": ("only_cupti", "addresses that are no exports, of a driver newer than the headers"),
    "SIMRT_HIDDEN=1": ("only_cupti", "the runtime reads the driver's symbol table itself"),
    "before liblike_hami.so": ("only_cupti", "it finds the driver's functions behind the library's back"),
    "liblike_hami.so": ("only_preload", "it refuses what exceeds its limit, and the driver is not called"),
}


def is_explained(note, side):
    how = note["how"] + [h.split(" ")[1] for h in note["how"] if " " in h]
    return any(h in EXPLAINED and EXPLAINED[h][0] == side for h in how)


def audited(suite, words):
    """(output, [{command, how, facts}])"""
    with tempfile.TemporaryDirectory(prefix="ways.") as where:
        notes = os.path.join(where, "notes")
        env = {**os.environ, "WAYS_AUDIT": notes}
        r = subprocess.run([sys.executable, os.path.join(ROOT, "tests", suite), *words], env=env, capture_output=True,
                           text=True, cwd=where)
        lines = open(notes, encoding="ascii").read().splitlines() if os.path.exists(notes) else []
        return r.stdout + r.stderr, [json.loads(line) for line in lines]


def audit_case(suite, words, misses):
    @case(f"{suite} {' '.join(words)}".strip() + ": passes under the audit, no unexplained difference")
    def _():
        out, notes = audited(suite, words)
        failed = [line.partition(" - ")[2] for line in out.splitlines() if line.startswith("not ok ")]
        problems = [] if failed == misses else [f"failed: {failed}", out[-2000:]]
        both, found = 0, collections.Counter()
        for note in notes:
            for key, value in note["facts"].items():
                side, _, api = key.removeprefix("audit.").partition(".")
                if side == "both":
                    both += int(value)
                if side in ("only_cupti", "only_preload") and not is_explained(note, side):
                    found[f"{side} {api}, {' '.join(note['command'][:2] + note['how'])}: "
                          f"{note['facts'].get(f'audit.{side}_callers.{api}')}"] += 1
        return problems + ([] if both else ["nothing was compared"]) + sorted(found)


for s in sample(SUITES, 2):
    audit_case(*s)

main()
