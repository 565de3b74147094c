// SPDX-License-Identifier: Apache-2.0
// Function names from the symbol table of an ELF file, which is not trusted.
#ifndef CT_SYMBOLS_H
#define CT_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct ct_elf_symbols;

// Largest table: two million functions.
#define CT_ELF_SYMBOLS_MAX_BYTES (31u << 20)

// Longest name that is read.
#define CT_ELF_SYMBOLS_MAX_NAME 8191u

// Reads .symtab, else .dynsym, of the file if it carries the build-id (or if none is known). The
// file is read by pread, never mapped: it may be cut or replaced meanwhile. NULL if there is
// nothing to be had, or if the table has more than `most` entries.
#define CT_ELF_SYMBOLS_NO_LIMIT SIZE_MAX
struct ct_elf_symbols *ct_elf_symbols_load(const char *path, const uint8_t *build_id, size_t build_id_bytes,
                                   size_t most);
void ct_elf_symbols_free(struct ct_elf_symbols *symbols);

// Bytes that the table holds.
size_t ct_elf_symbols_get_bytes(const struct ct_elf_symbols *symbols);

// The function that covers an address of the file (st_value's scale): its name into `name` (size
// CT_ELF_SYMBOLS_MAX_NAME + 1) and the distance from its start. Returns the name's length, 0 if there is
// none. Names stay in the file; it is opened for the first one and closed by ct_elf_symbols_close_file.
size_t ct_elf_symbols_find(struct ct_elf_symbols *symbols, uint64_t address, char *name,
                       uint64_t *distance);
void ct_elf_symbols_close_file(struct ct_elf_symbols *symbols);

#endif
