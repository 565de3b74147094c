#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# optional: lintian
"""The wheel, the Debian package and the tarball: made, put into a place of their own as their users do, used, removed.

Each installed form records the demo on the simulated GPU, and its report must say what that of the build folder says.
scripts/package/fetch-tools.sh fetches what checks them: auditwheel, twine, an old C library; what cannot be had is a skip.
"""
import base64
import csv
import glob
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from tap import BUILD, FULL, PLAIN, REPORT, ROOT, SIM, Skip, case, check, equal, fetched, main  # noqa: E402

WORK = tempfile.mkdtemp()
DEPS = os.environ.get("CUTRACE_DEPS") or os.path.join(ROOT, "build", "deps")
TOOLS = os.path.join(DEPS, "package-tools")
DEMO = os.path.join(BUILD, "tests/demo/demo")
PROGRAMS = ("cutrace", "cutrace-report", "libcutrace.so")
GLIBC_FILE = r"libc\.so\.6|lib(m|dl|pthread)\.so\.\d|ld-linux-[a-z0-9_-]*\.so\.\d"
LICENSE_OF = {  # a function that only this library defines, and the name of its licence
    "ZSTD_decompressStream": "zstd", "sqlite3_step": "SQLite", "deflate": "zlib", "dwarf_getsrc_die": "elfutils",
    "__udivti3": "libgcc", "lzma_code": "liblzma", "BZ2_bzDecompress": "bzip2", "cplus_demangle_v3_callback": "libiberty", "_ULx86_64_step": "libunwind",
    "_ULaarch64_step": "libunwind"}


def run(*command, status=0, cwd=WORK, **environment):
    """Runs a command; its output and its standard error, as text."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, env={**PLAIN, **environment}, check=False)
    if status is not None:
        equal(done.returncode, status, f"{' '.join(map(str, command))}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout, done.stderr


def make(release, umask=0o022):
    """`make release` as a user calls it: with the switches of the make that runs this suite, without its job server."""
    flags = re.sub(r"^([a-z]*)s|(^| )-?-?j[0-9]*|--jobserver-[a-z]*=[^ ]*|(^| )BUILD=[^ ]*", r"\1", os.environ.get("MAKEFLAGS", ""))
    environment = {k: v for k, v in PLAIN.items() if k not in ("MAKELEVEL", "MFLAGS", "SOURCE_DATE_EPOCH")}
    before = os.umask(umask)
    done = subprocess.run(["make", "-s", "-C", ROOT, f"BUILD={os.path.relpath(BUILD, ROOT)}", f"PACKAGE_STAGE={release}.stage",
                           f"RELEASE_DIR={release}", "release"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**environment, "MAKEFLAGS": flags}, check=False)
    os.umask(before)
    equal(done.returncode, 0, done.stdout[-3000:])
    return {name: os.path.join(release, name) for name in sorted(os.listdir(release))}


def sum_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def files_below(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}


def tool(name):
    """The folder of what was fetched."""
    return fetched(os.path.join(TOOLS, name), "scripts/package/fetch-tools.sh")


# ---- how each is installed: a folder, and what is where in it
def unpack_tarball():
    where = os.path.join(WORK, "opt")
    with tarfile.open(TARBALL) as archive:
        archive.extractall(where)
    folder = glob.glob(where + "/*")
    equal(len(folder), 1, "folders in the tarball")
    return folder[0]


def unpack_wheel():
    """Without pip: what lies in it."""
    where = os.path.join(WORK, "wheel")
    with zipfile.ZipFile(WHEEL) as archive:
        for entry in archive.infolist():
            os.chmod(archive.extract(entry, where), entry.external_attr >> 16)
    return where


def unpack_deb():
    where = os.path.join(WORK, "deb")
    run("dpkg-deb", "-x", DEB, where)
    return where


PACKAGES = make(os.path.join(WORK, "release"))
TARBALL, WHEEL, DEB = (next(path for name, path in PACKAGES.items() if name.endswith(end)) for end in (".gz", ".whl", ".deb"))
PREFIX, WHEEL_FOLDER, DEB_FOLDER = unpack_tarball(), unpack_wheel(), unpack_deb()
PACKAGE = os.path.join(WHEEL_FOLDER, "cutrace")
INSTALLED = {  # the launcher, the report, the library, the manual's folder, the licences
    "tarball": ("bin/cutrace", "bin/cutrace-report", "lib/libcutrace.so", "share/man", "share/doc/cutrace/licenses"),
    "wheel": ("cutrace/bin/cutrace", "cutrace/bin/cutrace-report", "cutrace/lib/libcutrace.so", "*.data/data/share/man",
              "*.dist-info/licenses/licenses"),
    "deb": ("usr/bin/cutrace", "usr/bin/cutrace-report", "usr/lib/cutrace/libcutrace.so", "usr/share/man", None)}
FOLDER = {"tarball": PREFIX, "wheel": WHEEL_FOLDER, "deb": DEB_FOLDER}


def part(package, index):
    found = glob.glob(os.path.join(FOLDER[package], INSTALLED[package][index]))
    equal(len(found), 1, f"{package}: {INSTALLED[package][index]}")
    return found[0]


def natives():
    """Every native file, with its package."""
    return [(package, part(package, index)) for package in INSTALLED for index in range(3)]


def use(launcher, report, library):
    """Records the demo by a launcher, and reads the trace by a report: as the build folder's programs do."""
    where = tempfile.mkdtemp(dir=WORK)
    trace = os.path.join(where, "trace.zst")
    simulated = {"LD_LIBRARY_PATH": SIM, "SIM_MEM_MB": "24576"}
    error = run(*launcher, "run", "-o", trace, "--", DEMO, status=3, cwd=where, **simulated)[1]
    check("out of memory" in error, error)
    said = run(*report, "summary", trace, COLUMNS="100")[0]
    equal(said, run(REPORT, "summary", trace, COLUMNS="100")[0], "the summary of the build folder's report")
    check("out of memory" in said.lower() and "demo" in said, said)
    preloaded = run(*launcher, "run", "--", "sh", "-c", 'echo "$LD_PRELOAD"')[0].strip()
    check(os.path.samefile(preloaded, library), f"LD_PRELOAD={preloaded}, not {library}")


