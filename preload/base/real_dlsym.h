// SPDX-License-Identifier: Apache-2.0
// The dlsym and dlvsym behind our own. Callable at any time, also before our constructor.
#ifndef CT_FIND_DLSYM_H
#define CT_FIND_DLSYM_H

#include <stdint.h>

typedef void *ct_dlsym_fn(void *handle, const char *name);
typedef void *ct_dlvsym_fn(void *handle, const char *name, const char *version);

// The next definition in load order (perhaps another interposer's), for what the host asks.
ct_dlsym_fn *ct_real_dlsym_get_next(void);
ct_dlvsym_fn *ct_real_dlvsym_get_next(void);

// The C library's own, for what we ask.
ct_dlsym_fn *ct_real_dlsym_get_libc(void);

// A function in any loaded object, NULL if there is none.
void *ct_real_dlsym_find_function(const char *name);

// A function or variable that an object defines, NULL if there is none. For the callbacks of dl_iterate_phdr.
struct dl_phdr_info;
void *ct_real_dlsym_find_in_object(const struct dl_phdr_info *object, const char *name, uint64_t *bytes);

// For the assembly only.
void *ct_real_dlsym_resolve(void);
void *ct_real_dlvsym_resolve(void);
extern void *ct_real_dlsym, *ct_real_dlvsym;

#endif
