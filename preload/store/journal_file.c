// SPDX-License-Identifier: Apache-2.0
// The file of the journal: where it lies, how it comes to be and goes.
#define _GNU_SOURCE
#include "store/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cutrace/format/journal.h>

#include "base/print.h"

#define PATH_BYTES 4200

static struct {
    char path[PATH_BYTES];
    char link[PATH_BYTES]; // "": there is none
    dev_t device;
    ino_t inode;
} f;

static int is_in_memory(const char *path) {
    struct statfs fs;
    return !statfs(path, &fs) && fs.f_type == TMPFS_MAGIC;
}

// File systems that write a page to a new place each time take room for it in the page fault, also in a file whose room was
// taken: on a full disk, or with a quota that is used up, that is a SIGBUS.
int ct_journal_file_is_unsafe_to_map(const char *trace_path) {
    enum { BCACHEFS = 0xca451a4e, ZFS = 0x2fc12fc1 }; // (not in every linux/magic.h)
    struct statfs fs;
    if (statfs(trace_path, &fs))
        return 0;
    const unsigned type = (unsigned)fs.f_type;
    return type == BTRFS_SUPER_MAGIC || type == (unsigned)BCACHEFS || type == ZFS;
}

// Where a link leads to, if a recorder has made it; else "".
static void read_link(const char *link, char *target, size_t size) {
    const ssize_t n = readlink(link, target, size - 1);
    target[n > 0 ? n : 0] = 0;
    if (!ct_journal_links_to_shm(target))
        *target = 0;
}

// The trace is new, so a journal of its name is the leftover of one that is gone.
static int remove_leftover(const char *path) {
    static char target[PATH_BYTES]; // static: the host's thread may have a small stack
    read_link(path, target, sizeof target);
    if (*target)
        (void)unlink(target);
    return unlink(path);
}

static int create(void) {
    struct stat st;
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
    int fd = open(f.path, flags, 0600);
    if (fd < 0 && errno == EEXIST && !remove_leftover(f.path))
        fd = open(f.path, flags, 0600);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st)) {
        close(fd);
        return -EIO;
    }
    f.device = st.st_dev;
    f.inode = st.st_ino;
    return fd;
}

int ct_journal_file_create_beside(const char *trace_path) {
    *f.link = 0;
    ct_print(f.path, sizeof f.path, "%s%s", trace_path, CT_JOURNAL_SUFFIX);
    return create();
}

// The link comes first: whenever the process is killed, there is no file that nobody finds.
int ct_journal_file_create_on_tmpfs(const char *trace_path, uint64_t trace_id) {
    if (is_in_memory(trace_path))
        return ct_journal_file_create_beside(trace_path);
    if (!is_in_memory("/dev/shm"))
        return -ENOENT;
    ct_print(f.path, sizeof f.path, "%s%u-%u-%016lx%s", CT_JOURNAL_SHM_PREFIX, (unsigned)getuid(),
             (unsigned)getpid(), trace_id, CT_JOURNAL_SUFFIX);
    ct_print(f.link, sizeof f.link, "%s%s", trace_path, CT_JOURNAL_SUFFIX);
    int rc = symlink(f.path, f.link) ? -errno : 0;
    if (rc == -EEXIST && !remove_leftover(f.link))
        rc = symlink(f.path, f.link) ? -errno : 0;
    if (rc)
        return rc;
    const int fd = create();
    if (fd < 0)
        (void)unlink(f.link);
    return fd;
}

uint64_t ct_journal_file_get_free_bytes(int fd) {
    struct statfs fs;
    struct rlimit limit;
    uint64_t room = UINT64_MAX;
    if (!fstatfs(fd, &fs) && fs.f_blocks) // (a tmpfs without a bound tells 0 of 0)
        room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < room)
        room = limit.rlim_cur;
    return room;
}

static int is_ours(const struct stat *st) {
    return st->st_dev == f.device && st->st_ino == f.inode;
}

int ct_journal_file_open(void) {
    struct stat st;
    const int fd = open(f.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && !fstat(fd, &st) && is_ours(&st))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void ct_journal_file_remove(void) {
    static char target[PATH_BYTES];
    struct stat st;
    if (!lstat(f.path, &st) && is_ours(&st))
        (void)unlink(f.path);
    if (!*f.link)
        return;
    read_link(f.link, target, sizeof target);
    if (!strcmp(target, f.path))
        (void)unlink(f.link);
}

void ct_journal_file_reinit_child(void) {
    memset(&f, 0, sizeof f);
}
