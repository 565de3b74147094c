// SPDX-License-Identifier: Apache-2.0
// Searches the module's own file, separate debug files, and debuginfod servers on request. Files
// are read and not mapped, because a mapped file that shrinks would end the program. Only very
// large files are mapped, which would need too much memory otherwise.
#include "symbols/debug_files.h"

#ifdef CT_HAVE_LIBDW
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/input_file.h"

#define MAPPED_FROM ((off_t)512 << 20)

struct search {
    const struct ct_libdw *dw;
    const struct ct_debug_search *search;
    const struct ct_debug_module *module;
    struct ct_debug_file *to;
};

// ---- one file ---------------------------------------------------------------------------------

static void close_elf(const struct ct_libdw *dw, struct ct_elf_file *f) {
    if (f->elf)
        dw->elf_end(f->elf);
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct ct_elf_file){.fd = -1};
}

static int has_build_id(const struct ct_libdw *dw, Elf *elf, const void *id, size_t bytes) {
    const void *found;
    return dw->dwelf_elf_gnu_build_id(elf, &found) == (ssize_t)bytes &&
           memcmp(found, id, bytes) == 0;
}

// Notes how far the search came. 0 if it succeeded.
static int note_found(const struct search *s, enum ct_debug_found found) {
    if (found > s->to->found)
        s->to->found = found;
    return found == CT_DEBUG_FOUND ? 0 : -1;
}

// Opens an ELF file; closes the descriptor with it. 0 if its build-id is the given one.
static int open_elf(const struct search *s, struct ct_elf_file *f, int fd, const void *id,
                    size_t bytes) {
    struct stat st;
    *f = (struct ct_elf_file){.fd = fd};
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) ||
        !(f->elf = s->dw->elf_begin(fd, st.st_size < MAPPED_FROM ? ELF_C_READ : ELF_C_READ_MMAP,
                                    NULL)) ||
        s->dw->elf_kind(f->elf) != ELF_K_ELF || !has_build_id(s->dw, f->elf, id, bytes)) {
        close_elf(s->dw, f);
        return note_found(s, CT_DEBUG_ANOTHER);
    }
    return 0;
}

__attribute__((format(printf, 2, 3))) static int format_path(char *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(to, PATH_MAX, format, args);
    va_end(args);
    return n > 0 && n < PATH_MAX ? 0 : -1;
}

static int open_file(const char *path) {
    struct stat st;
    const char *why;
    return ct_input_file_open(path, &st, &why);
}

// ---- where files may be -------------------------------------------------------------------------

static const char *get_sysroot(const struct search *s) {
    return s->search->sysroot ? s->search->sysroot : "";
}

// Each of these writes a path to `to`. 0, or -1 if there is none.
static int format_debug_dir(const struct search *s, char *to) {
    return s->search->debug_dir ? format_path(to, "%s", s->search->debug_dir)
                                : format_path(to, "%s/usr/lib/debug", get_sysroot(s));
}

static int format_build_id_path(const struct search *s, const uint8_t *id, size_t bytes, char *to) {
    char folder[PATH_MAX], hex[2 * 64 + 1];
    if (bytes < 2 || bytes > 64 || format_debug_dir(s, folder))
        return -1;
    for (size_t i = 0; i < bytes; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", id[i]);
    return format_path(to, "%s/.build-id/%.2s/%s.debug", folder, hex, hex + 2);
}

// Length of the folder in a path.
static int folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) : 0;
}

// ---- debug information --------------------------------------------------------------------------

// (clang wants the attribute in the type, where _Noreturn is not.)
static __attribute__((noreturn)) void end_without_memory(void) {
    ct_heap_exhausted();
}

// NULL: it has none. Without memory libdw would end the program with an exit code of its own.
static Dwarf *begin_dwarf(const struct ct_libdw *dw, Elf *elf) {
    Dwarf *dwarf = dw->dwarf_begin_elf(elf, DWARF_C_READ, NULL);
    if (dwarf)
        (void)dw->dwarf_new_oom_handler(dwarf, end_without_memory);
    return dwarf;
}

// Opens the file that dwz shares between several. Without it the search fails, because libdw would
// look for it itself, and elsewhere.
static int open_shared(const struct search *s, const char *path) {
    struct ct_debug_file *f = s->to;
    const char *name;
    const void *id;
    char shared[PATH_MAX];
    const ssize_t bytes = s->dw->dwelf_dwarf_gnu_debugaltlink(f->dwarf, &name, &id);
    if (bytes <= 0)
        return (int)bytes;
    for (int i = 0; i < 2; i++) {
        int rc;
        if (i == 0)
            rc = format_build_id_path(s, id, (size_t)bytes, shared);
        else if (*name == '/')
            rc = format_path(shared, "%s%s", get_sysroot(s), name);
        else
            rc = format_path(shared, "%.*s/%s", folder_length(path), path, name);
        if (!rc && !open_elf(s, &f->shared, open_file(shared), id, (size_t)bytes) &&
            (f->shared_dwarf = begin_dwarf(s->dw, f->shared.elf))) {
            s->dw->dwarf_setalt(f->dwarf, f->shared_dwarf);
            return 0;
        }
        close_elf(s->dw, &f->shared);
    }
    return -1;
}

