# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch writes real memory snapshots: snapshots.py FOLDER CASE...

FOLDER/CASE.pickle is what torch.cuda.memory._dump_snapshot wrote. FOLDER/CASE.json is what the same process says of itself:
`torch` (the version), and for each moment (`end`; `oom`, if a request failed, by an observer that PyTorch calls then) figures of
memory_stats and memory_snapshot, and `asked` (bytes of the request). Functions whose frames name a phase are compiled under the
path of vLLM's file that has a function of this name. Each case is a process of its own."""
import json
import os
import sys

import torch

MIB = 1 << 20
moments, kept = {}, []


def figures():
    stats, segments = torch.cuda.memory_stats(), torch.cuda.memory_snapshot()
    blocks = [b for s in segments for b in s["blocks"]]
    return {"reserved": stats["reserved_bytes.all.current"], "allocated": stats["allocated_bytes.all.current"],
            "active": stats["active_bytes.all.current"], "requested": stats["requested_bytes.all.current"],
            "segments": len(segments), "free": sorted(b["size"] for b in blocks if b["state"] == "inactive"),
            "blocks": sum(b["state"] != "inactive" for b in blocks)}


def take(mib):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def observe():
    """The moment of a failure: before anything is freed that the exception holds."""
    def observer(_device, asked, _total, _free):
        moments["oom"] = {**figures(), "asked": asked}
    torch._C._cuda_attach_out_of_memory_observer(observer)


def fails(function, *arguments):
    try:
        kept.append(function(*arguments))
    except torch.OutOfMemoryError:
        return
    raise AssertionError("no request failed")


def under(path, name, function):
    """A function of this name in this file, which calls another one."""
    space = {"function": function}
    exec(compile(f"def {name}(*arguments):\n    return function(*arguments)\n", path, "exec"), space)  # pylint: disable=exec-used
    return space[name]


def weights(mib):
    load = under("/opt/vllm/vllm/v1/worker/gpu_worker.py", "load_model", take)
    for _ in range(mib // 50):
        kept.append(load(50))


# ---- cases ------------------------------------------------------------------------------------------------

def healthy():
    weights(200)
    kept.append(take(3))
    kept.append(take(0.3))


def without_history():
    torch.cuda.memory._record_memory_history(enabled=None)
    weights(100)


def profile_run():
    weights(500)
    fails(under("/opt/vllm/vllm/v1/worker/gpu_worker.py", "determine_available_memory", take), 700)


def sampler():
    weights(700)
    inner = under("/opt/vllm/vllm/v1/worker/gpu_model_runner.py", "_dummy_sampler_run", take)
    fails(under("/opt/vllm/vllm/v1/worker/gpu_worker.py", "compile_or_warm_up_model", inner), 400)


def load_model():
    fails(weights, 2000)


def fragmented():
    """Eight segments of 100 MiB, each with a block of 60 that stays."""
    whole = [take(100) for _ in range(8)]
    del whole[:]
    for _ in range(8):
        kept.append(take(60))
    fails(take, 210)


def freed_after():
    """What held the pool is given back behind the failure, as by an exception's handler."""
    mine = [take(60) for _ in range(9)]
    fails(take, 700)
    del mine[:]
    torch.cuda.empty_cache()
    kept.append(take(5))


def expandable():
    several = [take(30) for _ in range(12)]
    del several[::2]
    fails(take, 900)
    kept.append(several)


def streams():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = take(150)
        del x
        kept.append(take(40))
    weights(600)
    fails(take, 300)


def graph():
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, capture_error_mode="thread_local"):
        kept.append(take(100))
    kept.append(g)
    fails(take, 1000)


def too_large():
    weights(100)
    fails(take, 3 << 20)


def limit():
    torch.cuda.set_per_process_memory_fraction(0.25)
    weights(150)
    fails(take, 200)


CASES = (healthy, without_history, profile_run, sampler, load_model, fragmented, freed_after, expandable, streams, graph, too_large,
         limit)


def run(folder, name):
    torch.cuda.init()
    case, = [c for c in CASES if c.__name__ == name]
    torch.cuda.memory._record_memory_history(context="all", stacks="all" if name == "fragmented" else "python")
    observe()
    case()
    torch.cuda.synchronize()
    moments["end"] = figures()
    torch.cuda.memory._dump_snapshot(f"{folder}/{name}.pickle")
    with open(f"{folder}/{name}.json", "w", encoding="utf-8") as out:
        json.dump({"torch": torch.__version__, **moments}, out, indent=1)
        out.write("\n")


def main(folder, *names):
    for name in names:
        child = os.fork()  # (before CUDA is used)
        if not child:
            run(folder, name)
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
