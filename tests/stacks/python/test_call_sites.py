#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which line names a failed allocation, below files that lie where PyTorch's and vLLM's do: on the line that the recorder
prints, and in the report. The truth is the program's, which knows what each of its files is for."""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from tap import case, equal, main, read_json, report  # noqa: E402
from test_frames import traced  # noqa: E402

SIZE = 1 << 40  # no device has it

# The innermost file calls the driver, the others their first argument with the rest.
INNERMOST = """
import ctypes
class {name}:
    def {function}(self):
        cuda, context, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
        assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxSetCurrent(context)
        return cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t({size}))  # innermost
"""
OUTER = """
class {name}:
    def {function}(self, inner, *more):
        return inner(*more)
"""
MAIN = """
import importlib.util, sys
def load(path):
    spec = importlib.util.spec_from_file_location("m%d" % len(path), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(v for k, v in vars(module).items() if k.startswith("C_"))()
calls = [getattr(load(path), function) for path, function in {calls!r}]
if calls[0](*calls[1:]) != 2:
    sys.exit("the allocation did not fail")
"""
TORCH, VLLM = "lib/python3/site-packages/torch", "lib/python3/site-packages/vllm"
CASES = {
    "a model above layers and wrappers of vLLM and PyTorch": [
        ("vllm/serve.py", "load"), (VLLM + "/model_executor/models/llama.py", "make_mlp"),
        (VLLM + "/model_executor/layers/linear.py", "create_weights"), (VLLM + "/model_executor/parameter.py", "torch_function"),
        (TORCH + "/utils/_device.py", "torch_function"), (TORCH + "/_ops.py", "call")],
    "a file of PyTorch that no table names": [("train.py", "step"), (TORCH + "/new/folder/thing.py", "helper")],
    "an optimizer": [("train.py", "step"), (TORCH + "/optim/adam.py", "init_group"), (TORCH + "/_tensor.py", "wrapped")],
    "somebody's own folder torch": [("torch/train.py", "step"), (TORCH + "/functional.py", "einsum")],
    "a program behind decorators": [("model.py", "forward"), ("lib/python3/contextlib.py", "inner"), ("lib/python3/functools.py", "wrapper")],
}
WANTED = {"a model above layers and wrappers of vLLM and PyTorch": 1, "a file of PyTorch that no table names": 0, "an optimizer": 1,
          "somebody's own folder torch": 0, "a program behind decorators": 0}


def run(chain, script="main.py"):
    """The line on stderr and the stack of the OOM, of a program whose files call each other, the outermost first."""
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        calls = []
        for i, (path, function) in enumerate(chain):
            text = INNERMOST if i == len(chain) - 1 else OUTER
            calls.append((os.path.join(folder, path), function))
            os.makedirs(os.path.dirname(calls[-1][0]), exist_ok=True)
            with open(calls[-1][0], "w", encoding="utf-8") as f:
                f.write(text.format(name=f"C_{i}", function=function, size=SIZE))
        start, trace = os.path.join(folder, script), os.path.join(folder, "trace.zst")
        os.makedirs(os.path.dirname(start), exist_ok=True)
        with open(start, "w", encoding="utf-8") as f:
            f.write(MAIN.format(calls=calls))
        _, error = traced(trace, sys.executable, start)
        lines = [line for line in error.splitlines() if "out of memory" in line]
        equal(len(lines), 1, error[-2000:])
        (oom,) = json.loads(read_json("oom", trace))["ooms"]
        where = re.search(r"(?m)^  where +(.*)$", report("oom", trace)[1].decode()).group(1)
    return lines[0], [f for f in oom["stack"] if not f["hidden"] and f["kind"] != "end"], where


def site(frame):
    return f"{os.path.basename(frame['file'])}:{frame['line']} {frame['name']}"


def told(line):
    return re.search(r"failed \((.*?)\)", line).group(1)


def declare(name):
    @case(f"{name} names the call site, on stderr and in the report")
    def check():
        chain, place = CASES[name], WANTED[name]
        line, shown, where = run(chain)
        innermost = site(shown[0])
        path, function = chain[place]
        equal(innermost.split(" ")[1].split(".")[-1], function, innermost)
        equal(shown[0]["file"].endswith(path), True, shown[0]["file"])
        equal(told(line).split(".")[-1].split(" ")[-1], function, line)
        equal(told(line).split(" ")[0], innermost.split(" ")[0], line)  # file and line
        equal(os.path.basename(where.split(":")[0]), os.path.basename(path), where)


for each in CASES:
    declare(each)


@case("a stack of wrappers alone is named by the innermost line of Python")
def wrappers_alone():
    line, shown, where = run([(TORCH + "/utils/_device.py", "torch_function"), (TORCH + "/_ops.py", "call")], TORCH + "/run.py")
    equal(shown, [])
    equal(told(line).split(":")[0], "_ops.py", line)
    equal(os.path.basename(where.split(":")[0]), "_ops.py", where)
    equal(told(line).split(" ")[0].split(":")[1], where.split(" ")[0].split(":")[1], where)  # the line


main()