# ---- cases
@case("three packages of one version, and their sums")
def three_packages():
    version = run(os.path.join(BUILD, "cutrace"), "--version")[0].split()[-1]
    machine = os.uname().machine
    expected = [f"cutrace-{version}-linux-{machine}.tar.gz", f"cutrace-{version}-py3-none-manylinux_2_28_{machine}.whl",
                f"cutrace_{version}_{ {'x86_64': 'amd64', 'aarch64': 'arm64'}[machine]}.deb"]
    equal(sorted(PACKAGES), sorted([*expected, expected[0] + ".sha256", "SHA256SUMS"]))
    with open(PACKAGES["SHA256SUMS"], encoding="ascii") as f:
        sums = dict(reversed(line.split()) for line in f)
    equal(sums, {name: sum_of(PACKAGES[name]) for name in PACKAGES if name != "SHA256SUMS"})
    with open(PACKAGES[expected[0] + ".sha256"], encoding="ascii") as f:
        equal(f.read().split(), [sum_of(TARBALL), expected[0]])


@case("made once more, by a user of another umask, they are the same bytes", long=True)
def same_bytes():
    again = make(os.path.join(WORK, "again"), umask=0o077)
    equal({name: sum_of(path) for name, path in again.items()}, {name: sum_of(path) for name, path in PACKAGES.items()})


@case("programs and library need files of glibc alone, of version 2.28 or older, and no run path")
def old_glibc_alone():
    problems = []
    for package, path in natives():
        dynamic = run("readelf", "-W", "-d", path)[0]
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        versions = re.findall(r"Name: GLIBC_(\S+)", run("readelf", "-W", "-V", path)[0])
        check(needed and versions, f"{path} needs nothing?")
        problems += [f"{package}: {path} needs {name}" for name in needed if not re.fullmatch(GLIBC_FILE, name)]
        problems += [f"{package}: {path} needs GLIBC_{v}" for v in versions
                     if not re.fullmatch(r"[\d.]+", v) or [int(n) for n in v.split(".")] > [2, 28]]
        problems += [f"{package}: {path} has a run path" for _ in re.findall("RPATH|RUNPATH", dynamic)]
    return problems


