#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: mandoc man zsh
"""Help, manual and completion agree: each has every command and option of the tables, which are read here as text."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import BUILD, PLAIN, ROOT, Skip, case, check, equal, main  # noqa: E402

MANUAL = os.path.join(BUILD, "manual")
PAGES = ("cutrace.1", "cutrace-report.1", "cutrace-trace.5")
BASH, ZSH = os.path.join(MANUAL, "cutrace.bash"), os.path.join(MANUAL, "_cutrace")
PROGRAMS = ("cutrace", "cutrace-report")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def rows(path, macro):
    return re.findall(rf"^{macro}\(\s*(.*)", read(os.path.join(ROOT, path)), re.M)


def quoted(row):
    return re.search(r'"([^"]*)"', row)[1]


COMMANDS = {"cutrace": [quoted(r) for r in rows("tools/run/commands.def", "CT_COMMAND")],
            "cutrace-report": [re.match(r"\w+", r)[0] for r in rows("tools/report/cli/arguments.def", "CT_COMMAND")]}
OPTIONS = {"cutrace": {quoted(r) for r in rows("tools/run/commands.def", "CT_ARGUMENT")},
           "cutrace-report": {quoted(r) for r in rows("tools/report/cli/arguments.def", "CT_ARGUMENT")}}
VARIABLES = ["CUTRACE_" + re.match(r"\s*(\w+)", r)[1] for r in rows("include/cutrace/format/options.def", "CT_OPTION")]


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**PLAIN, **more}, text=True, check=False)


def helped(program, command):
    """The options that the help of a command lists."""
    done = run(os.path.join(BUILD, program), "help", command)
    equal(done.returncode, 0, done.stderr)
    return set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", done.stdout, re.M))


def offered(*words):
    """What bash offers for the last word, by its own completion machinery."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); unset -f compopt\n' \
        'function=$(complete -p "$1" | sed "s/.*-F \\([^ ]*\\).*/\\1/"); "$function"; printf "%s\\n" "${COMPREPLY[@]}"'
    done = run("bash", "--norc", "--noprofile", "-c", script, "bash", BASH, *words)
    equal((done.returncode, done.stderr), (0, ""))
    return done.stdout.split()


def long_options(words):
    return {w[2:].rstrip("=") for w in words if w.startswith("--")}


@case("the tables were read")
def tables():
    for program in PROGRAMS:
        check(len(COMMANDS[program]) > 4 and len(OPTIONS[program]) > 4, (COMMANDS, OPTIONS))
    check("run" in COMMANDS["cutrace"] and "oom" in COMMANDS["cutrace-report"] and "CUTRACE_OUTPUT" in VARIABLES)


@case("help: every command, option and variable")
def help_text():
    for program in PROGRAMS:
        words = set(re.split(r"[^\w-]+", run(os.path.join(BUILD, program), "--help").stdout))
        equal([c for c in COMMANDS[program] if c not in words] + [o for o in OPTIONS[program] if "--" + o not in words], [])
        listed = set.union(*(helped(program, c) for c in COMMANDS[program] if c != "help"))
        equal(OPTIONS[program] - listed - {"help", "version"}, set())
    text = run(os.path.join(BUILD, "cutrace"), "help", "run").stdout
    equal([v for v in VARIABLES if v not in text], [])


@case("the manual: every command, option and variable, as man shows it")
def manual():
    if not shutil.which("mandoc"):
        raise Skip("needs mandoc")
    for program in PROGRAMS:
        text = run("mandoc", "-Tutf8", "-O", "width=78", os.path.join(MANUAL, program + ".1")).stdout
        text = re.sub(".\b", "", text)
        heads = re.findall(r"^ {1,9}(\S.*)$", text, re.M)
        words = set(re.findall(r"--[a-z-]+", "\n".join(heads)))
        equal(OPTIONS[program] - {w[2:] for w in words}, set(), program)
        equal([c for c in COMMANDS[program] if not any(re.match(rf"(cutrace )?{c}\b", h) for h in heads)], [], program)
    text = re.sub(".\b", "", run("mandoc", "-Tutf8", os.path.join(MANUAL, "cutrace.1")).stdout)
    equal([v for v in VARIABLES if not re.search(rf"^ +{v}\b", text, re.M)], [])


@case("the manual has no warning of mandoc, nor of man")
def lint():
    if not shutil.which("mandoc"):
        raise Skip("needs mandoc")
    for page in PAGES:
        done = run("mandoc", "-Tlint", "-W", "warning", os.path.join(MANUAL, page))
        equal((done.returncode, done.stdout + done.stderr), (0, ""), page)
        if shutil.which("man"):
            done = run("man", "--warnings", "-l", os.path.join(MANUAL, page), MANWIDTH="80", PAGER="cat", MAN_KEEP_STDERR="1")
            equal(done.stderr, "", page)


@case("bash: the commands, and after each command the options that its help lists")
def bash():
    for program in PROGRAMS:
        equal(set(COMMANDS[program]) - set(offered(program, "")), set(), program)
        equal(offered(program, "hel"), ["help"])
        for command in COMMANDS[program]:
            if command != "help":
                equal(long_options(offered(program, command, "-")), helped(program, command), f"{program} {command}")
    equal(long_options(offered("cutrace-report", "-")), helped("cutrace-report", "summary"))


@case("bash: values of an option, files, requests, programs, and nothing of cutrace's behind the program")
def bash_values():
    equal(offered("cutrace-report", "oom", "--color", "=", "a"), ["auto", "always"])
    equal(offered("cutrace-report", "--units", "="), ["iec", "si", "bytes"])
    equal(offered("cutrace-report", "top", "--at", "=", ""), ["oom", "peak", "end"])
    equal(offered("cutrace", "ctl", "4711", "o"), ["on", "off"])
    here = os.path.join(ROOT, "Makefile")
    equal(offered("cutrace-report", "oom", here[:-1]), [here])
    equal(offered("cutrace-report", "html", "-o", here[:-1]), [here])
    check("bash" in offered("cutrace", "run", "bas"), "programs")
    check("bash" in offered("cutrace", "run", "-o", "x", "--", "bas"), "programs")
    equal(offered("cutrace", "run", "bash", "--qui"), [])
    equal(offered("cutrace", "doctor", "--js"), ["--json"])


@case("zsh: the commands and each command's options")
def zsh():
    if not shutil.which("zsh"):
        raise Skip("needs zsh")
    script = 'file=$1; service=$2; shift; words=("$@"); CURRENT=$#\n' \
        '_arguments() { print -l -- "$@" }; _describe() { print -l -- ${(P)2} }; _files() { : }; _normal() { : }\nsource $file'
    for program in PROGRAMS:
        done = run("zsh", "-f", "-c", script, "zsh", ZSH, program, "")
        equal([c for c in COMMANDS[program] if not re.search(rf"^{c}:", done.stdout, re.M)], [], done.stderr)
        for command in COMMANDS[program]:
            if command != "help":
                done = run("zsh", "-f", "-c", script, "zsh", ZSH, program, command, "")
                equal(done.stderr, "")
                equal(set(re.findall(r"^--([a-z-]+)=?-?\[", done.stdout, re.M)), helped(program, command), f"{program} {command}")
                for name, argument, action in re.findall(r"^--([a-z-]+)=\[.*\]:(DIR|FILE|PATTERN):(.*)$", done.stdout, re.M):
                    equal(action, "_files -/" if argument == "DIR" else "_files", name)


main()
