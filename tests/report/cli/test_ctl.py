#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace ctl: what it finds, prints and sets. A process that maps a journal and answers stands in for the recorder."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import mkjournal  # noqa: E402
from mkjournal import Journal  # noqa: E402
from tap import BUILD, PLAIN, case, check, equal, main, report  # noqa: E402

FOLDER = tempfile.mkdtemp(dir="/tmp")  # where another user may go, too
TRACE = os.path.join(FOLDER, "t.zst")
JOURNAL = TRACE + ".journal"
CUTRACE = os.path.join(os.path.abspath(BUILD), "cutrace")
CONTROL, WANTED = mkjournal.WANTED + 4, mkjournal.WANTED
OFF, FLUSH = 1, 2

# Waits on the futex as the recorder's writer does (so that a wake that does not come shows), and answers.
RECORDER = r"""
import ctypes, mmap, os, struct, sys
FUTEX = {'x86_64': 202, 'aarch64': 98}[os.uname().machine]
path, wanted, answers = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "answers"
libc = ctypes.CDLL(None, use_errno=True)
with open(path, "r+b") as f:
    m = mmap.mmap(f.fileno(), 8192)
at = ctypes.addressof(ctypes.c_char.from_buffer(m)) + wanted
class T(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
print("ready", flush=True)
while True:
    now = struct.unpack_from("<I", m, wanted)[0]
    if not now:
        libc.syscall(FUTEX, ctypes.c_void_p(at), 0, 0, ctypes.byref(T(60, 0)), None, 0)
        continue
    struct.pack_into("<I", m, wanted, 0)
    control, = struct.unpack_from("<I", m, wanted + 4)
    if control & 2 and answers:
        struct.pack_into("<I", m, wanted + 4, control & ~2)
        flushes, = struct.unpack_from("<Q", m, wanted + 32)
        struct.pack_into("<Q", m, wanted + 32, flushes + 1)
    print("asked", control, flush=True)
"""


