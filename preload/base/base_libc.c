// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/base_libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "base/real_dlsym.h"

typedef void *open_in_namespace(Lmid_t, const char *, int);
typedef int create_thread(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef void handler(void);
typedef int register_at_fork(handler *, handler *, handler *, void *object);

// ---- which one it is --------------------------------------------------------------------------

// The first object of the program's own namespace is the program.
static int is_program(struct dl_phdr_info *object, size_t bytes, void *unused) {
    (void)bytes;
    (void)unused;
    return (uintptr_t)object->dlpi_phdr == getauxval(AT_PHDR) ? 1 : -1;
}

// A handle of the program's C library. NULL where it is the one that this library uses, and before
// glibc 2.34, whose libc.so.6 does not define dlmopen.
static void *find_another(void) {
    if (dl_iterate_phdr(is_program, NULL) == 1)
        return NULL;
    open_in_namespace *const open_in =
        (open_in_namespace *)ct_real_dlsym_get_libc()(RTLD_DEFAULT, "dlmopen");
    if (!open_in)
        return NULL;
    void *const ours = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *const base = open_in(LM_ID_BASE, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return base != ours ? base : NULL;
}

// Kept, because a forked child asks the loader nothing: its lock may be held.
static void *get_another(void) {
    static _Atomic int is_known;
    static void *_Atomic another;
    if (!atomic_load_explicit(&is_known, memory_order_acquire)) {
        atomic_store(&another, find_another());
        atomic_store(&is_known, 1);
    }
    return atomic_load_explicit(&another, memory_order_relaxed);
}

int ct_base_libc_is_ours(void) {
    return !get_another();
}

// ---- forks ------------------------------------------------------------------------------------

void ct_base_libc_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    static char object; // its address stands for us, who are never unloaded
    void *const another = get_another();
    register_at_fork *const function =
        another ? (register_at_fork *)ct_real_dlsym_get_libc()(another, "__register_atfork") : NULL;
    if (function)
        (void)function(before, in_parent, in_child, &object);
}

// ---- threads ----------------------------------------------------------------------------------

static create_thread *find_create(void) {
    void *const another = get_another();
    return another ? (create_thread *)ct_real_dlsym_get_libc()(another, "pthread_create") : NULL;
}

static void *do_nothing(void *unused) {
    return unused;
}

void ct_base_libc_end_single_thread(void) {
    static _Atomic int is_known; // as above
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

static int create_detached(void *(*run)(void *), size_t stack_bytes) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_bytes)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    const int rc = pthread_create(&thread, &attributes, run, NULL);
    pthread_attr_destroy(&attributes);
    return rc;
}

int ct_base_libc_create_thread(void *(*run)(void *), size_t stack_bytes) {
    const int rc = create_detached(run, stack_bytes);
    return rc == EINVAL ? create_detached(run, 0) : rc;
}
