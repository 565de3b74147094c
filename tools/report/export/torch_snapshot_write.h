// SPDX-License-Identifier: Apache-2.0
// Writes the parts of a snapshot.
#ifndef CT_SNAPSHOT_PUT_H
#define CT_SNAPSHOT_PUT_H

#include "export/torch_snapshot.h"

enum ct_word {
#define CT_WORD(text) W_##text,
#include "export/torch_snapshot.def"
    CT_WORDS
};
_Static_assert(CT_WORDS <= 64, "a bit for each, in struct ct_torch_snapshot");

// Entries of the trace of a span's device: it begins, or ends by the event that is being applied. Nothing if nothing is
// written.
void ct_torch_snapshot_write_alloc(struct ct_torch_snapshot *s, const struct ct_listed_range *span, enum ct_word action);
void ct_torch_snapshot_write_free(struct ct_torch_snapshot *s, const struct ct_listed_range *span, enum ct_word action);
// The end of what was there already.
void ct_torch_snapshot_write_marker(struct ct_torch_snapshot *s, int index, uint64_t t_ns);
void ct_torch_snapshot_write_oom(struct ct_torch_snapshot *s, const struct ct_event *e, uint64_t free, const char *text);
// Behind the last entry: the traces, the segments, and the settings.
void ct_torch_snapshot_write_state(struct ct_torch_snapshot *s, const struct ct_trace *t);

#endif
