// SPDX-License-Identifier: Apache-2.0
// Demangling by GNU's libiberty, which c++filt, gdb and addr2line use, too (linked statically; it
// needs nothing but the C library).
//
// A mangled name of a few hundred bytes can stand for gigabytes: substitutions nest. The callback
// forms are used because they stop where we say: what is beyond the room ends with a jump out of
// them.
#include "symbols/demangle.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<libiberty/demangle.h>)
#include <libiberty/demangle.h>
#include <setjmp.h>

#include <demangler.h> // generated: what scripts/probe-demangler.sh found of this machine's library

// Weak: where the library was not found at build time, names stay as they are.
#pragma weak cplus_demangle_v3_callback
#pragma weak cplus_demangle_v3_components
#pragma weak cplus_demangle_print_callback
#pragma weak rust_demangle_callback

// Longest symbol that is tried (the recorder's own bound), and parts of a name that are looked at.
enum { MAX_SYMBOL = 8192, MAX_PARTS = 20000 };

struct room {
    char *at;
    size_t size, used;
    jmp_buf full;
};

static void append(const char *text, size_t length, void *user) {
    struct room *r = user;
    const size_t left = r->size - r->used, n = length < left ? length : left;
    if (n)
        memcpy(r->at + r->used, text, n);
    r->used += n;
    if (n == left)
        longjmp(r->full, 1);
}

// ---- C++ --------------------------------------------------------------------------------------------

// A name without what makes it long: template arguments, parameters, qualifiers, tags. Parts may be
// shared, so that a short symbol has very many places; `parts` bounds them.
static struct demangle_component *bare(struct demangle_component *c, int *parts) {
    static struct demangle_component nothing = {.type = DEMANGLE_COMPONENT_ARGLIST};
    while (c && (*parts)-- > 0) {
        switch (c->type) {
        case DEMANGLE_COMPONENT_TYPED_NAME:
        case DEMANGLE_COMPONENT_TEMPLATE:
        case DEMANGLE_COMPONENT_TAGGED_NAME:
        case DEMANGLE_COMPONENT_CLONE:
        case DEMANGLE_COMPONENT_RESTRICT_THIS:
        case DEMANGLE_COMPONENT_VOLATILE_THIS:
        case DEMANGLE_COMPONENT_CONST_THIS:
        case DEMANGLE_COMPONENT_REFERENCE_THIS:
        case DEMANGLE_COMPONENT_RVALUE_REFERENCE_THIS:
            c = c->u.s_binary.left;
            continue;
        case DEMANGLE_COMPONENT_QUAL_NAME:
        case DEMANGLE_COMPONENT_LOCAL_NAME:
            c->u.s_binary.left = bare(c->u.s_binary.left, parts);
            c->u.s_binary.right = bare(c->u.s_binary.right, parts);
            return c;
        case DEMANGLE_COMPONENT_VTABLE:
        case DEMANGLE_COMPONENT_TYPEINFO:
        case DEMANGLE_COMPONENT_TYPEINFO_NAME:
        case DEMANGLE_COMPONENT_THUNK:
        case DEMANGLE_COMPONENT_VIRTUAL_THUNK:
        case DEMANGLE_COMPONENT_COVARIANT_THUNK:
        case DEMANGLE_COMPONENT_GUARD:
        case DEMANGLE_COMPONENT_TLS_INIT:
        case DEMANGLE_COMPONENT_TLS_WRAPPER:
        case DEMANGLE_COMPONENT_REFTEMP:
            c->u.s_binary.left = bare(c->u.s_binary.left, parts);
            return c;
        case DEMANGLE_COMPONENT_LAMBDA:
            c->u.s_unary_num.sub = &nothing;
            return c;
        default:
            return c;
        }
    }
    return c;
}

// (without parameters they are not even read)
static int cplus_simple(const char *symbol, struct room *r) {
    void *memory = NULL;
    struct demangle_component *name = cplus_demangle_v3_components(symbol, DMGL_NO_OPTS, &memory);
    int parts = MAX_PARTS, done = 0;
    r->used = 0;
    if (name)
        name = bare(name, &parts);
    if (name && parts > 0)
        done = setjmp(r->full) != 0 || cplus_demangle_print_callback(DMGL_NO_OPTS, name, append, r);
    free(memory);
    return done && r->used;
}

static int cplus_full(const char *symbol, struct room *r) {
    r->used = 0;
    return (setjmp(r->full) != 0 ||
            cplus_demangle_v3_callback(symbol, DMGL_PARAMS | DMGL_TYPES, append, r)) &&
           r->used;
}

// ---- Rust -------------------------------------------------------------------------------------------

// Behind the bracket that closes the one at p, or the end.
static const char *closing(const char *p) {
    for (int depth = 0; *p; p++) {
        depth += *p == '<';
        if (*p == '>' && p[-1] != '-' && --depth == 0)
            return p + 1;
    }
    return p;
}

static int ends_name(const char *from, const char *end) {
    const char c = end > from ? end[-1] : 0;
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '}';
}

// Leaves generic arguments out, in place: "<Vec<T> as Extend<T>>::extend::<I>" is "<Vec as
// Extend>::extend".
static size_t bare_rust(char *name) {
    char *to = name;
    for (const char *p = name; *p;) {
        const int turbofish = to - name > 2 && to[-1] == ':' && to[-2] == ':';
        if (*p == '<' && (turbofish || ends_name(name, to))) {
            p = closing(p);
            to -= turbofish ? 2 : 0;
        } else {
            *to++ = *p++;
        }
    }
    *to = 0;
    return (size_t)(to - name);
}

// (older libraries follow names of the newer form, "_R...", without end if these refer to
// themselves)
static int rust(const char *symbol, struct room *r) {
    if (symbol[1] == 'R' && !CT_RUST_DEMANGLER_STOPS)
        return 0;
    r->used = 0;
    return (setjmp(r->full) != 0 || rust_demangle_callback(symbol, 0, append, r)) && r->used;
}

size_t ct_demangle(const char *symbol, size_t length, enum ct_demangling how, char *to,
                   size_t size) {
    char text[MAX_SYMBOL];
    struct room r = {.at = to, .size = size - 1};
    if (!cplus_demangle_v3_components || how == CT_DEMANGLE_NO || length < 3 ||
        length >= sizeof text || size < 2 || symbol[0] != '_' ||
        (symbol[1] != 'Z' && symbol[1] != 'R') || memchr(symbol, 0, length))
        return 0;
    memcpy(text, symbol, length);
    text[length] = 0;
    const int simple = how == CT_DEMANGLE_SIMPLE;
    if (rust(text, &r)) { // first: its older form is valid C++, too
        to[r.used] = 0;
        return simple ? bare_rust(to) : r.used;
    }
    // (an operator that converts to a template's argument cannot be printed without it)
    if (symbol[1] != 'Z' || !((simple && cplus_simple(text, &r)) || cplus_full(text, &r)))
        return 0;
    to[r.used] = 0;
    return r.used;
}

#else

size_t ct_demangle(const char *symbol, size_t length, enum ct_demangling how, char *to,
                   size_t size) {
    (void)symbol, (void)length, (void)how, (void)to, (void)size;
    return 0;
}

#endif
