// SPDX-License-Identifier: Apache-2.0
// A program's own ledger: its requests and their results, one JSON object a line, by write(2).
// Times are read before an allocation and after a free, so that the trace's time lies on the other
// side. Needs no CUDA header.
#ifndef GPU_LEDGER_H
#define GPU_LEDGER_H

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// GPU_LEDGER=PREFIX: one file for each process, PREFIX.PID.
static inline void ledger_line(const char *line, size_t length) {
    static int fd = -1;
    static pid_t owner;
    const char *prefix = getenv("GPU_LEDGER");
    if (!prefix)
        return;
    if (owner != getpid()) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%d", prefix, (int)getpid());
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        owner = getpid();
    }
    if (fd < 0 || write(fd, line, length) != (ssize_t)length) {
        perror("GPU_LEDGER");
        exit(1);
    }
}

// What does not apply is left out; a call that failed has no address and no handle.
struct entry {
    const char *api, *op;
    uint64_t t_ns;
    int result, has_ptr, has_bytes, has_handle;
    uint64_t ptr, bytes, handle;
};

static inline void ledger_add(const struct entry *e) {
    char line[600];
    int n = snprintf(line, sizeof line,
                     "{\"t_ns\":%" PRIu64 ",\"pid\":%d,\"tid\":%d,\"api\":\"%s\",\"op\":\"%s\","
                     "\"result\":%d,\"depth\":0",
                     e->t_ns, (int)getpid(), (int)syscall(SYS_gettid), e->api, e->op, e->result);
    if (e->has_ptr)
        n += snprintf(line + n, sizeof line - (size_t)n, ",\"ptr\":\"0x%" PRIx64 "\"", e->ptr);
    if (e->has_handle)
        n +=
            snprintf(line + n, sizeof line - (size_t)n, ",\"handle\":\"0x%" PRIx64 "\"", e->handle);
    if (e->has_bytes)
        n += snprintf(line + n, sizeof line - (size_t)n, ",\"bytes\":%" PRIu64, e->bytes);
    n += snprintf(line + n, sizeof line - (size_t)n, "}\n");
    ledger_line(line, (size_t)n);
}

// Free memory after a step; `kind` says what the step may take beside what it asked for.
static inline void ledger_checkpoint(const char *name, const char *kind, uint64_t free_bytes,
                                     uint64_t total, uint64_t reserved) {
    char line[400];
    int n = snprintf(line, sizeof line,
                     "{\"t_ns\":%" PRIu64 ",\"op\":\"checkpoint\",\"name\":\"%s\",\"kind\":\"%s\","
                     "\"free\":%" PRIu64 ",\"total\":%" PRIu64 ",\"reserved\":%" PRIu64 "}\n",
                     now_ns(), name, kind, free_bytes, total, reserved);
    ledger_line(line, (size_t)n);
}

// One call: EXPRESSION is evaluated between two clock readings. PTR, BYTES and HANDLE are evaluated
// afterwards; HAS names which of them apply: "p", "b", "h".
#define CALL(API, OP, HAS, EXPRESSION, PTR, BYTES, HANDLE)          \
    do {                                                            \
        struct entry e_ = {.api = API, .op = OP, .t_ns = now_ns()}; \
        const int gives_ = gives_back(OP);                          \
        e_.result = (int)(EXPRESSION);                              \
        if (gives_)                                                 \
            e_.t_ns = now_ns();                                     \
        const int known_ = e_.result == 0 || gives_;                \
        e_.has_ptr = strchr(HAS, 'p') && known_;                    \
        e_.has_handle = strchr(HAS, 'h') && known_;                 \
        e_.has_bytes = strchr(HAS, 'b') != NULL;                    \
        e_.ptr = (uint64_t)(PTR);                                   \
        e_.bytes = (uint64_t)(BYTES);                               \
        e_.handle = (uint64_t)(HANDLE);                             \
        ledger_add(&e_);                                            \
    } while (0)

static inline int gives_back(const char *op) {
    static const char *const ops[] = {"free",         "release",    "unmap",
                                      "unreserve",    "unregister", "ipc-close",
                                      "pool-destroy", "pool-trim",  "module-unload"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i], op))
            return 1;
    return 0;
}

#endif
