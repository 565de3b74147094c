// SPDX-License-Identifier: Apache-2.0
// A simulated libnvidia-ml.so.1: the same devices and the same memory as the simulated driver, from
// the file of SIM_SHM or from the driver in this process. Numbers as in NVIDIA's nvml.h.
#include "shared.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
};

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct process_info_v1 {
    unsigned pid;
    unsigned long long used;
};
struct process_info { // since version 2
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct pci_info { // since version 3
    char legacy_bus_id[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct device {
    int index;
};

// Of the enumerations of nvml.h.
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
enum { P2P_READ = 0, P2P_WRITE = 1, P2P_NVLINK = 2, P2P_INDICES = 5 };
enum { LINKS = 18, LINK_TO_SWITCH = 2 };

static struct device devices[SIM_MAX_DEVICES];
static struct device card = {-1}; // with SIM_MIG_CARD_MB: that of which the devices are instances
static int initialised;

// The declarations are NVIDIA's, whose header is not needed here.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

// ---- starting and refusing ----------------------------------------------------------------------

static int refuses(const char *how) {
    return sim_param.nvml && strcmp(sim_param.nvml, how) == 0;
}

// The driver may be loaded later than this library, so this is asked again each time.
static void find_state(void) {
    if (sim_param.shm)
        return;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    struct sim_shared *(*shared)(void) = NULL;
    if (driver)
        *(void **)&shared = dlsym(driver, "sim_driver_shared");
    if (shared)
        sim_shared_use(shared());
    if (driver)
        dlclose(driver);
}

int nvmlInit_v2(void) {
    sim_param_read();
    if (refuses("absent"))
        return DRIVER_NOT_LOADED;
    if (refuses("refused"))
        return NO_PERMISSION;
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        devices[i].index = i;
    __atomic_add_fetch(&initialised, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

int nvmlInit(void) {
    return nvmlInit_v2();
}

int nvmlInitWithFlags(unsigned flags) {
    return nvmlInit_v2();
}

int nvmlShutdown(void) {
    if (__atomic_load_n(&initialised, __ATOMIC_RELAXED) == 0)
        return UNINITIALIZED;
    __atomic_sub_fetch(&initialised, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

const char *nvmlErrorString(int result) {
    static const char *const texts[] = {
        [SUCCESS] = "Success",
        [UNINITIALIZED] = "Uninitialized",
        [INVALID_ARGUMENT] = "Invalid Argument",
        [NOT_SUPPORTED] = "Not Supported",
        [NO_PERMISSION] = "Insufficient Permissions",
        [NOT_FOUND] = "Not Found",
        [INSUFFICIENT_SIZE] = "Insufficient Size",
        [DRIVER_NOT_LOADED] = "Driver Not Loaded",
        [GPU_IS_LOST] = "GPU is lost",
    };
    const char *text = (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : NULL;
    return text ? text : "Unknown Error";
}

// What every question checks; SIM_NVML=slow makes each take 200 ms.
static int ready(void) {
    if (__atomic_load_n(&initialised, __ATOMIC_RELAXED) == 0)
        return UNINITIALIZED;
    if (refuses("slow"))
        nanosleep(&(struct timespec){0, 200000000}, NULL);
    return SUCCESS;
}

static int check(const struct device *device, const void *out) {
    int result = ready();
    if (result)
        return result;
    int known = device >= devices && device < devices + sim_param.devices;
    if (sim_param.mig_card && device == &card)
        known = 1;
    return known && out ? SUCCESS : INVALID_ARGUMENT;
}

// With MIG the devices are instances, which only their UUIDs and ids name.
static int check_card(const struct device *device, const void *out) {
    int result = check(device, out);
    return !result && sim_param.mig_card && device != &card ? INVALID_ARGUMENT : result;
}

// A function that answers one question about a device, after one of these checks.
#define ANSWER(name, check, type, answer)        \
    int name(struct device *device, type *out) { \
        int result = check(device, out);         \
        if (!result)                             \
            *out = answer;                       \
        return result;                           \
    }

// ---- devices ------------------------------------------------------------------------------------

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    int result = ready();
    if (!result)
        snprintf(version, length, "580.00.00-simulated");
    return result;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    int result = ready();
    if (!result && !version)
        return INVALID_ARGUMENT;
    if (!result)
        *version = sim_param.driver_version;
    return result;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int result = ready();
    if (!result && !count)
        return INVALID_ARGUMENT;
    if (!result)
        *count = sim_param.mig_card ? 1 : (unsigned)sim_param.devices;
    return result;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
    int result = ready();
    if (!result && (!device || index >= (sim_param.mig_card ? 1 : (unsigned)sim_param.devices)))
        return INVALID_ARGUMENT;
    if (!result)
        *device = sim_param.mig_card ? &card : &devices[index];
    return result;
}

// -1: the card of the instances.
static void uuid_text(int device, char *text, size_t size) {
    unsigned char b[16];
    if (device < 0)
        sim_card_uuid(b);
    else
        sim_uuid(device, b);
    snprintf(text, size, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             sim_param.mig_card && device >= 0 ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5],
             b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device) {
    int result = ready();
    if (result)
        return result;
    if (!uuid || !device)
        return INVALID_ARGUMENT;
    for (int i = sim_param.mig_card ? -1 : 0; i < sim_param.devices; i++) {
        char text[64];
        uuid_text(i, text, sizeof text);
        if (strcmp(text, uuid) == 0) {
            *device = i < 0 ? &card : &devices[i];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct device **device) {
    unsigned domain, bus;
    int result = ready();
    if (result)
        return result;
    if (!id || !device || sscanf(id, "%x:%x", &domain, &bus) != 2)
        return INVALID_ARGUMENT;
    if (bus < 1 || bus > (unsigned)sim_param.devices)
        return NOT_FOUND;
    *device = &devices[bus - 1];
    return SUCCESS;
}

ANSWER(nvmlDeviceGetIndex, check_card, unsigned, device == &card ? 0 : (unsigned)device->index)

int nvmlDeviceGetName(struct device *device, char *name, unsigned length) {
    int result = check(device, name);
    if (!result)
        snprintf(name, length, "Simulated GPU %d", device->index);
    return result;
}

int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned length) {
    char text[64];
    int result = check(device, uuid);
    if (result)
        return result;
    uuid_text(device->index, text, sizeof text);
    if (length <= strlen(text))
        return INSUFFICIENT_SIZE;
    memcpy(uuid, text, strlen(text) + 1);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending) {
    int result = check_card(device, current);
    if (!result && !sim_param.mig_card)
        result = NOT_SUPPORTED;
    if (!result)
        *current = *pending = 1;
    return result;
}

// ---- instances of a card: each device is one, with ids from 1 and 0 on --------------------------

ANSWER(nvmlDeviceIsMigDeviceHandle, check, unsigned, sim_param.mig_card &&device != &card)

static int check_instance(const struct device *device, const void *out) {
    int result = check(device, out);
    return !result && (!sim_param.mig_card || device == &card) ? INVALID_ARGUMENT : result;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *instance, struct device **device) {
    int result = check_instance(instance, device);
    if (!result)
        *device = &card;
    return result;
}

ANSWER(nvmlDeviceGetGpuInstanceId, check_instance, unsigned, (unsigned)device->index + 1)
ANSWER(nvmlDeviceGetComputeInstanceId, check_instance, unsigned, 0)
ANSWER(nvmlDeviceGetMaxMigDeviceCount, check_card, unsigned,
       sim_param.mig_card ? (unsigned)sim_param.devices : 0)

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index,
                                        struct device **instance) {
    int result = check_card(device, instance);
    if (!result && (!sim_param.mig_card || index >= (unsigned)sim_param.devices))
        result = NOT_FOUND;
    if (!result)
        *instance = &devices[index];
    return result;
}

int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
    int result = check(device, major && minor ? major : NULL);
    if (!result) {
        *major = 9;
        *minor = 0;
    }
    return result;
}

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci_info *pci) {
    int result = check(device, pci);
    if (result)
        return result;
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)device->index + 1;
    snprintf(pci->legacy_bus_id, sizeof pci->legacy_bus_id, "0000:%02X:00.0", pci->bus);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

// The machine has no such things; that a library asks must not stop it.
int nvmlDeviceGetNumaNodeId(struct device *device, unsigned *node) {
    int result = check(device, node);
    if (!result && sim_param.numa_node < 0)
        result = NOT_SUPPORTED;
    if (!result)
        *node = (unsigned)sim_param.numa_node;
    return result;
}

int nvmlDeviceGetCpuAffinity(struct device *device, unsigned size, unsigned long *set) {
    int result = check(device, set);
    return result ? result : NOT_SUPPORTED;
}

int nvmlDeviceGetGpuFabricInfoV(struct device *device, void *info) {
    int result = check(device, info);
    return result ? result : NOT_SUPPORTED;
}

// ---- between devices: they reach each other by PCIe, or, with SIM_NVLINK=1, by a switch of NVLink
// ------

int nvmlDeviceGetP2PStatus(struct device *device, struct device *peer, int index, int *status) {
    int result = check(device, status);
    if (!result)
        result = check(peer, status);
    if (!result && (index < 0 || index >= P2P_INDICES || device == peer))
        result = INVALID_ARGUMENT;
    if (!result) {
        const int reached =
            index == P2P_READ || index == P2P_WRITE || (index == P2P_NVLINK && sim_param.nvlink);
        *status = reached ? P2P_OK : P2P_NOT_SUPPORTED;
    }
    return result;
}

static int check_link(const struct device *device, unsigned link, const void *out) {
    int result = check(device, out);
    if (!result && link >= LINKS)
        result = INVALID_ARGUMENT;
    return result || sim_param.nvlink ? result : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *device, unsigned link, int *type) {
    int result = check_link(device, link, type);
    if (!result)
        *type = LINK_TO_SWITCH;
    return result;
}

// Of the switch at the other end.
int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device, unsigned link, void *pci) {
    int result = check_link(device, link, pci);
    if (!result) {
        struct pci_info *info = pci;
        memset(info, 0, sizeof *info);
        info->bus = 0x80;
        snprintf(info->bus_id, sizeof info->bus_id, "00000000:80:00.0");
    }
    return result;
}

// ---- memory -------------------------------------------------------------------------------------

static int memory_of(const struct device *device, const void *out, struct memory *m) {
    int result = check(device, out);
    if (!result && refuses("lost"))
        result = GPU_IS_LOST;
    if (!result && refuses("nomemory"))
        result = NOT_SUPPORTED;
    if (result)
        return result;
    find_state();
    if (device == &card) { // of all instances
        *m = (struct memory){.total = sim_param.mig_card};
        for (int i = 0; i < sim_param.devices; i++)
            m->used += sim_used(i);
        m->free = m->total - m->used;
        return SUCCESS;
    }
    m->total = sim_param.nvml_total ? sim_param.nvml_total : sim_param.memory[device->index];
    m->used = sim_used(device->index);
    // As on an H100 (tests/gpu/results): what is free is what CUDA says; what CUDA never had counts
    // as used.
    const uint64_t memory = sim_param.memory[device->index];
    m->free = m->used < memory ? memory - m->used : 0;
    if (m->total > memory)
        m->used += m->total - memory;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory) {
    struct memory m;
    int result = memory_of(device, memory, &m);
    if (!result)
        *memory = m;
    return result;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *memory) {
    struct memory m;
    int result = memory_of(device, memory, &m);
    if (result)
        return result;
    if (memory->version != (sizeof *memory | 2u << 24))
        return 25; // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    memory->total = m.total;
    const uint64_t memory_bytes = device == &card ? m.total : sim_param.memory[device->index];
    memory->reserved = m.total > memory_bytes ? m.total - memory_bytes : 0;
    memory->free = m.free;
    memory->used = m.used - memory->reserved;
    return SUCCESS;
}

// Numbers of processes are those of the host, where each container has a range of its own, or with
// SIM_NVML_PIDS=zero all are 0; with SIM_NVML_PIDS=none nothing is listed.
static unsigned number_of(const struct sim_process *p) {
    if (sim_param.nvml_pids && strcmp(sim_param.nvml_pids, "zero") == 0)
        return 0;
    return (unsigned)p->pid + (unsigned)p->container * 1000000;
}

static int is_on(const struct sim_process *p, int device) {
    int contexts = 0;
    for (int i = 0; i < sim_param.devices; i++)
        contexts += device < 0 || device == i ? (int)p->contexts[i] : 0;
    return contexts != 0;
}

static uint64_t used_on(const struct sim_process *p, int device) {
    uint64_t used = 0;
    for (int i = 0; i < sim_param.devices; i++)
        used += device < 0 || device == i ? p->used[i] : 0;
    return used;
}

enum kind { COMPUTE, GRAPHICS, MPS };

// The neighbour of SIM_NEIGHBOUR_MB, under a pid that no process has, is in one list
// (SIM_NEIGHBOUR_KIND).
static int has_neighbour(enum kind kind) {
    const char *is = sim_param.neighbour_kind ? sim_param.neighbour_kind : "compute";
    const char *names[] = {"compute", "graphics", "mps"};
    return sim_param.neighbour && strcmp(is, names[kind]) == 0;
}

// Our processes compute.
static unsigned list(int device, enum kind kind, struct process_info *out, unsigned capacity) {
    struct sim_process all[SIM_MAX_PROCESSES];
    unsigned n = kind == COMPUTE ? sim_processes(all, SIM_MAX_PROCESSES) : 0, count = 0;
    if (sim_param.nvml_pids && strcmp(sim_param.nvml_pids, "none") == 0)
        return 0;
    for (unsigned i = 0; i < n; i++) {
        if (!is_on(&all[i], device))
            continue;
        if (count < capacity)
            out[count] =
                (struct process_info){number_of(&all[i]), used_on(&all[i], device), ~0u, ~0u};
        count++;
    }
    if (has_neighbour(kind)) {
        if (count < capacity)
            out[count] = (struct process_info){4194304, sim_param.neighbour, ~0u, ~0u};
        count++;
    }
    return count;
}

static int list_of(struct device *device, enum kind kind, unsigned *count,
                   struct process_info *infos) {
    int result = check(device, count);
    if (!result && refuses("noprocesses"))
        result = NOT_SUPPORTED;
    if (result)
        return result;
    find_state();
    unsigned capacity = infos ? *count : 0;
    *count = list(device->index, kind, infos, capacity);
    return *count > capacity ? INSUFFICIENT_SIZE : SUCCESS;
}

// Of older programs, PyTorch among them: as version 3, but for two numbers that are left out.
int nvmlDeviceGetComputeRunningProcesses(struct device *device, unsigned *count,
                                         struct process_info_v1 *infos) {
    struct process_info all[SIM_MAX_PROCESSES + 1];
    unsigned capacity = count && infos ? *count : 0, found = SIM_MAX_PROCESSES + 1;
    int result = list_of(device, COMPUTE, count ? &found : NULL, all);
    if (result)
        return result;
    for (unsigned i = 0; i < found && i < capacity; i++)
        infos[i] = (struct process_info_v1){all[i].pid, all[i].used};
    *count = found;
    return found > capacity ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct device *device, unsigned *count,
                                            struct process_info *infos) {
    return list_of(device, COMPUTE, count, infos);
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count,
                                            struct process_info *infos) {
    return list_of(device, COMPUTE, count, infos);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *device, unsigned *count,
                                             struct process_info *infos) {
    return list_of(device, GRAPHICS, count, infos);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *device, unsigned *count,
                                               struct process_info *infos) {
    return list_of(device, MPS, count, infos);
}
