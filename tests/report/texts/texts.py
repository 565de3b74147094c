# SPDX-License-Identifier: Apache-2.0
"""The texts that `explain` is tested with: name, the scenario that is right, the shape it is of, the text.

A shape is written once whole and once or twice damaged. `is_kept_aside` says which third was not looked at while the
rules were written: by a hash of the name of the shape, so that all variants of one are on the same side.
"""
import hashlib
import random

import damage
import programs
from shapes import (CUDA_ERROR, GIB, MIB, PLACES, Full, asynchronous, new, old, scenario_of, size, traceback)

SHAPES = []  # name, scenario, source, text
VARIANTS = 2


def number_of(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")


def is_kept_aside(name):
    return number_of("aside " + name.split("@")[0]) % 3 == 0


def shape(name, scenario, source, text):
    SHAPES.append((name, scenario, source, text))


def full(name, **given):
    return Full(random.Random(number_of(name)), **given)


def start(version, *lines, level="INFO"):
    """Lines of vLLM's log."""
    bracket = version >= "0.7.3"
    out = [f"{level} 05-14 09:30:{i % 60:02} {'[' if bracket else ''}worker.py:{200 + i}] {line}"
           for i, line in enumerate(lines)]
    return "\n".join(out)


def args(version, **settings):
    listed = ", ".join(f"'{k}': {v!r}" for k, v in {"model": "/models/x", **settings}.items())
    return start(version, f"Initializing a V1 LLM engine (v{version}) with config: model='/models/x', dtype=torch.bfloat16, "
                          "tensor_parallel_size=1, pipeline_parallel_size=1",
                 "non-default args: {" + listed + "}")


# ---- PyTorch's message alone: it says how full the device is, not why
def bare():
    for name, text in {
            "t1": old(full("t1"), "cached"), "t1-b": old(full("t1-b", gpu=2), "cached"),
            "t2": old(full("t2")), "t2-b": old(full("t2-b", gpu=1)), "t3": old(full("t3"), hint=True),
            "t3-class": old(full("t3-class"), hint=True, name="torch.cuda.OutOfMemoryError"),
            "t4": new(full("t4", hint="split"), "torch.cuda.OutOfMemoryError", "capacty"),
            "t4-pid": new(full("t4-pid", hint="split"), "torch.cuda.OutOfMemoryError", "capacty", own="pid"),
            "t5": new(full("t5")), "t5-old-class": new(full("t5-old-class"), "torch.cuda.OutOfMemoryError"),
            "t5-pid": new(full("t5-pid"), own="pid"), "t5-no-process": new(full("t5-no-process"), own="none"),
            "t5-short": new(full("t5-short", hint="short")), "t5-no-hint": new(full("t5-no-hint", hint="none")),
            "t5-vllm-hint": new(full("t5-vllm-hint", hint="vllm")), "t6": new(full("t6", hint="alloc")),
            "t7": new(full("t7", hint="alloc"), backend="HIP", own="none"),
            "t8": new(full("t8"), "torch.OutOfMemoryError", backend="XPU"),
            "t9": asynchronous(full("t9")), "t9-blank": asynchronous(full("t9-blank"), device=""),
            "t10": f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {size(20 * MIB)}. GPU ",
            "t11": CUDA_ERROR, "repr": f"OutOfMemoryError('{new(full('repr'))[24:]}')"}.items():
        shape(name, "incomplete", name.split("-")[0].upper(), text)
    # Idle memory that exceeds a small request is not fragmentation.
    for i, idle in enumerate((45, 180, 700)):
        f = full(f"slack-{i}", idle=idle * MIB, tried=(2, 26, 112)[i] * MIB, total=79.15 * GIB)
        shape(f"slack-{i}", "incomplete", "T5, section 8", new(f))
    shape("fragmented", "fragmentation", "T5, section 8",
          new(full("fragmented", total=79.15 * GIB, idle=22.4 * GIB, tried=9 * GIB, free=3 * GIB)))
    shape("fragmented-old", "fragmentation", "T2, section 8",
          old(full("fragmented-old", total=15.78 * GIB, idle=4.2 * GIB, tried=1.1 * GIB, free=0.5 * GIB)))
    shape("impossible", "impossible-request", "T5, section 7", new(full("impossible", total=22.17 * GIB, tried=64 * GIB)))
    shape("impossible-old", "impossible-request", "T2, section 7", old(full("impossible-old", total=8 * GIB, tried=3814.7 * GIB)))
    f = full("unlisted", total=44.53 * GIB)
    f.others = [(71, 21.3 * GIB)]
    hidden = new(f).replace(f"Process 71 has {size(21.3 * GIB)} memory in use. ", "")
    shape("unlisted", "co-tenant", "T5: this process and free are half of the device", hidden)
    f = full("fraction", total=39.39 * GIB, free=6 * GIB, tried=3.5 * GIB, idle=0)
    shape("fraction", "mis-budget", "T3a", old(f, allowed=True, name="torch.cuda.OutOfMemoryError"))


# ---- PyTorch's message at the end of a traceback
def placed():
    for place, frames in PLACES.items():
        f = full(place)
        if place.startswith("graphs"):
            f.private = 66 * MIB
        text = new(f) if "old" not in place else old(f, hint=True)
        if place.startswith("wake"):
            text = "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62"
        elif place == "graphs-v1" or place.startswith("pinned"):
            text = CUDA_ERROR
        elif place.startswith("nccl"):
            text = "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
        shape("at-" + place, scenario_of(place), f"section 6: {place}", traceback(frames) + "\n" + text)
    lone = full("lone", tried=252 * MIB)
    shape("lone-process", "warmup", "a lone Process is the process itself (#15105)",
          traceback(PLACES["sampler-v1"]) + "\n" + new(lone, own="pid"))
    ranks = full("ranks", total=79.15 * GIB)
    ranks.others = [(ranks.pid + i, 0.6 * GIB) for i in range(1, 4)]
    shape("sibling-ranks", "graph-capture", "ranks on GPU 0 (#8731)",
          args("0.9.1", tensor_parallel_size=4) .replace("tensor_parallel_size=1", "tensor_parallel_size=4") + "\n" +
          traceback(PLACES["graphs-mrv2"]) + "\n" + new(ranks))
    shape("oom-then-dead", "burst-prefill", "the last line is not the cause",
          traceback(PLACES["serve-v1"]) + "\n" + new(full("dead")) + "\nERROR 05-14 09:31:07 [core.py:842] EngineCore "
          "encountered a fatal error.\n" + traceback([("v1/engine/async_llm.py", "output_handler")]) +
          "\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the "
          "root cause.")
    shape("worker-failed", "burst-prefill", "T11 inside Worker failed with error (QwenVL #1684)",
          traceback(PLACES["serve-v1"]) + "\n" + new(full("wf")) + "\n" +
          traceback([("v1/executor/multiproc_executor.py", "get_response")]) +
          f"\nRuntimeError: Worker failed with error '{new(full('wf'))[24:]}', please check the stack trace above for the "
          "root cause")
    shape("mq-dead", "startup-profile", "MQEngineDeadError with the repr (#15039)",
          traceback(PLACES["profile-v0"]) + "\n" + new(full("mq")) + "\nvllm.engine.multiprocessing.MQEngineDeadError: "
          "Engine loop is not running. Inspect the stacktrace to find the original error: OutOfMemoryError('" +
          new(full("mq"))[24:] + "').")
    shape("dumped", "burst-prefill", "Error in model execution (0.6, #10596)",
          "ERROR 11-20 01:00:00 engine.py:135] OutOfMemoryError('Error in model execution (input dumped to "
          "/tmp/err_execute_model_input_2.pkl): " + new(full("dumped"))[24:] + "')\n" + traceback(PLACES["serve-v0"]) + "\n" +
          new(full("dumped"), "torch.cuda.OutOfMemoryError"))
    shape("step", "burst-prefill", "the scheduler's output of the step", args("0.10.1", max_num_batched_tokens=16384) +
          "\nERROR 05-14 09:31:06 [dump_input.py:79] Dumping scheduler output for model execution: SchedulerOutput("
          "scheduled_new_reqs=[" + "NewRequestData(req_id=1,prompt_token_ids_len=4000), " * 4 + "], num_scheduled_tokens="
          "{a: 4000, b: 4000}, total_num_scheduled_tokens=16000, finished_req_ids=[])\n" +
          traceback(PLACES["serve-v1"]) + "\n" + new(full("step")))
    shape("neighbour", "co-tenant", "one GPU, another process that holds more than was missing",
          args("0.19.0") + "\n" + traceback(PLACES["serve-v1"]) + "\n" +
          new(full("neighbour", others=[(3301, 5.2 * GIB)], total=44.53 * GIB)))
    for place, scenario in (("sync-ipc", "weight-sync"), ("sync-v1", "co-tenant")):
        shape(f"sender-{place}", scenario, "the other process holds the weights that are received, or it is not known to",
              args("0.33.0") + "\n" + traceback(PLACES[place]) + "\n" +
              new(full(f"sender-{place}", others=[(3301, 5.2 * GIB)], total=44.53 * GIB)))
    shape("untracked", "mis-budget", "section 8: much of the process is outside of PyTorch's pool",
          args("0.10.2", gpu_memory_utilization=0.92) + "\n" + start("0.10.2", "Available KV cache memory: 11.40 GiB") + "\n" +
          "INFO:     Application startup complete.\n" + new(full("untracked", total=39.39 * GIB, context=5.1 * GIB)))


# ---- errors that name themselves
def named():
    for i, (longest, need, have) in enumerate(((32768, 4.0, 1.83), (131072, 16.0, 11.02), (40960, 5.62, 3.97))):
        shape(f"to-serve-{i}", "no-room-for-kv-cache", "V1 0.8.2 and later",
              args("0.10.2", max_model_len=longest) + "\n" + traceback(PLACES["profile-v1"][:3]) +
              f"\nValueError: To serve at least one request with the models's max seq len ({longest}), ({need:.2f} GiB KV "
              f"cache is needed, which is larger than the available KV cache memory ({have:.2f} GiB). Based on the "
              f"available memory, the estimated maximum model length is {int(longest * have / need)}. Try increasing "
              "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.")
    shape("to-serve-gb", "no-room-for-kv-cache", "V1 0.8.2: GB", "ValueError: To serve at least one request with the models's max "
          "seq len (65536), (8.00 GB KV cache is needed, which is larger than the available KV cache memory (5.31 GB). Try "
          "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.")
    shape("to-serve-2026", "no-room-for-kv-cache", "2026: model's", "ValueError: To serve at least one request with the model's max "
          "seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory (9.7 GiB). "
          "Based on the available memory, the estimated maximum model length is 105984. Try increasing "
          "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.")
    for i, (longest, tokens) in enumerate(((32768, 10928), (8192, 2640), (131072, 60704))):
        shape(f"max-seq-len-{i}", "no-room-for-kv-cache", "V0 0.2-0.9",
              start("0.5.4", f"# GPU blocks: {tokens // 16}, # CPU blocks: 2048") + f"\nValueError: The model's max seq len "
              f"({longest}) is larger than the maximum number of tokens that can be stored in KV cache ({tokens}). Try "
              "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.")
    no_blocks = ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
                 "initializing the engine.")
    shape("no-blocks-v0", "no-room-for-kv-cache", "V0", traceback([("worker/worker.py", "raise_if_cache_size_invalid")]) + "\n" + no_blocks)
    shape("no-blocks-v1", "no-room-for-kv-cache", "V1: negative KV memory",
          args("0.11.0", gpu_memory_utilization=0.7) + "\n" + start("0.11.0", "Model loading took 17.2 GiB and 10.1 seconds",
                                                                 "Available KV cache memory: -2.14 GiB") +
          "\n" + traceback(PLACES["profile-v1"][:3]) + "\n" + no_blocks + " See https://docs.vllm.ai/ for more details.")
    shape("no-blocks-source", "no-room-for-kv-cache", "the raise statement of pasted source",
          traceback([("v1/core/kv_cache_utils.py", "_check_enough_kv_cache_memory")]) + '\n    raise ValueError("No available '
          'memory for the cache blocks. "\n' + no_blocks)
    shape("auto-fit", "no-room-for-kv-cache", "vllm.md section 6",
          "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token.")
    shape("mamba", "no-room-for-kv-cache", "0.23 and later",
          "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (388). Please lower max_num_seqs.")
    for i, n in enumerate((256, 1024)):
        vocabulary = (128256, 151936)[i]
        f = full(f"sampler-{i}", tried=n * vocabulary * 12, private=40 * MIB)
        shape(f"sampler-error-{i}", "warmup", "V1 0.8.0 and later, raised from T5a",
              traceback(PLACES["sampler-v1"]) + "\n" + new(f) + "\n\nThe above exception was the direct cause of the following "
              "exception:\n\n" + traceback(PLACES["sampler-v1"][:3]) + f"\nRuntimeError: CUDA out of memory occurred when "
              f"warming up sampler with {n} dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` "
              "when initializing the engine.")
    shape("sampler-alone", "warmup", "V1, the last line alone", "RuntimeError: CUDA out of memory occurred when warming up "
          "sampler with 512 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing "
          "the engine.")
    less = ("ValueError: Free memory on device {}({}/{} GiB) on startup is less than desired GPU memory utilization ({}, {} "
            "GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.")
    shape("less-others", "co-tenant", "0.9.1 and later", less.format("", 11.52, 23.69, 0.9, 21.32))
    shape("less-others-2026", "co-tenant", "2026: with the device", less.format("cuda:3 ", 60.1, 79.15, 0.9, 71.24))
    shape("less-tight", "mis-budget", "pytorch #175666: 0.1 GiB were missing", less.format("", 23.2, 23.7, 0.98, 23.23))
    assertion = "AssertionError: Error in memory profiling. Initial free memory {}, current free memory {}. This happens when {}"
    shape("profiling-old", "co-tenant", "0.4-0.8: bytes", assertion.format(21474836480, 23622320128, "the GPU memory was not "
          "properly cleaned up before initializing the vLLM instance."))
    shape("profiling-new", "co-tenant", "0.9 and later", assertion.format("20.14 GiB", "38.66 GiB", "other processes sharing "
          "the same container release GPU memory while vLLM is profiling during initialization. To fix this, ensure "
          "consistent GPU memory allocation or isolate vLLM in its own container."))
    shape("load-failed", "startup-weights", "0.11 and later: with the original error",
          "RuntimeError: Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for "
          "weights, increasing --tensor-parallel-size, or using --quantization. See https://docs.vllm.ai for more tips. "
          f"(original error: {new(full('load-failed'))[24:]})")
    shape("cumem-bare", "sleep-wake", "0.7.2 and later: stderr alone", "CUDA Error: out of memory at "
          "/workspace/csrc/cumem_allocator.cpp:62")
    shape("sleep-then-wake", "sleep-wake", "0.7 and later: after the log of a sleep",
          start("0.11.0", "Sleep mode freed 61.20 GiB memory, 4.11 GiB memory is still in use.",
                "It took 3.1 seconds to fall asleep.") + "\nCUDA Error: out of memory at "
          "/workspace/csrc/cumem_allocator.cpp:145")
    shape("expandable-pool", "sleep-wake", "0.7.4-0.19", "AssertionError: Expandable segments are not compatible with memory "
          "pool. Please track https://github.com/pytorch/pytorch/issues/147851 for the latest updates.")
    shape("nccl-torch", "communication", "torch: NCCL names it", "torch.distributed.DistBackendError: NCCL error in: "
          "../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled cuda error, NCCL version 2.21.5\nncclUnhandledCudaError: "
          "Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'")
    shape("nccl-bare", "communication", "T13", "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for "
          "details)")
    shape("all-reduce", "communication", "custom all-reduce", "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 "
          "'out of memory'")
    shape("cublas", "untracked-growth", "T12", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
          "`cublasCreate(handle)`")
    shape("workspace", "burst-prefill", "vllm.md section 6", "AssertionError: Workspace is locked but allocation from "
          "'flashmla.py:210:forward' requires 512.00 MB, current size is 394.00 MB. Workspace growth is not allowed after "
          "locking.")
    shape("flashinfer", "burst-prefill", "sglang #2102", "RuntimeError: Failed to allocate memory for "
          "batch_prefill_tmp_v with size 570425344 and alignment 16 in AlignedAllocator")


