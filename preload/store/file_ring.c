// SPDX-License-Identifier: Apache-2.0
// The ring of chunks in the trace file: a file of bounded size that is a valid .zst at every
// instant.
//
// The kernel guarantees:
//   K1  A pwrite(2) of 8 bytes at a multiple of 8, from an aligned variable of 8 bytes, writes all
//       of them or none. A process that is killed inside pwrite leaves a prefix of its bytes in the
//       file: the kernel tests for a fatal signal before it copies each page, never within one. A
//       source page that was swapped out meanwhile cuts the copy at the boundary of that page. So a
//       write is atomic if it lies within one page of the file and one page of memory.
//   K2  ftruncate(2) is atomic.
//   A crash of the machine is out of scope: the kernel writes pages to the disk in any order.
//
// Invariants:
//   R1  At every instant the file is a sequence of zstd frames from its start to its end: chunks,
//       and skippable frames with FREE_MAGIC that cover free space.
//   R2  Every frame of free space and every chunk begins at a multiple of 8 and has a multiple of 8
//       bytes.
//   R3  s.span mirrors the file: in the order of the file, without gaps, from 0 to s.end. After a
//       failed step it describes what the file then contains, and the next append continues from
//       there.
//   R4  s.end <= s.bound.
//   R5  The next chunk goes to span s.next, directly after the newest chunk, so the oldest chunks
//       are overwritten first. The place moves only over protected chunks, and what it skips in
//       front of them becomes free space.
//   R6  A protected chunk is not overwritten: make_fit ends its protection first where nothing else
//       makes room.
//   R7  The restart chunk that the chunk being appended depends on, and all chunks since, are not
//       overwritten.
//   R8  A provisional chunk is a version of the chunk that is appended next. Versions lie after
//       s.next, with nothing but free space between them, a newer one after an older one. A
//       version becomes free space only after a newer one, or the chunk itself, is committed.
//   R9  So the chunk itself goes in front of its newest version if it fits there. If not, it is
//       first put after that version like one more, but so far back that it fits in front then. A
//       file that has no room for that keeps the free space in front: the chunk goes after it.
//
// Each step keeps R1, also when it is cut in the midst:
//   cover   Writes one word at p: the header of a frame that ends where the last frame to be
//           overwritten ends. The frames between become the content of that frame. Atomic by K1.
//   write   p begins one frame of free space that ends at q >= p + n. Writes the chunk without its
//           first 8 bytes to p + 8, and, if n < q - p, a frame header for [p + n, q) to p + n. All
//           of this is content of the frame at p.
//   commit  Writes one word at p: the first 8 bytes of the chunk. Atomic by K1. They begin the
//           chunk's first frame; its other frames follow up to p + n, then the frame that covers [p
//           + n, q). By R2 that one has room for a header.
//   grow    Appends frames of at most GRAIN bytes, none of which crosses a multiple of GRAIN. A
//           write that is cut at a page, or at a block because the disk is full, is cut between two
//           frames. (The source lies in memory at the same offsets within pages as the bytes in the
//           file.) A file-size limit can cut anywhere, so grow asks for it before it writes. Then
//           cover makes one frame of them.
//   trim    ftruncate at the beginning of the last frame. Atomic by K2.
#define _GNU_SOURCE
#include "store/file_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/format.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/min.h"

#define FREE_MAGIC CT_SKIPPABLE_MAGIC
#define WORD 8u
#define GRAIN 512u                     // no file system has smaller blocks
#define PAGE 4096u                     // no machine has smaller pages
#define GROW_BYTES (64u << 10)         // appended by one write
#define FRAME_MAX (UINT64_C(1) << 31)  // bytes of a span at most: two of them fit into one frame
#define SPANS 4096u                    // in the list
#define RETRY_NS UINT64_C(60000000000) // a file that could not grow tries again after this time

_Static_assert(GRAIN % WORD == 0 && PAGE % GRAIN == 0 && GROW_BYTES % PAGE == 0, "");

#define VERSIONS_SHARE 16u // versions take this part of a bounded file at most

