// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "record/survey.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/options.h"
#include "base/print.h"
#include "base/process_id.h"
#include "base/read_file.h"
#include "record/rescan.h"
#include "write/info_table.h"
#include "write/symbolizer.h"

// ---- children ---------------------------------------------------------------------------------

// INFO about processes that this one has started: how many were seen, and which of them use CUDA
// without this library. Only children that live when it looks are seen.
//
// A process that has libcuda mapped and this library not has lost LD_PRELOAD on its way. Others are
// of no interest: ptxas and shells need not have it.

#define MAX_CHILDREN 256u // of a look, and of all that are remembered
#define NAME_BYTES 64u

// The writer thread's.
static struct child {
    unsigned pid;
    uint64_t start; // with the pid it names a process for ever
    int is_untraced;
    char name[NAME_BYTES];
} children[MAX_CHILDREN];
static unsigned known, unreadable, too_many;

// ---- the mappings of a process ------------------------------------------------------------------

// The file that this library lies in.
struct search {
    uint64_t device, inode; // 0: not known
    int has_library, has_driver;
};

static int find_own(void *user, const struct ct_mapping *m) {
    struct search *s = user;
    const uint64_t own = (uint64_t)(uintptr_t)&ct_survey_look_if_due;
    if (own < m->start || own >= m->end)
        return 0;
    s->device = m->device;
    s->inode = m->inode;
    return 1;
}

static int find_driver(void *user, const struct ct_mapping *m) {
    struct search *s = user;
    const char *const name = ct_base_name(m->path);
    s->has_library |= (s->inode && m->inode == s->inode && m->device == s->device) ||
                      !strncmp(name, "libcutrace.so", sizeof "libcutrace.so" - 1);
    s->has_driver |= !strncmp(name, "libcuda.so", sizeof "libcuda.so" - 1);
    return s->has_library && s->has_driver;
}

// ---- one child ----------------------------------------------------------------------------------

static struct child *find_or_add(unsigned pid) {
    const uint64_t start = ct_process_id_read_start_ticks(pid);
    for (unsigned i = 0; i < known; i++)
        if (children[i].pid == pid && children[i].start == start)
            return &children[i];
    if (known == MAX_CHILDREN) {
        too_many = 1;
        return NULL;
    }
    children[known] = (struct child){.pid = pid, .start = start};
    return &children[known++];
}

// The base name of its program, as process.exe is.
static void read_name(unsigned pid, char *name) {
    char path[64], target[1024];
    ct_print(path, sizeof path, "/proc/%u/exe", pid);
    const ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    ct_print(name, NAME_BYTES, "%s", n > 0 ? ct_base_name(target) : "unknown");
}

static void look_at(unsigned pid, struct search of) {
    char path[64];
    struct child *const c = find_or_add(pid);
    if (!c)
        return;
    ct_print(path, sizeof path, "/proc/%u/maps", pid);
    if (ct_maps_read(path, find_driver, &of)) {
        unreadable++;
        return;
    }
    if (of.has_driver && !of.has_library && !c->is_untraced) {
        c->is_untraced = 1;
        read_name(pid, c->name);
    }
}

// ---- all of them --------------------------------------------------------------------------------

struct pids {
    unsigned list[MAX_CHILDREN], count;
};

static void add_children_of_thread(const char *path, struct pids *p) {
    char text[4096];
    const size_t n = ct_read_file(path, text, sizeof text);
    unsigned pid = 0;
    for (size_t i = 0; i < n; i++) { // each number has a blank after it
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (unsigned)(text[i] - '0');
            continue;
        }
        if (pid && p->count < MAX_CHILDREN)
            p->list[p->count++] = pid;
        pid = 0;
    }
}

struct threads {
    struct pids *to;
    unsigned pid;
    int is_told;
};

static int add_children_of_task(void *user, const char *name, unsigned type) {
    (void)type;
    struct threads *const t = user;
    char path[96];
    if (*name < '0' || *name > '9')
        return 0;
    ct_print(path, sizeof path, "/proc/%u/task/%.20s/children", t->pid, name);
    t->is_told |= !access(path, R_OK);
    add_children_of_thread(path, t->to);
    return 0;
}

