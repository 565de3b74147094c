// SPDX-License-Identifier: Apache-2.0
// The parameters of the simulation: SIM_* environment variables, read once (README.md lists them).
#ifndef SIM_PARAM_H
#define SIM_PARAM_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_MAX_DEVICES 8

struct sim_param {
    int devices;
    int driver_version;
    uint64_t memory[SIM_MAX_DEVICES];
    uint64_t total_mem;  // what cuDeviceTotalMem says when it is not the memory, else 0
    uint64_t nvml_total; // the same for NVML
    uint64_t context, granularity, chunk, pool_grow, module, graph, stream, event, array_pad;
    uint64_t neighbour, host_used, ledger_map_mb;
    uint64_t mig_card; // memory of the card whose instances the devices are, else 0
    int container;     // 0: the host; processes of others have other numbers
    int numa_node;     // -1: none
    uint64_t space;    // address space to reserve for the devices, in bytes
    bool lazy_modules, kernels_load, limit_charges, managed_at_once, backed;
    bool ends_at_exit, sets_errno;
    bool symbolic, alias, reentrant, nvlink, integrated;
    const char *shm, *ledger, *ledger_map, *log, *fail, *nvml, *latency;
    const char *neighbour_kind, *nvml_pids;
};

extern struct sim_param sim_param;
void sim_param_read(void); // safe to call any number of times

#endif
