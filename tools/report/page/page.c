// SPDX-License-Identifier: Apache-2.0
#include "page/page.h"

#include <inttypes.h>
#include <string.h>

#include "answer/new_trace.h"
#include "base/utf8.h"
#include "page/html.h"
#include "page/page_bundle.h"
#include "print/document.h"
#include "read/new_file.h"
#include "views/processes.h"
#include "views/views.h"

static const struct {
    const char *id, *title;
} sections[] = {
#define CT_PAGE_SECTION(ID, id, title) {id, title},
#include "page/page_sections.def"
};

// ---- begin -------------------------------------------------------------------------------------

static void open_part(struct ct_page_part *part) {
    part->out = ct_heap_open_text(&part->text, &part->bytes);
}

static int read_together(struct ct_page *p, const struct ct_phase_rules *rules,
                         struct ct_error *error) {
    if (p->options->from.kind != CT_TIME_NONE || p->options->to.kind != CT_TIME_NONE)
        return ct_error_set(error, CT_EXIT_USAGE,
                            "%s is about one process, and several traces are one page; name one "
                            "trace",
                            p->options->from.kind != CT_TIME_NONE ? "--from" : "--to");
    p->processes_options = *p->options;
    p->processes_options.command = CT_COMMAND_summary;
    if (ct_processes_read(&p->processes, &p->processes_options, &ct_page_terminal, rules, NULL,
                          error))
        return -1;
    // A page goes to others: it names the files without their folders.
    for (size_t i = 0; i < p->processes.all.count; i++) {
        const char *slash = strrchr(p->processes.traces[i].path, '/');
        p->processes.traces[i].path = slash ? slash + 1 : p->processes.traces[i].path;
    }
    p->has_processes = 1;
    return 0;
}

int ct_page_begin(struct ct_page *p, const struct ct_arguments *o,
                  const struct ct_phase_rules *rules, struct ct_error *error) {
    *p = (struct ct_page){.options = o};
    if (ct_output_name(o, o->path_count ? o->paths[0] : "-", ".html", p->path, sizeof p->path,
                       error))
        return -1;
    if (o->path_count > 1 && read_together(p, rules, error))
        return -1;
    for (unsigned i = 0; i < CT_PAGE_SECTIONS; i++)
        open_part(&p->section[i]);
    open_part(&p->data);
    p->data_stream = ct_html_open_json(p->data.out);
    p->json.out = p->data_stream;
    ct_json_open(&p->json, NULL, '{');
    static const char *const units[] = {
        [CT_UNITS_IEC] = "iec", [CT_UNITS_SI] = "si", [CT_UNITS_BYTES] = "bytes"};
    ct_json_text(&p->json, "schema", "cutrace.page/1");
    ct_json_text(&p->json, "units", units[o->units]);
    ct_json_open(&p->json, "traces", '[');
    return 0;
}

// ---- a trace -----------------------------------------------------------------------------------

// "python3, PID 4711, rank 0", sanitized.
static char *make_title(const struct ct_view *v) {
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_string *exe = ct_definitions_info(n, "process.exe"),
                           *rank = ct_definitions_info(n, "process.rank");
    uint64_t pid;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = ct_heap_open_text(&text, &bytes);
    const char *program = v->processes ? ct_process_program(&v->processes->list[v->process]) : NULL;
    if (program) // as their table calls it
        ct_utf8_print_sanitized(out, program, strlen(program));
    else if (exe)
        ct_utf8_print_sanitized(out, exe->at, exe->length);
    else
        fputs("a process", out);
    if (ct_definitions_info_number(n, "process.pid", &pid))
        fprintf(out, ", PID %" PRIu64, pid);
    if (rank) {
        fputs(", rank ", out);
        ct_utf8_print_sanitized(out, rank->at, rank->length);
    }
    ct_heap_close_text(out);
    return text;
}

static void set_title(struct ct_page *p, const struct ct_summary *s, const char *title) {
    const struct ct_verdicts *l = &s->verdicts;
    const char *what = l->count ? ct_scenario_title(l->list[0].scenario) : "GPU memory";
    if (!p->title && asprintf(&p->title, "%s: %s", title, what) < 0)
        ct_heap_exhausted();
}

int ct_view_html(struct ct_view *v) {
    struct ct_page *p = v->page;
    struct ct_page_reading *r = ct_heap_alloc_zeroed(1, sizeof *r);
    char *title = make_title(v);
    ct_page_reading_begin(r, v);
    set_title(p, &r->summary, title);
    ct_page_sections_begin(p, v, &r->summary, title);
    ct_page_reading_finish(r, v);
    ct_page_sections_finish(p, r);
    ct_page_data_write_trace(&p->json, v, r, title, &p->strings);
    ct_page_reading_free(r);
    free(r);
    free(title);
    p->traces++;
    return CT_EXIT_OK;
}

