// SPDX-License-Identifier: Apache-2.0
// Finds dlsym, dlvsym and other symbols in the loaded objects by reading their symbol tables.
//
// This library exports both dlsym and dlvsym, so neither can look up the other, and glibc no longer
// exports _dl_sym (HAMi#20). Two definitions matter: the next one in load order, which may belong
// to another interposer and keeps the chain of interposers whole, and the C library's, which really
// looks symbols up.
//
// No function of the C library that a sanitizer intercepts may be called here. An allocator or a
// sanitizer looks up symbols while it initializes itself; until that is done its strcmp
// (AddressSanitizer's) crashes.
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "base/real_dlsym.h"

void *ct_real_dlsym, *ct_real_dlvsym;
static void *libc_dlsym;

struct search {
    const char *name;
    uintptr_t self;  // an address in this library
    int passed_self; // the iteration has visited this library
    void *before;    // the first definition before this library in load order
    void *next;      // the first one after it
    void *libc;      // the C library's
};

struct symbol_table {
    const ElfW(Sym) * table;
    const char *strings;
    const uint32_t *gnu_hash;
    const char *soname;
};

// glibc relocates the pointers of the dynamic section, except in the vdso.
static const void *relocate(ElfW(Addr) base, ElfW(Addr) value) {
    return (const void *)(value < base ? base + value : value);
}

static int texts_are_equal(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static int find_symbol_table(const struct dl_phdr_info *info, struct symbol_table *out) {
    const ElfW(Dyn) *dynamic = NULL;
    ElfW(Addr) soname = 0;
    *out = (struct symbol_table){0};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            out->table = relocate(info->dlpi_addr, dynamic->d_un.d_ptr);
            break;
        case DT_STRTAB:
            out->strings = relocate(info->dlpi_addr, dynamic->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            out->gnu_hash = relocate(info->dlpi_addr, dynamic->d_un.d_ptr);
            break;
        case DT_SONAME:
            soname = dynamic->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (!out->table || !out->strings || !out->gnu_hash)
        return 0;
    out->soname = soname ? out->strings + soname : "";
    return 1;
}

static uint32_t gnu_hash(const char *name) {
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

// Finds a symbol that the object defines through DT_GNU_HASH. Any version will do, because all
// versions of a glibc function that this library looks up share one address.
static const ElfW(Sym) * find_symbol(const struct symbol_table *s, const char *name) {
    const uint32_t buckets = s->gnu_hash[0], first = s->gnu_hash[1], words = s->gnu_hash[2];
    const uint32_t *bucket = s->gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / 4);
    const uint32_t *chain = bucket + buckets;
    const uint32_t hash = gnu_hash(name);
    if (!buckets)
        return NULL;
    uint32_t i = bucket[hash % buckets];
    if (i < first)
        return NULL;
    for (;; i++) {
        const ElfW(Sym) *symbol = &s->table[i];
        if ((chain[i - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            texts_are_equal(s->strings + symbol->st_name, name))
            return symbol;
        if (chain[i - first] & 1)
            return NULL;
    }
}

static void *find_function(const struct dl_phdr_info *info, const struct symbol_table *s,
                           const char *name) {
    const ElfW(Sym) *symbol = find_symbol(s, name);
    if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
        return NULL;
    return (void *)(info->dlpi_addr + symbol->st_value);
}

void *ct_real_dlsym_find_in_object(const struct dl_phdr_info *object, const char *name,
                                   uint64_t *bytes) {
    struct symbol_table s;
    const ElfW(Sym) *symbol = find_symbol_table(object, &s) ? find_symbol(&s, name) : NULL;
    const unsigned type = symbol ? ELF64_ST_TYPE(symbol->st_info) : STT_NOTYPE;
    if (type != STT_FUNC && type != STT_OBJECT)
        return NULL;
    *bytes = symbol->st_size;
    return (void *)(object->dlpi_addr + symbol->st_value);
}

const ElfW(Phdr) *
    ct_real_dlsym_find_segment(const struct dl_phdr_info *object, uintptr_t address) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && address - (object->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return p;
    }
    return NULL;
}

static int search_object(struct dl_phdr_info *info, size_t size, void *user) {
    struct search *search = user;
    struct symbol_table s;
    (void)size;
    if (ct_real_dlsym_find_segment(info, search->self)) {
        search->passed_self = 1;
        return 0;
    }
    if (!find_symbol_table(info, &s))
        return 0;
    void *found = find_function(info, &s, search->name);
    void **first = search->passed_self ? &search->next : &search->before;
    if (found && !*first)
        *first = found;
    if (found && !search->libc &&
        (texts_are_equal(s.soname, "libc.so.6") || texts_are_equal(s.soname, "libdl.so.2")))
        search->libc = found;
    return 0;
}

static struct search search_objects(const char *name) {
    struct search search = {.name = name, .self = (uintptr_t)&libc_dlsym};
    dl_iterate_phdr(search_object, &search);
    return search;
}

void *ct_real_dlsym_find_function(const char *name) {
    const struct search search = search_objects(name);
    return search.next ? search.next : search.before;
}

// Stands in for a dlsym or dlvsym that no object defines.
static void *find_nothing(void) {
    return NULL;
}

// Leaves neither `next` nor `libc` NULL.
static struct search search_dlsym(const char *name) {
    struct search search = search_objects(name);
    if (!search.next)
        search.next = search.libc ? search.libc : (void *)find_nothing;
    if (!search.libc)
        search.libc = search.next;
    return search;
}

void *ct_real_dlsym_resolve(void) {
    const struct search s = search_dlsym("dlsym");
    __atomic_store_n(&libc_dlsym, s.libc, __ATOMIC_RELEASE);
    __atomic_store_n(&ct_real_dlsym, s.next, __ATOMIC_RELEASE);
    return s.next;
}

void *ct_real_dlvsym_resolve(void) {
    const struct search s = search_dlsym("dlvsym");
    __atomic_store_n(&ct_real_dlvsym, s.next, __ATOMIC_RELEASE);
    return s.next;
}

ct_dlsym_fn *ct_real_dlsym_get_next(void) {
    void *p = __atomic_load_n(&ct_real_dlsym, __ATOMIC_ACQUIRE);
    return (ct_dlsym_fn *)(p ? p : ct_real_dlsym_resolve());
}

ct_dlvsym_fn *ct_real_dlvsym_get_next(void) {
    void *p = __atomic_load_n(&ct_real_dlvsym, __ATOMIC_ACQUIRE);
    return (ct_dlvsym_fn *)(p ? p : ct_real_dlvsym_resolve());
}

ct_dlsym_fn *ct_real_dlsym_get_libc(void) {
    if (!__atomic_load_n(&libc_dlsym, __ATOMIC_ACQUIRE))
        ct_real_dlsym_resolve();
    return (ct_dlsym_fn *)__atomic_load_n(&libc_dlsym, __ATOMIC_ACQUIRE);
}
