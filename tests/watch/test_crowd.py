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


main()
