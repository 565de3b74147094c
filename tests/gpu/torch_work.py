# SPDX-License-Identifier: Apache-2.0
"""PyTorch at work, with checkpoints of its own statistics in a ledger: torch_work.py MODE.

Exit status 77: this PyTorch cannot do it; stderr says why. TORCH_WORK_DEVICE=cpu tries the programs
where there is no GPU; nothing is measured then. TORCH_WORK_HISTORY=python|all records PyTorch's own history.
"""
import ctypes
import json
import os
import resource
import signal
import sys
import threading
import time

import torch

DEVICE = os.environ.get("TORCH_WORK_DEVICE", "cuda")
CUDA = DEVICE == "cuda"
MIB = 1 << 20
_ledger = None


def unable(why):
    print(why, file=sys.stderr)
    sys.exit(77)


def checkpoint(name):
    """What PyTorch and the driver say at a quiet moment."""
    global _ledger
    if _ledger is None:
        prefix = os.environ.get("GPU_LEDGER")
        _ledger = open(f"{prefix}.{os.getpid()}" if prefix else os.devnull, "w", buffering=1)
    line = {"op": "checkpoint", "kind": "torch", "name": name, "pid": os.getpid()}
    if CUDA:
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        free, total = torch.cuda.mem_get_info()
        line.update(free=free, total=total, reserved=torch.cuda.memory_reserved(),
                    allocated=torch.cuda.memory_allocated(), retries=stats.get("num_alloc_retries", 0),
                    ooms=stats.get("num_ooms", 0), backend=torch.cuda.get_allocator_backend())
    line["t_ns"] = time.monotonic_ns()
    _ledger.write(json.dumps(line) + "\n")


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


class Plain(torch.nn.Module):
    """A small transformer with random weights, where the transformers package is missing."""

    def __init__(self, words=2048, width=256, layers=4, heads=4):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.out = torch.nn.Linear(width, words)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def logits(answer):
    return getattr(answer, "logits", answer)


def new_model(plain=False):
    torch.manual_seed(1)
    if not plain:
        try:
            from transformers import GPT2Config, GPT2LMHeadModel
            config = GPT2Config(vocab_size=2048, n_positions=512, n_embd=256, n_layer=4, n_head=4)
            return GPT2LMHeadModel(config).to(DEVICE)
        except Exception:  # not installed, or made for another PyTorch
            pass
    return Plain().to(DEVICE)


