#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks vLLM and the packages that it needs from PyPI's wheels: 1.2 to 1.6 GB to fetch and 3 to 4 GB on disk for each
version. Nothing is installed, and nothing of NVIDIA's is kept: tests/vllm runs it on the simulated GPU.

Usage: fetch-vllm.py DEPS VERSION               result: DEPS/vllm/VERSION/{vllm,torch,...,done}
       fetch-vllm.py --list                     the versions that are pinned, one a line
       fetch-vllm.py --pin REQUIREMENTS [PYTHON [DATE]]
           prints the lines of vllm-VERSION.pins for a requirements file and a version of Python (3.11), as PyPI has it
           today, or had it on a date such as 2025-12-05 (with pip 26 or later): an older vLLM needs what fitted then
A line of vllm-VERSION.pins is the path of a wheel on PyPI's host, which consists of the BLAKE2b of the wheel: each is
checked.
What cannot be had leaves the reason in DEPS/vllm/VERSION.skipped; it is tried again next time."""
import fcntl
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile

HOST = "https://files.pythonhosted.org/packages/"
HERE = os.path.dirname(os.path.realpath(__file__))
PATIENCE = 60  # seconds without an answer
NEEDED = 5 << 30  # bytes on disk: the packages, and the largest wheel beside them
# What only a compiler needs, and a copy of NVIDIA's runtime, in whose place the simulated one is found.
LEFT_OUT = ("torch/include/", "torch/share/", "torch/test/", "torchvision.libs/libcudart.")


class Refused(Exception):
    """The text says why there is nothing."""


def versions():
    return sorted(os.path.basename(p)[len("vllm-"):-len(".pins")] for p in glob.glob(os.path.join(HERE, "vllm-*.pins")))


def read_pins(version):
    """Paths of wheels."""
    if version not in versions():
        raise Refused(f"there is no vllm-{version}.pins")
    with open(os.path.join(HERE, f"vllm-{version}.pins"), encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def unpack(path, target):
    digest = hashlib.blake2b(digest_size=32)
    with tempfile.TemporaryFile(dir=os.path.dirname(target)) as file:
        with urllib.request.urlopen(HOST + path, timeout=PATIENCE) as answer:
            while data := answer.read(1 << 20):
                digest.update(data)
                file.write(data)
        if digest.hexdigest() != "".join(path.split("/")[:3]):
            raise Refused(f"{path} is not what its name says")
        with zipfile.ZipFile(file) as wheel:
            for member in wheel.infolist():
                if not member.filename.startswith(LEFT_OUT):
                    made = wheel.extract(member, target)
                    if member.external_attr >> 16 & 0o111 and not member.is_dir():  # ptxas, for instance
                        os.chmod(made, 0o755)


def fetch(target, pins):
    free = shutil.disk_usage(os.path.dirname(target)).free
    if free < NEEDED:
        raise Refused(f"less than {NEEDED >> 30} GiB of disk: {free / (1 << 30):.1f} GiB")
    shutil.rmtree(target, ignore_errors=True)
    for number, path in enumerate(pins, 1):
        print(f"fetch-vllm: {number} of {len(pins)}: {path.rsplit('/', 1)[1]}", file=sys.stderr)
        unpack(path, target)
    with open(os.path.join(target, "done"), "w", encoding="utf-8"):
        pass


def fetch_or_say_why(folder, version):
    target, skipped = os.path.join(folder, version), os.path.join(folder, version + ".skipped")
    if os.path.exists(os.path.join(target, "done")):
        return
    if os.path.exists(skipped):
        os.unlink(skipped)
    try:
        fetch(target, read_pins(version))
    except (OSError, urllib.error.URLError, zipfile.BadZipFile, Refused) as error:
        shutil.rmtree(target, ignore_errors=True)
        reason = f"{error}" if isinstance(error, Refused) else f"PyPI cannot be reached: {error}"
        with open(skipped, "w", encoding="utf-8") as out:
            print(reason, file=out)
        print(f"fetch-vllm: {version}: {reason}", file=sys.stderr)


def print_pins(requirements, python="3.11", date=""):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        dated = ["--uploaded-prior-to", date + "T00:00:00Z"] if date else []
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "--ignore-installed",
                        "--only-binary", ":all:", "--python-version", python, "--target", tempfile.gettempdir(), *dated,
                        "--report", report.name, "-r", requirements], check=True)
        for package in json.load(report)["install"]:
            print(package["download_info"]["url"].split("/packages/", 1)[1])


def main(words):
    if words == ["--list"]:
        print("\n".join(versions()))
    elif words[:1] == ["--pin"] and len(words) in (2, 3, 4):
        print_pins(*words[1:])
    elif len(words) == 2 and not words[0].startswith("-"):
        folder = os.path.join(words[0], "vllm")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fetch_or_say_why(folder, words[1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
