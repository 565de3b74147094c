# SPDX-License-Identifier: Apache-2.0
"""One case of tests/vllm on this GPU.  vllm_work.py CASE

CASE is serve.py's, with "device_mib": the memory of the device that the case was made for. A larger GPU becomes one of that
size: another process holds the rest, and gpu_memory_utilization, which is a part of the whole GPU, is scaled."""
import ctypes
import json
import os
import sys

MIB = 1 << 20
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vllm"))
import serve  # noqa: E402


def total_bytes():
    cuda, device, total = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_size_t()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device):
        raise SystemExit("the driver does not say how large the GPU is")
    return total.value


def scaled(arguments, device_bytes, total):
    """The same arguments; the utilization is of all of this GPU."""
    from vllm.engine.arg_utils import EngineArgs
    usual = arguments.get("gpu_memory_utilization", EngineArgs.gpu_memory_utilization)
    return {**arguments, "gpu_memory_utilization": usual * device_bytes / total}


def main():
    case = json.loads(sys.argv[1])
    size, total = case.pop("device_mib") * MIB, total_bytes()
    if total > size:
        serve.neighbour(None, leaves=size // MIB)
        case["arguments"] = scaled(case["arguments"], size, total)
    sys.argv[1] = json.dumps(case)
    serve.main()


if __name__ == "__main__":
    main()
