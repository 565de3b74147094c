// SPDX-License-Identifier: Apache-2.0
// Names from symbol tables: against nm, and with files that are damaged or change.
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cutrace/format/xxh64.h>

#include "../lib/unit.h"
#include "store/elf_symbols.h"

static char name[CT_ELF_SYMBOLS_MAX_NAME + 1];
static __thread int first_local[3] = {1}, second_local[5] = {1};

struct known {
    uint64_t value, size;
    char type, name[256];
};

static struct known *known;
static size_t known_n;

static const char *own_path(void) {
    static char path[4096];
    path[readlink("/proc/self/exe", path, sizeof path - 1)] = 0;
    return path;
}

static void read_nm(const char *options, const char *file) {
    char command[600], line[4096];
    snprintf(command, sizeof command, "nm --defined-only -S %s '%s' 2>/dev/null", options, file);
    FILE *nm = popen(command, "r");
    assert_non_null(nm);
    free(known);
    known = calloc(200000, sizeof *known);
    known_n = 0;
    while (fgets(line, sizeof line, nm) && known_n < 200000) {
        struct known *k = &known[known_n];
        unsigned long value, size;
        if (sscanf(line, "%lx %lx %c %255s", &value, &size, &k->type, k->name) == 4 &&
            strchr("tTwWi", k->type)) {
            k->value = value;
            k->size = size;
            char *version = strchr(k->name, '@'); // nm -D shows it; it is no part of the name
            if (version)
                *version = 0;
            known_n++;
        }
    }
    pclose(nm);
}

// Whether nm has a symbol of that name that covers the address.
static int nm_agrees(uint64_t address, const char *found, uint64_t distance) {
    for (size_t i = 0; i < known_n; i++)
        if (known[i].value + distance == address && distance < known[i].size &&
            !strcmp(known[i].name, found))
            return 1;
    return 0;
}

static void compare(const char *options, const char *file) {
    uint64_t distance;
    read_nm(options, file);
    if (known_n < 50)
        fail_msg("nm knows %zu symbols of %s", known_n, file);
    struct ct_elf_symbols *s = ct_elf_symbols_load(file, NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT);
    assert_non_null(s);
    for (size_t i = 0; i<known_n; i += known_n> 3000 ? 7 : 1) {
        const uint64_t at[] = {known[i].value, known[i].value + known[i].size / 2,
                               known[i].value + known[i].size - 1};
        for (int k = 0; k < 3; k++) {
            assert_int_not_equal(ct_elf_symbols_find(s, at[k], name, &distance), 0);
            if (!nm_agrees(at[k], name, distance))
                fail_msg("%s at %lx: %s + %lx", file, (unsigned long)at[k], name,
                         (unsigned long)distance);
        }
    }
    assert_int_equal(ct_elf_symbols_find(s, 0, name, &distance), 0);
    assert_int_equal(ct_elf_symbols_find(s, UINT64_MAX, name, &distance), 0);
    ct_elf_symbols_free(s);
}

TEST(own_symbols) {
    compare("", own_path());
}

TEST(library_without_symtab) {
    static const char *const places[] = {"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
                                         "/usr/lib/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!access(places[i], R_OK)) {
            compare("-D", places[i]);
            return;
        }
    skip();
}

// Between two functions there is no name: the distance must be smaller than the symbol's size.
TEST(nothing_beyond_the_end) {
    uint64_t distance;
    unsigned holes = 0;
    read_nm("", own_path());
    struct ct_elf_symbols *s =
        ct_elf_symbols_load("/proc/self/exe", NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT);
    for (size_t i = 0; i < known_n; i++) {
        const uint64_t behind = known[i].value + known[i].size;
        int covered = 0;
        for (size_t k = 0; k < known_n; k++)
            covered |= behind - known[k].value < known[k].size;
        if (covered)
            continue;
        holes++;
        if (ct_elf_symbols_find(s, behind, name, &distance))
            fail_msg("%s beyond its end", name);
    }
    assert_true(holes > 10);
    ct_elf_symbols_free(s);
}

static void copy_file(const char *from, const char *to) {
    char command[600];
    snprintf(command, sizeof command, "cp '%.250s' '%s' && chmod 700 '%s'", from, to, to);
    assert_int_equal(system(command), 0);
}

