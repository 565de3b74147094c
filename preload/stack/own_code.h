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

// In a call-back of CUPTI's, the code of CUPTI and of the driver lies between the program and this
// library: their innermost frames are left out, too, while this is set.
extern __thread __attribute__((visibility("hidden"))) int ct_own_code_in_call_back;

// Adds the executable addresses of the object that has `address` in it. Before the first call-back,
// by one thread; at most four objects.
void ct_own_code_add_passed(const void *address);

// Whether an innermost frame with this address is left out. For frames of no recorded function
// further in only.
int ct_own_code_is_passed(uintptr_t pc);

static inline int ct_own_code_has(uintptr_t pc) {
    return pc - ct_own_code_start < ct_own_code_bytes;
}

#endif
