# SPDX-License-Identifier: Apache-2.0
"""look-ups: which functions the driver returns, under which names, and which of them the runtime calls."""
import functools
import json
import os
import re
import subprocess

import machine
import section_ways_in
from gpu_check import check
from machine import Skip, need


@functools.lru_cache(None)
def table(traced):
    """(driver's version, headers' version, rows) of lookups.c."""
    program = machine.driver_program("lookups", ["lookups.c"])
    done = machine.run("lookups", [program], traced=traced)
    if done.rc == 77:
        raise Skip("the driver cannot be used")
    head, *rows = map(json.loads, done.good().out.splitlines())
    need(rows, "the table is empty")
    if "wrong-look-up" in machine.PLANTS:
        rows[5].update(same=False, exported=True, resolved=True)
        rows[6].update(exported=False, abi=3020)
        rows[7].update(resolved_in="libcuda.so.1", dlsym_in="libcuda.so.1")
    return head["version"], head["headers"], rows


def names(rows, most=12):
    listed = [f"{r['symbol']} ({r['base']} {r['abi']}{' ptsz' if r['ptsz'] else ''})" for r in rows]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


@check("look-ups", "addresses-are-exports")
def addresses():
    version, _, rows = table(False)
    both = [r for r in rows if r["exported"] and r["resolved"]]
    different = [r for r in both if not r["same"]]
    different1 = [r for r in both if not r["same1"]]
    figures = {"compared": len(both), "different": [r["symbol"] for r in different],
               "different_4_arguments": [r["symbol"] for r in different1], "driver": version,
               "where": sorted({str(r["resolved_in"]) for r in both})}
    need(both, "cuGetProcAddress found no function of the table")
    need(not different and not different1, f"{len(different)} of {len(both)} addresses that cuGetProcAddress_v2 "
         f"returns are not the exports: {names(different or different1)}")
    return f"all {len(both)} addresses that cuGetProcAddress returns are the exported functions", figures


@check("look-ups", "table-against-driver")
def missing():
    """A function that the driver's version should have and has not is a mistake of the table."""
    version, headers, rows = table(False)
    absent = [r for r in rows if not r["exported"]]
    due = [r for r in absent if r["abi"] <= version]
    unresolved = [r for r in rows if r["exported"] and not r["resolved"]]
    figures = {"driver": version, "headers": headers, "rows": len(rows), "absent": [r["symbol"] for r in absent],
               "exported_but_not_resolved": [r["symbol"] for r in unresolved]}
    need(not due, f"the driver ({version}) lacks {len(due)} functions of the table: {names(due)}")
    return (f"of {len(rows)} functions this driver ({version}) lacks {len(absent)}"
            f"{': ' + names(absent) if absent else ''}; exported but not handed out by cuGetProcAddress: "
            f"{len(unresolved)}{' (' + names(unresolved, 4) + ')' if unresolved else ''}"), figures


@check("look-ups", "every-way-is-wrapped")
def wrapped():
    _, _, rows = table(True)
    open_ = [r for r in rows for key in ("dlsym_in", "resolved_in", "resolved1_in")
             if r[key] and r[key] != "libcutrace.so"]
    wrong = [r for r in rows for key in ("dlsym_in", "resolved_in", "resolved1_in")
             if r[key] == "libcutrace.so" and r[key + "_name"] not in ("", r["symbol"])]
    n = sum(bool(r["resolved_in"]) for r in rows)
    need(not open_, f"the driver's own function comes through: {names(open_)}")
    need(not wrong, f"another ABI's wrapper is handed out: {names(wrong)}")
    return f"{n} functions by cuGetProcAddress_v2, {sum(bool(r['dlsym_in']) for r in rows)} by dlsym", {"wrapped": n}


# ---- what the driver has that nobody wraps -------------------------------------------------------------

MEMORY = re.compile(r"cu(Mem(?!cpy|set|Batch)|Array|Mipmapped|Ipc(?!.*Event)|Multicast|CtxCreate|CtxDestroy|CtxDetach|"
                    r"CtxSetLimit|CtxReset|GreenCtx|DevicePrimaryCtx|DeviceGraphMem|Module(?!Get|Enumerate)|Library(?!Get|"
                    r"Enumerate)|LinkComplete|GraphAddMem(Alloc|Free)|Import|External|DestroyExternal|Graphics.*Resource|"
                    r"Checkpoint)")
# Queries and policies, old names that CUDA's headers no longer declare, and what belongs to memory and takes none.
OTHER = re.compile(r"(Get(?!Handle|MemHandle|Info)|_v1$|_ptds$|Prefetch|Advise|MemcpyAtoA|ExternalSemaphore|"
                   r"ResetPersistingL2Cache|ResourceSetMapFlags|GreenCtx(Record|Wait)Event)")


