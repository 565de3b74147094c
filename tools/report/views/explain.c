// SPDX-License-Identifier: Apache-2.0
#include "views/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "diagnose/text_verdicts.h"
#include "read/file_kind.h"
#include "text/read_text.h"
#include "views/document.h"
#include "views/explain_snapshot.h"
#include "views/explain_trace.h"
#include "views/log_json.h"
#include "views/log_text.h"
#include "views/verdicts_json.h"
#include "views/verdicts_text.h"

static const char adds[] =
    "which call sites held the device when it failed, what PyTorch's pool and everything outside "
    "of it had, who else was there, and what grew before";

int ct_view_explain(struct ct_view *v) {
    return ct_explain_trace(v);
}

int ct_explain_is_trace(const char *path) {
    char begin[CT_FILE_KIND_BYTES];
    struct stat st;
    const int is_input = strcmp(path, "-") == 0;
    const int fd =
        is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n = -1;
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = pread(fd, begin, sizeof begin, 0);
    if (!is_input)
        close(fd);
    return n > 0 && ct_file_kind_find(begin, (size_t)n) == CT_FILE_TRACE;
}

static void print_json(const struct ct_view *v, const char *path, const struct ct_text_facts *f,
                       const struct ct_verdicts *l) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", "cutrace.explain/2");
    ct_json_text(j, "file", path);
    ct_verdicts_add_json(j, "verdicts", l, NULL);
    ct_log_add_json(j, "log", f, v->options);
    ct_json_null(j, "snapshot");
    ct_json_text(j, "trace_would_add", adds);
    ct_json_text(j, "record", CT_EXPLAIN_RECORD);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

static void print_text(struct ct_view *v, const struct ct_text_facts *f,
                       const struct ct_verdicts *l) {
    ct_verdicts_print(v, l, 3);
    fprintf(v->out, "from %s line%s of text, %s of them known; no trace was read\n",
            ct_human_count(f->lines).text, ct_human_plural(f->lines),
            ct_human_count(f->found).text);
    (void)ct_log_print(v, f);
    fprintf(v->out, "a trace would add: " CT_WRAP_HANG "%s\n", adds);
    fprintf(v->out, "to record one:     %s, then cutrace-report TRACE\n", CT_EXPLAIN_RECORD);
}

static void explain_text(struct ct_view *v, const char *path, const struct ct_text_facts *f) {
    struct ct_verdicts l = {0};
    ct_text_verdicts_find(f, &l);
    v->out = v->options->json ? stdout : ct_terminal_open_text(v->terminal, stdout);
    if (v->options->json)
        print_json(v, path, f, &l);
    else
        print_text(v, f, &l);
    ct_verdicts_free(&l);
}

static int fail_read(const char *path, struct ct_error *error) {
    return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: %s", path, strerror(errno));
}

static int read_text(struct ct_view *v, const char *path, const char *ahead, size_t n, FILE *in,
                     struct ct_error *error) {
    struct ct_text_facts f;
    ct_text_facts_init(&f);
    const int status = ct_read_text_rest(ahead, n, in, &f) ? fail_read(path, error) : 0;
    if (!status)
        explain_text(v, path, &f);
    ct_text_facts_free(&f);
    return status;
}

// Explains a stream by what its first bytes say that it is.
static int explain(struct ct_view *v, const char *path, FILE *in, struct ct_error *error) {
    char ahead[CT_READ_TEXT_AHEAD];
    const size_t n = fread(ahead, 1, sizeof ahead, in);
    const enum ct_file_kind kind = ct_file_kind_find(ahead, n);
    if (ferror(in))
        return fail_read(path, error);
    switch (kind) {
    case CT_FILE_TEXT:
        return read_text(v, path, ahead, n, in, error);
    case CT_FILE_PICKLE:
        return ct_explain_snapshot(v, path, ahead, n, in, error);
    default:
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: %s", path,
                            ct_file_kind_remedy(kind));
    }
}

int ct_explain_print(const struct ct_arguments *o, const struct ct_terminal *terminal,
                     const char *path, struct ct_error *error) {
    struct ct_view v = {.options = o, .terminal = terminal};
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    const int status = in ? explain(&v, path, in, error) : fail_read(path, error);
    if (v.out && v.out != stdout)
        fclose(v.out);
    if (in && in != stdin)
        fclose(in);
    return status ? (int)error->status : CT_EXIT_OK;
}
