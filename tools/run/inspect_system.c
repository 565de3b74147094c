// SPDX-License-Identifier: Apache-2.0
// What tracing needs besides the program.
#include "run/inspect.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/human.h"
#include "base/journal_file.h"
#include "run/run.h"

void ct_inspect_library(struct ct_findings *f) {
    char *library = ct_preload_find_library();
    if (!library)
        ct_findings_add(f, CT_FINDING_FAIL, "library", "install it there",
                        "libcutrace.so is neither beside cutrace nor in the lib folder beside it");
    else if (!ct_preload_can_hold(library))
        ct_findings_add(f, CT_FINDING_FAIL, "library", "move the library",
                        "%s: LD_PRELOAD cannot hold a path with a blank or a colon", library);
    else
        ct_findings_add(f, CT_FINDING_OK, "library", NULL, "the library is %s", library);
    free(library);
}

// What the driver loads in cuInit.
static void inspect_injection(struct ct_findings *f) {
    const char *tool = getenv("CUDA_INJECTION64_PATH");
    if (!tool || !*tool)
        return;
    if (access(tool, R_OK))
        ct_findings_add(f, CT_FINDING_WARN, "injection", "unset it, or name a library",
                        "CUDA_INJECTION64_PATH has %s: %s", tool, strerror(errno));
    else if (strstr(tool, "libcutrace.so"))
        ct_findings_add(f, CT_FINDING_OK, "injection", NULL,
                        "the driver loads the library, too: CUDA_INJECTION64_PATH");
    else
        ct_findings_add(f, CT_FINDING_WARN, "injection",
                        "with --inject it is called first; if it uses CUPTI, the library cannot",
                        "the driver loads another tool, too: CUDA_INJECTION64_PATH has %s", tool);
}

void ct_inspect_environment(struct ct_findings *f) {
    const char *off = getenv("CUTRACE"), *preload = getenv("LD_PRELOAD");
    if (off && (strcmp(off, "0") == 0 || strcmp(off, "off") == 0))
        ct_findings_add(f, CT_FINDING_FAIL, "switch", "unset CUTRACE",
                        "CUTRACE=%s switches the tracer off", off);
    char *copy = strdup(preload ? preload : ""), *rest = copy, *one;
    while (copy && (one = strsep(&rest, " :"))) {
        if (!*one || strstr(one, "libcutrace.so"))
            continue;
        if (strchr(one, '/') && access(one, R_OK))
            ct_findings_add(f, CT_FINDING_WARN, "preload", "take it out of LD_PRELOAD",
                            "LD_PRELOAD has %s: %s", one, strerror(errno));
        else
            ct_findings_add(f, CT_FINDING_WARN, "preload", NULL,
                            "LD_PRELOAD has %s already; the library comes before it", one);
    }
    free(copy);
    inspect_injection(f);
}

// ---- the folder of the traces -------------------------------------------------------------------

// The nearest folder that exists above a pattern's first variable part. Allocated.
static char *find_folder(const char *pattern) {
    char *path = strdup(pattern), *slash;
    if (!path)
        return NULL;
    path[strcspn(path, "%")] = 0;
    while ((slash = strrchr(path, '/'))) {
        slash[slash == path] = 0;
        if (access(path, F_OK) == 0 || slash == path)
            return path;
    }
    strcpy(path, "."); // (the pattern has at least a letter)
    return path;
}

void ct_inspect_output(struct ct_findings *f, const char *pattern) {
    const char *set = getenv("CUTRACE_OUTPUT");
    struct statvfs fs;
    if (!pattern)
        pattern = set && *set ? set : "cutrace";
    char *folder = *pattern ? find_folder(pattern) : NULL;
    if (!folder)
        return;
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS)) {
        const int error = errno;
        const int elsewhere = access("/tmp", W_OK | X_OK) == 0;
        ct_findings_add(f, elsewhere ? CT_FINDING_WARN : CT_FINDING_FAIL, "output",
                        "name another one by -o or CUTRACE_OUTPUT", "traces cannot go to %s: %s%s",
                        folder, strerror(error), elsewhere ? "; they go to $TMPDIR or /tmp" : "");
    } else if (statvfs(folder, &fs) == 0) {
        const uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
        ct_findings_add(
            f, room < UINT64_C(16) << 20 ? CT_FINDING_WARN : CT_FINDING_OK, "output",
            room < UINT64_C(16) << 20 ? "make room, or name another folder by -o" : NULL,
            "traces go to %s, with room for %s", folder, ct_human_bytes(room, CT_UNITS_IEC).text);
    }
    free(folder);
}

// ---- the driver ---------------------------------------------------------------------------------

struct driver {
    int found, version; // as cuDriverGetVersion has it; 0: not known
    char path[PATH_MAX];
    char why[512];
};

static void load_driver(struct driver *d) {
    struct link_map *map;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        (void)snprintf(d->why, sizeof d->why, "%s", dlerror());
        return;
    }
    d->found = 1;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && !realpath(map->l_name, d->path))
        (void)snprintf(d->path, sizeof d->path, "%s", map->l_name);
    // Of CUDA's functions the one that needs no cuInit.
    int (*get_version)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
    if (!get_version || get_version(&d->version))
        d->version = 0;
}

// In the child. What the driver's library prints must not be taken for the answer.
static void tell_driver(void *cookie) {
    // (What the driver starts must not keep it open.)
    const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    load_driver(cookie);
    const ssize_t n = write(out, cookie, sizeof(struct driver));
    _exit(n != sizeof(struct driver));
}

