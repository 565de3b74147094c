#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that the library does not see under LD_PRELOAD alone, as tests (README.md lists the rest). A failure means that
one is seen after all. test_injection.py has the same plugins with CUDA_INJECTION64_PATH, where they are seen."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import case, main  # noqa: E402
from ways import *  # noqa: E402,F403


def missed(how, plugin, sees_anything=False):
    args = ("host_of_plugins", how, program(plugin))
    done = run(*args)
    problems = same_as_without(done, *args)
    if done.rc or not done.ledger():
        problems.append(f"the plugin did not run: {done.rc} {done.err}")
    takes = [e for e in (done.calls() if done.traces else []) if e["op"] == "alloc"]
    if takes:
        problems.append(f"seen after all: {[e['api'] for e in takes]}: say so in README.md")
    return problems


for how, what in (("deepbind", "RTLD_DEEPBIND"), ("newlm", "dlmopen into a new namespace")):
    for plugin, kind in (("libplugin13.so", "needs the runtime"), ("libplugin_static.so", "has a static runtime")):
        case(f"not seen by LD_PRELOAD alone: a plugin that {kind}, opened with {what}; it works as without")(
            lambda how=how, plugin=plugin: missed(how, plugin))


@case("a runtime function that the program fetched by dlsym: seen, by the driver's name")
def _():
    done = run("runtime_by_dlsym")
    apis = [e["api"] for e in done.calls() if e["op"] in ("alloc", "free")]
    return good(done) + same_as_without(done, "runtime_by_dlsym") + (
        [] if apis == ["cuMemAlloc_v2", "cuMemFree_v2"] else [f"{apis}"])


@case("a process that sets LD_PRELOAD anew leaves no trace")
def _():
    done = run("/usr/bin/env", "LD_PRELOAD=", program("driver_elf"), "device")
    return ([] if done.rc == 0 and done.ledger() else ["nothing was tested"]) + (
        ["there is a trace"] if done.traces else [])


main()
