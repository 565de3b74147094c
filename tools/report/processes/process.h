// SPDX-License-Identifier: Apache-2.0
// One process among several whose traces are looked at together. Its trace is read twice: first for
// what decides on the common moment, then for the state at that moment.
#ifndef CT_PROCESS_H
#define CT_PROCESS_H

#include "analyze/account.h"
#include "analyze/scan.h"
#include "analyze/tracked_curve.h"
#include "processes/neighbours.h"
#include "read/device_kind.h"

// What is known of a process at the moment.
enum ct_process_knowledge {
    CT_PROCESS_KNOWN,
    CT_PROCESS_NOT_STARTED, // it began later, so it holds nothing
    CT_PROCESS_LAST_SEEN,   // its last event was shortly before: the state is the one after that
    CT_PROCESS_UNKNOWN,     // its last event was long before, or the events were overwritten
    CT_PROCESS_ENDED,       // it ended long before, so it holds nothing
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
    struct ct_device_kind kind;
    // Of the whole process, on its own clock until ct_processes_find_moment, then on the moment's.
    struct ct_tracked_curve curve;
    int peak_known;                          // what was live when the curve was highest
    struct ct_tracked_curve untracked_curve; // what NVML reported of the process beyond that
    // At the moment.
    struct ct_breakdown split;
    struct ct_account account; // by this process's own trace; of it the rows of what is tracked
    struct ct_process_readings readings, nvml_readings; // up to it; nvml: with process_bytes
    struct ct_shared shared;
    uint64_t asleep;    // of PyTorch's blocks at the moment, whose memory is unmapped
    uint64_t untracked; // of the process, as far as untracked_known
    int untracked_known;
};

struct ct_process {
    int is_usable;  // its trace can be read and has not been named before
    size_t same_as; // the process that has the same trace; SIZE_MAX: none
    // The first one in the list that is the same process: each of its copies of the library, or
    // each program that it executed, has a trace of its own. Itself, if there is none before it.
    size_t first_trace;
    uint64_t trace_id, pid, ppid, parent_trace, start_ns, clock_offset;
    int own_numbers;       // NVML numbers processes as the process's namespace does
    uint32_t inferred_pid; // its number there, found by its memory; 0: unknown
    int pid_known, ppid_known, parent_trace_known, start_known, clock_known;
    // When the process has executed another program, on its clock: the first event of that one's
    // trace. Then all that this trace shows is gone. UINT64_MAX: no trace shows that.
    uint64_t replaced_ns;
    // NULL: unknown. thread: name of the main thread; flags_from: which process the server's flags
    // were given to.
    char *host_name, *boot, *pid_namespace, *image, *exe, *thread, *rank, *world, *flags_from;
    int rank_is_local;                            // it counts the processes of one machine
    size_t host, job;                             // as processes/hosts.h has them
    int64_t shift_ns;                             // from its clock to that of the moment
    uint64_t events, t_first_ns, t_last_ns, lost; // lost: events that the recorder could not keep
    int has_beginning, running, has_end;          // has_end: the trace has the end of the process
    struct ct_incident_counts incidents;
    int has_crossing; // the OOM that describes its incidents
    struct ct_oom_event crossing;
    int is_crossing_retried;           // PyTorch's repeated call got the memory
    uint64_t first_failure_ns;         // of the first OOM that was not recovered, if there is one
    struct ct_process_device *devices; // by ordinal
    size_t device_count;
    struct ct_shared shared_elsewhere; // at the moment, on devices that the process does not use
    uint64_t moment_ns;                // described by the state
    enum ct_process_knowledge knowledge;
};

// Collects the facts about a process, its OOMs and its curves. `p` is zeroed.
void ct_process_scan(struct ct_process *p, struct ct_trace *t,
                     const struct ct_scan_request *request);
// Whether the other trace is of a program that the same process executed later in place of its own.
int ct_process_was_replaced_by(const struct ct_process *p, const struct ct_process *other);
// Whether that has happened by a time of the moment's clock.
int ct_process_is_replaced(const struct ct_process *p, uint64_t t_ns);
// Reads who it is, and nothing of its events. `p` is zeroed.
void ct_process_identify(struct ct_process *p, const struct ct_trace *t);
// Reads the state after the last event up to a time, which becomes its moment, and not after
// event number `last`.
void ct_process_read_state(struct ct_process *p, struct ct_trace *t, struct ct_phases *phases,
                           uint64_t t_ns, uint64_t last);
// A time of the process's clock on the clock of the moment, and the other way round; as near as
// times can be that do not go below 0.
uint64_t ct_process_to_moment(const struct ct_process *p, uint64_t t_ns);
uint64_t ct_process_from_moment(const struct ct_process *p, uint64_t t_ns);
// Whether the end of its trace is that of the process: it has one, and the recorder asked NVML,
// which it repeats every 30 s as long as the process lives.
int ct_process_shows_end(const struct ct_process *p);
// Whether it held nothing at the moment, because it had not begun or had ended.
int ct_process_holds_nothing(const struct ct_process *p);
enum { CT_PROCESS_NAME = 64 };
// Prints "rank 3 (pid 4714)", or "pid 4714 (python3)" where the rank is unknown, without control
// characters. `to` has CT_PROCESS_NAME bytes.
void ct_process_name(const struct ct_process *p, char *to);
// The name of the main thread, which tells more than that of the program unless it is the beginning
// of it: python3 of python3.12.
const char *ct_process_program(const struct ct_process *p);
// The reading that comes so many before the last one; NULL: it is not kept.
const struct ct_process_reading *ct_process_readings_get(const struct ct_process_readings *r,
                                                         size_t back);
// Whether the program noticed an OOM of which no repetition succeeded.
int ct_process_has_failed(const struct ct_process *p);
// Whether the two are traces of one process: the same number and start, in one PID namespace.
int ct_process_is_same(const struct ct_process *p, const struct ct_process *other);
// Whether the two have a common clock: the same machine and boot, as far as that is known.
int ct_process_shares_clock(const struct ct_process *p, const struct ct_process *other);
void ct_process_free(struct ct_process *p);

// Names a process that NVML lists: prints "python3 (pid 123)", or "pid 123" where the name is
// unknown, and whose process it is if it is no stranger. Without control characters; `to` has
// CT_NEIGHBOUR_LABEL bytes.
enum { CT_NEIGHBOUR_LABEL = 160 };
void ct_neighbour_label(const struct ct_definitions *definitions, const struct ct_neighbour *p,
                        char *to);

#endif
