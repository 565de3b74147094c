#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole recorder: the log of recorder_program against its trace, read by an independent reader."""
import collections
import itertools
import json
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import read_trace  # noqa: E402
from recorder_runs import PROGRAM, Run, by_thread, equal, lost, ordered, replays  # noqa: E402
from tap import FULL, REPORT, Skip, case, main, read_json, repeat, sample  # noqa: E402

SLOW = "thread" in os.environ.get("SAN", "")  # ThreadSanitizer; what has no race to find takes it a minute


def run_and_read(*arguments, **kw):
    run = Run(*arguments, **kw)
    return run, run.trace()


def run_undisturbed(*arguments, **kw):
    """A run that lost nothing, and its trace: a full ring waits 100 ms for the thread that drains it, which may get no core for longer."""
    run, trace = repeat(lambda: run_and_read(*arguments, **kw), lambda done: not lost(done[1]))
    assert not lost(trace), lost(trace)
    return run, trace


@case("one thread is recorded completely")
def one_thread_is_recorded_completely():
    run = Run("allocs", 5000)
    trace = run.trace()
    equal(run, trace)
    assert trace.heads[-1]["flags"] & 1 and not any(h["flags"] & 1 for h in trace.heads[:-1])
    assert trace.info["recorder.end"] == "exit" and trace.info["recorder.lost_events"] == "0"


@case("threads that share addresses come in the driver's order")
def threads_that_share_addresses_come_in_the_driver_s_order():
    for round_number in sample(range(20), 2):
        run = Run("threads", 2 + round_number % 7, 20000 if FULL else 5000, env={"CUTRACE_FLUSH_MS": "10"})
        trace = run.trace()
        ordered(trace)
        equal(run, trace)
        if not lost(trace):
            replays(trace)


@case("a thread and a visitor come in the driver's order")
def a_thread_and_a_visitor_come_in_the_driver_s_order():
    run, trace = run_undisturbed("visits", 400 if FULL else 30)
    ordered(trace)
    equal(run, trace)
    replays(trace)


@case("slow threads lose nothing")
def slow_threads_lose_nothing():
    run = Run("threads", 8, 800)
    trace = run.trace()
    assert not lost(trace)
    ordered(trace)
    equal(run, trace)
    replays(trace)


@case("failed give backs are amended")
def failed_give_backs_are_amended():
    run = Run("threads", 2, 3000, env={"CUTRACE_FLUSH_MS": "10"})
    failed = sum(e[4] == 1 for t in run.account.values() for e in t)
    trace = run.trace()
    equal(run, trace)
    # Most are corrected before they are written: no record is left of them.
    assert failed > 10 and len(trace.amends) < failed / 2


@case("times are rounded to ticks")
def times_are_rounded_to_ticks():
    """Down, in order, distinguishably, and so that corrections find their events."""
    for what, tick in itertools.product((("allocs", 5000), ("threads", 2, 5000), ("late-amend",)), (10, 100)):
        run = Run(*what, env={"CUTRACE_TICK_NS": str(tick)})
        trace = run.trace()
        rounded, gone, events = 0, lost(trace), collections.defaultdict(list)
        for e in trace.amended():
            if "thread" in e:
                events[e["thread"]["tid"]].append(e)
        for tid, told in run.account.items():
            if gone[tid]:
                continue
            got = [e for e in events[tid] if e["op"] != "lost"]
            assert len(got) == len(told)
            for e, (t, op, ptr, _, result) in zip(got, told):
                assert 0 <= t - e["t_ns"] < e["span_ns"] <= tick, f"{e['t_ns']} for {t}"
                assert (e["op"], e.get("ptr", 0), e.get("result", 0)) == (op, ptr, result)
                rounded += e["span_ns"] > 1
            times = [e["t_ns"] for e in got]
            assert all(a < b for a, b in zip(times, times[1:])), "times of a thread do not increase"
        ordered(trace)
        # (How many events share 100 ns is a matter of the machine, and so is what a slow disk loses.)
        assert rounded > 1000 or what == ("late-amend",) or tick > 10 or gone, rounded


@case("an amendment after the chunk is a record")
def an_amendment_after_the_chunk_is_a_record():
    run = Run("late-amend")
    trace = run.trace()
    assert len(trace.amends) == 1 and trace.amends[0]["result"] == 1
    equal(run, trace)


