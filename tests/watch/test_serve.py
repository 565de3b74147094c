#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cutrace watch --serve: its metrics against the ledgers of the simulated driver and of the stand-in for PyTorch's
allocator, and clients of all kinds, of which none may disturb another one."""
import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import schema  # noqa: E402
from live import CUTRACE, Holder, wait_for, written  # noqa: E402
from scrape import METRICS, OPENMETRICS, Clock, Served, of, one, parse  # noqa: E402
from tap import FULL, ROOT, case, check, dice, equal, main  # noqa: E402
from traces import G, M  # noqa: E402
from ways import HANG, folder  # noqa: E402

PARTS = "torch_used torch_idle allocations mempool_idle in_flight untracked unattributed others free".split()
with open(os.path.join(ROOT, "tools/watch/schema.json"), encoding="utf-8") as schema_file:
    VALID = schema.fastjsonschema.compile(json.load(schema_file), use_default=False)


def last_reading(h):
    return [e for e in h.ledger() if "free" in e][-1]


def settled(h, s, accept=None):
    """The samples when the events of the ledger have been read, and the device behind the last of them."""
    pid, last = str(h.process.pid), last_reading(h)
    tracked = check_ledger.replay(h.ledger())[0][0]

    def holds(samples):
        free = of(samples, "cutrace_device_free_bytes", pid=pid)
        return of(samples, "cutrace_process_live_bytes", pid=pid) == {("0",): tracked} and free == {("0",): last["free"]}
    return s.wait(holds, accept)


@case("in both formats every figure is that of the ledgers, to the byte, and what --once --json says of it")
def figures():
    with Holder() as h, Served(h.where) as s:
        equal([h.tell("first", 48 * M), h.tell("second", 6 * M), h.tell("block", 5 * M), h.tell("block", 3 * M),
               h.tell("unblock")], [0] * 5)
        pid, last = str(h.process.pid), last_reading(h)
        for accept in (None, OPENMETRICS):
            settled(h, s, accept)
            tracked = check_ledger.replay(h.ledger())[0][0]
            allocated, reserved = h.blocks()
            samples = s.wait(lambda x: of(x, "cutrace_torch_allocated_bytes", pid=pid) == {("0",): allocated}, accept)  # (no call tells of it)
            parts = {k[1]: v for k, v in of(samples, "cutrace_device_memory_bytes", pid=pid).items()}
            equal({p: parts[p] for p in PARTS[:4]},
                  {"torch_used": allocated, "torch_idle": reserved - allocated, "allocations": tracked - reserved, "mempool_idle": 0})
            equal((set(parts), sum(parts.values()), parts["free"]), (set(PARTS), last["total"], last["free"]))
            equal([one(samples, f"cutrace_{n}_bytes", pid=pid, device="0") for n in
                   ("process_live", "device_capacity", "torch_allocated", "torch_reserved", "torch_largest_free", "torch_held_open")],
                  [tracked, last["total"], allocated, reserved, reserved - allocated, reserved - allocated])
            equal(of(samples, "cutrace_process_state", pid=pid), {("recording",): 1, ("paused",): 0, ("killed",): 0, ("damaged",): 0, ("ended",): 0})
            equal(set(of(samples, "cutrace_failed_requests_total", pid=pid).values()), {0})
            equal(one(samples, "cutrace_lost_events_total", pid=pid), 0)
            check(abs(one(samples, "cutrace_watch_last_look_timestamp_seconds") - time.time()) < HANG)
            check(0 <= one(samples, "cutrace_details_age_seconds", pid=pid) < HANG)
        equal(s.stop(), (0, ""))


@case("every metric of a page is in the table with its type and labels, in the older format, too; SERVE.md has the table")
def table():
    where = written([i * 100 * M for i in range(1, 125)])
    with Holder(where) as h, Served(where) as s:
        equal((h.tell("block", 5 * M), h.tell("first", 2000 * M)), (0, 2))
        samples = s.wait(lambda x: of(x, "cutrace_incidents_total") and of(x, "cutrace_time_to_full_seconds"))
        own = {"cutrace_watch_", "cutrace_build_"}
        for (name, pairs) in samples:
            wanted = set(METRICS[name][1]) | (set() if name[:14] in own else {"pid", "program"})
            equal({k for k, _ in pairs}, wanted, name)
        equal(set(METRICS) - {name for name, _ in samples}, set())
        per_process = sum(dict(pairs).get("pid") == str(h.process.pid) for _, pairs in samples)
        check(per_process < 60, per_process)
        for accept, page in ((None, s.ask()[2]), (OPENMETRICS, s.ask(accept=OPENMETRICS)[2])):
            kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page.decode(), re.M))
            cut = {} if not accept else {"counter": 6, "info": 5}
            equal(kinds, {n[:len(n) - cut.get(k, 0)]: "gauge" if k == "info" and not accept else k for n, (k, _, _) in METRICS.items()})
    with open(os.path.join(ROOT, "tools/watch/SERVE.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `(cutrace_\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$", f.read(), re.M)
    equal([(n, k, re.findall(r"`(\w+)`", labels), text) for n, k, labels, text in rows], [(n, *v) for n, v in METRICS.items()])


@case("names that the export has, too, have its units and types")
def shared():
    with open(os.path.join(ROOT, "tools/report/export/openmetrics.def"), encoding="utf-8") as f:
        export = re.findall(r'^CT_METRIC\(\w+, "(\w+)", "(\w*)", "(\w+)",', f.read(), re.M)
    with open(os.path.join(ROOT, "tools/watch/metrics.def"), encoding="utf-8") as f:
        watch = re.findall(r'^CT_WATCH_METRIC\(\w+, "(\w+)", "(\w*)", "(\w+)",', f.read(), re.M)
    common = {n for n, _, _ in export} & {n for n, _, _ in watch}
    check(len(common) >= 9, common)
    equal({r for r in export if r[0] in common}, {r for r in watch if r[0] in common})


@case("the format is the one that the field Accept asks for, and has its content type")
def formats():
    old, new = "text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8"
    prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    wanted = {None: old, "*/*": old, "text/plain": old, OPENMETRICS: new, OPENMETRICS + ";version=1.0.0": new, prometheus: new,
              OPENMETRICS + ";q=0": old, f"{OPENMETRICS};q=0.3, text/plain;q=0.4": old, f"text/plain;q=0.4 , {OPENMETRICS} ; q=0.41": new,
              OPENMETRICS + "2": old, OPENMETRICS + ";version=2.0.0": old, "," * 500: old, "text/html;q=1": old,
              ";;;q=,": old, OPENMETRICS.upper(): new}
    with Served(folder()) as s:
        s.wait(lambda samples: True)
        for accept, kind in wanted.items():
            status, fields, body = s.ask(accept=accept)
            equal((status, fields["content-type"]), (200, kind), accept)
            parse(body.decode(), kind == new)
        _, fields, body = s.ask("/metrics", "HEAD", accept=OPENMETRICS)
        equal((fields["content-type"], body), (new, b""))
        check(int(fields["content-length"]) > 1000)



# ---- the other answers --------------------------------------------------------------------------------------------------


def quiet(document):
    """Without what differs from look to look."""
    document["t_ns"] = 0
    for process in document.get("processes", ()):
        process["now"]["t_ns"] = process["now"]["written_bytes"] = 0
        process["details"]["recent"] = process["details"]["gained_since_ns"] = 0
        for device in process["details"]["devices"]:
            for growth in device["growth"].values():
                growth["window_ns"] = 0
    return document


@case("/verdict.json is the document of --once --json; /healthz says whether looks go on")
def verdict():
    with Holder() as h, Clock(h.where) as clock, Served(h.where, env=clock.env) as s:
        equal((h.tell("block", 5 * M), h.tell("first", 2000 * M)), (0, 2))
        settled(h, s)
        s.wait(lambda x: of(x, "cutrace_incidents_total"))
        end, once, served = time.monotonic() + HANG, None, {}
        while quiet(served) != once:  # (NVML is read once a second, and between the two)
            check(time.monotonic() < end, (served, once))
            done = subprocess.run([CUTRACE, "watch", "--once", "--json", h.where], stdout=subprocess.PIPE, check=True)
            status, fields, body = s.ask("/verdict.json")
            equal((status, fields["content-type"]), (200, "application/json"))
            once, served = quiet(json.loads(done.stdout)), json.loads(body)
            VALID(served)
        equal(s.ask("/healthz")[::2], (200, b"ok\n"))
        s.process.send_signal(signal.SIGSTOP)
        clock.put_ahead(100)
        s.process.send_signal(signal.SIGCONT)
        s.wait(lambda x: True)


def full_pipe():
    """(its reader, its writer, how many bytes it has)"""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    count = 0
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                count += os.write(writer, b"x" * size)
    os.set_blocking(writer, True)
    return reader, writer, count


def is_writing(pid):
    """Whether a thread of it waits in a call whose first argument is standard output, as write's is."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/syscall", encoding="ascii") as f:
            if f.read().split()[1:2] == ["0x1"]:
                return True
    return False


