# SPDX-License-Identifier: Apache-2.0
"""Programs with known source locations, and traces whose frames lie in them."""
import os
import random
import re
import struct
import subprocess

import read_trace
from mktrace import Trace, text, varint
from tap import ROOT, report

SOURCE = os.path.join(ROOT, "tests/stacks/symbols/places.cpp")


def run(*command, data=None):
    return subprocess.run(list(map(str, command)), input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout


def build(path, *options, compiler="g++", source=SOURCE):
    run(compiler, "-O2", "-g", "-Wl,--build-id", *options, source, "-o", path)
    return path


def build_id(path):
    return bytes.fromhex(re.search(rb"Build ID: ([0-9a-f]+)", run("readelf", "-nW", path)).group(1).decode())


def addresses(path, count):
    """Of instructions in the functions that the symbol table knows."""
    functions = []
    for line in run("nm", "-S", "--defined-only", path).split(b"\n"):
        words = line.split()
        if len(words) == 4 and words[2] in b"tTwW" and int(words[1], 16) > 8:
            functions.append((int(words[0], 16), int(words[1], 16)))
    rng = random.Random(4)
    return sorted({start + rng.randrange(size) for start, size in rng.choices(functions, [s for _, s in functions], k=count)})


def addr2line(path, wanted):
    """{address: [(function, base name of the file, line)]}, innermost first; no place where it knows neither file nor line."""
    out = run("addr2line", "-aCfi", "-e", path, data="\n".join("%x" % a for a in wanted).encode()).decode().split("\n")
    found, at = {}, None
    while len(out) > 1:
        word = out.pop(0)
        if re.fullmatch("0x[0-9a-f]{16}", word):
            at = found.setdefault(int(word, 16), [])
            continue
        file, line = re.sub(r" \(discriminator \d+\)", "", out.pop(0)).rsplit(":", 1)
        at.append((word, os.path.basename(file), 0 if line == "?" else int(line)))
    return {a: [] if places[0][1] in ("", "??") else places for a, places in found.items()}


class Frames(Trace):
    """A trace of stacks of one frame each; its modules are real files."""

    def __init__(self, modules, **keywords):
        super().__init__(**keywords)
        self.modules = modules  # path -> build-id

    def module(self, path):
        base = 0x7F0000000000 + 0x10000000 * (sum(path.encode()) % 97)
        name = self.string(path)
        return self.define(3, path, lambda: varint(name) + varint(base) + varint(base + 0x1000) + varint(base + 0x900000) +
                           text(self.modules[path])), base

    def see(self, path, wanted, symbol=None):
        """An event for each address, whose frame returns there."""
        for a in wanted:
            self.event("alloc", 1000 + self.number + len(self.pending), api="cuMemAlloc_v2", ptr=0x1000 * (a + 1), bytes=1, result=0,
                       device=0, space="device", stack=[(symbol, path, a + 1)])


def trace_of(path, wanted, target, recorded=None, identity=None, chunks=1):
    """Writes a trace with these addresses of a file, recorded under another path and build-id if those are given."""
    recorded = recorded or path
    t = Frames({recorded: build_id(path) if identity is None else identity})
    size = -(-len(wanted) // chunks)
    for i in range(chunks):
        if i and i % 3 == 0:
            t.restart()
        t.see(recorded, wanted[i * size:(i + 1) * size])
        t.flush(last=i + 1 == chunks)
    with open(target, "wb") as f:
        f.write(t.bytes())
    return target


def bodies(data):
    return [body for _, body in read_trace.chunks(data)]


def places(path):
    """{address: [(function, file, line)]} of the native frames in a trace, as their entries of FRAMES say."""
    found, strings = {}, {}
    with open(path, "rb") as f:
        data = f.read()
    for head, body in read_trace.chunks(data):
        if head["dict_seq"] == head["seq"]:
            strings = {}
        sections = []
        at = 0
        while at < len(body):
            c = read_trace.Cursor(body)
            c.at = at
            kind, n = c.varint(), c.u32()
            sections.append((kind, c.take(n)))
            at = c.at
        for kind, section in sections:
            c = read_trace.Cursor(section)
            while kind in (2, 4) and c.more():
                number, payload = c.varint(), c.take(c.varint())
                if kind == 2:
                    assert number not in strings, "a string's id is used twice"
                    strings[number] = payload.decode(errors="replace")
                    continue
                p = read_trace.Cursor(payload)
                if p.varint() != 0:
                    continue
                p.varint(), p.varint()
                address = p.varint() - 1
                p.varint(), p.varint()
                here = [(p.varint(), p.varint(), p.varint()) for _ in range(p.varint() if p.more() else 0)]
                assert not p.more()
                found[address] = [(strings.get(f), strings.get(file), line) for f, file, line in here]
    return found


def demangled(names):
    names = sorted({n for n in names if n})
    return dict(zip(names, run("c++filt", data="\n".join(names).encode()).decode().split("\n")))


def symbolize(trace, out, *options, env=None):
    return report("copy", "--symbolize", "-o", out, *options, trace, env=env)


def endless(path, target):
    """A copy of a program with DWARF 5 whose last name of a file has no end: .debug_line_str is the end of the file and of a page,
    so that elfutils 0.188, which reads on, is ended. The file is so large that it is mapped; little of it is on the disk."""
    size = 1 << 29
    with open(path, "rb") as f:
        out = bytearray(f.read())
    headers, = struct.unpack_from("<Q", out, 40)
    count, names = struct.unpack_from("<HH", out, 60)
    names, = struct.unpack_from("<Q", out, headers + 64 * names + 24)
    (at,) = [at for at in range(headers, headers + 64 * count, 64)
             if out[names + struct.unpack_from("<I", out, at)[0]:].startswith(b".debug_line_str\0")]
    start, length = struct.unpack_from("<QQ", out, at + 24)
    struct.pack_into("<Q", out, at + 24, size - length)
    with open(target, "wb") as f:
        f.write(out)
        f.seek(size - length)
        f.write(out[start:start + length - 1] + b"x")
    return target


def corrupt(data, seed):
    """The same file with wrong bytes in its debug information and its section headers."""
    rng, out = random.Random(seed), bytearray(data)
    headers, = struct.unpack_from("<Q", data, 40)
    debug = [struct.unpack_from("<QQ", data, at + 24) for at in range(headers, len(data) - 63, 64)
             if struct.unpack_from("<IQ", data, at + 4)[0] == 1 and not struct.unpack_from("<Q", data, at + 16)[0]]
    for _ in range(rng.choice((1, 2, 5, 20, 100))):
        if rng.random() < 0.8:
            start, size = rng.choice(debug)
            at = start + rng.randrange(min(size, rng.choice((200, 1 << 30))))
        else:
            at = headers + rng.randrange(len(data) - headers)
        out[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(out)
