// SPDX-License-Identifier: Apache-2.0
// Looks for PyTorch's allocator in the stack of a failed allocation.
#define _GNU_SOURCE
#include "write/oom_caller.h"

#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cutrace/format/assert.h>

#include "base/loader_gate.h"
#include "store/loaded_modules.h"
#include "store/stack_table.h"
#include "write/drain_lock.h"

#define FRAMES 24u // of CUDA's libraries, at most, before their caller

enum kind { OTHER, OF_CUDA, OF_PYTORCH };

static int (*_Atomic reporter)(void);

void ct_oom_caller_set_reporter(int (*reports)(void)) {
    atomic_store(&reporter, reports);
}

// The driver and the runtime, and PyTorch's allocator. (The frames of this library are in no
// stack.)
static enum kind find_kind_of_path(const char *path) {
    static const struct {
        const char *name;
        enum kind kind;
    } libraries[] = {{"libcuda.so", OF_CUDA},
                     {"libcudart.so", OF_CUDA},
                     {"libcudart-", OF_CUDA},
                     {"libc10_cuda.so", OF_PYTORCH}};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (!strncmp(name, libraries[i].name, strlen(libraries[i].name)))
            return libraries[i].kind;
    return OTHER;
}

// ---- objects that no scan has seen yet --------------------------------------------------------

struct search {
    uint64_t address;
    enum kind kind;
};

static int visit_object(struct dl_phdr_info *info, size_t size, void *user) {
    struct search *s = user;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || s->address - (info->dlpi_addr + p->p_vaddr) >= p->p_memsz)
            continue;
        s->kind = find_kind_of_path(info->dlpi_name ? info->dlpi_name : "");
        return 1;
    }
    return 0;
}

// Asks the loader, whose lock of dl_iterate_phdr is never held for long (intercept/libc10.c). The
// last answer is kept: a flood of failures comes from one place.
static enum kind search_kind(uint64_t address) {
    static struct search last;
    if (last.address == address)
        return last.kind;
    struct search s = {address, OTHER};
    if (ct_loader_gate_enter())
        return OTHER;
    (void)dl_iterate_phdr(visit_object, &s);
    ct_loader_gate_leave();
    last = s;
    return s.kind;
}

// ---- the caller -------------------------------------------------------------------------------

static enum kind find_kind(uint64_t address) {
    const struct ct_loaded_module *m = ct_loaded_modules_find(address);
    return m ? find_kind_of_path(m->path) : search_kind(address);
}

// Whose the first native frame outside CUDA's libraries is.
static enum kind find_caller(uint32_t stack) {
    const struct ct_stack_entry *s = ct_stack_table_get(stack);
    for (uint32_t i = 0; s && i < s->frames && i < FRAMES; i++) {
        if (!ct_frame_word_is_native(s->frame[i]))
            continue;
        const enum kind kind = find_kind(s->frame[i] - 1);
        if (kind != OF_CUDA)
            return kind;
    }
    return OTHER;
}

// Read at each failure, because a program may set it before it loads PyTorch.
static int is_caching(void) {
    return !getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
}

int ct_oom_caller_tries_again(const struct ct_event *e) {
    int (*const reports)(void) = atomic_load(&reporter);
    CT_ASSERT(ct_drain_lock_is_held());
    const int is_repeated =
        e->op == CT_OP_CREATE ||
        (e->op == CT_OP_ALLOC && !(CT_HAS(e, flags) && e->flags & CT_FLAG_ASYNC) &&
         CT_HAS(e, space) && e->space == CT_SPACE_DEVICE);
    return is_repeated && CT_HAS(e, stack) && find_caller(e->stack) == OF_PYTORCH && is_caching() &&
           reports && reports();
}
