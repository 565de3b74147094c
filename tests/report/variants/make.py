# SPDX-License-Identifier: Apache-2.0
"""The variants of a source: what is changed, where the file ends or begins, and which first verdicts are right then.

A source is read whole, and each variant is written anew: a valid trace, or one that ends like that of a killed process.
The same source and the same name always give the same bytes.
"""
import collections
import os
import random

import changes
import make_checkpoint
import truth
import whole_trace
from changes import again, both, is_failure, scaled
from tap import sample

# data: of the file; journal: of the one beside it, or None; accepted: first verdicts that are right; log: file or None
Variant = collections.namedtuple("Variant", "source name data journal accepted log")

# What is changed in the records: the change, what it takes away (a key of truth.TAKEN), and whether the log of the run
# still says what the trace does.
CHANGES = [
    (changes.same, None, True),
    (changes.no_python, "python", True),
    (changes.python_only, None, True),
    (changes.no_stacks, "stacks", True),
    (changes.shallow, "outer frames", True),
    (changes.no_symbols, None, True),
    (changes.no_blocks, "blocks", True),
    (changes.no_capacity, "capacity", True),
    (changes.no_readings, "readings", True),
    (changes.no_nvml, "nvml", True),
    (changes.private, None, True),
    (changes.only_large, None, True),
    (changes.lost, "events", True),
    (scaled(1, 2), None, False),
    (scaled(3, 4), None, False),
    (scaled(2, 1), None, False),
    (changes.rounded, None, True),
    (changes.swapped, None, True),
    (changes.slower, None, True),
    (changes.coarse_times, None, True),
    (changes.noisy, None, True),
    (changes.other_paths, None, True),
    (changes.launched, None, True),
    (changes.device_3, None, False),
    (changes.two_devices, None, True),
    (both(changes.noisy, scaled(3, 2)), None, False),
    (both(changes.swapped, changes.two_devices), None, True),
    (both(changes.rounded, changes.private), None, True),
]
# Only of sources that are kept aside: sizes and orders, and changes of changes, that the rules were not tried with.
KEPT_ASIDE = [
    (scaled(5, 4), None, False),
    (scaled(2, 3), None, False),
    (scaled(7, 8), None, False),
    (scaled(3, 1), None, False),
    (again(changes.swapped), None, True),
    (again(changes.rounded), None, True),
    (again(changes.noisy), None, True),
    (again(changes.lost), "events", True),
    (both(changes.swapped, changes.rounded), None, True),
    (both(changes.noisy, changes.slower), None, True),
    (both(changes.device_3, scaled(5, 8)), None, False),
    (both(changes.coarse_times, changes.two_devices), None, True),
    (both(changes.private, changes.no_symbols), None, True),
    (both(changes.launched, changes.other_paths), None, True),
    (both(changes.no_python, changes.swapped), "python", True),
    (both(changes.no_stacks, scaled(4, 3)), "stacks", False),
]
# The log says what the trace does not say then.
WITH_LOG = (changes.same, changes.no_python, changes.no_stacks, changes.shallow)
PARTS = ("killed-3", "ringed", "blocks")  # traces whose beginnings are overwritten, which are not read whole here
OPEN_RECORDS = 150  # in the open chunk of a journal


class Source:
    """A trace, and where in it the failure that ended the run is: records from `begin` to before `behind`."""

    def __init__(self, name, path, log=None):
        self.name, self.path, self.log = name, path, log
        self.whole = whole_trace.Whole(path)
        records = self.whole.records
        self.failures = failures = [i for i, r in enumerate(records) if is_failure(r)]
        self.fails = bool(failures) and (name in truth.FAILED or not log)
        if self.fails:
            self.behind = failures[-1] + 1
            self.begin = first_of_request(records, failures)
        else:
            self.begin = self.behind = len(records) * 7 // 10

    def accepted(self, taken, first=0, behind=None, has_end=True):
        """Right first verdicts of a variant with the records from `first` to before `behind`."""
        behind = len(self.whole.records) if behind is None else behind
        if self.fails and first < self.behind <= behind:
            right = truth.accepted(self.name, taken)
        elif self.failures and self.failures[0] < min(behind, self.begin):
            right = ("recovered", "none") if first else ("recovered",)
        else:
            right = ("none",) + (truth.BEFORE.get(self.name, ()) if self.fails else ())
        return right if has_end or self.fails and behind >= self.behind else right + ("incomplete",)


def first_of_request(records, failures):
    """The first refused call of the request that failed last: its thread allocated no block since."""
    thread, begin = records[failures[-1]].get("thread"), failures[-1]
    for i in range(failures[-1] - 1, -1, -1):
        if records[i]["op"] == "block-alloc" and records[i].get("thread") == thread:
            break
        if is_failure(records[i]):
            begin = i
    return begin


# ---- where a file begins and ends ------------------------------------------------------------------
def ends(source):
    return "sealed" if source.whole.sealed else "clean"


def cut(whole, source, behind, torn=0.0):
    """Chunks up to a record, and as much of the next chunk as a part of it."""
    records = whole.records[:min(behind + OPEN_RECORDS, len(whole.records))] if torn else whole.records[:behind]
    quarter = source.begin // 4
    breaks = sorted({e for e in (quarter, source.begin, behind) if 0 < e < len(records)})
    out = whole_trace.write(whole.copy(records), breaks, end=None)
    if torn:
        out[-1] = out[-1][:int(len(out[-1]) * torn)]
    return b"".join(out)


