#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/watch/SIDECAR.md: the command lines and the environment of each recipe run, in two name spaces that share the folder
of traces and nothing else; its files are understood by the programs that are here."""
# optional: systemd npm
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
sys.path.append(os.path.join(HERE, "../page"))
import browser  # noqa: E402
import death  # noqa: E402
from schema import fastjsonschema, with_fault  # noqa: E402
from death import Mounted  # noqa: E402
from live import CUTRACE, Holder, children, elsewhere, service, wait_for  # noqa: E402
from tap import BUILD, ROOT, Skip, case, check, equal, fetched, main  # noqa: E402
from traces import M  # noqa: E402
from ways import folder  # noqa: E402

subprocess.run([os.path.join(ROOT, "scripts/fetch-schemas.sh"), browser.DEPS], check=False)
with open(os.path.join(ROOT, "tools/watch/SIDECAR.md"), encoding="utf-8") as page:
    TEXT = page.read()
RECIPES = ("Kubernetes", "Docker compose", "systemd")
# Another container has a /dev/shm of its own, too.
OTHER = ["sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$0" "$@"']


def recipe(name):
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", TEXT, flags=re.M | re.S).group(1)


def fenced(text, language):
    return re.findall(r"^```" + language + r"\n(.*?)^```", text, flags=re.M | re.S)


def load(name):
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Skip("PyYAML is not installed") from None
    (text,) = fenced(recipe(name), "yaml")
    return yaml.safe_load(text)


def of_kubernetes():
    pod = load("Kubernetes")["spec"]
    (watch,) = [c for c in pod["initContainers"] if c["name"] == "watch"]
    (server,) = pod["containers"]
    return watch["command"], {e["name"]: e["value"] for e in server["env"]}


def of_compose():
    services = load("Docker compose")["services"]
    return services["watch"]["command"], services["vllm"]["environment"]


def of_systemd():
    drop_in, unit = fenced(recipe("systemd"), "ini")
    env = dict(line.split("=", 2)[1:] for line in drop_in.splitlines() if line.startswith("Environment="))
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, flags=re.M)
    return shlex.split(command), {k: v.replace("%%", "%") for k, v in env.items()}


def adapt(words, env, where):
    """The command and the environment of a recipe, for this build and this folder."""
    equal((words[0], words[1]), ("/opt/cutrace/bin/cutrace", "watch"))
    traces = words[-1]
    equal(os.path.dirname(env["CUTRACE_OUTPUT"]), traces)
    check("%p" in env["CUTRACE_OUTPUT"] and env["LD_PRELOAD"] == "/opt/cutrace/lib/libcutrace.so", env)
    # (the suites find a trace by its pid)
    env = {k: v for k, v in env.items() if k.startswith("CUTRACE_") and k != "CUTRACE_OUTPUT"}
    return [CUTRACE, *words[1:-1], where], env


def sidecar(words):
    """With what the page says may go with it, too."""
    return service([*elsewhere(), *OTHER, *words[:-1], "--log", "--serve=0", words[-1]], stderr=subprocess.DEVNULL)


def traced_elsewhere(where, env):
    """A process that runs in its own name spaces and is killed there: its trace is that of its ledger."""
    before = death.calls_so_far(where)
    p = death.start(where, *elsewhere(), *OTHER, death.program("worker"), 2, 100, 64, 0, 1, env={**env, "WORKER_REFUSALS": "0"})
    death.wait_for_calls(where, p, before + 4000)
    for pid in children(p.pid):
        os.kill(pid, signal.SIGKILL)
    p.wait()


def shows(of):
    """Runs a recipe's two command lines with one tmpfs between them."""
    with Mounted("size=256m") as where:
        words, env = adapt(*of(), where)
        with sidecar(words) as said:
            for more in ({}, {"CUTRACE_MEMORY": "1"}):  # both journals lie beside their traces
                # (one that runs in a name space of its own has pid 1, or 2: one at a time)
                traced_elsewhere(where, {**env, **more})
                wait_for(lambda: death.traces(where) and not death.journals(where))
                problems = death.whole(where, killed=True)
                check(not problems, problems)
                for name in os.listdir(where):
                    os.unlink(os.path.join(where, name))
            with Holder(where, **env) as h:
                equal([h.tell("first", 900 * M), h.tell("second", 500 * M)], [0, 2])
                h.process.kill()
                h.process.wait()
                wait_for(lambda: os.path.exists(h.trace + ".oom.zip"))
        steps = [line.split(": ")[0] for line in said if " cutrace: " not in line]
        equal(sorted(steps), ["bundle", "sealed", "sealed", "sealed"], said)
        check(len(said) == 5 and any("a request of 500.00 MiB failed" in line for line in said), said)


