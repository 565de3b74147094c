#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON contract: tools/report/views/JSON.md and schema/ against the program's output for the golden traces."""
import copy
import functools
import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import add_digests  # noqa: E402
import check_ledger  # noqa: E402
import schema  # noqa: E402
import traces  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import FULL, PLAIN, REPORT, ROOT, Skip, case, check, dice, equal, main, read_json, report, sample, scratch  # noqa: E402

VIEWS = ("summary", "oom", "top", "leaks", "stats", "timeline", "phases", "fit", "frag", "info")
FILES = [scratch(build.__name__ + ".zst", build()) for build in traces.ALL]


with open(os.path.join(ROOT, "tools/report/views/JSON.md"), encoding="utf-8") as page_file:
    PAGE = page_file.read()
NAMED = set(re.findall(r"`([a-z_]+)`", PAGE))
SCHEMAS = {name: schema.load(name) for name in (*schema.DOCUMENTS, "common")}
RECORDED = sorted(glob.glob(os.path.join(ROOT, "tests/gpu/results/*/*.zst")))
SOME = sample(RECORDED, 3)


def keys(value, path, found):
    """All keys of a document, except those that come from the trace."""
    if isinstance(value, dict):
        for k, v in value.items():
            found.setdefault(k, path)
            if k not in ("info", "settings"):
                keys(v, path + "." + k, found)
    elif isinstance(value, list):
        for v in value:
            keys(v, path + "[]", found)
    else:
        is_share = path.endswith(("_fragmentation", ".confidence"))
        check(not isinstance(value, float) or is_share, "%s is not a whole number" % path)


@functools.lru_cache(maxsize=None)
def events_of(path):
    return check_ledger.read_trace(REPORT, path)


def read(view, path, *more):
    code, out, _ = report(view, "--json", *more, path)
    check(code in (0, 3, 4), "%s %s" % (view, path))
    equal(out.count(b"\n"), 1)
    return json.loads(out)


def noted(name):
    """A trace with digests, and with all that they can say."""
    return scratch(name + "-noted.zst", add_digests.add(scratch(name + ".zst"), True))


def parts_of(value):
    """All objects and lists inside a JSON value, itself first."""
    yield value
    for v in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts_of(v)


def objects(name):
    """The parts of a schema that describe objects with fixed keys."""
    return [p for p in parts_of(SCHEMAS[name]) if isinstance(p, dict) and isinstance(p.get("properties"), dict)]


def keys_of_schemas():
    """A condition repeats keys of the object whose condition it is."""
    return {k for name in SCHEMAS for o in objects(name) for k in o["properties"]}


