// SPDX-License-Identifier: Apache-2.0
// Which context a thread is in, which device a context is on, and what the devices are.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cutrace/format/hot.h>

#include "intercept/driver.h"
#include "intercept/hooks.h"
#include "write/nvml.h"

// Contexts seen, so that the driver is asked for a context's device once. A context's address may be reused
// for another device, therefore the generation: it changes whenever a context ends.
#define CONTEXTS 64
static struct {
    _Atomic uint64_t context;
    atomic_int device;
} known[CONTEXTS];
static _Atomic uint64_t generation = 1;
static _Atomic uint64_t primary[CT_MAX_ORDINALS]; // as last retained; a reset leaves it in place
static atomic_int announced[CT_MAX_ORDINALS];

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

// A context that was not known yet (it had been reset) is asked for again.
CT_COLD void find_device(uint64_t context, uint64_t now) {
    const struct ct_driver *driver = ct_driver();
    CUdevice d;
    int on = ct_context_device(context);
    if (on == CT_NO_DEVICE_ORDINAL && driver->ctx_get_device &&
        driver->ctx_get_device(&d) == CUDA_SUCCESS) {
        on = d;
        ct_context_created(context, on);
    }
    last.context = context;
    last.generation = now;
    last.device = on;
}

int ct_context_current(uint64_t *context, int *device) {
    const struct ct_driver *driver = ct_driver();
    CUcontext current = NULL;
    if (!driver->ctx_get_current || driver->ctx_get_current(&current) != CUDA_SUCCESS || !current)
        return 0;
    const uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    *context = (uint64_t)(uintptr_t)current;
    if (__builtin_expect(last.context != *context || last.generation != now ||
                             last.device == CT_NO_DEVICE_ORDINAL,
                         0))
        find_device(*context, now);
    *device = last.device;
    return 1;
}

// ---- what a device is -----------------------------------------------------------------------

// UUIDs identify a machine: traces carry a hash, which is enough to tell devices apart.
static uint64_t hash_uuid(const CUuuid *uuid) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof uuid->bytes; i++)
        h = (h ^ (unsigned char)uuid->bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void tell(int device, const char *what, const char *text) {
    char key[64];
    snprintf(key, sizeof key, "device.%d.%s", device, what);
    ct_info_set(key, "%s", text);
}

static void tell_number(int device, const char *what, unsigned long long number) {
    char text[24];
    snprintf(text, sizeof text, "%llu", number);
    tell(device, what, text);
}

CT_COLD void announce(int device) {
    const struct ct_driver *driver = ct_driver();
    CUdevice d = device;
    CUuuid uuid;
    char name[128], text[32];
    size_t total = 0, free_bytes, total_bytes;
    int major, minor, version;
    memset(&uuid, 0, sizeof uuid);
    if (driver->device_name && driver->device_name(name, sizeof name, d) == CUDA_SUCCESS)
        tell(device, "name", name);
    if (driver->device_total && driver->device_total(&total, d) == CUDA_SUCCESS)
        tell_number(device, "total_bytes", total);
    if (ct_mem_info_read(&free_bytes, &total_bytes))
        tell_number(device, "meminfo_total_bytes", total_bytes);
    if (driver->device_attribute &&
        driver->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d) == 0 &&
        driver->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d) == 0) {
        snprintf(text, sizeof text, "%d.%d", major, minor);
        tell(device, "compute_capability", text);
    }
    if (driver->driver_version && driver->driver_version(&version) == CUDA_SUCCESS)
        ct_info_set("cuda.driver_version", "%d", version);
    ct_info_set("cuda.headers_version", "%d", CUDA_VERSION);
    // _v2 tells a MIG slice from its GPU.
    if ((driver->device_uuid && driver->device_uuid(&uuid, d) == CUDA_SUCCESS) ||
        (driver->device_uuid_v1 && driver->device_uuid_v1(&uuid, d) == CUDA_SUCCESS)) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)hash_uuid(&uuid));
        tell(device, "uuid_hash", text);
        ct_nvml_add_device(device, (const unsigned char *)uuid.bytes, total);
    }
}

void ct_device_info_publish(int device) {
    if (device < 0 || device >= CT_MAX_ORDINALS ||
        atomic_load_explicit(&announced[device], memory_order_relaxed) || ct_stream_any_capturing())
        return;
    if (!atomic_exchange(&announced[device], 1))
        announce(device);
}
