// SPDX-License-Identifier: Apache-2.0
// Reads a journal: the chunks in memory, the streams of the open chunk, the events in the rings.
// While its process runs, a journal changes under the reader: a read counts only if the commit
// number is the same before and after it.
#include "read/journal_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/journal_file.h"
#include "base/now.h"

#define TRIES 50
#define OFFSET_MAX (UINT64_C(1) << 48)
#define RING_DATA_MAX (1u << 30)
#define CHUNK_MAX (2u * CT_MAX_BODY)    // bytes of a compressed chunk
#define RECORDS_MAX (UINT64_C(1) << 30) // bytes of records of all rings together

static int fail_damaged(const struct ct_journal_contents *j, struct ct_error *error,
                        const char *what) {
    return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s: %s is impossible: the journal is damaged",
                        j->file.name, what);
}

// ---- header -------------------------------------------------------------------------------------

static int read_header(struct ct_journal_contents *j, struct ct_error *error) {
    struct ct_journal *h = &j->head;
    if (ct_source_read(&j->file, 0, h, sizeof *h) != sizeof *h)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s: is too short for its header",
                            j->file.name);
    const char *mismatch = ct_journal_probe_mismatch(h);
    if (mismatch)
        return ct_error_set(
            error, CT_EXIT_BAD_TRACE,
            "%s: %s (version %u, this program reads %u); use the cutrace-report of the "
            "version that recorded it",
            j->file.name, mismatch, h->version, CT_JOURNAL_VERSION);
    const uint64_t offsets[] = {
        h->blocks_at,    h->names_at,  h->texts_at,    h->threads_at,      h->modules_at,
        h->stacks_at,    h->rings_at,  h->texts_bytes, h->module_texts_at, h->module_texts_bytes,
        h->stacks_bytes, h->chunks_at, h->chunks_bytes};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        if (offsets[i] > OFFSET_MAX)
            return fail_damaged(j, error, "an offset in its header");
    if (h->ring_data < CT_JOURNAL_PAGE || h->ring_data % CT_JOURNAL_PAGE ||
        h->ring_data > RING_DATA_MAX)
        return fail_damaged(j, error, "the size of its rings");
    j->open = h->open[h->committed & 1];
    if (j->open.dict_seq > j->open.seq || j->open.records > CT_MAX_EVENTS ||
        j->open.events > j->open.records || j->open.flags & CT_CHUNK_REQUIRED ||
        j->open.first_event > UINT64_MAX / 2 || j->open.seq > UINT64_MAX / 2)
        return fail_damaged(j, error, "its open chunk");
    return 0;
}

// ---- the open chunk -----------------------------------------------------------------------------

// Appends the blocks of a stream. `left` bounds the blocks of all streams together, so that a cycle
// of blocks ends.
static int read_stream(struct ct_journal_contents *j, unsigned stream, size_t *at, size_t *capacity,
                       uint32_t *left) {
    const uint32_t last = j->open.stream[stream].last;
    for (uint32_t i = j->open.stream[stream].first; i;) {
        struct ct_stream_block b;
        const uint64_t offset = j->head.blocks_at + (uint64_t)(i - 1) * sizeof b;
        if (i > j->head.blocks || !*left ||
            ct_source_read(&j->file, offset, &b, sizeof b) != sizeof b)
            return -1;
        const uint32_t used = i == last ? j->open.stream[stream].used : b.used;
        if (used > sizeof b.bytes || *at + used > CT_MAX_BODY / 2)
            return -1;
        if (*at + used > *capacity)
            j->streams = ct_heap_resize(j->streams, *capacity = *capacity * 2 + sizeof b, 1);
        if (used)
            memcpy(j->streams + *at, b.bytes, used);
        *at += used;
        --*left;
        if (i == last)
            return 0;
        i = b.next;
    }
    return last ? -1 : 0;
}

static int read_streams(struct ct_journal_contents *j) {
    size_t at = 0, capacity = 0;
    uint32_t left = j->head.blocks;
    for (unsigned s = 0; s < CT_STREAMS; s++) {
        j->stream_at[s] = at;
        if (read_stream(j, s, &at, &capacity, &left))
            return -1;
    }
    j->stream_at[CT_STREAMS] = at;
    return 0;
}

// ---- chunks in memory ---------------------------------------------------------------------------

static uint64_t read_word(const struct ct_journal_contents *j, uint64_t offset) {
    uint64_t word = UINT64_MAX;
    return ct_source_read(&j->file, offset, &word, sizeof word) == sizeof word ? word : UINT64_MAX;
}

