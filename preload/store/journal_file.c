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

#include "base/files.h"
#include "base/min.h"
#include "base/options.h"
#include "base/print.h"

#define PATH_BYTES 4200

// Where a file lies. The program may change its root or its user later: the folder stays open where
// the program does not see that.
struct place {
    char path[PATH_BYTES]; // "" if there is none
    int folder; // open, and `name` is the file's in it; or AT_FDCWD, and `name` is `path`
    const char *name;
};

static struct {
    struct place file, link;
    int fd; // or -1: the file is opened by its name
    dev_t device;
    ino_t inode;
} f = {.fd = -1};

static void set_place(struct place *p) {
    char *const slash = strrchr(p->path, '/');
    p->folder = AT_FDCWD;
    p->name = p->path;
    if (!slash || slash == p->path || !ct_files_are_apart())
        return;
    *slash = 0;
    const int folder = ct_open(p->path, O_PATH | O_DIRECTORY);
    *slash = '/';
    if (folder < 0)
        return;
    p->folder = folder;
    p->name = slash + 1;
}

static void forget_place(struct place *p) {
    if (*p->path && p->folder != AT_FDCWD)
        ct_close(p->folder);
    *p->path = 0;
}

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
static void read_link(const struct place *link, char *target, size_t size) {
    const ssize_t n = ct_readlinkat(link->folder, link->name, target, size - 1);
    target[n > 0 ? n : 0] = 0;
    if (!ct_journal_links_to_shm(target))
        *target = 0;
}

// Removes a journal that an earlier trace of this name left behind: the present trace has just been
// created.
static int remove_leftover(const struct place *p) {
    static char target[PATH_BYTES]; // static: the host's thread may have a small stack
    read_link(p, target, sizeof target);
    if (*target)
        (void)unlink(target);
    return ct_unlinkat(p->folder, p->name);
}

static int create(void) {
    struct stat st;
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    set_place(&f.file);
    if (f.fd >= 0) // of a first try
        ct_close(f.fd);
    f.fd = -1;
    int fd = ct_openat(f.file.folder, f.file.name, flags);
    if (fd < 0 && errno == EEXIST && !remove_leftover(&f.file))
        fd = ct_openat(f.file.folder, f.file.name, flags);
    if (fd < 0)
        return -errno;
    if (ct_fstat(fd, &st)) {
        ct_close(fd);
        return -EIO;
    }
    f.device = st.st_dev;
    f.inode = st.st_ino;
    f.fd = ct_files_are_apart() ? fd : -1;
    return fd;
}

int ct_journal_file_create_beside(const char *trace_path) {
    *f.link.path = 0;
    ct_print(f.file.path, sizeof f.file.path, "%s%s", trace_path, CT_JOURNAL_SUFFIX);
    return create();
}

static int make_link(void) {
    set_place(&f.link);
    int rc = symlink(f.file.path, f.link.path) ? -errno : 0;
    if (rc == -EEXIST && !remove_leftover(&f.link))
        rc = symlink(f.file.path, f.link.path) ? -errno : 0;
    return rc;
}

// Creates the link before the file: a process that is killed between the two leaves no file that
// nothing leads to.
int ct_journal_file_create_on_tmpfs(const char *trace_path, uint64_t trace_id) {
    if (is_on_tmpfs(trace_path))
        return ct_journal_file_create_beside(trace_path);
    if (!is_on_tmpfs("/dev/shm"))
        return -ENOENT;
    ct_print(f.file.path, sizeof f.file.path, "%s%u-%u-%016lx%s", CT_JOURNAL_SHM_PREFIX,
             (unsigned)getuid(), (unsigned)getpid(), trace_id, CT_JOURNAL_SUFFIX);
    ct_print(f.link.path, sizeof f.link.path, "%s%s", trace_path, CT_JOURNAL_SUFFIX);
    int rc = make_link();
    if (rc)
        return rc;
    rc = create();
    if (rc < 0)
        (void)ct_unlinkat(f.link.folder, f.link.name);
    return rc;
}

uint64_t ct_journal_file_get_free_bytes(int fd) {
    struct statfs fs;
    struct rlimit limit;
    uint64_t room = UINT64_MAX;
    if (!ct_fstatfs(fd, &fs) && fs.f_blocks) // a tmpfs without a limit reports 0 blocks
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
    if (f.fd >= 0)
        return f.fd;
    const int fd = ct_openat(f.file.folder, f.file.name, O_RDWR | O_NOFOLLOW);
    if (fd >= 0 && !ct_fstat(fd, &st) && is_the_journal(&st))
        return fd;
    if (fd >= 0)
        ct_close(fd);
    return -1;
}

void ct_journal_file_close(int fd) {
    if (fd != f.fd)
        ct_close(fd);
}

void ct_journal_file_remove(void) {
    static char target[PATH_BYTES];
    struct stat st;
    if (!ct_lstatat(f.file.folder, f.file.name, &st) && is_the_journal(&st))
        (void)ct_unlinkat(f.file.folder, f.file.name);
    if (*f.link.path) {
        read_link(&f.link, target, sizeof target);
        if (!strcmp(target, f.file.path))
            (void)ct_unlinkat(f.link.folder, f.link.name);
    }
    // f.fd stays open: another thread may be about to map a part of the file.
    forget_place(&f.file);
    forget_place(&f.link);
}

void ct_journal_file_reinit_child(void) {
    memset(&f, 0, sizeof f);
    f.fd = -1;
}

// ---- the memory of CUTRACE_MEMORY ---------------------------------------------------------------

#define MIB (UINT64_C(1) << 20)
#define DEFAULT_BYTES (256 * MIB) // if CUTRACE_MAX_SIZE sets no bound
#define MIN_BYTES (8 * MIB)       // a smaller ring is not useful

static char report[200];

static uint64_t get_wanted_bytes(void) {
    const uint64_t asked = CT_OPTION_NUMBER(MAX_SIZE);
    if (!asked)
        return DEFAULT_BYTES;
    return asked < MIB ? MIB : asked;
}

uint64_t ct_journal_budget_get_bytes(uint64_t free_bytes) {
    const uint64_t wanted = get_wanted_bytes();
    uint64_t bytes = wanted;
    while (bytes > free_bytes / 2 && bytes / 2 >= MIN_BYTES)
        bytes /= 2;
    if (bytes > free_bytes / 2)
        return 0;
    bytes -= bytes % CT_JOURNAL_PAGE;
    if (bytes < wanted - wanted % CT_JOURNAL_PAGE)
        ct_print(report, sizeof report,
                 "CUTRACE_MEMORY keeps %lu MiB, not %lu: there is too little memory for files",
                 bytes / MIB, wanted / MIB);
    return bytes;
}

uint64_t ct_journal_budget_get_first_bytes(uint64_t bytes) {
    return ct_min(bytes, MIN_BYTES);
}

void ct_journal_budget_report_failure(int rc) {
    ct_print(
        report, sizeof report,
        "CUTRACE_MEMORY is not in force: no memory for files: %s; the trace is written as it grows",
        ct_print_strerror(-rc));
}

void ct_journal_budget_report_shrink(uint64_t ready) {
    ct_print(report, sizeof report,
             "CUTRACE_MEMORY keeps %lu MiB from now on: there is no more memory for files",
             ready / MIB);
}

const char *ct_journal_budget_take_error(void) {
    static char text[sizeof report];
    if (!*report)
        return NULL;
    memcpy(text, report, sizeof text);
    *report = 0;
    return text;
}
