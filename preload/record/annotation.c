// SPDX-License-Identifier: Apache-2.0
// Records what a program says of itself.
#include "record/annotation.h"

#include <errno.h>

#include "base/options.h"
#include "record/annotation_state.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"

static void fill(struct ct_event *e, enum ct_op op, const struct ct_annotation *a) {
    ct_event_init(e);
    CT_SET(e, op, op);
    CT_SET(e, api, a->api);
    if (CT_OPTION_NUMBER(PRIVATE)) // names are the program's own words
        return;
    if (a->text)
        CT_SET(e, text, a->text);
    if (a->domain)
        CT_SET(e, domain, a->domain);
    if (a->category)
        CT_SET(e, category, a->category);
}

// Whether to record: counts the call.
static int is_heard(void) {
    if (!ct_tracing_is_on())
        return 0;
    ct_annotation_count_call();
    return 1;
}

static int is_early(void) {
    if (ct_tracing_is_open())
        return 0;
    ct_annotation_count_early();
    return 1;
}

void ct_annotation_mark(const struct ct_annotation *a) {
    struct ct_event e;
    const int saved = errno;
    if (is_heard() && !is_early()) {
        fill(&e, CT_OP_MARK, a);
        ct_publish(&e);
    }
    errno = saved;
}

int ct_annotation_push(const struct ct_annotation *a) {
    struct ct_event e;
    enum ct_annotation_begin begin;
    const int saved = errno;
    const int is_on = is_heard();
    const int published = is_on && ct_tracing_is_open();
    fill(&e, CT_OP_RANGE_PUSH, a);
    if (published)
        ct_publish(&e); // before it is noted: publishing it publishes what is pending
    errno = saved;
    const int level = ct_annotation_push_open(&e, published, &begin);
    if (is_on && begin == CT_ANNOTATION_LEFT_OUT)
        ct_annotation_count_early();
    return level;
}

int ct_annotation_pop(uint32_t api, uint32_t domain) {
    struct ct_event e;
    const int saved = errno;
    int was_published;
    const int level = ct_annotation_pop_open(domain, &was_published);
    if (is_heard() && was_published && ct_tracing_is_open()) {
        fill(&e, CT_OP_RANGE_POP, &(struct ct_annotation){.api = api, .domain = domain});
        ct_publish(&e);
    }
    errno = saved;
    return level;
}

void ct_annotation_start(const struct ct_annotation *a, uint64_t id) {
    struct ct_event e;
    const int saved = errno;
    if (is_heard() && !is_early()) {
        fill(&e, CT_OP_RANGE_START, a);
        CT_SET(&e, handle, id);
        ct_publish(&e);
    }
    errno = saved;
}

void ct_annotation_end(uint32_t api, uint64_t id) {
    struct ct_event e;
    const int saved = errno;
    if (is_heard() && ct_tracing_is_open()) {
        fill(&e, CT_OP_RANGE_END, &(struct ct_annotation){.api = api});
        CT_SET(&e, handle, id);
        ct_publish(&e);
    }
    errno = saved;
}

// Publishes an event of a pool: without `at` it is of the pool as a whole.
static void publish_of_pool(struct ct_event *e, const struct ct_annotation_pool *pool,
                            const uint64_t *at) {
    if (pool && pool->is_known)
        CT_SET(e, handle, pool->handle);
    if (at)
        CT_SET(e, ptr, *at);
    ct_publish(e);
}

void ct_annotation_suballoc(const struct ct_annotation *a, struct ct_annotation_pool pool,
                            uint64_t ptr, uint64_t bytes) {
    struct ct_event e;
    const int saved = errno;
    if (is_heard() && !is_early()) {
        fill(&e, CT_OP_SUBALLOC, a);
        CT_SET(&e, bytes, bytes);
        CT_SET(&e, stack, ct_capture_stack());
        publish_of_pool(&e, &pool, &ptr);
    }
    errno = saved;
}

// The same of what takes nothing: it opens no trace, because before one nothing was handed out.
static void publish_if_open(enum ct_op op, const struct ct_annotation *a,
                            const struct ct_annotation_pool *pool, const uint64_t *at) {
    struct ct_event e;
    const int saved = errno;
    if (is_heard() && ct_tracing_is_open()) {
        fill(&e, op, a);
        publish_of_pool(&e, pool, at);
    }
    errno = saved;
}

void ct_annotation_subfree(const struct ct_annotation *a, uint64_t ptr) {
    publish_if_open(CT_OP_SUBFREE, a, NULL, &ptr);
}

void ct_annotation_subfree_all(const struct ct_annotation *a, struct ct_annotation_pool pool) {
    publish_if_open(CT_OP_SUBFREE, a, &pool, NULL);
}

void ct_annotation_subname(const struct ct_annotation *a, uint64_t ptr) {
    publish_if_open(CT_OP_SUBNAME, a, NULL, &ptr);
}

void ct_annotation_subpool(const struct ct_annotation *a, struct ct_annotation_pool pool,
                           uint64_t ptr, uint64_t bytes) {
    struct ct_event e;
    const int saved = errno;
    if (is_heard() && !is_early()) {
        fill(&e, CT_OP_SUBPOOL, a);
        CT_SET(&e, bytes, bytes);
        publish_of_pool(&e, &pool, &ptr);
    }
    errno = saved;
}

void ct_annotation_subpool_end(const struct ct_annotation *a, struct ct_annotation_pool pool) {
    publish_if_open(CT_OP_SUBPOOL, a, &pool, NULL);
}
