// SPDX-License-Identifier: Apache-2.0
// Memory of the devices as NVML reports it.
#define _GNU_SOURCE
#include "write/nvml.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cutrace/format/format.h>

#include "base/clock.h"
#include "base/print.h"
#include "store/ring.h"
#include "write/gpu_processes.h"
#include "write/info_table.h"
#include "write/nvml_library.h"

#define DEVICES CT_GPU_PROCESSES_DEVICES
#define UNKNOWN UINT64_MAX
#define REPEAT_NS UINT64_C(30000000000) // a sample that does not change is recorded this often
#define READING_TRIES 3 // to read what the device and this process have at one moment

static struct ct_nvml nvml;
enum { NVML_NOT_LOADED, NVML_LOADED, NVML_ABSENT };
static _Atomic int nvml_state;

enum { UNKNOWN_DEVICE, ADDING, ADDED };

static struct device {
    _Atomic int state; // UNKNOWN_DEVICE, ADDING, ADDED
    unsigned char uuid[16];
    _Atomic uint64_t total;
    // The writer thread's:
    ct_nvml_device handle;
    int has_searched;
    unsigned refused_lists; // a bit for each enum ct_nvml_list that NVML does not have
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

static void publish_instance(int ordinal, ct_nvml_device instance) {
    ct_nvml_device card;
    unsigned number;
    ct_info_set_number(1, "device.%d.mig", ordinal);
    if (nvml.gpu_instance && nvml.gpu_instance(instance, &number) == CT_NVML_SUCCESS)
        ct_info_set_number(number, "device.%d.mig_gpu_instance", ordinal);
    if (nvml.compute_instance && nvml.compute_instance(instance, &number) == CT_NVML_SUCCESS)
        ct_info_set_number(number, "device.%d.mig_compute_instance", ordinal);
    if (nvml.card_of_mig && nvml.card_of_mig(instance, &card) == CT_NVML_SUCCESS && nvml.index &&
        nvml.index(card, &number) == CT_NVML_SUCCESS)
        ct_info_set_number(number, "device.%d.mig_card", ordinal);
}

// A program that runs on a card in MIG mode runs on one of its instances. Where CUDA gave the UUID
// of the card, it is not known on which: what NVML says of the card is of all of them.
static int is_card_of_instances(ct_nvml_device handle) {
    unsigned is_mig = 0, mode = 0, pending;
    if (nvml.is_mig && nvml.is_mig(handle, &is_mig) == CT_NVML_SUCCESS && is_mig)
        return 0;
    return nvml.mig_mode && nvml.mig_mode(handle, &mode, &pending) == CT_NVML_SUCCESS && mode == 1;
}

static void publish_device(int ordinal, ct_nvml_device handle) {
    unsigned number, is_mig = 0;
    if (nvml.is_mig && nvml.is_mig(handle, &is_mig) == CT_NVML_SUCCESS && is_mig)
        publish_instance(ordinal, handle);
    else if (nvml.index && nvml.index(handle, &number) == CT_NVML_SUCCESS)
        ct_info_set_number(number, "device.%d.nvml_index", ordinal);
    // Where the kernel has the GPU's memory as a NUMA node, host programs can use it, too.
    if (nvml.numa_node && nvml.numa_node(handle, &number) == CT_NVML_SUCCESS)
        ct_info_set_number(number, "device.%d.numa_node", ordinal);
}

// By UUID, because NVML numbers all devices of the machine and CUDA only the visible ones. A MIG
// instance has its own UUID.
static int find_handle(int ordinal, struct device *d) {
    char text[64];
    if (d->has_searched)
        return d->handle ? 0 : -ENODEV;
    d->has_searched = 1;
    format_uuid("GPU-", d->uuid, text);
    if (nvml.handle_by_uuid(text, &d->handle) != CT_NVML_SUCCESS) {
        format_uuid("MIG-", d->uuid, text);
        if (nvml.handle_by_uuid(text, &d->handle) != CT_NVML_SUCCESS)
            d->handle = NULL;
    }
    if (d->handle && is_card_of_instances(d->handle)) {
        ct_info_set_number(1, "device.%d.mig", ordinal);
        d->handle = NULL;
    }
    if (d->handle)
        publish_device(ordinal, d->handle);
    return d->handle ? 0 : -ENODEV;
}

// NVML reports process numbers of the initial PID namespace. In a container, getpid() returns
// another number, which there may be that of another process.
static int is_in_initial_pid_namespace(void) {
    char link[64];
    const ssize_t n = readlink("/proc/self/ns/pid", link, sizeof link - 1);
    return n > 0 && !strncmp(link, "pid:[4026531836]", 16); // PROC_PID_INIT_INO of the kernel
}

static int has_host_numbers(void) {
    static int trusted = -1;
    if (trusted < 0) {
        trusted = is_in_initial_pid_namespace();
        ct_info_set("process.nvml_pids", "%s", trusted ? "own" : "other");
    }
    return trusted;
}

// What NVML answers first, if it is no success, is its answer later, too.
static void publish_refusal(int ordinal, const char *name, int rc) {
    char key[64];
    ct_print(key, sizeof key, "device.%d.%s", ordinal, name);
    ct_info_set(key, "%d", rc);
}

// Returns 1 if it is known now what the list has.
static int read_processes(int ordinal, struct device *d, enum ct_nvml_list list) {
    static struct ct_nvml_process processes[CT_NVML_MOST_PROCESSES];
    unsigned n;
    if (d->refused_lists >> list & 1)
        return 0;
    const int rc = ct_nvml_processes_read(&nvml, list, d->handle, processes, &n);
    if (rc == CT_NVML_SUCCESS)
        ct_gpu_processes_set(ordinal, list, processes, n);
    else if (rc != CT_NVML_INSUFFICIENT_SIZE) // (there may be fewer later)
        d->refused_lists |= 1u << list;
    if (rc && list == CT_NVML_COMPUTE)
        publish_refusal(ordinal, "nvml_processes_error", rc);
    return rc == CT_NVML_SUCCESS;
}

static uint64_t get_own_bytes(int ordinal) {
    if (!has_host_numbers())
        return UNKNOWN;
    return ct_gpu_processes_get_bytes(ordinal, (uint32_t)getpid());
}

// Free memory of a device and what this process has of the rest, which two functions answer: both
// were so at `t_ns`, if the free memory is the same before and after that. Else the process's part
// is not known, and the time is that of the last answer.
struct reading {
    struct ct_nvml_memory memory;
    uint64_t own; // or UNKNOWN
    uint64_t t_ns;
    int rc, is_listed;
};

static struct reading read_device(int ordinal, struct device *d) {
    struct reading r = {.own = UNKNOWN};
    r.rc = nvml.memory(d->handle, &r.memory);
    r.t_ns = ct_ring_now();
    for (int tries = 0; tries < READING_TRIES; tries++) {
        const uint64_t before = r.memory.free, t_ns = r.t_ns;
        r.is_listed = read_processes(ordinal, d, CT_NVML_COMPUTE);
        if (r.rc || (r.rc = nvml.memory(d->handle, &r.memory)))
            return r;
        r.t_ns = ct_ring_now();
        if (r.memory.free != before)
            continue;
        r.own = r.is_listed ? get_own_bytes(ordinal) : UNKNOWN;
        r.t_ns = t_ns;
        break;
    }
    return r;
}

static void record_sample(int ordinal, const struct reading *r, void (*record)(struct ct_event *)) {
    ct_info_set_number(r->memory.total, "device.%d.nvml_total_bytes", ordinal);
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_MEMORY_SAMPLE);
    CT_SET(&e, device, ordinal);
    CT_SET(&e, t_ns, r->t_ns);
    CT_SET(&e, flags, CT_FLAG_NVML);
    CT_SET(&e, free_bytes, r->memory.free);
    CT_SET(&e, total_bytes, r->memory.total);
    if (r->own != UNKNOWN)
        CT_SET(&e, process_bytes, r->own);
    record(&e);
}