def wrapped(whole, edges, source, kept=None):
    """The oldest chunks are overwritten: the file begins with a checkpoint. kept: (first, behind) of a chunk that was
    retained although later ones are overwritten."""
    marks = sorted({*(kept or ()), *edges})
    restarts = {i + 1: state for i, state in enumerate(make_checkpoint.states(whole, marks))}
    out = whole_trace.write(whole, marks, end=ends(source), restarts=restarts)
    chosen = [marks.index(e) + 1 for e in edges] + ([marks.index(kept[0]) + 1] if kept else [])
    return b"".join(out[i] for i in sorted(chosen))


def endings(source):
    """(name, data, journal, accepted) of the ways in which a file can begin and end."""
    whole, begin, behind, n = source.whole, source.begin, source.behind, len(source.whole.records)
    later = behind + (n - behind) // 2

    def right(first=0, to=n, has_end=True, taken=None):
        return source.accepted(taken, first, to, has_end)
    yield "cut behind the failure", cut(whole, source, behind), None, right(to=behind, has_end=False)
    yield "torn behind the failure", cut(whole, source, behind, 0.6), None, right(to=behind, has_end=False)
    if source.fails:
        yield "cut later", cut(whole, source, later), None, right(to=later, has_end=False)
        yield "cut before the failure", cut(whole, source, begin), None, right(to=begin, has_end=False)
        yield "torn at the failure", cut(whole, source, begin, 0.8), None, right(to=begin, has_end=False)
    chunks = whole_trace.write(whole.copy(whole.records[:later]), [begin] if begin else [], end=None, provisional=True)
    yield "killed, last chunk provisional", b"".join(chunks), None, right(to=later, has_end=False)
    at = max(behind - OPEN_RECORDS, 1)
    chunks, journal = whole_trace.write_with_journal(whole.copy(whole.records[:behind]), at)
    yield "killed, journal", b"".join(chunks), journal, right(to=behind)


def wraps(source):
    whole, begin, behind, n = source.whole, source.begin, source.behind, len(source.whole.records)
    for share in (0.3, 0.6, 0.9) if source.fails else (0.3, 0.9):
        first = int(begin * share)
        if 0 < first:
            data = wrapped(whole, [first], source)
            yield f"wrapped to {share:.0%} of the way", data, None, source.accepted("start", first)
    if source.fails and n - behind > 4 and begin > 4:
        first, last = int(begin * 0.8), (behind + n) // 2
        yield ("wrapped behind the failure, whose chunk is kept", wrapped(whole, [last], source, (first, behind)), None,
               source.accepted("start", first))


def changed(source, few=None):
    """(name, data, journal, accepted, the verdicts that are right with the log) of the changes in the records: all of
    them, but of a healthy trace six of each table, which are others for each. few: so many that the seed draws."""
    rng, by_log = random.Random(source.name), truth.BY_LOG.get(source.name)
    chosen = CHANGES if source.fails or by_log else CHANGES[:1] + rng.sample(CHANGES[1:], 6)
    if truth.is_kept_aside(source.name):
        chosen = chosen + (KEPT_ASIDE if source.fails or by_log else rng.sample(KEPT_ASIDE, 6))
    for change, taken, fits in sample(chosen, few, len(source.whole.records)) if few else chosen:
        name = change.__name__.replace("_", " ")
        other = change(source.whole, random.Random(f"{source.name} {name}"))
        if other is None:
            continue
        data = b"".join(whole_trace.write(other, [len(other.records) // 2], end=ends(source)))
        with_log = by_log if fits else None
        if not by_log and change in WITH_LOG:
            with_log = source.accepted(None) + (truth.LOG_SHOWS.get(source.name, ()) if taken else ())
        yield name, data, None, source.accepted(taken), source.log and with_log


def as_it_is(name, path):
    """Variants of a trace that is not read whole: as it is, and torn."""
    with open(path, "rb") as f:
        data = f.read()
    accepted = truth.accepted(name, None)
    yield Variant(name, "same", data, None, accepted, None)
    yield Variant(name, "torn at its end", data[:-20], None, (*accepted, *truth.UNSURE, "none", truth.UNREADABLE), None)


def variants(name, path, log=None, few=None, has_ends=True):
    """All variants of a source, or a few changes of it, with or without the ways to begin and end. One of which the log
    says more, or something else, comes twice: also with it."""
    if name in PARTS:
        yield from as_it_is(name, path)
        return
    source = Source(name, path, log)
    for what, data, journal, accepted, with_log in changed(source, few):
        yield Variant(name, what, data, journal, accepted, None)
        if with_log:
            yield Variant(name, what + " + log", data, journal, with_log, log)
    for what, data, journal, accepted in (*endings(source), *wraps(source)) if log and has_ends else ():
        yield Variant(name, what, data, journal, accepted, None)
        if name in truth.BY_LOG and what.startswith("wrapped"):
            yield Variant(name, what + " + log", data, journal, truth.BY_LOG[name], log)


def sources(folder):
    """(name, trace, log) of all sources below tests/report, largest first."""
    found = []
    for of, before in truth.REAL.items():
        for name in sorted(os.listdir(os.path.join(folder, of))):
            at = os.path.join(folder, of, name)
            log = None if before + name in truth.RECOVERED else os.path.join(at, "log.txt")
            found += [(truth.HEALTHY_BESIDE.get((name, t), before + name), os.path.join(at, t), log)
                      for t in sorted(os.listdir(at)) if t.endswith(".zst")]
    small = os.path.join(folder, "golden/traces")
    found += [(name, os.path.join(small, name + ".zst"), None) for name in (*truth.SMALL, *truth.UNDECIDED)]
    return sorted(found, key=lambda s: -os.path.getsize(s[1]))
