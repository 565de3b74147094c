// SPDX-License-Identifier: Apache-2.0
// Everything that is compared becomes a number of 64 bits: a hash of what it stands for.
#include "compare/site_identity.h"

// Files of one name beyond this number are not looked at: there are pairs of them.
enum { MOST_OF_A_NAME = 64, TAG = 8 };

static uint64_t combine(uint64_t h, uint64_t more) {
    return ct_hash_mix(h ^ ct_hash_mix(more + UINT64_C(0x9E3779B97F4A7C15)));
}

static uint64_t hash_text(struct ct_string s) {
    return s.length ? ct_hash_bytes(s.at, s.length) : 1;
}

static struct ct_string string_of(const struct ct_site_identity *d, int side, uint32_t id) {
    return d->sites[side]->definitions->strings[id];
}

// ---- files --------------------------------------------------------------------------------------

static struct ct_string base_of(struct ct_string path) {
    const char *slash = path.length ? memrchr(path.at, '/', path.length) : NULL;
    if (!slash)
        return path;
    const size_t cut = (size_t)(slash + 1 - path.at);
    return (struct ct_string){path.at + cut, path.length - (uint32_t)cut};
}

// What follows the last folder in which packages of Python are installed: the whole path, if there
// is none.
static struct ct_string strip_root(struct ct_string path) {
    static const char *const roots[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const size_t n = strlen(roots[i]);
        const char *found;
        while (path.length && (found = memmem(path.at, path.length, roots[i], n))) {
            const size_t cut = (size_t)(found - path.at) + n;
            path = (struct ct_string){path.at + cut, path.length - (uint32_t)cut};
        }
    }
    return path;
}

// How many components at their ends two paths have in common.
static unsigned count_common(struct ct_string a, struct ct_string b) {
    unsigned n = 0;
    size_t i = 0;
    while (i < a.length && i < b.length && a.at[a.length - 1 - i] == b.at[b.length - 1 - i]) {
        n += a.at[a.length - 1 - i] == '/';
        i++;
    }
    const int ends_a = i == a.length || a.at[a.length - 1 - i] == '/',
              ends_b = i == b.length || b.at[b.length - 1 - i] == '/';
    return n + (i && ends_a && ends_b && (i == a.length || i == b.length));
}

struct file {
    uint64_t base; // hash of its name
    uint32_t string;
};

struct files {
    struct file *list;
    size_t count, room;
};

static int compare_files(const void *a, const void *b) {
    const struct file *x = a, *y = b;
    if (x->base != y->base)
        return x->base < y->base ? -1 : 1;
    return x->string < y->string ? -1 : x->string > y->string;
}

static void add_file(struct ct_site_identity *d, int side, uint32_t string) {
    uint64_t *known = ct_map_add(&d->files[side], string);
    if (!*known)
        *known = hash_text(strip_root(string_of(d, side, string))) | 1;
}

static void add_files(struct ct_site_identity *d, int side) {
    const struct ct_definitions *n = d->sites[side]->definitions;
    for (size_t i = 1; i < n->frame_count; i++)
        if (n->frames[i].kind == CT_FRAME_PYTHON)
            add_file(d, side, n->frames[i].file);
    for (size_t i = 0; i < n->location_count; i++)
        add_file(d, side, n->locations[i].file);
}

// The files of a side that the other one does not have, sorted by their names.
static struct files list_rest(const struct ct_site_identity *d, int side) {
    struct files rest = {NULL, 0, 0};
    struct ct_map other = {0};
    const struct ct_map *own = &d->files[side], *of = &d->files[!side];
    for (size_t i = 0; i < of->capacity; i++)
        if (of->used[i])
            *ct_map_add(&other, of->entries[i].value) = 1;
    for (size_t i = 0; i < own->capacity; i++) {
        if (!own->used[i] || ct_map_find(&other, own->entries[i].value))
            continue;
        const uint32_t string = (uint32_t)own->entries[i].key;
        CT_HEAP_GROW(rest.list, rest.count, rest.room);
        rest.list[rest.count++] =
            (struct file){hash_text(base_of(string_of(d, side, string))), string};
    }
    ct_map_free(&other);
    if (rest.count)
        qsort(rest.list, rest.count, sizeof *rest.list, compare_files);
    return rest;
}

// The position of the one of `list` with the longest common end; n: none, or several have it.
static size_t find_nearest(const struct ct_site_identity *d, int side, const struct file *f,
                           const struct file *list, size_t n) {
    size_t found = n;
    unsigned most = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned common =
            count_common(string_of(d, side, f->string), string_of(d, !side, list[i].string));
        if (common > most)
            found = i;
        else if (common == most)
            found = n;
        most = common > most ? common : most;
    }
    return found;
}