@case("every key that any view writes is on the page and in the schemas, and every key there is written")
def every_key_is_documented():
    found = {}
    for snapshot in glob.glob(os.path.join(ROOT, "tests/report/snapshots/*/*.pickle")):
        keys(json.loads(read_json("explain", snapshot)), "explain", found)
    for text in sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/*/log.txt"))):
        keys(json.loads(read_json("explain", text)), "explain", found)
    # a line that vLLM prints every ten seconds of serving
    periodic = scratch("periodic.log", "INFO 11-23 10:00:00 [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg "
                       "generation throughput: 1.0 tokens/s, Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 99.0%, Prefix cache "
                       "hit rate: 0.0%\n")
    keys(json.loads(read_json("explain", periodic)), "explain", found)
    scrapes = scratch("metrics", "# scraped 1.5\nvllm:kv_cache_usage_perc 0.5\n")
    failed = os.path.join(ROOT, "tests/report/vllm/burst-of-prefills/log.txt")
    for view in ("summary", "oom", "info"):
        for trace in glob.glob(os.path.join(ROOT, "tests/report/vllm/burst*/trace.zst")):
            keys(json.loads(read_json(view, trace, "--log", failed, "--log", scrapes)), view, found)
    served = os.path.join(ROOT, "tests/report/vllm/http-server/")
    keys(json.loads(read_json("fit", served + "trace.zst", "--log", served + "metrics.txt")), "fit", found)
    keys(json.loads(read_json("fit", os.path.join(ROOT, "tests/report/pytorch/fragmentation/trace.zst"), "--allocator", "")), "fit", found)
    for path in FILES:
        for view in VIEWS:
            d = read(view, path)
            equal(d["schema"], "cutrace.%s/2" % view)
            check("`cutrace.%s/2`" % view in PAGE)
            keys(d, view, found)
        keys(read("top", path, "--tree"), "top", found)
        for line in report("dump", "--json", path)[1].splitlines():
            keys(json.loads(line), "dump", found)
    slow = scratch("growing.zst", traces.growing())
    keys(read("leaks", slow), "leaks", found)
    streams = scratch("streams.zst", traces.on_streams())
    keys(read("frag", streams), "frag", found)
    shared = scratch("shared.zst", traces.on_an_instance())
    for view in ("summary", "timeline"):
        keys(read(view, shared), view, found)
    ring = os.path.join(ROOT, "tests/report/golden/traces/ringed.zst")  # at 16 s in a gap of its events
    check(read("top", ring, "--at=16")["trace"]["gap"] is not None)
    keys(read("top", ring, "--at=16"), "top", found)
    # damage[] has elements only in damaged traces
    with open(FILES[0], "rb") as f:
        data = f.read()
    cut = scratch("cut.zst", data[:-300])
    keys(read("info", cut), "info", found)
    for path in FILES:
        keys(read("diff", path, FILES[0]), "diff", found)
    several = json.loads(report("--json", "--log", text, *FILES)[1])
    equal([d and d["schema"] for d in several["documents"]], ["cutrace.summary/2"] * len(FILES))
    check("`cutrace.processes/2`" in PAGE and "`cutrace.several/1`" in PAGE)
    keys({**several, "documents": []}, "several", found)
    keys(read("copy", FILES[0], "--from=oom", "--output=" + scratch("late.zst")), "copy", found)
    keys(read("info", scratch("late.zst")), "info", found)
    keys(read("bundle", FILES[0], "--output=" + scratch("bug.zip")), "bundle", found)
    for name in ("all.zst", "all.zip"):
        keys(read("copy", FILES[0], "--from=oom-1s", "--to=oom+1s", "--scrub=paths", "--symbolize", "--output=" + scratch(name)), "copy", found)
    keys(read("export", FILES[0], "--output=" + scratch("new.pickle")), "export", found)
    keys(read("html", FILES[0], "--output=" + scratch("new.html")), "html", found)
    keys(read("copy", FILES[0], "--seal"), "copy", found)
    for view in ("summary", "top", "frag"):
        d = read(view, noted("pools"), "--quick")
        equal(d["schema"], "cutrace.%s-quick/2" % view)
        check("`%s`" % d["schema"] in PAGE)
        keys(d, view + " --quick", found)
    check(read("summary", noted("pools"), "--quick")["devices"][0]["pytorch"])
    missing = {k: p for k, p in found.items() if k not in NAMED}
    check(not missing, "not on the page: %r" % missing)
    unused = {n for n in NAMED if "_" in n} - set(found)
    check(not unused, "on the page, but never written: %r" % unused)
    equal(keys_of_schemas() - {k for k, p in found.items() if not p.startswith("info.info")}, set(), "only in a schema")


@case("the schemas are strict: every key is required, no other is allowed, and every closed set is on the page")
def schemas_are_strict():
    for name, one in SCHEMAS.items():
        equal(one["$schema"], "https://json-schema.org/draft/2020-12/schema", name)
        bases = {p["$ref"].rpartition("/")[2] for p in parts_of(one) for p in (p.get("allOf", ()) if isinstance(p, dict) else ())}
        definitions = {**SCHEMAS["common"]["$defs"], **one.get("$defs", {})}
        conditions = [id(one.get(k)) for k in ("then", "else")] + [id(p) for p in parts_of(definitions["nothing_known"])]
        for o in objects(name):
            if id(o) in conditions:
                continue
            inherited = [k for b in o.get("allOf", ()) for k in definitions[b["$ref"].rpartition("/")[2]]["properties"]]
            conditional = list(o["else"]["properties"]) if "else" in o else []
            taken = [k for k, v in o["properties"].items() if v is True]
            equal(sorted(taken), sorted(inherited + conditional), name)
            equal(o["required"], [k for k in o["properties"] if k not in inherited], name)
            base = any(definitions.get(b) is o or SCHEMAS["common"]["$defs"].get(b) is o for b in
                       bases | {"recording", "pool_figures", "address_layout"})
            equal(o.get("additionalProperties", True), base, name + ": " + json.dumps(o)[:200])
        if "else" in one:
            equal(one["then"]["properties"], {k: {"type": "null"} for k in one["else"]["properties"]}, name)
        for p in parts_of(one):
            if isinstance(p, dict) and isinstance(p.get("enum"), list):
                check(all(v is None or v in PAGE for v in p["enum"] if p is not definitions.get("flag")), "on the page: %r" % p["enum"])


