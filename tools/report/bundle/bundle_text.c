// SPDX-License-Identifier: Apache-2.0
#include "bundle/bundle_text.h"

#include <inttypes.h>
#include <string.h>

#include "answer/companions.h"
#include "answer/view_scan.h"
#include "base/utf8.h"
#include "base/version.h"
#include "copy/zip_write.h"
#include "page/page.h"
#include "page/page_bundle.h"
#include "print/recorder_line.h"
#include "print/trace_state.h"
#include "question/question.h"
#include "views/processes.h"
#include "views/views.h"

enum { SUMMARY_LINES = 25, RECORDER_LINES = 3 }; // summary.md has at most 60

static const struct ct_terminal terminal = {
    .utf8 = 1, .width = 100, .bold = "", .red = "", .dim = "", .reset = ""};

static FILE *open_text(struct ct_bundle_text *t) {
    FILE *out = ct_heap_open_text(&t->at, &t->bytes);
    return out;
}

// The options of a view of the copies.
static struct ct_arguments make_options(const struct ct_bundle *b, enum ct_command command,
                                        int json) {
    struct ct_arguments o = {.command = command,
                             .have_command = 1,
                             .json = json,
                             .device = -1,
                             .units = b->options->units,
                             .output = "report.html",
                             .force = 1};
    o.path_count = b->options->path_count;
    o.paths = ct_heap_alloc_zeroed((size_t)o.path_count, sizeof *o.paths);
    for (int i = 0; i < o.path_count; i++)
        o.paths[i] = b->traces[i].name;
    for (int i = 0; i < b->logs.count; i++)
        o.log[i] = b->logs.list[i].path;
    return o;
}

// Runs a view of a copy.
static int show(const struct ct_bundle *b, const struct ct_arguments *o, int i,
                int (*view)(struct ct_view *), struct ct_page *page, FILE *out) {
    struct ct_trace trace = {.no_journal = 1};
    struct ct_companions companions;
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_error error;
    if (ct_trace_open(&trace, o->paths[i], &error) || ct_companions_read(o, &companions, &error)) {
        ct_terminal_warn(error.text);
        ct_trace_close(&trace);
        return -1;
    }
    ct_companions_choose_lines(&companions, &trace);
    struct ct_view v = {.options = o,
                        .terminal = &terminal,
                        .trace = &trace,
                        .sites = &sites,
                        .phases = &phases,
                        .to_ns = UINT64_MAX,
                        .out = out,
                        .companions = &companions,
                        .processes = page && page->has_processes ? &page->processes.all : NULL,
                        .process = (size_t)i,
                        .page = page};
    ct_call_sites_init(&sites, &trace.definitions);
    ct_phases_init(&phases, &trace.definitions, b->rules);
    if (!page && !o->json) {
        ct_trace_state_print_incomplete(&v);
        ct_trace_state_print_trimmed(&v);
        ct_trace_state_print_estimate(&v);
    }
    (void)view(&v);
    ct_phases_free(&phases);
    ct_call_sites_free(&sites);
    ct_companions_free(&companions);
    ct_trace_close(&trace);
    return 0;
}

// The first screen: of one trace, or the table of several.
static int print_summary(const struct ct_bundle *b, int json, FILE *to) {
    struct ct_arguments o = make_options(b, CT_COMMAND_summary, json);
    struct ct_processes_shown s;
    struct ct_error error;
    FILE *out = json ? to : ct_terminal_open_text(&terminal, to);
    int rc = 0;
    if (o.path_count == 1) {
        rc = show(b, &o, 0, ct_view_summary, NULL, out);
    } else if ((rc = ct_processes_read(&s, &o, &terminal, b->rules, NULL, &error)) == 0) {
        s.out = out;
        if (json)
            ct_processes_json_print(&s);
        else
            ct_processes_text_print(&s);
        ct_processes_close(&s);
    }
    if (out != to)
        fclose(out);
    free(o.paths);
    return rc;
}

// `summary --json` of one of several traces.
static int print_summary_of(const struct ct_bundle *b, int i, FILE *to) {
    struct ct_arguments o = make_options(b, CT_COMMAND_summary, 1);
    const int rc = show(b, &o, i, ct_view_summary, NULL, to);
    free(o.paths);
    return rc;
}

static int make_page(const struct ct_bundle *b, struct ct_bundle_text *to, struct ct_error *error) {
    struct ct_arguments o = make_options(b, CT_COMMAND_html, 0);
    struct ct_page page;
    int rc = ct_page_begin(&page, &o, b->rules, error);
    for (int i = 0; i < o.path_count && !rc; i++)
        rc = show(b, &o, i, ct_view_html, &page, NULL);
    if (!rc) {
        FILE *out = open_text(to);
        ct_page_print(&page, out);
        fclose(out);
    }
    ct_page_free(&page);
    free(o.paths);
    return rc;
}

// ---- Markdown -----------------------------------------------------------------------------------

