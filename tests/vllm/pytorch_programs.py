# SPDX-License-Identifier: Apache-2.0
"""Programs in plain PyTorch that run out of memory, or do not: pytorch_programs.py NAME

Each is what its name says, and ends as such a program does: with PyTorch's own error."""
import sys

import torch
from torch import nn

MIB = 1 << 20
GIB = 1 << 30


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def train(width, layers, steps):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width, bias=False, device="cuda"), nn.ReLU()) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(steps):
        batch = torch.empty(512, width, device="cuda")
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy():
    """Trains a small model."""
    train(1024, 8, 4)


def training_step():
    """Weights and gradients fit; the first step of AdamW makes two more of each weight."""
    train(8192, 40, 2)


def adam_of_many():
    """The same of many small layers: each takes its states in turn, which looks like growth."""
    train(2048, 400, 2)


def first_forward():
    """The first batch of a training does not fit: its forward pass keeps what a backward pass needs."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4096, 4096, device="cuda"), nn.ReLU()) for _ in range(32)])
    model(torch.empty(3 << 14, 4096, device="cuda")).sum().backward()


def halving():
    """A batch that does not fit is halved until it does."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4096, 4096, device="cuda"), nn.ReLU()) for _ in range(12)])
    rows = 1 << 18
    while True:
        try:
            model(torch.empty(rows, 4096, device="cuda")).sum().backward()
            return
        except torch.OutOfMemoryError:
            rows //= 2


def validate(model, total):
    """The sum of the losses keeps the graph of each."""
    for _ in range(2):
        total = total + model(torch.empty(8192, 2048, device="cuda")).pow(2).mean()
    return total


def validation():
    """Training is as it should be; validation keeps its graphs."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(2048, 2048, device="cuda"), nn.ReLU()) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.zeros((), device="cuda")
    while True:
        for _ in range(3):
            model(torch.empty(8192, 2048, device="cuda")).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        total = validate(model, total)


def scattered():
    """What is idle in the pool is less than what is asked for, and more than what is missing."""
    batches = [take(340 * MIB) for _ in range(40)]
    del batches[:]
    kept = [take(280 * MIB) for _ in range(40)]
    take(21 * GIB // 2)
    return kept


def fragmentation():
    """Long batches fill the pool and go; what stays of the short ones leaves a part of each segment open."""
    batches = [take(340 * MIB) for _ in range(64)]
    del batches[:]
    kept = [take(180 * MIB) for _ in range(64)]
    take(4 * GIB)
    return kept


def leak():
    """The losses of all steps are kept, and with each of them the graph of its step."""
    model = nn.Sequential(nn.Linear(4096, 4096, device="cuda"), nn.ReLU())
    batch = torch.empty(4096, 4096, device="cuda")
    losses = []
    while True:
        losses.append(model(batch).sum())


def untracked_growth():
    """A graph is captured for each new shape, and all are kept."""
    pool, kept = torch.cuda.graph_pool_handle(), []
    x = torch.empty(1 << 20, device="cuda")
    while True:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            x.add_(1)
        kept.append(graph)


def host_pinned():
    """Batches are prepared in page-locked memory, of which the driver gives no more."""
    model = nn.Linear(1024, 1024, device="cuda")
    kept = []
    while True:
        kept.append(torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=True))
        model(torch.empty(16, 1024, device="cuda"))


def impossible_request():
    """A mask of all pairs of tokens, for a length that is meant in characters."""
    nn.Linear(1024, 1024, device="cuda")
    length = 330_000
    return torch.empty(length, length, dtype=torch.bool, device="cuda")


def recovered():
    """The pool is full of free blocks of another size: PyTorch gives them back and asks again."""
    batches = [take(200 * MIB) for _ in range(100)]
    del batches[:]
    return take(12 * GIB)


def unknown():
    """Three large tensors, and a fourth one that does not fit."""
    return [take(7 * GIB) for _ in range(4)]


def driver_mismatch():
    """The driver is older than the runtime of the wheel."""
    torch.cuda.init()


def host_memory():
    """A tensor on the host that no host has room for."""
    return torch.zeros(1 << 47, dtype=torch.uint8)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("DONE")