// Copies the chunk of n bytes at an offset of the journal. 0, or -1: there is none.
static int copy_chunk(struct ct_journal_contents *j, uint64_t offset, uint64_t n) {
    struct ct_chunk head;
    if (n < CT_PREFIX_BYTES || n > CHUNK_MAX || n % CT_CHUNK_ALIGN ||
        ct_source_read(&j->file, offset + 8, &head, sizeof head) != sizeof head ||
        memcmp(head.magic, CT_CHUNK_MAGIC, sizeof head.magic) != 0 ||
        head.trace_id != j->head.trace_id)
        return -1;
    if (j->memory_bytes + n > j->memory_cap)
        j->memory = ct_heap_resize(j->memory, j->memory_cap = j->memory_cap * 2 + (size_t)n, 1);
    if (ct_source_read(&j->file, offset, j->memory + j->memory_bytes, (size_t)n) != n)
        return -1;
    j->memory_bytes += (size_t)n;
    return 0;
}

// Copies the chunks that were added since the last read. While the process runs, it overwrites the
// oldest ones: a chunk is whole if the tail has not passed it when it has been read.
static void read_memory_chunks(struct ct_journal_contents *j) {
    const uint64_t size = j->head.chunks_bytes, head = j->head.chunks_head;
    uint64_t tail = j->head.chunks_tail;
    if (!size || head - tail > size) {
        j->damaged += size || head != tail;
        return;
    }
    for (uint64_t at = tail > j->memory_read ? tail : j->memory_read; at < head;
         j->memory_read = at) {
        const uint64_t offset = j->head.chunks_at + at % size, to_end = size - at % size;
        const uint64_t n =
            to_end < 8 ? 0 : read_word(j, offset); // 0: the next chunk is at the start
        const size_t before = j->memory_bytes;
        const int bad = n && (n > to_end - 8 || n > head - at - 8 || copy_chunk(j, offset + 8, n));
        if (j->alive)
            tail = read_word(j, offsetof(struct ct_journal, chunks_tail));
        if (at < tail) { // overwritten meanwhile
            j->memory_bytes = before;
            at = tail;
            continue;
        }
        if (bad) {
            j->damaged++;
            return;
        }
        at += n ? 8 + n : to_end;
    }
}

// ---- rings --------------------------------------------------------------------------------------

static void add_pending(struct ct_journal_contents *j, const uint8_t *record, uint64_t until) {
    struct ct_event e = {0};
    memcpy(&e.present, record, sizeof e.present);
    memcpy(&e.t_ns, record + offsetof(struct ct_event, t_ns), sizeof e.t_ns);
    if (e.t_ns <= j->open.drained_ns || e.t_ns > until)
        return;
    CT_HEAP_GROW(j->pending, j->pending_count, j->pending_cap);
    j->pending[j->pending_count] =
        (struct ct_journal_record){.t_ns = e.t_ns, .order = j->pending_count, .record = record};
    j->pending_count++;
}

// Adds the records in n bytes that were at `tail` in a ring. 0, or -1 where the bytes are no
// records.
static int add_records(struct ct_journal_contents *j, const uint8_t *records, uint64_t n,
                       uint64_t tail, uint64_t until) {
    const uint64_t known = (UINT64_C(1) << CT_FIELDS_END) - 2;
    for (uint64_t at = 0; at < n;) {
        const uint64_t to_end = j->head.ring_data - (tail + at) % j->head.ring_data;
        uint64_t present;
        memcpy(&present, records + at, sizeof present);
        if (!present) {
            at += to_end;
            continue;
        }
        if (present & ~known || !(present & CT_BIT(t_ns)))
            return -1;
        const uint32_t bytes = ct_journal_record_bytes(present);
        if (bytes > to_end || bytes > n - at)
            return -1;
        add_pending(j, records + at, until);
        at += bytes;
    }
    return 0;
}

// Reads n bytes of a ring from position `from` on; they may wrap.
static size_t read_wrapping(const struct ct_journal_contents *j, uint64_t data, uint64_t from,
                            uint8_t *to, size_t n) {
    const uint64_t offset = from % j->head.ring_data;
    const size_t first = n < j->head.ring_data - offset ? n : (size_t)(j->head.ring_data - offset);
    const size_t got = ct_source_read(&j->file, data + offset, to, first);
    return got == first ? got + ct_source_read(&j->file, data, to + got, n - first) : got;
}

static void add_loss(struct ct_journal_contents *j, const struct ct_journal_ring *r) {
    if (!r->lost)
        return;
    CT_HEAP_GROW(j->losses, j->loss_count, j->loss_cap);
    j->losses[j->loss_count++] = (struct ct_journal_loss){
        r->lost, r->last_ns > j->open.drained_ns ? r->last_ns : j->open.drained_ns, r->thread};
}