def known_names():
    known = set()
    for name in ("hooks.def", "excluded.def"):
        with open(os.path.join(machine.ROOT, "preload", "intercept", name)) as f:
            text = f.read()
        known |= set(re.findall(r"CT_(?:HOOK0?|[A-Z]+_HOOK)\((cu[A-Z]\w*)", text))
        for symbols in re.findall(r'CT_EXCLUDE\("[^"]*",([^)]*)', text):
            known |= set(re.findall(r"cu[A-Z]\w*", symbols))
    return known


@check("look-ups", "memory-functions-known")
def driver_names():
    """Every exported name of the driver that speaks of memory is in the hook table or in the exclusions."""
    library = machine.driver_file()
    if not library:
        raise Skip("libcuda.so.1 was not found by name")
    r = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True)
    need(r.returncode == 0, "nm: " + r.stderr.strip()[:200])
    exported = sorted({line.split()[-1].split("@")[0] for line in r.stdout.splitlines()})
    if "wrong-look-up" in machine.PLANTS:
        exported.append("cuMemAllocNew")
    exported = [n for n in exported if re.match(r"cu[A-Z]", n)]
    known = known_names()
    memory = [n for n in exported if MEMORY.match(n)]
    unknown = [n for n in memory if n not in known and not OTHER.search(n)]
    figures = {"exported": len(exported), "memory": len(memory), "unknown": unknown}
    need(memory, "no function of the driver speaks of memory")
    need(not unknown, f"the driver exports functions that neither the table nor its exclusions know: "
                      f"{', '.join(unknown[:20])}")
    return f"{len(memory)} of {len(exported)} exported functions speak of memory, and all are known", figures


@check("look-ups", "unwrapped-counted")
def counted():
    """A look-up that passes is counted by name in the trace."""
    program = machine.driver_program("ways", ["ways.c", "../interception/load.c"])
    done = machine.run("unwrapped", [program, "chain2"]).good()
    unwrapped = section_ways_in.unwrapped(done.trace())
    memory = [n for n in unwrapped if MEMORY.match(n) and n not in known_names() and not OTHER.search(n)]
    need("cuInit" in unwrapped, f"cuInit passed and was not counted; counted are {unwrapped}")
    need(not memory, f"memory functions passed: {', '.join(memory)}")
    return f"{len(unwrapped)} names passed, none of them speaks of memory", {"names": unwrapped}


# ---- what the runtime calls ------------------------------------------------------------------------------

@functools.lru_cache(None)
def runtime_calls(linkage, what):
    program = section_ways_in.runtime(linkage, "gcc")
    done = machine.run(f"calls-{what}", [program, what]).good()
    return machine.hook_calls(done.trace()), machine.events(done.trace())


EXPECTED = {"malloc": ("cuMemAlloc", "alloc"), "free": ("cuMemFree", "free"),
            "malloc-async": ("cuMemAlloc", "alloc"), "reset": ("cuDevicePrimaryCtxReset", "context-destroy"),
            "exit": ("", "alloc")}
STEP = {"malloc": "init", "free": "malloc", "malloc-async": "init", "reset": "malloc", "exit": "malloc"}


def runtime_check(linkage, what):
    @check("look-ups", f"calls-of-{what}-{linkage}")
    def one():
        before, _ = runtime_calls(linkage, STEP[what])
        calls, events = runtime_calls(linkage, what)
        more = {k: v - before.get(k, 0) for k, v in calls.items()
                if v > before.get(k, 0) and k != "cuMemGetInfo_v2" and not k.startswith("cuGetProcAddress")}
        prefix, op = EXPECTED[what]
        seen = [e for e in events if e["op"] == op and e["result"] == 0]
        need(any(k.startswith(prefix) for k in more) or not prefix,
             f"no call of {prefix}* more than {STEP[what]} makes: {more}")
        need(seen, f"no {op} event")
        own = [e for e in events if e["op"] == "alloc" and e["bytes"] == 5 << 20]
        need(len(own) == 1, f"{len(own)} events for the one allocation")
        return ", ".join(f"{k} x{v}" for k, v in sorted(more.items())) or "nothing more", {"calls": more}


for _linkage in ("shared", "static"):
    for _what in EXPECTED:
        runtime_check(_linkage, _what)


@check("look-ups", "libraries-unwrapped", gpu=True)
def libraries():
    """Which names NVIDIA's libraries fetch that pass unwrapped, and whether one speaks of memory."""
    found = {}
    for name, file in section_ways_in.LIBRARIES:
        path = machine.find_library(file)
        if path:
            try:
                found[name] = section_ways_in.unwrapped(section_ways_in.run_of(name, path).trace())
            except Skip:
                pass
    if not found:
        raise Skip("none of cuBLAS, cuFFT, cuSOLVER, NCCL is here")
    known = known_names()
    memory = sorted({n for names_ in found.values() for n in names_
                     if MEMORY.match(n) and n not in known and not OTHER.search(n)})
    need(not memory, f"memory functions passed: {', '.join(memory)}")
    return ", ".join(f"{k}: {len(v)} names" for k, v in found.items()) + " passed, none speaks of memory", found
