// SPDX-License-Identifier: Apache-2.0
// The ranges that are open in the calling thread, and the counts of calls.
//
// A range opens no trace: a process that never uses CUDA leaves none. So ranges wait here until the
// thread's first event, and again in a forked child, whose trace has to know them, too.
// A thread that has no place among CT_THREAD_PLACES others does not keep its ranges.
#include "record/annotation_state.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/options.h"
#include "base/thread_places.h"
#include "store/name_table.h"
#include "write/info_table.h"

_Static_assert(CT_NAME_IDS < 32768, "name ids fit into 15 bits");
struct open_range {
    uint16_t api, text, domain, category : 15, published : 1;
};

struct nest {
    uint32_t kept; // in `range`
    uint32_t deep; // beyond it, only counted
    uint32_t lost; // of these: not published, and never will be; they are the outer ones
    struct open_range range[CT_ANNOTATION_NEST];
};

static struct nest places[CT_THREAD_PLACES];
static struct ct_thread_places lent;
static __thread struct nest *nest; // NULL: no range is open
__thread uint32_t ct_annotation_pending;

// ---- an annotation ------------------------------------------------------------------------------

void ct_annotation_fill(struct ct_event *e, enum ct_op op, const struct ct_annotation *a) {
    ct_event_init(e);
    CT_SET(e, op, op);
    CT_SET(e, api, a->api);
    if (CT_HAS(a, handle))
        CT_SET(e, handle, a->handle);
    if (CT_HAS(a, ptr))
        CT_SET(e, ptr, a->ptr);
    if (CT_HAS(a, bytes))
        CT_SET(e, bytes, a->bytes);
    if (CT_OPTION_NUMBER(PRIVATE)) // names are the program's own words
        return;
    if (a->text)
        CT_SET(e, text, a->text);
    if (a->domain)
        CT_SET(e, domain, a->domain);
    if (a->category)
        CT_SET(e, category, a->category);
}

// ---- places -------------------------------------------------------------------------------------

static struct nest *borrow(void) {
    const int at = ct_thread_places_borrow(&lent, &nest);
    if (at < 0)
        return NULL;
    nest = &places[at];
    nest->kept = nest->deep = nest->lost = 0;
    return nest;
}

static void give_back_if_empty(void) {
    if (nest->kept || nest->deep)
        return;
    const int at = (int)(nest - places);
    nest = NULL;
    ct_thread_places_give_back(&lent, at);
}

// ---- ranges -------------------------------------------------------------------------------------

static int count_of_domain(uint32_t domain) {
    int n = (int)nest->deep;
    for (uint32_t at = 0; at < nest->kept; at++)
        n += nest->range[at].domain == domain;
    return n;
}

static void keep(const struct ct_annotation *a, int published) {
    struct open_range *const range = &nest->range[nest->kept++];
    range->api = (uint16_t)a->api;
    range->text = (uint16_t)a->text;
    range->domain = (uint16_t)a->domain;
    range->category = a->category & 0x7FFF;
    range->published = published != 0;
    ct_annotation_pending += !published;
}

int ct_annotation_push_open(const struct ct_annotation *a, int published, int *is_left_out) {
    *is_left_out = !published;
    if (!nest && !borrow())
        return 0;
    const int level = count_of_domain(a->domain);
    if (nest->deep || nest->kept == CT_ANNOTATION_NEST) {
        nest->deep++;
        nest->lost += !published;
        return level;
    }
    *is_left_out = 0;
    keep(a, published);
    return level;
}

static int pop_deep(void) {
    nest->deep--;
    const int published = nest->deep >= nest->lost;
    nest->lost -= !published;
    return published;
}

static int pop_kept(uint32_t at) {
    const int published = nest->range[at].published;
    nest->kept--;
    for (; at < nest->kept; at++)
        nest->range[at] = nest->range[at + 1];
    ct_annotation_pending -= !published;
    return published;
}

static int pop(uint32_t domain) {
    if (nest->deep)
        return pop_deep();
    for (uint32_t at = nest->kept; at-- > 0;)
        if (nest->range[at].domain == domain)
            return pop_kept(at);
    return 1;
}

int ct_annotation_pop_open(uint32_t domain, int *published) {
    *published = 1; // unless it is known that it was not
    if (!nest)
        return -1;
    const int level = count_of_domain(domain) - 1;
    *published = pop(domain);
    give_back_if_empty();
    return level;
}

int ct_annotation_take_pending(struct ct_event *e) {
    for (uint32_t at = 0; ct_annotation_pending && at < nest->kept; at++)
        if (!nest->range[at].published) {
            nest->range[at].published = 1;
            ct_annotation_pending--;
            const struct open_range *const range = &nest->range[at];
            const struct ct_annotation a = {.api = range->api,
                                            .text = range->text,
                                            .domain = range->domain,
                                            .category = range->category};
            ct_annotation_fill(e, CT_OP_RANGE_PUSH, &a);
            return 1;
        }
    return 0;
}

// The places of the threads that the child does not have are free in it.
uint32_t ct_annotation_nest_reinit_child(void) {
    for (int at = 0; at < (int)CT_THREAD_PLACES; at++)
        if (nest != &places[at])
            ct_thread_places_give_back(&lent, at);
    if (!nest)
        return 0;
    for (uint32_t at = 0; at < nest->kept; at++)
        nest->range[at].published = 0;
    ct_annotation_pending = nest->kept;
    nest->lost = nest->deep;
    return nest->lost;
}

// ---- counts -----------------------------------------------------------------------------------

static _Atomic uint64_t calls, early, skipped;

static void publish(void) {
    const uint64_t n = atomic_load_explicit(&calls, memory_order_relaxed);
    if (!n)
        return;
    ct_info_set("annotations.calls", "%lu", n);
    ct_info_set("annotations.early", "%lu",
                (uint64_t)atomic_load_explicit(&early, memory_order_relaxed));
    const uint64_t left_out = atomic_load_explicit(&skipped, memory_order_relaxed);
    if (left_out)
        ct_info_set("annotations.skipped", "%lu", left_out);
}

void ct_annotation_count_call(void) {
    static _Atomic int has_source;
    if (!atomic_load_explicit(&has_source, memory_order_relaxed) &&
        !atomic_exchange(&has_source, 1))
        (void)ct_info_add_source(publish);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

void ct_annotation_count_early(void) {
    atomic_fetch_add_explicit(&early, 1, memory_order_relaxed);
}

void ct_annotation_count_skipped(uint64_t count) {
    atomic_fetch_add_explicit(&skipped, count, memory_order_relaxed);
}

void ct_annotation_counts_reinit_child(uint64_t left_out) {
    atomic_store_explicit(&calls, left_out, memory_order_relaxed);
    atomic_store_explicit(&early, left_out, memory_order_relaxed);
    atomic_store_explicit(&skipped, 0, memory_order_relaxed);
}
