// SPDX-License-Identifier: Apache-2.0
// Opens plugins: host_of_plugins local|deepbind|newlm PLUGIN... (the way may change between
// plugins). With WAYS_LOOK_UP the program itself looks a driver function up first. With WAYS_THREADS
// it says whether its C library knows that it has threads.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char __libc_single_threaded __attribute__((weak)); // since glibc 2.32

static int is_way(const char *word) {
    return !strcmp(word, "local") || !strcmp(word, "deepbind") || !strcmp(word, "newlm");
}

static void *open_plugin(const char *how, const char *path) {
    if (!strcmp(how, "newlm"))
        return dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | (strcmp(how, "deepbind") ? 0 : RTLD_DEEPBIND));
}

int main(int argc, char **argv) {
    int bad = argc < 3;
    if (getenv("WAYS_LOOK_UP"))
        bad |= !dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    const char *how = argv[1];
    for (int i = 2; i < argc; i++) {
        if (is_way(argv[i])) {
            how = argv[i];
            continue;
        }
        void *h = open_plugin(how, argv[i]);
        int (*plugin)(size_t) = h ? (int (*)(size_t))dlsym(h, "plugin_run") : NULL;
        const int r = plugin ? plugin((size_t)i << 20) : -1;
        printf("plugin %d: %d\n", i, r);
        if (!h)
            fprintf(stderr, "%s\n", dlerror());
        bad |= r;
    }
    if (getenv("WAYS_THREADS"))
        printf("%s\n", !&__libc_single_threaded || !__libc_single_threaded
                           ? "knows its threads"
                           : "believes to have one thread");
    return bad;
}
