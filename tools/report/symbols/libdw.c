// SPDX-License-Identifier: Apache-2.0
// Loads libdw with dlopen, or has it linked in (CT_LIBDW_LINKED: the packages' cutrace-report).
#include "symbols/libdw.h"

#if defined CT_HAVE_LIBDW && defined CT_LIBDW_LINKED

const struct ct_libdw *ct_libdw(void) {
    static const struct ct_libdw functions = {
#define X(name) .name = (name),
        CT_LIBDW_FUNCTIONS(X)
#undef X
    };
    static int is_ready; // libelf asks for its version once
    if (!is_ready)
        is_ready = elf_version(EV_CURRENT) == EV_NONE ? -1 : 1;
    return is_ready > 0 ? &functions : NULL;
}

const char *ct_libdw_missing(void) {
    return ct_libdw() ? NULL : "the libdw in this cutrace-report is too old";
}

#elif defined CT_HAVE_LIBDW
#include <dlfcn.h>
#include <string.h>

static struct ct_libdw functions;

static int find_symbol(void *library, const char *name, void *to) {
    void *const found = dlsym(library, name); // in libdw, or in libelf, which it needs
    memcpy(to, &found, sizeof found);
    return found ? 0 : -1;
}

// 1: all functions were found; -1: not.
static int load_library(void) {
    void *const library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -1;
#define X(name)                                       \
    if (find_symbol(library, #name, &functions.name)) \
        return -1;
    CT_LIBDW_FUNCTIONS(X)
#undef X
    return functions.elf_version(EV_CURRENT) == EV_NONE ? -1 : 1;
}

const struct ct_libdw *ct_libdw(void) {
    static int loaded; // as load_library returned, 0: not called yet
    if (!loaded)
        loaded = load_library();
    return loaded > 0 ? &functions : NULL;
}

const char *ct_libdw_missing(void) {
    return ct_libdw() ? NULL : "libdw.so.1 (elfutils) is not installed here";
}

#else

const char *ct_libdw_missing(void) {
    return "this cutrace-report was built without elfutils (libdw-dev)";
}

#endif
