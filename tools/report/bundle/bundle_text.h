// SPDX-License-Identifier: Apache-2.0
// What a bundle says of its traces: the page, and the summary as Markdown and as JSON. All of it is
// read from the copies that the bundle holds.
#ifndef CT_BUNDLE_TEXT_H
#define CT_BUNDLE_TEXT_H

#include "base/input_file.h"
#include "cli/arguments.h"
#include "copy/scrub.h"
#include "views/copy.h"

// The server's log, and its metrics, in a bundle: its lines with the pseudonyms of the traces.

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

// A file of the bundle.
struct ct_bundle_text {
    char name[24]; // in the zip file
    char *at;
    size_t bytes;
    struct ct_buffer deflated; // as ct_zip_deflate leaves it
};

// How much time around the failure is kept; 0: all.
struct ct_bundle_cut {
    uint64_t before_ns, after_ns;
};

struct ct_bundle {
    const struct ct_arguments *options;
    const struct ct_phase_rules *rules;
    int has_texts; // else it has traces only
    struct ct_scrub scrub;
    struct ct_bundle_logs logs;
    struct ct_bundle_trace {
        char name[24]; // in the zip file; the copy is a source of this name
        struct ct_memory_copy copy;
    } * traces;                 // by path of the options
    struct ct_copy_part *parts; // the same, for what copy says
    struct ct_bundle_cut cut;
    struct ct_bundle_text *texts; // in the order of the file
    size_t text_count;
    uint64_t bytes; // of the file
};

// Makes the texts anew. 0, or -1 with an error: a name is left in one.
int ct_bundle_texts_make(struct ct_bundle *b, struct ct_error *error);
void ct_bundle_text_free(struct ct_bundle_text *t);
void ct_bundle_texts_free(struct ct_bundle *b);
// Says what was cut. Returns 0 if nothing was.
int ct_bundle_describe_cut(const struct ct_bundle *b, char *to, size_t size);

#endif
