// SPDX-License-Identifier: Apache-2.0
// How this library came into the process: by LD_PRELOAD, where its hooks see the calls; by the
// driver, which loads what CUDA_INJECTION64_PATH names in cuInit; by both.
#ifndef CT_LOAD_WAY_H
#define CT_LOAD_WAY_H

// The driver has called InitializeInjection. Calls into the loader.
void ct_load_way_note_injection(void);

// CUDA_INJECTION64_PATH names this library.
int ct_load_way_is_injected(void);

// It does, and the driver has not called InitializeInjection yet.
int ct_load_way_awaits_injection(void);

// Whether the symbols of this library are in the program's global scope. Not so: no wrapper runs,
// and no look-up of a program's is seen.
int ct_load_way_has_hooks(void);

// The entry point of a tool that was to be loaded in our place, as `cutrace run` keeps it in an
// environment variable; NULL: there is none.
void *ct_load_way_find_next(const char *variable, const char *entry_point);

void ct_load_way_publish_info(void);

#endif
