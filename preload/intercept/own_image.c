// SPDX-License-Identifier: Apache-2.0
// The linker's own symbols bound the image: the ELF header lies at its start, _end at its end.
#include "intercept/own_image.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char ct_image_end[] __asm__("_end") __attribute__((visibility("hidden")));

int ct_own_image_has(const void *address) {
    const char *p = address;
    return p >= __ehdr_start && p < ct_image_end;
}
