// SPDX-License-Identifier: Apache-2.0
// Writes the parts of a snapshot: entries of the devices' traces as they happen, then the state at
// the end.
#ifndef CT_TORCH_SNAPSHOT_WRITE_H
#define CT_TORCH_SNAPSHOT_WRITE_H

#include "export/torch_snapshot.h"

enum ct_word {
#define CT_WORD(text) W_##text,
#include "export/torch_snapshot.def"
    CT_WORDS
};
_Static_assert(CT_WORDS <= 64, "a bit for each, in struct ct_torch_snapshot");

// Entries in the trace of a span's device: the span begins, or the event that is being applied ends
// it. Without an output they write nothing.
void ct_torch_snapshot_write_alloc(struct ct_torch_snapshot *s, const struct ct_listed_range *span,
                                   enum ct_word action);
void ct_torch_snapshot_write_free(struct ct_torch_snapshot *s, const struct ct_listed_range *span,
                                  enum ct_word action);
// The entry that ends the state before the window.
void ct_torch_snapshot_write_marker(struct ct_torch_snapshot *s, int index, uint64_t t_ns);
void ct_torch_snapshot_write_oom(struct ct_torch_snapshot *s, const struct ct_event *e,
                                 uint64_t free, const char *text);
// After the last entry: the traces, the segments, and the settings.
void ct_torch_snapshot_write_state(struct ct_torch_snapshot *s, const struct ct_trace *t);

#endif
