// SPDX-License-Identifier: Apache-2.0
// What a process shares with others: its device memory that it made handles of, theirs that it opened; and page-locked host
// memory, which it shares with the device.
#ifndef CT_SHARING_H
#define CT_SHARING_H

#include "base/map.h"
#include "replay/replay.h"

struct ct_sharing {
    struct ct_map offered; // by kind and key of an object -> number of the event that made it, + 1
};

struct ct_shared {
    uint64_t offered, offered_bytes;   // live allocations that a handle was made of
    uint64_t opened;                   // by cuIpcOpenMemHandle, which does not tell the size
    uint64_t imported, imported_bytes; // handles, and what is mapped of them
};

struct ct_host_memory {
    int registered;  // the program's own, else allocated
    uint32_t module; // that called, as a string's id; 0: not known
    uint64_t pieces, bytes;
};

// An event of the operation export, before it is applied.
void ct_sharing_note_export(struct ct_sharing *s, const struct ct_live *l, const struct ct_event *e);
void ct_sharing_free(struct ct_sharing *s);
struct ct_shared ct_sharing_sum(const struct ct_sharing *s, const struct ct_live *l, int device);
// By who called, the most bytes first. The caller frees the list.
struct ct_host_memory *ct_host_memory_list(const struct ct_definitions *n, const struct ct_live *l,
                                           size_t *count);

#endif
