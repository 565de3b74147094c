// SPDX-License-Identifier: Apache-2.0
// Finds a journal, compares its header with this version, removes it, and tells who writes to it.
#include "base/journal_file.h"

#include <cutrace/format/journal.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { FLAGS = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

static int fail(int fd, int error) {
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

// A link is followed by hand: in a folder that everybody may write to (/tmp), the kernel does not
// follow other users' links. Somebody else's link would show one process as another one.
static int open_linked(int folder, const char *name, int access) {
    char target[4200];
    struct stat link, st;
    const ssize_t n = readlinkat(folder, name, target, sizeof target - 1);
    if (n < 0 || fstatat(folder, name, &link, AT_SYMLINK_NOFOLLOW))
        return -1;
    target[n] = 0;
    if (!ct_journal_links_to_shm(target))
        return fail(-1, ELOOP);
    const int fd = open(target, access | FLAGS);
    if (fd < 0 && errno == ENOENT)
        return fail(-1, ENOLINK);
    return fd >= 0 && (fstat(fd, &st) || st.st_uid != link.st_uid) ? fail(fd, ELOOP) : fd;
}

int ct_journal_open(int folder, const char *name, int access) {
    struct stat st;
    int fd = openat(folder, name, access | FLAGS);
    if (fd < 0 && errno == ELOOP)
        fd = open_linked(folder, name, access);
    return fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode)) ? fail(fd, EINVAL) : fd;
}

const char *ct_journal_open_error(int error) {
    if (error == ELOOP)
        return "is a link, which is not followed";
    if (error == ENOLINK)
        return "links to a file in memory that is not here: it lies on another machine or in "
               "another container, or a reboot has removed it";
    return error == EINVAL ? "is no regular file" : strerror(error);
}

const char *ct_journal_probe_mismatch(const struct ct_journal *j) {
    if (memcmp(j->magic, CT_JOURNAL_MAGIC, sizeof j->magic) != 0)
        return "is no journal, or its process ended while making it";
    if (j->version != CT_JOURNAL_VERSION || j->header_bytes < sizeof *j)
        return "is of another version";
    if (j->layout_hash != ct_journal_layout())
        return "has other events than this version";
    return NULL;
}

// ---- removing -----------------------------------------------------------------------------------

// Whether somebody has put another file there. -1 with errno: that cannot be told.
static int is_another(int folder, const char *name, int of) {
    struct stat named, journal;
    if (of < 0)
        return 0;
    if (fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) || fstat(of, &journal))
        return -1;
    return named.st_dev != journal.st_dev || named.st_ino != journal.st_ino;
}

static int remove_file(int folder, const char *name, int of) {
    const int another = is_another(folder, name, of);
    if (another)
        return another < 0 ? -1 : 0;
    return unlinkat(folder, name, 0);
}

int ct_journal_remove(int folder, const char *name, int of) {
    char target[4200];
    const ssize_t n = readlinkat(folder, name, target, sizeof target - 1);
    if (n < 0)
        return remove_file(folder, name, of);
    target[n] = 0;
    if (ct_journal_links_to_shm(target) && remove_file(AT_FDCWD, target, of) && errno != ENOENT)
        return -1;
    return unlinkat(folder, name, 0);
}

// ---- who writes to a file -----------------------------------------------------------------------

// A lease for reading (fcntl(2), F_SETLEASE) is granted only where no open file of the inode may
// write, and a shared mapping keeps its file open until the process has given up its memory. The
// lease is given back at once. A program that opens the file for writing in between waits for that.

// File systems of which one kernel has all open files. Elsewhere (NFS, FUSE, 9P, a file system in a
// sandbox) another machine may write, and on an overlay another inode may be the one that is
// mapped.
static int is_of_this_kernel(int fd) {
    enum { XFS = 0x58465342, F2FS = 0xF2F52010 }; // old versions of linux/magic.h lack them
    struct statfs fs;
    if (fstatfs(fd, &fs))
        return 0;
    const unsigned type = (unsigned)fs.f_type;
    return type == TMPFS_MAGIC || type == EXT4_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC ||
           type == (unsigned)XFS || type == (unsigned)F2FS;
}

enum ct_file_use ct_file_use_find(int fd) {
    // The signal to a holder whose lease somebody else needs: SIGIO would end the program.
    if (!is_of_this_kernel(fd) || fcntl(fd, F_SETSIG, SIGURG))
        return CT_FILE_USE_UNKNOWN;
    if (fcntl(fd, F_SETLEASE, F_RDLCK))
        return errno == EAGAIN ? CT_FILE_IN_USE : CT_FILE_USE_UNKNOWN;
    return fcntl(fd, F_SETLEASE, F_UNLCK) ? CT_FILE_USE_UNKNOWN : CT_FILE_UNUSED;
}

// ---- processes ----------------------------------------------------------------------------------

// Finds the process of a journal in /proc, by the boot of the machine and its start time.

// Reads a small file of /proc and terminates it with NUL. Returns its length, 0 if it cannot be
// read.
static size_t read_text(const char *path, char *to, size_t size) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    if (fd >= 0)
        close(fd);
    to[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

uint64_t ct_process_alive_start_time(uint32_t pid) {
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%u/stat", pid);
    read_text(path, text, sizeof text);
    return ct_journal_process_start(text);
}

// Whether the process `outer` has the pid `inner` in its own namespace: the last number of NSpid.
static int has_inner_pid(uint32_t outer, uint32_t inner) {
    char path[64], text[4096];
    (void)snprintf(path, sizeof path, "/proc/%u/status", outer);
    read_text(path, text, sizeof text);
    const char *at = strstr(text, "\nNSpid:"), *last = NULL;
    for (at = at ? at + 7 : ""; *at && *at != '\n'; at++)
        if ((*at == '\t' || *at == ' ') && at[1] >= '0' && at[1] <= '9')
            last = at + 1;
    return last && strtoul(last, NULL, 10) == inner;
}

static int is_of_this_boot(const struct ct_journal *j) {
    char boot[64] = "";
    return read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot) >= sizeof j->boot_id &&
           memcmp(boot, j->boot_id, sizeof j->boot_id) == 0;
}

// The pid in the journal is the one in the process's own namespace. Its start time is the same in
// all of them. This process records nothing: where it has both, it was started in the same tick of
// the clock, as the first process of another container.
uint32_t ct_process_alive_pid(const struct ct_journal *j) {
    if (!j->pid || !j->process_start || !is_of_this_boot(j))
        return 0;
    const uint32_t self = (uint32_t)getpid();
    if (j->pid != self && ct_process_alive_start_time(j->pid) == j->process_start)
        return j->pid;
    uint32_t found = 0;
    DIR *all = opendir("/proc");
    for (const struct dirent *one; all && !found && (one = readdir(all));) {
        const uint32_t pid = (uint32_t)strtoul(one->d_name, NULL, 10);
        if (pid && pid != self && ct_process_alive_start_time(pid) == j->process_start &&
            has_inner_pid(pid, j->pid))
            found = pid;
    }
    if (all)
        closedir(all);
    return found;
}

int ct_process_alive_records(const struct ct_journal *j, int fd) {
    return ct_file_use_find(fd) == CT_FILE_IN_USE || ct_process_alive_pid(j);
}