// A part of the file. FREE: one frame of free space. LOOSE: several such frames. CHUNKS: a run of
// chunks. PROVISIONAL: one provisional chunk.
struct span {
    uint64_t at, bytes;
    uint64_t first, last; // seq of its chunks
    unsigned flags;       // of its first chunk
    enum { FREE, LOOSE, CHUNKS, PROVISIONAL } kind;
};

struct seq_range {
    uint64_t first, last;
};
static const struct seq_range NO_RANGE = {UINT64_MAX, 0};

static struct file_ring {
    size_t spans;
    size_t next; // the next chunk goes to this span; `spans`: to the end of the file
    uint64_t end, bound, written;
    uint64_t oldest;          // 1 + seq of the newest chunk that was overwritten
    uint64_t restart_plus_1;  // 1 + seq of the newest restart chunk; 0: there was none
    uint64_t required_plus_1; // the same for the chunk being appended (R7); 0: it needs none
    uint64_t growth_ns;       // the file does not try to grow before this time; 0: it may grow
    int growth_error;
    struct seq_range range[CT_PROTECTED_RANGES];
    struct span span[SPANS];
} s;

void ct_file_ring_reset(uint64_t bound) {
    // Without the spans: a forked child would copy their pages.
    memset(&s, 0, offsetof(struct file_ring, span));
    s.bound = bound ? bound : UINT64_MAX;
    for (size_t i = 0; i < CT_PROTECTED_RANGES; i++)
        s.range[i] = NO_RANGE;
}

// ---- the list of spans ------------------------------------------------------------------------

static int overlaps(const struct span *span, const struct seq_range *r) {
    return span->kind == CHUNKS && span->first <= r->last && r->first <= span->last;
}

static int is_protected(size_t i) {
    return overlaps(&s.span[i], &s.range[CT_PROTECTED_FIRST_OOM]) ||
           overlaps(&s.span[i], &s.range[CT_PROTECTED_LAST_OOM]);
}

static void forget_chunks(const struct span *span) {
    if (span->kind == CHUNKS && span->last >= s.oldest)
        s.oldest = span->last + 1;
}

// Replaces spans [from, to) by the n spans `by`, which cover the same bytes.
static void replace_spans(size_t from, size_t to, const struct span *by, size_t n) {
    CT_ASSERT(from < to && to <= s.spans && s.spans + n - (to - from) <= SPANS);
    CT_ASSERT(by->at == s.span[from].at); // R3
    CT_ASSERT(by[n - 1].at + by[n - 1].bytes == s.span[to - 1].at + s.span[to - 1].bytes);
    memmove(&s.span[from + n], &s.span[to], (s.spans - to) * sizeof *s.span);
    memcpy(&s.span[from], by, n * sizeof *by);
    s.spans += n - (to - from);
}

// Whether b can be joined to a. A span that does not begin with a restart chunk ends before the
// next one, because the list must know where each restart chunk lies.
static int can_join(const struct span *a, const struct span *b, uint64_t limit) {
    for (size_t i = 0; i < CT_PROTECTED_RANGES; i++)
        if (overlaps(a, &s.range[i]) != overlaps(b, &s.range[i]))
            return 0;
    return a->kind == CHUNKS && b->kind == CHUNKS && b->first == a->last + 1 &&
           a->bytes + b->bytes <= limit &&
           (a->flags & CT_CHUNK_RESTART || !(b->flags & CT_CHUNK_RESTART));
}

// Joins neighbouring chunks to spans of at most `limit` bytes. The chunks of a span are overwritten
// together.
static void join_neighbours(uint64_t limit) {
    size_t n = 0, next = 0;
    for (size_t i = 0; i < s.spans; i++) {
        if (i == s.next)
            next = n;
        if (n && i != s.next && can_join(&s.span[n - 1], &s.span[i], limit)) {
            s.span[n - 1].last = s.span[i].last;
            s.span[n - 1].bytes += s.span[i].bytes;
        } else
            s.span[n++] = s.span[i];
    }
    s.next = s.next < s.spans ? next : n;
    s.spans = n;
}