@case("they are stripped, and hold no path of the machine that built them")
def nothing_of_the_builder():
    problems = []
    for package, path in natives():
        sections = run("readelf", "-W", "-S", path)[0]
        problems += [f"{package}: {path} has {name}" for name in (".symtab", ".debug_info") if f" {name} " in sections]
        with open(path, "rb") as f:
            data = f.read()
        folders = {ROOT, os.path.realpath(ROOT), BUILD, os.path.realpath(DEPS)}
        problems += [f"{package}: {path} names {name}" for name in folders if name.encode() in data]
    for name, data in ((p, open(os.path.join(f, p), "rb").read()) for f in FOLDER.values() for p in files_below(f)
                       if not os.path.islink(os.path.join(f, p))):
        if ROOT.encode() in data:
            problems.append(f"{name} names {ROOT}")
    return problems


@case("programs and library are the same in each package")
def same_everywhere():
    for index, name in enumerate(PROGRAMS):
        equal(len({sum_of(part(package, index)) for package in INSTALLED}), 1, name)


@case("the manual is in each, as it was made")
def manual():
    for package in INSTALLED:
        folder = part(package, 3)
        for page in ("man1/cutrace.1", "man1/cutrace-report.1", "man5/cutrace-trace.5"):
            path = os.path.join(folder, page)
            text = run("gzip", "-dc", path + ".gz")[0] if package == "deb" else run("cat", path)[0]
            with open(os.path.join(BUILD, "manual", os.path.basename(page)), encoding="utf-8") as f:
                equal(text, f.read(), f"{package}: {page}")


@case("the licence of every library that is linked in is in each")
def licenses():
    symbols = "".join(run("nm", path)[0] for path in (os.path.join(BUILD, "package/cutrace-report"),
                                                      os.path.join(BUILD, "libcutrace.so")))
    names = {name for symbol, name in LICENSE_OF.items() if re.search(rf" [tTwW] {symbol}$", symbols, re.M)}
    equal(set(LICENSE_OF.values()) - names, set(), "linked in, but not found")
    problems = []
    for package in ("tarball", "wheel"):
        there = os.listdir(part(package, 4))
        problems += [f"{package}: none of {name}" for name in (names | {"README", "LGPL-3", "GPL-3"}) - set(there)]
    with open(os.path.join(DEB_FOLDER, "usr/share/doc/cutrace/copyright"), encoding="utf-8") as f:
        text = f.read()
    problems += [f"deb: none of {name}" for name in names if f"\n==== {name}\n" not in text]
    said = run(part("tarball", 1), "help", "licenses")[0].lower()
    problems += [f"help licenses says nothing of {name}" for name in names if name.lower() not in said]
    return problems


@case("the report looks source lines up where there is no libdw, as the one that loads it does")
def libdw_inside():
    where = tempfile.mkdtemp(dir=WORK)
    with open(os.path.join(where, "libdw.so.1"), "w", encoding="ascii") as f:
        f.write("no library")
    trace = os.path.join(where, "trace.zst")
    simulated = {"LD_LIBRARY_PATH": SIM, "SIM_MEM_MB": "24576"}
    run(part("tarball", 0), "run", "-o", trace, "--", DEMO, status=3, **simulated)
    hidden = {"LD_LIBRARY_PATH": where}
    check("\nlines: elfutils 0." in run(part("tarball", 1), "--version", **hidden)[0])
    run(part("tarball", 1), "copy", "--symbolize", "-o", where + "/linked.zst", trace, **hidden)
    found = run(part("tarball", 1), "top", "--json", where + "/linked.zst", **hidden)[0]
    if "demo.c" not in found:
        raise AssertionError("no source lines: " + found[:1000])
    if "broken" in run(REPORT, "--version")[0] or "not installed" in run(REPORT, "--version")[0]:
        raise Skip("libdw is not installed, to compare with")
    run(REPORT, "copy", "--symbolize", "-o", where + "/loaded.zst", trace)
    equal(found, run(REPORT, "top", "--json", where + "/loaded.zst")[0].replace("loaded.zst", "linked.zst"))


@case("an old C library runs them")
def old_glibc():
    libraries = tool("old-glibc")
    version = re.search(r"libc-2\.(\d+)\.so", " ".join(os.listdir(libraries)))
    check(version and int(version[1]) < 34, f"{libraries} has no glibc before 2.34: {version}")
    loader = glob.glob(libraries + "/ld-linux-*.so.*")[0]
    old = loader, "--library-path", libraries
    trace = os.path.join(ROOT, "tests/report/golden/traces/python.zst")
    for words in (("summary", trace), ("summary", "--json", trace), ("dump", trace), ("explain", trace)):
        equal(run(*old, part("tarball", 1), *words), run(REPORT, *words), words)
    for name, words in {"sqlite": ("export", "--format=sqlite"), "pprof": ("export", "--format=pprof"), "html": ("html",)}.items():
        for report, path in ([REPORT], WORK + "/new." + name), ([*old, part("tarball", 1)], WORK + "/old." + name):
            run(*report, *words, "-o", path, trace)
        equal(sum_of(WORK + "/old." + name), sum_of(WORK + "/new." + name), name)
    equal(run(*old, part("tarball", 0), "--help"), run(os.path.join(BUILD, "cutrace"), "--help"))
    run(*old, part("tarball", 0), "ctl", os.getpid(), "status", status=3)
    return f"2.{version[1]}"


