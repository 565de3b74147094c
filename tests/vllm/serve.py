# SPDX-License-Identifier: Apache-2.0
"""One case of cases.py: vLLM in this process, on the simulated GPU.  serve.py CASE

CASE: {"model": folder, "arguments": of vllm.LLM, "steps": [[name, {words}], ...]}. Between the steps it writes what
PyTorch and the driver say at that moment (a line "FIGURES {...}"): the judge replays the trace until then."""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = {"load_format": "dummy", "skip_tokenizer_init": True, "enforce_eager": True, "max_model_len": 2048}
MIB = 1 << 20
held = []  # what lives until the end


def figures(moment):
    import torch
    if not torch.cuda.is_initialized():  # the engine is in processes of its own
        return
    torch.cuda.synchronize()
    stats, (free, total) = torch.cuda.memory_stats(), torch.cuda.mem_get_info()
    print("FIGURES", json.dumps({"moment": moment, "t_ns": time.monotonic_ns(), "free": free, "total": total,
                                 "allocated": stats["allocated_bytes.all.current"],
                                 "reserved": stats["reserved_bytes.all.current"],
                                 "failed": stats["num_ooms"], "retries": stats["num_alloc_retries"]}), flush=True)


def generate(llm, requests=8, tokens=16, prompt=64, shared=0, **sampling):
    """Prompts of token ids; `shared`: how many of the first ones are the same in all."""
    from vllm import SamplingParams
    prompts = [{"prompt_token_ids": [7] * shared + [3 + i % 1000] * (prompt - shared)} for i in range(requests)]
    done = llm.generate(prompts, SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False, **sampling),
                        use_tqdm=False)
    print("SERVED", [len(o.outputs[0].token_ids) for o in done][:8], flush=True)


def counters(llm, *names):
    """vLLM's own counters, of a case that keeps statistics."""
    for metric in llm.get_metrics():
        if metric.name in names:
            print("COUNTER", metric.name, metric.value, flush=True)


def generate_images(llm, requests=4, tokens=4, side=336):
    """Prompts with one picture each."""
    from PIL import Image
    from vllm import SamplingParams
    prompts = [{"prompt": "<image> a picture", "multi_modal_data": {"image": Image.new("RGB", (side, side), (i, 0, 0))}}
               for i in range(requests)]
    done = llm.generate(prompts, SamplingParams(max_tokens=tokens, ignore_eos=True, detokenize=False), use_tqdm=False)
    print("SERVED", [len(o.outputs[0].token_ids) for o in done][:8], flush=True)


def leave_free(_, mib):
    """A tensor of the process's own that takes all but so much."""
    import torch
    free = torch.cuda.mem_get_info()[0]
    held.append(torch.empty(free - mib * MIB, dtype=torch.uint8, device="cuda"))


def take(_, size):
    """The same with so many bytes."""
    import torch
    held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


def give_back(_):
    import torch
    held.clear()
    torch.cuda.empty_cache()


def neighbour(_, leaves=0, device=0, size=None):
    """Another process on the same device takes all but so many MiB, or so many bytes."""
    wanted = f"={size}" if size else str(leaves)
    hidden = ("LD_PRELOAD", "PYTHONPATH")
    other = subprocess.Popen([sys.executable, os.path.join(HERE, "neighbour.py"), wanted, str(device)], text=True,
                             env={k: v for k, v in os.environ.items() if k not in hidden},
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    held.append(other)
    said = other.stdout.readline().strip()
    print("NEIGHBOUR", said, flush=True)
    return said


def sleep(llm, level):
    llm.sleep(level)


def wake_up(llm, tags=None):
    llm.wake_up(tags)


def update_weights(llm, model):
    """New weights from a process that trains on the same device, by CUDA IPC."""
    import base64
    import pickle
    trainer = subprocess.Popen([sys.executable, os.path.join(HERE, "trainer.py"), model], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    update = pickle.loads(base64.b64decode(trainer.stdout.readline()))
    figures("trainer")
    for name, words in (("init_weight_transfer_engine", ({"packed": False},)), ("start_weight_update", ()),
                        ("update_weights", (update,)), ("finish_weight_update", ())):
        llm.collective_rpc(name, args=words)
    trainer.stdin.close()
    trainer.wait()


def leak(llm, rounds, mib, **words):
    """Each round serves, and keeps a tensor for ever."""
    import torch
    for _ in range(rounds):
        held.append(torch.empty(mib * MIB, dtype=torch.uint8, device="cuda"))
        generate(llm, **words)


STEPS = {f.__name__: f for f in (generate, generate_images, leave_free, take, give_back, neighbour, sleep, wake_up,
                                 update_weights, leak)}


def note_ranges(path):
    """Writes down each range that is asked of torch.cuda.nvtx, in order."""
    import torch.cuda.nvtx as nvtx
    push, pop, out = nvtx.range_push, nvtx.range_pop, open(path, "w", encoding="utf-8")  # noqa: SIM115 (to the end)

    def noted_push(message):
        out.write(json.dumps(["range-push", message]) + "\n")
        return push(message)

    def noted_pop():
        out.write(json.dumps(["range-pop", None]) + "\n")
        return pop()

    nvtx.range_push, nvtx.range_pop = noted_push, noted_pop
    return out


def main():
    case = json.loads(sys.argv[1])
    ranges = note_ranges("/opt/run/ranges.txt") if case.get("ranges") else None
    from vllm import LLM
    llm = LLM(model=case["model"], **{**ARGUMENTS, **case["arguments"]})
    figures("started")
    for name, words in case["steps"]:
        STEPS[name](llm, **words)
        figures(name)
    if llm.llm_engine.log_stats:
        counters(llm, "vllm:num_preemptions", "vllm:prefix_cache_hits")
    if ranges:
        ranges.close()
    print("DONE", flush=True)


if __name__ == "__main__":
    main()
