// SPDX-License-Identifier: Apache-2.0
// The processes on a device, as text and JSON.
#ifndef CT_VIEW_NEIGHBOURS_H
#define CT_VIEW_NEIGHBOURS_H

#include "answer/view.h"
#include "print/document.h"
#include "processes/process.h"

// Prints "grew by 5.30 GiB between +10.000 s and +20.000 s" if that is much of the device, else an
// empty text.
enum { CT_NEIGHBOUR_GROWTH = 160 };
void ct_neighbour_growth(const struct ct_view *v, const struct ct_neighbour *p, uint64_t until_ns,
                         uint64_t capacity, char *to);
// Prints a line with the processes besides this one that held the most of a device at a time;
// `when` is how the text calls it. Nothing where NVML listed no other process then.
void ct_neighbours_print(struct ct_view *v, const struct ct_neighbours *n, int device,
                         uint64_t t_ns, uint64_t capacity, const char *when, size_t most);

// The processes of a device besides this one that held the most at any time, up to `most` of them;
// the caller frees the list.
const struct ct_neighbour **ct_neighbours_most(const struct ct_neighbours *n, int device,
                                               size_t most, size_t *count);
// The most that a process held, as far as that is known.
uint64_t ct_neighbour_most(const struct ct_neighbour *p);

// The moments of a device, of which JSON says what each process held; UINT64_MAX: there is none.
struct ct_neighbour_moments {
    uint64_t crossing_ns, peak_ns, end_ns;
};
// Adds the processes of a device, or null where NVML listed none at any time.
void ct_neighbours_add_json(struct ct_json *j, const struct ct_view *v,
                            const struct ct_neighbours *n, int device,
                            const struct ct_neighbour_moments *at);

#endif
