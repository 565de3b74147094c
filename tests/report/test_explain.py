#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`explain`: the scenario of a text, against what the text was written to be (texts/texts.py) and against what the runs of
real vLLM were (vllm/*/case.json). Its figures are those that were put into the text."""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
sys.path.insert(0, os.path.join(HERE, "texts"))
import damage  # noqa: E402
import texts  # noqa: E402
from programs import SHAPES  # noqa: E402
from shapes import GIB, MIB, Full, asynchronous, new, old, size  # noqa: E402
from tap import REPORT, ROOT, case, check, dice, equal, main, note, read_json, report, sample  # noqa: E402

LOGS = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/log.txt")))
UNKNOWN = ("unknown", "incomplete")


def explain(data, *more):
    code, out, err = report("explain", "--json", *more, "-", data=data)
    equal((code, err), (0, b""))
    return json.loads(out)


def judge(aside):
    """Counts right, unknown and wrong first verdicts of a part of the texts."""
    count, wrong = collections.Counter(), []
    for name, scenario, source, data in texts.TEXTS:
        if texts.is_kept_aside(name) != aside:
            continue
        first = explain(data)["verdicts"][0]["scenario"]
        result = "right" if first == scenario else "unknown" if first in UNKNOWN else "wrong"
        count[result] += 1
        if result != "right":
            wrong.append(f"{name}: {first}, not {scenario} ({source})")
    return count, wrong


def share(count, key):
    return count[key] / sum(count.values())


@case("texts that the rules were written with: the scenario that the text is of is the first")
def in_sample():
    count, wrong = judge(False)
    check(sum(count.values()) >= 300, count)
    equal(wrong, [])
    return str(dict(count))


@case("texts that were kept aside while the rules were written: the same")
def out_of_sample():
    count, wrong = judge(True)
    check(sum(count.values()) >= 150, count)
    check(share(count, "right") >= 0.95 and share(count, "wrong") <= 0.01, "\n".join(wrong))
    return str(dict(count))


@case("every shape, damage and scenario is there; a healthy log never has a problem")
def all_shapes():
    names = {n for t in texts.TEXTS if "@" in t[0] for n in t[0].split("@")[1].split("+")}
    equal(names, {d.__name__ for d in damage.ALL})
    check(len(texts.TEXTS) >= 150)
    for name, scenario, _, data in texts.TEXTS:
        if scenario == "none":
            equal([v["scenario"] for v in explain(data)["verdicts"]], ["none"], name)


@case("the logs of real vLLM: the scenario that each run was made to be, as far as its log shows that")
def golden():
    problems = []
    for log in LOGS:
        with open(os.path.join(os.path.dirname(log), "case.json"), encoding="utf-8") as f:
            run = json.load(f)
        got = [v["scenario"] for v in json.loads(read_json("explain", log))["verdicts"]]
        # (that a tensor of the program's own was in the way, only a trace shows)
        want = "burst-prefill" if run["name"].startswith("ballast") else run["log_scenario"] or run["scenario"]
        if got[0] != want:
            problems.append(f"{log}: {got}, not {want}")
    check(len(LOGS) >= 37)
    return problems


@case("the figures of a log are those that its lines have, by regular expressions")
def figures_of_logs():
    patterns = {"weights_bytes": r"Model loading took ([\d.]+) GiB", "kv_cache_tokens": r"KV cache size: ([\d,]+) tokens",
                "kv_cache_bytes": r"Available KV cache memory: (-?[\d.]+) GiB"}
    problems = []
    for log in LOGS:
        with open(log, encoding="utf-8") as f:
            text = f.read()
        got = json.loads(read_json("explain", log))["log"]
        equal(got["lines"], text.count("\n") + (not text.endswith("\n")))
        equal(got["text_bytes"], len(text.encode()))
        for key, pattern in patterns.items():
            found = re.search(pattern, text)
            if not found:
                continue
            value = float(found[1].replace(",", ""))
            want = value * GIB if key.endswith("bytes") else value
            if abs(got["start"][key] - want) > 1:
                problems.append(f"{log}: {key} is {got['start'][key]}, the line says {found[0]}")
    return problems


@case("sizes are read as they are printed, in every version's message and after every damage")
def sizes():
    problems = []
    for i in range(60):
        rng = dice(i)
        f = Full(rng, tried=rng.randrange(1, 400 * MIB))
        for text in (old(f, "cached"), old(f, hint=True), new(f), new(f, own="pid"), asynchronous(f)):
            name = rng.choice([d.__name__ for d in damage.ALL if d.__name__ not in ("newest_first", "with_control")])
            number, unit = size(f.tried).split()
            want = float(number) * {"bytes": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB}[unit]
            found = explain(damage.apply(text, [name], i).encode())["verdicts"][0]["evidence"][0]["bytes"]
            if found is None or abs(found - want) > 1:
                problems.append(f"{name}: {found}, not {want}: {text[:150]}")
    return problems


@case("a number that a terminal broke is read, at whatever letter it broke; one of two short lines is not")
def broken_numbers():
    f = Full(dice(7), tried=1234 * MIB // 8)
    text = new(f)
    first = text.index("allocate ") + len("allocate ")
    for at in range(first + 1, first + len(size(f.tried))):
        said = explain((text[:at] + "\n" + text[at:]).encode())["verdicts"][0]["evidence"][0]["bytes"]
        check(abs(said - 1234 * MIB // 8) <= MIB // 100, (at, said))
    short = explain(b"Tried\nRuntimeError: CUDA out of memory. Tried to\nallocate 1\n54.25 MiB.")
    equal(short["verdicts"][0]["evidence"][0]["bytes"], None)


@case("in a message, reserved but unallocated memory alone is no fragmentation, and a lone process no stranger")
def naive_rules():
    for i in range(40):
        rng = dice(i)
        f = Full(rng, tried=rng.choice([2, 20, 140]) * MIB, total=79.15 * GIB)
        f.idle = f.tried * rng.uniform(1, 4)
        for own in ("this", "pid"):
            got = {v["scenario"] for v in explain(new(f, own=own).encode())["verdicts"]}
            check(not got & {"fragmentation", "co-tenant"}, (own, got))


@case("nothing that is printed has a control character of the input, and all of it fits the width")
def harmless():
    rng = dice(1)
    evil = "".join(chr(rng.randrange(32)) for _ in range(200)) + "\x1b]0;title\x07\x1b[31m\u202e"
    for _, _, _, data in texts.TEXTS[::9]:
        at = rng.randrange(len(data) + 1)
        for columns in (80, 160):
            code, out, _ = report("explain", "-", data=data[:at] + evil.encode() + data[at:], columns=columns)
            equal(code, 0)
            text = out.decode()
            check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", text), repr(text))
            check(all(len(line) <= columns for line in text.splitlines()), text)


@case("a trace from a pipe, from standard input and by its name gives the same verdicts; a pipe given by name, too")
def trace_from_a_pipe():
    trace = os.path.join(ROOT, "tests/report/vllm/warm-up-sampler/trace.zst")

    def verdicts(run):
        return {k: v for k, v in json.loads(run[1]).items() if k not in ("trace", "file")}
    with open(trace, "rb") as f:
        data = f.read()
    by_name = report("explain", "--json", trace)
    equal(by_name[0], 0)
    equal(verdicts(report("explain", "--json", "-", data=data)), verdicts(by_name))
    with open(trace, "rb") as f:
        done = subprocess.run([REPORT, "explain", "--json", "-"], stdin=f, stdout=subprocess.PIPE, check=True)
    equal(verdicts((0, done.stdout)), verdicts(by_name))
    ours, theirs = os.pipe()
    writer = threading.Thread(target=lambda: (os.write(theirs, data), os.close(theirs)))
    writer.start()
    done = subprocess.run([REPORT, "explain", "--json", f"/dev/fd/{ours}"], pass_fds=[ours], stdout=subprocess.PIPE, check=True)
    writer.join()
    os.close(ours)
    equal(verdicts((0, done.stdout)), verdicts(by_name))
    code, out, err = report("explain", "-", data=data[:5000])  # a part of a trace: what can be said of it, and that it is one
    equal(code, report("summary", "-", data=data[:5000])[0], (out, err))


@case("an empty text is too little evidence, a text without a known line is none of a known kind")
def empty_texts():
    for data, scenario in ((b"", "incomplete"), (b"\n", "unknown"), (b"hello\n", "unknown")):
        code, out, _ = report("explain", "--json", "-", data=data)
        equal((code, [v["scenario"] for v in json.loads(out)["verdicts"]]), (0, [scenario]))


@case("a message's figures: what is outside of the pool, what is free although it was refused, and what a request of the longest length lacks")
def figures():
    def said(name, text=""):
        text = text or next(t for n, _, _, t in SHAPES if n == name)
        first = json.loads(report("explain", "--json", "-", data=text.encode())[1])["verdicts"][0]
        return " ".join(e["text"] for e in first["evidence"]), first

    # 15.90 - 890.75 MiB - 1.02 GiB, as the message has it
    check("14.01 GiB of the device is outside" in said("outside-pool")[0], said("outside-pool"))
    check("gave memory back" in said("free-enough")[0] and "a larger page file" in said("free-enough")[0], said("free-enough"))
    check("a leak" not in said("free-enough")[0], said("free-enough"))
    # 11.17 - 3.02 - 7.41 GiB - 90.55 MiB: less than what was missing
    check("others held 667.21 MiB at most" in said("cached")[0], said("cached"))
    check("21.50 MiB of 3.94 GiB was free" in said("cut-message")[0], said("cut-message"))
    check("although as many tokens were free" in said("sglang-pages")[1]["summary"], said("sglang-pages"))
    check("Stable Diffusion web UI forward pass" in said("sdnext")[0], said("sdnext"))
    check("something else had filled" in said("nccl-little")[0] and "BUFFSIZE" not in str(said("nccl-little")[1]["advice"]), said("nccl-little"))
    equal([said(name)[1]["scenario"] for name in ("peak-rises", "peak-stays", "comma", "lmdeploy", "errno", "deepspeed-module")],
          ["leak", "incomplete", "host-pinned", "incomplete", "host-memory", "startup-weights"])
    check("lines 1 to 8: from 16.83 GiB to 17.09 GiB, higher in each of 7 lines" in said("peak-rises")[0], said("peak-rises"))
    check("max_split_size_mb" in str(said("no-expandable")[1]["advice"]), said("no-expandable"))
    check("expandable_segments:True" not in str(said("no-expandable")[1]["advice"]), said("no-expandable"))
    # 3.00 GiB hold 24000 tokens; 6000 more are 0.75 GiB, which is 0.04 of 20 GiB
    plan = ("Loading model weights took 12.0000 GB\nMemory profiling results: total_gpu_memory=20.00GiB initial_memory_usage=12.50GiB "
            "peak_torch_memory=14.60GiB memory_usage_post_profile=12.60GiB non_torch_memory=0.40GiB kv_cache_size=3.00GiB "
            "gpu_memory_utilization=0.90\nThe model's max seq len (30000) is larger than the maximum number of tokens that can be stored "
            "in KV cache (24000).")
    advice = {a["flag"]: (a["from"], a["to"]) for a in said("", plan)[1]["advice"] if a["flag"]}
    equal(advice, {"--max-model-len": ("30000", "24000"), "--gpu-memory-utilization": ("0.90", "0.94")})
    check("activations 2.60 GiB" in report("explain", "-", data=plan.encode())[1].decode(), plan)
    nothing = "The model's max seq len (16000) is larger than the maximum number of tokens that can be stored in KV cache (96)."
    check("--max-model-len" not in str(said("", nothing)[1]["advice"]) and "96 tokens" in said("", nothing)[0], said("", nothing))


@case("a line of any length and a text of any length take the same memory")
def memory():
    def peak(make):
        with subprocess.Popen([REPORT, "explain", "--json", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
            for part in make():
                p.stdin.write(part)
            p.stdin.close()
            out = p.stdout.read()
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = status
        equal(status, 0)
        return usage.ru_maxrss, json.loads(out)

    line = b"INFO 05-14 09:30:00 [loggers.py:116] Engine 000: Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 9.1%\n"
    oom = ("\n" + new(Full(dice(3)))).encode()
    small, _ = peak(lambda: [line * 100, oom])
    for make in sample((lambda: [line * 20000] * 15 + [oom], lambda: [b"x" * (1 << 20)] * 40 + [oom],
                        lambda: [b"\n" * (1 << 20)] * 40 + [oom], lambda: [oom * 2000] * 20), 1):
        large, document = peak(make)
        check(large < small + 16384, (small, large))
        check(document["verdicts"][0]["evidence"][0]["bytes"], document)


@case("exit codes: 0 whatever is found, 2 for wrong usage, 3 for what cannot be read; standard input without a file")
def exit_codes():
    equal(report("explain", "/nowhere/log")[0], 3)
    equal(report("explain", "--device=0", "-", data=b"")[0], 2)
    equal(report("explain", data=b"")[0], 0)
    equal(explain(b"")["verdicts"][0]["scenario"], "incomplete")
    code, out, _ = report("explain", "--json", LOGS[0], "/nowhere/log")
    equal((code, json.loads(out)["documents"][1]), (3, None))


@case("SGLang's tokens are read in each of its spellings")
def tokens():
    for word in ("Available tokens", "Avaliable tokens", "Availiable tokens", "Available full tokens"):
        text = f"RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 8192 tokens.\n{word}: 5120\n"
        said = explain(text.encode())["verdicts"][0]["evidence"][0]["text"]
        equal(said, "line 1: 8192 tokens were asked for, 5120 were available", word)


@case("advice names a value only where the text has what it is computed from")
def advice():
    length = explain(b"ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, "
                     b"which is larger than the available KV cache memory (1.83 GiB). Based on the available memory, the "
                     b"estimated maximum model length is 14992.")["verdicts"][0]["advice"]
    equal([(a["flag"], a["from"], a["to"]) for a in length],
          [("--max-model-len", "32768", "14992"), ("--gpu-memory-utilization", None, None)])
    # 0.9 of 40 GiB are 36; 2.17 GiB more and 0.01 for its rounding are 6 hundredths of 40 GiB
    log = (b"INFO 05-14 09:30:00 [w.py:1] non-default args: {'gpu_memory_utilization': 0.9}\n"
           b"INFO 05-14 09:30:00 [w.py:1] the current vLLM instance can use total_gpu_memory (40.00GiB) x "
           b"gpu_memory_utilization (0.90) = 36.00GiB\n")
    wanted = explain(log + b"ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is "
                     b"needed, which is larger than the available KV cache memory (1.83 GiB).")["verdicts"][0]["advice"]
    equal([(a["flag"], a["from"], a["to"]) for a in wanted if "memory" in a["flag"]],
          [("--gpu-memory-utilization", "0.90", "0.96")])


# Options that a server has and the others have not, and what only its own files and lines say.
OPTIONS = {"vLLM": {"--gpu-memory-utilization", "--kv-cache-memory-bytes", "--max-num-batched-tokens", "--max-num-seqs",
                    "--enforce-eager", "--max-model-len", "--limit-mm-per-prompt", "--swap-space"},
           "SGLang": {"--mem-fraction-static", "--chunked-prefill-size", "--max-running-requests", "--cuda-graph-max-bs",
                      "--disable-cuda-graph"},
           "TGI": {"--cuda-memory-fraction", "--max-batch-prefill-tokens", "--num-shard", "--quantize", "--cuda-graphs"}}
FULL = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 592.00 MiB. GPU 0 has a total capacity of 44.40 GiB of "
        "which 431.31 MiB is free. Including non-PyTorch memory, this process has 43.97 GiB memory in use. Of the allocated "
        "memory 36.12 GiB is allocated by PyTorch, and 11.10 MiB is reserved by PyTorch but unallocated.")
SGLANG = "/sgl-workspace/sglang/python/sglang/srt"
OF_PROGRAMS = [  # program, scenario, frames (file, function), line behind the error
    ("vLLM", "graph-capture", [("/x/vllm/v1/worker/gpu_model_runner.py", "capture_model")], ""),
    ("vLLM", "startup-weights", [("/x/vllm/v1/worker/gpu_worker.py", "load_model")], ""),
    ("SGLang", "graph-capture", [(SGLANG + "/model_executor/cuda_graph_runner.py", "capture_one_batch_size")],
     "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 592.00 MiB."),
    ("SGLang", "graph-capture", [(SGLANG + "/model_executor/cuda_graph_runner.py", "capture_one_batch_size"),
                                 ("/x/vllm/model_executor/layers/linear.py", "forward")], ""),
    ("SGLang", "burst-prefill", [(SGLANG + "/managers/scheduler.py", "run_batch")], ""),
    ("SGLang", "startup-weights", [(SGLANG + "/model_executor/model_runner.py", "load_model")], ""),
    ("SGLang", "preemption", None, "KV cache pool is full. Retract requests. #retracted_reqs: 3"),
    ("TGI", "startup-profile", [("/x/text_generation_server/models/flash_causal_lm.py", "warmup")], ""),
    ("TGI", "burst-prefill", [("/x/text_generation_server/models/flash_causal_lm.py", "generate_token")], ""),
    ("none", "startup-weights", [("/x/transformers/modeling_utils.py", "from_pretrained")], ""),
    ("none", "mis-budget", [("/x/transformers/generation/utils.py", "generate")], ""),
    ("none", "incomplete", None, "CUDA runtime error in ::cudaMallocAsync(ptr, n, mMemPool->getPool(), stream): out of memory"),
    ("none", "training-step", [("/x/torch/_tensor.py", "backward")], ""),
    ("none", "mis-budget", [], ""),
    ("none", "host-pinned", [("/x/torch/_tensor.py", "pin_memory")], "")]


@case("advice names options of the program that failed, and of none that it is not")
def of_program():
    for program, scenario, frames, behind in OF_PROGRAMS:
        lines = [line for path, name in frames or () for line in (f'  File "{path}", line 9, in {name}', "    x = y")]
        full = FULL if scenario == "mis-budget" else FULL.replace("memory 36.12", "memory 43.12")
        text = "\n".join(["Traceback (most recent call last):"] + lines + ([full] if frames is not None else []) + [behind])
        first = explain(text.encode())["verdicts"][0]
        equal(first["scenario"], scenario, text)
        check(first["advice"], text)
        named = {a["flag"] for a in first["advice"] if a["flag"]}
        check(not named & set().union(*(o for p, o in OPTIONS.items() if p != program)), f"{program}: {named}")
        for a in first["advice"]:
            check(not a["versions"] or a["versions"].split()[0] in (program, "torch", "NCCL"), a)
            check(program in OPTIONS or not (a["flag"] or "").startswith("--"), a)
        if program in OPTIONS:
            check({f for f in named if f.startswith("--")}, f"{program}, {scenario}: no option")


@case("a function that any program may have names a phase, and no server")
def of_any_program():
    text = ('Traceback (most recent call last):\n  File "/home/me/chat.py", line 9, in load_model\ntorch.OutOfMemoryError: CUDA out of memory. '
            "Tried to allocate 90.00 MiB.")
    first = explain(text.encode())["verdicts"][0]
    equal(first["scenario"], "startup-weights")
    check("phase by its traceback: PyTorch weight loading" in [e["text"] for e in first["evidence"]], first)


@case("a program of PyTorch's whose file is named after a model is not llama.cpp; what others can have held is the rest of the sums")
def sums():
    said = b"""File "/home/me/llama_recipes/llama_finetuning.py", line 9, in main
RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity; 14.31 GiB already allocated; 597.06 MiB free; 14.41 GiB reserved in total by PyTorch)"""
    out = re.sub(r"\s+", " ", report("explain", "-", data=said)[1].decode())
    check("PyTorch held 14.31 GiB" in out and "llama.cpp" not in out, out)
    check(f"excluded: another process (others held {(15.90 - 14.41) * 1024 - 597.06:.2f} MiB at most)" in out, out)

    def others(used):  # the process and what is free, as newer messages have them
        text = b"OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB. GPU 0 has a total capacity of 14.74 GiB of which 12.12 " \
               b"MiB is free. Process 4207 has " + used + b" GiB memory in use."
        return re.sub(r"\s+", " ", report("explain", "-", data=text)[1].decode())
    check("excluded: another process (others held 0 B at most)" in others(b"14.73"))  # (less than nothing, by the last digits)
    check(f"possible: another process ({(14.74 - 14.50) * 1024 - 12.12:.2f} MiB is outside of this process;" in others(b"14.50"), others(b"14.50"))


@case("of several devices with less free than the server wants, the one with the least decides")
def least_free():
    line = "ValueError: Free memory on device cuda:%d (%s/79.18 GiB) on startup is less than desired GPU memory utilization (0.9, 71.26 GiB)."
    said = "\n".join(line % one for one in ((0, "61.34 GiB"), (3, "60.01 GiB"), (1, "61.00 GiB")))
    first = explain(said.encode())["verdicts"][0]
    equal(first["device"], 3)
    check("line 2: 60.01 GiB of 79.18 GiB was free" in first["evidence"][0]["text"], first["evidence"])


@case("what a hint of the server's says to set is no setting")
def hint():
    said = (b"INFO 05-14 09:30:00 [gpu_model_runner.py:1786] Capturing cudagraphs for decoding. If out-of-memory error occurs during cudagraph "
            b"capture, consider decreasing `gpu_memory_utilization` or set 'enforce_eager=True' or use '--enforce-eager' in the CLI.")
    check("enforce_eager" not in explain(said)["log"]["settings"])
    quotient = b"WARNING: vllm serve: (max_num_batched_tokens / max_num_seqs = 4096) is too short. CUDA out of memory. Tried to allocate 2.00 GiB."
    check("max_num_seqs" not in explain(quotient)["log"]["settings"])


@case("a tensor's shape and type are its size")
def tensor():
    said = b"OOM when allocating tensor with shape[3,128,1024,512] and type half on /job:localhost/device:GPU:0 by allocator GPU_0_bfc"
    (size_,) = [e["bytes"] for e in explain(said)["verdicts"][0]["evidence"] if e["text"].startswith("line 1: asked for")]
    equal(size_, 3 * 128 * 1024 * 512 * 2)


@case("a user of CuPy gets no setting of PyTorch's")
def cupy():
    pool = b"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 70,268,785,920 bytes)."
    library = b"import cupy.cuda\ncupy_backends.cuda.libs.cublas.CUBLASError: CUBLAS_STATUS_ALLOC_FAILED"
    for text in (pool, library):
        out = report("explain", "-", data=text)[1].decode()
        check(not re.search("pytorch|traceback of torch", out, re.I), out)
    check("raise the limit: set_limit of its memory pool" in report("explain", "-", data=b"cupy.cuda.memory.OutOfMemoryError: Out of memory "
          b"allocating 700 bytes (allocated so far: 400 bytes, limit set to: 1,000 bytes).")[1].decode())
    for text, says in ((b"lmdeploy serve api_server /m\nRuntimeError: [TM][ERROR] CUDA runtime error: out of memory", "--cache-max-entry-count"),
                       (b"xgboost/lib/libxgboost.so\nMemory allocation error on worker 0: cudaErrorMemoryAllocation", "QuantileDMatrix")):
        check(says in report("explain", "-", data=text)[1].decode(), says)
    check(f"CuPy held {(12 * GIB - GIB) / GIB:.2f} GiB" in report("explain", "-", data=b"cupy.cuda.memory.OutOfMemoryError: out of memory to "
          b"allocate %d bytes (total %d bytes)" % (GIB, 12 * GIB))[1].decode())  # (with the request)
    check("CuPy held 65.44 GiB" in report("explain", "-", data=pool)[1].decode())


def message(tried, total, free, allocated, idle):
    return (f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of {total} of which "
            f"{free} is free. Of the allocated memory "
            f"{allocated} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated.").encode()


@case("the warm-up of kernels gets no advice about the sampler's rows")
def kernels():
    def flags(*names):
        frames = "".join(f'  File "/x/vllm/v1/worker/gpu_worker.py", line 9, in {n}\n' for n in ("compile_or_warm_up_model",) + names)
        return [a["flag"] for a in explain((frames + FULL.replace("memory 36.12", "memory 43.12")).encode())["verdicts"][0]["advice"]]
    equal(flags("kernel_warmup", "deep_gemm_warmup"), ["--gpu-memory-utilization"])
    equal(flags("_dummy_sampler_run"), ["--max-num-seqs", "--gpu-memory-utilization"])


@case("a size of rows and a vocabulary is the one whose digits it has, not the first that is near")
def vocabularies():
    behind = ("\nRuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering "
              "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.").encode()

    def said(tried):
        first = explain(message(tried, "47.53 GiB", "1.21 GiB", "44.52 GiB", "61.11 MiB") + behind)["verdicts"][0]
        return [e["text"] for e in first["evidence"] if "vocabulary" in e["text"]]
    for vocabulary, size_of in ((151936, 12), (151552, 12), (128256, 12), (128256, 8)):
        mib = -(-1024 * vocabulary * size_of // (2 * MIB)) * 2  # the driver gives steps of 2 MiB
        tried = f"{mib / 1024:.2f} GiB" if mib >= 1024 else f"{mib:.2f} MiB"
        (text,) = said(tried)
        check(f"vocabulary of {vocabulary} x {size_of} B" in text, text)
        if vocabulary != 151552:  # 152064 makes 1.74 GiB, too
            equal("others fit, too" in text, vocabulary == 151936, text)
    equal(said("1.90 GiB"), [])


@case("what is in use and the request exceed the device: that no setting of the allocator helps is said, and only then")
def beyond_the_device():
    def said(*sizes):
        return any("no setting of its allocator" in e["text"] for v in explain(message(*sizes))["verdicts"] for e in v["evidence"])
    equal(said("4.50 GiB", "8.00 GiB", "1.00 GiB", "5.81 GiB", "300.00 MiB"), True)
    equal(said("2.00 GiB", "8.00 GiB", "1.00 GiB", "5.81 GiB", "300.00 MiB"), False)


@case("idle and free memory that together would have been enough: fragmentation is possible, and not the first verdict")
def possible_fragmentation():
    def named(*sizes):
        data = b'  File "/x/torch/_tensor.py", line 9, in backward\n' + message(*sizes)
        return [v["scenario"] for v in explain(data)["verdicts"]]
    equal(named("7.83 GiB", "23.64 GiB", "5.11 GiB", "15.02 GiB", "3.04 GiB"), ["training-step", "fragmentation"])
    equal(named("8.83 GiB", "23.64 GiB", "5.11 GiB", "15.02 GiB", "3.04 GiB"), ["training-step"])
    equal(named("5.83 GiB", "23.64 GiB", "5.11 GiB", "17.12 GiB", "0.94 GiB"), ["training-step"])


@case("that a trace would say more is not said where no memory of the GPU was missing")
def trace_would_add():
    for text, helps in ((FULL, True), ("RuntimeError: CUDA error: an illegal memory access was encountered", False),
                        ("Reason: OOMKilled", False), ("Driver/library version mismatch", False), ("no known line", True)):
        equal("a trace would add" in report("explain", "-", data=text.encode())[1].decode(), helps, text)


@case("the waste of partly filled blocks: as counted one by one, where lengths and the size of a block are known")
def waste():
    text = b"INFO 05-14 09:30:00 [w.py:1] non-default args: {'block_size': 16}\n"

    def said(*options, data=text):
        return explain(data, *options)["log"]["waste"]
    for lengths in ([17], [16], [1, 33, 2048], [5] * 7 + [31]):
        for block in (None, 1, 32, 128):
            size = block or 16
            blocks = [-(-n // size) for n in lengths]
            got = said("--lengths=" + ",".join(map(str, lengths)) + (f"/{block}" if block else ""))
            equal(got, {"lengths_from": "option", "block_tokens": size, "requests": len(lengths), "tokens": sum(lengths), "blocks": sum(blocks),
                        "partly_filled_blocks": sum(n % size != 0 for n in lengths), "empty_tokens": sum(blocks) * size - sum(lengths)})
    equal(said("--lengths=5x7,31"), said("--lengths=5,5,5,5,5,5,5,31"))
    equal(said(), None, "no lengths")
    equal(said("--lengths=17", data=b"x"), None, "no size of a block")
    out = report("explain", "--lengths=17", "-", data=text)[1].decode()
    check("2 blocks of 16 tokens" in out and "93.75 % of it empty" in out and "15 of 32 places" in out, out)
    check("--lengths=17/16" in report("explain", "--lengths=17", "-", data=b"x")[1].decode())
    for wrong in ("", "0", "17,", "x5", "17x", "17x0", "17x2000000", "-5", "1e3", "17;18", "17/", "17/0", "17/x", "17/16,18", "/16", "17/2000000", "99999999999999999999"):
        equal(report("explain", "--lengths=" + wrong, "-", data=text)[0], 2, wrong)
    log = os.path.join(ROOT, "tests/report/vllm/burst-of-prefills/log.txt")
    with open(log, encoding="utf-8") as f:
        steps = f.read()
    lengths = [int(n) for n in re.findall(r"prompt_token_ids_len=(\d+)", steps)]
    got = said(data=text + steps.encode())
    equal((got["lengths_from"], got["requests"], got["tokens"], got["blocks"]),
          ("step", len(lengths), sum(lengths), sum(-(-n // 16) for n in lengths)))
    check(len(lengths) > 5)


@case("evidence names the time that its line has, in each form and behind each tag; none where the line has none")
def times():
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB"
    for prefix, time in (("ERROR 05-14 09:30:01 [core.py:1] ", "05-14 09:30:01"), ("2026-02-24T20:21:58.123Z ", "2026-02-24T20:21:58"),
                         ("[2026-02-24T20:21:58Z] ", "2026-02-24T20:21:58"), ("2026-02-24 20:21:58,999 ", "2026-02-24 20:21:58"),
                         ("\x1b[0;36m(EngineCore_DP0 pid=1)\x1b[0;0m ERROR 05-14 09:30:01 [core.py:1] ", "05-14 09:30:01"),
                         ("vllm-1  | 2026/02/24 20:21:58 ", "2026/02/24 20:21:58"), ("", None), ("ERROR [core.py:1] ", None)):
        data = f"first line\n{prefix}{oom}\n2026-02-24T22:22:22Z later\n".encode()
        line = explain(data)["verdicts"][0]["evidence"][0]["text"]
        equal(line.split(":")[0] if not time else line[:line.index(")") + 1], f"line 2 ({time})" if time else "line 2", prefix)
    for log in LOGS:
        with open(log, encoding="utf-8") as f:
            lines = f.read().split("\n")
        for v in json.loads(read_json("explain", log))["verdicts"]:
            for e in v["evidence"]:
                named = re.match(r"line (\d+)(?: \(([^)]*)\))?", e["text"])
                if named:
                    stamp = re.search(r"(?:INFO|WARNING|ERROR) (\d\d-\d\d \d\d:\d\d:\d\d) ", lines[int(named[1]) - 1])
                    equal(named[2], stamp[1] if stamp else None, log)


@case("no memory for cache blocks: the advice has a value where the log has the figures, else says what it lacks")
def no_blocks():
    def advice(*lines):
        text = "\n".join(lines + ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",))
        return {a["flag"]: a for a in explain(text.encode())["verdicts"][0]["advice"]}
    budget = "the current vLLM instance can use total_gpu_memory (24.00GiB) x gpu_memory_utilization (0.50) = 12.00GiB"
    shares = ("model weights take 10.55GiB; non_torch_memory takes 0.10GiB; PyTorch activation peak memory takes 2.40GiB; "
              "the rest of the memory reserved for KV Cache is -1.05GiB.")
    flags = "INFO 05-14 09:30:00 [w.py:1] non-default args: {'max_num_batched_tokens': 8192}"
    # 1.05 of 24 GiB are 4.4 hundredths; 8192 x (2.40 - 1.05) / 2.40 = 4608, and the figures of the log are rounded
    got = advice(flags, budget, shares)
    # 0.55 leaves room for the first block; how large a request is that must fit is nowhere said.
    equal((got["--gpu-memory-utilization"]["from"], got["--gpu-memory-utilization"]["to"]), ("0.50", None))
    check("at least 0.55" in got["--gpu-memory-utilization"]["text"], got)
    equal(got["--max-num-batched-tokens"]["from"], "8192")
    check(4096 <= int(got["--max-num-batched-tokens"]["to"]) <= 4608, got)
    got = advice("INFO Available KV cache memory: -1.29 GiB")
    equal((got["--gpu-memory-utilization"]["to"], got["--max-num-batched-tokens"]["to"]), (None, None))
    check("1.29 GiB" in got["--gpu-memory-utilization"]["text"] and "how large the device is" in got["--gpu-memory-utilization"]["text"])
    got = advice()
    check("does not say how much is missing" in got["--gpu-memory-utilization"]["text"], got)
    check("does not say" in got["--max-num-batched-tokens"]["text"], got)


@case("an engine that is dead behind a shutdown somebody asked for is no failure; before it, it is one not seen")
def stopped():
    asked = b"(APIServer pid=9) INFO 11-24 02:36:42 [launcher.py:256] [shutdown] API server: shutdown triggered\n"
    dead = b"vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)\n"
    begun = b"(EngineCore pid=7) INFO 11-24 02:30:00 [gpu_worker.py:772] Available KV cache memory: 9.3 GiB\n"
    equal([explain(t)["verdicts"][0]["scenario"] for t in (begun + asked + dead, begun + dead + asked)],
          ["none", "incomplete"])


@case("the kernel's killer is about the host: the figures of the GPU's message beside it are none of its evidence")
def host_beside_gpu():
    gpu = (b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
           b"1.00 GiB is free.\n")
    host = b"Out of memory: Killed process 4711 (python3) total-vm:900kB, anon-rss:800kB, file-rss:0kB, shmem-rss:0kB\n"
    (found,) = (v for v in explain(gpu + host)["verdicts"] if v["scenario"] == "host-memory")
    check(not any("2.00 GiB" in e["text"] or e["bytes"] == 2 << 30 for e in found["evidence"]), found)


note("a third of the shapes (by the hash of the name) was kept aside while the rules were written")
main()
