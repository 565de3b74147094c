#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures names at record time: 3,000 addresses of a library with 260,000 functions (as many as libLLVM 22 has; FILE as argument: that
one), beside addr2line, whose names must be the same. Target: 50 ms in all, 64 MiB while it works, given back afterwards."""
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile

BUILD = os.environ.get("CUTRACE_BUILD") or os.path.join(os.path.dirname(__file__), "..", "..", "build")
FUNCTIONS, ADDRESSES, ROUNDS = 260000, 3000, 7


def library(path):
    """An ELF file with functions in no order, as a linker's hash table leaves them; their names are long, as C++'s are."""
    random.seed(1)
    at, functions, names = 0x1000, [], bytearray(b"\0")
    for i in range(FUNCTIONS):
        size = random.randrange(16, 600)
        functions.append((len(names), at, size))
        names += b"_ZN4llvm12_GLOBAL__N_1%d%s%dEv\0" % (20 + i % 60 + len(str(i)), b"x" * (20 + i % 60), i)
        at += size
    random.shuffle(functions)
    table = bytes(24) + b"".join(struct.pack("<IBBHQQ", n, 0x12, 0, 1, a, s) for n, a, s in functions)
    sections = (b"\0.text\0.symtab\0.strtab\0.shstrtab\0")
    table_at = 4096
    names_at = table_at + len(table)
    texts_at = names_at + len(names)
    headers_at = (texts_at + len(sections) + 7) & ~7

    def header(name, kind, flags, address, offset, bytes_, link=0, info=0, entry=0):
        return struct.pack("<IIQQQQIIQQ", name, kind, flags, address, offset, bytes_, link, info, 1, entry)

    with open(path, "wb") as f:
        f.write(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, headers_at, 0, 64, 56, 0, 64, 5, 4))
        f.seek(table_at)
        f.write(table + names + sections)
        f.seek(headers_at)
        f.write(header(0, 0, 0, 0, 0, 0) + header(1, 8, 6, 0x1000, 0x1000, at - 0x1000) +
                header(7, 2, 0, 0, table_at, len(table), 3, 1, 24) + header(15, 3, 0, 0, names_at, len(names)) +
                header(23, 3, 0, 0, texts_at, len(sections)))


def addresses(path):
    lines = subprocess.run(["nm", "--defined-only", path], stdout=subprocess.PIPE, check=True).stdout.split(b"\n")
    functions = sorted(line.split()[0].decode() for line in lines if line.split()[1:2] in ([b"t"], [b"T"]))
    return random.Random(2).sample(functions, ADDRESSES)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "library.so")
        if len(sys.argv) == 1:
            library(path)
        wanted = "\n".join(addresses(path)).encode()
        rounds = []
        for _ in range(ROUNDS):
            done = subprocess.run([os.path.join(BUILD, "tests/bench/symbols"), path, str(ADDRESSES)], input=wanted,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            rounds.append([float(n) for n in done.stderr.split()])
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        peer = subprocess.run(["addr2line", "-f", "-e", path], input=wanted, stdout=subprocess.PIPE, check=True)
        peer_ms = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before) * 1e3
        ours = [line.split(b" ", 1)[1] for line in done.stdout.splitlines()]
        theirs = [name[:255] for name in peer.stdout.splitlines()[::2]]
        same = sum(a == b for a, b in zip(ours, theirs))
        table, names = sorted(r[0] for r in rounds)[ROUNDS // 2], sorted(r[1] for r in rounds)[ROUNDS // 2]
        print("symbols  %d addresses: %5.1f ms of processor (table %.1f, names %.1f), %.4f of addr2line's %.0f ms; %.1f MiB while it works, %.1f kept; "
              "%d named, %d of them as addr2line does" %
              (ADDRESSES, table + names, table, names, (table + names) / peer_ms, peer_ms, max(r[2] for r in rounds) / 1024,
               max(r[3] for r in rounds) / 1024, rounds[-1][4], same))


main()
