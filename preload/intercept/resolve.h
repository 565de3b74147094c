// SPDX-License-Identifier: Apache-2.0
// Look-ups of driver functions: which answer the program gets.
#ifndef CT_RESOLVE_H
#define CT_RESOLVE_H

#include <stdint.h>

#include "intercept/look_ups.h"

// Returns the replacement of a resolver's answer: this library's entry for it, or the answer
// itself. `version` as passed to cuGetProcAddress (0: unknown), `flags` as
// CUdriverProcAddress_flags. `way`: what was asked.
void *ct_resolve_substitute(enum ct_look_up_way way, const char *base, int version, uint64_t flags,
                            void *answer);

// Publishes which look-ups got an entry and which names have no wrapper (INFO way.resolved.SYMBOL,
// unwrapped.NAME.VERSION).
void ct_resolve_publish_info(void);

// For the assembly of dlsym and dlvsym only (dlsym_*.S). wants_dlsym: whether a look-up of a name
// `cu[A-Z]...` by `caller` goes to ct_resolve_dlsym or ct_resolve_dlvsym; the others have the
// parameters and the result of dlsym and dlvsym.
int ct_resolve_wants_dlsym(void *handle, const char *name, const void *caller);
void *ct_resolve_dlsym(void *handle, const char *name);
void *ct_resolve_dlvsym(void *handle, const char *name, const char *version);

#endif
