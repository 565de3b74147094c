// SPDX-License-Identifier: Apache-2.0
// The ring of finished chunks in the journal's file. It is read by cutrace/format/journal.h alone,
// after each step, during writes and after kills: it always has whole chunks, the newest ones,
// without a gap.
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cutrace/format/format.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "base/options.h"
#include "store/journal.h"
#include "store/journal_file.h"
#include "store/memory_chunks.h"
#include "store/name_table.h"
#include "store/trace_file.h"

#define MIB (UINT64_C(1) << 20)
#define MANY 100000u

// ---- what is put ------------------------------------------------------------------------------

static uint8_t chunk[20 << 20];
typedef uint64_t any_word __attribute__((may_alias, aligned(1)));

static size_t words_of(uint64_t seq, size_t n) { // the same for the same number
    for (size_t i = 8 + sizeof(struct ct_chunk); i + 8 <= n; i += 8)
        *(any_word *)(chunk + i) = (seq + 1) * 0x9E3779B97F4A7C15u + i;
    return n;
}

static int put(uint64_t seq, size_t n) {
    const struct ct_chunk head = {.magic = CT_CHUNK_MAGIC, .seq = seq};
    memset(chunk, 0, 8);
    memcpy(chunk + 8, &head, sizeof head);
    return ct_memory_chunks_append(chunk, words_of(seq, n), seq, 0);
}

// Its number, or UINT64_MAX: it is not as it was put.
static uint64_t seq_of(const uint8_t *at, size_t n) {
    struct ct_chunk head;
    memcpy(&head, at + 8, sizeof head);
    for (size_t i = 8 + sizeof head; i + 8 <= n; i += 8)
        if (*(const any_word *)(at + i) != (head.seq + 1) * 0x9E3779B97F4A7C15u + i)
            return UINT64_MAX;
    return memcmp(head.magic, CT_CHUNK_MAGIC, 8) == 0 ? head.seq : UINT64_MAX;
}

// ---- what is read -----------------------------------------------------------------------------

static char folder[] = "/dev/shm/shelf-XXXXXX";
static char trace[64], journal[80];

struct seen {
    uint64_t first, count, bytes; // numbers without a gap; bytes with their lengths
    uint64_t tail, head, size;
};

static uint64_t word(int fd, uint64_t at) {
    uint64_t w = 0;
    assert_int_equal(pread(fd, &w, sizeof w, (off_t)at), sizeof w);
    return w;
}

static uint64_t header(int fd, size_t offset) {
    return word(fd, offset);
}

// Reads the shelf. `live`: it is being written, and what the tail has passed meanwhile does not
// count.
static struct seen look(int live) {
    static uint8_t copy[20 << 20];
    struct seen s = {.first = UINT64_MAX};
    const int fd = open(journal, O_RDONLY);
    assert_true(fd >= 0);
    s.size = header(fd, offsetof(struct ct_journal, chunks_bytes));
    s.tail = header(fd, offsetof(struct ct_journal, chunks_tail));
    s.head = header(fd, offsetof(struct ct_journal, chunks_head));
    const uint64_t place = header(fd, offsetof(struct ct_journal, chunks_at));
    assert_true(s.head - s.tail <= s.size || live);
    for (uint64_t at = s.tail; at < s.head;) {
        const uint64_t offset = at % s.size, n = word(fd, place + offset);
        const int fits = n % 8 == 0 && n <= s.size - offset - 8 && n <= sizeof copy;
        if (n && fits)
            assert_int_equal(pread(fd, copy, n, (off_t)(place + offset + 8)), n);
        const uint64_t tail = live ? header(fd, offsetof(struct ct_journal, chunks_tail)) : s.tail;
        if (tail > at) { // overwritten; it begins anew
            at = tail;
            s.first = UINT64_MAX;
            s.count = s.bytes = 0;
            continue;
        }
        assert_true(fits);
        at += n ? 8 + n : s.size - offset;
        if (!n)
            continue;
        const uint64_t seq = seq_of(copy, n);
        assert_int_not_equal(seq, UINT64_MAX);
        if (s.first == UINT64_MAX)
            s.first = seq;
        assert_int_equal(seq, s.first + s.count);
        s.count++;
        s.bytes += 8 + n;
    }
    close(fd);
    return s;
}

