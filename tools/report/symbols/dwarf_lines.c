// SPDX-License-Identifier: Apache-2.0
// Look-ups of its own over DWARF that libdw decodes: dwarf_addrdie needs a table (.debug_aranges)
// that clang and rustc do not write, and dwarf_getscopes does not search namespaces. DWARF is not
// trusted: every loop over it is bounded.
#include "symbols/dwarf_lines.h"

#include <cutrace/format/format.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/search.h"
#include "symbols/debug_files.h"

#ifdef CT_HAVE_LIBDW

// Bounds for malicious files.
enum {
    MAX_RANGES = 1 << 22, // address ranges of a file or a unit
    MAX_DEPTH = 200,      // entries within entries
    MAX_REFERENCES = 16,  // from an entry to its find_declaration
    MAX_NAME_PARTS = 32,
    NEARBY = 16, // overlapping ranges that a look-up tries
};

struct address_range {
    uint64_t low, high;
    uint32_t what; // unit or function
};

struct address_ranges {
    struct address_range *at; // sorted by low
    size_t n, capacity;
};

// A namespace, type or function that declarations are in; scope 0 is the whole unit.
struct scope {
    uint32_t parent;
    const char *name;
};

struct declared {
    Dwarf_Off at;
    uint32_t scope;
};

struct unit {
    Dwarf_Die die;
    int is_read;
    struct address_ranges ranges; // of functions
    Dwarf_Die *functions;
    struct scope *scopes;
    struct declared *declared; // functions, by their offset
    size_t function_count, function_capacity, scope_count, scope_capacity, declared_count,
        declared_capacity;
};

struct ct_dwarf_file {
    char *path;
    uint8_t build_id[64];
    size_t build_id_bytes;
    struct ct_debug_file file;
    struct address_ranges ranges; // of units
    struct unit *units;
    size_t unit_count, unit_capacity;
};

struct ct_dwarf {
    struct ct_debug_search search;
    const struct ct_libdw *dw;
    struct ct_dwarf_file **files;
    size_t file_count, file_capacity;
    struct ct_dwarf_location locations[CT_MAX_SOURCE_LOCATIONS]; // the last answer
    char **names;                                                // built by qualify_name
    size_t name_count, name_capacity;
};

// ---- address ranges -----------------------------------------------------------------------------

static void add_ranges(const struct ct_libdw *dw, struct address_ranges *s, Dwarf_Die *die,
                       size_t what) {
    Dwarf_Addr base, low, high;
    for (ptrdiff_t at = 0;
         s->n < MAX_RANGES && (at = dw->dwarf_ranges(die, at, &base, &low, &high)) > 0;) {
        if (low >= high)
            continue;
        CT_HEAP_GROW(s->at, s->n, s->capacity);
        s->at[s->n++] = (struct address_range){low, high, (uint32_t)what};
    }
}

static int compare_low(const void *a, const void *b) {
    const struct address_range *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return x->what < y->what ? -1 : x->what > y->what;
}

static void sort_ranges(struct address_ranges *s) {
    if (s->n)
        qsort(s->at, s->n, sizeof *s->at, compare_low);
}

static const struct address_range *find_covering(const struct address_ranges *s, uint64_t address) {
    const size_t n = CT_COUNT_UP_TO(s->at, s->n, low, address);
    for (size_t i = n; i > 0 && n - i < NEARBY; i--)
        if (address < s->at[i - 1].high)
            return &s->at[i - 1];
    return NULL;
}

// ---- entries ------------------------------------------------------------------------------------

// Moves to the next sibling. It must come after all entries read so far (`last`), so that the walk
// ends.
static int move_to_sibling(const struct ct_libdw *dw, Dwarf_Die *die, Dwarf_Off last) {
    Dwarf_Die next;
    if (dw->dwarf_siblingof(die, &next) != 0 || dw->dwarf_dieoffset(&next) <= last)
        return 0;
    *die = next;
    return 1;
}

static const char *read_text(const struct ct_libdw *dw, Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute a;
    return dw->dwarf_attr_integrate(die, name, &a) ? dw->dwarf_formstring(&a) : NULL;
}

static uint32_t add_scope(struct unit *u, uint32_t parent, const char *name) {
    CT_HEAP_GROW(u->scopes, u->scope_count, u->scope_capacity);
    u->scopes[u->scope_count] = (struct scope){parent, name};
    return (uint32_t)u->scope_count++;
}

