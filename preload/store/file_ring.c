// SPDX-License-Identifier: Apache-2.0
// Where chunks lie in the trace file: a ring of bounded size that is a valid .zst at every instant.
//
// What the kernel promises. A process that is killed inside of pwrite(2) leaves a beginning of the bytes in the file: the
// kernel looks for a fatal signal before each page that it copies, never within one. A source page that was swapped out
// in the meantime can cut the copy short as well, at a boundary of that page. So a write is all or nothing if its bytes
// lie within one page of the file and within one page of memory: a word of 8 bytes at a multiple of 8, from a variable
// of 8 bytes. ftruncate(2) is all or nothing. (A crash of the machine is another matter: then pages reach the disk in
// any order.)
//
// What the file is. At every instant it is a sequence of zstd frames from 0 to its end: chunks, and skippable frames of
// FREE_MAGIC that cover free space, all at multiples of 8. A list of spans in memory mirrors it: each is free space or a
// run of chunks. The steps that change it, and why it is such a sequence after each and after a part of each:
//
//   cover   One word at p, the header of a frame that ends where the last victim ended: the frames from p to there
//           become its content, by a write that is all or nothing.
//   write   p begins one frame that ends at q >= p + n. All of the chunk but its first 8 bytes goes to p + 8, and if n <
//           q - p, the header of the frame that will cover [p + n, q) goes to p + n: all of it within the content of
//           the frame at p, where anything may stand.
//   commit  One word at p, the chunk's first 8 bytes. They begin the chunk's first frame; the others follow it as far as
//           p + n, and the frame that covers the rest up to q. The rest is 0 or at least 8 bytes, a header's size,
//           because all are multiples of 8.
//   grow    The file ends with a frame at e. Frames of at most GRAIN bytes are appended, none of which crosses a multiple
//           of GRAIN; a write that is cut at a page, or by a full disk at a block, is cut between two of them. (For this the
//           source lies in memory as the bytes will in the file's pages.) A file-size limit may cut anywhere, so it
//           is asked for first. Then cover makes one frame of them.
//   trim    ftruncate at the beginning of the last frame.
//
// After a failed step the list says what the file then is, and the next append begins from there.
#define _GNU_SOURCE
#include "store/file_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cutrace/format/format.h>

#include "base/clock.h"

#define FREE_MAGIC CT_SKIPPABLE_MAGIC
#define WORD 8u
#define GRAIN 512u // no file system has smaller blocks
#define PAGE 4096u // no machine has smaller pages
#define GROW_BYTES (64u << 10)
#define FRAME_MAX (UINT64_C(1) << 31) // of a span's bytes; two of them fit in one frame
#define SPANS 4096u
#define RETRY_NS UINT64_C(60000000000) // until the file that could not grow is let try again

_Static_assert(GRAIN % WORD == 0 && PAGE % GRAIN == 0 && GROW_BYTES % PAGE == 0, "");

struct span {
    uint64_t at, bytes;
    uint64_t first, last;              // numbers of its chunks
    unsigned flags;                    // of its first chunk
    enum { FREE, LOOSE, CHUNKS } kind; // one frame; several frames that are free; chunks
};

struct range {
    uint64_t first, last;
};
static const struct range NOTHING = {UINT64_MAX, 0};

static struct store {
    size_t spans;
    size_t next; // where the next chunk goes: a span's number, or `spans`: to the end
    uint64_t end, bound, written;
    uint64_t oldest;    // behind the newest chunk that was dropped
    uint64_t segment;   // the newest SEGMENT chunk's number + 1; 0: there was none
    uint64_t needed;    // by the chunk that is being put: those from this one on, + 1; 0: none
    uint64_t growth_ns; // the file does not grow before
    int refused;
    struct range pin[CT_PROTECTED_RANGES];
    struct span span[SPANS]; // in the order of the file, without gaps
} s;

void ct_file_ring_reset(uint64_t bound) {
    memset(&s, 0, offsetof(struct store, span)); // a forked child need not copy the rest
    s.bound = bound ? bound : UINT64_MAX;
    for (size_t i = 0; i < CT_PROTECTED_RANGES; i++)
        s.pin[i] = NOTHING;
}

// ---- the list of spans ------------------------------------------------------------------------

