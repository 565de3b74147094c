# SPDX-License-Identifier: Apache-2.0
"""Which failed calls are parts of one incident, from the words of JSON.md: each event looks back at what its thread did.

Events are dictionaries, as tests give them to mktrace or as `dump --json` prints them: op, tid, device, and where they have
them bytes, result, ptr, handle, space, flags.
"""
import collections

CALLS = ("alloc", "create", "map", "graph-alloc", "register", "reserve")
BLOCKS = ("block-alloc", "block-free", "block-oom")
# Calls that take memory and do not say how much: `bytes` of theirs, if any, are something else.
UNSIZED = ("pool-create", "ipc-open", "import", "access", "context-create", "module-load", "limit", "memory-sample", "retain",
           "export")


def address(e):
    ptr = e.get("ptr")
    return int(ptr, 16) if isinstance(ptr, str) else ptr


def failed(e):
    return e["op"] == "block-oom" or (e.get("result") == 2 and e["op"] in CALLS + UNSIZED + ("block-alloc",))


def of_device(e):
    return e.get("space") != "host" and e["op"] not in ("register", "reserve")


def devices(events):
    """The device of each event; of a mapping, that of its handle."""
    of_handle, out = {}, []
    for e in events:
        if e["op"] == "create" and not e.get("result"):
            of_handle[e.get("handle")] = e.get("device")
        device = e.get("device")
        out.append(of_handle.get(e.get("handle")) if e["op"] == "map" and device is None else device)
    return out


class Thread:
    """What a thread did, without what neither repeats a request nor ends one: (number, event, device), newest last."""

    def __init__(self):
        self.calls = {True: [], False: []}

    def before(self, kind, back=1):
        calls = self.calls[kind]
        return calls[-back] if len(calls) >= back else (None, {"op": "nothing"}, None)


def repeats(older, newer, device):
    """Whether a call repeats an older one, which failed."""
    number, e, its = older
    return number is not None and e["op"] in CALLS and failed(e) and its == device and e.get("bytes") is not None and \
        e["bytes"] > 0 and e["bytes"] == newer.get("bytes")


def serves(older, block, device):
    """Whether a failed call may have been PyTorch's for a block."""
    number, e, its = older
    if number is None or e["op"] not in CALLS or not failed(e) or its != device:
        return False
    own = e["op"] != "graph-alloc" and "async" not in (e.get("flags") or ())
    return own and (e["op"] in ("create", "map") or e.get("bytes", 0) >= block["bytes"])


def retried_for(thread, block, device):
    """The failed call that the call repeated which got a block's memory, or None."""
    number, e, its = thread.before(True)
    if number is None or e["op"] not in CALLS or failed(e) or its != device or address(e) is None:
        return None
    back, low, high = 1, address(e), address(e) + e["bytes"]
    while e["op"] == "map":  # with what is mapped before it, side by side
        _, older, other = thread.before(True, back + 1)
        if older["op"] != "map" or failed(older) or other != its or address(older) + older["bytes"] != low:
            break
        back, e, low = back + 1, older, address(older)
    if not (address(block) < high and address(block) + block["bytes"] > low):
        return None
    older = thread.before(True, back + 1)
    return older[0] if repeats(older, e, device) else None


def find(events, numbers=None):
    """[{parts, pytorch, retried, recovered, head}], with the numbers of events; in the order of their first parts."""
    threads, found, of = {}, [], {}
    numbers = numbers or range(len(events))
    for number, e, device in zip(numbers, events, devices(events)):
        op, kind = e["op"], of_device(e)
        thread = threads.setdefault(e.get("tid"), Thread())
        older = None
        if op in CALLS and failed(e) and repeats(thread.before(kind), e, device):
            older = thread.before(kind)[0]
        elif op == "block-oom" and serves(thread.before(True), e, device):
            older = thread.before(True)[0]
        elif op == "block-alloc" and not e.get("result"):
            older = retried_for(thread, e, device)
            if older in of:
                of[older].update(pytorch=True, retried=True)
        if failed(e):
            if older in of:
                of[number] = of[older]
            else:
                of[number] = {"parts": [], "pytorch": False, "retried": False}
                found.append(of[number])
            of[number]["parts"].append(number)
            of[number]["pytorch"] |= op == "block-oom"
        is_call = op in CALLS and e.get("result", 0) in (None, 0, 2) and not (op == "create" and not e.get("result"))
        if is_call:
            thread.calls[kind].append((number, e, device))
        elif op in BLOCKS:
            thread.calls[True].append((number, e, device))
    recoveries(found, events, numbers)
    return found


def key(e):
    return e["op"].startswith("block"), e.get("device"), of_device(e), e["bytes"]


def is_later(e, number, failed_one, its_number):
    """Whether a success is of the size of a failed request; of a large block PyTorch does not split off a rest of 1 MiB."""
    more = 1 << 20 if e["op"] == "block-alloc" and failed_one["bytes"] > 1 << 20 else 0
    return number > its_number and key(e)[:3] == key(failed_one)[:3] and 0 <= e["bytes"] - failed_one["bytes"] <= more


def recoveries(found, events, numbers):
    """Sets what became of each incident, and which part describes it."""
    at = dict(zip(numbers, events))
    successes = collections.defaultdict(list)
    for number, e in zip(numbers, events):
        if e["op"] in CALLS + ("block-alloc",) and not e.get("result") and e.get("bytes") is not None:
            successes[key(e)[:3]].append((e, number))
    for i in found:
        end = i["parts"][-1]
        if at[end]["op"] in UNSIZED or at[end].get("bytes") is None:
            i["recovered"] = None  # not known
        else:
            i["recovered"] = i["retried"] or any(is_later(*one, at[end], end) for one in reversed(successes[key(at[end])[:3]]))
        first = i["retried"] or (i["recovered"] and not i["pytorch"])
        i["head"] = i["parts"][0] if first else end


def crossing(found, events, numbers=None):
    """The head of the incident that the report describes, or None."""
    at = dict(zip(numbers or range(len(events)), events))
    for kind in (True, False):
        of_kind = [i for i in found if of_device(at[i["head"]]) == kind]
        lasting = [i["head"] for i in of_kind if not i["recovered"]]
        if lasting:
            return max(lasting)
        for chosen in ([i for i in of_kind if not i["retried"]], of_kind):
            if chosen:
                return chosen[0]["head"]
    return None
