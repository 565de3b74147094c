#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first verdict of more than a thousand variants of real traces, against what their runs were (variants/truth.py):
with CUTRACE_FULL=1; else of some variants of a few of them.

`test_variants.py --list` prints each variant that is wrong, but not those of the sources that are kept aside;
`--write=FOLDER` leaves all variants there.
"""
import collections
import functools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
sys.path.insert(0, os.path.join(HERE, "../torch/allocator"))
sys.path.insert(0, os.path.join(HERE, "variants"))
import changes  # noqa: E402
import check_ledger  # noqa: E402
import make  # noqa: E402
import make_checkpoint  # noqa: E402
import read_trace  # noqa: E402
import segments  # noqa: E402
import truth  # noqa: E402
import whole_trace  # noqa: E402
from tap import FULL, PLAIN, REPORT, case, check, check_json, equal, main, note, read_json, sample  # noqa: E402

Outcome = collections.namedtuple("Outcome", "source name accepted first confidence device evidence")
KEPT = next((a[len("--write="):] for a in sys.argv if a.startswith("--write=")), None)
CHECKED = 40  # the JSON of one variant in so many is validated: that takes longer than all else
NOWHERE = "--sysroot=/nowhere"
# Changes after which a failure is the same, and the factor of its sizes.
MIRRORS = {"no symbols": 1, "slower": 1, "other paths": 1, "launched": 1, "device 3": 1, "two devices": 1,
           "sizes times 1/2": 1 / 2, "sizes times 3/4": 3 / 4, "sizes times 2": 2}
# Where such a change says something else: what a plain program's memory is for is told by native frames, and host memory
# keeps its size.
NO_MIRRORS = {("pytorch-training_step", "no symbols"), ("pytorch-adam_of_many", "no symbols"),
              *(("pytorch-host_pinned", name) for name, factor in MIRRORS.items() if factor != 1)}


def write(variant, folder):
    path = os.path.join(folder, "variant.zst")
    if KEPT:
        os.makedirs(os.path.join(KEPT, variant.source), exist_ok=True)
        path = os.path.join(KEPT, variant.source, variant.name.replace(" ", "_").replace("/", "-") + ".zst")
    for file, data in ((path, variant.data), (path + ".journal", variant.journal)):
        if data is not None:
            with open(file, "wb") as f:
                f.write(data)
        elif os.path.exists(file):
            os.unlink(file)
    return path


def first_verdict(variant, path, is_checked):
    """(scenario, confidence, device, bytes of its evidence but for rounding, which other sizes do not have in proportion)"""
    command = ["summary", "--json", NOWHERE, *([f"--log={variant.log}"] if variant.log else []), path]
    done = subprocess.run([REPORT, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN, check=False)
    if done.returncode == 3 and b"no readable chunk" in done.stderr:
        return truth.UNREADABLE, 0, None, []
    if done.returncode not in (0, 4):
        return f"exit {done.returncode}: {done.stderr.decode(errors='replace')[:200]}", 0, None, []
    if is_checked:
        check_json(command, done.stdout)
    first = json.loads(done.stdout)["verdicts"][0]
    return first["scenario"], first["confidence"], first["device"], [
        e["bytes"] for e in first["evidence"] if "rounding of allocations up" not in e["text"]]


def judge_source(source):
    """Outcomes of all variants of a source."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for number, variant in enumerate(make.variants(*source)):
            first = first_verdict(variant, write(variant, folder), number % CHECKED == 0)
            out.append(Outcome(variant.source, variant.name, variant.accepted, *first))
    return out


@functools.lru_cache(maxsize=None)
def judge_all():
    with multiprocessing.Pool(os.cpu_count()) as pool:
        return [o for outcomes in pool.imap_unordered(judge_source, make.sources(HERE)) for o in outcomes]


def judge_some():
    """Outcomes of a few variants of small sources, of which a failed one is judged with all ways to end."""
    small = [s for s in make.sources(HERE)[30:] if not truth.is_kept_aside(s[0])]
    failed = [s for s in small if s[0] in truth.FAILED]
    chosen = [(s, False) for s in sample(small, 8, 1)] + [(s, True) for s in sample(failed, 1, 2)]
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for source, ends in chosen:
            few = make.variants(*source, few=5, has_ends=ends)
            out += [Outcome(v.source, v.name, v.accepted, *first_verdict(v, write(v, folder), False)) for v in few]
    return out


