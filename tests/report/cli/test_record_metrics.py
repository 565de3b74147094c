#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: curl
"""`cutrace record-metrics` against servers that answer as vLLM does, or do not: what it writes is read by the report, and
compared with what the server counted while it answered."""
import contextlib
import http.server
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from tap import BUILD, PLAIN, ROOT, check, case, equal, main, read_json, report, skip_all  # noqa: E402

CUTRACE = os.path.join(BUILD, "cutrace")
TRACE = os.path.join(ROOT, "tests/report/golden/traces/refused.zst")
SECRET = "/data/models/acme-secret-70b"
FOLDER = tempfile.mkdtemp(prefix="metrics.")
if not shutil.which("curl"):
    skip_all("curl is not installed")

# The names of each generation of vLLM, and of SGLang: usage, running, waiting, preemptions, queries, hits.
NAMES = {
    "V1": ("vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:num_preemptions_total",
           "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
    "V0": ("vllm:gpu_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:num_preemptions_total", None,
           None),
    "SGLang": ("sglang:token_usage", "sglang:num_running_reqs", "sglang:num_queue_reqs", None, None, None),
}


def page(n, names="V1", engines=1):
    """What a server says at its n-th answer, and the values in it."""
    values = (0.1 * (n % 10), 3 + n, n % 4, 7 * n, 100 * n, 40 * n)
    lines = ["# HELP python_gc_objects_collected_total Objects collected during gc", "python_gc_objects_collected_total 12.0",
             f'vllm:cache_config_info{{model="{SECRET}",block_size="16",num_gpu_blocks="{100 + n}",cache_dtype="{SECRET}"}} 1.0',
             f'vllm:lora_requests_info{{running_lora_adapters="{SECRET}"}} 1.7e+09']
    for name, value in zip(NAMES[names], values):
        for engine in range(engines if name else 0):
            lines += [f"# HELP {name} words", f"# TYPE {name} gauge",
                      f'{name}{{engine="{engine}",model_name="{SECRET}, \\"engine=\\" }} x"}} {value!r}']
            lines.append(f'{name}_created{{model_name="{SECRET}"}} 1.7e+09')
    return "\n".join(lines) + "\n", values


class Server:
    """A server on a port of its own. `answers` is called with a handler and the number of the request."""

    def __init__(self, answers, port=0):
        self.begun = self.count = 0  # requests; `count` of them are answered
        self.lock = threading.Condition()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                with outer.lock:  # (the next request may come before this one is counted as answered)
                    number, outer.begun = outer.begun, outer.begun + 1
                with contextlib.suppress(OSError):
                    answers(self, number)
                with outer.lock:
                    outer.count += 1
                    outer.lock.notify_all()

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def wait_for(self, count):
        with self.lock:
            while self.count < count:
                self.lock.wait()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def send(handler, text, length=None, code=200):
    data = text.encode() if isinstance(text, str) else text
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(data) if length is None else length))
    handler.end_headers()
    handler.wfile.write(data)


def good(names="V1", engines=1):
    return lambda handler, n: send(handler, page(n, names, engines)[0])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(url, name, *more, **popen):
    path = os.path.join(FOLDER, name)
    # (a clock that runs through: a server that is asked often, so that no case waits)
    return path, subprocess.Popen([CUTRACE, "record-metrics", url, "-o", path, "--interval=100ms", *more], stderr=subprocess.PIPE,
                                  env=PLAIN, **popen)


def stop(process, how=signal.SIGTERM):
    process.send_signal(how)
    said = process.communicate()[1].decode()
    return process.returncode, said


def scrapes(path):
    """Of a file: a list of {name: sum of the values}; all of it must be as the reader wants it."""
    found, last = [], 0
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    equal(lines.pop(), "", "the file ends within a line")
    check(lines[0].startswith("# cutrace record-metrics"), lines[0])
    for line in lines[1:]:
        stamp = re.fullmatch(r"# scraped (\d+\.\d{9})", line)
        if stamp:
            check(float(stamp[1]) > last, line)
            last = float(stamp[1])
            found.append({})
            continue
        if re.fullmatch(r'vllm:cache_config_info\{num_gpu_blocks="1\d+",block_size="16"\} 1.0', line):
            continue
        sample = re.fullmatch(r'((?:vllm|sglang):\w+)(?:\{engine="\d+"\})? (\S+)', line)
        check(sample, line)
        found[-1][sample[1]] = found[-1].get(sample[1], 0) + float(sample[2])
    return found