// The numbers of the chunks in the file, which are in this order.
static struct seen look_at_file(void) {
    struct seen s = {.first = UINT64_MAX};
    struct stat st = {0};
    const int fd = open(trace, O_RDONLY);
    assert_true(fd >= 0 && !fstat(fd, &st));
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
    for (size_t i = 0; i + CT_PREFIX_BYTES <= (size_t)st.st_size; i += 8) {
        struct ct_chunk head;
        memcpy(&head, bytes + i + 8, sizeof head);
        if (memcmp(head.magic, CT_CHUNK_MAGIC, 8) != 0)
            continue;
        if (s.first == UINT64_MAX)
            s.first = head.seq;
        assert_int_equal(head.seq, s.first + s.count);
        s.count++;
    }
    s.bytes = (uint64_t)st.st_size;
    free(bytes);
    close(fd);
    return s;
}

// ---- a process that begins --------------------------------------------------------------------

static void say_nothing(const char *line) {
    (void)line;
}

static void begin(const char *size) {
    char output[100], most[40];
    char memory[] = "CUTRACE_MEMORY=1", quiet[] = "CUTRACE_QUIET=1";
    char *environment[] = {output, most, memory, quiet, NULL};
    (void)snprintf(output, sizeof output, "CUTRACE_OUTPUT=%s", trace);
    (void)snprintf(most, sizeof most, "CUTRACE_MAX_SIZE=%s", size);
    (void)unlink(trace);
    ct_journal_reinit_child();
    ct_trace_file_reinit_child();
    assert_int_equal(ct_options_read(environment, say_nothing), 1);
    assert_int_equal(ct_trace_file_open(), 0);
    assert_int_equal(ct_journal_open(ct_trace_file_get_path(), 42, ct_name_get_text), 0);
    assert_int_equal(ct_journal_is_file(), 1);
}

BEFORE_EACH {
    struct statfs fs;
    (void)strcpy(folder, "/dev/shm/shelf-XXXXXX");
    if (statfs("/dev/shm", &fs) || fs.f_type != TMPFS_MAGIC || !mkdtemp(folder))
        return -1;
    (void)snprintf(trace, sizeof trace, "%s/t.zst", folder);
    (void)snprintf(journal, sizeof journal, "%s.journal", trace);
    return 0;
}

AFTER_EACH {
    ct_journal_reinit_child();
    ct_trace_file_reinit_child();
    (void)unlink(journal);
    (void)unlink(trace);
    return rmdir(folder);
}

static size_t any_size(size_t most) {
    return CT_PREFIX_BYTES + 8 * draw((draw(8) ? most / 20 : most) / 8 - CT_PREFIX_BYTES / 8);
}

// ---- tests ------------------------------------------------------------------------------------

TEST(the_newest_are_there) {
    begin("1M");
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(put(i, any_size(MIB / 3)), 0);
        const struct seen s = look(0);
        assert_int_equal(s.size, MIB);
        assert_int_equal(s.first + s.count, i + 1);
        // Nothing is given up that has room: what is unused is less than two of the longest.
        assert_true(s.first == 0 || s.head - s.tail > MIB - 2 * (MIB / 3 + 8));
    }
    assert_int_equal(look_at_file().count, 0);
}

