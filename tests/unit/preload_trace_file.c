// SPDX-License-Identifier: Apache-2.0
// The trace file as a ring: after every part of every system call it is a valid .zst and has each
// chunk that it should have. The file is simulated here, and its writes can be cut and can fail.
// Real files are killed, filled, truncated and deleted at the end.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zstd.h>

#include <cutrace/format/format.h>
#include <cutrace/format/xxh64.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "base/options.h"
#include "base/print.h"
#include "base/signal_guard.h"
#include "store/chunk_encode.h"
#include "store/file_ring.h"
#include "store/trace_file.h"

#define MANY 200000u // chunks of a test
#define FILE_BYTES (4u << 20)
#define KIB UINT64_C(1024)

// ---- what a reader sees ---------------------------------------------------------------------

struct seen {
    uint64_t seq[MANY]; // in the order of the file
    size_t chunks;
    uint64_t bytes; // of chunks
    int twice;      // chunks that are there once more
    // Provisional chunks apart.
    uint64_t version_seq[16], version_raw[16];
    size_t versions;
};

static uint32_t u32(const uint8_t *at) {
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

// Bodies that were decompressed and have not been written to since are not looked at again: sizes
// by place / 8.
static uint32_t known[FILE_BYTES / 8];
static size_t longest;

static void forget(size_t at, size_t n) {
    const size_t from = at > longest ? at - longest : 0;
    memset(&known[from / 8], 0, ((at + n - from) / 8 + 1) * sizeof *known);
}

// The body of a chunk is its number, over and over.
static int body_is(const uint8_t *body, size_t n, uint64_t seq) {
    for (size_t i = 0; i + 8 <= n; i += 8)
        if (memcmp(body + i, &seq, 8) != 0)
            return 0;
    return 1;
}

static const char *read_chunk(const uint8_t *at, size_t n, struct seen *seen, uint32_t *know,
                              size_t *bytes) {
    static uint8_t raw[1 << 20];
    struct ct_chunk head;
    memcpy(&head, at + 8, sizeof head);
    const uint8_t *body = at + CT_PREFIX_BYTES;
    if (u32(at + 4) != sizeof head || memcmp(head.magic, CT_CHUNK_MAGIC, 8) != 0 ||
        head.checksum != ct_xxh64(&head, offsetof(struct ct_chunk, checksum)))
        return "a damaged prefix";
    if (n < CT_PREFIX_BYTES + head.body_bytes + 8)
        return "a cut chunk";
    const uint8_t *filler = body + head.body_bytes;
    if (*know != head.body_bytes &&
        (ZSTD_findFrameCompressedSize(body, head.body_bytes) != head.body_bytes ||
         ZSTD_decompress(raw, sizeof raw, body, head.body_bytes) != head.raw_bytes ||
         !body_is(raw, head.raw_bytes, head.seq)))
        return "a damaged body";
    if (u32(filler) != CT_FILLER_MAGIC || u32(filler + 4) > 7)
        return "a damaged filler";
    *know = (uint32_t)head.body_bytes;
    *bytes = CT_PREFIX_BYTES + head.body_bytes + 8 + u32(filler + 4);
    if (head.flags & CT_CHUNK_PROVISIONAL) {
        assert_true(seen->versions < 16);
        seen->version_seq[seen->versions] = head.seq;
        seen->version_raw[seen->versions++] = head.raw_bytes;
        return NULL;
    }
    assert_true(seen->chunks < MANY);
    seen->seq[seen->chunks++] = head.seq;
    seen->bytes += *bytes;
    return NULL;
}

// NULL, or what is wrong with the file.
static const char *read_file(const uint8_t *file, size_t n, struct seen *seen) {
    const char *wrong = NULL;
    seen->chunks = seen->versions = 0;
    seen->bytes = 0;
    for (size_t at = 0, bytes; at < n && !wrong; at += bytes) {
        if (n - at < 8)
            return "less than a header at the end";
        bytes = 8 + (size_t)u32(file + at + 4);
        if (u32(file + at) == CT_PREFIX_MAGIC && n - at >= CT_PREFIX_BYTES)
            wrong = read_chunk(file + at, n - at, seen, &known[at / 8], &bytes);
        else if (u32(file + at) != CT_SKIPPABLE_MAGIC)
            return "no frame where one should begin";
        if (bytes > n - at)
            return "a cut frame";
        if (bytes % 8)
            return "a frame that is not aligned";
    }
    return wrong;
}

// The zstd program's own word.
static void zstd_agrees(const uint8_t *file, size_t n) {
    char path[] = "/tmp/cutrace-output-XXXXXX", command[100];
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, file, n), (ssize_t)n);
    close(fd);
    (void)snprintf(command, sizeof command, "zstd -tq %s", path);
    const int status = n ? system(command) : 0; // nothing is no .zst
    unlink(path);
    assert_int_equal(status, 0);
}

// ---- a simulated file -----------------------------------------------------------------------