def count_scrapes(path):
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as f:
        return f.read().count(b"# scraped ")


def has_scrapes(path, count):
    """Waits for so many in the file: a condition, not a time."""
    while count_scrapes(path) < count:
        time.sleep(0.01)


def read_back(path):
    return json.loads(read_json("summary", "--log", path, TRACE))["companions"]["metrics"]


def recorded(names, engines):
    server = Server(good(names, engines))
    path, process = start(f"http://127.0.0.1:{server.port}", f"{names}.{engines}")
    has_scrapes(path, 6)
    equal(stop(process), (0, ""))
    server.close()
    found = scrapes(path)
    running = NAMES[names][1]  # 3 + n at the n-th answer, of each engine
    first = int(found[0][running] / engines) - 3
    for i, scrape in enumerate(found):
        want = {name: v * engines for name, v in zip(NAMES[names], page(first + i)[1]) if name}
        equal({k: round(v, 9) for k, v in scrape.items()}, {k: round(v, 9) for k, v in want.items()}, f"scrape {i}")
    with open(path, "rb") as f:
        data = f.read()
    equal(data.count(b'num_gpu_blocks="%d"' % (100 + first)), 1, "the labels of the KV cache's size")
    for word in (b"acme", b"127.0.0.1", b":%d" % server.port, b"model", b"created", b"python_gc"):
        check(word not in data, f"{word} is in the file")
    told = read_back(path)
    equal(told["scrapes"], len(found))
    usages = [s[NAMES[names][0]] / engines for s in found]
    equal(told["max_usage_millionths"], round(max(usages) * 1000000))
    if NAMES[names][3]:
        equal(told["preemptions"], found[-1][NAMES[names][3]] - found[0][NAMES[names][3]])


for generation in NAMES:
    case(f"{generation}: each answer is a scrape with its values, the report reads them, and no name is in the file")(
        lambda generation=generation: recorded(generation, 1))
case("several engines: the report adds them up, because the file tells them apart")(lambda: recorded("V1", 3))


@case("a server that is not there yet, and one that is started again: the scrapes go on, and each is said once")
def restarts():
    port = free_port()
    path, process = start(f"127.0.0.1:{port}", "restarts")
    check("no connection" in process.stderr.readline().decode(), "the first miss is said")
    for _ in range(2):
        before = count_scrapes(path)
        server = Server(good(), port)
        has_scrapes(path, before + 3)
        server.close()
        check("answers" in process.stderr.readline().decode(), "that it answers is said")
        gone = process.stderr.readline().decode()  # (a request that the server has not taken is reset: curl 55 or 56)
        check(any(word in gone for word in ("no connection", "the connection ended", "curl 55")), "that it is gone is said: " + gone)
    code, said = stop(process, signal.SIGINT)
    equal((code, said), (0, ""))
    found = [s["vllm:num_preemptions_total"] for s in scrapes(path)]
    equal(found.count(0), 2, "the counter began again")
    grown = sum(b - a if b >= a else b for a, b in zip(found, found[1:]))
    equal(read_back(path)["preemptions"], grown)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    for _ in range(40):
        handler.wfile.write(b"vllm:num_requests_running{a=\"" + b"x" * (1 << 20))


# What answers, and what is said of it.
DAMAGED = {
    "500": (lambda handler, n: send(handler, page(n)[0], code=500), "answered with an error"),
    "an answer that ends in the middle": (lambda handler, n: send(handler, page(n)[0], length=100000), "in the middle"),
    "a connection that ends without an answer": (lambda handler, n: handler.connection.close(), "empty answer"),
    "an answer of any size, with lines of any length": (lambda handler, n: endless(handler), "more than 16 MiB"),
}
for what_, (answers_, why_) in DAMAGED.items():
    @case(f"{what_}: no scrape, and it is said; little memory")
    def damaged(answers=answers_, why=why_):
        """Each behind a good one."""
        server = Server(lambda handler, n: answers(handler, n) if n % 2 else send(handler, page(n)[0]))
        path, process = start(f"http://127.0.0.1:{server.port}/metrics", "damaged." + re.sub(r"\W", "", why), "--interval=150ms")
        has_scrapes(path, 3)
        code, said = stop(process)
        server.close()
        equal(code, 0)
        check(why in said, said)
        for s in scrapes(path):
            check(s in [{name: v for name, v in zip(NAMES["V1"], page(n)[1])} for n in range(0, 400, 2)], s)
        check(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 200 << 10, "memory")


