// SPDX-License-Identifier: Apache-2.0
// Whether the loader will preload the library into a program.
#include "run/inspect.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run/run.h"

// ---- what the head of a program file says -------------------------------------------------------

// Which machine it is for, and which loader starts it. Reads nothing but heads, and trusts none of
// their figures: the file may be anything.

enum elf_kind { CT_ELF_UNREADABLE, CT_ELF_SCRIPT, CT_ELF_NONE, CT_ELF_DAMAGED, CT_ELF };

struct elf_probe {
    enum elf_kind kind;
    int error;              // errno of CT_ELF_UNREADABLE
    char interpreter[4096]; // of a script, or the loader of a program; "": it is linked statically
    char argument[256];     // of a script's interpreter, or ""
    int is_64_bit, is_big_endian;
    int machine; // EM_*
};

// The machine that this program runs on.
#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#else
enum { OWN_MACHINE = EM_NONE };
#endif

// "x86-64"; "machine 243" for one without a name here.
static const char *get_machine_name(const struct elf_probe *p, char *to, int size) {
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
static void read_script(struct elf_probe *p, char *line) {
    p->kind = CT_ELF_SCRIPT;
    line[strcspn(line, "\n")] = 0;
    line += 2 + strspn(line + 2, " \t");
    const size_t n = strcspn(line, " \t");
    const char *rest = line + n + strspn(line + n, " \t");
    (void)snprintf(p->interpreter, sizeof p->interpreter, "%.*s", (int)n, line);
    (void)snprintf(p->argument, sizeof p->argument, "%s", rest);
}

static void read_loader(struct elf_probe *p, int fd, uint64_t offset, uint64_t size) {
    const size_t most = sizeof p->interpreter - 1;
    const size_t n = read_at(fd, p->interpreter, size < most ? (size_t)size : most, offset);
    p->interpreter[n] = 0;
    if (!*p->interpreter)
        p->kind = CT_ELF_DAMAGED;
}

static void read_headers_64(struct elf_probe *p, int fd, const Elf64_Ehdr *e) {
    for (unsigned i = 0; i < e->e_phnum && e->e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr h;
        if (e->e_phoff > INT64_MAX / 2 ||
            read_at(fd, &h, sizeof h, e->e_phoff + i * sizeof h) != sizeof h)
            return;
        if (h.p_type == PT_INTERP)
            read_loader(p, fd, h.p_offset, h.p_filesz);
    }
}

static void read_elf(struct elf_probe *p, int fd, const unsigned char *head, size_t n) {
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

static void probe_elf(struct elf_probe *p, const char *path) {
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

// ---- inspections --------------------------------------------------------------------------------

enum { DEEPEST = 8 }; // scripts and wrappers after each other

static void inspect(struct ct_findings *f, char *const *command, int depth);

static const char *get_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// ---- one program file ---------------------------------------------------------------------------

// As the kernel decides: AT_SECURE, where the loader ignores LD_PRELOAD.
static void inspect_privilege(struct ct_findings *f, const char *path, const char *name) {
    struct stat st;
    struct statvfs fs;
    if (stat(path, &st))
        return;
    const int is_ignored = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
                           (statvfs(path, &fs) == 0 && fs.f_flag & ST_NOSUID);
    const int sets_id = (st.st_mode & S_ISUID && st.st_uid != getuid()) ||
                        (st.st_mode & S_ISGID && st.st_mode & S_IXGRP && st.st_gid != getgid());
    if (sets_id && !is_ignored)
        ct_findings_add(f, CT_FINDING_FAIL, "privilege",
                        "trace a copy without that bit, or start it as the file's owner and group",
                        "%s is set-uid or set-gid, so the loader ignores LD_PRELOAD", name);
    if (getuid() && !is_ignored && getxattr(path, "security.capability", NULL, 0) > 0)
        ct_findings_add(f, CT_FINDING_FAIL, "privilege",
                        "trace a copy (cp drops the capabilities), or start it as root",
                        "%s has file capabilities, so the loader ignores LD_PRELOAD", name);
}

// Returns 0 if it is for this machine.
static int inspect_machine(struct ct_findings *f, const struct elf_probe *p, const char *name) {
    char its[32], own[32];
    const struct elf_probe here = {.machine = OWN_MACHINE};
    if (p->machine == here.machine && p->is_64_bit)
        return 0;
    ct_findings_add(
        f, CT_FINDING_FAIL, "machine", "use the program, or the library, of its machine",
        "%s is a %d-bit program for %s, the library is for %s", name, p->is_64_bit ? 64 : 32,
        get_machine_name(p, its, sizeof its), get_machine_name(&here, own, sizeof own));
    return -1;
}

static void inspect_loader(struct ct_findings *f, const struct elf_probe *p, const char *name) {
    const char *loader = p->interpreter;
    if (!*loader && strncmp(get_base_name(name), "ld-linux", 8) == 0)
        ct_findings_add(f, CT_FINDING_OK, "linking", NULL, "%s is the loader itself", name);
    else if (!*loader)
        ct_findings_add(f, CT_FINDING_FAIL, "linking",
                        "link it dynamically; there is no other way into it",
                        "%s is linked statically, so no loader reads LD_PRELOAD", name);
    else if (strstr(loader, "ld-musl"))
        ct_findings_add(f, CT_FINDING_FAIL, "linking",
                        "use an image with glibc, as CUDA's own libraries need, too",
                        "%s is for musl (%s), the library needs glibc", name, loader);
    else if (access(loader, X_OK))
        ct_findings_add(f, CT_FINDING_FAIL, "linking",
                        "install it, or use a program of this system",
                        "%s cannot start: its loader %s: %s", name, loader, strerror(errno));
    else
        ct_findings_add(f, CT_FINDING_OK, "linking", NULL, "%s is linked dynamically (%s)", name,
                        loader);
}

static void inspect_elf(struct ct_findings *f, const struct elf_probe *p, const char *path,
                        const char *name) {
    if (inspect_machine(f, p, name) == 0) {
        inspect_loader(f, p, name);
        inspect_privilege(f, path, name);
    }
}

void ct_inspect_program(struct ct_findings *f, const char *path, const char *name) {
    struct elf_probe p;
    probe_elf(&p, path);
    if (p.kind == CT_ELF)
        inspect_elf(f, &p, path, name);
    else
        ct_findings_add(f, CT_FINDING_WARN, "program", NULL, "%s: %s", name,
                        p.error ? strerror(p.error) : "its file is no program that can be read");
}

// ---- commands that start another one ------------------------------------------------------------

enum effect { PASSES, LOSES, WARNS };
static const struct wrapper {
    const char *name;
    enum effect effect;
    const char *letters;
    int words;
    const char *reason, *remedy;
} wrappers[] = {
#define CT_WRAPPER(name, effect, letters, words, reason, remedy) \
    {name, effect, letters, words, reason, remedy},
#include "run/wrappers.def"
};

static const struct wrapper *find_wrapper(const char *name) {
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        if (strcmp(wrappers[i].name, name) == 0)
            return &wrappers[i];
    return NULL;
}

// Whether these words of env(1) take LD_PRELOAD away.
static int clears_environment(const char *word, const char *next) {
    static const char name[] = "LD_PRELOAD";
    if (strcmp(word, "-") == 0 || strcmp(word, "--ignore-environment") == 0 ||
        (word[0] == '-' && word[1] != '-' && strchr(word, 'i') && !strpbrk(word, "uCS")))
        return 1;
    if (strcmp(word, "-u") == 0 || strcmp(word, "--unset") == 0)
        return next && strcmp(next, name) == 0;
    return (strncmp(word, "-u", 2) == 0 && strcmp(word + 2, name) == 0) ||
           (strncmp(word, "--unset=", 8) == 0 && strcmp(word + 8, name) == 0) ||
           strncmp(word, "LD_PRELOAD=", 11) == 0;
}

static int takes_next_word(const struct wrapper *w, const char *option) {
    return option[1] && option[1] != '-' && !option[2] && strchr(w->letters, option[1]);
}

// Goes on after the wrapper's own words.
static void follow(struct ct_findings *f, const struct wrapper *w, char *const *command,
                   int depth) {
    const int is_env = strcmp(w->name, "env") == 0;
    int i = 1, words = w->words;
    for (; command[i]; i++) {
        if (is_env && clears_environment(command[i], command[i + 1]))
            ct_findings_add(f, CT_FINDING_FAIL, "environment",
                            "put cutrace run behind it: env ... cutrace run -- COMMAND",
                            "env %s takes LD_PRELOAD away", command[i]);
        if (strcmp(command[i], "--") == 0) {
            i++;
            break;
        }
        if (command[i][0] == '-')
            i += takes_next_word(w, command[i]) && command[i + 1];
        else if (!(is_env && strchr(command[i], '=')) && words-- <= 0)
            break;
    }
    if (command[i])
        inspect(f, command + i, depth + 1);
}

static void inspect_wrapper(struct ct_findings *f, char *const *command, int depth) {
    const struct wrapper *w = find_wrapper(get_base_name(command[0]));
    if (!w)
        return;
    if (w->effect == PASSES)
        follow(f, w, command, depth);
    else
        ct_findings_add(f, w->effect == LOSES ? CT_FINDING_FAIL : CT_FINDING_WARN, "environment",
                        w->remedy, "%s %s", w->name, w->reason);
}

// ---- a command ----------------------------------------------------------------------------------

// A script runs as "INTERPRETER [ARGUMENT] SCRIPT": env takes its argument apart if it begins with
// -S.
static void inspect_script(struct ct_findings *f, const struct elf_probe *p, const char *file,
                           int depth) {
    char words[sizeof p->argument], *rest = words, *one;
    char *command[64] = {(char *)p->interpreter};
    size_t n = 1;
    const int is_split = strncmp(p->argument, "-S", 2) == 0;
    strcpy(words, p->argument + (is_split ? 2 : 0));
    if (is_split)
        while ((one = strsep(&rest, " \t")) && n < 60)
            command[n] = one, n += *one != 0;
    else if (*words)
        command[n++] = words;
    command[n++] = (char *)file;
    command[n] = NULL;
    ct_findings_add(f, CT_FINDING_OK, "script", NULL, "%s is a script run by %s", file,
                    p->interpreter);
    inspect(f, command, depth + 1);
}

static void inspect_file(struct ct_findings *f, const char *file, int depth) {
    struct elf_probe p;
    probe_elf(&p, file);
    if (p.kind == CT_ELF)
        inspect_elf(f, &p, file, file);
    else if (p.kind == CT_ELF_SCRIPT)
        inspect_script(f, &p, file, depth);
    else if (p.kind == CT_ELF_UNREADABLE)
        ct_findings_add(f, CT_FINDING_WARN, "program", "start it as a user who may read it",
                        "%s: %s: what it is linked with cannot be seen", file, strerror(p.error));
    else
        ct_findings_add(f, CT_FINDING_FAIL, "program", NULL, "%s is no program and no script",
                        file);
}

static void inspect(struct ct_findings *f, char *const *command, int depth) {
    if (depth > DEEPEST) {
        ct_findings_add(f, CT_FINDING_WARN, "program", NULL,
                        "%s: too many scripts and commands behind each other", command[0]);
        return;
    }
    char *file = strchr(command[0], '/') ? access(command[0], F_OK) ? NULL : strdup(command[0])
                                         : ct_preload_find_program(command[0], 0);
    if (!file)
        ct_findings_add(f, CT_FINDING_FAIL, "program", "check its name, and PATH",
                        "%s is not found", command[0]);
    else if (access(file, X_OK))
        ct_findings_add(f, CT_FINDING_FAIL, "program", "chmod +x, or name its interpreter",
                        "%s cannot be executed: %s", file, strerror(errno));
    else
        inspect_file(f, file, depth);
    inspect_wrapper(f, command, depth);
    free(file);
}

void ct_inspect_command(struct ct_findings *f, char *const *command) {
    inspect(f, command, 0);
}
