// SPDX-License-Identifier: Apache-2.0
// The file of the trace: how it comes to be, and how chunks get into it whatever the host does to
// it.
#define _GNU_SOURCE
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "pattern.h"
#include "text.h"

#define PATH_BYTES 4096
#define SUFFIXES 10000u

static int fd = -1;
static char path[PATH_BYTES];
static dev_t device;
static ino_t inode;
static uint64_t good_end; // of the last chunk that is whole
static int said_errno;

// ---- creating -------------------------------------------------------------------------------

static void make_parents(const char *file) {
    static char folder[PATH_BYTES]; // static: the host's thread may have a small stack
    ct_print(folder, sizeof folder, "%s", file);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(folder,
                    0777); // what is there already is an error that the open will tell better
        *slash = '/';
    }
}

static int create(const char *file) {
    const int new_fd =
        open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
    return new_fd < 0 ? -errno : new_fd;
}

// The first name that is free: the pattern's %n counted up, or .1, .2, ... behind it.
static int create_free(const char *pattern, char *file) {
    const int counts = ct_pattern_counts(pattern);
    for (unsigned n = 0; n < SUFFIXES; n++) {
        const size_t length = ct_pattern_expand(pattern, n, file, PATH_BYTES - 8);
        if (!length)
            return -ENAMETOOLONG;
        if (!counts && n)
            ct_print(file + length, PATH_BYTES - length, ".%u", n);
        int rc = create(file);
        if (rc == -ENOENT) {
            make_parents(file);
            rc = create(file);
        }
        if (rc != -EEXIST)
            return rc;
    }
    return -EEXIST;
}

static int create_elsewhere(const char *folder, char *file) {
    static char pattern[PATH_BYTES];
    const char *slash = strrchr(CT_TEXT(OUTPUT), '/');
    if (!folder || *folder != '/')
        return -ENOENT;
    ct_print(pattern, sizeof pattern, "%s/%s", folder, slash ? slash + 1 : CT_TEXT(OUTPUT));
    return create_free(pattern, file);
}

// Hosts close descriptors in bulk, count them, and put their own on the lowest: ours stays out of
// the way.
static int out_of_the_way(int low) {
    static const int places[] = {960, 200, 100};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int high = fcntl(low, F_DUPFD_CLOEXEC, places[i]);
        if (high >= 0) {
            close(low);
            return high;
        }
    }
    return low;
}

static void make_absolute(const char *file) {
    static char folder[PATH_BYTES];
    if (*file != '/' && getcwd(folder, sizeof folder) && *folder == '/')
        ct_print(path, sizeof path, "%s/%s", folder, file);
    else
        ct_print(path, sizeof path, "%s", file);
}

static __attribute__((format(printf, 1, 2))) void say(const char *format, ...) {
    static char line[PATH_BYTES + 256];
    va_list arguments;
    if (CT_NUMBER(QUIET))
        return;
    va_start(arguments, format);
    ct_vprint(line, sizeof line, format, arguments);
    va_end(arguments);
    ct_say(line);
}

// strerror may allocate and translates; these are the errors that a full or closed disk gives.
static const char *reason(int error) {
    switch (error) {
    case ENOSPC:
        return "no space left on the device";
    case EDQUOT:
        return "the disk quota is used up";
    case EFBIG:
        return "the file size limit is reached";
    case EACCES:
    case EPERM:
        return "permission denied";
    case EROFS:
        return "read-only file system";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    case ENOENT:
        return "no such folder";
    case ENOTDIR:
        return "not a folder";
    case ENAMETOOLONG:
        return "the name is too long";
    case EBADF:
        return "the program closed it";
    case EIO:
        return "input/output error";
    default:
        return "error";
    }
}

int ct_output_open(void) {
    static char file[PATH_BYTES];
    struct stat st;
    int rc = create_free(CT_TEXT(OUTPUT), file);
    if (rc < 0) {
        const int first = rc;
        if ((rc = create_elsewhere(getenv("TMPDIR"), file)) < 0)
            rc = create_elsewhere("/tmp", file);
        if (rc < 0) {
            say("cutrace: cannot write %s: %s; nothing is recorded\n", CT_TEXT(OUTPUT),
                reason(-first));
            return first;
        }
        say("cutrace: cannot write %s: %s; writing %s\n", CT_TEXT(OUTPUT), reason(-first), file);
    }
    fd = out_of_the_way(rc);
    if (fstat(fd, &st)) {
        close(fd);
        fd = -1;
        return -EIO;
    }
    device = st.st_dev;
    inode = st.st_ino;
    good_end = 0;
    said_errno = 0;
    make_absolute(file);
    return 0;
}

const char *ct_output_path(void) {
    return path;
}

uint64_t ct_output_bytes(void) {
    return good_end;
}

// ---- writing --------------------------------------------------------------------------------

static int is_ours(int some_fd) {
    struct stat st;
    return !fstat(some_fd, &st) && st.st_dev == device && st.st_ino == inode;
}

// The host may have closed our descriptor, and its number may now be a file of the host's.
static int still_ours(void) {
    if (fd >= 0 && is_ours(fd))
        return 0;
    fd = -1;
    const int again = *path ? open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY) : -1;
    if (again < 0)
        return -EBADF;
    if (!is_ours(again)) {
        close(again);
        return -EBADF;
    }
    fd = out_of_the_way(again);
    return 0;
}

// At an explicit offset: a position shared with a forked process, or moved by the host, does not
// matter.
static int write_at(uint64_t offset, const char *data, size_t n) {
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

static int say_failure(int error) {
    if (error != said_errno)
        say("cutrace: cannot write to %s: %s; events may be lost\n", path, reason(error));
    said_errno = error;
    return -error;
}

int ct_output_append(const void *data, size_t n) {
    int rc = still_ours();
    if (!rc && (rc = write_at(good_end, data, n)))
        (void)!ftruncate(fd, (off_t)good_end); // a part of a chunk would be in the way of `zstd -t`
    if (rc)
        return say_failure(-rc);
    good_end += n;
    return 0;
}

int ct_output_patch(uint64_t offset, const void *data, size_t n) {
    const int rc = still_ours();
    return rc ? rc : offset + n > good_end ? -EINVAL : write_at(offset, data, n);
}

void ct_output_forked(void) {
    if (fd >= 0 && is_ours(fd))
        close(fd);
    fd = -1;
    *path = 0;
    good_end = 0;
}
