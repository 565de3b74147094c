// SPDX-License-Identifier: Apache-2.0
// Where journals are: in folders, and in the mappings of processes; and which of them could not be
// read.
#ifndef CT_WATCH_SEARCH_H
#define CT_WATCH_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Is called for each file that may be a journal: its folder, and the name of the trace beside it.
typedef void ct_watch_found(void *user, const char *folder, const char *name);

// The folder where traces go by CUTRACE_OUTPUT, as the library reads it; "." without it.
const char *ct_watch_search_default(char *to, size_t size);
void ct_watch_search_folder(const char *folder, ct_watch_found *found, void *user);
void ct_watch_search_process(uint32_t pid, ct_watch_found *found, void *user);
// All processes of this user; of all users for root.
void ct_watch_search_processes(ct_watch_found *found, void *user);

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
