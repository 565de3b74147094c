# SPDX-License-Identifier: Apache-2.0
"""Allocates from Python frames that call each other directly and through C, and logs how, for each allocation:
merged.py OUT SEED ALLOCATIONS LIBCUDA

A line of OUT is a JSON object: bytes (of the allocation, its name), frames ([function, file, line], innermost first, as
sys._getframe has them) and ways (how the next frame called this one: "direct", or the C code between them)."""
import ctypes
import functools
import json
import random
import sys

out = open(sys.argv[1], "w", encoding="utf-8")  # pylint: disable=consider-using-with
dice = random.Random(int(sys.argv[2]))
cuda = ctypes.CDLL(sys.argv[4])
cuda.cuMemAlloc_v2.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
Callback = ctypes.CFUNCTYPE(ctypes.c_int)
WAYS = ["direct", "direct", "sorted", "map", "reduce", "callback", "generator"]
made = 0
place = ctypes.c_uint64()
at = ctypes.addressof(place)


def take(ways):
    global made  # pylint: disable=global-statement
    made += 1
    frame = sys._getframe()  # pylint: disable=protected-access
    cuda.cuMemAlloc_v2(at, made); line = frame.f_lineno  # pylint: disable=multiple-statements # noqa: E702
    frames = []
    while frame:
        code = frame.f_code
        frames.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    frames[0][2] = line
    json.dump({"bytes": made, "frames": frames, "ways": ways}, out)
    out.write("\n")
    return made


def generate(way, ways):
    yield step(way, ways)


def step(way, ways):
    """Goes the rest of the way; `ways` is what was gone, innermost first."""
    if not way:
        return take(["direct"] + ways)
    kind, *way = way
    if kind == "sorted":
        return sorted([1], key=lambda _: step(way, ["direct", kind] + ways))
    if kind == "map":
        return list(map(lambda _: step(way, ["direct", kind] + ways), [1]))
    if kind == "reduce":
        return functools.reduce(lambda a, b: step(way, ["direct", kind] + ways), [1, 2])
    if kind == "callback":
        return Callback(lambda: step(way, ["direct", kind] + ways) and 0)()
    if kind == "generator":
        return list(generate(way, ["direct", kind] + ways))
    return step(way, ["direct"] + ways)


def main():
    context = ctypes.c_void_p()
    assert not cuda.cuInit(0)
    assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not cuda.cuCtxSetCurrent(context)
    for _ in range(int(sys.argv[3])):
        step([dice.choice(WAYS) for _ in range(dice.randrange(12))], ["direct", "direct"])


main()
out.close()