// Pairs the files of one name: each is the nearest one of the other.
static void pair_files(struct ct_site_identity *d, const struct file *a, size_t na,
                       const struct file *b, size_t nb) {
    if (na > MOST_OF_A_NAME || nb > MOST_OF_A_NAME)
        return;
    for (size_t i = 0; i < na; i++) {
        const size_t k = find_nearest(d, 0, &a[i], b, nb);
        if (k == nb || find_nearest(d, 1, &b[k], a, na) != i)
            continue;
        CT_HEAP_GROW(d->moved, d->moved_count, d->moved_room);
        d->moved[d->moved_count++] = (struct ct_moved_file){{a[i].string, b[k].string}};
        *ct_map_find(&d->files[1], b[k].string) = *ct_map_find(&d->files[0], a[i].string);
    }
}

static size_t end_of_name(const struct files *f, size_t i) {
    const uint64_t base = f->list[i].base;
    while (i < f->count && f->list[i].base == base)
        i++;
    return i;
}

// Pairs were found in the order of hashes, which differs from run to run.
static int compare_moved(const void *a, const void *b) {
    const struct ct_moved_file *x = a, *y = b;
    return x->file[0] < y->file[0] ? -1 : x->file[0] > y->file[0];
}

static void match_files(struct ct_site_identity *d) {
    struct files a, b;
    add_files(d, 0);
    add_files(d, 1);
    a = list_rest(d, 0);
    b = list_rest(d, 1);
    for (size_t i = 0, k = 0; i < a.count && k < b.count;) {
        const size_t end = end_of_name(&a, i), end_b = end_of_name(&b, k);
        if (a.list[i].base < b.list[k].base) {
            i = end;
        } else if (a.list[i].base > b.list[k].base) {
            k = end_b;
        } else {
            pair_files(d, &a.list[i], end - i, &b.list[k], end_b - k);
            i = end;
            k = end_b;
        }
    }
    free(a.list);
    free(b.list);
    if (d->moved_count)
        qsort(d->moved, d->moved_count, sizeof *d->moved, compare_moved);
}

// ---- lines --------------------------------------------------------------------------------------

// A line of a function.
struct line {
    uint64_t function; // in its file
    uint64_t line;
    int side;
};

struct lines {
    struct line *list;
    size_t count, room;
};

static int compare_lines(const void *a, const void *b) {
    const struct line *x = a, *y = b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->side - y->side;
}

static uint64_t hash_function(const struct ct_site_identity *d, int side, uint32_t function,
                              uint32_t file) {
    const uint64_t *known = ct_map_find(&d->files[side], file);
    return combine(hash_text(string_of(d, side, function)), known ? *known : 0);
}

static void add_line(struct lines *l, const struct ct_site_identity *d, int side, uint32_t function,
                     uint32_t file, uint64_t line) {
    if (!line)
        return;
    CT_HEAP_GROW(l->list, l->count, l->room);
    l->list[l->count++] = (struct line){hash_function(d, side, function, file), line, side};
}

static void add_lines(struct lines *l, const struct ct_site_identity *d, int side) {
    const struct ct_definitions *n = d->sites[side]->definitions;
    for (size_t i = 1; i < n->frame_count; i++)
        if (n->frames[i].kind == CT_FRAME_PYTHON)
            add_line(l, d, side, n->frames[i].function, n->frames[i].file, n->frames[i].line);
    for (size_t i = 0; i < n->location_count; i++)
        add_line(l, d, side, n->locations[i].function, n->locations[i].file, n->locations[i].line);
}

// Notes the functions of which each side has lines that the other one lacks.
static void find_changed(struct ct_site_identity *d) {
    struct lines l = {NULL, 0, 0};
    add_lines(&l, d, 0);
    add_lines(&l, d, 1);
    if (l.count)
        qsort(l.list, l.count, sizeof *l.list, compare_lines);
    for (size_t i = 0; i < l.count;) {
        const uint64_t function = l.list[i].function;
        int alone[CT_SIDES] = {0, 0};
        while (i < l.count && l.list[i].function == function) {
            const uint64_t line = l.list[i].line;
            int has[CT_SIDES] = {0, 0};
            for (; i < l.count && l.list[i].function == function && l.list[i].line == line; i++)
                has[l.list[i].side] = 1;
            alone[0] |= !has[1];
            alone[1] |= !has[0];
        }
        if (alone[0] && alone[1])
            *ct_map_add(&d->changed, function) = 1;
    }
    free(l.list);
}

// ---- frames -------------------------------------------------------------------------------------

// Without what compilers append to a symbol: ".cold", ".isra.0".
static struct ct_string plain_symbol(struct ct_string s) {
    const char *dot = s.length > 1 ? memchr(s.at + 1, '.', s.length - 1) : NULL;
    return dot ? (struct ct_string){s.at, (uint32_t)(dot - s.at)} : s;
}

static int is_hex(const char *s, size_t n) {
    size_t i = 0;
    while (i < n && strchr("0123456789abcdef", s[i]) && s[i])
        i++;
    return i == n;
}

