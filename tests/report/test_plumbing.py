#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Call sites of real vLLM and PyTorch: none with more than 1 % of the memory is a frame of a framework's plumbing.

What plumbing is, is said here once more, by folders and namespaces, and not by the report's table. CUTRACE_TRACES names
a folder with other traces."""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import ROOT, case, main, read_json, sample, skip_all  # noqa: E402

FOLDERS = [os.environ["CUTRACE_TRACES"]] if os.environ.get("CUTRACE_TRACES") else [
    os.path.join(ROOT, "tests", folder) for folder in ("report/vllm", "report/pytorch", "gpu/results")]
TRACES = sorted(path for folder in FOLDERS for path in glob.glob(os.path.join(folder, "**/*.zst"), recursive=True))

# Of PyTorch's Python files, those that say what memory is for. Everything else of it is plumbing.
TORCH_MEANS = re.compile(r"/torch/(optim/(?!optimizer\.py)|nn/modules/(?!module\.py|container\.py)|nn/(parallel|utils)/|ao/|utils/data/"
                         r"|distributed/(?!tensor/|c10d_logger|distributed_c10d|_functional)|_inductor/runtime/benchmarking\.py)")
OTHER_FILES = re.compile(r"/vllm/(device_allocator|tracing|ir)/|/vllm/compilation/(?!passes/)|/vllm/(_custom_ops|forward_context)\.py$"
                         r"|/vllm/model_executor/(parameter|custom_op|utils)\.py$|/(contextlib|functools|threading)\.py$|/asyncio/|^<frozen "
                         r"|^<eval_with_key>|/triton/(runtime|compiler|backends)/|/torchinductor_|/inductor_cache/|/torch_compile_cache/")
# What a backward pass does beside the functions that are generated for it.
BACKWARD = r"autograd::(generated::|accumulate$|InputMetadata::reduce_grad$)"
NAMESPACES = re.compile(r"[*&]*(torch|at|c10|caffe2|pybind11)::(?!" + BACKWARD + ")")
LIBRARIES = re.compile(r"^(libtorch|libc10|cumem_allocator|libcuda|libcudart)|^python3?")


def function_of(signature):
    """The name of a C++ function without its result, its parameters and its templates' arguments."""
    while (bare := re.sub(r"<[^<>]*>", "", signature)) != signature:
        signature = bare
    return signature.split("(")[0].split(" ")[-1]


def is_plumbing(frame):
    if frame["kind"] == "python":
        path = frame["file"] or ""
        in_torch = re.search(r"/(site|dist)-packages/torch/", path) and not TORCH_MEANS.search(path)
        return bool(in_torch or OTHER_FILES.search(path) or (path == "<string>" and frame["name"] == "execution_fn"))
    name = function_of(frame["name"] or "")
    return bool(NAMESPACES.match(name) or name.startswith(("torch_call_dispatcher", "aoti_torch", "THP"))
                or (LIBRARIES.search(os.path.basename(frame["module"] or "")) and not re.search(BACKWARD, name)))


def label(frame):
    return f"{frame['file']}:{frame['line']} {frame['name']}" if frame["kind"] == "python" else f"{frame['name']} ({frame['module']})"


def of_devices(path, *more):
    """Sites of a device with what each has of all: at the moment, or in all that was allocated."""
    for device in json.loads(read_json("top", "--top=100000", *more, path))["devices"]:
        sites = [s for s in device["sites"] if s["kind"] in ("block", "allocation", "segment") and s["stack"]]
        for key in ("bytes", "total_allocated_bytes"):
            whole = sum(s[key] or 0 for s in sites)
            for s in sites:
                if s[key] and s[key] > whole / 100:
                    yield s, key, s[key] / whole


def declare(path):
    name = os.path.relpath(path, os.path.commonpath(FOLDERS))

    @case(f"{name}: no call site with more than 1 % is plumbing")
    def check():
        problems, seen = [], 0
        for more in ((), ("--segments",)):
            for site, key, share in of_devices(path, *more):
                shown = [f for f in site["stack"] if not f["hidden"] and f["kind"] != "end"]
                frames = [f for f in site["stack"] if f["kind"] != "end"]
                # A stack of plumbing alone has a name all the same.
                first, seen = (shown or frames)[0], seen + 1
                if is_plumbing(first) and not all(map(is_plumbing, frames)):
                    problems.append(f"{label(first)}: {share:.1%} of {key} ({site['site']})")
        return problems or f"{seen} call sites"


if not TRACES:
    skip_all("there are no traces of vLLM or PyTorch")
for each in sample(TRACES, 20):
    declare(each)
main()
