#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: node npm chromium pdftotext
"""The page in a browser: every figure is drawn, and answers to the pointer, the keyboard and the address.

What it says is compared with the DATA of the file, read here once more by PAGE.md, and with `top --at` of the trace.
"""
import base64
import bisect
import functools
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import pages  # noqa: E402
import traces  # noqa: E402
from browser import Browser, require  # noqa: E402
from lifetimes import lifetimes_of  # noqa: E402
from mktrace import Trace  # noqa: E402
from tap import ROOT, Skip, after_case, case, check, equal, main, read_json, report, sample  # noqa: E402

FOLDER = tempfile.mkdtemp()
H100 = os.path.join(ROOT, "tests/gpu/results/NVIDIA_H100_80GB_HBM3-580.159.04-2026-11-22")
SHOTS = os.environ.get("CUTRACE_SHOTS")  # a folder for pictures of the pages, to be looked at
FIGURES = {"timeline": "#timeline .plot canvas", "live": "canvas.icicle", "map": ".plot.map > canvas",
           "fragmentation": "#fragmentation .plot canvas"}


def write(name, data):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


class Page:
    """The page of a trace: its file, and its DATA."""

    def __init__(self, name, *paths):
        self.paths, self.file = paths, os.path.join(FOLDER, name + ".html")
        code, _, err = report("html", *paths, "-o", self.file)
        if code not in (0, 4):
            raise RuntimeError(f"html: exit {code}: {err.decode(errors='replace')}")
        with open(self.file, encoding="utf-8") as file:
            self.text = file.read()
        self.data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', self.text, re.S).group(1))
        self.url = "file://" + self.file

    def device(self, trace=0, device=0):
        return self.data["traces"][trace]["devices"][device]


def sums(deltas):
    return list(itertools.accumulate(deltas))


def sites_at(device, moment):
    """(bytes, count) of each call site, by its number, of the last of `live` at or before a moment."""
    held = {}
    for at, changes in zip(device["live"]["at"], device["live"]["changes"]):
        if at > moment:
            break
        for site, size, count in zip(changes[::3], changes[1::3], changes[2::3]):
            held[site] = size, count
    return held


def held_at(device, moment):
    """The same by (kind, label)."""
    rows = {}
    for site, (size, count) in sites_at(device, moment).items():
        key = device["sites"][site]["kind"], device["sites"][site]["label"]
        old = rows.get(key, (0, 0))
        rows[key] = old[0] + size, old[1] + count
    return {key: row for key, row in rows.items() if row != (0, 0)}


CHROMIUM = require()
BROWSER = Browser(CHROMIUM)
VLLM = [os.path.join(ROOT, "tests/report/vllm", name, "trace.zst") for name in ("burst-of-prefills", "neighbour")]
PAGES = {
    "vllm": Page("vllm", VLLM[0]),
    "h100": Page("h100", os.path.join(H100, "training.zst")),
    "fragmented": Page("fragmented", write("fragmented.zst", pages.fragmented())),
    "hostile": Page("hostile", write("hostile.zst", pages.hostile())),
    "wrapped": Page("wrapped", write("wrapped.zst", traces.ringed())),
    "marked": Page("marked", write("marked.zst", pages.marked())),
    "empty": Page("empty", write("empty.zst", pages.empty())),
    "exhausted": Page("exhausted", os.path.join(H100, "exhausted.zst")),
}


def show_bands(name):
    """Cuts the bands of the timeline "by use", as DATA has them, or "by call site"."""
    BROWSER.do("[...document.querySelectorAll('#timeline .choice button')].filter((b) => b.textContent === %s).forEach((b) => b.click())"
               % json.dumps(name))
    BROWSER.settle()


def opened(name, address="", bands="by use", **how):
    """Opens a page; bands: which it shows, None: those that it begins with."""
    page = PAGES[name]
    BROWSER.open(url=page.url + address, **how)
    if bands and how.get("script", True):
        show_bands(bands)
    return page


def address():
    """What the page's address says: numbers by name."""
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", BROWSER.do("location.hash"))}


def reading():
    """The table beside the timeline: the time that it is of, and the bytes of each row, None where not known."""
    return BROWSER.do("""(() => {
        const table = document.querySelector("#timeline table.reading");
        const cells = [...table.querySelectorAll("tbody tr[data-row]")].map((row) => [row.dataset.row, row.querySelector(".bytes").dataset.bytes]);
        return {t: Number(table.caption.dataset.t), rows: cells.map(([key, bytes]) => [key, bytes === "" ? null : Number(bytes)]).reverse(),
            sum: Number(table.querySelector("tfoot .bytes").dataset.bytes)};
    })()""")


def plot():
    """Where the timeline is, in sight."""
    BROWSER.box(selector="#timeline .plot")
    return BROWSER.do("""(() => { const over = document.querySelector("#timeline .plot .u-over").getBoundingClientRect();
        return {x: over.left, y: over.top, width: over.width, height: over.height}; })()""")


def live_total():
    return BROWSER.do("""(() => { const row = document.querySelector("table.live tfoot tr");
        return [Number(row.querySelector(".bytes").dataset.bytes), Number(row.querySelector(".count").dataset.count)]; })()""")


def live_rows():
    """All rows of the table of what is live: [[label, bytes, count]...]."""
    if BROWSER.count(selector="table.live .rest button"):
        BROWSER.press(selector="table.live .rest button")
    return BROWSER.do("""[...document.querySelectorAll("table.live tbody tr")].map((row) => [
        row.querySelector("summary, .label > span:not(.bar)").textContent, Number(row.querySelector(".bytes").dataset.bytes),
        Number(row.querySelector(".count").dataset.count)])""")


def innermost(rows):
    """Rows by the first place of their labels: which callers follow it depends on what else is shown."""
    held = {}
    for label, size, count in rows:
        name = label.split(" <- ")[0]
        old = held.get(name, (0, 0))
        held[name] = old[0] + size, old[1] + count
    return {name: row for name, row in held.items() if row != (0, 0)}


def seconds(nanoseconds):
    return "%d.%09d" % divmod(nanoseconds, 10**9)


@after_case
def no_problem(passed):
    """What the last page complained of fails in the case of its own, below."""
    if not passed and SHOTS:
        BROWSER.shot(file=os.path.join(SHOTS, "failed.png"))


# ---- the file


@case("the policy names the hashes of the style and the script that the file has, and allows nothing else")
def policy_fits():
    for page in PAGES.values():
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page.text).group(1)
        check("default-src 'none'" in policy and "unsafe" not in policy, policy)
        for part, pattern in (("style", r"<style>(.*?)</style>"), ("script", r"<script>(.*?)</script>")):
            found = re.findall(pattern, page.text, re.S)
            equal(len(found), 1, part)
            digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
            check(f"{part}-src 'sha256-{digest}'" in policy, f"{part}: {digest} is not in {policy}")
        check(not re.search(r"<[a-z]+ [^>]*\b(src|style|onclick|onload)=", page.text.split("<script")[0]), "an attribute that the policy forbids")


# ---- drawn


@case("no page logs, fails or asks for anything but its own file, at any size and in both colours")
def no_page_complains():
    problems = []
    for number, name in enumerate(PAGES):
        for width, scheme in sample(((1280, "light"), (1280, "dark"), (390, "light")), 1, number):
            opened(name, width=width, scheme=scheme)
            problems += [f"{name}, {width}, {scheme}: {problem}" for problem in BROWSER.problems()]
            if SHOTS:
                BROWSER.shot(file=os.path.join(SHOTS, f"{name}-{width}-{scheme}.png"))
    return problems


@case("every figure of a page has pixels of more than three colours, and so it has on a telephone")
def figures_are_drawn():
    problems = []
    for name in sample(("vllm", "h100", "fragmented"), 1):
        for width, ratio in ((1280, 1), (390, 2)):
            opened(name, width=width, ratio=ratio)
            for section, selector in FIGURES.items():
                pixels = BROWSER.pixels(selector)
                if not pixels or pixels["colours"] <= 3:
                    problems.append(f"{name}, {width}: {section}: {pixels}")
    return problems