// Without the version after ".so", and without the tag that a wheel's libraries have:
// "libfoo-1a2b3c4d.so.2" is "libfoo".
static struct ct_string plain_library(struct ct_string path) {
    struct ct_string s = base_of(path);
    const char *so = s.length ? memmem(s.at, s.length, ".so", 3) : NULL;
    if (so)
        s.length = (uint32_t)(so - s.at);
    const uint32_t tag = TAG + 1; // with its hyphen
    if (s.length > tag && s.at[s.length - tag] == '-' && is_hex(s.at + s.length - TAG, TAG))
        s.length -= tag;
    return s;
}

static void add_to_key(struct ct_site_key *k, uint64_t function, uint64_t library) {
    k->exact = combine(combine(k->exact, function), library);
    k->functions = combine(k->functions, function);
    k->has_library |= library != 0;
}

static void add_line_of(struct ct_site_identity *d, int side, struct ct_site_key *k,
                        uint32_t function, uint32_t file, uint64_t line, int is_first) {
    const uint64_t hash = hash_function(d, side, function, file);
    const int is_changed = ct_map_find(&d->changed, hash) != NULL;
    if (is_first)
        k->line = line;
    k->lines = combine(k->lines, line);
    add_to_key(k, combine(hash, is_changed ? 0 : line), 0);
}

static void add_native(struct ct_site_identity *d, int side, struct ct_site_key *k,
                       const struct ct_frame *f) {
    const struct ct_definitions *n = d->sites[side]->definitions;
    const struct ct_defined_module *m = &n->modules[f->module];
    const uint64_t library = hash_text(plain_library(n->strings[m->path])) | 1;
    if (f->function)
        add_to_key(k, combine(2, hash_text(plain_symbol(n->strings[f->function]))), library);
    else if (f->module) // an address is the same place only in the same build
        add_to_key(k, combine(combine(3, f->offset), combine(library, hash_text(m->build_id))), 0);
    else
        add_to_key(k, combine(4, f->pc), 0);
}

static void add_frame(struct ct_site_identity *d, int side, struct ct_site_key *k,
                      const struct ct_shown_frames *a, int is_first) {
    const struct ct_definitions *n = d->sites[side]->definitions;
    const struct ct_frame *f = ct_definitions_node_frame(n, a->node);
    if (f->kind == CT_FRAME_PYTHON) {
        add_line_of(d, side, k, f->function, f->file, f->line, is_first);
    } else if (f->kind == CT_FRAME_NATIVE && a->location < f->location_count) {
        const struct ct_source_location *p = &n->locations[f->first_location + a->location];
        add_line_of(d, side, k, p->function, p->file, p->line, is_first);
    } else if (f->kind == CT_FRAME_NATIVE) {
        add_native(d, side, k, f);
    } else {
        add_to_key(k, combine(5 + f->kind, hash_text(n->strings[f->function])), 0);
    }
}

static struct ct_site_key key_of(struct ct_site_identity *d, int side, enum ct_holding_kind kind,
                                 uint32_t stack, unsigned depth) {
    struct ct_site_key k = {.exact = 1 + (uint64_t)kind, .functions = 1 + (uint64_t)kind};
    if (!stack || kind == CT_HOLDING_IDLE)
        return k;
    struct ct_shown_frames a = ct_call_sites_shown_frames(d->sites[side], stack);
    for (unsigned i = 0; i < depth && a.node; i++, ct_call_sites_next_frame(&a))
        add_frame(d, side, &k, &a, i == 0);
    return k;
}

struct ct_site_key ct_site_identity_key(struct ct_site_identity *d, int side,
                                        enum ct_holding_kind kind, uint32_t stack) {
    return key_of(d, side, kind, stack, ct_site_groups_depth(d->sites[side], stack));
}

// ---- interface ----------------------------------------------------------------------------------

void ct_site_identity_init(struct ct_site_identity *d, struct ct_call_sites *a,
                           struct ct_call_sites *b) {
    *d = (struct ct_site_identity){.sites = {a, b}};
    match_files(d);
    find_changed(d);
}

void ct_site_identity_unify_depths(struct ct_site_identity *d,
                                   const struct ct_live_totals *totals[CT_SIDES]) {
    struct ct_map depths = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int side = 0; side < CT_SIDES; side++)
            for (size_t i = 0; i < totals[side]->holding_count; i++) {
                const struct ct_holding *h = &totals[side]->holdings[i];
                const unsigned own = ct_site_groups_depth(d->sites[side], h->stack);
                uint64_t *depth =
                    ct_map_add(&depths, key_of(d, side, h->kind, h->stack, 1).functions);
                *depth = own > *depth ? own : *depth;
                if (pass && *depth > own)
                    ct_site_groups_set_depth(d->sites[side], h->stack, (unsigned)*depth);
            }
    ct_map_free(&depths);
}

void ct_site_identity_free(struct ct_site_identity *d) {
    ct_map_free(&d->files[0]);
    ct_map_free(&d->files[1]);
    ct_map_free(&d->changed);
    free(d->moved);
    *d = (struct ct_site_identity){0};
}
