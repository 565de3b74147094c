# SPDX-License-Identifier: Apache-2.0
"""What must be readable after a process died: every call that had returned, and at most one more for each thread.

The truth is the simulated driver's binary ledger (SIM_LEDGER_MAP), which survives a kill at any instruction and knows
for each thread which of its calls had returned. A call that was under way may be in the trace or not.
"""
import bisect
import collections
import functools
import json
import subprocess
import sys

import check_ledger
import ring_checker
from check_ledger import differences, is_give, number, show


class Trace:
    """A trace and its journal, through cutrace-report."""

    def __init__(self, report, path, may_lack=False):
        self.report, self.path = report, path
        self.accepted = (0, 4) if may_lack else (0,)  # 4: the journal of a killed process is not there
        self.said = ""
        self.events = check_ledger.read_dump(self.run("dump", "--json"))
        self.calls = [e for e in self.events if check_ledger.is_call(e)]

    def run(self, *arguments):
        lines = check_ledger.without_lines(arguments[0])
        r = subprocess.run([self.report, *arguments, *lines, self.path], capture_output=True, text=True)
        if r.returncode not in self.accepted:
            raise RuntimeError(f"{' '.join(arguments)}: exit {r.returncode}: {r.stderr.strip()}")
        self.said += r.stderr
        return r.stdout

    def json(self, command):
        return json.loads(check_ledger.validated(command, self.run(command, "--json")))

    @functools.cached_property
    def summary(self):
        return self.json("summary")


def same(seen, true):
    """The usual case, without looking further."""
    return (seen["op"] == true["op"] and seen["result"] == true["result"] and seen["api"] == true["api"] and
            number(seen["ptr"]) == true.get("ptr") and number(seen["handle"]) == true.get("handle") and
            check_ledger.is_size_of(seen, true) and
            ((seen["t_ns"] <= true["t_ns"]) if is_give(true) else seen["t_ns"] >= true["t_ns"]))  # (else by and by)


def look_up_freed(ledger):
    """Sets `freed` of each free in the ledger to the allocation at its address. Returns the allocation at each address at
    the end."""
    at = {}
    for e in ledger:
        if e.get("ptr") is None:
            continue
        if e["op"] == "alloc" and not e["result"]:
            at[e["ptr"]] = e
        elif e["op"] == "free" and e["ptr"] in at:
            e["freed"] = at[e["ptr"]] if e["result"] else at.pop(e["ptr"])
    return at


def like(seen, true):
    return all(a["api"] == b["api"] and number(a["ptr"]) == b.get("ptr") for a, b in zip(seen, true))


def beginning(seen, true, wrapped):
    """Where the trace of a thread begins in its ledger; `wrapped` is the time of the first event of a trace whose older
    events were overwritten, else 0. And whether something is missing there."""
    if not wrapped:
        return 0, False
    at = len(true)
    if seen:  # a thread makes one call at a time: by the time it is this one, or one beside it
        middle = bisect.bisect_left([e["t_ns"] for e in true], seen[0]["t_ns"])
        at = next((i for i in range(max(middle - 3, 0), middle + 3) if like(seen[:8], true[i:i + 8])), middle)
    # A give-back has its time in the trace before that in the ledger: one may be on the wrong side.
    return at, at > 1 and true[at - 2]["t_ns"] > wrapped + check_ledger.CLOCK_NS


def compare_thread(tid, seen, true, returned, wrapped):
    """Problems, and the ledger's records that the trace has (one that the ledger does not have yet as the trace's)."""
    at, gap = beginning(seen, true, wrapped)
    if gap:
        return [f"thread {tid}: lost: what came before {show((seen or true)[0])} is younger than the trace's beginning"], []
    problems, has = [], []
    for i, e in enumerate(seen, at):
        if i > len(true) or (i == len(true) and not is_give(e)):
            problems.append(f"thread {tid}: invented: {show(e)}")
        elif i == len(true):
            has.append(e)  # published, and the driver has not done it
        else:
            wrong = [] if same(e, true[i]) else differences(e, true[i])
            if i >= returned and is_give(true[i]) and "result" in wrong:
                wrong.remove("result")  # that it failed was not known yet
            if wrong:
                problems.append(f"thread {tid} call {i} (of {len(true)}, {returned} returned): {', '.join(wrong)} differ:\n"
                                f"    trace  {show(e)}\n    ledger {show(true[i])}")
            has.append(true[i] if e["result"] == true[i]["result"] else dict(true[i], result=e["result"]))
        if len(problems) > 2:
            return problems, has
    if not problems and at + len(seen) < returned:
        problems.append(f"thread {tid}: lost: {returned - at - len(seen)} of {returned} calls that had returned; first "
                        f"{show(true[at + len(seen)])}")
    return problems, has


def compare_primaries(seen, true, sure, wrapped):
    """Beginnings and ends of primary contexts, whichever thread's (check_ledger.compare_primaries): the trace has some of the
    ledger's in their order, and all that are sure and not overwritten. Problems, and the ledger's records that it has."""
    def told(e):
        return e["op"], e["device"], number(e["context"])

    way = -1 if wrapped else 1  # what was overwritten is the beginning
    rest, has, lost = list(seen)[::way], [], []
    for e in true[::way]:
        if rest and told(rest[0]) == told(e):
            has.append(e)
            rest.pop(0)
        elif e["seq"] in sure and e["t_ns"] > wrapped + (check_ledger.CLOCK_NS if wrapped else 0):
            lost.append(e)
    return [f"primary contexts: invented, or in another order: {show(e)}" for e in rest] + [
        f"primary contexts: lost: {show(e)}" for e in lost], has


def compare_order(events, whole):
    """No address is taken while it is taken, or given back while it is not."""
    live, out = set(), []
    last = {e["tid"]: e["event"] for e in events}
    for e in events:
        p = number(e["ptr"])
        if e["result"] or not p or e["op"] not in ("alloc", "free"):
            continue
        if e["op"] == "alloc":
            if p in live:
                out.append(f"event {e['event']}: {p:#x} is taken while it is taken")
            live.add(p)
        else:
            if p not in live and whole and e["event"] != last[e["tid"]]:  # (or it failed, which was not known yet)
                out.append(f"event {e['event']}: {p:#x} is given back while it is not taken")
            live.discard(p)
    return out[:3]


LOSSES = "events are counted as lost"


def say_lost(n):
    return [f"{n} {LOSSES}"] if n else []


def has_losses(problems):
    """Whether events were lost, which the recorder documents for a busy machine: the run decides nothing."""
    return any(LOSSES in str(problem) for problem in problems)


def compare_numbers(events, wrapped, lost):
    out = []
    numbers = [e["event"] for e in events]
    if numbers and not wrapped and numbers[0] != 0:
        out.append(f"events begin at {numbers[0]}")
    if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else []):
        out.append("events are not numbered without gaps")
    if any(a["t_ns"] > b["t_ns"] for a, b in zip(events, events[1:])):
        out.append("events are not in the order of time")
    return out + say_lost(lost)


def last_run(events):
    """The events behind the last gap in their numbers (what surrounds a refusal may be kept before it)."""
    for i in range(len(events) - 1, 0, -1):
        if events[i]["event"] != events[i - 1]["event"] + 1:
            return events[i:]
    return events


def pending_frees(path, last_calls):
    """Frees that were published, that the driver had not done, and that were overwritten since: those of threads which made
    no other call in the part of the trace that is left. Each checkpoint names the last free of a thread, and its object.
    last_calls: for each such thread the time of its last call in the ledger."""
    found = {}
    for chunk in (c for run in ring_checker.read(path)[-1:] for c in run):
        named = []
        for e, _ in chunk.objects:
            if e.op == "amend":
                named.append(e)
                continue
            for free in named:
                if free.tid in last_calls and free.amends > last_calls[free.tid]:
                    found[free.tid] = {"op": "free", "ptr": e.ptr, "api": "", "result": 0}
            named = []
    return list(found.values())


def kept_in_sums(calls, record_of, at_end):
    """Of allocations before an inexact checkpoint only sums are known. A free that the recorder took out of its ring says of
    which sum it is one; those that a kill left in the rings cannot, and the sum keeps the allocation (FORMAT.md, section 7).
    Such allocations, at addresses of their own. record_of: the ledger's record of each event of the trace."""
    kept, known = [], set()
    for e in calls:
        p = number(e["ptr"])
        if e["result"] or e["op"] not in ("alloc", "free"):
            continue
        if e["op"] == "alloc":
            known.add(p)
        elif p in known:
            known.discard(p)
        elif e["bytes"] is None:
            freed = record_of[e["event"]].get("freed") or at_end.get(p)  # the latter: the driver had not done it
            kept += [dict(freed, ptr=-1 - len(kept), at=p)] if freed else []
    return kept


def tell_kept(kept, calls, ledger):
    """What is kept in sums, with the last calls at its address: in the trace, and in the ledger."""
    def last(events, p):
        return [(e["tid"], e["op"], e["t_ns"], e.get("bytes")) for e in events if not e["result"] and number(e.get("ptr")) == p][-4:]
    return [f"kept in a sum: {a['at']:#x}, {a['bytes']} bytes: trace {last(calls, a['at'])}, ledger {last(ledger, a['at'])}"
            for a in kept[:40]]


