// SPDX-License-Identifier: Apache-2.0
// A memory snapshot as PyTorch's torch.cuda.memory._snapshot() returns it, made from the events of a window.
//
// The reader of the format, PyTorch's viewer, goes backwards from `segments` (what there is at the end) through
// `device_traces`, and stops with an error where an entry does not fit. So everything that was there when the window begins is
// told as allocated at its beginning, and what an event that was lost should have given back is given back before its
// place is taken again.
//
// Memory of the driver that holds a block of PyTorch's pool is a segment, as PyTorch would say. All other memory of the
// driver, which PyTorch does not know of, is a segment that is one block.
#ifndef CT_SNAPSHOT_H
#define CT_SNAPSHOT_H

#include "export/pickle.h"
#include "replay/range_list.h"
#include "replay/replay.h"
#include "symbols/call_sites.h"

// From event `first` to `last`, as far as their times lie in the range.
struct ct_export_window {
    uint64_t first, last;
    uint64_t from_ns, to_ns;
};

// What there is of a device at the end of the window.
struct ct_export_shown {
    uint64_t segments, segment_bytes; // all of them
    uint64_t pool_bytes;              // of those that hold blocks of PyTorch's
    uint64_t blocks, block_bytes;     // PyTorch's
    uint64_t live_bytes;              // taken from the driver, whether shown or not
};

// Of a region, memory of the driver: it holds blocks; it is a mapping; it is there for a block without a segment.
enum { CT_REGION_POOL = 1, CT_REGION_MAPPED = 2, CT_REGION_SYNTHETIC = 4 };

enum { CT_OWN_CATEGORIES = 8 }; // call sites whose memory has a colour of its own

struct ct_torch_snapshot {
    struct ct_call_sites *sites;
    int device; // only this one; -1: all
    struct ct_export_window window;
    const char *note; // on all figures; may be NULL
    uint64_t entries;
    struct ct_export_shown shown[CT_DEVICES];
    // what ct_torch_snapshot_prepare finds out
    struct ct_map held;           // memory of the driver that holds blocks, by hold_key()
    int apart;                    // mappings lie next to memory that is none
    int has_blocks;               // of PyTorch's
    char *own[CT_OWN_CATEGORIES]; // labels of the call sites that hold the most at the end
    // the state
    const struct ct_replay *replay;
    const struct ct_event *event; // that is being applied, or NULL
    struct ct_range_list regions, blocks;
    uint64_t alone; // regions with CT_REGION_SYNTHETIC
    // what is written
    struct ct_pickle *out; // NULL: nothing
    int64_t clock_ns;      // from the trace's clock to the time of day
    int told;              // what was there before the window
    int open;              // the device whose list is being added to, + 1
    unsigned batch;        // entries since it was opened
    uint64_t words;        // that were written already, a bit each
    uint32_t memos, list[CT_DEVICES];
    struct ct_map frames, frame, file, category; // memos of what was written
    struct ct_map labels;                        // memos of categories by text
};

// Both begin anew, with `sites`, `device`, `window` and `note` set; writing needs what examining has found out.
void ct_torch_snapshot_prepare(struct ct_torch_snapshot *s, struct ct_trace *t);
void ct_torch_snapshot_export(struct ct_torch_snapshot *s, struct ct_trace *t, struct ct_pickle *out);
void ct_torch_snapshot_free(struct ct_torch_snapshot *s);

#endif