@case("top has sites or a tree, and no growth with a tree; several processes have a moment and sums, or no clock to compare")
def either_or():
    for path in FILES:
        for device in read("top", path)["devices"]:
            check(device["sites"] is not None and device["tree"] is None, device)
        for device in read("top", path, "--tree")["devices"]:
            equal((device["sites"], device["growth_from_t_ns"]), (None, None), path)
            equal(device["tree"]["bytes"], device["bytes"], path)
    alignments = set()
    no_clock = Trace(trace_id=0x4321)
    no_clock.event("alloc", 10**9, api="cuMemAlloc_v2", device=0, ptr=1 << 40, bytes=1 << 20, space="device", result=0)
    other = no_clock.save(scratch("no-clock.zst"))
    for paths in (FILES[:2], RECORDED, FILES[:1] + RECORDED[:1], FILES[:1] + [other]):
        d = json.loads(report("--json", *paths)[1])["processes"]
        alignments.add(d["alignment"])
        equal((d["alignment"] == "clock", d["host_count"] == 1), (d["same_clock"], d["same_clock"]), paths)
        equal(d["moment"] is not None, d["alignment"] is not None, paths)
        for gpu in d["gpus"]:
            sums = [v for k, v in gpu.items() if k.endswith("_bytes") or k in ("unknown_count", "last_seen_count", "account")]
            equal(gpu["tracked_bytes"] is not None, d["alignment"] is not None, paths)
            check(d["alignment"] or set(map(str, sums)) == {"None"}, gpu)
    equal(alignments, {"clock", "time-of-day", None})


@case("operations, flags and spaces of the schema are those of events.def")
def closed_sets_of_the_format():
    with open(os.path.join(ROOT, "include/cutrace/format/events.def"), encoding="utf-8") as f:
        rows = re.findall(r'^CT_(OP|FLAG|SPACE)\(\d+, \w+, "([^"]+)"\)', f.read(), re.M)
    common = {**SCHEMAS["common"]["$defs"], **SCHEMAS["dump"]["$defs"]}
    for kind, name in (("OP", "operation"), ("FLAG", "flag"), ("SPACE", "space_or_null")):
        values = next(p["enum"] for p in parts_of(common[name]) if isinstance(p, dict) and isinstance(p.get("enum"), list))
        equal({v for v in values if v}, {text for of, text in rows if of == kind and text != "amend"}, name)


def changed(value, path, to):
    """A copy of a document with another value at a path; `to` gets the object or list that holds it."""
    value = copy.deepcopy(value)
    inside = value
    for k in path[:-1]:
        inside = inside[k]
    to(inside, path[-1])
    return value


def paths(value, before=()):
    """The paths of all values in a document, but of the INFO pairs and of elements of a list behind the first."""
    for k in value if isinstance(value, dict) else range(min(len(value), 1)) if isinstance(value, list) else ():
        yield before + (k,)
        if k != "info":
            yield from paths(value[k], before + (k,))


@case("a document with a key more, a key less or a value of another kind is refused, wherever that is")
def wrong_documents():
    count = 0
    documents = [(view, read(view, path)) for path in FILES[:2] for view in VIEWS]
    documents += [("top", read("top", path, "--tree")) for path in FILES[:2]]
    documents += [("diff", read("diff", FILES[0], path)) for path in FILES[:2]]
    documents += [("processes", json.loads(report("--json", *FILES)[1])["processes"])]
    documents += [(view + "-quick", read(view, noted("pools"), "--quick")) for view in ("summary", "top", "frag")]
    documents += [("dump", json.loads(report("dump", "--json", FILES[0])[1].splitlines()[3]))]
    for view, d in documents:
        schema.check_document(view, d)
        for path in sample(paths(d), 8, len(d)):
            wrong = [changed(d, path, lambda o, k: o.__setitem__(k, {"no_such_key": 1}))]
            if isinstance(path[-1], str):
                wrong += [changed(d, path, lambda o, k: o.pop(k)), changed(d, path, lambda o, _: o.__setitem__("more", None))]
            for w in wrong:
                try:
                    schema.check_document(view, w)
                except schema.Invalid:
                    count += 1
                    continue
                raise AssertionError("%s: accepted without, or with another, %s" % (view, path))
    check(count > (2000 if FULL else 300), count)
    return "%d wrong ones" % count


