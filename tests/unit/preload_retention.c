// SPDX-License-Identifier: Apache-2.0
// CUTRACE_KEEP removes the oldest finished traces of a pattern, and nothing else.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cutrace/format/journal.h>

#include "../lib/unit.h"
#include "base/process_id.h"
#include "store/retention.h"

TEST(names_are_matched_as_they_are_made) {
    static const struct {
        const char *pattern, *name;
        int matches;
    } rows[] = {
        {"cutrace.%e.%p.zst", "cutrace.python3.123.zst", 1},
        {"cutrace.%e.%p.zst", "cutrace.python3.123.zst.7", 1},
        {"cutrace.%e.%p.zst", "cutrace.python3.123.zst.7.8", 0},
        {"cutrace.%e.%p.zst", "cutrace.python3.123.zst.", 0},
        {"cutrace.%e.%p.zst", "cutrace.python3.x.zst", 0},
        {"cutrace.%e.%p.zst", "cutrace.python3..zst", 0},
        {"cutrace.%e.%p.zst", "cutrace.a.b.c.1.zst", 1},
        {"cutrace.%e.%p.zst", "cutrace..1.zst", 1},
        {"cutrace.%e.%p.zst", "cutrace.a.1.zst.journal", 0},
        {"cutrace.%e.%p.zst", "cutrace.a.1.zstd", 0},
        {"cutrace.%e.%p.zst", "Cutrace.a.1.zst", 0},
        {"cutrace.%e.%p.zst", "", 0},
        {"/some/folder/t.zst", "t.zst", 1},
        {"/some/folder/t.zst", "t.zst.12", 1},
        {"/some/folder/t.zst", "t.zst.1a", 0},
        {"/some/folder/t.zst", "some", 0},
        {"t.%n", "t.5", 1},
        {"t.%n", "t.5.5", 0}, // %n counts: nothing is appended
        {"%t-%P%%%r", "12-34%", 1},
        {"%t-%P%%%r", "12-34%any", 1},
        {"%t-%P%%%r", "12-34any", 0},
        {"%p", "123", 1},
        {"%p", "123.4", 1},
        {"%p", ".4", 0},
        {"a%q{HOME}b%h.zst", "ab.zst", 1},
        {"a%q{HOME}b%h.zst", "abbb.zst", 1},
        {"a%q{HOME", "a%q{HOME", 1},
        {"a%zb%", "a%zb%", 1},
        {"a%zb%", "a%zb", 0},
        {"%e%e%e%e%e%e%e%e%e%e%e%e%e%e%e%e!",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ct_retention_matches(rows[i].pattern, rows[i].name) != rows[i].matches)
            fail_msg("%s against %s", rows[i].pattern, rows[i].name);
    char lengthy[1000];
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    assert_int_equal(ct_retention_matches(lengthy, lengthy), 0); // beyond what a name can be
}

// ---- a folder -------------------------------------------------------------------------------

static char folder[] = "/tmp/cutrace-keep-XXXXXX";

BEFORE_EACH {
    (void)strcpy(folder, "/tmp/cutrace-keep-XXXXXX");
    return !mkdtemp(folder) || chdir(folder);
}

AFTER_EACH {
    char command[100];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") || system(command);
}

// Age in seconds.
static void make(const char *name, const void *bytes, size_t n, int age) {
    const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const struct timespec times[2] = {{1700000000 - age, 0}, {1700000000 - age, 0}};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static const char trace[16] = {0x5c, 0x2a, 0x4d, 0x18, 0x60, 0,   0,   0,
                               'C',  'U',  'T',  'R',  'C',  'H', 'N', 'K'};

static void make_trace(const char *name, int age) {
    make(name, trace, sizeof trace, age);
}

static void make_journal(const char *name, unsigned pid, int is_ours) {
    static struct ct_journal j;
    char path[300];
    uint64_t now;
    memcpy(j.magic, CT_JOURNAL_MAGIC, sizeof j.magic);
    j.version = CT_JOURNAL_VERSION;
    j.pid = pid;
    ct_process_id_read(&now, &j.process_start, j.boot_id);
    j.process_start += !is_ours; // the pid was somebody else's
    (void)snprintf(path, sizeof path, "%s.journal", name);
    make(path, &j, sizeof j, 0);
}

static int there(const char *name) {
    struct stat st;
    return lstat(name, &st) == 0;
}

static void keep(uint64_t n) {
    ct_retention_remove_old("t.%p.zst", "t.1.zst", n);
}

TEST(the_oldest_go) {
    make_trace("t.5.zst", 10);
    make_trace("t.4.zst", 40);
    make_trace("t.3.zst", 20);
    make_trace("t.2.zst.1", 30);
    keep(4);
    assert_true(there("t.4.zst"));
    keep(2);
    assert_true(there("t.5.zst") && there("t.3.zst") && !there("t.4.zst") && !there("t.2.zst.1"));
    char file[100], pattern[100];
    (void)snprintf(file, sizeof file, "%s/t.77.zst", folder);
    (void)snprintf(pattern, sizeof pattern, "%s/t.%%p.zst", folder);
    assert_int_equal(chdir("/"), 0);
    ct_retention_remove_old(pattern, file, 1);
    assert_int_equal(chdir(folder), 0);
    assert_true(there("t.5.zst") && !there("t.3.zst"));
    keep(0);
    assert_false(there("t.5.zst"));
    ct_retention_remove_old("no/such/t.%p.zst", "no/such/t.1.zst", 0);
}

TEST(journals_go_with_their_traces) {
    make_trace("t.1.zst", 50);
    make_journal("t.1.zst", (unsigned)getpid(), 0); // dead
    make("t.2.zst", "", 0, 50);                     // killed before the first chunk
    make_journal("t.2.zst", (unsigned)getpid(), 0);
    make_trace("t.3.zst", 50);
    make_journal("t.3.zst", (unsigned)getpid(), 1); // alive
    make_trace("t.4.zst", 50);
    make("t.4.zst.journal", "", 0, 50); // is being made, perhaps
    keep(0);
    assert_true(!there("t.1.zst") && !there("t.1.zst.journal"));
    assert_true(!there("t.2.zst") && !there("t.2.zst.journal"));
    assert_true(there("t.3.zst") && there("t.3.zst.journal"));
    assert_true(there("t.4.zst") && there("t.4.zst.journal"));
}

TEST(a_trace_that_is_written_stays) {
    make_trace("t.1.zst", 50);
    const int fd = open("t.1.zst", O_WRONLY);
    ct_retention_lock(fd);
    keep(0);
    assert_true(there("t.1.zst"));
    close(fd);
    keep(0);
    assert_false(there("t.1.zst"));
}

TEST(what_is_no_trace_stays) {
    char other[16], begun[4096] = {0x50, 0x2a, 0x4d, 0x18};
    memcpy(other, trace, sizeof other);
    make("precious", "precious", 8, 99);
    make("t.1.zst", "precious", 8, 50);                           // another content
    make("t.2.zst", "\x28\xb5\x2f\xfd 1234567890123456", 20, 50); // any .zst
    make("t.3.zst", "", 0, 50);
    make("t.4.zst", begun, sizeof begun, 50); // a frame to be skipped, as others have, too
    other[15] = 'X';
    make("t.5.zst", other, sizeof other, 50);
    assert_int_equal(symlink("precious", "t.6.zst"), 0);
    assert_int_equal(mkdir("t.7.zst", 0700), 0);
    assert_int_equal(mkfifo("t.8.zst", 0600), 0);
    assert_int_equal(symlink("/", "t.9.zst"), 0);
    make_trace("real", 50); // another name
    assert_int_equal(symlink("real", "t.10.zst"), 0);
    make_trace("t.x.zst", 50);
    make_trace("T.1.zst", 50);
    make_trace("t.11.zst~", 50);
    make_trace("t.11.zst\n", 50);
    make_trace("t.12.zst", 50);
    assert_int_equal(symlink("precious", "t.12.zst.journal"), 0); // no journal of ours
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "t.13.zst"};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    make_trace("t.14.zst", 50); // the only one that goes
    keep(0);
    static const char *const stay[] = {
        "precious",  "t.1.zst",    "t.2.zst",  "t.3.zst",          "t.4.zst", "t.5.zst", "t.6.zst",
        "t.7.zst",   "t.8.zst",    "t.9.zst",  "t.10.zst",         "real",    "t.x.zst", "T.1.zst",
        "t.11.zst~", "t.11.zst\n", "t.12.zst", "t.12.zst.journal", "t.13.zst"};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        if (!there(stay[i]))
            fail_msg("%s is gone", stay[i]);
    assert_false(there("t.14.zst"));
    if (geteuid() == 0) { // another user's
        make_trace("t.15.zst", 50);
        assert_int_equal(chown("t.15.zst", 12345, 12345), 0);
        keep(0);
        assert_true(there("t.15.zst"));
    }
}

TEST(a_large_folder_is_bounded_work) {
    char name[64];
    for (int i = 0; i < 11000; i++) {
        (void)snprintf(name, sizeof name, "t.%d.zst", i);
        make(name, trace, sizeof trace, 50 + i);
    }
    keep(20); // of the 10,000 that are looked at
    int left = 0;
    for (int i = 0; i < 11000; i++) {
        (void)snprintf(name, sizeof name, "t.%d.zst", i);
        left += there(name);
    }
    assert_in_range(left, 1020, 1022); // . and .. count
}
