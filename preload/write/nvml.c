// SPDX-License-Identifier: Apache-2.0
// Memory of the devices as NVML reports it.
#define _GNU_SOURCE
#include "write/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cutrace/format/format.h>

#include "base/loader_gate.h"
#include "base/print.h"
#include "base/real_dlsym.h"
#include "store/ring.h"
#include "write/info_table.h"

#define DEVICES 64
#define UNKNOWN UINT64_MAX
#define PROCESSES 256
#define REPEAT_NS UINT64_C(30000000000) // a sample that does not change is recorded this often

// NVML's types and functions, as the NVML API reference has them (docs.nvidia.com/deploy/nvml-api:
// nvmlMemory_t, nvmlProcessInfo_t of version 2, nvmlReturn_t). Declared here, because nvml.h comes
// with the CUDA toolkit, which must not be needed to build this library.
typedef void *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_process {
    unsigned pid;
    unsigned long long used; // ~0: not available
    unsigned gpu_instance, compute_instance;
};
enum { NVML_SUCCESS = 0 };

static struct {
    int (*init)(void);
    int (*handle_by_uuid)(const char *, nvml_device *);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*processes)(nvml_device, unsigned *, struct nvml_process *);
    int (*index)(nvml_device, unsigned *);
    int (*release)(char *, unsigned);
} nvml;
enum { NVML_NOT_LOADED, NVML_LOADED, NVML_ABSENT };
static _Atomic int nvml_state;

enum { UNKNOWN_DEVICE, ADDING, ADDED };

static struct device {
    _Atomic int state; // UNKNOWN_DEVICE, ADDING, ADDED
    unsigned char uuid[16];
    _Atomic uint64_t total;
    // The writer thread's:
    nvml_device handle;
    int has_searched;
    uint64_t last_free, last_process, sampled_ns;
} devices[DEVICES];
static _Atomic int devices_n; // one more than the highest ordinal

void ct_nvml_add_device(int ordinal, const unsigned char uuid[16], uint64_t total_bytes) {
    if (ordinal < 0 || ordinal >= DEVICES)
        return;
    struct device *d = &devices[ordinal];
    int unknown = UNKNOWN_DEVICE;
    if (!atomic_compare_exchange_strong(&d->state, &unknown, ADDING))
        return;
    memcpy(d->uuid, uuid, sizeof d->uuid);
    atomic_store(&d->total, total_bytes);
    atomic_store_explicit(&d->state, ADDED, memory_order_release);
    int n = atomic_load(&devices_n);
    while (n <= ordinal && !atomic_compare_exchange_weak(&devices_n, &n, ordinal + 1))
        ;
}

// NULL: no such device was added.
static struct device *find_device(int ordinal) {
    if (ordinal < 0 || ordinal >= DEVICES)
        return NULL;
    struct device *d = &devices[ordinal];
    return atomic_load_explicit(&d->state, memory_order_acquire) == ADDED ? d : NULL;
}

int ct_nvml_has_devices(void) {
    return atomic_load_explicit(&devices_n, memory_order_relaxed) > 0;
}

uint64_t ct_nvml_get_total_bytes(int ordinal) {
    struct device *d = find_device(ordinal);
    return d && atomic_load(&d->total) ? atomic_load(&d->total) : UNKNOWN;
}

// ---- NVML -----------------------------------------------------------------------------------

static int load_nvml(void) {
    // A fork during dlopen would leave the child with locks of the loader held.
    if (ct_loader_gate_enter())
        return -EAGAIN;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library) {
        *(void **)&nvml.init = ct_real_dlsym_get_libc()(library, "nvmlInit_v2");
        *(void **)&nvml.handle_by_uuid =
            ct_real_dlsym_get_libc()(library, "nvmlDeviceGetHandleByUUID");
        *(void **)&nvml.memory = ct_real_dlsym_get_libc()(library, "nvmlDeviceGetMemoryInfo");
        *(void **)&nvml.processes =
            ct_real_dlsym_get_libc()(library, "nvmlDeviceGetComputeRunningProcesses_v3");
        *(void **)&nvml.index = ct_real_dlsym_get_libc()(library, "nvmlDeviceGetIndex");
        *(void **)&nvml.release = ct_real_dlsym_get_libc()(library, "nvmlSystemGetDriverVersion");
    }
    ct_loader_gate_leave();
    if (!nvml.init || !nvml.handle_by_uuid || !nvml.memory || nvml.init() != NVML_SUCCESS)
        return -ENODEV;
    return 0;
}

static void format_uuid(const char *kind, const unsigned char uuid[16], char *out) {
    static const char hex[] = "0123456789abcdef";
    memcpy(out, kind, 4);
    out += 4;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = hex[uuid[i] >> 4];
        *out++ = hex[uuid[i] & 15];
    }
    *out = 0;
}

