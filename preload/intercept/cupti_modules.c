// SPDX-License-Identifier: Apache-2.0
// Reads the static data of modules. `.nv.global` and `.nv.global.init` hold a module's variables in
// device memory; a symbol of a managed variable has a bit in st_other, and its memory is elsewhere.
#include "intercept/cupti_parts.h"

#include <elf.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "write/info_table.h"

#define MACHINE_CUDA 190
#define MANAGED 0x4
#define MOST_SYMBOLS 1000000u

static _Atomic uint64_t loaded_modules, static_bytes, static_variables, peak_bytes;

// ---- the variables ------------------------------------------------------------------------------

// By name and size; entries are never removed. What finds no entry is in the sums only.
#define VARIABLES 128
#define NAME_BYTES 96
#define LARGEST 8
enum { EMPTY, FILLING, VALID };
static struct variable {
    atomic_int state, count;
    uint64_t bytes;
    char name[NAME_BYTES];
} variables[VARIABLES];

static void copy_name(char *to, const char *from, size_t room) {
    size_t n = 0;
    for (; n < NAME_BYTES - 1 && n < room && from[n]; n++)
        to[n] = from[n] >= ' ' && from[n] < 127 ? from[n] : '?';
    to[n] = 0;
}

static void count_variable(const char *name, uint64_t bytes, int change) {
    for (int i = 0; i < VARIABLES; i++) {
        struct variable *const v = &variables[i];
        int state = EMPTY;
        if (atomic_compare_exchange_strong(&v->state, &state, FILLING)) {
            memcpy(v->name, name, NAME_BYTES);
            v->bytes = bytes;
            atomic_store(&v->count, change);
            atomic_store_explicit(&v->state, VALID, memory_order_release);
            return;
        }
        if (state == VALID && v->bytes == bytes && !strcmp(v->name, name)) {
            atomic_fetch_add(&v->count, change);
            return;
        }
    }
}

static void add(const char *name, size_t room, uint64_t bytes, int change) {
    char copy[NAME_BYTES] = "";
    copy_name(copy, name, room);
    count_variable(copy, bytes, change);
    const uint64_t now =
        atomic_fetch_add(&static_bytes, (uint64_t)change * bytes) + (uint64_t)change * bytes;
    atomic_fetch_add(&static_variables, (uint64_t)change);
    uint64_t most = atomic_load(&peak_bytes);
    while (change > 0 && now > most && !atomic_compare_exchange_weak(&peak_bytes, &most, now))
        ;
}

// ---- the code -----------------------------------------------------------------------------------

struct cubin {
    const char *bytes;
    size_t size;
    Elf64_Ehdr header;
    unsigned sections;
};

static int read_at(const struct cubin *c, uint64_t at, void *to, size_t bytes) {
    if (at > c->size || bytes > c->size - at)
        return -1;
    memcpy(to, c->bytes + at, bytes);
    return 0;
}

static int read_section(const struct cubin *c, unsigned i, Elf64_Shdr *s) {
    if (i >= c->sections || c->header.e_shoff > c->size)
        return -1;
    return read_at(c, c->header.e_shoff + (uint64_t)i * sizeof *s, s, sizeof *s);
}

// A string of a table, and how many bytes there are for it; NULL: it lies outside.
static const char *find_string(const struct cubin *c, const Elf64_Shdr *table, uint64_t at,
                               size_t *room) {
    if (table->sh_offset > c->size || table->sh_size > c->size - table->sh_offset ||
        at >= table->sh_size)
        return NULL;
    *room = (size_t)(table->sh_size - at);
    return c->bytes + table->sh_offset + at;
}

static int is_text(const char *text, size_t room, const char *wanted) {
    const size_t n = strlen(wanted) + 1;
    return n <= room && !memcmp(text, wanted, n);
}

