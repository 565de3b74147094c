// SPDX-License-Identifier: Apache-2.0
// One process among several whose traces are looked at together. Its trace is read twice: first for
// what decides on the common moment, then for the state at that moment.
#ifndef CT_PROCESS_H
#define CT_PROCESS_H

#include "analyze/account.h"
#include "analyze/scan.h"
#include "analyze/tracked_curve.h"

// What is known of a process at the moment.
enum ct_process_knowledge {
    CT_PROCESS_KNOWN,
    CT_PROCESS_NOT_STARTED, // it began later, so it holds nothing
    CT_PROCESS_LAST_SEEN,   // its last event was shortly before: the state is the one behind that
    CT_PROCESS_UNKNOWN,     // its last event was long before, or the events were overwritten
};

// The recorder repeats its readings every 30 s. After twice that time without an event, the last
// state is taken for nothing any more.
#define CT_PROCESS_LAST_SEEN_NS UINT64_C(60000000000)

// A reading of a device as the process read it. Another traced process may have changed what the
// model of a single process takes for its own.
struct ct_process_reading {
    uint64_t t_ns, free, total, tracked; // tracked: by this process then
    uint64_t process_bytes;              // by NVML, of this process
    uint64_t frees;                      // bytes of its frees that were under way
};

// The last readings of a kind, in a ring.
enum { CT_PROCESS_READINGS = 8 };
struct ct_process_readings {
    struct ct_process_reading list[CT_PROCESS_READINGS];
    size_t count; // of all; those that are kept are the last ones
};

struct ct_process_device {
    int ordinal;                 // CT_MAX_DEVICES: unknown
    int gpu;                     // position in ct_processes.gpus
    uint64_t uuid, nvml_index;   // the hash that the trace has
    int uuid_known, index_known; // of them
    char *name;
    struct ct_tracked_curve curve;
    // At the moment.
    struct ct_breakdown split;
    uint64_t parts[CT_ACCOUNT_TRACKED_ROWS];            // of what is tracked; they add up to it
    struct ct_process_readings readings, nvml_readings; // up to it; nvml: with process_bytes
    struct ct_shared shared;
    uint64_t asleep;    // of PyTorch's blocks at the moment, whose memory is unmapped
    uint64_t untracked; // of the process, as far as untracked_known
    int untracked_known;
};

struct ct_process {
    int is_usable;  // its trace can be read and has not been named before
    size_t same_as; // the process that has the same trace; SIZE_MAX: none
    uint64_t trace_id, pid, start_ns, clock_offset;
    int pid_known, start_known, clock_known;
    char *host, *boot, *exe, *thread, *rank;      // NULL: unknown. thread: name of the main thread
    uint64_t events, t_first_ns, t_last_ns, lost; // lost: events that the recorder could not keep
    int has_beginning, running;
    struct ct_incident_counts incidents;
    int has_crossing; // the OOM that describes its incidents
    struct ct_oom_event crossing;
    uint64_t first_failure_ns;         // of the first OOM that was not recovered, if there is one
    struct ct_process_device *devices; // by ordinal
    size_t device_count;
    uint64_t moment_ns; // described by the state
    enum ct_process_knowledge knowledge;
};

// Collects the facts about a process, its OOMs and its curves. `p` is zeroed.
void ct_process_scan(struct ct_process *p, struct ct_trace *t,
                     const struct ct_scan_request *request);
// Reads the state behind the last event up to a time, which becomes its moment, and not behind
// event number `last`.
void ct_process_read_state(struct ct_process *p, struct ct_trace *t, struct ct_phases *phases,
                           uint64_t t_ns, uint64_t last);
// The reading that comes so many before the last one; NULL: it is not kept.
const struct ct_process_reading *ct_process_readings_get(const struct ct_process_readings *r,
                                                         size_t back);
// Whether the program noticed an OOM of which no repetition succeeded.
int ct_process_has_failed(const struct ct_process *p);
// Whether the two have a common clock: the same machine and boot, as far as that is known.
int ct_process_shares_clock(const struct ct_process *p, const struct ct_process *other);
void ct_process_free(struct ct_process *p);

#endif