// Makes room for the four spans that an append can add. Spans grow to about a thousandth of the
// file, and further only if that is not enough.
static int make_list_room(void) {
    uint64_t limit = s.end / 1024;
    if (s.spans + 4 <= SPANS)
        return 1;
    for (; s.spans > SPANS / 2 && limit < FRAME_MAX; limit = limit * 2 + 1)
        join_neighbours(limit);
    if (s.spans + 4 > SPANS)
        join_neighbours(FRAME_MAX);
    return s.spans + 4 <= SPANS;
}

// ---- protected chunks -------------------------------------------------------------------------

void ct_file_ring_protect(uint64_t first_seq, uint64_t last_seq, enum ct_protected which) {
    s.range[which] = first_seq <= last_seq ? (struct seq_range){first_seq, last_seq} : NO_RANGE;
}

static uint64_t count_protected_bytes(void) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < s.spans; i++)
        bytes += is_protected(i) ? s.span[i].bytes : 0;
    return bytes;
}

static struct seq_range *find_longer_range(void) {
    uint64_t bytes[CT_PROTECTED_RANGES] = {0};
    for (size_t i = 0; i < s.spans; i++)
        for (size_t k = 0; k < CT_PROTECTED_RANGES; k++)
            bytes[k] += overlaps(&s.span[i], &s.range[k]) ? s.span[i].bytes : 0;
    if (bytes[CT_PROTECTED_LAST_OOM] > bytes[CT_PROTECTED_FIRST_OOM])
        return &s.range[CT_PROTECTED_LAST_OOM];
    return &s.range[CT_PROTECTED_FIRST_OOM];
}

// Takes the oldest restart interval (a restart chunk and the chunks up to the next one) out of the
// longer range. Returns 0 if no chunk is protected.
static int shrink_protection(void) {
    struct seq_range *r = find_longer_range();
    uint64_t to = UINT64_MAX;
    if (!count_protected_bytes())
        return 0;
    for (size_t i = 0; i < s.spans; i++)
        if (overlaps(&s.span[i], r) && s.span[i].flags & CT_CHUNK_RESTART &&
            s.span[i].first > r->first && s.span[i].first < to)
            to = s.span[i].first;
    *r = to < UINT64_MAX ? (struct seq_range){to, r->last} : NO_RANGE;
    return 1;
}

// ---- the steps --------------------------------------------------------------------------------

