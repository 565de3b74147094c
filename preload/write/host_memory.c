// SPDX-License-Identifier: Apache-2.0
// MemAvailable is what programs can have without swapping, with the page cache that the kernel
// would drop for them (proc(5)). Free memory of cuMemGetInfo may lack that cache on such a device.
#include "write/host_memory.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/read_file.h"

#define REPEAT_NS UINT64_C(30000000000)
#define SMALL_PART 256u

static _Atomic uint64_t watched; // a bit for each device

void ct_host_memory_watch(int device) {
    if (device >= 0 && device < 64)
        atomic_fetch_or(&watched, UINT64_C(1) << device);
}

int ct_host_memory_is_shared(int device) {
    return device >= 0 && device < 64 && atomic_load(&watched) >> device & 1;
}

void ct_host_memory_sample(void (*record)(struct ct_event *)) {
    static uint64_t last_used, sampled_ns;
    char text[1024]; // both are in the first lines
    const uint64_t now = ct_clock_read();
    uint64_t total = 0, available = 0; // KiB
    if (!atomic_load(&watched))
        return;
    text[ct_read_file("/proc/meminfo", text, sizeof text - 1)] = 0;
    if (!ct_read_number_after(text, "MemTotal:", &total) ||
        !ct_read_number_after(text, "MemAvailable:", &available) || !available || available > total)
        return;
    total <<= 10;
    const uint64_t used = total - (available << 10);
    const uint64_t apart = used > last_used ? used - last_used : last_used - used;
    if (sampled_ns && apart < total / SMALL_PART && now - sampled_ns < REPEAT_NS)
        return;
    last_used = used;
    sampled_ns = now;
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_HOST_SAMPLE);
    CT_SET(&e, total_bytes, total);
    CT_SET(&e, used_bytes, used);
    record(&e);
}
