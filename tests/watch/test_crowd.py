#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: tmux
"""The live view of cutrace watch with 64 processes at once, which start, are killed, end, go round in their ring and are
upgraded while it is open: each row is what the process was told to hold and what became of it."""
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import check_ledger  # noqa: E402
import mkjournal  # noqa: E402
from live import Light, crowd, once, wait_until_written, written  # noqa: E402
from screen import Screen, rows  # noqa: E402
from tap import case, check, equal, main, read_json, skip_all  # noqa: E402
from traces import G, M  # noqa: E402
from ways import HANG, folder  # noqa: E402

if not shutil.which("tmux"):
    skip_all("tmux is not installed")
MANY = 64
HEADS = "PID PROGRAM STATE ALLOCATED GROWTH FULL.IN OOM FREE LOST.EVENTS PHASE".split()


def sizes_of(holders):
    return {h.process.pid: (i + 1) * M for i, h in enumerate(holders)}


def cells(text):
    """pid -> the cells of its row"""
    return {pid: re.split(r" {2,}", rest.strip().replace("recording ", "recording  ")) for pid, (_, rest) in rows(text).items()}


def walk(s, order, height):
    """All rows, page by page, and what they say."""
    found = {}
    s.press("Home")
    for top in [*range(0, len(order) - height, height), len(order) - height]:
        s.wait(rf"^cutrace watch .* {top + 1}-{top + height} shown")
        s.wait_for_rows(order[top:top + height])
        found.update(cells(s.text()))
        s.press("PageDown")
    return found


@case("64 processes at 80 and at 160 columns: the list scrolls over all of them, each row is whole and has its own figures; sorted "
      "by every column; what is chosen is what is told of")
def scrolls():
    where = folder()
    with crowd(MANY, where) as holders:
        sizes = sizes_of(holders)
        wait_until_written(where, sizes)
        largest = sorted(sizes, key=sizes.get, reverse=True)
        for columns, lines, height, columns_shown in ((80, 24, 6, 7), (160, 50, 26, 10)):
            with Screen(where, columns, lines) as s:
                s.wait(rf"^cutrace watch  64 processes alive of 64, every 0.1 s  1-{height} shown$")
                found = walk(s, largest, height)
                equal({pid: c[:3] for pid, c in found.items()},
                      {pid: ["hold", "recording", f"{n / M:.2f} MiB"] for pid, n in sizes.items()})
                choose(s, largest, height)
                sort(s, largest, height, columns_shown)


def choose(s, largest, height):
    """The list stands still as long as the chosen row is in sight."""
    s.press("End")
    s.wait(rf"^> +{largest[-1]} (.*\n)+hold \(pid {largest[-1]}\), recording, 1.00 MiB allocated now")
    s.press(*["Up"] * (height - 1))
    s.wait(rf"^> +{largest[-height]} (.*\n)+hold \(pid {largest[-height]}\), recording, {height}.00 MiB allocated now")
    equal(list(rows(s.text())), largest[-height:])
    s.press("Up")
    s.wait_for_rows(largest[-height - 1:-1])
    s.press("Enter")
    s.wait(rf"^cutrace watch.*\nhold \(pid {largest[-height - 1]}\), recording, {height + 1}.00 MiB allocated now")
    s.press("Enter")
    s.wait_for_rows(largest[-height - 1:-1])
    equal(s.text().splitlines()[height + 2], "")  # (it had a line of the details)
    s.wait_for_rows(largest[-2 * height:-height], "End", "PageUp")
    s.press("Home", "Down", "Down")
    s.wait(rf"^> +{largest[2]} (.*\n)+hold \(pid {largest[2]}\)")
    s.press("h")
    s.wait("from now on count what call sites gain")
    s.press("Escape")
    s.wait_for_rows(largest[:height])


