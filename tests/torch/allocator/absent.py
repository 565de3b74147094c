# SPDX-License-Identifier: Apache-2.0
"""Empty libraries in place of NVIDIA's that PyTorch is linked to and that are not installed (cuBLAS, cuDNN, NCCL, ...).

Their functions are the names that the wheels' own libraries leave undefined. Each returns 1, which is an error in all
of these interfaces: code that needs one of them fails, as on a machine where the library does not work, and all other
code runs. The functions that the stand-in runtime lacks are among them. Who wants other functions (tests/vllm does)
gives build() the text of each."""
import collections
import os
import re
import subprocess

ABSENT = re.compile(r"lib(cu|nv|nccl)")
# Libraries without versions of symbols: the beginnings of their functions' names.
PREFIXES = {"libnccl": ("nccl", "pnccl"), "libcudnn": ("cudnn",), "libnvshmem_host": ("nvshmem",), "libcusparseLt": ("cusparseLt",),
            "libcufile": ("cuFile",), "libcupti": ("cupti",), "libnvrtc": ("nvrtc",)}


def text_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(path):
    """(defined names, undefined (name, version))"""
    defined, undefined = set(), set()
    for line in text_of("nm", "-D", path).splitlines():
        kind, name = line.split()[-2:]
        name, _, version = name.partition("@")
        if kind == "U":
            undefined.add((name, version.lstrip("@")))
        elif kind not in "wv":
            defined.add(name)
    return defined, undefined


def versions_of(path):
    """Version of symbols -> library that must have it."""
    out, file = {}, None
    for line in text_of("readelf", "-VW", path).splitlines():
        found = re.search(r"File: (\S+)", line)
        file = found.group(1) if found else file
        found = re.search(r"Name: (\S+)  Flags", line)
        if found and file:
            out[found.group(1)] = file
    return out


def libraries_in(folder):
    return [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if ".so" in n]


def functions(paths, runtime):
    """Library that is not here -> {(function, version)}. Beside the stand-in runtime lies the simulated driver."""
    here = {os.path.basename(p) for p in paths} | set(os.listdir(os.path.dirname(runtime)))
    defined, undefined, needed, version_in = set(symbols(runtime)[0]), set(), set(), {}
    for path in paths:
        its, asked = symbols(path)
        defined |= its
        undefined |= asked
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", text_of("readelf", "-d", path)))
        version_in.update(versions_of(path))
    out = {name: set() for name in needed - here if ABSENT.match(name)}
    for name, version in sorted(undefined):
        library = version_in.get(version) or next(
            (n for n in out if not version and name.startswith(PREFIXES.get(n.split(".so")[0], ("\0",)))), None)
        if library == os.path.basename(runtime):  # any library may bring a function of its version
            library = sorted(out)[0]
        if library in out and name not in defined:
            out[library].add((name, version))
    return out


def failing(name):
    return f"long {name}(void);\nlong {name}(void) {{\n    return 1;\n}}\n"


def build_library(path, names, text_of_function=failing, more=()):
    """The library at `path` with these (function, version). more: further sources and words for the compiler."""
    by_version = collections.defaultdict(list)
    for name, version in sorted(names):
        by_version[version].append(name)
    with open(path + ".c", "w", encoding="utf-8") as f:
        f.writelines(text_of_function(name) for name, _ in sorted(names))
    with open(path + ".map", "w", encoding="utf-8") as f:
        f.writelines(f"{version} {{ global: {'; '.join(its)}; }};\n" for version, its in by_version.items() if version)
    scripts = [f"-Wl,--version-script={path}.map"] if any(by_version) else []
    subprocess.run([os.environ.get("CC", "gcc").split()[0], "-w", "-fno-builtin", "-shared", "-fPIC",
                    f"-Wl,-soname,{os.path.basename(path)}", *scripts, "-o", path, path + ".c", *more], check=True)


def build(paths, runtime, target):
    """Into the folder `target`; paths: of the wheel's libraries."""
    os.makedirs(target, exist_ok=True)
    for library, names in functions(paths, runtime).items():
        build_library(os.path.join(target, library), names)
