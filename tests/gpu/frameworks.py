# SPDX-License-Identifier: Apache-2.0
"""A framework that is not PyTorch at work: frameworks.py NAME. Its last line: the memory that it reports.

Exit status 77: it is not installed, or cannot use this GPU; stderr says why.
"""
import json
import os
import sys

MIB = 1 << 20


def cupy():
    import cupy
    held = cupy.arange(24 * MIB, dtype=cupy.int8)
    if int(held[5]) != 5:
        sys.exit("wrong result")
    return {"holds": cupy.get_default_memory_pool().total_bytes(), "asked": held.nbytes}


def jax():
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".10"
    import jax
    held = jax.numpy.ones((24, MIB), dtype=jax.numpy.float32)
    if float((held @ held.T)[1, 1]) != MIB:
        sys.exit("wrong result")
    device = jax.devices()[0]
    if device.platform != "gpu":
        raise ImportError(f"JAX runs on {device.platform}")
    stats = device.memory_stats() or {}
    return {"holds": stats.get("pool_bytes", held.nbytes), "asked": held.nbytes, "stats": stats}


def numba():
    import numpy
    from numba import cuda
    held = cuda.to_device(numpy.arange(24 * MIB, dtype=numpy.int8))

    @cuda.jit
    def add(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    add[(held.size + 255) // 256, 256](held)
    if held.copy_to_host()[5] != 6:
        sys.exit("wrong result")
    return {"holds": held.nbytes, "asked": held.nbytes}


if __name__ == "__main__":
    try:
        answer = {"cupy": cupy, "jax": jax, "numba": numba}[sys.argv[1]]()
    except ImportError as e:
        print(e, file=sys.stderr)
        sys.exit(77)
    print(json.dumps(answer))
