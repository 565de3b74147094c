// SPDX-License-Identifier: Apache-2.0
// The modules of the stand-in libcupti: a load of an ELF file (a cubin) calls back with a copy of
// it, before the load returns, and the unload does before it begins.
#include <cupti.h>
#include <elf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim_cupti.h"

#define MODULES 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUmodule module;
    void *cubin;
    size_t bytes;
} loaded[MODULES];

// As the driver finds the end of an image: its header says where the last table lies. 0: no ELF.
static size_t size_of(const void *image) {
    Elf64_Ehdr h;
    if (memcmp(image, ELFMAG, SELFMAG) != 0)
        return 0;
    memcpy(&h, image, sizeof h);
    const size_t sections = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize;
    const size_t segments = h.e_phoff + (size_t)h.e_phnum * h.e_phentsize;
    return sections > segments ? sections : segments;
}

static void module_is_loaded(CUmodule module, const void *image) {
    const size_t bytes = size_of(image);
    void *const copy = bytes ? malloc(bytes) : NULL;
    uint32_t id = 0;
    if (!copy)
        return;
    memcpy(copy, image, bytes);
    pthread_mutex_lock(&lock);
    while (id < MODULES - 1 && loaded[id].module)
        id++;
    free(loaded[id].cubin);
    loaded[id].module = module;
    loaded[id].cubin = copy;
    loaded[id].bytes = bytes;
    pthread_mutex_unlock(&lock);
    sim_call_back_of_module(CUPTI_CBID_RESOURCE_MODULE_LOADED, id + 1, copy, bytes);
}

static void module_will_be_unloaded(CUmodule module) {
    for (uint32_t i = 0; i < MODULES; i++) {
        if (!module || loaded[i].module != module)
            continue;
        sim_call_back_of_module(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, i + 1, loaded[i].cubin,
                                loaded[i].bytes);
        pthread_mutex_lock(&lock);
        loaded[i].module = NULL;
        pthread_mutex_unlock(&lock);
        return;
    }
}

void sim_modules_of_call(const struct sim_point *point, bool is_exit) {
    if (is_exit && point->cbid == CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData && !*point->result) {
        const cuModuleLoadData_params *const p = point->params;
        module_is_loaded(*p->module, p->image);
    }
    if (!is_exit && point->cbid == CUPTI_DRIVER_TRACE_CBID_cuModuleUnload) {
        const cuModuleUnload_params *const p = point->params;
        module_will_be_unloaded(p->hmod);
    }
}
