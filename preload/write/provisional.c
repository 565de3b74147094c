// SPDX-License-Identifier: Apache-2.0
// The plan of provisional chunks.
#include "write/provisional.h"

#include "base/clock.h"
#include "base/options.h"

#define VERSIONS 3u // of a chunk, before it is complete

static struct {
    uint64_t contents, written; // of the open chunk, and of it in the file
    uint64_t due_ns;
    unsigned versions;
} s;

void ct_provisional_begin_chunk(void) {
    s.contents = s.written = s.due_ns = s.versions = 0;
}

// The time between something new and the provisional chunk that has it; 0: there is none. It is so
// long that VERSIONS of them are enough for the time until the chunk is complete.
static uint64_t choose_interval(uint64_t flush_ns) {
    const uint64_t asked = CT_OPTION_NUMBER(UPDATE_MS), least = flush_ns / (VERSIONS + 1);
    if (!asked || CT_OPTION_NUMBER(MEMORY) || s.versions == VERSIONS)
        return 0;
    return asked > least ? asked : least;
}

uint64_t ct_provisional_plan(uint64_t contents, uint64_t flush_ns) {
    const uint64_t interval = choose_interval(flush_ns);
    s.contents = contents;
    if (contents == s.written || !interval)
        s.due_ns = 0;
    else if (!s.due_ns)
        s.due_ns = ct_clock_read() + interval;
    return s.due_ns;
}

int ct_provisional_is_due(void) {
    return s.due_ns && ct_clock_read() >= s.due_ns;
}

void ct_provisional_note_written(void) {
    s.written = s.contents;
    s.due_ns = 0;
    s.versions++;
}
