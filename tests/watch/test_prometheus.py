#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: prometheus
"""Debian's Prometheus scrapes cutrace watch --serve, and promtool checks its metrics and the rules for alerts.

scripts/fetch-prometheus.sh fetches both; where they cannot be had, the cases are skipped with the reason."""
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
sys.path.append(os.path.join(HERE, "../page"))
import browser  # noqa: E402
import check_ledger  # noqa: E402
from live import Holder  # noqa: E402
from scrape import METRICS, OPENMETRICS, Served, of  # noqa: E402
from tap import REPORT, ROOT, case, check, equal, fetched, main  # noqa: E402
from traces import M  # noqa: E402
from ways import HANG, folder  # noqa: E402

subprocess.run([os.path.join(ROOT, "scripts/fetch-prometheus.sh"), browser.DEPS], check=False)
ALERTS = os.path.join(ROOT, "tools/watch/alerts")
# Of vLLM 0.33.0 (vllm/v1/metrics/loggers.py; prometheus_client adds _total to counters).
VLLM = {"vllm:kv_cache_usage_perc", "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:num_preemptions_total",
        "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"}


def tool(name):
    return os.path.join(fetched(os.path.join(browser.DEPS, "prometheus/debian"), "scripts/fetch-prometheus.sh"), name)


def promtool(*words, data=None, cwd=None):
    done = subprocess.run([tool("promtool"), *words], input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, check=False)
    return done.returncode, done.stdout.decode()


@case("promtool check metrics has nothing to say about either page")
def metrics():
    with Holder() as h, Served(h.where) as s:
        equal((h.tell("block", 5 * M), h.tell("first", 2000 * M)), (0, 2))
        s.wait(lambda x: of(x, "cutrace_incidents_total"))
        equal(promtool("check", "metrics", data=s.ask()[2]), (0, ""))


@case("promtool: the rules are valid, and each alert fires and does not fire as its unit tests say; none is without a test")
def rules():
    code, text = promtool("check", "rules", "alerts.yml", cwd=ALERTS)
    equal(code, 0, text)
    code, text = promtool("test", "rules", "alerts_test.yml", cwd=ALERTS)
    equal(code, 0, text)


@case("each alert has both kinds of tests, names only metrics that there are, and a runbook with commands that there are")
def alerts():
    with open(os.path.join(ALERTS, "alerts.yml"), encoding="utf-8") as f:
        alerts_text = f.read()
    with open(os.path.join(ALERTS, "alerts_test.yml"), encoding="utf-8") as f:
        tests = f.read().split("  - name: ")[1:]
    blocks = alerts_text.split("      - alert: ")[1:]
    for block in blocks:
        name = block.split("\n", 1)[0]
        fires = [("exp_alerts: []" not in t) for t in tests if t.startswith(f"'{name}:")]
        equal(set(fires), {True, False}, name)
        expression = re.sub(r"#.*", "", block[block.index("expr:"):block.index("labels:")])
        used = set(re.findall(r"\b(?:cutrace_|vllm:)\w+", expression))
        check(used and used <= set(METRICS) | VLLM, (name, used))
        (runbook,) = re.findall(r'runbook: "(.*)"', block)
        commands = re.findall(r"cutrace-report (\w+)", runbook)
        check(commands, runbook)
        for command in commands:
            equal(subprocess.run([REPORT, command, "--help"], stdout=subprocess.DEVNULL, check=False).returncode, 0, command)


def expressions():
    """Of the dashboard, with its variables replaced as Grafana would."""
    with open(os.path.join(ALERTS, "dashboard.json"), encoding="utf-8") as f:
        dashboard = json.load(f)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], re.sub(r"\$(?!__)\w+", ".*", target["expr"]).replace("$__rate_interval", "1m")


@case("the dashboard: metrics that there are, panels that do not overlap, variables that are defined")
def dashboard():
    with open(os.path.join(ALERTS, "dashboard.json"), encoding="utf-8") as f:
        text = f.read()
    d = json.loads(text)
    used = set(re.findall(r"\b(?:cutrace_|vllm:)\w+", text))
    check(used <= set(METRICS) | VLLM and {n for n in VLLM if n in used} == VLLM, used - set(METRICS) - VLLM)
    loggers = os.path.join(browser.DEPS, "vllm/0.33.0/vllm/v1/metrics/loggers.py")
    if os.path.exists(loggers):
        with open(loggers, encoding="utf-8") as f:
            names = set(re.findall(r'name="(vllm:\w+)"', f.read()))
        equal({n.removesuffix("_total") for n in VLLM} - names, set())
    variables = {v["name"] for v in d["templating"]["list"]}
    equal(set(re.findall(r"\$\{?([a-z]\w*)", text)), variables)
    cells = [(x, y) for p in d["panels"] for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    equal((len(set(cells)), max(x for x, _ in cells) < 24, len({p["id"] for p in d["panels"]})), (len(cells), True, len(d["panels"])))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, path, **words):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(words)}", timeout=HANG) as answer:
        return json.load(answer)["data"]


@case("Prometheus scrapes a traced process in OpenMetrics: what it stores is what the ledgers say, to the byte")
def scraped():
    binary, where, port = tool("prometheus"), folder(), free_port()
    with Holder() as h, Served(h.where) as s:
        equal([h.tell("first", 48 * M), h.tell("block", 5 * M), h.tell("block", 3 * M), h.tell("unblock")], [0] * 4)
        config = os.path.join(where, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as f:
            f.write("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: cutrace\n  static_configs:\n"
                    f"  - targets: ['127.0.0.1:{s.port}']\n")
        equal(promtool("check", "config", config)[0], 0)
        with open(os.path.join(where, "log"), "wb") as log:
            server = subprocess.Popen([binary, "--config.file=" + config, "--storage.tsdb.path=" + os.path.join(where, "data"),
                                       f"--web.listen-address=127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            allocated, reserved = h.blocks()
            tracked, last = check_ledger.replay(h.ledger())[0][0], [e for e in h.ledger() if "free" in e][-1]
            want = {"cutrace_process_live_bytes": tracked, "cutrace_torch_allocated_bytes": allocated,
                    "cutrace_torch_reserved_bytes": reserved, "cutrace_device_capacity_bytes": last["total"],
                    "cutrace_device_free_bytes": last["free"], "sum(cutrace_device_memory_bytes)": last["total"],
                    'cutrace_process_state{state="recording"}': 1, 'up{job="cutrace"}': 1}
            end, got = time.monotonic() + HANG, None
            while got != want:
                check(time.monotonic() < end, got)
                try:
                    got = {q: int(r[0]["value"][1]) if (r := ask(port, "query", query=q)["result"]) else None for q in want}
                except OSError:
                    time.sleep(.1)
            for title, expression in expressions():  # an error is an HTTP error
                found = ask(port, "query", query=expression)["result"]
                is_there = not re.search("vllm:|growth|time_to_full|incidents", expression)
                check(found or not is_there, (title, expression))
            (target,) = ask(port, "targets")["activeTargets"]
            equal((target["health"], target["lastError"]), ("up", ""))
            kinds = {k: v[0]["type"] for k, v in ask(port, "metadata").items() if k.startswith("cutrace_")}
            names = {k: k.removesuffix("_total") if kind == "counter" else k.removesuffix("_info") if kind == "info" else k
                     for k, (kind, _, _) in METRICS.items()}
            equal(kinds, {names[k]: kind for k, (kind, _, _) in METRICS.items()}, OPENMETRICS)
        finally:
            server.kill()
            server.wait()


main()
