#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""copy --scrub: no name of a user, host or project is left in the bytes, and what the trace says stays the same.

The traces are real ones whose paths were moved into a person's home (lib/whole_trace.py). What is left is looked for in
the decompressed bytes by this test itself.
"""
import hashlib
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import read_trace  # noqa: E402
import whole_trace  # noqa: E402
from tap import REPORT, ROOT, Skip, case, check, equal, main, read_view, report, sample, scratch  # noqa: E402

VLLM = os.path.join(ROOT, "tests/report/vllm")
HOME = "/home/alice.meier"
SITE = HOME + "/venvs/gpu/lib/python3.11/site-packages"
PROJECT = HOME + "/src/secret-rocket/train"
SECRETS = (b"alice", b"meier", b"secret-rocket", b"gpu-box-17", b"venvs", b"/home/")


def moved(path):
    path = path.replace("/opt/vllm", SITE).replace("/opt/bed", PROJECT)
    return path.replace("/opt/python", HOME + "/python")


def move_frame(f):
    if f[0] == "python":
        return "python", f[1], f[2] and moved(f[2]), f[3]
    if f[0] == "native":
        module = f[2] and whole_trace.Module((moved(f[2][0]), *f[2][1:]))
        places = tuple((p[0], p[1] and moved(p[1]), p[2]) for p in f[6])
        return (*f[:2], module, *f[3:6], places)
    return f


def source(name="profile-run", **info):
    """A trace as alice's machine would have recorded it."""
    whole = whole_trace.Whole(os.path.join(VLLM, name, "trace.zst"))
    whole.stacks = [tuple(map(move_frame, s)) for s in whole.stacks]
    whole.info.update({"process.env.VLLM_CACHE_ROOT": HOME + "/cache:/data/Alice.Meier/x",
                       "process.env.NCCL_DEBUG_FILE": "/tmp/gpu-box-17.log", **info})
    return scratch(name + ".zst", b"".join(whole_trace.write(whole)))


def scrub(path, *args, level="paths", name="scrubbed.zst", code=0):
    to = scratch(name)
    got, out, err = report("copy", path, "--scrub=" + level, "--force", "-o", to, "--words=gpu-box-17", *args)
    equal(got, code, err.decode())
    return to, out.decode(), err.decode()


def raw(path):
    with open(path, "rb") as f:
        data = f.read()
    return data + b"".join(body for _, body in read_trace.chunks(data))


def view(path, *args):
    return read_view(*args, path, codes=(0,))


def pairs(before, after):
    """Each path before -> after, found by the order of records."""
    a, b = whole_trace.Whole(before), whole_trace.Whole(after)
    found = {}
    ra = [r for r in a.records if r["op"] != "amend"]
    equal(len(ra), len(b.records), "records")
    for x, y in zip(ra, b.records):
        if "stack" not in x or "stack" not in y:
            continue
        for f, g in zip(a.stacks[x["stack"]], b.stacks[y["stack"]]):
            if f[0] == "python":
                found[f[2]] = g[2]
                equal((f[1], f[3]), (g[1], g[3]), "function and line")
            elif f[0] == "native" and f[2]:
                found[f[2][0]] = g[2][0]
                equal((f[1], f[3], f[4]), (g[1], g[3], g[4]), "address and symbol")
    return found


def mapped(value, names):
    if isinstance(value, dict):
        return {k: mapped(v, names) for k, v in value.items() if k not in ("file_hash", "chunks", "exe")}
    if isinstance(value, list):
        return [mapped(v, names) for v in value]
    return names.get(value, value) if isinstance(value, str) else value


@case("no user, host, home or project is left in the decompressed bytes, at either level")
def nothing_left():
    path = source()
    check(all(s in raw(path) for s in SECRETS if s != b"venvs"), "the source has them")
    problems = []
    for level in ("paths", "strict"):
        to, _, _ = scrub(path, level=level)
        bytes_ = raw(to).lower()
        problems += [f"{level}: {s} is left" for s in SECRETS if s in bytes_]
        equal(whole_trace.Whole(to).info["scrub.level"], level)
    return problems


@case("at level paths the verdict, the accounts and the call sites are the same but for names")
def same_conclusions():
    problems = []
    for name in sample(("profile-run", "sleep-1"), 1):
        before = source(name)
        after, _, _ = scrub(before)
        names = {**pairs(before, after), before: after}
        for args in (("summary",), ("explain",), ("top", "-n", 1000), ("oom",), ("frag",), ("leaks",), ("phases",)):
            a, b = mapped(view(before, *args), names), mapped(view(after, *args), {})
            if a != b:
                problems.append(f"{name} {args[0]}: {first_difference(a, b)}")
    return problems


def first_difference(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        return next((d for k in sorted({*a, *b}) for d in [first_difference(a.get(k), b.get(k), path + "/" + k)] if d), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for i, (x, y) in enumerate(zip(a, b)) for d in [first_difference(x, y, f"{path}[{i}]")] if d), None)
    return None if a == b else f"{path}: {str(a)[:200]} / {str(b)[:200]}"


