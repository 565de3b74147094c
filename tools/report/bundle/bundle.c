// SPDX-License-Identifier: Apache-2.0
// Traces are copied in memory, without names; what the other files say is read from the copies. So
// it is what a reader of the zip file sees, too.
#include "bundle/bundle.h"

#include <inttypes.h>
#include <string.h>

#include "answer/new_trace.h"
#include "answer/time_range.h"
#include "base/checksum.h"
#include "base/utf8.h"
#include "base/version.h"
#include "bundle/bundle_text.h"
#include "copy/zip_write.h"
#include "symbols/source_locations.h"
#include "views/views.h"

#define SECOND UINT64_C(1000000000)

enum { MANIFEST_ROOM = 4096 };

// ---- copies -------------------------------------------------------------------------------------

static int open_trace(const struct ct_bundle *b, struct ct_trace *t, int i,
                      struct ct_error *error) {
    *t = (struct ct_trace){.details = 1, .no_journal = b->options->no_journal};
    if (ct_trace_open(t, b->options->paths[i], error))
        return -1;
    const struct ct_view v = {.trace = t};
    const int may_run = b->options->while_running && t->journal_found >= 0;
    return may_run ? 0 : ct_new_trace_check_end(&v, error);
}

// All traces and logs first: a user whom one names is looked for in all.
static int learn(struct ct_bundle *b, struct ct_error *error) {
    for (int i = 0; i < b->options->path_count; i++) {
        struct ct_trace t;
        const int rc = open_trace(b, &t, i, error);
        if (!rc)
            ct_scrub_learn(&b->scrub, &t.definitions);
        ct_trace_close(&t);
        if (rc)
            return -1;
    }
    if (ct_bundle_logs_read(&b->logs, b->options, &b->scrub, error))
        return -1;
    ct_bundle_logs_scrub(&b->logs, &b->scrub);
    return 0;
}

// The range around the failure; a trace without one is not cut.
static void narrow(const struct ct_bundle *b, struct ct_trace *t, struct ct_copy_request *request) {
    struct ct_view v = {.options = b->options, .trace = t, .to_ns = UINT64_MAX};
    if (ct_new_trace_around(&v, b->cut.before_ns, request) == 0 && !b->cut.after_ns)
        request->to_ns = UINT64_MAX;
}

// Source lines are always added to a bundle, and to a copy if they are asked for.
static int prepare(struct ct_bundle *b, int i, struct ct_trace *t, struct ct_copy_request *request,
                   struct ct_error *error) {
    struct ct_view v = {.options = b->options, .trace = t};
    if (!b->has_texts)
        return ct_time_range_resolve(&v, error) ||
                       ct_new_trace_prepare(&v, request, &b->parts[i].lines, error)
                   ? -1
                   : 0;
    if (ct_source_locations_look_up(&t->definitions, t->source.name, &b->options->lines, NULL,
                                    error))
        ct_terminal_warn(error->text);
    if (b->cut.before_ns)
        narrow(b, t, request);
    return 0;
}

static int copy_trace(struct ct_bundle *b, int i, struct ct_error *error) {
    struct ct_copy_request request = {.to_ns = UINT64_MAX};
    struct ct_copy_part *part = &b->parts[i];
    struct ct_trace t;
    int rc = open_trace(b, &t, i, error);
    if (!rc)
        rc = prepare(b, i, &t, &request, error);
    if (!rc)
        rc = ct_new_trace_in_memory(&t, &request, &b->scrub, &b->traces[i].copy, error);
    part->copied = b->traces[i].copy.copied;
    ct_copy_part_note(part, &t);
    ct_trace_close(&t);
    return rc;
}

static void close_copies(struct ct_bundle *b) {
    for (int i = 0; i < b->options->path_count; i++)
        ct_new_trace_close(&b->traces[i].copy);
}