static struct {
    int fd; // stands for it
    uint8_t *bytes;
    size_t size, disk, block; // the disk ends, at a multiple of `block`
    unsigned faults;          // of 1000 calls
    uint64_t now;
    uint64_t written;   // bytes of all calls
    void (*look)(void); // after each part of each call
} file = {.fd = -1};

ssize_t __real_ct_pwrite(int fd, const void *data, size_t n, off_t offset);
ssize_t __wrap_ct_pwrite(int fd, const void *data, size_t n, off_t offset);
int __real_ct_ftruncate(int fd, off_t size);
int __wrap_ct_ftruncate(int fd, off_t size);
uint64_t __real_ct_clock_read(void);
uint64_t __wrap_ct_clock_read(void);

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// Bytes of a write that get into the file; sets errno if they are not all.
static size_t taken(size_t at, size_t n) {
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    size_t end = at + n;
    if (file.faults && draw(1000) < file.faults) {
        errno = errors[draw(3)];
        end = at + draw(n + 1);
        end = end % file.block && end > at ? end - least(end % file.block, end - at) : end;
        return end - at;
    }
    if (end > file.size && end > file.disk) {
        errno = ENOSPC;
        end = file.disk > at ? file.disk : at;
    }
    return end - at;
}

// A kill leaves what was copied up to a page of the file, or of the source.
ssize_t __wrap_ct_pwrite(int fd, const void *data, size_t n, off_t offset) {
    if (fd != file.fd)
        return __real_ct_pwrite(fd, data, n, offset);
    const size_t at = (size_t)offset, whole = taken(at, n);
    assert_true(at <= file.size && at + n <= FILE_BYTES);
    file.written += whole;
    for (size_t i = 0, part; i < whole; i += part) {
        const size_t to_page = 4096 - (at + i) % 4096;
        const size_t to_source_page = 4096 - ((uintptr_t)data + i) % 4096;
        part = least(whole - i, least(to_page, to_source_page));
        forget(at + i, part);
        memcpy(file.bytes + at + i, (const uint8_t *)data + i, part);
        file.size = file.size > at + i + part ? file.size : at + i + part;
        if (i + part < whole && file.look)
            file.look();
    }
    // A disk that is cut within a frame leaves half of one until the next call.
    if (file.look && (whole == n || file.size % 512 == 0))
        file.look();
    return whole || !n ? (ssize_t)whole : -1;
}

int __wrap_ct_ftruncate(int fd, off_t size) {
    if (fd != file.fd)
        return __real_ct_ftruncate(fd, size);
    if (file.faults && draw(1000) < file.faults) {
        errno = EIO;
        return -1;
    }
    assert_true((size_t)size <= file.size);
    forget((size_t)size, file.size - (size_t)size);
    file.size = (size_t)size;
    if (file.look)
        file.look();
    return 0;
}

uint64_t __wrap_ct_clock_read(void) {
    return file.fd >= 0 ? file.now : __real_ct_clock_read();
}

static void new_file(uint64_t bound) {
    if (!file.bytes)
        file.bytes =
            mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    file.fd = 1000000; // none that is open
    memset(known, 0, sizeof known);
    file.size = 0;
    file.disk = FILE_BYTES;
    file.block = 4096;
    file.faults = 0;
    file.now = 1;
    file.written = 0;
    file.look = NULL;
    ct_file_ring_reset(bound);
}

// ---- a model of what it must hold -----------------------------------------------------------

static struct {
    uint64_t next; // the number of the chunk that is being put, or of the next one
    uint8_t there[MANY], ever_pinned[MANY], was_put[MANY];
    uint64_t pin_first[CT_PROTECTED_RANGES], pin_last[CT_PROTECTED_RANGES];
    uint64_t parts; // of calls that were looked at
    // The newest version of the chunk `next` that is in the file, by its size; 0: there is none.
    uint64_t version;
    int had_faults;
} model;

static struct seen seen;
static uint8_t now[MANY]; // which chunks were seen last

static void new_model(uint64_t bound) {
    memset(&model, 0, sizeof model);
    longest = 0;
    for (int i = 0; i < CT_PROTECTED_RANGES; i++)
        model.pin_first[i] = 1;
    new_file(bound);
}

static int is_pinned(uint64_t seq) {
    for (int i = 0; i < CT_PROTECTED_RANGES; i++)
        if (seq >= model.pin_first[i] && seq <= model.pin_last[i])
            return 1;
    return 0;
}

