// SPDX-License-Identifier: Apache-2.0
// Looks up the driver functions that cutrace calls for itself.
#define _GNU_SOURCE
#include "intercept/driver.h"

#include <stdatomic.h>
#include <string.h>

#include <cutrace/format/hot.h>

#include "intercept/next_functions.h"

static struct ct_driver driver;
static atomic_int driver_is_known;

// Two threads may look up at once: both find the same functions.
CT_COLD void look_up_driver(void) {
    struct ct_driver found;
#define CT_LOOK_UP(member, symbol, prototype) found.member = ct_next_driver_symbol(#symbol);
    CT_DRIVER_FUNCTIONS(CT_LOOK_UP)
#undef CT_LOOK_UP
    // The driver is not loaded yet: the next call looks again.
    if (!found.ctx_get_current)
        return;
    memcpy(&driver, &found, sizeof driver);
    atomic_store_explicit(&driver_is_known, 1, memory_order_release);
}

const struct ct_driver *ct_driver(void) {
    if (__builtin_expect(!atomic_load_explicit(&driver_is_known, memory_order_acquire), 0))
        look_up_driver();
    return &driver;
}
