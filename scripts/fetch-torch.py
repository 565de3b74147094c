#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the caching allocator out of PyTorch's CUDA wheels on PyPI: two libraries, the headers of their interface and a few
Python files, some 3 MB of each wheel, by HTTP range requests. Nothing is installed, and nothing of NVIDIA's is fetched.

Usage: fetch-torch.py DEPS [VERSION...]    result: DEPS/torch/VERSION/torch/{lib,include,cuda,...} and DEPS/torch/VERSION/done
       fetch-torch.py --whole DEPS VERSION [PYTHON]
                                           the Python package (half a gigabyte to fetch, one on disk) and the modules that it needs:
                                           DEPS/torch/VERSION-whole/{torch,typing_extensions.py,...,done}, for Python 3.11;
                                           DEPS/torch/VERSION-whole-3.12 for PYTHON=3.12
       fetch-torch.py --list               the versions that torch.sha256 pins, one a line
       fetch-torch.py --pin VERSION        prints the lines of torch.sha256 for another version, as PyPI has it today
Each file is checked by the CRC of the wheel and by a SHA256 of torch.sha256, a whole wheel by the BLAKE2b that its path consists of.
What cannot be had leaves the reason in DEPS/torch/VERSION.skipped (VERSION-whole.skipped); it is tried again next time."""
import fcntl
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile

HOST = "https://files.pythonhosted.org/packages/"
INDEX = "https://pypi.org/pypi/torch/json"
PINS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "torch.sha256")
TREES = ("torch/include/c10/", "torch/include/torch/headeronly/")
FILES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so", "torch/version.py", "torch/cuda/_memory_viz.py",
         "torch/utils/viz/_cycles.py")
COMPILERS = ("torch/include/", "torch/share/", "torch/test/")
PATIENCE = 60  # seconds without an answer


class Refused(Exception):
    """The text says why there is nothing."""


class RemoteFile(io.RawIOBase):
    """A file on a web server, of which only what is read is fetched."""

    def __init__(self, url):
        super().__init__()
        self.url, self.at = url, 0
        self.size = int(self.get(0, 0).headers["Content-Range"].rsplit("/", 1)[1])

    def get(self, first, last):
        answer = urllib.request.urlopen(
            urllib.request.Request(self.url, headers={"Range": f"bytes={first}-{last}"}), timeout=PATIENCE)
        if answer.status != 206:
            raise Refused("the server does not give parts of a file")
        return answer

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer):
        if self.at >= self.size or not buffer:
            return 0
        data = self.get(self.at, min(self.size, self.at + len(buffer)) - 1).read()
        buffer[:len(data)] = data
        self.at += len(data)
        return len(data)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def wanted(name):
    return not name.endswith("/") and (name in FILES or name.startswith(TREES))


def groups(members):
    """What one SHA256 stands for: a file, or a tree as `sha256sum` would list it."""
    out = {name: sha256(data) for name, data in members.items() if name in FILES}
    for tree in TREES:
        lines = [f"{sha256(members[name])}  {name}\n" for name in sorted(members) if name.startswith(tree)]
        if lines:
            out[tree] = sha256("".join(lines).encode())
    return out


def read_members(path):
    """Name -> bytes; zipfile compares each CRC."""
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(HOST + path), 1 << 18)) as wheel:
        return {m.filename: wheel.read(m) for m in sorted(wheel.infolist(), key=lambda m: m.header_offset)
                if wanted(m.filename)}


def read_pins():
    """Version -> {"wheel": path, member or tree: SHA256}."""
    pins = {}
    with open(PINS, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                version, what, value = line.split()
                pins.setdefault(version, {})[what] = value
    return pins


def fetch(target, pins):
    members = read_members(pins["wheel"])
    found = groups(members)
    for what in sorted(set(found) | {w for w in pins if not w.startswith(("wheel", "needs:"))}):
        if found.get(what) != pins.get(what):
            raise Refused(f"{what} is not what torch.sha256 pins")
    shutil.rmtree(target, ignore_errors=True)
    for name, data in members.items():
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)
    with open(os.path.join(target, "done"), "w", encoding="utf-8"):
        pass


def unpack_whole(path, target):
    """All of a wheel but what only a compiler needs; path: on PyPI's host."""
    digest = hashlib.blake2b(digest_size=32)
    with tempfile.TemporaryFile(dir=os.path.dirname(target)) as file:
        with urllib.request.urlopen(HOST + path, timeout=PATIENCE) as answer:
            while data := answer.read(1 << 20):
                digest.update(data)
                file.write(data)
        if digest.hexdigest() != "".join(path.split("/")[:3]):
            raise Refused(f"{path} is not what its name says")
        with zipfile.ZipFile(file) as wheel:
            wheel.extractall(target, [n for n in wheel.namelist() if not n.startswith(COMPILERS)])


def fetch_whole(target, pins, wheel):
    if wheel not in pins:
        raise Refused(f"torch.sha256 does not pin a {wheel}")
    shutil.rmtree(target, ignore_errors=True)
    for what in pins:
        if what == wheel or what.startswith("needs:"):
            unpack_whole(pins[what], target)
    with open(os.path.join(target, "done"), "w", encoding="utf-8"):
        pass


def fetch_or_say_why(folder, version, pins, whole=False, python=""):
    name = version + ("-whole" if whole else "") + (f"-{python}" if python else "")
    target, skipped = os.path.join(folder, name), os.path.join(folder, name + ".skipped")
    if os.path.exists(os.path.join(target, "done")):
        return
    if os.path.exists(skipped):
        os.unlink(skipped)
    try:
        if version not in pins:
            raise Refused("torch.sha256 does not pin it")
        if whole:
            fetch_whole(target, pins[version], f"wheel:{python}" if python else "wheel")
        else:
            fetch(target, pins[version])
    except (OSError, urllib.error.URLError, zipfile.BadZipFile, Refused) as error:
        reason = f"{error}" if isinstance(error, Refused) else f"PyPI cannot be reached: {error}"
        with open(skipped, "w", encoding="utf-8") as out:
            print(reason, file=out)
        print(f"fetch-torch: {name}: {reason}", file=sys.stderr)


def print_pins(version):
    with urllib.request.urlopen(INDEX, timeout=PATIENCE) as answer:
        files = json.load(answer)["releases"][version]
    # The interpreter's version does not matter: the libraries are the same.
    url = [f["url"] for f in files if "cp311-cp311-manylinux" in f["filename"] and "x86_64" in f["filename"]][-1]
    path = url.rsplit("packages/", 1)[1]
    print(f"{version:7} {'wheel':34} {path}")
    for what, digest in groups(read_members(path)).items():
        print(f"{version:7} {what:34} {digest}")


def main(words):
    if words[:1] == ["--list"]:
        print("\n".join(read_pins()))
    elif words[:1] == ["--pin"] and len(words) == 2:
        print_pins(words[1])
    elif words and (not words[0].startswith("-") or words[0] == "--whole" and len(words) in (3, 4)):
        whole, words = words[0] == "--whole", words[words[0] == "--whole":]
        python = words.pop() if whole and len(words) == 3 else ""
        folder, pins = os.path.join(words[0], "torch"), read_pins()
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for version in words[1:] or pins:
                fetch_or_say_why(folder, version, pins, whole, python)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