# ---- other servers, and the host
def others():
    shape("sglang-prefill", "no-room-for-kv-cache", "SGLang: tokens", "RuntimeError: Prefill out of memory. Try to lower your batch "
          "size.\nTry to allocate 8192 tokens.\nAvailable tokens: 5120\nself.token_to_kv_pool_allocator.available_size()=4096")
    shape("sglang-prefill-full", "no-room-for-kv-cache", "SGLang 2025: full tokens", "RuntimeError: Prefill out of memory. Try to "
          "lower your batch size.\\nTry to allocate 16384 tokens.\\nAvailable full tokens: 900 (full_available_size=900)")
    shape("sglang-typo", "no-room-for-kv-cache", "SGLang: Avaliable", "RuntimeError: Prefill out of memory. Try to lower your batch "
          "size.\nTry to allocate 1024 tokens.\nAvaliable tokens: 11")
    shape("sglang-static", "no-room-for-kv-cache", "SGLang's start", "RuntimeError: Not enough memory. Please try to increase "
          "--mem-fraction-static.")
    shape("sglang-capture", "graph-capture", "SGLang #5285", "Exception: Capture cuda graph failed: " +
          new(full("sgl-capture"))[24:] + "\nPossible solutions:\n1. set --mem-fraction-static to a smaller value\n2. set "
          "--cuda-graph-max-bs to a smaller value")
    shape("sglang-retract", "preemption", "SGLang's decode", "\n".join(
        f"[2025-08-01 10:00:{i:02}] Decode batch. #running-req: {40 - i}, #token: 98000, token usage: 0.99, gen throughput "
        f"(token/s): 900.1, #queue-req: {i + 3}" for i in range(4)) + "\n[2025-08-01 10:00:05] KV cache pool is full. Retract "
        "requests. #retracted_reqs: 2, #new_token_ratio: 0.51 -> 0.70")
    shape("tgi-escaped", "startup-profile", "TGI #563: T9 escaped in a panic", "thread 'main' panicked at 'Unable to warmup "
          'model: Generation("' + asynchronous(full("tgi", total=22.17 * GIB)).split(": ", 1)[1].replace("\n", "\\n") + '")\', '
          "router/src/main.rs:207:34")
    shape("tgi-prefill", "startup-profile", "TGI: the largest prefill", "RuntimeError: Not enough memory to handle 4096 prefill "
          "tokens. You need to decrease `--max-batch-prefill-tokens`")
    shape("tgi-server-error", "burst-prefill", "TGI #653", "ERROR batch{batch_size=8}:prefill: text_generation_client: Method "
          "Prefill encountered an error.\nServer error: " + old(full("tgi-se"), name="CUDA")[6:].replace("CUDA out", "CUDA out"))
    shape("trt-llm", "startup-weights", "TensorRT-LLM #6281", "[TRT-LLM] [RANK 0] [E] Error executing load_single_module with "
          "args ('model.layers.3.mlp',): " + new(full("trt"))[24:])
    shape("kernel", "host-memory", "Linux", "[ 8123.1] Out of memory: Killed process 21931 (VLLM::EngineCor) total-vm:"
          "98214400kB, anon-rss:60129532kB, file-rss:2048kB, shmem-rss:4194304kB, UID:0 pgtables:120000kB oom_score_adj:0")
    shape("cgroup", "host-memory", "Linux: a container's limit", "kernel: Memory cgroup out of memory: Killed process 99 "
          "(python3) total-vm:64000000kB, anon-rss:33000000kB, file-rss:100kB, shmem-rss:0kB")
    shape("kubernetes", "host-memory", "Kubernetes", "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit "
          "Code:    137")
    shape("ray-oom", "host-memory", "Ray (OpenRLHF #1013)", "ray.exceptions.OutOfMemoryError: Task was killed due to the node "
          "running low on memory.\nMemory on the node (IP: 10.0.0.4, ID: ab) where the task was running was 61.2GB / 62.0GB "
          "(0.98), which exceeds the memory usage threshold of 0.95.")
    shape("ray-died", "incomplete", "Ray #586: causes that it lists", "ray.exceptions.RayActorError: The actor died unexpectedly "
          "before finishing this task.\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
          "Worker exit detail: Worker unexpectedly exits with a connection error code 2. There are some potential root causes. "
          "(1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The "
          "worker is crashed unexpectedly due to SIGSEGV or other unexpected errors.")
    shape("ray-worker", "incomplete", "Ray #2269", "2023-12-27 08:00:00,1\tWARNING worker.py:2074 -- A worker died or was killed "
          "while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead "
          "worker.")
    shape("exit-137", "incomplete", "#15664", "make: *** [serve] Killed\nprocess finished with exit code 137 (SIGKILL)")
    shape("cpu-allocator", "host-memory", "torch", "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. "
          "DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes. Error code 12 (Cannot allocate "
          "memory)")
    shape("pinned-runtime", "host-pinned", "the CUDA runtime", "cudaHostAlloc(&ptr, 34359738368, 0) failed: out of memory")
    shape("driver-old", "driver-mismatch", "torch", "RuntimeError: The NVIDIA driver on your system is too old (found version "
          "11040). Please update your GPU driver by downloading and installing a new version.")
    shape("driver-nvml", "driver-mismatch", "NVML", "Failed to initialize NVML: Driver/library version mismatch\nNVML library "
          "version: 550.90")
    shape("no-kernel", "driver-mismatch", "#1936: the three lines of T11 follow, and it is not memory",
          CUDA_ERROR.replace("out of memory", "no kernel image is available for execution on the device"))
    shape("jax", "unknown", "JAX", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
          "allocate 17179869184 bytes.")


