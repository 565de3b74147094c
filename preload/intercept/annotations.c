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

#define CT_ANNOTATION(symbol, params) EXPORTED void ct_export_##symbol params __asm__(#symbol);
#include "intercept/annotations.def"

static struct ct_annotation annotate(const char *api, const char *name) {
    return (struct ct_annotation){.api = ct_name_intern(api),
                                  .text = ct_name_intern_copy(name, SIZE_MAX)};
}

// ---- where something listens --------------------------------------------------------------------
// Functions of their own: what is exported is a load and a branch where nothing does.

#define SLOW static __attribute__((noinline)) void

SLOW mark(const char *name) {
    const struct ct_annotation a = annotate("cutrace_mark", name);
    ct_annotation_mark(&a);
}

SLOW range_push(const char *name) {
    const struct ct_annotation a = annotate("cutrace_range_push", name);
    (void)ct_annotation_push(&a);
}

SLOW range_pop(void) {
    (void)ct_annotation_pop(ct_name_intern("cutrace_range_pop"), 0);
}

SLOW pool_alloc(const char *pool, const void *ptr, size_t bytes) {
    const struct ct_annotation a = annotate("cutrace_pool_alloc", pool);
    ct_annotation_suballoc(&a, (struct ct_annotation_pool){0}, (uintptr_t)ptr, bytes);
}

SLOW pool_free(const char *pool, const void *ptr) {
    const struct ct_annotation a = annotate("cutrace_pool_free", pool);
    ct_annotation_subfree(&a, (uintptr_t)ptr);
}

// ---- exported -----------------------------------------------------------------------------------

void ct_export_cutrace_mark(const char *name) {
    if (!ct_tracing_is_refused())
        mark(name);
}

void ct_export_cutrace_range_push(const char *name) {
    if (!ct_tracing_is_refused())
        range_push(name);
}

void ct_export_cutrace_range_pop(void) {
    if (!ct_tracing_is_refused())
        range_pop();
}

void ct_export_cutrace_pool_alloc(const char *pool, const void *ptr, size_t bytes) {
    if (!ct_tracing_is_refused())
        pool_alloc(pool, ptr, bytes);
}

void ct_export_cutrace_pool_free(const char *pool, const void *ptr) {
    if (!ct_tracing_is_refused())
        pool_free(pool, ptr);
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
