// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, opened at run time: the functions that the recorder asks, and the
// lists of processes, whatever the layout of their entries is.
//
// Types and functions are those of the NVML API reference (docs.nvidia.com/deploy/nvml-api). They
// are declared here, because nvml.h comes with the CUDA toolkit, which must not be needed to build
// this library.
#ifndef CT_WRITE_NVML_LIBRARY_H
#define CT_WRITE_NVML_LIBRARY_H

#include <stdint.h>

typedef void *ct_nvml_device; // of a card, or of a MIG instance

struct ct_nvml_memory {
    unsigned long long total, free, used;
};

enum { CT_NVML_SUCCESS = 0, CT_NVML_NOT_SUPPORTED = 3, CT_NVML_INSUFFICIENT_SIZE = 7 };

// The lists of processes: with a compute context, with a graphics context, clients of MPS. A
// process may be in several of them.
enum ct_nvml_list {
    CT_NVML_COMPUTE,
    CT_NVML_GRAPHICS,
    CT_NVML_MPS,
    CT_NVML_LISTS,
};

// A function is NULL where the library lacks it, except the first three.
struct ct_nvml {
    int (*init)(void);
    int (*handle_by_uuid)(const char *, ct_nvml_device *);
    int (*memory)(ct_nvml_device, struct ct_nvml_memory *);
    int (*processes[CT_NVML_LISTS])(ct_nvml_device, unsigned *, void *);
    int (*index)(ct_nvml_device, unsigned *);
    int (*release)(char *, unsigned);
    int (*numa_node)(ct_nvml_device, unsigned *);
    int (*mig_mode)(ct_nvml_device, unsigned *, unsigned *);
    int (*is_mig)(ct_nvml_device, unsigned *);
    int (*card_of_mig)(ct_nvml_device, ct_nvml_device *);
    int (*gpu_instance)(ct_nvml_device, unsigned *);
    int (*compute_instance)(ct_nvml_device, unsigned *);
};

// Writer thread only. Returns 0; -EAGAIN: not now; -ENODEV: there is none, or it does not start.
int ct_nvml_library_open(struct ct_nvml *to);

enum { CT_NVML_MOST_PROCESSES = 256 };
#define CT_NVML_BYTES_UNKNOWN UINT64_MAX

struct ct_nvml_process {
    uint32_t pid;
    uint64_t bytes; // CT_NVML_BYTES_UNKNOWN: NVML does not say
};

// Writer thread only. `to` has CT_NVML_MOST_PROCESSES entries. Returns NVML's result, *n entries if
// it is 0; -1: the entries have an unknown layout.
int ct_nvml_processes_read(const struct ct_nvml *nvml, enum ct_nvml_list list,
                           ct_nvml_device device, struct ct_nvml_process *to, unsigned *n);

#endif
