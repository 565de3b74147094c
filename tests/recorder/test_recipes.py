#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/run/RECIPES.md: its commands run, or are understood, by the programs that are there; each says whether it was tried.

What others' programs do with it is not tested here: the lines "Tried" say what was seen.
"""
# optional: systemd
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import BUILD, PLAIN, REPORT, ROOT, Skip, case, check, equal, main  # noqa: E402

CUTRACE = os.path.join(BUILD, "cutrace")
FOLDER = tempfile.TemporaryDirectory(prefix="cutrace-recipes-")  # pylint: disable=consider-using-with
TRACES = sorted(glob.glob(os.path.join(ROOT, "tests/report/vllm/tensor-parallel/trace*.zst")))
METRICS = os.path.join(ROOT, "tests/report/vllm/http-server/metrics.txt")
with open(os.path.join(ROOT, "tools/run/RECIPES.md"), encoding="utf-8") as f:
    TEXT = f.read()


def commands():
    """The words of each command of the page: indented lines, those that end with a backslash joined; and words in the text."""
    without = re.sub(r"^```.*?^```", "", TEXT, flags=re.M | re.S)
    lines = re.findall(r"^    ((?:.*\\\n)*.*)$", without, flags=re.M)
    spans = [" ".join(span.split()) for span in re.findall(r"`(cutrace[a-z-]* [^`]*)`", without)]
    return [shlex.split(line.replace("\\\n", " ")) for line in lines + spans]


def own(name):
    """The commands of one of our programs, also those that another program starts."""
    for words in commands():
        for i, word in enumerate(words):
            if os.path.basename(word) == name and "=" not in word and (i == 0 or word.startswith("/")):
                yield words[i + 1:]
                break


def run(program, *words, **kw):
    done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=FOLDER.name,
                          env=PLAIN, check=False, **kw)
    return done.returncode, done.stdout.decode(errors="replace")


def here(pattern):
    return os.path.join(FOLDER.name, os.path.basename(pattern))


def fenced(language):
    return re.findall(r"^```" + language + r"\n(.*?)^```", TEXT, flags=re.M | re.S)


@case("what the page starts under `cutrace run` starts, with the options and the pattern that are given")
def runs():
    count = 0
    for words in own("cutrace"):
        if words[0] != "run" or "-o" not in words or "..." in words:
            continue
        at, end = words.index("-o"), words.index("--")
        check(len(words) > end + 1, words)
        code, out = run(CUTRACE, *words[:at + 1], here(words[at + 1]), *words[at + 2:end], "--", "true")
        equal(code, 0, (words, out))
        count += 1
    check(count >= 6, count)


@case("other commands of cutrace are understood")
def others():
    names = set()
    for words in own("cutrace"):
        names.add(words[0])
        if words[0] == "record-metrics":
            code, out = run(CUTRACE, "record-metrics", "http://127.0.0.1:9", *words[2:words.index("-o") + 1], here("metrics.txt"), "--duration=100ms")
            check(code in (3, 4), (words, code, out))  # there is no curl, or nobody answers
        elif words[0] == "doctor":
            code, out = run(CUTRACE, "doctor", *("true" if w == "COMMAND" else w for w in words[1:]))
            check(code in (0, 1), (words, code, out))
        else:
            equal(words[0], "run", words)
    equal(names, {"run", "record-metrics", "doctor"})


@case("cutrace-report reads what the page gives it")
def reports():
    count = 0
    for words in own("cutrace-report"):
        args = []
        for word in words:
            if word.endswith("*.zst") or word == "TRACE":
                args += TRACES[:1] if word == "TRACE" else TRACES
            elif word.endswith("metrics.txt"):
                args.append("--log=" + METRICS)
            else:
                args.append(word)
        if "--seal" in words:  # it writes into the trace
            args[2:] = [shutil.copy(TRACES[0], here("seal.zst"))]
        code, out = run(REPORT, *args)
        check(code == 0 and out, (words, code, out))
        count += 1
    check(count >= 5, count)


@case("Kubernetes: the packed library fits into a ConfigMap, and the init container's command unpacks it")
def config_map():
    (manifest,) = fenced("yaml")
    command = json.loads(re.search(r"command: (.*)", manifest)[1])
    (strip,), (pack,) = ([words for words in commands() if words[0] == name] for name in ("strip", "gzip"))
    equal(run(*strip[:-1], os.path.join(BUILD, "libcutrace.so")), (0, ""))
    with open(here("libcutrace.so"), "rb") as f:
        library = f.read()
    equal(run(*pack), (0, ""))
    check(os.path.getsize(here("libcutrace.so.gz")) <= 1 << 20, "ValidateConfigMap: no more than MaxSecretSize, over all values")
    equal(command[:2], ["sh", "-c"])
    equal(run("sh", "-c", command[2].replace("/packed/", "").replace("/opt/cutrace/", "unpacked.")), (0, ""))
    with open(here("unpacked.libcutrace.so"), "rb") as f:
        equal(f.read() == library, True)


@case("every variable of cutrace's that the page sets is one, and patterns have only what patterns have")
def variables():
    text = run(CUTRACE, "--help")[1]
    known = set(re.findall(r"^  (CUTRACE_\w+)", text, flags=re.M))
    letters = set(re.findall(r"%(\w)", text[text.index("CUTRACE_OUTPUT="):].split("CUTRACE_MAX_SIZE")[0]))
    names = set(re.findall(r"CUTRACE_\w+", TEXT))
    check(names and names <= known, names - known)
    patterns = set(re.findall(r"/[\w/.]*%[^\s'\"]+", TEXT))
    check(len(patterns) >= 4, patterns)
    for pattern in patterns:
        check(set(re.findall(r"%(\w)", pattern.replace("%%", "%"))) <= letters, (pattern, letters))
        equal(run(CUTRACE, "run", "-o", here(pattern.replace("%%", "%")), "--", "true")[0], 0, pattern)
    check(all(value.endswith("/libcutrace.so") for value in re.findall(r"LD_PRELOAD[=:\"\s]+(?:value: )?\"?(/[^\s\",]+)", TEXT)), "the library")


@case("every recipe says whether it was tried, when and how")
def tried():
    problems = []
    for recipe in re.split(r"^## ", TEXT, flags=re.M)[1:]:
        name, last = recipe.split("\n", 1)[0], recipe.strip().split("\n\n")[-1]
        if not re.match(r"\*(Tried|Checked|Not tried)", last) or not re.search(r"20\d\d-\d\d-\d\d", last):
            problems.append(f"{name}: {last}")
    return problems


@case("systemd understands the lines for a unit")
def unit():
    if not shutil.which("systemd-analyze"):
        raise Skip("systemd-analyze is not installed")
    for lines in fenced("ini"):
        path = here("recipe.service")
        with open(path, "w", encoding="ascii") as to:
            to.write(lines.replace("[Service]\n", "[Service]\nExecStart=/bin/true\n"))
        code, out = run("systemd-analyze", "verify", path)
        check(code == 0 and "recipe.service:" not in out, out)


main()
