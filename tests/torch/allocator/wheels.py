# SPDX-License-Identifier: Apache-2.0
"""Fetches the caching allocators of PyTorch's wheels, and builds a program on each."""
import fcntl
import os
import platform
import re
import subprocess
import sys

import absent

ROOT = os.environ.get("CUTRACE_ROOT") or os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(ROOT, "build")
DEPS = os.environ.get("CUTRACE_DEPS") or os.path.join(ROOT, "build/deps")
SIM = os.path.join(BUILD, "sim")
FETCH = os.path.join(ROOT, "scripts/fetch-torch.py")
HERE = os.path.dirname(os.path.realpath(__file__))
PATIENCE = 600  # a guard, no measure
REFUSED = {}  # folder -> why it could not be fetched, by this process


class Unavailable(Exception):
    """The text says why."""


def versions():
    """Those that are pinned, oldest first."""
    lines = subprocess.run([sys.executable, FETCH, "--list"], check=True, capture_output=True, text=True).stdout
    return sorted(lines.split(), key=lambda v: [int(n) for n in v.split(".")])


def text_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def environment(libraries, **more):
    """Of a process on the simulated driver; a value of None takes a variable away."""
    e = {k: v for k, v in os.environ.items() if not k.startswith(("CUTRACE", "SIM_", "LD_", "PYTORCH", "PYTHON"))}
    e.update(LD_LIBRARY_PATH=":".join([*libraries]), **more)
    return {k: str(v) for k, v in e.items() if v is not None}


def cuda_headers():
    for folder in (os.environ.get("CUDA_INC"), "/usr/local/cuda/include", os.path.join(DEPS, "cuda-13/include")):
        if folder and os.path.exists(os.path.join(folder, "cuda_runtime_api.h")):
            return folder
    raise FileNotFoundError("cuda_runtime_api.h")


def fetched(version, whole=False, python=""):
    """The folder, filled if it is not there yet. python: of the whole package, if it is not 3.11."""
    folder = os.path.join(DEPS, "torch", version + ("-whole" if whole else "") + (f"-{python}" if python else ""))
    if platform.machine() != "x86_64":
        raise Unavailable("the wheels are for x86-64")
    if folder in REFUSED:
        raise Unavailable(REFUSED[folder])
    if not os.path.exists(os.path.join(folder, "done")):
        command = [FETCH, "--whole", DEPS, *([python] if python else [])] if whole else [FETCH, DEPS, version]
        subprocess.run([sys.executable, *command], check=False, timeout=PATIENCE)
    if not os.path.exists(os.path.join(folder, "done")):
        with open(folder + ".skipped", encoding="utf-8") as reason:
            REFUSED[folder] = reason.read().strip()
        raise Unavailable(REFUSED[folder])
    return folder


def interpreter(minor):
    """The command of one, which must be linked to the C library of this machine."""
    lines = text_of(os.path.join(ROOT, "scripts/fetch-pythons.sh"), "--list", DEPS).splitlines()
    for version, _, *command in (line.split("\t") for line in lines):
        if version.startswith(minor + ".") and not version.endswith("t") and len(command) == 1:
            return command
    raise Unavailable(f"there is no Python {minor}, which the wheel is for")


class Wheel:
    """What was taken out of one."""

    def __init__(self, version):
        self.version = version
        self.folder = fetched(version)
        self.libraries = os.path.join(self.folder, "torch/lib")
        self.include = os.path.join(self.folder, "torch/include")

    def shared_object(self, name):
        return os.path.join(self.libraries, name)

    @property
    def number(self):
        major, minor, patch = (int(n) for n in self.version.split("."))
        return major * 10000 + minor * 100 + patch

    def runtime(self):
        """The name of the runtime that it is linked to."""
        return re.search(r"\[(libcudart\.so\.\d+)\]", text_of("readelf", "-d", self.shared_object("libc10_cuda.so"))).group(1)

    def undefined(self, name="libc10_cuda.so"):
        return {line.split()[-1].split("@")[0]
                for line in text_of("nm", "-D", "--undefined-only", self.shared_object(name)).splitlines()}

    def program(self):
        """tests/torch/allocator/caching.cpp, built for it."""
        folder = os.path.join(BUILD, "tests/torch/allocator", self.version)
        os.makedirs(folder, exist_ok=True)
        program, source = os.path.join(folder, "caching"), os.path.join(HERE, "caching.cpp")
        with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
                self._compile(source, program)
        return program

    def _compile(self, source, program):
        with open(self.shared_object("libc10.so"), "rb") as f:
            new_strings = b"_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx11" in f.read()
        subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20" if self.number >= 21200 else "-std=c++17", "-O1", "-g", "-Wall",
                        "-Wextra", f"-DTORCH={self.number}", f"-D_GLIBCXX_USE_CXX11_ABI={int(new_strings)}",
                        "-isystem", self.include, "-isystem", cuda_headers(), source, "-o", program + ".new",
                        self.shared_object("libc10_cuda.so"), self.shared_object("libc10.so"), os.path.join(SIM, self.runtime()),
                        "-pthread", "-ldl"], check=True, timeout=PATIENCE)
        os.rename(program + ".new", program)

    def environment(self, **more):
        """Of a process on the simulated driver; a value of None takes a variable away."""
        return environment([self.libraries, SIM], **more)


class Package:
    """All of PyTorch, as Python imports it, for Python 3.11 or another one that is pinned."""

    def __init__(self, may_fetch=False, python=""):
        with open(os.path.join(ROOT, "scripts/torch-whole.txt"), encoding="utf-8") as lines:
            self.version = re.search(r"^torch===(\S+)", lines.read(), re.M).group(1)
        if not may_fetch and not os.path.exists(os.path.join(DEPS, "torch", self.version + "-whole/done")):
            raise Unavailable("the whole wheel has half a gigabyte, which CI and `make check-torch` fetch")
        self.python = python or "3.11"
        self.command = interpreter(self.python)
        self.folder = fetched(self.version, True, python)
        self.absent = os.path.join(BUILD, "tests/torch/allocator/absent")
        os.makedirs(self.absent, exist_ok=True)
        with open(os.path.join(self.absent, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._build_absent()

    def _build_absent(self):
        runtime, done = os.path.join(SIM, "libcudart.so.13"), os.path.join(self.absent, "done")
        if not os.path.exists(done) or os.path.getmtime(done) < os.path.getmtime(runtime):
            absent.build(absent.libraries_in(os.path.join(self.folder, "torch/lib")), runtime, self.absent)
            with open(done, "w", encoding="utf-8"):
                pass

    def run(self, *words, **more):
        """A program in Python, isolated from what else is installed; its standard output."""
        e = environment([self.absent, SIM], PYTHONPATH=self.folder, PYTHONDONTWRITEBYTECODE="1", **more)
        done = subprocess.run([*self.command, "-S", "-W", "ignore", *words], env=e, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        if done.returncode:
            raise RuntimeError(f"{words}: exit status {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout
