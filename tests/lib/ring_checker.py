# SPDX-License-Identifier: Apache-2.0
"""A trace that has wrapped, read by FORMAT.md alone, against the program's own log of every call (alloc_free_logged).

Three comparisons must agree: each event that is left with its call; the live objects at each checkpoint that is left
and at the end with those of the log; the history with a computation from the log. The checker shares no code with the C
sources or the driver.
"""
import array
import bisect
import collections
import glob
import itertools

import read_trace

CLOCK_NS = 1000  # how far the recorder's clock may be from the program's
SEGMENT, FIRST, LAST, INEXACT = 4, 1, 2, 4
Event = collections.namedtuple("Event", "op tid t_ns span ptr size result amends")
Object = collections.namedtuple("Object", "size tid t_ns event")


# ---- the log ----------------------------------------------------------------------------------------

class Log:
    """The calls of a thread. A call came between the return of the one before and its own."""

    def __init__(self, path):
        self.tid = int(path.rsplit(".", 1)[1])
        words = array.array("Q")
        with open(path, "rb") as f:
            words.frombytes(f.read())
        self.returned, self.what = words[::2], words[1::2]

    def __len__(self):
        return len(self.what)

    def earliest(self, i):
        return (self.returned[i - 1] if i else 0) - CLOCK_NS

    def latest(self, i):
        return self.returned[i] + CLOCK_NS

    def call(self, i):
        """op, address, size, whether it failed"""
        w = self.what[i]
        return "alloc" if w & 1 else "free", w >> 16, (w >> 2 & 0x3FFF) * 512, bool(w & 2)

    def is_call(self, i, e):
        op, ptr, size, failed = self.call(i)
        if (e.op, bool(e.result)) != (op, failed) or (not (failed and op == "alloc") and e.ptr != ptr):
            return False
        return op == "free" or failed or e.size == size

    def find(self, events):
        """Which call the first of some successive events of this thread is."""
        at = bisect.bisect_left(self.returned, events[0].t_ns - CLOCK_NS)
        fit = [i for i in range(max(at - 4, 0), min(at + 5, len(self)))
               if all(i + k < len(self) and self.is_call(i + k, e) for k, e in enumerate(events))]
        return fit[0] if len(fit) == 1 else None


class Alive:
    """What is alive when of each thread so many calls have been made. Calls of an address take and give in turn; which of two
    allocations of it is the later one is told by their returns."""

    def __init__(self, logs):
        self.logs, self.made = logs, {tid: 0 for tid in logs}
        self.count, self.latest = collections.Counter(), {}

    def go_to(self, tid, n):
        log = self.logs[tid]
        count, latest, what, returned = self.count, self.latest, log.what, log.returned
        for i in range(self.made[tid], n):
            w = what[i]
            if w & 2:
                continue
            p = w >> 16
            if w & 1:
                count[p] += 1
                if p not in latest or latest[p][0] < returned[i]:
                    latest[p] = (returned[i], tid, i)
            else:
                count[p] -= 1
        self.made[tid] = max(self.made[tid], n)

    def objects(self):
        return {p: self.latest[p][1:] for p, n in self.count.items() if n}


# ---- the trace --------------------------------------------------------------------------------------

class Chunk:
    def __init__(self, head, body, threads):
        self.head, self.threads = head, threads
        self.events, self.objects, self.checkpoint, self.history = [], [], None, None
        cursor = read_trace.Cursor(body)
        while cursor.more():
            kind = cursor.varint()
            section = read_trace.Cursor(cursor.take(cursor.u32()))
            if kind == 6:
                while section.more():
                    ident = section.varint()
                    threads[ident] = read_trace.Cursor(section.text()).varint()
            elif kind == 7:
                self.events = [self.event(e) for e in read_trace.events_of(section)]
            elif kind == 8:
                self.checkpoint = section.varint()
                rest = read_trace.Cursor(section.data[section.at:])
                self.objects = [(self.event(e), e.get("event")) for e in read_trace.events_of(rest)]
            elif kind == 9:
                self.history = section.data

    def event(self, e):
        return Event(e["op"], self.threads.get(e.get("thread")), e.get("t_ns", 0), e["span_ns"], e.get("ptr"),
                     e.get("bytes"), e.get("result", 0), e.get("amends_ns"))


def read(path):
    """The chunks whose generation is there, in runs without gaps between them."""
    with open(path, "rb") as f:
        found = read_trace.chunks(f.read())
    runs, threads, expected, whole = [], {}, 0, False
    for head, body in found:
        if head["dict_seq"] == head["seq"]:
            threads, whole = {}, True
        elif head["seq"] != expected:
            whole = False
        if whole:
            if not runs or head["seq"] != expected or not runs[-1]:
                runs.append([])
            runs[-1].append(Chunk(head, body, threads))
        elif runs and runs[-1]:
            runs.append([])
        expected = head["seq"] + 1
    return [run for run in runs if run]


class Amends:
    """The give-backs of which the trace says that they failed."""

    def __init__(self, runs):
        self.result = {(e.tid, e.amends): e.result for run in runs for c in run for e in c.events if e.op == "amend" and e.result}
        self.times = collections.defaultdict(list)
        for tid, t in self.result:
            bisect.insort(self.times[tid], t)

    def of(self, tid, t_ns, span):
        times = self.times.get(tid, ())
        at = bisect.bisect_left(times, t_ns)
        return self.result[tid, times[at]] if at < len(times) and times[at] < t_ns + span else 0


# ---- events and checkpoints ---------------------------------------------------------------------------

class Judge:
    """Walks along a run, in the trace and in the logs. `problems` says what differs."""

    def __init__(self, run, logs, amends):
        self.logs, self.amends, self.run = logs, amends, run
        self.alive, self.state = Alive(logs), None
        self.problems, self.checkpoints, self.compared, self.objects = [], 0, 0, 0
        self.cut = {}  # of each segment's first chunk: its first event's number -> calls made
        self.next = self.begin()

    def begin(self):
        """Of each thread the call that its first event in this run is."""
        first = collections.defaultdict(list)
        for e in itertools.chain.from_iterable(c.events for c in self.run):
            if e.op in ("alloc", "free") and len(first[e.tid]) < 40:
                first[e.tid].append(self.amended(e))
        made = {}
        for tid, log in self.logs.items():
            made[tid] = log.find(first[tid]) if first[tid] else len(log)
            if made[tid] is None:
                self.problems.append(f"thread {tid}: {first[tid][0]} is none of its calls")
                made[tid] = 0
            self.alive.go_to(tid, made[tid])
        return made

    def amended(self, e):
        return e._replace(result=self.amends.of(e.tid, e.t_ns, e.span)) if e.op == "free" and not e.result else e

    def take(self, e, number):
        """An event that is a call."""
        log, i = self.logs.get(e.tid), self.next.get(e.tid, 0)
        e = self.amended(e)
        if log is None or i >= len(log) or not log.is_call(i, e):
            self.problems.append(f"event {number}, {e}, is not call {i} of thread {e.tid}: {log and i < len(log) and log.call(i)}")
            return
        if not (log.earliest(i) < e.t_ns + e.span and e.t_ns <= log.latest(i)):
            self.problems.append(f"event {number}, {e}: not between {log.earliest(i)} and {log.latest(i)}")
        self.next[e.tid] = i + 1
        self.alive.go_to(e.tid, i + 1)
        self.compared += 1
        if self.state is None or e.result:
            return
        if e.op == "alloc":
            self.state[e.ptr] = Object(e.size, e.tid, e.t_ns, number)
        else:
            self.state.pop(e.ptr, None)

    def restore(self, chunk):
        if chunk.checkpoint & FIRST:
            self.state = {}
        gone = False
        for e, number in chunk.objects:
            if e.op == "amend":
                gone |= not self.amends.of(e.tid, e.amends, 1)
                continue
            if e.op == "alloc" and not gone:
                self.state[e.ptr] = Object(e.size, e.tid, e.t_ns, number)
            gone = False

    def compare(self, where):
        """Object by object."""
        true = self.alive.objects()
        self.objects += len(true)
        if set(true) != set(self.state):
            only, missing = set(self.state) - set(true), set(true) - set(self.state)
            self.problems.append(f"{where}: {len(only)} objects that are not alive, {len(missing)} missing of {len(true)}: "
                                 f"{[hex(p) for p in [*only, *missing][:4]]}")
            return
        for p, (tid, i) in true.items():
            o, log = self.state[p], self.logs[tid]
            if o.size != log.call(i)[2] or o.tid != tid or not log.earliest(i) - 1000 < o.t_ns <= log.latest(i):
                self.problems.append(f"{where}: {p:#x}: {o}, not {log.call(i)} of thread {tid} at {log.returned[i]}")
                return

    def walk(self):
        for chunk in self.run:
            number = chunk.head["first_event"]
            if chunk.head["flags"] & SEGMENT:
                self.cut[chunk.head["seq"]] = dict(self.next)
            if chunk.checkpoint is not None and (self.state is not None or chunk.checkpoint & FIRST):
                if chunk.checkpoint & INEXACT:
                    self.problems.append(f"chunk {chunk.head['seq']}: the checkpoint is not exact")
                self.restore(chunk)
                if chunk.checkpoint & LAST:
                    self.checkpoints += 1
                    self.compare(f"checkpoint before event {number}")
            for e in chunk.events:
                if e.op in ("alloc", "free"):
                    self.take(e, number)
                elif e.op == "lost":
                    self.problems.append(f"event {number}: events were lost")
                number += e.op != "amend"
            if len(self.problems) > 3:
                return


# ---- the history --------------------------------------------------------------------------------------

