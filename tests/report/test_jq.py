#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: jq
"""Each recipe of JSON.md for jq, run as it stands there on a recording of vLLM, says what the events of that trace say."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
from lifetimes import lifetimes_of  # noqa: E402
from tap import BUILD, PLAIN, REPORT, ROOT, Skip, case, check, equal, main  # noqa: E402

TRACE = os.path.join(ROOT, "tests/report/vllm/profile-run/trace.zst")
with open(os.path.join(ROOT, "tools/report/views/JSON.md"), encoding="utf-8") as f:
    RECIPES = re.findall(r"^# (.*)\n(cutrace-report .*)$", f.read(), re.M)
RANK1 = os.path.join(ROOT, "tests/report/vllm/eager/trace.zst")
EVENTS = check_ledger.read_trace(REPORT, TRACE)
FAILED = [e for e in EVENTS if e["result"] == 2 or e["op"] == "block-oom"]
BLOCKS = [e for e in EVENTS if e["op"] == "block-alloc"]


def taken():
    """Bytes by function."""
    bytes_ = collections.Counter()
    for e in EVENTS:
        if e["op"] == "alloc" and e["result"] == 0:
            bytes_[e["api"]] += e["bytes"]
    return bytes_


def peak(path=TRACE):
    """Of the memory that was allocated on the device."""
    return lifetimes_of(path).peak[0][0]


def is_scenario(lines):
    return len(lines) == 1 and lines[0].startswith("startup-profile: ")  # the run was made to be that (tests/vllm)


def are_sites(lines):
    """They held so much of the blocks, the largest first."""
    sizes = [int(line.split(" ")[0]) for line in lines]
    return len(sizes) == 5 and sizes == sorted(sizes, reverse=True) and sum(sizes) <= peak() and "llama.py" in lines[0]


def are_failures(lines):
    got = [line.split(" ") for line in lines]
    return [(api, int(size)) for _, api, size in got] == [(e["api"] or "null", e["bytes"]) for e in FAILED] and \
        all(abs((float(a[0]) - float(b[0])) - (x["t_ns"] - y["t_ns"]) / 1e9) < 1e-6
            for a, b, x, y in zip(got, got[1:], FAILED, FAILED[1:]))


WANT = [
    is_scenario,
    lambda lines: lines == ['{"ordinal":0,"peak_gib":%s}' % repr(peak() / (1 << 30))],
    are_sites,
    are_failures,
    lambda lines: lines == ["true"],
    lambda lines: lines == ["this older trace did not record which calls bypassed cutrace"],  # an older recorder made it
    lambda lines: lines == ['{"api":"%s","bytes":%d}' % pair for pair in sorted(taken().items())],
    lambda lines: lines == ['{"event":%(event)d,"bytes":%(bytes)d}' % max(BLOCKS, key=lambda e: (e["bytes"], e["event"]))],
    lambda lines: "vLLM weight loading: " in lines[1] and int(lines[2].rsplit(" ", 1)[1]) == 0 and
    sum(int(line.rsplit(" ", 1)[1]) for line in lines) <= peak(),
    lambda lines: [json.loads(line)["peak_bytes"] for line in lines] == [[peak()], [peak(RANK1)]],
]


@case("there are ten, and each is judged")
def ten():
    equal((len(RECIPES), len(WANT)), (10, 10))


for (title, command), is_right in zip(RECIPES, WANT):
    @case(title)
    def _(command=command, is_right=is_right):
        if not shutil.which("jq"):
            raise Skip("jq is not installed")
        done = subprocess.run(["sh", "-c", command.replace("RANK1", RANK1).replace("TRACE", TRACE)], stdout=subprocess.PIPE, text=True, check=False,
                              env={**PLAIN, "PATH": BUILD + ":" + os.environ["PATH"]})
        equal(done.returncode, 0)
        check(is_right(done.stdout.splitlines()), done.stdout)


main()
