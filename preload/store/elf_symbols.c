// SPDX-License-Identifier: Apache-2.0
// Function names from the symbol table of an ELF file: reads the functions, sorts them by address,
// and finds the one that covers an address.
#include "store/elf_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/min.h"
#include "base/pages.h"

#define SYMBOLS_MAX (CT_ELF_SYMBOLS_MAX_BYTES / sizeof(struct symbol))
#define SECTIONS_MAX 65536u
#define READ_ENTRIES 2730u    // read by one call: 64 KiB
#define BUCKETS 65536u        // of the bucket sort
#define MIN_BUCKET_SORT 4096u // fewer symbols are sorted without buckets
#define MAX_NESTING 16u       // symbols before an address that are tried

struct symbol {
    uint64_t value;
    uint32_t size; // at most UINT32_MAX
    uint32_t name; // offset in the string section
};

struct ct_elf_symbols {
    size_t bytes; // of this mapping, of which the end is not touched
    size_t n;
    const char *path;
    struct file {
        int fd;
        uint64_t bytes;
        dev_t device;
        ino_t inode;
        struct timespec changed;
        Elf64_Ehdr header;
    } file; // fd is -1 while the file is closed
    uint64_t strings_at, strings_bytes;
    struct symbol symbol[];
};

static int read_at(const struct file *f, void *to, uint64_t n, uint64_t at) {
    if (at > f->bytes || n > f->bytes - at)
        return -1;
    for (uint64_t done = 0; done < n;) {
        const ssize_t got = ct_pread(f->fd, (char *)to + done, n - done, (off_t)(at + done));
        if (got <= 0)
            return -1;
        done += (uint64_t)got;
    }
    return 0;
}

static int open_file(struct file *f, const char *path) {
    struct stat st;
    f->fd = ct_open(path, O_RDONLY);
    if (f->fd < 0)
        return -1;
    if (ct_fstat(f->fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof f->header)
        goto bad;
    f->bytes = (uint64_t)st.st_size;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    f->changed = st.st_mtim;
    if (read_at(f, &f->header, sizeof f->header, 0) ||
        memcmp(f->header.e_ident, ELFMAG, SELFMAG) != 0 ||
        f->header.e_ident[EI_CLASS] != ELFCLASS64 || f->header.e_ident[EI_DATA] != ELFDATA2LSB)
        goto bad;
    return 0;
bad:
    ct_close(f->fd);
    return -1;
}

// ---- the build-id ---------------------------------------------------------------------------

const uint8_t *ct_elf_symbols_find_build_id(const uint8_t *notes, size_t bytes, size_t *id_bytes) {
    for (size_t at = 0; bytes - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        const size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        const size_t value = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        if (name > bytes - at || value > bytes - at - name)
            return NULL;
        *id_bytes = note.n_descsz;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
            !memcmp(notes + at, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU))
            return notes + at + name;
        at += name + value;
    }
    return NULL;
}

static int file_has_build_id(const struct file *f, const uint8_t *id, size_t id_bytes) {
    if (!id_bytes)
        return 1;
    for (unsigned i = 0; i < f->header.e_phnum; i++) {
        Elf64_Phdr p;
        uint8_t notes[1024];
        if (read_at(f, &p, sizeof p, f->header.e_phoff + (uint64_t)i * sizeof p))
            return 0;
        if (p.p_type != PT_NOTE)
            continue;
        const size_t n = ct_min(p.p_filesz, sizeof notes);
        size_t found_bytes;
        const uint8_t *const found = read_at(f, notes, n, p.p_offset)
                                         ? NULL
                                         : ct_elf_symbols_find_build_id(notes, n, &found_bytes);
        if (found && found_bytes == id_bytes && !memcmp(found, id, id_bytes))
            return 1;
    }
    return 0;
}

// ---- the table ------------------------------------------------------------------------------

static int find_section(const struct file *f, unsigned type, Elf64_Shdr *table,
                        Elf64_Shdr *strings) {
    uint64_t sections = f->header.e_shnum;
    if (f->header.e_shentsize != sizeof(Elf64_Shdr) || sections > SECTIONS_MAX)
        return -1;
    for (uint64_t i = 0; i < sections; i++) {
        if (read_at(f, table, sizeof *table, f->header.e_shoff + i * sizeof *table))
            return -1;
        if (table->sh_type != type || table->sh_entsize != sizeof(Elf64_Sym) ||
            table->sh_link >= sections)
            continue;
        if (read_at(f, strings, sizeof *strings,
                    f->header.e_shoff + table->sh_link * sizeof *strings))
            return -1;
        if (strings->sh_type == SHT_STRTAB && table->sh_size <= f->bytes &&
            strings->sh_size <= f->bytes)
            return 0;
    }
    return -1;
}

static int is_function(const Elf64_Sym *s) {
    const unsigned type = ELF64_ST_TYPE(s->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) && s->st_size &&
           s->st_shndx != SHN_UNDEF && s->st_shndx < SHN_LORESERVE && s->st_name;
}

