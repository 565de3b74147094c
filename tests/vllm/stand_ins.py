# SPDX-License-Identifier: Apache-2.0
"""Libraries in place of cuBLAS, cuDNN, NCCL, ... whose functions do nothing and return success.

Their names come from what the wheels' own libraries leave undefined (tests/torch/allocator/absent.py). Those that hand
something out hand it out, and a handle holds the device memory that the real one holds: MEMORY says how much, and
from where that is known."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch/allocator"))
import absent  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
KIB, MIB = 1 << 10, 1 << 20
CUBLAS = [1 * KIB, 128 * KIB, 64 * MIB]
# A pattern of functions that create, the function that destroys, what is taken, the status when it is refused.
MEMORY = [
    # tests/gpu/results (H100, driver 580, CUDA 13.0): the three calls of each cublasCreate in training.zst. The modules
    # of its kernels (3.87 MiB, most of which stays after cublasDestroy) are not taken.
    (r"cublasCreate_v2", "cublasDestroy_v2", CUBLAS, 3),
    # The same: 100,795,392 bytes in 4 calls, which is a cuBLAS handle and 32 MiB.
    (r"cusolverDnCreate", "cusolverDnDestroy", [*CUBLAS, 32 * MIB], 2),
    # The same: 388 MiB of device memory for a communicator of one rank (NCCL 2.28), in 199 calls together with
    # page-locked memory. The sizes of the calls were not recorded: pieces of 2 MiB are an assumption, and so is that a
    # rank of two takes as much as the only rank of one. NCCL's 198 MiB of modules are not taken.
    (r"ncclCommInitRank(Config)?", "ncclCommDestroy", [2 * MIB] * 194, 1),
    # Not measured: nothing is taken.
    (r"cublasLtCreate|cusparseCreate|cudnnCreate|curandCreateGenerator", "", [], 2),
]
# CUDA's major version -> what the libraries of its time say of themselves.
VERSIONS = {
    12: {"cublas": 120804, "cudart": 12080, "cudnn": 91002, "nccl": 22705, "minor": 8},
    13: {"cublas": 130100, "cudart": 13000, "cudnn": 92400, "nccl": 22803, "minor": 0},
}
CALLS = {
    # returnAlgoCount = 1; one cublasLtMatmulHeuristicResult_t of zeros: no workspace, state success
    "cublasLtMatmulAlgoGetHeuristic":
        "long {n}(void *h, void *d, void *a, void *b, void *c, void *e, void *p, int want, char *out, int *got)"
        " {{ for (int i = 0; i < 96; i++) out[i] = 0; *got = 1; return 0; }}\n",
    "cublasLtGetVersion": "unsigned long {n}(void) {{ return {cublas}; }}\n",
    "cublasGetVersion_v2": "long {n}(void *h, int *v) {{ *v = {cublas}; return 0; }}\n",
    "cudnnGetVersion": "unsigned long {n}(void) {{ return {cudnn}; }}\n",
    "cudnnGetCudartVersion": "unsigned long {n}(void) {{ return {cudart}; }}\n",
    # A convolution asks for a list of engines (attribute 202), for the engine of a plan (300) and for sizes (type 3,
    # int64): there is one engine, which needs no workspace.
    "cudnnBackendGetAttribute":
        "long {n}(void *d, int name, int type, long want, long *got, long *out)"
        " {{ if (got) *got = type == 3 || name == 202 || name == 300;"
        " if (type == 3 && want > 0 && out) *out = 0; return 0; }}\n",
    "cudnnBackendCreateDescriptor": "long {n}(int type, void **d) {{ static char one; *d = &one; return 0; }}\n",
    "ncclGetVersion": "long {n}(int *v) {{ *v = {nccl}; return 0; }}\n",
    "nvrtcVersion": "long {n}(int *a, int *b) {{ *a = {major}; *b = {minor}; return 0; }}\n",
    "ncclGetErrorString": "const char *{n}(int e) {{ return \"stand-in\"; }}\n",
    "ncclGetLastError": "const char *{n}(void *c) {{ return \"stand-in\"; }}\n",
    "ncclCommCount": "long {n}(void *c, int *v) {{ *v = 2; return 0; }}\n",
}
NOTHING = "long {n}(void) {{ return 0; }}\n"
DESTROYERS = {destroy for _, destroy, _, _ in MEMORY if destroy}


def text_of_function(name, major):
    """major: of CUDA."""
    if name in CALLS:
        return CALLS[name].format(n=name, major=major, **VERSIONS[major])
    if name in DESTROYERS:
        return f"int {name}(void *handle) {{ return stand_in_destroy(handle); }}\n"
    for pattern, _, sizes, refused in MEMORY:
        if re.fullmatch(pattern, name):
            given = ", ".join(map(str, sizes)) or "0"
            return (f"int {name}(void **out) {{ static const size_t sizes[] = {{ {given} }};"
                    f" return stand_in_create(out, sizes, {len(sizes)}, {refused}); }}\n")
    return NOTHING.format(n=name)


def libraries_of(packages):
    """PyTorch's and vLLM's own."""
    its = absent.text_of("find", "-L", os.path.join(packages, "vllm"), "-name", "*.so")
    return absent.libraries_in(os.path.join(packages, "torch/lib")) + sorted(its.split())


def names_without_version(paths):
    """vLLM's extensions use cuBLAS without being linked to it: such names have no version, and need own functions."""
    return {name for path in paths for name, version in absent.symbols(path)[1] if not version}


