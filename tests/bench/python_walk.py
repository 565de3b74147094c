# SPDX-License-Identifier: Apache-2.0
"""Measures stacks of Python frames in this interpreter: python_walk.py LIBRARY."""
import ctypes
import sys
import threading

DEPTHS = (10, 30, 100)
# co_name and co_filename, as in preload/stack/python_layout.c.
NAME, FILE = (112, 104) if sys.version_info < (3, 11) else (120, 112)


def at_depth(depth, function):
    """Calls it with so many frames of functions of their own."""
    space = {"f0": function}
    for n in range(1, depth):
        exec(f"def f{n}():\n    return f{n - 1}()", space)
    return space[f"f{depth - 1}"]()


HOOK = 2


def measure_hook(lib, version, base):
    """Native and Python frames together, as a hook takes them: 30 of Python, and C that calls back and forth."""
    native, python, out = ctypes.c_uint(), ctypes.c_uint(), []
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def inside(*_):
        if not out:
            lib.bench_frames(ctypes.byref(native), ctypes.byref(python))
            out.append(min(lib.bench_least(HOOK, 100) for _ in range(30)))
            lib.bench_frames(ctypes.byref(native), ctypes.byref(python))
        return 0
    through_c = compare(inside)
    numbers = (ctypes.c_int * 2)(2, 1)
    at_depth(30 - base - 2, lambda: ctypes.CDLL(None).qsort(numbers, ctypes.c_size_t(2), ctypes.c_size_t(4), through_c))
    print(f"python {version:8} a stack as a hook takes it, {native.value} native and {python.value} Python frames: "
          f"{out[0]:.0f} ns", flush=True)

    def new_ones():
        took = []
        for n in range(1000):
            space = {"lib": lib}
            exec(f"def f{n}():\n    return lib.bench_once({HOOK})", space)
            took.append(space[f"f{n}"]())
        lib.bench_frames(ctypes.byref(native), ctypes.byref(python))
        return sorted(took)[len(took) // 2]
    took = at_depth(30 - base, new_ones)
    frames = native.value + python.value
    print(f"python {version:8} a new one of {frames} frames: {took:.0f} ns, {took / frames:.0f} a frame", flush=True)


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.bench_least.restype = lib.bench_once.restype = ctypes.c_double
    assert lib.bench_begin(NAME, FILE) == 0, "no interpreter was found"
    base = 3  # at_depth, main, the module
    version = sys.version.split()[0]
    for depth in DEPTHS:
        def both():
            walk = api = 1e9
            for _ in range(30):  # by turns: what else the machine does hits both
                walk = min(walk, lib.bench_least(1, 100))
                api = min(api, lib.bench_least(0, 10))
            return walk, api
        walk, api = at_depth(depth - base, both)
        print(f"python {version:8} depth {depth:3}: walk and id {walk:4.0f} ns, GIL and C API {api:5.0f} ns, "
              f"ratio {walk / api:.3f}", flush=True)
    measure_hook(lib, version, base)
    stop = []

    def spin():
        n = 0
        while not stop:
            n += 1
    t = threading.Thread(target=spin)
    t.start()
    for walk, times in ((1, 2000), (0, 100)):
        out = (ctypes.c_double * 4)()
        at_depth(30 - base, lambda: lib.bench_quantiles(walk, times, ctypes.c_double(1e5 if walk else 1e6), out))
        print(f"python {version:8} beside a spinning thread, {'walk and id  ' if walk else 'GIL and C API'}: "
              f"median {out[0] / 1e3:.1f}, p90 {out[1] / 1e3:.1f}, p99 {out[2] / 1e3:.1f} us", flush=True)
    stop.append(1)
    t.join()


main()
