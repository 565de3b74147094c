// SPDX-License-Identifier: Apache-2.0
// The journal: memory of the recorder that outlives the process, because it is a mapped file. Where
// no file can be had, the same layout lies in private memory.
//
// Invariants:
//   J1  The magic is the last word of the header to be written, and `journal` is set after it. So a
//       reader that finds the magic finds a complete header, and no event enters the journal before
//       it.
//   J2  Disk blocks are reserved before their pages are touched, so a full disk is an
//       error of a system call here and never a SIGBUS in the host. The usable memory of stacks is
//       [0, stacks_ready), that of chunks [0, chunks_ready).
//   J3  A name is in the journal before any event with its id is. A thread that interns a name
//       stores it in the name table, then loads `journal`. The opening thread stores `journal`,
//       then loads the name table. All four accesses are sequentially consistent, so either the
//       thread adds the name, or the opening thread does. Each thread adds all names before its
//       first ring exists, because the opening thread may not have finished. A thread that finds a
//       name in the table adds it, too, because the thread that interned it may not have come so
//       far.
//   J4  The text of a name is complete before names[id] leads to it (release). Two threads may add
//       one name at the same time: either copy will do.
//   J5  Only the thread that changes stacks_growing from 0 to 1 maps memory for stacks.
//       stacks_ready only rises, after the memory is mapped.
//   J6  A module is complete before `modules` counts it (release).
//   J7  Each index of a ring is given to one thread, by an atomic addition to rings_made. A ring
//       whose disk blocks cannot be had lies in private memory; record/publish.c has each event of
//       it drained at once, into the open chunk.
//   J8  Nothing that the file holds decides where memory is accessed: another program may write to
//       it, or punch holes into it. The layout is this process's own copy.
//   The open chunk, open[committed & 1], is the business of write/open_chunk.c; the ring of
//   finished chunks, of store/memory_chunks.c.
#define _GNU_SOURCE
#include "store/journal.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cutrace/format/assert.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/min.h"
#include "base/options.h"
#include "base/pages.h"
#include "base/print.h"
#include "base/process_id.h"
#include "base/signal_guard.h"
#include "store/journal_file.h"
#include "store/name_table.h"

#define THREADS 4096u
#define MODULES 1024u
#define TEXTS_BYTES (256u << 10)
#define MODULE_TEXTS_BYTES (128u << 10)
#define RING_DATA_BYTES (1u << 20)
#define GROW_WAIT_NS UINT64_C(100000000) // for another thread that grows the stacks
#define STACKS_STEP (256u << 10)
#define CHUNKS_STEP (1u << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct ct_journal *_Atomic journal;
static struct ct_journal layout; // J8

static struct {
    _Atomic int is_file;
    const char *error;
    uint8_t *chunks;
    uint64_t chunks_mapped, chunks_ready;
    void *stacks;
    _Atomic size_t stacks_ready;
    _Atomic int stacks_growing;
    _Atomic uint32_t rings_made;
    _Atomic uint32_t texts_used;
    uint32_t modules, module_texts_used;
} j;

struct ct_journal *ct_journal_get(void) {
    return atomic_load_explicit(&journal, memory_order_acquire);
}

int ct_journal_is_file(void) {
    return atomic_load_explicit(&j.is_file, memory_order_relaxed);
}

const char *ct_journal_get_error(void) {
    return j.error;
}

// ---- layout ---------------------------------------------------------------------------------

// Allocates whole pages at offset *at of the file. Returns their offset.
static uint64_t allocate_pages(uint64_t *at, uint64_t bytes) {
    const uint64_t offset = *at;
    CT_ASSERT(offset % CT_JOURNAL_PAGE == 0);
    *at += (bytes + CT_JOURNAL_PAGE - 1) & ~(uint64_t)(CT_JOURNAL_PAGE - 1);
    return offset;
}

static void lay_out(struct ct_journal *h, uint64_t chunks_bytes) {
    uint64_t at = CT_JOURNAL_HEADER;
    h->ring_data = RING_DATA_BYTES;
    h->blocks = CT_JOURNAL_BLOCKS;
    h->names = CT_NAME_IDS;
    h->threads = THREADS;
    h->modules_room = MODULES;
    h->rings_room = CT_JOURNAL_MAX_RINGS;
    h->texts_bytes = TEXTS_BYTES;
    h->module_texts_bytes = MODULE_TEXTS_BYTES;
    h->stacks_bytes = CT_OPTION_NUMBER(STACK_MEMORY);
    h->blocks_at = allocate_pages(&at, (uint64_t)CT_JOURNAL_BLOCKS * CT_STREAM_BLOCK_BYTES);
    h->names_at = allocate_pages(&at, CT_NAME_IDS * sizeof(uint32_t));
    h->texts_at = allocate_pages(&at, TEXTS_BYTES);
    h->threads_at = allocate_pages(&at, THREADS * sizeof(struct ct_journal_thread));
    h->modules_at = allocate_pages(&at, MODULES * sizeof(struct ct_journal_module));
    h->module_texts_at = allocate_pages(&at, MODULE_TEXTS_BYTES);
    h->stacks_at = allocate_pages(&at, h->stacks_bytes);
    h->chunks_at = allocate_pages(&at, chunks_bytes);
    h->chunks_bytes = chunks_bytes;
    h->rings_at = at;
}

