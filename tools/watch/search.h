// SPDX-License-Identifier: Apache-2.0
// Where journals are: in folders, and in the mappings of processes.
#ifndef CT_WATCH_SEARCH_H
#define CT_WATCH_SEARCH_H

#include <stddef.h>
#include <stdint.h>

// Is called for each file that may be a journal: its folder, and the name of the trace beside it.
typedef void ct_watch_found(void *user, const char *folder, const char *name);

// The folder where traces go by CUTRACE_OUTPUT, as the library reads it; "." without it.
const char *ct_watch_search_default(char *to, size_t size);
void ct_watch_search_folder(const char *folder, ct_watch_found *found, void *user);
void ct_watch_search_process(uint32_t pid, ct_watch_found *found, void *user);
// All processes of this user; of all users for root.
void ct_watch_search_processes(ct_watch_found *found, void *user);

#endif
