// SPDX-License-Identifier: Apache-2.0
// The ledger that survives SIGKILL at any instruction and costs no system call: records in a shared
// mapping.
#define _GNU_SOURCE
#include "ledger_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

static struct sim_map *map;
static pid_t owner; // a child after fork maps a file of its own
static const char *name_of[SIM_MAP_NAMES];

static _Thread_local struct {
    struct sim_map_thread *slot;
    pid_t owner;
} mine;

static char *names(void) {
    return (char *)map + SIM_MAP_NAMES_AT;
}

static struct sim_map_thread *threads(void) {
    return (struct sim_map_thread *)((char *)map + SIM_MAP_THREADS_AT);
}

static struct sim_map_record *records(void) {
    return (struct sim_map_record *)((char *)map + SIM_MAP_RECORDS_AT);
}

// A file that is there with a size is used as it is: a test may forbid the process to make files
// grow.
static size_t make_room(int fd) {
    struct stat s;
    const size_t size = (size_t)sim_param.ledger_map_mb << 20;
    if (fstat(fd, &s))
        return 0;
    if (s.st_size)
        return (size_t)s.st_size;
    return ftruncate(fd, (off_t)size) ? 0 : size;
}

static struct sim_map *open_map(void) {
    char path[4096];
    sim_ledger_path(sim_param.ledger_map, path, sizeof path);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const size_t size = fd < 0 ? 0 : make_room(fd);
    void *p = size > SIM_MAP_RECORDS_AT
                  ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                  : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (p == MAP_FAILED) {
        fprintf(stderr, "sim: cannot map %s\n", path);
        return NULL;
    }
    struct sim_map *m = p;
    m->pid = (uint32_t)getpid();
    m->room = (size - SIM_MAP_RECORDS_AT) / sizeof(struct sim_map_record);
    memcpy(m->magic, SIM_MAP_MAGIC, sizeof m->magic);
    return m;
}

// Under the driver's lock.
static bool ready(void) {
    if (!sim_param.ledger_map)
        return false;
    const pid_t pid = getpid();
    if (owner != pid) {
        owner = pid; // the parent's mapping stays: it may be in use by a thread that is not there
        memset(name_of, 0, sizeof name_of);
        map = open_map();
    }
    return map != NULL;
}

static unsigned name(const char *text) {
    const unsigned n = (unsigned)atomic_load(&map->names);
    for (unsigned i = 0; i < n; i++)
        if (name_of[i] == text)
            return i;
    if (n == SIM_MAP_NAMES)
        abort();
    name_of[n] = text;
    snprintf(names() + n * SIM_MAP_NAME, SIM_MAP_NAME, "%s", text);
    atomic_store_explicit(&map->names, n + 1, memory_order_release);
    return n;
}

static struct sim_map_thread *my_slot(void) {
    if (mine.owner == owner)
        return mine.slot;
    const uint64_t n = atomic_load(&map->threads);
    mine.owner = owner;
    mine.slot = n < SIM_MAP_THREADS ? &threads()[n] : NULL;
    if (mine.slot) {
        mine.slot->tid = (uint32_t)syscall(SYS_gettid);
        atomic_store_explicit(&map->threads, n + 1, memory_order_release);
    }
    return mine.slot;
}

void sim_map_enter(const struct sim_call *c) {
    struct sim_map_thread *slot = ready() && !c->depth ? my_slot() : NULL;
    if (slot)
        atomic_store_explicit(&slot->in_call, name(c->api) + 1, memory_order_release);
}

static void fill(struct sim_map_record *r, const struct sim_call *c) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    *r = (struct sim_map_record){.t_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
                                 .tid = mine.slot ? mine.slot->tid : (uint32_t)syscall(SYS_gettid),
                                 .api = (uint16_t)name(c->api),
                                 .op = (uint16_t)name(c->op),
                                 .has = c->has,
                                 .device = c->device,
                                 .result = (int32_t)c->result,
                                 .depth = c->depth,
                                 .context = c->context,
                                 .ptr = c->ptr,
                                 .bytes = c->bytes,
                                 .offset = c->offset,
                                 .handle = c->handle,
                                 .pool = c->pool,
                                 .stream = c->stream};
    if ((c->has & SIM_HAS_DEVICE) && sim_device_valid(c->device)) {
        const uint64_t total = sim_param.memory[c->device], used = sim_used(c->device);
        r->free = used < total ? total - used : 0;
        r->total = total;
    }
}

void sim_map_leave(const struct sim_call *c) {
    if (!ready())
        return;
    struct sim_map_thread *slot = my_slot();
    const uint64_t n = atomic_load(&map->records);
    if (c->op && n < map->room) {
        fill(&records()[n], c);
        // The thread's count first: a record that only this count knows is a call in flight.
        if (slot && !c->depth)
            atomic_fetch_add(&slot->records, 1);
        atomic_store_explicit(&map->records, n + 1, memory_order_release);
    } else if (c->op) {
        atomic_fetch_add(&map->full, 1);
    }
    if (slot && !c->depth)
        atomic_store_explicit(&slot->in_call, 0, memory_order_release);
}

// The program says that its last call has come back: from now on it must be in the trace.
SIM_EXPORT void sim_driver_returned(void);
void sim_driver_returned(void) {
    if (mine.slot && mine.owner == owner)
        atomic_store_explicit(&mine.slot->returned, atomic_load(&mine.slot->records),
                              memory_order_release);
}