// Collects the functions of a unit below an entry. Returns the offset of the last entry read.
static Dwarf_Off read_children(const struct ct_libdw *dw, struct unit *u, Dwarf_Die *parent,
                               uint32_t scope, int depth) {
    Dwarf_Die die;
    Dwarf_Off last = dw->dwarf_dieoffset(parent);
    if (depth == MAX_DEPTH || dw->dwarf_child(parent, &die) != 0)
        return last;
    do {
        const int tag = dw->dwarf_tag(&die);
        uint32_t inner = scope;
        last = dw->dwarf_dieoffset(&die);
        switch (tag) {
        case DW_TAG_subprogram:
            CT_HEAP_GROW(u->declared, u->declared_count, u->declared_capacity);
            u->declared[u->declared_count++] = (struct declared){last, scope};
            CT_HEAP_GROW(u->functions, u->function_count, u->function_capacity);
            u->functions[u->function_count] = die;
            add_ranges(dw, &u->ranges, &die, u->function_count++);
            inner = add_scope(u, scope, read_text(dw, &die, DW_AT_name));
            break;
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_interface_type:
        case DW_TAG_enumeration_type: {
            const char *name = dw->dwarf_diename(&die);
            if (!name)
                name = tag == DW_TAG_namespace ? "(anonymous namespace)" : "(anonymous)";
            inner = add_scope(u, scope, name);
            break;
        }
        default:
            break;
        }
        last = read_children(dw, u, &die, inner, depth + 1);
    } while (move_to_sibling(dw, &die, last));
    return last;
}

static void read_unit(const struct ct_libdw *dw, struct unit *u) {
    u->is_read = 1;
    add_scope(u, 0, NULL);
    read_children(dw, u, &u->die, 0, 0);
    sort_ranges(&u->ranges);
}

static void read_units(const struct ct_libdw *dw, struct ct_dwarf_file *m) {
    Dwarf_CU *cu = NULL;
    struct unit u = {0};
    while (dw->dwarf_get_units(m->file.dwarf, cu, &cu, NULL, NULL, &u.die, NULL) == 0) {
        CT_HEAP_GROW(m->units, m->unit_count, m->unit_capacity);
        m->units[m->unit_count] = u;
        add_ranges(dw, &m->ranges, &u.die, m->unit_count++);
    }
    sort_ranges(&m->ranges);
}

// ---- names --------------------------------------------------------------------------------------

// Follows the references of an entry to where the function is declared.
static Dwarf_Die find_declaration(const struct ct_libdw *dw, const Dwarf_Die *die) {
    Dwarf_Die at = *die, next;
    Dwarf_Attribute a;
    for (int i = 0; i < MAX_REFERENCES; i++) {
        if (!(dw->dwarf_attr(&at, DW_AT_abstract_origin, &a) ||
              dw->dwarf_attr(&at, DW_AT_specification, &a)) ||
            !dw->dwarf_formref_die(&a, &next))
            break;
        at = next;
    }
    return at;
}

static uint32_t find_scope(const struct unit *u, Dwarf_Off at) {
    const size_t i = CT_COUNT_BELOW(u->declared, u->declared_count, at, at);
    return i < u->declared_count && u->declared[i].at == at ? u->declared[i].scope : 0;
}

// Puts the names of its scopes before a name.
static const char *qualify_name(struct ct_dwarf *l, const struct unit *u, uint32_t scope,
                                const char *name) {
    const char *parts[MAX_NAME_PARTS] = {name};
    size_t n = 1, bytes = strlen(name) + 1, at = 0;
    for (; scope && n < MAX_NAME_PARTS; scope = u->scopes[scope].parent)
        if (u->scopes[scope].name) {
            bytes += strlen(u->scopes[scope].name) + 2;
            parts[n++] = u->scopes[scope].name;
        }
    if (n == 1)
        return name;
    char *text = ct_heap_resize(NULL, bytes, 1);
    while (n-- > 0)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s", parts[n], n ? "::" : "");
    CT_HEAP_GROW(l->names, l->name_count, l->name_capacity);
    return l->names[l->name_count++] = text;
}

static const char *get_function_name(struct ct_dwarf *l, const struct unit *u, Dwarf_Die *die) {
    const struct ct_libdw *dw = l->dw;
    const char *name = read_text(dw, die, DW_AT_linkage_name);
    if (!name)
        name = read_text(dw, die, DW_AT_MIPS_linkage_name);
    if (name)
        return name;
    name = read_text(dw, die, DW_AT_name);
    if (!name)
        return NULL;
    Dwarf_Die where = find_declaration(dw, die);
    return qualify_name(l, u, find_scope(u, dw->dwarf_dieoffset(&where)), name);
}

// ---- locations ----------------------------------------------------------------------------------

struct chain {
    Dwarf_Die call[CT_MAX_SOURCE_LOCATIONS]; // the outermost inlined function first
    size_t n;
    Dwarf_Off last; // offset of the last entry read
};

// Finds the functions that are inlined at an address below an entry. 1: there are some.
static int find_inlined(const struct ct_libdw *dw, Dwarf_Die *parent, uint64_t address,
                        struct chain *c, int depth) {
    Dwarf_Die die;
    if (depth == MAX_DEPTH || dw->dwarf_child(parent, &die) != 0)
        return 0;
    do {
        const int tag = dw->dwarf_tag(&die), inlined = tag == DW_TAG_inlined_subroutine;
        c->last = dw->dwarf_dieoffset(&die);
        if (!inlined && tag != DW_TAG_lexical_block && tag != DW_TAG_try_block &&
            tag != DW_TAG_catch_block)
            continue;
        const int has = dw->dwarf_haspc(&die, address) > 0;
        if (inlined && has && c->n < CT_MAX_SOURCE_LOCATIONS - 1)
            c->call[c->n++] = die;
        // A block without address ranges may have children with some.
        if ((has || !inlined) && (find_inlined(dw, &die, address, c, depth + 1) || has))
            return 1;
    } while (move_to_sibling(dw, &die, c->last));
    return 0;
}

