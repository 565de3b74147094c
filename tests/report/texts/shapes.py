# SPDX-License-Identifier: Apache-2.0
"""What programs print when memory runs out, and what they print when it does not, with figures of our own.

Each function writes one shape: PyTorch's messages by version, tracebacks of vLLM's engines, lines of servers.
"""

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HINT = {
    "none": "",
    "split": " If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See "
             "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
    "expandable": " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF="
                  "expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
                  "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
    "short": " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF="
             "expandable_segments:True to avoid fragmentation.",
    "alloc": " If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to "
             "avoid fragmentation.  See documentation for Memory Management",
    "vllm": " If this problem persists, try setting VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0",
}


def size(n):
    """As PyTorch prints it: the unit changes above 1024, not at it."""
    if n <= KIB:
        return f"{n} bytes"
    if n <= MIB:
        return f"{n / KIB:.2f} KiB"
    if n <= GIB:
        return f"{n / MIB:.2f} MiB"
    return f"{n / GIB:.2f} GiB"


class Full:
    """The figures of a device that is full, from a random generator; each can be set."""

    def __init__(self, rng, **given):
        self.total = rng.choice([8, 15.78, 22.17, 23.69, 39.39, 44.53, 79.15, 79.33, 94.5]) * GIB
        self.tried = rng.choice([2, 20, 26, 64, 112, 136, 192, 252, 344, 512, 896]) * MIB
        self.free = self.tried * rng.uniform(0.05, 0.9)
        self.context = rng.uniform(0.25, 0.55) * GIB
        self.idle = rng.uniform(0, 40) * MIB
        self.private = 0
        self.gpu, self.pid, self.others, self.hint = 0, rng.randrange(200, 99999), [], "expandable"
        for name, value in given.items():
            setattr(self, name, value)

    @property
    def in_use(self):
        return self.total - self.free - sum(n for _, n in self.others)

    @property
    def allocated(self):
        return self.in_use - self.context - self.idle


def old(f, last="reserved in total by PyTorch", hint=False, allowed=False, name="RuntimeError"):
    """torch 1.0 to 2.0. Up to 1.3 the last figure is what is cached and not allocated (pytorch#16417: 8.57 MiB allocated, 4.68 cached)."""
    text = (f"{name}: CUDA out of memory. Tried to allocate {size(f.tried)} (GPU {f.gpu}; {size(f.total)} total capacity; "
            f"{size(f.allocated)} already allocated; {size(f.free)} free; ")
    if allowed:
        text += f"{size(f.total * 0.9)} allowed; "
    text += f"{size(f.idle if last == 'cached' else f.allocated + f.idle)} {last})"
    if hint:
        text += (" If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See "
                 "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF")
    return text


