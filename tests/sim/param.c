// SPDX-License-Identifier: Apache-2.0
// Reads the SIM_* environment variables, and the file that SIM_PARAMS names.
#include "param.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim_param sim_param;

// What was measured on a GPU: one `NAME value` per line, `#` begins a comment.
static char file_text[32768];
static struct { const char *name, *value; } file_values[128];
static size_t file_count;

static void read_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, file_text, sizeof file_text - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0 || n == sizeof file_text - 1) {
        fprintf(stderr, "sim: SIM_PARAMS=%s cannot be read\n", path);
        exit(2);
    }
    char *next_line = NULL, *next_word = NULL;
    for (char *line = strtok_r(file_text, "\n", &next_line); line && file_count < 128;
         line = strtok_r(NULL, "\n", &next_line)) {
        line[strcspn(line, "#")] = '\0';
        const char *name = strtok_r(line, " \t", &next_word);
        const char *value = name ? strtok_r(NULL, " \t", &next_word) : NULL;
        if (value) {
            file_values[file_count].name = name;
            file_values[file_count++].value = value;
        }
    }
}

// The environment wins over the file.
static const char *text(const char *name) {
    const char *value = getenv(name);
    if (value && *value)
        return value;
    for (size_t i = 0; i < file_count; i++)
        if (!strcmp(file_values[i].name, name))
            return file_values[i].value;
    return NULL;
}

// What is read later: a program may overwrite its environment (setproctitle does).
static const char *kept_text(const char *name) {
    const char *value = text(name);
    return value ? strdup(value) : NULL;
}

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *value = text(name);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

// "1024" is every device; "1024,2048" is each in turn, the last for the rest.
static void read_memory(void) {
    const char *p = text("SIM_MEM_MB");
    uint64_t mb = 1024;
    for (int i = 0; i < SIM_MAX_DEVICES; i++) {
        if (p && *p) {
            char *end;
            mb = strtoull(p, &end, 0);
            p = *end == ',' ? end + 1 : end;
        }
        sim_param.memory[i] = mb << 20;
    }
}

static bool modules_are_lazy(void) {
    const char *mode = text("CUDA_MODULE_LOADING");
    return !mode || strcmp(mode, "EAGER") != 0;
}

static void read_all(void) {
    struct sim_param *p = &sim_param;
    if (text("SIM_PARAMS"))
        read_file(text("SIM_PARAMS"));
    p->devices = (int)number("SIM_DEVICES", 1);
    if (p->devices < 0 || p->devices > SIM_MAX_DEVICES)
        p->devices = SIM_MAX_DEVICES;
    p->driver_version = (int)number("SIM_DRIVER_VERSION", 13000);
    read_memory();
    p->total_mem = number("SIM_TOTALMEM_MB", 0) << 20;
    p->nvml_total = number("SIM_NVML_TOTAL_MB", 0) << 20;
    p->context = number("SIM_CTX_MB", 64) << 20;
    p->granularity = number("SIM_GRANULARITY", 2 << 20);
    p->chunk = number("SIM_CHUNK", 2 << 20);
    if (p->chunk < 4096 || p->chunk % 4096)
        p->chunk = 2 << 20;
    p->pool_grow = number("SIM_POOL_GROW", 32 << 20);
    p->module = number("SIM_MODULE_KB", 256) << 10;
    p->graph = number("SIM_GRAPH_KB", 64) << 10;
    p->stream = number("SIM_STREAM_KB", 0) << 10;
    p->event = number("SIM_EVENT_KB", 0) << 10;
    p->array_pad = number("SIM_ARRAY_PAD", 512);
    p->neighbour = number("SIM_NEIGHBOUR_MB", 0) << 20;
    p->neighbour_kind = kept_text("SIM_NEIGHBOUR_KIND");
    p->host_used = number("SIM_HOST_USED_MB", 0) << 20;
    p->integrated = number("SIM_INTEGRATED", 0) != 0;
    p->mig_card = number("SIM_MIG_CARD_MB", 0) << 20;
    p->container = (int)number("SIM_CONTAINER", 0);
    p->numa_node = text("SIM_NUMA_NODE") ? (int)number("SIM_NUMA_NODE", 0) : -1;
    p->nvml_pids = kept_text("SIM_NVML_PIDS");
    p->lazy_modules = modules_are_lazy();
    p->kernels_load = number("SIM_KERNELS_LOAD", 0) != 0;
    p->limit_charges = number("SIM_LIMIT", 1) != 0;
    p->managed_at_once = number("SIM_MANAGED", 0) != 0;
    p->ends_at_exit = number("SIM_EXIT", 0) != 0;
    p->sets_errno = number("SIM_ERRNO", 0) != 0;
    p->backed = number("SIM_BACKED", 1) != 0;
    p->space = number("SIM_SPACE_GB", 1024) << 30;
    p->symbolic = number("SIM_BSYMBOLIC", 1) != 0;
    p->alias = number("SIM_GETPROC_ALIAS", 0) != 0;
    p->reentrant = number("SIM_REENTRANT", 0) != 0;
    p->nvlink = number("SIM_NVLINK", 0) != 0;
    p->latency = kept_text("SIM_LATENCY_NS");
    p->shm = kept_text("SIM_SHM");
    p->ledger = kept_text("SIM_LEDGER");
    p->ledger_map = kept_text("SIM_LEDGER_MAP");
    p->ledger_map_mb = number("SIM_LEDGER_MAP_MB", 1024);
    p->log = kept_text("SIM_LOG");
    p->fail = kept_text("SIM_FAIL");
    p->nvml = kept_text("SIM_NVML");
}

void sim_param_read(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
}
