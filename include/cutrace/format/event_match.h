// SPDX-License-Identifier: Apache-2.0
// Whether an event says the same as one before in what most events of a program share: who called what, and how.
//
// This is asked more than once for each event. So it is not asked field by field, but of the words that hold the fields,
// with masks for what is absent or not asked for.
#ifndef CUTRACE_LIKE_H
#define CUTRACE_LIKE_H

#include <string.h>

#include <cutrace/format/format.h>
#include <cutrace/format/hot.h>

// The pairs of words of struct ct_event that can be asked for, each by its first field.
#define CT_MATCH_PAIRS(X) X(op) X(device) X(context) X(stream)

_Static_assert(offsetof(struct ct_event, result) + 4 == offsetof(struct ct_event, op) + 16 &&
                   offsetof(struct ct_event, flags) + 4 ==
                       offsetof(struct ct_event, context) + 16 &&
                   offsetof(struct ct_event, pool) + 8 == offsetof(struct ct_event, stream) + 16,
               "op to result, device and what is not asked for, context to flags, stream and pool");

typedef uint64_t ct_match_words __attribute__((vector_size(16)));

// What an event said. Zeros are like no event.
struct ct_match {
#define CT_X(first) ct_match_words first##_value, first##_mask;
    CT_MATCH_PAIRS(CT_X)
#undef CT_X
    uint64_t present; // of the fields that are asked for; and bit 0
};

CT_HOT ct_match_words ct_match_load(const struct ct_event *e, size_t at) {
    ct_match_words pair;
    memcpy(&pair, (const char *)e + at, sizeof pair);
    return pair;
}

// Whether the event has the same ones of the fields, with the same values.
CT_HOT int ct_match_test(const struct ct_match *l, const struct ct_event *e, uint64_t fields) {
    ct_match_words differ = {0, 0};
#define CT_X(first) \
    differ |=       \
        (ct_match_load(e, offsetof(struct ct_event, first)) ^ l->first##_value) & l->first##_mask;
    CT_MATCH_PAIRS(CT_X)
#undef CT_X
    return !((l->present ^ ((e->present & fields) | 1)) | differ[0] | differ[1]);
}

// Remembers which of the fields an event has, and the values of some of them, which lie in those words.
static inline void ct_match_set(struct ct_match *l, const struct ct_event *e, uint64_t fields,
                                uint64_t values) {
    struct ct_event all;
    memset(&all, 0, sizeof all);
    l->present = (e->present & fields) | 1;
#define CT_FIELD(number, member, ctype, coding, json)  \
    if (l->present & values & UINT64_C(1) << (number)) \
        memset(&all.member, 0xFF, sizeof all.member);
#include <cutrace/format/events.def>
#define CT_X(first)                                                        \
    l->first##_value = ct_match_load(e, offsetof(struct ct_event, first)); \
    l->first##_mask = ct_match_load(&all, offsetof(struct ct_event, first));
    CT_MATCH_PAIRS(CT_X)
#undef CT_X
}

#endif
