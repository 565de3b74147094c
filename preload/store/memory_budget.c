// SPDX-License-Identifier: Apache-2.0
// How much memory CUTRACE_MEMORY may use for chunks: what was asked for, but at most half of what
// is free.
#include "store/memory_budget.h"

#include <string.h>

#include <cutrace/format/journal.h>

#include "base/min.h"
#include "base/options.h"
#include "base/print.h"

#define MIB (UINT64_C(1) << 20)
#define DEFAULT_BYTES (256 * MIB) // if CUTRACE_MAX_SIZE sets no bound
#define MIN_BYTES (8 * MIB)       // a smaller ring is not useful

static char report[200];

static uint64_t get_wanted_bytes(void) {
    const uint64_t asked = CT_OPTION_NUMBER(MAX_SIZE);
    if (!asked)
        return DEFAULT_BYTES;
    return asked < MIB ? MIB : asked;
}

uint64_t ct_memory_budget_get_bytes(uint64_t free_bytes) {
    const uint64_t wanted = get_wanted_bytes();
    uint64_t bytes = wanted;
    while (bytes > free_bytes / 2 && bytes / 2 >= MIN_BYTES)
        bytes /= 2;
    if (bytes > free_bytes / 2)
        return 0;
    bytes -= bytes % CT_JOURNAL_PAGE;
    if (bytes < wanted - wanted % CT_JOURNAL_PAGE)
        ct_print(report, sizeof report,
                 "CUTRACE_MEMORY keeps %lu MiB, not %lu: there is too little memory for files",
                 bytes / MIB, wanted / MIB);
    return bytes;
}

uint64_t ct_memory_budget_get_first_bytes(uint64_t bytes) {
    return ct_min(bytes, MIN_BYTES);
}

void ct_memory_budget_report_failure(int rc) {
    ct_print(
        report, sizeof report,
        "CUTRACE_MEMORY is not in force: no memory for files: %s; the trace is written as it grows",
        ct_print_strerror(-rc));
}

void ct_memory_budget_report_shrink(uint64_t ready) {
    ct_print(report, sizeof report,
             "CUTRACE_MEMORY keeps %lu MiB from now on: there is no more memory for files",
             ready / MIB);
}

const char *ct_memory_budget_take_error(void) {
    static char text[sizeof report];
    if (!*report)
        return NULL;
    memcpy(text, report, sizeof text);
    *report = 0;
    return text;
}
