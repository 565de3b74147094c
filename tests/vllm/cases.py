# SPDX-License-Identifier: Apache-2.0
"""The table of cases: what vLLM is asked to do, on which device, and what must come of it.

A case that fails says in which function of vLLM (phase), which part of its memory asked (component), why there was no
room (cause), the scenario that an expert would call it, and the text by which vLLM's log says so (error). `refused` is
the call that the device refused; without one, vLLM gave up by its own arithmetic, and a trace alone shows no failure.
These are written by hand, from what a case does, never from a trace."""
import dataclasses
import re

NEWEST = "0.33.0"  # the version of vLLM that the table is of; VERSIONS says what it is for older ones
MIB, GIB = 1 << 20, 1 << 30
FIRST_RUNNER = {"VLLM_USE_V2_MODEL_RUNNER": 0}


def full_graphs(*sizes):
    """Graphs of whole decoding steps, of batches of these sizes; without torch.compile."""
    return {"enforce_eager": False, "compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY",
                                                           "cudagraph_capture_sizes": list(sizes)}}


FULL_GRAPHS = full_graphs(1, 2, 4, 8)
PICTURES = {"limit_mm_per_prompt": {"image": 1}, "skip_tokenizer_init": False}
# Environment of vLLM: one process, no network, no FlashInfer, a log without colours.
OPTIONS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": 0,  # the engine in this process
    "VLLM_USE_FLASHINFER_SAMPLER": 0,     # FlashInfer is not installed
    "VLLM_HOST_IP": "127.0.0.1", "VLLM_NO_USAGE_STATS": 1, "HF_HUB_OFFLINE": 1, "VLLM_LOGGING_COLOR": 0, "NO_COLOR": 1,
}
# Where an older version needs more: 0.11 says what it profiled in its debug log only.
MORE_OPTIONS = {"0.11.2": {"VLLM_LOGGING_LEVEL": "DEBUG"}}
OOM = "CUDA out of memory. Tried to allocate|CUDA error: out of memory"
# The KV cache of a 7B model on 24 GiB that would leave nothing when everything has started.
ALL = 11565531136
ALL_OF_LLAMA_3 = 8816164864  # the same of an 8B model of Llama 3


def kv_cache_that_leaves(mib):
    return {"kv_cache_memory_bytes": ALL - mib * MIB}


@dataclasses.dataclass
class Case:
    name: str
    what: str
    model: str = "llama-7b"
    arguments: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=lambda: [["generate", {}]])
    phase: str = ""
    component: str = ""
    cause: str = ""
    scenario: str = "none"    # the report's first verdict (tools/report/diagnose/scenarios.def), of the trace alone
    log_scenario: str = ""    # of the trace with vLLM's log, where that differs
    error: str = ""
    refused: str = ""
    says: str = ""  # what the log must say beside
    program: str = "serve.py"
    metrics: str = ""  # of the trace with the server's metrics; "": they are not recorded
    processes: int = 1
    ranges: bool = False  # the program writes down which ranges of NVTX it asked PyTorch for

    @property
    def fails(self):
        return bool(self.error)


STARTS = [
    Case("eager-first-runner", "eager, first model runner", environment=FIRST_RUNNER),
    Case("eager", "eager, second model runner (the default)"),
    Case("full-graphs", "CUDA graphs of whole decoding steps", arguments=FULL_GRAPHS),
    Case("nvtx-layers", "a range of NVTX around each layer, with the variable that cutrace run sets",
         arguments={"enable_layerwise_nvtx_tracing": True}, steps=[["generate", {"requests": 2, "tokens": 4}]],
         environment={**FIRST_RUNNER, "NVTX_INJECTION64_PATH": "/opt/lib/libcutrace.so"}, ranges=True),
]

