# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, and what a page in it says: browser.mjs does what this asks for."""
import atexit
import json
import os
import shutil
import subprocess

from tap import ROOT, skip_all

DEPS = os.environ.get("CUTRACE_DEPS") or os.path.join(ROOT, "build", "deps")
HERE = os.path.dirname(os.path.abspath(__file__))

# Of a canvas: how many colours it shows, and a number that changes with its pixels.
PIXELS = """(() => {
    const canvas = document.querySelector(%s);
    if (!canvas) return null;
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer), seen = new Set();
    let sum = 0;
    for (let i = 0; i < pixels.length; i++) { seen.add(pixels[i]); sum = (sum * 31 + pixels[i]) | 0; }
    return {colours: seen.size, sum, corner: pixels[0], width: canvas.width, height: canvas.height};
})()"""


def find_chromium():
    for name in (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


def require():
    """The browser's path; ends the suite where there is no browser, or nothing that drives one."""
    chromium = find_chromium()
    if not chromium:
        skip_all("Chromium is not installed (Debian's package chromium, or CHROMIUM=PATH)")
    done = subprocess.run([os.path.join(ROOT, "scripts/fetch-page-tools.sh"), DEPS], capture_output=True, text=True, check=False)
    if done.returncode:
        skip_all(done.stderr.strip() or "the tools that drive a browser cannot be fetched")
    return chromium


class Browser:
    """Commands are methods: browser.click(x=1, y=2)."""

    def __init__(self, chromium):
        self.process = subprocess.Popen(["node", os.path.join(HERE, "browser.mjs"), os.path.join(DEPS, "page-tools"), chromium],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.close)  # (waited for, so that what it took is known)

    def __getattr__(self, command):
        def ask(**values):
            self.process.stdin.write(json.dumps({"command": command, **values}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"the browser ended at {command}")
            answer = json.loads(line)
            if "failed" in answer:
                raise RuntimeError(answer["failed"])
            return answer["result"]
        return ask

    def do(self, code):
        return self.evaluate(code=code)

    def pixels(self, selector):
        return self.do(PIXELS % json.dumps(selector))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