def sort(s, largest, height, columns_shown):
    """By each column that is shown; the head says which, and is whole."""
    for i in range(columns_shown):
        at = (3 + 1 + i) % columns_shown  # behind ALLOCATED
        s.press(">")
        text = s.wait(rf"^ .*{HEADS[at]}\*")
        equal(re.findall("|".join(HEADS), text.splitlines()[1]), [h.replace(".", " ") for h in HEADS[:columns_shown]], text)
        by = {"ALLOCATED": largest, "FREE": None}.get(HEADS[at], sorted(largest))
        if by:
            s.wait_for_rows(by[:height], "Home")
    for keys, head in ((("<", "<", "<"), "PID"), (("F6",), "PROGRAM")):
        s.press(*keys)
        s.wait(rf"^ .*{head}\*")


def become(s, pid, *words):
    """The row when it has these cells behind the program's name."""
    s.wait(rf"^[ >] +{pid} \S+ +" + " +".join(words))


@case("64 processes of which some are killed, some end, one goes round in its ring, while others begin: all rows at once say so")
def come_and_go():
    where = folder()
    with crowd(MANY - 1, where) as holders, Screen(where, 120, 110) as s:
        s.wait("63 processes alive of 63,")
        with Light(where, CUTRACE_MAX_SIZE="1M", CUTRACE_FLUSH_MS="10", CUTRACE_TICK_NS="1", CUTRACE_STACKS="off") as wrapping:
            s.wait("64 processes alive of 64,")
            killed, ended, others = holders[:5], holders[5:10], holders[10:]
            for h in killed:
                h.process.kill()
            for h in ended:
                h.process.stdin.close()
            equal([(h.process.wait(HANG), ) for h in killed + ended], [(-9, )] * 5 + [(0, )] * 5)
            with crowd(6, where) as later:
                s.wait("60 processes alive of 70,")
                equal([h.tell("alloc", 128 * M) for h in later], [0] * 6)
                equal((wrapping.tell("alloc", 300 * M), wrapping.tell("churn", 1000)), (0, 0))
                while not json.loads(read_json("summary", wrapping.trace))["trace"]["overwritten_events"]:
                    equal(wrapping.tell("churn", 50000), 0)
                for h in killed:
                    become(s, h.process.pid, "killed", "- ", "- ", "- ")
                for h in ended:
                    become(s, h.process.pid, "ended", "- ", "- ", "- ")
                for i, h in enumerate(later):
                    become(s, h.process.pid, "recording", f"{129 + i}.00 MiB")
                for i, h in enumerate(others):
                    become(s, h.process.pid, "recording", f"{11 + i}.00 MiB")
                live = check_ledger.replay(wrapping.ledger())[0][0]
                equal(live, 300 * M)
                become(s, wrapping.process.pid, "recording", "300.00 MiB")
                s.press("Home")  # it holds the most; its details are read anew behind the ring's turn
                s.wait(rf"^> +{wrapping.process.pid} (.*\n)+hold \(pid {wrapping.process.pid}\), recording, 300.00 MiB")
                s.wait(r"^ +300.00 MiB +29.3 %  \+ other allocations")


# ---- versions, and what is no journal -------------------------------------------------------------------------------------


def replace(path, data):
    """As a recorder that begins anew: another file with the name."""
    with open(path + "~", "wb") as f:
        f.write(data)
    os.rename(path + "~", path)


def journal_of(where, name="live", version=None):
    with open(os.path.join(where, name + ".zst.journal"), "rb") as f:
        data = f.read()
    return data if version is None else data[:8] + version.to_bytes(2, "little") + data[10:]


@case("upgraded while the view is open: traces of older versions are read, a journal of a newer one is one line that names both "
      "versions, and the next one that is readable is shown")
