# SPDX-License-Identifier: Apache-2.0
"""What each source of variants is, and which first verdicts are right when evidence of it was taken away.

The words are those of tools/report/diagnose/scenarios.def. Where several are right, each of them says what happened.
"""
import hashlib
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "../../../tools/report/diagnose/scenarios.def"), encoding="utf-8") as f:
    SCENARIOS = tuple(re.findall(r'^CT_SCENARIO\(\w+, "([\w-]+)"', f.read(), re.M))


# Folders of real runs, and what stands before the names of their sources.
REAL = {"vllm": "", "pytorch": "pytorch-"}


def read_cases():
    """What the runs of real programs were made to be (tests/vllm/cases.py, tests/torch): (by their trace, by their log)."""
    by_trace, by_log = {}, {}
    for folder, before in REAL.items():
        for name in sorted(os.listdir(os.path.join(HERE, "..", folder))):
            with open(os.path.join(HERE, "..", folder, name, "case.json"), encoding="utf-8") as case:
                run = json.load(case)
            if run["scenario"] not in ("none", "recovered", ""):
                by_trace[before + name] = (run["scenario"],)
            elif run["log_scenario"] and run["scenario"] == "none":
                by_log[before + name] = (run["log_scenario"],)
    return by_trace, by_log


# FAILED: a request failed; every other run is healthy for its trace. BY_LOG: no call was refused, and only the log says
# what happened: the trace alone says that nothing failed.
FAILED, BY_LOG = read_cases()
# Traces of a run that failed, of processes that did not: sources of their own.
HEALTHY_BESIDE = {("weight-update-refused", "trace-1.zst"): "weight-update-refused, trainer"}
# What the log of a run shows when its trace has no stacks: what failed, where the cause is not in the log.
LOG_SHOWS = {"ballast": ("burst-prefill",), "ballast-0.11": ("burst-prefill",),
             "multimodal-profile": ("startup-profile",), "pytorch-leak": ("unknown",)}
# A retry served the request. Where a file ends between the two, the failure is one: only changes of records are made.
RECOVERED = ("pytorch-recovered",)
# Traces that a program of the tests wrote (golden/traces, lib/traces.py).
SMALL = {
    "hostile-3": ("impossible-request",),  # 90 GiB of 80
    "killed-3": ("none", "incomplete"),  # no failure, no end
    "mixed-3": ("none",),
    "recovered-3": ("recovered",),
    "ringed": ("impossible-request",),  # 2 GiB of 1 GiB
}
# Their failures have no one cause. They only must not be denied.
UNDECIDED = ("blocks", "elsewhere-3", "pools", "python", "refused-3")
A_FAILURE = tuple(s for s in SCENARIOS if s not in ("none", "recovered"))

UNSURE = ("unknown", "incomplete")
UNREADABLE = "unreadable"  # the only chunk is torn
# What is taken away: what a first verdict may be besides the right one. UNSURE is counted apart.
TAKEN = {
    None: (),
    "start": UNSURE,  # overwritten
    "events": UNSURE,  # a few in the middle
    "python": UNSURE,  # frames of Python
    "stacks": UNSURE,
    "outer frames": UNSURE,
    "blocks": UNSURE,  # of PyTorch
    "capacity": UNSURE,  # and readings of free memory
    "readings": UNSURE,
    "nvml": UNSURE,
}
# Cases whose cause only this evidence shows. Without it, it is right to say what the failed call was for.
REST = {
    # 49 MiB were idle in pieces, which is a cause, too, and the only one that figures alone show.
    **{("multimodal-profile", taken): ("fragmentation",) for taken in ("python", "stacks", "outer frames")},
    ("neighbour", "nvml"): ("burst-prefill",),
    ("neighbour", "readings"): ("burst-prefill",),
    ("neighbour", "capacity"): ("burst-prefill",),
    ("graphs-uncounted", "readings"): ("burst-prefill",),
    ("graphs-uncounted", "capacity"): ("burst-prefill",),
    **{(name, taken): ("burst-prefill",) for name in ("ballast", "ballast-0.11")
       for taken in ("blocks", "readings", "capacity")},
}
# What may be said of a trace that ends before the failure: this grows before it fails.
BEFORE = {"leak": ("leak",)}


# A new salt is drawn when details of variants that are kept aside were looked at: then they no longer are.
SALT = "3"


def is_kept_aside(name):
    """A third of the sources, by their names, whose details nobody looks at while the rules are written."""
    return hashlib.sha256(f"{SALT} {name}".encode()).digest()[0] % 3 == 0


def accepted(name, taken):
    """First verdicts that are right for a failure that is in the trace, when this evidence is gone."""
    if name in UNDECIDED:
        return A_FAILURE
    right = FAILED.get(name) or SMALL.get(name) or ("recovered" if name in RECOVERED else "none",)
    return right + TAKEN[taken] + REST.get((name, taken), ())
