#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace.h: what a program says of itself is in its trace, in order, and costs nothing where nothing listens. The truth is
what tests/interception/annotates.c does, and what a second reader (tests/lib/read_trace.py) finds."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import read_trace  # noqa: E402
from tap import case, check, equal, main, report  # noqa: E402
from ways import *  # noqa: E402,F403

WORDS = ("mark", "range-push", "range-pop", "range-start", "range-end", "suballoc", "subfree")


def said(trace):
    """(op, name, ...) of the events that matter, of the only trace, as dump has them."""
    out = []
    for line in report("dump", trace, "--json")[1].decode().splitlines():
        e = json.loads(line)
        if e["op"] in WORDS:
            out.append((e["op"], e["text"]))
        elif e["op"] == "alloc":
            out.append(("alloc", e["bytes"]))
    return out


def trace_of(done):
    (path,) = done.traces.values()
    return path


@case("marks, ranges and sub-allocations are events, in the order of the program; ranges that began before the first CUDA "
      "call are there, marks before it are counted")
def everything():
    done = run("annotates", "everything")
    mib = 1 << 20
    equal(said(trace_of(done)), [
        ("range-push", "outer"), ("alloc", mib), ("suballoc", "arena"), ("range-push", "inner"), ("alloc", 2 * mib), ("mark", "here"),
        ("range-pop", None), ("subfree", "arena"), ("range-pop", None), ("alloc", 3 * mib), ("range-pop", None)])
    info = done.info()["info"]
    equal((info["annotations.calls"], info["annotations.early"]), ("11", "1"))
    second = [(e["op"], e.get("text")) for e in read_trace.Trace(trace_of(done)).events if e["op"] in WORDS]
    equal(second, [e for e in said(trace_of(done)) if e[0] in WORDS], "the second reader")
    return good(done) + same_as_without(done, "annotates", "everything")


@case("no annotation changes errno, before the first CUDA call and behind it, and where no trace can be written")
def errnos():
    done = run("annotates", "errno")
    equal([line for line in done.out.splitlines() if "errno" in line], [])
    equal(said(trace_of(done)), [("mark", "a"), ("range-push", "b"), ("suballoc", "c"), ("subfree", "c"), ("range-pop", None)])
    refused = run("annotates", "errno", env={"CUTRACE_OUTPUT": "/proc/nowhere/trace.zst", "TMPDIR": "/nonexistent"})
    equal([line for line in refused.out.splitlines() if "errno" in line], [])
    return good(done) + same_as_without(done, "annotates", "errno")


@case("CUTRACE_PRIVATE=1: the same events without names")
def private():
    done = run("annotates", "everything", env={"CUTRACE_PRIVATE": "1"})
    equal([op for op, text in said(trace_of(done)) if op in WORDS and text is None],
          ["range-push", "suballoc", "range-push", "mark", "range-pop", "subfree", "range-pop", "range-pop"])
    return good(done)


