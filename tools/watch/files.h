// SPDX-License-Identifier: Apache-2.0
// The files of a traced process, opened without trust in the folder that they lie in: no link is
// followed but the recorder's own to memory, nothing but regular files is read, and those of other
// users only by root.
#ifndef CT_WATCH_FILES_H
#define CT_WATCH_FILES_H

#include <cutrace/format/journal.h>
#include <sys/types.h>

// A trace larger than this is not read as it grows.
#define CT_WATCH_TRACE_MAX (UINT64_C(4) << 30)

enum { CT_WATCH_WHY = 160 };

struct ct_watch_journal {
    int fd;
    uid_t owner;
    struct ct_journal head;
};

// Opens FOLDER/NAME.journal. Returns 0, or -1: `why` says the reason, as the end of a sentence.
int ct_watch_journal_open(struct ct_watch_journal *j, const char *folder, const char *name,
                          char why[CT_WATCH_WHY]);
// Reads the header again. Returns 0, or -1 as above.
int ct_watch_journal_read(struct ct_watch_journal *j, char why[CT_WATCH_WHY]);
// Whether the journal has been removed: its process has ended well, or it was sealed.
int ct_watch_journal_is_gone(const struct ct_watch_journal *j);
void ct_watch_journal_close(struct ct_watch_journal *j);
// Opens FOLDER/NAME, which `owner` has. Returns a descriptor, -1: there is no such file (yet), -2:
// it is not read, and why.
int ct_watch_trace_open(const char *folder, const char *name, uid_t owner, char why[CT_WATCH_WHY]);

#endif