// Orders symbols by address, then the larger one first, then by the offset of the name.
static int is_before(const struct symbol *a, const struct symbol *b) {
    if (a->value != b->value)
        return a->value < b->value;
    if (a->size != b->size)
        return a->size > b->size;
    return a->name < b->name;
}

static void sift_down(struct symbol *s, size_t at, size_t n) {
    const struct symbol moved = s[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_before(&s[child], &s[child + 1]))
            child++;
        if (!is_before(&moved, &s[child]))
            break;
        s[at] = s[child];
    }
    s[at] = moved;
}

// Heapsort, because the C library's qsort allocates from the host's heap.
static void heap_sort(struct symbol *s, size_t n) {
    for (size_t i = n / 2; i-- > 0;)
        sift_down(s, i, n);
    for (size_t i = n; i-- > 1;) {
        const struct symbol last = s[i];
        s[i] = s[0];
        s[0] = last;
        sift_down(s, 0, i);
    }
}

// Bucket sort in place: moves each symbol into the bucket of its address, then sorts each bucket.
// Addresses are usually spread evenly enough for small buckets; a file in which they are not only
// takes longer. Returns -1 if there is no memory for the buckets.
static int bucket_sort(struct symbol *s, size_t n) {
    const size_t bytes = (2 * (size_t)BUCKETS + 1) * sizeof(uint32_t);
    uint32_t *const start = ct_pages_map(bytes), *const next = start + BUCKETS + 1;
    uint64_t low = UINT64_MAX, high = 0;
    unsigned shift = 0;
    if (!start)
        return -1;
    for (size_t i = 0; i < n; i++) {
        low = ct_min(s[i].value, low);
        high = s[i].value > high ? s[i].value : high;
    }
    while ((high - low) >> shift >= BUCKETS)
        shift++;
    for (size_t i = 0; i < n; i++)
        start[((s[i].value - low) >> shift) + 1]++;
    for (size_t b = 0; b < BUCKETS; b++) {
        start[b + 1] += start[b];
        next[b] = start[b];
    }
    for (size_t b = 0; b < BUCKETS; b++)
        while (next[b] < start[b + 1]) {
            struct symbol moved = s[next[b]];
            for (size_t to; (to = (moved.value - low) >> shift) != b;) {
                const struct symbol there = s[next[to]];
                s[next[to]++] = moved;
                moved = there;
            }
            s[next[b]++] = moved;
        }
    for (size_t b = 0; b < BUCKETS; b++)
        heap_sort(s + start[b], start[b + 1] - start[b]);
    ct_pages_unmap(start, bytes);
    return 0;
}

// Passes each symbol of a table to `visit`, until that returns other than 0. Returns 0, or -1: the
// table cannot be read.
static int visit_symbols(const struct file *f, const Elf64_Shdr *table,
                         int (*visit)(void *user, const Elf64_Sym *s), void *user) {
    const size_t total = table->sh_size / sizeof(Elf64_Sym);
    Elf64_Sym *const some = ct_pages_map(READ_ENTRIES * sizeof *some);
    int rc = some ? 0 : -1, is_end = 0;
    for (size_t i = 0; !rc && !is_end && i < total; i += READ_ENTRIES) {
        const size_t n = ct_min(total - i, READ_ENTRIES);
        rc = read_at(f, some, n * sizeof *some, table->sh_offset + i * sizeof *some);
        for (size_t k = 0; !rc && !is_end && k < n; k++)
            is_end = visit(user, &some[k]);
    }
    ct_pages_unmap(some, READ_ENTRIES * sizeof *some);
    return rc;
}

struct reading {
    struct ct_elf_symbols *to;
    size_t most;
};

static int add_function(void *user, const Elf64_Sym *s) {
    const struct reading *const r = user;
    if (is_function(s))
        r->to->symbol[r->to->n++] =
            (struct symbol){s->st_value, (uint32_t)ct_min(s->st_size, UINT32_MAX), s->st_name};
    return r->to->n == r->most;
}

static struct ct_elf_symbols *load(const struct file *f, size_t max_symbols) {
    Elf64_Shdr table, strings;
    if (find_section(f, SHT_SYMTAB, &table, &strings) &&
        find_section(f, SHT_DYNSYM, &table, &strings))
        return NULL;
    const size_t total = table.sh_size / sizeof(Elf64_Sym);
    if (total > max_symbols)
        return NULL;
    const size_t n = ct_min(total, SYMBOLS_MAX);
    const size_t bytes = sizeof(struct ct_elf_symbols) + n * sizeof(struct symbol);
    struct ct_elf_symbols *s = ct_pages_map(bytes);
    if (!s)
        return NULL;
    s->bytes = bytes;
    s->file = *f;
    s->file.fd = -1;
    s->strings_at = strings.sh_offset;
    s->strings_bytes = strings.sh_size;
    struct reading r = {s, n};
    if (!n || visit_symbols(f, &table, add_function, &r) || !s->n) {
        ct_pages_unmap(s, bytes);
        return NULL;
    }
    if (s->n < MIN_BUCKET_SORT || bucket_sort(s->symbol, s->n))
        heap_sort(s->symbol, s->n);
    return s;
}

