// SPDX-License-Identifier: Apache-2.0
// The executable addresses of this library, from its own program headers.
#include "stack/own_code.h"

#include <link.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

uintptr_t ct_own_code_start, ct_own_code_bytes;

void ct_own_code_find(void) {
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    const ElfW(Phdr) *p = (const void *)(__ehdr_start + header->e_phoff);
    uintptr_t base = 0;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && p[i].p_offset == 0)
            base = (uintptr_t)header - p[i].p_vaddr;
        if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X) {
            ct_own_code_start = base + p[i].p_vaddr;
            ct_own_code_bytes = p[i].p_memsz;
        }
    }
    // Only a program asks for an interpreter (ld.so).
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (p[i].p_type == PT_INTERP)
            ct_own_code_bytes = 0;
}