TEST(entries_that_fit_exactly) {
    static const size_t rest[] = {0, 8, 16, 104, 112};
    begin("1M");
    uint64_t seq = 0;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        // An entry ends where the ring does, or a little before.
        assert_int_equal(put(seq++, 512 << 10), 0);
        const size_t left = MIB - look(0).head % MIB;
        if (left >= rest[i] + 8 + CT_PREFIX_BYTES)
            assert_int_equal(put(seq++, left - 8 - rest[i]), 0);
        assert_int_equal(look(0).head % MIB, (MIB - rest[i]) % MIB);
        assert_int_equal(put(seq++, 200), 0);
        assert_int_equal(look(0).head % MIB, rest[i] == 208 ? 0 : 208);
        assert_int_equal(put(seq++, 300 << 10), 0);
        assert_int_equal(look(0).first + look(0).count, seq);
        // One that is as long as the ring, wherever that stands.
        assert_int_equal(put(seq++, MIB - 8), 0);
        assert_int_equal(look(0).count, 1);
        assert_int_equal(put(seq++, 200), 0);
        assert_int_equal(look(0).count, 1);
        while (look(0).head % MIB > 4096)
            assert_int_equal(put(seq++, 4000), 0);
    }
}

TEST(one_that_is_too_long_goes_to_the_file) {
    begin("1M");
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(put(i, 1000), 0);
    assert_int_equal(put(5, MIB), 0); // (the file has room for that, and for no more)
    assert_int_equal(look(0).count, 0);
    assert_int_equal(look_at_file().first + look_at_file().count, 6);
    assert_int_equal(put(6, 1000), 0);
    assert_int_equal(look(0).first, 6);
}

TEST(each_is_written_once) {
    begin("32M");
    uint64_t seq = 0;
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 40; i++)
            assert_int_equal(put(seq++, any_size(MIB)), 0);
        const uint64_t end = ct_memory_chunks_get_end();
        assert_int_equal(put(seq++, 1000), 0); // comes later
        int rc;
        while ((rc = ct_memory_chunks_flush(end)) == -EAGAIN)
            assert_true(look(0).first == look_at_file().count); // in both or in one: never in none
        assert_int_equal(rc, 0);
        assert_int_equal(look_at_file().first, 0);
        assert_int_equal(look_at_file().count, seq - 1);
        assert_int_equal(look(0).count, 1);
        const uint64_t bytes = look_at_file().bytes;
        assert_int_equal(ct_memory_chunks_flush(end), 0);
        assert_int_equal(look_at_file().bytes, bytes);
    }
}

TEST(long_flushes_come_in_pieces) {
    begin("32M");
    for (uint64_t i = 0; i < 30; i++)
        assert_int_equal(put(i, MIB - 8), 0);
    int pieces = 1;
    while (ct_memory_chunks_flush(ct_memory_chunks_get_end()) == -EAGAIN)
        pieces++;
    assert_int_equal(pieces, 4);
    assert_int_equal(look_at_file().count, 30);
}

TEST(a_file_that_is_gone_leaves_all_on_the_shelf) {
    begin("1M");
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(put(i, 1000), 0);
    ct_trace_file_reinit_child(); // as if it were deleted and closed
    assert_true(ct_memory_chunks_flush(ct_memory_chunks_get_end()) < 0);
    assert_int_equal(look(0).count, 10);
    for (uint64_t i = 10; i < 3000; i++)
        assert_int_equal(put(i, 1000), 0);
    assert_int_equal(look(0).first + look(0).count, 3000);
}

TEST(memory_is_taken_when_it_is_needed) {
    struct stat st;
    begin("64M");
    assert_int_equal(stat(journal, &st), 0);
    const uint64_t at_first = (uint64_t)st.st_blocks * 512;
    assert_true(at_first < 12 * MIB);
    uint64_t seq = 0;
    while (look(0).head < 20 * MIB)
        assert_int_equal(put(seq++, MIB - 8), 0);
    assert_int_equal(stat(journal, &st), 0);
    assert_true((uint64_t)st.st_blocks * 512 < at_first + 13 * MIB);
    assert_int_equal(look(0).count, seq);
}