@case("hostile names: NULL, empty, control characters, no UTF-8, 600 bytes, 25000 different ones; 100000 nested ranges")
def hostile():
    done = run_undisturbed("annotates", "hostile")
    events = said(trace_of(done))
    names = [text for op, text in events if op == "mark"]
    equal(len(names), 5 + 20000 + 5000)
    equal(names[0], None)
    equal(names[3], "x" * 200)
    equal(names[4], "\u20ac" * 66)
    steps = names[5:20005]
    exact = [i for i, name in enumerate(steps) if name == f"step {i} of 20000"]
    check(exact == list(range(len(exact))) and len(exact) > 2000, f"{len(exact)} names are exact")
    equal(set(steps[len(exact):]), {"step # of #"})
    letters = ["".join(chr(97 + n) for n in (i % 26, i // 26 % 26, i // 676)) for i in range(5000)]
    kept = [got == want for got, want in zip(names[20005:], letters)]
    check(sum(kept) > 500 and all(kept[:sum(kept)]), "names without digits are exact until the table is full")
    equal(set(names[20005 + sum(kept):]), {"(too many different names)"})
    equal([op for op, _ in events].count("range-push"), 100000)
    equal([op for op, _ in events].count("range-pop"), 100000)
    code, out, err = report("dump", trace_of(done))
    check(code == 0 and b"\x1b[31m" not in out, err)
    return good(done) + same_as_without(done, "annotates", "hostile")


@case("ranges of four threads nest for each by itself")
def threads():
    done = run("annotates", "threads")
    stacks, names = {}, {}
    for line in report("dump", trace_of(done), "--json")[1].decode().splitlines():
        e = json.loads(line)
        stack = stacks.setdefault(e["tid"], [])
        if e["op"] == "range-push":
            stack.append(e["text"])
        elif e["op"] == "range-pop":
            stack.pop()
        elif e["op"] == "alloc":
            names.setdefault(stack[0], []).append(stack[1:])
    equal(set(names), {"t0", "t1", "t2", "t3"})
    equal([x for calls in names.values() for x in calls], [["step"]] * 800)
    check(not any(stacks.values()), stacks)
    return good(done)


@case("a forked child's trace begins inside the ranges of its parent, which has none itself")
def forks():
    done = run("annotates", "forks")
    equal(said(trace_of(done)), [("range-push", "parent"), ("range-push", "child"), ("alloc", 1 << 20), ("range-pop", None),
                                 ("range-pop", None)])
    return good(done)


@case("of 70 ranges that are open at the first CUDA call, in the process or in a forked child, 64 are kept: only these have ends")
def deep():
    mib, problems = 1 << 20, []
    for how in ("deep", "deep-fork"):
        done = run("annotates", how)
        equal(said(trace_of(done)), [("range-push", f"d{i}") for i in range(64)] + [("alloc", mib), ("range-push", "behind"), ("range-pop", None)] +
              [("range-pop", None)] * 64 + [("alloc", 2 * mib)], how)
        equal(done.info()["info"]["annotations.early"], "6", how)
        problems += good(done)
    return problems


@case("a program that annotates itself and never uses CUDA leaves no trace")
def none():
    done = run("annotates", "none")
    equal((done.rc, done.traces), (0, {}))


@case("after the file went round, and after SIGKILL, the range that is still open is known, and the last mark is there")
def goes_round():
    problems = []
    for how in ("round", "killed"):
        done = run("annotates", how, env={"CUTRACE_MAX_SIZE": "1M", "CUTRACE_NVML": 0, "CUTRACE_STACKS": "off", "SIM_LEDGER": None})
        trace = trace_of(done)
        lines = report("dump", trace)[1].decode().splitlines()
        if lines[0].split()[0] == "0":
            problems.append(f"{how}: nothing was overwritten")
        equal([line.split()[-1] for line in lines if "cutrace_mark" in line], ["last"], how)
        if "all the time" not in checkpoint_ranges(trace):
            problems.append(f"{how}: no checkpoint of the trace has the range that is open")
    return problems


def checkpoint_ranges(path):
    """Names of the ranges in the checkpoints of a trace that is sealed, by FORMAT.md."""
    subprocess.run([REPORT, "copy", "--seal", path], check=False, capture_output=True)
    with open(path, "rb") as f:
        found = read_trace.chunks(f.read())
    names, strings = [], {}
    for head, raw in found:
        if head["dict_seq"] == head["seq"]:
            strings = {}
        body = read_trace.Cursor(raw)
        while body.more():
            kind, section = body.varint(), read_trace.Cursor(body.take(body.u32()))
            while kind == 2 and section.more():
                number = section.varint()
                strings[number] = section.text().decode("utf-8", "replace")
            if kind == 8:
                section.varint()
                for e in read_trace.events_of(section):
                    if e["op"] == "range-push":
                        names.append(strings.get(e.get("text")))
    return names


@case("without the library each call is one load and a branch; nothing has to be linked, in C and C++, position-independent or "
      "not, shared or static")
def costs():
    where = folder()
    source = os.path.join(where, "one.c")
    with open(source, "w", encoding="ascii") as f:
        f.write('#include <cutrace/cutrace.h>\nvoid f(const char *n);\nvoid f(const char *n) { cutrace_mark(n); }\n'
                'int main(void) { f("x"); cutrace_range_push("y"); cutrace_range_pop(); cutrace_pool_alloc("p", "", 1);\n'
                'cutrace_pool_free("p", ""); return 0; }\n')
    include = ["-I" + os.path.join(ROOT, "include"), "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    problems = []
    for compiler in (["gcc", "-std=c99"], ["gcc", "-std=c99", "-fPIC", "-pie"], ["gcc", "-no-pie", "-fno-pie"], ["gcc", "-static"],
                     ["g++", "-x", "c++", "-std=c++11"], ["g++", "-x", "c++", "-std=c++20", "-no-pie", "-fno-pie"]):
        program_ = os.path.join(where, "one")
        made = subprocess.run([*compiler, *include, source, "-o", program_], capture_output=True, text=True, check=False)
        if made.returncode or made.stderr:
            problems.append(f"{' '.join(compiler)}: {made.stderr}")
        elif subprocess.run([program_], check=False).returncode:
            problems.append(f"{' '.join(compiler)}: the program fails")
    if os.uname().machine == "x86_64":
        subprocess.run(["gcc", *include, "-c", source, "-o", source + ".o"], check=True)
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=f", source + ".o"], capture_output=True,
                              text=True, check=True).stdout
        code = re.findall(r"^\s+[0-9a-f]+:\s+(\S+)", text, re.M)
        straight = [x for x in code[:code.index("ret") + 1] if not x.startswith(("nop", "endbr"))]
        if straight != ["mov", "test", "jne", "ret"]:
            problems.append(f"more than a load and a branch: {straight}\n{text}")
    return problems


@case("with the library and CUTRACE=0 each call goes on into one load and a branch of the library, before any name is looked at")
def costs_when_off():
    if os.uname().machine != "x86_64":
        return []
    problems = []
    for name in ("mark", "range_push", "range_pop", "pool_alloc", "pool_free"):
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble=cutrace_{name}", LIBRARY], capture_output=True,
                              text=True, check=True).stdout
        code = re.findall(r"^\s+[0-9a-f]+:\s+(\S+)(.*)", text, re.M)
        straight = [x for x, _ in code if not x.startswith(("nop", "endbr", "data16", "cs"))][:4]
        # (how the compiler loads, compares and arranges the two ways)
        if "call" in straight or "ret" not in [x[:3] for x in straight] or not any(x.startswith("j") for x in straight):
            problems.append(f"{name}: more than a load and a branch: {straight}\n{text}")
        if "ct_tracing_decision" not in code[0][1] + code[1][1]:
            problems.append(f"{name}: asks something else first: {text}")
    off = run("annotates", "everything", env={"CUTRACE": 0})
    return problems + same_as_without(off, "annotates", "everything") + ([f"{off.traces}"] if off.traces else [])


@case("the recipe for Python in cutrace.h works, with the library and without")
def recipe():
    with open(os.path.join(ROOT, "include/cutrace/cutrace.h"), encoding="utf-8") as f:
        text = f.read()
    lines = re.search(r"From Python, without this header:\n//\n((?://   .*\n)+)", text).group(1)
    code = re.sub(r"^//   ", "", lines, flags=re.M)
    check(len(code.splitlines()) <= 10, "ten lines")
    code += ('import os\ncuda = ctypes.CDLL("libcuda.so.1")\nwith cutrace_range("from Python"):\n'
             "    c, p = ctypes.c_void_p(), ctypes.c_void_p()\n    cuda.cuInit(0)\n"
             "    cuda.cuCtxCreate_v2(ctypes.byref(c), 0, 0)\n    print(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096)))\n")
    done = run(sys.executable, "-c", code)
    equal(said(trace_of(done)), [("range-push", "from Python"), ("alloc", 4096), ("range-pop", None)])
    return good(done) + same_as_without(done, sys.executable, "-c", code)


main()