static size_t chunk_of(uint8_t *chunk, uint64_t seq, size_t body, unsigned flags) {
    static uint8_t raw[1 << 20];
    struct ct_chunk head = {.seq = seq, .dict_seq = seq, .flags = flags, .trace_id = 7};
    body &= ~(size_t)7;
    for (size_t i = 0; i < body; i += 8)
        memcpy(raw + i, &seq, 8);
    // A frame of stored blocks by hand: its size is to be what was asked for. RFC 8878, 3.1.1.
    uint8_t *at = chunk + CT_PREFIX_BYTES;
    static const uint8_t begin[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe4};
    const uint64_t content = body, sum = ct_xxh64(raw, body);
    memcpy(at, begin, sizeof begin);
    memcpy(at + 5, &content, 8);
    at += 13;
    for (size_t i = 0, n; i < body || !body; i += n) {
        n = least(body - i, 100000);
        const uint32_t block = (uint32_t)n << 3 | (i + n == body);
        memcpy(at, &block, 3);
        memcpy(at + 3, raw + i, n);
        at += 3 + n;
        if (!body)
            break;
    }
    memcpy(at, &sum, 4);
    at += 4;
    memcpy(head.magic, CT_CHUNK_MAGIC, 8);
    head.version = 1;
    head.header_bytes = sizeof head;
    head.body_bytes = (uint64_t)(at - chunk) - CT_PREFIX_BYTES;
    head.raw_bytes = body;
    ct_chunk_encode_prefix(&head, chunk);
    const uint32_t filler[2] = {CT_FILLER_MAGIC, (uint32_t)(-head.body_bytes & 7)};
    memcpy(at, filler, 8);
    memset(at + 8, 0, 8);
    const size_t n = (size_t)(at - chunk) + 8 + filler[1];
    longest = n > longest ? n : longest;
    return n;
}

// What was in the file of the chunk that is being put is there, and a version counts only as long
// as its chunk is not.
static void look_at_versions(void) {
    uint64_t newest = now[model.next] ? UINT64_MAX : 0;
    for (size_t i = 0; i < seen.versions; i++) {
        const uint64_t seq = seen.version_seq[i];
        assert_true(seq == model.next || (seq < model.next && now[seq]));
        if (seq == model.next && seen.version_raw[i] > newest)
            newest = seen.version_raw[i];
    }
    if (newest < model.version)
        fail_msg("chunk %lu, part %lu: a version of %lu bytes is gone", (unsigned long)model.next,
                 (unsigned long)model.parts, (unsigned long)model.version);
}

// The chunk that replaces its versions may be there twice, after a fault also later.
static int is_twice(uint64_t seq) {
    model.had_faults |= file.faults != 0;
    return model.had_faults || (seq == model.next && model.version);
}

// The file as it would be found after a kill: valid, with every chunk once, and none missing but
// the oldest.
static void look(void) {
    const char *wrong = read_file(file.bytes, file.size, &seen);
    model.parts++;
    if (wrong)
        fail_msg("chunk %lu, part %lu: %s", (unsigned long)model.next, (unsigned long)model.parts,
                 wrong);
    memset(now, 0, model.next + 1);
    seen.twice = 0;
    for (size_t i = 0; i < seen.chunks; i++) {
        const uint64_t seq = seen.seq[i];
        assert_true(seq <= model.next && (seq == model.next || model.there[seq]));
        assert_false(now[seq] && !is_twice(seq));
        seen.twice += now[seq];
        now[seq] = 1;
    }
    look_at_versions();
    int kept = 0; // a chunk that may be overwritten was kept: no younger one may be missing
    for (uint64_t seq = 0; seq < model.next; seq++) {
        if (!model.there[seq]) // gone before
            continue;
        if (!now[seq] && (is_pinned(seq) || kept))
            fail_msg("chunk %lu is missing while %lu is put", (unsigned long)seq,
                     (unsigned long)model.next);
        kept |= now[seq] && !model.ever_pinned[seq];
        model.there[seq] = now[seq];
    }
    if (model.parts % 5000 == 0)
        zstd_agrees(file.bytes, file.size);
}

static int put(size_t body, unsigned flags) {
    static uint8_t chunk[1 << 20];
    const size_t n = chunk_of(chunk, model.next, body, flags);
    const int rc = ct_file_ring_append(file.fd, chunk, n, model.next, flags);
    look();
    assert_true(now[model.next] ? !rc || model.version || file.faults : rc != 0);
    if (!rc) {
        model.there[model.next] = 1;
        model.ever_pinned[model.next] |= (uint8_t)is_pinned(model.next);
        model.next++;
        model.version = 0;
    }
    return rc;
}

// A version of the chunk that is put next.
static int put_version(size_t body) {
    static uint8_t chunk[1 << 20];
    const size_t n = chunk_of(chunk, model.next, body, CT_CHUNK_PROVISIONAL);
    const int rc = ct_file_ring_put_provisional(file.fd, chunk, n);
    look();
    assert_false(now[model.next]);
    if (!rc)
        model.version = body & ~(size_t)7;
    return rc;
}

// Versions of a chunk and then the chunk, each as large as the one before or larger. Returns how
// often the chunk failed.
static int put_in_versions(size_t most, unsigned flags, int *versions) {
    int failed = 0;
    size_t body = draw(most / 2) + 8;
    for (size_t i = draw(4); i > 0; i--) {
        *versions += !put_version(body);
        if (draw(4))
            body += draw(most - body);
    }
    while (put(body, flags)) // as the recorder does
        failed++;
    return failed;
}

static void pin(uint64_t first, uint64_t last, enum ct_protected which) {
    for (uint64_t seq = first; seq <= last && seq < model.next; seq++)
        model.ever_pinned[seq] = 1;
    model.pin_first[which] = first;
    model.pin_last[which] = last;
    ct_file_ring_protect(first, last, which);
}

