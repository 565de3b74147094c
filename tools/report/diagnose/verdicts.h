// SPDX-License-Identifier: Apache-2.0
// Verdicts: which scenario a trace or a text shows, by what evidence, what would refute it, and
// what to change. Several can hold; the list is in the order of confidence, the strongest first.
//
// All texts are made by the program: what comes from a trace or a log is sanitized before it gets
// into one. A list owns its texts.
#ifndef CT_VERDICTS_H
#define CT_VERDICTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/human.h"

enum ct_scenario {
#define CT_SCENARIO(ID, name, title, traits) CT_SCENARIO_##ID,
#include "diagnose/scenarios.def"
    CT_SCENARIOS
};

// A fact that a verdict rests on.
struct ct_evidence {
    int event_known; // an event of the trace; else a line of a text
    uint64_t event, t_ns;
    int bytes_known;
    uint64_t bytes;
    uint32_t stack; // of the trace; 0: none
    char *text;
};

// What to change. `flag` is the option of the program (--gpu-memory-utilization) or the variable of
// the environment, NULL if the advice is none of a setting. `from` and `to` are values as one
// writes them, NULL where they are not known; `versions` says in which versions the flag exists,
// NULL: in all.
struct ct_advice {
    char *text, *flag, *from, *to, *versions;
};

struct ct_verdict {
    enum ct_scenario scenario;
    double confidence; // 0 to 1
    int device;        // index; -1: of no device, or unknown
    char *summary;     // one sentence without a full stop
    struct ct_evidence *evidence;
    size_t evidence_count, evidence_room;
    struct ct_advice *advice;
    size_t advice_count, advice_room;
    char *refuted_by; // what would show that it is wrong; NULL: nothing is known
    // Of several traces: the positions of the processes that it is about; the evidence is of the
    // first one.
    size_t *processes;
    size_t process_count, process_room;
};

struct ct_verdicts {
    struct ct_verdict *list;
    size_t count, room;
};

const char *ct_scenario_name(enum ct_scenario scenario);  // "graph-capture"
const char *ct_scenario_title(enum ct_scenario scenario); // "no room for CUDA graphs"

// How sure a confidence is, in a word: "certain" follows from an account or from what a program
// says itself, "likely" from functions of a stack, "possible" is the rest.
const char *ct_sureness_name(double confidence);
// That of a verdict; NULL: it says that nothing is known, or that nothing failed.
const char *ct_verdict_sureness(const struct ct_verdict *v);
// How a line names a verdict: "burst-prefill, likely".
struct ct_verdict_name {
    char text[64];
};
struct ct_verdict_name ct_verdict_name(const struct ct_verdict *v);

// How texts of verdicts write bytes.
static inline struct ct_human_text ct_iec(uint64_t bytes) {
    return ct_human_bytes(bytes, CT_UNITS_IEC);
}
// Adds a verdict with a summary as of printf. The pointer is valid until the next one is added.
struct ct_verdict *ct_verdicts_add(struct ct_verdicts *v, enum ct_scenario scenario,
                                   double confidence, int device, const char *summary, ...)
    __attribute__((format(printf, 5, 6)));
// Evidence that is an event of the trace; its bytes, if it has any, are set by the caller.
struct ct_evidence *ct_verdict_add_event(struct ct_verdict *v, uint64_t event, uint64_t t_ns,
                                         const char *text, ...)
    __attribute__((format(printf, 4, 5)));
// Evidence that is no event: a line of a log, a setting.
struct ct_evidence *ct_verdict_add_text(struct ct_verdict *v, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
void ct_evidence_set_bytes(struct ct_evidence *e, uint64_t bytes);
// Advice; the caller sets the values that are known with ct_advice_set.
struct ct_advice *ct_verdict_add_advice(struct ct_verdict *v, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
// NULL or "" is not known. Copies.
void ct_advice_set(struct ct_advice *a, const char *flag, const char *from, const char *to,
                   const char *versions);
// Advice on a setting, both at once.
void ct_verdict_add_setting(struct ct_verdict *v, const char *flag, const char *from,
                            const char *to, const char *versions, const char *text, ...)
    __attribute__((format(printf, 6, 7)));
void ct_verdict_set_refuted_by(struct ct_verdict *v, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
// The verdict of a scenario, or NULL.
struct ct_verdict *ct_verdicts_find(const struct ct_verdicts *v, enum ct_scenario scenario);
// Takes a scenario out, if it is there.
void ct_verdicts_drop(struct ct_verdicts *v, enum ct_scenario scenario);
// Puts the list in the order of confidence; those of equal confidence stay as they were added.
void ct_verdicts_sort(struct ct_verdicts *v);
void ct_verdicts_free(struct ct_verdicts *v);

// Joins `from` into `to`, in the order of confidence, and leaves `from` empty. Where both have a
// scenario, the verdict of `to` stays, with the evidence of both. Where they name different ones, a
// failed request of the trace weighs more than a text about it; but a trace in which no request
// failed says nothing against a server that refused to start, or to serve fast. `source` names
// where `from` is from: "the log".
void ct_verdicts_join(struct ct_verdicts *to, struct ct_verdicts *from, const char *source);

// Puts the verdicts of several traces into one list, in which each names the processes that it is
// about, and what is the same of several processes is said once.
struct ct_processes;
// Moves the verdicts of the processes, lists in the order of `all`, into one list: the strongest
// first, of equal ones that of the process that failed first. Where one process has failed, those
// that have not are no cause of it: that nothing failed is not said of them, and their verdicts
// count half. Leaves the lists empty.
void ct_process_verdicts_join(struct ct_verdicts *to, struct ct_verdicts *lists,
                              const struct ct_processes *all);

#endif
