// SPDX-License-Identifier: Apache-2.0
// The file of the journal: chooses its place, creates it, opens it again and removes it.
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

#include "base/min.h"
#include "base/print.h"

#define PATH_BYTES 4200

static struct {
    char path[PATH_BYTES];
    char link[PATH_BYTES]; // "" if there is none
    dev_t device;
    ino_t inode;
} f;

static int is_on_tmpfs(const char *path) {
    struct statfs fs;
    return !statfs(path, &fs) && fs.f_type == TMPFS_MAGIC;
}

// Copy-on-write file systems write a changed page to a new block, which they allocate in the page
// fault, also in a file whose blocks were reserved. If the disk is full or the quota is used up,
// the fault raises SIGBUS.
int ct_journal_file_is_unsafe_to_map(const char *trace_path) {
    enum { BCACHEFS = 0xca451a4e, ZFS = 0x2fc12fc1 }; // old versions of linux/magic.h lack them
    struct statfs fs;
    if (statfs(trace_path, &fs))
        return 0;
    const unsigned type = (unsigned)fs.f_type;
    return type == BTRFS_SUPER_MAGIC || type == (unsigned)BCACHEFS || type == ZFS;
}

// Reads the target of a link if a recorder made it; else sets "".
static void read_link(const char *link, char *target, size_t size) {
    const ssize_t n = readlink(link, target, size - 1);
    target[n > 0 ? n : 0] = 0;
    if (!ct_journal_links_to_shm(target))
        *target = 0;
}

// Removes a journal that an earlier trace of this name left behind: the present trace has just been
// created.
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

// Creates the link before the file: a process that is killed between the two leaves no file that
// nothing leads to.
int ct_journal_file_create_on_tmpfs(const char *trace_path, uint64_t trace_id) {
    if (is_on_tmpfs(trace_path))
        return ct_journal_file_create_beside(trace_path);
    if (!is_on_tmpfs("/dev/shm"))
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
    if (!fstatfs(fd, &fs) && fs.f_blocks) // a tmpfs without a limit reports 0 blocks
        room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    if (!getrlimit(RLIMIT_FSIZE, &limit))
        room = ct_min(room, limit.rlim_cur);
    return room;
}

static int is_the_journal(const struct stat *st) {
    return st->st_dev == f.device && st->st_ino == f.inode;
}

int ct_journal_file_open(void) {
    struct stat st;
    const int fd = open(f.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && !fstat(fd, &st) && is_the_journal(&st))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void ct_journal_file_remove(void) {
    static char target[PATH_BYTES];
    struct stat st;
    if (!lstat(f.path, &st) && is_the_journal(&st))
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
