// SPDX-License-Identifier: Apache-2.0
// The journal: memory of the recorder that outlives the process, because it is a file. Where a file cannot be
// had, the same layout lies in memory that does not.
//
// Blocks of the disk are taken before they are touched (fallocate): a full disk is then an error of a system
// call here, not a SIGBUS in the host.
#define _GNU_SOURCE
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/pages.h"
#include "base/print.h"
#include "base/process_id.h"
#include "base/signal_guard.h"
#include "store/journal_file.h"
#include "store/memory_budget.h"
#include "store/name_table.h"

#define BLOCKS 768u // 64 Ki events and their definitions
#define THREADS 4096u
#define MODULES 1024u
#define TEXTS_BYTES (256u << 10)
#define MODULE_TEXTS_BYTES (128u << 10)
#define RING_DATA (1u << 20)
#define GROWING_NS UINT64_C(100000000)
#define STACKS_STEP (256u << 10)
#define SHELF_STEP (1u << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct ct_journal *_Atomic journal;

static struct {
    _Atomic int is_file;
    const char *trouble;
    uint8_t *shelf;
    uint64_t shelf_mapped, shelf_ready;
    void *stacks;
    _Atomic size_t stacks_ready;
    _Atomic int stacks_growing;
    _Atomic uint32_t texts_used;
    uint32_t module_texts_used;
} j;

struct ct_journal *ct_journal(void) {
    return atomic_load_explicit(&journal, memory_order_acquire);
}

int ct_journal_is_file(void) {
    return atomic_load_explicit(&j.is_file, memory_order_relaxed);
}

const char *ct_journal_get_error(void) {
    return j.trouble;
}

// ---- layout ---------------------------------------------------------------------------------

static uint64_t place(uint64_t *at, uint64_t bytes) {
    const uint64_t here = *at;
    *at += (bytes + CT_JOURNAL_PAGE - 1) & ~(uint64_t)(CT_JOURNAL_PAGE - 1);
    return here;
}

static void lay_out(struct ct_journal *h, uint64_t chunks_bytes) {
    uint64_t at = CT_JOURNAL_HEADER;
    h->ring_data = RING_DATA;
    h->blocks = BLOCKS;
    h->names = CT_NAME_IDS;
    h->threads = THREADS;
    h->modules_room = MODULES;
    h->rings_room = CT_JOURNAL_MAX_RINGS;
    h->texts_bytes = TEXTS_BYTES;
    h->module_texts_bytes = MODULE_TEXTS_BYTES;
    h->stacks_bytes = CT_OPTION_NUMBER(STACK_MEMORY);
    h->blocks_at = place(&at, (uint64_t)BLOCKS * CT_STREAM_BLOCK_BYTES);
    h->names_at = place(&at, CT_NAME_IDS * sizeof(uint32_t));
    h->texts_at = place(&at, TEXTS_BYTES);
    h->threads_at = place(&at, THREADS * sizeof(struct ct_journal_thread));
    h->modules_at = place(&at, MODULES * sizeof(struct ct_journal_module));
    h->module_texts_at = place(&at, MODULE_TEXTS_BYTES);
    h->stacks_at = place(&at, h->stacks_bytes);
    h->chunks_at = place(&at, chunks_bytes);
    h->chunks_bytes = chunks_bytes;
    h->rings_at = at;
}

static void *at(uint64_t offset) {
    return (char *)ct_journal_get() + offset;
}

// ---- pieces of the file ---------------------------------------------------------------------

// Takes the disk's blocks for a piece of the file. A file system without fallocate gets zeros.
static int reserve(int fd, uint64_t offset, size_t bytes) {
    static const char zeros[CT_JOURNAL_PAGE];
    int rc;
    while ((rc = fallocate(fd, 0, (off_t)offset, (off_t)bytes)) && errno == EINTR)
        ;
    if (!rc || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM))
        return rc ? -errno : 0;
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(fd, zeros, sizeof zeros, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}

