// SPDX-License-Identifier: Apache-2.0
// Functions that glibc before 2.34 keeps in libdl and libpthread, looked up at their first call.
//
// If this library named those two files as needed, each program that preloads it would load them.
// They are empty since glibc 2.34, and loading them costs more than the rest of this library's
// start. A process that calls the CUDA driver has loaded them, because libcuda.so.1 needs both.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/real_dlsym.h"

// Finds the first definition in the global scope, which may be an interposer's: a sanitizer must
// see each thread that is created. Else finds one in any object, because the host may have opened
// libcuda with RTLD_LOCAL.
static void *look_up(_Atomic(void *) *cache, const char *name) {
    void *p = atomic_load_explicit(cache, memory_order_acquire);
    if (p)
        return p;
    p = ct_real_dlsym_get_libc()(RTLD_DEFAULT, name);
    if (!p)
        p = ct_real_dlsym_find_function(name);
    atomic_store_explicit(cache, p, memory_order_release);
    return p;
}

// Defines a function that this library calls in place of glibc's and hides from the host. It
// returns `absent` where no object defines the real one.
#define LATE(result, name, parameters, arguments, absent)                           \
    __attribute__((visibility("hidden"))) result name parameters {                  \
        static _Atomic(void *) real;                                                \
        result(*function) parameters = (result(*) parameters)look_up(&real, #name); \
        return function ? function arguments : (absent);                            \
    }

LATE(void *, dlopen, (const char *path, int mode), (path, mode), NULL)
LATE(char *, dlerror, (void), (), NULL)
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
