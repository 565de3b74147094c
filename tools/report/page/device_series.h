// SPDX-License-Identifier: Apache-2.0
// What the page shows of a device over time: its rows of memory at the notable moments, what call
// sites held at some of them, and who had which addresses at fewer.
#ifndef CT_DEVICE_SERIES_H
#define CT_DEVICE_SERIES_H

#include "answer/view.h"
#include "layout/address_picture.h"
#include "layout/held_now.h"
#include "layout/notable_moments.h"

// Blocks that are listed at a moment.
enum { CT_SERIES_BLOCKS = 2000 };
// Moments with what call sites held, and with addresses; those that are marked come on top.
enum { CT_SERIES_LIVE = 400, CT_SERIES_COLUMNS = 80 };

// The rows, from the lowest band to the highest. Components are rows twice: in PyTorch's blocks,
// and elsewhere.
enum {
    CT_SERIES_DRIVER = CT_COMPONENTS + 2, // after PyTorch's blocks, segments and idle memory
    CT_SERIES_REST = CT_SERIES_DRIVER + CT_COMPONENTS,
    CT_SERIES_ROWS = CT_SERIES_REST + CT_ACCOUNT_ROWS - CT_ACCOUNT_MEMPOOL_IDLE,
};

struct ct_series_moment {
    uint64_t t_ns, event;
    int is_read; // the device's memory was known
    uint64_t bytes[CT_SERIES_ROWS];
};

// A new total of a call site: its position in held.groups.
struct ct_series_change {
    uint32_t site;
    uint64_t bytes, count;
};

struct ct_series_live {
    size_t moment;
    size_t first, end; // its changes
};

struct ct_series_column {
    size_t moment;
    uint32_t *owners; // by row of the axis
};

// The largest blocks and allocations, by address, of `all`.
struct ct_series_blocks {
    size_t moment;
    struct ct_address_block *list;
    size_t count, all;
};

struct ct_device_series {
    int device;
    struct ct_notable_moments notable;
    struct ct_held_now held; // at the end; its groups name the sites
    struct ct_series_moment *moments;
    size_t count;
    struct ct_series_live *live;
    size_t live_count, live_room;
    struct ct_series_change *changes;
    size_t change_count, change_room;
    struct ct_series_column *columns;
    size_t column_count, column_room;
    struct ct_series_blocks *blocks; // at the crossing, at the peak and at the end
    size_t block_count, block_room;
};

// In two passes that others share, over the range of the scan for a device (an index): joins the
// first one, and when it has run, the second one. When that has run, the series is there.
void ct_device_series_join_first(struct ct_listeners *to, struct ct_device_series *d,
                                 const struct ct_view *v, const struct ct_scan *s, int device);
void ct_device_series_join_second(struct ct_listeners *to, struct ct_device_series *d,
                                  const struct ct_view *v, const struct ct_scan *s);
void ct_device_series_free(struct ct_device_series *d);

struct ct_series_row {
    const char *key, *title, *group; // as PAGE.md names them
};
struct ct_series_row ct_device_series_row(unsigned row);

#endif
