// SPDX-License-Identifier: Apache-2.0
// Looks again at what the loader has loaded.
#include "record/rescan.h"

#include <stdatomic.h>
#include <stddef.h>

#include "record/wakeup.h"
#include "stack/capture.h"

static void (*_Atomic hook_scan)(void);
static _Atomic int requested;

void ct_rescan_set(void (*scan)(void)) {
    atomic_store(&hook_scan, scan);
}

void ct_rescan(void) {
    void (*scan)(void) = atomic_load(&hook_scan);
    atomic_store(&requested, 0);
    ct_capture_rescan();
    if (scan)
        scan();
}

void ct_rescan_request(void) {
    if (!atomic_exchange(&requested, 1))
        ct_wakeup_hurry();
}

int ct_rescan_is_requested(void) {
    return atomic_load_explicit(&requested, memory_order_relaxed);
}
