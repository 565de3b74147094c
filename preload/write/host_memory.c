// SPDX-License-Identifier: Apache-2.0
// MemAvailable is what programs can have without swapping, with the page cache that the kernel
// would drop for them (proc(5)). Free memory of cuMemGetInfo may lack that cache on such a device.
#include "write/host_memory.h"

#include <stdatomic.h>
#include <string.h>

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

// The figure after a name such as "MemAvailable" of /proc/meminfo, in bytes. Returns 0 if it is not
// there. `text` ends with a 0.
static uint64_t find_figure(const char *text, const char *name) {
    const size_t n = strlen(name);
    uint64_t kib = 0;
    while (text && (strncmp(text, name, n) != 0 || text[n] != ':')) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    if (!text)
        return 0;
    for (text += n + 1; *text == ' '; text++)
        ;
    for (; *text >= '0' && *text <= '9' && kib < UINT64_MAX >> 20; text++)
        kib = kib * 10 + (uint64_t)(*text - '0');
    return kib << 10;
}

void ct_host_memory_sample(void (*record)(struct ct_event *)) {
    static uint64_t last_used, sampled_ns;
    char text[1024]; // both are in the first lines
    const uint64_t now = ct_clock_read();
    if (!atomic_load(&watched))
        return;
    text[ct_read_file("/proc/meminfo", text, sizeof text - 1)] = 0;
    const uint64_t total = find_figure(text, "MemTotal"),
                   available = find_figure(text, "MemAvailable");
    if (!total || !available || available > total)
        return;
    const uint64_t used = total - available;
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
