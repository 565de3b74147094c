#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace doctor: what it says of a command against whether the library really is in the program that the command starts."""
import atexit
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from tap import SIM, Skip, case, check, equal, main  # noqa: E402

CUTRACE = os.path.join(BUILD, "cutrace")
WHERE = tempfile.mkdtemp(prefix="doctor.")
atexit.register(shutil.rmtree, WHERE)
os.chmod(WHERE, 0o755)
ROOM = re.compile(r"(?<=with room for )\S+ \S+")  # others use the disk, too
SOURCE = r"""
#include <stdio.h>
#include <string.h>
int main(void) {
    char line[4096];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "libcutrace.so"))
            return puts("traced") < 0;
    return puts("not traced") < 0;
}
"""


def path(name):
    return os.path.join(WHERE, name)


def build(name, *flags):
    subprocess.run([*shlex.split(os.environ.get("CC", "gcc")), *flags, "-x", "c", "-", "-o", path(name)], input=SOURCE, text=True,
                   check=True)
    return path(name)


def env(**more):
    return environment(WHERE, preload=False, env={"CUTRACE_QUIET": None, **more})


def doctor(*words, **more):
    """Exit code, and findings as (level, check, reason); text and JSON agree."""
    both = [subprocess.run([CUTRACE, "doctor", *form, *words], capture_output=True, text=True, env=env(**more), check=False, cwd=WHERE)
            for form in ([], ["--json"])]
    equal(both[0].returncode, both[1].returncode)
    data = json.loads(both[1].stdout)
    equal((data["schema"], data["works"]), ("cutrace.doctor/1", both[0].returncode == 0))
    lines = [ROOM.sub("ROOM", line) for line in both[0].stdout.splitlines()]
    for f in data["findings"]:
        f["reason"] = ROOM.sub("ROOM", f["reason"])
    equal(lines[:-1], [f"{f['level']:4}  {f['reason']}" + (f" -> {f['remedy']}" if f["remedy"] else "") for f in data["findings"]])
    equal(lines[-1].startswith("tracing will work,"), data["works"], lines[-1])
    return both[0].returncode, [(f["level"], f["check"], f["reason"]) for f in data["findings"]]


def failures(*words, **more):
    return [(c, reason) for level, c, reason in doctor(*words, **more)[1] if level == "fail"]


def is_traced(*command):
    done = subprocess.run([CUTRACE, "run", "-q", "--", *command], capture_output=True, text=True, env=env(), check=False, cwd=WHERE)
    check(done.stdout in ("traced\n", "not traced\n"), (command, done))
    return done.stdout == "traced\n"


def agrees(want, *command):
    """The doctor's answer is what happens, and what this test was made for."""
    real, (code, found) = is_traced(*command), doctor(*command)
    equal((code == 0, real), (want, want), f"{command}: {found}")


PLAIN = build("plain")
STATIC = build("static", "-static")


