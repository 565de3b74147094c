// SPDX-License-Identifier: Apache-2.0
// Gives names to the frames that have none, and drains. Above both the symbolizer, which a drain
// calls for the line about an OOM, and the drain.
#include "write/name_pending.h"

#include "write/drain.h"
#include "write/drain_lock.h"
#include "write/symbolizer.h"

int ct_name_pending_resolve(unsigned ms) {
    struct ct_signal_guard guard;
    int modules_changed;
    const int rc = ct_symbolizer_resolve(ms, &modules_changed);
    if (rc < 0)
        return rc;
    if (rc > 0 && !ct_drain_lock_wait(&guard, 1000)) {
        ct_drain_run(CT_DRAIN_EVENTS);
        ct_drain_lock_release(&guard);
    }
    return modules_changed;
}
