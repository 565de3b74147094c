// SPDX-License-Identifier: Apache-2.0
// The parts of JSON documents that several views share. JSON.md is the contract.
#ifndef CT_DOCUMENT_H
#define CT_DOCUMENT_H

#include "analyze/account.h"
#include "analyze/capacity.h"
#include "analyze/moment.h"
#include "analyze/oom_reason.h"
#include "answer/view_scan.h"
#include "base/json.h"
#include "read/device_kind.h"

enum { CT_DOCUMENT_VERSION = 2 }; // of all schemas

// Opens a document with its schema and file, process and start.
void ct_document_begin(struct ct_json *j, const struct ct_view *v);
// Opens a document with its schema and file only.
void ct_document_begin_bare(struct ct_json *j, const struct ct_view *v);
void ct_document_end(struct ct_json *j);
// Adds `process`.
void ct_document_add_process(struct ct_json *j, const struct ct_view *v);
// Adds `start_ns`, and the same moment in UTC.
void ct_document_add_start(struct ct_json *j, const struct ct_trace *t);
void ct_document_add_trace(struct ct_json *j, const struct ct_view *v, const struct ct_scan *s);
// Prints the document of the command for a trace of which nothing is known: the command's own keys
// are null. Returns 0 if the command is about other things.
int ct_document_print_unknown(const struct ct_view *v);
// Adds what is missing or damaged, and the first and the last time.
void ct_document_add_extent(struct ct_json *j, const struct ct_trace *t);
// Adds the keys of the recording.
void ct_document_add_recording(struct ct_json *j, const struct ct_trace *t);
// Adds `recovered`: null where the size of the request is not known.
void ct_document_add_recovered(struct ct_json *j, int size_known, int recovered);
// Adds an OOM; `key` is NULL in a list. `budget`: it crossed the budget of --capacity. `growths`:
// may be NULL, then PyTorch's pool is no cause.
void ct_document_add_oom(struct ct_json *j, struct ct_view *v, const char *key,
                         const struct ct_oom_event *o, int budget,
                         const struct ct_pool_growths *growths);
// How many OOMs, and how many incidents, a list has at most: the first ones.
size_t ct_document_most_ooms(const struct ct_view *v);
// Adds the OOMs, the incidents that they are parts of, and the crossing (NULL: there is none).
void ct_document_add_incidents(struct ct_json *j, struct ct_view *v, const struct ct_scan *s,
                               const struct ct_oom_event *crossing);
void ct_document_add_device(struct ct_json *j, const char *key, int device);
// Adds `gap`: the time asked for at which what was live is not known, or null.
void ct_document_add_gap(struct ct_json *j, const struct ct_view *v);
// `known`: whether what was live then is known; of a trace without bodies only the caller knows.
void ct_document_add_moment_known(struct ct_json *j, const struct ct_moment *m, int known);
void ct_document_add_moment(struct ct_json *j, const struct ct_trace *t, const struct ct_moment *m);
void ct_document_add_moment_or_null(struct ct_json *j, const struct ct_trace *t,
                                    const struct ct_moment *m); // NULL: null
void ct_document_add_capacity(struct ct_json *j, const struct ct_capacity *c);
// Whether the device is a MIG instance, and whether the host shares its memory.
void ct_document_add_kind(struct ct_json *j, const struct ct_device_kind *kind);
void ct_document_add_shared(struct ct_json *j, const char *key, const struct ct_shared *m);
// Adds `memory` of a device: the splits at the crossing, at the peak and at the end.
void ct_document_add_memory_of_device(struct ct_json *j, const struct ct_device_memory *m);
// Adds `driver_version`: the release of NVIDIA's driver.
void ct_document_add_driver(struct ct_json *j, const struct ct_view *v);
// Adds the list `damage`.
void ct_document_add_damage(struct ct_json *j, const struct ct_index *x);
// Adds a text of the trace; null if it is empty or NULL.
void ct_document_add_string(struct ct_json *j, const char *key, const struct ct_string *s);
// Adds a name of events.def, or "unknown-N" if `name` is NULL.
void ct_document_add_name(struct ct_json *j, const char *key, const char *name, uint32_t number);
// Adds a phase; null if it is not known.
void ct_account_json_add_phase(struct ct_json *j, const struct ct_phase_at *at);
// Adds an account; null if there is none.
void ct_account_json_add(struct ct_json *j, const char *key, const struct ct_account *a);
// Adds `account` of a device: at the crossing, at the peak (NULL: it has none), and at the end.
void ct_account_json_add_moments(struct ct_json *j, const struct ct_account *crossing,
                                 const struct ct_account *peak, const struct ct_account *end);

#endif
