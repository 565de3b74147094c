#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The names that PyTorch's wheels import, against those that the library and the stand-in runtime export; and the
download of the wheels."""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import tap  # noqa: E402
import wheels  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
LIBRARY = os.path.join(tap.BUILD, "libcutrace.so")
REPORTS = re.compile(r"_ZN3c10\d+report(MemoryUsage|OutOfMemory)ToProfiler")
MEMORY = re.compile(r"cuda(Malloc|Free|Host|Ipc|MemPool(Create|Destroy|TrimTo|Im|Ex)|GetDriverEntryPoint|.*Graph.*Mem(Alloc|Free))|dlsym")


def ready(version):
    try:
        return wheels.Wheel(version)
    except wheels.Unavailable as reason:
        raise tap.Skip(f"{reason}") from None


def exported(path):
    return {line.split()[-1].split("@")[0] for line in wheels.text_of("nm", "-D", "--defined-only", path).splitlines()}


def check_reports(version):
    """the library has the functions that it reports blocks with"""
    wheel, ours = ready(version), exported(LIBRARY)
    asked = {s for s in wheel.undefined() if REPORTS.match(s)}
    defined = {s for s in exported(wheel.shared_object("libc10.so")) if REPORTS.match(s)}
    tap.equal(len(asked), 2, f"reports that libc10_cuda makes: {asked}")
    tap.check(asked <= defined, f"libc10 has {defined}")
    tap.check(defined <= ours, f"not exported: {defined - ours}")
    # Through the table of procedures, where the first definition in the process wins.
    jumps = wheels.text_of("readelf", "-rW", wheel.shared_object("libc10_cuda.so"))
    for symbol in asked:
        tap.check(re.search(rf"R_X86_64_JUMP_SLO\w* .* {symbol} ", jumps), f"{symbol} is not called through the PLT")
    tap.check("SYMBOLIC" not in wheels.text_of("readelf", "-d", wheel.shared_object("libc10_cuda.so")), "-Bsymbolic")


def check_memory(version):
    """the library has every function that it takes and gives memory with"""
    asked = {s for s in ready(version).undefined() if MEMORY.match(s)}
    tap.check({"cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "dlsym"} <= asked, f"{asked}")
    tap.check(asked <= exported(LIBRARY), f"not exported: {asked - exported(LIBRARY)}")


def check_runtime(version):
    """the stand-in runtime has what it needs"""
    wheel = ready(version)
    asked = {s for s in wheel.undefined() if s.startswith("cuda")}
    have = exported(os.path.join(wheels.SIM, wheel.runtime()))
    tap.check(len(asked) > 30, f"{asked}")
    tap.check(asked <= have, f"{wheel.runtime()} has no {asked - have}")


def check_ways():
    """the versions reach the driver in different ways"""
    by_runtime = {v: "cudaGetDriverEntryPointByVersion" in ready(v).undefined() for v in wheels.versions()}
    tap.equal(set(by_runtime.values()), {False, True}, f"{by_runtime}")
    tap.check(not by_runtime[wheels.versions()[0]], f"{by_runtime}")


def fetch(folder, pins, **environment):
    """Runs a copy of the script with other pins; the reason of a version that was not fetched."""
    for name in ("fetch-torch.py", "pip_wheels.py"):
        shutil.copy(os.path.join(os.path.dirname(wheels.FETCH), name), folder)
    with open(os.path.join(folder, "torch.sha256"), "w", encoding="utf-8") as f:
        f.write(pins)
    version = wheels.versions()[-1]
    subprocess.run([sys.executable, os.path.join(folder, "fetch-torch.py"), folder, version], check=True, stderr=subprocess.DEVNULL,
                   timeout=wheels.PATIENCE, env={**os.environ, **environment})
    tap.check(not os.path.exists(os.path.join(folder, "torch", version)), "it was fetched all the same")
    with open(os.path.join(folder, "torch", version + ".skipped"), encoding="utf-8") as f:
        return f.read()


def read_pins():
    with open(os.path.join(os.path.dirname(wheels.FETCH), "torch.sha256"), encoding="utf-8") as f:
        return f.read()


def check_no_network():
    """without a network there is a reason, and nothing else"""
    with tempfile.TemporaryDirectory() as folder:
        reason = fetch(folder, read_pins(), PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL="http://127.0.0.1:9", PIP_FIND_LINKS="")
        if "No module named pip" in reason:
            raise tap.Skip(reason.strip())
        tap.equal(reason.strip(), "pip: No matching distribution found for torch")


def check_wrong_pin():
    """a file that is not the pinned one is refused"""
    version = wheels.versions()[-1]
    ready(version)  # there is a network, or was
    wrong = re.sub(rf"(?m)^({re.escape(version)} +torch/lib/libc10\.so +)\w+$", r"\g<1>" + "0" * 64, read_pins())
    tap.check(wrong != read_pins(), "no such pin")
    with tempfile.TemporaryDirectory() as folder:
        reason = fetch(folder, wrong)
        if reason.startswith("pip"):
            raise tap.Skip(reason.strip())
        tap.equal(reason.strip(), "torch/lib/libc10.so is not what torch.sha256 pins")


def check_newest():
    """the newest that pip finds is among them"""
    done = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "torch"], capture_output=True, text=True, check=False)
    newest = re.match(r"torch \((.*)\)", done.stdout)
    if not newest:
        raise tap.Skip(f"pip: {done.stderr.strip()[-200:]}")
    if newest.group(1) != wheels.versions()[-1]:
        raise tap.Skip(f"it has {newest.group(1)} by now: scripts/fetch-torch.py --pin {newest.group(1)}")


for one in wheels.versions():
    for check in (check_reports, check_memory, check_runtime):
        tap.case(f"PyTorch {one}: {check.__doc__}")(functools.partial(check, one))
for check in (check_ways, check_no_network, check_wrong_pin):
    tap.case(check.__doc__)(check)
if tap.FULL:  # not in CI: the registry moves on, and that is no fault of this tree
    tap.case(check_newest.__doc__)(check_newest)
tap.main()