TEST(without_more_memory_it_stays_smaller) {
    struct rlimit before, limit;
    begin("64M");
    uint64_t seq = 0;
    for (; look(0).head < 10 * MIB; seq++)
        assert_int_equal(put(seq, any_size(MIB)), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = ct_journal_get()->chunks_at + 14 * MIB;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    while (!look_at_file().count) // it has to become smaller: all goes to the file
        assert_int_equal(put(seq++, any_size(MIB)), 0);
    assert_non_null(ct_journal_budget_take_error());
    assert_null(ct_journal_budget_take_error());
    const uint64_t size = look(0).size;
    assert_true(size >= 13 * MIB && size <= 14 * MIB);
    assert_int_equal(look_at_file().first, 0);
    assert_int_equal(look_at_file().count + look(0).count, seq);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(put(seq++, any_size(MIB)), 0);
        if (i % (int)test_rounds(8, 1)) // a look reads all of it
            continue;
        const struct seen s = look(0);
        assert_int_equal(s.first + s.count, seq);
        assert_true(s.first <= look_at_file().count || s.head - s.tail > size - 2 * (MIB + 8));
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static int is_there(void) {
    const int fd = open(journal, O_RDONLY);
    char magic[8] = "";
    const int there = fd >= 0 && pread(fd, magic, 8, 0) == 8 && !memcmp(magic, CT_JOURNAL_MAGIC, 8);
    if (fd >= 0)
        close(fd);
    return there;
}

static int has_chunks(void) {
    return is_there() && look(1).count > 0;
}

// A part of what the reader sees is written by somebody who was killed at any instruction.
TEST(kills) {
    int not_empty = 0, round;
    for (round = 0; round < 80; round++) {
        const pid_t child = fork();
        if (!child) {
            chance = (uint64_t)round * 77 + 5;
            begin("1M");
            for (uint64_t i = 0;; i++) {
                (void)put(i, any_size(MIB / 3));
                if (draw(100) == 0)
                    (void)ct_memory_chunks_flush(ct_memory_chunks_get_end());
            }
        }
        while (round % 10 && !has_chunks()) // (some die earlier)
            usleep(100);
        usleep((useconds_t)draw(10000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        if (is_there())
            not_empty += look(0).count > 0;
        (void)unlink(journal);
    }
    assert_true(not_empty > round / 2);
}

static _Atomic int done;
static _Atomic uint64_t looks;

static void *read_on(void *unused) {
    uint64_t newest = 0;
    while (!done) {
        const struct seen s = look(1);
        if (s.first == UINT64_MAX)
            continue;
        assert_true(s.first + s.count >= newest);
        newest = s.first + s.count;
        looks++;
    }
    return unused;
}

TEST(while_it_is_written) {
    pthread_t reader;
    begin("1M");
    assert_int_equal(pthread_create(&reader, NULL, read_on, NULL), 0);
    const unsigned puts = test_rounds(1000, 5000);
    for (uint64_t i = 0; i < puts || looks < 100; i++)
        assert_int_equal(put(i, any_size(MIB / 3)), 0);
    done = 1;
    assert_int_equal(pthread_join(reader, NULL), 0);
}

TEST(sizes) {
    static const struct {
        uint64_t asked, room, size;
    } rows[] = {
        {256 * MIB, 1024 * MIB, 256 * MIB},
        {256 * MIB, 512 * MIB, 256 * MIB},
        {256 * MIB, 511 * MIB, 128 * MIB},
        {256 * MIB, 64 * MIB, 32 * MIB},
        {256 * MIB, 16 * MIB, 8 * MIB},
        {256 * MIB, 15 * MIB, 0},
        {0, 1024 * MIB, 256 * MIB},
        {0, 100 * MIB, 32 * MIB},
        {MIB, 2 * MIB, MIB},
        {MIB, 2 * MIB - 1, 0},
        {1000, 2 * MIB, MIB},
        {10 * MIB + 5000, 20 * MIB + 20000, 10 * MIB + 4096},
        {10 * MIB, 19 * MIB, 0},
        {16 * MIB, 31 * MIB, 8 * MIB},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ct_options[CT_OPTION_MAX_SIZE].number = rows[i].asked;
        assert_int_equal(ct_journal_budget_get_bytes(rows[i].room), rows[i].size);
    }
}

#ifdef __SANITIZE_THREAD__ // no other test has a thread, and kills takes it two minutes
__attribute__((constructor)) static void leave_out_the_others(void) {
    cmocka_set_test_filter("while_it_is_written");
}
#endif
