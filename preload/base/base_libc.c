// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/base_libc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/real_dlsym.h"

typedef void *open_in_namespace(Lmid_t, const char *, int);
typedef int create_thread(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

// The program's pthread_create. NULL in the program's own namespace, and before glibc 2.34, whose
// libc.so.6 defines neither function.
static create_thread *find_create(void) {
    ct_dlsym_fn *const look_up = ct_real_dlsym_get_libc();
    open_in_namespace *const open_in = (open_in_namespace *)look_up(RTLD_DEFAULT, "dlmopen");
    if (!open_in)
        return NULL;
    void *const ours = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *const base = open_in(LM_ID_BASE, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return base && base != ours ? (create_thread *)look_up(base, "pthread_create") : NULL;
}

static void *do_nothing(void *unused) {
    return unused;
}

void ct_base_libc_end_single_thread(void) {
    static _Atomic int is_known; // a forked child asks the loader nothing: its lock may be held
    static create_thread *_Atomic create;
    if (!atomic_load(&is_known)) {
        atomic_store(&create, find_create());
        atomic_store(&is_known, 1);
    }
    create_thread *const function = atomic_load(&create);
    if (!function)
        return;
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)function(&thread, &attributes, do_nothing, NULL);
    pthread_attr_destroy(&attributes);
}
