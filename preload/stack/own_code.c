// SPDX-License-Identifier: Apache-2.0
// The executable addresses of this library, from its own program headers.
#define _GNU_SOURCE
#include "stack/own_code.h"

#include <dlfcn.h>
#include <link.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

uintptr_t ct_own_code_start, ct_own_code_bytes;

static void find_code(const ElfW(Ehdr) * header, uintptr_t *start, uintptr_t *bytes) {
    const ElfW(Phdr) *p = (const void *)((const char *)header + header->e_phoff);
    uintptr_t base = 0;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && p[i].p_offset == 0)
            base = (uintptr_t)header - p[i].p_vaddr;
        if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X) {
            *start = base + p[i].p_vaddr;
            *bytes = p[i].p_memsz;
        }
    }
}

void ct_own_code_find(void) {
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    const ElfW(Phdr) *p = (const void *)(__ehdr_start + header->e_phoff);
    find_code(header, &ct_own_code_start, &ct_own_code_bytes);
    // Only a program asks for an interpreter (ld.so).
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (p[i].p_type == PT_INTERP)
            ct_own_code_bytes = 0;
}

// ---- code that a call-back comes through ------------------------------------------------------

__thread int ct_own_code_in_call_back;

#define PASSED 4
static struct { uintptr_t start, bytes; } passed[PASSED];
static unsigned passed_count;

void ct_own_code_add_passed(const void *address) {
    Dl_info info;
    if (!address || !dladdr(address, &info) || !info.dli_fbase || passed_count == PASSED)
        return;
    find_code(info.dli_fbase, &passed[passed_count].start, &passed[passed_count].bytes);
    passed_count++;
}

int ct_own_code_is_passed(uintptr_t pc) {
    for (unsigned i = 0; i < passed_count; i++)
        if (pc - passed[i].start < passed[i].bytes)
            return 1;
    return 0;
}