@case("/healthz: 503 when the last look was over a minute or ten intervals ago, as nobody takes the log; 200 when it goes on")
def stalled():
    for interval, limit_s in (("100ms", 60), ("10s", 100)):
        where = written([i * 100 * M for i in range(1, 125)])  # (its growth is told at the first look)
        reader, writer, count = full_pipe()
        with Clock(where) as clock, Served("--log", where, log=writer, interval=interval, env=clock.env) as s:
            s.wait(lambda x: True)
            wait_for(lambda: is_writing(s.process.pid))
            clock.put_ahead(limit_s - 30)
            equal(s.ask("/healthz")[::2], (200, b"ok\n"), interval)
            clock.put_ahead(31)
            status, _, body = s.ask("/healthz")
            check(status == 503 and re.fullmatch(rb"the last look was (\d+) s ago\n", body), body)
            check(int(body.split()[4]) > limit_s, body)
            equal([s.ask(path)[0] for path in ("/metrics", "/verdict.json")], [200, 200])
            while count:
                count -= len(os.read(reader, count))
            wait_for(lambda: s.ask("/healthz")[0] == 200)
            equal(s.stop(), (0, ""))
        os.close(reader)


@case("HEAD has the fields of GET and no body; other paths and methods are told so; queries are ignored")
def paths():
    with Served(folder()) as s:
        s.wait(lambda samples: True)
        for path, status in (("/metrics", 200), ("/metrics?x=/healthz", 200), ("/verdict.json", 200), ("/healthz", 200), ("/", 404),
                             ("/metrics/", 404), ("//metrics", 404), ("/../metrics", 404), ("/metrics%00", 404), ("/" + "m" * 3000, 404),
                             ("http://localhost:1/healthz", 200), ("http://localhost", 404), ("*", 404)):
            equal(s.ask(path)[0], status, path)
            code, fields, body = s.ask(path, "HEAD")
            equal((code, body, int(fields["content-length"]) > 0), (status, b"", True), path)
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "get"):
                code, fields, _ = s.ask(path, method)
                equal((code, fields.get("allow")), (405, "GET, HEAD") if status == 200 else (404, None), (path, method))


