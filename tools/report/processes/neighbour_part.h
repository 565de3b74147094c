// SPDX-License-Identifier: Apache-2.0
// What a part of a trace (../replay/parts.h) says of the processes on the devices, to be noted
// after all that comes before it.
//
// What an event says depends on those before it: whether it belongs to an answer of NVML's that has
// begun, when memory changed last, what a process held. A part does not know them, so it keeps its
// events; of many calls, and of many readings between which nothing changed, it keeps a few which
// lead to the same.
#ifndef CT_NEIGHBOUR_PART_H
#define CT_NEIGHBOUR_PART_H

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

enum ct_neighbour_event_kind {
    CT_NEIGHBOUR_CALL,    // an event that is none of NVML's
    CT_NEIGHBOUR_READING, // NVML was asked
    CT_NEIGHBOUR_PROCESS, // NVML listed a process, or does so no more
    CT_NEIGHBOUR_ANSWER,  // another event of NVML's
};

// All that the neighbours need of an event.
struct ct_neighbour_event {
    uint64_t t_ns;
    uint64_t began_ns; // of a call
    uint64_t tracked;  // on the device, after the event
    uint64_t value;    // of a process (neighbours.h)
    uint32_t pid, name;
    int device; // index
    enum ct_neighbour_event_kind kind;
};

struct ct_neighbour_call {
    uint64_t t_ns, began_ns, tracked;
};

// Calls of a device without an event of NVML's between them, in runs with the same `tracked`.
struct ct_neighbour_calls {
    uint64_t runs;
    struct ct_neighbour_call first, last;
    struct ct_neighbour_call second; // the first one of the second run
    struct ct_neighbour_call before; // the last one of the last run but one
};

struct ct_neighbour_part_device {
    struct ct_neighbour_calls calls; // since the last event of NVML's
    int is_known;                    // the answer that has begun has `tracked`
    uint64_t tracked;
    unsigned readings; // at the end, with the same `tracked`: up to two
    size_t at[2];      // their positions
};

enum { CT_NEIGHBOUR_PART_EVENTS = 1 << 16 }; // that are kept

struct ct_neighbour_part {
    struct ct_neighbour_event *list; // of each device in their order
    size_t count, room;
    int has_begun, is_lost;     // lost: the part cannot be noted later
    uint64_t first_ns, last_ns; // of the events
    uint64_t gaps;              // of its replay, at the first event
    struct ct_neighbour_part_device device[CT_DEVICES];
};

// For each event, in their order. `gaps`: of the replay. Nearly all are calls, and cost nothing but
// this.
void ct_neighbour_part_note_call(struct ct_neighbour_part *p, uint64_t gaps, int device,
                                 const struct ct_event *e, uint64_t tracked);
void ct_neighbour_part_note_nvml(struct ct_neighbour_part *p, uint64_t gaps,
                                 const struct ct_neighbour_event *x);
// Tells the events that are kept. Not if the part is lost.
void ct_neighbour_part_tell(const struct ct_neighbour_part *p,
                            void (*tell)(void *user, const struct ct_neighbour_event *x),
                            void *user);
void ct_neighbour_part_free(struct ct_neighbour_part *p);

#endif