struct ct_elf_symbols *ct_elf_symbols_load(const char *path, const uint8_t *build_id,
                                           size_t build_id_bytes, size_t max_symbols) {
    struct file f;
    if (open_file(&f, path))
        return NULL;
    struct ct_elf_symbols *s =
        file_has_build_id(&f, build_id, build_id_bytes) ? load(&f, max_symbols) : NULL;
    ct_close(f.fd);
    if (s)
        s->path = path;
    return s;
}

void ct_elf_symbols_free(struct ct_elf_symbols *symbols) {
    if (!symbols)
        return;
    ct_elf_symbols_close_file(symbols);
    ct_pages_unmap(symbols, symbols->bytes);
}

size_t ct_elf_symbols_get_bytes(const struct ct_elf_symbols *symbols) {
    return sizeof *symbols + symbols->n * sizeof *symbols->symbol;
}

// ---- look-up --------------------------------------------------------------------------------

// The innermost symbol that covers the address. Symbols rarely nest, so only MAX_NESTING of them
// are tried.
static const struct symbol *find_covering(const struct ct_elf_symbols *s, uint64_t address) {
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (s->symbol[middle].value <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i > 0 && low - i < MAX_NESTING; i--) {
        const struct symbol *found = &s->symbol[i - 1];
        if (address - found->value >= found->size)
            continue;
        // A function with several names has the first one in the sorted table.
        while (i > 1 && s->symbol[i - 2].value == found->value &&
               s->symbol[i - 2].size == found->size)
            found = &s->symbol[--i - 1];
        return found;
    }
    return NULL;
}

static int open_names(struct ct_elf_symbols *s) {
    struct file now;
    if (s->file.fd >= 0)
        return 0;
    if (open_file(&now, s->path))
        return -1;
    if (now.device != s->file.device || now.inode != s->file.inode || now.bytes != s->file.bytes ||
        now.changed.tv_sec != s->file.changed.tv_sec ||
        now.changed.tv_nsec != s->file.changed.tv_nsec) {
        ct_close(now.fd);
        return -1;
    }
    s->file.fd = now.fd;
    return 0;
}

size_t ct_elf_symbols_find(struct ct_elf_symbols *s, uint64_t address, char *name,
                           uint64_t *distance) {
    const struct symbol *found = find_covering(s, address);
    if (!found || found->name >= s->strings_bytes || open_names(s))
        return 0;
    const uint64_t left = s->strings_bytes - found->name;
    // Most names are short, so the first read asks for little.
    for (uint64_t n = 256; n <= 8192; n *= 32) {
        const uint64_t bytes = ct_min(ct_min(left, n), CT_ELF_SYMBOLS_MAX_NAME);
        if (read_at(&s->file, name, bytes, s->strings_at + found->name))
            return 0;
        const char *end = memchr(name, 0, bytes);
        if (end) {
            *distance = address - found->value;
            return (size_t)(end - name);
        }
    }
    return 0;
}

void ct_elf_symbols_close_file(struct ct_elf_symbols *s) {
    if (s->file.fd >= 0)
        ct_close(s->file.fd);
    s->file.fd = -1;
}

// ---- look-up by name ------------------------------------------------------------------------

static int has_name(const struct file *f, const Elf64_Shdr *strings, const Elf64_Sym *s,
                    const char *name) {
    char text[256];
    const size_t bytes = strlen(name) + 1;
    return bytes <= sizeof text && s->st_name < strings->sh_size &&
           bytes <= strings->sh_size - s->st_name &&
           !read_at(f, text, bytes, strings->sh_offset + s->st_name) && !memcmp(text, name, bytes);
}

struct look_up {
    const struct file *file;
    const Elf64_Shdr *strings;
    struct ct_elf_symbol *wanted;
    unsigned n;
};

static int compare_names(void *user, const Elf64_Sym *s) {
    const struct look_up *const l = user;
    for (unsigned i = 0; i < l->n; i++) {
        struct ct_elf_symbol *const wanted = &l->wanted[i];
        if (ELF64_ST_TYPE(s->st_info) != wanted->type || s->st_shndx == SHN_UNDEF ||
            !has_name(l->file, l->strings, s, wanted->name))
            continue;
        wanted->found = 1;
        wanted->value = s->st_value;
        wanted->bytes = s->st_size;
    }
    return 0;
}

static int look_up(const struct file *f, struct ct_elf_symbol *wanted, unsigned n) {
    Elf64_Shdr table, strings;
    if (find_section(f, SHT_SYMTAB, &table, &strings) ||
        table.sh_size / sizeof(Elf64_Sym) > CT_ELF_SYMBOLS_MOST_LOOKED_UP)
        return -1;
    struct look_up l = {f, &strings, wanted, n};
    return visit_symbols(f, &table, compare_names, &l);
}

int ct_elf_symbols_look_up(const char *path, struct ct_elf_symbol *wanted, unsigned n) {
    struct file f;
    if (open_file(&f, path))
        return -1;
    const int rc = look_up(&f, wanted, n);
    ct_close(f.fd);
    return rc;
}
