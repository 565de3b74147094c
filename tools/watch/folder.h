// SPDX-License-Identifier: Apache-2.0
// What cutrace has in a folder: files of this user, known by their first bytes and not by their
// names alone. Nothing else counts, and nothing else is removed. No link is followed.
#ifndef CT_WATCH_FOLDER_H
#define CT_WATCH_FOLDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/map.h"

// Whether a file is a trace, by its first bytes: what is none is never written to, nor removed.
enum ct_trace_magic {
    CT_TRACE_MAGIC_NONE,
    CT_TRACE_MAGIC_EMPTY, // no byte yet: a trace only if its journal says so
    CT_TRACE_MAGIC_FREE,  // free space, maybe a chunk once: a trace only if its journal says so
    CT_TRACE_MAGIC_CHUNK,
};

// `fd`: open for reading.
enum ct_trace_magic ct_trace_magic_find(int fd);

// A bundle that was made here is TRACE.oom.zip; while it is written, TRACE.oom.zip.PID.part.
#define CT_FOLDER_BUNDLE_SUFFIX ".oom.zip"

enum ct_folder_kind { CT_FOLDER_NONE, CT_FOLDER_TRACE, CT_FOLDER_JOURNAL, CT_FOLDER_BUNDLE };

struct ct_folder_file {
    enum ct_folder_kind kind;
    char *name;
    uint64_t bytes;     // that it takes on the disk
    int64_t changed_ns; // its last change
    dev_t device;
    ino_t inode;
};

struct ct_folder {
    int fd;
    struct ct_folder_file *files; // the oldest first
    size_t count, room;
    uint64_t bytes; // of all
};

// 0, or -1: the folder cannot be read.
int ct_folder_read(struct ct_folder *f, const char *path);
// Opens a file of this user, if it is a regular one. -1: it is none.
int ct_folder_open_own(int folder, const char *name, struct stat *st);
// Whether a file lies there that has the name of a trace with this ending: a file, or a link,
// wherever that leads.
int ct_folder_has(int folder, const char *name, const char *suffix);
// Whether it is such a file, and no process has it open for writing or mapped.
int ct_folder_is_unused(int folder, const char *name);
// Of a file as it is now: another one after each change.
uint64_t ct_folder_hash(const struct ct_folder_file *f);
void ct_folder_free(struct ct_folder *f);

// ---- finished traces ----------------------------------------------------------------------------

// Their recording is over for certain.

// Whether nothing writes the trace any more: it has an end, or its process left its journal, and no
// process has one of both open for writing or mapped.
int ct_finished_is(int folder, const char *path, const char *name);
// Of a trace whose journal is gone: whether it was sealed, so that its process had been killed.
int ct_finished_was_sealed(const char *folder, const char *name, uid_t owner);

// ---- what failed in a trace for want of memory --------------------------------------------------

enum ct_failures {
    CT_FAILURES_NONE = 1,
    CT_FAILURES_HEALED, // calls did, but a retry or a later request got the memory
    CT_FAILURES_LASTING,
};

// By the trace with its journal; none also where they cannot be read.
enum ct_failures ct_failures_read(int folder, const char *path, const char *name);
// The same of a finished trace. `known` remembers it by the hash of the file.
enum ct_failures ct_failures_find(struct ct_map *known, const struct ct_folder *folder,
                                  const char *path, const struct ct_folder_file *f);

#endif