static void *at_offset(uint64_t offset) {
    return (char *)ct_journal_get() + offset;
}

// ---- parts of the file ----------------------------------------------------------------------

// Reserves disk blocks for a part of the file (J2). Writes zeros where the file system has no
// fallocate.
static int reserve_blocks(int fd, uint64_t offset, size_t bytes) {
    static const char zeros[CT_JOURNAL_PAGE];
    int rc;
    while ((rc = ct_fallocate(fd, (off_t)offset, (off_t)bytes)) && errno == EINTR)
        ;
    if (!rc || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM))
        return rc ? -errno : 0;
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = ct_pwrite(fd, zeros, sizeof zeros, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}

// Takes the page faults now instead of in the host's calls.
static void populate(void *p, size_t bytes) {
    if (madvise(p, bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < bytes; i += CT_JOURNAL_PAGE)
        atomic_fetch_or((_Atomic unsigned char *)p + i, 0);
}

struct part {
    int fd;
    void *where;
    uint64_t offset;
    size_t bytes;
};

// In a keeper (base/files.h).
static long map_now(void *argument) {
    struct part *const p = argument;
    const int rc = reserve_blocks(p->fd, p->offset, p->bytes);
    if (rc)
        return rc;
    p->where = ct_map(p->fd, p->where, p->bytes, (off_t)p->offset);
    return p->where == MAP_FAILED ? -errno : 0;
}

// NULL, and errno, if the blocks or the memory cannot be had.
static void *map_part(int fd, void *where, uint64_t offset, size_t bytes) {
    struct part p = {fd, where, offset, bytes};
    CT_ASSERT(offset % CT_JOURNAL_PAGE == 0);
    const long rc = ct_files_run(map_now, &p);
    if (!rc)
        return p.where;
    errno = (int)-rc;
    return NULL;
}

// ---- opening --------------------------------------------------------------------------------

// Maps the memory for chunks and reserves blocks for its first part.
static int map_chunks(int fd) {
    const uint64_t first = ct_journal_budget_get_first_bytes(layout.chunks_bytes);
    const int rc = reserve_blocks(fd, layout.chunks_at, first);
    if (rc)
        return rc;
    void *p = ct_map(fd, NULL, layout.chunks_bytes, (off_t)layout.chunks_at);
    if (p == MAP_FAILED)
        return -errno;
    j.chunks = p;
    j.chunks_mapped = layout.chunks_bytes;
    j.chunks_ready = first;
    return 0;
}

// Maps the header, the tables after it, and the memory for chunks. On error undoes both and
// removes the file.
static int map_file(int fd, struct ct_journal **h) {
    int rc = 0;
    *h = map_part(fd, NULL, 0, layout.stacks_at);
    if (!*h)
        rc = errno ? -errno : -ENOMEM;
    if (!rc && layout.chunks_bytes && (rc = map_chunks(fd))) {
        ct_pages_unmap(*h, layout.stacks_at);
        *h = NULL;
    }
    ct_journal_file_close(fd);
    if (rc)
        ct_journal_file_remove();
    atomic_store(&j.is_file, !rc);
    return rc;
}

static int open_with_chunks(const char *trace_path, uint64_t trace_id, struct ct_journal **h) {
    const int fd = ct_journal_file_create_on_tmpfs(trace_path, trace_id);
    if (fd < 0)
        return fd;
    lay_out(&layout, ct_journal_budget_get_bytes(ct_journal_file_get_free_bytes(fd)));
    if (layout.chunks_bytes)
        return map_file(fd, h);
    ct_journal_file_close(fd);
    ct_journal_file_remove();
    return -ENOSPC;
}

static int open_file(const char *trace_path, uint64_t trace_id, struct ct_journal **h) {
    if (!*trace_path)
        return -ENOENT;
    if (CT_OPTION_NUMBER(MEMORY)) {
        const int rc = open_with_chunks(trace_path, trace_id, h);
        if (!rc)
            return 0;
        ct_journal_budget_report_failure(rc);
    }
    lay_out(&layout, 0);
    const int fd = ct_journal_file_is_unsafe_to_map(trace_path)
                       ? ct_journal_file_create_on_tmpfs(trace_path, trace_id)
                       : ct_journal_file_create_beside(trace_path);
    return fd < 0 ? fd : map_file(fd, h);
}

static void fill_header(struct ct_journal *h, uint64_t trace_id) {
    *h = layout;
    h->version = CT_JOURNAL_VERSION;
    h->header_bytes = sizeof *h;
    h->pid = (uint32_t)getpid();
    h->layout_hash = ct_journal_layout();
    h->trace_id = trace_id;
    ct_process_id_read(&h->start_ns, &h->process_start, h->boot_id);
}

static const char *(*name_text)(uint32_t id);

// Adds all names that were interned so far (J3).
static void add_names(void) {
    for (uint32_t id = 1; id < CT_NAME_IDS; id++) {
        const char *text = name_text(id);
        if (text)
            ct_journal_add_name(id, text);
    }
}

int ct_journal_open(const char *trace_path, uint64_t trace_id,
                    const char *(*text_of)(uint32_t id)) {
    struct ct_journal *h = NULL;
    memset(&layout, 0, sizeof layout);
    CT_ASSERT(!atomic_load(&journal));
    const int rc = open_file(trace_path, trace_id, &h);
    if (rc) {
        lay_out(&layout, 0);
        j.error = ct_print_strerror(-rc);
        h = ct_pages_map(layout.stacks_at);
    }
    if (!h)
        return -ENOMEM;
    // Without the blocks: only the drainer writes them, and it may take page faults.
    populate(h, layout.blocks_at);
    fill_header(h, trace_id);
    atomic_store(&j.texts_used, 1); // offset 0 stands for a missing text
    j.module_texts_used = 1;
    memcpy(h->magic, CT_JOURNAL_MAGIC, sizeof h->magic); // J1
    name_text = text_of;
    atomic_store(&journal, h); // J3
    add_names();
    return 0;
}

// ---- rings ----------------------------------------------------------------------------------

struct ct_journal_ring *ct_journal_add_ring(size_t *bytes, int *is_apart) {
    struct ct_journal *h = ct_journal_get();
    struct ct_journal_ring *r = NULL;
    struct ct_signal_guard guard;
    if (!h)
        return NULL;
    ct_signal_guard_enter(&guard); // a file-size limit raises SIGXFSZ
    *bytes = CT_JOURNAL_PAGE + RING_DATA_BYTES;
    const int fd = ct_journal_is_file() ? ct_journal_file_open() : -1;
    if (fd >= 0) {
        const uint32_t i = atomic_fetch_add(&j.rings_made, 1);
        atomic_fetch_add(&h->rings, 1);
        if (i < CT_JOURNAL_MAX_RINGS)
            r = map_part(fd, NULL, layout.rings_at + (uint64_t)i * *bytes, *bytes);
        ct_journal_file_close(fd);
    }
    *is_apart = !r && ct_journal_is_file();
    if (!r)
        r = ct_pages_map(*bytes);
    if (r)
        populate(r, *bytes);
    ct_signal_guard_leave(&guard);
    add_names(); // J3
    return r;
}

// ---- tables ---------------------------------------------------------------------------------

struct ct_journal_thread *ct_journal_get_thread(uint32_t number) {
    struct ct_journal *h = ct_journal_get();
    return h ? (struct ct_journal_thread *)at_offset(layout.threads_at) + number % THREADS : NULL;
}

void ct_journal_add_name(uint32_t id, const char *text) {
    const struct ct_journal *h = atomic_load(&journal); // J3
    CT_ASSERT(id > 0 && id < CT_NAME_IDS);
    if (!h)
        return;
    _Atomic uint32_t *const known = (_Atomic uint32_t *)at_offset(layout.names_at) + id;
    const uint32_t n = (uint32_t)strlen(text) + 1;
    if (atomic_load_explicit(known, memory_order_acquire) ||
        atomic_load(&j.texts_used) + n > TEXTS_BYTES)
        return;
    const uint32_t used = atomic_fetch_add(&j.texts_used, n);
    if (used + n > TEXTS_BYTES)
        return;
    memcpy((char *)at_offset(layout.texts_at) + used, text, n);
    atomic_store_explicit(known, used, memory_order_release); // J4
}

void *ct_journal_reserve_stacks(size_t *bytes) {
    struct ct_journal *h = ct_journal_get();
    if (!h)
        return NULL;
    *bytes = layout.stacks_bytes;
    if (!j.stacks)
        j.stacks = mmap(NULL, layout.stacks_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (j.stacks == MAP_FAILED)
        j.stacks = NULL;
    return j.stacks;
}

// Maps the next part of the file into the address space for stacks, or makes it accessible where
// there is no file (J5).
static int map_next_stacks(void) {
    const size_t ready = atomic_load(&j.stacks_ready);
    const size_t bytes = ct_min(layout.stacks_bytes - ready, STACKS_STEP);
    CT_ASSERT(atomic_load(&j.stacks_growing) && ready <= layout.stacks_bytes); // J5
    char *const at_end = (char *)j.stacks + ready;
    const int fd = ct_journal_is_file() ? ct_journal_file_open() : -1;
    int rc = -1;
    if (fd >= 0) {
        rc = map_part(fd, at_end, layout.stacks_at + ready, bytes) ? 0 : -1;
        ct_journal_file_close(fd);
    } else if (!ct_journal_is_file()) {
        rc = mprotect(at_end, bytes, PROT_READ | PROT_WRITE);
    }
    if (!rc)
        atomic_store(&j.stacks_ready, ready + bytes);
    return rc;
}

int ct_journal_grow_stacks(size_t up_to) {
    const struct ct_journal *h = ct_journal_get();
    struct ct_signal_guard guard;
    if (!h || !j.stacks)
        return -ENOMEM;
    if (atomic_load(&j.stacks_ready) >= up_to)
        return 0;
    ct_signal_guard_enter(&guard);
    // Another thread that grows the stacks takes microseconds, unless it loses its core.
    const uint64_t deadline = ct_clock_read() + GROW_WAIT_NS;
    for (int idle = 0; atomic_load(&j.stacks_ready) < up_to && ct_clock_read() < deadline;
         idle = 0) {
        if (!atomic_compare_exchange_strong(&j.stacks_growing, &idle, 1)) {
            sched_yield();
            continue;
        }
        const int rc = atomic_load(&j.stacks_ready) < up_to ? map_next_stacks() : 0;
        atomic_store(&j.stacks_growing, 0);
        if (rc)
            break;
    }
    ct_signal_guard_leave(&guard);
    return atomic_load(&j.stacks_ready) >= up_to ? 0 : -ENOMEM;
}

uint8_t *ct_journal_get_chunk_memory(void) {
    return j.chunks;
}

uint64_t ct_journal_get_chunk_bytes(void) {
    return layout.chunks_bytes;
}

void ct_journal_shrink_chunk_memory(uint64_t bytes) {
    layout.chunks_bytes = bytes;
    atomic_store(&ct_journal_get()->chunks_bytes, bytes);
}

uint64_t ct_journal_grow_chunk_memory(uint64_t up_to) {
    const uint64_t want =
        ct_min((up_to + CHUNKS_STEP - 1) / CHUNKS_STEP * CHUNKS_STEP, j.chunks_mapped);
    if (j.chunks_ready >= want || !ct_journal_is_file())
        return j.chunks_ready;
    const int fd = ct_journal_file_open();
    if (fd < 0)
        return j.chunks_ready;
    if (!reserve_blocks(fd, layout.chunks_at + j.chunks_ready, want - j.chunks_ready))
        j.chunks_ready = want;
    ct_journal_file_close(fd);
    return j.chunks_ready;
}

struct ct_stream_block *ct_journal_get_block(uint32_t i) {
    CT_ASSERT(i > 0 && i <= CT_JOURNAL_BLOCKS);
    return (struct ct_stream_block *)at_offset(layout.blocks_at) + (i - 1);
}

void ct_journal_add_module(uint64_t base, uint64_t start, uint64_t end, const char *path,
                           const uint8_t *build_id, uint32_t build_id_bytes) {
    struct ct_journal *h = ct_journal_get();
    const uint32_t n = j.modules, bytes = (uint32_t)strlen(path) + 1;
    if (!h || n >= MODULES)
        return;
    struct ct_journal_module *m = (struct ct_journal_module *)at_offset(layout.modules_at) + n;
    *m = (struct ct_journal_module){.base = base, .start = start, .end = end};
    if (j.module_texts_used + bytes <= MODULE_TEXTS_BYTES) {
        memcpy((char *)at_offset(layout.module_texts_at) + j.module_texts_used, path, bytes);
        m->path = j.module_texts_used;
        j.module_texts_used += bytes;
    }
    m->build_id_bytes = build_id_bytes < sizeof m->build_id ? build_id_bytes : sizeof m->build_id;
    memcpy(m->build_id, build_id, m->build_id_bytes);
    j.modules = n + 1;
    atomic_store_explicit(&h->modules, n + 1, memory_order_release); // J6
}

// ---- the end --------------------------------------------------------------------------------

void ct_journal_remove_file(void) {
    if (!ct_journal_is_file())
        return;
    ct_journal_file_remove();
    atomic_store(&j.is_file, 0);
}

void ct_journal_reinit_child(void) {
    struct ct_journal *h = ct_journal_get();
    if (h) {
        if (j.stacks)
            ct_pages_unmap(j.stacks, layout.stacks_bytes);
        ct_pages_unmap(j.chunks, j.chunks_mapped);
        ct_pages_unmap(h, layout.stacks_at);
    }
    atomic_store(&journal, NULL);
    memset(&j, 0, sizeof j);
    ct_journal_file_reinit_child();
}
