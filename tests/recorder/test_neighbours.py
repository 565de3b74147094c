#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is recorded of the processes on the simulated GPU, of MIG instances and of memory of the host. The truth is each process's
ledger: what it allocated, and how much of the device was free."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import ways  # noqa: E402
from tap import BUILD, Skip, case, check, equal, main, read_json  # noqa: E402

PROGRAM = os.path.join(BUILD, "tests/recorder/refused_calls")
M, G = 1 << 20, 1 << 30
CONTEXT = 64 * M
CONTAINER = ("unshare", "-Upf", "--mount-proc")


def is_host():
    return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"


class Process:
    """A program that allocates when it is told to, and its ledger."""

    def __init__(self, where, name, *steps, prefix=(), traced=True, after="", **env):
        self.where, self.name = where, name
        self.env = ways.environment(where, preload=False, env={
            "SIM_SHM": os.path.join(where, "shm"), "SIM_MEM_MB": str(16 << 10), "SIM_LEDGER": self.file("ledger"),
            "CUTRACE_OUTPUT": self.file("zst"), "CUTRACE_QUIET": "1", **env})
        words = [w for s in steps for w in (s, "say", "wait")]
        start = [*prefix, "env", f"LD_PRELOAD={ways.LIBRARY}:{after}"] if traced else list(prefix)
        self.process = subprocess.Popen([*start, PROGRAM, *words, "exit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=self.env, cwd=where)
        equal(self.process.stdout.readline(), "said\n")

    def file(self, end):
        return os.path.join(self.where, f"{self.name}.{end}")

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "said\n")

    def end(self):
        self.process.communicate("\n")
        equal(self.process.returncode, 0, self.name)

    def held(self):
        """By its ledger: contexts, and what was allocated and not freed."""
        at, held = {}, CONTEXT
        for e in ways.check_ledger.read_ledger(self.file("ledger")):
            if e["op"] == "alloc" and not e["result"]:
                at[e["ptr"]] = e["bytes"]
                held += e["bytes"]
            elif e["op"] == "free" and e["ptr"] in at:
                held -= at.pop(e["ptr"])
        return held

    def events(self):
        out = ways.check_ledger.report(ways.REPORT, "dump", self.file("zst"))
        return [json.loads(line) for line in out.splitlines()]

    def listed(self):
        """What its trace says now of each process: bytes by number."""
        now = {}
        for e in self.events():
            if e["op"] == "process":
                now[e["pid"]] = e["process_bytes"]
            elif e["op"] == "process-gone":
                now.pop(e["pid"])
        return now

    def until(self, condition, what):
        """Waits until its trace, as a journal has it, says what is expected."""
        for _ in range(3000):
            if condition():
                return
            check(self.process.poll() is None, what + ": it has ended")
            time.sleep(0.1)
        raise AssertionError(what + f": {self.listed()}")

    def info(self):
        return json.loads(read_json("info", self.file("zst")))["info"]

    def devices(self):
        return json.loads(read_json("summary", self.file("zst")))["devices"]


@case("each process is listed with what its ledger says, by its name, as it changes, and is gone when it has ended")
def listed():
    if not is_host():
        raise Skip("NVML's process numbers are those of another namespace")
    where = ways.folder()
    me = Process(where, "me", "alloc:256", "alloc:512")
    other = Process(where, "other", "alloc:1024", "alloc:2048", traced=False)
    truth = {me.process.pid: me, other.process.pid: other}
    for step in (None, other, me):
        if step:
            step.step()
        want = {pid: p.held() for pid, p in truth.items()}
        me.until(lambda: me.listed() == want, f"the list is {want}")  # noqa: B023
    other.end()
    me.until(lambda: me.listed() == {me.process.pid: me.held()}, "the other one has ended")
    me.end()
    named = {e["pid"]: e["text"] for e in me.events() if e["op"] == "process"}
    equal(set(named.values()), {"refused_calls"})
    (device,) = me.devices()
    equal({p["pid"]: p["whose"] for p in device["processes"]}, {me.process.pid: "this", other.process.pid: "other"})
    # What does not change is not recorded again.
    told = [(e["pid"], e["process_bytes"]) for e in me.events() if e["op"] == "process"]
    equal(len(told), len(set(told)), told)


@case("CUTRACE_PRIVATE leaves out the names of processes, and CUTRACE_NVML=0 the processes")
def private():
    for env in ({"CUTRACE_PRIVATE": "1"}, {"CUTRACE_NVML": "0"}):
        where = ways.folder()
        me = Process(where, "me", "alloc:256", "alloc:1", **env)
        if "CUTRACE_PRIVATE" in env:
            me.until(me.listed, "it is listed")
        me.step()
        me.end()
        found = [e for e in me.events() if e["op"] == "process"]
        equal([e["text"] for e in found if e["text"]], [])
        equal(bool(found), "CUTRACE_PRIVATE" in env)


@case("processes of all lists of NVML: a graphics process and a client of MPS count, too")
def lists():
    for kind in ("compute", "graphics", "mps"):
        where = ways.folder()
        me = Process(where, "me", "alloc:256", SIM_NEIGHBOUR_MB=1024, SIM_NEIGHBOUR_KIND=kind)
        me.until(lambda: me.listed().get(4194304) == G, f"a process of the {kind} list")  # noqa: B023
        me.end()


@case("in a container this process is not taken for a stranger, nor a stranger's number for its own; its own is inferred")
def container():
    if subprocess.run([*CONTAINER, "true"], capture_output=True).returncode:
        raise Skip("this user may not make a PID namespace")
    where = ways.folder()
    sizes = ("alloc:256", "alloc:512", "alloc:320", "alloc:640")
    me = Process(where, "me", *sizes, prefix=CONTAINER, SIM_CONTAINER=3)
    other = Process(where, "other", "alloc:1024", "alloc:96", prefix=CONTAINER, traced=False, SIM_CONTAINER=4)
    mine, its = 3000001, 4000001
    held = 256 * M
    me.until(lambda: me.listed() == {mine: CONTEXT + 256 * M, its: CONTEXT + G}, "both are listed")
    for size in (512, 320, 640):
        me.step()
        held += size * M
        me.until(lambda: me.listed()[mine] == CONTEXT + held, "its growth")  # noqa: B023
        equal(me.held(), CONTEXT + held)
    other.step()
    me.until(lambda: me.listed()[its] == other.held(), "the other one's growth")
    me.end()
    other.end()
    facts = me.info()
    equal((facts["process.pid"], facts["process.nvml_pids"]), ("1", "other"))
    (device,) = me.devices()
    equal({p["pid"]: (p["whose"], p["name"]) for p in device["processes"]}, {mine: ("this-inferred", None), its: ("other", None)})
    check(not [e for e in me.events() if e["op"] == "memory-sample" and e["process_bytes"] is not None], "nothing is said of its own")


def ranks(where, pod):
    """Two ranks that a launcher starts in a PID namespace of their own. Returns their traces, and the process that keeps the
    namespace until its standard input is closed: the kernel gives the number of one that is gone to the next."""
    env = ways.environment(where, preload=False, env={
        "SIM_SHM": os.path.join(where, "shm"), "SIM_MEM_MB": str(16 << 10), "CUTRACE_QUIET": "1", "SIM_CONTAINER": str(pod),
        "WORLD_SIZE": "2", "PROGRAM": PROGRAM, "LIBRARY": ways.LIBRARY, "POD": os.path.join(where, f"pod{pod}")})
    start = 'RANK={0} CUTRACE_OUTPUT=$POD-{0}.zst LD_PRELOAD=$LIBRARY $PROGRAM alloc:256 exit & '
    launcher = start.format(0) + start.format(1) + "wait"
    # (the launcher is not the first process of the namespace, which could have got its children from others)
    keeper = subprocess.Popen([*CONTAINER, "sh", "-c", f"sh -c '{launcher}' >&2; echo done; read _"], env=env, cwd=where,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(keeper.stdout.readline(), b"done\n")
    return [os.path.join(where, f"pod{pod}-{rank}.zst") for rank in (0, 1)], keeper


@case("two jobs of two containers with the same numbers: ranks of one container are of one job, those of the other of another one")
def jobs():
    if subprocess.run([*CONTAINER, "true"], capture_output=True).returncode:
        raise Skip("this user may not make a PID namespace")
    where = ways.folder()
    (one, first), (other, second) = ranks(where, 3), ranks(where, 4)
    for keeper in (first, second):
        keeper.communicate()
    paths = [*one, *other]
    facts = [json.loads(read_json("info", p))["info"] for p in paths]
    equal([{f["process.ppid"] for f in facts}, {f["process.env.WORLD_SIZE"] for f in facts}], [{"2"}, {"2"}])
    equal({f["process.pid"] for f in facts[:2]}, {f["process.pid"] for f in facts[2:]}, "the same numbers")
    equal(len({f["process.pid_namespace_hash"] for f in facts}), 2)
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (3, 0, 2, 1)):
        pods = [i // 2 for i in order]
        document = json.loads(read_json("summary", *[paths[i] for i in order]))["processes"]
        equal([p["job_index"] for p in document["processes"]], [pods.index(pod) for pod in pods], order)
        equal([p["same_process"] for p in document["processes"]], [None] * 4)
    document = json.loads(read_json("summary", paths[0], paths[3]))["processes"]
    equal([p["job_index"] for p in document["processes"]], [None, None], "one rank of each")


@case("a number of NVML's that is there in a container, too, gives no name, and is not this process's")
def collision():
    if subprocess.run([*CONTAINER, "true"], capture_output=True).returncode:
        raise Skip("this user may not make a PID namespace")
    me = Process(ways.folder(), "me", "alloc:256", "alloc:512", prefix=CONTAINER)  # NVML's number 1, as here
    me.until(lambda: me.listed().keys() == {1}, "it is listed")
    me.step()
    me.end()
    equal({e["text"] for e in me.events() if e["op"] == "process"}, {None})
    (p,) = me.devices()[0]["processes"]
    check(p["whose"] in ("unknown", "this-inferred"), p)


@case("in a container NVML may list nothing, or give no numbers: nobody is named")
def no_numbers():
    if subprocess.run([*CONTAINER, "true"], capture_output=True).returncode:
        raise Skip("this user may not make a PID namespace")
    for how in ("none", "zero"):
        where = ways.folder()
        me = Process(where, "me", "alloc:256", "alloc:512", prefix=CONTAINER, SIM_NEIGHBOUR_MB=1024, SIM_NVML_PIDS=how)
        me.until(lambda: any("nvml" in e["flags"] for e in me.events()), "it was read")  # noqa: B023
        me.step()
        me.end()
        (device,) = me.devices()
        if how == "none":
            equal(device["processes"], None)
        else:
            equal([p["whose"] for p in device["processes"] if p["pid"] is None], ["unknown"])
        text = subprocess.run([ways.REPORT, "summary", me.file("zst")], capture_output=True, text=True).stdout
        check("other processes by NVML" not in text, text)


@case("a MIG instance is known by its own UUID and has its own capacity, not that of the card")
def mig():
    where = ways.folder()
    env = {"SIM_DEVICES": 2, "SIM_MIG_CARD_MB": 80 << 10, "SIM_MEM_MB": "10240,20480"}
    me = Process(where, "me", "alloc:256", "alloc:512", **env)
    me.until(me.listed, "it is listed")
    me.step()
    me.end()
    facts = me.info()
    equal([facts.get("device.0." + k) for k in ("mig", "mig_gpu_instance", "mig_compute_instance", "mig_card", "nvml_index")],
          ["1", "1", "0", "0", None])
    equal(facts["device.0.nvml_total_bytes"], str(10 * G), "the instance's, not the card's")
    (device,) = me.devices()
    equal((device["mig"], device["capacity_bytes"]), ({"gpu_instance": 1, "compute_instance": 0, "card": 0}, 10 * G))
    total = {e["total_bytes"] for e in me.events() if e["op"] == "memory-sample"}
    equal(total, {10 * G})


@case("a card in MIG mode whose instance is not known: nothing of the card is recorded, and the report does not guess")
def mig_without_instance():
    env = {"SIM_DEVICES": 2, "SIM_MIG_CARD_MB": 80 << 10, "SIM_MEM_MB": "10240,20480",
           "SIM_FAIL": "cuDeviceGetUuid_v2:*:801"}  # (the first version gives the card's UUID)
    me = Process(ways.folder(), "me", "alloc:256", "alloc:512", **env)
    me.until(lambda: [k for k in me.info() if re.match(r"device\.0\.(mig|nvml)", k)], "NVML was asked")
    me.step()
    me.end()
    facts = me.info()
    equal({k: v for k, v in facts.items() if re.match(r"device\.0\.(mig|nvml)", k)}, {"device.0.mig": "1"})
    check(not [e for e in me.events() if e["op"] == "process" or "nvml" in e["flags"]], "what NVML says is of the card")
    (device,) = me.devices()
    equal((device["mig"], device["capacity_bytes"], device["processes"]),
          ({"gpu_instance": None, "compute_instance": None, "card": None}, 10 * G, None))
    text = subprocess.run([ways.REPORT, "top", me.file("zst")], capture_output=True, text=True, check=True).stdout
    check("GPU 0 (MIG instance, 10.00 GiB): " in text, text)


@case("memory of the host: the trace has what the host has left, and no sample of NVML's that does not exist")
def host():
    where = ways.folder()
    me = Process(where, "me", "alloc:256", "alloc:512", SIM_INTEGRATED=1, SIM_NVML="nomemory", SIM_HOST_USED_MB=4096)
    me.until(lambda: any(e["op"] == "host-sample" for e in me.events()), "the host's memory")
    with open("/proc/meminfo", encoding="ascii") as f:
        total = int(re.search(r"MemTotal: +(\d+) kB", f.read()).group(1)) << 10
    me.step()
    me.end()
    samples = [e for e in me.events() if e["op"] == "host-sample"]
    equal({e["total_bytes"] for e in samples}, {total})
    check(all(0 < e["used_bytes"] < total for e in samples), samples)
    facts = me.info()
    equal([facts["device.0." + k] for k in ("integrated", "pageable_memory_access", "nvml_memory_error")], ["1", "1", "3"])
    check(not [e for e in me.events() if e["op"] == "memory-sample" and "nvml" in e["flags"]], "NVML has no memory to tell of")
    (device,) = me.devices()
    rows = {r["component"]: r["bytes"] for r in device["account"]["end"]["rows"]}
    last = ways.check_ledger.read_ledger(me.file("ledger"))[-1]
    equal(rows["host"], 4 * G + CONTEXT)
    equal(rows["free"], last["free"])
    check("unmeasured" not in rows and "others" not in rows, rows)


@case("what the host has left is what the kernel says is available, where it changes, and not where it does not")
def host_changes():
    where = ways.folder()
    meminfo, asked = os.path.join(where, "meminfo"), os.path.join(where, "asked")

    def kernel_says(available_kib):
        with open(meminfo + ".new", "w", encoding="ascii") as f:
            f.write(f"MemTotal: {64 << 20:15} kB\nMemFree: {3 << 20:16} kB\nMemAvailable: {available_kib:11} kB\nCached: 123456 kB\n")
        os.rename(meminfo + ".new", meminfo)

    def asks():  # the first time may have begun before, and the third one is behind the second one's event
        before = os.path.getsize(asked)
        me.until(lambda: os.path.getsize(asked) >= before + 3, "it asks the kernel")

    def used():
        return [e["used_bytes"] for e in me.events() if e["op"] == "host-sample"]

    kernel_says(50 << 20)
    me = Process(where, "me", "alloc:256", SIM_INTEGRATED=1, SIM_NVML="nomemory", OTHER_FILE_OF="/proc/meminfo", OTHER_FILE=meminfo,
                 OTHER_FILE_ASKED=asked, after=os.path.join(ways.BUILD, "tests/recorder/libother_file.so"))
    me.until(lambda: used() == [14 * G], "the first sample")
    kernel_says((50 << 20) - (64 << 20) // 256 + 1)  # less than 1/256 of all
    asks()
    kernel_says(20 << 20)
    asks()
    equal(used(), [14 * G, 44 * G])
    kernel_says(65 << 20)  # more than there is
    asks()
    me.end()
    equal({(e["used_bytes"], e["total_bytes"]) for e in me.events() if e["op"] == "host-sample"}, {(14 * G, 64 * G), (44 * G, 64 * G)})


main()
