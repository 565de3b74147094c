# SPDX-License-Identifier: Apache-2.0
"""A case of cases.py with vLLM's HTTP server: http_server.py CASE

Starts the server as people do, asks it for completions, and ends it as an orchestrator does (SIGTERM)."""
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

PORT = 8000
BASE = f"http://127.0.0.1:{PORT}"
OPTIONS = {"load-format": "dummy", "enforce-eager": True, "skip-tokenizer-init": True, "max-model-len": 2048,
           "host": "127.0.0.1", "port": PORT, "served-model-name": "model"}


def flags(options):
    for name, value in options.items():
        yield "--" + name.replace("_", "-")
        if value is not True:
            yield json.dumps(value) if isinstance(value, dict) else str(value)


def wait_until_ready(server):
    while server.poll() is None:
        try:
            with urllib.request.urlopen(BASE + "/health", timeout=60) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            time.sleep(0.5)  # (a refused connection is refused at once)
    sys.exit(f"the server ended with {server.returncode}")


def complete(number, prompt, tokens):
    body = {"model": "model", "prompt": [3 + number] * prompt, "max_tokens": tokens, "ignore_eos": True,
            "return_token_ids": True, "detokenize": False}
    request = urllib.request.Request(BASE + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def main():
    case = json.loads(sys.argv[1])
    words = ["-m", "vllm.entrypoints.cli.main", "serve", case["model"], *flags({**OPTIONS, **case["arguments"]})]
    with subprocess.Popen([sys.executable, *words]) as server:
        try:
            wait_until_ready(server)
            for number in range(3):
                print("SERVED", complete(number, 64, 16), flush=True)
        finally:
            server.send_signal(signal.SIGTERM)
    print("DONE", flush=True)


if __name__ == "__main__":
    main()
