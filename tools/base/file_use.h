// SPDX-License-Identifier: Apache-2.0
// Whether any process can still write to a file: one that has it open for writing, or mapped. The
// kernel is asked, so the answer holds across containers, whose processes do not see each other's
// pids, and a recorder needs nothing for it: its journal is mapped as long as it lives.
#ifndef CT_FILE_USE_H
#define CT_FILE_USE_H

enum ct_file_use {
    CT_FILE_USE_UNKNOWN, // another user's file, or of a file system that cannot tell
    CT_FILE_IN_USE,
    CT_FILE_UNUSED,
};

// `fd` is open for reading alone. Not to be asked about a file that a process which lives opens for
// writing now and then: it could have to wait for the answer.
enum ct_file_use ct_file_use_find(int fd);

#endif
