# SPDX-License-Identifier: Apache-2.0
"""Validates what cutrace-report writes with --json against tools/report/views/schema.

`tap.report` does it for every suite; one that runs the program by itself passes what that wrote to check_output. As a
program: schema.py COMMAND copies standard input to standard output if all of it is valid.
"""
import collections
import copy
import functools
import json
import os
import re
import sys

DISTRIBUTION = "/usr/lib/python3/dist-packages"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/report/views/schema")
DOCUMENTS = sorted(name[:-5] for name in os.listdir(FOLDER) if name != "common.json")
SEVERAL, TOGETHER = "several", "processes"  # of several traces, and in it of all processes
COMMANDS = [name for name in DOCUMENTS if name not in (SEVERAL, TOGETHER)]
SHOWN = 300  # letters of a wrong value

try:
    import fastjsonschema
except ImportError:  # an interpreter that is not the distribution's; the package is pure Python
    sys.path.append(DISTRIBUTION)
    try:
        import fastjsonschema
    except ImportError as e:
        raise ImportError("python3-fastjsonschema is missing: run scripts/setup.sh, or pip install fastjsonschema",
                          name="fastjsonschema") from e
    finally:
        sys.path.remove(DISTRIBUTION)


class Invalid(AssertionError):
    """What a command wrote is not what its schema says."""


def load(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
        return json.load(f)


def bundle(name):
    """The schema of a kind of document as one document, with the definitions that all share."""
    text = json.dumps(load(name)).replace('"common.json#/', '"#/')
    schema = json.loads(text)
    schema["$defs"] = {**load("common")["$defs"], **schema.get("$defs", {})}
    return schema


@functools.lru_cache(maxsize=None)
def validator(name):
    return fastjsonschema.compile(bundle(name), use_default=False)


def check_document(name, document):
    """Raises Invalid if a document (of dump: a line) is not what its schema says, which has the command's name."""
    try:
        validator(name)(document)
    except fastjsonschema.JsonSchemaException as e:
        value = repr(getattr(e, "value", None))[:SHOWN]
        raise Invalid("%s --json: %s; it is %s" % (name, str(e)[:SHOWN], value)) from None


_met = collections.Counter()  # of each shape of a line of dump
FULL = bool(os.environ.get("CUTRACE_FULL"))


def is_looked_at(shape):
    """Of the lines of one shape the first few are validated, and then one in 64; with CUTRACE_FULL=1 all are."""
    _met[shape] += 1
    return FULL or _met[shape] <= 4 or _met[shape] % 64 == 0


def check_events(events):
    """The same for the lines of dump, by a sample of each shape: an operation, and the types of all its fields."""
    for e in events:
        if is_looked_at((e.get("op"), *map(type, e.values()))):
            check_document("dump", e)


def check_several(command, document):
    """The same for the document of several traces: null for one that cannot be read."""
    check_document(SEVERAL, document)
    for one in document["documents"]:
        if one is not None:
            check_document(command, one)
    if document["processes"] is not None:
        check_document(TOGETHER, document["processes"])


def check_output(command, output):
    """The same for all that a command wrote: a document of one trace or of several, or the lines of dump."""
    if command == "dump":
        check_events(map(json.loads, output.splitlines()))
        return
    advice = re.search(rb'"text":"[^"]*: [^"]*","flag":"[^"]*"', output if isinstance(output, bytes) else output.encode())
    if advice:  # (text has a colon behind the flag)
        raise Invalid(f"{command}: a second colon: {advice.group().decode()}")
    document = json.loads(output)
    if document.get("schema", "").startswith("cutrace.%s/" % SEVERAL):
        check_several(command, document)
    else:
        check_document(command, document)


def command_of(arguments):
    """The command of a command line of cutrace-report that writes JSON, or None."""
    words = [str(a) for a in arguments]
    if "--json" not in words or {"--help", "-h", "help", "--version"} & set(words):
        return None
    command = next((w for w in words if w in COMMANDS), "summary")
    return command + "-quick" if "--quick" in words else command


def check_run(arguments, output):
    """The same for the command line and the output of a run, whatever it was."""
    command = command_of(arguments)
    if command and output:
        check_output(command, output)


def with_fault(document, path, value):
    """A copy of a document that has this value there; ...: it has none. To see whether a schema sees that."""
    out = copy.deepcopy(document)
    at = out
    for step in path[:-1]:
        at = at[step]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return out


if __name__ == "__main__":
    text = sys.stdin.read()
    check_output(sys.argv[1], text)
    sys.stdout.write(text)
