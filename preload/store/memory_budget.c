// SPDX-License-Identifier: Apache-2.0
// The size of the ring of chunks in memory: what was asked for, at most half of what is free.
#include "store/memory_budget.h"

#include <string.h>

#include <cutrace/format/journal.h>

#include "base/options.h"
#include "base/print.h"

#define MIB (UINT64_C(1) << 20)
#define DEFAULT_BYTES (256 * MIB) // where the file has no bound
#define LEAST_BYTES (8 * MIB)     // less than that is of no use

static char trouble[200];

static uint64_t wanted_bytes(void) {
    const uint64_t asked = CT_OPTION_NUMBER(MAX_SIZE);
    if (!asked)
        return DEFAULT_BYTES;
    return asked < MIB ? MIB : asked;
}

uint64_t ct_memory_budget_get_bytes(uint64_t room) {
    const uint64_t wanted = wanted_bytes();
    uint64_t bytes = wanted;
    while (bytes > room / 2 && bytes / 2 >= LEAST_BYTES)
        bytes /= 2;
    if (bytes > room / 2)
        return 0;
    bytes -= bytes % CT_JOURNAL_PAGE;
    if (bytes < wanted - wanted % CT_JOURNAL_PAGE)
        ct_print(trouble, sizeof trouble,
                 "CUTRACE_MEMORY keeps %lu MiB, not %lu: there is too little memory for files",
                 bytes / MIB, wanted / MIB);
    return bytes;
}

uint64_t ct_memory_budget_get_first_bytes(uint64_t bytes) {
    return bytes < LEAST_BYTES ? bytes : LEAST_BYTES;
}

void ct_memory_budget_report_failure(int rc) {
    ct_print(
        trouble, sizeof trouble,
        "CUTRACE_MEMORY is not in force: no memory for files: %s; the trace is written as it grows",
        ct_print_strerror(-rc));
}

void ct_memory_budget_report_shrink(uint64_t ready) {
    ct_print(trouble, sizeof trouble,
             "CUTRACE_MEMORY keeps %lu MiB from now on: there is no more memory for files",
             ready / MIB);
}

const char *ct_memory_budget_take_error(void) {
    static char text[sizeof trouble];
    if (!*trouble)
        return NULL;
    memcpy(text, trouble, sizeof text);
    *trouble = 0;
    return text;
}