def left_over(path):
    """(allocations, bytes) that are live at the end, from whatever is left of the trace."""
    summary = json.loads(read_json("summary", path))
    assert summary["trace"]["exact"]
    return summary["trace"]["overwritten_events"], tuple(summary["devices"][0][k] for k in ("live_allocations", "live_bytes"))


@case("a give back that fails long after is in every checkpoint", long=SLOW)
def a_give_back_that_fails_long_after_is_in_every_checkpoint():
    """What was given back then is alive, also for who reads from a checkpoint that was made before the failure was known."""
    want = 25, sum(1000 + i for i in range(1, 50, 2))
    # A segment of this file is some 30,000 events: checkpoints are made between a give-back and its failure.
    # (A sanitizer takes its time.)
    for events in [26000] if os.environ.get("SAN") else sample(range(20000, 41000, 500), 2):
        run = Run("late-failures", 45, events, env={"CUTRACE_MAX_SIZE": "1M", "CUTRACE_STACKS": "off"})
        overwritten, live = left_over(os.path.join(run.folder, "t.zst"))
        assert overwritten and live == want, f"{events} events: {live}, not {want}; {overwritten} overwritten"
        shutil.rmtree(run.folder)


@case("threads that end hand their rings on")
def threads_that_end_hand_their_rings_on():
    run = Run("short-threads", 300)
    trace = run.trace()
    equal(run, trace)
    assert len(run.account) == 300


