// SPDX-License-Identifier: Apache-2.0
// Memory in use per process and device, shared among processes where SIM_SHM names a file.
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x316d6873206d6973ull

static struct sim_shared *state;
static pid_t my_pid;
static struct sim_process *mine;

static void initialise(struct sim_shared *s) {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    s->magic = MAGIC;
}

static struct sim_shared *map_file(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    struct sim_shared *s = NULL;
    flock(fd, LOCK_EX);
    if (ftruncate(fd, sizeof *s) == 0)
        s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        s = NULL;
    if (s && s->magic != MAGIC)
        initialise(s);
    flock(fd, LOCK_UN);
    close(fd);
    return s;
}

static void open_once(void) {
    static struct sim_shared private_state;
    sim_param_read();
    if (sim_param.shm)
        state = map_file(sim_param.shm);
    if (!state) {
        if (sim_param.shm)
            fprintf(stderr, "sim: cannot use SIM_SHM=%s: %s\n", sim_param.shm, strerror(errno));
        initialise(&private_state);
        state = &private_state;
    }
}

struct sim_shared *sim_shared_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!state)
        pthread_once(&once, open_once);
    return state;
}

void sim_shared_use(struct sim_shared *shared) {
    sim_param_read();
    state = shared;
}

static struct sim_shared *lock(void) {
    struct sim_shared *s = sim_shared_open();
    if (pthread_mutex_lock(&s->mutex) == EOWNERDEAD)
        pthread_mutex_consistent(&s->mutex); // single stores only: nothing is half done
    return s;
}

static void unlock(struct sim_shared *s) {
    pthread_mutex_unlock(&s->mutex);
}

// Start time of a live process in clock ticks; 0 for one that is gone or a zombie.
static uint64_t start_time(pid_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *p = strrchr(text, ')');
    if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
        return 0;
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

static void reap(struct sim_shared *s) {
    for (int i = 0; i < SIM_MAX_PROCESSES; i++) {
        struct sim_process *p = &s->processes[i];
        if (!p->pid || p->container != sim_param.container) // its numbers mean others here
            continue;
        if (p->pid == getpid() || start_time(p->pid) == p->started)
            continue;
        for (int e = 0; e < SIM_MAX_EXPORTS; e++)
            if (s->exports[e].pid == p->pid)
                memset(&s->exports[e], 0, sizeof s->exports[e]);
        memset(p, 0, sizeof *p);
    }
}

static struct sim_process *me(struct sim_shared *s) {
    if (mine && my_pid)
        return mine;
    my_pid = getpid();
    uint64_t started = start_time(my_pid);
    struct sim_process *slot = NULL;
    for (int i = 0; i < SIM_MAX_PROCESSES; i++) {
        struct sim_process *p = &s->processes[i];
        const bool is_mine = p->pid == my_pid && p->container == sim_param.container;
        if (is_mine && p->started == started)
            return mine = p;
        if (!slot && (!p->pid || is_mine))
            slot = p;
    }
    if (!slot) {
        fprintf(stderr, "sim: more than %d processes\n", SIM_MAX_PROCESSES);
        abort();
    }
    memset(slot, 0, sizeof *slot);
    slot->started = started;
    slot->pid = my_pid;
    slot->container = sim_param.container;
    return mine = slot;
}

void sim_shared_forget_pid(void) {
    my_pid = 0;
    mine = NULL;
}

static uint64_t sum(struct sim_shared *s, int device) {
    uint64_t used = sim_param.neighbour + sim_param.host_used;
    for (int i = 0; i < SIM_MAX_PROCESSES; i++)
        if (s->processes[i].pid)
            used += s->processes[i].used[device];
    return used;
}

bool sim_charge(int device, uint64_t bytes) {
    if (!bytes)
        return true;
    struct sim_shared *s = lock();
    if (sim_param.shm)
        reap(s);
    uint64_t used = sum(s, device), total = sim_param.memory[device];
    bool fits = used <= total && bytes <= total - used;
    if (fits)
        me(s)->used[device] += bytes;
    unlock(s);
    return fits;
}

void sim_discharge(int device, uint64_t bytes) {
    if (!bytes)
        return;
    struct sim_shared *s = lock();
    uint64_t *used = &me(s)->used[device];
    if (*used < bytes) {
        fprintf(stderr, "sim: more memory given back than taken\n");
        abort();
    }
    *used -= bytes;
    unlock(s);
}

uint64_t sim_used(int device) {
    struct sim_shared *s = lock();
    if (sim_param.shm)
        reap(s);
    uint64_t used = sum(s, device);
    unlock(s);
    return used;
}

uint64_t sim_used_by_me(int device) {
    struct sim_shared *s = lock();
    uint64_t used = me(s)->used[device];
    unlock(s);
    return used;
}

void sim_count_context(int device, int by) {
    struct sim_shared *s = lock();
    me(s)->contexts[device] += (unsigned)by;
    unlock(s);
}

uint64_t sim_export_new(uint64_t key, uint64_t size, int device) {
    struct sim_shared *s = lock();
    if (!key)
        key = ((uint64_t)getpid() << 32) | ++s->next_key;
    for (int i = 0; i < SIM_MAX_EXPORTS; i++) {
        struct sim_export *e = &s->exports[i];
        if (e->key && e->key != key)
            continue;
        *e = (struct sim_export){.key = key, .size = size, .pid = getpid(), .device = device};
        break;
    }
    unlock(s);
    return key;
}

void sim_export_set_multicast(uint64_t key, unsigned devices) {
    struct sim_shared *s = lock();
    for (int i = 0; i < SIM_MAX_EXPORTS; i++)
        if (s->exports[i].key == key)
            s->exports[i].multicast = devices;
    unlock(s);
}

bool sim_export_find(uint64_t key, struct sim_export *found) {
    bool ok = false;
    struct sim_shared *s = lock();
    if (sim_param.shm)
        reap(s);
    for (int i = 0; key && i < SIM_MAX_EXPORTS && !ok; i++)
        if (s->exports[i].key == key) {
            *found = s->exports[i];
            ok = true;
        }
    unlock(s);
    return ok;
}

void sim_export_delete(uint64_t key) {
    struct sim_shared *s = lock();
    for (int i = 0; key && i < SIM_MAX_EXPORTS; i++)
        if (s->exports[i].key == key && s->exports[i].pid == getpid())
            memset(&s->exports[i], 0, sizeof s->exports[i]);
    unlock(s);
}

void sim_uuid(int device, unsigned char bytes[16]) {
    for (int i = 0; i < 16; i++)
        bytes[i] = (unsigned char)"simulated-gpu-00"[i];
    bytes[15] = (unsigned char)('0' + device);
}

void sim_card_uuid(unsigned char bytes[16]) {
    sim_uuid(0, bytes);
    bytes[15] = 'c';
}

unsigned sim_processes(struct sim_process *out, unsigned capacity) {
    unsigned n = 0;
    struct sim_shared *s = lock();
    if (sim_param.shm)
        reap(s);
    for (int i = 0; i < SIM_MAX_PROCESSES && n < capacity; i++)
        if (s->processes[i].pid)
            out[n++] = s->processes[i];
    unlock(s);
    return n;
}

struct sim_shared *sim_driver_shared(void) {
    return sim_shared_open();
}
