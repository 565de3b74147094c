// SPDX-License-Identifier: Apache-2.0
// The ranges that are open in the calling thread.
//
// A range opens no trace: a process that never uses CUDA leaves none. So ranges wait here until the
// thread's first event, and again in a forked child, whose trace has to know them, too.
#include "record/annotation_nest.h"

#include "store/name_table.h"

// Name ids are below 2^15, and a thread's storage is scarce.
_Static_assert(CT_NAME_IDS < 32768, "name ids fit into 15 bits");
static __thread struct {
    uint32_t kept; // in `range`
    uint32_t deep; // beyond it, only counted
    uint32_t lost; // of these: not published, and never will be; they are the outer ones
    struct {
        uint16_t api, text, domain, category : 15, published : 1;
    } range[CT_ANNOTATION_NEST];
} nest __attribute__((tls_model("initial-exec")));

__thread uint32_t ct_annotation_pending;

int ct_annotation_push_open(const struct ct_event *e, int published) {
    const int level = (int)(nest.kept + nest.deep);
    if (nest.deep || nest.kept == CT_ANNOTATION_NEST) {
        nest.deep++;
        nest.lost += !published;
        return level;
    }
    const uint32_t at = nest.kept++;
    nest.range[at].api = (uint16_t)e->api;
    nest.range[at].text = (uint16_t)(CT_HAS(e, text) ? e->text : 0);
    nest.range[at].domain = (uint16_t)(CT_HAS(e, domain) ? e->domain : 0);
    nest.range[at].category = (CT_HAS(e, category) ? e->category : 0) & 0x7FFF;
    nest.range[at].published = published != 0;
    ct_annotation_pending += !published;
    return level;
}

static int pop_kept(uint32_t at) {
    const int published = nest.range[at].published;
    nest.kept--;
    for (; at < nest.kept; at++)
        nest.range[at] = nest.range[at + 1];
    ct_annotation_pending -= !published;
    return published;
}

int ct_annotation_pop_open(uint32_t domain, int *published) {
    *published = 1; // unless it is known that it was not
    const int level = (int)(nest.kept + nest.deep) - 1;
    if (nest.deep) {
        nest.deep--;
        *published = nest.deep >= nest.lost;
        nest.lost -= !*published;
        return level;
    }
    for (uint32_t at = nest.kept; at-- > 0;)
        if (nest.range[at].domain == domain) {
            *published = pop_kept(at);
            break;
        }
    return level;
}

unsigned ct_annotation_take_pending(struct ct_event *events) {
    unsigned n = 0;
    ct_annotation_pending = 0;
    for (uint32_t at = 0; at < nest.kept; at++) {
        if (nest.range[at].published)
            continue;
        nest.range[at].published = 1;
        struct ct_event *const e = &events[n++];
        ct_event_init(e);
        CT_SET(e, op, CT_OP_RANGE_PUSH);
        CT_SET(e, api, nest.range[at].api);
        if (nest.range[at].text)
            CT_SET(e, text, nest.range[at].text);
        if (nest.range[at].domain)
            CT_SET(e, domain, nest.range[at].domain);
        if (nest.range[at].category)
            CT_SET(e, category, nest.range[at].category);
    }
    return n;
}

void ct_annotation_reinit_child(void) {
    for (uint32_t at = 0; at < nest.kept; at++)
        nest.range[at].published = 0;
    ct_annotation_pending = nest.kept;
    nest.lost = nest.deep;
}