def ctl(*args):
    done = subprocess.run([CUTRACE, "ctl", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN, check=False)
    if done.returncode:
        equal((done.stdout, done.stderr.count(b"\n")), (b"", 1), done.stderr)
        check(done.stderr.startswith(b"cutrace: "), done.stderr)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def write(j, trace=True):
    if trace:
        open(TRACE, "wb").close()
    with open(JOURNAL, "wb") as f:
        f.write(j.bytes())


def word(at, form="<I"):
    with open(JOURNAL, "rb") as f:
        f.seek(at)
        return struct.unpack(form, f.read(struct.calcsize(form)))[0]


class Recorder:
    def __init__(self, answers=True, **journal):
        j = Journal(**journal)
        j.counters = (123456, 7, 3 << 20, 0)
        j.devices = [(5 << 30, 6 << 30, 2, 1 << 30, 24 << 30, 1), (0,) * 6, (1 << 20, 1 << 20, 0, 0, 0, 0)]
        write(j)
        self.process = subprocess.Popen([sys.executable, "-c", RECORDER, JOURNAL, str(WANTED), "answers" if answers else "sleeps"],
                                        stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.pid = self.process.pid
        with open("/proc/%d/stat" % self.pid, encoding="utf-8") as f:
            start = int(f.read().rpartition(")")[2].split()[19])
        with open("/proc/sys/kernel/random/boot_id", "rb") as f:
            boot = f.read(16)
        with open(JOURNAL, "r+b") as f:
            for at, form, value in ((12, "<I", self.pid), (40, "<Q", start), (48, "<16s", boot)):
                f.seek(at)
                f.write(struct.pack(form, value))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def asked(self):
        return self.process.stdout.readline().decode().strip()


@case("status prints the counters, by pid, by trace and by journal")
def status():
    with Recorder() as r:
        for name in (r.pid, TRACE, JOURNAL):
            code, out, err = ctl(name, "status")
            equal((code, err), (0, ""))
            for line in (r"process +%d, recording is on" % r.pid, r"events +123456", r"lost +7", r"written +3.00 MiB",
                         r"GPU 0 +tracked 5.00 GiB, peak 6.00 GiB, OOM 2, free 1.00 GiB of 24.00 GiB \(.* ago\)",
                         r"GPU 2 +tracked 1.00 MiB, peak 1.00 MiB, OOM 0, free -"):
                check(re.search("^" + line + "$", out, re.M), "%s: %s" % (line, out))
            check("GPU 1" not in out, out)
        equal(word(WANTED), 0, "status changes nothing")


@case("off and on set and clear their bit, and wake the recorder")
def switches():
    with Recorder() as r:
        equal(ctl(r.pid, "off")[0], 0)
        equal(r.asked(), "asked %d" % OFF)
        check("recording is off" in ctl(TRACE, "status")[1])
        equal(ctl(TRACE, "off")[0], 0)
        equal(r.asked(), "asked %d" % OFF)
        equal(ctl(TRACE, "on")[0], 0)
        equal(r.asked(), "asked 0")
        equal(word(CONTROL), 0)


@case("flush waits until it is done, and says so if nobody answers")
def flush():
    with Recorder() as r:
        equal(ctl(r.pid, "flush")[0], 0)
        equal(r.asked(), "asked %d" % FLUSH)
        equal((word(CONTROL), word(WANTED + 32, "<Q")), (0, 1))
    with Recorder(answers=False) as r:
        code, _, err = ctl(r.pid, "flush")
        equal(code, 4)
        check("not answered" in err, err)


@case("a process that dies meanwhile is no endless wait")
def flush_of_dying():
    with Recorder(answers=False) as r:
        waiting = subprocess.Popen([CUTRACE, "ctl", str(r.pid), "flush"], stderr=subprocess.PIPE)
        r.asked()
        r.process.kill()
        r.process.wait()
        err = waiting.communicate()[1]
        equal((waiting.returncode, b"has ended" in err), (3, True), err)


@case("no such process, not traced, ended, no journal, another version: one line and 3")
def nobody():
    last = int(open("/proc/sys/kernel/pid_max", encoding="utf-8").read())
    check("no process" in ctl(last, "status")[2])
    equal(ctl(last, "status")[0], 3)
    code, _, err = ctl(os.getpid(), "status")
    equal((code, "no journal" in err), (3, True), err)
    write(Journal())
    for request in ("status", "on", "off", "flush"):
        code, _, err = ctl(TRACE, request)
        equal((code, "has ended" in err), (3, True), err)
    os.remove(JOURNAL)
    code, _, err = ctl(TRACE, "status")
    equal((code, "no journal" in err), (3, True), err)
    equal(ctl(FOLDER + "/missing.zst", "status")[0], 3)
    j = Journal()
    j.version = 9
    write(j)
    code, _, err = ctl(TRACE, "status")
    equal((code, "version 9" in err), (3, True), err)
    for data in (b"", b"x" * 100, bytes(1 << 14), os.urandom(1 << 14)):
        with open(JOURNAL, "wb") as f:
            f.write(data)
        equal(ctl(TRACE, "status")[0], 3)


@case("a journal that may not be written: 5 for what changes it, status may work")
def not_allowed():
    if os.geteuid() == 0:
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    else:
        user = []
    with Recorder():
        os.chmod(FOLDER, 0o755)
        os.chmod(JOURNAL, 0o444)
        for request, want in (("status", 0), ("off", 5), ("flush", 5)):
            done = subprocess.run([*user, CUTRACE, "ctl", TRACE, request], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            equal(done.returncode, want, "%s: %r" % (request, done.stderr))
        os.chmod(JOURNAL, 0o000)
        done = subprocess.run([*user, CUTRACE, "ctl", TRACE, "status"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        equal((done.returncode, done.stderr.count(b"\n")), (5, 1))
        if user:
            done = subprocess.run([*user, CUTRACE, "ctl", str(os.getpid()), "status"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            equal((done.returncode, done.stderr.count(b"\n")), (5, 1), done.stderr)


@case("wrong usage: one line and 2; help names the requests")
def usage():
    for args in ((), (1,), (1, "jump"), (1, "on", "off"), ("on",)):
        equal(ctl(*args)[0], 2, args)
    out = subprocess.run([CUTRACE, "ctl", "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    check("on|off|flush|status" in out, out)


@case("the library itself answers: status, flush, off and on")
def a_real_recorder():
    folder = tempfile.mkdtemp()
    trace = os.path.join(folder, "t.zst")
    here = os.path.abspath(BUILD)
    env = {**PLAIN, "LD_LIBRARY_PATH": here + "/sim", "LD_PRELOAD": here + "/libcutrace.so", "CUTRACE_OUTPUT": trace, "CUTRACE_QUIET": "1"}
    with subprocess.Popen([here + "/tests/recorder/worker", "1", "1000", "50", "0", "5"], env=env, stdout=subprocess.DEVNULL) as worker:
        try:
            while not os.path.exists(trace + ".journal") or ctl(trace, "status")[0]:
                equal(worker.poll(), None, "the worker is running")
                time.sleep(0.02)
            equal(ctl(worker.pid, "flush")[0], 0)

            def events():
                return int(re.search(r"^events +(\d+)$", ctl(worker.pid, "status")[1], re.M).group(1))

            seen = events()
            while events() == seen:  # it goes on
                equal(ctl(trace, "flush")[0], 0)
            equal(ctl(worker.pid, "off")[0], 0)
            equal(ctl(worker.pid, "flush")[0], 0)
            check("recording is off" in ctl(trace, "status")[1])
            time.sleep(0.1)
            equal(ctl(worker.pid, "flush")[0], 0)
            stopped = events()
            time.sleep(0.3)
            equal(ctl(worker.pid, "flush")[0], 0)
            check(events() - stopped <= 3, "%d events while it was off" % (events() - stopped))  # readings, notes
            equal(ctl(worker.pid, "on")[0], 0)
            while events() <= stopped + 3:
                equal(ctl(trace, "flush")[0], 0)
        finally:
            worker.kill()
    code, out, err = report("info", "--json", trace)
    equal((code, err), (0, b""), out)
    found = json.loads(out)
    whole = found["integrity"]
    check(whole["complete"] or found["torn_events"] and not whole["lost_events"], out)  # (killed while it recorded: that event is torn)
    equal(ctl(trace, "status")[0], 3)
    shutil.rmtree(folder)


@case("the journal is found by what the process maps, also under another name and when it was deleted")
def mapped_elsewhere():
    with Recorder() as r:
        os.rename(JOURNAL, JOURNAL + ".moved.journal")
        equal(ctl(r.pid, "status")[0], 0)
        os.rename(JOURNAL + ".moved.journal", JOURNAL)
        os.remove(JOURNAL)
        code, out, _ = ctl(r.pid, "status")
        check(code in (0, 5), out)


main()