def runtime_of(packages):
    """The name of the runtime that PyTorch is linked to: libcudart.so.13, for instance."""
    needed = absent.text_of("readelf", "-d", os.path.join(packages, "torch/lib/libc10_cuda.so"))
    return re.search(r"\[(libcudart\.so\.\d+)\]", needed).group(1)


def build(packages, sim, target):
    """Into the folder `target`; packages: where torch and vllm are; sim: build/sim."""
    os.makedirs(target, exist_ok=True)
    paths, runtime = [p for p in libraries_of(packages) if os.path.isfile(p)], runtime_of(packages)
    major = int(runtime.rsplit(".", 1)[1])
    libraries = absent.functions(paths, os.path.join(sim, runtime))
    known = {name for names in libraries.values() for name, _ in names}
    for library, start in ((f"libcublasLt.so.{major}", "cublasLt"), (f"libcublas.so.{major}", "cublas")):
        more = {n for n in names_without_version(paths) if n.startswith(start)} - known
        libraries[library] |= {(n, library) for n in more}
        known |= {n for n, _ in libraries[library]}
    # pynccl opens NCCL by itself and asks for these by name.
    libraries["libnccl.so.2"] |= {(n, "") for n in asked_by_pynccl(packages)}
    more = ["-include", os.path.join(HERE, "handles.c"), os.path.join(sim, "libsimcudart.a"),
            "-Wl,--exclude-libs,ALL", "-pthread", "-ldl"]
    for library, names in libraries.items():
        absent.build_library(os.path.join(target, library), names, lambda name: text_of_function(name, major), more)
    link_runtime(packages, os.path.join(sim, runtime), target)


def asked_by_pynccl(packages):
    with open(os.path.join(packages, "vllm/distributed/device_communicators/pynccl_wrapper.py"), encoding="utf-8") as f:
        return set(re.findall(r'Function\(\s*"(nccl\w+)"', f.read()))


def link_runtime(packages, runtime, target):
    """Wheels that bring NVIDIA's runtime under a name of their own find the stand-in under that name. (The file itself
    is not unpacked, see fetch-vllm.py: NVIDIA's would be a second runtime, which no simulated driver can serve.)"""
    for path in absent.libraries_in(os.path.join(packages, "torchvision")):
        for name in re.findall(r"NEEDED.*\[(libcudart\.\w+\.so\.\d+)\]", absent.text_of("readelf", "-d", path)):
            link = os.path.join(target, name)
            if not os.path.lexists(link):
                os.symlink(runtime, link)


if __name__ == "__main__":
    build(*sys.argv[1:4])