static int overlaps(const struct span *span, const struct range *r) {
    return span->kind == CHUNKS && span->first <= r->last && r->first <= span->last;
}

static int pinned(size_t i) {
    return overlaps(&s.span[i], &s.pin[CT_PROTECTED_FIRST_OOM]) || overlaps(&s.span[i], &s.pin[CT_PROTECTED_LAST_OOM]);
}

static void drop(const struct span *span) {
    if (span->kind == CHUNKS && span->last >= s.oldest)
        s.oldest = span->last + 1;
}

// Spans [from, to) become `by`.
static void replace(size_t from, size_t to, const struct span *by, size_t n) {
    memmove(&s.span[from + n], &s.span[to], (s.spans - to) * sizeof *s.span);
    memcpy(&s.span[from], by, n * sizeof *by);
    s.spans += n - (to - from);
}

// Whether b may be counted to a. A run that begins in the middle of a segment ends with it: where the next one begins
// must stay known.
static int joins(const struct span *a, const struct span *b, uint64_t limit) {
    for (size_t i = 0; i < CT_PROTECTED_RANGES; i++)
        if (overlaps(a, &s.pin[i]) != overlaps(b, &s.pin[i]))
            return 0;
    return a->kind == CHUNKS && b->kind == CHUNKS && b->first == a->last + 1 &&
           a->bytes + b->bytes <= limit &&
           (a->flags & CT_CHUNK_RESTART || !(b->flags & CT_CHUNK_RESTART));
}

// Many small chunks: from now on neighbours are dropped together, about a thousandth of the file at once.
static void join_neighbours(uint64_t limit) {
    size_t n = 0, next = 0;
    for (size_t i = 0; i < s.spans; i++) {
        if (i == s.next)
            next = n;
        if (n && i != s.next && joins(&s.span[n - 1], &s.span[i], limit)) {
            s.span[n - 1].last = s.span[i].last;
            s.span[n - 1].bytes += s.span[i].bytes;
        } else
            s.span[n++] = s.span[i];
    }
    s.next = s.next < s.spans ? next : n;
    s.spans = n;
}

static int list_has_room(void) {
    uint64_t limit = s.end / 1024;
    if (s.spans + 2 <= SPANS)
        return 1;
    for (; s.spans > SPANS / 2 && limit < FRAME_MAX; limit = limit * 2 + 1)
        join_neighbours(limit);
    if (s.spans + 2 > SPANS)
        join_neighbours(FRAME_MAX);
    return s.spans + 2 <= SPANS;
}

// ---- pinned chunks ----------------------------------------------------------------------------

void ct_file_ring_protect(uint64_t first_seq, uint64_t last_seq, enum ct_protected which) {
    s.pin[which] = first_seq <= last_seq ? (struct range){first_seq, last_seq} : NOTHING;
}

static uint64_t pinned_bytes(void) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < s.spans; i++)
        bytes += pinned(i) ? s.span[i].bytes : 0;
    return bytes;
}

static struct range *longer_range(void) {
    uint64_t bytes[CT_PROTECTED_RANGES] = {0};
    for (size_t i = 0; i < s.spans; i++)
        for (size_t k = 0; k < CT_PROTECTED_RANGES; k++)
            bytes[k] += overlaps(&s.span[i], &s.pin[k]) ? s.span[i].bytes : 0;
    return &s.pin[bytes[CT_PROTECTED_LAST_OOM] > bytes[CT_PROTECTED_FIRST_OOM] ? CT_PROTECTED_LAST_OOM : CT_PROTECTED_FIRST_OOM];
}

// The first segment of the longer range. Returns whether there was anything to let go.
static int let_go(void) {
    struct range *r = longer_range();
    uint64_t to = UINT64_MAX;
    if (!pinned_bytes())
        return 0;
    for (size_t i = 0; i < s.spans; i++)
        if (overlaps(&s.span[i], r) && s.span[i].flags & CT_CHUNK_RESTART &&
            s.span[i].first > r->first && s.span[i].first < to)
            to = s.span[i].first;
    *r = to < UINT64_MAX ? (struct range){to, r->last} : NOTHING;
    return 1;
}

// ---- the steps --------------------------------------------------------------------------------

