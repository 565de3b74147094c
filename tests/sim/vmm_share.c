// SPDX-License-Identifier: Apache-2.0
// Exporting memory as a file descriptor, and importing it. The descriptor is the write end of a
// pipe: its inode says in any process what it stands for, and when the last copy is closed the
// read end tells us.
#define _GNU_SOURCE
#include "vmm.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t sim_fd_key(int fd) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))
        return 0;
    return st.st_ino;
}

int sim_fd_give(struct sim_fd_export **list, uint64_t *key) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    struct sim_fd_export *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->read_end = ends[0];
    e->key = *key = sim_fd_key(ends[0]);
    e->next = *list;
    *list = e;
    return ends[1];
}

static void forget(struct sim_fd_export **link) {
    struct sim_fd_export *e = *link;
    *link = e->next;
    close(e->read_end);
    sim_export_delete(e->key);
    free(e);
}

bool sim_fd_any_open(struct sim_fd_export **list) {
    for (struct sim_fd_export **link = list; *link;) {
        struct pollfd p = {.fd = (*link)->read_end, .events = POLLIN};
        if (poll(&p, 1, 0) == 0)
            link = &(*link)->next; // somebody still has the write end
        else
            forget(link);
    }
    return *list != NULL;
}

void sim_fd_close_all(struct sim_fd_export **list) {
    while (*list)
        forget(list);
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareableHandle,
                                              CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags) {
    SIM_BEGIN("export", INIT);
    struct sim_physical *p = sim_physical_find(handle);
    uint64_t key;
    sim_set_handle(&c, handle);
    if (p)
        sim_set_device(&c, p->o.device);
    SIM_REFUSE_IF(&c, !shareableHandle || !p || flags, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                  CUDA_ERROR_NOT_SUPPORTED);
    SIM_REFUSE_IF(&c, !(p->props.requestedHandleTypes & handleType), CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        int fd = sim_fd_give(&p->exports, &key);
        if (fd < 0)
            c.result = CUDA_ERROR_OPERATING_SYSTEM;
        else
            *(int *)shareableHandle = fd;
    }
    if (!c.result) {
        sim_export_new(key, p->size, p->o.device);
        if (p->multicast)
            sim_export_set_multicast(key, p->device_limit);
    }
    return sim_end(&c);
}

static uint64_t wanted;
static struct sim_physical *exporter;

static void look_for_exporter(void *object) {
    struct sim_physical *p = object;
    for (struct sim_fd_export *e = p->exports; e; e = e->next)
        if (e->key == wanted)
            exporter = p;
}

// Memory of this process is kept by the import; that of another process only as long as it wants.
static CUresult import(int fd, CUmemGenericAllocationHandle *handle) {
    struct sim_export found;
    wanted = sim_fd_key(fd);
    exporter = NULL;
    sim_object_each(NULL, SIM_PHYSICAL, look_for_exporter);
    if (!wanted || !sim_export_find(wanted, &found))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_physical *p = sim_object_new(sizeof *p, SIM_PHYSICAL, NULL, found.device);
    p->size = found.size;
    p->handles = 1;
    p->source = exporter;
    if (exporter) {
        exporter->mappings++;
        p->props = exporter->props;
        p->devices = exporter->devices;
    } else {
        p->props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p->props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        p->props.location.id = found.device;
        p->props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    // Each import of a multicast object counts its own devices: a process adds its own.
    p->multicast = found.multicast != 0;
    p->device_limit = found.multicast;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                void *osHandle,
                                                CUmemAllocationHandleType shHandleType) {
    SIM_BEGIN("import", INIT);
    SIM_REFUSE_IF(&c, !handle, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                  CUDA_ERROR_NOT_SUPPORTED);
    if (!c.result)
        c.result = import((int)(intptr_t)osHandle, handle);
    if (!c.result) {
        sim_set_handle(&c, *handle);
        sim_set_device(&c, ((struct sim_object *)(uintptr_t)*handle)->device);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
                                               CUmemRangeHandleType handleType,
                                               unsigned long long flags) {
    SIM_BEGIN("export", INIT);
    struct sim_range *r = sim_range_at(dptr);
    int device;
    sim_set_ptr(&c, dptr);
    sim_set_bytes(&c, size);
    bool ours = r && (r->kind == SIM_RANGE_DEVICE || sim_vmm_mapped(dptr, size, &device));
    SIM_REFUSE_IF(&c,
                  !handle || !size || !ours || dptr % 4096 || size % 4096 ||
                      handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        int fd = memfd_create("simulated-dma-buf", MFD_CLOEXEC);
        *(int *)handle = fd;
        c.result = fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
    }
    return sim_end(&c);
}
