#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: mkfs.btrfs
"""A disk quota that runs out while the trace is written: the host does not notice, and the recorder reports it once."""
import glob
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from life import *  # noqa: E402,F403
from tap import Skip, case  # noqa: E402


class Quota:
    """A folder that may hold so many MiB, on a file system that has room. (btrfs: its quotas need nothing of the kernel's.)"""

    def __init__(self, mib):
        self.path, self.image = folder(), os.path.join(folder(), "image")
        with open(self.image, "wb") as f:
            os.ftruncate(f.fileno(), 200 << 20)
        steps = (["mkfs.btrfs", "-q", self.image], ["mount", "-o", "loop", self.image, self.path],
                 ["btrfs", "quota", "enable", self.path], ["btrfs", "subvolume", "create", self.path + "/home"],
                 ["btrfs", "qgroup", "limit", f"{mib}M", self.path + "/home"])
        for step in steps:
            if not shutil.which(step[0]):
                raise Skip(f"no {step[0]}")
            r = subprocess.run(step, capture_output=True, text=True)
            if r.returncode:
                subprocess.run(["umount", "-l", self.path], capture_output=True)
                raise Skip(f"no quota to be had: {' '.join(step[:2])}: {r.stderr.strip()[-200:]}")

    def __enter__(self):
        return self.path + "/home"

    def __exit__(self, *_):
        for link in filter(os.path.islink, glob.glob(self.path + "/home/*.journal")):  # of traces that had no room for their end
            if os.path.exists(link):
                os.unlink(os.readlink(link))
        subprocess.run(["umount", "-l", self.path], check=True)


for _mib, _left in sample(((4, 0), (4, 100), (4, 400), (8, 8192)), 2):
    def _quota(mib=_mib, left=_left):
        with Quota(mib) as place:
            try:
                with open(os.path.join(place, "filler"), "wb", buffering=0) as f:
                    for _ in range(mib * 1024 - left - (32 if left else 0)):  # (the file system's own)
                        f.write(os.urandom(1024))
            except OSError:
                pass
            life = Life(2, 0, 64, (3 if left > 1024 else 2) * CALLS, place=place, env={"CUTRACE_TICK_NS": "1", "CUTRACE_FREE_STACKS": "1"})
            while life.process.poll() is None:  # what lies in pages of files goes to the disk, and is made anew there
                os.sync()
                time.sleep(0.05)
            life.end()
            told = [] if left > 1024 or any("quota" in line for line in life.lines()) else [
                f"not a word of the quota: {life.lines()}, {os.listdir(place)}"]
            return unharmed(life, want=(0, "")) + readable(life) + told
    case(f"a quota, and {_left} KiB of it are left")(_quota)

end()
