# SPDX-License-Identifier: Apache-2.0
"""The traces that exports are made of in tests: golden ones, PyTorch's pools, a server, hostile names."""
import functools
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../lib"))
sys.path.append(os.path.join(HERE, "../../torch/export"))
import pool  # noqa: E402
import traces  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import report, scratch  # noqa: E402

GOLDEN = os.path.join(HERE, "../golden/traces")
NASTY = ["a;b", "c,d", "a,\"b\"", "=1+1", "-2", "@x", "+3", "new\nline", "tab\t", "\x1b[31mred", "\\", "'", "<script>", "", "x" * 5000,
         "\udcff\udcfe", "\u202eleft", "{}", "a b", "7 9", "\u00fcber", "# EOF", "%s%n", "\r", "NULL", "../../x"]


def golden(name):
    with open(os.path.join(GOLDEN, name + ".zst"), "rb") as f:
        return scratch(name + ".zst", f.read())


def pools(seed, expandable=False):
    process = pool.Process(seed, capacity=64 << 20, devices=1 + seed % 2, expandable=expandable)
    process.work(300)
    return scratch("pool-%d-%d.zst" % (seed, expandable), process.done())


def hostile():
    """Every name that a trace can have is one that means something to a format or a terminal."""
    t = Trace()
    traces.begin(t, devices=2)
    names = [n.encode("utf-8", "surrogateescape") for n in NASTY]
    for i, name in enumerate(names):
        t.event("alloc", 51 * traces.S + i, api=name or b"cudaMalloc", bytes=1000 + i, ptr=0x7F0000000000 + i * 4096, device=i % 2,
                result=0, space="device", thread_name=name[:15], tid=200 + i,
                stack=[(name, "/m/%s.py" % name.decode("ascii", "replace"), 10 + i), (names[i - 1], "/lib/%s.so" % name.decode("ascii", "replace"))])
    t.event("note", 52 * traces.S, text="=cmd|' /C calc'!A0")
    t.event("alloc", 53 * traces.S, api="cudaMalloc", bytes=1 << 40, device=0, result=2, space="device",
            stack=[("=x", "/m/=x.py", 1)], free_bytes=5, total_bytes=80 << 30)
    for i, result in enumerate((-5, -(1 << 31))):
        t.event("alloc", (54 + i) * traces.S, api="cuMemAlloc_v2", device=0, bytes=64, result=result, space="device")
    return t.save(scratch("nasty.zst"))


@functools.lru_cache(maxsize=None)
def whole():
    """Those whose every event is there, so that lifetimes.py can follow them."""
    return [golden(n) for n in ("refused", "recovered", "pools", "python", "mixed", "annotated")] + [
        pools(1), pools(2), pools(3, True), hostile(),
        os.path.join(HERE, "../vllm/sleep-1/trace.zst"), scratch("instance.zst", traces.on_an_instance())]


@functools.lru_cache(maxsize=None)
def broken():
    """Those with gaps, cut ends, damages, and one without events."""
    t = Trace()
    traces.begin(t)
    return [golden(n) for n in ("ringed", "blocks", "killed", "hostile", "elsewhere")] + [t.save(scratch("empty.zst"))]


@functools.lru_cache(maxsize=None)
def export(path, form, *options):
    """The bytes of the file, made once."""
    out = scratch("out." + form)
    code, said, error = report("export", "--format=" + form, "--force", "-o", out, *options, path)
    if code not in (0, 4):
        raise RuntimeError("%s %s: exit %d: %s %s" % (form, path, code, said, error))
    with open(out, "rb") as f:
        return f.read()