# ---- clients ------------------------------------------------------------------------------------------------------------


def dial(s, receive=None):
    sock = socket.socket(socket.AF_INET6 if ":" in s.host else socket.AF_INET)
    if receive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    sock.settimeout(HANG)
    sock.connect((s.host, s.port))
    return sock


def read_all(sock):
    """Until the other end closes."""
    data = b""
    try:
        while part := sock.recv(1 << 16):
            data += part
    except ConnectionResetError:
        pass
    return data


def answer_to(s, data):
    with dial(s) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:  # it was answered and closed before
            pass
        return read_all(sock)


def statuses(data):
    """Of answers without a body, or with one that says its length."""
    out = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        out.append(int(re.match(rb"HTTP/1\.1 (\d+) [\w ]+\r\n", head)[1]))
        data = data[int(re.search(rb"Content-Length: (\d+)", head)[1]):]
    return out


GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@case("requests of all forms: in pieces, several at once, with a body, of version 1.0; what is none is answered 400, 431 or 505")
def forms():
    def get(more=b"", path=b"/healthz", version=b"1.1", host=b"Host: localhost\r\n"):
        return b"GET " + path + b" HTTP/" + version + b"\r\n" + host + more + b"\r\n"
    with Served(folder()) as s:
        s.wait(lambda samples: True)
        for data, want in ((get(), [200]), (get() * 50, [200] * 50), (b"\r\n\r\n" + get() + b"\r\n" + get(path=b"/x"), [200, 404]),
                           (get().replace(b"\r\n", b"\n") * 2, [200] * 2), (get(version=b"1.0") * 2, [200]),
                           (get(version=b"1.0", host=b""), [200]),
                           (get(b"Connection: Keep-Alive\r\n", version=b"1.0") * 2, [200] * 2), (get(b"connection: x, CLOSE\r\n") * 2, [200]),
                           (get(b"Content-Length: 5\r\n") + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", [200]),
                           (get(b"Content-Length: 0\r\n") * 2, [200] * 2),
                           (get(b"Transfer-Encoding: chunked\r\n") + b"5\r\nhello\r\n0\r\n\r\n", [200]),
                           (get(b"X: " + b"y" * 8000 + b"\r\n"), [200]), (get(b"X: " + b"y" * 8192 + b"\r\n") + b"z" * 50000, [431]),
                           (b"G" * 100000, [431]), (get(host=b""), [400]), (get(host=b"Host: localhost\r\nHost: y\r\n"), [400]),
                           (get(version=b"2.0"), [505]), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [505]), (get(version=b"1.10"), [505]),
                           (b"GET /healthz\r\n\r\n", [400]), (b"GET\r\n\r\n", [400]), (b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
                           (b" GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]), (get(b"X : y\r\n"), [400]), (get(b"nothing\r\n"), [400]),
                           (get(b": y\r\n"), [400]), (get(b"X: a\r\n b\r\n"), [400]), (get(b"X: \0\r\n"), [400]), (get(b"X: \x1b\r\n"), [400]),
                           (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\n\n", [400]),
                           (b"", []), (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", [])):
            equal(statuses(answer_to(s, data)), want, data[:200])
        with dial(s) as sock:
            for byte in get() + get(b"Connection: close\r\n"):
                sock.sendall(bytes([byte]))
            equal(statuses(read_all(sock)), [200, 200])


@case("who asks by another name than localhost, an address or the one of --serve is told so, and nothing else")
def hosts():
    known = [b"localhost", b"LocalHost", b"127.0.0.1", b"192.0.2.7", b"[::1]", b"[2001:db8::1]"]
    foreign = [b"evil.example", b"localhost.evil.example", b"127.0.0.1.evil.example", b"xlocalhost", b"[evil]", b"[]", b"[", b"]", b"0x7f.1",
               b"[::1].evil.example", b"[localhost]", b"evil.example:80:localhost", b"localhost@evil.example", b"a" * 300]
    with Served(folder()) as s:
        s.wait(lambda samples: True)
        for path in (b"/metrics", b"/verdict.json", b"/healthz", b"/nothing"):
            for names, want in ((known, 404 if path == b"/nothing" else 200), (foreign, 421)):
                for name in names:
                    for port in (b"", b":%d" % s.port):
                        data = answer_to(s, b"GET " + path + b" HTTP/1.1\r\nHost: " + name + port + b"\r\n\r\n")
                        equal((statuses(data), want == 421 and b"cutrace" in data), ([want], False), (path, name, port))
    own = socket.gethostname()
    with contextlib.suppress(socket.gaierror):  # (a machine need not know its own name)
        socket.getaddrinfo(own, 0)
        with Served(folder(), "--i-know", serve=own + ":0") as s:
            s.wait(lambda samples: True)
            for name, want in ((own, 200), ("localhost", 200), ("x" + own, 421)):
                equal(statuses(answer_to(s, f"GET /healthz HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())), [want], name)


@case("rubbish of hundreds of clients: none gets more than an error, and the server goes on")
def rubbish():
    r = dice(22)
    words = [b"GET ", b"/metrics", b" HTTP/1.1", b"\r\n", b"\n", b"Host: localhost", b"Accept: ", b"application/openmetrics-text", b";q=", b"0.", b",",
             b"Connection: ", b"close", b"keep-alive", b":", b" ", b"\0", b"\xff", b"http://", b"?", b"Content-Length: ", b"9" * 30]
    with Served(folder()) as s:
        s.wait(lambda samples: True)
        for i in range(2000 if FULL else 400):
            data = r.randbytes(r.randrange(300)) if i % 3 == 0 else b"".join(r.choice(words) for _ in range(r.randrange(40)))
            if i % 3 == 2:
                data = GET[:-2] + data + b"\r\n\r\n"
            check(set(statuses(answer_to(s, data))) <= {200, 400, 404, 405, 431, 505}, data)
        equal(s.ask("/healthz")[0], 200)
        equal(s.stop(), (0, ""))


@case("100 clients at once, each with ten requests on one connection, are all answered, each answer whole and of one moment")
def crowd():
    with Holder() as h, Served(h.where) as s:
        equal((h.tell("first", 48 * M), h.tell("block", 5 * M)), (0, 0))
        settled(h, s)
        problems, together = [], threading.Barrier(100)

        def client(i):
            c = http.client.HTTPConnection(s.host, s.port, timeout=HANG)
            try:
                together.wait(HANG)
                for _ in range(10):
                    c.request("GET", "/metrics", headers={"Accept": OPENMETRICS} if i % 2 else {})
                    samples = parse(c.getresponse().read().decode(), bool(i % 2))
                    parts = of(samples, "cutrace_device_memory_bytes")
                    equal(sum(parts.values()), one(samples, "cutrace_device_capacity_bytes"))
            except Exception as e:  # pylint: disable=broad-except
                problems.append(repr(e))
            c.close()
        threads = [threading.Thread(target=client, args=(i,)) for i in range(100)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(problems, [])


@case("clients that are silent, that do not read, or that send a byte now and then delay nobody; when their time is over they are closed")
def slow():
    where = written([i * 100 * M for i in range(1, 125)])
    with Clock(where) as clock, Served(where, env=clock.env) as s:
        s.wait(lambda x: of(x, "cutrace_device_memory_bytes"))
        silent, partial, idle = dial(s), dial(s), dial(s)
        partial.sendall(GET[:-3])
        idle.sendall(GET)
        check(idle.recv(1 << 16).startswith(b"HTTP/1.1 200 OK"))
        deaf = dial(s, receive=4096)
        deaf.setblocking(False)
        many = b"GET /verdict.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
        end = time.monotonic() + HANG
        stuck_since, sent = None, 0
        while not stuck_since or time.monotonic() < stuck_since + .5:  # both directions are full
            check(time.monotonic() < end)
            try:
                sent += deaf.send(many)
                stuck_since = None
            except BlockingIOError:
                stuck_since = stuck_since or time.monotonic()
                time.sleep(.02)
        looks = set()
        s.wait(lambda x: looks.add(one(x, "cutrace_watch_last_look_timestamp_seconds")) or len(looks) > 5)

        def after(seconds):
            """Puts the clock ahead; a byte now and then changes nothing."""
            partial.send(b"x")
            clock.put_ahead(seconds)
            s.wait(lambda x: True)
        after(4)
        after(7)
        equal((read_all(silent), read_all(partial)), (b"", b""))
        equal(s.ask("/healthz")[0], 200)
        deaf.setblocking(True)
        clock.put_ahead(25)
        s.wait(lambda x: True)
        clock.put_ahead(200)
        s.wait(lambda x: True)
        check(len(read_all(deaf)) < sent * 10, "it was cut off")
        idle.settimeout(HANG)
        equal(read_all(idle), b"")
        for sock in (silent, partial, idle, deaf):
            sock.close()
        equal(s.stop(), (0, ""))


@case("300 silent clients: those that have been silent for the longest time give way, and others are answered")
def full():
    with Served(folder()) as s:
        s.wait(lambda samples: True)
        socks = []
        for i in range(300):
            socks.append(dial(s))
            if i % 50 == 49:
                equal(s.ask("/healthz")[0], 200)
        equal([read_all(sock) for sock in socks[:100]], [b""] * 100)
        with socks[-1] as last:
            last.sendall(GET.replace(b"Host", b"Connection: close\r\nHost"))
            equal(statuses(read_all(last)), [200])
        for sock in socks:
            sock.close()


@case("a server with few descriptors: silent clients take none from others, nor from the looks")
def descriptors():
    with Served(written([G]), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))) as s:
        s.wait(lambda samples: True)
        socks = []
        for _ in range(5):
            socks += [dial(s) for _ in range(40)]
            for sock in socks:
                with contextlib.suppress(OSError):  # it may have given way
                    sock.sendall(b"G")
            equal(s.ask("/healthz")[0], 200)
            (process,) = json.loads(s.ask("/verdict.json")[2])["processes"]
            equal((process["problem"], [d["tracked_bytes"] for d in process["details"]["devices"]]), (None, [G]))
        for sock in socks:
            sock.close()
        equal(s.ask("/healthz")[0], 200)


# ---- processes ----------------------------------------------------------------------------------------------------------


@case("a process that was killed or has ended keeps its counters for five minutes, and its memory not at all")
def ended():
    with Holder() as a, Clock(a.where) as clock, Served(a.where, env=clock.env) as s:
        with Holder(a.where) as b, Holder(a.where) as c:
            pids = [str(h.process.pid) for h in (a, b, c)]
            equal([h.tell("first", 3 * M) + h.tell("first", 2000 * M) for h in (a, b, c)], [2] * 3)
            s.wait(lambda x: all(of(x, "cutrace_failed_requests_total", pid=p, outcome="failed") == {(): 1} for p in pids))
            b.process.kill()
            b.process.wait()
            c.process.stdin.close()
            c.process.wait(HANG)

        def states(x):
            return {p: k[0] for p in pids for k, v in of(x, "cutrace_process_state", pid=p).items() if v}
        x = s.wait(lambda x: states(x) == dict(zip(pids, ("recording", "killed", "ended"))))
        for p in pids:
            equal((one(x, "cutrace_failed_requests_total", pid=p, outcome="failed"), one(x, "cutrace_failed_calls_total", pid=p)), (1, 1))
            equal(bool(of(x, "cutrace_process_live_bytes", pid=p) or of(x, "cutrace_device_memory_bytes", pid=p)), p == pids[0])
        equal(one(x, "cutrace_watch_processes"), 1)
        clock.put_ahead(240)
        looked = one(x, "cutrace_watch_last_look_timestamp_seconds")
        x = s.wait(lambda x: one(x, "cutrace_watch_last_look_timestamp_seconds") > looked + 1)
        equal(set(states(x)), set(pids))
        clock.put_ahead(70)
        s.wait(lambda x: set(states(x)) == {pids[0]})
        listed = {p["pid"]: p["state"] for p in json.loads(s.ask("/verdict.json")[2])["processes"]}
        equal(listed, {int(pids[0]): "recording", int(pids[1]): "killed"})


@case("two traces of one pid are told as one process")
def same_pid():
    where = written([G] * 20)
    written([2 * G] * 20, where=where, name="other", trace_id=0x99)
    with Served(where) as s:
        x = s.wait(lambda x: of(x, "cutrace_device_memory_bytes"))
        equal(one(x, "cutrace_watch_processes"), 2)
        equal(len(of(x, "cutrace_start_time_seconds")), 1)


@case("a program's name is cut, without its folder, and escaped; nothing else of a trace is in a label")
def names():
    for program, label in (("/usr/lib/x/python3.11", "python3.11"), ("a\"b\\c\x1b[2J\u202e", None), ("x" * 60, "x" * 32), ("\u00e4" * 31, "\u00e4" * 16)):
        where = written([G] * 20, function="secret", file="/secret/secret.py", exe=program, is_alive=False)
        with Served(where) as s:
            x = s.wait(lambda x: of(x, "cutrace_start_time_seconds"))
            (got,) = {dict(pairs)["program"] for _, pairs in x if "program" in dict(pairs)}
            check(got == label if label else got.startswith('a"b\\c') and got.isprintable(), (program, got))
            check(b"secret" not in s.ask()[2] and b"/" not in re.sub(rb"# .*", b"", s.ask()[2]))


# ---- begin and end ------------------------------------------------------------------------------------------------------


@case("an address that other machines can reach is refused, unless --i-know; wrong ones and taken ones are said")
def addresses():
    def refused(*words):
        done = subprocess.run([CUTRACE, "watch", *words, folder()], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        equal((done.stdout, done.stderr.count("\n")), ("", 1), words)
        return done.returncode, done.stderr
    for address in ("0.0.0.0:0", ":0", "[::]:0", "[::ffff:0.0.0.0]:0", "192.0.2.1:0"):
        code, text = refused("--serve=" + address)
        check(code == 2 and "neither TLS nor a password" in text and "proxy" in text and "--i-know" in text, (address, text))
    for address in ("", "x", "70000", "localhost", "::1:0", "[::1:0", "[::1]", "1:2:3", "localhost:", "[]:0", "-1", "localhost:http", "x" * 300 + ":0"):
        code, text = refused("--serve=" + address)
        check(code == 2 and "PORT" in text, (address, text))
    equal(refused("--serve=192.0.2.1:0", "--i-know")[0], 4)
    equal([refused(*w)[0] for w in (["--i-know"], ["--once", "--serve=0"], ["--once", "--log"], ["--log=xml"], ["--log", "--json"])], [2] * 5)
    with Served(serve="127.0.0.2:0") as s, Served(folder(), "--i-know", serve="0.0.0.0:0") as public:
        equal((s.host, public.host), ("127.0.0.2", "0.0.0.0"))
        equal([x.wait(lambda samples: True) != {} for x in (s, public)], [True] * 2)
        code, text = refused(f"--serve=127.0.0.2:{s.port}")
        equal((code, "use" in text), (4, True), text)
    if os.path.exists("/proc/net/if_inet6"):
        with Served(folder(), serve="[::1]:0") as s:
            equal((s.host, s.wait(lambda samples: True) != {}), ("::1", True))


@case("SIGTERM, SIGINT and SIGHUP end it with 0, whatever clients do; one that was ignored does not")
def signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # (it may be ignored here, as SIGHUP is under nohup)
        with Served(folder(), preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL)) as s, dial(s), dial(s) as deaf:
            deaf.sendall(GET[:20])
            equal(s.stop(number), (0, ""))
    with Served(folder(), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as s:
        s.process.send_signal(signal.SIGHUP)
        s.process.send_signal(signal.SIGPIPE)
        equal(s.ask("/nothing")[0], 404)
        equal(s.stop(), (0, ""))


main()