// By UUID, because NVML numbers all devices of the machine and CUDA only the visible ones. A MIG
// slice of a device has its own UUID.
static int find_handle(int ordinal, struct device *d) {
    char text[64], key[64];
    unsigned index;
    if (!d->has_searched) {
        d->has_searched = 1;
        format_uuid("GPU-", d->uuid, text);
        if (nvml.handle_by_uuid(text, &d->handle) != NVML_SUCCESS) {
            format_uuid("MIG-", d->uuid, text);
            if (nvml.handle_by_uuid(text, &d->handle) != NVML_SUCCESS)
                d->handle = NULL;
        }
        if (d->handle && nvml.index && nvml.index(d->handle, &index) == NVML_SUCCESS) {
            ct_print(key, sizeof key, "device.%d.nvml_index", ordinal);
            ct_info_set(key, "%u", index);
        }
    }
    return d->handle ? 0 : -ENODEV;
}

// NVML reports process numbers of the initial PID namespace. In a container, getpid() returns
// another number, which there may be that of another process.
static int is_in_initial_pid_namespace(void) {
    char link[64];
    const ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    return n > 0 && !strncmp(link, "pid:[4026531836]", 16); // PROC_PID_INIT_INO of the kernel
}

static uint64_t read_own_bytes(nvml_device handle) {
    static struct nvml_process processes[PROCESSES];
    static int trusted = -1;
    unsigned n = PROCESSES;
    if (trusted < 0)
        trusted = is_in_initial_pid_namespace();
    if (!trusted || !nvml.processes || nvml.processes(handle, &n, processes) != NVML_SUCCESS)
        return UNKNOWN;
    for (unsigned i = 0; i < n && i < PROCESSES; i++)
        if (processes[i].pid == (unsigned)getpid())
            return processes[i].used;
    return UNKNOWN;
}

static void sample(int ordinal, struct device *d, int always, void (*record)(struct ct_event *)) {
    struct nvml_memory memory;
    char key[64];
    if (find_handle(ordinal, d) || nvml.memory(d->handle, &memory) != NVML_SUCCESS)
        return;
    const uint64_t own = read_own_bytes(d->handle), now = ct_clock_read();
    if (!always && d->sampled_ns && memory.free == d->last_free && own == d->last_process &&
        now - d->sampled_ns < REPEAT_NS)
        return;
    d->last_free = memory.free;
    d->last_process = own;
    d->sampled_ns = now;
    ct_print(key, sizeof key, "device.%d.nvml_total_bytes", ordinal);
    ct_info_set(key, "%llu", memory.total);
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE);
    CT_SET(&e, device, ordinal);
    CT_SET(&e, flags, CT_FLAG_NVML);
    CT_SET(&e, free_bytes, memory.free);
    CT_SET(&e, total_bytes, memory.total);
    if (own != UNKNOWN)
        CT_SET(&e, process_bytes, own);
    record(&e);
}

static int sample_devices(uint64_t which, int always, void (*record)(struct ct_event *)) {
    if (nvml_state == NVML_NOT_LOADED) {
        const int rc = load_nvml();
        if (rc == -EAGAIN)
            return 0;
        nvml_state = rc ? NVML_ABSENT : NVML_LOADED;
    }
    if (nvml_state == NVML_ABSENT)
        return -ENODEV;
    for (int i = 0; i < atomic_load(&devices_n); i++)
        if (which >> i & 1 && find_device(i))
            sample(i, find_device(i), always, record);
    return 0;
}

// Where the kernel's file is not to be had (driver_release.h).
static void publish_release(void) {
    static int done;
    char text[81]; // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80
    if (done || nvml_state != NVML_LOADED || !nvml.release)
        return;
    done = 1;
    memset(text, 0, sizeof text);
    if (nvml.release(text, sizeof text - 1) == NVML_SUCCESS && *text)
        ct_info_set("nvidia.driver_version", "%s", text);
}

int ct_nvml_sample(void (*record)(struct ct_event *)) {
    const int rc = sample_devices(UINT64_MAX, 0, record);
    publish_release(); // behind the sample, which is waited for
    return rc;
}

int ct_nvml_sample_devices(uint64_t which, void (*record)(struct ct_event *)) {
    return sample_devices(which, 1, record);
}

int ct_nvml_is_usable(void) {
    return ct_nvml_has_devices() && nvml_state != NVML_ABSENT;
}

void ct_nvml_reinit_child(void) {
    // The child's own first calls add its devices again; a loaded NVML is valid in the parent only.
    memset(devices, 0, sizeof devices);
    atomic_store(&devices_n, 0);
    nvml_state = NVML_NOT_LOADED;
}