int ct_bundle_describe_cut(const struct ct_bundle *b, char *to, size_t size) {
    uint64_t before = 0, after = 0;
    for (int i = 0; i < b->options->path_count; i++) {
        before += b->traces[i].copy.copied.before;
        after += b->traces[i].copy.copied.after;
    }
    if (!before && !after)
        return 0;
    const struct ct_human_text all = ct_human_count(before);
    (void)snprintf(to, size,
                   "%s event%s before and %s after the failure were left out; the traces begin "
                   "with the exact state there",
                   all.text, ct_human_plural(before), ct_human_count(after).text);
    return 1;
}

// What a text in a fence may not have is its fence.
static void print_fenced(FILE *out, const struct ct_bundle_text *text) {
    const char *at = text->at, *end = at + text->bytes;
    int lines = 0;
    fputs("~~~text\n", out);
    for (; at < end && lines < SUMMARY_LINES; lines++) {
        const char *behind = memchr(at, '\n', (size_t)(end - at));
        behind = behind ? behind : end;
        fprintf(out, "%s%.*s\n", strncmp(at, "~~~", 3) == 0 ? " " : "", (int)(behind - at), at);
        at = behind + (behind < end);
    }
    if (at < end)
        fputs("... (summary.json and report.html have all of it)\n", out);
    fputs("~~~\n", out);
}

static int view_recorder_line(struct ct_view *v) {
    char line[2048];
    struct ct_scan s;
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    ct_question_scan(&s, v->trace, &request, NULL);
    const struct ct_oom_event *crossing = ct_scan_find_crossing(&s);
    if (crossing &&
        ct_recorder_line_format(v, crossing, ct_incidents_is_retried(&s.incidents, crossing), line,
                                sizeof line))
        fprintf(v->out, "%s\n", line);
    ct_scan_free(&s);
    return CT_EXIT_OK;
}

// The lines of all traces in which a request failed, in a text that the caller frees.
static int read_recorder_lines(const struct ct_bundle *b, struct ct_bundle_text *lines) {
    struct ct_arguments o = make_options(b, CT_COMMAND_summary, 1);
    FILE *out = open_text(lines);
    int rc = 0;
    for (int i = 0; i < o.path_count && !rc; i++)
        rc = show(b, &o, i, view_recorder_line, NULL, out);
    ct_heap_close_text(out);
    free(o.paths);
    return rc;
}

// By which the trace of a line in a log is found.
static void print_recorder_lines(FILE *out, const struct ct_bundle_text *lines) {
    const char *at = lines->at, *const end = at + lines->bytes, *behind;
    size_t more = 0;
    if (at == end)
        return;
    fputs("\nAt the failure the recorder wrote to stderr (derived from the trace):\n~~~text\n",
          out);
    for (int i = 0; at < end; i++, at = behind) {
        behind = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
        if (i < RECORDER_LINES)
            fprintf(out, "%.*s", (int)(behind - at), at);
        else
            more++;
    }
    if (more)
        fprintf(out, "... (%zu more trace%s)\n", more, ct_human_plural(more));
    fputs("~~~\n", out);
}

// A value of a trace in a table: no markup.
static void print_cell(FILE *out, const struct ct_string *value) {
    char text[200];
    ct_utf8_sanitize(text, sizeof text, value->at, value->length);
    for (const char *p = text; *p; p++)
        fprintf(out, strchr("|`*_<>[]\\&~#", *p) ? "\\%c" : "%c", *p);
}

static void print_versions(const struct ct_bundle *b, FILE *out) {
    static const char *const facts[][2] = {{"GPU", "device.0.name"},
                                           {"NVIDIA driver", "nvidia.driver_version"},
                                           {"CUDA of the driver", "cuda.driver_version"},
                                           {"PyTorch", "torch.version"},
                                           {"vLLM", "version.vllm"},
                                           {"Python", "python.version"},
                                           {"kernel", "host.kernel"},
                                           {"recorded by cutrace", "cutrace.version"}};
    struct ct_trace t = {.no_journal = 1};
    struct ct_error error;
    if (ct_trace_open(&t, b->traces[0].name, &error) == 0) {
        fputs("\n| | |\n|---|---|\n", out);
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
            const struct ct_string *value = ct_definitions_info(&t.definitions, facts[i][1]);
            if (!value)
                continue;
            fprintf(out, "| %s | ", facts[i][0]);
            print_cell(out, value);
            fputs(" |\n", out);
        }
    }
    ct_trace_close(&t);
}

