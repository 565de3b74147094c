// SPDX-License-Identifier: Apache-2.0
// Handles. A handle is the address of its object; a search tree knows which are alive, so that a
// stale or invented handle is an error and never a crash. Addresses are used again, as on the
// real driver.
#include "sim.h"

#include <search.h>
#include <stdlib.h>

static void *tree;
static struct sim_object *all;
static uint64_t serials;

static int compare(const void *a, const void *b) {
    return a < b ? -1 : a > b;
}

void *sim_object_new(size_t size, enum sim_kind kind, struct sim_context *ctx, int device) {
    struct sim_object *o = calloc(1, size);
    if (!o || !tsearch(o, &tree, compare))
        abort();
    o->kind = kind;
    o->serial = ++serials;
    o->device = device;
    o->ctx = ctx;
    o->next = all;
    if (all)
        all->prev = o;
    all = o;
    return o;
}

void *sim_object_find(const void *handle, enum sim_kind kind) {
    struct sim_object **found = tfind(handle, &tree, compare);
    return found && (*found)->kind == kind ? *found : NULL;
}

void sim_object_delete(void *object) {
    struct sim_object *o = object;
    tdelete(o, &tree, compare);
    if (o->prev)
        o->prev->next = o->next;
    else
        all = o->next;
    if (o->next)
        o->next->prev = o->prev;
    free(o);
}

void sim_object_each(struct sim_context *ctx, enum sim_kind kind, void (*end)(void *object)) {
    for (struct sim_object *o = all, *next; o; o = next) {
        next = o->next;
        if (o->kind == kind && (!ctx || o->ctx == ctx))
            end(o);
    }
}
