#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: node npm
"""The dashboard for Grafana against Grafana's published types, by the compiler of TypeScript: dashboard.ts.

scripts/fetch-schemas.sh fetches them; where they cannot be had, the cases are skipped with the reason."""
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
sys.path.append(os.path.join(HERE, "../page"))
import browser  # noqa: E402
from schema import with_fault  # noqa: E402
from tap import ROOT, Skip, case, check, equal, fetched, main  # noqa: E402
from ways import folder  # noqa: E402

subprocess.run([os.path.join(ROOT, "scripts/fetch-schemas.sh"), browser.DEPS], check=False)
OPTIONS = "--strict --noEmit --pretty false --module esnext --moduleResolution bundler --target es2022 --lib es2022".split()
with open(os.path.join(ROOT, "tools/watch/alerts/dashboard.json"), encoding="utf-8") as dashboard_file:
    DASHBOARD = json.load(dashboard_file)


def errors(*dashboards):
    """What the compiler has to say of each."""
    modules = os.path.join(fetched(os.path.join(browser.DEPS, "schemas/grafana"), "scripts/fetch-schemas.sh"), "node_modules")
    if not shutil.which("node"):
        raise Skip("node: not found")
    with open(os.path.join(HERE, "dashboard.ts"), encoding="utf-8") as f:
        types = f.read()
    where = folder()
    os.symlink(os.path.abspath(modules), os.path.join(where, "node_modules"))
    with open(os.path.join(where, "checked.ts"), "w", encoding="utf-8") as f:
        f.write(types)
        f.writelines(f"export const dashboard{i}: Checked = {json.dumps(d)};\n" for i, d in enumerate(dashboards))
    done = subprocess.run(["node", os.path.join(modules, "typescript/bin/tsc"), *OPTIONS, "checked.ts"], cwd=where, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    found = [[] for _ in dashboards]
    for line in done.stdout.splitlines():
        at = re.match(r"checked\.ts\((\d+),\d+\): error (.*)", line)
        check(at or line.startswith(" "), line)
        if at:
            found[int(at[1]) - types.count("\n") - 1].append(at[2])
    equal(done.returncode != 0, any(found), done.stdout)
    return found


@case("every field of the dashboard is one that Grafana has, with a value that it may have, and none is missing")
def valid():
    equal(errors(DASHBOARD), [[]])


# Where, and what is put there; ...: nothing, the field is taken away.
FAULTS = [
    (("titel",), "x"), (("schemaVersion",), "38"), (("time", "to"), ...), (("panels",), {}),
    (("panels", 0, "titel"), "x"), (("panels", 0, "type"), "timeserie"), (("panels", 0, "id"), "1"), (("panels", 0, "gridPos", "w"), ...),
    (("panels", 0, "datasource", "uid"), ...), (("panels", 0, "datasource"), ...), (("panels", 0, "datasource", "type"), "loki"),
    (("panels", 0, "targets", 0, "datasource", "uid"), ...), (("panels", 0, "targets", 0, "expression"), "up"),
    (("panels", 0, "targets", 0, "expr"), ...), (("panels", 0, "targets", 0, "format"), "tables"),
    (("panels", 0, "options", "legend", "displayMode"), "lists"), (("panels", 0, "options", "legend", "calcs"), ...),
    (("panels", 0, "options", "tooltip", "mode"), "all"), (("panels", 0, "options", "tooltips"), {}),
    (("panels", 0, "fieldConfig", "defaults", "units"), "bytes"), (("panels", 0, "fieldConfig", "defaults", "min"), "0"),
    (("panels", 0, "fieldConfig", "defaults", "custom", "stacking", "mode"), "stacked"),
    (("panels", 0, "fieldConfig", "defaults", "custom", "fillOpacities"), 60), (("panels", 0, "fieldConfig", "overrides"), ...),
    (("templating", "list", 0, "type"), "datasources"), (("templating", "list", 0, "name"), ...),
    (("templating", "list", 1, "refresh"), 7), (("templating", "list", 1, "sort"), "asc"),
    (("templating", "list", 1, "datasource", "uid"), ...), (("templating", "list", 1, "multiple"), True),
]


@case("a misspelt field, a value that there is not, a missing one, a source without uid: each is an error, at every depth")
def faults():
    found = errors(*(with_fault(DASHBOARD, *fault) for fault in FAULTS))
    equal([fault for fault, said in zip(FAULTS, found) if not said], [])


main()
