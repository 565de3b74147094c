#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fit: whether a run would fit on a device of another size, and how far the settings of a vLLM server could go.

Made traces, whose answers follow from the sizes that they were made of, in exact fractions; and the golden traces of
real vLLM, against its log and a second reading of `dump`. (tests/vllm/test_fit.py tries the values with vLLM itself.)"""
import functools
import glob
import json
import math
import os
import re
import sys
from fractions import Fraction

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import vllm_log  # noqa: E402
import vllm_trace  # noqa: E402
from made_process import G, M, OUT_OF_MEMORY, SECOND, Process  # noqa: E402
from mktrace import FIRST_PART, LAST_PART, history  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, dice, equal, main, read_json, report, sample, scratch  # noqa: E402

GOLDEN = os.path.join(ROOT, "tests/report/vllm")


def fit(path, *more):
    return json.loads(read_json("fit", path, *more))


def device_of(path, *more):
    devices = fit(path, *more)["devices"]
    equal(len(devices), 1, "devices")
    return devices[0]


def answers(path, **wanted):
    """What it says to capacities in MiB: {answer: capacities}."""
    for answer, capacities in wanted.items():
        for mib in capacities:
            equal(device_of(path, f"--capacity={mib}MiB")["fits"], answer, f"{mib} MiB")


# ---- any process -----------------------------------------------------------------------------------

@case("what is tracked and what is not: the peak of both together, to the byte")
def peak():
    p = Process(16 * G)
    p.nvml(300 * M)
    a = p.alloc(4 * G)
    p.nvml(500 * M, others=G)
    b = p.alloc(2 * G)
    p.free(a)
    p.free(b)
    p.nvml(700 * M)
    path = p.save("peak")
    d = device_of(path)
    want = {"bytes": 6 * G + 500 * M, "tracked_bytes": 6 * G, "pool_free_bytes": 0, "requested_bytes": 0,
            "untracked_bytes": 500 * M, "untracked_or_others_bytes": 0}
    for key in ("as_recorded", "least"):
        equal({k: d[key][k] for k in want}, want, key)
    equal((d["fits"], d["other_processes_bytes"], d["failed_t_ns"], d["managed_bytes"], d["vllm"]), ("yes", G, None, 0, None))
    need = 6 * 1024 + 500
    answers(path, yes=(need, need + 1), no=(need - 1, 1))


@case("without a reading, that it fits is not known, and that it does not is")
def unread():
    p = Process(16 * G)
    p.alloc(4 * G)
    path = p.save("unread")
    check(not device_of(path)["untracked_known"])
    answers(path, unknown=(4096, 15000), no=(4095,))


@case("memory that may be of other processes: between both figures it is not known")
def undivided():
    p = Process(16 * G)
    p.alloc(4 * G)
    p.reads(3 * G)
    path = p.save("undivided")
    answers(path, yes=(7 * 1024,), unknown=(4096, 7 * 1024 - 1), no=(4095,))


@case("contexts are older than the first reading: they count at a peak before it")
def early():
    p = Process(16 * G)
    a = p.alloc(6 * G)
    p.free(a)
    p.alloc(G)
    p.nvml(500 * M)
    path = p.save("early")
    answers(path, yes=(6 * 1024 + 500,), no=(6 * 1024 + 499,))


@case("what PyTorch's pool has free is given back on a smaller device: between both figures it depends")
def pooled():
    p = Process(16 * G)
    p.nvml(500 * M)
    a = p.alloc(4 * G)
    p.segments += 4 * G
    p.block(a, 4 * G)
    p.unblock(a, 4 * G)
    p.block(a, G)
    b = p.alloc(5 * G)
    p.segments += 5 * G
    p.block(b, 5 * G)
    path = p.save("pooled")
    d = device_of(path)
    equal((d["as_recorded"]["bytes"], d["as_recorded"]["pool_free_bytes"]), (9 * G + 500 * M, 3 * G))
    equal(d["least"]["bytes"], 6 * G + 500 * M)
    answers(path, yes=(9 * 1024 + 500,), depends=(9 * 1024 + 499, 6 * 1024 + 500), no=(6 * 1024 + 499,))


def failing(retried):
    p = Process(8 * G)
    p.nvml(500 * M)
    idle = p.tensor(2 * G)
    p.tensor(5 * G)
    p.unblock(*idle)
    if not retried:
        p.segments -= 2 * G
        p.free(idle[0])
        p.alloc(3 * G, result=OUT_OF_MEMORY, free_bytes=p.total - p.tracked - 500 * M, total_bytes=p.total)
        p.event("block-oom", bytes=3 * G - M, allocated_bytes=p.blocks, reserved_bytes=p.segments)
        return p.save("failing")
    p.alloc(1025 * M, result=OUT_OF_MEMORY, free_bytes=p.total - p.tracked - 500 * M, total_bytes=p.total)
    p.segments -= 2 * G
    p.free(idle[0])
    p.tensor(1025 * M)
    return p.save("repeated")


@case("a request that failed counts with what it asked for; what would have come behind it is not known")
def failed():
    path = failing(False)
    d = device_of(path)
    equal((d["fits"], d["failed_t_ns"] is not None), ("no", True))
    equal((d["as_recorded"]["bytes"], d["as_recorded"]["requested_bytes"]), (8 * G + 500 * M, 3 * G))
    equal(d["least"]["bytes"], 8 * G + 499 * M)
    answers(path, yes=(8 * 1024 + 500,), no=(8 * 1024 + 498,))
    shown = report("fit", "--capacity=10GiB", path)[1].decode()
    check("up to the request that failed" in shown and "is not known" in shown, shown)


@case("settings that nothing bounds: what has them, said once; with a log that has none, that it has none")
def without_settings():
    def said(*words):
        return " ".join(report("fit", *words)[1].decode().split())
    folder = os.path.join(ROOT, "tests/report/vllm/leak")
    alone = said(os.path.join(folder, "trace.zst"))
    equal((alone.count("--log FILE"), alone.count("not known"), alone.count("settings: ")), (1, 1, 1), alone)  # (not known: what would have come behind the failure)
    folder = os.path.join(ROOT, "tests/report/vllm/eager")
    both = said("--log", os.path.join(folder, "log.txt"), os.path.join(folder, "trace.zst"))
    check("neither the trace nor the log has it" in both and "--log FILE" not in both, both)


@case("a request that PyTorch repeated with success is none that failed")
def repeated():
    d = device_of(failing(True))
    equal((d["fits"], d["failed_t_ns"]), ("yes", None))
    equal(d["as_recorded"]["bytes"], 7 * G + 500 * M)


@case("managed memory and a device that shares the host's memory: said, and in no figure")
def elsewhere():
    p = Process(16 * G)
    p.nvml(500 * M)
    p.alloc(G)
    p.alloc(3 * G, space="managed")
    path = p.save("managed")
    d = device_of(path)
    equal((d["as_recorded"]["bytes"], d["managed_bytes"]), (G + 500 * M, 3 * G))
    check("managed" in report("fit", path)[1].decode())
    p = Process(16 * G, **{"device.0.integrated": "1"})
    p.reads(10 * G)
    p.alloc(G)
    answers(p.save("integrated"), unknown=(12 * 1024,), no=(1023,))


@case("where events were overwritten, and more was allocated then, that it fits is not known")
def overwritten():
    p = Process(16 * G)
    p.nvml(500 * M)
    p.free(p.alloc(6 * G))
    kept = p.alloc(G)
    p.t.flush()
    made = p.t.record("alloc", 61 * SECOND, tid=100, device=0, api="cudaMalloc", ptr=kept, bytes=G, space="device", result=0, event=3)
    cells = [(0, 0, 3, 0, {4: (0, 6 * G, G)}), (0, 1, 2, 0, {4: (G, 2 * G, 2 * G)})]
    p.t.restart()
    p.t.info = dict(p.info)
    p.alloc(G)
    p.nvml(500 * M)
    p.t.flush(last=True, checkpoint=(FIRST_PART | LAST_PART, [made]), history=history(50 * SECOND, 10 * SECOND, cells))
    path = scratch("ring.zst", p.t.out[-1])
    d = device_of(path)
    equal((d["overwritten_bytes"], d["as_recorded"]["bytes"]), (6 * G, 2 * G + 500 * M))
    answers(path, unknown=(12 * 1024, 2 * 1024 + 500), no=(2 * 1024 + 499,))
    check("overwritten" in report("fit", path)[1].decode())


@case("a trace that lacks a part of the run: that it fits is not known; with lost events, that it does not, neither")
def partial():
    for name, info, lost, refused in (("sampled", {"option.SAMPLE": "64K"}, 0, "no"), ("lost", {}, 3, "unknown")):
        p = Process(16 * G, **info)
        p.nvml(500 * M)
        p.alloc(4 * G)
        if lost:
            p.event("lost", count=lost)
        path = p.save(name)
        answers(path, unknown=(8192,))
        answers(path, **{refused: (4096,)})
    p = Process(16 * G)
    p.nvml(500 * M)
    p.alloc(4 * G)
    p.t.flush()
    path = scratch("cut.zst", p.t.bytes())
    code, out, _ = report("fit", "--json", "--capacity=8GiB", path)
    equal((code, json.loads(out)["devices"][0]["fits"]), (4, "unknown"))


@case("no memory, no events: nothing is said")
def nothing():
    p = Process(16 * G)
    p.reads(G)
    path = p.save("nothing")
    equal(fit(path)["devices"], [])
    check(b"No GPU memory was allocated" in report("fit", path)[1])


# ---- vLLM: made traces -----------------------------------------------------------------------------

WORKER = "/opt/vllm/vllm/v1/worker/gpu_worker.py"
RUNNER = "/opt/vllm/vllm/v1/worker/gpu_model_runner.py"


def in_worker(function, *inner):
    return [*inner, ("Worker." + function, WORKER, 100), ("main", "/opt/app.py", 1)]


INIT = in_worker("init_device")
LOAD = in_worker("load_model", ("create_weights", "/opt/vllm/vllm/model_executor/layers/linear.py", 194))
PROFILE = in_worker("determine_available_memory", ("GPUModelRunner.profile_run", RUNNER, 10))
CACHE = in_worker("initialize_from_config", ("allocate_kv_cache", "/opt/vllm/vllm/v1/worker/utils.py", 596))
TABLES = in_worker("initialize_from_config", ("BlockTables.__init__", "/opt/vllm/vllm/v1/worker/gpu/block_table.py", 56))
SERVE = in_worker("execute_model", ("GPUModelRunner.execute_model", RUNNER, 20))


class Server:
    """A run of vLLM. What it takes is given; its cache follows by vLLM's own arithmetic."""

    def __init__(self, **given):
        self.total, self.share, self.outside = 24 * G, Fraction(9, 10), 500 * M
        self.weights, self.activations, self.buffers = 12 * G, 700 * M, 6 * M
        self.block, self.block_tokens = 8 * M, 16
        self.step, self.after, self.others = 300 * M, 0, 0
        self.max_len, self.seqs, self.tokens = 2048, 128, 8192
        self.cache_size = None
        self.lacks = 0  # so much is missing for the request that fails at the end; 0: none fails
        for name, value in given.items():
            setattr(self, name, value)
        self.budget = math.ceil(self.total * self.share)
        self.blocks = (self.cache_size or self.budget - self.weights - self.activations - 2 * M) // self.block
        self.cache = self.blocks * self.block

    def flags(self):
        flags = {"max-model-len": self.max_len, "max-num-seqs": self.seqs, "max-num-batched-tokens": self.tokens,
                 "gpu-memory-utilization": float(self.share), "kv-cache-memory-bytes": self.cache_size}
        return {"flag." + k: str(v) for k, v in flags.items() if v is not None}

    def record(self, name):
        p = Process(self.total, **self.flags(), **{"process.program": "vllm", "version.vllm": "0.33.0"})
        p.nvml(self.outside, self.others)
        p.tensor(2 * M, INIT)
        p.reads(self.outside + self.others, INIT)
        kept = [p.tensor(self.weights, LOAD)]
        p.tensor(2 * M, PROFILE)  # (of what stays, as vLLM's readings have it)
        p.drop(p.tensor(self.activations, PROFILE))
        p.reads(self.outside + self.others, PROFILE)
        kept += [p.tensor(self.cache, CACHE), p.tensor(self.buffers, TABLES)]
        for _ in range(4):
            p.drop(p.tensor(self.step, SERVE))
            p.nvml(self.outside + self.after, self.others)
        p.tensor(2 * M, SERVE)
        if self.lacks:
            free = p.total - p.tracked - self.outside - self.after - self.others
            p.alloc(free + self.lacks, SERVE, result=OUT_OF_MEMORY, total_bytes=p.total, free_bytes=free)
            p.event("block-oom", bytes=free + self.lacks, allocated_bytes=p.blocks, reserved_bytes=p.segments, stack=SERVE)
            return p.save(name)
        for tensor in kept:  # the end of the program is no moment between two steps
            p.drop(tensor)
        return p.save(name)

    def metrics(self, name, *scrapes, tokens=0):
        """tokens: that each of the requests has had that have ended; 0: the program does not say it."""
        path = scratch(name + ".txt")
        with open(path, "w", encoding="utf-8") as f:
            for i, (usage, running, waiting, preempted) in enumerate(scrapes or [(0.1, 1, 0, 0)]):
                f.write(f"# scraped {100 + i}.0\n"
                        f'vllm:cache_config_info{{engine="0",block_size="{self.block_tokens}",num_gpu_blocks="{self.blocks}"}} 1\n'
                        f"vllm:kv_cache_usage_perc {usage}\nvllm:num_requests_running {running}\n"
                        f"vllm:num_requests_waiting {waiting}\nvllm:num_preemptions_total {preempted}\n")
                if tokens:
                    f.write(f"vllm:request_prompt_tokens_sum {i * tokens // 2}\nvllm:request_generation_tokens_count {i}\n"
                            f"vllm:request_generation_tokens_sum {i * (tokens - tokens // 2)}\n")
        return path

    # The arithmetic once more, in fractions. `capacity`: of the device that is asked about.
    def needs(self, capacity):
        """Beside the cache, at least and at most: what stays, what is outside of allocations, a step."""
        stays = self.weights + self.buffers + 4 * M
        outside = self.outside + self.after + (self.others if capacity == self.total else 0)
        whole = [stays + outside + self.activations, stays + outside + 2 * (self.activations // 8 * 8) + self.activations % 8]
        run = stays + outside + max(self.step, 2 * M)
        if self.lacks:
            run = max(run, self.total + self.lacks - self.cache)
        return [max(w, run) for w in whole]

    def besides(self):
        return self.budget - self.cache

    def cache_on(self, capacity):
        """The cache, at least and at most."""
        if self.cache_size or capacity == self.total:
            return self.cache, self.cache
        low = math.ceil(capacity * self.share) - self.besides()
        return low, low + self.block

    def rooms(self, capacity):
        low, high = self.needs(capacity)
        return capacity - high, capacity - low

    def request(self):
        return -(-self.max_len // self.block_tokens) * self.block

    def utilization(self, capacity):
        start = capacity - self.outside - self.others - 2 * M  # (free when vLLM reads it)
        low, high = self.rooms(capacity)
        most = math.floor(Fraction(100 * start, capacity))
        safe = math.floor(Fraction(100 * (low + self.besides() - self.block), capacity))
        fails = math.floor(Fraction(100 * (high + self.besides()), capacity)) + 1
        least = math.ceil(Fraction(100 * (self.besides() + self.request()), capacity))
        return tuple("%.2f" % (n / 100) for n in (least, min(safe, most), min(fails, most + 1)))

    def length(self, capacity):
        low, high = self.cache_on(capacity)
        most = high // self.block * self.block_tokens
        safe = low // self.block * self.block_tokens
        if safe > self.max_len:
            # So many tokens that the cache, less what the buffers grow by in proportion, has them.
            token = self.block // self.block_tokens + 1
            fits = Fraction((low + self.buffers) * self.max_len, token * self.max_len + self.buffers)
            safe = min(safe, math.floor(fits) // self.block_tokens * self.block_tokens)
        return str(safe), str(max(most, safe) + 1)


def bounds_of(path, *more):
    vllm = device_of(path, *more)["vllm"]
    return vllm, {b["flag"]: b for b in vllm["bounds"]}


def compare(server, name, mib=None):
    """The bounds of a server against the arithmetic in fractions."""
    more = [f"--capacity={mib}MiB"] if mib else []
    capacity = mib * M if mib else server.total
    vllm, b = bounds_of(server.record(name), "--log", server.metrics(name), *more)
    equal((vllm["kv_cache_bytes"], vllm["profile_bytes"]), (server.cache, server.activations), name)
    equal((vllm["kv_block_bytes"], vllm["kv_cache_tokens"]), (server.block, server.blocks * server.block_tokens), name)
    equal((vllm["serving_least_bytes"], vllm["serving_most_bytes"]), tuple(server.needs(capacity)), name)
    u = b["--gpu-memory-utilization"]
    equal((u["least"], u["safe"], u["fails"]), server.utilization(capacity), f"{name}: {u}")
    n = b["--max-model-len"]
    equal((n["safe"], n["fails"]), server.length(capacity), f"{name}: {n}")
    return b


@case("utilization and max_model_len of a server, on its device")
def same_device():
    compare(Server(), "same")


@case("the same on devices of other sizes")
def other_devices():
    for gib in (16, 20, 40, 80):
        compare(Server(), f"other.{gib}", gib * 1024)


@case("of servers of random sizes, on random devices")
def random_servers():
    draw = dice(22)
    for i in range(40 if FULL else 8):
        block = draw.choice([M // 2, 2 * M, 8 * M, 10 * M])
        total = draw.choice([16, 24, 40, 80]) * G
        server = Server(total=total, share=Fraction(draw.randrange(70, 98), 100), weights=draw.randrange(1, total // G // 2) * G,
                        activations=draw.randrange(20, 900) * M, buffers=draw.randrange(1, 100) * M, block=block,
                        block_tokens=draw.choice([16, 32, 64]), outside=draw.randrange(300, 900) * M,
                        step=draw.randrange(4, 400) * M, after=draw.randrange(0, 100) * M,
                        others=draw.choice([0, draw.randrange(1, 1000) * M]), max_len=draw.randrange(100, 4000))
        asked = draw.choice([None, draw.randrange(12, 90) * 1024])
        asked = None if asked == total // M else asked  # (other processes do not count on the device that is asked about)
        if server.cache + server.needs(server.total)[0] > server.total:
            continue  # (no such run: it has more than the device)
        compare(server, f"random.{i}", asked)


@case("tokens of a step and requests: up to where the proportion still leaves one request its cache")
def in_proportion():
    server = Server()
    b = compare(server, "proportion")
    room = server.rooms(server.total)[0]
    slack = min(server.cache - server.request(), room - server.cache)
    tokens = server.tokens * (server.activations + slack) // server.activations // 256 * 256
    equal((b["--max-num-batched-tokens"]["safe"], b["--max-num-batched-tokens"]["fails"]), (str(min(tokens, 4 * server.tokens)), None))
    grows = server.activations + server.buffers
    seqs = server.seqs * (grows + slack) // grows // 8 * 8
    equal(b["--max-num-seqs"]["safe"], str(min(seqs, 4 * server.seqs)))
    check("another value" in b["--max-num-seqs"]["unknown"])


@case("a server without room for its steps: the setting must come down, and nothing is called safe that is not")
def too_full():
    server = Server(share=Fraction(97, 100), after=600 * M, step=100 * M)
    b = compare(server, "full")
    check(float(b["--gpu-memory-utilization"]["safe"]) < 0.97, b)
    equal(b["--max-num-batched-tokens"]["safe"], None)
    shown = report("fit", "--log", server.metrics("full"), server.record("full"))[1].decode()
    check("must come down to " + b["--gpu-memory-utilization"]["safe"] in shown, shown)


def advised(path, *more):
    """Of each setting, the values that the verdicts of a summary advise."""
    found = {}
    for verdict in json.loads(read_json("summary", "--sysroot=/nowhere", path, *more))["verdicts"]:
        for a in verdict["advice"]:
            if a["flag"] and a["to"]:
                found.setdefault(a["flag"], set()).add(a["to"])
    return found


@case("a server that failed: its summary advises the value that fit calls safe, as the arithmetic has it")
def advice():
    for name, server in (("own", Server(share=Fraction(97, 100), after=400 * M, lacks=32 * M)),
                         ("others", Server(share=Fraction(95, 100), others=900 * M, lacks=16 * M))):
        path, beside = server.record(f"advice.{name}"), server.metrics(f"advice.{name}")
        found, safe = advised(path, "--log", beside), server.utilization(server.total)[1]
        equal(found, {"--gpu-memory-utilization": {safe}}, name)
        equal(bounds_of(path, "--log", beside)[1]["--gpu-memory-utilization"]["safe"], safe, name)
    server = Server(cache_size=11 * G, lacks=64 * M)
    safe = str(server.rooms(server.total)[0] // M * M)
    equal(advised(server.record("advice.size"), "--log", server.metrics("advice.size")), {"--kv-cache-memory-bytes": {safe}})


@case("a cache whose size is set: the utilization is not judged, the size is")
def size_is_set():
    server = Server(cache_size=4 * G)
    path, beside = server.record("set"), server.metrics("set")
    _, b = bounds_of(path, "--log", beside)
    low, high = server.rooms(server.total)
    size = b["--kv-cache-memory-bytes"]
    equal((size["safe"], size["fails"], size["least"]), (str(low // M * M), str(high // M * M + M), str(server.request())))
    equal((b["--gpu-memory-utilization"]["safe"], b["--gpu-memory-utilization"]["fails"]), (None, None))
    equal((b["--max-model-len"]["safe"], b["--max-model-len"]["fails"]), server.length(server.total))


@case("a cache that is not what the utilization leaves (blocks by hand, a smaller rank) is not explained by it")
def not_by_utilization():
    server = Server()
    server.blocks -= 100
    server.cache = server.blocks * server.block
    _, b = bounds_of(server.record("override"), "--log", server.metrics("override"))
    equal((b["--gpu-memory-utilization"]["safe"], b["--gpu-memory-utilization"]["fails"]), (None, None))
    check("not what the utilization leaves" in b["--gpu-memory-utilization"]["unknown"], b)
    equal(b["--max-model-len"]["safe"] is not None, True)  # (the cache itself is known)


@case("without the size of a token, max_model_len is not known, and what has it is said")
def no_tokens():
    _, b = bounds_of(Server().record("tokens"))
    for flag in ("--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"):
        equal((b[flag]["safe"], b[flag]["fails"]), (None, None), flag)
        check("--log" in b[flag]["unknown"] and "record-metrics" in b[flag]["unknown"], b[flag])
    check(b["--gpu-memory-utilization"]["safe"])


@case("without a step of serving, without a cache: what is missing is said, and no bound")
def too_short():
    server = Server()
    p = Process(server.total, **server.flags(), **{"process.program": "vllm", "version.vllm": "0.33.0"})
    p.nvml(server.outside)
    p.tensor(server.weights, LOAD)
    vllm, b = bounds_of(p.save("loading"))
    check("no allocation of a KV cache" in vllm["why_unknown"] and not b, vllm)
    p = Process(server.total, **server.flags(), **{"process.program": "vllm", "version.vllm": "0.33.0"})
    p.nvml(server.outside)
    p.tensor(server.weights, LOAD)
    p.drop(p.tensor(server.activations, PROFILE))
    p.tensor(server.cache, CACHE)
    p.tensor(2 * M, in_worker("compile_or_warm_up_model"))
    _, b = bounds_of(p.save("started"))
    equal(b["--gpu-memory-utilization"]["safe"], None)
    check("no step of serving" in b["--gpu-memory-utilization"]["unknown"], b)


@case("metrics say which change is worth it: a cache that was never full, and one that preempted")
def load():
    server = Server()
    path = server.record("load")
    vllm, _ = bounds_of(path, "--log", server.metrics("idle", (0.1, 3, 0, 0), (0.31, 8, 0, 0)))
    check("31.0 %" in vllm["load"] and "2 scrapes" in vllm["load"], vllm["load"])
    enough = math.ceil(Fraction(100 * (server.besides() + max(server.cache * 31 // 100, server.request())), server.total)) / 100
    check("never in use" in vllm["load_change"] and "%.2f would be enough" % enough in vllm["load_change"], vllm["load_change"])
    # 8 requests had 12.5 % each, and 24 wanted as much: three caches, of which there is no room
    busy = (0.5, 4, 0, 0), (1.0, 8, 16, 3)
    vllm, _ = bounds_of(path, "--log", server.metrics("growing", *busy))
    check("wanted more than" in vllm["load_change"] and "--max-num-seqs" not in vllm["load_change"], vllm["load_change"])
    whole = server.blocks // 8 * server.block_tokens
    vllm, _ = bounds_of(path, "--log", server.metrics("busy", *busy, tokens=whole))
    check("3 requests were preempted" in vllm["load"] and "16 requests waited" in vllm["load"], vllm["load"])
    room = max(server.rooms(server.total)[0], server.cache)
    check("all 24 requests together" in vllm["load_change"], vllm["load_change"])
    check("--max-num-seqs %d none" % (room * 8 // server.cache) in vllm["load_change"], vllm["load_change"])


@case("figures that contradict each other, and settings that are none, give no bound and no crash")
def hostile():
    for i, (flag, value) in enumerate((
            ("flag.gpu-memory-utilization", "1e300"), ("flag.gpu-memory-utilization", "-1"), ("flag.gpu-memory-utilization", "nan"),
            ("flag.max-model-len", "99999999999999999999999"), ("flag.max-model-len", "0"), ("flag.max-num-seqs", "\x1b[31mred"),
            ("flag.max-num-batched-tokens", "9223372036854775807"), ("device.0.total_bytes", str(2**63)))):
        server = Server()
        p = server.record(f"hostile.{i}")
        q = Process(server.total, **{**server.flags(), "process.program": "vllm", flag: value})
        q.nvml(server.outside)
        q.tensor(server.weights, LOAD)
        q.drop(q.tensor(server.activations, PROFILE))
        q.tensor(server.cache, CACHE)
        q.drop(q.tensor(server.step, SERVE))
        q.tensor(2 * M, SERVE)
        path = q.save(f"hostile.{i}")
        for more in ((), ("--log", server.metrics("hostile")), ("--capacity=1", )):
            fit(path, *[m.replace("=1", "=1MiB") for m in more])
            code, out, _ = report("fit", path, *[m.replace("=1", "=1MiB") for m in more])
            check(code == 0 and b"\x1b" not in out, f"{flag}={value}")
        check(p)
    q = Server()
    for words in ('num_gpu_blocks="999999999999",block_size="999999999999"', 'num_gpu_blocks="-5",block_size="16"',
                  'num_gpu_blocks="",block_size="16"', 'num_gpu_blocks="1",block_size="0"', 'num_gpu_blocks="5'):
        wrong = scratch("wrong.txt", "# scraped 1.0\nvllm:cache_config_info{%s} 1\n" % words)
        fit(q.record("labels"), "--log", wrong)


# ---- vLLM: golden traces ---------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def golden():
    """(name, log, trace, what fit says) of golden runs in one process that came to a cache; all with CUTRACE_FULL=1."""
    return list(read_golden())


def read_golden():
    for folder in sample(sorted(glob.glob(os.path.join(GOLDEN, "*"))), 20):
        log, trace = os.path.join(folder, "log.txt"), os.path.join(folder, "trace.zst")
        if not os.path.exists(log) or not os.path.exists(trace):
            continue
        vllm = [d["vllm"] for d in fit(trace, "--log", log)["devices"]][0]
        if vllm and not vllm["why_unknown"]:
            with open(log, encoding="utf-8") as f:
                yield os.path.basename(folder), f.read(), trace, vllm


def own_words(log):
    """(budget, consumed, activations) in the sentence that vLLM says after its start, in GiB; or None."""
    found = re.search(r"Desired GPU memory utilization is \(([\d.]+), ([\d.]+) GiB\). Actual usage is ([\d.]+) GiB for consumed"
                      r".*?, ([\d.]+) GiB for peak activation", log)
    return tuple(map(float, found.groups())) if found else None


@case("golden traces of vLLM: cache, tokens and activations are those of its log and of a second reading of dump")
def golden_figures():
    problems, seen, in_words = [], 0, 0
    for name, log, trace, vllm in sample(golden(), 3):
        seen += 1
        said = vllm_log.figures(log)
        moments = vllm_trace.Moments(check_ledger.read_trace(REPORT, trace))
        size, _ = vllm_trace.kv_cache(moments)
        if size and size != vllm["kv_cache_bytes"]:
            problems.append(f"{name}: cache {vllm['kv_cache_bytes']}, in dump {size}")
        if said.get("tokens") != vllm["kv_cache_tokens"]:
            problems.append(f"{name}: tokens {vllm['kv_cache_tokens']}, in the log {said.get('tokens')}")
        over_end, _ = vllm_trace.activations(moments)
        if over_end is not None and over_end != vllm["profile_bytes"]:
            problems.append(f"{name}: activations {vllm['profile_bytes']}, in dump {over_end}")
        words = own_words(log)
        if words and vllm["besides_bytes"] is not None:
            in_words += 1
            besides = (words[2] + words[3]) * G  # rounded to 0.005 GiB each, and up to a block more
            if not besides - 0.011 * G <= vllm["besides_bytes"] <= besides + 0.011 * G + vllm["kv_block_bytes"]:
                problems.append(f"{name}: besides {vllm['besides_bytes']}, in the log {besides}")
    check(seen >= (20 if FULL else 2) and in_words >= (10 if FULL else 0), f"only {seen} traces, {in_words} with vLLM's words")
    return problems


@case("golden traces of vLLM: no bound contradicts the run itself")
def golden_runs():
    """A run that served has its settings below what fails; one whose device was too small does not call them safe."""
    problems = []
    for name, log, _, vllm in golden():
        for b in vllm["bounds"]:
            if not b["recorded"]:
                continue
            now = float(b["recorded"])
            if "DONE" in log and b["fails"] and now >= float(b["fails"]):
                problems.append(f"{name}: {b['flag']} {now} served, and {b['fails']} is said to fail")
            if b["flag"] == "--gpu-memory-utilization" and "CUDA out of memory" in log and b["safe"] and now <= float(b["safe"]):
                problems.append(f"{name}: {b['flag']} {now} ran out of memory, and {b['safe']} is said to be safe")
    return problems


@case("golden traces of vLLM: no advice of a summary, its log's included, is another value than fit's")
def golden_advice():
    problems, seen = [], 0
    for name, _, trace, vllm in golden():
        bounds = {b["flag"]: b for b in vllm["bounds"]}
        log = os.path.join(GOLDEN, name, "log.txt")
        for flag, values in advised(trace, "--log", log).items():
            b = bounds.get(flag)
            if b and (b["safe"] or b["fails"]):
                seen += 1
                if any(v != b["safe"] if b["safe"] else float(v) >= float(b["fails"]) for v in values):
                    problems.append(f"{name}: {flag}: advised {values}; fit: safe {b['safe']}, fails {b['fails']}")
    check(seen >= 8 or not FULL, f"only {seen} settings with advice")
    return problems


main()
