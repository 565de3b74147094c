// SPDX-License-Identifier: Apache-2.0
// The copies of the runtime library in the process, and which of them a call goes on to. A process
// may hold several in several versions (PyTorch's, a plugin's). Any thread at any time.
#ifndef CT_CUDART_COPIES_H
#define CT_CUDART_COPIES_H

#include <stdatomic.h>
#include <stdint.h>

// Whether the driver calls of a copy come through the driver hooks. They do not if the copy calls
// through a private table, or a driver that was opened in another namespace.
enum ct_driver_calls { CT_DRIVER_CALLS_UNKNOWN, CT_DRIVER_CALLS_VISIBLE, CT_DRIVER_CALLS_HIDDEN };

struct ct_cudart_copy {
    _Atomic uintptr_t base; // the address that it is loaded at; 0: a free entry
    atomic_int driver_calls;
    atomic_int version_is_published;
};

// The function that `caller`, a return address, would call if cutrace were not there, and the copy
// that it belongs to (never NULL). NULL if there is none.
void *ct_cudart_copies_find(const char *symbol, const void *caller, struct ct_cudart_copy **copy);

#endif
