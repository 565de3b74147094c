// SPDX-License-Identifier: Apache-2.0
// Dictionary sections for the events that were still in rings. The journal numbers names, threads
// and stacks; here each number that an event uses gets an id, and the section of its kind an entry.
#ifndef CT_JOURNAL_DEFINITIONS_H
#define CT_JOURNAL_DEFINITIONS_H

#include <cutrace/format/bytes.h>

#include "base/buffer.h"
#include "base/map.h"
#include "read/journal_read.h"

struct ct_journal_definitions {
    const struct ct_journal_contents *j;
    // By kind: number in the process (of a frame: its word) -> id + 1, or 1 if it has no
    // definition.
    struct ct_map ids[CT_SECTION_THREADS + 1];
    uint32_t last_id[CT_SECTION_THREADS + 1];
    struct ct_buffer section[CT_SECTION_THREADS + 1]; // entries since the last flush
    struct ct_journal_module *modules;
    uint32_t module_count;
    // Words of all stacks and texts that were read. These do not overlap, so that more words than
    // the table has mean damage.
    uint64_t stack_words;
    struct ct_map texts; // offset of a text -> ids of its two names, function << 32 | file
    struct ct_map nodes; // the call tree: parent << 32 | frame -> node
    uint32_t last_node;
};

void ct_journal_definitions_init(struct ct_journal_definitions *d,
                                 const struct ct_journal_contents *j);
void ct_journal_definitions_free(struct ct_journal_definitions *d);
// The id of a name, a thread or a stack; 0 if the journal does not define it.
uint32_t ct_journal_definitions_name(struct ct_journal_definitions *d, uint32_t number);
uint32_t ct_journal_definitions_thread(struct ct_journal_definitions *d, uint32_t number);
uint32_t ct_journal_definitions_stack(struct ct_journal_definitions *d, uint32_t number);
// Bytes of the sections since the last flush.
size_t ct_journal_definitions_bytes(const struct ct_journal_definitions *d);
// Moves the sections to the body of a chunk.
void ct_journal_definitions_flush(struct ct_journal_definitions *d, struct ct_buffer *body);

#endif