def script(name, text):
    with open(path(name), "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path(name), 0o755)
    return path(name)


@case("programs: linked dynamically, statically, static and position-independent; by path and by PATH")
def programs():
    agrees(True, PLAIN)
    agrees(True, "./plain")
    agrees(False, STATIC)
    agrees(False, build("static_pie", "-static-pie", "-fPIE"))
    agrees(True, "sh", "-c", PLAIN)
    equal([c for c, _ in failures("plain")], ["program"], "without PATH")
    equal(failures("plain", PATH=WHERE + ":/bin"), [])


@case("scripts: the interpreter counts, also behind env and another script")
def scripts():
    agrees(True, script("sh_script", f"#!/bin/sh\nexec {PLAIN}\n"))
    agrees(False, script("static_script", f"#!{STATIC}\n"))
    agrees(True, script("script_of_script", f"#! {path('sh_script')}\n"))
    agrees(False, script("static_script_of_script", f"#!{path('static_script')} word\n"))
    agrees(True, script("env_script", "#!/usr/bin/env sh\nexec " + PLAIN + "\n"))
    agrees(False, script("env_i_script", f"#!/usr/bin/env -S -i {PLAIN}\n"))
    loop = script("loop", f"#!{path('loop')}\n")
    check(any(level == "warn" for level, _, _ in doctor(loop)[1]), "a script of itself")


@case("commands that start another one: what they do to the environment")
def wrappers():
    for words in (["env"], ["env", "-u", "B", "A=1", "C=-i"], ["timeout", "-k", "9", "100"], ["nohup"], ["nice", "-n", "1"], ["setsid", "-w"],
                  ["env", "nice", "timeout", "100"], ["stdbuf", "-o", "L"]):
        agrees(True, *words, PLAIN)
        agrees(False, *words, STATIC)
    for words in (["env", "-i"], ["env", "-"], ["env", "-u", "LD_PRELOAD"], ["env", "--unset=LD_PRELOAD"], ["env", "LD_PRELOAD="],
                  ["env", "--ignore-environment"], ["nice", "env", "-i"]):
        agrees(False, *words, PLAIN)
    for name in ("sudo", "su", "docker", "podman", "kubectl", "ssh", "systemctl", "systemd-run"):
        shutil.copy(PLAIN, path(name))
        check("environment" in [c for c, _ in failures(path(name), PLAIN)], name)
        os.unlink(path(name))
    for name in ("nsys", "compute-sanitizer"):
        shutil.copy(PLAIN, path(name))
        code, found = doctor(path(name), "profile", PLAIN)
        equal((code, [c for level, c, _ in found if level == "warn"]), (0, ["environment"]), name)


@case("set-uid and file capabilities: as the kernel decides")
def privilege():
    if os.getuid():
        raise Skip("needs root")
    copy = shutil.copy(PLAIN, path("setuid"))
    os.chown(copy, 65534, 65534)
    for mode in (0o755, 0o4755, 0o2755, 0o6755):
        os.chmod(copy, mode)
        agrees(mode == 0o755, copy)
    os.chown(copy, 0, 0)
    os.chmod(copy, 0o4755)
    agrees(True, copy)  # root's own


@case("for another machine, of 32 bits, for musl, without its loader: crafted from a real program")
def crafted():
    with open(PLAIN, "rb") as f:
        real = f.read()
    loader = next(s for s in (b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-linux-aarch64.so.1") if s in real)

    def say(name, data):
        with open(path(name), "wb") as f:
            f.write(data)
        os.chmod(path(name), 0o755)
        (found,) = failures(path(name))
        return found

    machine, text = say("other", real[:18] + b"\xf3\0" + real[20:])
    check(machine == "machine" and "64-bit program for riscv" in text, text)
    machine, text = say("x86", real[:4] + b"\1" + real[5:18] + b"\3\0" + real[20:])
    check(machine == "machine" and "32-bit program for x86" in text, text)
    linking, text = say("musl", real.replace(loader, b"/lib/ld-musl-x86_64.so.1".ljust(len(loader), b"\0")))
    check(linking == "linking" and "musl" in text, text)
    linking, text = say("no_loader", real.replace(loader, b"/nonexistent/loader.so.1".ljust(len(loader), b"\0")))
    check(linking == "linking" and "its loader /nonexistent/loader.so.1: No such file" in text, text)
    for n in [*range(0, 70), 100, 200, 500, 700]:
        check(say("cut", real[:n]), n)


@case("the driver, the folder of the traces, LD_PRELOAD and CUTRACE=0")
def surroundings():
    checks = {c: (level, reason) for level, c, reason in doctor(PLAIN)[1]}
    level, reason = checks["driver"]
    equal((level, reason), ("ok", f"the driver is {os.path.realpath(SIM)}/libcuda.so.1, of CUDA 13.0"))
    equal([c for c, _ in failures(PLAIN, LD_LIBRARY_PATH=None)], [] if has_driver() else ["driver"])
    equal(checks["output"][0], "ok")
    check(f"traces go to {WHERE}," in checks["output"][1], checks)
    for pattern in ("/a/b.%p.zst", "/%h/c", "/d"):
        check(f"traces go to {WHERE}," in doctor("-o", WHERE + pattern, PLAIN)[1][-1][2], pattern)
    equal([c for c, _ in failures(PLAIN, CUTRACE="0")], ["switch"])
    found = doctor(PLAIN, LD_PRELOAD="/nonexistent.so libm.so.6")[1]
    equal([c for level, c, _ in found if level == "warn"], ["preload", "preload"])
    for tool, expected in ((None, []), (LIBRARY, ["ok"]), ("/nonexistent.so", ["warn"]), (PLAIN, ["warn"])):
        code, found = doctor(PLAIN, CUDA_INJECTION64_PATH=tool)
        equal((code, [level for level, c, _ in found if c == "injection"]), (0, expected), tool)


def has_driver():
    done = subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"], env=env(LD_LIBRARY_PATH=None),
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def stopped_worker(*before, **more):
    p = subprocess.Popen([*before, program("worker"), "1", "0", "64", "100"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, env=env(WORKER_PAUSE="1", WORKER_REFUSALS="0", **more), cwd=WHERE, text=True)
    equal(p.stdout.readline(), "half\n")
    return p


@case("a process that runs: traced, started without the library, switched off, not there")
def processes():
    for library, more, want in ((True, {}, (0, "recording", "ok")), (False, {}, (1, "loaded", "fail")),
                                (True, {"CUTRACE": "0"}, (1, "switch", "fail"))):
        p = stopped_worker(**({"LD_PRELOAD": LIBRARY} if library else {}), **more)
        code, found = doctor(f"--pid={p.pid}")
        p.communicate("x")
        equal((code, [level for level, c, _ in found if c == want[1]]), (want[0], [want[2]]), found)
    equal([c for c, _ in failures("-p", str(p.pid))], ["process"])


@case("wrong usage: one line and 2")
def usage():
    for words in ([], ["--pid"], ["--pid=x"], ["--pid=0"], ["--pid=1", "true"], ["--nonsense", "true"]):
        done = subprocess.run([CUTRACE, "doctor", *words], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), words)
        check(done.stderr.startswith("cutrace: doctor: "), done.stderr)
        check(words not in (["--pid=x"], ["--pid=0"]) or "needs the number of a process" in done.stderr, done.stderr)


main()
