// SPDX-License-Identifier: Apache-2.0
#include "record/survey.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "record/rescan.h"
#include "write/children.h"
#include "write/info_table.h"
#include "write/symbolizer.h"

#define FIRST_NS UINT64_C(1000000000)
#define LAST_NS (UINT64_C(600) * 1000000000)

static void (*_Atomic modules)(void);
static _Atomic unsigned looks;
static _Atomic int last_is_wanted, last_is_done;
static uint64_t due_ns, interval_ns; // the writer thread's

void ct_survey_set(void (*look)(void)) {
    atomic_store(&modules, look);
}

static void look(void) {
    // Who looked the driver up may have no frame in any stack.
    if (ct_symbolizer_rescan_modules() > 0)
        ct_rescan();
    void (*at_modules)(void) = atomic_load(&modules);
    if (at_modules)
        at_modules();
    ct_children_look();
    atomic_fetch_add(&looks, 1);
    ct_survey_publish_info();
}

void ct_survey_look_if_due(void) {
    const int is_last = atomic_load(&last_is_wanted) && !atomic_load(&last_is_done);
    const uint64_t now = ct_clock_read();
    if (!is_last && now < due_ns)
        return;
    look();
    interval_ns = interval_ns ? interval_ns * 2 : FIRST_NS;
    if (interval_ns > LAST_NS)
        interval_ns = LAST_NS;
    due_ns = now + interval_ns;
    if (is_last)
        atomic_store(&last_is_done, 1);
}

void ct_survey_ask_last(void) {
    atomic_store(&last_is_wanted, 1);
}

int ct_survey_is_finished(void) {
    return atomic_load(&last_is_done);
}

void ct_survey_publish_info(void) {
    ct_info_set("coverage.looks", "%u", atomic_load(&looks));
}

void ct_survey_reinit_child(void) {
    atomic_store(&looks, 0);
    atomic_store(&last_is_wanted, 0);
    atomic_store(&last_is_done, 0);
    due_ns = interval_ns = 0;
    ct_children_reinit_child();
}
