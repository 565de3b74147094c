// SPDX-License-Identifier: Apache-2.0
// Functions that glibc before 2.34 keeps in libdl and libpthread, looked up when they are called.
//
// Had this library to name those two files, every program that it is preloaded into would load them: they are empty
// since 2.34, and cost more than all the rest of its start. A process that calls the driver has them: libcuda.so.1
// needs both.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/real_dlsym.h"

// The first definition in the global scope, which may be an interposer's (a sanitizer must know of every thread);
// else one in any object: libcuda may have been opened with RTLD_LOCAL.
static void *look_up(_Atomic(void *) *at, const char *name) {
    void *p = atomic_load_explicit(at, memory_order_acquire);
    if (p)
        return p;
    p = ct_real_dlsym_get_libc()(RTLD_DEFAULT, name);
    if (!p)
        p = ct_real_dlsym_find_function(name);
    atomic_store_explicit(at, p, memory_order_release);
    return p;
}

// Each is the whole library's own, hidden from the host; `absent` is its answer where there is none.
#define LATE(result, name, parameters, arguments, absent)                           \
    __attribute__((visibility("hidden"))) result name parameters {                  \
        static _Atomic(void *) real;                                                \
        result(*function) parameters = (result(*) parameters)look_up(&real, #name); \
        return function ? function arguments : (absent);                            \
    }

LATE(void *, dlopen, (const char *path, int mode), (path, mode), NULL)
LATE(int, dladdr, (const void *address, Dl_info *info), (address, info), 0)
LATE(int, dladdr1, (const void *address, Dl_info *info, void **extra, int flags),
     (address, info, extra, flags), 0)
LATE(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
     (thread, attributes, start, argument), EAGAIN)
LATE(int, pthread_attr_setstacksize, (pthread_attr_t * attributes, size_t bytes),
     (attributes, bytes), EINVAL)
LATE(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old),
     sigprocmask(how, set, old) ? errno : 0)
