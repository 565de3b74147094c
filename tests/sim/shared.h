// SPDX-License-Identifier: Apache-2.0
// How much memory each process holds on each device: in a file that processes share (SIM_SHM), or
// in the process itself.
#ifndef SIM_SHARED_H
#define SIM_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "param.h"

#define SIM_MAX_PROCESSES 128
#define SIM_MAX_EXPORTS 512

struct sim_process {
    int32_t pid;       // 0: free slot; in its container
    int32_t container; // SIM_CONTAINER
    uint32_t contexts[SIM_MAX_DEVICES];
    uint64_t started; // from /proc, so that a recycled pid is not taken for the same process
    uint64_t used[SIM_MAX_DEVICES];
};

// Something that another process may open: an IPC allocation, a VMM handle, a pool.
struct sim_export {
    uint64_t key; // 0: free; an IPC key, or the inode of the exported descriptor
    uint64_t size;
    int32_t pid;
    int32_t device;
    uint32_t multicast; // the devices that a multicast object may have, 0: it is memory
};

struct sim_shared {
    uint64_t magic;
    pthread_mutex_t mutex;
    struct sim_process processes[SIM_MAX_PROCESSES];
    struct sim_export exports[SIM_MAX_EXPORTS];
    uint64_t next_key;
};

// All of these lock for themselves.
bool sim_charge(int device, uint64_t bytes); // false: the device has not that much left
void sim_discharge(int device, uint64_t bytes);
uint64_t sim_used(int device); // by all processes, the neighbour, and the host's programs
uint64_t sim_used_by_me(int device);
void sim_count_context(int device, int by);
void sim_shared_forget_pid(void); // after fork: this is another process

uint64_t sim_export_new(uint64_t key, uint64_t size, int device); // key 0: makes one
void sim_export_set_multicast(uint64_t key, unsigned devices);
bool sim_export_find(uint64_t key, struct sim_export *found);
void sim_export_delete(uint64_t key);

void sim_uuid(int device, unsigned char bytes[16]); // the same for the driver and NVML
void sim_card_uuid(unsigned char bytes[16]);        // of the card of SIM_MIG_CARD_MB

// A copy of the table without the dead, for NVML.
unsigned sim_processes(struct sim_process *out, unsigned capacity);

struct sim_shared *sim_shared_open(void);
void sim_shared_use(struct sim_shared *shared); // NVML: look at the driver's own
struct sim_shared *sim_driver_shared(void);     // exported by the driver for that

#endif
