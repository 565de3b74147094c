#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands beside a trace: --log against the log's lines, its error message against the events of `dump`, metrics against the
figures that the scrapes were written with."""
import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, REPORT, ROOT, case, check, dice, equal, main, read_json, report, sample, scratch  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
RUNS = sorted(os.path.dirname(p) for p in glob.glob(os.path.join(ROOT, "tests/report/vllm/*/trace.zst")))


def companions(*args):
    return json.loads(read_json(*args))["companions"]


@case("without the options nothing is added")
def nothing():
    trace = os.path.join(RUNS[0], "trace.zst")
    for view in ("summary", "oom", "info"):
        equal(companions(view, trace), None)


@case("--log: the same figures in summary, oom, info and explain; text has a line for each that the log has")
def logs():
    for run in sample(RUNS[::4], 3):
        log, trace = os.path.join(run, "log.txt"), os.path.join(run, "trace.zst")
        alone = json.loads(read_json("explain", log))["log"]
        for view in ("summary", "oom", "info"):
            equal(companions(view, trace, "--log", log)["log"], alone)
            out = report(view, trace, "--log", log)[1].decode()
            with open(log, encoding="utf-8") as f:
                said = re.search(r"Model loading took ([\d.]+) GiB", f.read())
            if said and float(said[1]) >= 1:
                check(f"weights {said[1]} GiB (line" in out, out[-800:])


@case("the log's error: PyTorch's message of each run of real vLLM is about the incident that dump has")
def errors_of_runs():
    seen = 0
    for run in RUNS if FULL else sample([r for r in RUNS if "http" not in r], 5):
        with open(os.path.join(run, "log.txt"), encoding="utf-8") as f:
            said = re.findall(r"CUDA out of memory\. Tried to allocate .*", f.read())
        if not said:
            continue
        seen += 1
        trace = os.path.join(run, "trace.zst")
        events = check_ledger.read_trace(REPORT, trace)
        failed = [e for e in events if e["result"] == 2 or e["op"] == "block-oom"]
        number, unit = re.search(r"allocate ([\d.]+) (\w+)", said[-1]).groups()
        size = float(number) * {"KiB": 1024, "MiB": MIB, "GiB": GIB}[unit]
        found = companions("oom", "--sysroot=/nowhere", trace, "--log", os.path.join(run, "log.txt"))["error"]
        check(abs(found["asked_bytes"] - size) <= 1, found)
        about = [e for e in events if e["event"] == found["event"]]
        check(about and abs(about[0]["bytes"] - size) <= 2.1 * MIB, (run, found, about))
        equal(found["event"], max(e["event"] for e in failed if abs(e["bytes"] - size) <= 2.1 * MIB), run)
    check(seen >= (10 if FULL else 0), seen)


def failing(sizes):
    """A trace of these failed calls: (bytes, device, free)."""
    t = Trace()
    t.info = {"clock.monotonic_ns": "1000", "clock.realtime_ns": str(1700000000 * 10 ** 9)}
    for i, (size, device, free) in enumerate(sizes):
        t.event("alloc", 2000 + i * 10 ** 9, api="cudaMalloc", bytes=size, device=device, result=2, space="device",
                free_bytes=free, total_bytes=24 * GIB, stack=[("f%d" % i, "/a")])
    return t.save(scratch("failing.zst"))


@case("the log's error: size, device and free memory choose the event; what fits nothing is said to")
def errors_chosen():
    trace = failing([(64 * MIB, 0, 20 * MIB), (64 * MIB, 1, 20 * MIB), (64 * MIB, 0, 31 * MIB), (2 * GIB, 0, GIB)])

    def found(tried, gpu, free):
        text = (f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU {gpu} has a total capacity of 24.00 "
                f"GiB of which {free} is free.")
        return companions("oom", trace, "--log", scratch("error.txt", text))["error"]

    equal(found("64.00 MiB", 0, "20.00 MiB")["event"], 0)
    equal(found("64.00 MiB", 1, "20.00 MiB")["event"], 1)
    equal(found("64.00 MiB", 0, "31.00 MiB")["event"], 2)
    equal(found("2.00 GiB", 0, "1.00 GiB")["event"], 3)
    equal(found("64.00 MiB", 0, "1.00 MiB"), {"asked_bytes": 64 * MIB, "event": 2, "fitting": 2})
    equal(found("66.50 MiB", 0, "1.00 MiB")["event"], None)
    equal(found("64.00 MiB", 3, "20.00 MiB")["event"], None)
    out = report("oom", trace, "--log=-", data=b"CUDA out of memory. Tried to allocate 3.00 GiB")[1].decode()
    check("no failed allocation of this trace asked for 3.00 GiB" in out, out[-300:])
    out = report("oom", trace, "--log=-", data=b"EngineDeadError")[1].decode()
    check("the log's error" not in out, out[-300:])
    equal(companions("oom", trace, "--log", scratch("error.txt", "EngineDeadError"))["error"], None)


def scrapes(rows, old=False, seconds=1700000000):
    """A file of scrapes: (usage, running, waiting, preemptions, queries, hits) each."""
    names = ["gpu_cache_usage_perc" if old else "kv_cache_usage_perc", "num_requests_running", "num_requests_waiting",
             "num_preemptions_total", "gpu_prefix_cache_queries_total" if old else "prefix_cache_queries_total",
             "gpu_prefix_cache_hits_total" if old else "prefix_cache_hits_total"]
    lines = []
    for i, row in enumerate(rows):
        lines.append(f"# scraped {seconds + i}.250000000")
        for name, value in zip(names, row):
            lines += [f"# HELP vllm:{name} words", f"# TYPE vllm:{name} gauge"]
            lines.append(f'vllm:{name}{{engine="0",model_name="a}} b"}} {value!r}')
        lines.append("process_resident_memory_bytes 1.0e+09")
    return scratch("metrics.txt", "\n".join(lines) + "\n")


@case("metrics: old and new names, counters that restart, and what was in use before the failure")
def metrics():
    rng = dice(5)
    trace = failing([(64 * MIB, 0, 20 * MIB)])
    for old in (False, True):
        usage = [rng.random() for _ in range(9)]
        counter = [5, 5, 9, 12, 1, 4, 4, 4, 4]  # 4 + 3 + 1 (restart) + 3
        hits = [10 * i for i in range(9)]
        path = scrapes([(u, 3.0, 2.0, float(c), float(40 * i), float(h))
                        for i, (u, c, h) in enumerate(zip(usage, counter, hits))], old, 1700000000 - 6)
        got = companions("oom", trace, "--log", path)["metrics"]
        equal(got["scrapes"], 9)
        equal(got["max_usage_millionths"], round(max(usage) * 1e6))
        equal(got["usage_before_millionths"], round(usage[5] * 1e6))  # the last one before +1 us
        equal(got["preemptions"], 11)
        equal(got["hit_rate_millionths"], 250000)
        equal([v["scenario"] for v in got["verdicts"]], ["preemption"])


@case("metrics: a quiet server has no verdict; a full one whose hit rate falls has; labels are added up")
def metrics_verdicts():
    trace = failing([(64 * MIB, 0, 20 * MIB)])
    quiet = scrapes([(0.4, 3.0, 0.0, 7.0, 100.0 * i, 50.0 * i) for i in range(10)])
    equal(companions("oom", trace, "--log", quiet)["metrics"]["verdicts"], [])
    hits = [60 * min(i, 5) + 5 * max(i - 5, 0) for i in range(11)]
    full = scrapes([(0.97, 9.0, 4.0, 0.0, 100.0 * i, float(h)) for i, h in enumerate(hits)])
    equal([v["scenario"] for v in companions("oom", trace, "--log", full)["metrics"]["verdicts"]], ["prefix-cache-pressure"])
    engines = scratch("engines.txt", "# scraped 1\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} "
                    "0.75\nvllm:num_preemptions_total{engine=\"0\"} 1\nvllm:num_preemptions_total{engine=\"1\"} 2\n# scraped 2\n"
                    "vllm:num_preemptions_total{engine=\"0\"} 4\nvllm:num_preemptions_total{engine=\"1\"} 6\n")
    got = companions("oom", trace, "--log", engines)["metrics"]
    equal((got["max_usage_millionths"], got["preemptions"]), (750000, 7))


@case("metrics: the most of each, with its time, also of a single scrape")
def most_of_each():
    trace = failing([(64 * MIB, 0, 20 * MIB)])

    def line(rows):
        out = report("info", trace, "--log", scrapes(rows, seconds=1700000000))[1].decode()  # 22:13:20Z
        return " ".join(re.search(r"the metrics:.*?\n(?! )", out, re.S)[0].split()).split("; before")[0]
    equal(line([(0.5, 3.0, 0.0, 0.0, 0, 0), (0.25, 28.0, 2.0, 1.0, 0, 0), (0.125, 7.0, 17.0, 2.0, 0, 0)]),
          "the metrics: 3 scrapes; at most 50.0 % of the KV cache in use (22:13:20Z), 28 requests running (22:13:21Z), "
          "17 waiting (22:13:22Z); 2 preemptions counted since the server's start")
    equal(line([(0.0, 0.0, 0.0, 14.0, 0, 0)]), "the metrics: 1 scrape; at most 0.0 % of the KV cache in use, 0 requests running, "
          "0 waiting; 14 preemptions counted since the server's start")


@case("metrics: days of scrapes keep their largest value and their counters")
def many_scrapes():
    trace = failing([(64 * MIB, 0, 20 * MIB)])
    rows = [(0.5 if i != 17321 else 0.9375, 1.0, 0.0, float(i // 100), 0.0, 0.0) for i in range(30000)]
    got = companions("oom", trace, "--log", scrapes(rows))["metrics"]
    equal((got["scrapes"], got["max_usage_millionths"], got["preemptions"]), (30000, 937500, 299))


@case("a file that cannot be read is exit code 3; commands that show no companions refuse them")
def refused():
    trace = os.path.join(RUNS[0], "trace.zst")
    equal(report("oom", trace, "--log", "/nowhere/x")[0], 3)
    equal(report("info", trace, "--log", "/nowhere/x")[0], 3)
    code, _, err = report("oom", trace, "--log", trace)  # what is packed would have nothing to say
    equal((code, err.endswith(b"trace.zst: is no text; unpack it first (zstd -d, gunzip), or name another file\n")), (3, True))
    equal(report("top", trace, "--log", "/nowhere/x")[0], 2)
    logs = [scratch(f"log-{i}.txt", "EngineDeadError") for i in range(3)]
    code, _, err = report("oom", trace, *[f"--log={log}" for log in logs[:2]])
    equal((code, b"a second file of a log; --log takes one" in err), (2, True))
    equal(report("oom", trace, *[f"--log={log}" for log in logs])[0], 2)
    code, _, err = report("oom", "-", "--log=-", data=b"")
    equal((code, b"--log=-: standard input is read already; name a file" in err), (2, True))
    metrics = scrapes([(.5, 1, 0, 0, 0, 0)])
    for order in ([logs[0], metrics], [metrics, logs[0]]):
        got = companions("oom", trace, *[f"--log={path}" for path in order])
        check(got["log"] and got["metrics"], order)
    with open(metrics, "rb") as f:
        piped = json.loads(report("oom", "--json", trace, "--log=-", data=f.read())[1])["companions"]
    check(piped["metrics"] and not piped["log"], piped)
    several = json.loads(report("oom", "--json", trace, trace, "--log=-", data=b"EngineDeadError\n")[1])["documents"]
    equal([d["companions"]["log"]["lines"] for d in several], [1, 1], "a pipe is read once, and of each trace")
    code, _, err = report("explain", metrics)
    equal((code, b"has a server's metrics; use: cutrace-report explain --log=FILE TRACE" in err), (3, True))


main()