static struct ct_dwarf_location get_line(const struct ct_libdw *dw, struct unit *u,
                                         uint64_t address) {
    struct ct_dwarf_location p = {0};
    int number = 0;
    Dwarf_Line *line = dw->dwarf_getsrc_die(&u->die, address);
    if (!line || dw->dwarf_lineno(line, &number) || number < 0)
        return p;
    p.file = dw->dwarf_linesrc(line, NULL, NULL);
    p.line = p.file ? (uint64_t)number : 0;
    return p;
}

static uint64_t read_number(const struct ct_libdw *dw, Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute a;
    Dwarf_Word value;
    return dw->dwarf_attr(die, name, &a) && dw->dwarf_formudata(&a, &value) == 0 ? value : 0;
}

// The location where an inlined function is called.
static struct ct_dwarf_location get_call_location(const struct ct_libdw *dw, struct unit *u,
                                                  Dwarf_Die *call) {
    struct ct_dwarf_location p = {0};
    Dwarf_Files *files;
    size_t n;
    if (dw->dwarf_hasattr(call, DW_AT_call_file) && dw->dwarf_getsrcfiles(&u->die, &files, &n) == 0)
        p.file = dw->dwarf_filesrc(files, read_number(dw, call, DW_AT_call_file), NULL, NULL);
    p.line = p.file ? read_number(dw, call, DW_AT_call_line) : 0;
    return p;
}

static size_t find_locations(struct ct_dwarf *l, struct ct_dwarf_file *m, uint64_t address) {
    const struct ct_libdw *dw = l->dw;
    const struct address_range *s = find_covering(&m->ranges, address);
    struct chain c = {.n = 0};
    size_t n = 0;
    if (!s)
        return 0;
    struct unit *u = &m->units[s->what];
    if (!u->is_read)
        read_unit(dw, u);
    const struct address_range *in = find_covering(&u->ranges, address);
    Dwarf_Die *function = in ? &u->functions[in->what] : NULL;
    if (function)
        (void)find_inlined(dw, function, address, &c, 0);
    struct ct_dwarf_location at = get_line(dw, u, address);
    if (!function && !at.file)
        return 0;
    for (size_t i = c.n; i > 0; i--) {
        at.function = get_function_name(l, u, &c.call[i - 1]);
        l->locations[n++] = at;
        at = get_call_location(dw, u, &c.call[i - 1]);
    }
    at.function = function ? get_function_name(l, u, function) : NULL;
    l->locations[n++] = at;
    return n;
}

// ---- files --------------------------------------------------------------------------------------

static int is_same_module(const struct ct_dwarf_file *f, const struct ct_debug_module *m) {
    return f->build_id_bytes == m->build_id_bytes && !strcmp(f->path, m->path) &&
           !memcmp(f->build_id, m->build_id, f->build_id_bytes);
}

struct ct_dwarf_file *ct_dwarf_file(struct ct_dwarf *l, const struct ct_debug_module *wanted) {
    struct ct_debug_module m = *wanted;
    if (m.build_id_bytes > sizeof l->files[0]->build_id)
        m.build_id_bytes = 0; // no known kind of build-id
    for (size_t i = 0; i < l->file_count; i++)
        if (is_same_module(l->files[i], &m))
            return l->files[i];
    struct ct_dwarf_file *f = ct_heap_alloc_zeroed(1, sizeof *f);
    CT_HEAP_GROW(l->files, l->file_count, l->file_capacity);
    l->files[l->file_count++] = f;
    f->build_id_bytes = m.build_id_bytes;
    memcpy(f->build_id, m.build_id, m.build_id_bytes);
    f->path = ct_heap_copy_text(m.path);
    ct_debug_file_open(&f->file, &l->search, &m);
    if (f->file.found == CT_DEBUG_FOUND)
        read_units(l->dw, f);
    return f;
}

size_t ct_dwarf_find_locations(struct ct_dwarf *l, struct ct_dwarf_file *f, uint64_t address,
                               const struct ct_dwarf_location **locations) {
    *locations = l->locations;
    return f->file.found == CT_DEBUG_FOUND ? find_locations(l, f, address) : 0;
}

enum ct_debug_found ct_dwarf_found(const struct ct_dwarf_file *f) {
    return f->file.found;
}

struct ct_dwarf *ct_dwarf_open(const struct ct_debug_search *search) {
    struct ct_dwarf *l = ct_heap_alloc_zeroed(1, sizeof *l);
    l->search = *search;
    l->dw = ct_libdw();
    return l;
}

const char *ct_dwarf_version(void) {
    static char text[100];
    if (!ct_libdw())
        return ct_libdw_missing();
    (void)snprintf(text, sizeof text, "elfutils %.60s", ct_libdw()->dwfl_version(NULL));
    return text;
}

#else

const char *ct_dwarf_version(void) {
    return ct_libdw_missing();
}

#endif