def compare_live(trace, ledger, has, before, unsure, pending, kept):
    """What is live at the end, by the trace's own checkpoints and by the ledger, with or without each call that was under
    way in a thread of which the trace has nothing any more."""
    told = {e["seq"]: e for e in has if "seq" in e}
    summary, problems = trace.summary, []
    more = pending + ([] if summary["trace"]["exact"] else kept)
    for n in range(1 << len(unsure)):
        known = before | {seq for i, seq in enumerate(sorted(unsure)) if n >> i & 1}
        effective = [told.get(e["seq"], e) for e in ledger if e["seq"] in told or e["seq"] in known]
        problems = check_ledger.compare_live(summary, effective + [e for e in has if "seq" not in e] + more)
        if not problems:
            break
    return problems


def judge(report, path, ledger_path, may_wrap=False, live=True):
    """Everything that is wrong with what a dead process left; and the numbers of its calls: in the ledger, returned, in
    the trace."""
    ledger, returned = check_ledger.read_map(ledger_path)
    at_end = look_up_freed(ledger)
    gone = sum(returned.values())
    try:
        trace = Trace(report, path)
    except RuntimeError as e:  # also that there is no file, or an empty one
        return ([f"{e}, and {gone} calls had returned"] if gone else []), (len(ledger), gone, 0)
    events = last_run(trace.events) if may_wrap else trace.events
    wrapped = events[0]["t_ns"] if may_wrap and events and events[0]["event"] > 0 else 0
    calls = [e for e in events if check_ledger.is_call(e)]
    true, sure = check_ledger.by_thread(ledger), set()
    for tid, n in returned.items():
        back = [e for e in true[tid][:n] if check_ledger.is_primary(e)]
        sure |= {e["seq"] for e in back}
        returned[tid] = n - len(back)
    (calls, primaries), (others, true_primaries) = check_ledger.split_primaries(calls), check_ledger.split_primaries(ledger)
    seen, true = check_ledger.by_thread(calls), check_ledger.by_thread(others)
    wrong, has = compare_primaries(primaries, true_primaries, sure, wrapped)
    lost = trace.summary["trace"]["lost_events"]  # also where the records of it were overwritten
    problems = compare_numbers(events, wrapped, lost) + wrong
    before, unsure, last_calls, record_of = {e["seq"] for e in true_primaries}, set(), {}, {}
    for tid in set(seen) | set(true):
        wrong, mine = compare_thread(tid, seen[tid], true[tid], returned.get(tid, 0), wrapped)
        problems += wrong
        has += mine
        record_of.update((e["event"], record) for e, record in zip(seen[tid], mine))
        if wrapped:  # what was overwritten
            first = next((e["seq"] for e in mine if "seq" in e), None)
            gone_by = len(true[tid]) if first is not None else returned.get(tid, 0)
            before |= {e["seq"] for e in true[tid][:gone_by] if first is None or e["seq"] < first}
            unsure |= {e["seq"] for e in true[tid][gone_by:]}
            if first is None and true[tid] and gone_by == len(true[tid]):
                last_calls[tid] = true[tid][-1]["t_ns"]
    problems += compare_order(events, not wrapped)
    if live and not problems:
        pending = pending_frees(path, last_calls) if last_calls else []
        kept = kept_in_sums(calls, record_of, at_end)
        wrong = compare_live(trace, ledger, has, before, unsure, pending, kept)
        problems += wrong + (tell_kept(kept, calls, ledger) if wrong else [])
    return problems, (len(ledger), gone, len(calls) + len(primaries))


def happened(seen, true):
    """Whether it is this call; that a give-back failed is known only by what comes later."""
    return (true["op"] == seen["op"] and true.get("ptr") == number(seen["ptr"]) and
            (true["result"] == seen["result"] or (is_give(true) and not seen["result"])))


def part(report, path, ledger_path):
    """For a recorder that ran into trouble: what is in the trace did happen, in this order. And how much of it is there, is
    counted as lost, and how much happened."""
    ledger, _ = check_ledger.read_map(ledger_path)
    trace = Trace(report, path, may_lack=True)
    problems = compare_numbers([e for e in trace.events if e["op"] != "lost"], 1, 0)
    problems = [p for p in problems if "gaps" not in p]
    true = check_ledger.by_thread(ledger)
    for tid, seen in check_ledger.by_thread(trace.calls).items():
        at, mine = 0, true[tid]
        for i, e in enumerate(seen):
            while at < len(mine) and not happened(e, mine[at]):
                at += 1
            if at == len(mine):
                if not is_give(e) or i + 1 < len(seen):  # (else published, and the driver has not done it)
                    problems.append(f"thread {tid}: invented: {show(e)}")
                break
            at += 1
    lost = sum(e.get("count") or 0 for e in trace.events if e["op"] == "lost")
    return problems, (len(trace.calls), lost, len(ledger))


if __name__ == "__main__":
    found, counts = judge(sys.argv[1], sys.argv[2], sys.argv[3], may_wrap=len(sys.argv) > 4)
    print("\n".join(found) or "nothing is missing", counts)
    sys.exit(bool(found))
