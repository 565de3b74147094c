// SPDX-License-Identifier: Apache-2.0
// What PyTorch's caching allocator would have reserved with other settings, or on another device:
// replays the recorded blocks through a model of it. The recorded settings are modelled, too, and
// compared with what PyTorch reported: the deviation is how far the answer can be trusted.
#ifndef CT_WHAT_IF_H
#define CT_WHAT_IF_H

#include "allocator/settings.h"
#include "read/trace.h"

// The most that the model of the recorded settings may deviate from what PyTorch reported, in parts
// of a thousand of the largest reserve.
enum { CT_WHAT_IF_BOUND_PERMILLE = 20 };
// The least margin of an answer in parts of a thousand of the device, where sizes are not known.
enum { CT_WHAT_IF_MARGIN_PERMILLE = 10 };

struct ct_what_if_request {
    int device;
    uint64_t capacity; // bytes of the device; 0: the recorded ones
    struct ct_allocator_settings asked;
};

// A request for a block that a model does not serve.
struct ct_what_if_failure {
    uint64_t event, t_ns, bytes;
    uint64_t missing; // bytes that the driver lacked for it, after all that was cached was freed
    int recorded;     // it failed in the recording, too
};

// How one model fared.
struct ct_what_if_side {
    uint64_t reserved_peak, allocated_peak, reserved_end, largest_free_end;
    uint64_t driver_allocs, driver_frees, retries;
    uint64_t
        least_left;    // the least that the driver had left after it gave memory; UINT64_MAX: none
    uint64_t served;   // requests that failed in the recording, and get their memory
    uint64_t failures; // requests that fail
    struct ct_what_if_failure first_failure;
    int stopped; // the first failure is one that the recording does not have: it ends there
};

enum ct_what_if_side_name {
    CT_WHAT_IF_CHECK,       // the recorded settings on the recorded device
    CT_WHAT_IF_RECORDED,    // the recorded settings on the asked device
    CT_WHAT_IF_ASKED,       // the asked settings there
    CT_WHAT_IF_ASKED_LEAST, // as ASKED: each request as small, and each empty_cache(), that may be
    CT_WHAT_IF_ASKED_MIXED, // as ASKED: the first of three runs with random request sizes
    CT_WHAT_IF_ASKED_APART = CT_WHAT_IF_ASKED_MIXED + 3, // as ASKED, with as many streams as can be
    CT_WHAT_IF_SIDES,
};

enum ct_what_if_state {
    CT_WHAT_IF_DONE,
    CT_WHAT_IF_NO_SETTINGS,      // those of the recorded process are not modelled: settings_error
    CT_WHAT_IF_NO_BLOCKS,        // of PyTorch's on the device
    CT_WHAT_IF_NO_BEGINNING,     // events are missing: blocks of before are not known
    CT_WHAT_IF_NO_CAPACITY,      // nothing says how much memory the device has
    CT_WHAT_IF_TOO_MANY_STREAMS, // more groups of segments than the model follows
    CT_WHAT_IF_DEVIATES,         // the check deviates by more than the bound
    CT_WHAT_IF_OOM_NOT_REPRODUCED,
};

struct ct_what_if {
    struct ct_what_if_request request;
    enum ct_what_if_state state;
    struct ct_allocator_settings recorded; // settings of the recorded process
    char settings_error[CT_ALLOCATOR_SETTINGS_ERROR + 60];
    struct ct_what_if_side side[CT_WHAT_IF_SIDES];
    uint64_t blocks, outside; // blocks that were replayed; that lie in memory of another allocator
    uint64_t recorded_reserved_peak, recorded_allocated_peak; // as PyTorch reported them
    uint64_t recorded_ooms;
    struct ct_what_if_failure recorded_oom; // the last one
    uint64_t deviation, deviation_event;    // the largest of the check, at any event of a block
    uint64_t not_reproduced;  // requests that failed or succeeded otherwise than in the check
    uint64_t uncertain_sizes; // blocks whose requests may have been smaller
    uint64_t ambiguous;       // requests that failed, whose stream the answer depends on
    // The most that PyTorch reserves on the recorded device, by a setting or, if no setting has it,
    // as its refusals show; UINT64_MAX: all.
    uint64_t limit;
    int limit_is_inferred;
    uint64_t capacity;    // of the asked device
    uint64_t other_bytes; // not PyTorch's, on the device, at most
    uint32_t groups[2];   // streams (and private pools) that were told apart: large, small
    uint64_t passed_over, contradicted, waited; // see stream_groups.h
    uint64_t margin; // by which the driver may have less or more without another answer:
    int serves_with_less, serves_with_more;
    int by_creation; // which of two free blocks of one size is taken: that of the older segment, or
                     // that with the lower address
    int order_is_known; // which of these, by the version of PyTorch
    // For tests: called at each event of a block with what PyTorch reported and the models reserve.
    void (*each)(void *user, uint64_t event, uint64_t reported,
                 const uint64_t reserved[CT_WHAT_IF_SIDES]);
    void *user;
};

enum ct_what_if_answer {
    CT_WHAT_IF_FITS,     // every request gets its memory, also those that failed in the recording
    CT_WHAT_IF_FITS_NOT, // a request fails
    CT_WHAT_IF_UNKNOWN,  // see `state`; or the figures are too close to tell
};

// `w`: zero but for the request and the last two. Reads the trace two to six times.
void ct_what_if_run(struct ct_what_if *w, struct ct_trace *t);
enum ct_what_if_answer ct_what_if_judge(const struct ct_what_if *w);
// The deviation in parts of a thousand of the recorded peak, rounded up.
unsigned ct_what_if_permille(const struct ct_what_if *w);

#endif