// Copies all traces, and gives the copies their names in the zip file.
static int copy_all(struct ct_bundle *b, struct ct_error *error) {
    close_copies(b);
    for (int i = 0; i < b->options->path_count; i++) {
        struct ct_bundle_trace *t = &b->traces[i];
        if (copy_trace(b, i, error))
            return -1;
        ct_source_add_name(t->name, t->copy.fd, 0, t->copy.bytes);
    }
    return 0;
}

// ---- sizes --------------------------------------------------------------------------------------

static uint64_t size_of(const struct ct_bundle *b) {
    uint64_t bytes = 22 + MANIFEST_ROOM;
    for (int i = 0; i < b->options->path_count; i++)
        bytes += b->traces[i].copy.bytes + ct_zip_writer_overhead(b->traces[i].name) + 256;
    for (size_t i = 0; i < b->text_count; i++) { // (a line of the manifest, too)
        const struct ct_bundle_text *t = &b->texts[i];
        bytes += (t->deflated.n ? t->deflated.n : t->bytes) + ct_zip_writer_overhead(t->name) + 256;
    }
    return bytes;
}

// Cuts more and more until the size fits: the time before the failure first.
static int make_fitting(struct ct_bundle *b, struct ct_error *error) {
    static const struct ct_bundle_cut cuts[] = {{0, 0},
                                                {600 * SECOND, 0},
                                                {60 * SECOND, 0},
                                                {60 * SECOND, 60 * SECOND},
                                                {10 * SECOND, 10 * SECOND},
                                                {SECOND, SECOND},
                                                {SECOND / 10, SECOND / 10}};
    const size_t most = b->has_texts ? sizeof cuts / sizeof *cuts : 1;
    for (size_t i = 0; i < most; i++) {
        b->cut = cuts[i];
        if (copy_all(b, error) || (b->has_texts && ct_bundle_texts_make(b, error)))
            return -1;
        if (size_of(b) <= b->options->max_bytes)
            return 0;
    }
    return ct_error_set(error, CT_EXIT_OUTPUT,
                        "%.300s: nothing is written: it would have %s; name fewer traces, or allow "
                        "more with --max-size",
                        b->options->output, ct_human_bytes(size_of(b), b->options->units).text);
}

// ---- the file -----------------------------------------------------------------------------------

static void add_file(struct ct_json *j, const char *name, const struct ct_source *source) {
    static uint8_t block[1 << 16];
    uint8_t digest[CT_SHA256_BYTES];
    char text[CT_SHA256_TEXT];
    struct ct_sha256 h;
    size_t n;
    ct_sha256_begin(&h);
    for (uint64_t at = 0; (n = ct_source_read(source, at, block, sizeof block)) > 0; at += n)
        ct_sha256_add(&h, block, n);
    ct_sha256_end(&h, digest);
    ct_sha256_print(digest, text);
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "name", name);
    ct_json_number(j, "bytes", source->bytes);
    ct_json_text(j, "checksum", text);
}

static struct ct_source source_of(const struct ct_memory_copy *copy) {
    return (struct ct_source){.fd = copy->fd, .bytes = copy->bytes, .file_bytes = copy->bytes};
}

static struct ct_source source_of_text(const struct ct_bundle_text *t) {
    return (struct ct_source){
        .fd = -1, .memory = (uint8_t *)t->at, .bytes = t->bytes, .file_bytes = t->bytes};
}

