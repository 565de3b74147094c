// SPDX-License-Identifier: Apache-2.0
// A traced process at a moment, as its journal and trace tell it from outside: plain values, which
// every view of cutrace watch shows and none changes.
//
// There are two moments. Figures of the journal's header (`head`) are read at each tick. All others
// need the events: they are of `details_ns`, and details of one process are of one moment.
#ifndef CT_WATCH_MODEL_H
#define CT_WATCH_MODEL_H

#include <cutrace/format/journal.h>
#include <cutrace/model/live_memory.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/incidents.h"
#include "base/error.h"
#include "diagnose/verdicts.h"
#include "watch/trend.h"

enum ct_watch_part {
#define CT_WATCH_PART(ID, key, letter, color, title) CT_WATCH_##ID,
#include "watch/parts.def"
    CT_WATCH_PARTS,
};
struct ct_watch_part_row {
    const char *key, *color, *title;
    char letter;
};
extern const struct ct_watch_part_row ct_watch_parts[CT_WATCH_PARTS];

enum ct_watch_state {
    CT_WATCH_RECORDING,
    CT_WATCH_PAUSED,  // by cutrace ctl off
    CT_WATCH_KILLED,  // it has ended, and left its journal
    CT_WATCH_DAMAGED, // the journal cannot be read any more
    CT_WATCH_ENDED,   // in good order: the journal is gone
};

struct ct_watch_device {
    int ordinal; // CT_MAX_DEVICES: unknown
    char name[64];
    uint64_t capacity; // 0: unknown
    int is_read;       // the parts add up to `total`; else those up to MEMPOOL_IDLE to `tracked`
    uint64_t total, tracked, part[CT_WATCH_PARTS];
    uint64_t managed;                 // in no part, because it migrates
    struct ct_torch_pool_totals pool; // to be told where it is known and reported
    struct ct_trend own, whole; // of what the process has allocated; of what is used of the device
    int has_full;
    struct ct_trend_full full;
};

struct ct_watch_site {
    char *label; // sanitized
    const char *kind;
    uint64_t bytes, count;
    int64_t gained; // since `since_ns`
};

enum ct_watch_outcome { CT_WATCH_FAILED, CT_WATCH_RECOVERED, CT_WATCH_RETRIED, CT_WATCH_OUTCOMES };

struct ct_watch_incident {
    struct ct_oom_event head; // which describes it
    uint64_t first_event;     // of its first failed call, which never changes
    enum ct_watch_outcome outcome;
};

// Incidents that no earlier details had, and that are so old that their outcome is known, unless
// the program tries again much later.
struct ct_watch_fresh {
    uint64_t count[CT_WATCH_OUTCOMES];
    uint64_t next_event; // later ones have their first event from here on
    int is_open;         // there are others, which are not old enough
};

enum { CT_WATCH_SITES = 32, CT_WATCH_INCIDENTS = 8 };

// The verdict about the incidents, by cutrace-report's rules.
struct ct_watch_verdict {
    char *summary; // NULL: there is no verdict
    enum ct_scenario scenario;
    double confidence;
    const char *sureness; // in a word; NULL: none
};

// What the events tell.
struct ct_watch_details {
    uint64_t start_ns, t_ns; // of the recording; of the moment: the last event
    uint64_t events, lost;
    char program[64];                                      // sanitized; "": not known
    uint64_t recent_ns, recent_events, recent_allocations; // in the last `recent_ns`
    char *phase;                                           // NULL: not known
    struct ct_watch_device *devices;
    size_t device_count;
    uint64_t since_ns;                          // of what call sites have gained
    int since_start;                            // ... which is the start of the recording
    struct ct_watch_site sites[CT_WATCH_SITES]; // the most bytes first
    size_t site_count, all_sites;
    struct ct_watch_incident incidents[CT_WATCH_INCIDENTS]; // the last ones, the newest first
    size_t incident_count;
    uint64_t all_incidents, failed;
    struct ct_watch_fresh fresh;
    struct ct_watch_verdict verdict;
    uint64_t cost_ns; // processor time that reading took
};

struct ct_watch_process {
    char *trace;      // path, any bytes
    uint32_t pid;     // as this program sees it, else the journal's
    char program[64]; // sanitized
    int is_named;     // by the kernel or the trace; else it is the trace's file name
    enum ct_watch_state state;
    struct ct_journal head; // as it was read at `read_ns`
    uint64_t read_ns;
    uint64_t ended_ns; // when it was first seen to have ended; 0: it is alive
    int has_details;
    uint64_t details_ns; // when they were read
    int is_stale;        // something has changed since
    struct ct_watch_details details;
    char *problem; // why there are no (new) details; NULL: there is none
};

// Readers fill a model, list.c frees it.
void ct_watch_details_free(struct ct_watch_details *d);
void ct_watch_process_free(struct ct_watch_process *p);
// Whether the process has done anything with the device.
int ct_watch_is_used(const struct ct_journal_device *d);
// Whether the process still runs.
int ct_watch_is_alive(const struct ct_watch_process *p);
const char *ct_watch_state_name(enum ct_watch_state state);
const char *ct_watch_outcome_name(enum ct_watch_outcome outcome);
// The device on which the process holds the most, or NULL.
const struct ct_watch_device *ct_watch_main_device(const struct ct_watch_process *p);
// What it had allocated on all devices at the moment of the details.
uint64_t ct_watch_details_tracked(const struct ct_watch_process *p);
// What it has allocated now, on all devices: by the details, unless the header has more events.
uint64_t ct_watch_tracked(const struct ct_watch_process *p);

// ---- what is new --------------------------------------------------------------------------------

// Growth that stopped for less time is the same growth.
#define CT_WATCH_GROWTH_APART_NS UINT64_C(600000000000)

// What is new of a process since it was found: requests that ran out of memory, each counted once,
// when its outcome was known, and growth of a device, once when it begins. Whatever is read again,
// overwritten in the trace or judged otherwise later, counts never go back.
struct ct_watch_news {
    uint64_t trace_id; // of which all below is
    uint64_t requests[CT_WATCH_OUTCOMES];
    uint64_t scenarios[CT_SCENARIOS]; // by the verdict when the request was counted
    uint64_t next_event; // incidents from this one on (first_event) are not counted yet
    uint64_t told_event; // ... are not told yet
    uint64_t untold;     // how many those are
    uint64_t grew_ns[CT_MAX_DEVICES + 1]; // when a device was last seen to grow; 0: never
    uint8_t growth[CT_MAX_DEVICES + 1];   // 1: it is new, and not told yet
};

// Counts what details have that is new.
void ct_watch_news_note(struct ct_watch_news *n, const struct ct_watch_details *d, uint64_t now_ns);

// ---- details.c ----------------------------------------------------------------------------------

// Reads the details of a process from its trace and journal, as cutrace-report would.
struct ct_watch_reading {
    const char *name;    // of the trace, for messages
    int trace, journal;  // descriptors, which are taken over; -1: there is none
    uint64_t trace_id;   // that the files must have
    uint64_t now_ns;     // CLOCK_MONOTONIC, if the process still records; else 0
    uint64_t since_ns;   // of what call sites have gained; 0: as far back as the trend goes
    uint64_t fresh_from; // incidents with an earlier first event are not fresh
    // Those that were read before, for the verdict, which is not found again if nothing failed
    // since; or NULL.
    const struct ct_watch_details *before;
};

// Returns 0, or -1 with the error set. `d` is overwritten.
int ct_watch_details_read(struct ct_watch_details *d, const struct ct_watch_reading *reading,
                          struct ct_error *error);

#endif
