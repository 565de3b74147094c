// SPDX-License-Identifier: Apache-2.0
// export: writes the trace in the format of another tool.
#include <inttypes.h>

#include "answer/output_name.h"
#include "base/utf8.h"
#include "export/tables.h"
#include "print/document.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "read/new_file.h"
#include "views/export_torch.h"
#include "views/views.h"

enum { BUFFER = 1 << 16 }; // of a stream

#define CT_WRITER_STREAM(name) ct_export_write_##name
#define CT_WRITER_FILE(name) ct_export_write_##name
#define CT_WRITER_SNAPSHOT(name) NULL
static ct_export_write *const writers[CT_EXPORT_FORMATS] = {
#define CT_EXPORT_FORMAT(name, ending, output, options, help) CT_WRITER_##output(name),
#include "export/formats.def"
};

struct job {
    struct ct_export x;
    struct ct_new_file file;
    struct ct_error error;
    char path[4200];
};

// ---- the file -----------------------------------------------------------------------------------

// After the first failure the file is closed, and nothing more is written.
static ssize_t write_bytes(void *cookie, const char *bytes, size_t n) {
    struct ct_new_file *file = cookie;
    return file->fd < 0 || ct_new_file_write(file, bytes, n) ? 0 : (ssize_t)n;
}

// A stream into the file, which must be open, and stay so until the stream is closed. A failed
// write is an error of the stream (ferror), and `error` of the file has the reason.
static FILE *open_stream(struct ct_new_file *file) {
    FILE *out = fopencookie(file, "w", (cookie_io_functions_t){.write = write_bytes});
    if (!out)
        ct_heap_exhausted();
    (void)setvbuf(out, NULL, _IOFBF, BUFFER);
    return out;
}

static int write_stream(struct job *j, ct_export_write *write) {
    j->x.out = open_stream(&j->file);
    int rc = write(&j->x, &j->error);
    if ((fclose(j->x.out) || j->file.fd < 0) && !rc) {
        j->error = j->file.error;
        rc = -1;
    }
    return rc;
}

static int write_file(struct job *j, enum ct_export_format format) {
    const struct ct_export_format_row *row = &ct_export_formats[format];
    int rc = ct_new_file_open(&j->file, j->path);
    if (rc) {
        j->error = j->file.error;
        return rc;
    }
    ct_export_prepare(&j->x);
    j->x.file = &j->file;
    rc = row->output == CT_OUTPUT_STREAM ? write_stream(j, writers[format])
                                         : writers[format](&j->x, &j->error);
    if (rc)
        ct_new_file_discard(&j->file);
    else if ((rc = ct_new_file_commit(&j->file)))
        j->error = j->file.error;
    ct_export_release(&j->x);
    return rc;
}

// ---- what was written ---------------------------------------------------------------------------

static void print_text(const struct ct_view *v, const struct job *j) {
    ct_utf8_print_sanitized(v->out, j->path, strlen(j->path));
    fprintf(v->out, ": %s, %s\n", ct_label_size(v, j->file.bytes).text,
            ct_export_formats[v->options->format].help);
}

// The keys are those of every format; the snapshot for PyTorch has values for more of them.
static void print_json(const struct ct_view *v, const struct job *job) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_json_text(j, "output", job->path);
    ct_json_text(j, "format", ct_export_formats[v->options->format].name);
    ct_json_number(j, "bytes", job->file.bytes);
    ct_json_number(j, "entries", job->x.entries);
    ct_json_null(j, "from_event");
    ct_json_null(j, "to_event");
    ct_json_null(j, "oom_event");
    ct_document_add_recording(j, v->trace);
    ct_document_add_gap(j, v);
    ct_json_open(j, "devices", '[');
    ct_json_close(j, ']');
    ct_document_end(j);
}

static int export(struct ct_view *v, struct job *j) {
    j->x = (struct ct_export){.trace = v->trace,
                              .sites = v->sites,
                              .phases = v->phases,
                              .from_ns = v->from_ns,
                              .to_ns = v->to_ns,
                              .device = v->options->device,
                              .wanted = ct_view_scan_wanted_moment(v->options, CT_MOMENT_OOM),
                              .at = v->at,
                              .table = v->options->table};
    if (write_file(j, v->options->format)) {
        ct_terminal_warn(j->error.text);
        return (int)j->error.status;
    }
    if (v->options->json)
        print_json(v, j);
    else
        print_text(v, j);
    return CT_EXIT_OK;
}

int ct_view_export(struct ct_view *v) {
    struct job *j = ct_heap_alloc_zeroed(1, sizeof *j);
    const enum ct_export_format format = v->options->format;
    int status;
    if (ct_output_name(v->options, v->trace->source.name, ct_export_formats[format].ending, j->path,
                       sizeof j->path, &j->error)) {
        ct_terminal_warn(j->error.text);
        status = (int)j->error.status;
    } else if (ct_export_formats[format].output == CT_OUTPUT_SNAPSHOT) {
        status = ct_export_torch(v, j->path);
    } else {
        status = export(v, j);
    }
    free(j);
    return status;
}
