#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: node npm chromium
"""export: each format is read by the program that it is for: flamegraph.pl, speedscope's page, Perfetto's published messages,
protoc with pprof's profile.proto, promtool and Prometheus's own parser, DuckDB over a hundred traces.

scripts/fetch-export-tools.sh fetches them; a case whose program cannot be had is skipped with the reason. Perfetto's
trace_processor cannot be had from a registry: its messages are decoded, and what it demands of them is checked here."""
import base64
import collections
import gzip
import html
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../lib"))
sys.path.append(os.path.join(HERE, "../../page"))
import browser  # noqa: E402
import sources  # noqa: E402
from perfetto_reader import perfetto as read_perfetto  # noqa: E402
from sources import export  # noqa: E402
from tap import ROOT, Skip, case, check, equal, fetched, main, report, scratch  # noqa: E402

TOOLS = os.path.join(browser.DEPS, "export-tools")
subprocess.run([os.path.join(ROOT, "scripts/fetch-export-tools.sh"), browser.DEPS], check=False)


def tool(name):
    """The folder of what was fetched."""
    return fetched(os.path.join(TOOLS, name), "scripts/fetch-export-tools.sh")


def module(name):
    """A module from PyPI, of the fetched ones."""
    sys.path.insert(0, tool("python"))
    try:
        return __import__(name, fromlist=["*"])
    except ImportError as e:
        raise Skip(str(e)) from None
    finally:
        sys.path.pop(0)


def run(*command, data=None, **environment):
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": os.path.join(TOOLS, "debian"), **environment})
    equal(done.returncode, 0, "%s: %s" % (command[0], (done.stderr or done.stdout).decode(errors="replace")[-800:]))
    return done.stdout.decode(errors="replace")  # (flamegraph.pl cuts names anywhere)


def held(path, moment):
    """Bytes of each device by top."""
    devices = json.loads(report("top", "--at=" + moment, "--json", path)[1])["devices"]
    return {d["ordinal"]: d["bytes"] for d in devices if d["bytes"]}


TRACES = [sources.golden("refused"), sources.golden("python"), sources.pools(1), sources.hostile(),
          os.path.join(HERE, "../vllm/leak/trace.zst")]


@case("flamegraph.pl draws folded stacks, and its root is as wide as what top says is held")
def flamegraph():
    program = os.path.join(tool("flamegraph"), "flamegraph.pl")
    for path in TRACES:
        data = export(path, "folded", "--at=end")
        svg = run("perl", program, "--countname", "bytes", "--colors", "mem", data=data)
        titles = [html.unescape(t) for t in re.findall(r"<title>(.*?)</title>", svg)]
        whole = [t for t in titles if re.match(r"all \([0-9,]+ bytes, 100%\)", t)]
        equal(int(re.sub(r"\D", "", whole[0].split("bytes")[0])), sum(held(path, "end").values()), path)
        for device, size in held(path, "end").items():
            check(any(t.startswith("GPU %d (%s bytes" % (device, format(size, ","))) for t in titles), "%s %s" % (path, device))


@case("speedscope's schema holds, and its page imports the file and names each profile with its size")
def speedscope():
    folder = os.path.join(tool("speedscope"), "dist/release")
    try:
        import fastjsonschema  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.path.append("/usr/lib/python3/dist-packages")
        import fastjsonschema  # pylint: disable=import-outside-toplevel
    with open(os.path.join(folder, "file-format-schema.json"), encoding="utf-8") as f:
        valid = fastjsonschema.compile(json.load(f))
    documents = [(path, export(path, "speedscope")) for path in TRACES + sources.broken()]
    for _, data in documents:
        valid(json.loads(data))
    chromium = browser.find_chromium()
    if not chromium:
        return "without its page: Chromium is not installed"
    for path, data in documents[:1] + documents[3:5]:
        script = scratch("profile.js", b"speedscope.loadFileFromBase64('x.speedscope.json', '%s')" % base64.b64encode(data))
        # (The path of a socket has at most 108 bytes.)
        with tempfile.TemporaryDirectory(dir="/tmp") as profile:
            page = run(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--disable-extensions",
                       "--user-data-dir=" + profile, "--virtual-time-budget=20000", "--dump-dom",
                       "file://%s/index.html#localProfilePath=%s" % (folder, script), TMPDIR=profile)
        rows = dict(re.findall(r"<span>(GPU [^<]*)</span></td><td[^>]*>([^<]*)</td>", page))
        want = {p["name"]: p["endValue"] for p in json.loads(data)["profiles"]}
        equal(sorted(rows), sorted(want), path)
        for name, shown in rows.items():
            unit = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[shown.split()[1]]
            check(abs(float(shown.split()[0]) * unit - want[name]) <= unit * 0.006, "%s %s: %s" % (path, name, shown))
    return None


