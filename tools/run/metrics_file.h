// SPDX-License-Identifier: Apache-2.0
// What is kept of a server's metrics, and the file that it goes to.
#ifndef CT_METRICS_FILE_H
#define CT_METRICS_FILE_H

#include <stddef.h>
#include <stdint.h>

// ---- what is kept -------------------------------------------------------------------------------

// Keeps of a server's Prometheus page what a file for a bug report may have: the metrics of
// base/metrics.def, each as its name, the number of its engine, the labels of that table, if they
// are numbers, and its value. Everything else, which can name models, paths, hosts and adapters, is
// dropped.

enum { CT_METRICS_KEPT = 1 << 16 };

// Returns the bytes of `kept`: lines of samples, each with its end; more are dropped. Changes the
// page, of n bytes and a NUL.
size_t ct_metrics_filter(char *page, size_t n, char kept[CT_METRICS_KEPT]);

// ---- the file -----------------------------------------------------------------------------------

// A file of scrapes, as `cutrace-report --log` reads it: each after a line "# scraped SECONDS". It
// holds whole scrapes only, whatever happens: a write that fails is taken back.

struct ct_metrics_file {
    const char *path;
    int fd;
    uint64_t bytes, most_bytes;
};

// Opens a new file, or one that this program has written, to go on with it. Returns 0, or -1 with
// errno set; EEXIST: it is another program's.
int ct_metrics_file_open(struct ct_metrics_file *f, const char *path, uint64_t most_bytes);
// Appends a scrape that was made at a time of day. When the file is full, the older half of it is
// dropped. Returns 0, or -1 with errno set: then the file is as it was.
int ct_metrics_file_add(struct ct_metrics_file *f, uint64_t utc_ns, const char *lines, size_t n);
int ct_metrics_file_close(struct ct_metrics_file *f);

#endif
