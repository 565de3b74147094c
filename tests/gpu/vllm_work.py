# SPDX-License-Identifier: Apache-2.0
"""One case of tests/vllm on this GPU.  vllm_work.py CASE

CASE is serve.py's, with "program" (serve.py or http_server.py) and "room": {"leaves_mib", "device_mib", "total_bytes",
"devices"}. A GPU with more memory becomes one with device_mib of which leaves_mib are free: another process holds the
rest, and what vLLM derives from the size of the whole GPU is given to it. Exit status 77: it has not that much."""
import importlib
import json
import os
import sys

MIB = 1 << 20
# What vLLM chooses on a GPU with less than 70 GiB (EngineArgs.get_batch_defaults); on a larger one it is more.
BATCHES = {"serve.py": {"max_num_batched_tokens": 8192, "max_num_seqs": 256},
           "http_server.py": {"max_num_batched_tokens": 2048, "max_num_seqs": 256}}
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vllm"))


def scaled(arguments, program, usual, device_bytes, total):
    """The same arguments for a larger GPU; usual: vLLM's own utilization, which is a part of the whole GPU."""
    utilization = arguments.get("gpu_memory_utilization", usual)
    return {**BATCHES[program], **arguments, "gpu_memory_utilization": utilization * device_bytes / total}


def make_room(case, leaves_mib, device_mib, total_bytes, devices):
    if total_bytes <= leaves_mib * MIB:
        return
    from vllm.engine.arg_utils import EngineArgs
    import serve
    for device in range(devices):
        if not serve.neighbour(None, leaves_mib, device).startswith("holds"):
            print(f"less than {leaves_mib} MiB are free on GPU {device}", file=sys.stderr)
            sys.exit(77)
    if total_bytes > device_mib * MIB:
        usual = EngineArgs.gpu_memory_utilization
        case["arguments"] = scaled(case["arguments"], case["program"], usual, device_mib * MIB, total_bytes)


def main():
    case = json.loads(sys.argv[1])
    make_room(case, **case.pop("room"))
    program = importlib.import_module(os.path.splitext(case.pop("program"))[0])
    sys.argv[1] = json.dumps(case)
    program.main()


if __name__ == "__main__":
    main()