def history(section):
    """start, width and cells of a HISTORY section: dictionaries with bucket, device, events, refused and curves by quantity."""
    c = read_trace.Cursor(section)
    start, width, n = c.varint(), c.varint(), c.varint()
    columns = {}
    while c.more():
        number = c.varint()
        columns[number] = read_trace.Cursor(c.take(c.u32()))
    cells, device, bucket, last = [], 0, 0, collections.Counter()
    for i in range(n):
        step = columns[0].varint()
        device += step
        more = columns[1].varint()
        bucket = more if step or not i else bucket + more
        if step:
            last.clear()
        known = columns[2].varint()
        cell = {"device": device, "bucket": bucket, "events": columns[3].varint(), "refused": columns[4].varint(), "curve": {}}
        for q in range(64):
            if known >> q & 1:
                last[q] += read_trace.unzigzag(columns[8 + 3 * q].varint())
                low, high = columns[9 + 3 * q].varint(), columns[10 + 3 * q].varint()
                cell["curve"][q] = (last[q] - low, last[q] + high, last[q])  # minimum, maximum, last
        cells.append(cell)
    return start, width, cells


def totals(log, end):
    """What is allocated behind each of a thread's calls; and what the recorder knows of it until it learns of the call's result, which
    is less for a give-back that fails: its event is taken before its call, its correction may come with a later batch."""
    size, out, unanswered, now = {}, array.array("Q"), array.array("Q"), 0
    for w in itertools.islice(log.what, end):
        failed_free = w & 3 == 2
        if not w & 2:
            if w & 1:
                size[w >> 16] = (w >> 2 & 0x3FFF) * 512
                now += size[w >> 16]
            else:
                now -= size.pop(w >> 16)
        out.append(now)
        unanswered.append(now - size.get(w >> 16, 0) if failed_free else now)
    return out, unanswered


def history_problems(section, log, end, more):
    """A history against the log of the only thread, of which `end` calls came before. Which of two buckets a call belongs to is not
    certain where it came within a microsecond of their border; so it may be in either. Up to `more` events are no calls."""
    start, width, cells = history(section)
    refused = array.array("Q", itertools.accumulate(w & 3 == 3 for w in itertools.islice(log.what, end)))
    total, unanswered = totals(log, end)
    problems, seen, looked = [], 0, 0
    for cell in (c for c in cells if c["device"] == 0):
        begin, stop = start + cell["bucket"] * width, start + (cell["bucket"] + 1) * width
        low = min(bisect.bisect_left(log.returned, begin - CLOCK_NS), end)  # may be the first one in it
        first = min(bisect.bisect_left(log.returned, begin + CLOCK_NS) + 1, end)  # certainly is in it, or behind
        high = min(bisect.bisect_left(log.returned, stop + CLOCK_NS) + 1, end)  # is behind it, certainly
        last = min(bisect.bisect_left(log.returned, stop - CLOCK_NS), end)
        where = f"bucket {cell['bucket']} of {width} ns"
        if not last - first <= cell["events"] <= high - low + (0 if seen else more):
            problems.append(f"{where}: {cell['events']} events, not {last - first} to {high - low}")
        if first < last and 4 in cell["curve"]:
            if not (refused[last - 1] - refused[first - 1] if first else refused[last - 1]) <= cell["refused"] <= \
                    refused[high - 1] - (refused[low - 1] if low else 0):
                problems.append(f"{where}: {cell['refused']} refused")
            may, must = total[low:high] + unanswered[low:high], total[first:last]
            at_end = slice(max(last - 1, 0), high)
            if not low:
                may.append(0)  # before the first call
            for quantity in (1, 4):  # tracked, allocated: the same here
                least, most, final = cell["curve"][quantity]
                if not (min(may) <= least <= min(must) and max(must) <= most <= max(may) and
                        final in total[at_end] + unanswered[at_end]):
                    problems.append(f"{where}, quantity {quantity}: {cell['curve'][quantity]}, not {min(must)}, {max(must)}, "
                                    f"{total[last - 1]}")
            looked += 1
        seen += cell["events"]
        if len(problems) > 3:
            break
    if not problems and not end <= seen <= end + more:
        problems.append(f"the history counts {seen} events of {end}")
    return problems, looked


def judge(path, log_pattern):
    """Problems, and what was compared."""
    logs = {log.tid: log for log in map(Log, glob.glob(log_pattern))}
    runs = read(path)
    amends, problems = Amends(runs), []
    done = collections.Counter()
    for run in runs:
        j = Judge(run, logs, amends)
        j.walk()
        problems += j.problems
        done.update(events=j.compared, checkpoints=j.checkpoints, objects=j.objects)
        newest = [c for c in run if c.history is not None]
        if len(logs) == 1 and newest and run is runs[-1] and not problems:
            (log,) = logs.values()
            wrong, looked = history_problems(newest[-1].history, log, j.cut[newest[-1].head["seq"]][log.tid], 8)
            problems += wrong
            done["buckets"] = looked
    if not problems:
        for tid, log in logs.items():
            if j.next[tid] != len(log):
                problems.append(f"thread {tid}: the trace ends with call {j.next[tid]} of {len(log)}")
        j.compare("the end")
    done["calls"], done["bytes"] = sum(map(len, logs.values())), sum(size for size, *_ in j.state.values()) if j.state else 0
    done["live"] = len(j.state or ())
    return problems, done