class Figures:
    """What is counted of a part of the variants."""

    def __init__(self, outcomes):
        self.all = outcomes
        self.wrong = [o for o in outcomes if o.first not in o.accepted]
        self.unsure = [o for o in outcomes if o.first in truth.UNSURE]
        self.healthy = [o for o in outcomes if set(o.accepted) <= {"none", "recovered", "incomplete"}]
        self.alarms = [o for o in self.healthy if o in self.wrong and o.first not in truth.UNSURE]

    def problems(self):
        limits = ("wrong", self.wrong, self.all, 0.05), ("false alarms", self.alarms, self.healthy, 0.02)
        return [f"{name}: {len(some) / len(of):.1%} ({self})" for name, some, of, most in limits
                if len(some) > most * len(of)]

    def calibration(self):
        """How many verdicts of about the same confidence are right."""
        lines = []
        for low, high in ((0, 0.5), (0.5, 0.7), (0.7, 0.85), (0.85, 1.01)):
            some = [o for o in self.all if low <= o.confidence < high]
            wrong = [o for o in some if o in self.wrong]
            if some:
                mean = sum(o.confidence for o in some) / len(some)
                lines.append(f"confidence {mean:.2f}: {1 - len(wrong) / len(some):.2f} of {len(some)} are right")
        return "; ".join(lines)

    def __str__(self):
        right = len(self.all) - len(self.wrong)
        needless = [o for o in self.unsure if o in self.wrong]
        return (f"{right} of {len(self.all)} variants ({right / len(self.all):.1%}), {len(self.unsure) - len(needless)} of"
                f" them rightly unsure; {len(needless)} unsure with all evidence; {len(self.alarms)} of"
                f" {len(self.healthy)} healthy ones alarm")


def part(is_aside):
    return Figures([o for o in judge_all() if truth.is_kept_aside(o.source) == is_aside])


@case("the right scenario is the first one, in variants of sources that the rules were written with")
def in_sample():
    figures = part(False) if FULL else Figures(judge_some())
    wrong = sorted(f"{o.source}: {o.name}: {o.first}, not {' or '.join(o.accepted)}" for o in figures.wrong)
    note(figures.calibration())
    if "--list" in sys.argv:
        note("\n".join(wrong))
    return figures.problems() + wrong if figures.problems() else str(figures)


@case("the same in variants of the third of the sources that was kept aside", long=True)
def out_of_sample():
    return part(True).problems() or str(part(True))


@case("one verdict in ten at most is unsure, and none where all evidence is there (of sources not kept aside)", long=True)
def unsure():
    figures = Figures(judge_all())
    few = len(figures.unsure) <= 0.1 * len(figures.all)
    needless = [f"{o.source}: {o.name}: {o.first}" for o in part(False).unsure if o in part(False).wrong]
    return needless + ([] if few else [str(figures)])


@case("a failure is the device's that refused, whichever others are there", long=True)
def right_device():
    failed = [o for o in judge_all() if o.first in truth.FAILED.get(o.source, ()) and "log" not in o.name]
    check(len(failed) > 200)
    return [f"{o.source}: {o.name}: device {o.device}" for o in failed
            if o.device != (3 if o.name.startswith("device 3") else 0)]


@case("the verdict of a failure is the same, with sizes in proportion, on other devices, paths and machines", long=True)
def mirrored():
    whole = {o.source: o for o in judge_all() if o.name == "same" and o.source in truth.FAILED}
    problems, count = [], 0
    for o in judge_all():
        if o.source not in whole or o.name not in MIRRORS or (o.source, o.name) in NO_MIRRORS:
            continue
        count += 1
        same, factor = whole[o.source], MIRRORS[o.name]
        want = [None if b is None else b * factor for b in same.evidence]
        # (since when a call site grows is told by a history of so many instants)
        least = 0.1 if o.first == "leak" else 0
        alike = len(want) == len(o.evidence) and all(
            w is g if None in (w, g) else abs(w - g) < max(1, least * w) for w, g in zip(want, o.evidence))
        if o.first != same.first or abs(o.confidence - same.confidence) > 0.01 or not alike:
            problems.append(f"{o.source}: {o.name}: {o[3:]}, not {same[3:]}")
    check(count > 100, count)
    return problems


@case("there are at least 500 variants; each change is there, of failures and healthy runs; 150 kept aside are new", long=True)
def all_there():
    only = {c[0].__name__.replace("_", " ") for c in make.KEPT_ASIDE}
    few = [o for o in judge_all() if o.name in only]
    check(len(few) >= 150, len(few))
    equal({truth.is_kept_aside(o.source) for o in few}, {True})
    check(len(judge_all()) >= 500, len(judge_all()))
    names = {c[0].__name__.replace("_", " ") for c in make.CHANGES}
    for some in (truth.FAILED, {o.source for o in judge_all()} - set(truth.FAILED)):
        equal(names - {o.name for o in judge_all() if o.source in some}, set())
    right = [s for table in (truth.FAILED, truth.BY_LOG, truth.SMALL) for row in table.values() for s in row]
    equal(set(right) - set(truth.SCENARIOS), set())


