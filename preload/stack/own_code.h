// SPDX-License-Identifier: Apache-2.0
// The executable addresses of this library. Its own frames are left out of every stack.
#ifndef CT_OWN_CODE_H
#define CT_OWN_CODE_H

#include <stdint.h>

// Empty in a program that links the recorder itself (a unit test): its frames are the ones to show.
// Written once, by ct_own_code_find. (The attribute spares each reader a load from the global
// offset table.)
extern __attribute__((visibility("hidden"))) uintptr_t ct_own_code_start, ct_own_code_bytes;

// Before the first capture, by one thread.
void ct_own_code_find(void);

static inline int ct_own_code_has(uintptr_t pc) {
    return pc - ct_own_code_start < ct_own_code_bytes;
}

#endif