static void print_details(const struct ct_bundle *b, FILE *out) {
    static const char *const logs[] = {"", ", the log (`log-1.txt`)",
                                       ", the logs (`log-1.txt`, `log-2.txt`)"};
    char cut[200];
    const int n = b->options->path_count;
    fprintf(out,
            "\n<details><summary>What is attached, and how to read it</summary>\n\n"
            "The zip file has %d trace%s, `report.html` (open it in a browser; it needs no "
            "network)%s and `summary.json`.\n`cutrace-report FILE.zip` reads it, as do its other "
            "commands (`top`, `oom`, `timeline`, `frag`, ...).\n\n",
            n, n == 1 ? "" : "s", logs[b->logs.count]);
    if (ct_bundle_describe_cut(b, cut, sizeof cut))
        fprintf(out, "- Cut to fit: %s.\n", cut);
    if (b->scrub.level == CT_SCRUB_NO)
        fputs("- Names are as recorded.\n", out);
    else
        fprintf(out,
                "- Names of users, hosts and projects are replaced by pseudonyms (level %s); the "
                "same name has the same one.\n",
                ct_scrub_level_name(b->scrub.level));
    fputs("- Made by cutrace-report " CT_VERSION ".\n\n</details>\n", out);
}

static int make_markdown(const struct ct_bundle *b, struct ct_bundle_text *to) {
    struct ct_bundle_text summary = {.bytes = 0}, lines = {.bytes = 0};
    FILE *out = open_text(&summary);
    int rc = print_summary(b, 0, out);
    ct_heap_close_text(out);
    if (!rc)
        rc = read_recorder_lines(b, &lines);
    if (rc) {
        free(summary.at);
        free(lines.at);
        return rc;
    }
    out = open_text(to);
    fputs("### GPU memory, recorded by cutrace\n\n", out);
    print_fenced(out, &summary);
    print_recorder_lines(out, &lines);
    print_versions(b, out);
    print_details(b, out);
    ct_heap_close_text(out);
    free(summary.at);
    free(lines.at);
    return 0;
}

// ---- all ----------------------------------------------------------------------------------------

// Looks for names in what is written, but not in the page's own script and style.
static const char *find_left(const struct ct_bundle *b, const struct ct_bundle_text *t) {
    const char *at = t->at, *end = at + t->bytes, *left = NULL;
    if (b->scrub.level == CT_SCRUB_NO)
        return NULL;
    while (at < end && !left) {
        const char *style = memmem(at, (size_t)(end - at), ct_page_style, ct_page_style_bytes);
        const char *script = memmem(at, (size_t)(end - at), ct_page_script, ct_page_script_bytes);
        const char *own = style ? style : script;
        left = ct_scrub_find(&b->scrub, at, (size_t)((own ? own : end) - at), 0);
        at = own ? own + (style ? ct_page_style_bytes : ct_page_script_bytes) : end;
    }
    return left;
}

void ct_bundle_text_free(struct ct_bundle_text *t) {
    free(t->at);
    free(t->deflated.at);
}

void ct_bundle_texts_free(struct ct_bundle *b) {
    for (size_t i = 0; i < b->text_count; i++)
        ct_bundle_text_free(&b->texts[i]);
    free(b->texts);
    b->texts = NULL;
    b->text_count = 0;
}

static struct ct_bundle_text *add_text(struct ct_bundle *b, const char *name) {
    b->texts = ct_heap_resize(b->texts, b->text_count + 1, sizeof *b->texts);
    struct ct_bundle_text *t = &b->texts[b->text_count++];
    *t = (struct ct_bundle_text){.at = NULL};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static int add_summary(struct ct_bundle *b) {
    struct ct_bundle_text *t = add_text(b, "summary.json");
    FILE *out = open_text(t);
    const int rc = print_summary(b, 1, out);
    ct_heap_close_text(out);
    return rc;
}

// Of several traces each has its own, named like the trace.
static int add_summaries(struct ct_bundle *b) {
    int rc = add_summary(b);
    for (int i = 0; i < b->options->path_count && b->options->path_count > 1 && !rc; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "summary-%d.json", i + 1);
        FILE *out = open_text(add_text(b, name));
        rc = print_summary_of(b, i, out);
        fclose(out);
    }
    return rc;
}

static void add_logs(struct ct_bundle *b) {
    for (int i = 0; i < b->logs.count; i++) {
        const struct ct_buffer *text = &b->logs.list[i].text;
        FILE *out = open_text(add_text(b, b->logs.list[i].name));
        (void)fwrite(text->at, 1, text->n, out);
        fclose(out);
    }
}

int ct_bundle_texts_make(struct ct_bundle *b, struct ct_error *error) {
    ct_bundle_texts_free(b);
    if (make_markdown(b, add_text(b, "summary.md")) || add_summaries(b) ||
        make_page(b, add_text(b, "report.html"), error))
        return ct_error_set(error, CT_EXIT_OUTPUT,
                            "%.300s: nothing is written: a copy is not readable",
                            b->options->output);
    add_logs(b);
    for (size_t i = 0; i < b->text_count; i++) {
        struct ct_bundle_text *t = &b->texts[i];
        const char *left = find_left(b, t);
        ct_zip_deflate(t->at, t->bytes, &t->deflated);
        if (left)
            return ct_error_set(error, CT_EXIT_OUTPUT,
                                "%.300s: nothing is written: %.100s is still in %s; --scrub=no "
                                "keeps names",
                                b->options->output, left, t->name);
    }
    return 0;
}
