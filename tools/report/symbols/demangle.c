// SPDX-License-Identifier: Apache-2.0
// Demangles with GNU's libiberty, as c++filt, gdb and addr2line do (linked statically; it needs
// only the C library).
//
// A mangled name of a few hundred bytes can expand to gigabytes, because substitutions nest. Only
// the forms with a callback can be stopped: the callback jumps out of them (longjmp) when the
// buffer is full.
#include "symbols/demangle.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<libiberty/demangle.h>)
#include <libiberty/demangle.h>
#include <setjmp.h>

#include <demangler.h> // generated: what scripts/probe-demangler.sh found of this machine's library

// Weak: without the library at build time, names stay mangled.
#pragma weak cplus_demangle_v3_callback
#pragma weak cplus_demangle_v3_components
#pragma weak cplus_demangle_print_callback
#pragma weak rust_demangle_callback

// Bytes of the longest symbol (the recorder stores no longer one), and parts of a name that are
// visited.
enum { MAX_SYMBOL = 8192, MAX_PARTS = 20000 };

struct output {
    char *at;
    size_t size, used;
    jmp_buf full;
};

static void append(const char *text, size_t length, void *user) {
    struct output *o = user;
    const size_t left = o->size - o->used, n = length < left ? length : left;
    if (n)
        memcpy(o->at + o->used, text, n);
    o->used += n;
    if (n == left)
        longjmp(o->full, 1);
}

// ---- C++ ----------------------------------------------------------------------------------------

// Removes template arguments, parameters, qualifiers and tags from a name. `parts` bounds the
// visits: parts may be shared, so that a short symbol can have very many.
static struct demangle_component *strip_cplus(struct demangle_component *c, int *parts) {
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
            c->u.s_binary.left = strip_cplus(c->u.s_binary.left, parts);
            c->u.s_binary.right = strip_cplus(c->u.s_binary.right, parts);
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
            c->u.s_binary.left = strip_cplus(c->u.s_binary.left, parts);
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

// Without DMGL_PARAMS, parameters are not even parsed.
static int demangle_cplus_simple(const char *symbol, struct output *o) {
    void *memory = NULL;
    struct demangle_component *name = cplus_demangle_v3_components(symbol, DMGL_NO_OPTS, &memory);
    int parts = MAX_PARTS, done = 0;
    o->used = 0;
    if (name)
        name = strip_cplus(name, &parts);
    if (name && parts > 0)
        done = setjmp(o->full) != 0 || cplus_demangle_print_callback(DMGL_NO_OPTS, name, append, o);
    free(memory);
    return done && o->used;
}

static int demangle_cplus_full(const char *symbol, struct output *o) {
    o->used = 0;
    return (setjmp(o->full) != 0 ||
            cplus_demangle_v3_callback(symbol, DMGL_PARAMS | DMGL_TYPES, append, o)) &&
           o->used;
}

// ---- Rust ---------------------------------------------------------------------------------------

// Returns the position after the bracket that closes the one at p, or the end.
static const char *skip_brackets(const char *p) {
    for (int depth = 0; *p; p++) {
        depth += *p == '<';
        if (*p == '>' && p[-1] != '-' && --depth == 0)
            return p + 1;
    }
    return p;
}

static int is_name_end(const char *from, const char *end) {
    const char c = end > from ? end[-1] : 0;
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '}';
}

// Removes generic arguments in place: "<Vec<T> as Extend<T>>::extend::<I>" is "<Vec as
// Extend>::extend".
static size_t strip_rust(char *name) {
    char *to = name;
    for (const char *p = name; *p;) {
        const int turbofish = to - name > 2 && to[-1] == ':' && to[-2] == ':';
        if (*p == '<' && (turbofish || is_name_end(name, to))) {
            p = skip_brackets(p);
            to -= turbofish ? 2 : 0;
        } else {
            *to++ = *p++;
        }
    }
    *to = 0;
    return (size_t)(to - name);
}

// Older libraries loop for ever on a name of the newer form ("_R...") that refers to itself.
static int demangle_rust(const char *symbol, struct output *o) {
    if (symbol[1] == 'R' && !CT_RUST_DEMANGLER_STOPS)
        return 0;
    o->used = 0;
    return (setjmp(o->full) != 0 || rust_demangle_callback(symbol, 0, append, o)) && o->used;
}

size_t ct_demangle(const char *symbol, size_t length, enum ct_demangling how, char *to,
                   size_t size) {
    char text[MAX_SYMBOL];
    struct output o = {.at = to, .size = size - 1};
    if (!cplus_demangle_v3_components || how == CT_DEMANGLE_NO || length < 3 ||
        length >= sizeof text || size < 2 || symbol[0] != '_' ||
        (symbol[1] != 'Z' && symbol[1] != 'R') || memchr(symbol, 0, length))
        return 0;
    memcpy(text, symbol, length);
    text[length] = 0;
    const int simple = how == CT_DEMANGLE_SIMPLE;
    if (demangle_rust(text, &o)) { // before C++: the older form of Rust names is valid C++, too
        to[o.used] = 0;
        return simple ? strip_rust(to) : o.used;
    }
    // The simple form may fail: a conversion operator to a template argument cannot be printed
    // without it.
    if (symbol[1] != 'Z' ||
        !((simple && demangle_cplus_simple(text, &o)) || demangle_cplus_full(text, &o)))
        return 0;
    to[o.used] = 0;
    return o.used;
}

#else

size_t ct_demangle(const char *symbol, size_t length, enum ct_demangling how, char *to,
                   size_t size) {
    (void)symbol, (void)length, (void)how, (void)to, (void)size;
    return 0;
}

#endif
