# SPDX-License-Identifier: Apache-2.0
"""Runs vLLM on the simulated GPU under libcutrace.so.

A run sees a machine of its own (namespaces for mounts, network and the host's name): the packages in /opt/vllm, what
was built in /opt/lib, its home in /opt/run. So what it records names no path and no host of this machine, and two
machines make the same traces."""
import fcntl
import glob
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "../torch/allocator")]
import cases  # noqa: E402
import stand_ins  # noqa: E402
import wheels  # noqa: E402
from tap import BUILD, LIBRARY, ROOT, SIM  # noqa: E402

CUTRACE = os.path.join(BUILD, "cutrace")
FETCH = os.path.join(ROOT, "scripts/fetch-vllm.py")
VERSION = os.environ.get("CUTRACE_VLLM") or cases.NEWEST
FOLDER = os.path.join(BUILD, "tests/vllm", VERSION)
PATIENCE = 1800  # seconds: a guard, no measure
HOST = "gpu-server"
# An H100 with 24 GiB: sizes as measured (tests/gpu/results), and NVML counts 480 MiB that CUDA does not have.
DEVICE = {"SIM_MEM_MB": 24576, "SIM_CTX_MB": 527, "SIM_GRAPH_KB": 128, "SIM_SHM": "/opt/run/devices"}
OPTIONS = cases.options_of(VERSION)
PLACES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp", "USER": "vllm", "LOGNAME": "vllm",
    "HOME": "/opt/run/home", "XDG_CACHE_HOME": "/opt/cache", "TRITON_CACHE_DIR": "/opt/cache/triton",
    "PYTHONPATH": "/opt/bed/python:/opt/vllm", "PYTHONPYCACHEPREFIX": "/opt/cache/python", "PYTHONNOUSERSITE": 1,
    "LD_LIBRARY_PATH": "/opt/sim:/opt/stand-ins:/opt/python/lib", "SIM_LEDGER": "/opt/run/ledger.%p",
    "LD_PRELOAD": "/opt/lib/libcutrace.so", "CUTRACE_OUTPUT": "/opt/run/trace.%p.zst",
}
NAMESPACES = ["unshare", "--user", "--map-root-user", "--mount", "--uts", "--net"]
LOOPBACK = ["ip", "link", "set", "lo", "up"]  # all of its network: two servers may have the same port
Unavailable = wheels.Unavailable


def packages(may_fetch=True):
    folder = os.path.join(wheels.DEPS, "vllm", VERSION)
    if platform.machine() != "x86_64":
        raise Unavailable("the wheels are for x86-64")
    if may_fetch and not os.path.exists(os.path.join(folder, "done")):
        subprocess.run([sys.executable, FETCH, wheels.DEPS, VERSION], check=False)
    if not os.path.exists(os.path.join(folder, "done")):
        try:
            with open(folder + ".skipped", encoding="utf-8") as reason:
                raise Unavailable(reason.read().strip())
        except FileNotFoundError:
            raise Unavailable(f"vLLM is not fetched ({FETCH})") from None
    return folder


def python_of(folder):
    """The version of Python that PyTorch's extension is for."""
    name, = glob.glob(os.path.join(folder, "torch/_C.cpython-*"))
    return re.sub(r".*cpython-3(\d+)-.*", r"3.\1", name)


def digest_of_sources():
    """What the stand-ins are made of: a run may still use those that were made before a change."""
    digest = hashlib.sha256(VERSION.encode())
    for path in (f"{SIM}/libsimcudart.a", f"{HERE}/stand_ins.py", f"{HERE}/handles.c"):
        with open(path, "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()[:16]


class Run:
    """What one run left behind."""

    def __init__(self, folder, status):
        self.folder, self.status = folder, status

    def path(self, name):
        return os.path.join(self.folder, name)

    @property
    def log(self):
        with open(self.path("log.txt"), encoding="utf-8", errors="replace") as f:
            return f.read()

    @property
    def traces(self):
        """Of each process that used the GPU, in the order of first calls. (Pids begin anew at the largest one.)"""
        return sorted(glob.glob(self.path("trace.*.zst")), key=self._first_call)

    def _first_call(self, trace):
        with open(self.ledger(trace), encoding="utf-8") as f:
            first = f.readline()
        return json.loads(first)["t_ns"] if first else 0

    def ledger(self, trace):
        return self.path("ledger." + trace.split(".")[-2])


class Bed:
    def __init__(self):
        if subprocess.run([*NAMESPACES, *LOOPBACK], capture_output=True, check=False).returncode:
            raise Unavailable("this machine lets nobody make namespaces (unshare --user --mount --net, ip)")
        self.packages = packages()
        self.python, = wheels.interpreter(python_of(self.packages))
        self.stand_ins = os.path.join(FOLDER, f"stand-ins-{digest_of_sources()}")
        self.cache = os.path.join(FOLDER, "cache")
        os.makedirs(self.cache, exist_ok=True)
        with open(os.path.join(FOLDER, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._build_stand_ins()

    def _build_stand_ins(self):
        if not os.path.exists(self.stand_ins):
            shutil.rmtree(self.stand_ins + ".new", ignore_errors=True)
            stand_ins.build(self.packages, SIM, self.stand_ins + ".new")
            os.rename(self.stand_ins + ".new", self.stand_ins)

    def _mounts(self, folder):
        """Path in the machine of the run -> folder here, and how the interpreter is called there."""
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(self.python)))
        mounts = {"/opt/vllm": self.packages, "/opt/sim": SIM, "/opt/stand-ins": self.stand_ins,
                  "/opt/cache": self.cache, "/opt/bed": HERE, "/opt/run": folder}
        if prefix == "/usr":
            return mounts, os.path.realpath(self.python)
        return {**mounts, "/opt/python": prefix}, "/opt/python/bin/" + os.path.basename(os.path.realpath(self.python))

    @staticmethod
    def _environment(environment):
        return {k: str(v) for k, v in {**DEVICE, **OPTIONS, **PLACES, **environment}.items()}

    def run(self, folder, words, environment):
        """Python with these words in a fresh folder, which is /opt/run there; what it writes goes to log.txt."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "home"))
        mounts, python = self._mounts(folder)
        lines = ["set -e", "mount -t tmpfs none /opt", f"hostname {HOST}", shlex.join(LOOPBACK),
                 "mkdir /opt/lib", "touch /opt/lib/libcutrace.so",
                 f"mount --bind {shlex.quote(LIBRARY)} /opt/lib/libcutrace.so", "touch /opt/lib/cutrace",
                 f"mount --bind {shlex.quote(CUTRACE)} /opt/lib/cutrace"]
        for there, here in mounts.items():
            lines.append(f"mkdir {there}; mount --bind {shlex.quote(os.path.realpath(here))} {there}")
        settings = [f"{k}={v}" for k, v in self._environment(environment).items()]
        lines += ["cd /opt/run", shlex.join(["exec", "env", "-i", *settings, python, "-X", "faulthandler", *words])]
        with open(os.path.join(folder, "log.txt"), "wb") as log:
            done = subprocess.run([*NAMESPACES, "sh", "-c", "\n".join(lines)], stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
        return Run(folder, done.returncode)

    @staticmethod
    def folder_of(name):
        return os.path.join(FOLDER, "runs", name)

    def serve(self, name, case):
        """A case of cases.py."""
        words = json.dumps({"model": cases.model_of(case), "arguments": case.arguments, "steps": case.steps,
                            "metrics": case.metrics, "ranges": case.ranges})
        return self.run(self.folder_of(name), ["/opt/bed/" + case.program, words], case.environment)
