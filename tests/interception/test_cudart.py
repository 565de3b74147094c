#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's runtime, shared and static, without a device: the hooks are installed, and nothing else changes."""
import collections
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import Skip, case, main  # noqa: E402
from ways import *  # noqa: E402,F403

REAL = os.path.join(PROGRAMS, "cudart_real")


def toolkit(name):
    if not os.path.exists(os.path.join(PROGRAMS, name)):
        raise Skip("the CUDA toolkit's runtime (libcudart.so, libcudart_static.a) is not installed")
    return name


def libraries(name):
    return [open(os.path.join(PROGRAMS, "cudart_real.path")).read().strip()] if name == "cudart_shared" else []


def no_device(name, **kw):
    env = {"SIM_DEVICES": 0, "SIM_LOG": os.path.join(folder(), "log"), **kw}
    return run(toolkit(name), libraries=libraries(name), env=env), env["SIM_LOG"]


for name, kind in (("cudart_shared", "shared"), ("cudart_static", "static")):
    def _same(name=name):
        done, _ = no_device(name)
        plain = run(name, libraries=libraries(name), preload=False, env={"SIM_DEVICES": 0})
        problems = [] if (done.rc, done.out, done.err) == (plain.rc, plain.out, plain.err) else [
            f"{done.rc} {done.out} {done.err}, without {plain.rc} {plain.out} {plain.err}"]
        if "cudaErrorNoDevice" not in done.out:
            problems.append(f"no clean error: {done.out}")
        return problems + ([f"a trace: {done.traces}"] if done.traces else [])
    case(f"real runtime, {kind}: cudaErrorNoDevice as without us, no trace")(_same)

    def _lookups(name=name):
        done, log = no_device(name)
        seen = [line.split("look-up ", 1)[1].split() for line in open(log) if "look-up " in line]
        problems = [] if done.rc == 0 else [f"{done.rc} {done.err}"]
        # 440 in CUDA 13.0: all go through our resolver and reach the driver's with the arguments unchanged.
        if len(seen) < 300:
            problems.append(f"{len(seen)} look-ups")
        plain_log = os.path.join(folder(), "log")
        run(name, libraries=libraries(name), preload=False, env={"SIM_DEVICES": 0, "SIM_LOG": plain_log})
        plain = [line.split("look-up ", 1)[1].split() for line in open(plain_log) if "look-up " in line]
        if seen != plain:
            differ = collections.Counter(map(tuple, seen)) - collections.Counter(map(tuple, plain))
            problems.append(f"the driver is asked otherwise than without us: {list(differ)[:5]}")
        return problems
    case(f"real runtime, {kind}: its look-ups reach the driver as without us")(_lookups)

    def _wrapped(name=name):
        log = os.path.join(folder(), "spy")
        done = run(toolkit(name), libraries=libraries(name), env={"SIM_DEVICES": 0, "WAYS_SPY": log},
                   before=[program("libresolver_spy.so")])
        problems = [] if done.rc == 0 else [f"{done.rc} {done.err}"]
        # The spy in front of us sees what our resolver answers.
        got = dict(line.split(" ", 1) for line in open(log).read().splitlines())
        for symbol in ("cuMemAlloc@3020", "cuMemFree@3020", "cuMemAllocAsync@11020", "cuGetProcAddress@12000",
                       "cuDevicePrimaryCtxRetain@7000", "cuLibraryLoadData@12000", "cuMemHostAlloc@2020"):
            if "libcutrace" not in got.get(symbol, ""):
                problems.append(f"{symbol}: {got.get(symbol)}")
        for symbol in ("cuInit@2000", "cuMemcpyHtoD@3020", "cuStreamQuery@2000", "cuCtxGetDevice@2000"):
            if symbol in got and "libcutrace" in got[symbol]:
                problems.append(f"{symbol} was replaced")
        return problems
    case(f"real runtime, {kind}: gets our wrappers for what we hook and the driver's functions else")(_wrapped)

main()
