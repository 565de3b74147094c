# SPDX-License-Identifier: Apache-2.0
"""Wheels for x86-64, by the pip of this machine: where they come from is its configuration's."""
import fcntl
import functools
import glob
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

PATIENCE = 60  # seconds without an answer
PLATFORMS = [f"--platform=manylinux{n}_x86_64"  # the best first
             for n in (*(f"_2_{minor}" for minor in range(35, 4, -1)), 2014, 2010, 1)]


class Refused(Exception):
    """The text says why there is nothing."""


def pip(*words, python="3.11", temporary=None):
    """Its standard output."""
    done = subprocess.run([sys.executable, "-m", "pip", *words, "--disable-pip-version-check", "--no-cache-dir", "--retries=2",
                           "--only-binary=:all:", f"--python-version={python}", *PLATFORMS],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, **({"TMPDIR": temporary} if temporary else {})})
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it failed"]
        raise Refused("pip: " + next((line for line in lines if "ERROR" in line), lines[-1]).replace("ERROR: ", "")[:300])
    return done.stdout


def pip_install(folder, python, *words):
    return pip("install", "-q", "--no-deps", "--ignore-installed", "--no-compile", "--target", folder, *words,
               python=python, temporary=os.path.dirname(folder))


@functools.cache
def links(name):
    """(URL, version) of the wheels for Python 3.11 that pip would choose from. (A dry installation would fetch a wheel whole.)"""
    return re.findall(r"Found link (\S+?\.whl)\b.*, version: (\S+)$", pip("index", "versions", "-vv", name), re.M)


def find(name, version):
    found = [url for url, its in links(name) if its == version]
    if not found:
        raise Refused(f"pip finds no {name} {version}")
    return min(found, key=lambda url: not url.startswith("file:"))


def print_pins(python, *words):
    """As a requirements file has them."""
    with tempfile.TemporaryDirectory() as folder:
        for p in json.loads(pip_install(os.path.join(folder, "none"), python, "--dry-run", "--report=-", *words))["install"]:
            digest = p["download_info"]["archive_info"]["hashes"]["sha256"]
            print(f"{p['metadata']['name']}=={p['metadata']['version']} --hash=sha256:{digest}")


def install(target, python, requirements, left_out):
    """Unpacks what a requirements file names, each with its hash, but for some patterns of names."""
    work = target + ".new"  # (on the same disk, and cleared also of a run that was killed)
    shutil.rmtree(work, ignore_errors=True)
    os.mkdir(work)
    try:
        pip_install(os.path.join(work, "tree"), python, "--require-hashes", "-r", requirements)
        os.rename(os.path.join(work, "tree"), target)
    finally:
        shutil.rmtree(work)
    for pattern in left_out:
        for path in glob.glob(os.path.join(target, pattern)):
            (shutil.rmtree if os.path.isdir(path) else os.unlink)(path)


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


def open_wheel(url):
    """As a ZipFile, which compares the CRC of each member that is read."""
    if url.startswith("file:"):
        return zipfile.ZipFile(urllib.request.url2pathname(url[len("file://"):]))
    return zipfile.ZipFile(io.BufferedReader(RemoteFile(url), 1 << 18))


def provide(folder, name, fetch):
    """FOLDER/NAME with a file `done` in it, by fetch(FOLDER/NAME); else the reason in FOLDER/NAME.skipped."""
    target = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(target, "done")):
            return
        shutil.rmtree(target, ignore_errors=True)
        try:
            fetch(target)
            with open(os.path.join(target, "done"), "w", encoding="utf-8"):
                pass
            if os.path.exists(target + ".skipped"):
                os.unlink(target + ".skipped")
        except (OSError, zipfile.BadZipFile, Refused) as error:
            shutil.rmtree(target, ignore_errors=True)
            with open(target + ".why", "w", encoding="utf-8") as out:
                print(error, file=out)
            os.rename(target + ".why", target + ".skipped")  # (others read it without the lock)
            print(f"{os.path.basename(sys.argv[0])}: {name}: {error}", file=sys.stderr)
