// SPDX-License-Identifier: Apache-2.0
// Device memory that processes share: the memory that this process exported handles of, and the
// memory of other processes that it opened or imported.
#ifndef CT_SHARING_H
#define CT_SHARING_H

#include "base/map.h"
#include "replay/replay.h"

struct ct_sharing {
    struct ct_map exported; // by kind and key of an object -> number of the event that made it, + 1
};

struct ct_shared {
    uint64_t exported, exported_bytes; // live allocations that a handle was made of
    uint64_t opened;                   // by cuIpcOpenMemHandle, which does not report the size
    uint64_t imported, imported_bytes; // handles, and the mapped bytes of them
};

// Notes an event of the operation export; call it before the event is applied.
void ct_sharing_note_export(struct ct_sharing *s, const struct ct_live *l,
                            const struct ct_event *e);
void ct_sharing_free(struct ct_sharing *s);
// Sums what is live, by device.
void ct_sharing_sum(const struct ct_sharing *s, const struct ct_live *l,
                    struct ct_shared to[CT_DEVICES]);
void ct_shared_add(struct ct_shared *to, const struct ct_shared *more);

#endif
