// SPDX-License-Identifier: Apache-2.0
// The functions of include/cutrace/cutrace.h as the library exports them.
#include <stddef.h>
#include <stdint.h>

#define CUTRACE_TYPES_ONLY
#include <cutrace/cutrace.h>

#include "record/annotation.h"
#include "record/tracing.h"
#include "store/name_table.h"

#define EXPORTED __attribute__((visibility("default")))

// Where something listens, a function of its own: what is exported is a load and a branch where
// nothing does.
#define CT_ANNOTATION(symbol, params, args)                   \
    static __attribute__((noinline)) void on_##symbol params; \
    EXPORTED void ct_export_##symbol params __asm__(#symbol); \
    void ct_export_##symbol params {                          \
        if (!ct_tracing_is_refused())                         \
            on_##symbol args;                                 \
    }
#include "intercept/annotations.def"

static struct ct_annotation annotate(const char *api, const char *name) {
    return (struct ct_annotation){.api = ct_name_intern(api),
                                  .text = ct_name_intern_copy(name, SIZE_MAX)};
}

static void on_cutrace_mark(const char *name) {
    const struct ct_annotation a = annotate("cutrace_mark", name);
    ct_annotation_record(CT_OP_MARK, &a);
}

static void on_cutrace_range_push(const char *name) {
    const struct ct_annotation a = annotate("cutrace_range_push", name);
    (void)ct_annotation_push(&a);
}

static void on_cutrace_range_pop(void) {
    const struct ct_annotation a = annotate("cutrace_range_pop", NULL);
    (void)ct_annotation_pop(&a);
}

static void on_cutrace_pool_alloc(const char *pool, const void *ptr, size_t bytes) {
    struct ct_annotation a = annotate("cutrace_pool_alloc", pool);
    CT_SET(&a, ptr, (uintptr_t)ptr);
    CT_SET(&a, bytes, bytes);
    ct_annotation_record(CT_OP_SUBALLOC, &a);
}

static void on_cutrace_pool_free(const char *pool, const void *ptr) {
    struct ct_annotation a = annotate("cutrace_pool_free", pool);
    CT_SET(&a, ptr, (uintptr_t)ptr);
    ct_annotation_record(CT_OP_SUBFREE, &a);
}

// What a program that was built with cutrace.h calls through.
EXPORTED extern const struct cutrace_annotations cutrace_annotations_1;
const struct cutrace_annotations cutrace_annotations_1 = {
    .bytes = sizeof cutrace_annotations_1,
    .mark = ct_export_cutrace_mark,
    .range_push = ct_export_cutrace_range_push,
    .range_pop = ct_export_cutrace_range_pop,
    .pool_alloc = ct_export_cutrace_pool_alloc,
    .pool_free = ct_export_cutrace_pool_free,
};