static int read_ring(struct ct_journal_contents *j, uint64_t at, uint64_t *bytes, uint64_t until) {
    struct ct_journal_ring r;
    if (ct_source_read(&j->file, at, &r, sizeof r) != sizeof r)
        return -1; // beyond the end of the file: never mapped
    const uint64_t n = r.head - r.tail;
    // (an announced time of 0: the ring was not set up)
    j->torn += r.announced != CT_JOURNAL_IDLE && r.announced;
    add_loss(j, &r);
    if (!n)
        return 0;
    if (n > j->head.ring_data || n % 8 || r.tail % 8 || *bytes + n > RECORDS_MAX) {
        j->damaged++;
        return 0;
    }
    *bytes += n;
    CT_HEAP_GROW(j->records, j->ring_count, j->ring_cap);
    uint8_t *records = j->records[j->ring_count++] = ct_heap_resize(NULL, (size_t)n, 1);
    const size_t got = read_wrapping(j, at + CT_JOURNAL_PAGE, r.tail, records, (size_t)n);
    j->damaged += add_records(j, records, got & ~(size_t)7, r.tail, until) || got != n;
    return 0;
}

static int compare_time(const void *a, const void *b) {
    const struct ct_journal_record *x = a, *y = b;
    if (x->t_ns != y->t_ns)
        return x->t_ns < y->t_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void read_rings(struct ct_journal_contents *j) {
    // Leave out events later than now: reading the rings would find some of them and miss others.
    const uint64_t until = j->alive ? ct_now_ns(CLOCK_MONOTONIC) : UINT64_MAX;
    const uint64_t step = (uint64_t)CT_JOURNAL_PAGE + j->head.ring_data;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < j->head.rings && i < j->head.rings_room; i++)
        if (read_ring(j, j->head.rings_at + i * step, &bytes, until))
            break;
    if (j->pending_count)
        qsort(j->pending, j->pending_count, sizeof *j->pending, compare_time);
}

// ---- the journal --------------------------------------------------------------------------------

// Frees what a read found, but for the chunks in memory, which later reads add to.
static void free_read(struct ct_journal_contents *j) {
    for (size_t i = 0; i < j->ring_count; i++)
        free(j->records[i]);
    free(j->records);
    free(j->pending);
    free(j->losses);
    free(j->streams);
    *j = (struct ct_journal_contents){.file = j->file,
                                      .path = j->path,
                                      .memory = j->memory,
                                      .memory_bytes = j->memory_bytes,
                                      .memory_cap = j->memory_cap,
                                      .memory_read = j->memory_read};
}

// 1: read; 0: the journal changed meanwhile; -1: the error is set.
static int try_read(struct ct_journal_contents *j, struct ct_error *error) {
    uint64_t committed = 0;
    if (read_header(j, error))
        return -1;
    j->alive = ct_process_alive_records(&j->head, j->file.fd);
    read_memory_chunks(j);
    const int bad = read_streams(j);
    if (!bad)
        read_rings(j);
    const size_t got = ct_source_read(&j->file, offsetof(struct ct_journal, committed), &committed,
                                      sizeof committed);
    if (j->alive && (got != sizeof committed || committed != j->head.committed))
        return 0;
    return bad ? fail_damaged(j, error, "the chain of its blocks") : 1;
}

int ct_journal_read_source(struct ct_journal_contents *j, struct ct_error *error) {
    const struct timespec pause = {0, 2000000};
    for (int i = 0; i < TRIES; i++) {
        const int done = try_read(j, error);
        if (done)
            return done;
        free_read(j);
        nanosleep(&pause, NULL);
    }
    return ct_error_set(
        error, CT_EXIT_BAD_TRACE,
        "%s: the process records faster than the journal can be read; try again, or run: "
        "cutrace ctl %s flush",
        j->file.name, j->file.name);
}

static int fail_open(const struct ct_journal_contents *j, struct ct_error *error) {
    if (errno == ENOENT || errno == ENOTDIR)
        return 0;
    return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s: %s", j->path, ct_journal_open_error(errno));
}

int ct_journal_read_trace(struct ct_journal_contents *j, const char *trace,
                          struct ct_error *error) {
    struct stat st;
    *j = (struct ct_journal_contents){.file.fd = -1};
    const size_t n = strlen(trace) + sizeof CT_JOURNAL_SUFFIX;
    j->path = ct_heap_resize(NULL, n, 1);
    (void)snprintf(j->path, n, "%s%s", trace, CT_JOURNAL_SUFFIX);
    const int fd = ct_journal_open(AT_FDCWD, j->path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st))
        return fail_open(j, error);
    const uint64_t bytes = (uint64_t)st.st_size;
    j->file = (struct ct_source){.name = j->path, .fd = fd, .bytes = bytes, .file_bytes = bytes};
    return ct_journal_read_source(j, error);
}

void ct_journal_read_close(struct ct_journal_contents *j) {
    free_read(j);
    ct_source_close(&j->file);
    free(j->memory);
    free(j->path);
    *j = (struct ct_journal_contents){.file.fd = -1};
}
