// SPDX-License-Identifier: Apache-2.0
// How large a device must be for what a process took of it: as it was recorded, and at least. The
// two differ by what PyTorch's pool and CUDA's memory pools hold free, which on a smaller device is
// given back or used before more is asked for.
#ifndef CT_DEVICE_NEED_H
#define CT_DEVICE_NEED_H

#include "analyze/scan.h"

// What adds up to a need, at one moment.
struct ct_need {
    uint64_t event, t_ns;
    uint64_t bytes;        // all of it
    uint64_t tracked;      // allocations
    uint64_t pool_free;    // of these, free within pools: not part of the least need
    uint64_t requested;    // by the request that failed then
    uint64_t untracked;    // of this process: context, modules, ...
    uint64_t unattributed; // of this process or of others: not part of the least need
    int is_peak; // the scan has its peak there: a block belongs to the moment of its segment
};

struct ct_device_need {
    int known;           // the process took memory of the device
    int untracked_known; // a reading shows it
    int with_host;       // the device has the host's memory: what is untracked is not known
    struct ct_need as_recorded, least;
    uint64_t untracked; // the most at a time, of this process
    uint64_t others;    // the most at a time, of other processes: in no need
    // With what others held at the same time: how large the device must have been; and the most
    // that was in use and in no allocation.
    uint64_t as_recorded_with_others, least_with_others;
    uint64_t outside, outside_with_others, outside_least_with_others;
    uint64_t managed;     // the most at once; in no need, because it migrates
    uint64_t overwritten; // allocated at once in the time whose events were overwritten; 0: less
    // A request failed for lack of memory, and the program got the error: what would have followed
    // is not known.
    int failed;
    uint64_t failed_t_ns, failed_bytes; // of the first; the most of one, as the driver was asked
    // Why more can have been needed than the events show, and whether less can, too; NULL: they
    // show all of the run.
    const char *unseen;
    int may_be_less;
    struct ct_need before_reading; // of the time before the first reading
};

struct ct_device_needs {
    struct ct_device_need device[CT_DEVICES];
};

enum ct_need_fit {
    CT_NEED_FITS,
    CT_NEED_FITS_NOT, // whatever the pools do
    CT_NEED_DEPENDS,  // on what the pools give back
    CT_NEED_UNKNOWN,  // on what was not read or seen, or on what may be of other processes
};

// For each event of a scan, after ct_replay_apply.
void ct_device_needs_note(struct ct_device_needs *n, const struct ct_scan *s,
                          const struct ct_event *e);
// The same for the need of one device.
void ct_device_need_note(struct ct_device_need *n, const struct ct_replay *r, int device,
                         uint64_t t_ns, uint64_t number);
// Adds the requests that failed on a device from an event on.
void ct_device_need_add_failures(struct ct_device_need *n, const struct ct_incidents *all,
                                 int device, uint64_t from_event);
// After the last event: adds all requests that failed, and what was overwritten.
void ct_device_needs_finish(struct ct_device_needs *n, const struct ct_scan *s,
                            const struct ct_trace *t);
enum ct_need_fit ct_device_need_judge(const struct ct_device_need *n, uint64_t capacity);
const char *ct_need_fit_name(enum ct_need_fit fit); // for JSON

#endif
