// SPDX-License-Identifier: Apache-2.0
// CUDA_INJECTION64_PATH: cuInit loads the library of a tool and calls its InitializeInjection.
// README.md lists what is assumed of the real driver.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "sim.h"

static void inject(void) {
    const char *const path = getenv("CUDA_INJECTION64_PATH"), *const on = getenv("SIM_INJECTION");
    if (on && *on == '0')
        return;
    void *const tool = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*initialize)(void) = NULL;
    if (tool)
        *(void **)&initialize = dlsym(tool, "InitializeInjection");
    if (initialize)
        (void)initialize();
}

// A tool that calls the driver from its InitializeInjection may call cuInit again.
void sim_inject(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool begun;
    pthread_mutex_lock(&lock);
    const bool is_first = !begun;
    begun = true;
    pthread_mutex_unlock(&lock);
    if (is_first)
        inject();
}
