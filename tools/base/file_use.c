// SPDX-License-Identifier: Apache-2.0
// A lease for reading (fcntl(2), F_SETLEASE) is granted only where no open file of the inode may
// write, and a shared mapping keeps its file open until the process has given up its memory. The
// lease is given back at once. A program that opens the file for writing in between waits for that.
#include "base/file_use.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/vfs.h>

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
