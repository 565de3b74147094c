// SPDX-License-Identifier: Apache-2.0
// The failed allocations of a trace, and the incidents that they are parts of. An incident is one
// request of the program that ran out of memory, however many calls failed for it: those of one
// request to the driver (driver_requests.h), and PyTorch's report (block-oom) after them.
#ifndef CT_INCIDENTS_H
#define CT_INCIDENTS_H

#include "analyze/driver_requests.h"
#include "analyze/phase_follow.h"

// An event that crossed capacity: a failed allocation, or the first event over a budget of the
// user's.
struct ct_oom_event {
    uint64_t event, t_ns;
    int device; // index; CT_MAX_DEVICES = unknown
    uint32_t api, op, space, stack, thread, flags;
    int32_t result;
    int result_known, bytes_known, reading_known;
    uint64_t bytes, free, total; // bytes: that were asked for
    uint64_t device_total;       // of the device, by a reading or as CUDA reports it; 0: unknown
    int free_before_known;       // the free memory was also read before the call
    uint64_t free_before;
    uint64_t live_bytes, live_allocations;
    uint64_t opened;           // allocations of other processes on the device, open by CUDA IPC
    struct ct_breakdown split; // of the device at the event
    // A request of the same size succeeded later, or a block was handed out that may be one: a
    // block of PyTorch's has up to 1 MiB more than was asked for. 0 if the size is not known.
    int recovered;
    uint64_t recovered_event, recovered_t_ns, recovered_bytes;
    int driver_failed;                // of a block-oom: the driver had run out of memory before
    uint64_t segment_bytes;           // of it: the most that the driver was asked for; 0: not known
    struct ct_torch_pool_totals pool; // of the device at the event
    uint32_t earlier;                 // the previous OOM of the same size without a success, + 1
    uint32_t incident;
    uint32_t next_part;       // of the incident, + 1; 0: it is the last one
    struct ct_phase_at phase; // of the call
};

struct ct_incident {
    uint32_t first, last, parts; // positions in the list of OOMs; their number
    // The OOM that describes the incident: the last one, which made the request fail, or the first
    // one if a request of the same size succeeded later.
    uint32_t head;
    int by_pytorch; // PyTorch made the request
    int retried;    // PyTorch's repeated call got the memory: the program did not notice
    int freed;      // ... after the thread had freed memory of a device
    int recovered;  // retried, or a request of the head's size succeeded later
};

enum { CT_INCIDENT_BLOCKS = 64 };

struct ct_incidents {
    struct ct_oom_event *ooms; // in the order of events
    size_t oom_count, oom_room;
    struct ct_incident *list; // in the order of their first OOMs
    size_t count, room;
    size_t crossing;                     // by ct_incidents_finish: the incident of it, + 1; 0: none
    struct ct_map unrecovered;           // key of a request -> its last OOM without a success, + 1
    uint64_t blocks[CT_INCIDENT_BLOCKS]; // sizes of the newest large blocks that failed, as a ring
    size_t block_count;
};

// How many incidents of a list there are of each kind.
struct ct_incident_counts {
    size_t failed, recovered_later; // not retried; of these, recovered
    size_t retried, freed;          // of these, those before which memory was freed
};

// Whether device memory was asked for, as opposed to host memory and address space.
int ct_incidents_is_device_memory(const struct ct_oom_event *o);
// Adds a failed allocation. `q`: its request; NULL: the call is of no kind that is repeated.
void ct_incidents_add(struct ct_incidents *n, const struct ct_oom_event *o,
                      struct ct_driver_request *q);
// Notes an allocation that succeeded: it recovers all earlier OOMs of its size, device and kind;
// one of a block also those of the last CT_INCIDENT_BLOCKS sizes that it may have been made for.
void ct_incidents_note_success(struct ct_incidents *n, const struct ct_event *e, uint64_t number);
// Notes that a request with failed calls became the memory of a block.
void ct_incidents_note_retry(struct ct_incidents *n, const struct ct_driver_request *q);
// To be called after the last event: chooses the heads and the crossing.
void ct_incidents_finish(struct ct_incidents *n);
void ct_incidents_free(struct ct_incidents *n);

// These need ct_incidents_finish.
const struct ct_oom_event *ct_incidents_head(const struct ct_incidents *n, size_t incident);
// How the memory of a device (an index) was divided at event `number`, if that is an OOM on it; or
// NULL. NVML's next report may divide what is untracked better than the state then does.
const struct ct_breakdown *ct_incidents_find_split(const struct ct_incidents *n, uint64_t number,
                                                   int device);
// How many of the incidents that PyTorch did not retry with success were on this device.
size_t ct_incidents_count_failed(const struct ct_incidents *n, int device);
// Whether PyTorch's repeated call got the memory of a failed one.
int ct_incidents_is_retried(const struct ct_incidents *n, const struct ct_oom_event *o);
struct ct_incident_counts ct_incidents_count(const struct ct_incidents *n);
// Returns the head of the last incident that was not recovered; if there is none, of the first that
// the program noticed; if there is none, of the first; or NULL. Memory of a device comes before
// host memory and address space.
const struct ct_oom_event *ct_incidents_find_crossing(const struct ct_incidents *n);

// Incidents that are alike: the same call failed from one call site on one device, with the same
// outcome. A program that tries again and again has thousands of incidents, and a few groups.

struct ct_incident_group {
    size_t shown;               // the incident that stands for them: the crossing, or the first
    size_t first, last, count;  // incidents of the list; how many
    uint64_t smallest, largest; // bytes asked for, where known; smallest > largest: nowhere
};

struct ct_incident_groups {
    struct ct_incident_group *list; // that of the crossing, then in the order of their first ones
    size_t count, room;
};

// After ct_incidents_finish. `crossing`: its head, or NULL.
void ct_incident_groups_find(struct ct_incident_groups *g, const struct ct_incidents *n,
                             const struct ct_oom_event *crossing);
void ct_incident_groups_free(struct ct_incident_groups *g);

#endif
