// SPDX-License-Identifier: Apache-2.0
// What every entry point does first and last: the driver's one lock, scripted failures, the check
// of initialisation and context, latency, and the line in the ledger.
#define _GNU_SOURCE
#include "sim.h"
#include "trace_points.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

_Thread_local int sim_depth;
bool sim_initialised;

// On a page that is empty in a child, however it was made: nobody there holds the lock.
static struct {
    pthread_mutex_t lock; // zeros are PTHREAD_MUTEX_INITIALIZER
    int known;
} * alive;
static bool has_ended; // at the exit of the process
static bool forked;    // a child of a process that had called cuInit: CUDA does not work in it

static void before_fork(void) {
    pthread_mutex_lock(&alive->lock);
}

static void after_fork_parent(void) {
    pthread_mutex_unlock(&alive->lock);
}

static void after_fork_child(void) {
    alive->known = 1;
    forked = forked || sim_initialised;
    sim_shared_forget_pid();
}

static void start(void) {
    sim_param_read();
    alive = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (alive == MAP_FAILED || madvise(alive, 4096, MADV_WIPEONFORK))
        abort();
    alive->known = 1;
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static void end_at_exit(void) {
    pthread_mutex_lock(&alive->lock);
    has_ended = true;
    pthread_mutex_unlock(&alive->lock);
    sim_driver_set_tracer(NULL);
}

CUresult sim_cu_init(void) {
    if (forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (sim_param.ends_at_exit && !sim_initialised)
        atexit(end_at_exit);
    sim_initialised = true;
    sim_space_open();
    return CUDA_SUCCESS;
}

// SIM_LATENCY_NS: "500" for every call, "cuMemFree_v2:5000000,200" for one and the others.
static long latency_of(const char *api) {
    long otherwise = 0;
    for (const char *p = sim_param.latency; p && *p;) {
        size_t length = strcspn(p, ",:");
        if (p[length] == ':' && strlen(api) == length && memcmp(p, api, length) == 0)
            return strtol(p + length + 1, NULL, 0);
        if (p[length] != ':')
            otherwise = strtol(p, NULL, 0);
        p += strcspn(p, ",");
        p += *p == ',';
    }
    return otherwise;
}

static void wait_for(long ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    if (ns > 0)
        nanosleep(&t, NULL);
}

static CUresult check(struct sim_call *c, enum sim_need need) {
    CUresult scripted = sim_fail(c->api);
    CUresult why_not = CUDA_SUCCESS;
    c->ctx = sim_initialised && !forked ? sim_current(&why_not) : NULL;
    if (c->ctx) {
        sim_set_context(c, c->ctx);
        sim_set_device(c, c->ctx->o.device);
        if (sim_is_sticky(scripted))
            c->ctx->sticky = scripted;
    }
    c->scripted = scripted != CUDA_SUCCESS;
    if (scripted)
        return scripted;
    if (need == SIM_NEED_NOTHING)
        return CUDA_SUCCESS;
    if (has_ended)
        return CUDA_ERROR_DEINITIALIZED;
    if (!sim_initialised || forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need == SIM_NEED_INIT)
        return CUDA_SUCCESS;
    if (!c->ctx)
        return why_not;
    c->scripted = c->ctx->sticky != CUDA_SUCCESS;
    return c->ctx->sticky;
}

void sim_begin(struct sim_call *c, const char *api, const char *op, enum sim_need need) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    memset(c, 0, sizeof *c);
    c->api = api;
    c->op = op;
    c->depth = sim_depth;
    if (sim_param.latency)
        wait_for(latency_of(api) / 2);
    if (!alive->known) // no handler has run
        after_fork_child();
    pthread_mutex_lock(&alive->lock);
    if (sim_param.ledger_map)
        sim_map_enter(c);
    c->result = check(c, need);
}

static int number_of(const char *api) {
    int sum = 1000;
    for (const char *p = api; *p; p++)
        sum = (sum * 31 + *p) % 100000;
    return sum;
}

CUresult sim_end(struct sim_call *c) {
    if (c->op)
        sim_ledger_write(c);
    if (sim_param.ledger_map)
        sim_map_leave(c);
    if (sim_param.log)
        sim_log("%s %d", c->api, (int)c->result);
    struct sim_user_object *dead = sim_user_objects_take_dead();
    pthread_mutex_unlock(&alive->lock);
    sim_user_objects_destroy(dead);
    // The second half comes after the work: a free's address may be handed out again before the
    // call that freed it has returned, as on the real driver.
    if (sim_param.latency) {
        long ns = latency_of(c->api);
        wait_for(ns - ns / 2);
    }
    if (sim_param.sets_errno)
        errno = number_of(c->api);
    return c->result;
}

void sim_reentrant_call(void) {
    if (!sim_param.reentrant || sim_depth)
        return;
    sim_depth++;
    CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
    CUresult (*release)(CUdeviceptr) = NULL;
    *(void **)&alloc = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    *(void **)&release = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
    CUdeviceptr p = 0;
    if ((alloc ? alloc : cuMemAlloc_v2)(&p, 4096) == CUDA_SUCCESS)
        (release ? release : cuMemFree_v2)(p);
    sim_depth--;
}
