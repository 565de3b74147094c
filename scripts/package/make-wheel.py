#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel. Run by `make wheel`, which says by its environment what, where and of which day.

A wheel is a zip file with a list of its files and their sums (the binary distribution format of PyPA's specifications).
The programs and the library lie in the package, where each finds the other; the manual goes where `man` looks, beside
the environment's bin/.
"""
import base64
import hashlib
import os
import stat
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
VERSION, ARCH, STAGE, RELEASE = (os.environ[name] for name in ("VERSION", "ARCH", "STAGE", "RELEASE"))
DAY = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
TAG = f"py3-none-manylinux_2_28_{ARCH}"
INFO = f"cutrace-{VERSION}.dist-info"
DATA = f"cutrace-{VERSION}.data/data"

METADATA = f"""\
Metadata-Version: 2.4
Name: cutrace
Version: {VERSION}
Summary: Finds out what filled the GPU: a tracer of GPU memory, and its report
License-Expression: Apache-2.0 AND BSD-3-Clause AND MIT AND Zlib AND LGPL-3.0-or-later AND bzip2-1.0.6
License-File: LICENSE
License-File: licenses/*
Keywords: CUDA,GPU,memory,out of memory,PyTorch,vLLM,profiler
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Intended Audience :: Developers
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Software Development :: Debuggers
Requires-Python: >=3.7
Description-Content-Type: text/markdown

"""
WHEEL = f"""\
Wheel-Version: 1.0
Generator: cutrace {VERSION}
Root-Is-Purelib: false
Tag: {TAG}
"""
ENTRY_POINTS = """\
[console_scripts]
cutrace = cutrace:main
cutrace-report = cutrace:report
"""


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def below(folder):
    """The files below a folder, as paths relative to it."""
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder, followlinks=True) for name in names)


def contents():
    """Each file of the wheel but the list: its path, bytes, and whether it is a program."""
    for name in ("__init__.py", "__main__.py"):
        yield f"cutrace/{name}", read(HERE, "python", name), False
    for name in ("bin/cutrace", "bin/cutrace-report", "lib/libcutrace.so"):
        yield f"cutrace/{name}", read(STAGE, name), True
    for folder in ("share/man", "share/bash-completion", "share/zsh"):
        for name in below(os.path.join(STAGE, folder)):
            yield f"{DATA}/{folder}/{name}", read(STAGE, folder, name), False
    licenses = os.path.join(STAGE, "share/doc/cutrace/licenses")
    names = [f"licenses/{name}" for name in below(licenses)]
    metadata = METADATA.replace("License-File: licenses/*\n", "".join(f"License-File: {name}\n" for name in names))
    yield f"{INFO}/METADATA", metadata.encode() + read(HERE, "GUIDE.md"), False
    yield f"{INFO}/WHEEL", WHEEL.encode(), False
    yield f"{INFO}/entry_points.txt", ENTRY_POINTS.encode(), False
    yield f"{INFO}/licenses/LICENSE", read(ROOT, "LICENSE"), False
    for name in names:
        yield f"{INFO}/licenses/{name}", read(licenses, "..", name), False


def sum_of(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def put(wheel, path, data, is_program=False):
    entry = zipfile.ZipInfo(path, DAY)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix: the next line is a mode
    entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
    wheel.writestr(entry, data, compresslevel=9)


def main():
    os.makedirs(RELEASE, exist_ok=True)
    path = os.path.join(RELEASE, f"cutrace-{VERSION}-{TAG}.whl")
    record = []
    with zipfile.ZipFile(path + ".new", "w") as wheel:
        for name, data, is_program in contents():
            put(wheel, name, data, is_program)
            record.append(f"{name},sha256={sum_of(data)},{len(data)}\n")
        put(wheel, f"{INFO}/RECORD", "".join([*record, f"{INFO}/RECORD,,\n"]).encode())
    os.rename(path + ".new", path)
    print(path)


main()
