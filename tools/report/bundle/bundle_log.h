// SPDX-License-Identifier: Apache-2.0
// The server's log, and its metrics, in a bundle: its lines with the pseudonyms of the traces.
#ifndef CT_BUNDLE_LOG_H
#define CT_BUNDLE_LOG_H

#include "base/memory_file.h"
#include "cli/arguments.h"
#include "copy/scrub.h"

struct ct_bundle_log {
    char name[24];         // in the zip file
    struct ct_buffer text; // as read; after ct_bundle_logs_scrub with pseudonyms
    // Of a file in memory that has the scrubbed text, as views read it.
    char path[CT_MEMORY_FILE_PATH];
    int fd;
};

struct ct_bundle_logs {
    struct ct_bundle_log list[2];
    int count;
};

// Reads what --log names: the first MiB and the last 4 of what is longer. Users whose homes it
// names are learned. 0, or -1 with an error.
int ct_bundle_logs_read(struct ct_bundle_logs *l, const struct ct_arguments *o, struct ct_scrub *s,
                        struct ct_error *error);
// To be called when all traces and logs are learned.
void ct_bundle_logs_scrub(struct ct_bundle_logs *l, struct ct_scrub *s);
void ct_bundle_logs_free(struct ct_bundle_logs *l);

#endif
