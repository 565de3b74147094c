// SPDX-License-Identifier: Apache-2.0
// The processes on the devices over time, as NVML lists them, and which of them is this process.
//
// NVML numbers processes as its driver's PID namespace does. Where that is not the namespace of
// this process (a container), a number says nothing of whose process it is: then this process is
// the one whose memory changes with its allocations, or is not found at all.
#ifndef CT_NEIGHBOURS_H
#define CT_NEIGHBOURS_H

#include "read/trace.h"
#include "replay/replay.h"

struct ct_process;

enum ct_neighbour_whose {
    CT_NEIGHBOUR_OTHER,
    CT_NEIGHBOUR_SELF,
    CT_NEIGHBOUR_SELF_INFERRED,    // by its memory
    CT_NEIGHBOUR_SIBLING,          // another process whose trace was given
    CT_NEIGHBOUR_SIBLING_INFERRED, // found in that trace by its memory
    CT_NEIGHBOUR_UNKNOWN,          // it may be this process
};

// Values beside numbers of bytes.
#define CT_NEIGHBOUR_UNSAID UINT64_MAX     // listed; NVML does not say how much it holds
#define CT_NEIGHBOUR_GONE (UINT64_MAX - 1) // not listed
#define CT_NEIGHBOUR_LOST (UINT64_MAX - 2) // not known: events are missing
#define CT_NEIGHBOUR_IS_BYTES(value) ((value) < CT_NEIGHBOUR_LOST)

struct ct_neighbour_point {
    uint64_t t_ns, before_ns; // before: when NVML was last asked before
    uint64_t value;           // from t_ns on
};

enum { CT_NEIGHBOUR_POINTS = 1 << 14 };

// A time at which NVML was asked about a device; it counts if nothing changed shortly before, and
// no call was under way.
struct ct_match_tick {
    int is_open;            // it may count: the next event decides
    uint64_t t_ns, tracked; // at its first event
    uint64_t changed_ns;    // when what is tracked changed last
};

struct ct_neighbour_match {
    int known, is_excluded;   // known: there are figures of a time before
    uint64_t bytes, tracked;  // of that time
    unsigned matched, missed; // large changes of what is tracked
};

struct ct_neighbour {
    int device;         // index
    uint32_t pid, name; // name: a string, 0: unknown
    struct ct_neighbour_point *points;
    size_t count, room;
    int is_thinned; // of two changes one was left out
    struct ct_neighbour_match match;
    enum ct_neighbour_whose whose;
    const struct ct_process *process; // of a sibling
};

struct ct_neighbour_device {
    int has_list; // NVML listed processes
    struct ct_match_tick tick;
    uint64_t nvml_ns, before_ns; // when NVML was asked last, and before that
};

enum { CT_NEIGHBOURS_MOST = 256 }; // that are followed

struct ct_neighbours {
    struct ct_neighbour *list;
    size_t count, room;
    int left_out;    // there were more
    int own_numbers; // NVML's numbers are those of this process's namespace
    uint64_t gaps;
    struct ct_neighbour_device device[CT_DEVICES];
};

// What ct_neighbours_note does not decide by itself.
void ct_neighbours_note_slow(struct ct_neighbours *n, const struct ct_replay *r, int device,
                             const struct ct_event *e);

// For each event, in their order, after ct_replay_apply. Most events are calls while no answer of
// NVML's is open: of these only the time of the last change counts.
static inline void ct_neighbours_note(struct ct_neighbours *n, const struct ct_replay *r,
                                      int device, const struct ct_event *e) {
    struct ct_match_tick *tick = &n->device[device].tick;
    const int is_call = !CT_HAS(e, flags) || !(e->flags & CT_FLAG_NVML);
    if (!is_call || tick->is_open || r->gaps != n->gaps)
        ct_neighbours_note_slow(n, r, device, e);
    else if (ct_live_tracked(&r->live.device[device]) != tick->tracked)
        tick->changed_ns = e->t_ns;
}

// After the last event: says whose each process is, as far as this trace tells.
void ct_neighbours_identify(struct ct_neighbours *n, const struct ct_definitions *definitions);
// What a process held at a time, or a value beside numbers.
uint64_t ct_neighbour_at(const struct ct_neighbour *p, uint64_t t_ns);

// The largest growth up to a time; 0 bytes: none. It held the least until from_ns, and that much
// more at to_ns.
struct ct_neighbour_rise {
    uint64_t bytes, from_ns, to_ns;
};
struct ct_neighbour_rise ct_neighbour_find_rise(const struct ct_neighbour *p, uint64_t until_ns);

// Whether NVML listed this process on a device, and never another one.
int ct_neighbours_is_alone(const struct ct_neighbours *n, int device);
// Lists the processes of a device that were listed at a time, the one with the most first. The
// caller frees the list.
const struct ct_neighbour **ct_neighbours_list(const struct ct_neighbours *n, int device,
                                               uint64_t t_ns, size_t *count);
// Whether it is this process.
int ct_neighbour_is_self(const struct ct_neighbour *p);
// The number by which NVML names this process on any device, if that was inferred; 0: it was not.
uint32_t ct_neighbours_own_pid(const struct ct_neighbours *n);
const char *ct_neighbour_whose_name(enum ct_neighbour_whose whose);
void ct_neighbours_free(struct ct_neighbours *n);

#endif
