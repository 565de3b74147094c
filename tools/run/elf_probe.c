// SPDX-License-Identifier: Apache-2.0
// Reads nothing but heads, and trusts none of their figures: the file may be anything.
#include "run/elf_probe.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#else
enum { OWN_MACHINE = EM_NONE };
#endif

int ct_elf_probe_own_machine(void) {
    return OWN_MACHINE;
}

const char *ct_elf_probe_machine_name(const struct ct_elf_probe *p, char *to, int size) {
    static const struct {
        int machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"}, {EM_386, "x86"},   {EM_AARCH64, "aarch64"}, {EM_ARM, "arm"},
                 {EM_PPC64, "ppc64"},   {EM_S390, "s390"}, {EM_RISCV, "riscv"}};
    (void)snprintf(to, (size_t)size, "machine %d", p->machine);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].machine == p->machine)
            (void)snprintf(to, (size_t)size, "%s", names[i].name);
    return to;
}

// Bytes of `buffer` that were read at an offset, 0 for an error.
static size_t read_at(int fd, void *buffer, size_t n, uint64_t offset) {
    if (offset > INT64_MAX - n)
        return 0;
    const ssize_t got = pread(fd, buffer, n, (off_t)offset);
    return got > 0 ? (size_t)got : 0;
}

// "#! /path argument": the kernel passes all after the path as one argument.
static void read_script(struct ct_elf_probe *p, char *line) {
    p->kind = CT_ELF_SCRIPT;
    line[strcspn(line, "\n")] = 0;
    line += 2 + strspn(line + 2, " \t");
    const size_t n = strcspn(line, " \t");
    const char *rest = line + n + strspn(line + n, " \t");
    (void)snprintf(p->interpreter, sizeof p->interpreter, "%.*s", (int)n, line);
    (void)snprintf(p->argument, sizeof p->argument, "%s", rest);
}

static void read_loader(struct ct_elf_probe *p, int fd, uint64_t offset, uint64_t size) {
    const size_t most = sizeof p->interpreter - 1;
    const size_t n = read_at(fd, p->interpreter, size < most ? (size_t)size : most, offset);
    p->interpreter[n] = 0;
    if (!*p->interpreter)
        p->kind = CT_ELF_DAMAGED;
}

static void read_headers_64(struct ct_elf_probe *p, int fd, const Elf64_Ehdr *e) {
    for (unsigned i = 0; i < e->e_phnum && e->e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr h;
        if (e->e_phoff > INT64_MAX / 2 ||
            read_at(fd, &h, sizeof h, e->e_phoff + i * sizeof h) != sizeof h)
            return;
        if (h.p_type == PT_INTERP)
            read_loader(p, fd, h.p_offset, h.p_filesz);
    }
}

static void read_elf(struct ct_elf_probe *p, int fd, const unsigned char *head, size_t n) {
    Elf64_Ehdr e;
    p->kind = n < sizeof e ? CT_ELF_DAMAGED : CT_ELF;
    if (n < sizeof e)
        return;
    memcpy(&e, head, sizeof e);
    p->is_64_bit = head[EI_CLASS] == ELFCLASS64;
    p->is_big_endian = head[EI_DATA] == ELFDATA2MSB;
    p->machine = p->is_big_endian ? head[19] | head[18] << 8 : head[18] | head[19] << 8;
    if (p->is_64_bit && !p->is_big_endian)
        read_headers_64(p, fd, &e);
}

void ct_elf_probe(struct ct_elf_probe *p, const char *path) {
    unsigned char head[512];
    memset(p, 0, sizeof *p);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        p->error = errno;
        return;
    }
    const size_t n = read_at(fd, head, sizeof head - 1, 0);
    head[n] = 0;
    if (n >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0)
        read_elf(p, fd, head, n);
    else if (n > 2 && head[0] == '#' && head[1] == '!')
        read_script(p, (char *)head);
    else
        p->kind = CT_ELF_NONE;
    close(fd);
}
