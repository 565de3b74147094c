#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# long: what this PyTorch writes lies in tests/report/snapshots, which test_snapshots reads
"""`explain` of memory snapshots that real PyTorch writes, against memory_stats() and memory_snapshot() of the same process.

test_explained.py --keep FOLDER also leaves the snapshots and the truths there: tests/report/snapshots has some."""
import functools
import glob
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import snapshots  # noqa: E402
import tap  # noqa: E402
import wheels  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
PLACE = "/opt/program/snapshots.py"  # of the program, by its frames
EXPANDABLE = {"expandable"}


class Older(wheels.Package):
    """PyTorch of a version of vLLM that is fetched (tests/vllm)."""

    def __init__(self, folder):  # pylint: disable=super-init-not-called
        extension, = glob.glob(os.path.join(folder, "torch/_C.cpython-*"))
        self.version = re.search(r"torch-([\d.]+)\.dist-info", " ".join(os.listdir(folder))).group(1)
        self.command = wheels.interpreter(re.sub(r".*cpython-3(\d+)-.*", r"3.\1", extension))
        self.folder = folder
        self.absent = os.path.join(wheels.BUILD, "tests/torch/allocator/absent-" + self.version)
        if not os.path.exists(os.path.join(self.absent, "done")):
            libraries = wheels.absent.libraries_in(os.path.join(folder, "torch/lib"))
            named = wheels.text_of("readelf", "-d", os.path.join(folder, "torch/lib/libc10_cuda.so"))
            runtime = re.search(r"\[(libcudart\.so\.\d+)\]", named).group(1)
            shutil.rmtree(self.absent, ignore_errors=True)
            os.makedirs(self.absent)
            wheels.absent.build(libraries, os.path.join(wheels.SIM, runtime), self.absent)
            with open(os.path.join(self.absent, "done"), "w", encoding="utf-8"):
                pass


def packages():
    """(name, function that returns the package). Older versions, a minute each, only in the campaigns and with --keep."""
    yield "the newest PyTorch", functools.partial(wheels.Package, tap.FULL or os.environ.get("CI") == "true")
    for done in sorted(glob.glob(os.path.join(wheels.DEPS, "vllm/*/done"))) if tap.FULL or KEEP else ():
        folder = os.path.dirname(done)
        yield f"PyTorch of vLLM {os.path.basename(folder)}", functools.partial(Older, folder)


def write(package, folder):
    """Runs all cases of snapshots.py."""
    program = f"exec(compile(open({HERE + '/snapshots.py'!r}).read(), {PLACE!r}, 'exec'))"
    for names, settings in ((EXPANDABLE, "expandable_segments:True"), (snapshots.SCENARIOS.keys() - EXPANDABLE, None)):
        package.run("-c", program, folder, *sorted(names), SIM_MEM_MB="1024", PYTORCH_CUDA_ALLOC_CONF=settings)


def check(make):
    try:
        package = make()
    except wheels.Unavailable as reason:
        raise tap.Skip(f"{reason}") from None
    problems = []
    with tempfile.TemporaryDirectory(prefix="torch.") as folder:
        write(package, folder)
        for name in snapshots.SCENARIOS:
            path = os.path.join(folder, name)
            with open(path + ".json", encoding="utf-8") as f:
                truth = json.load(f)
            problems += snapshots.compare(name, path + ".pickle", truth)
        if KEEP:
            shutil.copytree(folder, os.path.join(KEEP, package.version), dirs_exist_ok=True)
    return problems or f"PyTorch {package.version}"


KEEP = sys.argv.pop(sys.argv.index("--keep") + 1) if "--keep" in sys.argv else None
for title, maker in packages():
    tap.case(f"{title}: pools, blocks and the scenario of each snapshot, and the pool at the failure")(functools.partial(check, maker))
tap.main()
