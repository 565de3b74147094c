#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every view says about the golden traces, compared with texts that were read and found right.

`test_golden.py --update` writes the texts anew; read the difference before committing it.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
import traces  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
VIEWS = [("summary",), ("summary", "--json"), ("oom",), ("oom", "--json"), ("top",), ("top", "--json"),
         ("timeline",), ("frag",), ("info",), ("check",), ("dump",), ("dump", "--json"),
         ("summary", "--capacity=512MiB"), ("summary", "--units=bytes", "--device=0")]
UPDATE = "--update" in sys.argv


def expect(path, got):
    if UPDATE:
        with open(path, "wb") as f:
            f.write(got)
    with open(path, "rb") as f:
        want = f.read()
    if got != want:
        for g, w in zip(got.split(b"\n") + [b""], want.split(b"\n") + [b""]):
            if g != w:
                raise AssertionError("%s:\n  got  %r\n  want %r" % (os.path.basename(path), g, w))
        raise AssertionError("%s: lengths differ" % path)


def make(build):
    name = build.__name__

    def same_bytes():
        expect(os.path.join(HERE, "expected", name + ".zst"), build())
    same_bytes.__doc__ = "%s: the builder still writes the committed trace" % name
    tap.test(same_bytes)
    for view in VIEWS:
        def one(view=view):
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                with open(os.path.join(HERE, "expected", name + ".zst"), "rb") as f:
                    data = f.read()
                with open(name + ".zst", "wb") as f:
                    f.write(data)
                code, out, err = tap.report(*view, name + ".zst")
                os.chdir("/")
            label = "-".join(view).replace("--", "").replace("=", "_")
            expect(os.path.join(HERE, "expected", "%s.%s" % (name, label)),
                   out + b"[exit %d]\n" % code + err)
        one.__doc__ = "%s: %s" % (name, " ".join(view))
        tap.test(one)


for builder in traces.ALL:
    make(builder)

tap.main()