@case("on a telephone the reasons of what to change are as wide as the page, and dashes for what is not known are left out")
def advice_on_a_telephone():
    code = "[...document.querySelectorAll('table.advice td')].map((e) => [e.className, e.textContent, e.getBoundingClientRect().width])"
    opened("vllm", width=390)
    phone = BROWSER.do(code)
    check(any(name == "why" for name, _, _ in phone) and all(width > 300 for name, _, width in phone if name == "why"), phone)
    check(all(width == 0 for _, text, width in phone if text == "-"), phone)
    opened("vllm", width=1280)
    check(all(width > 0 for _, _, width in BROWSER.do(code)), "a cell is hidden")


@case("nothing is wider than the window at 200 % and 400 % of the size, and no control is smaller than a finger's 28 pixels")
def fits_a_telephone():
    for name, width, ratio in [(name, 320, 1) for name in ("vllm", "hostile")] + sample([(name, 320, 1) for name in PAGES] + [("vllm", 720, 2), ("hostile", 720, 2)], 2):
        opened(name, width=width, ratio=ratio)
        equal(BROWSER.do("document.documentElement.scrollWidth"), width, name)
        small = BROWSER.do("[...document.querySelectorAll('.figure button')].filter((b) => b.offsetParent && b.offsetHeight < 28).length")
        equal(small, 0, name)


@case("dark is dark and light is light, in the page and in its canvases, also when it changes under way")
def colours_follow():
    opened("vllm", scheme="light")
    light = {section: BROWSER.pixels(selector) for section, selector in FIGURES.items()}
    brightness = "getComputedStyle(document.querySelector('section')).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    check(BROWSER.do(brightness) > 700, "light")
    BROWSER.media(media="screen", scheme="dark")
    check(BROWSER.do(brightness) < 120, "dark")
    for section, selector in FIGURES.items():
        check(BROWSER.pixels(selector)["sum"] != light[section]["sum"], section)
    BROWSER.media(media="screen", scheme="light")
    for section, selector in FIGURES.items():
        equal(BROWSER.pixels(selector)["sum"], light[section]["sum"], section)


# Of Machado, Oliveira and Fernandes, 2009, at their full strength, on linear channels; of achromatopsia the luminance is left.
VISION = {"protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
          "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
          "achromatopsia": ((0.2126, 0.7152, 0.0722),) * 3}


