// SPDX-License-Identifier: Apache-2.0
// The ledger: one JSON line per call that affects memory, in the order in which the driver did
// them. And the log: one line per call of anything.
#include "sim.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct file {
    int fd;
    pid_t pid; // who opened it: a child after fork opens its own
    uint64_t lines;
};

static struct file ledger = {-1, 0, 0}, log_file = {-1, 0, 0};

void sim_ledger_path(const char *pattern, char *path, size_t size) {
    const char *p = strstr(pattern, "%p");
    if (p)
        snprintf(path, size, "%.*s%d%s", (int)(p - pattern), pattern, (int)getpid(), p + 2);
    else
        snprintf(path, size, "%s", pattern);
}

static bool ready(struct file *f, const char *pattern) {
    if (f->pid == getpid())
        return f->fd >= 0;
    char path[4096];
    sim_ledger_path(pattern, path, sizeof path);
    f->pid = getpid();
    f->lines = 0;
    f->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (f->fd < 0)
        fprintf(stderr, "sim: cannot write %s\n", path);
    return f->fd >= 0;
}

// One write(2) per line: lines of several processes do not mix, and SIGKILL loses none.
static void put(struct file *f, const char *line, size_t n) {
    if (write(f->fd, line, n) != (ssize_t)n)
        fprintf(stderr, "sim: short write\n");
    f->lines++;
}

struct line {
    char text[1024];
    size_t n;
};

static void add(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof l->text - l->n)
        l->n += (size_t)n;
}

static void add_hex(struct line *l, const struct sim_call *c, unsigned has, const char *key,
                    uint64_t value) {
    if (c->has & has)
        add(l, ",\"%s\":\"0x%llx\"", key, (unsigned long long)value);
}

static void add_number(struct line *l, const struct sim_call *c, unsigned has, const char *key,
                       uint64_t value) {
    if (c->has & has)
        add(l, ",\"%s\":%llu", key, (unsigned long long)value);
}

void sim_ledger_write(const struct sim_call *c) {
    if (!sim_param.ledger || !ready(&ledger, sim_param.ledger))
        return;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    struct line l = {.n = 0};
    add(&l, "{\"seq\":%llu,\"t_ns\":%lld,\"pid\":%d,\"tid\":%d,\"api\":\"%s\",\"op\":\"%s\"",
        (unsigned long long)ledger.lines, (long long)t.tv_sec * 1000000000 + t.tv_nsec,
        (int)getpid(), (int)syscall(SYS_gettid), c->api, c->op);
    add_number(&l, c, SIM_HAS_DEVICE, "device", (uint64_t)c->device);
    add_hex(&l, c, SIM_HAS_CONTEXT, "context", c->context);
    add_hex(&l, c, SIM_HAS_PTR, "ptr", c->ptr);
    add_number(&l, c, SIM_HAS_BYTES, "bytes", c->bytes);
    add_number(&l, c, SIM_HAS_OFFSET, "offset", c->offset);
    add_hex(&l, c, SIM_HAS_HANDLE, "handle", c->handle);
    add_hex(&l, c, SIM_HAS_POOL, "pool", c->pool);
    add_hex(&l, c, SIM_HAS_STREAM, "stream", c->stream);
    add(&l, ",\"result\":%d", (int)c->result);
    if ((c->has & SIM_HAS_DEVICE) && sim_device_valid(c->device)) {
        uint64_t total = sim_param.memory[c->device], used = sim_used(c->device);
        add(&l, ",\"free\":%llu,\"total\":%llu",
            (unsigned long long)(used < total ? total - used : 0), (unsigned long long)total);
    }
    add(&l, ",\"depth\":%d}\n", c->depth);
    put(&ledger, l.text, l.n);
}

void sim_log(const char *format, ...) {
    if (!sim_param.log || !ready(&log_file, sim_param.log))
        return;
    struct line l = {.n = 0};
    add(&l, "%d %d ", (int)getpid(), (int)syscall(SYS_gettid));
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l.text + l.n, sizeof l.text - l.n - 1, format, args);
    va_end(args);
    if (n > 0)
        l.n += (size_t)n < sizeof l.text - l.n - 1 ? (size_t)n : sizeof l.text - l.n - 2;
    l.text[l.n++] = '\n';
    put(&log_file, l.text, l.n);
}
