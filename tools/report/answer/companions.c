// SPDX-License-Identifier: Apache-2.0
#include "answer/companions.h"

#include <errno.h>
#include <string.h>

#include "base/input_file.h"
#include "diagnose/log_owners.h"
#include "read/file_kind.h"
#include "text/read_text.h"

// Opens a text, or NULL with the error set.
static FILE *open_file(const char *path, enum ct_file_kind *kind, struct ct_error *error) {
    const char *why;
    char first[CT_FILE_KIND_BYTES];
    FILE *in = ct_input_file_open_seekable(path, &why);
    if (!in) {
        (void)ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: cannot be opened: %s", path, why);
        return NULL;
    }
    const size_t n = fread(first, 1, sizeof first, in);
    rewind(in);
    *kind = ct_file_kind_find(first, n);
    if (*kind == CT_FILE_TEXT || *kind == CT_FILE_METRICS)
        return in;
    (void)ct_error_set(
        error, CT_EXIT_BAD_TRACE,
        "%.400s: is no text; unpack it first (zstd -d, gunzip), or name another file", path);
    fclose(in);
    return NULL;
}

// Reads a log, or metrics. Returns 0, or -1 with errno set.
static int read_open_file(struct ct_companions *c, FILE *in, enum ct_file_kind kind) {
    if (kind == CT_FILE_METRICS) {
        c->has_metrics = 1;
        return ct_metrics_read(in, &c->metrics);
    }
    c->has_log = 1;
    ct_text_facts_init(&c->log);
    return ct_read_text_by_process(in, &c->log, &c->log_lines);
}

static int read_file(struct ct_companions *c, const char *path, struct ct_error *error) {
    enum ct_file_kind kind;
    FILE *in = open_file(path, &kind, error);
    int failed;
    if (!in)
        return -1;
    if (kind == CT_FILE_METRICS ? c->has_metrics : c->has_log)
        failed = ct_error_set(error, CT_EXIT_USAGE, "%.400s: a second file of %s; --log takes one",
                              path, kind == CT_FILE_METRICS ? "metrics" : "a log");
    else if ((failed = read_open_file(c, in, kind)))
        (void)ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: %s", path, strerror(errno));
    fclose(in);
    return failed;
}

int ct_companions_read(const struct ct_arguments *o, struct ct_companions *c,
                       struct ct_error *error) {
    *c = (struct ct_companions){0};
    for (int i = 0; i < 2 && o->log[i]; i++)
        if (read_file(c, o->log[i], error)) {
            ct_companions_free(c);
            return -1;
        }
    return 0;
}

void ct_companions_choose_lines(struct ct_companions *c, const struct ct_trace *t) {
    struct ct_process process = {0};
    struct ct_text_facts chosen;
    if (!c->has_log)
        return;
    ct_process_identify(&process, t);
    c->left_out_lines = ct_log_owners_read_one(&c->log_lines, &process, &c->log, &chosen);
    ct_process_free(&process);
    if (!c->left_out_lines)
        return;
    ct_text_facts_free(&c->log);
    c->log = chosen;
}

void ct_companions_free(struct ct_companions *c) {
    if (c->has_log)
        ct_text_facts_free(&c->log);
    if (c->has_metrics)
        ct_metrics_free(&c->metrics);
    ct_process_lines_free(&c->log_lines);
    *c = (struct ct_companions){0};
}
