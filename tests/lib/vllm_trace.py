# SPDX-License-Identifier: Apache-2.0
"""Figures of a run of vLLM from the events of `cutrace-report dump --json` alone, by the functions in their stacks.

This is a second reading of the trace: it shares nothing with the report but the dump. Stacks begin with the innermost
frame."""
WORKER = "vllm/v1/worker/gpu_worker.py"
# The outermost of these frames is the phase (they call one another: profiling runs the model, and so does warming up).
PHASES = ("init_device", "load_model", "determine_available_memory", "initialize_from_config",
          "compile_or_warm_up_model", "execute_model", "sample_tokens", "sleep", "wake_up")
KV_CACHE = ("allocate_kv_cache", "_allocate_kv_cache", "_allocate_kv_cache_tensors")
OUT_OF_MEMORY = 2


def functions(event):
    """Names of an event's Python functions without their classes, outermost first."""
    return [f["name"].rsplit(".", 1)[-1] for f in reversed(event["stack"] or []) if f["kind"] == "python" and f["name"]]


def phase(event):
    for f in reversed(event["stack"] or []):
        if f["kind"] == "python" and f["name"] and (f["file"] or "").endswith(WORKER):
            name = f["name"].rsplit(".", 1)[-1]
            if name in PHASES:
                return name
    return None


class Moments:
    """The events with the bytes in PyTorch's blocks before and after each."""

    def __init__(self, events):
        self.events, self.before, self.after = events, [], []
        blocks, live = {}, 0
        for e in events:
            self.before.append(live)
            if e["op"] == "block-alloc":
                blocks[e["device"], e["ptr"]] = e["bytes"]
                live += e["bytes"]
            elif e["op"] == "block-free":
                live -= blocks.pop((e["device"], e["ptr"]), 0)
            self.after.append(live)

    def window(self, belongs):
        """(first event that belongs, first event of Python's behind the last one that does), or None."""
        inside = [i for i, e in enumerate(self.events) if e["stack"] and belongs(e)]
        if not inside:
            return None
        behind = [i for i in range(inside[-1] + 1, len(self.events)) if functions(self.events[i])]
        return inside[0], behind[0] if behind else len(self.events)


def in_phase(name, *inner, without=()):
    def belongs(event):
        names = functions(event)
        return phase(event) == name and all(f in names for f in inner) and not any(f in names for f in without)
    return belongs


def weights(moments):
    """What loading the model left in blocks: the worker's, the runner's and a loader's load_model are in the stack.
    (What the runner makes for itself afterwards is not counted by vLLM.)"""
    def belongs(event):
        names = functions(event)
        return phase(event) == "load_model" and (names.count("load_model") > 2 or "load_lora_model" in names)
    found = moments.window(belongs)
    if not found:
        return None
    return moments.after[found[1] - 1] - moments.before[found[0]]


def activations(moments):
    """How much more PyTorch's blocks held at most during the profile run than (at its end, before it)."""
    found = moments.window(in_phase("determine_available_memory", "profile_run", without=("profile_cudagraph_memory",)))
    if not found:
        return None, None
    most = max(moments.after[found[0]:found[1]])
    return most - moments.after[found[1] - 1], most - moments.before[found[0]]


def kv_cache(moments):
    """(bytes, blocks) that were allocated for the KV cache (not the small one of profiling)."""
    sizes = [e["bytes"] for e in moments.events if e["op"] == "block-alloc" and phase(e) == "initialize_from_config" and
             any(f in KV_CACHE for f in functions(e))]
    return sum(sizes), len(sizes)


def graphs(moments):
    """By how much free memory fell while graphs were captured. vLLM reads it before and after; a reading that says what
    was known is not in the trace."""
    found = moments.window(in_phase("compile_or_warm_up_model", "capture_model"))
    if not found:
        return None
    readings = [(i, e["free_bytes"]) for i, e in enumerate(moments.events) if e["op"] == "memory-sample"]
    before = [free for i, free in readings if i < found[0]]
    until_end = [free for i, free in readings if i < found[1]]
    return before[-1] - until_end[-1] if before else None


def is_refused(event):
    return event["result"] == OUT_OF_MEMORY and event["op"] not in ("block-alloc", "block-free")


def requests_refused(events):
    """PyTorch's requests that failed for good."""
    return [i for i, e in enumerate(events) if e["op"] == "block-oom"]


def refused_calls(events):
    return [i for i, e in enumerate(events) if is_refused(e)]