def lab(colour, vision):
    """CIE L*a*b* (D65) of a colour of 0 to 255 as somebody with that vision sees it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour)]
    seen = [min(1, max(0, sum(a * b for a, b in zip(row, linear)))) for row in vision]
    xyz = [sum(a * b for a, b in zip(row, seen)) / white for row, white in
           (((0.4124, 0.3576, 0.1805), 0.9505), ((0.2126, 0.7152, 0.0722), 1), ((0.0193, 0.1192, 0.9505), 1.089))]
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@case("bands that lie on one another are told apart with any colour vision: components in their order, and what pages draw")
def bands_differ():
    def near(first, second, least):
        return [kind for kind, vision in VISION.items()
                if sum((a - b) ** 2 for a, b in zip(lab(first, vision), lab(second, vision))) ** 0.5 < least]
    with open(os.path.join(ROOT, "tools/report/page/web/palette.js"), encoding="utf-8") as file:
        colours = dict(re.findall(r'"?([a-z-]+)"?: "(#[0-9a-f]{6})"', re.search(r"COMPONENTS = {(.*?)}", file.read(), re.S).group(1)))
    with open(os.path.join(ROOT, "tools/report/symbols/phases.def"), encoding="utf-8") as file:
        order = re.findall(r'^CT_COMPONENT\([A-Z_]+, "([a-z-]+)"', file.read(), re.M)
    check(len(order) > 10 and set(order) <= set(colours), (order, colours))
    bare = {key: [int(colour[i:i + 2], 16) for i in (1, 3, 5)] for key, colour in colours.items()}
    problems = [f"{a} on {b}: {near(bare[a], bare[b], 10)}" for a, b in zip(order, order[1:]) if near(bare[a], bare[b], 10)]
    for name in sample(("vllm", "h100"), 1):
        opened(name)
        for scheme in ("light", "dark"):
            BROWSER.media(media="screen", scheme=scheme)
            drawn = BROWSER.do("""[...document.querySelectorAll('#timeline tr[data-row]')].filter((row) => !row.hidden).map((row) => {
                const {data} = row.querySelector('canvas').getContext('2d').getImageData(2, 2, 10, 10), all = [];
                for (let i = 0; i < data.length; i += 4) all.push([...data.slice(i, i + 3)]);
                return [row.dataset.row, all];
            })""")
            solid = [(key, all(pixel == pixels[0] for pixel in pixels), pixels[0]) for key, pixels in drawn]
            check(sum(plain for _, plain, _ in solid) > 4, solid)  # (what is kept or of others is hatched)
            problems += [f"{name}, {scheme}: {one[0]} on {two[0]}: {near(one[2], two[2], 4)}" for one, two in zip(solid, solid[1:])
                         if one[1] and two[1] and near(one[2], two[2], 4)]
    return problems


@case("printed, a dark page is light, has its figures and no controls")
def prints():
    opened("vllm", scheme="light")
    light = BROWSER.pixels(FIGURES["map"])
    opened("vllm", scheme="dark")
    BROWSER.media(media="print", scheme="dark")
    equal(BROWSER.do("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
    equal(BROWSER.do("[...document.querySelectorAll('.controls')].filter((c) => c.offsetParent).length"), 0)
    equal(BROWSER.pixels(FIGURES["map"])["corner"], light["corner"])
    return BROWSER.problems()


# What has text of its own or pixels, and is neither a control nor said to the ear alone.
SHOWN = """[...document.querySelectorAll('main *')].filter((e) => !e.closest('.controls, .addresses button, .hint.note, [hidden], noscript, table.live details, script')
    && (e.tagName === 'CANVAS' || [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())))"""


@case("on paper everything is there: what is folded is open, nothing is cut at the right, no scroll bar hides a column")
def paper_has_all():
    problems = []
    for name in sample(("vllm", "fragmented", "hostile"), 2):
        opened(name, width=720)
        for opening in (False, True):  # by the style alone, and when the browser says that it prints
            if opening:
                BROWSER.do("window.dispatchEvent(new Event('beforeprint'))")
                equal(BROWSER.do("document.querySelectorAll('details:not([open], table.live *)').length"), 0, "closed")
            BROWSER.media(media="print", scheme="light")
            unseen = BROWSER.do(SHOWN + ".filter((e) => !e.checkVisibility() || !e.getClientRects().length || !e.getBoundingClientRect().height)"
                                        ".map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)")
            cut = BROWSER.do(SHOWN + ".filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)"
                                     ".map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)")
            hidden = BROWSER.do("[...document.querySelectorAll('main *')].filter((e) => ['auto', 'scroll', 'hidden'].includes("
                                "getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1 && !e.closest('.legend')).map((e) => e.tagName + ' ' + e.className)")
            wide = BROWSER.do("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            cut += [f"the page, by {wide} pixels"] if wide > 0 else []
            problems += [f"{name}, {opening}: {what}: {found[:5]}" for what, found in (("unseen", unseen), ("cut", cut), ("hidden", hidden)) if found]
        BROWSER.do("window.dispatchEvent(new Event('afterprint'))")
        problems += [] if BROWSER.do("document.querySelectorAll('details[open]').length") == 0 else [f"{name}: open behind printing"]
    return problems


DOTS = 20  # of an inch of paper


def pages_of(pdf):
    """Of each page of a PDF: the width of its paper, its lines as (left, right, lower edge, text), and its shades of grey by row."""
    text = subprocess.run(["pdftotext", "-bbox-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout
    picture = subprocess.run(["pdftoppm", "-r", str(DOTS), "-gray", pdf], capture_output=True, check=True).stdout
    found = []
    for page in text.split("<page ")[1:]:
        lines = [(float(left), float(right), float(low), " ".join(re.findall(r">([^<]+)</word>", words))) for left, right, low, words in
                 re.findall(r'<line xMin="([\d.]+)" yMin="[\d.]+" xMax="([\d.]+)" yMax="([\d.]+)">(.*?)</line>', page, re.S)]
        wide, high = map(int, re.match(rb"P5\n(\d+) (\d+)\n255\n", picture).groups())
        begin = picture.index(b"\n255\n") + 5
        grey, picture = picture[begin:begin + wide * high], picture[begin + wide * high:]
        found.append((float(re.match(r'width="([\d.]+)"', page).group(1)), lines, [grey[y * wide:(y + 1) * wide] for y in range(high)]))
    return found


@case("as a PDF: nothing outside the paper, no heading alone at a page's end, no control; of a dark page the same as of a light one")
def pdf_is_whole():
    if not shutil.which("pdftotext"):
        raise Skip("pdftotext is not installed (Debian's poppler-utils)")
    problems, pdf, pictures = [], os.path.join(SHOTS or FOLDER, "page.pdf"), {}
    for name, scheme in itertools.product(sample(("vllm", "exhausted", "hostile"), 1), ("light", "dark")):
        opened(name, scheme=scheme, bands=None)
        heads = BROWSER.do("[...document.querySelectorAll('h2, h3, .addresses .shown, .single .hint')].map((e) => e.innerText.replace(/\\s+/g, ' ').trim())")
        check(len(heads) > 8, heads)
        BROWSER.pdf(file=pdf)
        found = pages_of(pdf)
        for number, (width, lines, rows) in enumerate(found, 1):
            problems += [f"{name}, page {number}: {line}" for line in lines if line[0] < 0 or line[1] > width]
            if lines and lines[-1][3] in heads and min(min(row) for row in rows[math.ceil((lines[-1][2] + 4) * DOTS / 72):]) > 240:
                problems.append(f"{name}, page {number} ends with {lines[-1][3]}")
        if scheme == "light":
            pictures[name] = [rows for _, _, rows in found]
            continue
        far = [sum(abs(a - b) > 24 for one, two in zip(rows, light) for a, b in zip(one, two)) for (_, _, rows), light in zip(found, pictures[name])]
        problems += [f"{name}: {far} pixels of its pages are of a dark page"] if sum(far) or len(found) != len(pictures[name]) else []
        BROWSER.media(media="print", scheme="dark")
        problems += BROWSER.do("""[...document.querySelectorAll('button')].filter((b) => b.checkVisibility()).filter((b) =>
            getComputedStyle(b).borderTopWidth !== '0px').map((b) => `a control: ${b.textContent}`)""")
    return problems


@case("without JavaScript the page has its text: the verdict, tables, no empty figure")
def readable_without_script():
    page = opened("vllm", script=False)
    text = BROWSER.text(selector="main")
    verdict = page.data["traces"][0]["summary"]["verdicts"][0]
    check(verdict["summary"][1:] in text, verdict["summary"])  # (it begins with a capital there)
    for fact in verdict["evidence"]:
        check(fact["text"] in text, fact["text"])
    check(BROWSER.count(selector="main table") >= 4, "tables")
    equal(BROWSER.count(selector=".figure"), 0)
    sections = ["verdict", "timeline", "live", "growth", "map", "fragmentation", "failed", "phases", "environment", "method"]
    for section in sections:
        equal(BROWSER.count(selector=f"section#{section} h2, section#{section} h1") > 0, True, section)


@case("with JavaScript all of that text is still there")
def text_stays():
    for name in sample(PAGES, 3):
        BROWSER.open(url=PAGES[name].url, script=False)
        for_others = [word for number in range(BROWSER.count(selector="noscript"))
                      for word in BROWSER.text(selector=f"noscript >> nth={number}").split()]
        without = [word for word in BROWSER.text(selector="main").split() if word not in for_others]
        opened(name)
        BROWSER.do("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        present = set(BROWSER.do("document.querySelector('main').innerText").split())
        lost = [word for word in without if word not in present]
        check(len(lost) <= len(without) // 200, f"{name}: {lost[:20]}")


# ---- the pointer


@case("the reading at the pointer is that of the moment in DATA, and with what is free it adds up to the capacity")
def hover_reads():
    problems = []
    for name in sample(("vllm", "h100", "fragmented"), 2):
        device = opened(name).device()
        times, rows = sums(device["t_ns"]), [sums(row) for row in device["bytes"]]
        area = plot()
        for part in (0.02, 0.3, 0.55, 0.7, 0.93):
            BROWSER.move(x=area["x"] + area["width"] * part, y=area["y"] + area["height"] / 2)
            got = reading()
            moment = max(i for i, t in enumerate(times) if t <= got["t"])
            want = [rows[r][moment] for r in range(len(rows))]
            groups = [row["group"] for row in device["rows"]]
            if not device["read"][moment]:
                want = [None if group in ("untracked", "others", "free") else size for size, group in zip(want, groups)]
            if [size for _, size in got["rows"]] != want:
                problems.append(f"{name} at {part}: {got['rows']}, want {want}")
            if device["read"][moment] and (got["sum"] != device["capacity"] or sum(size for _, size in got["rows"]) != device["capacity"]):
                problems.append(f"{name} at {part}: {got['sum']} of {device['capacity']}")
            far = times[0] + (times[-1] - times[0]) * part
            if abs(got["t"] - far) > (times[-1] - times[0]) * 0.2 and len(times) > 500:
                problems.append(f"{name} at {part}: reads {got['t']}, which is far from {far}")
    return problems


@case("a click chooses the moment: address, line, and a table whose rows and totals are those of top --at")
def click_chooses():
    problems = []
    for name in sample(("vllm", "fragmented", "h100"), 2):
        page = opened(name)
        device, times = page.device(), sums(page.device()["t_ns"])
        known = [times[at] for at in device["live"]["at"]]
        for part in (0.25, 0.5, 0.8):
            area = plot()
            BROWSER.click(x=area["x"] + area["width"] * part, y=area["y"] + area["height"] / 2)
            t = address()["t"]
            equal(address()["gpu"], device["device"], name)
            check(t in times, f"{name}: {t} is no moment")
            moment = max(i for i, at in enumerate(times) if at <= t)
            as_of = max(at for at in known if at <= t)
            top = json.loads(read_json("top", page.paths[0], "--at=" + seconds(as_of)))["devices"][0]
            want = innermost((s["site"], s["bytes"], s["count"]) for s in top["sites"])
            got = innermost(live_rows())
            if got != want:
                problems.append(f"{name} at {seconds(as_of)}: {set(got.items()) ^ set(want.items())}")
            total = live_total()
            if total[0] != top["bytes"]:
                problems.append(f"{name} at {seconds(as_of)}: total {total}, top has {top['bytes']}")
            if total[0] != sum(size for size, _ in held_at(device, moment).values()):
                problems.append(f"{name}: the total is not that of DATA")
    return problems


@case("pointing at a band names it, what it holds then, and its largest call sites")
def band_is_read():
    shown = None
    for name, (part, key, some) in (("vllm", (0.5, "kv-cache", "allocate_kv_cache")), ("vllm", (0.5, "weights", "LlamaMLP.__init__")),
                                    ("vllm", (0.75, "pool-idle", None)), ("fragmented", (0.9, "other", "create_weights"))):
        device = (PAGES[name] if name == shown else opened(name)).device()
        shown, times, rows = name, sums(device["t_ns"]), [sums(row) for row in device["bytes"]]
        r = [row["key"] for row in device["rows"]].index(key)
        area, chart = plot(), max(device["capacity"], 1) * 1.04
        moment = max(i for i, t in enumerate(times) if t <= times[0] + (times[-1] - times[0]) * 1.01 * part)
        middle = sum(row[moment] for row in rows[:r]) + rows[r][moment] / 2
        BROWSER.move(x=area["x"] + area["width"] * part, y=area["y"] + area["height"] * (1 - middle / chart))
        said = BROWSER.do("document.querySelector('#timeline .hint').textContent")
        moment = max(i for i, t in enumerate(times) if t <= reading()["t"])
        amount = BROWSER.do(f"[...document.querySelectorAll('#timeline tr[data-row]')].reverse()[{r}].querySelector('.bytes').textContent")
        check(said.startswith(device["rows"][r]["title"]) and f" {amount} at +" in said, f"{name}, {key}: {said}, want {amount}")
        equal(some is None, ":" not in re.sub(r"at \+[0-9:.]+", "", said), said)
        if some:
            held = {site: size for (kind, site), (size, _) in held_at(device, moment).items() if kind == "block"}
            check(some in said and any(said.split(": ", 1)[1].endswith(site) or site + "," in said for site in held), said)
    BROWSER.move(x=5, y=5)
    check("Drag to zoom" in BROWSER.do("document.querySelector('#timeline .hint').textContent"), "the hint is back")


def pressed_bands():
    return BROWSER.do("[...document.querySelectorAll('#timeline .choice button[aria-pressed=true]')].map((b) => b.textContent)"
                      ".find((text) => text.startsWith('by '))")


@case("where no rule says what most memory is for, the bands are call sites, else what it is for; a button shows the other")
def bands_begin():
    for name, want in (("vllm", "by use"), ("h100", "by use"), ("exhausted", "by call site"), ("fragmented", "by call site")):
        opened(name, bands=None)
        equal(pressed_bands(), want, name)
        before = BROWSER.pixels(FIGURES["timeline"])["sum"]
        show_bands("by use" if want == "by call site" else "by call site")
        check(pressed_bands() != want and BROWSER.pixels(FIGURES["timeline"])["sum"] != before, f"{name}: the other one")
        show_bands(want)
        equal(BROWSER.pixels(FIGURES["timeline"])["sum"], before, f"{name}: back again")


@case("the bands of call sites are what top --at says of the moment that stands there, and with the rest they are the capacity")
def site_bands_read():
    problems = []
    for name in sample(("exhausted", "vllm"), 1) + ["fragmented"]:
        page = opened(name, bands="by call site")
        device, times = page.device(), sums(page.device()["t_ns"])
        known = [times[at] for at in device["live"]["at"]]
        area = plot()
        for part in (0.1, 0.35, 0.6, 0.8):
            BROWSER.move(x=area["x"] + area["width"] * part, y=area["y"] + area["height"] / 2)
            got, caption = reading(), BROWSER.do("document.querySelector('#timeline table.reading caption').textContent")
            as_of = max(t for t in known if t <= got["t"])
            if (", as of +" in caption) != (as_of != got["t"]):
                problems.append(f"{name}: {caption}, known at {as_of}")
            top = json.loads(read_json("top", page.paths[0], "--at=" + seconds(as_of)))["devices"][0]
            want = {}
            for s in top["sites"]:
                want[s["site"]] = want.get(s["site"], 0) + s["bytes"]
            first = {key.split(" <- ")[0]: size for key, size in got["rows"]}
            outside = [key for row in device["rows"] for key in [row["key"]] if row["group"] in ("untracked", "others", "free")]
            tracked = {key: size for key, size in got["rows"] if key not in outside}
            if sum(tracked.values()) != top["bytes"]:
                problems.append(f"{name} at {seconds(as_of)}: {sum(tracked.values())}, top has {top['bytes']}")
            of_top = innermost((site, size, 1) for site, size in want.items())
            for key, size in first.items():
                if key in outside or key in ("more", "pool-idle", "mempool-idle") or not size:
                    continue
                if size != of_top.get(key, (None,))[0] and not [k for k in tracked if k != key and k.split(" <- ")[0] == key]:
                    problems.append(f"{name} at {seconds(as_of)}: {key} has {size}, top {of_top.get(key)}")
            if device["read"][times.index(as_of)] and got["sum"] != device["capacity"]:
                problems.append(f"{name}: {got['sum']} of {device['capacity']}")
    box = BROWSER.box(selector="#timeline .plot")
    BROWSER.move(x=area["x"] + area["width"] * 0.5, y=box["y"] + box["height"] - 60)
    hint = BROWSER.do("document.querySelector('#timeline .hint').textContent")
    check(hint.startswith("model.py:40 create_weights"), f"the lowest band is the largest call site: {hint}")
    return problems + BROWSER.problems()


@case("call sites without a known use differ in colour in every figure, and have none of a component that the device has")
def plain_sites_differ():
    opened("exhausted", bands="by call site")
    colours = BROWSER.do("""Object.fromEntries([...document.querySelectorAll('#timeline tr[data-row]')].map((row) => [row.dataset.row,
        [...row.querySelector('canvas').getContext('2d').getImageData(7, 7, 1, 1).data].slice(0, 3)]))""")
    one, two = colours["torch_work.py:243 exhausted"], colours["torch_work.py:252 exhausted"]
    for vision in VISION.values():
        check(sum((a - b) ** 2 for a, b in zip(lab(one, vision), lab(two, vision))) ** 0.5 >= 10, (one, two))
    live = BROWSER.do("""Object.fromEntries([...document.querySelectorAll('table.live tbody tr')].map((row) => [row.querySelector('.label').textContent,
        [...row.querySelector('canvas').getContext('2d').getImageData(7, 7, 1, 1).data].slice(0, 3)]))""")
    for label, colour in live.items():
        for site, want in (("torch_work.py:243 exhausted", one), ("torch_work.py:252 exhausted", two)):
            check(not label.startswith(site) or colour == want, (label, colour, want))
    show_bands("by use")
    used = BROWSER.do("""[...document.querySelectorAll('#timeline tr[data-row]')].map((row) =>
        [...row.querySelector('canvas').getContext('2d').getImageData(7, 7, 1, 1).data].slice(0, 3))""")
    check(one not in used and two not in used, used)


@case("who holds the holes: the call sites and the segments of frag, each block at the address that the trace has")
def holes_are_held():
    page = opened("exhausted")
    pool = json.loads(read_json("frag", page.paths[0]))["devices"][0]["pool"]
    rows = BROWSER.do("""[...document.querySelectorAll('table.holders tbody tr')].map((row) => [Number(row.querySelector('.bytes').dataset.bytes),
        Number(row.querySelector('.count').textContent), row.querySelector('.label').textContent])""")
    equal(rows, [[h["free_bytes"], h["segments"], h["site"]] for h in pool["held_by"]])
    said = BROWSER.do("document.querySelector('#fragmentation-figure h3 + .hint').textContent")
    check(f"in {pool['held_segment_count']} segments" in said, said)
    data = page.device()
    crossing, = [mark["at"] for mark in data["marks"] if mark["kind"] == "crossing"]
    event = sums(data["event"])[crossing]
    blocks = sorted((start, size) for start, size, _ in used_at(page.paths[0], event))
    bars = BROWSER.do("""[...document.querySelectorAll('.segments .segment')].map((bar) => [bar.classList.contains('placed'),
        [...bar.children].map((used) => [parseFloat(used.style.left), parseFloat(used.style.width)])])""")
    equal(len(bars), 10)
    for (placed, got), segment in zip(bars, pool["held_segments"]):
        start, end = int(segment["ptr"], 16), int(segment["ptr"], 16) + segment["bytes"]
        inside = [(at - start, size) for at, size in blocks if start <= at < end]
        check(placed and len(got) == len(inside), f"{segment['ptr']}: {got}, the trace has {inside}")
        for (left, width), (offset, size) in zip(got, inside):
            check(abs(left - 100 * offset / segment["bytes"]) < 0.01 and abs(width - 100 * size / segment["bytes"]) < 0.01,
                  f"{segment['ptr']}: {left}, {width}: the trace has {offset}, {size}")
    return BROWSER.problems()


@case("of a range: what each call site held more at its end than at its begin, as top --at of both times says")
def range_growth():
    page = PAGES["vllm"]
    device = page.device()
    times = sums(device["t_ns"])
    known = [times[at] for at in device["live"]["at"]]
    begin, end = known[len(known) // 4], known[3 * len(known) // 4]
    opened("vllm", f"#t={times[3]}&gpu=0&from={begin}&to={end}")
    BROWSER.press(selector="#live .choice button:text('grown in the range')")
    sites = []
    for t in (begin, end):
        top = json.loads(read_json("top", page.paths[0], "--at=" + seconds(t)))["devices"][0]
        sites.append(innermost((s["site"], s["bytes"], s["count"]) for s in top["sites"]))
    want = {name: tuple(b - a for a, b in zip(sites[0].get(name, (0, 0)), sites[1].get(name, (0, 0)))) for name in {**sites[0], **sites[1]}}
    equal(innermost(live_rows()), {name: change for name, change in want.items() if change != (0, 0)})
    equal(live_total(), [sum(change[0] for change in want.values()), sum(change[1] for change in want.values())])
    check("more (or less)" in BROWSER.do("document.querySelector('#live .when').textContent"), "the headline")
    BROWSER.do("[...document.querySelectorAll('#timeline button')].find((b) => b.textContent === 'whole time').click()")
    BROWSER.settle()
    check(all(size >= 0 for _, size, _ in live_rows()), "without a range it is what was held")


@case("dragging shows a range, in the figures and in the address; a double click shows the whole time again")
def drag_zooms():
    page = opened("vllm")
    times = sums(page.device()["t_ns"])
    before = {section: BROWSER.pixels(selector)["sum"] for section, selector in FIGURES.items()}
    area = plot()
    BROWSER.drag(x=area["x"] + area["width"] * 0.4, y=area["y"] + 50, to=area["x"] + area["width"] * 0.6)
    shown, span = address(), times[-1] - times[0]
    equal(round((shown["from"] - times[0]) / span, 1), 0.4)
    equal(round((shown["to"] - times[0]) / span, 1), 0.6)
    for section in ("timeline", "map", "fragmentation"):
        check(BROWSER.pixels(FIGURES[section])["sum"] != before[section], section)
    area = plot()
    BROWSER.move(x=area["x"] + 1, y=area["y"] + 60)
    moment = max(i for i, t in enumerate(times) if t <= shown["from"] + span * 0.001)
    check(abs(reading()["t"] - times[moment]) <= span * 0.002, "the pointer at the left edge reads the range's begin")
    BROWSER.doubleClick(x=area["x"] + area["width"] / 2, y=area["y"] + 60)
    check("from" not in address(), BROWSER.do("location.hash"))
    BROWSER.move(x=5, y=5)
    BROWSER.do("history.replaceState(null, '', location.pathname)")


def owners_at(device, wanted, shown):
    """What the page may call the owner of an address at the moments of the map that are written so."""
    found, times = set(), sums(device["t_ns"])
    fixed = {0: "nothing allocated here", 1: "free in PyTorch\u2019s pool: in a segment, in no block", 2: "several small owners"}
    for at, cells in zip(device["map"]["at"], device["map"]["cells"]):
        if "+%.3f" % ((times[at] + 500000) // 10**6 / 1000) != shown:
            continue
        owners = [owner for length, owner in zip(cells[::2], cells[1::2]) for _ in range(length)]
        for r in device["map"]["ranges"]:
            offset = wanted - int(r["start"], 16)
            if 0 <= offset < r["bytes"]:
                # (the address is that of the row's begin, rounded down)
                owner = owners[r["first_row"] + min(r["rows"] - 1, -(-offset * r["rows"] // r["bytes"]))]
                name = fixed.get(abs(owner)) or device["sites"][abs(owner) - 3]["label"]
                found.add(name if owner >= 0 else f"mostly free in PyTorch\u2019s pool, held open by {name}")
    return found


@case("the map's line names the owner, its address and its times, as DATA has them")
def map_reads():
    problems = []
    for name in ("vllm", "fragmented"):
        device = opened(name).device()
        starts = [(int(r["start"], 16), int(r["start"], 16) + r["bytes"]) for r in device["map"]["ranges"]]
        box, seen = BROWSER.box(selector=".plot.map > canvas"), set()
        for fx, fy in itertools.product((0.3, 0.5, 0.7, 0.85), (0.1, 0.25, 0.4, 0.55, 0.8)):
            BROWSER.move(x=box["x"] + box["width"] * fx, y=box["y"] + box["height"] * fy)
            line, owner = BROWSER.do("[document.querySelector('#map .note').textContent, (document.querySelector('#map .note b') || {}).textContent]")
            if owner is None:
                continue
            seen.add(owner)
            found = re.search(r"(0x[0-9a-f]+); seen so from", line)
            if not found or not any(low <= int(found.group(1), 16) < high for low, high in starts):
                problems.append(f"{name}: {line}")
                continue
            want = owners_at(device, int(found.group(1), 16), re.search(r"at (\+[0-9:.]+)", line).group(1))
            if owner not in want:
                problems.append(f"{name}: {line}: DATA has {want}")
        if len(seen) < 3:
            problems.append(f"{name}: only {seen}")
        # The picture ends 28 pixels above the canvas's lower edge, and begins 10 below its upper one.
        for first, step, part in ((11, 1, 0.98), (box["height"] - 29, -1, 0.02)):
            found, y = None, first
            while not found and abs(y - first) < 20:  # (there may be a gap between ranges)
                BROWSER.move(x=box["x"] + box["width"] * 0.7, y=box["y"] + y)
                line = BROWSER.do("document.querySelector('#map .note').textContent")
                found, y = re.search(r"(0x[0-9a-f]+); seen", line), y + step
            wanted = sum(high - low for low, high in starts) * part
            at = int(found.group(1), 16)
            below = sum(min(high, at) - low for low, high in starts if at > low)
            if abs(below - wanted) > 0.03 * sum(high - low for low, high in starts):
                problems.append(f"{name}: {y} pixels below the edge is {line}, {below} bytes up")
    return problems


# ---- search, icicle


@case("search leaves the rows that have the word, with their totals, and dims the rest of the icicle")
def search_filters():
    page = opened("vllm")
    device, before = page.device(), BROWSER.pixels(FIGURES["live"])["sum"]
    strings = page.data["strings"]
    moment = max(i for i, t in enumerate(sums(device["t_ns"])) if t <= reading()["t"])
    word = "kv_cache"
    held, want = sites_at(device, moment), 0
    for site, (size, _) in held.items():
        texts = [device["sites"][site]["label"]] + [strings[frame] for frame in device["sites"][site]["stack"]]
        want += size if any(word in text.lower() for text in texts) else 0
    check(0 < want < sum(size for size, _ in held.values()), "the word tells call sites apart")
    BROWSER.fill(selector="#live input", text="KV_cache")
    equal(live_total()[0], want)
    check(BROWSER.pixels(FIGURES["live"])["sum"] != before, "the icicle")
    BROWSER.fill(selector="#live input", text="no frame has this")
    equal(live_total()[0], 0)


@case("the icicle's largest box is the largest caller, and inverted the largest innermost frame")
def icicle_inverts():
    for name in ("vllm", "fragmented"):
        page = opened(name)
        device, strings = page.device(), page.data["strings"]
        moment = max(i for i, t in enumerate(sums(device["t_ns"])) if t <= reading()["t"])
        held = {site: size for site, (size, _) in sites_at(device, moment).items()}
        for place, inverted in ((-1, False), (0, True)):
            largest = {}
            for site, size in held.items():
                stack = device["sites"][site]["stack"]
                frame = strings[stack[place]] if stack else device["sites"][site]["label"]
                largest[frame] = largest.get(frame, 0) + size
            size = max(largest.values())
            if inverted:
                BROWSER.press(selector="#live .choice button:text('inverted')")
            BROWSER.focus(selector="canvas.icicle")
            BROWSER.key(key="ArrowDown")
            said = BROWSER.do("document.querySelector('#said').textContent")
            share = "%.1f %%" % (100 * size / sum(held.values()))
            check(share in said, f"{name}, inverted {inverted}: {said}, want {share}")
            frames = [frame for frame in largest if largest[frame] == size]
            check(any(f": {frame}" in said for frame in frames) or not inverted and "\u2190" in said, f"{name}: {said}: {frames}")


# ---- the keyboard


STOPS = "a[href], button, input, summary, [tabindex='0']"


@case("Tab reaches every control of the page once, from the top to the bottom; each has a name and a ring when it has the focus")
def tab_reaches():
    for name in sample(("vllm", "fragmented"), 1):
        opened(name)
        BROWSER.do(f"""window.stops = [...document.querySelectorAll("{STOPS}")].filter((e) => !e.disabled && e.checkVisibility()
            && !(e.closest('details:not([open])') && !(e.matches('summary') && !e.parentElement.parentElement.closest('details:not([open])'))));
            document.activeElement.blur(); window.scrollTo(0, 0)""")
        wanted, order, ringless, known = BROWSER.do("stops.length"), [], [], True
        check(wanted > 20, str(wanted))
        for _ in range(wanted + 20):  # (a scrolling text is a stop, too)
            BROWSER.key(key="Tab")
            found = BROWSER.do("""(() => {
                const e = document.activeElement, style = getComputedStyle(e), {width, height} = e.getBoundingClientRect();
                return [stops.indexOf(e), e === document.body, e.matches('pre, .wide, table'),
                    style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && width > 0 && height > 0,
                    `${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`];
            })()""")
            at, over, scrolls, ring, what = found
            if over or len(order) == wanted:
                break
            if at >= 0:
                order.append(at)
            known = known and (at >= 0 or scrolls)
            ringless += [] if ring else [what]
        equal(order, list(range(wanted)), f"{name}: the order")
        check(known, f"{name}: a stop that is no control")
        equal(ringless, [], name)
        nameless = [role for role, said in BROWSER.heard() if not said.strip() and role in
                    ("button", "link", "searchbox", "textbox", "slider", "img", "image", "Canvas", "DisclosureTriangle", "heading")]
        equal(nameless, [], f"{name}: without a name")


@case("who hears the page hears each figure: its name, what it shows at the moment, and the same in words")
def figures_are_heard():
    page = opened("vllm")
    heard = BROWSER.heard()
    images = [said for role, said in heard if role in ("img", "image", "slider")]
    for part in ("Moment in memory over time", "Icicle of stacks", "Addresses over time", "pool over time", "External fragmentation"):
        check(any(part in said for said in images), f"{part}: {images}")
    value = BROWSER.do("document.querySelector('#timeline .plot').getAttribute('aria-valuetext')")
    crossing, = [mark["at"] for mark in page.device()["marks"] if mark["kind"] == "crossing"]
    check("+%.3f s" % (sums(page.device()["t_ns"])[crossing] / 1e9) in value and "KV cache" in value, value)
    for section in ("timeline", "live", "fragmentation"):
        check(BROWSER.do(f"document.querySelectorAll('#{section} details.text table, #{section} details.text pre').length"), section)
    equal(BROWSER.do("[...document.querySelectorAll('main canvas')].filter((c) => !c.closest('[aria-hidden], [aria-label]')).length"), 0)
    check(BROWSER.do("document.documentElement.lang") == "en" and len([1 for role, _ in heard if role == "heading"]) >= 9, "headings")


@case("arrow keys move the moment, plus and minus zoom, Escape shows the whole time; what is read is said")
def keys_move():
    page = opened("vllm")
    times = sums(page.device()["t_ns"])
    BROWSER.focus(selector="#timeline .plot")
    now = "Number(document.querySelector('#timeline .plot').getAttribute('aria-valuenow'))"
    first = BROWSER.do(now)
    crossing = [mark["at"] for mark in page.device()["marks"] if mark["kind"] == "crossing"]
    equal([first], crossing, "the moment that is shown first")
    for key, want in (("ArrowLeft", first - 1), ("ArrowLeft", first - 2), ("ArrowRight", first - 1), ("Home", 0),
                      ("End", len(times) - 1), ("ArrowDown", max(m["at"] for m in page.device()["marks"] if m["at"] < len(times) - 1))):
        BROWSER.key(key=key)
        equal(BROWSER.do(now), want, key)
        equal(address()["t"], times[want], key)
        said = BROWSER.do("document.querySelector('#said').textContent")
        check("weights" in said and "+%.3f s" % (times[want] / 1e9) in said or want == 0, f"{key}: {said}")
    BROWSER.key(key="+")
    BROWSER.key(key="+")
    narrow = address()
    equal(round((times[-1] - times[0]) / (narrow["to"] - narrow["from"])), 4)
    BROWSER.key(key="-")
    equal(round((address()["to"] - address()["from"]) / (narrow["to"] - narrow["from"])), 2)
    BROWSER.key(key="Escape")
    check("from" not in address(), "Escape")


@case("marks of the program: arrow keys reach each, which is said and stands beside the time; the pointer reads it; on paper all are there")
def marks_are_reached():
    page = opened("marked")
    times, names = sums(page.device()["t_ns"]), ["epoch 0", "epoch 1", "epoch 2", pages.MARKUP[1]]
    # (allocations are a second apart from 60 s on, marks half a second behind the sixth of each ten)
    places = [times[m["at"]] for m in page.device()["marks"] if m["kind"] == "mark"]
    equal([b - a for a, b in zip(places, places[1:])], [10**10] * 3)
    BROWSER.focus(selector="#timeline .plot")
    BROWSER.key(key="Home")
    for name, place in zip(names, places):
        BROWSER.key(key="ArrowUp")
        equal(address()["t"], place, name)
        said = BROWSER.do("document.querySelector('#said').textContent")
        check(f", {name}: " in said, said)
        check(name in BROWSER.do("document.querySelector('#timeline caption .phase').textContent"), f"{name}: beside the time")
        check(name in BROWSER.do("document.querySelector('#timeline .plot').getAttribute('aria-valuetext')"), f"{name}: of the slider")
    area, span = plot(), (times[-1] - times[0]) * 1.01
    for name, place in zip(names, places):
        for off in (0, 3, 40):
            BROWSER.move(x=area["x"] + area["width"] * (place - times[0]) / span + off, y=area["y"] + area["height"] / 2)
            hint = BROWSER.do("document.querySelector('#timeline .hint').textContent")
            equal(hint.startswith(name + " at +"), off < 40, f"{name}, {off} pixels away: {hint}")
    BROWSER.move(x=5, y=5)
    BROWSER.media(media="print", scheme="light")
    paper = BROWSER.do("[...document.querySelectorAll('table.program-marks td.mark')].filter((e) => e.checkVisibility()).map((e) => e.textContent)")
    equal(paper, names)
    equal(BROWSER.do("document.querySelectorAll('main img').length"), 0)
    return BROWSER.problems()


# ---- the address


@case("the address of a moment and range shows them in a page that is opened by it")
def address_opens():
    page = PAGES["vllm"]
    times = sums(page.device()["t_ns"])
    t, begin, end = times[len(times) // 3], times[10], times[len(times) // 2]
    opened("vllm", f"#t={t}&gpu=0&from={begin}&to={end}")
    equal(reading()["t"], t)
    BROWSER.focus(selector="#timeline .plot")
    BROWSER.key(key="ArrowRight")
    equal((address()["from"], address()["to"]), (begin, end))
    for odd in ("#t=abc&gpu=0", "#t=99999999999999999999&gpu=7", "#t=-5&gpu=0&from=9&to=3", "#<script>", "#t=0&gpu=0&from=0&to=9007199254740991"):
        opened("vllm", odd)
        equal(BROWSER.problems(), [], odd)
        check(BROWSER.pixels(FIGURES["timeline"])["colours"] > 3, odd)


@case("a link of the text shows its moment")
def links_show():
    for name in ("vllm", "fragmented"):
        opened(name)
        shown, times = reading()["t"], sums(PAGES[name].device()["t_ns"])
        links = BROWSER.do("[...document.querySelectorAll('section a.moment')].map((link) => link.hash)")
        moments = [max([at for at in times if at <= int(re.search(r"t=(\d+)", link).group(1))], default=times[0]) for link in links]
        check(shown in moments, f"{name}: {links}")
        check(name != "vllm" or len(set(moments)) > 1, "a link to another moment than the one that is shown first")
        for number in sorted({moments.index(t) for t in moments}):
            BROWSER.focus(selector="#timeline .plot")
            BROWSER.key(key="Home")
            BROWSER.do(f"document.querySelectorAll('section a.moment')[{number}].click()")
            BROWSER.settle()
            equal(reading()["t"], moments[number], f"{name}: {links[number]}")


@case("the axis can be of the time of day")
def clock_switches():
    opened("vllm")
    before = BROWSER.pixels(FIGURES["timeline"])["sum"]
    BROWSER.press(selector="#timeline .choice button:text('UTC')")
    check(BROWSER.pixels(FIGURES["timeline"])["sum"] != before, "the axis")


@case("the map is read by arrow keys, too: up and down by owner, left and right by moment")
def map_by_keys():
    page = opened("fragmented")
    labels = [site["label"] for site in page.device()["sites"]]
    BROWSER.focus(selector=".plot.map > canvas")
    seen = []
    for key in ["ArrowUp"] * 6 + ["ArrowRight"] * 3:
        BROWSER.key(key=key)
        seen.append(BROWSER.do("document.querySelector('#said').textContent"))
    check(any(any(label in said for label in labels) for said in seen), seen)
    check(any("free in PyTorch" in said for said in seen), seen)
    addresses = [int(re.search(r"(0x[0-9a-f]+); seen", said).group(1), 16) for said in seen]
    equal(addresses[:6], sorted(addresses[:6]))
    equal(len(set(addresses[5:])), 1)


def shown_addresses(device):
    """The lowest and highest address that the map's line names for a pointer along its whole height."""
    box, found = BROWSER.box(selector=".plot.map > canvas"), []
    for y in range(11, int(box["height"]) - 28, 6):
        BROWSER.move(x=box["x"] + box["width"] * 0.7, y=box["y"] + y)
        line = re.search(r"(0x[0-9a-f]+); seen", BROWSER.do("document.querySelector('#map .note').textContent"))
        found += [int(line.group(1), 16)] if line else []
    check(found and all(any(0 <= a - int(r["start"], 16) < r["bytes"] for r in device["map"]["ranges"]) for a in found), found)
    return min(found), max(found)