static void oldest_is_told(void) {
    const uint64_t oldest = ct_file_ring_get_oldest_seq();
    assert_true(oldest <= model.next);
    for (uint64_t seq = oldest; seq < model.next; seq++)
        assert_true(now[seq]);
    assert_false(oldest && now[oldest - 1]);
    assert_int_equal(ct_file_ring_get_size(), file.size);
}

// ---- tests on the simulated file ------------------------------------------------------------

static size_t some_body(size_t most) {
    switch (draw(8)) {
    case 0:
        return draw(64);
    case 1:
        return most - draw(64);
    default:
        return draw(most);
    }
}

// No fault, no pin: the file is full, but for a gap at its end and one behind the newest chunk.
TEST(the_newest_chunks_fill_the_file) {
    for (int round = 0; round < 6; round++) {
        const uint64_t bound = (64 + draw(192)) * KIB / 8 * 8;
        const size_t most = round < 3 ? bound / 20 : 16 * KIB;
        uint64_t written = 0;
        new_model(bound);
        file.look = look;
        for (int i = 0; i < 400; i++) {
            assert_int_equal(put(some_body(most), 0), 0);
            oldest_is_told();
            assert_true(file.size <= bound);
            written = ct_file_ring_get_written_bytes();
            if (written <= bound)
                assert_int_equal(seen.bytes, written);
            else
                assert_true(seen.bytes + 2 * (most + 128) >= bound);
        }
        assert_true(written > 2 * bound);
    }
}

TEST(pinned_chunks_stay) {
    for (unsigned round = 0, rounds = test_rounds(4, 6); round < rounds; round++) {
        const uint64_t bound = 256 * KIB;
        const size_t most = 4 * KIB;
        new_model(bound);
        file.look = look;
        for (int i = 0; i < 1000; i++) {
            if (draw(40) == 0 && model.next > 20) { // some of the newest, and some that come
                const uint64_t newest = model.next - draw(8);
                const enum ct_protected which =
                    i < 300 && round % 2 ? CT_PROTECTED_FIRST_OOM : CT_PROTECTED_LAST_OOM;
                pin(newest, newest + draw(10), which);
            }
            assert_int_equal(put(some_body(most), i % 5 ? 0 : CT_CHUNK_RESTART), 0);
            oldest_is_told();
            assert_true(file.size <= bound);
            if (ct_file_ring_get_written_bytes() > 2 * bound)
                assert_true(seen.bytes + 10 * (most + 128) >= bound);
        }
    }
}

TEST(at_most_half_is_pinned_and_whole_segments_go) {
    const uint64_t bound = 128 * KIB;
    new_model(bound);
    for (int i = 0; i < 8; i++) // 2 KiB each, segments of 4
        assert_int_equal(put(2000, i % 4 ? 0 : CT_CHUNK_RESTART), 0);
    ct_file_ring_protect(0, 7, CT_PROTECTED_FIRST_OOM);
    ct_file_ring_protect(8, UINT64_MAX, CT_PROTECTED_LAST_OOM);
    memset(model.ever_pinned, 1, sizeof model.ever_pinned);
    for (int i = 8; i < 300; i++) {
        assert_int_equal(put(2000, i % 4 ? 0 : CT_CHUNK_RESTART), 0);
        assert_true(now[0] && now[7]);
        assert_true(i < 20 || (now[i - 15] && now[i - 12]));
        assert_true(file.size <= bound);
    }
    // One that only fits where pinned ones are: they go.
    assert_int_equal(put(120 * KIB, CT_CHUNK_RESTART), 0);
    assert_int_equal(put(120 * KIB, CT_CHUNK_RESTART), 0);
    look();
    assert_int_equal(seen.chunks, 1);
    assert_int_equal(put(130 * KIB, 0), -EFBIG);
    look();
    assert_int_equal(seen.chunks, 1);
}

// Only whole segments are let go: what is left of a range begins with one.
TEST(a_range_that_is_too_long_loses_its_first_segments) {
    new_model(64 * KIB);
    for (int i = 0; i < 24; i++) // 2 KiB each: 48 of 64 KiB are pinned
        assert_int_equal(put(1900, i % 6 ? 0 : CT_CHUNK_RESTART), 0);
    ct_file_ring_protect(0, 23, CT_PROTECTED_FIRST_OOM);
    memset(model.ever_pinned, 1, 24);
    for (int i = 0; i < 300; i++)
        assert_int_equal(put(1900, CT_CHUNK_RESTART), 0);
    look();
    for (int i = 0; i < 24; i++)
        assert_int_equal(now[i], i >= 12);
}

