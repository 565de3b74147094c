// SPDX-License-Identifier: Apache-2.0
#include "answer/new_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer/time_range.h"
#include "read/new_file.h"

// Whether two paths name one file.
static int is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int ct_new_trace_check_output(const char *trace, const struct ct_arguments *o,
                              struct ct_error *error) {
    const char *command = ct_argument_table_name(o->command);
    if (!o->output)
        return ct_error_set(error, CT_EXIT_USAGE, "%s: name the new file with --output=FILE",
                            command);
    if (is_same_file(trace, o->output))
        return ct_error_set(error, CT_EXIT_USAGE, "%.400s: is the trace itself; name another file",
                            o->output);
    if (ct_new_file_would_replace(o->output) && !o->force)
        return ct_error_set(error, CT_EXIT_USAGE, "%.400s: exists already; --force replaces it",
                            o->output);
    return 0;
}

int ct_new_trace_check_end(const struct ct_view *v, struct ct_error *error) {
    const struct ct_trace *t = v->trace;
    if (t->journal_found < 0)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s", t->journal_error.text);
    if (t->running)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%.400s: process %" PRIu32 " is still recording; end it first",
                            t->source.name, t->journal.head.pid);
    return 0;
}

int ct_new_trace_check(const struct ct_view *v, struct ct_error *error) {
    return ct_new_trace_check_output(v->trace->source.name, v->options, error) ||
                   ct_new_trace_check_end(v, error)
               ? -1
               : 0;
}

int ct_new_trace_around(struct ct_view *v, uint64_t around_ns, struct ct_copy_request *request) {
    struct ct_key_times times = {.is_read = 0};
    ct_time_range_read_key_times(v, &times);
    if (!times.has_crossing && !times.has_peak)
        return -1;
    const uint64_t at = times.has_crossing ? times.crossing_ns : times.peak_ns;
    request->from_ns = at > around_ns ? at - around_ns : 0;
    request->to_ns = at > UINT64_MAX - around_ns ? UINT64_MAX : at + around_ns;
    return 0;
}

int ct_new_trace_prepare(struct ct_view *v, struct ct_copy_request *request,
                         struct ct_source_locations *lines, struct ct_error *error) {
    const struct ct_arguments *o = v->options;
    struct ct_error warning; // (the list of modules without lines says more)
    request->from_ns = v->from_ns;
    request->to_ns = v->to_ns;
    if (o->symbolize && ct_libdw_missing())
        return ct_error_set(error, CT_EXIT_USAGE, "--symbolize: source lines are not available: %s",
                            ct_libdw_missing());
    if (o->symbolize)
        (void)ct_source_locations_look_up(&v->trace->definitions, v->trace->source.name, &o->lines,
                                          lines, &warning);
    return 0;
}

// ---- in memory ----------------------------------------------------------------------------------

static int put_memory(void *user, const void *bytes, size_t n) {
    struct ct_memory_copy *copy = user;
    for (size_t done = 0; done < n;) {
        const ssize_t got = write(copy->fd, (const char *)bytes + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    copy->bytes += n;
    return 0;
}

// Opens the copy as a trace of this name, which must last. 0, or -1 with an error.
static int open_copy(const struct ct_memory_copy *copy, const char *name, struct ct_trace *t,
                     struct ct_error *error) {
    t->source = (struct ct_source){.name = name,
                                   .fd = fcntl(copy->fd, F_DUPFD_CLOEXEC, 3),
                                   .bytes = copy->bytes,
                                   .file_bytes = copy->bytes};
    t->journal.file.fd = -1;
    return ct_trace_open_source(t, error);
}

// Reads what was written: the bodies, and each string by itself.
static const char *find_left(struct ct_trace *t, const struct ct_scrub *scrub) {
    const struct ct_definitions *n = &t->definitions;
    const char *left = NULL;
    for (size_t i = 1; i < n->string_count && !left; i++)
        left = ct_scrub_find(scrub, n->strings[i].at, n->strings[i].length, 1);
    for (size_t i = 0; i < t->index.count && !left; i++) {
        struct ct_in body;
        if (ct_trace_read_body(t, i, &body))
            return "an unreadable chunk";
        left = ct_scrub_find(scrub, body.at, (size_t)(body.end - body.at), 0);
    }
    return left;
}

// The second pass.
static int check_names(const struct ct_memory_copy *copy, const struct ct_trace *of,
                       const struct ct_scrub *scrub, struct ct_error *error) {
    struct ct_trace t = {.no_journal = 1};
    int rc = open_copy(copy, of->source.name, &t, error);
    const char *left = rc ? NULL : find_left(&t, scrub);
    if (left)
        rc = ct_error_set(error, CT_EXIT_OUTPUT,
                          "%.300s: nothing is written: after scrubbing, %.100s is still in it; "
                          "--scrub=strict replaces more, or report this",
                          of->source.name, left);
    ct_trace_close(&t);
    return rc;
}

int ct_new_trace_in_memory(struct ct_trace *t, struct ct_copy_request *request,
                           struct ct_scrub *scrub, struct ct_memory_copy *copy,
                           struct ct_error *error) {
    signal(SIGXFSZ, SIG_IGN); // a limit of file sizes counts for memory, too
    *copy = (struct ct_memory_copy){.fd = memfd_create("trace", MFD_CLOEXEC)};
    *error = (struct ct_error){.status = CT_EXIT_OUTPUT};
    request->put = put_memory;
    request->user = copy;
    if (scrub && scrub->level != CT_SCRUB_NO) {
        scrub->names = &t->definitions;
        request->rename = ct_scrub_rename;
        request->rename_info = ct_scrub_rename_info;
        request->rename_user = scrub;
        request->level = ct_scrub_level_name(scrub->level);
    }
    int rc = copy->fd < 0 ? -1 : ct_copy_trace(t, request, &copy->copied, error);
    if (rc && !*error->text)
        (void)ct_error_set(error, CT_EXIT_OUTPUT, "%.400s: cannot be copied in memory: %s",
                           t->source.name, strerror(errno));
    if (!rc && request->rename)
        rc = check_names(copy, t, scrub, error);
    if (rc)
        ct_new_trace_close(copy);
    return rc ? -1 : 0;
}

void ct_new_trace_close(struct ct_memory_copy *copy) {
    if (copy->fd >= 0)
        close(copy->fd);
    copy->fd = -1;
}

// ---- names --------------------------------------------------------------------------------------

int ct_output_name(const struct ct_arguments *o, const char *trace, const char *ending, char *to,
                   size_t size, struct ct_error *error) {
    const char *slash = strrchr(trace, '/'), *name = slash ? slash + 1 : trace;
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, ".zst") == 0)
        length -= 4;
    const int n = o->output ? snprintf(to, size, "%s", o->output)
                            : snprintf(to, size, "%.*s%s", (int)length, name, ending);
    if (!o->output && strcmp(trace, "-") == 0)
        return ct_error_set(error, CT_EXIT_USAGE, "%s: name the new file with --output=FILE",
                            ct_argument_table_name(o->command));
    if (n < 0 || (size_t)n >= size)
        return ct_error_set(error, CT_EXIT_OUTPUT, "%.400s: the name is too long", to);
    if (strcmp(to, "-") != 0 && ct_new_file_would_replace(to) && !o->force)
        return ct_error_set(error, CT_EXIT_USAGE, "%.400s: exists already; --force replaces it",
                            to);
    return 0;
}