// In a process of its own: it may crash, and leaves nothing behind.
static void probe_driver(struct driver *d) {
    struct ct_child c = {.become = tell_driver, .cookie = d, .signals = -1, .most = sizeof *d};
    memset(d, 0, sizeof *d);
    (void)snprintf(d->why, sizeof d->why, "it could not be tried");
    if (ct_child_run(&c) == CT_CHILD_ENDED && c.length == sizeof *d)
        memcpy(d, c.text, sizeof *d);
    free(c.text);
}

void ct_inspect_driver(struct ct_findings *f) {
    struct driver d;
    probe_driver(&d);
    if (!d.found) {
        ct_findings_add(f, CT_FINDING_FAIL, "driver",
                        "install NVIDIA's driver; in a container: --gpus all, and the driver "
                        "capability compute",
                        "there is no CUDA driver here: %s", d.why);
        return;
    }
    const char *release = strstr(d.path, "libcuda.so.");
    release = release && strchr(release + 11, '.') ? release + 11 : "";
    if (d.version > 0)
        ct_findings_add(f, CT_FINDING_OK, "driver", NULL, "the driver is %s%s%s, of CUDA %d.%d",
                        d.path, *release ? ", release " : "", release, d.version / 1000,
                        d.version % 1000 / 10);
    else
        ct_findings_add(f, CT_FINDING_WARN, "driver", NULL,
                        "the driver is %s; its CUDA version is not known", d.path);
    if (strstr(d.path, "/stubs/"))
        ct_findings_add(f, CT_FINDING_FAIL, "driver", "take that folder out of LD_LIBRARY_PATH",
                        "%s is the toolkit's stub, not a driver", d.path);
}

// ---- a process ----------------------------------------------------------------------------------

struct mapped {
    int is_readable, has_library, has_driver;
    char journal[PATH_MAX];
};

static void read_maps(struct mapped *m, unsigned long pid) {
    char path[64], *line = NULL;
    size_t size = 0;
    memset(m, 0, sizeof *m);
    (void)snprintf(path, sizeof path, "/proc/%lu/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps && getline(&line, &size, maps) > 0) {
        const char *file = strchr(line, '/');
        line[strcspn(line, "\n")] = 0;
        m->is_readable = 1;
        m->has_library |= file && strstr(file, "/libcutrace.so");
        m->has_driver |= file && strstr(file, "/libcuda.so.");
        if (file && ct_journal_stem(file))
            (void)snprintf(m->journal, sizeof m->journal, "%s", file);
    }
    free(line);
    if (maps)
        (void)fclose(maps);
}

// The value of a variable in the environment that a process was started with. Returns 0 if it has
// none.
static int find_variable(unsigned long pid, const char *name, char *to, size_t size) {
    char path[64], *entry = NULL;
    size_t room = 0, n = strlen(name);
    int found = 0;
    (void)snprintf(path, sizeof path, "/proc/%lu/environ", pid);
    FILE *environment = fopen(path, "re");
    while (environment && !found && getdelim(&entry, &room, 0, environment) > 0)
        if (strncmp(entry, name, n) == 0 && entry[n] == '=') {
            (void)snprintf(to, size, "%s", entry + n + 1);
            found = 1;
        }
    free(entry);
    if (environment)
        (void)fclose(environment);
    return found;
}

static void inspect_without_library(struct ct_findings *f, unsigned long pid) {
    char preload[1024] = "";
    if (find_variable(pid, "LD_PRELOAD", preload, sizeof preload) && strstr(preload, "libcutrace"))
        ct_findings_add(f, CT_FINDING_FAIL, "loaded",
                        "what stands above and below says why; else see what the program prints "
                        "when it starts",
                        "process %lu was started with LD_PRELOAD=%s and has not loaded the library",
                        pid, preload);
    else
        ct_findings_add(f, CT_FINDING_FAIL, "loaded",
                        "start it by cutrace run; a process that runs cannot be traced any more",
                        "process %lu was started without the library: LD_PRELOAD=%s", pid, preload);
}

void ct_inspect_process(struct ct_findings *f, unsigned long pid) {
    struct mapped m;
    char exe[64], name[PATH_MAX], off[32];
    read_maps(&m, pid);
    if (!m.is_readable) {
        ct_findings_add(f, CT_FINDING_FAIL, "process", "check the number; be its user, or root",
                        "process %lu does not run, or its maps cannot be read", pid);
        return;
    }
    (void)snprintf(exe, sizeof exe, "/proc/%lu/exe", pid);
    const ssize_t n = readlink(exe, name, sizeof name - 1);
    name[n > 0 ? n : 0] = 0;
    ct_inspect_program(f, exe, *name ? name : exe);
    if (m.has_library)
        ct_findings_add(f, CT_FINDING_OK, "loaded", NULL, "process %lu has loaded the library",
                        pid);
    else
        inspect_without_library(f, pid);
    if (find_variable(pid, "CUTRACE", off, sizeof off) && strcmp(off, "0") == 0)
        ct_findings_add(f, CT_FINDING_FAIL, "switch", "start it without CUTRACE=0",
                        "CUTRACE=0 switches the tracer off in process %lu", pid);
    if (*m.journal)
        ct_findings_add(f, CT_FINDING_OK, "recording", NULL, "process %lu records: %s", pid,
                        m.journal);
    else if (!m.has_driver)
        ct_findings_add(f, CT_FINDING_WARN, "recording", NULL,
                        "process %lu has not loaded the CUDA driver: there is no trace before its "
                        "first CUDA call",
                        pid);
    else if (m.has_library)
        ct_findings_add(f, CT_FINDING_WARN, "recording", NULL,
                        "process %lu has the driver and no journal: no CUDA call was recorded yet, "
                        "or no file could be created",
                        pid);
}