// A small chunk, looked at from time to time only.
static void put_small(uint64_t every) {
    static uint8_t chunk[1024];
    const unsigned flags = model.next % 7 ? 0 : CT_CHUNK_RESTART;
    const size_t body = draw(16);
    if (model.next % every == every - 1) {
        file.look = look;
        assert_int_equal(put(body, flags), 0);
        oldest_is_told();
        file.look = NULL;
        return;
    }
    const size_t n = chunk_of(chunk, model.next, body, flags);
    assert_int_equal(ct_file_ring_append(file.fd, chunk, n, model.next, flags), 0);
    model.ever_pinned[model.next] |= (uint8_t)is_pinned(model.next);
    model.there[model.next++] = 1;
}

// More chunks than the list has places.
TEST(many_small_chunks_are_dropped_in_groups) {
    const uint64_t bound = 2048 * KIB;
    new_model(bound);
    while (model.next < 60000) {
        if (model.next == 10000) // segments of 7
            pin(9996, 10044, CT_PROTECTED_FIRST_OOM);
        put_small(2000);
        if (model.next % 2000 == 0)
            assert_true(ct_file_ring_get_written_bytes() <= bound ||
                        seen.bytes + bound / 100 >= bound);
    }
    assert_true(now[9996] && now[10044]);
    pin(1, 0, CT_PROTECTED_FIRST_OOM); // nothing
    while (model.next < 80000)
        put_small(2000);
    assert_false(now[9996] || now[10044]);
    new_model(0);
    while (model.next < 20000)
        put_small(5000);
    assert_int_equal(seen.chunks, 20000);
}

TEST(a_full_disk_shrinks_the_ring) {
    for (unsigned round = 0, rounds = test_rounds(5, 20); round < rounds; round++) {
        const uint64_t bound = 256 * KIB;
        new_model(bound);
        file.block = (size_t)512 << draw(4);
        file.disk = (20 + draw(100)) * KIB + 8 * draw(512);
        file.look = look;
        int refused = 0;
        for (int i = 0; i < 200; i++) {
            assert_int_equal(put(some_body(4 * KIB), 0), 0);
            oldest_is_told();
            refused += ct_file_ring_get_growth_error() == ENOSPC;
        }
        assert_int_equal(refused, 1);
        assert_true(file.size <= file.disk && file.size + 10 * KIB > file.disk);
        assert_true(seen.bytes + 20 * KIB > file.disk);
        // There is room again, but that is only found out after a minute.
        const uint64_t full = file.size;
        file.disk = FILE_BYTES;
        file.now += UINT64_C(59000000000);
        for (int i = 0; i < 200; i++)
            assert_int_equal(put(some_body(4 * KIB), 0), 0);
        assert_true(file.size <= full);
        file.now += UINT64_C(2000000000);
        for (int i = 0; i < 400; i++)
            assert_int_equal(put(some_body(4 * KIB), 0), 0);
        assert_true(file.size > bound - 10 * KIB);
    }
}

TEST(a_chunk_that_never_fits_changes_nothing) {
    new_model(256 * KIB);
    file.disk = 8 * KIB;
    file.look = look;
    for (int i = 0; i < 7; i++)
        assert_int_equal(put(1000, 0), 0);
    const size_t chunks = seen.chunks;
    assert_int_equal(put(20 * KIB, 0), -ENOSPC);
    assert_int_equal(put(20 * KIB, 0), -ENOSPC); // tries again at once
    assert_int_equal(seen.chunks, chunks);
    file.disk = FILE_BYTES;
    assert_int_equal(put(20 * KIB, 0), 0);
    assert_int_equal(seen.chunks, chunks + 1);
    static uint8_t odd[100];
    assert_int_equal(ct_file_ring_append(file.fd, odd, 100, 1000, 0), -EINVAL);
}

// Every call may fail, whole or in part.
TEST(faults_leave_a_valid_file) {
    for (unsigned round = 0, rounds = test_rounds(3, 10); round < rounds; round++) {
        int failed = 0, done = 0;
        new_model(128 * KIB);
        file.block = 512;
        file.look = look;
        file.faults = 50;
        for (int i = 0; i < 600; i++) {
            file.now += UINT64_C(7000000000);
            if (draw(50) == 0)
                pin(model.next - draw(least(model.next, 5) + 1), model.next + draw(5),
                    CT_PROTECTED_LAST_OOM);
            const int rc = put(some_body(4 * KIB), i % 3 ? 0 : CT_CHUNK_RESTART);
            failed += rc != 0;
            done += !rc;
        }
        assert_true(failed > 20 && done > 300);
        file.faults = 0;
        assert_int_equal(put(100, 0), 0);
        oldest_is_told();
    }
}

// ---- provisional chunks -----------------------------------------------------------------------

// With every part of every call looked at, in files of all sizes, with a disk that ends.
TEST(a_version_stays_until_a_newer_one_is_there) {
    for (unsigned round = 0, rounds = test_rounds(6, 12); round < rounds; round++) {
        const uint64_t bound = round % 4 ? (128 + draw(256)) * KIB : 0;
        int versions = 0;
        new_model(bound);
        file.disk = round % 3 == 2 ? (60 + draw(100)) * KIB : FILE_BYTES;
        file.block = 512;
        file.look = look;
        for (int i = 0; i < 300; i++) {
            file.now += UINT64_C(7000000000);
            assert_int_equal(put_in_versions(4 * KIB, i % 7 ? 0 : CT_CHUNK_RESTART, &versions), 0);
            oldest_is_told();
            assert_int_equal(seen.versions + (size_t)seen.twice, 0);
            assert_true(!bound || file.size <= bound);
        }
        assert_true(versions > 100);
    }
}

