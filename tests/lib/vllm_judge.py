# SPDX-License-Identifier: Apache-2.0
"""Compares a trace of vLLM with vLLM's log of the same run, and with its case (tests/vllm/cases.py).

Each function returns a list of problems. Tolerances are the rounding of the log's texts, and what is named there."""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, "../torch/allocator"))
import segments  # noqa: E402
import vllm_log  # noqa: E402
import vllm_trace  # noqa: E402

MODELS = os.path.join(HERE, "../vllm/models")
UNSPLIT = 1 << 20  # PyTorch splits off no rest that is not larger (kSmallSize): a block may have so much more than asked
ELEMENT = {"float16": 2, "bfloat16": 2, "fp8": 1}


def config_of(model):
    with open(os.path.join(MODELS, os.path.basename(model), "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    return config.get("text_config", {}) | config


def bytes_of_token(case):
    """What the KV cache takes for one token on one device: from the config.json of the model, and of a draft model."""
    draft = case["arguments"].get("speculative_config", {}).get("model")
    return sum(bytes_in_cache(name, case["arguments"]) for name in (case["model"], draft) if name)


def bytes_in_cache(model, arguments):
    config = config_of(model)
    dtype = arguments.get("kv_cache_dtype", config["dtype"])
    heads = config["num_key_value_heads"] // arguments.get("tensor_parallel_size", 1)
    return 2 * config["num_hidden_layers"] * heads * config["head_dim"] * ELEMENT[dtype]


def compare_size(name, said, seen, more=0):
    if said is None or seen is None or said.is_of(seen, more):
        return []
    return [f"{name}: vLLM's log says {said}, the trace {seen} bytes ({seen / (1 << 30):.3f} GiB)"]


def judge_figures(log, events, case):
    """vLLM's figures of its start against the trace's."""
    said, moments = vllm_log.figures(log), vllm_trace.Moments(events)
    problems = compare_size("weights", said.get("weights"), vllm_trace.weights(moments))
    problems += compare_size("graphs", said.get("graphs"), vllm_trace.graphs(moments))
    over_end, over_start = vllm_trace.activations(moments)
    problems += compare_size("increase in the profile run", said.get("increase"), over_start)
    if "graphs" not in said:  # (else vLLM adds its estimate of them to the activations)
        problems += compare_size("peak activation", said.get("activations"), over_end)
    size, count = vllm_trace.kv_cache(moments)
    if "tokens" in said and count and case.get("uniform", True):
        want = said["tokens"] * bytes_of_token(case)
        if case["phase"] == "initialize_kv_cache":  # refused in the midst of them: one block for each layer
            want = want * count // config_of(case["model"])["num_hidden_layers"]
        if not want <= size <= want + count * UNSPLIT:
            problems.append(f"KV cache: the log says {said['tokens']} tokens, which are {want} bytes; the trace has"
                            f" {size} in {count} blocks")
    return problems


def judge_moments(log, events, case):
    """PyTorch's own figures between the steps, of a run in one process. What sleeps is reserved for PyTorch, while the
    driver has taken it back: with sleep mode the reserved bytes are not compared."""
    sleeps = case["arguments"].get("enable_sleep_mode")
    replay, problems, at = segments.Replay(), [], 0
    for moment in vllm_log.moments(log):
        while at < len(events) and events[at]["t_ns"] <= moment["t_ns"]:
            replay.event(events[at])
            at += 1
        device = replay.devices[0]
        seen = {"allocated": device.allocated, "reserved": device.reserved, "failed": device.count["block-oom"]}
        for name, value in seen.items():
            if moment[name] != value and not (sleeps and name == "reserved"):
                problems.append(f"{moment['moment']}: PyTorch says {name} {moment[name]}, the trace {value}")
    return problems + ([] if sleeps else replay.problems)


def state_at(events, index):
    """(allocated, reserved) of PyTorch's pool on the device of an event, before it."""
    replay = segments.Replay()
    for e in events[:index]:
        replay.event(e)
    device = replay.devices[events[index]["device"]]
    return device.allocated, device.reserved


def refused_call(events, request):
    """The last refused call before a request that failed, or the last one of all."""
    calls = vllm_trace.refused_calls(events)
    return max([i for i in calls if i <= request] or calls)


def judge_exception(said, events, request):
    """The sizes in PyTorch's exception against a request that failed (the number of its event)."""
    allocated, reserved = state_at(events, request)
    private, more = said["private"].bytes, said["private"].step / 2
    return [*compare_size("asked", said["asked"], events[refused_call(events, request)]["bytes"]),
            *compare_size("allocated", said["allocated"], allocated + private, more),
            *compare_size("reserved but unallocated", said["idle"], reserved - allocated - private, more),
            *compare_size("free", said["free"], free_at(events, request))]


def judge_refusal(log, events, case):
    """A call that the device refused: what PyTorch's exception says of it."""
    calls = vllm_trace.refused_calls(events)
    if not calls:
        return ["the trace has no refused call"]
    problems, said = [], vllm_log.refusal(log)
    requests = vllm_trace.requests_refused(events)
    last = refused_call(events, requests[-1]) if requests else calls[-1]
    if events[last]["api"] != case["refused"]:
        problems.append(f"refused was {case['refused']}, the trace has {events[last]['api']}")
    if said and requests:
        problems += judge_exception(said, events, requests[-1])
    if case["phase"] and case["phase"] not in vllm_trace.functions(events[last]):
        problems.append(f"the case is of {case['phase']}, and the refused call's stack has none of it:"
                        f" {vllm_trace.functions(events[last])}")
    return problems


def free_at(events, index):
    """The last reading of free memory before an event."""
    for e in reversed(events[:index + 1]):
        if e["free_bytes"] is not None:
            return e["free_bytes"]
    return None


def judge_end(log, events, case):
    """How the case ends: as its row says, in the log and in the trace."""
    if case["error"] and not re.search(case["error"], log):
        return [f"the log does not say {case['error']!r}"]
    if not re.search(case["says"], log):
        return [f"the log does not say {case['says']!r}"]
    if not case["error"] and not re.search(r"^DONE$", log, re.M):
        return ["the run did not end well: " + " | ".join(log.splitlines()[-3:])]
    if case["refused"]:
        return judge_refusal(log, events, case)
    refused = vllm_trace.requests_refused(events)
    return [f"the trace has a request that failed, which PyTorch did not raise: event {i}" for i in refused]


def judge(log, traces, case):
    """traces: the events of each process."""
    failed = [events for events in traces if vllm_trace.refused_calls(events)]
    problems = judge_end(log, (failed or traces)[0], case)
    for events in traces:
        problems += judge_figures(log, events, case)
    return problems + (judge_moments(log, traces[0], case) if len(traces) == 1 else [])