@case("stacks are named")
def stacks_are_named():
    trace = Run("allocs", 100).trace()
    names = [f["symbol"] for f in trace.stack(trace.events[-1])]
    assert names[:3] == ["record_alloc", "some", "main"], names
    assert os.path.basename(trace.stack(trace.events[0])[0]["module"]["path"]) == "recorder_program"
    build_id = subprocess.run(["readelf", "-n", PROGRAM], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert trace.stack(trace.events[0])[0]["module"]["build_id"] in build_id
    depth = Run("allocs", 10, env={"CUTRACE_STACK_DEPTH": "2"}).trace()
    assert [len(depth.stack(e)) for e in depth.events] == [2 + 1] * 10
    assert all(depth.stack(e)[-1].get("end") == "deeper" for e in depth.events), depth.stack(depth.events[0])
    off = Run("allocs", 10, env={"CUTRACE_STACKS": "off"}).trace()
    assert not any("stack" in e for e in off.events)


@case("a library that others have seen meanwhile has names")
def a_library_that_others_have_seen_meanwhile_has_names():
    trace = Run("library", "libresolv.so.2", "ns_sprintrr").trace()
    (frame,) = trace.stack(trace.events[-1])
    assert (frame["symbol"], os.path.basename(frame["module"]["path"])[:9]) == ("ns_sprintrr", "libresolv"), frame


@case("symbol tables are given back")
def symbol_tables_are_given_back():
    if os.environ.get("SAN"):
        raise Skip("the sanitizer's own memory grows meanwhile")
    before, after = map(int, Run("tables").stdout.split()[-2:])
    # The program's own table is 16 bytes a function, and the C library's.
    functions = subprocess.run(f"nm '{PROGRAM}' | grep -c ' [tTwW] '", shell=True, stdout=subprocess.PIPE, check=True).stdout
    assert 0 < after <= before - int(functions) * 16 // 1024, (before, after, functions)


@case("a refused allocation survives what follows at once")
def a_refused_allocation_survives_what_follows_at_once():
    for n in (0, 1, 100, 9000):
        run = Run("refuse-and-die", n, status=-signal.SIGKILL)
        trace = run.trace()
        equal(run, trace)
        last = trace.events[-1]
        assert last["op"] == "alloc" and last["result"] == 2
        assert trace.stack(last)[0]["pc"]
        assert "recorder.end" not in trace.info


@case("a refused allocation is said and in the trace")
def a_refused_allocation_is_said_and_in_the_trace():
    only_then = {"CUTRACE_FLUSH_MS": "3600000", "CUTRACE_UPDATE_MS": "0"}  # is anything written to the file
    run = Run("refuse-and-die", 100, 1, status=-signal.SIGKILL, env=only_then)
    line = re.fullmatch(r"cutrace: GPU 0 out of memory: cuMemAlloc_v2 of 1\.00 GiB failed( \([^)]*\))?: this process "
                        r"[\d.]+ [KMG]iB tracked; run: cutrace-report (\S+)\n", run.stderr)
    assert line and line[2] == os.path.join(run.folder, "t.zst"), run.stderr
    os.unlink(os.path.join(run.folder, "t.zst.journal"))  # the trace is passed on without it
    equal(run, run.trace())
    assert Run("refuse-and-die", 1, 1, status=-signal.SIGKILL, env={**only_then, "CUTRACE_QUIET": "1"}).stderr == ""


@case("events are on disk after the flush interval")
def events_are_on_disk_after_the_flush_interval():
    run = Run("wait-and-die", 1000, 800, status=-signal.SIGKILL, env={"CUTRACE_FLUSH_MS": "100"})
    equal(run, run.trace())


@case("the journal's open chunk is a restart point where the file's chunk is one")
def restart_points():
    run = Run("restarts", 300, env={"CUTRACE_MAX_SIZE": "1M", "CUTRACE_FLUSH_MS": "3600000"})
    told = {int(line.split()[1]) for line in run.stdout.splitlines() if line.startswith("restart ")}
    heads = run.trace(ring=True).heads
    written = {h["seq"] for h in heads if h["flags"] & 4}
    assert written and max(written) > 0, heads
    assert written <= told | {0} and not told & {h["seq"] for h in heads} - written, (told, written)


@case("a program may exit while threads record")
def a_program_may_exit_while_threads_record():
    ends = []
    # 1: the final chunk. 8: sealed, where a thread that was draining had no core for as long as the exit waits (200 ms).
    while len(ends) < (20 if FULL else 2) or (1 not in ends and len(ends) < 20):
        run = Run("exit-while", 3, 5 * len(ends))
        trace = run.trace()
        ordered(trace)
        ends.append(trace.heads[-1]["flags"] & 9)
    assert all(ends) and 1 in ends, ends


@case("events after the end are kept")
def events_after_the_end_are_kept():
    run = Run("late", 300)
    trace = run.trace()
    equal(run, trace)
    assert sum(map(len, run.account.values())) == 310 and trace.info["recorder.end"] == "exit"
    assert trace.heads[-1]["flags"] & 1
    assert len(trace.heads) > 300  # each was written at once


@case("a full ring is drained or counted")
def a_full_ring_is_drained_or_counted():
    # The writer sleeps for a minute: the producers drain for themselves.
    run, trace = run_undisturbed("threads", 1, 100000, env={"CUTRACE_FLUSH_MS": "60000"})
    equal(run, trace)


@case("dictionaries begin anew every 16 mib", long=SLOW)
def dictionaries_begin_anew_every_16_mib():
    run = Run("stacks", 14000, env={"CUTRACE_STACK_MEMORY": "128M", "CUTRACE_MAX_SIZE": "48M"})
    path = os.path.join(run.folder, "t.zst")
    with open(path, "rb") as f:
        data = f.read()
    at, raw, dictionaries = 0, 0, set()
    while at < len(data):
        magic, length = struct.unpack_from("<II", data, at)
        if magic == 0x184D2A5C:  # a chunk
            dictionaries.add(struct.unpack_from("<Q", data, at + 32)[0])
            body, bytes_raw = struct.unpack_from("<QQ", data, at + 72)
            raw, at = raw + bytes_raw, at + body
        at += 8 + length
    assert raw > 16 << 20 and len(dictionaries) > 1, (raw, dictionaries)
    found = json.loads(read_json("info", path))["integrity"]  # which reads each stack by its chunk's dictionaries
    assert (found["ok"], found["events_read"], found["lost_events"]) == (True, 14000, 0), found
    if not FULL:
        return
    trace = run.trace()
    assert [e["bytes"] for e in trace.events] == list(range(14000)) and not lost(trace)
    for e in trace.events[::101]:
        want = [0x5000 + (7 * (e["bytes"] % 7000) + 131 * k * k) % 20011 * 16 for k in range(500)]
        assert [f["pc"] for f in trace.stack(e)] == want


def python_stack(i):
    """What recorder_program's python_frame says, innermost first."""
    depth = 1 + i * 7 % 60
    for d in reversed(range(depth)):
        v = d + (0 if d < 40 else i % 7 * 50) + (i % 50 if d + 1 == depth else 0)
        if d == 0 and i % 5 in (1, 2):
            yield {1: "deeper", 2: "lost"}[i % 5]
        elif d % 3 == 0:
            yield 0x5000 + 16 * v
        else:
            yield "f%d%s" % (v % 100, "0" * (1 if v % 17 else 4000)), "/m/file%d.py" % (v % 10), v * 10


@case("python frames and ends are kept")
def python_frames_and_ends_are_kept():
    # On the way through the drainer, and, of a process that is killed at once, through the fold of its journal.
    for die in (0, 1):
        trace = Run("python", 3000, die, env={"CUTRACE_FLUSH_MS": "60000"}, status=-signal.SIGKILL if die else 0).trace()
        assert [e["bytes"] for e in trace.events] == list(range(3000)) and not lost(trace)
        for e in trace.events:
            got = [(f["python"], f["file"], f["line"]) if "python" in f else f.get("end") or f["pc"] for f in trace.stack(e)]
            assert got == list(python_stack(e["bytes"])), (die, e["bytes"], got)
        assert len({e["stack"][1] for e in trace.events}) > 800  # nodes: what is compared differs


@case("a refusal names the innermost line of python")
def a_refusal_names_the_innermost_line_of_python():
    for n in (16, 17, 18, 40):
        function, file, line = next(f for f in python_stack(n - 1) if isinstance(f, tuple))
        stderr = Run("python", n, 2).stderr
        assert f"({os.path.basename(file)}:{line} {function[:30]}" in stderr, (n, function[:30], stderr)


@case("a full table of stacks is counted")
def a_full_table_of_stacks_is_counted():
    trace = Run("stacks", 2000, env={"CUTRACE_STACK_MEMORY": "1M"}).trace()
    without = sum("stack" not in e for e in trace.events)
    assert len(trace.events) == 2000 and 1700 < without < 1800, without  # 4 KB each
    assert trace.info["recorder.stacks_full"] == str(without)


@case("a file that may not grow loses no chunk and says so")
def a_file_that_may_not_grow_loses_no_chunk_and_says_so():
    run = Run("limit", 500000, 100)
    trace = run.trace(ring=True)
    ordered(trace)
    assert "the file size limit is reached" in run.stderr and run.stderr.count("\n") == 1, run.stderr
    # (The first ten may lie in two chunks, if the writer was at it just then: these make room for what may not grow.)
    overwritten = trace.heads[0]["first_event"]
    assert overwritten in (0, 10), overwritten
    recorded = overwritten + sum(e["op"] == "alloc" for e in trace.events)
    assert recorded + sum(lost(trace).values()) == 10 + 500000 + 100
    assert sum(lost(trace).values()) > 10000
    assert trace.info["recorder.lost_events"] == str(sum(lost(trace).values())), trace.info["recorder.lost_events"]
    assert by_thread(trace)[next(iter(run.account))][-100:] == run.account[next(iter(run.account))][-100:]


@case("a forked child has a file of its own")
def a_forked_child_has_a_file_of_its_own():
    def fork():
        run = Run("fork", 50, output="t.%p.zst")
        traces = [run.trace(f) for f in run.files()]
        assert len(traces) == 2
        return run, *sorted(traces, key=lambda t: "process.parent_trace" in t.info)

    # (No stack if the writer had no core inside the loader for as long as a fork waits for it.)
    run, parent, child = repeat(fork, lambda done: "stack" in done[2].events[0])
    equal(run, parent)
    assert child.info["process.parent_trace"] == f"{parent.heads[0]['trace_id']:016x}"
    assert [e["ptr"] for e in child.events] == [0x200000 + i * 4096 for i in range(50)]
    assert child.info["process.pid"] != parent.info["process.pid"]
    assert {e["thread"]["tid"] for e in child.events} == {int(child.info["process.pid"])}
    assert [f["symbol"] for f in child.stack(child.events[0])][0] in ("record_alloc", None)


@case("a closed descriptor never writes into the host's file")
def a_closed_descriptor_never_writes_into_the_host_s_file():
    if SLOW:  # the files thread has a table of its own: what the program opens meanwhile is another file of the same number
        raise Skip("ThreadSanitizer knows one table of descriptors in a process, and calls this a race")
    folder = tempfile.mkdtemp()
    victim = os.path.join(folder, "victim")
    run = Run("close-all", victim)
    assert os.path.getsize(victim) == 0
    equal(run, run.trace())


@case("signal handlers may record")
def signal_handlers_may_record():
    many = 300000 if FULL else 60000
    run = Run("signals", many)
    trace = run.trace()
    ordered(trace)
    handled = int(run.stdout.split()[1])
    recorded = sum(e["op"] == "alloc" for e in trace.events)
    assert handled > 10 and recorded + sum(lost(trace).values()) == many + handled


@case("the file is private and new")
def the_file_is_private_and_new():
    run = Run("allocs", 5)
    assert stat.S_IMODE(os.stat(os.path.join(run.folder, "t.zst")).st_mode) == 0o600
    again = Run("allocs", 6, folder=run.folder)
    assert run.files() == ["t.zst", "t.zst.1"]
    assert len(run.trace("t.zst.1").events) == 6 and len(run.trace().events) == 5
    os.symlink("/etc/passwd", os.path.join(run.folder, "t.zst.2"))
    Run("allocs", 7, folder=run.folder)
    assert len(run.trace("t.zst.3").events) == 7
    assert again.stderr == ""
    deep = Run("allocs", 1, output="a/b%p/c.zst")
    assert os.path.isdir(os.path.join(deep.folder, "a"))


@case("an unwritable target has a substitute")
def an_unwritable_target_has_a_substitute():
    tmp = tempfile.mkdtemp()
    run = Run("allocs", 5, env={"CUTRACE_OUTPUT": "/proc/nowhere/x.%p.zst", "TMPDIR": tmp})
    (name,) = os.listdir(tmp)
    assert re.fullmatch(r"x\.\d+\.zst", name)
    assert run.stderr == f"cutrace: cannot write /proc/nowhere/x.%p.zst: no such folder; writing {tmp}/{name}\n"
    assert len(read_trace.Trace(os.path.join(tmp, name)).events) == 5


@case("secrets stay out")
def secrets_stay_out():
    canary = "cAnArY"
    run = Run("allocs", 5, "--gpu-memory-utilization", "0.9", "--api-key", canary, "--max_model_len=4096",
              "--model", f"/home/{canary}/m", "--dtype", f"/{canary}",
              env={"CUDA_VISIBLE_DEVICES": "0,1", "VLLM_API_KEY": canary, "VLLM_CACHE_ROOT": f"/home/{canary}", "HF_TOKEN": canary,
                   "NCCL_SOCKET_IFNAME": "eth0", "VLLM_HOST_IP": "10.0.0.7", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
                   "MY_NUMBER": "7", "CUTRACE_ENV_ALLOW": "MY_*", "NCCL_COMM_ID": "10.1.2.3:77",
                   "RANK": "3", "LOCAL_RANK": "1", "MY_RANKING": "2", "RANKING": canary})
    trace = run.trace()
    raw = b"".join(body for _, body in read_trace.chunks(trace.data))
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    for word in (canary, "10.0.0.7", "10.1.2.3", os.uname().nodename, boot, boot[:16]):
        assert word.encode() not in raw, word
    assert trace.info["process.argv"] == "--gpu-memory-utilization 0.9 --max_model_len=4096 --dtype", trace.info["process.argv"]
    assert trace.info["process.env.PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert trace.info["process.env.CUDA_VISIBLE_DEVICES"] == "0,1" and trace.info["process.env.MY_NUMBER"] == "7"
    assert trace.info["process.env.NCCL_SOCKET_IFNAME"] == "eth0"
    assert (trace.info["process.env.RANK"], trace.info["process.env.LOCAL_RANK"]) == ("3", "1")
    assert len(trace.info["host.boot_hash"]) == 16
    assert trace.info["host.boot_hash"] == Run("allocs", 5).trace().info["host.boot_hash"]
    full = Run("allocs", 5, "--model", "x y", env={"CUTRACE_ARGV": "full"}).trace()
    assert full.info["process.argv"].endswith("allocs 5 --model x y")
    assert "process.argv" not in Run("allocs", 5, "--dtype", "half", env={"CUTRACE_ARGV": "off"}).trace().info


@case("options are checked and told")
def options_are_checked_and_told():
    run = Run("allocs", 5, env={"CUTRACE_STAKS": "off", "CUTRACE_STACK_DEPTH": "9999", "CUTRACE_COMPRESS": "3"})
    assert sorted(run.stderr.splitlines()) == [
        "cutrace: CUTRACE_STACK_DEPTH=9999 is no valid value, using 1024",
        "cutrace: unknown variable CUTRACE_STAKS (did you mean CUTRACE_STACKS?)"], run.stderr
    trace = run.trace()
    assert {k: v for k, v in trace.info.items() if k.startswith("option.")} == \
        {"option.COMPRESS": "3", "option.TICK_NS": "1"}
    said = Run("nothing", env={"CUTRACE_HELP": "1"}).stderr
    assert "CUTRACE_OUTPUT" in said and "CUTRACE_PRIVATE" in said and "CUTRACE_TICK_NS" not in said, said


NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef void *device;
int nvmlInit_v2(void) { return getenv("NVML_REFUSES") ? 9 : 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, device *d) {
    *d = (device)7L;
    return strcmp(uuid, "GPU-01234567-89ab-cdef-1032-547698badcfe") ? 6 : 0;
}
int nvmlDeviceGetIndex(device d, unsigned *index) { *index = 5; return d != (device)7L; }
int nvmlDeviceGetMemoryInfo(device d, unsigned long long memory[3]) {
    static unsigned long long calls;
    const char *every = getenv("NVML_CHANGES"); /* so many answers are the same */
    memory[0] = 80ull << 30; memory[1] = (10ull << 30) - (every ? calls++ / atoi(every) : 0); memory[2] = 70ull << 30;
    return d != (device)7L;
}
#ifndef LIST
#define LIST nvmlDeviceGetComputeRunningProcesses_v3
#define REST unsigned a, b;
#endif
struct process { unsigned pid; unsigned long long used; REST };
int LIST(device d, unsigned *n, struct process *p) {
    if (getenv("NVML_SLEEPS")) usleep(50000);
    if (getenv("NVML_CLEARS")) memset(p, 0, *n * sizeof *p);
    p[0] = (struct process){.pid = 1, .used = 40ull << 30};
    p[1] = (struct process){.pid = getpid(), .used = 5ull << 30};
    *n = 2;
    return d != (device)7L;
}
"""


def nvml(*flags):
    """A folder with an NVML."""
    folder = tempfile.mkdtemp()
    library = os.path.join(folder, "libnvidia-ml.so.1")
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=NVML.encode(), check=True)
    return folder


@case("processes are read from each version of nvml's function, whatever the size of its entries is")
def processes_are_read_whatever_their_size_is():
    new, old = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses"
    versions = ((new, "unsigned a, b;", True), (new, "unsigned a, b; unsigned long long c;", True), (new, "", True),
                (old + "_v2", "unsigned a, b;", True), (old, "", True), (new, "unsigned long long a[5];", False))
    for name, rest, known in sample(versions, 3):
        library = nvml(f"-DLIST={name}", f"-DREST={rest}")
        for more in ({}, {"NVML_CLEARS": "1"}) if known else ({},):  # (a larger entry would be cleared behind the buffer)
            trace = Run("device", env={"LD_LIBRARY_PATH": library, **more}).trace()
            (pid,) = {int(trace.info["process.pid"])}
            found = {e["pid"]: e["process_bytes"] for e in trace.events if e["op"] == "process"}
            assert found == ({1: 40 << 30, pid: 5 << 30} if known else {}), (name, rest, more, found)
            assert trace.info.get("device.1.nvml_processes_error") == (None if known else "-1"), (name, rest, more)


@case("a reading that differs makes it ask nvml before its time")
def a_reading_that_differs_makes_it_ask_nvml_before_its_time():
    """Who holds what is known soon after it changed, not a second later."""
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        raise Skip("NVML's process numbers are those of another namespace")
    env = {"LD_LIBRARY_PATH": nvml(), "NVML_CHANGES": "2"}  # (free memory is read on both sides of the list)

    second_ns = 1000000000  # its time

    def move():
        events = Run("device-moves", 100, env=env).trace().events
        samples = [e for e in events if e["op"] == "memory-sample"]
        return [[e["t_ns"] for e in samples if bool(e.get("flags", 0) & 1 << 10) == by_nvml] for by_nvml in (False, True)]

    def is_before_its_time(done):
        readings, asked = done
        return len(readings) == 2 and len(asked) > 1 and asked[0] < readings[1] < asked[1] < asked[0] + second_ns

    done = repeat(move, is_before_its_time)  # (the writer thread may have no core for so long that it asks too late)
    assert is_before_its_time(done), done


@case("what nvml says has the time at which it was so; if free memory changes meanwhile, what this process has is not known")
def what_nvml_says_has_the_time_at_which_it_was_so():
    folder = nvml()
    for changes in {}, {"NVML_CHANGES": "1"}:
        trace = Run("device", env={"LD_LIBRARY_PATH": folder, "NVML_SLEEPS": "1", **changes}).trace()
        sample = next(e for e in trace.events if e["op"] == "memory-sample")
        listed = next(e for e in trace.events if e["op"] == "process")
        apart = (listed["t_ns"] - sample["t_ns"]) / 1e6
        known = not changes and os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
        assert changes or apart > 49, apart  # the list took so long; the reading was before it
        assert (sample.get("process_bytes") is not None) == known, sample


@case("memory is sampled through nvml")
def memory_is_sampled_through_nvml():
    folder = nvml()
    # (A failing call waits 100 ms for the writer thread; after that only what has changed is recorded.)
    run, trace = repeat(lambda: run_and_read("device", env={"LD_LIBRARY_PATH": folder}),
                        lambda done: sum(e["op"] == "memory-sample" for e in done[1].events) > 1)
    trusted = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    samples = [e for e in trace.events if e["op"] == "memory-sample"]
    failed = next(e for e in trace.events if e.get("result") == 2)
    assert len(samples) == 2 and samples[0]["t_ns"] < failed["t_ns"] < samples[1]["t_ns"], samples  # nothing else has changed
    for e in samples:
        e["t_ns"] = 0
    e = samples[0]
    assert e == samples[1], samples
    assert (e["device"], e["flags"], e["free_bytes"], e["total_bytes"]) == (1, 1 << 10, 10 << 30, 80 << 30)
    assert e["thread"]["name"] == "cutrace"
    assert e.get("process_bytes") == (5 << 30 if trusted else None)
    assert trace.info["device.1.nvml_total_bytes"] == str(80 << 30) and trace.info["device.1.nvml_index"] == "5"
    # NVML saw 65 GiB of others, and still does; 8 GiB were used for the moment of the failure.
    known = " + 2.00 GiB untracked, others 65.00 GiB, 8.00 GiB untracked or of others" if trusted else ", 75.00 GiB untracked or of others"
    assert run.stderr == ("cutrace: GPU 1 out of memory: cudaMalloc of 3.00 GiB failed: free 2.00 GiB of 80.00 GiB, this process 3.00 GiB tracked"
                          f"{known}; run: cutrace-report {run.folder}/t.zst\n"), run.stderr
    for env in ({"CUTRACE_NVML": "0", "LD_LIBRARY_PATH": folder}, {"NVML_REFUSES": "1", "LD_LIBRARY_PATH": folder}, {}):
        run = Run("device", env=env)
        assert not [e for e in run.trace().events if e["op"] == "memory-sample"]
        assert run.stderr.endswith(f"3.00 GiB tracked, 75.00 GiB untracked or of others; run: cutrace-report {run.folder}/t.zst\n"), run.stderr


@case("an idle process costs nothing")
def an_idle_process_costs_nothing():
    word, before, more = Run("idle", 3000 if FULL else 1000).stdout.split()
    assert int(before) > 0 and int(more) == 0, (before, more)


@case("the host's heap is not touched")
def the_host_s_heap_is_not_touched():
    """Calls of malloc and its like while events are recorded, counted by gdb-free means: an interposer."""
    source = r"""
    #include <stddef.h>
    #include <stdio.h>
    #include <unistd.h>
    extern void *__libc_malloc(size_t); extern void *__libc_calloc(size_t, size_t); extern void *__libc_realloc(void *, size_t);
    extern void __libc_free(void *);
    static _Atomic long calls;
    void *malloc(size_t n) { calls++; return __libc_malloc(n); }
    void *calloc(size_t a, size_t b) { calls++; return __libc_calloc(a, b); }
    void *realloc(void *p, size_t n) { calls++; return __libc_realloc(p, n); }
    void free(void *p) { calls++; __libc_free(p); }
    __attribute__((destructor)) static void done(void) {
        char line[64]; int n = snprintf(line, sizeof line, "calls %ld\n", calls); (void)!write(2, line, n); }
    """
    if os.environ.get("SAN"):
        raise Skip("the sanitizer has a heap of its own")
    folder = tempfile.mkdtemp()
    library = os.path.join(folder, "count.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source.encode(), check=True)

    def calls(n):
        run = Run("quiet-allocs", n, env={"LD_PRELOAD": library})
        return int(re.search(r"calls (\d+)", run.stderr)[1])
    few, many = calls(10), calls(30000)
    assert many - few < 20, (few, many)  # the start of the writer thread, which a short run may not see


main()
