// SPDX-License-Identifier: Apache-2.0
// Reads the names in a folder without the host's heap: readdir(3) allocates. Any thread.
#ifndef CT_BASE_READ_FOLDER_H
#define CT_BASE_READ_FOLDER_H

// Calls `visit` for each name in the open folder, "." and ".." too, until it returns other than 0.
void ct_read_folder(int fd, int (*visit)(void *user, const char *name), void *user);

#endif