@case("public names stay: packages, their files and functions; strict takes the project's")
def public():
    path = source()
    to, _, _ = scrub(path)
    bytes_ = raw(to)
    for kept in (b"site-packages/vllm/v1/worker/gpu_worker.py", b"site-packages/torch/", b"default_unquantized_gemm", b"serve.py"):
        check(kept in bytes_, kept)
    to, _, _ = scrub(path, level="strict")
    bytes_ = raw(to)
    check(b"serve.py" not in bytes_ and b"default_unquantized_gemm" in bytes_ and b"gpu_worker.py" in bytes_, "strict")
    check(re.search(rb"file-[0-9a-f]{16}\.py", bytes_), "a pseudonym")


@case("pseudonyms are stable: the same in all traces with one salt, the same bytes each time, others with another salt")
def stable():
    a, b = source("profile-run"), source("sleep-1")
    one, two = (set(re.findall(rb"dir-[0-9a-f]{16}", raw(scrub(p, level="paths:x")[0]))) for p in (a, b))
    check(one and one & two, "shared folders have one name")
    other = set(re.findall(rb"dir-[0-9a-f]{16}", raw(scrub(a, level="paths:y")[0])))
    check(not one & other, "another salt")
    equal(report("copy", a, "--scrub=no:y", "--force", "-o", scratch("x.zst"))[0], 2)
    first = raw(scrub(a)[0])
    equal(first, raw(scrub(a)[0]), "the same bytes")


def alike(salt):
    """Two names whose SHA-256 over that of the salt have 32 bits in common: found among so many that there are some."""
    digest, found = hashlib.sha256(salt.encode()).digest(), {}
    for i in range(1 << 20):
        name = f"rocket{i}"
        first = hashlib.sha256(digest + name.encode()).digest()[:4]
        if first in found:
            return found[first], name
        found[first] = name
    raise AssertionError("no two of a million names")


@case("no two names become one: folders whose digests have 32 bits in common stay two")
def no_collision():
    one, two = alike("x")
    whole = whole_trace.Whole(os.path.join(VLLM, "profile-run", "trace.zst"))
    whole.stacks = [(("python", "f", f"/home/alice.meier/{(one, two)[i % 2]}/train.py", 1),) for i in range(len(whole.stacks))]
    path = scratch("alike.zst", b"".join(whole_trace.write(whole)))
    found = set(re.findall(rb"~/dir-([0-9a-f]+)/train.py", raw(scrub(path, level="paths:x")[0])))
    equal((len(found), len({name[:8] for name in found})), (2, 1), (one, two))


@case("a copy says what it replaced, also one that goes nowhere")
def replaced():
    path = source()
    before = set(os.listdir(scratch()))
    code, out, _ = report("copy", "--scrub=paths", "-o", "/dev/null", "--force", "--json", "--words=gpu-box-17", path)
    equal((code, set(os.listdir(scratch()))), (0, before))
    said = json.loads(out)
    least = {"home": 1, "site": 1, "folder": 3, "word": 1, "hash": 3}
    counted = {r["class"]: r["names"] for r in said["replaced"]}
    check(all(counted[k] >= n for k, n in least.items()), counted)


@case("strict: names of variables in the program's own code are replaced; without it they stay")
def variables():
    path = source(**{"static.largest.0": "4194304 x 1 rocket_table", "static.bytes": "4194304"})
    plain, strict = (view(scrub(path, level=level)[0], "info")["info"] for level in ("paths", "strict"))
    equal(plain["static.largest.0"], "4194304 x 1 rocket_table")
    check("rocket" not in strict["static.largest.0"] and str(strict["static.bytes"]) == "4194304", strict["static.largest.0"])


@case("it fails closed: where a name is left nothing is written, with exit code 5")
def fails_closed():
    # (scrub never changes keys of facts: a user's name in one is left)
    path = source(**{"hook.alice.meier.calls": "1"})
    to = scratch("refused.zst")
    code, _, err = report("copy", "--scrub=paths", "-o", to, path)
    equal((code, os.path.exists(to)), (5, False))
    check(b"alice.meier is still in it" in err and len(err.splitlines()) == 1, err)
    equal([n for n in os.listdir(scratch()) if n.startswith("refused")], [])


@case("the user and the host of this machine are names, too, whatever the trace says")
def own_names():
    path = source(**{"process.env.VLLM_X": "/data/bobby/run by bobby"})
    to = scratch("own.zst")
    code, _, err = report("copy", "--scrub=paths", "--force", "-o", to, path, env={"USER": "bobby", "HOME": "/nowhere/carla99"})
    equal(code, 0, err)
    check(b"bobby" not in raw(to), "user")


@case("the host's name, whole and without its domain")
def own_host():
    renamed = "import os, socket, sys; socket.sethostname('trainer7.lab.example'); os.execv(sys.argv[1], sys.argv[1:])"
    path = source(**{"process.env.VLLM_X": "/data/trainer7/run at trainer7.lab.example"})
    to = scratch("host.zst")
    done = subprocess.run(["unshare", "--uts", sys.executable, "-c", renamed, REPORT, "copy", "--scrub=paths", "--force", "-o", to, path],
                          capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "sethostname" in done.stderr:
        raise Skip("no name of its own can be given to a host here")
    equal(done.returncode, 0, done.stderr)
    check(b"trainer7" not in raw(to), "host")


main()