// Each thread has children of its own. Returns whether the kernel tells them.
static int add_children_of(unsigned pid, struct pids *p) {
    struct threads t = {.to = p, .pid = pid};
    struct ct_folder_room room;
    char path[64];
    ct_print(path, sizeof path, "/proc/%u/task", pid);
    const int fd = ct_open(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return 0;
    ct_read_folder(fd, &room, add_children_of_task, &t);
    ct_close(fd);
    return t.is_told;
}

static int is_named_before(unsigned i) {
    for (unsigned k = 0; k < i; k++)
        if (children[k].is_untraced && !strcmp(children[k].name, children[i].name))
            return 1;
    return 0;
}

static void publish_children(void) {
    unsigned untraced = 0;
    char names[1024] = "";
    for (unsigned i = 0; i < known; i++) {
        if (!children[i].is_untraced)
            continue;
        untraced++;
        const size_t used = strlen(names);
        if (!is_named_before(i))
            ct_print(names + used, sizeof names - used, "%s%s", used ? ", " : "", children[i].name);
    }
    ct_info_set("coverage.children", "%u", known);
    ct_info_set("coverage.children_without_library", "%u", untraced);
    if (untraced && !CT_OPTION_NUMBER(PRIVATE))
        ct_info_set("coverage.children_without_library_names", "%s", names);
    if (unreadable)
        ct_info_set("coverage.children_unreadable", "%u", unreadable);
    if (too_many)
        ct_info_set("coverage.children_incomplete", "%u", MAX_CHILDREN);
}

// Looks at the children and theirs, and publishes coverage.children*. Reads /proc: the writer
// thread only, without a lock.
static void look_at_children(void) {
    static struct pids p;
    static struct search of; // where this library lies is read once, if there are children
    p.count = 0;
    unreadable = 0;
    if (!add_children_of((unsigned)getpid(), &p))
        return;
    if (p.count && !of.inode)
        (void)ct_maps_read("/proc/self/maps", find_own, &of);
    for (unsigned i = 0; i < p.count; i++) {
        look_at(p.list[i], of);
        (void)add_children_of(p.list[i],
                              &p); // they stand after the others, and are looked at, too
    }
    publish_children();
}

// ---- looks ------------------------------------------------------------------------------------

#define FIRST_NS UINT64_C(1000000000)
#define LAST_NS (UINT64_C(600) * 1000000000)

static void (*_Atomic modules)(void);
static _Atomic unsigned looks;
static _Atomic int last_is_wanted, last_is_done;
static uint64_t due_ns, interval_ns; // the writer thread's

void ct_survey_set(void (*look)(void)) {
    atomic_store(&modules, look);
}

static void look(void) {
    // Who looked the driver up may have no frame in any stack.
    if (ct_symbolizer_rescan_modules() > 0)
        ct_rescan();
    void (*at_modules)(void) = atomic_load(&modules);
    if (at_modules)
        at_modules();
    look_at_children();
    atomic_fetch_add(&looks, 1);
    ct_survey_publish_info();
}

void ct_survey_look_if_due(void) {
    const int is_last = atomic_load(&last_is_wanted) && !atomic_load(&last_is_done);
    const uint64_t now = ct_clock_read();
    if (!is_last && now < due_ns)
        return;
    look();
    interval_ns = interval_ns ? interval_ns * 2 : FIRST_NS;
    if (interval_ns > LAST_NS)
        interval_ns = LAST_NS;
    due_ns = now + interval_ns;
    if (is_last)
        atomic_store(&last_is_done, 1);
}

void ct_survey_ask_last(void) {
    atomic_store(&last_is_wanted, 1);
}

int ct_survey_is_finished(void) {
    return atomic_load(&last_is_done);
}

void ct_survey_publish_info(void) {
    ct_info_set("coverage.looks", "%u", atomic_load(&looks));
}

void ct_survey_reinit_child(void) {
    atomic_store(&looks, 0);
    atomic_store(&last_is_wanted, 0);
    atomic_store(&last_is_done, 0);
    due_ns = interval_ns = 0;
    known = unreadable = too_many = 0; // it has no children yet
}