def zoomed_bytes():
    """How many bytes of addresses the page says that it shows."""
    said = re.search(r"([\d.]+) (KiB|MiB|GiB)", BROWSER.do("document.querySelector('.addresses .shown').textContent"))
    return float(said.group(1)) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[said.group(2)]


@case("a part of the addresses is shown by dragging up, by keys and by buttons, around what was read; Escape shows all")
def map_zooms():
    device, problems = opened("vllm").device(), []
    picture = f"document.querySelector({json.dumps(FIGURES['map'])}).toDataURL()"
    whole, bounds, before = zoomed_bytes(), shown_addresses(device), BROWSER.do(picture)
    check(abs(whole - sum(r["bytes"] for r in device["map"]["ranges"])) < 0.01 * whole, whole)
    box = BROWSER.box(selector=".plot.map > canvas")
    x, height = box["x"] + box["width"] * 0.7, box["height"] - 38
    low, high = (box["y"] + 10 + height * part for part in (0.75, 0.25))
    ends = []
    for y in (low, high):
        BROWSER.move(x=x, y=y)
        ends.append(int(re.search(r"(0x[0-9a-f]+); seen", BROWSER.do("document.querySelector('#map .note').textContent")).group(1), 16))
    times = BROWSER.do("location.hash")
    BROWSER.drag(x=x, y=low, to=x + 3, toY=high)
    equal(BROWSER.do("location.hash"), times, "the range of time stays")
    check(BROWSER.do(picture) != before, "the picture is another one")
    part = max(r["bytes"] / r["rows"] for r in device["map"]["ranges"])
    got = shown_addresses(device)
    problems += [f"dragged from {ends}, shown {got}"] if any(abs(a - b) > 3 * part for a, b in zip(got, ends)) else []
    problems += [f"{zoomed_bytes()} of {whole} in half of the height"] if not 0.45 < zoomed_bytes() / whole < 0.55 else []
    BROWSER.press(selector=".addresses button[aria-label='Show fewer addresses']")
    half = zoomed_bytes()
    check(0.2 < half / whole < 0.28, (half, whole))
    BROWSER.focus(selector=".plot.map > canvas")
    BROWSER.key(key="Escape")
    equal((zoomed_bytes(), shown_addresses(device)), (whole, bounds))
    for key in ["ArrowUp"] * 3 + ["+"] * 3:
        BROWSER.key(key=key)
    check(0.11 < zoomed_bytes() / whole < 0.14, zoomed_bytes())
    check("of addresses from 0x" in BROWSER.do("document.querySelector('#said').textContent"), "said aloud")
    for _ in range(30):  # a few parts at the least, and arrow keys stay in them
        BROWSER.key(key="+")
    BROWSER.key(key="ArrowUp")
    check(zoomed_bytes() <= 5 * part, zoomed_bytes())
    BROWSER.press(selector=".addresses button:has-text('all addresses')")
    equal(zoomed_bytes(), whole)
    return problems + BROWSER.problems()