static int write_at(int fd, uint64_t offset, const uint8_t *data, size_t n) {
    while (n) {
        const ssize_t done = pwrite(fd, data, n, (off_t)offset);
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
    return write_at(fd, offset, (const uint8_t *)&word, sizeof word);
}

static uint64_t free_header(uint64_t bytes) {
    return FREE_MAGIC | (bytes - WORD) << 32;
}

// Makes one free span of spans [i, behind), i < behind. -EFBIG: what is to be put there could not be read without them (in a
// file as small as a full disk may leave).
static int cover(int fd, size_t i, size_t behind) {
    struct span all = {.at = s.span[i].at, .kind = FREE};
    if (behind == i + 1 && s.span[i].kind == FREE)
        return 0;
    for (size_t k = i; k < behind; k++)
        if (s.span[k].kind == CHUNKS && s.needed && s.span[k].last + 1 >= s.needed)
            return -EFBIG;
    for (size_t k = i; k < behind; k++)
        all.bytes += s.span[k].bytes;
    const int rc = write_word(fd, all.at, free_header(all.bytes));
    if (rc)
        return rc;
    for (size_t k = i; k < behind; k++)
        drop(&s.span[k]);
    replace(i, behind, &all, 1);
    return 0;
}

static size_t least(uint64_t a, size_t b) {
    return a < b ? (size_t)a : b;
}

// Fills bytes that will stand at `offset` of the file with frames that do not cross a multiple of GRAIN.
static void put_frames(uint8_t *at, size_t n, uint64_t offset) {
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = least(n - i, GRAIN - (size_t)((offset + i) % GRAIN));
        const uint64_t word = free_header(bytes);
        memcpy(at + i, &word, WORD);
    }
}