// Page faults are taken now, not in the host's calls.
static void touch(void *p, size_t bytes) {
    if (madvise(p, bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < bytes; i += CT_JOURNAL_PAGE)
        atomic_fetch_or((_Atomic unsigned char *)p + i, 0);
}

static void *map_piece(int fd, void *where, uint64_t offset, size_t bytes) {
    int rc = reserve(fd, offset, bytes);
    if (rc) {
        errno = -rc;
        return NULL;
    }
    void *p = mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (where ? MAP_FIXED : 0), fd,
                   (off_t)offset);
    return p == MAP_FAILED ? NULL : p;
}

// ---- opening --------------------------------------------------------------------------------

// The shelf's first part; the rest is address space.
static int map_shelf(int fd, const struct ct_journal *layout) {
    const uint64_t first = ct_memory_budget_get_first_bytes(layout->chunks_bytes);
    const int rc = reserve(fd, layout->chunks_at, first);
    if (rc)
        return rc;
    void *p = mmap(NULL, layout->chunks_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                   fd, (off_t)layout->chunks_at);
    if (p == MAP_FAILED)
        return -errno;
    j.shelf = p;
    j.shelf_mapped = layout->chunks_bytes;
    j.shelf_ready = first;
    return 0;
}

// The head of the layout in the file that was made, and the shelf: 0, or -errno and nothing is left of it.
static int map_file(int fd, const struct ct_journal *layout, struct ct_journal **h) {
    *h = map_piece(fd, NULL, 0, layout->stacks_at);
    int rc = *h ? 0 : errno ? -errno : -ENOMEM;
    if (!rc && layout->chunks_bytes && (rc = map_shelf(fd, layout))) {
        ct_pages_unmap(*h, layout->stacks_at);
        *h = NULL;
    }
    close(fd);
    if (rc)
        ct_journal_file_remove();
    atomic_store(&j.is_file, !rc);
    return rc;
}

static int open_with_shelf(const char *trace_path, uint64_t trace_id, struct ct_journal *layout,
                           struct ct_journal **h) {
    const int fd = ct_journal_file_create_on_tmpfs(trace_path, trace_id);
    if (fd < 0)
        return fd;
    lay_out(layout, ct_memory_budget_get_bytes(ct_journal_file_get_free_bytes(fd)));
    if (layout->chunks_bytes)
        return map_file(fd, layout, h);
    close(fd);
    ct_journal_file_remove();
    return -ENOSPC;
}

static int open_file(const char *trace_path, uint64_t trace_id, struct ct_journal *layout,
                     struct ct_journal **h) {
    if (!*trace_path)
        return -ENOENT;
    if (CT_OPTION_NUMBER(MEMORY)) {
        const int rc = open_with_shelf(trace_path, trace_id, layout, h);
        if (!rc)
            return 0;
        ct_memory_budget_report_failure(rc);
    }
    lay_out(layout, 0);
    const int fd = ct_journal_file_is_unsafe_to_map(trace_path)
                       ? ct_journal_file_create_on_tmpfs(trace_path, trace_id)
                       : ct_journal_file_create_beside(trace_path);
    return fd < 0 ? fd : map_file(fd, layout, h);
}

static void fill_header(struct ct_journal *h, uint64_t chunks_bytes, uint64_t trace_id) {
    lay_out(h, chunks_bytes);
    h->version = CT_JOURNAL_VERSION;
    h->header_bytes = sizeof *h;
    h->pid = (uint32_t)getpid();
    h->layout_hash = ct_journal_layout();
    h->trace_id = trace_id;
    ct_process_id_read(&h->start_ns, &h->process_start, h->boot_id);
}

static const char *(*name_text)(uint32_t id); // NULL for an id that was never handed out

// The names that were handed out before there was a journal. Either a thread that makes a name sees the journal, or who
// comes here behind the opening sees the name: all four look and store in one order (names.c has the other half).
static void put_names(void) {
    for (uint32_t id = 1; id < CT_NAME_IDS; id++) {
        const char *text = name_text(id);
        if (text)
            ct_journal_add_name(id, text);
    }
}