# ---- wrappers alone
def wrappers():
    for name, text in {
            "engine-dead": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) "
                           "for the root cause.",
            "core-init": "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): "
                         "{'EngineCore_DP0': 1}",
            "core-init-old": "Exception: Engine core initialization failed. See root cause above.",
            "async-dead": "vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop has errored already.",
            "mq-already": "ERROR 02-01 00:00:01 client.py:250] MQLLMEngine is already dead, terminating server process",
            "fatal-signal": "CRITICAL 04-02 10:00:00 [core_client.py:269] Got fatal signal from worker processes, shutting down. "
                            "See stack trace above for root cause issue.",
            "worker-hit": "ERROR 03-19 11:00:00 [multiproc_executor.py:375] WorkerProc hit an exception: %s",
            "worker-exception": "ERROR 09-01 10:00:00 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 291 died "
                                "unexpectedly, shutting down executor",
            "engine-process": "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
            "name-only": "torch.OutOfMemoryError"}.items():
        shape(name, "incomplete", "section 4: the last line of a wrapper", text)


# ---- healthy logs, of which some have words that sound like an error
def healthy():
    ok = "INFO:     Application startup complete."
    graphs = ("Capturing cudagraphs for decoding. This may lead to unexpected consequences if the model is not static. To run "
              "the model in eager mode, set 'enforce_eager=True' or use '--enforce-eager' in the CLI. If out-of-memory error "
              "occurs during cudagraph capture, consider decreasing `gpu_memory_utilization` or switching to eager mode. You can "
              "also reduce the `max_num_seqs` as needed to decrease memory usage.")
    for name, lines in {
            "0.2.7": ["# GPU blocks: 3201, # CPU blocks: 512", "Capturing the model for CUDA graphs. This may lead to unexpected "
                      "consequences if the model is not static.", "CUDA graphs can take additional 1~3 GiB memory per GPU. If "
                      "you are running out of memory, consider decreasing `gpu_memory_utilization` or enforcing eager mode.",
                      "Graph capturing finished in 21 secs."],
            "0.4.3": ["Loading model weights took 14.9595 GB", "# GPU blocks: 27896, # CPU blocks: 2048",
                      "Graph capturing finished in 19 secs."],
            "0.6.3": ["Loading model weights took 7.5072 GB", "Memory profiling results: total_gpu_memory=22.17GiB "
                      "initial_memory_usage=8.01GiB peak_torch_memory=9.70GiB memory_usage_post_profile=8.13GiB "
                      "non_torch_memory=0.62GiB kv_cache_size=9.63GiB gpu_memory_utilization=0.90",
                      "# GPU blocks: 4930, # CPU blocks: 2048", "Maximum concurrency for 8192 tokens per request: 9.63x", graphs,
                      "Graph capturing finished in 15 secs, took 0.31 GiB"],
            "0.6.6": ["Memory profiling takes 3.21 seconds", "the current vLLM instance can use total_gpu_memory (14.20GiB) x "
                      "gpu_memory_utilization (0.90) = 12.78GiB", "model weights take 5.20GiB; non_torch_memory takes 0.11GiB; "
                      "PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is 6.05GiB.",
                      "# GPU blocks: 3541, # CPU blocks: 2340", graphs],
            "0.8.5": ["Loading weights took 4.11 seconds", "Model loading took 14.9889 GiB and 5.820512 seconds",
                      "GPU KV cache size: 338,448 tokens", "Maximum concurrency for 32,768 tokens per request: 10.33x",
                      "Graph capturing finished in 23 secs, took 0.53 GiB", "init engine (profile, create kv cache, warmup "
                      "model) took 61.20 seconds"],
            "0.9.0-v0": ["# cuda blocks: 8123, # CPU blocks: 4096", "Maximum concurrency for 16384 tokens per request: 7.93x",
                         graphs],
            "0.10.2": ["Model loading took 15.2683 GiB and 4.1 seconds", "Available KV cache memory: 18.31 GiB",
                       "GPU KV cache size: 149,984 tokens", "Free memory on device (38.79/39.39 GiB) on startup. Desired GPU "
                       "memory utilization is (0.9, 35.45 GiB). Actual usage is 15.27 GiB for weight, 1.43 GiB for peak "
                       "activation, 0.08 GiB for non-torch memory, and 0.66 GiB for CUDAGraph memory. Replace "
                       "gpu_memory_utilization config with `--kv-cache-memory=18786631884` (17.5 GiB) to fit into requested "
                       "memory, or `--kv-cache-memory=22374653132` (20.84 GiB) to fully utilize gpu memory. Current kv cache "
                       "memory in use is 18.31 GiB."],
            "0.12.0": ["Model loading took 27.51 GiB memory and 9.910000 seconds", "Encoder cache will be initialized with a "
                       "budget of 16384 tokens, and profiled with 1 image items of the maximum feature size.",
                       "Available KV cache memory: 40.02 GiB"],
            "0.21.0": ["Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 (largest=256)", "Estimated CUDA graph "
                       "memory: 0.71 GiB total", "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
                       "--gpu-memory-utilization=0.9000 is equivalent to --gpu-memory-utilization=0.8910 without CUDA graph "
                       "memory profiling.", "CUDA graph pool memory: 0.66 GiB (actual), 0.71 GiB (estimated), difference: 0.05 "
                       "GiB (7.0%).", "GPU KV cache size: 96,000 tokens, Maximum concurrency for 8,192 tokens per request: 11.72x"],
            "sleep": ["It took 4.2 seconds to fall asleep.", "CuMemAllocator: sleep freed 30.11 GiB memory in total, of which "
                      "12.55 GiB is backed up in CPU and the rest 17.56 GiB is discarded directly.", "Sleep mode freed 30.11 GiB "
                      "memory, 1.30 GiB memory is still in use.", "It took 0.9 seconds to wake up."]}.items():
        shape("healthy-" + name, "none", "a healthy start", start(name, *lines) + "\n" + ok)
    shape("healthy-sglang", "none", "SGLang's start", "[2025-08-01 10:00:00] Load weight end. type=LlamaForCausalLM, "
          "avail mem=60.1 GB\n[2025-08-01 10:00:01] KV Cache is allocated. #tokens: 421000, K size: 25.7 GB, V size: 25.7 GB\n"
          "[2025-08-01 10:00:02] Memory pool end. avail mem=8.1 GB\n[2025-08-01 10:00:03] Capture cuda graph begin. This can take "
          "up to several minutes. avail mem=7.9 GB\n[2025-08-01 10:00:09] Capture cuda graph end. Time elapsed: 6.1 s.\nThe server "
          "is fired up and ready to roll!")
    shape("healthy-tgi", "none", "TGI's start", "INFO text_generation_router: Setting max batch total tokens to 66688\nINFO "
          "text_generation_router: Connected\n" + start("0.4.3", "Graph capturing finished in 3 secs."))
    shape("healthy-busy", "none", "a busy server", "\n".join(
        f"INFO 05-14 10:{i:02}:00 [loggers.py:116] Engine 000: Avg prompt throughput: 900.1 tokens/s, Avg generation throughput: "
        f"700.3 tokens/s, Running: {30 + i} reqs, Waiting: 0 reqs, GPU KV cache usage: {60 + i}.5%, Prefix cache hit rate: 31.1%"
        for i in range(12)))
    shape("recovered", "recovered", "torch 2.12: a warning, and the start goes on",
          "[rank0]:[W513 10:00:00.1 CUDACachingAllocator.cpp:3934] memory allocation failed with OOM on device 0 while trying to "
          "allocate 11089739776 bytes (free: 10753933312, total: 25769803776).\n" +
          start("0.33.0", "init engine (profile, create kv cache, warmup model) took 20.5 s") + "\n" + ok)
    shape("preempted-v0", "preemption", "V0 0.4-0.9", "WARNING 05-14 11:00:00 scheduler.py:1057] Sequence group 41 is preempted by "
          "PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the end-to-end performance. "
          "Increase gpu_memory_utilization or tensor_parallel_size to provide more KV cache memory. "
          "total_num_cumulative_preemption=51")
    shape("preempted-v1", "preemption", "V1: running falls while requests wait", "\n".join(
        f"INFO 05-14 10:00:{10 * i} [loggers.py:118] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
        f"70.3 tokens/s, Running: {40 - 3 * i} reqs, Waiting: {4 + 3 * i} reqs, GPU KV cache usage: 9{5 + i % 4}.8%, Prefix cache "
        "hit rate: 0.0%" for i in range(5)))
    shape("preempted-count", "preemption", "0.33: a count in the periodic line", "INFO 05-14 10:00:10 [loggers.py:335] Engine 000: "
          "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 7.3 tokens/s, Running: 4 reqs, Waiting: 9 reqs, "
          "Preemptions: 12, GPU KV cache usage: 88.8%, Prefix cache hit rate: 0.0%")
    shape("prefix-falls", "prefix-cache-pressure", "the hit rate falls in a full cache", "\n".join(
        f"INFO 05-14 10:00:{10 * i} [loggers.py:118] Engine 000: Avg prompt throughput: 800.0 tokens/s, Avg generation throughput: "
        f"70.3 tokens/s, Running: 20 reqs, Waiting: 6 reqs, GPU KV cache usage: 96.{i}%, Prefix cache hit rate: {70 - 13 * i}.5%"
        for i in range(5)))
    shape("illegal", "none", "another error than memory", "RuntimeError: CUDA error: an illegal memory access was encountered\n" +
          CUDA_ERROR.split("\n", 1)[1])
    shape("prose", "unknown", "no log at all", "Hello, my server does not work any more since yesterday, what can I do?")


