// SPDX-License-Identifier: Apache-2.0
// Reads the SIM_* environment variables.
#include "param.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sim_param sim_param;

static const char *text(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *value = text(name);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

// "1024" is every device; "1024,2048" is each in turn, the last for the rest.
static void read_memory(void)
{
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

static bool modules_are_lazy(void)
{
    const char *mode = text("CUDA_MODULE_LOADING");
    return !mode || strcmp(mode, "EAGER") != 0;
}

static void read_all(void)
{
    struct sim_param *p = &sim_param;
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
    p->array_pad = number("SIM_ARRAY_PAD", 512);
    p->neighbour = number("SIM_NEIGHBOUR_MB", 0) << 20;
    p->lazy_modules = modules_are_lazy();
    p->limit_charges = number("SIM_LIMIT", 1) != 0;
    p->managed_at_once = number("SIM_MANAGED", 0) != 0;
    p->backed = number("SIM_BACKED", 1) != 0;
    p->symbolic = number("SIM_BSYMBOLIC", 1) != 0;
    p->alias = number("SIM_GETPROC_ALIAS", 0) != 0;
    p->reentrant = number("SIM_REENTRANT", 0) != 0;
    p->latency = text("SIM_LATENCY_NS");
    p->shm = text("SIM_SHM");
    p->ledger = text("SIM_LEDGER");
    p->log = text("SIM_LOG");
    p->fail = text("SIM_FAIL");
    p->nvml = text("SIM_NVML");
}

void sim_param_read(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
}
