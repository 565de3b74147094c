// SPDX-License-Identifier: Apache-2.0
// Makes a memory snapshot, as PyTorch's torch.cuda.memory._snapshot() returns it, from the events
// of a window.
//
// The reader of the format, PyTorch's viewer, goes backwards from `segments` (the state at the end)
// through `device_traces`, and stops with an error where an entry does not fit. So everything that
// was live when the window begins is written as allocated at its beginning, and memory whose free
// event was lost is freed before its place is allocated again.
//
// Driver memory that holds a block of PyTorch's is a segment, as in PyTorch. All other driver
// memory, which PyTorch does not know of, is a segment that consists of one block.
#ifndef CT_TORCH_SNAPSHOT_H
#define CT_TORCH_SNAPSHOT_H

#include "export/pickle.h"
#include "read/clocks.h"
#include "replay/range_list.h"
#include "replay/replay.h"
#include "symbols/call_sites.h"

// The events from `first` to `last` whose times lie in the range.
struct ct_export_window {
    uint64_t first, last;
    uint64_t from_ns, to_ns;
};

// The state of a device at the end of the window.
struct ct_export_shown {
    uint64_t segments, segment_bytes; // all of them
    uint64_t torch_segment_bytes;     // of those that hold blocks of PyTorch's
    uint64_t blocks, block_bytes;     // PyTorch's
    uint64_t live_bytes;              // allocated from the driver, whether shown or not
};

// What a region of driver memory is: it holds blocks; it is a mapping; it was made up for a block
// that lies in no segment.
enum { CT_REGION_POOL = 1, CT_REGION_MAPPED = 2, CT_REGION_SYNTHETIC = 4 };

enum { CT_OWN_CATEGORIES = 8 }; // call sites whose memory has a colour of its own

struct ct_torch_snapshot {
    struct ct_call_sites *sites;
    int device; // only this one; -1: all
    struct ct_export_window window;
    const char *note;   // applies to all figures; may be NULL
    struct ct_map ooms; // the events that are shown as an OOM; freed by ct_torch_snapshot_free
    uint64_t entries;
    struct ct_export_shown shown[CT_DEVICES];
    // Results of ct_torch_snapshot_prepare.
    struct ct_map held;           // driver memory that holds blocks, by hold_key()
    int separate_mappings;        // a mapping lies next to memory that is no mapping
    int has_blocks;               // of PyTorch's
    char *own[CT_OWN_CATEGORIES]; // labels of the call sites that hold the most at the end
    // The replayed state.
    struct ct_replay *replay;
    const struct ct_event *event; // the one that is being applied, or NULL
    struct ct_range_list regions, blocks;
    uint64_t synthetic; // number of regions with CT_REGION_SYNTHETIC
    // The output.
    struct ct_pickle *out; // NULL: nothing is written
    struct ct_clocks clocks;
    int began;      // the state before the window is written
    int open;       // the device whose list is being added to, + 1
    unsigned batch; // entries since the list was opened
    uint64_t words; // a bit for each word that was written already
    uint32_t memos, list[CT_DEVICES];
    struct ct_map frames, frame, file, category; // memos of what was written
    struct ct_map labels;                        // memos of categories by text
};

// Both replay the trace, with `sites`, `device`, `window` and `note` set; ct_torch_snapshot_export
// needs the results of ct_torch_snapshot_prepare.
void ct_torch_snapshot_prepare(struct ct_torch_snapshot *s, struct ct_trace *t);
void ct_torch_snapshot_export(struct ct_torch_snapshot *s, struct ct_trace *t,
                              struct ct_pickle *out);
void ct_torch_snapshot_free(struct ct_torch_snapshot *s);

// The parts of a snapshot (torch_snapshot_write.c): entries of the devices' traces as they happen,
// then the state at the end.

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
