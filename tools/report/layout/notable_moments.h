// SPDX-License-Identifier: Apache-2.0
// The moments at which a picture of a device's memory over time is taken: few enough to draw, and
// no peak is lost. Of each of equal parts of the time, the first and the last state and those with
// the least and the most tracked memory and memory of PyTorch's blocks; all changes near failed
// allocations; and the moments that views name. The same pass finds where the memory lies.
#ifndef CT_NOTABLE_MOMENTS_H
#define CT_NOTABLE_MOMENTS_H

#include "analyze/program_marks.h"
#include "analyze/scan.h"
#include "layout/address_picture.h"
#include "replay/replay.h"

enum { CT_NOTABLE_PARTS = 600, CT_NOTABLE_FAILURES = 100 };

struct ct_notable_moments {
    // Incidents whose heads are among them: that of the crossing, and the last ones, ascending.
    uint64_t failures[CT_NOTABLE_FAILURES];
    size_t failure_count;
    uint32_t slots;   // for so many objects, all that was live at any time
    uint64_t *events; // ascending: the state after each
    size_t count;
    uint64_t
        last[CT_NOTABLE_PARTS];    // of them, the last one of each part of the time, or UINT64_MAX
    struct ct_program_marks marks; // whose events are among them, too
    struct ct_address_axis axis;   // of all device memory that was live in the time
};

// Joins a pass over the range of the scan for a device (an index). When that has run, they are
// there.
void ct_notable_moments_join(struct ct_listeners *to, struct ct_notable_moments *m,
                             const struct ct_trace *t, const struct ct_scan *s, int device);
void ct_notable_moments_free(struct ct_notable_moments *m);

#endif
