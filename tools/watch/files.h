// SPDX-License-Identifier: Apache-2.0
// The files of traced processes: where journals are, how they are opened, and which of them could
// not be read.
#ifndef CT_WATCH_FILES_H
#define CT_WATCH_FILES_H

#include <cutrace/format/journal.h>
#include <sys/types.h>

// ---- where they are -----------------------------------------------------------------------------

// Is called for each file that may be a journal: its folder, and the name of the trace beside it.
typedef void ct_watch_found(void *user, const char *folder, const char *name);

// The folder where traces go by CUTRACE_OUTPUT, as the library reads it; "." without it.
const char *ct_watch_search_default(char *to, size_t size);
void ct_watch_search_folder(const char *folder, ct_watch_found *found, void *user);
void ct_watch_search_process(uint32_t pid, ct_watch_found *found, void *user);
// All processes of this user; of all users for root.
void ct_watch_search_processes(ct_watch_found *found, void *user);

// ---- opening ------------------------------------------------------------------------------------

// Without trust in the folder that they lie in: no link is followed but the recorder's own to
// memory, nothing but regular files is read, and those of other users only by root.

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

// ---- what could not be read ---------------------------------------------------------------------

// What a search found and could not read, as "PATH: why", sanitized. Each search begins anew: a
// journal that was skipped because its process had only begun it is not told of for ever.

enum { CT_WATCH_SKIPS = 8 };

struct ct_watch_skips {
    char *text[CT_WATCH_SKIPS]; // the first ones
    struct {
        dev_t device;
        ino_t inode;
    } file[CT_WATCH_SKIPS]; // of each
    size_t count;           // of all
};

void ct_watch_skips_clear(struct ct_watch_skips *s);
// Whether the file is told of already, maybe by another path. `name` is that of the trace.
int ct_watch_skips_has(const struct ct_watch_skips *s, const char *folder, const char *name);
void ct_watch_skips_add(struct ct_watch_skips *s, const char *folder, const char *name,
                        const char *why);

#endif