// Appends frames. Returns how much of them is in the file.
static uint64_t append_frames(int fd, uint64_t want, int *rc) {
    static _Alignas(PAGE) uint8_t frames[GROW_BYTES];
    uint64_t done = 0;
    for (*rc = 0; done < want && !*rc;) {
        const size_t skew = (s.end + done) % PAGE, n = least(want - done, GROW_BYTES - skew);
        put_frames(frames + skew, n, s.end + done);
        const ssize_t wrote = pwrite(fd, frames + skew, n, (off_t)(s.end + done));
        if (wrote > 0)
            done += (uint64_t)wrote;
        else if (wrote == 0 || errno != EINTR)
            *rc = wrote ? -errno : -EIO;
        if (done < want && (s.end + done) % GRAIN && wrote > 0) { // in the middle of a frame
            const uint64_t cut = (s.end + done) % GRAIN;
            done -= cut < done ? cut : done;
            *rc = ftruncate(fd, (off_t)(s.end + done)) ? -errno : -ENOSPC;
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
    if (grown.bytes)
        s.span[s.spans++] = grown;
    s.end += grown.bytes;
    return rc;
}

// ---- where the next chunk goes ------------------------------------------------------------------

static uint64_t room_to_grow(void) {
    return s.growth_ns || s.end >= s.bound ? 0 : s.bound - s.end;
}

// Whether n bytes can be made free from span i on.
static int fits(size_t i, uint64_t n) {
    uint64_t room = 0;
    for (; i < s.spans && room < n; i++) {
        if (pinned(i))
            return 0;
        room += s.span[i].bytes;
    }
    return room >= n || n - room <= room_to_grow();
}

// Behind the next pinned run, or at the start of the file.
static size_t place_behind(size_t i) {
    while (i < s.spans && !pinned(i))
        i++;
    if (i == s.spans)
        return 0;
    while (i < s.spans && pinned(i))
        i++;
    return i;
}

static int fits_somewhere(uint64_t n) {
    size_t i = s.next;
    for (int starts = 0; starts < 2; starts += i == 0) {
        if (fits(i, n))
            return 1;
        i = place_behind(i);
    }
    return 0;
}

// Lets pinned chunks go until no more than half of the file is pinned and n bytes fit. A file that may not grow now
// does if nothing else helps.
static int allow(uint64_t n) {
    while (pinned_bytes() > (s.growth_ns ? s.end : s.bound) / 2)
        (void)let_go();
    while (!fits_somewhere(n)) {
        if (s.growth_ns && !s.refused)
            s.growth_ns = 0;
        else if (!let_go())
            return s.refused ? -ENOSPC : -EFBIG;
    }
    return 0;
}

// Moves the place for the next chunk to where n bytes fit. What is jumped over is older than what comes behind it, so
// it goes as well.
static int move_on(int fd, uint64_t n) {
    while (!fits(s.next, n)) {
        size_t gap = s.next;
        while (gap < s.spans && !pinned(gap))
            gap++;
        const int rc = gap > s.next ? cover(fd, s.next, gap) : 0;
        if (rc)
            return rc;
        s.next = place_behind(s.next);
    }
    return 0;
}

// Makes s.next one free frame of at least n bytes.
static int make_room(int fd, uint64_t n) {
    uint64_t room = 0;
    size_t behind = s.next;
    for (; behind < s.spans && room < n; behind++)
        room += s.span[behind].bytes;
    if (room < n) {
        const int rc = grow(fd, n - room);
        if (rc) {
            s.growth_ns = ct_clock_read() + RETRY_NS;
            s.refused = -rc;
            return -EAGAIN;
        }
        behind = s.spans;
    }
    return cover(fd, s.next, behind);
}

static int write_and_commit(int fd, const struct span *chunk, const uint8_t *data) {
    const uint64_t rest = s.span[s.next].bytes - chunk->bytes;
    uint64_t first_word;
    memcpy(&first_word, data, WORD);
    int rc = write_at(fd, chunk->at + WORD, data + WORD, (size_t)chunk->bytes - WORD);
    if (!rc && rest)
        rc = write_word(fd, chunk->at + chunk->bytes, free_header(rest));
    return rc ? rc : write_word(fd, chunk->at, first_word);
}

int ct_file_ring_append(int fd, const void *data, size_t n, uint64_t seq, unsigned flags) {
    int rc;
    s.refused = 0;
    s.needed = flags & CT_CHUNK_RESTART ? 0 : s.segment;
    if (n % CT_CHUNK_ALIGN || n <= WORD)
        return -EINVAL;
    if (n > FRAME_MAX || n > s.bound)
        return -EFBIG;
    if (s.growth_ns && ct_clock_read() >= s.growth_ns)
        s.growth_ns = 0;
    do {
        if (!list_has_room())
            return -ENOMEM;
        rc = allow(n);
        rc = rc ? rc : move_on(fd, n);
        rc = rc ? rc : make_room(fd, n);
    } while (rc == -EAGAIN); // it did not grow, and does not try again
    if (rc)
        return rc;
    struct span spans[2] = {{s.span[s.next].at, n, seq, seq, flags, CHUNKS},
                            {s.span[s.next].at + n, s.span[s.next].bytes - n, 0, 0, 0, FREE}};
    if ((rc = write_and_commit(fd, &spans[0], data)))
        return rc;
    replace(s.next, s.next + 1, spans, spans[1].bytes ? 2 : 1);
    s.next++;
    s.written += n;
    s.segment = flags & CT_CHUNK_RESTART ? seq + 1 : s.segment;
    return 0;
}

// ---- the file from outside ----------------------------------------------------------------------

int ct_file_ring_adopt_size(int fd, uint64_t size) {
    int lost = 0;
    if (size == s.end)
        return 0;
    while (s.end > size) {
        s.end = s.span[--s.spans].at;
        lost |= s.span[s.spans].kind == CHUNKS;
        drop(&s.span[s.spans]);
    }
    s.next = s.next < s.spans ? s.next : s.spans;
    return size != s.end && ftruncate(fd, (off_t)s.end) ? -errno : lost;
}

int ct_file_ring_trim(int fd) {
    size_t n = s.spans;
    while (n && s.span[n - 1].kind != CHUNKS)
        n--;
    if (n == s.spans)
        return 0;
    if (ftruncate(fd, (off_t)s.span[n].at))
        return -errno;
    s.end = s.span[n].at;
    s.spans = n;
    s.next = s.next < n ? s.next : n;
    return 0;
}

int ct_file_ring_get_growth_error(void) {
    return s.refused;
}

uint64_t ct_file_ring_get_oldest_seq(void) {
    return s.oldest;
}

uint64_t ct_file_ring_get_written_bytes(void) {
    return s.written;
}

uint64_t ct_file_ring_get_capacity(void) {
    return s.growth_ns ? s.end : s.bound == UINT64_MAX ? 0 : s.bound;
}

uint64_t ct_file_ring_get_size(void) {
    return s.end;
}
