#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the hook table with the memory-affecting functions that CUDA headers declare.

Usage: check-api.py [--all] INCLUDE-FOLDER...

A function of cuda.h or cuda_runtime_api.h (every exported variant: _v2, _ptsz, ...) whose name says that
it may allocate, free, map, reserve, share or resize memory must have a row in preload/intercept/hooks.def or
runtime_hooks.def, or a reason in excluded.def. The name patterns are below; a name that they catch by accident
is a word in excluded.def, which is cheaper than a name that they miss.

--all: the folders are the oldest and the newest CUDA that is supported, so that a row which none of them
declares is an error too: a misspelt row would never be called.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

# What the name must match, without its variant suffix.
DRIVER = r"""
cuMem(?!cpy|set|GetAddressRange|RangeGetAttribute|BatchDecompress|Retain).* cuMemRetainAllocationHandle
cuArray(3D)?Create cuArrayDestroy cuMipmappedArrayCreate cuMipmappedArrayDestroy
cuIpc.*Mem.*
cuMulticast.*
cuGraph.*Mem(Alloc|Free).* cuGraphAddNode cuGraphInstantiate.* cuGraphLaunch cuGraphUpload
cuGraph(Exec)?Destroy cuGraphExecUpdate cuDevice.*GraphMem.*
cuDevice.*MemPool cuDevicePrimaryCtx(Retain|Release|Reset|SetFlags)
cuCtx(Create|Destroy|Attach|Detach|SetLimit|Synchronize|FromGreenCtx) cuCtx(Enable|Disable)PeerAccess
cuGreenCtx(Create|Destroy|StreamCreate)
cuModuleLoad.* cuModuleUnload cuModuleGet(Function|Global|TexRef|SurfRef) cuLibraryLoad.* cuLibraryUnload
cuLibraryGet(Kernel|Module|Global|Managed|UnifiedFunction) cuKernelGetFunction cuFuncLoad cuFuncGetModule
cu(Func|Kernel)[GS]etAttribute cuOccupancyMaxActiveBlocksPerMultiprocessor.* cuLink.*
cuImportExternalMemory cuExternalMemory.* cuDestroyExternalMemory
cuGraphics(Map|Unmap).* cuGraphicsUnregisterResource
cuStream(Begin|End)Capture.* cuStream(Create|Destroy).* cuStreamSynchronize cuEvent(Create|Synchronize)
cuCheckpoint.*
cuGetProcAddress cuGetExportTable
cuLaunch(?!HostFunc).*
"""
RUNTIME = r"""
cudaMalloc.* cudaFree.* cudaHost(Alloc|Register|Unregister)
cudaMem(Pool.*|GetInfo|Get.*MemPool|SetMemPool|Prefetch.*|Discard.*|Advise)
cudaIpc.*Mem.* cudaImportExternalMemory cudaExternalMemory.* cudaDestroyExternalMemory
cudaGraph.*Mem(Alloc|Free).* cudaGraphAddNode cudaGraphInstantiate.* cudaGraphLaunch cudaGraphUpload
cudaGraph(Exec)?Destroy cudaGraphExecUpdate cudaDeviceGraphMemTrim cudaDevice.*GraphMem.*
cudaDevice(Reset|SetLimit|Synchronize|.*MemPool) cudaInitDevice cudaSetDevice cudaSetDeviceFlags
cudaDevice(Enable|Disable)PeerAccess cudaThread(Exit|SetLimit|Synchronize)
cudaGraphics(Map|Unmap).* cudaGraphicsUnregisterResource
cudaStream(Begin|End)Capture.* cudaStream(Create|Destroy).* cudaStreamSynchronize cudaEventSynchronize
cudaLibrary(Load.*|Unload) cudaLaunch(?!HostFunc).*
cudaGetDriverEntryPoint.* cudaGetExportTable
"""
VARIANT = re.compile(r"(_v\d+)?(_pt[sd]z)?(_\d{5})?$")


def patterns(text):
    return re.compile("(?:" + "|".join(text.split()) + r")\Z")


DRIVER, RUNTIME = patterns(DRIVER), patterns(RUNTIME)


def memory_affecting(symbol):
    base = VARIANT.sub("", symbol)
    return bool((RUNTIME if symbol.startswith("cuda") else DRIVER).match(base))


def declared(include):
    """The names of all functions that cuda.h and cuda_runtime_api.h declare, in every variant."""
    names = set()
    source = "#include <cuda.h>\n#include <cuda_runtime_api.h>\n"
    # The headers name the older and the per-thread variants only under these switches.
    for switches in (
        [],
        ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"],
        ["-D__CUDA_API_VERSION_INTERNAL", "-D__CUDART_API_VERSION_INTERNAL"],
    ):
        text = subprocess.run(
            ["gcc", "-E", "-P", "-x", "c", "-I", include, *switches, "-"],
            input=source, capture_output=True, text=True, check=True,
        ).stdout
        names.update(re.findall(r"\b(?:CUresult|cudaError_t)\s+(cu(?:da)?[A-Z]\w*)\s*\(", text))
    return names


def version(include):
    with open(os.path.join(include, "cuda.h"), encoding="utf-8") as header:
        return int(re.search(r"#define CUDA_VERSION (\d+)", header.read()).group(1))


def rows(name, macros):
    """The first arguments of the rows of a table, whatever #if stands around them."""
    path = os.path.join(ROOT, "preload", "intercept", name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as table:
        text = re.sub(r"//.*", "", table.read())
    found = re.findall(r"^\s*(%s)\(\s*(\w+)\s*,\s*(.*)" % macros, text, re.M)
    return {symbol: rest for _, symbol, rest in found if symbol != "symbol"}


def exclusions():
    """The reason of each symbol in excluded.def."""
    with open(os.path.join(ROOT, "preload", "intercept", "excluded.def"), encoding="utf-8") as table:
        text = re.sub(r"//.*", "", table.read())
    return {symbol: reason for reason, symbols in re.findall(r'^CT_EXCLUDE\("([^"]*)",([^)]*)\)', text, re.M)
            for symbol in re.findall(r"\w+", symbols)}


def main():
    hooked = {**rows("hooks.def", r"CT_HOOK0?|CT_\w+_HOOK"), **rows("runtime_hooks.def", "CT_RTHOOK")}
    excluded = exclusions()
    problems = []
    if len(hooked) < 100:
        problems.append(f"the hook table has {len(hooked)} rows: not the table")
    for symbol in sorted(set(hooked) & set(excluded)):
        problems.append(f"{symbol}: both hooked and excluded")
    for symbol, reason in sorted(excluded.items()):
        if len(reason) < 8:
            problems.append(f"{symbol}: excluded without a reason")
    everywhere = set()
    folders = [argument for argument in sys.argv[1:] if argument != "--all"]
    for include in folders:
        names = declared(include)
        everywhere |= names
        affecting = {name for name in names if memory_affecting(name)}
        if len(affecting) < 150:
            problems.append(f"{include}: only {len(affecting)} functions recognised: the parser is wrong")
        missing = sorted(affecting - set(hooked) - set(excluded))
        for symbol in missing:
            problems.append(f"{symbol}: declared in CUDA {version(include)}, neither hooked nor excluded")
        print(f"# CUDA {version(include)} ({include}): {len(affecting)} of {len(names)} functions affect "
              f"memory, {len(affecting & set(hooked))} hooked, {len(affecting & set(excluded))} excluded")
    for symbol in sorted((set(hooked) | set(excluded)) - everywhere if "--all" in sys.argv else []):
        problems.append(f"{symbol}: no header declares it")
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
