// SPDX-License-Identifier: Apache-2.0
// Finds out how this library was loaded.
#define _GNU_SOURCE
#include "intercept/load_way.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/real_dlsym.h"
#include "intercept/own_image.h"
#include "write/info_table.h"

static atomic_int was_called;
// Of the copy in the program's global scope. Until InitializeInjection says otherwise it is ours.
enum { OURS, NONE, ANOTHER };
static atomic_int preloaded;

static int is_own_file(const char *path) {
    struct stat given, own;
    Dl_info info;
    return dladdr(__extension__(void *) ct_load_way_is_injected, &info) && info.dli_fname &&
           !stat(path, &given) && !stat(info.dli_fname, &own) && given.st_ino == own.st_ino &&
           given.st_dev == own.st_dev;
}

int ct_load_way_is_injected(void) {
    enum { UNKNOWN, NO, YES };
    static atomic_int known;
    if (atomic_load(&known) == UNKNOWN) {
        const char *const path = getenv("CUDA_INJECTION64_PATH");
        atomic_store(&known, path && *path && is_own_file(path) ? YES : NO);
    }
    return atomic_load(&known) == YES;
}

int ct_load_way_awaits_injection(void) {
    return !atomic_load(&was_called) && ct_load_way_is_injected();
}

// A handle of the program finds what is in the global scope of the program's own name space. (The
// driver opens its tool with RTLD_LOCAL, and in another name space if it lies there itself.)
void ct_load_way_note_injection(void) {
    void *const program = dlopen(NULL, RTLD_LAZY);
    const void *const found =
        program ? ct_real_dlsym_get_libc()(program, "cutrace_annotations_1") : NULL;
    atomic_store(&preloaded, !found ? NONE : ct_own_image_has(found) ? OURS : ANOTHER);
    atomic_store(&was_called, 1);
}

int ct_load_way_has_hooks(void) {
    return atomic_load(&preloaded) == OURS;
}

void *ct_load_way_find_next(const char *variable, const char *entry_point) {
    const char *path = getenv(variable); // with CUTRACE=0, too, where no option is read
    void *handle = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
    return handle ? ct_real_dlsym_get_libc()(handle, entry_point) : NULL;
}

void ct_load_way_publish_info(void) {
    static const char *const ways[] = {
        [OURS] = "LD_PRELOAD, CUDA_INJECTION64_PATH",
        [NONE] = "CUDA_INJECTION64_PATH",
        [ANOTHER] = "CUDA_INJECTION64_PATH, in another name space of the loader",
    };
    if (atomic_load(&was_called))
        ct_info_set("load.ways", "%s", ways[atomic_load(&preloaded)]);
}
