# SPDX-License-Identifier: Apache-2.0
"""cutrace watch on a terminal of tmux: its screen as text, its keys, its end."""
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from live import CUTRACE  # noqa: E402
from tap import check, equal  # noqa: E402
from ways import HANG, folder  # noqa: E402


class Screen:
    """cutrace watch on a terminal of its own."""

    def __init__(self, where, columns=80, rows=24, options="--interval=100ms", env="LC_ALL=C.UTF-8"):
        self.socket = os.path.join(folder(), "tmux")
        self.columns = columns
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "sh")
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("send-keys", "-l", f"PS1=; stty -g; exec 3>&1; sh -c 'echo $$; exec env {env} {CUTRACE} watch {options} {where}'; "
                  "echo ended $?; stty -g")
        self.tmux("send-keys", "Enter")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self.socket, *map(str, words)], capture_output=True, text=True, check=False,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})
        return done.stdout

    def text(self, *more):
        return self.tmux("capture-pane", "-p", *more)

    def wait(self, pattern, *more):
        """The screen when it has this."""
        end = time.monotonic() + HANG
        while not re.search(pattern, text := self.text(*more), re.M):
            check(time.monotonic() < end, f"no {pattern!r} in:\n{text}")
            time.sleep(.02)
        widest = max(map(len, self.text().splitlines()))
        check(widest <= self.columns, widest)
        return text

    def wait_while(self, pattern, *more):
        """The screen when it has this no more."""
        end = time.monotonic() + HANG
        while re.search(pattern, text := self.text(*more), re.M):
            check(time.monotonic() < end, f"still {pattern!r} in:\n{text}")
            time.sleep(.02)
        return text

    def wait_for_rows(self, want, *keys):
        """Until the list shows these processes, in this order. The keys go there; they are pressed again, because a row
        that is chosen too early moves with its process when the list is put in order."""
        end = time.monotonic() + HANG
        while list(rows(text := self.text())) != want:
            check(time.monotonic() < end, f"not {want}:\n{text}")
            if keys:
                self.press(*keys)
            time.sleep(.1 if keys else .02)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def pid(self):
        """Of cutrace, whose pid is the pane's child of a child."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        end = time.monotonic() + HANG
        while True:
            found = subprocess.run(["pgrep", "-P", shell, "-x", "cutrace"], capture_output=True, text=True, check=False).stdout.split()
            if found:
                return int(found[0])
            check(time.monotonic() < end, "cutrace did not begin")
            time.sleep(.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

    def ended(self, status):
        """It has ended, and left the terminal as it was: the shell's lines are there again, its settings and the cursor, too."""
        text = self.wait(r"^ended \d+\n[0-9a-f]+:[0-9a-f:]{40,}", "-J")
        settings = re.findall(r"[0-9a-f]+:[0-9a-f:]{40,}", text)  # (the first one may stand behind a prompt)
        equal(len(settings), 2, text)
        before, after = settings
        equal((re.search(r"^ended (\d+)$", text, re.M).group(1), before == after), (str(status), True), text)
        equal(self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}").strip(), "0 1 1")


def rows(text):
    """pid -> (marked, rest of the line)"""
    return {int(m[2]): (m[1] == ">", m[3]) for m in re.finditer(r"^([ >]) +(\d+) ((?:python|hold)\S* .*)$", text, re.M)}