int ct_journal_open(const char *trace_path, uint64_t trace_id,
                    const char *(*text_of)(uint32_t id)) {
    static struct ct_journal layout; // static: the host's thread may have a small stack
    struct ct_journal *h = NULL;
    memset(&layout, 0, sizeof layout);
    const int rc = open_file(trace_path, trace_id, &layout, &h);
    if (rc) {
        lay_out(&layout, 0);
        j.trouble = ct_print_strerror(-rc);
        h = ct_pages_map(layout.stacks_at);
    }
    if (!h)
        return -ENOMEM;
    touch(h, layout.blocks_at); // (the blocks are the drainer's, who can wait)
    fill_header(h, layout.chunks_bytes, trace_id);
    atomic_store(&j.texts_used, 1); // 0 means: not there
    j.module_texts_used = 1;
    memcpy(h->magic, CT_JOURNAL_MAGIC, sizeof h->magic); // before others can put events into it
    name_text = text_of;
    atomic_store(&journal, h); // put_names
    put_names();
    return 0;
}

// ---- rings ----------------------------------------------------------------------------------

// A ring beyond what the disk has lies in memory: its events are lost if the process is killed.
struct ct_journal_ring *ct_journal_ring(size_t *bytes) {
    struct ct_journal *h = ct_journal_get();
    struct ct_journal_ring *r = NULL;
    struct ct_signal_guard shield;
    if (!h)
        return NULL;
    ct_signal_guard_enter(&shield); // a file-size limit raises SIGXFSZ
    *bytes = CT_JOURNAL_PAGE + h->ring_data;
    const int fd = ct_journal_is_file() ? ct_journal_file_open() : -1;
    if (fd >= 0) {
        const uint32_t i = atomic_fetch_add(&h->rings, 1);
        if (i < h->rings_room)
            r = map_piece(fd, NULL, h->rings_at + (uint64_t)i * *bytes, *bytes);
        close(fd);
    }
    if (!r)
        r = ct_pages_map(*bytes);
    if (r)
        touch(r, *bytes);
    ct_signal_guard_leave(&shield);
    put_names(); // who opened the journal may not have come so far: no event before its name
    return r;
}

// ---- tables ---------------------------------------------------------------------------------

struct ct_journal_thread *ct_journal_thread(uint32_t number) {
    struct ct_journal *h = ct_journal_get();
    return h ? (struct ct_journal_thread *)at(h->threads_at) + number % h->threads : NULL;
}

void ct_journal_add_name(uint32_t id, const char *text) {
    const struct ct_journal *h = atomic_load(&journal); // put_names
    if (!h)
        return;
    _Atomic uint32_t *const known = (_Atomic uint32_t *)at(h->names_at) + id;
    const uint32_t n = (uint32_t)strlen(text) + 1;
    if (atomic_load_explicit(known, memory_order_acquire) ||
        atomic_load(&j.texts_used) + n > TEXTS_BYTES)
        return;
    const uint32_t used = atomic_fetch_add(&j.texts_used, n);
    if (used + n > TEXTS_BYTES)
        return;
    memcpy((char *)at(h->texts_at) + used, text, n);
    atomic_store_explicit(known, used, memory_order_release);
}