def words(batch=8, length=128):
    return torch.randint(0, 2048, (batch, length), device=DEVICE)


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        ids = words()
        loss = torch.nn.functional.cross_entropy(logits(model(ids)).flatten(0, 1), ids.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def infer(model, steps):
    model.eval()
    for i in range(steps):
        logits(model(words(4, 32 + 32 * (i % 4)))).argmax(-1)


# ---- modes ---------------------------------------------------------------------------------------------

def training():
    model = new_model()
    checkpoint("model")
    print("loss", train(model, 8))
    checkpoint("trained")


def inference():
    model = new_model()
    infer(model, 8)
    checkpoint("inferred")
    if CUDA:
        torch.cuda.empty_cache()
    checkpoint("cache emptied")


def paged():
    """transformers' continuous batching over paged key/value memory."""
    try:
        from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
        config = LlamaConfig(vocab_size=2048, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
                             num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=512)
        model = LlamaForCausalLM(config).to(DEVICE).to(torch.bfloat16).eval()
        model.generate_batch
    except (ImportError, AttributeError) as e:
        unable(f"no continuous batching: {e}")
    for name in ("paged|sdpa", "sdpa_paged"):
        try:
            model.set_attn_implementation(name)
            break
        except Exception as e:
            why = e
    else:
        unable(f"no paged attention: {why}")
    settings = GenerationConfig(max_new_tokens=16, do_sample=False, eos_token_id=1, pad_token_id=0, num_blocks=64,
                                max_batch_tokens=128)
    model.generate_batch(inputs=[list(range(2, 20 + i)) for i in range(6)], generation_config=settings)
    checkpoint("generated")


def compiled():
    model = new_model(plain=True)
    fast = torch.compile(model, mode="reduce-overhead" if CUDA else "default")
    ids = words(4, 64)
    with torch.no_grad():
        for _ in range(6):
            fast(ids)
    checkpoint("compiled")


def graphs():
    model, ids = new_model(plain=True).eval(), words(4, 64)
    side = torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(side):
            model(ids)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(ids)
        for _ in range(4):
            graph.replay()
    checkpoint("replayed")


def mempool():
    try:
        pool = torch.cuda.MemPool()
        use = torch.cuda.use_mem_pool
    except (AttributeError, TypeError) as e:
        unable(f"no MemPool: {e}")
    with use(pool):
        kept = torch.empty(48 * MIB, dtype=torch.uint8, device=DEVICE)
    other = torch.empty(16 * MIB, dtype=torch.uint8, device=DEVICE)
    checkpoint("in a pool")
    del kept, other
    del pool
    torch.cuda.empty_cache()
    checkpoint("pool gone")


def chosen_allocations():
    """Two allocations whose lines are known; the marks are found by the checker in this file."""
    first = torch.empty(33 * MIB, dtype=torch.uint8, device=DEVICE)  # mark: first
    second = torch.zeros(66 * MIB, dtype=torch.uint8, device=DEVICE)  # mark: second
    checkpoint("chosen")
    return first, second


def refused():
    kept = chosen_allocations()
    try:
        torch.empty(torch.cuda.get_device_properties(0).total_memory * 2, dtype=torch.uint8, device=DEVICE)
    except torch.cuda.OutOfMemoryError as e:
        print("refused:", str(e)[:80])
    checkpoint("refused")
    del kept


def refused_killed():
    chosen_allocations()
    try:
        torch.empty(torch.cuda.get_device_properties(0).total_memory * 2, dtype=torch.uint8, device=DEVICE)
    except torch.cuda.OutOfMemoryError:
        os.kill(os.getpid(), signal.SIGKILL)


def recovered():
    """The driver refuses, PyTorch gives back what it had cached, and the second try succeeds."""
    piece = torch.cuda.mem_get_info()[0] // 4
    held = [torch.empty(piece, dtype=torch.uint8, device=DEVICE) for _ in range(3)]
    checkpoint("filled")
    del held
    big = torch.empty(2 * piece, dtype=torch.uint8, device=DEVICE)
    checkpoint("recovered")
    del big
    torch.cuda.empty_cache()
    checkpoint("given back")


def exhausted():
    """Fills the device as a server does: weights, a cache for most of the rest, requests that come and go; then one more.

    The last line says what was asked for and what PyTorch held at that moment.
    """
    model = new_model(plain=True)
    free = torch.cuda.mem_get_info()[0]
    cache = [torch.empty(free // 16, dtype=torch.uint8, device=DEVICE) for _ in range(14)]  # mark: cache
    checkpoint("cache")
    infer(model, 8)
    requests, turn = [], 0
    while True:
        turn += 1
        wanted = (24 + 7 * (turn % 5)) * MIB
        held = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
        try:
            requests.append(torch.empty(wanted, dtype=torch.uint8, device=DEVICE))  # mark: request
        except torch.cuda.OutOfMemoryError:
            break
        if turn % 3 == 0:
            del requests[len(requests) // 2]
    checkpoint("refused")
    print(json.dumps({"wanted": wanted, "reserved": held[0], "allocated": held[1], "requests": len(requests),
                      "cache": sum(c.numel() for c in cache)}))


def profiled():
    model = new_model()
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if CUDA else [])
    with torch.profiler.profile(activities=kinds, profile_memory=True) as profile:
        train(model, 4)
    on_device = sum(str(e.device_type).endswith("CUDA") for e in profile.events())
    print(json.dumps({"profiled": len(profile.events()), "on_device": on_device}))
    checkpoint("profiled")


def child(rank):
    train(new_model(), 3)
    checkpoint(f"child {rank}")


def processes():
    import torch.multiprocessing as mp
    mp.spawn(child, nprocs=2)


def receiver(queue):
    tensor = queue.get()
    if int(tensor[123]) != 7:
        sys.exit("the tensor that was sent has another content")
    checkpoint("received")
    del tensor
    checkpoint("closed")


def shared():
    """A tensor of one process opened by another."""
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue = context.Queue()
    other = context.Process(target=receiver, args=(queue,))
    other.start()
    tensor = torch.full((40 * MIB,), 7, dtype=torch.uint8, device=DEVICE)
    queue.put(tensor)
    other.join(60)
    if other.exitcode:
        unable(f"the receiver ended with {other.exitcode}")
    checkpoint("sent")


def pinned():
    """Page-locked host memory, in PyTorch's own cache of it."""
    held = [torch.empty(n * MIB, dtype=torch.uint8, pin_memory=True) for n in (1, 3, 33)]  # mark: pinned
    checkpoint("pinned")
    del held[2]
    checkpoint("given to the cache")
    print(json.dumps(torch.cuda.host_memory_stats() if hasattr(torch.cuda, "host_memory_stats") else {}))


def snapshot():
    """Streams, sizes and lifetimes of all kinds; the last line is PyTorch's own list of its segments and blocks."""
    import random
    chance, held = random.Random(1), []
    streams = [torch.cuda.Stream() for _ in range(3)] + [torch.cuda.current_stream()]
    for _ in range(4000):
        if held and chance.random() < 0.48:
            del held[chance.randrange(len(held))]
            continue
        with torch.cuda.stream(chance.choice(streams)):
            size = chance.choice((512, 3000, 70000, MIB, 3 * MIB + 1, 11 * MIB, 40 * MIB))
            tensor = torch.empty(chance.randrange(1, size), dtype=torch.uint8, device=DEVICE)
        if chance.random() < 0.2:
            tensor.record_stream(chance.choice(streams))
        held.append(tensor)
    torch.cuda.synchronize()
    checkpoint("at work")
    segments = torch.cuda.memory_snapshot()
    print(json.dumps([{"address": s["address"], "size": s["total_size"], "stream": s["stream"],
                       "blocks": [[b["address"], b["size"], b["state"]] for b in s["blocks"]]} for s in segments]))


def external_stream():
    """A stream that the driver made, not PyTorch."""
    handle = ctypes.c_void_p()
    if ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(handle), 1):
        unable("the driver makes no stream")
    return torch.cuda.ExternalStream(handle.value)


def streams():
    """Blocks on the default stream, on two of PyTorch's, on an external one, and in a second thread.

    The last line is the program's own list of them, each with the current stream's number, and PyTorch's list of segments.
    """
    if not CUDA or not hasattr(torch.cuda.current_stream(), "stream_id"):
        unable("this PyTorch does not tell the number of a stream")
    held, own = [], []

    def take(what, stream=None):
        with torch.cuda.stream(stream):
            for n in range(40):
                tensor = torch.empty((1 + n * 7919 % 97) << (n % 4 * 5), dtype=torch.uint8, device=DEVICE)
                if n % 3:
                    held.append(tensor)
                    own.append([what, tensor.data_ptr(), tensor.numel(), torch.cuda.current_stream().stream_id])

    first, second, outside = torch.cuda.Stream(), torch.cuda.Stream(), external_stream()
    for turn in range(3):
        for what, stream in (("default", None), ("first", first), ("second", second), ("external", outside)):
            take(what, stream)

    def thread():
        take("thread, default")
        take("thread, second", second)

    other = threading.Thread(target=thread)
    other.start()
    other.join()
    take("default", None)
    checkpoint("at work")
    print(json.dumps({"blocks": own, "segments": [[s["address"], s["total_size"], s["stream"]]
                                                  for s in torch.cuda.memory_snapshot()]}))


def endless():
    model = new_model(plain=True)
    while True:
        train(model, 5)
        checkpoint("round")
        time.sleep(0.25)  # as many events as can be compared soon


def timing():
    """Milliseconds a step for both kinds of work: that of which a tenth is faster, so that a busy machine counts less."""
    how = os.environ.get("TORCH_WORK_HISTORY")
    if how and CUDA:
        torch.cuda.memory._record_memory_history(max_entries=100000, stacks=how)
    model, out = new_model(plain=True), {}
    for name, step in (("training", lambda: train(model, 1)), ("inference", lambda: infer(model, 1))):
        took = []
        for i in range(120 if CUDA else 4):
            begin = time.perf_counter()
            step()
            if CUDA:
                torch.cuda.synchronize()
                if i % 4 == 0:
                    torch.cuda.empty_cache()  # so that segments come and go
            took.append(time.perf_counter() - begin)
        took = sorted(took[len(took) // 4:])
        out[name + "_ms"] = took[len(took) // 10] * 1000
    out["host_kb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(out))


def allocator():
    """Nanoseconds of one torch.empty whose memory PyTorch has cached, with the drop of an older tensor; a tenth is faster."""
    how = os.environ.get("TORCH_WORK_HISTORY")
    if how and CUDA:
        torch.cuda.memory._record_memory_history(max_entries=100000, stacks=how)
    sizes = [512 << (7 * i % 12) for i in range(64)]
    held, took = [None] * 64, []

    def turn():
        for i, size in enumerate(sizes):
            held[i] = None
            held[i] = torch.empty(size, dtype=torch.uint8, device=DEVICE)

    def deep(n):  # as far down as a model's layer is
        if n:
            return deep(n - 1)
        for _ in range(200 if CUDA else 5):
            begin = time.perf_counter_ns()
            for _ in range(8):
                turn()
            took.append((time.perf_counter_ns() - begin) / (8 * len(sizes)))
        return None

    deep(20)
    took = sorted(took[len(took) // 4:])
    print(json.dumps({"pair_ns": took[len(took) // 10], "pairs": 8 * len(sizes) * len(took),
                      "host_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


MODES = {f.__name__.replace("_", "-"): f for f in (
    training, inference, paged, compiled, graphs, mempool, refused, refused_killed, recovered, profiled, processes,
    endless, timing, exhausted, allocator, shared,
    pinned, snapshot, streams)}

if __name__ == "__main__":
    if CUDA:
        torch.cuda.init()
        torch.empty(1, device=DEVICE)
    if sys.argv[1] != "processes":
        checkpoint("start")
    MODES[sys.argv[1]]()
    if threading.active_count() > 1:  # a server thread of a package must not keep us
        sys.stdout.flush()
        os._exit(0)
