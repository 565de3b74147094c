#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every view of the golden traces, compared with outputs that were reviewed by hand.

`test_golden.py --update` rewrites the outputs; review the difference before you commit it.
"""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import mktrace  # noqa: E402
import tap  # noqa: E402
import traces  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
VIEWS = [("summary",), ("summary", "--json"), ("oom",), ("oom", "--json"), ("top",), ("top", "--json"), ("top", "--tree"), ("stats",),
         ("timeline",), ("leaks",), ("phases",), ("fit",), ("fit", "--json"), ("frag",), ("info",), ("info", "--json"), ("dump",), ("dump", "--json"),
         ("oom", "--all-frames"), ("top", "--all-frames"), ("summary", "--capacity=512MiB"), ("summary", "--units=bytes", "--device=0")]
# Traces that diff compares with one another.
DIFFS = [("refused", "recovered"), ("pools", "blocks"), ("python", "mixed")]
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


def view_is(name, trace, view):
    """A view says about a trace what is expected; the trace has the name that it had when that was written down."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(os.path.join(GOLDEN, "traces", trace + ".zst"), "rb") as f:
            data = f.read()
        with open(name + ".zst", "wb") as f:
            f.write(data)
        code, out, err = tap.report(*view, name + ".zst", columns=None)
        os.chdir("/")
    if trace != name:  # what else is different is different wrongly
        out = re.sub(rb"(format version +|\"format_version\":)[23]([\n,])", rb"\g<1>1\2", out)
    label = "-".join(v for v in view if v != "--json").replace("--", "").replace("=", "_")
    kind = "json" if "--json" in view else "txt"
    expect(os.path.join(GOLDEN, "expected", name, f"{label}.{kind}"), out + b"[exit %d]\n" % code + err)


def packed(build, version):
    """The same trace in the columns of version 2, and with stacks of this version."""
    plain = mktrace.Trace.columns, mktrace.Trace.version
    mktrace.Trace.columns, mktrace.Trace.version = staticmethod(mktrace.packed_columns), version
    try:
        return build()
    finally:
        mktrace.Trace.columns, mktrace.Trace.version = staticmethod(plain[0]), plain[1]


def make(build):
    name = build.__name__
    versions = {name: build, name + "-2": lambda: packed(build, 2), name + "-3": lambda: packed(build, 3)}
    if name in ("ringed", "python", "pools", "blocks"):  # says how large it is; have what only version 3 has
        versions = {name: build}

    @tap.case("%s: the builder still writes the committed traces of all versions" % name)
    def _():
        for trace, write in versions.items():
            expect(os.path.join(GOLDEN, "traces", trace + ".zst"), write())
    for view in VIEWS:
        @tap.case("%s: %s" % (name, " ".join(view)))
        def _(view=view):
            for trace in versions:
                view_is(name, trace, view)


def diff_is(name, other):
    """The same of two traces."""
    with tempfile.TemporaryDirectory() as folder:
        for trace in (name, other):
            os.symlink(os.path.join(GOLDEN, "traces", trace + ".zst"), os.path.join(folder, trace + ".zst"))
        os.chdir(folder)
        code, out, err = tap.report("diff", name + ".zst", other + ".zst", columns=None)
        os.chdir("/")
    expect(os.path.join(GOLDEN, "expected", name, f"diff-{other}.txt"), out + b"[exit %d]\n" % code + err)


for builder in traces.ALL:
    make(builder)
for pair in DIFFS:
    @tap.case("diff of %s and %s" % pair)
    def _(pair=pair):
        diff_is(*pair)

tap.main()
