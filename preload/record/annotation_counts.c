// SPDX-License-Identifier: Apache-2.0
#include "record/annotation_counts.h"

#include <stdatomic.h>

#include "write/info_table.h"

static _Atomic uint64_t calls, early, skipped;

static void publish(void) {
    const uint64_t n = atomic_load_explicit(&calls, memory_order_relaxed);
    if (!n)
        return;
    ct_info_set("annotations.calls", "%lu", n);
    ct_info_set("annotations.early", "%lu",
                (uint64_t)atomic_load_explicit(&early, memory_order_relaxed));
    const uint64_t left_out = atomic_load_explicit(&skipped, memory_order_relaxed);
    if (left_out)
        ct_info_set("annotations.skipped", "%lu", left_out);
}

void ct_annotation_count_call(void) {
    static _Atomic int has_source;
    if (!atomic_load_explicit(&has_source, memory_order_relaxed) &&
        !atomic_exchange(&has_source, 1))
        (void)ct_info_add_source(publish);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

void ct_annotation_count_early(void) {
    atomic_fetch_add_explicit(&early, 1, memory_order_relaxed);
}

void ct_annotation_count_skipped(uint64_t count) {
    atomic_fetch_add_explicit(&skipped, count, memory_order_relaxed);
}

void ct_annotation_counts_reinit_child(uint64_t left_out) {
    atomic_store_explicit(&calls, left_out, memory_order_relaxed);
    atomic_store_explicit(&early, left_out, memory_order_relaxed);
    atomic_store_explicit(&skipped, 0, memory_order_relaxed);
}
