// SPDX-License-Identifier: Apache-2.0
// An allocator that starts itself through dlsym, and complains about calls of malloc from inside
// dlsym's users.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static char early[1 << 16];
static size_t early_used;
static int starting;
static void *(*real_malloc)(size_t), *(*real_calloc)(size_t, size_t);
static void (*real_free)(void *);

static void start(void) {
    if (real_malloc || starting)
        return;
    starting = 1;
    void *(*m)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    real_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    real_malloc = m;
    starting = 0;
}

static void *early_take(size_t n) {
    early_used = (early_used + 15) & ~(size_t)15;
    if (early_used + n > sizeof early)
        return NULL;
    early_used += n;
    return early + early_used - n;
}

void *malloc(size_t n);
void *malloc(size_t n) {
    start();
    return real_malloc ? real_malloc(n) : early_take(n);
}

void *calloc(size_t a, size_t b);
void *calloc(size_t a, size_t b) {
    start();
    return real_calloc ? real_calloc(a, b) : early_take(a * b); // static memory is zero
}

void free(void *p);
void free(void *p) {
    if ((char *)p >= early && (char *)p < early + sizeof early)
        return;
    start();
    if (real_free)
        real_free(p);
}
