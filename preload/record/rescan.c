// SPDX-License-Identifier: Apache-2.0
// Looks again at what the loader has loaded.
#include "record/rescan.h"

#include <errno.h>

#include "base/loader_gate.h"
#include "record/wakeup.h"
#include "stack/capture.h"
#include "store/loaded_modules.h"

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

void ct_rescan_tables(struct ct_loaded_tables *tables, void (*add)(void)) {
    const int saved = errno;
    if (!ct_loader_gate_enter()) {
        const uint64_t loads = ct_loaded_modules_count_loads();
        if (atomic_load(&tables->loads) != loads && !atomic_exchange(&tables->changing, 1)) {
            add();
            atomic_store(&tables->loads, loads);
            atomic_store(&tables->changing, 0);
        }
        ct_loader_gate_leave();
    }
    errno = saved;
}

void ct_rescan_request(void) {
    if (!atomic_exchange(&requested, 1))
        ct_wakeup_ask(CT_WAKE_NOW);
}

int ct_rescan_is_requested(void) {
    return atomic_load_explicit(&requested, memory_order_relaxed);
}