@case("Enter shows the memory around a part of the map, which ends where nothing is allocated")
def map_of_a_segment():
    device = opened("fragmented").device()
    whole = zoomed_bytes()
    BROWSER.focus(selector=".plot.map > canvas")
    for key in ["ArrowRight", "ArrowUp", "Enter"]:
        BROWSER.key(key=key)
    said = re.search(r"from (0x[0-9a-f]+)", BROWSER.do("document.querySelector('.addresses .shown').textContent"))
    check(zoomed_bytes() <= whole)
    if said:
        check(int(said.group(1), 16) in [int(r["start"], 16) for r in device["map"]["ranges"]] or zoomed_bytes() < whole, said.group(0))
    return BROWSER.problems()


def used_at(path, last):
    """(start, bytes, time) of blocks, and of allocations that hold none, behind an event."""
    live = [r for r in lifetimes_of(path).rows if r["event"] <= last and (r["end_event"] is None or r["end_event"] > last)]
    starts = sorted(r["key"] for r in live if r["kind"] == "block")

    def has_block(r):
        at = bisect.bisect_left(starts, r["key"])
        return at < len(starts) and starts[at] < r["key"] + r["bytes"]
    return {(r["key"], r["bytes"], r["t_ns"]) for r in live if r["kind"] == "block" or not has_block(r)}


