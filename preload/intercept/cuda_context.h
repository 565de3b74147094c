// SPDX-License-Identifier: Apache-2.0
// Which context a thread is in, and which device a context is on. Contexts are driver handles as
// integers, 0: none; devices are ordinals. Any thread at any time.
#ifndef CT_CUDA_CONTEXT_H
#define CT_CUDA_CONTEXT_H

#include <stdint.h>

#define CT_NO_DEVICE_ORDINAL (-1)
#define CT_MAX_ORDINALS 64

// The thread's current context and its device: 1, or 0 if there is none.
int ct_context_current(uint64_t *context, int *device);

// The device of a context, CT_NO_DEVICE_ORDINAL if it is not known.
int ct_context_device(uint64_t context);

// The hooks report each creation and destruction.
void ct_context_created(uint64_t context, int device);
void ct_context_destroyed(uint64_t context);

// The primary context of a device as last retained, 0 if unknown.
uint64_t ct_context_primary(int device);
void ct_context_set_primary(int device, uint64_t context);

#endif
