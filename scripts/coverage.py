#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Line coverage by file, after `make COVERAGE=1 check`. Usage: coverage.py BUILD-FOLDER"""
import collections
import glob
import json
import os
import subprocess
import sys

build = os.path.abspath(sys.argv[1])
counts = collections.defaultdict(dict)  # file -> line -> executions, over all objects that include it
for notes in glob.glob(build + "/**/*.gcno", recursive=True):
    if not os.path.exists(notes[:-5] + ".gcda"):
        continue
    run = subprocess.run(["gcov", "--json-format", "--stdout", notes], capture_output=True, text=True)
    for text in run.stdout.splitlines():
        for entry in json.loads(text)["files"]:
            if os.path.isabs(entry["file"]):
                continue
            lines = counts[entry["file"]]
            for line in entry["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, 0) + line["count"]
total = [0, 0]
for name in sorted(counts):
    lines = counts[name]
    hit = sum(1 for count in lines.values() if count)
    if not name.startswith("tests/"):
        total[0] += hit
        total[1] += len(lines)
    print(f"{100 * hit / max(1, len(lines)):6.1f} %  {hit:6} of {len(lines):6} lines  {name}")
if not total[1]:
    sys.exit("coverage: no data; run make COVERAGE=1 check first")
print(f"{100 * total[0] / total[1]:6.1f} %  {total[0]:6} of {total[1]:6} lines  include, preload and tools together")
