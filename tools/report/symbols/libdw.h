// SPDX-License-Identifier: Apache-2.0
// The functions of libdw (elfutils), which is loaded on first use: cutrace-report itself needs only
// the C library, and without libdw it only shows no source lines. Built without the headers of
// elfutils, it never does.
#ifndef CT_LIBDW_H
#define CT_LIBDW_H

// Why libdw is not available, or NULL if it is.
const char *ct_libdw_missing(void);

#ifndef CT_WITHOUT_ELFUTILS
#if __has_include(<elfutils/libdwfl.h>)
#define CT_HAVE_LIBDW 1
#endif
#endif

#ifdef CT_HAVE_LIBDW
#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>

#define CT_LIBDW_FUNCTIONS(X)       \
    X(elf_version)                  \
    X(elf_begin)                    \
    X(elf_end)                      \
    X(elf_kind)                     \
    X(dwelf_elf_gnu_build_id)       \
    X(dwelf_elf_gnu_debuglink)      \
    X(dwelf_dwarf_gnu_debugaltlink) \
    X(dwfl_version)                 \
    X(dwarf_begin_elf)              \
    X(dwarf_end)                    \
    X(dwarf_new_oom_handler)        \
    X(dwarf_setalt)                 \
    X(dwarf_get_units)              \
    X(dwarf_child)                  \
    X(dwarf_siblingof)              \
    X(dwarf_tag)                    \
    X(dwarf_dieoffset)              \
    X(dwarf_diename)                \
    X(dwarf_haspc)                  \
    X(dwarf_ranges)                 \
    X(dwarf_hasattr)                \
    X(dwarf_attr)                   \
    X(dwarf_attr_integrate)         \
    X(dwarf_formref_die)            \
    X(dwarf_formstring)             \
    X(dwarf_formudata)              \
    X(dwarf_getsrc_die)             \
    X(dwarf_linesrc)                \
    X(dwarf_lineno)                 \
    X(dwarf_getsrcfiles)            \
    X(dwarf_filesrc)

struct ct_libdw {
#define X(name) __typeof__(name) *name;
    CT_LIBDW_FUNCTIONS(X)
#undef X
};

// All of its functions, or NULL.
const struct ct_libdw *ct_libdw(void);
#endif

#endif