def new(f, name="torch.OutOfMemoryError", capacity="capacity", backend="CUDA", own="this"):
    """torch 2.1 and later. own: how the process names itself: this, pid (a lone number), none."""
    if backend == "XPU":
        return (f"{name}: XPU out of memory. Tried to allocate {size(f.tried)}. GPU {f.gpu} has a total capacity of "
                f"{size(f.total)} of which {size(f.free)} is free. Of the allocated memory {size(f.allocated)} is "
                f"allocated by PyTorch, and {size(f.idle)} is reserved by PyTorch but unallocated. Please use "
                "`empty_cache` to release all unoccupied cached memory.")
    text = (f"{name}: {backend} out of memory. Tried to allocate {size(f.tried)}. GPU {f.gpu} has a total {capacity} of "
            f"{size(f.total)} of which {size(f.free)} is free. ")
    mine = {"this": f"Including non-PyTorch memory, this process has {size(f.in_use)} memory in use. ",
            "pid": f"Process {f.pid} has {size(f.in_use)} memory in use. ", "none": ""}[own]
    lines = [f"Process {pid} has {size(n)} memory in use. " for pid, n in f.others]
    lines.insert(len(lines) // 2, mine)
    text += "".join(lines) + f"Of the allocated memory {size(f.allocated)} is allocated by PyTorch, "
    if f.private:
        text += f"with {size(f.private)} allocated in private pools (e.g., {backend} Graphs), "
    return text + f"and {size(f.idle)} is reserved by PyTorch but unallocated." + HINT[f.hint]


def asynchronous(f, limit=True, device="0"):
    """cudaMallocAsync, torch 2.0 to 2.7."""
    bound = "17179869184.00 GiB" if limit else size(f.total)
    return (f"torch.cuda.OutOfMemoryError: Allocation on device {device} would exceed allowed memory. (out of memory)\n"
            f"Currently allocated     : {size(f.allocated)}\nRequested               : {size(f.tried)}\n"
            f"Device limit            : {size(f.total)}\nFree (according to CUDA): {size(f.free)}\n"
            f"PyTorch limit (set by user-supplied memory fraction)\n                        : {bound}")


CUDA_ERROR = ("RuntimeError: CUDA error: out of memory\n"
              "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
              "be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
              "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.")


def traceback(frames, root="/usr/local/lib/python3.12/dist-packages/vllm/"):
    """frames: (file, function) from the outermost on."""
    lines = ["Traceback (most recent call last):"]
    for i, (file, function) in enumerate(frames):
        path = file if file.startswith("/") else root + file
        lines += [f'  File "{path}", line {100 + 17 * i}, in {function}', f"    return step_{i}(*args, **kwargs)",
                  "           ^^^^^^^^^^^^^^^^^^^^^^^"]
    return "\n".join(lines)


CORE = [("v1/engine/core.py", "run_engine_core"), ("v1/engine/core.py", "__init__")]
LOOP = [("v1/engine/core.py", "run_engine_core"), ("v1/engine/core.py", "run_busy_loop"), ("v1/engine/core.py", "step")]
EXECUTE = [*LOOP, ("v1/executor/uniproc_executor.py", "collective_rpc"), ("v1/worker/gpu_worker.py", "execute_model"),
           ("v1/worker/gpu_model_runner.py", "execute_model")]
STEP0 = [("engine/async_llm_engine.py", "run_engine_loop"), ("engine/async_llm_engine.py", "engine_step"),
         ("worker/worker.py", "execute_model"), ("worker/model_runner.py", "execute_model")]
LINEAR = [("model_executor/layers/linear.py", "forward"), ("model_executor/layers/utils.py", "default_unquantized_gemm")]
TORCH = "/usr/local/lib/python3.12/dist-packages/torch/"
LAYER = [(TORCH + "nn/modules/module.py", "_call_impl"), ("model_executor/models/qwen2.py", "forward"), *LINEAR]

# name: frames, in the words of vLLM's versions
PLACES = {
    "weights-v0": [("engine/llm_engine.py", "__init__"), ("executor/gpu_executor.py", "_init_executor"),
                   ("worker/worker.py", "load_model"), ("worker/model_runner.py", "load_model"),
                   ("model_executor/models/llama.py", "__init__"), ("model_executor/layers/linear.py", "create_weights")],
    "weights-v1": [*CORE, ("v1/worker/gpu_worker.py", "load_model"), ("v1/worker/gpu_model_runner.py", "load_model"),
                   ("model_executor/model_loader/base_loader.py", "load_model"),
                   ("model_executor/layers/linear.py", "create_weights")],
    "repack-v1": [*CORE, ("v1/worker/gpu_worker.py", "load_model"), ("v1/worker/gpu_model_runner.py", "load_model"),
                  ("model_executor/model_loader/utils.py", "process_weights_after_loading"),
                  ("model_executor/layers/quantization/gptq_marlin.py", "process_weights_after_loading"),
                  ("_custom_ops.py", "gptq_marlin_repack")],
    "repack-mxfp4": [*CORE, ("v1/worker/gpu_worker.py", "load_model"),
                     ("model_executor/model_loader/base_loader.py", "load_model"),
                     ("model_executor/layers/quantization/mxfp4.py", "process_weights_after_loading")],
    "profile-old": [("engine/llm_engine.py", "_init_cache"), ("worker/worker.py", "profile_num_available_blocks"),
                    ("worker/worker.py", "execute_model"), *LAYER],
    "profile-v0": [("engine/llm_engine.py", "_initialize_kv_caches"),
                   ("worker/worker.py", "determine_num_available_blocks"), ("worker/model_runner.py", "profile_run"),
                   ("worker/model_runner.py", "execute_model"), *LAYER],
    "profile-v1": [*CORE, ("v1/engine/core.py", "_initialize_kv_caches"),
                   ("v1/worker/gpu_worker.py", "determine_available_memory"),
                   ("v1/worker/gpu_model_runner.py", "profile_run"), ("v1/worker/gpu_model_runner.py", "_dummy_run"), *LAYER],
    "profile-mrv2": [*CORE, ("v1/worker/gpu_worker.py", "determine_available_memory"),
                     ("v1/worker/gpu/model_runner.py", "profile_run"), ("v1/worker/gpu/model_runner.py", "_dummy_run"),
                     ("v1/worker/gpu/model_runner.py", "execute_model"), *LAYER],
    "vision-v1": [*CORE, ("v1/worker/gpu_worker.py", "determine_available_memory"),
                  ("v1/worker/gpu_model_runner.py", "profile_run"), ("model_executor/models/qwen2_vl.py", "embed_multimodal"),
                  ("model_executor/models/qwen2_vl.py", "_process_image_input")],
    "vision-serve": [*EXECUTE, ("v1/worker/gpu_model_runner.py", "_execute_mm_encoder"),
                     ("model_executor/models/internvl.py", "get_multimodal_embeddings")],
    "kv-v0": [("engine/llm_engine.py", "_initialize_kv_caches"), ("worker/worker.py", "initialize_cache"),
              ("worker/worker.py", "_init_cache_engine"), ("worker/cache_engine.py", "_allocate_kv_cache")],
    "kv-v1": [*CORE, ("v1/engine/core.py", "_initialize_kv_caches"), ("v1/worker/gpu_worker.py", "initialize_from_config"),
              ("v1/worker/gpu_model_runner.py", "initialize_kv_cache"),
              ("v1/worker/gpu_model_runner.py", "_allocate_kv_cache_tensors")],
    "graphs-v0": [("engine/llm_engine.py", "_initialize_kv_caches"), ("worker/worker.py", "initialize_cache"),
                  ("worker/worker.py", "_warm_up_model"), ("worker/model_runner.py", "capture_model"),
                  ("worker/model_runner.py", "capture")],
    "graphs-v1": [*CORE, ("v1/worker/gpu_worker.py", "compile_or_warm_up_model"),
                  ("v1/worker/gpu_model_runner.py", "capture_model"), ("v1/worker/gpu_model_runner.py", "_dummy_run"),
                  ("compilation/backends.py", "__call__"), (TORCH + "cuda/graphs.py", "capture_end")],
    "graphs-mrv2": [*CORE, ("v1/worker/gpu_worker.py", "compile_or_warm_up_model"),
                    ("v1/worker/gpu/model_runner.py", "capture_model"), ("v1/worker/gpu/cudagraph_utils.py", "capture")],
    "sampler-v1": [*CORE, ("v1/worker/gpu_worker.py", "compile_or_warm_up_model"),
                   ("v1/worker/gpu_model_runner.py", "_dummy_sampler_run"), ("v1/sample/sampler.py", "sample"),
                   ("v1/sample/ops/topk_topp_sampler.py", "apply_top_k_top_p")],
    "sampler-mrv2": [*CORE, ("v1/worker/gpu_worker.py", "compile_or_warm_up_model"), ("v1/worker/gpu/warmup.py", "warmup_kernels"),
                     ("v1/worker/gpu/model_runner.py", "sample_tokens")],
    "kernels-v1": [*CORE, ("v1/worker/gpu_worker.py", "compile_or_warm_up_model"),
                   ("model_executor/warmup/kernel_warmup.py", "kernel_warmup"),
                   ("model_executor/warmup/deep_gemm_warmup.py", "deep_gemm_warmup")],
    "serve-v0": [*STEP0, *LAYER],
    "serve-v1": [*EXECUTE, *LAYER],
    "serve-mrv2": [*LOOP, ("v1/worker/gpu_worker.py", "execute_model"), ("v1/worker/gpu/model_runner.py", "execute_model"),
                   ("model_executor/models/llama.py", "forward"), ("model_executor/layers/activation.py", "forward_cuda")],
    "serve-tp-v0": [("executor/multiproc_worker_utils.py", "_run_worker_process"),
                    ("worker/worker_base.py", "start_worker_execution_loop"), ("worker/worker_base.py", "execute_model"), *LAYER],
    "logprobs-v1": [*EXECUTE, ("v1/worker/gpu_model_runner.py", "_get_prompt_logprobs_dict"),
                    ("model_executor/models/deepseek_v2.py", "compute_logits"),
                    ("distributed/communication_op.py", "tensor_model_parallel_all_gather")],
    "logits-v0": [*STEP0, ("model_executor/models/llama.py", "compute_logits"),
                  ("model_executor/layers/logits_processor.py", "_get_logits")],
    "softmax-v0": [*STEP0, ("model_executor/layers/sampler.py", "forward"), (TORCH + "nn/functional.py", "log_softmax")],
    "wake-v1": [("entrypoints/llm.py", "wake_up"), ("v1/worker/gpu_worker.py", "wake_up"),
                ("device_allocator/cumem.py", "wake_up"), ("device_allocator/cumem.py", "create_and_map")],
    "lora-v0": [*STEP0, ("lora/worker_manager.py", "_apply_adapters"), ("lora/models.py", "activate_adapter")],
    "lora-v1": [*CORE, ("v1/worker/gpu_worker.py", "load_model"), ("v1/worker/lora_model_runner_mixin.py", "load_lora_model"),
                ("lora/layers/base_linear.py", "create_lora_weights")],
    "draft-v0": [("spec_decode/spec_decode_worker.py", "execute_model"), ("spec_decode/multi_step_worker.py", "sampler_output")],
    "draft-v1": [*EXECUTE, ("v1/worker/gpu_model_runner.py", "propose_draft_token_ids"), ("v1/spec_decode/eagle.py", "propose")],
    "nccl-v1": [*CORE, ("v1/worker/gpu_worker.py", "init_device"), ("distributed/parallel_state.py", "__init__"),
                ("distributed/device_communicators/pynccl.py", "__init__"),
                ("distributed/device_communicators/pynccl_wrapper.py", "ncclCommInitRank")],
    "sync-v1": [("v1/worker/gpu_worker.py", "update_weights"), ("distributed/weight_transfer/packed_tensor.py", "receive")],
    "sync-ipc": [("v1/worker/gpu_worker.py", "update_weights"), ("distributed/weight_transfer/ipc_engine.py", "receive_weights")],
    "pinned-v0": [("engine/llm_engine.py", "_initialize_kv_caches"), ("worker/worker.py", "initialize_cache"),
                  ("worker/cache_engine.py", "_allocate_kv_cache")],
    "pinned-torch": [("/home/me/train/data.py", "collate"), (TORCH + "utils/data/_utils/pin_memory.py", "pin_memory")],
    "train-hf": [("/usr/lib/python3/site-packages/transformers/trainer.py", "train"),
                 ("/usr/lib/python3/site-packages/transformers/trainer.py", "_inner_training_loop"),
                 ("/usr/lib/python3/site-packages/transformers/trainer.py", "training_step"),
                 (TORCH + "_tensor.py", "backward")],
    "train-optim": [("/home/me/train.py", "main"), (TORCH + "optim/adamw.py", "step"), (TORCH + "optim/adamw.py", "_init_group")],
    "hf-load": [("/home/me/run.py", "<module>"), ("/usr/lib/python3/site-packages/transformers/modeling_utils.py", "from_pretrained"),
                ("/usr/lib/python3/site-packages/transformers/modeling_utils.py", "_load_pretrained_model")],
    "sglang-serve": [("/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", "event_loop_overlap"),
                     ("/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", "run_batch"),
                     ("/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py", "forward_extend")],
    "sglang-graphs": [("/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py", "init_cuda_graphs"),
                      ("/sgl-workspace/sglang/python/sglang/srt/model_executor/cuda_graph_runner.py", "capture_one_batch_size")],
    "sglang-load": [("/sgl-workspace/sglang/python/sglang/srt/managers/tp_worker.py", "__init__"),
                    ("/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py", "load_model")],
    "tgi-serve": [("/opt/conda/lib/python3.11/site-packages/text_generation_server/server.py", "Prefill"),
                  ("/opt/conda/lib/python3.11/site-packages/text_generation_server/models/flash_causal_lm.py", "generate_token")],
    "tgi-warmup": [("/opt/conda/lib/python3.11/site-packages/text_generation_server/server.py", "Warmup"),
                   ("/opt/conda/lib/python3.11/site-packages/text_generation_server/models/flash_causal_lm.py", "warmup")],
}
SCENARIO = {  # of a place, where memory of the device ran out
    "weights": "startup-weights", "hf-load": "startup-weights", "repack": "repack", "profile": "startup-profile",
    "vision": "multimodal", "kv": "startup-kv-pool", "graphs": "graph-capture", "sampler": "warmup", "kernels": "warmup",
    "serve": "burst-prefill", "logprobs": "logits", "logits": "logits", "softmax": "logits", "wake": "sleep-wake",
    "lora": "lora", "draft": "speculative", "nccl": "communication", "sync": "weight-sync", "pinned": "host-pinned",
    "train": "training-step", "sglang-serve": "burst-prefill", "sglang-graphs": "graph-capture",
    "sglang-load": "startup-weights", "tgi-serve": "burst-prefill", "tgi-warmup": "startup-profile",
}


def scenario_of(place):
    return SCENARIO.get(place) or SCENARIO[place.split("-")[0]]