// ---- end ---------------------------------------------------------------------------------------

static void write_head(FILE *out, const struct ct_page *p) {
    fprintf(out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
            "'sha256-%s'; script-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action "
            "'none'\">\n<title>",
            ct_page_style_hash, ct_page_script_hash);
    ct_html_text(out, p->title ? p->title : "GPU memory");
    fputs("</title>\n<style>", out);
    fwrite(ct_page_style, 1, ct_page_style_bytes, out);
    fputs("</style>\n</head>\n<body>\n<main>\n", out);
}

// A section of which no trace has anything is left out.
static int is_shown(const struct ct_page *p, unsigned section) {
    return p->section[section].bytes != 0;
}

static void write_body(FILE *out, const struct ct_page *p) {
    for (unsigned i = 0; i < CT_PAGE_SECTIONS; i++) {
        if (!is_shown(p, i))
            continue;
        fprintf(out, "<section id=\"%s\">\n", sections[i].id);
        if (*sections[i].title)
            fprintf(out, "<h2>%s</h2>\n", sections[i].title);
        fwrite(p->section[i].text, 1, p->section[i].bytes, out);
        fputs("</section>\n", out);
    }
    fputs("</main>\n<script type=\"application/json\" id=\"data\">", out);
    fwrite(p->data.text, 1, p->data.bytes, out);
    fputs("</script>\n<script>", out);
    fwrite(ct_page_script, 1, ct_page_script_bytes, out);
    fputs("</script>\n</body>\n</html>\n", out);
}

static void close_parts(struct ct_page *p) {
    ct_json_close(&p->json, ']');
    if (p->has_processes) {
        ct_page_sections_write_processes(p);
        ct_json_key(&p->json, "processes", strlen("processes"));
        p->processes.out = p->data_stream;
        ct_processes_json_print(&p->processes);
        p->json.comma = 1;
    } else {
        ct_json_null(&p->json, "processes");
    }
    ct_json_open(&p->json, "strings", '[');
    for (size_t i = 0; i < p->strings.count; i++)
        ct_json_text(&p->json, NULL, p->strings.list[i]);
    ct_json_close(&p->json, ']');
    ct_json_close(&p->json, '}');
    fclose(p->data_stream);
    fclose(p->data.out);
    for (unsigned i = 0; i < CT_PAGE_SECTIONS; i++)
        fclose(p->section[i].out);
}

static int write_file(const struct ct_page *p, uint64_t *bytes, struct ct_error *error) {
    struct ct_new_file file;
    char *text = NULL;
    size_t size = 0;
    FILE *out = ct_heap_open_text(&text, &size);
    write_head(out, p);
    write_body(out, p);
    ct_heap_close_text(out);
    const int rc = ct_new_file_open(&file, p->path) || ct_new_file_write(&file, text, size) ||
                   ct_new_file_commit(&file);
    free(text);
    *bytes = size;
    if (rc)
        *error = file.error;
    return rc ? -1 : 0;
}

void ct_page_print(struct ct_page *p, FILE *out) {
    close_parts(p);
    write_head(out, p);
    write_body(out, p);
}

static void print_done(const struct ct_page *p, uint64_t bytes) {
    if (p->options->json) {
        struct ct_json json = {.out = stdout}, *j = &json;
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "schema", "cutrace.html/2");
        ct_json_text(j, "output", p->path);
        ct_json_number(j, "bytes", bytes);
        ct_json_number(j, "traces", p->traces);
        ct_document_end(j);
        return;
    }
    fputs("wrote ", stdout);
    ct_utf8_print_sanitized(stdout, p->path, strlen(p->path));
    printf(" (%s, %u trace%s): open it in a browser\n",
           ct_human_bytes(bytes, p->options->units).text, p->traces, ct_human_plural(p->traces));
}

int ct_page_end(struct ct_page *p, struct ct_error *error) {
    uint64_t bytes;
    close_parts(p);
    if (!p->traces)
        return 0; // none could be read, which was said
    if (write_file(p, &bytes, error))
        return -1;
    if (strcmp(p->path, "-") != 0)
        print_done(p, bytes);
    return 0;
}

void ct_page_free(struct ct_page *p) {
    for (unsigned i = 0; i < CT_PAGE_SECTIONS; i++)
        free(p->section[i].text);
    free(p->data.text);
    free(p->title);
    ct_names_free(&p->strings);
    if (p->has_processes)
        ct_processes_close(&p->processes);
}