@case("another page: it is said that it has none of the metrics, and the exit code is 4")
def another():
    server = Server(lambda handler, n: send(handler, "<html>vllm:num_requests_running is a metric</html>\n"))
    path, process = start(f"http://127.0.0.1:{server.port}/", "another")
    server.wait_for(2)
    code, said = stop(process)
    server.close()
    equal(code, 4)
    check("none of these metrics" in said and "in all the time" in said, said)
    equal(scrapes(path), [])


@case("a server that does not answer: a signal ends it at once")
def hangs():
    event = threading.Event()
    server = Server(lambda handler, n: event.wait())
    path, process = start(f"http://127.0.0.1:{server.port}", "hangs")
    while not subprocess.run(["pgrep", "-P", str(process.pid), "curl"], stdout=subprocess.DEVNULL, check=False).returncode == 0:
        time.sleep(0.01)
    code, _ = stop(process)
    event.set()
    server.close()
    equal((code, scrapes(path)), (4, []))


@case("--duration ends it; a second run goes on with the file")
def duration():
    server = Server(good())
    for _ in range(2):
        path, process = start(f"http://127.0.0.1:{server.port}", "duration", "--duration=350ms")
        said = process.communicate()[1].decode()
        equal((process.returncode, said), (0, ""))
    server.close()
    found = scrapes(path)
    check(len(found) >= 2, found)
    with open(path, encoding="utf-8") as f:
        equal(f.read().count("# cutrace"), 1)


@case("--max-size: the older half is dropped, and what is there is whole")
def limited():
    server = Server(good("V1", 400))
    path, process = start(f"http://127.0.0.1:{server.port}", "limited", "--max-size=256KiB", "--interval=100ms")
    server.wait_for(8)
    equal(stop(process)[0], 0)
    server.close()
    found = scrapes(path)
    check(os.path.getsize(path) <= 256 << 10 and found, os.path.getsize(path))
    check(found[0]["vllm:num_preemptions_total"] > 0, "the first scrapes are still there")
    check(not os.path.exists(path + ".new"))


@case("a full disk: no part of a scrape, it is said once, and the exit code is 5")
def full_disk():
    server = Server(good())

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path, process = start(f"http://127.0.0.1:{server.port}", "full", preexec_fn=limit, restore_signals=False)
    server.wait_for(6)
    code, said = stop(process)
    server.close()
    equal(code, 5)
    equal(said.count("File too large"), 1, said)
    check(len(scrapes(path)) >= 1 and os.path.getsize(path) <= 900)


@case("another program's file is not touched; wrong usage is 2 with one line, no curl 3")
def usage():
    path = os.path.join(FOLDER, "theirs")
    with open(path, "w", encoding="utf-8") as f:
        f.write("precious\n")

    def run(*words, **env):
        done = subprocess.run([CUTRACE, "record-metrics", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**PLAIN, **env}, check=False)
        return done.returncode, done.stderr.decode(), done.stdout.decode()
    code, said, _ = run("http://127.0.0.1:1", "-o", path)
    equal((code, said.count("\n")), (5, 1), said)
    with open(path, encoding="utf-8") as f:
        equal(f.read(), "precious\n")
    equal(run("http://127.0.0.1:1", "-o", "/proc/nowhere/file")[0], 5)
    new = os.path.join(FOLDER, "new")
    for words in ((), ("localhost",), ("-o", new), ("a", "b", "-o", new), ("ftp://a", "-o", new), ("file:///etc/passwd", "-o", new),
                  ("a", "-o", new, "--interval=0"), ("a", "-o", new, "--interval=soon"), ("a", "-o", new, "--max-size=1"),
                  ("a", "-o", new, "--intervall=1s"), ("a", "-o"), ("http://-o/etc", "-o", new)):
        code, said, out = run(*words)
        equal((code, said.count("\n"), out), (2, 1, ""), f"{words}: {said}")
    check("did you mean --interval" in run("a", "--intervall=1s")[1])
    check(not os.path.exists(new))
    equal(run("http://127.0.0.1:1", "-o", new, PATH="/nowhere")[0], 3)
    code, said, out = run("--help")
    equal((code, said), (0, ""))
    check(all(option in out for option in ("--interval", "--duration", "--max-size", "--output", "Exit codes")))
    equal(report("explain", "/nowhere")[0], 3)


main()