static void add_files(struct ct_json *j, const struct ct_bundle *b) {
    ct_json_open(j, "files", '[');
    for (size_t i = 0; i < b->text_count; i++) {
        const struct ct_source s = source_of_text(&b->texts[i]);
        add_file(j, b->texts[i].name, &s);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "traces", '[');
    for (int i = 0; i < b->options->path_count; i++) {
        const struct ct_source s = source_of(&b->traces[i].copy);
        const struct ct_copied *c = &b->traces[i].copy.copied;
        add_file(j, b->traces[i].name, &s);
        ct_json_number(j, "events", c->events);
        ct_json_number(j, "events_before", c->before);
        ct_json_number(j, "events_after", c->after);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// What was done to the traces, and the files.
static void add_contents(struct ct_json *j, const struct ct_bundle *b) {
    ct_json_text(j, "scrub", ct_scrub_level_name(b->scrub.level));
    ct_json_number_or_null(j, "cut_before_ns", b->cut.before_ns != 0, b->cut.before_ns);
    ct_json_number_or_null(j, "cut_after_ns", b->cut.after_ns != 0, b->cut.after_ns);
    add_files(j, b);
}

static void make_manifest(const struct ct_bundle *b, struct ct_bundle_text *to) {
    FILE *out = ct_heap_open_text(&to->at, &to->bytes);
    struct ct_json json = {.out = out}, *j = &json;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", "cutrace.manifest/1");
    ct_json_text(j, "cutrace", CT_VERSION);
    ct_json_number(j, "trace_format", CT_FORMAT_VERSION);
    add_contents(j, b);
    ct_json_close(j, '}');
    ct_json_end_line(j);
    ct_heap_close_text(out);
}

static int write_entries(const struct ct_bundle *b, struct ct_zip_writer *z,
                         const struct ct_bundle_text *manifest) {
    if (ct_zip_writer_add(z, "MANIFEST.json", manifest->at, manifest->bytes, &manifest->deflated))
        return -1;
    for (size_t i = 0; i < b->text_count; i++)
        if (ct_zip_writer_add(z, b->texts[i].name, b->texts[i].at, b->texts[i].bytes,
                              &b->texts[i].deflated))
            return -1;
    for (int i = 0; i < b->options->path_count; i++) {
        struct ct_source s = source_of(&b->traces[i].copy);
        s.name = b->traces[i].name;
        if (ct_zip_writer_add_source(z, b->traces[i].name, &s))
            return -1;
    }
    return ct_zip_writer_end(z);
}

static int write_file(struct ct_bundle *b, struct ct_error *error) {
    struct ct_bundle_text manifest = {0};
    struct ct_new_file file;
    struct ct_zip_writer z = {.file = &file};
    make_manifest(b, &manifest);
    ct_zip_deflate(manifest.at, manifest.bytes, &manifest.deflated);
    const int rc = ct_new_file_open(&file, b->options->output) || write_entries(b, &z, &manifest) ||
                   ct_new_file_commit(&file);
    if (rc)
        *error = file.error;
    b->bytes = file.bytes;
    free(z.directory.at);
    ct_bundle_text_free(&manifest);
    return rc ? -1 : 0;
}

// ---- the command --------------------------------------------------------------------------------

static int is_zip(const char *path) {
    const size_t n = path ? strlen(path) : 0;
    return n >= 4 && strcmp(path + n - 4, ".zip") == 0;
}

int ct_bundle_is_asked(const struct ct_arguments *o) {
    return o->command == CT_COMMAND_bundle ||
           (o->command == CT_COMMAND_copy && !o->seal && (o->path_count > 1 || is_zip(o->output)));
}

static int check_request(const struct ct_arguments *o, struct ct_error *error) {
    if (!o->path_count || !o->output)
        return ct_error_set(error, CT_EXIT_USAGE, "%s: name %s", ct_argument_table_name(o->command),
                            o->path_count ? "the new file with --output=FILE.zip" : "traces");
    if (o->log[0] && o->level == CT_SCRUB_STRICT)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "--log: with --scrub=strict no text of a log may be in the bundle");
    if (!is_zip(o->output))
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%.400s: the file is a zip file (each process keeps its own trace in "
                            "it); name it FILE.zip",
                            o->output);
    for (int i = 0; i < o->path_count; i++) {
        if (strcmp(o->paths[i], "-") == 0)
            return ct_error_set(error, CT_EXIT_USAGE, "%s reads traces more than once; name files",
                                ct_argument_table_name(o->command));
        if (ct_new_trace_check_output(o->paths[i], o, error))
            return -1;
    }
    return 0;
}

static void print_json(const struct ct_bundle *b) {
    struct ct_json json = {.out = stdout}, *j = &json;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", "cutrace.bundle/2");
    ct_json_bytes(j, "output", b->options->output, strlen(b->options->output));
    ct_json_number(j, "bytes", b->bytes);
    add_contents(j, b);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

static void print_text(const struct ct_bundle *b) {
    const int n = b->options->path_count;
    char cut[200];
    fputs("wrote ", stdout);
    ct_utf8_print_sanitized(stdout, b->options->output, strlen(b->options->output));
    printf(" (%s, %d trace%s)\n", ct_human_bytes(b->bytes, b->options->units).text, n,
           n == 1 ? "" : "s");
    if (ct_bundle_describe_cut(b, cut, sizeof cut))
        printf("cut to fit: %s\n", cut);
    if (b->scrub.level == CT_SCRUB_NO)
        puts("names are as recorded: users, hosts and folders can be read in it");
    else
        printf("names of users, hosts and projects are replaced (--scrub=%s; no: keep them)\n",
               ct_scrub_level_name(b->scrub.level));
    if (b->logs.count)
        printf("lines of the log are in it as log-1.txt%s: what requests and answers say is not "
               "replaced\n",
               b->logs.count > 1 ? " and log-2.txt" : "");
    puts("attach it to the bug report, and paste its summary.md");
}

static void print(const struct ct_bundle *b) {
    const struct ct_copy_result r = {.options = b->options,
                                     .scrub = &b->scrub,
                                     .bytes = b->bytes,
                                     .parts = b->parts,
                                     .count = (size_t)b->options->path_count};
    if (b->has_texts && b->options->json)
        print_json(b);
    else if (b->has_texts)
        print_text(b);
    else
        ct_copy_result_print(&r, stdout);
}

static void begin(struct ct_bundle *b, const struct ct_arguments *o,
                  const struct ct_phase_rules *rules) {
    *b = (struct ct_bundle){
        .options = o, .rules = rules, .has_texts = o->command == CT_COMMAND_bundle};
    ct_scrub_init(&b->scrub, o->level, o->salt, o->words);
    b->traces = ct_heap_alloc_zeroed((size_t)o->path_count, sizeof *b->traces);
    b->parts = ct_heap_alloc_zeroed((size_t)o->path_count, sizeof *b->parts);
    for (int i = 0; i < o->path_count; i++) {
        b->traces[i].copy.fd = -1;
        (void)snprintf(b->traces[i].name, sizeof b->traces[i].name, "trace-%d.zst", i + 1);
    }
}

// The zip file of `bundle` is named after the first trace.
static int name_output(struct ct_arguments *o, char *name, size_t size, struct ct_error *error) {
    if (o->output || o->command != CT_COMMAND_bundle || !o->path_count)
        return 0;
    if (ct_output_name(o, o->paths[0], ".zip", name, size, error))
        return -1;
    o->output = name;
    return 0;
}

int ct_bundle_write(const struct ct_arguments *asked, const struct ct_phase_rules *rules) {
    struct ct_arguments named = *asked;
    const struct ct_arguments *const o = &named;
    char name[512];
    struct ct_error error;
    struct ct_bundle b;
    if (name_output(&named, name, sizeof name, &error) || check_request(o, &error)) {
        ct_terminal_warn(error.text);
        return error.status;
    }
    begin(&b, o, rules);
    const int rc = learn(&b, &error) || make_fitting(&b, &error) || write_file(&b, &error);
    if (rc)
        ct_terminal_warn(error.text);
    else
        print(&b);
    close_copies(&b);
    for (int i = 0; i < o->path_count; i++)
        ct_copy_part_free(&b.parts[i]);
    free(b.parts);
    ct_bundle_texts_free(&b);
    ct_bundle_logs_free(&b.logs);
    ct_scrub_free(&b.scrub);
    // (the traces stay: their names are those of sources)
    return rc ? (int)error.status : CT_EXIT_OK;
}

int ct_view_bundle(struct ct_view *v) {
    return ct_bundle_write(v->options, NULL);
}
