// SPDX-License-Identifier: Apache-2.0
// Looks for libcupti, and for PyTorch's profiler (kineto) in builds that contain CUPTI.
#define _GNU_SOURCE
#include "intercept/cupti_parts.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/read_file.h"
#include "base/real_dlsym.h"
#include "intercept/driver.h"

// ---- the library ----------------------------------------------------------------------------

#define OLDEST_MAJOR 12
#define NEWEST_MAJOR 13

static void *open_path(const char *path, int more) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | more);
}

static void *open_name(int major, int more) {
    char name[32];
    snprintf(name, sizeof name, "libcupti.so.%d", major);
    return open_path(name, more);
}

// The folder of the loaded libcudart of a version, with its slash. 0 if none is loaded.
static int find_cudart_folder(int major, char *folder, size_t bytes) {
    char name[32];
    Dl_info info;
    snprintf(name, sizeof name, "libcudart.so.%d", major);
    void *const h = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    void *const f = h ? ct_real_dlsym_get_libc()(h, "cudaMalloc") : NULL;
    if (!f || !dladdr(f, &info) || !info.dli_fname || !strrchr(info.dli_fname, '/'))
        return 0;
    const size_t n = (size_t)(strrchr(info.dli_fname, '/') + 1 - info.dli_fname);
    if (n >= bytes)
        return 0;
    memcpy(folder, info.dli_fname, n);
    folder[n] = 0;
    return 1;
}

// site-packages/nvidia/cuda_runtime/lib and nvidia/cuda_cupti/lib (CUDA 12's pip packages), both in
// nvidia/cu13/lib (13), lib64 and extras/CUPTI/lib64 (a toolkit).
static void *open_beside_cudart(int major) {
    static const char *const places[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};
    char folder[512], path[600];
    void *h = NULL;
    if (!find_cudart_folder(major, folder, sizeof folder))
        return NULL;
    for (size_t i = 0; !h && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%slibcupti.so.%d", folder, places[i], major);
        h = open_path(path, 0);
    }
    return h;
}

static void *open_in_toolkit(int major) {
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    char path[600];
    void *h = NULL;
    for (size_t i = 0; !h && i < sizeof variables / sizeof *variables; i++) {
        const char *const toolkit = getenv(variables[i]);
        if (!toolkit || !*toolkit)
            continue;
        snprintf(path, sizeof path, "%s/extras/CUPTI/lib64/libcupti.so.%d", toolkit, major);
        h = open_path(path, 0);
    }
    return h;
}

static int preferred_major(void) {
    int version = 0;
    for (int major = NEWEST_MAJOR; major >= OLDEST_MAJOR; major--) {
        char folder[512];
        if (find_cudart_folder(major, folder, sizeof folder))
            return major;
    }
    if (ct_driver()->driver_version && !CT_ASK(ct_driver()->driver_version(&version)) &&
        version / 1000 > 0)
        return version / 1000 < NEWEST_MAJOR ? version / 1000 : NEWEST_MAJOR;
    return NEWEST_MAJOR;
}

static void *open_any(int preferred) {
    void *h = NULL;
    const char *const given = CT_OPTION_TEXT(CUPTI);
    for (int major = NEWEST_MAJOR; !h && major >= OLDEST_MAJOR; major--)
        h = open_name(major, RTLD_NOLOAD);
    if (!h && *given)
        return open_path(given, 0);
    for (int i = 0; !h && i <= NEWEST_MAJOR - OLDEST_MAJOR; i++) {
        // The preferred one first, then the others, older ones before newer ones.
        const int other = OLDEST_MAJOR + i - 1;
        const int major = i == 0 ? preferred : other < preferred ? other : other + 1;
        h = open_beside_cudart(major);
        if (!h)
            h = open_in_toolkit(major);
        if (!h)
            h = open_name(major, 0);
    }
    return h;
}

void *ct_cupti_find_library(char *path, size_t bytes) {
    Dl_info info;
    void *const h = open_any(preferred_major());
    void *const f = h ? ct_real_dlsym_get_libc()(h, "cuptiSubscribe") : NULL;
    snprintf(path, bytes, "%s", *CT_OPTION_TEXT(CUPTI) ? CT_OPTION_TEXT(CUPTI) : "libcupti");
    if (f && dladdr(f, &info) && info.dli_fname)
        snprintf(path, bytes, "%s", info.dli_fname);
    return h;
}

// ---- kineto ---------------------------------------------------------------------------------

struct profilers {
    int is_watched;          // a call of cuptiSubscribe comes to our wrapper
    int has_cuda;            // PyTorch with CUDA
    const char *kineto;      // its libtorch_cpu.so, if a subscription of it is not seen
    const char *of_libcupti; // else any library that needs libcupti
};

static int needs_cupti(const struct dl_phdr_info *object) {
    const ElfW(Dyn) *dynamic = NULL;
    const char *strings = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (const ElfW(Dyn) *d = dynamic; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr;
    for (const ElfW(Dyn) *d = dynamic; d && strings && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && !strncmp(strings + d->d_un.d_val, "libcupti.so", 11))
            return 1;
    return 0;
}

static int look_at(struct dl_phdr_info *object, size_t bytes, void *data) {
    struct profilers *const p = data;
    const char *const name = ct_base_name(object->dlpi_name);
    (void)bytes;
    if (!strcmp(name, "libtorch_cuda.so"))
        p->has_cuda = 1;
    if (!strcmp(name, "libtorch_cpu.so") && (!p->is_watched || !needs_cupti(object)))
        p->kineto = "libtorch_cpu.so";
    else if (!p->is_watched && needs_cupti(object))
        p->of_libcupti = *name ? name : "the program";
    return 0;
}

const char *ct_cupti_find_unwatched(int is_watched) {
    struct profilers p = {.is_watched = is_watched};
    dl_iterate_phdr(look_at, &p);
    return p.has_cuda && p.kineto ? p.kineto : p.of_libcupti;
}