static void close_dwarf(const struct ct_libdw *dw, struct ct_debug_file *f) {
    if (f->dwarf)
        dw->dwarf_end(f->dwarf);
    if (f->shared_dwarf)
        dw->dwarf_end(f->shared_dwarf);
    f->dwarf = f->shared_dwarf = NULL;
    close_elf(dw, &f->shared);
    close_elf(dw, &f->main);
}

// Opens a candidate; closes the descriptor with it. 0 if it has the debug information.
static int try_file(const struct search *s, int fd, const char *path) {
    struct ct_debug_file *f = s->to;
    Dwarf_CU *unit = NULL;
    if (open_elf(s, &f->main, fd, s->module->build_id, s->module->build_id_bytes))
        return -1;
    f->dwarf = begin_dwarf(s->dw, f->main.elf);
    if (f->dwarf && s->dw->dwarf_get_units(f->dwarf, NULL, &unit, NULL, NULL, NULL, NULL) == 0 &&
        open_shared(s, path) == 0)
        return note_found(s, CT_DEBUG_FOUND);
    return note_found(s, CT_DEBUG_NONE_IN_IT);
}

// Tries the module's own file. `link` gets the name of its debug file, if it has one.
static int try_own_file(const struct search *s, char *path, char *link) {
    GElf_Word crc;
    *link = 0;
    if (*s->module->path != '/' || format_path(path, "%s%s", get_sysroot(s), s->module->path))
        return -1;
    const int rc = try_file(s, open_file(path), path);
    const char *name =
        rc && s->to->main.elf ? s->dw->dwelf_elf_gnu_debuglink(s->to->main.elf, &crc) : NULL;
    if (name && *name && !strchr(name, '/') && format_path(link, "%s", name))
        *link = 0;
    return rc;
}

static int try_separate_files(const struct search *s, const char *own, const char *link) {
    char folder[PATH_MAX], path[PATH_MAX];
    const char *recorded = s->module->path;
    if (format_debug_dir(s, folder))
        return -1;
    for (int i = 0; i < 6; i++) {
        const int n = folder_length(own);
        int rc = -1;
        if (i == 0)
            rc = format_build_id_path(s, s->module->build_id, s->module->build_id_bytes, path);
        else if (i == 1 && *recorded == '/')
            rc = format_path(path, "%s%s.debug", folder, recorded);
        else if (i == 2 && *recorded == '/')
            rc = format_path(path, "%s%s", folder, recorded);
        else if (i == 3 && *link)
            rc = format_path(path, "%s%.*s/%s", folder, folder_length(recorded), recorded, link);
        else if (i == 4 && *link)
            rc = format_path(path, "%.*s/%s", n, own, link);
        else if (i == 5 && *link)
            rc = format_path(path, "%.*s/.debug/%s", n, own, link);
        if (rc)
            continue;
        const int fd = open_file(path);
        if (fd < 0)
            continue;
        close_dwarf(s->dw, s->to);
        if (try_file(s, fd, path) == 0)
            return 0;
    }
    return -1;
}

// ---- debuginfod
// ------------------------------------------------------------------------------------- Called
// directly and on request only, because libdwfl asks the servers whenever the environment names
// some.

typedef struct debuginfod_client client;
typedef int find(client *c, const unsigned char *build_id, int bytes, char **path);

static int try_server(const struct search *s) {
    void *const library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    client *(*begin)(void);
    void (*end)(client *);
    find *find_it;
    char *path = NULL;
    if (!library)
        return -1;
    *(void **)&begin = dlsym(library, "debuginfod_begin");
    *(void **)&end = dlsym(library, "debuginfod_end");
    *(void **)&find_it = dlsym(library, "debuginfod_find_debuginfo");
    client *const c = begin && end && find_it ? begin() : NULL;
    if (!c)
        return -1;
    const int fd = find_it(c, s->module->build_id, (int)s->module->build_id_bytes, &path);
    int rc = -1;
    if (fd >= 0) {
        close_dwarf(s->dw, s->to);
        rc = try_file(s, fd, path ? path : "");
    }
    free(path);
    end(c);
    return rc;
}

// ---- search -------------------------------------------------------------------------------------

void ct_debug_file_open(struct ct_debug_file *f, const struct ct_debug_search *search,
                        const struct ct_debug_module *module) {
    char own[PATH_MAX] = "", link[PATH_MAX] = "";
    const struct search s = {ct_libdw(), search, module, f};
    *f = (struct ct_debug_file){.main.fd = -1, .shared.fd = -1, .found = CT_DEBUG_NO_READER};
    if (!s.dw)
        return;
    f->found = module->build_id_bytes < 2 ? CT_DEBUG_NO_ID : CT_DEBUG_NOT_HERE;
    if (f->found != CT_DEBUG_NO_ID && try_own_file(&s, own, link) &&
        try_separate_files(&s, own, link) && search->debuginfod)
        (void)try_server(&s);
    if (f->found != CT_DEBUG_FOUND)
        close_dwarf(s.dw, f);
}

#endif