// A failed allocation waits for this: `always`, and of the lists only the one that has this
// process.
static void sample(int ordinal, struct device *d, int always, void (*record)(struct ct_event *)) {
    if (find_handle(ordinal, d))
        return;
    const struct reading r = read_device(ordinal, d);
    const uint64_t now = ct_clock_read();
    if (r.rc) {
        publish_refusal(ordinal, "nvml_memory_error", r.rc);
    } else if (always || !d->sampled_ns || r.memory.free != d->last_free ||
               r.own != d->last_process || now - d->sampled_ns >= REPEAT_NS) {
        record_sample(ordinal, &r, record);
        d->last_free = r.memory.free;
        d->last_process = r.own;
        d->sampled_ns = now;
    }
    if (!r.is_listed)
        return;
    if (!always) {
        (void)read_processes(ordinal, d, CT_NVML_GRAPHICS);
        (void)read_processes(ordinal, d, CT_NVML_MPS);
    }
    ct_gpu_processes_publish(ordinal, has_host_numbers(), record);
}

static int sample_devices(uint64_t which, int always, void (*record)(struct ct_event *)) {
    if (nvml_state == NVML_NOT_LOADED) {
        const int rc = ct_nvml_library_open(&nvml);
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

// Where the kernel's file is not to be had (process_info.h).
static void publish_release(void) {
    static int done;
    char text[81]; // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80
    if (done || nvml_state != NVML_LOADED || !nvml.release)
        return;
    done = 1;
    memset(text, 0, sizeof text);
    if (nvml.release(text, sizeof text - 1) == CT_NVML_SUCCESS && *text)
        ct_info_set("nvidia.driver_version", "%s", text);
}

int ct_nvml_sample(void (*record)(struct ct_event *)) {
    const int rc = sample_devices(UINT64_MAX, 0, record);
    publish_release(); // after the sample, which is waited for
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
    ct_gpu_processes_reinit_child();
    nvml_state = NVML_NOT_LOADED;
}
