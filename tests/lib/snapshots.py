# SPDX-License-Identifier: Apache-2.0
"""Compares what `explain` says of a memory snapshot with what PyTorch said in the process that wrote it
(tests/torch/allocator/snapshots.py)."""
import json

from tap import read_json

MIB = 1 << 20
# What each case of snapshots.py is. A snapshot does not have what lies outside of PyTorch, and frames that no rule names.
SCENARIOS = {"healthy": "none", "without_history": "incomplete", "profile_run": "startup-profile", "sampler": "warmup",
             "load_model": "startup-weights", "fragmented": "fragmentation", "freed_after": "unknown", "expandable": "unknown",
             "streams": "unknown", "graph": "unknown", "too_large": "impossible-request", "limit": "mis-budget"}


def pool_of(pool):
    """In the words of the truth."""
    free = pool["free"]
    return {"reserved": pool["reserved_bytes"], "allocated": pool["allocated_bytes"],
            "active": pool["allocated_bytes"] + pool["pending_bytes"], "requested": pool["requested_bytes"],
            "segments": pool["segments"], "free": (free["bytes"], free["blocks"], free["largest_bytes"])}


def truth_of(moment):
    free = moment["free"]
    return {**{k: v for k, v in moment.items() if k not in ("free", "blocks", "asked")}, "free": (sum(free), len(free), max(free, default=0))}


def compare(name, path, truth):
    """Problems."""
    document = json.loads(read_json("explain", path))
    snapshot, problems = document["snapshot"], []
    device, = snapshot["devices"] or [None]
    sides = [("scenario", document["verdicts"][0]["scenario"], SCENARIOS[name]),
             ("at the end", pool_of(device["end"]), truth_of(truth["end"])),
             ("a request failed", snapshot["oom"] is not None, "oom" in truth),
             ("blocks", sum(s["bytes"] for s in snapshot["sites"]), truth.get("oom", truth["end"])["active"]),
             ("number of blocks", sum(s["count"] for s in snapshot["sites"]), truth.get("oom", truth["end"])["blocks"])]
    if "oom" in truth and snapshot["oom"]:
        asked = snapshot["oom"]["asked_bytes"]
        sides += [("just before the failure", pool_of(snapshot["oom"]["pool"]), truth_of(truth["oom"])),
                  ("asked for, in steps of the driver's", -(-asked // (2 * MIB)) * 2 * MIB, truth["oom"]["asked"])]
    for what, got, want in sides:
        if got != want:
            problems.append(f"{name} (PyTorch {truth['torch']}), {what}: {got}, PyTorch says {want}")
    return problems