TEST(a_version_takes_nothing_that_is_needed) {
    const int rounds = (int)test_rounds(3, 10);
    int versions = 0, refused = 0;
    for (int round = 0; round < rounds; round++) {
        const uint64_t bound = 256 * KIB;
        new_model(bound);
        file.look = look;
        for (int i = 0; i < 300; i++) {
            if (i == 100) // all that is there up to the bound is protected, but for half of it
                pin(model.next - 30, model.next + 10, CT_PROTECTED_FIRST_OOM);
            if (i % 100 == 50) { // more than its share
                refused += put_version(bound / 16 + 8) == -ENOSPC;
                model.version = 0;
                assert_int_equal(ct_file_ring_drop_provisional(file.fd), 0);
            }
            assert_int_equal(put_in_versions(4 * KIB, i % 9 ? 0 : CT_CHUNK_RESTART, &versions), 0);
            oldest_is_told();
        }
        for (uint64_t seq = 70; seq <= 110; seq++) // 41 chunks of 2 KiB: less than half of the file
            assert_true(now[seq]);
    }
    assert_true(versions > 100 * rounds);
    assert_int_equal(refused, 3 * rounds);
    // What comes next in the file is the restart chunk that all others depend on.
    new_model(64 * KIB);
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(1000, i ? 0 : CT_CHUNK_RESTART), 0);
    assert_int_equal(put(1000, CT_CHUNK_RESTART), 0);
    while (!put(1000, 0))
        ;
    assert_true(now[20] && !now[19]);
    assert_int_equal(put_version(1000), -EFBIG);
    assert_true(now[20] && now[model.next - 1]);
}

TEST(faults_lose_no_version) {
    for (unsigned round = 0, rounds = test_rounds(4, 10); round < rounds; round++) {
        int failed = 0, versions = 0;
        new_model(round % 2 ? 128 * KIB : 0);
        file.block = 512;
        file.look = look;
        file.faults = 50;
        for (int i = 0; i < 400; i++) {
            file.now += UINT64_C(7000000000);
            failed += put_in_versions(4 * KIB, i % 3 ? 0 : CT_CHUNK_RESTART, &versions);
        }
        assert_true(failed > 20 && versions > 200);
        file.faults = 0;
        assert_int_equal(put(100, 0), 0);
        oldest_is_told();
    }
}

// Sizes as of chunks that grow at one rate, and at random. The truth is a run without versions.
TEST(versions_cost_no_space_and_three_more_writes) {
    static size_t body[300][4];
    for (unsigned round = 0, rounds = test_rounds(4, 20); round < rounds; round++) {
        uint64_t written[2], chunks[2], size[2], most = 0;
        for (int i = 0; i < 300; i++) {
            size_t all = 8 + draw(8 * KIB);
            for (int k = 3; k >= 0; k--) {
                body[i][k] = all;
                all = round % 2 ? 8 + (all - 8) * (size_t)(k) / (size_t)(k + 1) : 8 + draw(all - 7);
            }
        }
        for (int with = 0; with < 2; with++) {
            new_model(0);
            for (int i = 0; i < 300; i++) {
                for (int k = 0; with && k < 3; k++)
                    assert_int_equal(put_version(body[i][k]), 0);
                assert_int_equal(put(body[i][3], 0), 0);
                most = file.size > most ? file.size : most;
            }
            written[with] = file.written;
            chunks[with] = ct_file_ring_get_written_bytes();
            assert_int_equal(ct_file_ring_trim(file.fd), 0);
            size[with] = file.size;
        }
        assert_int_equal(size[0], size[1]);
        assert_true(most <= size[0] + 4 * (8 * KIB + 200));
        assert_true(chunks[1] > 2 * chunks[0] && chunks[1] <= 4 * chunks[0]);
        assert_true(written[1] <= 4 * written[0]);
    }
}

TEST(what_others_cut_off_is_given_up) {
    for (unsigned round = 0, rounds = test_rounds(60, 300); round < rounds; round++) {
        new_model(64 * KIB);
        const int chunks = (int)draw(100);
        for (int i = 0; i < chunks; i++)
            assert_int_equal(put(some_body(3 * KIB), 0), 0);
        const size_t was = file.size;
        if (round % 10 == 0) {
            memset(file.bytes + was, 'x', 1000);
            file.size += 1000;
        } else
            file.size = draw(was + 1);
        size_t whole = 0; // chunks that lie in what is left
        const size_t left = file.size;
        memset(known, 0, sizeof known);
        const int rc = ct_file_ring_adopt_size(file.fd, file.size);
        file.look = look;
        memset(model.ever_pinned, 1, sizeof model.ever_pinned); // any may be missing
        look();
        oldest_is_told();
        whole = seen.chunks;
        assert_true(rc == 0 || rc == 1);
        assert_true(left > was ? file.size == was && !rc : file.size <= left);
        assert_true(left <= was && was && left < was / 2 ? whole < (size_t)chunks || !chunks : 1);
        for (int i = 0; i < 60; i++)
            assert_int_equal(put(some_body(3 * KIB), 0), 0);
        oldest_is_told();
        assert_true(file.size <= 64 * KIB);
    }
}