def upgraded():
    where = written([G] * 20)
    path = os.path.join(where, "live.zst.journal")
    for version in (1, 2):
        written([version * 2 * G] * 20, where=where, name=f"older{version}", trace_id=0x100 + version, version=version)
    with Screen(where, 200, 60) as s:  # (so wide that a path has room)
        s.wait(r"^cutrace watch  3 processes alive of 3, every 0.1 s$")
        for _ in range(3):
            text = s.wait(r"^ +[124].00 GiB +[0-9.]+ %  \+ other allocations")
            check("not read" not in text, text)
            s.press("Down")
        good = journal_of(where)
        replace(path, journal_of(where, version=mkjournal.Journal().version + 1))
        s.wait(r"^cutrace watch  2 processes alive of 3, every 0.1 s  1 skipped \(h\)$")
        s.press("h")
        equal(re.sub(r"\s+", " ", s.wait("^skipped: ").split("skipped: ")[1]).split(" q end")[0],
              f"{path}: is of another version (version 5, this program reads 4): the cutrace that recorded it does")
        s.press("h")
        replace(path, good)  # the older library is back
        s.wait(r"^cutrace watch  3 processes alive of 4, every 0.1 s$")
    _, document, _ = once(where)
    equal(sorted((p["details"]["devices"][0]["tracked_bytes"] // G, p["problem"]) for p in document["processes"]),
          [(1, None), (2, None), (4, None)])


@case("a trace of a newer version beside a journal that is readable: no details, and both versions in one line")
def newer_trace():
    problem = once(written([G] * 20, version=4))[1]["processes"][0]["problem"]
    check("format version 4, this program reads up to 3" in problem, problem)


@case("a journal that is overwritten while it is watched: damaged, then another process, never the figures of before")
def overwritten():
    where = written([3 * G] * 20)
    path, good = os.path.join(where, "live.zst.journal"), journal_of(where)

    def write(data):
        with open(path, "r+b") as f:
            f.write(data)
    with Screen(where) as s:
        s.wait(r"^ +3.00 GiB +3.8 %  \+ other allocations")
        write(b"\0" * 4096)
        s.wait(r"^> .* damaged +- ")
        text = s.wait("^not read anew: is no journal")
        check("allocated now" not in text, text)
        write(good)
        s.wait(r"^> .* recording ")
        s.wait_while("not read anew")
        # Another process's: the trace beside it is not its own.
        elsewhere = written([5 * G] * 20, trace_id=0x99)
        write(journal_of(elsewhere))
        text = s.wait("^not read: .*another process has taken the file")
        check("3.00 GiB" not in text, text)
        shutil.copy(os.path.join(elsewhere, "live.zst"), where)
        write(journal_of(elsewhere)[:4096])  # (a change, so that it is read again)
        s.wait(r"^ +5.00 GiB +6.3 %  \+ other allocations")
        s.wait(r"^cutrace watch  1 process alive of 1,")


@case("what is skipped is counted once, however long the view is open, and no longer when it is readable")
def skipped():
    with Light() as h, Screen(h.where) as s:
        for i in range(11):
            with open(os.path.join(h.where, f"bad{i}.zst.journal"), "wb") as f:
                f.write(bytes(20000))
        s.wait(r"11 skipped \(h\)$")
        for i in range(5):  # so many looks later
            equal(h.tell("alloc", M), 0)
            s.wait(rf"^> .*recording +{i + 1}.00 MiB")
        check(re.search(r" 11 skipped \(h\)$", s.text(), re.M), s.text())
        for i in range(10):
            os.unlink(os.path.join(h.where, f"bad{i}.zst.journal"))
        s.wait(r" 1 skipped \(h\)$")
        good = journal_of(written([G] * 20))  # its recorder has come as far as to write its header
        with open(os.path.join(h.where, "bad10.zst.journal"), "r+b") as f:
            f.write(good)
        s.wait(r"^cutrace watch  2 processes alive of 2, every 0.1 s$")


@case("more than 256 journals: what runs is shown, what was killed makes room")
def too_many():
    where = folder()
    good, at = journal_of(written([G] * 20)), mkjournal.HEAD.size

    def put(i, pid=None):
        head = list(mkjournal.HEAD.unpack(good[:at]))
        head[5] = 1000 + i  # trace_id
        if pid is not None:
            head[3] = pid
        with open(os.path.join(where, f"t{i}.zst.journal"), "wb") as f:
            f.write(mkjournal.HEAD.pack(*head) + good[at:])
    for i in range(256):
        put(i, pid=0)
    for i in range(256, 296):
        put(i)
    _, document, _ = once(where)
    equal((sum(p["state"] == "recording" for p in document["processes"]), len(document["processes"]), document["skipped_count"]),
          (40, 256, 40))


main()
