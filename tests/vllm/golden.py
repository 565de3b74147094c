# SPDX-License-Identifier: Apache-2.0
"""Writes a run as test data of the report: tests/report/vllm/NAME/{trace.zst,log.txt,case.json}.

case.json comes from the table of cases and from vLLM's log, never from cutrace."""
import dataclasses
import json
import os
import re
import shutil
import subprocess

import http_server
from cases import golden_name, model_of

TARGET = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../report/vllm")
# Lines that say nothing of memory, and differ from run to run.
LEFT_OUT = re.compile(r"it/s\]|s/it\]|opaque_object\.py|Capturing CUDA graphs|register_opaque_type")
# The recorder's line may stand behind a progress bar, which has not ended its own.
BEHIND_BAR = re.compile(r"^.*(?:it/s|s/it)\](?=cutrace: )")


def said(row, log):
    """The text of the log that says what failed."""
    found = re.search(f"[^\n]*(?:{row.error})[^\n]*", log) if row.error else None
    return found.group().strip() if found else None


def case_of(row, run, version):
    words = dataclasses.asdict(row)
    if row.program == "http_server.py":
        words["command"] = http_server.command(model_of(row), row.arguments)
    return {"vllm": version, **words, "said": said(row, run.log),
            "traces": [trace_name(i) for i in range(len(run.traces))]}


def trace_name(number):
    return f"trace-{number}.zst" if number else "trace.zst"


def write(row, run, version, report, target=TARGET):
    """run: something with a log and traces; report: the path of cutrace-report."""
    folder = os.path.join(target, golden_name(row.name, version))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for i, trace in enumerate(run.traces):
        copy = os.path.join(folder, trace_name(i))
        shutil.copyfile(trace, copy)
        if os.path.exists(trace + ".journal"):  # a worker that was killed
            shutil.copyfile(trace + ".journal", copy + ".journal")
            subprocess.run([report, "copy", "--seal", copy], check=True, stdout=subprocess.DEVNULL)
    if row.metrics:
        shutil.copyfile(run.path(http_server.METRICS), os.path.join(folder, http_server.METRICS))
    with open(os.path.join(folder, "log.txt"), "w", encoding="utf-8") as f:
        lines = (BEHIND_BAR.sub("", line) for line in run.log.splitlines())
        f.writelines(line + "\n" for line in lines if not LEFT_OUT.search(line))
    with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as f:
        json.dump(case_of(row, run, version), f, indent=1)
        f.write("\n")
