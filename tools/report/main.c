// SPDX-License-Identifier: Apache-2.0
// cutrace-report: from the command line to the views.
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "licenses.h"
#include "version.h"
#include "views.h"

static int (*const views[CT_COMMANDS])(struct ct_view *) = {
#define CT_COMMAND(name, help) ct_view_##name,
#include "options.def"
};

static void put_line(const char *text) {
    ct_progress_clear();
    fputs("cutrace-report: ", stderr);
    ct_put_clean(stderr, text, strlen(text));
    fputc('\n', stderr);
}

// One line for a trace that is not what was written.
static void warn(const struct ct_trace *t) {
    struct ct_error e;
    const struct ct_index *x = &t->index;
    if (x->damages) {
        ct_fail(&e, CT_OK, "warning: %s: offset %" PRIu64 ": %s%s; everything else is reported",
                t->source.name, x->damage[0].offset, x->damage[0].what,
                x->damages > 1 ? " (the first of several places)" : "");
        put_line(e.text);
    } else if (x->missing) {
        ct_fail(&e, CT_OK, "warning: %s: %" PRIu64 " chunks are missing; the rest is reported",
                t->source.name, x->missing);
        put_line(e.text);
    }
}

static void set_range(struct ct_view *v) {
    const struct ct_options *o = v->options;
    const uint64_t start = v->trace->start_ns;
    v->from_ns = o->have_from ? start + o->from_ns : 0;
    v->to_ns = o->have_to ? start + o->to_ns : UINT64_MAX;
    if (o->have_from && v->from_ns < start)
        v->from_ns = UINT64_MAX;
    if (o->have_to && v->to_ns < start)
        v->to_ns = UINT64_MAX;
}

static int report(const struct ct_options *o, const struct ct_term *term, const char *path) {
    struct ct_trace trace = {.details = o->command == CT_COMMAND_dump, .progress = ct_progress};
    struct ct_sites sites;
    struct ct_error error;
    int status;
    if (ct_trace_open(&trace, path, &error)) {
        put_line(error.text);
        status = error.status;
    } else {
        struct ct_view v = {
            .options = o, .term = term, .trace = &trace, .sites = &sites, .out = stdout};
        ct_sites_init(&sites, &trace.names);
        set_range(&v);
        warn(&trace);
        status = views[o->command](&v);
        ct_sites_free(&sites);
        if (!status && o->strict && !ct_trace_whole(&trace))
            status = CT_INCOMPLETE;
    }
    ct_progress_clear();
    ct_trace_close(&trace);
    return status;
}

static int report_all(const struct ct_options *o, const struct ct_term *term) {
    const int list = o->json && o->path_count > 1 && o->command != CT_COMMAND_dump;
    int status = CT_OK;
    if (list)
        putchar('[');
    for (int i = 0; i < o->path_count; i++) {
        if (list && i)
            putchar(',');
        if (!o->json && o->path_count > 1 && o->command != CT_COMMAND_dump) {
            fputs(i ? "\n" : "", stdout);
            printf("%s== ", term->bold);
            ct_put_clean(stdout, o->paths[i], strlen(o->paths[i]));
            printf(" ==%s\n", term->reset);
        }
        fflush(stdout);
        const int one = report(o, term, o->paths[i]);
        if (list && one == CT_BAD_TRACE)
            fputs("null", stdout);
        status = status > one ? status : one;
    }
    if (list)
        fputs("]\n", stdout);
    return status;
}

int main(int argc, char **argv) {
    struct ct_options o;
    struct ct_term term;
    struct ct_error error;
    // A reader that has seen enough ends us silently, whatever the parent process ignores.
    signal(SIGPIPE, SIG_DFL);
    if (ct_options_parse(&o, argc, argv, &error)) {
        put_line(error.text);
        return error.status;
    }
    if (o.help)
        ct_options_help(stdout);
    else if (o.version)
        printf("cutrace-report %s, reads trace format up to version %d\n", CT_VERSION,
               CT_FORMAT_VERSION);
    else if (o.licenses)
        ct_licenses(stdout);
    int status = CT_OK;
    if (!o.help && !o.version && !o.licenses) {
        ct_term_init(&term, &o);
        ct_progress_init(&o);
        ct_term_pager(&term, &o);
        status = report_all(&o, &term);
    }
    if (fflush(stdout) || ferror(stdout)) {
        put_line("cannot write the output");
        status = CT_OUTPUT;
    }
    ct_term_end();
    return status;
}
