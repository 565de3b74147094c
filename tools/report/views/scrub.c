// SPDX-License-Identifier: Apache-2.0
// scrub: writes a copy of the trace without names that say who or where. Nothing is written while a
// name is left.
#include <inttypes.h>

#include "base/utf8.h"
#include "print/document.h"
#include "print/label.h"
#include "print/new_trace.h"
#include "views/views.h"

static void print_json(struct ct_view *v, const struct ct_scrub *s, uint64_t bytes) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin_bare(j, v);
    if (v->options->dry_run)
        ct_json_null(j, "output");
    else
        ct_json_text(j, "output", v->options->output);
    ct_json_number(j, "bytes", bytes);
    ct_json_text(j, "level", ct_scrub_level_name(s->level));
    ct_json_open(j, "replaced", '[');
    for (unsigned i = 0; i < CT_SCRUB_CLASS_COUNT; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "class", ct_scrub_class_name((enum ct_scrub_class)i));
        ct_json_number(j, "names", s->replaced[i]);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_document_end(j);
}

static void print_text(struct ct_view *v, const struct ct_scrub *s, uint64_t bytes) {
    if (v->options->dry_run) {
        fprintf(v->out, "level %s would replace", ct_scrub_level_name(s->level));
    } else {
        fputs("wrote ", v->out);
        ct_utf8_print_sanitized(v->out, v->options->output, strlen(v->options->output));
        fprintf(v->out, " (%s): level %s replaced", ct_label_size(v, bytes).text,
                ct_scrub_level_name(s->level));
    }
    fputs(" these different names:\n", v->out);
    for (unsigned i = 0; i < CT_SCRUB_CLASS_COUNT; i++)
        fprintf(v->out, "%8" PRIu64 "  %s\n", s->replaced[i],
                ct_scrub_class_plural((enum ct_scrub_class)i));
    if (v->options->dry_run)
        fputs("nothing was written\n", v->out);
}

// Copies the file in memory to its place.
static int write_copy(const struct ct_memory_copy *copy, const char *path, struct ct_error *error) {
    const struct ct_source from = {
        .name = path, .fd = copy->fd, .bytes = copy->bytes, .file_bytes = copy->bytes};
    struct ct_new_file file;
    if (ct_new_file_open(&file, path) || ct_new_file_copy(&file, &from, 0, copy->bytes) ||
        ct_new_file_commit(&file)) {
        *error = file.error;
        return -1;
    }
    return 0;
}

int ct_view_scrub(struct ct_view *v) {
    const struct ct_arguments *o = v->options;
    struct ct_copy_request request = {.to_ns = UINT64_MAX};
    struct ct_memory_copy copy = {.fd = -1};
    struct ct_scrub s;
    struct ct_error error;
    ct_scrub_init(&s, o->level ? o->level : CT_SCRUB_PATHS, o->salt, o->words);
    int rc = o->dry_run ? ct_new_trace_check_end(v, &error) : ct_new_trace_check(v, &error);
    if (!rc) {
        ct_scrub_learn(&s, &v->trace->definitions);
        rc = ct_new_trace_in_memory(v->trace, &request, &s, &copy, &error);
    }
    if (!rc && !o->dry_run)
        rc = write_copy(&copy, o->output, &error);
    if (rc)
        ct_terminal_warn(error.text);
    else if (o->json)
        print_json(v, &s, copy.bytes);
    else
        print_text(v, &s, copy.bytes);
    ct_new_trace_close(&copy);
    ct_scrub_free(&s);
    return rc ? (int)error.status : CT_EXIT_OK;
}
