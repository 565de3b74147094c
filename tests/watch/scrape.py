# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --serve as a client sees it: it is started, asked, and its metrics are read by the words of the formats."""
import http.client
import os
import re
import signal
import struct
import subprocess
import time

from live import CUTRACE
from tap import BUILD, ROOT, Skip, check, equal
from ways import HANG

OPENMETRICS = "application/openmetrics-text"
ENDINGS = {"counter": "_total", "info": "_info"}
with open(os.path.join(ROOT, "tools/watch/metrics.def"), encoding="utf-8") as table:
    ROWS = re.findall(r'^CT_WATCH_METRIC\(\w+, "(\w+)", "(\w*)", "(\w+)", \w+, "([\w ]*)", "(.*)"\)$', table.read(), re.M)
# name of the samples -> (type, labels besides those of the process, help)
METRICS = {name + ("_" + unit if unit else "") + ENDINGS.get(kind, ""): (kind, labels.split(), text) for name, unit, kind, labels, text in ROWS}


class Served:
    """A running `cutrace watch --serve`."""

    def __init__(self, *words, serve="0", interval="100ms", log=None, **kw):
        self.log = log
        # (stdout is a file: nothing waits for somebody to read it)
        with open(log or os.devnull, "wb") as out:
            self.process = subprocess.Popen([CUTRACE, "watch", f"--serve={serve}", f"--interval={interval}", *map(str, words)],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, **kw)
        line = self.process.stderr.readline()
        found = re.fullmatch(r"cutrace: watch: serves http://(.*):(\d+)/metrics\n", line)
        check(found, line)
        self.host, self.port = found[1].strip("[]"), int(found[2])

    def ask(self, path="/metrics", method="GET", accept=None, **fields):
        """(status, fields, body)"""
        c = http.client.HTTPConnection(self.host, self.port, timeout=HANG)
        c.request(method, path, headers={**({"Accept": accept} if accept else {}), **fields})
        answer = c.getresponse()
        body = answer.read()
        c.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, body

    def samples(self, accept=None):
        status, fields, body = self.ask(accept=accept)
        equal(status, 200, body)
        return parse(body.decode(), fields["content-type"].startswith(OPENMETRICS))

    def wait(self, holds, accept=None):
        """The samples when they are so."""
        end = time.monotonic() + HANG
        while True:
            status, fields, body = self.ask(accept=accept)
            samples = parse(body.decode(), fields["content-type"].startswith(OPENMETRICS)) if status == 200 else {}
            if samples and holds(samples):
                return samples
            check(time.monotonic() < end, body.decode())
            time.sleep(.02)

    def stop(self, number=signal.SIGTERM):
        """(exit code, what else it said)"""
        self.process.send_signal(number)
        code = self.process.wait(HANG)
        return code, self.process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()


def parse(text, is_openmetrics):
    """(name, labels as a sorted tuple) -> value, by the grammars of OpenMetrics 1.0 and of the text format 0.0.4.

    Raises where a page is not as its format wants it: families in one piece, each introduced once, no sample twice, units at
    the end of names, the end mark."""
    samples, described, family, finished = {}, {}, None, set()
    check(text.endswith("\n"))
    lines = text.split("\n")[:-1]
    if is_openmetrics:
        equal(lines.pop(), "# EOF")
    for line in lines:
        meta = re.fullmatch(r"# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)", line)
        if meta:
            word, name, rest = meta.groups()
            if name != family:
                finished.add(family)
                check(name not in finished, f"{name} comes twice")
                family = name
            of = described.setdefault(name, {})
            check(word not in of, line)
            of[word] = rest
            if word == "UNIT":
                check(is_openmetrics and name.endswith("_" + rest), line)
            if word == "TYPE":
                check(rest in ("gauge", "counter") or (is_openmetrics and rest == "info"), line)
            continue
        found = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.]+(?:e[+-]?\d+)?)', line)
        check(found, f"no sample: {line}")
        name, labels, value = found.groups()
        kind = described[family]["TYPE"]
        equal(name, family + ENDINGS.get(kind, "") if is_openmetrics else family, line)
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        equal(len({k for k, _ in pairs}), len(pairs), line)
        key = name, tuple(sorted((k, re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), v)) for k, v in pairs))
        check(key not in samples, f"twice: {line}")
        samples[key] = float(value) if "." in value else int(value)
    return samples


def of(samples, name, **labels):
    """The samples of a metric with these labels: the other labels' values -> value."""
    out = {}
    for (n, pairs), value in samples.items():
        pairs = dict(pairs)
        if n == name and labels.items() <= pairs.items():
            out[tuple(v for k, v in sorted(pairs.items()) if k not in labels and k != "program")] = value
    return out


def one(samples, name, **labels):
    found = list(of(samples, name, **labels).values())
    equal(len(found), 1, (name, labels))
    return found[0]


class Clock:
    """CLOCK_MONOTONIC of a program that is started with its `env`, which can be put ahead: what takes minutes is over at once."""

    def __init__(self, where):
        library = os.path.join(BUILD, "tests/recorder/libclock_ahead.so")
        if not os.path.exists(library):
            raise Skip("needs a library that cannot be preloaded into this build")
        self.path = os.path.join(where, "clock")
        self.seconds = 0
        self.put_ahead(0)
        self.env = {**os.environ, "LD_PRELOAD": library, "CLOCK_AHEAD": self.path}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def put_ahead(self, seconds):
        self.seconds += seconds
        with open(self.path, "r+b" if self.seconds else "wb") as f:
            f.write(struct.pack("<Q", int(self.seconds * 1e9)))