@case("tarball: it works where it was unpacked, and through links")
def tarball_works():
    use([part("tarball", 0)], [part("tarball", 1)], part("tarball", 2))
    links = tempfile.mkdtemp(dir=WORK)
    for name in PROGRAMS[:2]:
        os.symlink(os.path.join(PREFIX, "bin", name), os.path.join(links, name))
    moved = os.path.join(WORK, "moved")
    os.rename(PREFIX, moved)
    try:
        for name in PROGRAMS[:2]:
            os.unlink(os.path.join(links, name))
            os.symlink(os.path.join(moved, "bin", name), os.path.join(links, name))
        use([os.path.join(links, "cutrace")], [os.path.join(links, "cutrace-report")], os.path.join(moved, "lib/libcutrace.so"))
    finally:
        os.rename(moved, PREFIX)
    with tarfile.open(TARBALL) as archive:
        return [f"{m.name}: owner {m.uid}, mode {m.mode:o}" for m in archive.getmembers() if m.uid or m.gid or
                m.mode & 0o777 not in ((0o755, 0o777) if m.isdir() or m.issym() or "/bin/" in m.name or m.name.endswith(".so")
                                       else (0o644,))]


def environment(*launcher):
    """What a traced program finds: its environment, and the signals that it ignores."""
    plain = {"LC_ALL": "", "LANG": "C"}  # where Python sets a variable
    signals = run(*launcher, "run", "-q", "--", "grep", "SigIgn", "/proc/self/status", **plain)[0]
    names = run(*launcher, "run", "-q", "--", "cat", "/proc/self/environ", **plain)[0].split("\0")
    return [signals, *sorted(re.sub(r"^(LD_PRELOAD|CUTRACE_ANNOUNCE|NVTX_INJECTION64_PATH|_)=.*", r"\1", name) for name in names)]


@case("wheel: pip installs it into a new environment; commands and python -m cutrace become the native program")
def wheel_works():
    venv = os.path.join(WORK, "venv")
    done = subprocess.run([sys.executable, "-m", "venv", venv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=PLAIN, check=False)
    if done.returncode:
        raise Skip("python3 -m venv: " + " ".join(done.stdout.split())[:200])
    before = files_below(venv)
    command = [os.path.join(venv, "bin", name) for name in ("python", "cutrace", "cutrace-report")]
    run(command[0], "-m", "pip", "install", "--quiet", "--no-index", WHEEL)
    run(command[0], "-m", "pip", "check")
    library = run(command[0], "-c", "import cutrace; print(cutrace.LIBRARY)")[0].strip()
    check(library.startswith(os.path.realpath(venv)) or library.startswith(venv), library)
    use([command[1]], [command[2]], library)
    use([command[0], "-m", "cutrace"], [command[2]], library)
    check(os.path.exists(os.path.join(venv, "share/man/man1/cutrace.1")), "no manual where man looks beside bin/")
    for launcher in ([command[1]], [command[0], "-m", "cutrace"]):
        parent = run(*launcher, "run", "-q", "--", "sh", "-c", "cat /proc/$PPID/comm; readlink /proc/$PPID/exe")[0].split()
        equal(parent, ["cutrace", os.path.realpath(os.path.join(os.path.dirname(library), "../bin/cutrace"))])
        equal(set(environment(*launcher)) ^ set(environment(os.path.join(BUILD, "cutrace"))), set(), "what a traced program finds")
        run(*launcher, "run", "-q", "--", "sh", "-c", "exit 7", status=7)
    link = os.path.join(WORK, "linked-cutrace")
    os.symlink(command[1], link)
    check(os.path.samefile(run(link, "run", "-q", "--", "sh", "-c", 'echo "$LD_PRELOAD"')[0].strip(), library))
    run(command[0], "-m", "pip", "uninstall", "--quiet", "--yes", "cutrace")
    return [f"left behind: {name}" for name in sorted(files_below(venv) - before) if not name.endswith(".pyc")]


@case("wheel: its list names every file with its sum")
def wheel_list():
    with zipfile.ZipFile(WHEEL) as archive:
        info = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read(info).decode()))}
        equal(sorted(rows), sorted(archive.namelist()))
        return [f"{name}: {rows[name]}" for name in rows if name != info and rows[name] !=
                ["sha256=" + base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode(),
                 str(archive.getinfo(name).file_size)]]


