// SPDX-License-Identifier: Apache-2.0
// User objects: something of the program's that graphs keep alive. When the last reference goes,
// its destructor is called: by the thread whose call released it, as work is done at once here.
#include "sim.h"

#include <limits.h>
#include <stdlib.h>

struct sim_user_object {
    struct sim_object o;
    void *what;
    CUhostFn destroy;
    uint64_t mine; // references that the program owns
    uint64_t held; // references that graphs and executables own
    struct sim_user_object *next_dead;
};

static struct sim_user_object *dead_ones;

static bool valid(unsigned count) {
    return count && count <= INT_MAX;
}

static void end_if_unused(struct sim_user_object *u) {
    if (u->mine || u->held)
        return;
    struct sim_user_object *copy = malloc(sizeof *copy);
    if (!copy)
        abort();
    *copy = *u;
    copy->next_dead = dead_ones;
    dead_ones = copy;
    sim_object_delete(u); // the handle is stale from now on
}

struct sim_user_object *sim_user_objects_take_dead(void) {
    struct sim_user_object *dead = dead_ones;
    dead_ones = NULL;
    return dead;
}

void sim_user_objects_destroy(struct sim_user_object *dead) {
    while (dead) {
        struct sim_user_object *next = dead->next_dead;
        dead->destroy(dead->what);
        free(dead);
        dead = next;
    }
}

// ---- what graphs hold ---------------------------------------------------------------------------

static void hold(struct sim_held **list, struct sim_user_object *u, unsigned count) {
    struct sim_held *h = *list;
    while (h && h->object != u)
        h = h->next;
    if (!h) {
        h = calloc(1, sizeof *h);
        if (!h)
            abort();
        h->object = u;
        h->next = *list;
        *list = h;
    }
    h->count += count;
    u->held += count;
}

void sim_held_add(struct sim_held **list, const struct sim_held *from) {
    for (; from; from = from->next)
        hold(list, from->object, from->count);
}

void sim_held_drop(struct sim_held **list) {
    while (*list) {
        struct sim_held *h = *list;
        *list = h->next;
        h->object->held -= h->count;
        end_if_unused(h->object);
        free(h);
    }
}

// ---- the program's references -------------------------------------------------------------------

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                    unsigned int initialRefcount, unsigned int flags) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c,
                  !object_out || !destroy || !valid(initialRefcount) ||
                      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        struct sim_user_object *u = sim_object_new(sizeof *u, SIM_USER_OBJECT, NULL, 0);
        u->what = ptr;
        u->destroy = destroy;
        u->mine = initialRefcount;
        *object_out = (CUuserObject)u;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count) {
    SIM_BEGIN(NULL, INIT);
    struct sim_user_object *u = sim_object_find(object, SIM_USER_OBJECT);
    SIM_REFUSE_IF(&c, !u || !valid(count), CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        u->mine += count;
    return sim_end(&c);
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
    SIM_BEGIN(NULL, INIT);
    struct sim_user_object *u = sim_object_find(object, SIM_USER_OBJECT);
    SIM_REFUSE_IF(&c, !u || !valid(count) || u->mine < count, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        u->mine -= count;
        end_if_unused(u);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags) {
    SIM_BEGIN(NULL, INIT);
    struct sim_held **list = sim_graph_holds(graph);
    struct sim_user_object *u = sim_object_find(object, SIM_USER_OBJECT);
    const bool move = flags == CU_GRAPH_USER_OBJECT_MOVE;
    if (!c.result &&
        (!list || !u || !valid(count) || (flags && !move) || (move && u->mine < count)))
        c.result = CUDA_ERROR_INVALID_VALUE;
    if (!c.result) {
        hold(list, u, count);
        u->mine -= move ? count : 0;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    SIM_BEGIN(NULL, INIT);
    struct sim_held **link = sim_graph_holds(graph);
    struct sim_user_object *u = sim_object_find(object, SIM_USER_OBJECT);
    while (link && *link && (*link)->object != u)
        link = &(*link)->next;
    struct sim_held *h = link ? *link : NULL;
    SIM_REFUSE_IF(&c, !u || !h || !valid(count) || h->count < count, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        h->count -= count;
        u->held -= count;
        if (!h->count) {
            *link = h->next;
            free(h);
        }
        end_if_unused(u);
    }
    return sim_end(&c);
}