@case("of more than 2000 blocks the largest are listed, and the page says so")
def largest_blocks():
    trace = Trace()
    for i in range(2100):
        trace.event("alloc", 10**9 + i * 1000, api="cuMemAlloc_v2", device=0, ptr=(1 << 30) + (i << 21), result=0, space="device",
                    bytes=(i * 37 % 2100 + 1) * 256)
    page = Page("many", trace.save(os.path.join(FOLDER, "many.zst")))
    found = page.device()["map"]["blocks"][-1]
    equal((found["all"], sorted(found["list"][1::4])), (2100, [n * 256 for n in range(101, 2101)]))
    BROWSER.open(url=page.url)
    count = BROWSER.do("document.querySelector('#map .single .hint').textContent")
    check(count.startswith("2,000 blocks") and "of the 2,000 largest of 2,100" in count, count)
    return BROWSER.problems()


@case("single blocks are those of the trace, with size and time; the arrow keys and the pointer read size, call site and age")
def single_blocks():
    page = opened("vllm")
    device, start = page.device(), page.data["traces"][0]["summary"]["start_ns"]
    events, times, problems = sums(device["event"]), sums(device["t_ns"]), []
    for found in device["map"]["blocks"]:
        address, got = int(found["start"], 16), []
        for gap, size, site, t in zip(*[iter(found["list"])] * 4):
            address += gap
            got.append((address, size, start + t))
            check(site < len(device["sites"]))
        want = used_at(VLLM[0], events[found["at"]])
        problems += [f"at {found['at']}: {sorted(set(got) ^ want)[:6]}"] if not set(got) <= want or len(got) != found["all"] else []
        check(len(got) > 100, len(got))
    lists = [b for each in PAGES.values() for t in each.data["traces"] for d in t["devices"] if d["map"] for b in d["map"]["blocks"]]
    problems += [f"{len(b['list']) / 4} of {b['all']}" for b in lists if len(b["list"]) != 4 * min(b["all"], 2000)]
    crossing = next(m["at"] for m in device["marks"] if m["kind"] == "crossing")
    at = next(b for b in device["map"]["blocks"] if b["at"] == crossing)
    BROWSER.focus(selector=".plot.blocks > canvas")
    BROWSER.key(key="End")
    size, site, t = at["list"][-3:]
    address = int(at["start"], 16) + sum(at["list"][::4])
    said = BROWSER.do("document.querySelector('#said').textContent")
    check(device["sites"][site]["label"] in said and f"0x{address:x}" in said and f"+{t / 1e9:.3f} s" in said, said)
    check(f"{(times[crossing] - t) / 1e9:.3f} s before +{times[crossing] / 1e9:.3f} s" in said, said)
    check(re.search(r"[\d.]+ (B|KiB|MiB|GiB) at", said), said)
    BROWSER.key(key="ArrowLeft")
    check(f"0x{address - at['list'][-4]:x}" in BROWSER.do("document.querySelector('#said').textContent"), "one to the left")
    box = BROWSER.box(selector=".plot.blocks > canvas")
    BROWSER.move(x=box["x"] + box["width"] * 0.5, y=box["y"] + 28)
    check(" before +" in BROWSER.do("document.querySelector('#map .single .note').textContent"), "the pointer reads")
    count = BROWSER.do("document.querySelector('#map .single .hint').textContent")
    check(count.startswith(f"{at['all']} blocks"), count)
    BROWSER.press(selector=".addresses button[aria-label='Show fewer addresses']")
    check(int(BROWSER.do("document.querySelector('#map .single .hint').textContent").split()[0]) < at["all"], "fewer in a part")
    return problems + BROWSER.problems()