@case("null stands only where something can be unknown")
def wrong_nulls():
    d = read("summary", FILES[0])
    for path in (("devices",), ("ooms",), ("trace", "complete"), ("ooms", 0, "event"), ("devices", 0, "memory", "end"),
                 ("ooms", 0, "memory"), ("devices", 0, "live_bytes"), ("incident_counts",), ("live_at_crossing", 0, "kind")):
        try:
            schema.check_document("summary", changed(d, path, lambda o, k: o.__setitem__(k, None)))
        except schema.Invalid:
            continue
        raise AssertionError("null at %r" % (path,))
    unknown = copy.deepcopy(d)
    unknown["trace"].update(events=0, incomplete={"reason": "cut", "known_until_ns": None})
    try:
        schema.check_document("summary", unknown)
    except schema.Invalid as e:
        check("must be null" in str(e), e)
    else:
        raise AssertionError("figures of a trace of which nothing is known")


@case("damaged and cut traces: whatever is left of them is reported as the schemas say")
def damaged_documents():
    rng, count = dice(1), 0
    for _ in range(40):
        with open(rng.choice(FILES), "rb") as f:
            data = bytearray(f.read())
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path = scratch("damaged.zst", bytes(data[:rng.randrange(len(data) // 2, len(data) + 1)]))
        count += sum(report(view, "--json", path)[1] != b"" for view in VIEWS + ("dump",))
    check(count > 10, count)
    return "%d documents" % count


@case("the schemas are valid, and say the same to another validator")
def another_validator():
    try:
        import jsonschema
        validators = {c: jsonschema.Draft202012Validator(schema.bundle(c)) for c in schema.DOCUMENTS}
    except (ImportError, AttributeError):
        raise Skip("python3-jsonschema 4 is not installed") from None
    for command, v in sample(validators.items(), 6):
        v.check_schema(v.schema)
        for path in sample(FILES, 1, len(command)) if command in VIEWS else ():
            d = read(command, path)
            equal([e.message for e in v.iter_errors(d)], [], command)
            check(list(v.iter_errors({**d, "more": 1})), command)


@case("the result of an OOM is that of its call: null where PyTorch reports it, and no call returned")
def results_of_ooms():
    kinds = set()
    for path in SOME + FILES:
        called = {e["event"]: (e["op"], e["result"]) for e in events_of(path)}
        for view in ("summary", "oom"):
            d = read(view, path)
            for o in (d["ooms"] or []) + [d["crossing"]] * bool(d["crossing"]):
                equal((o["op"], o["result"]), called[o["event"]], path)
                kinds.add((o["op"] == "block-oom", o["result"]))
    check(kinds <= {(True, None), (False, 2)} and (False, 2) in kinds and (len(kinds) == 2 or not FULL), kinds)


@case("what belongs to an OOM, its thread, its pool and its recovery, is that of its event; incidents are counted as listed")
def figures_of_ooms():
    recovered = pools = 0
    for path in SOME + FILES:
        events = {e["event"]: e for e in events_of(path)}
        d = read("summary", path)
        for o in d["ooms"] or []:
            equal((o["tid"], o["thread_name"]), (events[o["event"]]["tid"], events[o["event"]]["thread_name"]), path)
            equal(o["recovered_t_ns"], events[o["recovered_event"]]["t_ns"] if o["recovered"] else None, path)
            recovered += o["recovered"]
        for device in d["devices"] or []:
            if d["crossing"] and d["crossing"]["device"] == device["ordinal"]:
                equal(device["pool"]["crossing"], d["crossing"]["pool"], path)
                pools += d["crossing"]["pool"] is not None
        of = {what: [i for i in d["incidents"] or [] if i["outcome"] == what] for what in ("failed", "retried")}
        counts = {"failed": len(of["failed"]), "recovered_later": sum(i["recovered"] for i in of["failed"]),
                  "retried": len(of["retried"]), "freed_before_retry": sum(i["freed_before_retry"] for i in of["retried"])}
        equal(d["incident_counts"], counts if d["incidents"] is not None else None, path)
    check(recovered > 3 and pools > 1 or not FULL, (recovered, pools))


@case("the time of day of the start follows from the clocks that the trace noted")
def time_of_day():
    known = 0
    for path in RECORDED + FILES:
        d = read("info", path)
        if "clock.realtime_ns" in d["info"]:
            known += 1
            equal(d["start_utc_ns"], int(d["info"]["clock.realtime_ns"]) + d["start_ns"] - int(d["info"]["clock.monotonic_ns"]), path)
        equal(read("summary", path)["start_utc_ns"], d["start_utc_ns"], path)
    check(known > 10, known)


@case("dump: frames with names of 18 MB together, of which it keeps 16 MiB, are the same at every event")
def long_names():
    t = Trace()
    traces.begin(t)
    stacks = [[("f%d" % i, "/%s/%d.py" % ("m" * 60000, i), 7)] for i in range(300)]
    for n, stack in enumerate(stacks * 2):
        t.event("alloc", 51 * traces.S + n, api="cuMemAlloc_v2", bytes=1, ptr=0x1000 * n + 1, device=0, result=0, space="device", stack=stack)
    path = t.save(scratch("names.zst"))
    lines = subprocess.run([REPORT, "dump", "--json", path], stdout=subprocess.PIPE, env=PLAIN, check=True).stdout.splitlines()
    got = [[(f["name"], f["file"], f["line"]) for f in json.loads(line)["stack"]] for line in lines]
    want = [[tuple(f) for f in stack] for stack in stacks * 2]
    check(got == want, [(w[0][0], str(g)[:80]) for g, w in zip(got, want) if g != w][:3])


@case("what frag says of the whole range is what summary says, at whatever moment frag looks")
def counts_of_the_range():
    kinds = set()
    for path in SOME + FILES:
        summary = {d["ordinal"]: d for d in read("summary", path)["devices"] or []}
        info = read("info", path)
        first = "%.9f" % ((info["t_first_ns"] - info["start_ns"]) / 1e9)
        for at in ("end", "peak", first):
            for d in read("frag", path, "--at=" + at)["devices"] or []:
                same = ("growth_causes", "oom_causes", "retries", "retries_is_bound", "fragmentation")
                equal([d[k] for k in same], [summary[d["ordinal"]][k] for k in same], path)
                kinds.add((d["pool"] is None, d["growth_causes"] is None))
    check({(True, True), (True, False), (False, False)} <= kinds or not FULL, kinds)


@case("crossing: of a budget, and host memory where it is alone (the rest is in the golden documents)")
def crossing_rules():
    recovered, elsewhere = (scratch(name + ".zst") for name in ("recovered", "elsewhere"))
    equal(read("summary", recovered, "--capacity=400MiB")["crossing"]["event"], 3)
    d = read("summary", elsewhere, "--to=12.5")
    equal((d["crossing"]["event"], d["crossing"]["reason"]), (3, "host-memory"))


@case("a site is the line of the program, not JAX's, XLA's or CuPy's")
def layers_of_frameworks_are_hidden():
    t = Trace()
    traces.begin(t)
    cupy, jax = "/v/site-packages/cupy/", "/v/site-packages/jax"
    for at, layers in enumerate((
            [("__pyx_f_4cupy_4cuda_6memory_alloc", cupy + "cuda/memory.so"), ("empty", cupy + "_creation/basic.py", 34)],
            [("tsl::BFCAllocator::Extend", jax + "_plugins/xla_cuda_plugin.so"), ("bind", jax + "/_src/core.py", 731)])):
        t.event("alloc", (51 + at) * traces.S, api="cuMemAlloc_v2", bytes=1 << 20, ptr=0x10000000 << at, device=0, result=0,
                space="device", stack=[("cuMemAlloc_v2", "/usr/lib/libcuda.so.1"), *layers, ("main", "/m/user.py", 15 + at)])
    path = t.save(scratch("layers.zst"))
    code, out, _ = report("top", path)
    equal((code, sorted(re.findall(r"user.py:\d+ main", out.decode()))), (0, ["user.py:15 main", "user.py:16 main"]))
    check(b"cupy" not in out and b"tsl" not in out and b"jax" not in out, out.decode())


@case("info lists no key as text that its sections say in words; --json has every one")
def look_ups_are_said_in_words():
    t = Trace()
    traces.begin(t)
    names = {"way.resolved.cuMemAlloc_v2": "3", "unwrapped.cuInit.0": "1", "unwrapped.cuInit.2000": "2"}
    t.info.update(names, **{"unwrapped.": "as it is", "way.other.cuMemFree_v2": "5"})
    path = t.save(scratch("look-ups.zst"))
    text = report("info", path)[1].decode()
    equal(dict(re.findall(r"^((?:way|unwrapped)[.]\S*) +(.*)$", text, re.M)), {"unwrapped.": "as it is", "way.other.cuMemFree_v2": "5"})
    check(re.search(r"^  passed by name +2 names without a hook$", text, re.M), text)
    equal({k: v for k, v in read("info", path)["info"].items() if k in names}, names)


main()