TEST(another_file_has_no_names) {
    char path[] = "/tmp/symbols.XXXXXX";
    uint64_t distance;
    const uint8_t wrong[20] = {1};
    close(mkstemp(path));
    copy_file(own_path(), path);
    read_nm("", path);
    assert_null(ct_elf_symbols_load(path, wrong, sizeof wrong,
                                    CT_ELF_SYMBOLS_NO_LIMIT)); // not the build-id
    assert_null(ct_elf_symbols_load(path, NULL, 0, 10));       // too large for now
    struct ct_elf_symbols *s = ct_elf_symbols_load(path, NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT);
    assert_int_not_equal(ct_elf_symbols_find(s, known[0].value, name, &distance), 0);
    ct_elf_symbols_close_file(s);
    assert_int_equal(truncate(path, 5000), 0); // replaced after it was read
    assert_int_equal(ct_elf_symbols_find(s, known[0].value, name, &distance), 0);
    ct_elf_symbols_free(s);
    assert_null(ct_elf_symbols_load(path, NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT));
    unlink(path);
    assert_null(ct_elf_symbols_load(path, NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT));
    assert_null(ct_elf_symbols_load("/dev/null", NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT));
    assert_null(ct_elf_symbols_load("/", NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT));
    assert_null(ct_elf_symbols_load("/etc/passwd", NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT));
}

// By name: the functions that nm knows have its addresses; thread-local variables lie as far apart
// as they do in this thread.
TEST(symbols_by_name) {
    unsigned functions = 0;
    struct ct_elf_symbol wanted[] = {{.name = "first_local", .type = STT_TLS},
                                     {.name = "second_local", .type = STT_TLS},
                                     {.name = "first_local", .type = STT_FUNC},
                                     {.name = "no such name", .type = STT_FUNC},
                                     {.name = "", .type = STT_TLS}};
    assert_int_equal(ct_elf_symbols_look_up(own_path(), wanted, 5), 0);
    assert_true(wanted[0].found && wanted[1].found);
    assert_false(wanted[2].found || wanted[3].found || wanted[4].found);
    assert_int_equal(wanted[0].bytes, sizeof first_local);
    assert_int_equal(wanted[1].bytes, sizeof second_local);
    assert_int_equal(wanted[1].value - wanted[0].value,
                     (uintptr_t)second_local - (uintptr_t)first_local);
    read_nm("", own_path());
    for (size_t i = 0; i < known_n; i++) {
        struct ct_elf_symbol f = {.name = known[i].name, .type = STT_FUNC};
        if (known[i].type != 'T' || known[i].value == 0)
            continue;
        assert_int_equal(ct_elf_symbols_look_up(own_path(), &f, 1), 0);
        assert_true(f.found && f.value == known[i].value && f.bytes == known[i].size);
        functions++;
    }
    assert_true(functions > 3);
    assert_int_equal(ct_elf_symbols_look_up("/nonexistent", wanted, 5), -1);
    assert_int_equal(ct_elf_symbols_look_up("/dev/null", wanted, 5), -1);
}

// Whatever a file says of itself, reading it ends and stays in bounds (run with SAN=address).
TEST(damaged_files) {
    char path[] = "/tmp/symbols.XXXXXX";
    unsigned seed = 1, loaded = 0;
    const int fd = mkstemp(path);
    copy_file(own_path(), path);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    for (int i = 0; i < 1500; i++) {
        uint64_t distance;
        // The header, the program headers, or the section headers at the end of the file.
        const off_t at = i % 2 ? rand_r(&seed) % 800 : st.st_size - 1 - rand_r(&seed) % 2600;
        uint8_t before, after = (uint8_t)rand_r(&seed);
        assert_int_equal(pread(fd, &before, 1, at), 1);
        assert_int_equal(pwrite(fd, &after, 1, at), 1);
        struct ct_elf_symbols *s = ct_elf_symbols_load(path, NULL, 0, CT_ELF_SYMBOLS_NO_LIMIT);
        for (uint64_t a = 0; s && a < 50; a++)
            (void)ct_elf_symbols_find(s, a * 1777, name, &distance);
        struct ct_elf_symbol wanted = {.name = "first_local", .type = STT_TLS};
        (void)ct_elf_symbols_look_up(path, &wanted, 1);
        loaded += s != NULL;
        ct_elf_symbols_free(s);
        assert_int_equal(pwrite(fd, &before, 1, at), 1);
    }
    assert_true(loaded > 100 && loaded < 1500);
    close(fd);
    unlink(path);
}

// Vectors of the xxHash specification's sanity check.
TEST(checksum) {
    uint8_t data[101];
    uint32_t generator = 2654435761u;
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(generator >> 24);
        generator *= generator;
    }
    assert_true(ct_xxh64(data, 0) == UINT64_C(0xEF46DB3751D8E999));
    assert_true(ct_xxh64(data, 1) == UINT64_C(0x4FCE394CC88952D8));
    assert_true(ct_xxh64(data, 14) == UINT64_C(0xCFFA8DB881BC3A3D));
    assert_true(ct_xxh64(data, 101) == UINT64_C(0x0EAB543384F878AD));
}
