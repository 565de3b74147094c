#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fit --allocator: what other settings of PyTorch's allocator would have done. Made traces, whose answers were worked out by
hand; tests/torch/allocator/test_model.py compares the model with the real allocator."""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from made_process import M, OUT_OF_MEMORY, Process  # noqa: E402
from tap import FULL, ROOT, case, check, equal, main, read_json, report, sample  # noqa: E402

TORCH = {"torch.version": "2.4.1"}


def fragmented(name="fragmented", lie=0, **info):
    """PyTorch with default settings on a device of 100 MiB. It has two segments of 40 MiB, each with a block of 25 MiB and
    15 MiB behind it: 28 MiB fit nowhere, with 20 MiB left."""
    p = Process(100 * M, **TORCH, **info)
    p.reads(0)
    for segment, whole in [p.tensor(40 * M) for _ in range(2)]:
        p.unblock(segment, whole)
        p.segments += lie
        p.block(segment, 25 * M)
        p.segments -= lie
    for _ in range(2):
        p.alloc(28 * M, result=OUT_OF_MEMORY)
    p.event("block-oom", bytes=28 * M, allocated_bytes=p.blocks, reserved_bytes=p.segments)
    return p.save(name)


def allocator(path, settings, *more):
    return json.loads(read_json("fit", path, "--allocator", settings, *more))["devices"][0]["allocator"]


def said(path, settings, *more):
    code, out, err = report("fit", path, "--allocator", settings, *more)
    equal(code, 0, err)
    return out.decode()


@case("expandable segments: both halves are one range, and the request fits")
def expandable():
    path = fragmented()
    a = allocator(path, "expandable_segments:True")
    equal((a["fits"], a["state"], a["deviation_bytes"]), ("yes", "done", 0))
    equal(a["check"]["failures"], 1, "the recording's failure")
    equal(a["asked"]["served"], 1, "the request")
    equal(a["asked"]["reserved_peak_bytes"], 80 * M, "four pages")
    equal(a["asked"]["largest_free_end_bytes"], 30 * M, "free behind two blocks of 25 MiB")
    text = said(path, "expandable_segments:True")
    check("every request would have got its memory, also the one that failed" in text, text)
    check("uncertain by 0 B" in text, text)


@case("the recorded settings fail as they did")
def same():
    a = allocator(fragmented(), "")
    equal((a["fits"], a["asked"]["failures"]), ("no", 1))
    equal(a["asked"]["first_failure"]["failed_in_recording"], True)
    equal(a["asked"]["first_failure"]["missing_bytes"], 8 * M, "28 of the 20 that were left")
    check("would fail, as it did: 8.00 MiB would be missing" in said(fragmented(), ""), said(fragmented(), ""))


@case("max_split_size: what is cached whole makes room")
def max_split():
    a = allocator(fragmented(), "max_split_size_mb:30")
    equal((a["fits"], a["asked"]["served"], a["asked"]["retries"]), ("yes", 1, 0))
    equal(a["asked"]["reserved_peak_bytes"], 92 * M, "40 that is cached, and twice 26")


@case("a smaller device: the recorded settings fail earlier")
def capacity():
    a = allocator(fragmented(), "expandable_segments:True", "--capacity=70MiB")
    equal((a["fits"], a["asked"]["stopped"]), ("no", True))
    equal(a["recorded"]["stopped"], True)
    equal(a["check"]["stopped"], False)


@case("no conclusion where the model deviates from what PyTorch reported")
def deviates():
    path = fragmented("lie", lie=4 * M)
    a = allocator(path, "expandable_segments:True")
    equal((a["fits"], a["state"], a["deviation_bytes"]), ("unknown", "deviates", 4 * M))
    text = said(path, "expandable_segments:True")
    check("is not known, because the model of the recorded settings deviates by 4.00 MiB" in text, text)
    check("would have got" not in text and "would fail" not in text, text)
    a = allocator(fragmented("small lie", lie=1 * M), "expandable_segments:True")
    equal((a["state"], a["deviation_bytes"]), ("done", M))


@case("no conclusion where nothing says how much memory the device has, or what was set")
def unknown():
    p = Process(100 * M, **TORCH)
    p.t.info = {k: v for k, v in p.t.info.items() if not k.startswith("device.")}
    p.tensor(40 * M)
    path = p.save("no capacity")
    equal(allocator(path, "")["state"], "no_capacity")
    equal(allocator(path, "", "--capacity=80MiB")["fits"], "yes")
    path = fragmented("async", **{"process.env.PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})
    a = allocator(path, "")
    equal((a["fits"], a["state"]), ("unknown", "no_settings"))
    path = fragmented("hostile", **{"process.env.PYTORCH_CUDA_ALLOC_CONF": "\x1b[31m" * 300 + ":1"})
    text = said(path, "")
    check("\x1b" not in text and len(max(text.splitlines(), key=len)) < 500, text)


@case("settings that are not modelled are refused in one line")
def refused():
    path = fragmented()
    for settings, why in (("backend:cudaMallocAsync", "only the backend 'native' is modelled"),
                          ("max_split_size_mb:5", "max_split_size_mb is not a number of MiB of 21 or more"),
                          ("no_such:1", "the model does not know the setting"), ("expandable_segments", "not a list of NAME:VALUE")):
        code, out, err = report("fit", path, "--allocator", settings)
        equal((code, out), (2, b""), settings)
        check(why in err.decode() and err.count(b"\n") == 1, err)


@case("real runs: the model of the recorded settings agrees with what PyTorch reported")
def real_runs():
    known = 0
    paths = sample(sorted(glob.glob(os.path.join(ROOT, "tests/report/pytorch/*/trace.zst"))), 4)
    for path in paths:
        for device in json.loads(read_json("fit", path, "--allocator", "expandable_segments:True"))["devices"]:
            a = device["allocator"]
            known += a["state"] == "done"
            check(a["state"] != "deviates", f"{path}: {a}")
            check(a["deviation_bytes"] <= a["deviation_bound_bytes"] + 1000 or a["state"] != "done", f"{path}: {a}")
    check(known >= (5 if FULL else 1), f"{known} of {len(paths)}")


if __name__ == "__main__":
    main()
