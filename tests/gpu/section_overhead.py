# SPDX-License-Identifier: Apache-2.0
"""overhead: the same work untraced, traced, and with PyTorch's own history; medians of interleaved rounds."""
import json
import os
import sys
import time

import account
import machine
from gpu_check import check
from machine import median, need


def rounds(name, variants, count):
    """Runs each variant once a round, in turn; {variant: [(figures, run)]}."""
    found = {v: [] for v in variants}
    order = list(variants)
    for i in range(count):
        for v in order[i % len(order):] + order[:i % len(order)]:
            command, traced, env = variants[v]
            done = machine.run(f"{name}-{v}", command, traced=traced, **env).good()
            found[v].append((json.loads(done.out.splitlines()[-1]), done))
    return found


def written(done):
    return sum(os.path.getsize(t) for t in done.traces)


@check("overhead", "driver-loop")
def driver_loop():
    program = machine.driver_program("work", ["work.c", "../ways/load.c"])
    pairs = 500 if machine.QUICK or machine.SIMULATED else 2000
    found = rounds("loop", {"untraced": ([program, "loop", pairs], False, {}),
                            "traced": ([program, "loop", pairs], True, {}),
                            "traced-no-stacks": ([program, "loop", pairs], True, {"CUTRACE_STACKS": "off"})},
                   3 if machine.QUICK or machine.SIMULATED else 5)
    figures = {"pairs": pairs}
    for v, results in found.items():
        for key in ("sync_ns", "async_ns", "host_kb", "cpu_ms"):
            figures[f"{v}.{key}"] = median([r[key] for r, _ in results])
    for _, done in found["traced"]:
        events = machine.events(done.trace())
        seen = sum(e["op"] in ("alloc", "free") for e in account.calls_of(events))
        need(seen == 4 * pairs, f"{seen} events of {4 * pairs} calls")
        need(not any(e["op"] == "lost" for e in events), "the trace has lost events")
    need(all(v > 0 for k, v in figures.items() if k.endswith("_ns")), f"no time passed: {figures}")
    figures["bytes_per_event"] = median([written(d) for _, d in found["traced"]]) / (4 * pairs)
    for key in ("sync", "async"):
        added = (figures[f"traced.{key}_ns"] - figures[f"untraced.{key}_ns"]) / (2 * pairs)
        figures[f"added_ns_per_call.{key}"] = added
        figures[f"ratio.{key}"] = figures[f"traced.{key}_ns"] / figures[f"untraced.{key}_ns"]
        figures[f"events_per_second.{key}"] = 2e9 * pairs / figures[f"traced.{key}_ns"]
    return (f"cuMemAlloc/Free x{figures['ratio.sync']:.2f} ({figures['added_ns_per_call.sync']:.0f} ns a call), "
            f"cuMemAllocAsync/FreeAsync x{figures['ratio.async']:.2f} ({figures['added_ns_per_call.async']:.0f} ns a "
            f"call, {figures['events_per_second.async']:.0f} events/s), {figures['bytes_per_event']:.1f} bytes an event, "
            f"host memory +{figures['traced.host_kb'] - figures['untraced.host_kb']:.0f} KiB"), figures


@check("overhead", "torch", gpu=True)
def torch():
    import section_torch
    section_torch.available()
    script = [sys.executable, os.path.join(machine.HERE, "torch_work.py"), "timing"]
    variants = {"untraced": (script, False, {}), "traced": (script, True, {}),
                "history-python": (script, False, {"TORCH_WORK_HISTORY": "python"}),
                "history-all": (script, False, {"TORCH_WORK_HISTORY": "all"})}
    found, begin, longest, n = {v: [] for v in variants}, time.monotonic(), 0.0, 0
    while n < 5 and (n == 0 or time.monotonic() - begin + longest < (5 if machine.QUICK else 50)):
        start = time.monotonic()
        for v, results in rounds("torch", variants, 1).items():
            found[v] += results
        longest, n = max(longest, time.monotonic() - start), n + 1
    figures = {"rounds": n}
    for v, results in found.items():
        for key in ("training_ms", "inference_ms", "host_kb"):
            figures[f"{v}.{key}"] = median([r[key] for r, _ in results])
            figures[f"ratio.{v}.{key}"] = figures[f"{v}.{key}"] / figures[f"untraced.{key}"]
    done = found["traced"][-1][1]
    events = machine.events(done.trace())
    need(events and not any(e["op"] == "lost" for e in events), "the trace is empty or has lost events")
    seconds = (events[-1]["t_ns"] - events[0]["t_ns"]) / 1e9
    figures.update(events=len(events), bytes_written=written(done), events_per_second=len(events) / max(seconds, 1e-9))
    return "; ".join(f"{v}: training x{figures[f'ratio.{v}.training_ms']:.3f}, inference "
                     f"x{figures[f'ratio.{v}.inference_ms']:.3f}, host memory x{figures[f'ratio.{v}.host_kb']:.2f}"
                     for v in found if v != "untraced") + \
        f"; {n} rounds, {len(events)} events, {figures['bytes_written']} bytes written", figures
