#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the caching allocator out of PyTorch's CUDA wheels: two libraries, the headers of their interface and a few Python
files, some 3 MB of each wheel, by range requests to where pip says that the wheel is. Nothing is installed, and nothing of
NVIDIA's is fetched.

Usage: fetch-torch.py DEPS [VERSION...]    result: DEPS/torch/VERSION/torch/{lib,include,cuda,...} and DEPS/torch/VERSION/done
       fetch-torch.py --whole DEPS [PYTHON]
                                           the Python package (half a gigabyte to fetch, one on disk) and what it needs, as
                                           torch-whole.txt pins them: DEPS/torch/VERSION-whole/{torch,sympy,...,done}, for
                                           Python 3.11; DEPS/torch/VERSION-whole-3.12 for PYTHON=3.12
       fetch-torch.py --list               the versions that torch.sha256 pins, one a line
       fetch-torch.py --pin VERSION        prints the lines of torch.sha256 and torch-whole.txt for another version
Each file is checked by the CRC of the wheel and by a SHA256 of torch.sha256, a whole wheel by its SHA256 in torch-whole.txt.
What cannot be had leaves the reason in DEPS/torch/VERSION.skipped (VERSION-whole.skipped); it is tried again next time."""
import hashlib
import os
import re
import sys

import pip_wheels

HERE = os.path.dirname(os.path.realpath(__file__))
PINS, WHOLE = os.path.join(HERE, "torch.sha256"), os.path.join(HERE, "torch-whole.txt")
TREES = ("torch/include/c10/", "torch/include/torch/headeronly/")
FILES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so", "torch/version.py", "torch/cuda/_memory_viz.py",
         "torch/utils/viz/_cycles.py")
COMPILERS = ("torch/include", "torch/share", "torch/test")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def groups(members):
    """What one SHA256 stands for: a file, or a tree as `sha256sum` would list it."""
    out = {name: sha256(data) for name, data in members.items() if name in FILES}
    for tree in TREES:
        lines = [f"{sha256(members[name])}  {name}\n" for name in sorted(members) if name.startswith(tree)]
        if lines:
            out[tree] = sha256("".join(lines).encode())
    return out


def read_members(version):
    """Name -> bytes. The interpreter's version does not matter: the libraries are the same."""
    with pip_wheels.open_wheel(pip_wheels.find("torch", version)) as wheel:
        return {m.filename: wheel.read(m) for m in sorted(wheel.infolist(), key=lambda m: m.header_offset)
                if m.filename in FILES or m.filename.startswith(TREES) and not m.is_dir()}


def read_pins():
    """Version -> {member or tree: SHA256}."""
    pins = {}
    with open(PINS, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                version, what, value = line.split()
                pins.setdefault(version, {})[what] = value
    return pins


def fetch(target, version, pins):
    if not pins:
        raise pip_wheels.Refused("torch.sha256 does not pin it")
    members = read_members(version)
    found = groups(members)
    for what in sorted(set(found) | set(pins)):
        if found.get(what) != pins.get(what):
            raise pip_wheels.Refused(f"{what} is not what torch.sha256 pins")
    for name, data in members.items():
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)


def print_pins(version):
    for what, digest in groups(read_members(version)).items():
        print(f"{version:7} {what:34} {digest}")
    for python in ("3.11", "3.12"):  # of torch-whole.txt
        pip_wheels.print_pins(python, f"torch==={version}")


def main(words):
    pins = read_pins()
    if words == ["--list"]:
        print("\n".join(pins))
    elif words[:1] == ["--pin"] and len(words) == 2:
        print_pins(words[1])
    elif words[:1] == ["--whole"] and len(words) in (2, 3):
        with open(WHOLE, encoding="utf-8") as lines:
            version = re.search(r"^torch===(\S+)", lines.read(), re.M).group(1)
        pip_wheels.provide(os.path.join(words[1], "torch"), "-".join((version, "whole", *words[2:])),
                           lambda target: pip_wheels.install(target, (words[2:] or ["3.11"])[0], WHOLE, COMPILERS))
    elif words and not words[0].startswith("-"):
        for version in words[1:] or pins:
            pip_wheels.provide(os.path.join(words[0], "torch"), version,
                               lambda target, v=version: fetch(target, v, pins.get(v, {})))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except pip_wheels.Refused as refused:
        sys.exit(f"fetch-torch: {refused}")