@case("Kubernetes: the sidecar seals what is killed in the other container, in memory, too, and makes the bundle")
def kubernetes():
    shows(of_kubernetes)


@case("Docker compose: the same")
def compose():
    shows(of_compose)


@case("systemd: the same")
def systemd():
    shows(of_systemd)


@case("a journal in the other container's /dev/shm is not found, and that is said")
def not_beside():
    where = folder()
    fs = subprocess.run(["stat", "-f", "-c", "%T", where], capture_output=True, text=True, check=True).stdout.strip()
    if fs == "tmpfs":
        raise Skip("the suite's folder is a tmpfs")
    traced_elsewhere(where, {"CUTRACE_MEMORY": "1"})
    said = []

    def is_told():  # (a recorder makes such a link just before the file)
        said[:] = subprocess.run([CUTRACE, "watch", "--once", "--seal", where], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        return said
    wait_for(is_told)
    check(len(said) == 1 and "not here" in said[0], said)


@case("the manifest of Kubernetes: mounts have volumes, both containers have the same folder, the watch is a native sidecar")
def manifest():
    pod = load("Kubernetes")["spec"]
    names = {v["name"]: v for v in pod["volumes"]}
    containers = {c["name"]: c for c in pod["initContainers"] + pod["containers"]}
    mounts = {c: {m["name"]: m["mountPath"] for m in v["volumeMounts"]} for c, v in containers.items()}
    equal({m for v in mounts.values() for m in v}, set(names))
    equal(mounts["watch"]["traces"], mounts["vllm"]["traces"])
    equal(names["traces"]["emptyDir"]["medium"], "Memory")
    equal((containers["watch"]["restartPolicy"], "restartPolicy" in containers["install"]), ("Always", False))
    check("shareProcessNamespace" not in pod and pod["securityContext"]["runAsUser"])
    check("runAsUser" not in containers["watch"]["securityContext"])
    size = re.fullmatch(r"(\d+)Gi", names["traces"]["emptyDir"]["sizeLimit"]).group(1)
    total = re.search(r"--keep=(\d+)GiB", " ".join(containers["watch"]["command"])).group(1)
    check(int(total) < int(size), "the budget is below the volume's size")


@case("the file of compose: both services have the same user and folder")
def compose_file():
    services = load("Docker compose")["services"]
    equal(*[s["user"] for s in services.values()])
    equal(*[s["volumes"] for s in services.values()])


def published(part, name):
    """A JSON schema that scripts/fetch-schemas.sh fetched."""
    where = fetched(os.path.join(browser.DEPS, "schemas", part), "scripts/fetch-schemas.sh")
    with open(os.path.join(where, name), encoding="utf-8") as f:
        return json.load(f)


def compiled(schema):
    own = dict.fromkeys(re.findall(r'"format": "([^"]+)"', json.dumps(schema)), ".*")  # (which only the programs themselves know)
    return fastjsonschema.compile(schema, formats=own, use_default=False)


def agrees(document, valid, faults):
    """The document agrees with a compiled schema, and with none of the faults it would."""
    valid(document)
    for path, value in faults:
        try:
            valid(with_fault(document, path, value))
        except fastjsonschema.JsonSchemaValueException:
            continue
        raise AssertionError(f"the schema does not see {value!r} as {path}")


# (a watch that has no restartPolicy would be valid, and no sidecar: the case above)
POD_FAULTS = [
    (("kind",), "Pods"), (("spec", "container"), []), (("spec", "containers"), ...), (("metadata", "name"), 7),
    (("spec", "initContainers", 1, "restartpolicy"), "Always"), (("spec", "initContainers", 1, "name"), ...),
    (("spec", "initContainers", 1, "command"), "cutrace watch"), (("spec", "initContainers", 1, "securityContext", "readonlyRootFilesystem"), True),
    (("spec", "initContainers", 1, "securityContext", "capabilities", "drop"), "ALL"), (("spec", "initContainers", 1, "resources", "limit"), {}),
    (("spec", "containers", 0, "volumeMounts", 0, "path"), "/x"), (("spec", "containers", 0, "volumeMounts", 0, "readOnly"), "true"),
    (("spec", "containers", 0, "volumeMounts", 0, "mountPath"), ...), (("spec", "containers", 0, "env", 0, "name"), ...),
    (("spec", "containers", 0, "env", 0, "values"), "x"), (("spec", "volumes", 1, "emptyDir", "medium"), 1),
    (("spec", "volumes", 1, "emptyDir", "size"), "1Gi"), (("spec", "volumes", 1, "emptydir"), {}), (("spec", "securityContext", "runAsUser"), "1000"),
]


@case("Kubernetes' own schema has every field of the manifest, in 1.29 and in 1.37, and sees what is misspelt or missing")
def pod_schema():
    pod = load("Kubernetes")
    for version in ("1.29.0", "1.37.0"):
        schema = published("kubernetes", version + "/pod-v1.json")
        del schema["$id"]  # (references are to be looked up here)
        schema = json.loads(json.dumps(schema).replace("/api/_definitions.json#", "#"))
        schema["$defs"] = published("kubernetes", version + "/_definitions.json")["$defs"]
        agrees(pod, compiled(schema), POD_FAULTS)


COMPOSE_FAULTS = [
    (("service",), {}), (("services",), []), (("services", "watch", "imag"), "x"), (("services", "watch", "command"), 7),
    (("services", "watch", "restart"), True), (("services", "watch", "read_only"), "yes"), (("services", "watch", "readonly"), True),
    (("services", "watch", "cap_drop"), "ALL"), (("services", "watch", "security_opt"), {}), (("services", "watch", "memory_limit"), "1g"),
    (("services", "watch", "volumes"), "/x:/x"), (("services", "vllm", "environment"), "A=1"), (("services", "vllm", "deploy", "resource"), {}),
    (("services", "vllm", "deploy", "resources", "reservations", "devices", 0, "capability"), ["gpu"]),
    (("services", "vllm", "deploy", "resources", "reservations", "devices", 0, "capabilities"), "gpu"),
    (("services", "vllm", "deploy", "resources", "reservations", "device"), []),
]


@case("the schema of the Compose Specification has every field of the file, and sees what is misspelt or of another type")
def compose_schema():
    schema = published("compose", "schema/compose-spec.json")
    agrees(load("Docker compose"), compiled(schema), COMPOSE_FAULTS)


@case("systemd understands both units")
def units():
    if not shutil.which("systemd-analyze"):
        raise Skip("systemd-analyze is not installed")
    drop_in, unit = fenced(recipe("systemd"), "ini")
    with tempfile.TemporaryDirectory() as where:
        for name, text in (("vllm", drop_in.replace("[Service]\n", "[Service]\nExecStart=/bin/true\n")),
                           ("cutrace-watch", unit.replace("/opt/cutrace/bin/cutrace", CUTRACE).replace("User=vllm", "User=root"))):
            path = os.path.join(where, name + ".service")
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
            check(done.returncode == 0 and name + ".service:" not in done.stdout + done.stderr, done)


@case("options of the page are options, variables are variables")
def words_of_the_page():
    watch = subprocess.run([CUTRACE, "watch", "--help"], capture_output=True, text=True, check=True).stdout
    known = subprocess.run([CUTRACE, "--help"], capture_output=True, text=True, check=True).stdout
    of_report = subprocess.run([os.path.join(BUILD, "cutrace-report"), "help", "bundle"], capture_output=True, text=True, check=True).stdout
    variables = set(re.findall(r"CUTRACE_[A-Z]\w+", re.sub(r"CUTRACE_IMAGE", "", TEXT)))
    check(variables and all(f"  {v}" in known for v in variables), variables)
    without = re.sub(r"^    (kubectl|systemctl) .*$|`systemctl[^`]*`", "", TEXT, flags=re.M)
    options = set(re.findall(r"(--[a-z][a-z-]+)", without)) - {"--model"}  # (vLLM's)
    check(len(options) > 5 and all(o in watch + of_report for o in options), options)


@case("every recipe says whether it was tried, when and how")
def tried():
    for name in RECIPES:
        last = recipe(name).strip().split("\n\n")[-1]
        check(re.match(r"\*(Tried|Checked|Not tried)", last) and re.search(r"20\d\d-\d\d-\d\d", last), last)


main()
