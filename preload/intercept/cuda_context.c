// SPDX-License-Identifier: Apache-2.0
// A table of the contexts seen, so that the driver is asked for a context's device once, and in
// each thread a cache of its last look-up.
#define _GNU_SOURCE
#include "intercept/cuda_context.h"

#include <stdatomic.h>

#include <cutrace/format/hot.h>

#include "intercept/driver.h"

#define CONTEXTS 64
static struct {
    _Atomic uint64_t context;
    atomic_int device;
} known[CONTEXTS];

// Changes whenever a context is destroyed: its address may be reused for a context on another
// device.
static _Atomic uint64_t generation = 1;

// A reset leaves the primary context in place.
static _Atomic uint64_t primary[CT_MAX_ORDINALS];

static __thread struct {
    uint64_t context, generation;
    int device;
} last;

int ct_context_device(uint64_t context) {
    for (int i = 0; i < CONTEXTS; i++)
        if (context && atomic_load(&known[i].context) == context)
            return atomic_load(&known[i].device);
    return CT_NO_DEVICE_ORDINAL;
}

void ct_context_created(uint64_t context, int device) {
    for (int i = 0; context && i < CONTEXTS; i++) {
        uint64_t empty = 0;
        if (atomic_load(&known[i].context) == context) {
            atomic_store(&known[i].device, device);
            return;
        }
        // The device is stored first: a reader that finds the context finds its device.
        if (atomic_load(&known[i].context) == 0) {
            atomic_store(&known[i].device, device);
            if (atomic_compare_exchange_strong(&known[i].context, &empty, context))
                return;
        }
    }
}

void ct_context_destroyed(uint64_t context) {
    for (int i = 0; i < CONTEXTS; i++)
        if (context && atomic_load(&known[i].context) == context)
            atomic_store(&known[i].context, 0);
    atomic_fetch_add(&generation, 1);
}

uint64_t ct_context_primary(int device) {
    return device >= 0 && device < CT_MAX_ORDINALS ? atomic_load(&primary[device]) : 0;
}

void ct_context_set_primary(int device, uint64_t context) {
    if (device >= 0 && device < CT_MAX_ORDINALS)
        atomic_store(&primary[device], context);
    ct_context_created(context, device);
}

// Asks the driver for the device of the current context, unless the table has it. A reset context
// is not in the table.
CT_COLD void update_last(uint64_t context, uint64_t now) {
    const struct ct_driver *driver = ct_driver();
    CUdevice d;
    int device = ct_context_device(context);
    if (device == CT_NO_DEVICE_ORDINAL && driver->ctx_get_device &&
        CT_ASK(driver->ctx_get_device(&d)) == CUDA_SUCCESS) {
        device = d;
        ct_context_created(context, device);
    }
    last.context = context;
    last.generation = now;
    last.device = device;
}

int ct_context_current(uint64_t *context, int *device) {
    const struct ct_driver *driver = ct_driver();
    CUcontext current = NULL;
    if (!driver->ctx_get_current || CT_ASK(driver->ctx_get_current(&current)) != CUDA_SUCCESS ||
        !current)
        return 0;
    const uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    *context = (uint64_t)(uintptr_t)current;
    if (__builtin_expect(last.context != *context || last.generation != now ||
                             last.device == CT_NO_DEVICE_ORDINAL,
                         0))
        update_last(*context, now);
    *device = last.device;
    return 1;
}
