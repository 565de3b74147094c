# SPDX-License-Identifier: Apache-2.0
"""What programs besides vLLM, SGLang and TGI print when memory runs out, with figures of our own.

SHAPES: name, the scenario that is right, where the shape is from, the text. The scenario is what the text itself shows: a
message without a place or a cause is `incomplete`, or `unknown` where it names a place that is of no scenario.
"""
GGML = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating {:.2f} MiB on device {}: cudaMalloc failed: out of memory"
LOAD = """llama_model_loader: loaded meta data with 33 key-value pairs and 291 tensors from /models/m-8b-q4.gguf
load_tensors: loading model tensors, this can take a while... (mmap = true)"""
CONTEXT = """load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
llama_context: constructing llama_context
llama_context: n_seq_max     = 1
llama_context: n_ctx         = 65536
llama_context: n_ubatch      = 512"""
LLAMA = {
    "weights": ("startup-weights", "\n".join([LOAD, GGML.format(15501.25, 0),
                "alloc_tensor_range: failed to allocate CUDA0 buffer of size 16254238720",
                "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
                "llama_model_load_from_file_impl: failed to load model"])),
    "weights-bare": ("startup-weights", GGML.format(7200, 1) + "\nllama_model_load: error loading model: unable to allocate CUDA1 "
                     "buffer"),
    "kv": ("startup-kv-pool", "\n".join([LOAD, CONTEXT, GGML.format(8192, 0),
           "alloc_tensor_range: failed to allocate CUDA0 buffer of size 8589934592",
           "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"])),
    "buffers": ("warmup", "\n".join([LOAD, CONTEXT, "llama_kv_cache: size = 8192.00 MiB ( 65536 cells,  32 layers,  1/1 seqs)",
                GGML.format(4256.02, 0), "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 4462730240",
                "graph_reserve: failed to allocate compute buffers"])),
    "buffers-2024": ("warmup", "llama_new_context_with_model: KV self size  = 1024.00 MiB, K (f16):  512.00 MiB, V (f16):  512.00 MiB\n"
                     + GGML.format(560, 0) + "\nllama_new_context_with_model: failed to allocate compute buffers"),
    "recovered": ("recovered", "\n".join([GGML.format(12010.5, 1),
                  "ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 12593922048",
                  "graph_reserve: failed to allocate compute buffers",
                  "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism",
                  "srv    load_model: initializing, n_slots = 1, n_ctx_slot = 32768", "main: server is listening on http://[::]:8080"])),
    "too-large": ("impossible-request", GGML.format(501002.5, 0) + "\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size "
                  "525339197440\nllama_init_from_model: failed to allocate compute buffers"),
    "pinned": ("host-pinned", "ggml_cuda_host_malloc: failed to allocate 3200.00 MiB of pinned memory: invalid argument"),
    "host": ("host-memory", LOAD + "\nggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 43794432000\n"
             "alloc_tensor_range: failed to allocate CPU buffer of size 43794432000\n"
             "llama_model_load: error loading model: unable to allocate CPU buffer"),
    "host-ollama": ("host-memory", "time=2026-02-02T10:00:00.000Z level=INFO source=sched.go:517 msg=\"Load failed\" error=\"model requires "
                    "more system memory (41.2 GiB) than is available (27.8 GiB)\""),
    "scratch": ("burst-prefill", "\n".join(["main: server is listening on http://127.0.0.1:8080 - starting the main loop",
                "slot update_slots: id  2 | task 44 | prompt processing progress, n_past = 30720, n_tokens = 2048", "CUDA error: out of memory",
                "  current device: 0, in function alloc at /build/ggml/src/ggml-cuda/ggml-cuda.cu:452",
                "  cuMemCreate(&handle, reserve_size, &prop, 0)", "/build/ggml/src/ggml-cuda/ggml-cuda.cu:84: CUDA error"])),
    "graph": ("graph-capture", "CUDA error: out of memory\n  current device: 0, in function ggml_backend_cuda_graph_compute at "
              "/src/ggml-cuda.cu:3001\n  cudaGraphInstantiate(&cuda_ctx->cuda_graph->instance, cuda_ctx->cuda_graph->graph, 0, 0, 0)"),
    "cublas": ("untracked-growth", "CUDA error: the resource allocation failed\n  current device: 1, in function cublas_handle at "
               "/src/ggml-cuda/common.cuh:900\n  cublasCreate_v2(&cublas_handles[device])"),
    "warm-up": ("warmup", "common_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)\n"
                "CUDA error: out of memory\n  current device: 0, in function alloc at /src/ggml-cuda.cu:452"),
    "addresses": ("unknown", "CUDA error: out of memory\n  current device: 0, in function alloc at /src/ggml-cuda.cu:476\n"
                  "  cuMemAddressReserve(&pool_addr, CUDA_POOL_VMM_MAX_SIZE, 0, 0, 0)"),
    "vulkan": ("startup-kv-pool", "ggml_vulkan: Device memory allocation of size 1632174080 failed.\nggml_vulkan: "
               "vk::Device::allocateMemory: ErrorOutOfDeviceMemory\nalloc_tensor_range: failed to allocate Vulkan0 buffer of size "
               "1632174080\nllama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"),
    "jetson": ("startup-weights", LOAD + "\nNvMapMemAllocInternalTagged: 2150145030 error 12\nNvMapMemHandleAlloc: error 0\n" +
               "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2050.54 MiB on device 0: cudaMalloc failed: out of memory"),
}
OTHERS = [
    ("jax-plan", "impossible-request", "JAX", """jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9663676416 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    3.10GiB
     preallocated temp allocation:    9.00GiB
                 total allocation:   18.31GiB"""),
    ("jax-small", "unknown", "JAX", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
     "60.00MiB with allocator GPU_0_bfc on device 0."),
    ("jax-tries", "recovered", "JAX: tries of its pool, and it goes on", "\n".join(
        f"2026-03-03 10:00:0{i}.5: E external/xla/xla/stream_executor/cuda/cuda_executor.cc:1000] failed to allocate {size:.2f}GiB "
        f"({int(size * 2**30)} bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory" for i, size in enumerate((17.6, 15.84, 14.26)))),
    ("tf-tensor", "unknown", "TensorFlow", "tensorflow/core/framework/op_kernel.cc:1830] OOM when allocating tensor with shape[64,512,512,24] "
     "and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"),
    ("tf-no-failure", "recovered", "TensorFlow", "W tensorflow/core/common_runtime/bfc_allocator.cc:290] Allocator (GPU_0_bfc) ran out of memory "
     "trying to allocate 1.27GiB with freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could "
     "be performance gains if more memory were available.".replace(" with freed_by_count=0", "")),
    ("onnx", "unknown", "ONNX Runtime", "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. "
     "Name:'/up/conv' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::"
     "AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 1887436800"),
    ("ctranslate2", "startup-weights", "CTranslate2", 'Traceback (most recent call last):\n  File "/srv/asr.py", line 9, in <module>\n  File '
     '"/usr/lib/python3.11/site-packages/faster_whisper/transcribe.py", line 634, in __init__\nRuntimeError: CUDA failed with error out of '
     "memory"),
    ("ctranslate2-windows", "startup-weights", "CTranslate2 on Windows", 'Traceback (most recent call last):\n  File "C:\\asr\\main.py", line 9, '
     'in <module>\n  File "C:\\py\\Lib\\site-packages\\faster_whisper\\transcribe.py", line 634, in __init__\nRuntimeError: CUDA failed '
     "with error out of memory"),
    ("ctranslate2-relative", "startup-weights", "CTranslate2 in one file on Windows", 'Traceback (most recent call last):\nFile '
     '"E:\\subs\\__main__.py", line 411, in <module>\nFile "faster_whisper\\transcribe.py", line 125, in __init__\nRuntimeError: CUDA '
     "failed with error out of memory"),
    ("paddle", "unknown", "PaddlePaddle", "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 1.367188GB memory on GPU 0, "
     "9.512695GB memory has been allocated and available memory is only 1.201904GB.\n\nPlease check whether there is any other process using "
     "GPU 0."),
    ("cupy-limit", "mis-budget", "CuPy", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 62,914,560 bytes (allocated so far: "
     "268,785,920 bytes, limit set to: 314,572,800 bytes)."),
    ("rmm-limit", "mis-budget", "RMM", "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/env/include/rmm/mr/device/"
     "pool_memory_resource.hpp:257: Maximum pool size exceeded (failed to allocate 60.000000 MiB): Not enough room to grow, current/max/try "
     "size = 680.500000 MiB, 700.000000 MiB, 60.000000 MiB"),
    ("rmm-device", "incomplete", "RMM", "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /env/include/rmm/mr/device/"
     "cuda_memory_resource.hpp:60: cudaErrorMemoryAllocation out of memory"),
    ("numba", "incomplete", "numba", "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
    ("faiss", "unknown", "FAISS", "RuntimeError: Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory(const AllocRequest&) at "
     "/faiss/gpu/StandardGpuResources.cpp:550: Error: alloc fail type FlatData dev 0 space Device stream 0x5581 size 6291456000 bytes "
     "(cudaMalloc error out of memory [2])"),
    ("trtllm-buffers", "warmup", "TensorRT-LLM", "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of "
     "memory (/src/tllmBuffers.h:112)\n1       0x55c0 void tensorrt_llm::common::check<cudaError>(cudaError) + 147\n2       0x7f4a "
     "tensorrt_llm::runtime::TllmRuntime::TllmRuntime(void const*, unsigned long) + 598"),
    ("trtllm-executor", "startup-kv-pool", "TensorRT-LLM", '  File "/x/tensorrt_llm/_torch/pyexecutor/py_executor_creator.py", line 147, in '
     "observe_creation_stage\nRuntimeError: Executor creation failed due to insufficient GPU memory."),
    ("comfyui", "unknown", "ComfyUI", "!!! Exception during processing !!! Allocation on device \n# ComfyUI Error Report\n- **Node Type:** "
     "KSampler\ntorch.OutOfMemoryError: Allocation on device \nGot an OOM, unloading all loaded models."),
    ("comfyui-tiles", "recovered", "ComfyUI", "Warning: Ran out of memory when regular VAE decoding, retrying with tiled VAE decoding.\n"
     "Prompt executed in 41.20 seconds (ComfyUI)"),
    ("nccl-size", "communication", "NCCL", "gpu01:411:499 [1] NCCL INFO Channel 07/0 : 1[1] -> 0[0] via P2P/IPC\ngpu01:411:499 [1] "
     "include/alloc.h:184 NCCL WARN Cuda failure 2 'out of memory'\ngpu01:411:499 [1] include/alloc.h:191 NCCL WARN Failed to CUDA calloc "
     "async 608 bytes"),
    ("no-size", "impossible-request", "torch: a size that is none", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more "
     "than 1EB memory."),
    ("fsdp-save", "unknown", "FSDP", "/x/torch/distributed/fsdp/_state_dict_utils.py:300: UserWarning: Failed to clone() tensor with name "
     "layers.31.weight on rank 0. This may mean that this state_dict entry could point to invalid memory regions after returning from "
     "state_dict() call if this parameter is managed by FSDP. Error: CUDA out of memory. Tried to allocate 270.00 MiB (GPU 0; 39.45 GiB total "
     "capacity; 36.11 GiB already allocated; 141.12 MiB free; 37.20 GiB reserved in total by PyTorch)"),
    ("log-probabilities", "logits", "slime", 'Traceback (most recent call last):\n  File "/root/slime/backends/megatron_utils/loss.py", in '
     "get_log_probs_and_entropy\n    x = compute_log_probs(logits)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 21.44 GiB."),
    ("pin-memory", "host-pinned", "DeepSpeed in a notebook", "File /x/deepspeed/runtime/zero/stage3.py:310, in "
     "DeepSpeedZeroOptimizer_Stage3.__init__(self, module)\n--> 310 self.flat = get_accelerator().pin_memory(x)\nFile "
     "/x/deepspeed/accelerator/cuda_accelerator.py:300, in CUDA_Accelerator.pin_memory(self, tensor)\n--> 300 return tensor.pin_memory()\n"
     "RuntimeError: CUDA error: out of memory"),
    ("expandable", "incomplete", "torch with expandable segments", "RuntimeError: CUDA driver error: out of memory"),
    ("onnx-cuda", "incomplete", "ONNX Runtime", "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : "
     "RUNTIME_EXCEPTION : CUDA failure 2: out of memory ; GPU=0 ; hostname=box ; expr=cudaMalloc((void**)&p, size);"),
    ("nccl-host", "host-pinned", "NCCL", "gpu01:411:499 [1] include/alloc.h:63 NCCL WARN Failed to CUDA host alloc 67108864 bytes"),
    ("tpu", "impossible-request", "XLA for TPUs", "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of "
     "memory in memory space hbm. Used 20.50G of 15.48G hbm. Exceeded hbm capacity by 5.02G."),
    ("tei", "warmup", "TEI", "2026-01-20T03:34:18.641538Z  INFO text_embeddings_router: router/src/lib.rs:252: Starting model backend\n"
     "2026-01-20T03:34:19.641538Z  INFO text_embeddings_router: router/src/lib.rs:260: Warming up model\nError: Model backend is not healthy\n"
     "Caused by: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")"),
    ("accelerate", "startup-weights", "accelerate", 'Traceback (most recent call last):\n  File "/home/me/gen.py", line 9, in <module>\n  File '
     '"/usr/lib/python3.11/site-packages/accelerate/utils/modeling.py", line 400, in set_module_tensor_to_device\n'
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 23.68 GiB of which 71.00 MiB is "
     "free. Including non-PyTorch memory, this process has 23.60 GiB memory in use. Of the allocated memory 23.11 GiB is allocated by "
     "PyTorch, and 9.12 MiB is reserved by PyTorch but unallocated."),
    ("xla-async", "impossible-request", "XLA's cuda_malloc_async", "E1103 18:23:55.103160 3413767 gpu_cudamallocasync_allocator.cc:361] "
     "gpu_async_1 cuMemAllocAsync failed to allocate 225195446464 bytes: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory\n "
     "Reported by CUDA: Free memory/Total memory: 22635544576/85095874560"),
    ("jax-old", "unknown", "JAX, 2021", "RuntimeError: Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device "
     "ordinal 0"),
    ("onnx-wrong-size", "impossible-request", "ONNX Runtime: a size that is none", "Non-zero status code returned while running Conv node. "
     "Name:'/fc1/Conv' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::"
     "AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 4585490524328388608"),
    ("memory-saver", "sleep-wake", "SGLang's torch_memory_saver", "[torch_memory_saver.cpp] cuMemCreate CUDA_ERROR_OUT_OF_MEMORY (may not be an "
     "issue e.g. torch allocator will free cache and retry)\n[torch_memory_saver.cpp] cudaError error: 2 (out of memory)  file=csrc/core.cpp "
     "func=resume line=172"),
    ("trtllm-graphs", "graph-capture", "TensorRT-LLM", 'Traceback (most recent call last):\n  File "/x/tensorrt_llm/_torch/pyexecutor/'
     'model_engine.py", line 592, in _run_cuda_graph_warmup\n  File "/x/tensorrt_llm/_torch/pyexecutor/model_engine.py", line 652, in '
     '_capture_generation_cuda_graphs\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.'),
    ("no-number", "training-step", "torch without the GPU's number", 'Traceback (most recent call last):\n  File "/x/torch/_tensor.py", line 525, '
     "in backward\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU  has a total capacity of 23.67 GiB of which "
     "1.59 GiB is free. Including non-PyTorch memory, this process has 22.06 GiB memory in use. Of the allocated memory 21.35 GiB is "
     "allocated by PyTorch, and 180.00 MiB is reserved by PyTorch but unallocated."),
    ("tf-host", "host-memory", "TensorFlow on the host", "W tensorflow/core/framework/op_kernel.cc:1763] OP_REQUIRES failed at "
     "image_resizer_state.h:142 : Resource exhausted: OOM when allocating tensor with shape[1,416,416,3] and type float on "
     "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"),
    ("numpy", "host-memory", "NumPy", "numpy.core._exceptions.MemoryError: Unable to allocate 184. MiB for an array with shape (64, 26, 26, 3, 371) "
     "and data type float32"),
    ("tf-1", "unknown", "TensorFlow 1", "W tensorflow/core/common_runtime/bfc_allocator.cc:275] Ran out of memory trying to allocate 39.81MiB.  "
     "See logs for memory state.\nW tensorflow/core/framework/op_kernel.cc:968] Resource exhausted: OOM when allocating tensor with "
     "shape[256,832,7,7]"),
    ("attention-only", "burst-prefill", "vLLM: a backend's own function", 'Traceback (most recent call last):\n  File '
     '"/x/vllm/v1/attention/backends/turboquant_attn.py", line 727, in _continuation_prefill\ntorch.OutOfMemoryError: CUDA out of memory. '
     "Tried to allocate 72.00 MiB."),
    ("mig", "incomplete", "torch on MIG", "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
     "\"../c10/cuda/CUDACachingAllocator.cpp\":1016, please report a bug to PyTorch."),
    ("rich-column", "co-tenant", "a message that rich wrapped", "\n".join([
        "ERROR    2026-01-08 13:24:44 app ERROR: CUDA out of     worker.py:574",
        "         memory. Tried to allocate 3.00 GiB. GPU 0 has               ",
        "         a total capacity of 44.42 GiB of which 900.81               ",
        "         MiB is free. Process 7326 has 6.90 GiB memory               ",
        "         in use. Process 8104 has 36.60 GiB memory in                ",
        "         use. Of the allocated memory 6.41 GiB is                    ",
        "         allocated by PyTorch, and 6.72 MiB is reserved              ",
        "         by PyTorch but unallocated.                                 "])),
    ("ray-memory", "host-memory", "Ray", "Memory on the node (IP: 10.0.0.7, ID: 70aa) where the task (actor ID: 0dab, name=Worker.__init__, "
     "pid=308, memory used=50.15GB) was running was 61.49GB / 64.00GB (0.960781), which exceeds the memory usage threshold of 0.95. Ray "
     "killed this worker (ID: 79a5) because it was the most recently scheduled task."),
    ("windows-commit", "host-memory", "Windows", "OSError: The paging file is too small for this operation to complete. (os error 1455)"),
    ("sglang-unbalanced", "co-tenant", "SGLang", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
     "pre_model_load_memory=16.3, local_gpu_memory=46.8, local_gpu_memory * 0.9=42.1"),
    ("sglang-one", "no-room-for-kv-cache", "SGLang", "AssertionError: No space left for only one request, "
     "self.token_to_kv_pool_allocator.available_size()=0"),
    ("tgi-total", "no-room-for-kv-cache", "TGI", "Not enough memory to handle 24000 total tokens with 4096 prefill tokens. You need to decrease "
     "`--max-batch-total-tokens` or `--max-batch-prefill-tokens`"),
    ("desktop", "mis-budget", "vLLM beside a desktop", "ValueError: Free memory on device cuda:0 (22.31/23.99 GiB) on startup is less than "
     "desired GPU memory utilization (0.95, 22.79 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."),
    ("xpu-neighbour", "co-tenant", "vLLM for XPU", "ValueError: Free memory on device xpu:1 (3.2/15.9 GiB) on startup is less than desired GPU "
     "memory utilization (0.9, 14.31 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."),
    ("unfinished", "incomplete", "a start that ends", "INFO 05-14 09:30:01 [core.py:119] Initializing a V1 LLM engine (v0.25.1) with config: "
     "model='/models/x'\nINFO 05-14 09:37:01 [gpu_model_runner.py:5061] Model loading took 66.4 GiB memory and 361.3 seconds\nINFO 05-14 "
     "09:39:01 [backends.py:393] Compiling a graph for compile range (1, 2048) takes 21.60 s"),
    ("tf-optimizer", "unknown", "TensorFlow: a size that is a shape and a type", "ResourceExhaustedError (see above for traceback): OOM when "
     "allocating tensor with shape[1,128,1024,512] and type half on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"),
    ("loop-only", "burst-prefill", "vLLM: the inner frames are missing", 'Traceback (most recent call last):\n  File '
     '"/x/vllm/v1/engine/core.py", line 1170, in run_busy_loop\n    self._process_engine_step(*args, **kwargs)\ntorch.OutOfMemoryError: '
     "CUDA out of memory. Tried to allocate 90.00 MiB."),
    ("model-only", "burst-prefill", "vLLM: a frame of the model in a loop", 'Traceback (most recent call last):\n  File '
     '"/x/vllm/v1/engine/core.py", line 1170, in run_busy_loop\n  File "/x/vllm/model_executor/models/gemma3.py", line 301, in forward\n'
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB."),
    ("error-first", "startup-weights", "a message above its frames, to the end of the text", "torch.OutOfMemoryError: CUDA out of memory. "
     'Tried to allocate 90.00 MiB.\n  File "/x/vllm/v1/worker/gpu_worker.py", line 300, in load_model\n  File '
     '"/x/vllm/model_executor/model_loader/base_loader.py", line 50, in load_model'),
    ("rich-short", "co-tenant", "a message that rich wrapped beside a file", "\n".join([
        "WARNING  2026-02-11 09:10:01 srv ERROR: CUDA out       queue.py:91",
        "         of memory. Tried to allocate 2.12                         ",
        "         GiB. GPU 0 has a total capacity of                        ",
        "         23.69 GiB of which 880.00 MiB is free.                    ",
        "         Process 511 has 7.25 GiB memory in use.                   ",
        "         Process 733 has 15.50 GiB memory in use.                  "])),
    ("error-above", "training-step", "a logger that prints the error above its traceback", "[W 2026-01-03 11:00:00,100] Trial 3 failed because of "
     "the following error: OutOfMemoryError('CUDA out of memory. Tried to allocate 90.00 MiB.').\nTraceback (most recent call last):\n  File "
     '"/x/optuna/study/_optimize.py", line 197, in _run_trial\n    value = func(trial)\n  File "/x/transformers/trainer.py", line 2171, in train\n'
     "    return inner_training_loop("),
    ("notebook", "training-step", "Lightning 1.2 in IPython 7", "RuntimeError: CUDA out of memory. Tried to allocate 300.00 MiB (GPU 0; 14.76 GiB total "
     "capacity; 13.40 GiB already allocated; 100.75 MiB free; 13.60 GiB reserved in total by PyTorch)\n/usr/lib/python3.7/site-packages/"
     "pytorch_lightning/trainer/training_loop.py in run_training_epoch(self)\n    491         with self.trainer.profiler.profile('x'):\n--> 492"
     "             batch_output = self.run_training_batch(batch, batch_idx)"),
    ("cache-below-zero", "no-room-for-kv-cache", "vLLM 0.7: the error itself is missing", "INFO 02-26 09:54:05 [worker.py:267] model weights take 5.20GiB; "
     "non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -0.50GiB."),
    ("profiled-below-zero", "no-room-for-kv-cache", "SGLang", "[2025-07-02 07:41:59 DP0 TP0] max_total_tokens=65536 is larger than the profiled value -4711. "
     "Use the profiled value instead."),
    ("ray-workers", "host-memory", "Ray", "(raylet) node_manager.cc:3064: 3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers "
     "crashed due to other reasons at node (ID: ab12, IP: 10.0.0.5)"),
    ("killed-without-number", "host-memory", "Linux, shortened", "Out of memory: Killed process (python3)\n  total-vm:23189274kB  anon-rss:111788kB"),
    ("cross-entropy", "logits", "Megatron", 'Traceback (most recent call last):\n  File "/x/torch/nn/modules/module.py", line 889, in _call_impl\n  '
     'File "/x/megatron/model/gpt_model.py", line 60, in post_language_model_processing\nRuntimeError: CUDA out of memory. Tried to allocate 9.00 '
     "GiB (GPU 0; 10.76 GiB total capacity; 5.20 GiB already allocated; 4.40 GiB free; 5.30 GiB reserved in total by PyTorch)"),
    ("code-of-trainer", "training-step", "a notebook's lines of code", "OutOfMemoryError                          Traceback (most recent call last)\n"
     "Cell In[8], line 1\n----> 1 trainer.train()\nOutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB."),
    ("code-backward", "training-step", "the same", "RuntimeError                              Traceback (most recent call last)\n<ipython-input-9-d81c> in "
     "<module>()\n---> 12         loss.backward()\nRuntimeError: CUDA out of memory. Tried to allocate 90.00 MiB."),
    ("colab", "training-step", "Colab's links", "[/usr/lib/python3.10/torch/autograd/graph.py](https://localhost:8080/#) in "
     "_engine_run_backward(t_outputs, *args)\n    823     return Variable._execution_engine.run_backward(\nOutOfMemoryError: CUDA out of memory. "
     "Tried to allocate 90.00 MiB."),
    ("apex-adam", "training-step", "DeepSpeed 0.1 with apex", 'Traceback (most recent call last):\n  File "/x/deepspeed/pt/'
     'deepspeed_zero_optimizer.py", line 357, in initialize_optimizer_states\n  File "/x/apex/optimizers/fused_adam.py", line 129, in step\n'
     "RuntimeError: CUDA out of memory. Tried to allocate 8.50 GiB."),
    ("comfy-patch", "startup-weights", "ComfyUI on Windows", '  File "E:\\ComfyUI\\comfy\\model_patcher.py", line 320, in patch_weight_to_device\n'
     '  File "E:\\ComfyUI\\comfy\\model_management.py", line 857, in cast_to_device\ntorch.OutOfMemoryError: Allocation on device'),
    ("tensorrt", "unknown", "TensorRT", "[E] [TRT] Requested amount of GPU memory (24793579520 bytes) could not be allocated. There may not be enough "
     "free memory for allocation to succeed."),
    ("forward-only", "burst-prefill", "vLLM: the outer frames are missing", 'Traceback (most recent call last):\n  File '
     '"/x/vllm/model_executor/models/qwen3_5.py", line 695, in forward\n  File "/x/vllm/v1/attention/backends/flash_attn.py", line 510, in '
     "forward\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 50.00 MiB."),
    ("cut-message", "incomplete", "torch up to 2.0, whose end is missing", "RuntimeError: CUDA out of memory. Tried to allocate 76.00 MiB (GPU 1; "
     "3.94 GiB total capacity; 3.02 GiB already allocated; 21.50 MiB free; 3.06 GiB reserved in total by Py"),
    ("outside-pool", "co-tenant", "torch up to 1.12: what is outside of the pool has no owner", "RuntimeError: CUDA out of memory. Tried to "
     "allocate 1.10 GiB (GPU 0; 15.90 GiB total capacity; 702.11 MiB already allocated; 890.75 MiB free; 1.02 GiB reserved in total by PyTorch)"),
    ("free-enough", "incomplete", "Windows: more is free than was asked for", "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB "
     "(GPU 0; 24.00 GiB total capacity; 5.71 GiB already allocated; 15.20 GiB free; 6.40 GiB reserved in total by PyTorch)"),
    ("cached", "incomplete", "torch up to 1.3: cached is what is idle", "RuntimeError: CUDA out of memory. Tried to allocate 6.20 GiB (GPU 0; 11.17 "
     "GiB total capacity; 7.41 GiB already allocated; 3.02 GiB free; 90.55 MiB cached)"),
    ("cupy-old", "unknown", "CuPy up to 6", "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 536870912 bytes (total 11811160064 bytes)"),
    ("sd-webui", "unknown", "Stable Diffusion web UI on Windows", '  File "D:\\sd\\webui\\modules\\txt2img.py", line 55, in txt2img\n'
     '  File "D:\\sd\\webui\\modules\\processing.py", line 730, in process_images\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to '
     "allocate 1.58 GiB (GPU 0; 6.00 GiB total capacity; 4.12 GiB already allocated; 0 bytes free; 4.95 GiB reserved in total by PyTorch)"),
    ("diffusers", "unknown", "Diffusers", '  File "/x/diffusers/pipelines/flux/pipeline_flux.py", line 880, in __call__\n  File '
     '"/x/diffusers/models/autoencoders/autoencoder_kl.py", line 320, in decode\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB.'),
    ("faster-whisper", "unknown", "CTranslate2", '  File "/x/faster_whisper/transcribe.py", line 610, in generate_with_fallback\nRuntimeError: CUDA '
     "failed with error out of memory"),
    ("rich-wrapped", "training-step", "rich: the function's name in the next line", "│ /x/lib/python3.10/site-packages/deepspeed/runtime/"
     "engine.py:1969 in │\n│ backward                                         │\nOutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB."),
    ("no-brackets", "incomplete", "a message whose brackets are lost", "CUDA out of memory. Tried to allocate 20.00 MiB \nGPU 0; 8.00 GiB total "
     "capacity; 7.20 GiB already allocated; 0 bytes free; 7.30 GiB reserved in total by PyTorch"),
    ("refused-last", "recovered", "XLA: a refusal, and the text ends", "failed to allocate 11.20G (12025908428 bytes) from device: "
     "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    ("sglang-pages", "no-room-for-kv-cache", "SGLang: tokens are free, but no pages", "RuntimeError: Prefill out of memory. Try to lower your batch "
     "size.\nTry to allocate 1500 tokens.\nAvailable tokens: 5120"),
    ("sdnext", "unknown", "SD.Next: rich on Windows", "\u00a6 <SDNext-Path>\\modules\\processing_vae.py:290 in vae_decode   \u00a6\n\u00a6   "
     "289   x = decode(x)   \u00a6\nOutOfMemoryError: CUDA out of memory. Tried to allocate 3.10 GiB."),
    ("nccl-little", "communication", "NCCL below PyTorch's message", "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/"
     "c10d/ProcessGroupNCCL.cpp:1970, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5\n"
     "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 704 bytes"),
    ("held-budget", "mis-budget", "vLLM: a command line and a message, no traceback", "vllm serve some/model --gpu-memory-utilization 0.92\n"
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of 39.39 GiB of which 120.25 MiB is "
     "free. Including non-PyTorch memory, this process has 39.26 GiB memory in use. Of the allocated memory 36.71 GiB is allocated by PyTorch, and "
     "210.40 MiB is reserved by PyTorch but unallocated."),
    ("held-more", "startup-weights", "vLLM: more than the budget before there is a KV cache", "vllm serve some/model --gpu-memory-utilization 0.7\n"
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 300.00 MiB. GPU 0 has a total capacity of 23.57 GiB of which 150.25 MiB is "
     "free. Including non-PyTorch memory, this process has 23.40 GiB memory in use. Of the allocated memory 22.80 GiB is allocated by PyTorch, and "
     "90.40 MiB is reserved by PyTorch but unallocated."),
    ("nccl-another", "none", "NCCL names another error", "box:411:411 [0] init.cc:416 NCCL WARN Cuda failure 'operation not supported'\n"
     "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"),
    ("capture-other", "none", "SGLang: a capture that fails for another reason", "Exception: Capture CUDA graph failed: Triton Error [CUDA]: an "
     "illegal memory access was encountered\nPossible solutions:\n1. set --mem-fraction-static to a smaller value"),
    ("capture-alone", "incomplete", "SGLang: the reason is missing", "Exception: Capture cuda graph failed\nPossible solutions:\n1. set "
     "--mem-fraction-static to a smaller value"),
    ("oom-kill-host", "host-memory", "Linux: the whole machine", "kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,"
     "global_oom,task_memcg=/user.slice/user-1000.slice,task=python,pid=5151,uid=1000"),
    ("less-free-quoted", "co-tenant", "vLLM: quoted within a sentence", "It stops because free memory on device cuda:0 (9.75/22.05 GiB) on startup "
     "is less than desired GPU memory utilization (0.9, 19.85 GiB)."),
    ("wake-http", "sleep-wake", "vLLM: an HTTP answer", '{"error":{"message":"Call to wake_up method failed: CUDA Error: out of memory at '
     '/x/csrc/other_allocator.cpp:99","code":500}}'),
    ("tf-pinned", "host-pinned", "TensorFlow: its pool of page-locked memory", "W ./tensorflow/core/common_runtime/device/device_host_allocator.h:46] "
     "could not allocate pinned host memory of size: 17179869184\nE tensorflow/stream_executor/cuda/cuda_driver.cc:794] failed to alloc 17179869184 "
     "bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    ("tf-host-bfc", "host-pinned", "TensorFlow: the same, with its name", "Allocator (cuda_host_bfc) ran out of memory trying to allocate 6.20GiB"),
    ("tf-freed-by", "recovered", "TensorFlow 2: no failure", "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.70GiB with "
     "freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be performance gains.\nstep 2\nstep 3"),
    ("tf-dump", "incomplete", "TensorFlow: the pool's list, without its message", "1 Chunks of size 94117504 totalling 89.76MiB\n"
     "Sum Total of in-use chunks: 930.11MiB"),
    ("tgi-span", "burst-prefill", "TGI: the spans of a batch", "ERROR batch{batch_size=2}:prefill:prefill{id=3 size=2}: text_generation_client: "
     "router/client/src/lib.rs:33: Server error: CUDA out of memory. Tried to allocate 208.00 MiB. GPU 0 has a total capacty of 39.39 GiB of which "
     "190.94 MiB is free."),
    ("engine-backward", "training-step", "torch: only a line of code", "    return Variable._execution_engine.run_backward(\n"
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB."),
    ("a1111-load", "startup-weights", "Stable Diffusion web UI", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 110.00 MiB "
     "(GPU 0; 4.00 GiB total capacity; 3.41 GiB already allocated; 0 bytes free; 3.47 GiB reserved in total by PyTorch)\n\n"
     "Stable diffusion model failed to load"),
    ("multimodal-merge", "multimodal", "vLLM: embeddings of images", '  File "/x/vllm/model_executor/models/utils.py", line 440, in '
     "_merge_multimodal_embeddings\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 60.00 MiB."),
    ("mkl", "host-memory", "Intel's MKL", "mkl_malloc: failed to allocate memory"),
    ("lightgbm", "host-memory", "LightGBM, OpenCL", "lightgbm.basic.LightGBMError: Out of Host Memory"),
    ("rust", "host-memory", "Rust's allocator", "memory allocation of 4194304 bytes failed\nAborted (core dumped)"),
    ("numba-launch", "none", "numba: what an earlier kernel did", "numba.cuda.cudadrv.driver.CudaAPIError: [719] Call to cuMemAlloc results in "
     "CUDA_ERROR_LAUNCH_FAILED"),
    ("xgboost", "incomplete", "XGBoost", "device_helpers.cuh:431: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out "
     "of memory\n- Free memory: 6029312\n- Requested memory: 67108864"),
    ("words-gpu", "incomplete", "Blender", "Error: System is out of GPU and shared host memory"),
    ("words-call", "incomplete", "Blender: a call of the driver", "Out of memory in cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) (device_queue.cpp:12)"),
    ("words-optix", "incomplete", "OptiX", "CuDevicePrimaryCtxRetain(&ctx, device) returned (2): Out of memory"),
    ("words-lammps", "incomplete", "LAMMPS", "ERROR: Insufficient memory on accelerator (src/GPU/fix_gpu.cpp:340)"),
    ("words-thc", "incomplete", "torch up to 1.4, behind a progress bar", " 12%|###    | 9/75 THCudaCheck FAIL file=/x/THCGeneral.cpp line=51 error=2 : "
     "out of memory"),
    ("words-alone", "incomplete", "a program whose memory is not named", "allocate(): out of memory"),
    ("keras-fit", "training-step", "Keras", '  File "/x/keras/engine/training.py", line 1100, in fit\n  File "/x/tensorflow/python/client/session.py", '
     "line 900, in run\nResourceExhaustedError: OOM when allocating tensor with shape[64,4096,512]"),
    ("ultralytics", "training-step", "Ultralytics: boxes and anchors", '  File "/x/ultralytics/utils/tal.py", line 88, in forward\n'
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 310.00 MiB."),
    ("fairseq-skip", "recovered", "fairseq: a batch is left out", "| epoch 001: 40/700\n| WARNING: ran out of memory on GPU #1, skipping batch\n"
     + "".join(f"| epoch 001: {n}/700 loss=9.{n}\n" for n in range(41, 49))),
    ("ort-limit", "mis-budget", "ONNX Runtime: its gpu_mem_limit", "BFCArena::AllocateRawInternal(size_t, bool) Available memory of 0 is smaller than "
     "requested bytes of 104857600"),
    ("hip-fraction", "mis-budget", "torch for ROCm, with a memory fraction", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 "
     "has a total capacity of 255.98 GiB of which 240.10 GiB is free. 1.05 GiB allowed; Of the allocated memory 1018.00 MiB is allocated by PyTorch, "
     "with 12.00 MiB allocated in private pools (e.g., HIP Graphs), and 55.20 MiB is reserved by PyTorch but unallocated."),
    ("little-free", "co-tenant", "torch: a full device has a little", "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB "
     "total capacity; 2.71 GiB already allocated; 25.10 MiB free; 3.00 GiB reserved in total by PyTorch)"),
    ("deepspeed-9", "incomplete", "DeepSpeed: its launcher", "[launch.py:319:sigkill_handler] ['python', 'train.py'] exits with return code = -9"),
    ("winerror", "host-memory", "Windows in another language", "OSError: [WinError 1455] Die Auslagerungsdatei ist zu klein."),
    ("addresses", "unknown", "addresses in a backward pass", '  File "/x/torch/_tensor.py", line 525, in backward\nRuntimeError: '
     "cuMemAddressReserve(&ptr, size, 0, 0, 0) failed with error CUDA_ERROR_OUT_OF_MEMORY"),
    ("no-middle-words", "incomplete", "torch, quoted", "torch.OutOfMemoryError: Tried to allocate 12.10 GiB. GPU had 11.90 GiB free of 79.19"),
    ("inductor", "burst-prefill", "vLLM with torch.compile", '  File "/x/vllm/model_executor/models/qwen3.py", line 310, in forward\n'
     "torch._inductor.exc.InductorError: OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 15.92 GiB "
     "of which 30.00 MiB is free."),
    ("slurm", "host-memory", "Slurm", "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=77.batch cgroup. Some of your processes may have "
     "been killed by the cgroup out-of-memory handler."),
    ("docker-no", "incomplete", "Docker: it was not the killer", '"State": {"Status": "exited", "OOMKilled": false, "Dead": false}\nThe container '
     "ended with exit code 137"),
    ("shm-bus", "host-memory", "torch: a DataLoader's worker", "RuntimeError: DataLoader worker (pid 411) is killed by signal: Bus error. It is possible "
     "that dataloader's workers are out of shared memory. Please try to raise your shared memory limit."),
    ("shm", "host-memory", "torch: the same", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."),
    ("java", "host-memory", "Java", "java.lang.OutOfMemoryError: Java heap space"),
    ("julia-retry", "recovered", "CUDA.jl", "WARNING: CUDA memory allocation failed; attempting to free up memory...\nepoch 2\nepoch 3\nepoch 4"),
    ("julia", "unknown", "CUDA.jl", "ERROR: Out of GPU memory trying to allocate 7.250 MiB\nEffective GPU memory usage: 99.91% (7.780 GiB/7.787 GiB)"),
    ("hip-words", "incomplete", "ROCm's runtime", "terminate called: hipErrorOutOfMemory"),
    ("pinned-words", "host-pinned", "a program that locks pages", "Failed to allocate pinned memory: out of memory"),
    ("no-first-words", "impossible-request", "torch 1, cut", "Tried to allocate 31.20 GiB (GPU 0; 10.76 GiB total capacity; 1.02 GiB already allocated; "
     "8.90 GiB free; 1.10 GiB reserved in total by PyTorch)"),
    ("tactic", "none", "TensorRT: it takes another tactic", "[V] [TRT] Trying tactics\n[W] [TRT] Skipping tactic 4 due to insufficient memory on requested "
     "size of 71680.\n[V] [TRT] Tactic 5 is taken\n[V] [TRT] Engine generation completed in 11.2 seconds.\nlatency 3 ms\nlatency 3 ms"),
    ("time-limit", "none", "Slurm: the job's time was over", "slurmstepd: *** JOB 88 ON n1 CANCELLED AT 2026-03-03T10:00:00 DUE TO TIME LIMIT ***"),
    ("watchdog", "none", "torch: NCCL", "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000)"),
    ("ran-on", "none", "transformers: it went on after its start", "Loading checkpoint shards: 100%|##########| 4/4\n" + "".join(
        f"{{'loss': 1.{n:02}, 'epoch': 0.{n:02}}}\n" for n in range(99))),
    ("healthy-unknown", "none", "a program that is not known", "".join(f"step {n}: gpu memory 4.{n} GiB of 24 GiB\n" for n in range(8))),
    ("healthy-hint", "none", "vLLM 0.2: a hint about memory", "INFO 05-14 09:30:01 worker.py:201] # GPU blocks: 3100, # CPU blocks: 512\nINFO 05-14 "
     "09:30:02 worker.py:202] CUDA graphs take GPU memory. If you are running out of memory, consider enforcing eager mode.\nINFO 05-14 09:30:21 "
     "worker.py:203] Graph capturing finished in 19 secs."),
    ("errno", "host-memory", "Python: ENOMEM", "OSError: [Errno 12] Cannot allocate memory"),
    ("torch-ram", "host-memory", "torch 0.4", "RuntimeError: $ Torch: not enough memory: you tried to allocate 72GB. Buy new RAM!"),
    ("thrust-for", "incomplete", "Thrust", "terminate called: parallel_for failed: out of memory"),
    ("thrust-sort", "incomplete", "Thrust", "RuntimeError: radix_sort: failed to get memory buffer: out of memory"),
    ("lmdeploy", "incomplete", "LMDeploy", "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /x/src/turbomind/utils/memory_utils.cu:32"),
    ("peak-rises", "leak", "LAVIS, torchvision's MetricLogger", "".join(
        f"Evaluation  [{n}/5000]  eta: 0:02:28    time: 0.0498  data: 0.0003  max mem: {17239 + 37 * i}\n" for i, n in enumerate(range(2060, 2140, 10)))
     + "RuntimeError: CUDA out of memory. Tried to allocate 38.00 MiB (GPU 0; 23.70 GiB total capacity; 21.55 GiB already allocated; 18.56 MiB "
     "free; 22.10 GiB reserved in total by PyTorch)"),
    ("peak-stays", "incomplete", "Detectron2", "".join(
        f"[07/11 10:21:07 d2.utils.events]:  iter: {n}  total_loss: 1.02  time: 0.24  max_mem: 5123M\n" for n in range(19, 200, 20))
     + "RuntimeError: CUDA out of memory. Tried to allocate 38.00 MiB (GPU 0; 23.70 GiB total capacity; 21.55 GiB already allocated; 18.56 MiB "
     "free; 22.10 GiB reserved in total by PyTorch)"),
    ("no-expandable", "fragmentation", "torch on Windows", "HIP out of memory. Tried to allocate 8.54 GiB. GPU 0 has a total capacity of 15.92 GiB of "
     "which 0 bytes is free. Of the allocated memory 3.97 GiB is allocated by PyTorch, and 9.27 GiB is reserved by PyTorch but unallocated.\n"
     "sparse.py:166: UserWarning: expandable_segments not supported on this platform"),
    ("deepspeed-module", "startup-weights", "DeepSpeed: the model goes to the device", '  File "/x/deepspeed/__init__.py", line 193, in initialize\n'
     '  File "/x/deepspeed/runtime/engine.py", line 1163, in _configure_distributed_model\n    self.module.to(self.device)\n'
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 224.44 MiB is "
     "free. Including non-PyTorch memory, this process has 23.42 GiB memory in use."),
    ("mps", "unknown", "torch for Apple", "RuntimeError: MPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max allowed: "
     "27.20 GiB). Tried to allocate 292.50 MiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit"),
    ("llvm", "host-memory", "LLVM", "LLVM ERROR: out of memory\nFatal Python error: Aborted"),
    ("comma", "host-pinned", "llama.cpp where a comma is the point", "ggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: "
     "invalid argument"),
]
SHAPES = [*(("llama-" + name, scenario, "llama.cpp", text) for name, (scenario, text) in LLAMA.items()), *OTHERS]