def other_programs():
    for name, scenario, source, text in programs.SHAPES:
        shape(OF_OTHERS + name, scenario, source, text)


OF_OTHERS = "program-"
NEUTRAL = {"ranked", "compose", "gke", "ci", "quoted", "filled", "unindented", "spaced", "crlf", "in_html"}  # (no sign of vLLM's)
for fill in (bare, placed, named, others, wrappers, healthy, other_programs):
    fill()


def fits(name, kind, text):
    """Whether a damage leaves enough of a text: some shapes are one line, whose damage would be none."""
    if name.startswith(OF_OTHERS) and kind not in NEUTRAL:
        return False
    if kind in ("newest_first", "spaced", "unindented", "one_line", "crlf") and text.count("\n") < 2:
        return False
    # In reverse, six lines have no head; in one line, the lines of a load have no ends.
    return not (kind == "newest_first" and (name.startswith(("t9", "tgi", "preempted", "prefix", "sglang", "mq", "sampler"))))


def variants():
    """(name, scenario, source, bytes) of all texts."""
    for name, scenario, source, text in SHAPES:
        yield name, scenario, source, text.encode("latin-1", "replace")
        rng = random.Random(number_of(name))
        lines = [d.__name__ for d in damage.LINES if not name.startswith(OF_OTHERS) or d.__name__ in NEUTRAL]
        forms = [d.__name__ for d in damage.FORM if fits(name, d.__name__, text)]
        for i in range(VARIANTS):
            names = [rng.choice(forms)] if i % 2 == 0 else [rng.choice(lines), rng.choice(forms)]
            damaged = damage.apply(text, names, number_of(name) + i)
            encoding = "latin-1" if "with_control" in names else "utf-8"
            yield f"{name}@{'+'.join(names)}", scenario, source, damaged.encode(encoding, "replace")


TEXTS = list(variants())
