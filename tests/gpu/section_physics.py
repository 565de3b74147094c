# SPDX-License-Identifier: Apache-2.0
"""physics: what memory costs on this driver, and the simulated driver's parameters from it."""
import datetime
import functools
import json
import os

import machine
from gpu_check import check
from machine import MIB, Skip, mib, need

# On the simulated driver the truth is known: these are set, and must be measured again.
SET = {"SIM_MEM_MB": 4096, "SIM_CTX_MB": 98, "SIM_CHUNK": 4 * MIB, "SIM_POOL_GROW": 64 * MIB,
       "SIM_GRANULARITY": 2 * MIB, "SIM_MODULE_KB": 512, "SIM_GRAPH_KB": 128, "SIM_LIMIT": 1, "SIM_MANAGED": 0}


def measure(topic, env):
    """The lines of one topic; on an untraced program."""
    program = machine.driver_program("physics", ["physics.c", "../interception/load.c"])
    arguments = [topic] + (["quick"] if machine.QUICK or machine.SIMULATED else [])
    done = machine.run(f"physics-{topic}", [program, *arguments], traced=False, timeout=60, **env).good()
    return [json.loads(line) for line in done.out.splitlines()]


@functools.lru_cache(None)
def lines(topic):
    found = measure(topic, SET if machine.SIMULATED else {})
    if "wrong-figure" in machine.PLANTS:
        for line in found:
            for i, (k, v) in enumerate(line.items()):
                if isinstance(v, int) and not isinstance(v, bool) and k not in ("bytes", "n", "value"):
                    line[k] = v + 12345 * (i + 1) if k not in ("result", "capture") else 999
    return found


def usual(condition, text):
    """What the simulated driver does; on a GPU a difference is a fact to report, no failure."""
    if condition:
        return ""
    need(not machine.SIMULATED, text)
    return f"; UNUSUAL: {text}"


def expect(name, value, key, tolerance=0):
    """On the simulated driver: the figure is the parameter that was set."""
    if machine.SIMULATED:
        need(abs(value - SET[key]) <= tolerance, f"{name} is {value}, {key} was set to {SET[key]}")


# ---- derived figures, each from one topic's lines ----------------------------------------------------------

def context_bytes(found):
    (c,) = found
    return c["nvml_before"] - c["free"] if c["nvml"] else None


def chunk_bytes(found):
    """What the first small allocation takes from "free"."""
    small = sorted((s for s in found if s["bytes"] <= MIB), key=lambda s: s["bytes"])
    return next((n for s in small for n in (s["first"], s["taken"]) if n > 0), 2 * MIB)


def small_limit(found):
    """The largest size of which several shared a chunk."""
    chunk = chunk_bytes(found)
    shared = [s["bytes"] for s in found if s["n"] > 1 and s["taken"] < s["n"] * chunk]
    return max(shared, default=0)


def derive(get):
    """Parameters of the simulated driver, from `get(topic)`."""
    (c,), sizes = get("context"), get("sizes")
    (pool,), (vmm,), (graph,) = get("pool"), get("vmm"), get("graph")
    out = {"SIM_MEM_MB": c["total"] // MIB, "SIM_CHUNK": chunk_bytes(sizes),
           "SIM_POOL_GROW": pool["reserved_first"], "SIM_GRANULARITY": vmm["minimum"],
           "SIM_GRAPH_KB": max(0, graph["launched"]) // graph["n"] // 1024,
           "SIM_LIMIT": int(any(li["taken"] > 0 for li in get("limits")))}
    if context_bytes(get("context")) is not None:
        out["SIM_CTX_MB"] = round(context_bytes(get("context")) / MIB)
    if c["device_total"] != c["total"]:
        out["SIM_TOTALMEM_MB"] = c["device_total"] // MIB
    if c["nvml"] and c["nvml_total"] != c["total"]:
        out["SIM_NVML_TOTAL_MB"] = c["nvml_total"] // MIB
    managed = get("managed")
    if managed:
        out["SIM_MANAGED"] = int(managed[0]["allocated"] >= managed[0]["bytes"])
    (module,) = get("module")
    out["SIM_MODULE_KB"] = max(0, module["launched"]) // module["n"] // 1024
    return out


# ---- checks ----------------------------------------------------------------------------------------------------

@check("physics", "context-and-capacity")
def context():
    (c,) = lines("context")
    need(0 < c["free"] <= c["total"], f"free {c['free']} of {c['total']}")
    cost = context_bytes([c])
    if cost is None:
        raise Skip("NVML cannot be used, so what a context costs is unknown")
    expect("the context", cost / MIB, "SIM_CTX_MB", 0.001)
    need(cost > 0, f"a context gave back {mib(-cost)}: somebody else's memory changed meanwhile")
    return (f"a context takes {mib(cost)}; capacity: cuMemGetInfo {mib(c['total'])}, cuDeviceTotalMem "
            f"{mib(c['device_total'])}, NVML {mib(c['nvml_total'])}"), {**c, "context_bytes": cost}


