// SPDX-License-Identifier: Apache-2.0
// A function of a loaded library by the library's own symbol table, which no interposer sees.
#ifndef SYMBOL_TABLE_H
#define SYMBOL_TABLE_H

#include <dlfcn.h>
#include <link.h>
#include <string.h>

// `library`: of dlopen. NULL: it has no such symbol. The includer defines _GNU_SOURCE (dlinfo).
static inline void *find_in_symbol_table(void *library, const char *name) {
    struct link_map *map = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map))
        return NULL;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB)
            names = (const char *)d->d_un.d_ptr;
    }
    // In the file the names follow the symbols.
    for (const ElfW(Sym) *s = symbols; (const char *)s < names; s++)
        if (s->st_value && !strcmp(names + s->st_name, name))
            return (void *)(map->l_addr + s->st_value);
    return NULL;
}

#endif
