// SPDX-License-Identifier: Apache-2.0
// Opens a plugin where the loader hides its calls, and runs it: opens_plugin deepbind|dlmopen FILE
// The plugin is runtime.c, with another name for its main.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_plugin(const char *how, const char *file) {
    if (!strcmp(how, "dlmopen"))
        return dlmopen(LM_ID_NEWLM, file, RTLD_NOW | RTLD_LOCAL);
    return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

int main(int argc, char **argv) {
    static char name[] = "plugin", what[] = "all", *arguments[] = {name, what, NULL};
    if (argc < 3)
        return 2;
    // A look-up that a preloaded library sees: with CUTRACE_BACKEND=cupti it starts here.
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver || !dlsym(driver, "cuMemAlloc_v2"))
        return 77;
    void *plugin = open_plugin(argv[1], argv[2]);
    int (*run)(int, char **) = plugin ? (int (*)(int, char **))dlsym(plugin, "plugin_main") : NULL;
    if (!run) {
        fprintf(stderr, "opens_plugin: %s\n", dlerror());
        return 77;
    }
    return run(2, arguments);
}
