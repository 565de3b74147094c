// SPDX-License-Identifier: Apache-2.0
#include "read/device_kind.h"

#include <limits.h>
#include <stdio.h>

static int read_number(const struct ct_definitions *definitions, int device, const char *name,
                       int otherwise) {
    uint64_t value;
    const int is_known = ct_definitions_device_number(definitions, device, name, &value);
    return is_known && value <= INT_MAX ? (int)value : otherwise;
}

struct ct_device_kind ct_device_kind_read(const struct ct_definitions *definitions, int device) {
    return (struct ct_device_kind){
        .is_mig = read_number(definitions, device, "mig", 0) == 1,
        .gpu_instance = read_number(definitions, device, "mig_gpu_instance", -1),
        .compute_instance = read_number(definitions, device, "mig_compute_instance", -1),
        .card = read_number(definitions, device, "mig_card", -1),
        .is_shared_with_host = read_number(definitions, device, "integrated", 0) == 1,
        .numa_node = read_number(definitions, device, "numa_node", -1),
    };
}

int ct_device_kind_is_card(const struct ct_device_kind *kind) {
    return !kind->is_mig && !kind->is_shared_with_host && kind->numa_node < 0;
}

void ct_device_kind_describe(const struct ct_device_kind *kind, char *to, size_t size) {
    char ids[40] = "", card[24] = "";
    *to = 0;
    if (kind->gpu_instance >= 0 && kind->compute_instance >= 0)
        (void)snprintf(ids, sizeof ids, " %d/%d", kind->gpu_instance, kind->compute_instance);
    if (kind->card >= 0)
        (void)snprintf(card, sizeof card, " of card %d", kind->card);
    if (kind->is_mig)
        (void)snprintf(to, size, "MIG instance%s%s", ids, card);
    else if (kind->is_shared_with_host)
        (void)snprintf(to, size, "memory shared with the host");
    else if (kind->numa_node >= 0)
        (void)snprintf(to, size, "host NUMA node %d", kind->numa_node);
}