TEST(a_clean_end_gives_the_rest_back) {
    new_model(256 * KIB);
    file.disk = 40 * KIB;
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(12 * KIB, 0), 0);
    assert_int_equal(put(8 * KIB, 0), 0); // grew a bit, then found no room and went to the start
    file.look = look;
    assert_int_equal(ct_file_ring_trim(file.fd), 0);
    oldest_is_told();
    assert_true(file.size < 37 * KIB);
    assert_int_equal(ct_file_ring_trim(file.fd), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(put(8 * KIB, 0), 0);
    new_model(0);
    file.look = look;
    assert_int_equal(ct_file_ring_trim(file.fd), 0);
    for (int i = 0; i < 400; i++)
        assert_int_equal(put(4 * KIB, 0), 0);
    assert_int_equal(seen.chunks, 400); // without a bound, all are there
    assert_int_equal(seen.bytes, file.size);
}

// ---- real files -----------------------------------------------------------------------------

static char folder[64];

static void open_output(const char *where, const char *more) {
    static char output[100];
    char *environment[] = {output, (char *)more, NULL};
    (void)snprintf(folder, sizeof folder, "%s/cutrace-output-XXXXXX", where);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(output, sizeof output, "CUTRACE_OUTPUT=%s/t.zst", folder);
    assert_int_equal(ct_options_read(environment, ct_print_stderr), 1);
    file.fd = -1;
    assert_int_equal(ct_trace_file_open(), 0);
}

static void remove_folder(void) {
    char command[100];
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    ct_trace_file_reinit_child();
}

// Reads a file into `seen` and `now`: valid, every chunk once.
static size_t read_real(const char *path) {
    static uint8_t bytes[FILE_BYTES];
    const int fd = open(path, O_RDONLY);
    const ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_true(n >= 0);
    memset(known, 0, sizeof known);
    memset(now, 0, sizeof now);
    const char *wrong = read_file(bytes, (size_t)n, &seen);
    if (wrong)
        fail_msg("%s", wrong);
    for (size_t i = 0; i < seen.chunks; i++) {
        assert_false(now[seen.seq[i]]);
        now[seen.seq[i]] = 1;
    }
    zstd_agrees(bytes, (size_t)n);
    return (size_t)n;
}

#define STOCK 64
static uint8_t *stock[STOCK];
static size_t stock_bytes[STOCK];

static void make_stock(size_t most) {
    for (size_t i = 0; i < STOCK; i++) {
        free(stock[i]);
        stock[i] = malloc(most + 1000);
        stock_bytes[i] = chunk_of(stock[i], i, draw(most), 0);
    }
}

static int put_stock(size_t i) {
    struct ct_signal_guard shield;
    ct_signal_guard_enter(&shield);
    const int rc = ct_trace_file_append(stock[i], stock_bytes[i], i, 0);
    ct_signal_guard_leave(&shield);
    return rc;
}

// A process that writes is killed somewhere.
static void kill_one(void) {
    volatile uint64_t *put =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    open_output("/tmp", "CUTRACE_MAX_SIZE=1M");
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        for (uint64_t i = 0; i < MANY; i++) {
            stock_bytes[0] = chunk_of(stock[0], i, draw(300 * KIB), 0);
            *put = ct_trace_file_append(stock[0], stock_bytes[0], i, 0) ? MANY + 1 : i + 1;
        }
        _exit(0);
    }
    while (!*put)
        sched_yield();
    usleep((useconds_t)draw(12000));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(*put < MANY);
    assert_true(read_real(ct_trace_file_get_path()) <= 1024 * KIB);
    // Up to here at least, with no gap.
    assert_true(now[*put - 1]);
    for (size_t i = *put; i-- > 0 && now[i];)
        now[i] = 0;
    for (size_t i = 0; i < *put; i++)
        assert_false(now[i]);
    munmap((void *)put, 4096);
    remove_folder();
}

TEST(a_killed_writer_leaves_a_valid_file) {
    make_stock(300 * KIB);
    for (int i = 0; i < (int)test_rounds(40, 1000); i++)
        kill_one();
}

static char said[2000];

static int log_file;