STARTS_THAT_FAIL = [
    Case("load-model", "the weights are larger than the device", environment={"SIM_MEM_MB": 8192},
         phase="load_model", component="weights", cause="the model does not fit",
         scenario="startup-weights", error=OOM,
         refused="cudaMalloc"),
    Case("process-weights", "weights of 4 bits fit, and the copy of one of them for Marlin's kernels does not",
         model="llama-7b-awq", arguments={"gpu_memory_utilization": 0.8}, environment={"SIM_MEM_MB": 5000},
         phase="process_weights_after_loading", component="weights", cause="no room to convert the weights",
         scenario="repack",
         error=OOM,
         refused="cudaMalloc"),
    Case("profile-run", "the activations of the largest batch do not fit beside the weights",
         arguments={"max_num_batched_tokens": 65536}, environment={"SIM_MEM_MB": 15360},
         phase="profile_run", component="activations", cause="max_num_batched_tokens",
         scenario="startup-profile", error=OOM,
         refused="cudaMalloc"),
    Case("initialize-kv-cache", "a KV cache of a given size that does not fit",
         arguments={"kv_cache_memory_bytes": 12 * GIB},
         phase="initialize_kv_cache", component="KV cache", cause="kv_cache_memory_bytes",
         scenario="startup-kv-pool", error=OOM,
         refused="cudaMalloc"),
    Case("no-cache-blocks", "gpu_memory_utilization leaves nothing for the KV cache",
         arguments={"gpu_memory_utilization": 0.5},
         phase="determine_available_memory", component="KV cache", cause="gpu_memory_utilization",
         log_scenario="no-room-for-kv-cache",
         error="No available memory for the cache blocks"),
    Case("max-model-len", "the KV cache has no room for one request of max_model_len",
         arguments={"gpu_memory_utilization": 0.6, "max_model_len": 4096},
         phase="determine_available_memory", component="KV cache", cause="max_model_len",
         log_scenario="no-room-for-kv-cache",
         error="is needed, which is larger than the available KV cache memory"),
    Case("less-than-desired", "a neighbour holds what gpu_memory_utilization asks for",
         environment={"SIM_NEIGHBOUR_MB": 4096},
         phase="init_device", component="", cause="another process",
         log_scenario="co-tenant",
         error="is less than desired GPU memory utilization"),
    Case("warm-up-sampler", "the KV cache leaves no room for the sampler's largest batch (first runner)",
         arguments={**kv_cache_that_leaves(300), "max_num_seqs": 1024}, environment=FIRST_RUNNER,
         phase="_dummy_sampler_run", component="sampler", cause="max_num_seqs",
         scenario="warmup",
         error="CUDA out of memory occurred when warming up sampler", refused="cudaMalloc"),
    Case("warm-up-kernels", "the KV cache leaves no room for the steps that compile kernels (second runner)",
         arguments={**kv_cache_that_leaves(200), "max_num_seqs": 1024, **full_graphs(1)},  # (eager, it has none)
         phase="warmup_kernels", component="activations", cause="max_num_seqs",
         scenario="warmup", error=OOM, refused="cudaMalloc"),
    Case("multimodal-profile", "the encoder's largest batch of pictures does not fit beside the weights",
         model="llava-small", arguments={**PICTURES, "gpu_memory_utilization": 0.7},
         environment={"SIM_MEM_MB": 2160},
         phase="profile_run", component="vision encoder", cause="max_num_batched_tokens",
         scenario="multimodal", error=OOM,
         refused="cudaMalloc"),
    Case("capture-model", "the KV cache leaves no room for the graphs' own pool",
         arguments={**kv_cache_that_leaves(160), "max_num_seqs": 512, **full_graphs(1, 512)},
         environment=FIRST_RUNNER,
         phase="capture_model", component="attention", cause="kv_cache_memory_bytes",
         scenario="graph-capture", error=OOM,
         refused="cudaMalloc"),
    Case("graph-instantiate", "the device has no room for an executable graph",
         arguments={**kv_cache_that_leaves(150), **FULL_GRAPHS},
         environment={**FIRST_RUNNER, "SIM_GRAPH_KB": 65536, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": 0},
         phase="capture_model", component="CUDA graphs", cause="kv_cache_memory_bytes",
         scenario="graph-capture",
         error="CUDA error: out of memory", refused="cudaGraphInstantiateWithFlags"),
]

LONG_PREFILLS = ["generate", {"requests": 32, "prompt": 1024, "tokens": 2}]
SERVING = [
    Case("burst-of-prefills", "many long prompts at once, and the KV cache has taken what they need",
         arguments=kv_cache_that_leaves(450), steps=[["generate", {"requests": 2}], LONG_PREFILLS],
         phase="execute_model", component="activations", cause="kv_cache_memory_bytes",
         scenario="burst-prefill", error=OOM,
         refused="cudaMalloc"),
    Case("prompt-logprobs", "log-probabilities of every token of the prompts",
         steps=[["generate", {"requests": 2, "prompt": 64}],
                ["generate", {"requests": 4, "prompt": 2000, "tokens": 2, "prompt_logprobs": 5}]]),
    Case("logits", "the logits of a long prompt's every token, of a vocabulary of 128,256", model="llama-3-8b",
         arguments={"kv_cache_memory_bytes": ALL_OF_LLAMA_3 - 300 * MIB},
         steps=[["generate", {"requests": 2}],
                ["generate", {"requests": 1, "prompt": 1024, "tokens": 2, "prompt_logprobs": 5}]],
         phase="sample_tokens", component="logits", cause="kv_cache_memory_bytes",
         scenario="logits", error=OOM,
         refused="cudaMalloc"),
    Case("logits-of-many", "the logits of every token of 32 short prompts, all in one step", model="llama-3-8b",
         arguments={"kv_cache_memory_bytes": ALL_OF_LLAMA_3 - 300 * MIB},
         steps=[["generate", {"requests": 2}],
                ["generate", {"requests": 32, "prompt": 32, "tokens": 2, "prompt_logprobs": 5}]],
         phase="sample_tokens", component="logits", cause="kv_cache_memory_bytes",
         scenario="logits", error=OOM,
         refused="cudaMalloc"),
    Case("ballast", "a tensor of the process's own takes what serving needs",
         steps=[["generate", {"requests": 2}], ["leave_free", {"mib": 200}], LONG_PREFILLS],
         phase="execute_model", component="activations", cause="a tensor of the process's own",
         scenario="mis-budget", error=OOM,
         refused="cudaMalloc"),
    Case("neighbour", "another process takes what serving needs",
         steps=[["generate", {"requests": 2}], ["neighbour", {"leaves": 200}], LONG_PREFILLS],
         phase="execute_model", component="activations", cause="another process",
         scenario="co-tenant", error=OOM,
         refused="cudaMalloc"),
    Case("graphs-uncounted", "executable graphs that no estimate counted",
         arguments={"gpu_memory_utilization": 0.97, **FULL_GRAPHS},
         environment={"SIM_GRAPH_KB": 65536, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": 0},
         steps=[["generate", {"requests": 2}], LONG_PREFILLS],
         phase="execute_model", component="activations", cause="CUDA graphs",
         scenario="mis-budget", error=OOM,
         refused="cudaMalloc"),
    Case("leak", "every round keeps a tensor, until one does not fit",
         arguments={"gpu_memory_utilization": 0.9},
         steps=[["leak", {"rounds": 40, "mib": 96, "requests": 2, "tokens": 4}]],
         phase="", component="", cause="a leak in the process",
         scenario="leak", error=OOM,
         refused="cudaMalloc"),
    Case("preemption", "a KV cache too small for all requests: they are preempted, and nothing is refused",
         model="llama-tiny", arguments={"kv_cache_memory_bytes": 16 * MIB, "disable_log_stats": False},
         log_scenario="preemption", says=r"COUNTER vllm:num_preemptions [1-9]",
         steps=[["generate", {"requests": 32, "prompt": 128, "tokens": 128}]]),
    Case("prefix-cache", "prompts that share their beginnings fill the prefix cache: nothing is refused",
         model="llama-tiny", arguments={"kv_cache_memory_bytes": 16 * MIB, "disable_log_stats": False},
         says=r"COUNTER vllm:prefix_cache_hits [1-9]",
         steps=[["generate", {"requests": 16, "prompt": 512, "shared": 256, "tokens": 4}],
                ["generate", {"requests": 16, "prompt": 1024, "shared": 512, "tokens": 4}]]),
]

SLEEP = [
    Case("sleep-1", "sleep at level 1 (weights go to the host) and wake-up", model="llama-tiny",
         arguments={"enable_sleep_mode": True},
         steps=[["generate", {}], ["sleep", {"level": 1}], ["wake_up", {}], ["generate", {}]]),
    Case("sleep-2", "sleep at level 2 (weights are dropped) and wake-up", arguments={"enable_sleep_mode": True},
         steps=[["generate", {}], ["sleep", {"level": 2}], ["wake_up", {}], ["generate", {}]]),
    Case("wake-up", "while vLLM slept, something else took its memory", arguments={"enable_sleep_mode": True},
         steps=[["sleep", {"level": 2}], ["leave_free", {"mib": 8192}], ["wake_up", {}]],
         phase="wake_up", component="weights", cause="a tensor of the process's own",
         scenario="sleep-wake", error="CUDA Error: out of memory",
         refused="cuMemCreate"),
]

MODELS = [
    Case("compile", "torch.compile and piecewise graphs, as by default", model="llama-tiny",
         arguments={"enforce_eager": False, "compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8]}}),
    Case("kv-fp8", "a KV cache in fp8", arguments={"kv_cache_dtype": "fp8"}),
    Case("speculative", "speculative decoding with a draft model",
         arguments={"speculative_config": {"model": "/opt/bed/models/llama-tiny", "num_speculative_tokens": 3}}),
    Case("lora", "room for four LoRA adapters of rank 64",
         arguments={"enable_lora": True, "max_loras": 4, "max_lora_rank": 64}),
    Case("mixture-of-experts", "a mixture of eight experts", model="mixtral-small"),
    Case("awq", "weights of 4 bits, repacked for Marlin's kernels", model="llama-7b-awq"),
    Case("gptq", "weights of 4 bits, repacked for Marlin's kernels", model="llama-7b-gptq"),
    Case("weight-update", "new weights from a second process by CUDA IPC", model="llama-tiny", processes=2,
         arguments={"weight_transfer_config": {"backend": "ipc"}},
         steps=[["generate", {}], ["update_weights", {"model": "/opt/bed/models/llama-tiny"}], ["generate", {}]]),
    Case("weight-update-refused", "new weights from a second process, and no room for vLLM's copies of a layer",
         model="llama-tiny", processes=2,
         arguments={"weight_transfer_config": {"backend": "ipc"}, "gpu_memory_utilization": 0.9485},
         steps=[["generate", {}], ["update_weights", {"model": "/opt/bed/models/llama-tiny"}], ["generate", {}]],
         phase="update_weights", component="weights", cause="gpu_memory_utilization",
         scenario="weight-sync", error=OOM, refused="cudaMalloc"),
    Case("multimodal", "pictures: the encoder's profile run, and four requests with one picture each",
         model="llava-small", arguments=PICTURES, steps=[["generate_images", {}]]),
    Case("tensor-parallel", "two devices, a worker process for each", processes=2,
         arguments={"tensor_parallel_size": 2}, environment={"SIM_DEVICES": 2, "VLLM_ENABLE_V1_MULTIPROCESSING": 1}),
]

# By the command `vllm serve`: an API server, and the engine in a process of its own, whose trace has the flags.
COMMAND = {"program": "http_server.py", "environment": {"VLLM_ENABLE_V1_MULTIPROCESSING": 1}}
MANY_GRAPHS = full_graphs(*(1, 2, 4), *range(8, 73, 8))
SERVERS = [
    Case("http-server", "vllm serve, its engine in a process of its own", **COMMAND, metrics="none",
         arguments={"gpu_memory_utilization": 0.88, "max_num_seqs": 64, "max_num_batched_tokens": 4096},
         steps=[["generate", {}], ["generate", {"requests": 16, "prompt": 200, "at_once": 8, "scrapes_more": 20}]]),
    Case("http-server-tensor-parallel", "vllm serve of two devices: three processes behind the API server",
         program="http_server.py", processes=2,
         environment={"VLLM_ENABLE_V1_MULTIPROCESSING": 1, "SIM_DEVICES": 2},
         arguments={"gpu_memory_utilization": 0.8, "max_model_len": 1024, "max_num_seqs": 32,
                    "tensor_parallel_size": 2}),
    Case("http-server-graphs", "vllm serve, and its budget leaves no room for executable graphs",
         program="http_server.py",
         environment={"VLLM_ENABLE_V1_MULTIPROCESSING": 1, "SIM_GRAPH_KB": 65536,
                      "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": 0},
         arguments={"gpu_memory_utilization": 0.97, "max_num_seqs": 128, **MANY_GRAPHS},
         phase="capture_model", component="CUDA graphs", cause="gpu_memory_utilization",
         scenario="graph-capture", error="CUDA error: out of memory", refused="cudaGraphInstantiateWithFlags"),
    Case("http-server-preemption", "vllm serve, and a KV cache too small for all requests at once", **COMMAND,
         model="llama-tiny", metrics="preemption",
         arguments={"gpu_memory_utilization": 0.9, "kv_cache_memory_bytes": 16 * MIB, "max_num_seqs": 64},
         steps=[["generate", {"requests": 32, "prompt": 128, "tokens": 128, "at_once": 32, "scrapes_more": 15}]]),
    # 256 blocks of 16 tokens. Four conversations begin alike and stay; twenty-four do not, and fill the cache. A prompt
    # ends behind the begin of a block, and the answer is within that block: nothing is preempted.
    Case("http-server-prefix-cache", "vllm serve, and a KV cache too small for what requests have in common", **COMMAND,
         model="llama-tiny", metrics="prefix-cache-pressure",
         arguments={"gpu_memory_utilization": 0.9, "kv_cache_memory_bytes": 16 * MIB, "max_num_seqs": 64},
         steps=[["generate", {"requests": 8, "prompt": 529, "shared": 512, "beginnings": 4, "tokens": 15, "at_once": 4,
                              "scrapes_more": 15}],
                ["generate", {"requests": 96, "prompt": 529, "shared": 512, "beginnings": 24, "tokens": 15,
                              "at_once": 24, "scrapes_more": 25}]]),
]

TABLE = [*STARTS, *STARTS_THAT_FAIL, *SERVING, *SLEEP, *MODELS, *SERVERS]
# Older versions, as scripts/vllm-VERSION.pins have them: the cases that each has -> what differs there.
VERSIONS = {
    NEWEST: {case.name: {} for case in TABLE},
    "0.26.0": {
        "eager": {},
        "full-graphs": {},
        "load-model": {},
        "profile-run": {},
        "initialize-kv-cache": {},
        "no-cache-blocks": {},
        "max-model-len": {},
        "less-than-desired": {},
        "capture-model": {},
        "prompt-logprobs": {},
        "ballast": {},
        "neighbour": {},
        "leak": {},
        "sleep-1": {},
        "sleep-2": {},
        "wake-up": {},
        "kv-fp8": {},
    },
    "0.11.2": {
        "eager": {"what": "eager, the only model runner of its time"},
        "full-graphs": {},
        "load-model": {},
        "profile-run": {},
        "initialize-kv-cache": {},
        "no-cache-blocks": {},
        "max-model-len": {},
        "less-than-desired": {},
        "capture-model": {"environment": {}},
        "ballast": {},
        "sleep-1": {},
        "sleep-2": {},
        "wake-up": {},
    },
}


def cases_of(version):
    """Name -> case, as it is in this version."""
    differs = VERSIONS[version]
    return {case.name: dataclasses.replace(case, **differs[case.name]) for case in TABLE if case.name in differs}


def options_of(version):
    return {**OPTIONS, **MORE_OPTIONS.get(version, {})}


def numbers_of(version):
    """Of 0.11.2+cu129: (0, 11, 2)."""
    return tuple(int(n) for n in re.findall(r"\d+", version.partition("+")[0])[:3])


def version_of_table(version):
    """The version that the table knows for any vLLM: the newest one that is not newer than it, or the oldest."""
    known = sorted(VERSIONS, key=numbers_of)
    older = [v for v in known if numbers_of(v) <= numbers_of(version)]
    return older[-1] if older else known[0]


def model_of(case):
    """The folder of a case's model, as the process sees it."""
    return f"/opt/bed/models/{case.model}"


def golden_name(name, version):
    """The folder of a case in tests/report/vllm: of an older version with its number, eager-0.11."""
    return name if version == NEWEST else f"{name}-{version.rpartition('.')[0]}"
