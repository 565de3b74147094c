#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random points, of a process or of its whole group: no returned call is lost."""
import itertools
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from death import *  # noqa: E402,F403
from tap import SIM, case, note, repeat, report  # noqa: E402

SMALL = {"CUTRACE_MAX_SIZE": "1M", "CUTRACE_FLUSH_MS": "10", "CUTRACE_STACK_DEPTH": "1", "CUTRACE_FREE_STACKS": "1",
         "CUTRACE_TICK_NS": "1"}  # much on the disk for an event
MEMORY = {"CUTRACE_MEMORY": "1"}
ROUND = 150000  # calls: SMALL has room for 120,000, in memory for twice as many
CUPTI = os.path.join(SIM, "cupti")
# The driver loads the library, and CUPTI shows it the calls.
INJECTED = {"LD_PRELOAD": None, "CUDA_INJECTION64_PATH": LIBRARY, "LD_LIBRARY_PATH": f"{CUPTI}:{SIM}"}
OFTEN = {"CUTRACE_FLUSH_MS": "40", "CUTRACE_UPDATE_MS": "10"}  # of chunks that are not complete yet
# name: (arguments of worker, calls at most before the kill, environment, kills of a full run)
CASES = {
    "1 thread, full rate": ("worker 1 0 64 0", 12000, {}, 20),
    "2 threads, full rate": ("worker 2 0 64 0", 12000, {}, 24),
    "8 threads, full rate": ("worker 8 0 64 0", 12000, {}, 24),
    "1 thread, 1 call a millisecond": ("worker 1 1000 64 0", 300, {}, 8),
    "2 threads, 1 call a millisecond": ("worker 2 1000 64 0", 300, {}, 8),
    "8 threads, 1 call a millisecond": ("worker 8 1000 64 0", 1200, {}, 8),
    "chunks all the time": ("worker 2 20 64 0", 8000, {"CUTRACE_FLUSH_MS": "10"}, 16),
    "provisional chunks all the time": ("worker 2 200 64 0", 3000, OFTEN, 16),
    "many chunks, rings that go round": ("worker 2 0 64 0", 80000 if FULL else 20000, {"CUTRACE_STACKS": "off"}, 4),
    "calls of all kinds": ("random", 6000, {}, 8),
    "a group of processes": ("group 2 0 64 0", 8000, {}, 8),
    "the file goes round": ("worker 2 0 4000 0", ROUND, SMALL, 3),
    "the file goes round, with provisional chunks":
        ("worker 8 100 4000 0", ROUND, {**SMALL, **OFTEN, "CUTRACE_STACKS": "off"}, 3),
    "checkpoints of many allocations": ("worker 2 0 20000 0", ROUND, SMALL, 3),
    "checkpoints with sums only": ("worker 2 0 30000 0", ROUND, SMALL, 3),
    "in memory": ("worker 2 0 64 0", 12000, {**MEMORY, "CUTRACE_FLUSH_MS": "10"}, 16),
    "in memory, nothing is written": ("worker 8 10 64 0", 12000, {**MEMORY, "WORKER_REFUSALS": "0"}, 8),
    "in memory, which goes round": ("worker 2 0 4000 0", 2 * ROUND, {**SMALL, **MEMORY, "WORKER_REFUSALS": "0"}, 3),
    "in memory, which goes round and is written now and then":
        ("worker 2 0 4000 0", 2 * ROUND, {**SMALL, **MEMORY, "WORKER_REFUSALS": "20000"}, 3),
    **{f"8 new threads {how}": ("worker 8 0 64 0", 12000, {"WORKER_LEAVES": what}, 40)
       for what, how in (("files", "after all descriptors were closed"), ("root", "after chroot"), ("user", "after setuid"))
       if what == "files" or os.geteuid() == 0},
    "in memory, a group of processes": ("group 2 0 64 0", 8000, MEMORY, 4),
    **({"injected alone": ("worker 2 0 64 0", 12000, INJECTED, 40)} if os.path.exists(CUPTI + "/libcupti.so.13") else {}),
}


def command_of(words, seed):
    name, *arguments = words.split()
    if name == "random":
        return [os.path.join(BUILD, "tests/interception/random_calls"), str(seed), "100000", "20", "2"]
    if name == "group":  # a parent without CUDA
        worker = " ".join([program("worker"), *arguments, str(seed)])
        return ["sh", "-c", 4 * f"{worker} & " + "wait"]
    return [program(name), *arguments, str(seed)]


def is_readable(path):
    """Else it was killed before it recorded anything, which the judge has checked."""
    return subprocess.run([REPORT, "info", path], capture_output=True).returncode == 0