// A file that is open for appending only, as a log is: in another one nothing is said.
static int stderr_to_file(void) {
    char path[32];
    const int was = dup(2);
    log_file = memfd_create("stderr", 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", log_file);
    const int to = open(path, O_WRONLY | O_APPEND);
    dup2(to, 2);
    close(to);
    return was;
}

static void stderr_back(int was) {
    const ssize_t n = pread(log_file, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = 0;
    close(log_file);
    dup2(was, 2);
    close(was);
}

static int lines(void) {
    int n = 0;
    for (const char *at = said; *at; at++)
        n += *at == '\n';
    return n;
}

// In a process of its own, because the limit, or the file system, is.
static void ring_goes_on(const char *reason, size_t limit) {
    const int was = stderr_to_file();
    for (size_t i = 0; i < STOCK; i++)
        assert_int_equal(put_stock(i), 0);
    stderr_back(was);
    assert_int_equal(lines(), 1);
    assert_non_null(strstr(said, reason));
    const char *trouble = ct_trace_file_take_error();
    assert_non_null(trouble);
    assert_non_null(strstr(trouble, reason));
    assert_null(ct_trace_file_take_error());
    const size_t n = read_real(ct_trace_file_get_path());
    assert_true(n <= limit && n + 60 * KIB > limit);
    assert_true(now[STOCK - 1] && now[STOCK - 2] && now[STOCK - 3] && !now[0]);
}

TEST(a_file_size_limit_shrinks_the_ring) {
    struct rlimit was, limit;
    make_stock(40 * KIB);
    open_output("/tmp", "CUTRACE_MAX_SIZE=1M");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = was;
    limit.rlim_cur = 300 * KIB + 123;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ring_goes_on("the file size limit is reached", 300 * KIB + 123);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    remove_folder();
}

static int in_a_namespace(void) {
    char map[64];
    const uid_t uid = getuid();
    if (!unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
        return -1;
    const int fd = open("/proc/self/uid_map", O_WRONLY);
    const int n = snprintf(map, sizeof map, "0 %u 1\n", uid);
    const int rc = write(fd, map, (size_t)n) == n ? 0 : -1;
    close(fd);
    return rc;
}

TEST(a_small_file_system_shrinks_the_ring) {
    int status;
    make_stock(40 * KIB);
    const pid_t child = fork();
    if (!child) {
        char place[] = "/tmp/cutrace-tmpfs-XXXXXX";
        if (in_a_namespace() || !mkdtemp(place) || mount("none", place, "tmpfs", 0, "size=400k"))
            _exit(77);
        open_output(place, "CUTRACE_MAX_SIZE=1M");
        ring_goes_on("no space left on the device", 400 * KIB);
        remove_folder();
        _exit(umount(place) || rmdir(place));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

TEST(truncated_and_deleted_files) {
    struct stat st;
    make_stock(40 * KIB);
    open_output("/tmp", "CUTRACE_MAX_SIZE=1M");
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(put_stock(i), 0);
    const int was = stderr_to_file();
    assert_int_equal(truncate(ct_trace_file_get_path(), 1234), 0);
    for (size_t i = 10; i < 20; i++)
        assert_int_equal(put_stock(i), 0);
    stderr_back(was);
    assert_int_equal(lines(), 1);
    assert_non_null(strstr(said, "another program has truncated"));
    assert_non_null(strstr(ct_trace_file_take_error(), "another program has truncated"));
    read_real(ct_trace_file_get_path());
    assert_true(seen.chunks >= 10 && now[10] && now[19]);
    // As logrotate's copytruncate does it.
    const int again = stderr_to_file();
    assert_int_equal(truncate(ct_trace_file_get_path(), 0), 0);
    assert_int_equal(put_stock(20), 0);
    stderr_back(again);
    assert_int_equal(read_real(ct_trace_file_get_path()), stock_bytes[20]);
    // Somebody's own bytes at the end.
    const int fd = open(ct_trace_file_get_path(), O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_int_equal(put_stock(21), 0);
    assert_int_equal(read_real(ct_trace_file_get_path()), stock_bytes[20] + stock_bytes[21]);
    assert_int_equal(ct_file_ring_get_written_bytes() > ct_file_ring_get_size(), 1);
    // Deleted: what is written goes with the file.
    assert_int_equal(unlink(ct_trace_file_get_path()), 0);
    assert_int_equal(put_stock(22), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, ct_file_ring_get_size());
    assert_int_equal(access(ct_trace_file_get_path(), F_OK), -1);
    close(fd);
    remove_folder();
}

TEST(bounds_below_the_least_are_raised) {
    make_stock(60 * KIB);
    open_output("/tmp", "CUTRACE_MAX_SIZE=1");
    for (size_t i = 0; i < STOCK; i++)
        assert_int_equal(put_stock(i), 0);
    assert_true(ct_file_ring_get_written_bytes() > 1024 * KIB &&
                ct_file_ring_get_size() > 900 * KIB && ct_file_ring_get_size() <= 1024 * KIB);
    assert_int_equal(ct_trace_file_trim(), 0);
    read_real(ct_trace_file_get_path());
    remove_folder();
    open_output("/tmp", "CUTRACE_MAX_SIZE=0");
    for (size_t i = 0; i < STOCK; i++)
        assert_int_equal(put_stock(i), 0);
    assert_int_equal(ct_file_ring_get_written_bytes(), ct_file_ring_get_size());
    read_real(ct_trace_file_get_path());
    assert_int_equal(seen.chunks, STOCK);
    remove_folder();
}
