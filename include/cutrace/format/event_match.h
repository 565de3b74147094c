// SPDX-License-Identifier: Apache-2.0
// Whether an event agrees with an earlier one in fields that most events of a program share:
// thread, API, context.
//
// This is asked more than once for each event. So it compares not fields but the words of struct
// ct_event that hold them, under masks that leave out fields that are absent or not asked for.
#ifndef CUTRACE_EVENT_MATCH_H
#define CUTRACE_EVENT_MATCH_H

#include <string.h>

#include <cutrace/format/format.h>
#include <cutrace/format/hot.h>

// The pairs of words that are compared, each named by its first field: op to result; device to
// allocated_bytes (a mask can only select the device there); context to flags; stream and pool.
#define CT_MATCH_PAIRS(X) X(op) X(device) X(context) X(stream)

_Static_assert(offsetof(struct ct_event, result) + 4 == offsetof(struct ct_event, op) + 16 &&
                   offsetof(struct ct_event, flags) + 4 ==
                       offsetof(struct ct_event, context) + 16 &&
                   offsetof(struct ct_event, pool) + 8 == offsetof(struct ct_event, stream) + 16,
               "the pairs cover the fields that are compared");

typedef uint64_t ct_match_words __attribute__((vector_size(16)));

// The values of an event. All zeros match no event.
struct ct_match {
#define CT_X(first) ct_match_words first##_value, first##_mask;
    CT_MATCH_PAIRS(CT_X)
#undef CT_X
    uint64_t present; // which of the fields the event had; bit 0 is set
};

CT_HOT ct_match_words ct_match_load(const struct ct_event *e, size_t at) {
    ct_match_words pair;
    memcpy(&pair, (const char *)e + at, sizeof pair);
    return pair;
}

// Whether the event has the same ones of `fields`, with the same values.
CT_HOT int ct_match_test(const struct ct_match *m, const struct ct_event *e, uint64_t fields) {
    ct_match_words differ = {0, 0};
#define CT_X(first) \
    differ |=       \
        (ct_match_load(e, offsetof(struct ct_event, first)) ^ m->first##_value) & m->first##_mask;
    CT_MATCH_PAIRS(CT_X)
#undef CT_X
    return !((m->present ^ ((e->present & fields) | 1)) | differ[0] | differ[1]);
}

// Remembers which of `fields` the event has, and the values of those that are in `values`, too.
// `values` are fields that lie in the compared words.
static inline void ct_match_set(struct ct_match *m, const struct ct_event *e, uint64_t fields,
                                uint64_t values) {
    struct ct_event all;
    memset(&all, 0, sizeof all);
    m->present = (e->present & fields) | 1;
#define CT_FIELD(number, member, ctype, coding, json)  \
    if (m->present & values & UINT64_C(1) << (number)) \
        memset(&all.member, 0xFF, sizeof all.member);
#include <cutrace/format/events.def>
#define CT_X(first)                                                        \
    m->first##_value = ct_match_load(e, offsetof(struct ct_event, first)); \
    m->first##_mask = ct_match_load(&all, offsetof(struct ct_event, first));
    CT_MATCH_PAIRS(CT_X)
#undef CT_X
}

#endif
