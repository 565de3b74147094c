# SPDX-License-Identifier: Apache-2.0
"""A case of cases.py by the command `vllm serve`: http_server.py CASE

Starts the server as people do, asks it for completions over HTTP, and ends it as an orchestrator does (SIGTERM). Of a
case that says so, `cutrace record-metrics` runs beside it and writes metrics.txt."""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))  # /opt/bed, but on a machine of gpu-check
PORT = 8000
BASE = f"http://127.0.0.1:{PORT}"
OPTIONS = {"load-format": "dummy", "enforce-eager": True, "skip-tokenizer-init": True, "max-model-len": 2048,
           "host": "127.0.0.1", "port": PORT, "served-model-name": "model"}
METRICS = "metrics.txt"
WORDS = 30000  # of the models' vocabularies that prompts are made of
sent = 0


def flags(options):
    for name, value in {k: v for k, v in options.items() if v is not False}.items():
        yield "--" + name.replace("_", "-")
        if value is not True:
            yield json.dumps(value) if isinstance(value, dict) else str(value)


def command(model, arguments, folder="/opt/bed"):
    """The words behind `python`: the arguments of a case, those that are False left out. folder: this one."""
    dashed = {name.replace("_", "-"): value for name, value in arguments.items()}
    return [os.path.join(folder, "bin/vllm"), "serve", model, *flags({**OPTIONS, **dashed})]


def wait_until_ready(server):
    while server.poll() is None:
        try:
            with urllib.request.urlopen(BASE + "/health", timeout=60) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)  # (a refused connection is refused at once)
    sys.exit(f"the server ended with {server.returncode}")


# ---- metrics ---------------------------------------------------------------------------------------

def start_metrics():
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return subprocess.Popen(["/opt/lib/cutrace", "record-metrics", BASE, "-o", METRICS, "--interval=200ms"], env=plain)


def scrapes():
    try:
        with open(METRICS, encoding="utf-8") as f:
            return sum(line.startswith("# scraped ") for line in f)
    except FileNotFoundError:
        return 0


# ---- requests --------------------------------------------------------------------------------------

def complete(prompt, tokens):
    body = {"model": "model", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True,
            "return_token_ids": True, "detokenize": False}
    request = urllib.request.Request(BASE + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def prompts(requests, prompt, shared, beginnings):
    """Of as many beginnings of `shared` tokens, in turn; what follows is of each request alone."""
    global sent
    for i in range(requests):
        sent += 1
        alone = [sent % WORDS + 1] * (prompt - shared)
        yield [WORDS + i % beginnings] * shared + alone


def generate(requests=3, prompt=64, tokens=16, shared=0, beginnings=1, at_once=1, scrapes_more=0):
    """Requests, again and again until the metrics were scraped so many times more."""
    until = scrapes() + scrapes_more
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        while True:
            asked = list(prompts(requests, prompt, shared, beginnings))
            done = list(pool.map(complete, asked, [tokens] * requests))
            if scrapes() >= until:
                break
    print("SERVED", done[:8], flush=True)


def serve(case):
    metrics = start_metrics() if case["metrics"] else None
    for name, words in case["steps"]:
        {"generate": generate}[name](**words)
    if metrics:
        metrics.send_signal(signal.SIGTERM)
        print("METRICS", metrics.wait(), flush=True)


def main():
    case = json.loads(sys.argv[1])
    with subprocess.Popen([sys.executable, *command(case["model"], case["arguments"], HERE)]) as server:
        try:
            wait_until_ready(server)
            serve(case)
        finally:
            server.send_signal(signal.SIGTERM)
    print("DONE", flush=True)


if __name__ == "__main__":
    main()