static int write_at(int fd, uint64_t offset, const uint8_t *data, size_t n) {
    while (n) {
        const ssize_t done = ct_pwrite(fd, data, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        data += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

static int write_word(int fd, uint64_t offset, uint64_t word) {
    CT_ASSERT(offset % WORD == 0); // R2, K1
    return write_at(fd, offset, (const uint8_t *)&word, sizeof word);
}

// The header of a frame of free space, which has `bytes` bytes in all.
static uint64_t free_header(uint64_t bytes) {
    CT_ASSERT(bytes >= WORD && bytes % WORD == 0); // R2
    return FREE_MAGIC | (bytes - WORD) << 32;
}

// Makes one FREE span of spans [from, to), from < to. -EFBIG: the chunk being appended depends on
// one of them (R7). That happens in a file that a full disk keeps small.
static int cover(int fd, size_t from, size_t to) {
    struct span all = {.at = s.span[from].at, .kind = FREE};
    if (to == from + 1 && s.span[from].kind == FREE)
        return 0;
    for (size_t k = from; k < to; k++)
        if (s.span[k].kind == CHUNKS && s.required_plus_1 &&
            s.span[k].last + 1 >= s.required_plus_1)
            return -EFBIG;
    for (size_t k = from; k < to; k++) {
        CT_ASSERT(!is_protected(k)); // R6
        all.bytes += s.span[k].bytes;
    }
    const int rc = write_word(fd, all.at, free_header(all.bytes));
    if (rc)
        return rc;
    for (size_t k = from; k < to; k++)
        forget_chunks(&s.span[k]);
    replace_spans(from, to, &all, 1);
    return 0;
}

// Fills n bytes, which will go to `offset` of the file, with frames that do not cross a multiple of
// GRAIN.
static void fill_with_frames(uint8_t *at, size_t n, uint64_t offset) {
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = ct_min(n - i, GRAIN - (size_t)((offset + i) % GRAIN));
        const uint64_t word = free_header(bytes);
        memcpy(at + i, &word, WORD);
    }
}

// Appends `want` bytes of frames. Returns how many bytes the file has grown by, and sets *rc to 0
// or -errno.
static uint64_t append_frames(int fd, uint64_t want, int *rc) {
    static _Alignas(PAGE) uint8_t frames[GROW_BYTES];
    uint64_t done = 0;
    for (*rc = 0; done < want && !*rc;) {
        const size_t skew = (s.end + done) % PAGE, n = ct_min(want - done, GROW_BYTES - skew);
        fill_with_frames(frames + skew, n, s.end + done);
        const ssize_t wrote = ct_pwrite(fd, frames + skew, n, (off_t)(s.end + done));
        if (wrote > 0)
            done += (uint64_t)wrote;
        else if (wrote == 0 || errno != EINTR)
            *rc = wrote ? -errno : -EIO;
        // The write ended within a frame: cut off its part of that frame.
        if (done < want && (s.end + done) % GRAIN && wrote > 0) {
            const uint64_t cut = (s.end + done) % GRAIN;
            done -= cut < done ? cut : done;
            *rc = ct_ftruncate(fd, (off_t)(s.end + done)) ? -errno : -ENOSPC;
        }
    }
    return done;
}

static int grow(int fd, uint64_t want) {
    struct rlimit limit;
    int rc;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        s.end + want > limit.rlim_cur)
        return -EFBIG;
    const struct span grown = {.at = s.end, .bytes = append_frames(fd, want, &rc), .kind = LOOSE};
    CT_ASSERT(s.spans < SPANS);
    if (grown.bytes)
        s.span[s.spans++] = grown;
    s.end += grown.bytes;
    CT_ASSERT(s.end <= s.bound); // R4
    return rc;
}

// ---- where the next chunk goes ------------------------------------------------------------------

static uint64_t get_growth_room(void) {
    return s.growth_ns || s.end >= s.bound ? 0 : s.bound - s.end;
}

// Whether n bytes can become free space from span i on.
static int fits(size_t i, uint64_t n) {
    uint64_t room = 0;
    for (; i < s.spans && room < n; i++) {
        if (is_protected(i))
            return 0;
        room += s.span[i].bytes;
    }
    return room >= n || n - room <= get_growth_room();
}

// The span after the next protected run, or the first span if there is none.
static size_t skip_protected(size_t i) {
    while (i < s.spans && !is_protected(i))
        i++;
    if (i == s.spans)
        return 0;
    while (i < s.spans && is_protected(i))
        i++;
    return i;
}

static int fits_somewhere(uint64_t n) {
    size_t i = s.next;
    for (int rounds = 0; rounds < 2; rounds += i == 0) {
        if (fits(i, n))
            return 1;
        i = skip_protected(i);
    }
    return 0;
}

// Ends the protection of chunks until at most half of the file is protected and n bytes fit. A file
// that waits for RETRY_NS tries to grow before that.
static int make_fit(uint64_t n) {
    while (count_protected_bytes() > (s.growth_ns ? s.end : s.bound) / 2)
        (void)shrink_protection();
    while (!fits_somewhere(n)) {
        if (s.growth_ns && !s.growth_error)
            s.growth_ns = 0;
        else if (!shrink_protection())
            return s.growth_error ? -ENOSPC : -EFBIG;
    }
    return 0;
}

// Moves s.next to where n bytes fit. Covers the chunks that it skips, because they are older than
// those after them (R5).
static int advance_next(int fd, uint64_t n) {
    while (!fits(s.next, n)) {
        size_t gap_end = s.next;
        while (gap_end < s.spans && !is_protected(gap_end))
            gap_end++;
        const int rc = gap_end > s.next ? cover(fd, s.next, gap_end) : 0;
        if (rc)
            return rc;
        s.next = skip_protected(s.next);
    }
    return 0;
}

// Makes span i one frame of free space of at least n bytes. -EAGAIN: the file could not grow.
static int make_room(int fd, size_t i, uint64_t n) {
    uint64_t room = 0;
    size_t to = i;
    for (; to < s.spans && room < n; to++)
        room += s.span[to].bytes;
    if (room < n) {
        const int rc = grow(fd, n - room);
        if (rc) {
            s.growth_error = -rc;
            return -EAGAIN;
        }
        to = s.spans;
    }
    return cover(fd, i, to);
}

// Puts a chunk into span i, which is free space, after its first `gap` bytes.
static int write_and_commit(int fd, size_t i, uint64_t gap, const struct span *chunk,
                            const uint8_t *data) {
    const uint64_t start = s.span[i].at, at = start + gap;
    CT_ASSERT(s.span[i].kind == FREE && s.span[i].bytes >= gap + chunk->bytes);
    const uint64_t rest = s.span[i].bytes - gap - chunk->bytes;
    struct span spans[3] = {
        {start, gap, 0, 0, 0, FREE}, *chunk, {at + chunk->bytes, rest, 0, 0, 0, FREE}};
    uint64_t word = free_header(gap ? gap : WORD);
    spans[1].at = at;
    int rc = write_at(fd, at + WORD, data + WORD, (size_t)chunk->bytes - WORD);
    if (!rc && rest)
        rc = write_word(fd, at + chunk->bytes, free_header(rest));
    if (!rc && gap)
        rc = write_at(fd, at, data, WORD);
    else
        memcpy(&word, data, WORD);
    if (rc || (rc = write_word(fd, start, word)))
        return rc;
    replace_spans(i, i + 1, gap ? spans : spans + 1, 1u + (gap != 0) + (rest != 0));
    s.written += chunk->bytes;
    return 0;
}

// ---- versions of the chunk that is appended next ------------------------------------------------

static uint64_t get_place(size_t i) {
    return i < s.spans ? s.span[i].at : s.end;
}

// The newest version; s.spans: there is none (R8).
static size_t find_version(void) {
    size_t found = s.spans;
    for (size_t i = s.next; i < s.spans; i++) {
        if (s.span[i].kind == PROVISIONAL)
            found = i;
        else if (s.span[i].kind != FREE)
            break;
    }
    return found;
}

// Where the next version goes.
static size_t find_version_place(void) {
    const size_t newest = find_version();
    return newest < s.spans ? newest + 1 : s.next;
}

// Puts a version after the others, at least `distance` bytes after the start of s.next.
static int put_version(int fd, const uint8_t *data, uint64_t n, uint64_t distance) {
    const size_t i = find_version_place();
    const uint64_t least = get_place(s.next) + distance, at = get_place(i);
    const uint64_t gap = least > at ? least - at : 0;
    const struct span version = {.bytes = n, .kind = PROVISIONAL};
    int rc = fits(i, gap + n) ? make_room(fd, i, gap + n) : -ENOSPC;
    rc = rc ? rc : write_and_commit(fd, i, gap, &version, data);
    if (!rc && i + (gap != 0) > s.next)
        (void)cover(fd, s.next, i + (gap != 0)); // if it fails, the next version covers it, too
    s.growth_error = 0;
    return rc == -EAGAIN ? -ENOSPC : rc;
}

// Makes free space of all versions. `*first` becomes the span with the first of them and the free
// space in front of it; it is unchanged if there are none.
static int cover_versions(int fd, size_t *first) {
    for (size_t i = s.spans; i-- > 0;) {
        size_t from = i;
        if (s.span[i].kind != PROVISIONAL)
            continue;
        while (from && s.span[from - 1].kind == FREE)
            from--;
        const int rc = cover(fd, from, i + 1);
        if (rc)
            return rc;
        s.next -= s.next > i ? i - from : 0;
        *first = i = from;
    }
    return 0;
}

int ct_file_ring_put_provisional(int fd, const void *data, size_t n) {
    const uint64_t most = s.growth_ns ? s.end : s.bound;
    CT_ASSERT(n % CT_CHUNK_ALIGN == 0 && n > WORD); // R2
    s.required_plus_1 = s.restart_plus_1;
    if (!make_list_room())
        return -ENOMEM;
    const uint64_t versions = get_place(find_version_place()) - get_place(s.next);
    return versions + n > most / VERSIONS_SHARE ? -ENOSPC : put_version(fd, data, n, 0);
}

int ct_file_ring_drop_provisional(int fd) {
    return cover_versions(fd, &s.next);
}

// ---- appending ----------------------------------------------------------------------------------

static int append(int fd, const uint8_t *data, size_t n, uint64_t seq, unsigned flags) {
    int rc;
    if (s.growth_ns && ct_clock_read() >= s.growth_ns)
        s.growth_ns = 0;
    do {
        if (!make_list_room())
            return -ENOMEM;
        rc = make_fit(n);
        rc = rc ? rc : advance_next(fd, n);
        rc = rc ? rc : make_room(fd, s.next, n);
        if (rc == -EAGAIN) // it will not try again before that time
            s.growth_ns = ct_clock_read() + RETRY_NS;
    } while (rc == -EAGAIN);
    const struct span chunk = {rc ? 0 : s.span[s.next].at, n, seq, seq, flags, CHUNKS};
    if (rc || (rc = write_and_commit(fd, s.next, 0, &chunk, data)))
        return rc;
    s.next++;
    if (flags & CT_CHUNK_RESTART)
        s.restart_plus_1 = seq + 1;
    return 0;
}

// Makes sure that the chunk does not overwrite its newest version (R9).
static void step_over_versions(int fd, const uint8_t *data, size_t n) {
    if (get_place(find_version()) - get_place(s.next) < n &&
        (!make_list_room() || put_version(fd, data, n, n)))
        s.next = find_version_place();
}

int ct_file_ring_append(int fd, const void *data, size_t n, uint64_t seq, unsigned flags) {
    size_t first;
    s.growth_error = 0;
    s.required_plus_1 = flags & CT_CHUNK_RESTART ? 0 : s.restart_plus_1;
    if (n % CT_CHUNK_ALIGN || n <= WORD)
        return -EINVAL;
    if (n > FRAME_MAX || n > s.bound)
        return -EFBIG;
    if (find_version() == s.spans)
        return append(fd, data, n, seq, flags);
    step_over_versions(fd, data, n);
    int rc = append(fd, data, n, seq, flags);
    if (rc == -EFBIG && !ct_file_ring_drop_provisional(fd)) // they take the room that it needs
        rc = append(fd, data, n, seq, flags);
    else if (!rc)
        (void)cover_versions(fd, &first);
    return rc;
}

// ---- what other programs did to the file --------------------------------------------------------

int ct_file_ring_adopt_size(int fd, uint64_t size) {
    int lost = 0;
    if (size == s.end)
        return 0;
    while (s.end > size) {
        s.end = s.span[--s.spans].at;
        lost |= s.span[s.spans].kind == CHUNKS;
        forget_chunks(&s.span[s.spans]);
    }
    s.next = s.next < s.spans ? s.next : s.spans;
    return size != s.end && ct_ftruncate(fd, (off_t)s.end) ? -errno : lost;
}

int ct_file_ring_trim(int fd) {
    size_t n = s.spans;
    while (n && s.span[n - 1].kind != CHUNKS)
        n--;
    if (n == s.spans)
        return 0;
    if (ct_ftruncate(fd, (off_t)s.span[n].at))
        return -errno;
    s.end = s.span[n].at;
    s.spans = n;
    s.next = s.next < n ? s.next : n;
    return 0;
}

int ct_file_ring_get_growth_error(void) {
    return s.growth_error;
}

uint64_t ct_file_ring_get_oldest_seq(void) {
    return s.oldest;
}

uint64_t ct_file_ring_get_written_bytes(void) {
    return s.written;
}

uint64_t ct_file_ring_get_capacity(void) {
    if (s.growth_ns)
        return s.end;
    return s.bound == UINT64_MAX ? 0 : s.bound;
}

uint64_t ct_file_ring_get_size(void) {
    return s.end;
}
