// SPDX-License-Identifier: Apache-2.0
// Physical memory of the VMM, as vmm.c, vmm_share.c, multicast.c and array.c share it.
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "sim.h"

struct sim_fd_export { // a descriptor given out: the write end of a pipe whose read end we keep
    int read_end;
    uint64_t key; // the pipe's inode: the same in every process that the descriptor reaches
    struct sim_fd_export *next;
};

struct sim_physical {
    struct sim_object o;
    uint64_t size;
    CUmemAllocationProp props;
    unsigned handles;  // references by handle: create, retain, import
    unsigned mappings; // references by cuMemMap, sparse arrays and multicast bindings
    bool charged, multicast;
    struct sim_physical *source;    // an import in the same process holds what it imports
    struct sim_fd_export *exports;  // open descriptors are references, too
    struct sim_binding *bindings;   // multicast only
    unsigned devices, device_limit; // multicast only: bit mask
};

struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle);
void sim_physical_release(struct sim_physical *p); // frees it if that was the last reference
// The mapping that covers the whole range: its memory, or NULL.
struct sim_physical *sim_vmm_physical_at(uint64_t base, uint64_t size);
void sim_multicast_end(struct sim_physical *p);

// Gives out a descriptor for something and says by which key it is known; -1 on failure.
int sim_fd_give(struct sim_fd_export **list, uint64_t *key);
bool sim_fd_any_open(struct sim_fd_export **list); // forgets those that are closed
void sim_fd_close_all(struct sim_fd_export **list);
uint64_t sim_fd_key(int fd); // 0: not one of ours

#endif
