// SPDX-License-Identifier: Apache-2.0
// The address range of this library, which the linker's own symbols bound: the ELF header lies at
// its start, _end at its end.
#ifndef CT_OWN_IMAGE_H
#define CT_OWN_IMAGE_H

#include <stddef.h>

#include "base/real_dlsym.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char ct_image_end[] __asm__("_end") __attribute__((visibility("hidden")));

// Whether an address lies in this library's image. Any thread at any time.
static inline int ct_own_image_has(const void *address) {
    const char *p = address;
    return p >= __ehdr_start && p < ct_image_end;
}

// What dlsym finds, unless that is this library's own. Takes the loader's lock.
static inline void *ct_own_image_look_beyond(void *handle, const char *name) {
    void *const p = ct_real_dlsym_get_libc()(handle, name);
    return p && !ct_own_image_has(p) ? p : NULL;
}

#endif