def sealed(path):
    """A copy that was sealed says what trace and journal say together."""
    where = os.path.join(os.path.dirname(path), "sealed")
    os.makedirs(where, exist_ok=True)
    for f in (path, path + ".journal"):
        if os.path.exists(f):
            shutil.copy(f, where)
    copy = os.path.join(where, os.path.basename(path))
    r = subprocess.run([REPORT, "copy", "--seal", copy], capture_output=True, text=True)
    if r.returncode:
        return [f"seal: exit {r.returncode}: {r.stderr.strip()[-500:]}"]
    texts = [subprocess.run([REPORT, "dump", "--json", p], capture_output=True, check=False).stdout for p in (path, copy)]
    out = accepted(copy)
    if os.path.exists(copy + ".journal"):
        out.append("seal left the journal")
    return out + ([] if texts[0] == texts[1] else ["the sealed trace says something else than trace and journal"])


def went_round(path):
    """Whether the first events have been overwritten."""
    said_ = report("info", "--json", path)[1]
    return re.search(rb'"wrapped": ?true', said_) is not None


def kill_once(task):
    """One life and death. Returns the problems, how many calls there were, and whether the file had gone round."""
    words, most, env, seed, late, where = task
    rng = dice(seed)
    os.makedirs(where)
    adopt()
    p = start(where, *command_of(words, rng.randrange(1 << 30)), env=env)
    # As many early deaths as late ones.
    n = int(most ** rng.random()) if rng.random() < 0.6 else rng.randrange(most)
    if "CUTRACE_MAX_SIZE" in env:  # one at least when the file has gone round for sure
        n = most if late else most // 2 + n // 2
    wait_for_calls(where, p, n)
    time.sleep(rng.random() * 0.003)
    group = words.startswith("group") or rng.random() < 0.5
    status = kill(p, group)
    problems = [] if status == -9 else [f"exit status {status}: {said(where)[-500:]}"]
    if said(where):
        problems.append(f"on stderr: {said(where)[:300]}")
    problems += whole(where, killed=True, may_wrap="CUTRACE_MAX_SIZE" in env)
    if seed % 4 == 0 and n > 100 and not problems:
        problems += [x for path in traces(where).values() if is_readable(path) for x in sealed(path)]
    made, turned = calls_so_far(where), sum(went_round(path) for path in traces(where).values())
    if problems and os.environ.get("WAYS_KEEP"):
        problems.append(f"kept: {where}")
    else:
        remove(where)
    return [f"kill at {n}, seed {seed}: {x}" for x in problems], made, turned


def kill_safely(task):
    """No exception ends the pool, whose other processes would leave their workers behind."""
    try:
        return kill_once(task)
    except Exception as e:  # a case that could not be judged
        for ledger in ledgers(task[-1]):
            try:
                os.killpg(os.getpgid(ledger), 9)
            except OSError:
                pass
        return [f"{type(e).__name__}: {e}"], 0, 0


def kill_undisturbed(task):
    """A life that lost no events, if one of five does (death.undisturbed says why it may): one of many would have the case repeated."""
    *how, where = task
    number = itertools.count()
    return repeat(lambda: kill_safely((*how, f"{where}.{next(number)}")), lambda done: not judge.has_losses(done[0]))


def campaign(name):
    words, most, env, many = CASES[name]
    rng = dice(list(CASES).index(name))
    n = many if FULL else 1
    base = folder()
    tasks = [(words, most, env, rng.randrange(1 << 30), i == 0, os.path.join(base, str(i))) for i in range(n)]
    with multiprocessing.Pool(min(n, os.cpu_count() or 1)) as pool:
        done = list(pool.imap_unordered(kill_undisturbed, tasks))
    turned = sum(t for _, _, t in done)
    note(f"{name}: {n} kills, {sum(made for _, made, _ in done)} calls" + (f", {turned} files had gone round" if turned else ""))
    bad = [x for problems, _, _ in done for x in problems]
    if "CUTRACE_MAX_SIZE" in env and not turned:
        bad.append("no file went round: nothing was tested")
    return bad[:8] + ([f"... {len(bad)} in all, in {sum(1 for x, _, _ in done if x)} of {n} kills"] if bad else [])


ROUNDS = {name for name, (_, _, env, _) in CASES.items() if "CUTRACE_MAX_SIZE" in env}
KEPT = {name for name in ROUNDS if "CUTRACE_MEMORY" in CASES[name][2]}
for _name in [*(n for n in CASES if n not in ROUNDS), *sample(sorted(ROUNDS - KEPT), 1), *sample(sorted(KEPT), 1)]:
    case(f"killed: {_name}")(lambda name=_name: campaign(name))

end()