@check("physics", "sizes")
def sizes():
    found = lines("sizes")
    note = ""
    for s in found:
        need(s["align"] >= 256 and s["align"] % 256 == 0, f"{s['bytes']} B: addresses are aligned to {s['align']} only")
        need(s["step"] >= s["bytes"], f"{s['bytes']} B: addresses {s['step']} apart")
        note = note or usual(s["none_left"] == 0, f"{s['bytes']} B: {s['none_left']} bytes stay away after the last free")
    chunk = chunk_bytes(found)
    expect("a small allocation", chunk, "SIM_CHUNK")
    large = [s for s in found if s["bytes"] > chunk]
    rounded = sorted({s["taken"] // s["n"] - s["bytes"] for s in large})
    small = [s for s in found if s["bytes"] <= small_limit(found)]
    figures = {"sizes": found, "chunk_bytes": chunk, "largest_shared": small_limit(found),
               "least_step": min(s["least_step"] for s in found), "rounding_of_large": rounded}
    return (f"the first byte takes {mib(chunk)}; up to {small_limit(found)} B several share it, "
            f"{figures['least_step']} B apart at least; {len(small)} small and {len(large)} large sizes; a large one is "
            f"rounded by up to {mib(rounded[-1] if rounded else None)}{note}"), figures


@check("physics", "given-back")
def given_back():
    """When a shared chunk goes back: with its last allocation."""
    found = [s for s in lines("sizes") if s["bytes"] <= small_limit(lines("sizes"))]
    if not found and not machine.SIMULATED:
        return "no size shares a chunk", {}
    need(found, "no size shares a chunk")
    chunk = chunk_bytes(lines("sizes"))
    wrong = [s for s in found if s["one_left"] > s["taken"] or s["none_left"] != 0]
    note = usual(not wrong, f"{len(wrong)} sizes keep memory after their last free: {wrong[:1]}")
    early = sum(s["one_left"] < s["taken"] for s in found if s["taken"] > chunk)
    return (f"{len(found)} small sizes, {len(found) - len(wrong)} all back after the last free; with one allocation left "
            f"{mib(max(s['one_left'] for s in found))} at most stay; {early} sizes gave chunks back before{note}"), {}


@check("physics", "pool")
def pool():
    (p,) = lines("pool")
    expect("the pool's first growth", p["reserved_first"], "SIM_POOL_GROW")
    need(p["trimmed"] == 0, f"after a trim to 0 the pool keeps {p['trimmed']} bytes")
    need(p["kept"] >= 100 * MIB, f"with a release threshold the pool kept {p['kept']} bytes")
    note = usual(p["free_empty"] == 0, f"{p['free_empty']} bytes stay away after everything was freed")
    return (f"the first byte reserves {mib(p['reserved_first'])} (free fell by {mib(p['first'])}), later growths "
            f"{mib(p['growth'])}; freed {mib(p['freed'])} held, after a synchronise {mib(p['synchronised'])}, "
            f"empty {mib(p['empty'])}{note}"), p


@check("physics", "graph")
def graph():
    (g,) = lines("graph")
    expect("an instantiated graph", g["launched"] / g["n"] / 1024, "SIM_GRAPH_KB")
    return (f"{g['n']} graphs of {g['nodes']} nodes: instantiated {mib(g['instantiated'])}, launched "
            f"{mib(g['launched'])}, destroyed {mib(g['destroyed'])}"), g


@check("physics", "limits")
def limits():
    found = lines("limits")
    bad = [x for x in found if x["result"] != 0]
    need(len(found) == 3 and not bad, f"cuCtxSetLimit fails: {bad}")
    if machine.SIMULATED:
        heap = found[0]
        need(heap["taken"] == 120 * MIB, f"a heap of 128 MiB takes {heap['taken']} bytes, not 120 MiB more")
    return ", ".join(f"{x['limit']} {x['value']}: {mib(x['taken'])}" for x in found), {"limits": found}


@check("physics", "vmm")
def vmm():
    (v,) = lines("vmm")
    expect("the granularity", v["minimum"], "SIM_GRANULARITY")
    note = usual(v["taken"] == v["minimum"], f"a handle of {v['minimum']} bytes takes {v['taken']}")
    need(v["odd"] != 0, "a size that is no multiple of the granularity is accepted")
    return f"granularity {mib(v['minimum'])}, recommended {mib(v['recommended'])}; a handle takes {mib(v['taken'])}{note}", v


@check("physics", "managed")
def managed():
    found = lines("managed")
    if not found:
        raise Skip("too little memory is free")
    m = found[0]
    expect("untouched managed memory", int(m["allocated"] >= m["bytes"]), "SIM_MANAGED")
    note = usual(m["freed"] == 0, f"{m['freed']} bytes stay away after the free")
    return f"{mib(m['bytes'])} managed: allocated {mib(m['allocated'])}, touched {mib(m['touched'])}{note}", m


@check("physics", "module", gpu=True)
def module():
    (m,) = lines("module")
    return (f"{m['n']} modules of one empty kernel: loaded {mib(m['loaded'])}, launched {mib(m['launched'])}, unloaded "
            f"{mib(m['unloaded'])}"), m


@check("physics", "meminfo-in-capture")
def capture():
    found = lines("capture")
    need(len(found) == 3, "not every mode was tried")
    wrong = [c for c in found if c["cuMemGetInfo"] or c["capture"]]
    if machine.SIMULATED or not wrong:
        need(not wrong, f"cuMemGetInfo disturbs a capture: {wrong}")
    # On a GPU either answer is a fact to keep; the library never asks while it captures.
    return "; ".join(f"{c['mode']}: cuMemGetInfo {c['cuMemGetInfo']}, capture {c['capture']}" for c in found), {
        "modes": found}


@check("physics", "costs")
def costs():
    found = lines("costs")
    need(all(0 < c["ns"] < 10 ** 10 for c in found) and len(found) == 15, f"{len(found)} costs, not 15")
    if machine.SIMULATED:
        slow = measure("costs", {} if "wrong-figure" in machine.PLANTS else {"SIM_LATENCY_NS": "cuMemFree_v2:3000000"})
        seen = min(c["ns"] for c in slow if c["call"] == "cuMemFree_v2")
        need(seen >= 3000000, f"a free that takes 3 ms is measured as {seen / 1e6} ms")
    return ", ".join(f"{c['call']}({c['bytes']}) {c['ns'] / 1000:.2f}" for c in found) + " us", {"costs": found}


# ---- the simulated driver's parameters ---------------------------------------------------------------------------

def parameters_path():
    return os.path.join(machine.OUT, "physics.params")


def source():
    from gpu_check import probe
    p = probe(machine.environment())
    return f"{p.get('gpu')}, {p.get('driver') or p.get('cuda')}, {datetime.date.today().isoformat()}"


@check("physics", "parameters")
def parameters():
    found, where = derive(lines), source()
    with open(parameters_path(), "w") as f:
        f.write("# Parameters of the simulated driver (SIM_PARAMS=this file), measured by gpu-check.\n")
        if machine.SIMULATED:
            f.write("# From the simulated driver itself: no figure here is one of a GPU.\n")
        for name, value in sorted(found.items()):
            f.write(f"{name} {value}  # source: {where}\n")
        for c in lines("costs"):
            f.write(f"# cost_us {c['call']} {c['bytes']} B: {c['ns'] / 1000:.2f}  # source: {where}\n")
    if machine.SIMULATED:
        wrong = {k: v for k, v in found.items() if k in SET and v != SET[k]}
        need(not wrong, f"measured {wrong}, set were {({k: SET[k] for k in wrong})}")
    return ", ".join(f"{k} {v}" for k, v in sorted(found.items())), found


@check("physics", "calibrated")
def calibrated():
    """The simulated driver with these parameters, measured in the same way, gives the same figures."""
    if not os.path.exists(os.path.join(machine.SIM, "libcuda.so.1")):
        raise Skip("the simulated driver is not here")
    wanted = derive(lines)
    if not os.path.exists(parameters_path()):
        parameters()
    env = {"SIM_PARAMS": parameters_path(), "LD_LIBRARY_PATH": machine.SIM}
    if "wrong-calibration" in machine.PLANTS:
        env["SIM_CTX_MB"] = 7
    measured = functools.lru_cache(None)(lambda topic: measure(topic, env))
    again = derive(measured)
    wrong = {k: (v, again.get(k)) for k, v in wanted.items() if again.get(k) != v}
    need(not wrong, "measured on this driver and on the simulated one: " +
         ", ".join(f"{k} {a} and {b}" for k, (a, b) in wrong.items()))
    small = small_limit(lines("sizes")), small_limit(measured("sizes"))
    step = tuple(min(s["least_step"] for s in f) for f in (lines("sizes"), measured("sizes")))
    return (f"{len(wanted)} parameters measured again on the simulated driver; largest shared size {small[0]} and "
            f"{small[1]}, least step {step[0]} and {step[1]}"), {"largest_shared": small, "least_step": step}
