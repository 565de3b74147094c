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
    program = machine.driver_program("work", ["work.c", "../interception/load.c"])
    pairs = 500 if machine.QUICK or machine.SIMULATED else 10000
    found = rounds("loop", {"untraced": ([program, "loop", pairs], False, {}),
                            "traced": ([program, "loop", pairs], True, {}),
                            "traced-no-stacks": ([program, "loop", pairs], True, {"CUTRACE_STACKS": "off"}),
                            "traced-no-nvml": ([program, "loop", pairs], True, {"CUTRACE_NVML": "0"})},
                   3)
    figures = {"pairs": pairs}
    for v, results in found.items():
        for key in ("first", "first_ns", "sync_ns", "async_ns", "host_kb", "cpu_ms"):
            figures[f"{v}.{key}"] = median([r[key] for r, _ in results])
    for _, done in found["traced"]:
        events = machine.events(done.trace())
        seen = sum(e["op"] in ("alloc", "free") for e in account.calls_of(events))
        calls = 4 * (pairs + figures["untraced.first"])
        need(seen == calls, f"{seen} events of {calls} calls")
        need(not any(e["op"] == "lost" for e in events), "the trace has lost events")
    need(all(v > 0 for k, v in figures.items() if k.endswith("_ns")), f"no time passed: {figures}")
    figures["bytes_per_event"] = median([written(d) for _, d in found["traced"]]) / calls
    figures["added_once_ns"] = figures["traced.first_ns"] - figures["untraced.first_ns"]
    for key in ("sync", "async"):
        for v in ("traced-no-stacks", "traced-no-nvml", "traced"):
            added = (figures[f"{v}.{key}_ns"] - figures[f"untraced.{key}_ns"]) / (2 * pairs)
            figures[f"added_ns_per_call.{v}.{key}"] = added
        figures[f"ratio.{key}"] = figures[f"traced.{key}_ns"] / figures[f"untraced.{key}_ns"]
        figures[f"events_per_second.{key}"] = 2e9 * pairs / figures[f"traced.{key}_ns"]
    return (f"once {figures['added_once_ns'] / 1e6:.1f} ms; cuMemAlloc/Free x{figures['ratio.sync']:.2f} "
            f"({figures['added_ns_per_call.traced.sync']:.0f} ns a call), cuMemAllocAsync/FreeAsync "
            f"x{figures['ratio.async']:.2f} ({figures['added_ns_per_call.traced.async']:.0f} ns a call, "
            f"{figures['events_per_second.async']:.0f} events/s), {figures['bytes_per_event']:.1f} bytes an event, "
            f"host memory +{figures['traced.host_kb'] - figures['untraced.host_kb']:.0f} KiB"), figures


@check("overhead", "torch", gpu=True)
def torch():
    import section_torch
    section_torch.available()
    script = [sys.executable, os.path.join(machine.HERE, "torch_work.py"), "timing"]
    variants = {"untraced": (script, False, {}), "traced": (script, True, {}),
                "history-python": (script, False, {"TORCH_WORK_HISTORY": "python"})}
    found, begin, longest, n = {v: [] for v in variants}, time.monotonic(), 0.0, 0
    while n < 5 and (n == 0 or time.monotonic() - begin + longest < (5 if machine.QUICK else 85)):
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
    trace = machine.summary(done.trace())["trace"]
    need(trace["events"] > 1000 and trace["lost_events"] == 0, f"{trace['events']} events, {trace['lost_events']} lost")
    seconds = (trace["t_last_ns"] - trace["t_first_ns"]) / 1e9
    figures.update(events=trace["events"], bytes_written=written(done), events_per_second=trace["events"] / seconds)
    return "; ".join(f"{v}: training x{figures[f'ratio.{v}.training_ms']:.3f}, inference "
                     f"x{figures[f'ratio.{v}.inference_ms']:.3f}, host memory x{figures[f'ratio.{v}.host_kb']:.2f}"
                     for v in found if v != "untraced") + \
        f"; {n} rounds, {trace['events']} events, {figures['bytes_written']} bytes written", figures


@check("overhead", "torch-allocator", gpu=True)
def torch_allocator():
    """What each torch.empty costs whose memory PyTorch has cached, 20 Python calls deep."""
    import section_torch
    section_torch.available()
    script = [sys.executable, os.path.join(machine.HERE, "torch_work.py"), "allocator"]
    variants = {"untraced": (script, False, {}), "traced": (script, True, {}),
                "history-python": (script, False, {"TORCH_WORK_HISTORY": "python"})}
    found = rounds("torch-allocator", variants, 1 if machine.QUICK else 3)
    figures = {}
    for v, results in found.items():
        for key in ("pair_ns", "host_kb"):
            figures[f"{v}.{key}"] = median([r[key] for r, _ in results])
    for v in list(variants)[1:]:
        figures[f"added_ns.{v}"] = figures[f"{v}.pair_ns"] - figures["untraced.pair_ns"]
    answer, done = found["traced"][-1]
    trace = machine.summary(done.trace())["trace"]
    need(trace["events"] >= 2 * answer["pairs"], f"{trace['events']} events of {answer['pairs']} pairs")
    need(trace["lost_events"] == 0, f"{trace['lost_events']} events were lost")
    figures["bytes_per_block_event"] = written(done) / trace["events"]
    figures["ratio"] = figures["traced.pair_ns"] / figures["untraced.pair_ns"]
    figures["of_history"] = figures["added_ns.traced"] / figures["added_ns.history-python"]
    return (f"{figures['untraced.pair_ns']:.0f} ns a pair untraced, x{figures['ratio']:.2f} traced; added: "
            + ", ".join(f"{v} {figures[f'added_ns.{v}']:.0f} ns" for v in list(variants)[1:])
            + f"; {figures['of_history']:.2f} of what PyTorch's own history adds; "
            f"{figures['bytes_per_block_event']:.2f} bytes a block event"), figures
