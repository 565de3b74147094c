// SPDX-License-Identifier: Apache-2.0
// Makes chunks of a trace from the contents of a journal.
#ifndef CT_JOURNAL_TO_CHUNKS_H
#define CT_JOURNAL_TO_CHUNKS_H

#include "read/index.h"
#include "read/journal_read.h"

// Makes chunks of what the trace does not have, to be appended to it (`bytes`, from malloc; NULL if
// there is nothing). `index` has the chunks of the file, in any order; those that an interrupted
// seal wrote are removed from it. Takes over the chunks in memory. 0, or -1: the journal belongs to
// another trace.
int ct_journal_to_chunks(struct ct_journal_contents *j, struct ct_index *index, uint8_t **bytes,
                         size_t *size, struct ct_error *error);

#endif