# Of each small picture: the first and the last column that is not paper, and the height of its highest coloured pixel.
SMALL = """[...document.querySelectorAll('button.device canvas')].map((canvas) => {
    const {data, width, height} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer), paper = pixels[0], columns = [];
    let top = height;
    pixels.forEach((pixel, i) => { if (pixel !== paper) { columns.push(i % width); top = Math.min(top, Math.floor(i / width)); } });
    return {first: columns.reduce((a, b) => Math.min(a, b)), last: columns.reduce((a, b) => Math.max(a, b)), width, height, top};
})"""


@functools.lru_cache(maxsize=None)
def of_both(name):
    """The page of both processes of a run."""
    return Page(name, *(os.path.join(ROOT, "tests/report/vllm", name, trace) for trace in ("trace.zst", "trace-1.zst")))


def spans_of(data):
    """From when to when each trace has events of its device, on the machine's clock."""
    times = [(trace["summary"]["start_ns"], sums(trace["devices"][0]["t_ns"])) for trace in data["traces"]]
    return [(start + t[0], start + t[-1]) for start, t in times]


@case("processes stand below one another on one axis of time and at one scale, as their clocks say: ranks, a trainer and its engine")
def on_one_axis():
    problems = []
    for name in ("tensor-parallel", "weight-update"):
        page = of_both(name)
        BROWSER.open(url=page.url)
        spans = spans_of(page.data)
        first, last = min(s[0] for s in spans), max(s[1] for s in spans)
        for small, span in zip(BROWSER.do(SMALL), spans, strict=True):
            want = [(t - first) / (last - first) * small["width"] for t in span]
            if abs(small["first"] - want[0]) > 12 or abs(small["last"] + 1 - want[1]) > 12:
                problems.append(f"{name}: {small}, not from {want[0]} to {want[1]}")
        left = BROWSER.do("[...document.querySelectorAll('button.device')].map((e) => e.getBoundingClientRect()).map((r) => [r.left, r.top])")
        check(left[0][0] == left[1][0] and left[0][1] < left[1][1], left)
        check("one axis of time" in BROWSER.text(selector=".picker"), BROWSER.text(selector=".picker"))
        problems += BROWSER.problems()
    return problems


