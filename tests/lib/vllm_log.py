# SPDX-License-Identifier: Apache-2.0
"""What vLLM's own log says about memory: the truth with which a trace of the same run is compared."""
import json
import re

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Name of a figure -> its sentence; sizes in GiB with two decimals.
FIGURES = {
    "weights": r"Model loading took ([\d.]+) GiB (?:memory )?and",
    "available": r"Available KV cache memory: (-?[\d.]+) GiB",
    "activations": r"consumed memory \(weights \+ non-torch\), ([\d.]+) GiB for peak activation",
    "increase": r"torch peak memory increase: ([\d.]+)GiB",  # of older versions, in their debug log
    "graphs": r"Graph capturing finished in [\d.]+ secs, took (-?[\d.]+) GiB",
}
TOKENS = r"GPU KV cache size: ([\d,]+) tokens"
# PyTorch's sentence for a request that it could not serve (c10/cuda/CUDACachingAllocator.cpp).
REFUSED = re.compile(r"Tried to allocate ([\d.]+) (\w+)\. GPU (\d+) has a total capacity of ([\d.]+) (\w+) of which"
                     r" ([\d.]+) (\w+) is free\.(.*?Of the allocated memory ([\d.]+) (\w+) is allocated by PyTorch,"
                     r"(?: with ([\d.]+) (\w+) allocated in private pools \(e\.g\., CUDA Graphs\),)? and"
                     r" ([\d.]+) (\w+) is reserved by PyTorch but unallocated)?", re.S)


class Size:
    """A size as a text says it: `text` in `unit`, for instance 1.25 GiB; what it may have been before rounding."""

    def __init__(self, text, unit):
        self.text, self.unit = text, unit
        self.step = UNITS[unit] * (10.0 ** -len(text.partition(".")[2]) if "." in text else 1)
        self.bytes = float(text) * UNITS[unit]

    def is_of(self, size, more=0):
        """Whether these bytes, give or take `more`, are rounded to it."""
        return abs(size - self.bytes) <= self.step / 2 + 1 + more

    def __repr__(self):
        return f"{self.text} {self.unit}"


def figures(log):
    """Name -> Size; the last one that was said. tokens: a number."""
    out = {}
    for name, pattern in FIGURES.items():
        found = re.findall(pattern, log)
        if found:
            out[name] = Size(found[-1], "GiB")
    if log.rfind("Graph capturing finished") < log.rfind("GPU KV cache size"):
        out.pop("graphs", None)  # the trial before the KV cache: those that count were not finished
    found = re.findall(TOKENS, log)
    if found:
        out["tokens"] = int(found[-1].replace(",", ""))
    return out


def moments(log):
    """What PyTorch and the driver said between the steps of a case (tests/vllm/serve.py), in their order."""
    return [json.loads(text) for text in re.findall(r"^FIGURES (\{.*\})$", log, re.M)]


def refusal(log):
    """The sizes of PyTorch's sentence in the first error that it raised."""
    found = REFUSED.search(log)
    if not found:
        return None
    (asked, unit, device, total, unit_total, free, unit_free, _,
     allocated, unit_a, private, unit_p, idle, unit_i) = found.groups()
    return {"asked": Size(asked, unit), "device": int(device),
            "total": Size(total, unit_total), "free": Size(free, unit_free),
            "allocated": Size(allocated, unit_a) if allocated else None, "idle": Size(idle, unit_i) if idle else None,
            # What private pools have idle counts as allocated here, other than in memory_stats().
            "private": Size(private, unit_p) if private else Size("0", "bytes")}