def source_of(name):
    return make.Source(*next(s for s in make.sources(HERE) if s[0] == name))


def run(view, data, journal=None):
    with tempfile.TemporaryDirectory() as folder:
        path = write(make.Variant("x", "x", data, journal, (), None), folder)
        return json.loads(read_json(view, NOWHERE, path)) if view != "dump" else read_json(view, NOWHERE, path)


@case("a variant is the same bytes each time, and no two of a source are the same", long=True)
def deterministic():
    source = next(s for s in make.sources(HERE) if s[0] == "profile-run")
    once, again = list(make.variants(*source)), list(make.variants(*source))
    equal([v == w for v, w in zip(once, again)], [True] * len(once))
    without_log = [v for v in once if not v.log]
    twins = len(without_log) - len({(v.data, v.journal) for v in without_log})
    equal(twins, 0, "twins")


@case("the strict reader reads variants that have an end, and they have what FORMAT.md asks for")
def valid():
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for name in sample(("wake-up", "sleep-1", "warm-up-sampler"), 1):
            source = next(s for s in make.sources(HERE) if s[0] == name)
            for v in make.variants(*source, few=None if FULL else 3, has_ends=FULL):
                if any(word in v.name for word in ("torn", "cut", "killed", "same +")):
                    continue
                try:
                    read_trace.Trace(write(v, folder), ring="wrapped" in v.name).amended()
                except (read_trace.Bad, KeyError) as e:
                    problems.append(f"{v.source}: {v.name}: {e!r}")
    return problems


@case("in variants of sizes and orders PyTorch's blocks lie in its segments, and its totals are their sums", long=True)
def pool_is_consistent():
    problems = []
    some = changes.rounded, changes.swapped, changes.noisy
    chosen = [c for c in make.CHANGES if "sizes" in c[0].__name__ or c[0] in some]
    for name in ("multimodal-profile", "load-model"):
        source = source_of(name)
        for change, _, _ in chosen:
            other = change(source.whole, make.random.Random(1))
            check(other and other.records != source.whole.records, f"{name}: {change.__name__} changes nothing")
            replay = segments.Replay()
            for e in check_ledger.read_dump(run("dump", b"".join(whole_trace.write(other)))):
                replay.event(e)
            problems += [f"{name}: {change.__name__}: {p}" for p in replay.problems[:3]]
    return problems


def account(summary, moment):
    """What a summary says of a moment."""
    return [(d["memory"][moment], d["account"][moment], d["pool"][moment]) for d in summary["devices"]]


def compare_accounts(whole, first, moment, journal=False):
    """Of a trace, and of one that has what is before a record only as a checkpoint, or in a journal what is behind it."""
    want = account(run("summary", b"".join(whole_trace.write(whole))), moment)
    if journal:
        chunks, data = whole_trace.write_with_journal(whole, first)
        got = account(run("summary", b"".join(chunks), data), moment)
    else:
        state, = make_checkpoint.states(whole, [first])
        got = account(run("summary", b"".join(whole_trace.write(whole, [first], restarts={1: state})[1:])), moment)
    check(all(a for a in want[0]), f"nothing at the {moment}")
    return [] if got == want else [f"{'journal' if journal else 'from'} {first}: {str(got)[:600]}, not {str(want)[:600]}"]


@case("from a checkpoint, or from a journal, the account at the failure and before it is that of the whole trace")
def same_account():
    problems = []
    for name in sample(("graph-instantiate", "load-model-0.11", "warm-up-sampler", "initialize-kv-cache"), 1):
        source = source_of(name)
        before = source.whole.copy(source.whole.records[:source.begin])  # ends behind a checkpoint, without a reading
        problems += [f"{name}: {p}" for p in [
            *compare_accounts(source.whole, source.begin - 1, "crossing", journal=True),
            *compare_accounts(source.whole, source.begin // 4, "crossing"),
            *compare_accounts(source.whole, source.begin - 1, "crossing"),
            *compare_accounts(before, source.begin - 1, "end")]]
    return problems


@case("a trace that is read whole and written anew says the same")
def same_report():
    for name in sample(("wake-up", "tensor-parallel", "python"), 1):
        source = source_of(name)
        with open(source.path, "rb") as f:
            before = run("oom", f.read())
        after = run("oom", b"".join(whole_trace.write(source.whole, [source.begin], end=make.ends(source))))
        for key in ("incidents", "ooms"):
            equal(after[key], before[key], f"{name}: {key}")


main()
