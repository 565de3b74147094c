#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --log: each request that ran out of memory by the ledger, and each growth, is one line, once."""
import calendar
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import mkjournal  # noqa: E402
from live import CUTRACE, Holder, wait_for, written  # noqa: E402
from scrape import Clock, Served, of, one  # noqa: E402
from tap import case, check, equal, main, read_json  # noqa: E402
from traces import G, M  # noqa: E402
from ways import HANG, folder  # noqa: E402

KEYS = ["schema", "kind", "time", "t_ns", "pid", "program", "trace", "device"]


def lines(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    check(not text or text.endswith("\n"), text)
    return text.splitlines()


def wait_for_lines(path, count):
    return wait_for(lambda: len(found := lines(path)) >= count and found)


def look_again(s, count=3):
    """Some looks more."""
    seen = set()
    s.wait(lambda x: seen.add(one(x, "cutrace_watch_last_look_timestamp_seconds")) or len(seen) > count)


def truth(h):
    """The failed calls of the ledger that were not PyTorch's first try."""
    return [e for e in h.ledger() if e["result"] == 2]


@case("as JSON: each failed request once, with its size, outcome and the verdict of cutrace-report, also those from before")
def as_json():
    with Holder() as h:
        log = os.path.join(h.where, "log")
        equal((h.tell("first", 900 * M), h.tell("second", 500 * M)), (0, 2))
        with Served("--log=json", h.where, log=log) as s:
            (before,) = map(json.loads, wait_for_lines(log, 1))
            equal(h.tell("second", 501 * M), 2)
            after = json.loads(wait_for_lines(log, 2)[1])
            look_again(s)
            verdict = json.loads(read_json("summary", h.trace))["verdicts"][0]
            for line, failed in zip((before, after), truth(h)):
                equal(list(line), KEYS + ["event", "requested_bytes", "outcome", "scenario", "title", "confidence"])
                equal((line["schema"], line["kind"], line["pid"], line["trace"], line["device"], line["requested_bytes"], line["outcome"]),
                      ("cutrace.watch.log/1", "incident", h.process.pid, h.trace, 0, failed["bytes"], "failed"))
                check(abs(line["t_ns"] - failed["t_ns"]) < 1e9 * HANG, (line, failed))
                check(abs(calendar.timegm(time.strptime(line["time"], "%Y-%m-%dT%H:%M:%SZ")) - time.time()) < HANG, line)
            equal((after["scenario"], after["confidence"]), (verdict["scenario"], verdict["confidence"]))
            equal(len(lines(log)), 2)
            equal(s.stop(), (0, ""))


@case("as text, without --serve and without a terminal; what PyTorch's repetition healed is said to be healed")
def as_text():
    with Holder() as h:
        with open(os.path.join(h.where, "log"), "w", encoding="utf-8") as out:
            watch = subprocess.Popen([CUTRACE, "watch", "--log", "--interval=100ms", h.where], stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.PIPE, text=True)
        equal([h.tell("block", 600 * M), h.tell("unblock"), h.tell("block", 700 * M)], [0] * 3)  # frees the first segment
        wait_for_lines(out.name, 1)
        equal(h.tell("block", 2000 * M), 2)
        healed, failed = wait_for_lines(out.name, 2)
        begin = rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ cutrace: python\S* \(pid {h.process.pid}\): GPU 0: a request of "
        check(re.fullmatch(begin + "700.00 MiB ran out of memory, and succeeded when PyTorch repeated it", healed), healed)
        check(re.fullmatch(begin + r"1.95 GiB failed: a request larger than the device \(impossible-request, certain\)", failed), failed)
        watch.send_signal(signal.SIGTERM)
        equal((watch.wait(HANG), watch.stderr.read()), (0, ""))
        watch.stderr.close()
        with Served(h.where) as s:
            x = s.wait(lambda x: of(x, "cutrace_incidents_total"))
            equal(of(x, "cutrace_failed_requests_total", pid=str(h.process.pid)), {("failed",): 1, ("recovered_later",): 0, ("retried",): 1})
            equal(of(x, "cutrace_incidents_total", pid=str(h.process.pid)), {("impossible-request",): 1, ("recovered",): 1})


@case("of a flood the last eight are told one by one, the others by their number; the counter has all")
def flood():
    with Holder() as h:
        log = os.path.join(h.where, "log")
        for i in range(30):
            equal(h.tell("first", (2000 + i) * M), 2)
        with Served("--log=json", h.where, log=log) as s:
            s.wait(lambda x: of(x, "cutrace_failed_requests_total", outcome="failed") == {(str(h.process.pid),): 30})
            look_again(s)
            got = list(map(json.loads, lines(log)))
            equal(sum(line.get("count", 1) for line in got), 30)
            equal([line["requested_bytes"] for line in got if line["kind"] == "incident"][-8:], [(2022 + i) * M for i in range(8)])
            equal({line["kind"] for line in got}, {"incident", "more-incidents"})
            equal(h.tell("first", 3000 * M), 2)
            equal(json.loads(wait_for_lines(log, len(got) + 1)[-1])["requested_bytes"], 3000 * M)


@case("a process that failed and was killed at once is told, too")
def killed():
    with Holder() as h:
        log = os.path.join(h.where, "log")
        with Served("--log=json", h.where, log=log) as s:
            s.wait(lambda x: of(x, "cutrace_process_state"))
            equal(h.tell("first", 2000 * M), 2)
            h.process.kill()
            h.process.wait()
            (line,) = map(json.loads, wait_for_lines(log, 1))
            equal((line["requested_bytes"], line["outcome"], line["scenario"]), (2000 * M, "failed", "impossible-request"))
            s.wait(lambda x: of(x, "cutrace_process_state", state="killed") == {(str(h.process.pid),): 1})
            look_again(s)
            equal(len(lines(log)), 1)


def change(where):
    """The journal says that there are more events, so that the details are read again."""
    with open(os.path.join(where, "live.zst.journal"), "r+b") as f:
        f.seek(mkjournal.COUNTERS)
        events = int.from_bytes(f.read(8), "little")
        f.seek(mkjournal.COUNTERS)
        f.write((events + 1).to_bytes(8, "little"))


@case("growth is told once, with its interval and the time to full; once more when it has stopped for ten minutes")
def growth():
    where = written([i * 100 * M for i in range(1, 125)])
    log = os.path.join(folder(), "log")
    with Clock(where) as clock, Served("--log=json", where, log=log, env=clock.env) as s:
        (line,) = map(json.loads, wait_for_lines(log, 1))
        equal(list(line), KEYS + ["growth", "full"])
        equal((line["kind"], line["pid"], line["device"]), ("growth", os.getpid(), 0))
        equal({of_["kind"] for of_ in line["growth"].values()}, {"rising"})
        check(abs(line["growth"]["device"]["bytes_per_minute"] - 1200 * M) < 30 * M, line)
        free = 80 * G - M - 124 * 100 * M
        check(abs(line["full"]["in_ns"] / 1e9 - free / (20 * M)) < 60 and line["full"]["earliest_ns"] <= line["full"]["in_ns"], line)
        for _ in range(3):
            x = s.wait(lambda x: of(x, "cutrace_time_to_full_seconds"))
            events = one(x, "cutrace_recorded_events_total")
            change(where)
            s.wait(lambda x, before=events: one(x, "cutrace_recorded_events_total") > before and one(x, "cutrace_details_age_seconds") < 1)
            look_again(s)
            equal(len(lines(log)), 1)
        clock.put_ahead(700)  # without an event since then, there is no growth any more
        s.wait(lambda x: not of(x, "cutrace_time_to_full_seconds"))
        look_again(s)
        equal(len(lines(log)), 1)
        written([i * 100 * M for i in range(1, 125)], where=where, ahead_s=700)
        equal(json.loads(wait_for_lines(log, 2)[1])["kind"], "growth")
    with Served("--log", where, log=log) as s:
        (line,) = wait_for_lines(log, 1)
        check(re.search(r"\(pid \d+\): GPU 0: what all use grows by \+1\.17 GiB/min, full in \d[\d:.]* ?s? \(95 %: .*\); "
                        r"this process's allocations: \+1\.17 GiB/min$", line), line)


@case("an output that cannot be written ends it with 5")
def closed():
    with Holder() as h:
        equal(h.tell("first", 2000 * M), 2)
        reader, closed_pipe = os.pipe()
        os.close(reader)
        for out in (os.open("/dev/full", os.O_WRONLY), closed_pipe):
            done = subprocess.run([CUTRACE, "watch", "--log", "--interval=100ms", h.where], stdin=subprocess.DEVNULL, stdout=out, check=False,
                                  timeout=HANG)
            os.close(out)
            equal(done.returncode, 5)


main()
