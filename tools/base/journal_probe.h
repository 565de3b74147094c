// SPDX-License-Identifier: Apache-2.0
// What a tool checks before it reads a journal: where the file is, and whether this version
// understands it.
#ifndef CT_JOURNAL_PROBE_H
#define CT_JOURNAL_PROBE_H

#include <cutrace/format/journal.h>
#include <stddef.h>

// The path of the journal itself: `path`, or `to` (size bytes) with the target if `path` is the
// recorder's link to a file in memory.
const char *ct_journal_probe_path(const char *path, char *to, size_t size);
// NULL, or why this program cannot read a journal with that header, as the end of a sentence.
const char *ct_journal_probe_mismatch(const struct ct_journal *header);

#endif
