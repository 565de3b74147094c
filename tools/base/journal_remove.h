// SPDX-License-Identifier: Apache-2.0
// Removes what a process has left beside its trace.
#ifndef CT_JOURNAL_REMOVE_H
#define CT_JOURNAL_REMOVE_H

// Removes a journal in a folder (a descriptor, or AT_FDCWD), and before it the file in memory that
// it links to: the other way round nobody would find that again. `of`: a descriptor of the journal
// as it was read, so that another file that has its name by now stays; -1: whatever has the name.
// 0, or -1 with errno.
int ct_journal_remove(int folder, const char *name, int of);

#endif