@case("wheel: auditwheel finds it true to its name, and repairs nothing")
def wheel_audited():
    python = tool("python")
    paths = {"PYTHONPATH": python, "PATH": os.path.join(python, "bin") + ":" + PLAIN["PATH"]}
    said = " ".join(run(sys.executable, "-m", "auditwheel", "show", WHEEL, **paths)[0].split())
    tag = re.search(r"manylinux_2_28_\w+", WHEEL)[0].replace(".whl", "")
    check(f'consistent with the following platform tag: "{tag}"' in said, said)
    repaired = os.path.join(WORK, "repaired")
    run(sys.executable, "-m", "auditwheel", "repair", "--plat", tag, "-w", repaired, WHEEL, **paths)
    equal(os.listdir(repaired), [os.path.basename(WHEEL)])
    with zipfile.ZipFile(WHEEL) as ours, zipfile.ZipFile(os.path.join(repaired, os.path.basename(WHEEL))) as theirs:
        added = {n for n in theirs.namelist() if not n.endswith("/")} - set(ours.namelist())
        changed = [n for n in ours.namelist() if not n.endswith("RECORD") and ours.read(n) != theirs.read(n)]
    return [f"added {n}" for n in added if "sboms" not in n] + [f"changed {n}" for n in changed]


@case("wheel: twine finds its metadata fit for an index")
def wheel_metadata():
    said = run(sys.executable, "-m", "twine", "check", "--strict", WHEEL, PYTHONPATH=tool("python"))[0]
    check("PASSED" in said, said)


@case("deb: unpacked, it works")
def deb_works():
    use([part("deb", 0)], [part("deb", 1)], part("deb", 2))


@case("deb: dpkg installs it, finds every file as listed, and leaves nothing when it is purged")
def deb_installed():
    if os.getuid():
        raise Skip("dpkg installs as root alone")
    root = os.path.join(WORK, "root")
    for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"):
        os.makedirs(os.path.join(root, name))
    for name in ("status", "available"):
        with open(os.path.join(root, "var/lib/dpkg", name), "w", encoding="ascii"):
            pass
    dpkg = "dpkg", "--root=" + root, "--force-depends", "--force-script-chrootless", "--log=" + root + "/var/log/dpkg.log"
    run(*dpkg, "--install", DEB)
    installed = {name for name in files_below(root) if name.startswith("usr/")}
    equal(installed, files_below(DEB_FOLDER))
    equal(run("dpkg", "--root=" + root, "--verify", "cutrace")[0], "")
    use([root + "/usr/bin/cutrace"], [root + "/usr/bin/cutrace-report"], root + "/usr/lib/cutrace/libcutrace.so")
    run(*dpkg, "--purge", "cutrace")
    return [f"left behind: {name}" for name in os.listdir(root) if name != "var"]


@case("deb: it depends on the C library alone, in the version that its symbols need")
def deb_depends():
    equal(run("dpkg-deb", "-f", DEB, "Depends")[0].strip(), "libc6 (>= 2.28)")


@case("deb: lintian has nothing to say")
def deb_lintian():
    if not shutil.which("lintian"):
        raise Skip("lintian is not installed")
    out, error = run("lintian", "--fail-on", "error,warning", "--allow-root", "--no-cfg", DEB, status=None, TMPDIR=WORK)
    problems = [line for line in (out + error).splitlines() if line.strip()]
    if not FULL:
        return problems
    overridden = run("lintian", "--show-overrides", "--allow-root", "--no-cfg", DEB, status=None, TMPDIR=WORK)[0]
    tags = set(re.findall(r"^O: cutrace: (\S+)", overridden, re.M))
    return problems + [f"overridden without need or reason: {tag}" for tag in tags - {"embedded-library"}]


subprocess.run([os.path.join(ROOT, "scripts/package/fetch-tools.sh"), DEPS], check=False)
try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
