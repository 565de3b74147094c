#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks vLLM and the packages that it needs: 1.2 to 1.6 GB to fetch and 3 to 4 GB on disk for each version. Nothing is
installed, and nothing of NVIDIA's is kept: tests/vllm runs it on the simulated GPU.

Usage: fetch-vllm.py DEPS VERSION               result: DEPS/vllm/VERSION/{vllm,torch,...,done}
       fetch-vllm.py --list                     the versions that are pinned, one a line
       fetch-vllm.py --pin REQUIREMENTS [PYTHON [DATE]]
           prints the lines of vllm-VERSION.pins for a requirements file and a version of Python (3.11), as pip has it
           today, or had it on a date such as 2025-12-05 (with pip 26 or later): an older vLLM needs what fitted then
vllm-VERSION.pins is a requirements file of pip with hashes, and says for which Python.
What cannot be had leaves the reason in DEPS/vllm/VERSION.skipped; it is tried again next time."""
import glob
import os
import re
import shutil
import sys

import pip_wheels

HERE = os.path.dirname(os.path.realpath(__file__))
NEEDED = 6 << 30  # bytes on disk: the packages, and their wheels beside them
# What only a compiler needs, and a copy of NVIDIA's runtime, in whose place the simulated one is found.
LEFT_OUT = ("torch/include", "torch/share", "torch/test", "torchvision.libs/libcudart.*")


def versions():
    return sorted(os.path.basename(p)[len("vllm-"):-len(".pins")] for p in glob.glob(os.path.join(HERE, "vllm-*.pins")))


def fetch(target, version):
    if version not in versions():
        raise pip_wheels.Refused(f"there is no vllm-{version}.pins")
    free = shutil.disk_usage(os.path.dirname(target)).free
    if free < NEEDED:
        raise pip_wheels.Refused(f"less than {NEEDED >> 30} GiB of disk: {free / (1 << 30):.1f} GiB")
    pins = os.path.join(HERE, f"vllm-{version}.pins")
    with open(pins, encoding="utf-8") as lines:
        python = re.search(r"^# Python ([\d.]+)$", lines.read(), re.M).group(1)
    pip_wheels.install(target, python, pins, LEFT_OUT)


def print_pins(requirements, python="3.11", date=""):
    print(f"# Python {python}")
    pip_wheels.print_pins(python, *(["--uploaded-prior-to", date + "T00:00:00Z"] if date else []), "-r", requirements)


def main(words):
    if words == ["--list"]:
        print("\n".join(versions()))
    elif words[:1] == ["--pin"] and len(words) in (2, 3, 4):
        print_pins(*words[1:])
    elif len(words) == 2 and not words[0].startswith("-"):
        pip_wheels.provide(os.path.join(words[0], "vllm"), words[1], lambda target: fetch(target, words[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except pip_wheels.Refused as refused:
        sys.exit(f"fetch-vllm: {refused}")