void *ct_journal_reserve_stacks(size_t *bytes) {
    struct ct_journal *h = ct_journal_get();
    if (!h)
        return NULL;
    *bytes = h->stacks_bytes;
    if (!j.stacks) // its pages become the file's, piece by piece
        j.stacks = mmap(NULL, h->stacks_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return j.stacks == MAP_FAILED ? (j.stacks = NULL) : j.stacks;
}

// The next piece of the stacks' address space becomes the file's. One thread at a time.
static int grow_stacks(const struct ct_journal *h) {
    const size_t ready = atomic_load(&j.stacks_ready);
    const size_t left = h->stacks_bytes - ready, bytes = left < STACKS_STEP ? left : STACKS_STEP;
    char *const at_end = (char *)j.stacks + ready;
    const int fd = ct_journal_is_file() ? ct_journal_file_open() : -1;
    int rc = -1;
    if (fd >= 0) {
        rc = map_piece(fd, at_end, h->stacks_at + ready, bytes) ? 0 : -1;
        close(fd);
    } else if (!ct_journal_is_file()) {
        rc = mprotect(at_end, bytes, PROT_READ | PROT_WRITE);
    }
    if (!rc)
        atomic_store(&j.stacks_ready, ready + bytes);
    return rc;
}

int ct_journal_grow_stacks(size_t up_to) {
    const struct ct_journal *h = ct_journal_get();
    struct ct_signal_guard shield;
    if (!h || !j.stacks)
        return -ENOMEM;
    if (atomic_load(&j.stacks_ready) >= up_to)
        return 0;
    ct_signal_guard_enter(&shield);
    // Another thread may be at it: a matter of microseconds, unless it has lost its core.
    const uint64_t until = ct_clock_read() + GROWING_NS;
    for (int nobody = 0; atomic_load(&j.stacks_ready) < up_to && ct_clock_read() < until; nobody = 0) {
        if (!atomic_compare_exchange_strong(&j.stacks_growing, &nobody, 1)) {
            sched_yield();
            continue;
        }
        const int rc = atomic_load(&j.stacks_ready) < up_to ? grow_stacks(h) : 0;
        atomic_store(&j.stacks_growing, 0);
        if (rc)
            break;
    }
    ct_signal_guard_leave(&shield);
    return atomic_load(&j.stacks_ready) >= up_to ? 0 : -ENOMEM;
}

uint8_t *ct_journal_get_chunk_memory(void) {
    return j.shelf;
}

uint64_t ct_journal_grow_chunk_memory(uint64_t up_to) {
    uint64_t want = (up_to + SHELF_STEP - 1) / SHELF_STEP * SHELF_STEP;
    want = want < j.shelf_mapped ? want : j.shelf_mapped;
    if (j.shelf_ready >= want || !ct_journal_is_file())
        return j.shelf_ready;
    const int fd = ct_journal_file_open();
    if (fd < 0)
        return j.shelf_ready;
    if (!reserve(fd, ct_journal_get()->chunks_at + j.shelf_ready, want - j.shelf_ready))
        j.shelf_ready = want;
    close(fd);
    return j.shelf_ready;
}

struct ct_stream_block *ct_journal_get_block(uint32_t i) {
    struct ct_journal *h = ct_journal_get();
    return (struct ct_stream_block *)at(h->blocks_at) + (i - 1);
}

void ct_journal_module(uint64_t base, uint64_t start, uint64_t end, const char *path,
                       const uint8_t *build_id, uint32_t build_id_bytes) {
    struct ct_journal *h = ct_journal_get();
    const uint32_t n = h ? atomic_load(&h->modules) : 0, bytes = (uint32_t)strlen(path) + 1;
    if (!h || n >= h->modules_room)
        return;
    struct ct_journal_module *m = (struct ct_journal_module *)at(h->modules_at) + n;
    *m = (struct ct_journal_module){.base = base, .start = start, .end = end};
    if (j.module_texts_used + bytes <= MODULE_TEXTS_BYTES) {
        memcpy((char *)at(h->module_texts_at) + j.module_texts_used, path, bytes);
        m->path = j.module_texts_used;
        j.module_texts_used += bytes;
    }
    m->build_id_bytes = build_id_bytes < sizeof m->build_id ? build_id_bytes : sizeof m->build_id;
    memcpy(m->build_id, build_id, m->build_id_bytes);
    atomic_store_explicit(&h->modules, n + 1, memory_order_release);
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
            ct_pages_unmap(j.stacks, h->stacks_bytes);
        ct_pages_unmap(j.shelf, j.shelf_mapped);
        ct_pages_unmap(h, h->stacks_at);
    }
    atomic_store(&journal, NULL);
    memset(&j, 0, sizeof j);
    ct_journal_file_reinit_child();
}
