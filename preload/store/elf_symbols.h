// SPDX-License-Identifier: Apache-2.0
// Function names from the symbol table of an ELF file, and symbols by their names. The file is not
// trusted, and it is read by pread, never mapped, because it may be truncated or replaced
// meanwhile. One thread at a time.
#ifndef CT_STORE_ELF_SYMBOLS_H
#define CT_STORE_ELF_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct ct_elf_symbols;

// Bytes of the largest table: two million functions.
#define CT_ELF_SYMBOLS_MAX_BYTES (31u << 20)

// Bytes of the longest name that is read.
#define CT_ELF_SYMBOLS_MAX_NAME 8191u

// Reads .symtab, else .dynsym, of a file with this build-id (of 0 bytes: of any file). Keeps the
// pointer `path`. Returns NULL if the file has no functions, or more than max_symbols symbols.
#define CT_ELF_SYMBOLS_NO_LIMIT SIZE_MAX
struct ct_elf_symbols *ct_elf_symbols_load(const char *path, const uint8_t *build_id,
                                           size_t build_id_bytes, size_t max_symbols);
void ct_elf_symbols_free(struct ct_elf_symbols *symbols);

// Finds the build-id in the notes of an ELF file, or of a loaded object. NULL: they have none.
const uint8_t *ct_elf_symbols_find_build_id(const uint8_t *notes, size_t bytes, size_t *id_bytes);

// Bytes of memory that the table uses.
size_t ct_elf_symbols_get_bytes(const struct ct_elf_symbols *symbols);

// Finds the function that covers an address (as in st_value). Stores its name in `name`, which has
// CT_ELF_SYMBOLS_MAX_NAME + 1 bytes, and the distance of the address from its start. Returns the
// length of the name, 0 if there is none. Names are read from the file, which the first call opens
// and ct_elf_symbols_close_file closes.
size_t ct_elf_symbols_find(struct ct_elf_symbols *symbols, uint64_t address, char *name,
                           uint64_t *distance);
void ct_elf_symbols_close_file(struct ct_elf_symbols *symbols);

// A symbol to look up in .symtab, by its name and type (STT_*), and what is found of it.
struct ct_elf_symbol {
    const char *name;
    unsigned type;
    int found;
    uint64_t value, bytes;
};
#define CT_ELF_SYMBOLS_MOST_LOOKED_UP 65536u // symbols of the file

// Looks up n symbols in a file; of several with one name, the last. Returns 0, or -1 if the file
// cannot be read, has no .symtab, or has too many symbols.
int ct_elf_symbols_look_up(const char *path, struct ct_elf_symbol *wanted, unsigned n);

#endif