static int is_static_section(const struct cubin *c, unsigned i) {
    Elf64_Shdr s, names;
    size_t room = 0;
    if (read_section(c, i, &s) || read_section(c, c->header.e_shstrndx, &names))
        return 0;
    const char *const name = find_string(c, &names, s.sh_name, &room);
    return name && (is_text(name, room, ".nv.global") || is_text(name, room, ".nv.global.init"));
}

static void add_symbols(const struct cubin *c, const Elf64_Shdr *table, int change) {
    Elf64_Shdr strings;
    if (read_section(c, table->sh_link, &strings))
        return;
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym) && i < MOST_SYMBOLS; i++) {
        Elf64_Sym s;
        size_t room = 0;
        if (table->sh_offset > c->size || read_at(c, table->sh_offset + i * sizeof s, &s, sizeof s))
            return;
        if (ELF64_ST_TYPE(s.st_info) != STT_OBJECT || s.st_other & MANAGED || !s.st_size ||
            s.st_size > UINT64_C(1) << 48 || !is_static_section(c, s.st_shndx))
            continue;
        const char *const name = find_string(c, &strings, s.st_name, &room);
        add(name ? name : "", name ? room : 0, s.st_size, change);
    }
}

static void read_variables(const void *bytes, size_t size, int change) {
    struct cubin c = {.bytes = bytes, .size = size};
    if (!bytes || read_at(&c, 0, &c.header, sizeof c.header) ||
        memcmp(c.header.e_ident, ELFMAG, SELFMAG) != 0 ||
        c.header.e_ident[EI_CLASS] != ELFCLASS64 || c.header.e_machine != MACHINE_CUDA ||
        c.header.e_shentsize != sizeof(Elf64_Shdr))
        return;
    c.sections = c.header.e_shnum;
    for (unsigned i = 0; i < c.sections; i++) {
        Elf64_Shdr s;
        if (!read_section(&c, i, &s) && s.sh_type == SHT_SYMTAB) {
            add_symbols(&c, &s, change);
            return; // a file has one
        }
    }
}

void ct_cupti_modules_loaded(const void *cubin, size_t bytes) {
    atomic_fetch_add(&loaded_modules, 1);
    read_variables(cubin, bytes, 1);
}

void ct_cupti_modules_unloads(const void *cubin, size_t bytes) {
    read_variables(cubin, bytes, -1);
}

// ---- INFO ---------------------------------------------------------------------------------------

static const struct variable *find_next_largest(const struct variable *before) {
    const struct variable *found = NULL;
    for (const struct variable *v = variables; v < variables + VARIABLES; v++) {
        if (atomic_load_explicit(&v->state, memory_order_acquire) != VALID ||
            atomic_load(&v->count) <= 0)
            continue;
        // Of equal ones the order is that of the table.
        const int is_behind =
            !before || v->bytes < before->bytes || (v->bytes == before->bytes && v > before);
        if (is_behind && (!found || v->bytes > found->bytes))
            found = v;
    }
    return found;
}

void ct_cupti_modules_publish_info(void) {
    static atomic_int most_shown;
    const struct variable *v = NULL;
    char key[32] = "static.largest.0";
    if (!atomic_load(&loaded_modules))
        return;
    ct_info_set("static.modules", "%lu", atomic_load(&loaded_modules));
    ct_info_set("static.variables", "%lu", atomic_load(&static_variables));
    ct_info_set("static.bytes", "%lu", atomic_load(&static_bytes));
    ct_info_set("static.peak_bytes", "%lu", atomic_load(&peak_bytes));
    for (int i = 0; i < LARGEST; i++) {
        v = i && !v ? NULL : find_next_largest(v);
        key[sizeof "static.largest." - 1] = (char)('0' + i);
        if (v)
            ct_info_set(key, "%lu x %d %s", v->bytes, atomic_load(&v->count), v->name);
        else if (i < atomic_load(&most_shown))
            ct_info_set(key, "%s", "none");
        if (v && i >= atomic_load(&most_shown))
            atomic_store(&most_shown, i + 1);
    }
}
