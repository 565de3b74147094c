// SPDX-License-Identifier: Apache-2.0
// Finds dlsym, dlvsym and other symbols in the loaded objects without calling dlsym, whose name
// this library takes. Any thread, at any time, also before our constructor.
#ifndef CT_BASE_REAL_DLSYM_H
#define CT_BASE_REAL_DLSYM_H

#include <link.h>
#include <stdint.h>

struct dl_phdr_info; // with _GNU_SOURCE only

typedef void *ct_dlsym_fn(void *handle, const char *name);
typedef void *ct_dlvsym_fn(void *handle, const char *name, const char *version);

// The next definition after ours in load order, which may be another interposer's: for look-ups of
// the host.
ct_dlsym_fn *ct_real_dlsym_get_next(void);
ct_dlvsym_fn *ct_real_dlvsym_get_next(void);

// The C library's definition: for look-ups of our own.
ct_dlsym_fn *ct_real_dlsym_get_libc(void);

// Finds a function in any loaded object. NULL if there is none.
void *ct_real_dlsym_find_function(const char *name);

// Finds a function or variable that an object defines, and its size. NULL if there is none. For
// callbacks of dl_iterate_phdr.
void *ct_real_dlsym_find_in_object(const struct dl_phdr_info *object, const char *name,
                                   uint64_t *bytes);

// The segment of an object that an address lies in; NULL: it lies elsewhere.
const ElfW(Phdr) * ct_real_dlsym_find_segment(const struct dl_phdr_info *object, uintptr_t address);

// For the assembly of dlsym_*.S only: the next definitions, NULL until they are resolved, and what
// resolves them.
extern void *ct_real_dlsym, *ct_real_dlvsym;
void *ct_real_dlsym_resolve(void);
void *ct_real_dlvsym_resolve(void);

#endif
