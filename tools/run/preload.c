// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/run.h"
#include "run/words.h"

const char *ct_preload_own_folder(void) {
    static char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return NULL;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    return self;
}

char *ct_preload_find_library(void) {
    static const char *const folders[] = {"/",
                                          "/../lib/",
                                          "/../lib/cutrace/",
                                          "/../lib64/",
                                          "/../lib/x86_64-linux-gnu/",
                                          "/../lib/aarch64-linux-gnu/"};
    const char *self = ct_preload_own_folder();
    for (size_t i = 0; self && i < sizeof folders / sizeof *folders; i++) {
        char *candidate = NULL;
        if (asprintf(&candidate, "%s%slibcutrace.so", self, folders[i]) < 0)
            return NULL;
        char *found = realpath(candidate, NULL);
        free(candidate);
        if (found && access(found, R_OK) == 0)
            return found;
        free(found);
    }
    return NULL;
}

char *ct_preload_find_program(const char *name, int is_sure) {
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/bin:/usr/bin"; *at; at += *at == ':') {
        struct stat st;
        const int n = (int)strcspn(at, ":");
        char *file = NULL;
        if (asprintf(&file, "%.*s%s%s", n, at, n ? "/" : "./", name) < 0)
            return NULL;
        if ((*file == '/' || !is_sure) && stat(file, &st) == 0 && S_ISREG(st.st_mode) &&
            access(file, X_OK) == 0)
            return file;
        free(file);
        at += n;
    }
    return NULL;
}

int ct_preload_can_hold(const char *library) {
    return !strpbrk(library, " :");
}

// Puts the library first in LD_PRELOAD; the others keep their order.
static int set_preload(const char *library) {
    const char *before = getenv("LD_PRELOAD");
    char *copy = strdup(before ? before : ""), *rest = copy, *one;
    char *value = strdup(library);
    while (copy && value && (one = strsep(&rest, " :"))) {
        char *longer = NULL;
        if (!*one || strcmp(one, library) == 0)
            continue;
        if (asprintf(&longer, "%s:%s", value, one) < 0)
            longer = NULL;
        free(value);
        value = longer;
    }
    const int rc = copy && value ? setenv("LD_PRELOAD", value, 1) : -1;
    free(copy);
    free(value);
    return rc;
}

// A relative pattern is relative to the folder where cutrace was started, even if the program
// changes its folder later.
static char *make_absolute(const char *pattern) {
    char here[PATH_MAX], escaped[2 * PATH_MAX], *to = escaped, *path = NULL;
    if (*pattern == '/' || !getcwd(here, sizeof here))
        return strdup(pattern);
    for (const char *p = here; *p; p++) {
        if (*p == '%')
            *to++ = '%';
        *to++ = *p;
    }
    *to = 0;
    if (asprintf(&path, "%s%s%s", escaped, strcmp(escaped, "/") ? "/" : "", pattern) < 0)
        return NULL;
    return path;
}

static int set_output(const char *asked) {
    const char *set = getenv("CUTRACE_OUTPUT");
    if (!asked && set && *set)
        return 0;
    char *path = make_absolute(asked ? asked : ct_run_variables[CT_VARIABLE_OUTPUT].value);
    const int rc = path ? setenv("CUTRACE_OUTPUT", path, 1) : -1;
    free(path);
    return rc;
}

// Lets each process that records say where, on this program's stderr.
static int set_announcement(void) {
    char file[64];
    struct stat st;
    if (fstat(STDERR_FILENO, &st))
        return 0;
    (void)snprintf(file, sizeof file, "%" PRIu64 ":%" PRIu64, (uint64_t)st.st_dev,
                   (uint64_t)st.st_ino);
    return setenv("CUTRACE_ANNOUNCE", file, 1);
}

// NVTX, and the driver, load the library that a variable names. That of another tool is kept for
// libcutrace.so, which calls it first (preload/intercept/nvtx.c, injection.c).
static int set_injection(const char *library, const char *name, const char *next) {
    const char *before = getenv(name);
    if (before && strcmp(before, library) == 0)
        return 0;
    const int rc = before && *before ? setenv(next, before, 1) : unsetenv(next);
    return rc ? rc : setenv(name, library, 1);
}

int ct_preload_set_environment(const struct ct_preload *p) {
    if (set_preload(p->library) ||
        set_injection(p->library, "NVTX_INJECTION64_PATH", "CUTRACE_NVTX_NEXT") ||
        set_output(p->output) || set_announcement())
        return -1;
    if (p->inject && set_injection(p->library, "CUDA_INJECTION64_PATH", "CUTRACE_INJECTION_NEXT"))
        return -1;
    if (p->trace_list && setenv("CUTRACE_TRACE_LIST", p->trace_list, 1))
        return -1;
    return p->quiet ? setenv("CUTRACE_QUIET", "1", 1) : 0;
}
