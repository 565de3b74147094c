// SPDX-License-Identifier: Apache-2.0
// Demangling by the C++ runtime's own code, from the static libsupc++ (it needs nothing but the C library).
//
// A mangled name of a few hundred bytes can stand for gigabytes: substitutions nest. The callback form is
// used because it allocates nothing, so that jumping out of it when the room is used up leaves nothing behind.
#include "demangle.h"

#include <setjmp.h>
#include <string.h>

// In libsupc++.a (cp-demangle.c), there for the runtime's terminate handler. Weak: where no C++ runtime
// was found at build time, names stay as they are.
extern int __gcclibcxx_demangle_callback(const char *, void (*)(const char *, size_t, void *),
                                         void *) __attribute__((weak));

enum { MAX_SYMBOL = 2048 };

struct room {
    char *at;
    size_t left, used;
    jmp_buf full;
};

static void append(const char *text, size_t length, void *user) {
    struct room *r = user;
    const size_t n = length < r->left ? length : r->left;
    memcpy(r->at + r->used, text, n);
    r->used += n;
    r->left -= n;
    if (!r->left)
        longjmp(r->full, 1);
}

size_t ct_demangle(const char *symbol, size_t length, char *to, size_t size) {
    char text[MAX_SYMBOL];
    struct room r = {.at = to, .left = size - 1};
    if (!__gcclibcxx_demangle_callback || length < 3 || length >= sizeof text || size < 2 ||
        memcmp(symbol, "_Z", 2) != 0 || memchr(symbol, 0, length))
        return 0;
    memcpy(text, symbol, length);
    text[length] = 0;
    if (setjmp(r.full) == 0 && __gcclibcxx_demangle_callback(text, append, &r) != 0)
        return 0;
    to[r.used] = 0;
    return r.used;
}