@case("Perfetto's published messages: every field is known, and means what test_exports.py takes it for")
def perfetto():
    pb = module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    for path in TRACES + sources.broken():
        trace = pb.Trace()
        data = export(path, "perfetto")
        trace.ParseFromString(data)
        equal(len(trace.SerializeToString()), len(data), "no field is unknown or doubled")
        unknown = [p for p in trace.packet if p.WhichOneof("data") is None and not p.HasField("trace_packet_defaults")]
        check(not unknown)
        check(trace.packet[0].first_packet_on_sequence and trace.packet[0].clock_snapshot.primary_trace_clock == 3)
        tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
        ours = read_perfetto(path)
        equal(set(tracks), set(ours.tracks))
        types = collections.Counter()
        for p in trace.packet:
            equal(p.trusted_packet_sequence_id, 1)
            if p.HasField("track_event"):
                e = p.track_event
                types[e.type] += 1
                check(p.HasField("timestamp") and (e.type != e.TYPE_COUNTER or tracks[e.track_uuid].counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES))
        kinds = collections.Counter(kind for track in ours.events.values() for _, kind, *_ in track)
        event = pb.TrackEvent
        equal([types[t] for t in (event.TYPE_COUNTER, event.TYPE_SLICE_BEGIN, event.TYPE_SLICE_END, event.TYPE_INSTANT)],
              [sum(map(len, ours.counters.values())), kinds[1], kinds[2], kinds[3]], path)


@case("pprof: protoc reads the profile by pprof's own profile.proto")
def pprof():
    folder = tool("debian")
    for path in TRACES + sources.broken():
        text = run(os.path.join(folder, "protoc"), "--decode=perftools.profiles.Profile", "-I", folder, "profile.proto",
                   data=gzip.decompress(export(path, "pprof", "--at=end")))
        check(not re.search(r"^ *\d+:", text, re.M), "a field is unknown")
        values = [re.findall(r"^  value: (\d+)", sample, re.M) for sample in re.findall(r"^sample \{.*?^\}", text, re.M | re.S)]
        check(all(len(v) == 4 for v in values))
        equal(sum(int(v[3]) for v in values), sum(held(path, "end").values()), path)
        strings = re.findall(r'^string_table: "(.*)"$', text, re.M)
        equal(strings[0], "")
        places = set(re.findall(r"^  location_id: (\d+)", text, re.M))
        check(places <= set(re.findall(r"^location \{\n  id: (\d+)", text, re.M)))


@case("openmetrics: promtool makes blocks of it, and Prometheus's own parser reads every sample")
def openmetrics():
    parser = module("prometheus_client.openmetrics.parser")
    for path in TRACES + sources.broken():
        text = export(path, "openmetrics").decode()
        families = list(parser.text_string_to_metric_families(text))
        live = {s.labels["device"]: s.value for f in families for s in f.samples if s.name == "cutrace_process_live_bytes"}
        equal({d: v for d, v in live.items() if v}, {str(d): v for d, v in held(path, "end").items() if d is not None}, path)
        if any(s.timestamp is None for f in families for s in f.samples):
            continue  # (the trace does not have the time of day)
        with tempfile.TemporaryDirectory() as folder:
            said = run(os.path.join(tool("debian"), "promtool"), "tsdb", "create-blocks-from", "openmetrics", scratch("x.om", text.encode()), folder)
            samples = sum(len(f.samples) for f in families)
            check(samples == 0 or re.search(r"\b%d\b" % samples, said) or "BLOCK ULID" in said, said)


def fleet():
    """A hundred traces with a process each, and their names."""
    out = []
    for i in range(100):
        t = sources.Trace()
        t.trace_id = 0x1000 + i
        sources.traces.begin(t, pid=5000 + i)
        for k in range(1 + i % 7):
            t.event("alloc", (51 + k) * 10**9, api="cudaMalloc", bytes=(1 + i) << 20, ptr=0x7F0000000000 + (k << 32), device=0, result=0,
                    space="device", stack=sources.traces.LOAD if i % 2 else sources.traces.CACHE)
        out.append(t.save(scratch("fleet-%03d.zst" % i)))
    return out


@case("DuckDB: the commands of EXPORT.md over a hundred traces, as csv, ndjson and Parquet")
def duckdb():
    db = module("duckdb").connect()
    folder = tempfile.mkdtemp()
    total = 0
    for i, path in enumerate(fleet()):
        for form in ("csv", "ndjson"):
            with open(os.path.join(folder, "%d.%s" % (i, form)), "wb") as f:
                f.write(export(path, form + ":allocations"))
        total += (1 + i % 7) * ((1 + i) << 20)
    os.chdir(folder)
    with open(os.path.join(ROOT, "tools/report/export/EXPORT.md"), encoding="utf-8") as f:
        commands = re.findall(r"^    duckdb -c \"(.*?)\"$", f.read(), re.M | re.S)
    check(len(commands) >= 4, "EXPORT.md has commands")
    results = [db.execute(c).fetchall() for c in commands]
    equal(results[0], [(sum(1 + i % 7 for i in range(100)),)], "rows of the Parquet file")
    equal(db.execute("SELECT count(DISTINCT trace), sum(bytes) FROM 'allocations.parquet'").fetchall(), [(100, total)])
    equal(db.execute("SELECT count(DISTINCT trace), sum(bytes) FROM read_json('*.ndjson')").fetchall(), [(100, total)])
    top = db.execute("SELECT site, sum(bytes) FROM 'allocations.parquet' WHERE live_at_end GROUP BY site ORDER BY 2 DESC").fetchall()
    equal(len(top), 2)
    equal(sum(size for _, size in top), total)


main()
