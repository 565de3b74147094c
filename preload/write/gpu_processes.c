// SPDX-License-Identifier: Apache-2.0
#include "write/gpu_processes.h"

#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/pages.h"
#include "base/print.h"
#include "base/read_file.h"
#include "store/name_table.h"

#define REPEAT_NS UINT64_C(30000000000)
enum {
    MOST = CT_NVML_MOST_PROCESSES,
    MOST_EVENTS = 32, // of one call: a busy machine must not fill the trace
    MOST_NAMES = 512, // that are kept; of later processes the number alone is recorded
    NAME_BYTES = 16,  // TASK_COMM_LEN of the kernel, with the end
};

struct process {
    uint32_t pid, name; // name: an id of store/name_table.h, 0: unknown
    uint64_t bytes, told_bytes;
    uint8_t lists; // a bit for each enum ct_nvml_list that has it
    uint8_t told;  // told_bytes is what its last event said
};

struct table {
    struct process list[MOST];
    unsigned n, next; // next: where the next call begins
    uint64_t repeated_ns;
};

static struct table *tables[CT_GPU_PROCESSES_DEVICES];
static unsigned names_n;

static struct table *find_table(int device) {
    if (device < 0 || device >= CT_GPU_PROCESSES_DEVICES)
        return NULL;
    if (!tables[device])
        tables[device] = ct_pages_map(sizeof *tables[device]);
    return tables[device];
}

static struct process *find(struct table *t, uint32_t pid) {
    for (unsigned i = 0; i < t->n; i++)
        if (t->list[i].pid == pid)
            return &t->list[i];
    return NULL;
}

static struct process *add(struct table *t, uint32_t pid) {
    if (t->n == MOST)
        return NULL;
    t->list[t->n] = (struct process){.pid = pid};
    return &t->list[t->n++];
}

// A process that several lists have uses what the list with the most says: each of them has all of
// its memory. Number 0 stands for all processes that NVML does not number: their memory adds up.
static uint64_t join_bytes(const struct process *p, enum ct_nvml_list list, uint64_t bytes) {
    const int is_first = !(p->lists & ((2u << list) - 1));
    if (is_first || p->bytes == CT_NVML_BYTES_UNKNOWN)
        return bytes;
    if (bytes == CT_NVML_BYTES_UNKNOWN)
        return p->bytes;
    if (!p->pid && p->lists >> list & 1)
        return p->bytes + bytes;
    return bytes > p->bytes ? bytes : p->bytes;
}

void ct_gpu_processes_set(int device, enum ct_nvml_list list, const struct ct_nvml_process *from,
                          unsigned n) {
    struct table *t = find_table(device);
    for (unsigned i = 0; t && i < t->n; i++)
        t->list[i].lists &= (uint8_t) ~(1u << list);
    for (unsigned i = 0; t && i < n; i++) {
        struct process *p = find(t, from[i].pid);
        if (!p)
            p = add(t, from[i].pid);
        if (!p)
            return;
        p->bytes = join_bytes(p, list, from[i].bytes);
        p->lists |= (uint8_t)(1u << list);
    }
}

uint64_t ct_gpu_processes_get_bytes(int device, uint32_t pid) {
    struct table *t = find_table(device);
    const struct process *p = t ? find(t, pid) : NULL;
    return p && p->lists ? p->bytes : CT_NVML_BYTES_UNKNOWN;
}

// The name of the process's main thread, which a program may change.
static void read_name(struct process *p) {
    char path[40], name[NAME_BYTES + 1];
    ct_print(path, sizeof path, "/proc/%u/comm", p->pid);
    size_t n = ct_read_file(path, name, sizeof name);
    while (n && name[n - 1] == '\n')
        n--;
    const char *const before = ct_name_get_text(p->name);
    if (before && strlen(before) == n && !memcmp(before, name, n))
        return;
    p->name = 0;
    if (!n || names_n >= MOST_NAMES)
        return;
    names_n++;
    name[n < NAME_BYTES ? n : NAME_BYTES] = 0;
    p->name = ct_name_intern_copy(name, NAME_BYTES);
    const char *const kept = ct_name_get_text(p->name);
    if (kept && !strcmp(kept, CT_NAME_TOO_MANY))
        p->name = 0;
}

static void publish(int device, const struct process *p, void (*record)(struct ct_event *)) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, p->lists ? CT_OP_PROCESS : CT_OP_PROCESS_GONE);
    CT_SET(&e, device, device);
    CT_SET(&e, flags, CT_FLAG_NVML);
    CT_SET(&e, pid, p->pid);
    if (p->lists && p->bytes != CT_NVML_BYTES_UNKNOWN)
        CT_SET(&e, process_bytes, p->bytes);
    if (p->name)
        CT_SET(&e, text, p->name);
    record(&e);
}

static int publish_if_changed(int device, struct process *p, int has_names,
                              void (*record)(struct ct_event *)) {
    if (p->lists ? p->told && p->told_bytes == p->bytes : !p->told)
        return 0;
    if (p->lists && !p->told && has_names && !CT_OPTION_NUMBER(PRIVATE))
        read_name(p);
    publish(device, p, record);
    p->told = p->lists != 0;
    p->told_bytes = p->bytes;
    return 1;
}

static void drop_gone(struct table *t) {
    unsigned kept = 0;
    for (unsigned i = 0; i < t->n; i++)
        if (t->list[i].lists || t->list[i].told)
            t->list[kept++] = t->list[i];
    t->n = kept;
}

void ct_gpu_processes_publish(int device, int has_names, void (*record)(struct ct_event *)) {
    struct table *t = find_table(device);
    const uint64_t now = ct_clock_read();
    unsigned events = 0, i = 0;
    if (!t)
        return;
    if (now - t->repeated_ns >= REPEAT_NS) {
        t->repeated_ns = now;
        for (unsigned k = 0; k < t->n; k++)
            if (t->list[k].lists) // (of one that is gone, that must still be told)
                t->list[k].told = 0;
    }
    for (; i < t->n && events < MOST_EVENTS; i++)
        events +=
            (unsigned)publish_if_changed(device, &t->list[(t->next + i) % t->n], has_names, record);
    t->next = t->n ? (t->next + i) % t->n : 0;
    drop_gone(t);
}

void ct_gpu_processes_reinit_child(void) {
    for (int i = 0; i < CT_GPU_PROCESSES_DEVICES; i++)
        if (tables[i])
            memset(tables[i], 0, sizeof *tables[i]);
    names_n = 0;
}