RANKS = """[...document.querySelectorAll('table.ranks tr')].map((row) => {
    const canvas = row.querySelector('canvas'), line = canvas.getContext('2d').getImageData(0, canvas.height >> 1, canvas.width, 1).data;
    const drawn = [...Array(canvas.width).keys()].filter((x) => line[4 * x] !== 241 || line[4 * x + 1] !== 242 || line[4 * x + 2] !== 243);
    return {name: row.querySelector('th').textContent, width: canvas.width, first: drawn[0], last: drawn[drawn.length - 1] + 1}})"""


@case("several processes are bars on the scale of their GPU, each as long as what it holds, one behind the other; the rest is of others")
def as_bars():
    problems = []
    for name in ("tensor-parallel", "weight-update"):
        page = of_both(name)
        together, want = page.data["processes"], []
        for g, gpu in enumerate(together["gpus"]):
            at = 0
            for process in together["processes"]:
                for d in process["devices"]:
                    if d["gpu_index"] == g:
                        held = d["tracked_bytes"] + (d["untracked_bytes"] or 0)
                        want.append((f"PID {process['pid']}", at / gpu["total_bytes"], (at + held) / gpu["total_bytes"]))
                        at += held
            if gpu["total_bytes"] - gpu["free_bytes"] > at:
                want.append(("other processes", at / gpu["total_bytes"], 1 - gpu["free_bytes"] / gpu["total_bytes"]))
        BROWSER.open(url=page.url)
        rows = BROWSER.do(RANKS)
        equal(len(rows), len(want), rows)
        said = BROWSER.do("document.querySelector('#ranks pre').textContent")
        check("next: cutrace-report trace" in said and ROOT not in said, said)
        BROWSER.open(url=page.url, width=390)
        equal(BROWSER.do("[...document.querySelectorAll('table.ranks, table.ranks td')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"), 0, name)
        for row, (process, first, last) in zip(rows, want):
            if process not in row["name"] or abs(row["first"] - first * row["width"]) > 2 or abs(row["last"] - last * row["width"]) > 2:
                problems.append(f"{name}: {row}, not {process} from {first * row['width']} to {last * row['width']}")
        check("Most tracked on one GPU" in BROWSER.text(selector="#ranks > .answer"))
        problems += BROWSER.problems()
    return problems


@case("of several processes each has its small picture; its button, its links and its address show it")
def several_processes():
    folder = os.path.join(FOLDER, "several")
    os.mkdir(folder)
    copies = [shutil.copy(path, os.path.join(folder, f"{i}.zst")) for i, path in enumerate(VLLM)]
    page = Page("several", *copies)
    BROWSER.open(url=page.url)
    equal(BROWSER.count(selector="button.device"), 2)
    equal(BROWSER.count(selector="section#ranks"), 1)
    crossings = [next((sums(d["t_ns"])[m["at"]] for d in t["devices"] for m in d["marks"] if m["kind"] == "crossing"), None)
                 for t in page.data["traces"]]
    shown = []
    for number in (1, 0):
        BROWSER.press(selector=f"button.device >> nth={number}")
        equal(address()["trace"], number)
        equal(reading()["t"], crossings[number])
        shown.append(BROWSER.pixels(FIGURES["timeline"])["sum"])
    check(shown[0] != shown[1], "two pictures")
    BROWSER.do("document.querySelector('[data-trace=\"1\"] a.moment').click()")
    BROWSER.settle()
    equal((address()["trace"], reading()["t"]), (1, crossings[1]))
    BROWSER.open(url=page.url + "#t=%d&gpu=0&trace=1" % crossings[1])
    equal(reading()["t"], crossings[1])
    return BROWSER.problems()


# ---- strangers' traces


@case("names that are markup, control sequences, endless or no text are text, and nothing runs")
def names_are_text():
    opened("hostile")
    check("owned" not in BROWSER.do("document.title") or "<script>" in BROWSER.do("document.title"), BROWSER.do("document.title"))
    equal(BROWSER.do("document.querySelectorAll('#owned, main img, main script, main style').length"), 0)
    text = BROWSER.do("document.querySelector('#live').textContent")
    for markup in pages.MARKUP[:3]:
        check(markup in text, markup)
    equal(BROWSER.do(r"/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.querySelector('#live-figure').textContent)"), False)
    longest = BROWSER.do("Math.max(...[...document.querySelectorAll('.figure summary, .figure li, .figure .label')].map((e) => e.textContent.length))")
    check(longest < 2000, str(longest))
    return BROWSER.problems()


@case("DATA that somebody else wrote does no harm either: names are cut and cleaned, and nothing runs")
def tampered_data():
    page = PAGES["fragmented"]
    evil = "<img src=x onerror=document.title='owned'>\u202egnp\u2066\u0007\u200f" + "y" * 10000
    data = json.loads(json.dumps(page.data))
    device = data["traces"][0]["devices"][0]
    for row in device["rows"]:
        row["title"] = evil
    for site in device["sites"]:
        site["label"] = evil
    for mark in device["marks"]:
        mark["text"] = evil
    data["strings"] = [evil for _ in data["strings"]]
    data["traces"][0]["title"] = evil
    for phase in data["traces"][0]["phases"]["phases"]:
        phase["phase"] = phase["phase"] and {**phase["phase"], "title": evil}
    text = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    file = write("tampered.html", re.sub(r'(id="data">).*?(</script>)', lambda found: found.group(1) + text + found.group(2),
                                         page.text, count=1, flags=re.S).encode())
    BROWSER.open(url="file://" + file)
    equal(BROWSER.do("document.querySelectorAll('main img').length"), 0)
    check(BROWSER.do("document.title") != "owned", "the title")
    shown = BROWSER.do("[...document.querySelectorAll('.figure')].map((figure) => figure.textContent).join(' ')")
    check("onerror" in shown, "the names are shown")
    check(not re.search("[\u0000-\u0008\u200f\u202a-\u202e\u2066-\u2069]", shown), "characters that move what stands beside them")
    check("y" * 400 not in shown, "names are cut")
    check(BROWSER.pixels(FIGURES["timeline"])["colours"] > 3, "the timeline")
    return BROWSER.problems()


@case("a trace without events is a page of text, and a wrapped one has its figures")
def odd_traces():
    opened("empty")
    equal(BROWSER.count(selector=".figure"), 0)
    check(len(BROWSER.text(selector="main")) > 200, "text")
    opened("wrapped")
    check(BROWSER.pixels(FIGURES["timeline"])["colours"] > 3, "the timeline")


main()
