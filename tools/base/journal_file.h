// SPDX-License-Identifier: Apache-2.0
// The file of a journal, as a tool finds, checks and removes it. What it checks: where the file is,
// and whether this version understands it.
#ifndef CT_JOURNAL_FILE_H
#define CT_JOURNAL_FILE_H

#include <cutrace/format/journal.h>
#include <stddef.h>

// Opens the journal of that name in a folder (a descriptor, or AT_FDCWD); `access` is O_RDONLY or
// O_RDWR. The only link that is followed is one that a recorder made: to a file in memory, of the
// link's owner. A descriptor of a regular file, or -1 with errno; ENOLINK: that file is not here.
int ct_journal_open(int folder, const char *name, int access);
// What that errno means, as the end of a sentence.
const char *ct_journal_open_error(int error);
// NULL, or why this program cannot read a journal with that header, as the end of a sentence.
const char *ct_journal_probe_mismatch(const struct ct_journal *header);

// Removes a journal in a folder (a descriptor, or AT_FDCWD), and before it the file in memory that
// it links to: the other way round nobody would find that again. `of`: a descriptor of the journal
// as it was read, so that another file that has its name by now stays; -1: whatever has the name.
// 0, or -1 with errno.
int ct_journal_remove(int folder, const char *name, int of);

#endif
