// SPDX-License-Identifier: Apache-2.0
// cuptiSubscribe of other tools in the process. CUPTI serves one subscriber: kineto, PyTorch's
// profiler, tries once and never again. So ours ends before theirs begins.
#define _GNU_SOURCE
#include "intercept/cupti_hooks.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/real_dlsym.h"
#include "intercept/cupti.h"
#include "intercept/own_image.h"

#define NOT_INITIALIZED 15 // CUPTI_ERROR_NOT_INITIALIZED: there is no libcupti

enum { SUBSCRIBE, SUBSCRIBE_V2, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"cuptiSubscribe", "cuptiSubscribe_v2"};
static _Atomic(void *) looked_up[FUNCTIONS]; // what a program's dlsym returned last

static void *find_in(const char *object, const char *name) {
    void *const h = object ? dlopen(object, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    void *const p = h ? ct_real_dlsym_get_libc()(h, name) : NULL;
    return p && !ct_own_image_has(p) ? p : NULL;
}

// What the caller would have called: of the libcupti that its own object needs, else the next one
// in the global scope, else any.
static void *find_next(const char *name, const char *object) {
    void *p = find_in(object, name);
    if (!p && (p = ct_real_dlsym_get_libc()(RTLD_NEXT, name)) && ct_own_image_has(p))
        p = NULL;
    if (!p)
        p = find_in("libcupti.so.13", name);
    return p ? p : find_in("libcupti.so.12", name);
}

static void *give_way(int function, const void *caller) {
    Dl_info info;
    const char *object = NULL;
    void *p = atomic_load(&looked_up[function]);
    if (dladdr(caller, &info))
        object = info.dli_fname;
    if (!p)
        p = find_next(names[function], object);
    const char *const slash = object ? strrchr(object, '/') : NULL;
    ct_cupti_give_way(slash ? slash + 1 : object && *object ? object : "the program");
    return p;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuptiSubscribe(void **subscriber, void (*call_back)(void), void *userdata) {
    int (*real)(void **, void (*)(void), void *);
    *(void **)&real = give_way(SUBSCRIBE, __builtin_return_address(0));
    return real ? real(subscriber, call_back, userdata) : NOT_INITIALIZED;
}

EXPORT int cuptiSubscribe_v2(void **subscriber, void (*call_back)(void), void *userdata,
                             void *params) {
    int (*real)(void **, void (*)(void), void *, void *);
    *(void **)&real = give_way(SUBSCRIBE_V2, __builtin_return_address(0));
    return real ? real(subscriber, call_back, userdata, params) : NOT_INITIALIZED;
}

void *ct_cupti_hooks_substitute(const char *name, void *answer) {
    static void *const wrappers[FUNCTIONS] = {(void *)cuptiSubscribe, (void *)cuptiSubscribe_v2};
    for (int i = 0; answer && i < FUNCTIONS; i++)
        if (!strcmp(name, names[i]) && !ct_own_image_has(answer)) {
            atomic_store(&looked_up[i], answer);
            return wrappers[i];
        }
    return answer;
}
