// SPDX-License-Identifier: Apache-2.0
// Asks the driver for free memory and samples it; and once for each device what that is.
#define _GNU_SOURCE
#include "intercept/device_info.h"

#include <stdatomic.h>
#include <string.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/hot.h>

#include "base/options.h"
#include "base/print.h"
#include "intercept/cuda_context.h"
#include "intercept/driver.h"
#include "intercept/stream.h"
#include "record/publish.h"
#include "store/ring.h"
#include "write/host_memory.h"
#include "write/info_table.h"
#include "write/nvml.h"

// ---- free memory ------------------------------------------------------------------------------

// Of each device: the time of its last memory-sample.
static _Atomic uint64_t sampled_ns[CT_MAX_ORDINALS];

// The thread has met a failed allocation since its last memory-sample.
static __thread int has_failed;

void ct_mem_info_note_failure(void) {
    has_failed = 1;
}

// The next definition is asked, not the driver: if a limiter is in the chain, its answer is the one
// that the program lives with.
__attribute__((noinline)) int ct_mem_info_read(size_t *free_bytes, size_t *total_bytes) {
    ct_fn_cuMemGetInfo_v2 *const mem_info =
        (ct_fn_cuMemGetInfo_v2 *)ct_next_function(CT_ID_cuMemGetInfo_v2);
    return mem_info && !ct_stream_any_capturing() &&
           CT_ASK(mem_info(free_bytes, total_bytes)) == CUDA_SUCCESS;
}

// `now_ns` may lie before the last sample, which another thread has taken.
int ct_mem_info_sample_is_due(int device, uint64_t now_ns) {
    CT_ASSERT(device >= 0 && device < CT_MAX_ORDINALS);
    const uint64_t last = atomic_load_explicit(&sampled_ns[device], memory_order_relaxed);
    const uint64_t interval = CT_OPTION_NUMBER(SAMPLE_MS);
    return !interval || (now_ns >= last && now_ns - last >= interval);
}

// Of several threads that find the interval over, one publishes the sample.
static int claim_sample(int device, uint64_t now_ns) {
    _Atomic uint64_t *const sampled = &sampled_ns[device];
    uint64_t last = atomic_load_explicit(sampled, memory_order_relaxed);
    return ct_mem_info_sample_is_due(device, now_ns) &&
           atomic_compare_exchange_strong_explicit(sampled, &last, now_ns, memory_order_relaxed,
                                                   memory_order_relaxed);
}

static void publish_sample(uint32_t api, uint64_t context, int device, size_t free_bytes,
                           size_t total_bytes) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE);
    CT_SET(&e, api, api);
    CT_SET(&e, device, device);
    CT_SET(&e, context, context);
    CT_SET(&e, free_bytes, free_bytes);
    CT_SET(&e, total_bytes, total_bytes);
    ct_publish(&e);
}

__attribute__((noinline)) void ct_mem_info_sample(uint32_t api, int force) {
    uint64_t context;
    int device;
    size_t free_bytes, total_bytes;
    if (!ct_context_current(&context, &device) || device < 0 || device >= CT_MAX_ORDINALS)
        return;
    const int claimed = claim_sample(device, ct_ring_now());
    if ((claimed || force) && ct_mem_info_read(&free_bytes, &total_bytes))
        publish_sample(api, context, device, free_bytes, total_bytes);
}

void ct_mem_info_sample_given(uint32_t api, size_t free_bytes, size_t total_bytes) {
    uint64_t context;
    int device;
    if (!ct_context_current(&context, &device) || device < 0 || device >= CT_MAX_ORDINALS)
        return;
    if (claim_sample(device, ct_ring_now()) || has_failed)
        publish_sample(api, context, device, free_bytes, total_bytes);
    has_failed = 0;
}

// ---- what a device is -------------------------------------------------------------------------

static atomic_int published[CT_MAX_ORDINALS];

// UUIDs identify a machine. A trace has a hash instead, which is enough to tell devices apart.
static uint64_t hash_uuid(const CUuuid *uuid) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof uuid->bytes; i++)
        h = (h ^ (unsigned char)uuid->bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void publish_compute_capability(int device) {
    const struct ct_driver *driver = ct_driver();
    char key[64];
    int major, minor;
    if (!driver->device_attribute ||
        CT_ASK(driver->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                        device)) ||
        CT_ASK(
            driver->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)))
        return;
    ct_print(key, sizeof key, "device.%d.compute_capability", device);
    ct_info_set(key, "%d.%d", major, minor);
}

// Whether the device shares the host's memory (a Jetson, a GB10), and whether it reads memory of
// malloc: then host programs and allocations of the device compete, and "free" is the host's.
static void publish_host_access(int device) {
    static const struct {
        CUdevice_attribute attribute;
        const char *name;
    } list[] = {
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, "integrated"},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, "pageable_memory_access"},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, "host_page_tables"},
    };
    const struct ct_driver *driver = ct_driver();
    int value;
    for (size_t i = 0; driver->device_attribute && i < sizeof list / sizeof *list; i++)
        if (CT_ASK(driver->device_attribute(&value, list[i].attribute, device)) == CUDA_SUCCESS) {
            ct_info_set_number((uint64_t)value, "device.%d.%s", device, list[i].name);
            if (list[i].attribute == CU_DEVICE_ATTRIBUTE_INTEGRATED && value)
                ct_host_memory_watch(device);
        }
}

// Of a MIG instance, the second version of the function has the slice's own UUID, the first the
// GPU's.
static int read_uuid(int device, CUuuid *uuid) {
    const struct ct_driver *driver = ct_driver();
    return (driver->device_uuid && CT_ASK(driver->device_uuid(uuid, device)) == CUDA_SUCCESS) ||
           (driver->device_uuid_v1 && CT_ASK(driver->device_uuid_v1(uuid, device)) == CUDA_SUCCESS);
}

CT_COLD void publish(int device) {
    const struct ct_driver *driver = ct_driver();
    CUuuid uuid;
    char key[64], name[128];
    size_t total = 0, free_bytes, total_bytes;
    int version;
    memset(&uuid, 0, sizeof uuid);
    ct_print(key, sizeof key, "device.%d.name", device);
    if (driver->device_name &&
        CT_ASK(driver->device_name(name, sizeof name, device)) == CUDA_SUCCESS)
        ct_info_set(key, "%s", name);
    if (driver->device_total && CT_ASK(driver->device_total(&total, device)) == CUDA_SUCCESS)
        ct_info_set_number(total, "device.%d.total_bytes", device);
    if (ct_mem_info_read(&free_bytes, &total_bytes))
        ct_info_set_number(total_bytes, "device.%d.meminfo_total_bytes", device);
    publish_compute_capability(device);
    publish_host_access(device);
    if (driver->driver_version && CT_ASK(driver->driver_version(&version)) == CUDA_SUCCESS)
        ct_info_set("cuda.driver_version", "%d", version);
    ct_info_set("cuda.headers_version", "%d", CUDA_VERSION);
    if (read_uuid(device, &uuid)) {
        ct_print(key, sizeof key, "device.%d.uuid_hash", device);
        ct_info_set(key, "%016lx", hash_uuid(&uuid));
        ct_nvml_add_device(device, (const unsigned char *)uuid.bytes, total);
    }
}

void ct_device_info_publish(int device) {
    if (device < 0 || device >= CT_MAX_ORDINALS ||
        atomic_load_explicit(&published[device], memory_order_relaxed) || ct_stream_any_capturing())
        return;
    if (!atomic_exchange(&published[device], 1))
        publish(device);
}
